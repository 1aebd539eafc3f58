//! The replies of all members of a shard to one call, as they come.
//!
//! - R1 *One of each.* Each member that was in the shard where the call was delivered has one
//!   reply, or a reason why it has none; then there is the end. By construction: a member is
//!   heard once, and one that is not in the view is gone. Tested by
//!   `r1_each_member_is_heard_once_and_the_gone_are_said_to_be`.
//! - R2 *The own one first.* Others' replies are held until this process has its own outcome, so
//!   what is refused has no replies, and leases hold for all of them. Tested by the same.

use super::pending::{CallError, Outcome, Reply};
use crate::event::{Member, View};
use proto::vsync::ShardId;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The reason why a member has no reply to a call that others have executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoReply {
    /// The member is no longer in the group.
    #[error("gone before its reply came: it is unknown whether it executed the call")]
    Gone,
    /// The member was given its copy by one that had executed the call.
    #[error("given its copy with the call in it: it has no result of its own")]
    Given,
    /// The member's result does not fit into a letter ([`crate::LETTER_BYTES_MAX`]).
    #[error("executed it, but its result is too long for a letter between two members")]
    TooLong,
    /// The query panicked there. It changed nothing.
    #[error("the query panicked there; it changed nothing: mend the query, or its arguments")]
    Panicked,
    /// The member could not read the call's arguments.
    #[error("not executed: it could not read the call's arguments")]
    Undecodable,
    /// This process cannot read the member's result ([`crate::CallError::ResultUnreadable`]).
    #[error(
        "executed it, but its result cannot be read here: take serde's skip_serializing_if, \
         flatten, untagged and tag off its type"
    )]
    Unreadable,
}

/// What a member says.
pub(super) type Said = Result<Vec<u8>, NoReply>;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Gather {
    me: Member,
    inner: Mutex<Inner>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    /// Whether the own outcome is known.
    is_told: bool,
    /// The reason why there are no replies, or no more.
    failed: Option<CallError>,
    /// The place where the call was delivered, and the members that have to be heard.
    expected: Option<(ShardId, u64, Vec<Member>)>,
    heard: BTreeSet<Member>,
    /// What came and was not taken.
    come: VecDeque<(Member, Said)>,
}

/// The next thing that is known of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// What a member says.
    Said(Member, Said),
    /// The reason why there is no more.
    Failed(CallError),
    /// All members were heard.
    End,
    /// Nothing came. These other members have to be heard, if that is known.
    Nothing(Vec<Member>),
}

impl Gather {
    pub(super) fn new(me: Member) -> Gather {
        Gather { me, inner: Mutex::default(), news: Condvar::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the call is delivered here: in which shard and view, and the members from which
    /// there are to be replies.
    pub(super) fn expect(&self, shard: ShardId, view: u64, members: Vec<Member>) {
        self.inner().expected = Some((shard, view, members));
    }

    /// The shard and the view in which the call was delivered.
    pub(super) fn place(&self) -> Option<(ShardId, u64)> {
        self.inner().expected.as_ref().map(|(shard, view, _)| (*shard, *view))
    }

    /// Takes the own outcome.
    pub(super) fn tell(&self, outcome: Outcome) {
        let mut inner = self.inner();
        let said = match outcome {
            Ok(Reply { bytes, .. }) => Ok(Ok(bytes)),
            Err(CallError::QueryPanicked) => Ok(Err(NoReply::Panicked)),
            Err(error) => Err(error),
        };
        match said {
            Ok(said) => {
                inner.is_told = true;
                if inner.heard.insert(self.me) {
                    inner.come.push_front((self.me, said));
                }
            }
            Err(error) => inner.failed = Some(error),
        }
        drop(inner);
        self.news.notify_all();
    }

    /// Takes what a member says.
    pub(super) fn hear(&self, member: Member, said: Said) {
        let mut inner = self.inner();
        if inner.heard.insert(member) {
            inner.come.push_back((member, said));
        }
        drop(inner);
        self.news.notify_all();
    }

    /// Takes it that members which are not in `view` are gone.
    pub(super) fn keep(&self, view: &View) {
        let mut inner = self.inner();
        let gone = inner.missing(|member| !view.members.contains(member));
        for member in gone {
            inner.heard.insert(member);
            inner.come.push_back((member, Err(NoReply::Gone)));
        }
        drop(inner);
        self.news.notify_all();
    }

    /// The other members that have to be heard, once that is known.
    pub(super) fn missing(&self) -> Vec<Member> {
        let inner = self.inner();
        if inner.is_told { inner.missing(|member| *member != self.me) } else { Vec::new() }
    }

    /// The next thing, after a wait until `by` at most.
    pub(super) fn take(&self, by: Instant) -> Next {
        let mut inner = self.inner();
        loop {
            if let Some(next) = inner.next() {
                return next;
            }
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(inner);
                return Next::Nothing(self.missing());
            }
            let waited = self.news.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Inner {
    fn missing(&self, is_meant: impl Fn(&Member) -> bool) -> Vec<Member> {
        let expected = self.expected.iter().flat_map(|(_, _, members)| members).copied();
        expected.filter(|member| !self.heard.contains(member) && is_meant(member)).collect()
    }

    fn next(&mut self) -> Option<Next> {
        // R2
        if self.is_told
            && let Some((member, said)) = self.come.pop_front()
        {
            return Some(Next::Said(member, said));
        }
        if self.is_told && self.missing(|_| true).is_empty() {
            return Some(Next::End);
        }
        self.failed.clone().map(Next::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Ended;
    use crate::time::Time;

    fn member(seat: usize) -> Member {
        Member { seat, incarnation: 7, metadata: [0; 2] }
    }

    fn view(seats: &[usize]) -> View {
        let members = seats.iter().map(|seat| member(*seat)).collect();
        let (joined, left, failed, shards) = (vec![], vec![], vec![], vec![]);
        View { number: 2, members, joined, left, failed, tolerates: 0, shards }
    }

    #[test]
    fn r1_each_member_is_heard_once_and_the_gone_are_said_to_be() {
        let gather = Gather::new(member(2));
        let take = || gather.take(Instant::now());
        gather.hear(member(1), Ok(vec![1]));
        gather.keep(&view(&[2, 3, 4]));
        assert_eq!(take(), Next::Nothing(vec![]), "R2: the own outcome is not known");
        gather.expect(ShardId::default(), 1, [1, 2, 3, 4].map(member).to_vec());
        assert_eq!(take(), Next::Nothing(vec![]));
        gather.tell(Ok(Reply { bytes: vec![2], time: Time::default() }));
        gather.hear(member(1), Ok(vec![9]));
        assert_eq!(take(), Next::Said(member(2), Ok(vec![2])), "R2: the own one first");
        assert_eq!(take(), Next::Said(member(1), Ok(vec![1])), "it had replied before it was gone");
        assert_eq!(take(), Next::Nothing(vec![member(3), member(4)]));
        gather.keep(&view(&[2, 3]));
        assert_eq!(take(), Next::Said(member(4), Err(NoReply::Gone)));
        gather.hear(member(4), Ok(vec![4]));
        gather.hear(member(3), Err(NoReply::Given));
        assert_eq!(take(), Next::Said(member(3), Err(NoReply::Given)));
        assert_eq!((take(), take()), (Next::End, Next::End));
    }

    #[test]
    fn r1_replies_that_have_all_come_are_the_end_though_the_process_has_left() {
        let gather = Gather::new(member(2));
        gather.expect(ShardId::default(), 1, [1, 2].map(member).to_vec());
        gather.tell(Ok(Reply { bytes: vec![2], time: Time::default() }));
        assert_eq!(gather.take(Instant::now()), Next::Said(member(2), Ok(vec![2])));
        let unknown = CallError::Unknown(Ended::Left);
        let late = Gather::new(member(2));
        late.expect(ShardId::default(), 1, [1, 2].map(member).to_vec());
        late.tell(Ok(Reply { bytes: vec![2], time: Time::default() }));
        gather.hear(member(1), Ok(vec![1]));
        [&gather, &late].into_iter().for_each(|one| one.tell(Err(unknown.clone())));
        assert_eq!(gather.take(Instant::now()), Next::Said(member(1), Ok(vec![1])));
        assert_eq!(gather.take(Instant::now()), Next::End);
        assert_eq!(late.take(Instant::now()), Next::Said(member(2), Ok(vec![2])));
        assert_eq!(late.take(Instant::now()), Next::Failed(unknown), "1 is not heard");
    }

    #[test]
    fn a_query_that_panics_here_is_this_member_s_reply() {
        let gather = Gather::new(member(2));
        gather.expect(ShardId::default(), 1, [1, 2].map(member).to_vec());
        gather.tell(Err(CallError::QueryPanicked));
        let panicked = |seat| Next::Said(member(seat), Err(NoReply::Panicked));
        assert_eq!(gather.take(Instant::now()), panicked(2));
        gather.hear(member(1), Err(NoReply::Panicked));
        assert_eq!(gather.take(Instant::now()), panicked(1));
        assert_eq!(gather.take(Instant::now()), Next::End);
    }

    #[test]
    fn r2_what_is_not_executed_has_no_replies() {
        let gather = Gather::new(member(2));
        let error = CallError::NotExecuted(Ended::Left.into());
        gather.tell(Err(error.clone()));
        assert_eq!(gather.take(Instant::now()), Next::Failed(error));
    }
}
