//! What can be simulated of protocols that replicate a log, and the bugs that sweeps must find.
//!
//! A protocol's own bugs stand in its folder (`proto::planted`). Here are those of what is around a
//! machine: its disk, its snapshots, its stamps.

use crate::runner::Runner;
use crate::subject::Subject;
use crate::{Mutant, Provider, Snapshots, Stamps, Store};
use proto::{durable, mu, velos};

/// Velos.
pub const VELOS: Subject = Subject::of::<velos::Spec>("velos", "One-sided Paxos");
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
.operated();
/// Mu. It needs memory whose owner can keep a writer out.
pub const MU: Subject =
    Subject::of::<mu::Spec>("mu", "Writes under a permission, for comparison").over(Provider::Tcp);
/// Durable.
pub const DURABLE: Subject =
    Subject::of::<durable::Spec>("durable", "A log on disk, under power cuts and failing disks")
        .on(Store::Model);
/// Durable whose members change.
pub const DURABLE_MEMBERS: Subject = Subject::of::<durable::Spec>(
    "durable-members",
    "The same, with an operator who adds, removes and replaces members",
)
.on(Store::Model)
.operated();
/// Durable over the log that ships.
pub const DURABLE_LOG: Subject = Subject::of::<durable::Spec>(
    "durable-log",
    "The first again, over the log that ships on a disk that loses and tears what was not synced",
)
.on(Store::Log);

/// Every one.
pub const SUBJECTS: [Subject; 7] =
    [VELOS, VELOS_NARROW, VELOS_MEMBERS, MU, DURABLE, DURABLE_MEMBERS, DURABLE_LOG];

/// A bug of what is around a machine.
struct Surrounding {
    /// Its name in reports.
    name: &'static str,
    store: Option<Store>,
    snapshots: Snapshots,
    stamps: Stamps,
}

const fn store(name: &'static str, store: Store) -> Surrounding {
    Surrounding { name, store: Some(store), snapshots: Snapshots::Sound, stamps: Stamps::Sound }
}

const fn snapshots(name: &'static str, snapshots: Snapshots) -> Surrounding {
    Surrounding { name, store: None, snapshots, stamps: Stamps::Sound }
}

const fn stamps(name: &'static str, stamps: Stamps) -> Surrounding {
    Surrounding { name, store: None, snapshots: Snapshots::Sound, stamps }
}

const OF_DISKS: &[Surrounding] = &[
    snapshots("SNAPSHOT_WITHOUT_SESSIONS", Snapshots::WithoutSessions),
    store("IGNORE_SYNC_ERROR", Store::ModelIgnoringSyncErrors),
    store("CUT_AT_DAMAGE", Store::ModelCutAtDamage),
];

const OF_DISKS_OF_MEMBERS: &[Surrounding] = &[
    store("IGNORE_SYNC_ERROR", Store::ModelIgnoringSyncErrors),
    store("CUT_AT_DAMAGE", Store::ModelCutAtDamage),
];

const OF_THE_LOG: &[Surrounding] = &[
    store("SKIP_DIRECTORY_SYNC", Store::LogWithoutDirectorySync),
    store("SKIP_SYNC", Store::LogWithoutSync),
    store("IGNORE_SYNC_ERROR", Store::LogIgnoringSyncErrors),
    store("CUT_AT_DAMAGE", Store::LogCutAtDamage),
    snapshots("SNAPSHOT_WITHOUT_SESSIONS", Snapshots::WithoutSessions),
    snapshots("SNAPSHOT_MIXES_PREFIXES", Snapshots::Mixed),
    snapshots("CUT_BEFORE_SNAPSHOT", Snapshots::CutTooSoon),
    snapshots("REMOVE_OLD_SNAPSHOT_FIRST", Snapshots::RemovedTooSoon),
    store("SNAPSHOT_WITHOUT_DIRECTORY_SYNC", Store::SnapshotsWithoutDirectorySync),
    store("SNAPSHOT_NAMED_BEFORE_SYNC", Store::SnapshotsNamedBeforeSync),
    store("SNAPSHOT_IGNORES_SYNC_ERROR", Store::SnapshotsIgnoringSyncErrors),
];

/// They show in long runs only.
const OF_STAMPS: &[Surrounding] = &[
    stamps("STAMP_OF_WALL_CLOCK", Stamps::OfWallClock),
    stamps("STAND_STILL_WHILE_IDLE", Stamps::StandStillWhileIdle),
];

/// A bug that needs another beside it: a machine that says what goes with states of what it has not
/// applied is harmless until a runtime gives such states.
const TWICE: (&str, Snapshots) = ("HEAD_ABOVE_APPLIED", Snapshots::OfWhatIsNotApplied);

impl Surrounding {
    fn around(&self, sound: Subject) -> Subject {
        let store = self.store.unwrap_or(sound.store);
        let &Surrounding { name, snapshots, stamps, .. } = self;
        Subject { name, store, snapshots, stamps, ..sound }
    }
}

impl Subject {
    /// The subject of that name.
    pub fn named(name: &str) -> Option<Subject> {
        SUBJECTS.into_iter().find(|subject| subject.name == name)
    }

    /// Every planted bug that sweeps of this subject must find, in runs of a day if `is_long`.
    pub fn mutants(&self, is_long: bool) -> Vec<Mutant> {
        let around = match self.name {
            "velos" if is_long => OF_STAMPS,
            _ if is_long => return Vec::new(),
            "durable" => OF_DISKS,
            "durable-members" => OF_DISKS_OF_MEMBERS,
            "durable-log" => OF_THE_LOG,
            _ => &[],
        };
        let listed = (self.bugs)().into_iter();
        let of_protocol = listed
            .filter(|bug| !is_long && bug.caught.is_hunted_in(self.name))
            .map(|bug| self.with(bug.name));
        of_protocol
            .chain(around.iter().map(|one| one.around(*self)))
            .map(|broken| Mutant {
                name: broken.name,
                broken: Runner::World(broken),
                sound: Runner::World(*self),
            })
            .collect()
    }

    /// With a planted bug, and named after it.
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
                    let hunted = Subject::named(kind).expect(kind).mutants(false);
                    assert!(hunted.iter().any(|one| one.name == bug.name), "{}", bug.name);
                }
            }
        }
    }
}
