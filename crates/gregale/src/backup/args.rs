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
    /// The file to write, which must not exist: all keys, values and expiries of one moment.
    #[arg(required = true)]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// The format of the printed summary.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// The subcommands about an existing backup.
#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Read a backup to its end, and report what it holds or where it is damaged.
    Verify(VerifyArgs),
}

/// `gregale backup verify`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gregale backup verify monday.backup --format json")]
pub(crate) struct VerifyArgs {
    /// The backup file.
    pub(crate) file: PathBuf,
    /// The format of the printed summary.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// `gregale restore`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gregale restore monday.backup --connect 127.0.0.1:7000\n\n\
    The whole file is verified first. Restoring is many writes and not one step: keep clients\n\
    away until it is done. If it is interrupted, run it again with --force.")]
pub(crate) struct RestoreArgs {
    /// The backup file.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// Write into a database that is not empty: keys of the file overwrite, others stay.
    #[arg(long)]
    pub(crate) force: bool,
    /// The format of the printed summary.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}
