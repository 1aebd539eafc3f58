//! State time: how the wall clock enters a replicated state.
//!
//! A replicated state reads no clock. A leader stamps its batches, and state time is the largest
//! stamp applied; keys expire by it. A key set with a time to live of 20 s must live for 20 s,
//! whatever the wall clock of any leader does meanwhile: locks depend on it. So a stamp is not a
//! reading of the wall clock. It is an estimate of the present state time, which advances with the
//! monotonic clock and is slewed towards the wall clock.
//!
//! - I1 a stamp is never below the state's own time: state time never falls. Asserted.
//! - I2 between two estimates, `t` apart by the monotonic clock, the estimate advances by at least
//!   `t - t * SLEW_PPM / 1e6` and at most `t + t * SLEW_PPM / 1e6`, unless a state that is further
//!   ahead is observed between them. By `Estimate::at`. The lower bound keeps expiry going when the
//!   wall clock is set back; the upper bound keeps keys alive when it is set forward.
//! - I3 an observed state time replaces the estimate, also downwards, if it is evidence of the
//!   present and not a stamp of this process. A follower therefore continues its leader's state
//!   time when it leads, whatever its own wall clock shows.
//! - I6 a state time that is ahead of a leader's own stamps, when it executes the first of them, is
//!   of a leader before: it was stamped no later than the first of the own stamps was made, since a
//!   leader proposes nothing before it knows what came before. The estimate continues from there,
//!   and is not ahead of that leader's. Test `i6_what_the_leader_before_stamped_has_its_age`.
//! - I4 the wall clock is taken as it is only by a process that has no estimate: nothing but the
//!   wall clock can tell for how long a state has lain on disk. Test
//!   `i4_a_state_that_lay_on_disk_for_hours_takes_the_wall_clock`.
//! - I5 the first stamp of a reign is above the state's time, so that every member that executes it
//!   learns the new leader's time (I3). It matters where that leader took a wall clock that is
//!   behind: otherwise its time is the state's, no member takes that for news, and the next leader
//!   continues an estimate that is ahead of it. Asserted.
//!
//! The caller's clock must count the time during which the machine was suspended.

use crate::{Ballot, Instant};
use core::cmp::Ordering;
use core::time::Duration;

/// How fast state time approaches a wall clock that differs from it: parts of a million of the time
/// that passes. One percent is what lock libraries allow for the drift of clocks: a lock of 20 s
/// lasts for at least 19.8 s.
pub const SLEW_PPM: u64 = 10_000;

/// How long after its newest stamp a leader makes one that no command asks for. Every connected
/// member knows the present state time to this measure, also one that has just come back.
pub const IDLE_STAMP_EVERY: Duration = Duration::from_secs(60);

/// Nanoseconds in a millisecond.
const NS: u64 = 1_000_000;

/// Whether an observed state time was stamped just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The value was proposed by the present leader, or by a peer that is connected. A member that
    /// was away executes it late: the leader stamps again when that member is back.
    Present,
    /// The value was proposed by this process, which leads still. The state's time may be that of
    /// a value before it.
    OwnReign,
    /// The value may have been proposed long ago, for example before a restart of all members.
    Past,
}

impl Evidence {
    /// The evidence of a value that was proposed under `reign`, for a process that knows the ballot
    /// `in_force` and `leads` under it or not.
    pub fn of(reign: Ballot, in_force: Ballot, leads: bool) -> Evidence {
        match reign.cmp(&in_force) {
            Ordering::Equal if leads => Evidence::OwnReign,
            Ordering::Equal | Ordering::Greater => Evidence::Present,
            Ordering::Less => Evidence::Past,
        }
    }
}

/// One process's estimate of state time.
#[derive(Clone, Debug, Default)]
pub struct StateClock {
    estimate: Option<Estimate>,
    /// Newest state time that was observed and is evidence of the present, Unix milliseconds.
    observed_ms: u64,
    /// Newest stamp of this process that may still be undecided, Unix milliseconds.
    stamped_ms: u64,
    /// When the first stamp of this reign was made.
    first_stamped_at: Instant,
}

/// What state time was at an instant.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// Unix nanoseconds.
    unix_ns: u64,
    /// The monotonic clock then.
    at: Instant,
}

impl Estimate {
    /// The estimate at `now`, when the wall clock shows `wall_ms` (I2).
    fn at(self, wall_ms: u64, now: Instant) -> Estimate {
        let passed_ns = now.since(self.at).as_nanos() as u64;
        let slewed_ns = (u128::from(passed_ns) * u128::from(SLEW_PPM) / 1_000_000) as u64;
        let least_ns = self.unix_ns.saturating_add(passed_ns - slewed_ns);
        let most_ns = self.unix_ns.saturating_add(passed_ns.saturating_add(slewed_ns));
        let unix_ns = wall_ns(wall_ms, self.unix_ns).clamp(least_ns, most_ns);
        Estimate { unix_ns, at: now.max(self.at) }
    }
}

/// A reading of the wall clock in milliseconds, completed by the nanoseconds of `near` if it is the
/// same millisecond: so that a clock that is read often does not fall behind its own reading.
fn wall_ns(wall_ms: u64, near: u64) -> u64 {
    if near / NS == wall_ms { near } else { wall_ms.saturating_mul(NS) }
}

impl StateClock {
    /// The stamp of a batch that is built at `now`, when the wall clock shows `wall_ms` and the
    /// newest stamp applied is `state_ms` (0: none).
    pub fn stamp(&mut self, wall_ms: u64, state_ms: u64, now: Instant) -> u64 {
        let is_first = self.stamped_ms == 0;
        let least_ms = state_ms.saturating_add(u64::from(is_first)); // I5
        if is_first {
            self.first_stamped_at = now;
        }
        self.stamped_ms = self.now_ms(wall_ms, least_ms, now);
        assert!(!is_first || self.stamped_ms > state_ms, "state_clock.I5: {state_ms}");
        self.stamped_ms
    }

    /// State time at `now`, Unix milliseconds, for reads and deadlines; arguments as of
    /// [`StateClock::stamp`].
    pub fn now_ms(&mut self, wall_ms: u64, state_ms: u64, now: Instant) -> u64 {
        let mut estimate = match self.estimate {
            Some(estimate) => estimate.at(wall_ms, now),
            None => Estimate { unix_ns: wall_ms.saturating_mul(NS), at: now }, // I4
        };
        estimate.unix_ns = estimate.unix_ns.max(state_ms.saturating_mul(NS));
        self.estimate = Some(estimate);
        let now_ms = estimate.unix_ns / NS;
        assert!(now_ms >= state_ms, "state_clock.I1: {now_ms} is below the state's {state_ms}");
        now_ms
    }

    /// The state's time was `state_ms` at `now`, after a value was applied.
    pub fn observe(&mut self, state_ms: u64, evidence: Evidence, now: Instant) {
        if state_ms == self.observed_ms || evidence == Evidence::Past {
            return;
        }
        self.observed_ms = state_ms;
        if state_ms <= self.stamped_ms {
            return;
        }
        let is_of_reign = evidence == Evidence::OwnReign && self.stamped_ms != 0;
        let at = if is_of_reign { self.first_stamped_at } else { now }; // I6, I3
        self.estimate = Some(Estimate { unix_ns: state_ms.saturating_mul(NS), at });
    }

    /// Forgets stamps that may never be decided: this process leads no longer.
    pub fn forget_stamps(&mut self) {
        self.stamped_ms = 0;
    }

    /// Whether there is an estimate: the wall clock alone no longer decides.
    pub fn is_founded(&self) -> bool {
        self.estimate.is_some()
    }

    /// How far state time at `now` is ahead of the wall clock (negative: behind), in milliseconds.
    /// It is being slewed away. Zero without an estimate.
    pub fn ahead_ms(&self, wall_ms: u64, now: Instant) -> i64 {
        let ahead = |estimate: Estimate| {
            let state_ms = estimate.at(wall_ms, now).unix_ns / NS;
            state_ms.wrapping_sub(wall_ms) as i64
        };
        self.estimate.map_or(0, ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use alloc::vec;

    /// Unix milliseconds of the tests' beginning.
    const BEGIN_MS: u64 = 1_700_000_000_000;

    fn at_ms(ms: u64) -> Instant {
        Instant::ZERO.plus(Duration::from_millis(ms))
    }

    /// A clock whose process stamped the state's first value at 0.
    fn founded() -> (StateClock, u64) {
        let mut clock = StateClock::default();
        let state_ms = clock.stamp(BEGIN_MS, 0, at_ms(0));
        assert_eq!(state_ms, BEGIN_MS);
        (clock, state_ms)
    }

    #[test]
    fn i6_what_the_leader_before_stamped_has_its_age() {
        let led = |last_ms: u64| {
            let (mut clock, _) = founded();
            clock.forget_stamps();
            clock.observe(BEGIN_MS + 100, Evidence::Present, at_ms(100));
            let stamp_ms = clock.stamp(BEGIN_MS + 120, BEGIN_MS + 100, at_ms(120));
            assert_eq!(stamp_ms, BEGIN_MS + 120);
            // With the first own value is executed what the leader before stamped last.
            clock.observe(BEGIN_MS + last_ms, Evidence::OwnReign, at_ms(140));
            clock.stamp(BEGIN_MS + 1000, BEGIN_MS + last_ms, at_ms(140)) - BEGIN_MS
        };
        // Ahead of the own estimate, or behind it: 20 ms have passed since.
        assert_eq!((led(180), led(125)), (200, 145));
    }

    #[test]
    fn i1_a_wall_clock_set_back_never_turns_the_state_back() {
        let (mut clock, state_ms) = founded();
        assert_eq!(clock.stamp(BEGIN_MS - 5_000, state_ms, at_ms(0)), BEGIN_MS);
    }

    #[test]
    fn i2_a_key_set_after_a_quiet_time_lives_as_long_as_it_was_given() {
        let (mut clock, mut state_ms) = founded();
        clock.observe(state_ms, Evidence::Present, at_ms(0));
        // 40 s of silence, then a lock for 20 s, then reads and writes of others.
        state_ms = clock.stamp(BEGIN_MS + 40_000, state_ms, at_ms(40_000));
        let expires_ms = state_ms + 20_000;
        for after_ms in (0..19_800).step_by(100) {
            let now = at_ms(40_000 + after_ms);
            state_ms = clock.stamp(BEGIN_MS + 40_000 + after_ms, state_ms, now);
            clock.observe(state_ms, Evidence::Present, now);
            assert!(state_ms < expires_ms, "expired after {after_ms} ms");
        }
        assert!(clock.stamp(BEGIN_MS + 60_000, state_ms, at_ms(60_000)) >= expires_ms);
    }

    #[test]
    fn i2_a_wall_clock_an_hour_ahead_takes_no_key_before_its_time() {
        let (mut clock, mut state_ms) = founded();
        let expires_ms = state_ms + 3_500_000;
        // 100,000 writes within a second after the jump.
        for us in (0..1_000_000).step_by(10) {
            let now = Instant(us * 1_000);
            state_ms = clock.stamp(BEGIN_MS + 3_600_000 + us / 1_000, state_ms, now);
            clock.observe(state_ms, Evidence::Present, now);
        }
        assert_eq!(state_ms, BEGIN_MS + 1_009, "a second and one percent");
        assert!(state_ms < expires_ms);
        // Slewed away in a hundred hours, not before.
        assert_eq!(clock.ahead_ms(BEGIN_MS + 3_601_000, at_ms(1_000)), -3_599_990);
    }

    #[test]
    fn i2_expiry_goes_on_when_the_wall_clock_is_set_back_by_an_hour() {
        let (mut clock, state_ms) = founded();
        let expires_ms = state_ms + 1_000;
        assert!(clock.now_ms(BEGIN_MS - 3_600_000, state_ms, at_ms(1_020)) >= expires_ms);
    }

    #[test]
    fn i2_a_right_wall_clock_is_followed_exactly() {
        let (mut clock, mut state_ms) = founded();
        let mut rng = Rng::new(1);
        let mut us = 0;
        for _ in 0..10_000 {
            us += rng.below(3_000);
            state_ms = clock.stamp(BEGIN_MS + us / 1_000, state_ms, Instant(us * 1_000));
            assert!(BEGIN_MS + us / 1_000 - state_ms <= 1, "behind by more than a millisecond");
        }
    }

    #[test]
    fn i3_a_follower_with_a_wrong_wall_clock_continues_the_leaders_time() {
        let mut clock = StateClock::default();
        let wrong_ms = BEGIN_MS + 3_600_000;
        clock.observe(BEGIN_MS, Evidence::Present, at_ms(0));
        clock.now_ms(wrong_ms, BEGIN_MS, at_ms(500_000)); // reads at the follower
        clock.observe(BEGIN_MS + 500_001, Evidence::Present, at_ms(500_001));
        assert_eq!(clock.stamp(wrong_ms, BEGIN_MS + 500_001, at_ms(500_101)), BEGIN_MS + 500_102);
    }

    #[test]
    fn i3_stamps_that_were_never_decided_do_not_hide_the_next_leaders_time() {
        let mut clock = StateClock::default();
        let wrong_ms = BEGIN_MS + 3_600_000;
        clock.stamp(wrong_ms, BEGIN_MS, at_ms(0));
        clock.forget_stamps();
        clock.observe(BEGIN_MS + 10, Evidence::Present, at_ms(10));
        assert_eq!(clock.stamp(wrong_ms, BEGIN_MS + 10, at_ms(10)), BEGIN_MS + 11);
    }

    #[test]
    fn i5_the_time_of_a_leader_whose_wall_clock_is_behind_is_learned_by_the_others() {
        let (mut old, state_ms) = founded();
        old.forget_stamps();
        // Another process leads after 40 s, without an estimate, and with a clock set back.
        let mut new = StateClock::default();
        let state_ms = new.stamp(BEGIN_MS - 5_000, state_ms, at_ms(40_000));
        old.observe(state_ms, Evidence::Present, at_ms(40_000));
        // A key that it gives 20 s lives for 20 s, also where the old leader leads again.
        let stamped_ms = old.stamp(BEGIN_MS + 50_000, state_ms, at_ms(50_000));
        assert_eq!(stamped_ms - state_ms, 10_100, "ten seconds and one percent");
    }

    #[test]
    fn i3_a_state_time_of_the_past_is_taken_once_it_is_evidence_of_the_present() {
        let (mut clock, _) = founded();
        clock.forget_stamps();
        // A batch of a leader before, and one of the present leader that does not go beyond it.
        clock.observe(BEGIN_MS + 10, Evidence::Past, at_ms(60));
        clock.observe(BEGIN_MS + 10, Evidence::Present, at_ms(60));
        assert_eq!(clock.now_ms(BEGIN_MS + 90, BEGIN_MS + 10, at_ms(61)), BEGIN_MS + 11);
    }

    #[test]
    fn i4_a_state_that_lay_on_disk_for_hours_takes_the_wall_clock() {
        let mut clock = StateClock::default();
        clock.observe(BEGIN_MS, Evidence::Past, at_ms(5)); // the log is read again
        assert!(!clock.is_founded());
        let later_ms = BEGIN_MS + 3 * 3_600_000;
        assert_eq!(clock.stamp(later_ms, BEGIN_MS, at_ms(10)), later_ms);
    }

    /// Members of one group: each leads in turn, has a wall clock that drifts and jumps, restarts,
    /// and stands idle for hours. One virtual day a round.
    #[test]
    fn state_time_follows_elapsed_time_for_days() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let n = 3;
            let mut clocks = vec![StateClock::default(); n];
            let mut wrong_ms = vec![0_i64; n];
            let (mut state_ms, mut leader, mut now_ms) = (0, 0, 0_u64);
            let mut first = None;
            while now_ms < 24 * 3_600_000 {
                let idle = rng.below(20) == 0;
                now_ms += if idle { rng.below(7_200_000) } else { rng.below(2_000) };
                let wall = |at: usize| (BEGIN_MS + now_ms).saturating_add_signed(wrong_ms[at]);
                state_ms = clocks[leader].stamp(wall(leader), state_ms, at_ms(now_ms));
                for clock in &mut clocks {
                    clock.observe(state_ms, Evidence::Present, at_ms(now_ms + 1));
                }
                let (first_ms, first_now_ms) = *first.get_or_insert((state_ms, now_ms));
                let (passed, shown) = (now_ms - first_now_ms, state_ms - first_ms);
                // A millisecond for each change of leader is lost, never gained.
                assert!(shown <= passed + passed / 100 + 1, "seed {seed}: {shown} in {passed}");
                assert!(shown + passed / 50 + 1 >= passed, "seed {seed}: {shown} in {passed}");
                match rng.below(8) {
                    0 => leader = rng.below(n as u64) as usize,
                    1 => wrong_ms[rng.below(n as u64) as usize] = rng.below(7_200_000) as i64,
                    2 => wrong_ms[rng.below(n as u64) as usize] = -(rng.below(7_200_000) as i64),
                    3 => {
                        // A follower restarts and hears the leader before it leads.
                        let at = (leader + 1) % n;
                        clocks[at] = StateClock::default();
                        state_ms += 1;
                        clocks[at].observe(state_ms, Evidence::Present, at_ms(now_ms + 1));
                    }
                    _ => {}
                }
            }
        }
    }
}
