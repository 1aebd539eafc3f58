//! The leader: entries, acknowledgements, the decided prefix, and the members (I7, I12).

use super::log::{IS_CONFIGURATION, Log};
use super::places::{ACK_WORDS, Ack, record};
use super::spare::Restraint;
use super::streams::{PATIENCE, State, Stream};
use super::*;
use crate::disk::Disk;
use base::{MAX_MEMBERS, majority};

/// A leader's state in one ballot.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) ballot: Ballot,
    /// The first slot of this ballot: its no-op.
    first: Slot,
    pub(super) announced: bool,
    /// The members that are sent the log.
    pub(super) peers: MemberSet,
    pub(super) streams: [Stream; MAX_MEMBERS],
    pub(super) n_streams: u64,
    /// The slot and the commit point of the record that lies encoded in the machine's buffer.
    encoded: Option<(Slot, Prefix)>,
    pub(super) restraint: Restraint,
}

impl Term {
    pub(super) fn new(ballot: Ballot, first: Slot) -> Term {
        Term {
            ballot,
            first,
            announced: false,
            peers: MemberSet::EMPTY,
            streams: [Stream::default(); MAX_MEMBERS],
            n_streams: 0,
            encoded: None,
            restraint: Restraint::new(first.prefix_through()),
        }
    }

    pub(super) fn durable_at(&self, member: Rank) -> Prefix {
        self.streams[member.index()].durable
    }

    /// Whether all that counts for `member` was acknowledged by this incarnation (I17).
    fn is_acknowledged_by(&self, member: Rank, incarnation: Incarnation) -> bool {
        let Stream { durable, holder, .. } = self.streams[member.index()];
        durable == Prefix::ZERO || holder == Some(incarnation)
    }

    /// The prefix that the disk of `member` holds in full: an acknowledgement alone may come from a
    /// disk on which the state before its log is damaged.
    pub(super) fn held_at(&self, member: Rank, planted: impl Planting<Bug>) -> Prefix {
        let Stream { durable, lacks, .. } = self.streams[member.index()];
        let is_whole = lacks == Prefix::ZERO || planted.has(Bug::HoldWithoutState);
        if is_whole { durable } else { Prefix::ZERO }
    }

    pub(super) fn slowest(&self) -> Prefix {
        let all = self.peers.iter().map(|rank| self.durable_at(rank));
        all.min().unwrap_or(Prefix(u64::MAX))
    }
}

impl<P: Planting<Bug>> Durable<P> {
    pub(super) fn begin_term<H: Host>(&mut self, host: &mut H) {
        self.append_own(&[], 0, host);
        if self.planted.has(Bug::ServeEarly) {
            self.announce(host);
        }
        self.follow_members(host);
        self.flush(host);
        self.advance(host);
    }

    fn announce<H: Host>(&mut self, host: &mut H) {
        if let Office::Leader(term) = &mut self.office
            && !term.announced
        {
            term.announced = true;
            host.notify(Note::Leading { ballot: term.ballot });
        }
    }

    /// Opens a stream to every member without one.
    fn follow_members<H: Host>(&mut self, host: &mut H) {
        let Some((_, members)) = self.log.members().copied() else { return };
        let Office::Leader(term) = &mut self.office else { return };
        let mut others = members.all().difference(term.peers);
        others.remove(self.me);
        term.peers = term.peers.union(others);
        others.iter().for_each(|rank| self.open_stream(rank, PATIENCE, host));
    }

    // ---- entries ----

    fn append_own<H: Host>(&mut self, payload: &[u8], view_flag: u64, host: &mut H) -> Slot {
        let slot = self.log.end().next_slot();
        let Office::Leader(term) = &self.office else { unreachable!("only leaders append") };
        let view = self.log.members().map_or(0, |(at, _)| at.0) | view_flag;
        let head = Log::head(slot, term.ballot, view);
        self.log.append(head, payload, disk(host));
        self.count_appended(record::n_words(payload.len()) as u64);
        slot
    }

    pub(super) fn propose_value<H: Host>(
        &mut self,
        value: &[u8],
        host: &mut H,
    ) -> Result<Slot, Refused> {
        if value.len() > self.limits.value_bytes {
            return Err(Refused::TooLong);
        }
        let Office::Leader(term) = &self.office else { return Err(Refused::NotLeader) };
        if !term.announced {
            return Err(Refused::NotLeader);
        }
        let peers = term.peers;
        // D4: the other disks may decide for a long time what the own disk has not synced.
        let has_room = value.len() <= disk(host).room() || self.planted.has(Bug::IgnoreRoom);
        if self.log.end().ahead_of(self.progress.committed) >= self.limits.window || !has_room {
            return Err(Refused::Full);
        }
        let slot = self.append_own(value, 0, host);
        peers.iter().for_each(|rank| self.feed(rank, host));
        self.flush(host);
        Ok(slot)
    }

    /// Writes into the ring of `rank` the entries that it lacks, as far as there is room.
    pub(super) fn feed<H: Host>(&mut self, rank: Rank, host: &mut H) {
        let Office::Leader(term) = &self.office else { return };
        let end = self.sent_to(term, rank);
        let voters = self.log.members().map_or(MemberSet::EMPTY, |(_, members)| members.voters);
        let Office::Leader(term) = &mut self.office else { return };
        let stream = &mut term.streams[rank.index()];
        let ring_words = self.places.ring_words();
        let mut scratch = core::mem::take(&mut self.scratch);
        let before = stream.written;
        while stream.state == State::Ready && stream.next < end {
            let slot = stream.next.next_slot();
            if !self.log.start().contains(slot)
                && let Some((head, payload)) = self.log.payload(slot, disk(host), &mut scratch)
            {
                let n_words = record::n_words(payload.len()) as u64;
                if stream.written + n_words - stream.consumed > ring_words {
                    break;
                }
                if term.encoded != Some((slot, self.progress.committed)) {
                    term.encoded = Some((slot, self.progress.committed));
                    let head = record::Head {
                        kind: record::Kind::Entry,
                        payload_bytes: payload.len() as u32,
                        ballot: term.ballot,
                        slot,
                        entry_ballot: head.ballot,
                        previous: self.log.ballot_before(slot),
                        view: head.view,
                        committed: self.progress.committed,
                    };
                    record::encode(&mut self.record, head, payload);
                }
                if stream.durable >= stream.next {
                    stream.moved_at = self.now;
                }
                stream.put(&mut self.record, &self.places, self.me, rank, host);
                stream.next = slot.prefix_through();
                stream.told_commit = self.progress.committed;
            } else {
                // The log has freed the entry meanwhile: another stream tells the peer that it
                // needs a state.
                stream.state = State::Outrun;
            }
        }
        let fed_entries = stream.written > before;
        let is_ready = stream.state == State::Ready;
        // When idle, the commit point is sent without an entry.
        let is_told = stream.told_commit >= self.progress.committed || stream.next < self.log.end();
        let goes_alone = is_ready && !is_told && self.progress.committed == self.log.end();
        let holds_commit =
            self.limits.peer_works && term.restraint.holds_commit(stream.told_commit);
        if is_ready && end < self.log.end() || goes_alone && holds_commit {
            term.restraint.hold(self.now);
        }
        let room = ring_words - (stream.written - stream.consumed);
        if goes_alone && !holds_commit && room >= record::n_words(0) as u64 {
            term.encoded = None;
            let head = record::Head {
                kind: record::Kind::Commit,
                payload_bytes: 0,
                ballot: term.ballot,
                slot: Slot::ZERO,
                entry_ballot: Ballot::NONE,
                previous: Ballot::NONE,
                view: 0,
                committed: self.progress.committed,
            };
            record::encode(&mut self.record, head, &[]);
            stream.put(&mut self.record, &self.places, self.me, rank, host);
            stream.told_commit = self.progress.committed;
        }
        let fed = stream.written > before;
        let lags = stream.written - stream.consumed >= ring_words / 4;
        // No member waits for the commit point alone: it is found at the next look.
        if fed_entries && (lags || !term.is_spare(self.me, rank, voters)) {
            self.to_wake.insert(rank);
        }
        if fed {
            self.nudge(PATIENCE);
        }
        self.scratch = scratch;
    }

    pub(super) fn feed_all<H: Host>(&mut self, host: &mut H) {
        let Office::Leader(term) = &self.office else { return };
        let peers = term.peers;
        peers.iter().for_each(|rank| self.feed(rank, host));
    }

    // ---- acknowledgements ----

    pub(super) fn read_acks<H: Host>(&mut self, host: &mut H) {
        let Office::Leader(term) = &mut self.office else { return };
        let Some((_, members)) = self.log.members() else { return };
        let mut above = None;
        for rank in term.peers.iter() {
            let stream = &mut term.streams[rank.index()];
            let at = self.places.ack(rank);
            if host.load(at.plus(ACK_WORDS as u32 - 1)) == stream.seen
                && !self.planted.has(Bug::TornAck)
            {
                continue;
            }
            let mut words = [0; ACK_WORDS];
            host.load_into(at, &mut words);
            let Some(ack) = Ack::decode(&words, self.planted.has(Bug::TornAck)) else { continue };
            stream.seen = words[ACK_WORDS - 1];
            let known =
                ack.by() == members.incarnation(rank) || self.planted.has(Bug::AnyIncarnation);
            if ack.ballot > term.ballot {
                above = above.max(Some(ack.ballot));
            } else if (ack.ballot == term.ballot || self.planted.has(Bug::AckOfAnyBallot)) && known
            {
                if ack.durable > stream.durable {
                    stream.durable = ack.durable.min(self.log.end());
                    stream.holder = Some(ack.by());
                    stream.moved_at = self.now;
                    stream.patience = PATIENCE;
                }
                stream.lacks = ack.lacks;
                if ack.stream == stream.number && ack.consumed <= stream.written {
                    stream.consumed = stream.consumed.max(ack.consumed);
                }
            }
        }
        if let Some(ballot) = above {
            self.standing.highest = self.standing.highest.max(ballot);
            self.depose(host);
        }
    }

    /// Notes as decided what a majority of the voters holds durably, through an entry of this
    /// ballot (I7).
    pub(super) fn advance<H: Host>(&mut self, host: &mut H) {
        let Office::Leader(term) = &self.office else { return };
        let Some((at, members)) = self.log.members() else { return };
        let is_own = |rank: Rank| term.is_acknowledged_by(rank, members.incarnation(rank));
        assert!(
            members.all().iter().all(is_own) || self.planted.has(Bug::AnyIncarnation),
            "I17: what an earlier disk has acknowledged counts for its successor"
        );
        let own =
            if self.planted.has(Bug::CountSelfEarly) { self.log.end() } else { self.log.durable() };
        let mut counted = members.voters;
        if self.planted.has(Bug::CountRemoved) {
            counted = counted.union(term.peers);
            counted.insert(self.me);
        }
        let mut all = [Prefix::ZERO; MAX_MEMBERS];
        for (to, rank) in all.iter_mut().zip(counted.iter()) {
            *to = if rank == self.me { own } else { term.durable_at(rank) };
        }
        let all = &mut all[..counted.len()];
        all.sort_unstable();
        let n_needed =
            if self.planted.has(Bug::CommitAtOne) { 1 } else { majority(members.voters.len()) };
        let Some(held) = all.len().checked_sub(n_needed).map(|at| all[at]) else { return };
        let is_own = held.contains(term.first) || self.planted.has(Bug::CommitOlderBallot);
        if held <= self.progress.committed || !is_own {
            return;
        }
        let (leaves, first) = (*at <= held && !self.is_voter(), term.first);
        self.progress.committed = held;
        if let Office::Leader(term) = &mut self.office {
            term.restraint.on_progress(self.now);
        }
        self.deliver(host);
        // I11, D5: without what its disk does not give it answers no reads.
        if held.contains(first) && self.progress.applied == held {
            self.announce(host);
        }
        if leaves {
            // This leader has removed itself, and that is decided: the others elect one of theirs.
            self.feed_all(host);
            return self.depose(host);
        }
        self.part_from_removed();
    }

    /// Stops sending to removed members that know of their removal.
    fn part_from_removed(&mut self) {
        let Some((at, members)) = self.log.members().copied() else { return };
        let Office::Leader(term) = &mut self.office else { return };
        let streams = &term.streams;
        let knows = |rank: &Rank| streams[rank.index()].told_commit >= at;
        let gone: MemberSet = term.peers.difference(members.all()).iter().filter(knows).collect();
        if at <= self.progress.committed {
            term.peers = term.peers.difference(gone);
        }
    }

    // ---- members ----

    /// Begins a change of the members. It governs at once, and is decided like any entry (I12).
    pub(super) fn begin_change<H: Host>(
        &mut self,
        change: Change,
        host: &mut H,
    ) -> Result<Slot, ChangeRefused> {
        let Office::Leader(term) = &self.office else { return Err(ChangeRefused::NotLeader) };
        let Some((at, before)) = self.log.members().copied() else {
            return Err(ChangeRefused::NotLeader);
        };
        if !term.announced && !self.planted.has(Bug::ChangeBeforeOwnEntry) {
            return Err(ChangeRefused::NotLeader);
        }
        // D4, as for a value.
        let has_room = MEMBERS_BYTES <= disk(host).room() || self.planted.has(Bug::IgnoreRoom);
        if at > self.progress.committed && !self.planted.has(Bug::TwoChanges) || !has_room {
            return Err(ChangeRefused::Pending);
        }
        let after = before.after(change, self.me)?;
        if let Change::Promote(rank) = change
            && term.held_at(rank, self.planted) < self.progress.committed
            && !self.planted.has(Bug::PromoteBeforeCaughtUp)
        {
            return Err(ChangeRefused::LagsBehind);
        }
        Ok(self.adopt_members(change, &after, host))
    }

    fn adopt_members<H: Host>(&mut self, change: Change, after: &Members, host: &mut H) -> Slot {
        let slot = self.append_own(&after.encode(), IS_CONFIGURATION, host);
        if let (Change::Replace(rank, _) | Change::Add(rank, _), Office::Leader(term)) =
            (change, &mut self.office)
        {
            // Another disk has that seat: acknowledgements from the seat before are not its own.
            term.peers.remove(rank);
            let keeps = matches!(change, Change::Add(..)) && self.planted.has(Bug::KeepOldAcks);
            if !self.planted.has(Bug::AnyIncarnation) && !keeps {
                term.streams[rank.index()] = Stream::default();
            }
        }
        self.follow_members(host);
        self.release();
        self.feed_all(host);
        self.flush(host);
        self.advance(host);
        self.wake(host);
        slot
    }
}
