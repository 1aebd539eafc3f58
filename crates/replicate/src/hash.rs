//! Hashes of what a copy has answered.
//!
//! After every so many entries of connections lies a *point*. There the hash covers what the
//! program has sent since the point before, on every connection. A CRC-64 runs over the bytes of
//! each connection, so that the pieces in which a copy answers do not matter, and the sum of all of
//! them is the hash, so that the order in which connections answer does not either.
//!
//! - H1 a hash is taken where every copy has sent the same bytes, if it does the same: the program
//!   was fed exactly the entries up to the point, sleeps, and all that it has sent was read
//!   (`feeder`, I6).
//! - H2 what was sent on a connection counts although the connection has ended. What a program
//!   sends after its client has left does not: it may notice that before it has sent everything.
//! - H3 a connection whose answers are not the input's alone (the time, chance, the copy's own
//!   process) is left out until the next point, or the first at which it was given (`session`,
//!   `shown`). The input decides, and of a transaction the answer that ends it, so all copies leave
//!   out the same.

use crate::bugs::Bug;
use crate::entry::ConnectionId;
use crate::verdict::{Output, STRICT_POINTS_MAX};
use crc::{CRC_64_XZ, Crc, Digest, Table};
use proto::planted::Planting;
use std::collections::VecDeque;
use std::fmt;

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_XZ);

/// The most hashes that wait to be proposed.
const TAKEN_MAX: usize = STRICT_POINTS_MAX;

/// The running hash of what the program has sent on one connection since the last point.
#[derive(Clone)]
pub(crate) struct Answers {
    digest: Digest<'static, u64, Table<16>>,
    n_bytes: u64,
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("n_bytes", &self.n_bytes).finish_non_exhaustive()
    }
}

impl Default for Answers {
    fn default() -> Answers {
        Answers { digest: CRC.digest(), n_bytes: 0 }
    }
}

impl Answers {
    /// The program has sent these bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.n_bytes += bytes.len() as u64;
    }

    /// The part of the connection in the hash, which begins again.
    fn finish(&mut self, id: ConnectionId, is_closed: bool) -> u64 {
        let Answers { mut digest, n_bytes } = std::mem::take(self);
        if n_bytes == 0 && !is_closed {
            return 0;
        }
        digest.update(&[id.owner.index() as u8, u8::from(is_closed)]);
        [id.run.0, id.number, n_bytes].iter().for_each(|word| digest.update(&word.to_le_bytes()));
        digest.finalize()
    }
}

/// A hash that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The point.
    pub at: u64,
    /// The hash.
    pub value: u64,
}

/// The hashes of one copy.
#[derive(Debug)]
pub(crate) struct Hashes<B> {
    planted: B,
    /// The entries from one point to the next; 0 for no points.
    every: u64,
    output: Output,
    /// The copy was fed a whole value of the log, and entries of connections with it.
    is_behind_value: bool,
    /// It was fed a halt, behind which a point lies (`verdict`, V9).
    is_halted: bool,
    /// The entries of connections that the copy was fed, those before its beginning included.
    position: u64,
    hashed_at: u64,
    sum: u64,
    taken: VecDeque<Taken>,
}

impl<B: Planting<Bug>> Hashes<B> {
    /// The hashes of a copy whose first entry is the one behind `position`.
    pub(crate) fn new(every: u64, position: u64, planted: B) -> Hashes<B> {
        Hashes {
            planted,
            every,
            output: Output::AtOnce,
            is_behind_value: false,
            is_halted: false,
            position,
            hashed_at: position,
            sum: 0,
            taken: VecDeque::new(),
        }
    }

    /// The same, at the points of answers that leave so (`verdict`, V8).
    pub(crate) fn of(self, output: Output) -> Hashes<B> {
        Hashes { output, ..self }
    }

    /// Whether hashes are taken.
    pub(crate) fn is_on(&self) -> bool {
        self.every > 0
    }

    /// The number of entries of connections up to here.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Another entry of a connection was fed.
    pub(crate) fn step(&mut self) {
        assert!(!self.is_due(), "H1: an entry was fed behind a point");
        self.position += 1;
    }

    /// Whether the copy is at a point whose hash was not taken.
    pub(crate) fn is_due(&self) -> bool {
        let is_point = || match self.output {
            Output::AtOnce => self.position.is_multiple_of(self.every),
            Output::Strict => self.is_behind_value,
        };
        self.is_on() && self.position > self.hashed_at && (self.is_halted || is_point())
    }

    /// The entry that was fed last is a halt.
    pub(crate) fn halt(&mut self) {
        self.is_halted = true;
    }

    /// Whether the copy is at the point of a halt, whose hash was not taken.
    pub(crate) fn is_halted(&self) -> bool {
        self.is_halted
    }

    /// Whether the end of each value of the log matters.
    pub(crate) fn counts_values(&self) -> bool {
        self.output == Output::Strict
    }

    /// A value of the log was fed.
    pub(crate) fn end_value(&mut self) {
        self.is_behind_value = self.position > self.hashed_at;
    }

    /// A connection has ended; `is_closed` if the program has ended it (H2).
    pub(crate) fn end(&mut self, id: ConnectionId, answers: &mut Answers, is_closed: bool) {
        if !self.planted.has(Bug::EndedNotHashed) {
            self.add(id, answers, is_closed);
        }
    }

    /// Adds the part of an open connection.
    pub(crate) fn add(&mut self, id: ConnectionId, answers: &mut Answers, is_closed: bool) {
        self.sum = self.sum.wrapping_add(answers.finish(id, is_closed));
    }

    /// Takes the hash of this point: all parts were added.
    pub(crate) fn take(&mut self) -> Taken {
        let taken = Taken { at: self.position, value: std::mem::take(&mut self.sum) };
        if self.taken.len() == TAKEN_MAX {
            self.taken.pop_front(); // one that is so old is not waited for
        }
        self.taken.push_back(taken);
        self.hashed_at = taken.at;
        (self.is_behind_value, self.is_halted) = (false, false);
        taken
    }

    /// The oldest hash that was not handed on.
    pub(crate) fn pop(&mut self) -> Option<Taken> {
        self.taken.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Incarnation, Rank};
    use proptest::prelude::*;
    use proto::planted::{Planted, Sound};

    fn id(number: u64) -> ConnectionId {
        ConnectionId { owner: Rank::at(1), run: Incarnation(4), number }
    }

    /// The hash of one point: each connection answers in these pieces, and those in `ended` end.
    fn hash<B: Planting<Bug>>(said: &[(u64, &[&[u8]])], ended: &[u64], planted: B) -> u64 {
        let mut hashes = Hashes::new(2, 0, planted);
        (0..2).for_each(|_| hashes.step());
        for (number, pieces) in said {
            let mut answers = Answers::default();
            pieces.iter().for_each(|piece| answers.take(piece));
            match ended.contains(number) {
                true => hashes.end(id(*number), &mut answers, false),
                false => hashes.add(id(*number), &mut answers, false),
            }
        }
        hashes.take();
        hashes.pop().unwrap().value
    }

    #[test]
    fn pieces_and_the_order_of_connections_do_not_matter_and_bytes_do() {
        let one = hash(&[(1, &[b"+OK\r\n"]), (2, &[b":1\r\n"])], &[], Sound);
        assert_eq!(one, hash(&[(2, &[b":", b"1\r\n"]), (1, &[b"+OK", b"\r\n"])], &[], Sound));
        assert_ne!(one, hash(&[(1, &[b"+OK\r\n"]), (2, &[b":2\r\n"])], &[], Sound));
        assert_ne!(one, hash(&[(2, &[b"+OK\r\n"]), (1, &[b":1\r\n"])], &[], Sound));
        assert_eq!(one, hash(&[(1, &[b"+OK\r\n"]), (2, &[b":1\r\n"]), (3, &[])], &[], Sound));
    }

    #[test]
    fn h2_what_was_sent_on_a_connection_that_has_ended_counts() {
        let said: [(u64, &[&[u8]]); 1] = [(1, &[b"+OK\r\n"])];
        let differs: [(u64, &[&[u8]]); 1] = [(1, &[b"+NO\r\n"])];
        assert_ne!(hash(&said, &[1], Sound), hash(&differs, &[1], Sound));
        let planted = Planted(Bug::EndedNotHashed);
        assert_eq!(hash(&said, &[1], planted), hash(&differs, &[1], planted), "the mistake shows");
    }

    #[test]
    fn a_hash_is_due_once_at_each_point() {
        let mut hashes = Hashes::new(3, 6, Sound);
        assert!(!hashes.is_due(), "the copy begins here");
        (0..3).for_each(|_| hashes.step());
        assert!(hashes.is_due());
        hashes.take();
        assert!(!hashes.is_due());
        assert_eq!(hashes.pop(), Some(Taken { at: 9, value: 0 }));
        let mut none = Hashes::new(0, 0, Sound);
        none.step();
        assert!(!none.is_due());
    }

    proptest! {
        #[test]
        fn any_cut_of_a_stream_has_the_same_hash(
            bytes in prop::collection::vec(any::<u8>(), 1..200), at in any::<prop::sample::Index>(),
        ) {
            let (first, second) = bytes.split_at(at.index(bytes.len()));
            prop_assert_eq!(
                hash(&[(1, &[&bytes])], &[], Sound),
                hash(&[(1, &[first, second])], &[], Sound)
            );
        }
    }
}
