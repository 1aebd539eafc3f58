//! The replicated state machine: a store, the record of what was executed for each member and
//! client, and the prefix of the log that is applied.
//!
//! Every replica applies the same values in the same order and holds the same state.
//!
//! - M1 the state after a value is a function of the state before it and the value's bytes. This
//!   module has no clock, no randomness and no arbitrary order; [`Machine::digest`] compares
//!   replicas.
//! - M2 a (origin, sequence) is executed at most once, whatever the log repeats, and every
//!   repetition gets the recorded reply. By [`Sessions`]; test
//!   `m2_a_counter_counts_each_command_once`.
//! - M3 state time never falls: it is the largest stamp applied. By [`Store::advance_time`].
//! - M4 a transaction is executed whole or, if one guard fails, not at all. By construction: one
//!   frame, checked to its end before its first command runs. As in Redis, a command in it that
//!   answers an error does not undo the others.
//! - M5 slots rise. Asserted. They need not be adjacent: the caller may skip values that count as
//!   never proposed.
//! - M6 a command in fragments is executed when its last fragment is applied and every fragment
//!   before it was, one directly after the other. Any frame that is not the continuation drops the
//!   collected fragments, on every replica alike: their leader has died, and their origin sends the
//!   command again. Test `m6_a_leader_that_dies_between_fragments_executes_nothing`.
//! - M7 a value that is not a batch changes nothing but the prefix.
//! - M8 a call of a client session is executed at most once, whichever member or connection repeats
//!   it, and whatever processes died meanwhile. By [`ClientSessions`]; sessions expire with state
//!   time, before the commands of the value that advanced it. Test
//!   `m8_a_call_is_executed_once_whoever_repeats_it`.
//! - M9 the cost of executing a command is bounded, since every member executes it, again after
//!   each restart: by [`Reply::bounded`] and [`STEPS_MAX`](crate::reply::STEPS_MAX), out of which
//!   commands pay for what they look at and copy (`exec::steps`). Tests
//!   `m9_a_reply_that_no_member_could_hold_is_not_made` and
//!   `m9_a_transaction_reads_so_many_bytes_and_no_more`.
//! - M10 more expired keys are removed than keys come that will expire: a value removes two for
//!   each change that it makes, and one without commands removes many. By `Batch::removals`. Tests
//!   `m10_...`.
//!
//! Reads outside of the log are in [`read`](Machine::read): by type they cannot change the state.

mod assembly;
mod read;
pub(crate) mod session;

pub(crate) use assembly::{Assembly, Pending};
pub use read::ReadOutcome;

use base::{Prefix, Slot};

use crate::client_sessions::ClientSessions;
use crate::command::{Args, resolve};
use crate::entry::command::{Item, Items};
use crate::entry::{Batch, Command, CommandError, EntryError, Origin, Sequence};
use crate::exec::database_or_reply;
use crate::reply::{Protocol, Reply};
use crate::sessions::{Sessions, Verdict};
use crate::store::{Db, Published, Store};
use crate::text;

/// The replicated state; see the module's text.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(crate) store: Store,
    pub(crate) sessions: Sessions,
    pub(crate) clients: ClientSessions,
    pub(crate) assembly: Assembly,
    /// The applied prefix.
    pub(crate) prefix: Prefix,
    /// A buffer for the reply that is being made; not part of the state.
    reply: Reply,
}

impl Machine {
    /// The state before the first value. `memory_bytes_max` (zero: none) is the store's limit and
    /// must be the same at every replica.
    pub fn new(memory_bytes_max: u64) -> Machine {
        Machine::from_parts(
            Store::new(memory_bytes_max),
            Sessions::new(),
            ClientSessions::new(),
            Assembly::default(),
            Prefix::ZERO,
        )
    }

    pub(crate) fn from_parts(
        store: Store,
        sessions: Sessions,
        clients: ClientSessions,
        assembly: Assembly,
        prefix: Prefix,
    ) -> Machine {
        Machine { store, sessions, clients, assembly, prefix, reply: Reply::default() }
    }

    /// A machine with this state and no sessions of members.
    pub(crate) fn of_state(store: Store, clients: ClientSessions) -> Machine {
        let sessions = Sessions::new();
        Machine::from_parts(store, sessions, clients, Assembly::default(), Prefix::ZERO)
    }

    /// The keys and values.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The messages that were published since the last call, for subscribers. Not part of the
    /// state.
    pub fn take_published(&mut self) -> Vec<Published> {
        self.store.take_published()
    }

    /// The executed commands of each member.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The executed calls of each client session.
    pub fn client_sessions(&self) -> &ClientSessions {
        &self.clients
    }

    /// The applied prefix.
    pub fn prefix(&self) -> Prefix {
        self.prefix
    }

    /// State time: the largest stamp applied, Unix milliseconds; 0 before the first.
    pub fn state_ms(&self) -> u64 {
        self.store.now_ms()
    }

    /// Executes the value that was decided for `slot`, and gives each of its commands' replies to
    /// `sink`, also those of commands that had been executed before. An empty value changes
    /// nothing.
    ///
    /// # Errors
    /// The value is not a batch, which is a bug of its proposer. The state has not changed (M7).
    ///
    /// # Panics
    /// If `slot` is below the prefix (M5).
    pub fn apply(
        &mut self,
        slot: Slot,
        value: &[u8],
        sink: &mut impl FnMut(Origin, Sequence, &[u8]),
    ) -> Result<(), EntryError> {
        assert!(!self.prefix.contains(slot), "M5: {slot:?} is below {:?}", self.prefix);
        self.prefix = slot.prefix_through();
        if value.is_empty() {
            return Ok(());
        }
        let batch = Batch::check(value)?;
        self.store.advance_time(batch.stamp_ms);
        self.clients.expire(self.store.now_ms());
        let n_changes = self.store.n_changes();
        for (at, frame) in batch.frames().enumerate() {
            // The only randomness in the log, which is the same at every replica.
            let seed = slot.0.rotate_left(20) ^ at as u64;
            let Some(place) = frame.place else {
                self.assembly.drop_it();
                self.execute_once(frame.origin, frame.sequence, frame.bytes, seed, sink);
                continue;
            };
            if let Some(command) =
                self.assembly.add(frame.origin, frame.sequence, place, frame.bytes)
            {
                self.execute_once(frame.origin, frame.sequence, &command, seed, sink);
            }
        }
        let n_changes = self.store.n_changes() - n_changes;
        self.store.remove_expired(batch.removals(n_changes));
        Ok(())
    }

    /// M2: the only way from a frame to the store.
    fn execute_once(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        command: &[u8],
        seed: u64,
        sink: &mut impl FnMut(Origin, Sequence, &[u8]),
    ) {
        let definite = match self.sessions.judge(origin, sequence) {
            Verdict::Fresh => {
                let Machine { store, clients, reply, .. } = self;
                reply.clear();
                let too_long =
                    || if is_read(command) { text::ANSWER_TOO_LONG } else { text::UNKNOWN_REPLY };
                reply.bounded_or(too_long, |reply| execute(store, clients, command, seed, reply));
                self.sessions.record(origin, sequence, self.reply.as_bytes());
                sink(origin, sequence, self.reply.as_bytes());
                return;
            }
            Verdict::Answered(reply) => {
                sink(origin, sequence, reply);
                return;
            }
            // A second execution of the read would show later writes of the same client.
            Verdict::Forgotten | Verdict::BelowWindow | Verdict::PastLife if is_read(command) => {
                text::TRY_AGAIN
            }
            Verdict::Forgotten => text::UNKNOWN_REPLY,
            Verdict::BelowWindow => text::UNKNOWN_TOO_OLD,
            Verdict::PastLife => text::UNKNOWN_PAST_LIFE,
        };
        self.reply.clear();
        self.reply.error(definite);
        sink(origin, sequence, self.reply.as_bytes());
    }
}

/// Whether this command, which is in the log behind writes of its client, changes nothing but time.
fn is_read(command: &[u8]) -> bool {
    match Command::decode(command) {
        Ok(Command::Plain { args, .. }) => {
            resolve(&args, &mut Reply::default()).is_some_and(|spec| !spec.is_write())
        }
        Ok(_) | Err(_) => false,
    }
}

/// Executes the bytes of one command and appends exactly one reply.
fn execute(
    store: &mut Store,
    clients: &mut ClientSessions,
    command: &[u8],
    seed: u64,
    reply: &mut Reply,
) {
    match Command::decode(command) {
        Ok(Command::Session(command)) => {
            let place = session::Place { now_ms: store.now_ms(), modulus: 1, residue: 0 };
            session::execute(place, clients, command, reply, |command, reply| {
                execute_plain(store, Command::decode(command), seed, reply);
            });
        }
        other => execute_plain(store, other, seed, reply),
    }
}

/// Executes a command outside of a session, or a call inside one.
fn execute_plain(
    store: &mut Store,
    command: Result<Command<'_>, CommandError>,
    seed: u64,
    reply: &mut Reply,
) {
    match command {
        Ok(Command::Plain { db, protocol, args }) => {
            reply.set_protocol(protocol);
            execute_args(store, db, &args, seed, reply);
        }
        Ok(Command::Transaction { db, protocol, guards, items }) => {
            reply.set_protocol(protocol);
            let mut guards = guards;
            if !guards.all(|(key, version)| store.version(key) == version) {
                reply.null_array();
            } else if store.is_over_memory() && items.clone().any(|item| item.grows()) {
                // As in Redis a transaction is executed whole or not at all, and is not stopped in
                // the middle.
                reply.error(text::OUT_OF_MEMORY_IN_EXEC);
            } else {
                store.admit_growth(true);
                execute_all(store, db, items, seed, reply);
                store.admit_growth(false);
            }
        }
        // A read has no place in the log, and a session has none in a session: both are malformed.
        Ok(Command::Versions { .. } | Command::Session(_)) | Err(_) => {
            reply.set_protocol(Protocol::Resp2);
            reply.error(text::MALFORMED);
        }
    }
}

fn execute_all(store: &mut Store, mut db: Db, items: Items<'_>, seed: u64, reply: &mut Reply) {
    reply.array(items.len());
    for (at, item) in items.enumerate() {
        match item {
            Item::Execute(args) if select(&args, &mut db, reply) => {}
            Item::Execute(args) => {
                execute_args(store, db, &args, seed.rotate_left(32) ^ at as u64, reply);
            }
            Item::Answered(answer) => reply.raw(answer),
        }
    }
}

/// Handles a SELECT among the commands of a transaction, after which they concern another database.
/// False for any other command.
pub(crate) fn select(args: &Args<'_>, db: &mut Db, reply: &mut Reply) -> bool {
    if !args[0].eq_ignore_ascii_case(b"select") || args.len() != 2 {
        return false;
    }
    if let Some(selected) = database_or_reply(args[1], reply) {
        *db = selected;
        reply.ok();
    }
    true
}

fn execute_args(store: &mut Store, db: Db, args: &Args<'_>, seed: u64, reply: &mut Reply) {
    // The door has resolved it too; the check here answers a door of another version.
    match resolve(args, reply) {
        Some(spec) if spec.is_for_store() => store.execute(db, spec, args, seed, reply),
        Some(_) => reply.error(text::MALFORMED),
        None => {}
    }
}

#[cfg(test)]
mod tests;
