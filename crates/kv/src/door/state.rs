//! The replicated state behind the door: keys and sessions, their snapshots, and backups of them.

use super::backups::Backups;
use crate::backup;
use crate::entry::{Appended, BatchWriter, EntryError, Origin, Sequence};
use crate::machine::{Machine, ReadOutcome};
use crate::partition::SNAPSHOT_REQUEST;
use crate::reply::Reply;
use crate::snapshot::{self, Beside, Installer, SnapshotError};
use crate::store::{DATABASES, Db, Published};
use base::{Instant, Slot};

/// How many entries of another member's state are read in one call.
const ENTRIES_AT_ONCE: usize = 512;

/// The name of one save of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Saving(pub u64);

/// What became of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Performed {
    /// It is answered.
    Done,
    /// By the time that was given it would see a key expire that the state has not expired yet:
    /// time has to be decided first.
    NeedsTick,
}

/// A state that is not needed any more. To drop one with a million keys takes a quarter of a
/// second, so a process does that on another thread.
#[derive(Debug)]
pub enum Discarded {
    /// Another member's state took its place.
    Replaced(Box<Machine>),
    /// Another member's state that was not read to its end.
    Unfinished(Box<Installer>),
}

/// See the module's text.
#[derive(Debug)]
pub struct State {
    machine: Machine,
    writer: BatchWriter,
    reply: Reply,
    backups: Backups,
    /// What was read of another member's state.
    installer: Option<Installer>,
    /// Snapshots under way, and their names.
    besides: Vec<(Saving, Beside)>,
    n_saves: u64,
    /// Reads so far: the only randomness that RANDOMKEY needs outside the log.
    n_reads: u64,
}

/// What a member holds, for INFO.
pub trait Holds {
    /// In figures.
    fn holding(&self) -> Holding;

    /// In lines of our own section.
    fn describe(&self) -> String {
        String::new()
    }
}

/// See [`Holds`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Holding {
    /// Keys of all databases.
    pub keys: u64,
    /// Memory that they take.
    pub memory_bytes: u64,
    /// Keys, and how many of them expire, of each database.
    pub databases: [(u64, u64); DATABASES],
    /// How often something was changed.
    pub changes: u64,
}

/// Something of each database.
pub fn of_each<T>(of: impl Fn(Db) -> T) -> [T; DATABASES] {
    std::array::from_fn(|at| of(Db::new(at as i64).expect("it is below their number")))
}

impl Holds for State {
    fn holding(&self) -> Holding {
        let store = self.machine.store();
        Holding {
            keys: store.len() as u64,
            memory_bytes: store.used_bytes(),
            changes: store.counters().changes,
            databases: of_each(|db| (store.len_of(db) as u64, store.expiring_of(db) as u64)),
        }
    }
}

impl State {
    /// An empty one. `memory_bytes_max` is the cluster's limit, zero for none: what one member
    /// refuses for it, each has to refuse. `seed` decides what RANDOMKEY answers.
    pub fn new(memory_bytes_max: u64, seed: u64) -> State {
        State {
            machine: Machine::new(memory_bytes_max),
            writer: BatchWriter::new(),
            reply: Reply::default(),
            backups: Backups::default(),
            installer: None,
            besides: Vec::new(),
            n_saves: 0,
            n_reads: seed,
        }
    }

    /// Executes a decided value, as [`State::append`] made it; `sink` takes the answers.
    ///
    /// # Errors
    /// The value is no batch. Every member sees the same bytes and skips them, and the commands are
    /// sent again.
    pub fn apply(
        &mut self,
        slot: Slot,
        value: &[u8],
        sink: &mut impl FnMut(Origin, Sequence, &[u8]),
    ) -> Result<(), EntryError> {
        self.machine.apply(slot, value, sink)
    }

    /// The messages that were published since the last call.
    pub fn take_published(&mut self) -> Vec<Published> {
        self.machine.take_published()
    }

    /// The newest stamp that was applied, in milliseconds since 1970; 0 if none was.
    pub fn state_ms(&self) -> u64 {
        self.machine.state_ms()
    }

    /// When the next key expires, likewise.
    pub fn next_expiry_ms(&self) -> Option<u64> {
        self.machine.store().next_expiry_ms()
    }

    /// Appends all of it to `out`.
    pub fn save(&self, out: &mut Vec<u8>) {
        snapshot::save(&self.machine, out);
    }

    /// Replaces it by what [`State::save`] wrote.
    ///
    /// # Errors
    /// What is wrong with the bytes; the state is as it was.
    pub fn restore(&mut self, state: &[u8]) -> Result<(), SnapshotError> {
        let limit = self.machine.store().memory_bytes_max();
        self.machine = snapshot::restore(state, limit)?;
        Ok(())
    }

    /// Begins to save all of it as it is now, in pieces, while commands are applied.
    pub fn begin_save(&mut self) -> Saving {
        self.n_saves += 1;
        let saving = Saving(self.n_saves);
        self.besides.push((saving, Beside::begin(&mut self.machine)));
        saving
    }

    /// Appends the next piece to `out`; false if it was the last. `None` if [`State::end_restore`]
    /// has ended the save.
    pub fn save_piece(&mut self, saving: Saving, out: &mut Vec<u8>) -> Option<bool> {
        let (_, beside) = self.besides.iter_mut().find(|(of, _)| *of == saving)?;
        // `end_restore`, which alone replaces the machine meanwhile, ends them all.
        Some(beside.chunk(&mut self.machine, out).expect("the machine that it was begun with"))
    }

    /// No more pieces of it are wanted.
    pub fn end_save(&mut self, saving: Saving) {
        if let Some(at) = self.besides.iter().position(|(of, _)| *of == saving) {
            let (_, beside) = self.besides.swap_remove(at);
            beside.end(&mut self.machine);
        }
    }

    /// Another member's state is going to come in pieces. An earlier one that did not come to its
    /// end is given back.
    #[must_use]
    pub fn begin_restore(&mut self) -> Option<Discarded> {
        let before = self.give_up_restore();
        self.installer = Some(Installer::new(self.machine.store().memory_bytes_max()));
        before
    }

    /// Reads the next bytes of it, a bounded number of entries: true if there is more to do with
    /// what it was given; then call it again, without bytes.
    ///
    /// # Errors
    /// What is wrong with the bytes: nothing of them will be put in place.
    pub fn restore_piece(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let installer = self.installer.as_mut().ok_or("no state was begun")?;
        installer.feed_some(bytes, ENTRIES_AT_ONCE).map_err(|error| error.to_string())
    }

    /// All of it was read: it takes the place of the state that is here, which is given back, and
    /// all saves end.
    ///
    /// # Errors
    /// It is not whole; the state is as it was.
    pub fn end_restore(&mut self) -> Result<Discarded, String> {
        let installer = self.installer.take().ok_or("no state was begun")?;
        let machine = installer.finish().map_err(|error| error.to_string())?;
        let before = std::mem::replace(&mut self.machine, machine);
        self.writer.abandon();
        self.besides.clear();
        Ok(Discarded::Replaced(Box::new(before)))
    }

    /// It does not come to its end: what was read of it is given back.
    #[must_use]
    pub fn give_up_restore(&mut self) -> Option<Discarded> {
        self.installer.take().map(|installer| Discarded::Unfinished(Box::new(installer)))
    }

    /// Begins a batch at the end of `out`, stamped with `stamp_ms`.
    pub fn begin(&mut self, stamp_ms: u64, out: &mut Vec<u8>) {
        self.writer.begin(stamp_ms, out);
    }

    /// Appends a command to the batch that `out` ends with; `out` may grow to `bytes_max`.
    pub fn append(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        command: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Appended {
        self.writer.append(origin, sequence, command, bytes_max, out)
    }

    /// Forgets the part of a command that was appended last.
    pub fn abandon(&mut self) {
        self.writer.abandon();
    }

    /// Performs an encoded read; its reply is appended to `out`.
    pub fn read(
        &mut self,
        command: &[u8],
        stamp_ms: u64,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Performed {
        self.n_reads = self.n_reads.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        self.reply.clear();
        if command.first() == Some(&backup::REQUEST) {
            // Keys that are due go into the file with their expiry, so no time has to be decided.
            self.backups.answer(command, &self.machine, now, &mut self.reply);
            out.extend_from_slice(self.reply.as_bytes());
            return Performed::Done;
        }
        // In one partition every read is of one moment, and of the present one.
        let command = command.strip_prefix(&[SNAPSHOT_REQUEST]).unwrap_or(command);
        match self.machine.read(command, stamp_ms, self.n_reads, &mut self.reply) {
            ReadOutcome::Done => {
                out.extend_from_slice(self.reply.as_bytes());
                Performed::Done
            }
            ReadOutcome::NeedsTick => Performed::NeedsTick,
        }
    }

    /// Gives back what nobody fetches any more.
    pub fn sweep(&mut self, now: Instant) {
        self.backups.sweep(now);
    }
}
