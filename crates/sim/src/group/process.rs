//! A process of a simulated group, as it ships (`engine::group`), sound or with a planted mistake;
//! and the application above it.

use super::app::{self, App};
use super::bugs::Bug;
use super::date::Date;
use super::ground::{SimGround, date};
use super::history::{MessageId, ProcessId, Record, Told};
use super::reader::{self, Reader};
use super::reads::{Reads, Standing};
use crate::Property;
use crate::areas::Areas;
use crate::coverage::Mark;
use crate::disk::Disk;
use crate::trace::Topic;
use crate::world::net::Net;
use crate::world::port::SimPort;
use base::{Bulk, Instant, Port, Rank, Rng};
use engine::group::{self, Application, Installed, Turn};
use proto::planted::{Planted, Sound};
use proto::vsync::bugs::Plantings;
use proto::vsync::{
    Blank, Config, Delivery, End, Knock, Payload, Position, ShardId, Time, View, ViewId,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A process of a group as it ships, whatever is planted in it.
trait Life {
    fn turn(
        &mut self,
        now: Instant,
        ground: &mut SimGround<'_>,
        listener: &mut Listener<'_>,
    ) -> Turn;
    fn multicast(&mut self, shard: ShardId, message: Payload) -> bool;
    fn blank(&mut self, ground: &SimGround<'_>) -> Option<Blank>;
    fn copy_held(&self);
    fn learn(&mut self, time: Time);
    fn leave(&mut self);
    fn suspect(&mut self, seat: Rank);
    fn view(&self) -> Option<&View>;
    fn position(&self, subgroup: usize) -> Option<Position>;
    fn frontier(&self, subgroup: usize) -> Time;
    fn held(&self, subgroup: usize) -> Option<Position>;
    fn answers_from(&self, subgroup: usize) -> Instant;
    fn lease_until(&self) -> Instant;
    fn is_ready(&self) -> bool;
    fn is_returning(&self) -> bool;
    fn is_wedged(&self) -> bool;
    fn echoed(&self) -> Option<Rank>;
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

    fn copy_held(&self) {
        group::Process::copy_held(self);
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

    fn is_wedged(&self) -> bool {
        group::Process::is_wedged(self)
    }

    fn echoed(&self) -> Option<Rank> {
        group::Process::echoed(self)
    }
}

/// A process as it begins.
fn begun<P: Plantings>(
    config: Config,
    disk: Option<&mut Disk>,
    planted: P,
    now: Instant,
) -> Box<dyn Life> {
    let process = match disk {
        None => group::Process::with(config, planted, now),
        Some(disk) => group::Process::on(config, disk, planted, now).expect("a log of a group"),
    };
    Box::new(process)
}

/// The number of turns for which a slow application takes no messages.
const N_TURNS_FULL: u64 = 24;

/// How far a process is in its view.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub(super) view: Option<ViewId>,
    pub(super) is_wedged: bool,
    pub(super) proposes: bool,
}

/// A process's place in a subgroup.
#[derive(Clone, Default)]
struct Place {
    /// Its shard, and the view in which that began.
    is_in: Option<(ShardId, ViewId)>,
    /// The state of that.
    app: App,
    /// The time up to which its order is final.
    frontier: Time,
    /// By shard, the ordinal of its own message that it delivered last.
    own: BTreeMap<ShardId, u64>,
}

/// A process: one incarnation on a seat.
pub(super) struct Process {
    pub(super) knock: Knock,
    life: Box<dyn Life>,
    port: SimPort,
    /// The clock of its host.
    date: Date,
    /// The state of its shard in each subgroup.
    places: Vec<Place>,
    /// The most bytes of ballast in its messages, and in its states.
    n_ballast: (usize, usize),
    pub(super) is_ended: bool,
    /// Whether it never multicasts.
    pub(super) is_silent: bool,
    /// Whether its application takes no messages for half of the time.
    pub(super) is_slow: bool,
    n_turns: u64,
    /// What it has to answer, in a group with leases.
    reads: Option<Reads>,
    /// What its application looks at later.
    reader: Reader,
}

impl Process {
    pub(super) fn new(
        config: Config,
        bug: Option<Bug>,
        (net, disk, date): (&Rc<RefCell<Net>>, Option<&mut Disk>, Date),
        n_ballast: usize,
        is_silent: bool,
    ) -> Process {
        let knock = config.me;
        let port = SimPort::new(knock.seat, Rc::clone(net));
        let n_ballast = (config.shape.message_bytes as usize - 24, n_ballast);
        let now = port.now();
        let places = vec![Place::default(); config.shape.n_subgroups];
        let reads = config.lease.map(|_| Reads::default());
        let life: Box<dyn Life> = match bug {
            None => begun(config, disk, Sound, now),
            Some(Bug::View(bug)) => begun(config, disk, Planted(bug), now),
            Some(Bug::Table(bug)) => begun(config, disk, Planted(bug), now),
        };
        Process {
            knock,
            life,
            port,
            date,
            places,
            n_ballast,
            is_ended: false,
            is_silent,
            is_slow: false,
            n_turns: 0,
            reads,
            reader: Reader::default(),
        }
    }

    pub(super) fn id(&self) -> ProcessId {
        ProcessId::of(&self.knock)
    }

    /// One turn of its loop. Returns the time at which the next one is due.
    pub(super) fn turn(&mut self, record: &mut Record, disk: Option<&mut Disk>) -> Instant {
        let now = self.port.now();
        self.n_turns += 1;
        let mut listener = Listener {
            is_full: self.is_slow && self.n_turns / N_TURNS_FULL % 2 == 1,
            knock: self.knock,
            net: Rc::clone(self.port.net()),
            places: &mut self.places,
            reads: self.reads.as_mut(),
            reader: &mut self.reader,
            turn: self.n_turns,
            record,
            n_ballast: self.n_ballast.1,
            is_ended: &mut self.is_ended,
        };
        let mut ground = SimGround { port: &mut self.port, date: self.date, disk };
        let due = self.life.turn(now, &mut ground, &mut listener).due;
        self.note_frontiers(record);
        self.answer(record);
        self.look_again(self.n_turns);
        if self.is_ended {
            self.life.copy_held();
        }
        due
    }

    /// Looks at messages that were delivered until this turn (`reader`).
    fn look_again(&mut self, turn: u64) {
        if let Some(id) = self.reader.look(turn) {
            let detail =
                format!("{id:?} was overwritten at {} after its delivery", self.knock.seat);
            self.port.net().borrow_mut().violate(Property::Validity, detail);
        }
    }

    /// Looks at all that is left, long after the process has ended.
    pub(super) fn look_at_last(&mut self) {
        if self.is_ended {
            self.look_again(u64::MAX);
        }
    }

    /// Answers updates and reads, in a group with leases.
    fn answer(&mut self, record: &mut Record) {
        let Some(reads) = self.reads.as_mut().filter(|_| !self.is_ended) else { return };
        let (life, places) = (&self.life, &self.places);
        let standing = |subgroup: u16| {
            let subgroup = usize::from(subgroup);
            Standing {
                shard: places[subgroup].is_in.map(|(shard, _)| shard),
                // A newcomer without a state reads nothing.
                position: life.position(subgroup).filter(|_| life.is_ready()),
                held: life.held(subgroup),
                answers_from: life.answers_from(subgroup),
            }
        };
        let (now, net) = (self.port.now(), self.port.net());
        let now_ns = net.borrow().now();
        let n_read = reads.answer(standing, (now, now_ns), life.lease_until(), record);
        if n_read > 0 {
            net.borrow_mut().coverage.hit(Mark::LeasedRead);
        }
    }

    /// A read of its shard of a subgroup comes.
    pub(super) fn read(&mut self, subgroup: usize) {
        let (now_ns, place) = (self.port.net().borrow().now(), &self.places[subgroup]);
        if let (Some(reads), Some((shard, _))) = (&mut self.reads, place.is_in) {
            reads.ask(shard, now_ns);
        }
    }

    /// Writes down what is final now.
    fn note_frontiers(&mut self, record: &mut Record) {
        for (subgroup, place) in self.places.iter_mut().enumerate() {
            let (Some((shard, _)), time) = (place.is_in, self.life.frontier(subgroup)) else {
                continue;
            };
            if time > place.frontier && !self.is_ended {
                place.frontier = time;
                record.told.push(Told::Frontier { shard, time });
                self.port.net().borrow_mut().coverage.hit(Mark::FrontierRose);
            }
        }
    }

    fn trace(&self, topic: Topic, a: u64, b: u64) {
        let net = &mut *self.port.net().borrow_mut();
        net.trace.record(net.queue.now(), self.knock.seat.index(), topic, a, b);
    }

    // ---- the operator's and the clients' calls ----

    /// Multicasts one more message in its shard of `subgroup`, if the machine takes it.
    pub(super) fn multicast(&mut self, subgroup: usize, n_ballast: u64, record: &mut Record) {
        let Some(shard) = self.shard_of(self.knock.seat, subgroup) else { return };
        let n_multicast = record.n_multicast.entry(shard).or_default();
        let ordinal = *n_multicast + 1;
        let ProcessId(sender, incarnation) = self.id();
        let n_ballast = n_ballast as usize % (self.n_ballast.0 + 1);
        let message = app::message(MessageId { shard, sender, incarnation, ordinal }, n_ballast);
        // Three of four are large, if there is room.
        let ground = SimGround { port: &mut self.port, date: self.date, disk: None };
        let is_large = !ordinal.is_multiple_of(4);
        let blank = is_large.then(|| self.life.blank(&ground)).flatten();
        let (mark, message) = match blank {
            Some(blank) => (Some(Mark::MessageLanded), blank.fill(&message)),
            None if is_large && self.port.has_parcels() => {
                (Some(Mark::MessagePacked), Payload::packed(Bulk::copied(&message)))
            }
            None => (None, message[..].into()),
        };
        if self.life.multicast(shard, message) {
            mark.into_iter().for_each(|mark| self.port.net().borrow_mut().coverage.hit(mark));
            *n_multicast = ordinal;
            record.causes.insert((shard, ordinal), record.latest);
            self.trace(Topic::Propose, ordinal, 0);
        }
    }

    /// Takes it from outside that a time has led to what it multicasts from now on.
    pub(super) fn learn(&mut self, time: Time, record: &mut Record) {
        record.latest = record.latest.max(time);
        self.life.learn(time);
    }

    /// What the clock of its host shows.
    pub(super) fn date(&self) -> Time {
        date(self.date, &self.port)
    }

    /// Lets it look into the memory of others.
    pub(super) fn look_into(&mut self, areas: Areas) {
        self.port.look_into(areas);
    }

    /// Lets WRITEs land while it reads rows.
    pub(super) fn race(&mut self, rng: Rng) {
        self.port.race(rng);
    }

    pub(super) fn leave(&mut self, record: &mut Record) {
        self.trace(Topic::Operator, 1, 0);
        record.asked_to_leave = true;
        self.life.leave();
    }

    pub(super) fn suspect(&mut self, seat: Rank) {
        self.trace(Topic::Operator, 2, seat.index() as u64);
        self.life.suspect(seat);
    }

    // ---- what is seen ----

    pub(super) fn view(&self) -> Option<&View> {
        self.life.view()
    }

    pub(super) fn position(&self, subgroup: usize) -> Option<Position> {
        self.life.position(subgroup)
    }

    /// The shard of a subgroup that has the member on `seat`.
    pub(super) fn shard_of(&self, seat: Rank, subgroup: usize) -> Option<ShardId> {
        self.view()?.shard_of(seat, subgroup)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.life.is_ready()
    }

    /// Whether it has the log of one before, and is in no view yet.
    pub(super) fn is_returning(&self) -> bool {
        self.life.is_returning()
    }

    pub(super) fn is_wedged(&self) -> bool {
        self.life.is_wedged()
    }

    pub(super) fn stage(&self) -> Stage {
        Stage {
            view: self.view().map(|view| view.id),
            is_wedged: self.is_wedged(),
            proposes: self.life.echoed() == Some(self.knock.seat),
        }
    }

    /// The digest of the state of its shard of a subgroup.
    pub(super) fn digest(&self, subgroup: usize) -> u64 {
        self.places[subgroup].app.digest()
    }

    /// The number of messages of `process` that it has executed in its shard of a subgroup, by the
    /// ordinal of the last.
    pub(super) fn executed(&self, subgroup: usize, process: ProcessId) -> u64 {
        self.places[subgroup].app.last_of(process)
    }

    /// The number of its own messages that it has delivered in a shard, by the ordinal of the last.
    pub(super) fn delivered_itself(&self, shard: ShardId) -> u64 {
        let places = self.places.get(usize::from(shard.subgroup));
        places.and_then(|place| place.own.get(&shard)).copied().unwrap_or(0)
    }
}

/// The application of a process during a turn: it executes what it is told, and records it.
struct Listener<'a> {
    is_full: bool,
    knock: Knock,
    net: Rc<RefCell<Net>>,
    places: &'a mut [Place],
    reads: Option<&'a mut Reads>,
    reader: &'a mut Reader,
    turn: u64,
    record: &'a mut Record,
    n_ballast: usize,
    is_ended: &'a mut bool,
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

impl Application for Listener<'_> {
    fn install(&mut self, Installed { view, .. }: Installed) {
        if view.members.len() >= 9 {
            self.hit(Mark::NineMembers);
        }
        self.trace(Topic::Install, view.id.0, view.seats().bits());
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

    fn give(&mut self, _: Rank, shard: ShardId, _: Position) -> Option<Vec<u8>> {
        Some(self.places[usize::from(shard.subgroup)].app.to_bytes(self.n_ballast))
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
