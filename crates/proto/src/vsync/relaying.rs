//! The parameters of relays (`relay`), and what is counted of them.

use crate::rdmc::Schedule;
use base::{Instant, PARCEL_BYTES_MAX};

/// The way in which large messages are relayed, the same at every member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relaying {
    /// The schedule of subgroups that have none of their own. By [`Schedule::Sequential`] senders
    /// send to all.
    pub schedule: Schedule,
    /// The bytes of a block: a multiple of 8.
    pub block_bytes: u32,
    /// The number of blocks below which a message is not relayed.
    pub least_blocks: u32,
}

impl Relaying {
    /// No relays. Where a subgroup has a schedule: blocks of 64 KiB, which a fabric receives
    /// without a copy, and messages of four blocks or more.
    pub const DEFAULT: Relaying =
        Relaying { schedule: Schedule::Sequential, block_bytes: 64 << 10, least_blocks: 4 };

    pub(super) const fn is_sound(&self) -> bool {
        let Relaying { block_bytes, least_blocks, .. } = *self;
        block_bytes > 0
            && block_bytes.is_multiple_of(8)
            && block_bytes as usize <= PARCEL_BYTES_MAX
            && least_blocks > 0
    }
}

/// What a process has sent of large messages over a network, and what it has dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relayed {
    /// The bytes of its own messages.
    pub own_bytes: u64,
    /// The bytes of other members' messages.
    pub relayed_bytes: u64,
    /// The number of blocks of other members' messages.
    pub n_relayed: u64,
    /// The number of blocks that it has sent again, as a link had broken (V28).
    pub n_again: u64,
    /// The number of blocks that came too late (V29).
    pub n_late: u64,
}

impl Relayed {
    /// Notes a block that was posted.
    pub(super) fn note(&mut self, is_own: bool, n_bytes: usize, is_again: bool) {
        let n_bytes = n_bytes as u64;
        if is_own {
            self.own_bytes += n_bytes;
        } else {
            self.relayed_bytes += n_bytes;
            self.n_relayed += 1;
        }
        self.n_again += u64::from(is_again);
    }
}

/// What a member keeps of all its relays.
#[derive(Debug)]
pub(super) struct Relays {
    /// What was sent, in all views.
    pub(super) relayed: Relayed,
    /// The time at which it looks again whether links have room (V30).
    pub(super) look_at: Instant,
}

impl Default for Relays {
    fn default() -> Relays {
        Relays { relayed: Relayed::default(), look_at: Instant(u64::MAX) }
    }
}
