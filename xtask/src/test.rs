//! `cargo xtask test`: the set-up that the tests need, the tests, and what took how long.
//!
//! The output of a test is shown only if it fails: on the screen are the results, the tests that
//! were left out with the reason, and at the end a table and why each test failed. A log that is
//! cut in its middle still names the causes.

use crate::programs::{self, Program};
use crate::run::{cargo, output, retry, show, works};
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
    if !told.skipped.is_empty() {
        println!("--- left out\n{}", told.skipped.join("\n"));
    }
    times.tell();
    if !told.failed.is_empty() {
        println!("--- failed\n{}", told.failed.join("\n"));
    }
    outcome
}

fn run(manner: &Manner, times: &mut Times, told: &mut Told) -> Result<()> {
    let missing = times.step("programs that the tests drive", || set_up(manner));
    let missing = missing?;
    if !missing.is_empty() {
        let text = programs::told(&missing);
        // A machine that judges a change must run every test of it.
        if std::env::var("CI").is_ok_and(|is_ci| is_ci == "true") {
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
        times.step("fifty power cuts", || listen(cuts, LONG_WITHIN, told))?;
        let mut worlds = judged(&WORLDS, &skips);
        worlds.args(["--ignored", "--skip", HUNT]);
        times.step("the model's larger worlds", || listen(worlds, LONG_WITHIN, told))?;
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

/// The output of the tests.
#[derive(Default, Debug)]
struct Told {
    /// The time of each binary, from its start to that of the next.
    binaries: Vec<(String, Duration)>,
    /// Lines on tests that were left out, by this program or by themselves.
    skipped: Vec<String>,
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
