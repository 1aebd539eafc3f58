//! The replicated state: the table of connections, and the transcript of what was executed.
//!
//! - I1 states that applied the same values are equal, byte by byte of the transcript.
//! - I2 the transcript is the whole state: executing its entries in order on an empty table gives
//!   the table. So a state that is moved to another member is a transcript, and
//!   [`State::restore_piece`] checks that each of its entries executes.
//! - I3 an entry that comes too early is not answered, so its owner keeps it and sends it again
//!   behind the missing one (`table`, I2).
//! - I4 a transcript never shrinks, and a state that is put in place continues the one that was
//!   there: what has been fed to a copy stays a prefix. Asserted in [`State::end_restore`].

use crate::batch::{self, Batch};
use crate::bugs::Bug;
use crate::entry::Entry;
use crate::table::{Table, Verdict};
use crate::transcript::{RECORD_HEADER_BYTES, Transcript};
use base::Slot;
use engine::{Answers, Appended, Application, Origin, Performed, Saving, Sequence};
use proto::planted::{Planting, Sound};
use std::collections::BTreeMap;

/// The first bytes of a moved state, which name its format.
const MAGIC: [u8; 8] = *b"grgleRP1";
const HEADER_BYTES: usize = MAGIC.len() + 16;
/// A piece of a moved state.
const PIECE_BYTES: u64 = 64 << 10;

/// A save under way.
#[derive(Clone, Copy, Debug)]
struct Save {
    /// The bytes of the transcript that are in it.
    len: u64,
    /// The bytes that were read.
    at: u64,
    state_ms: u64,
    has_begun: bool,
}

/// A state that another member sends.
#[derive(Debug)]
struct Arriving<H, B> {
    table: Table<B>,
    transcript: H,
    /// The bytes that are no whole record, or header, yet.
    rest: Vec<u8>,
    /// The length of the whole transcript and the stamp, once the header was read.
    header: Option<(u64, u64)>,
}

/// The state of the module's text.
#[derive(Debug)]
pub struct State<H, B = Sound> {
    planted: B,
    table: Table<B>,
    transcript: H,
    state_ms: u64,
    /// The scratch of a record.
    record: Vec<u8>,
    saves: BTreeMap<u64, Save>,
    n_saves: u64,
    arriving: Option<Arriving<H, B>>,
}

impl<H: Transcript, B: Planting<Bug>> State<H, B> {
    /// The state in which nothing was executed; `transcript` is empty.
    pub fn new(transcript: H, planted: B) -> State<H, B> {
        assert!(transcript.is_empty(), "the table would not be that of the transcript");
        State {
            planted,
            table: Table::new(planted),
            transcript,
            state_ms: 0,
            record: Vec::new(),
            saves: BTreeMap::new(),
            n_saves: 0,
            arriving: None,
        }
    }

    /// The connections.
    pub fn table(&self) -> &Table<B> {
        &self.table
    }

    /// What was executed.
    pub fn transcript(&self) -> &H {
        &self.transcript
    }
}

/// Appends the record of an entry.
fn put_record(bytes: &[u8], record: &mut Vec<u8>, transcript: &mut impl Transcript) {
    record.clear();
    record.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    record.extend_from_slice(bytes);
    transcript.append(record);
}

/// The entry's bytes of the record at the beginning of `bytes`, if all of it is there.
pub(crate) fn first_record(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>()?;
    rest.get(..u32::from_le_bytes(*len) as usize)
}

impl<H: Transcript, B: Planting<Bug>> Arriving<H, B> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        if self.header.is_none() {
            let Some(header) = self.rest.first_chunk::<HEADER_BYTES>() else { return Ok(()) };
            let word =
                |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
            if header[..8] != MAGIC {
                return Err("these bytes are no state of a replicated program".to_owned());
            }
            self.header = Some((word(8), word(16)));
            at = HEADER_BYTES;
        }
        let from = at;
        while let Some(bytes) = first_record(&self.rest[at..]) {
            let entry = Entry::parse(bytes).map_err(|error| error.to_string())?;
            if self.table.execute(&entry) != Verdict::Execute {
                return Err(format!("an entry of the state does not execute: {entry:?}")); // I2
            }
            at += RECORD_HEADER_BYTES + bytes.len();
        }
        self.transcript.append(&self.rest[from..at]);
        self.rest.drain(..at);
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.rest.is_empty() && self.header.is_some_and(|(len, _)| len == self.transcript.len())
    }
}

impl<H: Transcript, B: Planting<Bug>> Application for State<H, B> {
    fn apply(&mut self, _: Slot, value: &[u8], answers: &mut Answers) {
        let Ok(batch) = Batch::parse(value) else { return };
        self.state_ms = self.state_ms.max(batch.stamp_ms);
        for item in batch.items() {
            let verdict = self.table.execute(&item.entry);
            if verdict == Verdict::Execute {
                put_record(item.bytes, &mut self.record, &mut self.transcript);
            }
            if verdict != Verdict::TooEarly || self.planted.has(Bug::TooEarlyAnswered) {
                answers.push(item.origin, item.sequence, &[]); // I3
            }
        }
    }

    fn state_ms(&self) -> u64 {
        self.state_ms
    }

    fn next_expiry_ms(&self) -> Option<u64> {
        None
    }

    /// The door submits no reads.
    fn read(&mut self, _: &[u8], _: u64, _: &mut Vec<u8>) -> Performed {
        Performed::Done
    }

    fn begin_save(&mut self) -> Saving {
        self.n_saves += 1;
        let (len, state_ms) = (self.transcript.len(), self.state_ms);
        self.saves.insert(self.n_saves, Save { len, at: 0, state_ms, has_begun: false });
        Saving(self.n_saves)
    }

    fn save_piece(&mut self, saving: Saving, out: &mut Vec<u8>) -> Option<bool> {
        let save = self.saves.get_mut(&saving.0)?;
        if !std::mem::replace(&mut save.has_begun, true) {
            out.extend_from_slice(&MAGIC);
            out.extend_from_slice(&save.len.to_le_bytes());
            out.extend_from_slice(&save.state_ms.to_le_bytes());
        }
        let from = out.len();
        out.resize(from + (save.len - save.at).min(PIECE_BYTES) as usize, 0);
        let n = self.transcript.read(save.at, &mut out[from..]);
        out.truncate(from + n);
        save.at += n as u64;
        Some(save.at < save.len)
    }

    fn end_save(&mut self, saving: Saving) {
        self.saves.remove(&saving.0);
    }

    fn begin_restore(&mut self) {
        self.arriving = Some(Arriving {
            table: Table::new(self.planted),
            transcript: self.transcript.beside(),
            rest: Vec::new(),
            header: None,
        });
    }

    fn restore_piece(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let arriving = self.arriving.as_mut().ok_or("no state is on its way")?;
        arriving.take(bytes).map(|()| false)
    }

    fn end_restore(&mut self) -> Result<(), String> {
        let arriving = self.arriving.take().ok_or("no state is on its way")?;
        let (_, state_ms) = match arriving.header {
            Some(header) if arriving.is_whole() => header,
            _ => return Err("the state is not whole".to_owned()),
        };
        assert!(
            arriving.transcript.len() >= self.transcript.len(),
            "I4: the state is an older one"
        );
        self.transcript = arriving.transcript;
        if !self.planted.has(Bug::StateWithoutTable) {
            self.table = arriving.table;
        }
        self.state_ms = state_ms;
        self.saves.clear();
        Ok(())
    }

    fn give_up_restore(&mut self) {
        self.arriving = None;
    }

    fn begin(&mut self, stamp_ms: u64, out: &mut Vec<u8>) {
        batch::begin(stamp_ms, out);
    }

    fn append(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        entry: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Appended {
        // The door cuts input so that one entry always fits into a batch.
        match batch::append((origin, sequence), entry, bytes_max, out) {
            true => Appended::Whole,
            false => Appended::Full,
        }
    }

    /// Entries are never appended in parts.
    fn abandon(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::ConnectionId;
    use crate::transcript::InMemory;
    use base::{Incarnation, Rank};
    use proto::planted::Planted;

    const OWNER: Rank = Rank::at(0);
    const RUN: Incarnation = Incarnation(1);
    const ID: ConnectionId = ConnectionId { owner: OWNER, run: RUN, number: 1 };

    fn apply(state: &mut State<InMemory>, entries: &[Entry<'_>]) -> Vec<u64> {
        let (mut value, mut bytes) = (Vec::new(), Vec::new());
        state.begin(5, &mut value);
        for (entry, sequence) in entries.iter().zip(1..) {
            bytes.clear();
            entry.write(&mut bytes);
            let origin = Origin { rank: OWNER, life: RUN };
            let appended = state.append(origin, Sequence(sequence), &bytes, 1 << 20, &mut value);
            assert_eq!(appended, Appended::Whole);
        }
        let mut answers = Answers::default();
        state.apply(Slot(0), &value, &mut answers);
        answers.iter().map(|(_, sequence, _)| sequence.0).collect()
    }

    fn saved(state: &mut State<InMemory>) -> Vec<u8> {
        let (saving, mut out) = (state.begin_save(), Vec::new());
        while state.save_piece(saving, &mut out) == Some(true) {}
        state.end_save(saving);
        out
    }

    fn begin() -> Entry<'static> {
        Entry::Begin { owner: OWNER, run: RUN }
    }

    fn input(index: u64) -> Entry<'static> {
        Entry::Input { id: ID, index, bytes: b"abc" }
    }

    #[test]
    fn i2_a_state_that_was_moved_is_the_same() {
        let mut state = State::new(InMemory::default(), Sound);
        apply(&mut state, &[begin(), Entry::Open { id: ID }, input(1)]);
        let saving = state.begin_save();
        let mut bytes = Vec::new();
        let more = state.save_piece(saving, &mut bytes);
        apply(&mut state, &[input(2)]);
        assert_eq!(more, Some(false), "what comes later is not in it");
        let mut other = State::new(InMemory::default(), Sound);
        other.restore(&bytes).unwrap();
        assert_ne!(other.transcript.len(), state.transcript.len());
        apply(&mut other, &[input(2)]);
        assert_eq!(saved(&mut other), saved(&mut state));
        assert_eq!(other.table, state.table);
    }

    #[test]
    fn i2_a_state_that_is_cut_or_of_another_kind_is_refused() {
        let mut state = State::new(InMemory::default(), Sound);
        apply(&mut state, &[begin(), Entry::Open { id: ID }]);
        let bytes = saved(&mut state);
        let mut other = State::new(InMemory::default(), Sound);
        assert!(other.restore(&bytes[..bytes.len() - 1]).is_err());
        assert!(other.restore(b"something that is long enough").is_err());
        let mut again = bytes.clone();
        again.extend_from_slice(&bytes[HEADER_BYTES..]);
        assert!(other.restore(&again).unwrap_err().contains("does not execute"));
        assert!(other.transcript.is_empty() && other.table.n_open() == 0);
        other.restore(&bytes).unwrap();
    }

    #[test]
    fn i3_what_comes_too_early_is_not_answered() {
        let mut state = State::new(InMemory::default(), Sound);
        assert_eq!(apply(&mut state, &[begin(), input(1), Entry::Open { id: ID }]), [1, 3]);
        assert_eq!(apply(&mut state, &[input(1), input(1)]), [1, 2], "and then once");
        let len = state.transcript.len();
        assert_eq!(apply(&mut state, &[begin(), input(1)]), [1, 2]);
        assert_eq!(state.transcript.len(), len, "the second time it is not executed");
    }

    #[test]
    fn mistakes_show() {
        let mut state = State::new(InMemory::default(), Planted(Bug::TooEarlyAnswered));
        let bytes = |state: &mut State<InMemory, Planted<Bug>>| {
            let (mut value, mut bytes) = (Vec::new(), Vec::new());
            state.begin(5, &mut value);
            for entry in [begin(), input(1)] {
                bytes.clear();
                entry.write(&mut bytes);
                let origin = Origin { rank: OWNER, life: RUN };
                state.append(origin, Sequence(1), &bytes, 1 << 20, &mut value);
            }
            value
        };
        let value = bytes(&mut state);
        let mut answers = Answers::default();
        state.apply(Slot(0), &value, &mut answers);
        assert_eq!(answers.iter().count(), 2, "the input came before its opening");
    }

    #[test]
    fn a_value_that_is_damaged_changes_nothing() {
        let mut state = State::new(InMemory::default(), Sound);
        state.apply(Slot(0), b"damaged", &mut Answers::default());
        assert!(state.transcript.is_empty());
    }
}
