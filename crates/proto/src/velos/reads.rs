//! Linearizable reads without a slot: one READ of one word at a majority.
//!
//! Let a be the applied prefix that the answer is computed from, and slot a the next one. If the
//! answer misses an acknowledged update, slot a was decided before that acknowledgement, since
//! slots are delivered in order. So, for words that were read *after* the request arrived:
//!
//! - R1 the leader of ballot n may answer if a majority's words of slot a have min_proposal <= n,
//!   and slot a is its own to fill: prepared by a majority with nothing found, or filled by itself.
//!   A later leader would have had to raise one of these words; an earlier one's decision would
//!   have been found. (Not the next *free* slot: with slots in flight a later leader may have
//!   decided a without ever touching that one.)
//! - R2 a follower may answer if a majority's words hold no accepted value for slot a, and its
//!   horizons, read after them, show no later use of its place (I8): no leader can have decided
//!   slot a.
//!
//! Parent's I7 is R1 or R2. Checks are batched: one serves all requests that have arrived.

use super::slot::is_recycled;
use super::*;

/// The number of checks that may be under way.
pub(super) const ROUNDS_MAX: usize = 256;
/// The time that a check may wait for a decision that is under way.
const ROUND_TIMEOUT: Duration = Duration::from_millis(20);
/// The time that a majority's words may be under way: longer than any usual round trip, or no read
/// would ever succeed. (A link that breaks ends the wait earlier, T4.)
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// One check.
#[derive(Clone, Debug, Hash)]
pub(super) struct Round {
    ticket: Ticket,
    number: u64,
    began_at: Instant,
    /// The time that the check waits next before it looks again without having applied anything.
    patience: Duration,
    /// The members whose words have come or may still come, in the state `Asking`.
    asked: MemberSet,
    /// The words that have come.
    words: [Option<SlotWord>; MAX_MEMBERS],
    state: State,
}

#[derive(Clone, Debug, Hash)]
enum State {
    /// A value has to be applied first; the check is repeated then.
    Waiting { applied: Prefix, until: Instant },
    /// READs of slot `applied` are under way. `leading` under that ballot, or following.
    Asking { applied: Prefix, leading: Option<Ballot>, agreed: MemberSet },
}

/// The checks under way, and the number of the next.
#[derive(Clone, Debug, Hash)]
pub(super) struct Reads {
    rounds: VecDeque<Round>,
    n_rounds: u64,
}

impl Reads {
    pub(super) fn new() -> Reads {
        Reads { rounds: VecDeque::with_capacity(ROUNDS_MAX), n_rounds: 0 }
    }

    fn is_full(&self) -> bool {
        self.rounds.len() >= ROUNDS_MAX
    }

    /// The place of the check whose READs have this number, or (a planted bug) of any.
    fn position(&self, number: u64, any: bool) -> Option<usize> {
        self.rounds.iter().position(|round| round.number == number || any)
    }

    /// Repeats, now, the checks that had words of a seat's old memory, since another is there. True
    /// if there are checks at all.
    fn doubt(&mut self, now: Instant) -> bool {
        for round in &mut self.rounds {
            if let State::Asking { applied, .. } = round.state {
                round.state = State::Waiting { applied, until: now };
            }
        }
        !self.rounds.is_empty()
    }
}

/// The pause before another look at a slot that was about to be decided.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

impl<P: Planting<Bug>, W: Widths> Machine<P, W> {
    pub(super) fn start_read<H: Host>(&mut self, ticket: Ticket, host: &mut H) {
        if self.is_learner() || self.reads.is_full() {
            self.counters.reads_refused += 1;
            return host.notify(Note::ReadRefused(ticket));
        }
        if self.planted.has(Bug::ReadWithoutCheck) {
            return host.notify(Note::ReadReady(ticket));
        }
        if self.term.is_none() {
            // To apply what has been published is cheaper now than after a failed check.
            self.read_facts(host);
            self.learn(host);
        }
        let state = self.ask(LOOK_AGAIN, host);
        let number = self.reads.n_rounds - 1;
        let patience = LOOK_AGAIN * 2;
        let (began_at, asked, words) = (self.clock.now, self.askable(), [None; MAX_MEMBERS]);
        self.reads.rounds.push_back(Round {
            ticket,
            number,
            began_at,
            patience,
            asked,
            words,
            state,
        });
    }

    /// The members whose words of the next slot count (I10), and can be read.
    fn askable(&self) -> MemberSet {
        self.links.met().intersection(self.eras.counted(self.applied.next_slot()))
    }

    pub(super) fn doubt_rounds(&mut self) {
        if self.reads.doubt(self.clock.now) {
            self.clock.nudge(self.clock.now);
        }
    }

    /// Posts the READs of one check, or returns the prefix to wait for.
    fn ask<H: Host>(&mut self, patience: Duration, host: &mut H) -> State {
        let number = self.reads.n_rounds;
        self.reads.n_rounds += 1;
        let applied = self.applied;
        let until = self.clock.now.plus(patience);
        let wait = State::Waiting { applied, until };
        let leading = self.term.as_ref().map(|term| term.ballot);
        let slot = applied.next_slot();
        if leading.is_some() {
            // R1: this term must be the one that may fill slot a.
            let own = match self.ring.phase_of(slot) {
                Phase::Free => true,
                Phase::Accepting | Phase::Decided => !self.ring.is_adopted(slot),
                Phase::Idle | Phase::Preparing | Phase::Fetching => false,
            };
            if !own && !self.planted.has(Bug::ReadBeforeRecovery) {
                self.clock.nudge(until);
                return wait;
            }
        }
        if leading.is_none() && self.own_word_has_value(slot, host) {
            // The slot is perhaps decided: no other member is needed to know that the answer must
            // wait.
            self.clock.nudge(until);
            return wait;
        }
        let askable = self.askable();
        if !self.eras.has_quorum(slot, askable) {
            self.clock.nudge(until);
            return wait;
        }
        let token = tokens::make(tokens::READ, 0, number & ((1 << 44) - 1));
        let horizons = tokens::make(tokens::READ_HORIZONS, 0, number & ((1 << 44) - 1));
        for rank in askable.iter() {
            host.read(rank, self.places.slot(slot), learner::ENTRY_READ, token);
            host.read(rank, self.places.horizons(), MAX_MEMBERS, horizons);
        }
        self.clock.nudge(self.clock.now.plus(ROUND_TIMEOUT));
        State::Asking { applied, leading, agreed: MemberSet::EMPTY }
    }

    fn own_word_has_value<H: Host>(&self, slot: Slot, host: &H) -> bool {
        let word = self.own_word(slot, host);
        let generation = W::PACKING.generation_of(slot, self.places.ring_slots());
        word.generation == generation && word.has_value() && !self.planted.has(Bug::ReadChecksOne)
    }

    /// Takes a member's word of the slot: it counts once the horizons have come too.
    pub(super) fn on_read_words(&mut self, from: Rank, number: u64, outcome: Outcome<'_>) {
        let any = self.planted.has(Bug::AnyAnswerServes);
        let Some(at) = self.reads.position(number, any) else { return };
        if let Outcome::Read(entry) = outcome {
            self.reads.rounds[at].words[from.index()] = Some(rpc::entry_word(W::PACKING, entry));
        }
    }

    pub(super) fn on_read_horizons<H: Host>(
        &mut self,
        from: Rank,
        number: u64,
        outcome: Outcome<'_>,
        host: &mut H,
    ) {
        let any = self.planted.has(Bug::AnyAnswerServes);
        let Some(at) = self.reads.position(number, any) else { return };
        let round = &mut self.reads.rounds[at];
        let State::Asking { applied, leading, agreed } = &mut round.state else { return };
        let slot = applied.next_slot();
        let (Outcome::Read(horizons), Some(word)) = (outcome, round.words[from.index()]) else {
            round.asked.remove(from);
            if !self.eras.has_quorum(slot, round.asked) {
                self.refuse_round(at, host);
            }
            return;
        };
        let ring = self.places.ring_slots();
        let generation = W::PACKING.generation_of(slot, ring);
        let clear = match *leading {
            // R1
            Some(ballot) => word.min_proposal <= ballot,
            // R2
            None => {
                let accepted = word.generation == generation && word.has_value();
                !accepted && !is_recycled(slot, u64::from(ring), horizons)
            }
        };
        if !clear {
            let (applied, at_once) = (*applied, leading.is_some());
            if at_once {
                // A member has a higher ballot: this term's answers are worth nothing.
                return self.refuse_round(at, host);
            }
            // A decision may be under way: its news will arrive soon.
            let until = self.clock.now.plus(self.reads.rounds[at].patience);
            self.reads.rounds[at].state = State::Waiting { applied, until };
            return self.clock.nudge(until);
        }
        agreed.insert(from);
        if !self.planted.has(Bug::ReadChecksOne) && !self.eras.has_quorum(slot, *agreed) {
            return;
        }
        let (led, ballot) = (leading.is_some(), *leading);
        if led && self.term.as_ref().map(|term| term.ballot) != ballot {
            return self.refuse_round(at, host);
        }
        if led {
            self.counters.reads_checked_leading += 1;
        } else {
            self.counters.reads_checked_following += 1;
        }
        // I7: a majority agreed, after the request arrived.
        if let Some(round) = self.reads.rounds.remove(at) {
            host.notify(Note::ReadReady(round.ticket));
        }
    }

    fn refuse_round<H: Host>(&mut self, at: usize, host: &mut H) {
        if let Some(round) = self.reads.rounds.remove(at) {
            self.counters.reads_refused += 1;
            host.notify(Note::ReadRefused(round.ticket));
        }
    }

    /// Repeats checks that waited, and ends those that take too long.
    pub(super) fn poll_reads<H: Host>(&mut self, host: &mut H) {
        let mut at = 0;
        while at < self.reads.rounds.len() {
            let round = &self.reads.rounds[at];
            let timeout = match round.state {
                State::Waiting { .. } => ROUND_TIMEOUT,
                State::Asking { .. } => ANSWER_TIMEOUT,
            };
            if self.clock.now.since(round.began_at) >= timeout {
                self.refuse_round(at, host);
                continue;
            }
            if let State::Waiting { applied, until } = round.state {
                if self.applied > applied || self.clock.now >= until {
                    let patience = round.patience;
                    let state = self.ask(patience, host);
                    let (number, asked) = (self.reads.n_rounds - 1, self.askable());
                    let round = &mut self.reads.rounds[at];
                    // The wait doubles each time: asking more often would not make a slow link
                    // faster. It is bounded, since a member that applies without end asks again
                    // without end.
                    (round.state, round.number) = (state, number);
                    round.patience = (patience * 2).min(ROUND_TIMEOUT);
                    (round.asked, round.words) = (asked, [None; MAX_MEMBERS]);
                } else {
                    self.clock.nudge(until);
                }
            }
            at += 1;
        }
        if !self.reads.rounds.is_empty() {
            self.clock.nudge(self.clock.now.plus(ROUND_TIMEOUT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_had_words_of_old_memory_is_repeated_and_one_that_waits_still_waits() {
        let round = |number, state| Round {
            ticket: Ticket(number),
            number,
            began_at: Instant::ZERO,
            patience: LOOK_AGAIN,
            asked: MemberSet::EMPTY,
            words: [None; MAX_MEMBERS],
            state,
        };
        let (now, later) = (Instant::ZERO.plus(LOOK_AGAIN), Instant::ZERO.plus(ROUND_TIMEOUT));
        let applied = Prefix(3);
        let mut reads = Reads::new();
        assert!(!reads.doubt(now));
        let asking = State::Asking { applied, leading: None, agreed: MemberSet::EMPTY };
        reads.rounds.push_back(round(1, asking));
        reads.rounds.push_back(round(2, State::Waiting { applied, until: later }));
        assert!(reads.doubt(now));
        let until = |at: usize| match reads.rounds[at].state {
            State::Waiting { until, .. } => Some(until),
            State::Asking { .. } => None,
        };
        assert_eq!((until(0), until(1)), (Some(now), Some(later)));
        assert_eq!((reads.position(2, false), reads.position(9, false)), (Some(1), None));
    }
}
