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

/// Every planted bug of the engine or the door that a cluster of this protocol can show.
pub fn mutants(protocol: Protocol) -> Vec<Mutant> {
    let shows = |bug: &Bug| protocol.kinds().iter().any(|kind| bug.caught().is_hunted_in(kind));
    Bug::all().filter(shows).map(|bug| mutant(protocol, bug)).collect()
}

/// The planted bug of this name, if it can be planted in such a cluster: whether or not a sweep of
/// it has to find it.
pub fn mutant_named(protocol: Protocol, name: &str) -> Option<Mutant> {
    Bug::all().find(|bug| bug.name() == name).map(|bug| mutant(protocol, bug))
}

fn mutant(protocol: Protocol, bug: Bug) -> Mutant {
    Mutant {
        name: bug.name(),
        broken: Runner::Cluster(Kinship { protocol, bug: Some(bug) }),
        sound: sound(protocol),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::planted::Caught;

    #[test]
    fn every_bug_of_engine_and_door_is_hunted_in_a_cluster_that_there_is() {
        let there_are: Vec<&str> = Protocol::all().flat_map(Protocol::kinds).collect();
        for bug in Bug::all() {
            let Caught::Sweep(kinds) = bug.caught() else { continue };
            let all = kinds.iter().all(|kind| there_are.contains(kind));
            assert!(!kinds.is_empty() && all, "{bug:?}");
        }
    }
}
