//! A follower: what it promises, accepts and applies (P2, P6).

use super::*;

/// The stream of the leader, or candidate, of the ballot that is promised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Following {
    leader: Rank,
    ballot: Ballot,
    stream: u64,
    /// What was accepted in this ballot, or is decided, ends here.
    position: Prefix,
    /// What its leader says is decided.
    committed: Prefix,
    /// What was last acknowledged.
    told: [Prefix; 3],
    /// What is to be told before the promise: the next slot, and how many were.
    owed: Option<(Prefix, u64)>,
}

impl<P: Planting<Bug>> MultiPaxos<P> {
    pub(super) fn on_prepare<H: Host>(
        &mut self,
        from: Rank,
        (ballot, stream): (Ballot, u64),
        first: Prefix,
        host: &mut H,
    ) {
        if ballot.proposer() != Some(from) {
            return;
        }
        self.highest = self.highest.max(ballot);
        let promised = self.acceptor.promised();
        if ballot < promised && !self.planted.has(Bug::PromiseLower) {
            self.post(from, &Message::Denied { ballot, promised }, host);
            return;
        }
        if self.blocks(from) {
            return self.defer_prepare(from, (ballot, stream), first);
        }
        self.drop_deferred((ballot, stream));
        if ballot != promised {
            self.depose(host);
            self.acceptor.promise(ballot, self.planted, host);
        }
        let first = first.max(self.acceptor.floor());
        self.following = Some(Following {
            leader: from,
            ballot,
            stream,
            position: self.acceptor.decided(),
            committed: Prefix::ZERO,
            told: [Prefix::ZERO; 3],
            owed: Some((first, 0)),
        });
        self.pay_promise(host);
    }

    /// Tells what was accepted, as far as there is room, and then promises.
    pub(super) fn pay_promise<H: Host>(&mut self, host: &mut H) {
        let Some(mut following) = self.following else { return };
        let Some((mut next, mut n_held)) = following.owed else { return };
        let Following { leader, ballot, stream, position, .. } = following;
        let mut has_room = true;
        while has_room && next < self.acceptor.end() {
            let slot = next.next_slot();
            if let Some(accepted) = self.acceptor.accepted(slot)
                && let Some(value) = self.acceptor.value(slot, host)
            {
                let held = Message::Held { ballot, stream, index: n_held, slot, accepted, value };
                held.encode(&mut self.bytes);
                has_room = host.send(leader, &self.bytes);
                n_held += u64::from(has_room);
            }
            if has_room {
                next = slot.prefix_through();
            }
        }
        let floor = self.acceptor.floor();
        let promise = Message::Promise { ballot, stream, n_held, floor, position };
        let is_paid = has_room && self.post(leader, &promise, host);
        following.owed = (!is_paid).then_some((next, n_held));
        self.following = Some(following);
        self.to_wake.insert(leader);
        if !is_paid {
            self.nudge(PATIENCE);
        }
    }

    /// The stream that these words belong to, if it is the one that is read (P2).
    fn stream_of(&mut self, (ballot, stream): (Ballot, u64)) -> Option<&mut Following> {
        let is_promised = ballot == self.acceptor.promised();
        let is_this = |of: &&mut Following| of.ballot == ballot && of.stream == stream;
        self.following.as_mut().filter(|_| is_promised).filter(is_this)
    }

    pub(super) fn on_accept<H: Host>(
        &mut self,
        from: Rank,
        of: (Ballot, u64),
        slot: Slot,
        value: &[u8],
        host: &mut H,
    ) {
        let (ballot, promised) = (of.0, self.acceptor.promised());
        if ballot < promised {
            if self.planted.has(Bug::AcceptOlderBallot) {
                return self.accept_older(from, of, slot, value, host);
            }
            self.post(from, &Message::Denied { ballot, promised }, host);
            return;
        }
        let has_room = self.acceptor.has_room(slot) || self.planted.has(Bug::OverrunRing);
        let is_short = value.len() <= self.value_bytes_max;
        let Some(following) = self.stream_of(of) else { return };
        if following.position.next_slot() == slot && has_room && is_short {
            following.position = slot.prefix_through();
            self.acceptor.accept((slot, ballot), value, self.planted, host);
        }
    }

    /// What [`Bug::AcceptOlderBallot`] does.
    fn accept_older<H: Host>(
        &mut self,
        from: Rank,
        (ballot, stream): (Ballot, u64),
        slot: Slot,
        value: &[u8],
        host: &mut H,
    ) {
        let decided = self.acceptor.decided();
        let follows = slot.0.checked_sub(1).is_none_or(|before| {
            decided.contains(Slot(before)) || self.acceptor.accepted(Slot(before)) == Some(ballot)
        });
        if follows && !decided.contains(slot) && self.acceptor.has_room(slot) {
            self.acceptor.accept((slot, ballot), value, self.planted, host);
            let (position, applied) = (slot.prefix_through(), self.applied);
            let message = Message::Accepted { ballot, stream, position, decided, applied };
            self.post(from, &message, host);
        }
    }

    pub(super) fn on_decided<H: Host>(
        &mut self,
        of: (Ballot, u64),
        committed: Prefix,
        host: &mut H,
    ) {
        let Some(following) = self.stream_of(of) else { return };
        following.committed = following.committed.max(committed);
        self.committed = self.committed.max(committed);
        self.apply_accepted(host);
    }

    /// Applies what is decided and was accepted in the ballot of the leader that says so (P6).
    pub(super) fn apply_accepted<H: Host>(&mut self, host: &mut H) {
        let Some(following) = self.following.filter(|_| !self.is_learner) else { return };
        let through = match self.planted.has(Bug::ApplyBareIndex) {
            false => following.committed.min(following.position),
            true => following.committed,
        };
        while self.applied < through {
            let accepted = self.acceptor.accepted(self.applied.next_slot());
            let is_its =
                accepted == Some(following.ballot) || self.planted.has(Bug::ApplyBareIndex);
            let was_there = self.planted.has(Bug::ServeAsLearner);
            assert!(is_its || was_there, "P6: {:?} was accepted in {accepted:?}", self.applied);
            if !self.deliver(host) {
                return self.request_state(through, host);
            }
        }
    }

    /// Tells the leader what has changed here since it was told.
    pub(super) fn acknowledge<H: Host>(&mut self, host: &mut H) {
        let (decided, applied) = (self.acceptor.decided(), self.applied);
        let Some(following) = &mut self.following else { return };
        let news = [following.position, decided, applied];
        if following.owed.is_some() || following.told == news {
            return;
        }
        let &mut Following { leader, ballot, stream, position, .. } = following;
        let message = Message::Accepted { ballot, stream, position, decided, applied };
        let is_sent = self.post(leader, &message, host);
        if let Some(following) = self.following.as_mut().filter(|_| is_sent) {
            following.told = news;
        }
        if !is_sent {
            self.nudge(PATIENCE);
        }
    }

    /// Continues the stream behind a state that covers `applied`, which is decided (P5), so that
    /// the leader is told what this member holds.
    pub(super) fn continue_behind(&mut self, applied: Prefix) {
        if let Some(following) = &mut self.following {
            following.position = following.position.max(applied);
        }
    }

    pub(super) fn on_behind<H: Host>(&mut self, ballot: Ballot, start: Prefix, host: &mut H) {
        if ballot == self.acceptor.promised() && start > self.applied {
            self.request_state(start, host);
        }
    }
}
