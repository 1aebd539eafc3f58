//! Tests of a page without the log's time.

extern crate std;

use super::*;
use std::boxed::Box;
use std::vec::Vec;

impl<M: Memory> Memory for &M {
    fn load(&self, at: u32) -> u64 {
        (**self).load(at)
    }
    fn store(&self, at: u32, word: u64) {
        (**self).store(at, word);
    }
    fn swap(&self, at: u32, word: u64) -> u64 {
        (**self).swap(at, word)
    }
    fn cas(&self, at: u32, expected: u64, desired: u64) -> u64 {
        (**self).cas(at, expected, desired)
    }
    fn add(&self, at: u32, n: u64) -> u64 {
        (**self).add(at, n)
    }
}

pub(crate) fn memory() -> Box<[AtomicU64; N_WORDS]> {
    Box::new([const { AtomicU64::new(0) }; N_WORDS])
}

pub(crate) fn thread(id: u32) -> Thread {
    Thread { process: 7, id }
}

/// A process has loaded the library, and has ended.
pub(crate) fn begin<M: Memory>(page: &Page<M>) {
    let first = Thread { process: 9, id: 9 };
    page.bury(page.loaded(first, |_| true).unwrap(), first);
}

#[test]
fn a_page_of_another_version_is_refused() {
    let words = memory();
    assert!(Page::open(&*words).is_none());
    Page::make(&*words, true, 9);
    let page = Page::open(&*words).unwrap();
    assert_eq!((page.is_in_turns(), page.seed()), (true, Some(9)));
    words.store(0, FORMAT + 1);
    assert!(Page::open(&*words).is_none());
}

#[test]
fn w1_a_program_rests_when_all_its_threads_wait() {
    let words = memory();
    let page = Page::make(&*words, false, 0);
    assert_eq!(page.look(), Look::Moves, "no process has loaded the library");
    begin(&page);
    let first = page.claim(thread(1)).unwrap();
    page.begins();
    assert_eq!(page.look(), Look::Moves);
    page.enter(first, Wait::Descriptors);
    assert_eq!(page.look(), Look::Moves, "the second one has no slot yet");
    let second = page.claim(thread(2)).unwrap();
    page.has_begun();
    assert_eq!(page.look(), Look::Moves, "it runs");
    page.enter(second, Wait::Others);
    assert_eq!(page.look(), Look::Waits { ended: 0 });
    page.leave(first);
    assert_eq!(page.look(), Look::Moves);
    page.enter(first, Wait::Descriptors);
    assert_eq!(page.look(), Look::Waits { ended: 1 }, "a look before that is out of date");
    let seen: Vec<_> = page.threads().map(|(_, thread, waits)| (thread.id, waits)).collect();
    assert_eq!(seen, [(1, true), (2, false)]);
}

#[test]
fn w1_a_process_that_ends_runs_until_it_was_waited_for() {
    let words = memory();
    let page = Page::make(&*words, false, 0);
    begin(&page);
    let parent = page.claim(thread(1)).unwrap();
    page.enter(parent, Wait::Descriptors);
    let child = Thread { process: 8, id: 8 };
    let slot = page.claim(child).unwrap();
    assert!(page.is_running(slot) && !page.is_running(parent));
    assert_eq!(page.look(), Look::Moves);
    page.bury(slot, child);
    assert_eq!(page.look(), Look::Waits { ended: 0 });
    // The member finds the same a moment later.
    let next = page.claim(thread(2)).unwrap();
    assert_eq!(next, slot);
    page.enter(next, Wait::Others);
    page.bury(slot, child);
    assert_eq!(page.look(), Look::Waits { ended: 0 });
}

#[test]
fn w2_the_last_thread_that_waits_tells_the_member_once() {
    let words = memory();
    let page = Page::make(&*words, false, 0);
    begin(&page);
    let [first, second] = [1, 2].map(|id| page.claim(thread(id)).unwrap());
    assert!(!page.enter(first, Wait::Others));
    page.want();
    page.leave(first);
    assert!(!page.enter(first, Wait::Others), "the second one runs");
    assert!(page.enter(second, Wait::Others));
    page.leave(second);
    assert!(!page.enter(second, Wait::Others), "it was told");
}

#[test]
fn the_threads_of_a_program_that_has_become_another_are_gone() {
    let words = memory();
    let page = Page::make(&*words, false, 0);
    begin(&page);
    let _ended = [1, 2].map(|id| page.claim(thread(id)).unwrap());
    let other = page.claim(Thread { process: 8, id: 9 }).unwrap();
    page.enter(other, Wait::Others);
    // The first thread of the other program is seen to run all the time.
    assert_eq!(page.look(), Look::Moves);
    let first = page.loaded(thread(1), |_| true);
    assert_eq!(page.look(), Look::Moves);
    page.enter(first.unwrap(), Wait::Descriptors);
    assert_eq!(page.threads().count(), 2);
    assert_ne!(page.look(), Look::Moves);
}

/// As a library does that starts a thread when it is begun, before the preloaded one is.
#[test]
fn a_thread_that_a_library_has_started_keeps_its_slot() {
    let words = memory();
    let page = Page::make(&*words, false, 0);
    begin(&page);
    let [first, gone, started] = [1, 2, 3].map(|id| page.claim(thread(id)).unwrap());
    let again = page.claim(thread(1)).unwrap();
    page.enter(started, Wait::Others);
    assert_eq!(page.loaded(thread(1), |thread| thread.id == 2), Some(first));
    let numbers: Vec<_> = page.threads().map(|(slot, thread, _)| (slot, thread.id)).collect();
    assert_eq!(numbers, [(first, 1), (started, 3)]);
    assert_eq!([4, 5].map(|id| page.claim(thread(id)).unwrap()), [gone, again]);
    assert!(!page.is_running(started), "it says so itself");
}

#[test]
fn w4_threads_without_a_slot_are_never_taken_for_waiting_ones() {
    let words = memory();
    let page = Page::make(&*words, false, 0);
    begin(&page);
    for id in 1..=N_SLOTS {
        let slot = page.claim(thread(id)).unwrap();
        page.enter(slot, Wait::Others);
    }
    assert_eq!(page.look(), Look::Waits { ended: 0 });
    assert_eq!(page.claim(thread(1000)), None);
    assert_eq!(page.look(), Look::Moves);
}

#[test]
fn slots_of_threads_that_have_ended_or_died_are_used_again() {
    let words = memory();
    let page = Page::make(&*words, false, 0);
    begin(&page);
    let [first, second] = [1, 2].map(|id| page.claim(thread(id)).unwrap());
    page.enter(first, Wait::Others);
    page.enter(second, Wait::Others);
    page.release(first);
    assert_eq!(page.look(), Look::Waits { ended: 1 });
    assert_eq!(page.claim(thread(3)), Some(first));
    assert_eq!(page.look(), Look::Moves, "a thread that begins runs");
    page.bury(first, thread(3));
    page.bury(second, thread(9));
    assert_eq!(page.threads().count(), 1, "another thread has that slot");
}

#[test]
fn w5_a_thread_that_serves_and_sleeps_runs() {
    let words = memory();
    let page = Page::make(&*words, false, 0);
    begin(&page);
    let [serves, other] = [1, 2].map(|id| page.claim(thread(id)).unwrap());
    page.enter(other, Wait::Time);
    page.enter(serves, Wait::Time);
    assert_ne!(page.look(), Look::Moves, "a clock's thread");
    page.leave(serves);
    page.enter(serves, Wait::Descriptors);
    page.leave(serves);
    page.enter(serves, Wait::Time);
    assert_eq!(page.look(), Look::Moves, "it still does what it was asked");
    page.leave(serves);
    page.enter(serves, Wait::Others);
    assert_ne!(page.look(), Look::Moves);
}

/// W2 and W3 by threads: no notice is lost, and a held thread takes nothing.
#[test]
fn w3_a_held_program_that_waits_does_nothing() {
    let words = memory();
    let page = Page::make(&*words, true, 0);
    begin(&page);
    let slot = page.claim(thread(1)).unwrap();
    let (taken, is_over) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while is_over.load(SeqCst) == 0 {
                page.enter(slot, Wait::Descriptors);
                page.leave(slot);
                while page.is_held() {
                    std::thread::yield_now();
                }
                taken.fetch_add(1, SeqCst);
            }
        });
        let mut n_held = 0;
        while n_held < 40 {
            page.hold();
            if page.look() != Look::Moves {
                let before = taken.load(SeqCst);
                std::thread::yield_now();
                assert_eq!(taken.load(SeqCst), before, "W3");
                n_held += 1;
            }
            page.let_go();
            std::thread::yield_now();
        }
        is_over.store(1, SeqCst);
    });
    assert!(taken.load(SeqCst) > 0);
}

/// As `threads::load` of the preloaded library does: a program with so many threads that there is
/// no free slot becomes another one, and those threads have ended.
#[test]
fn w4_a_program_whose_threads_have_ended_by_becoming_another_finds_their_slots() {
    let words = memory();
    let page = Page::make(&*words, false, 0);
    begin(&page);
    for id in 1..=N_SLOTS {
        page.enter(page.claim(thread(id)).unwrap(), Wait::Others);
    }
    page.enter(page.loaded(thread(1), |_| true).unwrap(), Wait::Descriptors);
    assert_ne!(page.look(), Look::Moves, "its only thread waits");
}

#[test]
fn w4_a_thread_without_a_slot_is_forgotten_at_its_end() {
    let words = memory();
    let page = Page::make(&*words, false, 0);
    begin(&page);
    for id in 1..=N_SLOTS {
        page.enter(page.claim(thread(id)).unwrap(), Wait::Others);
    }
    assert_eq!(page.claim(thread(N_SLOTS + 1)), None);
    assert_eq!(page.look(), Look::Moves);
    page.ended_without_slot();
    assert_ne!(page.look(), Look::Moves, "the others wait");
}

/// Memory in which something happens behind the next look at one word.
struct Between<'a> {
    words: &'a [AtomicU64; N_WORDS],
    at: u32,
    happens: core::cell::RefCell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl Memory for Between<'_> {
    fn load(&self, at: u32) -> u64 {
        let word = self.words.load(at);
        if at == self.at
            && let Some(happens) = self.happens.borrow_mut().take()
        {
            happens();
        }
        word
    }
    fn store(&self, at: u32, word: u64) {
        self.words.store(at, word);
    }
    fn swap(&self, at: u32, word: u64) -> u64 {
        self.words.swap(at, word)
    }
    fn cas(&self, at: u32, expected: u64, desired: u64) -> u64 {
        self.words.cas(at, expected, desired)
    }
    fn add(&self, at: u32, n: u64) -> u64 {
        self.words.add(at, n)
    }
}

#[test]
fn w6_a_wait_is_not_ended_by_the_time_of_the_one_before() {
    let words = &*memory();
    let program = Page::make(words, false, 0);
    begin(&program);
    program.tell_time(100, |_| {});
    let slot = program.claim(thread(1)).unwrap();
    program.await_time(slot, 150, SLEEP);
    program.enter(slot, Wait::Time);
    program.tell_time(200, |_| {}); // it is woken, and has not left yet
    assert!(!program.is_early(slot) && !program.waits_on(slot, SLEEP), "its time has come");
    // The member wakes it again, while the thread ends that wait and begins another one.
    let next = |until, word| {
        move || {
            let program = Page::open(words).unwrap();
            program.leave(slot);
            program.await_no_time(slot);
            program.await_time(slot, until, word);
            program.enter(slot, Wait::Time);
        }
    };
    let wake = |at, next: Box<dyn FnOnce() + '_>| {
        let happens = core::cell::RefCell::new(Some(next));
        Page::open(Between { words, at, happens }).unwrap().wake(|_| {});
    };
    wake(slot.at() + 2, Box::new(next(9000, SLEEP)));
    assert_eq!(program.end(slot), End::Time, "the member cannot tell them apart");
    assert!(program.is_early(slot) && program.waits_on(slot, SLEEP), "the thread can");
    assert_eq!(program.end(slot), End::Open(SLEEP));
    program.tell_time(9000, |_| {});
    assert!(!program.waits_on(slot, SLEEP) && program.end(slot) == End::Time);
    // One that looks at descriptors itself would not be woken by its word.
    program.await_time(slot, 8000, SLEEP);
    wake(slot.end_at(), Box::new(next(9500, PIPE)));
    assert_eq!(program.end(slot), End::Open(PIPE));
}
