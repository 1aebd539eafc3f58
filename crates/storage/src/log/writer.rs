//! The disk's part: writes batches, and makes, frees and reuses segments.

use super::record::{HEADER, Position};
use super::segment::{self, SPARES, UNBORN};
use super::{Batch, Options, WriteError};
use crate::media::{Media, is_full, lacks_descriptors};
use std::io;

/// The bytes of zeros that one step of [`Writer::prepare`] writes and syncs: a batch that arrives
/// meanwhile waits for no more than that.
const STEP: usize = 1 << 20;

/// The segment that comes after the current one.
#[derive(Debug)]
enum Next<F> {
    Missing,
    /// Allocated, and zeros below `n_zeros`.
    Unborn {
        file: F,
        n_zeros: u64,
    },
    Ready(F),
}

/// The result of a step of preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// Further steps are needed.
    More,
    /// The next segment exists.
    Ready,
}

/// The disk's part of the log; see the module above.
#[derive(Debug)]
pub struct Writer<M: Media> {
    media: M,
    options: Options,
    log: u64,
    /// The segment being written, unless it is full and sealed.
    current: Option<M::File>,
    next: Next<M::File>,
    /// The position below which everything is durable, and at which the next batch begins.
    synced: Position,
    /// The oldest segment that has a name.
    oldest: u32,
    /// The names of the spare segments that there are.
    spares: Vec<&'static str>,
    zeros: Vec<u8>,
}

/// The files as recovery leaves them.
#[derive(Debug)]
pub(super) struct Files<F> {
    /// The file of `synced.segment()`, if it exists.
    pub(super) current: Option<F>,
    pub(super) synced: Position,
    pub(super) oldest: u32,
    pub(super) spares: Vec<&'static str>,
}

impl<M: Media> Writer<M> {
    pub(super) fn new(media: M, options: Options, log: u64, files: Files<M::File>) -> Writer<M> {
        let Files { current, synced, oldest, spares } = files;
        let (next, zeros) = (Next::Missing, Vec::new());
        Writer { media, options, log, current, next, synced, oldest, spares, zeros }
    }

    /// The position below which everything is durable.
    pub fn synced(&self) -> Position {
        self.synced
    }

    /// Writes a batch and makes it durable. After [`WriteError::Full`] it can be called again with
    /// the same batch.
    pub fn write(&mut self, batch: &Batch) -> Result<(), WriteError> {
        assert_eq!(batch.start, self.synced, "I1: all before a batch is durable");
        let sector = crate::media::SECTOR as u32;
        assert!(batch.start.offset().is_multiple_of(sector), "I2: no synced sector is touched");
        assert!(batch.bytes.len() >= HEADER, "a batch has a record");
        if self.current.is_none() {
            loop {
                self.skip_zeros();
                if self.prepare()? == Prepared::Ready {
                    break;
                }
            }
            if let Next::Ready(file) = std::mem::replace(&mut self.next, Next::Missing) {
                self.current = Some(file);
            }
        }
        let file = self.current.as_ref().expect("`prepare` is ready only with a next segment");
        let done = self
            .media
            .write_at(file, u64::from(batch.start.offset()), &batch.bytes)
            .and_then(|()| self.media.sync(file));
        // The blocks were allocated before, so a full disk here is an error like any other (I9).
        done.map_err(|e| self.fatal("writing the log", e))?;
        self.synced = batch.end;
        if batch.end.segment() != batch.start.segment() {
            self.current = None;
        }
        Ok(())
    }

    /// Whether [`Writer::prepare`] has something to do.
    pub fn wants_preparation(&self) -> bool {
        !matches!(self.next, Next::Ready(_))
    }

    /// Performs one bounded step towards the next segment: call it when no batch waits. I9: an
    /// error changes nothing, and the call can be repeated.
    pub fn prepare(&mut self) -> Result<Prepared, WriteError> {
        let len = u64::from(self.options.segment_bytes);
        match std::mem::replace(&mut self.next, Next::Missing) {
            Next::Ready(file) => {
                self.next = Next::Ready(file);
                return Ok(Prepared::Ready);
            }
            Next::Missing => {
                if let Some(spare) = self.spares.pop() {
                    let file = self.media.open(spare).map_err(|error| {
                        self.spares.push(spare); // I9
                        self.not_made("a spare segment", error)
                    })?;
                    self.name(&file, spare).inspect_err(|_| self.spares.push(spare))?; // I9
                    self.next = Next::Ready(file);
                    return Ok(Prepared::Ready);
                }
                let file = self.media.create(UNBORN, len);
                let file = file.map_err(|error| self.not_made("making a segment", error))?;
                self.next = Next::Unborn { file, n_zeros: 0 };
            }
            Next::Unborn { file, n_zeros } if n_zeros < len => {
                // The zeros are written, not only allocated: otherwise each first write of a block
                // would journal that it is in use from now on, which costs a second flush.
                let n = (len - n_zeros).min(STEP as u64);
                self.zeros.resize(n as usize, 0);
                match self.media.write_at(&file, n_zeros, &self.zeros) {
                    Ok(()) => {}
                    // File systems that copy on write may detect only now that they are full.
                    Err(error) if is_full(&error) => {
                        self.next = Next::Unborn { file, n_zeros };
                        return Err(WriteError::Full { place: self.media.place(), error });
                    }
                    Err(e) => return Err(self.fatal("filling a segment with zeros", e)),
                }
                let done = self.media.sync(&file);
                done.map_err(|e| self.fatal("filling a segment with zeros", e))?;
                self.next = Next::Unborn { file, n_zeros: n_zeros + n };
            }
            Next::Unborn { file, n_zeros } => {
                self.zeros = Vec::new();
                if let Err(error) = self.name(&file, UNBORN) {
                    self.next = Next::Unborn { file, n_zeros }; // I9
                    return Err(error);
                }
                self.next = Next::Ready(file);
            }
        }
        Ok(if self.wants_preparation() { Prepared::More } else { Prepared::Ready })
    }

    /// Leaves out the zeros of the next segment, since a batch waits for it: blocks that are
    /// allocated read as zeros, and a log that is written without a pause has long batches, beside
    /// which the journaling of their blocks costs less than zeros do.
    fn skip_zeros(&mut self) {
        if let Next::Unborn { n_zeros, .. } = &mut self.next {
            *n_zeros = u64::from(self.options.segment_bytes);
        }
    }

    /// Makes the file called `from` the segment after the current one. I7: its name is durable
    /// before anything is written behind it, and its first block before its name. I9: before it has
    /// its name nothing is changed that counts.
    fn name(&self, file: &M::File, from: &str) -> Result<(), WriteError> {
        let number = match self.current {
            Some(_) => self.synced.segment() + 1,
            None => self.synced.segment(),
        };
        let block = segment::first_block(self.log, number, self.options.segment_bytes);
        let written = self.media.write_at(file, 0, &block);
        written.map_err(|error| self.not_made("beginning a segment", error))?;
        self.media.sync(file).map_err(|e| self.fatal("beginning a segment", e))?;
        let named = self.media.rename(from, &segment::name(number));
        named.map_err(|error| self.not_made("naming a segment", error))?;
        self.media.sync_dir().map_err(|e| self.fatal("naming a segment", e))
    }

    /// Frees the oldest segment, if it is below `oldest`: some are kept for reuse, which avoids
    /// writing zeros. True if there are more of them: a batch may come between, since each one
    /// costs a sync.
    pub fn release(&mut self, oldest: u32) -> Result<bool, WriteError> {
        assert!(oldest <= self.synced.segment(), "a segment in use is not given back");
        if self.oldest >= oldest {
            return Ok(false);
        }
        let name = segment::name(self.oldest);
        let len = match self.media.open(&name).and_then(|file| self.media.len(&file)) {
            Ok(len) => Some(len),
            // Its name needs no descriptor to go.
            Err(error) if lacks_descriptors(&error) => None,
            Err(error) => return Err(self.fatal("looking at an old segment", error)),
        };
        let free = SPARES.into_iter().find(|spare| !self.spares.contains(spare));
        let kept = free.filter(|_| len == Some(u64::from(self.options.segment_bytes)));
        let gone = match kept {
            Some(spare) => self.media.rename(&name, spare),
            None => self.media.remove(&name),
        };
        // I7: the names are removed one at a time, so that a power cut leaves no gap.
        gone.and_then(|()| self.media.sync_dir())
            .map_err(|e| self.fatal("giving back a segment", e))?;
        self.spares.extend(kept);
        self.oldest += 1;
        Ok(self.oldest < oldest)
    }

    /// I9: the error of a next segment that cannot be made, or opened.
    fn not_made(&self, what: &str, error: io::Error) -> WriteError {
        let place = self.media.place();
        if is_full(&error) {
            WriteError::Full { place, error }
        } else if lacks_descriptors(&error) {
            WriteError::NoDescriptor { place, error }
        } else {
            self.fatal(what, error)
        }
    }

    fn fatal(&self, what: &str, error: io::Error) -> WriteError {
        WriteError::Fatal { what: what.to_owned(), place: self.media.place(), error }
    }
}
