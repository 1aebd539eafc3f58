//! The connection's decision about each request.

use core::time::Duration;
use std::sync::Arc;

use base::{Instant, Prefix};

use super::channels::Subscriptions;
use super::client::{Seen, Silence};
use super::held::{Held, Kind};
use super::logged::{self, LoggedReplies};
use super::pace::answers_shortly;
use super::queue::{Manner, Replies, Waiting};
use super::session::Speaking;
use super::topology::is_about_members;
use super::transaction::{QUEUED_BYTES_MAX, Transaction, Watched};
use super::{BUFFER_BYTES_KEPT, Config, Identity, OUTPUT_BYTES_MAX, RequestId};
use crate::backup;
use crate::command::{self, CommandSpec, flag, resolve};
use crate::entry::command::{put_database, put_plain, put_transaction, put_versions};
use crate::exec::{NOT_AN_INTEGER, admit, database_or_reply, parse_integer};
use crate::reply::{Protocol, Reply};
use crate::store::{Db, DbKey};
use crate::text;

/// The connection except for its input.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) config: Arc<Config>,
    pub(super) identity: Identity,
    pub(super) replies: Replies,
    logged_replies: LoggedReplies,
    /// The reply that is being made.
    pub(super) reply: Reply,
    pub(super) protocol: Protocol,
    pub(super) is_authenticated: bool,
    pub(super) is_closing: bool,
    /// The database that SELECT has chosen.
    pub(super) db: Db,
    pub(super) name: Vec<u8>,
    pub(super) transaction: Option<Transaction>,
    pub(super) watched: Watched,
    pub(super) speaking: Speaking,
    /// The request that is asked for next, when its turn has come (C2).
    pub(super) held: Held,
    pub(super) subscriptions: Subscriptions,
    /// The prefix that covers every write executed for this connection.
    pub(super) written: Prefix,
    pub(super) silence: Silence,
    pub(super) seen: Seen,
}

const NO_AUTH: &str = "NOAUTH Authentication required.";
const NOT_IN_A_TRANSACTION: &str = "ERR Command not allowed inside a transaction";
const EXEC_ABORT: &str = "EXECABORT Transaction discarded because of previous errors.";

impl Door {
    pub(super) fn new(config: Arc<Config>, identity: Identity, now: Instant) -> Door {
        Door {
            is_authenticated: config.requirepass.is_none(),
            config,
            identity,
            replies: Replies::default(),
            logged_replies: LoggedReplies::default(),
            reply: Reply::default(),
            protocol: Protocol::Resp2,
            is_closing: false,
            db: Db::ZERO,
            name: Vec::new(),
            transaction: None,
            watched: Watched::default(),
            speaking: Speaking::default(),
            held: Held::default(),
            subscriptions: Subscriptions::default(),
            written: Prefix::ZERO,
            silence: Silence::default(),
            seen: Seen { command: "NULL", n_request: 0, created: now, last_input: now },
        }
    }

    /// Whether another request may be taken (C3).
    pub(super) fn has_room(&self) -> bool {
        self.replies.has_place() && self.replies.waiting_bytes() < OUTPUT_BYTES_MAX
    }

    /// Whether the client reads its replies, as far as can be seen (C8).
    pub(super) fn is_read(&self) -> bool {
        self.replies.output().len() < OUTPUT_BYTES_MAX
    }

    /// Whether a request that no other may overtake has no answer. WAIT is the main case, which in
    /// Redis blocks the client.
    pub(super) fn is_waiting(&self) -> bool {
        self.replies.n_waiting() > self.replies.n_writes() + self.replies.n_reads()
    }

    fn may_log_a_read(&self) -> bool {
        self.logged_replies.has_room(self.replies.n_logged_reads())
    }

    fn manner(&self) -> Manner {
        Manner { protocol: self.protocol, is_silent: self.silence.is_silent }
    }

    /// Answers malformed input with an error.
    pub(super) fn refuse(&mut self, text: &[u8]) {
        self.begin();
        self.error(text);
        if self.speaking.has_session() {
            self.mark_refusal();
        }
        self.finish();
    }

    /// Decides about one request. Afterwards either its reply is in the queue, or it is held.
    pub(super) fn handle(&mut self, args: &[&[u8]]) {
        self.begin();
        self.dispatch(args);
        if args[0].eq_ignore_ascii_case(b"gregale.call") {
            self.mark_refusal();
        }
        self.finish();
    }

    fn begin(&mut self) {
        let skips = std::mem::take(&mut self.silence.skips_next);
        self.silence.is_silent = skips || self.silence.is_muted;
        self.reply.clear();
        self.reply.set_protocol(self.protocol);
    }

    fn finish(&mut self) {
        // HELLO and RESET may have changed it; CLIENT REPLY ON may have ended the silence.
        if self.held.is_empty() && !self.reply.is_empty() {
            self.replies.append(self.reply.as_bytes(), self.manner());
        }
        // Not before the next request: the client may be silent for hours.
        self.reply.clear_keeping(BUFFER_BYTES_KEPT);
    }

    pub(super) fn break_silence(&mut self) {
        self.silence.is_silent = false;
    }

    /// Answers an error that spoils the open transaction, as any refusal before queueing does.
    fn error(&mut self, text: impl AsRef<[u8]>) {
        self.spoil();
        self.reply.error(text);
    }

    fn spoil(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.is_dirty = true;
        }
    }

    fn dispatch(&mut self, args: &[&[u8]]) {
        // Redis checks for QUIT before anything else, whatever its arguments.
        if args[0].eq_ignore_ascii_case(b"quit") {
            self.reply.ok();
            self.is_closing = true;
            return;
        }
        // A web page can make a visitor's browser send this. The rest of the input is not a
        // client's, as in Redis.
        if args[0].eq_ignore_ascii_case(b"post") || args[0].eq_ignore_ascii_case(b"host:") {
            self.is_closing = true;
            return;
        }
        let Some(spec) = resolve(args, &mut self.reply) else {
            if let Some(spec) = command::lookup(args[0]) {
                self.config.counts.add(spec, |count| count.rejected += 1);
            }
            self.spoil();
            if args[0].eq_ignore_ascii_case(b"exec") {
                self.abort("wrong number of arguments for 'exec' command");
            }
            return;
        };
        // C6
        if !self.is_authenticated && !spec.is(flag::NO_AUTH) {
            self.config.counts.add(spec, |count| count.rejected += 1);
            match spec.name {
                "exec" => self.abort(NO_AUTH),
                _ => self.error(NO_AUTH),
            }
            return;
        }
        self.seen.command = spec.name;
        if let Some(refusal) = self.refusal_to_a_subscriber(spec) {
            self.error(refusal);
            return;
        }
        let is_about_transactions = match spec.name {
            "multi" | "exec" | "discard" | "watch" | "reset" => true,
            "gregale.call" => args[2].eq_ignore_ascii_case(b"exec"),
            _ => false,
        };
        if self.transaction.is_some() && !is_about_transactions {
            self.queue(spec, args);
        } else if !spec.is_for_store() {
            self.answer_own(spec, args);
            let failed = u64::from(self.reply.as_bytes().starts_with(b"-"));
            self.config.counts.add(spec, |count| {
                count.calls += 1;
                count.failed += failed;
            });
        } else if let Err(refusal) = admit(spec, args) {
            self.config.counts.add(spec, |count| count.rejected += 1);
            self.reply.error(refusal);
        } else {
            self.config.counts.add(spec, |count| count.calls += 1);
            self.held.spec = Some(spec);
            self.held.command.clear();
            put_database(self.db, &mut self.held.command);
            put_plain(args, self.protocol, &mut self.held.command);
            self.held.hold(match kind_of(spec, args) {
                Kind::Read if logged::is_cheap(spec.name) => Kind::KeyedRead,
                kind => kind,
            });
        }
    }

    fn queue(&mut self, spec: &'static CommandSpec, args: &[&[u8]]) {
        let mut answered = Reply::new(self.protocol);
        if spec.is_for_store() {
            if let Err(refusal) = admit(spec, args) {
                self.error(refusal);
                return;
            }
        } else {
            // These neither change the connection nor depend on the time of their answer.
            match spec.name {
                "ping" | "echo" | "client|id" | "client|getname" | "command|count" => {
                    std::mem::swap(&mut self.reply, &mut answered);
                    self.answer_own(spec, args);
                    std::mem::swap(&mut self.reply, &mut answered);
                }
                // The following commands of the transaction concern another database.
                "select" => {}
                // EXEC forgets the keys before its commands run, so UNWATCH has no effect.
                "unwatch" => answered.ok(),
                _ => {
                    self.error(NOT_IN_A_TRANSACTION);
                    return;
                }
            }
        }
        let Some(transaction) = &mut self.transaction else { return };
        let bytes: usize = args.iter().map(|arg| arg.len() + 4).sum::<usize>() + answered.len() + 8;
        if transaction.queued.bytes() + bytes > QUEUED_BYTES_MAX {
            self.error(format!(
                "ERR the transaction is longer than {QUEUED_BYTES_MAX} bytes (gregale's limit)"
            ));
            return;
        }
        if answered.is_empty() {
            if spec.name == "select"
                && let Some(db) = database_or_reply(args[1], &mut Reply::default())
            {
                transaction.selects = Some(db);
            }
            transaction.queued.push(args);
        } else {
            transaction.queued.push_answered(answered.as_bytes());
        }
        transaction.writes |= spec.is_write();
        self.config.counts.add(spec, |count| count.calls += 1);
        self.reply.simple("QUEUED");
    }

    /// Answers a command that needs no store, with at most as many bytes as any other command (C3):
    /// COMMAND DOCS describes each name that it is given, however often.
    fn answer_own(&mut self, spec: &'static CommandSpec, args: &[&[u8]]) {
        let mut reply = std::mem::take(&mut self.reply);
        reply.bounded(text::ANSWER_TOO_LONG, |reply| {
            std::mem::swap(reply, &mut self.reply);
            self.own(spec, args);
            std::mem::swap(reply, &mut self.reply);
        });
        self.reply = reply;
    }

    /// Executes a command of the connection itself. Either it is answered, or the request is held.
    fn own(&mut self, spec: &'static CommandSpec, args: &[&[u8]]) {
        let is_only_subscriber = self.is_only_subscriber();
        let reply = &mut self.reply;
        match spec.name {
            "ping" if is_only_subscriber && args.len() <= 2 => self.pong(args),
            "ping" => match args {
                [_] => reply.simple("PONG"),
                [_, text] => reply.bulk(text),
                _ => command::wrong_arity(spec, reply),
            },
            name if name.ends_with("subscribe") => self.subscribe(spec, args),
            name if name.starts_with("pubsub") => self.ask_channels(spec, args),
            name if is_about_members(name) => self.ask_topology(spec, args),
            name if name.starts_with("script|") => crate::script::beside(name, args, reply),
            "echo" => reply.bulk(args[1]),
            "select" => {
                if let Some(db) = database_or_reply(args[1], reply) {
                    self.db = db;
                    reply.ok();
                }
            }
            "auth" => self.auth(args),
            "hello" => self.hello(args),
            "reset" => self.reset(),
            "multi" if self.transaction.is_some() => {
                reply.error("ERR MULTI calls can not be nested");
            }
            "multi" => {
                self.transaction = Some(Transaction::default());
                reply.ok();
            }
            "exec" => self.exec(),
            "discard" => match self.transaction.take() {
                None => reply.error("ERR DISCARD without MULTI"),
                Some(_) => {
                    self.watched.clear();
                    reply.ok();
                }
            },
            "watch" if self.transaction.is_some() => {
                reply.error("ERR WATCH inside MULTI is not allowed");
            }
            "watch" => self.watch(spec, args),
            "unwatch" => {
                self.watched.clear();
                reply.ok();
            }
            "wait" => self.wait(args),
            "gregale.backup" => match backup::Request::parse(args) {
                Some(request) => {
                    self.held.command.clear();
                    request.put(&mut self.held.command);
                    self.held.hold(Kind::Read);
                }
                None => reply.error("ERR syntax error"),
            },
            "gregale.session" => self.session(args),
            "gregale.snapshot" => self.snapshot(&args[1..]),
            "gregale.call" => self.call(args),
            "gregale.ack" => self.acknowledge(args),
            "info" => {
                let lower = |arg: &&[u8]| String::from_utf8_lossy(arg).to_ascii_lowercase();
                self.held.sections = args[1..].iter().map(lower).collect();
                self.held.hold(Kind::Info);
            }
            "gregale.member" => {
                let lower = |arg: &&[u8]| String::from_utf8_lossy(arg).to_ascii_lowercase();
                self.held.sections = args[1..].iter().map(lower).collect();
                self.held.hold(Kind::Member);
            }
            name if name.starts_with("memory|") => {
                let name = name.replace('|', " ").to_ascii_uppercase();
                reply.error_fmt(format_args!("ERR gregale does not support {name}"));
            }
            name if name.starts_with("client|") => self.client(spec, args),
            name if name.starts_with("config|") => {
                super::config::config(&self.config, spec, args, reply);
            }
            _ => command::command(spec, args, reply),
        }
    }

    fn watch(&mut self, spec: &'static CommandSpec, args: &[&[u8]]) {
        if let Err(refusal) = admit(spec, args) {
            self.watched.is_broken = true;
            self.reply.error(refusal);
        } else if !self.watched.admit(&args[1..]) {
            self.reply.error_fmt(format_args!(
                "ERR the watched keys are longer than {} bytes (gregale's limit); EXEC will abort",
                super::WATCHED_BYTES_MAX
            ));
        } else {
            self.held.command.clear();
            put_database(self.db, &mut self.held.command);
            put_versions(&args[1..], &mut self.held.command);
            self.held.hold(Kind::Watch);
        }
    }

    /// Refuses EXEC itself, which ends the transaction.
    fn abort(&mut self, reason: &str) {
        self.transaction = None;
        self.watched.clear();
        self.reply.clear();
        self.reply.error_fmt(format_args!("EXECABORT Transaction discarded because of: {reason}"));
    }

    pub(super) fn exec(&mut self) {
        match &self.transaction {
            None => self.reply.error("ERR EXEC without MULTI"),
            Some(transaction) if transaction.is_dirty => {
                self.transaction = None;
                self.watched.clear();
                self.reply.error(EXEC_ABORT);
            }
            Some(_) => self.held.hold(Kind::Exec),
        }
    }

    fn wait(&mut self, args: &[&[u8]]) {
        let Some(members) = parse_integer(args[1]) else {
            self.reply.error(NOT_AN_INTEGER);
            return;
        };
        let Some(ms) = parse_integer(args[2]) else {
            self.reply.error("ERR timeout is not an integer or out of range");
            return;
        };
        let Ok(ms) = u64::try_from(ms) else {
            self.reply.error("ERR timeout is negative");
            return;
        };
        let members = u64::try_from(members).unwrap_or(0);
        let timeout = (ms != 0).then(|| Duration::from_millis(ms));
        self.held.hold(Kind::Wait { members, timeout });
    }

    fn reset(&mut self) {
        self.transaction = None;
        self.watched.clear();
        self.speaking = Speaking::default();
        self.db = Db::ZERO;
        self.subscriptions.clear();
        self.protocol = Protocol::Resp2;
        self.name.clear();
        self.silence.is_muted = false;
        self.break_silence();
        self.is_authenticated = self.config.requirepass.is_none();
        self.reply.set_protocol(self.protocol);
        self.reply.simple("RESET");
    }

    /// Whether the held request may be asked for now (C2, C12).
    fn may_go(&self, kind: Kind) -> bool {
        // A message may have taken the place that was free.
        if self.pauses(kind) || !self.replies.has_place() {
            return false;
        }
        let (n_writes, n_reads) = (self.replies.n_writes(), self.replies.n_reads());
        let is_free = n_writes == 0 && !self.replies.has_watch();
        // Behind a read that is put off it would be asked for in vain (C14).
        let may_read = is_free && !self.replies.pace.has_put_off();
        match kind {
            Kind::Write | Kind::Open | Kind::LoggedRead => n_reads == 0,
            Kind::LongWrite | Kind::Exec => {
                n_reads == 0 && self.replies.pace.takes_long(self.replies.waiting_bytes())
            }
            Kind::Read | Kind::Watch => may_read,
            Kind::KeyedRead => may_read || n_reads == 0 && self.may_log_a_read(),
            // The answers to these must include the effect of the writes before them.
            Kind::Wait { .. }
            | Kind::Info
            | Kind::Member
            | Kind::Clients
            | Kind::Kill
            | Kind::Channels
            | Kind::Topology => n_reads == 0 && n_writes == 0,
        }
    }

    /// Asks for the held request if its turn has come.
    pub(super) fn release(&mut self) -> Option<(RequestId, Kind)> {
        let kind = self.held.kind().filter(|&kind| self.may_go(kind))?;
        self.held.release();
        let kind = match kind {
            Kind::KeyedRead if self.replies.n_writes() == 0 => Kind::Read,
            Kind::KeyedRead => Kind::LoggedRead,
            other => other,
        };
        let selects = self.transaction.as_ref().and_then(|transaction| transaction.selects);
        if kind == Kind::Exec && !self.encode_transaction() {
            return None;
        }
        let waiting = match kind {
            Kind::Exec if selects.is_some() => Waiting::Exec(selects.unwrap_or_default()),
            Kind::Write => Waiting::Write,
            Kind::LongWrite | Kind::Exec => Waiting::LongWrite,
            Kind::LoggedRead => Waiting::LoggedRead,
            Kind::Open => Waiting::Open,
            Kind::Read | Kind::KeyedRead | Kind::Watch => Waiting::Read {
                command: self.held.command.as_slice().into(),
                watch: (kind == Kind::Watch).then_some(self.watched.generation),
            },
            Kind::Wait { .. }
            | Kind::Info
            | Kind::Member
            | Kind::Clients
            | Kind::Kill
            | Kind::Channels
            | Kind::Topology => Waiting::Other,
        };
        let spec = self.held.spec.take();
        Some((self.replies.reserve(waiting, spec, self.manner()), kind))
    }

    /// Encodes the open transaction and ends it. False if it is answered already: a WATCH had
    /// failed (C5).
    fn encode_transaction(&mut self) -> bool {
        let transaction = self.transaction.take().unwrap_or_default();
        let is_broken = self.watched.is_broken;
        let call = self.speaking.exec.take();
        if is_broken {
            self.reply.clear();
            if call.is_some() {
                self.not_called("a WATCH had failed");
            } else {
                self.reply.null_array();
            }
            self.replies.append(self.reply.as_bytes(), self.manner());
        } else {
            self.held.command.clear();
            if let Some((id, number)) = call {
                self.speaking.put_call(id, number, &mut self.held.command);
            }
            let guards = self.watched.guards.iter();
            let guards = guards.map(|(db, key, version)| (DbKey { db: *db, key }, *version));
            put_database(self.db, &mut self.held.command);
            put_transaction(guards, &transaction.queued, self.protocol, &mut self.held.command);
        }
        self.watched.clear();
        !is_broken
    }

    /// Puts the owner's answer to `id` into the queue.
    pub(super) fn answer(&mut self, id: RequestId, reply: &[u8]) -> bool {
        if let Some((Waiting::Read { command, watch: Some(generation) }, _)) =
            self.replies.waiting(id)
        {
            let is_good = self.watched.saw(*generation, command, reply);
            // The client gets OK, or the error that came instead of versions.
            let heard = if is_good || !reply.starts_with(b"-") { &b"+OK\r\n"[..] } else { reply };
            return self.replies.fill(id, heard).is_some();
        }
        if reply.starts_with(b"-")
            && let Some(spec) = self.replies.spec(id)
        {
            self.config.counts.add(spec, |count| count.failed += 1);
        }
        match self.replies.fill(id, reply) {
            Some(Waiting::Open) => self.speaking.opened(reply),
            Some(Waiting::LoggedRead) => self.logged_replies.saw(reply.len()),
            Some(Waiting::Exec(db)) => self.selected(db, reply),
            Some(Waiting::Write | Waiting::LongWrite | Waiting::Read { .. } | Waiting::Other) => {}
            None => return false,
        }
        true
    }

    /// Handles the answer to a transaction with a SELECT. If its outcome is unknown, or it was
    /// executed and its reply is not kept, the current database is unknown as well, so the
    /// conversation ends.
    fn selected(&mut self, db: Db, reply: &[u8]) {
        let codes = [&b"-UNKNOWN"[..], b"-TOOLONG", b"-ACKED"];
        if codes.iter().any(|code| reply.starts_with(code)) {
            self.is_closing = true;
        } else if reply.starts_with(b"*") && !reply.starts_with(b"*-") {
            self.db = db;
        }
    }

    /// Puts an answer into the queue that is encoded in the protocol of the request.
    pub(super) fn answer_with(&mut self, id: RequestId, encode: impl FnOnce(&mut Reply)) -> bool {
        let Some((_, protocol)) = self.replies.waiting(id) else { return false };
        let mut reply = std::mem::take(&mut self.reply);
        reply.clear();
        reply.set_protocol(protocol);
        encode(&mut reply);
        let was_waiting = self.answer(id, reply.as_bytes());
        reply.clear_keeping(BUFFER_BYTES_KEPT);
        self.reply = reply;
        was_waiting
    }
}

/// The kind of request for a command of the store.
pub(super) fn kind_of(spec: &CommandSpec, args: &[&[u8]]) -> Kind {
    match (spec.is_write(), answers_shortly(spec.name, args)) {
        (true, true) => Kind::Write,
        (true, false) => Kind::LongWrite,
        (false, _) => Kind::Read,
    }
}
