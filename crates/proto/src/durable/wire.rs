//! The messages of leader changes. Entries, commit points and acknowledgements go one-sided.
//!
//! Any message may be lost with its link, or for want of room: a waiting member asks again. As
//! bytes, little endian: channel, kind, six zero bytes; then four words at least.

use crate::codec::{self, Coded, Letter, Malformed, Out, Padded, Reader, Words};
use crate::members::{MEMBERS_BYTES, Members};
use alloc::vec::Vec;
use base::{Ballot, Incarnation, Prefix, Slot};

codec::coded! {
    /// A run of entries that were made under `ballot`, from `first` until the next run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Run in Words {
        pub(super) first: Slot,
        pub(super) ballot: Ballot,
    }
}

/// The largest number of runs that a [`Begin`] carries.
pub(super) const RUNS_MAX: usize = 32;

codec::coded! {
    /// The message by which a leader opens a stream.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(super) struct Begin in Words {
        pub(super) ballot: Ballot,
        /// The ordinal of the stream in this ballot.
        pub(super) stream: u64,
        pub(super) committed: Prefix,
        /// One past the leader's last entry.
        pub(super) end: Prefix,
        /// The last configuration below `committed`, and one past its slot.
        pub(super) members: (Prefix, Members),
        /// The ballots under which the leader's last entries were made.
        pub(super) runs: Vec<Run> as ToTheEnd,
    }
}

codec::coded! {
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(super) enum Message in Letter<6> {
        /// A request for a vote in `ballot`, with the newness of the candidate's log.
        RequestVote { ballot: Ballot, incarnation: Incarnation, last: Ballot, end: Prefix } = 1,
        /// A vote for that candidate, whose promise is on disk.
        Vote { ballot: Ballot, incarnation: Incarnation, candidate: Incarnation as Padded<1> } = 2,
        /// A refusal: `promised` came before, or (`older`) the candidate's log is older than the
        /// voter's.
        Denied { ballot: Ballot, promised: Ballot, older: bool as AnyNumber } = 3,
        /// An announcement of a leader, with the shape of its log.
        Begin(Begin as Words) = 4,
        /// An answer of a follower whose log agrees up to `verified`: the leader writes from there
        /// on.
        Ready { ballot: Ballot, stream: u64, verified: Prefix, incarnation: Incarnation } = 5,
        /// An answer that the sender's log begins only at `start`: the peer needs a state.
        Behind { ballot: Ballot, start: Prefix as Padded<2> } = 6,
        /// A question about a stream that stands still, of which `written` words are written.
        Check { ballot: Ballot, stream: u64, written: u64 as Padded<1> } = 7,
        /// An answer that the follower does not read the stream: the leader must open another.
        Astray { ballot: Ballot, stream: u64 as Padded<2> } = 8,
        /// An answer to a repeated request: the promise is not on disk yet, the vote will follow.
        Promising { ballot: Ballot, candidate: Incarnation as Padded<2> } = 9,
    }
}

/// A flag that any number but 0 sets, and a word that is not looked at.
enum AnyNumber {}

impl Coded<'_, AnyNumber> for bool {
    fn put(&self, out: &mut impl Out) {
        Coded::<Padded<1>>::put(&u64::from(*self), out);
    }

    fn take(from: &mut Reader<'_>) -> Result<bool, Malformed> {
        <u64 as Coded<'_, Padded<1>>>::take(from).map(|number| number != 0)
    }
}

/// A list that ends with the message.
enum ToTheEnd {}

impl Coded<'_, ToTheEnd> for Vec<Run> {
    fn put(&self, out: &mut impl Out) {
        self.iter().for_each(|run| run.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Result<Vec<Run>, Malformed> {
        let mut runs = Vec::new();
        while !from.is_at_end() {
            runs.push(Run::take(from)?);
        }
        if runs.len() > RUNS_MAX { Err(Malformed) } else { Ok(runs) }
    }
}

impl Coded<'_, Words> for Members {
    fn put(&self, out: &mut impl Out) {
        out.extend_from_slice(&self.encode());
    }

    fn take(from: &mut Reader<'_>) -> Result<Members, Malformed> {
        Members::decode(&from.array::<MEMBERS_BYTES>()?).ok_or(Malformed)
    }
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(40);
        self.put(&mut bytes);
        bytes
    }

    /// Decodes a message: the only entry for foreign bytes. Anything else is dropped.
    pub(super) fn decode(bytes: &[u8]) -> Option<Message> {
        codec::decode(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::bytes::{self, Example};
    use alloc::vec;

    #[test]
    fn golden_bytes_of_each_message() {
        let (ballot, incarnation) = (Ballot(1 << 50), Incarnation(7));
        let example = |message: Message| Example::new(&message, message.encode());
        let run = |first, ballot| Run { first: Slot(first), ballot: Ballot(ballot) };
        let begin = Begin {
            ballot,
            stream: 5,
            committed: Prefix(2),
            end: Prefix(12),
            members: (Prefix(1), Members::first(base::MemberSet::all(3))),
            runs: vec![run(0, 1), run(7, 9)],
        };
        let most = Begin { runs: vec![run(7, 9); RUNS_MAX], ..begin.clone() };
        let examples = [
            Message::RequestVote { ballot, incarnation, last: Ballot(3), end: Prefix(9) },
            Message::Vote { ballot, incarnation, candidate: Incarnation(8) },
            Message::Denied { ballot, promised: Ballot(9), older: true },
            Message::Begin(begin.clone()),
            Message::Begin(most),
            Message::Ready { ballot, stream: 5, verified: Prefix(8), incarnation },
            Message::Behind { ballot, start: Prefix(77) },
            Message::Check { ballot, stream: 5, written: 640 },
            Message::Astray { ballot, stream: 5 },
            Message::Promising { ballot, candidate: Incarnation(8) },
        ];
        bytes::check("durable/scripts/bytes.txt", 1, &examples.map(example), &|bytes| {
            Message::decode(bytes).map(example)
        });
        let too_many = Begin { runs: vec![run(7, 9); RUNS_MAX + 1], ..begin };
        assert_eq!(Message::decode(&Message::Begin(too_many).encode()), None);
    }
}
