//! The application of a simulated process in one shard: it executes what is delivered, and its
//! state can be given to a newcomer.

use super::history::{MessageId, ProcessId};
use base::{Incarnation, Rank};
use proto::vsync::ShardId;
use std::collections::BTreeMap;

/// The replicated state of a shard: which messages of each process it has executed, and a digest of
/// all of them in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct App {
    digest: u64,
    n_executed: u64,
    /// The ordinal of the last message of each process, from 1.
    last: BTreeMap<(u64, u64), u64>,
}

impl App {
    /// Executes a message. The ordinal of the last one before it of the same process.
    pub(super) fn execute(&mut self, id: MessageId) -> u64 {
        let process = (id.sender.index() as u64, id.incarnation.0);
        for word in [process.0, process.1, id.ordinal] {
            self.digest = (self.digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        self.n_executed += 1;
        self.last.insert(process, id.ordinal).unwrap_or(0)
    }

    /// The ordinal of the last message of `process`, zero if there was none.
    pub(super) fn last_of(&self, process: ProcessId) -> u64 {
        let key = (process.0.index() as u64, process.1.0);
        self.last.get(&key).copied().unwrap_or(0)
    }

    /// A value that is equal for equal states.
    pub(super) fn digest(&self) -> u64 {
        self.digest ^ self.n_executed
    }

    /// The state as bytes, with `n_ballast` more.
    pub(super) fn to_bytes(&self, n_ballast: usize) -> Vec<u8> {
        let mut words = vec![self.digest, self.n_executed, self.last.len() as u64];
        words.extend(self.last.iter().flat_map(|((a, b), last)| [*a, *b, *last]));
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.resize(bytes.len() + n_ballast, 0xa5);
        bytes
    }

    /// The state with these bytes; `None` for anything else.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<App> {
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let (digest, n_executed, n_last) = (words.next()?, words.next()?, words.next()?);
        let mut last = BTreeMap::new();
        for _ in 0..n_last {
            let (a, b) = (words.next()?, words.next()?);
            last.insert((a, b), words.next()?);
        }
        Some(App { digest, n_executed, last })
    }
}

/// The bytes of a message: its name, and some ballast that follows from it.
pub(super) fn message(id: MessageId, n_ballast: usize) -> Vec<u8> {
    let ShardId { subgroup, shard } = id.shard;
    let place = u64::from(subgroup) << 48 | u64::from(shard) << 32 | id.sender.index() as u64;
    let words = [place, id.incarnation.0, id.ordinal];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    bytes.extend((0..n_ballast).map(|at| ballast(id, at)));
    bytes
}

/// The name of a message with these bytes, if it is whole.
pub(super) fn name(bytes: &[u8]) -> Option<MessageId> {
    let (head, rest) = bytes.split_at_checked(24)?;
    let word =
        |n: usize| u64::from_le_bytes(head[8 * n..8 * n + 8].try_into().expect("eight bytes"));
    let id = MessageId {
        shard: ShardId { subgroup: (word(0) >> 48) as u16, shard: (word(0) >> 32) as u16 },
        sender: Rank::seat(word(0) as u32 as usize)?,
        incarnation: Incarnation(word(1)),
        ordinal: word(2),
    };
    // (Without an early end, so that many bytes are compared at a time.)
    let compare = |wrong: u8, (at, byte): (usize, &u8)| wrong | (*byte ^ ballast(id, at));
    (rest.iter().enumerate().fold(0, compare) == 0).then_some(id)
}

fn ballast(id: MessageId, at: usize) -> u8 {
    (id.ordinal as u8).wrapping_mul(31) ^ (id.incarnation.0 as u8) ^ (at as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sender: usize, ordinal: u64) -> MessageId {
        let shard = ShardId { subgroup: 2, shard: 5 };
        MessageId { shard, sender: Rank::at(sender), incarnation: Incarnation(2), ordinal }
    }

    #[test]
    fn states_and_messages_come_back_as_they_were() {
        let mut app = App::default();
        for (sender, ordinal) in [(1, 1), (0, 1), (1, 2)] {
            assert_eq!(app.execute(id(sender, ordinal)), ordinal - 1);
        }
        assert_eq!(App::from_bytes(&app.to_bytes(100)), Some(app.clone()));
        assert_eq!(App::from_bytes(&app.to_bytes(0)[..40]), None);
        let mut other = App::default();
        for (sender, ordinal) in [(0, 1), (1, 1), (1, 2)] {
            other.execute(id(sender, ordinal));
        }
        assert_ne!(app.digest(), other.digest(), "another order");
        let mut bytes = message(id(3, 7), 20);
        assert_eq!(name(&bytes), Some(id(3, 7)));
        bytes[30] ^= 1;
        assert_eq!(name(&bytes), None, "torn");
    }
}
