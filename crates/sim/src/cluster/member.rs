//! A simulated member: the released engine, over the world's network, and the released key-value
//! door, over pipes.

use super::disk::{Platter, Snapshot};
use super::kinds::{Bug, Protocol};
use super::plant::SimPlant;
use super::program::SimProgram;
use super::replicated::{Copied, Replicated};
use crate::net::Net;
use crate::plan::Plan;
use crate::{Provider, Shape};
use base::{Incarnation, MemberSet, Rank};
use core::time::Duration;
use engine::{
    Asker, Bounds, Config, Engine, Family, FoundState, Keyed, Log, Origin, Parts, Plant, Stats,
    View,
};
use kv::door::{self, Facts, Outside, Pipes, RespDoor, Serves, State};
use kv::keyed::Keys;
use proto::Replicator;
use proto::keyed::{KeyedConfig, KeyedMachine};
use proto::members::Configuration;
use proto::node::{NodeConfig, Start};
use proto::planted::{Planted, Planting, Sound};
use proto::registry::{self, KeyedSpec, LogSpec};
use proto::{abd, durable, multipaxos, velos};
use replicate::door::ReplicateDoor;
use replicate::feeder;
use replicate::history::InMemory;
use std::cell::RefCell;
use std::rc::Rc;

/// The most bytes in the pipe of a client that does not read.
const UNREAD_BYTES_MAX: usize = 4 << 10;

/// The process around a door: it passes reports on to the supervisor.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// The seats on which a new incarnation is to begin.
    renewals: Vec<Rank>,
    bug: Option<door::Bug>,
}

impl Outside for Around {
    fn info(&mut self, _: &Facts<'_>, _: &[&str]) -> String {
        String::new()
    }

    fn ask_status(&mut self, _: Asker) {}

    fn renew(&mut self, rank: Rank) -> bool {
        self.renewals.push(rank);
        true
    }

    fn has_planted(&self, bug: door::Bug) -> bool {
        self.bug == Some(bug)
    }
}

/// A member's process, from its start to its end.
pub(super) trait Member {
    /// Performs one turn of its loop. Returns the time that it may sleep then.
    fn turn(&mut self) -> Duration;
    fn view(&self) -> &View;
    fn stats(&self) -> &Stats;
    fn pipes(&mut self) -> &mut Pipes;
    fn disk(&mut self) -> Option<&mut Platter>;
    /// The members, as it knows them now.
    fn configuration(&self) -> Option<Configuration>;
    /// The seats on which a new incarnation is to begin, for its supervisor.
    fn take_renewals(&mut self) -> Vec<Rank>;
    /// The number of open connections to all members, if members agree on that.
    fn n_open(&self) -> Option<usize> {
        None
    }
}

/// The same, with the type of its family and machine.
struct Whole<C>(Engine<C>);

/// What a family's member has beside its turns.
trait Kept: Family<Plant = SimPlant, Door = RespDoor<Around, Pipes>> + Sized {
    /// See [`Member::disk`].
    fn disk(_: &mut Engine<Self>) -> Option<&mut Platter> {
        None
    }

    /// See [`Member::configuration`].
    fn configuration(_: &Engine<Self>) -> Option<Configuration> {
        None
    }
}

impl<M: KeyedMachine> Kept for Keyed<SimPlant, M, Keys, RespDoor<Around, Pipes>> {}

impl<R: Replicator> Kept for Log<SimPlant, R, State, RespDoor<Around, Pipes>> {
    fn disk(engine: &mut Engine<Self>) -> Option<&mut Platter> {
        engine.disk()
    }

    fn configuration(engine: &Engine<Self>) -> Option<Configuration> {
        engine.node().configuration()
    }
}

impl<C: Kept<App: Serves>> Member for Whole<C> {
    fn turn(&mut self) -> Duration {
        let engine = &mut self.0;
        engine.begin_turn();
        engine.begin_slice();
        engine.at_the_door(|door, state, desk| door.poll(state, desk));
        engine.work();
        // This is as in the released loop: it looks once more before it sleeps.
        let idle = if engine.advance() { Duration::ZERO } else { engine.idle_for() };
        engine.note_sleep();
        engine.send();
        let Parts { plant, app, .. } = engine.parts();
        plant.breaks_are_heard();
        app.take_discarded();
        if let Some(complaint) = app.take_complaint() {
            plant.say(&complaint);
        }
        idle
    }

    fn view(&self) -> &View {
        self.0.view()
    }

    fn stats(&self) -> &Stats {
        self.0.stats()
    }

    fn pipes(&mut self) -> &mut Pipes {
        &mut self.0.parts().door.streams
    }

    fn disk(&mut self) -> Option<&mut Platter> {
        C::disk(&mut self.0)
    }

    fn configuration(&self) -> Option<Configuration> {
        C::configuration(&self.0)
    }

    fn take_renewals(&mut self) -> Vec<Rank> {
        std::mem::take(&mut self.0.parts().door.clients.outside.renewals)
    }
}

/// The parameters of a member's process.
pub(super) struct Beginning {
    pub(super) me: Rank,
    /// The ordinal of the process at this member, from 1.
    pub(super) life: u32,
    pub(super) disk: Option<Platter>,
    /// Whether it is the first process of a group whose members are all new.
    pub(super) founds: bool,
    /// The founders.
    pub(super) founders: MemberSet,
    /// The incarnation of a newcomer, before anything of it is durable.
    pub(super) joins: Option<Incarnation>,
    pub(super) bug: Option<Bug>,
    /// See `World`.
    pub(super) room: (usize, Bounds),
    pub(super) patience: Duration,
}

impl Protocol {
    pub(super) fn n_words(self, members: usize, shape: &Shape) -> usize {
        let layout = match self {
            Protocol::Velos | Protocol::Replicate => velos::Spec::layout(members, shape),
            Protocol::Durable | Protocol::ReplicateDurable => durable::Spec::layout(members, shape),
            Protocol::Abd => abd::Spec::layout(members),
            Protocol::MultiPaxos => multipaxos::Spec::layout(members, shape),
        };
        layout.n_words as usize
    }

    /// Starts a process.
    ///
    /// # Errors
    /// The text of the process that does not start.
    pub(super) fn start(
        self,
        beginning: Beginning,
        plan: &Plan,
        net: &Rc<RefCell<Net>>,
    ) -> Result<Box<dyn Member>, String> {
        let Beginning { bug, room: (backlog_bytes, bounds), patience, .. } = beginning;
        let Beginning { me, life, disk, founds, founders, joins, .. } = beginning;
        let origin = Origin { rank: me, life: Incarnation(u64::from(life)) };
        let usual = Config::new(origin, plan.members);
        let config = Config { backlog_bytes, bounds, patience, ..usual };
        let found = disk.as_ref().and_then(|disk| disk.snapshot.clone());
        let all_found = founders.len() == plan.members;
        let start = match (&disk, founds) {
            (_, true) if all_found => Start::Bootstrap,
            (_, true) => Start::Found { voters: founders },
            (_, false) if joins.is_some() => {
                Start::Join { incarnation: joins.unwrap_or(Incarnation::FIRST) }
            }
            (Some(_), false) => {
                let (applied, head) = found
                    .as_ref()
                    .map_or(Default::default(), |snapshot| (snapshot.prefix, snapshot.head));
                Start::Recovered { applied, head }
            }
            (None, false) => Start::Reattach,
        };
        let of_node = NodeConfig {
            me,
            members: plan.members,
            start,
            timing: plan.timing(),
            memory_outlives_process: plan.weather.provider == Provider::Shm,
            peer_works: plan.weather.provider == Provider::Tcp,
        };
        let found = found.map(|Snapshot { prefix, bytes, .. }| (prefix, bytes));
        let plant = SimPlant::new(me, Rc::clone(net), bug.and_then(Bug::engine));
        if self.replicates_program() {
            let bug = bug.and_then(Bug::replicate);
            let program = SimProgram::new(net.borrow_mut().rng.fork());
            let disk = (disk, found);
            return match (self, bug) {
                (Protocol::ReplicateDurable, None) => {
                    copied::<durable::Spec, _>(&config, plant, program, disk, of_node, plan, Sound)
                }
                (Protocol::ReplicateDurable, Some(bug)) => {
                    let bug = Planted(bug);
                    copied::<durable::Spec, _>(&config, plant, program, disk, of_node, plan, bug)
                }
                (_, None) => {
                    copied::<velos::Spec, _>(&config, plant, program, disk, of_node, plan, Sound)
                }
                (_, Some(bug)) => {
                    let bug = Planted(bug);
                    copied::<velos::Spec, _>(&config, plant, program, disk, of_node, plan, bug)
                }
            };
        }
        let around = Around { bug: bug.and_then(Bug::door), ..Around::default() };
        let pipes = Pipes::new("member", UNREAD_BYTES_MAX);
        let seats = (0..plan.members).map(|at| door::Member {
            id: at as u16 + 1,
            host: "member".to_owned(),
            port: 6379,
        });
        let of_door = door::Config {
            cluster: "simulated".to_owned(),
            members: seats.collect(),
            ..door::Config::default()
        };
        let door = RespDoor::new(of_door, around, pipes);
        let shape = &plan.shape;
        let disk = (disk, found);
        match self {
            Protocol::Replicate | Protocol::ReplicateDurable => unreachable!("made above"),
            Protocol::Velos => made::<velos::Spec>(&config, plant, door, disk, of_node, shape),
            Protocol::Durable => made::<durable::Spec>(&config, plant, door, disk, of_node, shape),
            Protocol::MultiPaxos => {
                made::<multipaxos::Spec>(&config, plant, door, disk, of_node, shape)
            }
            Protocol::Abd => {
                let of_machine =
                    KeyedConfig { me, members: plan.members, run: origin.life, founds };
                Ok(match bug.and_then(Bug::abd) {
                    Some(bug) => {
                        kept::<abd::Spec, _>(&config, plant, door, &of_machine, Planted(bug))
                    }
                    None => kept::<abd::Spec, _>(&config, plant, door, &of_machine, Sound),
                })
            }
        }
    }
}

fn kept<S: KeyedSpec, P: Planting<S::Bug>>(
    config: &Config,
    plant: SimPlant,
    door: RespDoor<Around, Pipes>,
    of_machine: &KeyedConfig,
    planted: P,
) -> Box<dyn Member> {
    let machine = S::start(of_machine, planted);
    let keys = Keys::new(<S::Machine<P> as KeyedMachine>::VALUE_BYTES_MAX, 0);
    Box::new(Whole(Engine::keyed(config, plant, (keys, door), machine)))
}

/// The bytes of a value of the log that are not a client's: the engine's place, and a batch of one
/// entry.
const ENTRY_OVERHEAD_BYTES: usize =
    24 + replicate::batch::OVERHEAD_BYTES + replicate::entry::HEADER_BYTES;

fn copied<S: LogSpec, B: Planting<replicate::bugs::Bug>>(
    config: &Config,
    plant: SimPlant,
    program: SimProgram,
    disk: (Option<Platter>, Option<FoundState>),
    of_node: NodeConfig,
    plan: &Plan,
    planted: B,
) -> Result<Box<dyn Member>, String> {
    let Origin { rank: me, life: run } = config.origin;
    let of_clients = replicate::clients::Config {
        me,
        run,
        clients_max: 1000,
        input_bytes_max: plan.shape.value_bytes as usize - ENTRY_OVERHEAD_BYTES,
    };
    let of_feeder =
        feeder::Config { me, run, order: feeder::Order::Serial, rest: feeder::Rest::Resp };
    let pipes = Pipes::new("member", UNREAD_BYTES_MAX);
    let door = ReplicateDoor::new(of_clients, of_feeder, plan.members, pipes, program, planted);
    let served = (replicate::state::State::new(InMemory::default(), planted), door);
    let engine =
        Engine::<Replicated<S::Machine<Sound>, B>>::new(config, plant, served, disk, |host| {
            registry::member::<S, _, _>(of_node, &plan.shape, Sound, host)
                .map_err(|error| error.to_string())
        })?;
    Ok(Box::new(Copied(engine)))
}

fn made<S: LogSpec>(
    config: &Config,
    plant: SimPlant,
    door: RespDoor<Around, Pipes>,
    disk: (Option<Platter>, Option<FoundState>),
    of_node: NodeConfig,
    shape: &Shape,
) -> Result<Box<dyn Member>, String> {
    let served = (State::new(0, config.origin.life.0), door);
    let engine =
        Engine::<Log<_, S::Machine<Sound>, _, _>>::new(config, plant, served, disk, |host| {
            registry::member::<S, _, _>(of_node, shape, Sound, host)
                .map_err(|error| error.to_string())
        })?;
    Ok(Box::new(Whole(engine)))
}
