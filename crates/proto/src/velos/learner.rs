//! The learner finds the decided slots and their values (section 5.4, and what the paper left out).
//!
//! News comes as facts, (ballot n, decided prefix d): in a leader's two words, or in the label of
//! any value (piggybacked). A slot below d whose own word was accepted *under n* holds the decided
//! value: n proposed it, and every ballot from the deciding one on proposes the decided value. A
//! bare prefix would not suffice: the own word may hold a dead leader's losing value. Where the own
//! word does not tell, a majority's words do: one of them has the deciding accept, and the highest
//! accepted ballot among them has the decided value.

use super::slot::{SOURCE_PATIENCE, is_recycled};
use super::*;

/// The number of slots that are fetched at once.
pub(super) const FETCHES_MAX: usize = 8;
/// The number of times that a slot's value may come back torn or replaced before a state is
/// requested.
const TRIES_MAX: u32 = 8;
/// The interval at which a state is requested again.
const STATE_EVERY: Duration = Duration::from_millis(100);
/// The words of an entry: the slot word and its sealed state.
pub(super) const ENTRY_READ: usize = 3;

/// A decided slot whose value is being found.
#[derive(Clone, Debug, Hash)]
pub(super) struct Fetch {
    slot: Slot,
    number: u32,
    tries: u32,
    asked: MemberSet,
    answered: MemberSet,
    witnesses: MemberSet,
    words: [SlotWord; MAX_MEMBERS],
    stage: Stage,
    /// The time since when it is in this stage.
    since: Instant,
}

#[derive(Clone, Debug, Hash)]
enum Stage {
    Words,
    Value { accepted: Ballot },
    Whole(Vec<u64>),
    Retry,
}

/// What this member lacks of the decided values, and the ways in which it gets that.
#[derive(Clone, Debug, Hash)]
pub(super) struct Learner {
    /// Whether this member has no state, not even the empty one: its process died and lost it.
    stateless: bool,
    /// The prefix that an earlier life of this member claimed to have applied.
    claimed: Prefix,
    /// What a majority had applied, and this member not, when it stood for election (I8).
    behind: Prefix,
    /// The next own slot word to examine for a piggybacked decision.
    scanned: Slot,
    /// Slots in rising order, of which the first is not below the applied prefix.
    fetches: VecDeque<Fetch>,
    n_fetches: u32,
    state_asked_at: Option<Instant>,
    /// The time since when no majority can be read although one should be.
    short_since: Option<Instant>,
    /// A buffer for values copied out of the own region.
    scratch: Vec<u64>,
}

impl Learner {
    pub(super) fn new(stateless: bool, claimed: Prefix) -> Learner {
        Learner {
            stateless,
            claimed,
            behind: Prefix::ZERO,
            scanned: Slot::ZERO,
            fetches: VecDeque::with_capacity(FETCHES_MAX),
            n_fetches: 0,
            state_asked_at: None,
            short_since: None,
            scratch: Vec::new(),
        }
    }

    /// Whether a member that has applied so much lacks state that it should hold.
    pub(super) fn lacks(&self, applied: Prefix) -> bool {
        self.stateless || applied < self.claimed
    }

    /// Notes that a majority has applied this much.
    pub(super) fn note_behind(&mut self, prefix: Prefix) {
        self.behind = self.behind.max(prefix);
    }

    /// Whether a member that has applied so much could not be elected: another one can (I8).
    pub(super) fn lags(&self, applied: Prefix) -> bool {
        applied < self.behind
    }

    /// Continues from a state that covers `applied`, of a member that knows the members if
    /// `is_known`. (If it brings nothing, and more is lacking, another one is not requested at
    /// once.)
    pub(super) fn install(&mut self, applied: Prefix, is_known: bool) {
        self.stateless = !is_known;
        let is_news = applied.next_slot() > self.scanned;
        self.scanned = self.scanned.max(applied.next_slot());
        self.fetches.clear();
        self.short_since = None;
        if is_news || !self.lacks(applied) {
            self.state_asked_at = None;
        }
    }

    /// The words of the value of `slot`, if they were fetched whole; earlier ones are dropped.
    fn take_whole(&mut self, slot: Slot) -> Option<Vec<u64>> {
        while self.fetches.front().is_some_and(|fetch| fetch.slot < slot) {
            self.fetches.pop_front();
        }
        match self.fetches.pop_front()? {
            Fetch { slot: fetched, stage: Stage::Whole(words), .. } if fetched == slot => {
                Some(words)
            }
            other => {
                self.fetches.push_front(other);
                None
            }
        }
    }

    fn fetch_of(&mut self, slot: Slot, number: u32) -> Option<&mut Fetch> {
        self.fetches.iter_mut().find(|fetch| fetch.slot == slot && fetch.number == number)
    }

    /// Repeats the fetches, since another member can be asked. (No fetch is repeated for taking
    /// long: its verbs complete, T4, and repeating them would only make a slow link slower.)
    pub(super) fn restart(&mut self) {
        for fetch in &mut self.fetches {
            if matches!(fetch.stage, Stage::Words) {
                fetch.stage = Stage::Retry;
            }
        }
    }
}

impl<P: Planting<Bug>, W: Widths> Machine<P, W> {
    /// Applies every value that is known to be decided, and fetches those that are not in the own
    /// memory.
    pub(super) fn learn<H: Host>(&mut self, host: &mut H) {
        self.scan_piggybacked(host);
        if self.learner.stateless {
            return self.ask_for_state(host);
        }
        let next = self.applied.next_slot();
        if self.eras.is_outdated(next, self.links.met()) {
            self.repeat_state_request();
            return self.request_state(next.prefix_through(), host);
        }
        let before = self.applied;
        loop {
            let slot = self.applied.next_slot();
            if !self.decided_known().contains(slot) {
                break;
            }
            if !self.apply_from_own_memory(slot, host) && !self.apply_fetched(slot, host) {
                self.go_for(slot, host);
                break;
            }
        }
        if self.applied > before {
            self.learner.state_asked_at = None;
        }
        self.repeat_state_request();
    }

    /// Reads what is decided and not in the own memory. If no majority can be read for a while, a
    /// state is requested from any member within reach: the missing ones may have been removed, and
    /// never return.
    fn go_for<H: Host>(&mut self, slot: Slot, host: &mut H) {
        if self.eras.has_quorum(slot, self.links.met()) {
            self.learner.short_since = None;
            return self.fetch_missing(host);
        }
        let due = self.learner.short_since.get_or_insert(self.clock.now).plus(STATE_EVERY);
        if self.clock.now >= due {
            self.request_state(slot.prefix_through(), host);
        } else {
            self.clock.nudge(due);
        }
    }

    /// Reads the words again at intervals while a state is awaited, and requests a state if they
    /// still do not tell: the member that was asked may be gone, or have had nothing newer.
    fn repeat_state_request(&mut self) {
        if let Some(at) = self.learner.state_asked_at {
            if self.clock.now.since(at) >= STATE_EVERY {
                self.learner.state_asked_at = None;
                self.learner.restart();
            }
            self.clock.nudge(self.clock.now.plus(STATE_EVERY));
        }
    }

    /// Reads the labels of values that have arrived since the last look.
    fn scan_piggybacked<H: Host>(&mut self, host: &H) {
        self.learner.scanned = self.learner.scanned.max(self.applied.next_slot());
        let end = self.applied.next_slot().plus(u64::from(self.places.ring_slots()));
        while self.learner.scanned < end {
            let slot = self.learner.scanned;
            let word = self.own_word(slot, host);
            if word.generation != W::PACKING.generation_of(slot, self.places.ring_slots()) {
                return;
            }
            let Some((proposer, area)) = word.tag.place() else { return };
            let mut header = [0; value::HEADER_WORDS];
            host.load_into(self.places.area(slot, proposer, area), &mut header);
            let Some(label) = value::label(&header).filter(|label| label.slot == slot) else {
                return;
            };
            let Some(leader) = label.ballot.proposer() else { return };
            self.counters.facts_piggybacked += 1;
            if leader != self.me {
                self.note_fact(leader, Fact { ballot: label.ballot, decided: label.decided });
            }
            self.learner.scanned = slot.next();
        }
    }

    /// Delivers the decided value of `slot` if the own acceptor holds it. True if so.
    fn apply_from_own_memory<H: Host>(&mut self, slot: Slot, host: &mut H) -> bool {
        let word = self.own_word(slot, host);
        if word.generation != W::PACKING.generation_of(slot, self.places.ring_slots()) {
            return false;
        }
        let Some((proposer, area)) = word.tag.place() else { return false };
        let bare = self.planted.has(Bug::ApplyBareIndex);
        if !self.news.vouch(slot, word.accepted_proposal, bare) {
            return false;
        }
        let at = self.places.area(slot, proposer, area);
        let mut words = core::mem::take(&mut self.learner.scratch);
        let whole = value::load(host, at, self.places.area_words, &mut words)
            .is_some_and(|label| label.slot == slot && label.ballot >= word.accepted_proposal);
        // The leader may have recycled the slot for a majority that does not include this node.
        let unchanged = self.own_word(slot, host).generation == word.generation;
        if whole && unchanged {
            self.deliver(slot, &words, host);
            self.counters.applied_from_own_memory += 1;
        } else {
            self.counters.torn_values_rejected += 1;
        }
        self.learner.scratch = words;
        whole && unchanged
    }

    fn apply_fetched<H: Host>(&mut self, slot: Slot, host: &mut H) -> bool {
        let Some(words) = self.learner.take_whole(slot) else { return false };
        self.deliver(slot, &words, host);
        self.counters.applied_from_fetch += 1;
        true
    }

    /// Asks all members for the words of the next decided slots that are not being fetched yet.
    fn fetch_missing<H: Host>(&mut self, host: &mut H) {
        if self.learner.state_asked_at.is_some() {
            return;
        }
        for at in 0..self.learner.fetches.len() {
            let Fetch { slot, stage, since, answered, witnesses, .. } = &self.learner.fetches[at];
            let (slot, due) = (*slot, since.plus(SOURCE_PATIENCE));
            let is_late = self.clock.now >= due;
            match stage {
                Stage::Value { .. } if !is_late => self.clock.nudge(due),
                // The member that was asked is paused, and will not be a witness the next time.
                Stage::Value { .. } => self.learner.fetches[at].stage = Stage::Retry,
                // A member that could still testify is silent, and one that has answered has gone
                // on: it has a state.
                Stage::Words if answered != witnesses && is_late => {
                    return self.request_state(slot.prefix_through(), host);
                }
                Stage::Words if answered != witnesses => self.clock.nudge(due),
                Stage::Words | Stage::Whole(_) | Stage::Retry => {}
            }
            if matches!(self.learner.fetches[at].stage, Stage::Retry) {
                let (slot, tries) = (self.learner.fetches[at].slot, self.learner.fetches[at].tries);
                if tries >= TRIES_MAX {
                    return self.request_state(slot.prefix_through(), host);
                }
                self.learner.fetches[at] = self.fetch(slot, tries + 1, host);
            }
        }
        let next = self.applied.next_slot();
        let known = self.learner.fetches.back().map_or(next, |fetch| fetch.slot.next());
        let decided = self.decided_known();
        let mut slot = known.max(next);
        while self.learner.fetches.len() < FETCHES_MAX && decided.contains(slot) {
            let fetch = self.fetch(slot, 0, host);
            self.learner.fetches.push_back(fetch);
            slot = slot.next();
        }
    }

    fn fetch<H: Host>(&mut self, slot: Slot, tries: u32, host: &mut H) -> Fetch {
        self.learner.n_fetches = self.learner.n_fetches.wrapping_add(1);
        let number = self.learner.n_fetches;
        let token = tokens::make(tokens::FETCH_WORDS, number, slot.0);
        let horizons = tokens::make(tokens::FETCH_HORIZONS, number, slot.0);
        let asked = self.links.met().intersection(self.eras.counted(slot));
        for rank in asked.iter() {
            host.read(rank, self.places.slot(slot), ENTRY_READ, token);
            // T2: the horizons are read after the word, so that a later use of the place shows.
            host.read(rank, self.places.horizons(), MAX_MEMBERS, horizons);
        }
        Fetch {
            slot,
            number: number & 0xffff,
            tries,
            asked,
            answered: MemberSet::EMPTY,
            witnesses: MemberSet::EMPTY,
            words: [SlotWord::default(); MAX_MEMBERS],
            stage: Stage::Words,
            since: self.clock.now,
        }
    }

    pub(super) fn on_fetched_words(
        &mut self,
        from: Rank,
        slot: Slot,
        number: u32,
        outcome: Outcome<'_>,
    ) {
        let Some(fetch) = self.learner.fetch_of(slot, number) else { return };
        if let Outcome::Read(words) = outcome {
            // The word counts once the horizons have come too.
            fetch.words[from.index()] = rpc::entry_word(W::PACKING, words);
        }
    }

    pub(super) fn on_fetched_horizons<H: Host>(
        &mut self,
        from: Rank,
        slot: Slot,
        number: u32,
        outcome: Outcome<'_>,
        host: &mut H,
    ) {
        let now = self.clock.now;
        let ring = self.places.ring_slots();
        let generation = W::PACKING.generation_of(slot, ring);
        let Some(fetch) = self.learner.fetch_of(slot, number) else { return };
        match outcome {
            Outcome::Read(horizons) => {
                fetch.answered.insert(from);
                // A member that may have recycled the slot cannot testify (I8).
                if !is_recycled(slot, u64::from(ring), horizons)
                    || self.planted.has(Bug::FetchAcrossGenerations)
                {
                    fetch.witnesses.insert(from);
                }
            }
            _ => {
                fetch.asked.remove(from);
            }
        }
        if !matches!(fetch.stage, Stage::Words) {
            return;
        }
        let witnesses = fetch.witnesses;
        if !self.eras.has_quorum(slot, witnesses) {
            // A silent member may stay silent: the test is that no majority can come together.
            let recycled = fetch.answered.difference(witnesses);
            let possible = fetch.asked.difference(recycled);
            if !recycled.is_empty() && !self.eras.has_quorum(slot, possible) {
                // If no state results, since others can be applied first, the words are read again.
                fetch.stage = Stage::Retry;
                self.request_state(slot.prefix_through(), host);
            }
            return;
        }
        let of_slot =
            witnesses.iter().filter(|rank| fetch.words[rank.index()].generation == generation);
        let best = match self.planted.has(Bug::FetchFirstAccepted) {
            false => of_slot.max_by_key(|rank| fetch.words[rank.index()].accepted_proposal),
            true => {
                let mut of_slot = of_slot;
                of_slot.find(|rank| fetch.words[rank.index()].has_value())
            }
        };
        let best = best.map(|rank| (rank, fetch.words[rank.index()]));
        let place = best.and_then(|(rank, word)| Some((rank, word, word.tag.place()?)));
        let Some((rank, word, (proposer, area))) = place else {
            // The slot is decided, so a majority accepted it: these words are older than the news.
            fetch.stage = Stage::Retry;
            return;
        };
        (fetch.stage, fetch.since) = (Stage::Value { accepted: word.accepted_proposal }, now);
        let token = tokens::make(tokens::FETCH_VALUE, number, slot.0);
        let (area_at, n_words) = (self.places.area(slot, proposer, area), self.places.area_words);
        host.read(rank, area_at, n_words as usize, token);
    }

    pub(super) fn on_fetched_value(
        &mut self,
        from: Rank,
        slot: Slot,
        number: u32,
        outcome: Outcome<'_>,
    ) {
        let Some(fetch) = self.learner.fetch_of(slot, number) else { return };
        let Stage::Value { accepted } = fetch.stage else { return };
        let whole = match outcome {
            Outcome::Read(words) => value::decode(words)
                .filter(|(label, _)| label.slot == slot && label.ballot >= accepted)
                .map(|(_, payload)| {
                    words[..value::HEADER_WORDS + payload.len().div_ceil(8)].to_vec()
                }),
            _ => None,
        };
        match whole {
            Some(words) => {
                fetch.stage = Stage::Whole(words);
                self.counters.values_fetched_remotely += u64::from(from != self.me);
            }
            None => {
                fetch.stage = Stage::Retry;
                self.counters.torn_values_rejected += 1;
            }
        }
    }

    fn ask_for_state<H: Host>(&mut self, host: &mut H) {
        self.repeat_state_request();
        let known = self.decided_known().max(self.learner.claimed);
        self.request_state(known, host);
    }

    /// Requests a live member's state, since the ring no longer holds these slots.
    pub(super) fn request_state<H: Host>(&mut self, at_least: Prefix, host: &mut H) {
        if self.learner.state_asked_at.is_none() {
            self.learner.state_asked_at = Some(self.clock.now);
            self.clock.nudge(self.clock.now.plus(STATE_EVERY));
            self.counters.states_requested += 1;
            host.notify(Note::NeedState(at_least));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(slot: u64, stage: Stage) -> Fetch {
        Fetch {
            slot: Slot(slot),
            number: slot as u32,
            tries: 0,
            asked: MemberSet::EMPTY,
            answered: MemberSet::EMPTY,
            witnesses: MemberSet::EMPTY,
            words: [SlotWord::default(); MAX_MEMBERS],
            stage,
            since: Instant::ZERO,
        }
    }

    #[test]
    fn a_fetched_value_is_taken_in_its_turn_and_when_whole() {
        let mut learner = Learner::new(false, Prefix::ZERO);
        let whole = |word| Stage::Whole([word].into());
        learner.fetches.extend([fetch(1, whole(1)), fetch(2, whole(2)), fetch(3, Stage::Words)]);
        assert_eq!(learner.take_whole(Slot(2)), Some([2].into()), "1 is applied already");
        assert_eq!(learner.take_whole(Slot(3)), None);
        assert!(learner.fetch_of(Slot(3), 3).is_some() && learner.fetch_of(Slot(3), 4).is_none());
        learner.restart();
        assert!(matches!(learner.fetches[0].stage, Stage::Retry));
    }

    #[test]
    fn a_member_lacks_what_its_earlier_life_claimed_until_a_state_covers_it() {
        let mut learner = Learner::new(true, Prefix(5));
        assert!(learner.lacks(Prefix(5)), "it has no state");
        learner.fetches.push_back(fetch(1, Stage::Words));
        learner.install(Prefix(4), true);
        assert!(learner.lacks(Prefix(4)) && !learner.lacks(Prefix(5)));
        assert!(learner.fetches.is_empty() && learner.scanned == Slot(4));
    }
}
