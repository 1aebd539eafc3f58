//! What is simulated of protocols that replicate a log: each protocol of the registry in its
//! environment, and again with members that change and over the log that ships, where it has these.
//!
//! A protocol's own bugs are in its folder (`proto::planted`). Here are those of a machine's
//! environment: its disk, its snapshots, its stamps.

use crate::runner::Runner;
use crate::subject::{Subject, Surrounding};
use crate::{Mutant, Snapshots, Stamps, Store};
use proto::registry::{LogProtocol, LogSpec, LogVisitor};
use proto::velos;
use std::sync::LazyLock;

/// Every one. The first is the usual one.
pub fn subjects() -> &'static [Subject] {
    static ALL: LazyLock<Vec<Subject>> = LazyLock::new(|| {
        let mut all: Vec<_> = LogProtocol::ALL.iter().flat_map(|one| one.visit(List)).collect();
        // Stamps are the engine's: one protocol shows their bugs.
        all[0].around_for_days = OF_STAMPS;
        all.push(narrow());
        all
    });
    &ALL
}

/// The subject of this name.
///
/// # Panics
/// If no subject has it.
pub fn subject(name: &str) -> Subject {
    Subject::named(name).unwrap_or_else(|| panic!("no subject is called {name}"))
}

/// The subjects of one protocol.
struct List;

impl LogVisitor for List {
    type Output = Vec<Subject>;

    fn visit<S: LogSpec>(self) -> Vec<Subject> {
        let one = Subject::of::<S>();
        let alone = if one.is_durable { one.among(OF_DISKS) } else { one };
        let mut all = vec![alone];
        if S::ROW.members_change {
            let text = "The same, with an operator who adds, removes and replaces members";
            let operated = one.operated().called("members", text);
            all.push(if one.is_durable { operated.among(OF_DISKS_OF_MEMBERS) } else { operated });
        }
        if one.is_durable {
            let text = "The first again, over the log that ships on a disk that loses and tears \
                        what was not synced";
            all.push(one.on(Store::Log).among(OF_THE_LOG).called("log", text));
        }
        all
    }
}

/// Velos whose words overflow.
fn narrow() -> Subject {
    Subject::of::<velos::NarrowSpec>().called(
        "narrow",
        "The first with slot words so narrow that generations wrap and ballots overflow",
    )
}

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
        subjects().iter().copied().find(|subject| subject.name == name)
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
    use crate::Mark;
    use proto::planted::Caught;

    #[test]
    fn what_a_protocol_does_not_meet_is_a_case_that_there_is() {
        let marks: Vec<String> = Mark::ALL.iter().map(|mark| format!("{mark:?}")).collect();
        for subject in subjects() {
            for unmet in subject.unmet {
                assert!(marks.iter().any(|mark| mark == unmet), "{}: {unmet}", subject.name);
            }
        }
    }

    #[test]
    fn every_bug_that_a_sweep_must_find_is_hunted_in_a_subject_that_there_is() {
        for subject in subjects() {
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
