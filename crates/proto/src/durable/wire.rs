//! The messages of leader changes. Entries, commit points and acknowledgements go one-sided.
//!
//! Any message may be lost with its link, or for want of room: a waiting member asks again.

use crate::members::{MEMBERS_BYTES, Members};
use crate::{MESSAGE_CHANNEL, le_word};
use alloc::vec::Vec;
use base::{Ballot, Incarnation, Prefix, Slot};

/// A run of entries that were made under `ballot`, from `first` until the next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: Slot,
    pub(super) ballot: Ballot,
}

/// The largest number of runs that a [`Begin`] carries.
pub(super) const RUNS_MAX: usize = 32;

/// The message by which a leader opens a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Begin {
    pub(super) ballot: Ballot,
    /// The ordinal of the stream in this ballot.
    pub(super) stream: u64,
    pub(super) committed: Prefix,
    /// One past the leader's last entry.
    pub(super) end: Prefix,
    /// The last configuration below `committed`, and one past its slot.
    pub(super) members: (Prefix, Members),
    /// The ballots under which the leader's last entries were made.
    pub(super) runs: Vec<Run>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A request for a vote in `ballot`, with the newness of the candidate's log.
    RequestVote { ballot: Ballot, incarnation: Incarnation, last: Ballot, end: Prefix },
    /// A vote for that candidate, whose promise is on disk.
    Vote { ballot: Ballot, incarnation: Incarnation, candidate: Incarnation },
    /// A refusal: `promised` came before, or (`older`) the candidate's log is older than the
    /// voter's.
    Denied { ballot: Ballot, promised: Ballot, older: bool },
    /// An announcement of a leader, with the shape of its log.
    Begin(Begin),
    /// An answer of a follower whose log agrees up to `verified`: the leader writes from there on.
    Ready { ballot: Ballot, stream: u64, verified: Prefix, incarnation: Incarnation },
    /// An answer that the sender's log begins only at `start`: the peer needs a state.
    Behind { ballot: Ballot, start: Prefix },
    /// A question about a stream that stands still, of which `written` words are written.
    Check { ballot: Ballot, stream: u64, written: u64 },
    /// An answer that the follower does not read the stream: the leader must open another.
    Astray { ballot: Ballot, stream: u64 },
}

/// A reader of words from the front.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_at_checked(8)?;
        self.0 = rest;
        Some(le_word(first))
    }
}

impl Message {
    /// The bytes, little endian: channel, kind, six zero bytes; then words.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, words): (u8, [u64; 4]) = match self {
            Message::RequestVote { ballot, incarnation, last, end } => {
                (1, [ballot.0, incarnation.0, last.0, end.0])
            }
            Message::Vote { ballot, incarnation, candidate } => {
                (2, [ballot.0, incarnation.0, candidate.0, 0])
            }
            Message::Denied { ballot, promised, older } => {
                (3, [ballot.0, promised.0, u64::from(*older), 0])
            }
            Message::Begin(begin) => {
                (4, [begin.ballot.0, begin.stream, begin.committed.0, begin.end.0])
            }
            Message::Ready { ballot, stream, verified, incarnation } => {
                (5, [ballot.0, *stream, verified.0, incarnation.0])
            }
            Message::Behind { ballot, start } => (6, [ballot.0, start.0, 0, 0]),
            Message::Check { ballot, stream, written } => (7, [ballot.0, *stream, *written, 0]),
            Message::Astray { ballot, stream } => (8, [ballot.0, *stream, 0, 0]),
        };
        let mut bytes = Vec::with_capacity(40);
        bytes.extend_from_slice(&[MESSAGE_CHANNEL, kind, 0, 0, 0, 0, 0, 0]);
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        if let Message::Begin(begin) = self {
            bytes.extend_from_slice(&begin.members.0.0.to_le_bytes());
            bytes.extend_from_slice(&begin.members.1.encode());
            for run in &begin.runs {
                bytes.extend_from_slice(&run.first.0.to_le_bytes());
                bytes.extend_from_slice(&run.ballot.0.to_le_bytes());
            }
        }
        bytes
    }

    /// Decodes a message: the only entry for foreign bytes. Anything else is dropped.
    pub(super) fn decode(bytes: &[u8]) -> Option<Message> {
        let (head, rest) = bytes.split_at_checked(8)?;
        if head[0] != MESSAGE_CHANNEL {
            return None;
        }
        let mut words = Words(rest);
        let ballot = Ballot(words.next()?);
        let (a, b, c) = (words.next()?, words.next()?, words.next()?);
        let message = match head[1] {
            1 => Message::RequestVote {
                ballot,
                incarnation: Incarnation(a),
                last: Ballot(b),
                end: Prefix(c),
            },
            2 => Message::Vote { ballot, incarnation: Incarnation(a), candidate: Incarnation(b) },
            3 => Message::Denied { ballot, promised: Ballot(a), older: b != 0 },
            4 => {
                let at = Prefix(words.next()?);
                let (members, rest) = words.0.split_at_checked(MEMBERS_BYTES)?;
                let members = (at, Members::decode(members)?);
                words.0 = rest;
                let mut runs = Vec::new();
                while !words.0.is_empty() {
                    let first = Slot(words.next()?);
                    runs.push(Run { first, ballot: Ballot(words.next()?) });
                }
                if runs.len() > RUNS_MAX {
                    return None;
                }
                let (stream, committed, end) = (a, Prefix(b), Prefix(c));
                Message::Begin(Begin { ballot, stream, committed, end, members, runs })
            }
            5 => Message::Ready {
                ballot,
                stream: a,
                verified: Prefix(b),
                incarnation: Incarnation(c),
            },
            6 => Message::Behind { ballot, start: Prefix(a) },
            7 => Message::Check { ballot, stream: a, written: b },
            8 => Message::Astray { ballot, stream: a },
            _ => return None,
        };
        words.0.is_empty().then_some(message)
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
        ];
        bytes::check("durable/scripts/bytes.txt", 1, &examples.map(example), &|bytes| {
            Message::decode(bytes).map(example)
        });
        let too_many = Begin { runs: vec![run(7, 9); RUNS_MAX + 1], ..begin };
        assert_eq!(Message::decode(&Message::Begin(too_many).encode()), None);
    }
}
