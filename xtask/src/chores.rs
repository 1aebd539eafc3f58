//! Chores that write, or that take long.

use crate::run::{cargo, cargo_proxy, output, simulator, succeed, workbench, works};
use crate::tidy::{Ratchet, Tree};
use anyhow::{Context, Result, bail};
use std::fs;

/// Every benchmark (a test of the workbench compares them with its own).
const BENCHES: [&str; 14] = [
    "fabric",
    "core",
    "decide",
    "failover",
    "kv",
    "restart",
    "comeback",
    "snapshot",
    "amcast",
    "multicast",
    "replicate",
    "shapes",
    "versions",
    "idle",
];

pub(crate) fn fix() -> Result<()> {
    let args = ["clippy", "--fix", "--allow-dirty", "--allow-staged", "--workspace"];
    succeed(cargo(&args).arg("--all-targets"))?;
    succeed(&mut cargo(&["fmt", "--all"]))?;
    let root = crate::root();
    for (path, text) in Tree::read(&root)?.wrapped() {
        fs::write(root.join(path), text).with_context(|| format!("cannot write {path}"))?;
        println!("broke wide comments in {path}");
    }
    if let Some(text) = Ratchet::read(&root)?.lowered(&Tree::read(&root)?) {
        Ratchet::write(&text, &root)?;
        println!("lowered numbers in xtask/tidy.toml");
    }
    Ok(())
}

/// Writes what the protocols do into their golden scripts: `git diff` shows what changed.
pub(crate) fn golden() -> Result<()> {
    let mut tests = cargo(&["test", "--quiet", "--package", "gregale-proto", "--lib", "golden"]);
    succeed(tests.env("UPDATE_GOLDEN", "1"))
}

/// The orders in real time that `cargo xtask sim` runs too if no protocol is named, each without
/// planted bugs.
const REALTIME_RULES: [&str; 3] = ["hop", "all-groups", "commit-wait"];

pub(crate) fn sim(protocol: Option<&str>, seeds: u64) -> Result<()> {
    let seeds = seeds.to_string();
    let protocols = match protocol {
        Some(one) => vec![one.to_owned()],
        None => {
            let by_themselves = crate::sweeps::all()?.into_iter().filter(|sweep| sweep.by_itself);
            by_themselves.map(|sweep| sweep.protocol).collect()
        }
    };
    for protocol in protocols {
        println!("--- sim {protocol}");
        let sweep = ["sim", "--protocol", &protocol, "--seeds", &seeds, "--mutants"];
        succeed(&mut simulator(&sweep)?)?;
    }
    if protocol.is_none() {
        // (Their planted bugs are among those of `primcast`.)
        for rule in REALTIME_RULES {
            let linearizable = "primcast-linearizable";
            println!("--- sim {linearizable} --rule {rule}");
            let order = ["sim", "--protocol", linearizable, "--rule", rule, "--seeds", &seeds];
            succeed(&mut simulator(&order)?)?;
        }
    }
    Ok(())
}

pub(crate) fn fuzz(seconds: u64) -> Result<()> {
    if !crate::root().join("fuzz/Cargo.toml").exists() {
        bail!("there is no fuzz/ with targets yet");
    }
    if !works(&mut cargo_proxy(&["+nightly", "fuzz", "--version"])) {
        bail!(
            "cargo-fuzz is missing: `cargo install cargo-fuzz --locked`, and a nightly toolchain"
        );
    }
    let targets = output(&mut cargo_proxy(&["+nightly", "fuzz", "list"]))?;
    for target in targets.lines() {
        println!("--- fuzz {target}");
        let limit = format!("-max_total_time={seconds}");
        succeed(&mut cargo_proxy(&["+nightly", "fuzz", "run", target, "--", &limit]))?;
    }
    Ok(())
}

/// Measures everything: one that fails, for instance since a server is not installed, keeps no
/// other one from being measured.
pub(crate) fn bench() -> Result<()> {
    let out = crate::root().join("bench-out");
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    // The servers that are measured lie beside the workbench.
    succeed(&mut cargo(&["build", "--locked", "--profile", "dist", "--package", "gregale"]))?;
    let mut failed = Vec::new();
    for bench in BENCHES {
        println!("--- bench {bench}");
        if let Err(error) = succeed(workbench(&["bench", bench, "--out"]).arg(&out)) {
            println!("{error:#}");
            failed.push(bench);
        }
    }
    println!("--- rivals");
    let rivals = ["run", "--release", "--locked", "--manifest-path", "bench/rivals/Cargo.toml"];
    let json = output(&mut cargo(&rivals))?;
    let path = out.join("rivals.json");
    fs::write(&path, json).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    if !failed.is_empty() {
        bail!("{} failed; the others are in {}", failed.join(", "), out.display());
    }
    Ok(())
}
