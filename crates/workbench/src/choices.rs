//! The choices among which options of `gregale bench` have one.

use bench::amcast::worker::Contender;
use bench::worker::order::FabricKind;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use proto::registry;
use proto::table::Row;
use sim::amcast::wan::Scenario;
use std::sync::LazyLock;

/// The values of `gregale up --durability` that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Durability {
    MemoryQuorum,
    DiskQuorum,
}

impl Durability {
    /// The usual protocol: the first that gives it, as for `gregale up`.
    pub(crate) fn protocol(self) -> &'static Row {
        let name = match self {
            Durability::MemoryQuorum => "memory-quorum",
            Durability::DiskQuorum => "disk-quorum",
        };
        let mut rows = registry::rows();
        rows.find(|row| row.durability.contains(&name)).expect("a protocol gives it")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OneFabric {
    Shm,
    Tcp,
}

impl From<OneFabric> for FabricKind {
    fn from(fabric: OneFabric) -> FabricKind {
        match fabric {
            OneFabric::Shm => FabricKind::Shm,
            OneFabric::Tcp => FabricKind::Tcp,
        }
    }
}

/// A protocol of atomic multicast that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Multicast(pub(crate) Contender);

impl Multicast {
    /// Those that are measured unless others are named.
    pub(crate) fn usual() -> impl Iterator<Item = &'static Multicast> {
        Multicast::value_variants().iter().filter(|one| one.0.is_plain())
    }
}

impl ValueEnum for Multicast {
    fn value_variants<'a>() -> &'a [Multicast] {
        static ALL: LazyLock<Vec<Multicast>> =
            LazyLock::new(|| Contender::all().into_iter().map(Multicast).collect());
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

/// The places of the members in a wide area.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Wan {
    /// Three regions with a member of each group; the first primaries share one.
    Colocated,
    /// Eight regions with a group each.
    Distributed,
}

impl From<Wan> for Scenario {
    fn from(wan: Wan) -> Scenario {
        match wan {
            Wan::Colocated => Scenario::Colocated,
            Wan::Distributed => Scenario::Distributed,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Waiting {
    Spin,
    Sleep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rival {
    Omnipaxos,
    Raft,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Server {
    Redis,
    #[value(name = "redis-wait2")]
    RedisWait2,
    #[value(name = "redis-aof")]
    RedisAof,
    Etcd,
}

impl From<Server> for bench::kv::Peer {
    fn from(server: Server) -> bench::kv::Peer {
        match server {
            Server::Redis => bench::kv::Peer::Redis,
            Server::RedisWait2 => bench::kv::Peer::RedisWait2,
            Server::RedisAof => bench::kv::Peer::RedisAof,
            Server::Etcd => bench::kv::Peer::Etcd,
        }
    }
}
