//! How far the clocks of hosts, by which a group's messages get their times, are ahead of the
//! world's: each otherwise, and set forward and back.

use super::Kind;
use crate::plan::MS;
use base::Rng;
use proto::vsync::Time;

/// How far the clock of a host is ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Date {
    /// How far it is ahead of the slowest one.
    ahead_ns: u64,
    /// How far it is set forward, and back after a while, and forward again.
    swing_ns: u64,
    swing_every_ns: u64,
}

impl Date {
    /// A host's clock. Those of durable groups are never set back, which these do not promise to
    /// survive (`vsync`, K6).
    pub(super) fn draw(kind: Kind, rng: &mut Rng) -> Date {
        // What is final waits for the slowest clock of a durable group (`vsync`, K6), and callers
        // of objects for that.
        let most_ns = if kind == Kind::DurableObjects { 300 * MS } else { 3000 * MS };
        let spread_ns = [0, MS / 10, 30 * MS, most_ns][rng.below(4) as usize];
        let swings = !kind.is_durable() && rng.chance(1, 4);
        Date {
            ahead_ns: rng.below(spread_ns + 1),
            swing_ns: if swings { rng.below(200 * MS) } else { 0 },
            swing_every_ns: MS * rng.range(20, 400),
        }
    }

    /// What it shows at the world's time `now`, where a right one shows `wall_ns`.
    pub(super) const fn at(&self, now: u64, wall_ns: u64) -> Time {
        let is_forward = now / self.swing_every_ns % 2 == 1;
        let swing_ns = if is_forward { self.swing_ns } else { 0 };
        Time(wall_ns + self.ahead_ns + swing_ns)
    }
}

/// The most that one of these clocks is ahead of another one: how long a query as of a time that
/// the first has shown may wait for the second.
pub(super) fn apart_ns(dates: &[Date]) -> u64 {
    let fastest = dates.iter().map(|date| date.ahead_ns + date.swing_ns).max();
    let slowest = dates.iter().map(|date| date.ahead_ns).min();
    fastest.unwrap_or_default() - slowest.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_apart_by_what_the_fastest_shows_once_it_is_set_forward() {
        let date = |ahead_ns, swing_ns| Date { ahead_ns, swing_ns, swing_every_ns: MS };
        assert_eq!(apart_ns(&[date(7, 0), date(12, 0), date(9, 5), date(8, 0)]), 7);
        assert_eq!(apart_ns(&[date(7, 0)]), 0);
        assert_eq!(apart_ns(&[]), 0);
    }
}
