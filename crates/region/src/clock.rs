//! The kernel's statement about this host's real-time clock, as the daemon that disciplines it (NTP
//! or PTP) has set it.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// The kernel's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the clock is disciplined. The kernel withdraws this itself when the clock is
    /// stepped, and when it was not disciplined for so long that its error has no bound.
    pub is_synchronized: bool,
    /// The largest error of the clock, if it is synchronized.
    pub error_ns: u64,
}

/// Asks the kernel. Without an answer the clock counts as not synchronized.
pub fn verdict() -> Verdict {
    // SAFETY: `timex` is made of integers, for which all bits zero is a value.
    let mut timex: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: `timex` is a whole one and lives through the call; with no mode set the kernel
    // changes nothing and fills it in.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    // In a leap second readings repeat.
    let is_steady = (0..libc::TIME_ERROR).contains(&state) && state != libc::TIME_OOP;
    let error_us = u64::try_from(timex.maxerror).unwrap_or(u64::MAX);
    Verdict {
        is_synchronized: is_steady && timex.status & libc::STA_UNSYNC == 0,
        error_ns: error_us.saturating_mul(1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_a_verdict_and_asking_changes_nothing() {
        let first = verdict();
        assert_eq!(verdict().is_synchronized, first.is_synchronized);
        assert!(!first.is_synchronized || first.error_ns < u64::MAX);
    }
}
