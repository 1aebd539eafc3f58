//! Backups: the keys and values of one moment as bytes, for a file that outlives the cluster.
//!
//! ```text
//! backup = "gregback" | version (4) | frame+                      all numbers little endian
//! frame  = payload length (4) | kind (1) | payload | check (8)
//! kinds, in this order:
//!   1 head      prefix (8) | state time (8): the moment, of the cluster that was backed up
//!   2 entries*  (key, value: length (varint) | bytes; expiry in ms since 1970 + 1, or 0: varint)*
//!   4 database* number (1, from 1) | entries of this database
//!   3 end       count of entries (8) | bytes of their keys and values (8)
//! ```
//! Version 1 is of database 0 alone, and is written where no other holds a key; version 2 has
//! databases.
//!
//! A frame's check is the XXH3 hash of its other bytes, seeded with the check of the frame before
//! it, so the last check covers all. Unlike a snapshot, a backup holds nothing that only this
//! version of the program can read, and no sessions: it is restored by ordinary writes, into any
//! cluster.
//!
//! - B1 a backup is of one state: [`Frozen::of`] borrows the machine to its end. By construction.
//! - B2 equal content gives equal entries in equal order. By construction: by the store's
//!   canonical order.
//! - B3 no frame is longer than [`FRAME_BYTES_MAX`]. Asserted in `Frozen::close`, checked by
//!   [`Reader::feed`] before it waits for more.
//! - B4 bytes that were cut off, changed, or moved give an error with their offset, and no entry is
//!   shown of a frame whose check fails. Tests `b4_*`.

use crate::entry::varint;
use crate::machine::Machine;
use crate::store::{Db, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use base::Prefix;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const MAGIC: [u8; 8] = *b"gregback";

/// The newest version of the format.
pub const VERSION: u32 = 2;

/// The version of a backup of database 0 alone.
const VERSION_OF_ONE_DATABASE: u32 = 1;

/// The longest frame.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// The length at which a frame of entries is closed.
const FRAME_BYTES: usize = 128 << 10;
const _: () = assert!(FRAME_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX + 100 < FRAME_BYTES_MAX);

const START_BYTES: usize = MAGIC.len() + 4;
const HEAD_BYTES: usize = 5;
const CHECK_BYTES: usize = 8;

const HEAD: u8 = 1;
const ENTRIES: u8 = 2;
const END: u8 = 3;
const DATABASE: u8 = 4;

/// A whole backup, in the pieces in which it is fetched.
#[derive(Debug)]
pub struct Frozen {
    pieces: Vec<Vec<u8>>,
    check: u64,
    n_entries: u64,
    n_bytes: u64,
}

impl Frozen {
    /// Copies the content of `machine`. The loop stands still meanwhile.
    pub fn of(machine: &Machine) -> Frozen {
        let mut frozen = Frozen { pieces: Vec::new(), check: 0, n_entries: 0, n_bytes: 0 };
        let mut piece = MAGIC.to_vec();
        let is_one = Db::all().skip(1).all(|db| machine.store().len_of(db) == 0);
        let version = if is_one { VERSION_OF_ONE_DATABASE } else { VERSION };
        piece.extend_from_slice(&version.to_le_bytes());
        let payload = [machine.prefix().0.to_le_bytes(), machine.state_ms().to_le_bytes()].concat();
        frozen.close(HEAD, &payload, piece);
        Db::all().for_each(|db| frozen.database(machine, db));
        let payload = [frozen.n_entries.to_le_bytes(), frozen.n_bytes.to_le_bytes()].concat();
        frozen.close(END, &payload, Vec::new());
        frozen
    }

    /// The entries of one database.
    fn database(&mut self, machine: &Machine, db: Db) {
        let (kind, head) = match db {
            Db::ZERO => (ENTRIES, Vec::new()),
            db => (DATABASE, vec![db.number()]),
        };
        let mut payload = head.clone();
        for entry in machine.store().entries_of(db) {
            varint::put_counted(entry.key, &mut payload);
            varint::put_counted(entry.value, &mut payload);
            // A stored expiry is below the largest number, which stands for "never".
            varint::put(entry.expire_at_ms.map_or(0, |at| at + 1), &mut payload);
            self.n_entries += 1;
            self.n_bytes += (entry.key.len() + entry.value.len()) as u64;
            if payload.len() >= FRAME_BYTES {
                self.close(kind, &payload, Vec::new());
                payload.clone_from(&head);
            }
        }
        if payload.len() > head.len() {
            self.close(kind, &payload, Vec::new());
        }
    }

    /// Makes a piece of the frame and the bytes before it.
    fn close(&mut self, kind: u8, payload: &[u8], mut piece: Vec<u8>) {
        assert!(payload.len() <= FRAME_BYTES_MAX, "B3");
        let start = piece.len();
        piece.reserve_exact(HEAD_BYTES + payload.len() + CHECK_BYTES);
        piece.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        piece.push(kind);
        piece.extend_from_slice(payload);
        self.check = xxh3_64_with_seed(&piece[start..], self.check);
        piece.extend_from_slice(&self.check.to_le_bytes());
        self.pieces.push(piece);
    }

    /// The number of pieces.
    pub fn n_pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The number of entries.
    pub fn n_entries(&self) -> u64 {
        self.n_entries
    }

    /// A piece, unless it was released; the pieces, one after the other, are the backup.
    pub fn piece(&self, n: usize) -> Option<&[u8]> {
        self.pieces.get(n).map(Vec::as_slice).filter(|piece| !piece.is_empty())
    }

    /// Frees the memory of all pieces below `n`.
    pub fn release_below(&mut self, n: usize) {
        let n = n.min(self.pieces.len());
        // Those below an empty one were released before.
        for piece in self.pieces[..n].iter_mut().rev().take_while(|piece| !piece.is_empty()) {
            *piece = Vec::new();
        }
    }
}

/// The reason why bytes are not a valid backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// The bytes have another beginning.
    #[error("no backup of gregale begins like this")]
    NotABackup,
    /// Another version's backup.
    #[error(
        "it has format {found}, and this program reads 1 to {VERSION}: use the one that wrote it"
    )]
    Version {
        /// The version of the bytes.
        found: u32,
    },
    /// The bytes end before the backup does.
    #[error("cut off at byte {offset}: use another copy")]
    CutOff {
        /// The number of bytes.
        offset: u64,
    },
    /// A frame is damaged, missing, repeated or out of place.
    #[error("damaged in the frame that begins at byte {offset}: use another copy")]
    Damaged {
        /// The offset at which the frame begins.
        offset: u64,
    },
    /// The bytes continue after the end of the backup.
    #[error("the backup ends at byte {offset}, and other bytes follow: use another copy")]
    Trailing {
        /// The offset at which the backup ends.
        offset: u64,
    },
}

/// One entry of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The entry's database.
    pub db: Db,
    /// The key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// The time at which it expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
}

/// The totals of a whole backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The version of its format.
    pub version: u32,
    /// The prefix of the log that it covers.
    pub prefix: Prefix,
    /// The time of that state, in milliseconds since 1970; 0 if nothing was ever written.
    pub state_ms: u64,
    /// The number of entries.
    pub n_entries: u64,
    /// The bytes of keys and values.
    pub n_bytes: u64,
    /// The bytes of the whole backup.
    pub n_file_bytes: u64,
    /// The last frame's check, which covers the whole backup.
    pub check: u64,
}

/// Reads a backup in pieces of any size.
#[derive(Debug, Default)]
pub struct Reader {
    buffer: Vec<u8>,
    has_begun: bool,
    last: Option<u8>,
    /// The offset at which the buffer begins.
    offset: u64,
    summary: Summary,
}

impl Reader {
    /// A reader that has read nothing.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// Takes the next bytes, and shows the entries that they complete.
    ///
    /// # Errors
    /// The bytes cannot continue a backup. The reader must not be used after that.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        visit: &mut impl FnMut(Entry<'_>),
    ) -> Result<(), BackupError> {
        // A frame's worth at a time, so that the buffer holds no more than two (B3).
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min(FRAME_BYTES_MAX));
            bytes = rest;
            self.buffer.extend_from_slice(piece);
            let buffer = std::mem::take(&mut self.buffer);
            let mut rest = &buffer[..];
            let result = self.frames(&mut rest, visit);
            let consumed = buffer.len() - rest.len();
            self.buffer = buffer;
            self.buffer.drain(..consumed);
            result?;
        }
        Ok(())
    }

    /// The totals of what was read, if it was a whole backup.
    ///
    /// # Errors
    /// The backup was cut off.
    pub fn finish(self) -> Result<Summary, BackupError> {
        if self.last == Some(END) {
            return Ok(Summary { n_file_bytes: self.offset, ..self.summary });
        }
        Err(BackupError::CutOff { offset: self.offset + self.buffer.len() as u64 })
    }

    fn frames(
        &mut self,
        rest: &mut &[u8],
        visit: &mut impl FnMut(Entry<'_>),
    ) -> Result<(), BackupError> {
        if !self.has_begun {
            let seen = rest.len().min(MAGIC.len());
            if rest[..seen] != MAGIC[..seen] {
                return Err(BackupError::NotABackup);
            }
            let Some((start, tail)) = rest.split_first_chunk::<START_BYTES>() else {
                return Ok(());
            };
            let found = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
            if !(VERSION_OF_ONE_DATABASE..=VERSION).contains(&found) {
                return Err(BackupError::Version { found });
            }
            self.has_begun = true;
            self.summary.version = found;
            self.advance(rest, tail);
        }
        while !rest.is_empty() {
            let offset = self.offset;
            if self.last == Some(END) {
                return Err(BackupError::Trailing { offset });
            }
            let damaged = BackupError::Damaged { offset };
            let Some(head) = rest.first_chunk::<HEAD_BYTES>() else { return Ok(()) };
            let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            if len > FRAME_BYTES_MAX {
                return Err(damaged);
            }
            let kind = head[4];
            let checked = HEAD_BYTES + len;
            let Some((frame, tail)) = rest.split_at_checked(checked + CHECK_BYTES) else {
                return Ok(());
            };
            let (frame, check) = frame.split_at(checked);
            self.summary.check = xxh3_64_with_seed(frame, self.summary.check);
            if self.summary.check.to_le_bytes() != *check {
                return Err(damaged);
            }
            self.frame(kind, &frame[HEAD_BYTES..], visit).ok_or(damaged)?;
            self.last = Some(kind);
            self.advance(rest, tail);
        }
        Ok(())
    }

    fn advance<'a>(&mut self, rest: &mut &'a [u8], tail: &'a [u8]) {
        self.offset += (rest.len() - tail.len()) as u64;
        *rest = tail;
    }

    /// `None` for a payload that no `Frozen` writes.
    fn frame(&mut self, kind: u8, payload: &[u8], visit: &mut impl FnMut(Entry<'_>)) -> Option<()> {
        let summary = &mut self.summary;
        match (self.last, kind) {
            (None, HEAD) => {
                let [prefix, state_ms] = numbers(payload)?;
                (summary.prefix, summary.state_ms) = (Prefix(prefix), state_ms);
            }
            (Some(HEAD | ENTRIES), ENTRIES) | (Some(HEAD | ENTRIES | DATABASE), DATABASE) => {
                let (db, payload) = match kind {
                    ENTRIES => (Db::ZERO, payload),
                    _ => {
                        let (&number, payload) = payload.split_first()?;
                        (Db::new(number.into()).filter(|db| *db != Db::ZERO)?, payload)
                    }
                };
                // Either the whole frame is sound, or none of its entries is shown (B4).
                let mut rest = payload;
                while !rest.is_empty() {
                    entry(db, &mut rest)?;
                }
                let mut rest = payload;
                while let Some(entry) = entry(db, &mut rest) {
                    summary.n_entries += 1;
                    summary.n_bytes += (entry.key.len() + entry.value.len()) as u64;
                    visit(entry);
                }
            }
            (Some(HEAD | ENTRIES | DATABASE), END) => {
                let counts = numbers(payload)?;
                return (counts == [summary.n_entries, summary.n_bytes]).then_some(());
            }
            _ => return None,
        }
        Some(())
    }
}

fn numbers(payload: &[u8]) -> Option<[u64; 2]> {
    let (first, rest) = payload.split_first_chunk()?;
    Some([u64::from_le_bytes(*first), u64::from_le_bytes(rest.try_into().ok()?)])
}

fn entry<'a>(db: Db, rest: &mut &'a [u8]) -> Option<Entry<'a>> {
    let key = varint::take_counted(rest)?;
    let value = varint::take_counted(rest)?;
    let expire_at_ms = varint::take(rest)?.checked_sub(1);
    Some(Entry { db, key, value, expire_at_ms })
}

/// The first byte of a read that concerns backups; no command begins with it.
pub const REQUEST: u8 = 0x60;

/// A request of `GREGALE.BACKUP`. The client that takes a backup names it by a token of its own, so
/// that a repeated request does not begin another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `BEGIN token`: freeze the state; the answer is the number of pieces and of entries.
    Begin(&'a [u8]),
    /// `PIECE token n`: piece `n`; the pieces below it are no longer needed.
    Piece(&'a [u8], usize),
    /// `END token`.
    End(&'a [u8]),
}

/// The longest token.
const TOKEN_BYTES_MAX: usize = 64;

impl<'a> Request<'a> {
    /// Parses the words of a command, its name first.
    pub fn parse(args: &[&'a [u8]]) -> Option<Request<'a>> {
        let (token, rest) = args.get(2..)?.split_first()?;
        let is = |word: &str| args[1].eq_ignore_ascii_case(word.as_bytes());
        let request = match rest {
            [] if is("begin") => Request::Begin(token),
            [n] if is("piece") => Request::Piece(token, std::str::from_utf8(n).ok()?.parse().ok()?),
            [] if is("end") => Request::End(token),
            _ => return None,
        };
        (1..=TOKEN_BYTES_MAX).contains(&token.len()).then_some(request)
    }

    /// Encodes the request, for the member that answers it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let (kind, token, n) = match *self {
            Request::Begin(token) => (0, token, 0),
            Request::Piece(token, n) => (1, token, n),
            Request::End(token) => (2, token, 0),
        };
        out.extend_from_slice(&[REQUEST, kind]);
        varint::put_counted(token, out);
        varint::put(n as u64, out);
    }

    /// Decodes the bytes of [`Request::put`].
    pub fn decode(bytes: &'a [u8]) -> Option<Request<'a>> {
        let [REQUEST, kind, rest @ ..] = bytes else { return None };
        let mut rest = rest;
        let token = varint::take_counted(&mut rest)?;
        let n = usize::try_from(varint::take(&mut rest)?).ok()?;
        match kind {
            _ if !rest.is_empty() => None,
            0 => Some(Request::Begin(token)),
            1 => Some(Request::Piece(token, n)),
            2 => Some(Request::End(token)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
