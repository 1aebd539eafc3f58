//! The report by the kernel, within microseconds, that an owner's thread is dead.
//!
//! An owner's poll-loop thread holds one process-shared robust mutex for each watcher ([`Held`]).
//! Each watcher waits on its own ([`Watch`]) without ever taking it: it looks at the futex in it,
//! and one thread waits on those of many owners at once ([`wait_any`]). When the owner's thread
//! ends, by SIGKILL too, the kernel walks its list of robust mutexes *before* it frees the
//! process's memory, and wakes one waiter of each. Therefore there is one mutex per watcher, and
//! the report is fast even for a process of many gigabytes. The report is a hint: safety never
//! depends on it.
//!
//! ```text
//! watch slot (64 bytes, one a watcher)
//! 0    48   pthread_mutex_t, robust and process-shared, made once at the region's creation
//! 48   8    life: the last life of the owner that held this mutex (0: none yet)
//! 56   8    zero
//! ```
//!
//! # Invariants
//! - I7 **A life is announced under its lock.** Only the holder of a slot's mutex writes `life`,
//!   and an owner writes its own life there before it releases the mutex. So a watcher that finds
//!   the same `life = n` before and after it has found the mutex free, or its holder dead, knows
//!   that life n has ended: that life had the lock when it wrote n, and no other was announced
//!   since.
//! - I8 **Mutexes are never made again.** After a death the next owner takes them over in the way
//!   that POSIX provides (`pthread_mutex_consistent`), so there is no moment at which one party
//!   initialises a mutex on which another waits. By construction: `init` runs before the file has a
//!   name.
//! - I9 **Every wait has a deadline**, both for an earlier owner ([`Held::retry`]) and for a
//!   healthy one ([`Watch::wait`], [`wait_any`]).
#![allow(unsafe_code)]

use crate::layout::{SENTINEL, WATCH_BYTE, WATCH_BYTES, WATCHERS};
use crate::{Region, Words};
use libc::pthread_mutex_t;
use rustix::thread::futex::{self, Wait, WaitFlags, WaitPtr};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

const LIFE: u32 = 6;
const MUTEX_BYTES: usize = LIFE as usize * 8;

const _: () = assert!(size_of::<pthread_mutex_t>() <= MUTEX_BYTES, "a mutex fits before `life`");
const _: () = assert!(align_of::<pthread_mutex_t>() <= WATCH_BYTES && WATCH_BYTES == 64);

/// One watcher's slot of one region.
///
/// R1: `mutex` points to an initialised robust process-shared mutex inside `words`' memory, which
/// lives as long as `words`. The words of the mutex are only touched by pthread calls and, by
/// atomic operations as in those and in the kernel, by [`Slot::futex`] (I1).
#[derive(Debug)]
struct Slot {
    mutex: *mut pthread_mutex_t,
    words: Words,
}

// SAFETY: a pthread mutex may be used from any thread; the pointer is only handed to pthread calls
// and made an atomic of.
unsafe impl Send for Slot {}

/// The bits of the holder's thread id in the kernel's robust-futex interface; 0 without a holder.
const TID: u32 = libc::FUTEX_TID_MASK;
/// The bit that marks a holder that died with the lock.
const OWNER_DIED: u32 = libc::FUTEX_OWNER_DIED;
/// The bit that marks a waiter to be woken.
const WAITERS: u32 = libc::FUTEX_WAITERS;

const fn is_held(futex: u32) -> bool {
    futex & TID != 0 && futex & OWNER_DIED == 0
}

/// The result of an attempt to lock.
enum Locked {
    Yes,
    Busy,
    /// The memory no longer holds a usable mutex: another process overwrote it.
    Broken,
}

impl Slot {
    fn of(region: &Region, watcher: usize) -> Slot {
        let n_seats = region.shape().n_seats;
        let is_one = watcher < n_seats || watcher == SENTINEL;
        assert!(is_one, "watcher {watcher} of {n_seats} and a sentinel");
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
            libc::EBUSY => Locked::Busy,
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

    /// The word by which the kernel knows the mutex: its first one, in glibc (tested).
    fn futex(&self) -> &AtomicU32 {
        // SAFETY: R1; aligned as a mutex is, and never accessed but atomically.
        unsafe { AtomicU32::from_ptr(self.mutex.cast()) }
    }

    /// The wait for the end of the lock, marked so that the kernel wakes the waiter; `None` if the
    /// lock is not held.
    fn await_end(&self) -> Option<Wait> {
        let futex = self.futex();
        let held = |word: u32| is_held(word).then_some(word | WAITERS);
        let before = futex.fetch_update(Relaxed, Relaxed, held).ok()?;
        let mut wait = Wait::new();
        wait.val = (before | WAITERS).into();
        wait.uaddr = WaitPtr::new(self.mutex.cast());
        wait.flags = WaitFlags::SIZE_U32;
        Some(wait)
    }

    /// Unlocks the mutex. Only the thread that locked it may call this.
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
    for watcher in region.shape().watchers() {
        let slot = Slot::of(region, watcher);
        // SAFETY: the slot has room and alignment for a mutex (asserted above); no other process
        // knows this memory yet. `attributes` is initialised.
        let answer = unsafe { libc::pthread_mutex_init(slot.mutex, attributes) };
        assert_eq!(answer, 0);
    }
    // SAFETY: initialised above, and no longer used.
    let answer = unsafe { libc::pthread_mutexattr_destroy(attributes) };
    assert_eq!(answer, 0);
}

/// The owner's side, held by the poll-loop thread for as long as it lives.
///
/// Not `Send`, since a mutex belongs to the thread that locked it: the kernel reports the end of
/// *that* thread, and only that thread can release it.
#[derive(Debug)]
pub struct Held {
    slots: Vec<(Slot, bool)>,
    life: u64,
    not_send: PhantomData<*const ()>,
}

impl Held {
    /// Takes the locks of all watchers for this life of the owner, with this thread.
    ///
    /// An earlier owner that is just ending may hold some for a moment: those are waited for up to
    /// `patience` in all, and after that with [`Held::retry`].
    pub fn hold(owner: &crate::Owner, patience: Duration) -> Held {
        // The kernel first wakes the watcher whose lock was taken last: the first ranks, which are
        // the likely successors, therefore come last here.
        let watchers = owner.shape().watchers().rev();
        let slots = watchers.map(|watcher| (Slot::of(owner.region(), watcher), false));
        let mut held = Held { slots: slots.collect(), life: owner.life(), not_send: PhantomData };
        let until = Instant::now() + patience;
        while !held.retry() && Instant::now() < until {
            std::thread::yield_now();
        }
        held
    }

    /// Tries again for the missing locks; true if none is missing.
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

/// The watcher's side. Several watches of one number may exist at once: each learns of every end.
#[derive(Debug)]
pub struct Watch {
    slot: Slot,
    /// The last life that was reported as ended.
    ended: u64,
    /// The last life whose end was passed on to other waiters: the kernel wakes only one.
    passed_on: u64,
}

/// The result of a [`Watch::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The lock was not held since the last report: look again when the owner is back.
    NobodyThere,
    /// The owner's thread lived during the whole wait.
    Alive,
    /// This life of the owner, and with it every earlier one, has ended.
    Ended(u64),
}

impl Region {
    /// Watches this region's owner as watcher number `watcher`: a seat, from 0, or
    /// [`crate::layout::SENTINEL`].
    ///
    /// # Panics
    /// If there is no such watcher.
    pub fn watch(&self, watcher: usize) -> Watch {
        Watch { slot: Slot::of(self, watcher), ended: 0, passed_on: 0 }
    }

    /// The last life of the owner whose end `watcher` would learn; 0 before the first.
    ///
    /// # Panics
    /// If there is no such watcher.
    pub fn held_life(&self, watcher: usize) -> u64 {
        Slot::of(self, watcher).life()
    }
}

impl Watch {
    /// The last life of the owner whose end this watcher would learn; 0 before the first.
    pub fn life(&self) -> u64 {
        self.slot.life()
    }

    /// Waits until the owner's life ends, at most for `timeout`: for a thread of its own.
    pub fn wait(&mut self, timeout: Duration) -> Seen {
        match self.look() {
            Seen::Alive => {}
            seen => return seen,
        }
        let nudge = Nudge::default();
        wait_any(std::slice::from_mut(self), &nudge, nudge.count(), timeout);
        self.look()
    }

    /// Checks whether the owner's life has ended: three loads.
    #[inline]
    pub fn look(&mut self) -> Seen {
        let life = self.slot.life();
        if life <= self.ended {
            return Seen::NobodyThere;
        }
        // I7: between two looks at the same life. Acquire: the second is made after this.
        if is_held(self.slot.futex().load(Acquire)) || self.slot.life() != life {
            return Seen::Alive;
        }
        self.ended = life;
        Seen::Ended(life)
    }
}

/// A means to end a [`wait_any`] early.
#[derive(Debug, Default)]
pub struct Nudge(AtomicU32);

impl Nudge {
    /// The number of nudges: read it before looking at what a nudge announces.
    pub fn count(&self) -> u32 {
        self.0.load(Acquire) // pairs with `nudge`
    }

    /// Ends the wait of every waiter with an earlier count.
    pub fn nudge(&self) {
        self.0.fetch_add(1, Release);
        // The call fails only for addresses that are not memory.
        let _woken = futex::wake(&self.0, futex::Flags::PRIVATE, WAKE_ALL);
    }
}

const WAKE_ALL: u32 = i32::MAX as u32;
/// The time to wait where the kernel (before Linux 5.16) cannot wait on several words.
const NAP: Duration = Duration::from_millis(1);

/// Waits until [`Watch::look`] may find one of these ended, until `nudge` counts more than
/// `counted`, or until `timeout` has passed. It may also return spuriously.
///
/// # Panics
/// If there are more watches than a region has watchers.
pub fn wait_any(watches: &mut [Watch], nudge: &Nudge, counted: u32, timeout: Duration) {
    let mut waits = [Wait::new(); WATCHERS + 1];
    waits[0].val = counted.into();
    waits[0].uaddr = WaitPtr::new(nudge.0.as_ptr().cast());
    waits[0].flags = WaitFlags::SIZE_U32 | WaitFlags::PRIVATE;
    let mut n = 1;
    for watch in watches {
        if watch.passed_on < watch.ended {
            watch.passed_on = watch.ended;
            // As above.
            let _woken = futex::wake(watch.slot.futex(), futex::Flags::empty(), WAKE_ALL);
        }
        if watch.life() <= watch.ended {
            continue; // no holder
        }
        match watch.slot.await_end() {
            Some(wait) => waits[n] = wait,
            None => return,
        }
        n += 1;
    }
    let until = after(timeout);
    let woken =
        futex::waitv(&waits[..n], futex::WaitvFlags::empty(), Some(&until), ClockId::Monotonic);
    if woken == Err(rustix::io::Errno::NOSYS) {
        let nap = timeout.min(NAP);
        let nap = Timespec { tv_sec: 0, tv_nsec: nap.subsec_nanos().into() };
        // The caller looks, whatever ended the wait.
        let _ended = futex::wait(&nudge.0, futex::Flags::PRIVATE, counted, Some(&nap));
    }
}

/// The point in time on the kernel's steady clock.
fn after(timeout: Duration) -> Timespec {
    let now = clock_gettime(ClockId::Monotonic);
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1 << 30, tv_nsec: 0 });
    now.checked_add(timeout).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Shape;
    use crate::{Identity, Owner};
    use base::{Incarnation, NodeId};
    use std::sync::mpsc;

    const TICK: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(20);

    fn identity() -> Identity {
        let shape = Shape { n_seats: 7, n_words: 8, ring_words: 0 };
        Identity { cluster: 1, node: NodeId(1), incarnation: None, layout: 1, rules: 0, shape }
    }

    fn owner() -> Owner {
        Region::heap(&identity(), Incarnation(1))
    }

    #[test]
    fn a_thread_that_ends_without_a_word_is_noticed_by_each_watcher() {
        let owner = owner();
        let mut watches: Vec<_> = owner.shape().watchers().map(|w| owner.watch(w)).collect();
        assert_eq!(watches[0].wait(TICK), Seen::NobodyThere);
        let (end, ended) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            let owner = &owner;
            scope.spawn(move || {
                // The value is forgotten on purpose: as in a crash, no code releases the locks.
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
        assert_eq!(watches[7].wait(TICK), Seen::NobodyThere, "one report a life");
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
    fn i9_what_an_earlier_owner_still_holds_delays_only_that_lock() {
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

    #[test]
    fn r1_the_first_word_of_a_mutex_is_what_the_kernel_knows_it_by() {
        let owner = owner();
        let slot = Slot::of(&owner, 0);
        assert_eq!(slot.futex().load(Acquire), 0);
        assert!(matches!(slot.try_lock(), Locked::Yes));
        let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert_eq!(slot.futex().load(Acquire), me);
        slot.unlock();
        assert_eq!(slot.futex().load(Acquire), 0);
    }

    #[test]
    fn one_thread_waits_for_many_owners_and_for_a_nudge() {
        let owners: Vec<_> = (0..3).map(|_| owner()).collect();
        let mut watches: Vec<_> = owners.iter().map(|owner| owner.watch(0)).collect();
        let nudge = Nudge::default();
        let (end, ended) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            let owners = &owners;
            scope.spawn(move || {
                std::mem::forget(Held::hold(&owners[1], LONG));
                tell.send(()).unwrap();
                let _ = ended.recv();
            });
            let _third = Held::hold(&owners[2], LONG);
            told.recv().unwrap();
            let (nudge, counted) = (&nudge, nudge.count());
            let waiting = scope.spawn(move || {
                wait_any(&mut watches, nudge, counted, LONG);
                let nudged = watches.iter_mut().map(Watch::look).collect::<Vec<_>>();
                let until = Instant::now() + LONG;
                while watches[1].look() == Seen::Alive && Instant::now() < until {
                    wait_any(&mut watches, nudge, nudge.count(), LONG);
                }
                (nudged, watches[1].ended, watches[2].look())
            });
            nudge.nudge();
            drop(end);
            let (nudged, ended, third) = waiting.join().unwrap();
            assert_eq!((nudged[0], nudged[2]), (Seen::NobodyThere, Seen::Alive));
            assert_eq!((ended, third), (owners[1].life(), Seen::Alive));
        });
    }
}
