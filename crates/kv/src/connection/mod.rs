//! A client's connection, without its socket: bytes in, requests out, replies back in order.
//!
//! The connection answers the commands that concern itself (PING, HELLO, MULTI ...) and passes the
//! others to its owner: a write, which must go through the log; a read, which must be linearizable;
//! WAIT, INFO, GREGALE.MEMBER and CLIENT LIST, which concern more than one connection. The owner
//! may answer in any order.
//!
//! - C1 replies leave in the order of the requests. By construction: `queue::Replies` reserves a
//!   place for each request and lets bytes out from the front only.
//! - C2 a connection sees its own order: a read is not asked for while writes before it have no
//!   answer, unless it follows them through the log; a write is not asked for while reads outside
//!   of the log have no answer. Those reads overlap each other, and do not go back in time (C14 in
//!   `pace`); requests through the log, which the owner keeps in order, overlap too. By
//!   `Door::may_go` and `logged`; tests `c2_a_connection_sees_its_own_order`,
//!   `c2_reads_behind_writes_follow_them_through_the_log`.
//! - C3 the memory that a client can occupy here is bounded: input by [`INPUT_BYTES_MAX`] and one
//!   feeding, requests without an answer by [`PIPELINE_DEPTH_MAX`] (the bytes of each answer by
//!   [`ANSWER_BYTES_MAX`](crate::reply::ANSWER_BYTES_MAX)), a transaction by [`QUEUED_BYTES_MAX`],
//!   watched keys by [`WATCHED_BYTES_MAX`]. At a bound no more input is read:
//!   [`Connection::wants_input`].
//! - C8 a client that writes its whole pipeline before it reads gets its replies: while
//!   [`OUTPUT_BYTES_MAX`] of them are unread no further request is executed for it, but up to
//!   [`UNREAD_INPUT_BYTES_MAX`] of input are read from it. Test
//!   `c8_a_client_that_writes_before_it_reads_is_served`.
//! - C4 each request is answered once; an answer to a request that does not wait is ignored, and
//!   its caller is told so.
//! - C5 EXEC executes only if every watched key is as WATCH saw it. A WATCH that fails, or is too
//!   large, makes the next EXEC abort: a client that ignored that error must not lose its guard. A
//!   read behind a WATCH is performed after it, so that the data on which a client decides is
//!   guarded.
//! - C6 a client that has not given the password reaches nothing but AUTH, HELLO, RESET and QUIT.
//! - C7 a call of a session goes to the session that was resumed or opened before it: no request
//!   overtakes the opening. By `Waiting::Open`; test
//!   `c7_calls_wait_for_the_session_that_is_being_opened`.
//! - C13 messages that a subscriber has not read are bounded by `client-output-buffer-limit`, for
//!   clients of its kind: above the limit its connection ends, as in Redis. Test
//!   `c13_a_subscriber_that_does_not_read_is_cut_off`.
//! - C11 a command concerns the database that the last SELECT before it chose, also a SELECT in a
//!   transaction if that was executed. By `Waiting::Exec`; test
//!   `c11_a_select_in_a_transaction_counts_once_it_is_executed`.
//! - C12 while clients are paused none of their writes is asked for, or no request at all. Earlier
//!   requests are answered. By `Door::pauses` and `is_paused`; tests `c12_*`.
//!
//! Differences from Redis: a transaction takes commands of the store and a few of the connection's
//! (PING, ECHO, SELECT, UNWATCH, CLIENT ID and GETNAME, COMMAND COUNT); there are no sharded
//! channels; CONFIG SET changes only `client-output-buffer-limit`, and only at this member.

mod auth;
mod channels;
mod client;
mod config;
mod counts;
mod door;
mod held;
mod limits;
mod logged;
mod pace;
mod pause;
mod queue;
mod session;
mod topology;
mod transaction;

pub use channels::{ChannelQuery, PATTERNS_BYTES_MAX, SUBSCRIBED_BYTES_MAX, answer_channels};
pub use counts::{Count, Counts};
pub use held::{ClientFilter, TopologyQuery};
pub use limits::{OutputClass, OutputLimit, OutputLimits, bytes_of};
pub use pause::Pauses;
pub use topology::{Node, Topology};

use core::time::Duration;
use std::sync::Arc;

use base::{Instant, Prefix, Slot};

use crate::reply::{Protocol, Reply, clear_keeping};
use crate::resp::{INPUT_BYTES_MAX, Parse, Parser, too_long};
use crate::store::Published;
use crate::text;
use door::Door;
use held::Kind;
use queue::Waiting;

pub use transaction::{QUEUED_BYTES_MAX, WATCHED_BYTES_MAX};

/// The most requests of one connection without an answer.
pub const PIPELINE_DEPTH_MAX: usize = 1024;

/// The bytes of unread replies above which no further requests of a client are executed.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// The most input that is kept of a client that does not read its replies.
pub const UNREAD_INPUT_BYTES_MAX: usize = 64 << 20;

/// The most connections of one replica, unless configured otherwise; the same as Redis.
pub const CONNECTIONS_MAX: usize = 10_000;

/// The size above which a buffer's memory is freed when it is empty.
const BUFFER_BYTES_KEPT: usize = 256 << 10;

/// The version of Redis that clients are told: its commands, replies and errors are implemented
/// here.
pub const REDIS_VERSION: &str = "7.0.15";

/// The settings and figures that all connections of a replica share.
#[derive(Clone, Debug)]
pub struct Config {
    /// The password that clients must give; `None` admits every client.
    pub requirepass: Option<String>,
    /// The store's memory limit in bytes, for CONFIG GET; zero means none.
    pub memory_bytes_max: u64,
    /// The number of connections that the owner accepts, for CONFIG GET.
    pub connections_max: usize,
    /// The limits of the answers that may wait for a client, for CONFIG GET and SET.
    pub output_limits: OutputLimits,
    /// The pause of all clients that one of them has asked for.
    pub pauses: Arc<Pauses>,
    /// The calls of commands, at all connections together.
    pub counts: Arc<Counts>,
    /// Whether clients are told of a Redis Cluster whose nodes the members are.
    pub is_cluster: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            requirepass: None,
            memory_bytes_max: 0,
            connections_max: CONNECTIONS_MAX,
            output_limits: OutputLimits::default(),
            pauses: Arc::default(),
            counts: Arc::default(),
            is_cluster: false,
        }
    }
}

/// The socket's part of CLIENT LIST.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// A number that this replica gives only once.
    pub id: u64,
    /// The client's address.
    pub address: String,
    /// The address to which the client connected.
    pub local_address: String,
}

/// The name of a request of one connection. Later requests have larger names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request of the connection to its owner. Each is to be answered once, by its `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Execute this command ([`entry::command`](crate::entry::command)) through the log, after
    /// those asked for before. It may be a read that has to see them. Answer with
    /// [`Connection::executed`] or [`Connection::fail`].
    Write {
        /// The name of the request, for the answer.
        id: RequestId,
        /// The command's bytes.
        command: &'a [u8],
    },
    /// Answer this command from a state that is recent enough, with
    /// [`Machine::read`](crate::machine::Machine::read) here or at another member. The bytes stay
    /// available in [`Connection::read_command`]. Answer with [`Connection::answer`] or
    /// [`Connection::fail`].
    Read {
        /// The name of the request, for the answer.
        id: RequestId,
        /// The command's bytes.
        command: &'a [u8],
    },
    /// Wait until `n` members other than the leader hold `after`, or the time is over. Answer with
    /// [`Connection::answer_integer`].
    Wait {
        /// The name of the request, for the answer.
        id: RequestId,
        /// The number of members; may be zero.
        members: u64,
        /// The time to wait; `None` for as long as the owner allows.
        timeout: Option<Duration>,
        /// The prefix that covers all writes of this connection.
        after: Prefix,
    },
    /// Report the replica's status. Answer with [`Connection::answer_text`].
    Info {
        /// The name of the request, for the answer.
        id: RequestId,
        /// The sections asked for, in lower case; an empty list means the default ones.
        sections: &'a [String],
        /// The prefix that covers all writes of this connection, which the answer must reflect.
        after: Prefix,
    },
    /// Change the members. Answer with [`Connection::answer_text`] or [`Connection::fail`].
    Member {
        /// The name of the request, for the answer.
        id: RequestId,
        /// The action and the member, in lower case.
        words: &'a [String],
    },
    /// Report the subscriptions of all connections here, with [`answer_channels`]. Answer with
    /// [`Connection::answer_by`].
    Channels {
        /// The name of the request, for the answer.
        id: RequestId,
        /// The question.
        query: &'a ChannelQuery,
    },
    /// Report the members, by [`Topology::answer`]. Answer with [`Connection::answer_by`].
    Topology {
        /// The name of the request, for the answer.
        id: RequestId,
        /// The question.
        query: &'a TopologyQuery,
    },
    /// Describe the connections that the filter accepts, one [`Connection::describe`] per line.
    /// Answer with [`Connection::answer_text`].
    Clients {
        /// The name of the request, for the answer.
        id: RequestId,
        /// The selection of connections.
        filter: &'a ClientFilter,
    },
    /// End the connections that the filter accepts with [`Connection::kill`], except the one that
    /// asks. Answer with [`Connection::answer_kill`], whether the filter accepts that one or not.
    Kill {
        /// The name of the request, for the answer.
        id: RequestId,
        /// The selection of connections.
        filter: &'a ClientFilter,
    },
}

/// The input that has arrived and is not yet parsed.
#[derive(Debug, Default)]
struct Input {
    bytes: Vec<u8>,
    /// The number of bytes that have been used.
    at: usize,
    parser: Parser,
    /// No more input will arrive.
    has_ended: bool,
}

/// The connection of a client; see the module's text.
#[derive(Debug)]
pub struct Connection {
    input: Input,
    door: Door,
    /// Another client has ended the connection.
    is_killed: bool,
}

impl Connection {
    /// A connection that has just been accepted.
    pub fn new(config: Arc<Config>, identity: Identity, now: Instant) -> Connection {
        let parser = Parser::new(config.requirepass.is_none());
        let input = Input { parser, ..Input::default() };
        Connection { input, door: Door::new(config, identity, now), is_killed: false }
    }

    /// Takes bytes that have arrived. Ask [`Connection::wants_input`] first.
    pub fn feed(&mut self, bytes: &[u8], now: Instant) {
        self.door.seen.last_input = now;
        let Input { bytes: input, at, .. } = &mut self.input;
        if self.door.is_closing {
            return; // what follows the end of a conversation is not read, as in Redis
        }
        if *at == input.len() {
            clear_keeping(input, BUFFER_BYTES_KEPT);
            *at = 0;
        } else if *at > input.len() / 2 {
            // Not each time: of much that waits only a little may have been used.
            input.drain(..*at);
            *at = 0;
        }
        input.extend_from_slice(bytes);
    }

    /// Whether to read more input from the client (C3, C8).
    pub fn wants_input(&self) -> bool {
        let most = match (self.door.has_room(), self.door.is_read()) {
            (true, _) => INPUT_BYTES_MAX,
            (false, false) => UNREAD_INPUT_BYTES_MAX,
            (false, true) => 0,
        };
        !self.door.is_closing
            && !self.input.has_ended
            && self.input.bytes.len() - self.input.at < most
    }

    /// Whether further requests may be taken, if more have arrived: not while too many have no
    /// answer, or too many answers are unsent (C3).
    pub fn has_room(&self) -> bool {
        self.door.has_room()
    }

    /// The next request that the owner must handle for this client; `None` until there is more
    /// input, or more answers.
    pub fn next_request(&mut self) -> Option<Request<'_>> {
        if let Some(id) = self.door.replies.ask_again() {
            let command = self.door.replies.read_command(id)?;
            return Some(Request::Read { id, command });
        }
        let (id, kind) = self.advance()?;
        let door = &self.door;
        Some(match kind {
            Kind::Write | Kind::LongWrite | Kind::LoggedRead | Kind::Exec | Kind::Open => {
                Request::Write { id, command: &door.held.command }
            }
            Kind::Read | Kind::KeyedRead | Kind::Watch => {
                Request::Read { id, command: &door.held.command }
            }
            Kind::Wait { members, timeout } => {
                Request::Wait { id, members, timeout, after: door.written }
            }
            Kind::Info => Request::Info { id, sections: &door.held.sections, after: door.written },
            Kind::Member => Request::Member { id, words: &door.held.sections },
            Kind::Clients => Request::Clients { id, filter: &door.held.filter },
            Kind::Kill => Request::Kill { id, filter: &door.held.filter },
            Kind::Channels => Request::Channels { id, query: &door.subscriptions.query },
            Kind::Topology => Request::Topology { id, query: &door.held.topology },
        })
    }

    fn advance(&mut self) -> Option<(RequestId, Kind)> {
        let Connection { input, door, is_killed } = self;
        if *is_killed {
            return None;
        }
        loop {
            if !door.held.is_empty() {
                if let Some(request) = door.release() {
                    return Some(request);
                }
                // The held request was released without asking the owner, or is still held.
                if !door.held.is_empty() {
                    return None;
                }
            }
            if door.is_closing || door.is_waiting() || !door.has_room() || door.is_paused() {
                return None;
            }
            match input.parser.parse(&input.bytes[input.at..]) {
                Ok(Parse::Request(request)) => {
                    door.seen.n_request = request.consumed();
                    door.handle(&request.args());
                    input.at += request.consumed();
                    input.parser.set_authenticated(door.is_authenticated);
                }
                Ok(Parse::TooLong { consumed }) => {
                    input.at += consumed;
                    door.refuse(too_long().as_bytes());
                }
                Ok(Parse::More { consumed }) => {
                    input.at += consumed;
                    door.is_closing |= input.has_ended;
                    return None;
                }
                Err(error) => {
                    door.refuse(&error.reply());
                    door.is_closing = true;
                }
            }
        }
    }

    /// The bytes of a read that waits; `None` once it is answered.
    pub fn read_command(&self, id: RequestId) -> Option<&[u8]> {
        self.door.replies.read_command(id)
    }

    /// Whether the answer to the read `id` is taken now. If not, the owner puts the read off,
    /// before or after performing it (C9, C14).
    pub fn takes_answer(&self, id: RequestId) -> bool {
        self.door.replies.takes_answer(id)
    }

    /// Puts off the read `id`, since its client does not read its earlier answers. It is asked for
    /// again later. False if it was not waiting (C4).
    pub fn put_off(&mut self, id: RequestId) -> bool {
        let is_waiting = self.read_command(id).is_some();
        if is_waiting {
            self.door.replies.pace.put_off(id);
        }
        is_waiting
    }

    /// Whether requests wait here until the client has read: ask for requests when it has.
    pub fn is_held_up(&self) -> bool {
        !self.door.held.is_empty() || self.door.replies.pace.has_put_off() || !self.has_room()
    }

    /// Whether more answers wait for the client than `client-output-buffer-limit` allows. The owner
    /// then closes the connection.
    pub fn is_over_limit(&mut self, now: Instant) -> bool {
        let class = if self.is_subscribed() { OutputClass::PubSub } else { OutputClass::Normal };
        let limit = self.door.config.output_limits.of(class);
        let n_bytes = self.door.replies.waiting_bytes();
        self.door.replies.pace.is_over(limit, n_bytes, now)
    }

    /// Answers the write `id`, which was executed in `slot`, with `reply`. False if it was not
    /// waiting (C4).
    pub fn executed(&mut self, id: RequestId, slot: Slot, reply: &[u8]) -> bool {
        self.door.written = self.door.written.max(slot.prefix_through());
        self.answer(id, reply)
    }

    /// Answers `id` with `reply`, a complete reply in RESP. False if it was not waiting (C4).
    pub fn answer(&mut self, id: RequestId, reply: &[u8]) -> bool {
        self.door.answer(id, reply)
    }

    /// Fails `id`: `text`, one of [`crate::text`], states its fate. False if it was not waiting
    /// (C4).
    pub fn fail(&mut self, id: RequestId, text: &str) -> bool {
        self.door.answer_with(id, |reply| reply.error(text))
    }

    /// Answers `id` with a number. False if it was not waiting (C4).
    pub fn answer_integer(&mut self, id: RequestId, value: u64) -> bool {
        self.door.answer_with(id, |reply| reply.integer(value as i64))
    }

    /// Answers `id` with a text to be shown as it is. False if it was not waiting (C4).
    pub fn answer_text(&mut self, id: RequestId, text: &str) -> bool {
        self.door.answer_with(id, |reply| reply.verbatim(text))
    }

    /// Fails the write `id`, whose outcome is unknown. (If it was a read in the log, it had no
    /// effect.) False if it was not waiting (C4).
    pub fn unknown(&mut self, id: RequestId) -> bool {
        let text = match self.door.replies.waiting(id) {
            Some((Waiting::Write | Waiting::LongWrite | Waiting::Open | Waiting::Exec(_), _)) => {
                text::UNKNOWN_OUTCOME
            }
            Some(_) => text::TRY_AGAIN,
            None => return false,
        };
        self.fail(id, text)
    }

    /// Answers `id` with a reply that is encoded here, in the protocol of the request. False if it
    /// was not waiting (C4).
    pub fn answer_by(&mut self, id: RequestId, encode: impl FnOnce(&mut Reply)) -> bool {
        self.door.answer_with(id, encode)
    }

    /// Whether the client is subscribed to a channel or pattern.
    pub fn is_subscribed(&self) -> bool {
        self.door.subscriptions.n() > 0
    }

    /// Sends the client a published message, once for the channel and for each pattern to which it
    /// is subscribed; returns the number of copies. The owner closes the connection where they are
    /// too many (C13).
    pub fn hear(&mut self, published: &Published) -> usize {
        let times = self.door.hear(published);
        if times.is_none() {
            self.kill();
        }
        times.unwrap_or(1)
    }

    /// The address to which the client connected, without the port.
    pub fn local_host(&self) -> &str {
        let local = &self.door.identity.local_address;
        local.rsplit_once(':').map_or(local, |(host, _)| host)
    }

    /// Fails every request without an answer: the owner has lost them. Writes are then unknown, and
    /// reads had no effect.
    pub fn fail_all(&mut self) {
        while let Some((id, _)) = self.door.replies.first_waiting() {
            self.unknown(id);
        }
    }

    /// The replies to send.
    pub fn output(&self) -> &[u8] {
        self.door.replies.output()
    }

    /// Notes that the first `n` bytes of the output have been sent.
    pub fn sent(&mut self, n: usize) {
        self.door.replies.sent(n);
    }

    /// Whether requests have no answer.
    pub fn is_busy(&self) -> bool {
        self.door.replies.n_waiting() > 0 || !self.door.held.is_empty()
    }

    /// Whether to close the socket: the conversation is over and everything has been sent.
    pub fn is_finished(&self) -> bool {
        let is_over = self.door.is_closing && !self.is_busy() && self.output().is_empty();
        self.is_killed || is_over
    }

    /// Ends the connection at once; unsent output is dropped.
    pub fn kill(&mut self) {
        self.is_killed = true;
        self.door.is_closing = true;
    }

    /// Answers that so many connections were ended. If the filter accepts this connection, it ends
    /// after that answer. False if it was not waiting (C4).
    pub fn answer_kill(&mut self, id: RequestId, filter: &ClientFilter, n_others: u64) -> bool {
        let is_accepted = filter.accepts(self);
        let was_waiting = self.door.answer_kill(id, filter, n_others + u64::from(is_accepted));
        self.door.is_closing |= is_accepted;
        was_waiting
    }

    /// Notes the end of the client's input. Requests that it has sent are still executed and
    /// answered.
    pub fn end_of_input(&mut self) {
        self.input.has_ended = true;
    }

    /// The number of the connection, for CLIENT ID.
    pub fn id(&self) -> u64 {
        self.door.identity.id
    }

    /// The protocol that the client has chosen.
    pub fn protocol(&self) -> Protocol {
        self.door.protocol
    }

    /// The line that CLIENT LIST shows, without its end.
    pub fn describe(&self, now: Instant) -> String {
        let Input { bytes: input, at, .. } = &self.input;
        // As in Redis, a request counts as input until it is answered.
        let n_current = if self.is_busy() { self.door.seen.n_request } else { 0 };
        let n_input = input.len() - at + n_current;
        self.door.describe(now, n_input, input.capacity().saturating_sub(n_input))
    }
}

#[cfg(test)]
mod tests;
