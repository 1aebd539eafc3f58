//! Durable as a subject, its disks, and the bugs that the sweep must find in it.

use crate::coverage::Mark;
use crate::member::{self, Member};
use crate::states::State;
use crate::stored::Unusable;
use crate::subject::Species;
use crate::sweep::{Mutant, mutant};
use crate::trace::Topic;
use crate::world::World;
use crate::{Birth, Life, Property, Snapshots, Stamps, Store};
use base::{Prefix, Rng};
use core::marker::PhantomData;
use proto::disk::DiskEvent;
use proto::durable::variant::{Sound, Variant};
use proto::node::{Layout, Node, NodeConfig, durable_layout};
use proto::{Host, Replicator};

/// A member that replicates by (this variant of) Durable.
pub type Durable<V> = Member<Kind<V>>;

/// The same, with an operator who changes the members.
pub type DurableMembers<V> = Member<Kind<V, Operated>>;

/// Durable over the log that ships.
pub type DurableLog<V> = Member<Kind<V, OnLog>>;

/// What is around a machine, and what is wrong with it.
pub trait Around: 'static {
    /// How it is called in reports, if that says more than the machine's name.
    const NAME: Option<&'static str> = None;
    /// Members change.
    const HAS_OPERATOR: bool = false;
    /// What disks are made of.
    const STORE: Store = Store::Model;
    /// How the runtime makes snapshots.
    const SNAPSHOTS: Snapshots = Snapshots::Sound;
    /// How leaders stamp their batches.
    const STAMPS: Stamps = Stamps::Sound;
}

/// The same members all the time.
#[derive(Debug)]
pub enum Alone {}

impl Around for Alone {}

/// Members that change.
#[derive(Debug)]
pub enum Operated {}

impl Around for Operated {
    const HAS_OPERATOR: bool = true;
}

/// The log that ships.
#[derive(Debug)]
pub enum OnLog {}

impl Around for OnLog {
    const STORE: Store = Store::Log;
}

/// Durable, as a kind of member.
#[derive(Debug)]
pub struct Kind<V: Variant, A: Around = Alone>(PhantomData<(V, A)>);

impl<V: Variant, A: Around> member::Kind for Kind<V, A> {
    const NAME: &'static str = match A::NAME {
        Some(name) => name,
        None => V::NAME,
    };
    const IS_DURABLE: bool = true;
    const HAS_OPERATOR: bool = A::HAS_OPERATOR;
    const STORE: Store = A::STORE;
    const SNAPSHOTS: Snapshots = A::SNAPSHOTS;
    const STAMPS: Stamps = A::STAMPS;
    type Machine = proto::durable::Durable<V>;

    fn layout(members: usize, shape: &proto::velos::Shape) -> Layout {
        durable_layout(members, shape)
    }

    fn node<H: Host>(
        config: NodeConfig,
        shape: &proto::velos::Shape,
        host: &mut H,
    ) -> Node<Self::Machine> {
        Node::durable(config, shape, host).expect("the world's disks fit how a life starts")
    }

    fn snapshotted<H: Host>(node: &mut Node<Self::Machine>, prefix: Prefix, host: &mut H) {
        node.snapshotted(prefix, host);
    }

    fn held(machine: &Self::Machine) -> Option<Prefix> {
        Some(machine.held_by_all())
    }
}

impl Species {
    /// With the disks of this seed: where members change, one seed in four runs on the log that
    /// ships.
    pub(crate) fn equipped(self, seed: u64) -> Species {
        let mut rng = Rng::new(seed ^ 0x6c6f_6773);
        let ships = self.has_operator && self.store == Store::Model && rng.chance(1, 4);
        Species { store: if ships { Store::Log } else { self.store }, ..self }
    }
}

impl World {
    /// The machine hears what its disk has to say, and the state is written to it now and then.
    pub(crate) fn attend_disk(&mut self, node: usize, machine: &mut dyn Life) {
        for event in std::mem::take(&mut self.disks[node].events) {
            self.net.trace.record(self.net.now(), node, Topic::Disk, event_number(event), 0);
            self.with_host(node, |host, clock| machine.on_disk(event, clock, host));
            if self.is_gone(node) {
                return;
            }
        }
        self.attend_snapshots(node, machine);
    }

    /// What the disk of a dead process left: the state of the last snapshot.
    pub(crate) fn recover(&mut self, node: usize) {
        let applied = match &self.disks[node].snapshot {
            Some(State { kv, prefix, .. }) => {
                self.shells[node].kv = kv.clone();
                self.shells[node].order.installed(*prefix);
                self.shells[node].delivered.installed(*prefix);
                if let Err(detail) = self.ledger.digests.reached(*prefix, kv.digest()) {
                    self.net.violate(Property::Digest, format!("on r{node}'s disk: {detail}"));
                }
                *prefix
            }
            None => Prefix::ZERO,
        };
        self.net.trace.record(self.net.now(), node, Topic::Install, applied.0, 1);
    }

    /// How the next life of `node` begins, if its disk is as it should be.
    pub(crate) fn rebirth(&mut self, node: usize) -> Option<Birth> {
        if !self.species.is_durable {
            return Some(Birth::Reattached);
        }
        let revived = self.disks[node].revive(&mut self.net.rng);
        match (revived, self.disks[node].is_unusable()) {
            (Ok(()), false) => {}
            (Err(Unusable::Damaged(_)), true) => {
                // It stops, and says so: whoever tends it has to replace the member.
                self.net.coverage.hit(Mark::DamageFound);
                self.net.trace.record(self.net.now(), node, Topic::Disk, u64::MAX - 4, 0);
                return None;
            }
            (Ok(()), true) => {
                let detail = format!("r{node} starts on a damaged disk, and does not notice");
                self.net.violate(Property::Durability, detail);
                return None;
            }
            (Err(Unusable::Damaged(detail) | Unusable::Broken(detail)), _) => {
                self.net.violate(Property::Durability, format!("r{node}: {detail}"));
                return None;
            }
        }
        if self.disks[node].is_blank() {
            // It died before anything of it was durable: nothing can have left it either.
            return Some(self.first_birth(node));
        }
        let snapshot = self.disks[node].snapshot.as_ref();
        let (applied, head) =
            snapshot.map_or((Prefix::ZERO, None), |state| (state.prefix, state.head));
        Some(Birth::Recovered { applied, head })
    }
}

fn event_number(event: DiskEvent) -> u64 {
    match event {
        DiskEvent::Synced(flush) => flush.0,
        DiskEvent::Full => u64::MAX,
        DiskEvent::Room => u64::MAX - 1,
        DiskEvent::Stalled => u64::MAX - 2,
        DiskEvent::Flowing => u64::MAX - 3,
    }
}

/// Declares variants with one planted bug each.
macro_rules! variants {
    ($($name:ident: $flag:ident),* $(,)?) => {
        $(
            enum $name {}

            impl Variant for $name {
                const NAME: &'static str = stringify!($flag);
                const $flag: bool = true;
            }
        )*
    };
}

/// A bug of what is around the machine.
enum Forgetful {}

impl Around for Forgetful {
    const NAME: Option<&'static str> = Some("SNAPSHOT_WITHOUT_SESSIONS");
    const SNAPSHOTS: Snapshots = Snapshots::WithoutSessions;
}

/// Declares bugs of snapshots over the log that ships.
macro_rules! of_snapshots {
    ($($name:ident: $text:literal, $store:ident, $bug:ident;)*) => {
        $(
            enum $name {}

            impl Around for $name {
                const NAME: Option<&'static str> = Some($text);
                const STORE: Store = Store::$store;
                const SNAPSHOTS: Snapshots = Snapshots::$bug;
            }
        )*
    };
}

of_snapshots! {
    LogForgetful: "SNAPSHOT_WITHOUT_SESSIONS", Log, WithoutSessions;
    MixedSnapshot: "SNAPSHOT_MIXES_PREFIXES", Log, Mixed;
    CutTooSoon: "CUT_BEFORE_SNAPSHOT", Log, CutTooSoon;
    RemovedTooSoon: "REMOVE_OLD_SNAPSHOT_FIRST", Log, RemovedTooSoon;
    UnsyncedNames: "SNAPSHOT_WITHOUT_DIRECTORY_SYNC", SnapshotsWithoutDirectorySync, Sound;
    NamedTooSoon: "SNAPSHOT_NAMED_BEFORE_SYNC", SnapshotsNamedBeforeSync, Sound;
    SnapshotIgnoringSyncErrors: "SNAPSHOT_IGNORES_SYNC_ERROR", SnapshotsIgnoringSyncErrors, Sound;
}

/// The log that ships, over a disk whose names are never made durable.
enum WithoutDirectorySync {}

impl Around for WithoutDirectorySync {
    const NAME: Option<&'static str> = Some("SKIP_DIRECTORY_SYNC");
    const STORE: Store = Store::LogWithoutDirectorySync;
}

/// The log that ships, over a disk on which nothing is made durable.
enum WithoutSync {}

impl Around for WithoutSync {
    const NAME: Option<&'static str> = Some("SKIP_SYNC");
    const STORE: Store = Store::LogWithoutSync;
}

/// A sync that failed is taken for one that did not.
enum IgnoringSyncErrors {}

impl Around for IgnoringSyncErrors {
    const NAME: Option<&'static str> = Some("IGNORE_SYNC_ERROR");
    const STORE: Store = Store::ModelIgnoringSyncErrors;
}

/// The same, of the log that ships.
enum LogIgnoringSyncErrors {}

impl Around for LogIgnoringSyncErrors {
    const NAME: Option<&'static str> = Some("IGNORE_SYNC_ERROR");
    const STORE: Store = Store::LogIgnoringSyncErrors;
}

/// What is damaged is taken for a torn end.
enum CutAtDamage {}

impl Around for CutAtDamage {
    const NAME: Option<&'static str> = Some("CUT_AT_DAMAGE");
    const STORE: Store = Store::ModelCutAtDamage;
}

/// The same, of the log that ships.
enum LogCutAtDamage {}

impl Around for LogCutAtDamage {
    const NAME: Option<&'static str> = Some("CUT_AT_DAMAGE");
    const STORE: Store = Store::LogCutAtDamage;
}

/// The same, where members change.
enum OperatedIgnoringSyncErrors {}

impl Around for OperatedIgnoringSyncErrors {
    const NAME: Option<&'static str> = Some("IGNORE_SYNC_ERROR");
    const HAS_OPERATOR: bool = true;
    const STORE: Store = Store::ModelIgnoringSyncErrors;
}

/// The same, where members change.
enum OperatedCutAtDamage {}

impl Around for OperatedCutAtDamage {
    const NAME: Option<&'static str> = Some("CUT_AT_DAMAGE");
    const HAS_OPERATOR: bool = true;
    const STORE: Store = Store::ModelCutAtDamage;
}

/// Lists them, as bugs of some subject.
macro_rules! listed {
    ($subject:ident: $($name:ident),* $(,)?) => {
        vec![$(mutant::<$subject<$name>, $subject<Sound>>(),)*]
    };
}

variants! {
    AckBeforeSync: ACK_BEFORE_SYNC,
    VoteBeforeSync: VOTE_BEFORE_SYNC,
    CountSelfEarly: COUNT_SELF_EARLY,
    AcceptOlderBallot: ACCEPT_OLDER_BALLOT,
    SkipLogMatch: SKIP_LOG_MATCH,
    ApplyUnverified: APPLY_UNVERIFIED,
    ElectOlderLog: ELECT_OLDER_LOG,
    ElectByOne: ELECT_BY_ONE,
    CommitAtOne: COMMIT_AT_ONE,
    HoldByMajority: HOLD_BY_MAJORITY,
    HoldBySuccessor: HOLD_BY_SUCCESSOR,
    TrustRecovered: TRUST_RECOVERED,
    VoteTwice: VOTE_TWICE,
    ForgetPromise: FORGET_PROMISE,
    TornRecord: TORN_RECORD,
    ReadWithoutCheck: READ_WITHOUT_CHECK,
    AnyAnswerServes: ANY_ANSWER_SERVES,
    ServeEarly: SERVE_EARLY,
    CountRemoved: COUNT_REMOVED,
    TwoChanges: TWO_CHANGES,
    PromoteBeforeCaughtUp: PROMOTE_BEFORE_CAUGHT_UP,
    AnyIncarnation: ANY_INCARNATION,
    OldIncarnationVotes: OLD_INCARNATION_VOTES,
    ElectByEveryConfiguration: ELECT_BY_EVERY_CONFIGURATION,
    IgnoreWinner: IGNORE_WINNER,
    HoldBack: HOLD_BACK,
    IgnoreRoom: IGNORE_ROOM,
}

/// The planted bugs that a sweep meets, by name. The others need a schedule that no seed finds soon
/// (see the variant's text): the protocol's own tests step through them.
pub fn mutants() -> Vec<Mutant> {
    let mut all = listed! {
        Durable:
        HoldByMajority, AckBeforeSync, VoteBeforeSync, CountSelfEarly, AcceptOlderBallot,
        SkipLogMatch, ApplyUnverified, ElectOlderLog, ElectByOne, CommitAtOne, TrustRecovered,
        ForgetPromise, TornRecord, ReadWithoutCheck, ServeEarly, HoldBack, IgnoreRoom,
        AnyAnswerServes,
    };
    all.push(mutant::<Member<Kind<Sound, Forgetful>>, Durable<Sound>>());
    all.push(mutant::<Member<Kind<Sound, IgnoringSyncErrors>>, Durable<Sound>>());
    all.push(mutant::<Member<Kind<Sound, CutAtDamage>>, Durable<Sound>>());
    all
}

/// Those of the log's use of its disk.
pub fn log_mutants() -> Vec<Mutant> {
    vec![
        mutant::<Member<Kind<Sound, WithoutDirectorySync>>, DurableLog<Sound>>(),
        mutant::<Member<Kind<Sound, WithoutSync>>, DurableLog<Sound>>(),
        mutant::<Member<Kind<Sound, LogIgnoringSyncErrors>>, DurableLog<Sound>>(),
        mutant::<Member<Kind<Sound, LogCutAtDamage>>, DurableLog<Sound>>(),
        mutant::<Member<Kind<Sound, LogForgetful>>, DurableLog<Sound>>(),
        mutant::<Member<Kind<Sound, MixedSnapshot>>, DurableLog<Sound>>(),
        mutant::<Member<Kind<Sound, CutTooSoon>>, DurableLog<Sound>>(),
        mutant::<Member<Kind<Sound, RemovedTooSoon>>, DurableLog<Sound>>(),
        mutant::<Member<Kind<Sound, UnsyncedNames>>, DurableLog<Sound>>(),
        mutant::<Member<Kind<Sound, NamedTooSoon>>, DurableLog<Sound>>(),
        mutant::<Member<Kind<Sound, SnapshotIgnoringSyncErrors>>, DurableLog<Sound>>(),
    ]
}

/// Those that need members that change.
pub fn members_mutants() -> Vec<Mutant> {
    let mut all = listed! {
        DurableMembers:
        CountRemoved, TwoChanges, PromoteBeforeCaughtUp, AnyIncarnation,
        OldIncarnationVotes, VoteTwice, ElectByEveryConfiguration,
        IgnoreWinner, HoldByMajority, HoldBySuccessor,
    };
    all.push(mutant::<Member<Kind<Sound, OperatedIgnoringSyncErrors>>, DurableMembers<Sound>>());
    all.push(mutant::<Member<Kind<Sound, OperatedCutAtDamage>>, DurableMembers<Sound>>());
    all
}
