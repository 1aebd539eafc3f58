//! The columns of a row, declared once, in the order of knowledge (S1).

use alloc::vec::Vec;

/// How the values of a column change while their view lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counters and flags: each word only rises (S4).
    Rising,
    /// Sets, one bit a seat: each word only gains bits (S4).
    Growing,
    /// Values that mean nothing until a column behind them says so.
    Guarded,
}

/// A column: one word or several, side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Ordinal of the declaration, from 0.
    index: u32,
    first: u32,
    words: u32,
    kind: Kind,
}

impl Column {
    /// The offset of its first word in a row.
    pub(super) const fn first(self) -> u32 {
        self.first
    }

    /// The ordinal of its declaration.
    pub(super) const fn index(self) -> usize {
        self.index as usize
    }

    /// The number of its words.
    pub(super) const fn len(self) -> usize {
        self.words as usize
    }

    /// Whether it is written in part: a shorter one fits into one frame anyway.
    pub(super) const fn is_wide(self) -> bool {
        self.words > 64
    }

    pub(super) const fn kind(self) -> Kind {
        self.kind
    }

    /// Its bit in a set of columns.
    pub(super) const fn bit(self) -> u64 {
        1 << self.index
    }

    /// Its words in a row.
    pub(super) const fn range(self) -> core::ops::Range<usize> {
        self.first as usize..(self.first + self.words) as usize
    }
}

/// The layout of a row. The number of its view stands behind all columns.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    list: Vec<Column>,
    n_words: u32,
}

impl Columns {
    /// No column yet.
    pub const fn new() -> Columns {
        Columns { list: Vec::new(), n_words: 0 }
    }

    /// Declares the next column: what it guards was declared before.
    pub fn declare(&mut self, kind: Kind, words: usize) -> Column {
        assert!(self.list.len() < 64, "a set of columns has 64 bits");
        let index = self.list.len() as u32;
        let column = Column { index, first: self.n_words, words: words as u32, kind };
        self.n_words += column.words;
        self.list.push(column);
        column
    }

    /// The number of columns.
    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    /// In the order of declaration.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Column> + '_ {
        self.list.iter().copied()
    }

    /// The offset of the view's number.
    pub const fn view(&self) -> u32 {
        self.n_words
    }

    /// The number of words of a row.
    pub const fn row_words(&self) -> u32 {
        self.n_words + 1
    }
}
