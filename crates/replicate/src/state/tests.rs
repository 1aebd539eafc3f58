//! Tests of a state.

use super::*;
use crate::entry::ConnectionId;
use crate::transcript::InMemory;
use base::{Incarnation, Rank};
use proto::planted::Planted;

const SETTINGS: Settings = Settings {
    members: 3,
    compare: 2,
    checkpoint: 2,
    renews: false,
    time_step_ms: 10,
    output: Output::AtOnce,
};
const OWNER: Rank = Rank::at(0);
const RUN: Incarnation = Incarnation(1);
const ID: ConnectionId = ConnectionId { owner: OWNER, run: RUN, number: 1 };

fn apply(state: &mut State<InMemory>, entries: &[Entry<'_>]) -> Vec<u64> {
    let (mut value, mut bytes) = (Vec::new(), Vec::new());
    state.begin(5, &mut value);
    for (entry, sequence) in entries.iter().zip(1..) {
        bytes.clear();
        entry.write(&mut bytes);
        let origin = Origin { rank: OWNER, life: RUN };
        let appended = state.append(origin, Sequence(sequence), &bytes, 1 << 20, &mut value);
        assert_eq!(appended, Appended::Whole);
    }
    let mut answers = Answers::default();
    state.apply(Slot(0), &value, &mut answers);
    answers.iter().map(|(_, sequence, _)| sequence.0).collect()
}

fn saved(state: &mut State<InMemory>) -> Vec<u8> {
    let (saving, mut out) = (state.begin_save(), Vec::new());
    while state.save_piece(saving, 64 << 10, &mut out) == Some(true) {}
    state.end_save(saving);
    out
}

fn begin() -> Entry<'static> {
    Entry::Begin { owner: OWNER, run: RUN }
}

fn input(index: u64) -> Entry<'static> {
    Entry::Input { id: ID, index, bytes: b"abc" }
}

#[test]
fn i2_a_state_that_was_moved_is_the_same() {
    let mut state = State::new(SETTINGS, InMemory::default(), Sound);
    apply(&mut state, &[begin(), Entry::Open { id: ID }, input(1)]);
    let saving = state.begin_save();
    let mut bytes = Vec::new();
    let more = state.save_piece(saving, 64 << 10, &mut bytes);
    apply(&mut state, &[input(2)]);
    assert_eq!(more, Some(false), "what comes later is not in it");
    let mut other = State::new(SETTINGS, InMemory::default(), Sound);
    other.restore(&bytes).unwrap();
    assert_ne!(other.transcript().len(), state.transcript().len());
    apply(&mut other, &[input(2)]);
    assert_eq!(saved(&mut other), saved(&mut state));
    assert_eq!(other.body.ground, state.body.ground);
}

#[test]
fn i2_a_state_that_is_cut_or_of_another_kind_is_refused() {
    let mut state = State::new(SETTINGS, InMemory::default(), Sound);
    apply(&mut state, &[begin(), Entry::Open { id: ID }]);
    let bytes = saved(&mut state);
    let mut other = State::new(SETTINGS, InMemory::default(), Sound);
    assert!(other.restore(&bytes[..bytes.len() - 1]).is_err());
    assert!(other.restore(b"something that is long enough").is_err());
    let mut again = bytes.clone();
    again.extend_from_slice(&bytes[HEADER_BYTES..]);
    assert!(other.restore(&again).unwrap_err().contains("does not execute"));
    assert!(other.transcript().is_empty() && other.table().n_open() == 0);
    other.restore(&bytes).unwrap();
}

/// The times of the transcript, each with whether it is a tick's.
fn times(state: &State<InMemory>) -> Vec<(u64, bool)> {
    let mut bytes = vec![0; state.transcript().len() as usize];
    state.transcript().read(0, &mut bytes);
    let (mut rest, mut times) = (&bytes[..], Vec::new());
    while let Some(record) = Record::first(rest) {
        times.extend(record.time_ms.map(|time_ms| (time_ms, record.is_tick())));
        rest = &rest[record.len()..];
    }
    times
}

fn apply_at(state: &mut State<InMemory>, stamp_ms: u64, entries: &[Entry<'_>]) {
    let (mut value, mut bytes) = (Vec::new(), Vec::new());
    state.begin(stamp_ms, &mut value);
    for entry in entries {
        bytes.clear();
        entry.write(&mut bytes);
        let origin = Origin { rank: OWNER, life: RUN };
        state.append(origin, Sequence(1), &bytes, 1 << 20, &mut value);
    }
    state.apply(Slot(0), &value, &mut Answers::default());
}

#[test]
fn i6_times_stand_before_what_is_executed_at_them_and_never_fall() {
    let mut state = State::new(SETTINGS, InMemory::default(), Sound);
    apply_at(&mut state, 1000, &[begin(), Entry::Open { id: ID }]);
    apply_at(&mut state, 1009, &[input(1)]);
    apply_at(&mut state, 1020, &[input(7), input(2), input(3)]);
    apply_at(&mut state, 1021, &[]);
    apply_at(&mut state, 1021, &[]);
    apply_at(&mut state, 900, &[]);
    apply_at(&mut state, 1032, &[input(1)]);
    assert_eq!(times(&state), [(1000, false), (1020, false), (1021, true)]);
    assert_eq!(state.time_ms(), Some(1021));
    let bytes = saved(&mut state);
    let mut other = State::new(SETTINGS, InMemory::default(), Sound);
    other.restore(&bytes).unwrap();
    assert_eq!((times(&other), other.time_ms()), (times(&state), state.time_ms()));
    // Its last record is the tick.
    let mut wrong = bytes.clone();
    let at = wrong.len() - 8;
    wrong[at..].copy_from_slice(&1019u64.to_le_bytes());
    assert!(other.restore(&wrong).unwrap_err().contains("falls"));
    let settings = Settings { time_step_ms: 0, ..SETTINGS };
    let mut without = State::new(settings, InMemory::default(), Sound);
    apply_at(&mut without, 1000, &[begin()]);
    apply_at(&mut without, 2000, &[]);
    assert_eq!((times(&without), without.time_ms()), (Vec::new(), None));
}

#[test]
fn i3_what_comes_too_early_is_not_answered() {
    let mut state = State::new(SETTINGS, InMemory::default(), Sound);
    assert_eq!(apply(&mut state, &[begin(), input(1), Entry::Open { id: ID }]), [1, 3]);
    assert_eq!(apply(&mut state, &[input(1), input(1)]), [1, 2], "and then once");
    let len = state.transcript().len();
    assert_eq!(apply(&mut state, &[begin(), input(1)]), [1, 2]);
    assert_eq!(state.transcript().len(), len, "the second time it is not executed");
}

#[test]
fn mistakes_show() {
    let mut state = State::new(SETTINGS, InMemory::default(), Planted(Bug::TooEarlyAnswered));
    let bytes = |state: &mut State<InMemory, Planted<Bug>>| {
        let (mut value, mut bytes) = (Vec::new(), Vec::new());
        state.begin(5, &mut value);
        for entry in [begin(), input(1)] {
            bytes.clear();
            entry.write(&mut bytes);
            let origin = Origin { rank: OWNER, life: RUN };
            state.append(origin, Sequence(1), &bytes, 1 << 20, &mut value);
        }
        value
    };
    let value = bytes(&mut state);
    let mut answers = Answers::default();
    state.apply(Slot(0), &value, &mut answers);
    assert_eq!(answers.iter().count(), 2, "the input came before its opening");
}

#[test]
fn a_value_that_is_damaged_changes_nothing() {
    let mut state = State::new(SETTINGS, InMemory::default(), Sound);
    state.apply(Slot(0), b"damaged", &mut Answers::default());
    assert!(state.transcript().is_empty());
}
