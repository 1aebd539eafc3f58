//! Calls of one member, which executes them alone (`done`).

use super::codec::encode;
use super::handler::check_turn;
use super::host::BODY_BYTES_MAX;
use super::letters::Letter;
use super::pending::{ASK_EVERY, CallError, Pending, Question, Slot};
use super::replica::{Replica, too_long};
use super::replicated::Replicated;
use crate::deadline::deadline;
use crate::error::Refused;
use proto::vsync::ShardId;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl<S: Replicated> Replica<S> {
    /// Has the member on `seat` execute the p2p method with this number: `#[replicated]` makes the
    /// code that does.
    #[doc(hidden)]
    pub fn call_at<R>(&self, seat: usize, method: u16, arguments: &impl Serialize) -> Pending<R> {
        self.pending(&self.p2p_bytes(seat, method, &encode(arguments)))
    }

    /// The same with the arguments' bytes.
    pub(super) fn p2p_bytes(&self, seat: usize, method: u16, arguments: &[u8]) -> Arc<Slot> {
        let slot = self.enter_p2p(seat, method, arguments).unwrap_or_else(|error| {
            let slot = Arc::<Slot>::default();
            slot.fill(Err(error));
            slot
        });
        slot.ask(self.host().send_patience());
        slot
    }

    fn enter_p2p(
        &self,
        seat: usize,
        method: u16,
        arguments: &[u8],
    ) -> Result<Arc<Slot>, CallError> {
        check_turn()?;
        if arguments.len() > BODY_BYTES_MAX {
            return Err(too_long(arguments, BODY_BYTES_MAX).into());
        }
        let host = self.host();
        let by = deadline(host.send_patience());
        loop {
            let view = host.view();
            let asked = view.members.iter().copied().find(|member| member.seat == seat);
            let asked = asked.ok_or(CallError::Gone(seat))?;
            let shard = view.shard_of(self.subgroup, seat).map(|shard| shard.id);
            let is_meant = |own: &ShardId| self.shard.is_none_or(|meant| meant == own.shard);
            let shard = shard.filter(is_meant).ok_or(CallError::Declined(seat))?;
            let (ticket, after) = (host.calls.ticket(), host.latest());
            // Under the view's lock: the next view ends it, if the member is not in that.
            let entered = host.calls.enter_p2p(ticket, asked, |once| {
                let to = asked.incarnation;
                let letter = Letter::P2p { ticket, after, shard, method, to, once, arguments };
                Arc::new(Slot::of(Question::of(host, seat, letter.encode())))
            });
            drop(view);
            if let Some(slot) = entered.map_err(|ended| CallError::NotExecuted(ended.into()))? {
                return Ok(slot);
            }
            if !host.calls.wait_p2p(asked, by.min(Instant::now() + ASK_EVERY)) {
                if Instant::now() >= by {
                    return Err(Refused::Open { seat }.into());
                }
                // The first one keeps the others back, and no caller may wait for it.
                let first = host.calls.first_p2p(asked);
                first.inspect(|slot| slot.ask(Duration::ZERO));
            }
        }
    }
}
