//! The silence at the end of half of the runs, when all is well (see `world::silence`): one client
//! asks for something a last time, and links break meanwhile and come back. In half of the runs a
//! member dies, then or later, when all is at rest, and comes back; and where there is an operator,
//! members change one last time. The client has an answer in the
//! end, or hears that its outcome is unknown, and every member has executed what the others have,
//! though no later request brings it there. No member keeps a request that no client waits for.

use super::world::{N_LIVE, World};
use crate::Property;
use crate::coverage::Mark;
use crate::plan::MS;
use crate::queue::Happening;
use crate::world::Phase;
use crate::world::silence::{Silence, break_links_soon};

/// The time that members have to tell each other what is decided, and the client its answer.
const SILENCE_NS: u64 = 3_000 * MS;

impl World {
    /// Whether no client asks for anything any longer, but for what it has begun.
    pub(super) const fn is_silent(&self) -> bool {
        self.aims.silence.has_come()
    }

    /// Begins the silence, if the run has one.
    pub(super) fn begin_silence(&mut self) -> bool {
        if self.aims.silence != Silence::Due || self.plan.lasts_a_day() {
            return false;
        }
        let patience = 2 * self.patience.as_nanos() as u64;
        let ns = self.now() + SILENCE_NS + patience;
        let changes = self.seats.operator.is_some() && self.outages.rng.chance(1, 2);
        self.aims.silence = Silence::Until { ns, has_begun: !changes };
        let last = self.outages.rng.below(self.clients.len() as u64) as usize;
        self.clients[last].counts.n_live -= 1;
        self.clients[last].asks_at = 0;
        let now = self.now();
        self.wake_client(last, now + 1);
        let among: Vec<usize> = self.seated().collect();
        break_links_soon(
            &mut self.net.borrow_mut(),
            &mut self.outages.rng,
            &among,
            &self.plan.weather,
        );
        self.strike_in_silence(&among);
        self.push_in(ns - now, Happening::Phase);
        true
    }

    /// Dooms one of these members, in half of the runs.
    fn strike_in_silence(&mut self, among: &[usize]) {
        let rng = &mut self.outages.rng;
        let any = among[rng.below(among.len() as u64) as usize];
        let soon = if rng.chance(1, 2) { rng.below(10 * MS) } else { rng.below(500 * MS) };
        if rng.chance(1, 2) {
            self.aims.doomed = Some(any);
            self.push_in(soon, Happening::PowerCut(any as u16));
        }
    }

    /// Lets a member die, and come back a moment later.
    pub(super) fn die_in_silence(&mut self, node: usize) {
        if self.phase != Phase::Liveness || !self.may_die(node) {
            return;
        }
        self.net.borrow_mut().coverage.hit(Mark::DiedInSilence);
        self.crash(node);
        self.aims.deposed = Some(node);
        let back = 1 + self.outages.rng.below(100 * MS);
        self.push_in(back, Happening::Spring(node as u16));
    }

    /// Notes that the client has asked: in silence no client asks again.
    pub(super) fn fall_silent(&mut self, client: usize) {
        if self.is_silent() {
            let counts = &mut self.clients[client].counts;
            counts.n_live = counts.n_live.max(N_LIVE);
        }
    }

    /// A member that keeps a request at the end, in words: no client waits then.
    pub(super) fn open_request(&self) -> Option<String> {
        let is_open =
            |node: &usize| self.members[*node].as_ref().is_some_and(|member| !member.is_idle());
        let node = self.seated().find(is_open).filter(|_| self.is_silent())?;
        Some(format!("r{node} keeps a request, and no client waits"))
    }

    /// Judges a turn of `node` (R1 of `rest`).
    pub(super) fn look_at_rest(&mut self, node: usize) {
        let now = self.now();
        if let Some(detail) = self.aims.rest.turn(node, self.aims.silence, now) {
            self.violate(Property::Liveness, detail);
        }
    }
}
