//! The rules of the end of a view, each at one member whose copies of the other rows are given; and
//! the planted mistakes that break them.

mod net;
mod parcels;
mod relays;
mod room;
mod times;

use super::bugs::{Bug, Plantings};
use super::change::{Asking, Turn};
use super::clock::Time;
use super::columns::{Row, ballot};
use super::current::Current;
use super::delivery::FLIGHT_BYTES_MAX;
use super::durable::Kept;
use super::journal::Journal;
use super::landing::Landing;
use super::layout::{Layout, Shape};
use super::lease::Lease;
use super::order::Standing;
use super::outbox::Outbox;
use super::payload::Payload;
use super::relaying::Relaying;
use super::shard::{Candidates, ShardId, Subgroup, ViewId};
use super::slots::Header;
use super::view::tests::{founded_by, process};
use super::view::{Change, Knock, View};
use super::{Config, End, Machine, Mode, Position, Start, Timing};
use crate::disk::DiskEvent;
use crate::planted::{Planted, Sound};
use crate::sst::Table;
use crate::stage::disk::TestDisk;
use crate::value::Region;
use alloc::vec;
use alloc::vec::Vec;
use base::{Instant, Rank, SeatSet};
use core::time::Duration;

/// The shape of small groups.
pub(super) const SHAPE: Shape = Shape {
    mode: Mode::Ordered,
    n_seats: 8,
    window: 4,
    message_bytes: 16,
    n_subgroups: 1,
    n_shards: 1,
    n_places: 0,
    relaying: Relaying::DEFAULT,
};

const NONE_ASKS: Asking<'_> = Asking { knocks: &[], layout: &[] };

/// The rows of a view, as one member's memory has them.
struct Rows {
    layout: Layout,
    subgroups: Vec<Subgroup>,
    view: View,
    tables: Vec<Table<Sound>>,
}

impl Rows {
    /// Rows of `n` members on the first seats of eight.
    fn of(n: usize) -> Rows {
        Rows::with(n, SHAPE)
    }

    fn with(n: usize, shape: Shape) -> Rows {
        let layout = Layout::new(&shape);
        let view = founded_by(&(0..n).map(|seat| process(seat, 1)).collect::<Vec<_>>());
        let table = |seat| Table::new(&layout.columns, 8, Rank::at(seat), view.id.0, Sound);
        let tables = (0..n).map(table).collect();
        let mut rows = Rows { layout, subgroups: Vec::new(), view, tables };
        (0..n).for_each(|seat| rows.tell(seat, |row, table| table.set(row.ready, 0, 1)));
        rows
    }

    /// Rows of `n` members, in two shards of one subgroup: those on even seats, and on odd ones.
    fn in_shards(n: usize) -> Rows {
        let mut rows = Rows::with(n, Shape { n_shards: 2, ..SHAPE });
        let shards = [Candidates::All; 2].to_vec();
        rows.subgroups = vec![Subgroup { shards, ..Subgroup::whole() }];
        let founders: Vec<Knock> = (0..n).map(|seat| process(seat, 1)).collect();
        rows.view = View::founded_by(&founders, &rows.subgroups);
        rows
    }

    fn tell(&mut self, seat: usize, act: impl FnOnce(&Row, &mut Table<Sound>)) {
        act(&self.layout.row, &mut self.tables[seat]);
    }

    /// The row of `seat` is wedged, holds `received` of each member, and suspects `suspected`.
    fn wedge(&mut self, seat: usize, received: u64, suspected: &[usize]) {
        let n = self.view.members.len();
        self.tell(seat, |row, table| {
            (0..n).for_each(|sender| table.set(row.received, sender, received));
            table.set(row.wedged, 0, 1);
            row.suspect(table, set(suspected));
        });
    }

    /// The row of `seat` shows that `leader` proposed a change with this trim.
    fn echo(&mut self, seat: usize, leader: u16, trim: u64) {
        let change = trimmed(trim);
        self.tell(seat, |row, table| row.publish(table, &change, Standing(leader)));
    }

    /// The member on `me`, which has read all rows, and has said what its own one says.
    fn read_by<P: Plantings>(&self, me: usize, planted: P) -> Current<P> {
        let config = Config {
            me: process(me, 1),
            start: Start::Join,
            shape: self.layout.shape,
            timing: Timing::default(),
            n_adequate: 1,
            keeps_state: true,
            lease: None,
            group: 0,
            keep_bytes: 0,
            layout: self.subgroups.clone(),
        };
        let view = self.view.clone();
        let mut current =
            Current::begin(&config, &self.layout, view, |_| true, planted, Instant::ZERO);
        let own = &self.tables[me];
        let row = self.layout.row;
        (0..8).for_each(|at| {
            current.table.set(row.received, at, own.get(Rank::at(me), row.received, at));
        });
        for column in [row.wedged, row.leaving, row.suspected] {
            current.table.set(column, 0, own.get(Rank::at(me), column, 0));
        }
        let proposer = own.get(Rank::at(me), row.proposer, 0);
        if proposer > 0 {
            let change = row.change(own, Rank::at(me));
            row.publish(&mut current.table, &change, Standing(proposer as u16 - 1));
        }
        self.show(&mut current);
        current
    }

    /// Lets `current` read the rows as they are now.
    fn show<P: Plantings>(&self, current: &mut Current<P>) {
        let n_words = self.layout.columns.row_words() as usize;
        let memory: Vec<Vec<u64>> = self
            .tables
            .iter()
            .map(|table| {
                let mut memory = vec![0; n_words];
                table.push_all(|offset, words| {
                    memory[offset as usize..][..words.len()].copy_from_slice(words);
                });
                memory
            })
            .collect();
        current.table.refresh(
            self.view.seats(),
            |_| None,
            |seat, offset, words| {
                words.copy_from_slice(&memory[seat.index()][offset as usize..][..words.len()]);
            },
        );
    }
}

/// A change with this trim.
fn trimmed(trim: u64) -> Change {
    Change { trims: vec![trim], bearers: vec![SeatSet::EMPTY], ..Change::default() }
}

fn set(seats: &[usize]) -> SeatSet {
    seats.iter().map(|seat| Rank::at(*seat)).collect()
}

/// What the row of the member on `me` shows after a turn: the leader's ballot, and the change.
fn shown<P: Plantings>(rows: &Rows, me: usize, planted: P) -> (u64, Change) {
    shown_with(rows, me, &[], planted)
}

fn shown_with<P: Plantings>(rows: &Rows, me: usize, knocks: &[Knock], planted: P) -> (u64, Change) {
    let mut current = rows.read_by(me, planted);
    let asking = Asking { knocks, layout: &rows.subgroups };
    current.turn_of_change(SeatSet::EMPTY, asking, &mut Journal::default());
    (current.own(current.row.proposer), current.row.change(&current.table, Rank::at(me)))
}

/// How the turn of the member on `me` ends.
fn turn<P: Plantings>(rows: &Rows, me: usize, planted: P) -> Turn {
    rows.read_by(me, planted).turn_of_change(SeatSet::EMPTY, NONE_ASKS, &mut Journal::default())
}

fn is_decided<P: Plantings>(rows: &Rows, me: usize, planted: P) -> bool {
    matches!(turn(rows, me, planted), Turn::Install(_))
}

/// A view of five whose first member has failed; the second leads.
fn without_the_first() -> Rows {
    let mut rows = Rows::of(5);
    (1..5).for_each(|seat| rows.wedge(seat, 4, &[0]));
    rows
}

#[test]
fn c2_a_member_that_finds_itself_suspected_stops_and_frozen_rows_do_not_count() {
    let mut rows = Rows::of(3);
    rows.wedge(1, 0, &[2]);
    assert_eq!(turn(&rows, 2, Sound), Turn::End(End::Excluded));
    // Two that suspect each other do not end the third.
    rows.wedge(2, 0, &[1]);
    let mut third = rows.read_by(0, Sound);
    assert_eq!(
        third.turn_of_change(SeatSet::EMPTY, NONE_ASKS, &mut Journal::default()),
        Turn::Stay
    );
    assert_eq!(third.trusted(), set(&[0, 1]), "the row of 2 was frozen before it was read");
    let alone = rows.read_by(0, Planted(Bug::SuspicionKept));
    assert_eq!(alone.trusted(), set(&[0, 1, 2]));
}

#[test]
fn c3_a_change_of_a_suspected_leader_is_not_echoed() {
    let mut rows = without_the_first();
    rows.echo(0, 0, 7);
    rows.wedge(0, 4, &[]);
    assert_eq!(shown(&rows, 3, Sound).0, 0);
    assert_eq!(shown(&rows, 3, Planted(Bug::EchoSuspected)).0, ballot(Standing(0)));
    rows.echo(1, 1, 9);
    assert_eq!(shown(&rows, 3, Sound), (2, trimmed(9)));
}

#[test]
fn c4_a_member_leads_when_all_that_it_trusts_have_wedged_and_agree() {
    let mut rows = Rows::of(5);
    (1..4).for_each(|seat| rows.wedge(seat, 4, &[0]));
    assert_eq!(shown(&rows, 1, Sound).0, 0, "4 has not wedged");
    rows.tell(4, |row, table| table.set(row.wedged, 0, 1));
    assert_eq!(shown(&rows, 1, Sound).0, 0, "4 does not suspect 0");
    assert_eq!(shown(&rows, 1, Planted(Bug::LeadAlone)).0, 2);
    rows.wedge(4, 4, &[0]);
    assert_eq!(shown(&rows, 1, Sound).0, 2);
    let mut unwedged = Rows::of(3);
    unwedged.wedge(0, 4, &[]);
    assert_eq!(shown(&unwedged, 0, Sound).0, 0);
    assert_eq!(shown(&unwedged, 0, Planted(Bug::TrimUnwedged)).0, 1);
}

#[test]
fn c5_the_change_of_the_last_leader_before_is_adopted() {
    let mut rows = Rows::of(5);
    (2..5).for_each(|seat| rows.wedge(seat, 4, &[0, 1]));
    rows.echo(3, 0, 7);
    rows.echo(4, 1, 8);
    rows.echo(1, 1, 8);
    assert_eq!(shown(&rows, 2, Sound), (3, trimmed(8)));
    assert_eq!(shown(&rows, 2, Planted(Bug::AdoptFirst)).1.trims[0], 7);
    let own = shown(&rows, 2, Planted(Bug::NoAdoption)).1;
    assert_eq!((own.trims[0], own.removed), (20, set(&[0, 1])));
}

#[test]
fn c6_the_trim_is_what_the_unsuspected_hold() {
    let mut rows = without_the_first();
    // A stale row: 0 had received three messages of each when it was last read.
    rows.tell(0, |row, table| (0..5).for_each(|sender| table.set(row.received, sender, 3)));
    assert_eq!(shown(&rows, 1, Sound).1.trims[0], 20);
    assert_eq!(shown(&rows, 1, Planted(Bug::TrimOfSuspected)).1.trims[0], 15);
}

#[test]
fn c6_each_shard_has_a_trim_of_its_own() {
    let mut rows = Rows::in_shards(5);
    for (seat, received) in [(1, 2), (2, 4), (3, 1), (4, 3)] {
        rows.wedge(seat, received, &[0]);
    }
    // 0, 2 and 4 have a shard, and 1 and 3 the other one.
    assert_eq!(shown(&rows, 1, Sound).1.trims, [9, 2]);
    assert_eq!(shown(&rows, 1, Planted(Bug::OneTrim)).1.trims, [9, 2]);
    let mut rows = Rows::in_shards(4);
    for (seat, received) in [(0, 1), (1, 2), (2, 1), (3, 2)] {
        rows.wedge(seat, received, &[]);
    }
    let (_, change) = shown(&rows, 0, Sound);
    assert_eq!((change.trims, change.bearers), (vec![2, 4], vec![set(&[0, 1, 2, 3])]));
    assert_eq!(shown(&rows, 0, Planted(Bug::OneTrim)).1.trims, [2, 2]);
}

#[test]
fn v9_newcomers_to_shards_are_fewer_and_a_shard_s_last_bearer_waits_for_them() {
    let mut rows = Rows::in_shards(4);
    (0..4).for_each(|seat| rows.wedge(seat, 0, &[]));
    let knocks: Vec<Knock> = (4..8).map(|seat| process(seat, 1)).collect();
    assert_eq!(shown_with(&rows, 0, &knocks, Sound).1.joined.len(), 3);
    // 2 lacks the state of its shard, which 0 has.
    rows.tables[2] = Table::new(&rows.layout.columns, 8, Rank::at(2), 1, Sound);
    rows.wedge(2, 0, &[]);
    assert_eq!(shown_with(&rows, 0, &knocks, Sound).1.joined.len(), 1);
    for seat in [0, 1] {
        rows.tell(seat, |row, table| table.set(row.leaving, 0, 1));
    }
    assert_eq!(shown(&rows, 0, Sound).1.left, set(&[1]));
    assert_eq!(shown(&rows, 0, Planted(Bug::LastLeaves)).1.left, set(&[0, 1]));
}

#[test]
fn c7_a_member_without_a_strict_majority_stops() {
    let mut rows = Rows::of(4);
    (2..4).for_each(|seat| rows.wedge(seat, 0, &[0, 1]));
    assert_eq!(turn(&rows, 2, Sound), Turn::End(End::Partitioned));
    assert_ne!(turn(&rows, 2, Planted(Bug::MinorityContinues)), Turn::End(End::Partitioned));
    let mut five = Rows::of(5);
    (2..5).for_each(|seat| five.wedge(seat, 0, &[0, 1]));
    assert_eq!(turn(&five, 3, Sound), Turn::Stay);
}

#[test]
fn c8_a_change_is_decided_by_the_echoes_of_a_majority_and_leavers_count() {
    let mut rows = Rows::of(4);
    (0..4).for_each(|seat| rows.wedge(seat, 4, &[]));
    rows.echo(0, 0, 7);
    assert!(!is_decided(&rows, 0, Sound));
    assert!(is_decided(&rows, 0, Planted(Bug::UnechoedChange)));
    rows.echo(1, 0, 7);
    assert!(!is_decided(&rows, 0, Sound) && is_decided(&rows, 0, Planted(Bug::EchoOfHalf)));
    rows.echo(2, 0, 7);
    assert!(is_decided(&rows, 0, Sound));
    rows.tell(2, |row, table| table.set(row.leaving, 0, 1));
    assert!(is_decided(&rows, 0, Sound) && !is_decided(&rows, 0, Planted(Bug::LeaverUncounted)));
}

#[test]
fn c9_a_member_that_saw_no_majority_learns_the_decision_from_one_that_has_moved_on() {
    let mut rows = without_the_first();
    rows.echo(2, 0, 7);
    assert!(!is_decided(&rows, 3, Sound));
    rows.tell(2, |row, table| table.set(row.committed, 0, 1));
    let Turn::Install(decided) = turn(&rows, 3, Sound) else { panic!("C9") };
    assert_eq!(decided.change().trims[0], 7);
    // It says so too, whatever it had echoed; or else those behind it never learn it.
    rows.echo(3, 0, 7);
    for (bug, committed) in [(None, 1), (Some(Bug::NoCommit), 0)] {
        let mut current = match bug {
            None => committed_by(rows.read_by(3, Sound), &decided),
            Some(bug) => committed_by(rows.read_by(3, Planted(bug)), &decided),
        };
        assert_eq!(current.pop(), Some(committed));
    }
}

fn committed_by<P: Plantings>(
    mut current: Current<P>,
    decided: &super::change::Decided,
) -> Vec<u64> {
    current.commit(decided);
    vec![current.own(current.row.committed)]
}

#[test]
fn v9_the_members_that_have_the_state_are_a_majority_of_the_view_with_its_newcomers() {
    let knocks: Vec<Knock> = (4..8).map(|seat| process(seat, 1)).collect();
    let joined = |change: Change| change.joined.len();
    for (n, n_joined) in [(1, 1), (2, 1), (3, 2), (4, 3)] {
        let mut rows = Rows::of(n);
        rows.subgroups = vec![Subgroup::whole()];
        (0..n).for_each(|seat| rows.wedge(seat, 0, &[]));
        assert_eq!(joined(shown_with(&rows, 0, &knocks, Sound).1), n_joined, "{n}");
        assert_eq!(joined(shown_with(&rows, 0, &knocks, Planted(Bug::CrowdOfNewcomers)).1), 4);
    }
}

#[test]
fn v9_a_member_that_comes_to_a_shard_counts_as_one_without_its_state() {
    let mut rows = Rows::of(5);
    rows.subgroups = vec![Subgroup { n_most: 4, ..Subgroup::whole() }];
    let founders: Vec<Knock> = (0..5).map(|seat| process(seat, 1)).collect();
    rows.view = View::founded_by(&founders, &rows.subgroups);
    (0..5).for_each(|seat| rows.wedge(seat, 0, &[]));
    let knocks: Vec<Knock> = (5..8).map(|seat| process(seat, 1)).collect();
    let joined = |rows: &Rows| shown_with(rows, 0, &knocks, Sound).1.joined.len();
    assert_eq!(joined(&rows), 3, "4 is in no shard, and stays so");
    rows.tell(1, |row, table| table.set(row.leaving, 0, 1));
    assert_eq!(joined(&rows), 2, "4 comes to where 0, 2 and 3 have the state");
    rows.tell(0, |row, table| table.set(row.leaving, 0, 1));
    assert_eq!(joined(&rows), 1, "4 comes to where 2 and 3 have the state");
    rows.tell(2, |row, table| table.set(row.leaving, 0, 1));
    assert_eq!(joined(&rows), 0, "4 comes to where 3 alone has the state");
}

#[test]
fn v9_members_leave_when_of_those_that_stay_as_many_have_the_state_as_lack_it() {
    let mut rows = Rows::of(5);
    for seat in 3..5 {
        rows.tables[seat] = Table::new(&rows.layout.columns, 8, Rank::at(seat), 1, Sound);
    }
    (0..5).for_each(|seat| rows.wedge(seat, 0, &[]));
    for seat in [0, 1] {
        rows.tell(seat, |row, table| table.set(row.leaving, 0, 1));
    }
    assert_eq!(shown(&rows, 0, Sound).1.left, set(&[]), "2 alone would have it");
    rows.tell(3, |row, table| table.set(row.leaving, 0, 1));
    assert_eq!(shown(&rows, 0, Sound).1.left, set(&[0, 1, 3]), "2 and 4 are left");
    rows.tell(2, |row, table| table.set(row.leaving, 0, 1));
    assert_eq!(shown(&rows, 0, Sound).1.left, set(&[3]), "4 waits for it");
    rows.tell(4, |row, table| table.set(row.ready, 0, 1));
    assert_eq!(shown(&rows, 0, Sound).1.left, set(&[0, 1, 2, 3]));
}

#[test]
fn v9_the_last_member_that_has_the_state_stays_until_another_has_it() {
    let mut rows = Rows::of(2);
    rows.tables[1] = Table::new(&rows.layout.columns, 8, Rank::at(1), 1, Sound);
    (0..2).for_each(|seat| rows.wedge(seat, 0, &[]));
    rows.tell(0, |row, table| table.set(row.leaving, 0, 1));
    assert_eq!(shown(&rows, 0, Sound).1.left, set(&[]));
    assert_eq!(shown(&rows, 0, Planted(Bug::LastLeaves)).1.left, set(&[0]));
    rows.tell(1, |row, table| table.set(row.ready, 0, 1));
    assert_eq!(shown(&rows, 0, Sound).1.left, set(&[0]));
}

/// A landing area without places.
fn unlanded<P: Plantings>(planted: P) -> Landing<P> {
    Landing::new(Layout::new(&SHAPE).landing, process(0, 1), planted)
}

const MIB: usize = 1 << 20;

/// The bytes that were written to two members since the last call.
fn take_written(port: &mut Region) -> [u64; 2] {
    let written = core::mem::take(&mut port.written);
    [1, 2].map(|seat| {
        let to = written.iter().filter(|(to, _)| *to == Rank::at(seat));
        to.map(|(_, n_words)| 8 * *n_words as u64).sum()
    })
}

/// The bytes that a sender with a full ring writes to two members: at first, when the first has
/// received all of that and the second four messages, and again after the second one's link broke.
fn written<P: Plantings>(planted: P) -> [[u64; 2]; 3] {
    let mut rows = Rows::with(3, Shape { window: 32, message_bytes: MIB as u32, ..SHAPE });
    let mut current = rows.read_by(0, planted);
    let mut outbox = Outbox::default();
    (0..32).for_each(|_| outbox.put(Payload::from(&[7; MIB][..])));
    let mut written = Region::default();
    assert!(current.send(0, &mut outbox, &mut unlanded(planted), &mut written));
    let first = take_written(&mut written);
    rows.tell(1, |row, table| table.set(row.received, 0, outbox.n_sent()));
    rows.tell(2, |row, table| table.set(row.received, 0, 4));
    rows.show(&mut current);
    current.send(0, &mut outbox, &mut unlanded(planted), &mut written);
    let second = take_written(&mut written);
    current.write_ring(0, &outbox, set(&[2]), &mut written);
    [first, second, take_written(&mut written)]
}

#[test]
fn v13_a_sender_writes_no_more_than_a_link_keeps_also_when_it_writes_again() {
    let [first, second, again] = written(Sound);
    let is_most = |bytes: u64| bytes <= FLIGHT_BYTES_MAX && bytes > FLIGHT_BYTES_MAX - (2 << 20);
    assert!(first.into_iter().all(is_most), "{first:?}");
    assert_eq!(second, [4 * (16 + (1 << 20)); 2], "there is room for what the slower one received");
    assert!(again[0] == 0 && is_most(again[1]), "{again:?}");
    let unbounded = written(Planted(Bug::FlightUnbounded))[0];
    assert!(unbounded.into_iter().all(|bytes| bytes > FLIGHT_BYTES_MAX), "{unbounded:?}");
}

#[test]
fn v13_what_is_on_its_way_in_all_subgroups_fits_into_a_link() {
    let (n_subgroups, message_bytes) = (3, MIB as u32);
    let shape = Shape { window: 32, message_bytes, n_subgroups, n_shards: n_subgroups, ..SHAPE };
    let mut rows = Rows::with(3, shape);
    rows.subgroups = vec![Subgroup::whole(); 3];
    let founders: Vec<Knock> = (0..3).map(|seat| process(seat, 1)).collect();
    rows.view = View::founded_by(&founders, &rows.subgroups);
    let mut current = rows.read_by(0, Sound);
    let mut port = Region::default();
    for subgroup in 0..3 {
        let mut outbox = Outbox::default();
        (0..32).for_each(|_| outbox.put(Payload::from(&[7; MIB][..])));
        assert!(current.send(subgroup, &mut outbox, &mut unlanded(Sound), &mut port));
    }
    let most = FLIGHT_BYTES_MAX + 2 * MIB as u64;
    let written = take_written(&mut port);
    assert!(
        written.into_iter().all(|bytes| (3 * MIB as u64..=most).contains(&bytes)),
        "{written:?}"
    );
}

const ON_DISKS: Shape = Shape { mode: Mode::Durable, ..SHAPE };

/// Everything that was put is written, and synced.
fn sync(journal: &mut Journal, disk: &mut TestDisk) {
    journal.write(disk);
    let flush = disk.end_sync().expect("a sync was asked for");
    journal.on_event(DiskEvent::Synced(flush));
}

/// The length of the order that a member tells as persisted: with a message that is put and no
/// more, synced without the state that it follows, and with that.
fn persisted<P: Plantings>(planted: P) -> [u64; 3] {
    let mut current = Rows::with(1, ON_DISKS).read_by(0, planted);
    let (mut outbox, mut port) = (Outbox::default(), Region::default());
    outbox.put(Payload::from(&[7; 16][..]));
    current.send(0, &mut outbox, &mut unlanded(planted), &mut port);
    let mut disk = TestDisk::default();
    let (mut journal, mut kept) = (Journal::on(&disk), Kept::default());
    let mut tell = |kept: &mut Kept, journal: &mut Journal| {
        current.persist(0, kept, &outbox, journal, &port).expect("an own message");
        current.own(current.row.persisted)
    };
    let put = tell(&mut kept, &mut journal);
    sync(&mut journal, &mut disk);
    let without = tell(&mut kept, &mut journal);
    let at = Position { view: ViewId::FIRST, at: 0 };
    kept.put((ShardId::default(), ViewId::FIRST), at, Time(1), b"state", &mut journal);
    assert_eq!(tell(&mut kept, &mut journal), without, "the state is not synced");
    sync(&mut journal, &mut disk);
    [put, without, tell(&mut kept, &mut journal)]
}

#[test]
fn w1_persisted_is_what_is_synced_behind_a_state_that_is_synced() {
    assert_eq!(persisted(Sound), [0, 0, 1]);
    assert_eq!(persisted(Planted(Bug::PersistedWithoutState)), [0, 1, 1]);
}

/// The numbers of WRITEs to the second of two founders: before the first one's view is synced, and
/// behind that.
fn told<P: Plantings>(planted: P) -> [usize; 2] {
    let config = Config {
        me: process(0, 1),
        start: Start::Found([0, 1].map(|seat| process(seat, 1)).to_vec()),
        shape: ON_DISKS,
        timing: Timing::default(),
        n_adequate: 1,
        keeps_state: true,
        lease: None,
        group: 0,
        keep_bytes: 0,
        layout: Vec::new(),
    };
    let mut disk = TestDisk::default();
    let n_words = super::region(&ON_DISKS).n_words as usize;
    let mut port = Region { words: vec![0; n_words], ..Region::default() };
    let mut machine = Machine::on(config, &mut disk, planted, Instant::ZERO).expect("a new disk");
    let mut turn = |machine: &mut Machine<P>, disk: &mut TestDisk| {
        machine.poll(Instant::ZERO, &mut port, &mut Vec::new());
        machine.write(disk);
        core::mem::take(&mut port.written).len()
    };
    let before = turn(&mut machine, &mut disk);
    let flush = disk.end_sync().expect("a sync was asked for");
    machine.on_disk(DiskEvent::Synced(flush));
    [before, turn(&mut machine, &mut disk)]
}

#[test]
fn w4_nothing_is_told_in_a_view_that_is_not_synced() {
    let [before, behind] = told(Sound);
    assert!(before == 0 && behind > 0, "{before}, {behind}");
    assert!(told(Planted(Bug::RowBeforeView))[0] > 0);
}

/// What a member makes of a message in the ring of another one, whose row names this view.
fn read_where<P: Plantings>(named: u64, planted: P) -> Option<u64> {
    let rows = Rows::of(2);
    let current = rows.read_by(0, planted);
    let n_words = super::region(&rows.layout.shape).n_words as usize;
    let mut port = Region { words: vec![0; n_words], ..Region::default() };
    let sender = current.lane(0).senders[1];
    let at = rows.layout.slot_of(sender.ring, 0).0 as usize;
    port.words[at] = Header::Message { number: 6, n_bytes: 1 }.word();
    port.words[sender.named.0 as usize] = named;
    current.read_slot(&sender, 0, &port).ok().flatten().map(|read| read.number)
}

#[test]
fn v17_what_is_written_for_a_later_view_is_no_message_of_this_one() {
    let claimed = 1 << 63;
    assert_eq!([1, 1 | claimed].map(|named| read_where(named, Sound)), [Some(6); 2]);
    assert_eq!([3, 3 | claimed].map(|named| read_where(named, Sound)), [None; 2]);
    assert_eq!(read_where(3 | claimed, Planted(Bug::SlotOfAnyView)), Some(6));
}
