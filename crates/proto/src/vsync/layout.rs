//! The region of a seat: two places for each seat, and in each a row and a ring of messages for
//! each subgroup; and behind all places the own landing area (`landing`).
//!
//! Every word has one writer, the seat whose place it is in (`sst`, S3). The region of a seat is
//! the copy that this seat reads.

use super::bugs::Plantings;
use super::columns::Row;
use super::place::Plan;
use super::relaying::Relaying;
use super::shard::Mode;
use super::slots::Header;
use crate::node::Layout as Region;
use crate::sst::bugs::Bug as TableBug;
use crate::sst::{Columns, Places};
use base::{At, Rank};

/// The sizes and the order of a group, the same at every member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The order, where a subgroup has none of its own ([`Subgroup::mode`](super::Subgroup)).
    pub mode: Mode,
    /// The number of seats of the fabric: the most members that a view can have.
    pub n_seats: usize,
    /// The number of messages of one sender that are not delivered everywhere.
    pub window: u32,
    /// The longest message, in bytes.
    pub message_bytes: u32,
    /// The number of subgroups, from 1.
    pub n_subgroups: usize,
    /// The number of the shards of all of them.
    pub n_shards: usize,
    /// The places for large messages of a process, where the fabric has memory that all members
    /// look into; 0 for none.
    pub n_places: u32,
    /// The way in which large messages are relayed, where the fabric carries parcels.
    pub relaying: Relaying,
}

/// The place of everything.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) shape: Shape,
    pub(super) columns: Columns,
    pub(super) row: Row,
    places: Places,
    pub(super) landing: Plan,
}

impl Layout {
    /// The layout of a group of this shape.
    pub(super) fn new(shape: &Shape) -> Layout {
        assert!(shape.window > 0 && shape.n_seats > 0 && shape.n_subgroups > 0, "{shape:?}");
        assert!(shape.message_bytes <= Header::BYTES_MAX, "{shape:?}");
        assert!(shape.relaying.is_sound(), "{shape:?}");
        let mut columns = Columns::new();
        let row = Row::declare(&mut columns, [shape.n_seats, shape.n_subgroups, shape.n_shards]);
        let stride = columns.row_words() + shape.n_subgroups as u32 * ring_words(shape);
        let places = Places::new(At(0), stride);
        let n_places = if shape.mode == Mode::Unordered { 0 } else { shape.n_places };
        let end = places.end(shape.n_seats);
        let landing = Plan::new(end, shape.n_seats, n_places, shape.message_bytes);
        Layout { shape: *shape, columns, row, places, landing }
    }

    /// The row of `seat` in `view`.
    pub(super) fn row_of(&self, seat: Rank, view: u64, planted: impl Plantings) -> At {
        self.places.of(seat, if planted.has(TableBug::OnePlace) { 0 } else { view })
    }

    /// The word of the row of `seat` that names its view.
    pub(super) fn named_of(&self, seat: Rank, view: u64, planted: impl Plantings) -> At {
        self.row_of(seat, view, planted).plus(self.columns.view())
    }

    /// The ring of `seat` in `view` for a subgroup.
    pub(super) fn ring_of(
        &self,
        seat: Rank,
        view: u64,
        subgroup: usize,
        planted: impl Plantings,
    ) -> At {
        let rings = self.row_of(seat, view, planted).plus(self.columns.row_words());
        rings.plus(subgroup as u32 * ring_words(&self.shape))
    }

    /// Whether messages have times: where they have an order.
    pub(super) fn is_timed(&self) -> bool {
        self.shape.mode != Mode::Unordered
    }

    /// The words of a slot before its message.
    pub(super) fn head_words(&self) -> u32 {
        head_words(&self.shape)
    }

    /// The slot of message `index` in `ring`: a header, a stamp, and the message.
    pub(super) fn slot_of(&self, ring: At, index: u64) -> At {
        let slot = (index % u64::from(self.shape.window)) as u32;
        ring.plus(slot * slot_words(&self.shape))
    }

    /// The place of a block of message `index` in `ring`: beside the words that its bytes would be
    /// in (`relay`).
    pub(super) fn block_of(&self, ring: At, index: u64, block: usize) -> At {
        let words = block as u32 * self.shape.relaying.block_bytes / 8;
        self.slot_of(ring, index).plus(self.head_words() + words)
    }

    /// The whole region.
    pub(super) fn region(&self) -> Region {
        let Shape { mode, n_seats, window, message_bytes, n_subgroups, n_shards, .. } = self.shape;
        let Shape { n_places, relaying, .. } = self.shape;
        let text = alloc::format!(
            "vsync 8 {mode:?} {n_seats} {window} {message_bytes} {n_subgroups} {n_shards} \
             {n_places} {relaying:?}"
        );
        Region {
            n_words: self.places.end(n_seats).0 + self.landing.n_words(),
            fingerprint: xxhash_rust::xxh3::xxh3_64(text.as_bytes()),
        }
    }
}

const fn ring_words(shape: &Shape) -> u32 {
    shape.window * slot_words(shape)
}

const fn head_words(shape: &Shape) -> u32 {
    match shape.mode {
        Mode::Ordered | Mode::Durable => 2,
        Mode::Unordered => 1,
    }
}

const fn slot_words(shape: &Shape) -> u32 {
    head_words(shape) + shape.message_bytes.div_ceil(8)
}
