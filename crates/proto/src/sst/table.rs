//! The table of one view at one member: the own row, and copies of the others.

use super::bugs::Bug;
use super::columns::{Column, Columns, Kind};
use crate::planted::Planting;
use alloc::vec;
use alloc::vec::Vec;
use base::{At, Rank, SeatSet};
use core::ops::Range;

/// The bit of a view's number while its place is written.
const CLAIM: u64 = 1 << 63;

/// The two places of each seat in every region (S3): one for odd views and one for even ones.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    base: At,
    /// The words of one place.
    stride: u32,
}

impl Places {
    /// Places of `stride` words each, from `base` on.
    pub const fn new(base: At, stride: u32) -> Places {
        Places { base, stride }
    }

    /// The place of `seat` in `view`.
    pub const fn of(&self, seat: Rank, view: u64) -> At {
        self.base.plus((2 * seat.index() as u32 + (view % 2) as u32) * self.stride)
    }

    /// The first word behind the places of `n_seats`.
    pub const fn end(&self, n_seats: usize) -> At {
        self.base.plus(2 * n_seats as u32 * self.stride)
    }
}

/// What a look at the others' rows showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Rows of this view, and older ones.
    Present,
    /// A row of a later view in a place of this one: this process was left behind.
    Later,
}

/// One member's table of one view.
#[derive(Debug)]
pub struct Table<P> {
    planted: P,
    columns: Columns,
    me: Rank,
    view: u64,
    /// By column, its words in all rows, by seat: what reducers run over stands side by side. Those
    /// of seats that are not in the view stay zero.
    values: Vec<Vec<u64>>,
    /// By seat, the writes that its place had seen before it was read last, where they are counted.
    looked: Vec<Option<u64>>,
    /// Seats whose rows have named the view (S2), the own one among them.
    counted: SeatSet,
    frozen: SeatSet,
    /// Columns of the own row that changed since they were pushed, and the words of each that did.
    changed: u64,
    spans: Vec<Range<usize>>,
    /// Those that have changed in this view.
    used: u64,
}

impl<P: Planting<Bug>> Table<P> {
    /// The table of `view`: every value is zero, and no row but the own one counts.
    pub fn new(columns: &Columns, n_seats: usize, me: Rank, view: u64, planted: P) -> Table<P> {
        assert!(view > 0, "S2: no view has the number of memory that was never written");
        assert!(view & CLAIM == 0, "S6: no view has a number that is so large");
        Table {
            planted,
            columns: columns.clone(),
            me,
            view,
            values: columns.iter().map(|column| vec![0; n_seats * column.len()]).collect(),
            looked: vec![None; n_seats],
            counted: [me].into_iter().collect(),
            frozen: SeatSet::EMPTY,
            changed: 0,
            spans: vec![0..0; columns.len()],
            used: 0,
        }
    }

    // ---- the own row ----

    /// Changes a word of the own row.
    pub fn set(&mut self, column: Column, index: usize, value: u64) {
        let place = place(self.me, column);
        let word = &mut self.values[column.index()][place][index];
        // (Nothing was written to the others of a wide column without meaning: `push_all`.)
        let is_news = *word != value || column.is_wide() && column.kind() == Kind::Guarded;
        match column.kind() {
            Kind::Rising => assert!(*word <= value, "S4: {column:?} falls from {word} to {value}"),
            Kind::Growing => {
                assert!(*word & !value == 0, "S4: {column:?} shrinks from {word:#x} to {value:#x}");
            }
            Kind::Guarded => {}
        }
        if is_news {
            *word = value;
            self.changed |= column.bit();
            self.used |= column.bit();
            let span = &mut self.spans[column.index()];
            let is_first = span.start == span.end;
            *span = match is_first {
                true => index..index + 1,
                false => span.start.min(index)..span.end.max(index + 1),
            };
        }
    }

    /// The WRITEs that tell what changed since the last push, in their order: an offset in the row,
    /// and the words there. They go to every member of the view. Of a wide column the words that
    /// did not change are left out, at both ends.
    pub fn push(&mut self, mut write: impl FnMut(u32, &[u64])) {
        let changed = core::mem::take(&mut self.changed);
        let span = |column: Column| match column.is_wide() {
            true => self.spans[column.index()].clone(),
            false => 0..column.len(),
        };
        self.write_columns(changed, span, &mut write);
        self.spans.fill(0..0);
    }

    /// The WRITE that claims the place for this view (S6): before anything of the view is written
    /// there.
    pub fn claim(&self, mut write: impl FnMut(u32, &[u64])) {
        if !self.planted.has(Bug::UnclaimedPlace) {
            write(self.columns.view(), &[self.view | CLAIM]);
        }
    }

    /// The WRITEs that tell the whole row, its view's number last (S2): to members that may have
    /// nothing of it yet, or not all that was pushed. A wide column that has no meaning yet is left
    /// out (S4): an earlier view's words stay there.
    pub fn push_all(&self, mut write: impl FnMut(u32, &[u64])) {
        let view = self.columns.view();
        let is_first = self.planted.has(Bug::ViewFirst);
        if is_first {
            write(view, &[self.view]);
        } else {
            self.claim(&mut write);
        }
        let is_left_out = |column: &Column| {
            column.is_wide() && column.kind() == Kind::Guarded && self.used & column.bit() == 0
        };
        let left_out = self.columns.iter().filter(is_left_out);
        let which = left_out.fold(u64::MAX, |which, column| which & !column.bit());
        self.write_columns(which, |column| 0..column.len(), &mut write);
        if !is_first {
            write(view, &[self.view]);
        }
    }

    /// S1: in the order of declaration.
    fn write_columns(
        &self,
        which: u64,
        span: impl Fn(Column) -> Range<usize>,
        write: &mut impl FnMut(u32, &[u64]),
    ) {
        let mut one = |column: Column| {
            if which & column.bit() != 0 {
                let span = span(column);
                let offset = column.first() + span.start as u32;
                write(offset, &self.words(self.me, column)[span]);
            }
        };
        if self.planted.has(Bug::GuardFirst) {
            self.columns.iter().rev().for_each(&mut one);
        } else {
            self.columns.iter().for_each(&mut one);
        }
    }

    /// Whether something waits to be pushed.
    pub const fn is_changed(&self) -> bool {
        self.changed != 0
    }

    // ---- the others' rows ----

    /// Stops reading the row of `seat` (S5).
    pub fn freeze(&mut self, seat: Rank) {
        self.frozen.insert(seat);
    }

    /// Copies the rows of `seats` by `load`, which fills words from an offset in a seat's place. A
    /// row is as it was, and not read again, as long as `n_writes` of its place has not risen.
    pub fn refresh(
        &mut self,
        seats: SeatSet,
        n_writes: impl Fn(Rank) -> Option<u64>,
        mut load: impl FnMut(Rank, u32, &mut [u64]),
    ) -> Seen {
        let mut buffer = vec![0; self.columns.view() as usize];
        let mut seen = Seen::Present;
        for seat in seats.iter().filter(|seat| *seat != self.me) {
            if self.frozen.contains(seat) && !self.planted.has(Bug::FrozenIsRead) {
                continue;
            }
            // (Asked for before it is read: what is written meanwhile is read the next time.)
            let n_writes = n_writes(seat);
            if n_writes.is_some() && n_writes == self.looked[seat.index()] {
                continue;
            }
            self.looked[seat.index()] = n_writes;
            let (mut before, mut behind) = ([0], [0]);
            load(seat, self.columns.view(), &mut before);
            let [before] = before;
            let is_any = self.planted.has(Bug::AnyView) && before > 0;
            let is_late = |word| word & !CLAIM > self.view;
            // S2
            if before == self.view || is_any {
                let mut copy = |column: Column| {
                    load(seat, column.first(), &mut buffer[column.range()]);
                };
                // S1: from the last to the first.
                if self.planted.has(Bug::ReadsForward) {
                    self.columns.iter().for_each(&mut copy);
                } else {
                    self.columns.iter().rev().for_each(&mut copy);
                }
            }
            load(seat, self.columns.view(), &mut behind);
            if is_late(before) || is_late(behind[0]) {
                seen = Seen::Later;
                self.looked[seat.index()] = None;
            }
            // S6
            if [before, behind[0]] == [self.view; 2] || is_any {
                self.counted.insert(seat);
                for column in self.columns.iter() {
                    let copy = &mut self.values[column.index()][place(seat, column)];
                    join(column, copy, &buffer[column.range()]);
                }
            }
        }
        seen
    }

    /// Whether a word that names a view, as it is read now, names this one (S6): the place may be
    /// written once more.
    pub const fn is_named_by(&self, word: u64) -> bool {
        word & !CLAIM == self.view
    }

    /// A word of a row: the own one's, or the copy's. Zero while the row does not count.
    pub fn get(&self, seat: Rank, column: Column, index: usize) -> u64 {
        self.words(seat, column)[index]
    }

    /// The words of one column of a row.
    pub fn words(&self, seat: Rank, column: Column) -> &[u64] {
        &self.values[column.index()][place(seat, column)]
    }

    /// The seats whose rows count (S2).
    pub const fn counted(&self) -> SeatSet {
        self.counted
    }

    /// The number of the view.
    pub const fn view(&self) -> u64 {
        self.view
    }

    // ---- reducers ----

    /// The smallest value of one word over `seats`.
    pub fn min(&self, seats: impl IntoIterator<Item = Rank>, column: Column, index: usize) -> u64 {
        let values = seats.into_iter().map(|seat| self.get(seat, column, index));
        values.min().unwrap_or(0)
    }

    /// The seats of `seats` whose rows count and satisfy `holds`.
    pub fn those(&self, seats: SeatSet, holds: impl Fn(Rank) -> bool) -> SeatSet {
        seats.intersection(self.counted).iter().filter(|seat| holds(*seat)).collect()
    }

    /// Whether the rows of all of `seats` count and satisfy `holds`.
    pub fn all(&self, seats: SeatSet, holds: impl Fn(Rank) -> bool) -> bool {
        self.those(seats, holds) == seats
    }

    /// The number of rows of `seats` that count and satisfy `holds`.
    pub fn count(&self, seats: SeatSet, holds: impl Fn(Rank) -> bool) -> usize {
        self.those(seats, holds).len()
    }
}

/// The words of a seat's row among those of all rows.
const fn place(seat: Rank, column: Column) -> Range<usize> {
    let first = seat.index() * column.len();
    first..first + column.len()
}

/// S4: a copy never falls, whatever is read.
fn join(column: Column, copy: &mut [u64], read: &[u64]) {
    // (Most are as they were. Pages of zeros that no process has written take no memory.)
    if copy == read {
        return;
    }
    for (copy, read) in copy.iter_mut().zip(read) {
        match column.kind() {
            Kind::Rising => *copy = (*copy).max(*read),
            Kind::Growing => *copy |= *read,
            Kind::Guarded => *copy = *read,
        }
    }
}
