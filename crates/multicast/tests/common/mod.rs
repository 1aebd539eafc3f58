//! Systems for tests: everything of them is gone when they are dropped.

use multicast::{
    Delivery, FabricKind, GroupId, GroupSet, Limits, MessageId, Order, Protocol, System, Timestamp,
};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Duration;

/// Longer than anything takes on a machine that does something else besides.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Town {
    pub(crate) system: System,
    pub(crate) listeners: Vec<Option<TcpListener>>,
    // Removed last.
    _directory: tempfile::TempDir,
}

impl Town {
    pub(crate) fn new(fabric: FabricKind, nodes: usize, groups: Vec<Vec<usize>>) -> Town {
        let directory = tempfile::Builder::new().prefix("gregale-test").tempdir_in("/dev/shm");
        let directory = directory.expect("tmpfs has room for a directory");
        let listeners: Vec<TcpListener> = match fabric {
            FabricKind::Shm => Vec::new(),
            FabricKind::Tcp => {
                (0..nodes).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect()
            }
        };
        let system = System {
            cluster: "town".into(),
            secret: "sesame".into(),
            protocol: Protocol::Primcast,
            order: Order::Plain,
            fabric,
            directory: directory.path().to_owned(),
            nodes,
            addresses: listeners.iter().map(|at| at.local_addr().unwrap()).collect(),
            groups,
            clock_error_us: None,
            limits: Limits { suspect_ms: 400, ..Limits::default() },
        };
        let mut listeners: Vec<_> = listeners.into_iter().map(Some).collect();
        listeners.resize_with(nodes, || None);
        Town { system, listeners, _directory: directory }
    }
}

/// One delivery: its place in the order, and whom it was for.
type Place = (Timestamp, MessageId, GroupSet);

/// What each (node, group) delivered, in order.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) by: BTreeMap<(usize, usize), Vec<Place>>,
}

impl Heard {
    pub(crate) fn note(&mut self, node: usize, delivery: &Delivery) {
        let message = &delivery.message;
        let of = self.by.entry((node, delivery.group.index())).or_default();
        of.push((delivery.at, message.id, message.dest));
    }

    pub(crate) fn counts(&self) -> Vec<((usize, usize), usize)> {
        self.by.iter().map(|(who, what)| (*who, what.len())).collect()
    }

    /// Members of one group agree, up to the shorter's end; everybody agrees on timestamps; each
    /// order is that of (timestamp, name), without repetitions.
    pub(crate) fn judge(&self) {
        let mut stamps = BTreeMap::new();
        for ((node, group), what) in &self.by {
            for pair in what.windows(2) {
                assert!(pair[0] < pair[1], "node {node} group {group}: {pair:?}");
            }
            for (at, id, dest) in what {
                assert!(dest.contains(GroupId::at(*group)), "{id:?} is not addressed to {group}");
                let known = *stamps.entry(*id).or_insert(*at);
                assert_eq!(known, *at, "{id:?} has two timestamps");
            }
            for ((other, same), whose) in &self.by {
                if same == group {
                    let n = what.len().min(whose.len());
                    assert_eq!(what[..n], whose[..n], "nodes {node} and {other}, group {group}");
                }
            }
        }
    }
}
