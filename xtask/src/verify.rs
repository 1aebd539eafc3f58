//! `cargo xtask verify`: what must hold before a change is merged, cheapest first.
//!
//! Nothing in the tree is changed, and nothing is asked of the network beyond crates of Cargo.lock,
//! and of fuzz/Cargo.lock, that this machine has not yet. Every step runs even if an earlier one
//! failed, so that one run tells everything.

use crate::run::{cargo, cargo_proxy, output, show, simulator, succeed, works};
use crate::sweeps::Sweep;
use crate::tidy::{self, Ratchet, Tree};
use crate::times::Times;
use anyhow::{Result, bail};
use std::process::Command;

/// The result of a step.
enum Outcome {
    Passed,
    Skipped(String),
}

type Step = (&'static str, fn() -> Result<Outcome>);

const STEPS: [Step; 12] = [
    ("fmt", || passed(&mut cargo(&["fmt", "--all", "--check"]))),
    ("tidy", tidy),
    ("clippy", || {
        let args = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
        passed(&mut cargo(&args))
    }),
    ("fuzz targets", fuzz_targets),
    ("test", || passed(&mut cargo(&["test", "--locked", "--workspace"]))),
    ("doc", || {
        let mut doc = cargo(&["doc", "--locked", "--workspace", "--no-deps"]);
        passed(doc.env("RUSTDOCFLAGS", "-D warnings"))
    }),
    ("sweeps", sweeps),
    ("days", days),
    ("failed seeds", || crate::seeds::gate().map(|()| Outcome::Passed)),
    ("deny", deny),
    ("miri", miri),
    ("bare target", bare_target),
];

pub(crate) fn verify(skip_tests: bool) -> Result<()> {
    let (mut failed, mut lines) = (Vec::new(), Vec::new());
    let mut times = Times::new("cargo xtask verify");
    for (name, step) in STEPS {
        println!("--- {name}");
        let outcome = times.step(name, || match (name, skip_tests) {
            ("test", true) => Ok(Outcome::Skipped(SKIP_TESTS.to_owned())),
            _ => step(),
        });
        let verdict = match outcome {
            Ok(Outcome::Passed) => "passed".to_owned(),
            Ok(Outcome::Skipped(why)) => format!("skipped: {why}"),
            Err(e) => {
                failed.push(name);
                format!("FAILED: {e:#}")
            }
        };
        println!("{verdict}");
        lines.push(format!("{name:<12} {verdict}"));
    }
    times.tell();
    println!("--- verify\n{}", lines.join("\n"));
    let left_out = left_out(&lines);
    if !left_out.is_empty() {
        println!("--- left out on this host:\n{}", left_out.join("\n"));
    }
    if !failed.is_empty() {
        bail!("{} failed; `cargo xtask fix` mends some of it", failed.join(", "));
    }
    Ok(())
}

/// The steps that were left out for want of a tool, from the lines on all.
fn left_out(lines: &[String]) -> Vec<&str> {
    let is_left_out = |line: &&str| line.contains(" skipped: ") && !line.contains(SKIP_TESTS);
    lines.iter().map(String::as_str).filter(is_left_out).collect()
}

/// The option by which the caller leaves the tests out.
const SKIP_TESTS: &str = "--skip-tests";

fn passed(command: &mut Command) -> Result<Outcome> {
    println!("{}", show(command));
    succeed(command)?;
    Ok(Outcome::Passed)
}

fn tidy() -> Result<Outcome> {
    let root = crate::root();
    let tree = Tree::read(&root)?;
    let mut findings = tidy::check(&tree, &Ratchet::read(&root)?);
    findings.extend(crate::house::check(&tree, &root)?);
    findings.iter().for_each(|finding| println!("{finding}"));
    if !findings.is_empty() {
        bail!("{} findings", findings.len());
    }
    Ok(Outcome::Passed)
}

/// Checks the fuzz targets, which are outside of the workspace. Without the fuzzer itself: its C++
/// would be the most of it. What clippy has checked of other crates serves here too.
fn fuzz_targets() -> Result<Outcome> {
    let manifest = ["--manifest-path", "fuzz/Cargo.toml"];
    let args = [&["check", "--locked", "--bins", "--no-default-features"][..], &manifest].concat();
    let mut check = cargo(&args);
    if std::env::var_os(TARGET_DIR).is_none() {
        check.env(TARGET_DIR, crate::root().join("target"));
    }
    passed(&mut check)
}

/// The directory in which cargo builds.
const TARGET_DIR: &str = "CARGO_TARGET_DIR";

fn sweeps() -> Result<Outcome> {
    for Sweep { protocol, seeds, hunts, covers, .. } in crate::sweeps::all()? {
        let seeds = seeds.to_string();
        let mut args = vec!["sim", "--protocol", &protocol, "--seeds", &seeds, "--format", "json"];
        args.extend(hunts.then_some("--mutants"));
        args.extend(covers.then_some("--cover"));
        passed(&mut simulator(&args)?)?;
    }
    Ok(Outcome::Passed)
}

fn days() -> Result<Outcome> {
    for Sweep { protocol, days, .. } in crate::sweeps::all()? {
        if days == 0 {
            continue;
        }
        let args = ["sim", "--protocol", &protocol, "--long", "--seeds", &days.to_string()];
        passed(&mut simulator(&args)?)?;
    }
    Ok(Outcome::Passed)
}

fn deny() -> Result<Outcome> {
    if !works(&mut cargo(&["deny", "--version"])) {
        let why = "cargo-deny is missing (`cargo install cargo-deny --locked`)";
        return Ok(Outcome::Skipped(why.to_owned()));
    }
    // Advisories need the network; licences, bans and sources do not.
    passed(&mut cargo(&["deny", "--offline", "check", "licenses", "bans", "sources"]))
}

fn miri() -> Result<Outcome> {
    if !works(&mut cargo_proxy(&["+nightly", "miri", "--version"])) {
        let why = "Miri is missing (`rustup +nightly component add miri rust-src`)";
        return Ok(Outcome::Skipped(why.to_owned()));
    }
    // The vocabulary and the state machines; mapped memory and sockets are beyond Miri.
    let packages = ["--package", "gregale-base", "--package", "gregale-proto"];
    let args = [&["+nightly", "miri", "test", "--lib"][..], &packages[..]].concat();
    passed(&mut cargo_proxy(&args))
}

/// Builds without an operating system, so that the code cannot call one.
fn bare_target() -> Result<Outcome> {
    const TARGET: &str = "x86_64-unknown-none";
    let installed = output(Command::new("rustup").args(["target", "list", "--installed"]));
    if !installed.is_ok_and(|targets| targets.lines().any(|target| target == TARGET)) {
        let why = format!("the target is missing (`rustup target add {TARGET}`)");
        return Ok(Outcome::Skipped(why));
    }
    passed(&mut cargo(&["build", "--locked", "--package", "gregale-proto", "--target", TARGET]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_without_their_tool_are_told_again_at_the_end() {
        let lines = [
            "fmt          passed",
            "test         skipped: --skip-tests",
            "deny         skipped: cargo-deny is missing",
            "miri         FAILED: it failed",
        ]
        .map(str::to_owned);
        assert_eq!(left_out(&lines), ["deny         skipped: cargo-deny is missing"]);
    }
}
