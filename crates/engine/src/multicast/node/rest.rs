//! The time until which there is nothing to do.

use super::{LOOK_EVERY, Node};
use crate::multicast::application::Application;
use crate::multicast::bugs::Bug;
use crate::multicast::journal::Journal;
use base::Instant;
use core::time::Duration;
use proto::amcast::Multicast;
use proto::planted::Planting;

/// The interval at which a disk that holds the node is looked at, unless it says something.
const HELD_LOOK: Duration = Duration::from_millis(10);
/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);

impl<M: Multicast, A: Application, P: Planting<Bug>> Node<M, A, P> {
    /// The time of the next turn, if nothing happens before. What the disk wants is not in it.
    pub fn due(&self) -> Instant {
        let now = self.desk.now;
        if self.journal.as_ref().is_some_and(Journal::holds) {
            // The deadlines of members, which pass meanwhile, are looked at when it is over.
            return now.plus(HELD_LOOK);
        }
        let mut end = now.plus(SLEEP_MAX);
        let mut consider = |at: Option<Instant>| end = end.min(at.unwrap_or(end));
        for member in &self.members {
            consider(Some(member.omega.deadline()));
            consider(member.machine.deadline());
        }
        end = end.max(self.look_at);
        let mut consider = |at: Option<Instant>| end = end.min(at.unwrap_or(end));
        consider(self.desk.own.deadline());
        consider(self.app.deadline());
        if self.world.streams.is_pending() || self.desk.is_full {
            consider(Some(now.plus(LOOK_EVERY)));
        }
        if self.world.streams.has_untold() {
            consider(Some(self.tell_at));
        }
        end.max(now)
    }
}
