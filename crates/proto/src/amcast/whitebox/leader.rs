//! The work of a leader, and the change of a group's leader.

use super::{Kept, Role, Whitebox, WhiteboxWire};
use crate::amcast::bugs::Bug;
use crate::amcast::{Host, MessageId, Pid, Place, Timestamp, To};
use crate::planted::Planting;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use base::{Ballot, Instant, MemberSet, Rank};
use core::mem;

impl<P: Planting<Bug>> Whitebox<P> {
    pub(super) fn propose_all<H: Host<WhiteboxWire>>(&mut self, host: &mut H) {
        while let Some(id) = self.unproposed.pop_first() {
            let record = &self.records[&id];
            let after = record.body.as_ref().map_or(Timestamp::ZERO, |message| message.after);
            self.clock = self.clock.max(after).next();
            let ts = self.clock;
            let record = self.records.get_mut(&id).expect("it is known");
            record.local = Some(ts);
            self.open.insert((ts, id));
            self.send_accept(id, ts, host);
        }
    }

    fn send_accept<H: Host<WhiteboxWire>>(&mut self, id: MessageId, ts: Timestamp, host: &mut H) {
        let (own, ballot) = (self.me.group, self.current);
        let record = self.records.get_mut(&id).expect("it is known");
        let dest = record.dest;
        record.accepts.insert(own, (ballot, ts));
        host.send(To::Groups(dest), &WhiteboxWire::Accept { id, dest, ballot, ts });
        self.acknowledge(id, host);
    }

    /// WB3: commits a message once a quorum of each destination acknowledges one vector.
    pub(super) fn on_ack(
        &mut self,
        from: Pid,
        id: MessageId,
        ballots: &[(super::GroupId, Ballot)],
    ) {
        let own = (self.me.group, self.current);
        let record = self.records.get_mut(&id).expect("the caller looked it up");
        let is_mine = ballots.contains(&own) && record.global.is_none();
        if self.role != Role::Leader || !is_mine {
            return;
        }
        let acks = record.acks.entry(ballots.to_vec()).or_default();
        acks.entry(from.group).or_default().insert(from.rank);
        let layout = &self.config.layout;
        let is_quorum = |group| {
            let by = acks.get(&group).copied().unwrap_or(MemberSet::EMPTY);
            let quorum = layout.quorum(group);
            by.len() >= if self.planted.has(Bug::CommitWithoutQuorum) { 1 } else { quorum }
        };
        // The own acknowledgement shows that this leader knows the timestamps of this vector.
        let has_own = acks.get(&own.0).is_some_and(|by| by.contains(self.me.rank));
        if !has_own || record.acked != ballots || !record.dest.iter().all(is_quorum) {
            return;
        }
        let global = record.accepts.values().map(|(_, ts)| *ts).max().unwrap_or_default();
        record.global = Some(global);
        record.acks.clear();
        if let Some(local) = record.local {
            self.open.remove(&(local, id));
        }
        self.committed.insert((global, id));
    }

    /// Sends DELIVER for the messages that no open one can precede.
    pub(super) fn announce<H: Host<WhiteboxWire>>(&mut self, host: &mut H) {
        while let Some(&(global, id)) = self.committed.first() {
            let is_first = self.open.first().is_none_or(|open| (global, id) < *open);
            if !is_first || self.records[&id].body.is_none() {
                break;
            }
            self.committed.remove(&(global, id));
            let record = self.records.get_mut(&id).expect("it is committed");
            record.is_announced = true;
            let deliver = WhiteboxWire::Deliver { id, ballot: self.current, global };
            host.send(To::Groups(self.me.group.alone()), &deliver);
            if !record.is_delivered {
                self.deliver((global, id), host);
            }
        }
    }

    /// Notes that Ω names this process.
    pub(super) fn stand<H: Host<WhiteboxWire>>(&mut self, now: Instant, host: &mut H) {
        let is_candidate =
            self.role == Role::Recovering && self.promised.proposer() == Some(self.me.rank);
        if self.trusted != Some(self.me.rank) || self.role == Role::Leader || is_candidate {
            return;
        }
        self.role = Role::Recovering;
        self.since = now;
        self.promised = Ballot::above(self.promised, self.me.rank);
        self.promises.clear();
        self.taken_over = MemberSet::EMPTY;
        let ballot = self.promised;
        host.send(To::Groups(self.me.group.alone()), &WhiteboxWire::NewLeader(ballot));
        let promise = (self.current, self.clock, self.kept());
        self.on_promise(self.me.rank, ballot, promise, now, host);
    }

    fn kept(&self) -> Vec<Kept> {
        let kept = self.records.values().filter_map(|record| {
            let local = record.local.filter(|_| record.is_accepted || record.global.is_some())?;
            let message = record.body.clone()?;
            Some(Kept { message, local, global: record.global })
        });
        kept.collect()
    }

    pub(super) fn on_new_leader<H: Host<WhiteboxWire>>(
        &mut self,
        from: Pid,
        ballot: Ballot,
        now: Instant,
        host: &mut H,
    ) {
        let Some(leader) = ballot.proposer() else { return };
        if ballot < self.promised {
            host.send(To::One(from), &WhiteboxWire::NewLeader(self.promised));
            return;
        }
        if ballot == self.promised || leader == self.me.rank {
            return;
        }
        self.role = Role::Recovering;
        self.since = now;
        self.promised = ballot;
        let ack = WhiteboxWire::NewLeaderAck {
            ballot,
            current: self.current,
            clock: self.clock,
            kept: self.kept(),
        };
        host.send(To::One(Pid { group: self.me.group, rank: leader }), &ack);
    }

    pub(super) fn on_promise<H: Host<WhiteboxWire>>(
        &mut self,
        from: Rank,
        ballot: Ballot,
        promise: (Ballot, Timestamp, Vec<Kept>),
        now: Instant,
        host: &mut H,
    ) {
        let is_awaited = self.role == Role::Recovering
            && ballot == self.promised
            && ballot.proposer() == Some(self.me.rank)
            && self.current < ballot;
        if !is_awaited {
            return;
        }
        self.promises.insert(from, promise);
        if self.promises.len() < self.config.layout.quorum(self.me.group) {
            return;
        }
        let promises = mem::take(&mut self.promises);
        let newest = promises.values().map(|(current, ..)| *current).max().unwrap_or_default();
        let clock = promises.values().map(|(_, clock, _)| *clock).max().unwrap_or_default();
        let mut chosen: BTreeMap<MessageId, Kept> = BTreeMap::new();
        for (current, _, kept) in promises.into_values() {
            for one in kept {
                // A message committed at any process is committed; acceptance counts in the newest
                // ballot only.
                let is_better = one.global.is_some()
                    || current == newest
                        && chosen.get(&one.message.id).is_none_or(|known| known.global.is_none());
                if is_better {
                    chosen.insert(one.message.id, one);
                }
            }
        }
        let kept: Vec<Kept> = chosen.into_values().collect();
        let state = WhiteboxWire::NewState { ballot, clock, kept: kept.clone() };
        host.send(To::Groups(self.me.group.alone()), &state);
        self.on_new_state(ballot, clock, &kept, now, host);
    }

    pub(super) fn on_new_state<H: Host<WhiteboxWire>>(
        &mut self,
        ballot: Ballot,
        clock: Timestamp,
        kept: &[Kept],
        now: Instant,
        host: &mut H,
    ) {
        let Some(leader) = ballot.proposer() else { return };
        if ballot != self.promised || ballot <= self.current {
            return;
        }
        self.current = ballot;
        self.clock = self.clock.max(clock);
        self.since = now;
        self.open.clear();
        self.committed.clear();
        self.announced.clear();
        for record in self.records.values_mut() {
            record.is_announced = false;
            record.acks.clear();
            if !record.is_delivered {
                record.local = None;
                record.is_accepted = false;
                record.global = None;
            }
        }
        for Kept { message, local, global } in kept {
            let record = self.record(message.id, message.dest, now);
            record.body.get_or_insert_with(|| message.clone());
            record.local = Some(*local);
            record.is_accepted = true;
            if global.is_some() {
                record.global = *global;
            }
            self.missing.remove(message.id);
        }
        let is_unproposed =
            |record: &super::Record| record.body.is_some() && record.local.is_none();
        let unproposed = self.records.iter().filter(|(_, record)| is_unproposed(record));
        self.unproposed = unproposed.map(|(id, _)| *id).collect();
        if leader == self.me.rank {
            self.on_taken_over(leader, ballot, now, host);
        } else {
            self.role = Role::Follower;
            let to = Pid { group: self.me.group, rank: leader };
            host.send(To::One(to), &WhiteboxWire::NewStateAck(ballot));
        }
    }

    pub(super) fn on_taken_over<H: Host<WhiteboxWire>>(
        &mut self,
        from: Rank,
        ballot: Ballot,
        now: Instant,
        host: &mut H,
    ) {
        let is_awaited = self.role == Role::Recovering
            && ballot == self.promised
            && ballot == self.current
            && ballot.proposer() == Some(self.me.rank);
        if !is_awaited {
            return;
        }
        self.taken_over.insert(from);
        if !self.taken_over.is_majority_of(self.config.layout.members(self.me.group)) {
            return;
        }
        self.role = Role::Leader;
        self.since = now;
        let known: Vec<(MessageId, Option<Timestamp>, Option<Timestamp>)> =
            self.records.iter().map(|(id, record)| (*id, record.local, record.global)).collect();
        for (id, local, global) in known {
            match (local, global) {
                (_, Some(global)) => {
                    self.committed.insert(Place::from((global, id)));
                }
                (Some(local), None) => {
                    self.open.insert((local, id));
                }
                (None, None) => {}
            }
            // Others may still need this group's proposal for a message committed here, under a
            // ballot that is alive.
            if let Some(local) = local {
                self.send_accept(id, local, host);
            }
        }
    }

    /// Whether this process does not have the role that Ω gives it.
    pub(super) fn is_unsettled(&self) -> bool {
        match self.role {
            Role::Leader => false,
            Role::Follower => {
                self.trusted.is_some_and(|leader| self.current.proposer() != Some(leader))
            }
            Role::Recovering => true,
        }
    }

    /// Repeats a change of leaders that does not end, or follows a choice of Ω that was overtaken.
    pub(super) fn mend<H: Host<WhiteboxWire>>(&mut self, now: Instant, host: &mut H) {
        if !self.is_unsettled() || self.since.plus(self.config.patience) > now {
            return;
        }
        self.since = now;
        self.stand(now, host);
        if let Some(leader) = self.trusted.filter(|leader| *leader != self.me.rank) {
            let to = Pid { group: self.me.group, rank: leader };
            host.send(To::One(to), &WhiteboxWire::NewLeader(self.promised));
        }
    }
}
