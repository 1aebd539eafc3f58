//! Options of `gregale sim` that say nothing of its subject: each is refused, and none is ignored.

use super::args::{SimArgs, SimProtocol};
use ::sim::amcast::{Subject, subjects};
use console::{Failure, Format};
use std::fmt::Display;

/// Refuses what the subject would ignore, and more members than it can have.
pub(super) fn check(args: &SimArgs) -> Result<(), Failure> {
    if args.trace && args.seed.is_none() {
        return refused("--trace prints the steps of one seed: say which with --seed");
    }
    check_alone(args)?;
    check_members(args)?;
    match args.protocol {
        SimProtocol::Multicast(subject) => check_multicast(args, subject),
        _ => check_others(args),
    }
}

fn refused(why: impl Display) -> Result<(), Failure> {
    Err(Failure::new(why))
}

/// Refuses what a replay of one seed, and a hunt for one bug, would ignore.
fn check_alone(args: &SimArgs) -> Result<(), Failure> {
    let seed = args.seed.map(|_| "--seed");
    let Some(alone) = seed.or(args.bug.as_ref().map(|_| "--bug")) else { return Ok(()) };
    if args.format == Format::Json {
        return refused(format_args!(
            "--format json tells of a sweep, {alone} of one run in words"
        ));
    }
    if args.jobs.is_some() {
        return refused(format_args!("--jobs is for sweeps, {alone} runs on one thread"));
    }
    Ok(())
}

/// Those of the options that atomic multicast alone has, and that are given.
fn given(args: &SimArgs) -> Vec<&'static str> {
    let all = [
        ("--rule", args.rule.is_some()),
        ("--groups", args.groups.is_some()),
        ("--aimed", args.aimed),
        ("--restless", args.restless),
    ];
    all.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
}

/// Refuses more members than one group of the protocol can have.
fn check_members(args: &SimArgs) -> Result<(), Failure> {
    let is_group = matches!(args.protocol, SimProtocol::Group(_));
    match args.members.map(usize::from) {
        Some(n) if n > base::MAX_MEMBERS && !is_group => refused(format_args!(
            "--members {n}: {} has at most {}; vsync and vsync-durable have more",
            args.protocol.name(),
            base::MAX_MEMBERS
        )),
        _ => Ok(()),
    }
}

/// Whether runs may be days.
const fn has_days(protocol: SimProtocol) -> bool {
    match protocol {
        SimProtocol::Cluster(protocol) => protocol.has_days(),
        SimProtocol::Group(_) => false,
        _ => true,
    }
}

fn check_others(args: &SimArgs) -> Result<(), Failure> {
    let name = args.protocol.name();
    if let Some(option) = given(args).first() {
        return refused(format_args!("{option} is for atomic multicast, which {name} is not"));
    }
    if args.long && !has_days(args.protocol) {
        return refused(
            "days are not simulated yet of groups, partitions, replicated programs, and members \
             that order commands by key: leave --long out",
        );
    }
    Ok(())
}

fn check_multicast(args: &SimArgs, subject: &Subject) -> Result<(), Failure> {
    let name = args.protocol.name();
    if args.cover {
        return refused("--cover is not for protocols of atomic multicast");
    }
    if args.long {
        return refused("--long is not for multicast: its runs are of seconds");
    }
    if args.rule.is_some() && !subject.takes_rule {
        let takes = subjects().iter().filter(|one| one.takes_rule).map(|one| one.name.as_str());
        let names = takes.collect::<Vec<_>>().join(", ");
        return refused(format_args!("--rule is for --protocol {names}"));
    }
    let survives = subject.protocol.abilities().survives_crashes;
    if let Some(n) = args.members.filter(|n| !survives && *n != 1) {
        return refused(format_args!("--members {n}: a group of {name} is one process"));
    }
    let of_hunt = given(args).into_iter().chain(args.members.map(|_| "--members"));
    match of_hunt.into_iter().next().filter(|_| args.bug.is_some()) {
        Some(option) => refused(format_args!(
            "{option}: each planted bug of multicast is hunted with settings of its own"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SimArgs,
    }

    /// The refusal of a command line that can be parsed, if it is refused.
    fn refusal(line: &str) -> Option<String> {
        let words = std::iter::once("sim").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        check(&line.args).err().map(|error| error.to_string())
    }

    #[test]
    fn an_option_that_the_subject_would_ignore_is_refused() {
        for (line, why) in [
            ("--protocol velos --rule hop", "--rule is for atomic multicast, which velos is not"),
            ("--protocol velos --groups 4", "--groups is for atomic multicast"),
            ("--protocol vsync --aimed", "--aimed is for atomic multicast"),
            ("--protocol velos-cluster --restless", "--restless is for atomic multicast"),
            ("--protocol velos --seeds 2 --trace", "say which with --seed"),
            ("--protocol primcast --seeds 2 --trace", "say which with --seed"),
            ("--protocol skeen --members 5", "--members 5: a group of skeen is one process"),
            ("--protocol velos --members 8", "--members 8: velos has at most 7"),
            ("--protocol vsync --long", "leave --long out"),
            ("--protocol primcast --long", "--long is not for multicast"),
            ("--protocol primcast --cover", "--cover is not for"),
            ("--protocol primcast --rule hop", "--rule is for --protocol"),
            ("--protocol primcast --bug x --members 3", "--members: each planted bug"),
            ("--protocol primcast --bug x --aimed", "--aimed: each planted bug"),
            ("--protocol velos --seed 3 --format json", "--format json tells of a sweep, --seed"),
            ("--protocol primcast --bug x --format json", "--format json tells of a sweep, --bug"),
            ("--protocol vsync --seed 3 --jobs 2", "--jobs is for sweeps, --seed runs on one"),
            ("--protocol velos --bug x --jobs 2", "--jobs is for sweeps, --bug runs on one"),
        ] {
            let refused = refusal(line).unwrap_or_else(|| panic!("{line} is taken"));
            assert!(refused.contains(why), "{line}: {refused}");
        }
    }

    #[test]
    fn what_the_subject_heeds_is_taken() {
        for line in [
            "--protocol velos --members 5 --long",
            "--protocol velos --seed 3 --trace",
            "--protocol velos --seeds 3 --format json --jobs 2",
            "--protocol vsync --members 20",
            "--protocol primcast --groups 4 --members 3 --aimed --restless",
            "--protocol primcast-linearizable --rule hop",
            "--protocol skeen --members 1 --rule hop",
        ] {
            assert_eq!(refusal(line), None, "{line}");
        }
    }
}
