//! The request of a connection that waits for its turn: one at a time (the connection's C2).
//!
//! - H1 The parts of a request belong to the kind that is held, or was released last: each request
//!   writes its own parts before it is held. By construction: the door takes no other request while
//!   one is held, asserted in [`Held::hold`] in debug builds.

use crate::command::CommandSpec;
use core::time::Duration;

/// The kinds of requests to the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Write,
    /// A write whose answer may be long.
    LongWrite,
    Exec,
    /// GREGALE.SESSION, which opens a session.
    Open,
    Read,
    /// A read of few keys, which may also go through the log.
    KeyedRead,
    /// A read that goes through the log, since writes before it have no answer yet.
    LoggedRead,
    Watch,
    Wait {
        members: u64,
        timeout: Option<Duration>,
    },
    Info,
    Member,
    Clients,
    Kill,
    Channels,
    Topology,
}

/// The types of connections that CLIENT LIST and KILL name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientType {
    Normal,
    PubSub,
    /// Another Redis server; no connection has this type.
    Server,
}

/// The connections that a CLIENT LIST or KILL selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFilter {
    /// The numbers to which the selection is restricted, if any are named.
    pub(super) ids: Vec<u64>,
    /// The type of connection to which the selection is restricted.
    pub(super) only: Option<ClientType>,
    /// The client address to which the selection is restricted.
    pub(super) address: Option<Vec<u8>>,
    /// The local address to which the selection is restricted.
    pub(super) local_address: Option<Vec<u8>>,
    /// The connection to leave out.
    pub(super) skips: Option<u64>,
    /// CLIENT KILL address, which answers an error if no connection matches.
    pub(super) wants_one: bool,
}

/// A question: the command's name, and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopologyQuery {
    pub(super) name: &'static str,
    pub(super) args: Vec<Vec<u8>>,
}

/// The held request.
#[derive(Debug, Default)]
pub(super) struct Held {
    kind: Option<Kind>,
    /// The bytes of a command.
    pub(super) command: Vec<u8>,
    /// The command's specification, if it is a command of the store.
    pub(super) spec: Option<&'static CommandSpec>,
    /// The sections of an INFO, or the words of a GREGALE.MEMBER.
    pub(super) sections: Vec<String>,
    /// Of a question about clients.
    pub(super) filter: ClientFilter,
    /// A question about the members.
    pub(super) topology: TopologyQuery,
}

impl Held {
    /// Holds a request whose parts are written.
    pub(super) fn hold(&mut self, kind: Kind) {
        debug_assert!(self.kind.is_none(), "H1: another request is held");
        self.kind = Some(kind);
    }

    pub(super) const fn kind(&self) -> Option<Kind> {
        self.kind
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.kind.is_none()
    }

    /// Notes that the request is asked for: its parts stay until the next one's are written.
    pub(super) const fn release(&mut self) {
        self.kind = None;
    }
}
