//! Machines, parcels and queues by number, and the turn of each machine with each parcel, once.
//!
//! A process of a small world is in one of some thousand states, in millions of states of the
//! world. So states of machines are numbered, and a turn (a machine, a parcel) is taken once and
//! then looked up: a machine is deterministic.
//!
//! - I1 Equal numbers mean equal hashes of the printed text, and hence equal things (64 bits, as
//!   everywhere here). Equal things have equal numbers.

use proto::amcast::outbox::Outbox;
use proto::amcast::{Message, Multicast, Pid, RealClock, Timestamp, To};
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::Arc;

/// A hash that is the same on every run and machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mixer(pub(super) u64);

impl Default for Mixer {
    fn default() -> Mixer {
        Mixer(0x243f_6a88_85a3_08d3)
    }
}

impl Mixer {
    pub(super) fn mix(&mut self, word: u64) {
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

/// Few things by key, in order: most machines meet a handful of parcels.
type Few<K, T> = Vec<(K, T)>;

fn find<K: Ord, T>(few: &Few<K, T>, key: &K) -> Result<usize, usize> {
    few.binary_search_by(|(of, _)| of.cmp(key))
}

/// The input of a machine.
#[derive(Clone, Debug)]
pub(super) enum Parcel<W> {
    /// A sender's message.
    Start(Arc<Message>),
    /// A message from this process.
    Wire(Pid, W),
    /// Ω names this member.
    Trust(base::Rank),
    /// Time has passed.
    Tick,
}

/// Things by number, from 0.
#[derive(Debug)]
struct Numbered<T> {
    all: Vec<T>,
    by_hash: BTreeMap<u64, u32>,
}

impl<T: Debug> Numbered<T> {
    fn new() -> Numbered<T> {
        Numbered { all: Vec::new(), by_hash: BTreeMap::new() }
    }

    /// I1.
    fn number(&mut self, it: T) -> u32 {
        let mut text = Mixer::default();
        write!(text, "{it:?}").expect("nothing is written anywhere");
        let next = self.all.len() as u32;
        let number = *self.by_hash.entry(text.0).or_insert(next);
        if number == next {
            self.all.push(it);
        }
        number
    }
}

/// The result of a machine's step with a parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// The machine afterwards.
    pub(super) machine: u32,
    /// The messages that it sends: the receiver and the parcel.
    pub(super) sent: Vec<(usize, u32)>,
    /// The deliveries: the call, and the final timestamp.
    pub(super) delivered: Vec<(u8, Timestamp)>,
}

/// All machines, parcels and queues that ever occurred.
#[derive(Debug)]
pub(super) struct Lab<M: Multicast> {
    pids: Vec<Pid>,
    machines: Numbered<M>,
    /// The process of each machine.
    owners: Vec<u8>,
    parcels: Numbered<Parcel<M::Wire>>,
    /// The turns of each machine, by parcel and clock.
    turns: Vec<Few<(u32, Clock), Arc<Turn>>>,
    /// Queues of small numbers: the first, and the rest as another queue. 0 is the empty one.
    queues: Vec<(u32, u32)>,
    /// A queue out of its first and its rest.
    queue_of: BTreeMap<(u32, u32), u32>,
    /// The queue that each queue becomes with an item at its end.
    longer: Vec<Few<u32, u32>>,
}

/// The reading of a process's clock and its error, if the clock is attested.
pub(super) type Clock = Option<(u32, u32)>;

impl<M: Multicast + Clone + Debug> Lab<M>
where
    M::Wire: Debug,
{
    pub(super) fn new(pids: Vec<Pid>) -> Lab<M> {
        Lab {
            pids,
            machines: Numbered::new(),
            owners: Vec::new(),
            parcels: Numbered::new(),
            turns: Vec::new(),
            queues: vec![(0, 0)],
            queue_of: BTreeMap::new(),
            longer: vec![Vec::new()],
        }
    }

    /// A state of process `at`.
    pub(super) fn machine(&mut self, at: usize, machine: M) -> u32 {
        let number = self.machines.number(machine);
        if number as usize == self.owners.len() {
            self.owners.push(at as u8);
            self.turns.push(Vec::new());
        }
        number
    }

    pub(super) fn parcel(&mut self, parcel: Parcel<M::Wire>) -> u32 {
        self.parcels.number(parcel)
    }

    /// Takes the turn of a machine with a parcel, or looks it up.
    pub(super) fn turn(&mut self, machine: u32, parcel: u32, clock: Clock) -> Arc<Turn> {
        let known = &self.turns[machine as usize];
        if let Ok(found) = find(known, &(parcel, clock)) {
            return known[found].1.clone();
        }
        let now = base::Instant(0);
        let at = usize::from(self.owners[machine as usize]);
        let mut next = self.machines.all[machine as usize].clone();
        let reading = |(now, error): (u32, u32)| RealClock { now: now.into(), error: error.into() };
        let mut out = Outbox::new(Vec::new(), clock.map(reading));
        match &self.parcels.all[parcel as usize] {
            Parcel::Start(message) => next.on_start(message, now, &mut out),
            Parcel::Wire(from, wire) => next.on_wire(*from, wire, now, &mut out),
            Parcel::Tick => next.tick(now, &mut out),
            Parcel::Trust(leader) => next.trust(*leader, now, &mut out),
        }
        // Every event is a batch of its own.
        next.settle(now, &mut out);
        let mut sent = Vec::new();
        for (to, wire) in out.sent {
            let parcel = self.parcels.number(Parcel::Wire(self.pids[at], wire));
            let is_meant = |pid: &Pid| match to {
                To::One(one) => one == *pid,
                To::Groups(groups) => groups.contains(pid.group),
            };
            let receivers = self.pids.iter().enumerate().filter(|(_, pid)| is_meant(pid));
            sent.extend(receivers.filter(|(to, _)| *to != at).map(|(to, _)| (to, parcel)));
        }
        let delivered = out.deliveries.into_iter();
        let delivered = delivered.map(|(id, at)| (id.sender as u8, at)).collect();
        let machine_after = self.machine(at, next);
        let turn = Arc::new(Turn { machine: machine_after, sent, delivered });
        let known = &mut self.turns[machine as usize];
        let place = find(known, &(parcel, clock)).unwrap_or_else(|place| place);
        known.insert(place, ((parcel, clock), turn.clone()));
        turn
    }

    /// The first of a queue, and the rest.
    pub(super) fn split(&self, queue: u32) -> Option<(u32, u32)> {
        (queue != 0).then(|| self.queues[queue as usize])
    }

    /// A queue with one more at its end.
    pub(super) fn append(&mut self, queue: u32, item: u32) -> u32 {
        let known = &self.longer[queue as usize];
        if let Ok(found) = find(known, &item) {
            return known[found].1;
        }
        let of = match self.split(queue) {
            None => (item, 0),
            Some((first, rest)) => (first, self.append(rest, item)),
        };
        let next = self.queues.len() as u32;
        let longer = *self.queue_of.entry(of).or_insert(next);
        if longer == next {
            self.queues.push(of);
            self.longer.push(Vec::new());
        }
        let known = &mut self.longer[queue as usize];
        let place = find(known, &item).unwrap_or_else(|place| place);
        known.insert(place, (item, longer));
        longer
    }

    /// The items in a queue.
    pub(super) fn items(&self, mut queue: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::from_fn(move || {
            let (first, rest) = self.split(queue)?;
            queue = rest;
            Some(first)
        })
    }
}
