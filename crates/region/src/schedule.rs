//! What a thread asks of the kernel's scheduler, so that news of a death is not left in a queue.
//!
//! When a process of many megabytes dies, the kernel takes its memory apart on the processor of
//! whichever of its threads ends last, for milliseconds; whoever is queued there meanwhile waits,
//! and an idle processor beside it does not help before the next tick.
//!
//! - A thread that hardly ever runs is urgent ([`Pace::hurry`]): one that watches for deaths
//!   interrupts such work.
//! - A poll loop ([`Loop`]) may spin, so it must not be urgent. One that follows asks for short
//!   slices: after a wake-up it runs before a thread whose slices are longer. One that leads has
//!   those that everybody has.
//! - A poll loop whose peer has died is hurried by the thread that learned of it: what follows is
//!   short, and the kernel's work on the dead process must not stand before it. It calms itself
//!   after a moment, so that it never spins urgently for long.
//!
//! All are requests: without the privilege, or on an older kernel, nothing changes but latency.
#![allow(unsafe_code)]

use libc::sched_attr;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// The lowest of the real-time priorities: above every ordinary thread, below everything that an
/// administrator made urgent.
const PRIORITY: u32 = 1;

/// The shortest slice that the kernel grants.
const SLICE_NS: u64 = 100_000;

const ATTR_BYTES: u32 = size_of::<sched_attr>() as u32;

/// A thread, for others that may change its pace.
#[derive(Clone, Copy, Debug)]
pub struct Pace(libc::pid_t);

/// How long after a peer's death a poll loop is urgent: a takeover takes a tenth of it, and the
/// kernel's work on the dead process, which would stand before it, up to twice that.
const HURRY: Duration = Duration::from_millis(2);

/// A poll loop's own hand on its pace. Not `Send`: it names the thread that made it.
#[derive(Debug)]
pub struct Loop {
    pace: Pace,
    /// A hurry ends then.
    calm_at: Option<Instant>,
    /// What was said about leading and not acted upon yet: after a hurry is early enough.
    lead: Option<bool>,
    /// The slices that were asked for last.
    slice_ns: u64,
    not_send: PhantomData<*const ()>,
}

impl Loop {
    /// Of this thread, which follows for now.
    pub fn of_this_thread() -> Loop {
        let pace = Pace::of_this_thread();
        let slice_ns = SLICE_NS;
        slice(slice_ns);
        Loop { pace, calm_at: None, lead: None, slice_ns, not_send: PhantomData }
    }

    /// What another thread needs to hurry it; this one must then say [`Loop::hurried`].
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Another thread has hurried this one: the hurry ends by itself, with [`Loop::settle`].
    pub fn hurried(&mut self) {
        self.calm_at = Some(Instant::now() + HURRY);
    }

    /// This node leads, or not any more: whoever leads has the slices that everybody has, so that
    /// its followers need not wait for it; whoever follows has short ones.
    pub fn lead(&mut self, leads: bool) {
        self.lead = Some(leads);
    }

    /// Whether there is anything to [`Loop::settle`].
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

    /// Back to the slices that were asked for last.
    fn calm(&self) {
        set(0, &sched_attr { sched_runtime: self.slice_ns, ..ordinary(0) });
    }
}

/// Of a thread that lives, which is up to the caller: the kernel may give an ended one's number to
/// another.
impl Pace {
    /// Of this thread.
    pub fn of_this_thread() -> Pace {
        Pace(rustix::thread::gettid().as_raw_nonzero().get())
    }

    /// The thread, but none that it starts, shall run as soon as it is woken. Only for threads that
    /// hardly ever run, or for a moment. Needs `CAP_SYS_NICE` or an `RLIMIT_RTPRIO` of at least
    /// 1; true if granted.
    pub fn hurry(self) -> bool {
        set(self.0, &at_once())
    }

    /// The thread shall be scheduled as everybody.
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

/// This thread shall get such slices (Linux 6.12 and later); true if granted. A thread that has
/// been given another policy than the ordinary one keeps it.
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
