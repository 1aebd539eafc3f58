//! Durable: Falcon's Paxos over one-sided writes, with every promise and copy on disk first.
//!
//! **Purpose.** A log of values that survives the crash, or the loss of power, of every member:
//! what a leader reports as decided is on the disks of a majority.
//!
//! **Assumes** T1, T2, T4, T5, T7 of the fabric and D1, D2 of [`crate::disk`]. Memory of a region
//! is never trusted over a restart: a machine then takes all its state from its disk.
//!
//! **Invariants**
//! - I1, I2, I3, I16 The durable part of the log: see `log`.
//! - I4 A vote and an acknowledgement leave when the promise of their ballot is durable; an
//!   acknowledgement covers only what is durable *and* was compared with that leader's log in that
//!   ballot. By construction: `pay_votes`, `acknowledge`. Simulated (mutants `VOTE_BEFORE_SYNC`,
//!   `ACK_BEFORE_SYNC`, `ACK_UNVERIFIED`, `PROMISE_DURING_SYNC`).
//! - I5 A member accepts entries of a ballot only while that is its promise. By construction: a
//!   higher promise ends `following`. Simulated (`ACCEPT_OLDER_BALLOT`).
//! - I6 A follower's log up to `verified` is the leader's: it starts at an entry of the same slot
//!   and ballot (or at the decided prefix), and each record names the ballot before it. By
//!   construction in `on_begin`, `take_entry`. Simulated (`SKIP_LOG_MATCH`).
//! - I7 A leader commits what a majority of the latest configuration holds durably, through an
//!   entry of its own ballot, and counts itself by the same rule as the others. By construction:
//!   `advance`. Simulated (`COUNT_SELF_EARLY`, `COMMIT_AT_ONE`, `COMMIT_OLDER_BALLOT`).
//! - I8 An elected leader holds every committed entry: a voter refuses a log older than its own and
//!   votes once a ballot, for one disk; a candidate needs a majority of the newest configuration of
//!   its log. By construction: `on_request_vote`, `count_votes`. Simulated (`ELECT_OLDER_LOG`,
//!   `ELECT_BY_ONE`, `VOTE_TWICE`).
//! - I9 No delivered entry is ever cut. Asserted in `take_entry`.
//! - I10 No torn, old or foreign words are accepted: see `places`.
//! - I11 A leader answers reads from a state that holds everything acknowledged before they came:
//!   it serves once an entry of its own ballot is committed, and a majority's *published* promises,
//!   READ after the reads came, are not above its ballot. A promise is published before its vote
//!   leaves. It names its disk, and counts for the seat of that disk alone: another disk on the
//!   seat, a later or an earlier one, knows nothing of it. A leader that falls refuses the reads
//!   that wait: what was READ for them says nothing of its next ballot. Simulated (`SERVE_EARLY`,
//!   `READ_WITHOUT_CHECK`, `ANY_ANSWER_SERVES`, `UNPUBLISHED_IS_WITNESS`, `ANY_DISK_IS_WITNESS`,
//!   `KEEP_READS`).
//! - I12 Configurations change by one voter at a time, each committed before the next and after an
//!   entry of the leader's own ballot, and count incarnations, not seats. By construction:
//!   `change`. Simulated (`COUNT_REMOVED`, `TWO_CHANGES`, `ANY_INCARNATION`,
//!   `CHANGE_BEFORE_OWN_ENTRY`).
//! - I15 A head names the members that govern the slots after its state: no member gives a head for
//!   more than it has applied, since the entries above in its log may never be decided. By
//!   construction:
//!   `state_head`. Tested (`HEAD_ABOVE_APPLIED`).
//! - I17 What a leader counts for a member was acknowledged by the incarnation that the newest
//!   configuration seats there. Asserted in `advance`. Simulated (`KEEP_OLD_ACKS`).
//!
//! **Liveness** L1 Under a stable Ω, working links and disks that sync, a value is decided in
//! bounded time: what is lost with a link is requested again, a stream that its follower does not
//! read is replaced, and a candidate whose log is too old, or that is outbid for long, steps aside
//! for another. A candidate waits for its own disk, and for each voter that says that its disk has
//! not taken the promise yet: no time is too short for slow disks. Only a disk that takes nothing,
//! for longer than it did lately (`disk::Trouble`), is not waited for. Tested
//! (`disks_that_are_all_slow_elect_a_leader`).
//!
//! ```text
//! leader        disk ============sync===>|
//!   |-- record --> ring of follower      | own copy counts
//!   |              copy, compare, append, ====sync===>|
//!   |<------------------------------------ ack -------|   majority: decided
//! ```
//!
//! **Cost**: one WRITE to each follower and one back; two syncs, one after the other in time only
//! by the WRITE between. Leader change: one sync at the candidate, one message round trip with a
//! sync at the voters, then one round trip to compare logs and one decision (the no-op).
//!
//! **Differs from the paper** (Falcon, sections 2 and 4; it leaves elections out). One ring for
//! each pair of writer and follower, so a deposed leader can overwrite only its own; a checksum for
//! a canary, since a WRITE has no order within (T3); one cumulative acknowledgement for an array of
//! them; the follower acknowledges after its sync, the leader counts itself after its own.

pub mod bugs;
mod election;
mod follower;
#[cfg(test)]
mod golden;
mod held;
mod leader;
mod log;
mod places;
mod progress;
mod reads;
mod spare;
mod spec;
mod standing;
mod streams;
#[cfg(test)]
mod tests;
mod turns;

pub mod offline;
mod wire;

pub use log::Unusable;
pub(crate) use places::Places;
use places::Published;
pub use spec::Spec;

use crate::disk::{DiskEvent, Trouble};
use crate::members::{Change, ChangeRefused, Configuration, MEMBERS_BYTES, Members, StateHead};
use crate::node::{NodeConfig, Start};
use crate::planted::{Planting, Sound};
use crate::{Host, LogShape, Note, Refused, Replicator, Role, Status, Ticket};
use alloc::boxed::Box;
use alloc::vec::Vec;
use base::{At, Ballot, Event, Incarnation, Instant, MemberSet, Prefix, Rank, Slot};
use bugs::Bug;
use core::time::Duration;
use election::{Candidacy, votes};
use follower::Following;
use leader::Term;
use log::Log;
use progress::Progress;
use reads::Reads;
use standing::Standing;
use wire::Message;

/// The interval at which messages that may be lost are repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(10);
/// The interval at which a state is requested again.
const STATE_EVERY: Duration = Duration::from_millis(100);

/// The role of this node.
#[derive(Debug)]
enum Office {
    None,
    Candidate(Candidacy),
    Leader(Box<Term>),
}

/// The figures that do not change.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The bytes of the longest value.
    value_bytes: usize,
    /// The slots between the first undecided one and the last that may be proposed.
    window: u64,
    /// The number of slots below a snapshot that are kept for members that lag.
    keep: u64,
    /// The fabric's capability of that name: peers need no waking.
    peer_works: bool,
}

/// One member of a durable log.
#[derive(Debug)]
pub struct Durable<P: Planting<Bug> = Sound> {
    me: Rank,
    places: Places,
    limits: Limits,
    now: Instant,
    log: Log,
    progress: Progress,
    office: Office,
    following: Option<Following>,
    standing: Standing,
    trouble: Trouble,
    nudge_at: Option<Instant>,
    state_asked_at: Option<Instant>,
    reads: Reads,
    /// The members that have work to do since the last wake-up.
    to_wake: MemberSet,
    scratch: Vec<u8>,
    record: Vec<u64>,
    planted: P,
}

fn disk<H: Host>(host: &mut H) -> &mut H::Disk {
    host.disk().expect("a host keeps the disk that it had when the machine was made")
}

impl<P: Planting<Bug>> Durable<P> {
    /// A member whose words begin at `base` of its region.
    ///
    /// # Errors
    /// [`Unusable`]: the host has no disk, or one that does not fit how this life starts.
    pub fn new<H: Host>(
        config: &NodeConfig,
        base: At,
        shape: &LogShape,
        planted: P,
        host: &mut H,
    ) -> Result<Durable<P>, Unusable> {
        let tail_max = shape.ring_slots as usize * 2;
        let disk = host.disk().ok_or(Unusable::NoDisk)?;
        let (log, applied) = match config.start {
            Start::Bootstrap => {
                let first = Members::first(MemberSet::all(config.members));
                (Log::create(Incarnation::FIRST, Some(first), tail_max, disk)?, Prefix::ZERO)
            }
            Start::Found { voters } => {
                let first = Members::first(voters);
                (Log::create(Incarnation::FIRST, Some(first), tail_max, disk)?, Prefix::ZERO)
            }
            Start::Join { incarnation } => {
                (Log::create(incarnation, None, tail_max, disk)?, Prefix::ZERO)
            }
            Start::Recovered { applied, head } => {
                let mut log = Log::recover(planted, tail_max, disk)?;
                log.continue_from(planted, applied, head, disk);
                (log, applied)
            }
            // The region holds nothing that a durable member may use.
            Start::Reattach => return Err(Unusable::Empty),
        };
        let places = Places::new(base, config.members, shape);
        let progress = Progress::new(applied, log.start());
        let mut node = Durable {
            me: config.me,
            places,
            limits: Limits {
                value_bytes: shape.value_bytes as usize,
                window: u64::from(shape.ring_slots),
                keep: u64::from(shape.ring_slots) * 4,
                peer_works: config.peer_works,
            },
            now: Instant::ZERO,
            standing: Standing::new(log.promised()),
            log,
            office: Office::None,
            following: None,
            trouble: Trouble::default(),
            // A leader whose stream continues the own log does not say that a state lacks.
            nudge_at: progress.lacks.map(|_| Instant::ZERO),
            progress,
            state_asked_at: None,
            reads: Reads::default(),
            to_wake: MemberSet::EMPTY,
            scratch: Vec::new(),
            record: Vec::new(),
            planted,
        };
        // I11: an earlier life of this disk published no promise above this one.
        node.publish_promise(host);
        node.flush(host);
        Ok(node)
    }

    /// Frees what a snapshot covers, as far as the log is durable. (A log that was just recovered
    /// is not known to be.)
    fn free<H: Host>(&mut self, host: &mut H) {
        self.log.free_below(self.progress.to_free.min(self.log.durable()), disk(host));
        self.flush(host);
    }

    fn flush<H: Host>(&mut self, host: &mut H) {
        self.log.flush(disk(host));
    }

    /// Whether this disk is a voter, or was before a change that is not known to be decided: it may
    /// be the only one that holds that change, and then no other member can be elected.
    fn may_lead(&self) -> bool {
        let mut last = self.log.last_members(self.progress.committed);
        last.any(|(_, members)| votes(self.me, &self.log, members))
    }

    /// Publishes the promise for readers (I11).
    fn publish_promise<H: Host>(&self, host: &mut H) {
        let (promised, by) = (self.log.promised(), self.log.incarnation());
        let mut at = self.places.promised();
        for word in (Published { promised, by }).encode() {
            host.store(at, word);
            at = at.plus(1);
        }
    }

    fn is_well(&self) -> bool {
        !self.trouble.lasts(self.now)
    }

    /// The others can decide without a disk that is in trouble; with this member as the leader they
    /// would wait for it.
    fn mind_disk<H: Host>(&mut self, host: &mut H) {
        if !self.is_well() {
            self.depose(host);
        }
    }

    /// Delivers the committed entries.
    fn deliver<H: Host>(&mut self, host: &mut H) {
        let mut scratch = core::mem::take(&mut self.scratch);
        while self.progress.lacks.is_none() && self.progress.applied < self.progress.committed {
            let slot = self.progress.applied.next_slot();
            assert!(self.log.has(slot), "I9: {slot} is committed, not applied, and not in the log");
            // D5: the disk has failed.
            let Some((head, payload)) = self.log.payload(slot, disk(host), &mut scratch) else {
                break;
            };
            let is_value = head.view & log::IS_CONFIGURATION == 0;
            host.deliver(slot, if is_value { payload } else { &[] });
            self.progress.applied = slot.prefix_through();
        }
        self.scratch = scratch;
    }

    fn request_state<H: Host>(&mut self, at_least: Prefix, host: &mut H) {
        if self.state_asked_at.is_none_or(|at| self.now.since(at) >= STATE_EVERY) {
            self.state_asked_at = Some(self.now);
            host.notify(Note::NeedState(at_least));
        }
        self.nudge(STATE_EVERY);
    }

    fn nudge(&mut self, after: Duration) {
        let at = self.now.plus(after);
        self.nudge_at = Some(self.nudge_at.map_or(at, |before| before.min(at)));
    }

    fn post<H: Host>(&mut self, to: Rank, message: &Message, host: &mut H) {
        // A full queue has the effect of a loss: a waiting member asks again.
        let _sent = host.send(to, &message.encode());
        self.to_wake.insert(to);
    }

    /// This node no longer leads, nor tries to.
    fn depose<H: Host>(&mut self, host: &mut H) {
        let ballot = match core::mem::replace(&mut self.office, Office::None) {
            Office::None => return,
            Office::Candidate(candidacy) => candidacy.ballot,
            Office::Leader(term) => term.ballot,
        };
        self.standing.retry_at = Some(self.now.plus(self.backoff()));
        host.notify(Note::Deposed { ballot });
        if self.planted.has(Bug::KeepReads) {
            return;
        }
        for ticket in self.reads.end_all() {
            host.notify(Note::ReadRefused(ticket));
        }
    }

    /// The pause before a retry: of two candidates the lower one tries again first.
    const fn backoff(&self) -> Duration {
        Duration::from_millis(10 * (1 + self.me.index() as u64))
    }
}

impl<P: Planting<Bug>> Replicator for Durable<P> {
    fn value_bytes_max(&self) -> usize {
        self.limits.value_bytes
    }

    fn lead<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.now = now;
        self.standing.trusted = true;
        self.campaign(host);
        self.wake(host);
    }

    fn follow<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.now = now;
        self.standing.trusted = false;
        self.depose(host);
        self.standing.retry_at = None;
        self.standing.tries_since = None;
    }

    fn propose<H: Host>(
        &mut self,
        value: &[u8],
        now: Instant,
        host: &mut H,
    ) -> Result<Slot, Refused> {
        self.now = now;
        let slot = self.propose_value(value, host);
        self.wake(host);
        slot
    }

    fn read<H: Host>(&mut self, ticket: Ticket, now: Instant, host: &mut H) {
        self.now = now;
        self.start_probe(ticket, host);
    }

    fn on_event<H: Host>(&mut self, event: Event<'_>, now: Instant, host: &mut H) {
        self.now = now;
        match event {
            Event::Completed { from, token, outcome } => {
                self.on_probed(from, token, outcome, host);
            }
            Event::Message { from, bytes } => {
                if let Some(message) = Message::decode(bytes) {
                    self.on_message(from, message, host);
                }
            }
            Event::LinkDown(rank) => self.on_link_down(rank),
            Event::LinkUp(rank) => self.on_link_up(rank, host),
            // This is a hint (T8), for Ω: only a member that acknowledges counts here.
            Event::ProcessFailed(_) => {}
        }
        self.wake(host);
    }

    /// Frees the log's space below the snapshot, except what lagging members may still ask for.
    fn snapshotted<H: Host>(&mut self, prefix: Prefix, host: &mut H) {
        assert!(prefix <= self.progress.applied, "a state covers what was applied");
        let mut low = prefix;
        if let Office::Leader(term) = &self.office {
            let bound = Prefix(prefix.0.saturating_sub(self.limits.keep));
            let keeps_all = self.planted.has(Bug::KeepForLaggards);
            low = low.min(term.slowest().max(if keeps_all { Prefix::ZERO } else { bound }));
        }
        self.progress.to_free = low;
        self.free(host);
    }

    fn on_disk<H: Host>(&mut self, event: DiskEvent, now: Instant, host: &mut H) {
        self.now = now;
        self.trouble.hear(event, now);
        if let DiskEvent::Synced(flush) = event {
            self.log.synced(self.planted, flush, disk(host));
        }
        self.mind_disk(host);
        self.after_sync(host);
        self.wake(host);
    }

    fn configuration(&self) -> Option<Configuration> {
        let (at, members) = *self.log.members()?;
        let is_decided = at <= self.progress.committed;
        let leaving = match self.log.members_before() {
            Some((_, before)) if !is_decided => before.voters.difference(members.voters),
            _ => MemberSet::EMPTY,
        };
        Some(Configuration { at, members, is_decided, leaving })
    }

    fn candidates(&self) -> Option<MemberSet> {
        // A change that may yet be undone excludes no candidate: others may not know of it.
        let last =
            self.log.last_members(self.progress.committed).chain(&self.progress.told_members);
        last.map(|(_, members)| members.voters).reduce(MemberSet::union)
    }

    fn electors(&self) -> Option<MemberSet> {
        let newest = self.log.members().into_iter().chain(&self.progress.told_members);
        newest.max_by_key(|(at, _)| *at).map(|(_, members)| members.voters)
    }

    fn follows(&self) -> Option<Rank> {
        let following = self.following.as_ref()?;
        let is_last = following.ballot == self.log.promised();
        (is_last && !self.planted.has(Bug::IgnoreWinner)).then_some(following.leader)
    }

    fn incarnation(&self) -> Incarnation {
        self.log.incarnation()
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
        self.now = now;
        self.begin_change(change, host)
    }

    fn can_lead(&self) -> bool {
        // A member that lacks what it knows to be decided cannot be elected (I8). It must not try:
        // it would have to keep to ballots of its own, and so depose the leader that sends it more.
        self.progress.lacks.is_none()
            && self.log.end() >= self.progress.told
            && self.is_well()
            && self.may_lead()
            && self.standing.aside_until.is_none()
    }

    fn heard(&mut self, _: MemberSet) {}

    fn poll<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.now = now;
        if self.standing.aside_until.is_some_and(|at| at <= now) {
            self.standing.aside_until = None;
        }
        self.mind_disk(host);
        if self.standing.retry_at.is_none_or(|at| at <= now) {
            self.standing.retry_at = None;
            self.campaign(host);
        }
        if self.nudge_at.is_some_and(|at| at <= now) {
            self.nudge_at = None;
            self.on_nudge(host);
        }
        self.consume(host);
        self.read_acks(host);
        self.advance(host);
        self.flush(host);
        self.acknowledge(host);
        self.feed_all(host);
        self.wake(host);
    }

    fn deadline(&self) -> Option<Instant> {
        let Standing { retry_at, aside_until, .. } = self.standing;
        // (A stall that lasts is known, and needs no further look.)
        let stalled_at = self.trouble.tolerated_until().filter(|at| *at > self.now);
        let all = [self.nudge_at, retry_at, aside_until, self.released_at(), stalled_at];
        all.into_iter().flatten().min()
    }

    fn state_head(&self, prefix: Prefix) -> Option<StateHead> {
        // I15.
        let is_decided = prefix <= self.progress.applied || self.planted.has(Bug::HeadAboveApplied);
        if is_decided { self.log.state_head(prefix) } else { None }
    }

    fn install<H: Host>(
        &mut self,
        applied: Prefix,
        head: Option<StateHead>,
        now: Instant,
        host: &mut H,
    ) {
        assert!(applied >= self.progress.applied, "a state is not replaced by an older one");
        self.now = now;
        if applied > self.progress.applied {
            // (One that brings nothing is not asked for again at once.)
            self.state_asked_at = None;
        }
        if applied > self.progress.committed {
            // It is unknown here whether the own log agrees with the state.
            self.depose(host);
            self.progress.installed = applied;
            self.log.continue_from(self.planted, applied, head, disk(host));
        }
        self.progress.applied = applied;
        self.progress.committed = self.progress.committed.max(applied);
        self.progress.lacks = self.progress.lacks.filter(|lacks| applied < *lacks);
        self.flush(host);
        self.go_on_after(applied, host);
        self.wake(host);
    }

    fn status(&self) -> Status {
        let known = self.following.as_ref().map_or(self.log.promised(), |of| of.ballot);
        let (role, ballot) = match &self.office {
            _ if self.progress.lacks.is_some() => (Role::Learner, known),
            Office::Leader(term) if term.announced => (Role::Leader, term.ballot),
            Office::Leader(term) => (Role::Candidate, term.ballot),
            Office::Candidate(candidacy) => (Role::Candidate, candidacy.ballot),
            Office::None => (Role::Follower, known),
        };
        Status { role, ballot, committed: self.progress.committed, applied: self.progress.applied }
    }

    fn holders(&self, prefix: Prefix) -> MemberSet {
        let all = self.log.members().map(|(_, members)| members.all()).unwrap_or_default();
        all.iter().filter(|rank| self.applied_by(*rank) >= prefix).collect()
    }

    fn held_by_all(&self) -> Prefix {
        self.held()
    }

    fn hasten<H: Host>(&mut self, prefix: Prefix, now: Instant, host: &mut H) {
        self.now = now;
        self.release_below(prefix, host);
    }

    /// The prefix that `member` is known to hold on its disk: this protocol learns nothing else.
    fn applied_by(&self, member: Rank) -> Prefix {
        match &self.office {
            _ if self.progress.lacks.is_some() => Prefix::ZERO,
            _ if member == self.me => self.log.durable().min(self.progress.committed),
            Office::Leader(term) => term.held_at(member, self.planted),
            Office::None | Office::Candidate(_) => Prefix::ZERO,
        }
    }
}
