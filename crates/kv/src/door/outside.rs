//! The interface between the door and the process around it.

use super::bugs::Bug;
use crate::connection::{self, Counts};
use crate::store::DATABASES;
use base::Rank;
use engine::{Asker, View};

/// The section of INFO with the status of the whole cluster, as JSON.
pub const STATUS_SECTION: &str = "gregale-status";

/// The arguments of a door at its start.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The cluster's name.
    pub cluster: String,
    /// All seats, in the order of their ranks.
    pub members: Vec<Member>,
    /// The settings and figures that all connections share.
    pub connections: connection::Config,
}

/// A member, as clients reach it.
#[derive(Clone, Debug)]
pub struct Member {
    /// The member's number.
    pub id: u16,
    /// The member's host; empty for the host that the client has reached.
    pub host: String,
    /// The member's port.
    pub port: u16,
}

/// The figures of a door, and of the state behind it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Connections that are open.
    pub clients: u64,
    /// Connections since the start.
    pub clients_accepted: u64,
    /// Connections refused, since there were too many.
    pub clients_refused: u64,
    /// Connections closed for unread output.
    pub clients_over_limit: u64,
    /// Reads that waited until their client had read.
    pub reads_put_off: u64,
    /// Requests that were accepted.
    pub commands: u64,
    /// Keys of all databases.
    pub keys: u64,
    /// Bytes of memory that the keys take.
    pub memory_bytes: u64,
    /// The time by which state time is ahead of this member's wall clock (negative: behind).
    pub state_time_ahead_ms: i64,
}

/// The part of INFO that the door knows.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The status of the replica.
    pub view: View,
    /// The figures of the door, and of the state behind it.
    pub figures: Figures,
    /// Keys, and how many of them expire, of each database.
    pub databases: [(u64, u64); DATABASES],
    /// Changes of keys, counted.
    pub changes: u64,
    /// The commands that were called.
    pub counts: &'a Counts,
    /// Further lines of Gregale's own section.
    pub more: String,
}

/// The process around a door. Nothing here may block.
pub trait Outside {
    /// The text of INFO with these sections, in lower case; an empty list means the default ones.
    fn info(&mut self, facts: &Facts<'_>, sections: &[&str]) -> String;

    /// Requests the cluster's status for `asker`, which takes other members to answer. The answer
    /// comes by [`super::RespClients::answer_text`].
    fn ask_status(&mut self, asker: Asker);

    /// Begins a new incarnation of the member on `rank`. False if there is no supervisor that
    /// could.
    #[must_use]
    fn renew(&mut self, rank: Rank) -> bool;

    /// Whether the door has this bug. Production has none; a simulation plants one to test its
    /// checks.
    fn has_planted(&self, _bug: Bug) -> bool {
        false
    }
}
