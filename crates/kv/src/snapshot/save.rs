//! Writing a snapshot, a chunk at a time.

use base::Prefix;

use super::{CHUNK_BYTES, CHUNK_BYTES_MAX, CHUNK_HEAD_BYTES, Kind, MAGIC, check_of, version_of};
use crate::client_sessions::SessionId;
use crate::entry::{Origin, Sequence, varint};
use crate::machine::Machine;
use crate::script::Sha;
use crate::store::{Db, DbKey, EntryRef};
use std::collections::VecDeque;

/// Writes the snapshot of one machine, which must stand still meanwhile: a machine that continues
/// to serve is cloned first, or saved at once.
#[derive(Clone, Debug)]
pub struct Saver {
    prefix: Prefix,
    next: Next,
    /// The check of the last chunk.
    check: u64,
    n_entries: u64,
}

/// The content of the next chunk.
#[derive(Clone, Debug)]
enum Next {
    Head,
    Deletions,
    /// The entries of a database after this key.
    Entries(Db, Option<Vec<u8>>),
    /// The records of a life from a sequence on.
    Session(Origin, Sequence),
    /// The sessions of clients from an id on.
    Clients(SessionId),
    /// The scripts from a name on.
    Scripts(Sha),
    Assembly,
    End,
    Nothing,
}

/// The error for a machine that has applied a value since the snapshot was begun: begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state has changed since the snapshot was begun")]
pub struct Changed;

impl Saver {
    /// Begins a snapshot of `machine`.
    pub fn new(machine: &Machine) -> Saver {
        Saver { prefix: machine.prefix, next: Next::Head, check: 0, n_entries: 0 }
    }

    /// The check of the last chunk: after the last one, the digest of the machine.
    pub(super) fn check(&self) -> u64 {
        self.check
    }

    /// Appends the next chunk to `out`. False if it was the last; later calls append nothing.
    ///
    /// # Errors
    /// The machine has changed; nothing was appended, and the snapshot cannot be completed.
    pub fn chunk(&mut self, machine: &Machine, out: &mut Vec<u8>) -> Result<bool, Changed> {
        if machine.prefix != self.prefix {
            return Err(Changed);
        }
        if let Next::Head = self.next {
            out.extend_from_slice(&MAGIC);
            out.extend_from_slice(&version_of(machine).to_le_bytes());
        }
        let start = open(out);
        let Some((kind, next)) = self.payload(machine, out) else {
            out.truncate(start);
            return Ok(false);
        };
        self.check = close(kind, start, self.check, out);
        self.next = next;
        Ok(!matches!(self.next, Next::Nothing))
    }

    /// The payloads of all chunks but the entries and the end: those before the entries, and those
    /// after.
    pub(super) fn around_entries(machine: &Machine) -> [VecDeque<(Kind, Vec<u8>)>; 2] {
        let mut saver = Saver::new(machine);
        let mut around = [VecDeque::new(), VecDeque::new()];
        loop {
            let mut payload = Vec::new();
            let (kind, next) = saver.payload(machine, &mut payload).expect("the end comes first");
            if kind == Kind::End {
                return around;
            }
            let is_after = !matches!(kind, Kind::Head | Kind::Deletions);
            around[usize::from(is_after)].push_back((kind, payload));
            saver.next = match next {
                Next::Entries(..) => first_session(machine),
                other => other,
            };
        }
    }

    /// Appends a payload; returns its kind, and the content of the next chunk.
    fn payload(&mut self, machine: &Machine, out: &mut Vec<u8>) -> Option<(Kind, Next)> {
        let start = out.len();
        let store = &machine.store;
        match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Head => {
                let counters = store.counters();
                let limit = store.memory_bytes_max();
                for number in [self.prefix.0, limit, counters.now_ms, counters.changes] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                Some((Kind::Head, Next::Deletions))
            }
            Next::Deletions => {
                store.counters().deletions.iter().for_each(|version| varint::put(*version, out));
                Some((Kind::Deletions, next_database(machine, None)))
            }
            Next::Entries(db, after) => {
                let mut entries: Box<dyn Iterator<Item = _>> = match &after {
                    None => Box::new(store.entries_of(db)),
                    Some(key) => Box::new(store.entries_after(DbKey { db, key })),
                };
                let kind = begin_entries(db, out);
                let mut last = None;
                for entry in entries.by_ref() {
                    put_entry(&entry, out);
                    self.n_entries += 1;
                    last = Some(entry.key);
                    if out.len() - start >= CHUNK_BYTES {
                        break;
                    }
                }
                let next = match last {
                    Some(key) if entries.next().is_some() => Next::Entries(db, Some(key.to_vec())),
                    _ => next_database(machine, Some(db)),
                };
                Some((kind, next))
            }
            Next::Session(origin, from) => {
                out.push(origin.rank.index() as u8);
                out.extend_from_slice(&origin.incarnation.0.to_le_bytes());
                let mut records = machine.sessions.executed(origin, from);
                for record in records.by_ref() {
                    varint::put(record.sequence.0, out);
                    put_kept(record.reply, out);
                    if out.len() - start >= CHUNK_BYTES {
                        break;
                    }
                }
                let next = match records.next() {
                    Some(record) => Next::Session(origin, record.sequence),
                    None => next_session(machine, Some(origin)),
                };
                Some((Kind::Session, next))
            }
            Next::Clients(from) => {
                out.extend_from_slice(&machine.clients.issued().0.to_le_bytes());
                let mut records = machine.clients.records(from);
                for record in records.by_ref() {
                    let numbers = [record.id.0, record.touched_ms, record.acknowledged.0];
                    numbers.into_iter().for_each(|number| varint::put(number, out));
                    varint::put(record.replies.len() as u64, out);
                    for reply in record.replies {
                        put_kept(reply, out);
                    }
                    if out.len() - start >= CHUNK_BYTES {
                        break;
                    }
                }
                let next = match records.next() {
                    Some(record) => Next::Clients(record.id),
                    None => after_clients(machine),
                };
                Some((Kind::Clients, next))
            }
            Next::Scripts(from) => {
                let scripts = store.scripts();
                out.extend_from_slice(&scripts.next().to_le_bytes());
                let mut rest = scripts.all().skip_while(|(sha, _)| **sha < from);
                for (_, script) in rest.by_ref() {
                    varint::put(script.order.map_or(0, |order| order + 1), out);
                    varint::put_counted(script.text, out);
                    if out.len() - start >= CHUNK_BYTES {
                        break;
                    }
                }
                let next = match rest.next() {
                    Some((sha, _)) => Next::Scripts(*sha),
                    None => after_scripts(machine),
                };
                Some((Kind::Scripts, next))
            }
            Next::Assembly => {
                let pending = machine.assembly.pending.as_ref().expect("seen when it was chosen");
                out.push(pending.origin.rank.index() as u8);
                out.extend_from_slice(&pending.origin.incarnation.0.to_le_bytes());
                out.extend_from_slice(&pending.sequence.0.to_le_bytes());
                out.extend_from_slice(&(pending.total as u32).to_le_bytes());
                out.extend_from_slice(&pending.bytes);
                Some((Kind::Assembly, Next::End))
            }
            Next::End => {
                out.extend_from_slice(&self.n_entries.to_le_bytes());
                Some((Kind::End, Next::Nothing))
            }
            Next::Nothing => None,
        }
    }
}

/// Appends the beginning of a chunk of a database's entries; returns the chunk's kind.
pub(super) fn begin_entries(db: Db, out: &mut Vec<u8>) -> Kind {
    if db == Db::ZERO {
        return Kind::Entries;
    }
    out.push(db.number());
    Kind::Database
}

/// The first database after this one that has a key, or the part that follows all databases.
fn next_database(machine: &Machine, after: Option<Db>) -> Next {
    let mut databases = Db::all().filter(|db| after.is_none_or(|after| *db > after));
    match databases.find(|db| machine.store.len_of(*db) != 0) {
        Some(db) => Next::Entries(db, None),
        None => first_session(machine),
    }
}

fn first_session(machine: &Machine) -> Next {
    next_session(machine, None)
}

fn next_session(machine: &Machine, after: Option<Origin>) -> Next {
    let mut lives = machine.sessions.lives();
    match lives.find(|life| after.is_none_or(|after| life.rank > after.rank)) {
        Some(life) => Next::Session(life, Sequence(0)),
        None if machine.clients.issued() != SessionId(0) => Next::Clients(SessionId(0)),
        None => after_clients(machine),
    }
}

fn after_clients(machine: &Machine) -> Next {
    let scripts = machine.store.scripts();
    // The scripts' next place is state even when no script is left.
    let is_new = scripts.is_empty() && scripts.next() == 0;
    if is_new { after_scripts(machine) } else { Next::Scripts(Sha::default()) }
}

fn after_scripts(machine: &Machine) -> Next {
    if machine.assembly.pending.is_some() { Next::Assembly } else { Next::End }
}

/// Reserves room for a chunk's head at the end of `out`; returns the offset of the chunk.
pub(super) fn open(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; CHUNK_HEAD_BYTES]);
    start
}

/// Completes the chunk whose payload is the rest of `out`; returns its check, which follows
/// `before`.
pub(super) fn close(kind: Kind, start: usize, before: u64, out: &mut Vec<u8>) -> u64 {
    let len = out.len() - start - CHUNK_HEAD_BYTES;
    assert!(len <= CHUNK_BYTES_MAX, "P2");
    out[start..start + 4].copy_from_slice(&(len as u32).to_le_bytes());
    out[start + 4] = kind as u8;
    let check = check_of(&out[start..], before);
    out.extend_from_slice(&check.to_le_bytes());
    check
}

pub(super) fn put_entry(entry: &EntryRef<'_>, out: &mut Vec<u8>) {
    varint::put_counted(entry.key, out);
    varint::put_counted(entry.value, out);
    // A stored expiry is below the largest number, which stands for "never".
    varint::put(entry.expire_at_ms.map_or(0, |at| at + 1), out);
    varint::put(entry.version, out);
}

/// A reply that may not have been kept.
fn put_kept(reply: Option<&[u8]>, out: &mut Vec<u8>) {
    match reply {
        None => varint::put(0, out),
        Some(reply) => {
            varint::put(reply.len() as u64 + 1, out);
            out.extend_from_slice(reply);
        }
    }
}
