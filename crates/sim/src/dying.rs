//! A process that dies in the middle of a turn: between two frames to two members, two verbs, or a
//! store and the verb that makes it known.
//!
//! - H1 the effects before the death stand, and none after it does: no verb, no message, no store
//!   that others see, no reply to a client. By [`Dying::acts`], which the port asks at each effect;
//!   replies wait in the process's pipes, and end with it.
//! - H2 the process runs to the end of its turn as a ghost, which sees its own stores. By
//!   [`Dying::overlay`].

use base::At;

/// A process that is to die.
#[derive(Clone, Debug)]
pub(crate) struct Dying {
    /// The number of effects that still happen.
    pub(crate) n_left: u32,
    /// Whether it is dead, since it tried one effect more.
    pub(crate) is_gone: bool,
    /// The words that it stored since.
    stored: Vec<(At, u64)>,
    /// The number of requests to its disk that were made before, where it has one.
    pub(crate) n_asked: Option<usize>,
    /// The time until its next process begins.
    pub(crate) lasts: u64,
}

impl Dying {
    /// A death after so many effects, for so long.
    pub(crate) fn new(n_left: u32, lasts: u64) -> Dying {
        Dying { n_left, is_gone: false, stored: Vec::new(), n_asked: None, lasts }
    }

    /// Whether the next effect happens.
    pub(crate) fn acts(&mut self) -> bool {
        self.is_gone |= self.n_left == 0;
        self.n_left = self.n_left.saturating_sub(1);
        !self.is_gone
    }

    pub(crate) fn store(&mut self, at: At, word: u64) {
        self.stored.push((at, word));
    }

    /// The word that it stored last at this place, after its death.
    pub(crate) fn stored(&self, at: At) -> Option<u64> {
        self.stored.iter().rev().find(|(of, _)| *of == at).map(|(_, word)| *word)
    }

    /// Puts its stores among the words that begin at this place.
    pub(crate) fn overlay(&self, at: At, words: &mut [u64]) {
        for (of, word) in &self.stored {
            if let Some(index) = of.0.checked_sub(at.0)
                && let Some(seen) = words.get_mut(index as usize)
            {
                *seen = *word;
            }
        }
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
