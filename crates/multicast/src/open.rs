//! Opening a node, its fabric and its protocol, and closing it.

use crate::clock::Attested;
use crate::driver::{Begun, Descriptors, Driver, HostGround};
use crate::system::{Contradiction, FabricKind, System};
use base::{Incarnation, Rank};
use engine::multicast::{Application, Beginning, Node, Origin, Places, n_words};
use fabric::{HostFabric, OpenError, Setup, Way};
use proto::planted::Sound;
use proto::registry::{MulticastSpec, MulticastVisitor};
use runtime::disk::LogDisk;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

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

/// Opens the node on this thread, which must live as long as the node, and runs it until `stop`
/// returns true. Returns the application.
///
/// # Errors
/// [`Error`]. Everything that was made on the way is removed again, unless the process is killed.
pub fn run<A: Descriptors>(
    system: &System,
    seat: Seat,
    app: A,
    stop: impl FnMut(&mut A) -> bool,
) -> Result<A, Error> {
    let places = system.check()?;
    let Seat { node, listener, data, start } = seat;
    let rank = Rank::numbered(node).filter(|rank| rank.index() < system.nodes);
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
        rules: system.rules(),
        n_words: n_words(system.groups.len()),
    };
    let stopped = |source| Error::Stopped { node, source };
    // This comes before any other node hears of this life.
    let is_back = matches!(data, Some(Data::Reopen(_))) || start == Start::Anew;
    let begins = data.as_ref().and_then(Begins::of);
    let (origin, disk) = match (data, start) {
        (None, Start::First) => (Origin::Founder, None),
        (None, Start::Anew) => {
            let can = can_begin_anew(system, &places, me, &app);
            can.map_err(|why| Error::Data { node, why })?;
            (Origin::Newcomer, None)
        }
        (Some(data), Start::First) => {
            let cluster = system.identity(setup.cluster_fingerprint());
            let (name, disk) = open_disk(system, cluster, me, data, &app)?;
            (Origin::Disk(name), Some(disk))
        }
        (Some(_), Start::Anew) => {
            let why = "it comes back from its data directory as itself, or without one as a new \
                       incarnation: leave out one of the two";
            return Err(Error::Data { node, why });
        }
    };
    let places = &places;
    let fabric = std::fs::create_dir_all(&system.directory)
        .map_err(stopped)
        .and_then(|()| open_fabric(system, &setup, listener, is_back));
    let (fabric, is_new) = match fabric {
        Ok(opened) => opened,
        Err(error) => {
            drop(disk);
            begins.iter().for_each(Begins::undo);
            return Err(error);
        }
    };
    let made = Made { memory: is_new, begins };
    let from = (origin, disk);
    system.protocol.visit(Launch { system, places, me, fabric, made, app, from, stop })
}

/// What was made for a node, and is removed again if it cannot begin.
struct Made {
    /// Whether its memory is not that of an earlier life.
    memory: bool,
    begins: Option<Begins>,
}

impl Made {
    /// Removes it: no other node has heard of this life.
    fn undo(&self, ground: HostGround) {
        let HostGround { fabric, disk, .. } = ground;
        // The directory is in use as long as the disk is open.
        drop(disk);
        if self.memory {
            // The reason why it could not begin is told.
            let _removed = fabric.remove();
        }
        self.begins.iter().for_each(Begins::undo);
    }
}

/// A directory that a node begins.
struct Begins {
    path: PathBuf,
    was_there: bool,
}

impl Begins {
    fn of(data: &Data) -> Option<Begins> {
        let Data::Begin(path) = data else { return None };
        Some(Begins { path: path.clone(), was_there: path.exists() })
    }

    /// Empties the directory again: no other node has heard of what is in it. (It was empty, but
    /// for what a file system has at its root.)
    fn undo(&self) {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name() != "lost+found") {
            let path = entry.path();
            let _ = if path.is_dir() {
                std::fs::remove_dir_all(path)
            } else {
                std::fs::remove_file(path)
            };
        }
        if !self.was_there {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// The fabric of a node, and whether its memory is new: that of an earlier life is taken if the
/// node `is_back` and it is of use. What a node promised is on its disk; without one its groups
/// give it a new seat.
fn open_fabric(
    system: &System,
    setup: &Setup,
    listener: Option<TcpListener>,
    is_back: bool,
) -> Result<(HostFabric, bool), Error> {
    let node = usize::from(setup.me.member().0);
    let way = match system.fabric {
        FabricKind::Shm => Way::Shm,
        FabricKind::Tcp => {
            let stopped = |source| Error::Stopped { node, source };
            let addresses = &system.addresses;
            let listener = match listener {
                Some(listener) => listener,
                None => TcpListener::bind(addresses[setup.me.index()]).map_err(stopped)?,
            };
            Way::Tcp(listener, addresses)
        }
    };
    let is_new = if is_back { way.begins_anew(setup) } else { Ok(true) };
    let opened = is_new.and_then(|is_new| Ok((HostFabric::open(setup, way, is_new)?, is_new)));
    opened.map_err(|source| Error::Open { node, source })
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

/// Opens the disk of a node: its name, and the disk.
fn open_disk<A: Application>(
    system: &System,
    cluster: u64,
    me: Rank,
    data: Data,
    app: &A,
) -> Result<(u64, LogDisk), Error> {
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
    let failed = |error: String| Error::Stopped { node, source: io::Error::other(error) };
    let directory = match begins {
        true => storage::Directory::create(&path, &identity),
        false => storage::Directory::open(&path, &identity),
    };
    let directory = directory.map_err(|error| failed(error.to_string()))?;
    // Another directory has another name.
    let name = directory.log().max(1);
    let (disk, _) = LogDisk::open(directory).map_err(|error| failed(error.to_string()))?;
    Ok((name, disk))
}

/// A node on its fabric, ready to run whichever protocol its system has.
struct Launch<'a, A, T> {
    system: &'a System,
    places: &'a Places,
    me: Rank,
    fabric: HostFabric,
    made: Made,
    app: A,
    from: (Origin, Option<LogDisk>),
    stop: T,
}

impl<A: Descriptors, T: FnMut(&mut A) -> bool> MulticastVisitor for Launch<'_, A, T> {
    type Output = Result<A, Error>;

    fn visit<S: MulticastSpec>(self) -> Result<A, Error> {
        let Launch { system, places, me, fabric, made, app, from: (origin, disk), stop } = self;
        let number = usize::from(me.member().0);
        let stopped = |source| Error::Stopped { node: number, source };
        let setup = system.setup(places, me);
        let attested = |us: u64| Attested::new(us.saturating_mul(1000), system.clock_by);
        let mut ground = HostGround::new(fabric, disk, system.clock_error_us.map(attested));
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The name is unique among the lives of a node as long as its clock is not set back between
        // them.
        let (life, unix_us) = (since.as_nanos() as u64, since.as_micros() as u64);
        let begin = |app, now, ground: &mut HostGround| {
            let beginning = Beginning { origin, life, unix_us, now };
            Node::<S::Machine<Sound>, A>::new(&setup, beginning, ground, app, Sound)
                .map_err(io::Error::other)
        };
        let begun = match Begun::new(app, &mut ground, begin) {
            Ok(begun) => begun,
            Err(error) => {
                made.undo(ground);
                return Err(stopped(error));
            }
        };
        let mut driver = Driver::new(begun, ground, system.limits.spin());
        let ended = driver.run(stop).map_err(stopped);
        let (fabric, app) = driver.into_parts();
        let left = fabric.remove().map_err(|source| Error::Open { node: number, source });
        ended?;
        left?;
        Ok(app)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::multicast::{Delivery, Desk, Outcome};
    use proto::amcast::MessageId;

    /// An application that keeps states.
    struct Nothing;

    impl Application for Nothing {
        fn deliver(&mut self, _: Delivery, _: &mut Desk) {}

        fn outcome(&mut self, _: MessageId, _: Outcome, _: &mut Desk) {}

        fn keeps_states(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_directory_is_begun_once_and_reopened_by_its_node_only() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("node");
        let system = crate::system::tests::system();
        let open = |node, data| open_disk(&system, 5, Rank::at(node), data, &Nothing);
        assert!(open(0, Data::Reopen(path.clone())).is_err(), "nobody began it");
        let (name, disk) = open(0, Data::Begin(path.clone())).unwrap();
        drop(disk);
        let (again, disk) = open(0, Data::Reopen(path.clone())).unwrap();
        drop(disk);
        assert_eq!(name, again);
        let begun = open(0, Data::Begin(path.clone()));
        assert!(begun.is_err(), "who begins again has forgotten what it promised");
        assert!(open(1, Data::Reopen(path)).is_err());
    }

    impl Descriptors for Nothing {}

    #[test]
    fn a_node_that_could_not_begin_has_begun_no_directory() {
        let place = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut system = crate::system::tests::system();
        system.fabric = FabricKind::Tcp;
        system.directory = place.path().join("regions");
        let address = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
        system.addresses = (1..4).map(address).collect();
        system.addresses.insert(0, taken.local_addr().unwrap());
        let path = place.path().join("node");
        for was_there in [false, true] {
            if was_there {
                std::fs::create_dir(&path).unwrap();
            }
            let data = Some(Data::Begin(path.clone()));
            let seat = Seat { data, ..Seat::new(1) };
            let refused = run(&system, seat, Nothing, |_| true).map(drop).unwrap_err();
            assert!(refused.to_string().contains("in use"), "{refused}");
            assert_eq!(path.exists(), was_there);
        }
        assert!(path.read_dir().unwrap().next().is_none());
    }

    /// An application whose descriptors cannot be watched.
    struct Blind;

    impl Application for Blind {
        fn deliver(&mut self, _: Delivery, _: &mut Desk) {}

        fn outcome(&mut self, _: MessageId, _: Outcome, _: &mut Desk) {}

        fn keeps_states(&self) -> bool {
            true
        }
    }

    impl Descriptors for Blind {
        fn begin(&mut self, _: &runtime::Poller) -> io::Result<()> {
            Err(io::Error::other("no descriptors left"))
        }
    }

    #[test]
    fn a_node_that_cannot_begin_leaves_neither_memory_nor_a_directory() {
        let place = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut system = crate::system::tests::system();
        system.fabric = FabricKind::Shm;
        system.directory = place.path().join("regions");
        let path = place.path().join("node");
        for data in [None, Some(Data::Begin(path.clone())), Some(Data::Begin(path.clone())), None] {
            let seat = Seat { data, ..Seat::new(1) };
            let refused = run(&system, seat, Blind, |_| true).map(drop).unwrap_err();
            assert_eq!(refused.to_string(), "node 1 stops: no descriptors left");
            assert!(!system.directory.exists() && !path.exists());
        }
    }
}
