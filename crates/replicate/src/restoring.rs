//! The beginning of a copy from a checkpoint.
//!
//! The checkpoint stands in the transcript, in pieces behind its own point. It is put together, the
//! program is started with it, and the connections that were open at the point are made again: a
//! leg each, with the requests that made it what it was (`checkpoint`, K5).

use crate::checkpoint::{HEADER_LEN_BYTES, Header};
use crate::entry::{ConnectionId, Entry};
use crate::program::Program;
use crate::state::Base;
use crate::transcript::{Record, Transcript};
use base::{Incarnation, Rank};
use std::collections::VecDeque;

/// The bytes of the transcript that are read in one step.
const STEP_BYTES: usize = 1 << 20;

/// The name of the leg that is no client's, on which the program is told what is common.
pub(crate) const COMMON_LEG: ConnectionId =
    ConnectionId { owner: Rank::at(0), run: Incarnation(0), number: 0 };

/// A beginning under way.
#[derive(Debug)]
pub(crate) struct Restoring {
    /// The point, and where the entries behind it begin.
    pub(crate) position: u64,
    pub(crate) offset: u64,
    /// The log's time there.
    pub(crate) time_ms: u64,
    /// The bytes of the transcript before this one were looked at.
    cursor: u64,
    /// The bytes of the checkpoint that were found.
    n_found: u64,
    /// The header, with its length, as far as it was found.
    header: Vec<u8>,
    /// The legs to be opened, once the program was started.
    pub(crate) legs: VecDeque<(ConnectionId, Vec<u8>)>,
    pub(crate) is_started: bool,
}

impl Restoring {
    pub(crate) fn new(base: &Base) -> Restoring {
        Restoring {
            position: base.position,
            offset: base.offset,
            time_ms: base.time_ms,
            cursor: base.offset,
            n_found: 0,
            header: Vec::new(),
            legs: VecDeque::new(),
            is_started: false,
        }
    }

    /// Looks for more of the checkpoint. Returns whether all of it was found.
    ///
    /// # Errors
    /// The copy cannot begin.
    pub(crate) fn find(
        &mut self,
        transcript: &impl Transcript,
        program: &mut impl Program,
    ) -> Result<bool, String> {
        let mut bytes = vec![0; STEP_BYTES];
        let n = transcript.read(self.cursor, &mut bytes);
        bytes.truncate(n);
        let mut at = 0;
        while let Some(record) = Record::first(&bytes[at..]) {
            at += record.len();
            if record.is_tick() {
                continue;
            }
            let entry = Entry::parse(record.bytes).map_err(|error| error.to_string())?;
            let Entry::Piece { at: point, offset, len, bytes, .. } = entry else { continue };
            if point != self.position || len == 0 {
                continue;
            }
            assert_eq!(offset, self.n_found, "pieces are executed in order");
            self.n_found += bytes.len() as u64;
            self.take(bytes, program)?;
            if self.n_found == len {
                return Ok(true);
            }
        }
        self.cursor += at as u64;
        if at == 0 {
            return Err("the checkpoint is not whole in the transcript".to_owned());
        }
        Ok(false)
    }

    /// Takes the next bytes of the checkpoint: first the header, then what is the program's.
    fn take(&mut self, mut bytes: &[u8], program: &mut impl Program) -> Result<(), String> {
        loop {
            let len = match self.header.first_chunk::<HEADER_LEN_BYTES>() {
                Some(len) => HEADER_LEN_BYTES + u32::from_le_bytes(*len) as usize,
                None => HEADER_LEN_BYTES,
            };
            if self.header.len() == len && len > HEADER_LEN_BYTES {
                break;
            }
            if bytes.is_empty() {
                return Ok(());
            }
            let (part, rest) = bytes.split_at(bytes.len().min(len - self.header.len()));
            self.header.extend_from_slice(part);
            bytes = rest;
        }
        if bytes.is_empty() { Ok(()) } else { program.restore(bytes) }
    }

    /// Reads the header: which legs are to be opened. Returns the requests that are kept for the
    /// program.
    ///
    /// # Errors
    /// It is damaged.
    pub(crate) fn read_header(&mut self) -> Result<Vec<Vec<u8>>, String> {
        let header = self.header.get(HEADER_LEN_BYTES..).and_then(Header::parse);
        let header = header.ok_or("the checkpoint's header is damaged")?;
        if !header.common.is_empty() {
            self.legs.push_back((COMMON_LEG, header.common.concat()));
        }
        self.legs.extend(header.connections);
        Ok(header.common)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::lines::Lines;
    use crate::transcript::InMemory;

    const POINT: u64 = 9;

    fn put(transcript: &mut InMemory, at: u64, offset: u64, bytes: &[u8], len: usize) {
        let (owner, run, len) = (Rank::at(1), Incarnation(1), len as u64);
        let mut entry = Vec::new();
        Entry::Piece { owner, run, at, offset, len, bytes }.write(&mut entry);
        let record = Record { bytes: &entry, continues: false, time_ms: None };
        record.put(&mut Vec::new(), transcript);
    }

    #[test]
    fn pieces_of_another_checkpoint_are_passed_over() {
        let content = [&Header::default().bytes()[..], b"state"].concat();
        let (first, rest) = content.split_at(content.len() - 2);
        let mut transcript = InMemory::default();
        put(&mut transcript, POINT - 4, 0, b"given up", 100);
        put(&mut transcript, POINT, 0, first, content.len());
        put(&mut transcript, POINT - 4, 8, b"late", 100);
        put(&mut transcript, POINT, first.len() as u64, rest, content.len());
        let mut restoring = Restoring {
            position: POINT,
            offset: 0,
            time_ms: 0,
            cursor: 0,
            n_found: 0,
            header: Vec::new(),
            legs: VecDeque::new(),
            is_started: false,
        };
        let mut program = Lines::default();
        assert_eq!(restoring.find(&transcript, &mut program), Ok(true));
        assert_eq!((restoring.read_header(), &program.restored[..]), (Ok(vec![]), &b"state"[..]));
    }
}
