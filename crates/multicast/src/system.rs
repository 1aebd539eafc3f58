//! The parts of a system: nodes, groups, and the node of each member of a group.

use base::{FABRIC_SEATS_MAX, MAX_MEMBERS, Rank};
use engine::multicast::{Places, Setup, Sizes};
use proto::amcast::linear::Rule;
use proto::amcast::{Config, MAX_GROUPS};
use proto::registry::MulticastProtocol;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The bytes of a log that one record carries: a changing primary asks for one record after
/// another.
const PART_BYTES: usize = 256 << 10;
/// The longest piece of an entry on disk.
const PIECE_BYTES: usize = 1 << 20;
/// The bytes that may wait for a disk before a node takes nothing more.
const BEHIND_BYTES: usize = 16 << 20;

/// The version of the format on disk.
const DISK_VERSION: u32 = 6;
/// The version of the format between nodes.
const NODES_VERSION: u64 = 6;

/// The protocol of a configuration that names none: the first that is not there for comparison.
fn usual_protocol() -> MulticastProtocol {
    let mut all = MulticastProtocol::ALL.iter().copied();
    all.find(|one| !one.abilities().for_comparison).expect("one is for use")
}

fn named_protocol<'de, D: Deserializer<'de>>(from: D) -> Result<MulticastProtocol, D::Error> {
    let name = String::deserialize(from)?;
    let all = MulticastProtocol::ALL;
    all.iter().copied().find(|one| one.name() == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| one.name()).collect();
        D::Error::custom(format!("there is no protocol {name:?}: say one of {}", names.join(", ")))
    })
}

/// The order across groups: see [`proto::amcast::linear`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Global total order, independent of real time.
    #[default]
    Plain,
    /// Real-time order, genuine.
    Hop,
    /// Real-time order, with the help of every group.
    AllGroups,
    /// Real-time order from synchronized clocks: needs `clock_error_us`.
    CommitWait,
}

impl From<Rule> for Order {
    fn from(rule: Rule) -> Order {
        match rule {
            Rule::Plain => Order::Plain,
            Rule::Hop => Order::Hop,
            Rule::AllGroups => Order::AllGroups,
            Rule::CommitWait => Order::CommitWait,
        }
    }
}

impl Order {
    /// The protocol's name for it.
    pub const fn rule(self) -> Rule {
        match self {
            Order::Plain => Rule::Plain,
            Order::Hop => Rule::Hop,
            Order::AllGroups => Rule::AllGroups,
            Order::CommitWait => Rule::CommitWait,
        }
    }
}

/// The authority for a host's clock being off by no more than [`System::clock_error_us`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockBy {
    /// The kernel, as its clock's daemon (NTP, PTP) informs it: the clock counts as long as the
    /// kernel reports it as synchronized and its error bound is no larger. Otherwise a primary
    /// under `commit-wait` proposes nothing.
    #[default]
    Kernel,
    /// The operator alone, for hosts whose clocks are disciplined without the kernel's knowledge. A
    /// clock that is stepped nevertheless breaks the order silently.
    Operator,
}

/// The fabric between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FabricKind {
    /// Shared memory: all nodes on one host.
    Shm,
    /// TCP.
    Tcp,
}

impl FabricKind {
    /// The name in configurations and reports.
    pub const fn name(self) -> &'static str {
        match self {
            FabricKind::Shm => "shm",
            FabricKind::Tcp => "tcp",
        }
    }
}

/// A whole system: every node of it is started with the same configuration.
///
/// ```
/// let system: multicast::System = toml::from_str(
///     r#"
///     cluster = "bank"
///     secret = "only the bank's nodes know this"
///     fabric = "shm"
///     directory = "/dev/shm/gregale-bank"
///     order = "hop"
///     nodes = 3
///     groups = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
///     "#,
/// )?;
/// system.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Its name.
    pub cluster: String,
    /// The secret that only the nodes know.
    pub secret: String,
    /// The protocol that orders messages.
    #[serde(default = "usual_protocol", deserialize_with = "named_protocol")]
    pub protocol: MulticastProtocol,
    /// The order across groups.
    #[serde(default)]
    pub order: Order,
    /// The fabric between nodes.
    pub fabric: FabricKind,
    /// The directory of the nodes' regions, on tmpfs.
    pub directory: PathBuf,
    /// The number of nodes (operating-system processes), with ids from 1. A node may host members
    /// of several groups, or none: then it only multicasts.
    pub nodes: usize,
    /// The addresses at which the nodes listen on TCP, in order.
    #[serde(default)]
    pub addresses: Vec<SocketAddr>,
    /// The nodes that host the members of each group. The first is its first primary.
    pub groups: Vec<Vec<usize>>,
    /// Whether messages that do not conflict, by the keys that their senders name
    /// ([`crate::Options::footprint`]), may be delivered in either order, without waiting for each
    /// other (4.4.3).
    #[serde(default)]
    pub commutes: bool,
    /// The largest error of the hosts' clocks: timestamps then follow real time (4.4.1).
    #[serde(default)]
    pub clock_error_us: Option<u64>,
    /// The authority that attests it.
    #[serde(default)]
    pub clock_by: ClockBy,
    /// The bounds of queues.
    #[serde(default)]
    pub limits: Limits,
    /// Settings of the application that its nodes must have alike: nodes that differ refuse each
    /// other.
    #[serde(default)]
    pub settings: String,
    /// The version of the application's rules: nodes that differ refuse each other. Unlike under
    /// other settings, a node continues from its data directory under other rules.
    #[serde(default)]
    pub rules: u8,
}

/// Bounds, and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The most own messages under way at one node; above it `multicast` refuses.
    pub window: usize,
    /// The most deliveries that the application has not taken; above it this node takes nothing
    /// more from its peers, and eventually their `multicast` refuses.
    pub deliveries: usize,
    /// The most bytes that a live peer has not taken; above it `multicast` to its groups refuses.
    /// Also the most bytes of own messages under way, unless it is one.
    pub backlog_bytes: usize,
    /// The most bytes kept for a peer that is not heard; above it the peer is given up and must be
    /// replaced.
    pub kept_bytes: usize,
    /// The most bytes of delivered messages that are kept for members that miss them, where states
    /// can be given instead.
    pub retain_bytes: usize,
    /// The most bytes kept for members that miss them where states cannot be given; above it
    /// `multicast` to their groups refuses.
    pub held_bytes: usize,
    /// The silence after which a primary is suspected.
    pub suspect_ms: u64,
    /// The time after which a member asks for what it misses of an undelivered message.
    pub patience_ms: u64,
    /// The time to look for more work before sleeping, after something happened.
    pub spin_us: u64,
    /// The bytes of changes after which everything is written again in full, with a data directory;
    /// the log begins there.
    pub log_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            window: 4096,
            deliveries: 1 << 16,
            backlog_bytes: 8 << 20,
            kept_bytes: 64 << 20,
            retain_bytes: 16 << 20,
            held_bytes: 256 << 20,
            suspect_ms: 300,
            patience_ms: 200,
            spin_us: 0,
            log_bytes: 64 << 20,
        }
    }
}

impl Limits {
    /// Refuses limits with which nothing would ever progress.
    fn check(&self) -> Result<(), Contradiction> {
        let sizes = [
            ("window", self.window as u64),
            ("deliveries", self.deliveries as u64),
            ("backlog_bytes", self.backlog_bytes as u64),
            ("held_bytes", self.held_bytes as u64),
            ("suspect_ms", self.suspect_ms),
            ("patience_ms", self.patience_ms),
            ("log_bytes", self.log_bytes),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(Contradiction(format!("limits.{name} is 0: give it 1 or more")));
        }
        if self.kept_bytes <= self.backlog_bytes {
            let (kept, backlog) = (self.kept_bytes, self.backlog_bytes);
            return Err(Contradiction(format!(
                "limits.kept_bytes ({kept}) is not more than limits.backlog_bytes ({backlog}): a \
                 member would be given up before its senders are held up"
            )));
        }
        Ok(())
    }

    pub(crate) const fn spin(&self) -> Duration {
        Duration::from_micros(self.spin_us)
    }
}

/// The contradiction in a configuration, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the multicast configuration: {0}")]
pub struct Contradiction(String);

impl System {
    /// The places of all members.
    ///
    /// # Errors
    /// [`Contradiction`].
    pub fn check(&self) -> Result<Places, Contradiction> {
        let no = |text: String| Err(Contradiction(text));
        if !(1..=FABRIC_SEATS_MAX).contains(&self.nodes) {
            return no(format!("{} nodes: one fabric joins 1 to {FABRIC_SEATS_MAX}", self.nodes));
        }
        if !(1..=MAX_GROUPS).contains(&self.groups.len()) {
            return no(format!("{} groups: give it 1 to {MAX_GROUPS}", self.groups.len()));
        }
        if self.fabric == FabricKind::Tcp && self.addresses.len() != self.nodes {
            let (given, nodes) = (self.addresses.len(), self.nodes);
            return no(format!("{given} addresses for {nodes} nodes: on tcp give one for each"));
        }
        if self.order == Order::CommitWait && self.clock_error_us.is_none() {
            return no("commit-wait needs attested clocks: set clock_error_us".into());
        }
        let (name, can) = (self.protocol.name(), self.protocol.abilities());
        if self.order != Order::Plain && !can.takes_rules {
            return no(format!("{name} has no real-time order: use primcast, or order plain"));
        }
        if self.commutes && !can.commutes {
            return no(format!("commutes = true is for primcast, and the protocol is {name}"));
        }
        for (at, address) in self.addresses.iter().enumerate() {
            if self.addresses[..at].contains(address) {
                return no(format!("two nodes at {address}: give each an address of its own"));
            }
        }
        self.limits.check()?;
        let mut nodes_of = Vec::new();
        for (at, members) in self.groups.iter().enumerate() {
            let mut nodes = Vec::new();
            for node in members {
                let rank = Rank::numbered(*node).filter(|rank| rank.index() < self.nodes);
                let Some(rank) = rank else {
                    let last = self.nodes;
                    return no(format!("group {at} lives on node {node}: nodes are 1 to {last}"));
                };
                if nodes.contains(&rank) {
                    return no(format!("group {at} lives twice on node {node}"));
                }
                nodes.push(rank);
            }
            if nodes.is_empty() {
                return no(format!("group {at} has no members"));
            }
            if nodes.len() > MAX_MEMBERS {
                let n = nodes.len();
                return no(format!("group {at} has {n} members: give it {MAX_MEMBERS} at most"));
            }
            if !can.survives_crashes && nodes.len() > 1 {
                return no(format!("group {at}: {name} knows one process a group; use primcast"));
            }
            nodes_of.push(nodes);
        }
        let places = Places::new(self.nodes, nodes_of);
        match self.config(&places).check() {
            Ok(()) => Ok(places),
            Err(unsound) => no(unsound.to_string()),
        }
    }

    /// The configuration of the machines of this system.
    pub(crate) fn config(&self, places: &Places) -> Config {
        Config {
            layout: places.layout().clone(),
            rule: self.order.rule(),
            hybrid: self.clock_error_us.is_some(),
            commutes: self.commutes,
            patience: Duration::from_millis(self.limits.patience_ms),
            part_bytes: PART_BYTES,
            retain: self.limits.window,
            retain_bytes: self.limits.retain_bytes,
        }
    }

    /// The parameters of node `me`.
    pub(crate) fn setup(&self, places: &Places, me: Rank) -> Setup {
        let limits = &self.limits;
        Setup {
            me,
            places: places.clone(),
            config: self.config(places),
            window: limits.window,
            backlog_bytes: limits.backlog_bytes,
            kept_bytes: limits.kept_bytes,
            held_bytes: limits.held_bytes,
            suspect_after: Duration::from_millis(limits.suspect_ms),
            sizes: Sizes {
                piece_bytes: PIECE_BYTES,
                behind_bytes: BEHIND_BYTES,
                whole_after_bytes: limits.log_bytes,
            },
        }
    }

    /// A number that differs if two nodes could not work together.
    pub(crate) fn fingerprint(&self) -> u64 {
        let shape = self.print_as(DISK_VERSION);
        xxhash_rust::xxh3::xxh3_64(format!("{shape:x} {}", self.settings).as_bytes())
    }

    /// The version of the format between nodes, and of the application's rules.
    pub(crate) fn rules(&self) -> u64 {
        NODES_VERSION << 8 | u64::from(self.rules)
    }

    fn print_as(&self, version: u32) -> u64 {
        let text = format!(
            "multicast {version} {:?} {:?} {} {:?} {:?} {}",
            self.protocol, self.order, self.nodes, self.groups, self.clock_error_us, self.commutes
        );
        xxhash_rust::xxh3::xxh3_64(text.as_bytes())
    }

    /// A number to which its disks belong: it differs for another cluster of the same shape, too.
    pub(crate) fn identity(&self, cluster_fingerprint: u64) -> u64 {
        let shape = self.print_as(DISK_VERSION);
        xxhash_rust::xxh3::xxh3_64(format!("{cluster_fingerprint:x} {shape:x}").as_bytes())
    }
}

/// Omits the secret.
impl std::fmt::Debug for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("System")
            .field("cluster", &self.cluster)
            .field("protocol", &self.protocol)
            .field("order", &self.order)
            .field("fabric", &self.fabric)
            .field("directory", &self.directory)
            .field("nodes", &self.nodes)
            .field("groups", &self.groups)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proto::amcast::GroupId;

    pub(crate) fn system() -> System {
        System {
            cluster: "test".into(),
            secret: "sesame".into(),
            protocol: MulticastProtocol::Primcast,
            order: Order::Plain,
            fabric: FabricKind::Shm,
            directory: "/dev/shm/none".into(),
            nodes: 4,
            addresses: Vec::new(),
            groups: vec![vec![1, 2, 3], vec![3, 4, 1]],
            commutes: false,
            clock_error_us: None,
            clock_by: ClockBy::Kernel,
            limits: Limits::default(),
            settings: String::new(),
            rules: 0,
        }
    }

    #[test]
    fn c1_places_and_members_are_each_others_inverse() {
        let places = system().check().unwrap();
        for pid in places.layout().processes(places.layout().groups()) {
            let node = places.node_of(pid).unwrap();
            assert_eq!(places.member(node, pid.group), Some(pid));
            assert!(places.hosted(node).contains(pid.group));
        }
        assert_eq!(places.member(Rank::at(1), GroupId::at(1)), None);
        assert_eq!(places.nodes_of_all(GroupId::at(0).alone()).len(), 3);
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_its_reason() {
        let refused = |system: System| system.check().unwrap_err().to_string();
        let usual = system;
        assert!(refused(System { nodes: 33, ..usual() }).contains("1 to 32"));
        let wide = System { nodes: 8, groups: vec![(1..=8).collect()], ..usual() };
        assert!(refused(wide).contains("8 members"));
        assert!(refused(System { groups: vec![], ..usual() }).contains("0 groups"));
        assert!(refused(System { groups: vec![vec![5]], ..usual() }).contains("node 5"));
        assert!(refused(System { groups: vec![vec![0]], ..usual() }).contains("node 0"));
        assert!(refused(System { groups: vec![vec![1, 1]], ..usual() }).contains("twice"));
        let here = "127.0.0.1:7000".parse().unwrap();
        assert!(refused(System { addresses: vec![here, here], ..usual() }).contains("two nodes"));
        let limits = Limits { window: 0, ..Limits::default() };
        assert!(refused(System { limits, ..usual() }).contains("limits.window"));
        let limits = Limits { kept_bytes: 1, ..Limits::default() };
        assert!(refused(System { limits, ..usual() }).contains("limits.backlog_bytes"));
        assert!(refused(System { groups: vec![vec![]], ..usual() }).contains("no members"));
        assert!(refused(System { fabric: FabricKind::Tcp, ..usual() }).contains("addresses"));
        assert!(refused(System { order: Order::CommitWait, ..usual() }).contains("clock_error"));
        let whitebox =
            System { protocol: MulticastProtocol::Whitebox, order: Order::Hop, ..usual() };
        assert!(refused(whitebox).contains("real-time"));
        assert!(
            refused(System { protocol: MulticastProtocol::Skeen, ..usual() })
                .contains("one process")
        );
        let commuting = || System { commutes: true, ..usual() };
        assert_eq!(commuting().check().map(drop), Ok(()));
        for order in [Order::Hop, Order::AllGroups] {
            assert!(refused(System { order, ..commuting() }).contains("use the order plain"));
        }
        let whitebox = System { protocol: MulticastProtocol::Whitebox, ..commuting() };
        assert!(refused(whitebox).contains("is for primcast"));
    }

    #[test]
    fn the_secret_is_never_printed() {
        assert!(!format!("{:?}", system()).contains("sesame"));
    }

    #[test]
    fn nodes_of_different_systems_have_different_fingerprints() {
        let print = system().fingerprint();
        assert_eq!(print, system().fingerprint());
        assert_ne!(print, System { order: Order::Hop, ..system() }.fingerprint());
        assert_ne!(print, System { groups: vec![vec![1]], ..system() }.fingerprint());
        assert_ne!(print, System { commutes: true, ..system() }.fingerprint());
        let other = System { settings: "maxmemory = 1".into(), ..system() };
        assert_ne!(print, other.fingerprint());
        let later = System { rules: 1, ..system() };
        assert_ne!(system().rules(), later.rules());
        assert_eq!(print, later.fingerprint(), "rules are apart from settings");
        assert_eq!(system().identity(5), later.identity(5));
        assert_eq!(system().identity(5), other.identity(5), "its disks are the same system's");
    }

    #[test]
    fn a_disk_of_another_system_of_the_same_shape_is_not_ours() {
        let (one, other) = (system(), system());
        assert_eq!(one.identity(7), other.identity(7));
        assert_ne!(one.identity(7), one.identity(8), "the cluster's name or secret differs");
        let larger = System { nodes: 5, ..system() };
        assert_ne!(one.identity(7), larger.identity(7));
    }
}
