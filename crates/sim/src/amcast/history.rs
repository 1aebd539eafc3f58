//! The events of one run, for the judges.

use proto::amcast::{Footprint, GroupId, GroupSet, MessageId, Pid, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// An event for the judges, in the order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A sender multicast.
    Multicast(MessageId),
    /// A process delivered.
    Delivered {
        /// The process.
        by: Pid,
        /// The message.
        id: MessageId,
        /// The final timestamp.
        ts: Timestamp,
    },
    /// A process answers a request for a snapshot.
    Cut {
        /// The process.
        by: Pid,
        /// The timestamp.
        at: Timestamp,
        /// Whether its state is the snapshot now.
        is_exact: bool,
    },
}

/// One message as its sender made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meant {
    /// Its destinations.
    pub dest: GroupSet,
    /// The timestamp that its final timestamp must exceed.
    pub after: Timestamp,
    /// The classes that it touches.
    pub footprint: Footprint,
    /// Whether the sender survived the send.
    pub is_whole: bool,
    /// The time of the multicast.
    pub at_ns: u64,
}

/// The number of messages that a process remembers at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The process.
    pub by: Pid,
    /// The number of messages that it remembers.
    pub n: usize,
    /// The most that it should remember.
    pub most: usize,
}

/// The history of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In order; of two happenings the one with the lower index was earlier in real time.
    pub happened: Vec<(u64, Happened)>,
    /// Every message.
    pub meant: BTreeMap<MessageId, Meant>,
    /// The processes that never failed.
    pub correct: Vec<Pid>,
    /// The snapshots that were requested and not refused.
    pub cuts_due: BTreeSet<(Pid, Timestamp)>,
    /// The wire messages between processes that should not have exchanged them.
    pub strayed: Vec<String>,
    /// The numbers of messages that the processes which never failed remember at the end.
    pub held: Vec<Held>,
    /// The next event, long after faults have stopped, if there is one.
    pub unrest: Option<String>,
}

impl History {
    /// The number of messages that were multicast by senders that died half way.
    pub fn n_cut_short(&self) -> usize {
        self.meant.values().filter(|meant| !meant.is_whole).count()
    }

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

    /// Whether all messages conflict, and there is one order of all.
    pub fn is_total(&self) -> bool {
        self.meant.values().all(|meant| meant.footprint == Footprint::ALL)
    }

    /// Whether the order of two messages matters (4.4.3).
    pub fn conflict(&self, a: MessageId, b: MessageId) -> bool {
        let touches = |id| self.meant.get(&id).map_or(Footprint::ALL, |meant| meant.footprint);
        touches(a).conflicts(touches(b))
    }

    /// Pairs of messages that two processes delivered in different orders.
    pub fn n_commuted(&self) -> u64 {
        if self.is_total() {
            return 0;
        }
        let deliveries = self.deliveries();
        let orders: Vec<BTreeMap<MessageId, usize>> = deliveries
            .values()
            .map(|order| order.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect())
            .collect();
        let differ = |a: &MessageId, b: &MessageId| {
            let order = |of: &BTreeMap<MessageId, usize>| Some(of.get(a)? < of.get(b)?);
            let mut seen = orders.iter().filter_map(order);
            seen.next().is_some_and(|first| seen.any(|other| other != first))
        };
        let ids: Vec<&MessageId> = self.meant.keys().collect();
        let pairs = (0..ids.len()).flat_map(|at| ids[at + 1..].iter().map(move |b| (at, *b)));
        pairs.filter(|(at, b)| differ(ids[*at], b)).count() as u64
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
            self.touching(sequence, groups, Footprint::ALL)
        }

        pub(crate) fn touching(
            &mut self,
            sequence: u64,
            groups: &[usize],
            footprint: Footprint,
        ) -> &mut History {
            let dest = groups.iter().map(|group| GroupId::at(*group)).collect();
            let meant = Meant { dest, after: Timestamp::ZERO, footprint, is_whole: true, at_ns: 0 };
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
