//! Bursts of keys that expire at one moment, more than a store removes at once, and clients that
//! set some of them with KEEPTTL at that moment, or end a transaction behind a WATCH of one: some
//! have expired then, and are not removed yet.
//!
//! - B1 the keys of a burst are set by one piece of input, for one time: about one stamp has them
//!   all, and they are due within milliseconds. There are more than any value without commands
//!   removes.
//! - B2 what is set with KEEPTTL where nothing was stays, and is read until the end. By the judge
//!   (`expiry`, E4).
//! - B3 what is drawn here changes nothing that is drawn elsewhere. By a generator of its own.

use super::expiry::Act;
use crate::plan::MS;
use base::Rng;
use kv::store::{EXPIRY_BATCH_MAX, EXPIRY_TICK_MAX};

/// The least number that a key of a burst has, and what those of two bursts differ by.
const APART: u64 = 1_000;
/// The most keys that a value without commands removes.
const REMOVED_MAX: u64 = EXPIRY_BATCH_MAX as u64 + EXPIRY_TICK_MAX;
/// The most keys of a burst that are set with KEEPTTL.
const KEPT_MAX: usize = 48;
/// The most keys of a burst that are watched.
const WATCHED_MAX: usize = 6;

/// The bursts of a run.
#[derive(Debug)]
pub(super) struct Bursts {
    rng: Rng,
    n_left: u64,
    n_begun: u64,
    present: Option<Burst>,
    /// The keys that were set with KEEPTTL, of all bursts.
    kept: Vec<u64>,
    /// The time at which the transaction behind the WATCH that was drawn last is to come.
    ends_watch: Option<u64>,
}

/// The burst whose keys have not expired for long.
#[derive(Debug)]
struct Burst {
    /// Its keys that were not set with KEEPTTL, in a random order.
    keys: Vec<u64>,
    n_kept: usize,
    n_watched: usize,
    /// The times between which clients set them with KEEPTTL.
    from: u64,
    until: u64,
}

impl Bursts {
    /// B3.
    pub(super) fn draw(seed: u64) -> Bursts {
        let mut rng = Rng::new(seed ^ 0x6275_7273_7473);
        let n_left = rng.range(1, 4);
        Bursts { rng, n_left, n_begun: 0, present: None, kept: Vec::new(), ends_watch: None }
    }

    /// None at all: in a day they would be most of what there is to run.
    pub(super) fn leave_out(&mut self) {
        self.n_left = 0;
    }

    /// The next requests, if it is time for some; `value` makes a value that no client has set.
    pub(super) fn think(
        &mut self,
        now: u64,
        unit_ms: u64,
        mut value: impl FnMut() -> u64,
    ) -> Vec<(u64, Act)> {
        let Some(burst) = self.present.as_mut().filter(|burst| now <= burst.until) else {
            return self.begin(now, unit_ms, value);
        };
        if now < burst.from {
            if burst.n_watched == WATCHED_MAX || !self.rng.chance(1, 8) {
                return Vec::new();
            }
            burst.n_watched += 1;
            self.ends_watch = Some(self.rng.range(burst.from, burst.until));
            return burst.keys.pop().map(|key| (key, Act::Watch)).into_iter().collect();
        }
        let mut acts = Vec::new();
        for _ in 0..self.rng.range(2, 8) {
            if burst.n_kept == KEPT_MAX {
                break;
            }
            let Some(key) = burst.keys.pop() else { break };
            acts.push((key, Act::Keep { value: value() }));
            burst.n_kept += 1;
            self.kept.push(key);
        }
        let n = self.kept.len() as u64;
        acts.extend((0..n.min(2)).map(|_| (self.kept[self.rng.below(n) as usize], Act::Get)));
        acts
    }

    /// B1.
    fn begin(&mut self, now: u64, unit_ms: u64, mut value: impl FnMut() -> u64) -> Vec<(u64, Act)> {
        if self.n_left == 0 || !self.rng.chance(1, 16) {
            return Vec::new();
        }
        self.n_left -= 1;
        self.n_begun += 1;
        let n = REMOVED_MAX + self.rng.range(16, 160);
        let mut keys: Vec<u64> = (0..n).map(|at| self.n_begun * APART + at).collect();
        let ttl_ms = unit_ms * self.rng.range(10, 200);
        let acts = keys.iter().map(|key| (*key, Act::Set { value: value(), ttl_ms })).collect();
        for at in (1..keys.len()).rev() {
            keys.swap(at, self.rng.below(at as u64 + 1) as usize);
        }
        // State time is wrong by a hundredth at most, and what is due is removed by and by.
        let (due, slack) = (now + ttl_ms * MS, ttl_ms * MS / 50);
        let (from, until) = (due - slack, due + slack + 20 * MS);
        self.present = Some(Burst { keys, n_kept: 0, n_watched: 0, from, until });
        acts
    }

    /// How long the client waits that watches the key which was drawn last, if that is one of a
    /// burst.
    pub(super) fn pause(&mut self, now: u64) -> Option<u64> {
        self.ends_watch.take().map(|at| at - now)
    }

    /// B2.
    pub(super) fn kept(&self) -> &[u64] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b1_more_keys_than_a_store_removes_at_once_have_one_expiry() {
        let mut bursts = Bursts::draw(1);
        let mut n_values = 0;
        let mut value = || {
            n_values += 1;
            n_values
        };
        let set = (0..).map(|_| bursts.think(0, 1, &mut value)).find(|acts| !acts.is_empty());
        let set = set.expect("a burst begins");
        assert!(set.len() as u64 > REMOVED_MAX, "{}", set.len());
        let Act::Set { ttl_ms, .. } = set[0].1 else { panic!("{set:?}") };
        let is_alike = |act| matches!(act, Act::Set { ttl_ms: other, .. } if other == ttl_ms);
        assert!(set.iter().all(|(_, act)| is_alike(*act)));
        assert_eq!(bursts.think(1, 1, &mut value), [], "they live");
        let kept = bursts.think(ttl_ms * MS, 1, &mut value);
        let is_kept = |act| matches!(act, Act::Keep { .. });
        let n_kept = kept.iter().filter(|(_, act)| is_kept(*act)).count();
        assert_eq!((n_kept >= 2, n_kept), (true, bursts.kept().len()), "{kept:?}");
    }
}
