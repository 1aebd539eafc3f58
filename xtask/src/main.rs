//! Chores of the repository: `cargo xtask verify | fix | sim | fuzz | bench`.
//!
//! `verify` only reads; `fix` writes. What a machine lacks is reported as skipped with the reason,
//! on a line of its own, and never counts as passed.
#![forbid(unsafe_code)]

mod chores;
mod run;
mod seeds;
mod tidy;
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
    /// Check everything: formatting, lints, tests, documentation, tidiness, a short simulation.
    /// Changes nothing.
    Verify {
        /// Leave the tests out, for who has just run them.
        #[arg(long)]
        skip_tests: bool,
    },
    /// Format, apply what clippy can mend by itself, lower the numbers in tidy.toml.
    Fix,
    /// Run seeds of the simulator, and every mutant.
    Sim {
        /// How many seeds.
        #[arg(long, default_value_t = 2000)]
        seeds: u64,
        /// Which protocol; without one: velos and all kinds of durable.
        #[arg(long)]
        protocol: Option<String>,
        /// Seeds that nobody has run yet, of every protocol and rule in turn; fails if one fails.
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
    /// Run every benchmark and the rivals; JSON and figures go to bench-out/.
    Bench,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Verify { skip_tests } => verify::verify(skip_tests),
        Chore::Fix => chores::fix(),
        Chore::Sim { protocol, fresh: true, minutes, of, .. } => {
            seeds::fresh(minutes, of.as_deref(), protocol.as_deref())
        }
        Chore::Sim { seeds, protocol, .. } => chores::sim(protocol.as_deref(), seeds),
        Chore::Fuzz { seconds } => chores::fuzz(seconds),
        Chore::Bench => chores::bench(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace: chores mean the whole, wherever they are called.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
