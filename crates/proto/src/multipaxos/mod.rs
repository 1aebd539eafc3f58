//! Multi-Paxos: a log decided by messages to acceptors, under a stable leader with a read lease.
//!
//! **Purpose.** The protocol that others are compared with: one message round trip a value, on any
//! fabric, without one-sided memory. A leader with a lease answers reads by itself.
//!
//! **Assumes** T2, T5 of the fabric (messages are lost with their link only, whole and in order);
//! that a member's region outlives its process, or the process does not come back as that member;
//! and, for leases alone, that every clock runs at a rate at most [`lease::CLOCK_RATE_PERMILLE`]
//! from true, without jumps.
//!
//! **Invariants**
//! - A1 to A4 What a member has promised and accepted, it has over restarts: see `acceptor`.
//! - P1 A leader proposes in a slot only one value a ballot, and ballots are used once: the own
//!   acceptor promises a ballot before another is asked. By construction: `stand`, `accept_own`.
//! - P2 A member accepts in a ballot only while that is its promise, and only what follows
//!   immediately in the stream that began with that promise. By construction: `on_accept`.
//!   Simulated (`ACCEPT_OLDER_BALLOT`).
//! - P3 A promise counts when all that came with it has arrived, and only if the acceptor still
//!   holds everything from the candidate's applied prefix on. By construction: `on_promise`,
//!   `is_witness`. Tested (`COUNT_PARTIAL_PROMISE`, `IGNORE_FLOOR`).
//! - P4 A new leader proposes, for each open slot, what a majority's promises hold in the highest
//!   ballot, before anything of its own. By construction: `begin_term`. Simulated
//!   (`IGNORE_FOUND_VALUE`, `ADOPT_LOWEST`).
//! - P5 A position covers what was accepted in this ballot and stream, or was decided before. What
//!   a majority's positions cover is decided. By construction: `advance`. Simulated
//!   (`COMMIT_AT_ONE`).
//! - P6 A follower applies what it accepted in the ballot of the leader that says so. Asserted in
//!   `apply_accepted`; simulated (`APPLY_BARE_INDEX`).
//! - P7 A leader serves once everything that promises came with is decided and applied. By
//!   construction: `announced`. Simulated (`SERVE_EARLY`).
//! - P8 A leader sends of its ring what it proposed itself, or applied from there: what lies below
//!   a state that was installed may be what lost. By construction: `feed`. Simulated
//!   (`FEED_BELOW_STATE`).
//! - L1 to L4 Reads: see `lease`.
//!
//! **Liveness** Under a stable Ω and working links a value is decided in bounded time: a member
//! that says nothing for a while is asked to begin its stream once more, less and less often.
//!
//! ```text
//! leader    |-- Accept (slot, value, decided prefix) --> follower
//!           |<-- Accepted (position) -------------------|   majority: decided
//! ```
//!
//! **Cost**: one message to each follower a value and one back for many; a decided prefix goes with
//! the next value, or alone without one. Leader change: what [`lease`] makes it wait for, one
//! message round trip, and one for what is open.
//!
//! **Limits** Members never change, and there is no disk: what a majority's memory holds survives.
//! A member whose region is gone cannot come back.

mod acceptor;
pub mod bugs;
mod candidate;
mod follower;
#[cfg(test)]
mod golden;
mod leader;
pub mod lease;
mod spec;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use acceptor::Places;
pub use spec::Spec;

use crate::members::StateHead;
use crate::node::{NodeConfig, Start};
use crate::planted::{Planting, Sound};
use crate::{Host, LogShape, Note, Refused, Replicator, Role, Status, Ticket};
use acceptor::Acceptor;
use alloc::boxed::Box;
use alloc::vec::Vec;
use base::{At, Ballot, Event, Instant, MemberSet, Prefix, Rank, Slot, majority};
use bugs::Bug;
use candidate::Candidacy;
use core::time::Duration;
use follower::Following;
use leader::Term;
use lease::Grant;
use wire::Message;

/// How soon what may have been lost is asked for again, at first and at most.
const PATIENCE: Duration = Duration::from_millis(10);
const PATIENCE_MAX: Duration = Duration::from_millis(640);
/// How often a state is asked for again.
const STATE_EVERY: Duration = Duration::from_millis(100);

/// By what right this node acts.
#[derive(Debug)]
enum Office {
    None,
    Candidate(Box<Candidacy>),
    Leader(Box<Term>),
}

/// When something is to be looked at even if nothing happens.
#[derive(Clone, Copy, Debug, Default)]
struct Alarms {
    retry: Option<Instant>,
    nudge: Option<Instant>,
    state_asked: Option<Instant>,
}

/// One member of a Multi-Paxos log.
#[derive(Debug)]
pub struct MultiPaxos<P: Planting<Bug> = Sound> {
    me: Rank,
    members: usize,
    value_bytes_max: usize,
    now: Instant,

    acceptor: Acceptor,
    grant: Grant,
    /// This life does not yet have the state that an earlier one claimed to have applied.
    is_learner: bool,
    claimed: Prefix,
    applied: Prefix,
    /// What the state that was installed last covers: what the acceptor holds below was perhaps
    /// never decided (P8).
    installed: Prefix,
    /// Every slot below is decided, as far as this node has heard.
    committed: Prefix,
    /// The highest ballot heard of.
    highest: Ballot,

    trusted: bool,
    office: Office,
    following: Option<Following>,
    alarms: Alarms,
    /// Whose processors have something to do since the last post.
    to_wake: MemberSet,
    bytes: Vec<u8>,
    planted: P,
}

impl<P: Planting<Bug>> MultiPaxos<P> {
    /// A member whose words begin at `base` of its region.
    pub fn new<H: Host>(
        config: &NodeConfig,
        base: At,
        shape: &LogShape,
        planted: P,
        host: &mut H,
    ) -> MultiPaxos<P> {
        let acceptor = Acceptor::load(Places::new(base, shape), planted, host);
        let is_again = config.start == Start::Reattach;
        let holder = acceptor.promised().proposer().filter(|_| is_again);
        MultiPaxos {
            me: config.me,
            members: config.members,
            value_bytes_max: shape.value_bytes as usize,
            now: Instant::ZERO,
            grant: Grant::of_an_earlier_life(holder, planted),
            is_learner: is_again && !planted.has(Bug::ServeAsLearner),
            claimed: acceptor.decided(),
            applied: Prefix::ZERO,
            installed: Prefix::ZERO,
            committed: acceptor.decided(),
            highest: acceptor.promised(),
            acceptor,
            trusted: false,
            office: Office::None,
            following: None,
            alarms: Alarms::default(),
            to_wake: MemberSet::EMPTY,
            bytes: Vec::new(),
            planted,
        }
    }

    fn quorum(&self) -> usize {
        majority(self.members)
    }

    fn peers(&self) -> impl Iterator<Item = Rank> + use<P> {
        let me = self.me;
        Rank::all(self.members).filter(move |rank| *rank != me)
    }

    /// It is `now`, or later: what is told within one turn may be older than what was told last.
    fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.grant.tick(self.now);
    }

    /// False if there is no room: the member that waits asks again.
    fn post<H: Host>(&mut self, to: Rank, message: &Message<'_>, host: &mut H) -> bool {
        message.encode(&mut self.bytes);
        self.to_wake.insert(to);
        host.send(to, &self.bytes)
    }

    fn wake<H: Host>(&mut self, host: &mut H) {
        let to_wake = core::mem::take(&mut self.to_wake);
        to_wake.iter().for_each(|rank| host.wake(rank));
    }

    fn nudge(&mut self, after: Duration) {
        let at = self.now.plus(after);
        self.alarms.nudge = Some(self.alarms.nudge.map_or(at, |before| before.min(at)));
    }

    fn request_state<H: Host>(&mut self, at_least: Prefix, host: &mut H) {
        if self.alarms.state_asked.is_none_or(|at| self.now.since(at) >= STATE_EVERY) {
            self.alarms.state_asked = Some(self.now);
            host.notify(Note::NeedState(at_least));
        }
        self.nudge(STATE_EVERY);
    }

    /// Delivers the accepted value of the next slot, if it is held.
    fn deliver<H: Host>(&mut self, host: &mut H) -> bool {
        let slot = self.applied.next_slot();
        let Some(value) = self.acceptor.value(slot, host) else { return false };
        // The state machine is handed a copy: it may look at the host.
        let value = value.to_vec();
        host.deliver(slot, &value);
        self.applied = slot.prefix_through();
        self.acceptor.decide(self.applied, host);
        self.alarms.state_asked = None;
        true
    }

    /// This node no longer leads, nor tries to.
    fn depose<H: Host>(&mut self, host: &mut H) {
        let (ballot, checks) = match core::mem::replace(&mut self.office, Office::None) {
            Office::None => return,
            Office::Candidate(candidacy) => (candidacy.ballot, Vec::new()),
            Office::Leader(term) => (term.ballot, term.checks),
        };
        // Of two that try at once the lower one tries again first.
        let pause = PATIENCE * (1 + self.me.index() as u32);
        self.alarms.retry = Some(self.now.plus(pause));
        host.notify(Note::Deposed { ballot });
        for check in checks {
            host.notify(Note::ReadRefused(check.ticket));
        }
    }

    fn on_denied<H: Host>(&mut self, ballot: Ballot, promised: Ballot, host: &mut H) {
        self.highest = self.highest.max(promised);
        let own = match &self.office {
            Office::None => return,
            Office::Candidate(candidacy) => candidacy.ballot,
            Office::Leader(term) => term.ballot,
        };
        if own == ballot && promised > ballot {
            self.depose(host);
        }
    }

    fn on_message<H: Host>(&mut self, from: Rank, message: Message<'_>, host: &mut H) {
        match message {
            Message::Prepare { ballot, stream, from: first } => {
                self.on_prepare(from, (ballot, stream), first, host);
            }
            Message::Held { ballot, stream, index, slot, accepted, value } => {
                self.on_held(from, (ballot, stream), index, (slot, accepted, value));
            }
            Message::Promise { ballot, stream, n_held, floor, position } => {
                self.on_promise(from, (ballot, stream), n_held, (floor, position), host);
            }
            Message::Denied { ballot, promised } => self.on_denied(ballot, promised, host),
            Message::Accept { ballot, stream, slot, committed, value } => {
                self.on_accept(from, (ballot, stream), slot, value, host);
                self.on_decided((ballot, stream), committed, host);
            }
            Message::Decided { ballot, stream, committed } => {
                self.on_decided((ballot, stream), committed, host);
            }
            Message::Accepted { ballot, stream, position, decided, applied } => {
                self.on_accepted(from, (ballot, stream), [position, decided, applied], host);
            }
            Message::Behind { ballot, start } => self.on_behind(ballot, start, host),
            Message::Ask { ballot, number, at } => self.on_ask(from, ballot, (number, at), host),
            Message::Granted { ballot, number, at } => {
                self.on_granted(from, ballot, (number, at), host);
            }
        }
    }

    fn on_nudge<H: Host>(&mut self, host: &mut H) {
        self.repeat_prepares(host);
        self.mind_stalled(host);
        self.repeat_ask(host);
        self.pay_promise(host);
    }

    /// Whatever follows from what has been told, whichever office this node has.
    fn settle<H: Host>(&mut self, host: &mut H) {
        if self.alarms.nudge.is_some_and(|at| at <= self.now) {
            self.alarms.nudge = None;
            self.on_nudge(host);
        }
        self.take_deferred_prepare(host);
        if self.is_learner {
            self.request_state(self.claimed.max(self.committed), host);
        }
        let is_due = self.alarms.retry.is_none_or(|at| at <= self.now);
        if self.trusted && is_due && matches!(self.office, Office::None) {
            self.stand(host);
        }
        self.advance(host);
        self.apply_accepted(host);
        self.acknowledge(host);
        self.wake(host);
    }
}

impl<P: Planting<Bug>> Replicator for MultiPaxos<P> {
    fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    fn lead<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.tick(now);
        self.trusted = true;
        self.settle(host);
    }

    fn follow<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.tick(now);
        self.trusted = false;
        self.depose(host);
        self.alarms.retry = None;
    }

    fn propose<H: Host>(
        &mut self,
        value: &[u8],
        now: Instant,
        host: &mut H,
    ) -> Result<Slot, Refused> {
        self.tick(now);
        let slot = self.propose_value(value, host);
        self.wake(host);
        slot
    }

    fn read<H: Host>(&mut self, ticket: Ticket, now: Instant, host: &mut H) {
        self.tick(now);
        self.start_check(ticket, host);
        self.wake(host);
    }

    fn on_event<H: Host>(&mut self, event: Event<'_>, now: Instant, host: &mut H) {
        self.tick(now);
        match event {
            Event::Message { from, bytes } => {
                if let Some(message) = Message::decode(bytes) {
                    self.on_message(from, message, host);
                }
            }
            Event::LinkUp(rank) => self.on_link_up(rank, host),
            // No verb is posted with a token. A dead member, and what a broken link has lost, are
            // seen by what does not come.
            Event::Completed { .. } | Event::ProcessFailed(_) | Event::LinkDown(_) => {}
        }
    }

    fn heard(&mut self, _: MemberSet) {}

    fn poll<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.tick(now);
        self.settle(host);
    }

    fn deadline(&self) -> Option<Instant> {
        let retry = self.alarms.retry.filter(|_| self.trusted);
        [retry, self.alarms.nudge, self.grant_deadline()].into_iter().flatten().min()
    }

    fn install<H: Host>(
        &mut self,
        applied: Prefix,
        _head: Option<StateHead>,
        now: Instant,
        host: &mut H,
    ) {
        assert!(applied >= self.applied, "a state is not replaced by an older one");
        self.tick(now);
        if applied > self.applied {
            self.depose(host);
            self.alarms.retry = None;
            self.continue_behind(applied);
            self.installed = applied;
            // (A state that brings nothing is not asked for again at once: the others may have no
            // more for as long as another member is away.)
            self.alarms.state_asked = None;
        }
        self.is_learner = applied < self.claimed;
        self.applied = applied;
        self.committed = self.committed.max(applied);
        self.acceptor.decide(applied, host);
        self.settle(host);
    }

    fn status(&self) -> Status {
        let (role, ballot) = match &self.office {
            _ if self.is_learner => (Role::Learner, self.highest),
            Office::Leader(term) if term.announced => (Role::Leader, term.ballot),
            Office::Leader(term) => (Role::Candidate, term.ballot),
            Office::Candidate(candidacy) => (Role::Candidate, candidacy.ballot),
            Office::None => (Role::Follower, self.highest),
        };
        Status { role, ballot, committed: self.committed, applied: self.applied }
    }

    fn holders(&self, prefix: Prefix) -> MemberSet {
        Rank::all(self.members).filter(|rank| self.applied_by(*rank) >= prefix).collect()
    }

    fn applied_by(&self, member: Rank) -> Prefix {
        match &self.office {
            _ if member == self.me => self.applied,
            Office::Leader(term) => term.peers[member.index()].applied,
            Office::None | Office::Candidate(_) => Prefix::ZERO,
        }
    }
}
