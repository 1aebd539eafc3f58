//! The fall-back when proposal numbers outgrow the slot word (section 5.2).
//!
//! A ballot of `Packing::ballot_limit` or more does not fit. Its proposer sends prepares and
//! accepts as messages. The acceptor first *seals* the slot word by CAS (its `min_proposal` field
//! becomes all ones, so that every CAS of the old protocol fails from then on and shows that to its
//! proposer), and keeps the state in two words beside it, wide enough for any ballot, which only it
//! writes.
//!
//! ```text
//! sealed_min       64 bits            the promise; at least what the CAS protocol could promise
//! sealed_accepted  1 : 12 : 47 : 4    valid : generation : accepted_proposal : tag
//! ```
//!
//! - P1 A word is sealed before the first answer by message. By construction: `serve` is reached
//!   from `on_request` only when the loaded word is sealed, or from the seal's own completion.
//! - P2 Each of the two words changes atomically and the promise first, so a crash in between
//!   leaves a state that has every accepted value and every promise.
//! - P3 While `sealed_accepted` is not valid, the sealed word itself has the accepted value.
//!
//! Values travel as before: a WRITE to the area, then, on the same link (T2), the message.

use super::slot::is_recycled;
use super::word::Generation;
use super::*;
use crate::MESSAGE_CHANNEL;

const VALID: u64 = 1 << 63;
const ACCEPTED_BITS: u32 = 47;

/// A proposer's request to an acceptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Prepare,
    Accept(Tag),
}

/// A request that waits until its slot is sealed.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Seal {
    from: Rank,
    slot: Slot,
    message: Message,
}

/// The number of requests that may wait for a seal; further ones are dropped, and their sender
/// repeats them.
const SEALS_MAX: usize = 4096;

/// The state of a sealed slot.
pub(super) fn sealed_word(packing: Packing, word: SlotWord, min: u64, accepted: u64) -> SlotWord {
    // The promises of the CAS protocol before the seal are below its limit.
    let floor = Ballot(packing.ballot_limit().0 - 1);
    let min_proposal = Ballot(min).max(floor);
    if accepted & VALID == 0 {
        return SlotWord { min_proposal, ..word };
    }
    SlotWord {
        generation: Generation((accepted >> (ACCEPTED_BITS + Tag::BITS)) as u32 & 0xfff),
        min_proposal,
        accepted_proposal: Ballot(accepted >> Tag::BITS & ((1 << ACCEPTED_BITS) - 1)),
        tag: Tag::from_bits(accepted as u8),
    }
}

fn pack_accepted(word: SlotWord) -> u64 {
    assert!(word.accepted_proposal.0 < 1 << ACCEPTED_BITS);
    VALID
        | u64::from(word.generation.0) << (ACCEPTED_BITS + Tag::BITS)
        | word.accepted_proposal.0 << Tag::BITS
        | u64::from(word.tag.bits())
}

/// The state of an acceptor from the words of its entry, whether sealed or not.
pub(super) fn entry_word(packing: Packing, words: &[u64]) -> SlotWord {
    let word = packing.unpack(words[0]);
    if word.is_sealed(packing) { sealed_word(packing, word, words[1], words[2]) } else { word }
}

/// A message as it is sent, little endian: channel, kind, tag, ok |
/// number u32 | generation u32 | slot, ballot, min, accepted, incarnation u64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Message {
    kind: Kind,
    ok: bool,
    number: u32,
    slot: Slot,
    ballot: Ballot,
    /// The place of the value in an accept; the acceptor's earlier state in a reply.
    word: SlotWord,
    /// The incarnation of the memory that answers, in a reply (I10).
    incarnation: Incarnation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Prepare = 1,
    Accept = 2,
    Prepared = 3,
    Accepted = 4,
}

const MESSAGE_BYTES: usize = 52;

impl Message {
    fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&[
            MESSAGE_CHANNEL,
            self.kind as u8,
            self.word.tag.bits(),
            u8::from(self.ok),
        ]);
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.word.generation.0.to_le_bytes());
        let SlotWord { min_proposal, accepted_proposal, .. } = self.word;
        let wide =
            [self.slot.0, self.ballot.0, min_proposal.0, accepted_proposal.0, self.incarnation.0];
        for (to, from) in bytes[12..].chunks_exact_mut(8).zip(wide) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        bytes
    }

    /// Decodes a message: the only entry for foreign bytes. Anything else is dropped.
    fn decode(bytes: &[u8]) -> Option<Message> {
        let bytes: &[u8; MESSAGE_BYTES] = bytes.try_into().ok()?;
        let kind = match bytes[1] {
            1 => Kind::Prepare,
            2 => Kind::Accept,
            3 => Kind::Prepared,
            4 => Kind::Accepted,
            _ => return None,
        };
        let narrow = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let wide = |at: usize| u64::from(narrow(at)) | u64::from(narrow(at + 4)) << 32;
        let word = SlotWord {
            generation: Generation(narrow(8)),
            min_proposal: Ballot(wide(28)),
            accepted_proposal: Ballot(wide(36)),
            tag: Tag::from_bits(bytes[2]),
        };
        let (slot, ballot) = (Slot(wide(12)), Ballot(wide(20)));
        let fits = slot.0 < 1 << 44 && ballot.0 < 1 << ACCEPTED_BITS && bytes[0] == MESSAGE_CHANNEL;
        let (ok, number, incarnation) = (bytes[3] != 0, narrow(4), Incarnation(wide(44)));
        fits.then_some(Message { kind, ok, number, slot, ballot, word, incarnation })
    }
}

impl<P: Planting<Bug>, W: Widths> Machine<P, W> {
    /// Sends a request to acceptor `to`.
    pub(super) fn request<H: Host>(
        &mut self,
        to: Rank,
        request: Request,
        slot: Slot,
        host: &mut H,
    ) {
        let Some(term) = &self.term else { return };
        let (kind, tag) = match request {
            Request::Prepare => (Kind::Prepare, Tag::NONE),
            Request::Accept(tag) => (Kind::Accept, tag),
        };
        let word = SlotWord { tag, ..SlotWord::default() };
        let (number, ballot, incarnation) = (self.ring.terms.newest(), term.ballot, Incarnation(0));
        let message = Message { kind, ok: true, number, slot, ballot, word, incarnation };
        self.ring.by_message.insert(to);
        self.counters.rpcs_sent += 1;
        self.cell(slot).asked.insert(to);
        if let Some(term) = &mut self.term {
            term.asked_at = self.clock.now;
        }
        if !self.post_message(to, message, host) {
            self.cell(slot).asked.remove(to);
        }
        self.clock.nudge(self.clock.now.plus(WAKE_AFTER));
    }

    /// Sends a message; loop-back needs no fabric. False if there is no room now.
    fn post_message<H: Host>(&mut self, to: Rank, message: Message, host: &mut H) -> bool {
        if to == self.me {
            self.on_message_of(to, message, host);
            return true;
        }
        host.send(to, &message.encode())
    }

    pub(super) fn on_message<H: Host>(&mut self, from: Rank, bytes: &[u8], host: &mut H) {
        if let Some(message) = Message::decode(bytes) {
            self.on_message_of(from, message, host);
        }
    }

    fn on_message_of<H: Host>(&mut self, from: Rank, message: Message, host: &mut H) {
        match message.kind {
            Kind::Prepare | Kind::Accept => self.on_request(from, message, host),
            Kind::Prepared | Kind::Accepted => self.on_reply(from, message, host),
        }
    }

    fn on_request<H: Host>(&mut self, from: Rank, message: Message, host: &mut H) {
        let raw = host.load(self.places.slot(message.slot));
        let sealed = W::PACKING.unpack(raw).is_sealed(W::PACKING);
        if sealed || self.planted.has(Bug::RpcWithoutSeal) {
            return self.serve(from, message, host);
        }
        if self.seals.len() < SEALS_MAX {
            let waits = self.seals.iter().any(|seal| seal.slot == message.slot);
            self.seals.push(Seal { from, slot: message.slot, message });
            if !waits {
                self.seal(message.slot, raw, host);
            }
        }
    }

    fn seal<H: Host>(&mut self, slot: Slot, raw: u64, host: &mut H) {
        let sealed = W::PACKING.pack(W::PACKING.unpack(raw).sealed(W::PACKING));
        let token = tokens::make(tokens::SEAL, 0, slot.0);
        host.cas(self.me, self.places.slot(slot), raw, sealed, Some(token));
    }

    pub(super) fn on_sealed<H: Host>(&mut self, slot: Slot, outcome: Outcome<'_>, host: &mut H) {
        let raw = host.load(self.places.slot(slot));
        if !W::PACKING.unpack(raw).is_sealed(W::PACKING) {
            // Another proposer's CAS came first: the word is now the one that it wrote.
            debug_assert!(matches!(outcome, Outcome::Before(_)), "loop-back does not break");
            return self.seal(slot, raw, host);
        }
        self.counters.slots_sealed += 1;
        while let Some(at) = self.seals.iter().position(|seal| seal.slot == slot) {
            let seal = self.seals.remove(at);
            self.serve(seal.from, seal.message, host);
        }
    }

    /// Algorithm 1's acceptor (lines 38 to 46, where `n` is the proposal number).
    fn serve<H: Host>(&mut self, from: Rank, message: Message, host: &mut H) {
        let Message { slot, ballot, .. } = message;
        let before = self.own_word(slot, host);
        let generation = W::PACKING.generation_of(slot, self.places.ring_slots());
        let mut horizons = [0; MAX_MEMBERS];
        host.load_into(self.places.horizons(), &mut horizons);
        let ring = u64::from(self.places.ring_slots());
        let ok = ballot >= before.min_proposal && !is_recycled(slot, ring, &horizons);
        let kind = if message.kind == Kind::Prepare { Kind::Prepared } else { Kind::Accepted };
        if ok {
            let after = match message.kind {
                Kind::Prepare => before.prepared(generation, ballot),
                _ => before.accepting(generation, ballot, message.word.tag),
            };
            // P2: the promise is stored first.
            host.store(self.places.sealed_min(slot), after.min_proposal.0);
            host.store(self.places.sealed_accepted(slot), pack_accepted(after));
        }
        let incarnation = self.eras.own();
        // Without room the answer is lost; the proposer asks again.
        let _sent = self.post_message(
            from,
            Message { kind, ok, word: before, incarnation, ..message },
            host,
        );
    }

    fn on_reply<H: Host>(&mut self, from: Rank, message: Message, host: &mut H) {
        let Message { slot, word, ok, .. } = message;
        let Some(term) = &self.term else { return };
        let ballot = term.ballot;
        if message.number != self.ring.terms.newest()
            || message.ballot != ballot
            || !self.eras.is_met(from, message.incarnation)
        {
            return;
        }
        let Some(now_for) = self.ring.answered(from, slot) else { return };
        if now_for != slot {
            // The answer is about the place's earlier use: the prepare that waited for it is
            // posted.
            return self.post_prepare(from, now_for, host);
        }
        let generation = W::PACKING.generation_of(slot, self.places.ring_slots());
        if !ok {
            if word.min_proposal > ballot {
                return self.depose(word.min_proposal, host);
            }
            if self.applied.contains(slot) {
                // This node's own horizon has overtaken a late acceptor: no member is behind.
                return;
            }
            return self.fall_behind(slot, host);
        }
        match message.kind {
            Kind::Accepted => self.on_accepted(from, slot, host),
            _ => {
                self.predict_sealed(from, slot, word.prepared(generation, ballot));
                self.on_promise(from, slot, word, host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_anything_else_is_dropped() {
        let word = SlotWord {
            generation: Generation(3),
            min_proposal: Ballot(1 << 40),
            accepted_proposal: Ballot(77),
            tag: Tag::from_bits(5),
        };
        let message = Message {
            kind: Kind::Prepared,
            ok: true,
            number: 70_000,
            slot: Slot(9),
            ballot: Ballot(1 << 41),
            word,
            incarnation: Incarnation(u64::MAX),
        };
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes), Some(message));
        assert_eq!(Message::decode(&bytes[1..]), None);
        for at in [0, 1] {
            let mut wrong = bytes;
            wrong[at] = 9;
            assert_eq!(Message::decode(&wrong), None);
        }
    }

    #[test]
    fn p3_a_freshly_sealed_word_keeps_its_value_and_outbids_the_cas_protocol() {
        let packing = Packing::new(2, 6);
        let word = SlotWord::default().accepting(Generation(1), Ballot(9), Tag::from_bits(3));
        let kept = sealed_word(packing, word.sealed(packing), 0, 0);
        assert_eq!((kept.accepted_proposal, kept.tag), (Ballot(9), word.tag));
        assert_eq!(kept.min_proposal, Ballot(packing.ballot_limit().0 - 1));
        let after = kept.accepting(Generation(2), Ballot(1 << 30), Tag::from_bits(4));
        let loaded =
            sealed_word(packing, word.sealed(packing), after.min_proposal.0, pack_accepted(after));
        assert_eq!(loaded, after);
    }
}
