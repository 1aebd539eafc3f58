//! The proposer: prepare ahead, accept in one CAS, decide, recycle (sections 4.3, 5.1).
//!
//! Each acceptor's word is *predicted*; a prediction that fails comes back with the truth and is
//! tried again. Predictions die with the term and with the link. The invariants are the parent's.

use super::rpc::Request;
use super::word::{Age, Generation};
use super::*;
use crate::value::Label;

/// Where a slot stands at the leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not this term's business.
    #[default]
    Idle,
    /// A prepare is under way.
    Preparing,
    /// A majority promised and holds no value: any value may be proposed.
    Free,
    /// A majority promised; the value that has to be proposed is being read.
    Fetching,
    /// The value is proposed.
    Accepting,
    /// A majority accepted it.
    Decided,
}

/// The leader's book on one place of the ring.
#[derive(Debug, Default)]
pub(super) struct Cell {
    slot: Slot,
    term: u32,
    pub(super) phase: Phase,
    /// The value was found, not proposed afresh.
    pub(super) adopted: bool,
    prepared: MemberSet,
    accepted: MemberSet,
    /// A CAS or a message is under way to these (I6).
    busy: MemberSet,
    /// What each acceptor's word should be when the next CAS arrives.
    predicted: [SlotWord; MAX_MEMBERS],
    /// What the CAS under way expects.
    expected: [SlotWord; MAX_MEMBERS],
    /// What completed prepares returned: accepted ballot and tag.
    found: [(Ballot, Tag); MAX_MEMBERS],
    /// Label and payload, encoded once a ballot.
    value: Vec<u64>,
}

/// One attempt to lead.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) ballot: Ballot,
    /// The first slot that has not been proposed for.
    pub(super) next: Slot,
    /// Slots below are being prepared or further.
    prepared_until: Slot,
    /// Some slot just below was found to have an accepted value: all below have to be filled.
    pub(super) recover_until: Slot,
    /// [`Note::Leading`] was given.
    pub(super) announced: bool,
    /// The decided prefix that was last written into the peers' fact words.
    published: Prefix,
    /// Peers that have the ballot in their fact words.
    introduced: MemberSet,
    /// Nobody was woken yet to see this term's first decision.
    first_news: bool,
}

/// How many slots beyond those that need recovery are prepared first.
const HEADROOM: u64 = 8;

impl<V: Variant> Machine<V> {
    pub(super) fn start_term<H: Host>(&mut self, host: &mut H) {
        assert!(self.term.is_none() && !self.learner);
        self.read_facts(host);
        self.learn(host);
        let first = self.applied.next_slot();
        let ring = u64::from(self.places.ring_slots());
        let mut floor = self.highest;
        let mut recover_until = first;
        for slot in (first.0..first.0 + ring).map(Slot) {
            let word = self.own_word(slot, host);
            if !V::FORGET_PROMISE {
                floor = floor.max(word.min_proposal);
            }
            let generation = V::PACKING.generation_of(slot, self.places.ring_slots());
            if word.generation == generation && word.has_value() {
                recover_until = slot.next();
            }
        }
        let ballot = Ballot::above(floor, self.me);
        assert!(ballot > self.highest || V::FORGET_PROMISE, "I2: a ballot is used in one life");
        self.highest = ballot;
        // Before the first CAS that uses it, so that no later life uses it again (I2).
        host.store(self.places.highest(), ballot.0);
        self.n_terms += 1;
        self.counters.terms_started += 1;
        self.by_message = if ballot >= V::PACKING.ballot_limit() {
            MemberSet::all(self.members)
        } else {
            MemberSet::EMPTY
        };
        self.term = Some(Term {
            ballot,
            next: first,
            prepared_until: first,
            recover_until,
            announced: false,
            published: Prefix::ZERO,
            introduced: MemberSet::EMPTY,
            first_news: true,
        });
        // The undecided slots first; the window is extended by the polls that follow.
        self.extend_window(recover_until.0 - first.0 + HEADROOM, host);
    }

    /// Gives up the lead without having been beaten.
    pub(super) fn step_down<H: Host>(&mut self, host: &mut H) {
        if let Some(term) = self.term.take() {
            self.counters.deposed += 1;
            host.notify(Note::Deposed { ballot: term.ballot });
        }
    }

    /// Somebody has promised or published a higher ballot.
    pub(super) fn depose<H: Host>(&mut self, by: Ballot, host: &mut H) {
        self.highest = self.highest.max(by);
        self.step_down(host);
        self.retry_at = Some(self.now.plus(RETRY_AFTER * (1 + self.me.index() as u32)));
    }

    /// Prepares up to `n` more slots, as far as the window and the ring allow (I3).
    pub(super) fn extend_window<H: Host>(&mut self, n: u64, host: &mut H) {
        let recycled_below = self.recyclable.0 + u64::from(self.places.ring_slots());
        for _ in 0..n {
            let Some(term) = &mut self.term else { return };
            let slot = term.prepared_until;
            if slot.0 >= term.next.0 + self.window / 2 || slot.0 >= recycled_below {
                return;
            }
            term.prepared_until = slot.next();
            self.prepare(slot, host);
        }
    }

    fn generation(&self, slot: Slot) -> Generation {
        V::PACKING.generation_of(slot, self.places.ring_slots())
    }

    fn prepare<H: Host>(&mut self, slot: Slot, host: &mut H) {
        let ring = u64::from(self.places.ring_slots());
        let recyclable = slot.0 < self.recyclable.0 + ring;
        assert!(recyclable, "I3: {slot} would overwrite what a majority has not applied");
        let own = V::PACKING.unpack(host.load(self.places.slot(slot)));
        let members = self.members;
        let (number, n_cells) = (self.n_terms, self.cells.len() as u64);
        let cell = self.cell(slot);
        if cell.term != number {
            // A new term knows nothing of the others' words: they should be like the own.
            cell.term = number;
            cell.predicted = [own; MAX_MEMBERS];
            cell.busy = MemberSet::EMPTY;
        } else {
            assert!(cell.slot.0 + n_cells == slot.0, "a place is used again one ring later");
        }
        cell.slot = slot;
        cell.phase = Phase::Preparing;
        cell.adopted = false;
        cell.prepared = MemberSet::EMPTY;
        cell.accepted = MemberSet::EMPTY;
        cell.found = [(Ballot::NONE, Tag::NONE); MAX_MEMBERS];
        if slot.0 >= n_cells {
            self.counters.slots_recycled += 1;
        }
        if V::SKIP_PREPARE {
            let cell = self.cell(slot);
            cell.prepared = MemberSet::all(members);
            cell.phase = Phase::Free;
            return;
        }
        for rank in Rank::all(members) {
            self.post_prepare(rank, slot, host);
        }
    }

    fn post_prepare<H: Host>(&mut self, to: Rank, slot: Slot, host: &mut H) {
        let Some(term) = &self.term else { return };
        let (ballot, number, generation) = (term.ballot, self.n_terms, self.generation(slot));
        let (linked, by_message) = (self.links.contains(to), self.by_message.contains(to));
        let at = self.places.slot(slot);
        let cell = self.cell(slot);
        if !linked || cell.busy.contains(to) {
            return;
        }
        let word = cell.predicted[to.index()];
        if by_message || word.is_sealed(V::PACKING) {
            return self.request(to, Request::Prepare, slot, host);
        }
        if word.min_proposal > ballot {
            return self.depose(word.min_proposal, host);
        }
        if V::PACKING.compare(word.generation, generation) == Age::Newer {
            return self.fall_behind(slot, host);
        }
        let desired = word.prepared(generation, ballot);
        cell.busy.insert(to);
        cell.expected[to.index()] = word;
        cell.predicted[to.index()] = desired;
        let token = tokens::make(tokens::PREPARE, number, slot.0);
        host.cas(to, at, V::PACKING.pack(word), V::PACKING.pack(desired), Some(token));
    }

    /// This slot was decided and recycled under a later leader: nothing to lead with here.
    pub(super) fn fall_behind<H: Host>(&mut self, slot: Slot, host: &mut H) {
        self.request_state(slot.prefix_through(), host);
        let highest = self.highest;
        self.depose(highest, host);
    }

    /// The cell that a completion is about, unless it is of an earlier term or use.
    fn current(&mut self, number: u32, slot: Slot) -> Option<&mut Cell> {
        if self.term.is_none() || number != self.n_terms & 0xffff {
            return None;
        }
        let n_terms = self.n_terms;
        let cell = self.cell(slot);
        (cell.slot == slot && cell.term == n_terms).then_some(cell)
    }

    /// A CAS to `from` has completed (`before`: the word that was there; `None`: unknown). Takes
    /// its mark away (I6), and if it was about the place's earlier use, starts what waited for it.
    fn settle<H: Host>(
        &mut self,
        from: Rank,
        number: u32,
        slot: Slot,
        before: Option<SlotWord>,
        host: &mut H,
    ) {
        if self.term.is_none() || number != self.n_terms & 0xffff {
            return;
        }
        let n_terms = self.n_terms;
        let cell = self.cell(slot);
        if cell.term != n_terms {
            return;
        }
        cell.busy.remove(from);
        if cell.slot == slot {
            return;
        }
        let (now_for, expected) = (cell.slot, cell.expected[from.index()]);
        if let Some(before) = before.filter(|before| *before != expected) {
            cell.predicted[from.index()] = before;
        }
        self.post_prepare(from, now_for, host);
    }

    /// Unknown, or refused: nothing is known of that acceptor's word until its link is back.
    pub(super) fn on_cas_lost<H: Host>(
        &mut self,
        from: Rank,
        number: u32,
        slot: Slot,
        host: &mut H,
    ) {
        self.settle(from, number, slot, None, host);
    }

    pub(super) fn on_prepare_completed<H: Host>(
        &mut self,
        from: Rank,
        number: u32,
        slot: Slot,
        before: u64,
        host: &mut H,
    ) {
        let before = V::PACKING.unpack(before);
        self.settle(from, number, slot, Some(before), host);
        let Some(cell) = self.current(number, slot) else { return };
        if before == cell.expected[from.index()] {
            let predicted = cell.predicted[from.index()];
            return self.on_promise(from, slot, before, predicted, host);
        }
        self.counters.prepares_mispredicted += 1;
        self.on_mispredicted(from, slot, before, host);
    }

    /// The acceptor's word was another than expected: nothing happened there, and now it is known.
    fn on_mispredicted<H: Host>(&mut self, from: Rank, slot: Slot, found: SlotWord, host: &mut H) {
        self.cell(slot).predicted[from.index()] = found;
        if found.is_sealed(V::PACKING) {
            self.by_message.insert(from);
        }
        self.post_prepare(from, slot, host);
    }

    /// `from` has promised the ballot for `slot`; `before` is its word before that.
    pub(super) fn on_promise<H: Host>(
        &mut self,
        from: Rank,
        slot: Slot,
        before: SlotWord,
        after: SlotWord,
        host: &mut H,
    ) {
        let Some(term) = &self.term else { return };
        let ballot = term.ballot;
        let same_use = before.generation == self.generation(slot);
        let needed = if V::PROMISE_OF_ONE { 1 } else { self.quorum() };
        let own = self.own_word(slot, host);
        let cell = self.cell(slot);
        cell.predicted[from.index()] = after;
        cell.prepared.insert(from);
        if same_use && before.accepted_proposal == ballot {
            // A repeated prepare found this ballot's own accept, whose completion was lost.
            cell.accepted.insert(from);
            return self.decide_if_accepted(slot, host);
        }
        if V::ADOPT_FROM_PREDICTIONS {
            cell.found[from.index()] = (own.accepted_proposal, own.tag);
        } else if same_use {
            cell.found[from.index()] = (before.accepted_proposal, before.tag);
        }
        match cell.phase {
            Phase::Preparing if cell.prepared.len() >= needed => self.resolve(slot, host),
            // A late promise: the value is known by now.
            Phase::Accepting | Phase::Decided => self.post_accept(from, slot, host),
            Phase::Idle | Phase::Preparing | Phase::Free | Phase::Fetching => {}
        }
    }

    /// A majority has promised. Either the slot is free, or the value with the highest accepted
    /// ballot among what the completed prepares returned has to be proposed (I1).
    fn resolve<H: Host>(&mut self, slot: Slot, host: &mut H) {
        let (me, number) = (self.me, self.n_terms);
        let area_words = self.places.area_words as usize;
        let cell = self.cell(slot);
        let holders =
            cell.prepared.iter().filter(|rank| cell.found[rank.index()].0 != Ballot::NONE);
        let ballot_at = |rank: &Rank| cell.found[rank.index()].0;
        // The own memory is the nearest, if it returned that ballot.
        let best = if V::ADOPT_LOWEST {
            holders.min_by_key(|rank| (ballot_at(rank), *rank != me))
        } else {
            holders.max_by_key(|rank| (ballot_at(rank), *rank == me))
        };
        let Some(best) = best.filter(|_| !V::IGNORE_FOUND_VALUE) else {
            cell.phase = Phase::Free;
            return;
        };
        cell.phase = Phase::Fetching;
        let (_, tag) = cell.found[best.index()];
        let Some((proposer, area)) = tag.place() else {
            unreachable!("a word with an accepted ballot has a tag");
        };
        let at = self.places.area(slot, proposer, area);
        // Through the fabric for the own memory too: one path, and it completes at the next poll.
        host.read(best, at, area_words, tokens::make(tokens::ADOPT, number, slot.0));
    }

    pub(super) fn on_adopted_value<H: Host>(
        &mut self,
        from: Rank,
        number: u32,
        slot: Slot,
        outcome: Outcome<'_>,
        host: &mut H,
    ) {
        let me = self.me;
        let Some(cell) = self.current(number, slot) else { return };
        if cell.phase != Phase::Fetching {
            return;
        }
        let wanted = cell.found[from.index()].0;
        let whole = match outcome {
            Outcome::Read(words) if V::SKIP_CHECKSUM => Some(value::payload_unchecked(words)),
            Outcome::Read(words) => value::decode(words)
                .filter(|(label, _)| label.slot == slot && label.ballot >= wanted)
                .map(|(_, payload)| payload),
            _ => None,
        };
        if let Some(payload) = whole {
            self.counters.values_adopted += 1;
            self.counters.values_fetched_remotely += u64::from(from != me);
            self.cell(slot).adopted = true;
            if let Some(term) = &mut self.term {
                term.recover_until = term.recover_until.max(slot.next());
            }
            return self.begin_accept(slot, payload, host);
        }
        // That acceptor cannot be asked: do as if it had not promised, and ask it again.
        cell.phase = Phase::Preparing;
        cell.prepared.remove(from);
        cell.found[from.index()] = (Ballot::NONE, Tag::NONE);
        let enough = cell.prepared.len();
        self.counters.torn_values_rejected += u64::from(matches!(outcome, Outcome::Read(_)));
        self.nudge(self.now.plus(RETRY_AFTER));
        if enough >= self.quorum() {
            self.resolve(slot, host);
        }
    }

    /// Proposes `payload` for `slot`, for which a majority has promised.
    fn begin_accept<H: Host>(&mut self, slot: Slot, payload: &[u8], host: &mut H) {
        let Some(term) = &self.term else { return };
        let label = Label { slot, ballot: term.ballot, decided: self.applied };
        let cell = self.cell(slot);
        cell.phase = Phase::Accepting;
        value::encode(&mut cell.value, label, payload);
        for rank in Rank::all(self.members) {
            self.post_accept(rank, slot, host);
        }
    }

    fn post_accept<H: Host>(&mut self, to: Rank, slot: Slot, host: &mut H) {
        let Some(term) = &self.term else { return };
        let (ballot, number, generation) = (term.ballot, self.n_terms, self.generation(slot));
        let (linked, by_message) = (self.links.contains(to), self.by_message.contains(to));
        let (me, places) = (self.me, self.places);
        let cell = self.cell(slot);
        // I5: only after its prepare has completed is the word known, and with it the free area.
        if !linked || !cell.prepared.contains(to) || cell.busy.contains(to) {
            return;
        }
        if cell.accepted.contains(to) {
            return;
        }
        let word = cell.predicted[to.index()];
        let free = word.tag.free_area(me);
        let area = match word.tag.place() {
            Some((holder, used)) if V::REUSE_AREA && holder == me => used,
            _ => free,
        };
        let area_at = places.area(slot, me, area);
        if by_message {
            let cell = self.cell(slot);
            host.write(to, area_at, &cell.value, None);
            return self.request(to, Request::Accept(Tag::of(me, area)), slot, host);
        }
        let desired = word.accepting(generation, ballot, Tag::of(me, area));
        cell.busy.insert(to);
        cell.expected[to.index()] = word;
        cell.predicted[to.index()] = desired;
        let token = tokens::make(tokens::ACCEPT, number, slot.0);
        // T2: the value is there before the word that refers to it.
        if !V::VALUE_AFTER_CAS {
            host.write(to, area_at, &cell.value, None);
        }
        let (expected, desired) = (V::PACKING.pack(word), V::PACKING.pack(desired));
        host.cas(to, places.slot(slot), expected, desired, Some(token));
        if V::VALUE_AFTER_CAS {
            host.write(to, area_at, &cell.value, None);
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
        let before = V::PACKING.unpack(before);
        self.settle(from, number, slot, Some(before), host);
        let Some(cell) = self.current(number, slot) else { return };
        if before == cell.expected[from.index()] || V::COUNT_FAILED_ACCEPTS {
            cell.accepted.insert(from);
            return self.decide_if_accepted(slot, host);
        }
        // Somebody else has been there since it promised: it must promise again.
        cell.prepared.remove(from);
        self.counters.accepts_failed += 1;
        self.on_mispredicted(from, slot, before, host);
    }

    pub(super) fn on_accepted<H: Host>(&mut self, from: Rank, slot: Slot, host: &mut H) {
        self.cell(slot).accepted.insert(from);
        self.decide_if_accepted(slot, host);
    }

    fn decide_if_accepted<H: Host>(&mut self, slot: Slot, host: &mut H) {
        let needed = if V::IGNORE_MAJORITY { 1 } else { self.quorum() };
        let cell = self.cell(slot);
        if cell.phase == Phase::Accepting && cell.accepted.len() >= needed {
            cell.phase = Phase::Decided;
            self.advance(host);
        }
    }

    /// Delivers what is decided and next, and announces the lead once nothing found is before us.
    pub(super) fn advance<H: Host>(&mut self, host: &mut H) {
        while self.term.is_some() {
            let slot = self.applied.next_slot();
            let n_terms = self.n_terms;
            let cell = self.cell(slot);
            if cell.slot != slot || cell.term != n_terms || cell.phase != Phase::Decided {
                break;
            }
            let words = core::mem::take(&mut cell.value);
            self.deliver(slot, &words, host);
            self.cell(slot).value = words;
        }
        let applied = self.applied.next_slot();
        let Some(term) = &mut self.term else { return };
        if term.next < applied {
            term.next = applied;
        }
        let ballot = term.ballot;
        self.facts[self.me.index()] = Fact { ballot, decided: self.applied };
        self.fill_holes(host);
        let free = self.phase_of(applied) == Phase::Free || V::READ_BEFORE_RECOVERY;
        let Some(term) = &mut self.term else { return };
        if !term.announced && free && applied >= term.recover_until {
            term.announced = true;
            host.notify(Note::Leading { ballot });
        }
    }

    /// Free slots before a value that was found hold it up: give them no-ops.
    fn fill_holes<H: Host>(&mut self, host: &mut H) {
        loop {
            let Some(term) = &self.term else { return };
            let slot = term.next;
            if slot >= term.recover_until {
                return;
            }
            match self.phase_of(slot) {
                Phase::Free => self.begin_accept(slot, &[], host),
                Phase::Accepting | Phase::Decided => {}
                Phase::Idle | Phase::Preparing | Phase::Fetching => return,
            }
            if let Some(term) = &mut self.term {
                term.next = slot.next();
            }
        }
    }

    pub(super) fn is_adopted(&mut self, slot: Slot) -> bool {
        let n_terms = self.n_terms;
        let cell = self.cell(slot);
        cell.slot == slot && cell.term == n_terms && cell.adopted
    }

    /// Where `slot` stands in this term.
    pub(super) fn phase_of(&mut self, slot: Slot) -> Phase {
        let n_terms = self.n_terms;
        let cell = self.cell(slot);
        if cell.slot == slot && cell.term == n_terms { cell.phase } else { Phase::Idle }
    }

    pub(super) fn propose_value<H: Host>(
        &mut self,
        value: &[u8],
        host: &mut H,
    ) -> Result<Slot, Refused> {
        if value.len() > self.value_bytes_max {
            return Err(Refused::TooLong);
        }
        loop {
            let Some(term) = &self.term else { return Err(Refused::NotLeader) };
            if !term.announced {
                return Err(Refused::NotLeader);
            }
            let slot = term.next;
            let in_flight = slot.0 - self.applied.0;
            let phase = self.phase_of(slot);
            match phase {
                Phase::Free if in_flight < self.window => {
                    self.begin_accept(slot, value, host);
                    self.counters.values_proposed += 1;
                    if let Some(term) = &mut self.term {
                        term.next = slot.next();
                    }
                    // Two a proposal: the window fills as fast as it empties, without bursts.
                    self.extend_window(2, host);
                    return Ok(slot);
                }
                Phase::Accepting | Phase::Decided => {
                    if let Some(term) = &mut self.term {
                        term.next = slot.next();
                    }
                }
                Phase::Idle | Phase::Preparing | Phase::Free | Phase::Fetching => {
                    self.counters.window_full += 1;
                    return Err(Refused::Full);
                }
            }
        }
    }

    /// Tells the followers what is decided: alone only when no value is under way that could carry
    /// the news; and wakes those that sleep too long.
    pub(super) fn publish<H: Host>(&mut self, host: &mut H) {
        let Some(term) = &mut self.term else { return };
        let decided = self.applied;
        let idle = term.next.0 <= decided.0;
        let fact_at = self.places.fact(self.me);
        if decided > term.published && idle {
            term.published = decided;
            for rank in Rank::all(self.members).filter(|rank| *rank != self.me) {
                if term.introduced.insert(rank) {
                    // T2: the ballot before the prefix, which a reader loads the other way round.
                    host.write(rank, fact_at, &[term.ballot.0], None);
                }
                host.write(rank, fact_at.plus(1), &[decided.0], None);
            }
        }
        if self.peer_works {
            return;
        }
        let first = term.first_news && decided.0 > 0 && term.published == decided;
        term.first_news &= !first;
        let next = term.next;
        let mut lagging = false;
        for rank in self.peers() {
            let lag = next.0.saturating_sub(self.applied_by[rank.index()].0);
            if first || lag >= u64::from(self.places.ring_slots() / 4) {
                host.wake(rank);
            }
            lagging |= lag > 0 && !self.failed.contains(rank);
        }
        if lagging {
            self.nudge(self.now.plus(WAKE_AFTER));
        }
    }

    /// The link to `rank` is there (again): whatever it may have missed is posted once more.
    pub(super) fn repost<H: Host>(&mut self, rank: Rank, host: &mut H) {
        let Some(term) = &mut self.term else { return };
        term.introduced.remove(rank);
        term.published = Prefix::ZERO;
        let (from, until) = (self.applied.next_slot(), term.prepared_until);
        for slot in (from.0..until.0).map(Slot) {
            if self.phase_of(slot) == Phase::Idle {
                continue;
            }
            let cell = self.cell(slot);
            cell.busy.remove(rank);
            let promised = cell.phase == Phase::Free && cell.prepared.contains(rank);
            if !cell.accepted.contains(rank) && !promised {
                // Whether a CAS took effect there is unknown: a prepare tells.
                cell.prepared.remove(rank);
                self.post_prepare(rank, slot, host);
            }
        }
    }

    /// What may have been lost or overslept: messages, fetches, sleepers.
    pub(super) fn repeat_lost<H: Host>(&mut self, host: &mut H) {
        self.expire_fetches();
        let Some(term) = &self.term else { return };
        let (from, until) = (self.applied.next_slot(), term.prepared_until);
        for slot in (from.0..until.0).map(Slot) {
            if matches!(self.phase_of(slot), Phase::Preparing | Phase::Accepting) {
                for rank in Rank::all(self.members) {
                    self.repeat_one(rank, slot, host);
                }
            }
        }
        let next = self.term.as_ref().map_or(Slot::ZERO, |term| term.next);
        for rank in self.peers() {
            if self.applied_by[rank.index()].0 < next.0 && !self.peer_works {
                host.wake(rank);
            }
        }
    }

    fn repeat_one<H: Host>(&mut self, rank: Rank, slot: Slot, host: &mut H) {
        let by_message = self.by_message.contains(rank);
        let cell = self.cell(slot);
        if by_message {
            // A message may be lost with its link only, or find no room; asking twice is harmless.
            cell.busy.remove(rank);
        }
        if cell.prepared.contains(rank) {
            if cell.phase == Phase::Accepting {
                self.post_accept(rank, slot, host);
            }
        } else {
            self.post_prepare(rank, slot, host);
        }
    }

    /// Marks a message under way to `rank` about `slot`, or its end.
    pub(super) fn set_busy(&mut self, rank: Rank, slot: Slot, busy: bool) {
        let cell = self.cell(slot);
        if busy {
            cell.busy.insert(rank);
        } else {
            cell.busy.remove(rank);
        }
    }
}
