//! Delivery: lines 53 to 56 of algorithm 2, and the changes for commuting messages (4.4.3).
//!
//! With [`Config::commutes`](crate::amcast::Config::commutes) a message waits only for the messages
//! below it with which it conflicts:
//! - P14 Of two messages that conflict, every process that delivers both delivers the one with the
//!   lower place first. When m is delivered, every undelivered message to this group that may get a
//!   place below m's is among `pending` (lines 28 and 29, as always), and m conflicts with none of
//!   them. Global: sim checkers `prefix_order` and `total_order`.
//! - P15 Every message to this group with a place up to `last` was delivered; the messages
//!   delivered above are in `ahead`. Marks, floors and states refer to `last`, so P6 to P8 hold
//!   unchanged. By `Machine::move_mark`; global: sim checkers `bounded`, `agreement`.
//! - P25 No message is delivered ahead of a pending one of its sender whose sequence is lower by
//!   [`WINDOW`] or more: the name of the lower one would count as delivered (P8). T3 does not
//!   exclude that: another member of the group may have delivered the lower one, which waits here
//!   for a message that it conflicts with. A message so much higher was multicast after that
//!   delivery, so its place is above, and the lower one is among `pending` (P14). By
//!   [`Staying::has_to_wait`].
//!
//! Where no messages commute `ahead` stays empty, and P14 is P1.

use super::{Machine, PrimcastWire};
use crate::amcast::bugs::Bug;
use crate::amcast::footprint::Footprint;
use crate::amcast::linear::{Rule, admits_by_clock};
use crate::amcast::{Host, MessageId, Place, Timestamp, To, WINDOW};
use crate::planted::Planting;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use base::Instant;
use core::time::Duration;

/// The pending messages that a walk upwards has left where they are.
struct Staying {
    /// The union of their footprints (F4).
    touches: Footprint,
    /// The lowest sequence of each sender.
    lowest: BTreeMap<u64, u64>,
}

impl Staying {
    fn add(&mut self, id: MessageId) {
        let lowest = self.lowest.entry(id.sender).or_insert(id.sequence);
        *lowest = id.sequence.min(*lowest);
    }

    /// Whether its delivery would be too far ahead of one that stays (P25).
    fn has_to_wait(&self, id: MessageId) -> bool {
        let lowest = self.lowest.get(&id.sender);
        lowest.is_some_and(|lowest| id.sequence >= lowest.saturating_add(WINDOW))
    }
}

impl<P: Planting<Bug>> Machine<P> {
    /// Lines 53 to 56. Examines only the first pending message: the others matter when it is their
    /// turn.
    pub(super) fn try_deliver<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if self.config.commutes {
            return self.deliver_what_commutes(now, host);
        }
        while self.takes_part() {
            let passed = self.passed();
            self.horizon.raise(self.me.group, passed);
            let Some((bound, id)) = self.first_pending() else { break };
            self.look_at(id);
            if self.first_pending() != Some((bound, id)) {
                continue;
            }
            let is_next = self.is_final((bound, id))
                && bound <= passed
                && self.is_admitted(bound, id, now, host);
            if !is_next {
                break;
            }
            self.take_cuts_below(bound, host);
            self.deliver(bound, id, now, host);
        }
        self.take_cuts(host);
    }

    /// Lines 28 and 29: a bound that every later proposal will exceed.
    fn passed(&self) -> Timestamp {
        let (primary, quorum) = self.own_clocks();
        let unless = |bug, clock| if self.planted.has(bug) { Timestamp(u64::MAX) } else { clock };
        unless(Bug::NoPrimaryClock, primary).min(unless(Bug::NoQuorumClock, quorum))
    }

    /// P14, P25: delivers everything that may be delivered now, in one pass upwards. The messages
    /// that stay are joined to one footprint, with which those above are compared.
    fn deliver_what_commutes<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        while self.takes_part() {
            self.deliver_in_one_walk(now, host);
            if !self.take_cuts(host) {
                break;
            }
        }
    }

    fn deliver_in_one_walk<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        // P16: nothing overtakes a cut.
        let cut = self.cuts.first().filter(|_| !self.planted.has(Bug::CutOvertaken));
        let passed = cut.map_or(self.passed(), |cut| cut.min(self.passed()));
        let within = (passed, MessageId { sender: u64::MAX, sequence: u64::MAX });
        let looked_at: Vec<Place> = self.log.pending.range(..=within).copied().collect();
        looked_at.into_iter().for_each(|(_, id)| self.look_at(id));
        let near: Vec<Place> = self.log.pending.range(..=within).copied().collect();
        let mut stays = Staying { touches: Footprint::NONE, lowest: BTreeMap::new() };
        let planted = self.planted;
        let ignores = planted.has(Bug::IgnoreConflicts);
        let is_nearest = planted.has(Bug::ConflictsWithNearest);
        for place in near {
            let body = self.records.get(place.1).and_then(|record| record.body.as_ref());
            // A message that is not here yet may touch any class.
            let unknown =
                if planted.has(Bug::UnknownCommutes) { Footprint::NONE } else { Footprint::ALL };
            let touches = body.map_or(unknown, |message| message.footprint);
            let conflicts = match (ignores, planted.has(Bug::ReadsNeverWait)) {
                (true, _) => false,
                (_, true) => touches.writes_meet(stays.touches),
                _ => touches.conflicts(stays.touches),
            };
            if self.is_final(place) && !conflicts && !stays.has_to_wait(place.1) {
                self.deliver(place.0, place.1, now, host);
            } else {
                stays.touches = if is_nearest { touches } else { stays.touches.union(touches) };
                stays.add(place.1);
            }
        }
        self.move_mark(now);
    }

    /// P15: raises the mark to the highest delivered place below everything that is pending, and no
    /// higher than the clocks that were passed: a state may bring messages above them, and below
    /// those a proposal may be on its way here.
    fn move_mark(&mut self, now: Instant) {
        let first =
            self.log.pending.first().copied().filter(|_| !self.planted.has(Bug::MarkOfLast));
        let passed = self.passed();
        while let Some(dest) = self.delivered.raise_mark(first, passed) {
            // The processes that share it received a lower mark when it was delivered.
            self.owed.marks = self.owed.marks.union(dest);
            self.tell_later(now);
        }
    }

    fn first_pending(&mut self) -> Option<Place> {
        if self.planted.has(Bug::IgnorePending) {
            self.look_at_all();
            return self.log.pending.iter().find(|place| self.is_final(**place)).copied();
        }
        self.log.pending.first().copied()
    }

    /// Whether a pending message is here, and this is its place. If the bound is above the final
    /// timestamp, the log holds a proposal of an old epoch, and a newer epoch is on its way here.
    fn is_final(&self, (bound, id): Place) -> bool {
        let record = self.records.get(id).expect("it is pending");
        record.body.is_some() && record.final_ts() == Some(bound)
    }

    fn deliver<H: Host<PrimcastWire>>(
        &mut self,
        at: Timestamp,
        id: MessageId,
        now: Instant,
        host: &mut H,
    ) {
        self.log.pending.remove(&(at, id));
        let record = self.records.known(id);
        record.bound = None;
        (record.is_delivered, record.final_at) = (true, Some(at));
        let message = record.body.clone().expect("only what is here is delivered");
        self.delivered.add((at, id), self.config.commutes.then_some(message.dest));
        self.retained.keep(&message, at);
        self.note_delivered(at, id);
        self.owed.marks = self.owed.marks.union(message.dest);
        self.said.audience = self.said.audience.union(message.dest);
        self.tell_later(now);
        host.deliver(&message, at);
    }

    /// Whether the rule for real time admits it (LR1, LR2, LR3).
    fn is_admitted<H: Host<PrimcastWire>>(
        &mut self,
        at: Timestamp,
        id: MessageId,
        now: Instant,
        host: &mut H,
    ) -> bool {
        let record = self.records.known(id);
        let dest = record.dest;
        if record.final_at.is_some() {
            // Another process has delivered it already: the rule concerns the first delivery.
            return true;
        }
        match self.config.rule {
            Rule::Plain => true,
            Rule::Hop => self.horizon.admits_by_hop((at, id), dest),
            Rule::AllGroups => self.horizon.admits_by_all((at, id), dest),
            Rule::CommitWait => {
                if self.horizon.admits_by_all((at, id), dest) {
                    return true;
                }
                let waited =
                    host.real_clock().map(|clock| admits_by_clock(clock, at, self.planted));
                match waited {
                    Some(Ok(())) => return true,
                    Some(Err(wait)) => {
                        let wake_at = now.plus(Duration::from_nanos(wait));
                        self.alarms.wake_at =
                            Some(self.alarms.wake_at.map_or(wake_at, |at| at.min(wake_at)));
                    }
                    None => self.ask_all_to_report(at, id, host),
                }
                false
            }
        }
    }

    /// Asks every group, once a message, for `commit-wait` without an attested clock.
    fn ask_all_to_report<H: Host<PrimcastWire>>(
        &mut self,
        at: Timestamp,
        id: MessageId,
        host: &mut H,
    ) {
        let record = self.records.known(id);
        if !record.has_asked_all {
            record.has_asked_all = true;
            let own = self.me.group.alone();
            let everybody = self.config.layout.groups();
            host.send(To::Groups(everybody), &PrimcastWire::Raise { ts: at, to: own });
        }
    }
}
