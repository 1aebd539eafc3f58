//! The replicated state: the table of connections, the verdicts about the copies, and the
//! transcript of what was executed.
//!
//! - I1 states that applied the same values are equal, byte by byte of the transcript.
//! - I2 the transcript is the whole state: executing its entries in order on an empty ground gives
//!   the ground, which is everything else. So a state that is moved to another member is a
//!   transcript, and [`State::restore_piece`] checks that each of its entries executes.
//! - I3 an entry that comes too early is not answered, so its owner keeps it and sends it again
//!   behind the missing one (`table`, I2).
//! - I4 a transcript never shrinks at its end, and a state that is put in place continues the one
//!   that was there: what has been fed to a copy stays a prefix. Asserted in
//!   [`State::end_restore`].
//! - I5 a state begins at its *base*: the program's first state and no entries, or the newest
//!   checkpoint that counts (`checkpoint`), with the ground at its point. The entries behind it
//!   hold the checkpoint itself. So I2 holds from there, and what stands before is forgotten: not
//!   before the own copy and every save under way have read it ([`State::release`]).

use crate::batch::{self, Batch};
use crate::bugs::Bug;
use crate::checkpoint::{self, Checkpoints};
use crate::entry::Entry;
use crate::table::{Table, Verdict};
use crate::transcript::{RECORD_HEADER_BYTES, Transcript, first_record, put_record};
use crate::verdict::Judge;
use crate::words;
use base::Slot;
use engine::{Answers, Appended, Application, Origin, Performed, Saving, Sequence};
use proto::planted::{Planting, Sound};
use std::collections::BTreeMap;

/// The first bytes of a moved state, which name its format.
const MAGIC: [u8; 8] = *b"grgleRP2";
/// Behind them: the bytes of all entries, the stamp, the base's position and offset, and the length
/// of the ground there.
const HEADER_BYTES: usize = MAGIC.len() + 5 * 8;
/// The most bytes of a ground: some for each open connection.
const GROUND_BYTES_MAX: u64 = 64 << 20;
/// A piece of a moved state.
const PIECE_BYTES: u64 = 64 << 10;

/// Where a state begins (I5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// The number of entries of connections before it; 0 for the program's first state.
    pub position: u64,
    /// The bytes of the transcript before it.
    pub offset: u64,
    /// The ground there; nothing for the first state.
    ground: Vec<u8>,
}

/// A save under way.
#[derive(Clone, Debug)]
struct Save {
    base: Base,
    /// The bytes of the transcript that are in it.
    len: u64,
    /// The bytes that were read.
    at: u64,
    state_ms: u64,
    has_begun: bool,
}

/// The parameters that decide what entries do. All members have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The number of members.
    pub members: usize,
    /// The entries of connections from one comparison of the copies' answers to the next; 0 for
    /// none.
    pub compare: u64,
    /// The least number of entries from one checkpoint to the next; 0 for none. A checkpoint is
    /// taken where answers are compared.
    pub checkpoint: u64,
}

/// What an entry has changed beside the ground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Nothing,
    /// A member's copy is to save behind this entry.
    Saves,
    /// The checkpoint that was made counts.
    Adopts,
}

/// What the executed entries have made, without the entries.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ground<B> {
    table: Table<B>,
    judge: Judge<B>,
    checkpoints: Checkpoints<B>,
}

impl<B: Planting<Bug>> Ground<B> {
    fn new(settings: Settings, planted: B) -> Ground<B> {
        let judge = Judge::new(settings.members, settings.compare, planted);
        let checkpoints = Checkpoints::new(settings.checkpoint, planted);
        Ground { table: Table::new(planted), judge, checkpoints }
    }

    /// The ground at `base`.
    ///
    /// # Errors
    /// The base holds no ground.
    fn at(base: &Base, settings: Settings, planted: B) -> Result<Ground<B>, String> {
        let mut ground = Ground::new(settings, planted);
        if base.position > 0 {
            let rest = &mut &base.ground[..];
            let is_read = ground.table.read(rest).is_some()
                && ground.judge.read(rest).is_some()
                && ground.checkpoints.read(rest).is_some();
            if !is_read || !rest.is_empty() || ground.judge.position() != base.position {
                return Err("the ground of the state is damaged".to_owned());
            }
        }
        Ok(ground)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.table.write(&mut out);
        self.judge.write(&mut out);
        self.checkpoints.write(&mut out);
        out
    }

    fn execute(&mut self, entry: &Entry<'_>) -> (Verdict, Effect) {
        let by_process = self.table.judge_process(entry.process());
        let verdict = match *entry {
            Entry::Hash { owner, run, at, value } if by_process == Verdict::Execute => {
                self.judge.take(owner, run, at, value)
            }
            Entry::Piece { owner, run, at, offset, len, bytes }
                if by_process == Verdict::Execute =>
            {
                let n_bytes = bytes.len() as u64;
                let maker = (owner, run);
                self.checkpoints.take(checkpoint::Piece { maker, at, offset, len, n_bytes })
            }
            Entry::Hash { .. } | Entry::Piece { .. } => by_process,
            _ => return self.execute_input(entry),
        };
        let adopts = verdict == Verdict::Execute && self.checkpoints.look(&self.judge);
        (verdict, if adopts { Effect::Adopts } else { Effect::Nothing })
    }

    /// Executes an entry about connections.
    fn execute_input(&mut self, entry: &Entry<'_>) -> (Verdict, Effect) {
        let verdict = self.table.execute(entry);
        if verdict != Verdict::Execute {
            return (verdict, Effect::Nothing);
        }
        if let Entry::Begin { owner, .. } = *entry {
            self.judge.begun(owner);
            self.checkpoints.begun(owner);
        }
        let Ground { table, judge, checkpoints } = self;
        let saves = judge.step() && checkpoints.pass_point(judge, |rank| table.run_of(rank));
        (verdict, if saves { Effect::Saves } else { Effect::Nothing })
    }
}

/// A ground, the entries that made it, and where they begin.
#[derive(Debug)]
struct Body<H, B> {
    ground: Ground<B>,
    transcript: H,
    base: Base,
    /// Where the checkpoint that is made will be the base.
    next_base: Option<Base>,
}

impl<H: Transcript, B: Planting<Bug>> Body<H, B> {
    /// Executes an entry with these bytes. The transcript has it behind it, by `keep`.
    fn execute(&mut self, entry: &Entry<'_>, planted: B, keep: impl FnOnce(&mut H)) -> Verdict {
        let (verdict, effect) = self.ground.execute(entry);
        if verdict != Verdict::Execute {
            return verdict;
        }
        keep(&mut self.transcript);
        match effect {
            Effect::Nothing => {}
            Effect::Saves => {
                let (position, offset) = (self.ground.judge.position(), self.transcript.len());
                self.next_base = Some(Base { position, offset, ground: self.ground.bytes() });
            }
            Effect::Adopts => {
                self.base = self.next_base.take().expect("a checkpoint that was made has a place");
                if planted.has(Bug::FreedTooFar) {
                    self.base.offset = self.transcript.len();
                }
            }
        }
        verdict
    }
}

/// A state that another member sends.
#[derive(Debug)]
struct Arriving<H, B> {
    /// What was read of it, once the header was.
    body: Option<Body<H, B>>,
    /// The bytes that are no whole record, or header, yet.
    rest: Vec<u8>,
    /// The length of the whole transcript and the stamp, once the header was read.
    header: Option<(u64, u64)>,
}

/// The state of the module's text.
#[derive(Debug)]
pub struct State<H, B = Sound> {
    planted: B,
    settings: Settings,
    body: Body<H, B>,
    state_ms: u64,
    /// The scratch of a record.
    record: Vec<u8>,
    saves: BTreeMap<u64, Save>,
    n_saves: u64,
    arriving: Option<Arriving<H, B>>,
}

impl<H: Transcript, B: Planting<Bug>> State<H, B> {
    /// The state in which nothing was executed; `transcript` is empty.
    pub fn new(settings: Settings, transcript: H, planted: B) -> State<H, B> {
        assert!(transcript.is_empty(), "the table would not be that of the transcript");
        let ground = Ground::new(settings, planted);
        State {
            planted,
            settings,
            body: Body { ground, transcript, base: Base::default(), next_base: None },
            state_ms: 0,
            record: Vec::new(),
            saves: BTreeMap::new(),
            n_saves: 0,
            arriving: None,
        }
    }

    /// The connections.
    pub fn table(&self) -> &Table<B> {
        &self.body.ground.table
    }

    /// The verdicts about the copies.
    pub fn judge(&self) -> &Judge<B> {
        &self.body.ground.judge
    }

    /// The checkpoints.
    pub fn checkpoints(&self) -> &Checkpoints<B> {
        &self.body.ground.checkpoints
    }

    /// Where the state begins.
    pub fn base(&self) -> &Base {
        &self.body.base
    }

    /// What was executed.
    pub fn transcript(&self) -> &H {
        &self.body.transcript
    }

    /// The own copy does not need the bytes of the transcript before `cursor` (I5).
    pub fn release(&mut self, cursor: u64) {
        let by_saves = self.saves.values().map(|save| save.at).min().unwrap_or(u64::MAX);
        self.body.transcript.forget(self.body.base.offset.min(cursor).min(by_saves));
    }
}

/// The words of a header, behind its magic.
fn header_words(header: &[u8; HEADER_BYTES]) -> Result<[u64; 5], String> {
    let is_ours = header[..MAGIC.len()] == MAGIC;
    let words = words::take_all(&mut &header[MAGIC.len()..]).filter(|_| is_ours);
    words.ok_or_else(|| "these bytes are no state of a replicated program".to_owned())
}

impl<H: Transcript, B: Planting<Bug>> Arriving<H, B> {
    /// Reads the header, if all of it is there. `beside` makes the transcript.
    fn take_header(
        &mut self,
        settings: Settings,
        planted: B,
        beside: impl FnOnce(u64) -> H,
    ) -> Result<(), String> {
        let Some(header) = self.rest.first_chunk::<HEADER_BYTES>() else { return Ok(()) };
        let [len, state_ms, position, offset, ground_len] = header_words(header)?;
        if ground_len > GROUND_BYTES_MAX {
            return Err("the ground of the state is too long".to_owned());
        }
        let end = HEADER_BYTES + ground_len as usize;
        let Some(ground) = self.rest.get(HEADER_BYTES..end) else { return Ok(()) };
        let base = Base { position, offset, ground: ground.to_vec() };
        let ground = Ground::at(&base, settings, planted)?;
        // The checkpoint was chosen by the entry before the base, and counted by a later one.
        let is_made = ground.checkpoints.making().is_some_and(|making| making.at == position);
        if is_made != (position > 0) {
            return Err("the ground of the state is not that of a checkpoint".to_owned());
        }
        let next_base = is_made.then(|| base.clone());
        self.body = Some(Body { ground, transcript: beside(offset), base, next_base });
        self.header = Some((len, state_ms));
        self.rest.drain(..end);
        Ok(())
    }

    /// Executes the whole records that have come.
    fn take_records(&mut self, planted: B) -> Result<(), String> {
        let Some(body) = &mut self.body else { return Ok(()) };
        let mut at = 0;
        while let Some(bytes) = first_record(&self.rest[at..]) {
            let entry = Entry::parse(bytes).map_err(|error| error.to_string())?;
            let end = at + RECORD_HEADER_BYTES + bytes.len();
            let keep = |transcript: &mut H| transcript.append(&self.rest[at..end]);
            if body.execute(&entry, planted, keep) != Verdict::Execute {
                return Err(format!("an entry of the state does not execute: {entry:?}")); // I2
            }
            at = end;
        }
        self.rest.drain(..at);
        Ok(())
    }

    fn whole(self) -> Option<(Body<H, B>, u64)> {
        let ((len, state_ms), body) = (self.header?, self.body?);
        (self.rest.is_empty() && len == body.transcript.len()).then_some((body, state_ms))
    }
}

impl<H: Transcript, B: Planting<Bug>> Application for State<H, B> {
    fn apply(&mut self, _: Slot, value: &[u8], answers: &mut Answers) {
        let Ok(batch) = Batch::parse(value) else { return };
        self.state_ms = self.state_ms.max(batch.stamp_ms);
        let mut continues = false;
        for item in batch.items() {
            let record = &mut self.record;
            let keep = |transcript: &mut H| {
                put_record(item.bytes, std::mem::replace(&mut continues, true), record, transcript);
            };
            let verdict = self.body.execute(&item.entry, self.planted, keep);
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
        let (len, base) = (self.transcript().len(), self.base().clone());
        let (at, state_ms) = (base.offset, self.state_ms);
        self.saves.insert(self.n_saves, Save { base, len, at, state_ms, has_begun: false });
        Saving(self.n_saves)
    }

    fn save_piece(&mut self, saving: Saving, out: &mut Vec<u8>) -> Option<bool> {
        let save = self.saves.get_mut(&saving.0)?;
        if !std::mem::replace(&mut save.has_begun, true) {
            let Base { position, offset, ground } = &save.base;
            out.extend_from_slice(&MAGIC);
            words::put(out, &[save.len, save.state_ms, *position, *offset, ground.len() as u64]);
            out.extend_from_slice(ground);
        }
        let from = out.len();
        out.resize(from + (save.len - save.at).min(PIECE_BYTES) as usize, 0);
        let n = self.body.transcript.read(save.at, &mut out[from..]);
        out.truncate(from + n);
        save.at += n as u64;
        Some(save.at < save.len)
    }

    fn end_save(&mut self, saving: Saving) {
        self.saves.remove(&saving.0);
    }

    fn begin_restore(&mut self) {
        self.arriving = Some(Arriving { body: None, rest: Vec::new(), header: None });
    }

    fn restore_piece(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let arriving = self.arriving.as_mut().ok_or("no state is on its way")?;
        arriving.rest.extend_from_slice(bytes);
        if arriving.header.is_none() {
            let transcript = &mut self.body.transcript;
            arriving.take_header(self.settings, self.planted, |at| transcript.beside(at))?;
        }
        arriving.take_records(self.planted).map(|()| false)
    }

    fn end_restore(&mut self) -> Result<(), String> {
        let arriving = self.arriving.take().ok_or("no state is on its way")?;
        let (body, state_ms) = arriving.whole().ok_or("the state is not whole")?;
        let len = self.body.transcript.len();
        assert!(body.transcript.len() >= len, "I4: the state is an older one");
        let before = std::mem::replace(&mut self.body, body);
        if self.planted.has(Bug::StateWithoutTable) {
            self.body.ground.table = before.ground.table;
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

    const SETTINGS: Settings = Settings { members: 3, compare: 2, checkpoint: 2 };
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
        let mut state = State::new(SETTINGS, InMemory::default(), Sound);
        apply(&mut state, &[begin(), Entry::Open { id: ID }, input(1)]);
        let saving = state.begin_save();
        let mut bytes = Vec::new();
        let more = state.save_piece(saving, &mut bytes);
        apply(&mut state, &[input(2)]);
        assert_eq!(more, Some(false), "what comes later is not in it");
        let mut other = State::new(SETTINGS, InMemory::default(), Sound);
        other.restore(&bytes).unwrap();
        assert_ne!(other.transcript().len(), state.transcript().len());
        apply(&mut other, &[input(2)]);
        assert_eq!(saved(&mut other), saved(&mut state));
        assert_eq!(other.body.ground, state.body.ground);
    }

    #[test]
    fn i2_a_state_that_is_cut_or_of_another_kind_is_refused() {
        let mut state = State::new(SETTINGS, InMemory::default(), Sound);
        apply(&mut state, &[begin(), Entry::Open { id: ID }]);
        let bytes = saved(&mut state);
        let mut other = State::new(SETTINGS, InMemory::default(), Sound);
        assert!(other.restore(&bytes[..bytes.len() - 1]).is_err());
        assert!(other.restore(b"something that is long enough").is_err());
        let mut again = bytes.clone();
        again.extend_from_slice(&bytes[HEADER_BYTES..]);
        assert!(other.restore(&again).unwrap_err().contains("does not execute"));
        assert!(other.transcript().is_empty() && other.table().n_open() == 0);
        other.restore(&bytes).unwrap();
    }

    #[test]
    fn i3_what_comes_too_early_is_not_answered() {
        let mut state = State::new(SETTINGS, InMemory::default(), Sound);
        assert_eq!(apply(&mut state, &[begin(), input(1), Entry::Open { id: ID }]), [1, 3]);
        assert_eq!(apply(&mut state, &[input(1), input(1)]), [1, 2], "and then once");
        let len = state.transcript().len();
        assert_eq!(apply(&mut state, &[begin(), input(1)]), [1, 2]);
        assert_eq!(state.transcript().len(), len, "the second time it is not executed");
    }

    #[test]
    fn mistakes_show() {
        let mut state = State::new(SETTINGS, InMemory::default(), Planted(Bug::TooEarlyAnswered));
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
        let mut state = State::new(SETTINGS, InMemory::default(), Sound);
        state.apply(Slot(0), b"damaged", &mut Answers::default());
        assert!(state.transcript().is_empty());
    }
}
