//! Writing a snapshot beside a machine that continues to apply values.

use super::save::{Saver, begin_entries, close, open, put_entry};
use super::{CHUNK_BYTES, Kind, MAGIC, version_of};
use crate::machine::Machine;
use crate::snapshot::Changed;
use std::collections::VecDeque;

/// Writes the snapshot of a machine as it was at the beginning, a chunk at a time, while the
/// machine continues (P6). The parts that are not entries are copied at the beginning: they are
/// bounded by the sessions, not by the keys.
#[derive(Debug)]
pub struct Beside {
    /// The reader for which the entries are frozen.
    reader: u64,
    has_begun: bool,
    version: u32,
    /// The parts before the entries, and after them.
    around: [VecDeque<(Kind, Vec<u8>)>; 2],
    /// Whether there may be more entries.
    entries: bool,
    n_entries: u64,
    check: u64,
    is_done: bool,
}

impl Beside {
    /// Begins a snapshot of `machine` as it is now; there may be others under way, of the same or
    /// another moment. End it with [`Beside::end`].
    pub fn begin(machine: &mut Machine) -> Beside {
        Beside {
            around: Saver::around_entries(machine),
            reader: machine.store.freeze(),
            has_begun: false,
            version: version_of(machine),
            entries: true,
            n_entries: 0,
            check: 0,
            is_done: false,
        }
    }

    /// Appends the next chunk to `out`; of entries some `n_bytes`. False if it was the last; later
    /// calls append nothing.
    ///
    /// # Errors
    /// The machine is not the one with which this began: the snapshot cannot be completed.
    pub fn chunk(
        &mut self,
        machine: &mut Machine,
        n_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, Changed> {
        if self.is_done {
            return Ok(false);
        }
        if !self.has_begun {
            self.has_begun = true;
            out.extend_from_slice(&MAGIC);
            out.extend_from_slice(&self.version.to_le_bytes());
        }
        let start = open(out);
        let kind = match self.payload(machine, n_bytes.min(CHUNK_BYTES), out) {
            Ok(kind) => kind,
            Err(changed) => {
                out.truncate(start);
                return Err(changed);
            }
        };
        self.check = close(kind, start, self.check, out);
        self.is_done = kind == Kind::End;
        if self.is_done {
            machine.store.thaw(self.reader);
        }
        Ok(!self.is_done)
    }

    /// Ends the snapshot, completed or not: the machine keeps no more entries for it.
    pub fn end(self, machine: &mut Machine) {
        machine.store.thaw(self.reader);
    }

    fn payload(
        &mut self,
        machine: &mut Machine,
        n_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Kind, Changed> {
        if let Some((kind, payload)) = self.around[0].pop_front() {
            out.extend_from_slice(&payload);
            return Ok(kind);
        }
        if self.entries {
            let (start, mut kind) = (out.len(), None);
            let more = machine.store.read_frozen(self.reader, |entry| {
                kind.get_or_insert_with(|| begin_entries(entry.db, out));
                put_entry(&entry, out);
                self.n_entries += 1;
                out.len() - start < n_bytes
            });
            self.entries = more.ok_or(Changed)?;
            // There may be more entries; whether there are is known only after a look.
            if let Some(kind) = kind {
                return Ok(kind);
            }
        }
        if let Some((kind, payload)) = self.around[1].pop_front() {
            out.extend_from_slice(&payload);
            return Ok(kind);
        }
        out.extend_from_slice(&self.n_entries.to_le_bytes());
        Ok(Kind::End)
    }
}
