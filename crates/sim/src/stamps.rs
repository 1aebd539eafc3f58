//! The way in which time enters the replicated state, as in the runtime: a leader stamps its
//! batches by [`base::StateClock`], the released code, and every node tells its own what it
//! executed.
//!
//! The time that passes is the world's: [`base::StateClock`] measures by a clock that counts also
//! while a process stands still. The wall clock is the node's, which is set and drifts.
//!
//! In runs of a day an idle leader stamps a batch without commands each minute, as `runtime/ticks`
//! does.

use crate::checks::state_time::Stamp;
use crate::plan::MS;
use crate::stamper::IDLE_NS;
use crate::subject::Life;
use crate::world::World;
use base::{Ballot, Evidence, Instant};
use proto::Role;

/// The way in which a leader makes its stamps. All but one are planted bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamps {
    /// The correct way.
    Sound,
    /// The wall clock's reading, unless state time is ahead of it already: a jump of the clock is a
    /// jump of state time, and a clock that is set back stops expiry.
    OfWallClock,
    /// At most ten seconds count, however long nothing was stamped.
    StandStillWhileIdle,
}

/// The most that [`Stamps::StandStillWhileIdle`] sees pass.
const SEEN_TO_PASS_MAX: u64 = 10_000 * MS;

impl World {
    /// The world time at which a leader stamps without a request, in runs of a day.
    pub(crate) fn next_idle_stamp(&self, node: usize, machine: &dyn Life) -> Option<u64> {
        let is_due = self.plan.lasts_a_day() && machine.status().role == Role::Leader;
        is_due.then(|| self.shells[node].stamper.idle_at)
    }

    /// Stamps the next batch of `node`, which leads under `reign`.
    pub(crate) fn stamp(&mut self, node: usize, reign: u64) {
        let now = self.net.now();
        let wall_ms = self.net.processes[node].wall.at(now) / MS;
        let state_ms = self.ledger.state_time.after(self.applied(node)).state_ms;
        let stamper = &mut self.shells[node].stamper;
        let founds = !stamper.clock.is_founded();
        stamper.seen_to_pass += match self.subject.stamps {
            Stamps::StandStillWhileIdle => (now - stamper.stamped_at).min(SEEN_TO_PASS_MAX),
            Stamps::Sound | Stamps::OfWallClock => now - stamper.stamped_at,
        };
        stamper.stamped_at = now;
        stamper.idle_at = now + IDLE_NS;
        let passed = match self.subject.stamps {
            Stamps::StandStillWhileIdle => Instant(stamper.seen_to_pass),
            Stamps::Sound | Stamps::OfWallClock => Instant(now),
        };
        // The estimate is raised to the state's time (I1), at first above it (I5).
        let least_ms = state_ms.saturating_add(u64::from(stamper.stamped_ms == 0));
        let is_raised = stamper.clock.clone().now_ms(wall_ms, 0, passed) < least_ms;
        let unix_ms = match self.subject.stamps {
            Stamps::OfWallClock if !founds => state_ms.max(wall_ms),
            _ => stamper.clock.stamp(wall_ms, state_ms, passed),
        };
        stamper.stamped_ms = unix_ms;
        let forgot = founds && stamper.has_heard;
        stamper.has_heard = true;
        if founds || is_raised {
            stamper.continues = self.ledger.state_time.next_number();
        }
        let continues = stamper.continues;
        self.ledger.state_time.stamped(Stamp { unix_ms, reign, at: now, continues, forgot });
    }

    /// Tells the clock of `node` what it has executed, and the ballot in force.
    pub(crate) fn observe_state_time(&mut self, node: usize, machine: &dyn Life) {
        let newest = self.ledger.state_time.after(self.applied(node));
        let status = machine.status();
        let leads = status.role == Role::Leader;
        let evidence = Evidence::of(Ballot(newest.reign), status.ballot, leads);
        let now = Instant(self.net.now());
        let stamper = &mut self.shells[node].stamper;
        stamper.clock.observe(newest.state_ms, evidence, now);
        // (It knows its own stamps.)
        if evidence != Evidence::Past && newest.state_ms > stamper.stamped_ms {
            stamper.continues = newest.continues;
            stamper.has_heard = true;
        }
    }
}
