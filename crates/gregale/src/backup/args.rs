//! `gregale backup` and `restore` on the command line.

use crate::connect::ConnectArgs;
use clap::{Args, Subcommand};
use console::Format;
use std::path::PathBuf;

/// `gregale backup`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  \
    gregale backup monday.backup --connect 127.0.0.1:7001\n  \
    gregale backup verify monday.backup")]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    pub(crate) verify: Option<BackupCommand>,
    /// A file that is not there yet: all keys, values and expiries of one moment go into it.
    #[arg(required = true)]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// How to print what it holds.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// What can be done with a backup.
#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Read a backup to its end, and say what it holds or where it is damaged.
    Verify(VerifyArgs),
}

/// `gregale backup verify`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gregale backup verify monday.backup --format json")]
pub(crate) struct VerifyArgs {
    /// The backup.
    pub(crate) file: PathBuf,
    /// How to print what it holds.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// `gregale restore`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gregale restore monday.backup --connect 127.0.0.1:7000\n\n\
    The whole file is verified first. Restoring is many writes and not one step: keep clients\n\
    away until it is done. If it is interrupted, run it again with --force.")]
pub(crate) struct RestoreArgs {
    /// The backup.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// Write into a database that is not empty: keys of the file overwrite, others stay.
    #[arg(long)]
    pub(crate) force: bool,
    /// How to print what was done.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}
