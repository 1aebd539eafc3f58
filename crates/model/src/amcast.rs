//! Atomic multicast among a few processes, whole: every order in which a few messages can be sent
//! and everything that travels can arrive.
//!
//! The world runs the machines of `proto::amcast`. Links are FIFO and lose nothing (T1, T2); a
//! sender's message travels on links of its own. Ω may name another leader at any moment, at each
//! process separately, as often as [`Bounds::suspicions`] says. A process's crash needs no step of
//! its own: to crash is never to act again, and every prefix of a run is walked.
//!
//! - G1 *Prefix order*: of two processes one's order of common messages begins with the other's.
//! - G2 *Atomic global order*: delivery orders and real time together have no cycle. Real time is
//!   what [`Call::after`] says: a message that is multicast after another was delivered anywhere.
//! - G3 *Delivery*: where nothing more can happen and nobody was suspected, everything is delivered
//!   everywhere.
//!
//! **Bounds**: groups, members, messages and suspicions ([`Bounds`]). Time stands still: nobody
//! asks again for what it lacks, and there is no real clock, so `commit-wait` is not walked.

use crate::World;
use base::{Instant, Rank};
use core::time::Duration;
use proto::amcast::linear::Rule;
use proto::amcast::{
    Config, GroupId, GroupSet, Host, Layout, Message, MessageId, Multicast, Pid, Timestamp, To,
};
use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use std::sync::Arc;

/// One message of a world.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its destinations, by number.
    pub dest: &'static [usize],
    /// It is multicast only once this message was delivered somewhere.
    pub after: Option<usize>,
}

/// How much of the world is walked.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Members of each group.
    pub sizes: &'static [usize],
    /// Which order across groups.
    pub rule: Rule,
    /// Delivered before the walk begins: so that clocks are apart.
    pub prelude: &'static [&'static [usize]],
    /// The messages.
    pub calls: &'static [Call],
    /// At (group, member) Ω names this member of its group, at some moment or never.
    pub suspicions: &'static [(usize, usize, usize)],
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A message is multicast.
    Send(usize),
    /// The oldest parcel of a link (from, to) arrives.
    Arrive(usize, usize),
    /// Ω names another leader at one process.
    Suspect(usize),
}

#[derive(Clone, Debug)]
enum Parcel<W> {
    Start(Arc<Message>),
    Wire(W),
}

/// Something with the hash of how it prints: machines are compared by that.
#[derive(Clone, Debug)]
struct Hashed<T> {
    it: T,
    hash: u64,
}

impl<T: Debug> Hashed<T> {
    fn new(it: T) -> Hashed<T> {
        let mut text = Mixer(0x243f_6a88_85a3_08d3);
        write!(text, "{it:?}").expect("nothing is written anywhere");
        Hashed { it, hash: text.0 }
    }
}

/// A hash of text that is the same on every run and machine.
struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31);
    }
}

impl Write for Mixer {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for chunk in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        Ok(())
    }
}

/// A link's parcels, oldest first.
type Link<W> = VecDeque<Arc<Hashed<Parcel<W>>>>;

/// The whole state.
#[derive(Clone, Debug)]
pub struct Groups<M: Multicast + Clone + Debug> {
    bounds: Bounds,
    pids: Vec<Pid>,
    machines: Vec<Arc<Hashed<M>>>,
    /// By sender (processes first, then calls) and receiver.
    links: Vec<Link<M::Wire>>,
    sent: u32,
    suspected: u32,
    /// What each process delivered, in its order.
    delivered: Vec<Vec<u8>>,
    /// For each message: what was delivered somewhere before it was multicast.
    before: Vec<u32>,
}

struct Outbox<W> {
    sent: Vec<(To, W)>,
    delivered: Vec<MessageId>,
}

impl<W: Clone> Host<W> for Outbox<W> {
    fn send(&mut self, to: To, wire: &W) {
        self.sent.push((to, wire.clone()));
    }

    fn deliver(&mut self, message: &Arc<Message>, _: Timestamp) {
        self.delivered.push(message.id);
    }
}

fn set(groups: &[usize]) -> GroupSet {
    groups.iter().map(|group| GroupId::at(*group)).collect()
}

impl<M: Multicast + Clone + Debug> Groups<M>
where
    M::Wire: Debug,
{
    /// After the prelude, nothing else has happened.
    pub fn new(bounds: Bounds) -> Groups<M> {
        let layout = Layout::new(bounds.sizes);
        let config = Config {
            layout: layout.clone(),
            rule: bounds.rule,
            hybrid: false,
            patience: Duration::from_secs(1),
            retain: usize::MAX,
        };
        let pids: Vec<Pid> = layout.processes(layout.groups()).collect();
        let machines = pids.iter().map(|pid| Arc::new(Hashed::new(M::new(&config, *pid))));
        let n_senders = pids.len() + bounds.calls.len() + bounds.prelude.len();
        let mut world = Groups {
            machines: machines.collect(),
            links: vec![VecDeque::new(); n_senders * pids.len()],
            sent: 0,
            suspected: 0,
            delivered: vec![Vec::new(); pids.len()],
            before: vec![0; bounds.calls.len()],
            bounds,
            pids,
        };
        for (at, dest) in bounds.prelude.iter().enumerate() {
            world.post_start(bounds.calls.len() + at, set(dest));
            let mut steps = Vec::new();
            loop {
                steps.clear();
                world.steps(&mut steps);
                let next = steps.iter().find(|step| matches!(step, Step::Arrive(..)));
                let Some(step) = next else { break };
                let taken = world.take(*step);
                assert_eq!(taken, Ok(()), "one message after another breaks nothing");
            }
        }
        world.delivered.iter_mut().for_each(Vec::clear);
        world
    }

    fn post_start(&mut self, call: usize, dest: GroupSet) {
        let id = MessageId { sender: call as u64, sequence: 0 };
        let message = Message { id, dest, after: Timestamp::ZERO, payload: (*b"").into() };
        let parcel = Arc::new(Hashed::new(Parcel::Start(Arc::new(message))));
        for (to, pid) in self.pids.iter().enumerate() {
            if dest.contains(pid.group) {
                let link = (self.pids.len() + call) * self.pids.len() + to;
                self.links[link].push_back(parcel.clone());
            }
        }
    }

    fn act(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut M, &mut Outbox<M::Wire>),
    ) -> Result<(), String> {
        let mut out = Outbox { sent: Vec::new(), delivered: Vec::new() };
        let mut machine = self.machines[at].it.clone();
        act(&mut machine, &mut out);
        self.machines[at] = Arc::new(Hashed::new(machine));
        for (to, wire) in out.sent {
            let parcel = Arc::new(Hashed::new(Parcel::Wire(wire)));
            for (receiver, pid) in self.pids.iter().enumerate() {
                let is_meant = match to {
                    To::One(one) => one == *pid,
                    To::Groups(groups) => groups.contains(pid.group),
                };
                if is_meant && receiver != at {
                    self.links[at * self.pids.len() + receiver].push_back(parcel.clone());
                }
            }
        }
        for id in out.delivered {
            self.delivered[at].push(id.sender as u8);
            self.judge(at)?;
        }
        Ok(())
    }

    fn dest(&self, call: u8) -> GroupSet {
        set(self.bounds.calls.get(usize::from(call)).map_or(&[], |call| call.dest))
    }

    /// G1 and G2, after a delivery at `at`.
    fn judge(&self, at: usize) -> Result<(), String> {
        let n = self.bounds.calls.len();
        let common = |order: &[u8], with: GroupId| -> Vec<u8> {
            let is_common = |call: &&u8| self.dest(**call).contains(with);
            order.iter().filter(is_common).copied().collect()
        };
        for other in 0..self.pids.len() {
            let mine = common(&self.delivered[at], self.pids[other].group);
            let theirs = common(&self.delivered[other], self.pids[at].group);
            if mine.iter().zip(&theirs).any(|(a, b)| a != b) {
                return Err(format!(
                    "G1: {:?} and {:?}",
                    self.delivered[at], self.delivered[other]
                ));
            }
        }
        // Reachability by squaring: `below[b]` are those that come before b.
        let mut below = self.before.clone();
        for order in &self.delivered {
            for pair in order.windows(2).filter(|pair| pair.iter().all(|one| usize::from(*one) < n))
            {
                below[usize::from(pair[1])] |= 1 << pair[0];
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
            Some(call) => {
                Err(format!("G2: message {call} comes before itself: {:?}", self.delivered))
            }
        }
    }

    fn delivered_anywhere(&self) -> u32 {
        self.delivered.iter().flatten().fold(0, |all, call| all | 1 << call)
    }
}

impl<M: Multicast + Clone + Debug> World for Groups<M>
where
    M::Wire: Debug,
{
    type Step = Step;

    fn steps(&self, out: &mut Vec<Step>) {
        let anywhere = self.delivered_anywhere();
        for (call, of) in self.bounds.calls.iter().enumerate() {
            let may = of.after.is_none_or(|after| anywhere >> after & 1 == 1);
            if self.sent >> call & 1 == 0 && may {
                out.push(Step::Send(call));
            }
        }
        for suspicion in 0..self.bounds.suspicions.len() {
            if self.suspected >> suspicion & 1 == 0 {
                out.push(Step::Suspect(suspicion));
            }
        }
        let n = self.pids.len();
        for (at, link) in self.links.iter().enumerate() {
            if !link.is_empty() {
                out.push(Step::Arrive(at / n, at % n));
            }
        }
    }

    fn take(&mut self, step: Step) -> Result<(), String> {
        let now = Instant(0);
        match step {
            Step::Send(call) => {
                self.sent |= 1 << call;
                self.before[call] = self.delivered_anywhere();
                self.post_start(call, set(self.bounds.calls[call].dest));
                Ok(())
            }
            Step::Suspect(suspicion) => {
                self.suspected |= 1 << suspicion;
                let (group, member, leader) = self.bounds.suspicions[suspicion];
                let pid = Pid { group: GroupId::at(group), rank: Rank::at(member) };
                let at = self.pids.iter().position(|one| *one == pid).expect("it exists");
                self.act(at, |machine, out| machine.trust(Rank::at(leader), now, out))
            }
            Step::Arrive(from, to) => {
                let link = from * self.pids.len() + to;
                let Some(parcel) = self.links[link].pop_front() else { return Ok(()) };
                match &parcel.it {
                    Parcel::Start(message) => {
                        self.act(to, |machine, out| machine.on_start(message, now, out))
                    }
                    Parcel::Wire(wire) => {
                        let from = self.pids[from];
                        self.act(to, |machine, out| machine.on_wire(from, wire, now, out))
                    }
                }
            }
        }
    }

    fn fingerprint(&mut self) -> u64 {
        let mut mixer = Mixer(u64::from(self.sent) << 32 | u64::from(self.suspected));
        self.machines.iter().for_each(|machine| mixer.mix(machine.hash));
        for (at, link) in self.links.iter().enumerate() {
            if !link.is_empty() {
                mixer.mix(at as u64);
                link.iter().for_each(|parcel| mixer.mix(parcel.hash));
            }
        }
        for order in &self.delivered {
            mixer.mix(order.iter().fold(1, |all, call| all << 8 | u64::from(*call)));
        }
        self.before.iter().for_each(|before| mixer.mix(u64::from(*before)));
        mixer.0
    }

    /// G3, where nothing more can happen.
    fn check(&self) -> Result<(), String> {
        let is_over = self.links.iter().all(VecDeque::is_empty) && self.suspected == 0;
        let mut left = Vec::new();
        self.steps(&mut left);
        let is_over = is_over && left.iter().all(|step| matches!(step, Step::Suspect(_)));
        if !is_over {
            return Ok(());
        }
        for (at, pid) in self.pids.iter().enumerate() {
            for (call, of) in self.bounds.calls.iter().enumerate() {
                let is_due = set(of.dest).contains(pid.group);
                if is_due && !self.delivered[at].contains(&(call as u8)) {
                    return Err(format!("G3: {pid:?} never delivers message {call}"));
                }
            }
        }
        Ok(())
    }
}
