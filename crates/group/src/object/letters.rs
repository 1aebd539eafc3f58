//! Questions to one member, and its answers, as letters.

use super::pending::{CallError, Outcome};

/// A letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Letter<'a> {
    /// A query.
    Ask { ticket: u64, method: u16, arguments: &'a [u8] },
    /// Its outcome: the result's bytes, or none, as the arguments cannot be read there or the
    /// result is too long.
    Answer { ticket: u64, result: Result<&'a [u8], NoAnswer> },
}

/// The reason why a member that was asked has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    Undecodable,
    TooLong,
}

const ASK: u8 = 0;
const ANSWER: u8 = 1;
const UNDECODABLE: u8 = 2;
const TOO_LONG: u8 = 3;

impl<'a> Letter<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, ticket, bytes) = match *self {
            Letter::Ask { ticket, arguments, .. } => (ASK, ticket, arguments),
            Letter::Answer { ticket, result: Ok(result) } => (ANSWER, ticket, result),
            Letter::Answer { ticket, result: Err(NoAnswer::Undecodable) } => {
                (UNDECODABLE, ticket, &[][..])
            }
            Letter::Answer { ticket, result: Err(NoAnswer::TooLong) } => {
                (TOO_LONG, ticket, &[][..])
            }
        };
        let mut out = vec![kind];
        out.extend(ticket.to_le_bytes());
        if let Letter::Ask { method, .. } = self {
            out.extend(method.to_le_bytes());
        }
        out.extend(bytes);
        out
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Option<Letter<'a>> {
        let (kind, rest) = bytes.split_first()?;
        let (ticket, rest) = rest.split_first_chunk()?;
        let ticket = u64::from_le_bytes(*ticket);
        Some(match *kind {
            ASK => {
                let (method, arguments) = rest.split_first_chunk()?;
                Letter::Ask { ticket, method: u16::from_le_bytes(*method), arguments }
            }
            ANSWER => Letter::Answer { ticket, result: Ok(rest) },
            UNDECODABLE => Letter::Answer { ticket, result: Err(NoAnswer::Undecodable) },
            TOO_LONG => Letter::Answer { ticket, result: Err(NoAnswer::TooLong) },
            _ => return None,
        })
    }
}

/// What the caller is told.
pub(super) fn outcome(result: Result<&[u8], NoAnswer>) -> Outcome {
    match result {
        Ok(bytes) => Ok(bytes.to_vec()),
        Err(NoAnswer::Undecodable) => Err(CallError::Undecodable),
        Err(NoAnswer::TooLong) => Err(CallError::ResultTooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_back_and_cut_ones_do_not() {
        for letter in [
            Letter::Ask { ticket: 7, method: 3, arguments: b"abc" },
            Letter::Answer { ticket: 9, result: Ok(b"") },
            Letter::Answer { ticket: 9, result: Err(NoAnswer::Undecodable) },
            Letter::Answer { ticket: 9, result: Err(NoAnswer::TooLong) },
        ] {
            let bytes = letter.encode();
            assert_eq!(Letter::decode(&bytes), Some(letter));
            assert_eq!(Letter::decode(&bytes[..8]), None);
        }
        assert_eq!(Letter::decode(&[9; 20]), None);
    }
}
