//! CLIENT: commands about the connection itself, and about the others.

use base::Instant;

use super::door::Door;
use super::held::{ClientFilter, ClientType, Kind};
use super::pause::Scope;
use super::{Connection, Identity, RequestId};
use crate::command::CommandSpec;
use crate::exec::{NOT_AN_INTEGER, SYNTAX, parse_integer};
use crate::reply::Protocol;

/// The replies that CLIENT REPLY suppresses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    /// CLIENT REPLY OFF.
    pub(super) is_muted: bool,
    /// CLIENT REPLY SKIP: the next command is silent.
    pub(super) skips_next: bool,
    /// The current command is silent.
    pub(super) is_silent: bool,
}

/// The past of a connection, for CLIENT LIST.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The last command.
    pub(super) command: &'static str,
    /// The bytes of the last request.
    pub(super) n_request: usize,
    pub(super) created: Instant,
    pub(super) last_input: Instant,
}

impl ClientFilter {
    /// Whether the filter accepts this connection.
    pub fn accepts(&self, connection: &Connection) -> bool {
        let Identity { id, address, local_address } = &connection.door.identity;
        let is = |wanted: &Option<Vec<u8>>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found.as_bytes())
        };
        self.only.is_none_or(|wanted| wanted == connection.door.client_type())
            && self.skips != Some(*id)
            && (self.ids.is_empty() || self.ids.contains(id))
            && is(&self.address, address)
            && is(&self.local_address, local_address)
    }
}

impl Door {
    pub(super) fn client(&mut self, spec: &'static CommandSpec, args: &[&[u8]]) {
        let is = |at: usize, word: &str| args[at].eq_ignore_ascii_case(word.as_bytes());
        let reply = &mut self.reply;
        match spec.name {
            "client|id" => reply.integer(self.identity.id as i64),
            "client|getname" if self.name.is_empty() => reply.null(),
            "client|getname" => reply.bulk(&self.name),
            "client|setname" => {
                if self.set_name(args[2]) {
                    self.reply.ok();
                }
            }
            "client|info" => {
                let line = self.describe(self.seen.last_input, self.seen.n_request, 0);
                self.reply.verbatim(&(line + "\n"));
            }
            "client|list" => self.list(args),
            "client|kill" => self.kill(args),
            "client|reply" if is(2, "on") => {
                self.silence.is_muted = false;
                self.break_silence();
                self.reply.ok();
            }
            // The command itself is silent, too.
            "client|reply" if is(2, "off") => self.silence.is_muted = true,
            "client|reply" if is(2, "skip") => self.silence.skips_next = !self.silence.is_muted,
            // There is no eviction of clients that the flag could turn off.
            "client|no-evict" if is(2, "on") || is(2, "off") => reply.ok(),
            "client|reply" | "client|no-evict" => reply.error(SYNTAX),
            // No command but WAIT ever blocks a client here, and no client ends another's WAIT.
            "client|unblock" => match (args.len(), parse_integer(args[2])) {
                (5.., _) => reply.error(
                    "ERR unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try \
                     CLIENT HELP.",
                ),
                (4, _) if !is(3, "timeout") && !is(3, "error") => {
                    reply.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
                }
                (_, Some(_)) => reply.integer(0),
                (_, None) => reply.error(NOT_AN_INTEGER),
            },
            "client|pause" => self.pause(args),
            "client|unpause" => {
                self.config.pauses.end();
                reply.ok();
            }
            "client|tracking" if is(2, "off") => reply.ok(),
            "client|tracking" if is(2, "on") => {
                reply.error("ERR gregale does not track what clients have read");
            }
            "client|tracking" => reply.error(SYNTAX),
            "client|trackinginfo" => {
                reply.map(3);
                reply.bulk(b"flags");
                reply.set(1);
                reply.bulk(b"off");
                reply.bulk(b"redirect");
                reply.integer(-1);
                reply.bulk(b"prefixes");
                reply.array(0);
            }
            "client|getredir" => reply.integer(-1),
            "client|caching" => reply.error(
                "ERR CLIENT CACHING can be called only when the client is in tracking mode with \
                 OPTIN or OPTOUT mode enabled",
            ),
            "client|help" => help(reply),
            other => {
                let name = other.replace('|', " ").to_ascii_uppercase();
                reply.error_fmt(format_args!("ERR gregale does not support {name}"));
            }
        }
    }

    /// CLIENT PAUSE milliseconds [WRITE|ALL]
    fn pause(&mut self, args: &[&[u8]]) {
        let reply = &mut self.reply;
        let scope = match args[3..] {
            [] => Scope::All,
            [word] if word.eq_ignore_ascii_case(b"all") => Scope::All,
            [word] if word.eq_ignore_ascii_case(b"write") => Scope::Writes,
            [_] => return reply.error("ERR CLIENT PAUSE mode must be WRITE or ALL"),
            _ => {
                return reply.error(
                    "ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT \
                     HELP.",
                );
            }
        };
        match parse_integer(args[2]).map(u64::try_from) {
            None => reply.error("ERR timeout is not an integer or out of range"),
            Some(Err(_)) => reply.error("ERR timeout is negative"),
            Some(Ok(ms)) => {
                self.config.pauses.begin(scope, self.seen.last_input, ms);
                reply.ok();
            }
        }
    }

    /// CLIENT LIST [TYPE type] [ID id ...]
    fn list(&mut self, args: &[&[u8]]) {
        self.held.filter = ClientFilter::default();
        match args[2..] {
            [] => {}
            [option, name] if option.eq_ignore_ascii_case(b"type") => {
                if !self.only_type(name) {
                    return;
                }
            }
            [option, ref ids @ ..] if option.eq_ignore_ascii_case(b"id") && !ids.is_empty() => {
                for id in ids {
                    let Some(id) = parse_integer(id) else {
                        self.reply.error("ERR Invalid client ID");
                        return;
                    };
                    // No connection has the number 0.
                    self.held.filter.ids.push(u64::try_from(id).unwrap_or(0));
                }
            }
            _ => {
                self.reply.error(SYNTAX);
                return;
            }
        }
        self.held.hold(Kind::Clients);
    }

    /// Restricts the selection to connections of this type; false after an error.
    fn only_type(&mut self, name: &[u8]) -> bool {
        self.held.filter.only = match name.to_ascii_lowercase().as_slice() {
            b"normal" => Some(ClientType::Normal),
            b"pubsub" => Some(ClientType::PubSub),
            b"master" | b"replica" | b"slave" => Some(ClientType::Server),
            _ => {
                self.reply.error([b"ERR Unknown client type '", name, b"'"].concat());
                return false;
            }
        };
        true
    }

    /// The type of this connection.
    fn client_type(&self) -> ClientType {
        if self.subscriptions.n() > 0 { ClientType::PubSub } else { ClientType::Normal }
    }

    /// CLIENT KILL address, or CLIENT KILL [ID id] [TYPE type] [ADDR address] [LADDR address]
    /// [USER user] [SKIPME yes|no]
    fn kill(&mut self, args: &[&[u8]]) {
        self.held.filter = ClientFilter::default();
        if let [_, _, address] = args {
            self.held.filter.address = Some(address.to_vec());
            self.held.filter.wants_one = true;
            self.held.hold(Kind::Kill);
            return;
        }
        let mut skips_me = true;
        for pair in args[2..].chunks(2) {
            let is = |name: &str| pair[0].eq_ignore_ascii_case(name.as_bytes());
            let Some(&value) = pair.get(1) else {
                self.reply.error(SYNTAX);
                return;
            };
            let says = |word: &str| value.eq_ignore_ascii_case(word.as_bytes());
            if is("id") {
                let id = parse_integer(value).and_then(|id| u64::try_from(id).ok());
                let Some(id) = id.filter(|id| *id > 0) else {
                    self.reply.error("ERR client-id should be greater than 0");
                    return;
                };
                self.held.filter.ids = vec![id];
            } else if is("type") {
                if !self.only_type(value) {
                    return;
                }
            } else if is("addr") {
                self.held.filter.address = Some(value.to_vec());
            } else if is("laddr") {
                self.held.filter.local_address = Some(value.to_vec());
            } else if is("user") {
                // There is one user, as in a Redis without an ACL.
                if value != b"default" {
                    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
                    self.reply.error([b"ERR No such user '", &value[..end], b"'"].concat());
                    return;
                }
            } else if is("skipme") && (says("yes") || says("no")) {
                skips_me = says("yes");
            } else {
                self.reply.error(SYNTAX);
                return;
            }
        }
        self.held.filter.skips = skips_me.then_some(self.identity.id);
        self.held.hold(Kind::Kill);
    }

    /// Answers how many connections were ended.
    pub(super) fn answer_kill(&mut self, id: RequestId, filter: &ClientFilter, n: u64) -> bool {
        self.answer_with(id, |reply| match n {
            n if !filter.wants_one => reply.integer(n as i64),
            0 => reply.error("ERR No such client"),
            _ => reply.ok(),
        })
    }

    /// The line of CLIENT LIST, with Redis's fields. What does not exist here is zero.
    pub(super) fn describe(&self, now: Instant, n_input: usize, n_room: usize) -> String {
        let multi = self.transaction.as_ref().map(|transaction| transaction.queued.len() as i64);
        let is_dirty = self.transaction.as_ref().is_some_and(|open| open.is_dirty);
        let flags: String = [
            (self.client_type() == ClientType::PubSub, 'P'),
            (self.transaction.is_some(), 'x'),
            (is_dirty, 'd'),
            (self.is_closing, 'c'),
        ]
        .into_iter()
        .filter_map(|(is_set, flag)| is_set.then_some(flag))
        .collect();
        let flags = if flags.is_empty() { "N" } else { &flags };
        format!(
            "id={id} addr={addr} laddr={laddr} fd=0 name={name} age={age} idle={idle} \
             flags={flags} db={db} sub={sub} psub={psub} ssub=0 multi={multi} qbuf={n_input} \
             qbuf-free={n_room} argv-mem=0 multi-mem={multi_bytes} rbs=0 rbp=0 obl={n_output} \
             oll={n_held_up} omem=0 tot-mem={total} events=r cmd={cmd} user=default redir=-1 \
             resp={resp}",
            id = self.identity.id,
            db = self.db,
            sub = self.subscriptions.n_channels(),
            psub = self.subscriptions.n_patterns(),
            addr = self.identity.address,
            laddr = self.identity.local_address,
            name = String::from_utf8_lossy(&self.name),
            age = now.since(self.seen.created).as_secs(),
            idle = now.since(self.seen.last_input).as_secs(),
            multi = multi.unwrap_or(-1),
            multi_bytes = self.transaction.as_ref().map_or(0, |open| open.queued.bytes()),
            n_output = self.replies.output().len(),
            n_held_up = self.replies.n_held_up(),
            total = n_input + n_room + self.replies.output().len(),
            cmd = self.seen.command,
            resp = if self.protocol == Protocol::Resp3 { 3 } else { 2 },
        )
    }
}

fn help(reply: &mut crate::reply::Reply) {
    reply.help(&[
        "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GETNAME",
        "    Return the name of the current connection.",
        "ID",
        "    Return the ID of the current connection.",
        "INFO",
        "    Return information about the current client connection.",
        "LIST [TYPE (NORMAL|PUBSUB) | ID <id> [<id> ...]]",
        "    Return information about client connections.",
        "NO-EVICT (ON|OFF)",
        "    Accepted; connections are never evicted.",
        "PAUSE <timeout> [WRITE|ALL]",
        "    Suspend all, or just write, clients of this member for <timeout> milliseconds.",
        "REPLY (ON|OFF|SKIP)",
        "    Control the replies sent to the current connection.",
        "SETNAME <name>",
        "    Assign the name <name> to the current connection.",
        "UNPAUSE",
        "    Stop the current client pause, resuming traffic.",
    ]);
}
