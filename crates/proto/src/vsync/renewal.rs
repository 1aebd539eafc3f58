//! A member's lease, and what it may answer, as its view lasts (`lease`).

use super::bugs::{Bug, Plantings};
use super::current::Current;
use super::lane::Sender;
use super::lease::{Answers, counted};
use super::shard::ViewId;
use super::view::Change;
use alloc::vec::Vec;
use base::{Instant, majority};
use core::time::Duration;

impl<P: Plantings> Current<P> {
    /// Notes that a beat leaves now, and tells which beats of the others this member has seen.
    pub(super) fn tell_heard(&mut self, beat: u64, now: Instant) {
        self.lease.note_beat(beat, now);
        let is_deaf = self.is_wedged() && !self.planted.has(Bug::HearsWedged);
        if self.lease.span().is_none() || is_deaf {
            return;
        }
        for seat in self.others().iter() {
            let beat = self.of(seat, self.row.beat);
            self.table.set(self.row.heard, seat.index(), beat);
        }
    }

    /// E2: what this member may answer in its shards, behind the `last` view.
    pub(super) fn hold_answers(&mut self, last: Option<&Current<P>>, now: Instant) {
        let Some(span) = self.lease.span().filter(|_| !self.planted.has(Bug::AnswersAtOnce)) else {
            return;
        };
        for at in 0..self.lanes.len() {
            let old = last.and_then(|last| last.lanes[at].as_ref());
            let Some(lane) = &self.lanes[at] else { continue };
            let has = |one: &Sender| lane.senders.iter().any(|own| own.process == one.process);
            let answers = match old.filter(|old| old.id == lane.id) {
                Some(old) if old.senders.iter().all(has) => {
                    let forgets = self.planted.has(Bug::HoldForgotten);
                    if forgets { Answers::Free } else { old.answers }
                }
                None if self.planted.has(Bug::NewcomerAnswers) => Answers::Free,
                None if last.is_none() && self.view.id == ViewId::FIRST => Answers::Free,
                _ if self.planted.has(Bug::HoldFromOldTime) => Answers::From(now.plus(span)),
                _ => Answers::Behind(now),
            };
            self.lanes[at].as_mut().expect("it is there").answers = answers;
        }
    }

    /// E2: by subgroup, when a process may answer whose last view this is. It does not stay for the
    /// leases of those that failed as it left.
    pub(super) fn answers_behind(&self, change: &Change) -> Vec<Instant> {
        let leaves = change.left.contains(self.me) && self.lease.span().is_some();
        let answers = self.lanes.iter().map(|lane| {
            let lane = lane.as_ref()?;
            let is_stale = leaves && !lane.seats.intersection(change.removed).is_empty();
            Some(if is_stale { Instant(u64::MAX) } else { lane.answers.from() })
        });
        answers.map(|from| from.unwrap_or(Instant::ZERO)).collect()
    }

    /// E2: takes the time of a turn.
    pub(super) fn tick_answers(&mut self, now: Instant) {
        let span = self.lease.span();
        for lane in self.lanes.iter_mut().flatten() {
            lane.answers.tick(span, now);
        }
    }

    /// The next time at which this member may answer what it may not yet, or looks for room on a
    /// link.
    pub(super) fn next_act_at(&self) -> Instant {
        let held = self.lanes.iter().flatten().filter_map(|lane| match lane.answers {
            Answers::Free => None,
            Answers::Behind(told) => Some(told.plus(Duration::from_nanos(1))),
            Answers::From(from) => Some(from),
        });
        held.fold(self.relays.look_at, Instant::min)
    }

    /// E1
    pub(super) fn renew_lease(&mut self, now: Instant) {
        let Some(span) = self.lease.span() else { return };
        if self.is_wedged() {
            self.lease.end();
            return;
        }
        let mut since: Vec<Instant> = self
            .others()
            .iter()
            .filter_map(|seat| {
                let beat = self.table.get(seat, self.row.heard, self.me.index());
                let left = self.lease.left_at(beat);
                if self.planted.has(Bug::LeaseFromEcho) { left.map(|_| now) } else { left }
            })
            .collect();
        since.sort_unstable_by(|a, b| b.cmp(a));
        let n_others = majority(self.view.members.len()) - 1;
        let n_others = if self.planted.has(Bug::LeaseOfOne) { n_others.min(1) } else { n_others };
        let is_ignored = self.planted.has(Bug::LeaseRateIgnored);
        let counted = if is_ignored { span } else { counted(span) };
        let from = n_others.checked_sub(1).map_or(Some(now), |last| since.get(last).copied());
        if let Some(from) = from {
            self.lease.extend(from.plus(counted));
        }
    }
}
