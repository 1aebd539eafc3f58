//! Velos: a replicated log of compare-and-swap words, one-sided Paxos (paper 001).
//!
//! **Purpose.** A leader decides a value in one CAS round trip to a majority's memory; no other
//! processor takes part. After a leader's death its successor prepares the undecided slots with one
//! CAS each and continues.
//!
//! **Assumes** crash failures, T1, T2, T4, T5, T6, T10 of the fabric, and that a member comes back
//! under its identity only with the region that it had. Failure detection is only a hint.
//!
//! **Invariants**
//! - I1 A value is proposed for (slot, ballot) only after a majority promised the ballot, and it is
//!   the value with the highest accepted ballot among those that *completed* prepares returned, or
//!   a fresh one if they returned none. By construction: `slot`'s `resolve` is the only place.
//! - I2 One (slot, ballot) never has two values: a proposer stores its ballot in its region before
//!   the first CAS that uses it and starts above it in its next life. Asserted in `start_term`.
//! - I3 A slot is recycled only when it is decided and applied at a majority. Asserted in
//!   `prepare`. No member counts as one that has applied it before its region says so, for its next
//!   life: by construction in `deliver`.
//! - I4 Every delivered value is decided, and values are delivered in slot order. By construction:
//!   `learner` delivers only a slot below a published decided prefix whose word was accepted under
//!   the ballot that published it, or the majority's highest; a leader only what a majority
//!   accepted. No prefix stands beside an earlier term's ballot: both use one link, to a memory
//!   that was identified since the link came up (mutant `PUBLISH_TO_UNMET`).
//! - I5 A value area that some acceptor's word may refer to is not overwritten: a value is written
//!   to the area to which the word that the completed prepare returned does not refer, and before
//!   this proposer's next CAS only another proposer can change that word. By construction:
//!   `post_accept` needs the acceptor's prepare, or its last accept in this term, to be completed.
//! - I6 At most one CAS of a term is under way to one acceptor's word: of two, the failed one would
//!   be mistaken for the other. By construction: only its completion (T4) removes its mark, and a
//!   completion is of the term that posted its verb, however long ago (`terms`). Asserted in
//!   `settle`; mutant `REPOST_UNANSWERED`.
//! - I17 While a value is proposed, each acceptor that is fed, has promised and has not accepted
//!   has an operation under way, or another look around is due: an answer that leads to nothing
//!   would be the last that a leader hears. Asserted in `poll` (debug); mutant `ASKED_TWICE_WAITS`.
//! - I8 A promise counts for a slot only if the word was of that use of its place or an earlier
//!   one, however far this node lags and however often the generation has wrapped. A leader shows
//!   each acceptor a *horizon*, below which all its slots stay, before it prepares them; a
//!   candidate freezes a word (its ballot, nothing else) and reads the horizons after that (T2).
//!   Once a slot was free under its ballot, no lower ballot can go a ring beyond it. A horizon
//!   never falls while its owner's memory lives: an earlier term's CAS may be out. Asserted:
//!   `is_recycled` guards every use; mutants `SKIP_SURVEY`, `HORIZON_AFTER_CAS`,
//!   `FORGET_HORIZON`.
//! - I9 Each slot has exactly one configuration: one that is decided for slot s governs from s +
//!   alpha on, and no member prepares a slot alpha or more beyond what it has applied, so a member
//!   that prepares a slot knows its configuration. Asserted in `prepare`.
//! - I10 Only the incarnation that a slot's configuration names counts for that slot, whatever else
//!   answers from its seat. By construction: `eras` is the one place where majorities are counted.
//! - I11 A member prepares only slots whose configuration names it as a voter: so the ballots of a
//!   seat, which its incarnations share, never meet in one slot. Asserted in `prepare`.
//! - I12 One change at a time: an entry counts only if it was made from the configuration that
//!   governs its slot. A leader begins none before a majority of the last one's voters has applied
//!   where that begins. By construction in `eras`, tested.
//! - I13 A claim of an applied prefix names the incarnation that makes it: a successor is not
//!   credited with it. By a seal; mutant `ANY_CLAIM`.
//! - I14 `highest` is not below any ballot that decided a value which is applied here, and not
//!   below an installed state's ballot: so a new incarnation that continues from a state starts
//!   above the ballots of its seat that decided it. By construction in `deliver` and `install`.
//! - I15 A head names the members that govern the slot after its state: no member gives a head for
//!   more than it has applied, and a state that is not ahead of the applied prefix changes nothing.
//!   Mutant `HEAD_ABOVE_APPLIED`.
//! - I7 A read is answered only if, after it arrived, a majority's words of the slot equal to the
//!   applied prefix show that no member can have decided it without this node's knowledge. `reads`.
//! - I16 What is posted over a link counts only if the incarnation behind it was read since the
//!   link came up: `links`.
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
//! **Parts**, each with its rules: the candidacy (when and above which ballots to lead), `ring`
//! (the leader's places), `facts` (what is known to be decided), `learner` (how a value that is
//! missing comes), `claims` and `links` (the other members), `eras` (which members count), `reads`.
//!
//! **Cost** in the good case: one WRITE and one CAS to each acceptor a value, and off the critical
//! path one more CAS each when a place of the ring is used for the first time in a term: an
//! acceptor that accepted its last use under the same ballot has promised the ballot for the next
//! use.
//!
//! **Differs from the paper** (section 5): values always by indirection, also short ones; two areas
//! a (slot, proposer); slots are recycled (the paper's log is unbounded), and prepared once a term
//! and place; decisions are piggybacked in the value's label (5.4, which the paper did not
//! implement) and written separately when idle; a minority of failed CASes does not abort; once
//! proposal numbers overflow, slots are sealed and served by messages (`rpc`, 5.2's fall-back).

pub mod bugs;
mod claims;
mod counters;
mod eras;
mod facts;
#[cfg(test)]
mod golden;
mod layout;
mod leader;
mod learner;
mod links;
mod members;
mod reads;
mod ring;
mod rpc;
mod slot;
mod spec;
#[cfg(test)]
mod tests;
mod tokens;
pub mod word;

pub use counters::Counters;
pub(crate) use layout::Places;
pub use spec::{NarrowSpec, Spec};

use crate::candidacy::Candidacy;
use crate::clock::Clock;
use crate::members::{Change, ChangeRefused, Configuration, StateHead};
use crate::node::{NodeConfig, Start};
use crate::planted::{Planting, Sound};
use crate::terms::Terms;
use crate::value::Content;
use crate::{Host, LogShape, Note, Refused, Replicator, Role, Status, Ticket, value};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use base::{
    At, Ballot, Event, Incarnation, Instant, MAX_MEMBERS, MemberSet, Outcome, Prefix, Rank, Ranks,
    Slot, Token, majority,
};
use bugs::Bug;
use claims::Claims;
use core::marker::PhantomData;
use core::time::Duration;
use eras::Eras;
use facts::{Fact, News};
use leader::Term;
use learner::Learner;
use links::Links;
use reads::Reads;
use ring::{Cell, Phase, Ring};
use word::{Packing, SlotWord, Tag, Wide, Widths};

/// The time after which a sleeping member that lags is woken (it has nothing urgent to do: its
/// memory works without it), and after which a lost message is repeated.
const WAKE_AFTER: Duration = Duration::from_millis(5);
/// The time after which a value that could not be copied is requested again.
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// The protocol without planted bugs.
pub type Velos = Machine<Sound, Wide>;

/// One member of a Velos log.
#[derive(Clone, Debug, Hash)]
pub struct Machine<P: Planting<Bug> = Sound, W: Widths = Wide> {
    me: Rank,
    members: usize,
    places: Places,
    value_bytes_max: usize,
    peer_works: bool,
    clock: Clock,
    candidacy: Candidacy,
    /// The term in which this node leads or tries to lead.
    term: Option<Term>,
    /// The delivered slots: every slot below (I4: in order, by construction of its one writer).
    applied: Prefix,
    claims: Claims,
    links: Links,
    eras: Eras,
    news: News,
    ring: Ring,
    learner: Learner,
    reads: Reads,
    seals: Vec<rpc::Seal>,
    counters: Counters,
    planted: P,
    widths: PhantomData<W>,
}

impl<P: Planting<Bug>, W: Widths> Machine<P, W> {
    /// A member at `base` of its region.
    pub(crate) fn new<H: Host>(
        config: &NodeConfig,
        base: At,
        shape: &LogShape,
        planted: P,
        host: &mut H,
    ) -> Machine<P, W> {
        let places = Places::new(base, config.members, shape);
        // Slots that an earlier life claimed to have applied may be recycled because of its claim:
        // until this life has applied as much, it holds nothing (the word stays, since a next life
        // must know it too).
        let claimed = Prefix(host.load(places.applied(config.me)));
        host.store(places.fact(config.me).plus(1), 0);
        let own = eras::founding(config.start)
            .unwrap_or_else(|| Incarnation(host.load(places.incarnation())));
        host.store(places.incarnation(), own.0);
        let founders = match config.start {
            Start::Bootstrap => MemberSet::all(config.members),
            Start::Found { voters } => voters,
            // The state names the members.
            _ if !planted.has(Bug::ServeAsLearner) => MemberSet::EMPTY,
            Start::Reattach | Start::Recovered { .. } | Start::Join { .. } => {
                MemberSet::all(config.members)
            }
        };
        let half = u64::from(shape.ring_slots / 2);
        let rules = eras::Rules {
            alpha: if planted.has(Bug::GovernAtOnce) { 1 } else { half },
            any_incarnation: planted.has(Bug::AnyIncarnation),
            count_removed: planted.has(Bug::CountRemoved),
            any_base: planted.has(Bug::AnyBase),
        };
        let highest = Ballot(host.load(places.highest()));
        let highest = if planted.has(Bug::ForgetPromise) { Ballot::NONE } else { highest };
        let claimed = if planted.has(Bug::ServeAsLearner) { Prefix::ZERO } else { claimed };
        let ahead = planted.has(Bug::PrepareAhead);
        let window = if ahead { shape.ring_slots } else { shape.ring_slots / 4 };
        Machine {
            me: config.me,
            members: config.members,
            places,
            value_bytes_max: shape.value_bytes as usize,
            peer_works: config.peer_works,
            clock: Clock::new(),
            candidacy: Candidacy::new(highest),
            term: None,
            applied: Prefix::ZERO,
            claims: Claims::new(),
            links: Links::new(config.me),
            eras: Eras::new(config.me, own, founders, rules),
            news: News::new(),
            ring: Ring::new(shape.ring_slots, u64::from(window)),
            learner: Learner::new(founders.is_empty(), claimed),
            reads: Reads::new(),
            seals: Vec::new(),
            counters: Counters::default(),
            planted,
            widths: PhantomData,
        }
    }

    /// The counts of this machine's work.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    fn peers(&self) -> Ranks {
        let mut peers = MemberSet::all(self.members);
        peers.remove(self.me);
        peers.iter()
    }

    /// Whether this member lacks state that it should hold: then it does not serve, lead or vouch.
    fn is_learner(&self) -> bool {
        self.learner.lacks(self.applied)
    }

    fn cell(&mut self, slot: Slot) -> &mut Cell {
        self.ring.cell(slot)
    }

    /// The state of the own acceptor for the ring's place of `slot`, whether sealed or not.
    fn own_word<H: Host>(&self, slot: Slot, host: &H) -> SlotWord {
        let raw = host.load(self.places.slot(slot));
        let word = W::PACKING.unpack(raw);
        if word.is_sealed(W::PACKING) {
            rpc::sealed_word(
                W::PACKING,
                word,
                host.load(self.places.sealed_min(slot)),
                host.load(self.places.sealed_accepted(slot)),
            )
        } else {
            word
        }
    }

    /// Delivers the value of the next slot.
    fn deliver<H: Host>(&mut self, slot: Slot, words: &[u64], host: &mut H) {
        assert_eq!(slot, self.applied.next_slot(), "I4: delivered in slot order");
        if let Some(label) =
            value::label(words).filter(|_| !self.planted.has(Bug::ForgetReadBallots))
        {
            // I14: however the decision was learned.
            self.candidacy.see(label.ballot);
        }
        let payload = value::payload(words);
        match value::content(words) {
            Content::Value => host.deliver(slot, payload),
            Content::Members => {
                host.deliver(slot, &[]);
                self.adopt(slot, payload);
            }
        }
        self.applied = slot.prefix_through();
        self.eras.reach(self.applied);
        self.store_applied(host);
    }

    /// Stores the applied prefix, before another member is told it and before a place is recycled
    /// because of it (I3). A learner's word stays: the next life must know it too.
    fn store_applied<H: Host>(&self, host: &mut H) {
        if !self.is_learner() {
            host.store(self.places.applied(self.me), self.applied.0);
        }
    }

    /// Publishes the applied prefix: at once when much has been applied, otherwise at intervals.
    fn tell_applied<H: Host>(&mut self, host: &mut H) {
        if self.is_learner() {
            return;
        }
        let urgent = u64::from(self.places.ring_slots() / 16);
        match self.claims.tell(self.applied, urgent, self.clock.now) {
            Ok(true) => {}
            Ok(false) => return,
            Err(due) => return self.clock.nudge(due),
        }
        self.peers().for_each(|rank| self.claim(rank, self.applied, host));
    }
}

impl<P: Planting<Bug>, W: Widths> Replicator for Machine<P, W> {
    const NEEDS_HEAD: bool = true;

    fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    fn lead<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.clock.now = now;
        self.candidacy.trust();
        if self.term.is_none() && !self.is_learner() {
            self.start_term(host);
        }
    }

    fn follow<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.clock.now = now;
        self.candidacy.distrust();
        self.step_down(host);
    }

    fn propose<H: Host>(
        &mut self,
        value: &[u8],
        now: Instant,
        host: &mut H,
    ) -> Result<Slot, Refused> {
        self.clock.now = now;
        self.propose_content(Content::Value, value, host)
    }

    fn read<H: Host>(&mut self, ticket: Ticket, now: Instant, host: &mut H) {
        self.clock.now = now;
        self.start_read(ticket, host);
    }

    fn on_event<H: Host>(&mut self, event: Event<'_>, now: Instant, host: &mut H) {
        self.clock.now = now;
        match event {
            Event::Completed { from, token, outcome } => {
                self.on_completed(from, token, outcome, host);
            }
            Event::Message { from, bytes } => self.on_message(from, bytes, host),
            Event::ProcessFailed(rank) => self.claims.process_failed(rank),
            Event::LinkDown(rank) => self.links.down(rank),
            Event::LinkUp(rank) => self.on_link_up(rank, host),
        }
    }

    fn heard(&mut self, members: MemberSet) {
        self.claims.are_alive(members);
    }

    fn poll<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.clock.now = now;
        self.read_facts(host);
        self.read_applied(host);
        // (A state that was installed may have raised it.)
        self.store_applied(host);
        let newer = self.news.ballot();
        if self.term.as_ref().is_some_and(|term| newer > term.ballot) {
            self.depose(newer, host);
        }
        if self.clock.rings() {
            self.ask_unbegun(host);
            self.repeat_lost(host);
        }
        if self.term.is_none() {
            self.weigh_rumour();
            self.learn(host);
            if !self.is_learner() && self.candidacy.tries(now) {
                self.start_term(host);
            }
        }
        if self.term.is_some() {
            self.ring.recycle(self.applied_by_majority());
            self.learn_first(host);
            self.extend_window_at_poll(host);
            self.advance(host);
            self.tend_members(host);
            self.publish(host);
            debug_assert!(self.is_under_way(), "I17: an acceptor has nothing to answer");
        } else {
            self.tend_members(host);
        }
        self.tell_applied(host);
        self.poll_reads(host);
    }

    fn deadline(&self) -> Option<Instant> {
        match (self.clock.alarm(), self.candidacy.retry_at()) {
            (Some(nudge), Some(retry)) => Some(nudge.min(retry)),
            (nudge, retry) => nudge.or(retry),
        }
    }

    fn configuration(&self) -> Option<Configuration> {
        self.known_configuration()
    }

    fn electors(&self) -> Option<MemberSet> {
        self.known_electors()
    }

    fn follows(&self) -> Option<Rank> {
        self.known_leader()
    }

    fn incarnation(&self) -> Incarnation {
        self.eras.own()
    }

    fn has_seats(&self) -> bool {
        true
    }

    fn change<H: Host>(
        &mut self,
        change: Change,
        now: Instant,
        host: &mut H,
    ) -> Result<Slot, ChangeRefused> {
        self.clock.now = now;
        self.begin_change(change, host)
    }

    /// I11: a member that may not propose for the next slot cannot lead.
    fn can_lead(&self) -> bool {
        let next = self.applied.next_slot();
        let lags = self.learner.lags(self.applied) && !self.planted.has(Bug::StandsBehind);
        !self.is_learner() && !lags && self.eras.may_lead(next, self.links.met())
    }

    fn state_head(&self, prefix: Prefix) -> Option<StateHead> {
        // I15: what a later entry changes in the members is not known here.
        let is_known = prefix <= self.applied || self.planted.has(Bug::HeadAboveApplied);
        if self.is_learner() || !is_known {
            None
        } else {
            self.eras.head(prefix, self.candidacy.highest())
        }
    }

    fn install<H: Host>(
        &mut self,
        applied: Prefix,
        head: Option<StateHead>,
        now: Instant,
        host: &mut H,
    ) {
        self.clock.now = now;
        assert!(applied >= self.applied, "a state is not replaced by an older one");
        if applied == self.applied && !self.is_learner() {
            // I15: this member knows more about the members than the head of a state of the same
            // length.
            return;
        }
        if applied > self.applied {
            // I4: a later ballot may have decided what this term has proposed, so the term must not
            // vouch for it.
            self.step_down(host);
        }
        match head.filter(|head| head.members_at <= applied) {
            Some(head) => {
                // When this member leads, it needs a later ballot than those that decided the
                // state's slots: its facts cover those slots too, and other incarnations used its
                // seat's ballots before.
                self.candidacy.see(head.ballot);
                self.eras.install(&head);
            }
            None => self.eras.forget(),
        }
        self.applied = applied;
        self.learner.install(applied, self.eras.is_known());
        self.poll(now, host);
    }

    fn status(&self) -> Status {
        let role = match &self.term {
            _ if self.is_learner() => Role::Learner,
            Some(term) if term.announced => Role::Leader,
            Some(_) => Role::Candidate,
            None => Role::Follower,
        };
        Status {
            role,
            ballot: self.term.as_ref().map_or(self.news.ballot(), |term| term.ballot),
            committed: self.decided_known(),
            applied: self.applied,
        }
    }

    fn holders(&self, prefix: Prefix) -> MemberSet {
        let members = self.eras.newest().members.all();
        members.iter().filter(|rank| self.applied_by(*rank) >= prefix).collect()
    }

    fn applied_by(&self, member: Rank) -> Prefix {
        self.claimed(member, self.eras.newest().members.incarnation(member))
    }
}
