//! Planted bugs: each rule of PrimCast, of its errata and of real-time order, broken once.

use super::script::Script;
use super::{Config, Finding, Property, Violation, run, schedules};
use crate::runner::caught;
use crate::sweep::quietly;
use proto::amcast::bugs::Bug;
use proto::amcast::linear::Rule;
use proto::amcast::primcast;
use proto::planted::Bugs;
use proto::registry::MulticastProtocol as Protocol;

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
    Sweep(Hunt),
    /// By a schedule set by hand, since random ones rarely meet it.
    Schedule(Shown),
}

/// A hunt by random schedules. A seed that breaks a property without the bug too shows nothing
/// about the bug.
#[derive(Clone)]
struct Hunt {
    protocol: Protocol,
    broken: Config,
    sound: Config,
}

impl Hunt {
    /// The seeds of a kind, with one bug and without.
    fn of(protocol: Protocol, bug: Bug, sound: &Config) -> Hunt {
        Hunt { protocol, broken: Config { bug: Some(bug), ..sound.clone() }, sound: sound.clone() }
    }

    fn find(&self, first: u64, n_seeds: u64) -> Option<Finding> {
        (first..first + n_seeds).find_map(|seed| {
            let violation = run(self.protocol, &self.broken, seed).violation?;
            let is_sound = run(self.protocol, &self.sound, seed).violation.is_none();
            is_sound.then_some(Finding { seed, violation })
        })
    }
}

/// A schedule that breaks PrimCast with a bug, and not the sound one.
#[derive(Clone)]
struct Shown {
    schedule: fn(Option<Bug>) -> Script<primcast::Spec>,
    bug: Bug,
    sound: Option<Bug>,
}

impl Shown {
    /// The violation with `bug`: of the common properties, and of real time, which every rule here
    /// promises.
    fn violation(&self, bug: Option<Bug>) -> Option<Violation> {
        let judged = caught(|| {
            let script = (self.schedule)(bug);
            script.judge().and_then(|()| script.judge_realtime()).err()
        });
        judged.unwrap_or_else(|detail| Some(Violation { property: Property::Panic, detail }))
    }

    fn find(&self) -> Option<Finding> {
        let violation = self.violation(Some(self.bug))?;
        self.violation(self.sound).is_none().then_some(Finding { seed: 0, violation })
    }
}

impl Mutant {
    /// PrimCast with a bug that random schedules meet.
    fn hunted(bug: Bug, config: &Config) -> Mutant {
        Mutant { name: bug.name(), way: Way::Sweep(Hunt::of(Protocol::Primcast, bug, config)) }
    }

    /// PrimCast with a bug that a schedule shows.
    fn shown(bug: Bug, schedule: fn(Option<Bug>) -> Script<primcast::Spec>) -> Mutant {
        Mutant { name: bug.name(), way: Way::Schedule(Shown { schedule, bug, sound: None }) }
    }

    /// Runs up to `n_seeds` seeds from `first`, or the schedule that is set for it, until one finds
    /// the bug: it breaks a property with the bug, and none without it.
    pub fn hunt(&self, first: u64, n_seeds: u64) -> Option<Finding> {
        quietly(|| match &self.way {
            Way::Sweep(hunt) => hunt.find(first, n_seeds),
            Way::Schedule(shown) => shown.find(),
        })
    }

    /// The protocol that has the bug.
    pub fn protocol(&self) -> Protocol {
        match &self.way {
            Way::Sweep(hunt) => hunt.protocol,
            Way::Schedule(_) => Protocol::Primcast,
        }
    }

    /// Whether it is a bug of crash recovery.
    pub fn is_of_recovery(&self) -> bool {
        matches!(&self.way, Way::Sweep(hunt) if hunt.broken.recovers)
    }

    /// Whether it is a bug of changes of members.
    pub fn is_of_members(&self) -> bool {
        matches!(&self.way, Way::Sweep(hunt) if hunt.broken.changes_members)
    }

    /// Whether a schedule set by hand shows it; then a finding's seed has no meaning.
    pub fn is_scheduled(&self) -> bool {
        matches!(self.way, Way::Schedule(_))
    }
}

/// The bugs of PrimCast that random schedules meet, each with the settings that meet it soonest.
fn hunted() -> Vec<Mutant> {
    let plain = Config::default();
    let five = Config { members: Some(5), groups: Some(2), restless: true, ..plain.clone() };
    let restless = restless();
    let commuting = Config { commutes: true, restless: true, ..plain.clone() };
    let watched = Config { snapshots: true, ..plain.clone() };
    let watched_commuting = Config { commutes: true, ..watched.clone() };
    let watched_restless = Config { restless: true, ..watched.clone() };
    let hop = Config { rule: Rule::Hop, ..plain.clone() };
    let hop_of_four = Config { groups: Some(4), ..hop.clone() };
    let wait = Config { rule: Rule::CommitWait, ..plain.clone() };
    let stable = stable();
    let asking = Config { rule: Rule::AllGroups, ..stable.clone() };
    let restless_stable = Config { recovers: true, ..restless.clone() };
    let changing = Config { changes_members: true, ..plain.clone() };
    let kinds: [(Config, &[Bug]); 14] = [
        (
            plain,
            &[
                Bug::ReackInNewEpoch,
                Bug::AckWithoutBody,
                Bug::NoPrimaryClock,
                Bug::IgnorePending,
                Bug::PromiseOnce,
                Bug::WaitToBeAsked,
                Bug::LocalQuorumMinusOne,
                Bug::NeverPull,
            ],
        ),
        (
            restless,
            &[
                Bug::MixEpochs,
                Bug::ShortestState,
                Bug::AnyEpochState,
                Bug::OwnClockOnly,
                Bug::LeadWithoutAccepts,
                Bug::ForgetEarly,
                Bug::IgnoreFloor,
                Bug::ForgetNames,
            ],
        ),
        (
            commuting,
            &[
                Bug::IgnoreConflicts,
                Bug::ConflictsWithNearest,
                Bug::ReadsNeverWait,
                Bug::UnknownCommutes,
                Bug::MarkOfLast,
                Bug::StateUndoes,
            ],
        ),
        (watched, &[Bug::SafeTsPending, Bug::SafeTsWithoutQuorum]),
        (watched_commuting, &[Bug::CutOvertaken]),
        (watched_restless, &[Bug::CutOfState]),
        (
            stable,
            &[Bug::FollowAfterCrash, Bug::ForgetClock, Bug::ForgetDelivered, Bug::KeepKnownOnly],
        ),
        (asking, &[Bug::AskOnce]),
        (restless_stable, &[Bug::ForgetPromise, Bug::SpeakAsBefore, Bug::RepeatProposals]),
        // The others of its kind need a rarer coincidence than any seed has met: the protocol's own
        // tests show them, rule by rule.
        (changing, &[Bug::KeepOldWords, Bug::KeepMarks]),
        (five, &[Bug::DropWhilePromised]),
        (hop, &[Bug::SkipOneDestination]),
        (hop_of_four, &[Bug::HopLevelsMissing]),
        (wait, &[Bug::WaitWithoutError, Bug::WaitForOneError]),
    ];
    let of_kind = |(config, bugs): &(Config, &[Bug])| -> Vec<Mutant> {
        bugs.iter().map(|bug| Mutant::hunted(*bug, config)).collect()
    };
    kinds.iter().flat_map(of_kind).collect()
}

fn restless() -> Config {
    Config { members: Some(3), groups: Some(2), restless: true, ..Config::default() }
}

fn stable() -> Config {
    Config { recovers: true, ..Config::default() }
}

/// The bugs that a schedule shows.
fn shown() -> Vec<Mutant> {
    vec![
        Mutant::shown(Bug::ReportCurrentEpoch, schedules::promised_and_then_ahead),
        Mutant::shown(Bug::PastWithoutPrimary, schedules::primary_behind),
        Mutant::shown(Bug::PastWithoutQuorum, schedules::minority_ahead_dies),
        Mutant::shown(Bug::PastQuorumMinusOne, schedules::minority_ahead_dies),
        Mutant::shown(Bug::PastInAnyEpoch, schedules::overtaken_primary_and_a_later_promise),
        // Of three, any two include the primary and the members that relied on it: these two need
        // five.
        Mutant::shown(Bug::NoQuorumClock, schedules::minority_ahead_dies),
        Mutant::shown(Bug::ClocksOfLaterEpochs, schedules::later_promise_of_five),
    ]
}

/// The bugs beside which no process pulls: an answer to a pull carries a clock too, and repairs the
/// missing part. They are compared with processes that never pull.
fn without_pulls() -> Vec<Mutant> {
    let (schedule, bug, sound) =
        (schedules::raised_by_another, Bug::BumpOnlyWhenRaised, Some(Bug::NeverPull));
    let bump = Way::Schedule(Shown { schedule, bug, sound });
    let hop = Config { rule: Rule::Hop, ..Config::default() };
    let silent = Bug::NoReportOfNewPrimary;
    let report = Hunt {
        protocol: Protocol::Primcast,
        broken: Config { bug: Some(silent), ..hop.clone() },
        sound: Config { bug: sound, ..hop },
    };
    vec![
        Mutant { name: bug.name(), way: bump },
        Mutant { name: silent.name(), way: Way::Sweep(report) },
    ]
}

/// The bugs of the protocols that PrimCast is compared with.
fn of_rivals() -> Vec<Mutant> {
    let whitebox = |bug| Way::Sweep(Hunt::of(Protocol::Whitebox, bug, &restless()));
    let fastcast = |bug| Way::Sweep(Hunt::of(Protocol::Fastcast, bug, &restless()));
    // Algorithm 4 as printed, in seeds where Skeen with `hop` is correct.
    let printed = Config { judge_realtime: true, groups: Some(3), ..Config::default() };
    let skeen = Hunt {
        protocol: Protocol::Skeen,
        broken: Config { bug: Some(Bug::Algorithm4), ..printed.clone() },
        sound: Config { rule: Rule::Hop, ..printed },
    };
    [
        ("whitebox: COMMIT_WITHOUT_QUORUM", whitebox(Bug::CommitWithoutQuorum)),
        ("whitebox: NO_CLOCK_UPDATE", whitebox(Bug::NoClockUpdate)),
        ("fastcast: COMMIT_WITHOUT_QUORUM", fastcast(Bug::CommitWithoutQuorum)),
        ("fastcast: NO_CLOCK_UPDATE", fastcast(Bug::NoClockUpdate)),
        (Bug::Algorithm4.name(), Way::Sweep(skeen)),
    ]
    .map(|(name, way)| Mutant { name, way })
    .into()
}

/// Processes that send before their disk has the record, in seeds where others are correct: a bug
/// of the host.
fn hasty() -> Mutant {
    let (protocol, sound) = (Protocol::Primcast, stable());
    let broken = Config { hasty: true, ..sound.clone() };
    Mutant { name: "SEND_BEFORE_SYNC", way: Way::Sweep(Hunt { protocol, broken, sound }) }
}

/// Every planted bug.
pub fn mutants() -> Vec<Mutant> {
    let mut list = hunted();
    list.push(hasty());
    list.extend(shown());
    list.extend(of_rivals());
    list.extend(without_pulls());
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::planted::{Caught, badly_listed};

    /// The kind of a mutant's seeds, as the simulator's command line names it.
    fn kind(hunt: &Hunt) -> &'static str {
        let Config { rule, commutes, recovers, changes_members, .. } = hunt.broken;
        match (hunt.broken.bug, rule) {
            _ if changes_members => "primcast-members",
            _ if recovers => "primcast-stable",
            _ if commutes => "primcast-commuting",
            (Some(Bug::Algorithm4), _) => "skeen",
            (_, Rule::Plain) => "primcast",
            _ => "primcast-linearizable",
        }
    }

    #[test]
    fn what_the_list_says_of_each_bug_is_so() {
        assert_eq!(badly_listed::<Bug>(), None);
        let mutants = mutants();
        for bug in Bug::ALL {
            let kinds = mutants.iter().filter_map(|mutant| match &mutant.way {
                Way::Sweep(hunt) if hunt.broken.bug == Some(*bug) => {
                    let rival = mutant.name.split_once(':').map(|(rival, _)| rival);
                    Some(rival.unwrap_or(kind(hunt)))
                }
                _ => None,
            });
            let hunted: Vec<&str> = kinds.collect();
            match bug.caught() {
                Caught::Sweep(kinds) => assert_eq!(hunted, kinds, "{bug:?}"),
                Caught::Tests => assert!(hunted.is_empty(), "{bug:?} is hunted: {hunted:?}"),
            }
        }
    }
}
