//! What hosts do not hand on.
//!
//! A host may pass over a question of a node that lags: it is asked again ([`Wire::asks`]). Here
//! some are passed over at any time.
//!
//! [`Wire::asks`]: proto::amcast::wire::Wire::asks

use base::Rng;

/// Which questions are passed over.
pub(super) struct Questions {
    rng: Rng,
    /// How many more may be passed over.
    n_left: u64,
}

impl Questions {
    /// In one run out of four some are. Of its own: a seed's other draws stay what they were.
    pub(super) fn draw(of: &Rng, may: bool) -> Questions {
        let mut of = of.clone();
        let (_batches, mut rng) = (of.fork(), of.fork());
        let n_left = if may && rng.chance(1, 4) { rng.range(1, 24) } else { 0 };
        Questions { rng, n_left }
    }

    /// Whether the next one is.
    pub(super) fn pass_over(&mut self) -> bool {
        let is = self.n_left > 0 && self.rng.chance(1, 2);
        self.n_left -= u64::from(is);
        is
    }
}
