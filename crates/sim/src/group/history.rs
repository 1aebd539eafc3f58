//! What every process of a run was told, in its order: what the checks look at.

use super::accord::Accord;
use base::{Incarnation, Rank};
use proto::vsync::{End, Knock, Mode, Position, ShardId, Time, View, ViewId};
use std::collections::BTreeMap;

/// The name of a message: its shard, its sender, and its ordinal of these, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct MessageId {
    pub(super) shard: ShardId,
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
        shard: ShardId,
        at: Position,
        time: Time,
        id: MessageId,
        /// The application's digest then.
        digest: u64,
    },
    /// The state of a shard that covers everything before a position.
    Take { shard: ShardId, at: Position, digest: u64 },
    /// Its own update was answered, and all that is before a position.
    Answered { shard: ShardId, to: Position, at_ns: u64 },
    /// A read that came at a time of the world was answered from the state before a position.
    Read { shard: ShardId, from_ns: u64, to: Position, at_ns: u64 },
    /// The order of a shard is final up to a time.
    Frontier { shard: ShardId, time: Time },
    /// It holds these messages of a shard, in the order of positions before `to`, and has not
    /// delivered them.
    Ahead { shard: ShardId, to: Position, messages: Vec<(Position, Time, MessageId)> },
    /// It is no longer in the group.
    Ended(End),
}

/// What one process did and was told.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) told: Vec<Told>,
    /// The number of messages that it multicast in each shard, and that were not given back.
    pub(super) n_multicast: BTreeMap<ShardId, u64>,
    /// The latest time of what was delivered to it.
    pub(super) latest: Time,
    /// By message: what that was when it multicast it.
    pub(super) causes: BTreeMap<(ShardId, u64), Time>,
    pub(super) asked_to_leave: bool,
    /// Whether a newcomer delivers from its first view on, without a state.
    pub(super) is_stateless: bool,
    /// The view in which the shard began that this is a record of (`shards_of`), if not the first.
    pub(super) born: Option<ViewId>,
}

/// A delivery: the position, the message, and the digest of the state then.
pub(super) type Delivered = (Position, MessageId, u64);

impl Record {
    pub(super) fn views(&self) -> impl Iterator<Item = &View> {
        self.told
            .iter()
            .filter_map(|told| if let Told::View(view) = told { Some(view) } else { None })
    }

    pub(super) fn deliveries(&self) -> impl Iterator<Item = Delivered> + '_ {
        self.told.iter().filter_map(|told| {
            let Told::Deliver { at, id, digest, .. } = told else { return None };
            Some((*at, *id, *digest))
        })
    }

    /// The times of what was delivered, with the positions.
    pub(super) fn times(&self) -> impl Iterator<Item = (Position, Time, MessageId)> + '_ {
        self.told.iter().filter_map(|told| {
            let Told::Deliver { at, time, id, .. } = told else { return None };
            Some((*at, *time, *id))
        })
    }

    /// The position of the state that it was given, if it was.
    pub(super) fn taken(&self) -> Option<(Position, u64)> {
        self.told.iter().find_map(|told| {
            let Told::Take { at, digest, .. } = told else { return None };
            Some((*at, *digest))
        })
    }

    /// The number of messages that it multicast.
    pub(super) fn n_multicast(&self) -> u64 {
        self.n_multicast.values().sum()
    }

    /// The view in which what it is a record of began.
    pub(super) fn born(&self) -> ViewId {
        self.born.unwrap_or(ViewId::FIRST)
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
        let is_ready = first == self.born() || self.is_stateless;
        let first = Position { view: first, at: 0 };
        self.taken().map(|(at, _)| at).or(is_ready.then_some(first))
    }

    /// Whether others executed messages that it did not, and has no state for.
    pub(super) fn is_late(&self) -> bool {
        self.is_stateless && self.views().next().is_some_and(|view| view.id > self.born())
    }
}

/// All processes of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Whether only each sender's messages have an order.
    pub(super) is_unordered: bool,
    /// Whether the group is durable: what it agrees on is on disks.
    pub(super) is_durable: bool,
    /// By subgroup: the order of its messages, if it is not the group's.
    pub(super) modes: Vec<Option<Mode>>,
    /// The number of members below which nothing is multicast in a view.
    pub(super) n_adequate: usize,
    pub(super) records: BTreeMap<ProcessId, Record>,
    /// What their rows have said of the ends of views.
    pub(super) accord: Accord,
}

impl History {
    /// The order of the messages of a shard, if it is not the group's.
    fn mode_of(&self, shard: ShardId) -> Option<Mode> {
        self.modes.get(usize::from(shard.subgroup)).copied().flatten()
    }

    /// Whether what is delivered in a shard is on the disks of all its members.
    pub(super) fn is_logged(&self, shard: ShardId) -> bool {
        self.is_durable && self.mode_of(shard).is_none()
    }

    /// Whether only each sender's messages have an order in a shard.
    pub(super) fn lacks_order(&self, shard: ShardId) -> bool {
        self.is_unordered || self.mode_of(shard) == Some(Mode::Unordered)
    }

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

/// A process's time in one shard: from the view in which it comes to the one in which it is not
/// there. One that comes again has another.
type Stay = (ProcessId, u64);

impl History {
    /// What each shard's members were told of it, from its beginning until it begins again: each a
    /// history of its own, in which a process that comes back is another one.
    pub(super) fn shards(&self) -> BTreeMap<(ShardId, ViewId), History> {
        let mut shards: BTreeMap<(ShardId, ViewId), BTreeMap<Stay, Record>> = BTreeMap::new();
        for (process, record) in &self.records {
            // By shard: where the process is now.
            let mut now: BTreeMap<ShardId, (ViewId, Stay)> = BTreeMap::new();
            for (n, told) in (0..).zip(&record.told) {
                if let Told::View(view) = told {
                    now = stays(view, *process, &now, n);
                }
                let of = match told {
                    Told::View(_) | Told::Ended(_) => None,
                    Told::Deliver { shard, .. }
                    | Told::Take { shard, .. }
                    | Told::Answered { shard, .. }
                    | Told::Read { shard, .. }
                    | Told::Frontier { shard, .. }
                    | Told::Ahead { shard, .. } => Some(*shard),
                };
                for (shard, (since, stay)) in
                    now.iter().filter(|(id, _)| of.is_none_or(|of| of == **id))
                {
                    let fresh = || Record {
                        is_stateless: record.is_stateless || self.lacks_order(*shard),
                        born: Some(*since),
                        ..Record::default()
                    };
                    let records = shards.entry((*shard, *since)).or_default();
                    records.entry(*stay).or_insert_with(fresh).told.push(told.clone());
                }
            }
        }
        let history = |id: ShardId, records: BTreeMap<Stay, Record>| {
            let named = |((ProcessId(seat, Incarnation(n)), stay), record)| {
                (ProcessId(seat, Incarnation(n | stay << 32)), record)
            };
            History {
                is_unordered: self.lacks_order(id),
                is_durable: self.is_logged(id),
                records: records.into_iter().map(named).collect(),
                ..History::default()
            }
        };
        let of = |((id, since), records)| ((id, since), history(id, records));
        shards.into_iter().map(of).collect()
    }
}

/// The shards of `process` in `view`: those in which it was `before`, and new ones, numbered by the
/// `n` things that it was told. The first is numbered 0.
fn stays(
    view: &View,
    process: ProcessId,
    before: &BTreeMap<ShardId, (ViewId, Stay)>,
    n: u64,
) -> BTreeMap<ShardId, (ViewId, Stay)> {
    let own = view.shards().filter(|(_, shard)| shard.seats.contains(&process.0));
    own.map(|(id, shard)| {
        let old = before.get(&id).filter(|(since, _)| *since == shard.since);
        (id, old.copied().unwrap_or((shard.since, (process, n))))
    })
    .collect()
}

/// The number of a reason why a process is no longer in its group, for traces.
pub(super) const fn number_of(end: End) -> u64 {
    match end {
        End::Left => 0,
        End::Excluded => 1,
        End::Partitioned => 2,
        End::StateLost => 3,
        End::Overrun => 4,
        End::Damaged(_) => 5,
        End::OtherGroup => 6,
    }
}

/// Histories that tests make up.
#[cfg(test)]
pub(super) mod made_up {
    use super::*;
    use proto::vsync::{Member, Seating, Shard};

    pub(crate) fn process(seat: usize) -> ProcessId {
        ProcessId(Rank::at(seat), Incarnation(1))
    }

    pub(crate) fn id(sender: usize, ordinal: u64) -> MessageId {
        let shard = ShardId::default();
        MessageId { shard, sender: Rank::at(sender), incarnation: Incarnation(1), ordinal }
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
        let mut view = View::new(ViewId(number), seats.iter().map(member).collect());
        let seats: Vec<Rank> = seats.iter().map(|seat| Rank::at(*seat)).collect();
        let bearers = view.seats();
        let shards = vec![Shard { since: ViewId(1), seats, bearers, senders: bearers }];
        view.roster = vec![Seating { shards, is_adequate: true }];
        view
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
                shard: ShardId::default(),
                at: at(position.0, position.1),
                time: Time(10 * position.0 + position.1),
                id: id(message.0, message.1),
                digest: 0,
            };
            self.record(process(seat)).told.push(told);
            self
        }

        pub(crate) fn multicast(&mut self, seat: usize, n: u64) -> &mut Self {
            self.record(process(seat)).n_multicast.insert(ShardId::default(), n);
            self
        }

        pub(crate) fn took(&mut self, seat: usize, position: (u64, u64)) -> &mut Self {
            let shard = ShardId::default();
            let told = Told::Take { shard, at: at(position.0, position.1), digest: 0 };
            self.record(process(seat)).told.push(told);
            self
        }
    }
}
