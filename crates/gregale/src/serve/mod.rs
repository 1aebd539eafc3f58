//! `gregale serve`: one replica.
//!
//! - I1 a region is created by an explicit bootstrap only; any other start attaches to the one that
//!   is there. A member whose region is gone or of another boot has forgotten promises: it runs as
//!   a learner that takes part in no quorum, and says so. (Registers promise nothing by their
//!   region, and a durable member's promises are on its disk: one that is gone is made again.) A
//!   member in memory is founded once, whatever its file says in later lives (`founding`).
//! - I2 SIGTERM hands leadership over first and keeps the region, so that the next life continues;
//!   the supervisor's word to stop removes it.

mod data;
mod descriptors;
mod founding;
mod learner;
pub(crate) mod life;
mod links;
mod partitioned;
pub(crate) mod sentinel;

use crate::channel::{ReplicaEnd, Report, Sockets};
use crate::config::{Config, Durability, FabricKind, Protocol, ServeArgs, Start, open_secret};
use crate::control::{self, Board};
use crate::door::{Door, State, Stop, Supervised, state_of};
use crate::replicate::ProgramDoor;
use crate::signals::Signals;
use base::{Incarnation, NodeId};
use console::{Failure, Outcome};
pub(crate) use data::fingerprint;
use data::{Data, Word};
use fabric::{Fabric, HostFabric, OpenError, Setup, Way};
use founding::Founding;
use kv::keyed::Keys;
use life::{Life, Lives};
use links::Lookout;
use proto::LogShape;
use proto::keyed::{KeyedConfig, KeyedMachine};
use proto::node::{self, NodeConfig};
use proto::planted::Sound;
use proto::registry::{self, KeyedSpec, KeyedVisitor, LogSpec, LogVisitor};
use region::Region;
use runtime::disk::{Found, LogDisk};
use runtime::replica::Memory;
use runtime::{Config as LoopConfig, Family, HostPlant, Origin, Parted, Replica};
use rustix::process::Signal;
use std::fs::DirBuilder;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The time for a stopping replica to hand over and to answer open requests.
const HAND_OVER_WITHIN: Duration = Duration::from_millis(500);
const FINISH_WITHIN: Duration = Duration::from_millis(200);

/// Runs the replica until it is told to stop.
pub(crate) fn run(args: &ServeArgs) -> Outcome {
    if !args.supervised {
        let mut config = Config::load(args)?;
        let sockets = listen(&config)?;
        if let Some(why) = open_secret(&config.secret_file) {
            runtime::complain(format_args!("{why}"));
        }
        return replicate(args, &mut config, sockets, None);
    }
    die_with_parent()?;
    let (channel, sockets) = ReplicaEnd::take()?;
    let channel = Arc::new(channel);
    let outcome = Config::load(args)
        .and_then(|mut config| replicate(args, &mut config, sockets, Some(Arc::clone(&channel))));
    match outcome {
        Ok(code) => Ok(code),
        Err(failure) => {
            // The supervisor reports it, once.
            channel.report(&Report::Refused(failure.to_string()));
            Ok(ExitCode::from(2))
        }
    }
}

fn listen(config: &Config) -> Outcome<Sockets> {
    let bind = |address: SocketAddr| {
        TcpListener::bind(address)
            .map_err(|error| Failure::os(format_args!("listen on {address}"), error))
    };
    let own = config.own();
    let fabric = match config.fabric {
        FabricKind::Shm => None,
        FabricKind::Tcp => own.fabric.map(bind).transpose()?,
    };
    Ok(Sockets { client: bind(own.client)?, control: bind(own.control)?, fabric })
}

/// Has the process end with its supervisor: after its own death a supervisor restarts no replica,
/// so no replica may survive it (`up`'s I2).
fn die_with_parent() -> Outcome<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|error| Failure::os("ask for a signal at the supervisor's death", error))?;
    // The supervisor may have died before that; then this process belongs to process 1 or a reaper.
    // In that case the supervisor's end of the channel is closed, which ends the loop at once.
    Ok(())
}

/// The error for this protocol without partitions, which loading already refuses.
const NO_LOG: &str = "primcast orders partitions, not a log: set `partitions` too";

/// The arguments with which a fabric is opened.
pub(crate) struct Opened {
    setup: Setup,
    addresses: Vec<SocketAddr>,
}

fn shape() -> LogShape {
    LogShape::default()
}

/// The fabric's arguments from the configuration: the members, and the layout of their memory.
/// `new` is the number of new memory, if that is to be made.
pub(crate) fn open(config: &Config, new: Option<Incarnation>) -> Outcome<Opened> {
    let layout = match config.protocol {
        Protocol::Log(log) => log.layout(config.members.len(), &shape()),
        Protocol::Keyed(keyed) => keyed.layout(config.members.len()),
        Protocol::Primcast => return Err(Failure::new(NO_LOG)),
    };
    let mut setup = Setup {
        cluster: config.cluster.clone(),
        secret: config.secret()?,
        me: config.rank(),
        members: config.members.len(),
        incarnation: Incarnation(1),
        directory: config.directory.clone(),
        layout: config.fingerprint(layout.fingerprint),
        rules: config.rules().into(),
        n_words: layout.n_words,
    };
    setup.validate().map_err(Failure::new)?;
    // A disk carries the number of the life that began it; without a disk, the memory does.
    if config.data.is_none() && config.start != Start::Bootstrap {
        let ring_words = match config.fabric {
            FabricKind::Shm => fabric::shm::RING_WORDS,
            FabricKind::Tcp => 0,
        };
        let identity = setup.identity_of(setup.me, ring_words);
        let found = new.or_else(|| Region::incarnation_in(&setup.directory, &identity));
        setup.incarnation = found.unwrap_or(setup.incarnation);
    }
    let addresses = config.members.iter().filter_map(|member| member.fabric).collect();
    Ok(Opened { setup, addresses })
}

fn replicate(
    args: &ServeArgs,
    config: &mut Config,
    sockets: Sockets,
    channel: Option<Arc<ReplicaEnd>>,
) -> Outcome {
    descriptors::bound_clients(config);
    let founding = Founding::judge(config, channel.is_some())?;
    let config = &*config;
    if let Some(partitions) = config.partitions {
        return partitioned::run(config, partitions, sockets, channel);
    }
    // What it holds is for this member alone.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&config.directory)
        .map_err(|error| Failure::os(format_args!("make {}", config.directory.display()), error))?;
    let lives = Lives::of(config)?;
    let life = lives.begin()?;
    // By an explicit word only, and where nothing is left: what an earlier life promised would be
    // forgotten. Registers keep nothing there: each life takes the states of others anyway.
    let begins = match config.start {
        Start::Bootstrap => false,
        Start::Reattach => matches!(config.protocol, Protocol::Keyed(_)),
        Start::Join => true,
    };
    let is_new = config.data.is_none()
        && begins
        && !Region::is_there(&config.directory, NodeId(config.member));
    let Opened { setup, addresses } = open(config, is_new.then_some(life.number))?;
    let word = if channel.is_some() { Word::Supervisor } else { Word::File };
    let data = data::open(config, (&lives, life), word)?;
    if data.is_some() {
        lives.note_disk(life)?;
    }
    let signals = Signals::new()?;
    let is_durable = data.is_some();
    // A file that says `bootstrap` may stay as it is: the disk tells a later life.
    let goes_on = data.as_ref().is_some_and(|data| data.had_begun);
    if let Some(founding) = &founding {
        founding.note();
    }
    let replica = Process { config, life, is_new, founding, data, channel, signals };
    let Sockets { client, control, fabric: listener } = sockets;
    let board = Board::new(config, life.count);
    control::serve(&board, control)?;
    let founds = config.start == Start::Bootstrap && !goes_on || is_new;
    let way = match config.fabric {
        FabricKind::Shm => Way::Shm,
        FabricKind::Tcp => {
            let listener =
                listener.ok_or_else(|| Failure::new("no socket for the fabric was passed"))?;
            Way::Tcp(listener, &addresses)
        }
    };
    let makes_memory = match founds {
        true => Ok(true),
        false if is_durable => way.begins_anew(&setup), // its promises are on its disk
        false => Ok(false),
    };
    match makes_memory.and_then(|makes| HostFabric::open(&setup, way, makes)) {
        Ok(fabric) => {
            if config.fabric == FabricKind::Tcp {
                sentinel::keep(args, &board)?;
            }
            replica.run(fabric, client, &board)
        }
        Err(error) => replica.without_memory(error, client, &board),
    }
}

/// A process with everything but its fabric.
struct Process<'a> {
    config: &'a Config,
    life: Life,
    /// Whether it begins with new memory, on a seat of an existing cluster.
    is_new: bool,
    founding: Option<Founding>,
    data: Option<Data>,
    channel: Option<Arc<ReplicaEnd>>,
    signals: Signals,
}

/// A process that is about to serve, but for its protocol.
struct Serve<'a> {
    process: Process<'a>,
    fabric: HostFabric,
    disk: Option<(LogDisk, Option<Found>)>,
    clients: TcpListener,
    board: &'a Arc<Board>,
    node: NodeConfig,
}

impl Process<'_> {
    fn run(mut self, fabric: HostFabric, clients: TcpListener, board: &Arc<Board>) -> Outcome {
        let log = match self.config.protocol {
            Protocol::Log(log) => log,
            Protocol::Keyed(keyed) => {
                return keyed.visit(ServeKeyed { process: self, fabric, clients, board });
            }
            Protocol::Primcast => return Err(Failure::new(NO_LOG)),
        };
        let data = self.data.take();
        let start = match (&data, self.config.start) {
            (Some(data), _) => data.start,
            (None, Start::Bootstrap) => node::Start::Bootstrap,
            (None, _) if self.is_new => node::Start::Join { incarnation: self.life.number },
            (None, Start::Reattach | Start::Join) => node::Start::Reattach,
        };
        let disk = data.map(|data| (data.disk, data.found));
        let capabilities = fabric.capabilities();
        let node = NodeConfig {
            me: self.config.rank(),
            members: self.config.members.len(),
            start,
            timing: node::Timing::default(),
            memory_outlives_process: capabilities.memory_outlives_process,
            peer_works: capabilities.peer_works,
        };
        log.visit(Serve { process: self, fabric, disk, clients, board, node })
    }

    /// The last line of a process that is no longer a member: the cause and the remedy.
    fn part_line(&self) -> impl Fn(Parted) -> String + use<> {
        let id = self.config.member;
        let place = self.config.data.as_deref().unwrap_or(&self.config.directory);
        let place = place.display().to_string();
        move |parted| {
            if parted.is_replaced {
                format!(
                    "member {id} was replaced by incarnation {}: what is in {place} counts no more; \
                     delete it, or keep it apart",
                    parted.last.0
                )
            } else {
                format!(
                    "member {id} was removed from the cluster: what is in {place} counts no more; \
                     delete it, or keep it apart; `gregale member add {id}` begins a new incarnation"
                )
            }
        }
    }

    /// Continues without memory: a missing region is not made again (I1).
    fn without_memory(self, error: OpenError, clients: TcpListener, board: &Arc<Board>) -> Outcome {
        let OpenError::Region(region::Error::Missing { .. } | region::Error::StaleBoot { .. }) =
            &error
        else {
            forget(self.founding.as_ref());
            return Err(Failure::new(error));
        };
        if self.config.start == Start::Bootstrap {
            forget(self.founding.as_ref());
            return Err(Failure::new(error));
        }
        learner::run(&error.to_string(), self.config, clients, board, self.signals, self.channel)
    }
}

/// The same, under a protocol that keeps each key by itself.
struct ServeKeyed<'a> {
    process: Process<'a>,
    fabric: HostFabric,
    clients: TcpListener,
    board: &'a Arc<Board>,
}

/// Removes the note of a founding that came to nothing.
fn forget(founding: Option<&Founding>) {
    if let Some(founding) = founding {
        founding.forget();
    }
}

fn loop_error(error: std::io::Error) -> Failure {
    Failure::os("run the replica's loop", error)
}

impl LogVisitor for Serve<'_> {
    type Output = Outcome;

    fn visit<S: LogSpec>(self) -> Outcome {
        let Serve { process, fabric, disk, clients, board, node } = self;
        let mut config = process.loop_config();
        config.engine.waits_for_all = process.config.durability == Durability::DiskAll;
        let board = Arc::clone(board);
        if let Some(program) = &process.config.program {
            let life = process.life.number;
            let served = ProgramDoor::new(process.config, program, life, clients, board)?;
            let replica =
                Replica::new(config, fabric, served, disk, |memory: &mut Memory<_, _, _>| {
                    registry::member::<S, _, _>(node, &shape(), Sound, memory)
                });
            return process.serve(replica.map_err(loop_error)?);
        }
        let door = Door::new(process.config, clients, board)?;
        let served = (state_of(process.config), door);
        let replica = Replica::new(
            config,
            fabric,
            served,
            disk,
            |memory: &mut Memory<HostFabric, State, Door>| {
                registry::member::<S, _, _>(node, &shape(), Sound, memory)
            },
        );
        process.serve(replica.map_err(loop_error)?)
    }
}

impl KeyedVisitor for ServeKeyed<'_> {
    type Output = Outcome;

    /// Its machine keeps nothing where it outlives the process: a member that does not found the
    /// cluster merges the states of others.
    fn visit<S: KeyedSpec>(self) -> Outcome {
        let ServeKeyed { process, fabric, clients, board } = self;
        let door = Door::new(process.config, clients, Arc::clone(board))?;
        let machine = S::start(
            &KeyedConfig {
                me: process.config.rank(),
                members: process.config.members.len(),
                run: process.life.number,
                founds: process.config.start == Start::Bootstrap,
            },
            Sound,
        );
        let keys = Keys::new(
            <S::Machine<Sound> as KeyedMachine>::VALUE_BYTES_MAX,
            process.config.maxmemory,
        );
        let replica = Replica::keyed(process.loop_config(), fabric, (keys, door), machine);
        process.serve(replica.map_err(loop_error)?)
    }
}

impl Process<'_> {
    fn loop_config(&self) -> LoopConfig {
        let origin = Origin { rank: self.config.rank(), life: self.life.number };
        LoopConfig::new(origin, self.config.members.len())
    }

    /// Serves until it is told to stop, and ends as it is told.
    fn serve<C>(self, mut replica: Replica<C>) -> Outcome
    where
        C: Family<Plant = HostPlant<HostFabric>, Door: Supervised + runtime::Sockets<C::App>>,
    {
        let poller = replica.poller().clone();
        let (_, door) = replica.served();
        let (channel, part) = (self.channel.clone(), self.part_line());
        let founding = self.founding;
        door.register(&poller, self.signals, channel.clone())?;
        let mut lookout = Lookout::new(self.config);
        let mut hopeless = None;
        let mut failure = None;
        let stop = |door: &mut C::Door, fabric: &mut HostFabric| {
            failure = door.failure().map(Failure::new);
            let door = door.supervision();
            hopeless = lookout.look(fabric, door.has_served(), door.seated());
            door.stop().is_some() || hopeless.is_some() || failure.is_some()
        };
        replica.run(stop).map_err(loop_error)?;
        if let Some(line) = hopeless {
            if self.config.start == Start::Bootstrap {
                // No promise was made with the region that was just made.
                replica.into_fabric().remove().map_err(Failure::new)?;
                forget(founding.as_ref());
            }
            return Err(Failure::new(line));
        }
        if let Some(failure) = failure {
            // As after a crash: the region and the disk are the next life's.
            return Err(failure);
        }
        // SIGTERM keeps the region (I2).
        match replica.served().1.supervision().stop() {
            Some(Stop::HandOver) | None => {
                replica.hand_over(HAND_OVER_WITHIN).map_err(loop_error)?;
            }
            Some(Stop::Part(parted)) => {
                replica.finish(FINISH_WITHIN).map_err(loop_error)?;
                let line = part(parted);
                if let Some(channel) = channel {
                    channel.report(&if parted.is_replaced {
                        Report::Replaced(line)
                    } else {
                        Report::Removed(line)
                    });
                    return Ok(ExitCode::from(2));
                }
                return Err(Failure::new(line));
            }
            Some(Stop::Remove) => {
                replica.finish(FINISH_WITHIN).map_err(loop_error)?;
                replica.into_fabric().remove().map_err(Failure::new)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
