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
//!      6      threads that found no slot, and have not ended
//!      7      the processes that have loaded the library
//!      8      1: descriptors are looked at in turns, which can be held
//!      9      threads that did not stay where they were held, since they were held for too long
//!      10     the seed of what the program draws; 0 for the kernel's chance
//!      11     the log's time, in nanoseconds since 1970; 0 for the kernel's clocks
//!      12     the earliest time that a thread waits for; all ones for none
//!      13     the pipe that ends waits for descriptors, 0 or 1
//!      14     threads that wait for a condition with a time-out
//!      15     threads that have read the clock too often at one time
//!      16     the waits for conditions with a time-out that have begun
//!      17     the connections that were accepted
//!      64..   the slots, of five words each: process << 32 | thread, state | waits that have
//!             ended << 8, the time that it waits for, what else may end that, and as which of
//!             those of word 16 it began
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
//!   By the log's time both wait: nothing but the log wakes them.
//! - W6 the log's time never falls, and a thread whose time has come counts as one that runs until
//!   it has left its wait. A thread says what it waits for, and then looks at the time; the member
//!   tells the time, and then looks for threads that wait for it: one of the two sees the other.
//!   What the member tells a thread may meet its next wait: the thread looks at the time, and waits
//!   on (or wakes without a cause, if a signal may have passed it by).
//! - W8 a signal ends the wait of the thread that has waited longest for it: in which order threads
//!   got their slots differs between copies.
//! - W9 a thread that accepts a connection counts it before it does anything about it. While none
//!   is counted, the threads that wait may not have looked at their connections at all: a program
//!   may listen, and then sleep a moment, as if all that it does were done.
//! - W7 the earliest time that a thread waits for is in the page: a thread lowers the word before
//!   it waits, and the member raises it when that time has come. It may be too early, not too late.
#![no_std]
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The words of a page.
pub const N_WORDS: usize = 2560;
/// The bytes of a page.
pub const N_BYTES: usize = N_WORDS * 8;
/// The most threads of a program.
pub const N_SLOTS: u32 = 480;

/// The variable of the environment with the page's path.
pub const PAGE: &str = "GREGALE_PAGE";
/// What the path of the socket for notices has behind the page's.
pub const NOTICES: &str = "n";
/// What the paths of the pipes that end waits for descriptors have behind the page's.
pub const PIPES: [&str; 2] = ["0", "1"];

const FORMAT: u64 = u64::from_le_bytes(*b"grglWAI4");

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
const AT_TIME: u32 = 11;
const AT_EARLIEST: u32 = 12;
const AT_PIPE: u32 = 13;
const AT_CONDITIONS: u32 = 14;
const AT_SPINS: u32 = 15;
const AT_BEGUN: u32 = 16;
const AT_ACCEPTED: u32 = 17;
const AT_FIRST_SLOT: u32 = 64;

const RUNS: u64 = 1;
/// The name in a slot that is about to be free.
const BURIED: u64 = 1;
/// The bit of a state that says that the thread has waited for descriptors.
const SERVES: u64 = 0x80;
const KIND: u64 = 0x7f;
const ENDED_SHIFT: u32 = 8;
const SLOT_WORDS: u32 = 5;
const _: () = assert!(AT_FIRST_SLOT + SLOT_WORDS * N_SLOTS <= N_WORDS as u32);

/// No time: nothing waits for it.
const NEVER: u64 = u64::MAX;

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
        AT_FIRST_SLOT + SLOT_WORDS * self.0
    }

    /// The word by which a thread learns that its wait is over ([`End`]).
    pub fn end_at(self) -> u32 {
        self.at() + 3
    }
}

/// What a thread that waits for a time is told by the last word of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Another thread has ended the wait.
    Signal,
    /// The time has come.
    Time,
    /// Nothing yet: the word, as it is.
    Open(u64),
}

const END_SIGNAL: u64 = 0;
const END_TIME: u64 = 1;
/// The word of a thread whose wait ends by the time alone.
pub const SLEEP: u64 = 2;
/// The word of a thread that looks at descriptors itself.
pub const PIPE: u64 = 3;

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
        memory.store(AT_EARLIEST, NEVER);
        memory.store(AT_FORMAT, FORMAT);
        Page(memory)
    }

    /// Sets another seed, for a program that is started next.
    pub fn reseed(&self, seed: u64) {
        self.0.store(AT_SEED, seed);
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
    /// A process has loaded the library in its first thread. If it did so before, it was another
    /// program, whose threads have ended: this one takes the slot of its first thread, which says
    /// that it runs until then (W1). Threads that its libraries have started meanwhile keep theirs:
    /// `is_gone` says which threads of the process are no more. Returns the first thread's slot.
    pub fn loaded(&self, first: Thread, is_gone: impl Fn(Thread) -> bool) -> Option<Slot> {
        let before = self.threads().find(|(_, thread, _)| *thread == first).map(|(slot, ..)| slot);
        if let Some(slot) = before {
            self.0.store(slot.at() + 2, 0);
            self.0.store(slot.at() + 1, 0);
        }
        let own = before.or_else(|| self.claim(first));
        for (slot, thread, _) in self.threads() {
            let is_others = thread.process != first.process || Some(slot) == own;
            // The first thread may have taken a second slot before it knew of the other one.
            if !is_others && (thread == first || is_gone(thread)) {
                self.bury(slot, thread);
            }
        }
        self.0.add(AT_PROCESSES, 1);
        own
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

    /// A thread that found no slot has ended.
    pub fn ended_without_slot(&self) {
        self.0.add(AT_WITHOUT_SLOT, 1u64.wrapping_neg());
        self.0.add(AT_ENDED, 1);
    }

    /// The thread has ended.
    pub fn release(&self, slot: Slot) {
        // The next thread finds a slot that says that it runs.
        self.0.store(slot.at() + 2, 0);
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

    /// A thread has accepted a connection (W9).
    pub fn accepts(&self) {
        self.0.add(AT_ACCEPTED, 1);
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
        let time = self.0.load(AT_TIME);
        let runs = |number| {
            let slot = Slot(number);
            let state = self.0.load(slot.at() + 1);
            let is_sleeping =
                time == 0 && state & SERVES != 0 && state & KIND == Wait::Time.state(); // W5
            let until = self.0.load(slot.at() + 2);
            // W6
            let has_end = until <= time || matches!(self.end(slot), End::Signal | End::Time);
            let is_over = until != 0 && has_end;
            self.0.load(slot.at()) > BURIED && (state & KIND <= RUNS || is_sleeping || is_over)
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

    /// The connections that were accepted so far (W9).
    pub fn n_accepted(&self) -> u64 {
        self.0.load(AT_ACCEPTED)
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
            self.0.store(slot.at() + 2, 0);
            self.0.store(slot.at() + 1, 0);
            self.0.store(slot.at(), 0);
        }
    }
}

mod time;

pub use time::Ended;

#[cfg(test)]
mod tests;
