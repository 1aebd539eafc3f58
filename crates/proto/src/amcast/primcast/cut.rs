//! Snapshots at a timestamp (4.4.2): the moment at which exactly the messages up to it were
//! delivered.
//!
//! - P16 When `Deliveries::cut` says that the cut at t is exact, what this process has
//!   delivered is every message to its group with a final timestamp up to t, and no other. Nothing
//!   is missing, since `safe_ts` has reached t, or the first pending message that may be delivered
//!   is above it; nothing is too much, since every message above t is delivered after the cut. Cuts
//!   of several groups at one t together are therefore one prefix of the order of all messages.
//!   Global: sim checker `snapshots`.
//!
//! An idle group's clocks stand still, and a cut above them would never come. A process with a cut
//! to take asks its group to raise them (Raise, which only ever skips timestamps), and repeats that
//! after a while: a primary may have died. That takes two steps within the group, and no other
//! group is involved.

use super::{Machine, PrimcastWire};
use crate::amcast::bugs::Bug;
use crate::amcast::{Cut, Host, NoCut, Timestamp, To};
use crate::planted::Planting;
use alloc::collections::BTreeSet;
use base::Instant;
use core::time::Duration;

/// The number of cuts that may be requested of one process at once.
const CUTS_MAX: usize = 1024;

/// The cuts that are requested.
#[derive(Clone, Debug, Default)]
pub(super) struct Cuts {
    wanted: BTreeSet<Timestamp>,
    /// The time at which the group is asked (again) to raise its clocks for them.
    raise_at: Option<Instant>,
}

impl Cuts {
    /// Adds a cut, unless a message above it is `delivered`.
    fn add(&mut self, at: Timestamp, delivered: Timestamp, now: Instant) -> Result<(), NoCut> {
        if delivered > at {
            return Err(NoCut::TooLate(delivered));
        }
        if self.wanted.len() >= CUTS_MAX {
            return Err(NoCut::TooMany);
        }
        self.wanted.insert(at);
        self.raise_at = Some(now);
        Ok(())
    }

    /// The next cut.
    pub(super) fn first(&self) -> Option<Timestamp> {
        self.wanted.first().copied()
    }

    /// Removes the next cut if it is due.
    fn take_if(&mut self, is_due: impl FnOnce(Timestamp) -> bool) -> Option<Timestamp> {
        let first = self.first()?;
        is_due(first).then(|| self.wanted.pop_first())?
    }

    /// The timestamp above which to raise the group's clocks now, if that is due; it is due again
    /// after `patience`, as long as there are cuts.
    fn raises(&mut self, now: Instant, patience: Duration) -> Option<Timestamp> {
        let Some(highest) = self.wanted.last().copied() else {
            self.raise_at = None;
            return None;
        };
        self.raise_at.take_if(|at| *at <= now)?;
        self.raise_at = Some(now.plus(patience));
        Some(highest)
    }

    pub(super) const fn raise_at(&self) -> Option<Instant> {
        self.raise_at
    }
}

impl<P: Planting<Bug>> Machine<P> {
    /// The timestamp up to which every message to this group has been delivered (4.4.2, one lower
    /// than the listing, whose value can equal a pending timestamp). Where messages commute some
    /// above may be delivered too.
    pub fn safe_ts(&self) -> Timestamp {
        let (primary, quorum) = self.own_clocks();
        let quorum = if self.planted.has(Bug::SafeTsWithoutQuorum) { primary } else { quorum };
        let below = |bound: Timestamp| {
            if self.planted.has(Bug::SafeTsPending) { bound } else { bound.before() }
        };
        let pending =
            self.log.pending.first().map_or(Timestamp(u64::MAX), |(bound, _)| below(*bound));
        match self.takes_part() {
            true => primary.min(quorum).min(pending),
            // The log may be about to change, or begins above the last delivery here.
            false => self.delivered.last().0.before(),
        }
    }

    /// The lowest timestamp at which a cut is still possible; lower cuts come sooner.
    pub(super) fn lowest_cut(&self) -> Timestamp {
        self.delivered.highest().max(self.safe_ts())
    }

    pub(super) fn ask_for_cut(&mut self, at: Timestamp, now: Instant) -> Result<(), NoCut> {
        self.cuts.add(at, self.delivered.highest(), now)
    }

    /// Asks the own group to raise its clocks above every cut.
    pub(super) fn raise_for_cuts<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        let Some(highest) = self.cuts.raises(now, self.config.patience) else { return };
        let (primary, quorum) = self.own_clocks();
        if primary.min(quorum) < highest {
            let own = self.me.group.alone();
            self.on_raise(self.me, highest, own, host);
            host.send(To::Groups(own), &PrimcastWire::Raise { ts: highest, to: own });
        }
    }

    /// P16: takes the cuts that no further message can reach. True if there was one.
    pub(super) fn take_cuts<H: Host<PrimcastWire>>(&mut self, host: &mut H) -> bool {
        let mut took = false;
        while self.takes_part()
            && self.cuts.first().is_some_and(|first| first <= self.safe_ts())
            && let Some(first) = self.cuts.take_if(|_| true)
        {
            host.cut(first, Cut::Exact);
            took = true;
        }
        took
    }

    /// P16: takes the cuts below `at`, the place of the next message: everything below it was
    /// delivered.
    pub(super) fn take_cuts_below<H: Host<PrimcastWire>>(&mut self, at: Timestamp, host: &mut H) {
        while let Some(first) = self.cuts.take_if(|first| first < at) {
            host.cut(first, Cut::Exact);
        }
    }

    /// Reports cuts that will never be, since an installed state covers them.
    pub(super) fn miss_cuts<H: Host<PrimcastWire>>(&mut self, host: &mut H) {
        let delivered = self.delivered.highest();
        while let Some(first) = self.cuts.take_if(|first| first < delivered) {
            let is_taken = self.planted.has(Bug::CutOfState);
            host.cut(first, if is_taken { Cut::Exact } else { Cut::Missed });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p16_cuts_are_taken_in_order_and_none_below_a_delivery_is_added() {
        let (mut cuts, now) = (Cuts::default(), Instant::ZERO);
        assert_eq!(cuts.add(Timestamp(4), Timestamp(5), now), Err(NoCut::TooLate(Timestamp(5))));
        assert_eq!(cuts.add(Timestamp(7), Timestamp(5), now), Ok(()));
        assert_eq!(cuts.add(Timestamp(5), Timestamp(5), now), Ok(()));
        let mut take_below = |bound: u64| cuts.take_if(|first| first < Timestamp(bound));
        assert_eq!((take_below(7), take_below(7)), (Some(Timestamp(5)), None));
        assert_eq!(cuts.first(), Some(Timestamp(7)));
    }

    #[test]
    fn clocks_are_raised_above_the_last_cut_and_again_after_a_patience() {
        let (mut cuts, patience) = (Cuts::default(), Duration::from_millis(3));
        assert_eq!(cuts.raises(Instant::ZERO, patience), None);
        cuts.add(Timestamp(7), Timestamp::ZERO, Instant::ZERO).expect("there is room");
        assert_eq!(cuts.raises(Instant::ZERO, patience), Some(Timestamp(7)));
        assert_eq!(cuts.raises(Instant::ZERO, patience), None, "not again at once");
        let later = Instant::ZERO.plus(patience);
        assert_eq!(
            (cuts.raise_at(), cuts.raises(later, patience)),
            (Some(later), Some(Timestamp(7)))
        );
        cuts.take_if(|_| true);
        assert_eq!((cuts.raises(later, patience), cuts.raise_at()), (None, None));
    }
}
