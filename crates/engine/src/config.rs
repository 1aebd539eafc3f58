//! What an engine is told.

use crate::catchup::PIECE_BYTES;
use crate::desk::{PATIENCE, READS_MAX, ROUNDS_MAX, SLICE_BYTES};
use crate::outbox::SPAN_MAX;
use crate::propose::FOREIGN_BYTES_MAX;
use crate::service::Origin;
use crate::transfer::{VALUES_BYTES, WINDOW_BYTES};
use core::time::Duration;

/// What may pile up in an engine. Production takes what [`Bounds::default`] says; a simulation
/// draws smaller ones, so that it meets what happens at each of them.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most commands between the oldest without an answer and the newest: at most [`SPAN_MAX`].
    pub span: usize,
    /// The most reads that wait.
    pub reads: usize,
    /// The most checks under way, or over with reads that are not performed: at least one.
    pub rounds: usize,
    /// About the most bytes of answers to reads that one turn makes.
    pub slice_bytes: usize,
    /// The most bytes of one other member's commands that wait.
    pub foreign_bytes: usize,
    /// The most bytes of a state that are sent ahead of their acknowledgement.
    pub window_bytes: u64,
    /// About the most bytes of values in one frame of a transfer.
    pub values_bytes: usize,
    /// About the most bytes of a state that one turn makes.
    pub piece_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            span: SPAN_MAX,
            reads: READS_MAX,
            rounds: ROUNDS_MAX,
            slice_bytes: SLICE_BYTES,
            foreign_bytes: FOREIGN_BYTES_MAX,
            window_bytes: WINDOW_BYTES,
            values_bytes: VALUES_BYTES,
            piece_bytes: PIECE_BYTES,
        }
    }
}

/// What an engine has to be told.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// This process: which member, which life.
    pub origin: Origin,
    /// How many members there are.
    pub members: usize,
    /// How long a client's request may take.
    pub patience: Duration,
    /// How many bytes of executed values are kept for members that fall behind.
    pub backlog_bytes: usize,
    /// Clients hear of a write when it is on every member's disk, not on a majority's (disk-all).
    pub waits_for_all: bool,
    /// What may pile up.
    pub bounds: Bounds,
}

impl Config {
    /// The usual, for `origin` of `members`.
    pub fn new(origin: Origin, members: usize) -> Config {
        Config {
            origin,
            members,
            patience: PATIENCE,
            backlog_bytes: crate::backlog::BACKLOG_BYTES,
            waits_for_all: false,
            bounds: Bounds::default(),
        }
    }
}
