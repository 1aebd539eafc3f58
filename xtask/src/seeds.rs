//! The seeds of the simulator that are run: fixed ones, those that failed once, fresh ones.
//!
//! - S1 A merge is gated by seeds that do not change by themselves: a fixed range of each kind, and
//!   every seed that ever failed (`xtask/seeds.txt`). By construction: [`gate`].
//! - S2 Fresh seeds follow from a text (a commit, or a day), so that they can be run again, and
//!   from the round, so that no two rounds run the same. By construction: [`first_of`].
//! - S3 No kind that `gregale sim` knows is left out. Tested where its kinds are listed
//!   (`crates/workbench/src/sim/args.rs`).
//! - S4 A seed passes if every judge has judged it. Where its history is too hard for the judge of
//!   linearizability, its line says so, or the gate fails. Tested.
//! - S5 Fresh seeds that fail are told apart from a simulator that did not run them: the exit code
//!   is [`FOUND`]. By the type of the error, [`Found`].

use crate::run::{output, show, simulator};
use crate::sweeps::{Turn, turns};
use crate::times::Times;

use anyhow::{Context, Error, Result, bail};
use std::fmt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// In the place of a rule: each run is a day.
const LONG: &str = "long";

/// In the place of a rule, or behind it: faults are aimed.
const AIMED: &str = "aimed";

/// In the place of a rule, or behind it: primaries change often.
const RESTLESS: &str = "restless";

/// In the place of a rule: five members.
const FIVE: &str = "five";

/// In the place of a rule: twenty members.
const TWENTY: &str = "twenty";

/// In a line of its own behind the seed: the history is too hard for the judge of linearizability,
/// and the seed is run for the other judges.
const HARD: &str = "hard";

/// What `gregale sim` says of a seed whose history was too hard.
const UNJUDGED: &str = "not judged for linearizability";

/// What `gregale sim` says behind the number of such seeds of a sweep.
const TOO_HARD: &str = " histories were too hard for the judge of linearizability";

/// The time that one kind runs before the next has its turn.
const TURN_MAX: Duration = Duration::from_secs(10);
/// The first fresh seed: above every range that a sweep or a hunt begins at 0.
const FRESH_FIRST: u64 = 1_000_000_000;
/// ... and below this, so that people can read and type them.
const FRESH_SPAN: u64 = 1_000_000_000_000;

/// The exit code of `cargo xtask sim --fresh` if a seed failed (S5; `.ci/run` knows it, too). 1 is
/// that of every other error, 101 of a panic and of a failed build.
pub(crate) const FOUND: u8 = 3;

/// Fresh seeds that failed (S5).
#[derive(Debug)]
struct Found {
    of: String,
    n_turns: u64,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { of, n_turns } = self;
        write!(
            f,
            "fresh seeds of {of} failed in {n_turns} turns: each line above replays one; add them \
             to xtask/seeds.txt with the mend"
        )
    }
}

impl std::error::Error for Found {}

/// The exit code for an error of any chore.
pub(crate) fn exit_code(error: &Error) -> u8 {
    if error.is::<Found>() { FOUND } else { 1 }
}

/// A seed that failed once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failed {
    protocol: String,
    rule: Option<String>,
    seed: u64,
    /// Whether its history is known to be too hard (S4).
    is_hard: bool,
}

/// The lines of `xtask/seeds.txt`.
fn parse(text: &str) -> Result<Vec<Failed>> {
    let turns = turns()?;
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let one = match words.as_slice() {
            [] => continue,
            [protocol, rule, seed, hard @ ..] if matches!(hard, [] | [HARD]) => {
                seed.parse().ok().map(|seed| Failed {
                    protocol: (*protocol).to_owned(),
                    rule: (*rule != "-").then(|| (*rule).to_owned()),
                    seed,
                    is_hard: !hard.is_empty(),
                })
            }
            _ => None,
        };
        let one = one.filter(|one| {
            turns.iter().any(|turn| turn.protocol == one.protocol && turn.words == one.rule)
                || one.protocol == "primcast-linearizable" && one.rule.is_none()
        });
        all.push(one.with_context(|| {
            format!("line {} is no `protocol rule seed [hard]  # text`: {line}", number + 1)
        })?);
    }
    Ok(all)
}

fn simulation(protocol: &str, rule: Option<&str>, more: &[&str]) -> Result<Command> {
    let mut args = vec!["sim", "--protocol", protocol];
    for word in rule.iter().flat_map(|rule| rule.split(',')) {
        match word {
            LONG => args.push("--long"),
            AIMED => args.push("--aimed"),
            RESTLESS => args.push("--restless"),
            FIVE => args.extend(["--members", "5"]),
            TWENTY => args.extend(["--members", "20"]),
            rule => args.extend(["--rule", rule]),
        }
    }
    args.extend(more);
    simulator(&args)
}

/// Runs every seed that ever failed (S1).
///
/// # Errors
/// One fails again, or was not judged (S4).
pub(crate) fn gate() -> Result<()> {
    let path = crate::root().join("xtask/seeds.txt");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}: restore it from git", path.display()))?;
    let all = parse(&text).with_context(|| format!("{} is damaged", path.display()))?;
    let (mut n_failed, mut n_hard) = (0, 0);
    for Failed { protocol, rule, seed, is_hard } in &all {
        let seed = seed.to_string();
        let mut command = simulation(protocol, rule.as_deref(), &["--seed", &seed])?;
        let run = command.output().with_context(|| format!("cannot run `{}`", show(&command)))?;
        let told = told(&run);
        let verdict = verdict(run.status.success(), &told, *is_hard);
        n_hard += u64::from(*is_hard);
        if let Err(why) = verdict {
            n_failed += 1;
            println!("{protocol} {}: {told}{why}", rule.as_deref().unwrap_or("-"));
        }
    }
    println!(
        "{} seeds that failed once: {n_failed} fail; {n_hard} are judged without the judge of \
         linearizability",
        all.len()
    );
    if n_failed > 0 {
        bail!("{n_failed} of {} seeds that failed once fail again, or are not judged", all.len());
    }
    Ok(())
}

/// Whether a seed passes (S4); if not, what its last output does not say.
fn verdict(has_passed: bool, told: &str, is_hard: bool) -> Result<(), &'static str> {
    match (has_passed, told.contains(UNJUDGED)) {
        (false, _) => Err(""),
        (true, true) if !is_hard => {
            Err(": say `hard` behind it in xtask/seeds.txt, with the reason")
        }
        (true, _) => Ok(()),
    }
}

/// The last output of a run.
fn told(run: &std::process::Output) -> String {
    let text =
        String::from_utf8_lossy(if run.stdout.is_empty() { &run.stderr } else { &run.stdout });
    text.lines().last().unwrap_or_default().to_owned()
}

/// The first seed of a round of one kind (S2): FNV-1a, which is the same everywhere and for ever.
fn first_of(text: &str, Turn { protocol, words }: &Turn, round: u64) -> u64 {
    let whole = format!("{text}/{protocol}/{}/{round}", words.as_deref().unwrap_or("-"));
    let hash = whole.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    FRESH_FIRST + hash % FRESH_SPAN
}

/// Runs fresh seeds of every kind in turn, for about so long. `of` is what they follow from;
/// without it the day.
///
/// # Errors
/// [`Found`] if a seed fails (S5); another one if the simulator does not run.
pub(crate) fn fresh(minutes: f64, of: Option<&str>, protocol: Option<&str>) -> Result<()> {
    let mut times = Times::new("cargo xtask sim --fresh");
    let outcome = times.step("fresh seeds", || run_fresh(minutes, of, protocol));
    times.tell();
    outcome
}

fn run_fresh(minutes: f64, of: Option<&str>, protocol: Option<&str>) -> Result<()> {
    let today = || output(Command::new("date").args(["-u", "+%Y-%m-%d"]));
    let of = of.map_or_else(today, |of| Ok(of.to_owned()))?;
    let of = of.trim();
    let mut kinds = turns()?;
    kinds.retain(|turn| protocol.is_none_or(|one| one == turn.protocol));
    if kinds.is_empty() {
        bail!("no protocol is called {}", protocol.unwrap_or_default());
    }
    let span = Duration::try_from_secs_f64(minutes * 60.0).context("--minutes")?;
    let turn = (span / kinds.len() as u32).min(TURN_MAX).max(Duration::from_secs(1));
    println!("--- fresh seeds of {of}, {minutes} min");
    // (The build is not part of the time.)
    output(&mut simulator(&["--version"])?)?;
    let began = Instant::now();
    let (mut n_failed, mut n_hard) = (0, 0);
    for round in 0.. {
        for kind in &kinds {
            if round > 0 && began.elapsed() >= span {
                println!("{n_hard} fresh seeds were not judged for linearizability");
                return ended(n_failed, of);
            }
            let (has_passed, n_unjudged) = run_turn(kind, first_of(of, kind, round), turn)?;
            n_failed += u64::from(!has_passed);
            n_hard += n_unjudged;
        }
    }
    ended(n_failed, of)
}

fn ended(n_failed: u64, of: &str) -> Result<()> {
    match n_failed {
        0 => Ok(()),
        n_turns => Err(Found { of: of.to_owned(), n_turns }.into()),
    }
}

/// Whether the seeds of a turn passed (S5).
///
/// # Errors
/// The simulator was ended, crashed, or refused what it was asked.
fn has_passed(status: ExitStatus) -> Result<bool> {
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => bail!("the simulator did not run its seeds: {status}"),
    }
}

/// The number of a sweep's seeds that were not judged for linearizability.
fn n_unjudged(told: &str) -> u64 {
    let number = |line: &str| line.split_once(TOO_HARD)?.0.trim().parse().ok();
    told.lines().find_map(number).unwrap_or(0)
}

/// One turn of one kind: whether all its seeds passed, and how many were not judged for
/// linearizability.
fn run_turn(of: &Turn, first: u64, turn: Duration) -> Result<(bool, u64)> {
    let (first, seconds) = (first.to_string(), turn.as_secs().to_string());
    let mut command =
        simulation(&of.protocol, of.words.as_deref(), &["--first", &first, "--seconds", &seconds])?;
    let run = command.output().with_context(|| format!("cannot run `{}`", show(&command)))?;
    let text = String::from_utf8_lossy(&run.stdout);
    let n_unjudged = n_unjudged(&text);
    let hard = if n_unjudged > 0 { format!("; {n_unjudged} not judged") } else { String::new() };
    println!("from seed {first}: {}{hard}", text.lines().next().unwrap_or("nothing was printed"));
    if !run.status.success() {
        text.lines().skip(1).for_each(|line| println!("{line}"));
        print!("{}", String::from_utf8_lossy(&run.stderr));
    }
    let passed = has_passed(run.status).with_context(|| format!("`{}`", show(&command)))?;
    Ok((passed, n_unjudged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn s1_every_seed_that_failed_once_is_one_that_can_be_run() {
        let text = include_str!("../seeds.txt");
        let all = parse(text).unwrap();
        let (protocol, rule) = ("velos-narrow".to_owned(), None);
        let known = Failed { protocol, rule, seed: 40_001_405, is_hard: false };
        assert!(all.contains(&known), "{all:?}");
        assert!(parse("velos - 3 hard  # why").unwrap()[0].is_hard);
        for wrong in
            ["velos 3", "velos - x", "velos hop 3", "raft - 3", "velos - 3 4", "velos - 3 hard 4"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn s4_a_seed_that_was_not_judged_passes_only_if_its_line_says_so() {
        let judged = "seed 3: no violation in 9 ms of virtual time";
        let not_judged = format!("{judged}; {UNJUDGED}");
        assert_eq!(verdict(true, judged, false), Ok(()));
        assert_eq!(verdict(true, judged, true), Ok(()));
        assert_eq!(verdict(true, &not_judged, true), Ok(()));
        assert!(verdict(true, &not_judged, false).is_err_and(|why| why.contains("`hard`")));
        assert!(verdict(false, "seed 3: A value was lost", true).is_err());
        let sweep = format!("velos: 60 seeds\n  2{TOO_HARD} (at most 4 may be)\n");
        assert_eq!((n_unjudged(&sweep), n_unjudged("velos: 60 seeds\n")), (2, 0));
        // The words are those of `gregale sim`.
        let simulator = include_str!("../../crates/workbench/src/sim.rs");
        assert!(simulator.contains(UNJUDGED) && simulator.contains(TOO_HARD));
    }

    #[test]
    fn s2_fresh_ranges_follow_from_their_text_and_do_not_meet() {
        let velos = Turn { protocol: "velos".to_owned(), words: None };
        let round = |text: &str, round| first_of(text, &velos, round);
        assert_eq!(round("2026-11-23", 0), round("2026-11-23", 0));
        let mut firsts: Vec<u64> = ["2026-11-23", "2026-11-24", "2026-11-25"]
            .iter()
            .flat_map(|day| (0..100).map(|n| round(day, n)))
            .chain(turns().unwrap().iter().map(|kind| first_of("2026-11-26", kind, 0)))
            .collect();
        firsts.sort_unstable();
        let least = firsts.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert!(least > Some(10_000), "{least:?} seeds between two ranges");
        assert!(firsts[0] >= FRESH_FIRST);
    }

    #[test]
    fn fresh_seeds_that_fail_fail_the_run() {
        assert!(ended(0, "2026-11-23").is_ok());
        let error = ended(2, "2026-11-23").expect_err("two turns failed");
        assert!(error.to_string().contains("2026-11-23 failed in 2 turns"), "{error}");
        assert_eq!(exit_code(&error), FOUND);
    }

    #[test]
    fn s5_a_simulator_that_did_not_run_is_no_seed_that_failed() {
        let ended = |code: i32| has_passed(ExitStatus::from_raw(code << 8));
        assert!(ended(0).is_ok_and(|passed| passed) && ended(1).is_ok_and(|passed| !passed));
        for code in [2, 101] {
            let error = ended(code).expect_err("it is no verdict");
            assert_eq!(exit_code(&error), 1, "{error}");
        }
        assert!(has_passed(ExitStatus::from_raw(9)).is_err(), "it was killed");
        let error = fresh(0.0, Some("x"), Some("no-such-protocol")).expect_err("nothing is run");
        assert_eq!(exit_code(&error), 1, "{error}");
    }
}
