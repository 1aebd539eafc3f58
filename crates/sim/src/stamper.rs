//! The memory of a process about its stamps ([`crate::stamps`]).

use base::StateClock;
use base::state_clock::IDLE_STAMP_EVERY;

/// The time after its newest stamp at which an idle leader makes the next one.
pub(crate) const IDLE_NS: u64 = IDLE_STAMP_EVERY.as_nanos() as u64;

/// The knowledge of one process about state time, and the times of its stamps.
#[derive(Default)]
pub(crate) struct Stamper {
    pub(crate) clock: StateClock,
    /// The world time of its last stamp.
    pub(crate) stamped_at: u64,
    /// The time that had passed until then by a clock that may be broken.
    pub(crate) seen_to_pass: u64,
    /// The number of the stamp that its estimate continues.
    pub(crate) continues: usize,
    /// Whether it has stamped, or executed a stamp while the leader that made it led.
    pub(crate) has_heard: bool,
    /// Its last stamp since it leads, Unix milliseconds; 0 without one.
    pub(crate) stamped_ms: u64,
    /// The world time at which the newest stamp of this leader will be too old.
    pub(crate) idle_at: u64,
}

impl Stamper {
    /// Notes that this process leads since `now`. Without an estimate of its own it stamps at once,
    /// so that all members have one.
    pub(crate) fn begin_reign(&mut self, now: u64) {
        self.end_reign();
        self.idle_at = if self.clock.is_founded() { now + IDLE_NS } else { now };
    }

    /// Notes that this process no longer leads.
    pub(crate) fn end_reign(&mut self) {
        self.clock.forget_stamps();
        self.stamped_ms = 0;
    }
}
