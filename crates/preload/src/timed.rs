//! The hooks of waits that end by a time, other than those for descriptors.
//!
//! - S1 by the log's time, a sleep ends by that, or by a signal.
//! - S2 by the log's time, a thread that waits for a condition until a time does so by a word of
//!   its slot, under which it is named before it gives the mutex back. A thread that signals the
//!   condition looks for such threads first. So no signal is lost, and one wakes a thread at least.
//!   (A condition that processes share has another address in each: it is not found.)
//! - S3 a thread that waits for a semaphore until a time looks each millisecond.
//! - S4 by the log's time, a thread is cancelled in a sleep, or as it waits for a condition. It
//!   says first that it runs, and has the mutex of its condition. A cancellation wakes all threads
//!   of the process that wait so, and one that was about to sleep looks a moment later. (Those that
//!   were not cancelled see a wake-up without a cause. A thread that was signalled before is not
//!   cancelled, so no signal is lost.)
//! - S5 the threads of C11 are those of POSIX under other names, with errors of their own: the C
//!   library calls itself past the hooks of POSIX's.
#![allow(unsafe_code)]
#![allow(missing_docs)]
#![allow(clippy::missing_safety_doc)]

use crate::ffi::{self, EINTR, ETIMEDOUT, TimeSpec};
use crate::next::{self, Cond, Mutex, Sem};
use crate::{clocks, page, threads};
use std::ffi::{c_int, c_uint, c_ulong};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use waits::{End, SLEEP, Slot, Wait};

const NS_OF_MS: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
/// See S4.
const MOMENT: TimeSpec = TimeSpec { seconds: 2, nanoseconds: 0 };
const CLOCK_REALTIME: c_int = 0;
const ABSOLUTE: c_int = 1;
/// What C11's functions return.
const THREAD_ERROR: c_int = 2;
const THREAD_TIMED_OUT: c_int = 4;

/// How often a thread of this process was cancelled.
static N_CANCELLED: AtomicU32 = AtomicU32::new(0);

/// Why a thread sleeps no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    /// Its slot says so.
    ByEnd,
    BySignal,
    /// A thread was cancelled, perhaps this one.
    ToLook,
}

/// Says that the thread waits for `$wait` while `$call` does.
fn saying(wait: Wait, call: impl FnOnce() -> c_int) -> c_int {
    let slot = threads::enter(wait);
    let result = call();
    threads::leave(slot);
    result
}

fn ns_of(of: &TimeSpec) -> i64 {
    of.seconds.saturating_mul(SECOND).saturating_add(of.nanoseconds)
}

/// A time of the program's as one of the log, if clocks are the log's.
///
/// # Safety
/// `until` is null or points to a time.
unsafe fn by_log(until: *const TimeSpec) -> Option<u64> {
    page::page()?.time()?;
    // SAFETY: by the caller.
    let until = unsafe { until.as_ref() }?;
    Some(ns_of(until).max(1) as u64)
}

/// Sleeps on the word of a slot until it says that the wait is over, a signal comes, if that
/// `ends_by_signal`, or more threads were cancelled than so many.
fn stay(slot: Slot, ends_by_signal: bool, n_cancelled: u32) -> Woken {
    let (Some(page), Some(word)) = (page::page(), page::word(slot.end_at())) else {
        return Woken::ByEnd;
    };
    loop {
        match page.end(slot) {
            End::Time if ends_by_signal && page.waits_on(slot, SLEEP) => {}
            End::Open(_) if page.is_over(slot) => return Woken::ByEnd,
            End::Open(_) if N_CANCELLED.load(SeqCst) != n_cancelled => return Woken::ToLook,
            End::Open(open) => {
                if !ffi::futex_wait(word, open as u32, &MOMENT) && ends_by_signal {
                    return Woken::BySignal;
                }
            }
            End::Signal | End::Time => return Woken::ByEnd,
        }
    }
}

/// S1. Returns whether the time has come.
fn sleep_until(until: u64) -> bool {
    loop {
        let n_cancelled = N_CANCELLED.load(SeqCst);
        ffi::test_cancel();
        let Some(slot) = threads::enter_until(Wait::Time, until, SLEEP) else {
            // Without a slot a thread is not woken.
            let moment = TimeSpec { seconds: 0, nanoseconds: NS_OF_MS };
            while !clocks::has_come(until) {
                threads::stay_for(&moment);
            }
            return true;
        };
        let woken = stay(slot, true, n_cancelled);
        threads::leave_until(Some(slot));
        if woken != Woken::ToLook {
            return woken == Woken::ByEnd;
        }
    }
}

/// Sleeps until a time of the log, as a call that fails with `EINTR` after a signal.
fn sleep_or_fail(until: u64, left: *mut TimeSpec) -> Result<(), c_int> {
    let errno = ffi::errno();
    if clocks::has_come(until) || sleep_until(until) {
        ffi::set_errno(errno);
        return Ok(());
    }
    if !left.is_null() {
        let now = clocks::now().unwrap_or(until);
        // SAFETY: by the caller it has room for a span.
        unsafe { left.write(clocks::spec(until.saturating_sub(now))) };
    }
    Err(EINTR)
}

/// # Safety
/// `span` is null or points to a span.
unsafe fn after(span: *const TimeSpec) -> Option<u64> {
    // SAFETY: by the caller.
    clocks::after(ns_of(unsafe { span.as_ref() }?))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn nanosleep(span: *const TimeSpec, left: *mut TimeSpec) -> c_int {
    // SAFETY: by the caller.
    if let Some(until) = unsafe { after(span) } {
        return sleep_or_fail(until, left).map_or_else(
            |error| {
                ffi::set_errno(error);
                -1
            },
            |()| 0,
        );
    }
    // SAFETY: by the caller.
    saying(Wait::Time, || unsafe { next::nanosleep(span, left) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn clock_nanosleep(
    clock: c_int,
    flags: c_int,
    span: *const TimeSpec,
    left: *mut TimeSpec,
) -> c_int {
    let is_absolute = flags & ABSOLUTE != 0;
    let until = match is_absolute {
        // SAFETY: by the caller.
        true => unsafe { by_log(span) },
        // SAFETY: by the caller.
        false => unsafe { after(span) },
    };
    if let Some(until) = until.filter(|_| clocks::is_logs(clock)) {
        let left = if is_absolute { std::ptr::null_mut() } else { left };
        return sleep_or_fail(until, left).err().unwrap_or(0);
    }
    // SAFETY: by the caller.
    saying(Wait::Time, || unsafe { next::clock_nanosleep(clock, flags, span, left) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn usleep(microseconds: c_uint) -> c_int {
    if let Some(until) = clocks::after(i64::from(microseconds) * 1000) {
        return sleep_or_fail(until, std::ptr::null_mut()).map_or_else(
            |error| {
                ffi::set_errno(error);
                -1
            },
            |()| 0,
        );
    }
    // SAFETY: a number alone.
    saying(Wait::Time, || unsafe { next::usleep(microseconds) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn sleep(seconds: c_uint) -> c_uint {
    if let Some(until) = clocks::after(i64::from(seconds) * SECOND) {
        let mut left = clocks::spec(0);
        return match sleep_or_fail(until, &raw mut left) {
            Ok(()) => 0,
            Err(_) => (ns_of(&left) as u64).div_ceil(SECOND as u64) as c_uint,
        };
    }
    let slot = threads::enter(Wait::Time);
    // SAFETY: a number alone.
    let left = unsafe { next::sleep(seconds) };
    threads::leave(slot);
    left
}

/// S2. `None` if the thread has no slot, or the condition no name.
///
/// # Safety
/// As of `pthread_cond_timedwait`.
unsafe fn condition(of: *mut Cond, mutex: *mut Mutex, until: u64) -> Option<c_int> {
    let page = page::page()?;
    let name = of.addr() as u64;
    // The lower half of the name is what the kernel compares.
    if name as u32 <= 3 {
        return None;
    }
    let slot = threads::slot()?;
    let n_cancelled = N_CANCELLED.load(SeqCst);
    ffi::test_cancel();
    page.begins_condition(slot);
    let slot = threads::enter_until(Wait::Others, until, name)?;
    // SAFETY: by the caller this thread has it.
    unsafe { ffi::pthread_mutex_unlock(mutex) };
    let woken = stay(slot, false, n_cancelled);
    if woken == Woken::ToLook {
        page.give_up(slot); // no signal is this thread's from here on
    }
    // While its word said so it was not found: a signal may have passed it by.
    let is_early = woken == Woken::ByEnd && page.is_early(slot);
    let end = page.end(slot);
    // SAFETY: by the caller.
    let failed = unsafe { ffi::pthread_mutex_lock(mutex) };
    threads::leave_until(Some(slot));
    page.ends_condition();
    if woken == Woken::ToLook && end == End::Time {
        ffi::test_cancel();
        return Some(failed);
    }
    Some(match (failed, end) {
        (0, End::Signal) => 0,
        (0, _) if is_early => 0, // a wake-up without a cause
        (0, _) => ETIMEDOUT,
        (failed, _) => failed,
    })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(
    of: *mut Cond,
    mutex: *mut Mutex,
    until: *const TimeSpec,
) -> c_int {
    // SAFETY: by the caller.
    let by_log = unsafe { by_log(until) };
    // SAFETY: by the caller.
    if let Some(result) = by_log.and_then(|until| unsafe { condition(of, mutex, until) }) {
        return result;
    }
    // SAFETY: by the caller.
    saying(Wait::Others, || unsafe { next::pthread_cond_timedwait(of, mutex, until) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    of: *mut Cond,
    mutex: *mut Mutex,
    clock: c_int,
    until: *const TimeSpec,
) -> c_int {
    // SAFETY: by the caller.
    let by_log = unsafe { by_log(until) }.filter(|_| clocks::is_logs(clock));
    // SAFETY: by the caller.
    if let Some(result) = by_log.and_then(|until| unsafe { condition(of, mutex, until) }) {
        return result;
    }
    // SAFETY: by the caller.
    saying(Wait::Others, || unsafe { next::pthread_cond_clockwait(of, mutex, clock, until) })
}

/// S5
///
/// # Safety
/// As of `cnd_timedwait`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cnd_timedwait(
    of: *mut Cond,
    mutex: *mut Mutex,
    until: *const TimeSpec,
) -> c_int {
    // SAFETY: by the caller.
    let by_log = unsafe { by_log(until) };
    // SAFETY: by the caller.
    if let Some(failed) = by_log.and_then(|until| unsafe { condition(of, mutex, until) }) {
        return match failed {
            0 => 0,
            ETIMEDOUT => THREAD_TIMED_OUT,
            _ => THREAD_ERROR,
        };
    }
    // SAFETY: by the caller.
    saying(Wait::Others, || unsafe { next::cnd_timedwait(of, mutex, until) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cnd_signal(of: *mut Cond) -> c_int {
    if signal(of, false) {
        return 0;
    }
    // SAFETY: by the caller.
    unsafe { next::cnd_signal(of) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cnd_broadcast(of: *mut Cond) -> c_int {
    signal(of, true);
    // SAFETY: by the caller.
    unsafe { next::cnd_broadcast(of) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn thrd_sleep(span: *const TimeSpec, left: *mut TimeSpec) -> c_int {
    // SAFETY: by the caller.
    if let Some(until) = unsafe { after(span) } {
        return sleep_or_fail(until, left).map_or(-1, |()| 0);
    }
    // SAFETY: by the caller.
    saying(Wait::Time, || unsafe { next::thrd_sleep(span, left) })
}

/// Ends the waits of this process's threads that wait for a condition by the log's time.
fn signal(of: *mut Cond, all: bool) -> bool {
    let Some(page) = page::page().filter(|page| page.time().is_some()) else { return false };
    page.signal(threads::process(), of.addr() as u64, all, |slot| {
        if let Some(word) = page::word(slot.end_at()) {
            ffi::futex_wake(word);
        }
    })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn pthread_cond_signal(of: *mut Cond) -> c_int {
    if signal(of, false) {
        return 0;
    }
    // SAFETY: by the caller.
    unsafe { next::pthread_cond_signal(of) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn pthread_cond_broadcast(of: *mut Cond) -> c_int {
    signal(of, true);
    // SAFETY: by the caller.
    unsafe { next::pthread_cond_broadcast(of) }
}

/// S4
///
/// # Safety
/// As of `pthread_cancel(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: c_ulong) -> c_int {
    // SAFETY: by the caller.
    let failed = unsafe { next::pthread_cancel(thread) };
    let Some(page) = page::page().filter(|page| page.time().is_some()) else { return failed };
    let (errno, process) = (ffi::errno(), threads::process());
    N_CANCELLED.fetch_add(1, SeqCst);
    for (slot, ..) in page.threads().filter(|(_, thread, _)| thread.process == process) {
        if let Some(word) = page::word(slot.end_at()) {
            ffi::futex_wake(word);
        }
    }
    ffi::set_errno(errno);
    failed
}

/// S3
///
/// # Safety
/// As of `sem_timedwait`.
unsafe fn semaphore(of: *mut Sem, until: u64) -> c_int {
    let slot = threads::enter_until(Wait::Others, until, SLEEP);
    let result = loop {
        if let (Some(page), Some(slot)) = (page::page(), slot) {
            page.waits_on(slot, SLEEP);
        }
        // SAFETY: by the caller.
        if unsafe { next::sem_trywait(of) } == 0 {
            break 0;
        }
        if clocks::has_come(until) {
            ffi::set_errno(ETIMEDOUT);
            break -1;
        }
        let mut moment = clocks::spec(0);
        // SAFETY: room for a time.
        unsafe { next::clock_gettime(CLOCK_REALTIME, &raw mut moment) };
        let moment = clocks::spec((ns_of(&moment) + NS_OF_MS) as u64);
        // SAFETY: by the caller, and the time is there.
        if unsafe { next::sem_timedwait(of, &raw const moment) } == 0 {
            break 0;
        }
        if ffi::errno() != ETIMEDOUT {
            break -1;
        }
    };
    threads::leave_until(slot);
    result
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn sem_timedwait(of: *mut Sem, until: *const TimeSpec) -> c_int {
    // SAFETY: by the caller.
    if let Some(until) = unsafe { by_log(until) } {
        // SAFETY: by the caller.
        return unsafe { semaphore(of, until) };
    }
    // SAFETY: by the caller.
    saying(Wait::Others, || unsafe { next::sem_timedwait(of, until) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn sem_clockwait(
    of: *mut Sem,
    clock: c_int,
    until: *const TimeSpec,
) -> c_int {
    // SAFETY: by the caller.
    if let Some(until) = unsafe { by_log(until) }.filter(|_| clocks::is_logs(clock)) {
        // SAFETY: by the caller.
        return unsafe { semaphore(of, until) };
    }
    // SAFETY: by the caller.
    saying(Wait::Others, || unsafe { next::sem_clockwait(of, clock, until) })
}
