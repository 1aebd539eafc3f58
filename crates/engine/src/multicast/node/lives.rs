//! Incarnations of nodes: the incarnation of this process, those that its members meet, and those
//! that must be removed.
//!
//! A node that died with its memory comes back as another *incarnation*. Its members ask their
//! groups for their seats (docs/protocols/primcast.md, "Members"); the groups' primaries remove
//! their predecessors and seat them, and states come from live nodes.
//!
//! - N6 No two processes are the same incarnation of a node, and each is above the earlier ones. An
//!   incarnation is the time in microseconds, but above the last one in the node's region, where it
//!   is recorded before any other node hears of it. One process at a time owns that region
//!   (`region`, I4), so the clock does not matter as long as the region exists. If the region is
//!   gone (a clean stop, a reboot), only a clock that was set back can yield an incarnation below
//!   an earlier one: nodes that met the earlier one refuse it (`stream`, S6), and they refuse an
//!   equal one by the name of the life (S2).
//! - N7 Members meet an incarnation before any record of it is handed to them, and no record of an
//!   earlier one is handed to them after that (the machines' T4). By `Node::meet_newcomers`, before
//!   records are taken, and S6. Asserted in `Node::take_records`.
//! - N8 A removal names the node with its incarnation, so that a late request removes no successor.
//!   By `Node::remove_members`. A node that comes back hears of the removals that stand, since its
//!   predecessor may have died with a request. By `Node::repeat_removals`.

use super::{Beginning, Node, Origin};
use crate::multicast::application::Application;
use crate::multicast::bugs::Bug;
use crate::multicast::places::Places;
use crate::multicast::stop::StopError;
use base::{At, Incarnation, Instant, Port, Rank, SeatSet};
use proto::amcast::{Config, FOUNDER, Multicast, Pid};
use proto::omega;
use proto::planted::{Planting, Sound};

/// Decides the incarnation of this process (N6).
pub(super) fn begin(
    port: &mut impl Port,
    places: &Places,
    beginning: &Beginning,
) -> Result<Incarnation, StopError> {
    // The place of a node's incarnation in its own region.
    let place = At(omega::N_WORDS * places.layout().n_groups() as u32);
    let last = port.load(place);
    let incarnation = match beginning.origin {
        Origin::Newcomer => next_incarnation(last, beginning.unix_us),
        Origin::Founder | Origin::Disk(_) if last > FOUNDER.0 => return Err(StopError::NoFounder),
        Origin::Founder | Origin::Disk(_) => FOUNDER,
    };
    port.store(place, incarnation.0);
    Ok(incarnation)
}

fn next_incarnation(last: u64, unix_us: u64) -> Incarnation {
    Incarnation(unix_us.max(last.max(FOUNDER.0) + 1))
}

/// The machine of one member here.
pub(super) fn machine<M: Multicast<Planted = Sound>>(
    config: &Config,
    pid: Pid,
    incarnation: Incarnation,
    now: Instant,
) -> Result<M, StopError> {
    if incarnation == FOUNDER {
        return Ok(M::new(config, pid, Sound));
    }
    M::join(config, pid, Sound, incarnation, now).ok_or(StopError::NoNewcomers)
}

impl<M: Multicast, A: Application, P: Planting<Bug>> Node<M, A, P> {
    /// Tells the members here the incarnations of other nodes (N7).
    pub(super) fn meet_newcomers(&mut self) {
        for node in self.world.streams.take_met().iter() {
            if !self.world.planted.has(Bug::MeetsNobody) {
                self.meet(node);
            }
        }
    }

    /// Has all members of `node`, which may be this one, be of the incarnation that is known now.
    pub(super) fn meet(&mut self, node: Rank) {
        let incarnation = self.world.streams.incarnation(node);
        let places = &self.world.places;
        for group in places.hosted(node).iter() {
            let Some(who) = places.member(node, group) else { continue };
            for member in &mut self.members {
                member.machine.meet(who, incarnation);
            }
        }
    }

    /// Takes the application's removals; all nodes are told, so that a removal does not depend on
    /// the present leaders.
    pub(super) fn take_removals(&mut self) -> bool {
        let wanted = std::mem::replace(&mut self.desk.removals, SeatSet::EMPTY);
        for node in wanted.iter() {
            let incarnation = self.world.streams.incarnation(node);
            self.world.ask_removal(node, incarnation);
            self.want_removed(node, incarnation);
        }
        !wanted.is_empty()
    }

    /// Tells a node that came back which ones groups must remove.
    pub(super) fn repeat_removals(&mut self, to: Rank) {
        for node in Rank::all(self.world.places.n_nodes()) {
            let upto = Incarnation(self.removals[node.index()]);
            if upto > Incarnation(0) && upto >= self.world.streams.incarnation(node) {
                self.world.tell_removal(to, node, upto);
            }
        }
    }

    /// Notes that groups must remove `node`, unless it has a later incarnation than this.
    pub(super) fn want_removed(&mut self, node: Rank, incarnation: Incarnation) {
        if self.desk.changes_members {
            let upto = &mut self.removals[node.index()];
            *upto = incarnation.0.max(*upto);
        }
    }

    /// Whether this node must leave: then others lead.
    pub(super) fn is_leaving(&self) -> bool {
        let me = self.world.me;
        self.removals[me.index()] >= self.world.streams.incarnation(me).0
    }

    /// Has the primaries here remove the nodes that must leave (N8). A repetition changes nothing.
    pub(super) fn remove_members(&mut self) {
        for node in Rank::all(self.world.places.n_nodes()) {
            let upto = self.removals[node.index()];
            if upto == 0 {
                continue;
            }
            for member in self.members.iter_mut().filter(|member| member.machine.is_primary()) {
                let Some(seat) = self.world.places.member(node, member.pid.group) else { continue };
                let Some((members, _)) = member.machine.members() else { continue };
                let votes = members.voters.contains(seat.rank);
                let is_meant = members.incarnation(seat.rank).0 <= upto
                    || self.world.planted.has(Bug::RemovesSuccessor);
                if votes && is_meant && seat != member.pid {
                    // The primary at that time is asked again.
                    let _not_now = member.machine.remove(seat.rank);
                }
            }
        }
    }

    /// Checks whether this process may continue; other nodes may have refused it (N4).
    pub(super) fn check_life(&self) -> Result<(), StopError> {
        if self.world.has_garbage {
            return Err(StopError::Garbled);
        }
        if let Some(by) = self.world.streams.left_by() {
            return Err(StopError::LeftBehind(by));
        }
        if let Some((by, why)) = self.world.streams.refused_by() {
            return Err(StopError::Refused(by, why));
        }
        if !self.members.is_empty() && self.members.iter().all(|m| m.machine.has_parted()) {
            return Err(StopError::Removed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n6_incarnations_rise_even_if_the_clock_is_set_back() {
        let first = next_incarnation(FOUNDER.0, 1_000);
        assert_eq!(first, Incarnation(1_000));
        assert_eq!(next_incarnation(first.0, 400), Incarnation(1_001), "set back");
        assert_eq!(next_incarnation(1_001, 1_001), Incarnation(1_002), "within a microsecond");
        assert!(next_incarnation(0, 0) > FOUNDER, "without a region and without a clock");
    }
}
