//! The start of a member's process, of whichever kind its cluster is.

use super::compared::CopyId;
use super::disk::Platter;
use super::kinds::{Bug, Copies, Protocol};
use super::member::{Member, kept, made};
use super::partitions::{Birth, Keyspace, partitioned};
use super::plant::{SimPlant, UNREAD_BYTES_MAX, seats_of};
use super::program::{Manner, SimProgram};
use super::replicated::{self, Feeding, copied};
use super::shelf::Snapshot;
use super::told::{Around, ToldDoor};
use crate::plan::Plan;
use crate::world::net::Net;
use crate::{Provider, Shape};
use base::{Incarnation, MemberSet, Rank, Rng};
use core::time::Duration;
use engine::{Bounds, Config, FoundState, Origin, multicast};
use kv::door::{self, Pipes, RespDoor};
use proto::amcast::MAX_GROUPS;
use proto::keyed::KeyedConfig;
use proto::node::{NodeConfig, Start};
use proto::planted::{Bugs, Planted, Sound};
use proto::registry::{KeyedSpec, KeyedVisitor, LogSpec, LogVisitor};
use replicate::feeder::{Order, Rest};
use replicate::framing;
use std::cell::RefCell;
use std::rc::Rc;

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
    pub(super) waits_for_all: bool,
    /// Of a copy of a program.
    pub(super) around: replicated::Around,
    /// Of a keyspace in partitions.
    pub(super) keyspace: Keyspace,
}

impl Protocol {
    pub(super) fn n_words(self, members: usize, shape: &Shape) -> usize {
        let layout = match self {
            Protocol::Partitions(_) => return multicast::n_words(MAX_GROUPS) as usize,
            Protocol::Keyed(keyed) => keyed.layout(members),
            Protocol::Log(_) | Protocol::Program(_) => {
                self.log().expect("it has a log").layout(members, shape)
            }
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
        let Beginning { bug, room: (backlog_bytes, bounds), patience, waits_for_all, .. } =
            beginning;
        let Beginning { me, life, disk, founds, founders, joins, keyspace, around, .. } = beginning;
        let origin = Origin { rank: me, life: Incarnation(u64::from(life)) };
        let usual = Config::new(origin, plan.members);
        let config = Config { backlog_bytes, bounds, patience, waits_for_all, ..usual };
        let found = disk.as_ref().and_then(|disk| disk.shelf.newest.clone());
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
        if let Protocol::Partitions(_) = self {
            let (members, bug) = (plan.members, bug.and_then(Bug::node));
            let birth = Birth { me, members, life, founds, patience, bug, keyspace };
            let asked = disk.as_ref().map(Platter::asked);
            return partitioned(
                &birth,
                SimPlant::new((me, Rc::clone(net)), asked, None),
                disk,
                net,
            );
        }
        let of_node = NodeConfig {
            me,
            members: plan.members,
            start,
            timing: plan.timing(),
            memory_outlives_process: plan.weather.provider == Provider::Shm,
            peer_works: plan.weather.provider == Provider::Tcp,
        };
        let found = found.map(|Snapshot { prefix, bytes, .. }| (prefix, bytes));
        let asked = disk.as_ref().map(Platter::asked);
        let plant = SimPlant::new((me, Rc::clone(net)), asked, bug.and_then(Bug::engine));
        let place = Place { config: &config, plant, disk: (disk, found), of_node, plan };
        match self {
            Protocol::Program(copies) => {
                let rng = net.borrow_mut().rng.fork();
                let bug = bug.and_then(Bug::replicate);
                let (program, around, feeding) = copies.prepare(rng, (me, origin.life), around);
                copies.log().visit(Copying(place, (program, around, feeding), bug))
            }
            Protocol::Log(log) => log.visit(Serving(place, door_among(plan.members, bug))),
            Protocol::Partitions(_) => unreachable!("it has begun above"),
            Protocol::Keyed(keyed) => {
                let machine = KeyedConfig { me, members: plan.members, run: origin.life, founds };
                let door = door_among(plan.members, bug);
                let bug = bug.and_then(|bug| bug.keyed(keyed));
                Ok(keyed.visit(Keeping { place, door, machine, bug }))
            }
        }
    }
}

impl Copies {
    /// A program, its environment, and the way in which it is fed.
    fn prepare(
        self,
        rng: Rng,
        copy: CopyId,
        around: replicated::Around,
    ) -> (SimProgram, replicated::Around, Feeding) {
        let manner = around.strict.as_ref().map_or(self, |(manner, _)| *manner);
        let (order, rest, replies) = match manner {
            Copies::AtRest => (Order::Serial, Rest::Waits, None),
            Copies::InTurns => {
                let replies = around.counts.then_some(framing::Protocol::Resp);
                (Order::Loop, Rest::Waits, replies)
            }
            // By replies, of a program that has loaded the library, or has not.
            Copies::InMemory | Copies::Strict => {
                (Order::Serial, Rest::Waits, Some(framing::Protocol::Resp))
            }
            Copies::OnDisk => (Order::Serial, Rest::Quiet, Some(framing::Protocol::Resp)),
        };
        let manner = if order == Order::Loop { Manner::InTurns } else { Manner::AsDrawn };
        let program =
            SimProgram::new(rng, manner, around.deviates_after).stalling_after(around.stalls_after);
        let sent = around.strict.as_ref().map(|(_, sent)| (copy, Rc::clone(sent)));
        let feeding = Feeding { order, rest, replies };
        let reads = feeding.reads(&around).is_some();
        let program = program
            .straying(around.strays)
            .reading_beside(reads)
            .noting(sent)
            .saved_by_files(around.renews);
        (program, around, feeding)
    }
}

/// The key-value door of one of so many members.
fn door_among(members: usize, bug: Option<Bug>) -> ToldDoor {
    let outside = Around { bug: bug.and_then(Bug::door), ..Around::default() };
    let pipes = Pipes::new("member", UNREAD_BYTES_MAX);
    let of_door = door::Config {
        cluster: "simulated".to_owned(),
        members: seats_of(members),
        ..door::Config::default()
    };
    ToldDoor::new(RespDoor::new(of_door, outside, pipes))
}

/// The things that a process stands on.
struct Place<'a> {
    config: &'a Config,
    plant: SimPlant,
    disk: (Option<Platter>, Option<FoundState>),
    of_node: NodeConfig,
    plan: &'a Plan,
}

/// Starts a member of the key-value store over a log.
struct Serving<'a>(Place<'a>, ToldDoor);

impl LogVisitor for Serving<'_> {
    type Output = Result<Box<dyn Member>, String>;

    fn visit<S: LogSpec>(self) -> Self::Output {
        let Serving(Place { config, plant, disk, of_node, plan }, door) = self;
        made::<S>(config, plant, door, disk, of_node, &plan.shape)
    }
}

/// Starts a copy of a program.
struct Copying<'a>(
    Place<'a>,
    (SimProgram, replicated::Around, Feeding),
    Option<replicate::bugs::Bug>,
);

impl LogVisitor for Copying<'_> {
    type Output = Result<Box<dyn Member>, String>;

    fn visit<S: LogSpec>(self) -> Self::Output {
        let Copying(Place { config, plant, disk, of_node, plan }, program, bug) = self;
        copied::<S>(config, plant, program, disk, of_node, plan, bug)
    }
}

/// Starts a member of the key-value store whose keys are kept separately.
struct Keeping<'a> {
    place: Place<'a>,
    door: ToldDoor,
    machine: KeyedConfig,
    /// The place of the planted bug in the protocol's list.
    bug: Option<usize>,
}

impl KeyedVisitor for Keeping<'_> {
    type Output = Box<dyn Member>;

    fn visit<S: KeyedSpec>(self) -> Box<dyn Member> {
        let Keeping { place: Place { config, plant, .. }, door, machine, bug } = self;
        match bug.map(|at| S::Bug::ALL[at]) {
            Some(bug) => kept::<S, _>(config, plant, door, &machine, Planted(bug)),
            None => kept::<S, _>(config, plant, door, &machine, Sound),
        }
    }
}
