//! One member inside one view: its table, its place in the succession, and what it suspects.

use super::bugs::{Bug, Plantings};
use super::clock::{HybridClock, Time};
use super::columns::Row;
use super::detector::Detector;
use super::journal::Record;
use super::lane::Lane;
use super::layout::Layout;
use super::lease::Lease;
use super::order::Standing;
use super::relaying::Relays;
use super::view::{Change, View};
use super::wire::Message;
use super::{Config, Mode, Position};
use crate::sst::{Column, Seen, Table};
use alloc::vec::Vec;
use base::{Instant, Port, Rank, SeatSet};

/// The time after which a clock is shown again, if there is other news.
const SHOW_AFTER_NS: u64 = 1_000_000;

/// A change that this member accepts as soon as it is synced (`durable`, W3).
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) standing: Standing,
    pub(super) change: Change,
    pub(super) record: Record,
}

/// The state of a member in one view. The next view has another one: nothing is ever reset.
#[derive(Debug)]
pub(super) struct Current<P> {
    pub(super) planted: P,
    pub(super) layout: Layout,
    pub(super) row: Row,
    pub(super) view: View,
    /// The seats of all members.
    pub(super) seats: SeatSet,
    pub(super) me: Rank,
    pub(super) standing: Standing,
    /// Whether the group has no layout: one shard, which has all members.
    pub(super) is_whole: bool,
    /// By subgroup: the order of its messages.
    pub(super) modes: Vec<Mode>,
    /// By subgroup: this member's shard, if it is in one.
    pub(super) lanes: Vec<Option<Lane>>,
    pub(super) table: Table<P>,
    pub(super) detector: Detector,
    pub(super) clock: HybridClock,
    pub(super) lease: Lease,
    /// Words of slots on their way to peers.
    pub(super) scratch: Vec<u64>,
    /// The record of this view in the log (W4).
    pub(super) entry: Record,
    /// The trims of the view before this one, if they are known.
    pub(super) trims: Vec<u64>,
    /// A change that waits for its sync (W3).
    pub(super) pending: Option<Pending>,
    pub(super) relays: Relays,
    shown: Shown,
}

/// What every other member was shown of this one.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    /// Whether the places of this view are claimed there (`sst`, S6).
    is_claimed: bool,
    /// Whether the whole row was pushed there.
    is_told: bool,
}

impl<P: Plantings> Current<P> {
    /// Begins `view`, of which the process on `config`'s seat is a member.
    pub(super) fn begin(
        config: &Config,
        layout: &Layout,
        view: View,
        is_ready: impl Fn(usize) -> bool,
        planted: P,
        now: Instant,
    ) -> Current<P> {
        let me = config.me.seat;
        let standing = view.standing(me).expect("V1: this process is a member of its view");
        let n_seats = config.shape.n_seats;
        let mut table = Table::new(&layout.columns, n_seats, me, view.id.0, planted);
        let lanes = (0..config.shape.n_subgroups)
            .map(|at| Lane::of(&view, layout, config, at, planted))
            .collect::<Vec<_>>();
        for at in (0..lanes.len()).filter(|at| lanes[*at].is_some()) {
            table.set(layout.row.ready, at, u64::from(is_ready(at)));
        }
        Current {
            planted,
            layout: layout.clone(),
            row: layout.row,
            seats: view.seats(),
            me,
            standing,
            is_whole: config.is_whole(),
            modes: (0..lanes.len()).map(|at| config.mode(at)).collect(),
            lanes,
            table,
            detector: Detector::new(n_seats, config.timing.suspect_after, now),
            clock: HybridClock::at(view.time),
            lease: Lease::new(config.lease),
            view,
            scratch: Vec::new(),
            entry: Record(0),
            trims: Vec::new(),
            pending: None,
            relays: Relays::default(),
            shown: Shown::default(),
        }
    }

    /// Takes over the clock and the counts of the view before, and what was heard in it, in the
    /// shards in which this member stays.
    pub(super) fn hear_on(&mut self, last: &mut Current<P>) {
        self.relays.relayed = last.relays.relayed;
        if !self.planted.has(Bug::ClockNotCarried) {
            self.clock.see(last.clock.now());
        }
        let since = |view: &View, id| view.shard(id).map(|shard| shard.since);
        for (lane, old) in self.lanes.iter_mut().zip(&mut last.lanes) {
            let (Some(lane), Some(old)) = (lane, old) else { continue };
            lane.heard = core::mem::take(&mut old.heard);
            lane.heard.keep(&self.view);
            if lane.id == old.id && since(&self.view, lane.id) == since(&last.view, old.id) {
                lane.frontier = old.frontier.passed_on();
            }
        }
    }

    /// What a process is told that is in this view, or has an older log.
    pub(super) fn welcome(&self) -> Message<'static> {
        Message::Welcome { trims: self.trims.clone(), view: self.view.clone() }
    }

    // ---- rows ----

    /// Copies the rows of the others.
    pub(super) fn look(&mut self, port: &impl Port) -> Seen {
        let (layout, view) = (&self.layout, self.view.id.0);
        let row_of = |seat| layout.row_of(seat, view, self.planted);
        let n_writes = |seat| port.n_writes(row_of(seat), layout.columns.row_words());
        self.table.refresh(self.seats, n_writes, |seat, offset, words| {
            port.load_into(row_of(seat).plus(offset), words);
        })
    }

    /// Pushes what changed in the own row to every other member, the suspected ones included: it
    /// cannot harm them, and an excluded process learns that it is one. Those of `renewed` get the
    /// whole row, and the first time all do. That names the row's place, which a claim would take
    /// from it: so no claim of all others follows.
    pub(super) fn push(&mut self, renewed: SeatSet, port: &mut impl Port) {
        let at = self.layout.row_of(self.me, self.view.id.0, self.planted);
        let others = self.others();
        let whole = if self.shown.is_told { renewed.intersection(others) } else { others };
        (self.shown.is_told, self.shown.is_claimed) = (true, true);
        for peer in whole.iter() {
            self.table.push_all(|offset, words| port.write(peer, at.plus(offset), words, None));
        }
        let rest = others.difference(whole);
        self.table.push(|offset, words| {
            rest.iter().for_each(|peer| port.write(peer, at.plus(offset), words, None));
        });
    }

    /// Claims the places of this view, before a message is written there: the first time at every
    /// other member, and then at those of `renewed`, where a claim can be lost with the link.
    pub(super) fn claim(&mut self, renewed: SeatSet, port: &mut impl Port) {
        let at = self.layout.row_of(self.me, self.view.id.0, self.planted);
        let others = self.others();
        let is_first = !core::mem::replace(&mut self.shown.is_claimed, true);
        if !is_first && self.planted.has(Bug::ClaimedOnce) {
            return;
        }
        let to = if is_first { others } else { renewed.intersection(others) };
        self.table.claim(|offset, words| {
            to.iter().for_each(|peer| port.write(peer, at.plus(offset), words, None));
        });
    }

    /// Whether something waits to be pushed.
    pub(super) const fn has_news(&self) -> bool {
        !self.shown.is_told || self.table.is_changed()
    }

    /// A word of the own row.
    pub(super) fn own(&self, column: Column) -> u64 {
        self.table.get(self.me, column, 0)
    }

    /// Sets a flag of the own row.
    pub(super) fn raise(&mut self, flag: Column) {
        self.table.set(flag, 0, 1);
    }

    /// The clock that the row may show. K6: in a durable group the host's, which the next process
    /// on this seat can take up.
    fn clock_to_show(&self) -> Time {
        let is_hosts = self.has_disks() && !self.planted.has(Bug::ShowsTheSeen);
        if is_hosts { self.clock.host() } else { self.clock.now() }
    }

    /// Shows the clock, until this member has wedged: no frontier is beyond what it has seen then
    /// (K4), also where its row is read in part.
    pub(super) fn show_clock(&mut self) {
        if self.is_wedged() && !self.planted.has(Bug::ClockOfWedged) {
            return;
        }
        self.table.set(self.row.clock, 0, self.clock_to_show().0);
    }

    /// Shows the clock with other news, if a while has passed.
    pub(super) fn show_clock_again(&mut self) {
        let shown = self.own(self.row.clock);
        if self.clock_to_show().0.saturating_sub(shown) >= SHOW_AFTER_NS {
            self.show_clock();
        }
    }

    /// Sends and receives nothing more, and shows the latest time that it has seen (K2).
    pub(super) fn wedge(&mut self) {
        if !self.is_wedged() {
            self.table.set(self.row.seen, 0, self.clock.now().0);
        }
        self.raise(self.row.wedged);
    }

    /// Shows that this member wants to leave.
    pub(super) fn ask_to_leave(&mut self) {
        self.raise(self.row.leaving);
    }

    /// Shows that this member runs.
    pub(super) fn beat(&mut self, now: Instant) {
        let beat = self.own(self.row.beat) + 1;
        self.table.set(self.row.beat, 0, beat);
        self.tell_heard(beat, now);
        self.show_clock();
    }

    /// Whether every member that this one does not suspect has committed the change.
    pub(super) fn is_known(&self) -> bool {
        let others = self.trusted().intersection(self.others());
        self.table.all(others, |seat| self.of(seat, self.row.committed) == 1)
    }

    /// The first word of a column of a row. Zero while that does not count.
    pub(super) fn of(&self, seat: Rank, column: Column) -> u64 {
        self.table.get(seat, column, 0)
    }

    // ---- lanes ----

    /// The lane of a subgroup in which this member is in a shard.
    pub(super) fn lane(&self, subgroup: usize) -> &Lane {
        self.lanes[subgroup].as_ref().expect("a member of one of its shards")
    }

    /// The lane of a subgroup, if there is such a one and this member is in a shard of it.
    pub(super) fn lane_of(&self, subgroup: usize) -> Option<&Lane> {
        self.lanes.get(subgroup)?.as_ref()
    }

    /// Whether this member is in a shard of the subgroup.
    pub(super) fn has_lane(&self, subgroup: usize) -> bool {
        self.lane_of(subgroup).is_some()
    }

    // ---- seats ----

    pub(super) fn others(&self) -> SeatSet {
        self.seats.difference([self.me].into_iter().collect())
    }

    /// The members that this one does not suspect, itself among them.
    pub(super) fn trusted(&self) -> SeatSet {
        self.seats.difference(self.suspected(self.me))
    }

    /// The members that the row of `seat` suspects.
    pub(super) fn suspected(&self, seat: Rank) -> SeatSet {
        self.row.suspected(&self.table, seat)
    }

    /// Whether this member sends and receives nothing more.
    pub(super) fn is_wedged(&self) -> bool {
        self.own(self.row.wedged) == 1
    }

    /// The first member in the succession that this one does not suspect.
    pub(super) fn leader(&self) -> Rank {
        let trusted = self.trusted();
        let mut seats = self.view.members.iter().map(|member| member.seat());
        seats.find(|seat| trusted.contains(*seat)).expect("no member suspects itself")
    }

    /// The position that this member has delivered up to in its shard of `subgroup`.
    pub(super) fn position(&self, subgroup: usize) -> Position {
        Position { view: self.view.id, at: self.table.get(self.me, self.row.delivered, subgroup) }
    }

    /// Whether the member on `seat` has the state of its shard of `subgroup`.
    pub(super) fn has_state(&self, seat: Rank, subgroup: usize) -> bool {
        self.table.get(seat, self.row.ready, subgroup) == 1
    }

    /// Whether this member has it.
    pub(super) fn is_ready(&self, subgroup: usize) -> bool {
        self.has_state(self.me, subgroup)
    }
}
