//! Members that die in the middle of a turn (`dying`).
//!
//! What a member asks its disk for after its death is taken back (P2 of `disk`).

use super::world::World;
use crate::coverage::Mark;
use crate::dying::Dying;
use crate::queue::{Fault, Happening};
use crate::world::Phase;
use base::verb::Relay;

impl World {
    /// Lets the process of `node` die in one of its next turns.
    pub(super) fn lay_halfway(&mut self, node: usize, lasts: u64) {
        let magnitude = self.outages.rng.below(7);
        let n_effects = self.outages.rng.below(1 << magnitude) as u32;
        if let Some(member) = &mut self.members[node] {
            member.plant().port_mut().dying = Some(Dying::new(n_effects, lasts));
        }
    }

    /// Spares the process of `node` that is about to take a turn, if it must not die by now.
    pub(super) fn spare(&mut self, node: usize) {
        let Some(member) = &mut self.members[node] else { return };
        let Some(dying) = member.plant().port_mut().dying.take() else { return };
        let may_die = self.phase == Phase::Safety && self.may_die(node);
        if let Some(member) = self.members[node].as_mut().filter(|_| may_die) {
            member.plant().port_mut().dying = Some(dying);
        }
    }

    /// Ends the process of `node` if it died in the turn that it has just taken. True if it did.
    pub(super) fn ends_halfway(&mut self, node: usize) -> bool {
        let Some(member) = &mut self.members[node] else { return false };
        let Some(dying) = member.plant().port_mut().dying.take_if(|dying| dying.is_gone) else {
            return false;
        };
        if let Some((disk, n_asked)) = member.disk().zip(dying.n_asked) {
            disk.forget_ghost(n_asked);
        }
        self.net.borrow_mut().coverage.hit(Mark::DiedHalfway);
        self.crash(node);
        self.push_in(dying.lasts, Happening::Mend(Fault::Crash(node as u16)));
        true
    }
}
