//! A world in which nothing happens by itself: a test says what arrives, and when.

use super::super::wire::{self, Body};
use super::*;

/// A message: from where, to where, its bytes.
pub(super) type Letter = (usize, usize, Vec<u8>);

/// Members, and the messages that have not arrived.
pub(super) struct Stage<P> {
    planted: P,
    now: Instant,
    pub(super) members: Vec<Member<P>>,
    mail: Vec<Letter>,
    runs: u64,
    n_tickets: u64,
    ended: BTreeMap<u64, Ended>,
}

impl<P: Planting<Bug>> Stage<P> {
    /// The founders of a cluster.
    pub(super) fn new(n: usize, planted: P) -> Stage<P> {
        let World { now, members, runs, .. } = World::new(n, 1, planted);
        let (mail, n_tickets, ended) = (Vec::new(), 0, BTreeMap::new());
        Stage { planted, now, members, mail, runs, n_tickets, ended }
    }

    /// Makes a member begin again without memory, and ask the others for their states.
    pub(super) fn begin_again(&mut self, at: usize) {
        self.runs += 1;
        let (me, members, run) = (Rank::at(at), self.members.len(), Incarnation(self.runs));
        let config = KeyedConfig { me, members, run, founds: false };
        self.members[at] = (Abd::with(&config, self.planted), Process::default());
        self.poll_after(at, 0);
    }

    /// Lets a member look at the time, so many milliseconds later.
    pub(super) fn poll_after(&mut self, at: usize, millis: u64) {
        self.now = self.now.plus(Duration::from_millis(millis));
        let (machine, process) = &mut self.members[at];
        machine.poll(self.now, process);
        self.collect(at);
    }

    /// Begins an operation that has a minute, or as long as is said.
    pub(super) fn submit(&mut self, at: usize, op: Op<'_>, millis: u64) -> Result<u64, Refused> {
        self.n_tickets += 1;
        let deadline = self.now.plus(Duration::from_millis(millis));
        let (machine, process) = &mut self.members[at];
        machine.submit(Ticket(self.n_tickets), op, deadline, self.now, process)?;
        self.collect(at);
        Ok(self.n_tickets)
    }

    pub(super) fn write(&mut self, at: usize, key: &[u8]) -> u64 {
        self.submit(at, Op::Write { key }, 60_000).expect("it serves")
    }

    /// A read, while nothing arrives but between `set`: what it ended with.
    pub(super) fn read(&mut self, at: usize, key: &[u8], set: &[usize]) -> Option<Vec<u8>> {
        let ticket = self.submit(at, Op::Read { key }, 60_000).ok()?;
        self.pass_among(set);
        match self.ended(ticket) {
            Some(Ended::Value(value)) => Some(value.clone()),
            _ => None,
        }
    }

    pub(super) fn ended(&self, ticket: u64) -> Option<&Ended> {
        self.ended.get(&ticket)
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Takes the pieces of states that are on their way to a member.
    pub(super) fn pieces_to(&mut self, asker: usize) -> Vec<Letter> {
        let mut pieces = Vec::new();
        let is_piece = |_: usize, to: usize, body: &Body<'_>| {
            to == asker && matches!(body, Body::Piece { .. })
        };
        while let Some(index) = self.find(&is_piece) {
            pieces.push(self.mail.remove(index));
        }
        pieces
    }

    /// Lets one message arrive.
    pub(super) fn deliver(&mut self, (from, to, bytes): Letter) {
        let event = Event::Message { from: Rank::at(from), bytes: &bytes };
        let (machine, process) = &mut self.members[to];
        machine.on_event(event, self.now, process);
        self.collect(to);
    }

    pub(super) fn counts(&self, at: usize) -> bool {
        self.members[at].0.status().counts
    }

    fn collect(&mut self, at: usize) {
        let process = &mut self.members[at].1;
        self.mail.extend(process.sent.drain(..).map(|(to, bytes)| (at, to.index(), bytes)));
        for (ticket, ended) in process.ended.drain(..) {
            assert_eq!(self.ended.insert(ticket.0, ended), None, "K1: {ticket:?} ended twice");
        }
    }

    fn find(&self, is_meant: &impl Fn(usize, usize, &Body<'_>) -> bool) -> Option<usize> {
        self.mail.iter().position(|(from, to, bytes)| {
            let (_, body) = wire::decode(bytes, self.members.len()).expect("it was encoded");
            is_meant(*from, *to, &body)
        })
    }

    /// Lets all messages of a kind arrive, and those that this brings about, in their order.
    pub(super) fn pass(&mut self, is_meant: impl Fn(usize, usize, &Body<'_>) -> bool) {
        while let Some(index) = self.find(&is_meant) {
            let message = self.mail.remove(index);
            self.deliver(message);
        }
    }

    /// Takes the first message that is on its way among `set`.
    pub(super) fn take_among(&mut self, set: &[usize]) -> Option<Letter> {
        let index = self.find(&|from, to, _: &Body<'_>| set.contains(&from) && set.contains(&to));
        index.map(|index| self.mail.remove(index))
    }

    pub(super) fn pass_among(&mut self, set: &[usize]) {
        self.pass(|from, to, _| set.contains(&from) && set.contains(&to));
    }

    /// Lets the queries of one member be answered by some.
    pub(super) fn pass_queries(&mut self, of: usize, by: &[usize]) {
        self.pass(|from, to, body| match body {
            Body::Query { .. } => from == of && by.contains(&to),
            Body::Value { .. } => to == of && by.contains(&from),
            _ => false,
        });
    }

    /// Lets the stores of one member be acknowledged by some.
    pub(super) fn pass_stores(&mut self, of: usize, by: &[usize]) {
        self.pass(|from, to, body| match body {
            Body::Store { .. } => from == of && by.contains(&to),
            Body::Stored { .. } => to == of && by.contains(&from),
            _ => false,
        });
    }

    /// Lets one member be given the states of some.
    pub(super) fn pass_states(&mut self, to_whom: usize, by: &[usize]) {
        self.pass(|from, to, body| match body {
            Body::Fetch { .. } => from == to_whom && by.contains(&to),
            Body::Piece { .. } => to == to_whom && by.contains(&from),
            _ => false,
        });
    }

    /// Loses what one member has sent.
    pub(super) fn lose_from(&mut self, at: usize) {
        self.mail.retain(|(from, ..)| *from != at);
    }

    /// Lets everything arrive, for a second.
    pub(super) fn heal(&mut self) {
        for _ in 0..20 {
            self.pass(|_, _, _| true);
            self.now = self.now.plus(Duration::from_millis(50));
            (0..self.members.len()).for_each(|at| self.poll_after(at, 0));
        }
        self.pass(|_, _, _| true);
    }

    /// That a read which saw `seen` began after the end of the write `last`, and saw it.
    pub(super) fn judge(
        &self,
        last: u64,
        had_ended: bool,
        seen: Option<&[u8]>,
    ) -> Result<(), String> {
        let Some(seen) = seen else { return Ok(()) };
        if had_ended && seen[..] != value_of(last, seen.len())[..] {
            return Err(alloc::format!("write {last} had ended, and a read saw {seen:?}"));
        }
        Ok(())
    }

    /// Reads at `at` from `set` alone: an earlier write that has ended must be seen. Then all
    /// faults stop, and all must end, with that write as the last.
    pub(super) fn conclude(mut self, write: u64, at: usize, set: &[usize]) -> Result<(), String> {
        let had_ended = self.ended(write) == Some(&Ended::Written);
        let seen = self.read(at, KEY, set);
        self.judge(write, had_ended, seen.as_deref())?;
        self.heal();
        if self.ended(write) != Some(&Ended::Written) {
            return Err(alloc::format!("write {write} does not end"));
        }
        let all: Vec<usize> = (0..self.members.len()).collect();
        for at in all.clone() {
            let seen = self.read(at, KEY, &all);
            if seen.is_none() {
                return Err(alloc::format!("member {at} does not serve"));
            }
            self.judge(write, true, seen.as_deref())?;
        }
        Ok(())
    }
}
