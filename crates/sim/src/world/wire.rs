//! The wires between nodes, and how much slower than others they are.

use base::Rng;

/// One direction of one wire. Verbs from `x` to `y` and completions for verbs from `y` to `x` both
/// travel on the wire from `x` to `y`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    /// The number of faults that hold it: it carries at 0.
    pub(crate) n_holds: u32,
    /// The factor by which it is slower than others.
    pub(crate) slowness: u64,
    /// The same, without a fault.
    usual: u64,
}

impl Wire {
    /// The wires between `members`, each up to 2^`unevenness` times slower than the fastest.
    pub(super) fn all(members: usize, unevenness: u64, mut rng: Rng) -> Vec<Wire> {
        let mut wire = || {
            let usual = 1 << rng.below(unevenness + 1);
            Wire { n_holds: 0, slowness: usual, usual }
        };
        (0..members * members).map(|_| wire()).collect()
    }

    /// Ends a fault that made it slow.
    pub(crate) fn recover(&mut self) {
        self.slowness = self.usual;
    }

    /// Makes it as fast as the others.
    pub(crate) fn repair(&mut self) {
        (self.slowness, self.usual) = (1, 1);
    }
}
