//! Clusters in sweeps, replays and hunts for planted bugs.

use super::kinds::{Bug, Kinship, Protocol};
use crate::runner::Runner;
use crate::sweep::{Mutant, replay_runner, sweep_runner};
use crate::{Config, Outcome, Report};

fn sound(protocol: Protocol) -> Runner {
    Runner::Cluster(Kinship { protocol, bug: None })
}

/// As [`crate::sweep()`], of clusters.
pub fn sweep(
    protocol: Protocol,
    config: &Config,
    seeds: impl IntoIterator<Item = u64>,
    progress: impl FnMut(&Report) -> bool,
) -> Report {
    sweep_runner(&sound(protocol), config, seeds, progress)
}

/// As [`crate::replay`], of a cluster.
pub fn replay(protocol: Protocol, config: &Config, seed: u64) -> Outcome {
    replay_runner(&sound(protocol), config, seed)
}

/// Every bug that is planted in the engine or the door, and that a cluster of this protocol can
/// show.
pub fn mutants(protocol: Protocol) -> Vec<Mutant> {
    let shows = |bug: &Bug| match protocol {
        Protocol::Velos => !bug.engine().is_some_and(engine::Bug::needs_disk),
        // A member that comes back with its disk is hardly ever without the state.
        Protocol::Durable => *bug != Bug::Engine(engine::Bug::LearnersRead),
    };
    let mutant = |bug: Bug| Mutant {
        name: bug.name(),
        broken: Runner::Cluster(Kinship { protocol, bug: Some(bug) }),
        sound: sound(protocol),
    };
    Bug::all().filter(shows).map(mutant).collect()
}
