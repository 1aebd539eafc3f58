//! `gregale sim` on the command line.

use ::sim::subjects::subjects;
use ::sim::{Subject, amcast, cluster, group};
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use console::Format;
use proto::amcast::linear::Rule;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::LazyLock;

/// The subjects of `gregale sim`.
#[derive(Clone, Copy)]
pub(crate) enum SimProtocol {
    /// The machine of a protocol that replicates a log.
    Log(Subject),
    /// Whole members, as they are released.
    Cluster(cluster::Protocol),
    /// Processes of a group with views.
    Group(group::Kind),
    /// Atomic multicast.
    Multicast(&'static amcast::Subject),
}

impl fmt::Debug for SimProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl ValueEnum for SimProtocol {
    fn value_variants<'a>() -> &'a [SimProtocol] {
        static ALL: LazyLock<Vec<SimProtocol>> = LazyLock::new(|| {
            let logs = subjects().iter().copied().map(SimProtocol::Log);
            let clusters = cluster::Protocol::all().map(SimProtocol::Cluster);
            let multicasts = amcast::subjects().iter();
            let groups = group::Kind::ALL.into_iter().map(SimProtocol::Group);
            let alone = logs.chain(clusters).chain(groups);
            alone.chain(multicasts.map(SimProtocol::Multicast)).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            SimProtocol::Log(subject) => Some(PossibleValue::new(subject.name).help(subject.text)),
            SimProtocol::Cluster(of) => Some(PossibleValue::new(of.name()).help(of.text())),
            SimProtocol::Group(of) => Some(PossibleValue::new(of.name()).help(of.text())),
            SimProtocol::Multicast(of) => Some(PossibleValue::new(&*of.name).help(&*of.text)),
        }
    }
}

/// The rule by which multicast respects real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RealtimeRule {
    /// Primaries tell what they have not delivered; only destinations take part.
    Hop,
    /// Every group reports its clock.
    AllGroups,
    /// Wait until every synchronized clock has passed.
    CommitWait,
}

impl From<RealtimeRule> for Rule {
    fn from(rule: RealtimeRule) -> Rule {
        match rule {
            RealtimeRule::Hop => Rule::Hop,
            RealtimeRule::AllGroups => Rule::AllGroups,
            RealtimeRule::CommitWait => Rule::CommitWait,
        }
    }
}

impl SimProtocol {
    /// The name on the command line and in JSON.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value().expect("none of them is hidden");
        value.get_name().to_owned()
    }
}

/// `gregale sim`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    gregale sim --protocol velos --seeds 1000          a sweep\n  \
    gregale sim --protocol velos --seeds 100 --mutants  and every planted bug must be caught\n  \
    gregale sim --protocol velos --seeds 100 --cover    and every interesting case must be met\n  \
    gregale sim --protocol velos --seed 42 --trace      one seed, whole\n  \
    gregale sim --protocol velos-cluster --seeds 60     whole members and their clients\n  \
    gregale sim --protocol primcast-linearizable --rule hop --groups 4")]
pub(crate) struct SimArgs {
    /// The subject to simulate.
    #[arg(long, value_enum, default_value_t = SimProtocol::Log(subjects()[0]))]
    pub(crate) protocol: SimProtocol,
    /// The number of seeds.
    #[arg(long, default_value_t = 1000)]
    pub(crate) seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    pub(crate) first: u64,
    /// A time in seconds, in which as many seeds as possible are run, instead of a number.
    #[arg(long, conflicts_with_all = ["seeds", "seed", "mutants"])]
    pub(crate) seconds: Option<u64>,
    /// One seed alone.
    #[arg(long, conflicts_with_all = ["seeds", "first", "mutants"])]
    pub(crate) seed: Option<u64>,
    /// With --seed: print every step.
    #[arg(long)]
    pub(crate) trace: bool,
    /// The number of members, up to 7 (of a group: of founders, up to 512); without it each seed
    /// decides.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=base::SEATS_MAX as i64))]
    pub(crate) members: Option<u16>,
    /// Multicast: the number of groups; without it each seed decides.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) groups: Option<u8>,
    /// Skeen, primcast-linearizable, -stable and -members: the rule for real time
    /// (primcast-linearizable: hop if not said otherwise).
    #[arg(long, value_enum)]
    pub(crate) rule: Option<RealtimeRule>,
    /// Each run is a day: few operations, idle hours, faults that last for hours, wall clocks that
    /// drift, are set and corrected. Not for multicast.
    #[arg(long)]
    pub(crate) long: bool,
    /// Multicast: faults and messages are aimed too: chains of groups of which one has its clock
    /// far ahead, as many failures at once as may be; primcast-stable: at what has left a process
    /// and is not yet on its disk, and at a process that has just come back
    #[arg(long)]
    pub(crate) aimed: bool,
    /// Multicast: three times as many changes of primaries, among more messages to several groups.
    #[arg(long)]
    pub(crate) restless: bool,
    /// A case that the protocol can reach, and that no seed has reached, fails the command. Not for
    /// multicast.
    #[arg(long, conflicts_with_all = ["seconds", "seed"])]
    pub(crate) cover: bool,
    /// Also run the planted bugs; one that survives fails the command.
    #[arg(long)]
    pub(crate) mutants: bool,
    /// Hunt this planted bug alone, through --seeds seeds from --first on, and on one thread;
    /// whether or not a sweep of the protocol has to find it.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["seconds", "seed", "mutants", "cover"])]
    pub(crate) bug: Option<String>,
    /// The number of threads; without it one a processor. Results do not depend on it.
    #[arg(long)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// The format of the printed result.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `xtask/src/seeds.rs`: a kind without a turn would never run seeds that are new.
    #[test]
    fn s3_every_kind_of_the_simulator_has_its_turn() {
        let sweeps = include_str!("../../../../xtask/sweeps.toml");
        for kind in SimProtocol::value_variants() {
            let named = format!("protocol = \"{}\"\n", kind.name());
            let mut of_kind = sweeps.split("[[sweep]]").filter(|one| one.contains(&named));
            let has_turn = of_kind.any(|one| one.contains("turns = [") && !one.contains("[]"));
            assert!(has_turn, "{} has no turn in xtask/sweeps.toml", kind.name());
        }
    }
}
