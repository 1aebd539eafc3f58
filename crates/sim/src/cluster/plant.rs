//! The environment of a simulated member: the world's network, its clocks, and a planted mistake.

use crate::Property;
use crate::checks::Claimed;
use crate::checks::served::Served;
use crate::checks::stamped::Stamped;
use crate::world::net::Net;
use crate::world::port::SimPort;
use base::verb::Relay;
use base::{Inbox, Instant, Rank};
use engine::{Bug, Claim, Plant};
use kv::door;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::disk::Platter;

/// The most bytes in the pipe of a client that does not read.
pub(super) const UNREAD_BYTES_MAX: usize = 4 << 10;

/// The seats, as clients reach them.
pub(super) fn seats_of(members: usize) -> Vec<door::Member> {
    let seat = |at| door::Member { id: at as u16 + 1, host: "member".to_owned(), port: 6379 };
    (0..members).map(seat).collect()
}

/// The environment of the module's text.
pub(super) struct SimPlant {
    port: SimPort,
    has_disk: bool,
    bug: Option<Bug>,
    /// Told the time by [`Plant::now`].
    served: RefCell<Served>,
    stamped: Stamped,
}

impl SimPlant {
    /// `asked`: see [`SimPort::on_disk`].
    pub(super) fn new(
        (me, net): (Rank, Rc<RefCell<Net>>),
        asked: Option<Rc<Cell<usize>>>,
        bug: Option<Bug>,
    ) -> SimPlant {
        let has_disk = asked.is_some();
        net.borrow_mut().claimed.versions.begin(me);
        let mut port = SimPort::new(me, net);
        port.on_disk(asked);
        SimPlant { port, has_disk, bug, served: RefCell::default(), stamped: Stamped::default() }
    }

    /// The turn continues that was stopped when it had been told the time, if it was.
    pub(super) fn wake(&self) {
        self.port.net().borrow_mut().take_late(self.port.me().index());
    }

    /// Notes that the reports of breaks have been handled (fabric T10).
    pub(super) fn breaks_are_heard(&mut self) {
        self.port.breaks_are_heard();
    }
}

impl Relay for SimPlant {
    type Port = SimPort;

    fn port(&self) -> &SimPort {
        &self.port
    }

    fn port_mut(&mut self) -> &mut SimPort {
        &mut self.port
    }
}

impl Plant for SimPlant {
    type Disk = Platter;

    fn now(&self) -> Instant {
        let late = self.port.net().borrow().processes[self.port.me().index()].late;
        let now = late.unwrap_or_else(|| self.port.now());
        self.served.borrow_mut().told(now, self.port.net().borrow().claimed.executed);
        now
    }

    fn boot_now(&self) -> Instant {
        self.now()
    }

    fn wall_ms(&self) -> u64 {
        let net = self.port.net().borrow();
        net.processes[self.port.me().index()].wall.at(net.now()) / crate::plan::MS
    }

    fn flush(&mut self) {}

    fn poll(&mut self, inbox: &mut Inbox) {
        self.port.poll(inbox);
    }

    fn lead(&mut self, leads: bool) {
        self.stamped.lead();
        self.port.net().borrow_mut().processes[self.port.me().index()].leads = leads;
    }

    /// Nothing is damaged in this world, so the code itself made any damage that it finds.
    fn say(&mut self, line: &str) {
        let me = self.port.me();
        let detail = format!("{me} says: {line}");
        self.port.net().borrow_mut().violate(Property::Validity, detail);
    }

    fn claim(&mut self, claim: Claim<'_>) {
        let (net, now) = (self.port.net().clone(), self.port.now());
        let net = &mut *net.borrow_mut();
        let served = self.served.get_mut();
        let Claimed { executed: executed_by_some, answered, ends, versions } = &mut net.claimed;
        let mut verdict = Ok(()); // I24, of what was executed, said or confirmed
        match claim {
            Claim::Executed(prefix) => *executed_by_some = prefix.max(*executed_by_some),
            Claim::Ends { prefix, head } => verdict = ends.said(prefix, head, self.has_disk),
            Claim::CheckBegins(ticket) => served.begins(ticket, now),
            Claim::CheckPasses(ticket) => served.passes(ticket),
            Claim::Performs { came, executed } => verdict = served.performs(came, executed),
            Claim::Executes { of, number, slot } => answered.executes(of, number, slot),
            Claim::Tells { of, number, slot } => verdict = answered.tells(of, number, slot),
            Claim::PerformsFor { of, number } => answered.performs(of, number),
            Claim::TellsRead { of, number } => verdict = answered.tells_read(of, number),
            Claim::Keeps { key, tag } => versions.keeps(self.port.me(), key, tag),
            Claim::OfKey(claim) => verdict = versions.claims(self.port.me(), claim),
            Claim::Observes { state_ms, evidence, at } => {
                self.stamped.observes(state_ms, evidence, at);
            }
            Claim::Stamps { unix_ms, state_ms, at } => {
                if let Err(detail) = self.stamped.stamps(unix_ms, state_ms, at) {
                    net.violate(Property::StateTime, format!("at {}: {detail}", self.port.me()));
                }
            }
        }
        if let Err(detail) = verdict {
            net.violate(Property::Answer, format!("at {}: {detail}", self.port.me()));
        }
    }

    fn claims(&mut self, claims: impl Iterator<Item = Claim<'static>>) {
        claims.for_each(|claim| self.claim(claim));
    }

    fn has_planted(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}
