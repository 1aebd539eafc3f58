//! What a change of views costs in larger groups, on hosts and a network with costs
//! ([`crate::costs`]).
//!
//! The processes are those that ship. A process looks at its rows when something of them was
//! written, or its deadline has come; a look takes a while, and longer the more members there are.
//! A fabric that counts writes is assumed ([`base::Port::n_writes`]): rows that no process has
//! written are not read again.

use super::Kind;
use super::date::Date;
use super::history::{History, Told};
use super::process::Process;
use super::world::knock;
use crate::costs::{Costs, Rates};
use crate::plan::{MS, Weather};
use crate::queue::Happening;
use crate::trace::Trace;
use crate::world::net::Net;
use crate::world::outage::Outages;
use crate::{Property, Provider, Violation};
use base::{Rank, Rng};
use core::time::Duration;
use proto::vsync::{self, Candidates, Mode, Relaying, Shape, Start, Subgroup, Timing, ViewId};
use std::cell::RefCell;
use std::rc::Rc;

/// What a look of a process at its rows takes, and how much more for each row.
const LOOK_NS: u64 = 1_000;
const ROW_NS: u64 = 50;
/// The time at which senders begin, and that at which the change is asked for.
const LOAD_AT_NS: u64 = 30 * MS;
const CHANGE_AT_NS: u64 = 50 * MS;
/// The virtual time after which an experiment has failed.
const PATIENCE_NS: u64 = 5_000 * MS;
/// The bytes of a message.
const MESSAGE_BYTES: u32 = 64;

/// Why a view ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The last member dies, and the others suspect it for its silence.
    Crash,
    /// A process asks to be let in.
    Join,
}

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The hosts.
    pub rates: Rates,
    /// The number of members, at least three.
    pub n_members: usize,
    /// The number of members that multicast, the first ones: less than that.
    pub n_senders: usize,
    /// The nanoseconds between two messages of a sender; 0 for no message.
    pub say_every_ns: u64,
    /// Why the view ends.
    pub cause: Cause,
}

/// What an experiment has shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// From the death to the first suspicion, or from the wish to the first wedge.
    pub noticed_ns: u64,
    /// From then to the first member's next view...
    pub first_installed_ns: u64,
    /// ... to the last one's...
    pub installed_ns: u64,
    /// ... and to the last one's first delivery in that view.
    pub delivered_ns: u64,
    /// WRITEs and messages that all members posted meanwhile, and the one that posted most.
    pub n_posted: u64,
    /// See above.
    pub n_posted_most: u64,
    /// The bytes of these on the wire.
    pub wire_bytes: u64,
    /// See above.
    pub wire_bytes_most: u64,
    /// The turns of the leader meanwhile, and the time that its machine took for them, by the
    /// caller's clock.
    pub n_turns: u64,
    /// See above.
    pub leader_ns: u64,
    /// The bytes of the rows and rings of all seats in the memory of one member.
    pub region_bytes: u64,
    /// The bytes of one row.
    pub row_bytes: u64,
}

/// When something happened at each member, and to how many it has happened.
#[derive(Clone, Debug)]
struct Times(Vec<Option<u64>>);

impl Times {
    fn note(&mut self, seat: usize, now: u64) {
        self.0[seat].get_or_insert(now);
    }

    fn last(&self) -> Option<u64> {
        self.0.iter().flatten().copied().max()
    }
}

/// An experiment under way.
struct Rack<'a> {
    experiment: Experiment,
    clock: &'a mut dyn FnMut() -> u64,
    net: Rc<RefCell<Net>>,
    shape: Shape,
    layout: Vec<Subgroup>,
    processes: Vec<Option<Process>>,
    history: History,
    /// By seat: the entries of its record that were looked at, and when it says the next message.
    n_told: Vec<usize>,
    say_at: Vec<u64>,
    has_changed: bool,
    noticed_at: Option<u64>,
    /// What hosts had sent then.
    sent_before: Vec<(u64, u64)>,
    installed: Times,
    delivered: Times,
    /// Whether the leader has said something in the next view.
    has_greeted: bool,
    n_turns: u64,
    leader_ns: u64,
}

/// Runs an experiment. `clock` has nanoseconds of a processor.
///
/// # Errors
/// What it violated, or that it did not end.
pub fn run(experiment: &Experiment, clock: &mut dyn FnMut() -> u64) -> Result<Shown, Violation> {
    let mut rack = Rack::new(*experiment, clock);
    let founders: Vec<_> = (0..experiment.n_members).map(|seat| knock(seat, 1)).collect();
    for seat in 0..experiment.n_members {
        rack.be_born(seat, Start::Found(founders.clone()));
    }
    rack.run_to_the_end()?;
    rack.shown()
}

impl<'a> Rack<'a> {
    fn new(experiment: Experiment, clock: &'a mut dyn FnMut() -> u64) -> Rack<'a> {
        let Experiment { rates, n_members, n_senders, .. } = experiment;
        let n_seats = n_members + usize::from(experiment.cause == Cause::Join);
        // Turns of members that have nothing to say would be the greater part of the load.
        let senders = Candidates::Seats((0..n_senders).map(Rank::at).collect());
        let name = "all".to_owned();
        let layout = vec![Subgroup { name, senders, ..Subgroup::whole() }];
        let shape = Shape {
            mode: Mode::Ordered,
            n_seats,
            window: 4,
            message_bytes: MESSAGE_BYTES,
            n_subgroups: 1,
            n_shards: 1,
            n_places: 0,
            relaying: Relaying::DEFAULT,
        };
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
        let n_words = vsync::region(&shape).n_words as usize;
        let mut net = Net::new(n_seats, 0, n_words, weather, Rng::new(1), Trace::new(false));
        net.costs = Some(Costs::new(rates, n_seats));
        Rack {
            experiment,
            clock,
            net: Rc::new(RefCell::new(net)),
            shape,
            layout,
            processes: (0..n_seats).map(|_| None).collect(),
            history: History::default(),
            n_told: vec![0; n_seats],
            say_at: vec![LOAD_AT_NS; n_seats],
            has_changed: false,
            noticed_at: None,
            sent_before: Vec::new(),
            installed: Times(vec![None; n_seats]),
            delivered: Times(vec![None; n_seats]),
            has_greeted: false,
            n_turns: 0,
            leader_ns: 0,
        }
    }

    fn be_born(&mut self, seat: usize, start: Start) {
        let is_founder = matches!(start, Start::Found(_));
        let life = Outages::begin_process(&mut self.net.borrow_mut(), seat);
        let config = vsync::Config {
            me: knock(seat, u64::from(life)),
            start,
            shape: self.shape,
            timing: Timing {
                beat_every: Duration::from_millis(20),
                suspect_after: Duration::from_millis(70),
                ask_every: Duration::from_millis(50),
            },
            n_adequate: 1,
            keeps_state: false,
            lease: None,
            group: 1,
            keep_bytes: u64::MAX,
            layout: self.layout.clone(),
        };
        let below = (&self.net, None, Date::draw(Kind::Durable, &mut Rng::new(0)));
        self.processes[seat] = Some(Process::new(config, None, below, 0, false, None));
        let net = &mut *self.net.borrow_mut();
        for peer in (0..self.experiment.n_members).filter(|peer| *peer != seat) {
            let (out, back) = (net.link_index(seat, peer), net.link_index(peer, seat));
            net.connect(out);
            if !is_founder {
                net.connect(back);
            }
        }
        let now = net.now();
        net.arm_run(seat, now);
    }

    fn run_to_the_end(&mut self) -> Result<(), Violation> {
        self.net.borrow_mut().queue.push(CHANGE_AT_NS, Happening::Phase);
        while !self.is_over() {
            let next = self.net.borrow_mut().queue.pop_until(PATIENCE_NS);
            match next {
                Some(Happening::Verb(link)) => self.net.borrow_mut().on_verb(link as usize),
                Some(Happening::Left(seat)) => self.net.borrow_mut().on_left(seat as usize),
                Some(Happening::Run(seat)) => self.on_run(seat as usize),
                Some(Happening::Phase) => self.change(),
                Some(other) => unreachable!("{other:?} is of another world"),
                None => self.net.borrow_mut().violate(
                    Property::Liveness,
                    format!("no next view in {} s", PATIENCE_NS / MS / 1000),
                ),
            }
            if let Some(violation) = self.net.borrow_mut().violation.take() {
                return Err(violation);
            }
        }
        Ok(())
    }

    /// The seats of the next view.
    fn survivors(&self) -> core::ops::Range<usize> {
        let Experiment { n_members, cause, .. } = self.experiment;
        match cause {
            Cause::Crash => 0..n_members - 1,
            Cause::Join => 0..n_members + 1,
        }
    }

    fn is_over(&self) -> bool {
        self.survivors().all(|seat| self.delivered.0[seat].is_some())
    }

    /// Ends the view.
    fn change(&mut self) {
        self.has_changed = true;
        let last = self.experiment.n_members - 1;
        match self.experiment.cause {
            Cause::Join => self.be_born(last + 1, Start::Join),
            Cause::Crash => {
                let net = &mut *self.net.borrow_mut();
                net.processes[last].alive = false;
                for peer in 0..last {
                    net.break_link(net.link_index(last, peer));
                    net.break_link(net.link_index(peer, last));
                }
            }
        }
    }

    fn on_run(&mut self, seat: usize) {
        if !self.net.borrow().processes[seat].runs() {
            return;
        }
        let now = self.net.borrow().now();
        let Some(process) = self.processes[seat].as_mut() else { return };
        let began = (self.clock)();
        let due = process.turn(self.history.record(process.id()), None);
        if seat == 0 && self.noticed_at.is_some() {
            self.n_turns += 1;
            self.leader_ns += (self.clock)() - began;
        }
        if self.has_changed && self.noticed_at.is_none() && process.is_wedged() {
            self.noticed_at = Some(now);
            let net = self.net.borrow();
            self.sent_before = net.costs.iter().flat_map(|costs| costs.sent()).collect();
        }
        self.hear(seat, now);
        let again_at = self.say(seat, now);
        let busy_until = now + LOOK_NS + ROW_NS * self.experiment.n_members as u64;
        let net = &mut *self.net.borrow_mut();
        net.processes[seat].busy_until = busy_until;
        let due = net.processes[seat].clock.when(due);
        net.arm_run(seat, due.min(again_at));
    }

    /// Notes what a member was told in its turn.
    fn hear(&mut self, seat: usize, now: u64) {
        let Some(process) = self.processes[seat].as_ref() else { return };
        let told = &self.history.record(process.id()).told;
        for told in &told[self.n_told[seat]..] {
            match told {
                Told::View(view) if view.id > ViewId::FIRST => self.installed.note(seat, now),
                Told::Deliver { at, .. } if at.view > ViewId::FIRST => {
                    self.delivered.note(seat, now);
                }
                _ => {}
            }
        }
        self.n_told[seat] = told.len();
    }

    /// Says what is to be said now. Returns when the next turn is due for that.
    fn say(&mut self, seat: usize, now: u64) -> u64 {
        let Experiment { n_senders, say_every_ns, .. } = self.experiment;
        let greets = seat == 0 && self.installed.0[0].is_some() && !self.has_greeted;
        let is_load = say_every_ns > 0 && seat < n_senders && now >= self.say_at[seat];
        let Some(process) = self.processes[seat].as_mut().filter(|_| greets || is_load) else {
            let speaks = say_every_ns > 0 && seat < n_senders;
            return if speaks { self.say_at[seat] } else { u64::MAX };
        };
        let record = self.history.record(process.id());
        let is_taken = process.say(0, 0, false, record);
        self.has_greeted |= greets && is_taken;
        if is_load {
            self.say_at[seat] = now + say_every_ns;
        }
        // What was taken is sent in the next turn.
        now
    }

    fn shown(self) -> Result<Shown, Violation> {
        let shape = &self.shape;
        let net = self.net.borrow();
        let sent: Vec<(u64, u64)> = net.costs.iter().flat_map(|costs| costs.sent()).collect();
        let meanwhile = sent.iter().zip(&self.sent_before);
        let meanwhile: Vec<(u64, u64)> =
            meanwhile.map(|(after, before)| (after.0 - before.0, after.1 - before.1)).collect();
        let noticed_at = self.noticed_at.unwrap_or(CHANGE_AT_NS);
        let first_at = self.installed.0.iter().flatten().copied().min();
        let since = |at: Option<u64>| at.unwrap_or(noticed_at).saturating_sub(noticed_at);
        Ok(Shown {
            noticed_ns: noticed_at - CHANGE_AT_NS,
            first_installed_ns: since(first_at),
            installed_ns: since(self.installed.last()),
            delivered_ns: since(self.delivered.last()),
            n_posted: meanwhile.iter().map(|sent| sent.0).sum(),
            n_posted_most: meanwhile.iter().map(|sent| sent.0).max().unwrap_or(0),
            wire_bytes: meanwhile.iter().map(|sent| sent.1).sum(),
            wire_bytes_most: meanwhile.iter().map(|sent| sent.1).max().unwrap_or(0),
            n_turns: self.n_turns,
            leader_ns: self.leader_ns,
            region_bytes: 8 * u64::from(vsync::region(shape).n_words),
            row_bytes: 8 * u64::from(vsync::row_words(shape)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(n_members: usize, cause: Cause, say_every_ns: u64) -> Shown {
        let (rates, n_senders) = (Rates::FRACTUS, 4.min(n_members - 1));
        let experiment = Experiment { rates, n_members, n_senders, say_every_ns, cause };
        run(&experiment, &mut || 0)
            .unwrap_or_else(|violation| panic!("{experiment:?}: {violation}"))
    }

    /// What each member posts grows with the members, and so what all do with their square.
    #[test]
    fn a_change_of_views_costs_each_member_so_much_for_each_other_one() {
        for cause in [Cause::Crash, Cause::Join] {
            let (few, many) = (shown(8, cause, 0), shown(70, cause, MS));
            for shown in [few, many] {
                assert!(shown.first_installed_ns <= shown.installed_ns, "{shown:?}");
                assert!(shown.installed_ns <= shown.delivered_ns, "{shown:?}");
                assert!(shown.delivered_ns < 10 * MS, "{shown:?}");
            }
            let each = |shown: Shown, n_members: u64| shown.n_posted / n_members / (n_members - 1);
            assert!(each(many, 70) <= 3 * each(few, 8), "{few:?}, {many:?}");
        }
    }
}
