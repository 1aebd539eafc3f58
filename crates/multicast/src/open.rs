//! Opening a node: its fabric, its protocol, and how it leaves.

use crate::application::Application;
use crate::node::{Node, n_words};
use crate::system::{Contradiction, FabricKind, Places, Protocol, System};
use base::{Incarnation, NodeId, Rank};
use fabric::shm::ShmFabric;
use fabric::tcp::TcpFabric;
use fabric::{Fabric, OpenError, Setup};
use proto::amcast::Multicast;
use proto::amcast::fastcast::Fastcast;
use proto::amcast::primcast::Machine;
use proto::amcast::skeen::Skeen;
use proto::amcast::whitebox::Whitebox;
use std::io;
use std::net::TcpListener;

/// Which node of its system this process is.
#[derive(Debug)]
pub struct Seat {
    /// From 1.
    pub node: usize,
    /// On TCP: bound to the node's address already; else it is bound when the node opens.
    pub listener: Option<TcpListener>,
}

impl Seat {
    /// The seat of `node`, counted from 1.
    pub const fn new(node: usize) -> Seat {
        Seat { node, listener: None }
    }
}

/// Why a node could not run, or not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration.
    #[error(transparent)]
    Configuration(#[from] Contradiction),
    /// There is no such seat.
    #[error("node {node} of a system of {nodes}: nodes are counted from 1")]
    NoSuchNode {
        /// What was asked for.
        node: usize,
        /// How many there are.
        nodes: usize,
    },
    /// The fabric.
    #[error("cannot open node {node}: {source}")]
    Open {
        /// Which.
        node: usize,
        /// Why.
        source: OpenError,
    },
    /// The operating system, or a peer that has given this node up.
    #[error("node {node} stops: {source}")]
    Stopped {
        /// Which.
        node: usize,
        /// Why.
        source: io::Error,
    },
}

/// A fabric that knows how to leave for good.
trait Leave: Fabric + Sized {
    fn leave(self) -> Result<(), OpenError>;
}

impl Leave for ShmFabric {
    fn leave(self) -> Result<(), OpenError> {
        self.remove()
    }
}

impl Leave for TcpFabric {
    fn leave(self) -> Result<(), OpenError> {
        self.remove()
    }
}

/// Opens the node on this thread, which must live as long as the node shall, and runs it until
/// `stop` says so. The application comes back.
///
/// # Errors
/// [`Error`]. Whatever was made on the way is removed again, unless the process is killed.
pub fn run<A: Application>(
    system: &System,
    seat: Seat,
    app: A,
    stop: impl FnMut(&mut A) -> bool,
) -> Result<A, Error> {
    let places = system.check()?;
    let Seat { node, listener } = seat;
    let rank = NodeId(u16::try_from(node).unwrap_or(u16::MAX));
    let rank = Rank::of_member(rank).filter(|rank| rank.index() < system.nodes);
    let Some(me) = rank else {
        return Err(Error::NoSuchNode { node, nodes: system.nodes });
    };
    let setup = Setup {
        cluster: system.cluster.clone(),
        secret: system.secret.clone().into_bytes(),
        me,
        members: system.nodes,
        // Crash-stop: there is no second life.
        incarnation: Incarnation(1),
        directory: system.directory.clone(),
        layout: system.fingerprint(),
        n_words: n_words(system),
    };
    let stopped = |source| Error::Stopped { node, source };
    let refused = |source| Error::Open { node, source };
    std::fs::create_dir_all(&system.directory).map_err(stopped)?;
    match system.fabric {
        FabricKind::Shm => {
            let fabric = ShmFabric::create(&setup).map_err(refused)?;
            run_on(system, &places, me, fabric, app, stop)
        }
        FabricKind::Tcp => {
            let listener = match listener {
                Some(listener) => listener,
                None => TcpListener::bind(system.addresses[me.index()]).map_err(stopped)?,
            };
            let fabric = TcpFabric::create(&setup, listener, &system.addresses).map_err(refused)?;
            run_on(system, &places, me, fabric, app, stop)
        }
    }
}

fn run_on<F: Leave, A: Application>(
    system: &System,
    places: &Places,
    me: Rank,
    fabric: F,
    app: A,
    stop: impl FnMut(&mut A) -> bool,
) -> Result<A, Error> {
    match system.protocol {
        Protocol::Primcast => run_as::<F, Machine, A>(system, places, me, fabric, app, stop),
        Protocol::Whitebox => run_as::<F, Whitebox, A>(system, places, me, fabric, app, stop),
        Protocol::Fastcast => run_as::<F, Fastcast, A>(system, places, me, fabric, app, stop),
        Protocol::Skeen => run_as::<F, Skeen, A>(system, places, me, fabric, app, stop),
    }
}

fn run_as<F: Leave, M: Multicast, A: Application>(
    system: &System,
    places: &Places,
    me: Rank,
    fabric: F,
    app: A,
    stop: impl FnMut(&mut A) -> bool,
) -> Result<A, Error> {
    let number = usize::from(me.member().0);
    let stopped = |source| Error::Stopped { node: number, source };
    let mut node = Node::<F, M, A>::new(system, places, me, fabric, app).map_err(stopped)?;
    let ended = node.run(stop).map_err(stopped);
    let (fabric, app) = node.into_parts();
    let left = fabric.leave().map_err(|source| Error::Open { node: number, source });
    ended?;
    left?;
    Ok(app)
}
