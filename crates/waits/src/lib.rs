//! The page in which a program says whether it is at rest: the preloaded library writes it, the
//! member reads it. Layout and rules alone; the side that maps the page hands in its words
//! ([`Memory`]).
//!
//! ```text
//! word 0      the format and its version
//!      1      1: the member wants to be told when the program comes to rest
//!      2      1: held, threads that leave a wait stay where they are
//!      3      the waits that have ended
//!      4      threads and processes that begin, and have no slot yet
//!      5      the slots that were ever in use
//!      6      threads that found no slot
//!      7      the processes that have loaded the library
//!      8      1: descriptors are looked at in turns, which can be held
//!      9      threads that did not stay where they were held, since they were held for too long
//!      10     the seed of what the program draws; 0 for the kernel's chance
//!      64..   the slots: process << 32 | thread, then state | waits that have ended << 8
//! ```
//!
//! - W1 a thread that does something has a slot that says so, or is counted as one that begins. It
//!   says that it waits before it waits, and that it runs before it returns from a wait. Then no
//!   thread has done anything between two looks that find all threads waiting and the same number
//!   of ended waits ([`Look`]).
//!   A process that ends says nothing: its threads run until its parent has waited for it, so that
//!   the parent is seen to do what it does about that.
//! - W2 the member asks to be told, and then looks; a thread says that it waits, and then looks
//!   whether the member asks. Both are sequentially consistent, so one of the two sees the other.
//! - W3 the member holds, and then looks; a thread says that it runs, and then looks whether it is
//!   held. So a held program of which all threads wait sees nothing before it is released.
//! - W4 threads without a slot, or of which nothing is known, are never taken for waiting ones: the
//!   program is never at rest then, and the member falls back on its silence.
//! - W5 a thread that has waited for descriptors and sleeps for a time is in the middle of
//!   something: it counts as one that runs. One that never did is a background thread, and waits.
#![no_std]
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The words of a page.
pub const N_WORDS: usize = 1024;
/// The bytes of a page.
pub const N_BYTES: usize = N_WORDS * 8;
/// The most threads of a program.
pub const N_SLOTS: u32 = 480;

/// The variable of the environment with the page's path.
pub const PAGE: &str = "GREGALE_PAGE";
/// What the path of the socket for notices has behind the page's.
pub const NOTICES: &str = "n";

const FORMAT: u64 = u64::from_le_bytes(*b"grglWAI1");

const AT_FORMAT: u32 = 0;
const AT_WANTED: u32 = 1;
const AT_HELD: u32 = 2;
const AT_ENDED: u32 = 3;
const AT_BEGINNING: u32 = 4;
const AT_SLOTS: u32 = 5;
const AT_WITHOUT_SLOT: u32 = 6;
const AT_PROCESSES: u32 = 7;
const AT_IN_TURNS: u32 = 8;
const AT_ESCAPED: u32 = 9;
const AT_SEED: u32 = 10;
const AT_FIRST_SLOT: u32 = 64;

const RUNS: u64 = 1;
/// The name in a slot that is about to be free.
const BURIED: u64 = 1;
/// The bit of a state that says that the thread has waited for descriptors.
const SERVES: u64 = 0x80;
const KIND: u64 = 0x7f;
const ENDED_SHIFT: u32 = 8;
const _: () = assert!(AT_FIRST_SLOT as usize + 2 * N_SLOTS as usize == N_WORDS);

/// The words of a page, in memory of several processes. Each call is sequentially consistent.
pub trait Memory {
    /// A word.
    fn load(&self, at: u32) -> u64;
    /// Sets a word.
    fn store(&self, at: u32, word: u64);
    /// Sets a word; returns the one before.
    fn swap(&self, at: u32, word: u64) -> u64;
    /// Sets a word if it is `expected`; returns the one before.
    fn cas(&self, at: u32, expected: u64, desired: u64) -> u64;
    /// Adds to a word, wrapping; returns the one before.
    fn add(&self, at: u32, n: u64) -> u64;
}

impl Memory for [AtomicU64; N_WORDS] {
    fn load(&self, at: u32) -> u64 {
        self[at as usize].load(SeqCst)
    }

    fn store(&self, at: u32, word: u64) {
        self[at as usize].store(word, SeqCst);
    }

    fn swap(&self, at: u32, word: u64) -> u64 {
        self[at as usize].swap(word, SeqCst)
    }

    fn cas(&self, at: u32, expected: u64, desired: u64) -> u64 {
        match self[at as usize].compare_exchange(expected, desired, SeqCst, SeqCst) {
            Ok(before) | Err(before) => before,
        }
    }

    fn add(&self, at: u32, n: u64) -> u64 {
        self[at as usize].fetch_add(n, SeqCst)
    }
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Descriptors, a connection among them.
    Descriptors,
    /// Another thread, or a process.
    Others,
    /// Time alone.
    Time,
}

impl Wait {
    const fn state(self) -> u64 {
        match self {
            Wait::Descriptors => 2,
            Wait::Others => 3,
            Wait::Time => 4,
        }
    }
}

/// The place of a thread in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    /// The slot of this number, if there is one.
    pub fn numbered(number: u32) -> Option<Slot> {
        (number < N_SLOTS).then_some(Slot(number))
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }

    fn at(self) -> u32 {
        AT_FIRST_SLOT + 2 * self.0
    }
}

/// A thread of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its process.
    pub process: u32,
    /// Its own id.
    pub id: u32,
}

/// What a look at a page finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A thread runs, or it is not known.
    Moves,
    /// All threads have said that they wait.
    Waits {
        /// The waits that had ended before.
        ended: u64,
    },
}

/// The page of the module's text.
#[derive(Debug)]
pub struct Page<M>(M);

impl<M: Memory> Page<M> {
    /// The page in zeroed memory, which is made now.
    pub fn make(memory: M, in_turns: bool, seed: u64) -> Page<M> {
        memory.store(AT_IN_TURNS, u64::from(in_turns));
        memory.store(AT_SEED, seed);
        memory.store(AT_FORMAT, FORMAT);
        Page(memory)
    }

    /// The page in memory, if it is one of this version.
    pub fn open(memory: M) -> Option<Page<M>> {
        (memory.load(AT_FORMAT) == FORMAT).then_some(Page(memory))
    }

    /// The words.
    pub fn memory(&self) -> &M {
        &self.0
    }
}

/// The program's side.
impl<M: Memory> Page<M> {
    /// A process has loaded the library. If it did so before, it was another program, whose threads
    /// have ended.
    pub fn loaded(&self, process: u32) {
        for (slot, thread, _) in self.threads() {
            if thread.process == process {
                self.bury(slot, thread);
            }
        }
        self.0.add(AT_PROCESSES, 1);
    }

    /// A thread or process is about to begin.
    pub fn begins(&self) {
        self.0.add(AT_BEGINNING, 1);
    }

    /// It has a slot now, or does not begin.
    pub fn has_begun(&self) {
        self.0.add(AT_BEGINNING, 1u64.wrapping_neg());
    }

    /// A slot for a thread that runs.
    pub fn claim(&self, thread: Thread) -> Option<Slot> {
        let name = u64::from(thread.process) << 32 | u64::from(thread.id);
        for number in 0..N_SLOTS {
            let slot = Slot(number);
            if self.0.load(slot.at()) == 0 && self.0.cas(slot.at(), 0, name) == 0 {
                // A free slot says that it runs.
                let mut used = self.0.load(AT_SLOTS);
                while used <= u64::from(number) {
                    let before = self.0.cas(AT_SLOTS, used, u64::from(number) + 1);
                    if before == used {
                        break;
                    }
                    used = before;
                }
                return Some(slot);
            }
        }
        self.0.add(AT_WITHOUT_SLOT, 1);
        None
    }

    /// The thread has ended.
    pub fn release(&self, slot: Slot) {
        // The next thread finds a slot that says that it runs.
        self.0.store(slot.at() + 1, 0);
        self.0.store(slot.at(), 0);
        self.0.add(AT_ENDED, 1);
    }

    /// The thread of `slot` is about to wait. Returns whether the member wants to be told now: no
    /// other thread runs.
    pub fn enter(&self, slot: Slot, wait: Wait) -> bool {
        let before = self.0.load(slot.at() + 1);
        let serves = if wait == Wait::Descriptors { SERVES } else { before & SERVES };
        self.0.store(slot.at() + 1, before >> ENDED_SHIFT << ENDED_SHIFT | serves | wait.state());
        // W2
        self.0.load(AT_WANTED) == 1 && self.look() != Look::Moves && self.0.swap(AT_WANTED, 0) == 1
    }

    /// The thread of `slot` waits no more. It stays where it is while [`Page::is_held`].
    pub fn leave(&self, slot: Slot) {
        let before = self.0.load(slot.at() + 1);
        let ended = (before >> ENDED_SHIFT).wrapping_add(1);
        self.0.store(slot.at() + 1, ended << ENDED_SHIFT | before & SERVES | RUNS);
        self.0.add(AT_ENDED, 1);
    }

    /// Whether threads that leave a wait stay where they are (W3).
    pub fn is_held(&self) -> bool {
        self.0.load(AT_HELD) == 1
    }

    /// A thread has left though it was held.
    pub fn escaped(&self) {
        self.0.add(AT_ESCAPED, 1);
    }

    /// Whether descriptors are looked at in turns that can be held.
    pub fn is_in_turns(&self) -> bool {
        self.0.load(AT_IN_TURNS) == 1
    }

    /// The seed of what the program draws, unless that is the kernel's.
    pub fn seed(&self) -> Option<u64> {
        let seed = self.0.load(AT_SEED);
        (seed != 0).then_some(seed)
    }
}

/// Both sides.
impl<M: Memory> Page<M> {
    /// Looks at all threads (W1).
    pub fn look(&self) -> Look {
        let ended = self.0.load(AT_ENDED);
        let is_known = self.0.load(AT_BEGINNING) == 0 && self.0.load(AT_WITHOUT_SLOT) == 0;
        let n_slots = self.0.load(AT_SLOTS).min(u64::from(N_SLOTS)) as u32;
        let is_there = self.0.load(AT_PROCESSES) > 0;
        let runs = |number| {
            let slot = Slot(number);
            let state = self.0.load(slot.at() + 1);
            let is_sleeping = state & SERVES != 0 && state & KIND == Wait::Time.state(); // W5
            self.0.load(slot.at()) > BURIED && (state & KIND <= RUNS || is_sleeping)
        };
        if !is_known || !is_there || (0..n_slots).any(runs) {
            return Look::Moves; // W4
        }
        Look::Waits { ended }
    }
}

/// The member's side.
impl<M: Memory> Page<M> {
    /// The member wants to be told when all threads wait. It looks after that (W2).
    pub fn want(&self) {
        self.0.store(AT_WANTED, 1);
    }

    /// Holds the threads that leave a wait. The member looks after that (W3).
    pub fn hold(&self) {
        self.0.store(AT_HELD, 1);
    }

    /// Lets them go.
    pub fn let_go(&self) {
        self.0.store(AT_HELD, 0);
    }

    /// The processes that have loaded the library so far.
    pub fn n_processes(&self) -> u64 {
        self.0.load(AT_PROCESSES)
    }

    /// The waits that have ended so far.
    pub fn n_ended(&self) -> u64 {
        self.0.load(AT_ENDED)
    }

    /// The threads that did not stay where they were held.
    pub fn n_escaped(&self) -> u64 {
        self.0.load(AT_ESCAPED)
    }

    /// The threads, each with whether it has waited for descriptors.
    pub fn threads(&self) -> impl Iterator<Item = (Slot, Thread, bool)> {
        let n_slots = self.0.load(AT_SLOTS).min(u64::from(N_SLOTS)) as u32;
        (0..n_slots).map(Slot).filter_map(|slot| {
            let name = self.0.load(slot.at());
            let thread = Thread { process: (name >> 32) as u32, id: name as u32 };
            let serves = self.0.load(slot.at() + 1) & SERVES != 0;
            (name > BURIED).then_some((slot, thread, serves))
        })
    }

    /// Whether the thread of `slot` says that it runs.
    pub fn is_running(&self, slot: Slot) -> bool {
        self.0.load(slot.at() + 1) & KIND <= RUNS
    }

    /// The thread has died without a word: its slot is free. (Member and program may both say so:
    /// the state is no longer that thread's once the slot is free.)
    pub fn bury(&self, slot: Slot, thread: Thread) {
        let name = u64::from(thread.process) << 32 | u64::from(thread.id);
        if self.0.cas(slot.at(), name, BURIED) == name {
            self.0.store(slot.at() + 1, 0);
            self.0.store(slot.at(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
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

    fn memory() -> Box<[AtomicU64; N_WORDS]> {
        Box::new([const { AtomicU64::new(0) }; N_WORDS])
    }

    fn thread(id: u32) -> Thread {
        Thread { process: 7, id }
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
        page.loaded(7);
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
        page.loaded(7);
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
        page.loaded(7);
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
        page.loaded(7);
        let _ended = [1, 2].map(|id| page.claim(thread(id)).unwrap());
        let other = page.claim(Thread { process: 8, id: 9 }).unwrap();
        page.loaded(7);
        let first = page.claim(thread(1)).unwrap();
        page.enter(first, Wait::Descriptors);
        page.enter(other, Wait::Others);
        assert_eq!(page.threads().count(), 2);
        assert_ne!(page.look(), Look::Moves);
    }

    #[test]
    fn w4_threads_without_a_slot_are_never_taken_for_waiting_ones() {
        let words = memory();
        let page = Page::make(&*words, false, 0);
        page.loaded(7);
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
        page.loaded(7);
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
        page.loaded(7);
        let [serves, other] = [1, 2].map(|id| page.claim(thread(id)).unwrap());
        page.enter(other, Wait::Time);
        page.enter(serves, Wait::Time);
        assert_ne!(page.look(), Look::Moves, "a clock's thread");
        page.leave(serves);
        page.enter(serves, Wait::Descriptors);
        page.leave(serves);
        page.enter(serves, Wait::Time);
        assert_eq!(page.look(), Look::Moves, "it goes on with what it was asked");
        page.leave(serves);
        page.enter(serves, Wait::Others);
        assert_ne!(page.look(), Look::Moves);
    }

    /// W2 and W3 by threads: no notice is lost, and a held thread takes nothing.
    #[test]
    fn w3_a_held_program_that_waits_does_nothing() {
        let words = memory();
        let page = Page::make(&*words, true, 0);
        page.loaded(7);
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
}
