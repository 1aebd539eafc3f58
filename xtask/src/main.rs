//! Chores of the repository: `cargo xtask test | verify | fix | house | sim | fuzz | lab | bench`.
//!
//! `verify` only reads; `fix` writes. What a machine lacks is reported as skipped with the reason,
//! on a line of its own, and never counts as passed. With CI=true, what it does not lack is not
//! left out (`hosts`).
#![forbid(unsafe_code)]

mod chores;
mod hosts;
mod house;
mod lab;
mod programs;
mod run;
mod seeds;
mod sweeps;
mod test;
mod tidy;
mod times;
mod verify;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the repository")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run every test, set-up included: install the programs that the tests drive (on Debian, as
    /// root or by sudo without a password), fetch crates, build. Where a program is not available,
    /// the tests that need it are named and left out; with CI=true the run fails instead.
    #[command(after_help = "Example: cargo xtask test --no-install")]
    Test {
        /// Install nothing.
        #[arg(long)]
        no_install: bool,
        /// The tests of minutes too: many deaths, many power cuts, the model's larger worlds.
        #[arg(long)]
        long: bool,
    },
    /// Check everything: formatting, lints, tests, documentation, tidiness, a short simulation.
    /// Changes nothing.
    Verify {
        /// Leave the tests out, after a separate run of them.
        #[arg(long)]
        skip_tests: bool,
    },
    /// Format, apply what clippy can mend by itself, lower the numbers in tidy.toml.
    Fix {
        /// Write the golden scripts of the protocols as they are now, and nothing else.
        #[arg(long)]
        golden: bool,
    },
    /// Count what this workspace should have once: contracts, engines, worlds, lists of protocols;
    /// and what it should not have. Fails if a figure is not what xtask/house.toml says.
    #[command(after_help = "Example: cargo xtask house --json | jq .figures.engines.found")]
    House {
        /// JSON, with everything that was found.
        #[arg(long)]
        json: bool,
        /// Fail if a figure is above its target.
        #[arg(long)]
        strict: bool,
        /// Lower the numbers in xtask/house.toml to what is measured.
        #[arg(long)]
        update: bool,
    },
    /// Run seeds of the simulator, and every mutant. Fresh ones: exits with 3 if one fails, with 1
    /// if they did not run.
    Sim {
        /// The number of seeds.
        #[arg(long, default_value_t = 2000)]
        seeds: u64,
        /// The protocol; without one, each that has `by_itself` in xtask/sweeps.toml.
        #[arg(long)]
        protocol: Option<String>,
        /// Seeds that were not run before, of every protocol and rule in turn; fails if one fails.
        #[arg(long, conflicts_with = "seeds")]
        fresh: bool,
        /// With --fresh: for about how long.
        #[arg(long, requires = "fresh", default_value_t = 5.0)]
        minutes: f64,
        /// With --fresh: what the seeds follow from, a commit or a day; without it today.
        #[arg(long, requires = "fresh")]
        of: Option<String>,
    },
    /// Run each fuzz target.
    Fuzz {
        /// For how long, each.
        #[arg(long, default_value_t = 30)]
        seconds: u64,
    },
    /// Run what takes a kernel of its own, in a guest that is emulated (some six minutes).
    #[command(after_help = "Example: cargo xtask lab criu --keys 1000")]
    Lab {
        #[command(subcommand)]
        what: Lab,
    },
    /// Run every benchmark and the rivals; JSON and figures go to bench-out/.
    Bench,
}

#[derive(Subcommand)]
enum Lab {
    /// Dump copies of Redis by CRIU, kill them, and see them in step again.
    Criu {
        /// The number of keys.
        #[arg(long, default_value_t = 100_000)]
        keys: u32,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Test { no_install, long } => {
            test::test(&test::Manner { installs: !no_install, is_long: long })
        }
        Chore::Verify { skip_tests } => verify::verify(skip_tests),
        Chore::Fix { golden: true } => chores::golden(),
        Chore::Fix { golden: false } => chores::fix(),
        Chore::House { json, strict, update } => {
            house::house(&house::Manner { json, strict, update })
        }
        Chore::Sim { protocol, fresh: true, minutes, of, .. } => {
            seeds::fresh(minutes, of.as_deref(), protocol.as_deref())
        }
        Chore::Sim { seeds, protocol, .. } => chores::sim(protocol.as_deref(), seeds),
        Chore::Fuzz { seconds } => chores::fuzz(seconds),
        Chore::Lab { what: Lab::Criu { keys } } => lab::criu(keys),
        Chore::Bench => chores::bench(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::from(seeds::exit_code(&e))
        }
    }
}

/// The folder of the workspace: chores mean the whole, wherever they are called.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
