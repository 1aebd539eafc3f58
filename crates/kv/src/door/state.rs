//! The replicated state behind the door: keys and sessions, their snapshots, and backups of them.

use super::backups::Backups;
use super::bugs::Bug;
use crate::backup;
use crate::entry::{self, BatchWriter};
use crate::machine::{Machine, ReadOutcome};
use crate::partition::SNAPSHOT_REQUEST;
use crate::reply::Reply;
use crate::snapshot::{self, Beside, Installer};
use crate::store::{DATABASES, Db, Published};
use base::{Incarnation, Instant, Slot};
use engine::{Answers, Appended, Application, Origin, Performed, Saving, Sequence};
use proto::planted::{Planting, Sound};

const _: () = assert!(crate::reply::ANSWER_BYTES_MAX <= engine::service::ANSWER_BYTES_MAX);

/// The most entries of another member's state that one call reads.
const ENTRIES_AT_ONCE: usize = 512;

/// A state that is no longer needed. Dropping a state with a million keys takes a quarter of a
/// second, so a process does that on another thread.
#[derive(Debug)]
pub enum Discarded {
    /// A state that was replaced by another member's.
    Replaced(Box<Machine>),
    /// A state of another member that was not read to its end.
    Unfinished(Box<Installer>),
}

/// The replicated state; see the module's text.
#[derive(Debug)]
pub struct State<P = Sound> {
    planted: P,
    machine: Machine,
    writer: BatchWriter,
    reply: Reply,
    backups: Backups,
    /// The part of another member's state that was read so far.
    installer: Option<Installer>,
    /// The snapshots under way, by their names.
    besides: Vec<(Saving, Beside)>,
    n_saves: u64,
    /// The number of reads so far: the only randomness that RANDOMKEY needs outside the log.
    n_reads: u64,
    /// The time, as of the last turn.
    now: Instant,
    /// The states that [`State::take_discarded`] will return.
    discarded: Vec<Discarded>,
    /// The text that [`State::take_complaint`] will return.
    complaint: Option<String>,
}

/// The content of a member, for INFO.
pub trait Holds {
    /// The figures.
    fn holding(&self) -> Holding;

    /// Lines of Gregale's own section.
    fn describe(&self) -> String {
        String::new()
    }
}

/// What a door serves: what it is told of the state, and asks of it, whatever family of protocols
/// replicates it.
pub trait Serves: Holds {
    /// Tells it the time, each turn.
    fn pass_time(&mut self, _now: Instant) {}

    /// The messages that were published since the last call.
    fn take_published(&mut self) -> Vec<Published> {
        Vec::new()
    }

    /// States that were replaced or given up since the last call.
    fn take_discarded(&mut self) -> Vec<Discarded> {
        Vec::new()
    }

    /// What an operator should hear, if there is anything.
    fn take_complaint(&mut self) -> Option<String> {
        None
    }

    /// Gives back what no member fetches now.
    fn sweep(&mut self) {}
}

/// See [`Holds`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Holding {
    /// Keys of all databases.
    pub keys: u64,
    /// Bytes of memory that the keys take.
    pub memory_bytes: u64,
    /// Keys, and how many of them expire, of each database.
    pub databases: [(u64, u64); DATABASES],
    /// Changes of keys, counted.
    pub changes: u64,
}

/// A value for each database.
pub fn of_each<T>(of: impl Fn(Db) -> T) -> [T; DATABASES] {
    std::array::from_fn(|at| of(Db::new(at as i64).expect("it is below their number")))
}

impl<P> Holds for State<P> {
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

impl<P> Serves for State<P> {
    fn pass_time(&mut self, now: Instant) {
        self.now = now;
    }

    fn take_published(&mut self) -> Vec<Published> {
        self.machine.take_published()
    }

    fn take_discarded(&mut self) -> Vec<Discarded> {
        std::mem::take(&mut self.discarded)
    }

    fn take_complaint(&mut self) -> Option<String> {
        self.complaint.take()
    }

    fn sweep(&mut self) {
        self.backups.sweep(self.now);
    }
}

fn to_kv(origin: Origin) -> entry::Origin {
    entry::Origin { rank: origin.rank, incarnation: origin.life }
}

fn from_kv(origin: entry::Origin) -> Origin {
    Origin { rank: origin.rank, life: Incarnation(origin.incarnation.0) }
}

impl State {
    /// An empty state. `memory_bytes_max` is the cluster's limit, zero for none: a write that one
    /// member refuses for the limit, each member has to refuse. `seed` decides what RANDOMKEY
    /// answers.
    pub fn new(memory_bytes_max: u64, seed: u64) -> State {
        State::with(memory_bytes_max, seed, Sound)
    }
}

impl<P> State<P> {
    /// The same, with a planted mistake, or none.
    pub fn with(memory_bytes_max: u64, seed: u64, planted: P) -> State<P> {
        State {
            planted,
            machine: Machine::new(memory_bytes_max),
            writer: BatchWriter::new(),
            reply: Reply::default(),
            backups: Backups::default(),
            installer: None,
            besides: Vec::new(),
            n_saves: 0,
            n_reads: seed,
            now: Instant::ZERO,
            discarded: Vec::new(),
            complaint: None,
        }
    }

    /// Appends all of it to `out`.
    pub fn save(&self, out: &mut Vec<u8>) {
        snapshot::save(&self.machine, out);
    }

    /// The first part in which two states differ, in words. It reads both as a whole, so it is for
    /// tests and the simulator.
    pub fn difference(&self, other: &State<P>) -> Option<String> {
        snapshot::difference(&self.machine, &other.machine)
    }
}

impl<P: Planting<Bug>> Application for State<P> {
    fn apply(&mut self, slot: Slot, value: &[u8], answers: &mut Answers) {
        let mut sink = |origin, sequence: entry::Sequence, reply: &[u8]| {
            answers.push(from_kv(origin), Sequence(sequence.0), reply);
        };
        if self.planted.has(Bug::SessionsStay) {
            self.machine.clients.keep_all();
        }
        let applied = self.machine.apply(slot, value, &mut sink);
        if self.planted.has(Bug::DeletionsUnseen) {
            self.machine.store.forget_deletions();
        }
        if let Err(error) = applied {
            // Every member sees the same bytes and skips them; their commands are sent again.
            let line = format!("the value of slot {slot} is no batch and was skipped: {error}");
            self.complaint = Some(line);
        }
    }

    fn state_ms(&self) -> u64 {
        self.machine.state_ms()
    }

    fn next_expiry_ms(&self) -> Option<u64> {
        self.machine.store().next_expiry_ms()
    }

    fn read(&mut self, command: &[u8], stamp_ms: u64, out: &mut Vec<u8>) -> Performed {
        self.n_reads = self.n_reads.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        self.reply.clear();
        if command.first() == Some(&backup::REQUEST) {
            // Expired keys go into the file with their expiry, so no time has to be decided.
            self.backups.answer(command, &self.machine, self.now, &mut self.reply);
            out.extend_from_slice(self.reply.as_bytes());
            return Performed::Done;
        }
        // In one partition every read sees one moment, the present one.
        let command = command.strip_prefix(&[SNAPSHOT_REQUEST]).unwrap_or(command);
        match self.machine.read(command, stamp_ms, self.n_reads, &mut self.reply) {
            ReadOutcome::Done => {
                out.extend_from_slice(self.reply.as_bytes());
                Performed::Done
            }
            ReadOutcome::NeedsTick => Performed::NeedsTick,
        }
    }

    fn begin_save(&mut self) -> Saving {
        self.n_saves += 1;
        let saving = Saving(self.n_saves);
        self.besides.push((saving, Beside::begin(&mut self.machine)));
        saving
    }

    fn save_piece(&mut self, saving: Saving, n_bytes: usize, out: &mut Vec<u8>) -> Option<bool> {
        let (_, beside) = self.besides.iter_mut().find(|(of, _)| *of == saving)?;
        // `end_restore`, which alone replaces the machine meanwhile, ends all snapshots.
        Some(
            beside
                .chunk(&mut self.machine, n_bytes, out)
                .expect("the machine that it was begun with"),
        )
    }

    fn end_save(&mut self, saving: Saving) {
        if let Some(at) = self.besides.iter().position(|(of, _)| *of == saving) {
            let (_, beside) = self.besides.swap_remove(at);
            beside.end(&mut self.machine);
        }
    }

    fn begin_restore(&mut self) {
        self.give_up_restore();
        self.installer = Some(Installer::new(self.machine.store().memory_bytes_max()));
    }

    fn restore_piece(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let installer = self.installer.as_mut().ok_or("no state was begun")?;
        installer.feed_some(bytes, ENTRIES_AT_ONCE).map_err(|error| error.to_string())
    }

    fn end_restore(&mut self) -> Result<(), String> {
        let installer = self.installer.take().ok_or("no state was begun")?;
        let mut machine = installer.finish().map_err(|error| error.to_string())?;
        if self.planted.has(Bug::RestoredKeysStay) {
            machine.store.forget_expiries();
        }
        if self.planted.has(Bug::RestoredSessionsIdle) {
            machine.clients.forget_calls_times();
        }
        if self.planted.has(Bug::RestoredSessionsStay) {
            machine.clients.keep_all();
        }
        if self.planted.has(Bug::RestoredIntoFirst) {
            machine.store.join_databases();
        }
        if self.planted.has(Bug::RestoredScriptsLost) {
            machine.store.scripts_mut().flush();
        }
        let before = std::mem::replace(&mut self.machine, machine);
        self.discarded.push(Discarded::Replaced(Box::new(before)));
        self.writer.abandon();
        self.besides.clear();
        Ok(())
    }

    fn give_up_restore(&mut self) {
        let unfinished = self.installer.take();
        self.discarded
            .extend(unfinished.map(|installer| Discarded::Unfinished(Box::new(installer))));
    }

    fn begin(&mut self, stamp_ms: u64, out: &mut Vec<u8>) {
        self.writer.begin(stamp_ms, out);
    }

    fn append(
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

    fn abandon(&mut self) {
        self.writer.abandon();
    }
}
