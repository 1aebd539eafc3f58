//! What a member has promised, and when it tries to lead.

use super::election::Owed;
use base::{Ballot, Incarnation, Instant};

/// The member's votes, and its own tries.
#[derive(Debug)]
pub(super) struct Standing {
    /// The highest known ballot.
    pub(super) highest: Ballot,
    /// The vote that leaves when the disk has the promise.
    pub(super) vote_owed: Option<Owed>,
    /// The ballot and the incarnation of the vote in the present promise.
    pub(super) voted: Option<(Ballot, Incarnation)>,
    /// Whether Ω names this node.
    pub(super) trusted: bool,
    /// The time until which it stands aside for another that has what it lacks.
    pub(super) aside_until: Option<Instant>,
    /// The time since when this node has tried to be elected, in one candidacy or several.
    pub(super) tries_since: Option<Instant>,
    /// The time of the next try.
    pub(super) retry_at: Option<Instant>,
}

impl Standing {
    /// Of a life whose log has this promise.
    pub(super) const fn new(promised: Ballot) -> Standing {
        Standing {
            highest: promised,
            vote_owed: None,
            voted: None,
            trusted: false,
            aside_until: None,
            tries_since: None,
            retry_at: None,
        }
    }
}
