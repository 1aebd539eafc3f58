//! Snapshots at a timestamp (4.4.2): the moment at which exactly the messages up to it were
//! delivered.
//!
//! - P16 When [`Host::cut`] says that the cut at t is exact, what this process has delivered is
//!   every message to its group with a final timestamp up to t, and no other. Nothing is missing,
//!   since `safe_ts` has reached t, or the first pending message that may be delivered is above it;
//!   nothing is too much, since every message above t is delivered after the cut. Cuts of several
//!   groups at one t together are therefore one prefix of the order of all messages. Global: sim
//!   checker `snapshots`.
//!
//! An idle group's clocks stand still, and a cut above them would never come. A process with a cut
//! to take asks its group to raise them (Raise, which only ever skips timestamps), and repeats that
//! after a while: a primary may have died. That takes two steps within the group, and no other
//! group is involved.

use super::{Machine, PrimcastWire};
use crate::amcast::bugs::Bug;
use crate::amcast::{Cut, Host, NoCut, Timestamp, To};
use crate::planted::Planting;
use base::Instant;

/// The number of cuts that may be requested of one process at once.
const CUTS_MAX: usize = 1024;

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
        let pending = self.pending.first().map_or(Timestamp(u64::MAX), |(bound, _)| below(*bound));
        match self.takes_part() {
            true => primary.min(quorum).min(pending),
            // The log may be about to change, or begins above the last delivery here.
            false => self.last.0.before(),
        }
    }

    /// The highest final timestamp of a delivered message.
    fn highest_delivered(&self) -> Timestamp {
        let ahead = self.ahead.last_key_value().map_or(Timestamp::ZERO, |((at, _), _)| *at);
        self.last.0.max(ahead)
    }

    /// The lowest timestamp at which a cut is still possible; lower cuts come sooner.
    pub(super) fn lowest_cut(&self) -> Timestamp {
        self.highest_delivered().max(self.safe_ts())
    }

    pub(super) fn ask_for_cut(&mut self, at: Timestamp, now: Instant) -> Result<(), NoCut> {
        let delivered = self.highest_delivered();
        if delivered > at {
            return Err(NoCut::TooLate(delivered));
        }
        if self.cuts.len() >= CUTS_MAX {
            return Err(NoCut::TooMany);
        }
        self.cuts.insert(at);
        self.raise_at = Some(now);
        Ok(())
    }

    /// Asks the own group to raise its clocks above every cut.
    pub(super) fn raise_for_cuts<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        let Some(highest) = self.cuts.last().copied() else {
            self.raise_at = None;
            return;
        };
        if self.raise_at.is_none_or(|at| at > now) {
            return;
        }
        self.raise_at = Some(now.plus(self.config.patience));
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
            && let Some(first) = self.cuts.first().copied()
            && first <= self.safe_ts()
        {
            self.cuts.pop_first();
            host.cut(first, Cut::Exact);
            took = true;
        }
        took
    }

    /// P16: takes the cuts below `at`, the place of the next message: everything below it was
    /// delivered.
    pub(super) fn take_cuts_below<H: Host<PrimcastWire>>(&mut self, at: Timestamp, host: &mut H) {
        while let Some(first) = self.cuts.first().copied()
            && first < at
        {
            self.cuts.pop_first();
            host.cut(first, Cut::Exact);
        }
    }

    /// Reports cuts that will never be, since an installed state covers them.
    pub(super) fn miss_cuts<H: Host<PrimcastWire>>(&mut self, host: &mut H) {
        let delivered = self.highest_delivered();
        while let Some(first) = self.cuts.first().copied()
            && first < delivered
        {
            self.cuts.pop_first();
            let is_taken = self.planted.has(Bug::CutOfState);
            host.cut(first, if is_taken { Cut::Exact } else { Cut::Missed });
        }
    }
}
