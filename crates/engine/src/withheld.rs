//! Answers that are known and must not be told yet: what they answer is decided, and not on every
//! member's disk (`disk-all`).
//!
//! - I1 an answer leaves when the leader says that its slot is on every disk, and in slot order. By
//!   construction: [`Withheld::release`] is the one way out.
//! - I2 at most [`SLOTS_MAX`] slots' and about [`BYTES_MAX`] bytes of answers wait here. Full is a
//!   named effect: [`Withheld::has_room`] turns false and the leader proposes no commands, so that
//!   a member whose disk is missing stops writes instead of piling them up.

use crate::outbox::Sequence;
use crate::service::{Answers, Origin};
use base::{Prefix, Slot};
use std::collections::VecDeque;

/// See I2.
pub(crate) const SLOTS_MAX: usize = 1024;
/// See I2.
pub(crate) const BYTES_MAX: usize = 16 << 20;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Withheld {
    slots: VecDeque<(Slot, Answers)>,
    n_bytes: usize,
    spare: Vec<Answers>,
}

impl Withheld {
    /// Keeps what was answered at `slot`, and leaves `answers` empty.
    pub(crate) fn keep(&mut self, slot: Slot, answers: &mut Answers) {
        if answers.iter().next().is_none() {
            return;
        }
        assert!(self.slots.back().is_none_or(|(last, _)| *last < slot), "I1: slots in order");
        let fresh = self.spare.pop().unwrap_or_default();
        let full = std::mem::replace(answers, fresh);
        self.n_bytes += n_bytes(&full);
        self.slots.push_back((slot, full));
    }

    /// See I2.
    pub(crate) fn has_room(&self) -> bool {
        self.slots.len() < SLOTS_MAX && self.n_bytes < BYTES_MAX
    }

    /// The oldest answers that may be told, since `held` is on every disk. Give them back with
    /// [`Withheld::recycle`].
    pub(crate) fn release(&mut self, held: Prefix) -> Option<(Slot, Answers)> {
        let (slot, answers) = self.slots.pop_front_if(|(slot, _)| held.contains(*slot))?;
        self.n_bytes -= n_bytes(&answers);
        Some((slot, answers))
    }

    pub(crate) fn recycle(&mut self, mut answers: Answers) {
        answers.clear();
        if self.spare.len() < 64 {
            self.spare.push(answers);
        }
    }

    /// This member no longer leads. Its successor answers when the commands come again.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.n_bytes = 0;
    }
}

fn n_bytes(answers: &Answers) -> usize {
    answers.iter().map(|(_, _, reply): (Origin, Sequence, &[u8])| reply.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Incarnation, Rank};

    fn answers(reply: &[u8]) -> Answers {
        let mut answers = Answers::default();
        let origin = Origin { rank: Rank::at(0), life: Incarnation(1) };
        answers.push(origin, Sequence(1), reply);
        answers
    }

    #[test]
    fn i1_nothing_leaves_before_it_is_on_every_disk() {
        let mut withheld = Withheld::default();
        withheld.keep(Slot(3), &mut answers(b"a"));
        withheld.keep(Slot(4), &mut Answers::default());
        withheld.keep(Slot(7), &mut answers(b"b"));
        assert!(withheld.release(Prefix(3)).is_none());
        assert_eq!(withheld.release(Prefix(7)).unwrap().0, Slot(3));
        assert!(withheld.release(Prefix(7)).is_none());
        assert_eq!(withheld.release(Prefix(8)).unwrap().0, Slot(7));
        assert!(withheld.release(Prefix(99)).is_none());
    }

    #[test]
    fn i2_room_ends_at_the_slots_and_at_the_bytes() {
        let mut withheld = Withheld::default();
        (0..SLOTS_MAX as u64).for_each(|slot| withheld.keep(Slot(slot), &mut answers(b"x")));
        assert!(!withheld.has_room());
        let (_, released) = withheld.release(Prefix(1)).unwrap();
        withheld.recycle(released);
        assert!(withheld.has_room());
        withheld.keep(Slot(1 << 20), &mut answers(&vec![0; BYTES_MAX]));
        assert!(!withheld.has_room());
        withheld.clear();
        assert!(withheld.has_room());
    }
}
