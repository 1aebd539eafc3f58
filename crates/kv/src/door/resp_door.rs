//! The whole door of one member: its clients and the replicated state behind them.
//!
//! What concerns the state alone, or the clients alone, is called on that field. Here is what
//! concerns both.

use super::clients::RespClients;
use super::intake::{Asker, Intake, View};
use super::outside::{Config, Figures, Outside};
use super::state::{Holds, Performed, State};
use super::streams::{Ready, Streams};
use crate::entry::{EntryError, Origin, Sequence};
use base::{Instant, Slot};

/// See the module's text.
#[derive(Debug)]
pub struct RespDoor<O> {
    /// The replicated application.
    pub state: State,
    /// All connections.
    pub clients: RespClients<O>,
    /// As of the last call that had the time.
    now: Instant,
    /// This member was able to answer clients.
    has_served: bool,
}

impl<O: Outside> RespDoor<O> {
    /// Without a key and without a client. `seed` decides what RANDOMKEY answers.
    pub fn new(config: Config, outside: O, seed: u64) -> RespDoor<O> {
        RespDoor {
            state: State::new(config.connections.memory_bytes_max, seed),
            clients: RespClients::new(config, outside),
            now: Instant::ZERO,
            has_served: false,
        }
    }

    /// Whether this member was ever able to answer clients.
    pub fn has_served(&self) -> bool {
        self.has_served
    }

    /// Executes a decided value, and tells subscribers what it published; `sink` takes the answers.
    ///
    /// # Errors
    /// See [`State::apply`].
    pub fn apply(
        &mut self,
        slot: Slot,
        value: &[u8],
        sink: &mut impl FnMut(Origin, Sequence, &[u8]),
    ) -> Result<(), EntryError> {
        let applied = self.state.apply(slot, value, sink);
        let published = self.state.take_published();
        // What was published before this member served is not news.
        if self.has_served {
            self.clients.tell(&published);
        }
        applied
    }

    /// Performs the read that `asker` laid down. At the time `stamp_ms` a key that expires then is
    /// gone.
    pub fn perform(&mut self, asker: Asker, stamp_ms: u64, intake: &mut impl Intake) -> Performed {
        self.clients.perform(asker, stamp_ms, &mut self.state, intake)
    }

    /// Performs a read that another member's [`RespClients::describe_read`] described.
    pub fn perform_described(
        &mut self,
        read: &[u8],
        stamp_ms: u64,
        reply: &mut Vec<u8>,
    ) -> Performed {
        self.state.read(read, stamp_ms, self.now, reply)
    }

    /// A client's stream is ready.
    pub fn on_ready(&mut self, ready: Ready, streams: &mut impl Streams, intake: &mut impl Intake) {
        self.clients.on_ready(ready, streams, &self.state, intake);
    }

    /// Goes on with clients whose requests were answered, or for which there is room again. True if
    /// it did anything.
    pub fn resume(&mut self, intake: &mut impl Intake) -> bool {
        self.now = intake.now();
        self.clients.resume(&self.state, intake)
    }

    /// Notes how the replica stands; the figures of the door and of the state. To be called now and
    /// then, and before each long wait.
    pub fn publish(&mut self, view: &View, state_time_ahead_ms: i64) -> Figures {
        self.has_served |= view.serves();
        self.state.sweep(self.now);
        self.clients.note_state_time(state_time_ahead_ms);
        let holding = self.state.holding();
        Figures { keys: holding.keys, memory_bytes: holding.memory_bytes, ..self.clients.figures() }
    }
}
