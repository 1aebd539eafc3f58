//! A member as the simulator runs it: a `proto` node of some protocol.

use crate::{Birth, Life, NodeHost, Setup, Shape, Snapshots, Stamps, Store, Subject};
use base::{Inbox, Instant, Prefix, Rank, Slot};
use proto::disk::DiskEvent;
use proto::members::{Change, ChangeRefused, Configuration, StateHead};
use proto::node::{Layout, Node, NodeConfig, Start};
use proto::{Host, Refused, Replicator, Status, Ticket};

/// A protocol that can be simulated.
pub trait Kind: 'static {
    /// How it is called in reports.
    const NAME: &'static str;
    /// Whether it has a disk.
    const IS_DURABLE: bool = false;
    /// Whether its members change.
    const HAS_OPERATOR: bool = false;
    /// What its disk is made of.
    const STORE: Store = Store::Model;
    /// See [`Subject::SNAPSHOTS`].
    const SNAPSHOTS: Snapshots = Snapshots::Sound;
    /// See [`Subject::STAMPS`].
    const STAMPS: Stamps = Stamps::Sound;
    /// Its machine.
    type Machine: Replicator;

    /// The region of a member.
    fn layout(members: usize, shape: &proto::velos::Shape) -> Layout;

    /// A member at the beginning of a life.
    fn node<H: Host>(
        config: NodeConfig,
        shape: &proto::velos::Shape,
        host: &mut H,
    ) -> Node<Self::Machine>;

    /// A durable state covers everything below `prefix`.
    fn snapshotted<H: Host>(_node: &mut Node<Self::Machine>, _prefix: Prefix, _host: &mut H) {}

    /// What it says every voter's disk holds, where there are disks.
    fn held(_machine: &Self::Machine) -> Option<Prefix> {
        None
    }

    /// Slots that it has read from others' rings and delivered, if it counts them.
    fn n_caught_up(_machine: &Self::Machine) -> u64 {
        0
    }
}

/// A member that replicates by this kind of protocol.
pub struct Member<K: Kind>(Node<K::Machine>);

fn shape_of(shape: &Shape) -> proto::velos::Shape {
    proto::velos::Shape { ring_slots: shape.ring_slots, value_bytes: shape.value_bytes }
}

impl<K: Kind> Subject for Member<K> {
    const NAME: &'static str = K::NAME;
    const IS_DURABLE: bool = K::IS_DURABLE;
    const NEEDS_HEAD: bool = K::Machine::NEEDS_HEAD;
    const HAS_OPERATOR: bool = K::HAS_OPERATOR;
    const STORE: Store = K::STORE;
    const SNAPSHOTS: Snapshots = K::SNAPSHOTS;
    const STAMPS: Stamps = K::STAMPS;

    fn n_words(members: usize, shape: &Shape) -> usize {
        K::layout(members, &shape_of(shape)).n_words as usize
    }

    fn start(setup: &Setup, host: &mut NodeHost<'_>) -> Self {
        let config = NodeConfig {
            me: setup.me,
            members: setup.members,
            start: match setup.birth {
                Birth::Fresh if setup.founders.len() < setup.members => {
                    Start::Found { voters: setup.founders }
                }
                Birth::Fresh => Start::Bootstrap,
                Birth::Joined { incarnation } => Start::Join { incarnation },
                Birth::Reattached => Start::Reattach,
                Birth::Recovered { applied, head } => Start::Recovered { applied, head },
            },
            timing: setup.timing,
            memory_outlives_process: setup.memory_outlives_process,
            peer_works: setup.peer_works,
        };
        Member(K::node(config, &shape_of(&setup.shape), host))
    }
}

impl<K: Kind> Life for Member<K> {
    fn value_bytes_max(&self) -> usize {
        self.0.value_bytes_max()
    }

    fn propose(
        &mut self,
        value: &[u8],
        now: Instant,
        host: &mut NodeHost<'_>,
    ) -> Result<Slot, Refused> {
        self.0.propose(value, now, host)
    }

    fn read(&mut self, ticket: Ticket, now: Instant, host: &mut NodeHost<'_>) {
        self.0.read(ticket, now, host);
    }

    fn run(&mut self, events: &Inbox, now: Instant, host: &mut NodeHost<'_>) {
        events.iter().for_each(|event| self.0.on_event(event, now, host));
        self.0.poll(now, host);
    }

    fn on_disk(&mut self, event: DiskEvent, now: Instant, host: &mut NodeHost<'_>) {
        self.0.on_disk(event, now, host);
    }

    fn snapshotted(&mut self, prefix: Prefix, host: &mut NodeHost<'_>) {
        K::snapshotted(&mut self.0, prefix, host);
    }

    fn deadline(&self) -> Instant {
        self.0.deadline()
    }

    fn install(
        &mut self,
        applied: Prefix,
        head: Option<StateHead>,
        now: Instant,
        host: &mut NodeHost<'_>,
    ) {
        self.0.install(applied, head, now, host);
    }

    fn state_head(&self, prefix: Prefix) -> Option<StateHead> {
        self.0.state_head(prefix)
    }

    fn status(&self) -> Status {
        self.0.status()
    }

    fn configuration(&self) -> Option<Configuration> {
        self.0.configuration()
    }

    fn change(
        &mut self,
        change: Change,
        now: Instant,
        host: &mut NodeHost<'_>,
    ) -> Result<Slot, ChangeRefused> {
        self.0.change(change, now, host)
    }

    fn trusted(&self) -> Option<Rank> {
        self.0.trusted()
    }

    fn held(&self) -> Option<Prefix> {
        K::held(self.0.machine())
    }

    fn n_caught_up(&self) -> u64 {
        K::n_caught_up(self.0.machine())
    }
}
