//! One member: Ω and a replication machine together.
//!
//! - I1 The machine is ordered to lead when and only when Ω trusts this member, and a member
//!   without the state is never trusted. By construction: [`Node::poll`] is the one place, and
//!   `able` follows the machine's role.
//!
//! Region: Ω's words first, the machine's after them.

use crate::disk::DiskEvent;
use crate::members::{Change, ChangeRefused, Configuration, StateHead};
use crate::omega::{self, Omega};
use crate::{Host, LogShape, Refused, Replicator, Status, Ticket};
use base::{At, Event, Incarnation, Instant, MemberSet, Prefix, Rank, Slot};
pub use omega::Timing;

/// The way in which a member starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With a new region, as one of a new cluster's members: the empty state is the state.
    Bootstrap,
    /// The same, where only some of the seats are taken at first; only where members change.
    Found {
        /// The seats that are taken.
        voters: MemberSet,
    },
    /// With the region of an earlier life, and without the state.
    Reattach,
    /// With the disk of an earlier life, and with the state of `applied` from its last snapshot.
    Recovered {
        /// The prefix that the state covers; zero if there was no snapshot.
        applied: Prefix,
        /// The head that was kept beside it ([`Replicator::state_head`]).
        head: Option<StateHead>,
    },
    /// With an empty disk, or new memory, on a seat of an existing cluster: it learns, and counts
    /// only when the members' configuration names it.
    Join {
        /// An incarnation above every earlier one on the seat.
        incarnation: Incarnation,
    },
}

/// The parameters of a member.
#[derive(Clone, Copy, Debug)]
pub struct NodeConfig {
    /// The rank of this member.
    pub me: Rank,
    /// The number of members.
    pub members: usize,
    /// The way in which it starts.
    pub start: Start,
    /// Heartbeats and suspicion.
    pub timing: Timing,
    /// The fabric's capability of that name.
    pub memory_outlives_process: bool,
    /// The fabric's capability of that name: peers need no waking.
    pub peer_works: bool,
}

/// The size of a region, and a fingerprint of its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The words of protocol memory.
    pub n_words: u32,
    /// A hash that differs if anything about the layout differs.
    pub fingerprint: u64,
}

impl Layout {
    /// An empty region, for a protocol that only sends messages.
    pub(crate) fn of_messages(name: &str, members: usize) -> Layout {
        let text = alloc::format!("{name} {members}");
        Layout { n_words: 1, fingerprint: xxhash_rust::xxh3::xxh3_64(text.as_bytes()) }
    }

    /// A region that ends at `end`, for a protocol whose layout has this name and version.
    pub(crate) fn new(name: &str, members: usize, shape: &LogShape, end: At) -> Layout {
        let text = alloc::format!("{name} {members} {} {}", shape.ring_slots, shape.value_bytes);
        Layout { n_words: end.0, fingerprint: xxhash_rust::xxh3::xxh3_64(text.as_bytes()) }
    }
}

/// One member of a replicated log.
#[derive(Debug)]
pub struct Node<R> {
    me: Rank,
    omega: Omega,
    machine: R,
    leads: bool,
}

impl<R: Replicator> Node<R> {
    /// A member. Ω's words lie at the region's start, whatever the machine.
    pub fn new(config: &NodeConfig, machine: R) -> Node<R> {
        let able = machine.can_lead();
        let omega = Omega::new(
            config.me,
            config.members,
            At(0),
            config.timing,
            config.memory_outlives_process,
            able,
        );
        Node { me: config.me, omega, machine, leads: false }
    }

    /// Takes one event of the fabric. Messages: only those of [`crate::MESSAGE_CHANNEL`].
    pub fn on_event<H: Host>(&mut self, event: Event<'_>, now: Instant, host: &mut H) {
        self.omega.on_event(&event);
        self.machine.on_event(event, now, host);
        if matches!(event, Event::ProcessFailed(_)) {
            self.poll(now, host);
        }
    }

    /// Takes one event of the disk.
    pub fn on_disk<H: Host>(&mut self, event: DiskEvent, now: Instant, host: &mut H) {
        self.machine.on_disk(event, now, host);
    }

    /// See [`Replicator::snapshotted`].
    pub fn snapshotted<H: Host>(&mut self, prefix: Prefix, host: &mut H) {
        self.machine.snapshotted(prefix, host);
    }

    /// Reads the own region and takes the time; after each batch of events.
    pub fn poll<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.omega.set_able(self.machine.can_lead());
        if let Some(voters) = self.machine.electors() {
            let candidates = self.machine.candidates().unwrap_or(voters);
            self.omega.set_voters(voters, candidates.difference(voters));
        }
        self.omega.set_elected(self.machine.follows());
        self.omega.poll(now, host);
        self.machine.heard(self.omega.heard());
        self.follow_omega(now, host);
        self.machine.poll(now, host);
    }

    fn follow_omega<H: Host>(&mut self, now: Instant, host: &mut H) {
        let trusted = self.omega.trusted() == Some(self.me);
        if trusted != self.leads {
            self.leads = trusted;
            if trusted { self.machine.lead(now, host) } else { self.machine.follow(now, host) }
        }
    }

    /// The time at which [`Node::poll`] is due even if nothing happens.
    pub fn deadline(&self) -> Instant {
        let beat = self.omega.deadline();
        self.machine.deadline().map_or(beat, |at| at.min(beat))
    }

    /// Passes the lead to another member and does not take it again.
    pub fn resign<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.omega.resign(now, host);
        self.follow_omega(now, host);
    }

    /// See [`Replicator::configuration`].
    pub fn configuration(&self) -> Option<Configuration> {
        self.machine.configuration()
    }

    /// See [`Replicator::incarnation`].
    pub fn incarnation(&self) -> Incarnation {
        self.machine.incarnation()
    }

    /// See [`Replicator::has_seats`].
    pub fn has_seats(&self) -> bool {
        self.machine.has_seats()
    }

    /// See [`Replicator::change`].
    ///
    /// # Errors
    /// [`ChangeRefused`]: nothing changes.
    pub fn change<H: Host>(
        &mut self,
        change: Change,
        now: Instant,
        host: &mut H,
    ) -> Result<Slot, ChangeRefused> {
        self.machine.change(change, now, host)
    }

    /// See [`Replicator::propose`].
    ///
    /// # Errors
    /// [`Refused`]: nothing was proposed.
    pub fn propose<H: Host>(
        &mut self,
        value: &[u8],
        now: Instant,
        host: &mut H,
    ) -> Result<Slot, Refused> {
        self.machine.propose(value, now, host)
    }

    /// See [`Replicator::read`].
    pub fn read<H: Host>(&mut self, ticket: Ticket, now: Instant, host: &mut H) {
        self.machine.read(ticket, now, host);
    }

    /// See [`Replicator::install`].
    pub fn install<H: Host>(
        &mut self,
        applied: Prefix,
        head: Option<StateHead>,
        now: Instant,
        host: &mut H,
    ) {
        self.machine.install(applied, head, now, host);
    }

    /// See [`Replicator::state_head`].
    pub fn state_head(&self, prefix: Prefix) -> Option<StateHead> {
        self.machine.state_head(prefix)
    }

    /// The member that this one trusts to lead.
    pub const fn trusted(&self) -> Option<Rank> {
        self.omega.trusted()
    }

    /// The members heard lately that hold the state (a live source for a snapshot).
    pub fn able(&self) -> MemberSet {
        self.omega.able()
    }

    /// The members heard lately, including this one.
    pub const fn heard(&self) -> MemberSet {
        self.omega.heard()
    }

    /// A member that is heard and says that it hears `rank`, which this one may not hear.
    pub fn between(&self, rank: Rank) -> Option<Rank> {
        self.omega.between(rank)
    }

    /// The machine's figures.
    pub fn status(&self) -> Status {
        self.machine.status()
    }

    /// The machine, for parts that only one protocol has.
    pub const fn machine(&self) -> &R {
        &self.machine
    }

    /// See [`Replicator::value_bytes_max`].
    pub fn value_bytes_max(&self) -> usize {
        self.machine.value_bytes_max()
    }

    /// See [`Replicator::holders`].
    pub fn holders(&self, prefix: Prefix) -> MemberSet {
        self.machine.holders(prefix)
    }

    /// See [`Replicator::held_by_all`].
    pub fn held_by_all(&self) -> Prefix {
        self.machine.held_by_all()
    }

    /// See [`Replicator::hasten`].
    pub fn hasten<H: Host>(&mut self, prefix: Prefix, now: Instant, host: &mut H) {
        self.machine.hasten(prefix, now, host);
    }

    /// See [`Replicator::applied_by`].
    pub fn applied_by(&self, member: Rank) -> Prefix {
        self.machine.applied_by(member)
    }
}
