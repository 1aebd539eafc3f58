//! One hop around a cut: what two members cannot say to each other goes through a third.
//!
//! A member that has lost sight of the leader, while others have not, follows it on (Ω's I2). Its
//! clients' commands and reads go to one of those others, which passes them on; the answers come
//! back the same way.
//!
//! ```text
//! origin --- Pass(leader, attempt, frame) --->  relay  --- Passed(origin, frame) --->  leader
//!        <-- Passed(leader, frame) -----------         <-- Pass(origin, 0, frame) ---
//!        <-- PassBroken(attempt) -------------
//! ```
//! - D1 of one attempt of one origin the leader gets the frames in order and without a gap, as over
//!   the direct link: a relay that cannot pass one on passes nothing more of that attempt on, and
//!   says so ([`Frame::PassBroken`]); the origin then begins another. By [`Detours::admit`]; test
//!   `d1_*`. An origin whose way changes begins another too, by `Core::refresh_view`, and whatever
//!   of an earlier attempt is still on another way is ignored by the leader.
//! - D2 one hop: what was passed on is never passed on again. By construction: a relay takes
//!   requests and answers alone ([`Direction::of`]).
//! - D3 what waits here for a member that is slow is bounded as everything for it is: beyond, the
//!   origin's attempt is broken.

use crate::wire::Frame;
use base::{MAX_MEMBERS, Rank};

/// Where a frame goes that may be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// A client's request.
    ToLeader,
    /// What became of it.
    ToOrigin,
}

impl Direction {
    /// `None` for what concerns the two ends of a link alone (D2).
    pub(crate) const fn of(frame: &Frame<'_>) -> Option<Direction> {
        match frame {
            Frame::Commands { .. } | Frame::Reads { .. } => Some(Direction::ToLeader),
            Frame::CommandsRefused { .. }
            | Frame::Answers { .. }
            | Frame::ReadAnswers { .. }
            | Frame::ReadsRefused { .. } => Some(Direction::ToOrigin),
            Frame::StateWanted { .. }
            | Frame::StateRefused { .. }
            | Frame::StateBegins { .. }
            | Frame::StateChunk { .. }
            | Frame::StateEnds { .. }
            | Frame::StateAgain { .. }
            | Frame::StateTaken { .. }
            | Frame::Values { .. }
            | Frame::ValuesTaken { .. }
            | Frame::StateHead { .. }
            | Frame::Seat { .. }
            | Frame::Parted { .. }
            | Frame::Pass { .. }
            | Frame::Passed { .. }
            | Frame::PassBroken { .. } => None,
        }
    }
}

/// What is passed on for one origin.
#[derive(Clone, Copy, Debug, Default)]
struct Passing {
    /// The leader, if anything was.
    to: Option<Rank>,
    attempt: u64,
    is_broken: bool,
}

/// This member's ways around cuts, and what it passes on for others.
#[derive(Debug, Default)]
pub(crate) struct Detours {
    /// By destination: the member that passes messages on.
    via: [Option<Rank>; MAX_MEMBERS],
    /// By origin.
    passing: [Passing; MAX_MEMBERS],
    /// The attempt that own requests belong to.
    pub(crate) attempt: u64,
}

impl Detours {
    pub(crate) const fn via(&self, to: Rank) -> Option<Rank> {
        self.via[to.index()]
    }

    pub(crate) const fn set_via(&mut self, to: Rank, via: Option<Rank>) {
        self.via[to.index()] = via;
    }

    /// Whether a request of `origin` may be passed on to the leader `to` (D1).
    pub(crate) fn admit(&mut self, origin: Rank, to: Rank, attempt: u64) -> bool {
        let of = &mut self.passing[origin.index()];
        if attempt > of.attempt || of.to.is_none() {
            *of = Passing { to: Some(to), attempt, is_broken: false };
        }
        attempt == of.attempt && of.to == Some(to) && !of.is_broken
    }

    /// Nothing more of the present attempt of `origin` is passed on: which one that is, if it has
    /// to be told.
    pub(crate) fn break_off(&mut self, origin: Rank) -> Option<u64> {
        let of = &mut self.passing[origin.index()];
        if of.to.is_none() || of.is_broken {
            return None;
        }
        of.is_broken = true;
        Some(of.attempt)
    }

    /// The link to `peer` is another one, or none: no route leads through it, its attempts start
    /// again, and what was passed on to it is lost. Calls `tell` with each origin's attempt that
    /// breaks. (A way to `peer` around that link stays until the link is there again: what waits
    /// for an answer was asked that way, and no other member is asked while it lasts.)
    pub(crate) fn reset(&mut self, peer: Rank, mut tell: impl FnMut(Rank, u64)) {
        for via in &mut self.via {
            *via = via.filter(|via| *via != peer);
        }
        self.passing[peer.index()] = Passing::default();
        for at in 0..MAX_MEMBERS {
            if self.passing[at].to == Some(peer)
                && let Some(attempt) = self.break_off(Rank::at(at))
            {
                tell(Rank::at(at), attempt);
            }
        }
    }
}
