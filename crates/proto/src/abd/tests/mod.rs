//! ABD in a little world: messages are late, overtake each other, are lost or come twice, and
//! members end and begin again.
//!
//! Judged by tags, which is more than a client can see: what an operation ends with has a tag that
//! is not below that of any operation that had ended when it began, and a write's is above.

mod golden;
mod limits;
mod schedules;
mod stage;

use super::bugs::Bug;
use super::*;
use crate::keyed::{End, Tag};
use crate::planted::{Bugs, Planted, Sound};
use alloc::collections::BTreeSet;
use alloc::string::String;
use base::verb::Unsupported;
use base::{At, Incarnation, Port, Rng, Token};

const KEY: &[u8] = b"key";

/// A member's process: its registers, what it sends, and what has ended.
#[derive(Debug, Default)]
struct Process {
    registers: BTreeMap<Vec<u8>, (Tag, Vec<u8>)>,
    sent: Vec<(Rank, Vec<u8>)>,
    /// Whether nothing more can be sent.
    is_full: bool,
    ended: Vec<(Ticket, Ended)>,
    /// Tags by the values that they belong to.
    tags: BTreeMap<Vec<u8>, Tag>,
    /// How long the values are that writes give, at least.
    value_bytes: usize,
}

/// An [`End`], kept.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    Value(Vec<u8>),
    Written,
    NotDone,
    Unknown,
}

/// What the write `ticket` gives its key.
fn value_of(ticket: u64, value_bytes: usize) -> Vec<u8> {
    let mut value = ticket.to_le_bytes().to_vec();
    value.resize(value_bytes.max(8), 0);
    value
}

impl Port for Process {
    fn load(&self, _: At) -> u64 {
        0
    }
    fn load_into(&self, _: At, _: &mut [u64]) {}
    fn store(&mut self, _: At, _: u64) {}
    fn write(&mut self, _: Rank, _: At, _: &[u64], _: Option<Token>) {}
    fn read(&mut self, _: Rank, _: At, _: usize, _: Token) {}
    fn cas(&mut self, _: Rank, _: At, _: u64, _: u64, _: Option<Token>) {}
    fn fetch_add(&mut self, _: Rank, _: At, _: u64, _: Option<Token>) {}
    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        if !self.is_full {
            self.sent.push((to, message.to_vec()));
        }
        !self.is_full
    }
    fn wake(&mut self, _: Rank) {}
    fn permit_writer(&mut self, _: At, _: Option<Rank>) -> Result<(), Unsupported> {
        Ok(())
    }
}

impl KeyedHost for Process {
    fn register(&self, key: &[u8]) -> Option<(Tag, &[u8])> {
        self.registers.get(key).map(|(tag, value)| (*tag, value.as_slice()))
    }

    fn put_register(&mut self, key: &[u8], tag: Tag, value: &[u8]) {
        self.tags.insert(value.to_vec(), tag);
        self.registers.insert(key.to_vec(), (tag, value.to_vec()));
    }

    fn next_register(&self, after: Option<&[u8]>) -> Option<(&[u8], Tag, &[u8])> {
        let mut later =
            self.registers.iter().filter(|(key, _)| after.is_none_or(|at| &key[..] > at));
        later.next().map(|(key, (tag, value))| (key.as_slice(), *tag, value.as_slice()))
    }

    fn compute(&mut self, ticket: Ticket, _: &[u8], new: &mut Vec<u8>) -> bool {
        new.extend_from_slice(&value_of(ticket.0, self.value_bytes));
        true
    }

    fn end(&mut self, ticket: Ticket, end: End<'_>) {
        let ended = match end {
            End::Value(value) => Ended::Value(value.to_vec()),
            End::Written => Ended::Written,
            End::NotDone => Ended::NotDone,
            End::Unknown => Ended::Unknown,
        };
        self.ended.push((ticket, ended));
    }
}

type Member<P> = (Abd<P>, Process);

struct World<P> {
    planted: P,
    rng: Rng,
    /// How many of 200 things that happen are the beginning of an operation: with 30 mail piles up
    /// and most operations meet their deadlines, with 6 most end.
    load: u64,
    now: Instant,
    members: Vec<Member<P>>,
    runs: u64,
    mail: Vec<(Rank, Rank, Vec<u8>)>,
    /// Of open operations: whether they write, and what had to be seen.
    open: BTreeMap<u64, (bool, Tag)>,
    floor: Tag,
    tags: BTreeMap<Vec<u8>, Tag>,
    n_done: usize,
    n_merged: u64,
    n_tickets: u64,
}

impl<P: Planting<Bug>> World<P> {
    fn new(n: usize, seed: u64, planted: P) -> World<P> {
        let born = |at| {
            let me = Rank::at(at);
            let config = KeyedConfig { me, members: n, run: Incarnation(1), founds: true };
            (Abd::with(&config, planted), Process::default())
        };
        World {
            planted,
            rng: Rng::new(seed),
            load: [30, 14, 6][(seed / 4) as usize % 3],
            now: Instant(1),
            members: (0..n).map(born).collect(),
            runs: 1,
            mail: Vec::new(),
            open: BTreeMap::new(),
            floor: Tag::NONE,
            tags: BTreeMap::from([(Vec::new(), Tag::NONE)]),
            n_done: 0,
            n_merged: 0,
            n_tickets: 0,
        }
    }

    /// One thing happens.
    fn step(&mut self) -> Result<(), String> {
        let n = self.members.len();
        let at = self.rng.below(n as u64) as usize;
        match self.rng.below(200) {
            what if what < self.load => self.begin(at),
            30..32 => self.begin_again(at),
            32..60 => {
                self.now = self.now.plus(Duration::from_millis(self.rng.below(20)));
                let (machine, process) = &mut self.members[at];
                machine.poll(self.now, process);
            }
            _ if self.mail.is_empty() => {}
            _ => {
                let index = self.rng.below(self.mail.len() as u64) as usize;
                let (from, to, bytes) = self.mail.swap_remove(index);
                let (machine, process) = &mut self.members[to.index()];
                if !self.rng.chance(1, 20) {
                    let event = Event::Message { from, bytes: &bytes };
                    machine.on_event(event, self.now, process);
                }
                if self.rng.chance(1, 20) {
                    self.mail.push((from, to, bytes));
                }
            }
        }
        (0..n).try_for_each(|at| self.collect(at))
    }

    fn begin(&mut self, at: usize) {
        self.n_tickets += 1;
        let (ticket, is_write) = (self.n_tickets, self.rng.chance(1, 2));
        let op = if is_write { Op::Write { key: KEY } } else { Op::Read { key: KEY } };
        let deadline = self.now.plus(Duration::from_secs(2));
        let (machine, process) = &mut self.members[at];
        if machine.submit(Ticket(ticket), op, deadline, self.now, process).is_ok() {
            self.open.insert(ticket, (is_write, self.floor));
        }
    }

    /// A member ends and begins again without memory, if enough others count.
    fn begin_again(&mut self, at: usize) {
        let n = self.members.len();
        let n_left = (0..n).filter(|other| *other != at && self.members[*other].0.status().counts);
        if n_left.count() < Merge::needed(n) {
            return;
        }
        self.runs += 1;
        let (me, run) = (Rank::at(at), Incarnation(self.runs));
        let config = KeyedConfig { me, members: n, run, founds: false };
        self.n_merged += self.members[at].0.counts().merges;
        self.members[at] = (Abd::with(&config, self.planted), Process::default());
    }

    /// Faults stop, and nothing is begun: everything arrives, for three seconds.
    fn settle(&mut self, seed: u64) {
        for _ in 0..150 {
            for (from, to, bytes) in core::mem::take(&mut self.mail) {
                let (machine, process) = &mut self.members[to.index()];
                machine.on_event(Event::Message { from, bytes: &bytes }, self.now, process);
            }
            self.now = self.now.plus(Duration::from_millis(20));
            for at in 0..self.members.len() {
                let (machine, process) = &mut self.members[at];
                machine.poll(self.now, process);
                self.collect(at).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            }
        }
    }

    fn collect(&mut self, at: usize) -> Result<(), String> {
        let process = &mut self.members[at].1;
        let from = Rank::at(at);
        self.mail.extend(process.sent.drain(..).map(|(to, bytes)| (from, to, bytes)));
        for (value, tag) in core::mem::take(&mut process.tags) {
            let known = *self.tags.entry(value).or_insert(tag);
            if known != tag {
                return Err(alloc::format!("A7: one value has {known:?} and {tag:?}"));
            }
        }
        let unique: BTreeSet<&Tag> = self.tags.values().collect();
        if unique.len() != self.tags.len() {
            return Err("A1: one tag has two values".into());
        }
        for (ticket, ended) in process.ended.drain(..) {
            let Some((is_write, floor)) = self.open.remove(&ticket.0) else {
                return Err(alloc::format!("K1: {ticket:?} has ended twice"));
            };
            let value = match ended {
                Ended::Value(value) => value,
                Ended::Written => value_of(ticket.0, 0),
                Ended::NotDone | Ended::Unknown => continue,
            };
            let tag = self.tags.get(&value).copied().unwrap_or(Tag::NONE);
            if tag < floor || (is_write && tag == floor) {
                return Err(alloc::format!("A6: {tag:?} after {floor:?} had ended"));
            }
            self.floor = self.floor.max(tag);
            self.n_done += 1;
        }
        Ok(())
    }
}

fn run<P: Planting<Bug>>(planted: P, seed: u64) -> Result<(usize, u64), String> {
    let mut world = World::new([3, 5, 2, 3][seed as usize % 4], seed, planted);
    for _ in 0..4000 {
        world.step()?;
    }
    Ok((world.n_done, world.n_merged))
}

#[test]
fn a6_what_has_ended_is_seen_by_everything_that_begins_later() {
    let (mut n_done, mut n_merged) = (0, 0);
    for seed in 0..120 {
        let (done, merged) = run(Sound, seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        n_done += done;
        n_merged += merged;
    }
    assert!(n_done > 1000 && n_merged > 50, "{n_done} ended, {n_merged} merged");
}

/// Those that no schedule is made for ([`schedules`]).
#[test]
fn planted_mistakes_are_caught() {
    for bug in Bug::ALL.iter().filter(|bug| !schedules::SHOWN.contains(bug)) {
        let caught = (0..60).any(|seed| run(Planted(*bug), seed).is_err());
        assert!(caught, "{} is not caught by any of 60 seeds", bug.name());
    }
}
