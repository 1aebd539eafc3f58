//! What a change of views costs in larger groups, on hosts and a network with costs
//! ([`crate::costs`]).
//!
//! The processes are those that ship. A process looks at its rows when something of them was
//! written, or its deadline has come; a look takes a while, and longer the more members there are.
//! A fabric that counts writes is assumed ([`base::Port::n_writes`]): rows that no process has
//! written are not read again.

use super::history::Told;
use super::hosts::{Hosts, Next};
use crate::Violation;
use crate::costs::Rates;
use crate::plan::MS;
use crate::queue::Happening;
use crate::world::net::Net;
use base::Rank;
use core::time::Duration;
use proto::vsync::{self, Candidates, Mode, Relaying, Shape, Start, Subgroup, Timing, ViewId};

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
    hosts: Hosts,
    /// By seat: when it says the next message.
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
    rack.hosts.found();
    rack.run_to_the_end()?;
    Ok(rack.shown())
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
        let timing = Timing {
            beat_every: Duration::from_millis(20),
            suspect_after: Duration::from_millis(70),
            ask_every: Duration::from_millis(50),
        };
        Rack {
            experiment,
            clock,
            hosts: Hosts::new(rates, (shape, layout), timing, n_members),
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

    fn run_to_the_end(&mut self) -> Result<(), Violation> {
        self.hosts.net.borrow_mut().queue.push(CHANGE_AT_NS, Happening::Phase);
        let undone = || format!("no next view in {} s", PATIENCE_NS / MS / 1000);
        while !self.is_over() {
            match self.hosts.next(PATIENCE_NS, undone)? {
                Next::Run(seat) => self.on_run(seat),
                Next::Phase => self.change(),
            }
        }
        self.hosts.check()
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
            Cause::Join => self.hosts.begin(last + 1, Start::Join),
            Cause::Crash => self.hosts.end(last),
        }
    }

    fn on_run(&mut self, seat: usize) {
        let Hosts { net, processes, history, .. } = &mut self.hosts;
        if !net.borrow().processes[seat].runs() {
            return;
        }
        let now = net.borrow().now();
        let Some(process) = processes[seat].as_mut() else { return };
        let began = (self.clock)();
        let due = process.turn(history.record(process.id()), None);
        if seat == 0 && self.noticed_at.is_some() {
            self.n_turns += 1;
            self.leader_ns += (self.clock)() - began;
        }
        if self.has_changed && self.noticed_at.is_none() && process.is_wedged() {
            self.noticed_at = Some(now);
            self.sent_before = sent(&net.borrow());
        }
        self.hear(seat, now);
        let again_at = self.say(seat, now);
        let busy_until = now + LOOK_NS + ROW_NS * self.experiment.n_members as u64;
        let net = &mut *self.hosts.net.borrow_mut();
        net.processes[seat].busy_until = busy_until;
        let due = net.processes[seat].clock.when(due);
        net.arm_run(seat, due.min(again_at));
    }

    /// Notes what a member was told in its turn.
    fn hear(&mut self, seat: usize, now: u64) {
        for told in self.hosts.news(seat) {
            match told {
                Told::View(view) if view.id > ViewId::FIRST => self.installed.note(seat, now),
                Told::Deliver { at, .. } if at.view > ViewId::FIRST => {
                    self.delivered.note(seat, now);
                }
                _ => {}
            }
        }
    }

    /// Says what is to be said now. Returns when the next turn is due for that.
    fn say(&mut self, seat: usize, now: u64) -> u64 {
        let Experiment { n_senders, say_every_ns, .. } = self.experiment;
        let greets = seat == 0 && self.installed.0[0].is_some() && !self.has_greeted;
        let is_load = say_every_ns > 0 && seat < n_senders && now >= self.say_at[seat];
        let Hosts { processes, history, .. } = &mut self.hosts;
        let Some(process) = processes[seat].as_mut().filter(|_| greets || is_load) else {
            let speaks = say_every_ns > 0 && seat < n_senders;
            return if speaks { self.say_at[seat] } else { u64::MAX };
        };
        let record = history.record(process.id());
        let is_taken = process.say(0, 0, false, record);
        self.has_greeted |= greets && is_taken;
        if is_load {
            self.say_at[seat] = now + say_every_ns;
        }
        // What was taken is sent in the next turn.
        now
    }

    fn shown(self) -> Shown {
        let shape = &self.hosts.shape;
        let sent = sent(&self.hosts.net.borrow());
        let meanwhile = sent.iter().zip(&self.sent_before);
        let meanwhile: Vec<(u64, u64)> =
            meanwhile.map(|(after, before)| (after.0 - before.0, after.1 - before.1)).collect();
        let noticed_at = self.noticed_at.unwrap_or(CHANGE_AT_NS);
        let first_at = self.installed.0.iter().flatten().copied().min();
        let since = |at: Option<u64>| at.unwrap_or(noticed_at).saturating_sub(noticed_at);
        Shown {
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
        }
    }
}

/// What each host has sent: WRITEs and messages, and their bytes on the wire.
fn sent(net: &Net) -> Vec<(u64, u64)> {
    net.costs.iter().flat_map(|costs| costs.sent()).collect()
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
