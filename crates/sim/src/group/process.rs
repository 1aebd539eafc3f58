//! A process of a simulated group, as it ships (`engine::group`), sound or with a planted mistake;
//! and the application above it.

use super::app::{self, App};
use super::bugs::Bug;
use super::history::{MessageId, ProcessId, Record, Told};
use crate::Property;
use crate::coverage::Mark;
use crate::trace::Topic;
use crate::world::net::Net;
use crate::world::port::SimPort;
use base::{Inbox, Instant, Rank};
use engine::group::{self, Application, Ground, Installed, Turn};
use proto::planted::{Planted, Sound};
use proto::vsync::bugs::Plantings;
use proto::vsync::{Config, Delivery, End, Knock, Payload, Position, View, ViewId};
use std::cell::RefCell;
use std::rc::Rc;

/// A process of a group as it ships, whatever is planted in it.
trait Life {
    fn turn(&mut self, now: Instant, port: &mut SimPort, listener: &mut Listener<'_>) -> Turn;
    fn multicast(&mut self, message: Payload) -> bool;
    fn leave(&mut self);
    fn suspect(&mut self, seat: Rank);
    fn view(&self) -> Option<&View>;
    fn position(&self) -> Option<Position>;
    fn is_ready(&self) -> bool;
    fn is_wedged(&self) -> bool;
    fn echoed(&self) -> Option<Rank>;
}

impl<P: Plantings> Life for group::Process<P> {
    fn turn(&mut self, now: Instant, port: &mut SimPort, listener: &mut Listener<'_>) -> Turn {
        group::Process::turn(self, now, port, listener)
    }

    fn multicast(&mut self, message: Payload) -> bool {
        group::Process::multicast(self, message).is_ok()
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

    fn position(&self) -> Option<Position> {
        group::Process::position(self)
    }

    fn is_ready(&self) -> bool {
        group::Process::is_ready(self)
    }

    fn is_wedged(&self) -> bool {
        group::Process::is_wedged(self)
    }

    fn echoed(&self) -> Option<Rank> {
        group::Process::echoed(self)
    }
}

impl Ground for SimPort {
    fn poll(&mut self, inbox: &mut Inbox) {
        SimPort::poll(self, inbox);
    }

    fn flush(&mut self) {
        self.breaks_are_heard();
    }
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

/// A process: one incarnation on a seat.
pub(super) struct Process {
    pub(super) knock: Knock,
    life: Box<dyn Life>,
    port: SimPort,
    app: App,
    /// The most bytes of ballast in its messages, and in its states.
    n_ballast: (usize, usize),
    pub(super) is_ended: bool,
    /// Whether it never multicasts.
    pub(super) is_silent: bool,
    /// Whether its application takes no messages for half of the time.
    pub(super) is_slow: bool,
    n_turns: u64,
}

impl Process {
    pub(super) fn new(
        config: Config,
        bug: Option<Bug>,
        net: &Rc<RefCell<Net>>,
        n_ballast: usize,
        is_silent: bool,
    ) -> Process {
        let knock = config.me;
        let port = SimPort::new(knock.seat, Rc::clone(net));
        let n_ballast = (config.shape.message_bytes as usize - 24, n_ballast);
        let now = port.now();
        let life: Box<dyn Life> = match bug {
            None => Box::new(group::Process::with(config, Sound, now)),
            Some(Bug::View(bug)) => Box::new(group::Process::with(config, Planted(bug), now)),
            Some(Bug::Table(bug)) => Box::new(group::Process::with(config, Planted(bug), now)),
        };
        Process {
            knock,
            life,
            port,
            app: App::default(),
            n_ballast,
            is_ended: false,
            is_silent,
            is_slow: false,
            n_turns: 0,
        }
    }

    pub(super) fn id(&self) -> ProcessId {
        ProcessId::of(&self.knock)
    }

    /// One turn of its loop. Returns the time at which the next one is due.
    pub(super) fn turn(&mut self, record: &mut Record) -> Instant {
        let now = self.port.now();
        self.n_turns += 1;
        let mut listener = Listener {
            is_full: self.is_slow && self.n_turns / N_TURNS_FULL % 2 == 1,
            knock: self.knock,
            net: Rc::clone(self.port.net()),
            app: &mut self.app,
            record,
            n_ballast: self.n_ballast.1,
            is_ended: &mut self.is_ended,
        };
        self.life.turn(now, &mut self.port, &mut listener).due
    }

    fn trace(&self, topic: Topic, a: u64, b: u64) {
        let net = &mut *self.port.net().borrow_mut();
        net.trace.record(net.queue.now(), self.knock.seat.index(), topic, a, b);
    }

    // ---- the operator's and the clients' calls ----

    /// Multicasts one more message, if the machine takes it.
    pub(super) fn multicast(&mut self, n_ballast: u64, record: &mut Record) {
        let ordinal = record.n_multicast + 1;
        let ProcessId(sender, incarnation) = self.id();
        let n_ballast = n_ballast as usize % (self.n_ballast.0 + 1);
        let message = app::message(MessageId { sender, incarnation, ordinal }, n_ballast);
        if self.life.multicast(message[..].into()) {
            record.n_multicast = ordinal;
            self.trace(Topic::Propose, ordinal, 0);
        }
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

    pub(super) fn position(&self) -> Option<Position> {
        self.life.position()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.life.is_ready()
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

    pub(super) fn digest(&self) -> u64 {
        self.app.digest()
    }

    /// The number of messages of `process` that it has executed, by the ordinal of the last.
    pub(super) fn executed(&self, process: ProcessId) -> u64 {
        self.app.last_of(process)
    }
}

/// The application of a process during a turn: it executes what it is told, and records it.
struct Listener<'a> {
    is_full: bool,
    knock: Knock,
    net: Rc<RefCell<Net>>,
    app: &'a mut App,
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

impl Application for Listener<'_> {
    fn install(&mut self, Installed { view, .. }: Installed) {
        if view.members.len() >= 9 {
            self.hit(Mark::NineMembers);
        }
        self.trace(Topic::Install, view.id.0, view.seats().bits());
        self.record.told.push(Told::View(view));
    }

    fn inadequate(&mut self, _: usize) {}

    fn deliver(&mut self, delivery: Delivery) {
        let Some(id) = app::name(&delivery.message) else {
            let detail = format!("{} delivered torn bytes at {:?}", self.knock.seat, delivery.at);
            return self.violate(Property::Validity, detail);
        };
        if ProcessId(id.sender, id.incarnation) != ProcessId::of(&delivery.sender) {
            let detail = format!("{id:?} was delivered as a message of {:?}", delivery.sender);
            return self.violate(Property::Validity, detail);
        }
        self.trace(Topic::Deliver, delivery.at.at, id.ordinal << 8 | id.sender.index() as u64);
        self.app.execute(id);
        let digest = self.app.digest();
        self.record.told.push(Told::Deliver { at: delivery.at, id, digest });
    }

    fn give(&mut self, _: Rank, _: Position) -> Option<Vec<u8>> {
        Some(self.app.to_bytes(self.n_ballast))
    }

    fn take(&mut self, at: Position, bytes: Vec<u8>) {
        match App::from_bytes(&bytes) {
            Some(app) => {
                self.hit(Mark::StateTaken);
                self.trace(Topic::NeedState, at.view.0, at.at);
                self.record.told.push(Told::Take { at, digest: app.digest() });
                *self.app = app;
            }
            None => self.violate(Property::Digest, format!("the state of {at:?} is torn")),
        }
    }

    fn end(&mut self, end: End) {
        match end {
            End::Left => self.hit(Mark::MemberLeft),
            End::Excluded => self.hit(Mark::MemberExcluded),
            End::Partitioned => self.hit(Mark::MinorityStopped),
            End::StateLost | End::Overrun | End::Damaged(_) => {}
        }
        self.trace(Topic::Deposed, u64::from(end == End::Left), 0);
        self.record.told.push(Told::Ended(end));
        *self.is_ended = true;
    }

    fn is_full(&self) -> bool {
        self.is_full
    }
}
