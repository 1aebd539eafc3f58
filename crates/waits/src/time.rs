//! The log's time in a page, and the threads that wait for it (W6, W7).

use crate::{
    AT_BEGUN, AT_CONDITIONS, AT_EARLIEST, AT_PIPE, AT_SLOTS, AT_SPINS, AT_TIME, END_SIGNAL,
    END_TIME, End, Memory, N_SLOTS, NEVER, PIPE, Page, Slot,
};

/// The threads that are to be woken, when the time has come that they wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// How many waits are over.
    pub n: u32,
    /// The pipe that is to be readable, if some of these threads look at descriptors.
    pub pipe: Option<usize>,
}

/// Both sides.
impl<M: Memory> Page<M> {
    /// The log's time, in nanoseconds since 1970, unless clocks are the kernel's.
    pub fn time(&self) -> Option<u64> {
        let time = self.0.load(AT_TIME);
        (time != 0).then_some(time)
    }

    /// What the thread of `slot` is told about the end of its wait.
    pub fn end(&self, slot: Slot) -> End {
        match self.0.load(slot.end_at()) {
            END_SIGNAL => End::Signal,
            END_TIME => End::Time,
            word => End::Open(word),
        }
    }

    fn used(&self) -> impl Iterator<Item = Slot> + use<M> {
        (0..self.0.load(AT_SLOTS).min(u64::from(N_SLOTS)) as u32).map(Slot)
    }
}

/// The program's side.
impl<M: Memory> Page<M> {
    /// The thread of `slot` waits until a time. `word` says what else ends that: [`crate::SLEEP`]
    /// for nothing, [`PIPE`] for descriptors, or a name that [`Page::signal`] is handed. Returns
    /// whether no other thread waits for an earlier time: the member has to be told.
    pub fn await_time(&self, slot: Slot, until: u64, word: u64) -> bool {
        self.0.store(slot.end_at(), word);
        self.0.store(slot.at() + 2, until);
        self.lower_earliest(until)
    }

    /// The thread of `slot` waits for no time.
    pub fn await_no_time(&self, slot: Slot) {
        self.0.store(slot.at() + 2, 0);
    }

    /// Whether the time of the thread of `slot` has come. It is told so from then on, if nothing
    /// else has ended its wait.
    pub fn is_over(&self, slot: Slot) -> bool {
        if self.0.load(AT_TIME) >= self.0.load(slot.at() + 2) {
            self.end_by(slot, END_TIME);
        }
        !matches!(self.end(slot), End::Open(_))
    }

    /// Ends the waits of threads of `process` with this name, one or all, and returns them in
    /// `each`.
    pub fn signal(&self, process: u32, name: u64, all: bool, mut each: impl FnMut(Slot)) -> bool {
        if self.0.load(AT_CONDITIONS) == 0 {
            return false;
        }
        let mut found = false;
        while let Some(slot) = self.longest(process, name) {
            if self.0.cas(slot.end_at(), name, END_SIGNAL) == name {
                each(slot);
                found = true;
                if !all {
                    break;
                }
            }
        }
        found
    }

    /// W8
    fn longest(&self, process: u32, name: u64) -> Option<Slot> {
        let waits = |slot: &Slot| {
            let is_of = self.0.load(slot.at()) >> 32 == u64::from(process);
            is_of && self.0.load(slot.at() + 2) != 0 && self.0.load(slot.end_at()) == name
        };
        self.used().filter(waits).min_by_key(|slot| self.0.load(slot.at() + 4))
    }

    /// Whether the thread of `slot` was told that its time has come, and it has not: the member has
    /// ended the wait before this one, late (W6).
    pub fn is_early(&self, slot: Slot) -> bool {
        self.end(slot) == End::Time && self.0.load(AT_TIME) < self.0.load(slot.at() + 2)
    }

    /// Returns whether the thread of `slot` has been told its time too early. It waits on then, by
    /// this word.
    pub fn waits_on(&self, slot: Slot, word: u64) -> bool {
        self.is_early(slot) && self.0.cas(slot.end_at(), END_TIME, word) == END_TIME
    }

    /// The thread of `slot` waits no more, whatever the time, unless a signal has ended its wait.
    pub fn give_up(&self, slot: Slot) {
        self.end_by(slot, END_TIME);
    }

    /// The thread of `slot` is about to wait for a condition until a time.
    pub fn begins_condition(&self, slot: Slot) {
        self.0.store(slot.at() + 4, self.0.add(AT_BEGUN, 1));
        self.0.add(AT_CONDITIONS, 1);
    }

    /// It waits no more.
    pub fn ends_condition(&self) {
        self.0.add(AT_CONDITIONS, 1u64.wrapping_neg());
    }

    /// The pipe that becomes readable when waits for descriptors end.
    pub fn pipe(&self) -> usize {
        (self.0.load(AT_PIPE) & 1) as usize
    }

    /// A thread has read the clock too often at one time.
    pub fn spins(&self) {
        self.0.add(AT_SPINS, 1);
    }

    fn end_by(&self, slot: Slot, word: u64) {
        let open = self.0.load(slot.end_at());
        if open > END_TIME {
            self.0.cas(slot.end_at(), open, word);
        }
    }

    /// W7
    fn lower_earliest(&self, until: u64) -> bool {
        let mut known = self.0.load(AT_EARLIEST);
        while until < known {
            let before = self.0.cas(AT_EARLIEST, known, until);
            if before == known {
                return true;
            }
            known = before;
        }
        false
    }
}

/// The member's side.
impl<M: Memory> Page<M> {
    /// Tells the time. The threads whose waits that ends are named to `each`, and have to be woken
    /// (W6); those that look at descriptors, by the pipe.
    pub fn tell_time(&self, time: u64, each: impl FnMut(Slot)) -> Ended {
        if time > self.0.load(AT_TIME) {
            self.0.store(AT_TIME, time);
        }
        if self.0.load(AT_EARLIEST) <= time {
            self.0.store(AT_EARLIEST, NEVER);
            for slot in self.used() {
                let until = self.0.load(slot.at() + 2);
                if until > time {
                    self.lower_earliest(until);
                }
            }
        }
        self.wake(each)
    }

    /// Ends the waits that are over, again.
    pub fn wake(&self, mut each: impl FnMut(Slot)) -> Ended {
        let time = self.0.load(AT_TIME);
        let (mut n, mut looks) = (0, false);
        for slot in self.used() {
            let until = self.0.load(slot.at() + 2);
            if until == 0 || until > time {
                continue;
            }
            n += 1;
            match self.end(slot) {
                End::Open(PIPE) => {
                    looks = true;
                    continue;
                }
                // The thread may wait for something else by now.
                End::Open(word) => _ = self.0.cas(slot.end_at(), word, END_TIME),
                End::Signal | End::Time => {}
            }
            each(slot);
        }
        if !looks {
            return Ended { n, pipe: None };
        }
        // Threads that begin to wait from here on look at the other one.
        let pipe = self.pipe();
        self.0.store(AT_PIPE, 1 - pipe as u64);
        Ended { n, pipe: Some(pipe) }
    }

    /// Whether there is a thread whose time has come, and that has not left its wait.
    pub fn owes_an_end(&self) -> bool {
        let time = self.0.load(AT_TIME);
        self.used().any(|slot| {
            let until = self.0.load(slot.at() + 2);
            until != 0 && until <= time
        })
    }

    /// The earliest time that a thread waits for.
    pub fn earliest(&self) -> Option<u64> {
        let earliest = self.0.load(AT_EARLIEST);
        (earliest != NEVER).then_some(earliest)
    }

    /// How often threads have read the clock too often at one time.
    pub fn n_spins(&self) -> u64 {
        self.0.load(AT_SPINS)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::tests::{begin, memory, thread};
    use crate::{Look, SLEEP, Wait};
    use std::vec::Vec;

    #[test]
    fn w6_a_thread_whose_time_has_come_runs_until_it_has_left() {
        let words = memory();
        let page = Page::make(&*words, false, 0);
        begin(&page);
        assert_eq!(page.time(), None);
        page.tell_time(100, |_| {});
        let [sleeps, looks] = [1, 2].map(|id| page.claim(thread(id)).unwrap());
        assert!(page.await_time(sleeps, 150, SLEEP));
        page.enter(sleeps, Wait::Time);
        assert!(!page.await_time(looks, 300, PIPE), "the other one's is earlier");
        page.enter(looks, Wait::Descriptors);
        assert_ne!(page.look(), Look::Moves);
        assert!(!page.is_over(sleeps) && page.earliest() == Some(150));
        let mut woken = Vec::new();
        let ended = page.tell_time(200, |slot| woken.push(slot));
        assert_eq!((ended, &woken[..]), (Ended { n: 1, pipe: None }, &[sleeps][..]));
        assert_eq!((page.earliest(), page.end(sleeps)), (Some(300), End::Time));
        assert!(page.look() == Look::Moves && page.owes_an_end());
        page.leave(sleeps);
        page.await_no_time(sleeps);
        assert!(!page.owes_an_end());
        page.enter(sleeps, Wait::Others);
        assert_ne!(page.look(), Look::Moves);
        assert_eq!(page.tell_time(300, |_| {}), Ended { n: 1, pipe: Some(0) });
        assert_eq!(page.pipe(), 1, "a thread that waits from here on is not ended by that");
        assert_eq!(page.earliest(), None);
        assert_eq!(page.tell_time(250, |_| {}).n, 1, "it has not left");
        assert_eq!(page.time(), Some(300), "time never falls");
    }

    #[test]
    fn w6_a_signal_and_the_time_end_a_wait_once() {
        let words = memory();
        let page = Page::make(&*words, false, 0);
        begin(&page);
        page.tell_time(100, |_| {});
        let [one, other] = [1, 2].map(|id| page.claim(thread(id)).unwrap());
        let signal = |name, all| {
            let mut woken = Vec::new();
            page.signal(7, name, all, |slot| woken.push(slot));
            woken
        };
        for slot in [other, one] {
            page.begins_condition(slot);
            page.await_time(slot, 150, 0x1000);
            page.enter(slot, Wait::Others);
        }
        assert_eq!(signal(0x2000, true), []);
        assert!(!page.signal(8, 0x1000, true, |_| {}), "another process has its own");
        assert_eq!(signal(0x1000, false), [other], "W8");
        assert_eq!(page.look(), Look::Moves, "it has not left");
        page.tell_time(200, |_| {});
        assert_eq!((page.end(other), page.end(one)), (End::Signal, End::Time));
        assert_eq!(signal(0x1000, true), [], "the time was first");
        page.await_time(one, 250, 0x1000);
        page.give_up(one);
        assert_eq!((signal(0x1000, true), page.end(one)), (Vec::new(), End::Time));
        page.await_time(other, 250, 0x1000);
        assert_eq!(signal(0x1000, false), [other]);
        page.give_up(other);
        assert_eq!(page.end(other), End::Signal, "a signal is not given back");
    }
}
