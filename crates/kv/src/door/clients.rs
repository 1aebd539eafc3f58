//! All connections of a member, and the requests and answers that pass through them.
//!
//! - I1 a client that does not take its replies is not served further, and is read from up to a
//!   bound: [`Connection::wants_input`] decides. Its reads are put off, whether they are performed
//!   here or elsewhere, and the connection is closed at its output limit.
//! - I2 a request is taken from a connection only if the desk has room for it. By
//!   [`RespClients::pump`].
//! - I3 a client's name (`key`) contains a count that only rises, so a late answer finds no client
//!   instead of another one.
//! - I4 a turn reads at most `READ_BYTES` from each client, and writes each client's replies with
//!   one call. By construction.

mod listed;
mod told;

use super::outside::{Config, Figures, Outside, STATUS_SECTION};
use super::state::Holds;
use crate::connection::{self, Connection, Identity, Request, RequestId};
use crate::text;
use base::Instant;
use core::time::Duration;
use engine::streams::{Broken, Interest, Ready, Received, STREAMS_MAX, Streams, key_of, place_of};
use engine::{Answer, Application, Asker, Desk, Performed, ReadAnswer};
use slab::Slab;
use std::collections::BTreeSet;
use std::sync::Arc;
use told::Inquiry;

/// The most bytes that one turn reads from one client.
const READ_BYTES: usize = 64 << 10;
/// The most clients that one turn accepts.
const ACCEPTS_MAX: usize = 64;
/// The interval at which clients without events are checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Client {
    pub(super) connection: Connection,
    key: u64,
    interest: Interest,
    /// The client will send nothing more.
    has_ended: bool,
    /// The client is on the list of clients with replies to send.
    pub(super) is_dirty: bool,
    /// The client is on the list of clients that may have another request.
    is_runnable: bool,
}

/// All connections of a member; see the module's text.
#[derive(Debug)]
pub struct RespClients<O> {
    pub(super) config: Config,
    /// The process around them.
    pub outside: O,
    shared: Arc<connection::Config>,
    pub(super) clients: Slab<Client>,
    /// The clients that are subscribed to channels.
    pub(super) subscribers: BTreeSet<u64>,
    n_accepted: u64,
    pub(super) dirty: Vec<u64>,
    runnable: Vec<u64>,
    /// The clients that wait for room on the desk.
    stalled: Vec<u64>,
    /// The INFO requests of clients whose writes are not executed here yet.
    inquiries: Vec<Inquiry>,
    /// The reason why nothing is executed here, if that is so.
    refusal: Option<&'static str>,
    figures: Figures,
    /// The time of the next check of clients without events.
    look_at: Instant,
    scratch: Box<[u8]>,
    reply: Vec<u8>,
}

impl<O: Outside> RespClients<O> {
    /// A set of clients without a connection yet.
    pub fn new(config: Config, outside: O) -> RespClients<O> {
        RespClients {
            shared: Arc::new(config.connections.clone()),
            config,
            outside,
            clients: Slab::new(),
            subscribers: BTreeSet::new(),
            n_accepted: 0,
            dirty: Vec::new(),
            runnable: Vec::new(),
            stalled: Vec::new(),
            inquiries: Vec::new(),
            refusal: None,
            figures: Figures::default(),
            look_at: Instant::ZERO,
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            reply: Vec::new(),
        }
    }

    /// Answers reads and writes with this error from now on.
    pub fn refuse_all(&mut self, why: &'static str) {
        self.refusal = Some(why);
    }

    /// How many seats the cluster has, taken or not.
    pub(super) fn n_seats(&self) -> u16 {
        self.config.members.len() as u16
    }

    /// Notes how far state time is ahead of the wall clock, for INFO.
    pub fn note_state_time(&mut self, ahead_ms: i64) {
        self.figures.state_time_ahead_ms = ahead_ms;
    }

    /// The door's own figures; the state's figures are zero.
    pub fn figures(&self) -> Figures {
        let (clients, clients_accepted) = (self.clients.len() as u64, self.n_accepted);
        Figures { clients, clients_accepted, ..self.figures }
    }

    /// Accepts clients that wait.
    pub fn accept(&mut self, streams: &mut impl Streams, now: Instant) {
        for _ in 0..ACCEPTS_MAX {
            let Some(incoming) = streams.accept() else { return };
            self.admit(incoming, streams, now);
        }
    }

    fn admit<S: Streams>(&mut self, incoming: S::Incoming, streams: &mut S, now: Instant) {
        let limit = self.shared.connections_max.min(STREAMS_MAX);
        if self.clients.len() >= limit {
            self.figures.clients_refused += 1;
            streams.refuse(incoming, format!("-{}\r\n", text::TOO_MANY_CLIENTS).as_bytes());
            return;
        }
        self.n_accepted += 1;
        let place = self.clients.vacant_entry();
        let key = key_of(self.n_accepted, place.key());
        let Ok(addresses) = streams.admit(incoming, key) else { return };
        let identity = Identity {
            id: self.n_accepted,
            address: addresses.client,
            local_address: addresses.local,
        };
        place.insert(Client {
            connection: Connection::new(Arc::clone(&self.shared), identity, now),
            key,
            interest: Interest::Read,
            has_ended: false,
            is_dirty: false,
            is_runnable: false,
        });
    }

    pub(super) fn client(&mut self, key: u64) -> Option<&mut Client> {
        find(&mut self.clients, key)
    }

    fn close(&mut self, key: u64, streams: &mut impl Streams, desk: &mut Desk) {
        if self.client(key).is_some() {
            streams.close(key);
            self.clients.remove(place_of(key));
            self.subscribers.remove(&key);
            desk.forget_waits(key);
        }
    }

    /// Handles a client's stream that is ready.
    pub fn on_ready(
        &mut self,
        ready: Ready,
        streams: &mut impl Streams,
        state: &impl Holds,
        desk: &mut Desk,
    ) {
        let is_unread = |client: &mut Client| !client.interest.reads();
        if ready.readable && self.client(ready.key).is_some_and(is_unread) {
            // A stream that is not read, and reports more than room, is broken. It would report
            // that for ever, and a WAIT of its client has perhaps no end.
            return self.close(ready.key, streams, desk);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        if ready.writable {
            self.mark_dirty(ready.key);
        }
        if ready.readable {
            self.read(ready.key, &mut scratch, streams, state, desk);
        }
        self.scratch = scratch;
    }

    fn read(
        &mut self,
        key: u64,
        scratch: &mut [u8],
        streams: &mut impl Streams,
        state: &impl Holds,
        desk: &mut Desk,
    ) {
        let now = desk.now();
        let Some(client) = self.client(key) else { return };
        // The stream is readable after its end: the connection is broken, not just closed for
        // writing.
        if client.has_ended {
            return self.close(key, streams, desk);
        }
        if !client.connection.wants_input() {
            // I1
            return self.refresh_interest(key, streams, desk);
        }
        match streams.read(key, scratch) {
            Ok(Received::Nothing) => {}
            Ok(Received::End) => {
                client.has_ended = true;
                client.connection.end_of_input();
                self.pump(key, state, desk);
                self.mark_dirty(key);
            }
            Ok(Received::Bytes(n)) => {
                client.connection.feed(&scratch[..n], now);
                self.pump(key, state, desk);
            }
            Err(Broken) => self.close(key, streams, desk),
        }
    }

    /// Takes the connection's requests, as long as there is room for them (I2).
    fn pump(&mut self, key: u64, state: &impl Holds, desk: &mut Desk) {
        loop {
            if !desk.has_room() {
                self.stalled.push(key);
                break;
            }
            let Some(client) = find(&mut self.clients, key) else { return };
            let Some(request) = client.connection.next_request() else { break };
            self.figures.commands += 1;
            let lost = if desk.view().data_lost { Some(text::DATA_LOST) } else { None };
            let asker = |id: RequestId| Asker { connection: key, request: id.0 };
            match request {
                Request::Write { id, .. } | Request::Read { id, .. }
                    if self.refusal.or(lost).is_some() =>
                {
                    let why = self.refusal.or(lost).unwrap_or_default();
                    client.connection.fail(id, why);
                }
                Request::Write { id, command } => {
                    desk.write(asker(id), command);
                }
                Request::Read { id, .. } => desk.read(asker(id)),
                Request::Wait { id, members, timeout, after } => {
                    let n = usize::try_from(members).unwrap_or(usize::MAX);
                    if !desk.wait(asker(id), after, n, timeout) {
                        client.connection.fail(id, TOO_MANY_WAITS);
                    }
                }
                Request::Info { id, sections, after } => {
                    if sections.iter().any(|section| section == STATUS_SECTION) {
                        self.outside.ask_status(asker(id));
                        continue;
                    }
                    let sections = sections.to_vec();
                    self.inform(key, id, sections, after, state, desk);
                }
                Request::Member { id, words } => {
                    let words = words.to_vec();
                    self.change_members(key, id, &words, desk);
                }
                Request::Channels { id, query } => {
                    let query = query.clone();
                    self.answer_channels(key, id, &query);
                }
                Request::Topology { id, query } => {
                    let query = query.clone();
                    self.answer_topology(key, id, &query, desk);
                }
                Request::Clients { id, filter } => {
                    let filter = filter.clone();
                    self.answer_clients(key, id, &filter, desk);
                }
                Request::Kill { id, filter } => {
                    let filter = filter.clone();
                    self.kill(key, id, &filter);
                }
            }
        }
        self.note_subscriber(key);
        self.mark_dirty(key);
    }

    /// Performs this read, for which the state is now recent enough; the answer's bytes are charged
    /// to the turn.
    pub fn perform(
        &mut self,
        asker: Asker,
        stamp_ms: u64,
        state: &mut impl Application,
        desk: &mut Desk,
    ) -> Performed {
        if self.put_off(asker) {
            return Performed::Done;
        }
        let mut reply = std::mem::take(&mut self.reply);
        reply.clear();
        let id = RequestId(asker.request);
        let command =
            self.client(asker.connection).and_then(|client| client.connection.read_command(id));
        // A client that is gone, or was answered meanwhile, needs no answer.
        let performed =
            command.map_or(Performed::Done, |command| state.read(command, stamp_ms, &mut reply));
        if performed == Performed::Done {
            desk.charge(reply.len());
            self.deliver(asker, |connection, id| connection.answer(id, &reply));
        }
        self.reply = reply;
        performed
    }

    /// Whether the read is put off, since its client does not take its replies (I1). A write is
    /// not: it would not be asked for again.
    fn put_off(&mut self, asker: Asker) -> bool {
        let id = RequestId(asker.request);
        let Some(client) = self.client(asker.connection) else { return false };
        if client.connection.read_command(id).is_none() || client.connection.takes_answer(id) {
            return false;
        }
        self.ask_again(asker);
        true
    }

    /// Puts the read off: its connection asks for it again.
    pub fn ask_again(&mut self, asker: Asker) {
        self.figures.reads_put_off += 1;
        self.deliver(asker, Connection::put_off);
    }

    /// The bytes of a read, for the leader to answer.
    pub fn describe_read(&mut self, asker: Asker, out: &mut Vec<u8>) {
        let id = RequestId(asker.request);
        if let Some(client) = self.client(asker.connection)
            && let Some(command) = client.connection.read_command(id)
        {
            out.extend_from_slice(command);
        }
    }

    /// Ends the command that `asker` submitted.
    pub fn answer(&mut self, asker: Asker, answer: Answer<'_>) {
        self.deliver(asker, |connection, id| match answer {
            Answer::Executed(slot, reply) => connection.executed(id, slot, reply),
            Answer::Unknown => connection.unknown(id),
        });
    }

    /// Ends the read that `asker` submitted, without [`RespClients::perform`], or a write that was
    /// refused.
    pub fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>) {
        if matches!(answer, ReadAnswer::Forwarded(_)) && self.put_off(asker) {
            return;
        }
        self.deliver(asker, |connection, id| match answer {
            ReadAnswer::Forwarded(reply) => connection.answer(id, reply),
            ReadAnswer::Unavailable => connection.fail(id, text::TRY_AGAIN),
        });
    }

    /// Ends the wait of `asker`: `n` members besides the leader hold its writes.
    pub fn answer_wait(&mut self, asker: Asker, n: usize) {
        self.deliver(asker, |connection, id| connection.answer_integer(id, n as u64));
    }

    /// Answers `asker` with a text to be shown as it is.
    pub fn answer_text(&mut self, asker: Asker, text: &str) {
        self.deliver(asker, |connection, id| connection.answer_text(id, text));
    }

    pub(super) fn deliver(
        &mut self,
        asker: Asker,
        give: impl FnOnce(&mut Connection, RequestId) -> bool,
    ) {
        if let Some(client) = find(&mut self.clients, asker.connection) {
            give(&mut client.connection, RequestId(asker.request));
            mark(&mut client.is_dirty, client.key, &mut self.dirty);
            mark(&mut client.is_runnable, client.key, &mut self.runnable);
        }
    }

    fn mark_dirty(&mut self, key: u64) {
        if let Some(client) = find(&mut self.clients, key) {
            mark(&mut client.is_dirty, key, &mut self.dirty);
        }
    }

    fn mark_runnable(&mut self, key: u64) {
        if let Some(client) = find(&mut self.clients, key) {
            mark(&mut client.is_runnable, key, &mut self.runnable);
        }
    }

    /// Resumes clients whose requests were answered, or for which there is room again.
    pub fn resume(&mut self, state: &impl Holds, desk: &mut Desk) -> bool {
        let before = self.figures.commands;
        self.inform_late(state, desk);
        if self.shared.pauses.has_ended(desk.now()) {
            self.runnable.extend(self.clients.iter().map(|(_, client)| client.key));
            self.clients.iter_mut().for_each(|(_, client)| client.is_runnable = true);
        }
        let mut runnable = std::mem::take(&mut self.runnable);
        for key in runnable.drain(..) {
            if let Some(client) = self.client(key) {
                client.is_runnable = false;
                self.pump(key, state, desk);
            }
        }
        if self.runnable.is_empty() {
            self.runnable = runnable; // the buffer
        }
        if !self.stalled.is_empty() && desk.has_room() {
            for key in std::mem::take(&mut self.stalled) {
                self.pump(key, state, desk);
            }
        }
        self.figures.commands != before
    }

    /// Sends replies with one call per client, unless its stream is full.
    pub fn flush(&mut self, streams: &mut impl Streams, desk: &mut Desk) {
        if desk.now() >= self.look_at {
            self.look_at = desk.now().plus(LOOK_EVERY);
            self.close_those_over_limit(streams, desk);
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            let Some(client) = find(&mut self.clients, key) else { continue };
            client.is_dirty = false;
            if !client.connection.output().is_empty() {
                let was_held_up = client.connection.is_held_up();
                let Ok(n_sent) = streams.write(key, client.connection.output()) else {
                    self.close(key, streams, desk);
                    continue;
                };
                client.connection.sent(n_sent);
                if client.connection.is_over_limit(desk.now()) {
                    self.figures.clients_over_limit += 1;
                    self.close(key, streams, desk);
                    continue;
                }
                if was_held_up && n_sent > 0 {
                    // Its earlier input may be taken now that its replies have gone.
                    mark(&mut client.is_runnable, key, &mut self.runnable);
                }
            }
            self.refresh_interest(key, streams, desk);
        }
        if self.dirty.is_empty() {
            self.dirty = dirty; // the buffer
        }
    }

    /// Checks clients that read nothing, since their streams report no event.
    fn close_those_over_limit(&mut self, streams: &mut impl Streams, desk: &mut Desk) {
        let now = desk.now();
        let over = |client: &mut Client| client.connection.is_over_limit(now).then_some(client.key);
        let over: Vec<u64> =
            self.clients.iter_mut().filter_map(|(_, client)| over(client)).collect();
        for key in over {
            self.figures.clients_over_limit += 1;
            self.close(key, streams, desk);
        }
    }

    /// Closes connections that are over, and watches the others for the events that they need.
    fn refresh_interest(&mut self, key: u64, streams: &mut impl Streams, desk: &mut Desk) {
        let Some(client) = self.client(key) else { return };
        if client.connection.is_finished() {
            return self.close(key, streams, desk);
        }
        let writes = !client.connection.output().is_empty();
        let reads = !client.has_ended && client.connection.wants_input();
        let interest = match (reads, writes) {
            (true, false) => Interest::Read,
            (true, true) => Interest::ReadWrite,
            (false, true) => Interest::Write,
            (false, false) => Interest::Nothing,
        };
        if interest != client.interest {
            client.interest = interest;
            if streams.watch(key, interest).is_err() {
                self.close(key, streams, desk);
            }
        }
    }
}

const TOO_MANY_WAITS: &str = "ERR too many clients WAIT at this member; try again";

/// The client with that name, if it still exists (I3).
pub(super) fn find(clients: &mut Slab<Client>, key: u64) -> Option<&mut Client> {
    clients.get_mut(place_of(key)).filter(|client| client.key == key)
}

/// Puts `key` on a list unless its flag says that it is there.
pub(super) fn mark(flag: &mut bool, key: u64, list: &mut Vec<u64>) {
    if !*flag {
        *flag = true;
        list.push(key);
    }
}
