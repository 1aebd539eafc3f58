//! The requests that wait until a part of the log is durable.
//!
//! - One answer waits for each position: a later request at the same place replaces it. Answers are
//!   given in the order of requests, the newest alone. By construction.

use super::record::Position;
use std::collections::VecDeque;

/// A request that everything before it become durable; later requests cover earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Flush(pub u64);

/// The requests so far, and those that wait.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    n_requests: u64,
    /// Each with the position below which everything must be durable, in rising order.
    waiting: VecDeque<(Flush, Position)>,
}

impl Flushes {
    /// A request for everything below `tail`.
    pub(super) fn request(&mut self, tail: Position) -> Flush {
        self.n_requests += 1;
        let flush = Flush(self.n_requests);
        self.waiting.pop_back_if(|(_, upto)| *upto == tail);
        self.waiting.push_back((flush, tail));
        flush
    }

    /// The newest request that is met now that everything below `synced` is durable, if another
    /// than before is.
    pub(super) fn met(&mut self, synced: Position) -> Option<Flush> {
        let mut newest = None;
        while let Some((flush, _)) = self.waiting.pop_front_if(|(_, upto)| *upto <= synced) {
            newest = Some(flush);
        }
        newest
    }

    /// Whether a request waits for something at `start` or above.
    pub(super) fn reach_beyond(&self, start: Position) -> bool {
        self.waiting.back().is_some_and(|&(_, upto)| upto > start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_request_at_a_place_is_answered_once_and_in_order() {
        let mut flushes = Flushes::default();
        let [before, one, two] = [9, 10, 20].map(|offset| Position::new(0, offset));
        let replaced = flushes.request(one);
        let first = flushes.request(one);
        let second = flushes.request(two);
        assert!(replaced < first && first < second);
        assert!(flushes.reach_beyond(one) && !flushes.reach_beyond(two));
        assert_eq!(flushes.met(before), None);
        assert_eq!((flushes.met(one), flushes.met(one)), (Some(first), None));
        flushes.request(two);
        assert_eq!(flushes.met(two).map(|met| met > second), Some(true));
        assert!(!flushes.reach_beyond(one), "nothing waits");
    }
}
