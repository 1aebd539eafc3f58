//! Atomic multicast among a few processes, whole: every order in which a few messages can be sent
//! and every parcel under way can arrive.
//!
//! The world runs the machines of `proto::amcast`. Links are FIFO and lose nothing (T1, T2); a
//! sender's message travels on links of its own. Ω may name another leader at any moment, at each
//! process separately, as often as [`Bounds::suspicions`] says. A process's crash needs no step of
//! its own: to crash is never to act again, and every prefix of a run is walked.
//!
//! - G1 *Prefix order*: of two processes one's order of common messages begins with the other's.
//! - G2 *Atomic global order*: delivery orders and real time together have no cycle. Real time is
//!   what [`Call::after`] says: a message that is multicast after another was delivered anywhere.
//! - G3 *Delivery*: where nothing more can happen, everything is delivered everywhere.
//! - G4 *Timestamps*: a message has the same final timestamp wherever it is delivered.
//!
//! **Bounds**: groups, members, messages and suspicions ([`Bounds`]), and in larger worlds the
//! links that may be late ([`Late`]): on the others everything arrives at once. Time stands still:
//! no process repeats a request for what it lacks; real clocks, if there are any, show one moment
//! after another ([`Clocks`]).

mod lab;

use crate::World;
use base::Rank;
use core::time::Duration;
use lab::{Clock, Lab, Mixer, Parcel};
use proto::amcast::linear::Rule;
use proto::amcast::{Config, GroupId, GroupSet, Layout, Message, MessageId, Multicast, Pid};
use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

/// One message of a world.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its destinations, by number.
    pub dest: &'static [usize],
    /// It is multicast only once this message was delivered somewhere.
    pub after: Option<usize>,
}

/// One end of a link: (group, member), or a message's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Any member of a group.
    Group(usize),
    /// One process.
    Process(usize, usize),
    /// The sender of this message.
    Sender(usize),
}

/// The links on which parcels may be late, by any time; on the others they arrive at once, in
/// rounds: first everything that was sent first.
#[derive(Clone, Debug)]
pub enum Late {
    /// On all links.
    Everywhere,
    /// On the links from the one end to the other.
    Only(Vec<(End, End)>),
}

/// The bounds of a world.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Members of each group.
    pub sizes: &'static [usize],
    /// The rule for the order across groups.
    pub rule: Rule,
    /// Whether real time is judged (G2).
    pub judges_realtime: bool,
    /// The messages that are delivered before the walk begins, so that clocks are apart.
    pub prelude: &'static [&'static [usize]],
    /// The messages.
    pub calls: &'static [Call],
    /// At (group, member) Ω names this member of its group, at some moment or never.
    pub suspicions: &'static [(usize, usize, usize)],
    /// The links that are walked in every order.
    pub late: Late,
    /// The real clocks, if there are any.
    pub clocks: Option<Clocks>,
}

/// Real time in a world: it stands still but for as many moments as are listed here.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The moments, in order. Messages are multicast before the last one, which comes when no
    /// message is under way any longer, and is so late that no process has a reason to wait for a
    /// later one.
    pub moments: &'static [u32],
    /// The distance by which each process's clock is ahead of time, or behind it.
    pub skews: &'static [i32],
    /// The largest skew, which is attested.
    pub error: u32,
}

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A message is multicast.
    Send(usize),
    /// The oldest parcel of a link (from, to) arrives.
    Arrive(usize, usize),
    /// Ω names another leader at one process.
    Suspect(usize),
    /// The next moment comes.
    Pass,
}

/// The constant part of a world.
#[derive(Clone, Debug)]
struct Setting {
    bounds: Bounds,
    pids: Vec<Pid>,
    /// Destinations of each call.
    dest: Vec<GroupSet>,
    /// The links on which everything arrives at once.
    prompt: Vec<usize>,
}

/// The whole state, as numbers that the `Lab` gave.
#[derive(Clone)]
pub struct Groups<M: Multicast> {
    setting: Rc<Setting>,
    lab: Rc<RefCell<Lab<M>>>,
    /// Machines; links by sender (processes first, then calls) and receiver; what each process
    /// delivered, in its order; for each call what was delivered anywhere before it was multicast;
    /// the calls that were sent; the suspicions that were spent; how many moments have passed.
    words: Box<[u32]>,
}

fn set(groups: &[usize]) -> GroupSet {
    groups.iter().map(|group| GroupId::at(*group)).collect()
}

impl<M: Multicast + Clone + Debug> Groups<M>
where
    M::Wire: Debug,
{
    /// The world after the prelude and before any other event.
    pub fn new(bounds: Bounds, planted: M::Planted) -> Groups<M> {
        let layout = Layout::new(bounds.sizes);
        let config = Config {
            layout: layout.clone(),
            rule: bounds.rule,
            hybrid: false,
            patience: Duration::from_secs(1),
            commutes: false,
            part_bytes: 64 << 10,
            retain: usize::MAX,
            retain_bytes: usize::MAX,
        };
        let pids: Vec<Pid> = layout.processes(layout.groups()).collect();
        let n = pids.len();
        let calls = bounds.calls.iter().map(|call| call.dest);
        let dest: Vec<GroupSet> = calls.chain(bounds.prelude.iter().copied()).map(set).collect();
        let mut lab = Lab::new(pids.clone());
        let n_links = (n + dest.len()) * n;
        let mut words = vec![0; n + n_links + n + bounds.calls.len() + 3];
        for (at, pid) in pids.iter().enumerate() {
            words[at] = lab.machine(at, M::new(&config, *pid, planted));
        }
        let mut setting = Setting { bounds, pids, dest, prompt: (0..n_links).collect() };
        let mut world = Groups {
            setting: Rc::new(setting.clone()),
            lab: Rc::new(RefCell::new(lab)),
            words: words.into(),
        };
        for at in 0..setting.bounds.prelude.len() {
            world.post(setting.bounds.calls.len() + at);
            let settled = world.settle();
            assert_eq!(settled, Ok(()), "one message after another breaks nothing");
        }
        let (delivered, end) = (world.delivered_at(0), world.delivered_at(n));
        world.words[delivered..end].fill(0);
        setting.prompt.retain(|link| !is_late(&setting.bounds, &setting.pids, *link));
        world.setting = Rc::new(setting);
        world
    }

    fn n(&self) -> usize {
        self.setting.pids.len()
    }

    fn link_at(&self, link: usize) -> usize {
        self.n() + link
    }

    fn n_links(&self) -> usize {
        (self.n() + self.setting.dest.len()) * self.n()
    }

    fn delivered_at(&self, process: usize) -> usize {
        self.n() + self.n_links() + process
    }

    fn before_at(&self, call: usize) -> usize {
        self.delivered_at(self.n()) + call
    }

    /// The place of the sent calls: one bit each.
    fn sent_at(&self) -> usize {
        self.words.len() - 3
    }

    /// The place of the spent suspicions: one bit each.
    fn suspected_at(&self) -> usize {
        self.words.len() - 2
    }

    fn moment_at(&self) -> usize {
        self.words.len() - 1
    }

    /// The reading of the clock of process `at`.
    fn clock(&self, at: usize) -> Clock {
        let clocks = self.setting.bounds.clocks.as_ref()?;
        let now = clocks.moments[self.words[self.moment_at()] as usize];
        Some((now.saturating_add_signed(clocks.skews[at]), clocks.error))
    }

    /// Whether the last moment is here.
    fn is_last(&self) -> bool {
        let clocks = self.setting.bounds.clocks.as_ref();
        clocks
            .is_some_and(|clocks| self.words[self.moment_at()] as usize + 1 == clocks.moments.len())
    }

    fn is_set(&self, word: usize, bit: usize) -> bool {
        self.words[word] >> bit & 1 == 1
    }

    /// Hands a sender's message to every member of every destination.
    fn post(&mut self, call: usize) {
        let dest = self.setting.dest[call];
        let id = MessageId { sender: call as u64, sequence: 0 };
        let message = Message::new(id, dest, *b"");
        let parcel = self.lab.borrow_mut().parcel(Parcel::Start(Arc::new(message)));
        for to in 0..self.n() {
            if dest.contains(self.setting.pids[to].group) {
                self.push((self.n() + call) * self.n() + to, parcel);
            }
        }
    }

    fn push(&mut self, link: usize, parcel: u32) {
        let at = self.link_at(link);
        // Parcel 0 must not look like the end of a queue: numbers in queues are one higher.
        self.words[at] = self.lab.borrow_mut().append(self.words[at], parcel + 1);
    }

    /// Lets the oldest parcel of a link arrive.
    fn arrive(&mut self, link: usize) -> Result<(), String> {
        let at = self.link_at(link);
        let split = self.lab.borrow().split(self.words[at]);
        let Some((parcel, rest)) = split else { return Ok(()) };
        self.words[at] = rest;
        self.act(link % self.n(), parcel - 1)
    }

    fn act(&mut self, at: usize, parcel: u32) -> Result<(), String> {
        let turn = self.lab.borrow_mut().turn(self.words[at], parcel, self.clock(at));
        self.words[at] = turn.machine;
        for &(to, parcel) in &turn.sent {
            self.push(at * self.n() + to, parcel);
        }
        for &(call, ts) in &turn.delivered {
            // The timestamp travels with the call: G4 compares them.
            let item = u32::from(call) | (ts.0 as u32) << 8;
            let order = self.delivered_at(at);
            self.words[order] = self.lab.borrow_mut().append(self.words[order], item + 1);
            self.judge(at)?;
        }
        Ok(())
    }

    /// Lets everything arrive that is not late, in rounds.
    fn settle(&mut self) -> Result<(), String> {
        let setting = self.setting.clone();
        loop {
            let is_full = |link: &usize| self.words[self.link_at(*link)] != 0;
            let round: Vec<usize> = setting.prompt.iter().copied().filter(is_full).collect();
            if round.is_empty() {
                break;
            }
            for link in round {
                self.arrive(link)?;
            }
        }
        Ok(())
    }

    /// The deliveries of a process: calls and timestamps, in order.
    fn order(&self, process: usize) -> Vec<(usize, u32)> {
        let lab = self.lab.borrow();
        let items = lab.items(self.words[self.delivered_at(process)]);
        items.map(|item| ((item - 1) as usize & 0xff, (item - 1) >> 8)).collect()
    }

    /// G1, G2 and G4, after a delivery at `at`.
    fn judge(&self, at: usize) -> Result<(), String> {
        let n = self.setting.bounds.calls.len();
        let orders: Vec<Vec<(usize, u32)>> = (0..self.n()).map(|at| self.order(at)).collect();
        let common = |of: usize, with: usize| {
            let with = self.setting.pids[with].group;
            let is_common =
                move |(call, _): &&(usize, u32)| self.setting.dest[*call].contains(with);
            orders[of].iter().filter(is_common)
        };
        for other in 0..self.n() {
            if common(at, other).zip(common(other, at)).any(|(a, b)| a.0 != b.0) {
                return Err(format!("G1: {:?} and {:?}", orders[at], orders[other]));
            }
            if common(at, other).zip(common(other, at)).any(|(a, b)| a.1 != b.1) {
                return Err(format!("G4: {:?} and {:?}", orders[at], orders[other]));
            }
        }
        if !self.setting.bounds.judges_realtime {
            return Ok(());
        }
        // Reachability by squaring: `below[b]` are those that come before b.
        let mut below = self.words[self.before_at(0)..self.before_at(n)].to_vec();
        for order in &orders {
            for pair in order.windows(2) {
                if let [(a, _), (b, _)] = pair
                    && *a < n
                    && *b < n
                {
                    below[*b] |= 1 << a;
                }
            }
        }
        for _ in 0..n {
            for b in 0..n {
                let more =
                    (0..n).filter(|a| below[b] >> a & 1 == 1).fold(0, |all, a| all | below[a]);
                below[b] |= more;
            }
        }
        match (0..n).find(|a| below[*a] >> a & 1 == 1) {
            None => Ok(()),
            Some(call) => Err(format!("G2: message {call} comes before itself: {orders:?}")),
        }
    }

    fn delivered_anywhere(&self) -> u32 {
        let lab = self.lab.borrow();
        let orders = &self.words[self.delivered_at(0)..self.delivered_at(self.n())];
        let all = orders.iter().flat_map(|order| lab.items(*order));
        all.fold(0, |all, item| all | 1 << ((item - 1) & 0xff))
    }
}

/// Whether a link is one of those that are late.
fn is_late(bounds: &Bounds, pids: &[Pid], link: usize) -> bool {
    let Late::Only(links) = &bounds.late else { return true };
    let (from, to) = (link / pids.len(), link % pids.len());
    let is_at = |end: &End, at: usize| match (end, pids.get(at)) {
        (End::Group(group), Some(pid)) => pid.group == GroupId::at(*group),
        (End::Process(group, member), Some(pid)) => {
            *pid == Pid { group: GroupId::at(*group), rank: Rank::at(*member) }
        }
        (End::Sender(call), None) => at - pids.len() == *call,
        _ => false,
    };
    links.iter().any(|(source, target)| is_at(source, from) && is_at(target, to))
}

impl<M: Multicast + Clone + Debug> World for Groups<M>
where
    M::Wire: Debug,
{
    type Step = Step;

    fn steps(&self, out: &mut Vec<Step>) {
        let bounds = &self.setting.bounds;
        let anywhere = self.delivered_anywhere();
        for (call, of) in bounds.calls.iter().enumerate() {
            let may = of.after.is_none_or(|after| anywhere >> after & 1 == 1);
            if !self.is_set(self.sent_at(), call) && may && !self.is_last() {
                out.push(Step::Send(call));
            }
        }
        for suspicion in 0..bounds.suspicions.len() {
            if !self.is_set(self.suspected_at(), suspicion) {
                out.push(Step::Suspect(suspicion));
            }
        }
        let n = self.n();
        let n_before = out.len();
        for link in 0..self.n_links() {
            if self.words[self.link_at(link)] != 0 {
                out.push(Step::Arrive(link / n, link % n));
            }
        }
        let Some(clocks) = &bounds.clocks else { return };
        let n_left = clocks.moments.len() - 1 - self.words[self.moment_at()] as usize;
        if n_left > 1 || n_left == 1 && out.len() == n_before {
            out.push(Step::Pass);
        }
    }

    fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Send(call) => {
                let (sent, before) = (self.sent_at(), self.before_at(call));
                self.words[sent] |= 1 << call;
                self.words[before] = self.delivered_anywhere();
                self.post(call);
            }
            Step::Suspect(suspicion) => {
                let suspected = self.suspected_at();
                self.words[suspected] |= 1 << suspicion;
                let (group, member, leader) = self.setting.bounds.suspicions[suspicion];
                let pid = Pid { group: GroupId::at(group), rank: Rank::at(member) };
                let at = self.setting.pids.iter().position(|one| *one == pid).expect("it exists");
                let parcel = self.lab.borrow_mut().parcel(Parcel::Trust(Rank::at(leader)));
                self.act(at, parcel)?;
            }
            Step::Arrive(from, to) => self.arrive(from * self.n() + to)?,
            Step::Pass => {
                let moment = self.moment_at();
                self.words[moment] += 1;
                let tick = self.lab.borrow_mut().parcel(Parcel::Tick);
                for at in 0..self.n() {
                    self.act(at, tick)?;
                }
            }
        }
        self.settle()
    }

    fn fingerprint(&mut self) -> u64 {
        let mut mixer = Mixer::default();
        self.words.chunks(2).for_each(|two| {
            mixer.mix(u64::from(two[0]) | u64::from(*two.get(1).unwrap_or(&0)) << 32);
        });
        mixer.0
    }

    /// G3, where nothing more can happen.
    fn check(&self) -> Result<(), String> {
        let mut left = Vec::new();
        self.steps(&mut left);
        if !left.iter().all(|step| matches!(step, Step::Suspect(_))) {
            return Ok(());
        }
        for (at, pid) in self.setting.pids.iter().enumerate() {
            let order = self.order(at);
            for (call, of) in self.setting.bounds.calls.iter().enumerate() {
                let was_sent = self.is_set(self.sent_at(), call);
                let is_due = was_sent && set(of.dest).contains(pid.group);
                if is_due && !order.iter().any(|(delivered, _)| *delivered == call) {
                    return Err(format!("G3: {pid:?} never delivers message {call}"));
                }
            }
        }
        Ok(())
    }
}
