//! What a process with leases may answer as its views come, and when it is a member no longer; and
//! which processes it lets in.

use super::super::bugs::{Bug, Plantings};
use super::super::columns::Row;
use super::super::layout::Layout;
use super::super::order::Standing;
use super::super::shard::{ShardId, ViewId};
use super::super::tests::SHAPE;
use super::super::view::tests::{founded_by, process};
use super::super::view::{Change, Knock, View};
use super::super::wire::{Message, Piece};
use super::super::{Config, End, Output, Position, Start, Timing};
use super::Machine;
use crate::planted::{Planted, Sound};
use crate::sst::Table;
use crate::value::Region;
use alloc::vec;
use alloc::vec::Vec;
use base::{Event, Instant, Rank, SeatSet};
use core::time::Duration;

const fn ms(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

/// The parameters of a process that joins.
fn config(me: Knock) -> Config {
    Config {
        me,
        start: Start::Join,
        shape: SHAPE,
        timing: Timing::default(),
        n_adequate: 1,
        keeps_state: false,
        lease: None,
        group: 0,
        keep_bytes: 0,
        layout: Vec::new(),
    }
}

/// A process on the third seat that is told at 100 ms that it is in the second view, of three; and
/// its memory.
fn newcomer<P: Plantings>(planted: P) -> (Machine<P>, Region) {
    let lease = Some(Duration::from_millis(50));
    newcomer_of(Config { lease, ..config(process(2, 1)) }, planted)
}

fn newcomer_of<P: Plantings>(config: Config, planted: P) -> (Machine<P>, Region) {
    let n_words = super::region(&SHAPE).n_words as usize;
    let mut port = Region { words: vec![0; n_words], ..Region::default() };
    let mut machine = Machine::with(config, planted, ms(0));
    let founded = founded_by(&[0, 1, 2].map(|seat| process(seat, 1)));
    let welcome = Message::Welcome { trims: vec![0], view: View { id: ViewId(2), ..founded } };
    let welcome = welcome.encoded();
    let event = Event::Message { from: Rank::at(0), bytes: &welcome };
    machine.on_event(event, ms(100), &mut port);
    (machine, port)
}

/// The time from which on it may answer after each of these turns, in milliseconds.
fn answers<P: Plantings>(turns: &[u64], planted: P) -> Vec<u64> {
    let (mut machine, mut port) = newcomer(planted);
    let mut answers_from = |at: &u64| {
        machine.poll(ms(*at), &mut port, &mut Vec::new());
        machine.answers_from(0).0 / 1_000_000
    };
    turns.iter().map(&mut answers_from).collect()
}

#[test]
fn e2_the_turn_in_which_a_view_begins_has_a_time_from_before() {
    // (The process may have slept since it looked at the clock, and be told of the view then.)
    const UNKNOWN: u64 = u64::MAX / 1_000_000;
    assert_eq!(answers(&[100, 130, 140], Sound), [UNKNOWN, 180, 180]);
    assert_eq!(answers(&[100], Planted(Bug::AnswersAtOnce)), [0]);
}

#[test]
fn e2_a_process_that_is_a_member_no_longer_answers_no_sooner() {
    let (mut machine, mut port) = newcomer(Sound);
    machine.poll(ms(100), &mut port, &mut Vec::new());
    machine.poll(ms(130), &mut port, &mut Vec::new());
    [0, 1].into_iter().for_each(|seat| machine.suspect(Rank::at(seat)));
    machine.poll(ms(131), &mut port, &mut Vec::new());
    assert!(machine.view().is_none(), "it has no majority");
    assert_eq!(machine.answers_from(0), ms(180));
}

/// Writes a row of the first member into the memory of the others, of this view.
fn show(port: &mut Region, view: u64, say: impl FnOnce(&Row, &mut Table<Sound>)) {
    let (layout, first) = (Layout::new(&SHAPE), Rank::at(0));
    let mut table = Table::new(&layout.columns, SHAPE.n_seats, first, view, Sound);
    say(&layout.row, &mut table);
    let at = layout.row_of(first, view, Sound).0 as usize;
    table.push_all(|offset, words| {
        port.words[at + offset as usize..][..words.len()].copy_from_slice(words);
    });
}

/// The time from which on a member may answer that leaves behind all leases, when others have
/// decided that, and that `removed` are taken for failed.
fn leaves(removed: &[usize]) -> Instant {
    let (mut machine, mut port) = newcomer(Sound);
    for now in [100, 130, 180] {
        machine.poll(ms(now), &mut port, &mut Vec::new());
    }
    let seats = |seats: &[usize]| seats.iter().map(|seat| Rank::at(*seat)).collect::<SeatSet>();
    let (removed, left) = (seats(removed), seats(&[2]));
    let (trims, bearers) = (vec![0], vec![SeatSet::EMPTY]);
    let change = Change { removed, left, trims, bearers, ..Change::default() };
    show(&mut port, 2, |row, table| {
        row.publish(table, &change, Standing(0));
        table.set(row.committed, 0, 1);
    });
    machine.poll(ms(181), &mut port, &mut Vec::new());
    assert!(machine.view().is_none(), "it has left");
    machine.answers_from(0)
}

#[test]
fn e2_a_member_that_leaves_with_others_that_failed_answers_nothing_of_the_end() {
    assert!(leaves(&[]) <= ms(181), "those that stay have what it delivers, and wait for nothing");
    assert_eq!(leaves(&[1]), Instant(u64::MAX), "what 1 has not received was delivered");
}

#[test]
fn a_process_that_ends_as_the_next_view_begins_says_what_it_told_of_the_last() {
    let (mut machine, mut port) = newcomer(Sound);
    machine.poll(ms(100), &mut port, &mut Vec::new());
    assert_eq!(machine.endings(), [], "the view lasts");
    let removed: SeatSet = [Rank::at(1)].into_iter().collect();
    let (trims, bearers) = (vec![0], vec![SeatSet::EMPTY]);
    let change = Change { removed, trims, bearers, ..Change::default() };
    show(&mut port, 2, |row, table| {
        row.publish(table, &change, Standing(0));
        table.set(row.wedged, 0, 1);
        row.suspect(table, removed);
    });
    // The third view begins with the echo of this turn, and was left long ago.
    show(&mut port, 5, |_, _| {});
    let mut out = Vec::new();
    machine.poll(ms(101), &mut port, &mut out);
    let views = out.iter().filter(|one| matches!(one, Output::View { .. })).count();
    assert_eq!((views, out.last()), (1, Some(&Output::Ended(End::Excluded))));
    let [told] = &machine.endings()[..] else { panic!("others can see its echo") };
    assert_eq!((told.view, told.suspected, told.is_committed), (ViewId(2), removed, true));
    assert_eq!(told.shown.as_ref().map(|(standing, _)| *standing), Some(Standing(0)));
}

#[test]
fn e4_a_newcomer_that_waits_for_the_state_holds_nothing_that_a_read_may_see() {
    let config = Config { keeps_state: true, ..config(process(2, 1)) };
    let (mut machine, mut port) = newcomer_of(config, Sound);
    machine.poll(ms(100), &mut port, &mut Vec::new());
    assert_eq!(machine.held(0), None, "what was answered before is in the state");
    let at = Position { view: ViewId(2), at: 0 };
    let piece = Piece { shard: ShardId::default(), at, n_bytes: 5, offset: 0, bytes: b"state" };
    let piece = Message::Piece(piece).encoded();
    let event = Event::Message { from: Rank::at(0), bytes: &piece };
    machine.on_event(event, ms(101), &mut port);
    machine.poll(ms(101), &mut port, &mut Vec::new());
    assert_eq!(machine.held(0), Some(at));
}

/// The number of members that the first member of a group has in its view at 500 ms, to which a
/// process has knocked at these times, and of which `event` was told it then.
fn admitted(knocks: &[u64], event: Option<Event<'_>>) -> usize {
    let first = process(0, 1);
    let config = Config { me: first, start: Start::Found(vec![first]), ..config(process(2, 1)) };
    let n_words = super::region(&SHAPE).n_words as usize;
    let mut port = Region { words: vec![0; n_words], ..Region::default() };
    let mut machine = Machine::new(config, ms(0));
    let knock = Message::Knock(process(2, 1)).encoded();
    for at in knocks {
        let event = Event::Message { from: Rank::at(2), bytes: &knock };
        machine.on_event(event, ms(*at), &mut port);
    }
    if let Some(event) = event {
        machine.on_event(event, ms(500), &mut port);
    }
    machine.poll(ms(500), &mut port, &mut Vec::new());
    machine.view().expect("it has founded the group").members.len()
}

#[test]
fn v33_a_process_that_asks_no_longer_is_not_let_in() {
    assert_eq!(admitted(&[450], None), 2);
    assert_eq!(admitted(&[100], None), 1, "it has missed eight knocks");
    assert_eq!(admitted(&[100, 150, 300, 400], None), 2, "it has repeated its knock");
    let gone = Rank::at(2);
    assert_eq!(admitted(&[450], Some(Event::ProcessFailed(gone))), 1);
    assert_eq!(admitted(&[450], Some(Event::LinkDown(gone))), 1);
    assert_eq!(admitted(&[450], Some(Event::LinkDown(Rank::at(3)))), 2, "that is another one");
}

#[test]
fn of_a_subgroup_that_does_not_exist_nothing_is_told() {
    let (mut machine, mut port) = newcomer(Sound);
    machine.poll(ms(100), &mut port, &mut Vec::new());
    assert_eq!((machine.held(9), machine.position(9)), (None, None));
    assert!(machine.ahead(9, &port).is_empty());
}
