//! Processes that ship, on hosts and a network with costs ([`crate::costs`]) and without faults:
//! what experiments run on.

use super::Kind;
use super::date::Date;
use super::history::{History, Told};
use super::process::Process;
use super::world::knock;
use crate::areas::Areas;
use crate::costs::{Costs, Rates};
use crate::plan::Weather;
use crate::queue::Happening;
use crate::trace::Trace;
use crate::world::net::Net;
use crate::world::outage::Outages;
use crate::{Property, Provider, Violation};
use base::Rng;
use proto::vsync::{self, Shape, Start, Subgroup, Timing};
use std::cell::RefCell;
use std::rc::Rc;

/// The hosts of one group.
pub(super) struct Hosts {
    pub(super) net: Rc<RefCell<Net>>,
    areas: Areas,
    pub(super) shape: Shape,
    layout: Vec<Subgroup>,
    timing: Timing,
    n_founders: usize,
    /// By seat.
    pub(super) processes: Vec<Option<Process>>,
    pub(super) history: History,
    /// By seat: the entries of its record that were looked at.
    n_told: Vec<usize>,
}

/// What an experiment has to do next.
pub(super) enum Next {
    /// A turn of the process on this seat.
    Run(usize),
    /// What it has put into the network's queue.
    Phase,
}

impl Hosts {
    /// Hosts for the seats of `shape`, on which no process runs yet.
    pub(super) fn new(
        rates: Rates,
        (shape, layout): (Shape, Vec<Subgroup>),
        timing: Timing,
        n_founders: usize,
    ) -> Hosts {
        let weather = Weather {
            provider: Provider::Tcp,
            latency_ns: rates.latency_ns,
            jitter_ns: 0,
            spike: 1,
            tear: 0,
            tear_ns: 1,
            notice_ns: None,
            late_effects: false,
            interleaves: false,
            n_messages_max: None,
            unevenness: 0,
        };
        let (n_seats, n_words) = (shape.n_seats, vsync::region(&shape).n_words as usize);
        let mut net = Net::new(n_seats, 0, n_words, weather, Rng::new(1), Trace::new(false));
        net.costs = Some(Costs::new(rates, n_seats));
        Hosts {
            net: Rc::new(RefCell::new(net)),
            areas: Areas::default(),
            shape,
            layout,
            timing,
            n_founders,
            processes: (0..n_seats).map(|_| None).collect(),
            history: History::default(),
            n_told: vec![0; n_seats],
        }
    }

    /// Begins the founders, on the first seats.
    pub(super) fn found(&mut self) {
        let founders: Vec<_> = (0..self.n_founders).map(|seat| knock(seat, 1)).collect();
        for seat in 0..self.n_founders {
            self.begin(seat, Start::Found(founders.clone()));
        }
    }

    /// Begins a process, with links to all founders.
    pub(super) fn begin(&mut self, seat: usize, start: Start) {
        let is_founder = matches!(start, Start::Found(_));
        let life = Outages::begin_process(&mut self.net.borrow_mut(), seat);
        let config = vsync::Config {
            me: knock(seat, u64::from(life)),
            start,
            shape: self.shape,
            timing: self.timing,
            n_adequate: 1,
            keeps_state: false,
            lease: None,
            group: 1,
            keep_bytes: u64::MAX,
            layout: self.layout.clone(),
        };
        let below = (&self.net, None, Date::draw(Kind::Durable, &mut Rng::new(0)));
        let mut process = Process::new(config, None, below, 0, false, None);
        process.look_into(self.areas.clone());
        self.processes[seat] = Some(process);
        let net = &mut *self.net.borrow_mut();
        for peer in (0..self.n_founders).filter(|peer| *peer != seat) {
            let (out, back) = (net.link_index(seat, peer), net.link_index(peer, seat));
            net.connect(out);
            if !is_founder {
                net.connect(back);
            }
        }
        let now = net.now();
        net.arm_run(seat, now);
    }

    /// Ends the process on a seat, and its links.
    pub(super) fn end(&mut self, seat: usize) {
        let net = &mut *self.net.borrow_mut();
        net.processes[seat].alive = false;
        for peer in (0..net.members).filter(|peer| *peer != seat) {
            net.break_link(net.link_index(seat, peer));
            net.break_link(net.link_index(peer, seat));
        }
    }

    /// Has the network do what is due before the experiment's next step. If no step is due before
    /// `until_ns`, `undone` says what has not come about.
    ///
    /// # Errors
    /// What was violated.
    pub(super) fn next(
        &mut self,
        until_ns: u64,
        undone: impl FnOnce() -> String,
    ) -> Result<Next, Violation> {
        loop {
            self.check()?;
            let net = &mut *self.net.borrow_mut();
            match net.queue.pop_until(until_ns) {
                Some(Happening::Verb(link)) => net.on_verb(link as usize),
                Some(Happening::Completion(link)) => net.on_completion(link as usize),
                Some(Happening::Left(seat)) => net.on_left(seat as usize),
                Some(Happening::Run(seat)) => return Ok(Next::Run(seat as usize)),
                Some(Happening::Phase) => return Ok(Next::Phase),
                Some(other) => unreachable!("{other:?} is of another world"),
                None => {
                    let (at_ns, property) = (net.now(), Property::Liveness);
                    return Err(Violation { at_ns, property, detail: undone() });
                }
            }
        }
    }

    /// # Errors
    /// What was violated.
    pub(super) fn check(&self) -> Result<(), Violation> {
        self.net.borrow_mut().violation.take().map_or(Ok(()), Err)
    }

    /// What the process on a seat was told since this was asked for last.
    pub(super) fn news(&mut self, seat: usize) -> &[Told] {
        let Some(process) = &self.processes[seat] else { return &[] };
        let told = &self.history.record(process.id()).told;
        let n_before = std::mem::replace(&mut self.n_told[seat], told.len());
        &told[n_before..]
    }
}
