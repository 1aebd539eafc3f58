//! Faults that are aimed at a moment which faults drawn by time meet too rarely.
//!
//! - A1 *Halfway*: a process dies between two effects of one call. The effects before stand, as
//!   after any death; none of the later ones of that call happens: no store, no verb, no message,
//!   no reply to a client, nothing on its disk. Its machine runs to the end of the call, as a ghost
//!   that sees its own stores and is invisible to others (`dying`).
//! - A2 *Interleaved*: where memory is shared, others act between two effects of one call: verbs on
//!   their way to this node's region take effect there ([`Net::let_in`]).
//! - A3 *Unsynced*: the power fails between a message's leaving and the end of the sync that comes
//!   after it.
//! - A4 *Belated*, A9 *Last words*: see [`super::snares`].
//! - A5 *Fickle*: a link that has just come back breaks again, or one of its ends dies.
//! - A6 *Succession*: a member that takes over dies at once, or loses the link to a follower while
//!   its first words are on their way there, several times in turn.
//! - A7 *Deaf*: everything sent to the leader, answers to its READs too, arrives up to a second
//!   late, while the others believe that it has failed: its knowledge is of the past.
//! - A8 *Stranger*: the link from a leader to one follower is cut for long. When it is back, the
//!   leader reaches this follower alone: what it decides now rests on what that one has missed.
//!   Then the leader dies, perhaps.
//!
//! Half of the seeds have none of this, so that bugs which need one kind of fault undisturbed by
//! another are still found.

use crate::coverage::Mark;
use crate::dying::Dying;
use crate::plan::{Kind, MS, Plan};
use crate::queue::{Fault, Happening};
use crate::subject::Life;
use crate::world::net::Net;
use crate::world::node::NodeHost;
use crate::world::{Phase, World};
use crate::{Provider, trace::Topic};
use base::Rng;
use proto::Role;

/// Draws from a separate generator, so that the other half of the seeds stays unchanged.
pub(crate) fn draw(seed: u64, plan: &mut Plan, is_durable: bool) {
    let mut rng = Rng::new(seed ^ 0x616d_6275_7368);
    if rng.chance(1, 2) {
        return;
    }
    let all =
        [Kind::Halfway, Kind::Unsynced, Kind::Belated, Kind::Fickle, Kind::Succession, Kind::Deaf];
    let provider = plan.weather.provider;
    let is_possible = |kind: &Kind| match kind {
        Kind::Unsynced => is_durable,
        Kind::Fickle => provider == Provider::Tcp,
        _ => true,
    };
    // (They are drawn for all kinds: which ones are possible moves no other draw.)
    let drawn = all.into_iter().filter(|_| rng.chance(1, 2)).filter(is_possible);
    plan.kinds.extend(drawn);
    plan.weather.interleaves = provider == Provider::Shm && rng.chance(1, 2);
    if provider == Provider::Tcp && plan.members > 2 && rng.chance(1, 2) {
        plan.kinds.push(Kind::Stranger);
    }
    plan.kinds.extend(rng.chance(1, 2).then_some(Kind::LastWords));
}

/// The ambushes that are laid and not yet sprung, each with its duration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ambushes {
    /// The node that dies, the number of effects before that, and the duration.
    halfway: Option<(usize, u32, u64)>,
    unsynced: bool,
    fickle: Option<u64>,
    /// The leader, and its follower that is away.
    stranger: Option<(usize, usize)>,
    /// The number of further leaders, and the duration.
    succession: (u32, u64),
}

impl Net {
    /// A2: lets a verb on its way to the region of `node` take effect now.
    pub(crate) fn let_in(&mut self, node: usize) {
        let peer = self.rng.below(self.members as u64) as usize;
        let index = self.link_index(peer, node);
        if peer == node || self.links[index].verbs.is_empty() {
            return;
        }
        let now = self.now();
        if let Some(verb) = self.links[index].verbs.front_mut() {
            verb.arrives_at = now;
        }
        self.coverage.hit(Mark::OthersBetween);
        self.on_verb(index);
    }
}

impl NodeHost<'_> {
    /// Whether the next effect happens (A1).
    pub(crate) fn acts(&mut self) -> bool {
        let Some(dying) = &mut self.shell.dying else {
            if self.net.weather.interleaves && self.net.rng.chance(1, 16) {
                self.net.let_in(self.me.index());
            }
            return true;
        };
        let was_gone = dying.is_gone;
        let acts = dying.acts();
        if dying.is_gone && !was_gone {
            dying.n_asked = self.disk.as_ref().map(|disk| disk.n_pending());
        }
        acts
    }

    pub(crate) fn is_ghost(&self) -> bool {
        self.shell.dying.as_ref().is_some_and(|dying| dying.is_gone)
    }
}

impl World {
    /// Lays an ambush of this kind.
    pub(crate) fn lay(&mut self, kind: Kind, node: usize, lasts: u64) {
        let rng = &mut self.net.rng;
        match kind {
            Kind::Halfway => {
                let magnitude = rng.below(7);
                let n_effects = rng.below(1 << magnitude) as u32;
                let node = self.leading().filter(|_| lasts.is_multiple_of(2)).unwrap_or(node);
                self.ambushes.halfway = Some((node, n_effects, lasts));
            }
            Kind::Unsynced => self.ambushes.unsynced = true,
            Kind::Belated | Kind::LastWords => {
                self.faults.lay_snare(&mut self.net, kind, node, lasts);
            }
            Kind::Fickle => self.ambushes.fickle = Some(lasts),
            Kind::Succession => {
                self.ambushes.succession = (1 + rng.below(3) as u32, lasts);
            }
            Kind::Stranger => self.estrange(lasts),
            Kind::Deaf => self.deafen(lasts),
            _ => {}
        }
    }

    // ---- A7 ----

    fn deafen(&mut self, lasts: u64) {
        let Some(leader) = self.leading() else { return };
        let now = self.net.now();
        let late_ns = self.net.rng.range(50, 1000) * MS;
        let times = (late_ns / self.plan.weather.latency_ns).max(2);
        let life = self.net.processes[leader].life;
        self.net.coverage.hit(Mark::LeaderDeaf);
        for other in (0..self.plan.members).filter(|other| *other != leader) {
            let wire = self.net.link_index(other, leader);
            self.net.wires[wire].slowness = times;
            self.net.trace.record(now, leader, Topic::Slow, wire as u64, times);
            self.fault_ends(now + lasts.max(late_ns), Fault::Slow(wire as u32));
            // Messages under way are not late; the others learn of its death a little later.
            let at = now + self.net.rng.below(late_ns / 2);
            let (to, about) = (other as u16, leader as u16);
            self.net.queue.push(at, Happening::Hint { to, about, life });
        }
    }

    // ---- A1 ----

    /// Begins the loop's run of `node`, in which it may die.
    pub(crate) fn begin_halfway(&mut self, node: usize) {
        let Some((of, n_left, lasts)) = self.ambushes.halfway else { return };
        // (With the released log, the requests that its thread has are not cut at a record.)
        if of != node || self.phase != Phase::Safety || self.disks[node].keeps_files() {
            return;
        }
        if !self.may_die(node) {
            self.ambushes.halfway = None;
            return;
        }
        self.shells[node].dying = Some(Dying::new(n_left, lasts));
    }

    /// Ends the run of a process that lives: the count continues in the next one.
    pub(crate) fn outlive_halfway(&mut self, node: usize) {
        if let Some(dying) = self.shells[node].dying.take() {
            self.ambushes.halfway = Some((node, dying.n_left, dying.lasts));
        }
    }

    pub(crate) fn is_gone(&self, node: usize) -> bool {
        self.shells[node].dying.as_ref().is_some_and(|dying| dying.is_gone)
    }

    /// Ends the process, which died in the middle of its run.
    pub(crate) fn die_halfway(&mut self, node: usize, machine: Box<dyn Life>) {
        let Some(dying) = self.shells[node].dying.take() else { return };
        self.machines[node] = Some(machine);
        self.ambushes.halfway = None;
        if let Some(n_asked) = dying.n_asked {
            self.disks[node].forget_after(n_asked);
        }
        self.net.coverage.hit(Mark::DiedHalfway);
        self.crash(node);
        let until = self.net.now() + dying.lasts;
        self.fault_ends(until, Fault::Crash(node as u16));
    }

    // ---- A3 ----

    /// Cuts the power if the loop of `node` has run and posted verbs.
    pub(crate) fn spring_unsynced(&mut self, node: usize, n_posted_before: u64) {
        if !self.ambushes.unsynced || self.net.n_posted_in_all == n_posted_before {
            return;
        }
        if self.disks[node].n_pending() == 0 {
            return;
        }
        self.ambushes.unsynced = false;
        self.net.coverage.hit(Mark::PowerCutBeforeSync);
        let at = self.net.now() + self.net.rng.below(self.plan.unsynced_ns());
        self.net.queue.push(at, Happening::PowerCut(node as u16));
    }

    // ---- A5 ----

    /// Strikes a link whose ends are connected again.
    pub(crate) fn spring_fickle(&mut self, link: usize) {
        let Some(lasts) = self.ambushes.fickle.take() else { return };
        if self.phase != Phase::Safety {
            return;
        }
        self.net.coverage.hit(Mark::BackAndGone);
        let weather = &self.plan.weather;
        let soon = self.net.rng.below(8 * (weather.latency_ns + weather.jitter_ns));
        let at = self.net.now() + soon;
        match self.net.rng.below(3) {
            0 => self.spring_at(at, link / self.plan.members, lasts),
            1 => self.spring_at(at, link % self.plan.members, lasts),
            _ => self.net.queue.push(at, Happening::Reset(link as u32)),
        }
    }

    // ---- A8 ----

    /// Cuts the link from the leader to a follower.
    fn estrange(&mut self, lasts: u64) {
        let members = self.plan.members;
        let Some(leader) = self.leading() else { return };
        let follower = (leader + self.net.rng.range(1, members as u64 - 1) as usize) % members;
        let wire = self.net.link_index(leader, follower);
        if self.cut_until(self.net.now() + lasts, wire) {
            self.ambushes.stranger = Some((leader, follower));
        }
    }

    /// Cuts the leader from its other followers, if `link` is that to the one that was away.
    pub(crate) fn spring_stranger(&mut self, link: usize) {
        let members = self.plan.members;
        let ends = (link / members, link % members);
        let stranger = self.ambushes.stranger;
        let Some((leader, follower)) =
            stranger.filter(|(one, two)| [(*one, *two), (*two, *one)].contains(&ends))
        else {
            return;
        };
        self.ambushes.stranger = None;
        if self.phase != Phase::Safety || self.role(leader) != Some(Role::Leader) {
            return;
        }
        self.net.coverage.hit(Mark::StrangerRelied);
        let lasts = self.net.rng.range(1, 40) * MS;
        let now = self.net.now();
        for other in (0..members).filter(|other| ![leader, follower].contains(other)) {
            let wire = self.net.link_index(leader, other);
            self.cut_until(now + lasts, wire);
        }
        if self.net.rng.chance(1, 2) {
            let at = now + self.net.rng.below(lasts);
            self.spring_at(at, leader, lasts);
        }
    }

    // ---- A6 ----

    /// Strikes `node`, which leads from now on.
    pub(crate) fn spring_succession(&mut self, node: usize) {
        let (n_left, lasts) = self.ambushes.succession;
        if n_left > 0 {
            self.ambushes.succession.0 -= 1;
            self.net.coverage.hit(Mark::SuccessorStruck);
            let (members, weather) = (self.plan.members, &self.plan.weather);
            if weather.provider == Provider::Tcp && self.net.rng.chance(1, 3) {
                let soon = self.net.rng.below(4 * (weather.latency_ns + weather.jitter_ns));
                let to = self.net.rng.below(members as u64) as usize;
                let link = self.net.link_index(node, to);
                if to != node {
                    self.net.queue.push(self.net.now() + soon, Happening::Reset(link as u32));
                }
                return;
            }
            self.spring_soon(node, lasts);
        }
    }

    // ---- wall clocks ----

    /// Sets the date of `node` forward or back, or changes its rate; it is corrected later.
    pub(crate) fn upset_wall_clock(&mut self, node: usize, lasts: u64) {
        let now = self.net.queue.now();
        let wall = &mut self.net.processes[node].wall;
        wall.upset(now, lasts, &mut self.net.rng);
        let shown = wall.at(now);
        self.net.trace.record(now, node, Topic::Wall, shown, 0);
        self.net.coverage.hit(Mark::WallClockSet);
        self.fault_ends(now + lasts, Fault::Wall(node as u16));
    }

    /// Corrects the date, as a time service does.
    pub(crate) fn correct_wall_clock(&mut self, node: usize) {
        let now = self.net.queue.now();
        let wall = &mut self.net.processes[node].wall;
        wall.correct(now);
        let shown = wall.at(now);
        self.net.trace.record(now, node, Topic::Wall, shown, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Action;
    use crate::subjects::subject;
    use crate::world::net::{LATE_NS_MAX, Posting};
    use base::At;

    #[test]
    fn a7_what_is_sent_to_a_deaf_leader_arrives_within_a_second() {
        let shape = crate::Shape { ring_slots: 16, value_bytes: 104 };
        let mut plan = Plan::calm(3, Provider::Tcp, shape);
        (plan.weather.jitter_ns, plan.weather.spike) = (16_000, 256);
        let mut world = World::new(subject("velos"), plan, Rng::new(1), false);
        world.begin();
        let leader = loop {
            let what = world.net.queue.pop_until(u64::MAX).expect("beats");
            world.happen(what);
            if let Some(node) = (0..3).find(|node| world.role(*node) == Some(Role::Leader)) {
                break node;
            }
        };
        world.lay(Kind::Deaf, 0, MS);
        let other = (leader + 1) % 3;
        let index = world.net.link_index(other, leader);
        let (now, mut latest) = (world.net.now(), 0);
        for _ in 0..1000 {
            let (action, at, token) = (Action::Write, At(0), None);
            let posting = Posting { action, at, n_words: 1, payload: &[0], token };
            world.net.post(other, leader, posting);
            latest = latest.max(world.net.links[index].last_arrival - now);
        }
        assert!((50 * MS..=LATE_NS_MAX).contains(&latest), "{} ms late", latest / MS);
    }
}
