//! Learning from the kernel, within microseconds, that an owner's thread is dead.
//!
//! An owner's poll-loop thread holds one process-shared robust mutex for each watcher ([`Held`]);
//! each watcher blocks on its own ([`Watch`]). When the thread ends, by SIGKILL too, the kernel
//! walks its list of robust mutexes *before* it tears down the process's memory and wakes one
//! waiter of each: that is why there is one mutex a watcher, and why this is fast even for a
//! process of many gigabytes. What is learned is a hint: no safety rests on it.
//!
//! ```text
//! watch slot (64 bytes, one a watcher)
//! 0    48   pthread_mutex_t, robust and process-shared, made once at the region's creation
//! 48   8    life: the last life of the owner that held this mutex (0: none yet)
//! 56   8    zero
//! ```
//!
//! # Invariants
//! - I7 **A life is announced under its lock.** `life` is written only by who holds the slot's
//!   mutex, and an owner writes its own life there before it lets go. So a watcher that gets the
//!   mutex and reads `life = n` knows that life n has ended, however it got the mutex: whether the
//!   kernel said `EOWNERDEAD`, an earlier watcher had cleaned up before, or the owner let go
//!   itself.
//! - I8 **Mutexes are never made again.** After a death they are handed on in the way that POSIX
//!   has for it (`pthread_mutex_consistent`), so there is no moment at which one party initialises
//!   what another blocks on. By construction: `init` runs before the file has a name.
//! - I9 **Nobody waits without a deadline**, neither for a slow watcher ([`Held::retry`]) nor for a
//!   healthy owner ([`Watch::wait`]).
#![allow(unsafe_code)]

use crate::layout::{WATCH_BYTE, WATCH_BYTES, WATCHERS};
use crate::{Region, Words};
use libc::pthread_mutex_t;
use std::marker::PhantomData;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LIFE: u32 = 6;
const MUTEX_BYTES: usize = LIFE as usize * 8;

const _: () = assert!(size_of::<pthread_mutex_t>() <= MUTEX_BYTES, "a mutex fits before `life`");
const _: () = assert!(align_of::<pthread_mutex_t>() <= WATCH_BYTES && WATCH_BYTES == 64);

/// One watcher's slot of one region.
///
/// R1: `mutex` points to an initialised robust process-shared mutex inside `words`' memory, which
/// lives as long as `words`. No word of the mutex is ever touched in another way (I1).
#[derive(Debug)]
struct Slot {
    mutex: *mut pthread_mutex_t,
    words: Words,
}

// SAFETY: a pthread mutex may be used from any thread; the pointer is only handed to pthread calls.
unsafe impl Send for Slot {}

/// How an attempt to lock ended.
enum Locked {
    Yes,
    Busy,
    /// The memory does not hold a usable mutex any more: somebody overwrote it.
    Broken,
}

impl Slot {
    fn of(region: &Region, watcher: usize) -> Slot {
        assert!(watcher < WATCHERS, "watcher {watcher} of {WATCHERS}");
        let words = Words::new(
            region.memory(),
            WATCH_BYTE + watcher * WATCH_BYTES,
            (WATCH_BYTES / 8) as u32,
        );
        // SAFETY: the slot is inside the memory, as `Words::new` has just checked.
        let slot = unsafe { region.memory().base().add(WATCH_BYTE + watcher * WATCH_BYTES) };
        Slot { mutex: slot.as_ptr().cast(), words }
    }

    fn life(&self) -> u64 {
        self.words.load(LIFE)
    }

    fn settle(&self, answer: i32) -> Locked {
        match answer {
            0 => Locked::Yes,
            libc::EBUSY | libc::ETIMEDOUT | libc::EAGAIN => Locked::Busy,
            libc::EOWNERDEAD => {
                // SAFETY: R1, and this thread has just got the mutex, as EOWNERDEAD says.
                let consistent = unsafe { libc::pthread_mutex_consistent(self.mutex) };
                debug_assert_eq!(consistent, 0);
                Locked::Yes
            }
            _ => Locked::Broken,
        }
    }

    fn try_lock(&self) -> Locked {
        // SAFETY: R1.
        let answer = unsafe { libc::pthread_mutex_trylock(self.mutex) };
        self.settle(answer)
    }

    fn lock_within(&self, timeout: Duration) -> Locked {
        // POSIX wants a time of day here. If the clock is set meanwhile the wait is shorter or
        // longer by as much; callers loop, so nothing but their look at the stop flag moves.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let until = now + timeout;
        let until = libc::timespec {
            tv_sec: until.as_secs() as libc::time_t,
            tv_nsec: until.subsec_nanos().into(),
        };
        // SAFETY: R1; `until` is a valid time on this stack frame.
        let answer = unsafe { libc::pthread_mutex_timedlock(self.mutex, &raw const until) };
        self.settle(answer)
    }

    /// Only by the thread that locked it.
    fn unlock(&self) {
        // SAFETY: R1; a robust mutex refuses (EPERM) a thread that does not hold it.
        let answer = unsafe { libc::pthread_mutex_unlock(self.mutex) };
        debug_assert_eq!(answer, 0);
    }
}

/// Makes the mutexes of a region that has no name yet (I8).
pub(crate) fn init(region: &Region) {
    let mut attributes = std::mem::MaybeUninit::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: `attributes` points to room for one attributes object on this stack frame.
    let answer = unsafe { libc::pthread_mutexattr_init(attributes) };
    assert_eq!(answer, 0);
    // SAFETY: initialised above.
    let answer =
        unsafe { libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED) };
    assert_eq!(answer, 0);
    // SAFETY: initialised above.
    let answer =
        unsafe { libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST) };
    assert_eq!(answer, 0);
    for watcher in 0..WATCHERS {
        let slot = Slot::of(region, watcher);
        // SAFETY: the slot has room and alignment for a mutex (asserted above); nobody else knows
        // this memory yet. `attributes` is initialised.
        let answer = unsafe { libc::pthread_mutex_init(slot.mutex, attributes) };
        assert_eq!(answer, 0);
    }
    // SAFETY: initialised above, and not used any more.
    let answer = unsafe { libc::pthread_mutexattr_destroy(attributes) };
    assert_eq!(answer, 0);
}

/// The owner's side: held by the poll-loop thread for as long as it lives.
///
/// Not `Send`, since a mutex belongs to the thread that locked it: it is the end of *that* thread
/// that the kernel reports, and only it can let go.
#[derive(Debug)]
pub struct Held {
    slots: Vec<(Slot, bool)>,
    life: u64,
    not_send: PhantomData<*const ()>,
}

impl Held {
    /// Takes the locks of all watchers for this life of the owner, with this thread.
    ///
    /// A watcher that is just being told of the previous death may hold its lock for a moment:
    /// those are waited for up to `patience` in all, and after that with [`Held::retry`].
    pub fn hold(owner: &crate::Owner, patience: Duration) -> Held {
        crate::schedule::brief();
        // The kernel tells first who was locked last: the first ranks, which are the likely
        // successors, and which therefore come last here.
        let slots = (0..WATCHERS).rev().map(|watcher| (Slot::of(owner.region(), watcher), false));
        let mut held = Held { slots: slots.collect(), life: owner.life(), not_send: PhantomData };
        let until = Instant::now() + patience;
        while !held.retry() && Instant::now() < until {
            std::thread::yield_now();
        }
        held
    }

    /// Tries again for the locks that are missing; true if none is.
    pub fn retry(&mut self) -> bool {
        let mut complete = true;
        for (slot, held) in self.slots.iter_mut().filter(|(_, held)| !held) {
            match slot.try_lock() {
                Locked::Yes => {
                    assert!(slot.life() < self.life, "I5: life {} is no later one", self.life);
                    slot.words.store(LIFE, self.life); // I7: under the lock
                    *held = true;
                }
                Locked::Busy | Locked::Broken => complete = false,
            }
        }
        complete
    }

    /// Whether every watcher will learn of this thread's death.
    pub fn is_complete(&self) -> bool {
        self.slots.iter().all(|(_, held)| *held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.slots.iter().filter(|(_, held)| *held).for_each(|(slot, _)| slot.unlock());
    }
}

/// The watcher's side. Several of one number may watch at once: each learns of every end by itself.
#[derive(Debug)]
pub struct Watch {
    slot: Slot,
    /// The last life that was reported as ended.
    ended: u64,
}

/// What a [`Watch::wait`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nobody has held the lock since the last report: look again when the owner is back.
    NobodyThere,
    /// The owner's thread lived all the while.
    Alive,
    /// This life of the owner, and with it every earlier one, has ended.
    Ended(u64),
    /// The mutex was overwritten: nothing can be learned here any more.
    Broken,
}

impl Region {
    /// Watches this region's owner as watcher number `watcher`: a member's rank, or
    /// [`crate::layout::SENTINEL`].
    ///
    /// # Panics
    /// If there is no such watcher.
    pub fn watch(&self, watcher: usize) -> Watch {
        Watch { slot: Slot::of(self, watcher), ended: 0 }
    }

    /// The last life of the owner that `watcher` would learn the end of; 0 if none yet.
    ///
    /// # Panics
    /// If there is no such watcher.
    pub fn held_life(&self, watcher: usize) -> u64 {
        Slot::of(self, watcher).life()
    }
}

impl Watch {
    /// The last life of the owner that this watcher would learn the end of; 0 if none yet.
    pub fn life(&self) -> u64 {
        self.slot.life()
    }

    /// Waits until the owner's life ends, not longer than `timeout`: for a thread of its own.
    pub fn wait(&mut self, timeout: Duration) -> Seen {
        self.see(|slot| slot.lock_within(timeout))
    }

    /// Looks whether the owner's life has ended: for a loop that is awake anyway and should not
    /// depend on when the scheduler lets another thread run.
    pub fn look(&mut self) -> Seen {
        self.see(Slot::try_lock)
    }

    fn see(&mut self, lock: impl FnOnce(&Slot) -> Locked) -> Seen {
        if self.slot.life() <= self.ended {
            return Seen::NobodyThere;
        }
        match lock(&self.slot) {
            Locked::Busy => Seen::Alive,
            Locked::Broken => Seen::Broken,
            Locked::Yes => {
                self.ended = self.slot.life(); // I7: whoever wrote it holds the lock no more
                self.slot.unlock();
                Seen::Ended(self.ended)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{SENTINEL, Shape};
    use crate::{Identity, Owner};
    use base::{Incarnation, NodeId};
    use std::sync::mpsc;

    const TICK: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(20);

    fn identity() -> Identity {
        let shape = Shape { n_words: 8, ring_words: 0 };
        Identity { cluster: 1, node: NodeId(1), incarnation: None, layout: 1, shape }
    }

    fn owner() -> Owner {
        Region::heap(&identity(), Incarnation(1))
    }

    #[test]
    fn a_thread_that_ends_without_a_word_is_noticed_by_each_watcher() {
        let owner = owner();
        let mut watches: Vec<_> = (0..WATCHERS).map(|w| owner.watch(w)).collect();
        assert_eq!(watches[0].wait(TICK), Seen::NobodyThere);
        let (end, ended) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            let owner = &owner;
            scope.spawn(move || {
                // Forgotten on purpose: as in a crash, nothing lets go of the locks.
                std::mem::forget(Held::hold(owner, LONG));
                tell.send(()).unwrap();
                let _ = ended.recv();
            });
            told.recv().unwrap();
            assert_eq!(watches[2].wait(TICK), Seen::Alive);
            assert_eq!(watches[2].look(), Seen::Alive);
            let waiting: Vec<_> =
                watches.iter_mut().map(|watch| scope.spawn(move || watch.wait(LONG))).collect();
            drop(end);
            for waiter in waiting {
                assert_eq!(waiter.join().unwrap(), Seen::Ended(owner.life()));
            }
        });
        assert_eq!(watches[SENTINEL].wait(TICK), Seen::NobodyThere, "one report a life");
    }

    #[test]
    fn i7_a_second_watcher_of_the_same_slot_learns_the_same() {
        let owner = owner();
        std::thread::scope(|scope| {
            // Joined by name: the scope's own end waits for what a thread does, not for its death.
            scope.spawn(|| std::mem::forget(Held::hold(&owner, LONG))).join().unwrap();
        });
        assert_eq!(owner.watch(3).look(), Seen::Ended(owner.life()));
        assert_eq!(owner.watch(3).wait(LONG), Seen::Ended(owner.life()));
    }

    #[test]
    fn i8_a_successor_takes_the_locks_that_a_dead_thread_left() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let first = Region::create(directory.path(), &identity(), Incarnation(1)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| std::mem::forget(Held::hold(&first, LONG))).join().unwrap();
        });
        let life = first.life();
        drop(first);
        let second = Region::attach(directory.path(), &identity()).unwrap();
        assert!(second.life() > life, "I5");
        let held = Held::hold(&second, LONG);
        assert!(held.is_complete());
        let mut watch = second.watch(0);
        std::thread::scope(|scope| {
            assert_eq!(scope.spawn(|| watch.wait(TICK)).join().unwrap(), Seen::Alive);
        });
        assert_eq!(second.held_life(0), second.life());
        drop(held);
        assert_eq!(watch.wait(LONG), Seen::Ended(second.life()));
    }

    #[test]
    fn i9_a_stalled_watcher_delays_only_its_own_lock() {
        let owner = owner();
        let (go, gone) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            let slot = Slot::of(&owner, 4);
            scope.spawn(move || {
                assert!(matches!(slot.try_lock(), Locked::Yes));
                tell.send(()).unwrap();
                let _ = gone.recv();
                slot.unlock();
            });
            told.recv().unwrap();
            let mut held = Held::hold(&owner, TICK);
            assert!(!held.is_complete());
            assert_eq!((owner.held_life(4), owner.held_life(5)), (0, owner.life()));
            drop(go);
            let until = Instant::now() + LONG;
            while !held.retry() {
                assert!(Instant::now() < until);
                std::thread::yield_now();
            }
            assert_eq!(owner.held_life(4), owner.life());
        });
    }
}
