//! One slot at the leader: prepare, adopt or take a fresh value, accept, decide.
//!
//! Each acceptor's word is *predicted*; a failed prediction returns the real word, and the CAS is
//! repeated. Predictions die with the term and with the link. The invariants are the parent's.

use super::ring::Cell;
use super::rpc::Request;
use super::word::{Area, Generation};
use super::*;
use crate::value::Label;

/// The time that a value may take to come before another acceptor is asked for it: more than a
/// round trip.
pub(super) const SOURCE_PATIENCE: Duration = Duration::from_millis(500);

/// Whether a member whose region shows these horizons may have used the place of `slot` again (I8).
pub(super) fn is_recycled(slot: Slot, ring_slots: u64, horizons: &[u64]) -> bool {
    horizons.iter().any(|horizon| *horizon > slot.0 + ring_slots)
}

impl<P: Planting<Bug>, W: Widths> Machine<P, W> {
    /// Whether proposals go to this member: a voter or learner that is within reach and answers.
    fn is_fed(&self, rank: Rank) -> bool {
        let is_reached = self.links.met().contains(rank) && self.ring.terms.may_post(rank);
        is_reached && self.eras.fed().contains(rank)
    }

    fn generation(&self, slot: Slot) -> Generation {
        W::PACKING.generation_of(slot, self.places.ring_slots())
    }

    pub(super) fn prepare<H: Host>(&mut self, slot: Slot, host: &mut H) {
        let is_known =
            slot.0 < self.applied.0 + self.alpha() || self.planted.has(Bug::PrepareAhead);
        assert!(is_known, "I9: it is not known here who votes about {slot}");
        assert!(self.eras.may_propose(slot), "I11: {slot} is another incarnation's to propose for");
        let own = host.load(self.places.slot(slot));
        let members = self.members;
        let promised = self.ring.take(slot, own);
        if slot.0 >= u64::from(self.places.ring_slots()) {
            self.counters.slots_recycled += 1;
        }
        if self.planted.has(Bug::SkipPrepare) {
            let cell = self.cell(slot);
            (cell.prepared, cell.vouched) = (MemberSet::all(members), MemberSet::all(members));
            cell.phase = Phase::Free;
            return;
        }
        if self.eras.has_quorum(slot, promised) {
            self.cell(slot).phase = Phase::Free;
        }
        for rank in MemberSet::all(members).difference(promised).iter() {
            self.post_prepare(rank, slot, host);
        }
    }

    pub(super) fn post_prepare<H: Host>(&mut self, to: Rank, slot: Slot, host: &mut H) {
        let Some(term) = &self.term else { return };
        let (ballot, generation) = (term.ballot, self.generation(slot));
        let announced = term.announced;
        let (linked, by_message) = (self.is_fed(to), self.ring.by_message.contains(to));
        let places = self.places;
        let cell = self.cell(slot);
        if !linked || cell.is_waiting(to) {
            return;
        }
        let expected = cell.predicted[to.index()];
        let word = W::PACKING.unpack(expected);
        if by_message || word.is_sealed(W::PACKING) {
            return self.request(to, Request::Prepare, slot, host);
        }
        if word.min_proposal > ballot {
            return self.depose(word.min_proposal, host);
        }
        assert!(!cell.vouched.contains(to), "I5: {to} has promised, and its word is known");
        // I8: a word that this ballot has not frozen is frozen first and recycled later, by the
        // accept; an announced term may recycle a word that it has frozen.
        let desired = if announced && word.min_proposal == ballot {
            word.prepared(generation, ballot)
        } else {
            word.promised(ballot)
        };
        cell.busy.insert(to);
        let desired = W::PACKING.pack(desired);
        cell.expected[to.index()] = expected;
        cell.predicted[to.index()] = desired;
        let token = self.token_of_term(tokens::PREPARE, to, slot);
        host.cas(to, places.slot(slot), expected, desired, Some(token));
        if !announced {
            // T2: the horizons are read after the word is frozen.
            let survey = self.token_of_term(tokens::SURVEY, to, slot);
            host.read(to, places.horizons(), MAX_MEMBERS, survey);
        }
    }

    /// Takes the horizons at `from`, read after its word for `slot` was frozen (I8).
    pub(super) fn on_surveyed<H: Host>(
        &mut self,
        from: Rank,
        number: u32,
        slot: Slot,
        outcome: Outcome<'_>,
        host: &mut H,
    ) {
        let ring = u64::from(self.places.ring_slots());
        let Some(cell) = self.current(number, slot) else { return };
        let Outcome::Read(horizons) = outcome else { return };
        if !cell.prepared.contains(from) || cell.vouched.contains(from) {
            return;
        }
        if is_recycled(slot, ring, horizons) && !self.planted.has(Bug::SkipSurvey) {
            return self.fall_behind(slot, host);
        }
        self.vouch(from, slot, host);
    }

    /// The cell of a completion, unless that is of an earlier term or use.
    fn current(&mut self, number: u32, slot: Slot) -> Option<&mut Cell> {
        self.term.as_ref()?;
        self.ring.current(number, slot)
    }

    /// Takes the completion of a CAS of this term to `from` (`before`: the word that was there;
    /// `None`: unknown). Removes its mark (I6), and if it was about the place's earlier use, starts
    /// the work that waited for it.
    pub(super) fn settle<H: Host>(
        &mut self,
        from: Rank,
        number: u32,
        slot: Slot,
        before: Option<u64>,
        host: &mut H,
    ) {
        if self.term.is_none() {
            return;
        }
        if let Some(now_for) = self.ring.settle(from, number, slot, before) {
            self.post_prepare(from, now_for, host);
        }
    }

    /// Handles an unknown or refused CAS: the acceptor's word stays unknown until a prepare returns
    /// it, which is posted when the link is back, or after a pause if it is back already.
    pub(super) fn on_cas_lost<H: Host>(
        &mut self,
        from: Rank,
        number: u32,
        slot: Slot,
        host: &mut H,
    ) {
        self.settle(from, number, slot, None, host);
        if let Some(cell) = self.current(number, slot) {
            cell.doubt(from, false);
            self.clock.nudge(self.clock.now.plus(WAKE_AFTER));
        }
    }

    pub(super) fn on_prepare_completed<H: Host>(
        &mut self,
        from: Rank,
        number: u32,
        slot: Slot,
        before: u64,
        host: &mut H,
    ) {
        self.settle(from, number, slot, Some(before), host);
        let Some(cell) = self.current(number, slot) else { return };
        if before == cell.expected[from.index()] {
            return self.on_promise(from, slot, W::PACKING.unpack(before), host);
        }
        self.counters.prepares_mispredicted += 1;
        self.on_mispredicted(from, slot, before, host);
    }

    /// Notes the word that the acceptor had instead of the expected one: the CAS had no effect.
    fn on_mispredicted<H: Host>(&mut self, from: Rank, slot: Slot, found: u64, host: &mut H) {
        self.cell(slot).predicted[from.index()] = found;
        if W::PACKING.unpack(found).is_sealed(W::PACKING) {
            self.ring.by_message.insert(from);
        }
        self.post_prepare(from, slot, host);
    }

    /// Predicts a word for `from`, which uses messages, whose ballots do not fit into a word: the
    /// next accept needs only the tag, and with it the free area.
    pub(super) fn predict_sealed(&mut self, from: Rank, slot: Slot, after: SlotWord) {
        let word = SlotWord { accepted_proposal: Ballot::NONE, ..after.sealed(W::PACKING) };
        self.cell(slot).predicted[from.index()] = W::PACKING.pack(word);
    }

    /// Takes the promise of `from` for `slot`, as was predicted; `before` is its word before that.
    pub(super) fn on_promise<H: Host>(
        &mut self,
        from: Rank,
        slot: Slot,
        before: SlotWord,
        host: &mut H,
    ) {
        let Some(term) = &self.term else { return };
        let announced = term.announced;
        let same_use = before.generation == self.generation(slot);
        let predicts = self.planted.has(Bug::AdoptFromPredictions);
        let own = predicts.then(|| self.own_word(slot, host));
        let cell = self.cell(slot);
        cell.prepared.insert(from);
        let found = if let Some(own) = own {
            (own.accepted_proposal, own.tag)
        } else if same_use {
            (before.accepted_proposal, before.tag)
        } else {
            (Ballot::NONE, Tag::NONE)
        };
        cell.found[from.index()] = found;
        // I17: it was asked again while its horizons were on their way, and what follows the
        // promise has waited for this answer.
        let is_known = cell.vouched.contains(from) && !self.planted.has(Bug::AskedTwiceWaits);
        if announced || is_known || self.ring.by_message.contains(from) {
            // Once a slot was free under this ballot, no lower ballot can have gone a ring beyond
            // it; and an acceptor that uses messages examines its own horizons.
            self.vouch(from, slot, host);
        }
    }

    /// Counts the promise of `from`: its word was of this use of the place, or an earlier one.
    fn vouch<H: Host>(&mut self, from: Rank, slot: Slot, host: &mut H) {
        let Some(term) = &self.term else { return };
        let ballot = term.ballot;
        self.cell(slot).vouched.insert(from);
        let vouched = self.cell(slot).vouched;
        let has_quorum = self.planted.has(Bug::PromiseOfOne) || self.eras.has_quorum(slot, vouched);
        let any_own = self.planted.has(Bug::AnyOwnAccept);
        let cell = self.cell(slot);
        let (accepted, tag) = cell.found[from.index()];
        // I8: the tag must be the one offered for this slot. Under the same ballot, a link that was
        // down while the generation wrapped shows a value that was accepted here long ago; an offer
        // always uses the area that the word does not refer to (I5).
        let offered = any_own || tag != Tag::NONE && tag == cell.offered[from.index()];
        if accepted == ballot && offered && matches!(cell.phase, Phase::Accepting | Phase::Decided)
        {
            // A repeated prepare found this slot's own accept, whose completion was lost.
            return self.on_accepted(from, slot, host);
        }
        match cell.phase {
            Phase::Preparing if has_quorum => self.resolve(slot, host),
            // The promise is late: the value is known by now.
            Phase::Accepting | Phase::Decided => self.post_accept(from, slot, host),
            Phase::Idle | Phase::Preparing | Phase::Free | Phase::Fetching => {}
        }
    }

    /// Resolves a slot that a majority has promised. Either the slot is free, or the value with the
    /// highest accepted ballot among the completed prepares' words has to be proposed (I1).
    fn resolve<H: Host>(&mut self, slot: Slot, host: &mut H) {
        let (me, now, planted) = (self.me, self.clock.now, self.planted);
        let area_words = self.places.area_words as usize;
        let cell = self.cell(slot);
        let holders =
            cell.prepared.iter().filter(|rank| cell.found[rank.index()].0 != Ballot::NONE);
        let ballot_at = |rank: &Rank| cell.found[rank.index()].0;
        // The own memory is the nearest, if it returned that ballot.
        let best = match planted.has(Bug::AdoptLowest) {
            true => holders.min_by_key(|rank| (ballot_at(rank), *rank != me)),
            false => holders.max_by_key(|rank| (ballot_at(rank), *rank == me)),
        };
        let Some(best) = best.filter(|_| !planted.has(Bug::IgnoreFoundValue)) else {
            cell.phase = Phase::Free;
            return;
        };
        cell.phase = Phase::Fetching;
        cell.source = Some((best, now));
        let (_, tag) = cell.found[best.index()];
        let Some((proposer, area)) = tag.place() else {
            unreachable!("a word with an accepted ballot has a tag");
        };
        let at = self.places.area(slot, proposer, area);
        // The own memory is read through the fabric too: one path, and it completes at the next
        // poll.
        let token = self.token_of_term(tokens::ADOPT, best, slot);
        host.read(best, at, area_words, token);
        self.clock.nudge(now.plus(SOURCE_PATIENCE));
    }

    /// Reads from another acceptor: a paused source answers when it resumes, perhaps never.
    pub(super) fn give_up_source<H: Host>(&mut self, slot: Slot, host: &mut H) {
        let now = self.clock.now;
        let cell = self.cell(slot);
        let Some((from, since)) = cell.source.filter(|_| cell.phase == Phase::Fetching) else {
            return;
        };
        let due = since.plus(SOURCE_PATIENCE);
        if now < due {
            return self.clock.nudge(due);
        }
        cell.phase = Phase::Preparing;
        cell.source = None;
        cell.found[from.index()] = (Ballot::NONE, Tag::NONE);
        cell.prepared.remove(from);
        cell.vouched.remove(from);
        let vouched = cell.vouched;
        if self.eras.has_quorum(slot, vouched) {
            self.resolve(slot, host);
        }
    }

    pub(super) fn on_adopted_value<H: Host>(
        &mut self,
        from: Rank,
        number: u32,
        slot: Slot,
        outcome: Outcome<'_>,
        host: &mut H,
    ) {
        let (me, planted) = (self.me, self.planted);
        let Some(cell) = self.current(number, slot) else { return };
        if cell.phase != Phase::Fetching || cell.source.is_none_or(|(asked, _)| asked != from) {
            return;
        }
        let wanted = cell.found[from.index()].0;
        let read_slot = match outcome {
            Outcome::Read(words) => value::decode(words).map(|(label, _)| label.slot),
            _ => None,
        };
        // The place was used again after the promise, which was long on its way: `slot` is decided.
        if read_slot.is_some_and(|read| read > slot) && !planted.has(Bug::LaterIsEmpty) {
            return self.fall_behind(slot, host);
        }
        // The generation wrapped: the word is of a much earlier use.
        let is_earlier = read_slot.is_some_and(|read| read != slot);
        let whole = match outcome {
            Outcome::Read(words) => value::decode(words)
                .filter(|(label, _)| label.slot == slot && label.ballot >= wanted)
                .map(|(label, payload)| (label.content, payload)),
            _ => None,
        };
        if let Some((content, payload)) = whole {
            self.counters.values_adopted += 1;
            self.counters.values_fetched_remotely += u64::from(from != me);
            self.cell(slot).adopted = true;
            if let Some(term) = &mut self.term {
                term.recover_until = term.recover_until.max(slot.next());
            }
            return self.begin_accept(slot, content, payload, host);
        }
        // That acceptor cannot be read: it counts as not having promised, and is asked again.
        cell.phase = Phase::Preparing;
        cell.found[from.index()] = (Ballot::NONE, Tag::NONE);
        if !is_earlier && !planted.has(Bug::UnreadableIsEmpty) {
            cell.prepared.remove(from);
            cell.vouched.remove(from);
        }
        let vouched = cell.vouched;
        self.counters.torn_values_rejected += u64::from(matches!(outcome, Outcome::Read(_)));
        self.clock.nudge(self.clock.now.plus(RETRY_AFTER));
        if self.eras.has_quorum(slot, vouched) {
            self.resolve(slot, host);
        }
    }

    /// Proposes `payload` for `slot`, for which a majority has promised.
    pub(super) fn begin_accept<H: Host>(
        &mut self,
        slot: Slot,
        content: Content,
        payload: &[u8],
        host: &mut H,
    ) {
        let Some(term) = &self.term else { return };
        let label = Label { slot, ballot: term.ballot, decided: self.applied, content };
        let cell = self.cell(slot);
        cell.phase = Phase::Accepting;
        value::encode(&mut cell.value, label, payload);
        Rank::all(self.members).for_each(|rank| self.post_accept(rank, slot, host));
        self.show_horizon_late(slot, host);
    }

    /// I17
    pub(super) fn is_under_way(&mut self) -> bool {
        let Some(until) = self.term.as_ref().map(|term| term.prepared_until()) else { return true };
        if self.clock.alarm().is_some() {
            return true;
        }
        let fed: Vec<Rank> = Rank::all(self.members).filter(|rank| self.is_fed(*rank)).collect();
        (self.applied.next_slot().0..until.0).map(Slot).all(|slot| {
            let is_proposed = self.ring.phase_of(slot) == Phase::Accepting;
            let cell = self.ring.cell(slot);
            let owes = |rank: &Rank| cell.vouched.contains(*rank) && !cell.accepted.contains(*rank);
            !is_proposed || fed.iter().filter(|rank| owes(rank)).all(|rank| cell.is_waiting(*rank))
        })
    }

    pub(super) fn post_accept<H: Host>(&mut self, to: Rank, slot: Slot, host: &mut H) {
        let Some(term) = &self.term else { return };
        let (ballot, generation) = (term.ballot, self.generation(slot));
        let (linked, by_message) = (self.is_fed(to), self.ring.by_message.contains(to));
        let (me, places) = (self.me, self.places);
        let planted = self.planted;
        let cell = self.cell(slot);
        // I5: the word, and with it the free area, is known only once its promise has come.
        if !linked || !cell.vouched.contains(to) || cell.is_waiting(to) {
            return;
        }
        if cell.accepted.contains(to) {
            return;
        }
        let expected = cell.predicted[to.index()];
        let word = W::PACKING.unpack(expected);
        let area = match word.tag.place() {
            Some((holder, live)) if planted.has(Bug::WriteLiveArea) && holder == me => live,
            _ => word.tag.free_area(me, Area::of(slot, places.ring_slots())),
        };
        let area_at = places.area(slot, me, area);
        cell.offered[to.index()] = Tag::of(me, area);
        if by_message {
            if to == me && !planted.has(Bug::OwnValueLater) {
                // The own acceptor answers at once, and would refer to a value on its way.
                for (word, at) in cell.value.iter().zip(0..) {
                    host.store(area_at.plus(at), *word);
                }
            } else {
                host.write(to, area_at, &cell.value, None);
            }
            return self.request(to, Request::Accept(Tag::of(me, area)), slot, host);
        }
        let desired = W::PACKING.pack(word.accepting(generation, ballot, Tag::of(me, area)));
        cell.busy.insert(to);
        cell.expected[to.index()] = expected;
        cell.predicted[to.index()] = desired;
        let token = self.token_of_term(tokens::ACCEPT, to, slot);
        let planted = self.planted;
        let value = &self.cell(slot).value;
        // T2: the value is there before the word that refers to it.
        if !planted.has(Bug::ValueAfterCas) {
            host.write(to, area_at, value, None);
        }
        host.cas(to, places.slot(slot), expected, desired, Some(token));
        if planted.has(Bug::ValueAfterCas) {
            host.write(to, area_at, value, None);
        }
    }

    pub(super) fn on_accept_completed<H: Host>(
        &mut self,
        from: Rank,
        number: u32,
        slot: Slot,
        before: u64,
        host: &mut H,
    ) {
        self.settle(from, number, slot, Some(before), host);
        let planted = self.planted;
        let Some(cell) = self.current(number, slot) else { return };
        if before == cell.expected[from.index()] || planted.has(Bug::CountFailedAccepts) {
            cell.accepted.insert(from);
            return self.decide_if_accepted(slot, host);
        }
        // Another proposer has used the word since it promised: the acceptor must promise again.
        cell.prepared.remove(from);
        cell.vouched.remove(from);
        self.counters.accepts_failed += 1;
        self.on_mispredicted(from, slot, before, host);
    }

    pub(super) fn on_accepted<H: Host>(&mut self, from: Rank, slot: Slot, host: &mut H) {
        self.cell(slot).accepted.insert(from);
        self.decide_if_accepted(slot, host);
    }

    fn decide_if_accepted<H: Host>(&mut self, slot: Slot, host: &mut H) {
        let accepted = self.cell(slot).accepted;
        let has_quorum =
            self.planted.has(Bug::IgnoreMajority) || self.eras.has_quorum(slot, accepted);
        let cell = self.cell(slot);
        if cell.phase == Phase::Accepting && has_quorum {
            cell.phase = Phase::Decided;
            self.advance(host);
        }
    }
}
