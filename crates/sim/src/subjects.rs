//! The simulated protocols that replicate a log, and the bugs that sweeps must find.
//!
//! A protocol's own bugs are in its folder (`proto::planted`). Here are those of a machine's
//! environment: its disk, its snapshots, its stamps.

use crate::runner::Runner;
use crate::subject::{Subject, Surrounding};
use crate::{Mark, Mutant, Provider, Snapshots, Stamps, Store};
use proto::{durable, mu, multipaxos, velos};

/// Velos.
pub const VELOS: Subject = Subject::of::<velos::Spec>("velos", "One-sided Paxos")
    .among_for_days(OF_STAMPS)
    .without(WIDE_WORDS);
/// Velos whose words overflow.
pub const VELOS_NARROW: Subject = Subject::of::<velos::NarrowSpec>(
    "velos-narrow",
    "The same with slot words so narrow that generations wrap and ballots overflow",
);
/// Velos whose members change.
pub const VELOS_MEMBERS: Subject = Subject::of::<velos::Spec>(
    "velos-members",
    "The first, with an operator who adds, removes and replaces members",
)
.operated()
.without(WIDE_WORDS);
/// Mu, which needs memory whose owner can exclude a writer.
pub const MU: Subject = Subject::of::<mu::Spec>("mu", "Writes under a permission, for comparison")
    .over(Provider::Tcp)
    .without(WRITES_ALONE);
/// Multi-Paxos, whose leases need clocks that do not jump.
pub const MULTIPAXOS: Subject =
    Subject::of::<multipaxos::Spec>("multipaxos", "Messages to acceptors, and a lease for reads")
        .with_steady_clocks()
        .without(MESSAGES_ALONE);
/// Durable.
pub const DURABLE: Subject =
    Subject::of::<durable::Spec>("durable", "A log on disk, under power cuts and failing disks")
        .on(Store::Model)
        .among(OF_DISKS)
        .without(LEADER_READS);
/// Durable whose members change.
pub const DURABLE_MEMBERS: Subject = Subject::of::<durable::Spec>(
    "durable-members",
    "The same, with an operator who adds, removes and replaces members",
)
.on(Store::Model)
.operated()
.among(OF_DISKS_OF_MEMBERS)
.without(LEADER_READS);
/// Durable over the released log.
pub const DURABLE_LOG: Subject = Subject::of::<durable::Spec>(
    "durable-log",
    "The first again, over the log that ships on a disk that loses and tears what was not synced",
)
.on(Store::Log)
.among(OF_THE_LOG)
.without(LEADER_READS);

/// Every one.
pub const SUBJECTS: [Subject; 8] =
    [VELOS, VELOS_NARROW, VELOS_MEMBERS, MU, MULTIPAXOS, DURABLE, DURABLE_MEMBERS, DURABLE_LOG];

/// A word that is wide enough for every ballot needs no message.
const WIDE_WORDS: &[Mark] = &[Mark::MachineMessage];

/// A protocol that writes without compare-and-swap never sees one fail, and has neither a ring nor
/// effects that others could see halfway.
const WRITES_ALONE: &[Mark] =
    &[Mark::FailedCas, Mark::FailedCasOfLeader, Mark::CaughtUpByRead, Mark::OthersBetween];

/// Of what comes by messages nothing is torn, compared or read in others' rings; and a follower
/// forwards what it is asked to read.
const MESSAGES_ALONE: &[Mark] = &[
    Mark::TornVerb,
    Mark::FailedCas,
    Mark::FailedCasOfLeader,
    Mark::CaughtUpByRead,
    Mark::FollowerRead,
];

/// Reads are the leader's: that it has lost the lead when it answers one takes some 1,000 seeds.
const LEADER_READS: &[Mark] = &[Mark::FollowerRead];

const OF_DISKS: &[Surrounding] = &[
    Surrounding::snapshots("SNAPSHOT_WITHOUT_SESSIONS", Snapshots::WithoutSessions),
    Surrounding::store("IGNORE_SYNC_ERROR", Store::ModelIgnoringSyncErrors),
    Surrounding::store("CUT_AT_DAMAGE", Store::ModelCutAtDamage),
];

const OF_DISKS_OF_MEMBERS: &[Surrounding] = &[
    Surrounding::store("IGNORE_SYNC_ERROR", Store::ModelIgnoringSyncErrors),
    Surrounding::store("CUT_AT_DAMAGE", Store::ModelCutAtDamage),
];

const OF_THE_LOG: &[Surrounding] = &[
    Surrounding::store("SKIP_DIRECTORY_SYNC", Store::LogWithoutDirectorySync),
    Surrounding::store("SKIP_SYNC", Store::LogWithoutSync),
    Surrounding::store("IGNORE_SYNC_ERROR", Store::LogIgnoringSyncErrors),
    Surrounding::store("CUT_AT_DAMAGE", Store::LogCutAtDamage),
    Surrounding::snapshots("SNAPSHOT_WITHOUT_SESSIONS", Snapshots::WithoutSessions),
    Surrounding::snapshots("SNAPSHOT_MIXES_PREFIXES", Snapshots::Mixed),
    Surrounding::snapshots("CUT_BEFORE_SNAPSHOT", Snapshots::CutTooSoon),
    Surrounding::snapshots("REMOVE_OLD_SNAPSHOT_FIRST", Snapshots::RemovedTooSoon),
    Surrounding::store("SNAPSHOT_WITHOUT_DIRECTORY_SYNC", Store::SnapshotsWithoutDirectorySync),
    Surrounding::store("SNAPSHOT_NAMED_BEFORE_SYNC", Store::SnapshotsNamedBeforeSync),
    Surrounding::store("SNAPSHOT_IGNORES_SYNC_ERROR", Store::SnapshotsIgnoringSyncErrors),
];

/// These show in long runs only.
const OF_STAMPS: &[Surrounding] = &[
    Surrounding::stamps("STAMP_OF_WALL_CLOCK", Stamps::OfWallClock),
    Surrounding::stamps("STAND_STILL_WHILE_IDLE", Stamps::StandStillWhileIdle),
];

/// A bug that needs another beside it: a machine that gives heads of states that it has not applied
/// is harmless until a runtime gives such states.
const TWICE: (&str, Snapshots) = ("HEAD_ABOVE_APPLIED", Snapshots::OfWhatIsNotApplied);

impl Subject {
    /// The subject of that name.
    pub fn named(name: &str) -> Option<Subject> {
        SUBJECTS.into_iter().find(|subject| subject.name == name)
    }

    /// Every planted bug that sweeps of this subject must find.
    pub fn mutants(&self) -> Vec<Mutant> {
        let hunted = (self.bugs)().into_iter().filter(|bug| bug.caught.is_hunted_in(self.name));
        let of_protocol = hunted.map(|bug| self.with(bug.name));
        let around = self.around.iter().map(|one| one.around(*self));
        of_protocol.chain(around).map(|broken| self.mutant(broken)).collect()
    }

    /// Those that show only in runs of a day.
    pub fn long_mutants(&self) -> Vec<Mutant> {
        self.around_for_days.iter().map(|one| self.mutant(one.around(*self))).collect()
    }

    /// The planted bug of this name, of the protocol or of its environment: whether or not a sweep
    /// of this subject has to find it.
    pub fn mutant_named(&self, name: &str) -> Option<Mutant> {
        let of_protocol = (self.bugs)().into_iter().map(|bug| self.with(bug.name));
        let around = self.around.iter().chain(self.around_for_days).map(|one| one.around(*self));
        let broken = of_protocol.chain(around).find(|broken| broken.name == name)?;
        Some(self.mutant(broken))
    }

    fn mutant(&self, broken: Subject) -> Mutant {
        Mutant { name: broken.name, broken: Runner::World(broken), sound: Runner::World(*self) }
    }

    /// The subject with a planted bug, named after it.
    fn with(self, name: &'static str) -> Subject {
        let snapshots = if name == TWICE.0 { TWICE.1 } else { self.snapshots };
        Subject { name, snapshots, ..self.planted(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::planted::Caught;

    #[test]
    fn every_bug_that_a_sweep_must_find_is_hunted_in_a_subject_that_there_is() {
        for subject in SUBJECTS {
            for bug in (subject.bugs)() {
                let Caught::Sweep(kinds) = bug.caught else { continue };
                for kind in kinds {
                    let hunted = Subject::named(kind).expect(kind).mutants();
                    assert!(hunted.iter().any(|one| one.name == bug.name), "{}", bug.name);
                }
            }
        }
    }
}
