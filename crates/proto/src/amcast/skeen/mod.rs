//! Skeen's atomic multicast, one process a group, no failures (paper 004, section 5.3): the root of
//! all timestamp protocols, here with the rules of [`linear`](crate::amcast::linear) as options
//! and, with [`Bug::Algorithm4`], algorithm 4's acknowledgements.
//!
//! Assumes: no process fails; T1, T2 of [`crate::amcast`].
//!
//! - S1 A process delivers in the order of (final timestamp, name). Asserted at each delivery.
//! - S2 The clock is at least every final timestamp that is known here. By construction: it is
//!   raised where a local timestamp is heard (line 14 raises it later, at the final timestamp).
//!
//! Plain, a message takes two steps; with any of the rules, or with algorithm 4, three. Algorithm 4
//! does not give the order that it was made for among three partitions or more:
//! `chain_of_three_groups` in the simulator's tests.

mod spec;
mod wire;

pub use spec::Spec;
pub use wire::SkeenWire;

use super::bugs::Bug;
use super::linear::{Horizon, Level, Listed, Rule, admits_by_clock};
use super::wire::is_addressable;
use super::{
    About, Config, GroupId, GroupSet, Host, Message, MessageId, Multicast, Pid, Place, Timestamp,
    To,
};
use crate::planted::{Planting, Sound};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Instant, Rank};
use core::iter;
use core::time::Duration;

/// One message.
#[derive(Clone, Debug)]
struct Record {
    dest: GroupSet,
    body: Option<Arc<Message>>,
    local: Vec<(GroupId, Timestamp)>,
    bound: Option<Timestamp>,
    acked: GroupSet,
    is_delivered: bool,
    has_asked_all: bool,
}

impl Record {
    fn final_ts(&self) -> Option<Timestamp> {
        (self.local.len() == self.dest.len()).then(|| self.largest_local())
    }

    fn largest_local(&self) -> Timestamp {
        self.local.iter().map(|(_, ts)| *ts).max().unwrap_or_default()
    }
}

/// One process: a whole group.
#[derive(Clone, Debug)]
pub struct Skeen<P: Planting<Bug> = Sound> {
    me: Pid,
    config: Config,
    clock: Timestamp,
    records: BTreeMap<MessageId, Record>,
    /// The messages that are timestamped here and undelivered.
    pending: BTreeSet<Place>,
    horizon: Horizon<P>,
    reported: Vec<Timestamp>,
    listed: Vec<Vec<Listed>>,
    last: Place,
    /// The messages that wait for an attested clock (LR3: without one none is timestamped).
    held: Vec<Arc<Message>>,
    wake_at: Option<Instant>,
    planted: P,
}

impl<P: Planting<Bug>> Skeen<P> {
    fn record(&mut self, id: MessageId, dest: GroupSet) -> &mut Record {
        self.records.entry(id).or_insert_with(|| Record {
            dest,
            body: None,
            local: Vec::new(),
            bound: None,
            acked: GroupSet::EMPTY,
            is_delivered: false,
            has_asked_all: false,
        })
    }

    fn timestamp_all<H: Host<SkeenWire>>(&mut self, now: Instant, host: &mut H) {
        if self.config.rule == Rule::CommitWait && host.real_clock().is_none() {
            let wake_at = now.plus(self.config.patience);
            self.wake_at = Some(self.wake_at.map_or(wake_at, |at| at.min(wake_at)));
            return;
        }
        for message in core::mem::take(&mut self.held) {
            self.timestamp(&message, host);
        }
    }

    /// Lines 8 to 11.
    fn timestamp<H: Host<SkeenWire>>(&mut self, message: &Arc<Message>, host: &mut H) {
        let record = self.record(message.id, message.dest);
        if record.body.is_some() {
            return;
        }
        record.body = Some(message.clone());
        let mut ts = self.clock.max(message.after).next();
        if self.config.hybrid || self.config.rule == Rule::CommitWait {
            ts = host.real_clock().map_or(ts, |clock| ts.max(Timestamp(clock.now)));
        }
        self.clock = ts;
        let (clock, listed) = self.report(message.dest);
        let wire = SkeenWire::Local { id: message.id, dest: message.dest, ts, clock, listed };
        host.send(To::Groups(message.dest), &wire);
        if self.config.rule == Rule::AllGroups && message.dest.len() > 1 {
            let others = self.config.layout.groups().difference(message.dest);
            host.send(To::Groups(others), &SkeenWire::Raise { ts, to: message.dest });
        }
        self.on_local(self.me.group, (message.id, message.dest), ts, host);
    }

    /// Lines 12 to 16.
    fn on_local<H: Host<SkeenWire>>(
        &mut self,
        from: GroupId,
        (id, dest): (MessageId, GroupSet),
        ts: Timestamp,
        host: &mut H,
    ) {
        if !self.planted.has(Bug::Algorithm4) {
            self.clock = self.clock.max(ts);
        }
        let own = self.me.group;
        let record = self.record(id, dest);
        if record.local.iter().any(|(group, _)| *group == from) {
            return;
        }
        record.local.push((from, ts));
        let is_mine = record.local.iter().any(|(group, _)| *group == own);
        let (bound, is_final) = (record.largest_local(), record.final_ts().is_some());
        if is_mine {
            if let Some(old) = record.bound.replace(bound) {
                self.pending.remove(&(old, id));
            }
            self.pending.insert((bound, id));
        }
        if self.planted.has(Bug::Algorithm4) && is_final {
            // Line 14: as printed, the clock waits for the final timestamp.
            self.clock = self.clock.max(bound);
            host.send(To::Groups(dest), &SkeenWire::Done { id, dest });
            self.record(id, dest).acked.insert(own);
        }
        if matches!(self.config.rule, Rule::Hop | Rule::AllGroups) && from != own {
            self.report_at_least(ts, dest.without(own), host);
        }
    }

    fn report(&mut self, to: GroupSet) -> (Timestamp, Vec<Listed>) {
        to.iter().for_each(|group| self.reported[group.index()] = self.clock);
        self.horizon.raise(self.me.group, self.clock);
        (self.clock, self.list(to))
    }

    fn report_at_least<H: Host<SkeenWire>>(&mut self, ts: Timestamp, to: GroupSet, host: &mut H) {
        let behind: GroupSet =
            to.iter().filter(|group| self.reported[group.index()] < ts).collect();
        self.report_to(behind, host);
    }

    fn report_to<H: Host<SkeenWire>>(&mut self, to: GroupSet, host: &mut H) {
        if !to.is_empty() {
            let (clock, listed) = self.report(to);
            host.send(To::Groups(to), &SkeenWire::Clock { clock, listed });
        }
    }

    /// Lists undelivered messages that concern others, for `hop`.
    fn list(&mut self, to: GroupSet) -> Vec<Listed> {
        let own = self.me.group;
        let others = to.without(own);
        if self.config.rule != Rule::Hop || others.is_empty() {
            return Vec::new();
        }
        let mut listed = Vec::new();
        for &(bound, id) in &self.pending {
            let record = &self.records[&id];
            if record.dest.len() > 1 && !others.is_within(record.dest) {
                let level = record
                    .final_ts()
                    .map_or(Level::default(), |at| self.horizon.level((at, id), record.dest));
                listed.push(Listed { bound, id, dest: record.dest, level });
            }
        }
        for group in others.iter() {
            let to_group = listed.iter().filter(|one| one.matters_to(group, own.alone()));
            self.listed[group.index()] = to_group.copied().collect();
        }
        listed
    }

    fn list_again<H: Host<SkeenWire>>(&mut self, host: &mut H) {
        self.horizon.raise(self.me.group, self.clock);
        for group in (0..self.listed.len()).map(GroupId::at) {
            let is_better = self.listed[group.index()].iter().any(|one| {
                let record = &self.records[&one.id];
                record.is_delivered
                    || record.bound != Some(one.bound)
                    || record.final_ts().is_some()
                        && self.horizon.level((one.bound, one.id), one.dest) > one.level
            });
            if is_better {
                self.report_to(group.alone(), host);
            }
        }
    }

    /// Lines 20 to 26.
    fn try_deliver<H: Host<SkeenWire>>(&mut self, now: Instant, host: &mut H) {
        while let Some(&(at, id)) = self.pending.first() {
            let record = &self.records[&id];
            if record.final_ts().is_none() || !self.is_admitted(at, id, now, host) {
                break;
            }
            assert!(self.last < (at, id), "S1: {id:?} at {at:?} comes after {:?}", self.last);
            self.last = (at, id);
            self.pending.remove(&(at, id));
            let record = self.records.get_mut(&id).expect("it is pending");
            record.bound = None;
            record.is_delivered = true;
            host.deliver(record.body.as_ref().expect("it was timestamped here"), at);
        }
        self.list_again(host);
    }

    fn is_admitted<H: Host<SkeenWire>>(
        &mut self,
        at: Timestamp,
        id: MessageId,
        now: Instant,
        host: &mut H,
    ) -> bool {
        let record = &self.records[&id];
        let dest = record.dest;
        if self.planted.has(Bug::Algorithm4) {
            return record.acked == dest;
        }
        match self.config.rule {
            Rule::Plain => true,
            Rule::Hop => self.horizon.admits_by_hop((at, id), dest),
            Rule::AllGroups => self.horizon.admits_by_all((at, id), dest),
            Rule::CommitWait => {
                if self.horizon.admits_by_all((at, id), dest) {
                    return true;
                }
                match host.real_clock().map(|clock| admits_by_clock(clock, at, self.planted)) {
                    Some(Ok(())) => return true,
                    Some(Err(wait)) => {
                        let wake_at = now.plus(Duration::from_nanos(wait));
                        self.wake_at = Some(self.wake_at.map_or(wake_at, |at| at.min(wake_at)));
                    }
                    None => self.ask_all_to_report(at, id, host),
                }
                false
            }
        }
    }

    fn ask_all_to_report<H: Host<SkeenWire>>(
        &mut self,
        at: Timestamp,
        id: MessageId,
        host: &mut H,
    ) {
        let record = self.records.get_mut(&id).expect("it is pending");
        if !record.has_asked_all {
            record.has_asked_all = true;
            let to = self.me.group.alone();
            host.send(To::Groups(self.config.layout.groups()), &SkeenWire::Raise { ts: at, to });
        }
    }

    fn hear(&mut self, from: GroupId, clock: Timestamp, listed: &[Listed]) {
        self.horizon.raise(from, clock);
        self.horizon.tell(from, clock, listed);
        assert!(
            from == self.me.group || self.horizon.is_listed(from),
            "LR4: a process reports no clock below an earlier one"
        );
    }
}

impl<P: Planting<Bug>> Multicast for Skeen<P> {
    type Wire = SkeenWire;

    type Planted = P;

    const SURVIVES_CRASHES: bool = false;

    fn new(config: &Config, me: Pid, planted: P) -> Skeen<P> {
        let n_groups = config.layout.n_groups();
        let is_single = config.layout.groups().iter().all(|g| config.layout.members(g) == 1);
        assert!(is_single, "Skeen's groups have one process each: it survives no failure");
        Skeen {
            me,
            config: config.clone(),
            clock: Timestamp::ZERO,
            records: BTreeMap::new(),
            pending: BTreeSet::new(),
            horizon: Horizon::new(me.group, &config.layout, planted),
            reported: alloc::vec![Timestamp::ZERO; n_groups],
            listed: alloc::vec![Vec::new(); n_groups],
            last: Place::default(),
            held: Vec::new(),
            wake_at: None,
            planted,
        }
    }

    fn on_start<H: Host<SkeenWire>>(&mut self, message: &Arc<Message>, now: Instant, host: &mut H) {
        let is_ours = message.dest.contains(self.me.group);
        if is_ours && is_addressable(message.dest, &self.config.layout) {
            self.held.push(message.clone());
            self.timestamp_all(now, host);
            self.try_deliver(now, host);
        }
    }

    fn on_wire<H: Host<SkeenWire>>(
        &mut self,
        from: Pid,
        wire: &SkeenWire,
        now: Instant,
        host: &mut H,
    ) {
        if !self.config.layout.has(from) || from == self.me {
            return;
        }
        match wire {
            SkeenWire::Local { id, dest, ts, clock, listed } => {
                let is_ours = dest.contains(self.me.group) && dest.contains(from.group);
                if is_ours && is_addressable(*dest, &self.config.layout) {
                    self.hear(from.group, *clock, listed);
                    self.on_local(from.group, (*id, *dest), *ts, host);
                }
            }
            SkeenWire::Done { id, dest } => self.record(*id, *dest).acked.insert(from.group),
            SkeenWire::Clock { clock, listed } => self.hear(from.group, *clock, listed),
            SkeenWire::Raise { ts, to } => {
                self.clock = self.clock.max(*ts);
                self.report_at_least(*ts, to.without(self.me.group), host);
            }
        }
        self.try_deliver(now, host);
    }

    fn trust<H: Host<SkeenWire>>(&mut self, _: Rank, _: Instant, _: &mut H) {}

    fn tick<H: Host<SkeenWire>>(&mut self, now: Instant, host: &mut H) {
        if self.wake_at.is_some_and(|at| at <= now) {
            self.wake_at = None;
        }
        if !self.held.is_empty() {
            self.timestamp_all(now, host);
        }
        self.try_deliver(now, host);
    }

    fn deadline(&self) -> Option<Instant> {
        self.wake_at
    }

    fn is_primary(&self) -> bool {
        true
    }

    fn about(wire: &SkeenWire) -> impl Iterator<Item = About> {
        iter::once(match wire {
            SkeenWire::Local { id, .. } | SkeenWire::Done { id, .. } => About::Message(*id),
            SkeenWire::Clock { .. } | SkeenWire::Raise { .. } => About::Clock,
        })
    }
}
