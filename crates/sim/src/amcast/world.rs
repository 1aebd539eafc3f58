//! Processes, links between them, senders that watch, and time.
//!
//! - W1 A link is FIFO and loses nothing between two processes that live (T1, T2): arrival times
//!   of one link never fall, and equal times keep the order of sending. Asserted on arrival.
//! - W2 Of the messages of a process that died, each link carries a prefix. By construction: a
//!   threshold, drawn once for each link.
//! - W3 Everything is drawn from one seed; equal times are taken in the order of pushing.

mod links;
mod lives;
pub(super) mod recovery;

use super::bytes::round_trip;
use super::counts::Counts;
use super::history::{Happened, History, Meant};
use super::process::{Applied, Delivered, Outbox, Process, Protocol};
use super::questions::Questions;
use super::trace::Trace;
use base::{Incarnation, Instant, Rank, Rng};
use lives::Lives;
use proto::amcast::wire::Wire;
use proto::amcast::{
    About, Config, Cut, FOUNDER, Message, MessageId, Pid, RealClock, Timestamp, To,
};
use recovery::{Disk, Recovery};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

pub(super) const MS: u64 = 1_000_000;

/// The start of the clocks, so that one that is behind does not start below zero.
pub(super) const CLOCK_ORIGIN: u64 = 1_000 * MS;

/// The time that messages travel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Weather {
    /// Always this time: communication steps can be counted.
    Exact(u64),
    /// A time between these, and sometimes up to `gust` longer.
    Windy { least: u64, most: u64, gust: u64, gusts_in_64: u64 },
}

/// The content of a link.
#[derive(Clone, Debug)]
pub(super) enum Parcel<W> {
    Start(Arc<Message>),
    Wire(W),
    /// The incarnation that speaks on this link from now on.
    Hello,
}

#[derive(Clone, Debug)]
pub(super) enum What<W> {
    Arrive {
        link: usize,
        number: u64,
        parcel: Parcel<W>,
    },
    Tick(usize),
    Trust {
        process: usize,
        leader: Rank,
    },
    /// A request for a snapshot.
    Cut {
        process: usize,
        at: Timestamp,
    },
    /// A record of a process's life is on its disk.
    Synced(usize, u64),
    /// A batch of events ends.
    Settle(usize),
    Resume(usize),
    Reconnect(usize),
    /// The plan's next step: the driver knows its meaning.
    Plan(usize),
}

struct Entry<W> {
    at: u64,
    sequence: u64,
    what: What<W>,
}

impl<W> PartialEq for Entry<W> {
    fn eq(&self, other: &Entry<W>) -> bool {
        self.sequence == other.sequence
    }
}

impl<W> Eq for Entry<W> {}

impl<W> PartialOrd for Entry<W> {
    fn partial_cmp(&self, other: &Entry<W>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<W> Ord for Entry<W> {
    /// The heap gives its greatest first: the earliest is the greatest (W3).
    fn cmp(&self, other: &Entry<W>) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

struct Link<W> {
    last_arrival: u64,
    n_sent: u64,
    n_arrived: u64,
    /// The number from which nothing arrives, since the sender died (W2).
    ends_before: Option<u64>,
    /// The numbers under way when one end came back, which never arrive.
    lost: Vec<Range<u64>>,
    cut: bool,
    held: VecDeque<(u64, Parcel<W>)>,
    /// The time that replaces the weather, for scripts.
    fixed: Option<u64>,
    /// The time that it takes longer than the weather.
    distance: u64,
    /// The number from which each incarnation of the sender speaks.
    lives: Vec<(u64, u64)>,
    /// The incarnation that the receiver has met there; 0 for none.
    met: u64,
}

pub(super) struct Seat<W> {
    pub(super) pid: Pid,
    pub(super) machine: Box<dyn Process<W>>,
    pub(super) alive: bool,
    pub(super) paused: bool,
    /// The events that arrived while it was paused.
    pub(super) inbox: VecDeque<What<W>>,
    pub(super) tick_at: Option<u64>,
    pub(super) applied: Applied,
    /// The number of deliveries that the world knows.
    pub(super) n_told: usize,
    /// The results of snapshots that are not reported, each with the number of deliveries before
    /// it.
    pub(super) cuts: VecDeque<(usize, Timestamp, Cut)>,
    /// Whether it is in the middle of a batch.
    pub(super) settles: bool,
    pub(super) disk: Disk<W>,
    /// The offset of its real clock from true time; `None` if the clock is not attested.
    skew: Option<i64>,
}

pub(super) struct World<W> {
    pub(super) about: fn(&W) -> Vec<About>,
    /// The processes on the seats, if members change.
    pub(super) lives: Lives<W>,
    /// The way in which processes come back, if they do.
    pub(super) recovery: Option<Recovery<W>>,
    pub(super) processes: Vec<Seat<W>>,
    links: Vec<Link<W>>,
    heap: BinaryHeap<Entry<W>>,
    pushed: u64,
    pub(super) now: u64,
    pub(super) rng: Rng,
    /// The generator of batches of events. It is separate: a seed's other draws stay unchanged.
    pub(super) batches: Rng,
    questions: Questions,
    weather: Weather,
    commutes: bool,
    clock_error: u64,
    pub(super) history: History,
    pub(super) counts: Counts,
    /// The first deliveries that the driver has not examined yet.
    pub(super) news: VecDeque<MessageId>,
    pub(super) trace: Trace,
}

impl<W: Wire> World<W> {
    pub(super) fn new(
        protocol: &Protocol<W>,
        config: &Config,
        n_senders: usize,
        weather: Weather,
        rng: Rng,
    ) -> World<W> {
        let pids: Vec<Pid> = config.layout.processes(config.layout.groups()).collect();
        let n_links = (pids.len() + n_senders) * pids.len();
        let link = || Link {
            last_arrival: 0,
            n_sent: 0,
            n_arrived: 0,
            ends_before: None,
            lost: Vec::new(),
            cut: false,
            held: VecDeque::new(),
            fixed: None,
            distance: 0,
            lives: Vec::new(),
            met: FOUNDER.0,
        };
        let processes = pids
            .iter()
            .map(|pid| Seat {
                pid: *pid,
                machine: (protocol.new)(config, *pid, protocol.bug),
                alive: true,
                paused: false,
                inbox: VecDeque::new(),
                tick_at: None,
                applied: Vec::new(),
                n_told: 0,
                cuts: VecDeque::new(),
                settles: false,
                disk: Disk::default(),
                skew: Some(0),
            })
            .collect();
        World {
            about: protocol.about,
            lives: Lives::new(protocol, config),
            recovery: None,
            history: History { correct: pids, ..History::default() },
            processes,
            links: (0..n_links).map(|_| link()).collect(),
            heap: BinaryHeap::new(),
            pushed: 0,
            now: 0,
            batches: rng.clone().fork(),
            questions: Questions::draw(&rng, matches!(weather, Weather::Windy { .. })),
            rng,
            weather,
            commutes: config.commutes,
            clock_error: 0,
            counts: Counts::default(),
            news: VecDeque::new(),
            trace: Trace::default(),
        }
    }

    pub(super) fn n_processes(&self) -> usize {
        self.processes.len()
    }

    pub(super) fn pid(&self, process: usize) -> Pid {
        self.processes[process].pid
    }

    pub(super) fn index(&self, pid: Pid) -> usize {
        let found = self.processes.iter().position(|process| process.pid == pid);
        found.expect("the layout has this process")
    }

    pub(super) fn is_alive(&self, process: usize) -> bool {
        self.processes[process].alive
    }

    pub(super) fn machine(&self, process: usize) -> &dyn Process<W> {
        &*self.processes[process].machine
    }

    pub(super) fn push(&mut self, at: u64, what: What<W>) {
        self.pushed += 1;
        self.heap.push(Entry { at: at.max(self.now), sequence: self.pushed, what });
    }

    pub(super) fn plan(&mut self, at: u64, step: usize) {
        self.push(at, What::Plan(step));
    }

    pub(super) fn trust_at(&mut self, at: u64, process: usize, leader: Rank) {
        self.push(at, What::Trust { process, leader });
    }

    /// Gives every process a clock; `None` where it is not attested.
    pub(super) fn set_clocks(&mut self, error: u64, skews: &[Option<i64>]) {
        self.clock_error = error;
        self.processes.iter_mut().zip(skews).for_each(|(process, skew)| process.skew = *skew);
    }

    /// Fixes the time from one process or sender to another.
    pub(super) fn fix_delay(&mut self, from: usize, to: usize, delay: u64) {
        let link = self.link(from, to);
        self.links[link].fixed = Some(delay);
    }

    fn link(&self, from: usize, to: usize) -> usize {
        from * self.processes.len() + to
    }

    fn delay(&mut self, link: usize) -> u64 {
        if let Some(fixed) = self.links[link].fixed {
            return fixed;
        }
        match self.weather {
            Weather::Exact(delay) => delay,
            Weather::Windy { least, most, gust, gusts_in_64 } => {
                let delay = self.rng.range(least, most);
                let has_gust = self.rng.chance(gusts_in_64, 64);
                let gust = if has_gust { self.rng.below(gust) } else { 0 };
                self.links[link].distance + delay + gust
            }
        }
    }

    pub(super) fn post(&mut self, from: usize, to: usize, parcel: Parcel<W>) {
        let link = self.link(from, to);
        let at = (self.now + self.delay(link)).max(self.links[link].last_arrival);
        let of = &mut self.links[link];
        of.last_arrival = at;
        of.n_sent += 1;
        let number = of.n_sent;
        if self.takes_for_another(from, to) {
            // T4.
            self.links[link].lost.push(number..number + 1);
        }
        self.push(at, What::Arrive { link, number, parcel });
    }

    /// Lets sender number `sender` multicast; if it dies half way, only some of the addressed
    /// processes get the message.
    pub(super) fn multicast(&mut self, sender: usize, message: Message, dies: bool) {
        let message = Arc::new(message);
        let (dest, after) = (message.dest, message.after);
        self.keep_to_say_again(sender, &message, dies);
        let meant =
            Meant { dest, after, footprint: message.footprint, is_whole: !dies, at_ns: self.now };
        self.history.meant.insert(message.id, meant);
        self.history.happened.push((self.now, Happened::Multicast(message.id)));
        self.counts.global += u64::from(message.dest.len() > 1);
        self.counts.broken_senders += u64::from(dies);
        self.note(|text| write!(text, "sender {sender} {:?} to {:?}", message.id, message.dest));
        for to in 0..self.processes.len() {
            let is_addressed = message.dest.contains(self.processes[to].pid.group);
            if is_addressed && !(dies && self.rng.chance(1, 2)) {
                let from = self.processes.len() + sender;
                self.post(from, to, Parcel::Start(message.clone()));
            }
        }
    }

    /// Performs the next event; `Some(step)` if it is the plan's.
    ///
    /// # Errors
    /// There is no event up to `limit`.
    pub(super) fn step(&mut self, limit: u64) -> Result<Option<usize>, ()> {
        if self.heap.peek().is_none_or(|entry| entry.at > limit) {
            return Err(());
        }
        let entry = self.heap.pop().ok_or(())?;
        self.now = entry.at;
        match entry.what {
            What::Plan(step) => return Ok(Some(step)),
            What::Resume(process) => self.resume(process),
            What::Synced(process, life) => self.on_synced(process, life),
            What::Reconnect(link) => self.reconnect(link),
            What::Arrive { link, number, parcel } => self.arrive(link, number, parcel),
            what @ (What::Tick(_) | What::Settle(_) | What::Trust { .. } | What::Cut { .. }) => {
                self.handle(what);
            }
        }
        Ok(None)
    }

    /// The next event; `None` if the world is at rest.
    pub(super) fn next_event(&self) -> Option<String> {
        let entry = self.heap.peek()?;
        Some(format!("{:?} at {} ms", entry.what, entry.at / MS))
    }

    fn arrive(&mut self, link: usize, number: u64, parcel: Parcel<W>) {
        let of = &mut self.links[link];
        let is_lost = of.lost.iter().any(|lost| lost.contains(&number));
        if is_lost || of.ends_before.is_some_and(|end| number >= end) {
            return;
        }
        if of.cut {
            of.held.push_back((number, parcel));
            return;
        }
        assert!(number > of.n_arrived, "W1: a link is FIFO");
        of.n_arrived = number;
        self.handle(What::Arrive { link, number, parcel });
    }

    fn target(&self, what: &What<W>) -> usize {
        match what {
            What::Arrive { link, .. } => link % self.processes.len(),
            What::Tick(process)
            | What::Settle(process)
            | What::Trust { process, .. }
            | What::Cut { process, .. } => *process,
            What::Resume(_) | What::Reconnect(_) | What::Synced(..) | What::Plan(_) => {
                unreachable!("handled by the world itself")
            }
        }
    }

    fn handle(&mut self, what: What<W>) {
        let process = self.target(&what);
        if !self.processes[process].alive {
            return;
        }
        if self.processes[process].paused {
            self.processes[process].inbox.push_back(what);
            return;
        }
        let now = Instant(self.now);
        let was_primary = self.processes[process].machine.is_primary();
        let skew = self.processes[process].skew;
        let clock = skew.map(|skew| RealClock {
            now: (CLOCK_ORIGIN + self.now).saturating_add_signed(skew),
            error: self.clock_error,
        });
        let applied = std::mem::take(&mut self.processes[process].applied);
        let n_before = applied.len();
        let commutes = self.commutes;
        let delivered = Delivered { applied, n_before, commutes, ..Delivered::default() };
        let mut out = Outbox::new(delivered, clock);
        let machine = &mut self.processes[process].machine;
        match &what {
            What::Arrive { parcel: Parcel::Start(message), .. } => {
                machine.on_start(message, now, &mut out);
            }
            What::Arrive { link, number, parcel: Parcel::Wire(_) | Parcel::Hello } => {
                let from = self.processes[link / self.processes.len()].pid;
                // T4.
                let of = &mut self.links[*link];
                let life = of.lives.iter().rev().find(|(since, _)| since <= number);
                let life = life.map_or(FOUNDER.0, |(_, life)| *life);
                let is_news = life > of.met;
                of.met = life.max(of.met);
                if is_news && life > FOUNDER.0 {
                    self.processes[process].machine.meet(from, Incarnation(life));
                }
                let machine = &mut self.processes[process].machine;
                if let What::Arrive { parcel: Parcel::Wire(wire), .. } = &what
                    && !(machine.asks(wire) && self.questions.pass_over())
                {
                    machine.on_wire(from, wire, now, &mut out);
                }
            }
            What::Tick(_) => {
                if self.processes[process].tick_at != Some(self.now) {
                    self.processes[process].applied = out.deliveries.applied;
                    return;
                }
                self.processes[process].tick_at = None;
                self.processes[process].machine.tick(now, &mut out);
            }
            What::Trust { leader, .. } => machine.trust(*leader, now, &mut out),
            What::Cut { at, .. } => match machine.cut(*at, now) {
                Ok(()) => {
                    let pid = self.processes[process].pid;
                    self.history.cuts_due.insert((pid, *at));
                }
                Err(_) => self.counts.snapshots_refused += 1,
            },
            What::Settle(_) => self.processes[process].settles = false,
            What::Resume(_) | What::Reconnect(_) | What::Synced(..) | What::Plan(_) => {}
        }
        self.settle(process, now, &mut out);
        self.note_step(process, &what, &out);
        self.take(process, was_primary, out);
    }

    /// Ends a batch with this event, or leaves that to a later one: the consequences wait for its
    /// end. Where steps are counted, every event is a batch.
    fn settle(&mut self, process: usize, now: Instant, out: &mut Outbox<W>) {
        if self.processes[process].settles {
            return;
        }
        let waits = match self.weather {
            Weather::Exact(_) => None,
            Weather::Windy { most, .. } => {
                self.batches.chance(1, 3).then(|| self.batches.below(most / 4 + 1))
            }
        };
        match waits {
            Some(wait) => {
                self.processes[process].settles = true;
                self.push(self.now + wait, What::Settle(process));
            }
            None => self.processes[process].machine.settle(now, out),
        }
    }

    fn take(&mut self, process: usize, was_primary: bool, out: Outbox<W>) {
        let pid = self.processes[process].pid;
        let Outbox { sent, deliveries: Delivered { applied, n_states, cuts, .. }, .. } = out;
        self.counts.states += n_states;
        self.processes[process].cuts.extend(cuts);
        self.processes[process].applied = applied;
        let of = &self.processes[process];
        let unrecorded = of.machine.unrecorded(&of.applied);
        assert_eq!(unrecorded, None, "P7: {pid:?} has delivered it above the floor of its log");
        self.check_marks(process);
        self.hold_back(process, sent);
        self.note_members(process);
        let machine = &self.processes[process].machine;
        if machine.is_primary() && !was_primary {
            self.counts.new_primaries += 1;
            let others = self.processes.iter().enumerate().filter(|(at, other)| {
                *at != process && other.alive && other.pid.group == pid.group
            });
            let n_others = others.filter(|(_, other)| other.machine.is_primary()).count();
            self.counts.two_primaries += u64::from(n_others > 0);
        }
        let machine = &self.processes[process].machine;
        let Some(at) = machine.deadline().map(|at| at.0.max(self.now + 1)) else { return };
        if self.processes[process].tick_at.is_none_or(|set| at < set) {
            self.processes[process].tick_at = Some(at);
            self.push(at, What::Tick(process));
        }
    }

    pub(super) fn send(&mut self, from: usize, to: To, wire: &W) {
        self.counts.sent += 1;
        if self.counts.sent.is_multiple_of(61) {
            round_trip(wire);
        }
        let targets: Vec<usize> = match to {
            To::One(pid) => vec![self.index(pid)],
            To::Groups(groups) => (0..self.processes.len())
                .filter(|to| groups.contains(self.processes[*to].pid.group))
                .collect(),
        };
        for to in targets {
            if to != from {
                self.check_genuine(from, to, wire);
                self.post(from, to, Parcel::Wire(wire.clone()));
            }
        }
    }

    /// Kills the process. Each link still carries a prefix of its messages (W2).
    pub(super) fn crash(&mut self, process: usize) {
        let machine = &self.processes[process].machine;
        self.counts.crashes += 1;
        self.counts.crashes_of_primaries += u64::from(machine.is_primary());
        self.processes[process].alive = false;
        let pid = self.processes[process].pid;
        if self.recovery.is_some() {
            self.lose_power(process);
        } else {
            self.history.correct.retain(|correct| *correct != pid);
        }
        self.note(|text| write!(text, "{pid:?} dies"));
        for to in 0..self.processes.len() {
            let link = self.link(process, to);
            let of = &self.links[link];
            let end = of.n_arrived + 1 + self.rng.below(of.n_sent - of.n_arrived + 1);
            self.links[link].ends_before = Some(end);
            self.links[link].held.retain(|(number, _)| *number < end);
        }
    }

    pub(super) fn pause(&mut self, process: usize, until: u64) {
        if !self.processes[process].paused {
            self.counts.pauses += 1;
            self.processes[process].paused = true;
            self.push(until, What::Resume(process));
        }
    }

    fn resume(&mut self, process: usize) {
        self.processes[process].paused = false;
        while let Some(what) = self.processes[process].inbox.pop_front() {
            // Events that were due in the meantime are due now.
            if let What::Tick(_) = what {
                self.processes[process].tick_at = Some(self.now);
            }
            self.handle(what);
        }
    }

    pub(super) fn cut(&mut self, from: usize, to: usize, until: u64) {
        let link = self.link(from, to);
        if !self.links[link].cut {
            self.counts.cuts += 1;
            self.links[link].cut = true;
            self.push(until, What::Reconnect(link));
        }
    }

    fn reconnect(&mut self, link: usize) {
        self.links[link].cut = false;
        while let Some((number, parcel)) = self.links[link].held.pop_front() {
            self.arrive(link, number, parcel);
        }
    }
}
