//! The replicated state of the benchmarks that measure what lies below a state machine: it counts
//! commands, and answers each with nothing.
//!
//! Batches are framed as those of the key-value store are ([`kv::entry`]), so that the cost of
//! framing is included. A state is three numbers, so that the transfer of a state to a member that
//! fell behind costs nothing that a benchmark would measure.
//!
//! - I1 members that apply the same values have the same numbers. By construction: they are
//!   computed from values alone; what else a counter notes ([`Stamps`]) is no part of a state.

use crate::clock::shared_ns;
use base::{Rank, Slot};
use kv::entry::{self, Batch, BatchWriter};
use runtime::{Answers, Appended, Application, Origin, Performed, Saving, Sequence};

/// The number of deliveries whose times are kept: roughly those of half a second.
const STAMPS: usize = 1 << 20;
/// The bytes of a state.
const STATE_BYTES: usize = 24;

/// The numbers that are replicated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of commands.
    pub commands: u64,
    /// The sum of the first bytes of all commands: each was looked at.
    pub sum: u64,
    /// The newest time stamp, in milliseconds since 1970.
    pub state_ms: u64,
}

impl Counts {
    fn to_bytes(self) -> [u8; STATE_BYTES] {
        let mut bytes = [0; STATE_BYTES];
        let numbers = [self.commands, self.sum, self.state_ms];
        for (at, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            at.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Counts> {
        let bytes: &[u8; STATE_BYTES] = bytes.try_into().ok()?;
        let (numbers, _) = bytes.as_chunks();
        let number = |at: usize| u64::from_le_bytes(numbers[at]);
        Some(Counts { commands: number(0), sum: number(1), state_ms: number(2) })
    }
}

/// The times at which commands were applied, with their origins: the newest of them.
#[derive(Debug)]
pub struct Stamps {
    ring: Vec<(u64, Rank)>,
    n: usize,
}

impl Stamps {
    fn push(&mut self, origin: Rank) {
        self.ring[self.n % STAMPS] = (shared_ns(), origin);
        self.n += 1;
    }

    /// The times by the shared clock, in no order, and the members whose clients sent the commands.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Rank)> {
        self.ring[..self.n.min(STAMPS)].iter().copied()
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Counter {
    writer: BatchWriter,
    counts: Counts,
    stamps: Option<Stamps>,
    /// Saves under way, each with the numbers as they were when it began.
    saves: Vec<(Saving, Counts)>,
    n_saves: u64,
    /// The bytes that were read of another member's state.
    restoring: Vec<u8>,
    n_restored: u64,
}

impl Counter {
    /// The numbers.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes the time of each command from now on: only for a moment that needs them, since reading
    /// the shared clock costs.
    pub fn stamp(&mut self) {
        self.stamps.get_or_insert_with(|| Stamps { ring: vec![(0, Rank::at(0)); STAMPS], n: 0 });
    }

    /// The times taken.
    pub fn stamps(&self) -> Option<&Stamps> {
        self.stamps.as_ref()
    }

    /// The number of states of other members that took the place of this one.
    pub fn n_restored(&self) -> u64 {
        self.n_restored
    }
}

impl Application for Counter {
    fn apply(&mut self, _: Slot, value: &[u8], answers: &mut Answers) {
        let batch = Batch::check(value).expect("what members of a benchmark write is read");
        self.counts.state_ms = self.counts.state_ms.max(batch.stamp_ms);
        for frame in batch.frames() {
            self.counts.commands += 1;
            self.counts.sum += u64::from(frame.bytes[0]);
            let entry::Origin { rank, incarnation } = frame.origin;
            if let Some(stamps) = &mut self.stamps {
                stamps.push(rank);
            }
            answers.push(Origin { rank, life: incarnation }, Sequence(frame.sequence.0), b"");
        }
    }

    fn state_ms(&self) -> u64 {
        self.counts.state_ms
    }

    fn next_expiry_ms(&self) -> Option<u64> {
        None
    }

    fn read(&mut self, _: &[u8], _: u64, _: &mut Vec<u8>) -> Performed {
        Performed::Done
    }

    fn begin_save(&mut self) -> Saving {
        self.n_saves += 1;
        let saving = Saving(self.n_saves);
        self.saves.push((saving, self.counts));
        saving
    }

    fn save_piece(&mut self, saving: Saving, _: usize, out: &mut Vec<u8>) -> Option<bool> {
        let (_, counts) = self.saves.iter().find(|(of, _)| *of == saving)?;
        out.extend_from_slice(&counts.to_bytes());
        Some(false)
    }

    fn end_save(&mut self, saving: Saving) {
        self.saves.retain(|(of, _)| *of != saving);
    }

    fn begin_restore(&mut self) {
        self.restoring.clear();
    }

    fn restore_piece(&mut self, bytes: &[u8]) -> Result<bool, String> {
        if self.restoring.len() + bytes.len() > STATE_BYTES {
            return Err(format!("a state of more than {STATE_BYTES} bytes"));
        }
        self.restoring.extend_from_slice(bytes);
        Ok(false)
    }

    fn end_restore(&mut self) -> Result<(), String> {
        let counts = Counts::parse(&self.restoring);
        let n = self.restoring.len();
        self.counts = counts.ok_or_else(|| format!("a state of {n} bytes, not {STATE_BYTES}"))?;
        self.n_restored += 1;
        self.saves.clear();
        Ok(())
    }

    fn give_up_restore(&mut self) {
        self.restoring.clear();
    }

    fn begin(&mut self, stamp_ms: u64, out: &mut Vec<u8>) {
        self.writer.begin(stamp_ms, out);
    }

    fn append(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        command: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Appended {
        let origin = entry::Origin { rank: origin.rank, incarnation: origin.life };
        let sequence = entry::Sequence(sequence.0);
        match self.writer.append(origin, sequence, command, bytes_max, out) {
            entry::Appended::Whole => Appended::Whole,
            entry::Appended::Full => Appended::Full,
            entry::Appended::Part => unreachable!("a command is shorter than a value of the log"),
        }
    }

    fn abandon(&mut self) {
        self.writer.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Incarnation;

    fn batch(counter: &mut Counter, sequences: &[u64]) -> Vec<u8> {
        let origin = Origin { rank: Rank::at(2), life: Incarnation(5) };
        let mut value = Vec::new();
        counter.begin(77, &mut value);
        for sequence in sequences {
            let appended = counter.append(origin, Sequence(*sequence), &[3; 9], 4096, &mut value);
            assert_eq!(appended, Appended::Whole);
        }
        value
    }

    #[test]
    fn each_command_is_counted_and_answered_to_its_origin() {
        let mut counter = Counter::default();
        let value = batch(&mut counter, &[4, 5, 9]);
        let mut answers = Answers::default();
        counter.apply(Slot::ZERO, &value, &mut answers);
        let answered: Vec<_> = answers.iter().map(|(of, sequence, _)| (of, sequence.0)).collect();
        let origin = Origin { rank: Rank::at(2), life: Incarnation(5) };
        assert_eq!(answered, [(origin, 4), (origin, 5), (origin, 9)]);
        assert_eq!(counter.counts(), Counts { commands: 3, sum: 9, state_ms: 77 });
    }

    #[test]
    fn i1_a_state_is_the_numbers_as_they_were_when_its_save_began() {
        let mut giver = Counter::default();
        let value = batch(&mut giver, &[1]);
        giver.apply(Slot::ZERO, &value, &mut Answers::default());
        let (saving, before) = (giver.begin_save(), giver.counts());
        giver.apply(Slot::ZERO.next(), &value, &mut Answers::default());
        let mut state = Vec::new();
        assert_eq!(giver.save_piece(saving, STATE_BYTES, &mut state), Some(false));
        let mut taker = Counter::default();
        taker.restore(&state).expect("it is whole");
        assert_eq!((taker.counts(), taker.n_restored()), (before, 1));
        assert_ne!(giver.counts(), before);
        assert!(taker.restore(&state[1..]).is_err(), "a byte is missing");
        assert_eq!(taker.counts(), before);
        giver.end_save(saving);
        assert_eq!(giver.save_piece(saving, STATE_BYTES, &mut state), None);
    }
}
