//! Streams of records: their beginning, and the treatment of one that stands still.
//!
//! - I15 A stream is opened only to a peer that has none, whose link has come up, that says that it
//!   does not read its present one, or whose next entry the log has freed. A stream that stands
//!   still leads to a question: that takes a message of some bytes each [`PATIENCE_MAX`], and no
//!   new stream number; silence has no consequence. So a follower may stand still for ever, and
//!   gets nothing twice that still lies in its ring. By construction: `mind_stalled`, `on_astray`.
//!   Tested (`BEGIN_WHATEVER_STANDS_STILL`).
//!
//! Every member that needs a stream gets one: every running process answers a question, after it
//! has looked for what was written before (T2). A process that has died and come back has no stream
//! and says so; a stopped one answers when it resumes; `LinkUp` handles what a broken link has
//! lost.

use super::follower::Following;
use super::places::record;
use super::wire::Begin;
use super::*;

/// The time for which a stream that does not move is left alone, at first and at most.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);
const PATIENCE_MAX: Duration = Duration::from_millis(800);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The link is down.
    #[default]
    Closed,
    /// The follower compares the logs, or gets a state first.
    Asked,
    /// The follower reads the stream.
    Ready,
    /// The log no longer holds the stream's next entry.
    Outrun,
}

/// The state of one follower's stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    pub(super) state: State,
    /// The ordinal of the stream in this ballot.
    pub(super) number: u64,
    /// The words written, and the words that the follower took out.
    pub(super) written: u64,
    pub(super) consumed: u64,
    /// The prefix that the stream has covered: its next slot is written next.
    pub(super) next: Prefix,
    /// The prefix that the follower acknowledged in this ballot.
    pub(super) durable: Prefix,
    /// The incarnation that acknowledged it.
    pub(super) holder: Option<Incarnation>,
    /// The prefix of the state that the disk lacks: see [`Ack`](super::places::Ack).
    pub(super) lacks: Prefix,
    pub(super) told_commit: Prefix,
    /// The time of the last progress, and the time that the next may take.
    pub(super) moved_at: Instant,
    pub(super) patience: Duration,
    /// The last word of the last acknowledgement that was read.
    pub(super) seen: u64,
}

impl<P: Planting<Bug>> Durable<P> {
    /// Asks `rank` how far its log agrees; earlier records no longer count.
    pub(super) fn open_stream<H: Host>(&mut self, rank: Rank, patience: Duration, host: &mut H) {
        let Office::Leader(term) = &mut self.office else { return };
        // With its ballot the number is unique over all lives: no ballot is used twice.
        term.n_streams += 1;
        let stream = &mut term.streams[rank.index()];
        *stream = Stream {
            state: State::Asked,
            number: term.n_streams,
            durable: stream.durable,
            holder: stream.holder,
            lacks: stream.lacks,
            moved_at: self.now,
            patience,
            ..Stream::default()
        };
        self.ask_to_begin(rank, host);
        self.nudge(patience);
    }

    /// Asks `rank` to begin with the stream that was opened for it, the first time or again:
    /// nothing is written before the answer.
    fn ask_to_begin<H: Host>(&mut self, rank: Rank, host: &mut H) {
        let committed = self.progress.committed;
        let Some(members) = self.log.governing(committed).next().copied() else { return };
        let Office::Leader(term) = &self.office else { return };
        let begin = Message::Begin(Begin {
            ballot: term.ballot,
            stream: term.streams[rank.index()].number,
            committed,
            end: self.log.end(),
            members,
            runs: self.log.last_runs(),
        });
        self.post(rank, &begin, host);
    }

    pub(super) fn on_ready<H: Host>(
        &mut self,
        from: Rank,
        (ballot, number): (Ballot, u64),
        verified: Prefix,
        incarnation: Incarnation,
        host: &mut H,
    ) {
        let Office::Leader(term) = &mut self.office else { return };
        let expected = self.log.members().map(|(_, members)| members.incarnation(from));
        let stream = &mut term.streams[from.index()];
        let known = expected == Some(incarnation) || self.planted.has(Bug::AnyIncarnation);
        if term.ballot != ballot
            || stream.number != number
            || stream.state != State::Asked
            || verified > self.log.end()
            || !known
        {
            return;
        }
        stream.moved_at = self.now;
        if verified < self.log.start() {
            let start = self.log.start();
            return self.post(from, &Message::Behind { ballot, start }, host);
        }
        stream.state = State::Ready;
        stream.next = verified;
        self.feed(from, host);
    }

    pub(super) fn on_link_down(&mut self, rank: Rank) {
        if let Office::Leader(term) = &mut self.office {
            term.streams[rank.index()].state = State::Closed;
        }
    }

    pub(super) fn on_link_up<H: Host>(&mut self, rank: Rank, host: &mut H) {
        if let Office::Leader(term) = &self.office
            && term.peers.contains(rank)
        {
            self.open_stream(rank, PATIENCE, host);
        }
        self.repeat_requests(host);
        self.tell_anew(rank, host);
    }

    /// Asks the followers whose streams stand still (L1, I15).
    pub(super) fn mind_stalled_streams<H: Host>(&mut self, host: &mut H) {
        let Office::Leader(term) = &self.office else { return };
        let (peers, mut waits) = (term.peers, false);
        for rank in peers.iter() {
            let Office::Leader(term) = &self.office else { return };
            let stream = &term.streams[rank.index()];
            let owes = match stream.state {
                State::Closed => false,
                State::Asked | State::Outrun => true,
                State::Ready => {
                    stream.durable < stream.next || stream.next < self.sent_to(term, rank)
                }
            };
            waits |= owes;
            let is_outrun = stream.state == State::Outrun;
            if owes && (is_outrun || self.now.since(stream.moved_at) >= stream.patience) {
                self.mind_stalled(rank, host);
            }
        }
        if waits {
            self.nudge(PATIENCE);
        }
    }

    fn mind_stalled<H: Host>(&mut self, rank: Rank, host: &mut H) {
        let now = self.now;
        let Office::Leader(term) = &mut self.office else { return };
        let ballot = term.ballot;
        let stream = &mut term.streams[rank.index()];
        (stream.moved_at, stream.patience) = (now, (stream.patience * 2).min(PATIENCE_MAX));
        let Stream { state, number, written, patience, .. } = *stream;
        match state {
            State::Closed => {}
            State::Outrun => self.open_stream(rank, patience, host),
            State::Asked | State::Ready if self.planted.has(Bug::BeginWhateverStandsStill) => {
                self.open_stream(rank, patience, host);
            }
            State::Asked => self.ask_to_begin(rank, host),
            State::Ready => {
                self.post(rank, &Message::Check { ballot, stream: number, written }, host);
            }
        }
    }

    /// Opens another stream, since `from` does not read this one.
    pub(super) fn on_astray<H: Host>(
        &mut self,
        from: Rank,
        (ballot, number): (Ballot, u64),
        host: &mut H,
    ) {
        let Office::Leader(term) = &self.office else { return };
        let stream = &term.streams[from.index()];
        if term.ballot == ballot && stream.number == number && stream.state == State::Ready {
            self.open_stream(from, stream.patience, host);
        }
    }

    // ---- at the follower ----

    /// Answers the leader's question about a stream that stands still, with so many words written.
    pub(super) fn on_check<H: Host>(
        &mut self,
        from: Rank,
        (ballot, number): (Ballot, u64),
        written: u64,
        host: &mut H,
    ) {
        if ballot.proposer() != Some(from) {
            return;
        }
        let promised = self.log.promised();
        if ballot < promised {
            let denied = Message::Denied { ballot, promised, older: false };
            return self.post(from, &denied, host);
        }
        // By T2 everything that was written before the question is here.
        self.consume(host);
        let is_this = |of: &&mut Following| of.ballot == ballot && of.stream == number;
        let position = self.following.as_mut().filter(is_this).map(|following| {
            // The acknowledgement may be what did not arrive.
            following.told = None;
            following.position
        });
        let mut words = core::mem::take(&mut self.record);
        // A record that is there and not taken waits for the disk.
        let reads = position.is_some_and(|position| {
            position >= written || self.next_record(&mut words, host).is_some()
        });
        self.record = words;
        if !reads {
            self.post(from, &Message::Astray { ballot, stream: number }, host);
        }
        self.acknowledge(host);
    }
}

impl Stream {
    /// Writes the record in `words` as the stream's next.
    pub(super) fn put<H: Host>(
        &mut self,
        words: &mut [u64],
        places: &Places,
        me: Rank,
        to: Rank,
        host: &mut H,
    ) {
        record::seal(words, self.number, self.written);
        let (at, left) = places.in_ring(me, self.written);
        let (first, second) = words.split_at(left.min(words.len()));
        host.write(to, at, first, None);
        if !second.is_empty() {
            let (at, _) = places.in_ring(me, self.written + left as u64);
            host.write(to, at, second, None);
        }
        self.written += words.len() as u64;
    }
}
