//! The poll loop's part: lays out records, groups them into batches, reads them back.

use super::flushes::{Flush, Flushes};
use super::index::Index;
use super::record::{self, HEADER, Head, Kind, Position};
use super::{AppendError, Damage, META_MAX, Options, ReadError, segment};
use crate::media::{Media, lacks_descriptors};
use base::{Ballot, Slot};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

/// The most open files for reading old segments. A follower that catches up reads in one of them.
const READERS_MAX: usize = 4;

/// The longest buffer of a batch that is kept for another one.
const BUFFER_MAX: usize = 4 << 20;

/// The reason why a record is not read.
enum Unread {
    Flaw(record::Flaw),
    Io(io::Error),
}

impl From<record::Flaw> for Unread {
    fn from(flaw: record::Flaw) -> Unread {
        Unread::Flaw(flaw)
    }
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        Unread::Io(error)
    }
}

/// Whether an error means that bytes which were synced are not there.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}

/// An entry without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHead {
    /// The entry's place in the replicated order.
    pub slot: Slot,
    /// The ballot with which it was appended.
    pub ballot: Ballot,
    /// The view with which it was appended.
    pub view: u64,
}

/// Records that become durable together: bytes for one file.
#[derive(Debug)]
pub struct Batch {
    /// The position at which the bytes go to the disk.
    pub(super) start: Position,
    /// The position at which the next batch begins.
    pub(super) end: Position,
    pub(super) bytes: Vec<u8>,
}

impl Batch {
    /// The size on disk.
    pub fn n_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The position at which the next batch begins: the argument of [`Log::done`].
    pub fn end(&self) -> Position {
        self.end
    }
}

/// The batch under construction.
#[derive(Debug)]
struct Open {
    bytes: Vec<u8>,
    /// The position at which it begins.
    start: Position,
    /// The offset of its last record, which is incomplete until its padding is known.
    last: Option<usize>,
    /// An empty buffer for the next one: memory that was written before costs no page faults.
    spare: Vec<u8>,
}

/// The end of the log, as recovery found it.
#[derive(Debug)]
pub(super) struct End {
    pub(super) index: Index,
    pub(super) meta: Vec<u8>,
    pub(super) tail: Position,
    pub(super) link: u64,
    pub(super) oldest: u32,
    /// The length of the tail's segment.
    pub(super) segment_bytes: u32,
}

/// The poll loop's part of the log; see the module above.
#[derive(Debug)]
pub struct Log<M: Media> {
    media: M,
    options: Options,
    salt: u32,
    index: Index,
    meta: Vec<u8>,
    /// The position of the next record.
    tail: Position,
    /// The length of its segment, which may have been made with other sizes.
    segment_bytes: u32,
    /// The hash of the last complete record.
    link: u64,
    open: Open,
    /// The complete batches that were not taken yet.
    closed: VecDeque<Arc<Batch>>,
    /// The batches not yet durable, and durable ones as far as the cache reaches; by position.
    recent: VecDeque<Arc<Batch>>,
    recent_bytes: usize,
    unsynced_bytes: usize,
    /// The position below which everything is durable.
    synced: Position,
    /// The position that must be durable before entries that were cut, skipped or freed may be
    /// given back (I10).
    loosened: Position,
    flushes: Flushes,
    /// The oldest segment that was not given back.
    oldest: u32,
    readers: BTreeMap<u32, M::File>,
}

impl<M: Media> Log<M> {
    pub(super) fn new(media: M, options: Options, log: u64, end: End) -> Log<M> {
        Log {
            media,
            options,
            salt: segment::salt(log),
            index: end.index,
            meta: end.meta,
            tail: end.tail,
            segment_bytes: end.segment_bytes,
            link: end.link,
            open: Open { bytes: Vec::new(), start: end.tail, last: None, spare: Vec::new() },
            closed: VecDeque::new(),
            recent: VecDeque::new(),
            recent_bytes: 0,
            unsynced_bytes: 0,
            synced: end.tail,
            loosened: end.tail,
            flushes: Flushes::default(),
            oldest: end.oldest,
            readers: BTreeMap::new(),
        }
    }

    /// The first entry held.
    pub fn start(&self) -> Slot {
        self.index.first()
    }

    /// One past the last entry.
    pub fn end(&self) -> Slot {
        self.index.end()
    }

    /// The head of an entry, from memory; `None` if the log does not hold it.
    pub fn head(&self, slot: Slot) -> Option<EntryHead> {
        let place = self.index.at(slot)?;
        Some(EntryHead { slot, ballot: place.ballot, view: place.view })
    }

    /// The bytes of payload of all entries held.
    pub fn n_payload_bytes(&self) -> u64 {
        self.index.n_payload_bytes()
    }

    /// The position of the entry of `slot`; of the next record, if the log holds no such entry.
    pub fn position(&self, slot: Slot) -> Position {
        self.index.at(slot).map_or(self.tail, |place| place.position)
    }

    /// The position of the next record.
    pub fn tail(&self) -> Position {
        self.tail
    }

    /// The bytes of the segments from `position`, which is not behind the tail, to the tail: all
    /// records with their heads and padding, and what segments leave free at their ends.
    pub fn n_bytes_from(&self, position: Position) -> u64 {
        let n_segments = u64::from(self.tail.segment() - position.segment());
        let n_bytes = n_segments * u64::from(self.options.segment_bytes);
        n_bytes + u64::from(self.tail.offset()) - u64::from(position.offset())
    }

    /// The metadata in force; empty before the first.
    pub fn meta(&self) -> &[u8] {
        &self.meta
    }

    /// The media of the log.
    pub fn media(&self) -> &M {
        &self.media
    }

    /// The sizes.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The number of bytes that are not durable.
    pub fn n_unsynced(&self) -> usize {
        self.unsynced_bytes + self.open.bytes.len()
    }

    /// Appends the entry of slot [`Log::end`].
    pub fn append(
        &mut self,
        slot: Slot,
        ballot: Ballot,
        view: u64,
        payload: &[u8],
    ) -> Result<(), AppendError> {
        assert_eq!(slot, self.end(), "entries are appended in order");
        let max = self.options.payload_max();
        if payload.len() > max {
            return Err(AppendError::TooLong { bytes: payload.len(), max });
        }
        let bytes = self.n_unsynced();
        if bytes + payload.len() > self.options.unsynced_bytes {
            return Err(AppendError::Backlog { bytes });
        }
        self.put(Kind::Entry, slot, ballot, view, payload);
        Ok(())
    }

    /// Removes entries at `end` and above.
    pub fn cut(&mut self, end: Slot) {
        assert!(self.start() <= end && end <= self.end(), "{end:?} is outside the log");
        if end < self.end() {
            self.put(Kind::Cut, end, Ballot::NONE, 0, &[]);
            self.loosened = self.tail;
        }
    }

    /// Replaces the metadata, of at most [`META_MAX`] bytes.
    pub fn put_meta(&mut self, meta: &[u8]) {
        assert!(meta.len() <= META_MAX, "{} bytes of metadata", meta.len());
        self.put(Kind::Meta, Slot::ZERO, Ballot::NONE, 0, meta);
        self.meta.clear();
        self.meta.extend_from_slice(meta);
    }

    /// Empties the log, whose next entry is that of `slot`: a durable snapshot covers everything
    /// below.
    pub fn begin_at(&mut self, slot: Slot) {
        self.put(Kind::Skip, slot, Ballot::NONE, 0, &[]);
        self.loosened = self.tail;
    }

    /// Frees entries below `slot`, which a snapshot covers durably. A slot above the end is handled
    /// as in [`Log::begin_at`]. Space is given back when everything requested earlier is durable
    /// (I10): the user's metadata may name the slot from which it needs the log.
    pub fn free_below(&mut self, slot: Slot) {
        if slot > self.end() {
            self.begin_at(slot);
        } else {
            self.index.free_below(slot);
            self.loosened = self.tail;
        }
    }

    /// Requests that everything so far become durable; [`Log::flushed`] answers.
    pub fn sync(&mut self) -> Flush {
        self.flushes.request(self.tail)
    }

    /// The newest request that has become durable since the last call.
    pub fn flushed(&mut self) -> Option<Flush> {
        self.flushes.met(self.synced)
    }

    /// The number of bytes that [`Log::take`] would hand over.
    pub fn n_wanted(&self) -> usize {
        let closed: usize = self.closed.iter().map(|batch| batch.n_bytes()).sum();
        closed + if self.is_open_wanted() { self.open.bytes.len() } else { 0 }
    }

    /// Whether a request covers a part of the batch under construction.
    fn is_open_wanted(&self) -> bool {
        !self.open.bytes.is_empty() && self.flushes.reach_beyond(self.open.start)
    }

    /// The next batch for the writer, if a request waits for one. Batches are written in the order
    /// in which they are taken.
    pub fn take(&mut self) -> Option<Arc<Batch>> {
        if self.closed.is_empty() && self.is_open_wanted() {
            self.close(self.tail.segment());
        }
        self.closed.pop_front()
    }

    /// Notes that the batch which ends at `end` is durable.
    pub fn done(&mut self, end: Position) {
        assert!(end >= self.synced && end <= self.open.start, "{end} was not taken");
        let finished = self.recent.iter().filter(|b| b.start >= self.synced && b.start < end);
        self.unsynced_bytes -= finished.map(|batch| batch.n_bytes()).sum::<usize>();
        self.synced = end;
        while self.recent_bytes > self.options.cache_bytes
            && let Some(oldest) = self.recent.pop_front_if(|batch| batch.end <= self.synced)
        {
            self.recent_bytes -= oldest.n_bytes();
            // (The committer may still have it: then its memory is freed there.)
            if let Some(Batch { mut bytes, .. }) = Arc::into_inner(oldest)
                && (self.open.spare.capacity()..=BUFFER_MAX).contains(&bytes.capacity())
            {
                bytes.clear();
                self.open.spare = bytes;
            }
        }
    }

    /// The segment below which segments are no longer needed, if there are any (once each).
    pub fn take_release(&mut self) -> Option<u32> {
        if self.synced < self.loosened {
            return None;
        }
        let mut durable = self.synced.segment();
        if self.synced <= segment::first(durable) {
            // I8: its first record is not durable yet, so the previous segment is needed.
            durable = durable.saturating_sub(1);
        }
        let needed = self.index.oldest().unwrap_or(durable).min(durable);
        if needed <= self.oldest {
            return None;
        }
        self.oldest = needed;
        self.readers = self.readers.split_off(&needed);
        Some(needed)
    }

    /// Copies the payload of an entry, durable or not; `None` if the log does not hold it.
    pub fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Result<Option<EntryHead>, ReadError> {
        into.clear();
        let Some(place) = self.index.at(slot) else { return Ok(None) };
        let at = place.position;
        let in_memory = if at >= self.open.start {
            Some((&self.open.bytes[..], self.open.start))
        } else {
            let after = self.recent.partition_point(|batch| batch.start <= at);
            let batch = after.checked_sub(1).and_then(|n| self.recent.get(n));
            batch.map(|batch| (&batch.bytes[..], batch.start))
        };
        let head = match in_memory {
            Some((bytes, start)) if at.segment() == start.segment() => {
                let bytes = &bytes[(at.offset() - start.offset()) as usize..];
                let head = Head::parse(bytes).expect("the index leads to records");
                into.extend_from_slice(&bytes[HEADER..HEADER + head.payload as usize]);
                head
            }
            Some(_) | None => self.read_file(at, into).map_err(|why| self.unread(at, slot, why))?,
        };
        assert_eq!((head.kind, head.slot), (Kind::Entry, slot), "the index is right");
        Ok(Some(EntryHead { slot, ballot: head.ballot, view: head.view }))
    }

    /// The error of an entry that is not read for this reason.
    fn unread(&self, at: Position, slot: Slot, why: Unread) -> ReadError {
        let (place, file) = (self.media.place(), segment::name(at.segment()));
        let why = match why {
            Unread::Flaw(flaw) => flaw.to_string(),
            // A segment that is gone, or ends too early.
            Unread::Io(error) if is_missing(&error) => error.to_string(),
            Unread::Io(error) => return ReadError::Io { file, place, error },
        };
        Damage { place, file, offset: u64::from(at.offset()), slot, why }.into()
    }

    /// Opens a segment for reading. Without a descriptor, those of other segments are given back.
    fn open_reader(&mut self, segment: u32) -> io::Result<M::File> {
        let name = segment::name(segment);
        match self.media.open(&name) {
            Err(error) if lacks_descriptors(&error) && !self.readers.is_empty() => {
                self.readers.clear();
                self.media.open(&name)
            }
            opened => opened,
        }
    }

    fn read_file(&mut self, at: Position, into: &mut Vec<u8>) -> Result<Head, Unread> {
        let segment = at.segment();
        if !self.readers.contains_key(&segment) {
            if self.readers.len() >= READERS_MAX {
                self.readers.pop_first();
            }
            let file = self.open_reader(segment)?;
            self.readers.insert(segment, file);
        }
        let file = &self.readers[&segment];
        let mut header = [0; HEADER];
        let offset = u64::from(at.offset());
        self.media.read_at(file, offset, &mut header)?;
        let head = Head::parse(&header).ok_or(record::Flaw::NoRecord)?;
        if head.total > super::SEGMENT_MAX {
            return Err(record::Flaw::TooLong.into());
        }
        into.resize(head.total as usize, 0);
        self.media.read_at(file, offset, into)?;
        record::verify_alone(into, at, self.salt)?;
        into.drain(..HEADER);
        into.truncate(head.payload as usize);
        Ok(head)
    }

    /// Puts a record into the batch under construction, in this segment or the next.
    fn put(&mut self, kind: Kind, slot: Slot, ballot: Ballot, view: u64, payload: &[u8]) {
        self.begin_segment();
        if !self.fits(record::size(payload.len())) {
            self.push(Kind::Seal, Slot::ZERO, Ballot::NONE, 0, &[]);
            self.close(self.tail.segment() + 1);
            self.begin_segment();
        }
        assert!(self.fits(record::size(payload.len())), "what is accepted fits a new segment");
        self.push(kind, slot, ballot, view, payload);
    }

    /// Puts the first record of a segment, if the next record begins one.
    fn begin_segment(&mut self) {
        if self.tail == segment::first(self.tail.segment()) {
            let meta = std::mem::take(&mut self.meta);
            self.push(Kind::Begin, self.end(), Ballot::NONE, 0, &meta);
            self.meta = meta;
        }
    }

    /// Whether this many bytes leave room for the padding of the batch and for a Seal behind it.
    fn fits(&self, bytes: usize) -> bool {
        let align = self.options.align as usize;
        let end = (self.tail.offset() as usize + bytes).next_multiple_of(align);
        end + align <= self.segment_bytes as usize
    }

    fn push(&mut self, kind: Kind, slot: Slot, ballot: Ballot, view: u64, payload: &[u8]) {
        self.complete();
        let head = Head {
            kind,
            total: record::size(payload.len()) as u32,
            payload: payload.len() as u32,
            position: self.tail,
            // By I1 this batch is written when everything before it is durable, not earlier.
            synced_upto: self.open.start,
            link: self.link,
            slot,
            ballot,
            view,
        };
        self.open.last = Some(self.open.bytes.len());
        head.put(payload, &mut self.open.bytes);
        self.tail = self.tail.plus(head.total);
        self.index.apply(&head, false).expect("our own records make sense");
    }

    /// Completes the last record: no bytes are added to it later.
    fn complete(&mut self) {
        if let Some(last) = self.open.last.take() {
            record::seal(&mut self.open.bytes[last..], self.salt);
            self.link = record::link(&self.open.bytes[last..]);
        }
    }

    /// Ends the batch under construction; the next one begins in segment `next`.
    fn close(&mut self, next: u32) {
        // I2: the last record covers the padding, so every byte of the batch has a checksum.
        let padded = self.tail.offset().next_multiple_of(self.options.align);
        let padding = padded.min(self.segment_bytes) - self.tail.offset();
        self.tail = self.tail.plus(padding);
        self.open.bytes.resize(self.open.bytes.len() + padding as usize, 0);
        self.complete();
        if next != self.tail.segment() {
            self.tail = segment::first(next);
            self.segment_bytes = self.options.segment_bytes;
        }
        let next = std::mem::take(&mut self.open.spare);
        let bytes = std::mem::replace(&mut self.open.bytes, next);
        self.unsynced_bytes += bytes.len();
        self.recent_bytes += bytes.len();
        let batch = Arc::new(Batch { start: self.open.start, end: self.tail, bytes });
        self.open.start = self.tail;
        self.recent.push_back(Arc::clone(&batch));
        self.closed.push_back(batch);
    }
}
