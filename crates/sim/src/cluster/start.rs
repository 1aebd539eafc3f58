//! The start of a member's process, of whichever kind its cluster is.

use super::disk::{Platter, Snapshot};
use super::kinds::{Bug, Protocol};
use super::member::{Member, kept, made};
use super::plant::{SimPlant, UNREAD_BYTES_MAX};
use super::program::{Manner, SimProgram};
use super::replicated::{self, Feeding, copied};
use super::told::{Around, ToldDoor};
use crate::plan::Plan;
use crate::world::net::Net;
use crate::{Provider, Shape};
use base::{Incarnation, MemberSet, Rank};
use core::time::Duration;
use engine::{Bounds, Config, Origin};
use kv::door::{self, Pipes, RespDoor};
use proto::keyed::KeyedConfig;
use proto::node::{NodeConfig, Start};
use proto::planted::{Planted, Sound};
use proto::registry::{KeyedSpec, LogSpec};
use proto::{abd, durable, multipaxos, velos};
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
}

impl Protocol {
    pub(super) fn n_words(self, members: usize, shape: &Shape) -> usize {
        let layout = match self {
            Protocol::Velos
            | Protocol::Replicate
            | Protocol::ReplicateWaits
            | Protocol::ReplicateLoop => velos::Spec::layout(members, shape),
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
        let Beginning { bug, room: (backlog_bytes, bounds), patience, around, .. } = beginning;
        let waits_for_all = beginning.waits_for_all;
        let Beginning { me, life, disk, founds, founders, joins, .. } = beginning;
        let origin = Origin { rank: me, life: Incarnation(u64::from(life)) };
        let usual = Config::new(origin, plan.members);
        let config = Config { backlog_bytes, bounds, patience, waits_for_all, ..usual };
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
            let (order, rest, replies) = match self {
                Protocol::ReplicateWaits => (Order::Serial, Rest::Waits, None),
                Protocol::ReplicateLoop => (Order::Loop, Rest::Waits, None),
                // By replies, of a program that has loaded the library, or has not.
                Protocol::Replicate => (Order::Serial, Rest::Waits, Some(framing::Protocol::Resp)),
                _ => (Order::Serial, Rest::Quiet, Some(framing::Protocol::Resp)),
            };
            let around = if order == Order::Loop {
                let time_step_ms = around.time_step_ms;
                replicated::Around { time_step_ms, ..Default::default() }
            } else {
                around
            };
            let manner = if order == Order::Loop { Manner::InTurns } else { Manner::AsDrawn };
            let rng = net.borrow_mut().rng.fork();
            let program = SimProgram::new(rng, manner, around.deviates_after)
                .stalling_after(around.stalls_after);
            let program = (program, around, Feeding { order, rest, replies });
            let disk = (disk, found);
            return if self.has_disks() {
                copied::<durable::Spec>(&config, plant, program, disk, of_node, plan, bug)
            } else {
                copied::<velos::Spec>(&config, plant, program, disk, of_node, plan, bug)
            };
        }
        let outside = Around { bug: bug.and_then(Bug::door), ..Around::default() };
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
        let door = ToldDoor::new(RespDoor::new(of_door, outside, pipes));
        let shape = &plan.shape;
        let disk = (disk, found);
        match self {
            Protocol::Replicate
            | Protocol::ReplicateDurable
            | Protocol::ReplicateWaits
            | Protocol::ReplicateLoop => unreachable!("made above"),
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
