//! What a process remembers of its stamps ([`crate::stamps`]).

use base::StateClock;
use base::state_clock::IDLE_STAMP_EVERY;

/// How long after its newest stamp an idle leader makes the next one.
pub(crate) const IDLE_NS: u64 = IDLE_STAMP_EVERY.as_nanos() as u64;

/// What one process knows of state time, and when it stamps.
#[derive(Default)]
pub(crate) struct Stamper {
    pub(crate) clock: StateClock,
    /// World time of its last stamp.
    pub(crate) stamped_at: u64,
    /// What has passed until then by a clock that may be broken.
    pub(crate) seen_to_pass: u64,
    /// Number of the stamp that its estimate continues.
    pub(crate) continues: usize,
    /// It has stamped, or executed a stamp while the leader that made it led.
    pub(crate) has_heard: bool,
    /// Its last stamp since it leads, Unix milliseconds; 0 if there is none.
    pub(crate) stamped_ms: u64,
    /// World time at which the newest stamp of this leader will be too old.
    pub(crate) idle_at: u64,
}

impl Stamper {
    /// This process leads since `now`. Without an estimate of its own it stamps at once, so that
    /// everybody has one.
    pub(crate) fn begin_reign(&mut self, now: u64) {
        self.end_reign();
        self.idle_at = if self.clock.is_founded() { now + IDLE_NS } else { now };
    }

    /// This process leads no longer.
    pub(crate) fn end_reign(&mut self) {
        self.clock.forget_stamps();
        self.stamped_ms = 0;
    }
}
