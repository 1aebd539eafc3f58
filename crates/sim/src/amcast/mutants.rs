//! Planted bugs: each rule of PrimCast, of its errata and of real-time order, broken once.

use super::process::Protocol;
use super::script::Script;
use super::{Config, Finding, Property, Violation, run_protocol, schedules};
use crate::runner::caught;
use crate::sweep::quietly;
use proto::amcast::Multicast;
use proto::amcast::fastcast::Fastcast;
use proto::amcast::linear::Rule;
use proto::amcast::primcast::Machine;
use proto::amcast::skeen::Skeen;
use proto::amcast::variant::{Printed, Sound, Variant};
use proto::amcast::whitebox::Whitebox;
use proto::amcast::wire::Wire;
use std::fmt::Debug;
use std::ops::Range;

/// A protocol with a planted bug.
#[derive(Clone)]
pub struct Mutant {
    /// The bug's name.
    pub name: &'static str,
    way: Way,
}

/// The way in which it is found.
#[derive(Clone)]
enum Way {
    /// By random schedules.
    Sweep(Config, fn(&Config, u64, u64) -> Option<Finding>),
    /// By a schedule set by hand, since random ones rarely meet it.
    Schedule(fn() -> Option<Finding>),
}

impl Mutant {
    /// Runs up to `n_seeds` seeds from `first`, or the schedule that is set for it, until one finds
    /// the bug: it breaks a property with the bug, and none without it.
    pub fn hunt(&self, first: u64, n_seeds: u64) -> Option<Finding> {
        match &self.way {
            Way::Sweep(config, hunt) => hunt(config, first, n_seeds),
            Way::Schedule(show) => show(),
        }
    }

    /// Whether it is a bug of crash recovery.
    pub fn is_of_recovery(&self) -> bool {
        matches!(&self.way, Way::Sweep(config, _) if config.recovers)
    }

    /// Whether it is a bug of changes of members.
    pub fn is_of_members(&self) -> bool {
        matches!(&self.way, Way::Sweep(config, _) if config.changes_members)
    }

    /// Whether a schedule set by hand shows it; then a finding's seed has no meaning.
    pub fn is_scheduled(&self) -> bool {
        matches!(self.way, Way::Schedule(_))
    }
}

/// The violation of a schedule: the common properties, and real time, which every rule here
/// promises.
fn judge<M: Multicast>(schedule: fn() -> Script<M>) -> Option<Violation>
where
    M::Wire: Debug + PartialEq,
{
    let judged = caught(|| {
        let script = schedule();
        script.judge().and_then(|()| script.judge_realtime()).err()
    });
    judged.unwrap_or_else(|detail| Some(Violation { property: Property::Panic, detail }))
}

/// Whether a schedule breaks the machine with the bug and not the one without.
fn show<M: Multicast, S: Multicast>(
    broken: fn() -> Script<M>,
    sound: fn() -> Script<S>,
) -> Option<Finding>
where
    M::Wire: Debug + PartialEq,
    S::Wire: Debug + PartialEq,
{
    quietly(|| {
        let violation = judge(broken)?;
        judge(sound).is_none().then_some(Finding { seed: 0, violation })
    })
}

fn hunt<M: Multicast, S: Multicast<Wire = M::Wire>>(
    config: &Config,
    first: u64,
    n_seeds: u64,
) -> Option<Finding>
where
    M::Wire: Debug + PartialEq,
{
    let (broken, sound) = (Protocol::of::<M>(), Protocol::of::<S>());
    hunt_through((&broken, config), (&sound, config), first..first + n_seeds)
}

/// A seed that breaks a property without the bug too shows nothing about the bug.
fn hunt_through<W: Wire + Debug + PartialEq>(
    broken: (&Protocol<W>, &Config),
    sound: (&Protocol<W>, &Config),
    mut seeds: Range<u64>,
) -> Option<Finding> {
    let judge = |(protocol, config), seed| run_protocol(protocol, config, seed).violation;
    quietly(|| {
        seeds.find_map(|seed| {
            let violation = judge(broken, seed)?;
            judge(sound, seed).is_none().then_some(Finding { seed, violation })
        })
    })
}

macro_rules! variant {
    ($name:ident: $label:expr, $flag:ident = $value:expr) => {
        #[derive(Clone, Debug)]
        enum $name {}
        impl Variant for $name {
            const NAME: &'static str = $label;
            const $flag: Flag![$flag] = $value;
        }
    };
}

/// PrimCast with one bug, hunted by random schedules.
macro_rules! primcast {
    ($list:ident, $config:expr; $($name:ident: $flag:ident = $value:expr;)*) => {$(
        variant!($name: stringify!($flag), $flag = $value);
        let way = Way::Sweep($config.clone(), hunt::<Machine<$name>, Machine<Sound>>);
        $list.push(Mutant { name: $name::NAME, way });
    )*};
}

/// PrimCast with one bug, shown by a schedule.
macro_rules! scheduled {
    ($list:ident; $($name:ident: $flag:ident by $schedule:ident;)*) => {$(
        variant!($name: stringify!($flag), $flag = true);
        let way = Way::Schedule(|| {
            show(schedules::$schedule::<Machine<$name>>, schedules::$schedule::<Machine<Sound>>)
        });
        $list.push(Mutant { name: $name::NAME, way });
    )*};
}

/// Another protocol with one bug.
macro_rules! other {
    ($list:ident, $config:expr;
        $($machine:ident with $name:ident: $label:literal $flag:ident;)*) => {$(
        variant!($name: $label, $flag = true);
        let way = Way::Sweep($config.clone(), hunt::<$machine<$name>, $machine<Sound>>);
        $list.push(Mutant { name: $name::NAME, way });
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
    let commuting = Config { commutes: true, restless: true, ..plain.clone() };
    let hop = Config { rule: Rule::Hop, ..plain.clone() };
    let hop_of_four = Config { groups: Some(4), ..hop.clone() };
    let wait = Config { rule: Rule::CommitWait, ..plain.clone() };
    let stable = Config { recovers: true, ..plain.clone() };
    let restless_stable = Config { recovers: true, ..restless.clone() };
    primcast! { list, plain.clone();
        ReackInNewEpoch: REACK_IN_NEW_EPOCH = true;
        AckWithoutBody: ACK_WITHOUT_BODY = true;
        NoPrimaryClock: NO_PRIMARY_CLOCK = true;
        IgnorePending: IGNORE_PENDING = true;
        PromiseOnce: PROMISE_ONCE = true;
        WaitToBeAsked: WAIT_TO_BE_ASKED = true;
        LocalQuorumMinusOne: LOCAL_QUORUM_MINUS_ONE = true;
    }
    primcast! { list, restless;
        MixEpochs: MIX_EPOCHS = true;
        ShortestState: SHORTEST_STATE = true;
        AnyEpochState: ANY_EPOCH_STATE = true;
        OwnClockOnly: OWN_CLOCK_ONLY = true;
        LeadWithoutAccepts: LEAD_WITHOUT_ACCEPTS = true;
    }
    primcast! { list, restless;
        ForgetEarly: FORGET_EARLY = true;
        IgnoreFloor: IGNORE_FLOOR = true;
        ForgetNames: FORGET_NAMES = true;
    }
    primcast! { list, commuting;
        IgnoreConflicts: IGNORE_CONFLICTS = true;
        ConflictsWithNearest: CONFLICTS_WITH_NEAREST = true;
        ReadsNeverWait: READS_NEVER_WAIT = true;
        UnknownCommutes: UNKNOWN_COMMUTES = true;
        MarkOfLast: MARK_OF_LAST = true;
        StateUndoes: STATE_UNDOES = true;
    }
    let watched = Config { snapshots: true, ..plain.clone() };
    primcast! { list, watched.clone();
        SafeTsPending: SAFE_TS_PENDING = true;
        SafeTsWithoutQuorum: SAFE_TS_WITHOUT_QUORUM = true;
    }
    primcast! { list, Config { commutes: true, ..watched.clone() };
        CutOvertaken: CUT_OVERTAKEN = true;
    }
    primcast! { list, Config { restless: true, ..watched };
        CutOfState: CUT_OF_STATE = true;
    }
    primcast! { list, stable.clone();
        FollowAfterCrash: FOLLOW_AFTER_CRASH = true;
        ForgetClock: FORGET_CLOCK = true;
        ForgetDelivered: FORGET_DELIVERED = true;
        KeepKnownOnly: KEEP_KNOWN_ONLY = true;
    }
    let asking = Config { rule: Rule::AllGroups, ..stable.clone() };
    primcast! { list, asking; AskOnce: ASK_ONCE = true; }
    primcast! { list, restless_stable;
        ForgetPromise: FORGET_PROMISE = true;
        SpeakAsBefore: SPEAK_AS_BEFORE = true;
        RepeatProposals: REPEAT_PROPOSALS = true;
    }
    // The others of its kind need a rarer coincidence than any seed has met: the protocol's own
    // tests show them, rule by rule.
    let changing = Config { changes_members: true, ..plain.clone() };
    primcast! { list, changing; KeepOldWords: KEEP_OLD_WORDS = true; }
    list.push(Mutant { name: "SEND_BEFORE_SYNC", way: Way::Sweep(stable, hunt_hasty) });
    primcast! { list, five; DropWhilePromised: DROP_WHILE_PROMISED = true; }
    primcast! { list, hop.clone();
        SkipOneDestination: SKIP_ONE_DESTINATION = true;
    }
    primcast! { list, hop_of_four; HopLevelsMissing: HOP_LEVELS_MISSING = 1; }
    primcast! { list, wait;
        WaitWithoutError: WAIT_WITHOUT_ERROR = true;
        WaitForOneError: WAIT_FOR_ONE_ERROR = true;
    }
    scheduled! { list;
        ReportCurrentEpoch: REPORT_CURRENT_EPOCH by promised_and_then_ahead;
        PastWithoutPrimary: PAST_WITHOUT_PRIMARY by primary_behind;
        PastWithoutQuorum: PAST_WITHOUT_QUORUM by minority_ahead_dies;
        PastQuorumMinusOne: PAST_QUORUM_MINUS_ONE by minority_ahead_dies;
        PastInAnyEpoch: PAST_IN_ANY_EPOCH by overtaken_primary_and_a_later_promise;
        // Of three, any two include the primary and the members that relied on it: these two need
        // five.
        NoQuorumClock: NO_QUORUM_CLOCK by minority_ahead_dies;
        ClocksOfLaterEpochs: CLOCKS_OF_LATER_EPOCHS by later_promise_of_five;
    }
    other! { list, restless;
        Whitebox with WhiteboxQuorum: "whitebox: COMMIT_WITHOUT_QUORUM" COMMIT_WITHOUT_QUORUM;
        Whitebox with WhiteboxClock: "whitebox: NO_CLOCK_UPDATE" NO_CLOCK_UPDATE;
        Fastcast with FastcastQuorum: "fastcast: COMMIT_WITHOUT_QUORUM" COMMIT_WITHOUT_QUORUM;
        Fastcast with FastcastClock: "fastcast: NO_CLOCK_UPDATE" NO_CLOCK_UPDATE;
    }
    // An answer to a pull carries a clock too, and repairs the missing part: so no process pulls.
    list.push(Mutant {
        name: NeverPull::NAME,
        way: Way::Sweep(plain.clone(), hunt::<Machine<NeverPull>, Machine<Sound>>),
    });
    list.push(Mutant {
        name: BumpOnlyWhenRaised::NAME,
        way: Way::Schedule(|| {
            show(
                schedules::raised_by_another::<Machine<BumpOnlyWhenRaised>>,
                schedules::raised_by_another::<Machine<NeverPull>>,
            )
        }),
    });
    list.push(Mutant {
        name: NoReportOfNewPrimary::NAME,
        way: Way::Sweep(hop, hunt::<Machine<NoReportOfNewPrimary>, Machine<NeverPull>>),
    });
    let printed = Config { judge_realtime: true, groups: Some(3), ..plain };
    list.push(Mutant { name: "ALGORITHM_4", way: Way::Sweep(printed, hunt_printed) });
    list
}

/// Hunts the processes that send before their disk has the record, in seeds where others are
/// correct.
fn hunt_hasty(config: &Config, first: u64, n_seeds: u64) -> Option<Finding> {
    let hasty = Config { hasty: true, ..config.clone() };
    let primcast = Protocol::of::<Machine<Sound>>();
    hunt_through((&primcast, &hasty), (&primcast, config), first..first + n_seeds)
}

/// Hunts algorithm 4 as printed, in seeds where Skeen with `hop` is correct.
fn hunt_printed(config: &Config, first: u64, n_seeds: u64) -> Option<Finding> {
    let hop = Config { rule: Rule::Hop, ..config.clone() };
    let (printed, sound) = (Protocol::of::<Skeen<Printed>>(), Protocol::of::<Skeen<Sound>>());
    hunt_through((&printed, config), (&sound, &hop), first..first + n_seeds)
}
