//! The command line: the subcommands. The arguments of each are declared beside its code.
//!
//! Precedence everywhere: flag, environment (`GREGALE_*`), configuration file, default.

use crate::backup::{BackupArgs, RestoreArgs};
use crate::check::CheckArgs;
use crate::config::ServeArgs;
use crate::log::LogCommand;
use crate::member::MemberCommand;
use crate::protocols::ProtocolsArgs;
use crate::recover::RecoverArgs;
use crate::replicate::{LaunchArgs, ReplicateCommand};
use crate::status::StatusArgs;
use crate::up::UpArgs;
use crate::workbench::{self, WorkbenchArgs};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use console::Outcome;
use std::ffi::OsString;

/// Strongly consistent replication at memory speed.
#[derive(Debug, Parser)]
#[command(name = "gregale", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The command line of this process. A wrong one ends it.
    pub(crate) fn of_process() -> Cli {
        Cli::of(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    fn of(words: impl IntoIterator<Item: Into<OsString> + Clone>) -> Result<Cli, clap::Error> {
        let mut command = Cli::command();
        let matches = command.try_get_matches_from_mut(words)?;
        if says_two_ways(&matches) {
            let why = "--control is in the place of --connect and --password: say one way";
            return Err(command.error(ErrorKind::ArgumentConflict, why));
        }
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// Whether the command line names a control port and a client port. What the environment says about
/// client ports is for other commands.
fn says_two_ways(matches: &ArgMatches) -> bool {
    let mut of = matches;
    while let Some((_, inner)) = of.subcommand() {
        of = inner;
    }
    let is_said = |id: &str| {
        let is_known = of.try_contains_id(id).is_ok();
        is_known && of.value_source(id) == Some(ValueSource::CommandLine)
    };
    is_said("control") && (is_said("address") || is_said("password"))
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole cluster on this machine, one process per replica, until Ctrl-C.
    Up(UpArgs),
    /// Run one replica, as a configuration file specifies.
    Serve(ServeArgs),
    /// Show the members of a running cluster.
    Status(StatusArgs),
    /// Show the members of a running cluster, and change them.
    #[command(subcommand)]
    Member(MemberCommand),
    /// Look at a data directory, offline.
    #[command(subcommand)]
    Log(LogCommand),
    /// Restart a cluster that has lost its majority from the best disk that is left.
    Recover(RecoverArgs),
    /// Copy the content of a running cluster into a file, and verify such files.
    Backup(BackupArgs),
    /// Write the content of a backup into a running cluster.
    Restore(RestoreArgs),
    /// Look at a program that is to be replicated (`up --replicate` replicates it).
    #[command(subcommand)]
    Replicate(ReplicateCommand),
    /// Show what each protocol orders, promises and survives.
    Protocols(ProtocolsArgs),
    /// Measure: verbs, the core, decisions, failover, commands, idleness.
    #[command(after_help = "Example:\n  gregale bench kv --against redis,etcd")]
    Bench(WorkbenchArgs),
    /// Run seeds of a protocol under faults in the simulator; a failing seed replays everything.
    #[command(after_help = "Example:\n  gregale sim --protocol velos --seeds 1000")]
    Sim(WorkbenchArgs),
    /// Judge a recorded history of client operations for linearizability.
    Check(CheckArgs),
    /// Become a copy of a replicated program (started by `serve`).
    #[command(hide = true)]
    Launch(LaunchArgs),
    /// Watch one replica's process and report its death to the others (started by `serve`).
    #[command(hide = true)]
    Sentinel(ServeArgs),
}

impl Command {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> Outcome {
        match self {
            Command::Up(args) => crate::up::run(&args),
            Command::Serve(args) => crate::serve::run(&args),
            Command::Status(args) => crate::status::run(&args),
            Command::Member(MemberCommand::List(args)) => crate::member::list(&args),
            Command::Member(MemberCommand::Remove(args)) => crate::member::remove(&args),
            Command::Member(MemberCommand::Add(args)) => crate::member::add(&args),
            Command::Member(MemberCommand::Replace(args)) => crate::member::replace(&args),
            Command::Log(LogCommand::Inspect(args)) => crate::log::inspect(&args),
            Command::Recover(args) => crate::recover::run(&args),
            Command::Backup(args) => crate::backup::run(&args),
            Command::Restore(args) => crate::backup::restore(&args),
            Command::Replicate(command) => crate::replicate::replicate(&command),
            Command::Protocols(args) => crate::protocols::run(&args),
            Command::Bench(args) => workbench::run("bench", &args),
            Command::Sim(args) => workbench::run("sim", &args),
            Command::Check(args) => crate::check::run(&args),
            Command::Launch(args) => crate::replicate::launch(&args),
            Command::Sentinel(args) => crate::serve::sentinel::run(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_control_port_is_in_the_place_of_a_client_port() {
        let control = ["gregale", "status", "--control", "127.0.0.1:7200"];
        assert!(Cli::of(control).is_ok());
        let refused = Cli::of([&control[..], &["--connect", "127.0.0.1:7000"]].concat());
        assert!(refused.unwrap_err().to_string().contains("say one way"));
        let list = ["gregale", "member", "list", "--password", "x", "--control", "127.0.0.1:7200"];
        assert!(Cli::of(list).is_err());
        // The environment says the same as a default does: it is for commands without --control.
        let is_from_default = |words: [&str; 4]| {
            let matches = Cli::command().get_matches_from(words);
            !says_two_ways(&matches)
        };
        assert!(is_from_default(control));
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        let refused = |words: &[&str]| Cli::try_parse_from(words).unwrap_err().to_string();
        let max = u64::MAX.to_string();
        let replace = ["gregale", "member", "replace", "2", "--within"];
        assert!(refused(&[&replace[..], &[&max]].concat()).contains("86400"));
        assert!(Cli::try_parse_from([&replace[..], &["86400"]].concat()).is_ok());
        assert!(refused(&["gregale", "up", "--port", "0"]).contains("--port"));
    }

    #[test]
    fn each_change_of_a_member_shows_its_own_example() {
        let command = Cli::command();
        let member = command.find_subcommand("member").unwrap();
        for name in ["remove", "replace", "add"] {
            let help = member.find_subcommand(name).unwrap().get_after_help().unwrap().to_string();
            assert!(help.contains(&format!("Example:\n  gregale member {name} ")), "{help}");
        }
    }

    #[test]
    fn every_subcommand_shows_an_example() {
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let help = command.get_after_help().map(|text| text.to_string()).unwrap_or_default();
            assert!(help.contains("gregale "), "{} has no example", command.get_name());
        }
    }
}
