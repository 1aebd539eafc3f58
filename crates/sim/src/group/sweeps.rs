//! Groups in sweeps, replays and hunts for planted bugs.

use super::Kind;
use super::bugs::Bug;
use crate::runner::Runner;
use crate::sweep::{Mutant, replay_runner, sweep_runner};
use crate::{Config, Outcome, Report};

/// As [`crate::sweep()`], of groups.
pub fn sweep(
    kind: Kind,
    config: &Config,
    seeds: impl IntoIterator<Item = u64>,
    progress: impl FnMut(&Report) -> bool,
) -> Report {
    sweep_runner(&Runner::Group(kind, None), config, seeds, progress)
}

/// As [`crate::replay`], of a group.
pub fn replay(kind: Kind, config: &Config, seed: u64) -> Outcome {
    replay_runner(&Runner::Group(kind, None), config, seed)
}

/// Every planted bug of views and of the table below them that a sweep must find.
pub fn mutants(kind: Kind) -> Vec<Mutant> {
    let hunted = Bug::all().filter(|bug| bug.caught().is_hunted_in(kind.name()));
    hunted.map(|bug| mutant(kind, bug)).collect()
}

/// The planted bug of this name: whether or not a sweep has to find it.
pub fn mutant_named(kind: Kind, name: &str) -> Option<Mutant> {
    Bug::all().find(|bug| bug.name() == name).map(|bug| mutant(kind, bug))
}

fn mutant(kind: Kind, bug: Bug) -> Mutant {
    Mutant {
        name: bug.name(),
        broken: Runner::Group(kind, Some(bug)),
        sound: Runner::Group(kind, None),
    }
}
