//! What a member has of relayed messages in a shard, and which others it is to send it to
//! (`relay`).

use super::bugs::{Bug, Plantings};
use super::layout::Shape;
use crate::rdmc::{MEMBERS_MAX, Schedule};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use base::Bulk;
use core::ops::Range;

/// The number of members of a shard below which a sender sends to all: as it does to more than
/// [`MEMBERS_MAX`].
const MEMBERS_MIN: usize = 4;

/// A member's part in the schedule of a message. Members are numbered from the sender on, in the
/// order of turns.
#[derive(Debug)]
struct Routes {
    /// By block, the member that it comes from.
    sources: Vec<usize>,
    /// Blocks, each with a member that it is sent to, in the order of steps.
    sends: Vec<(usize, usize)>,
}

impl Routes {
    /// The part of `member`.
    fn new(schedule: Schedule, n_members: usize, n_blocks: usize, member: usize) -> Routes {
        let mut routes = Routes { sources: vec![0; n_blocks], sends: Vec::new() };
        for one in schedule.transfers(n_members, n_blocks) {
            if one.to == member {
                routes.sources[one.block] = one.from;
            }
            if one.from == member {
                routes.sends.push((one.block, one.to));
            }
        }
        routes
    }
}

/// Where a block is that this member is to send to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It was not sent.
    Due,
    /// It was sent over the present link, or is not needed.
    Sent,
    /// It was sent over a link that has broken.
    Again,
}

/// A message that is not delivered here.
#[derive(Debug)]
struct Open {
    n_bytes: usize,
    routes: Arc<Routes>,
    /// Its blocks, as far as they are here.
    blocks: Vec<Option<Bulk>>,
    /// All of it, when all blocks are here.
    whole: Option<Bulk>,
    /// By `routes.sends`.
    stages: Vec<Stage>,
}

impl Open {
    fn n_missing(&self) -> usize {
        self.blocks.iter().filter(|block| block.is_none()).count()
    }

    fn n_due(&self) -> usize {
        self.stages.iter().filter(|stage| **stage != Stage::Sent).count()
    }
}

/// A block that is sent.
pub(super) struct Posting<'a> {
    /// The turn of its message's sender, and the index of the message.
    pub(super) of: (usize, u64),
    pub(super) block: usize,
    pub(super) bulk: &'a Bulk,
    /// Whether a link had lost it.
    pub(super) is_again: bool,
}

/// The relayed messages of a shard.
#[derive(Debug)]
pub(super) struct Routed {
    /// None where each sender sends to all.
    schedule: Option<Schedule>,
    n_members: usize,
    me: usize,
    block_bytes: usize,
    least_blocks: usize,
    /// By number of blocks and member.
    routes: BTreeMap<(usize, usize), Arc<Routes>>,
    /// By index and turn, which is their order.
    open: BTreeMap<(u64, usize), Open>,
    /// The number of blocks that are to be sent.
    n_due: usize,
}

impl Routed {
    /// Those of the member with turn `me` of a shard, whose policy is `schedule`.
    pub(super) fn new(shape: &Shape, schedule: Schedule, me: usize, n_members: usize) -> Routed {
        let relaying = &shape.relaying;
        let is_relayed = (MEMBERS_MIN..=MEMBERS_MAX).contains(&n_members);
        let is_relayed = is_relayed && schedule != Schedule::Sequential;
        Routed {
            schedule: Some(schedule).filter(|_| is_relayed),
            n_members,
            me,
            block_bytes: relaying.block_bytes as usize,
            least_blocks: relaying.least_blocks as usize,
            routes: BTreeMap::new(),
            open: BTreeMap::new(),
            n_due: 0,
        }
    }

    /// The number of blocks in which a message of `n_bytes` is relayed, if it is.
    pub(super) fn n_blocks(&self, n_bytes: usize) -> Option<usize> {
        let n_blocks = n_bytes.div_ceil(self.block_bytes);
        let is_relayed = self.schedule.is_some() && n_blocks >= self.least_blocks;
        is_relayed.then_some(n_blocks)
    }

    /// The member whose number from the sender of `turn` on is `number`.
    const fn turn(&self, turn: usize, number: usize) -> usize {
        (turn + number) % self.n_members
    }

    fn range(&self, n_bytes: usize, block: usize) -> Range<usize> {
        let start = block * self.block_bytes;
        start..(start + self.block_bytes).min(n_bytes)
    }

    fn routes(&mut self, turn: usize, n_blocks: usize) -> Option<Arc<Routes>> {
        let member = (self.me + self.n_members - turn) % self.n_members;
        let (schedule, n_members) = (self.schedule?, self.n_members);
        let routes = || Arc::new(Routes::new(schedule, n_members, n_blocks, member));
        Some(Arc::clone(self.routes.entry((n_blocks, member)).or_insert_with(routes)))
    }

    /// Begins message `index` of the sender with this turn, unless it has begun. False if it is
    /// not relayed.
    pub(super) fn begin(&mut self, turn: usize, index: u64, n_bytes: usize) -> bool {
        if self.open.contains_key(&(index, turn)) {
            return true;
        }
        let routes = self.n_blocks(n_bytes).and_then(|n_blocks| self.routes(turn, n_blocks));
        let Some(routes) = routes else { return false };
        self.n_due += routes.sends.len();
        let (blocks, stages) =
            (vec![None; routes.sources.len()], vec![Stage::Due; routes.sends.len()]);
        self.open.insert((index, turn), Open { n_bytes, routes, blocks, whole: None, stages });
        true
    }

    /// Begins an own message, if it is relayed.
    pub(super) fn put(&mut self, index: u64, bulk: &Bulk) {
        if self.begin(self.me, index, bulk.len()) {
            self.complete(self.me, index, bulk.clone());
        }
    }

    fn complete(&mut self, turn: usize, index: u64, whole: Bulk) {
        let Some(mut open) = self.open.remove(&(index, turn)) else { return };
        for (block, n) in open.blocks.iter_mut().zip(0..) {
            *block = Some(whole.part(self.range(open.n_bytes, n)));
        }
        open.whole = Some(whole);
        self.open.insert((index, turn), open);
    }

    /// V26: the next block of a message that is missing, from `block` on; with the turn of the
    /// member that it comes from, and its length.
    pub(super) fn missing(
        &self,
        (turn, index): (usize, u64),
        block: usize,
    ) -> Option<(usize, usize, usize)> {
        let open = self.open.get(&(index, turn))?;
        let next = open.blocks[block..].iter().position(Option::is_none)? + block;
        let source = self.turn(turn, open.routes.sources[next]);
        Some((next, source, self.range(open.n_bytes, next).len()))
    }

    /// Takes a block of a message that has begun.
    pub(super) fn take(&mut self, (turn, index): (usize, u64), block: usize, bulk: Bulk) {
        let Some(open) = self.open.get_mut(&(index, turn)) else { return };
        open.blocks[block] = Some(bulk);
        if open.n_missing() > 0 {
            return;
        }
        let mut bytes = Vec::with_capacity(open.n_bytes);
        let mut n_copied = open.n_bytes;
        for bulk in open.blocks.iter().flatten() {
            bytes.extend_from_slice(bulk);
            n_copied += bulk.n_copied();
        }
        self.complete(turn, index, Bulk::new(bytes, n_copied));
    }

    /// V27: a message whose blocks are all here.
    pub(super) fn whole(&self, turn: usize, index: u64) -> Option<&Bulk> {
        self.open.get(&(index, turn))?.whole.as_ref()
    }

    /// Whether a message lacks a block at most.
    pub(super) fn is_nearly_whole(&self, turn: usize, index: u64) -> bool {
        self.open.get(&(index, turn)).is_some_and(|open| open.n_missing() <= 1)
    }

    /// V28: what was sent to the member with this turn was lost with a link.
    pub(super) fn renew(&mut self, peer: usize) {
        for ((_, turn), open) in &mut self.open {
            for (stage, (_, to)) in open.stages.iter_mut().zip(&open.routes.sends) {
                if (turn + to) % self.n_members == peer && *stage == Stage::Sent {
                    *stage = Stage::Again;
                    self.n_due += 1;
                }
            }
        }
    }

    /// Forgets a message, which is delivered.
    pub(super) fn forget(&mut self, turn: usize, index: u64) {
        if let Some(open) = self.open.remove(&(index, turn)) {
            self.n_due -= open.n_due();
        }
    }

    /// Forgets all.
    pub(super) fn forget_all(&mut self) {
        self.open.clear();
        self.n_due = 0;
    }

    /// Whether nothing is to be sent.
    pub(super) const fn is_idle(&self) -> bool {
        self.n_due == 0
    }

    /// Whether others are to get blocks of others' messages by way of this member.
    pub(super) fn owes(&self) -> bool {
        self.open.iter().any(|((_, turn), open)| *turn != self.me && open.n_due() > 0)
    }

    /// Sends what is here and due to the member with turn `peer`, which has received so many
    /// messages of each turn, in the order of messages. `post` says whether there was room (V30).
    pub(super) fn send(
        &mut self,
        peer: usize,
        received: impl Fn(usize) -> u64,
        planted: impl Plantings,
        mut post: impl FnMut(Posting<'_>) -> bool,
    ) {
        let (me, n_members) = (self.me, self.n_members);
        for ((index, turn), open) in &mut self.open {
            let is_needed = *index >= received(*turn);
            for (stage, (block, to)) in open.stages.iter_mut().zip(&open.routes.sends) {
                if *stage == Stage::Sent || (turn + to) % n_members != peer {
                    continue;
                }
                let Some(bulk) = &open.blocks[*block] else { continue };
                let is_again = *stage == Stage::Again;
                let posting = Posting { of: (*turn, *index), block: *block, bulk, is_again };
                if is_needed && !post(posting) {
                    return;
                }
                *stage = Stage::Sent;
                self.n_due -= 1;
            }
            let is_done = *turn != me && open.whole.is_some() && open.n_due() == 0;
            if planted.has(Bug::BlocksFreed) && is_done {
                open.stages.clear();
            }
        }
    }
}
