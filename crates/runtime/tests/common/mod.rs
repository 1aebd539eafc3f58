//! The format in which the services of these tests write a command into a value: its origin, its
//! number, and its bytes.

use base::{Incarnation, Rank};
use runtime::{Appended, Origin, Sequence};

/// The bytes of a command besides its own content.
pub(crate) const HEAD: usize = 17;

/// The origin and the number of the command with which `frame` begins.
pub(crate) fn head_of(frame: &[u8]) -> (Origin, Sequence) {
    let number = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap());
    let origin = Origin { rank: Rank::at(frame[0].into()), life: Incarnation(number(1)) };
    (origin, Sequence(number(9)))
}

/// Appends a command, if `out` has room for it.
pub(crate) fn append(
    origin: Origin,
    sequence: Sequence,
    command: &[u8],
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Appended {
    if out.len() + HEAD + command.len() > bytes_max {
        return Appended::Full;
    }
    out.push(origin.rank.index() as u8);
    out.extend_from_slice(&origin.life.0.to_le_bytes());
    out.extend_from_slice(&sequence.0.to_le_bytes());
    out.extend_from_slice(command);
    Appended::Whole
}
