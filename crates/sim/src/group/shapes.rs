//! Experiments about a group's throughput, on hosts and a network with costs ([`crate::costs`]):
//! what the paper measured on clusters that we do not have (paper 000, 4.1, 4.2, 4.5 and 4.6).
//!
//! The processes are those that ship, and the network is that of the sweeps, without faults. A
//! process looks at its rows again and again, as on a NIC that it polls: each time takes it a
//! while, and each message that it says or delivers some more. What is not counted: the copies
//! that processors make of large messages.

use super::history::Told;
use super::hosts::{Hosts, Next};
use super::process::Process;
use crate::Violation;
use crate::costs::Rates;
use crate::plan::MS;
use base::Rank;
use core::time::Duration;
use proto::rdmc::Schedule;
use proto::vsync::{Candidates, Mode, Relaying, Shape, Start, Subgroup, Timing};

/// One look of a process at its rows, and what each message adds.
const LOOK_NS: u64 = 1_000;
const MESSAGE_NS: u64 = 150;
/// The messages of this many bytes or more are sent beside rows.
const LARGE_BYTES: usize = 100 << 10;
/// The virtual time after which an experiment has failed.
const PATIENCE_NS: u64 = 20_000 * MS;

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The hosts.
    pub rates: Rates,
    /// The number of members; the first of them found the group.
    pub n_members: usize,
    /// The number of members that say something, the first ones.
    pub n_senders: usize,
    /// The bytes of a message, at least 24.
    pub message_bytes: usize,
    /// The messages of a sender, in each of its shards.
    pub n_messages: u64,
    /// The most of them that are under way.
    pub window: u32,
    /// The number of members that are slow, the last ones, and the looks at their rows in the time
    /// of a hundred of another one.
    pub slow: (usize, u64),
    /// How shards have members.
    pub shards: Shards,
    /// Whether another process joins, and one leaves, after a third and two thirds of the messages.
    pub changes: bool,
}

/// How the shards of an experiment have members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shards {
    /// One, of all members.
    Whole,
    /// Of so many members that follow each other, each member in one.
    Disjoint(usize),
    /// Of so many members that follow each other, as many as members: each is in several.
    Overlapping(usize),
}

/// What an experiment has shown.
#[derive(Clone, Debug)]
pub struct Shown {
    /// From the first message to the last delivery, at the member that had it last.
    pub virtual_ns: u64,
    /// The bytes of all messages, by that time: GB/s.
    pub gb_per_s: f64,
    /// The number of messages that were delivered at the first member, by that time.
    pub messages_per_s: f64,
    /// The longest time for which the first member delivered nothing, between two deliveries.
    pub longest_silence_ns: u64,
    /// What happened around changes of views at the first member.
    pub changes: Vec<Change>,
}

/// A change of views, as the first member saw it.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// From the demand for it to the wedge...
    pub wedged_ns: u64,
    /// ... to the installed view...
    pub installed_ns: u64,
    /// ... and to the first delivery in that.
    pub delivered_ns: u64,
}

/// A change under way: the demand, the wedge and the installation.
#[derive(Clone, Copy, Debug, Default)]
struct Under {
    asked_at: u64,
    wedged_at: Option<u64>,
    installed_at: Option<u64>,
}

/// What a member says in a subgroup.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// The messages that are still to be said.
    n_left: u64,
    /// Those that it has not delivered itself.
    n_under_way: u64,
    /// When it tries again, if it was refused: to make a large message takes us long.
    again_at: u64,
}

/// An experiment under way.
struct Lab<'a> {
    experiment: &'a Experiment,
    hosts: Hosts,
    /// By seat: its deliveries.
    n_delivered: Vec<u64>,
    /// By seat and subgroup.
    flows: Vec<Vec<Flow>>,
    begun_at: Option<u64>,
    /// The last delivery of each seat.
    last_at: Vec<u64>,
    longest_silence_ns: u64,
    n_changes_asked: usize,
    under: Option<Under>,
    changes: Vec<Change>,
}

/// Runs an experiment.
///
/// # Errors
/// What it violated, or that it did not end.
pub fn run(experiment: &Experiment) -> Result<Shown, Violation> {
    let mut lab = Lab::new(experiment);
    lab.hosts.found();
    lab.run_to_the_end()?;
    Ok(lab.shown())
}

impl Lab<'_> {
    fn new(experiment: &Experiment) -> Lab<'_> {
        let n_seats = experiment.n_members + usize::from(experiment.changes);
        let layout = experiment.shards.layout(experiment.n_members);
        let n_shards = layout.iter().map(|subgroup| subgroup.shards.len()).sum::<usize>().max(1);
        let schedule = Schedule::BinomialPipeline;
        let shape = Shape {
            mode: Mode::Ordered,
            n_seats,
            window: experiment.window,
            message_bytes: experiment.message_bytes.next_multiple_of(8) as u32,
            n_subgroups: layout.len().max(1),
            n_shards,
            n_places: 0,
            relaying: Relaying { schedule, ..Relaying::DEFAULT },
        };
        let timing = Timing {
            beat_every: Duration::from_millis(20),
            suspect_after: Duration::from_secs(60),
            ask_every: Duration::from_millis(5),
        };
        let (rates, n_founders) = (experiment.rates, experiment.n_members);
        let says =
            |seat: usize| if seat < experiment.n_senders { experiment.n_messages } else { 0 };
        let flow = |n_left| Flow { n_left, ..Flow::default() };
        let of_each = |seat| vec![flow(says(seat)); shape.n_subgroups];
        Lab {
            experiment,
            hosts: Hosts::new(rates, (shape, layout), timing, n_founders),
            n_delivered: vec![0; n_seats],
            flows: (0..n_seats).map(of_each).collect(),
            begun_at: None,
            last_at: vec![0; n_seats],
            longest_silence_ns: 0,
            n_changes_asked: 0,
            under: None,
            changes: Vec::new(),
        }
    }

    fn run_to_the_end(&mut self) -> Result<(), Violation> {
        while !self.is_over() {
            let n_delivered = &self.n_delivered;
            let undone =
                || format!("not delivered in {} s: {n_delivered:?}", PATIENCE_NS / MS / 1000);
            match self.hosts.next(PATIENCE_NS, undone)? {
                Next::Run(seat) => self.on_run(seat),
                Next::Phase => unreachable!("nothing is put into the queue here"),
            }
        }
        self.hosts.check()
    }

    /// The number of messages that are delivered at a member in all.
    fn n_owed(&self, seat: usize) -> u64 {
        let Experiment { n_members, n_senders, n_messages, shards, .. } = *self.experiment;
        let senders = |members: &mut dyn Iterator<Item = usize>| {
            members.filter(|member| *member < n_senders).count() as u64 * n_messages
        };
        match shards {
            Shards::Whole => senders(&mut (0..n_members)),
            Shards::Disjoint(size) => {
                let first = seat / size * size;
                senders(&mut (first..first + size))
            }
            Shards::Overlapping(size) => (0..size)
                .map(|back| (seat + n_members - back) % n_members)
                .map(|first| senders(&mut (first..first + size).map(|one| one % n_members)))
                .sum(),
        }
    }

    /// Members that were there from the beginning, and stay, have delivered everything.
    fn is_over(&self) -> bool {
        let Experiment { n_members, changes, .. } = *self.experiment;
        let n_stay = n_members - usize::from(changes);
        self.begun_at.is_some()
            && (0..n_stay).all(|seat| self.n_delivered[seat] >= self.n_owed(seat))
    }

    fn on_run(&mut self, seat: usize) {
        let Hosts { net, processes, history, .. } = &mut self.hosts;
        if !net.borrow().processes[seat].runs() {
            return;
        }
        let now = net.borrow().now();
        let Some(process) = processes[seat].as_mut() else { return };
        process.turn(history.record(process.id()), None);
        let is_ended = process.is_ended;
        let n_heard = self.hear(seat, now);
        let n_said = if is_ended { 0 } else { self.say(seat, now) };
        self.change(seat, now);
        let (n_slow, percent) = self.experiment.slow;
        let is_slow = seat >= self.experiment.n_members - n_slow;
        let look = if is_slow { LOOK_NS * 100 / percent } else { LOOK_NS };
        let busy = look + MESSAGE_NS * (n_heard + n_said);
        if is_ended {
            return self.hosts.end(seat);
        }
        let net = &mut *self.hosts.net.borrow_mut();
        net.processes[seat].busy_until = now + busy;
        net.arm_run(seat, now + busy);
    }

    /// Counts what a member was told in its turn.
    fn hear(&mut self, seat: usize, now: u64) -> u64 {
        let news = self.hosts.news(seat);
        let n = news.iter().filter(|told| matches!(told, Told::Deliver { .. })).count() as u64;
        for told in news {
            if let Told::Deliver { shard, id: message, .. } = told
                && message.sender.index() == seat
            {
                self.flows[seat][usize::from(shard.subgroup)].n_under_way -= 1;
            }
        }
        let installs = news.iter().any(|told| matches!(told, Told::View(_)));
        self.n_delivered[seat] += n;
        if seat == 0 {
            if n > 0 && self.last_at[0] > 0 {
                self.longest_silence_ns = self.longest_silence_ns.max(now - self.last_at[0]);
            }
            self.note_change(now, installs, n > 0);
        }
        if n > 0 {
            self.last_at[seat] = now;
        }
        n
    }

    fn note_change(&mut self, now: u64, installs: bool, delivers: bool) {
        let is_wedged = self.hosts.processes[0].as_ref().is_some_and(Process::is_wedged);
        let Some(under) = &mut self.under else { return };
        if is_wedged || installs {
            under.wedged_at.get_or_insert(now);
        }
        if installs {
            under.installed_at.get_or_insert(now);
        }
        if let (true, Some(wedged_at), Some(installed_at)) =
            (delivers, under.wedged_at, under.installed_at)
        {
            self.changes.push(Change {
                wedged_ns: wedged_at - under.asked_at,
                installed_ns: installed_at - under.asked_at,
                delivered_ns: now - under.asked_at,
            });
            self.under = None;
        }
    }

    /// Says what there is room for, once the group has all its founders.
    fn say(&mut self, seat: usize, now: u64) -> u64 {
        let Hosts { processes, history, .. } = &mut self.hosts;
        let Some(process) = processes[seat].as_mut() else { return 0 };
        let is_whole =
            process.view().is_some_and(|view| view.members.len() >= self.experiment.n_members);
        if !is_whole && self.begun_at.is_none() {
            return 0;
        }
        self.begun_at.get_or_insert(now);
        let record = history.record(process.id());
        let (n_ballast, is_large) =
            (self.experiment.message_bytes - 24, self.experiment.message_bytes >= LARGE_BYTES);
        let mut n_said = 0;
        let window = u64::from(self.experiment.window);
        for (subgroup, flow) in self.flows[seat].iter_mut().enumerate() {
            while flow.n_left > 0 && flow.n_under_way < window && flow.again_at <= now {
                if process.say(subgroup, n_ballast, is_large, record) {
                    flow.n_left -= 1;
                    flow.n_under_way += 1;
                    n_said += 1;
                } else {
                    flow.again_at = now + 2 * LOOK_NS;
                }
            }
        }
        n_said
    }

    /// Lets a process join, and a member leave, in an experiment about changes.
    fn change(&mut self, seat: usize, now: u64) {
        let Experiment { n_members, changes, .. } = *self.experiment;
        if !changes || seat != 0 || self.under.is_some() {
            return;
        }
        let share = self.n_delivered[0] * 3 / self.n_owed(0).max(1);
        if self.n_changes_asked >= (share as usize).min(2) {
            return;
        }
        self.n_changes_asked += 1;
        self.under = Some(Under { asked_at: now, ..Under::default() });
        if self.n_changes_asked == 1 {
            return self.hosts.begin(n_members, Start::Join);
        }
        // (The last of the founders, which says nothing.)
        let Hosts { processes, history, .. } = &mut self.hosts;
        if let Some(leaver) = processes[n_members - 1].as_mut() {
            leaver.leave(history.record(leaver.id()));
        }
    }

    fn shown(self) -> Shown {
        let Experiment { n_senders, n_messages, message_bytes, .. } = *self.experiment;
        let begun_at = self.begun_at.unwrap_or_default();
        let ended_at = self.last_at.iter().copied().max().unwrap_or_default();
        let virtual_ns = ended_at - begun_at;
        let n_shards_of_each = match self.experiment.shards {
            Shards::Overlapping(size) => size as u64,
            Shards::Whole | Shards::Disjoint(_) => 1,
        };
        let n_said = n_senders as u64 * n_messages * n_shards_of_each;
        Shown {
            virtual_ns,
            gb_per_s: (n_said * message_bytes as u64) as f64 / virtual_ns as f64,
            messages_per_s: self.n_delivered[0] as f64 * 1e9 / virtual_ns as f64,
            longest_silence_ns: self.longest_silence_ns,
            changes: self.changes,
        }
    }
}

impl Shards {
    /// The subgroups of so many members.
    fn layout(self, n_members: usize) -> Vec<Subgroup> {
        let shard = |first: usize, size: usize| {
            Candidates::Seats((first..first + size).map(|one| Rank::at(one % n_members)).collect())
        };
        let subgroup = |number: usize, size: usize, firsts: Vec<usize>| Subgroup {
            name: format!("subgroup {number}"),
            shards: firsts.into_iter().map(|first| shard(first, size)).collect(),
            n_least: size,
            n_most: size,
            ..Subgroup::whole()
        };
        match self {
            Shards::Whole => Vec::new(),
            Shards::Disjoint(size) => {
                vec![subgroup(0, size, (0..n_members).step_by(size).collect())]
            }
            // The shards of one subgroup have no member in common.
            Shards::Overlapping(size) => (0..size)
                .map(|at| subgroup(at, size, (at..n_members).step_by(size).collect()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Experiment = Experiment {
        rates: Rates::FRACTUS,
        n_members: 4,
        n_senders: 4,
        message_bytes: 10 << 10,
        n_messages: 50,
        window: 16,
        slow: (0, 100),
        shards: Shards::Whole,
        changes: false,
    };

    fn gb_per_s(experiment: Experiment) -> f64 {
        run(&experiment).unwrap_or_else(|violation| panic!("{experiment:?}: {violation}")).gb_per_s
    }

    /// Paper 000, 4.1: two members at the speed of their memory, more senders use the network
    /// better, and more members cost less than their number.
    #[test]
    fn bandwidth_grows_with_senders_and_falls_slowly_with_members() {
        let large = Experiment { message_bytes: 1 << 20, n_messages: 8, window: 4, ..SMALL };
        let of = |n_members, n_senders| {
            let n_messages = 32 / n_senders as u64;
            gb_per_s(Experiment { n_members, n_senders, n_messages, ..large.clone() })
        };
        let (two, four, eight) = (of(2, 2), of(4, 4), of(8, 8));
        assert!((12.0..=16.0).contains(&two), "{two}: the memory of a host moves 16");
        assert!(two > four && four > eight && eight > two / 3.0, "{two}, {four}, {eight}");
        assert!(of(8, 1) < eight);
        let (one, all) = (gb_per_s(Experiment { n_senders: 1, ..SMALL }), gb_per_s(SMALL));
        assert!(one < all, "{one}, {all}: small messages");
    }

    /// Paper 000, 4.2: what a shard does costs the others nothing.
    #[test]
    fn shards_add_up() {
        let large = Experiment { message_bytes: 1 << 20, n_messages: 6, window: 4, ..SMALL };
        for shards in [Shards::Disjoint(3), Shards::Overlapping(3)] {
            let of = |n_members| {
                let n_senders = n_members;
                gb_per_s(Experiment { n_members, n_senders, shards, ..large.clone() })
            };
            let (few, many) = (of(6), of(12));
            assert!((1.9..2.1).contains(&(many / few)), "{shards:?}: {few}, {many}");
        }
    }

    /// Paper 000, 4.5: the slowest member decides, however many are as slow.
    #[test]
    fn one_slow_member_costs_as_much_as_all() {
        let of = |slow| gb_per_s(Experiment { slow, message_bytes: 104, n_messages: 400, ..SMALL });
        let (sound, one, all) = (of((0, 100)), of((1, 10)), of((4, 10)));
        assert!(one < 0.5 * sound, "{one} of {sound}");
        assert!((0.7..1.3).contains(&(all / one)), "{one}, {all}");
    }

    /// Paper 000, 4.6: a change of members ends what is under way, and is over soon.
    #[test]
    fn a_member_joins_and_one_leaves_under_load() {
        let experiment = Experiment { n_senders: 3, n_messages: 600, changes: true, ..SMALL };
        let shown = run(&experiment).unwrap();
        let [join, leave] = shown.changes[..] else { panic!("{:?}", shown.changes) };
        for change in [join, leave] {
            assert!(change.wedged_ns <= change.installed_ns, "{change:?}");
            assert!(change.installed_ns <= change.delivered_ns, "{change:?}");
        }
        assert!(shown.longest_silence_ns < 200 * MS, "{shown:?}");
    }
}
