//! The questions that hosts do not hand on.
//!
//! A host may skip a question of a node that lags: it is repeated ([`Multicast::asks`]). Here some
//! are skipped at any time.
//!
//! [`Multicast::asks`]: proto::amcast::Multicast::asks

use base::Rng;

/// The choice of the questions that are skipped.
pub(super) struct Questions {
    rng: Rng,
    /// The number of questions that may still be skipped.
    n_left: u64,
}

impl Questions {
    /// Draws the choice: in one run of four some are skipped. The generator is separate: a seed's
    /// other draws stay unchanged.
    pub(super) fn draw(of: &Rng, may: bool) -> Questions {
        let mut of = of.clone();
        let (_batches, mut rng) = (of.fork(), of.fork());
        let n_left = if may && rng.chance(1, 4) { rng.range(1, 24) } else { 0 };
        Questions { rng, n_left }
    }

    /// Whether the next question is skipped.
    pub(super) fn pass_over(&mut self) -> bool {
        let is = self.n_left > 0 && self.rng.chance(1, 2);
        self.n_left -= u64::from(is);
        is
    }
}
