//! `cargo xtask test`: the set-up that the tests need, the tests, and what took how long.
//!
//! The output of a test is shown only if it fails: on the screen are the results, the tests that
//! were left out with the reason, and at the end a table and why each test failed. A log that is
//! cut in its middle still names the causes.

use crate::hosts::{self, Judged};
use crate::programs::{self, Program};
use crate::run::{cargo, is_ci, output, retry, show, works};
use crate::times::Times;

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::process::Command;
use std::time::{Duration, Instant};

/// The caller's options for the tests.
pub(crate) struct Manner {
    /// Install what is missing, where that may be done.
    pub(crate) installs: bool,
    /// The long ones too.
    pub(crate) is_long: bool,
}

/// Every test has deadlines of its own; this one is for a machine that stalls.
const TESTS_WITHIN: Duration = Duration::from_secs(2400);
const LONG_WITHIN: Duration = Duration::from_secs(1200);

/// The number of test binaries with a line of their own in the table.
const N_SLOWEST: usize = 10;

/// The lines of a panic that are told again at the end.
const N_LINES_OF_PANIC: usize = 6;

/// Deaths of all members at once, where the long tests are run too; it is some four without.
const LONG_ROUNDS: (&str, &str) = ("DURABLE_ROUNDS", "50");

/// Test binaries in which tests of minutes are ignored. They are chosen by `--test`, never by
/// `--package`: that would choose other features of what they depend on, and build it all again.
const POWER_CUTS: [&str; 1] = ["linearizability"];
const WORLDS: [&str; 3] = ["amcast", "hop", "velos"];
/// This one stands in another binary of such a name; `verify` hunts for the same bugs.
const HUNT: &str = "every_planted_bug_is_caught";

pub(crate) fn test(manner: &Manner) -> Result<()> {
    let mut times = Times::new("cargo xtask test");
    let mut told = Told::default();
    let outcome = run(manner, &mut times, &mut told);
    let judged = if is_ci() { hosts::judge(&told.skipped) } else { Judged::default() };
    if is_ci() {
        told.skipped.clone_from(&judged.left_out);
    }
    if !told.skipped.is_empty() {
        println!("--- left out on this host:\n{}", told.skipped.join("\n"));
    }
    times.tell();
    if !told.failed.is_empty() {
        println!("--- failed\n{}", told.failed.join("\n"));
    }
    outcome?;
    not_left_out(&judged)
}

/// Fails if a test left itself out that this host can run.
fn not_left_out(judged: &Judged) -> Result<()> {
    if !judged.wrong.is_empty() {
        bail!("with CI=true no test that can be run is left out:\n{}", judged.wrong.join("\n"));
    }
    Ok(())
}

fn run(manner: &Manner, times: &mut Times, told: &mut Told) -> Result<()> {
    let missing = times.step("programs that the tests drive", || set_up(manner));
    let missing = missing?;
    if !missing.is_empty() {
        let text = programs::told(&missing);
        // A machine that judges a change must run every test of it.
        if is_ci() {
            bail!("with CI=true no test may be left out:\n{text}");
        }
        told.skipped.extend(text.lines().map(str::to_owned));
        text.lines().filter(|line| line.starts_with("missing")).for_each(|line| println!("{line}"));
    }
    times.step("fetching crates", fetch)?;
    times.step("building the tests", || {
        crate::run::succeed(&mut cargo(&["test", "--locked", "--workspace", "--no-run", "--quiet"]))
    })?;
    let skips = programs::skips(&missing);
    let began = Instant::now();
    let mut tests = judged(&[], &skips);
    if manner.is_long {
        tests.env(LONG_ROUNDS.0, LONG_ROUNDS.1);
    }
    let outcome = listen(tests, TESTS_WITHIN, told);
    times.add("tests", began.elapsed());
    times.add_slowest(&told.binaries, N_SLOWEST);
    outcome?;
    if manner.is_long {
        let mut cuts = judged(&POWER_CUTS, &skips);
        cuts.args(["--ignored", "fifty"]);
        times.step("fifty power cuts", || listen_to_some(cuts, &POWER_CUTS, &skips, told))?;
        let mut worlds = judged(&WORLDS, &skips);
        worlds.args(["--ignored", "--skip", HUNT]);
        times
            .step("the model's larger worlds", || listen_to_some(worlds, &WORLDS, &skips, told))?;
    }
    Ok(())
}

/// Installs what is missing, and returns what is missing still.
fn set_up(manner: &Manner) -> Result<Vec<&'static Program>> {
    let missing = programs::missing();
    if !missing.is_empty() && manner.installs {
        // Without it the tests that need it are left out, or the run fails, depending on the
        // caller.
        if let Err(error) = programs::install(&missing) {
            println!("not installed: {error:#}");
        }
    }
    let mut missing = programs::missing();
    let go = programs::PROGRAMS.iter().find(|program| program.name == "go");
    if let Some(go) = go.filter(|go| !missing.iter().any(|one| one.name == go.name)) {
        let mut download = Command::new("go");
        download.args(["mod", "download"]).current_dir(crate::root().join("tools/porcupine"));
        if let Err(error) = retry(&mut download) {
            println!("the second judge cannot be built: {error:#}");
            missing.push(go);
        }
    }
    Ok(missing)
}

/// What has a Cargo.lock of its own that the tests, or `verify`, build by.
const LOCKED: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// Crates of each Cargo.lock that this machine has not yet.
fn fetch() -> Result<()> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("`rustc -vV` names no host")?;
    for manifest in LOCKED {
        let fetch = ["fetch", "--locked", "--quiet", "--target", host, "--manifest-path", manifest];
        // A machine without a network may have them all.
        if !works(cargo(&fetch).arg("--offline")) {
            retry(&mut cargo(&fetch))?;
        }
    }
    Ok(())
}

/// The tests in `binaries`, or all, without `skips`.
fn judged(binaries: &[&str], skips: &[&str]) -> Command {
    let mut command = cargo(&["test", "--locked", "--workspace", "--no-fail-fast"]);
    for name in binaries {
        command.args(["--test", name]);
    }
    command.args(["--", "--show-output"]);
    for name in skips {
        command.args(["--skip", name]);
    }
    command
}

/// Runs tests, shows what is worth it, and everything of those that fail.
fn listen(mut command: Command, within: Duration, told: &mut Told) -> Result<()> {
    let shown = show(&command);
    let (reader, writer) = std::io::pipe().context("no pipe")?;
    command.env("CARGO_TERM_COLOR", "never");
    let mut limited = Command::new("timeout");
    limited.arg(within.as_secs().to_string()).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.current_dir(crate::root()).stdin(std::process::Stdio::null());
    limited.stdout(writer.try_clone().context("no pipe")?).stderr(writer);
    let mut child = limited.spawn().context("cannot run `timeout` of coreutils")?;
    // It holds the ends of the pipe that would keep us reading.
    drop(limited);
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line.context("the tests cannot be read")?).into_owned();
        for line in told.hear(&line, Instant::now()) {
            println!("{line}");
        }
    }
    told.end_binary(Instant::now());
    let status = child.wait().context("the tests were not waited for")?;
    if status.code() == Some(124) {
        bail!("`{shown}` was stopped after {} s", within.as_secs());
    }
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs the long tests in `binaries`, of which each must have one: a filter may find none once a
/// test has another name.
fn listen_to_some(
    command: Command,
    binaries: &[&str],
    skips: &[&str],
    told: &mut Told,
) -> Result<()> {
    told.passed.clear();
    let shown = show(&command);
    listen(command, LONG_WITHIN, told)?;
    // (Where programs are missing, a test that needs one may be the only one.)
    if skips.is_empty() { told.each_has_passed(binaries, &shown) } else { Ok(()) }
}

/// The output of the tests.
#[derive(Default, Debug)]
struct Told {
    /// The time of each binary, from its start to that of the next.
    binaries: Vec<(String, Duration)>,
    /// Lines on tests that were left out, by this program or by themselves.
    skipped: Vec<String>,
    /// The number of tests that passed, with the name of their binary.
    passed: Vec<(String, u64)>,
    crate_name: String,
    binary: Option<(String, Instant)>,
    /// Why tests failed: the name of each, and the first lines of its panic.
    failed: Vec<String>,
    /// Everything of the binary that runs, for the case that it fails.
    text: Vec<String>,
    /// The test whose output is being read.
    test: String,
}

impl Told {
    /// Takes one line in; returns what is to be shown.
    fn hear(&mut self, line: &str, now: Instant) -> Vec<String> {
        if let Some(name) = self.binary_of(line) {
            self.end_binary(now);
            self.binary = Some((name, now));
            self.text.clear();
            return vec![line.to_owned()];
        }
        self.text.push(line.to_owned());
        if let Some(test) = line.strip_prefix("---- ") {
            self.test = test.trim_end_matches(" stdout ----").to_owned();
        } else if line.starts_with("skipped") {
            let told = format!("{}: {line}", self.test);
            if !self.skipped.contains(&told) {
                self.skipped.push(told);
            }
        }
        let n_passed = line.strip_prefix("test result: ok. ").and_then(|rest| {
            let (n, _) = rest.split_once(" passed")?;
            n.parse().ok()
        });
        if let (Some(n), Some((name, _))) = (n_passed, &self.binary) {
            self.passed.push((name.clone(), n));
        }
        if line.starts_with("test result: FAILED") {
            let text = std::mem::take(&mut self.text);
            let failures = failures(&text);
            self.failed.extend(causes(failures));
            return failures.to_vec();
        }
        let is_of_test = line.starts_with("test ")
            && [" ... ignored", " ... FAILED", "has been running for"]
                .iter()
                .any(|what| line.contains(what));
        let is_shown = is_of_test
            || line.starts_with("test result: ")
            || line.starts_with("error")
            || line.starts_with("warning");
        if is_shown { vec![line.to_owned()] } else { Vec::new() }
    }

    /// Fails if no test of one of these binaries has passed.
    fn each_has_passed(&self, binaries: &[&str], shown: &str) -> Result<()> {
        let has_passed = |binary: &&&str| {
            let is_its = |name: &str| name.split_once(", ").is_some_and(|(_, of)| of == **binary);
            self.passed.iter().any(|(name, n)| is_its(name) && *n > 0)
        };
        match binaries.iter().find(|binary| !has_passed(binary)) {
            Some(binary) => bail!("`{shown}` has run no test of {binary}: look for its name now"),
            None => Ok(()),
        }
    }

    fn end_binary(&mut self, now: Instant) {
        if let Some((name, began)) = self.binary.take() {
            self.binaries.push((name, now.duration_since(began)));
        }
    }

    /// `     Running tests/real/main.rs (target/debug/deps/real-453a1915ef5f186e)`, or
    /// `   Doc-tests base`. Unit tests of a crate come before its other tests.
    fn binary_of(&mut self, line: &str) -> Option<String> {
        if let Some(name) = line.strip_prefix("   Doc-tests ") {
            return Some(format!("{name}, documentation"));
        }
        let (source, file) = line.strip_prefix("     Running ")?.split_once(" (")?;
        let file = file.trim_end_matches(')').rsplit('/').next()?;
        let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
        if source.starts_with("unittests ") {
            self.crate_name = name.to_owned();
            return Some(format!("{name}, units"));
        }
        Some(format!("{}, {name}", self.crate_name))
    }
}

/// The part of a binary's output that is about the tests that failed: all of it where the binary
/// ended before it told.
fn failures(text: &[String]) -> &[String] {
    let at = text.iter().position(|line| line == "failures:");
    &text[at.unwrap_or(0)..]
}

/// The tests whose output is in `failures`, each with the first lines of its panic.
fn causes(failures: &[String]) -> Vec<String> {
    let mut causes = Vec::new();
    let mut n_left = 0;
    for line in failures {
        if line.strip_prefix("---- ").is_some_and(|rest| rest.ends_with(" stdout ----")) {
            n_left = 0;
            causes.push(line.clone());
        } else if line.contains("' panicked at ") || line.contains(") panicked at ") {
            n_left = N_LINES_OF_PANIC;
        }
        if n_left > 0 {
            n_left -= 1;
            causes.push(line.clone());
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(told: &mut Told, text: &str) -> Vec<String> {
        text.lines().flat_map(|line| told.hear(line, Instant::now())).collect()
    }

    #[test]
    fn binaries_are_told_apart_and_what_was_skipped_is_named() {
        let mut told = Told::default();
        let shown = hear(
            &mut told,
            "     Running unittests src/main.rs (target/debug/deps/gregale-d38f0720f069f040)\n\
             running 74 tests\n\
             test a ... ok\n\
             test result: ok. 74 passed; 0 failed\n\
             \x20    Running tests/real/main.rs (target/debug/deps/real-453a1915ef5f186e)\n\
             test volume::a_day ... ignored, writes 3.3 GB\n\
             successes:\n\
             ---- disk::a_full_disk stdout ----\n\
             skipped: no right to mount a small file system\n\
             test result: ok. 116 passed; 0 failed\n\
             \x20  Doc-tests base\n",
        );
        assert_eq!(shown.len(), 6, "{shown:?}");
        told.end_binary(Instant::now());
        let names: Vec<&str> = told.binaries.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["gregale, units", "gregale, real", "base, documentation"]);
        let expected = "disk::a_full_disk: skipped: no right to mount a small file system";
        assert_eq!(told.skipped, [expected]);
    }

    #[test]
    fn a_filter_that_finds_no_test_is_a_failure() {
        let mut told = Told::default();
        let run = |name: &str, n: u64| {
            format!(
                "     Running tests/{name}.rs (target/debug/deps/{name}-0ba96aee8a24c7c7)\n\
                 running {n} tests\n\
                 test result: ok. {n} passed; 0 failed; 0 ignored\n"
            )
        };
        hear(&mut told, &format!("{}{}{}", run("amcast", 0), run("hop", 2), run("amcast", 5)));
        assert!(told.each_has_passed(&["amcast", "hop"], "cargo test").is_ok(), "{told:?}");
        let error = told.each_has_passed(&["hop", "velos"], "cargo test").expect_err("none");
        assert_eq!(
            error.to_string(),
            "`cargo test` has run no test of velos: look for its name now"
        );
    }

    #[test]
    fn a_test_that_left_itself_out_although_it_can_be_run_fails_the_run() {
        let wrong = vec!["disk::full: skipped: no right (but this host can: x)".to_owned()];
        let left_out = vec!["b: skipped: y".to_owned()];
        let judged = Judged { left_out, wrong };
        let error = not_left_out(&judged).expect_err("it could have been run");
        assert!(error.to_string().contains("disk::full: skipped"), "{error}");
        assert!(not_left_out(&Judged { wrong: Vec::new(), ..judged }).is_ok());
    }

    /// `.ci/run` with a cargo that ends fresh seeds by `code`: whether the run succeeds.
    fn ci_ends(code: i32) -> Option<i32> {
        let bin = tempfile::tempdir().expect("a directory");
        let cargo = bin.path().join("cargo");
        let script = format!("#!/bin/sh\ncase \"$*\" in *--fresh*) exit {code} ;; esac\n");
        std::fs::write(&cargo, script).expect("written");
        assert!(works(Command::new("chmod").arg("+x").arg(&cargo)));
        let path = std::env::var("PATH").expect("there is one");
        let mut run = Command::new("bash");
        run.arg(crate::root().join(".ci/run"))
            .env("PATH", format!("{}:{path}", bin.path().display()));
        run.output().expect("bash").status.code()
    }

    #[test]
    fn fresh_seeds_that_crash_fail_the_run_and_a_violation_does_not() {
        let found = i32::from(crate::seeds::FOUND);
        let ends = [0, found, 124, 1, 101, 2].map(ci_ends);
        assert_eq!(ends, [Some(0), Some(0), Some(0), Some(1), Some(101), Some(2)]);
    }

    #[test]
    fn of_a_binary_that_fails_the_failures_are_shown_and_their_causes_told_again() {
        let mut told = Told::default();
        let shown = hear(
            &mut told,
            "     Running tests/hop.rs (target/debug/deps/hop-0ba96aee8a24c7c7)\n\
             test a ... FAILED\n\
             test b ... ok\n\
             successes:\n\
             ---- b stdout ----\n\
             much\n\
             failures:\n\
             ---- a stdout ----\n\
             what happened before\n\
             thread 'a' (7) panicked at tests/hop.rs:9:5:\n\
             why\n\
             test result: FAILED. 1 passed; 1 failed\n",
        );
        let n_shown = |what: &str| shown.iter().filter(|line| line.contains(what)).count();
        assert_eq!((n_shown("why"), n_shown("much")), (1, 0), "{shown:?}");
        assert_eq!(told.failed[0], "---- a stdout ----");
        assert!(told.failed[1].contains("panicked at") && told.failed[2] == "why", "{told:?}");
        assert!(!told.failed.iter().any(|line| line == "what happened before"), "{told:?}");
    }
}
