//! Queries ahead: answered as if everything were delivered that this process holds (`vsync`, V32).
//! So a query reads pending versions (paper 000, figure 7).
//!
//! ```text
//! executed          | held, not delivered
//! the copy          | a second copy executes it: the answer; then the second copy is gone
//! ```
//! - Q1 *Behind the copy.* The second copy begins as the first one was when it had executed
//!   everything before what is held. By construction: the thread that executes takes the event with
//!   what is held behind all deliveries before it, and copies the object then.
//! - Q2 *Nothing leaves.* A method that is executed ahead calls nothing: neither objects nor
//!   members. Its call is refused ([`Refused::Ahead`]), and so is its question to a member; it
//!   suspects no member, and does not leave. Tested by
//!   `what_is_executed_ahead_calls_nothing_and_is_executed_once`.
//!
//! A query ahead costs a copy of the object, made by the thread that executes; what is held is
//! executed by the thread that asks.

use super::aheads::Ahead;
use super::codec::{Sent, decode, decode_call, encode};
use super::handler::{ahead, is_in_handler};
use super::host::Host;
use super::moment::{Moment, Version};
use super::pending::{CallError, read};
use super::replica::Replica;
use super::replicated::{MethodKind, Replicated};
use crate::deadline::deadline;
use crate::event::Delivered;
use proto::vsync::ShardId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The longest wait for room to ask.
const ASK_EVERY: Duration = Duration::from_millis(1);

impl Host {
    /// Copies what the query with this token is about (Q1).
    pub(super) fn note_ahead(&self, token: u64, messages: Vec<Delivered>) {
        let Some(shard) = self.aheads.shard_of(token) else { return };
        let part = self.part_in(shard).filter(|part| part.is_settled());
        let copied = part.and_then(|part| Some(Ahead::Copied(part.bytes()?, messages)));
        self.aheads.give(token, copied.unwrap_or(Ahead::NoCopy));
        self.announce();
    }

    /// The bytes of the copy of `shard`, with what this process holds behind it.
    fn ahead_of(
        &self,
        shard: ShardId,
        patience: Duration,
    ) -> Result<(Vec<u8>, Vec<Delivered>), CallError> {
        let (by, token) = (deadline(patience), self.calls.ticket());
        let left = || by.saturating_duration_since(Instant::now());
        self.aheads.ask(token, shard);
        while self.group.look_ahead(shard.subgroup, token).is_err() {
            // Others wait; or the process has ended.
            let _waited = self.wait_view(|_| self.calls.check().is_err(), left().min(ASK_EVERY));
            if left().is_zero() || self.calls.check().is_err() {
                break;
            }
        }
        let is_over = |_: &_| self.aheads.is_given(token) || self.calls.check().is_err();
        let _waited = self.wait_view(is_over, left());
        let found = self.aheads.take(token);
        self.calls.check().map_err(CallError::Unknown)?;
        match found {
            Some(Ahead::Copied(state, messages)) => Ok((state, messages)),
            Some(Ahead::NoCopy) => Err(CallError::NoCopy),
            Some(Ahead::Asked(_)) | None => Err(CallError::Late(patience)),
        }
    }
}

impl<S: Replicated> Replica<S> {
    /// Answers the query with this number as it will be when everything is delivered that this
    /// process holds: `#[replicated]` makes the code that calls this.
    #[doc(hidden)]
    pub fn ask_ahead<R: DeserializeOwned>(
        &self,
        method: u16,
        arguments: &impl Serialize,
    ) -> Result<R, CallError> {
        if is_in_handler() {
            return Err(CallError::InHandler);
        }
        let (host, patience) = (self.host(), self.patience());
        host.calls.check().map_err(CallError::Unknown)?;
        let own = self.own_shard_meant().ok_or(CallError::NoCopy)?;
        let (state, messages) = host.ahead_of(own, patience)?;
        let mut second: S = decode(&state).map_err(|_| CallError::Undecodable)?;
        for message in &messages {
            execute_ahead(&mut second, message)?;
        }
        // (A query that panics does so in its caller's thread, as one of the own copy does.)
        let answer = second.answer(method, &encode(arguments));
        let bytes = answer.map_err(|_| CallError::Undecodable)?;
        read(&bytes)
    }
}

/// Executes a message ahead of its turn, if it is an ordered call.
fn execute_ahead<S: Replicated>(second: &mut S, message: &Delivered) -> Result<(), CallError> {
    let Some(Sent { method: number, arguments, .. }) = decode_call(&message.bytes) else {
        return Ok(());
    };
    let method = S::METHODS.get(usize::from(number));
    let Some(method) = method.filter(|method| method.kind == MethodKind::Ordered) else {
        return Ok(());
    };
    let version = Version { view: message.view, sequence: message.sequence };
    let moment = Moment { version, time: message.time };
    let execute = || second.execute(number, arguments);
    match ahead(moment, || catch_unwind(AssertUnwindSafe(execute))) {
        // (What cannot be read is executed by no member.)
        Ok(_result) => Ok(()),
        Err(_panic) => Err(CallError::PanicsAhead { method: method.name }),
    }
}
