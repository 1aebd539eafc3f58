//! The table of connections: which entries are executed, each once and in its connection's order.
//!
//! An entry that lost its leader is proposed again, and so it can be decided twice, or after one
//! that its owner sent later. The table decides by the entry alone, and so do all members alike.
//!
//! - I1 an entry is executed at most once. An opening uses its number up; another entry of a
//!   connection has to carry the connection's next index.
//! - I2 the entries of a connection are executed in the order in which the owner made them, without
//!   a gap: one that comes too early is [`Verdict::TooEarly`], has no effect and is not answered,
//!   and the owner, which has the missing one still to send, sends both again.
//! - I3 an ended connection stays ended. Its number is used up, by [`Entry::Abort`] too if its
//!   opening was not executed.
//! - I4 the connections of a process end when a later process of the same member begins, and
//!   nothing of the earlier process is executed from then on. Those of a member that was removed
//!   end by [`Entry::Left`], and nothing of its process is executed until a later one begins.
//! - I5 numbers of one process that are used span at most [`SPAN_MAX`] above the first unused: the
//!   owner opens no connection beyond that (`clients`), and the table refuses one.
//!
//! The property test `entries_in_any_order_and_number_are_executed_as_the_owner_made_them` checks
//! I1 to I3.

use crate::bugs::Bug;
use crate::entry::{ConnectionId, Entry};
use crate::words;
use base::{Incarnation, MAX_MEMBERS, Rank};
use proto::planted::{Planting, Sound};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// See I5.
pub const SPAN_MAX: u64 = 4096;

/// The decision about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The entry takes effect now.
    Execute,
    /// The entry took effect before, or never will: the owner need not send it again.
    Over,
    /// An earlier entry of the same connection or process is missing (I2).
    TooEarly,
}

/// The connections of a member's latest process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    run: Incarnation,
    /// Every number up to this one is used up.
    used_to: u64,
    /// The used numbers above.
    used: BTreeSet<u64>,
    /// Whether the member was removed since the process began.
    has_left: bool,
}

impl Owner {
    fn new(run: Incarnation) -> Owner {
        Owner { run, used_to: 0, used: BTreeSet::new(), has_left: false }
    }

    fn has_used(&self, number: u64) -> bool {
        number <= self.used_to || self.used.contains(&number)
    }

    /// A number that is used up already leaves nothing behind.
    fn use_up(&mut self, number: u64) {
        if number > self.used_to {
            self.used.insert(number);
        }
        while self.used.remove(&(self.used_to + 1)) {
            self.used_to += 1;
        }
    }
}

/// The table of the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<B = Sound> {
    planted: B,
    owners: [Owner; MAX_MEMBERS],
    /// The next index of each open connection.
    connections: BTreeMap<ConnectionId, u64>,
}

impl Default for Table {
    fn default() -> Table {
        Table::new(Sound)
    }
}

impl<B: Planting<Bug>> Table<B> {
    /// The table in which no process has begun.
    pub fn new(planted: B) -> Table<B> {
        let owners = std::array::from_fn(|_| Owner::new(Incarnation(0)));
        Table { planted, owners, connections: BTreeMap::new() }
    }

    /// The number of open connections.
    pub fn n_open(&self) -> usize {
        self.connections.len()
    }

    /// Whether the connection is open.
    pub fn is_open(&self, id: ConnectionId) -> bool {
        self.connections.contains_key(&id)
    }

    /// The latest process of `owner` that has begun.
    pub fn run_of(&self, owner: Rank) -> Incarnation {
        self.owners[owner.index()].run
    }

    /// The open connections of `owner`, in order.
    pub fn open_of(&self, owner: Rank) -> impl DoubleEndedIterator<Item = ConnectionId> + '_ {
        let least = ConnectionId { owner, run: Incarnation(0), number: 0 };
        let most = ConnectionId { owner, run: Incarnation(u64::MAX), number: u64::MAX };
        self.connections.range(least..=most).map(|(id, _)| *id)
    }

    /// Whether the latest process of `owner` may open a connection with this number, which it has
    /// not used (I5).
    pub fn has_room(&self, owner: Rank, number: u64) -> bool {
        let used_to = self.owners[owner.index()].used_to;
        assert!(number > used_to, "{owner:?} has used {number}: these are another process's");
        number - used_to <= SPAN_MAX
    }

    /// Decides about an entry that this process made, by the process alone (I2, I4).
    pub fn judge_process(&self, (owner, run): (Rank, Incarnation)) -> Verdict {
        match run.cmp(&self.run_of(owner)) {
            Ordering::Less => Verdict::Over,
            Ordering::Equal if self.owners[owner.index()].has_left => Verdict::Over,
            Ordering::Equal => Verdict::Execute,
            Ordering::Greater => Verdict::TooEarly,
        }
    }

    /// Decides about `entry`, which is about connections, and takes its effect.
    pub fn execute(&mut self, entry: &Entry<'_>) -> Verdict {
        let (owner, run) = entry.process();
        let known = self.run_of(owner);
        if let Entry::Begin { .. } = entry {
            if run <= known {
                return Verdict::Over;
            }
            if !self.planted.has(Bug::EarlierRunsStayOpen) {
                self.end_below(owner, Incarnation(u64::MAX), u64::MAX);
            }
            self.owners[owner.index()] = Owner::new(run);
            return Verdict::Execute;
        }
        let by_process = self.judge_process((owner, run));
        if by_process != Verdict::Execute {
            return by_process;
        }
        match *entry {
            Entry::Begin { .. } => unreachable!("handled above"),
            Entry::Hash { .. } | Entry::Piece { .. } => unreachable!("about no connection"),
            Entry::Halt { .. } => unreachable!("it is executed by `end_all`"),
            Entry::Compare { .. } => Verdict::Execute,
            Entry::Open { id } => self.open(id),
            Entry::Input { id, index, .. } | Entry::HalfClose { id, index } => {
                let verdict = self.judge(id, index);
                if verdict == Verdict::Execute {
                    let next = self.connections.get(&id).map_or(0, |next| *next);
                    self.connections.insert(id, next.max(index + 1));
                }
                verdict
            }
            Entry::Close { id, index } => {
                let verdict = self.judge(id, index);
                if verdict == Verdict::Execute {
                    self.connections.remove(&id);
                }
                verdict
            }
            Entry::Abort { id } => self.abort(id),
            Entry::Gone { owner, run, below } => match self.end_below(owner, run, below) {
                true => Verdict::Execute,
                false => Verdict::Over,
            },
            Entry::Left { owner, .. } => {
                if !self.planted.has(Bug::LeftStaysOpen) {
                    self.end_below(owner, Incarnation(u64::MAX), u64::MAX);
                }
                self.owners[owner.index()].has_left = true;
                Verdict::Execute
            }
        }
    }

    /// Ends every connection (`checkpoint`, K6).
    pub(crate) fn end_all(&mut self) {
        self.connections.clear();
    }

    /// Appends what it knows.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for owner in &self.owners {
            let has_left = u64::from(owner.has_left);
            words::put(out, &[owner.run.0, has_left, owner.used_to, owner.used.len() as u64]);
            owner.used.iter().for_each(|number| words::put(out, &[*number]));
        }
        words::put(out, &[self.connections.len() as u64]);
        for (id, next) in &self.connections {
            words::put(out, &[id.owner.index() as u64, id.run.0, id.number, *next]);
        }
    }

    /// Reads that back, into an empty one.
    pub(crate) fn read(&mut self, rest: &mut &[u8]) -> Option<()> {
        for owner in &mut self.owners {
            let [run, has_left, used_to, n_used] = words::take_all(rest)?;
            (owner.run, owner.used_to) = (Incarnation(run), used_to);
            owner.has_left = has_left > 0 && !self.planted.has(Bug::LeftNotRestored);
            for _ in 0..n_used {
                owner.used.insert(words::take(rest)?);
            }
        }
        for _ in 0..words::take(rest)? {
            let [owner, run, number, next] = words::take_all(rest)?;
            let owner = Rank::new(owner as usize)?;
            self.connections.insert(ConnectionId { owner, run: Incarnation(run), number }, next);
        }
        Some(())
    }

    fn open(&mut self, id: ConnectionId) -> Verdict {
        let owner = &mut self.owners[id.owner.index()];
        let beyond = id.number.saturating_sub(owner.used_to) > SPAN_MAX;
        if owner.has_used(id.number) || beyond {
            return Verdict::Over;
        }
        owner.use_up(id.number);
        self.connections.insert(id, 1);
        Verdict::Execute
    }

    fn abort(&mut self, id: ConnectionId) -> Verdict {
        let was_open = self.connections.remove(&id).is_some();
        let owner = &mut self.owners[id.owner.index()];
        let beyond = id.number.saturating_sub(owner.used_to) > SPAN_MAX;
        if beyond || !was_open && owner.has_used(id.number) {
            return Verdict::Over;
        }
        if was_open || !self.planted.has(Bug::AbortLeavesNumber) {
            owner.use_up(id.number); // I3
        }
        Verdict::Execute
    }

    fn judge(&self, id: ConnectionId, index: u64) -> Verdict {
        match self.connections.get(&id) {
            Some(&next) if index == next => Verdict::Execute,
            Some(&next) if index < next => match self.planted.has(Bug::RepeatsExecute) {
                true => Verdict::Execute,
                false => Verdict::Over,
            },
            Some(_) if self.planted.has(Bug::GapsExecute) => Verdict::Execute,
            Some(_) => Verdict::TooEarly,
            None if self.owners[id.owner.index()].has_used(id.number) => Verdict::Over,
            None => Verdict::TooEarly,
        }
    }

    /// Ends the connections of `owner`'s processes up to `run` with numbers below `below`. Returns
    /// whether there were any.
    fn end_below(&mut self, owner: Rank, run: Incarnation, below: u64) -> bool {
        let n_before = self.connections.len();
        self.connections.retain(|id, _| id.owner != owner || id.run > run || id.number >= below);
        self.connections.len() < n_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proto::planted::Planted;

    const OWNER: Rank = Rank::at(1);
    const RUN: Incarnation = Incarnation(3);

    fn id(number: u64) -> ConnectionId {
        ConnectionId { owner: OWNER, run: RUN, number }
    }

    fn begun() -> Table {
        let mut table = Table::default();
        let begin = Entry::Begin { owner: OWNER, run: RUN };
        assert_eq!(table.execute(&begin), Verdict::Execute);
        assert_eq!(table.execute(&begin), Verdict::Over);
        table
    }

    #[test]
    fn i1_an_opening_that_comes_again_after_the_end_opens_nothing() {
        let mut table = begun();
        let open = Entry::Open { id: id(1) };
        assert_eq!(table.execute(&open), Verdict::Execute);
        assert_eq!(table.execute(&Entry::Close { id: id(1), index: 1 }), Verdict::Execute);
        assert_eq!(table.execute(&open), Verdict::Over);
        assert_eq!(table.n_open(), 0);
    }

    #[test]
    fn i2_input_before_its_opening_waits_and_is_executed_once() {
        let mut table = begun();
        let input = |index| Entry::Input { id: id(1), index, bytes: b"x" };
        assert_eq!(table.execute(&input(1)), Verdict::TooEarly);
        assert_eq!(table.execute(&Entry::Open { id: id(1) }), Verdict::Execute);
        assert_eq!(table.execute(&input(2)), Verdict::TooEarly);
        assert_eq!(table.execute(&input(1)), Verdict::Execute);
        assert_eq!(table.execute(&input(1)), Verdict::Over);
        assert_eq!(table.execute(&input(2)), Verdict::Execute);
    }

    #[test]
    fn i3_an_abort_ends_a_connection_whose_opening_comes_later() {
        let mut table = begun();
        assert_eq!(table.execute(&Entry::Abort { id: id(2) }), Verdict::Execute);
        assert_eq!(table.execute(&Entry::Open { id: id(2) }), Verdict::Over);
        let input = Entry::Input { id: id(2), index: 1, bytes: b"x" };
        assert_eq!(table.execute(&input), Verdict::Over, "it need not be sent again");
        assert_eq!(table.execute(&Entry::Abort { id: id(2) }), Verdict::Over);
    }

    #[test]
    fn i4_a_later_process_ends_the_connections_of_an_earlier_one() {
        let mut table = begun();
        table.execute(&Entry::Open { id: id(1) });
        let later = Incarnation(RUN.0 + 1);
        let of_later = ConnectionId { run: later, ..id(1) };
        assert_eq!(table.execute(&Entry::Open { id: of_later }), Verdict::TooEarly);
        assert_eq!(table.execute(&Entry::Begin { owner: OWNER, run: later }), Verdict::Execute);
        assert_eq!(table.n_open(), 0);
        let input = Entry::Input { id: id(1), index: 1, bytes: b"x" };
        assert_eq!(table.execute(&input), Verdict::Over);
        assert_eq!(table.execute(&Entry::Open { id: of_later }), Verdict::Execute);
    }

    #[test]
    fn the_dead_lose_what_was_open_and_no_more() {
        let mut table = begun();
        for number in 1..=3 {
            table.execute(&Entry::Open { id: id(number) });
        }
        let gone = Entry::Gone { owner: OWNER, run: RUN, below: 3 };
        assert_eq!(table.execute(&gone), Verdict::Execute);
        assert_eq!(table.open_of(OWNER).collect::<Vec<_>>(), [id(3)]);
        assert_eq!(table.execute(&gone), Verdict::Over, "there is nothing to end");
    }

    #[test]
    fn i4_of_a_member_that_was_removed_nothing_is_executed_until_it_is_added_again() {
        let mut table = begun();
        let left = Entry::Left { owner: OWNER, run: RUN };
        let input = Entry::Input { id: id(1), index: 1, bytes: b"x" };
        assert_eq!(table.execute(&Entry::Open { id: id(1) }), Verdict::Execute);
        assert_eq!(table.execute(&left), Verdict::Execute);
        assert_eq!(table.n_open(), 0);
        for late in [left, input, Entry::Open { id: id(2) }] {
            assert_eq!(table.execute(&late), Verdict::Over, "{late:?}");
        }
        let mut bytes = Vec::new();
        table.write(&mut bytes);
        let mut moved = Table::default();
        assert_eq!(moved.read(&mut &bytes[..]), Some(()));
        assert_eq!(moved, table);
        let later = Incarnation(RUN.0 + 1);
        assert_eq!(table.execute(&Entry::Begin { owner: OWNER, run: later }), Verdict::Execute);
        assert_eq!(table.execute(&left), Verdict::Over, "that is about the one before");
        let of_later = ConnectionId { run: later, ..id(1) };
        assert_eq!(table.execute(&Entry::Open { id: of_later }), Verdict::Execute);
    }

    /// Each had left eight bytes in every later state.
    #[test]
    fn a_connection_that_was_opened_and_aborted_leaves_nothing_behind() {
        let mut table = begun();
        for number in 1..=100 {
            assert_eq!(table.execute(&Entry::Open { id: id(number) }), Verdict::Execute);
            assert_eq!(table.execute(&Entry::Abort { id: id(number) }), Verdict::Execute);
        }
        let owner = &table.owners[OWNER.index()];
        assert_eq!((owner.used_to, owner.used.len()), (100, 0));
    }

    #[test]
    fn i5_numbers_far_above_the_first_unused_one_are_refused() {
        let mut table = begun();
        assert!(table.has_room(OWNER, SPAN_MAX) && !table.has_room(OWNER, SPAN_MAX + 1));
        assert_eq!(table.execute(&Entry::Open { id: id(SPAN_MAX + 1) }), Verdict::Over);
        assert_eq!(table.execute(&Entry::Open { id: id(SPAN_MAX) }), Verdict::Execute);
    }

    #[test]
    fn mistakes_show() {
        let planted = |bug, entries: &[Entry<'_>]| {
            let mut table = Table::new(Planted(bug));
            table.execute(&Entry::Begin { owner: OWNER, run: RUN });
            entries.iter().map(|entry| table.execute(entry)).last()
        };
        let open = Entry::Open { id: id(1) };
        let input = |index| Entry::Input { id: id(1), index, bytes: b"x" };
        let executes = Some(Verdict::Execute);
        assert_eq!(planted(Bug::GapsExecute, &[open, input(2)]), executes);
        assert_eq!(planted(Bug::RepeatsExecute, &[open, input(1), input(1)]), executes);
        assert_eq!(planted(Bug::AbortLeavesNumber, &[Entry::Abort { id: id(1) }, open]), executes);
    }

    proptest! {
        #[test]
        fn entries_in_any_order_and_number_are_executed_as_the_owner_made_them(
            picks in prop::collection::vec((1u64..4, 0u64..6), 0..300),
        ) {
            // Three connections; of each an opening, four inputs, and a close.
            let mut table = begun();
            let mut executed: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            for (number, index) in picks {
                let id = id(number);
                let entry = match index {
                    0 => Entry::Open { id },
                    5 => Entry::Close { id, index },
                    _ => Entry::Input { id, index, bytes: b"x" },
                };
                let done = executed.entry(number).or_default();
                let expected = match (done.len() as u64).cmp(&index) {
                    Ordering::Less => Verdict::TooEarly,
                    Ordering::Equal => Verdict::Execute,
                    Ordering::Greater => Verdict::Over,
                };
                prop_assert_eq!(table.execute(&entry), expected);
                if expected == Verdict::Execute {
                    done.push(index);
                }
                let is_open = (1..6).contains(&done.len());
                prop_assert_eq!(table.is_open(id), is_open);
            }
        }
    }
}
