//! What happened in one run, for the judges.

use proto::amcast::{GroupId, GroupSet, MessageId, Pid, Timestamp};
use std::collections::BTreeMap;

/// Something that a judge may want to know, in the order in which it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A sender multicast.
    Multicast(MessageId),
    /// A process delivered.
    Delivered {
        /// Which process.
        by: Pid,
        /// Which message.
        id: MessageId,
        /// At which final timestamp.
        ts: Timestamp,
    },
}

/// One message as its sender meant it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meant {
    /// Its destinations.
    pub dest: GroupSet,
    /// Its final timestamp shall be above.
    pub after: Timestamp,
    /// The sender did not die while it sent.
    pub is_whole: bool,
    /// When.
    pub at_ns: u64,
}

/// How much a process remembers at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which process.
    pub by: Pid,
    /// How many messages it remembers.
    pub n: usize,
    /// How many it should at most.
    pub most: usize,
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In order; of two happenings the one with the lower index was earlier in real time.
    pub happened: Vec<(u64, Happened)>,
    /// Every message.
    pub meant: BTreeMap<MessageId, Meant>,
    /// Who never failed.
    pub correct: Vec<Pid>,
    /// Wire messages between processes that had no business with them.
    pub strayed: Vec<String>,
    /// What those who never failed remember at the end.
    pub held: Vec<Held>,
}

impl History {
    /// Every process's deliveries, in its order.
    pub fn deliveries(&self) -> BTreeMap<Pid, Vec<(MessageId, Timestamp)>> {
        let mut of: BTreeMap<Pid, Vec<(MessageId, Timestamp)>> = BTreeMap::new();
        for (_, happened) in &self.happened {
            if let Happened::Delivered { by, id, ts } = happened {
                of.entry(*by).or_default().push((*id, *ts));
            }
        }
        of
    }

    /// The destinations of a message that was multicast.
    pub fn dest(&self, id: MessageId) -> Option<GroupSet> {
        self.meant.get(&id).map(|meant| meant.dest)
    }
}

/// Groups as numbers, for texts.
pub(crate) fn groups(set: GroupSet) -> Vec<usize> {
    set.iter().map(GroupId::index).collect()
}

/// For made-up histories.
#[cfg(test)]
pub(crate) mod made_up {
    use super::*;
    use base::Rank;

    pub(crate) fn id(sequence: u64) -> MessageId {
        MessageId { sender: 1, sequence }
    }

    pub(crate) fn pid(group: usize, rank: usize) -> Pid {
        Pid { group: GroupId::at(group), rank: Rank::at(rank) }
    }

    impl History {
        pub(crate) fn multicast(&mut self, sequence: u64, groups: &[usize]) -> &mut History {
            let dest = groups.iter().map(|group| GroupId::at(*group)).collect();
            let meant = Meant { dest, after: Timestamp::ZERO, is_whole: true, at_ns: 0 };
            self.meant.insert(id(sequence), meant);
            self.happened.push((0, Happened::Multicast(id(sequence))));
            self
        }

        pub(crate) fn delivered(&mut self, by: Pid, sequence: u64, ts: u64) -> &mut History {
            let ts = Timestamp(ts);
            self.happened.push((0, Happened::Delivered { by, id: id(sequence), ts }));
            self
        }
    }
}
