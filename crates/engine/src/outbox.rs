//! The commands of this node's own clients that have no answer yet, in the order of their arrival.
//!
//! A command stays here, with its bytes, until its answer is known, so that it can be handed to the
//! next leader when one is lost. Handing it over again is safe because the state machine executes a
//! (origin, sequence) once only.
//!
//! - I1 sequences are consecutive, and what goes out goes out in their order: a connection's
//!   pipelined writes are never swapped. By construction: [`Outbox::dispatch`] has one cursor.
//!   Reads have no order: what goes out again comes first ([`Outbox::again`]).
//! - I2 each command is answered once. By the flag that [`Outbox::complete`] sets.
//! - I3 the span from the oldest unanswered to the newest is at most [`SPAN_MAX`], so that the
//!   state machine's window of remembered answers covers every command that may be sent again.
//!   Asserted. What goes out again keeps its place.
//! - I4 at most [`BYTES_MAX`] bytes wait here, or one command. Full is a named effect:
//!   [`Outbox::has_room`] turns false and the door stops reading its clients.

use crate::service::Asker;
use base::Instant;
use std::collections::{BTreeSet, VecDeque};

/// The most commands between the oldest without an answer and the newest.
pub const SPAN_MAX: usize = 4096;

/// The most bytes of commands that wait for answers.
pub const BYTES_MAX: usize = 32 << 20;

/// A command's number among those of one life of this process, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

#[derive(Clone, Copy, Debug)]
struct Record {
    asker: Asker,
    deadline: Instant,
    start: usize,
    len: usize,
    answered: bool,
}

/// See the module's text.
#[derive(Debug)]
pub struct Outbox {
    /// The sequence of `records[0]`.
    first: u64,
    records: VecDeque<Record>,
    /// The commands' bytes; those before the first record's are garbage.
    bytes: Vec<u8>,
    /// The next sequence to go out that has not.
    cursor: u64,
    /// Sequences below the cursor that are to go out again.
    again: BTreeSet<u64>,
    /// See I3.
    span: usize,
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox::new(SPAN_MAX)
    }
}

impl Outbox {
    /// An empty one, of this span: at most [`SPAN_MAX`].
    pub fn new(span: usize) -> Outbox {
        let span = span.min(SPAN_MAX);
        let (records, again) = (VecDeque::new(), BTreeSet::new());
        Outbox { first: 1, records, bytes: Vec::new(), cursor: 1, again, span }
    }

    /// Whether another command may be pushed (I3, I4).
    pub fn has_room(&self) -> bool {
        self.records.len() < self.span && self.bytes.len() < BYTES_MAX
    }

    /// Takes a command of `asker`. Ask [`Outbox::has_room`] first.
    pub fn push(&mut self, asker: Asker, command: &[u8], deadline: Instant) -> Sequence {
        assert!(self.records.len() < SPAN_MAX, "I3: pushed without room");
        let record = Record {
            asker,
            deadline,
            start: self.bytes.len(),
            len: command.len(),
            answered: false,
        };
        self.bytes.extend_from_slice(command);
        self.records.push_back(record);
        Sequence(self.first + self.records.len() as u64 - 1)
    }

    /// Whether commands wait to go out.
    pub fn has_undispatched(&self) -> bool {
        !self.again.is_empty() || self.cursor < self.first + self.records.len() as u64
    }

    /// Hands the commands that are to go out to `take`, in order, until it returns false (that one
    /// and the rest stay for the next time).
    pub fn dispatch(&mut self, mut take: impl FnMut(Sequence, &[u8]) -> bool) {
        while let Some(sequence) = self.again.first().copied() {
            if !self.hand(sequence, &mut take) {
                return;
            }
            self.again.remove(&sequence);
        }
        let end = self.first + self.records.len() as u64;
        while self.cursor < end {
            if !self.hand(self.cursor, &mut take) {
                return;
            }
            self.cursor += 1;
        }
    }

    /// Hands this one to `take`, if it has no answer. False if it was not taken.
    fn hand(&self, sequence: u64, take: &mut impl FnMut(Sequence, &[u8]) -> bool) -> bool {
        let record = &self.records[(sequence - self.first) as usize];
        let command = &self.bytes[record.start..record.start + record.len];
        record.answered || take(Sequence(sequence), command)
    }

    /// Hands every command to `take` and forgets it, until it returns false (that one and the rest
    /// stay). The caller keeps them elsewhere until they are answered.
    pub fn drain(&mut self, mut take: impl FnMut(Asker, &[u8]) -> bool) {
        while let Some(record) = self.records.front_mut() {
            let command = &self.bytes[record.start..record.start + record.len];
            if !record.answered && !take(record.asker, command) {
                return;
            }
            record.answered = true;
            self.forget_answered();
        }
    }

    /// Sends every unanswered command again, from the oldest. The member that had them is no
    /// longer, or may no longer be, the leader.
    pub fn rewind(&mut self) {
        self.cursor = self.first;
        self.again.clear();
    }

    /// Everything without an answer gets another name (`Bug::SentAgainAsAnother`).
    pub(crate) fn rename(&mut self) {
        self.first += self.records.len() as u64;
        self.records.retain(|record| !record.answered);
        self.forget_answered();
    }

    /// The oldest name without an answer (`Bug::AnswersTheOldest`).
    pub(crate) fn oldest(&self) -> Sequence {
        Sequence(self.first)
    }

    /// `sequence` is to go out again: for what has no order, as reads have none. (The others that
    /// went out with it do not: each would be performed twice.)
    pub fn again(&mut self, sequence: Sequence) {
        let Some(at) = sequence.0.checked_sub(self.first) else { return };
        let Some(record) = self.records.get(at as usize) else { return };
        // What is behind the cursor goes out anyway.
        if !record.answered && sequence.0 < self.cursor {
            self.again.insert(sequence.0);
        }
    }

    /// The answer to `sequence` is known. Returns the asker, once (I2).
    pub fn complete(&mut self, sequence: Sequence) -> Option<Asker> {
        let at = sequence.0.checked_sub(self.first)?;
        let record = self.records.get_mut(at as usize)?;
        if record.answered {
            return None;
        }
        record.answered = true;
        let asker = record.asker;
        self.forget_answered();
        Some(asker)
    }

    /// Ends the commands whose deadline has passed at `now`: their askers' answer is "unknown".
    pub fn expire(&mut self, now: Instant, mut expired: impl FnMut(Asker)) {
        // Not in order of deadlines: a read may have waited for a check before it came here.
        for record in &mut self.records {
            if record.deadline <= now && !record.answered {
                record.answered = true;
                expired(record.asker);
            }
        }
        self.forget_answered();
    }

    /// The first deadline of a command without an answer.
    pub fn deadline(&self) -> Option<Instant> {
        self.records.front().map(|record| record.deadline)
    }

    /// How many have no answer, counting those between them that have one.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether everything is answered.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn forget_answered(&mut self) {
        while self.records.front().is_some_and(|record| record.answered) {
            self.records.pop_front();
            self.first += 1;
        }
        self.cursor = self.cursor.max(self.first);
        while self.again.first().is_some_and(|sequence| *sequence < self.first) {
            self.again.pop_first();
        }
        let garbage = self.records.front().map_or(self.bytes.len(), |record| record.start);
        // Moving what is left when at least half is garbage keeps the cost per byte constant.
        if garbage * 2 >= self.bytes.len() && garbage > 0 {
            self.bytes.drain(..garbage);
            self.records.iter_mut().for_each(|record| record.start -= garbage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_goes_out_again_keeps_its_place_and_is_answered_once() {
        let mut outbox = Outbox::default();
        for n in 1..=4u8 {
            outbox.push(asker(u64::from(n)), &[n], Instant(u64::from(n)));
        }
        assert_eq!(gone_out(&mut outbox, 3).len(), 3);
        [3, 1, 3, 2, 4].into_iter().for_each(|sequence| outbox.again(Sequence(sequence)));
        assert_eq!(outbox.complete(Sequence(2)), Some(asker(2)), "it was answered after all");
        assert_eq!(gone_out(&mut outbox, 1), [(1, vec![1])]);
        assert!(outbox.has_undispatched());
        assert_eq!(gone_out(&mut outbox, 9), [(3, vec![3]), (4, vec![4])]);
        assert!(!outbox.has_undispatched());
        outbox.again(Sequence(3));
        let mut late = Vec::new();
        outbox.expire(Instant(3), |asker| late.push(asker));
        assert_eq!(late, [asker(1), asker(3)]);
        assert_eq!(outbox.complete(Sequence(3)), None, "I2");
        assert_eq!(gone_out(&mut outbox, 9), [], "one without an asker does not go out");
        outbox.again(Sequence(4));
        outbox.rewind();
        assert_eq!(gone_out(&mut outbox, 9), [(4, vec![4])], "it goes out once");
        assert_eq!(outbox.complete(Sequence(4)), Some(asker(4)));
        assert!(outbox.is_empty());
    }

    #[test]
    fn what_is_drained_is_forgotten_and_what_is_not_taken_stays() {
        let mut outbox = Outbox::default();
        for connection in 1..=3 {
            outbox.push(asker(connection), b"x", Instant(5));
        }
        let mut taken = Vec::new();
        outbox.drain(|of, _| {
            let takes = taken.len() < 2;
            taken.extend(takes.then_some(of));
            takes
        });
        assert_eq!((taken, outbox.len()), (vec![asker(1), asker(2)], 1));
        assert_eq!(gone_out(&mut outbox, 9), [(3, b"x".to_vec())]);
    }

    fn asker(connection: u64) -> Asker {
        Asker { connection, request: 0 }
    }

    fn gone_out(outbox: &mut Outbox, most: usize) -> Vec<(u64, Vec<u8>)> {
        let mut out = Vec::new();
        outbox.dispatch(|sequence, command| {
            let room = out.len() < most;
            if room {
                out.push((sequence.0, command.to_vec()));
            }
            room
        });
        out
    }

    #[test]
    fn i1_commands_go_out_in_order_and_again_after_a_rewind() {
        let mut outbox = Outbox::default();
        for n in 1..=4u8 {
            outbox.push(asker(u64::from(n) * 10), &[n], Instant(5));
        }
        assert_eq!(gone_out(&mut outbox, 3), [(1, vec![1]), (2, vec![2]), (3, vec![3])]);
        assert_eq!(outbox.complete(Sequence(2)), Some(asker(20)));
        outbox.rewind();
        assert_eq!(gone_out(&mut outbox, 9), [(1, vec![1]), (3, vec![3]), (4, vec![4])]);
        assert!(!outbox.has_undispatched());
    }

    #[test]
    fn i2_a_second_answer_is_nobodys() {
        let mut outbox = Outbox::default();
        let sequence = outbox.push(asker(3), b"x", Instant(5));
        outbox.push(asker(4), b"y", Instant(5));
        assert_eq!(outbox.complete(sequence), Some(asker(3)));
        assert_eq!(outbox.complete(sequence), None);
        assert_eq!(outbox.complete(Sequence(0)), None);
        assert_eq!(outbox.complete(Sequence(99)), None);
        let mut expired = Vec::new();
        outbox.expire(Instant(5), |asker| expired.push(asker.connection));
        assert_eq!(expired, [4]);
        assert!(outbox.is_empty());
    }

    #[test]
    fn i3_room_ends_at_the_span() {
        let mut outbox = Outbox::default();
        while outbox.has_room() {
            outbox.push(asker(0), b"", Instant(1));
        }
        assert_eq!(outbox.len(), SPAN_MAX);
        outbox.complete(Sequence(2));
        assert!(!outbox.has_room(), "an answer in the middle does not shorten the span");
        outbox.complete(Sequence(1));
        assert!(outbox.has_room());
    }

    #[test]
    fn i4_room_ends_at_the_bytes() {
        let mut outbox = Outbox::default();
        outbox.push(asker(0), &vec![0; BYTES_MAX], Instant(1));
        assert!(!outbox.has_room());
        outbox.complete(Sequence(1));
        assert!(outbox.has_room());
    }

    /// The leader took the oldest read, and refused the others again and again.
    #[test]
    fn i3_i4_what_goes_out_again_and_again_takes_no_more_room() {
        let mut outbox = Outbox::default();
        while outbox.has_room() {
            outbox.push(asker(0), &[7; 50], Instant(5));
        }
        for _ in 0..3 {
            let out = gone_out(&mut outbox, usize::MAX);
            out.iter().filter(|(id, _)| *id > 1).for_each(|(id, _)| outbox.again(Sequence(*id)));
            assert_eq!((outbox.len(), outbox.bytes.len()), (SPAN_MAX, 50 * SPAN_MAX));
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_list(
            steps in prop::collection::vec((0u8..4, 0usize..6), 0..200),
        ) {
            let mut outbox = Outbox::default();
            let mut twin: Vec<(u64, Vec<u8>)> = Vec::new(); // unanswered, in order
            let mut next = 1;
            let mut twin_out: u64 = 1; // what is below went out
            for (step, n) in steps {
                match step {
                    0 => {
                        let command = vec![next as u8; n];
                        prop_assert_eq!(outbox.push(asker(next), &command, Instant(next)).0, next);
                        twin.push((next, command));
                        next += 1;
                    }
                    1 => {
                        let Some((sequence, _)) = twin.get(n).cloned() else { continue };
                        prop_assert_eq!(outbox.complete(Sequence(sequence)), Some(asker(sequence)));
                        twin.remove(n);
                    }
                    2 => {
                        let got = gone_out(&mut outbox, n);
                        let expected: Vec<_> =
                            twin.iter().filter(|(s, _)| *s >= twin_out).take(n).cloned().collect();
                        twin_out = expected.last().map_or(twin_out, |(s, _)| s + 1);
                        prop_assert_eq!(got, expected);
                    }
                    _ => {
                        outbox.rewind();
                        twin_out = 1;
                    }
                }
                prop_assert_eq!(outbox.is_empty(), twin.is_empty());
            }
        }
    }
}
