//! A process of a simulated group: the machine, sound or with a planted mistake, and the
//! application above it.

use super::app::{self, App};
use super::bugs::Bug;
use super::history::{MessageId, ProcessId, Record, Told};
use crate::Property;
use crate::coverage::Mark;
use crate::net::Net;
use crate::port::SimPort;
use crate::trace::Topic;
use base::{Inbox, Instant, Rank};
use proto::planted::{Planted, Sound};
use proto::vsync::bugs::Plantings;
use proto::vsync::{Config, Delivery, End, Knock, Machine, Output, Position, View, ViewId};
use std::cell::RefCell;
use std::rc::Rc;

/// A machine, whatever is planted in it.
trait Life {
    fn turn(&mut self, inbox: &Inbox, now: Instant, port: &mut SimPort, out: &mut Vec<Output>);
    fn multicast(&mut self, message: &[u8]) -> bool;
    fn leave(&mut self);
    fn suspect(&mut self, seat: Rank);
    fn give(&mut self, to: Rank, at: Position, state: Vec<u8>);
    fn deadline(&self) -> Instant;
    fn view(&self) -> Option<&View>;
    fn position(&self) -> Option<Position>;
    fn is_ready(&self) -> bool;
    fn is_wedged(&self) -> bool;
    fn echoed(&self) -> Option<Rank>;
}

impl<P: Plantings> Life for Machine<P> {
    fn turn(&mut self, inbox: &Inbox, now: Instant, port: &mut SimPort, out: &mut Vec<Output>) {
        inbox.iter().for_each(|event| self.on_event(event, now, port));
        self.poll(now, port, out);
    }

    fn multicast(&mut self, message: &[u8]) -> bool {
        Machine::multicast(self, message).is_ok()
    }

    fn leave(&mut self) {
        Machine::leave(self);
    }

    fn suspect(&mut self, seat: Rank) {
        Machine::suspect(self, seat);
    }

    fn give(&mut self, to: Rank, at: Position, state: Vec<u8>) {
        Machine::give(self, to, at, state);
    }

    fn deadline(&self) -> Instant {
        Machine::deadline(self)
    }

    fn view(&self) -> Option<&View> {
        Machine::view(self)
    }

    fn position(&self) -> Option<Position> {
        Machine::position(self)
    }

    fn is_ready(&self) -> bool {
        Machine::is_ready(self)
    }

    fn is_wedged(&self) -> bool {
        Machine::is_wedged(self)
    }

    fn echoed(&self) -> Option<Rank> {
        Machine::echoed(self)
    }
}

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
    machine: Box<dyn Life>,
    port: SimPort,
    app: App,
    inbox: Inbox,
    out: Vec<Output>,
    /// The most bytes of ballast in its messages, and in its states.
    n_ballast: (usize, usize),
    pub(super) is_ended: bool,
    /// Whether it never multicasts.
    pub(super) is_silent: bool,
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
        let machine: Box<dyn Life> = match bug {
            None => Box::new(Machine::with(config, Sound, now)),
            Some(Bug::View(bug)) => Box::new(Machine::with(config, Planted(bug), now)),
            Some(Bug::Table(bug)) => Box::new(Machine::with(config, Planted(bug), now)),
        };
        Process {
            knock,
            machine,
            port,
            app: App::default(),
            inbox: Inbox::new(),
            out: Vec::new(),
            n_ballast,
            is_ended: false,
            is_silent,
        }
    }

    pub(super) fn id(&self) -> ProcessId {
        ProcessId::of(&self.knock)
    }

    /// One turn of its loop: what the machine says is performed in order, and recorded. Returns the
    /// time at which the next one is due.
    pub(super) fn turn(&mut self, record: &mut Record) -> Instant {
        let now = self.port.now();
        self.inbox.clear();
        self.port.poll(&mut self.inbox);
        self.machine.turn(&self.inbox, now, &mut self.port, &mut self.out);
        let mut gives = false;
        for output in std::mem::take(&mut self.out) {
            gives |= matches!(output, Output::GiveState { .. });
            self.perform(output, record);
        }
        self.port.breaks_are_heard();
        if gives { now } else { self.machine.deadline() }
    }

    fn perform(&mut self, output: Output, record: &mut Record) {
        match output {
            Output::View { view, .. } => {
                if view.members.len() >= 9 {
                    self.hit(Mark::NineMembers);
                }
                self.trace(Topic::Install, view.id.0, view.seats().bits());
                record.told.push(Told::View(view));
            }
            Output::Inadequate { .. } => {}
            Output::Deliver(delivery) => self.execute(&delivery, record),
            Output::GiveState { to, at } => {
                let bytes = self.app.to_bytes(self.n_ballast.1);
                self.machine.give(to, at, bytes);
            }
            Output::TakeState { at, bytes } => match App::from_bytes(&bytes) {
                Some(app) => {
                    self.hit(Mark::StateTaken);
                    self.trace(Topic::NeedState, at.view.0, at.at);
                    record.told.push(Told::Take { at, digest: app.digest() });
                    self.app = app;
                }
                None => self.violate(Property::Digest, format!("the state of {at:?} is torn")),
            },
            Output::Ended(end) => {
                match end {
                    End::Left => self.hit(Mark::MemberLeft),
                    End::Excluded => self.hit(Mark::MemberExcluded),
                    End::Partitioned => self.hit(Mark::MinorityStopped),
                    End::StateLost | End::Overrun | End::Damaged(_) => {}
                }
                self.trace(Topic::Deposed, u64::from(end == End::Left), 0);
                record.told.push(Told::Ended(end));
                self.is_ended = true;
            }
        }
    }

    fn execute(&mut self, delivery: &Delivery, record: &mut Record) {
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
        record.told.push(Told::Deliver { at: delivery.at, id, digest });
    }

    fn trace(&self, topic: Topic, a: u64, b: u64) {
        let net = &mut *self.port.net().borrow_mut();
        net.trace.record(net.queue.now(), self.knock.seat.index(), topic, a, b);
    }

    fn hit(&self, mark: Mark) {
        self.port.net().borrow_mut().coverage.hit(mark);
    }

    fn violate(&self, property: Property, detail: String) {
        self.port.net().borrow_mut().violate(property, detail);
    }

    // ---- the operator's and the clients' calls ----

    /// Multicasts one more message, if the machine takes it.
    pub(super) fn multicast(&mut self, n_ballast: u64, record: &mut Record) {
        let ordinal = record.n_multicast + 1;
        let ProcessId(sender, incarnation) = self.id();
        let n_ballast = n_ballast as usize % (self.n_ballast.0 + 1);
        let message = app::message(MessageId { sender, incarnation, ordinal }, n_ballast);
        if self.machine.multicast(&message) {
            record.n_multicast = ordinal;
            self.trace(Topic::Propose, ordinal, 0);
        }
    }

    pub(super) fn leave(&mut self, record: &mut Record) {
        self.trace(Topic::Operator, 1, 0);
        record.asked_to_leave = true;
        self.machine.leave();
    }

    pub(super) fn suspect(&mut self, seat: Rank) {
        self.trace(Topic::Operator, 2, seat.index() as u64);
        self.machine.suspect(seat);
    }

    // ---- what is seen ----

    pub(super) fn view(&self) -> Option<&View> {
        self.machine.view()
    }

    pub(super) fn position(&self) -> Option<Position> {
        self.machine.position()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.machine.is_ready()
    }

    pub(super) fn is_wedged(&self) -> bool {
        self.machine.is_wedged()
    }

    pub(super) fn stage(&self) -> Stage {
        Stage {
            view: self.view().map(|view| view.id),
            is_wedged: self.is_wedged(),
            proposes: self.machine.echoed() == Some(self.knock.seat),
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
