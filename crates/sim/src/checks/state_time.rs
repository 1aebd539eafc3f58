//! State time follows elapsed time: the stamps of decided batches rise as fast as time passes,
//! whatever wall clocks show and however long nothing happens.
//!
//! - An estimate of state time begins with a stamp: of a process that had no estimate and took its
//!   wall clock (`base::state_clock`, I4), or that was raised to the state's time. A process that
//!   executes a stamp while its leader leads continues the estimate that the stamp continues. Since
//!   an estimate began, state time has risen by at most the elapsed time and `SLEW_PPM` of it: no
//!   key dies before its time.
//! - Between two stamps of one leader it has risen by at least the elapsed time except `SLEW_PPM`
//!   of it: expiry continues, also after hours without a command.
//!
//! Why no false alarm: both bounds are those of `base::state_clock`, I2, for one estimate, and an
//! estimate that is replaced by a state time that was observed later than it was stamped (I3) is
//! behind, never ahead. So a new leader may begin behind, and the lower bound is judged within a
//! reign.

use base::state_clock::SLEW_PPM;
use base::{Prefix, Slot};

const NS_PER_MS: u64 = 1_000_000;

/// The stamp of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) unix_ms: u64,
    /// The ballot under which its leader leads.
    pub(crate) reign: u64,
    /// The world time at which it was made.
    pub(crate) at: u64,
    /// The number of the stamp with which its leader's estimate began; its own, if it began with
    /// this.
    pub(crate) continues: usize,
    /// Whether its leader took a wall clock although it knew the state's time.
    pub(crate) forgot: bool,
}

impl Stamp {
    fn passed_since(&self, earlier: &Stamp) -> (u64, u64) {
        let ms = self.at.saturating_sub(earlier.at) / NS_PER_MS;
        (ms, ms * SLEW_PPM / 1_000_000)
    }
}

/// The time in a prefix of the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Newest {
    /// The state time.
    pub(crate) state_ms: u64,
    /// The reign of the newest batch.
    pub(crate) reign: u64,
    /// The number of the stamp with which the estimate began that gave this state time.
    pub(crate) continues: usize,
}

/// The decided stamps.
#[derive(Default)]
pub(crate) struct StateTime {
    /// The stamps by the number of the batch.
    stamps: Vec<Stamp>,
    /// The time after each slot.
    slots: Vec<Newest>,
    last: Option<Stamp>,
}

impl StateTime {
    /// The number of the next batch.
    pub(crate) fn next_number(&self) -> usize {
        self.stamps.len()
    }

    /// Notes the stamp of the next batch.
    pub(crate) fn stamped(&mut self, stamp: Stamp) {
        self.stamps.push(stamp);
    }

    /// The time after everything below `prefix`.
    pub(crate) fn after(&self, prefix: Prefix) -> Newest {
        let n_known = self.slots.len().min(prefix.0 as usize);
        n_known.checked_sub(1).map_or(Newest::default(), |at| self.slots[at])
    }

    /// Notes that `slot` is decided, with this batch or with none.
    pub(crate) fn decided(&mut self, slot: Slot, number: Option<u64>) -> Result<(), String> {
        let before = self.after(Prefix(slot.0));
        self.slots.resize(slot.0 as usize + 1, before);
        let Some(number) = number.map(|number| number as usize) else { return Ok(()) };
        let Some(stamp) = self.stamps.get(number).copied() else { return Ok(()) };
        if stamp.reign < before.reign {
            return Ok(()); // Not executed (`engine::order`).
        }
        let newest = if stamp.unix_ms < before.state_ms {
            Newest { reign: stamp.reign, ..before }
        } else {
            Newest { state_ms: stamp.unix_ms, reign: stamp.reign, continues: stamp.continues }
        };
        self.slots[slot.0 as usize] = newest;
        let judged = self.judge(&stamp);
        self.last = Some(stamp);
        judged.map_err(|detail| format!("slot {slot}: {detail}"))
    }

    fn judge(&self, stamp: &Stamp) -> Result<(), String> {
        if stamp.forgot {
            return Err("a process that knew the time took its wall clock".to_owned());
        }
        let begun = &self.stamps[stamp.continues];
        let (passed, slewed) = stamp.passed_since(begun);
        let shown = stamp.unix_ms.saturating_sub(begun.unix_ms);
        // (Both stamps are cut to milliseconds, and so is the elapsed time.)
        if shown > passed + slewed + 2 {
            return Err(format!("state time has risen by {shown} ms in {passed} ms"));
        }
        if let Some(last) = self.last.filter(|last| last.reign == stamp.reign) {
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

    /// Judges stamps of (reign, time, state time), each decided in turn.
    fn judged(stamps: &[(u64, u64, u64)]) -> Result<(), String> {
        let begun = |(reign, at_ms, unix_ms)| (reign, at_ms, unix_ms, 0);
        judged_by(&stamps.iter().copied().map(begun).collect::<Vec<_>>())
    }

    /// The same, each with the number of the stamp that it continues.
    fn judged_by(stamps: &[(u64, u64, u64, usize)]) -> Result<(), String> {
        let mut times = StateTime::default();
        for (number, (reign, at_ms, unix_ms, continues)) in (0..).zip(stamps.iter().copied()) {
            let at = at_ms * NS_PER_MS;
            times.stamped(Stamp { unix_ms, reign, at, continues, forgot: false });
            times.decided(Slot(2 * number), None)?;
            times.decided(Slot(2 * number + 1), Some(number))?;
            assert_eq!(times.after(Prefix(2 * number + 2)).reign, reign);
        }
        Ok(())
    }

    #[test]
    fn a_leader_is_judged_by_the_estimate_that_it_continues() {
        // The second leader took a wall clock; the first one leads again, under a third ballot.
        let begun = [(1, 0, 9_000, 0), (2, 60_000, 9_001, 1)];
        let judged_with = |last| judged_by(&[begun[0], begun[1], last]).is_ok();
        assert!(judged_with((3, 70_000, 79_000, 0)), "nobody told it");
        assert!(!judged_with((3, 70_000, 79_000, 1)), "it executed that stamp while it was news");
        assert!(judged_with((3, 70_000, 19_001, 1)));
    }

    #[test]
    fn a_batch_of_an_earlier_leader_behind_one_of_a_later_leader_is_not_executed() {
        let mut times = StateTime::default();
        let stamps = [(1, 0, 9_000, 0), (2, 60, 9_060, 0), (1, 50, 9_090, 0)];
        for (number, (reign, at_s, unix_s, continues)) in (0..).zip(stamps) {
            let (unix_ms, at) = (unix_s * 1000, at_s * 1000 * NS_PER_MS);
            times.stamped(Stamp { unix_ms, reign, at, continues, forgot: false });
            times.decided(Slot(number), Some(number)).unwrap();
        }
        let Newest { state_ms, reign, continues } = times.after(Prefix(3));
        assert_eq!((state_ms, reign, continues), (9_060_000, 2, 0));
    }

    #[test]
    fn a_process_that_knew_the_time_and_took_its_wall_clock_is_seen() {
        let mut times = StateTime::default();
        times.stamped(Stamp { unix_ms: 9, reign: 1, at: 0, continues: 0, forgot: true });
        assert!(times.decided(Slot(0), Some(0)).is_err());
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
        // The clock stands still, and is raised to the state's time with each stamp.
        assert!(judged_by(&[(1, 0, 1000, 0), (1, 100_000, 1000, 1)]).is_err());
    }
}
