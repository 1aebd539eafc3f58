//! The hooks of waits for descriptors.
//!
//! - D1 where the member holds the program ([`waits::Page::is_in_turns`]), descriptors are waited
//!   for without taking events, and looked at when the program is released: what a turn of an event
//!   loop finds then is what lay there at that moment, in the kernel's order, that in which it
//!   came.
//! - D2 by the log's time, a wait that ends by a time does not end by the kernel's: it waits for
//!   one descriptor more, the pipe that the member makes readable (`waits`, W6). Where there is no
//!   pipe or no room for it, the thread looks each millisecond.
#![allow(unsafe_code)]
#![allow(missing_docs)]
#![allow(non_snake_case)]
#![allow(clippy::missing_safety_doc)]

use crate::ffi::{self, FdSet, PollFd, TimeSpec, TimeVal};
use crate::next::{self, Event, Sigset};
use crate::{clocks, page, threads};
use std::ffi::{c_int, c_ulong};
use waits::{PIPE, Wait};

/// The most descriptors of a `poll` beside which there is room for the pipe.
const POLLED_MAX: usize = 63;
/// See D2.
static A_MOMENT: TimeSpec = TimeSpec { seconds: 0, nanoseconds: 1_000_000 };
static NO_TIME: TimeSpec = TimeSpec { seconds: 0, nanoseconds: 0 };

/// A span in nanoseconds; `None` for ever.
fn of_ms(ms: c_int) -> Option<i64> {
    (ms >= 0).then(|| i64::from(ms) * 1_000_000)
}

/// # Safety
/// `span` is null or points to a span.
unsafe fn of_span(span: *const TimeSpec) -> Option<i64> {
    // SAFETY: by the caller.
    let span = unsafe { span.as_ref() }?;
    Some(span.seconds.saturating_mul(1_000_000_000).saturating_add(span.nanoseconds))
}

/// The sleep of a thread that waits for descriptors: for how long, and for which pipe beside them.
#[derive(Clone, Copy)]
struct Sleep {
    span: *const TimeSpec,
    pipe: Option<c_int>,
}

/// When a wait ends at the latest.
#[derive(Clone, Copy)]
enum Until {
    Never,
    Log(u64),
    Kernel(i64),
}

impl Until {
    fn of(span_ns: Option<i64>) -> Until {
        let Some(span) = span_ns else { return Until::Never };
        clocks::after(span)
            .map_or_else(|| Until::Kernel(threads::now_ns().saturating_add(span)), Until::Log)
    }

    /// Whether it has come, or the nanoseconds that are left by the kernel.
    fn left_ns(self) -> Result<Option<i64>, ()> {
        match self {
            Until::Never => Ok(None),
            Until::Log(until) if clocks::has_come(until) => Err(()),
            Until::Log(_) => Ok(None),
            Until::Kernel(until) => {
                Some(until - threads::now_ns()).filter(|left| *left > 0).map(Some).ok_or(())
            }
        }
    }
}

/// Waits for descriptors: `wait` sleeps as it is told, and takes nothing; `probe` takes what is
/// there (D1, D2).
fn descriptors(
    kind: Wait,
    span_ns: Option<i64>,
    direct: impl Fn() -> c_int,
    probe: impl Fn() -> c_int,
    wait: impl Fn(Sleep) -> c_int,
) -> c_int {
    let Some(page) = page::page().filter(|_| span_ns != Some(0)) else { return direct() };
    clocks::rest(); // whether it sleeps or not: that differs between copies
    let by_log = page.time().is_some() && span_ns.is_some();
    if !by_log && (!page.is_in_turns() || kind == Wait::Time) {
        let slot = threads::enter(kind);
        let result = direct();
        threads::leave(slot);
        return result;
    }
    let until = Until::of(span_ns);
    loop {
        let found = probe();
        let (Ok(left_ns), 0) = (until.left_ns(), found) else { return found };
        let result = match until {
            Until::Log(until) => sleep_by_log(kind, until, &wait),
            Until::Never | Until::Kernel(_) => {
                let span = left_ns.map(|left| clocks::spec(left as u64));
                let slot = threads::enter(kind);
                let span = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
                let result = wait(Sleep { span, pipe: None });
                threads::leave(slot);
                result
            }
        };
        if result < 0 {
            return result; // a signal
        }
    }
}

/// D2
fn sleep_by_log(kind: Wait, until: u64, wait: impl Fn(Sleep) -> c_int) -> c_int {
    let slot = threads::enter_until(kind, until, PIPE);
    // The pipe is chosen before the time is looked at: the member tells the time first (W6).
    let pipe = slot.and_then(|_| page::pipe());
    let span = if pipe.is_some() { std::ptr::null() } else { &raw const A_MOMENT };
    let result = if clocks::has_come(until) { 0 } else { wait(Sleep { span, pipe }) };
    threads::leave_until(slot);
    result
}

/// A wait for no descriptor is a sleep.
fn timed(span_ns: Option<i64>, mask: *const Sigset, direct: impl Fn() -> c_int) -> c_int {
    let wait = |Sleep { span, pipe }| {
        let mut fds = [readable(pipe.unwrap_or(-1))];
        // SAFETY: one descriptor, or one that is left out, a span that is there or null, a mask.
        unsafe { next::ppoll(fds.as_mut_ptr(), 1, span, mask) }
    };
    descriptors(Wait::Time, span_ns, direct, || 0, wait)
}

fn readable(fd: c_int) -> PollFd {
    PollFd { fd, events: ffi::POLLIN, revents: 0 }
}

/// Waits for `n` descriptors and the pipe, and takes nothing.
///
/// # Safety
/// As of `ppoll`.
unsafe fn sleep_beside(
    fds: *mut PollFd,
    n: c_ulong,
    Sleep { span, pipe }: Sleep,
    mask: *const Sigset,
) -> c_int {
    let Some(pipe) = pipe else {
        // SAFETY: by the caller.
        return unsafe { next::ppoll(fds, n, span, mask) };
    };
    if n as usize > POLLED_MAX {
        // SAFETY: by the caller.
        return unsafe { next::ppoll(fds, n, &raw const A_MOMENT, mask) };
    }
    let mut all = [const { PollFd { fd: -1, events: 0, revents: 0 } }; POLLED_MAX + 1];
    // SAFETY: by the caller there are so many, and here is room for them.
    unsafe { fds.copy_to(all.as_mut_ptr(), n as usize) };
    all[n as usize] = readable(pipe);
    // SAFETY: our own, and by the caller.
    unsafe { next::ppoll(all.as_mut_ptr(), n + 1, span, mask) }
}

/// # Safety
/// As of `epoll_pwait`.
unsafe fn epoll(
    fd: c_int,
    (events, n_max): (*mut Event, c_int),
    span_ns: Option<i64>,
    mask: *const Sigset,
    direct: impl Fn() -> c_int,
) -> c_int {
    // SAFETY: by the caller.
    let probe = || unsafe { next::epoll_wait(fd, events, n_max, 0) };
    let wait = |sleep| {
        // An epoll descriptor is readable when it has events; they stay where they are.
        let mut readable = readable(fd);
        // SAFETY: one descriptor, a span that is there or null, and the caller's mask.
        unsafe { sleep_beside(&raw mut readable, 1, sleep, mask) }
    };
    descriptors(Wait::Descriptors, span_ns, direct, probe, wait)
}

/// # Safety
/// As of `epoll_wait(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn epoll_wait(
    fd: c_int,
    events: *mut Event,
    n_max: c_int,
    ms: c_int,
) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::epoll_wait(fd, events, n_max, ms) };
    // SAFETY: by the caller.
    unsafe { epoll(fd, (events, n_max), of_ms(ms), std::ptr::null(), direct) }
}

/// # Safety
/// As of `epoll_pwait(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn epoll_pwait(
    fd: c_int,
    events: *mut Event,
    n_max: c_int,
    ms: c_int,
    mask: *const Sigset,
) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::epoll_pwait(fd, events, n_max, ms, mask) };
    // SAFETY: by the caller.
    unsafe { epoll(fd, (events, n_max), of_ms(ms), mask, direct) }
}

/// # Safety
/// As of `epoll_pwait2(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    fd: c_int,
    events: *mut Event,
    n_max: c_int,
    span: *const TimeSpec,
    mask: *const Sigset,
) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::epoll_pwait2(fd, events, n_max, span, mask) };
    // SAFETY: by the caller.
    let span_ns = unsafe { of_span(span) };
    // SAFETY: by the caller.
    unsafe { epoll(fd, (events, n_max), span_ns, mask, direct) }
}

/// # Safety
/// As of `poll(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn poll(fds: *mut PollFd, n: c_ulong, ms: c_int) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::poll(fds, n, ms) };
    if n == 0 {
        return timed(of_ms(ms), std::ptr::null(), direct);
    }
    // SAFETY: by the caller.
    let probe = || unsafe { next::poll(fds, n, 0) };
    // SAFETY: by the caller.
    let wait = |sleep| unsafe { sleep_beside(fds, n, sleep, std::ptr::null()) };
    descriptors(Wait::Descriptors, of_ms(ms), direct, probe, wait)
}

/// # Safety
/// As of `ppoll(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut PollFd,
    n: c_ulong,
    span: *const TimeSpec,
    mask: *const Sigset,
) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::ppoll(fds, n, span, mask) };
    // SAFETY: by the caller.
    let span_ns = unsafe { of_span(span) };
    if n == 0 {
        return timed(span_ns, mask, direct);
    }
    // SAFETY: by the caller.
    let probe = || unsafe { next::poll(fds, n, 0) };
    // SAFETY: by the caller.
    let wait = |sleep| unsafe { sleep_beside(fds, n, sleep, mask) };
    descriptors(Wait::Descriptors, span_ns, direct, probe, wait)
}

/// # Safety
/// As of `poll(2)`, compiled with a check of the array's size.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut PollFd,
    n: c_ulong,
    ms: c_int,
    bytes: usize,
) -> c_int {
    if bytes / size_of::<PollFd>() < n as usize {
        // SAFETY: by the caller; it ends the program.
        return unsafe { next::__poll_chk(fds, n, ms, bytes) };
    }
    // SAFETY: by the caller.
    unsafe { poll(fds, n, ms) }
}

/// # Safety
/// As of `ppoll(2)`, compiled with a check of the array's size.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut PollFd,
    n: c_ulong,
    span: *const TimeSpec,
    mask: *const Sigset,
    bytes: usize,
) -> c_int {
    if bytes / size_of::<PollFd>() < n as usize {
        // SAFETY: by the caller; it ends the program.
        return unsafe { next::__ppoll_chk(fds, n, span, mask, bytes) };
    }
    // SAFETY: by the caller.
    unsafe { ppoll(fds, n, span, mask) }
}

/// The sets of a `select`, and their copies: each call changes them.
struct Sets {
    sets: [*mut FdSet; 3],
    copies: [FdSet; 3],
    n_words: usize,
}

impl Sets {
    /// # Safety
    /// Each set is null, or has room for `n` descriptors, at most 1024.
    unsafe fn copied(n: c_int, sets: [*mut FdSet; 3]) -> Sets {
        let n_words = (n as usize).div_ceil(64);
        let mut copies = [[0; 16]; 3];
        for (set, copy) in sets.iter().zip(&mut copies) {
            if !set.is_null() {
                // SAFETY: by the caller there are so many words, and 16 in the copy.
                unsafe { set.cast::<c_ulong>().copy_to(copy.as_mut_ptr(), n_words) };
            }
        }
        Sets { sets, copies, n_words }
    }

    /// Waits for the descriptors of the sets and the pipe, and takes nothing.
    fn sleep_beside(&self, n: c_int, pipe: c_int, mask: *const Sigset) -> c_int {
        let [mut reads, mut writes, mut others] = self.copies;
        // What lies behind the caller's descriptors in the last word is not asked for.
        for set in [&mut reads, &mut writes, &mut others] {
            if let Some(last) = set.get_mut(n as usize / 64) {
                *last &= (1 << (n % 64)) - 1;
            }
        }
        reads[pipe as usize / 64] |= 1 << (pipe % 64);
        let (reads, writes, others) = (&raw mut reads, &raw mut writes, &raw mut others);
        // SAFETY: sets of our own, each with room for all descriptors, and the caller's mask.
        unsafe { next::pselect(n.max(pipe + 1), reads, writes, others, std::ptr::null(), mask) }
    }

    fn restore(&self) {
        for (set, copy) in self.sets.iter().zip(&self.copies) {
            if !set.is_null() {
                // SAFETY: as in `copied`.
                unsafe { set.cast::<c_ulong>().copy_from(copy.as_ptr(), self.n_words) };
            }
        }
    }
}

/// # Safety
/// As of `pselect(2)`.
unsafe fn selected(
    n: c_int,
    sets: [*mut FdSet; 3],
    span_ns: Option<i64>,
    mask: *const Sigset,
    direct: impl Fn() -> c_int,
) -> c_int {
    if n == 0 {
        return timed(span_ns, mask, direct);
    }
    if !(0..=1024).contains(&n) {
        let slot = threads::enter(Wait::Descriptors);
        let result = direct();
        threads::leave(slot);
        return result;
    }
    let [reads, writes, others] = sets;
    // SAFETY: by the caller, and just checked.
    let copied = unsafe { Sets::copied(n, sets) };
    let again = |span, mask| {
        copied.restore();
        // SAFETY: by the caller; the span is there or null.
        unsafe { next::pselect(n, reads, writes, others, span, mask) }
    };
    let probe = || again(&raw const NO_TIME, std::ptr::null());
    let wait = |Sleep { span, pipe }| match pipe.filter(|pipe| *pipe < 1024) {
        Some(pipe) => copied.sleep_beside(n, pipe, mask),
        None => again(if pipe.is_some() { &raw const A_MOMENT } else { span }, mask),
    };
    descriptors(Wait::Descriptors, span_ns, direct, probe, wait)
}

/// # Safety
/// As of `select(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn select(
    n: c_int,
    reads: *mut FdSet,
    writes: *mut FdSet,
    others: *mut FdSet,
    span: *mut TimeVal,
) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::select(n, reads, writes, others, span) };
    // SAFETY: by the caller it is null or points to a span.
    let span_ns = unsafe { span.as_ref() }.map(|span| {
        span.seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(span.microseconds.saturating_mul(1000))
    });
    // SAFETY: by the caller.
    unsafe { selected(n, [reads, writes, others], span_ns, std::ptr::null(), direct) }
}

/// # Safety
/// As of `pselect(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn pselect(
    n: c_int,
    reads: *mut FdSet,
    writes: *mut FdSet,
    others: *mut FdSet,
    span: *const TimeSpec,
    mask: *const Sigset,
) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::pselect(n, reads, writes, others, span, mask) };
    // SAFETY: by the caller.
    let span_ns = unsafe { of_span(span) };
    // SAFETY: by the caller.
    unsafe { selected(n, [reads, writes, others], span_ns, mask, direct) }
}
