//! The time for which a node may sleep.

use super::{LOOK_EVERY, Node, SLEEP_MAX};
use crate::application::Application;
use crate::disk::Journal;
use base::Instant;
use fabric::Fabric;
use proto::amcast::Multicast;
use std::time::Duration;

impl<F: Fabric, M: Multicast, A: Application> Node<F, M, A> {
    /// The time for which there is nothing to do without an event.
    pub(super) fn sleep_for(&self) -> Duration {
        let now = self.desk.now;
        let mut end = now.plus(SLEEP_MAX);
        let mut consider = |at: Option<Instant>| end = end.min(at.unwrap_or(end));
        for member in &self.members {
            consider(Some(member.omega.deadline()));
            consider(member.machine.deadline());
        }
        end = end.max(self.look_at);
        let mut consider = |at: Option<Instant>| end = end.min(at.unwrap_or(end));
        consider(self.desk.deadline());
        consider(self.app.deadline());
        let disk = self.journal.as_ref().and_then(Journal::look_within);
        consider(disk.map(|within| now.plus(within)));
        if self.world.streams.is_pending() || self.desk.is_full {
            consider(Some(now.plus(LOOK_EVERY)));
        }
        if self.world.streams.has_untold() {
            consider(Some(self.tell_at));
        }
        end.since(now)
    }
}
