//! Ballots: a process leads, or tries to, only under a ballot above all that earlier processes on
//! its memory used.
//!
//! Why it matters: two values under one ballot are indistinguishable, and it takes a slot that
//! both processes fill to show them. Why no false alarm: a machine stores a ballot before it uses
//! it, and only what a process used in a turn that it survived is noted. Not for machines whose
//! memory is their disk, which may lose a ballot that no other member has heard of.

use base::{Ballot, Incarnation};

/// The ballots that were used on one memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ballots {
    incarnation: Option<Incarnation>,
    life: u32,
    highest: Ballot,
}

impl Ballots {
    /// Notes that this life on the memory `incarnation` acts under `ballot`.
    #[inline]
    pub(crate) fn used(
        &mut self,
        incarnation: Incarnation,
        life: u32,
        ballot: Ballot,
    ) -> Result<(), String> {
        let is_same_memory = self.incarnation == Some(incarnation);
        let (before, is_again) = (self.highest, self.life == life);
        if is_same_memory && (ballot < before || ballot == before && !is_again) {
            return Err(format!("{ballot} is used, and {before} was used before"));
        }
        *self = Ballots { incarnation: Some(incarnation), life, highest: ballot };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_uses_no_ballot_again() {
        let mut ballots = Ballots::default();
        let (old, new) = (Incarnation(1), Incarnation(2));
        assert!(ballots.used(old, 1, Ballot(9)).is_ok() && ballots.used(old, 1, Ballot(9)).is_ok());
        assert!(ballots.used(old, 1, Ballot(8)).is_err());
        assert!(ballots.used(old, 2, Ballot(9)).is_err());
        assert!(ballots.used(old, 2, Ballot(10)).is_ok());
        assert!(ballots.used(new, 3, Ballot(2)).is_ok(), "another memory");
    }
}
