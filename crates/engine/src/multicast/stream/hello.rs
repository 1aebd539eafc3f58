//! The process that speaks for a node: which one is listened to, and which one is told to stop (S2,
//! S6).
//!
//! ```text
//! incarnation of a HELLO         compared with the highest met before
//! lower                          refused: it was replaced
//! equal, the same life           continues
//! equal, the same disk           its next life: continues from its disk
//! equal, anything else           refused: it has forgotten the promises of that incarnation
//! higher                         a newcomer: both streams start again, if groups here seat any
//! ```

use super::{End, FRAME_BYTES_MAX, Peer, State, Streams, words};
use crate::multicast::bugs::Bug;
use base::{Incarnation, Rank};
use proto::amcast::FOUNDER;
use proto::amcast::wire::Malformed;
use proto::planted::Planting;

/// A process that speaks for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    /// The node's incarnation: a higher one each time it has lost its memory.
    pub(crate) incarnation: Incarnation,
    /// The name of the process, which no other process ever has.
    pub(crate) life: u64,
    /// The name of its disk; 0 without one.
    pub(crate) disk: u64,
}

/// The reason why a process is refused (S2, S6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A later incarnation of its node was met here.
    Outdated,
    /// Another process was this incarnation, and this one does not have its disk.
    Forgetful,
    /// Groups there seat no new incarnation.
    Unwanted,
}

impl Refusal {
    pub(super) const fn code(self) -> u8 {
        match self {
            Refusal::Outdated => 0,
            Refusal::Forgetful => 1,
            Refusal::Unwanted => 2,
        }
    }

    fn of(code: u8) -> Result<Refusal, Malformed> {
        let all = [Refusal::Outdated, Refusal::Forgetful, Refusal::Unwanted];
        all.into_iter().find(|one| one.code() == code).ok_or(Malformed)
    }

    /// The text with which a refused process stops.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Refusal::Outdated => {
                "knows a later incarnation of this node: stop this process, which was replaced; if \
                 it is the one that should run, its host's clock was set back: set it right \
                 and start it again"
            }
            Refusal::Forgetful => {
                "knew another process as this node, whose promises this one does not know: start \
                 it with that one's data directory, or without one as a new incarnation \
                 (Start::Anew)"
            }
            Refusal::Unwanted => {
                "takes no new incarnations, since groups keep their members there: that takes \
                 protocol primcast, commutes = false, applications that keep states, and no data \
                 directories"
            }
        }
    }
}

impl Peer {
    /// Starts both streams again: another process is at the other end, and the previous one no
    /// longer counts.
    fn renew(&mut self, incarnation: u64, life: u64) {
        let (disk, n_renewed, is_linked) = (self.disk, self.n_renewed + 1, self.is_linked);
        // A peer that was given up has not been greeted on this link.
        let must_greet = self.must_greet || matches!(self.state, State::Ended(_));
        let state = State::Greeting;
        let life = Some(life);
        *self = Peer {
            incarnation,
            life,
            disk,
            n_renewed,
            state,
            is_linked,
            must_greet,
            ..Peer::new()
        };
    }

    /// Refuses the process on this link.
    fn refuse(&mut self, why: Refusal) {
        self.refusal = Some(why);
        if self.state == State::Open {
            self.state = State::Greeting;
        }
    }
}

impl<P: Planting<Bug>> Streams<P> {
    /// Accepts new incarnations of other nodes from now on.
    pub(crate) const fn take_newcomers(&mut self) {
        self.takes_newcomers = true;
    }

    pub(super) fn on_hello(&mut self, from: Rank, fields: &[u8]) -> Result<(), Malformed> {
        let [incarnation, life, disk, of, received] = words(fields)?;
        let is_founder = incarnation == FOUNDER.0;
        // A process that comes back from a disk has lost no memory.
        if incarnation < FOUNDER.0 || !is_founder && disk != 0 {
            return Err(Malformed);
        }
        let peer = &mut self.peers[from.index()];
        if incarnation < peer.incarnation {
            if !self.planted.has(Bug::OutdatedHeard) {
                peer.refuse(Refusal::Outdated); // S6
                return Ok(());
            }
            peer.renew(incarnation, life);
        } else if incarnation > peer.incarnation && !is_founder {
            if !self.takes_newcomers {
                peer.refuse(Refusal::Unwanted);
                return Ok(());
            }
            if peer.life.is_some() || peer.state == State::Ended(End::LeftBehind) {
                peer.renew(incarnation, life); // S6
                self.renewed.insert(from);
            }
            self.met.insert(from);
        } else if peer.state == State::Ended(End::Replaced) {
            peer.refuse(Refusal::Forgetful);
            return Ok(());
        } else if peer.state == State::Ended(End::Garbled) {
            return Ok(());
        }
        peer.incarnation = incarnation;
        let is_first = peer.life.is_none();
        let is_known = peer.disk != 0;
        if is_first && !is_known {
            peer.disk = disk;
        }
        let is_its_disk = disk != 0 && disk == peer.disk;
        // What was dropped was for an earlier life of that disk: this one met no life of this node.
        let is_next = is_first && is_known && of == 0;
        let is_left = peer.state == State::Ended(End::LeftBehind);
        let is_other = *peer.life.get_or_insert(life) != life;
        if is_its_disk && (is_other || is_next && is_left) {
            // Kept bytes were for the previous life; their senders repeat those that still matter.
            peer.renew(incarnation, life);
            self.renewed.insert(from);
        } else if peer.life != Some(life) || disk != peer.disk {
            peer.end(End::Replaced);
            peer.refuse(Refusal::Forgetful); // S2
            return Ok(());
        }
        if peer.state == State::Ended(End::LeftBehind) {
            (peer.must_greet, peer.greets) = (true, true); // S3
            return Ok(());
        }
        // The bytes that it received of an earlier life do not count for this one.
        let is_mine = of == self.who.life || self.planted.has(Bug::EarlierLifeCounts);
        let received = if is_mine { received } else { 0 };
        if received < peer.acked || received > peer.written() {
            return Err(Malformed);
        }
        peer.sent = received;
        if self.planted.has(Bug::ResumedLate) && received > 0 {
            peer.sent = peer.written().min(received + FRAME_BYTES_MAX as u64);
        }
        if self.planted.has(Bug::HandedTwice) {
            peer.input.unread();
        }
        // The last report may have been lost with the old link.
        peer.told = 0;
        peer.state = State::Open;
        Ok(())
    }

    pub(super) fn on_refused(
        &mut self,
        from: Rank,
        why: u8,
        fields: &[u8],
    ) -> Result<(), Malformed> {
        let [known] = words(fields)?;
        let why = Refusal::of(why)?;
        // A refusal of an earlier life of this node does not concern this one.
        if why != Refusal::Outdated || known > self.who.incarnation.0 {
            self.refused_by = Some((from, why));
        }
        Ok(())
    }
}
