//! PrimCast: genuine atomic multicast in three communication steps to every destination
//! (paper 004, chapter 4; docs/protocols/primcast.md).
//!
//! Assumes: processes that stop for ever, or come back with their stable storage (`stable`); a
//! quorum of each group lives in the end; T1, T2 of [`crate::amcast`]; Ω of each group settles.
//!
//! Invariants:
//! - P1 A process delivers in the order of (final timestamp, name). Asserted at each delivery.
//!   Where messages commute, conflicting ones are (P14, `deliver`; P15, P25).
//! - P2 A process that acknowledges a proposal holds its message, so a decided timestamp never
//!   waits for a message that died with its sender. By construction: `Machine::drain` stops at the
//!   first proposal without one; asserted in `Machine::acknowledge`.
//! - P3 `current <= promised`, and a primary or follower has them equal. Asserted after each event.
//! - P4 Each proposal of an epoch has one turn to enter the log, in the primary's order, also one
//!   whose message was delivered and forgotten here before the proposal came. By construction: one
//!   queue (`turns`).
//! - P5 Reported clocks never fall (`clocks`).
//! - P9 A follower's acknowledgement names only an epoch and a timestamp (`acks`).
//! - P16 A cut at a timestamp covers exactly the messages up to it (`cut`).
//! - P6 to P8: delivered messages are forgotten, and never taken for new (`collect`).
//! - P10 to P13: a process that comes back keeps its promises (`stable`).
//! - P17 to P22: groups change their members (`seats`, `change`).
//! - P23 Logs are sent in parts (`transfer`).
//! - P24 Requests that hosts skip are repeated (`epoch`).
//!
//! Global: validity, integrity, uniform agreement, total order, prefix order, genuineness, and with
//! a rule of [`linear`](crate::amcast::linear) atomic global order: a checker each in the
//! simulator. Liveness: every message of a sender that lives is delivered once faults stop and Ω
//! settles.
//!
//! ```text
//! sender      START ─┬────────────────┐
//! primary g          └ ACK ─┬─────────│───┐          1 START, 2 the primaries' ACKs,
//! follower g                └ ACK ────│───┤ deliver  3 the followers' ACKs and clocks:
//! primary h                     ┌ ACK ┘───┤          all know enough to deliver
//! follower h                    └ ACK ────┘
//! ```
//!
//! Cost: the payload is sent once from the sender to each destination process, and each primary
//! sends each of them one timestamp. The rest is sent once a batch: (processes addressed)² messages
//! of some twenty bytes, whatever the batch.
//!
//! Differs from the listings (algorithms 1 to 3), each rule with a test or a planted bug:
//! - Line 42: a proposal that arrives between NEW-STATE and the quorum of ACCEPTs is kept.
//! - Line 47: an ACK carries the destinations; a process without the message pulls it later.
//! - Lines 48 to 50: a process tracks the last clock that it *reported* to each group.
//! - Line 64: the promise goes to the epoch's leader. Line 81: a tuple keeps its epoch.
//! - Line 73: ACCEPT carries the clock. Line 78: a new primary reports again.
//! - A process that is asked to promise less than it has promised says so, and one that waits too
//!   long for an epoch tells Ω's choice (the listings leave that to r-multicast's agreement).
//! - One report of the sender's clock, under its promise, travels with every message to a group.

mod acks;
mod change;
#[cfg(test)]
mod change_tests;
mod clocks;
mod collect;
mod cut;
mod deliver;
mod delivered;
mod dispatch;
mod epoch;
mod fetching;
mod log;
mod office;
mod order;
mod record;
mod said;
mod seats;
mod spec;
mod stable;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod tests;
mod transfer;
#[cfg(test)]
mod transfer_tests;
mod turns;
#[cfg(test)]
mod window_tests;
mod wire;

pub use spec::Spec;
pub use wire::{Beginning, Handover, Held, Logged, Part, PrimcastWire, Report, Told};

use super::bugs::Bug;
use super::linear::{Horizon, Listed, Rule};
use super::wire::{Malformed, Reader, Wire, is_addressable};
use super::{
    About, Config, GroupSet, Host, Members, Message, MessageId, Multicast, NoChange, NoCut, Pid,
    Place, Timestamp,
};
use crate::planted::{Planting, Sound};
use acks::Acks;
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Ballot, Incarnation, Instant, Rank};
use change::Seat;
use clocks::Clocks;
use collect::Retained;
use cut::Cuts;
use delivered::Delivered;
use fetching::Fetching;
use log::Log;
use office::{Office, Phase};
use record::{Record, Records};
use said::{Alarms, Owed, Said};
use stable::Journal;
use transfer::Transfer;

/// The proposals of a primary to the same groups at one time, in order.
type Batch = (GroupSet, Vec<(MessageId, Timestamp)>);

/// The number of undelivered messages that one tick asks about: the rest wait for the next.
const PULLS_MAX: usize = 64;

/// One process.
#[derive(Clone, Debug)]
pub struct Machine<P: Planting<Bug> = Sound> {
    me: Pid,
    config: Config,
    seat: Seat,
    office: Office,
    clock: Timestamp,
    records: Records,
    log: Log,
    /// The known clocks of each group.
    clocks: Vec<Clocks>,
    /// The acknowledgements of each group's members (P9).
    acks: Vec<Acks>,
    horizon: Horizon<P>,
    said: Said,
    owed: Owed,
    alarms: Alarms,
    delivered: Delivered,
    cuts: Cuts,
    retained: Retained,
    fetching: Fetching,
    /// The logs on their way (P23).
    transfer: Transfer,
    /// The changes to stable storage, if the host stores them.
    journal: Option<Journal>,
    /// The mistake in this machine, if it has one.
    planted: P,
}

impl<P: Planting<Bug>> Machine<P> {
    /// Lines 28 and 29: what the primary's clock and a quorum's clocks have passed.
    fn own_clocks(&self) -> (Timestamp, Timestamp) {
        let (clocks, planted) = (&self.clocks[self.me.group.index()], self.planted);
        (
            clocks.primary_clock(self.office.current, planted),
            clocks.quorum_clock(self.office.current, planted),
        )
    }

    fn record(&mut self, id: MessageId, dest: GroupSet, now: Instant) -> &mut Record {
        if !self.records.contains(id) {
            self.alarms.ask_at.get_or_insert(now.plus(self.config.patience));
            self.records.insert(id, Record::new(dest, now));
        }
        self.records.known(id)
    }

    /// Performs the consequences of the last events.
    fn advance<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if self.seat.change.has_parted() {
            return;
        }
        self.say_returned(host);
        self.change_if_due(now, host);
        self.fetch_if_behind(now, host);
        let proposes = self.office.phase == Phase::Primary && self.takes_part();
        let batches = if proposes { self.propose_all(host) } else { Vec::new() };
        self.drain();
        self.raise_for_cuts(now, host);
        self.say(batches, host);
        self.try_deliver(now, host);
        self.collect(false, host);
        self.list_again(host);
        self.office.check();
    }

    /// The present report, addressed to `to`; it counts here at once if the own group is among
    /// them.
    fn report(&mut self, to: GroupSet) -> Report {
        let is_primary = self.office.phase == Phase::Primary;
        let epoch = if self.planted.has(Bug::ReportCurrentEpoch) {
            self.office.current
        } else {
            self.office.promised
        };
        self.said.report(self.clock, to);
        if to.contains(self.me.group) {
            self.hear(self.me, epoch, self.clock, is_primary, &[]);
        }
        let listed = if is_primary { self.list(to) } else { Vec::new() };
        let knows = to.is_within(self.said.informed);
        let members = (!knows && self.office.has_begun).then(|| {
            // P17.
            self.said.informed = self.said.informed.union(to);
            Arc::new((self.office.current, self.seat.members))
        });
        // The marks mean nothing to groups that do not know the members (P21).
        let delivered =
            if knows || members.is_some() { self.delivered.last() } else { Place::default() };
        if knows || members.is_some() {
            self.said.tell(self.delivered.last(), to);
        }
        Report { epoch, clock: self.clock, as_primary: is_primary, delivered, listed, members }
    }

    /// Takes a process's report of its clock.
    fn hear(
        &mut self,
        from: Pid,
        epoch: Ballot,
        clock: Timestamp,
        as_primary: bool,
        listed: &[Listed],
    ) {
        let group = from.group.index();
        let clocks = &mut self.clocks[group];
        let newest_before = clocks.newest_primary();
        let is_newest = epoch >= newest_before || self.planted.has(Bug::OlderList);
        clocks.hear(from.rank, epoch, clock, as_primary);
        if self.config.rule == Rule::Plain {
            let newest = clocks.newest_primary();
            if from.group != self.me.group && newest > newest_before {
                clocks.forget_before(newest);
            }
            return;
        }
        self.horizon.raise(from.group, clocks.past(self.planted));
        if as_primary && is_newest {
            self.horizon.tell(from.group, clock, listed);
        }
        if from.group != self.me.group {
            assert!(
                self.config.rule != Rule::Hop
                    || self.horizon.is_listed(from.group)
                    || self.planted.has(Bug::PastWithoutQuorum)
                    || self.planted.has(Bug::PastQuorumMinusOne),
                "LR4: the past of {:?} ends behind its primary's list",
                from.group
            );
            let newest = self.clocks[group].newest_primary();
            self.clocks[group].forget_before(newest);
        }
    }

    fn hear_report(&mut self, from: Pid, report: &Report, now: Instant) {
        if let Some(told) = &report.members {
            let seats = &mut self.clocks[from.group.index()].seats;
            seats.learn(told.0, &told.1);
            seats.is_told_by(from.rank);
            // The processes to wait for have changed: this one checks what it may forget.
            self.tell_later(now);
        }
        self.hear_mark(from, report.delivered, now);
        // Most reports are of the present epoch, and need no search.
        let is_newer = from.group == self.me.group && report.epoch > self.office.promised;
        let may_overtake = is_newer && !self.is_overtaken();
        self.hear(from, report.epoch, report.clock, report.as_primary, &report.listed);
        if may_overtake && self.is_overtaken() {
            // The NEW-EPOCH of that epoch may be on its way here: it has a patience.
            self.office.since = now;
        }
    }
}

impl<P: Planting<Bug>> Multicast for Machine<P> {
    type Wire = PrimcastWire;

    type Planted = P;

    const SURVIVES_CRASHES: bool = true;

    const RECOVERS: bool = true;

    const CHANGES_MEMBERS: bool = true;

    fn asks(wire: &PrimcastWire) -> bool {
        matches!(
            wire,
            PrimcastWire::Pull { .. }
                | PrimcastWire::NewEpoch { .. }
                | PrimcastWire::Promise { .. }
                | PrimcastWire::More { .. }
                | PrimcastWire::Fetch(_)
        )
    }

    fn new(config: &Config, me: Pid, planted: P) -> Machine<P> {
        config.check().expect("the configuration is checked before it comes here");
        let layout = &config.layout;
        let epoch = Ballot::above(Ballot::NONE, Rank::at(0));
        let is_leader = epoch.proposer() == Some(me.rank);
        Machine {
            me,
            config: config.clone(),
            seat: Seat::founder(Members::founders(layout.members(me.group), epoch)),
            office: Office::new(if is_leader { Phase::Primary } else { Phase::Follower }, epoch),
            clock: Timestamp::ZERO,
            records: Records::default(),
            log: Log::default(),
            clocks: layout
                .groups()
                .iter()
                .map(|group| Clocks::new(layout.members(group), epoch))
                .collect(),
            acks: layout.groups().iter().map(|group| Acks::new(layout.members(group))).collect(),
            horizon: Horizon::new(me.group, layout, planted),
            said: Said::new(layout),
            owed: Owed::default(),
            alarms: Alarms::default(),
            delivered: Delivered::default(),
            cuts: Cuts::default(),
            retained: Retained::new(layout),
            fetching: Fetching::new(layout.members(me.group)),
            transfer: Transfer::default(),
            journal: None,
            planted,
        }
    }

    fn on_start<H: Host<PrimcastWire>>(&mut self, message: &Arc<Message>, now: Instant, _: &mut H) {
        let is_ours = message.dest.contains(self.me.group);
        let is_ours = is_ours && is_addressable(message.dest, &self.config.layout);
        if is_ours && !self.is_outside() && !self.is_gone(message.id) {
            self.learn(message, now);
        }
    }

    fn on_wire<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        wire: &PrimcastWire,
        now: Instant,
        host: &mut H,
    ) {
        self.take(from, wire, now, host);
    }

    fn trust<H: Host<PrimcastWire>>(&mut self, leader: Rank, now: Instant, host: &mut H) {
        let is_news = self.office.trusted != Some(leader);
        self.office.trusted = Some(leader);
        // A repetition changes nothing: the clock repeats a contest of two candidates.
        if is_news {
            self.stand(now, host);
        }
    }

    fn tick<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if self.alarms.wake_at.is_some_and(|at| at <= now) {
            self.alarms.wake_at = None;
        }
        if self.is_outside() {
            return self.join_if_due(now, host);
        }
        self.join_if_due(now, host);
        self.ask_for_what_is_missing(now, host);
        self.mend_epoch(now, host);
        self.tell_if_due(now, host);
        self.fetch_if_behind(now, host);
        self.raise_for_cuts(now, host);
    }

    fn settle<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        self.advance(now, host);
    }

    fn deadline(&self) -> Option<Instant> {
        if self.is_outside() {
            return self.seat.change.join_at();
        }
        let patience = self.config.patience;
        let phase = self.is_unsettled().then(|| self.office.since.plus(patience));
        let fetch = self.is_behind().then_some(self.fetching.ask_at());
        [
            phase,
            self.alarms.ask_at,
            self.alarms.wake_at,
            self.alarms.tell_at,
            self.cuts.raise_at(),
            fetch,
            self.seat.change.join_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn is_primary(&self) -> bool {
        self.office.phase == Phase::Primary
    }

    fn safe_ts(&self) -> Option<Timestamp> {
        Some(Machine::safe_ts(self))
    }

    fn lowest_cut(&self) -> Option<Timestamp> {
        Some(Machine::lowest_cut(self))
    }

    fn cut(&mut self, at: Timestamp, now: Instant) -> Result<(), NoCut> {
        self.ask_for_cut(at, now)
    }

    const FORGETS_NAMES: bool = true;

    fn has_delivered(&self, id: MessageId) -> bool {
        self.delivered.has(id)
    }

    fn n_held(&self) -> Option<usize> {
        Some(Machine::n_held(self))
    }

    fn unrecorded(&self, delivered: &[(MessageId, Timestamp)]) -> Option<MessageId> {
        self.find_unrecorded(delivered)
    }

    fn mark_of(&self, pid: Pid) -> Option<(Incarnation, Place)> {
        if pid == self.me {
            return Some((self.seat.incarnation, self.delivered.last()));
        }
        let heard = self.clocks[pid.group.index()].seats.heard(pid.rank);
        Some((heard, self.retained.mark_of(pid.group, pid.rank)))
    }

    fn stable(&mut self, out: &mut Vec<u8>) {
        self.write_stable(out);
    }

    fn changes(&mut self, out: &mut Vec<u8>) {
        self.write_changes(out);
    }

    fn restore<H: Host<PrimcastWire>>(
        config: &Config,
        me: Pid,
        planted: P,
        stable: &[u8],
        changes: &[&[u8]],
        now: Instant,
        host: &mut H,
    ) -> Result<Self, Malformed> {
        Machine::read_back(config, me, planted, stable, changes, now, host)
    }

    fn join(config: &Config, me: Pid, planted: P, life: Incarnation, now: Instant) -> Option<Self> {
        Some(Machine::as_newcomer(config, me, planted, life, now))
    }

    fn meet(&mut self, who: Pid, life: Incarnation) {
        self.on_meeting(who, life);
    }

    fn remove(&mut self, seat: Rank) -> Result<(), NoChange> {
        self.ask_for_removal(seat)
    }

    fn members(&self) -> Option<(Members, bool)> {
        Some((self.seat.members, self.office.has_begun))
    }

    fn takes_part(&self) -> bool {
        Machine::takes_part(self)
    }

    fn is_behind(&self) -> bool {
        Machine::is_behind(self)
    }

    fn is_in_an_epoch(&self) -> bool {
        !self.is_outside()
    }

    fn delivered_upto(&self) -> Place {
        self.delivered.last()
    }

    fn floor(&self) -> Place {
        self.log.floor
    }

    fn n_kept_bytes(&self) -> usize {
        self.retained.n_bytes()
    }

    fn rest(&mut self, rests: bool) {
        self.office.rests = rests;
    }

    fn give_state(&self, out: &mut Vec<u8>) {
        self.handover(Vec::new()).encode(out);
    }

    fn take_state<H: Host<PrimcastWire>>(
        &mut self,
        given: &[u8],
        now: Instant,
        host: &mut H,
    ) -> Result<(), Malformed> {
        let mut from = Reader::new(given);
        let state = Handover::decode(&mut from)?;
        if !from.is_at_end() {
            return Err(Malformed);
        }
        self.on_state(&state, now, host);
        Ok(())
    }

    fn has_parted(&self) -> bool {
        self.seat.change.has_parted()
    }

    fn about(wire: &PrimcastWire) -> impl Iterator<Item = About> {
        dispatch::about(wire)
    }
}
