//! Followers find the decided entries, in the own log or in a majority's.
//!
//! - I1 An entry whose label is whole and whose payload is not, at a READ that was over before a
//!   majority's labels are read, is ignored among them: its writer was interrupted. Such a log
//!   either never held that entry, and does not count for it, or is overwriting it, and then holds
//!   the newest entry in its other half (M5). By construction: `Fetch::void`. If both halves were
//!   found torn, one after the other, the first may be whole by now: such a log is no witness.
//!   What was found torn is known until the slot is delivered. Tested (`FORGET_TORN`).

use super::leader::{FETCH_LABEL, FETCH_VALUE, token};
use super::*;
use crate::value::Label;

/// A decided entry that the own log does not hold.
#[derive(Debug)]
pub(super) struct Fetch {
    slot: Slot,
    number: u64,
    began_at: Instant,
    /// The time at which the first round for this slot began.
    since: Instant,
    /// Whether a log has answered that has recycled the slot: its member has a state.
    is_recycled: bool,
    asked: MemberSet,
    /// The logs whose entries have been read, by half.
    read: [MemberSet; 2],
    /// The slot and ballot of each log's entries, by half.
    labels: [[(Slot, Ballot); 2]; MAX_MEMBERS],
    wanted: Option<Entry>,
    /// The entries that were found torn for this slot (I1).
    void: Vec<Entry>,
    /// Whether this round brings nothing more: the next one begins at once.
    is_over: bool,
    whole: Option<Vec<u64>>,
}

/// The place and the ballot of a log's entry for the slot that is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    of: Rank,
    half: Half,
    ballot: Ballot,
}

/// What this member lacks of the decided entries, and the ways in which it gets that.
#[derive(Debug)]
pub(super) struct Learner {
    /// Whether this member lacks state that it should hold.
    lacks_state: bool,
    /// The prefix that an earlier life claimed to have applied.
    claimed: Prefix,
    fetch: Option<Fetch>,
    n_fetches: u64,
    state_asked_at: Option<Instant>,
    /// A buffer for entries copied out of the own log.
    pub(super) scratch: Vec<u64>,
}

impl Learner {
    pub(super) const fn new(lacks_state: bool, claimed: Prefix) -> Learner {
        Learner {
            lacks_state,
            claimed,
            fetch: None,
            n_fetches: 0,
            state_asked_at: None,
            scratch: Vec::new(),
        }
    }

    pub(super) const fn lacks_state(&self) -> bool {
        self.lacks_state
    }

    /// Notes that an entry was delivered, or a newer state has come: the one that was requested is
    /// not needed.
    pub(super) const fn advance(&mut self) {
        self.state_asked_at = None;
    }

    /// Continues from a state that covers `applied`. (If it brings nothing, another one is not
    /// requested at once.)
    pub(super) fn install(&mut self, applied: Prefix) {
        self.lacks_state = applied < self.claimed;
        self.fetch = None;
    }

    /// Whether to request a state now: at intervals.
    pub(super) fn asks_for_state(&mut self, now: Instant) -> bool {
        let is_due = self.state_asked_at.is_none_or(|at| now.since(at) >= STATE_EVERY);
        if is_due {
            self.state_asked_at = Some(now);
        }
        is_due
    }

    /// Ends a round of a fetch that takes long. What was found torn stays in `void` until the slot
    /// is delivered.
    pub(super) fn give_up_late(&mut self, now: Instant) {
        if let Some(fetch) = &mut self.fetch
            && now.since(fetch.began_at) >= REPEAT_AFTER
        {
            fetch.is_over = true;
        }
    }

    /// The words of the value of `slot`, if they were fetched whole; a fetch of another slot ends.
    fn take_whole(&mut self, slot: Slot) -> Option<Vec<u64>> {
        match self.fetch.take_if(|fetch| fetch.slot != slot || fetch.whole.is_some())? {
            Fetch { slot: fetched, whole, .. } if fetched == slot => whole,
            _ => None,
        }
    }
}

impl<P: Planting<Bug>> Mu<P> {
    pub(super) fn learn<H: Host>(&mut self, host: &mut H) {
        if self.is_learner() {
            return self.request_state(self.decided_known().max(self.learner.claimed), host);
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

    /// Reads the label of the entry after next, which shows whether the next is decided
    /// (piggybacked).
    fn look_ahead<H: Host>(&mut self, slot: Slot, host: &H) {
        let entries = [slot, slot.next()].map(|slot| Half::BOTH.map(|half| (slot, half)));
        for (slot, half) in entries.into_iter().flatten() {
            if let Some(Label { slot: found, ballot, decided, .. }) =
                self.label_at(slot, half, host)
                && found >= slot
                && let Some(leader) = ballot.proposer()
                && leader != self.me
            {
                self.note_fact(leader, ballot, decided);
            }
        }
    }

    fn apply_own<H: Host>(&mut self, slot: Slot, host: &mut H) -> bool {
        let mut words = core::mem::take(&mut self.learner.scratch);
        let vouched = |label: Label| {
            label.slot == slot
                && self.facts.iter().any(|fact| {
                    let proposed =
                        fact.ballot == label.ballot || self.planted.has(Bug::ApplyBareIndex);
                    fact.decided.contains(slot) && proposed
                })
        };
        let n_words = self.places.area_words;
        let good = Half::BOTH.into_iter().any(|half| {
            let at = self.places.entry(slot, half);
            value::load(host, at, n_words, &mut words).is_some_and(vouched)
        });
        if good {
            self.deliver(slot, &words, host);
        }
        self.learner.scratch = words;
        good
    }

    fn apply_fetched<H: Host>(&mut self, slot: Slot, host: &mut H) -> bool {
        let Some(words) = self.learner.take_whole(slot) else { return false };
        self.deliver(slot, &words, host);
        true
    }

    fn fetch_missing<H: Host>(&mut self, slot: Slot, host: &mut H) {
        self.clock.nudge(self.clock.now.plus(REPEAT_AFTER));
        // (The member that was asked for a state may have had nothing newer.)
        let is_awaited = |at: Instant| self.clock.now.since(at) < STATE_EVERY;
        let is_under_way = self.learner.fetch.as_ref().is_some_and(|fetch| !fetch.is_over);
        if is_under_way || self.learner.state_asked_at.is_some_and(is_awaited) {
            return;
        }
        let before = self.learner.fetch.take();
        let since = before.as_ref().map_or(self.clock.now, |before| before.since);
        let is_late = self.clock.now.since(since) >= STATE_EVERY;
        if is_late && before.as_ref().is_some_and(|before| before.is_recycled) {
            // A member whose log could still testify is silent.
            return self.request_state(slot.prefix_through(), host);
        }
        let before = before.filter(|_| !self.planted.has(Bug::ForgetTorn));
        let void = before.map_or(Vec::new(), |before| before.void);
        self.learner.n_fetches += 1;
        let number = self.learner.n_fetches;
        for rank in self.links.iter() {
            for half in Half::BOTH {
                let token = token(FETCH_LABEL, 0, number << 1 | u64::from(half.0));
                host.read(rank, self.places.entry(slot, half), value::HEADER_WORDS, token);
            }
        }
        self.learner.fetch = Some(Fetch {
            slot,
            number,
            began_at: self.clock.now,
            since,
            is_recycled: false,
            asked: self.links,
            read: [MemberSet::EMPTY; 2],
            labels: [[(Slot::ZERO, Ballot::NONE); 2]; MAX_MEMBERS],
            wanted: None,
            void,
            is_over: false,
            whole: None,
        });
    }

    pub(super) fn on_fetched_label<H: Host>(
        &mut self,
        from: Rank,
        low: u64,
        outcome: Outcome<'_>,
        host: &mut H,
    ) {
        let (quorum, number, half) = (self.quorum(), low >> 1, low as usize & 1);
        let any = self.planted.has(Bug::FetchFromRecycled);
        let Some(fetch) = self.learner.fetch.as_mut().filter(|fetch| fetch.number == number) else {
            return;
        };
        let slot = fetch.slot;
        match outcome {
            Outcome::Read(words) => {
                fetch.read[half].insert(from);
                // T3: an entry that is being overwritten hides the one before. Such a log is no
                // witness, unlike one that was never written: the hidden entry may have been
                // recycled.
                let unwritten = words.iter().all(|word| *word == 0);
                let none = if unwritten { Slot::ZERO } else { Slot(u64::MAX) };
                fetch.labels[from.index()][half] = value::label(words)
                    .map_or((none, Ballot::NONE), |label| (label.slot, label.ballot));
            }
            _ => {
                fetch.asked.remove(from);
            }
        }
        if fetch.wanted.is_some() {
            return;
        }
        let answered = fetch.read[0].intersection(fetch.read[1]);
        let labels = |rank: Rank| fetch.labels[rank.index()];
        let entries = |of: Rank| {
            Half::BOTH.map(|half| {
                let (found, ballot) = labels(of)[usize::from(half.0)];
                (found, Entry { of, half, ballot })
            })
        };
        let is_void = |(found, entry): &(Slot, Entry)| *found == slot && fetch.void.contains(entry);
        // A log that has recycled the slot, or is just being written, cannot testify; nor can one
        // that was found torn in both halves (I1).
        let is_witness = |of: &Rank| {
            labels(*of).iter().all(|label| label.0 <= slot || any)
                && !entries(*of).iter().all(is_void)
        };
        let witnesses: MemberSet = answered.iter().filter(is_witness).collect();
        if witnesses.len() < quorum {
            // A silent member may stay silent: the test is that no majority can come together.
            let recycled = answered.difference(witnesses);
            fetch.is_recycled |= !recycled.is_empty();
            if !recycled.is_empty() && fetch.asked.difference(recycled).len() < quorum {
                self.learner.fetch = None;
                self.request_state(slot.prefix_through(), host);
            }
            return;
        }
        let whole = witnesses.iter().flat_map(entries).filter(|entry| !is_void(entry));
        let of_slot = whole.filter(|(found, _)| *found == slot).map(|(_, entry)| entry);
        // Without any entry, the words are older than the news: `repeat_lost` asks again.
        if let Some(best) = of_slot.max_by_key(|entry| entry.ballot) {
            (fetch.wanted, fetch.began_at) = (Some(best), self.clock.now);
            let token = token(FETCH_VALUE, 0, number);
            let n_words = self.places.area_words as usize;
            host.read(best.of, self.places.entry(slot, best.half), n_words, token);
        }
    }

    pub(super) fn on_fetched_value(&mut self, number: u64, outcome: Outcome<'_>) {
        let Some(fetch) = self.learner.fetch.as_mut().filter(|fetch| fetch.number == number) else {
            return;
        };
        let Outcome::Read(words) = outcome else { return fetch.is_over = true };
        let Some(wanted) = fetch.wanted else { return };
        let is_wanted = |label: &Label| label.slot == fetch.slot && label.ballot >= wanted.ballot;
        match value::decode(words).filter(|(label, _)| is_wanted(label)) {
            Some((_, payload)) => {
                let n_words = value::HEADER_WORDS + payload.len().div_ceil(8);
                fetch.whole = Some(words[..n_words].to_vec());
            }
            None => {
                let found = value::label(words).map(|label| (label.slot, label.ballot));
                if found == Some((fetch.slot, wanted.ballot)) {
                    fetch.void.push(wanted); // I1
                }
                fetch.is_over = true;
            }
        }
    }
}
