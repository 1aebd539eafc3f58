//! A process of a simulated group behind one type, sound or with a planted mistake; and the
//! application that it tells things.

use super::app::{self, App};
use super::ground::SimGround;
use super::history::{MessageId, ProcessId, Record, Told};
use super::owed::{Asked, Owed};
use super::reader::{self, Reader};
use super::reads::Reads;
use crate::Property;
use crate::coverage::Mark;
use crate::trace::Topic;
use crate::world::net::Net;
use base::{Instant, Rank, SeatSet};
use engine::group::{self, Application, Installed, Turn};
use proto::vsync::bugs::Plantings;
use proto::vsync::{
    Blank, Delivery, End, Ending, Knock, Payload, Position, Relayed, ShardId, Time, View, ViewId,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What the world asks of the objects of a process.
pub(super) trait Calls {
    /// Calls the object of a subgroup.
    fn call(&mut self, subgroup: usize, n_ballast: usize, now_ns: u64);

    /// Writes down what the copies here have.
    fn show_copies(&self, is_last: bool);

    /// A call that has no outcome, though all is well.
    fn unanswered(&self) -> Option<String>;
}

/// What a process shows of itself, whatever is planted in it.
pub(super) trait Face {
    fn copy_held(&self);
    fn view(&self) -> Option<&View>;
    fn position(&self, subgroup: usize) -> Option<Position>;
    fn frontier(&self, subgroup: usize) -> Time;
    fn held(&self, subgroup: usize) -> Option<Position>;
    fn answers_from(&self, subgroup: usize) -> Instant;
    fn lease_until(&self) -> Instant;
    fn is_ready(&self) -> bool;
    fn is_returning(&self) -> bool;
    fn promised(&self) -> u64;
    fn is_wedged(&self) -> bool;
    fn endings(&self) -> Vec<Ending>;
    fn relayed(&self) -> Relayed;
    fn owes_blocks(&self) -> bool;
}

/// A process of a group as it ships, whatever is planted in it, with what is above it.
pub(super) trait Life {
    fn turn(
        &mut self,
        now: Instant,
        ground: &mut SimGround<'_>,
        listener: &mut Listener<'_>,
    ) -> Turn;
    fn multicast(&mut self, shard: ShardId, message: Payload) -> bool;
    fn blank(&mut self, ground: &SimGround<'_>) -> Option<Blank>;
    fn give(&mut self, state: Asked);
    fn learn(&mut self, time: Time);
    fn leave(&mut self);
    fn suspect(&mut self, seat: Rank);
    fn ahead(&self, subgroup: usize, ground: &SimGround<'_>) -> Vec<Delivery>;
    fn face(&self) -> &dyn Face;

    /// Its objects, in a group that has some.
    fn calls(&mut self) -> Option<&mut dyn Calls> {
        None
    }

    /// The same, to look at.
    fn calls_ref(&self) -> Option<&dyn Calls> {
        None
    }
}

impl<P: Plantings> Face for group::Process<P> {
    fn copy_held(&self) {
        group::Process::copy_held(self);
    }

    fn view(&self) -> Option<&View> {
        group::Process::view(self)
    }

    fn position(&self, subgroup: usize) -> Option<Position> {
        group::Process::position(self, subgroup)
    }

    fn frontier(&self, subgroup: usize) -> Time {
        group::Process::frontier(self, subgroup)
    }

    fn held(&self, subgroup: usize) -> Option<Position> {
        group::Process::held(self, subgroup)
    }

    fn answers_from(&self, subgroup: usize) -> Instant {
        group::Process::answers_from(self, subgroup)
    }

    fn lease_until(&self) -> Instant {
        group::Process::lease_until(self)
    }

    fn is_ready(&self) -> bool {
        group::Process::is_ready(self)
    }

    fn is_returning(&self) -> bool {
        group::Process::is_returning(self)
    }

    fn promised(&self) -> u64 {
        group::Process::promised(self)
    }

    fn is_wedged(&self) -> bool {
        group::Process::is_wedged(self)
    }

    fn endings(&self) -> Vec<Ending> {
        group::Process::endings(self)
    }

    fn relayed(&self) -> Relayed {
        group::Process::relayed(self)
    }

    fn owes_blocks(&self) -> bool {
        group::Process::owes_blocks(self)
    }
}

impl<P: Plantings> Life for group::Process<P> {
    fn turn(
        &mut self,
        now: Instant,
        ground: &mut SimGround<'_>,
        listener: &mut Listener<'_>,
    ) -> Turn {
        group::Process::turn(self, now, ground, listener)
    }

    fn multicast(&mut self, shard: ShardId, message: Payload) -> bool {
        group::Process::multicast(self, shard, message).is_ok()
    }

    fn blank(&mut self, ground: &SimGround<'_>) -> Option<Blank> {
        group::Process::blank(self, ground)
    }

    fn give(&mut self, state: Asked) {
        let Asked { to, shard, at, bytes } = state;
        group::Process::give(self, to, shard, at, bytes);
    }

    fn learn(&mut self, time: Time) {
        group::Process::learn(self, time);
    }

    fn leave(&mut self) {
        group::Process::leave(self);
    }

    fn suspect(&mut self, seat: Rank) {
        group::Process::suspect(self, seat);
    }

    fn ahead(&self, subgroup: usize, ground: &SimGround<'_>) -> Vec<Delivery> {
        group::Process::ahead(self, subgroup, ground)
    }

    fn face(&self) -> &dyn Face {
        self
    }
}

/// A process's place in a subgroup.
#[derive(Clone, Default)]
pub(super) struct Place {
    /// Its shard, and the view in which that began.
    pub(super) is_in: Option<(ShardId, ViewId)>,
    /// The state of that.
    pub(super) app: App,
    /// The time up to which its order is final.
    pub(super) frontier: Time,
    /// By shard, the ordinal of its own message that it delivered last.
    pub(super) own: BTreeMap<ShardId, u64>,
}

/// The application of a process during a turn: it executes what it is told, and records it.
pub(super) struct Listener<'a> {
    pub(super) is_full: bool,
    pub(super) knock: Knock,
    pub(super) net: Rc<RefCell<Net>>,
    pub(super) places: &'a mut [Place],
    pub(super) reads: Option<&'a mut Reads>,
    pub(super) reader: &'a mut Reader,
    pub(super) turn: u64,
    /// The time at which it began.
    pub(super) now: Instant,
    pub(super) owed: &'a mut Owed,
    pub(super) record: &'a mut Record,
    pub(super) n_ballast: usize,
    pub(super) is_ended: &'a mut bool,
}

impl Listener<'_> {
    fn trace(&self, topic: Topic, a: u64, b: u64) {
        let net = &mut *self.net.borrow_mut();
        net.trace.record(net.queue.now(), self.knock.seat.index(), topic, a, b);
    }

    fn hit(&self, mark: Mark) {
        self.net.borrow_mut().coverage.hit(mark);
    }

    fn violate(&self, property: Property, detail: String) {
        self.net.borrow_mut().violate(property, detail);
    }
}

/// What is heard of a process with objects, whose messages have no names.
impl Listener<'_> {
    pub(super) fn now_ns(&self) -> u64 {
        self.net.borrow().now()
    }

    /// The machine has taken a message for `shard`.
    pub(super) fn multicast(&mut self, shard: ShardId) {
        let n_multicast = self.record.n_multicast.entry(shard).or_default();
        *n_multicast += 1;
        self.record.causes.insert((shard, *n_multicast), self.record.latest);
    }

    /// Delivers a message by the name that it has by the order of its sender's.
    pub(super) fn deliver_unnamed(&mut self, delivery: Delivery) {
        let Delivery { shard, ref sender, .. } = delivery;
        let process = ProcessId::of(sender);
        let ordinal = self.places[usize::from(shard.subgroup)].app.last_of(process) + 1;
        let ProcessId(sender, incarnation) = process;
        let name = MessageId { shard, sender, incarnation, ordinal };
        self.deliver(Delivery { message: app::message(name, 0)[..].into(), ..delivery });
    }

    /// The state of `shard`, without its objects.
    pub(super) fn state_of(&self, shard: ShardId) -> Vec<u8> {
        self.places[usize::from(shard.subgroup)].app.to_bytes(self.n_ballast)
    }
}

impl Listener<'_> {
    /// Of what it multicast in a shard that it is no longer in, it was told everything that was not
    /// sent, and nothing else.
    fn part_from(&self, shard: Option<ShardId>) {
        let Some(id) = shard else { return };
        let n_multicast = self.record.n_multicast.get(&id).copied().unwrap_or(0);
        let own = &self.places[usize::from(id.subgroup)].own;
        let n_delivered = own.get(&id).copied().unwrap_or(0);
        if n_multicast != n_delivered {
            let detail = format!(
                "{} is no longer in {id}, has delivered {n_delivered} of its messages there, and \
                 was told that {n_multicast} were sent",
                self.knock.seat
            );
            self.violate(Property::Validity, detail);
        }
    }

    /// Every shard to which it comes, and every one that begins again, has the first state.
    fn take_places(&mut self, view: &View) {
        for subgroup in 0..self.places.len() {
            let shard = view.shard_of(self.knock.seat, subgroup);
            let is_in = shard.and_then(|id| view.shard(id).map(|shard| (id, shard.since)));
            let was_in = self.places[subgroup].is_in;
            if is_in == was_in {
                continue;
            }
            self.part_from(was_in.map(|(id, _)| id).filter(|id| Some(*id) != shard));
            if let (Some(old), Some(new)) = (was_in, is_in) {
                let is_moved = old.0 != new.0;
                self.hit(if is_moved { Mark::MemberMoved } else { Mark::ShardBegunAnew });
            }
            let place = &mut self.places[subgroup];
            (place.is_in, place.app, place.frontier) = (is_in, App::default(), Time::default());
        }
    }
}

/// A word that tells sets of seats apart: of few seats, their bits.
fn word_of(seats: SeatSet) -> u64 {
    let mix = |mixed: u64, word: &u64| mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word;
    seats.words().iter().rev().fold(0, mix)
}

impl Application for Listener<'_> {
    fn install(&mut self, Installed { view, .. }: Installed) {
        if view.members.len() >= 9 {
            self.hit(Mark::NineMembers);
        }
        self.trace(Topic::Install, view.id.0, word_of(view.seats()));
        self.take_places(&view);
        self.record.told.push(Told::View(view));
    }

    fn inadequate(&mut self, _: usize) {}

    fn inadequate_subgroup(&mut self, _: usize) {
        self.hit(Mark::SubgroupInadequate);
    }

    /// Their ordinals are given to other messages: if one of them were delivered, two would have
    /// the same.
    fn unsent(&mut self, shard: ShardId, n_messages: usize) {
        self.hit(Mark::MessageUnsent);
        let n_multicast = self.record.n_multicast.entry(shard).or_default();
        match n_multicast.checked_sub(n_messages as u64) {
            Some(rest) => *n_multicast = rest,
            None => self.violate(Property::Validity, format!("{n_messages} unsent of fewer")),
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        let Some(id) = app::name(&reader::bytes(&delivery.message)) else {
            let detail = format!("{} delivered torn bytes at {:?}", self.knock.seat, delivery.at);
            return self.violate(Property::Validity, detail);
        };
        if ProcessId(id.sender, id.incarnation) != ProcessId::of(&delivery.sender) {
            let detail = format!("{id:?} was delivered as a message of {:?}", delivery.sender);
            return self.violate(Property::Validity, detail);
        }
        self.reader.keep(self.turn, id, delivery.message.clone());
        self.trace(Topic::Deliver, delivery.at.at, id.ordinal << 8 | id.sender.index() as u64);
        let place = &mut self.places[usize::from(delivery.shard.subgroup)];
        if delivery.sender == self.knock {
            place.own.insert(delivery.shard, id.ordinal);
            if let Some(reads) = &mut self.reads {
                reads.owe(delivery.shard, delivery.at);
            }
        }
        place.app.execute(id);
        let (shard, digest) = (delivery.shard, place.app.digest());
        self.record.latest = self.record.latest.max(delivery.time);
        self.record.told.push(Told::Deliver {
            shard,
            at: delivery.at,
            time: delivery.time,
            id,
            digest,
        });
    }

    fn give(&mut self, to: Rank, shard: ShardId, at: Position) -> Option<Vec<u8>> {
        let bytes = self.places[usize::from(shard.subgroup)].app.to_bytes(self.n_ballast);
        self.owed.ask(Asked { to, shard, at, bytes }, self.knock.seat, self.now)
    }

    fn take(&mut self, shard: ShardId, at: Position, bytes: Vec<u8>) {
        match App::from_bytes(&bytes) {
            Some(app) => {
                // Its own log's, if it is as old.
                let is_own = self.record.views().last().is_some_and(|view| at.view < view.id)
                    && self.record.views().count() == 1;
                self.hit(if is_own { Mark::LogReplayed } else { Mark::StateTaken });
                self.trace(Topic::NeedState, at.view.0, at.at);
                self.record.told.push(Told::Take { shard, at, digest: app.digest() });
                self.places[usize::from(shard.subgroup)].app = app;
            }
            None => self.violate(Property::Digest, format!("the state of {at:?} is torn")),
        }
    }

    fn end(&mut self, end: End) {
        match end {
            End::Left => self.hit(Mark::MemberLeft),
            End::Excluded => self.hit(Mark::MemberExcluded),
            End::Partitioned => self.hit(Mark::MinorityStopped),
            End::Damaged(seat) => {
                let detail = format!("{} does not understand {seat}", self.knock.seat);
                self.violate(Property::Validity, detail);
            }
            End::StateLost | End::Overrun | End::OtherGroup => {}
        }
        self.trace(Topic::Deposed, super::history::number_of(end), 0);
        self.record.told.push(Told::Ended(end));
        *self.is_ended = true;
    }

    fn is_full(&self) -> bool {
        self.is_full
    }
}
