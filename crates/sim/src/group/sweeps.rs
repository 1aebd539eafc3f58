//! Groups in sweeps, replays and hunts for planted bugs.

use super::NAME;
use super::bugs::Bug;
use crate::runner::Runner;
use crate::sweep::{Mutant, replay_runner, sweep_runner};
use crate::{Config, Outcome, Report};

/// As [`crate::sweep()`], of groups.
pub fn sweep(
    config: &Config,
    seeds: impl IntoIterator<Item = u64>,
    progress: impl FnMut(&Report) -> bool,
) -> Report {
    sweep_runner(&Runner::Group(None), config, seeds, progress)
}

/// As [`crate::replay`], of a group.
pub fn replay(config: &Config, seed: u64) -> Outcome {
    replay_runner(&Runner::Group(None), config, seed)
}

/// Every planted bug of views and of the table below them that a sweep must find.
pub fn mutants() -> Vec<Mutant> {
    let mutant = |bug: Bug| Mutant {
        name: bug.name(),
        broken: Runner::Group(Some(bug)),
        sound: Runner::Group(None),
    };
    Bug::all().filter(|bug| bug.caught().is_hunted_in(NAME)).map(mutant).collect()
}
