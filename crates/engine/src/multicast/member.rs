//! One member of a group on its node, and how it is written to the disk and comes back.

use crate::multicast::application::Application;
use crate::multicast::bugs::Bug;
use crate::multicast::desk::MemberView;
use crate::multicast::journal::{Found, Kept};
use crate::multicast::stop::StopError;
use crate::multicast::world::{Stage, World};
use base::{Instant, MemberSet, Rank, SeatSet};
use proto::amcast::{Config, FOUNDER, Multicast, Pid};
use proto::omega::Omega;
use proto::planted::{Planting, Sound};

/// One member that lives here.
#[derive(Debug)]
pub(crate) struct Member<M> {
    pub(crate) pid: Pid,
    pub(crate) machine: M,
    pub(crate) omega: Omega,
    /// The nodes of its group, by rank.
    pub(crate) nodes: Vec<Rank>,
    pub(crate) delivered: u64,
    /// Whether it is a member, and has everything that others have dropped. A newcomer is not at
    /// first.
    pub(crate) is_seated: bool,
    /// Whether its group has had other members than the founders.
    has_changed: bool,
}

impl<M: Multicast> Member<M> {
    pub(crate) const fn new(
        pid: Pid,
        machine: M,
        omega: Omega,
        nodes: Vec<Rank>,
        is_seated: bool,
    ) -> Member<M> {
        Member { pid, machine, omega, nodes, delivered: 0, is_seated, has_changed: false }
    }

    /// Whether `node` hosts a member of this group whose heartbeats have stopped: it hangs, though
    /// its death was not reported.
    pub(crate) fn misses(&self, node: Rank) -> bool {
        let place = self.nodes.iter().position(|on| *on == node);
        place.is_some_and(|at| !self.omega.heard().contains(Rank::at(at)))
    }

    /// Has Ω name only members, and only ones that can lead. `leaves` if others are to lead.
    pub(crate) fn follow_members(&mut self, leaves: bool) {
        self.is_seated |= self.machine.takes_part();
        let Some((members, _)) = self.machine.members() else { return };
        let n = self.nodes.len();
        let sits = |rank: Rank| members.has(rank, FOUNDER);
        // A newcomer knows no member yet: it follows the member that the others follow.
        let is_known = !members.voters.is_empty();
        self.has_changed |= is_known && !Rank::all(n).all(sits);
        if self.has_changed && is_known {
            self.omega.set_voters(members.voters, MemberSet::EMPTY);
        }
        self.omega.set_able(self.is_seated && !leaves && !self.machine.has_parted());
    }

    /// The nodes that vote in its group, as far as it knows.
    fn voters(&self) -> SeatSet {
        let all = || self.nodes.iter().copied().collect();
        let Some((members, _)) = self.machine.members() else { return all() };
        members.voters.iter().filter_map(|rank| self.nodes.get(rank.index()).copied()).collect()
    }

    pub(crate) fn view(&self) -> MemberView {
        MemberView {
            group: self.pid.group,
            rank: self.pid.rank,
            is_primary: self.machine.is_primary(),
            trusted: self.omega.trusted(),
            safe_ts: self.machine.safe_ts(),
            delivered: self.delivered,
            is_seated: self.is_seated,
            voters: self.voters(),
        }
    }
}

/// A member as an earlier life of its node wrote it to the disk; its application's state and the
/// later deliveries wait to be handed over.
pub(crate) fn comes_back<M: Multicast<Planted = Sound>, A: Application, P: Planting<Bug>>(
    member: &mut Member<M>,
    config: &Config,
    found: &Found,
    (world, app): (&mut World<M::Wire, P>, &mut A),
    now: Instant,
) -> Result<(), StopError> {
    let group = member.pid.group;
    let kept = found.members.iter().find(|kept| kept.group == group.index());
    let kept = kept.ok_or(StopError::OtherDirectory)?;
    world.acting = member.pid;
    world.install(&kept.app);
    let mut stage = Stage { world, app };
    let changes: Vec<&[u8]> = kept.changes.iter().map(Vec::as_slice).collect();
    let pid = member.pid;
    let restored = M::restore(config, pid, Sound, &kept.stable, &changes, now, &mut stage);
    member.machine = restored.map_err(|_| StopError::Unreadable)?;
    Ok(())
}

/// Everything that the members here have to remember across lives.
pub(crate) fn whole<M: Multicast, A: Application, P: Planting<Bug>>(
    lives: u64,
    members: &mut [Member<M>],
    world: &World<M::Wire, P>,
    app: &mut A,
) -> Found {
    let members = members.iter_mut().map(|member| {
        let group = member.pid.group;
        let (mut stable, mut state) = (Vec::new(), Vec::new());
        member.machine.stable(&mut stable);
        if let Some(of) = world.state(group, app) {
            of.encode(&mut state);
        }
        Kept { group: group.index(), stable, app: state, changes: Vec::new() }
    });
    Found { lives, disks: world.streams.disks().collect(), members: members.collect() }
}
