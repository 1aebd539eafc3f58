//! A simulated member of a keyspace in partitions: the node of atomic multicast and the door of
//! partitions, as they ship, over the world's network and disks.
//!
//! - R1 a node stops by itself only if others have given it up or refuse it for good reason: in
//!   these runs because it lagged too far behind, or was cut off. Judged in `hear_stop`.
//! - R2 in memory, where that is a death, a majority of each group lives without it (the node's
//!   N15). Judged there too, in runs in which no other process dies.

use super::disk::Platter;
use super::kinds::Replicas;
use super::member::Member;
use super::outcomes::{Delivered, Judged};
use super::plant::{SimPlant, UNREAD_BYTES_MAX, seats_of};
use crate::Property;
use crate::plan::MS;
use crate::world::net::Net;
use base::verb::Relay;
use base::{Inbox, Instant, Rank, Rng};
use core::time::Duration;
use engine::multicast::{Beginning, Bug, Node, Origin, Places, Setup, Sizes, StopError};
use engine::{Asker, Ground, Plant, StableStorage, Stats, View};
use kv::door::{
    self, Clocked, Facts, Outside, PartitionConfig, PartitionDoor, Pipes, partition_seats,
};
use kv::entry;
use kv::partition::Order;
use proto::Role;
use proto::amcast::linear::Rule;
use proto::amcast::{Config, GroupId, Place, primcast};
use proto::disk::DiskEvent;
use proto::planted::Sound;
use proto::registry::MulticastSpec;
use std::cell::RefCell;
use std::rc::Rc;

/// The most turns of a node in one run of its loop.
const TURNS_MAX: usize = 8;
/// The bytes that may wait for a disk: more than nodes let wait (K4), and what an earlier process
/// left.
const UNSYNCED_BYTES_MAX: usize = 512 << 10;
/// The bytes of a log in one message.
const PART_BYTES: usize = 4 << 10;

/// The shape of a run's keyspace, and what is known of its messages.
#[derive(Clone, Debug)]
pub(super) struct Keyspace {
    pub(super) n_partitions: usize,
    order: Order,
    suspect_after: Duration,
    /// The time after which members ask for what they miss.
    asks_after: Duration,
    /// The number and the bytes of delivered messages that are kept for others.
    retain: (usize, usize),
    /// The bytes kept for a peer that takes nothing, and for one that lags.
    kept: (usize, usize),
    /// In memory, whether members give each other up: then no other process dies (R2).
    pub(super) gives_up: bool,
    sizes: Sizes,
    delivered: Delivered,
}

impl Keyspace {
    pub(super) fn draw(seed: u64, replicas: Option<Replicas>, members: usize) -> Keyspace {
        let mut rng = Rng::new(seed ^ 0x7061_7274_6974);
        let has_disks = replicas == Some(Replicas::OnDisk);
        // (No draw of its own, so that the other runs meet what they met.)
        let mut own = Rng::new(seed ^ 0x0067_6976_6573_7570);
        let gives_up = replicas == Some(Replicas::InMemory) && members > 2 && own.chance(1, 4);
        // One that is given up in memory besides is a death that the promise does not cover.
        let kept_bytes = match (has_disks, gives_up) {
            (true, _) => 64 << rng.range(10, 20),
            (false, true) => 64 << own.range(8, 11),
            (false, false) => 64 << 20,
        };
        Keyspace {
            n_partitions: rng.range(1, 4) as usize,
            order: if rng.chance(3, 4) { Order::Linearizable } else { Order::Signals },
            suspect_after: Duration::from_millis([100, 300][rng.below(2) as usize]),
            asks_after: Duration::from_millis([50, 200][rng.below(2) as usize]),
            retain: (4 << rng.below(8), 1 << rng.range(12, 24)),
            kept: (kept_bytes, kept_bytes >> if gives_up { 1 } else { rng.range(1, 3) }),
            gives_up,
            sizes: Sizes {
                piece_bytes: 1024 << rng.below(4),
                behind_bytes: 16384 << rng.below(4),
                whole_after_bytes: 1 << rng.range(12, 18),
            },
            delivered: Delivered::default(),
        }
    }

    fn setup(&self, me: Rank, members: usize) -> Setup {
        let ranks = |seats: Vec<usize>| seats.into_iter().map(|seat| Rank::at(seat - 1)).collect();
        let groups = partition_seats(self.n_partitions, members).into_iter().map(ranks).collect();
        let places = Places::new(members, groups);
        let config = Config {
            layout: places.layout().clone(),
            rule: if self.order.needs_real_time() { Rule::Hop } else { Rule::Plain },
            hybrid: false,
            commutes: false,
            patience: self.asks_after,
            part_bytes: PART_BYTES,
            retain: self.retain.0,
            retain_bytes: self.retain.1,
        };
        Setup {
            me,
            places,
            config,
            window: 4096,
            backlog_bytes: self.kept.1,
            kept_bytes: self.kept.0,
            held_bytes: 256 << 20,
            suspect_after: self.suspect_after,
            sizes: self.sizes,
        }
    }
}

/// What a node stands on.
struct SimGround {
    plant: SimPlant,
    disk: Option<Platter>,
}

impl Relay for SimGround {
    type Port = SimPlant;

    fn port(&self) -> &SimPlant {
        &self.plant
    }

    fn port_mut(&mut self) -> &mut SimPlant {
        &mut self.plant
    }
}

impl Ground for SimGround {
    type Disk = Platter;

    fn poll(&mut self, inbox: &mut Inbox) {
        self.plant.poll(inbox);
    }

    fn flush(&mut self) {
        self.plant.breaks_are_heard();
    }

    fn disk(&mut self) -> Option<&mut Platter> {
        self.disk.as_mut()
    }

    fn poll_disk(&mut self, now: Instant, events: &mut Vec<DiskEvent>) {
        if let Some(disk) = &mut self.disk {
            disk.pump(now, |event| events.push(event));
        }
    }
}

/// The process around a door.
struct Around {
    me: Rank,
    net: Rc<RefCell<Net>>,
}

impl Outside for Around {
    fn info(&mut self, _: &Facts<'_>, _: &[&str]) -> String {
        String::new()
    }

    fn ask_status(&mut self, _: Asker) {}

    fn renew(&mut self, _: Rank) -> bool {
        false
    }
}

impl Clocked for Around {
    fn wall_ms(&self) -> u64 {
        let net = self.net.borrow();
        net.processes[self.me.index()].wall.at(net.now()) / MS
    }

    fn boot_now(&self) -> Instant {
        let net = self.net.borrow();
        net.processes[self.me.index()].clock.at(net.now())
    }

    /// Nothing is damaged in this world, so the code itself made any damage that it finds.
    fn say(&mut self, line: &str) {
        let detail = format!("{} says: {line}", self.me);
        self.net.borrow_mut().violate(Property::Validity, detail);
    }
}

type Machine = <primcast::Spec as MulticastSpec>::Machine<Sound>;

/// The member of the module's text.
struct Partitioned {
    node: Node<Machine, Judged<PartitionDoor<Around, Pipes>>, Option<Bug>>,
    ground: SimGround,
    view: View,
    stats: Stats,
    stopped: Option<StopError>,
}

/// The beginning of a member's process.
pub(super) struct Birth {
    pub(super) me: Rank,
    pub(super) members: usize,
    /// The ordinal of the process, from 1.
    pub(super) life: u32,
    /// Whether it begins with its system.
    pub(super) founds: bool,
    pub(super) patience: Duration,
    pub(super) bug: Option<Bug>,
    pub(super) keyspace: Keyspace,
}

/// Starts a member.
///
/// # Errors
/// The text of the process that does not start.
pub(super) fn partitioned(
    birth: &Birth,
    plant: SimPlant,
    mut disk: Option<Platter>,
    net: &Rc<RefCell<Net>>,
) -> Result<Box<dyn Member>, String> {
    let &Birth { me, members, life, founds, patience, bug, ref keyspace } = birth;
    if let Some(platter) = &mut disk {
        platter.log.let_wait(UNSYNCED_BYTES_MAX);
    }
    let mut ground = SimGround { plant, disk };
    let origin = match (&ground.disk, founds) {
        // A disk has one name for all its lives.
        (Some(_), _) => Origin::Disk(1000 + me.index() as u64),
        (None, true) => Origin::Founder,
        (None, false) => Origin::Newcomer,
    };
    let outside = Around { me, net: Rc::clone(net) };
    let (wall_ms, now) = (outside.wall_ms(), outside.boot_now());
    let incarnation = base::Incarnation(u64::from(life));
    let config = PartitionConfig {
        origin: entry::Origin { rank: me, incarnation },
        seats: partition_seats(keyspace.n_partitions, members),
        members,
        order: keyspace.order,
        memory_bytes_max: 0,
        patience,
    };
    let of_clients = door::Config { members: seats_of(members), ..door::Config::default() };
    let pipes = Pipes::new("member", UNREAD_BYTES_MAX);
    let door = PartitionDoor::new(config, of_clients, outside, pipes);
    let door = Judged::new(door, me, net, &keyspace.delivered);
    let unix_us = wall_ms * 1000;
    let beginning = Beginning { origin, life: u64::from(life), unix_us, now };
    let setup = keyspace.setup(me, members);
    let node = Node::new(&setup, beginning, &mut ground, door, bug);
    let node = node.map_err(|error| error.to_string())?;
    let (view, stats) = (View::new(me, members), Stats::new());
    let mut member = Partitioned { node, ground, view, stats, stopped: None };
    member.look();
    Ok(Box::new(member))
}

impl Partitioned {
    /// Notes how it stands after a turn.
    fn look(&mut self) {
        let desk = self.node.desk();
        let mut view = self.node.app().door.view(desk);
        let is_seated = desk.members().iter().all(|member| member.is_seated);
        if !is_seated || desk.members().is_empty() || self.node.is_behind() {
            view.role = Role::Learner;
        }
        self.view = view;
        // (They come whole.)
        self.stats.state_bytes_received = desk.figures().states;
    }
}

impl Member for Partitioned {
    fn turn(&mut self) -> Duration {
        let now = Plant::now(&self.ground.plant);
        self.node.begin_round(now);
        self.ground.plant.wake();
        let (door, desk) = self.node.at_desk();
        door.door.poll(desk);
        let mut worked = true;
        for _ in 0..TURNS_MAX {
            match self.node.turn(now, &mut self.ground) {
                Ok(again) => worked = again,
                Err(why) => {
                    self.stopped = Some(why);
                    break;
                }
            }
            if !worked {
                break;
            }
        }
        self.look();
        if worked { Duration::ZERO } else { self.node.due().since(now) }
    }

    fn view(&self) -> &View {
        &self.view
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn pipes(&mut self) -> &mut Pipes {
        &mut self.node.application().door.streams
    }

    fn plant(&mut self) -> &mut SimPlant {
        &mut self.ground.plant
    }

    fn disk(&mut self) -> Option<&mut Platter> {
        self.ground.disk.as_mut()
    }

    fn failure(&self) -> Option<&str> {
        self.ground.disk.as_ref()?.failure()
    }

    fn configuration(&self) -> Option<proto::members::Configuration> {
        None
    }

    fn take_renewals(&mut self) -> Vec<Rank> {
        Vec::new()
    }

    fn is_seated(&self) -> bool {
        self.node.desk().members().iter().all(|member| member.is_seated)
    }

    fn stops(&self) -> Option<StopError> {
        self.stopped
    }

    fn stands(&self) -> Vec<(GroupId, Place, Place)> {
        self.node.stands().collect()
    }

    fn standing(&self) -> String {
        let views = self.node.desk().members().iter().map(|member| {
            let leads = if member.is_primary { " leads" } else { "" };
            let seat = if member.is_seated { "" } else { " no seat" };
            format!("{:?}:{leads}{seat} of {:?}", member.group, member.voters)
        });
        let behind = if self.node.is_behind() { " behind" } else { "" };
        format!("{}{behind}", views.collect::<Vec<_>>().join(", "))
    }

    fn executed(&self) -> Vec<u64> {
        let executor = self.node.app().door.executor();
        (0..executor.map().n).map(|at| executor.figures(at).executed).collect()
    }

    fn digests(&self) -> Vec<u64> {
        let executor = self.node.app().door.executor();
        let states = (0..executor.map().n).map(|at| executor.digest(at));
        // What waits for a partition's replica follows from what has been executed.
        states.chain([executor.waiting() as u64]).collect()
    }
}
