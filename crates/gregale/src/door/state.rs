//! The replicated state behind the door: `kv`'s machine, in the runtime's terms.

use super::backups::Backups;
use base::{Incarnation, Slot};
use kv::Reply;
use kv::entry::{self, BatchWriter};
use kv::machine::{Machine, ReadOutcome};
use kv::partition::SNAPSHOT_REQUEST;
use kv::snapshot::{self, Beside, Installer};
use kv::store::{DATABASES, Db};
use runtime::{Answers, Appended, Origin, Performed, Saving, Sequence};
use std::time::Instant;

/// How many entries of another member's state are read in one turn of the loop.
const ENTRIES_AT_ONCE: usize = 512;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) machine: Machine,
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
pub(super) trait Holds {
    /// In figures.
    fn holding(&self) -> Holding;

    /// In lines of our own section.
    fn describe(&self) -> String {
        String::new()
    }
}

/// See [`Holds`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Holding {
    pub(super) keys: u64,
    pub(super) memory_bytes: u64,
    /// Keys, and how many of them expire, of each database.
    pub(super) databases: [(u64, u64); DATABASES],
    /// How often something was changed.
    pub(super) changes: u64,
}

/// Something of each database.
pub(super) fn of_each<T>(of: impl Fn(Db) -> T) -> [T; DATABASES] {
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

const _: () = assert!(kv::reply::ANSWER_BYTES_MAX <= runtime::ANSWER_BYTES_MAX);

fn to_kv(origin: Origin) -> entry::Origin {
    entry::Origin { rank: origin.rank, incarnation: origin.life }
}

fn from_kv(origin: entry::Origin) -> Origin {
    Origin { rank: origin.rank, life: Incarnation(origin.incarnation.0) }
}

/// The state without its door, for whoever folds a log. The limit has to be the cluster's: what was
/// refused for it then has to be refused again.
pub(crate) fn offline(memory_bytes_max: u64) -> impl runtime::offline::State {
    State::new(memory_bytes_max)
}

impl runtime::offline::State for State {
    fn apply(&mut self, slot: Slot, value: &[u8]) {
        State::apply(self, slot, value, &mut Answers::default());
    }

    fn save(&mut self, out: &mut Vec<u8>) {
        State::save(self, out);
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), String> {
        let limit = self.machine.store().memory_bytes_max();
        self.machine = snapshot::restore(state, limit).map_err(|error| error.to_string())?;
        Ok(())
    }
}

/// Gives the memory of a state back on a thread of its own: a million keys take a quarter of a
/// second, and the loop does not stand still for it.
fn drop_aside<T: Send + 'static>(state: T) {
    // Without a thread it is dropped here.
    let _ = std::thread::Builder::new().name("drop".into()).spawn(move || drop(state));
}

impl State {
    pub(super) fn new(memory_bytes_max: u64) -> State {
        State {
            machine: Machine::new(memory_bytes_max),
            writer: BatchWriter::new(),
            reply: Reply::default(),
            backups: Backups::default(),
            installer: None,
            besides: Vec::new(),
            n_saves: 0,
            n_reads: runtime::unix_ms(),
        }
    }

    pub(super) fn apply(&mut self, slot: Slot, value: &[u8], answers: &mut Answers) {
        let mut sink = |origin, sequence: entry::Sequence, reply: &[u8]| {
            answers.push(from_kv(origin), Sequence(sequence.0), reply);
        };
        if let Err(error) = self.machine.apply(slot, value, &mut sink) {
            // Every member sees the same bytes and skips them; its commands are sent again.
            eprintln!("gregale: the value of slot {slot} is no batch and was skipped: {error}");
        }
    }

    pub(super) fn save(&self, out: &mut Vec<u8>) {
        snapshot::save(&self.machine, out);
    }

    pub(super) fn begin_save(&mut self) -> Saving {
        self.n_saves += 1;
        let saving = Saving(self.n_saves);
        self.besides.push((saving, Beside::begin(&mut self.machine)));
        saving
    }

    pub(super) fn save_piece(&mut self, saving: Saving, out: &mut Vec<u8>) -> Option<bool> {
        let (_, beside) = self.besides.iter_mut().find(|(of, _)| *of == saving)?;
        // `restore`, which alone replaces the machine, ends them all.
        Some(beside.chunk(&mut self.machine, out).expect("the machine that it was begun with"))
    }

    pub(super) fn end_save(&mut self, saving: Saving) {
        if let Some(at) = self.besides.iter().position(|(of, _)| *of == saving) {
            let (_, beside) = self.besides.swap_remove(at);
            beside.end(&mut self.machine);
        }
    }

    pub(super) fn begin_restore(&mut self) {
        self.give_up_restore();
        self.installer = Some(Installer::new(self.machine.store().memory_bytes_max()));
    }

    pub(super) fn restore_piece(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let installer = self.installer.as_mut().ok_or("no state was begun")?;
        installer.feed_some(bytes, ENTRIES_AT_ONCE).map_err(|error| error.to_string())
    }

    pub(super) fn end_restore(&mut self) -> Result<(), String> {
        let installer = self.installer.take().ok_or("no state was begun")?;
        let machine = installer.finish().map_err(|error| error.to_string())?;
        let before = std::mem::replace(&mut self.machine, machine);
        drop_aside(before);
        self.writer.abandon();
        self.besides.clear();
        Ok(())
    }

    pub(super) fn give_up_restore(&mut self) {
        if let Some(installer) = self.installer.take() {
            drop_aside(installer);
        }
    }

    pub(super) fn begin(&mut self, stamp_ms: u64, out: &mut Vec<u8>) {
        self.writer.begin(stamp_ms, out);
    }

    pub(super) fn append(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        command: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Appended {
        let sequence = entry::Sequence(sequence.0);
        match self.writer.append(to_kv(origin), sequence, command, bytes_max, out) {
            entry::Appended::Whole => Appended::Whole,
            entry::Appended::Part => Appended::Part,
            entry::Appended::Full => Appended::Full,
        }
    }

    pub(super) fn abandon(&mut self) {
        self.writer.abandon();
    }

    /// Performs an encoded read; its reply is appended to `out`.
    pub(super) fn read(&mut self, command: &[u8], stamp_ms: u64, out: &mut Vec<u8>) -> Performed {
        self.n_reads = self.n_reads.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        self.reply.clear();
        if command.first() == Some(&kv::backup::REQUEST) {
            // Keys that are due go into the file with their expiry, so no time has to be decided.
            self.backups.answer(command, &self.machine, Instant::now(), &mut self.reply);
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
    pub(super) fn sweep(&mut self) {
        self.backups.sweep(Instant::now());
    }
}
