//! `gregale recover` on the command line.

use clap::Args;
use std::path::PathBuf;

/// `gregale recover`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    gregale recover /var/lib/gregale       show what each disk holds, and what may be lost\n  \
    gregale recover /var/lib/gregale --yes-i-may-lose \"acknowledged writes\"\n\n\
    For a stopped cluster whose majority of disks is lost for good. The disk that holds most\n\
    becomes a new cluster of one member; `gregale up` brings the others back as new incarnations.\n\
    Nothing is deleted: the old directories are put aside as member-N.old-K, and never rejoin.\n\n\
    Exit code 0: done; 2: refused, and nothing changed, with the reason.")]
pub(crate) struct RecoverArgs {
    /// The DIR of `gregale up --data DIR`.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The member from whose disk to continue; refused if another disk holds more.
    #[arg(long, value_name = "ID")]
    pub(crate) member: Option<u16>,
    /// Do not use this member's disk, whatever it holds. May be repeated.
    #[arg(long, value_name = "ID")]
    pub(crate) without: Vec<u16>,
    /// The cluster's memory limit, if `cluster.toml` does not record it: it decided which writes
    /// were refused. Without it, none.
    #[arg(long, env = "GREGALE_MAXMEMORY", value_parser = crate::config::parse_bytes)]
    pub(crate) maxmemory: Option<u64>,
    /// The confirmation, in words; without it they are asked for.
    #[arg(long, value_name = "WORDS")]
    pub(crate) yes_i_may_lose: Option<String>,
}
