//! The shared state table: what the members of a view tell each other by one-sided writes (paper
//! 000, sections 3.3 and A.1.1).
//!
//! **Purpose.** Each member owns one *row* of counters, flags and sets, and holds a copy of every
//! row. To tell something is to change the own row and to *push* it: to WRITE the changed columns
//! into the memory of the others. Nothing is sent, and no member waits for another one's processor.
//! This module knows what a row looks like and in which order its columns travel. It does not know
//! what they mean ([`vsync`](crate::vsync)), nor where memory is: pushes and reads are calls of a
//! closure.
//!
//! **Assumes** T1 (an aligned word is never torn) and T2 (what one member posts to another takes
//! effect in that order). Of T3 it assumes nothing: one WRITE of several words lands in any order.
//!
//! **Invariants.**
//! - S1 *Knowledge.* A reader that sees a value of a column sees every column that was declared
//!   before it at least as new as when that value was pushed. So what guards is declared behind
//!   what it guards. Kept by: changed columns are pushed one WRITE each, in the order of their
//!   declaration, and read from the last to the first. (Of a wide column the words that changed.)
//!   A row is read again if its place may have been written since it was read last, which is
//!   asked before it is read. Test `s1_...`; mutants `GUARD_FIRST`, `READS_FORWARD`.
//! - S2 *A row counts only in its view.* The last column is the view's number. It is pushed last,
//!   and a row whose copy does not name the reader's view is no row. So no member ever clears
//!   another one's words, and what an excluded process writes late, under an old number, is not
//!   seen. By [`Table::refresh`]; mutants `VIEW_FIRST`, `ANY_VIEW`.
//! - S3 *Places.* A seat has two places for its row, one for odd views and one for even ones
//!   ([`Places`]). A place is used again two views later, when each member of both has left the
//!   first one (`vsync`, V8); one that was removed in between may still read there (S6). Each word
//!   has one writer, its seat. Mutant `ONE_PLACE`.
//! - S6 *Claimed places.* Before anything of a view is written into a place that had an earlier
//!   one's, the view's number is written there with a mark: then no row is there. A reader looks at
//!   the number once more behind what it has read, and drops that if it has changed. So one that
//!   was left behind in the earlier view reads nothing of the later one as if it were of its own.
//!   Test `s6_...`; mutant `UNCLAIMED_PLACE`.
//! - S4 *Values rise.* Within a view, a counter only rises and a set only grows. Asserted in
//!   [`Table::set`] for the own row; copies are joined, so they cannot fall. A [`Kind::Guarded`]
//!   column is free, and means something only behind its guard.
//! - S5 *Frozen rows.* The copy of a row that its reader has frozen does not change. By
//!   [`Table::refresh`]; mutant `FROZEN_IS_READ`.
//!
//! **Reducers** ([`Table::min`], [`Table::all`], [`Table::count`]) run over own copies, for the
//! seats that the caller names. Which rows may be counted is the caller's knowledge: the minimum
//! over a frozen row, say, is stale.

pub mod bugs;
mod columns;
mod table;
#[cfg(test)]
mod tests;

pub use columns::{Column, Columns, Kind};
pub use table::{Places, Seen, Table};
