//! The word to a peer that was given up (S3, S9).

use super::{End, State, Streams, words};
use crate::multicast::bugs::Bug;
use base::{Instant, Rank, SeatSet};
use core::time::Duration;
use proto::amcast::wire::Malformed;
use proto::planted::Planting;

/// The life in a LEFT to a peer of which none was met.
const NO_LIFE: u64 = 0;

impl<P: Planting<Bug>> Streams<P> {
    /// The nodes that were given up since they lagged, and have not come back since.
    pub(crate) fn left(&self) -> SeatSet {
        let is_left = |at: &usize| self.peers[*at].state == State::Ended(End::LeftBehind);
        (0..self.peers.len()).filter(is_left).map(Rank::at).collect()
    }

    /// Those of them that greet this node on a link: they live, and do not know it yet.
    pub(crate) fn left_and_greets(&self) -> SeatSet {
        let greets = |node: &Rank| {
            let peer = &self.peers[node.index()];
            peer.greets && !peer.is_suspected
        };
        self.left().iter().filter(greets).collect()
    }

    /// Those of them that have a link: they live.
    pub(crate) fn left_and_linked(&self) -> SeatSet {
        let is_linked = |node: &Rank| {
            let peer = &self.peers[node.index()];
            peer.is_linked && !peer.is_suspected
        };
        self.left().iter().filter(is_linked).collect()
    }

    /// The time for which `is_so` has held without a break (N14 of `node::majority`).
    pub(crate) fn cut_for(&mut self, is_so: bool, now: Instant) -> Duration {
        self.cut_since = is_so.then(|| self.cut_since.unwrap_or(now));
        self.cut_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Notes the nodes that must not be told to stop for now.
    pub(crate) const fn need(&mut self, needed: SeatSet) {
        self.needed = needed;
    }

    /// Whether a node has a disk, from which its next life continues.
    pub(crate) fn has_disk(&self, node: Rank) -> bool {
        let disk = if node == self.me { self.who.disk } else { self.peers[node.index()].disk };
        disk != 0
    }

    /// Whether the HELLO or LEFT of this link can be sent to `node`.
    pub(super) fn may_greet(&self, node: Rank) -> bool {
        let peer = &self.peers[node.index()];
        let is_left = matches!(peer.state, State::Ended(_));
        peer.must_greet && (!is_left || self.left_by.is_none() && !self.needed.contains(node))
    }

    /// Takes the word of `from`, which has given a life of this node up.
    pub(super) fn on_left(&mut self, from: Rank, fields: &[u8]) -> Result<(), Malformed> {
        let [life] = words(fields)?;
        // Of two that have given each other up one stops (S9).
        let stays =
            self.me < from && self.peers[from.index()].was_told && !self.planted.has(Bug::BothStop);
        // The sender has met no life of this node, and this node has no HELLO for it (S9).
        let is_of_any = life == NO_LIFE && self.left().contains(from);
        if (life == self.who.life || is_of_any) && !stays {
            self.left_by = Some(from);
        }
        Ok(())
    }
}
