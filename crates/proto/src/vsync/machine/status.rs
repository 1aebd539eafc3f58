//! What a process of a group tells of itself.

use super::super::Delivery;
use super::super::bugs::{Bug, Plantings};
use super::super::clock::Time;
use super::super::current::Current;
use super::super::order::Standing;
use super::super::relaying::Relayed;
use super::super::shard::ViewId;
use super::super::view::View;
use super::{Inside, Life, Machine, Position};
use crate::codec::Coded;
use alloc::vec::Vec;
use base::{Instant, Port, SeatSet};

/// What the row of a member that has wedged says of the end of its view (`change`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The view that ends.
    pub view: ViewId,
    /// The members that it suspects: no change of theirs will be echoed (C3).
    pub suspected: SeatSet,
    /// The standing of the leader whose change the row shows, and the bytes of that
    /// change.
    pub shown: Option<(Standing, Vec<u8>)>,
    /// Whether that change is decided, as far as this member knows (C9).
    pub is_committed: bool,
}

impl<P: Plantings> Current<P> {
    /// What the own row says, once this member has wedged.
    pub(super) fn ending(&self) -> Option<Ending> {
        if !self.is_wedged() {
            return None;
        }
        let ballot = self.own(self.row.proposer);
        let shown = ballot.checked_sub(1).map(|standing| {
            let mut change = Vec::new();
            self.row.change(&self.table, self.me).put(&mut change);
            (Standing(standing as u16), change)
        });
        Some(Ending {
            view: self.view.id,
            suspected: self.suspected(self.me),
            shown,
            is_committed: self.own(self.row.committed) == 1,
        })
    }
}

impl<P: Plantings> Machine<P> {
    /// The view that this process is in.
    pub fn view(&self) -> Option<&View> {
        self.inside().map(|inside| &inside.current.view)
    }

    /// The position up to which this process has delivered in its shard of a subgroup. None without
    /// such a subgroup.
    pub fn position(&self, subgroup: usize) -> Option<Position> {
        let current = &self.inside()?.current;
        (subgroup < current.lanes.len()).then(|| current.position(subgroup))
    }

    /// The end of this process's lease, on its clock: whether there is one is to be asked once more
    /// when a read is executed (E1).
    pub fn lease_until(&self) -> Instant {
        let current = self.inside().map(|inside| &inside.current);
        match current {
            Some(current) if self.planted.has(Bug::LeaseUnchecked) && !current.is_wedged() => {
                Instant(u64::MAX)
            }
            current => current.map_or(Instant::ZERO, |current| current.lease.until()),
        }
    }

    /// The time from which on this process may answer updates and reads of its shard of a subgroup,
    /// on its clock (E2); when it is a member no longer, what it has delivered before.
    pub fn answers_from(&self, subgroup: usize) -> Instant {
        let from = match self.inside() {
            Some(inside) => inside.current.lane_of(subgroup).map(|lane| lane.answers.from()),
            None => self.answers.get(subgroup).copied(),
        };
        from.unwrap_or(Instant::ZERO)
    }

    /// The position up to which a read that comes now has to see the order (E4). None without a
    /// shard, and of a process that waits for the shard's state, which it has not seen.
    pub fn held(&self, subgroup: usize) -> Option<Position> {
        let current = &self.inside()?.current;
        if !current.has_lane(subgroup) || !current.is_ready(subgroup) {
            return None;
        }
        let delivered = current.position(subgroup);
        if self.planted.has(Bug::ReadsWhatIsThere) {
            return Some(delivered);
        }
        Some(Position { at: current.held_by(subgroup, current.me).max(delivered.at), ..delivered })
    }

    /// The messages of this process's shard of a subgroup that it holds in their order, and has not
    /// delivered (V32). None without an order, and of a process that waits for the shard's state.
    pub fn ahead(&self, subgroup: usize, port: &impl Port) -> Vec<Delivery> {
        let Some(Inside { current, .. }) = self.inside() else { return Vec::new() };
        if !current.has_lane(subgroup) || !current.is_ready(subgroup) {
            return Vec::new();
        }
        // A member that was left behind learns it by its next turn, and holds nothing.
        current.ahead(subgroup, &self.outboxes[subgroup], port).unwrap_or_default()
    }

    /// The time up to which the order of this process's shard of a subgroup is final: nothing is
    /// delivered there any longer with such a time (K5). Zero while nothing is known of it.
    pub fn frontier(&self, subgroup: usize) -> Time {
        let lane = self.inside().and_then(|inside| inside.current.lane_of(subgroup));
        lane.map_or(Time::default(), |lane| lane.frontier.time())
    }

    /// Whether this process is a member that has the states of all shards that it is in.
    pub fn is_ready(&self) -> bool {
        let is_all = |current: &Current<P>| {
            let mut own = (0..current.lanes.len()).filter(|at| current.has_lane(*at));
            own.all(|at| current.is_ready(at))
        };
        self.inside().is_some_and(|inside| is_all(&inside.current))
    }

    /// Whether this process sends and receives nothing more in its view.
    pub fn is_wedged(&self) -> bool {
        self.inside().is_some_and(|inside| inside.current.is_wedged())
    }

    /// What this process's rows say of the ends of its view and of the one before: of those that
    /// are ending. When it is a member no longer, what it told last of the one that it has left.
    pub fn endings(&self) -> Vec<Ending> {
        let rows = match &self.life {
            Life::Inside(inside) => [inside.last.as_ref(), Some(&inside.current)],
            Life::Leaving { current, .. } => [Some(&**current), None],
            Life::Outside { .. } => [None, None],
            Life::Ended(told) => return told.iter().cloned().collect(),
        };
        rows.into_iter().flatten().filter_map(Current::ending).collect()
    }

    /// What this process has sent of large messages over a network, since it has been a member.
    pub fn relayed(&self) -> Relayed {
        match &self.life {
            Life::Inside(inside) => inside.current.relayed(),
            Life::Leaving { current, .. } => current.relayed(),
            Life::Outside { .. } | Life::Ended(_) => Relayed::default(),
        }
    }

    /// Whether other members are to get blocks of others' messages by way of this process.
    pub fn owes_blocks(&self) -> bool {
        self.inside().is_some_and(|inside| inside.current.owes_blocks())
    }

    pub(super) fn inside(&self) -> Option<&Inside<P>> {
        if let Life::Inside(inside) = &self.life { Some(inside) } else { None }
    }
}
