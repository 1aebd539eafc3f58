//! The configuration file of a replica.
//!
//! An unknown key is an error, never ignored: a misspelt limit would not limit anything.

mod addresses;
mod args;
mod program;
mod protocol;
mod secret;
mod shared;

pub(crate) use args::ServeArgs;
pub(crate) use program::{
    Attach, COMPARE, Chance, Confine, EndBy, InputOrder, Output, Program, ReadsOf, RestBy, STALL_S,
    SaveBy, Time, WhenSplit, check_kind, find,
};
pub(crate) use protocol::Protocol;
pub(crate) use secret::open_secret;

use base::{MAX_MEMBERS, NodeId, Rank};
use clap::ValueEnum;
use console::{Failure, Outcome};
use proto::registry::LogProtocol;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The most clients of one replica at a time, by default.
pub(crate) const CLIENTS_MAX: u32 = 10_000;

/// The fabric between the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FabricKind {
    /// Shared memory, for the processes of one host.
    Shm,
    /// TCP, for several hosts.
    Tcp,
}

impl FabricKind {
    /// The name in files and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FabricKind::Shm => "shm",
            FabricKind::Tcp => "tcp",
        }
    }
}

/// The order of commands of several partitions, which must respect real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// The multicast keeps the order: partitions execute each command at once.
    #[default]
    Linearizable,
    /// Partitions wait for each other's signal before they execute.
    Signals,
    /// Partitions wait for each other's signal before they answer.
    Reply,
}

impl Order {
    /// The name in files and on the command line.
    pub(crate) fn name(self) -> &'static str {
        kv::partition::Order::from(self).name()
    }
}

impl From<Order> for kv::partition::Order {
    fn from(order: Order) -> kv::partition::Order {
        match order {
            Order::Linearizable => kv::partition::Order::Linearizable,
            Order::Signals => kv::partition::Order::Signals,
            Order::Reply => kv::partition::Order::Reply,
        }
    }
}

/// A keyspace in partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Partitioning {
    /// The number of partitions; each has a replica at every member.
    pub(crate) n: u8,
    #[serde(default)]
    pub(crate) order: Order,
}

/// The failures that an acknowledged update survives, in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Durability {
    /// The crash of any minority of processes, not a power cut of all.
    MemoryQuorum,
    /// A power cut of all, then the loss of a minority of disks.
    DiskQuorum,
    /// A power cut of all, then the loss of all disks but one. While a member is dead, writes wait
    /// for it, or for its removal.
    DiskAll,
}

impl Durability {
    /// The name in files and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Durability::MemoryQuorum => "memory-quorum",
            Durability::DiskQuorum => "disk-quorum",
            Durability::DiskAll => "disk-all",
        }
    }

    /// The failures that an acknowledged update survives.
    pub(crate) fn promise(self) -> &'static str {
        match self {
            Durability::MemoryQuorum => {
                "the crash of any minority of processes, not a power cut of all"
            }
            Durability::DiskQuorum => "a power cut of all, then the loss of any minority of disks",
            Durability::DiskAll => "a power cut of all, then the loss of all disks but one",
        }
    }

    /// A property that an operator has to know before choosing the mode.
    pub(crate) fn price(self) -> Option<&'static str> {
        (self == Durability::DiskAll).then_some(
            "a write waits for every member's disk: while one is dead no write is acknowledged, \
             until it is back or removed; reads continue",
        )
    }

    /// Whether a data directory is needed.
    pub(crate) fn is_on_disk(self) -> bool {
        self != Durability::MemoryQuorum
    }

    /// The default protocol of the mode.
    pub(crate) fn protocol(self) -> Protocol {
        let log = if self.is_on_disk() { LogProtocol::Durable } else { LogProtocol::Velos };
        Protocol::Log(log)
    }
}

/// The way in which this life begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Start {
    /// As a founding member, with a new region. Once in a cluster's life.
    Bootstrap,
    /// With the region of an earlier life.
    Reattach,
    /// With an empty data directory, on a seat of an existing cluster: as a new incarnation of the
    /// member, which learns before it votes. Later lives continue with the content of the
    /// directory.
    Join,
}

/// A member, as all members know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    /// The member's number, from 1.
    pub(crate) id: u16,
    /// The address at which it serves clients.
    pub(crate) client: SocketAddr,
    /// The address at which it answers HTTP: /status and /metrics.
    pub(crate) control: SocketAddr,
    /// The address at which it takes part in the fabric (tcp).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fabric: Option<SocketAddr>,
}

/// A replica's configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The cluster's name.
    pub(crate) cluster: String,
    /// The number of this member.
    pub(crate) member: u16,
    #[serde(default = "shm")]
    pub(crate) fabric: FabricKind,
    /// By default the one that provides the durability, or that orders partitions.
    #[serde(default = "velos")]
    pub(crate) protocol: Protocol,
    #[serde(default = "memory_quorum")]
    pub(crate) durability: Durability,
    /// The way in which this life begins.
    pub(crate) start: Start,
    /// The directory of the regions, on a tmpfs.
    pub(crate) directory: PathBuf,
    /// The directory of the log and the snapshots (durable modes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<PathBuf>,
    /// The logged bytes after which a snapshot is made, instead of the usual rule (durable modes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) snapshot_log_bytes: Option<u64>,
    /// The partitions of the keyspace (primcast). The same at all members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) partitions: Option<Partitioning>,
    /// The program that is replicated, in place of the key-value store. The same at all members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<Program>,
    /// The secret that only the members know.
    pub(crate) secret_file: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) requirepass: Option<String>,
    /// The memory limit in bytes; 0 for none. The same at all members.
    #[serde(default)]
    pub(crate) maxmemory: u64,
    #[serde(default = "clients_max")]
    pub(crate) maxclients: u32,
    /// Whether clients are shown a Redis Cluster whose nodes are the members. The same at all
    /// members.
    #[serde(default)]
    pub(crate) cluster_discovery: bool,
    /// The number of members that found the cluster, the first ones of the list; the other seats
    /// are for members that are added later (durable modes). By default all members found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) founders: Option<u16>,
    /// All members, in order.
    pub(crate) members: Vec<Member>,
}

fn shm() -> FabricKind {
    FabricKind::Shm
}

fn velos() -> Protocol {
    Protocol::Log(LogProtocol::Velos)
}

fn memory_quorum() -> Durability {
    Durability::MemoryQuorum
}

fn clients_max() -> u32 {
    CLIENTS_MAX
}

/// The directory in which a path lies.
pub(crate) fn above(path: &Path) -> &Path {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    above.unwrap_or(Path::new("."))
}

impl Config {
    /// The directory in which the lives of members are counted: beside the disk, which it outlives,
    /// or that of the memory.
    pub(crate) fn lives(&self) -> &Path {
        self.data.as_deref().map_or(&self.directory, above)
    }

    /// The configuration from the file, with flags and environment taking precedence.
    pub(crate) fn load(args: &ServeArgs) -> Outcome<Config> {
        let path = &args.config;
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::os(format_args!("read {}", path.display()), error))?;
        let mut config = Config::parse(&text, path)?;
        let of_file = config.requirepass.take();
        let said = password(args.requirepass.as_deref()).or(password(of_file.as_deref()));
        config.requirepass = said.map(str::to_owned);
        config.maxmemory = args.maxmemory.unwrap_or(config.maxmemory);
        config.maxclients = args.maxclients.unwrap_or(config.maxclients);
        config.validate()?;
        Ok(config)
    }

    fn parse(text: &str, path: &Path) -> Outcome<Config> {
        let read: Result<Config, _> = toml::from_str(text);
        let mut config = read.map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            Failure::new(format_args!("{} line {line}: {}", path.display(), error.message()))
        })?;
        let names =
            |key: &str| toml::from_str(text).is_ok_and(|of: toml::Table| of.contains_key(key));
        if !names("protocol") {
            config.protocol = match config.partitions {
                Some(_) => Protocol::Primcast,
                None => config.durability.protocol(),
            };
        }
        Ok(config)
    }

    /// Refuses contradictory settings.
    pub(crate) fn validate(&self) -> Outcome<()> {
        let n = self.members.len();
        if n == 0 || n > MAX_MEMBERS {
            return Err(Failure::new(format_args!("{n} members: list 1 to {MAX_MEMBERS}")));
        }
        if let Some((at, member)) =
            self.members.iter().enumerate().find(|(at, member)| usize::from(member.id) != at + 1)
        {
            let want = at + 1;
            return Err(Failure::new(format_args!(
                "member {} is listed where {want} is expected: list members in order, from 1",
                member.id
            )));
        }
        if usize::from(self.member) > n || self.member == 0 {
            return Err(Failure::new(format_args!(
                "member = {}, but only 1 to {n} are listed",
                self.member
            )));
        }
        if self.maxclients == 0 {
            return Err(Failure::new("maxclients = 0 admits no client: say 1 or more"));
        }
        if self.fabric == FabricKind::Tcp
            && let Some(member) = self.members.iter().find(|member| member.fabric.is_none())
        {
            return Err(Failure::new(format_args!(
                "member {} has no `fabric` address, which fabric = \"tcp\" needs",
                member.id
            )));
        }
        self.check_addresses()?;
        check_choices(self.protocol, self.fabric, self.durability)?;
        check_partitions(self.protocol, self.partitions.map(|of| of.n))?;
        check_order(self.partitions.map(|of| of.order), self.durability)?;
        if self.data.is_some() != self.durability.is_on_disk() {
            return Err(Failure::new(format_args!(
                "durability = {:?} {} a `data` directory",
                self.durability.name(),
                if self.data.is_some() { "does not use" } else { "needs" }
            )));
        }
        if let Some(founders) = self.founders
            && (founders == 0 || usize::from(founders) > n || !self.durability.is_on_disk())
        {
            return Err(Failure::new(format_args!(
                "founders = {founders}: name 1 to {n} of the members, in a durable mode"
            )));
        }
        let may_join = self.protocol.members_change() && self.partitions.is_none();
        if self.start == Start::Join && !may_join {
            return Err(Failure::new(format_args!(
                "start = \"join\" is for velos and durable, without partitions: members of {} \
                 cannot be replaced while the cluster runs; without its disk or memory this one \
                 stays out",
                self.protocol.name()
            )));
        }
        self.check_program()?;
        if self.program.is_none() {
            check_open(self.own().client.ip(), self.requirepass.as_deref())?;
        }
        if !self.own().control.ip().is_loopback() {
            return Err(Failure::new(format_args!(
                "the control port at {} asks no password: bind it to loopback",
                self.own().control
            )));
        }
        Ok(())
    }

    /// This member's entry.
    pub(crate) fn own(&self) -> &Member {
        &self.members[usize::from(self.member) - 1]
    }

    /// The protocol's family.
    pub(crate) fn engine(&self) -> &'static str {
        match self.protocol {
            Protocol::Log(_) => "one-sided",
            Protocol::Keyed(_) => "registers",
            Protocol::Primcast => "multicast",
        }
    }

    /// This member's rank.
    pub(crate) fn rank(&self) -> Rank {
        // Validated: listed, hence below MAX_MEMBERS.
        Rank::of_member(NodeId(self.member)).expect("a validated member")
    }
}

/// A password as it is said. The empty one does not count, as in Redis: a variable of the
/// environment may be set to nothing.
pub(crate) fn password(said: Option<&str>) -> Option<&str> {
    said.filter(|password| !password.is_empty())
}

/// Refuses combinations that do not exist.
pub(crate) fn check_choices(
    protocol: Protocol,
    fabric: FabricKind,
    durability: Durability,
) -> Outcome<()> {
    if protocol == Protocol::Primcast {
        return match durability {
            Durability::MemoryQuorum | Durability::DiskQuorum => Ok(()),
            Durability::DiskAll => Err(Failure::new(
                "partitions acknowledge what a majority has on disk, not all members: say \
                 --durability disk-quorum",
            )),
        };
    }
    let row = protocol.row();
    if !row.durability.contains(&durability.name()) {
        return Err(Failure::new(format_args!(
            "{} does not provide {}: leave `protocol` out, use {}, or say --durability {}",
            protocol.name(),
            durability.name(),
            durability.protocol().name(),
            row.durability[0]
        )));
    }
    if !row.fabrics.contains(&fabric.name()) {
        return Err(Failure::new(format_args!(
            "{} needs {}, which {} is not: use --fabric {}, or --protocol {}",
            protocol.name(),
            row.needs,
            fabric.name(),
            row.fabrics[0],
            durability.protocol().name()
        )));
    }
    Ok(())
}

/// Refuses partitions without the protocol that orders them, and that protocol without partitions.
pub(crate) fn check_partitions(protocol: Protocol, n: Option<u8>) -> Outcome<()> {
    match n {
        None if protocol == Protocol::Primcast => {
            Err(Failure::new("primcast orders partitions: say how many, --partitions 4"))
        }
        Some(_) if protocol != Protocol::Primcast => Err(Failure::new(format_args!(
            "{} does not order partitions: leave `protocol` out, or say --protocol primcast",
            protocol.name()
        ))),
        Some(n) if !(1..=kv::partition::PARTITIONS_MAX).contains(&usize::from(n)) => {
            Err(Failure::new(format_args!(
                "{n} partitions: choose 1 to {}",
                kv::partition::PARTITIONS_MAX
            )))
        }
        None | Some(_) => Ok(()),
    }
}

/// Refuses an order of partitions that cannot resume from disks: which clients may be answered
/// depends on what an earlier life had executed.
pub(crate) fn check_order(order: Option<Order>, durability: Durability) -> Outcome<()> {
    if order == Some(Order::Reply) && durability.is_on_disk() {
        return Err(Failure::new(format_args!(
            "--order reply keeps nothing on disk: say --order linearizable, or --durability {}",
            Durability::MemoryQuorum.name()
        )));
    }
    Ok(())
}

/// Refuses to serve other hosts without a password.
pub(crate) fn check_open(ip: std::net::IpAddr, requirepass: Option<&str>) -> Outcome<()> {
    if !ip.is_loopback() && password(requirepass).is_none() {
        return Err(Failure::new(format_args!(
            "{ip} is not loopback: set --requirepass, or bind to 127.0.0.1"
        )));
    }
    Ok(())
}

/// Parses bytes as Redis writes them: 100, 64k, 100mb, 2gb.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    kv::connection::bytes_of(text)
        .ok_or_else(|| format!("{text:?} is no amount of bytes: write 100mb or 2gb"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
cluster = "demo"
member = 2
start = "bootstrap"
directory = "/dev/shm/x"
secret_file = "/dev/shm/x/secret"

[[members]]
id = 1
client = "127.0.0.1:7000"
control = "127.0.0.1:7200"

[[members]]
id = 2
client = "127.0.0.1:7001"
control = "127.0.0.1:7201"
"#;

    fn load(text: &str) -> Outcome<Config> {
        let config = Config::parse(text, Path::new("f.toml"))?;
        config.validate()?;
        Ok(config)
    }

    fn refused(text: &str) -> String {
        load(text).unwrap_err().to_string()
    }

    #[test]
    fn a_file_is_read_and_written_alike() {
        let config = load(FILE).unwrap();
        assert_eq!((config.own().client.port(), config.rank()), (7001, Rank::at(1)));
        let again = load(&toml::to_string(&config).unwrap()).unwrap();
        assert_eq!(again.members, config.members);
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let text = refused(&FILE.replace("member = 2", "member = 2\nmaxmemry = 5"));
        assert!(text.starts_with("f.toml line 4:") && text.contains("maxmemry"), "{text}");
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let with = |from: &str, to: &str| refused(&FILE.replace(from, to));
        assert!(with("member = 2", "member = 3").contains("only 1 to 2"));
        assert!(with("id = 2", "id = 3").contains("in order"));
        assert!(with("member = 2", "member = 2\nfabric = \"tcp\"").contains("`fabric` address"));
        assert!(with("member = 2", "member = 2\nprotocol = \"mu\"").contains("--fabric tcp"));
        let velos = "member = 2\nprotocol = \"velos\"";
        let disk = with("member = 2", &format!("{velos}\ndurability = \"disk-quorum\""));
        assert!(disk.contains("velos does not provide disk-quorum: leave `protocol`"), "{disk}");
        let durable = "member = 2\nprotocol = \"durable\"\ndurability = \"disk-quorum\"";
        assert!(with("member = 2", durable).contains("needs a `data` directory"));
        let all = with("member = 2", &format!("{velos}\ndurability = \"disk-all\""));
        assert!(all.contains("velos does not provide disk-all"), "{all}");
        let alone = with("member = 2", "member = 2\nprotocol = \"primcast\"");
        assert!(alone.contains("--partitions"), "{alone}");
        let velos = with("member = 2", &format!("{velos}\npartitions = {{ n = 4 }}"));
        assert!(velos.contains("velos does not order partitions: leave `protocol`"), "{velos}");
        let primcast = "member = 2\nprotocol = \"primcast\"\npartitions = { n = 4 }";
        let disk = with("member = 2", &format!("{primcast}\ndurability = \"disk-all\""));
        assert!(disk.contains("say --durability disk-quorum"), "{disk}");
        let many = with("member = 2", &primcast.replace('4', "33"));
        assert!(many.contains("choose 1 to 32"), "{many}");
        assert!(load(&FILE.replace("member = 2", primcast)).is_ok());
        assert!(with("127.0.0.1:7001", "0.0.0.0:7001").contains("--requirepass"));
        assert!(with("member = 2", "member = 2\nmaxclients = 0").contains("1 or more"));
        assert!(with("127.0.0.1:7201", "0.0.0.0:7201").contains("control port"));
    }

    /// It was velos, and the file was told to leave out a protocol that it does not name.
    #[test]
    fn a_file_that_names_no_protocol_has_the_one_that_fits() {
        let protocol = |more: &str| {
            let text = FILE.replace("member = 2", &format!("member = 2\n{more}"));
            load(&text).unwrap().protocol.name()
        };
        let data = "data = \"/var/lib/x\"";
        assert_eq!(protocol(""), "velos");
        assert_eq!(protocol(&format!("durability = \"disk-quorum\"\n{data}")), "durable");
        assert_eq!(protocol(&format!("durability = \"disk-all\"\n{data}")), "durable");
        assert_eq!(protocol("partitions = { n = 4 }"), "primcast");
        assert_eq!(protocol("protocol = \"velos\""), "velos");
    }

    #[test]
    fn an_empty_password_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("member-2.toml");
        let load = |of_file: &str, said: &str| {
            let text =
                FILE.replace("member = 2", &format!("member = 2\nrequirepass = \"{of_file}\""));
            std::fs::write(&path, text).unwrap();
            let args = ServeArgs {
                config: path.clone(),
                requirepass: Some(said.to_owned()),
                maxmemory: None,
                maxclients: None,
                supervised: false,
            };
            Config::load(&args).unwrap().requirepass
        };
        assert_eq!((load("", ""), load("old", "new")), (None, Some("new".to_owned())));
        assert_eq!(load("old", ""), Some("old".to_owned()), "the cluster stays closed");
    }

    #[test]
    fn bytes_are_written_as_redis_writes_them() {
        assert_eq!(parse_bytes("100"), Ok(100));
        assert_eq!(parse_bytes("1kb"), Ok(1024));
        assert_eq!(parse_bytes("2GB"), Ok(2 << 30));
        assert!(parse_bytes("2 gb").is_err() && parse_bytes("99999999999gb").is_err());
    }
}
