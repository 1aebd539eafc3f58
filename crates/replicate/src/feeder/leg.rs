//! A leg: the local stream to a copy for one connection.

use crate::entry::ConnectionId;
use crate::framing::Framing;
use crate::hash::Answers;
use crate::session::Session;
use crate::shown::Shown;
use engine::streams::Interest;

/// See `feeder`, I5.
pub const STUCK_BYTES_MAX: usize = 1 << 20;

/// The local stream to a copy for one connection.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) id: ConnectionId,
    /// The input that the program has had no room for, and how much of it was written.
    pub(super) unwritten: Vec<u8>,
    pub(super) n_written: usize,
    pub(super) framing: Option<Framing>,
    /// The session, with a program that speaks Redis's protocol.
    pub(super) session: Option<Session>,
    /// What was asked for, with a program that speaks memcached's protocols.
    pub(super) shown: Option<Shown>,
    pub(super) answers: Answers,
    /// What it is watched for.
    pub(super) interest: Interest,
    /// The requests without a reply.
    pub(super) n_owed: u64,
    /// Those are reads, which the log does not have (the feeder's I10).
    pub(super) is_reading: bool,
    /// The program slept, and had not read what was written.
    pub(super) is_stuck: bool,
    /// The input has ended: the program is expected to close the leg.
    pub(super) has_ended: bool,
    /// The program was told so: all input before that is written.
    pub(super) is_end_told: bool,
    /// The connection has ended: its output is dropped.
    pub(super) is_over: bool,
}

impl Leg {
    /// Whether its answers are left out of the next point (`hash`, H3).
    pub(super) fn is_masked(&self) -> bool {
        let by_session = self.session.as_ref().is_some_and(Session::is_masked);
        by_session || self.shown.as_ref().is_some_and(Shown::is_masked)
    }

    pub(super) fn is_written(&self) -> bool {
        self.n_written == self.unwritten.len()
    }

    /// I5
    pub(super) fn has_room(&self, n_bytes: usize) -> bool {
        let n_unwritten = self.unwritten.len() - self.n_written;
        self.is_written() || self.is_stuck && n_unwritten + n_bytes <= STUCK_BYTES_MAX
    }
}
