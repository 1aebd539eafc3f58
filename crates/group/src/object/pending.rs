//! A call that was made, and its outcome.

use super::codec::decode;
use super::handler::is_in_handler;
use crate::deadline::deadline;
use crate::error::Refused;
use crate::event::Ended;
use crate::time::Time;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The reason why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// Nothing of the call left this process: no member executes it.
    #[error("not executed: {0}")]
    NotExecuted(#[from] Refused),
    /// This process is no longer in the group. The other members may have executed the call, or do
    /// so yet, or never.
    #[error("it is unknown whether the call was executed: {0}")]
    Unknown(Ended),
    /// The call has no outcome yet: it may be executed at any time. Wait again.
    #[error("no outcome within {0:?}: the call may be executed yet")]
    Late(Duration),
    /// A method of the object, or a look at it, would wait for what waits for it. Nothing happened.
    #[error(
        "a method of a replicated object, or a look at it, cannot wait for a call, or ask the \
         object: make the call, and go on"
    )]
    InHandler,
    /// The member that was asked is not in the group, or is gone before it answered a query, which
    /// changes nothing: ask another one.
    #[error("seat {0} is not in the group: ask another member")]
    Gone(usize),
    /// The member that was to make the call, or to execute a p2p call, is no longer in the group.
    /// It may have been executed; a call that was to be made may be yet.
    #[error("it is unknown whether the call was executed: seat {0}, which was to make it, is gone")]
    Lost(usize),
    /// The member that was asked is not in the shard, or has no room for the call. It was not
    /// executed.
    #[error("not executed: seat {0} is not in the shard, or has no room; try again")]
    Declined(usize),
    /// This process has had no lease for so long, or its group gives none
    /// ([`crate::Options::lease`]). Ask at a place of the order.
    #[error("no lease within {0:?}: ask at a place of the order")]
    NoLease(Duration),
    /// This process has no copy: it is not in the shard, or in none.
    #[error("no copy of the object here: this process is not in the shard; ask a member that is")]
    NoCopy,
    /// A query ahead came upon a call that is not delivered yet, and panics when it is executed.
    #[error("a call of `{method}` that is not delivered yet panics when it is executed")]
    PanicsAhead {
        /// The method.
        method: &'static str,
    },
    /// The query panicked. It changed nothing, and harmed no copy.
    #[error("the query panicked; it changed nothing: mend the query, or its arguments")]
    QueryPanicked,
    /// A call was executed, or a query answered, by another member, and the result does not fit
    /// into a letter ([`crate::LETTER_BYTES_MAX`]).
    #[error("executed, but its result is too long for a letter between two members")]
    ResultTooLong,
    /// The members' programs differ though their methods have the same types: they read each
    /// other's bytes otherwise. No member executed the call.
    #[error("not executed: the members could not read the call's arguments")]
    Undecodable,
    /// A call was executed, or a query answered, and this process cannot read the result: its type
    /// does not come back from its bytes (serde's `skip_serializing_if`, `flatten`, `untagged` or
    /// `tag`), or the members' programs differ.
    #[error(
        "executed, but its result cannot be read here: take serde's skip_serializing_if, flatten, \
         untagged and tag off its type"
    )]
    ResultUnreadable,
}

/// The result with these bytes, which were made by the method that was called.
pub(super) fn read<R: DeserializeOwned>(bytes: &[u8]) -> Result<R, CallError> {
    decode(bytes).map_err(|_| CallError::ResultUnreadable)
}

/// The outcome of a call.
pub(super) type Outcome = Result<Reply, CallError>;

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) bytes: Vec<u8>,
    /// The time of the call, or the latest one that the member knew of which answered.
    pub(super) time: Time,
}

/// The place of an outcome.
#[derive(Debug, Default)]
pub(super) struct Slot {
    outcome: Mutex<Option<Outcome>>,
    filled: Condvar,
    question: Option<Question>,
}

/// A letter that asks, which can be lost: a caller that waits sends it again.
pub(super) struct Question(pub(super) Box<dyn Fn(Duration) + Send + Sync>);

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Question")
    }
}

/// The time after which a question is asked again.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(100);

impl Slot {
    /// A place for the answer to a question.
    pub(super) fn of(question: Question) -> Slot {
        Slot { question: Some(question), ..Slot::default() }
    }

    /// Asks the question, as soon as there is room within `patience`.
    pub(super) fn ask(&self, patience: Duration) {
        if let Some(Question(ask)) = &self.question {
            ask(patience);
        }
    }

    pub(super) fn fill(&self, outcome: Outcome) {
        let mut place = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(place.replace(outcome).is_none(), "O2: a call has one outcome");
        drop(place);
        self.filled.notify_all();
    }

    pub(super) fn wait(&self, patience: Duration) -> Option<Outcome> {
        let until = deadline(patience);
        let mut place = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = &*place {
                return Some(outcome.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let span = if self.question.is_some() { left.min(ASK_EVERY) } else { left };
            let waited = self.filled.wait_timeout(place, span);
            let (again, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            place = again;
            if waited.timed_out() && self.question.is_some() && place.is_none() {
                drop(place);
                self.ask(Duration::ZERO);
                place = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// A call that was made. Dropping it does not take the call back.
#[derive(Debug)]
#[must_use = "the call is made; `wait` for its outcome, or `forget` it"]
pub struct Pending<R> {
    pub(super) slot: Arc<Slot>,
    /// The time for which `wait` waits.
    pub(super) patience: Duration,
    pub(super) result: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Pending<R> {
    /// Waits for the outcome, as long as [`crate::Options::patience`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn wait(&self) -> Result<R, CallError> {
        self.wait_for(self.patience)
    }

    /// The same, for as long as `span`.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn wait_for(&self, span: Duration) -> Result<R, CallError> {
        self.wait_timed(span).map(|(result, _)| result)
    }

    /// Waits for the outcome, and the time of an ordered call: of the version that it made, if it
    /// made one. A query in the past as of this time, or a later one, sees the call, in whichever
    /// shard it was.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn wait_timed(&self, span: Duration) -> Result<(R, Time), CallError> {
        // O3: what is there already needs no wait.
        let patience = if is_in_handler() { Duration::ZERO } else { span };
        match self.slot.wait(patience) {
            Some(Ok(Reply { bytes, time })) => read(&bytes).map(|result| (result, time)),
            Some(Err(error)) => Err(error),
            None if is_in_handler() => Err(CallError::InHandler),
            None => Err(CallError::Late(span)),
        }
    }

    /// Leaves the outcome alone.
    pub fn forget(self) {}
}
