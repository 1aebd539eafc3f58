//! One seed, in whichever world it belongs to.

use crate::cluster::{Kinship, run as run_cluster};
use crate::group;
use crate::subject::Subject;
use crate::world::run;
use crate::{Config, Outcome, Property, Violation};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The world of a seed.
#[derive(Clone, Copy)]
pub(crate) enum Runner {
    /// Machines alone.
    World(Subject),
    /// Whole members.
    Cluster(Kinship),
    /// Processes of a group, perhaps with a planted bug.
    Group(group::Kind, Option<group::Bug>),
}

impl Runner {
    /// A run whose panics (the machine's own assertions) are findings.
    pub(crate) fn run_caught(&self, config: &Config, seed: u64) -> Outcome {
        let run = || match self {
            Runner::World(subject) => run(subject, config, seed),
            Runner::Cluster(kind) => run_cluster(*kind, config, seed),
            Runner::Group(kind, bug) => group::run(*kind, *bug, config, seed),
        };
        caught(run).unwrap_or_else(|detail| {
            Outcome::of_violation(Violation { at_ns: 0, property: Property::Panic, detail })
        })
    }
}

/// The result of `act`, or the text of its panic.
pub(crate) fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| {
        panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "a panic without a text".to_string())
    })
}
