//! The kinds of clusters: the key-value store over each protocol of the registry that runs on every
//! fabric, and copies of a program in several manners.

use crate::{Mark, Store};
use engine::multicast;
use kv::door;
use proto::planted::{Bugs, Caught};
use proto::registry::{KeyedProtocol, KeyedSpec, KeyedVisitor, LogProtocol, MulticastProtocol};
use proto::table::Row;
use std::sync::LazyLock;

/// The way in which members of a cluster replicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The key-value store, by one log of all commands.
    Log(LogProtocol),
    /// The key-value store, each key kept separately.
    Keyed(KeyedProtocol),
    /// The key-value store, in partitions under atomic multicast.
    Partitions(Replicas),
    /// Copies of a program.
    Program(Copies),
}

/// The place of the replicas of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// In memory.
    InMemory,
    /// On disks.
    OnDisk,
}

impl Replicas {
    const ALL: [Replicas; 2] = [Replicas::InMemory, Replicas::OnDisk];

    const fn name(self) -> &'static str {
        match self {
            Replicas::InMemory => "partitions-cluster",
            Replicas::OnDisk => "partitions-durable-cluster",
        }
    }
}

/// The manner of a program's copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// They do as they like, in memory.
    InMemory,
    /// The same, from logs on disk.
    OnDisk,
    /// They say when they are at rest, in memory.
    AtRest,
    /// They have a loop, each turn of which finds the same, in memory.
    InTurns,
    /// They do as in one of the three in memory, and their answers are held until they are
    /// compared.
    Strict,
}

impl Copies {
    const ALL: [Copies; 5] =
        [Copies::InMemory, Copies::OnDisk, Copies::AtRest, Copies::InTurns, Copies::Strict];

    const fn name(self) -> &'static str {
        match self {
            Copies::InMemory => "replicate",
            Copies::OnDisk => "replicate-durable",
            Copies::AtRest => "replicate-waits",
            Copies::InTurns => "replicate-loop",
            Copies::Strict => "replicate-strict",
        }
    }

    fn text(self) -> String {
        match self {
            Copies::InMemory => {
                let log = self.log().name();
                format!("Copies of a program that do as they like, in memory by {log}")
            }
            Copies::OnDisk => "The same, from logs on disk".to_owned(),
            Copies::AtRest => "The same in memory: the copies say when they are at rest".to_owned(),
            Copies::InTurns => {
                "Copies with an event loop, each turn of which finds the same".to_owned()
            }
            Copies::Strict => {
                "Copies of any of these manners, in memory: answers wait until a majority's copies \
                 have given the same"
                    .to_owned()
            }
        }
    }

    /// The usual protocol for the log that feeds them.
    pub(super) fn log(self) -> LogProtocol {
        LogProtocol::usual(if self == Copies::OnDisk { "disk-quorum" } else { "memory-quorum" })
    }
}

impl Protocol {
    /// Every one.
    pub fn all() -> impl Iterator<Item = Protocol> {
        let partitions = Replicas::ALL.map(Protocol::Partitions);
        Protocol::stores().chain(partitions).chain(Copies::ALL.map(Protocol::Program))
    }

    /// The clusters of the key-value store.
    fn stores() -> impl Iterator<Item = Protocol> {
        let logs = LogProtocol::ALL.iter().copied().map(Protocol::Log);
        let keyed = KeyedProtocol::ALL.iter().copied().map(Protocol::Keyed);
        // Members draw their fabric, so it may lack nothing that the protocol needs.
        logs.chain(keyed).filter(|one| one.row().needs.is_empty())
    }

    /// The promises of the protocol below.
    fn row(self) -> &'static Row {
        match self {
            Protocol::Keyed(keyed) => keyed.row(),
            Protocol::Log(log) => log.row(),
            Protocol::Partitions(_) => MulticastProtocol::Primcast.row(),
            Protocol::Program(copies) => copies.log().row(),
        }
    }

    /// The place of the replicas, if it is of partitions.
    pub(super) const fn replicas(self) -> Option<Replicas> {
        if let Protocol::Partitions(replicas) = self { Some(replicas) } else { None }
    }

    /// Whether one member leads all the others.
    pub(super) const fn has_one_leader(self) -> bool {
        matches!(self, Protocol::Log(_) | Protocol::Program(_))
    }

    /// The protocol of the log, if there is one.
    pub(super) fn log(self) -> Option<LogProtocol> {
        match self {
            Protocol::Keyed(_) | Protocol::Partitions(_) => None,
            Protocol::Log(log) => Some(log),
            Protocol::Program(copies) => Some(copies.log()),
        }
    }

    /// The cluster's name on the command line.
    pub fn name(self) -> &'static str {
        static NAMES: LazyLock<Vec<(Protocol, String)>> = LazyLock::new(|| {
            let name = |one: Protocol| (one, format!("{}-cluster", one.row().name));
            Protocol::stores().map(name).collect()
        });
        let name_of_store = || Some(NAMES.iter().find(|(one, _)| *one == self)?.1.as_str());
        match self {
            Protocol::Log(_) | Protocol::Keyed(_) => {
                name_of_store().expect("it runs on every fabric")
            }
            Protocol::Partitions(replicas) => replicas.name(),
            Protocol::Program(copies) => copies.name(),
        }
    }

    /// The description, in a sentence.
    pub fn text(self) -> String {
        if let Protocol::Program(copies) = self {
            return copies.text();
        }
        if let Protocol::Partitions(replicas) = self {
            return match replicas {
                Replicas::InMemory => {
                    "Nodes of atomic multicast, as they ship, with a keyspace in \
                                       partitions, in memory"
                }
                Replicas::OnDisk => "The same on disks",
            }
            .to_owned();
        }
        let place = if self.has_disks() { "on disks" } else { "in memory" };
        let order = if self.orders_all() { "" } else { ", and each key is kept by itself" };
        let clocks = if self.has_jumps() { "" } else { ", with clocks that do not jump" };
        format!(
            "Whole members, as they ship, {place}{order}{clocks}: clients speak to the key-value \
             door"
        )
    }

    /// The names of such a cluster in the lists of planted bugs.
    pub(super) fn kinds(self) -> [&'static str; 2] {
        if self.replicates_program() || self.replicas().is_some() {
            return [self.name(), self.name()];
        }
        if !self.changes_members() {
            // The bugs of engine and door are hunted where members change.
            return [self.name(), "cluster-without-changes"];
        }
        let place = if self.has_disks() { "cluster-on-disk" } else { "cluster-in-memory" };
        ["cluster", place]
    }

    /// Whether clocks may jump.
    pub(super) fn has_jumps(self) -> bool {
        self.log().is_none_or(|log| !log.needs_steady_clocks())
    }

    /// Whether members change.
    pub(super) fn changes_members(self) -> bool {
        self.replicas().is_none() && self.row().members_change
    }

    /// Whether all commands have one order, so that one may be about several keys.
    pub(super) const fn orders_all(self) -> bool {
        !matches!(self, Protocol::Keyed(_))
    }

    /// Whether clients WAIT.
    pub(super) fn has_waits(self) -> bool {
        self.has_leases()
    }

    /// Whether clients use all that the store of one log has.
    pub(super) const fn has_leases(self) -> bool {
        self.orders_all() && !self.replicates_program() && self.replicas().is_none()
    }

    /// Whether runs may be days. There each has keys that expire.
    pub const fn has_days(self) -> bool {
        self.has_leases()
    }

    /// Whether clients have sessions, and use keys that expire.
    pub(super) const fn has_sessions(self) -> bool {
        self.orders_all() && !self.replicates_program()
    }

    /// Whether members have disks.
    pub fn has_disks(self) -> bool {
        match self.replicas() {
            Some(replicas) => replicas == Replicas::OnDisk,
            None => self.row().gives("disk-quorum"),
        }
    }

    /// Whether clients may wait until every disk has their commands.
    pub(super) fn waits_for_all_disks(self) -> bool {
        !self.replicates_program() && self.replicas().is_none() && self.row().gives("disk-all")
    }

    /// Whether members run copies of a program, and have no state of ours.
    pub(super) const fn replicates_program(self) -> bool {
        matches!(self, Protocol::Program(_))
    }

    /// Whether answers of copies are held until they are compared.
    pub(super) fn holds_answers(self) -> bool {
        self == Protocol::Program(Copies::Strict)
    }

    /// Whether reads of a program's clients run beside the log, in a part of the runs.
    fn reads_beside(self) -> bool {
        matches!(self, Protocol::Program(Copies::InMemory | Copies::OnDisk))
    }

    /// Whether runs of it, of a day if `is_long`, can reach this case.
    pub fn can_reach(self, mark: Mark, is_long: bool) -> bool {
        (self.has_disks() || !mark.needs_disk())
            && (self.orders_all() || !OF_LOGS.contains(&mark))
            && (self.changes_members() || !OF_CHANGES.contains(&mark))
            && (self.replicates_program() || !OF_PROGRAMS.contains(&mark))
            && (self.replicates_program() || mark != Mark::TimerEnded)
            && (self.has_leases() || !OF_LEASES.contains(&mark))
            && (self.has_sessions() || !OF_SESSIONS.contains(&mark))
            && (is_long && self.has_leases() || mark != Mark::SessionExpired)
            && (!is_long || !NOT_IN_DAYS.contains(&mark))
            && (self.replicas().is_none() || !NOT_OF_PARTITIONS.contains(&mark))
            && (self.has_waits() || mark != Mark::WaitAnswered)
            && (self.waits_for_all_disks() || mark != Mark::ToldByAllDisks)
            && (self.reads_beside() || mark != Mark::ReadBeside)
            // Requests of other programs are all ordered.
            && (self.reads_beside() || !self.replicates_program() || mark != Mark::ReadForwarded)
            && (self.has_jumps() || mark != Mark::ClockJumped)
            && !self.log().is_some_and(|log| log.unmet().contains(&format!("{mark:?}").as_str()))
    }
}

/// Cases of clients that only a log of commands of the store has.
const OF_LEASES: [Mark; 4] =
    [Mark::ScriptByName, Mark::AllFlushed, Mark::InputEnded, Mark::LeaderOutOfSight];

/// Cases of clients with sessions and keys that expire.
const OF_SESSIONS: [Mark; 4] =
    [Mark::CallRepeated, Mark::CallEchoed, Mark::KeySeenGone, Mark::LeaseGuarded];

/// Cases that a run of a day does not meet.
const NOT_IN_DAYS: [Mark; 3] = [Mark::AllFlushed, Mark::LeaderOutOfSight, Mark::LeaderDeposed];

/// Cases that take copies of a program.
const OF_PROGRAMS: [Mark; 5] = [
    Mark::CopyPutDown,
    Mark::StallPutDown,
    Mark::CheckpointCounted,
    Mark::CheckpointBegun,
    Mark::CopyRenewed,
];

/// Cases of a log with one leader, or of its snapshots, which partitions do not have.
const NOT_OF_PARTITIONS: [Mark; 11] = [
    Mark::TornVerb,
    Mark::LeaderChangedUnderLoad,
    Mark::SuccessorStruck,
    Mark::CommandForwarded,
    Mark::ReadForwarded,
    Mark::PassedOn,
    Mark::SnapshotWritten,
    Mark::SnapshotUnheard,
    Mark::SnapshotFailed,
    Mark::DamageFound,
    Mark::LeaderDeposed,
];

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
    Keyed(KeyedBug),
    Node(multicast::Bug),
    Replicate(replicate::bugs::Bug),
    Disk(DiskBug),
}

/// A planted bug of the disks on which members stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskBug {
    /// A sync that failed counts as one that did not.
    IgnoreSyncError,
    /// Damage is cut off, with everything after it.
    CutAtDamage,
}

impl DiskBug {
    const ALL: [DiskBug; 2] = [DiskBug::IgnoreSyncError, DiskBug::CutAtDamage];
}

impl Bug {
    /// Every bug.
    pub(super) fn all() -> impl Iterator<Item = Bug> {
        let engine = engine::Bug::ALL.iter().copied().map(Bug::Engine);
        let door = door::Bug::ALL.iter().copied().map(Bug::Door);
        let replicate = replicate::bugs::Bug::ALL.iter().copied().map(Bug::Replicate);
        let keyed = KeyedBug::all().map(Bug::Keyed);
        let disk = DiskBug::ALL.into_iter().map(Bug::Disk);
        let node = multicast::Bug::ALL.iter().copied().map(Bug::Node);
        engine.chain(door).chain(keyed).chain(node).chain(replicate).chain(disk)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Bug::Engine(bug) => bug.name(),
            Bug::Door(bug) => bug.name(),
            Bug::Keyed(bug) => bug.name,
            Bug::Node(bug) => bug.name(),
            Bug::Replicate(bug) => bug.name(),
            Bug::Disk(DiskBug::IgnoreSyncError) => "IGNORE_SYNC_ERROR",
            Bug::Disk(DiskBug::CutAtDamage) => "CUT_AT_DAMAGE",
        }
    }

    pub(super) fn caught(self) -> Caught {
        match self {
            Bug::Engine(bug) => bug.caught(),
            Bug::Door(bug) => bug.caught(),
            Bug::Keyed(bug) => bug.caught,
            Bug::Node(bug) => bug.caught(),
            Bug::Replicate(bug) => bug.caught(),
            Bug::Disk(DiskBug::IgnoreSyncError) => Caught::Sweep(&["cluster-on-disk"]),
            // Sweeps of machines hunt it; how soon clusters meet it was not measured.
            Bug::Disk(DiskBug::CutAtDamage) => Caught::Tests,
        }
    }

    pub(super) const fn engine(self) -> Option<engine::Bug> {
        if let Bug::Engine(bug) = self { Some(bug) } else { None }
    }

    /// The place in the list of `protocol`, if it is one of its bugs.
    pub(super) fn keyed(self, protocol: KeyedProtocol) -> Option<usize> {
        if let Bug::Keyed(bug) = self
            && bug.protocol == protocol
        {
            Some(bug.at)
        } else {
            None
        }
    }

    /// The kind of its disks, if the bug is theirs.
    pub(super) const fn store(self) -> Option<Store> {
        match self {
            Bug::Disk(DiskBug::IgnoreSyncError) => Some(Store::ModelIgnoringSyncErrors),
            Bug::Disk(DiskBug::CutAtDamage) => Some(Store::ModelCutAtDamage),
            _ => None,
        }
    }

    pub(super) const fn node(self) -> Option<multicast::Bug> {
        if let Bug::Node(bug) = self { Some(bug) } else { None }
    }

    pub(super) const fn replicate(self) -> Option<replicate::bugs::Bug> {
        if let Bug::Replicate(bug) = self { Some(bug) } else { None }
    }

    pub(super) const fn door(self) -> Option<door::Bug> {
        if let Bug::Door(bug) = self { Some(bug) } else { None }
    }
}

/// A planted bug of a protocol that keeps each key separately, without its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyedBug {
    protocol: KeyedProtocol,
    /// The place in the protocol's list.
    at: usize,
    name: &'static str,
    caught: Caught,
}

impl KeyedBug {
    fn all() -> impl Iterator<Item = KeyedBug> {
        struct List(KeyedProtocol);
        impl KeyedVisitor for List {
            type Output = Vec<KeyedBug>;

            fn visit<S: KeyedSpec>(self) -> Vec<KeyedBug> {
                let numbered = S::Bug::ALL.iter().enumerate();
                let bug = |(at, bug): (usize, &S::Bug)| KeyedBug {
                    protocol: self.0,
                    at,
                    name: bug.name(),
                    caught: bug.caught(),
                };
                numbered.map(bug).collect()
            }
        }
        KeyedProtocol::ALL.iter().flat_map(|one| one.visit(List(*one)))
    }
}

/// A kind of cluster: its protocol, and the mistake that is planted in its members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinship {
    pub(crate) protocol: Protocol,
    pub(crate) bug: Option<Bug>,
}
