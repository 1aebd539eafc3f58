//! What the door asks of the process around it.

use super::bugs::Bug;
use crate::connection::{self, Counts};
use crate::store::DATABASES;
use base::Rank;
use engine::{Asker, View};

/// INFO's section with the status of the whole cluster, as JSON.
pub const STATUS_SECTION: &str = "gregale-status";

/// What a door is told at its start.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The cluster's name.
    pub cluster: String,
    /// All seats, in the order of their ranks.
    pub members: Vec<Member>,
    /// What all connections share.
    pub connections: connection::Config,
}

/// A member, as clients reach it.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its number.
    pub id: u16,
    /// Its host; empty for the one that the client has reached.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// Figures of a door, and of the state behind it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Connections that are open.
    pub clients: u64,
    /// Connections since the start.
    pub clients_accepted: u64,
    /// Connections refused, since there were too many.
    pub clients_refused: u64,
    /// Connections closed for what they did not read.
    pub clients_over_limit: u64,
    /// Reads that waited until their client had read.
    pub reads_put_off: u64,
    /// Requests that were taken.
    pub commands: u64,
    /// Keys of all databases.
    pub keys: u64,
    /// Memory that they take.
    pub memory_bytes: u64,
    /// How far state time is ahead of this member's wall clock (negative: behind).
    pub state_time_ahead_ms: i64,
}

/// What INFO tells, as far as the door knows it.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// How the replica stands.
    pub view: View,
    /// Of the door, and of the state behind it.
    pub figures: Figures,
    /// Keys, and how many of them expire, of each database.
    pub databases: [(u64, u64); DATABASES],
    /// How often something was changed.
    pub changes: u64,
    /// What was called.
    pub counts: &'a Counts,
    /// Further lines of our own section.
    pub more: String,
}

/// The process around a door. Nothing here may block.
pub trait Outside {
    /// The text of INFO with these sections, in lower case; none means the default ones.
    fn info(&mut self, facts: &Facts<'_>, sections: &[&str]) -> String;

    /// `asker` wants the cluster's status, which takes other members to answer. Its end is
    /// [`super::RespClients::answer_text`].
    fn ask_status(&mut self, asker: Asker);

    /// Begins a new incarnation of the member on `rank`. False if there is nothing that could.
    #[must_use]
    fn renew(&mut self, rank: Rank) -> bool;

    /// Whether the door has this bug. Production has none; a simulation plants one to see whether
    /// its checks notice.
    fn has_planted(&self, _bug: Bug) -> bool {
        false
    }
}
