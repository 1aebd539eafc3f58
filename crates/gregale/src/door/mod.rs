//! The process side of the key-value door: sockets, signals, the supervisor, figures.
//!
//! `kv::door` serves clients and holds the replicated state; the runtime knows leaders and logs.
//! This module is the process around them, and passes calls from one to the other.
//! [`supervision`] is the part that every kind of door has.

mod info;
mod offline;
mod partitioned;
mod process;
mod service;
mod sockets;
mod statuses;
mod supervision;

use crate::channel::ReplicaEnd;
use crate::config::Config;
use crate::control::Board;
use crate::signals::Signals;
use console::{Failure, Outcome};
use kv::door::RespDoor;
pub(crate) use kv::door::State;
pub(crate) use kv::door::partition_seats;
pub(crate) use kv::door::{MAY_PASS, NO_SUCH_BACKUP, NOT_LEADER, UNKNOWN as CHANGE_UNKNOWN};
pub(crate) use offline::offline_state;
pub(crate) use partitioned::PartitionedDoor;
use process::Process;
use runtime::{Orders, Poller};
use sockets::Sockets;
pub(crate) use sockets::Sockets as ClientSockets;
use std::net::TcpListener;
use std::sync::Arc;
pub(crate) use supervision::{Stop, Supervised, Supervision};

/// The keys of descriptors in the poller; those of clients are below.
pub(crate) const KEY_LISTENER: u64 = runtime::replica::SOCKET_KEYS - 1;
pub(crate) const KEY_SIGNALS: u64 = runtime::replica::SOCKET_KEYS - 2;
pub(crate) const KEY_CHANNEL: u64 = runtime::replica::SOCKET_KEYS - 3;
const KEY_STATUS: u64 = runtime::replica::SOCKET_KEYS - 4;
/// The bell of operators' orders.
pub(crate) const KEY_ORDERS: u64 = runtime::replica::SOCKET_KEYS - 7;
/// The end of a replicated program.
pub(crate) const KEY_PROGRAM: u64 = runtime::replica::SOCKET_KEYS - 5;
/// What a replicated program says from inside.
pub(crate) const KEY_NOTICES: u64 = runtime::replica::SOCKET_KEYS - 6;

/// The state that the doors of `config`'s cluster serve.
pub(crate) fn state_of(config: &Config) -> State {
    State::new(config.maxmemory, runtime::unix_ms())
}

/// The service of one replica; see the module's text.
pub(crate) struct Door {
    door: RespDoor<Process, Sockets>,
    board: Arc<Board>,
    supervision: Supervision,
    orders: Orders,
}

impl Door {
    /// A service behind `listener`, which is bound.
    pub(crate) fn new(config: &Config, listener: TcpListener, board: Arc<Board>) -> Outcome<Door> {
        let outside = Process::new(config, &board, None)?;
        Ok(Door {
            door: RespDoor::new(process::door_config(config), outside, Sockets::new(listener)?),
            supervision: Supervision::new(config, &board)?,
            board,
            orders: Orders::default(),
        })
    }

    /// Answers reads and writes with this error from now on.
    pub(crate) fn refuse_all(&mut self, why: &'static str) {
        self.door.clients.refuse_all(why);
    }
}

impl Supervised for Door {
    fn register(
        &mut self,
        poller: &Poller,
        signals: Signals,
        channel: Option<Arc<ReplicaEnd>>,
    ) -> Outcome<()> {
        self.door.clients.outside.channel.clone_from(&channel);
        self.supervision
            .register(poller, signals, channel)
            .and_then(|()| self.door.clients.outside.register(poller))
            .and_then(|()| self.door.streams.register(poller))
            .map_err(|error| Failure::os("watch a descriptor", error))
    }

    fn supervision(&self) -> &Supervision {
        &self.supervision
    }
}
