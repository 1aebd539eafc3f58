//! Opening a node, its fabric and its protocol, and closing it.

use crate::application::Application;
use crate::disk::{Found, Journal};
use crate::node::{Node, Origin, n_words};
use crate::system::{Contradiction, FabricKind, Places, System};
use base::{Incarnation, NodeId, Rank};
use fabric::shm::ShmFabric;
use fabric::tcp::TcpFabric;
use fabric::{Fabric, OpenError, Setup};
use proto::planted::Sound;
use proto::registry::{MulticastSpec, MulticastVisitor};
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;

/// The node of its system that this process is.
#[derive(Debug)]
pub struct Seat {
    /// The node's number, from 1.
    pub node: usize,
    /// The listener on TCP, if it is bound to the node's address already; otherwise it is bound
    /// when the node opens.
    pub listener: Option<TcpListener>,
    /// The directory of everything that the node must remember after a crash; without it, it comes
    /// back as another incarnation.
    pub data: Option<Data>,
    /// Whether an earlier process was this node, and has died with its memory.
    pub start: Start,
}

/// The way in which a node without a data directory begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// With its system: no earlier process was this node.
    #[default]
    First,
    /// As a new incarnation: its groups seat it instead of the previous one, and give it states.
    /// (PrimCast, an application that keeps states, groups of three and more.)
    Anew,
}

/// A node's own directory on a disk.
#[derive(Clone, Debug)]
pub enum Data {
    /// An empty directory, with which the node begins. Use it once: a node that lost its directory
    /// has lost its promises, and must not begin another one under its name.
    Begin(PathBuf),
    /// The directory of an earlier life, with which the node continues.
    Reopen(PathBuf),
}

impl Seat {
    /// The seat of `node`, counted from 1.
    pub const fn new(node: usize) -> Seat {
        Seat { node, listener: None, data: None, start: Start::First }
    }

    /// The seat of `node`, counted from 1, for a process that succeeds one that died.
    pub const fn anew(node: usize) -> Seat {
        Seat { node, listener: None, data: None, start: Start::Anew }
    }
}

/// The reason why a node could not run, or had to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration contradicts itself.
    #[error(transparent)]
    Configuration(#[from] Contradiction),
    /// There is no such seat.
    #[error("node {node} of a system of {nodes}: nodes are counted from 1")]
    NoSuchNode {
        /// The requested node.
        node: usize,
        /// The number of nodes.
        nodes: usize,
    },
    /// The fabric cannot be opened.
    #[error("cannot open node {node}: {source}")]
    Open {
        /// The node.
        node: usize,
        /// The cause.
        source: OpenError,
    },
    /// The node cannot come back, from a disk or as another incarnation.
    #[error("node {node}: {why}")]
    Data {
        /// The node.
        node: usize,
        /// The cause.
        why: &'static str,
    },
    /// The operating system or the disk failed, or a peer has given this node up.
    #[error("node {node} stops: {source}")]
    Stopped {
        /// The node.
        node: usize,
        /// The cause.
        source: io::Error,
    },
}

/// A fabric that can be closed for good.
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

/// Opens the node on this thread, which must live as long as the node, and runs it until `stop`
/// returns true. Returns the application.
///
/// # Errors
/// [`Error`]. Everything that was made on the way is removed again, unless the process is killed.
pub fn run<A: Application>(
    system: &System,
    seat: Seat,
    app: A,
    stop: impl FnMut(&mut A) -> bool,
) -> Result<A, Error> {
    let places = system.check()?;
    let Seat { node, listener, data, start } = seat;
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
        // For the fabric all incarnations are lives of one region: streams distinguish them.
        incarnation: Incarnation(1),
        directory: system.directory.clone(),
        layout: system.fingerprint(),
        n_words: n_words(system),
    };
    let stopped = |source| Error::Stopped { node, source };
    let refused = |source| Error::Open { node, source };
    // This comes before any other node hears of this life.
    let is_back = matches!(data, Some(Data::Reopen(_))) || start == Start::Anew;
    let origin = match (data, start) {
        (None, Start::First) => Origin::Founder,
        (None, Start::Anew) => {
            let can = can_begin_anew(system, &places, me, &app);
            can.map_err(|why| Error::Data { node, why })?;
            Origin::Newcomer
        }
        (Some(data), Start::First) => {
            let cluster = system.identity(setup.cluster_fingerprint());
            let (journal, found) = open_journal(system, cluster, me, data, &app)?;
            Origin::Disk(Box::new(journal), found)
        }
        (Some(_), Start::Anew) => {
            let why = "it comes back from its data directory as itself, or without one as a new \
                       incarnation: leave out one of the two";
            return Err(Error::Data { node, why });
        }
    };
    std::fs::create_dir_all(&system.directory).map_err(stopped)?;
    match system.fabric {
        FabricKind::Shm => {
            let fabric = match is_back.then(|| ShmFabric::attach(&setup)) {
                None | Some(Err(OpenError::Region(region::Error::Missing { .. }))) => {
                    ShmFabric::create(&setup)
                }
                Some(attached) => attached,
            };
            let fabric = fabric.map_err(refused)?;
            let places = &places;
            let launch = Launch { system, places, me, fabric, app, origin, stop };
            system.protocol.visit(launch)
        }
        FabricKind::Tcp => {
            let listener = match listener {
                Some(listener) => listener,
                None => TcpListener::bind(system.addresses[me.index()]).map_err(stopped)?,
            };
            let addresses = &system.addresses;
            let again = listener.try_clone().map_err(stopped)?;
            let fabric = match is_back.then(|| TcpFabric::attach(&setup, again, addresses)) {
                None | Some(Err(OpenError::Region(region::Error::Missing { .. }))) => {
                    TcpFabric::create(&setup, listener, addresses)
                }
                Some(attached) => attached,
            };
            let fabric = fabric.map_err(refused)?;
            let places = &places;
            let launch = Launch { system, places, me, fabric, app, origin, stop };
            system.protocol.visit(launch)
        }
    }
}

/// Whether a node that remembers nothing could be seated at all.
fn can_begin_anew<A: Application>(
    system: &System,
    places: &Places,
    me: Rank,
    app: &A,
) -> Result<(), &'static str> {
    let is_small = |group| (1..3).contains(&places.nodes_of(group).len());
    if !system.protocol.abilities().changes_members {
        Err("only groups of primcast take in a new incarnation: use primcast")
    } else if system.commutes {
        Err("with commutes = true groups take in no new incarnation: leave it out")
    } else if !app.takes_states_of_others() {
        Err("its application takes no states (Application::takes_states_of_others), so it cannot \
             come back as a new incarnation")
    } else if places.hosted(me).iter().any(is_small) {
        Err("it has a member in a group of fewer than three: what died was half of that group or \
             all of it, and no majority is left that could seat another")
    } else {
        Ok(())
    }
}

fn open_journal<A: Application>(
    system: &System,
    cluster: u64,
    me: Rank,
    data: Data,
    app: &A,
) -> Result<(Journal, Option<Found>), Error> {
    let node = usize::from(me.member().0);
    if !system.protocol.abilities().recovers {
        let why = "only primcast comes back from a data directory: leave it out, or use primcast";
        return Err(Error::Data { node, why });
    }
    if system.commutes {
        let why = "with commutes = true a node does not come back from a data directory: leave out \
                   one of the two";
        return Err(Error::Data { node, why });
    }
    if !app.keeps_states() {
        let why = "its application keeps no states (Application::keeps_states), so it cannot come \
                   back from a data directory";
        return Err(Error::Data { node, why });
    }
    let (begins, path) = match data {
        Data::Begin(path) => (true, path),
        Data::Reopen(path) => (false, path),
    };
    let identity = storage::Identity { cluster, node: me.member(), incarnation: Incarnation(1) };
    let opened = Journal::open(&path, &identity, begins, system.limits.log_bytes);
    opened.map_err(|source| Error::Stopped { node, source })
}

/// A node on its fabric, ready to run whichever protocol its system has.
struct Launch<'a, F, A, T> {
    system: &'a System,
    places: &'a Places,
    me: Rank,
    fabric: F,
    app: A,
    origin: Origin,
    stop: T,
}

impl<F: Leave, A: Application, T: FnMut(&mut A) -> bool> MulticastVisitor for Launch<'_, F, A, T> {
    type Output = Result<A, Error>;

    fn visit<S: MulticastSpec>(self) -> Result<A, Error> {
        let Launch { system, places, me, fabric, app, origin, stop } = self;
        let number = usize::from(me.member().0);
        let stopped = |source| Error::Stopped { node: number, source };
        let node = Node::<F, S::Machine<Sound>, A>::begin(system, places, me, fabric, app, origin);
        let mut node = node.map_err(stopped)?;
        let ended = node.run(stop).map_err(stopped);
        let (fabric, app) = node.into_parts();
        let left = fabric.leave().map_err(|source| Error::Open { node: number, source });
        ended?;
        left?;
        Ok(app)
    }
}
