//! What every process of a run was told, in its order: what the checks look at.

use base::{Incarnation, Rank};
use proto::vsync::{End, Knock, Position, View, ViewId};
use std::collections::BTreeMap;

/// The name of a message: its sender, and its ordinal there, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct MessageId {
    pub(super) sender: Rank,
    pub(super) incarnation: Incarnation,
    pub(super) ordinal: u64,
}

/// A process: its seat, and its incarnation there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ProcessId(pub(super) Rank, pub(super) Incarnation);

impl ProcessId {
    pub(super) const fn of(process: &Knock) -> ProcessId {
        ProcessId(process.seat, process.incarnation)
    }
}

/// One thing that a process was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A view begins.
    View(View),
    /// A message is delivered.
    Deliver {
        at: Position,
        id: MessageId,
        /// The application's digest then.
        digest: u64,
    },
    /// The state that covers everything before a position.
    Take { at: Position, digest: u64 },
    /// It is no longer in the group.
    Ended(End),
}

/// What one process did and was told.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) told: Vec<Told>,
    /// The number of messages that it multicast.
    pub(super) n_multicast: u64,
    pub(super) asked_to_leave: bool,
    /// Whether a newcomer delivers from its first view on, without a state.
    pub(super) is_stateless: bool,
}

/// A delivery: the position, the message, and the digest of the state then.
pub(super) type Delivered = (Position, MessageId, u64);

impl Record {
    pub(super) fn views(&self) -> impl Iterator<Item = &View> {
        self.told.iter().filter_map(|told| match told {
            Told::View(view) => Some(view),
            Told::Deliver { .. } | Told::Take { .. } | Told::Ended(_) => None,
        })
    }

    pub(super) fn deliveries(&self) -> impl Iterator<Item = Delivered> + '_ {
        self.told.iter().filter_map(|told| match told {
            Told::Deliver { at, id, digest } => Some((*at, *id, *digest)),
            Told::View(_) | Told::Take { .. } | Told::Ended(_) => None,
        })
    }

    /// The position of the state that it was given, if it was.
    pub(super) fn taken(&self) -> Option<(Position, u64)> {
        self.told.iter().find_map(|told| match told {
            Told::Take { at, digest } => Some((*at, *digest)),
            Told::View(_) | Told::Deliver { .. } | Told::Ended(_) => None,
        })
    }

    /// Whether it was in both views: it has reached the end of the first.
    pub(super) fn survived(&self, view: ViewId) -> bool {
        let has = |id| self.views().any(|view| view.id == id);
        has(view) && has(view.next())
    }

    /// The first position of which it was told every message, or would have been: that of its
    /// state, or of its first view for a founder, and where there is no state. `None` for a
    /// newcomer that waits for one.
    pub(super) fn begins_at(&self) -> Option<Position> {
        let first = self.views().next()?.id;
        let is_ready = first == ViewId::FIRST || self.is_stateless;
        let first = Position { view: first, at: 0 };
        self.taken().map(|(at, _)| at).or(is_ready.then_some(first))
    }

    /// Whether others executed messages that it did not, and has no state for.
    pub(super) fn is_late(&self) -> bool {
        self.is_stateless && self.views().next().is_some_and(|view| view.id > ViewId::FIRST)
    }
}

/// All processes of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Whether only each sender's messages have an order.
    pub(super) is_unordered: bool,
    pub(super) records: BTreeMap<ProcessId, Record>,
}

impl History {
    pub(super) fn record(&mut self, process: ProcessId) -> &mut Record {
        self.records.entry(process).or_default()
    }

    /// Every view that any process installed, by its number: the first that was told.
    pub(super) fn views(&self) -> BTreeMap<ViewId, &View> {
        let mut views = BTreeMap::new();
        for view in self.records.values().flat_map(Record::views) {
            views.entry(view.id).or_insert(view);
        }
        views
    }
}

/// Histories that tests make up.
#[cfg(test)]
pub(super) mod made_up {
    use super::*;
    use proto::vsync::Member;

    pub(crate) fn process(seat: usize) -> ProcessId {
        ProcessId(Rank::at(seat), Incarnation(1))
    }

    pub(crate) fn id(sender: usize, ordinal: u64) -> MessageId {
        MessageId { sender: Rank::at(sender), incarnation: Incarnation(1), ordinal }
    }

    pub(crate) fn at(view: u64, at: u64) -> Position {
        Position { view: ViewId(view), at }
    }

    pub(crate) fn view(number: u64, seats: &[usize]) -> View {
        let member = |seat: &usize| Member {
            process: Knock {
                seat: Rank::at(*seat),
                incarnation: Incarnation(1),
                metadata: [0; proto::vsync::METADATA_WORDS],
            },
            since: ViewId(1),
        };
        View::new(ViewId(number), seats.iter().map(member).collect())
    }

    impl History {
        pub(crate) fn installed(&mut self, seat: usize, number: u64, seats: &[usize]) -> &mut Self {
            self.record(process(seat)).told.push(Told::View(view(number, seats)));
            self
        }

        pub(crate) fn delivered(
            &mut self,
            seat: usize,
            position: (u64, u64),
            message: (usize, u64),
        ) -> &mut Self {
            let told = Told::Deliver {
                at: at(position.0, position.1),
                id: id(message.0, message.1),
                digest: 0,
            };
            self.record(process(seat)).told.push(told);
            self
        }

        pub(crate) fn multicast(&mut self, seat: usize, n: u64) -> &mut Self {
            self.record(process(seat)).n_multicast = n;
            self
        }

        pub(crate) fn took(&mut self, seat: usize, position: (u64, u64)) -> &mut Self {
            let told = Told::Take { at: at(position.0, position.1), digest: 0 };
            self.record(process(seat)).told.push(told);
            self
        }
    }
}
