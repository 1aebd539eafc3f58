//! Systems for tests, of which nothing remains when they are dropped.

use multicast::{FabricKind, Limits, Order, Protocol, System};
use std::net::TcpListener;
use std::time::Duration;

/// A time longer than any step takes on a machine with other work.
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
            commutes: false,
            clock_error_us: None,
            clock_by: Default::default(),
            limits: Limits { suspect_ms: 400, ..Limits::default() },
            settings: String::new(),
            rules: 0,
        };
        let mut listeners: Vec<_> = listeners.into_iter().map(Some).collect();
        listeners.resize_with(nodes, || None);
        Town { system, listeners, _directory: directory }
    }
}
