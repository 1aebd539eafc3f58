//! The transfer of logs between members of a group: the part that the other one lacks, in pieces.
//!
//! A group whose member is away may keep more than any link takes at once. A log is never sent
//! whole: a process reports how far its log goes, receives what is above, a part at a time, and
//! asks for the next part when it has one.
//!
//! - P23 A log that a process puts together out of parts, on top of what it held, is one that their
//!   sender had. Logs of one epoch are beginnings of one another (P4, and P11 of one that came
//!   back), and timestamps rise in them. So of a log of the same epoch everything up to the lower
//!   of both ends is the same, and a timestamp is a place in it that forgetting does not move. By
//!   [`Held::shared_with`], by [`Gathered::take`], which takes only what follows, and by
//!   `Machine::note_source`, which drops parts on top of a log that is replaced. A message that one
//!   of the two has forgotten was delivered (P7), and the floors of all that sent parts of it
//!   count. The last part is sent with everything else of that moment, so by T1 its sender's later
//!   proposals come later.

use super::wire::{Beginning, Held, Logged, Part, PrimcastWire, Told};
use super::{Machine, Phase};
use crate::amcast::bugs::Bug;
use crate::amcast::{Host, Members, Pid, Place, Timestamp, To};
use crate::planted::Planting;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use base::{Ballot, Rank};

/// The number of looks without a part, a patience apart, after which its sender counts as silent.
const IDLE_MAX: u32 = 3;
/// The most bytes of a tuple beside its payload.
const TUPLE_BYTES: usize = 64;

impl Held {
    /// The timestamp up to which two logs are the same.
    pub(super) fn shared_with(self, other: Held) -> Timestamp {
        if self.epoch == other.epoch { self.upto.min(other.upto) } else { Timestamp::ZERO }
    }
}

/// The gathered parts of a log.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    /// The timestamp above which `log` begins.
    pub(super) base: Timestamp,
    pub(super) log: Vec<Told>,
    pub(super) is_whole: bool,
    /// The highest floor of the senders, at or below which the missing messages were delivered. One
    /// sender may forget between two parts, and another one that has forgotten less may continue.
    floor: Place,
    /// The place at which the next part was requested.
    asked: Option<Timestamp>,
    /// The number of tuples at the last look.
    n_seen: usize,
    /// The number of looks since the last part came.
    n_idle: u32,
}

impl Gathered {
    pub(super) fn new(base: Timestamp) -> Gathered {
        Gathered { base, ..Gathered::default() }
    }

    /// The part of this log with which another epoch began.
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

    /// The place at which the next part begins, if it has not been requested.
    fn next(&mut self) -> Option<Timestamp> {
        let end = Some(self.end()).filter(|_| !self.is_whole);
        let next = end.filter(|_| self.asked != end);
        self.asked = end;
        next
    }

    /// Checks whether a part has come since the last look; if not, the next part is requested once
    /// more. Returns whether it has been silent for long.
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

/// A promise as its candidate stores it.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    pub(super) clock: Timestamp,
    /// The end of its log.
    pub(super) held: Held,
    pub(super) members: Members,
    pub(super) length: u64,
    pub(super) floor: Place,
    /// The part of its log that the candidate's own lacks.
    pub(super) log: Gathered,
}

/// The logs that a process gathers, and their senders.
#[derive(Clone, Debug, Default)]
pub(super) struct Transfer {
    pub(super) promises: BTreeMap<Rank, Promise>,
    /// The promises of members that were asked for more and are silent: they do not count now.
    silent: BTreeMap<Rank, Promise>,
    /// The state of an epoch whose parts are on their way here, on top of the own log as it is.
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

/// The tuples above `after`, as many as `bytes_max` admits, and at least one.
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

impl<P: Planting<Bug>> Machine<P> {
    /// The end of the own log.
    pub(super) fn held(&self) -> Held {
        let upto = self.log.names.last().map_or(Timestamp::ZERO, |id| self.tuple_of(*id).1);
        Held { epoch: self.office.current, upto }
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
        self.log.names.iter().map(|id| self.told(*id).logged)
    }

    /// The next part of the own log.
    fn own_part(&self, after: Timestamp) -> Part {
        let first = self.log.names.partition_point(|id| self.tuple_of(*id).1 <= after);
        part_of(
            after,
            self.log.names[first..].iter().map(|id| self.told(*id)),
            self.config.part_bytes,
        )
    }

    /// The log that the own one and the gathered parts on top of it make.
    pub(super) fn joined(&self, gathered: Gathered) -> Vec<Told> {
        let n_kept = self.log.names.partition_point(|id| self.tuple_of(*id).1 <= gathered.base);
        let kept = self.log.names[..n_kept].iter();
        // The deliveries of these are known here.
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
            members: self.seat.members,
            length: self.log.length,
            floor: self.log.floor,
            log: Gathered { is_whole: true, ..Gathered::new(held.upto) },
        }
    }

    /// Sends the promise of `epoch` to its leader, with the part of the log above `after`.
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

    /// Takes a promise, or another part of its log.
    pub(super) fn gather(&mut self, from: Rank, promise: Promise, part: &Part) {
        let Transfer { promises, silent, .. } = &mut self.transfer;
        let before = promises.remove(&from).or_else(|| silent.remove(&from));
        let before = before.filter(|before| before.held == promise.held);
        let log = before.map_or(promise.log, |before| before.log);
        let mut promise = Promise { log, ..promise };
        promise.log.take(part, promise.floor);
        promises.insert(from, promise);
    }

    /// Asks for the missing part of the log of `of`, which has promised. False if nothing is
    /// missing.
    pub(super) fn asks_for_more<H: Host<PrimcastWire>>(&mut self, of: Rank, host: &mut H) -> bool {
        let Some(promise) = self.transfer.promises.get_mut(&of) else { return false };
        if let Some(after) = promise.log.next() {
            let to = Pid { group: self.me.group, rank: of };
            host.send(To::One(to), &PrimcastWire::More { epoch: self.office.promised, after });
        }
        !promise.log.is_whole
    }

    /// Answers a member that lacks the log above `after`.
    pub(super) fn on_more<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        epoch: Ballot,
        after: Timestamp,
        host: &mut H,
    ) {
        let leader = epoch.proposer();
        if epoch != self.office.promised {
            return;
        }
        if self.office.current < epoch && leader == Some(from.rank) {
            self.say_promise(epoch, from.rank, after, host);
        } else if self.office.current == epoch && leader == Some(self.me.rank) {
            host.send(To::One(from), &PrimcastWire::NewState(self.beginning(after)));
        }
    }

    /// The present epoch, for a member that is not in it yet, with the log above `after`.
    pub(super) fn beginning(&self, after: Timestamp) -> Beginning {
        Beginning {
            epoch: self.office.current,
            length: self.log.length,
            floor: self.log.floor,
            source: self.transfer.source,
            part: self.own_part(after),
            clock: self.clock,
            members: self.seat.members,
            has_begun: self.office.has_begun,
        }
    }

    /// Sends the present epoch to a member that promised too late for the common message.
    pub(super) fn tell_beginning<H: Host<PrimcastWire>>(&self, to: Rank, held: Held, host: &mut H) {
        let leads = matches!(self.office.phase, Phase::Primary | Phase::Candidate);
        if leads && self.office.current.proposer() == Some(self.me.rank) {
            let to = Pid { group: self.me.group, rank: to };
            let after = self.transfer.source.shared_with(held);
            host.send(To::One(to), &PrimcastWire::NewState(self.beginning(after)));
        }
    }

    /// Sends all members that have promised the beginning of the epoch that this candidate
    /// establishes with `log`.
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

    /// Takes a part of an epoch's state. Returns the log that the parts make, if they are complete.
    pub(super) fn gather_state<H: Host<PrimcastWire>>(
        &mut self,
        beginning: &Beginning,
        host: &mut H,
    ) -> Option<Vec<Told>> {
        let epoch = beginning.epoch;
        let source = beginning.source;
        let mut log = match self.transfer.incoming.take() {
            Some((of, log)) if of == epoch => log,
            // The parts that came before count, as far as the next epoch began with them.
            Some((of, log)) if of == source.epoch => log.up_to(source.upto),
            _ => Gathered::new(source.shared_with(self.held())),
        };
        log.take(&beginning.part, beginning.floor);
        if log.is_whole {
            self.log.floor = self.log.floor.max(log.floor); // P23
            return Some(self.joined(log));
        }
        self.transfer.incoming = Some((epoch, log));
        self.ask_for_state(host);
        None
    }

    fn ask_for_state<H: Host<PrimcastWire>>(&mut self, host: &mut H) {
        let promised = self.office.promised;
        let incoming = self.transfer.incoming.as_mut();
        let Some((epoch, log)) = incoming.filter(|(of, _)| *of >= promised) else { return };
        if let (Some(after), Some(rank)) = (log.next(), epoch.proposer()) {
            let to = Pid { group: self.me.group, rank };
            host.send(To::One(to), &PrimcastWire::More { epoch: *epoch, after });
        }
    }

    /// Repeats requests that may be lost with a process that came back. A process that stays silent
    /// is not waited for any longer (another quorum may suffice). True if the state of the promised
    /// epoch is on its way.
    pub(super) fn mend_transfer<H: Host<PrimcastWire>>(&mut self, host: &mut H) -> bool {
        // The parts of an earlier epoch count for the one that is promised.
        let is_led =
            self.office.trusted.is_some() && self.office.trusted == self.office.promised.proposer();
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

    /// Notes the log with which `current` began. The own log is replaced by it, so parts of another
    /// state on top of the own one join nothing any longer (P23).
    pub(super) fn note_source(&mut self, source: Held) {
        (self.transfer.source, self.transfer.incoming) = (source, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::{GroupId, Message, MessageId};
    use alloc::sync::Arc;

    /// One sender forgot messages between two parts; the next epoch's leader had forgotten none,
    /// and was asked only for the rest. The messages between the parts were skipped.
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
        let message = Arc::new(Message::new(place(7).1, GroupId::at(0).alone(), *b"x"));
        let logged = Logged { epoch: Ballot::NONE, ts: Timestamp(7), message };
        let first = Part { log: alloc::vec![Told { logged, at: None }], ..part(0) };
        log.take(&first, place(3));
        log.take(&part(7), place(15));
        assert_eq!(log.floor, place(15), "the floor of a part behind other tuples counts too");
    }
}
