//! The lengths of links, and links of processes that come back, as themselves or as another
//! incarnation.

use super::{Parcel, World};
use base::Rng;
use proto::amcast::wire::Wire;

impl<W: Wire> World<W> {
    /// Makes half of the links longer than the others, by up to `far`.
    pub(in crate::amcast) fn spread(&mut self, far: u64, mut rng: Rng) {
        for link in &mut self.links {
            link.distance = if rng.chance(1, 2) { rng.below(far + 1) } else { 0 };
        }
    }

    /// Renews the links of a process that came back: messages under way are lost.
    pub(in crate::amcast) fn renew_links(&mut self, process: usize) {
        let n = self.processes.len();
        for (at, link) in self.links.iter_mut().enumerate() {
            if at / n == process
                && let Some(end) = link.ends_before.take()
            {
                link.lost.push(end..link.n_sent + 1);
            }
            if at % n == process {
                link.lost.push(link.n_arrived + 1..link.n_sent + 1);
                link.held.clear();
            }
        }
    }

    /// Lets another incarnation speak on a process's links, which has met no other (T4).
    pub(in crate::amcast) fn renew_lives(&mut self, process: usize, life: u64) {
        let n = self.processes.len();
        for (at, link) in self.links.iter_mut().enumerate() {
            if at / n == process {
                link.lives.push((link.n_sent + 1, life));
            }
            if at % n == process {
                link.met = 0;
            }
        }
        (0..n).filter(|to| *to != process).for_each(|to| self.post(process, to, Parcel::Hello));
    }

    /// Whether a process has not met the incarnation to which it sends, but an earlier one.
    pub(super) fn takes_for_another(&self, from: usize, to: usize) -> bool {
        let is_sender = from >= self.processes.len();
        let back = if is_sender { None } else { self.links.get(self.link(to, from)) };
        back.is_some_and(|back| {
            let last = back.lives.last();
            back.met > 0 && last.is_some_and(|(_, life)| back.met < *life)
        })
    }
}
