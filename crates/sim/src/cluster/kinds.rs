//! The kinds of clusters.

use crate::Mark;
use kv::door;
use proto::abd;
use proto::planted::{Bugs, Caught};

/// The way in which members of a cluster replicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// In memory.
    Velos,
    /// Into logs on disk.
    Durable,
    /// Registers in memory, each kept separately.
    Abd,
    /// In memory, by messages.
    MultiPaxos,
    /// Copies of a program, in memory.
    Replicate,
    /// Copies of a program, from logs on disk.
    ReplicateDurable,
    /// Copies of a program that say when they are at rest, in memory.
    ReplicateWaits,
    /// Copies of a program with a loop, each turn of which finds the same, in memory.
    ReplicateLoop,
}

impl Protocol {
    /// Every one.
    pub const ALL: &'static [Protocol] = &[
        Protocol::Velos,
        Protocol::Durable,
        Protocol::Abd,
        Protocol::MultiPaxos,
        Protocol::Replicate,
        Protocol::ReplicateDurable,
        Protocol::ReplicateWaits,
        Protocol::ReplicateLoop,
    ];

    /// The cluster's name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Velos => "velos-cluster",
            Protocol::Durable => "durable-cluster",
            Protocol::Abd => "abd-cluster",
            Protocol::MultiPaxos => "multipaxos-cluster",
            Protocol::Replicate => "replicate",
            Protocol::ReplicateDurable => "replicate-durable",
            Protocol::ReplicateWaits => "replicate-waits",
            Protocol::ReplicateLoop => "replicate-loop",
        }
    }

    /// The description, in a sentence.
    pub const fn text(self) -> &'static str {
        match self {
            Protocol::Velos => {
                "Whole members, as they ship, in memory: clients speak to the key-value door"
            }
            Protocol::Durable => "The same, on disks",
            Protocol::Abd => "The same, in memory, and each key is kept by itself",
            Protocol::MultiPaxos => {
                "The first with leases, clocks that do not jump, and members that never change"
            }
            Protocol::Replicate => "Copies of a program that do as they like, in memory by velos",
            Protocol::ReplicateDurable => "The same, from logs on disk",
            Protocol::ReplicateWaits => "The same in memory: the copies say when they are at rest",
            Protocol::ReplicateLoop => {
                "Copies with an event loop, each turn of which finds the same"
            }
        }
    }

    /// The names of such a cluster in the lists of planted bugs.
    pub(super) const fn kinds(self) -> [&'static str; 2] {
        if self.replicates_program() {
            return [self.name(); 2];
        }
        if !self.changes_members() {
            // The bugs of engine and door are hunted where members change.
            return [self.name(), "cluster-without-changes"];
        }
        ["cluster", if self.has_disks() { "cluster-on-disk" } else { "cluster-in-memory" }]
    }

    /// Whether clocks may jump.
    pub(super) const fn has_jumps(self) -> bool {
        !matches!(self, Protocol::MultiPaxos)
    }

    /// Whether members change.
    pub(super) const fn changes_members(self) -> bool {
        matches!(self, Protocol::Velos | Protocol::Durable)
    }

    /// Whether all commands have one order, so that one may be about several keys.
    pub(super) const fn orders_all(self) -> bool {
        !matches!(self, Protocol::Abd)
    }

    /// Whether clients use keys that expire.
    pub(super) const fn has_leases(self) -> bool {
        self.orders_all() && !self.replicates_program()
    }

    /// Whether members have disks.
    pub const fn has_disks(self) -> bool {
        matches!(self, Protocol::Durable | Protocol::ReplicateDurable)
    }

    /// Whether members run copies of a program, and have no state of ours.
    pub(super) const fn replicates_program(self) -> bool {
        matches!(
            self,
            Protocol::Replicate
                | Protocol::ReplicateDurable
                | Protocol::ReplicateWaits
                | Protocol::ReplicateLoop
        )
    }

    /// Whether runs of it can reach this case.
    pub fn can_reach(self, mark: Mark) -> bool {
        (self.has_disks() || !mark.needs_disk())
            // (See `halfway`.)
            && (!self.has_disks() || mark != Mark::DiedHalfway)
            && (self.orders_all() || !OF_LOGS.contains(&mark))
            && (self.changes_members() || !OF_CHANGES.contains(&mark))
            && (self.replicates_program() || !OF_PROGRAMS.contains(&mark))
            // Copies that are fed by the turn are not compared.
            && (self != Protocol::ReplicateLoop || !OF_PROGRAMS.contains(&mark))
            && (self.replicates_program() || mark != Mark::TimerEnded)
            && (self.has_leases() || mark != Mark::KeySeenGone)
            && (matches!(self, Protocol::Durable) || mark != Mark::ToldByAllDisks)
            // A program's requests are all ordered.
            && (!self.replicates_program() || mark != Mark::ReadForwarded)
            // Where machines send messages, memory has beats alone, of one word each.
            && (self.has_jumps() || !matches!(mark, Mark::ClockJumped | Mark::TornVerb))
    }
}

/// Cases that take copies of a program.
const OF_PROGRAMS: [Mark; 4] =
    [Mark::CopyPutDown, Mark::StallPutDown, Mark::CheckpointCounted, Mark::CheckpointBegun];

/// Cases that take members that change.
const OF_CHANGES: [Mark; 5] = [
    Mark::MemberAdded,
    Mark::MemberRemoved,
    Mark::MemberReplaced,
    Mark::PartedEnded,
    Mark::OldDiskBack,
];

/// Cases that take a leader or an order of all commands; or one-sided writes.
const OF_LOGS: [Mark; 9] = [
    Mark::TornVerb,
    Mark::LeaderChangedUnderLoad,
    Mark::SuccessorStruck,
    Mark::CommandForwarded,
    Mark::ReadForwarded,
    Mark::PassedOn,
    Mark::StateReceived,
    Mark::TransactionExecuted,
    Mark::WatchedKeyTouched,
];

/// A mistake that is planted in what ships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    Engine(engine::Bug),
    Door(door::Bug),
    Abd(abd::bugs::Bug),
    Replicate(replicate::bugs::Bug),
}

impl Bug {
    /// Every bug.
    pub(super) fn all() -> impl Iterator<Item = Bug> {
        let engine = engine::Bug::ALL.iter().copied().map(Bug::Engine);
        let door = door::Bug::ALL.iter().copied().map(Bug::Door);
        let replicate = replicate::bugs::Bug::ALL.iter().copied().map(Bug::Replicate);
        let abd = abd::bugs::Bug::ALL.iter().copied().map(Bug::Abd);
        engine.chain(door).chain(abd).chain(replicate)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Bug::Engine(bug) => bug.name(),
            Bug::Door(bug) => bug.name(),
            Bug::Abd(bug) => bug.name(),
            Bug::Replicate(bug) => bug.name(),
        }
    }

    pub(super) fn caught(self) -> Caught {
        match self {
            Bug::Engine(bug) => bug.caught(),
            Bug::Door(bug) => bug.caught(),
            Bug::Abd(bug) => bug.caught(),
            Bug::Replicate(bug) => bug.caught(),
        }
    }

    pub(super) const fn engine(self) -> Option<engine::Bug> {
        if let Bug::Engine(bug) = self { Some(bug) } else { None }
    }

    pub(super) const fn abd(self) -> Option<abd::bugs::Bug> {
        if let Bug::Abd(bug) = self { Some(bug) } else { None }
    }

    pub(super) const fn replicate(self) -> Option<replicate::bugs::Bug> {
        if let Bug::Replicate(bug) = self { Some(bug) } else { None }
    }

    pub(super) const fn door(self) -> Option<door::Bug> {
        if let Bug::Door(bug) = self { Some(bug) } else { None }
    }
}

/// A kind of cluster: its protocol, and the mistake that is planted in its members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinship {
    pub(crate) protocol: Protocol,
    pub(crate) bug: Option<Bug>,
}
