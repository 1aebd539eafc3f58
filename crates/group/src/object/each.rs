//! Calls to which each member of the shard replies (`gather`): one multicast, and a letter from
//! each other member, kept until the caller has read it (`done`).

use super::calls::told;
use super::codec::{decode, encode, encode_each_bytes};
use super::copy::Part;
use super::done::{Kind, Known, Once};
use super::gather::{Gather, Next, NoReply};
use super::handler::{check_turn, is_in_handler};
use super::host::{BODY_BYTES_MAX, Host};
use super::letters::{Again, Letter, NoAnswer};
use super::pending::{ASK_EVERY, CallError, Outcome};
use super::replica::Replica;
use super::replicated::Replicated;
use crate::deadline::deadline;
use crate::error::Refused;
use crate::event::Member;
use proto::vsync::ShardId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The most callers that wait for this process to catch up; others ask again.
const AGAIN_MAX: usize = 256;

/// What a member replies: its result, or the reason why it has no result.
pub type MemberReply<R> = (Member, Result<R, NoReply>);

/// The replies of each member of a shard to a call that was made. Dropping it does not take the
/// call back.
///
/// What comes is kept until it is read to the end, or this is dropped. At most 31 such calls of a
/// process follow one that was not: a further one waits, and is refused ([`Refused::Unread`]).
#[must_use = "the call is made; read its replies, or drop them"]
pub struct Replies<R> {
    gather: Arc<Gather>,
    call: Option<Made>,
    /// The time for which `wait` waits.
    patience: Duration,
    result: PhantomData<fn() -> R>,
}

/// A call that was made.
struct Made {
    host: Weak<Host>,
    ticket: u64,
    once: Once,
}

impl<R: DeserializeOwned> Replies<R> {
    /// Waits for the next reply, as long as [`crate::Options::patience`]: this member's own result
    /// first, and then those of the others as they come, or the reason why a member has none.
    /// `None` when there was one of each member that was in the shard as the call was executed.
    ///
    /// # Errors
    /// [`CallError`]: the call was not executed; or it is unknown what the others reply, since this
    /// process is no longer in the group; or nothing has come in time: wait again.
    pub fn wait(&mut self) -> Result<Option<MemberReply<R>>, CallError> {
        self.wait_for(self.patience)
    }

    /// The same, for as long as `span`.
    ///
    /// # Errors
    /// As for [`Replies::wait`].
    pub fn wait_for(&mut self, span: Duration) -> Result<Option<MemberReply<R>>, CallError> {
        // O3: what is there already needs no wait.
        let by = deadline(if is_in_handler() { Duration::ZERO } else { span });
        loop {
            match self.gather.take(by.min(Instant::now() + ASK_EVERY)) {
                Next::Said(member, said) => {
                    let result = |bytes: Vec<u8>| decode(&bytes).map_err(|_| NoReply::Unreadable);
                    return Ok(Some((member, said.and_then(result))));
                }
                Next::Failed(error) => {
                    self.close();
                    return Err(error);
                }
                Next::End => {
                    self.close();
                    return Ok(None);
                }
                Next::Nothing(_) if is_in_handler() => return Err(CallError::InHandler),
                Next::Nothing(_) if Instant::now() >= by => return Err(CallError::Late(span)),
                Next::Nothing(missing) => self.ask_again(&missing),
            }
        }
    }

    /// Waits for all replies, as long as [`crate::Options::patience`].
    ///
    /// # Errors
    /// As for [`Replies::wait`].
    pub fn all(mut self) -> Result<Vec<MemberReply<R>>, CallError> {
        let (by, mut all) = (deadline(self.patience), Vec::new());
        loop {
            match self.wait_for(by.saturating_duration_since(Instant::now())) {
                Ok(Some(reply)) => all.push(reply),
                Ok(None) => return Ok(all),
                Err(CallError::Late(_)) => return Err(CallError::Late(self.patience)),
                Err(error) => return Err(error),
            }
        }
    }
}

impl<R> Replies<R> {
    fn ask_again(&self, members: &[Member]) {
        let Some(Made { host, ticket, once }) = &self.call else { return };
        let Some((host, (shard, view))) =
            host.upgrade().and_then(|host| Some((Arc::clone(&host), self.gather.place()?)))
        else {
            return;
        };
        let letter = Letter::Again(Again { ticket: *ticket, shard, view, once: *once }).encode();
        for member in members {
            let _lost = host.group.tell(member.seat, &letter);
        }
    }

    /// Asks again for what is missing.
    pub(super) fn ask_for_missing(&self) {
        self.ask_again(&self.gather.missing());
    }

    /// Takes it that no more is read.
    fn close(&mut self) {
        if let Some(Made { host, ticket, once }) = self.call.take()
            && let Some(host) = host.upgrade()
        {
            host.calls.close_each(ticket, once);
        }
    }
}

impl<R> Drop for Replies<R> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<R> fmt::Debug for Replies<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replies").field("gather", &self.gather).finish_non_exhaustive()
    }
}

impl<S: Replicated> Replica<S> {
    /// Calls the method with this number, to which each member of the shard replies:
    /// `#[replicated]` makes the code that does.
    #[doc(hidden)]
    pub fn call_each<R>(&self, method: u16, arguments: &impl Serialize) -> Replies<R> {
        let gather = Arc::new(Gather::new(self.me()));
        let called = self.multicast_each(&gather, method, &encode(arguments));
        let call = called.map_err(|error| gather.tell(Err(error))).ok();
        Replies { gather, call, patience: self.patience(), result: PhantomData }
    }

    fn multicast_each(
        &self,
        gather: &Arc<Gather>,
        method: u16,
        arguments: &[u8],
    ) -> Result<Made, CallError> {
        check_turn()?;
        let (host, own) = (self.host(), self.copy.shard());
        let shard = self.shard.or(own).ok_or(CallError::NoCopy)?;
        let shard = ShardId { subgroup: self.subgroup, shard };
        if own != Some(shard.shard) {
            return Err(host.other_shard(shard).into());
        }
        if !host.sends_in(self.subgroup) {
            return Err(host.not_sender(shard).into());
        }
        let (ticket, by) = (host.calls.ticket(), deadline(host.send_patience()));
        let entered = host.calls.enter_each(ticket, gather, by);
        let once = entered.map_err(|ended| CallError::NotExecuted(ended.into()))?;
        let once = once.ok_or(Refused::Unread)?;
        let message = encode_each_bytes(ticket, method, once, arguments);
        host.multicast_bytes(shard, ticket, &message, by.saturating_duration_since(Instant::now()));
        Ok(Made { host: Arc::downgrade(host), ticket, once })
    }
}

impl Host {
    /// Replies to the caller of a call to which each member does.
    pub(super) fn reply(&self, caller: Member, ticket: u64, once: Once, outcome: &Outcome) {
        // A log that is read again has calls of processes that are gone.
        let is_there = self.view().members.contains(&caller);
        if is_there && self.done.look(caller, Kind::Each, once) == Known::New {
            let (time, result) = told(outcome, self.latest(), BODY_BYTES_MAX);
            let letter = Letter::Answer { ticket, time, result }.encode();
            self.tell_reply(caller, once.number, letter);
        }
    }

    fn tell_reply(&self, caller: Member, number: u64, letter: Vec<u8>) {
        self.done.keep(caller, Kind::Each, number, letter.clone());
        self.tell_back(caller, letter);
    }

    /// Tells a caller again what this member has replied. If there is nothing, everything has to
    /// be executed first that was received: the caller has delivered the call.
    pub(super) fn reply_again(&self, caller: Member, again: Again) {
        match self.done.look(caller, Kind::Each, again.once) {
            Known::Told(letter) => self.tell_back(caller, letter),
            Known::Past => {}
            Known::New => {
                let view = self.view();
                let own = view.shard_of(again.shard.subgroup, self.group.me().seat);
                let (is_in, is_behind) =
                    (own.is_some_and(|own| own.id == again.shard), view.number < again.view);
                drop(view);
                if is_in {
                    self.begin_to_catch_up(caller, again);
                } else if !is_behind {
                    self.reply_given(caller, again);
                }
            }
        }
    }

    fn begin_to_catch_up(&self, caller: Member, again: Again) {
        let token = self.calls.ticket();
        let mut asked = self.again();
        if asked.len() >= AGAIN_MAX {
            return;
        }
        asked.insert(token, (caller, again));
        drop(asked);
        // Without room it is asked again.
        if self.group.catch_up(again.shard.subgroup, token).is_err() {
            self.again().remove(&token);
        }
    }

    /// Everything is executed that was received when a caller had asked for a reply.
    pub(super) fn caught_up(&self, token: u64) {
        let asked = self.again().remove(&token);
        if let Some((caller, again)) = asked {
            self.reply_given(caller, again);
        }
    }

    /// Tells a caller that this member has not executed its call, if that is so: a copy was given
    /// to it that has it.
    fn reply_given(&self, caller: Member, again: Again) {
        if self.done.look(caller, Kind::Each, again.once) == Known::New {
            let (ticket, time, result) = (again.ticket, self.latest(), Err(NoAnswer::Given));
            let letter = Letter::Answer { ticket, time, result }.encode();
            self.tell_reply(caller, again.once.number, letter);
        }
    }
}
