//! Followers: what is decided, from the own log or a majority's.

use super::leader::{FETCH_LABEL, FETCH_VALUE, token};
use super::*;
use crate::value::Label;

/// A decided entry that the own log does not hold.
#[derive(Debug)]
pub(super) struct Fetch {
    slot: Slot,
    number: u32,
    pub(super) began_at: Instant,
    asked: MemberSet,
    answered: MemberSet,
    /// Slot and ballot of each log's entry.
    labels: [(Slot, Ballot); MAX_MEMBERS],
    wanted: Option<Ballot>,
    whole: Option<Vec<u64>>,
}

impl<V: Variant> Mu<V> {
    pub(super) fn learn<H: Host>(&mut self, host: &mut H) {
        if self.learner {
            return self.request_state(self.decided_known().max(self.claimed), host);
        }
        loop {
            let slot = self.applied.next_slot();
            self.look_ahead(slot, host);
            if !self.decided_known().contains(slot) {
                return;
            }
            if !self.apply_own(slot, host) && !self.apply_fetched(slot, host) {
                return self.fetch_missing(slot, host);
            }
        }
    }

    /// The label of the entry after next says whether the next is decided (piggybacked).
    fn look_ahead<H: Host>(&mut self, slot: Slot, host: &H) {
        for slot in [slot, slot.next()] {
            let mut words = [0; value::HEADER_WORDS];
            host.load_into(self.places.entry(slot), &mut words);
            if let Some(Label { slot: found, ballot, decided }) = value::label(&words)
                && found >= slot
                && let Some(leader) = ballot.proposer()
                && leader != self.me
            {
                self.note_fact(leader, ballot, decided);
            }
        }
    }

    fn apply_own<H: Host>(&mut self, slot: Slot, host: &mut H) -> bool {
        let mut words = core::mem::take(&mut self.scratch);
        words.clear();
        words.resize(value::HEADER_WORDS, 0);
        host.load_into(self.places.entry(slot), &mut words);
        if let Some(n_words) = value::labelled_words(&words, self.places.area_words as usize) {
            words.resize(n_words, 0);
            host.load_into(self.places.entry(slot), &mut words);
        }
        let vouched = |label: Label| {
            label.slot == slot
                && self.facts.iter().any(|fact| {
                    let proposed = fact.ballot == label.ballot || V::APPLY_BARE_INDEX;
                    fact.decided.contains(slot) && proposed
                })
        };
        let good = value::decode(&words).is_some_and(|(label, _)| vouched(label));
        if good {
            self.deliver(slot, &words, host);
        }
        self.scratch = words;
        good
    }

    fn apply_fetched<H: Host>(&mut self, slot: Slot, host: &mut H) -> bool {
        match self.fetch.take() {
            Some(Fetch { slot: fetched, whole: Some(words), .. }) if fetched == slot => {
                self.deliver(slot, &words, host);
                true
            }
            other => {
                self.fetch = other.filter(|fetch| fetch.slot == slot);
                false
            }
        }
    }

    fn fetch_missing<H: Host>(&mut self, slot: Slot, host: &mut H) {
        self.nudge(self.now.plus(REPEAT_AFTER));
        if self.fetch.is_some() || self.state_asked_at.is_some() {
            return;
        }
        self.n_fetches = self.n_fetches.wrapping_add(1);
        let number = self.n_fetches & 0xffff;
        for rank in self.links.iter() {
            let token = token(FETCH_LABEL, number, slot.0);
            host.read(rank, self.places.entry(slot), value::HEADER_WORDS, token);
        }
        self.fetch = Some(Fetch {
            slot,
            number,
            began_at: self.now,
            asked: self.links,
            answered: MemberSet::EMPTY,
            labels: [(Slot::ZERO, Ballot::NONE); MAX_MEMBERS],
            wanted: None,
            whole: None,
        });
    }

    pub(super) fn on_fetched_label<H: Host>(
        &mut self,
        from: Rank,
        number: u32,
        outcome: Outcome<'_>,
        host: &mut H,
    ) {
        let quorum = self.quorum();
        let Some(fetch) = self.fetch.as_mut().filter(|fetch| fetch.number == number) else {
            return;
        };
        let slot = fetch.slot;
        match outcome {
            Outcome::Read(words) => {
                fetch.answered.insert(from);
                // T3: an entry that is being overwritten hides what it held. Such a log is no
                // witness, unlike one that was never written.
                let unwritten = words.iter().all(|word| *word == 0);
                let none = if unwritten { Slot::ZERO } else { Slot(u64::MAX) };
                fetch.labels[from.index()] = value::label(words)
                    .map_or((none, Ballot::NONE), |label| (label.slot, label.ballot));
            }
            _ => {
                fetch.asked.remove(from);
            }
        }
        if fetch.wanted.is_some() {
            return;
        }
        let label = |rank: Rank| fetch.labels[rank.index()];
        // A log that has recycled the slot, or is just being written, cannot testify.
        let witnesses = fetch.answered.iter().filter(|rank| label(*rank).0 <= slot);
        let witnesses: MemberSet = witnesses.collect();
        if witnesses.len() < quorum {
            if fetch.answered == fetch.asked && witnesses != fetch.answered {
                self.fetch = None;
                self.request_state(slot.prefix_through(), host);
            }
            return;
        }
        let best =
            witnesses.iter().filter(|rank| label(*rank).0 == slot).max_by_key(|r| label(*r).1);
        match best {
            Some(rank) => {
                fetch.wanted = Some(label(rank).1);
                let token = token(FETCH_VALUE, number, slot.0);
                let n_words = self.places.area_words as usize;
                host.read(rank, self.places.entry(slot), n_words, token);
            }
            // The words are older than the news: the repeat asks again.
            None => self.fetch = None,
        }
    }

    pub(super) fn on_fetched_value(&mut self, number: u32, outcome: Outcome<'_>) {
        let Some(fetch) = self.fetch.as_mut().filter(|fetch| fetch.number == number) else {
            return;
        };
        let Outcome::Read(words) = outcome else { return self.fetch = None };
        let whole = value::decode(words).filter(|(label, _)| {
            label.slot == fetch.slot && fetch.wanted.is_some_and(|ballot| label.ballot >= ballot)
        });
        match whole {
            Some((_, payload)) => {
                let n_words = value::HEADER_WORDS + payload.len().div_ceil(8);
                fetch.whole = Some(words[..n_words].to_vec());
            }
            None => self.fetch = None,
        }
    }
}
