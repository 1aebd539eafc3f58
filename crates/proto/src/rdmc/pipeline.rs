//! The binomial pipeline (Ganesan and Seshadri, "On cooperative content distribution and the price
//! of barter", ICDCS 2005).
//!
//! A hypercube has as many corners as the greatest power of two that is not above the number of
//! members. Each corner has one member, or two. In step t each corner sends to its neighbour along
//! dimension t (modulo the number of dimensions): member 0 sends block t, or the last one, all
//! others the last block that they have, if the neighbour lacks it.
//!
//! Of two members at a corner one sends to the neighbour and, as a rule, the other receives from
//! it, and also gives the sender a block that this one lacks. So each lacks at most one block that
//! the other has, and one more step, in which they exchange these, ends all of it. Member 0 has a
//! corner for itself.

use super::Transfer;
use alloc::vec::Vec;

/// The blocks that a member has.
type Blocks = Vec<bool>;

/// The members of a corner.
struct Corner {
    one: usize,
    other: Option<usize>,
}

impl Corner {
    fn members(&self) -> impl Iterator<Item = usize> {
        [Some(self.one), self.other].into_iter().flatten()
    }

    /// Whether any member has a block.
    fn has(&self, block: usize, having: &[Blocks]) -> bool {
        self.members().any(|member| having[member][block])
    }
}

pub(super) fn transfers(n_members: usize, n_blocks: usize) -> Vec<Transfer> {
    let n_dimensions = n_members.ilog2() as usize;
    let n_corners = 1 << n_dimensions;
    let n_pairs = n_members - n_corners;
    let corner = |one: usize| Corner {
        one,
        // (The last ones: member 0 has none beside it.)
        other: (one >= n_corners - n_pairs).then(|| one + n_pairs),
    };
    let corners: Vec<Corner> = (0..n_corners).map(corner).collect();
    let mut having: Vec<Blocks> = alloc::vec![alloc::vec![false; n_blocks]; n_members];
    having[0].fill(true);
    let mut all = Vec::new();
    for step in 0.. {
        if having.iter().all(|blocks| !blocks.contains(&false)) {
            break;
        }
        let before = all.len();
        let dimension = step % n_dimensions;
        let sent: Vec<Option<usize>> = (0..n_corners)
            .map(|at| block_of(at, step, &corners[at], &having))
            .zip(0..)
            .map(|(block, at)| block.filter(|b| !corners[at ^ 1 << dimension].has(*b, &having)))
            .collect();
        let parts: Vec<Parts> = (0..n_corners)
            .map(|at| parts(&corners[at], sent[at], sent[at ^ 1 << dimension], &having))
            .collect();
        for (at, part) in parts.iter().enumerate() {
            if let Some(block) = sent[at] {
                let (from, to) = (part.sender, parts[at ^ 1 << dimension].receiver);
                all.push(Transfer { step, from, to, block });
            }
            for Gift { from, to, block } in part.given.into_iter().flatten() {
                all.push(Transfer { step, from, to, block });
            }
        }
        assert!(all.len() > before, "S4: each step brings something on");
        for Transfer { to, block, .. } in &all[before..] {
            having[*to][*block] = true;
        }
    }
    all
}

/// The block that a corner sends in a step, if it has any.
fn block_of(at: usize, step: usize, corner: &Corner, having: &[Blocks]) -> Option<usize> {
    let n_blocks = having[0].len();
    match at {
        0 => Some(step.min(n_blocks - 1)),
        _ => (0..n_blocks).rev().find(|block| corner.has(*block, having)),
    }
}

/// The parts of a corner's members in a step.
#[derive(Clone, Copy)]
struct Parts {
    /// The member that sends to the neighbour, if the corner sends.
    sender: usize,
    /// The member that receives from it.
    receiver: usize,
    /// Blocks that one member gives to the other.
    given: [Option<Gift>; 2],
}

#[derive(Clone, Copy)]
struct Gift {
    from: usize,
    to: usize,
    block: usize,
}

/// The first block that `from` has and `to` lacks.
fn gift(from: usize, to: usize, having: &[Blocks]) -> Option<Gift> {
    let lacks = |block: &usize| having[from][*block] && !having[to][*block];
    (0..having[0].len()).find(lacks).map(|block| Gift { from, to, block })
}

/// Of all parts that S2 and S3 allow, the first ones behind which the members have most blocks, and
/// of these the ones behind which they have as many as each other.
fn parts(
    corner: &Corner,
    sent: Option<usize>,
    received: Option<usize>,
    having: &[Blocks],
) -> Parts {
    let one = corner.one;
    let Some(other) = corner.other else {
        return Parts { sender: one, receiver: one, given: [None; 2] };
    };
    let pair = [one, other];
    let gifts = [gift(one, other, having), gift(other, one, having)];
    if sent.is_none() && received.is_none() {
        return Parts { sender: one, receiver: one, given: gifts };
    }
    let n_had = pair.map(|member| having[member].iter().filter(|has| **has).count());
    let mut best: Option<((usize, usize), Parts)> = None;
    for (sender, receiver) in pair.into_iter().flat_map(|one| pair.map(|other| (one, other))) {
        if sent.is_some_and(|block| !having[sender][block]) {
            continue;
        }
        for given in [None, gifts[0], gifts[1]] {
            let is_twice = |gift: Gift| {
                sent.is_some() && sender == gift.from || received.is_some() && receiver == gift.to
            };
            if given.is_some_and(is_twice) {
                continue;
            }
            let mut n_has = n_had;
            let takers = [received.map(|_| receiver), given.map(|gift| gift.to)];
            for taker in takers.into_iter().flatten() {
                n_has[usize::from(taker == other)] += 1;
            }
            let score = (n_has[0] + n_has[1], usize::MAX - n_has[0].abs_diff(n_has[1]));
            if best.as_ref().is_none_or(|(least, _)| score > *least) {
                best = Some((score, Parts { sender, receiver, given: [given, None] }));
            }
        }
    }
    best.expect("S2: a corner has what it sends").1
}
