//! State time follows elapsed time: what the stamps of decided batches show passes as fast as time
//! does, whatever wall clocks show and however long nothing happens.
//!
//! - Since a process without an estimate took its wall clock (`base::state_clock`, I4), state time
//!   has risen by at most what has passed and `SLEW_PPM` of it: no key dies before its time.
//! - Between two stamps of one leader it has risen by at least what has passed but for `SLEW_PPM`
//!   of it: expiry goes on, also after hours without a command.
//!
//! Why no false alarm: both bounds are those of `base::state_clock`, I2, for one estimate, and an
//! estimate that is replaced by a state time that was observed later than it was stamped (I3) is
//! behind, never ahead. So a new leader may begin behind, and the lower bound is judged within a
//! reign. A batch of the leader before may be decided behind the new leader's first, with a stamp
//! that is older than the taken wall clock and ahead of it: it is judged by what its own leader
//! knew, and time goes on from there.

use base::state_clock::SLEW_PPM;
use base::{Prefix, Slot};

const NS_PER_MS: u64 = 1_000_000;

/// The stamp of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) unix_ms: u64,
    /// The ballot under which its leader leads.
    pub(crate) reign: u64,
    /// World time at which it was made.
    pub(crate) at: u64,
    /// Its leader had no estimate of state time, and took its wall clock.
    pub(crate) founds: bool,
}

impl Stamp {
    fn passed_since(&self, earlier: &Stamp) -> (u64, u64) {
        let ms = self.at.saturating_sub(earlier.at) / NS_PER_MS;
        (ms, ms * SLEW_PPM / 1_000_000)
    }
}

/// What was decided of time.
#[derive(Default)]
pub(crate) struct StateTime {
    /// By the number of the batch.
    stamps: Vec<Stamp>,
    /// After each slot: state time, and the reign of the newest batch.
    slots: Vec<(u64, u64)>,
    /// Stamps that were decided and took a wall clock, or from which time went on since.
    founded: Vec<Stamp>,
    last: Option<Stamp>,
}

impl StateTime {
    /// The next batch has this stamp.
    pub(crate) fn stamped(&mut self, stamp: Stamp) {
        self.stamps.push(stamp);
    }

    /// State time after everything below `prefix`, and the reign of the newest batch there.
    pub(crate) fn after(&self, prefix: Prefix) -> (u64, u64) {
        let n_known = self.slots.len().min(prefix.0 as usize);
        n_known.checked_sub(1).map_or((0, 0), |at| self.slots[at])
    }

    /// `slot` is decided; with this batch, or with no batch at all.
    pub(crate) fn decided(&mut self, slot: Slot, number: Option<u64>) -> Result<(), String> {
        let before = self.after(Prefix(slot.0));
        self.slots.resize(slot.0 as usize + 1, before);
        let Some(stamp) = number.and_then(|number| self.stamps.get(number as usize)).copied()
        else {
            return Ok(());
        };
        self.slots[slot.0 as usize] = (before.0.max(stamp.unix_ms), stamp.reign);
        let is_overtaken = self.founded.last().is_some_and(|last| stamp.at < last.at);
        let judged = self.judge(&stamp, before.0);
        if stamp.founds || is_overtaken && stamp.unix_ms > before.0 {
            self.founded.push(stamp);
        }
        self.last = Some(stamp);
        judged.map_err(|detail| format!("slot {slot}: {detail}"))
    }

    fn judge(&self, stamp: &Stamp, state_ms: u64) -> Result<(), String> {
        let known = self.founded.iter().rev().find(|one| one.at <= stamp.at);
        if let Some(founded) = known.filter(|_| stamp.unix_ms > state_ms && !stamp.founds) {
            let (passed, slewed) = stamp.passed_since(founded);
            let shown = stamp.unix_ms.saturating_sub(founded.unix_ms);
            if shown > passed + slewed + 1 {
                return Err(format!("state time has risen by {shown} ms in {passed} ms"));
            }
        }
        if let Some(last) = self.last.filter(|last| last.reign == stamp.reign && !stamp.founds) {
            let (passed, slewed) = stamp.passed_since(&last);
            let shown = stamp.unix_ms.saturating_sub(last.unix_ms);
            if shown + slewed + 2 < passed {
                return Err(format!("state time has risen by {shown} ms only in {passed} ms"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of stamps of (reign, time, state time), each decided in turn.
    fn judged(stamps: &[(u64, u64, u64)]) -> Result<(), String> {
        let mut times = StateTime::default();
        for (number, (reign, at_ms, unix_ms)) in (0..).zip(stamps.iter().copied()) {
            let at = at_ms * NS_PER_MS;
            times.stamped(Stamp { unix_ms, reign, at, founds: number == 0 });
            times.decided(Slot(2 * number), None)?;
            times.decided(Slot(2 * number + 1), Some(number))?;
            assert_eq!(times.after(Prefix(2 * number + 2)).1, reign);
        }
        Ok(())
    }

    #[test]
    fn a_stamp_that_is_decided_behind_a_wall_clock_taken_later_is_judged_by_its_own_leader() {
        let last_of_three = |(overtaken, next): (u64, u64)| {
            let mut times = StateTime::default();
            let stamps = [(1, 0, 9000, true), (2, 60, 3000, true), (1, 50, overtaken, false)];
            let stamps = stamps.into_iter().chain([(2, 70, next, false)]);
            for (number, (reign, at_s, unix_s, founds)) in (0..).zip(stamps) {
                let (unix_ms, at) = (unix_s * 1000, at_s * 1000 * NS_PER_MS);
                times.stamped(Stamp { unix_ms, reign, at, founds });
                times.decided(Slot(number), Some(number))?;
            }
            Ok::<_, String>(())
        };
        assert_eq!(last_of_three((9050, 9050)), Ok(()));
        assert_eq!(last_of_three((9050, 9070)), Ok(()));
        assert!(last_of_three((9060, 9060)).is_err(), "its leader could not know");
        assert!(last_of_three((9050, 9090)).is_err(), "a jump after it");
    }

    #[test]
    fn state_time_that_runs_ahead_or_stands_still_is_seen() {
        assert!(judged(&[(1, 0, 1000), (1, 100_000, 101_000), (2, 200_000, 201_000)]).is_ok());
        assert!(judged(&[(1, 0, 1000), (1, 100_000, 102_000)]).is_ok(), "slewed forward");
        assert!(judged(&[(1, 0, 1000), (1, 100_000, 100_000)]).is_ok(), "slewed back");
        assert!(judged(&[(1, 0, 1000), (1, 100_000, 103_000)]).is_err(), "a jump");
        assert!(judged(&[(1, 0, 1000), (2, 100_000, 103_000)]).is_err(), "of the next leader");
        assert!(judged(&[(1, 0, 1000), (1, 100_000, 11_000)]).is_err(), "no progress while idle");
        assert!(judged(&[(1, 0, 1000), (2, 100_000, 90_000)]).is_ok(), "it began behind");
    }
}
