//! `gregale up` on the command line.

use crate::config::{
    self, Attach, Chance, Confine, Durability, EndBy, FabricKind, InputOrder, Order, Output,
    Partitioning, Program, Protocol, ReadsOf, RestBy, SaveBy, Time, WhenSplit,
};
use clap::Args;
use console::{Failure, Format, Outcome};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// `gregale up`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    gregale up                             three replicas, logs in gregale-data/local-7000\n  \
    gregale up --durability memory-quorum  in memory: faster, lost with all processes\n  \
    gregale up --protocol abd              registers without a leader, in memory\n  \
    gregale up --durability disk-all       on every disk: a dead member blocks writes\n  \
    gregale up --fabric tcp --port 7100    the same over TCP, ports 7100 to 7102\n  \
    gregale up --partitions 4              a keyspace in four parts, transactions across them\n  \
    gregale up --nodes 3 --seats 5         room for `gregale member add`, twice\n  \
    redis-cli -p 7000 SET greeting hello   any replica takes any command\n  \
    gregale up --replicate 'redis-server --port 0 --unixsocket {socket} --dir {dir} --save \"\"'\n  \
    \x20                                      an unmodified program, in place of our store\n  \
    gregale up --replicate 'memcached -s {socket} -U 0' --program-reads memcached\n  \
    \x20                                      the same, and each get asks the copy beside it\n  \
    gregale up --replicate 'memcached -s {socket} -U 0' --program-output strict\n  \
    \x20                                      an answer leaves when two of three gave it\n  \
    gregale up --replicate 'sh {dir}/start.sh {dir} {socket}' --genesis DIR \\\n  \
    \x20   --program-save files --program-close 60  checkpoints of a program's files")]
pub(crate) struct UpArgs {
    /// How many replicas: 1 to 7. A majority of them has to live.
    #[arg(long, env = "GREGALE_NODES", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=base::MAX_MEMBERS as i64))]
    pub(crate) nodes: u8,
    /// The number of seats, taken or not: `gregale member add` fills the others later. Durable
    /// modes; fixed when a cluster is founded. By default as many as --nodes.
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
    /// Without it: disk-quorum, or memory-quorum where --protocol keeps nothing on disk; with
    /// --partitions, memory-quorum.
    #[arg(long, env = "GREGALE_DURABILITY", value_enum)]
    pub(crate) durability: Option<Durability>,
    /// Divide the keyspace into so many partitions, 1 to 32, each replicated by every replica,
    /// ordered by atomic multicast: MULTI, MSET, RENAME and the like work across them.
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
    requirepass: Option<String>,
    /// The memory that keys and values may take, as 100mb or 2gb; 0, the default, for no limit.
    #[arg(long, env = "GREGALE_MAXMEMORY", value_parser = crate::config::parse_bytes)]
    maxmemory: Option<u64>,
    /// The most clients of one replica at a time.
    #[arg(long, env = "GREGALE_MAXCLIENTS", default_value_t = crate::config::CLIENTS_MAX)]
    pub(crate) maxclients: u32,
    /// Show clients a Redis Cluster whose nodes the members are, so that a client in cluster mode
    /// finds all of them and continues when one dies. Any member still takes any key.
    #[arg(long, env = "GREGALE_CLUSTER_DISCOVERY")]
    pub(crate) cluster_discovery: bool,
    /// The directory of the durable modes' logs; by default gregale-data/CLUSTER-PORT. An existing
    /// cluster is continued. Not for memory-quorum, which keeps nothing on disk.
    #[arg(long, env = "GREGALE_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// The logged bytes after which a snapshot is made: for measurements.
    #[arg(long, hide = true, requires = "data", value_parser = crate::config::parse_bytes)]
    pub(crate) snapshot_log_bytes: Option<u64>,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    /// Do not restart a replica that died.
    #[arg(long)]
    pub(crate) no_restart: bool,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// A program that is replicated.
#[derive(Debug, Args)]
pub(crate) struct ProgramArgs {
    /// Replicate a program, in place of the key-value store: its command line, with {socket} (the
    /// path of a Unix socket), {port} or {udp} where it listens, and {dir} for its directory.
    /// Each member runs a copy of it, and feeds it with the input of all clients in one order.
    #[arg(long, env = "GREGALE_REPLICATE", value_name = "COMMAND")]
    pub(crate) replicate: Option<String>,
    /// The directory that the program begins with; without it, an empty one.
    #[arg(long, requires = "replicate", value_name = "DIR")]
    pub(crate) genesis: Option<PathBuf>,
    /// The order in which the copies see the input of different connections.
    #[arg(long, requires = "replicate", value_enum, default_value_t = InputOrder::Serial)]
    pub(crate) program_order: InputOrder,
    /// How it is known that the program is at rest. Without it, by the program's name.
    #[arg(long, requires = "replicate", value_enum)]
    pub(crate) program_rest: Option<RestBy>,
    /// Run reads beside the log: a request that changes nothing is executed by the copy beside its
    /// client alone, when it was checked that this copy has everything. By the protocol's plugin.
    #[arg(long, requires = "replicate", value_enum, default_value_t = ReadsOf::None)]
    pub(crate) program_reads: ReadsOf,
    /// Compare what the copies have answered after every N entries (openings, inputs and ends of
    /// connections). The copy of a minority is dropped, and begins again. 0: never.
    #[arg(long, requires = "replicate", default_value_t = config::COMPARE, value_name = "N")]
    pub(crate) program_compare: u64,
    /// Save a copy after at least N entries, so that what stands before is forgotten. 0: never.
    /// Without it, 100000 for programs that speak Redis's protocol or have --program-save files or
    /// criu, and never for others.
    #[arg(long, requires = "replicate", value_name = "N")]
    pub(crate) program_checkpoint: Option<u64>,
    /// How a copy is saved. resp: by SAVE, which is the default in Redis's protocol. files: by its
    /// directory, for programs that lose nothing they have answered when they are killed. All
    /// copies are killed for it, and begin again with their files, while no client is connected.
    /// criu: by a dump of its processes with their memory, while no client is connected. It takes
    /// root and the program criu, and loads no library into the program.
    #[arg(long, requires = "replicate", value_enum)]
    pub(crate) program_save: Option<SaveBy>,
    /// How all copies end where one is saved by its files. term: the program is asked to end, and
    /// writes what it has in memory; it is killed half a minute later.
    #[arg(long, requires = "replicate", value_enum, default_value_t = EndBy::Kill)]
    pub(crate) program_end: EndBy,
    /// Close all clients when open connections have put a checkpoint off for so many seconds.
    /// They connect again. Without it, a checkpoint waits until the connections allow it.
    #[arg(long, requires = "replicate", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) program_close: Option<u64>,
    /// Drop a copy that has taken up nothing for so many seconds, and begin it again, if a
    /// majority's copies have answered alike further on (--program-compare). 0: never.
    #[arg(long, requires = "replicate", default_value_t = config::STALL_S, value_name = "SECONDS")]
    pub(crate) program_stall: u64,
    /// What a member does when no majority of the copies answers alike.
    #[arg(long, requires = "replicate", value_enum, default_value_t = WhenSplit::Serve)]
    pub(crate) program_split: WhenSplit,
    /// When an answer leaves. at-once: as soon as the client's copy has given it; --program-compare
    /// finds copies that answer otherwise afterwards. strict: when a majority's copies are known to
    /// have given the same, which takes another decision; what no majority has given never leaves,
    /// and its client is closed.
    #[arg(long, requires = "replicate", value_enum, default_value_t = Output::AtOnce)]
    pub(crate) program_output: Output,
    /// How a member is attached to its copy. Without it, a library is loaded into programs that
    /// load libraries.
    #[arg(long, requires = "replicate", value_enum)]
    pub(crate) program_attach: Option<Attach>,
    /// Where what the program draws comes from.
    #[arg(long, requires = "replicate", value_enum, default_value_t = Chance::Shared)]
    pub(crate) program_chance: Chance,
    /// Which time the program sees: that of its host, or that of the log, the same for all copies.
    #[arg(long, requires = "replicate", value_enum, default_value_t = Time::Kernel)]
    pub(crate) program_time: Time,
    /// How much a copy is confined: fixed addresses in memory, a network of its own, writes to its
    /// own directory and /tmp alone.
    #[arg(long, requires = "replicate", value_enum, default_value_t = Confine::Best)]
    pub(crate) program_confine: Confine,
    /// The program has the host's network, and may connect to others.
    #[arg(long, requires = "replicate")]
    pub(crate) program_outbound: bool,
    /// The program asks its clients for a password, so that --bind may name any address.
    #[arg(long, requires = "replicate")]
    pub(crate) program_authenticates: bool,
}

impl ProgramArgs {
    /// The program, if one is replicated.
    pub(crate) fn program(&self) -> Option<Program> {
        self.replicate.as_ref().map(|command| Program {
            command: command.clone(),
            genesis: self.genesis.clone(),
            order: self.program_order,
            rest: self.program_rest,
            reads: self.program_reads,
            compare: self.program_compare,
            checkpoint: self.program_checkpoint,
            save: self.program_save,
            end: self.program_end,
            close_s: self.program_close,
            stall_s: self.program_stall,
            split: self.program_split,
            output: self.program_output,
            attach: self.program_attach,
            chance: self.program_chance,
            time: self.program_time,
            confine: self.program_confine,
            outbound: self.program_outbound,
            authenticates: self.program_authenticates,
        })
    }
}

impl UpArgs {
    /// The number of seats.
    pub(crate) fn seats(&self) -> u8 {
        self.seats.unwrap_or(self.nodes)
    }

    /// The chosen protocol, or the durability's default.
    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol.unwrap_or_else(|| match self.partitions {
            Some(_) => Protocol::Primcast,
            None => self.durability().protocol(),
        })
    }

    /// The chosen durability, or the default.
    pub(crate) fn durability(&self) -> Durability {
        self.durability.unwrap_or_else(|| match (self.partitions, self.protocol) {
            (Some(_), _) => Durability::MemoryQuorum,
            (None, Some(protocol)) => protocol.durability(),
            (None, None) => Durability::DiskQuorum,
        })
    }

    /// The limit of memory; 0 means none.
    pub(crate) fn maxmemory(&self) -> u64 {
        self.maxmemory.unwrap_or(0)
    }

    /// Whether any of the settings is given on which the meaning of a log depends.
    pub(super) fn names_keyspace(&self) -> bool {
        let names_program = self.program.replicate.is_some();
        self.maxmemory.is_some() || self.partitions.is_some() || names_program
    }

    /// The password of clients, if there is one.
    pub(super) fn password(&self) -> Option<&str> {
        config::password(self.requirepass.as_deref())
    }

    /// The partitions, if there are any.
    pub(crate) fn partitioning(&self) -> Option<Partitioning> {
        self.partitions.map(|n| Partitioning { n, order: self.order })
    }

    /// Refuses contradictory flags, before anything is touched.
    pub(super) fn check(&self) -> Outcome<()> {
        config::check_choices(self.protocol(), self.fabric, self.durability())?;
        config::check_partitions(self.protocol(), self.partitions)?;
        config::check_order(self.partitioning().map(|of| of.order), self.durability())?;
        match self.program.program() {
            // The rest is checked with each member's configuration.
            Some(program) => {
                config::check_kind(self.protocol(), self.durability(), self.partitions.is_some())?;
                program.check()?;
            }
            None => config::check_open(self.bind, self.password())?,
        }
        self.check_paths()?;
        let is_on_disk = self.durability().is_on_disk();
        if let (Some(data), false) = (&self.data, is_on_disk) {
            return Err(Failure::new(format_args!(
                "--data {}: {} keeps nothing on disk; leave --data out, or say --durability \
                 disk-quorum",
                data.display(),
                self.durability().name()
            )));
        }
        if self.seats() < self.nodes || (self.seats() > self.nodes && !is_on_disk) {
            return Err(Failure::new(format_args!(
                "--seats {} for {} members: name as many at least, and more in the durable modes \
                 only",
                self.seats(),
                self.nodes
            )));
        }
        if u32::from(self.port) + u32::from(self.seats()) > 1 << 16 {
            return Err(Failure::new(format_args!(
                "--port {} leaves no room for {} ports: choose a lower one",
                self.port,
                self.seats()
            )));
        }
        Ok(())
    }

    /// Refuses paths that no file of a member could name.
    fn check_paths(&self) -> Outcome<()> {
        let (data, genesis) = (self.data_directory(), self.program.genesis.as_ref());
        let paths = [
            ("--directory", Some(&self.directory)),
            ("--data", data.as_ref()),
            ("--genesis", genesis),
        ];
        for (flag, path) in paths {
            let Some(path) = path else { continue };
            let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            if whole.to_str().is_none() {
                return Err(Failure::new(format_args!(
                    "{flag} {whole:?} is no UTF-8, in which the members' files are written: name \
                     another path"
                )));
            }
        }
        Ok(())
    }

    /// The directory of the logs, if there are any.
    pub(super) fn data_directory(&self) -> Option<PathBuf> {
        let usual = || Path::new("gregale-data").join(format!("{}-{}", self.cluster, self.port));
        self.durability().is_on_disk().then(|| self.data.clone().unwrap_or_else(usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        up: UpArgs,
    }

    /// The directory was begun, and no member could be started in it.
    #[test]
    fn a_path_that_no_members_file_can_name_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let mut up = Line::parse_from(["up"]).up;
        up.check().unwrap();
        up.data = Some(std::ffi::OsStr::from_bytes(b"/tmp/\xff").into());
        let refused = up.check().unwrap_err().to_string();
        assert!(refused.starts_with("--data \"/tmp/\\xFF\" is no UTF-8"), "{refused}");
    }

    #[test]
    fn a_protocol_that_keeps_nothing_on_disk_needs_no_durability() {
        let usual = |words: &[&str]| {
            let up = Line::parse_from([&["up"], words].concat()).up;
            (up.protocol().name(), up.durability().name())
        };
        assert_eq!(usual(&[]), ("durable", "disk-quorum"));
        assert_eq!(usual(&["--protocol", "durable"]), ("durable", "disk-quorum"));
        assert_eq!(usual(&["--protocol", "velos"]), ("velos", "memory-quorum"));
        assert_eq!(usual(&["--protocol", "abd"]), ("abd", "memory-quorum"));
        assert_eq!(usual(&["--partitions", "4"]), ("primcast", "memory-quorum"));
        assert_eq!(usual(&["--durability", "memory-quorum"]), ("velos", "memory-quorum"));
        let both = usual(&["--protocol", "velos", "--durability", "disk-all"]);
        assert_eq!(both, ("velos", "disk-all"), "`check` refuses it");
    }
}
