//! What a thread asks of the kernel's scheduler, so that news of a death is not left in a queue.
//!
//! When a process of many megabytes dies, the kernel takes its memory apart on the processor of
//! whichever of its threads ends last, for milliseconds; whoever is queued there meanwhile waits,
//! and an idle processor beside it does not help before the next tick.
//!
//! - Threads that hardly ever run are [`urgent`]: one that watches for deaths interrupts such work,
//!   and when a process is killed its urgent threads are gone first. Last is then the poll loop,
//!   on the processor that it had for itself.
//! - A poll loop may spin, so it must not be urgent. One that follows asks for short slices
//!   ([`brief`]): after a wake-up it runs before a thread whose slices are longer. One that leads
//!   has those that everybody has ([`usual`]), so that its followers need not wait for it.
//!
//! - A poll loop whose peer has died is [`Loop::hurry`]-ed by the thread that learned of it: what
//!   follows is short, and the kernel's work on the dead process must not stand before it. It calms
//!   itself ([`Loop::calm`]) after a moment, so that it never spins urgently for long.
//!
//! All are requests: without the privilege, or on an older kernel, nothing changes but latency.
#![allow(unsafe_code)]

use libc::sched_attr;
use std::cell::Cell;
use std::marker::PhantomData;

/// The lowest of the real-time priorities: above every ordinary thread, below everything that an
/// administrator made urgent.
const PRIORITY: u32 = 1;

/// The shortest slice that the kernel grants.
const SLICE_NS: u64 = 100_000;

const ATTR_BYTES: u32 = size_of::<sched_attr>() as u32;

/// This thread, but none that it starts, shall run as soon as it is woken. Only for threads that
/// hardly ever run. Needs `CAP_SYS_NICE` or an `RLIMIT_RTPRIO` of at least 1; true if granted.
pub fn urgent() -> bool {
    set(0, &at_once())
}

/// The thread that runs a poll loop, for those who may hurry it.
#[derive(Clone, Copy, Debug)]
pub struct Pace(libc::pid_t);

/// The loop's own end of its [`Pace`]. Not `Send`: it names the thread that made it.
#[derive(Debug)]
pub struct Loop(Pace, PhantomData<*const ()>);

impl Loop {
    /// Of this thread.
    pub fn of_this_thread() -> Loop {
        // SAFETY: takes and touches no memory.
        Loop(Pace(unsafe { libc::gettid() }), PhantomData)
    }

    /// What others need to hurry it.
    pub fn pace(&self) -> Pace {
        self.0
    }

    /// Ends a hurry: back to what [`brief`] or [`usual`] asked for last.
    pub fn calm(&self) {
        set(0, &sched_attr { sched_runtime: SLICE.get(), ..ordinary(0) });
    }
}

impl Pace {
    /// The loop shall run as soon as it is woken, until it calms itself; true if granted.
    ///
    /// If the thread has ended and its number went to another one of this process, that one is
    /// urgent from now on; of another process's threads it would need the right to do so.
    pub fn hurry(self) -> bool {
        set(self.0, &at_once())
    }
}

thread_local! {
    /// The slices that this thread asked for last.
    static SLICE: Cell<u64> = const { Cell::new(0) };
}

fn at_once() -> sched_attr {
    sched_attr {
        sched_policy: libc::SCHED_RR as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_priority: PRIORITY,
        ..ordinary(0)
    }
}

/// This thread shall get short slices (Linux 6.12 and later); true if granted. A thread that has
/// been given another policy than the ordinary one keeps it.
pub fn brief() -> bool {
    slice(SLICE_NS)
}

/// This thread shall get slices as everybody; undoes [`brief`].
pub fn usual() -> bool {
    slice(0)
}

fn slice(sched_runtime: u64) -> bool {
    SLICE.set(sched_runtime);
    let Some(now) = get() else { return false };
    if now.sched_policy != libc::SCHED_OTHER as u32 {
        return false;
    }
    set(0, &sched_attr { sched_runtime, ..ordinary(now.sched_nice) })
}

fn ordinary(sched_nice: i32) -> sched_attr {
    sched_attr {
        size: ATTR_BYTES,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    }
}

fn get() -> Option<sched_attr> {
    let mut attr = ordinary(0);
    // SAFETY: thread 0 is the calling one; `attr` has room for the bytes that are announced.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, ATTR_BYTES, 0) };
    (answer == 0).then_some(attr)
}

fn set(thread: libc::pid_t, attr: &sched_attr) -> bool {
    // SAFETY: thread 0 is the calling one; `attr` is initialised and says its own size.
    unsafe { libc::syscall(libc::SYS_sched_setattr, thread, std::ptr::from_ref(attr), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own: the test harness keeps its scheduling.
    fn aside<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(act).join().unwrap()
    }

    #[test]
    fn what_was_granted_is_so_and_what_was_not_changes_nothing() {
        aside(|| {
            let policy = if urgent() { libc::SCHED_RR } else { libc::SCHED_OTHER };
            assert_eq!(get().map(|attr| attr.sched_policy), Some(policy as u32));
        });
        aside(|| {
            let granted = brief();
            let now = get().expect("every kernel that we run on answers");
            assert_eq!(now.sched_policy, libc::SCHED_OTHER as u32);
            assert!(!granted || now.sched_runtime == 0 || now.sched_runtime == SLICE_NS);
        });
    }

    #[test]
    fn an_urgent_thread_does_not_become_a_brief_one() {
        aside(|| {
            if urgent() {
                assert!(!brief());
                assert_eq!(get().map(|attr| attr.sched_policy), Some(libc::SCHED_RR as u32));
            }
        });
    }
}
