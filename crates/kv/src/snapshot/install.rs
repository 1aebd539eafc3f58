//! Reading a snapshot, in pieces of any size.

use base::{Incarnation, Prefix, Rank};

use super::{
    CHECK_BYTES, CHUNK_BYTES_MAX, CHUNK_HEAD_BYTES, Kind, MAGIC, VERSION, VERSION_MIN, check_of,
};
use crate::client_sessions::{
    CallNumber, ClientSessions, ImpossibleSession, SessionId, SessionRecord, UNACKNOWLEDGED_MAX,
};
use crate::entry::{COMMAND_BYTES_MAX, Origin, Sequence, varint};
use crate::machine::{Assembly, Machine, Pending};
use crate::script::ScriptRef;
use crate::sessions::{Executed, ImpossibleRecord, Sessions};
use crate::store::{Counters, DELETION_BUCKETS, Db, EntryRef, RestoreError, Store};

/// The reason why bytes cannot be installed as a snapshot. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The bytes have another beginning.
    #[error("these bytes are no snapshot of a key-value store")]
    NotASnapshot,
    /// Another version's snapshot.
    #[error(
        "a snapshot of format {found}, where {VERSION_MIN} to {VERSION} are known: upgrade first"
    )]
    Version {
        /// The version of the bytes.
        found: u32,
    },
    /// The bytes end before the snapshot does.
    #[error("the snapshot ends too early: fetch it again")]
    Truncated,
    /// The bytes continue after the end of the snapshot.
    #[error("bytes follow the end of the snapshot")]
    Trailing,
    /// A chunk is damaged, missing, repeated or out of place.
    #[error("chunk {chunk} of the snapshot is damaged or out of place: fetch it again")]
    Check {
        /// The number of the chunk, from 0.
        chunk: u64,
    },
    /// A chunk whose bytes are intact, but which no saver writes.
    #[error("chunk {chunk} of the snapshot is malformed")]
    Malformed {
        /// The number of the chunk, from 0.
        chunk: u64,
    },
    /// The members of the cluster are configured with different limits.
    #[error("the snapshot is of a cluster with maxmemory {theirs}, this replica has {ours}")]
    MemoryLimit {
        /// The limit in the snapshot.
        theirs: u64,
        /// The limit here.
        ours: u64,
    },
    /// The entries are not those of a store.
    #[error(transparent)]
    Store(#[from] RestoreError),
    /// The sessions are impossible.
    #[error(transparent)]
    Sessions(#[from] ImpossibleRecord),
    /// The sessions of clients are impossible.
    #[error(transparent)]
    Clients(#[from] ImpossibleSession),
}

/// Builds a machine from the bytes of a snapshot.
#[derive(Debug)]
pub struct Installer {
    memory_bytes_max: u64,
    /// The bytes of the next chunk that have arrived.
    pub(super) buffer: Vec<u8>,
    /// The number of bytes that are processed.
    done: usize,
    /// The chunk that is being read, if there is one.
    open: Option<Open>,
    /// The first error, which is final.
    failed: Option<SnapshotError>,
    begun: bool,
    check: u64,
    n_chunks: u64,
    /// The kind of the last chunk.
    last: Option<Kind>,
    head: Head,
    store: Option<Store>,
    sessions: Sessions,
    clients: ClientSessions,
    assembly: Assembly,
}

/// A chunk with a correct check that is being read.
#[derive(Clone, Copy, Debug)]
struct Open {
    kind: Kind,
    /// The offset in the buffer at which the unread part of its payload begins.
    at: usize,
    /// The offset in the buffer at which its payload ends.
    end: usize,
    /// The member and life, for a chunk of sessions.
    origin: Option<Origin>,
    /// The database, for a chunk of entries.
    db: Db,
    has_begun: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Head {
    prefix: u64,
    now_ms: u64,
    changes: u64,
}

impl Installer {
    /// An installer that has been given nothing. `memory_bytes_max` must be that of the cluster.
    pub fn new(memory_bytes_max: u64) -> Installer {
        Installer {
            memory_bytes_max,
            buffer: Vec::new(),
            done: 0,
            open: None,
            failed: None,
            begun: false,
            check: 0,
            n_chunks: 0,
            last: None,
            head: Head::default(),
            store: None,
            sessions: Sessions::new(),
            clients: ClientSessions::new(),
            assembly: Assembly::default(),
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// The bytes cannot continue a snapshot; every later call gives the same error.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), SnapshotError> {
        // A chunk's worth at a time, so that the buffer holds no more than two (P2).
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES_MAX));
            bytes = rest;
            self.feed_some(piece, usize::MAX)?;
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// Takes the next bytes, and reads at most `n_max` of the entries and records that they
    /// complete (P7). True if there are more: call it again without bytes, before there are others.
    ///
    /// # Errors
    /// As [`Installer::feed`].
    pub fn feed_some(&mut self, bytes: &[u8], n_max: usize) -> Result<bool, SnapshotError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.buffer.extend_from_slice(bytes);
        let buffer = std::mem::take(&mut self.buffer);
        let read = self.read(&buffer, n_max);
        self.buffer = buffer;
        if self.open.is_none() {
            self.buffer.drain(..self.done);
            self.done = 0;
        }
        self.failed = read.err();
        read
    }

    /// The number of keys that it has read.
    pub fn n_entries(&self) -> usize {
        self.store.as_ref().map_or(0, Store::len)
    }

    /// The machine, when the whole snapshot has been fed.
    ///
    /// # Errors
    /// The snapshot is incomplete or invalid.
    pub fn finish(self) -> Result<Machine, SnapshotError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match (self.last, self.store) {
            (Some(Kind::End), Some(store)) => Ok(Machine::from_parts(
                store,
                self.sessions,
                self.clients,
                self.assembly,
                Prefix(self.head.prefix),
            )),
            _ => Err(SnapshotError::Truncated),
        }
    }

    /// Reads the complete parts of the buffer, as [`Installer::feed_some`].
    fn read(&mut self, buffer: &[u8], n_max: usize) -> Result<bool, SnapshotError> {
        if !self.begin(buffer)? {
            return Ok(false);
        }
        let mut n_left = n_max;
        while self.open.is_some() || self.open_chunk(buffer)? {
            if !self.read_chunk(buffer, &mut n_left)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the bytes in front of the chunks: true when they are read.
    fn begin(&mut self, buffer: &[u8]) -> Result<bool, SnapshotError> {
        if self.begun {
            return Ok(true);
        }
        let Some(start) = buffer.first_chunk::<12>() else {
            let seen = buffer.len().min(MAGIC.len());
            let is_ours = buffer[..seen] == MAGIC[..seen];
            return if is_ours { Ok(false) } else { Err(SnapshotError::NotASnapshot) };
        };
        if start[..8] != MAGIC {
            return Err(SnapshotError::NotASnapshot);
        }
        let found = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
        if !(VERSION_MIN..=VERSION).contains(&found) {
            return Err(SnapshotError::Version { found });
        }
        self.begun = true;
        self.done = start.len();
        Ok(true)
    }

    /// The next chunk, if it is complete and its check is correct: no part of it is read before.
    fn open_chunk(&mut self, buffer: &[u8]) -> Result<bool, SnapshotError> {
        let rest = &buffer[self.done..];
        if self.last == Some(Kind::End) {
            return if rest.is_empty() { Ok(false) } else { Err(SnapshotError::Trailing) };
        }
        let Some(head) = rest.first_chunk::<CHUNK_HEAD_BYTES>() else { return Ok(false) };
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if len > CHUNK_BYTES_MAX {
            return Err(SnapshotError::Check { chunk: self.n_chunks });
        }
        let checked = CHUNK_HEAD_BYTES + len;
        let Some((chunk, _)) = rest.split_at_checked(checked + CHECK_BYTES) else {
            return Ok(false);
        };
        let (chunk, check) = chunk.split_at(checked);
        self.check = check_of(chunk, self.check);
        if self.check.to_le_bytes() != *check {
            return Err(SnapshotError::Check { chunk: self.n_chunks });
        }
        let malformed = SnapshotError::Malformed { chunk: self.n_chunks };
        let kind = Kind::from_byte(head[4]).filter(|kind| kind.follows(self.last));
        let at = self.done + CHUNK_HEAD_BYTES;
        let kind = kind.ok_or(malformed)?;
        self.open =
            Some(Open { kind, at, end: at + len, origin: None, db: Db::ZERO, has_begun: false });
        Ok(true)
    }

    /// Continues with the open chunk; true when it is read, false when `n_left` is used up before.
    fn read_chunk(&mut self, buffer: &[u8], n_left: &mut usize) -> Result<bool, SnapshotError> {
        let malformed = SnapshotError::Malformed { chunk: self.n_chunks };
        let Some(mut open) = self.open.take() else { return Ok(true) };
        let mut payload = &buffer[open.at..open.end];
        let rest = &mut payload;
        if !open.has_begun {
            open.has_begun = true;
            open.origin = self.chunk_head(open.kind, rest, malformed)?;
            if open.kind == Kind::Database {
                open.db = database(rest).ok_or(malformed)?;
            }
        }
        while !rest.is_empty() && *n_left > 0 {
            *n_left -= 1;
            match (open.kind, open.origin) {
                (Kind::Entries | Kind::Database, _) => {
                    let store = self.store.as_mut().ok_or(malformed)?;
                    store.restore_entry(entry(open.db, rest).ok_or(malformed)?)?;
                }
                (Kind::Session, Some(origin)) => {
                    self.sessions.restore(record(origin, rest).ok_or(malformed)?)?;
                }
                (Kind::Clients, _) => self.clients.restore(client(rest).ok_or(malformed)?)?,
                (Kind::Scripts, _) => {
                    let store = self.store.as_mut().ok_or(malformed)?;
                    let script = script(rest).ok_or(malformed)?;
                    if !store.scripts_mut().restore(script) {
                        return Err(malformed);
                    }
                }
                // These chunks consist of their heads.
                _ => return Err(malformed),
            }
        }
        if !rest.is_empty() {
            open.at = open.end - rest.len();
            self.open = Some(open);
            return Ok(false);
        }
        self.last = Some(open.kind);
        self.n_chunks += 1;
        self.done = open.end + CHECK_BYTES;
        Ok(true)
    }

    /// Reads the part before a chunk's entries or records, or the whole chunk if it has neither.
    fn chunk_head(
        &mut self,
        kind: Kind,
        rest: &mut &[u8],
        malformed: SnapshotError,
    ) -> Result<Option<Origin>, SnapshotError> {
        match kind {
            Kind::Head => {
                let [prefix, theirs, now_ms, changes] = numbers(rest).ok_or(malformed)?;
                if theirs != self.memory_bytes_max {
                    let ours = self.memory_bytes_max;
                    return Err(SnapshotError::MemoryLimit { theirs, ours });
                }
                self.head = Head { prefix, now_ms, changes };
            }
            Kind::Deletions => {
                let mut deletions = Vec::with_capacity(DELETION_BUCKETS);
                while !rest.is_empty() {
                    deletions.push(varint::take(rest).ok_or(malformed)?);
                }
                let Head { now_ms, changes, .. } = self.head;
                let counters = Counters { now_ms, changes, deletions: &deletions };
                self.store = Some(Store::restore(self.memory_bytes_max, counters)?);
            }
            Kind::Entries | Kind::Database => {}
            Kind::Session => {
                let origin = origin(rest).ok_or(malformed)?;
                if self.sessions.lives().all(|life| life != origin) {
                    self.sessions.restore_life(origin)?;
                }
                return Ok(Some(origin));
            }
            Kind::Clients => {
                let [issued] = numbers(rest).ok_or(malformed)?;
                self.clients.restore_issued(SessionId(issued))?;
            }
            Kind::Scripts => {
                let [next] = numbers(rest).ok_or(malformed)?;
                self.store.as_mut().ok_or(malformed)?.scripts_mut().restore_next(next);
            }
            Kind::Assembly => {
                let pending = pending(rest).ok_or(malformed)?;
                self.assembly = Assembly { pending: Some(pending) };
            }
            Kind::End => {
                let [n_entries] = numbers(rest).ok_or(malformed)?;
                let held = self.store.as_ref().map(|store| store.len() as u64);
                if held != Some(n_entries) {
                    return Err(malformed);
                }
            }
        }
        Ok(None)
    }
}

fn numbers<const N: usize>(rest: &mut &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        let (bytes, tail) = rest.split_first_chunk()?;
        *number = u64::from_le_bytes(*bytes);
        *rest = tail;
    }
    Some(numbers)
}

fn origin(rest: &mut &[u8]) -> Option<Origin> {
    let (&rank, tail) = rest.split_first()?;
    *rest = tail;
    let [incarnation] = numbers(rest)?;
    Some(Origin { rank: Rank::new(rank.into())?, incarnation: Incarnation(incarnation) })
}

/// A database other than 0, whose entries have a kind of their own.
fn database(rest: &mut &[u8]) -> Option<Db> {
    let number = varint::take_bytes(rest, 1)?[0];
    Db::new(number.into()).filter(|db| *db != Db::ZERO)
}

fn entry<'a>(db: Db, rest: &mut &'a [u8]) -> Option<EntryRef<'a>> {
    let key = varint::take_counted(rest)?;
    let value = varint::take_counted(rest)?;
    let expire_at_ms = varint::take(rest)?.checked_sub(1);
    Some(EntryRef { db, key, value, expire_at_ms, version: varint::take(rest)? })
}

fn record<'a>(origin: Origin, rest: &mut &'a [u8]) -> Option<Executed<'a>> {
    let sequence = Sequence(varint::take(rest)?);
    Some(Executed { origin, sequence, reply: kept(rest)? })
}

/// A reply, if it was kept.
fn kept<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    match varint::take(rest)?.checked_sub(1) {
        None => Some(None),
        Some(len) => varint::take_bytes(rest, len).map(Some),
    }
}

fn client<'a>(rest: &mut &'a [u8]) -> Option<SessionRecord<'a>> {
    let id = SessionId(varint::take(rest)?);
    let touched_ms = varint::take(rest)?;
    let acknowledged = CallNumber(varint::take(rest)?);
    let count = usize::try_from(varint::take(rest)?).ok()?;
    let count = Some(count).filter(|count| *count <= UNACKNOWLEDGED_MAX)?;
    let replies = (0..count).map(|_| kept(rest)).collect::<Option<Vec<_>>>()?;
    Some(SessionRecord { id, touched_ms, acknowledged, replies })
}

fn script<'a>(rest: &mut &'a [u8]) -> Option<ScriptRef<'a>> {
    let order = varint::take(rest)?.checked_sub(1);
    Some(ScriptRef { order, text: varint::take_counted(rest)? })
}

fn pending(rest: &mut &[u8]) -> Option<Pending> {
    let origin = origin(rest)?;
    let [sequence] = numbers(rest)?;
    let (total, tail) = rest.split_first_chunk()?;
    let total = u32::from_le_bytes(*total) as usize;
    let bytes = tail.to_vec();
    *rest = &[];
    (sequence != 0 && bytes.len() < total && total <= COMMAND_BYTES_MAX).then_some(Pending {
        origin,
        sequence: Sequence(sequence),
        total,
        bytes,
    })
}
