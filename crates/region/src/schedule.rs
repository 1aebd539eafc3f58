//! A thread's requests to the kernel's scheduler, so that the report of a death does not wait in a
//! queue.
//!
//! When a process of many megabytes dies, the kernel frees its memory on the processor of whichever
//! of its threads ends last, for milliseconds. Threads that are queued there meanwhile wait, and an
//! idle processor beside it does not help before the next tick.
//!
//! - A thread that hardly ever runs is urgent ([`Pace::hurry`]): a thread that watches for deaths
//!   interrupts such work.
//! - A poll loop ([`Loop`]) may spin, so it must not be urgent. A follower's loop asks for short
//!   slices: after a wake-up it runs before a thread whose slices are longer. A leader's loop has
//!   the ordinary slices.
//! - A poll loop whose peer has died is hurried by the thread that learned of it: the takeover is
//!   short, and must not wait for the kernel's work on the dead process. The loop calms itself
//!   after a moment, so that it never spins urgently for long.
//!
//! All of these are requests: without the privilege, or on an older kernel, only latency changes.
#![allow(unsafe_code)]

use libc::sched_attr;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// The lowest of the real-time priorities: above every ordinary thread, below every thread that an
/// administrator made urgent.
const PRIORITY: u32 = 1;

/// The shortest slice that the kernel grants.
const SLICE_NS: u64 = 100_000;

const ATTR_BYTES: u32 = size_of::<sched_attr>() as u32;

/// A thread, for others that may change its pace.
#[derive(Clone, Copy, Debug)]
pub struct Pace(libc::pid_t);

/// The time after a peer's death for which a poll loop is urgent: a takeover takes a tenth of it,
/// and the kernel's work on the dead process, which would come before it, up to twice that.
const HURRY: Duration = Duration::from_millis(2);

/// A poll loop's control of its own pace. Not `Send`: it names the thread that made it.
#[derive(Debug)]
pub struct Loop {
    pace: Pace,
    /// The time at which a hurry ends.
    calm_at: Option<Instant>,
    /// The advice about leading that was not followed yet: it can wait until a hurry is over.
    lead: Option<bool>,
    /// The slices that were last requested.
    slice_ns: u64,
    not_send: PhantomData<*const ()>,
}

impl Loop {
    /// The control of this thread, which follows for now.
    pub fn of_this_thread() -> Loop {
        let pace = Pace::of_this_thread();
        let slice_ns = SLICE_NS;
        slice(slice_ns);
        Loop { pace, calm_at: None, lead: None, slice_ns, not_send: PhantomData }
    }

    /// The handle by which another thread hurries it; this thread must then call [`Loop::hurried`].
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Notes that another thread has hurried this one: [`Loop::settle`] ends the hurry.
    pub fn hurried(&mut self) {
        self.calm_at = Some(Instant::now() + HURRY);
    }

    /// Notes that this node leads, or no longer leads. A leader has the ordinary slices, so that
    /// its followers need not wait for it; a follower has short ones.
    pub fn lead(&mut self, leads: bool) {
        self.lead = Some(leads);
    }

    /// Whether [`Loop::settle`] has something to do.
    #[inline]
    pub fn is_unsettled(&self) -> bool {
        self.calm_at.is_some() || self.lead.is_some()
    }

    /// Ends a hurry that has lasted long enough, and then follows the advice about leading, which
    /// it returns.
    #[cold]
    #[inline(never)]
    pub fn settle(&mut self) -> Option<bool> {
        match self.calm_at {
            Some(at) if Instant::now() < at => return None,
            Some(_) => self.calm(),
            None => {}
        }
        self.calm_at = None;
        let leads = self.lead.take()?;
        self.slice_ns = if leads { 0 } else { SLICE_NS };
        slice(self.slice_ns);
        Some(leads)
    }

    /// Returns to the slices that were last requested.
    fn calm(&self) {
        set(0, &sched_attr { sched_runtime: self.slice_ns, ..ordinary(0) });
    }
}

/// A handle of a live thread. The caller ensures that it lives: the kernel may give an ended
/// thread's number to another one.
impl Pace {
    /// The handle of this thread.
    pub fn of_this_thread() -> Pace {
        Pace(rustix::thread::gettid().as_raw_nonzero().get())
    }

    /// Has the thread, but none that it starts, run as soon as it is woken. Only for threads that
    /// hardly ever run, or for a moment. Needs `CAP_SYS_NICE` or an `RLIMIT_RTPRIO` of at least 1;
    /// true if granted.
    pub fn hurry(self) -> bool {
        set(self.0, &at_once())
    }

    /// Returns the thread to ordinary scheduling.
    pub fn relax(self) -> bool {
        set(self.0, &ordinary(0))
    }
}

fn at_once() -> sched_attr {
    sched_attr {
        sched_policy: libc::SCHED_RR as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_priority: PRIORITY,
        ..ordinary(0)
    }
}

/// Requests such slices for this thread (Linux 6.12 and later); true if granted. A thread with
/// another policy than the ordinary one keeps it.
fn slice(sched_runtime: u64) -> bool {
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

    fn policy() -> u32 {
        get().expect("every kernel that we run on answers").sched_policy
    }

    #[test]
    fn what_was_granted_is_so_and_what_was_not_changes_nothing() {
        aside(|| {
            let granted = Pace::of_this_thread().hurry();
            let expected = if granted { libc::SCHED_RR } else { libc::SCHED_OTHER };
            assert_eq!(policy(), expected as u32);
        });
        aside(|| {
            let granted = slice(SLICE_NS);
            let now = get().expect("every kernel that we run on answers");
            assert_eq!(now.sched_policy, libc::SCHED_OTHER as u32);
            assert!(!granted || now.sched_runtime == 0 || now.sched_runtime == SLICE_NS);
        });
    }

    #[test]
    fn a_hurry_ends_by_itself_and_then_the_advice_is_followed() {
        aside(|| {
            let mut pace = Loop::of_this_thread();
            let granted = pace.pace().hurry();
            pace.hurried();
            pace.lead(false);
            let begun = Instant::now();
            let advice = loop {
                assert_eq!(policy() == libc::SCHED_RR as u32, granted, "until it is over");
                if let Some(advice) = pace.settle() {
                    break advice;
                }
            };
            assert!(begun.elapsed() >= HURRY && !pace.is_unsettled());
            assert!(!advice);
            assert_eq!(policy(), libc::SCHED_OTHER as u32);
        });
    }

    #[test]
    fn an_urgent_thread_does_not_become_a_brief_one() {
        aside(|| {
            if Pace::of_this_thread().hurry() {
                assert!(!slice(SLICE_NS));
                assert_eq!(policy(), libc::SCHED_RR as u32);
            }
        });
    }

    #[test]
    fn a_thread_is_hurried_and_relaxed_by_another() {
        aside(|| {
            let pace = Pace::of_this_thread();
            let granted = std::thread::spawn(move || pace.hurry()).join().unwrap();
            assert_eq!(policy() == libc::SCHED_RR as u32, granted);
            std::thread::spawn(move || pace.relax()).join().unwrap();
            assert_eq!(policy(), libc::SCHED_OTHER as u32);
        });
    }
}
