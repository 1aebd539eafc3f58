//! A process that is stopped in the middle of a turn: what its clock showed at the turn's beginning
//! is long ago when the turn looks at what has come meanwhile.
//!
//! - L1 Half of the stops come there; the others between two turns. The time that is told is never
//!   before one that was told in an earlier turn: by construction, it is that of the stop, when no
//!   turn was under way.

use super::net::Net;
use base::{Instant, Rng};

impl Net {
    /// The process of `node` is stopped, perhaps when its next turn has just looked at its clock.
    /// (What is drawn here changes nothing that is drawn elsewhere.)
    pub(super) fn stop_late(&mut self, node: usize) {
        let now = self.now();
        let process = &mut self.processes[node];
        let is_late = Rng::new(now ^ (node as u64) << 56).chance(1, 2);
        process.late = process.late.or_else(|| is_late.then(|| process.clock.at(now)));
    }

    /// What the turn of `node` that begins now was told, if it was stopped then.
    pub(crate) fn take_late(&mut self, node: usize) -> Option<Instant> {
        let late = self.processes[node].late.take();
        if late.is_some() {
            self.coverage.hit(crate::coverage::Mark::ToldLate);
        }
        late
    }
}
