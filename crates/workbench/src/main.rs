//! `gregale sim` and `gregale bench`: the simulator, and the benchmarks.
//!
//! They are a program of their own, which `gregale` runs, so that a build of the server does not
//! build every planted bug as well.
#![forbid(unsafe_code)]

#[macro_use]
extern crate console;

mod bench;
mod choices;
mod groups;
mod programs;
mod sim;
mod versions;

use crate::bench::BenchArgs;
use crate::sim::SimArgs;
use clap::{Parser, Subcommand};
use console::Outcome;
use std::process::ExitCode;

/// The simulator and the benchmarks of gregale.
#[derive(Debug, Parser)]
#[command(name = "gregale", bin_name = "gregale", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
enum Command {
    /// Measure: verbs, the core, decisions, failover, commands, idleness.
    Bench(BenchArgs),
    /// One process of a benchmark (started by `bench`).
    #[command(hide = true, name = crate::bench::WORKER)]
    BenchWorker,
    /// Run seeds of a protocol under faults in the simulator; a failing seed replays everything.
    Sim(SimArgs),
}

impl Command {
    fn run(self) -> Outcome {
        match self {
            Command::Bench(args) => bench::run(&args),
            Command::BenchWorker => bench::worker(),
            Command::Sim(args) => sim::run(&args),
        }
    }
}

fn main() -> ExitCode {
    console::ended(Cli::parse().command.run())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Of `xtask/src/chores.rs`.
    #[test]
    fn every_benchmark_is_among_those_that_xtask_runs() {
        let chores = include_str!("../../../xtask/src/chores.rs");
        let command = Cli::command();
        let bench = command.find_subcommand("bench").expect("there are benchmarks");
        let mut names: Vec<&str> = bench.get_subcommands().map(|one| one.get_name()).collect();
        assert_eq!(names.len(), 14);
        names.retain(|name| !chores.contains(&format!("    \"{name}\",\n")));
        assert_eq!(names, Vec::<&str>::new(), "xtask runs each");
    }

    #[test]
    fn every_subcommand_shows_an_example() {
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let help = command.get_after_help().map(|text| text.to_string()).unwrap_or_default();
            assert!(help.contains("gregale "), "{} has no example", command.get_name());
        }
    }
}
