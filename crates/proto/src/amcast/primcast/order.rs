//! Algorithm 2: proposing, acknowledging, delivering.

use super::{Machine, PULLS_MAX, Phase, PrimcastWire};
use crate::amcast::linear::{Listed, Rule, admits_by_clock};
use crate::amcast::variant::Variant;
use crate::amcast::{GroupId, GroupSet, Host, Message, MessageId, Pid, Place, Timestamp, To};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Ballot, Instant};
use core::time::Duration;

impl<V: Variant> Machine<V> {
    /// Line 33: the message is here.
    pub(super) fn learn(&mut self, message: &Arc<Message>, now: Instant) {
        let group = self.me.group;
        let record = self.record(message.id, message.dest, now);
        if record.body.is_some() {
            return;
        }
        record.body = Some(message.clone());
        if record.tuple.is_none() && record.local(group).is_none() {
            self.unproposed.insert(message.id);
        }
    }

    /// Lines 35 to 39.
    pub(super) fn propose_all<H: Host<PrimcastWire>>(&mut self, host: &mut H) {
        if self.config.rule == Rule::CommitWait && host.real_clock().is_none() {
            // LR3 rests on every proposal being above its proposer's clock: without one it waits,
            // for the clock or for another primary.
            return;
        }
        while let Some(id) = self.unproposed.pop_first() {
            let record = &self.records[&id];
            if record.tuple.is_some() || record.local(self.me.group).is_some() {
                continue;
            }
            let after = record.body.as_ref().map_or(Timestamp::ZERO, |message| message.after);
            let mut ts = self.clock.max(after).next();
            if self.config.hybrid || self.config.rule == Rule::CommitWait {
                // 4.4.1: a timestamp near real time makes later messages wait less for it.
                ts = host.real_clock().map_or(ts, |clock| ts.max(Timestamp(clock.now)));
            }
            self.clock = ts;
            self.append(id, self.current, ts);
            self.acknowledge(id, host);
            self.ask_all_groups(id, ts, host);
        }
    }

    /// Appends to the log (the listings' T).
    fn append(&mut self, id: MessageId, epoch: Ballot, ts: Timestamp) {
        self.log.push(id);
        self.log_length += 1;
        self.unproposed.remove(&id);
        let record = self.records.get_mut(&id).expect("it is appended because it is known");
        record.tuple = Some((epoch, ts));
        self.expect(id, ts);
    }

    /// The message counts as pending from now on: nothing above its bound is delivered before it.
    pub(super) fn expect(&mut self, id: MessageId, ts: Timestamp) {
        let record = self.records.get_mut(&id).expect("it is known");
        if record.is_delivered {
            return;
        }
        let bound = record.bound_with(ts);
        if let Some(old) = record.bound.replace(bound) {
            self.pending.remove(&(old, id));
        }
        self.pending.insert((bound, id));
    }

    /// Sends the own acknowledgement of what stands in the log, and counts it here.
    pub(super) fn acknowledge<H: Host<PrimcastWire>>(&mut self, id: MessageId, host: &mut H) {
        let record = self.records.get_mut(&id).expect("it stands in the log");
        let (epoch, ts) = record.tuple.expect("it stands in the log");
        assert!(record.body.is_some() || V::ACK_WITHOUT_BODY, "P2");
        record.acked = Some(epoch);
        let dest = record.dest;
        let epoch = if V::REACK_IN_NEW_EPOCH { self.current } else { epoch };
        let report = self.report(dest);
        let ack = PrimcastWire::Ack { id, dest, epoch, ts, report };
        host.send(To::Groups(dest), &ack);
        self.vote(self.me, id, epoch, ts);
    }

    fn vote(&mut self, from: Pid, id: MessageId, epoch: Ballot, ts: Timestamp) {
        let record = self.records.get_mut(&id).expect("it is known");
        let voter = (from.group, from.rank);
        if !record.vote::<V>(voter, epoch, ts, &self.config.layout) {
            return;
        }
        if let Some(bound) = record.bound {
            self.expect(id, bound);
        }
    }

    /// Lines 40 to 50.
    pub(super) fn on_ack<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        (id, dest): (MessageId, GroupSet),
        (epoch, ts): (Ballot, Timestamp),
        now: Instant,
        host: &mut H,
    ) {
        self.record(id, dest, now);
        if from.group == self.me.group {
            self.on_proposal(from, id, epoch, ts);
        }
        self.vote(from, id, epoch, ts);
        if from.group != self.me.group {
            let was_raised = ts > self.clock;
            self.clock = self.clock.max(ts);
            let own = self.me.group.alone();
            let to = match self.config.rule {
                Rule::Plain | Rule::CommitWait => own,
                Rule::Hop | Rule::AllGroups => dest.union(own),
            };
            if was_raised || !V::BUMP_ONLY_WHEN_RAISED {
                self.report_at_least(ts, to, host);
            }
        }
    }

    /// Lines 42 to 45: from the primary of the current epoch it is a proposal.
    fn on_proposal(&mut self, from: Pid, id: MessageId, epoch: Ballot, ts: Timestamp) {
        let is_from_primary = epoch == self.current && epoch.proposer() == Some(from.rank);
        let is_mine = epoch.proposer() == Some(self.me.rank);
        let takes_part = match self.phase {
            Phase::Follower => true,
            // Promised, and the new epoch's state is here: the quorum of ACCEPTs is not. The
            // listing drops the proposal for ever.
            Phase::Promised => self.promised == self.current && !V::DROP_WHILE_PROMISED,
            Phase::Primary | Phase::Candidate => false,
        };
        // An acknowledgement that was asked for repeats what stands in the log already.
        let is_known = self.records[&id].tuple.is_some_and(|(of, _)| of == epoch)
            || self.waiting.iter().any(|(waiting, _)| *waiting == id);
        if is_from_primary && takes_part && !is_mine && !is_known {
            self.waiting.push_back((id, ts));
            self.expect(id, ts);
        }
    }

    /// Lets waiting proposals into the log, in order (P4), as far as their messages are here (P2).
    pub(super) fn drain<H: Host<PrimcastWire>>(&mut self, host: &mut H) {
        while self.phase == Phase::Follower {
            let Some(&(id, ts)) = self.waiting.front() else { break };
            let Some(record) = self.records.get(&id) else {
                // Delivered out of this queue, and forgotten: the floor is above it (P7). It had
                // its turn all the same, or the longest log would not be the newest (line 67).
                self.waiting.pop_front();
                self.log_length += 1;
                continue;
            };
            if record.body.is_none() && !V::ACK_WITHOUT_BODY {
                break;
            }
            self.waiting.pop_front();
            self.clock = self.clock.max(ts);
            self.append(id, self.current, ts);
            self.acknowledge(id, host);
        }
    }

    /// Tells those of `to` that have not heard of a clock of `ts` or more yet.
    pub(super) fn report_at_least<H: Host<PrimcastWire>>(
        &mut self,
        ts: Timestamp,
        to: GroupSet,
        host: &mut H,
    ) {
        let behind: GroupSet =
            to.iter().filter(|group| self.reported[group.index()] < ts).collect();
        self.report_to(behind, host);
    }

    pub(super) fn report_to<H: Host<PrimcastWire>>(&mut self, to: GroupSet, host: &mut H) {
        if !to.is_empty() {
            let report = self.report(to);
            host.send(To::Groups(to), &PrimcastWire::Clock(report));
        }
    }

    /// `all-groups`: whoever proposes for several groups has all the others report, too.
    pub(super) fn ask_all_groups<H: Host<PrimcastWire>>(
        &mut self,
        id: MessageId,
        ts: Timestamp,
        host: &mut H,
    ) {
        let dest = self.records[&id].dest;
        if self.config.rule == Rule::AllGroups && dest.len() > 1 {
            let others = self.config.layout.groups().difference(dest);
            host.send(To::Groups(others), &PrimcastWire::Raise { ts, to: dest });
        }
    }

    pub(super) fn on_raise<H: Host<PrimcastWire>>(
        &mut self,
        ts: Timestamp,
        to: GroupSet,
        host: &mut H,
    ) {
        let asked = !matches!(self.config.rule, Rule::Plain | Rule::Hop);
        if asked && to.is_within(self.config.layout.groups()) {
            self.clock = self.clock.max(ts);
            self.report_at_least(ts, to, host);
        }
    }

    /// Lines 53 to 56.
    pub(super) fn try_deliver<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        while self.takes_part() {
            let (primary, quorum) = self.own_clocks();
            let primary = if V::NO_PRIMARY_CLOCK { Timestamp(u64::MAX) } else { primary };
            let quorum = if V::NO_QUORUM_CLOCK { Timestamp(u64::MAX) } else { quorum };
            self.horizon.raise(self.me.group, primary.min(quorum));
            let n_candidates = if V::IGNORE_PENDING { usize::MAX } else { 1 };
            let candidates: Vec<Place> = self.pending.iter().take(n_candidates).copied().collect();
            let next = candidates.into_iter().find(|&(bound, id)| {
                let record = &self.records[&id];
                // A bound above the final timestamp: the log holds a proposal of an old epoch, and
                // a newer epoch is on its way here.
                record.body.is_some()
                    && record.final_ts() == Some(bound)
                    && bound <= primary.min(quorum)
                    && self.is_admitted(bound, id, now, host)
            });
            let Some((at, id)) = next else { break };
            self.deliver(at, id, now, host);
        }
    }

    fn deliver<H: Host<PrimcastWire>>(
        &mut self,
        at: Timestamp,
        id: MessageId,
        now: Instant,
        host: &mut H,
    ) {
        assert!(self.last < (at, id), "P1: {id:?} at {at:?} comes after {:?}", self.last);
        self.last = (at, id);
        self.pending.remove(&(at, id));
        self.undelivered.remove(&id);
        let record = self.records.get_mut(&id).expect("it is pending");
        record.bound = None;
        record.is_delivered = true;
        let message = record.body.clone().expect("only what is here is delivered");
        assert!(!self.seen.contains(id), "P8: {id:?} is delivered twice");
        self.seen.insert(id);
        self.retained.keep(message.dest, (at, id), id);
        self.owed = self.owed.union(message.dest);
        self.tell_later(now);
        host.deliver(&message, at);
    }

    /// Whether the rule for real time lets it through (LR1, LR2, LR3).
    fn is_admitted<H: Host<PrimcastWire>>(
        &mut self,
        at: Timestamp,
        id: MessageId,
        now: Instant,
        host: &mut H,
    ) -> bool {
        let dest = self.records[&id].dest;
        match self.config.rule {
            Rule::Plain => true,
            Rule::Hop => self.horizon.admits_by_hop((at, id), dest),
            Rule::AllGroups => self.horizon.admits_by_all((at, id), dest),
            Rule::CommitWait => {
                if self.horizon.admits_by_all((at, id), dest) {
                    return true;
                }
                let waited = host.real_clock().map(|clock| admits_by_clock::<V>(clock, at));
                match waited {
                    Some(Ok(())) => return true,
                    Some(Err(wait)) => {
                        let wake_at = now.plus(Duration::from_nanos(wait));
                        self.wake_at = Some(self.wake_at.map_or(wake_at, |at| at.min(wake_at)));
                    }
                    None => self.ask_all_to_report(at, id, host),
                }
                false
            }
        }
    }

    /// `commit-wait` without an attested clock: every group is asked, once a message.
    fn ask_all_to_report<H: Host<PrimcastWire>>(
        &mut self,
        at: Timestamp,
        id: MessageId,
        host: &mut H,
    ) {
        let record = self.records.get_mut(&id).expect("it is pending");
        if !record.has_asked_all {
            record.has_asked_all = true;
            let own = self.me.group.alone();
            let everybody = self.config.layout.groups();
            host.send(To::Groups(everybody), &PrimcastWire::Raise { ts: at, to: own });
        }
    }

    /// `hop`: what the groups of `to` have to know about undelivered proposals here.
    pub(super) fn list(&mut self, to: GroupSet) -> Vec<Listed> {
        let own = self.me.group;
        let others = to.without(own);
        if self.config.rule != Rule::Hop || others.is_empty() || self.config.layout.n_groups() < 3 {
            return Vec::new();
        }
        let (primary, quorum) = self.own_clocks();
        self.horizon.raise(own, primary.min(quorum));
        let mut listed = Vec::new();
        for &(bound, id) in &self.pending {
            let record = &self.records[&id];
            let dest = record.dest;
            // Neither what stays here nor what all who are told have in their own logs.
            if dest.len() == 1 || others.is_within(dest) {
                continue;
            }
            let level = match record.final_ts() {
                Some(at) if at == bound => self.horizon.level((at, id), dest),
                _ => Default::default(),
            };
            listed.push(Listed { bound, id, dest, level });
        }
        for group in others.iter() {
            let to_group = listed.iter().filter(|one| one.matters_to(group, own.alone()));
            self.listed[group.index()] = to_group.copied().collect();
        }
        listed
    }

    /// `hop`: who was told of an unsettled proposal hears when it is less of an obstacle.
    pub(super) fn list_again<H: Host<PrimcastWire>>(&mut self, host: &mut H) {
        if self.config.rule != Rule::Hop || self.phase != Phase::Primary {
            return;
        }
        let (primary, quorum) = self.own_clocks();
        self.horizon.raise(self.me.group, primary.min(quorum));
        for group in (0..self.listed.len()).map(GroupId::at) {
            let is_better = self.listed[group.index()].iter().any(|one| {
                let Some(record) = self.records.get(&one.id) else { return true };
                record.is_delivered
                    || record.bound != Some(one.bound)
                    || record.final_ts() == Some(one.bound)
                        && self.horizon.level((one.bound, one.id), one.dest) > one.level
            });
            if is_better {
                self.report_to(group.alone(), host);
            }
        }
    }

    /// Answers what another lacks: the own acknowledgement, and the message.
    pub(super) fn on_pull<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        (id, dest): (MessageId, GroupSet),
        body: bool,
        now: Instant,
        host: &mut H,
    ) {
        if self.is_gone(id) {
            // What this process forgot a member of its group will never learn piece by piece (P7).
            if from.group == self.me.group {
                self.on_fetch(from, Place::default(), now, host);
            }
            return;
        }
        let Some(record) = self.records.get(&id) else {
            if !body {
                // It has a message that never came here: its sender died half way.
                self.record(id, dest, now);
                host.send(To::One(from), &PrimcastWire::Pull { id, dest, body: true });
            }
            return;
        };
        if let Some(message) = record.body.as_ref().filter(|_| body) {
            host.send(To::One(from), &PrimcastWire::Body(message.clone()));
        }
        let (Some((epoch, ts)), Some(acked)) = (record.tuple, record.acked) else { return };
        if acked == epoch {
            let dest = record.dest;
            // To one process only: for its group nothing was reported.
            let (reported, audience) = (self.reported.clone(), self.audience);
            let (told, listed) = (self.told.clone(), self.listed.clone());
            let report = self.report(from.group.alone());
            (self.reported, self.audience) = (reported, audience);
            (self.told, self.listed) = (told, listed);
            host.send(To::One(from), &PrimcastWire::Ack { id, dest, epoch, ts, report });
        }
    }

    /// Messages that have been undelivered for long: asks all who may know more. With T2 only a
    /// message whose sender died half way lacks anything.
    pub(super) fn ask_for_what_is_missing<H: Host<PrimcastWire>>(
        &mut self,
        now: Instant,
        host: &mut H,
    ) {
        for id in self.undelivered.iter().take(PULLS_MAX) {
            let record = self.records.get_mut(id).expect("undelivered is known");
            if record.asked_at.plus(self.config.patience) <= now {
                record.asked_at = now;
                let body = record.body.is_none();
                let pull = PrimcastWire::Pull { id: *id, dest: record.dest, body };
                if !V::NEVER_PULL {
                    host.send(To::Groups(record.dest), &pull);
                }
            }
        }
    }
}
