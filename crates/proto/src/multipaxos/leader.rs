//! A leader: what it proposes, what each follower is sent, what is decided (P4, P5, P7).

use super::lease::Check;
use super::*;
use base::MAX_MEMBERS;

/// What one follower is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peer {
    /// Which stream it was asked to begin.
    stream: u64,
    /// It has begun, and reads.
    is_ready: bool,
    /// What is sent next.
    next: Prefix,
    /// What it has accepted in this ballot, or knows to be decided.
    position: Prefix,
    decided: Prefix,
    /// What its process has applied, by its latest word: one that comes back has applied nothing.
    pub(super) applied: Prefix,
    told_commit: Prefix,
    moved_at: Instant,
    patience: Duration,
    /// When the latest question left, on this node's clock, that it has granted.
    pub(super) lease_from: Option<Instant>,
    /// The latest question that it has answered.
    pub(super) answered: u64,
}

impl Peer {
    /// A follower that was asked to begin `stream`, and has said from where if it has promised.
    pub(super) fn of(stream: u64, promise: Option<(Prefix, Prefix)>, now: Instant) -> Peer {
        let mut peer = Peer { stream, moved_at: now, patience: PATIENCE, ..Peer::default() };
        if let Some((_, position)) = promise {
            peer.begin_at(position);
        }
        peer
    }

    fn begin_at(&mut self, position: Prefix) {
        self.is_ready = true;
        self.next = position;
        self.position = self.position.max(position);
        self.decided = self.decided.max(position);
    }
}

/// One ballot's leadership.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) ballot: Ballot,
    /// What the predecessors left ends here (P7).
    pub(super) recovered: Prefix,
    pub(super) announced: bool,
    /// The next slot to propose in.
    pub(super) end: Prefix,
    pub(super) peers: [Peer; MAX_MEMBERS],
    pub(super) checks: Vec<Check>,
    /// The number of the last question.
    pub(super) n_asked: u64,
    pub(super) asked_at: Instant,
}

impl Term {
    pub(super) const fn new(ballot: Ballot, from: Prefix, peers: [Peer; MAX_MEMBERS]) -> Term {
        Term {
            ballot,
            recovered: from,
            announced: false,
            end: from,
            peers,
            checks: Vec::new(),
            n_asked: 0,
            asked_at: Instant::ZERO,
        }
    }
}

impl<P: Planting<Bug>> MultiPaxos<P> {
    /// Proposes `value` in the next slot: the own acceptor accepts it first (P1).
    pub(super) fn accept_own<H: Host>(&mut self, value: &[u8], host: &mut H) {
        let Office::Leader(term) = &mut self.office else { return };
        let slot = term.end.next_slot();
        term.end = slot.prefix_through();
        let ballot = term.ballot;
        self.acceptor.accept((slot, ballot), value, self.planted, host);
    }

    pub(super) fn propose_value<H: Host>(
        &mut self,
        value: &[u8],
        host: &mut H,
    ) -> Result<Slot, Refused> {
        let Office::Leader(term) = &self.office else { return Err(Refused::NotLeader) };
        if !term.announced {
            return Err(Refused::NotLeader);
        }
        if value.len() > self.value_bytes_max {
            return Err(Refused::TooLong);
        }
        let slot = term.end.next_slot();
        // A place is recycled when a majority has applied what it holds: so long as a majority's
        // states live, one of them covers what is gone.
        let is_open = slot.0 < self.of_majority(|peer| peer.decided) + self.window();
        let has_room = is_open && self.acceptor.has_room(slot);
        if !has_room && !self.planted.has(Bug::OverrunRing) {
            return Err(Refused::Full);
        }
        self.accept_own(value, host);
        self.feed_all(host);
        self.advance(host);
        Ok(slot)
    }

    fn window(&self) -> u64 {
        self.acceptor.ring_slots()
    }

    /// The highest prefix that a majority's `figure` reaches, this node's among them.
    fn of_majority(&self, figure: impl Fn(&Peer) -> Prefix) -> u64 {
        let Office::Leader(term) = &self.office else { return 0 };
        let own = Peer { position: term.end, decided: self.applied, ..Peer::default() };
        let mut all = [0; MAX_MEMBERS];
        for rank in Rank::all(self.members) {
            let peer = if rank == self.me { &own } else { &term.peers[rank.index()] };
            all[rank.index()] = figure(peer).0;
        }
        let all = &mut all[..self.members];
        all.sort_unstable();
        all[self.members - self.quorum()]
    }

    pub(super) fn feed_all<H: Host>(&mut self, host: &mut H) {
        self.peers().for_each(|rank| self.feed(rank, host));
    }

    /// Sends `rank` what it has room for, and what is decided.
    fn feed<H: Host>(&mut self, rank: Rank, host: &mut H) {
        let (committed, window) = (self.committed, self.window());
        loop {
            let Office::Leader(term) = &mut self.office else { return };
            let peer = &mut term.peers[rank.index()];
            let has_room = peer.next.0 < peer.decided.0 + window;
            if !peer.is_ready || peer.next >= term.end || !has_room {
                break;
            }
            let (slot, ballot, stream) = (peer.next.next_slot(), term.ballot, peer.stream);
            // P8
            let is_below = self.installed.contains(slot) && !self.planted.has(Bug::FeedBelowState);
            let value = if is_below { None } else { self.acceptor.value(slot, host) };
            let Some(value) = value else {
                // The ring has gone on: it needs a state.
                peer.is_ready = false;
                return self.tell_behind(rank, host);
            };
            let message = Message::Accept { ballot, stream, slot, committed, value };
            message.encode(&mut self.bytes);
            self.to_wake.insert(rank);
            if !host.send(rank, &self.bytes) {
                return self.nudge(PATIENCE);
            }
            if peer.next == peer.position {
                peer.moved_at = self.now; // from now on it is waited for
            }
            (peer.next, peer.told_commit) = (slot.prefix_through(), committed);
            self.nudge(PATIENCE);
        }
        let Office::Leader(term) = &mut self.office else { return };
        let (ballot, peer) = (term.ballot, &mut term.peers[rank.index()]);
        if peer.is_ready && peer.told_commit < committed {
            let stream = peer.stream;
            peer.told_commit = committed;
            self.post(rank, &Message::Decided { ballot, stream, committed }, host);
            self.nudge(PATIENCE);
        }
    }

    fn tell_behind<H: Host>(&mut self, rank: Rank, host: &mut H) {
        let Office::Leader(term) = &self.office else { return };
        let start = self.acceptor.floor().max(self.installed);
        let message = Message::Behind { ballot: term.ballot, start };
        self.post(rank, &message, host);
        self.nudge(PATIENCE);
    }

    /// Asks `rank` to promise this ballot, if it has not yet, and to begin a stream.
    fn begin_stream<H: Host>(&mut self, rank: Rank, host: &mut H) {
        let Office::Leader(term) = &mut self.office else { return };
        let (ballot, peer) = (term.ballot, &mut term.peers[rank.index()]);
        peer.stream += 1;
        peer.is_ready = false;
        peer.moved_at = self.now;
        let stream = peer.stream;
        // Nothing that it holds is news.
        let from = Prefix(u64::MAX);
        self.post(rank, &Message::Prepare { ballot, stream, from }, host);
        self.nudge(PATIENCE);
    }

    /// `from` has promised, and reads a stream from `position` on.
    pub(super) fn on_stream_begun<H: Host>(
        &mut self,
        from: Rank,
        (ballot, stream): (Ballot, u64),
        position: Prefix,
        host: &mut H,
    ) {
        let Office::Leader(term) = &mut self.office else { return };
        let peer = &mut term.peers[from.index()];
        let is_this = term.ballot == ballot && peer.stream == stream && !peer.is_ready;
        // (P4: what is decided, this leader holds.)
        if !is_this || position > term.end {
            return;
        }
        peer.begin_at(position);
        peer.told_commit = Prefix::ZERO;
        self.feed(from, host);
        self.advance(host);
    }

    pub(super) fn on_accepted<H: Host>(
        &mut self,
        from: Rank,
        (ballot, stream): (Ballot, u64),
        [position, decided, applied]: [Prefix; 3],
        host: &mut H,
    ) {
        let Office::Leader(term) = &mut self.office else { return };
        let peer = &mut term.peers[from.index()];
        if term.ballot != ballot || peer.stream != stream || position > term.end {
            return;
        }
        if position > peer.position || decided > peer.decided {
            (peer.moved_at, peer.patience) = (self.now, PATIENCE);
        }
        peer.position = peer.position.max(position);
        peer.decided = peer.decided.max(decided);
        peer.applied = applied;
        self.advance(host);
        self.feed(from, host);
    }

    /// Decides what a majority has accepted, and applies it (P5).
    pub(super) fn advance<H: Host>(&mut self, host: &mut H) {
        let mut decided = self.of_majority(|peer| peer.position);
        let Office::Leader(term) = &self.office else { return };
        if self.planted.has(Bug::CommitAtOne) {
            decided = term.end.0;
        }
        let has_news = decided > self.committed.0;
        self.committed = self.committed.max(Prefix(decided));
        while self.applied.0 < decided {
            assert!(self.deliver(host), "P5: a leader holds what it decides");
        }
        let Office::Leader(term) = &mut self.office else { return };
        let is_recovered = self.applied >= term.recovered || self.planted.has(Bug::ServeEarly);
        if is_recovered && !term.announced {
            term.announced = true;
            host.notify(Note::Leading { ballot: term.ballot });
        }
        if has_news {
            self.feed_all(host);
        }
    }

    /// A follower that stands still is asked to begin once more.
    pub(super) fn mind_stalled<H: Host>(&mut self, host: &mut H) {
        for rank in self.peers() {
            let Office::Leader(term) = &mut self.office else { return };
            let end = term.end;
            let peer = &mut term.peers[rank.index()];
            let owes = !peer.is_ready || peer.position < end || peer.decided < self.committed;
            if !owes {
                continue;
            }
            if self.now.since(peer.moved_at) >= peer.patience {
                peer.patience = (peer.patience * 2).min(PATIENCE_MAX);
                self.begin_stream(rank, host);
            } else {
                self.feed(rank, host);
            }
            self.nudge(PATIENCE);
        }
    }

    pub(super) fn on_link_up<H: Host>(&mut self, rank: Rank, host: &mut H) {
        if rank == self.me {
            return;
        }
        if let Office::Leader(term) = &mut self.office {
            term.peers[rank.index()].patience = PATIENCE;
            self.begin_stream(rank, host);
        }
        self.repeat_prepares(host);
        self.repeat_ask(host);
        self.wake(host);
    }
}
