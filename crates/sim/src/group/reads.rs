//! What the application of a simulated process answers: its own updates, and reads by its lease.

use super::history::{Record, Told};
use base::Instant;
use proto::vsync::{Position, ShardId};

/// A read on its way.
#[derive(Clone, Copy, Debug)]
struct Read {
    shard: ShardId,
    /// The world's time at which it came.
    from_ns: u64,
    /// The position that it has to see, once a turn has told it.
    held: Option<Position>,
}

/// What a process tells of one shard after a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// The shard in which the process is.
    pub(super) shard: Option<ShardId>,
    pub(super) position: Option<Position>,
    pub(super) held: Option<Position>,
    pub(super) answers_from: Instant,
}

/// Answers that a process owes.
#[derive(Debug, Default)]
pub(super) struct Reads {
    reads: Vec<Read>,
    /// Own updates that were delivered and not answered, with the positions behind them.
    updates: Vec<(ShardId, Position)>,
}

impl Reads {
    pub(super) fn ask(&mut self, shard: ShardId, from_ns: u64) {
        self.reads.push(Read { shard, from_ns, held: None });
    }

    pub(super) fn owe(&mut self, shard: ShardId, at: Position) {
        self.updates.push((shard, Position { at: at.at + 1, ..at }));
    }

    /// Answers what can be answered `now`, which is `now_ns` of the world.
    pub(super) fn answer(
        &mut self,
        standing: impl Fn(u16) -> Standing,
        (now, now_ns): (Instant, u64),
        lease_until: Instant,
        record: &mut Record,
    ) -> u64 {
        self.updates.retain(|(shard, to)| {
            let of = standing(shard.subgroup);
            let waits = of.answers_from > now;
            if !waits && of.shard == Some(*shard) {
                record.told.push(Told::Answered { shard: *shard, to: *to, at_ns: now_ns });
            }
            waits && of.shard == Some(*shard)
        });
        let mut n_read = 0;
        self.reads.retain_mut(|read| {
            let of = standing(read.shard.subgroup);
            if of.shard != Some(read.shard) {
                return false;
            }
            if read.held.is_none() {
                read.held = of.held;
            }
            let (Some(held), Some(to)) = (read.held, of.position) else { return true };
            if to < held {
                return true;
            }
            // `lease`: the time is looked at last.
            if now < lease_until && now >= of.answers_from {
                let Read { shard, from_ns, .. } = *read;
                record.told.push(Told::Read { shard, from_ns, to, at_ns: now_ns });
                n_read += 1;
            }
            false
        });
        n_read
    }
}
