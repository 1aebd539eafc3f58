//! Followers: comparing logs, taking entries out of the ring, acknowledging (I4, I5, I6, I9).

use super::log::{Log, Placed};
use super::places::{ACK_WORDS, Ack, record};
use super::wire::Begin;
use super::*;
use crate::disk::Disk;

/// The leader whose log this node copies, and the progress.
#[derive(Clone, Debug)]
pub(super) struct Following {
    pub(super) ballot: Ballot,
    pub(super) leader: Rank,
    /// The ordinal of the stream in the ballot.
    pub(super) stream: u64,
    /// The words of the stream that were taken out of the ring.
    pub(super) position: u64,
    /// The prefix up to which the own log is the leader's (I6).
    verified: Prefix,
    /// The leader's commit point.
    committed: Prefix,
    /// The leader's configuration: see [`Log::learn_members`].
    members: Placed,
    /// The start of the leader's log, if this node lacks what is below.
    needs: Prefix,
    pub(super) told: Option<Ack>,
}

impl<P: Planting<Bug>> Durable<P> {
    pub(super) fn on_begin<H: Host>(&mut self, from: Rank, begin: Begin, host: &mut H) {
        let ballot = begin.ballot;
        if ballot.proposer() != Some(from) {
            return;
        }
        let promised = self.log.promised();
        if ballot < promised {
            let denied = Message::Denied { ballot, promised, older: false };
            return self.post(from, &denied, host);
        }
        if ballot > promised {
            if !self.is_well() {
                return;
            }
            self.raise(ballot, host);
        }
        self.standing.aside_until = None;
        self.standing.tries_since = None;
        self.progress.told = self.progress.told.max(begin.committed);
        if self.progress.told_members.is_none_or(|(at, _)| at < begin.members.0) {
            self.progress.told_members = Some(begin.members);
        }
        let before = self.following.take_if(|before| before.ballot == ballot);
        if let Some(before) = before.as_ref().filter(|before| {
            before.stream > begin.stream || before.stream == begin.stream && before.position > 0
        }) {
            // The message is late, or was sent twice.
            debug_assert!(before.ballot == ballot);
            self.following = Some(before.clone());
            return;
        }
        // The decided prefix is in the leader's log (I8); so is the prefix that was compared
        // before.
        let known = before
            .map_or(self.progress.committed, |before| before.verified.max(self.progress.committed));
        let agreed = self.log.agreement(&begin.runs, begin.end);
        let mut verified = known.max(agreed);
        if self.planted.has(Bug::SkipLogMatch) {
            verified = verified.max(self.log.end().min(begin.end));
        }
        if verified > begin.end {
            // A leader's log is never shorter than what is decided: these bytes are not a leader's.
            return;
        }
        self.log.learn_members(begin.members, disk(host));
        self.following = Some(Following {
            ballot,
            leader: from,
            stream: begin.stream,
            position: 0,
            verified,
            committed: begin.committed,
            members: begin.members,
            needs: Prefix::ZERO,
            told: None,
        });
        self.flush(host);
        self.note_commit(host);
        self.say_ready(host);
    }

    fn say_ready<H: Host>(&mut self, host: &mut H) {
        let Some(following) = &self.following else { return };
        let Following { ballot, leader, stream, verified, .. } = *following;
        let incarnation = self.log.incarnation();
        self.post(leader, &Message::Ready { ballot, stream, verified, incarnation }, host);
    }

    /// Notes that the leader's log begins later than the own one ends.
    pub(super) fn on_behind<H: Host>(&mut self, ballot: Ballot, start: Prefix, host: &mut H) {
        if let Some(following) = self.following.as_mut().filter(|of| of.ballot == ballot)
            && following.verified < start
        {
            following.needs = start;
            self.ask_for_state(host);
        }
    }

    pub(super) fn ask_for_state<H: Host>(&mut self, host: &mut H) {
        let needs = self.following.as_ref().map_or(Prefix::ZERO, |following| following.needs);
        let needs = needs.max(self.progress.lacks.unwrap_or_default());
        if needs > self.progress.applied {
            self.request_state(needs, host);
        }
    }

    /// Lets the leader continue after an installed state.
    pub(super) fn go_on_after<H: Host>(&mut self, applied: Prefix, host: &mut H) {
        if let Some(following) = &self.following {
            self.log.learn_members(following.members, disk(host));
        }
        if let Some(following) = &mut self.following
            && following.verified < applied
        {
            if following.position == 0 {
                following.verified = applied;
                self.say_ready(host);
            } else {
                // The records under way lie before the log: the leader asks, and begins another
                // stream (L1).
                self.following = None;
            }
        }
        self.note_commit(host);
    }

    /// Applies entries of the leader's log up to the leader's commit point.
    fn note_commit<H: Host>(&mut self, host: &mut H) {
        if let Some(following) = &self.following {
            let end = if self.planted.has(Bug::ApplyUnverified) {
                self.log.end()
            } else {
                following.verified
            };
            self.progress.committed = self.progress.committed.max(following.committed.min(end));
        }
        self.deliver(host);
    }

    /// Takes the whole records out of the leader's ring.
    pub(super) fn consume<H: Host>(&mut self, host: &mut H) {
        let mut words = core::mem::take(&mut self.record);
        // While the disk is full or stands still the ring keeps them: the leader stops at the
        // ring's end.
        while !self.trouble.is_full()
            && let Some(head) = self.next_record(&mut words, host)
            && self.has_room(&head, host)
        {
            let Some(payload) = record::payload(&words, &head) else { break };
            let n_words = words.len() as u64;
            let taken = match head.kind {
                record::Kind::Entry => self.take_entry(&head, payload, host),
                record::Kind::Commit => true,
            };
            let Some(following) = self.following.as_mut().filter(|_| taken) else {
                // The leader finds that the stream stands still, asks, and begins another one (L1).
                self.following = None;
                break;
            };
            following.position += n_words;
            following.committed = following.committed.max(head.committed);
        }
        self.record = words;
        self.note_commit(host);
    }

    /// Copies the record at the own position, if it is complete (I10).
    pub(super) fn next_record<H: Host>(
        &self,
        words: &mut Vec<u64>,
        host: &H,
    ) -> Option<record::Head> {
        let following = self.following.as_ref()?;
        let Following { ballot, leader, stream, position, .. } = *following;
        let (at, _) = self.places.in_ring(leader, position);
        if host.load(at) != record::tag(ballot, stream, position) {
            return None;
        }
        let mut first = [0; record::HEAD_WORDS];
        self.load_ring(leader, position, &mut first, host);
        let head = record::Head::decode(&first)?;
        let n_words = record::n_words(head.payload_bytes as usize);
        if n_words as u64 > self.places.ring_words() / 4 {
            return None;
        }
        words.clear();
        words.resize(n_words, 0);
        self.load_ring(leader, position, words, host);
        if !record::is_whole(words, ballot, stream, position) && !self.planted.has(Bug::TornRecord)
        {
            return None;
        }
        // The head is decoded from the checked words, not from those of a moment before.
        record::Head::decode(words.first_chunk()?)
    }

    /// Whether the entry of this record may be appended now (D4). If not, a sync is under way,
    /// whose end makes room.
    fn has_room<H: Host>(&self, head: &record::Head, host: &mut H) -> bool {
        match head.kind {
            record::Kind::Entry => {
                head.payload_bytes as usize <= disk(host).room()
                    || self.planted.has(Bug::IgnoreRoom)
            }
            record::Kind::Commit => true,
        }
    }

    fn load_ring<H: Host>(&self, writer: Rank, position: u64, words: &mut [u64], host: &H) {
        let (at, left) = self.places.in_ring(writer, position);
        let (first, second) = words.split_at_mut(left.min(words.len()));
        host.load_into(at, first);
        if !second.is_empty() {
            let (at, _) = self.places.in_ring(writer, position + left as u64);
            host.load_into(at, second);
        }
    }

    /// Takes an entry. False if the record does not continue what was compared: the stream is
    /// unusable.
    fn take_entry<H: Host>(&mut self, head: &record::Head, payload: &[u8], host: &mut H) -> bool {
        let Some(following) = &mut self.following else { return false };
        let slot = head.slot;
        let in_turn = slot == following.verified.next_slot();
        if head.ballot != following.ballot || !(in_turn || self.planted.has(Bug::SkipLogMatch)) {
            return false;
        }
        let before = self.log.ballot_before(slot);
        let is_known = before != Ballot::NONE && head.previous != Ballot::NONE;
        let continues = slot == Slot::ZERO
            || is_known && before == head.previous
            || self.log.ballot_at(slot) == Some(head.entry_ballot);
        if !continues && slot.prefix_before() == self.progress.installed {
            // Everything before it is decided and in a durable state. The log's other entries
            // there, and all behind them, can no longer be decided.
            let members = Some(following.members).filter(|(at, _)| *at <= self.progress.installed);
            let before = Some(head.previous).filter(|ballot| *ballot != Ballot::NONE);
            let installed = self.progress.installed;
            self.log.begin_at(self.planted, installed, before, members, disk(host));
        } else if !continues && is_known && !self.planted.has(Bug::SkipLogMatch) {
            return false;
        }
        if self.log.end().contains(slot) && self.log.ballot_at(slot) != Some(head.entry_ballot) {
            // The entry is another leader's, and was never decided.
            assert!(!self.progress.committed.contains(slot), "I9: {slot} is decided and differs");
            self.log.cut(self.planted, slot.prefix_before(), disk(host));
        }
        if !self.log.end().contains(slot) {
            if slot != self.log.end().next_slot() {
                return false;
            }
            let entry = Log::head(slot, head.entry_ballot, head.view);
            self.log.append(entry, payload, disk(host));
        }
        following.verified = slot.prefix_through();
        true
    }

    /// Sends the leader the durable prefix of its log here, and the free space in the ring (I4).
    pub(super) fn acknowledge<H: Host>(&mut self, host: &mut H) {
        let Some(following) = &mut self.following else { return };
        let promise_holds = following.ballot == self.log.promised()
            && (self.log.promise_is_durable() || self.planted.has(Bug::AckBeforeSync));
        if !promise_holds && !self.planted.has(Bug::AcceptOlderBallot) {
            return;
        }
        let durable =
            if self.planted.has(Bug::AckBeforeSync) { self.log.end() } else { self.log.durable() };
        let compared =
            if self.planted.has(Bug::AckUnverified) { self.log.end() } else { following.verified };
        let ack = Ack {
            ballot: following.ballot,
            incarnation: self.log.incarnation().0,
            durable: durable.min(compared),
            stream: following.stream,
            consumed: following.position,
            lacks: self.progress.lacks.unwrap_or_default(),
        };
        let is_news = following.told.is_none_or(|told| {
            (told.durable, told.lacks) != (ack.durable, ack.lacks)
                || ack.consumed - told.consumed >= self.places.ring_words() / 4
        });
        if is_news {
            following.told = Some(ack);
            let leader = following.leader;
            let words: [u64; ACK_WORDS] = ack.encode();
            host.write(leader, self.places.ack(self.me), &words, None);
            self.to_wake.insert(leader);
        }
    }

    /// Repeats the acknowledgement, which may be lost with the old link.
    pub(super) fn tell_anew<H: Host>(&mut self, rank: Rank, host: &mut H) {
        if let Some(following) = self.following.as_mut().filter(|of| of.leader == rank) {
            following.told = None;
            self.acknowledge(host);
        }
    }
}
