//! Members that change: processes that die with their memory, others that take their seats, and an
//! operator that removes living ones.
//!
//! - L1 A seat is judged as one process through all its lives: its present process has to deliver
//!   everything that was delivered there before, in the same order, and then continue. Asserted
//!   whenever it delivers (`World::note_members`), and at the end (`World::is_behind_its_seat`).
//! - L3 What a process takes another one, in its present life, to have delivered, that one has
//!   delivered: what all have is forgotten. Asserted after each step ([`World::check_marks`]).
//! - L2 No process dies if that could leave some members that may be in force without a majority:
//!   those that any process of the group has accepted since the newest that are known to have
//!   begun, and the results of the changes that are requested. By [`World::can_lose`].

use super::{What, World};
use crate::amcast::process::{Applied, Join, Protocol};
use base::{Incarnation, Instant, MemberSet, Rank};
use proto::amcast::bugs::Bug;
use proto::amcast::wire::Wire;
use proto::amcast::{Config, FOUNDER, GroupId, Members, Pid};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The present and the earlier processes of the seats.
pub(in crate::amcast) struct Lives<W> {
    /// Whether members change at all.
    pub(in crate::amcast) change: bool,
    config: Config,
    join: Join<W>,
    bug: Option<Bug>,
    /// The incarnation on each seat.
    sits: BTreeMap<Pid, u64>,
    /// The deliveries on each seat, by any of its processes.
    delivered: BTreeMap<Pid, Applied>,
    /// The members that a process of each group has accepted, in order, and whether they have
    /// begun.
    seen: BTreeMap<GroupId, Vec<(Members, bool)>>,
    /// The member of each group that is to be removed.
    leaving: BTreeMap<GroupId, Rank>,
    /// The processes that died as primaries, and were not replaced.
    dead_primaries: Vec<Pid>,
    /// The deviation of a process from its seat's order.
    pub(in crate::amcast) astray: Option<String>,
}

impl<W> Lives<W> {
    pub(in crate::amcast) fn new(protocol: &Protocol<W>, config: &Config) -> Lives<W> {
        Lives {
            change: false,
            config: config.clone(),
            join: protocol.join,
            bug: protocol.bug,
            sits: BTreeMap::new(),
            delivered: BTreeMap::new(),
            seen: BTreeMap::new(),
            leaving: BTreeMap::new(),
            dead_primaries: Vec::new(),
            astray: None,
        }
    }

    fn sits(&self, pid: Pid) -> Incarnation {
        Incarnation(self.sits.get(&pid).copied().unwrap_or(FOUNDER.0))
    }

    /// The newest members of a group that have begun; `None` as long as they are the founders.
    pub(in crate::amcast) fn newest(&self, group: GroupId) -> Option<Members> {
        let seen = self.seen.get(&group)?;
        seen.iter().rev().find(|(_, has_begun)| *has_begun).map(|(members, _)| *members)
    }
}

impl<W: Wire> World<W> {
    /// L3.
    pub(super) fn check_marks(&self, process: usize) {
        let machine = self.machine(process);
        for (other, seat) in self.processes.iter().enumerate().filter(|(at, _)| *at != process) {
            let (Some((heard, told)), Some((lives, delivered))) =
                (machine.mark_of(seat.pid), self.machine(other).mark_of(seat.pid))
            else {
                return;
            };
            let (pid, of) = (self.pid(process), seat.pid);
            assert!(
                heard != lives || told <= delivered,
                "P6: {pid:?} takes {of:?} to have delivered up to {told:?}, not {delivered:?}"
            );
        }
    }

    /// Whether a process is one of its group's members, by the newest that have begun.
    pub(in crate::amcast) fn is_member(&self, process: usize) -> bool {
        let pid = self.pid(process);
        let newest = self.lives.newest(pid.group);
        newest.is_none_or(|members| members.has(pid.rank, self.lives.sits(pid)))
    }

    /// L2: whether a group survives without this process.
    pub(in crate::amcast) fn can_lose(&self, process: usize) -> bool {
        let Pid { group, .. } = self.pid(process);
        let alive = |rank: Rank, incarnation: Incarnation| {
            let pid = Pid { group, rank };
            let at = self.index(pid);
            at != process
                && self.is_alive(at)
                && self.lives.sits(pid) == incarnation
                && !self.machine(at).has_parted()
        };
        let goes_on = |members: &Members| {
            let alive: MemberSet = members
                .voters
                .iter()
                .filter(|rank| alive(*rank, members.incarnation(*rank)))
                .collect();
            members.has_quorum(alive)
        };
        let n = self.lives.config.layout.members(group);
        let founders = Members::founders(n, base::Ballot::NONE);
        let mut seen = self.lives.seen.get(&group).cloned().unwrap_or_default();
        let newest = seen.iter().rposition(|(_, has_begun)| *has_begun);
        seen.drain(..newest.unwrap_or(0));
        let mut in_force: Vec<Members> = seen.into_iter().map(|(members, _)| members).collect();
        if newest.is_none() {
            in_force.push(founders);
        }
        if let Some(seat) = self.lives.leaving.get(&group) {
            let left: Vec<_> = in_force.iter().map(|members| members.without(*seat)).collect();
            in_force.extend(left);
        }
        for rank in Rank::all(n) {
            let pid = Pid { group, rank };
            let life = self.lives.sits(pid);
            for members in in_force.clone() {
                if members.incarnation(rank) < life {
                    in_force.push(members.without(rank));
                    in_force.push(members.without(rank).with(rank, life));
                }
            }
        }
        in_force.iter().filter(|members| !members.voters.is_empty()).all(goes_on)
    }

    /// Requests the removal of a member that may still live. False if that is impossible now.
    pub(in crate::amcast) fn ask_for_removal(&mut self, process: usize) -> bool {
        let Pid { group, rank } = self.pid(process);
        let n_voters = self.lives.newest(group).map(|members| members.voters.len());
        let n_voters = n_voters.unwrap_or(self.lives.config.layout.members(group));
        if n_voters < 2 || self.lives.leaving.contains_key(&group) || !self.is_member(process) {
            return false;
        }
        // The rest must survive without it, and without those that are dead already.
        self.lives.leaving.insert(group, rank);
        if !self.can_lose(process) {
            self.lives.leaving.remove(&group);
            return false;
        }
        true
    }

    /// Repeats the operator's requests to the groups' primaries.
    pub(in crate::amcast) fn repeat_removals(&mut self) {
        for (group, seat) in self.lives.leaving.clone() {
            let gone = self.lives.newest(group).is_some_and(|now| !now.voters.contains(seat));
            if gone {
                self.lives.leaving.remove(&group);
                continue;
            }
            for process in 0..self.n_processes() {
                if self.pid(process).group == group && self.is_alive(process) {
                    let _ = self.processes[process].machine.remove(seat);
                    self.push(self.now, What::Settle(process));
                }
            }
        }
    }

    /// Whether a member of this group is being removed.
    pub(in crate::amcast) fn is_removing(&self, group: GroupId) -> bool {
        self.lives.leaving.contains_key(&group)
    }

    /// Whether this process is being removed: Ω should name another.
    pub(in crate::amcast) fn is_leaving(&self, process: usize) -> bool {
        let Pid { group, rank } = self.pid(process);
        self.machine(process).has_parted() || self.lives.leaving.get(&group) == Some(&rank)
    }

    /// Notes that a process has died with its memory.
    pub(in crate::amcast) fn note_death(&mut self, process: usize) {
        let pid = self.pid(process);
        if self.machine(process).is_primary() {
            self.lives.dead_primaries.push(pid);
        }
    }

    /// Seats a process with an empty memory where one has died or was removed.
    pub(in crate::amcast) fn renew(&mut self, process: usize) {
        let pid = self.pid(process);
        let life = self.lives.sits(pid).0 + 1;
        let now = Instant(self.now);
        let Some(machine) =
            (self.lives.join)(&self.lives.config, pid, self.lives.bug, Incarnation(life), now)
        else {
            return;
        };
        self.lives.sits.insert(pid, life);
        let of = &mut self.processes[process];
        of.machine = machine;
        of.applied.clear();
        of.cuts.clear();
        of.inbox.clear();
        (of.alive, of.paused, of.settles, of.tick_at) = (true, false, false, None);
        self.counts.changes.newcomers += 1;
        self.history.cuts_due.retain(|(by, _)| *by != pid);
        self.renew_links(process);
        self.renew_lives(process, life);
        if !self.history.correct.contains(&pid) {
            self.history.correct.push(pid);
        }
        self.note(|text| write!(text, "{pid:?} begins anew, life {life}"));
        self.push(self.now, What::Settle(process));
    }

    /// Notes the members of a process's group after each of its steps, and checks L1.
    pub(in crate::amcast) fn note_members(&mut self, process: usize) {
        if !self.lives.change {
            return;
        }
        let pid = self.pid(process);
        let of = &self.processes[process];
        let delivered = self.lives.delivered.entry(pid).or_default();
        let n_common = delivered.len().min(of.applied.len());
        if delivered[..n_common] != of.applied[..n_common] && self.lives.astray.is_none() {
            let detail = format!(
                "{pid:?} in its new life delivers {:?} where its seat had {delivered:?}",
                of.applied
            );
            self.lives.astray = Some(detail);
        }
        delivered.extend_from_slice(&of.applied[n_common..]);
        let Some((members, has_begun)) = of.machine.members() else { return };
        if members.voters.is_empty() {
            return;
        }
        let seen = self.lives.seen.entry(pid.group).or_default();
        let at = seen.partition_point(|(known, _)| known.since < members.since);
        let is_known = seen.get(at).is_some_and(|(known, _)| known.since == members.since);
        if !is_known {
            seen.insert(at, (members, false));
        }
        assert_eq!(seen[at].0, members, "P20: one epoch begins with one set of members");
        if has_begun && !seen[at].1 {
            seen[at].1 = true;
            let before = seen[..at].iter().rev().find(|(_, has_begun)| *has_begun);
            let before = before.map(|(before, _)| *before);
            if let Some(before) = before {
                self.note_change(pid.group, &before, &members);
            }
        }
    }

    fn note_change(&mut self, group: GroupId, before: &Members, members: &Members) {
        self.note(|text| write!(text, "{group:?} goes on with {members:?}"));
        self.counts.changes.made += 1;
        for rank in before.voters.difference(members.voters).iter() {
            let pid = Pid { group, rank };
            let at = self.index(pid);
            let lives = self.is_alive(at) && self.lives.sits(pid) == before.incarnation(rank);
            self.counts.changes.removals += 1;
            self.counts.changes.removals_of_living += u64::from(lives);
        }
        for rank in members.voters.difference(before.voters).iter() {
            let pid = Pid { group, rank };
            self.counts.changes.additions += 1;
            let n_before = self.lives.dead_primaries.len();
            self.lives.dead_primaries.retain(|dead| *dead != pid);
            let was_primary = self.lives.dead_primaries.len() < n_before;
            self.counts.changes.primaries_replaced += u64::from(was_primary);
        }
        let n_members = members.voters.len();
        let mut n_of: BTreeMap<_, usize> = BTreeMap::new();
        for (pid, delivered) in &self.lives.delivered {
            if pid.group == group {
                delivered.iter().for_each(|(id, _)| *n_of.entry(*id).or_default() += 1);
            }
        }
        let meant = self.history.meant.iter();
        let mut amid = meant.filter(|(_, meant)| meant.dest.contains(group));
        let is_under_way = amid.any(|(id, _)| n_of.get(id).is_none_or(|n| *n < n_members));
        self.counts.changes.amid_messages += u64::from(is_under_way);
    }

    /// L1: whether a living process has less than was delivered on its seat.
    pub(in crate::amcast) fn is_behind_its_seat(&self, process: usize) -> bool {
        let delivered = self.lives.delivered.get(&self.pid(process));
        delivered.is_some_and(|delivered| self.processes[process].applied.len() < delivered.len())
    }

    /// Judges the end: living members must have everything.
    pub(in crate::amcast) fn settle_lives(&mut self) -> Result<(), String> {
        if !self.lives.change {
            return Ok(());
        }
        for process in 0..self.n_processes() {
            let (pid, is_member) = (self.pid(process), self.is_member(process));
            if !self.is_alive(process) {
                continue;
            }
            self.counts.changes.parted += u64::from(self.machine(process).has_parted());
            if !is_member {
                self.history.correct.retain(|correct| *correct != pid);
            } else if self.is_behind_its_seat(process) {
                return Err(format!("{pid:?} lacks what was delivered on its seat before"));
            }
        }
        self.lives.astray.take().map_or(Ok(()), Err)
    }

    /// The number of dead members of all groups, replaced or not.
    pub(in crate::amcast) fn n_dead_members(&self) -> usize {
        let layout = &self.lives.config.layout;
        let is_dead = |pid: &Pid| {
            let newest = self.lives.newest(pid.group);
            let votes = newest.is_none_or(|members| members.voters.contains(pid.rank));
            let life = newest.map_or(FOUNDER, |members| members.incarnation(pid.rank));
            votes && !(self.is_alive(self.index(*pid)) && self.lives.sits(*pid) == life)
        };
        layout.processes(layout.groups()).filter(is_dead).count()
    }
}
