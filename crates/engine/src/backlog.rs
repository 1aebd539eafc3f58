//! The values that were executed here last, kept for members that fell behind.
//!
//! A protocol's ring recycles a slot as soon as a majority has applied it, so a member that was
//! paused, or that is just being sent a snapshot, finds the slots that it needs gone. It asks
//! another member for them; only when they are gone here too is a snapshot needed.
//!
//! - I1 the kept values are those of consecutive slots, and the newest is the last executed one.
//!   Asserted in [`Backlog::push`].
//! - I2 their bytes fit into the capacity that was given: the oldest make room. One allocation, at
//!   the start; the system commits its pages as they are first used.

use base::{Prefix, Slot};
use std::collections::VecDeque;

/// How much is kept by default: some seconds of full load.
pub const BACKLOG_BYTES: usize = 32 << 20;

#[derive(Clone, Copy, Debug)]
struct Kept {
    start: usize,
    len: usize,
}

/// See the module's text.
#[derive(Debug)]
pub struct Backlog {
    ring: Box<[u8]>,
    kept: VecDeque<Kept>,
    /// The slot after the newest kept one.
    end: Prefix,
    /// Where the next value goes if it fits.
    head: usize,
}

impl Backlog {
    /// Room for `capacity` bytes, nothing kept, `executed` slots done.
    pub fn new(capacity: usize, executed: Prefix) -> Backlog {
        Backlog {
            ring: vec![0; capacity].into_boxed_slice(),
            kept: VecDeque::new(),
            end: executed,
            head: 0,
        }
    }

    /// Keeps `value`, executed for `slot`. A value longer than the whole backlog empties it.
    pub fn push(&mut self, slot: Slot, value: &[u8]) {
        assert_eq!(slot, self.end.next_slot(), "I1: the backlog has no gaps");
        self.end = slot.prefix_through();
        if value.len() > self.ring.len() {
            self.kept.clear();
            self.head = 0;
            return;
        }
        // An empty value too has a place of its own, or it would hide the one behind it.
        let space = value.len().max(1);
        let mut start = self.head;
        if start + space > self.ring.len() {
            // A value is contiguous: skip the rest of the ring and drop the values in it.
            self.forget_between(start, self.ring.len());
            start = 0;
        }
        self.forget_between(start, start + space);
        self.ring[start..start + value.len()].copy_from_slice(value);
        self.kept.push_back(Kept { start, len: value.len() });
        self.head = start + space;
    }

    /// Starts again after a state was installed: `executed` slots done, nothing kept.
    pub fn restart(&mut self, executed: Prefix) {
        self.kept.clear();
        (self.end, self.head) = (executed, 0);
    }

    /// The slot from which on everything executed is kept.
    pub fn oldest(&self) -> Slot {
        Slot(self.end.0 - self.kept.len() as u64)
    }

    /// Every slot below is executed.
    pub fn end(&self) -> Prefix {
        self.end
    }

    /// The value of `slot`, if it is kept.
    pub fn value(&self, slot: Slot) -> Option<&[u8]> {
        let at = slot.0.checked_sub(self.oldest().0)?;
        let kept = self.kept.get(usize::try_from(at).ok()?)?;
        Some(&self.ring[kept.start..kept.start + kept.len])
    }

    /// Drops the oldest while they overlap `start..end` of the ring (I2). The oldest lie first
    /// after the head, so nothing else can be in the way.
    fn forget_between(&mut self, start: usize, end: usize) {
        while let Some(oldest) = self.kept.front() {
            let in_the_way = oldest.start < end && start < oldest.start + oldest.len.max(1);
            if !in_the_way {
                break;
            }
            self.kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn i1_i2_it_holds_the_newest_values_unharmed(
            lens in prop::collection::vec(0usize..40, 1..200),
        ) {
            let mut backlog = Backlog::new(64, Prefix(10));
            let value = |slot: u64, len: usize| vec![slot as u8; len];
            for (n, len) in lens.iter().enumerate() {
                let slot = 10 + n as u64;
                backlog.push(Slot(slot), &value(slot, *len));
                prop_assert_eq!(backlog.end(), Prefix(slot + 1));
                for at in 10..=slot {
                    let kept = backlog.value(Slot(at));
                    if at < backlog.oldest().0 {
                        prop_assert!(kept.is_none());
                    } else {
                        prop_assert_eq!(kept, Some(&value(at, lens[(at - 10) as usize])[..]));
                    }
                }
                prop_assert!(backlog.value(Slot(slot)).is_some(), "the newest is always kept");
            }
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let mut backlog = Backlog::new(8, Prefix(3));
        assert_eq!(
            (backlog.oldest(), backlog.value(Slot(2)), backlog.value(Slot(3))),
            (Slot(3), None, None)
        );
        backlog.push(Slot(3), b"abc");
        backlog.push(Slot(4), &[0; 9]);
        assert_eq!(
            (backlog.oldest(), backlog.value(Slot(4))),
            (Slot(5), None),
            "longer than it all"
        );
        backlog.restart(Prefix(90));
        assert_eq!(backlog.oldest(), Slot(90));
    }
}
