//! Velos: a replicated log of compare-and-swap words, one-sided Paxos (paper 001).
//!
//! **Purpose.** A leader decides a value in one CAS round trip to a majority's memory; nobody
//! else's processor takes part. After a leader's death its successor prepares the undecided slots
//! with one CAS each and goes on.
//!
//! **Assumes** crash failures, T1, T2, T4, T5, T6 of the fabric, and that a member comes back under
//! its identity only with the region that it had. Failure detection is only a hint.
//!
//! **Invariants**
//! - I1 A value is proposed for (slot, ballot) only after a majority promised the ballot, and it is
//!   the value with the highest accepted ballot among those that *completed* prepares returned, or
//!   a fresh one if they returned none. By construction: `slot`'s `resolve` is the only place.
//! - I2 One (slot, ballot) never has two values: a proposer stores its ballot in its region before
//!   the first CAS that uses it and starts above it in its next life. Asserted in `start_term`.
//! - I3 A slot is recycled only when it is decided and applied at a majority. Asserted in
//!   `prepare`.
//! - I4 Whatever is delivered is decided, and delivered in slot order. By construction: `learner`
//!   delivers only a slot below a published decided prefix whose word was accepted under the ballot
//!   that published it, or the majority's highest; a leader only what a majority accepted.
//! - I5 A value area that some acceptor's word may refer to is not overwritten: a value goes to the
//!   area that the word, as the completed prepare returned it, does not refer to, and that word
//!   cannot change before this proposer's next CAS but by another proposer. By construction:
//!   `post_accept` needs the acceptor's prepare to have completed.
//! - I6 At most one CAS of this node is under way to one acceptor's word. Asserted when posting.
//! - I8 A promise counts for a slot only if the word was of that use of its place or an earlier
//!   one, however far this node lags and however often the generation has wrapped. A leader shows
//!   each acceptor a *horizon*, below which all its slots stay, before it prepares them; a
//!   candidate freezes a word (its ballot, nothing else) and reads the horizons after that (T2).
//!   Once a slot was free under its ballot, no lower ballot can go a ring beyond it. Asserted:
//!   `is_recycled` guards every use; mutant `SKIP_SURVEY`.
//! - I7 A read is answered only if, after it arrived, a majority's words of the slot equal to the
//!   applied prefix show that nobody can have decided it without this node knowing. `reads`.
//!
//! **Global** (simulator): agreement, order, validity, integrity, linearizability, one writer a
//! word. **Liveness**: a lone trusted member that reaches a majority decides; a lagging one catches
//! up.
//!
//! ```text
//! a slot:  Idle -prepare-> Preparing -majority-> Free -propose-> Accepting -majority-> Decided
//!                              |                                   ^
//!                              +-- found a value -> Fetching ------+
//! ```
//!
//! **Cost** in the good case: one WRITE and one CAS to each acceptor a value; one more CAS each,
//! off the critical path, recycles and prepares the slot for its next use.
//!
//! **Differs from the paper** (section 5): values always by indirection, also short ones; two areas
//! a (slot, proposer); slots are recycled (the paper's log is unbounded); decisions are piggybacked
//! in the value's label (5.4, which the paper did not implement) and written alone when idle; a
//! minority of failed CASes does not abort; once proposal numbers overflow, slots are sealed and
//! spoken to by messages (`rpc`, 5.2's fall-back).

mod layout;
mod leader;
mod learner;
mod reads;
mod rpc;
pub mod single;
mod slot;
#[cfg(test)]
mod tests;
pub mod variant;
pub mod word;

pub(crate) use layout::Places;
pub use layout::Shape;

use crate::node::{NodeConfig, Start};
use crate::{Host, Note, Refused, Replicator, Role, Status, Ticket, durable::StateHead, value};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use base::{
    At, Ballot, Event, Instant, MAX_MEMBERS, MemberSet, Outcome, Prefix, Rank, Slot, Token,
    majority,
};
use core::marker::PhantomData;
use core::time::Duration;
use leader::Term;
use learner::Fetch;
use reads::Round;
use slot::Cell;
use variant::Variant;
use word::{Packing, SlotWord, Tag};

/// How soon a sleeping member that lags is woken (it has nothing urgent to do: its memory works
/// without it), and how soon a lost message is repeated.
const WAKE_AFTER: Duration = Duration::from_millis(5);
/// How seldom a member tells the others its applied prefix while little happens.
const TELL_EVERY: Duration = Duration::from_millis(2);
/// How soon a value that could not be copied is asked for again.
const RETRY_AFTER: Duration = Duration::from_millis(1);
/// How long a deposed but trusted leader waits: longer the higher its rank and each time it decided
/// nothing in between, so that two that both feel trusted do not depose each other for ever.
const BACK_OFF: Duration = Duration::from_millis(2);
/// How often the back-off doubles at most.
const DOUBLINGS_MAX: u32 = 5;

/// The protocol as it should be.
pub type Velos = Machine<variant::Sound>;

/// A leader's published decision: every slot below `decided` was decided under at most `ballot`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fact {
    ballot: Ballot,
    decided: Prefix,
}

/// What this machine has done, for reports and for the simulator's `Sometimes` properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name is the whole of its meaning")]
pub struct Counters {
    pub terms_started: u64,
    pub deposed: u64,
    pub values_proposed: u64,
    pub values_adopted: u64,
    pub values_fetched_remotely: u64,
    pub slots_recycled: u64,
    pub prepares_mispredicted: u64,
    pub accepts_failed: u64,
    pub applied_from_own_memory: u64,
    pub applied_from_fetch: u64,
    pub states_requested: u64,
    pub reads_checked_leading: u64,
    pub reads_checked_following: u64,
    pub reads_refused: u64,
    pub torn_values_rejected: u64,
    pub rpcs_sent: u64,
    pub slots_sealed: u64,
    pub facts_piggybacked: u64,
    pub window_full: u64,
}

/// One member of a Velos log.
#[derive(Debug)]
pub struct Machine<V: Variant> {
    me: Rank,
    members: usize,
    places: Places,
    value_bytes_max: usize,
    /// How many slots may be under way at once.
    window: u64,
    peer_works: bool,
    now: Instant,

    /// Not even the empty state: its process died and forgot it.
    stateless: bool,
    /// What an earlier life of this member said that it had applied.
    claimed: Prefix,
    trusted: bool,
    /// Some while this node leads or tries to.
    term: Option<Term>,
    /// Terms so far: tells completions of an earlier one apart.
    n_terms: u32,
    /// When a trusted but deposed node tries again.
    retry_at: Option<Instant>,
    /// Terms that ended without a decision since the last one that had one.
    n_futile: u32,
    /// The highest ballot heard of.
    highest: Ballot,

    /// Every slot below has been delivered here (I4: in order, by construction of its one writer).
    applied: Prefix,
    told_applied: Prefix,
    told_at: Instant,
    /// What the other members say that they have applied; zero while they are dead.
    applied_by: [Prefix; MAX_MEMBERS],
    failed: MemberSet,
    links: MemberSet,
    facts: [Fact; MAX_MEMBERS],
    /// The next own slot word to look at for a piggybacked decision.
    scanned: Slot,

    cells: Vec<Cell>,
    /// Acceptors that the current ballot speaks to by message.
    by_message: MemberSet,
    fetches: VecDeque<Fetch>,
    n_fetches: u32,
    state_asked_at: Option<Instant>,
    rounds: VecDeque<Round>,
    n_rounds: u64,
    /// A lower bound of what a majority has applied, as of the last look (I3).
    recyclable: Prefix,
    seals: Vec<rpc::Seal>,
    /// When a lagging sleeper is woken or a message repeated.
    nudge_at: Option<Instant>,
    /// A buffer for values copied out of the own region.
    scratch: Vec<u64>,
    counters: Counters,
    variant: PhantomData<V>,
}

impl<V: Variant> Machine<V> {
    /// A member at `base` of its region.
    pub(crate) fn new<H: Host>(
        config: &NodeConfig,
        base: At,
        shape: &Shape,
        host: &mut H,
    ) -> Machine<V> {
        let places = Places::new(base, config.members, shape);
        let mut links = MemberSet::EMPTY;
        links.insert(config.me);
        // What an earlier life claimed to have applied was perhaps recycled on its word: until this
        // one has applied as much, it holds nothing (the word stays, a next life must know it too).
        let claimed = Prefix(host.load(places.applied(config.me)));
        host.store(places.fact(config.me).plus(1), 0);
        let highest = Ballot(host.load(places.highest()));
        Machine {
            me: config.me,
            members: config.members,
            places,
            value_bytes_max: shape.value_bytes as usize,
            window: u64::from(shape.ring_slots / 4),
            peer_works: config.peer_works,
            now: Instant::ZERO,
            stateless: config.start == Start::Reattach && !V::SERVE_AS_LEARNER,
            claimed: if V::SERVE_AS_LEARNER { Prefix::ZERO } else { claimed },
            trusted: false,
            term: None,
            n_terms: 0,
            retry_at: None,
            n_futile: 0,
            highest: if V::FORGET_PROMISE { Ballot::NONE } else { highest },
            applied: Prefix::ZERO,
            told_applied: Prefix::ZERO,
            told_at: Instant::ZERO,
            applied_by: [Prefix::ZERO; MAX_MEMBERS],
            failed: MemberSet::EMPTY,
            links,
            facts: [Fact::default(); MAX_MEMBERS],
            scanned: Slot::ZERO,
            cells: (0..shape.ring_slots).map(|_| Cell::default()).collect(),
            by_message: MemberSet::EMPTY,
            fetches: VecDeque::with_capacity(learner::FETCHES_MAX),
            n_fetches: 0,
            state_asked_at: None,
            rounds: VecDeque::with_capacity(reads::ROUNDS_MAX),
            n_rounds: 0,
            recyclable: Prefix::ZERO,
            seals: Vec::new(),
            nudge_at: None,
            scratch: Vec::new(),
            counters: Counters::default(),
            variant: PhantomData,
        }
    }

    /// What it has done so far.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    fn quorum(&self) -> usize {
        majority(self.members)
    }

    fn peers(&self) -> impl Iterator<Item = Rank> + use<V> {
        let me = self.me;
        Rank::all(self.members).filter(move |rank| *rank != me)
    }

    /// Whether it lacks what it ought to hold: then it serves, leads and vouches for nothing.
    fn is_learner(&self) -> bool {
        self.stateless || self.applied < self.claimed
    }

    fn cell(&mut self, slot: Slot) -> &mut Cell {
        let index = self.places.ring_index(slot);
        &mut self.cells[index]
    }

    /// The own acceptor's state of the ring's place for `slot`, whichever way it is kept.
    fn own_word<H: Host>(&self, slot: Slot, host: &H) -> SlotWord {
        let raw = host.load(self.places.slot(slot));
        let word = V::PACKING.unpack(raw);
        if word.is_sealed(V::PACKING) {
            rpc::sealed_word(
                V::PACKING,
                word,
                host.load(self.places.sealed_min(slot)),
                host.load(self.places.sealed_accepted(slot)),
            )
        } else {
            word
        }
    }

    /// The prefix that a majority has applied: below it, ring places may be used again (I3). The
    /// dead do not count: what they had applied went with them.
    fn applied_by_majority(&self) -> Prefix {
        if V::RECYCLE_EARLY {
            return self.applied;
        }
        let mut all = [Prefix::ZERO; MAX_MEMBERS];
        for rank in Rank::all(self.members) {
            all[rank.index()] = self.applied_by(rank);
        }
        let all = &mut all[..self.members];
        all.sort_unstable();
        all[self.members - self.quorum()]
    }

    fn decided_known(&self) -> Prefix {
        self.facts.iter().map(|fact| fact.decided).max().unwrap_or_default().max(self.applied)
    }

    /// The leader's two words of news (I4: the decided prefix is loaded first, so that it is never
    /// paired with an older ballot).
    fn read_facts<H: Host>(&mut self, host: &H) {
        for rank in self.peers() {
            let at = self.places.fact(rank);
            let (ballot, decided);
            if V::TORN_FACT {
                ballot = self.facts[rank.index()].ballot.max(Ballot::NONE);
                decided = Prefix(host.load(at.plus(1)));
                let fact = &mut self.facts[rank.index()];
                *fact = if ballot == Ballot::NONE {
                    Fact { ballot: Ballot(host.load(at)), decided }
                } else {
                    Fact { ballot, decided: decided.max(fact.decided) }
                };
                continue;
            }
            decided = Prefix(host.load(at.plus(1)));
            ballot = Ballot(host.load(at));
            self.note_fact(rank, Fact { ballot, decided });
        }
    }

    fn note_fact(&mut self, of: Rank, news: Fact) {
        // A pair with a newer ballot is as good as the old one for every slot (later ballots carry
        // the decided value on), and both parts only grow.
        let fact = &mut self.facts[of.index()];
        fact.ballot = fact.ballot.max(news.ballot);
        fact.decided = fact.decided.max(news.decided);
        self.highest = self.highest.max(news.ballot);
    }

    fn read_applied<H: Host>(&mut self, host: &H) {
        for rank in self.peers() {
            self.applied_by[rank.index()] = Prefix(host.load(self.places.applied(rank)));
        }
    }

    /// Delivers the value of the next slot.
    fn deliver<H: Host>(&mut self, slot: Slot, words: &[u64], host: &mut H) {
        assert_eq!(slot, self.applied.next_slot(), "I4: delivered in slot order");
        host.deliver(slot, value::payload(words));
        self.applied = slot.prefix_through();
    }

    /// Publishes the applied prefix: at once when much has been applied, else now and then.
    fn tell_applied<H: Host>(&mut self, host: &mut H) {
        let lag = self.applied.ahead_of(self.told_applied);
        if lag == 0 || self.is_learner() {
            return;
        }
        let due = self.told_at.plus(TELL_EVERY);
        if lag < u64::from(self.places.ring_slots() / 16) && self.now < due {
            self.nudge(due);
            return;
        }
        self.told_applied = self.applied;
        self.told_at = self.now;
        let at = self.places.applied(self.me);
        host.store(at, self.applied.0);
        for rank in self.peers() {
            host.write(rank, at, &[self.applied.0], None);
        }
    }

    fn nudge(&mut self, at: Instant) {
        self.nudge_at = Some(self.nudge_at.map_or(at, |before| before.min(at)));
    }

    fn on_link_up<H: Host>(&mut self, rank: Rank, host: &mut H) {
        self.links.insert(rank);
        if rank == self.me {
            return;
        }
        self.failed.remove(rank);
        let held = if self.is_learner() { 0 } else { self.applied.0 };
        host.write(rank, self.places.applied(self.me), &[held], None);
        self.restart_fetches();
        self.repost(rank, host);
    }

    fn on_completed<H: Host>(
        &mut self,
        from: Rank,
        token: Token,
        outcome: Outcome<'_>,
        host: &mut H,
    ) {
        let (kind, number, low) = tokens::split(token);
        match kind {
            tokens::PREPARE | tokens::ACCEPT => {
                let Outcome::Before(before) = outcome else {
                    return self.on_cas_lost(from, number, Slot(low), host);
                };
                if kind == tokens::PREPARE {
                    self.on_prepare_completed(from, number, Slot(low), before, host);
                } else {
                    self.on_accept_completed(from, number, Slot(low), before, host);
                }
            }
            tokens::SURVEY => self.on_surveyed(from, number, Slot(low), outcome, host),
            tokens::ADOPT => self.on_adopted_value(from, number, Slot(low), outcome, host),
            tokens::FETCH_WORDS => self.on_fetched_words(from, Slot(low), number, outcome),
            tokens::FETCH_VALUE => self.on_fetched_value(from, Slot(low), number, outcome),
            tokens::FETCH_HORIZONS => {
                self.on_fetched_horizons(from, Slot(low), number, outcome, host)
            }
            tokens::READ => self.on_read_words(from, low, outcome),
            tokens::READ_HORIZONS => self.on_read_horizons(from, low, outcome, host),
            tokens::SEAL => self.on_sealed(Slot(low), outcome, host),
            _ => unreachable!("a token that this machine never made"),
        }
    }
}

impl<V: Variant> Replicator for Machine<V> {
    fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    fn lead<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.now = now;
        self.trusted = true;
        if self.term.is_none() && !self.is_learner() {
            self.start_term(host);
        }
    }

    fn follow<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.now = now;
        self.trusted = false;
        self.retry_at = None;
        self.step_down(host);
    }

    fn propose<H: Host>(
        &mut self,
        value: &[u8],
        now: Instant,
        host: &mut H,
    ) -> Result<Slot, Refused> {
        self.now = now;
        self.propose_value(value, host)
    }

    fn read<H: Host>(&mut self, ticket: Ticket, now: Instant, host: &mut H) {
        self.now = now;
        self.start_read(ticket, host);
    }

    fn on_event<H: Host>(&mut self, event: Event<'_>, now: Instant, host: &mut H) {
        self.now = now;
        match event {
            Event::Completed { from, token, outcome } => {
                self.on_completed(from, token, outcome, host);
            }
            Event::Message { from, bytes } => self.on_message(from, bytes, host),
            Event::ProcessFailed(rank) => {
                self.failed.insert(rank);
            }
            Event::LinkDown(rank) => {
                self.links.remove(rank);
            }
            Event::LinkUp(rank) => self.on_link_up(rank, host),
        }
    }

    fn heard(&mut self, members: MemberSet) {
        self.failed = self.failed.difference(members);
    }

    fn poll<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.now = now;
        self.read_facts(host);
        self.read_applied(host);
        if !self.is_learner() {
            // Before anything is recycled on the strength of it.
            host.store(self.places.applied(self.me), self.applied.0);
        }
        self.recyclable = self.applied_by_majority();
        let newer = self.facts.iter().map(|fact| fact.ballot).max().unwrap_or_default();
        if self.term.as_ref().is_some_and(|term| newer > term.ballot) {
            self.depose(newer, host);
        }
        if self.nudge_at.is_some_and(|at| at <= now) {
            self.nudge_at = None;
            self.repeat_lost(host);
        }
        if self.term.is_none() {
            self.learn(host);
            if self.trusted && !self.is_learner() && self.retry_at.is_none_or(|at| at <= now) {
                self.retry_at = None;
                self.start_term(host);
            }
        }
        if self.term.is_some() {
            self.extend_window_at_poll(host);
            self.advance(host);
            self.publish(host);
        }
        self.tell_applied(host);
        self.poll_reads(host);
    }

    fn deadline(&self) -> Option<Instant> {
        [self.nudge_at, self.retry_at].into_iter().flatten().min()
    }

    fn install<H: Host>(
        &mut self,
        applied: Prefix,
        _: Option<StateHead>,
        now: Instant,
        host: &mut H,
    ) {
        self.now = now;
        assert!(applied >= self.applied, "a state is not replaced by an older one");
        if applied > self.applied {
            // I4: a later ballot may have decided what this one has proposed: no vouching for that.
            self.step_down(host);
        }
        self.stateless = false;
        self.applied = applied;
        self.scanned = self.scanned.max(applied.next_slot());
        self.fetches.clear();
        self.state_asked_at = None;
        self.poll(now, host);
    }

    fn status(&self) -> Status {
        let role = match &self.term {
            _ if self.is_learner() => Role::Learner,
            Some(term) if term.announced => Role::Leader,
            Some(_) => Role::Candidate,
            None => Role::Follower,
        };
        let published = self.facts.iter().map(|fact| fact.ballot).max().unwrap_or_default();
        Status {
            role,
            ballot: self.term.as_ref().map_or(published, |term| term.ballot),
            committed: self.decided_known(),
            applied: self.applied,
        }
    }

    fn holders(&self, prefix: Prefix) -> MemberSet {
        Rank::all(self.members).filter(|rank| self.applied_by(*rank) >= prefix).collect()
    }

    fn applied_by(&self, member: Rank) -> Prefix {
        if member == self.me {
            if self.is_learner() { Prefix::ZERO } else { self.applied }
        } else if self.failed.contains(member) {
            Prefix::ZERO
        } else {
            self.applied_by[member.index()]
        }
    }
}

/// What a completion is about: kind, a number that tells attempts apart, and a slot or a ticket.
mod tokens {
    use base::Token;

    pub(super) const PREPARE: u8 = 1;
    pub(super) const ACCEPT: u8 = 2;
    pub(super) const ADOPT: u8 = 3;
    pub(super) const FETCH_WORDS: u8 = 4;
    pub(super) const FETCH_VALUE: u8 = 5;
    pub(super) const READ: u8 = 6;
    pub(super) const SEAL: u8 = 7;
    pub(super) const SURVEY: u8 = 8;
    pub(super) const FETCH_HORIZONS: u8 = 9;
    pub(super) const READ_HORIZONS: u8 = 10;

    const LOW_BITS: u32 = 44;
    const NUMBER_BITS: u32 = 16;

    /// The number is kept modulo 2^16: attempts that far apart do not overlap on one link.
    pub(super) const fn make(kind: u8, number: u32, low: u64) -> Token {
        assert!(low < 1 << LOW_BITS);
        let number = number as u64 & ((1 << NUMBER_BITS) - 1);
        Token((kind as u64) << (LOW_BITS + NUMBER_BITS) | number << LOW_BITS | low)
    }

    pub(super) const fn split(token: Token) -> (u8, u32, u64) {
        (
            (token.0 >> (LOW_BITS + NUMBER_BITS)) as u8,
            (token.0 >> LOW_BITS) as u32 & ((1 << NUMBER_BITS) - 1),
            token.0 & ((1 << LOW_BITS) - 1),
        )
    }
}
