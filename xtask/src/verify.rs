//! `cargo xtask verify`: what must hold before a change is merged, cheapest first.
//!
//! Nothing in the tree is changed, and nothing is asked of the network beyond crates of Cargo.lock
//! that this machine has not yet. Every step runs even if an earlier one failed, so that one run
//! tells everything.

use crate::run::{cargo, cargo_proxy, output, show, simulator, succeed, works};
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

const STEPS: [Step; 11] = [
    ("fmt", || passed(&mut cargo(&["fmt", "--all", "--check"]))),
    ("tidy", tidy),
    ("clippy", || {
        let args = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
        passed(&mut cargo(&args))
    }),
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
            ("test", true) => Ok(Outcome::Skipped("--skip-tests".to_owned())),
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
    if !failed.is_empty() {
        bail!("{} failed; `cargo xtask fix` mends some of it", failed.join(", "));
    }
    Ok(())
}

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

fn sweeps() -> Result<Outcome> {
    for (protocol, seeds, hunts) in SWEEPS {
        let mut args = vec!["sim", "--protocol", protocol, "--seeds", seeds, "--format", "json"];
        args.extend(hunts.then_some("--mutants"));
        args.extend(is_covered(protocol).then_some("--cover"));
        passed(&mut simulator(&args)?)?;
    }
    Ok(Outcome::Passed)
}

/// Whether the sweep of `protocol` counts interesting cases.
fn is_covered(protocol: &str) -> bool {
    let multicasts = ["skeen", "whitebox", "fastcast", "primcast"];
    !multicasts.iter().any(|name| protocol.starts_with(name))
}

fn days() -> Result<Outcome> {
    for protocol in LONG {
        let args = ["sim", "--protocol", protocol, "--long", "--seeds", LONG_SEEDS];
        passed(&mut simulator(&args)?)?;
    }
    Ok(Outcome::Passed)
}

/// Protocols, how many seeds of each, and whether every planted bug is hunted here (primcast's hunt
/// covers all of atomic multicast, and takes half a minute).
const SWEEPS: [(&str, &str, bool); 25] = [
    ("velos", "100", true),
    ("velos-narrow", "100", true),
    ("velos-members", "60", true),
    ("durable", "150", true),
    ("durable-log", "200", true),
    ("durable-members", "250", true),
    ("mu", "100", true),
    ("multipaxos", "150", true),
    ("velos-cluster", "90", true),
    ("durable-cluster", "60", true),
    ("abd-cluster", "120", true),
    ("multipaxos-cluster", "15", false),
    ("replicate", "100", true),
    ("replicate-durable", "60", false),
    ("replicate-waits", "60", true),
    ("replicate-loop", "100", true),
    ("vsync", "150", true),
    ("skeen", "200", false),
    ("whitebox", "200", false),
    ("fastcast", "200", false),
    ("primcast", "200", true),
    ("primcast-linearizable", "100", false),
    ("primcast-commuting", "200", false),
    ("primcast-stable", "100", false),
    ("primcast-members", "100", false),
];

/// Protocols of which runs of a day are swept, and how many of each.
const LONG: [&str; 4] = ["velos", "durable", "durable-log", "mu"];
const LONG_SEEDS: &str = "25";

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
