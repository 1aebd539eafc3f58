//! The judge of members that have nothing to do, in the last second of the silence (`silence`).
//!
//! - R1 *A loop that has nothing to do sleeps*: it takes fewer than so many turns in that second.
//!   Beats, ticks and looks at other members are some hundred, of partitions some thousand. A loop
//!   that takes what it always finds for work takes as many turns as there is time for.

use super::silence::Silence;
use crate::plan::MS;
use base::MAX_MEMBERS;

/// A machine at rest takes fewer turns in a second.
pub(crate) const OF_MACHINES: u32 = 1_000;
/// The same, of a whole member.
const OF_MEMBERS: u32 = 5_000;
/// The time at the end of the silence in which members are at rest.
const REST_NS: u64 = 1_000 * MS;

/// The turns that each member has taken in the last second of the silence.
#[derive(Debug)]
pub(crate) struct Rest {
    turns_max: u32,
    turns: [u32; MAX_MEMBERS],
}

impl Default for Rest {
    /// Those of whole members.
    fn default() -> Rest {
        Rest::of(OF_MEMBERS)
    }
}

impl Rest {
    /// None yet; a loop at rest takes fewer than so many.
    pub(crate) const fn of(turns_max: u32) -> Rest {
        Rest { turns_max, turns: [0; MAX_MEMBERS] }
    }

    /// Notes a turn of `node` (R1). Returns what is wrong with it, in words, the first time.
    pub(crate) fn turn(&mut self, node: usize, silence: Silence, now: u64) -> Option<String> {
        silence.left_ns(now).filter(|left_ns| *left_ns < REST_NS)?;
        let Rest { turns_max, turns } = self;
        turns[node] += 1;
        (turns[node] == *turns_max)
            .then(|| format!("r{node} has nothing to do, and takes {turns_max} turns a second"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r1_a_loop_that_does_not_sleep_is_noticed_once() {
        const MAX: u32 = 10;
        let (mut rest, silence) =
            (Rest::of(MAX), Silence::Until { ns: 3 * REST_NS, has_begun: true });
        let noticed = |rest: &mut Rest, node, now| {
            (0..3 * MAX).filter(|_| rest.turn(node, silence, now).is_some()).count()
        };
        assert_eq!(noticed(&mut rest, 0, 2 * REST_NS), 0, "it may have something to do");
        assert!((0..MAX - 1).all(|_| rest.turn(0, silence, 2 * REST_NS + 1).is_none()));
        let now = 3 * REST_NS - 1;
        assert_eq!((noticed(&mut rest, 1, now), noticed(&mut rest, 0, now)), (1, 1));
        assert_eq!(noticed(&mut Rest::of(MAX), 0, 3 * REST_NS), 0, "the silence is over");
    }
}
