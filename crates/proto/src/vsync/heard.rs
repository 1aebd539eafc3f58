//! What a receiver has heard of each sender (`unordered`, V15).

use super::slots::NUMBERS;
use super::view::{Knock, View};
use alloc::collections::BTreeMap;
use base::{Incarnation, Rank};

/// The number of the last message that was heard of each process, as its slot tells it: behind the
/// largest number the smallest follows.
#[derive(Debug, Default)]
pub(super) struct Heard(BTreeMap<Rank, (Incarnation, u64)>);

impl Heard {
    /// Notes that message `number` of `sender` was heard; false if it was before.
    pub(super) fn note(&mut self, sender: &Knock, number: u64) -> bool {
        let before = number.wrapping_sub(1);
        let last = self.0.entry(sender.seat).or_insert((sender.incarnation, before));
        if last.0 != sender.incarnation {
            *last = (sender.incarnation, before);
        }
        // What is sent again is a window behind at most.
        let is_new = (1..NUMBERS / 2).contains(&(number.wrapping_sub(last.1) % NUMBERS));
        if is_new {
            last.1 = number;
        }
        is_new
    }

    /// Forgets the processes that are not members.
    pub(super) fn keep(&mut self, view: &View) {
        let seats = view.seats();
        self.0.retain(|seat, _| seats.contains(*seat));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vsync::view::tests::{founded_by, process};

    #[test]
    fn v15_a_number_is_new_once_for_each_process() {
        let mut heard = Heard::default();
        let (old, young, other) = (process(1, 4), process(1, 5), process(2, 1));
        assert!(heard.note(&old, 7), "a newcomer begins anywhere");
        assert!(!heard.note(&old, 7) && !heard.note(&old, 6) && heard.note(&old, 8));
        assert!(heard.note(&young, 1) && heard.note(&other, 1));
        heard.keep(&founded_by(&[process(1, 5)]));
        assert!(!heard.note(&young, 1) && heard.note(&other, 1));
    }

    #[test]
    fn v15_behind_the_largest_number_the_smallest_is_new() {
        let (mut heard, sender) = (Heard::default(), process(1, 4));
        let last = NUMBERS - 1;
        assert!(heard.note(&sender, last - 1) && heard.note(&sender, last));
        assert!(heard.note(&sender, 0) && heard.note(&sender, 2));
        assert!([last - 1, last, 0, 1, 2].iter().all(|number| !heard.note(&sender, *number)));
        assert!(heard.note(&sender, 3));
    }
}
