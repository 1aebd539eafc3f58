//! Snapshots in files, by the released code, beside a log on one simulated disk.
//!
//! ```text
//! loop    begin | piece | piece | ...            | hears of the end
//! thread        create  | write | ... | sync, rename, sync | remove old ones
//! ```
//! Each step of the thread takes a while, so commands are executed between two of them, syncs fail,
//! disks fill up, processes die and the power fails.
//!
//! - I1 Any process that starts finds the newest state that was reported, or a later one, and it is
//!   whole; or it says which is damaged, and only where a bit flipped. Checked in
//!   [`States::revive`] and [`crate::disk::Disk::revive`].
//! - I2 When a process dies, or the power fails, its work is cut between any two of its operations
//!   on the disk.

use crate::Snapshots;
use crate::kv::{Kv, N_PIECES};
use crate::stored::Unusable;
use base::{Prefix, Rng, Slot};
use proto::members::StateHead;
use std::collections::VecDeque;
use storage::Media;
use storage::media::Simulated;
use storage::snapshot::{self, PassedOver, Snapshot, SnapshotError, SnapshotWriter};

/// A state, the prefix that it covers, and its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) kv: Kv,
    pub(crate) prefix: Prefix,
    pub(crate) head: Option<StateHead>,
}

/// The result of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It is durable.
    Written(Box<State>),
    /// It failed.
    Failed,
}

/// Snapshots over some media.
pub(crate) trait StateStore {
    /// Begins to write `state`, in pieces of this size; one at a time.
    fn begin(&mut self, state: State, piece_bytes: usize);
    fn is_writing(&self) -> bool;
    /// Makes the next piece in the loop, if the thread has room for it. (`live` is the present
    /// state, for a planted bug.)
    fn piece(&mut self, live: &Kv);
    /// Whether the thread has work.
    fn has_work(&self) -> bool;
    /// Performs the thread's next step.
    fn work(&mut self);
    /// The result of the last snapshot, once.
    fn take_end(&mut self) -> Option<End>;
    /// Stops the one that is being written, which is no longer wanted.
    fn give_up(&mut self);
    /// Kills the process, `n_steps` steps of its thread later.
    fn die(&mut self, n_steps: u64);
    /// Flips a bit of the newest one; false without any.
    fn rot(&mut self, rng: &mut Rng) -> bool;
    /// Finds the state, as a process that starts; true if a damaged one was skipped.
    fn revive(&mut self) -> Result<(Option<State>, bool), Unusable>;
}

enum Step {
    Create,
    Write(Vec<u8>),
    Finish,
    RemoveOld { kept: usize },
}

struct Writing<M: Media> {
    state: State,
    piece_bytes: usize,
    n_made: usize,
    todo: VecDeque<Step>,
    writer: Option<SnapshotWriter<M>>,
}

pub(crate) struct States<M: Media> {
    media: M,
    disk: Simulated,
    log: u64,
    bug: Snapshots,
    writing: Option<Writing<M>>,
    end: Option<End>,
    /// The snapshots in which a bit flipped.
    spoiled: Vec<Slot>,
    /// The ones of them that the present life has met.
    passed_over: PassedOver,
}

/// The most pieces that wait for the thread.
const N_WAITING_MAX: usize = 2;
/// The number of snapshots that are kept, as in the runtime.
const N_KEPT: usize = 2;

impl<M: Media> States<M> {
    pub(crate) fn new(media: M, disk: Simulated, log: u64, bug: Snapshots) -> States<M> {
        let (spoiled, passed_over) = (Vec::new(), PassedOver::default());
        States { media, disk, log, bug, writing: None, end: None, spoiled, passed_over }
    }

    /// Performs a step. True when the whole snapshot is written.
    fn step(&mut self) -> Result<bool, SnapshotError> {
        let Some(writing) = &mut self.writing else { return Ok(false) };
        let Some(step) = writing.todo.pop_front() else { return Ok(false) };
        match step {
            Step::Create => {
                let State { prefix, head, .. } = &writing.state;
                let note = head.map_or(Vec::new(), |head| head.encode());
                let slot = Slot(prefix.0);
                writing.writer = Some(SnapshotWriter::create(&self.media, self.log, slot, &note)?);
            }
            Step::Write(bytes) => {
                if let Some(writer) = &mut writing.writer {
                    writer.write(&bytes)?;
                }
            }
            Step::Finish => {
                if let Some(writer) = writing.writer.take() {
                    let named = writer.finish()?;
                    self.spoiled.retain(|slot| *slot != named);
                    self.passed_over.written(named);
                }
            }
            Step::RemoveOld { kept } => {
                // A snapshot that cannot be removed now is removed with the next.
                let last = Slot(writing.state.prefix.0);
                let _ = snapshot::delete_old(&self.media, last, kept, &self.passed_over);
            }
        }
        Ok(writing.n_made == N_PIECES && writing.todo.is_empty())
    }

    fn read(&self, slot: Slot) -> Result<State, SnapshotError> {
        let file = Snapshot::open(&self.media, slot)?;
        file.verify()?;
        let mut bytes = Vec::new();
        for chunk in 0..file.n_chunks() {
            file.read_chunk(chunk, &mut bytes)?;
        }
        let kv = Kv::of_pieces(&bytes);
        Ok(State { kv, prefix: Prefix(slot.0), head: StateHead::decode(file.note()) })
    }
}

impl<M: Media> StateStore for States<M> {
    fn begin(&mut self, mut state: State, piece_bytes: usize) {
        assert!(self.writing.is_none(), "one at a time");
        if self.bug == Snapshots::WithoutSessions {
            state.kv.forget_sessions();
        }
        let mut todo = VecDeque::from([Step::Create]);
        if self.bug == Snapshots::RemovedTooSoon {
            todo.push_front(Step::RemoveOld { kept: 0 });
        }
        self.writing = Some(Writing { state, piece_bytes, n_made: 0, todo, writer: None });
    }

    fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    fn piece(&mut self, live: &Kv) {
        let Some(writing) = &mut self.writing else { return };
        if writing.n_made == N_PIECES || writing.todo.len() >= N_WAITING_MAX {
            return;
        }
        let kv = if self.bug == Snapshots::Mixed { live } else { &writing.state.kv };
        writing.todo.push_back(Step::Write(kv.piece(writing.n_made, writing.piece_bytes)));
        writing.n_made += 1;
        if writing.n_made == N_PIECES {
            writing.todo.extend([Step::Finish, Step::RemoveOld { kept: N_KEPT }]);
        }
    }

    fn has_work(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| !writing.todo.is_empty())
    }

    fn work(&mut self) {
        self.end = match self.step() {
            Ok(false) => return,
            Ok(true) => self.writing.take().map(|of| End::Written(Box::new(of.state))),
            Err(_) => {
                self.writing = None;
                Some(End::Failed)
            }
        };
    }

    fn take_end(&mut self) -> Option<End> {
        self.end.take()
    }

    fn give_up(&mut self) {
        self.writing = None;
    }

    fn die(&mut self, n_steps: u64) {
        for _ in 0..n_steps {
            if self.has_work() {
                self.work();
            }
        }
        self.end = None;
        // I2: the remains are not removed.
        if let Some(writer) = self.writing.take().and_then(|writing| writing.writer) {
            writer.leave();
        }
    }

    fn rot(&mut self, rng: &mut Rng) -> bool {
        let newest = snapshot::list(&self.media).ok().and_then(|slots| slots.last().copied());
        let Some(slot) = newest.filter(|slot| !self.spoiled.contains(slot)) else { return false };
        let name = snapshot::name(slot);
        let n_bytes = self.disk.contents(&name).map_or(0, |bytes| bytes.len() as u64);
        let flips = n_bytes > 0 && self.disk.flip(&name, rng.below(8 * n_bytes));
        self.spoiled.extend(flips.then_some(slot));
        flips
    }

    fn revive(&mut self) -> Result<(Option<State>, bool), Unusable> {
        // I1
        let broken = |what: String| Unusable::Broken(format!("its snapshots: {what}"));
        snapshot::clear(&self.media).map_err(|error| broken(error.to_string()))?;
        let slots = snapshot::list(&self.media).map_err(|error| broken(error.to_string()))?;
        let mut is_spoiled = false;
        self.passed_over = PassedOver::default();
        for slot in slots.into_iter().rev() {
            let is_damaged = self.spoiled.contains(&slot);
            match self.read(slot) {
                Ok(state) if !is_damaged => return Ok((Some(state), is_spoiled)),
                Ok(_) => return Err(broken(format!("nobody notices that {slot} is damaged"))),
                Err(SnapshotError::Damaged { .. }) if is_damaged => {
                    is_spoiled = true;
                    self.passed_over.damaged.push(slot);
                }
                Err(error) => return Err(broken(error.to_string())),
            }
        }
        Ok((None, is_spoiled))
    }
}
