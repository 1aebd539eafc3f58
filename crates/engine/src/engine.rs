//! The turns of one member.
//!
//! ```text
//! driver                         engine
//!   begin_turn  --------------->  the time
//!   (waits, if `idle_for` says so)
//!   begin_slice --------------->  the time after the wait
//!   at_the_door --------------->  clients' bytes become commands and reads on the desk
//!   work        --------------->  propose or forward; checks; events -> machine -> execute;
//!                                 replies and frames leave
//! ```
//! Turns are the same for every protocol. What is done in them is a [`Family`]'s: that of a log
//! ([`Log`](crate::Log)), or of registers that are kept each by itself
//! ([`Keyed`](crate::Keyed)).
//!
//! - I1 work per turn is bounded: `work` repeats at most `REPEATS_MAX` times, and each client is
//!   read a bounded number of bytes by its door.
//! - I2 a driver that waits for `idle_for` after an `advance` that found nothing misses no work:
//!   that is the earliest deadline of everything in here.
//! - I3 nothing leaves a member whose disk has failed, and nothing more is done there: an effect of
//!   the same call may follow from what was not read (D5 of [`proto::disk`]). By construction:
//!   [`Engine::advance`], [`Engine::send`].

use crate::desk::{Desk, View};
use crate::family::{Family, Parts};
use crate::plant::Plant;
use crate::stats::Stats;
use base::{Inbox, Instant};
use core::time::Duration;

/// See I1.
const REPEATS_MAX: usize = 64;
/// How often the figures are published at most.
const PUBLISH_EVERY: Duration = Duration::from_millis(20);
/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// One member. See the module's text.
#[derive(Debug)]
pub struct Engine<C> {
    pub(crate) family: C,
    inbox: Inbox,
    published_at: Instant,
}

impl<C: Family> Engine<C> {
    /// Before its first turn.
    pub(crate) fn of(family: C) -> Engine<C> {
        Engine { family, inbox: Inbox::new(), published_at: Instant::ZERO }
    }

    /// Its parts.
    pub fn parts(&mut self) -> Parts<'_, C::Plant, C::App, C::Door> {
        self.family.parts()
    }

    /// How it stands, as of the present turn.
    pub fn view(&self) -> &View {
        self.family.desk().view()
    }

    /// What it counts.
    pub fn stats(&self) -> &Stats {
        self.family.stats()
    }

    /// The replicated state.
    pub fn app(&self) -> &C::App {
        self.family.app()
    }

    /// Ends it.
    pub fn into_plant(self) -> C::Plant {
        self.family.into_plant()
    }

    /// Why this member must stop: its disk has failed.
    pub fn failure(&self) -> Option<&str> {
        self.family.failure()
    }

    /// Whether no client's request is open here.
    pub fn is_idle(&self) -> bool {
        self.family.is_idle()
    }

    /// Hands over what this member does for others, if it does something.
    pub fn resign(&mut self) {
        self.tell_time();
        self.family.resign();
    }

    /// Whether another member does it, or no other member is there to take it.
    pub fn has_handed_over(&self) -> bool {
        self.family.has_handed_over()
    }

    /// A turn begins, at the time that is returned.
    pub fn begin_turn(&mut self) -> Instant {
        self.parts().stats.turns += 1;
        self.tell_time()
    }

    /// The wait of this turn is over, if there was one.
    pub fn begin_slice(&mut self) -> Instant {
        let now = self.tell_time();
        self.parts().desk.begin_slice();
        now
    }

    /// Lets clients in.
    pub fn at_the_door(&mut self, come_in: impl FnOnce(&mut C::Door, &mut C::App, &mut Desk)) {
        let Parts { door, app, desk, .. } = self.parts();
        come_in(door, app, desk);
    }

    /// Everything that can be done in this turn. True if something was.
    pub fn work(&mut self) -> bool {
        let mut worked = false;
        for _ in 0..REPEATS_MAX {
            if !self.advance() {
                break;
            }
            worked = true;
        }
        worked |= self.failure().is_none() && self.family.work_once();
        self.send();
        self.family.sweep();
        self.publish();
        worked
    }

    /// The driver is about to sleep.
    pub fn note_sleep(&mut self) {
        self.parts().stats.sleeps += 1;
        self.publish();
    }

    fn tell_time(&mut self) -> Instant {
        let Parts { plant, desk, .. } = self.parts();
        let now = plant.now();
        desk.now = now;
        now
    }

    /// Does everything that is possible without waiting, once. True if something happened, so that
    /// more may be possible.
    pub fn advance(&mut self) -> bool {
        self.failure().is_none() && self.family.advance(&mut self.inbox)
    }

    /// Puts replies and frames on their way.
    pub fn send(&mut self) {
        if self.failure().is_none() {
            self.family.send();
        }
    }

    /// How long nothing has to be done, if nothing happens (I2).
    pub fn idle_for(&self) -> Duration {
        let now = self.family.plant().now();
        now.plus(SLEEP_MAX).min(self.family.deadline(now)).since(now)
    }

    fn publish(&mut self) {
        let now = self.family.desk().now();
        if now.since(self.published_at) >= PUBLISH_EVERY {
            self.published_at = now;
            self.family.publish();
        }
    }
}
