//! What can be said on the command line.
//!
//! Precedence everywhere: flag, environment (`GREGALE_*`), configuration file, default.

mod member;

use crate::config::{Durability, FabricKind, Order, Partitioning, Protocol};
use crate::failure::Outcome;
use clap::{Args, Parser, Subcommand, ValueEnum};
pub(crate) use member::{MemberAddArgs, MemberArgs, MemberCommand, MemberListArgs, MemberWait};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Strongly consistent replication at memory speed.
#[derive(Debug, Parser)]
#[command(name = "gregale", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole cluster on this machine, one process a replica, until Ctrl-C.
    Up(UpArgs),
    /// Run one replica, as a configuration file says.
    Serve(ServeArgs),
    /// Show the members of a running cluster.
    Status(StatusArgs),
    /// Show who takes part in a running cluster, and change it.
    #[command(subcommand)]
    Member(MemberCommand),
    /// Look at a data directory, offline.
    #[command(subcommand)]
    Log(LogCommand),
    /// Go on from the best disk that is left of a cluster which has lost its majority.
    Recover(RecoverArgs),
    /// Copy the content of a running cluster into a file, and verify such files.
    Backup(BackupArgs),
    /// Write the content of a backup into a running cluster.
    Restore(RestoreArgs),
    /// Show what each protocol orders, promises and survives.
    Protocols(ProtocolsArgs),
    /// Measure: verbs, the core, decisions, failover, commands, idleness.
    Bench(crate::bench::BenchArgs),
    /// One process of a benchmark (started by `bench`).
    #[command(hide = true, name = crate::bench::WORKER)]
    BenchWorker,
    /// Run seeds of a protocol under faults in the simulator; a failing seed replays everything.
    Sim(SimArgs),
    /// Judge a recorded history of client operations for linearizability.
    Check(CheckArgs),
    /// Watch over one replica's process and tell the others when it dies (started by `serve`).
    #[command(hide = true)]
    Sentinel(ServeArgs),
}

impl Command {
    /// Does it.
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
            Command::Protocols(args) => crate::protocols::run(&args),
            Command::Bench(args) => crate::bench::run(&args),
            Command::BenchWorker => crate::bench::worker(),
            Command::Sim(args) => crate::sim::run(&args),
            Command::Check(args) => crate::check::run(&args),
            Command::Sentinel(args) => crate::serve::sentinel::run(&args),
        }
    }
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs; its names are an interface.
    Json,
}

/// `gregale up`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    gregale up                             three replicas, logs in gregale-data/local-7000\n  \
    gregale up --durability memory-quorum  in memory: faster, lost with all processes\n  \
    gregale up --durability disk-all       on every disk: a dead member blocks writes\n  \
    gregale up --fabric tcp --port 7100    the same over TCP, ports 7100 to 7102\n  \
    gregale up --partitions 4              a keyspace in four parts, transactions across them\n  \
    gregale up --nodes 3 --seats 5         room for `gregale member add`, twice\n  \
    redis-cli -p 7000 SET greeting hello   any replica takes any command")]
pub(crate) struct UpArgs {
    /// How many replicas: 1 to 7. A majority of them has to live.
    #[arg(long, env = "GREGALE_NODES", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=base::MAX_MEMBERS as i64))]
    pub(crate) nodes: u8,
    /// How many seats there are, taken or not: `gregale member add` fills the others later. Durable
    /// modes; fixed when a cluster is begun. Without it as many as --nodes.
    #[arg(long, env = "GREGALE_SEATS", value_parser = clap::value_parser!(u8).range(1..=base::MAX_MEMBERS as i64))]
    pub(crate) seats: Option<u8>,
    /// How replicas reach each other's memory.
    #[arg(long, env = "GREGALE_FABRIC", value_enum, default_value_t = FabricKind::Shm)]
    pub(crate) fabric: FabricKind,
    /// How the order is agreed upon; see `gregale protocols`.
    /// Without it the durability decides, velos in memory, durable on disk; or --partitions does.
    #[arg(long, env = "GREGALE_PROTOCOL", value_enum)]
    pub(crate) protocol: Option<Protocol>,
    /// What an acknowledged update survives. memory-quorum: the crash of any minority of processes,
    /// not a power cut of all. disk-quorum: that too, and then the loss of any minority of disks.
    /// disk-all: then the loss of all disks but one; a dead member blocks writes, not reads, until
    /// it is back or removed.
    /// Without it: disk-quorum; with --partitions, memory-quorum.
    #[arg(long, env = "GREGALE_DURABILITY", value_enum)]
    pub(crate) durability: Option<Durability>,
    /// Cut the keyspace into so many partitions, 1 to 32, each replicated by every replica, ordered
    /// by atomic multicast: MULTI, MSET, RENAME and the like work across them.
    #[arg(long, env = "GREGALE_PARTITIONS")]
    pub(crate) partitions: Option<u8>,
    /// How commands of several partitions respect real time. linearizable: the multicast does it.
    /// signals: partitions wait for each other before they execute. reply: before they answer.
    #[arg(long, env = "GREGALE_ORDER", value_enum, default_value_t = Order::Linearizable, requires = "partitions")]
    pub(crate) order: Order,
    /// The first replica's client port; the others' follow it.
    #[arg(long, env = "GREGALE_PORT", default_value_t = 7000, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// The address to serve clients on. Other than loopback only with --requirepass.
    #[arg(long, env = "GREGALE_BIND", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(crate) bind: IpAddr,
    /// The cluster's name; with the port it names the directory below /dev/shm.
    #[arg(long, env = "GREGALE_CLUSTER", default_value = "local")]
    pub(crate) cluster: String,
    /// A tmpfs for the replicas' memory.
    #[arg(long, env = "GREGALE_DIRECTORY", default_value = "/dev/shm")]
    pub(crate) directory: PathBuf,
    /// The password that clients have to give (AUTH).
    #[arg(long, env = "GREGALE_REQUIREPASS", hide_env_values = true)]
    pub(crate) requirepass: Option<String>,
    /// The memory that keys and values may take, as 100mb or 2gb; 0 for no limit.
    #[arg(long, env = "GREGALE_MAXMEMORY", default_value = "0", value_parser = crate::config::parse_bytes)]
    pub(crate) maxmemory: u64,
    /// The most clients of one replica at a time.
    #[arg(long, env = "GREGALE_MAXCLIENTS", default_value_t = crate::config::CLIENTS_MAX)]
    pub(crate) maxclients: u32,
    /// Tell clients of a Redis Cluster whose nodes the members are, so that a client in cluster
    /// mode finds all of them and continues when one dies. Any member takes any key all the same.
    #[arg(long, env = "GREGALE_CLUSTER_DISCOVERY")]
    pub(crate) cluster_discovery: bool,
    /// Where durable modes keep their logs; without it gregale-data/CLUSTER-PORT. A cluster that is
    /// there already goes on. Not for memory-quorum, which keeps nothing on disk.
    #[arg(long, env = "GREGALE_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// A snapshot whenever so many bytes were logged: for measurements.
    #[arg(long, hide = true, requires = "data", value_parser = crate::config::parse_bytes)]
    pub(crate) snapshot_log_bytes: Option<u64>,
    /// Leave a replica dead that died.
    #[arg(long)]
    pub(crate) no_restart: bool,
    /// How to print what is going on.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

impl UpArgs {
    /// How many seats there are.
    pub(crate) fn seats(&self) -> u8 {
        self.seats.unwrap_or(self.nodes)
    }

    /// The one that was chosen, or the durability's.
    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol.unwrap_or_else(|| match self.partitions {
            Some(_) => Protocol::Primcast,
            None => self.durability().protocol(),
        })
    }

    /// The one that was chosen, or the usual one.
    pub(crate) fn durability(&self) -> Durability {
        self.durability.unwrap_or(match self.partitions {
            Some(_) => Durability::MemoryQuorum,
            None => Durability::DiskQuorum,
        })
    }

    /// The partitions, if there are to be any.
    pub(crate) fn partitioning(&self) -> Option<Partitioning> {
        self.partitions.map(|n| Partitioning { n, order: self.order })
    }
}

/// What `gregale sim` can simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimProtocol {
    /// One-sided Paxos.
    Velos,
    /// The same with slot words so narrow that generations wrap and ballots overflow.
    VelosNarrow,
    /// The first, with an operator who adds, removes and replaces members.
    VelosMembers,
    /// Writes under a permission, for comparison.
    Mu,
    /// A log on disk, under power cuts and failing disks.
    Durable,
    /// The same, with an operator who adds, removes and replaces members.
    DurableMembers,
    /// The first again, over the log that ships on a disk that loses and tears what was not synced.
    DurableLog,
    /// Atomic multicast without failures: the root of the others.
    Skeen,
    /// Atomic multicast, three steps to leaders and four to others.
    Whitebox,
    /// Atomic multicast by guessed timestamps and two rounds of consensus.
    Fastcast,
    /// Atomic multicast in three steps to everybody.
    Primcast,
    /// The same with real-time order across groups.
    PrimcastLinearizable,
    /// The same with messages that may overtake each other if they do not conflict.
    PrimcastCommuting,
    /// PrimCast, whose processes lose power and come back from their disks.
    PrimcastStable,
    /// PrimCast, whose groups change their members.
    PrimcastMembers,
}

/// Which rule makes multicast respect real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RealtimeRule {
    /// Primaries tell what they have not delivered; only destinations take part.
    Hop,
    /// Every group reports its clock.
    AllGroups,
    /// Wait until every synchronized clock has passed.
    CommitWait,
}

impl SimProtocol {
    /// As it is called on the command line and in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            SimProtocol::Velos => "velos",
            SimProtocol::VelosNarrow => "velos-narrow",
            SimProtocol::VelosMembers => "velos-members",
            SimProtocol::Mu => "mu",
            SimProtocol::Durable => "durable",
            SimProtocol::DurableMembers => "durable-members",
            SimProtocol::DurableLog => "durable-log",
            SimProtocol::Skeen => "skeen",
            SimProtocol::Whitebox => "whitebox",
            SimProtocol::Fastcast => "fastcast",
            SimProtocol::Primcast => "primcast",
            SimProtocol::PrimcastLinearizable => "primcast-linearizable",
            SimProtocol::PrimcastCommuting => "primcast-commuting",
            SimProtocol::PrimcastStable => "primcast-stable",
            SimProtocol::PrimcastMembers => "primcast-members",
        }
    }
}

/// `gregale sim`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    gregale sim --protocol velos --seeds 1000          a sweep\n  \
    gregale sim --protocol velos --seeds 100 --mutants  and every planted bug must be caught\n  \
    gregale sim --protocol velos --seed 42 --trace      one seed, whole\n  \
    gregale sim --protocol primcast-linearizable --rule hop --groups 4")]
pub(crate) struct SimArgs {
    /// What to simulate.
    #[arg(long, value_enum, default_value_t = SimProtocol::Velos)]
    pub(crate) protocol: SimProtocol,
    /// How many seeds.
    #[arg(long, default_value_t = 1000)]
    pub(crate) seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    pub(crate) first: u64,
    /// As many seeds as are done in so many seconds, instead of a number of them.
    #[arg(long, conflicts_with_all = ["seeds", "seed", "mutants"])]
    pub(crate) seconds: Option<u64>,
    /// One seed alone.
    #[arg(long, conflicts_with_all = ["seeds", "first", "mutants"])]
    pub(crate) seed: Option<u64>,
    /// With --seed: print every step.
    #[arg(long, requires = "seed")]
    pub(crate) trace: bool,
    /// How many members; without it each seed decides.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=base::MAX_MEMBERS as i64))]
    pub(crate) members: Option<u8>,
    /// Multicast: how many groups; without it each seed decides.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) groups: Option<u8>,
    /// Skeen, primcast-linearizable, -stable and -members: which rule for real time
    /// (primcast-linearizable: hop if
    /// not said otherwise).
    #[arg(long, value_enum)]
    pub(crate) rule: Option<RealtimeRule>,
    /// Each run is a day: few operations, idle hours, faults that last for hours, wall clocks that
    /// drift, are set and corrected. Not for multicast.
    #[arg(long)]
    pub(crate) long: bool,
    /// primcast-stable: faults are aimed too, as at what has left a process and is not yet on its
    /// disk, and at a process that has just come back
    #[arg(long)]
    pub(crate) aimed: bool,
    /// Also run the planted bugs; one that survives fails the command.
    #[arg(long)]
    pub(crate) mutants: bool,
    /// On how many threads; without it one a processor. Results do not depend on it.
    #[arg(long)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// `gregale check`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gregale check history.jsonl\n\n\
    Exit code 0: linearizable; 1: not, and the first answer that nothing explains; 2: not known\n\
    within the limits, or not a history.")]
pub(crate) struct CheckArgs {
    /// The history, one JSON object a line; - for standard input.
    pub(crate) file: PathBuf,
}

/// `gregale serve`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gregale serve --config member-1.toml\n\n\
    The file:\n  \
    cluster = \"demo\"\n  \
    member = 1\n  \
    fabric = \"tcp\"\n  \
    start = \"bootstrap\"            # \"reattach\" in every later life\n  \
    directory = \"/dev/shm/gregale-demo\"\n  \
    secret_file = \"/etc/gregale/secret\"\n\n  \
    [[members]]\n  \
    id = 1\n  \
    client = \"127.0.0.1:7000\"\n  \
    control = \"127.0.0.1:7200\"\n  \
    fabric = \"127.0.0.1:7100\"\n  \
    # ... one for each member")]
pub(crate) struct ServeArgs {
    /// The configuration file.
    #[arg(long, env = "GREGALE_CONFIG")]
    pub(crate) config: PathBuf,
    /// Instead of the file's `requirepass`.
    #[arg(long, env = "GREGALE_REQUIREPASS", hide_env_values = true)]
    pub(crate) requirepass: Option<String>,
    /// Instead of the file's `maxmemory`.
    #[arg(long, env = "GREGALE_MAXMEMORY", value_parser = crate::config::parse_bytes)]
    pub(crate) maxmemory: Option<u64>,
    /// Instead of the file's `maxclients`.
    #[arg(long, env = "GREGALE_MAXCLIENTS")]
    pub(crate) maxclients: Option<u32>,
    /// Standard input is a socket to a supervisor, which passes the listening sockets.
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,
}

/// `gregale status`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gregale status --connect 127.0.0.1:7000 --format json")]
pub(crate) struct StatusArgs {
    /// Any live member's client address.
    #[arg(long, env = "GREGALE_CONNECT", default_value = "127.0.0.1:7000")]
    pub(crate) connect: SocketAddr,
    /// The password, if the cluster wants one.
    #[arg(long, env = "GREGALE_REQUIREPASS", hide_env_values = true)]
    pub(crate) password: Option<String>,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// `gregale log`
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  gregale log inspect /var/lib/gregale")]
pub(crate) enum LogCommand {
    /// Show what a directory holds, what of it is intact, and where it ends.
    Inspect(LogInspectArgs),
}

/// `gregale log inspect`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    gregale log inspect /var/lib/gregale                      all members of `up --data`\n  \
    gregale log inspect /var/lib/gregale/member-2 --records   one member, record by record\n\n\
    It only reads; a directory in use shows a moment of it.\n\
    Exit code 0: intact, or with a torn end, which is cut when the member starts; 1: something is\n\
    damaged, and named; 2: a directory is none, or cannot be read (the others are shown).")]
pub(crate) struct LogInspectArgs {
    /// A member's directory, or that of a cluster.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Each record as well.
    #[arg(long)]
    pub(crate) records: bool,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

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
    /// The member to go on from; refused if another one holds more.
    #[arg(long, value_name = "ID")]
    pub(crate) member: Option<u16>,
    /// Do not use this member's disk, whatever it holds. May be repeated.
    #[arg(long, value_name = "ID")]
    pub(crate) without: Vec<u16>,
    /// The cluster's memory limit, if `cluster.toml` does not say: it decided which writes were
    /// refused.
    #[arg(long, env = "GREGALE_MAXMEMORY", default_value = "0", value_parser = crate::config::parse_bytes)]
    pub(crate) maxmemory: u64,
    /// The confirmation, in words; without it they are asked for.
    #[arg(long, value_name = "WORDS")]
    pub(crate) yes_i_may_lose: Option<String>,
}

/// Which cluster, and how to be let in.
#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// Any live member's client address.
    #[arg(long, env = "GREGALE_CONNECT", default_value = "127.0.0.1:7000")]
    pub(crate) connect: SocketAddr,
    /// The password, if the cluster wants one.
    #[arg(long, env = "GREGALE_REQUIREPASS", hide_env_values = true)]
    pub(crate) password: Option<String>,
}

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

/// `gregale protocols`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gregale protocols --format json")]
pub(crate) struct ProtocolsArgs {
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
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
