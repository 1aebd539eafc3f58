//! What an engine serves: an [`Application`], which is the replicated state, and the [`Door`]
//! through which its clients come.
//!
//! The engine orders commands, checks reads, forwards both and moves states between members. It
//! never looks into a command. The application executes, the door parses and answers; neither sees
//! a peer.

use crate::desk::{Desk, View};
pub use crate::origin::Origin;
use crate::outbox::Sequence;
use crate::seats::Changed;
use crate::stats::Stats;
use base::{Instant, Slot};

/// The client that waits for an answer: the door's own names, handed back unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asker {
    /// Which client.
    pub connection: u64,
    /// Which of its requests.
    pub request: u64,
}

/// The longest answer that an application gives: any may have to be sent from the leader to another
/// member.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;
const _: () = assert!(ANSWER_BYTES_MAX * 2 < crate::wire::FRAME_BYTES_MAX);

/// How a command ended, for the client that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Executed in this slot, with this reply.
    Executed(Slot, &'a [u8]),
    /// The deadline passed: it was executed, or not, or will be.
    Unknown,
}

/// How a read ended, for the client that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAnswer<'a> {
    /// The leader answered for us.
    Forwarded(&'a [u8]),
    /// No member could answer in time. A read has no effect, so trying again is safe.
    Unavailable,
}

/// What became of a read that was performed on the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Performed {
    /// It is answered.
    Done,
    /// By the time that was given it would see a key expire that the state has not expired yet:
    /// time has to be decided first.
    NeedsTick,
}

/// How a command fitted into a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// All of it.
    Whole,
    /// A part; the rest goes into the next batches: append the same command again there.
    Part,
    /// Nothing: the batch is full.
    Full,
}

/// Collects the answers that applying a value gives.
#[derive(Debug, Default)]
pub struct Answers {
    list: Vec<(Origin, Sequence, usize)>,
    bytes: Vec<u8>,
}

impl Answers {
    /// The answer to the command `sequence` of `origin`.
    pub fn push(&mut self, origin: Origin, sequence: Sequence, reply: &[u8]) {
        self.bytes.extend_from_slice(reply);
        self.list.push((origin, sequence, self.bytes.len()));
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = (Origin, Sequence, &[u8])> {
        let mut start = 0;
        self.list.iter().map(move |&(origin, sequence, end)| {
            let reply = &self.bytes[start..end];
            start = end;
            (origin, sequence, reply)
        })
    }

    /// Forgets them, keeps the buffers.
    pub fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
    }
}

/// One save of the state: the application's own name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Saving(pub u64);

/// A state that is here as a whole is read in pieces of this size.
const RESTORE_BYTES: usize = 64 << 10;

/// The replicated state. Members that apply the same values have the same state.
pub trait Application {
    /// Executes a decided value, as [`Application::append`] made it. A value that does not parse
    /// changes nothing, on any member alike.
    fn apply(&mut self, slot: Slot, value: &[u8], answers: &mut Answers);

    /// The newest stamp that was applied, in milliseconds since 1970; 0 if none was.
    fn state_ms(&self) -> u64;

    /// When the next key expires, likewise.
    fn next_expiry_ms(&self) -> Option<u64>;

    /// The state time that something outside of the state waits for, if it does: a leader stamps a
    /// batch when it has come, though no command asks for it.
    fn awaited_ms(&self) -> Option<u64> {
        None
    }

    /// Performs a read that a [`Door::describe_read`] described, and appends its reply. At the time
    /// `stamp_ms` a key that expires then is gone.
    fn read(&mut self, read: &[u8], stamp_ms: u64, reply: &mut Vec<u8>) -> Performed;

    /// Begins to save all of the replicated state as it is now, in pieces, while commands are
    /// applied. Several may be under way: one for the own disk, and one for each member that lacks
    /// a state.
    fn begin_save(&mut self) -> Saving;

    /// Appends the next piece, of some `n_bytes`, to `out`; false if it was the last. `None` if a
    /// [`Application::end_restore`] has ended it.
    fn save_piece(&mut self, saving: Saving, n_bytes: usize, out: &mut Vec<u8>) -> Option<bool>;

    /// No more pieces of it are wanted.
    fn end_save(&mut self, saving: Saving);

    /// Another member's state is going to come in pieces. What was read of an earlier one that did
    /// not come to its end is forgotten.
    fn begin_restore(&mut self);

    /// Reads the next bytes of it, beside the state that is here, which commands still change and
    /// reads still see. It does a bounded amount of work: true if there is more to do with what it
    /// was given; then call it again, without bytes.
    ///
    /// # Errors
    /// What is wrong with the bytes: nothing of them will be put in place.
    fn restore_piece(&mut self, bytes: &[u8]) -> Result<bool, String>;

    /// All of it was read: it takes the place of the state that is here, and all saves end. It
    /// takes no time to speak of, whatever the states' sizes.
    ///
    /// # Errors
    /// It is not whole; the state is as it was.
    fn end_restore(&mut self) -> Result<(), String>;

    /// It does not come to its end: what was read of it is forgotten, and the state is as it was.
    fn give_up_restore(&mut self);

    /// Replaces the state by a whole one that is here, before any client is served.
    ///
    /// # Errors
    /// What is wrong with the bytes; the state is as it was.
    fn restore(&mut self, state: &[u8]) -> Result<(), String> {
        self.begin_restore();
        for mut piece in state.chunks(RESTORE_BYTES) {
            while self.restore_piece(piece)? {
                piece = &[];
            }
        }
        self.end_restore()
    }

    /// Begins a batch at the end of `out`, stamped with `stamp_ms`.
    fn begin(&mut self, stamp_ms: u64, out: &mut Vec<u8>);

    /// Appends a command to the batch that `out` ends with; `out` may grow to `bytes_max`.
    fn append(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        command: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Appended;

    /// Forgets the part of a command that was appended last: its leader was deposed.
    fn abandon(&mut self);
}

/// One member's clients. A door never sees a peer.
pub trait Door<A> {
    /// A value was applied to `app`.
    fn applied(&mut self, _app: &mut A)
    where
        A: Application,
    {
    }

    /// Performs the read that `asker` waits with on `app`, and whatever else it can read now. At
    /// the time `stamp_ms` a key that expires then is gone.
    fn perform(&mut self, asker: Asker, stamp_ms: u64, app: &mut A, desk: &mut Desk) -> Performed
    where
        A: Application;

    /// Appends the read that `asker` waits with to `out`, for the leader.
    fn describe_read(&mut self, asker: Asker, out: &mut Vec<u8>);

    /// The command that `asker` pushed has ended.
    fn answer(&mut self, asker: Asker, answer: Answer<'_>, desk: &mut Desk);

    /// The read that `asker` waits with has ended without [`Door::perform`].
    fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>, desk: &mut Desk);

    /// `n` members besides the leader hold what `asker` waits for; the wait is over.
    fn answer_wait(&mut self, asker: Asker, n: usize, desk: &mut Desk);

    /// The change that `asker` wants with [`Desk::change`] has ended. For a door that never
    /// wants one, nothing.
    fn answer_change(&mut self, _asker: Asker, _changed: Changed, _desk: &mut Desk) {}

    /// Resumes clients whose earlier requests were answered meanwhile. True if it did anything.
    fn resume(&mut self, app: &mut A, desk: &mut Desk) -> bool;

    /// Sends the replies that were made in this turn.
    fn flush(&mut self, desk: &mut Desk);

    /// When [`Door::resume`] has something to do though nothing happens.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// The member's figures, for operators; now and then, and before each long
    /// sleep.
    fn publish(&mut self, view: &View, stats: &Stats, app: &mut A);
}
