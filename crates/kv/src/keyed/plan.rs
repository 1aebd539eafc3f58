//! Which commands registers can do, and what their parts are.

use crate::backup;
use crate::command::{CommandSpec, flag, keys_of, resolve};
use crate::entry::Command;
use crate::exec::admit;
use crate::partition::SNAPSHOT_REQUEST;
use crate::reply::Reply;
use crate::store::Db;
use crate::text;
use engine::keyed::Plan;
use proto::registry::LogProtocol;
use smallvec::SmallVec;

/// The most keys of one command: the values of all of them are in its reply.
pub const KEYS_MAX: usize = 128;

/// Reads of one key: their reply is a function of its value.
const READS: [&str; 12] = [
    "get",
    "strlen",
    "getrange",
    "substr",
    "getbit",
    "bitcount",
    "bitpos",
    "bitfield_ro",
    "type",
    "ttl",
    "pttl",
    "dump",
];

/// What is done key by key, each at a moment of its own.
const KEY_BY_KEY: [&str; 5] = ["mget", "exists", "touch", "del", "unlink"];

/// Words of SET that make it depend on what the key has.
const CONDITIONS: [&str; 3] = ["nx", "xx", "get"];

/// Commands of expiry.
const EXPIRY: [&str; 10] = [
    "expire",
    "pexpire",
    "expireat",
    "pexpireat",
    "persist",
    "setex",
    "psetex",
    "getex",
    "expiretime",
    "pexpiretime",
];

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    SeveralKeys,
    ReadsBeforeItWrites,
    AllKeys,
    Expires,
    Transaction,
    Script,
    Session,
    Backup,
    Other,
}

impl Refusal {
    /// Cause and mend.
    fn text(self) -> String {
        let cause = match self {
            Refusal::SeveralKeys => {
                "CROSSSLOT abd keeps each key by itself, so this command has one key"
            }
            Refusal::ReadsBeforeItWrites => {
                "ERR abd cannot decide by a key's value what is written to it: a register is read or \
                 written"
            }
            Refusal::AllKeys => {
                "ERR abd keeps each key by itself, and sees no two of them at one moment"
            }
            Refusal::Expires => "ERR abd has no expiry, since nothing orders time with writes",
            Refusal::Transaction => {
                "ERR abd has no transactions, since it keeps each key by itself"
            }
            Refusal::Script => "ERR abd has no scripts, since it keeps each key by itself",
            Refusal::Session => "ERR abd has no client sessions, since it keeps each key by itself",
            Refusal::Backup => "ERR abd has no backups, since it sees no two keys at one moment",
            Refusal::Other => {
                "ERR abd does not have this command, since it keeps each key by itself"
            }
        };
        let names: Vec<&str> = LogProtocol::ALL.iter().map(|log| log.name()).collect();
        format!("{cause}; protocols that order all commands can: {}", names.join(", "))
    }
}

/// What `request` wants of the registers, whose values have `value_bytes_max` at most. Nothing may
/// grow if the member `is_over` its limit of memory.
///
/// # Errors
/// The reply to a request that registers cannot do, or that is wrong in itself.
pub fn plan(request: &[u8], value_bytes_max: usize, is_over: bool) -> Result<Plan, Vec<u8>> {
    let refuse = |refusal: Refusal| error(&refusal.text());
    match request.first() {
        Some(&backup::REQUEST) => return Err(refuse(Refusal::Backup)),
        Some(&SNAPSHOT_REQUEST) => return Err(refuse(Refusal::AllKeys)),
        _ => {}
    }
    let (db, args) = match Command::decode(request) {
        Ok(Command::Plain { db, args, .. }) => (db, args),
        Ok(Command::Transaction { .. } | Command::Versions { .. }) => {
            return Err(refuse(Refusal::Transaction));
        }
        Ok(Command::Session(_)) => return Err(refuse(Refusal::Session)),
        Err(_) => return Err(error(text::MALFORMED)),
    };
    let mut reply = Reply::default();
    let Some(spec) = resolve(&args, &mut reply) else { return Err(reply.take()) };
    admit(spec, &args).map_err(|text| error(&text))?;
    if let Some(refusal) = refusal(spec, &args) {
        return Err(refuse(refusal));
    }
    if spec.is(flag::DENYOOM) && is_over {
        return Err(error(text::OUT_OF_MEMORY));
    }
    if args[2..].iter().any(|value| spec.is_write() && value.len() > value_bytes_max) {
        return Err(error(&format!(
            "ERR a value under abd has at most {value_bytes_max} bytes (gregale's limit)"
        )));
    }
    let keys: Vec<Vec<u8>> = keys_at(spec, &args).map(|at| key_of(db, args[at])).collect();
    if keys.len() > KEYS_MAX {
        return Err(error(&format!(
            "ERR a command under abd has at most {KEYS_MAX} keys (gregale's limit)"
        )));
    }
    Ok(Plan { keys, is_write: spec.is_write() })
}

/// The register of a key: keys of one database are beside each other.
fn key_of(db: Db, key: &[u8]) -> Vec<u8> {
    let mut register = vec![db.number()];
    register.extend_from_slice(key);
    register
}

fn error(text: &str) -> Vec<u8> {
    let mut reply = Reply::default();
    reply.error(text);
    reply.take()
}

fn keys_at(spec: &CommandSpec, args: &[&[u8]]) -> impl Iterator<Item = usize> + use<> {
    keys_of(spec, args).ok().into_iter().flatten()
}

/// Why registers cannot do it, if they cannot.
fn refusal(spec: &CommandSpec, args: &[&[u8]]) -> Option<Refusal> {
    let n_keys = keys_at(spec, args).count();
    let name = spec.name;
    if READS.contains(&name) || KEY_BY_KEY.contains(&name) {
        return None;
    }
    if name == "set" {
        let says = |words: &[&str]| {
            let is =
                |arg: &&[u8]| words.iter().any(|word| arg.eq_ignore_ascii_case(word.as_bytes()));
            args[3..].iter().any(is)
        };
        return match args.len() {
            3 => None,
            _ if says(&CONDITIONS) => Some(Refusal::ReadsBeforeItWrites),
            _ => Some(Refusal::Expires),
        };
    }
    if name == "mset" && n_keys == 1 {
        return None;
    }
    Some(match name {
        _ if name.starts_with("eval") || name.starts_with("script") => Refusal::Script,
        _ if EXPIRY.contains(&name) => Refusal::Expires,
        _ if n_keys > 1 => Refusal::SeveralKeys,
        _ if n_keys == 1 && spec.is_write() => Refusal::ReadsBeforeItWrites,
        "keys" | "scan" | "dbsize" | "randomkey" | "flushall" | "flushdb" | "swapdb" => {
            Refusal::AllKeys
        }
        _ => Refusal::Other,
    })
}

/// The command of part `at`: of its key alone.
pub(super) fn piece<'a>(
    spec: &CommandSpec,
    args: &[&'a [u8]],
    at: usize,
) -> SmallVec<[&'a [u8]; 4]> {
    if !KEY_BY_KEY.contains(&spec.name) {
        return SmallVec::from_slice(args);
    }
    let key = keys_at(spec, args).nth(at).map_or(1, |at| at);
    SmallVec::from_slice(&[args[0], args[key]])
}

/// Appends the reply that the answers of a command's parts make together.
pub(super) fn join(spec: &CommandSpec, parts: &[Vec<u8>], reply: &mut Reply) {
    if !KEY_BY_KEY.contains(&spec.name) {
        parts.iter().for_each(|part| reply.raw(part));
        return;
    }
    if spec.name == "mget" {
        reply.array(parts.len());
        // Each is an array of one element.
        for part in parts {
            reply.raw(part.strip_prefix(b"*1\r\n").unwrap_or(part));
        }
        return;
    }
    reply.integer(parts.iter().filter(|part| part.as_slice() == b":1\r\n").count() as i64);
}
