//! Algorithm 2: proposals and acknowledgements (deliveries: `deliver`).

use super::{Batch, Machine, PULLS_MAX, Phase, PrimcastWire, Report};
use crate::amcast::bugs::Bug;
use crate::amcast::linear::{Listed, Rule};
use crate::amcast::{GroupId, GroupSet, Host, Message, MessageId, Pid, Place, Timestamp, To};
use crate::planted::Planting;
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Ballot, Instant};
use core::mem;

impl<P: Planting<Bug>> Machine<P> {
    /// Line 33: takes a message that is here.
    pub(super) fn learn(&mut self, message: &Arc<Message>, now: Instant) {
        let is_primary = self.office.phase == Phase::Primary;
        let record = self.record(message.id, message.dest, now);
        if record.body.is_some() {
            return;
        }
        record.body = Some(message.clone());
        if is_primary {
            self.log.unproposed.push(message.id);
        }
    }

    /// Whether the own group needs a proposal for this message: it has none, and had none that was
    /// decided.
    pub(super) fn needs_proposal(&mut self, id: MessageId) -> bool {
        let own = self.me.group;
        let Some(record) = self.records.get_mut(id) else { return false };
        let (acks, clocks) = (&self.acks[own.index()], &self.clocks[own.index()]);
        record.body.is_some()
            && record.tuple.is_none()
            && !record.is_delivered
            && !record.is_decided(own, acks, clocks, self.planted)
    }

    /// Lines 35 to 39, for all messages that have come: those to the same groups one after another,
    /// so that they travel together. The proposals leave with the next report ([`Machine::say`]).
    pub(super) fn propose_all<H: Host<PrimcastWire>>(&mut self, host: &mut H) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        if self.config.rule == Rule::CommitWait && host.real_clock().is_none() {
            // LR3 requires every proposal to be above its proposer's clock: without a clock the
            // message waits, for the clock or for another primary.
            return batches;
        }
        let mut unproposed = mem::take(&mut self.log.unproposed);
        let mut new: Vec<(GroupSet, MessageId)> = Vec::with_capacity(unproposed.len());
        for id in unproposed.drain(..) {
            if self.needs_proposal(id) {
                new.push((self.records.known(id).dest, id));
            }
        }
        self.log.unproposed = unproposed;
        new.sort_unstable();
        for (dest, id) in new {
            let record = self.records.known(id);
            let after = record.body.as_ref().map_or(Timestamp::ZERO, |message| message.after);
            let mut ts = self.clock.max(after).next();
            if self.config.hybrid || self.config.rule == Rule::CommitWait {
                // 4.4.1: a timestamp near real time makes later messages wait less for it.
                ts = host.real_clock().map_or(ts, |clock| ts.max(Timestamp(clock.now)));
            }
            self.clock = ts;
            self.append(id, self.office.current, ts);
            let (me, epoch) = (self.me, self.office.current);
            let record = self.records.known(id);
            (record.acked, record.named) = (Some(epoch), Some(epoch));
            record.vote((me.group, me.rank), epoch, ts, self.planted);
            match batches.last_mut() {
                Some((to, batch)) if *to == dest => batch.push((id, ts)),
                _ => batches.push((dest, alloc::vec![(id, ts)])),
            }
        }
        for (dest, batch) in &batches {
            let highest = batch.last().map_or(Timestamp::ZERO, |(_, ts)| *ts);
            self.ask_all_groups(*dest, highest, host);
        }
        batches
    }

    /// Appends to the log (the listings' T).
    fn append(&mut self, id: MessageId, epoch: Ballot, ts: Timestamp) {
        self.log.names.push(id);
        self.log.length += 1;
        self.records.known(id).tuple = Some((epoch, ts));
        self.note_appended(id);
        self.expect(id, ts);
    }

    /// Counts the message as pending: from now on nothing above its bound is delivered before it.
    pub(super) fn expect(&mut self, id: MessageId, ts: Timestamp) {
        let record = self.records.known(id);
        if record.is_delivered {
            return;
        }
        let bound = record.bound_with(ts);
        match record.bound.replace(bound) {
            Some(old) if old == bound => return,
            Some(old) => self.log.pending.remove(&(old, id)),
            None => false,
        };
        self.log.pending.insert((bound, id));
    }

    /// Examines a pending message: its bound may rise, and its final timestamp may be known from
    /// now on.
    pub(super) fn look_at(&mut self, id: MessageId) {
        let record = self.records.known(id);
        record.decide(&self.acks, &self.clocks, self.planted);
        if let Some(bound) = record.bound {
            self.expect(id, bound);
        }
    }

    /// Sends the own acknowledgement of an entry of the log, and counts it here.
    pub(super) fn acknowledge<H: Host<PrimcastWire>>(&mut self, id: MessageId, host: &mut H) {
        let (epoch, ts) = self.records.known(id).tuple.expect("it stands in the log");
        let me = self.me;
        let record = self.records.known(id);
        assert!(record.body.is_some() || self.planted.has(Bug::AckWithoutBody), "P2");
        (record.acked, record.named) = (Some(epoch), Some(epoch));
        let dest = record.dest;
        let chosen = self.is_chosen(epoch);
        let epoch =
            if self.planted.has(Bug::ReackInNewEpoch) { self.office.current } else { epoch };
        self.records.known(id).vote((me.group, me.rank), epoch, ts, self.planted);
        let report = self.report(dest);
        let ack = PrimcastWire::Ack { id, dest, epoch, ts, chosen, report };
        host.send(To::Groups(dest), &ack);
    }

    /// Acknowledges a new entry of the log, without a name and with the next message to its
    /// destinations; it counts here at once.
    fn acknowledge_later(&mut self, id: MessageId) {
        let (current, own) = (self.office.current, self.me.group.index());
        let record = self.records.known(id);
        let (epoch, ts) = record.tuple.expect("it stands in the log");
        assert!(record.body.is_some() || self.planted.has(Bug::AckWithoutBody), "P2");
        assert!(epoch == current && self.said.acked_upto < ts, "P9: in the primary's order");
        record.acked = Some(epoch);
        self.said.acked_upto = ts;
        self.owed.acks = self.owed.acks.union(record.dest);
        self.acks[own].extend(self.me.rank, epoch, ts);
    }

    /// Sends this process's proposals, acknowledgements and clock to those that have not received
    /// them: new proposals first, so that a process that receives a primary's clock has every
    /// proposal below it.
    pub(super) fn say<H: Host<PrimcastWire>>(&mut self, mut batches: Vec<Batch>, host: &mut H) {
        let acked_to = mem::take(&mut self.owed.acks);
        let to = self.said.behind(self.clock, mem::take(&mut self.owed.clocks));
        let to = batches.iter().fold(to.union(acked_to), |all, (dest, _)| all.union(*dest));
        if to.is_empty() {
            return;
        }
        let epoch = self.office.current;
        let last = batches.pop_if(|(dest, _)| *dest == to && acked_to.is_empty());
        for (dest, batch) in batches {
            let proposals = PrimcastWire::Proposals { dest, epoch, batch, report: None };
            host.send(To::Groups(dest), &proposals);
        }
        let report = self.report(to);
        let wire = match last {
            Some((dest, batch)) => {
                PrimcastWire::Proposals { dest, epoch, batch, report: Some(report) }
            }
            None if acked_to.is_empty() => PrimcastWire::Clock(report),
            None => PrimcastWire::Acked { epoch, upto: self.said.acked_upto, report },
        };
        host.send(To::Groups(to), &wire);
    }

    /// Lines 40 to 50 for a primary's new proposals.
    pub(super) fn on_proposals(
        &mut self,
        from: Pid,
        dest: GroupSet,
        epoch: Ballot,
        batch: &[(MessageId, Timestamp)],
        now: Instant,
    ) {
        for (id, ts) in batch {
            self.take_ack(from, (*id, dest), (epoch, *ts), true, now);
        }
        if let Some(highest) = batch.iter().map(|(_, ts)| *ts).max() {
            self.follow(from, dest, highest);
        }
    }

    /// Lines 40 to 50.
    pub(super) fn on_ack(
        &mut self,
        from: Pid,
        (id, dest): (MessageId, GroupSet),
        (epoch, ts): (Ballot, Timestamp),
        (proposes, chosen): (bool, bool),
        now: Instant,
    ) {
        if self.take_ack(from, (id, dest), (epoch, ts), proposes, now) {
            if chosen {
                self.records.known(id).choose(from.group, epoch, ts);
            }
            self.follow(from, dest, ts);
        }
    }

    /// Lines 40 to 47. False if the message was forgotten already: its proposal still has its turn
    /// (P4).
    fn take_ack(
        &mut self,
        from: Pid,
        (id, dest): (MessageId, GroupSet),
        (epoch, ts): (Ballot, Timestamp),
        proposes: bool,
        now: Instant,
    ) -> bool {
        let is_gone = self.is_gone(id);
        if !is_gone {
            let planted = self.planted;
            self.record(id, dest, now).vote((from.group, from.rank), epoch, ts, planted);
        }
        if from.group == self.me.group && (proposes || self.planted.has(Bug::RepeatProposals)) {
            self.on_proposal(from, id, epoch, ts);
        }
        !is_gone
    }

    /// Lines 48 to 50: another group's timestamp raises the clock, which the own group receives.
    fn follow(&mut self, from: Pid, dest: GroupSet, ts: Timestamp) {
        if from.group == self.me.group {
            return;
        }
        let was_raised = ts > self.clock;
        self.clock = self.clock.max(ts);
        let own = self.me.group.alone();
        let to = match self.config.rule {
            Rule::Plain | Rule::CommitWait => own,
            Rule::Hop | Rule::AllGroups => dest.union(own),
        };
        if was_raised || !self.planted.has(Bug::BumpOnlyWhenRaised) {
            self.report_at_least(ts, to);
        }
    }

    /// Lines 42 to 45: from the primary of the current epoch it is a proposal.
    fn on_proposal(&mut self, from: Pid, id: MessageId, epoch: Ballot, ts: Timestamp) {
        let is_from_primary = epoch == self.office.current && epoch.proposer() == Some(from.rank);
        let is_mine = epoch.proposer() == Some(self.me.rank);
        let takes_part = match self.office.phase {
            Phase::Follower => true,
            // This process has promised, and the new epoch's state is here, but not the quorum of
            // ACCEPTs. The listing drops the proposal for ever.
            Phase::Promised => {
                let is_current = self.office.promised == self.office.current
                    && !self.has_lost(self.office.current);
                is_current && !self.planted.has(Bug::DropWhilePromised)
            }
            Phase::Primary | Phase::Candidate => false,
        };
        let takes_turn = is_from_primary && takes_part && !is_mine;
        if takes_turn && self.log.turns.queue(id, ts) && self.records.contains(id) {
            self.expect(id, ts);
        }
    }

    /// Moves waiting proposals into the log, in order (P4), as far as their messages are here (P2).
    pub(super) fn drain(&mut self) {
        while self.office.phase == Phase::Follower {
            let Some((id, ts)) = self.log.turns.first() else { break };
            let Some(record) = self.records.get(id) else {
                // The message was delivered and forgotten, out of this queue or by a state before
                // it came: the floor is above it (P7). It still has its turn, or the longest log
                // would not be the newest (line 67).
                self.log.turns.pass();
                self.log.length += 1;
                continue;
            };
            if record.body.is_none() && !self.planted.has(Bug::AckWithoutBody) {
                break;
            }
            self.log.turns.pass();
            self.clock = self.clock.max(ts);
            self.append(id, self.office.current, ts);
            self.acknowledge_later(id);
        }
    }

    /// Marks those of `to` that have not received a clock of `ts` or more for a report.
    pub(super) fn report_at_least(&mut self, ts: Timestamp, to: GroupSet) {
        self.owed.clocks = self.owed.clocks.union(self.said.behind(ts, to));
    }

    pub(super) fn report_to<H: Host<PrimcastWire>>(&mut self, to: GroupSet, host: &mut H) {
        if !to.is_empty() {
            let report = self.report(to);
            host.send(To::Groups(to), &PrimcastWire::Clock(report));
        }
    }

    /// Makes all other groups report, too, for a proposal to several groups under `all-groups`.
    pub(super) fn ask_all_groups<H: Host<PrimcastWire>>(
        &mut self,
        dest: GroupSet,
        ts: Timestamp,
        host: &mut H,
    ) {
        if self.config.rule == Rule::AllGroups && dest.len() > 1 {
            let others = self.config.layout.groups().difference(dest);
            host.send(To::Groups(others), &PrimcastWire::Raise { ts, to: dest });
        }
    }

    /// Takes a Raise of another group for `all-groups`, or of the own one for a cut (P16).
    ///
    /// A process that asks for its own group alone lacks the answer: if the group received it
    /// before, that may have been lost with an earlier life of the process (P12), and it is sent
    /// again to that process.
    pub(super) fn on_raise<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        ts: Timestamp,
        to: GroupSet,
        host: &mut H,
    ) {
        let is_own = from.group == self.me.group && to == self.me.group.alone();
        let asked = is_own || !matches!(self.config.rule, Rule::Plain | Rule::Hop);
        if !asked || !to.is_within(self.config.layout.groups()) {
            return;
        }
        self.clock = self.clock.max(ts);
        let was_told = self.said.reported[from.group.index()] >= ts;
        let repeats = from != self.me && !self.planted.has(Bug::AskOnce);
        if was_told && to == from.group.alone() && repeats {
            let report = self.report_to_one(from);
            host.send(To::One(from), &PrimcastWire::Clock(report));
        }
        self.report_at_least(ts, to);
    }

    /// The present report for one process alone: for its group it does not count as reported.
    fn report_to_one(&mut self, to: Pid) -> Report {
        let said = self.said.clone();
        // The process may not have received the members that the rest of its group has.
        self.said.informed = said.informed.without(to.group);
        let report = self.report(to.group.alone());
        self.said = said;
        report
    }

    /// Examines every pending message, for the lists of `hop`.
    pub(super) fn look_at_all(&mut self) {
        let (primary, quorum) = self.own_clocks();
        self.horizon.raise(self.me.group, primary.min(quorum));
        let pending: Vec<MessageId> = self.log.pending.iter().map(|(_, id)| *id).collect();
        pending.into_iter().for_each(|id| self.look_at(id));
    }

    /// The undelivered proposals here that concern the groups of `to`, for `hop`.
    pub(super) fn list(&mut self, to: GroupSet) -> Vec<Listed> {
        let own = self.me.group;
        let others = to.without(own);
        if self.config.rule != Rule::Hop || others.is_empty() || self.config.layout.n_groups() < 3 {
            return Vec::new();
        }
        self.look_at_all();
        let mut listed = Vec::new();
        for &(bound, id) in &self.log.pending {
            let record = self.records.get(id).expect("it is pending");
            let dest = record.dest;
            // Messages that stay here, or that all receivers have in their own logs, are left out.
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
            self.said.listed[group.index()] = to_group.copied().collect();
        }
        listed
    }

    /// Lists unsettled proposals again when they are less of an obstacle, for `hop`.
    pub(super) fn list_again<H: Host<PrimcastWire>>(&mut self, host: &mut H) {
        if self.config.rule != Rule::Hop || self.office.phase != Phase::Primary {
            return;
        }
        self.look_at_all();
        for group in (0..self.said.listed.len()).map(GroupId::at) {
            let is_better = self.said.listed[group.index()].iter().any(|one| {
                let Some(record) = self.records.get(one.id) else { return true };
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

    /// Answers a process that lacks the own acknowledgement, or the message.
    pub(super) fn on_pull<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        (id, dest): (MessageId, GroupSet),
        body: bool,
        now: Instant,
        host: &mut H,
    ) {
        if self.is_gone(id) {
            // A member of the own group will never learn a forgotten message piece by piece (P7).
            if from.group == self.me.group {
                self.on_fetch(from, Place::default(), now, host);
            }
            return;
        }
        let Some(record) = self.records.get_mut(id) else {
            if !body {
                // The process has a message that never came here: its sender died half way.
                self.record(id, dest, now);
                host.send(To::One(from), &PrimcastWire::Pull { id, dest, body: true });
            }
            return;
        };
        if !body {
            // The process has it: an answer to the next question will come.
            record.n_asked = 0;
        }
        if let Some(message) = record.body.as_ref().filter(|_| body) {
            host.send(To::One(from), &PrimcastWire::Body(message.clone()));
        }
        if let Some(at) = record.final_at.filter(|_| record.is_delivered) {
            host.send(To::One(from), &PrimcastWire::Final { id, at });
        }
        let (Some((epoch, ts)), Some(acked)) = (record.tuple, record.acked) else { return };
        if acked == epoch {
            let dest = record.dest;
            let report = self.report_to_one(from);
            let chosen = self.is_chosen(epoch);
            host.send(To::One(from), &PrimcastWire::Ack { id, dest, epoch, ts, chosen, report });
        }
    }

    /// Asks about messages that have been undelivered for long, at all processes that may know
    /// more. With T2 only a message whose sender died half way lacks anything.
    pub(super) fn ask_for_what_is_missing<H: Host<PrimcastWire>>(
        &mut self,
        now: Instant,
        host: &mut H,
    ) {
        let patience = self.config.patience;
        if self.alarms.ask_at.is_none_or(|at| at > now) {
            return;
        }
        self.ask_for_clocks_again(now, host);
        let mut undelivered = self.records.names(|_, record| !record.is_delivered);
        // A message left out this time has its turn the next time, before those that are asked now.
        undelivered.sort_by_key(|id| self.records.known(*id).asked_at);
        let mut n_asked = 0;
        self.alarms.ask_at = None;
        for id in undelivered {
            let record = self.records.known(id);
            if record.ask_again_at(patience) <= now && n_asked < PULLS_MAX {
                n_asked += 1;
                record.ask(now);
                let body = record.body.is_none();
                let dest = record.dest;
                if self.pulls() {
                    host.send(To::Groups(dest), &PrimcastWire::Pull { id, dest, body });
                }
            }
            let due_at = self.records.known(id).ask_again_at(patience);
            // What is asked about seldom may be awaited by then.
            let next = now.plus(patience);
            let ask_at = if due_at <= now { next } else { due_at.min(next) };
            self.alarms.ask_at = Some(self.alarms.ask_at.map_or(ask_at, |at| at.min(ask_at)));
        }
    }

    /// Whether it asks for messages at all. An answer carries a clock too, and repairs what two
    /// other mistakes leave out: so no process asks where one of those is planted.
    fn pulls(&self) -> bool {
        let silent = [Bug::NeverPull, Bug::BumpOnlyWhenRaised, Bug::NoReportOfNewPrimary];
        !silent.into_iter().any(|bug| self.planted.has(bug))
    }

    /// Repeats requests for clocks, for `all-groups`, and for `commit-wait` without a clock: a
    /// message waits for every group's clocks, and groups that it is not addressed to cannot be
    /// asked about it by name. Their reports may have been lost with an earlier life, theirs or the
    /// own one (P12).
    fn ask_for_clocks_again<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        let (rule, patience) = (self.config.rule, self.config.patience);
        let waits = |id: &MessageId| {
            let record = self.records.get(*id).expect("it is pending");
            let asks = match rule {
                Rule::Plain | Rule::Hop => false,
                Rule::AllGroups => record.dest.len() > 1,
                Rule::CommitWait => record.has_asked_all,
            };
            asks && record.asked_at.plus(patience) <= now
        };
        let last = self.log.pending.iter().rev().find(|(_, id)| waits(id));
        let last = last.filter(|_| !self.planted.has(Bug::AskOnce));
        let Some((ts, _)) = last.copied() else { return };
        let others = self.config.layout.groups().without(self.me.group);
        let silent = others.iter().filter(|group| self.horizon.past(*group) < ts);
        let silent: GroupSet = silent.collect();
        if !silent.is_empty() {
            let to = self.me.group.alone();
            host.send(To::Groups(silent), &PrimcastWire::Raise { ts, to });
        }
    }
}
