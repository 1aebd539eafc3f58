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
//! - I6 where times are kept, the log's time is the largest stamp so far, as the transcript has it:
//!   it never falls, and what stands behind a time is executed at it. A value without entries is a
//!   *tick*: its stamp is what it is for. Others move the time by [`Settings::time_step_ms`] at
//!   least. Where answers are held, only entries of connections and ticks do: a point follows them.
//! - I5 a state begins at its *base*: the program's first state and no entries, or the newest
//!   checkpoint that counts (`checkpoint`), with the ground at its point. The entries behind it
//!   hold the checkpoint itself. So I2 holds from there, and what stands before is forgotten: not
//!   before the own copy and every save under way have read it ([`State::release`]).

use crate::batch::{self, Batch};
use crate::bugs::Bug;
use crate::checkpoint::{self, Checkpoints};
use crate::entry::Entry;
use crate::table::{Table, Verdict};
use crate::transcript::{Record, Transcript};
use crate::verdict::{Judge, Output};
use crate::words;
use base::{MAX_MEMBERS, Rank, Slot};
use engine::{Answers, Appended, Application, Origin, Performed, Saving, Sequence};
use proto::planted::{Planting, Sound};
use std::collections::BTreeMap;

/// The first bytes of a moved state, which name its format.
const MAGIC: [u8; 8] = *b"grgleRP6";
/// Behind them: the bytes of all entries, the stamp, the base's position and offset, and the length
/// of the ground there.
const HEADER_BYTES: usize = MAGIC.len() + 5 * 8;
/// The most bytes of a ground: some for each open connection.
const GROUND_BYTES_MAX: u64 = 64 << 20;

/// Where a state begins (I5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// The number of entries of connections before it; 0 for the program's first state.
    pub position: u64,
    /// The bytes of the transcript before it.
    pub offset: u64,
    /// The log's time there; 0 if times are not kept.
    pub time_ms: u64,
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
    /// Whether copies are saved by their files, and so begin again at halts (`checkpoint`, K7).
    pub renews: bool,
    /// The least time from one time of the transcript to the next, but for ticks; 0 to keep none.
    pub time_step_ms: u64,
    /// When answers leave, which decides where the copies are compared (`verdict`, V8).
    pub output: Output,
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
    /// I6
    time_ms: u64,
}

impl<B: Planting<Bug>> Ground<B> {
    fn new(settings: Settings, planted: B) -> Ground<B> {
        let judge = Judge::new(settings.members, settings.compare, planted).of(settings.output);
        let checkpoints = Checkpoints::new(settings.checkpoint, planted).renewing(settings.renews);
        Ground { table: Table::new(planted), judge, checkpoints, time_ms: 0 }
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
            let time_ms = words::take(rest);
            let is_read = is_read && time_ms.is_some();
            ground.time_ms = time_ms.unwrap_or(0);
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
        words::put(&mut out, &[self.time_ms]);
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
                let position = self.judge.marked();
                let maker = (owner, run);
                let piece = checkpoint::Piece { maker, at, offset, len, n_bytes, position };
                self.checkpoints.take(piece)
            }
            Entry::Hash { .. } | Entry::Piece { .. } => by_process,
            Entry::Halt { closes, .. } if by_process == Verdict::Execute => {
                return self.halt(closes);
            }
            Entry::Halt { .. } => by_process,
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
            self.checkpoints.ended(owner);
        } else if let Entry::Left { owner, .. } = *entry {
            self.judge.left(owner);
            self.checkpoints.ended(owner);
        }
        (verdict, self.step())
    }

    /// Executes a halt (`checkpoint`, K6).
    fn halt(&mut self, closes: bool) -> (Verdict, Effect) {
        let Ground { table, judge, checkpoints, .. } = self;
        if !checkpoints.takes_halt(judge, |rank| table.run_of(rank))
            || !closes && table.n_open() > 0
        {
            return (Verdict::Over, Effect::Nothing);
        }
        table.end_all();
        judge.halt();
        checkpoints.halt(judge, |rank| table.run_of(rank));
        (Verdict::Execute, Effect::Saves)
    }

    /// Another entry of a connection was executed, or a tick.
    fn step(&mut self) -> Effect {
        if self.judge.step() { self.pass_point() } else { Effect::Nothing }
    }

    /// A value of the log was executed.
    fn end_value(&mut self) -> Effect {
        if self.judge.end_value() { self.pass_point() } else { Effect::Nothing }
    }

    fn pass_point(&mut self) -> Effect {
        let Ground { table, judge, checkpoints, .. } = self;
        let saves = checkpoints.pass_point(judge, |rank| table.run_of(rank));
        if saves { Effect::Saves } else { Effect::Nothing }
    }

    /// The time that a value with this stamp moves the log to, if it does (I6).
    fn time_of(&self, stamp_ms: u64, is_tick: bool, step_ms: u64) -> Option<u64> {
        let least_ms = if is_tick { 1 } else { step_ms };
        (step_ms > 0 && stamp_ms >= self.time_ms.saturating_add(least_ms)).then_some(stamp_ms)
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
    /// Executes an entry, or a tick if there is no entry, at `time_ms` if that is another time. The
    /// transcript has it behind it, by `keep`.
    fn execute(
        &mut self,
        entry: Option<&Entry<'_>>,
        time_ms: Option<u64>,
        planted: B,
        keep: impl FnOnce(&mut H),
    ) -> Verdict {
        let ground = &mut self.ground;
        let (verdict, effect) = match entry {
            Some(entry) => ground.execute(entry),
            None => (Verdict::Execute, ground.step()),
        };
        if verdict != Verdict::Execute {
            return verdict;
        }
        keep(&mut self.transcript);
        self.ground.time_ms = time_ms.unwrap_or(self.ground.time_ms);
        self.take_effect(effect, planted);
        verdict
    }

    /// A value of the log was executed: a point may lie here, behind all of it (`verdict`, V8).
    fn end_value(&mut self, planted: B) {
        let effect = self.ground.end_value();
        self.take_effect(effect, planted);
    }

    fn take_effect(&mut self, effect: Effect, planted: B) {
        match effect {
            Effect::Nothing => {}
            Effect::Saves => {
                let (position, offset) = (self.ground.judge.position(), self.transcript.len());
                let (time_ms, ground) = (self.ground.time_ms, self.ground.bytes());
                self.next_base = Some(Base { position, offset, time_ms, ground });
            }
            Effect::Adopts => {
                self.base = self.next_base.take().expect("a checkpoint that was made has a place");
                if planted.has(Bug::FreedTooFar) {
                    self.base.offset = self.transcript.len();
                }
            }
        }
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
    /// The time that the own copy waits for.
    awaited_ms: Option<u64>,
    /// See [`State::said_until`].
    said_until: [u64; MAX_MEMBERS],
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
            awaited_ms: None,
            said_until: [0; MAX_MEMBERS],
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

    /// The log's time; `None` if times are not kept.
    pub fn time_ms(&self) -> Option<u64> {
        (self.settings.time_step_ms > 0).then_some(self.body.ground.time_ms)
    }

    /// The own copy waits for this time: a leader makes a tick when it has come. Returns whether
    /// that is news.
    pub fn await_time(&mut self, awaited_ms: Option<u64>) -> bool {
        std::mem::replace(&mut self.awaited_ms, awaited_ms) != awaited_ms
    }

    /// Where the state begins.
    pub fn base(&self) -> &Base {
        &self.body.base
    }

    /// What was executed.
    pub fn transcript(&self) -> &H {
        &self.body.transcript
    }

    /// The bytes of the transcript up to the last input of `owner`'s clients that was executed
    /// here.
    pub(crate) fn said_until(&self, owner: Rank) -> u64 {
        self.said_until[owner.index()]
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
        let mut base = Base { position, offset, time_ms: 0, ground: ground.to_vec() };
        let ground = Ground::at(&base, settings, planted)?;
        base.time_ms = ground.time_ms;
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
        while let Some(record) = Record::first(&self.rest[at..]) {
            let parsed = (!record.is_tick()).then(|| Entry::parse(record.bytes)).transpose();
            let entry = parsed.map_err(|error| error.to_string())?;
            if record.time_ms.is_some_and(|time_ms| time_ms <= body.ground.time_ms) {
                return Err("the time of the state falls".to_owned()); // I6
            }
            if !record.continues {
                body.end_value(planted); // the one before
            }
            let end = at + record.len();
            let keep = |transcript: &mut H| transcript.append(&self.rest[at..end]);
            if body.execute(entry.as_ref(), record.time_ms, planted, keep) != Verdict::Execute {
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
        let (scratch, is_tick) = (&mut self.record, batch.is_tick());
        let step_ms = self.settings.time_step_ms;
        let mut time_ms = self.body.ground.time_of(self.state_ms, is_tick, step_ms);
        if let (true, Some(_)) = (is_tick, time_ms) {
            let keep = |transcript: &mut H| {
                Record { bytes: &[], continues: false, time_ms }.put(scratch, transcript);
            };
            self.body.execute(None, time_ms, self.planted, keep);
            self.body.end_value(self.planted);
            return;
        }
        let mut continues = false;
        for item in batch.items() {
            // What a time has set going is compared like all else: a point has to follow it.
            let may_move = self.settings.output == Output::AtOnce || item.entry.is_input();
            let moves_to = time_ms.filter(|_| may_move);
            let record = Record { bytes: item.bytes, continues, time_ms: moves_to };
            let keep = |transcript: &mut H| record.put(scratch, transcript);
            let verdict = self.body.execute(Some(&item.entry), moves_to, self.planted, keep);
            if verdict == Verdict::Execute {
                continues = true;
                if let Entry::Input { id, .. } = item.entry {
                    self.said_until[id.owner.index()] = self.body.transcript.len();
                }
                time_ms = time_ms.filter(|_| moves_to.is_none());
            }
            if verdict != Verdict::TooEarly || self.planted.has(Bug::TooEarlyAnswered) {
                answers.push(item.origin, item.sequence, &[]); // I3
            }
        }
        self.body.end_value(self.planted);
    }

    fn state_ms(&self) -> u64 {
        self.state_ms
    }

    fn next_expiry_ms(&self) -> Option<u64> {
        None
    }

    fn awaited_ms(&self) -> Option<u64> {
        self.awaited_ms
    }

    /// The place up to which another member's copy has to be fed: by the bytes of the transcript,
    /// as of all members (I1).
    fn read(&mut self, _: &[u8], _: u64, reply: &mut Vec<u8>) -> Performed {
        reply.extend_from_slice(&self.transcript().len().to_le_bytes());
        Performed::Done
    }

    fn begin_save(&mut self) -> Saving {
        self.n_saves += 1;
        let (len, base) = (self.transcript().len(), self.base().clone());
        let (at, state_ms) = (base.offset, self.state_ms);
        self.saves.insert(self.n_saves, Save { base, len, at, state_ms, has_begun: false });
        Saving(self.n_saves)
    }

    fn save_piece(&mut self, saving: Saving, n_bytes: usize, out: &mut Vec<u8>) -> Option<bool> {
        let save = self.saves.get_mut(&saving.0)?;
        if !std::mem::replace(&mut save.has_begun, true) {
            let Base { position, offset, ground, .. } = &save.base;
            out.extend_from_slice(&MAGIC);
            words::put(out, &[save.len, save.state_ms, *position, *offset, ground.len() as u64]);
            out.extend_from_slice(ground);
        }
        let from = out.len();
        out.resize(from + (save.len - save.at).min(n_bytes as u64) as usize, 0);
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
        let (mut body, state_ms) = arriving.whole().ok_or("the state is not whole")?;
        body.end_value(self.planted); // a state is saved between two values
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
mod tests;
