//! Safety, healing, liveness: when a run moves from one to the next, and what is judged then.

use super::date::apart_ns;
use super::history::ProcessId;
use super::process::Process;
use super::scenario::Manner;
use super::world::World;
use crate::Property;
use crate::coverage::Mark;
use crate::plan::MS;
use crate::queue::Happening;
use crate::trace::Topic;
use crate::world::Phase;
use crate::world::silence::break_links_soon;
use base::Rank;
use proto::vsync::{Mode, Shard, ShardId, View, ViewId};

/// The time in which late effects of faults end, and suspicions with them.
const HEALING_NS: u64 = 1_500 * MS;
/// The time in which members multicast though no fault is left...
const BUSY_NS: u64 = 200 * MS;
/// ... and the time after it in which everything must become well. A caller of objects has more
/// (I2).
const QUIET_NS: u64 = 2_000 * MS;
/// The time in which links may break meanwhile.
const BREAKS_NS: u64 = 100 * MS;

impl World {
    pub(super) fn on_phase(&mut self) {
        match self.phase {
            Phase::Safety => {
                self.phase = Phase::Healing;
                self.heal();
                self.push_in(HEALING_NS, Happening::Phase);
            }
            Phase::Healing => {
                self.phase = Phase::Liveness;
                self.push_in(BUSY_NS, Happening::Phase);
            }
            Phase::Liveness if self.quiet_until.is_none() => {
                self.fall_quiet();
                self.push_in(self.quiet_ns(), Happening::Phase);
            }
            Phase::Liveness | Phase::Over => {
                if let Some(detail) = self.unachieved() {
                    self.violate(Property::Liveness, detail);
                }
                self.phase = Phase::Over;
            }
        }
        let net = &mut *self.net.borrow_mut();
        net.trace.record(net.queue.now(), 0, Topic::Phase, self.phase as u64, 0);
    }

    /// I2: the time for everything to become well. What a caller knows of may have a time of the
    /// fastest clock, and a query as of that waits in another shard for its slowest one.
    fn quiet_ns(&self) -> u64 {
        QUIET_NS + if self.has_objects() { apart_ns(&self.scenario.dates) } else { 0 }
    }

    /// Ends the messages. In half of the runs links break then, and come back: what the last
    /// messages, or changes, lacked there must be told again without others.
    fn fall_quiet(&mut self) {
        let now = self.net.borrow().now();
        self.quiet_until = Some(now);
        if !self.rng_of_news.chance(1, 2) {
            return;
        }
        let among: Vec<usize> = self.living().map(|one| one.knock.seat.index()).collect();
        let (net, rng) = (&mut *self.net.borrow_mut(), &mut self.outages.rng);
        break_links_soon(net, rng, &among, &self.scenario.plan.weather);
        self.quiet_until = Some(now + BREAKS_NS);
    }

    /// Whether no process is in the group any longer.
    fn is_dead(&self) -> bool {
        self.living().all(|process| process.view().is_none())
    }

    /// Ends a run that has all that is required; and one whose group has ended, which a mild one
    /// must not.
    pub(super) fn finish_early(&mut self) {
        let may_end = self.quiet_until.is_some_and(|until| self.net.borrow().now() >= until);
        if may_end && self.phase != Phase::Over && self.unachieved().is_none() {
            let has_begun_again = |(id, shard): (_, &Shard)| {
                self.history.is_durable
                    && !self.history.is_logged(id)
                    && shard.since > ViewId::FIRST
            };
            let is_again = self.latest().is_some_and(|view| view.shards().any(has_begun_again));
            let coverage = &mut self.net.borrow_mut().coverage;
            coverage.hit(Mark::GroupSurvived);
            if is_again {
                coverage.hit(Mark::MemoryBeganAgain);
            }
            if self.history.is_unordered {
                coverage.hit(Mark::UnorderedSurvived);
            }
            if self.history.is_durable {
                coverage.hit(Mark::DurableSurvived);
            }
            if !self.scenario.layout.is_empty() {
                coverage.hit(Mark::ShardsSurvived);
            }
            if self.history.modes.contains(&Some(Mode::Unordered)) {
                coverage.hit(Mark::MixedSurvived);
            }
            self.phase = Phase::Over;
        }
        if self.is_dead() && self.phase != Phase::Over && !self.is_durable() {
            self.net.borrow_mut().coverage.hit(Mark::GroupEnded);
            if self.scenario.manner == Manner::Mild {
                let detail = "the group ended, although only minorities failed".to_owned();
                self.violate(Property::Liveness, detail);
            }
            self.phase = Phase::Over;
        }
    }

    /// I2: what is missing, in words.
    pub(super) fn unachieved(&self) -> Option<String> {
        if self.is_dead() {
            // P2 of `power`.
            return self.is_durable().then(|| "no process is in the group".to_owned());
        }
        let say = |process: &Process| {
            let view = process.view().map(|view| (view.id, view.seats()));
            let knock = process.knock;
            format!(
                "{} {}: {view:?} {:?} ready {} wedged {}",
                knock.seat,
                knock.incarnation.0,
                (0..self.scenario.shape.n_subgroups)
                    .map(|at| (process.shard_of(knock.seat, at), process.position(at)))
                    .collect::<Vec<_>>(),
                process.is_ready(),
                process.is_wedged()
            )
        };
        let all = || self.living().map(say).collect::<Vec<_>>().join("; ");
        let latest: &View = self.latest()?;
        for process in self.living() {
            let is_in =
                process.view() == Some(latest) && process.is_ready() && !process.is_wedged();
            if !is_in {
                return Some(format!("{} is not in: {}", process.knock.seat, all()));
            }
        }
        if self.living().count() != latest.members.len() {
            return Some(format!("view {latest:?} has dead members: {}", all()));
        }
        for process in self.living() {
            if self.has_asked_to_leave(process) && !self.is_needed(process, latest) {
                return Some(format!("{} has not left: {}", process.knock.seat, all()));
            }
            if let Some(what) = process.unanswered().filter(|_| !self.is_small(latest)) {
                return Some(format!("{} {what}: {}", process.knock.seat, all()));
            }
            for subgroup in 0..self.scenario.shape.n_subgroups {
                if let Some(what) = self.unexecuted(process, latest, subgroup) {
                    return Some(format!("{} {what}: {}", process.knock.seat, all()));
                }
            }
        }
        None
    }

    pub(super) fn has_asked_to_leave(&self, process: &Process) -> bool {
        self.history.records[&process.id()].asked_to_leave
    }

    /// Whether `process` may stay although it wants to leave: a durable shard would have no log
    /// without those of its members that want to leave, it among them, or it is the last member of
    /// a group with disks (`vsync`, W5).
    fn is_needed(&self, process: &Process, view: &View) -> bool {
        let stays = |seat: &Rank| {
            self.living().any(|one| one.knock.seat == *seat && !self.has_asked_to_leave(one))
        };
        if self.is_durable() && view.members.len() == 1 {
            return true;
        }
        let mut own = view.shards().filter(|(_, one)| one.seats.contains(&process.knock.seat));
        own.any(|(id, shard)| self.history.is_logged(id) && !shard.seats.iter().any(stays))
    }

    /// Whether nothing is multicast in `view`, which has too few members.
    fn is_small(&self, view: &View) -> bool {
        view.members.len() < self.scenario.n_adequate
    }

    /// What `process` lacks in its shard of a subgroup.
    fn unexecuted(&self, process: &Process, view: &View, subgroup: usize) -> Option<String> {
        let id = view.shard_of(process.knock.seat, subgroup)?;
        let shard = view.shard(id)?;
        let is_late = |process: &Process| {
            let record = &self.history.records[&process.id()];
            (record.is_stateless || self.history.lacks_order(id))
                && self.first_in(process.id(), id) > shard.since
        };
        let is_in = |one: &&Process| shard.seats.contains(&one.knock.seat);
        let others: Vec<&Process> = self.living().filter(is_in).collect();
        let digest = others.iter().find(|one| !is_late(one)).map(|one| one.digest(subgroup));
        let has_state = !self.history.lacks_order(id) && !is_late(process);
        if has_state && Some(process.digest(subgroup)) != digest {
            return Some(format!("has another state in shard {id}"));
        }
        if self.is_small(view) || !view.roster[subgroup].is_adequate {
            return None;
        }
        others.iter().find_map(|other| {
            let n_multicast = &self.history.records[&other.id()].n_multicast;
            let n_multicast = n_multicast.get(&id).copied().unwrap_or(0);
            let n_executed = process.executed(subgroup, other.id());
            // All messages of a member may be older than a newcomer without a state, or than a
            // shard that has begun again.
            let is_older = is_late(process) || shard.since > ViewId::FIRST;
            let is_older = is_older && n_executed == 0;
            let has_all = other.delivered_itself(id) == n_multicast;
            (!has_all || n_executed != n_multicast && !is_older).then(|| {
                let other = other.id();
                format!("has executed {n_executed} of {n_multicast} of {other:?} in shard {id}")
            })
        })
    }

    /// The view since which `process` is in a shard, now for the last time.
    fn first_in(&self, process: ProcessId, id: ShardId) -> ViewId {
        let views: Vec<&View> = self.history.records[&process].views().collect();
        let is_in = |view: &&&View| view.shard_of(process.0, id.subgroup.into()) == Some(id);
        let first = views.iter().rev().take_while(is_in).last();
        first.map_or(ViewId::FIRST, |view| view.id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;
    use crate::Config;

    #[test]
    fn i2_callers_of_objects_have_until_the_slowest_clock_shows_what_the_fastest_did() {
        let more = |kind, seed| {
            let world = World::new(kind, None, &Config::default(), seed);
            (world.quiet_ns() - QUIET_NS) / MS
        };
        // The caller's clock, the fastest, is 2.5 s ahead of the slowest of the shard that it asks.
        assert_eq!(more(Kind::Objects, 668_000_000_366), 2505);
        assert_eq!(more(Kind::Memory, 668_000_000_366), 0);
    }
}
