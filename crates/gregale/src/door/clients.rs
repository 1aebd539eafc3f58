//! Clients' sockets, and the requests and answers that pass through them.
//!
//! - I1 a client that does not take its replies is served no further, and not read from without
//!   end: its connection says when ([`Connection::wants_input`]). Its reads are put off, whether
//!   they are performed here or elsewhere, and the connection is closed at its output limit.
//! - I2 a request is taken from a connection only if the desk has room for it. By
//!   [`Clients::pump`].
//! - I3 a client's name (`key`) is made of a count that only rises, so an answer that is late finds
//!   nobody rather than somebody else.

mod listed;
mod told;

use super::info::DATA_LOST;
use super::statuses::Statuses;
use super::{KEY_LISTENER, KEY_STATUS};
use crate::channel::ReplicaEnd;
use crate::config::Config;
use crate::control::{Board, ServiceFigures};
use crate::status;
use console::{Failure, Outcome};
use kv::connection::{self, Connection, Identity, Request, RequestId};
use kv::door::{Holds, Performed, State};
use kv::text;
use runtime::{Answer, Asker, Desk, DiskFigures, Interest, Poller, ReadAnswer, Ready};
use rustix::net::sockopt;
use slab::Slab;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use told::Inquiry;

/// The most that one turn reads from one client.
const READ_BYTES: usize = 64 << 10;
/// The most clients that one turn accepts.
const ACCEPTS_MAX: usize = 64;
/// How often clients are looked at that nothing is heard of.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a connection is silent before its client is asked whether it is there; as in Redis.
const KEEPALIVE: Duration = Duration::from_secs(300);

/// The bits of a key that are the place in the slab; the rest is the count (I3).
const INDEX_BITS: u32 = 20;

pub(super) struct Client {
    stream: TcpStream,
    pub(super) connection: Connection,
    key: u64,
    interest: Interest,
    /// It will send nothing more.
    has_ended: bool,
    /// It is on the list of those with replies to send.
    pub(super) is_dirty: bool,
    /// It is on the list of those that may have another request.
    is_runnable: bool,
}

/// See the module's text.
pub(super) struct Clients {
    pub(super) config: Config,
    shared: Arc<connection::Config>,
    listener: TcpListener,
    listens: bool,
    pub(super) clients: Slab<Client>,
    /// Those that are subscribed to channels.
    pub(super) subscribers: BTreeSet<u64>,
    n_accepted: u64,
    pub(super) dirty: Vec<u64>,
    runnable: Vec<u64>,
    /// Those that wait for room on the desk.
    stalled: Vec<u64>,
    statuses: Statuses,
    /// INFO of clients whose writes are not executed here yet.
    inquiries: Vec<Inquiry>,
    /// To the supervisor, if there is one.
    pub(super) channel: Option<Arc<ReplicaEnd>>,
    /// If set, nothing is executed here, and this is why.
    refusal: Option<&'static str>,
    figures: ServiceFigures,
    /// As it was a moment ago.
    pub(super) disk: Option<DiskFigures>,
    started: Instant,
    /// When clients that read nothing are looked at.
    look_at: base::Instant,
    scratch: Box<[u8]>,
    reply: Vec<u8>,
}

impl Clients {
    pub(super) fn new(
        config: &Config,
        listener: TcpListener,
        board: &Arc<Board>,
    ) -> Outcome<Clients> {
        listener
            .set_nonblocking(true)
            .map_err(|error| Failure::os("set a listening socket non-blocking", error))?;
        let shared = connection::Config {
            requirepass: config.requirepass.clone(),
            memory_bytes_max: config.maxmemory,
            connections_max: config.maxclients as usize,
            counts: Arc::default(),
            is_cluster: config.cluster_discovery,
            ..connection::Config::default()
        };
        Ok(Clients {
            config: config.clone(),
            shared: Arc::new(shared),
            listener,
            listens: false,
            clients: Slab::new(),
            subscribers: BTreeSet::new(),
            n_accepted: 0,
            dirty: Vec::new(),
            runnable: Vec::new(),
            stalled: Vec::new(),
            statuses: Statuses::new(board)?,
            inquiries: Vec::new(),
            channel: None,
            refusal: None,
            figures: ServiceFigures::default(),
            disk: None,
            started: Instant::now(),
            look_at: base::Instant::ZERO,
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            reply: Vec::new(),
        })
    }

    pub(super) fn register(&mut self, poller: &Poller) -> std::io::Result<()> {
        self.statuses.register(poller, KEY_STATUS)?;
        poller.add(&self.listener, KEY_LISTENER, Interest::Read)?;
        self.listens = true;
        Ok(())
    }

    /// From now on reads and writes are answered with this error.
    pub(super) fn refuse_all(&mut self, why: &'static str) {
        self.refusal = Some(why);
    }

    /// How many seats the cluster has, taken or not.
    pub(super) fn n_seats(&self) -> u16 {
        self.config.members.len() as u16
    }

    pub(super) fn note_state_time(&mut self, ahead_ms: i64) {
        self.figures.state_time_ahead_ms = ahead_ms;
    }

    pub(super) fn figures(&self) -> ServiceFigures {
        let (clients, clients_accepted) = (self.clients.len() as u64, self.n_accepted);
        ServiceFigures { clients, clients_accepted, ..self.figures }
    }

    /// Takes clients who wait to be accepted.
    pub(super) fn accept(&mut self, poller: &Poller, desk: &Desk) {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream, poller, desk),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // That client is gone already.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // No descriptors, most likely. They wait in the backlog; looking again at once
                    // would only burn the processor: `listen_again` does so a little later.
                    eprintln!("{}", Failure::os("accept a client", error));
                    self.listens = poller.remove(&self.listener).is_err();
                    return;
                }
            }
        }
    }

    /// Accepts again after a failure; called now and then.
    pub(super) fn listen_again(&mut self, poller: &Poller) {
        if !self.listens {
            self.listens = poller.add(&self.listener, KEY_LISTENER, Interest::Read).is_ok();
        }
    }

    fn admit(&mut self, mut stream: TcpStream, poller: &Poller, desk: &Desk) {
        let limit = (self.config.maxclients as usize).min((1 << INDEX_BITS) - 1);
        if self.clients.len() >= limit {
            self.figures.clients_refused += 1;
            // It fits into the buffer of a fresh socket, or the client is gone.
            let _ = stream.write_all(format!("-{}\r\n", text::TOO_MANY_CLIENTS).as_bytes());
            return;
        }
        // Who cannot be made non-blocking, or watched, is gone already.
        if stream.set_nonblocking(true).is_err() || stream.set_nodelay(true).is_err() {
            return;
        }
        // Who vanishes without a word must not count as a client for ever. A kernel that refuses
        // loses that and nothing else.
        let _ = sockopt::set_socket_keepalive(&stream, true)
            .and_then(|()| sockopt::set_tcp_keepidle(&stream, KEEPALIVE))
            .and_then(|()| sockopt::set_tcp_keepintvl(&stream, KEEPALIVE / 3));
        self.n_accepted += 1;
        let address = |address: std::io::Result<std::net::SocketAddr>| {
            address.map(|address| address.to_string()).unwrap_or_default()
        };
        let identity = Identity {
            id: self.n_accepted,
            address: address(stream.peer_addr()),
            local_address: address(stream.local_addr()),
        };
        let connection = Connection::new(Arc::clone(&self.shared), identity, desk.now());
        let place = self.clients.vacant_entry();
        let key = self.n_accepted << INDEX_BITS | place.key() as u64;
        if poller.add(&stream, key, Interest::Read).is_ok() {
            place.insert(Client {
                stream,
                connection,
                key,
                interest: Interest::Read,
                has_ended: false,
                is_dirty: false,
                is_runnable: false,
            });
        }
    }

    pub(super) fn client(&mut self, key: u64) -> Option<&mut Client> {
        find(&mut self.clients, key)
    }

    fn close(&mut self, key: u64, poller: &Poller, desk: &mut Desk) {
        if let Some(client) = self.client(key) {
            // Closing does the same; an error means that it was not watched.
            let _ = poller.remove(&client.stream);
            self.clients.remove(index_of(key));
            self.subscribers.remove(&key);
            desk.forget_waits(key);
        }
    }

    /// A client's socket is ready.
    pub(super) fn on_ready(
        &mut self,
        ready: Ready,
        poller: &Poller,
        state: &impl Holds,
        desk: &mut Desk,
    ) {
        let mut scratch = std::mem::take(&mut self.scratch);
        if ready.writable {
            self.mark_dirty(ready.key);
        }
        if ready.readable {
            self.read(ready.key, &mut scratch, poller, state, desk);
        }
        self.scratch = scratch;
    }

    fn read(
        &mut self,
        key: u64,
        scratch: &mut [u8],
        poller: &Poller,
        state: &impl Holds,
        desk: &mut Desk,
    ) {
        let now = desk.now();
        let Some(client) = self.client(key) else { return };
        // Readable after its end: the connection is broken, not just closed for writing.
        if client.has_ended {
            return self.close(key, poller, desk);
        }
        if !client.connection.wants_input() {
            // I1
            return self.refresh_interest(key, poller, desk);
        }
        match client.stream.read(scratch) {
            Ok(0) => {
                client.has_ended = true;
                client.connection.end_of_input();
                self.pump(key, state, desk);
                self.mark_dirty(key);
            }
            Ok(n) => {
                client.connection.feed(&scratch[..n], now);
                self.pump(key, state, desk);
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.close(key, poller, desk),
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
            let lost = if desk.view().data_lost { Some(DATA_LOST) } else { None };
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
                    if sections.iter().any(|section| section == status::SECTION) {
                        self.statuses.ask(asker(id));
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

    /// The state may be read now for this request; what the answer takes is charged to the turn.
    pub(super) fn perform(
        &mut self,
        asker: Asker,
        stamp_ms: u64,
        state: &mut State,
        desk: &mut Desk,
    ) -> Performed {
        if self.put_off(asker) {
            return Performed::Done;
        }
        let mut reply = std::mem::take(&mut self.reply);
        reply.clear();
        let (id, now) = (RequestId(asker.request), desk.now());
        let command =
            self.client(asker.connection).and_then(|client| client.connection.read_command(id));
        // Who is gone, or was answered in the meantime, needs no answer.
        let performed = command
            .map_or(Performed::Done, |command| state.read(command, stamp_ms, now, &mut reply));
        if performed == Performed::Done {
            desk.charge(reply.len());
            self.deliver(asker, |connection, id| connection.answer(id, &reply));
        }
        self.reply = reply;
        performed
    }

    /// Whether the read is not answered now, since its client does not take its replies (I1).
    fn put_off(&mut self, asker: Asker) -> bool {
        let id = RequestId(asker.request);
        let Some(client) = self.client(asker.connection) else { return false };
        if client.connection.takes_answer(id) {
            return false;
        }
        self.ask_again(asker);
        true
    }

    /// The read is not answered: its connection asks for it again.
    pub(super) fn ask_again(&mut self, asker: Asker) {
        self.figures.reads_put_off += 1;
        self.deliver(asker, Connection::put_off);
    }

    /// The bytes of a read, for the leader.
    pub(super) fn describe_read(&mut self, asker: Asker, out: &mut Vec<u8>) {
        let id = RequestId(asker.request);
        if let Some(client) = self.client(asker.connection)
            && let Some(command) = client.connection.read_command(id)
        {
            out.extend_from_slice(command);
        }
    }

    pub(super) fn answer(&mut self, asker: Asker, answer: Answer<'_>) {
        self.deliver(asker, |connection, id| match answer {
            Answer::Executed(slot, reply) => connection.executed(id, slot, reply),
            Answer::Unknown => connection.unknown(id),
        });
    }

    pub(super) fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>) {
        if matches!(answer, ReadAnswer::Forwarded(_)) && self.put_off(asker) {
            return;
        }
        self.deliver(asker, |connection, id| match answer {
            ReadAnswer::Forwarded(reply) => connection.answer(id, reply),
            ReadAnswer::Unavailable => connection.fail(id, text::TRY_AGAIN),
        });
    }

    pub(super) fn answer_wait(&mut self, asker: Asker, n: usize) {
        self.deliver(asker, |connection, id| connection.answer_integer(id, n as u64));
    }

    /// The statuses that were asked for are there.
    pub(super) fn take_statuses(&mut self) {
        let Some((json, askers)) = self.statuses.take() else { return };
        for asker in askers {
            self.deliver(asker, |connection, id| connection.answer_text(id, &json));
        }
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

    /// Goes on with clients whose requests were answered, or for whom there is room again.
    pub(super) fn resume(&mut self, state: &impl Holds, desk: &mut Desk) -> bool {
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

    /// Sends replies: one system call a client, unless its socket is full.
    pub(super) fn flush(&mut self, poller: &Poller, desk: &mut Desk) {
        if desk.now() >= self.look_at {
            self.look_at = desk.now().plus(LOOK_EVERY);
            self.close_those_over_limit(poller, desk);
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            let Some(client) = find(&mut self.clients, key) else { continue };
            client.is_dirty = false;
            if !client.connection.output().is_empty() {
                let was_held_up = client.connection.is_held_up();
                let mut has_read = false;
                match client.stream.write(client.connection.output()) {
                    Ok(n) => {
                        client.connection.sent(n);
                        has_read = n > 0;
                    }
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::WouldBlock | ErrorKind::Interrupted
                        ) => {}
                    Err(_) => {
                        self.close(key, poller, desk);
                        continue;
                    }
                }
                if client.connection.is_over_limit(desk.now()) {
                    self.figures.clients_over_limit += 1;
                    self.close(key, poller, desk);
                    continue;
                }
                if was_held_up && has_read {
                    // What it had sent before may be taken now that its replies have gone.
                    mark(&mut client.is_runnable, key, &mut self.runnable);
                }
            }
            self.refresh_interest(key, poller, desk);
        }
        if self.dirty.is_empty() {
            self.dirty = dirty; // the buffer
        }
    }

    /// Those that read nothing are not heard of otherwise.
    fn close_those_over_limit(&mut self, poller: &Poller, desk: &mut Desk) {
        let now = desk.now();
        let over = |client: &mut Client| client.connection.is_over_limit(now).then_some(client.key);
        let over: Vec<u64> =
            self.clients.iter_mut().filter_map(|(_, client)| over(client)).collect();
        for key in over {
            self.figures.clients_over_limit += 1;
            self.close(key, poller, desk);
        }
    }

    /// Closes what is over, and tells the poller what is wanted of the rest.
    fn refresh_interest(&mut self, key: u64, poller: &Poller, desk: &mut Desk) {
        let Some(client) = self.client(key) else { return };
        if client.connection.is_finished() {
            return self.close(key, poller, desk);
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
            if poller.change(&client.stream, key, interest).is_err() {
                self.close(key, poller, desk);
            }
        }
    }
}

const TOO_MANY_WAITS: &str = "ERR too many clients WAIT at this member; try again";

pub(super) fn index_of(key: u64) -> usize {
    (key & ((1 << INDEX_BITS) - 1)) as usize
}

/// The client of that name, if it is still there (I3).
pub(super) fn find(clients: &mut Slab<Client>, key: u64) -> Option<&mut Client> {
    clients.get_mut(index_of(key)).filter(|client| client.key == key)
}

/// Puts `key` on a list unless its flag says that it is there.
pub(super) fn mark(flag: &mut bool, key: u64, list: &mut Vec<u64>) {
    if !*flag {
        *flag = true;
        list.push(key);
    }
}
