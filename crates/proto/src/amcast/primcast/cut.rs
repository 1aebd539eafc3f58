//! Snapshots at a timestamp (4.4.2): the moment at which exactly what is up to it was delivered.
//!
//! - P16 When [`Host::cut`] says that the cut at t is exact, what this process has delivered is
//!   every message to its group with a final timestamp up to t, and no other. Nothing is missing,
//!   since `safe_ts` has reached t, or the first pending message that may be delivered is above it;
//!   nothing is too much, since whatever is above t is delivered after the cut. Cuts of several
//!   groups at one t together are therefore one prefix of the order of all messages. Global: sim
//!   checker `snapshots`.
//!
//! An idle group's clocks stand still, and so would a cut above them. Whoever wants one asks its
//! group to raise them (Raise, which only ever skips timestamps), again after a while: a primary
//! may have died. Two steps within the group, and no other group hears of it.

use super::{Machine, PrimcastWire};
use crate::amcast::variant::Variant;
use crate::amcast::{Cut, Host, NoCut, Timestamp, To};
use base::Instant;

/// How many cuts one process may be asked for at once.
const CUTS_MAX: usize = 1024;

impl<V: Variant> Machine<V> {
    /// The highest final timestamp that was delivered.
    fn highest_delivered(&self) -> Timestamp {
        let ahead = self.ahead.last_key_value().map_or(Timestamp::ZERO, |((at, _), _)| *at);
        self.last.0.max(ahead)
    }

    /// The lowest timestamp at which a cut can still be had, and the sooner the lower it is.
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

    /// Has the own group's clocks pass every cut.
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

    /// P16: takes the cuts that nothing can come up to any more. True if there was one.
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

    /// P16: a message at `at` is next, and everything below it was delivered.
    pub(super) fn take_cuts_below<H: Host<PrimcastWire>>(&mut self, at: Timestamp, host: &mut H) {
        while let Some(first) = self.cuts.first().copied()
            && first < at
        {
            self.cuts.pop_first();
            host.cut(first, Cut::Exact);
        }
    }

    /// A state was put in place of the own: cuts below what is in it will never be.
    pub(super) fn miss_cuts<H: Host<PrimcastWire>>(&mut self, host: &mut H) {
        let delivered = self.highest_delivered();
        while let Some(first) = self.cuts.first().copied()
            && first < delivered
        {
            self.cuts.pop_first();
            host.cut(first, if V::CUT_OF_STATE { Cut::Exact } else { Cut::Missed });
        }
    }
}
