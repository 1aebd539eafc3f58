//! Schedules by which one member sends a long message to all others, in blocks: RDMC's (Behrens,
//! Jha, Birman, Tremel, DSN 2018; paper 000, section 2.3).
//!
//! **Purpose.** A schedule says which member sends which block to which member in which step. It is
//! data, and follows from the numbers of members and of blocks alone, so all members have the same
//! one. Member 0 has the message. In a step a member sends at most one block and receives at most
//! one, so a step takes as long as a block on one link.
//!
//! | schedule | steps for n members and b blocks | sent by member 0 |
//! | --- | --- | --- |
//! | sequential | b (n - 1) | b (n - 1) blocks |
//! | chain | b + n - 2 | b |
//! | binomial tree | b ceil(log2 n) | b ceil(log2 n) |
//! | binomial pipeline | b + ceil(log2 n) - 1, which is the least possible | about b |
//!
//! **Invariants**, each checked for all of 2 to 16 members (`tests`):
//! - S1 *Once.* Each member but member 0 receives each block exactly once.
//! - S2 *From those that have it.* What a member sends in a step it had before the step.
//! - S3 *One at a time.* In a step a member sends at most one block, and receives at most one.
//! - S4 *Steps.* There are as many steps as the table says.
//!
//! Groups relay large messages by these over tcp (`vsync::relay`).

mod cost;
mod pipeline;
#[cfg(test)]
mod tests;

pub use cost::Cost;

use alloc::vec::Vec;

/// The most members of a schedule.
pub const MEMBERS_MAX: usize = 64;

/// A way to bring a message from member 0 to all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// Member 0 sends all of it to one after the other.
    #[default]
    Sequential,
    /// Each member sends each block on to the next.
    Chain,
    /// Each member that has all of it sends all of it to one that has nothing.
    BinomialTree,
    /// Members at the corners of a hypercube exchange blocks along one dimension after the other.
    BinomialPipeline,
}

/// A block on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transfer {
    /// The step, from 0.
    pub step: usize,
    /// The member that sends.
    pub from: usize,
    /// The member that receives.
    pub to: usize,
    /// The block, from 0.
    pub block: usize,
}

/// What a member does with a block in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It sends the block to this member.
    Send(usize),
    /// It receives the block from this member.
    Receive(usize),
}

impl Schedule {
    /// All of them.
    pub const ALL: [Schedule; 4] =
        [Schedule::Sequential, Schedule::Chain, Schedule::BinomialTree, Schedule::BinomialPipeline];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Schedule::Sequential => "sequential",
            Schedule::Chain => "chain",
            Schedule::BinomialTree => "binomial tree",
            Schedule::BinomialPipeline => "binomial pipeline",
        }
    }

    /// S4: the number of steps for 2 members or more and a block or more.
    pub const fn n_steps(self, n_members: usize, n_blocks: usize) -> usize {
        match self {
            Schedule::Sequential => n_blocks * (n_members - 1),
            Schedule::Chain => n_blocks + n_members - 2,
            Schedule::BinomialTree => n_blocks * ceil_log2(n_members),
            Schedule::BinomialPipeline => n_blocks + ceil_log2(n_members) - 1,
        }
    }

    /// All transfers, in the order of steps.
    ///
    /// # Panics
    /// With fewer than 2 members, more than [`MEMBERS_MAX`], or without a block.
    pub fn transfers(self, n_members: usize, n_blocks: usize) -> Vec<Transfer> {
        assert!((2..=MEMBERS_MAX).contains(&n_members) && n_blocks > 0, "{n_members}, {n_blocks}");
        let mut all = match self {
            Schedule::Sequential => sequential(n_members, n_blocks),
            Schedule::Chain => chain(n_members, n_blocks),
            Schedule::BinomialTree => tree(n_members, n_blocks),
            Schedule::BinomialPipeline => pipeline::transfers(n_members, n_blocks),
        };
        all.sort_unstable();
        all
    }
}

/// What `member` does, in order: the step, the turn and the block.
pub fn turns_of(transfers: &[Transfer], member: usize) -> Vec<(usize, Turn, usize)> {
    let mut turns = Vec::new();
    for Transfer { step, from, to, block } in transfers.iter().copied() {
        if from == member {
            turns.push((step, Turn::Send(to), block));
        }
        if to == member {
            turns.push((step, Turn::Receive(from), block));
        }
    }
    turns
}

fn sequential(n_members: usize, n_blocks: usize) -> Vec<Transfer> {
    let to = |to| (0..n_blocks).map(move |block| (to, block));
    let all = (1..n_members).flat_map(to).enumerate();
    all.map(|(step, (to, block))| Transfer { step, from: 0, to, block }).collect()
}

fn chain(n_members: usize, n_blocks: usize) -> Vec<Transfer> {
    let by = |from: usize| {
        (0..n_blocks).map(move |block| Transfer { step: from + block, from, to: from + 1, block })
    };
    (0..n_members - 1).flat_map(by).collect()
}

fn tree(n_members: usize, n_blocks: usize) -> Vec<Transfer> {
    let mut all = Vec::new();
    for round in 0..ceil_log2(n_members) {
        let n_having = 1 << round;
        for from in (0..n_having).filter(|from| from + n_having < n_members) {
            let to = from + n_having;
            let step = round * n_blocks;
            all.extend((0..n_blocks).map(|block| Transfer { step: step + block, from, to, block }));
        }
    }
    all
}

/// The least k so that 2^k is at least `n`, which is not 0.
const fn ceil_log2(n: usize) -> usize {
    n.next_power_of_two().trailing_zeros() as usize
}
