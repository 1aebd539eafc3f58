//! The hooks of what programs read the time by. Without the log's time each is the C library's.
//!
//! - T1 each clock shows the log's time, the same to all threads.
//! - T2 a thread that reads the clock more than 100,000 times at one time, and does not
//!   wait between, is shown a microsecond more for each further reading: it may wait for the time
//!   to pass, which it will not before the program is at rest. What a thread is shown never falls.
//!   Readings are counted from the last call that may wait, whether it did: copies that do the same
//!   are shown the same.
#![allow(unsafe_code)]
#![allow(missing_docs)]
#![allow(clippy::missing_safety_doc)]

use crate::ffi::{TimeSpec, TimeVal};
use crate::next;
use crate::page;
use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// See T2.
const READINGS_MAX: u64 = 100_000;
/// Nanoseconds in a microsecond, and in a second.
const US: u64 = 1000;
const SECOND: u64 = 1_000_000_000;

/// The clocks that are not of the processor's time: `CLOCK_REALTIME`, `MONOTONIC`, `MONOTONIC_RAW`,
/// the coarse ones, `BOOTTIME`, those of alarms, `TAI`.
const LOGS: [c_int; 9] = [0, 1, 4, 5, 6, 7, 8, 9, 11];

/// What a thread was shown.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    /// The log's time at its last reading, and the readings since it was that.
    time: u64,
    n_readings: u64,
    /// The latest time that it was shown.
    latest: u64,
}

impl Shown {
    const NONE: Shown = Shown { time: 0, n_readings: 0, latest: 0 };

    /// Reads the clock at `time`. Returns whether it has read it too often (T2).
    fn read(&mut self, time: u64) -> bool {
        if self.time != time {
            (self.time, self.n_readings) = (time, 0);
        }
        self.n_readings += 1;
        let more = self.n_readings.saturating_sub(READINGS_MAX);
        self.latest = self.latest.max(time.saturating_add(more.saturating_mul(US)));
        more == 1
    }
}

thread_local! {
    static SHOWN: Cell<Shown> = const { Cell::new(Shown::NONE) };
}

/// This thread waits, or would: it does not spin. (A look that waits for no time may be part of a
/// loop that does.)
pub(crate) fn rest() {
    let _ = SHOWN.try_with(|of| of.set(Shown { n_readings: 0, ..of.get() }));
}

/// The time that this thread is shown, without a reading of its own.
pub(crate) fn now() -> Option<u64> {
    let time = page::page()?.time()?;
    Some(SHOWN.try_with(|of| of.get().latest).unwrap_or(0).max(time))
}

/// The time after so many nanoseconds.
pub(crate) fn after(span_ns: i64) -> Option<u64> {
    Some(now()?.saturating_add(span_ns.max(0) as u64).max(1))
}

/// Whether the log's time is `until` or later.
pub(crate) fn has_come(until: u64) -> bool {
    page::page().and_then(|page| page.time()).is_none_or(|time| time >= until)
}

/// A reading.
fn read() -> Option<u64> {
    let page = page::page()?;
    let time = page.time()?;
    let shown = SHOWN.try_with(|of| {
        let mut shown = of.get();
        if shown.read(time) {
            page.spins();
        }
        of.set(shown);
        shown.latest
    });
    Some(shown.unwrap_or(time))
}

pub(crate) fn spec(ns: u64) -> TimeSpec {
    TimeSpec { seconds: (ns / SECOND) as i64, nanoseconds: (ns % SECOND) as i64 }
}

/// Whether a clock shows the log's time, where there is one.
pub(crate) fn is_logs(clock: c_int) -> bool {
    LOGS.contains(&clock)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn clock_gettime(clock: c_int, into: *mut TimeSpec) -> c_int {
    if let (true, false, Some(now)) = (is_logs(clock), into.is_null(), read()) {
        // SAFETY: by the caller it has room for a time.
        unsafe { into.write(spec(now)) };
        return 0;
    }
    // SAFETY: by the caller.
    unsafe { next::clock_gettime(clock, into) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn gettimeofday(into: *mut TimeVal, zone: *mut c_void) -> c_int {
    if let (true, false, Some(now)) = (zone.is_null(), into.is_null(), read()) {
        let TimeSpec { seconds, nanoseconds } = spec(now);
        // SAFETY: by the caller it has room for a time.
        unsafe { into.write(TimeVal { seconds, microseconds: nanoseconds / 1000 }) };
        return 0;
    }
    // SAFETY: by the caller.
    unsafe { next::gettimeofday(into, zone) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn time(into: *mut i64) -> i64 {
    let Some(now) = read() else {
        // SAFETY: by the caller.
        return unsafe { next::time(into) };
    };
    let seconds = spec(now).seconds;
    if !into.is_null() {
        // SAFETY: by the caller it has room for a time.
        unsafe { into.write(seconds) };
    }
    seconds
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn timespec_get(into: *mut TimeSpec, base: c_int) -> c_int {
    const TIME_UTC: c_int = 1;
    if let (TIME_UTC, false, Some(now)) = (base, into.is_null(), read()) {
        // SAFETY: by the caller it has room for a time.
        unsafe { into.write(spec(now)) };
        return base;
    }
    // SAFETY: by the caller.
    unsafe { next::timespec_get(into, base) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t2_a_thread_that_spins_sees_time_pass_and_never_fall() {
        let mut shown = Shown::NONE;
        let n_spins = (0..READINGS_MAX).filter(|_| shown.read(5000)).count();
        assert_eq!((n_spins, shown.latest), (0, 5000));
        assert!(shown.read(5000) && !shown.read(5000));
        assert_eq!(shown.latest, 5000 + 2 * US);
        assert!(!shown.read(6000));
        assert_eq!(shown.latest, 7000, "it was shown that");
        shown.read(9000);
        assert_eq!(shown.latest, 9000);
    }

    #[test]
    fn clocks_are_the_kernels_without_a_page() {
        assert_eq!((now(), after(5), read()), (None, None, None));
        // SAFETY: it takes nothing.
        let seconds = unsafe { time(std::ptr::null_mut()) };
        let mut of = spec(0);
        // SAFETY: room for a time.
        assert_eq!(unsafe { clock_gettime(0, &raw mut of) }, 0);
        assert!(seconds > 1_600_000_000 && of.seconds >= seconds && has_come(u64::MAX));
    }
}
