//! The table over memory that is written late, torn, and by processes that were left behind.

use super::bugs::Bug;
use super::{Column, Columns, Kind, Places, Seen, Table};
use crate::planted::{Planted, Planting, Sound};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use base::{At, Rank, Rng, SeatSet};

const WRITER: Rank = Rank::at(0);
const READER: Rank = Rank::at(1);

struct Handles {
    columns: Columns,
    /// Four words that a record consists of.
    record: Column,
    /// The number of the record, which guards it.
    number: Column,
    doubts: Column,
}

fn declared() -> Handles {
    let mut columns = Columns::new();
    let record = columns.declare(Kind::Guarded, 4);
    let number = columns.declare(Kind::Rising, 1);
    let doubts = columns.declare(Kind::Growing, 1);
    Handles { columns, record, number, doubts }
}

/// The memory of the reader, and the WRITEs on their way to it, in order (T2).
struct Way {
    memory: Vec<u64>,
    posted: VecDeque<(usize, u64)>,
    rng: Rng,
}

impl Way {
    fn new(n_words: usize, seed: u64) -> Way {
        Way { memory: vec![0; n_words], posted: VecDeque::new(), rng: Rng::new(seed) }
    }

    /// Posts a WRITE, whose words land in any order (T3), but before the next WRITE's (T2).
    fn post(&mut self, offset: u32, words: &[u64]) {
        let mut each: Vec<_> = (offset as usize..).zip(words.iter().copied()).collect();
        for n in (1..each.len()).rev() {
            let other = self.rng.below(n as u64 + 1) as usize;
            each.swap(n, other);
        }
        self.posted.extend(each);
    }

    /// Lets some words land.
    fn land(&mut self, n_most: u64) {
        for _ in 0..self.rng.below(n_most + 1) {
            let Some((at, word)) = self.posted.pop_front() else { return };
            self.memory[at] = word;
        }
    }
}

/// Whether a reader ever sees a number without the record that it guards, or one of another view.
fn is_misled<P: Planting<Bug>>(planted: P, seed: u64) -> bool {
    let Handles { columns, record, number, .. } = declared();
    let mut way = Way::new(columns.row_words() as usize, seed);
    let others: SeatSet = [WRITER].into_iter().collect();
    for view in [1, 3, 5] {
        let mut writer = Table::new(&columns, 2, WRITER, view, planted);
        let mut reader = Table::new(&columns, 2, READER, view, planted);
        writer.push_all(|offset, words| way.post(offset, words));
        for n in 1..=20 {
            if way.rng.chance(1, 2) {
                let sum = 1000 * view + n;
                (0..4).for_each(|at| writer.set(record, at, sum));
                writer.set(number, 0, n);
                writer.push(|offset, words| way.post(offset, words));
            }
            way.land(4);
            let ages = way.rng.next_u64();
            let mut late = way.memory.clone();
            reader.refresh(
                others,
                |_| None,
                |_, offset, words| {
                    // Other words land between two loads.
                    if ages & 1 == 0 {
                        way.land(3);
                        late.clone_from(&way.memory);
                    }
                    words.copy_from_slice(&late[offset as usize..][..words.len()]);
                },
            );
            let told = reader.get(WRITER, number, 0);
            let record = reader.words(WRITER, record);
            // A later record may be landing already: that is what the number does not say.
            let is_there = |word: &u64| *word >= 1000 * view + told && *word < 1000 * (view + 1);
            if told > 0 && !record.iter().all(is_there) {
                return true;
            }
        }
        // A reader of the next view has the same memory; its writer's last words may be late.
        way.land(2);
    }
    false
}

#[test]
fn s1_a_guard_is_never_seen_before_what_it_guards() {
    assert!((0..300).all(|seed| !is_misled(Sound, seed)));
    for bug in [Bug::GuardFirst, Bug::ViewFirst, Bug::AnyView] {
        assert!((0..300).any(|seed| is_misled(Planted(bug), seed)), "{bug:?}");
    }
}

#[test]
fn s2_a_row_of_another_view_is_no_row_and_a_later_one_is_told() {
    let Handles { columns, number, .. } = declared();
    let mut way = Way::new(columns.row_words() as usize, 1);
    let mut writer = Table::new(&columns, 2, WRITER, 3, Sound);
    writer.set(number, 0, 7);
    writer.push_all(|offset, words| way.post(offset, words));
    while !way.posted.is_empty() {
        way.land(9);
    }
    let look = |view| {
        let mut reader = Table::new(&columns, 2, READER, view, Sound);
        let seen = reader.refresh(
            [WRITER].into_iter().collect(),
            |_| None,
            |_, offset, words| {
                words.copy_from_slice(&way.memory[offset as usize..][..words.len()]);
            },
        );
        (seen, reader.get(WRITER, number, 0), reader.counted().contains(WRITER))
    };
    assert_eq!(look(3), (Seen::Present, 7, true));
    assert_eq!(look(5), (Seen::Present, 0, false), "late words of an excluded process");
    assert_eq!(look(1), (Seen::Later, 0, false));
}

#[test]
fn s3_places_of_seats_and_parities_do_not_overlap() {
    let places = Places::new(At(4), 10);
    let mut starts = Vec::new();
    for seat in Rank::all(5) {
        for view in [6, 7] {
            assert_eq!(places.of(seat, view), places.of(seat, view + 2));
            starts.push(places.of(seat, view).0);
        }
    }
    starts.sort_unstable();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 10));
    assert_eq!(starts.last().map(|last| last + 10), Some(places.end(5).0));
}

#[test]
#[should_panic(expected = "S4")]
fn s4_a_counter_does_not_fall() {
    let Handles { columns, number, .. } = declared();
    let mut table = Table::new(&columns, 2, WRITER, 1, Sound);
    table.set(number, 0, 2);
    table.set(number, 0, 1);
}

#[test]
#[should_panic(expected = "S4")]
fn s4_a_set_does_not_shrink() {
    let Handles { columns, doubts, .. } = declared();
    let mut table = Table::new(&columns, 2, WRITER, 1, Sound);
    table.set(doubts, 0, 0b11);
    table.set(doubts, 0, 0b10);
}

/// What a reader makes of a row that it freezes when it says 3, and that says 5 later.
fn frozen<P: Planting<Bug>>(planted: P) -> (Table<P>, Column) {
    let Handles { columns, number, .. } = declared();
    let mut memory = vec![0; columns.row_words() as usize];
    memory[columns.view() as usize] = 1;
    let mut reader = Table::new(&columns, 2, READER, 1, planted);
    reader.set(number, 0, 9);
    for value in [3, 5] {
        memory[number.first() as usize] = value;
        reader.refresh(
            Rank::all(2).collect(),
            |_| None,
            |_, offset, words| {
                words.copy_from_slice(&memory[offset as usize..][..words.len()]);
            },
        );
        reader.freeze(WRITER);
    }
    (reader, number)
}

#[test]
fn s5_a_frozen_copy_stays_as_it_was_and_reducers_see_it() {
    let seats: SeatSet = Rank::all(2).collect();
    let (reader, number) = frozen(Sound);
    assert_eq!(reader.min(seats.iter(), number, 0), 3);
    assert!(reader.all(seats, |seat| reader.get(seat, number, 0) > 2));
    assert_eq!(reader.count(seats, |seat| reader.get(seat, number, 0) > 3), 1);
    let (reader, number) = frozen(Planted(Bug::FrozenIsRead));
    assert_eq!(reader.min(seats.iter(), number, 0), 5);
}

/// Whether a reader that was left behind in view 1 sees words of view 3 as if they were of its own:
/// those have numbers above 100.
fn is_late_misled<P: Planting<Bug>>(planted: P, seed: u64) -> bool {
    let Handles { columns, number, .. } = declared();
    let mut way = Way::new(columns.row_words() as usize, seed);
    let mut reader = Table::new(&columns, 2, READER, 1, planted);
    for view in [1, 3] {
        let mut writer = Table::new(&columns, 2, WRITER, view, planted);
        writer.set(number, 0, 100 * (view / 2) + 1);
        writer.push_all(|offset, words| way.post(offset, words));
        for _ in 0..6 {
            way.land(3);
            let seen = reader.refresh(
                [WRITER].into_iter().collect(),
                |_| None,
                |_, offset, words| {
                    way.land(1);
                    words.copy_from_slice(&way.memory[offset as usize..][..words.len()]);
                },
            );
            if reader.get(WRITER, number, 0) > 100 {
                return true;
            }
            if seen == Seen::Later {
                return false;
            }
        }
    }
    false
}

#[test]
fn s6_one_that_was_left_behind_reads_nothing_of_a_later_view() {
    assert!((0..500).all(|seed| !is_late_misled(Sound, seed)));
    assert!((0..500).any(|seed| is_late_misled(Planted(Bug::UnclaimedPlace), seed)));
}

#[test]
fn a_row_is_read_again_when_its_place_was_written() {
    let Handles { columns, number, .. } = declared();
    let mut memory = vec![0; columns.row_words() as usize];
    let mut writer = Table::new(&columns, 2, WRITER, 1, Sound);
    let mut reader = Table::new(&columns, 2, READER, 1, Sound);
    let land = |memory: &mut [u64], offset: u32, words: &[u64]| {
        memory[offset as usize..][..words.len()].copy_from_slice(words);
    };
    writer.push_all(|offset, words| land(&mut memory, offset, words));
    let mut look = |memory: &[u64], n_writes: u64| {
        let mut n_loads = 0;
        let others = [WRITER].into_iter().collect();
        reader.refresh(
            others,
            |_| Some(n_writes),
            |_, offset, words| {
                n_loads += 1;
                words.copy_from_slice(&memory[offset as usize..][..words.len()]);
            },
        );
        (n_loads > 0, reader.get(WRITER, number, 0))
    };
    assert_eq!(look(&memory, 4), (true, 0));
    assert_eq!(look(&memory, 4), (false, 0));
    writer.set(number, 0, 7);
    writer.push(|offset, words| land(&mut memory, offset, words));
    assert_eq!(look(&memory, 5), (true, 7));
    assert_eq!(look(&memory, 5), (false, 7));
}

#[test]
fn of_a_wide_column_what_changed_is_told_and_what_has_no_meaning_is_left_out() {
    let mut columns = Columns::new();
    let counts = columns.declare(Kind::Rising, 100);
    let record = columns.declare(Kind::Guarded, 100);
    let guard = columns.declare(Kind::Rising, 1);
    let mut memory = vec![99; columns.row_words() as usize];
    let mut table = Table::new(&columns, 2, WRITER, 1, Sound);
    let mut told = Vec::new();
    let mut land = |told: &mut Vec<(u32, usize)>, offset: u32, words: &[u64]| {
        memory[offset as usize..][..words.len()].copy_from_slice(words);
        told.push((offset, words.len()));
    };
    table.push_all(|offset, words| land(&mut told, offset, words));
    let claim_and_view = (201, 1);
    assert_eq!(told, [claim_and_view, (0, 100), (200, 1), claim_and_view]);
    told.clear();
    table.set(counts, 40, 3);
    table.set(counts, 38, 1);
    // What an earlier view has left there is replaced by a zero too.
    for (at, word) in [(7, 5), (8, 0), (9, 0)] {
        table.set(record, at, word);
    }
    table.set(guard, 0, 1);
    table.push(|offset, words| land(&mut told, offset, words));
    assert_eq!(told, [(38, 3), (107, 3), (200, 1)]);
    assert_eq!((&memory[38..41], &memory[106..111]), (&[1, 0, 3][..], &[99, 5, 0, 0, 99][..]));
    let mut told = Vec::new();
    table.push(|offset, words| told.push((offset, words.len())));
    assert_eq!(told, []);
    table.push_all(|offset, words| told.push((offset, words.len())));
    assert_eq!(told, [claim_and_view, (0, 100), (100, 100), (200, 1), claim_and_view]);
}
