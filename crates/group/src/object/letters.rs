//! What one member asks another one for, and its answers, as letters.
//!
//! ```text
//! letter = kind (1) | ticket (8) | time (8) | subgroup, shard, method (2 each), if it asks
//!        | incarnation of the receiver (8), if it is a p2p call; a view (8), if it asks again
//!        | number (8), open ones (1), if it is one of them
//!        | body
//! ```

use super::done::Once;
use super::gather::NoReply;
use super::pending::{CallError, Outcome, Reply};
use crate::time::Time;
use proto::vsync::ShardId;

/// A letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Letter<'a> {
    /// A query, of the receiver's copy of a shard, once that is final up to a time; zero for now.
    Ask { ticket: u64, then: Time, shard: ShardId, method: u16, arguments: &'a [u8] },
    /// A call that the receiver is to multicast in a shard, later than what the caller knows of. It
    /// is sent once.
    Order { ticket: u64, after: Time, shard: ShardId, method: u16, arguments: &'a [u8] },
    /// A p2p call, which the process `to` executes once, however often it is asked.
    P2p {
        ticket: u64,
        after: Time,
        shard: ShardId,
        method: u16,
        to: u64,
        once: Once,
        arguments: &'a [u8],
    },
    /// A question for the reply to a call that each member executes: it has not come.
    Again(Again),
    /// The outcome: the result's bytes, or none; and the latest time that led to it.
    Answer { ticket: u64, time: Time, result: Result<&'a [u8], NoAnswer> },
}

/// A call to which a member's reply has not come: its ticket, where it was delivered, its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Again {
    pub(super) ticket: u64,
    pub(super) shard: ShardId,
    pub(super) view: u64,
    pub(super) once: Once,
}

/// The reason why a member that was asked has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The arguments cannot be read there.
    Undecodable,
    /// The result is too long.
    TooLong,
    /// The member is not in the shard, or takes no call now: nothing was executed.
    Declined,
    /// The member has not executed the call: its copy was given to it with the call in it.
    Given,
    /// The query panicked.
    Panicked,
}

impl From<NoAnswer> for NoReply {
    fn from(why: NoAnswer) -> NoReply {
        match why {
            NoAnswer::Undecodable => NoReply::Undecodable,
            NoAnswer::TooLong => NoReply::TooLong,
            NoAnswer::Panicked => NoReply::Panicked,
            // (What is multicast is not declined.)
            NoAnswer::Given | NoAnswer::Declined => NoReply::Given,
        }
    }
}

const ASK: u8 = 0;
const ANSWER: u8 = 1;
const UNDECODABLE: u8 = 2;
const TOO_LONG: u8 = 3;
const DECLINED: u8 = 4;
const ORDER: u8 = 5;
const P2P: u8 = 6;
const GIVEN: u8 = 7;
const AGAIN: u8 = 8;
const PANICKED: u8 = 9;

impl<'a> Letter<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, ticket, time, bytes) = match *self {
            Letter::Ask { ticket, then, arguments, .. } => (ASK, ticket, then, arguments),
            Letter::Order { ticket, after, arguments, .. } => (ORDER, ticket, after, arguments),
            Letter::P2p { ticket, after, arguments, .. } => (P2P, ticket, after, arguments),
            Letter::Again(Again { ticket, .. }) => (AGAIN, ticket, Time::default(), &[][..]),
            Letter::Answer { ticket, time, result } => {
                let (kind, result) = match result {
                    Ok(result) => (ANSWER, result),
                    Err(NoAnswer::Undecodable) => (UNDECODABLE, &[][..]),
                    Err(NoAnswer::TooLong) => (TOO_LONG, &[][..]),
                    Err(NoAnswer::Declined) => (DECLINED, &[][..]),
                    Err(NoAnswer::Given) => (GIVEN, &[][..]),
                    Err(NoAnswer::Panicked) => (PANICKED, &[][..]),
                };
                (kind, ticket, time, result)
            }
        };
        let mut out = vec![kind];
        out.extend(ticket.to_le_bytes());
        out.extend(time.as_nanos().to_le_bytes());
        if let Letter::Ask { shard, method, .. }
        | Letter::Order { shard, method, .. }
        | Letter::P2p { shard, method, .. } = self
        {
            out.extend([shard.subgroup, shard.shard, *method].map(u16::to_le_bytes).concat());
        }
        if let Letter::P2p { to, once, .. } = self {
            out.extend(to.to_le_bytes());
            out.extend(once.encode());
        }
        if let Letter::Again(Again { shard, view, once, .. }) = self {
            out.extend([shard.subgroup, shard.shard].map(u16::to_le_bytes).concat());
            out.extend(view.to_le_bytes());
            out.extend(once.encode());
        }
        out.extend(bytes);
        out
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Option<Letter<'a>> {
        let (kind, rest) = bytes.split_first()?;
        let (ticket, rest) = rest.split_first_chunk()?;
        let (time, rest) = rest.split_first_chunk()?;
        let ticket = u64::from_le_bytes(*ticket);
        let time = Time::from_nanos(u64::from_le_bytes(*time));
        let answer = |result| Some(Letter::Answer { ticket, time, result });
        match *kind {
            ASK | ORDER | P2P => {
                let (head, arguments) = rest.split_first_chunk::<6>()?;
                let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
                let (shard, method) = (ShardId { subgroup: word(0), shard: word(2) }, word(4));
                if *kind == ASK {
                    return Some(Letter::Ask { ticket, then: time, shard, method, arguments });
                }
                let after = time;
                if *kind == ORDER {
                    return Some(Letter::Order { ticket, after, shard, method, arguments });
                }
                let (to, rest) = arguments.split_first_chunk()?;
                let (to, (once, arguments)) = (u64::from_le_bytes(*to), Once::decode(rest)?);
                Some(Letter::P2p { ticket, after, shard, method, to, once, arguments })
            }
            AGAIN => {
                let (head, rest) = rest.split_first_chunk::<4>()?;
                let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
                let (view, rest) = rest.split_first_chunk()?;
                let (shard, view) =
                    (ShardId { subgroup: word(0), shard: word(2) }, u64::from_le_bytes(*view));
                let (once, _) = Once::decode(rest)?;
                Some(Letter::Again(Again { ticket, shard, view, once }))
            }
            ANSWER => answer(Ok(rest)),
            UNDECODABLE => answer(Err(NoAnswer::Undecodable)),
            TOO_LONG => answer(Err(NoAnswer::TooLong)),
            DECLINED => answer(Err(NoAnswer::Declined)),
            GIVEN => answer(Err(NoAnswer::Given)),
            PANICKED => answer(Err(NoAnswer::Panicked)),
            _ => None,
        }
    }
}

/// What the caller is told.
pub(super) fn outcome(seat: usize, time: Time, result: Result<&[u8], NoAnswer>) -> Outcome {
    match result {
        Ok(bytes) => Ok(Reply { bytes: bytes.to_vec(), time }),
        Err(NoAnswer::Undecodable) => Err(CallError::Undecodable),
        Err(NoAnswer::TooLong) => Err(CallError::ResultTooLong),
        Err(NoAnswer::Panicked) => Err(CallError::QueryPanicked),
        Err(NoAnswer::Declined | NoAnswer::Given) => Err(CallError::Declined(seat)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_back_and_cut_ones_do_not() {
        let shard = ShardId { subgroup: 2, shard: 300 };
        let time = Time::from_nanos(11);
        let once = Once { number: 1 << 40, n_open: 3 };
        let (after, arguments) = (time, &b"abc"[..]);
        for letter in [
            Letter::P2p { ticket: 7, after, shard, method: 3, to: 9, once, arguments },
            Letter::Ask { ticket: 7, then: time, shard, method: 3, arguments: b"abc" },
            Letter::Order { ticket: 7, after: time, shard, method: 3, arguments: b"" },
            Letter::Answer { ticket: 9, time, result: Ok(b"") },
            Letter::Answer { ticket: 9, time, result: Err(NoAnswer::Undecodable) },
            Letter::Answer { ticket: 9, time, result: Err(NoAnswer::TooLong) },
            Letter::Answer { ticket: 9, time, result: Err(NoAnswer::Declined) },
            Letter::Answer { ticket: 9, time, result: Err(NoAnswer::Given) },
            Letter::Answer { ticket: 9, time, result: Err(NoAnswer::Panicked) },
            Letter::Again(Again { ticket: 9, shard, view: 1 << 33, once }),
        ] {
            let bytes = letter.encode();
            assert_eq!(Letter::decode(&bytes), Some(letter));
            assert_eq!(Letter::decode(&bytes[..16]), None);
        }
        assert_eq!(Letter::decode(&[10; 20]), None);
    }
}
