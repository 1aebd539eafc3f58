//! `gregale member` on the command line.

use crate::connect::ConnectArgs;
use clap::{Args, Subcommand};
use console::Format;
use std::net::SocketAddr;
use std::path::PathBuf;

/// `gregale member`
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  \
    gregale member list                  voters, learners, their incarnations\n  \
    gregale member replace 2             a dead member, or a disk that is to be retired\n  \
    gregale member remove 3\n  \
    gregale member add 3                 takes part again, with an empty disk\n  \
    gregale member replace 2 --control 127.0.0.1:41229 \\\n    \
        --secret-file gregale-data/local-7000/secret\n\n\
    The client ports of a replicated program are the program's: its members are changed over a\n\
    control port. `gregale up` prints these ports, and the file of the secret.\n\
    One change at a time; each is an entry of the log. Members of mu, multipaxos and abd,\n\
    and of partitions, never change.")]
pub(crate) enum MemberCommand {
    /// Show each seat: voter, learner or none, and its incarnation.
    List(MemberListArgs),
    /// Remove a member. Its data no longer counts, and its process ends.
    #[command(after_help = "Example:\n  gregale member remove 3 --connect 127.0.0.1:7000\n\n\
        Exit code 0: done; 1: not known to be done when the time was over; 2: refused, unchanged.\n\
        The others continue as a smaller cluster, which survives less. The directory stays where\n\
        it is; `gregale member add 3` begins a new incarnation and puts it aside.")]
    Remove(MemberArgs),
    /// Begin a new incarnation on an empty seat. It learns first, and votes when it has everything.
    Add(MemberAddArgs),
    /// Replace a member that is dead or whose disk is to go by a new incarnation with an empty
    /// disk.
    #[command(
        after_help = "Example:\n  gregale member replace 2 --connect 127.0.0.1:7000 --within 300\n\n\
        Exit code 0: done; 1: not known to be done when the time was over; 2: refused, unchanged.\n\
        The old incarnation ends at once, and its directory is put aside, not deleted. Until the\n\
        new one has everything and votes, the other members have to be a majority of themselves,\n\
        and no other change is begun."
    )]
    Replace(MemberArgs),
}

/// `gregale member list`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gregale member list --connect 127.0.0.1:7001 --format json")]
pub(crate) struct MemberListArgs {
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// `gregale member remove` and `replace`
#[derive(Debug, Args)]
pub(crate) struct MemberArgs {
    /// The member's number.
    pub(crate) id: u16,
    #[command(flatten)]
    pub(crate) wait: MemberWait,
}

/// `gregale member add`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gregale member add 3 --connect 127.0.0.1:7000")]
pub(crate) struct MemberAddArgs {
    /// The seat; by default the first that is empty.
    pub(crate) id: Option<u16>,
    #[command(flatten)]
    pub(crate) wait: MemberWait,
}

/// The way to the cluster: a client port, or a control port.
#[derive(Debug, Args)]
pub(crate) struct ReachArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// Any live member's control address, instead of a client address.
    #[arg(long)]
    pub(crate) control: Option<SocketAddr>,
    /// The file of the cluster's secret: what changes members over a control port proves to know
    /// it.
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
}

/// The cluster, and the time that a change may take.
#[derive(Debug, Args)]
pub(crate) struct MemberWait {
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    /// The seconds to wait until the change is done.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(..=86_400))]
    within: u64,
}

impl MemberWait {
    pub(crate) fn within(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.within)
    }
}
