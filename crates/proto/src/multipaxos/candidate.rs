//! A candidate: one ballot promised by a majority, for every slot that is not applied here (P3).

use super::leader::{Peer, Term};
use super::*;
use alloc::collections::BTreeMap;
use base::MAX_MEMBERS;

/// What one acceptor has answered so far.
#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    /// Which stream it is asked to begin.
    stream: u64,
    n_held: u64,
    /// What it holds nothing below, and where its stream begins.
    promise: Option<(Prefix, Prefix)>,
    moved_at: Instant,
    patience: Duration,
}

/// An attempt to lead.
#[derive(Debug)]
pub(super) struct Candidacy {
    pub(super) ballot: Ballot,
    answers: [Answer; MAX_MEMBERS],
    /// What promises came with, in the highest ballot for each slot.
    found: BTreeMap<Slot, (Ballot, Vec<u8>)>,
}

impl<P: Planting<Bug>> MultiPaxos<P> {
    /// Asks every member for a promise of a new ballot.
    pub(super) fn stand<H: Host>(&mut self, host: &mut H) {
        // What is in the way ends by itself, and has its own alarm.
        self.alarms.retry = None;
        if self.is_learner || self.blocks(self.me) {
            return;
        }
        let ballot = Ballot::above(self.highest.max(self.acceptor.promised()), self.me);
        self.highest = ballot;
        self.following = None;
        // P1: stored before it leaves, so no later life uses it once more.
        self.acceptor.promise(ballot, self.planted, host);
        let mut candidacy =
            Box::new(Candidacy { ballot, answers: Default::default(), found: BTreeMap::new() });
        for number in self.applied.0..self.acceptor.end().0 {
            if let Some(accepted) = self.acceptor.accepted(Slot(number))
                && let Some(value) = self.acceptor.value(Slot(number), host)
            {
                candidacy.found.insert(Slot(number), (accepted, value.to_vec()));
            }
        }
        self.office = Office::Candidate(candidacy);
        self.peers().for_each(|rank| self.ask_promise(rank, host));
        self.try_begin_term(host);
    }

    fn ask_promise<H: Host>(&mut self, rank: Rank, host: &mut H) {
        let Office::Candidate(candidacy) = &mut self.office else { return };
        let answer = &mut candidacy.answers[rank.index()];
        let patience = (answer.patience * 2).clamp(PATIENCE, PATIENCE_MAX);
        let stream = answer.stream + 1;
        *answer = Answer { stream, moved_at: self.now, patience, ..Answer::default() };
        let ballot = candidacy.ballot;
        self.post(rank, &Message::Prepare { ballot, stream, from: self.applied }, host);
        self.nudge(PATIENCE);
    }

    /// Asks those once more that have said nothing for a while.
    pub(super) fn repeat_prepares<H: Host>(&mut self, host: &mut H) {
        for rank in self.peers() {
            let Office::Candidate(candidacy) = &self.office else { return };
            let answer = &candidacy.answers[rank.index()];
            if answer.promise.is_some() {
                continue;
            }
            if self.now.since(answer.moved_at) >= answer.patience {
                self.ask_promise(rank, host);
            }
            self.nudge(PATIENCE);
        }
        self.try_begin_term(host);
    }

    pub(super) fn on_held(
        &mut self,
        from: Rank,
        (ballot, stream): (Ballot, u64),
        index: u64,
        (slot, accepted, value): (Slot, Ballot, &[u8]),
    ) {
        let Office::Candidate(candidacy) = &mut self.office else { return };
        let answer = &mut candidacy.answers[from.index()];
        if candidacy.ballot != ballot || answer.stream != stream {
            return;
        }
        // P3: one that is missing never comes: this stream's promise does not count.
        if answer.n_held == index || self.planted.has(Bug::CountPartialPromise) {
            answer.n_held = index + 1;
        }
        answer.moved_at = self.now;
        let is_newer = |before: &(Ballot, Vec<u8>)| match self.planted.has(Bug::AdoptLowest) {
            false => accepted > before.0,
            true => accepted < before.0,
        };
        if candidacy.found.get(&slot).is_none_or(is_newer) {
            candidacy.found.insert(slot, (accepted, value.to_vec()));
        }
    }

    pub(super) fn on_promise<H: Host>(
        &mut self,
        from: Rank,
        (ballot, stream): (Ballot, u64),
        n_held: u64,
        (floor, position): (Prefix, Prefix),
        host: &mut H,
    ) {
        if matches!(self.office, Office::Leader(_)) {
            return self.on_stream_begun(from, (ballot, stream), position, host);
        }
        let Office::Candidate(candidacy) = &mut self.office else { return };
        let answer = &mut candidacy.answers[from.index()];
        let is_whole = answer.n_held == n_held || self.planted.has(Bug::CountPartialPromise);
        if candidacy.ballot != ballot || answer.stream != stream || !is_whole {
            return;
        }
        answer.promise = Some((floor, position));
        self.try_begin_term(host);
    }

    /// Begins a term if a majority has promised, and none of it lacks what it had accepted.
    fn try_begin_term<H: Host>(&mut self, host: &mut H) {
        let Office::Candidate(candidacy) = &self.office else { return };
        // The own acceptor holds everything from the applied prefix on.
        let floors = self.peers().filter_map(|rank| candidacy.answers[rank.index()].promise);
        let mut floors: Vec<Prefix> = floors.map(|(floor, _)| floor).collect();
        floors.sort_unstable();
        let n_needed = match self.planted.has(Bug::PromiseOfOne) {
            false => self.quorum() - 1,
            true => 0,
        };
        let highest = match n_needed.checked_sub(1).map(|last| floors.get(last)) {
            None => Prefix::ZERO,
            Some(Some(floor)) => *floor,
            Some(None) => return,
        };
        // P3: below its floor an acceptor's promise says nothing.
        if highest > self.applied && !self.planted.has(Bug::IgnoreFloor) {
            return self.request_state(highest, host);
        }
        self.begin_term(host);
    }

    fn begin_term<H: Host>(&mut self, host: &mut H) {
        let office = core::mem::replace(&mut self.office, Office::None);
        let Office::Candidate(candidacy) = office else { return };
        let Candidacy { ballot, answers, mut found } = *candidacy;
        let (from, now) = (self.applied, self.now);
        let peers = answers.map(|answer| Peer::of(answer.stream, answer.promise, now));
        self.office = Office::Leader(Box::new(Term::new(ballot, from, peers)));
        // P4: what lies beyond the own ring no majority's witness holds, so it is not decided.
        found.retain(|slot, _| !from.contains(*slot) && self.acceptor.has_room(*slot));
        if self.planted.has(Bug::IgnoreFoundValue) {
            found.clear();
        }
        let top = found.last_key_value().map_or(from, |(slot, _)| slot.prefix_through());
        for number in from.0..top.0 {
            let value = found.remove(&Slot(number)).map_or(Vec::new(), |(_, value)| value);
            self.accept_own(&value, host);
        }
        if let Office::Leader(term) = &mut self.office {
            term.recovered = top;
        }
        self.feed_all(host);
        self.advance(host);
        // Those that have not promised yet are asked on.
        self.nudge(PATIENCE);
    }
}
