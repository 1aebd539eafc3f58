//! Whole states in files: written once, checksummed by the chunk, read in any order.
//!
//! ```text
//! first block (4096 bytes)                       chunk n, at 4096 + n * (16 + 65536)
//!  0  [8]  "GREGSNP" 0                            0  u32  CRC32C of bytes 4..16 + length
//!  8  u32  format version (1)                     4  u32  length (65536 but for the last)
//! 12  u32  length of the note                     8  u64  n
//! 16  u64  log                                   16  the bytes
//! 24  u64  slot: the state holds all below       last block (32 bytes, behind the last chunk)
//! 32  ...  note, zeros                            0  [8]  "GREGEND" 0       8  u64  bytes of state
//! 4092 u32 CRC32C of bytes 0..4092               16  u64  XXH3 of them     24  u32  0
//!                                                28  u32  CRC32C of bytes 0..28
//! ```
//!
//! Chunks have fixed places, so a transfer that broke off resumes at any chunk.
//!
//! - I1 **Whole or absent.** A snapshot gets its name when every byte is durable; the name is
//!   durable before [`SnapshotWriter::finish`] returns. By construction: it is written under
//!   another name, which [`clear`] removes after a crash.
//! - I2 **No unchecked byte is returned.** Each chunk is verified when it is read, against its
//!   number too; [`Snapshot::verify`] checks the whole.

use crate::media::{Media, is_unreadable};
use base::Slot;
use std::io;
use xxhash_rust::xxh3::Xxh3;

/// The number of bytes of state in a chunk.
pub const CHUNK: usize = 64 * 1024;
/// The longest note.
pub const NOTE_MAX: usize = FIRST_BLOCK - NOTE_AT - 4;
/// The version of everything in a snapshot file.
pub const VERSION: u32 = 1;

const FIRST_BLOCK: usize = 4096;
const LOG_AT: u64 = 16;
const NOTE_AT: usize = 32;
const CHUNK_HEADER: usize = 16;
const LAST_BLOCK: usize = 32;
const MAGIC: &[u8; 8] = b"GREGSNP\0";
const MAGIC_END: &[u8; 8] = b"GREGEND\0";
/// The number of chunks after which a snapshot is synced: if all of it were flushed at the end, the
/// syncs of the log on the same disk would wait behind it.
const SYNC_EVERY: u64 = 64;
const UNFINISHED: &str = ".part";

/// The reason why a snapshot cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk failed, or is full; the unfinished file was removed if that was possible.
    #[error("{what} {file} in {place}: {error}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        file: String,
        /// The directory.
        place: String,
        /// The disk's error.
        error: io::Error,
    },
    /// The file is damaged.
    #[error(
        "{place}/{file} is damaged at byte {offset}: {why}. Use an older snapshot, or fetch the \
         state from another member"
    )]
    Damaged {
        /// The directory.
        place: String,
        /// The file.
        file: String,
        /// The offset of the damage.
        offset: u64,
        /// The damage.
        why: String,
    },
}

impl SnapshotError {
    /// Whether the disk cannot give the content of the file.
    pub fn is_unread(&self) -> bool {
        matches!(self, SnapshotError::Io { error, .. } if is_unreadable(error))
    }
}

/// The name of the snapshot of all below `slot`.
pub fn name(slot: Slot) -> String {
    format!("snapshot-{:016x}", slot.0)
}

/// The slot of the snapshot with this file name.
pub fn slot(name: &str) -> Option<Slot> {
    let digits = name.strip_prefix("snapshot-")?;
    let slot = Slot(u64::from_str_radix(digits, 16).ok()?);
    (self::name(slot) == name).then_some(slot)
}

/// The snapshots in a directory, oldest first.
pub fn list<M: Media>(media: &M) -> io::Result<Vec<Slot>> {
    let mut slots: Vec<Slot> = media.list()?.iter().filter_map(|name| slot(name)).collect();
    slots.sort_unstable();
    Ok(slots)
}

/// Removes the remains of a crash: call it once, before snapshots are written.
pub fn clear<M: Media>(media: &M) -> io::Result<()> {
    for name in media.list()? {
        if name.strip_suffix(UNFINISHED).and_then(slot).is_some() {
            media.remove(&name)?;
        }
    }
    media.sync_dir()
}

/// The snapshots that were found to be of no use. None takes a place of those that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// The damaged ones. They are removed as soon as enough newer ones are there.
    pub damaged: Vec<Slot>,
    /// The ones that the disk did not give. The life that met them does not remove them: a later
    /// one may read them, until it has newer ones.
    pub unread: Vec<Slot>,
}

impl PassedOver {
    fn has(&self, slot: Slot) -> bool {
        self.damaged.contains(&slot) || self.unread.contains(&slot)
    }

    /// Notes that a whole snapshot of `slot` was written, in place of any other.
    pub fn written(&mut self, slot: Slot) {
        self.damaged.retain(|of| *of != slot);
        self.unread.retain(|of| *of != slot);
    }
}

/// Removes all but the `kept` newest snapshots up to that of `last`, which was written last: a
/// later one is of another log, and must not take a place of these. Nor must one that was passed
/// over: the last whole one would be removed for it.
pub fn delete_old<M: Media>(
    media: &M,
    last: Slot,
    kept: usize,
    passed_over: &PassedOver,
) -> io::Result<()> {
    let mut slots = list(media)?;
    slots.retain(|slot| *slot <= last);
    let mut n_kept = 0;
    for &slot in slots.iter().rev() {
        if n_kept == kept {
            if !passed_over.unread.contains(&slot) {
                media.remove(&name(slot))?;
            }
        } else if slot == last || !passed_over.has(slot) {
            n_kept += 1;
        }
    }
    media.sync_dir()
}

/// A snapshot that is being written. Dropping it unfinished removes it.
pub struct SnapshotWriter<M: Media> {
    media: M,
    file: M::File,
    slot: Slot,
    chunk: Vec<u8>,
    n_chunks: u64,
    n_bytes: u64,
    hash: Xxh3,
    is_finished: bool,
}

impl<M: Media> SnapshotWriter<M> {
    /// Begins the snapshot of all below `slot`. The note is the caller's, for example the
    /// configuration in force (at most [`NOTE_MAX`] bytes).
    pub fn create(media: &M, log: u64, slot: Slot, note: &[u8]) -> Result<Self, SnapshotError> {
        assert!(note.len() <= NOTE_MAX, "{} bytes of note", note.len());
        let name = unfinished(slot);
        // A failed attempt of this process may have left it.
        let _ = media.remove(&name);
        let file = media.create(&name, 0).map_err(|e| failed(media, slot, "creating", e))?;
        let mut block = Vec::with_capacity(FIRST_BLOCK);
        block.extend_from_slice(MAGIC);
        block.extend_from_slice(&VERSION.to_le_bytes());
        block.extend_from_slice(&(note.len() as u32).to_le_bytes());
        block.extend_from_slice(&log.to_le_bytes());
        block.extend_from_slice(&slot.0.to_le_bytes());
        block.extend_from_slice(note);
        block.resize(FIRST_BLOCK - 4, 0);
        block.extend_from_slice(&crc32c::crc32c(&block).to_le_bytes());
        let writer = SnapshotWriter {
            media: media.clone(),
            file,
            slot,
            chunk: vec![0; CHUNK_HEADER],
            n_chunks: 0,
            n_bytes: 0,
            hash: Xxh3::new(),
            is_finished: false,
        };
        writer.put(0, &block)?;
        Ok(writer)
    }

    fn put(&self, offset: u64, bytes: &[u8]) -> Result<(), SnapshotError> {
        let put = self.media.write_at(&self.file, offset, bytes);
        put.map_err(|e| failed(&self.media, self.slot, "writing", e))
    }

    /// Adds bytes of the state, in parts of any size.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), SnapshotError> {
        while !bytes.is_empty() {
            let room = CHUNK_HEADER + CHUNK - self.chunk.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            self.hash.update(now);
            self.n_bytes += now.len() as u64;
            bytes = later;
            if self.chunk.len() == CHUNK_HEADER + CHUNK {
                self.put_chunk()?;
            }
        }
        Ok(())
    }

    fn put_chunk(&mut self) -> Result<(), SnapshotError> {
        let len = (self.chunk.len() - CHUNK_HEADER) as u32;
        self.chunk[4..8].copy_from_slice(&len.to_le_bytes());
        self.chunk[8..16].copy_from_slice(&self.n_chunks.to_le_bytes());
        let crc = crc32c::crc32c(&self.chunk[4..]);
        self.chunk[..4].copy_from_slice(&crc.to_le_bytes());
        self.put(chunk_at(self.n_chunks), &self.chunk)?;
        self.n_chunks += 1;
        self.chunk.truncate(CHUNK_HEADER);
        if self.n_chunks.is_multiple_of(SYNC_EVERY) {
            let synced = self.media.sync(&self.file);
            synced.map_err(|e| failed(&self.media, self.slot, "syncing", e))?;
        }
        Ok(())
    }

    /// Makes the snapshot durable and gives it its name.
    pub fn finish(mut self) -> Result<Slot, SnapshotError> {
        let mut at = chunk_at(self.n_chunks);
        if self.chunk.len() > CHUNK_HEADER {
            at += self.chunk.len() as u64;
            self.put_chunk()?;
        }
        let mut block = Vec::with_capacity(LAST_BLOCK);
        block.extend_from_slice(MAGIC_END);
        block.extend_from_slice(&self.n_bytes.to_le_bytes());
        block.extend_from_slice(&self.hash.digest().to_le_bytes());
        block.resize(LAST_BLOCK - 4, 0);
        block.extend_from_slice(&crc32c::crc32c(&block).to_le_bytes());
        self.put(at, &block)?;
        let (media, slot) = (&self.media, self.slot);
        media.sync(&self.file).map_err(|e| failed(media, slot, "syncing", e))?;
        let renamed = media.rename(&unfinished(slot), &name(slot));
        renamed.map_err(|e| failed(media, slot, "naming", e))?;
        self.is_finished = true;
        media.sync_dir().map_err(|e| failed(media, slot, "syncing the directory of", e))?;
        Ok(slot)
    }

    /// Leaves the file unfinished, as a process does that dies: for simulators. [`clear`] removes
    /// it.
    pub fn leave(mut self) {
        self.is_finished = true;
    }
}

impl<M: Media> Drop for SnapshotWriter<M> {
    fn drop(&mut self) {
        if !self.is_finished {
            // A file that stays behind is removed by `clear`, or by the next attempt.
            let _ = self.media.remove(&unfinished(self.slot));
        }
    }
}

fn unfinished(slot: Slot) -> String {
    format!("{}{UNFINISHED}", name(slot))
}

const fn chunk_at(n: u64) -> u64 {
    FIRST_BLOCK as u64 + n * (CHUNK_HEADER + CHUNK) as u64
}

fn failed<M: Media>(media: &M, slot: Slot, what: &'static str, error: io::Error) -> SnapshotError {
    SnapshotError::Io { what, file: name(slot), place: media.place(), error }
}

/// A snapshot open for reading.
#[derive(Debug)]
pub struct Snapshot<M: Media> {
    media: M,
    file: M::File,
    log: u64,
    slot: Slot,
    note: Vec<u8>,
    n_bytes: u64,
    hash: u64,
}

impl<M: Media> Snapshot<M> {
    /// Opens the snapshot of all below `slot`: its first and last block are verified.
    pub fn open(media: &M, slot: Slot) -> Result<Self, SnapshotError> {
        let failed = |e| failed(media, slot, "opening", e);
        let damaged = |offset, why| damaged(media, slot, offset, why);
        let file = media.open(&name(slot)).map_err(failed)?;
        let len = media.len(&file).map_err(failed)?;
        if len < (FIRST_BLOCK + LAST_BLOCK) as u64 {
            return Err(damaged(len, "it ends there"));
        }
        let mut first = vec![0; FIRST_BLOCK];
        media.read_at(&file, 0, &mut first).map_err(failed)?;
        if !is_intact(&first) || !first.starts_with(MAGIC) {
            return Err(damaged(0, "its first block is damaged"));
        }
        if u32_at(&first, 8) != VERSION {
            return Err(damaged(8, "its format version is unknown: use the release that wrote it"));
        }
        if u64_at(&first, 24) != slot.0 {
            return Err(damaged(24, "it is the snapshot of another slot"));
        }
        let note = first.get(NOTE_AT..NOTE_AT + u32_at(&first, 12) as usize);
        let note = note.ok_or_else(|| damaged(12, "its note is too long"))?.to_owned();
        let mut last = vec![0; LAST_BLOCK];
        let last_at = len - LAST_BLOCK as u64;
        media.read_at(&file, last_at, &mut last).map_err(failed)?;
        let n_bytes = u64_at(&last, 8);
        if !is_intact(&last) || !last.starts_with(MAGIC_END) || end_of(n_bytes) != Some(last_at) {
            return Err(damaged(last_at, "its last block is damaged"));
        }
        let (log, hash) = (u64_at(&first, 16), u64_at(&last, 16));
        Ok(Snapshot { media: media.clone(), file, log, slot, note, n_bytes, hash })
    }

    /// The log whose state this is.
    pub fn log(&self) -> u64 {
        self.log
    }

    /// Refuses a snapshot whose state is not that of `log`: a file that was put there from another
    /// member's directory.
    pub fn check_log(&self, log: u64) -> Result<(), SnapshotError> {
        if self.log == log {
            return Ok(());
        }
        let why = format!(
            "it is a snapshot of log {:016x}, and this directory has log {log:016x}: the file \
             belongs into another directory",
            self.log
        );
        Err(damaged(&self.media, self.slot, LOG_AT, &why))
    }

    /// The slot below which the state is complete.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The caller's note.
    pub fn note(&self) -> &[u8] {
        &self.note
    }

    /// The bytes of the state.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// The number of chunks.
    pub fn n_chunks(&self) -> u64 {
        self.n_bytes.div_ceil(CHUNK as u64)
    }

    /// Appends chunk `n` to `out`: [`CHUNK`] bytes, or fewer for the last.
    pub fn read_chunk(&self, n: u64, out: &mut Vec<u8>) -> Result<(), SnapshotError> {
        assert!(n < self.n_chunks(), "there are {} chunks", self.n_chunks());
        let len = (self.n_bytes - n * CHUNK as u64).min(CHUNK as u64) as usize;
        let mut chunk = vec![0; CHUNK_HEADER + len];
        let read = self.media.read_at(&self.file, chunk_at(n), &mut chunk);
        read.map_err(|e| failed(&self.media, self.slot, "reading", e))?;
        // I2: a chunk that is intact but stands in another's place is refused as well.
        let is_intact = u32_at(&chunk, 0) == crc32c::crc32c(&chunk[4..]);
        if !is_intact || u32_at(&chunk, 4) as usize != len || u64_at(&chunk, 8) != n {
            return Err(damaged(&self.media, self.slot, chunk_at(n), "the chunk is damaged"));
        }
        out.extend_from_slice(&chunk[CHUNK_HEADER..]);
        Ok(())
    }

    /// Reads it all and checks it (I2).
    pub fn verify(&self) -> Result<(), SnapshotError> {
        let (mut hash, mut chunk) = (Xxh3::new(), Vec::new());
        for n in 0..self.n_chunks() {
            chunk.clear();
            self.read_chunk(n, &mut chunk)?;
            hash.update(&chunk);
        }
        if hash.digest() == self.hash {
            Ok(())
        } else {
            Err(damaged(&self.media, self.slot, 0, "its chunks are not those that were written"))
        }
    }
}

fn damaged<M: Media>(media: &M, slot: Slot, offset: u64, why: &str) -> SnapshotError {
    let (place, file, why) = (media.place(), name(slot), why.to_owned());
    SnapshotError::Damaged { place, file, offset, why }
}

/// Where the last block of a snapshot of `n_bytes` stands.
fn end_of(n_bytes: u64) -> Option<u64> {
    let n_chunks = n_bytes.div_ceil(CHUNK as u64);
    n_chunks.checked_mul(CHUNK_HEADER as u64)?.checked_add(n_bytes)?.checked_add(FIRST_BLOCK as u64)
}

fn is_intact(block: &[u8]) -> bool {
    let (bytes, crc) = block.split_at(block.len() - 4);
    crc32c::crc32c(bytes).to_le_bytes() == crc
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|n| bytes[at + n]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::Simulated;
    use base::Rng;

    fn state(n_bytes: usize) -> Vec<u8> {
        let mut rng = Rng::new(n_bytes as u64);
        (0..n_bytes).map(|_| rng.next_u64() as u8).collect()
    }

    fn write(disk: &Simulated, slot: Slot, state: &[u8]) -> Result<Slot, SnapshotError> {
        let mut writer = SnapshotWriter::create(disk, 5, slot, b"note")?;
        for piece in state.chunks(10_007) {
            writer.write(piece)?;
        }
        writer.finish()
    }

    #[test]
    fn what_is_written_is_read_at_every_length_around_a_chunk() {
        for n_bytes in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 17] {
            let (disk, state) = (Simulated::new(), state(n_bytes));
            write(&disk, Slot(9), &state).unwrap();
            let snapshot = Snapshot::open(&disk, Slot(9)).unwrap();
            snapshot.verify().unwrap();
            let mut read = Vec::new();
            (0..snapshot.n_chunks()).for_each(|n| snapshot.read_chunk(n, &mut read).unwrap());
            assert!(read == state, "{n_bytes}");
            assert_eq!((snapshot.note(), snapshot.log()), (&b"note"[..], 5));
        }
    }

    #[test]
    fn i1_after_a_power_cut_at_any_operation_a_snapshot_is_whole_or_absent() {
        let state = state(2 * CHUNK + 5);
        let (mut n_whole, mut n_absent) = (0, 0);
        for seed in 0..300 {
            let (disk, mut rng) = (Simulated::new(), Rng::new(seed));
            write(&disk, Slot(1), &state[..100]).unwrap();
            disk.set_faults(|faults| faults.cut_after = Some(rng.below(12)));
            let written = write(&disk, Slot(2), &state);
            disk.power_cut(&mut rng);
            clear(&disk).unwrap();
            for slot in list(&disk).unwrap() {
                Snapshot::open(&disk, slot).unwrap().verify().unwrap();
            }
            let names = list(&disk).unwrap();
            assert!(names.contains(&Slot(1)));
            assert!(written.is_err() || names.contains(&Slot(2)), "I1: seed {seed}");
            *(if names.len() == 2 { &mut n_whole } else { &mut n_absent }) += 1;
        }
        assert!(n_whole > 0 && n_absent > 0);
    }

    #[test]
    fn i2_every_flipped_bit_of_a_snapshot_is_noticed() {
        let (disk, mut rng) = (Simulated::new(), Rng::new(3));
        write(&disk, Slot(2), &state(CHUNK + 100)).unwrap();
        let n_bits = disk.contents(&name(Slot(2))).unwrap().len() as u64 * 8;
        for _ in 0..300 {
            let bit = rng.below(n_bits);
            disk.flip(&name(Slot(2)), bit);
            let verified = Snapshot::open(&disk, Slot(2)).and_then(|snapshot| snapshot.verify());
            assert!(matches!(verified, Err(SnapshotError::Damaged { .. })), "bit {bit}");
            disk.flip(&name(Slot(2)), bit);
        }
        Snapshot::open(&disk, Slot(2)).unwrap().verify().unwrap();
    }

    #[test]
    fn a_snapshot_of_another_log_is_refused_by_name() {
        let disk = Simulated::new();
        write(&disk, Slot(2), b"state").unwrap();
        let snapshot = Snapshot::open(&disk, Slot(2)).unwrap();
        snapshot.check_log(5).unwrap();
        let refused = snapshot.check_log(6).unwrap_err();
        assert!(matches!(refused, SnapshotError::Damaged { offset: 16, .. }), "{refused:?}");
        let said = refused.to_string();
        assert!(said.contains("of log 0000000000000005, and this directory"), "{said}");
    }

    #[test]
    fn a_full_disk_refuses_a_snapshot_and_gets_its_space_back() {
        let (disk, state) = (Simulated::new(), state(3 * CHUNK));
        disk.set_faults(|faults| faults.capacity = Some(2 * CHUNK as u64));
        assert!(write(&disk, Slot(2), &state).is_err());
        disk.sync_dir().unwrap();
        write(&disk, Slot(3), &state[..CHUNK]).unwrap();
        assert_eq!(list(&disk).unwrap(), [Slot(3)]);
    }

    #[test]
    fn old_snapshots_are_deleted() {
        let disk = Simulated::new();
        for slot in 1..=4 {
            write(&disk, Slot(slot), b"state").unwrap();
        }
        let none = PassedOver::default();
        delete_old(&disk, Slot(3), 2, &none).unwrap();
        assert_eq!(list(&disk).unwrap(), [Slot(2), Slot(3), Slot(4)], "the last is not looked at");
        delete_old(&disk, Slot(4), 2, &none).unwrap();
        assert_eq!(list(&disk).unwrap(), [Slot(3), Slot(4)]);
    }

    #[test]
    fn a_damaged_snapshot_takes_no_place_of_a_whole_one() {
        let disk = Simulated::new();
        for slot in 1..=3 {
            write(&disk, Slot(slot), b"state").unwrap();
        }
        let mut passed_over = PassedOver { damaged: vec![Slot(2)], ..PassedOver::default() };
        delete_old(&disk, Slot(3), 2, &passed_over).unwrap();
        assert_eq!(list(&disk).unwrap(), [Slot(1), Slot(2), Slot(3)]);
        write(&disk, Slot(4), b"state").unwrap();
        delete_old(&disk, Slot(4), 2, &passed_over).unwrap();
        assert_eq!(list(&disk).unwrap(), [Slot(3), Slot(4)]);
        passed_over.written(Slot(2));
        assert_eq!(passed_over, PassedOver::default());
    }

    #[test]
    fn a_snapshot_that_could_not_be_read_is_not_removed() {
        let disk = Simulated::new();
        for slot in 1..=4 {
            write(&disk, Slot(slot), b"state").unwrap();
        }
        let passed_over = PassedOver { unread: vec![Slot(2)], ..PassedOver::default() };
        delete_old(&disk, Slot(4), 2, &passed_over).unwrap();
        assert_eq!(list(&disk).unwrap(), [Slot(2), Slot(3), Slot(4)]);
    }
}
