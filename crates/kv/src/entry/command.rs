//! One command as bytes: what the door encodes, the leader copies, and every replica executes.
//!
//! ```text
//! command     = kind (low bits: 0 plain, 1 transaction, 2 versions; bit 7: reply in RESP3) | body
//!             | one of a client session (kinds 3 to 7), see `session`
//!   | 8 | database (1, from 1) | one of the first three, in that database
//! plain       = argv
//! transaction = guards (varint) | guard* | items (varint) | item*
//! versions    = argv: the keys whose versions a watcher wants; a read, never in the log
//! argv        = count (varint, not 0) | (length (varint) | bytes)*
//! guard       = length (varint) | key | version (8, little endian)
//!             of a transaction of kind 9, which is one of kind 1 otherwise:
//!               database (1) | length (varint) | key | version (8)
//! item        = argv, or 0 | length (varint) | a reply that the door has encoded already
//! ```
//! A command without a database concerns database 0 and has the same bytes as before there were
//! others. Watched keys may be in any database; SELECT is an item.
//!
//! The protocol of the reply is part of the command because the reply is recorded, and every
//! replica must record the same one.

use super::session::{self, SessionCommand};
use super::varint::{put, put_counted, take, take_bytes, take_counted};
use crate::command::{Args, flag, resolve};
use crate::exec::ARGS_MAX;
use crate::reply::{Protocol, Reply};
use crate::store::{Db, DbKey};

const PLAIN: u8 = 0;
const TRANSACTION: u8 = 1;
const VERSIONS: u8 = 2;
const IN_DATABASE: u8 = 8;
const TRANSACTION_ACROSS: u8 = 9;
const RESP3: u8 = 0x80;

/// Bytes that are not a command: a fault of the member that encoded them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// A kind that this version does not know.
    #[error("a command of the unknown kind {0:#04x}")]
    Kind(u8),
    /// The bytes end too early, are too long, or have a wrong count.
    #[error("a command with a malformed body")]
    Malformed,
}

/// A decoded command, borrowed from its bytes.
#[derive(Clone, Debug)]
pub enum Command<'a> {
    /// One command of the store.
    Plain {
        /// The database that it concerns.
        db: Db,
        /// The protocol of its reply.
        protocol: Protocol,
        /// The name and the arguments; not empty.
        args: Args<'a>,
    },
    /// EXEC: the whole transaction at one point of the order, if the guards hold.
    Transaction {
        /// The database with which it begins.
        db: Db,
        /// The protocol of its reply.
        protocol: Protocol,
        /// The watched keys with the versions that the watcher saw.
        guards: Guards<'a>,
        /// The queued commands.
        items: Items<'a>,
    },
    /// WATCH: the versions of some keys.
    Versions {
        /// The database that they are in.
        db: Db,
        /// The keys; not empty.
        keys: Args<'a>,
    },
    /// A command of a client session.
    Session(SessionCommand<'a>),
}

impl<'a> Command<'a> {
    /// Decodes a command. The whole command is checked here; iterating guards and items cannot fail
    /// later.
    ///
    /// # Errors
    /// The bytes are not a command.
    pub fn decode(bytes: &'a [u8]) -> Result<Command<'a>, CommandError> {
        let (db, bytes) = match bytes {
            [IN_DATABASE, number, rest @ ..] => match Db::new((*number).into()) {
                Some(db) if db != Db::ZERO => (db, rest),
                _ => return Err(CommandError::Malformed),
            },
            _ => (Db::ZERO, bytes),
        };
        let (&kind, mut rest) = bytes.split_first().ok_or(CommandError::Malformed)?;
        let protocol = if kind & RESP3 == 0 { Protocol::Resp2 } else { Protocol::Resp3 };
        let command = match kind & !RESP3 {
            PLAIN => argv(&mut rest).map(|args| Command::Plain { db, protocol, args }),
            kind @ (TRANSACTION | TRANSACTION_ACROSS) => {
                transaction(&mut rest, kind == TRANSACTION_ACROSS)
                    .map(|(guards, items)| Command::Transaction { db, protocol, guards, items })
            }
            VERSIONS => argv(&mut rest).map(|keys| Command::Versions { db, keys }),
            session::OPEN..=session::READ if kind & RESP3 == 0 && db == Db::ZERO => {
                SessionCommand::decode(kind, &mut rest).map(Command::Session)
            }
            _ => return Err(CommandError::Kind(kind)),
        };
        command.filter(|_| rest.is_empty()).ok_or(CommandError::Malformed)
    }
}

fn transaction<'a>(rest: &mut &'a [u8], names_databases: bool) -> Option<(Guards<'a>, Items<'a>)> {
    let n = take(rest)?;
    let guards = Guards { left: n, names_databases, rest };
    for _ in 0..n {
        guard(rest, names_databases)?;
    }
    let n = usize::try_from(take(rest)?).ok()?;
    let items = Items { left: n, rest };
    for _ in 0..n {
        item(rest)?;
    }
    Some((guards, items))
}

/// At least one argument.
fn argv<'a>(rest: &mut &'a [u8]) -> Option<Args<'a>> {
    let count = take(rest)?;
    counted_args(count, rest)
}

fn counted_args<'a>(count: u64, rest: &mut &'a [u8]) -> Option<Args<'a>> {
    if count == 0 || count > ARGS_MAX as u64 {
        return None;
    }
    let mut args = Args::new();
    for _ in 0..count {
        args.push(take_counted(rest)?);
    }
    Some(args)
}

fn guard<'a>(rest: &mut &'a [u8], names_database: bool) -> Option<(DbKey<'a>, u64)> {
    let db = match names_database {
        true => Db::new(take_bytes(rest, 1)?[0].into())?,
        false => Db::ZERO,
    };
    let key = take_counted(rest)?;
    let version = take_bytes(rest, 8)?.try_into().ok()?;
    Some((DbKey { db, key }, u64::from_le_bytes(version)))
}

fn item<'a>(rest: &mut &'a [u8]) -> Option<Item<'a>> {
    match take(rest)? {
        0 => Some(Item::Answered(take_counted(rest)?)),
        count => Some(Item::Execute(counted_args(count, rest)?)),
    }
}

/// The watched keys of a transaction.
#[derive(Clone, Debug)]
pub struct Guards<'a> {
    left: u64,
    names_databases: bool,
    rest: &'a [u8],
}

impl<'a> Iterator for Guards<'a> {
    type Item = (DbKey<'a>, u64);

    fn next(&mut self) -> Option<(DbKey<'a>, u64)> {
        self.left = self.left.checked_sub(1)?;
        guard(&mut self.rest, self.names_databases)
    }
}

/// A step of a transaction.
#[derive(Clone, Debug)]
pub enum Item<'a> {
    /// A command of the store.
    Execute(Args<'a>),
    /// A command of the connection, with the reply that it has given.
    Answered(&'a [u8]),
}

impl Item<'_> {
    /// Whether the step is refused when the store is over its limit.
    pub(crate) fn grows(&self) -> bool {
        match self {
            Item::Execute(args) => {
                resolve(args, &mut Reply::default()).is_some_and(|spec| spec.is(flag::DENYOOM))
            }
            Item::Answered(_) => false,
        }
    }
}

/// The steps of a transaction.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    left: usize,
    rest: &'a [u8],
}

impl<'a> Items<'a> {
    /// The number of remaining steps.
    pub fn len(&self) -> usize {
        self.left
    }

    /// Whether there is no step.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        self.left = self.left.checked_sub(1)?;
        item(&mut self.rest)
    }
}

fn put_kind(kind: u8, protocol: Protocol, out: &mut Vec<u8>) {
    out.push(match protocol {
        Protocol::Resp2 => kind,
        Protocol::Resp3 => kind | RESP3,
    });
}

fn put_args(args: &[&[u8]], out: &mut Vec<u8>) {
    assert!(!args.is_empty() && args.len() <= ARGS_MAX, "the parser lets no other request pass");
    put(args.len() as u64, out);
    args.iter().for_each(|arg| put_counted(arg, out));
}

/// Appends the database of the command that is appended next.
pub fn put_database(db: Db, out: &mut Vec<u8>) {
    if db != Db::ZERO {
        out.extend_from_slice(&[IN_DATABASE, db.number()]);
    }
}

/// Appends a command of the store, whose reply is in `protocol`.
pub fn put_plain(args: &[&[u8]], protocol: Protocol, out: &mut Vec<u8>) {
    put_kind(PLAIN, protocol, out);
    put_args(args, out);
}

/// Appends the read that WATCH needs.
pub fn put_versions(keys: &[&[u8]], out: &mut Vec<u8>) {
    put_kind(VERSIONS, Protocol::Resp2, out);
    put_args(keys, out);
}

/// The steps of a transaction while they are queued.
#[derive(Clone, Debug, Default)]
pub struct Queued {
    len: usize,
    bytes: Vec<u8>,
}

impl Queued {
    /// Queues a command of the store.
    pub fn push(&mut self, args: &[&[u8]]) {
        put_args(args, &mut self.bytes);
        self.len += 1;
    }

    /// Queues the reply of a command of the connection.
    pub fn push_answered(&mut self, reply: &[u8]) {
        put(0, &mut self.bytes);
        put_counted(reply, &mut self.bytes);
        self.len += 1;
    }

    /// The number of queued steps.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no step is queued.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of the queued steps.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Appends a transaction, whose reply is in `protocol`.
pub fn put_transaction<'a>(
    guards: impl ExactSizeIterator<Item = (DbKey<'a>, u64)> + Clone,
    queued: &Queued,
    protocol: Protocol,
    out: &mut Vec<u8>,
) {
    let across = guards.clone().any(|(key, _)| key.db != Db::ZERO);
    put_kind(if across { TRANSACTION_ACROSS } else { TRANSACTION }, protocol, out);
    put(guards.len() as u64, out);
    for (DbKey { db, key }, version) in guards {
        if across {
            out.push(db.number());
        }
        put_counted(key, out);
        out.extend_from_slice(&version.to_le_bytes());
    }
    put(queued.len as u64, out);
    out.extend_from_slice(&queued.bytes);
}
