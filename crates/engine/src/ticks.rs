//! When a leader decides that time has passed, although no command asks for it.
//!
//! - I1 a key that is due is removed within `TICK_EVERY` of the leader's state time, or before the
//!   first read that would see it gone. A value removes a bounded number of keys: where it leaves
//!   some that were due, the next tick follows as soon as no value of the leader is under way. Test
//!   `i1_ticks_follow_each_other_while_due_keys_are_left`.
//! - I3 a state time that is waited for outside of the state is stamped when the leader's has come
//!   to it, and at most one such stamp is made in `PROMPT_EVERY`.
//! - I2 the newest stamp of a live cluster is at most about [`IDLE_STAMP_EVERY`] old.
//! - I4 a member that begins to hold the state, or is heard again, or whose link comes up, is sent
//!   a stamp at once, and so is each member when a reign begins. What it executes before may have
//!   been stamped long ago, and it takes that for the present ([`base::StateClock`], I3). At most
//!   one such stamp is made in `MEETS_EVERY`: a member that is behind each new value for a moment
//!   does not come back. Tests `i4_a_member_that_comes_back_is_sent_a_stamp_at_once` and
//!   `i4_members_that_come_and_go_lead_to_few_stamps`.

use crate::core::Core;
use crate::host::HostState;
use crate::plant::{Claim, Plant};
use crate::service::{Application, Door};
use base::state_clock::IDLE_STAMP_EVERY;
use base::{Evidence, Instant, MemberSet, Rank};
use core::time::Duration;
use proto::Replicator;

/// The least time between two ticks for keys that are due.
const TICK_EVERY: Duration = Duration::from_millis(100);
/// See I4.
const MEETS_EVERY: Duration = Duration::from_secs(1);
/// The least time between two ticks for a time that is waited for (I3).
const PROMPT_EVERY: Duration = Duration::from_millis(10);
/// The longest time between two looks at the first expiry.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Ticks: batches that may be empty and whose stamp is what they are for.
#[derive(Debug, Default)]
pub(crate) struct Ticks {
    /// A batch with a stamp is wanted, even without commands.
    pub(crate) wanted: bool,
    /// When the first expiry is looked at next.
    look_at: Instant,
    /// When the time comes that is waited for (I3).
    awaited_at: Option<Instant>,
    /// When the newest stamp was made.
    stamped_at: Instant,
    /// When the newest stamp of this leader will be too old (I2).
    idle_at: Instant,
    /// How many values were executed when reads were put off for a tick.
    executed: u64,
    /// How many were executed when it was last asked whether due keys are left (I1).
    cleared: u64,
    /// The members that are here to execute this leader's stamps (I4).
    present: MemberSet,
    /// The time from which on others that come lead to a stamp.
    meets_at: Instant,
}

impl Ticks {
    /// This member leads since `now`. If it does not know the present state time, its first stamp
    /// is wanted at once, so that the others do; else when it looks at the members (I4).
    pub(crate) fn begin_reign(&mut self, is_founded: bool, now: Instant) {
        self.idle_at = if is_founded { now.plus(IDLE_STAMP_EVERY) } else { now };
        (self.present, self.meets_at) = (MemberSet::EMPTY, now);
    }

    /// These members are heard and hold the state, or will have it from the log (I4).
    fn meet(&mut self, able: MemberSet, now: Instant) {
        let has_come = !able.difference(self.present).is_empty();
        if has_come && now < self.meets_at {
            self.present = self.present.intersection(able); // those that came are met later
            return;
        }
        if has_come {
            (self.wanted, self.meets_at) = (true, now.plus(MEETS_EVERY));
        }
        self.present = able;
    }

    /// The link to `peer` has come up: it may be another process, or have missed what was sent.
    pub(crate) fn on_link_up(&mut self, peer: Rank) {
        self.present.remove(peer);
        self.meets_at = Instant::ZERO; // links come up seldom
    }

    /// A batch was built at `now`.
    pub(crate) fn stamped(&mut self, now: Instant) {
        self.wanted = false;
        self.stamped_at = now;
        self.idle_at = now.plus(IDLE_STAMP_EVERY);
    }

    /// A tick is wanted before reads are performed; `executed` values are executed by now.
    pub(crate) fn want_before_reads(&mut self, executed: u64) {
        self.wanted = true;
        self.executed = executed;
    }

    /// Whether a value was executed since reads were put off.
    pub(crate) fn has_passed(&self, executed: u64) -> bool {
        executed > self.executed
    }

    /// The instant at which a leader looks again; `expires` tells whether a key does.
    pub(crate) fn deadline(&self, expires: bool) -> Instant {
        let awaited_at = self.awaited_at.unwrap_or(self.idle_at);
        let idle_at = self.idle_at.min(awaited_at);
        if expires { self.look_at.min(idle_at) } else { idle_at }
    }
}

impl<P: Plant, A: Application, D: Door<A>> HostState<P, A, D> {
    /// Tells the state clock what was executed. A value that the ballot in force proposed is news
    /// of the present; one of an earlier ballot may have lain in logs for hours. Judged with a view
    /// that is not older than the execution.
    pub(crate) fn observe_state_time(&mut self) {
        let reign = self.order.last().reign;
        let evidence = Evidence::of(reign, self.desk.view.ballot, self.leads);
        let (state_ms, at) = self.state_moved;
        self.plant.claim(Claim::Observes { state_ms, evidence, at });
        self.state_clock.observe(state_ms, evidence, at);
    }

    /// State time as this member estimates it, Unix milliseconds.
    pub(crate) fn now_ms(&mut self) -> u64 {
        let (wall_ms, boot_now) = (self.plant.wall_ms(), self.plant.boot_now());
        self.state_clock.now_ms(wall_ms, self.app.state_ms(), boot_now)
    }

    /// The stamp of a batch that is built now.
    pub(crate) fn stamp_ms(&mut self) -> u64 {
        let (wall_ms, boot_now) = (self.plant.wall_ms(), self.plant.boot_now());
        let state_ms = self.app.state_ms();
        let unix_ms = self.state_clock.stamp(wall_ms, state_ms, boot_now);
        self.plant.claim(Claim::Stamps { unix_ms, state_ms, at: boot_now });
        unix_ms
    }
}

impl<P: Plant, R: Replicator, A: Application, D: Door<A>> Core<P, R, A, D> {
    /// The leader decides that time has passed when keys are due, and now and then.
    pub(crate) fn poll_ticks(&mut self) {
        let now = self.now();
        if !self.host.leads {
            return;
        }
        self.ticks.meet(self.node.able(), self.now());
        self.look_at_awaited(now);
        self.look_at_left();
        if now < self.ticks.look_at.min(self.ticks.idle_at) {
            return;
        }
        self.ticks.wanted |= now >= self.ticks.idle_at;
        let expiry_ms = self.host.app.next_expiry_ms().unwrap_or(u64::MAX);
        let left_ms = expiry_ms.saturating_sub(self.host.now_ms());
        self.ticks.look_at = now.plus(Duration::from_millis(left_ms).clamp(TICK_EVERY, LOOK_EVERY));
        self.ticks.wanted |= left_ms == 0;
    }

    /// I1. Asked once for each value: the keys of all databases are behind the answer.
    fn look_at_left(&mut self) {
        let executed = self.host.stats.values_executed;
        if executed == self.ticks.cleared || !self.host.proposed_at.is_empty() {
            return;
        }
        self.ticks.cleared = executed;
        let expiry_ms = self.host.app.next_expiry_ms();
        self.ticks.wanted |= expiry_ms.is_some_and(|due_ms| due_ms <= self.host.app.state_ms());
    }

    /// I3
    fn look_at_awaited(&mut self, now: Instant) {
        let awaited_ms = self.host.app.awaited_ms();
        self.ticks.awaited_at = awaited_ms.map(|awaited_ms| {
            let left_ms = awaited_ms.saturating_sub(self.host.now_ms());
            let prompt = self.ticks.stamped_at.plus(PROMPT_EVERY);
            let at = now.plus(Duration::from_millis(left_ms)).max(prompt);
            self.ticks.wanted |= at <= now;
            if at <= now { now.plus(PROMPT_EVERY) } else { at }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock;
    use crate::order::Place;

    #[test]
    fn i2_an_idle_leader_wants_a_stamp_each_minute() {
        let mut ticks = Ticks::default();
        let now = Instant(7);
        ticks.begin_reign(false, now);
        assert_eq!(ticks.deadline(false), now, "the first leader stamps at once");
        ticks.begin_reign(true, now);
        assert_eq!(ticks.deadline(false), now.plus(IDLE_STAMP_EVERY));
        let now = now.plus(IDLE_STAMP_EVERY);
        ticks.stamped(now);
        assert_eq!(ticks.deadline(false), now.plus(IDLE_STAMP_EVERY));
        assert!(!ticks.wanted);
    }

    /// A lock of 30 s was taken, and a follower was killed 22 s later and started again. It took
    /// the lock's stamp for the present, and held the lock for 30 s more when it led.
    #[test]
    fn i4_a_member_that_comes_back_is_sent_a_stamp_at_once() {
        let [one, two, three] = [1, 2, 4].map(MemberSet::from_bits);
        let mut ticks = Ticks::default();
        let mut now = Instant(9);
        let mut is_stamped = |change: &dyn Fn(&mut Ticks), able: MemberSet| {
            change(&mut ticks);
            now = now.plus(MEETS_EVERY);
            ticks.meet(able, now);
            let wanted = ticks.wanted;
            ticks.stamped(now);
            wanted
        };
        let (nothing, all) = (|_: &mut Ticks| {}, one.union(two).union(three));
        assert!(is_stamped(&|ticks| ticks.begin_reign(true, Instant(7)), one.union(two)));
        assert!(!is_stamped(&nothing, one.union(two)));
        assert!(is_stamped(&nothing, all), "one that came later");
        assert!(!is_stamped(&nothing, one.union(three)), "one stands still");
        assert!(is_stamped(&nothing, all), "it is heard again");
        assert!(is_stamped(&|ticks| ticks.on_link_up(Rank::at(2)), all), "another process");
        assert!(!is_stamped(&nothing, all));
    }

    #[test]
    fn i4_members_that_come_and_go_lead_to_few_stamps() {
        let [one, both] = [1, 3].map(MemberSet::from_bits);
        let (mut ticks, mut n_stamps) = (Ticks::default(), 0);
        for turn in 0..1000 {
            let now = Instant::ZERO.plus(MEETS_EVERY / 1000 * turn);
            ticks.meet(if turn % 2 == 0 { one } else { both }, now);
            n_stamps += u64::from(ticks.wanted);
            ticks.stamped(now);
        }
        assert_eq!(n_stamps, 1, "a value for each of them would never end");
        ticks.meet(both, Instant::ZERO.plus(MEETS_EVERY));
        assert!(ticks.wanted, "it is met when the time has come");
    }

    /// The same, as a leader's loop sees it.
    #[test]
    fn i4_a_link_that_comes_up_leads_to_a_stamp() {
        let mut memory = mock::Memory::of_all();
        let mut cores = [0, 1].map(|me| {
            let mut core = mock::core(me, Default::default());
            core.host.plant.memory = memory.next();
            core
        });
        for now in [1, 2].map(Instant) {
            cores.iter_mut().for_each(|core| core.node.poll(now, &mut core.host));
        }
        let [leader, _] = &mut cores;
        leader.host.leads = true;
        leader.ticks.begin_reign(true, leader.now());
        let is_stamped = |leader: &mut mock::Member| {
            leader.poll_ticks();
            let wanted = leader.ticks.wanted;
            leader.ticks.stamped(leader.now());
            wanted
        };
        assert!(is_stamped(leader) && !is_stamped(leader));
        leader.on_event(base::Event::LinkUp(Rank::at(1)));
        assert!(is_stamped(leader) && !is_stamped(leader));
        leader.on_event(base::Event::LinkUp(Rank::at(2)));
        assert!(!is_stamped(leader), "it was never heard, and is sent one when it is");
    }

    /// A million keys that were due at one moment held their memory for 26 minutes.
    #[test]
    fn i1_ticks_follow_each_other_while_due_keys_are_left() {
        let mut leader = mock::core(0, Default::default());
        leader.host.leads = true;
        leader.ticks.begin_reign(true, leader.now());
        leader.host.app.next_expiry_ms = Some(leader.host.app.state_ms());
        let is_stamped = |leader: &mut mock::Member| {
            leader.poll_ticks();
            let wanted = leader.ticks.wanted;
            leader.ticks.stamped(leader.now());
            wanted
        };
        assert!(is_stamped(&mut leader), "the key is due");
        assert!(!is_stamped(&mut leader), "not again in the same moment");
        let under_way = (Place::default(), leader.now());
        leader.host.proposed_at.push_back(under_way);
        leader.host.stats.values_executed += 1;
        assert!(!is_stamped(&mut leader), "another value is under way, which removes some");
        leader.host.proposed_at.clear();
        leader.host.stats.values_executed += 1;
        assert!(is_stamped(&mut leader) && !is_stamped(&mut leader), "one for each value");
        leader.host.stats.values_executed += 1;
        leader.host.app.next_expiry_ms = Some(leader.host.app.state_ms() + 1);
        assert!(!is_stamped(&mut leader), "no due key is left");
    }

    #[test]
    fn reads_that_were_put_off_wait_for_a_value_behind_them() {
        let mut ticks = Ticks::default();
        ticks.want_before_reads(5);
        assert!(ticks.wanted && !ticks.has_passed(5) && ticks.has_passed(6));
    }
}
