//! A process of a simulated group, as it ships (`engine::group`), sound or with a planted mistake;
//! and the application above it.

use super::app;
use super::bugs::Bug;
use super::date::Date;
use super::ground::{SimGround, date};
use super::history::{MessageId, ProcessId, Record, Told};
use super::life::{Life, Listener, Place};
use super::objects::{self, ObjectLife};
use super::owed::Owed;
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
use proto::planted::{Planted, Sound};
use proto::vsync::bugs::Plantings;
use proto::vsync::{
    Config, Delivery, Ending, Knock, Payload, Position, Relayed, ShardId, Time, View, ViewId,
};
use std::cell::RefCell;
use std::rc::Rc;

/// The number of turns for which a slow application takes no messages.
const N_TURNS_FULL: u64 = 24;

/// The number of turns from one look ahead to the next.
const TURNS_TO_A_LOOK: u64 = 8;

/// How far a process is in its view.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub(super) view: Option<ViewId>,
    pub(super) is_wedged: bool,
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
    /// Whether it has relayed blocks in its last turn.
    has_relayed: bool,
    pub(super) is_ended: bool,
    /// Whether it never multicasts.
    pub(super) is_silent: bool,
    /// Whether its application takes no messages for half of the time.
    pub(super) is_slow: bool,
    n_turns: u64,
    /// The states that its application gives later.
    owed: Owed,
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
        objects: Option<objects::Setup>,
    ) -> Process {
        let knock = config.me;
        let port = SimPort::new(knock.seat, Rc::clone(net));
        let n_ballast = (config.shape.message_bytes as usize - 24, n_ballast);
        let now = port.now();
        let places = vec![Place::default(); config.shape.n_subgroups];
        let reads = config.lease.map(|_| Reads::default());
        let mistake = if let Some(Bug::Object(bug)) = bug { Some(bug) } else { None };
        let above = objects.map(|setup| (setup, mistake));
        let life: Box<dyn Life> = match bug {
            None | Some(Bug::Object(_)) => begun(config, disk, Sound, now, above),
            Some(Bug::View(bug)) => begun(config, disk, Planted(bug), now, above),
            Some(Bug::Table(bug)) => begun(config, disk, Planted(bug), now, above),
        };
        Process {
            knock,
            life,
            port,
            date,
            places,
            n_ballast,
            is_ended: false,
            has_relayed: false,
            is_silent,
            is_slow: false,
            n_turns: 0,
            owed: Owed::default(),
            reads,
            reader: Reader::default(),
        }
    }

    pub(super) fn id(&self) -> ProcessId {
        ProcessId::of(&self.knock)
    }

    /// One turn of its loop. Returns the time at which the next one is due.
    pub(super) fn turn(&mut self, record: &mut Record, disk: Option<&mut Disk>) -> Instant {
        let late = self.port.net().borrow_mut().take_late(self.knock.seat.index());
        let now = late.unwrap_or_else(|| self.port.now());
        self.n_turns += 1;
        let ends = self.owed.waits_for_end() && self.is_ending();
        for state in self.owed.due(now, ends) {
            self.life.give(state);
        }
        let mut listener = Listener {
            is_full: self.is_slow && self.n_turns / N_TURNS_FULL % 2 == 1,
            knock: self.knock,
            net: Rc::clone(self.port.net()),
            places: &mut self.places,
            reads: self.reads.as_mut(),
            reader: &mut self.reader,
            turn: self.n_turns,
            now,
            owed: &mut self.owed,
            record,
            n_ballast: self.n_ballast.1,
            is_ended: &mut self.is_ended,
        };
        let mut ground = SimGround { port: &mut self.port, date: self.date, disk };
        let before = self.life.face().relayed();
        let due = self.life.turn(now, &mut ground, &mut listener).due;
        self.note_relayed(before);
        self.note_frontiers(record);
        self.answer(record);
        self.look_ahead(record);
        self.look_again(self.n_turns);
        if self.is_ended {
            self.life.face().copy_held();
        }
        self.owed.next_at().map_or(due, |at| due.min(at))
    }

    /// Notes what it has relayed in a turn.
    fn note_relayed(&mut self, before: Relayed) {
        let after = self.life.face().relayed();
        let (relays, sends_again) =
            (after.n_relayed > before.n_relayed, after.n_again > before.n_again);
        self.has_relayed = relays;
        if relays {
            self.hit(Mark::BlockRelayed);
        }
        if sends_again {
            self.hit(Mark::BlockSentAgain);
        }
    }

    fn hit(&self, mark: Mark) {
        self.port.net().borrow_mut().coverage.hit(mark);
    }

    /// Whether it has relayed blocks in its last turn.
    pub(super) const fn has_relayed(&self) -> bool {
        self.has_relayed
    }

    /// Whether other members are to get blocks by way of it.
    pub(super) fn owes_blocks(&self) -> bool {
        self.life.face().owes_blocks()
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
                position: life.face().position(subgroup).filter(|_| life.face().is_ready()),
                held: life.face().held(subgroup),
                answers_from: life.face().answers_from(subgroup),
            }
        };
        let (now, net) = (self.port.now(), self.port.net());
        let now_ns = net.borrow().now();
        let n_read = reads.answer(standing, (now, now_ns), life.face().lease_until(), record);
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

    /// Writes down what it holds and has not delivered, behind some of its turns.
    fn look_ahead(&mut self, record: &mut Record) {
        if !self.n_turns.is_multiple_of(TURNS_TO_A_LOOK) || self.is_ended {
            return;
        }
        let ground = SimGround { port: &mut self.port, date: self.date, disk: None };
        for (subgroup, place) in self.places.iter().enumerate() {
            let (Some((shard, _)), Some(to)) = (place.is_in, self.life.face().held(subgroup))
            else {
                continue;
            };
            let held = self.life.ahead(subgroup, &ground);
            let named =
                |one: &Delivery| Some((one.at, one.time, app::name(&reader::bytes(&one.message))?));
            // Torn bytes are told when they are delivered.
            let messages: Vec<_> = held.iter().filter_map(named).collect();
            if !messages.is_empty() {
                ground.port.net().borrow_mut().coverage.hit(Mark::LookedAhead);
                record.told.push(Told::Ahead { shard, to, messages });
            }
        }
    }

    /// Writes down what is final now.
    fn note_frontiers(&mut self, record: &mut Record) {
        for (subgroup, place) in self.places.iter_mut().enumerate() {
            let (Some((shard, _)), time) = (place.is_in, self.life.face().frontier(subgroup))
            else {
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

    /// Multicasts one more message in its shard of `subgroup`, if the machine takes it. Three of
    /// four are large, if there is room.
    pub(super) fn multicast(&mut self, subgroup: usize, n_ballast: u64, record: &mut Record) {
        if self.call(subgroup, n_ballast as usize) {
            return;
        }
        let Some(shard) = self.shard_of(self.knock.seat, subgroup) else { return };
        let n_multicast = record.n_multicast.get(&shard).copied().unwrap_or_default();
        let is_large = !(n_multicast + 1).is_multiple_of(4);
        self.say(subgroup, n_ballast as usize % (self.n_ballast.0 + 1), is_large, record);
    }

    /// The same, of so many bytes of ballast, `is_large` or not. Whether the machine took it.
    pub(super) fn say(
        &mut self,
        subgroup: usize,
        n_ballast: usize,
        is_large: bool,
        record: &mut Record,
    ) -> bool {
        if self.call(subgroup, n_ballast) {
            return false;
        }
        let Some(shard) = self.shard_of(self.knock.seat, subgroup) else { return false };
        let n_multicast = record.n_multicast.entry(shard).or_default();
        let ordinal = *n_multicast + 1;
        let ProcessId(sender, incarnation) = self.id();
        let message = app::message(MessageId { shard, sender, incarnation, ordinal }, n_ballast);
        let ground = SimGround { port: &mut self.port, date: self.date, disk: None };
        let blank = is_large.then(|| self.life.blank(&ground)).flatten();
        let (mark, message) = match blank {
            Some(blank) => (Some(Mark::MessageLanded), blank.fill(&message)),
            None if is_large && self.port.has_parcels() => {
                (Some(Mark::MessagePacked), Payload::packed(Bulk::copied(&message)))
            }
            None => (None, message[..].into()),
        };
        let is_taken = self.life.multicast(shard, message);
        if is_taken {
            mark.into_iter().for_each(|mark| self.port.net().borrow_mut().coverage.hit(mark));
            *n_multicast = ordinal;
            record.causes.insert((shard, ordinal), record.latest);
            self.trace(Topic::Propose, ordinal, 0);
        }
        is_taken
    }

    /// Calls the object of `subgroup`. False without objects.
    fn call(&mut self, subgroup: usize, n_ballast: usize) -> bool {
        let (n_most, now_ns) = (self.n_ballast.0, self.port.net().borrow().now());
        let Some(calls) = self.life.calls() else { return false };
        calls.call(subgroup, n_ballast % (n_most + 1), now_ns);
        true
    }

    /// Writes down what its objects' copies have.
    pub(super) fn show_copies(&self, is_last: bool) {
        self.life.calls_ref().into_iter().for_each(|calls| calls.show_copies(is_last));
    }

    /// A call that has no outcome, though all is well.
    pub(super) fn unanswered(&self) -> Option<String> {
        self.life.calls_ref()?.unanswered()
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

    /// Lets its application be slow to give states.
    pub(super) fn owe(&mut self, rng: Rng) {
        self.owed.delay(rng);
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
        self.life.face().view()
    }

    pub(super) fn position(&self, subgroup: usize) -> Option<Position> {
        self.life.face().position(subgroup)
    }

    /// The shard of a subgroup that has the member on `seat`.
    pub(super) fn shard_of(&self, seat: Rank, subgroup: usize) -> Option<ShardId> {
        self.view()?.shard_of(seat, subgroup)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.life.face().is_ready()
    }

    /// Whether it has the log of one before, and is in no view yet.
    pub(super) fn is_returning(&self) -> bool {
        self.life.face().is_returning()
    }

    /// What such a process has promised in a restart, and told; 0 for nothing.
    pub(super) fn promised(&self) -> u64 {
        self.life.face().promised()
    }

    pub(super) fn is_wedged(&self) -> bool {
        self.life.face().is_wedged()
    }

    pub(super) fn stage(&self) -> Stage {
        Stage { view: self.view().map(|view| view.id), is_wedged: self.is_wedged() }
    }

    /// Whether it has accepted a change of its view.
    fn is_ending(&self) -> bool {
        let view = self.view().map(|view| view.id);
        self.endings().iter().any(|row| Some(row.view) == view && row.shown.is_some())
    }

    /// What it says of the ends of its view and of the one before.
    pub(super) fn endings(&self) -> Vec<Ending> {
        self.life.face().endings()
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

/// A process as it begins.
fn begun<P: Plantings>(
    config: Config,
    disk: Option<&mut Disk>,
    planted: P,
    now: Instant,
    above: Option<(objects::Setup, Option<group::simulated::bugs::Bug>)>,
) -> Box<dyn Life> {
    let me = config.me;
    let process = match disk {
        None => engine::group::Process::with(config, planted, now),
        Some(disk) => {
            engine::group::Process::on(config, disk, planted, now).expect("a log of a group")
        }
    };
    match above {
        None => Box::new(process),
        Some((setup, bug)) => Box::new(ObjectLife::new(process, me, setup, bug)),
    }
}
