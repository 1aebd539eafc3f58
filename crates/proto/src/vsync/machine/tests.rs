//! What a process with leases may answer as its views come, and when it is a member no longer.

use super::super::bugs::{Bug, Plantings};
use super::super::layout::Layout;
use super::super::shard::ViewId;
use super::super::tests::SHAPE;
use super::super::view::tests::{founded_by, process};
use super::super::view::{Change, Standing, View};
use super::super::wire::Message;
use super::super::{Config, Start, Timing};
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

/// A process on the third seat that is told at 100 ms that it is in the second view, of three; and
/// its memory.
fn newcomer<P: Plantings>(planted: P) -> (Machine<P>, Region) {
    let config = Config {
        me: process(2, 1),
        start: Start::Join,
        shape: SHAPE,
        timing: Timing::default(),
        n_adequate: 1,
        keeps_state: false,
        lease: Some(Duration::from_millis(50)),
        group: 0,
        keep_bytes: 0,
        layout: Vec::new(),
    };
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

/// The time from which on a member may answer that leaves behind all leases, when others have
/// decided that, and that `removed` are taken for failed.
fn leaves(removed: &[usize]) -> Instant {
    let (mut machine, mut port) = newcomer(Sound);
    for now in [100, 130, 180] {
        machine.poll(ms(now), &mut port, &mut Vec::new());
    }
    let seats = |seats: &[usize]| seats.iter().map(|seat| Rank::at(*seat)).collect::<SeatSet>();
    let (layout, first) = (Layout::new(&SHAPE), Rank::at(0));
    let (removed, left) = (seats(removed), seats(&[2]));
    let (trims, bearers) = (vec![0], vec![SeatSet::EMPTY]);
    let change = Change { removed, left, trims, bearers, ..Change::default() };
    let mut table = Table::new(&layout.columns, SHAPE.n_seats, first, 2, Sound);
    layout.row.publish(&mut table, &change, Standing(0));
    table.set(layout.row.committed, 0, 1);
    let at = layout.row_of(first, 2, Sound).0 as usize;
    table.push_all(|offset, words| {
        port.words[at + offset as usize..][..words.len()].copy_from_slice(words);
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
