//! A member that dies in the middle of a turn: between two frames to two members, two verbs, or a
//! store and the verb that makes it known.
//!
//! - H1 the effects before the death stand, and none after it does: no verb, no message, no store
//!   that others see, no reply to a client. By [`Dying::acts`], which the plant asks at each effect;
//!   replies wait in the process's pipes, and end with it.
//! - H2 the process runs to the end of its turn without a look at what it did not do: it sees its own
//!   stores. By [`Dying::overlay`].
//!
//! Members with disks do not die like this here: a sync that was asked for would have to be taken
//! back (`ambush` does that for machines).

use super::world::World;
use crate::coverage::Mark;
use crate::queue::{Fault, Happening};
use crate::world::Phase;
use base::At;

/// A process that is to die.
#[derive(Clone, Debug)]
pub(super) struct Dying {
    /// The number of effects that still happen.
    n_left: u32,
    /// Whether it is dead, since it tried one effect more.
    is_gone: bool,
    /// The words that it stored since.
    stored: Vec<(At, u64)>,
    lasts: u64,
}

impl Dying {
    /// After so many effects, and for so long.
    fn new(n_left: u32, lasts: u64) -> Dying {
        Dying { n_left, is_gone: false, stored: Vec::new(), lasts }
    }

    /// Whether the next effect happens.
    pub(super) fn acts(&mut self) -> bool {
        self.is_gone |= self.n_left == 0;
        self.n_left = self.n_left.saturating_sub(1);
        !self.is_gone
    }

    pub(super) fn store(&mut self, at: At, word: u64) {
        self.stored.push((at, word));
    }

    /// The word that it stored last at this place, after its death.
    pub(super) fn stored(&self, at: At) -> Option<u64> {
        self.stored.iter().rev().find(|(of, _)| *of == at).map(|(_, word)| *word)
    }

    /// Puts its stores among the words that begin at this place.
    pub(super) fn overlay(&self, at: At, words: &mut [u64]) {
        for (of, word) in &self.stored {
            if let Some(index) = of.0.checked_sub(at.0)
                && let Some(seen) = words.get_mut(index as usize)
            {
                *seen = *word;
            }
        }
    }
}

impl World {
    /// Lets the process of `node` die in one of its next turns.
    pub(super) fn lay_halfway(&mut self, node: usize, lasts: u64) {
        let magnitude = self.outages.rng.below(7);
        let n_effects = self.outages.rng.below(1 << magnitude) as u32;
        if let Some(member) =
            self.members[node].as_mut().filter(|_| !self.kind.protocol.has_disks())
        {
            member.plant().dying = Some(Dying::new(n_effects, lasts));
        }
    }

    /// Spares the process of `node` that is about to take a turn, if it must not die by now.
    pub(super) fn spare(&mut self, node: usize) {
        let Some(member) = &mut self.members[node] else { return };
        let Some(dying) = member.plant().dying.take() else { return };
        let may_die = self.phase == Phase::Safety && self.may_die(node);
        if let Some(member) = self.members[node].as_mut().filter(|_| may_die) {
            member.plant().dying = Some(dying);
        }
    }

    /// Ends the process of `node` if it died in the turn that it has just taken. True if it did.
    pub(super) fn ends_halfway(&mut self, node: usize) -> bool {
        let Some(member) = &mut self.members[node] else { return false };
        let Some(dying) = member.plant().dying.take_if(|dying| dying.is_gone) else { return false };
        self.net.borrow_mut().coverage.hit(Mark::DiedHalfway);
        self.crash(node);
        self.push_in(dying.lasts, Happening::Mend(Fault::Crash(node as u8)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_effects_end_at_the_death() {
        let mut dying = Dying::new(2, 1);
        assert_eq!([dying.acts(), dying.acts(), dying.is_gone], [true, true, false]);
        assert_eq!([dying.acts(), dying.is_gone, dying.acts()], [false, true, false]);
    }

    #[test]
    fn h2_it_sees_its_own_last_stores() {
        let mut dying = Dying::new(0, 1);
        dying.store(At(5), 1);
        dying.store(At(5), 2);
        assert_eq!((dying.stored(At(5)), dying.stored(At(4))), (Some(2), None));
        let mut words = [9; 3];
        dying.overlay(At(4), &mut words);
        assert_eq!(words, [9, 2, 9]);
    }
}
