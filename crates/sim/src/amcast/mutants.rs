//! Planted bugs: each rule of PrimCast, of its errata and of real-time order, broken once.

use super::{Config, Finding, run};
use crate::sweep::quietly;
use proto::amcast::Multicast;
use proto::amcast::linear::Rule;
use proto::amcast::primcast::Machine;
use proto::amcast::skeen::Skeen;
use proto::amcast::variant::{Printed, Sound, Variant};
use std::fmt::Debug;

/// A protocol with a planted bug.
#[derive(Clone)]
pub struct Mutant {
    /// The bug's name.
    pub name: &'static str,
    config: Config,
    hunt: fn(&Config, u64, u64) -> Option<Finding>,
}

impl Mutant {
    /// Runs up to `n_seeds` seeds from `first`, until one finds the bug: it breaks a property with
    /// the bug, and none without it.
    pub fn hunt(&self, first: u64, n_seeds: u64) -> Option<Finding> {
        (self.hunt)(&self.config, first, n_seeds)
    }
}

fn hunt<M: Multicast, S: Multicast>(config: &Config, first: u64, n_seeds: u64) -> Option<Finding>
where
    M::Wire: Debug + PartialEq,
    S::Wire: Debug + PartialEq,
{
    quietly(|| {
        (first..first + n_seeds).find_map(|seed| {
            let violation = run::<M>(config, seed).violation?;
            // What breaks without the bug too says nothing about the bug.
            let is_sound = run::<S>(config, seed).violation.is_none();
            is_sound.then_some(Finding { seed, violation })
        })
    })
}

macro_rules! primcast {
    ($list:ident, $config:expr; $($name:ident: $flag:ident = $value:expr;)*) => {$(
        #[derive(Clone, Debug)]
        enum $name {}
        impl Variant for $name {
            const NAME: &'static str = stringify!($flag);
            const $flag: Flag![$flag] = $value;
        }
        $list.push(Mutant {
            name: $name::NAME,
            config: $config.clone(),
            hunt: hunt::<Machine<$name>, Machine<Sound>>,
        });
    )*};
}

/// The type of a variant's constant.
macro_rules! Flag {
    (HOP_LEVELS_MISSING) => {
        u8
    };
    ($flag:ident) => {
        bool
    };
}

#[derive(Clone, Debug)]
enum BumpOnlyWhenRaised {}

impl Variant for BumpOnlyWhenRaised {
    const NAME: &'static str = "BUMP_ONLY_WHEN_RAISED";
    const BUMP_ONLY_WHEN_RAISED: bool = true;
    const NEVER_PULL: bool = true;
}

#[derive(Clone, Debug)]
enum NoReportOfNewPrimary {}

impl Variant for NoReportOfNewPrimary {
    const NAME: &'static str = "NO_REPORT_OF_NEW_PRIMARY";
    const NO_REPORT_OF_NEW_PRIMARY: bool = true;
    const NEVER_PULL: bool = true;
}

#[derive(Clone, Debug)]
enum NeverPull {}

impl Variant for NeverPull {
    const NAME: &'static str = "NEVER_PULL";
    const NEVER_PULL: bool = true;
}

/// Every planted bug.
pub fn mutants() -> Vec<Mutant> {
    let mut list = Vec::new();
    let plain = Config::default();
    let five = Config { members: Some(5), groups: Some(2), restless: true, ..plain.clone() };
    let restless = Config { members: Some(3), groups: Some(2), restless: true, ..plain.clone() };
    let hop = Config { rule: Rule::Hop, ..plain.clone() };
    let hop_of_four = Config { groups: Some(4), ..hop.clone() };
    let all = Config { rule: Rule::AllGroups, ..five.clone() };
    let wait = Config { rule: Rule::CommitWait, ..plain.clone() };
    primcast! { list, plain.clone();
        ReackInNewEpoch: REACK_IN_NEW_EPOCH = true;
        AckWithoutBody: ACK_WITHOUT_BODY = true;
        NoPrimaryClock: NO_PRIMARY_CLOCK = true;
        IgnorePending: IGNORE_PENDING = true;
        LocalQuorumMinusOne: LOCAL_QUORUM_MINUS_ONE = true;
    }
    primcast! { list, restless;
        MixEpochs: MIX_EPOCHS = true;
        ShortestState: SHORTEST_STATE = true;
        AnyEpochState: ANY_EPOCH_STATE = true;
        OwnClockOnly: OWN_CLOCK_ONLY = true;
        LeadWithoutAccepts: LEAD_WITHOUT_ACCEPTS = true;
    }
    // Of three, any two meet the primary and whoever relied on it: these bugs need five.
    primcast! { list, five;
        DropWhilePromised: DROP_WHILE_PROMISED = true;
        ReportCurrentEpoch: REPORT_CURRENT_EPOCH = true;
        ClocksOfLaterEpochs: CLOCKS_OF_LATER_EPOCHS = true;
        NoQuorumClock: NO_QUORUM_CLOCK = true;
    }
    primcast! { list, hop.clone();
        SkipOneDestination: SKIP_ONE_DESTINATION = true;
    }
    primcast! { list, hop_of_four; HopLevelsMissing: HOP_LEVELS_MISSING = 1; }
    primcast! { list, all;
        PastWithoutPrimary: PAST_WITHOUT_PRIMARY = true;
        PastWithoutQuorum: PAST_WITHOUT_QUORUM = true;
        PastQuorumMinusOne: PAST_QUORUM_MINUS_ONE = true;
        PastInAnyEpoch: PAST_IN_ANY_EPOCH = true;
        CandidateCounts: CANDIDATE_COUNTS = true;
    }
    primcast! { list, wait; WaitWithoutError: WAIT_WITHOUT_ERROR = true; }
    // An answer to a pull carries a clock, too, and mends what is missing here: so nobody pulls.
    list.push(Mutant {
        name: NeverPull::NAME,
        config: plain.clone(),
        hunt: hunt::<Machine<NeverPull>, Machine<Sound>>,
    });
    list.push(Mutant {
        name: BumpOnlyWhenRaised::NAME,
        config: plain.clone(),
        hunt: hunt::<Machine<BumpOnlyWhenRaised>, Machine<NeverPull>>,
    });
    list.push(Mutant {
        name: NoReportOfNewPrimary::NAME,
        config: hop.clone(),
        hunt: hunt::<Machine<NoReportOfNewPrimary>, Machine<NeverPull>>,
    });
    list.push(Mutant {
        name: "ALGORITHM_4",
        config: Config { judge_realtime: true, groups: Some(3), ..plain },
        hunt: hunt_printed,
    });
    list
}

/// Algorithm 4 as printed is wrong where Skeen with `hop` is right: in the same seeds.
fn hunt_printed(config: &Config, first: u64, n_seeds: u64) -> Option<Finding> {
    let hop = Config { rule: Rule::Hop, ..config.clone() };
    quietly(|| {
        (first..first + n_seeds).find_map(|seed| {
            let violation = run::<Skeen<Printed>>(config, seed).violation?;
            let is_sound = run::<Skeen<Sound>>(&hop, seed).violation.is_none();
            is_sound.then_some(Finding { seed, violation })
        })
    })
}
