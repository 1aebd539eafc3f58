//! Mu: one-sided writes under a permission, for comparison with Velos.
//!
//! **Purpose.** The same log as Velos's, decided in one WRITE round trip instead of one CAS. The
//! memory's owner, not a word, separates two leaders: it lets one member at a time write into its
//! log, and a new leader first asks a majority for permission.
//!
//! **Assumes** T2, T4, T5, T7 and [`base::Port::permit_writer`]: so it runs on tcp, rdma and in the
//! simulator; shared memory cannot revoke a mapping and refuses.
//!
//! **Invariants**
//! - M1 A member grants its log only to a ballot above every one that it granted before, in this
//!   life or an earlier one: the promise is stored before the grant leaves, and a member that
//!   restarts admits no writer until its next grant. Asserted in `on_request`.
//! - M2 A leader writes only into logs that were granted to its ballot, and decides when a majority
//!   of them hold the entry. By construction: `write_to` needs the grant.
//! - M3 A new leader proposes, for each slot that a granted majority has an entry for, the entry
//!   with the highest ballot. By construction: `resolve`.
//! - M4 Delivery as in Velos (I4 there): a slot below a published decided prefix, from the own
//!   entry if it carries the publishing ballot, else the highest among a majority's.
//! - M5 An entry that may have helped a decision is not overwritten before its place is recycled:
//!   an interrupted WRITE would leave neither the old entry nor the new one. A place has two
//!   halves; a leader writes into the half that its ballot names, and before a member grants a
//!   ballot, it has, with every writer excluded, copied the newest entry of that half into the
//!   other. By construction: `clear_half` is called before `permit_writer` admits a writer; mutant
//!   `ONE_HALF`.
//! - M6 A log's owner can always write to it, so a log is granted only when everything that its
//!   owner has posted to it as a leader is over. Otherwise a late WRITE of its own would replace
//!   another leader's entry. By construction in `on_request`; mutant `GRANT_WHILE_WRITING`.
//! - M7 A new leader recovers no slot whose place may have been used again: a WRITE that was
//!   interrupted there leaves no trace of the entry before. A leader that writes slot s + ring has
//!   applied all but the window before it, so the granted majority names an entry of slot
//!   s + ring - window or later. And a majority has applied s, so one of the granted members has,
//!   and had stored so before that WRITE was posted: a prefix is stored as soon as it is applied
//!   (`store_applied`). By construction: `recover` asks them all, once they have granted, where
//!   such an entry is named; mutant `RECOVER_REUSED`.
//!
//! **Cost**: one WRITE to each member a value. Leader change: one message round trip, then one READ
//! and one WRITE round trip for each slot that the dead leader left (250 us and more on RDMA, where
//! the permission is a queue pair's; here one message).
//!
//! **Differs from the paper** (Mu, OSDI 2020): permission is requested by message, for the log
//! alone, so that heartbeats pass; a majority of grants suffices; entries carry their ballot; slots
//! are recycled when a majority has applied them; a place has two halves, so that a place's newest
//! entry is not overwritten by one for the same slot; followers forward reads, since nothing
//! one-sided shows them whether an entry is decided.

pub mod bugs;
#[cfg(test)]
mod golden;
mod grants;
mod leader;
mod learner;
mod recovery;
mod spec;
#[cfg(test)]
mod tests;
mod wire;

pub use spec::Spec;

use crate::candidacy::Candidacy;
use crate::clock::Clock;
use crate::node::{NodeConfig, Start};
use crate::planted::{Planting, Sound};
use crate::terms::Terms;
use crate::value;
use crate::{Host, LogShape, Note, Refused, Replicator, Role, Status, Ticket};
use alloc::vec::Vec;
use base::{
    At, Ballot, Event, Instant, MAX_MEMBERS, MemberSet, Outcome, Prefix, Rank, Slot, Token,
    majority,
};
use bugs::Bug;
use core::time::Duration;
use grants::Grants;
use leader::{Cell, Probes, Term};
use learner::Learner;

/// The interval at which messages that may be lost are repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(5);
/// The interval at which a state is requested again.
const STATE_EVERY: Duration = Duration::from_millis(100);

const LINE: u32 = 8;

/// The layout: owner's words, then one line a member for facts and applied prefixes, then the log.
/// Everything below the log has one writer; the log's owner permits the log's writer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    base: At,
    ring_mask: u64,
    area_words: u32,
    log: At,
}

/// One of the two halves of a place of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Half(u8);

impl Half {
    const BOTH: [Half; 2] = [Half(0), Half(1)];

    /// The half into which a leader writes under `ballot`. Any choice is safe; with this one most
    /// leaders find their predecessor's entries in the other half already.
    fn of(ballot: Ballot, planted: impl Planting<Bug>) -> Half {
        let round = ballot.0 / Ballot::STRIDE;
        if planted.has(Bug::OneHalf) { Half(0) } else { Half(((round ^ ballot.0) & 1) as u8) }
    }

    /// The half in which such a leader finds the earlier entries.
    fn before(ballot: Ballot, planted: impl Planting<Bug>) -> Half {
        if planted.has(Bug::OneHalf) { Half(0) } else { Half(1 - Half::of(ballot, planted).0) }
    }
}

impl Places {
    pub(crate) fn new(base: At, shape: &LogShape) -> Places {
        assert!(shape.ring_slots.is_power_of_two() && shape.ring_slots >= 16);
        let area_words = value::HEADER_WORDS as u32 + shape.value_bytes.div_ceil(8);
        let log = base.plus(LINE + 2 * LINE * MAX_MEMBERS as u32);
        Places { base, ring_mask: u64::from(shape.ring_slots) - 1, area_words, log }
    }

    pub(crate) const fn end(&self) -> At {
        // One more line holds a leader's proof that it may still write (`probe`).
        self.probe().plus(LINE)
    }

    const fn probe(&self) -> At {
        self.log.plus((self.ring_mask as u32 + 1) * 2 * self.area_words)
    }

    const fn promised(&self) -> At {
        self.base
    }

    const fn applied(&self, member: Rank) -> At {
        self.base.plus(LINE + LINE * member.index() as u32)
    }

    const fn fact(&self, leader: Rank) -> At {
        self.base.plus(LINE + LINE * (MAX_MEMBERS + leader.index()) as u32)
    }

    const fn ring_slots(&self) -> u64 {
        self.ring_mask + 1
    }

    const fn entry(&self, slot: Slot, half: Half) -> At {
        let area = (slot.0 & self.ring_mask) as u32 * 2 + half.0 as u32;
        self.log.plus(area * self.area_words)
    }
}

/// A leader's published decision, as in Velos.
#[derive(Clone, Copy, Debug, Default)]
struct Fact {
    ballot: Ballot,
    decided: Prefix,
}

/// One member of a Mu log.
#[derive(Debug)]
pub struct Mu<P: Planting<Bug> = Sound> {
    me: Rank,
    members: usize,
    places: Places,
    value_bytes_max: usize,
    window: u64,
    clock: Clock,
    candidacy: Candidacy,
    term: Option<Term>,
    terms: Terms,
    grants: Grants,
    applied: Prefix,
    told_applied: Prefix,
    applied_by: [Prefix; MAX_MEMBERS],
    failed: MemberSet,
    links: MemberSet,
    facts: [Fact; MAX_MEMBERS],
    cells: Vec<Cell>,
    probes: Probes,
    learner: Learner,
    planted: P,
}

impl<P: Planting<Bug>> Mu<P> {
    /// A member whose words begin at `base` of its region.
    ///
    /// # Errors
    /// [`base::verb::Unsupported`] where the fabric cannot keep a writer out.
    pub fn new<H: Host>(
        config: &NodeConfig,
        base: At,
        shape: &LogShape,
        planted: P,
        host: &mut H,
    ) -> Result<Mu<P>, base::verb::Unsupported> {
        let places = Places::new(base, shape);
        // M1: a leader that this member admitted in an earlier life has to ask again.
        host.permit_writer(places.log, Some(config.me))?;
        // This life must apply what an earlier life claimed, as in Velos.
        let claimed = Prefix(host.load(places.applied(config.me)));
        host.store(places.fact(config.me).plus(1), 0);
        let promised = match planted.has(Bug::ForgetPromise) {
            false => Ballot(host.load(places.promised())),
            true => Ballot::NONE,
        };
        let mut links = MemberSet::EMPTY;
        links.insert(config.me);
        let is_learner = config.start == Start::Reattach && !planted.has(Bug::ServeAsLearner);
        Ok(Mu {
            me: config.me,
            members: config.members,
            places,
            value_bytes_max: shape.value_bytes as usize,
            window: u64::from(shape.ring_slots / 4),
            clock: Clock::new(),
            candidacy: Candidacy::new(promised),
            term: None,
            terms: Terms::default(),
            grants: Grants::new(promised),
            applied: Prefix::ZERO,
            told_applied: Prefix::ZERO,
            applied_by: [Prefix::ZERO; MAX_MEMBERS],
            failed: MemberSet::EMPTY,
            links,
            facts: [Fact::default(); MAX_MEMBERS],
            cells: (0..shape.ring_slots).map(|_| Cell::default()).collect(),
            probes: Probes::default(),
            learner: Learner::new(is_learner, claimed),
            planted,
        })
    }

    /// Whether this member lacks state that it should hold.
    const fn is_learner(&self) -> bool {
        self.learner.lacks_state()
    }

    fn quorum(&self) -> usize {
        majority(self.members)
    }

    fn peers(&self) -> impl Iterator<Item = Rank> + use<P> {
        let me = self.me;
        Rank::all(self.members).filter(move |rank| *rank != me)
    }

    fn cell(&mut self, slot: Slot) -> &mut Cell {
        let index = (slot.0 & self.places.ring_mask) as usize;
        &mut self.cells[index]
    }

    fn decided_known(&self) -> Prefix {
        self.facts.iter().map(|fact| fact.decided).max().unwrap_or_default().max(self.applied)
    }

    fn note_fact(&mut self, of: Rank, ballot: Ballot, decided: Prefix) {
        let fact = &mut self.facts[of.index()];
        fact.ballot = fact.ballot.max(ballot);
        fact.decided = fact.decided.max(decided);
        self.candidacy.see(ballot);
    }

    fn read_words_of_peers<H: Host>(&mut self, host: &H) {
        for rank in self.peers() {
            // The prefix is loaded first, as in Velos: it is never paired with an older ballot.
            let decided = Prefix(host.load(self.places.fact(rank).plus(1)));
            let ballot = Ballot(host.load(self.places.fact(rank)));
            self.note_fact(rank, ballot, decided);
            self.applied_by[rank.index()] = Prefix(host.load(self.places.applied(rank)));
        }
    }

    fn applied_by_majority(&self) -> Prefix {
        let mut all = [Prefix::ZERO; MAX_MEMBERS];
        for rank in Rank::all(self.members) {
            all[rank.index()] = self.applied_by(rank);
        }
        let all = &mut all[..self.members];
        all.sort_unstable();
        all[self.members - self.quorum()]
    }

    fn deliver<H: Host>(&mut self, slot: Slot, words: &[u64], host: &mut H) {
        assert_eq!(slot, self.applied.next_slot(), "M4: delivered in slot order");
        host.deliver(slot, value::payload(words));
        self.applied = slot.prefix_through();
        self.learner.advance();
        self.store_applied(host);
    }

    /// Stores the applied prefix, before another member is told it and before this one uses a place
    /// again because of it (M7). A learner's word stays: the next life must know it too.
    fn store_applied<H: Host>(&self, host: &mut H) {
        if !self.is_learner() {
            host.store(self.places.applied(self.me), self.applied.0);
        }
    }

    fn tell_applied<H: Host>(&mut self, host: &mut H) {
        if self.applied > self.told_applied && !self.is_learner() {
            self.told_applied = self.applied;
            let at = self.places.applied(self.me);
            for rank in self.peers() {
                host.write(rank, at, &[self.applied.0], None);
            }
        }
    }

    fn request_state<H: Host>(&mut self, at_least: Prefix, host: &mut H) {
        if self.learner.asks_for_state(self.clock.now) {
            host.notify(Note::NeedState(at_least));
        }
        self.clock.nudge(self.clock.now.plus(STATE_EVERY));
    }

    /// Ends the term, since the owner of a granted log admits another writer: this node's writes
    /// are refused there.
    fn depose<H: Host>(&mut self, host: &mut H) {
        if let Some(term) = self.term.take() {
            host.notify(Note::Deposed { ballot: term.ballot });
            self.refuse_probes(host);
            let pause = REPEAT_AFTER * (1 + self.me.index() as u32);
            self.candidacy.put_off(self.clock.now.plus(pause));
        }
    }
}

impl<P: Planting<Bug>> Replicator for Mu<P> {
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
        self.depose(host);
        self.candidacy.distrust();
    }

    fn propose<H: Host>(
        &mut self,
        value: &[u8],
        now: Instant,
        host: &mut H,
    ) -> Result<Slot, Refused> {
        self.clock.now = now;
        self.propose_value(value, host)
    }

    fn read<H: Host>(&mut self, ticket: Ticket, now: Instant, host: &mut H) {
        self.clock.now = now;
        self.start_probe(ticket, host);
    }

    fn on_event<H: Host>(&mut self, event: Event<'_>, now: Instant, host: &mut H) {
        self.clock.now = now;
        match event {
            Event::Completed { from, token, outcome } => {
                self.on_completed(from, token, outcome, host);
            }
            Event::Message { from, bytes } => {
                if let Some(message) = wire::Message::decode(bytes) {
                    self.on_message(from, message, host);
                }
            }
            Event::ProcessFailed(rank) => {
                self.failed.insert(rank);
            }
            Event::LinkDown(rank) => {
                self.links.remove(rank);
                self.on_link_down(rank);
            }
            Event::LinkUp(rank) => {
                // (That its process lives is heard behind what it claims to have applied.)
                self.links.insert(rank);
                if rank != self.me {
                    let held = if self.is_learner() { 0 } else { self.applied.0 };
                    host.write(rank, self.places.applied(self.me), &[held], None);
                    self.on_link_up(rank, host);
                }
            }
        }
    }

    fn heard(&mut self, members: MemberSet) {
        self.failed = self.failed.difference(members);
    }

    fn poll<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.clock.now = now;
        self.read_words_of_peers(host);
        // (A state that was installed may have raised it.)
        self.store_applied(host);
        if self.clock.rings() {
            self.repeat_lost(host);
        }
        if self.term.is_none() {
            self.learn(host);
            if !self.is_learner() && self.candidacy.tries(now) {
                self.start_term(host);
            }
        }
        self.advance(host);
        self.publish(host);
        self.tell_applied(host);
    }

    fn deadline(&self) -> Option<Instant> {
        [self.clock.alarm(), self.candidacy.retry_at()].into_iter().flatten().min()
    }

    fn install<H: Host>(
        &mut self,
        applied: Prefix,
        _head: Option<crate::members::StateHead>,
        now: Instant,
        host: &mut H,
    ) {
        assert!(applied >= self.applied, "a state is not replaced by an older one");
        self.clock.now = now;
        if applied > self.applied {
            // M4: a later ballot may have decided these slots; this term must not vouch for what it
            // wrote there, nor continue where it was.
            self.depose(host);
            self.learner.advance();
        }
        self.applied = applied;
        self.learner.install(applied);
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
