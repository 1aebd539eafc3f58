//! The judge of members that have nothing to do, in the last second of the silence (`silence`).
//!
//! - R1 *A loop that has nothing to do sleeps*: it takes fewer than [`TURNS_MAX`] turns in that
//!   second. Beats, ticks and looks at other members are some hundred, of partitions some thousand.
//!   A loop that takes what it always finds for work takes as many turns as there is time for.

use base::MAX_MEMBERS;

/// A member at rest takes fewer turns in a second.
pub(super) const TURNS_MAX: u32 = 5_000;

/// The turns that each member has taken in the last second of the silence.
#[derive(Debug, Default)]
pub(super) struct Rest([u32; MAX_MEMBERS]);

impl Rest {
    /// Notes a turn of `node`. True if it is one too many.
    pub(super) fn turn(&mut self, node: usize) -> bool {
        self.0[node] += 1;
        self.0[node] == TURNS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r1_a_loop_that_does_not_sleep_is_noticed_once() {
        let mut rest = Rest::default();
        let noticed =
            |rest: &mut Rest, node| (0..3 * TURNS_MAX).filter(|_| rest.turn(node)).count();
        assert!((0..TURNS_MAX - 1).all(|_| !rest.turn(0)));
        assert_eq!((noticed(&mut rest, 1), noticed(&mut rest, 0)), (1, 1));
    }
}
