//! How logs travel between members of a group: what the other one lacks, in parts.
//!
//! A group whose member is away may keep more than any link takes at once. Nothing here is ever
//! said whole: a process says how far its log goes, gets what stands above, a part at a time, and
//! asks for the next part when it has one.
//!
//! - P23 What a process puts together out of parts, on top of what it held, is a log that their
//!   sender had. Logs of one epoch are beginnings of one another (P4, and P11 of one that came
//!   back), and timestamps rise in them. So of a log of the same epoch everything up to the lower
//!   of both ends is the same, and a timestamp is a place in it that forgetting does not move. By
//!   [`Held::shared_with`], and by [`Gathered::take`], which takes only what follows. What one of
//!   the two has forgotten was delivered (P7), and the floors of all that sent parts of it count.
//!   The last part is said with everything else of that moment, so by T1 what its sender proposes
//!   later comes later.

use super::wire::{Beginning, Held, Logged, Part, PrimcastWire, Told};
use super::{Machine, Phase};
use crate::amcast::variant::Variant;
use crate::amcast::{Host, Members, Pid, Place, Timestamp, To};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use base::{Ballot, Rank};

/// After how many looks without a part, a patience apart, its sender counts as silent.
const IDLE_MAX: u32 = 3;
/// What a tuple costs beside its payload, at most.
const TUPLE_BYTES: usize = 64;

impl Held {
    /// Up to where two logs are the same.
    pub(super) fn shared_with(self, other: Held) -> Timestamp {
        if self.epoch == other.epoch { self.upto.min(other.upto) } else { Timestamp::ZERO }
    }
}

/// What has come of a log.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    /// Above this it is in `log`.
    pub(super) base: Timestamp,
    pub(super) log: Vec<Told>,
    pub(super) is_whole: bool,
    /// What is missing in it was delivered up to here: the highest floor of those who sent it. One
    /// of them may forget between two parts, and another one go on that has forgotten less.
    floor: Place,
    /// Where the next part was asked for.
    asked: Option<Timestamp>,
    /// How many tuples there were when it was last looked at whether anything comes.
    n_seen: usize,
    /// How many looks ago anything came.
    n_idle: u32,
}

impl Gathered {
    pub(super) fn new(base: Timestamp) -> Gathered {
        Gathered { base, ..Gathered::default() }
    }

    /// What another epoch began with.
    fn up_to(mut self, upto: Timestamp) -> Gathered {
        self.log.retain(|told| told.logged.ts <= upto);
        let base = self.base.min(upto);
        Gathered { base, log: self.log, floor: self.floor, ..Gathered::default() }
    }

    fn end(&self) -> Timestamp {
        self.log.last().map_or(self.base, |told| told.logged.ts)
    }

    /// Takes a part in, if it joins what is here, of a log with this floor.
    pub(super) fn take(&mut self, part: &Part, floor: Place) {
        let end = self.end();
        if part.after <= end && !self.is_whole {
            self.floor = self.floor.max(floor);
            let new = part.log.iter().filter(|told| told.logged.ts > end);
            self.log.extend(new.cloned());
            self.is_whole = part.is_last;
        }
    }

    /// Where the next part begins, if it has not been asked for.
    fn next(&mut self) -> Option<Timestamp> {
        let end = Some(self.end()).filter(|_| !self.is_whole);
        let next = end.filter(|_| self.asked != end);
        self.asked = end;
        next
    }

    /// Looks whether anything has come since the last look; if not, the next part is asked for once
    /// more. Whether it has been long.
    fn is_silent(&mut self) -> bool {
        let is_idle = self.n_seen == self.log.len() && !self.is_whole;
        self.n_seen = self.log.len();
        self.n_idle = if is_idle { self.n_idle + 1 } else { 0 };
        if is_idle {
            self.asked = None;
        }
        self.n_idle >= IDLE_MAX
    }
}

/// A promise as its candidate keeps it.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    pub(super) clock: Timestamp,
    /// How far its log goes.
    pub(super) held: Held,
    pub(super) members: Members,
    pub(super) length: u64,
    pub(super) floor: Place,
    /// What stands in it and not in the candidate's own.
    pub(super) log: Gathered,
}

/// What a process gathers, and from whom.
#[derive(Clone, Debug, Default)]
pub(super) struct Transfer {
    pub(super) promises: BTreeMap<Rank, Promise>,
    /// Promises of those who were asked for more and are silent: they do not count for the moment.
    silent: BTreeMap<Rank, Promise>,
    /// The state of an epoch that is on its way here.
    incoming: Option<(Ballot, Gathered)>,
    /// The log with which `current` began.
    source: Held,
}

impl Transfer {
    pub(super) fn forget_promises(&mut self) {
        self.promises.clear();
        self.silent.clear();
    }

    pub(super) fn forget_promise(&mut self, of: Rank) {
        self.promises.remove(&of);
        self.silent.remove(&of);
    }
}

/// Tuples above `after`, as many as `bytes_max` admits, and one at least.
fn part_of(after: Timestamp, above: impl Iterator<Item = Told>, bytes_max: usize) -> Part {
    let mut n_bytes = 0;
    let mut part = Part { after, log: Vec::new(), is_last: true };
    for told in above {
        n_bytes += told.logged.message.payload.len() + TUPLE_BYTES;
        if n_bytes > bytes_max && !part.log.is_empty() {
            part.is_last = false;
            break;
        }
        part.log.push(told);
    }
    part
}

impl<V: Variant> Machine<V> {
    /// How far the own log goes.
    pub(super) fn held(&self) -> Held {
        let upto = self.log.last().map_or(Timestamp::ZERO, |id| self.tuple_of(*id).1);
        Held { epoch: self.current, upto }
    }

    fn tuple_of(&self, id: super::MessageId) -> (Ballot, Timestamp) {
        let record = self.records.get(id).expect("it stands in the log");
        record.tuple.expect("it stands in the log")
    }

    /// A tuple of the own log.
    fn told(&self, id: super::MessageId) -> Told {
        let record = self.records.get(id).expect("it stands in the log");
        let (epoch, ts) = self.tuple_of(id);
        let message = record.body.clone().expect("P2: what stands in the log is here");
        let at = record.final_at.filter(|_| record.is_delivered);
        Told { logged: Logged { epoch, ts, message }, at }
    }

    /// The own log.
    pub(super) fn logged(&self) -> impl Iterator<Item = Logged> + '_ {
        self.log.iter().map(|id| self.told(*id).logged)
    }

    /// The next part of the own log.
    fn own_part(&self, after: Timestamp) -> Part {
        let first = self.log.partition_point(|id| self.tuple_of(*id).1 <= after);
        part_of(after, self.log[first..].iter().map(|id| self.told(*id)), self.config.part_bytes)
    }

    /// What the own log and what was gathered on top of it make together.
    pub(super) fn joined(&self, gathered: Gathered) -> Vec<Told> {
        let n_kept = self.log.partition_point(|id| self.tuple_of(*id).1 <= gathered.base);
        let kept = self.log[..n_kept].iter();
        // What is known of these is known here.
        let mut log: Vec<Told> = kept.map(|id| Told { at: None, ..self.told(*id) }).collect();
        log.extend(gathered.log);
        log
    }

    /// The own promise: its log is here.
    pub(super) fn own_promise(&self) -> Promise {
        let held = self.held();
        Promise {
            clock: self.clock,
            held,
            members: self.members,
            length: self.log_length,
            floor: self.floor,
            log: Gathered { is_whole: true, ..Gathered::new(held.upto) },
        }
    }

    /// Says the promise of `epoch` to its leader, with the part of the log above `after`.
    pub(super) fn say_promise<H: Host<PrimcastWire>>(
        &self,
        epoch: Ballot,
        leader: Rank,
        after: Timestamp,
        host: &mut H,
    ) {
        let Promise { clock, held, members, length, floor, .. } = self.own_promise();
        let Held { epoch: current, upto } = held;
        let part = self.own_part(after);
        let to = Pid { group: self.me.group, rank: leader };
        let promise =
            PrimcastWire::Promise { epoch, clock, current, members, length, floor, upto, part };
        host.send(To::One(to), &promise);
    }

    /// A promise has come, or another part of its log.
    pub(super) fn gather(&mut self, from: Rank, promise: Promise, part: &Part) {
        let Transfer { promises, silent, .. } = &mut self.transfer;
        let before = promises.remove(&from).or_else(|| silent.remove(&from));
        let before = before.filter(|before| before.held == promise.held);
        let log = before.map_or(promise.log, |before| before.log);
        let mut promise = Promise { log, ..promise };
        promise.log.take(part, promise.floor);
        promises.insert(from, promise);
    }

    /// Asks for what is lacking of the log of `of`, which has promised. False if nothing is.
    pub(super) fn asks_for_more<H: Host<PrimcastWire>>(&mut self, of: Rank, host: &mut H) -> bool {
        let Some(promise) = self.transfer.promises.get_mut(&of) else { return false };
        if let Some(after) = promise.log.next() {
            let to = Pid { group: self.me.group, rank: of };
            host.send(To::One(to), &PrimcastWire::More { epoch: self.promised, after });
        }
        !promise.log.is_whole
    }

    /// Another member lacks what stands above `after`.
    pub(super) fn on_more<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        epoch: Ballot,
        after: Timestamp,
        host: &mut H,
    ) {
        let leader = epoch.proposer();
        if epoch != self.promised {
            return;
        }
        if self.current < epoch && leader == Some(from.rank) {
            self.say_promise(epoch, from.rank, after, host);
        } else if self.current == epoch && leader == Some(self.me.rank) {
            host.send(To::One(from), &PrimcastWire::NewState(self.beginning(after)));
        }
    }

    /// The present epoch, for somebody who is not in it yet, with the log above `after`.
    pub(super) fn beginning(&self, after: Timestamp) -> Beginning {
        Beginning {
            epoch: self.current,
            length: self.log_length,
            floor: self.floor,
            source: self.transfer.source,
            part: self.own_part(after),
            clock: self.clock,
            members: self.members,
            has_begun: self.has_begun,
        }
    }

    /// The present epoch, for who has promised it too late to be told with the others.
    pub(super) fn tell_beginning<H: Host<PrimcastWire>>(&self, to: Rank, held: Held, host: &mut H) {
        let leads = matches!(self.phase, Phase::Primary | Phase::Candidate);
        if leads && self.current.proposer() == Some(self.me.rank) {
            let to = Pid { group: self.me.group, rank: to };
            let after = self.transfer.source.shared_with(held);
            host.send(To::One(to), &PrimcastWire::NewState(self.beginning(after)));
        }
    }

    /// Tells everybody who has promised how the epoch begins that this candidate establishes with
    /// `log`.
    pub(super) fn tell_beginnings<H: Host<PrimcastWire>>(
        &mut self,
        beginning: &Beginning,
        promises: &BTreeMap<Rank, Promise>,
        log: &[Told],
        host: &mut H,
    ) {
        for (rank, promise) in promises.iter().filter(|(rank, _)| **rank != self.me.rank) {
            let after = beginning.source.shared_with(promise.held);
            let first = log.partition_point(|told| told.logged.ts <= after);
            let part = part_of(after, log[first..].iter().cloned(), self.config.part_bytes);
            let to = Pid { group: self.me.group, rank: *rank };
            let wire = PrimcastWire::NewState(Beginning { part, ..beginning.clone() });
            host.send(To::One(to), &wire);
        }
    }

    /// Takes in what has come of the state of an epoch: the log that it makes, if that is all.
    pub(super) fn gather_state<H: Host<PrimcastWire>>(
        &mut self,
        beginning: &Beginning,
        host: &mut H,
    ) -> Option<Vec<Told>> {
        let epoch = beginning.epoch;
        let source = beginning.source;
        let mut log = match self.transfer.incoming.take() {
            Some((of, log)) if of == epoch => log,
            // What came of the log before counts, as far as the next epoch began with it.
            Some((of, log)) if of == source.epoch => log.up_to(source.upto),
            _ => Gathered::new(source.shared_with(self.held())),
        };
        log.take(&beginning.part, beginning.floor);
        if log.is_whole {
            self.floor = self.floor.max(log.floor); // P23
            return Some(self.joined(log));
        }
        self.transfer.incoming = Some((epoch, log));
        self.ask_for_state(host);
        None
    }

    fn ask_for_state<H: Host<PrimcastWire>>(&mut self, host: &mut H) {
        let promised = self.promised;
        let incoming = self.transfer.incoming.as_mut();
        let Some((epoch, log)) = incoming.filter(|(of, _)| *of >= promised) else { return };
        if let (Some(after), Some(rank)) = (log.next(), epoch.proposer()) {
            let to = Pid { group: self.me.group, rank };
            host.send(To::One(to), &PrimcastWire::More { epoch: *epoch, after });
        }
    }

    /// What was asked for may be lost with a process that came back: it is asked for again. A
    /// process that stays silent is waited for no more (another quorum may do). True if the state
    /// of the epoch that is promised is on its way.
    pub(super) fn mend_transfer<H: Host<PrimcastWire>>(&mut self, host: &mut H) -> bool {
        // Of an epoch before: what came of it counts for the one that is promised.
        let is_led = self.trusted.is_some() && self.trusted == self.promised.proposer();
        let is_silent = self.transfer.incoming.as_mut().map(|(_, log)| log.is_silent());
        if let Some(is_silent) = is_silent {
            self.ask_for_state(host);
            if is_led && !is_silent {
                return true;
            }
        }
        let Transfer { promises, silent, .. } = &mut self.transfer;
        let is_stalled = |(rank, promise): (&Rank, &mut Promise)| {
            let is_asked = promise.log.asked.is_some();
            (is_asked && promise.log.is_silent()).then_some(*rank)
        };
        let stalled: Vec<Rank> = promises.iter_mut().filter_map(is_stalled).collect();
        for rank in stalled {
            silent.extend(promises.remove(&rank).map(|promise| (rank, promise)));
        }
        false
    }

    /// `current` began with this log.
    pub(super) const fn note_source(&mut self, source: Held) {
        self.transfer.source = source;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::MessageId;

    /// One sender forgot between two parts; the next epoch's leader had forgotten nothing, and was
    /// asked only for the rest. What stood between the parts was skipped.
    #[test]
    fn p23_the_floors_of_all_that_sent_parts_count() {
        let place = |ts| (Timestamp(ts), MessageId { sender: 1, sequence: ts });
        let part = |after| Part { after: Timestamp(after), log: Vec::new(), is_last: false };
        let mut log = Gathered::new(Timestamp::ZERO);
        log.take(&part(0), place(0));
        log.take(&part(0), place(9));
        let mut log = log.up_to(Timestamp(20));
        assert_eq!(log.floor, place(9), "it goes on in the next epoch");
        log.take(&part(0), place(3));
        assert_eq!(log.floor, place(9));
        log.take(&part(8), place(12));
        assert_eq!(log.floor, place(9), "a part that does not join counts for nothing");
    }
}
