//! Processes of a simulated group with replicated objects, as they ship (`group::simulated`):
//! callers call them in every way, and are told outcomes.
//!
//! The objects' thread is one that is late at times: what a process is told waits then for some of
//! its turns.

mod book;
mod client;
mod judge;
mod ledger;

pub(super) use book::Book;
pub(super) use judge::{judge, marks};

use super::ground::SimGround;
use super::life::{Calls, Face, Life, Listener};
use super::owed::Asked;
use super::scenario::Scenario;
use base::{Instant, Rank, Rng};
use book::{Jots, Seen, ShardLife, process_of};
use client::Client;
use core::time::Duration;
use engine::group::{Application, Process, Turn};
use group::simulated::bugs::Bug;
use group::simulated::{Heard, SimulatedProcess, look_at_copy};
use group::{Member, Options, Replicas};
use ledger::Ledger;
use proto::vsync::bugs::Plantings;
use proto::vsync::{Blank, Candidates, Delivery, Knock, Mode, Payload, ShardId, Time};
use std::cell::RefCell;
use std::rc::Rc;

/// What a process with objects begins with.
pub(super) struct Setup {
    pub(super) options: Options,
    pub(super) leaves_within: Duration,
    pub(super) book: Rc<RefCell<Book>>,
    pub(super) rng: Rng,
}

/// The options of a group of this scenario.
pub(super) fn options(scenario: &Scenario) -> Options {
    let subgroup = |one: &proto::vsync::Subgroup| {
        let described = group::Subgroup::new(&one.name).members(one.n_least, one.n_most);
        let tags = one.shards.iter().filter_map(|candidates| match candidates {
            Candidates::Tagged(tag) => Some(*tag),
            Candidates::All | Candidates::Seats(_) => None,
        });
        let tags: Vec<u64> = tags.collect();
        let described = match one.mode {
            Some(Mode::Ordered) => described.in_memory(),
            Some(_) | None => described,
        };
        if tags.is_empty() { described.shards(one.shards.len()) } else { described.tags(&tags) }
    };
    Options {
        seats: scenario.shape.n_seats,
        layout: scenario.layout.iter().map(subgroup).collect(),
        mode: scenario.shape.mode,
        window: scenario.shape.window,
        message_bytes: scenario.shape.message_bytes,
        adequate: scenario.n_adequate,
        keeps_state: true,
        lease: scenario.lease,
        timing: scenario.timing,
        events: 64,
        patience: Duration::from_secs(2),
        ..Options::shm("simulated", "a secret", "a ledger")
    }
}

/// A process with objects; see the module's text.
pub(super) struct ObjectLife<P> {
    process: SimulatedProcess<P>,
    client: Client,
    leaves_within: Duration,
    book: Rc<RefCell<Book>>,
    rng: Rng,
    /// The number of turns for which the objects' thread is not run.
    n_late: u64,
}

impl<P: Plantings> ObjectLife<P> {
    pub(super) fn new(
        process: Process<P>,
        me: Knock,
        setup: Setup,
        planted: Option<Bug>,
    ) -> ObjectLife<P> {
        let Setup { options, leaves_within, book, mut rng } = setup;
        let names: Vec<String> = match options.layout.is_empty() {
            true => vec!["all".to_owned()],
            false => options.layout.iter().map(|one| one.name.clone()).collect(),
        };
        // No thread calls, so no call waits.
        let replicas = Replicas::of(&Options { patience: Duration::ZERO, ..options.clone() });
        let replicas = names.iter().fold(replicas, |all, name| all.object(name, Ledger::default));
        let member = Member {
            seat: me.seat.index() + 1,
            incarnation: me.incarnation.0,
            metadata: me.metadata,
        };
        ObjectLife {
            process: SimulatedProcess::new(process, me, &options, replicas, planted),
            client: Client::new(member, names, rng.fork()),
            leaves_within,
            book,
            rng,
            n_late: 0,
        }
    }

    /// Tells the judge of views what the machine has said, in its order.
    fn replay(&mut self, listener: &mut Listener<'_>) {
        for heard in self.process.heard() {
            match heard {
                Heard::Multicast(shard) => listener.multicast(shard),
                Heard::Installed(installed) => listener.install(installed),
                Heard::Inadequate(n_members) => listener.inadequate(n_members),
                Heard::InadequateSubgroup(subgroup) => listener.inadequate_subgroup(subgroup),
                Heard::Unsent(shard, n_messages) => listener.unsent(shard, n_messages),
                Heard::Delivered(delivery) => listener.deliver_unnamed(delivery),
                Heard::Asked(to, shard, at) => {
                    let bytes = listener.state_of(shard);
                    self.process.stash(to, shard, at, bytes);
                }
                Heard::Took(shard, at, bytes) => listener.take(shard, at, bytes),
                Heard::Ended(end) => listener.end(end),
            }
        }
    }

    /// Runs the objects' thread, unless that is late; then its callers.
    fn run_objects(&mut self, now_ns: u64) -> Option<Duration> {
        self.n_late = self.n_late.saturating_sub(1);
        if self.n_late > 0 && !self.process.is_over() {
            return Some(Duration::from_micros(200));
        }
        if self.rng.chance(1, 8) {
            self.n_late = self.rng.below(16);
        }
        let wait = self.process.execute();
        let book = &mut *self.book.borrow_mut();
        book.jots.extend(Jots::take());
        let again_ns =
            self.process.objects().and_then(|objects| self.client.look(objects, now_ns, book));
        let again = again_ns.map(|at| Duration::from_nanos(at.saturating_sub(now_ns)));
        [wait, again].into_iter().flatten().min()
    }

    fn copies(&self, is_last: bool) -> Vec<Seen> {
        let Some(objects) = self.process.objects() else { return Vec::new() };
        let mut copies = Vec::new();
        for (subgroup, replica) in self.client.replicas(objects) {
            let (view, me) = (replica.view(), replica.me());
            let Some(shard) = view.shard_of(subgroup, me.seat) else { continue };
            let life = ShardLife { shard: shard.id, since: shard.begun };
            if let Some(entries) = look_at_copy(&replica, |ledger| ledger.entries().to_vec()) {
                copies.push(Seen { of: process_of(me), life, entries, is_last });
            }
        }
        copies
    }
}

impl<P: Plantings> Calls for ObjectLife<P> {
    fn call(&mut self, subgroup: usize, n_ballast: usize, now_ns: u64) {
        if let Some(objects) = self.process.objects() {
            let book = &mut *self.book.borrow_mut();
            self.client.call(objects, subgroup, n_ballast, now_ns, book);
        }
    }

    fn show_copies(&self, is_last: bool) {
        self.book.borrow_mut().copies.extend(self.copies(is_last));
    }

    fn unanswered(&self) -> Option<String> {
        let is_behind = || (!self.process.is_idle()).then(|| "has not executed all".to_owned());
        self.client.unanswered(&self.book.borrow()).or_else(is_behind)
    }
}

impl<P: Plantings> Life for ObjectLife<P> {
    fn turn(
        &mut self,
        now: Instant,
        ground: &mut SimGround<'_>,
        listener: &mut Listener<'_>,
    ) -> Turn {
        let now_ns = listener.now_ns();
        let (due, worked) = self.process.turn(now, ground);
        self.replay(listener);
        if self.process.is_over() {
            *listener.is_ended = true;
        }
        let again = self.run_objects(now_ns);
        Turn { due: again.map_or(due, |span| due.min(now.plus(span))), worked }
    }

    fn multicast(&mut self, _: ShardId, _: Payload) -> bool {
        unreachable!("objects multicast")
    }

    fn blank(&mut self, _: &SimGround<'_>) -> Option<Blank> {
        None
    }

    fn give(&mut self, _: Asked) {
        unreachable!("objects give their states")
    }

    fn learn(&mut self, time: Time) {
        self.process.learn(time);
    }

    fn leave(&mut self) {
        self.process.leave(self.leaves_within);
    }

    fn suspect(&mut self, seat: Rank) {
        self.process.suspect(seat);
    }

    fn ahead(&self, _: usize, _: &SimGround<'_>) -> Vec<Delivery> {
        // Its messages have no names that the judge of views could read.
        Vec::new()
    }

    fn face(&self) -> &dyn Face {
        self.process.process()
    }

    fn calls(&mut self) -> Option<&mut dyn Calls> {
        Some(self)
    }

    fn calls_ref(&self) -> Option<&dyn Calls> {
        Some(self)
    }
}
