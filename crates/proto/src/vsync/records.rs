//! The records of a durable member's log, and what a process finds in the log of those before it.
//!
//! ```text
//! Fresh      states and messages before are of no use: this process begins as a newcomer
//! Life       a process begins on this log
//! View       a view that it is in, and the trims of the one before
//! Promise    a ballot, of a restart, below which it accepts nothing more in its view
//! Accept     a change of its view that it accepts, and the ballot
//! State      a piece of its shard's state
//! Message    a message of its shard, in the order of positions
//! ```
//!
//! - P1 *What is found was written.* A lane that is found has the whole state of its shard at a
//!   position, and every message behind it up to the end of what is found, none twice; what a trim
//!   cut off is not among them. Mutant `UNTRIMMED_LOG`.
//! - P2 *A vote is kept* until the next view is there in its place: a view, and what was promised
//!   and accepted in it, is found as long as no later view, or another group's, stands behind
//!   it. Mutant `VOTE_FORGOTTEN`.

use super::bugs::{Bug, Plantings};
use super::clock::Time;
use super::payload::Payload;
use super::shard::{ShardId, ViewId};
use super::view::{Change, Knock, View};
use super::wire::PIECE_BYTES;
use super::{Delivery, Position};
use crate::codec::{self, Coded, Reader, Words};
use crate::disk::Disk;
use alloc::vec::Vec;
use base::{Incarnation, Rank, Slot};

codec::coded! {
    enum Record<'a> in Words {
        Fresh = 0,
        Life(Knock) = 1,
        View { trims: Vec<u64>, view: View } = 2,
        Promise(u64) = 3,
        Accept { ballot: u64, change: Change } = 4,
        State {
            shard: ShardId,
            since: ViewId,
            at: Position,
            clock: Time,
            n_bytes: u64,
            offset: u64,
            bytes: &'a [u8],
        } = 5,
        Message {
            shard: ShardId,
            since: ViewId,
            at: Position,
            time: Time,
            sender: Knock,
            message: &'a [u8],
        } = 6,
    }
}

fn written(record: &Record<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    record.put(&mut out);
    out
}

pub(super) fn fresh() -> Vec<u8> {
    written(&Record::Fresh)
}

pub(super) fn life(me: &Knock) -> Vec<u8> {
    written(&Record::Life(*me))
}

pub(super) fn view(view: &View, trims: &[u64]) -> Vec<u8> {
    written(&Record::View { trims: trims.to_vec(), view: view.clone() })
}

pub(super) fn promise(ballot: u64) -> Vec<u8> {
    written(&Record::Promise(ballot))
}

pub(super) fn accept(ballot: u64, change: &Change) -> Vec<u8> {
    written(&Record::Accept { ballot, change: change.clone() })
}

/// The pieces of a state, which is of a time up to `clock`: at least one.
pub(super) fn states(
    (shard, since): (ShardId, ViewId),
    at: Position,
    clock: Time,
    state: &[u8],
) -> impl Iterator<Item = Vec<u8>> {
    let n = state.len().div_ceil(PIECE_BYTES).max(1);
    (0..n).map(move |piece| {
        let offset = piece * PIECE_BYTES;
        let bytes = &state[offset..state.len().min(offset + PIECE_BYTES)];
        let (n_bytes, offset) = (state.len() as u64, offset as u64);
        written(&Record::State { shard, since, at, clock, n_bytes, offset, bytes })
    })
}

/// The record of a message, which the message itself is to follow.
pub(super) fn message(
    (shard, since): (ShardId, ViewId),
    at: Position,
    time: Time,
    sender: &Knock,
) -> Vec<u8> {
    written(&Record::Message { shard, since, at, time, sender: *sender, message: &[] })
}

/// What is found of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) shard: ShardId,
    pub(super) since: ViewId,
    /// A whole state, and the position that it covers everything before.
    pub(super) base: Option<(Position, Vec<u8>)>,
    /// A state of which pieces are missing yet: its position, its length, what is there.
    part: Option<(Position, u64, Vec<u8>)>,
    /// The messages behind the base.
    pub(super) messages: Vec<Delivery>,
}

impl Past {
    const fn new(shard: ShardId, since: ViewId) -> Past {
        Past { shard, since, base: None, part: None, messages: Vec::new() }
    }

    /// The length of the order of `view` that is here: without the nulls at its end, which
    /// need not be kept.
    pub(super) fn end_in(&self, view: ViewId) -> u64 {
        let last = self.messages.last().filter(|last| last.at.view == view);
        let covered = self.base.as_ref().filter(|(at, _)| at.view == view);
        last.map_or(0, |last| last.at.at + 1).max(covered.map_or(0, |(at, _)| at.at))
    }

    /// Drops what the trim of `view` cut off.
    pub(super) fn trim(&mut self, view: ViewId, trim: u64) {
        self.messages.retain(|one| one.at.view != view || one.at.at < trim);
    }
}

/// A disk holds what no process of a group writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadableError;

/// What a log tells of the processes before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The processes that wrote into this log since its view began, and the one that is a member.
    pub(super) lives: Vec<Incarnation>,
    /// The last view.
    pub(super) view: Option<View>,
    /// The trims of the view before that.
    pub(super) trims: Vec<u64>,
    /// The ballot of the last promise in this view.
    pub(super) promised: u64,
    /// The change of this view that was accepted last.
    pub(super) accepted: Option<(u64, Change)>,
    /// The latest time of the states and messages there.
    pub(super) clock: Time,
    /// By subgroup.
    pub(super) pasts: Vec<Option<Past>>,
    /// The bytes of all records but states.
    pub(super) n_bytes: u64,
}

impl Found {
    /// Everything on `disk`, which the processes on `seat` wrote. `None` for a log of something
    /// else.
    pub(super) fn on(
        disk: &mut impl Disk,
        seat: Rank,
        n_subgroups: usize,
        planted: impl Plantings,
    ) -> Option<Found> {
        let mut found = Found { pasts: alloc::vec![None; n_subgroups], ..Found::default() };
        let mut bytes = Vec::new();
        for slot in disk.start().0..disk.end().0 {
            disk.read(Slot(slot), &mut bytes)?;
            found.take(&bytes, seat, planted)?;
        }
        Some(found)
    }

    fn take(&mut self, record: &[u8], seat: Rank, planted: impl Plantings) -> Option<()> {
        // (What stands behind a record is not looked at.)
        let n_bytes = record.len() as u64;
        let record = Record::take(&mut Reader::new(record)).ok()?;
        self.n_bytes += if matches!(record, Record::State { .. }) { 0 } else { n_bytes };
        match record {
            // P2: (a crash may follow at once) its processes are what they were.
            Record::Fresh => {
                self.pasts.fill(None);
                if planted.has(Bug::VoteForgotten) {
                    (self.view, self.promised, self.accepted) = (None, 0, None);
                }
            }
            Record::Life(process) => self.lives.push(process.incarnation),
            Record::View { trims, view } => self.enter(view, trims, seat, planted),
            Record::Promise(ballot) => self.promised = ballot,
            Record::Accept { ballot, change } => {
                self.accepted = Some((ballot, change));
                self.promised = self.promised.max(ballot);
            }
            Record::State { shard, since, at, clock, n_bytes, offset, bytes } => {
                self.clock = self.clock.max(clock);
                self.past(shard, since)?.take_piece(at, [n_bytes, offset], bytes);
            }
            Record::Message { shard, since, at, time, sender, message } => {
                self.clock = self.clock.max(time);
                let message = Payload::from(message);
                let past = self.past(shard, since)?;
                past.messages.push(Delivery { shard, at, time, sender, message });
            }
        }
        Some(())
    }

    fn past(&mut self, shard: ShardId, since: ViewId) -> Option<&mut Past> {
        let past = self.pasts.get_mut(usize::from(shard.subgroup))?;
        if past.as_ref().is_none_or(|past| (past.shard, past.since) != (shard, since)) {
            *past = Some(Past::new(shard, since));
        }
        past.as_mut()
    }

    /// Takes it that the process on `seat` is in `view`, after one with these trims. (A view that
    /// is there already is written again, where what lies before it is freed.)
    pub(super) fn enter(
        &mut self,
        view: View,
        trims: Vec<u64>,
        seat: Rank,
        planted: impl Plantings,
    ) {
        if self.view.as_ref().is_some_and(|own| (own.group, own.id) == (view.group, view.id)) {
            return;
        }
        if !planted.has(Bug::UntrimmedLog) {
            let before = ViewId(view.id.0 - 1);
            for ((id, _), trim) in view.shards().zip(&trims) {
                let past = self.pasts.get_mut(usize::from(id.subgroup)).and_then(Option::as_mut);
                past.into_iter().filter(|past| past.shard == id).for_each(|past| {
                    past.trim(before, *trim);
                });
            }
        }
        for (subgroup, past) in self.pasts.iter_mut().enumerate() {
            let own = view.shard_of(seat, subgroup);
            let since = own.and_then(|own| view.shard(own)).map(|shard| shard.since);
            past.take_if(|past| own != Some(past.shard) || since != Some(past.since));
        }
        if let Some(member) = view.member(seat) {
            let own = member.process.incarnation;
            self.lives.retain(|life| *life >= own);
            if !self.lives.contains(&own) {
                self.lives.insert(0, own);
            }
        }
        (self.view, self.trims) = (Some(view), trims);
        (self.promised, self.accepted) = (0, None);
    }

    /// Whether `process` is one of those that wrote into this log.
    pub(super) fn is_of(&self, process: &Knock) -> bool {
        self.lives.contains(&process.incarnation)
    }
}

impl Past {
    fn take_piece(&mut self, at: Position, [n_bytes, offset]: [u64; 2], bytes: &[u8]) {
        if offset == 0 {
            self.part = Some((at, n_bytes, Vec::new()));
        }
        // (The first pieces of a state that is of no use any longer may be freed.)
        let is_next = |part: &&mut (Position, u64, Vec<u8>)| {
            part.0 == at && part.1 == n_bytes && part.2.len() as u64 == offset
        };
        let Some((_, _, part)) = self.part.as_mut().filter(is_next) else { return };
        part.extend(bytes);
        if let Some((at, _, state)) = self.part.take_if(|part| part.2.len() as u64 == n_bytes) {
            self.messages.retain(|one| one.at >= at);
            self.base = Some((at, state));
        }
    }
}

/// A change that a log has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The view that it ends.
    pub view: ViewId,
    /// The standing of the leader that proposed it; a later number if a restart did.
    pub standing: u64,
    /// The bytes of the change.
    pub change: Vec<u8>,
}

impl Accepted {
    /// The last one in the log on `disk`, of the view that was written last: what lies before that
    /// record is freed sooner or later.
    pub fn on(disk: &mut impl Disk) -> Option<Accepted> {
        let (mut last, mut accepted, mut bytes) = (None, None, Vec::new());
        for slot in disk.start().0..disk.end().0 {
            disk.read(Slot(slot), &mut bytes)?;
            match Record::take(&mut Reader::new(&bytes)).ok()? {
                Record::View { view, .. } => (last, accepted) = (Some(view.id), None),
                Record::Accept { ballot, change } => accepted = Some((ballot, change)),
                Record::Fresh | Record::Life(_) | Record::Promise(_) => {}
                Record::State { .. } | Record::Message { .. } => {}
            }
        }
        let (view, (ballot, accepted)) = (last?, accepted?);
        let mut change = Vec::new();
        accepted.put(&mut change);
        Some(Accepted { view, standing: ballot.checked_sub(1)?, change })
    }
}

/// The highest ballot that the log on `disk` has promised or accepted in the view that was written
/// last; 0 for none.
pub fn promised(disk: &mut impl Disk) -> u64 {
    let (mut last, mut highest, mut bytes) = (None, 0, Vec::new());
    for slot in disk.start().0..disk.end().0 {
        let record = disk.read(Slot(slot), &mut bytes);
        match record.and_then(|_| Record::take(&mut Reader::new(&bytes)).ok()) {
            // (One that is there already may be written again.)
            Some(Record::View { view, .. }) if last != Some(view.id) => {
                (last, highest) = (Some(view.id), 0);
            }
            Some(Record::Promise(ballot) | Record::Accept { ballot, .. }) => {
                highest = highest.max(ballot);
            }
            _ => {}
        }
    }
    highest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Entry, EntryHead};
    use crate::planted::{Planted, Sound};
    use crate::stage::bytes::{self, Example};
    use crate::stage::disk::TestDisk;
    use crate::vsync::view::tests::{founded_by, process};
    use base::SeatSet;

    const SHARD: ShardId = ShardId { subgroup: 0, shard: 0 };

    fn at(view: u64, at: u64) -> Position {
        Position { view: ViewId(view), at }
    }

    fn record_of(at: Position, text: &[u8]) -> Vec<u8> {
        let mut record = message((SHARD, ViewId(1)), at, Time(at.at), &process(1, 1));
        record.extend(text);
        record
    }

    fn found(records: &[Vec<u8>], planted: impl Plantings) -> Found {
        let mut found = Found { pasts: alloc::vec![None], ..Found::default() };
        for record in records {
            found.take(record, Rank::at(1), planted).expect("a record");
        }
        found
    }

    fn texts(found: &Found) -> Vec<Vec<u8>> {
        let past = found.pasts[0].as_ref().expect("of this shard");
        past.messages.iter().map(|one| one.message.to_vec()).collect()
    }

    /// A record, and what is found where it is the only one.
    fn example(record: &[u8]) -> Option<Example> {
        let names = ["Fresh", "Life", "View", "Promise", "Accept", "State", "Message"];
        let mut found = Found { pasts: alloc::vec![None; 2], ..Found::default() };
        found.take(record, Rank::at(1), Sound)?;
        Some(Example::new(format_args!("{} {found:?}", names[record[0] as usize]), record.to_vec()))
    }

    #[test]
    fn golden_bytes_of_each_record() {
        let shard = ShardId { subgroup: 1, shard: 513 };
        let joined = [process(4, 2)].to_vec();
        let change = Change { joined, trims: [8].to_vec(), ..Change::default() };
        let mut records = [
            fresh(),
            life(&process(1, 3)),
            view(&founded_by(&[process(3, 1), process(9, 4)]), &[3, 1]),
            promise(257),
            accept(259, &change),
        ]
        .to_vec();
        records.extend(states((shard, ViewId(1)), at(2, 7), Time(12), b"state"));
        records.push(message((shard, ViewId(1)), at(2, 7), Time(13), &process(1, 1)));
        records.push(record_of(at(2, 7), b"text"));
        let examples: Vec<_> = records.iter().filter_map(|record| example(record)).collect();
        bytes::check("vsync/scripts/records.txt", 0, &examples, &example);
    }

    #[test]
    fn p1_what_a_trim_cut_off_is_not_found_and_a_state_stands_for_what_it_covers() {
        let first = founded_by(&[process(0, 1), process(1, 1)]);
        let change = Change {
            removed: [Rank::at(0)].into_iter().collect(),
            bearers: [[0, 1].map(Rank::at).into_iter().collect::<SeatSet>()].to_vec(),
            trims: [2].to_vec(),
            ..Change::default()
        };
        let next = first.after(&change, &[crate::vsync::Subgroup::whole()], Sound);
        let long: Vec<u8> = (0..PIECE_BYTES + 9).map(|n| n as u8).collect();
        let mut records = [life(&process(1, 1)), view(&first, &[])].to_vec();
        records.extend(states((SHARD, ViewId(1)), at(1, 0), Time(4), b""));
        records.extend([0, 1, 2].map(|n| record_of(at(1, n), &[n as u8])));
        records.push(accept(1, &change));
        let before = found(&records, Sound);
        assert_eq!(before.accepted, Some((1, change.clone())));
        assert_eq!(
            (texts(&before).len(), before.pasts[0].as_ref().unwrap().end_in(ViewId(1))),
            (3, 3)
        );
        records.push(view(&next, &change.trims));
        records.push(record_of(at(2, 0), b"next"));
        let after = found(&records, Sound);
        assert_eq!(texts(&after), [&b"\0"[..], b"\x01", b"next"]);
        assert_eq!((after.accepted.clone(), after.view.clone()), (None, Some(next)));
        assert_eq!(texts(&found(&records, Planted(Bug::UntrimmedLog))).len(), 4);
        let mut pieces: Vec<Vec<u8>> =
            states((SHARD, ViewId(1)), at(2, 0), Time(40), &long).collect();
        let last = pieces.pop().expect("two pieces");
        records.extend(pieces);
        assert_eq!(texts(&found(&records, Sound)).len(), 3, "a state in part stands for nothing");
        records.push(last);
        let whole = found(&records, Sound);
        assert_eq!(whole.pasts[0].as_ref().unwrap().base, Some((at(2, 0), long)));
        assert_eq!(texts(&whole), [b"next"]);
    }

    #[test]
    fn p2_a_newcomer_has_its_vote_until_the_next_view_is_there() {
        let first = founded_by(&[process(0, 1), process(1, 1)]);
        let mut records = [life(&process(1, 1)), view(&first, &[])].to_vec();
        records.push(record_of(at(1, 0), b"of no use"));
        records.extend([accept(1, &Change::default()), promise(257), fresh()]);
        let crashed = found(&records, Sound);
        assert_eq!(crashed.pasts, [None]);
        assert_eq!((crashed.view, crashed.promised), (Some(first.clone()), 257));
        assert_eq!(crashed.accepted, Some((1, Change::default())));
        assert_eq!(found(&records, Planted(Bug::VoteForgotten)).accepted, None);
        let other = View { group: 9, ..first };
        records.push(view(&other, &[]));
        let next = found(&records, Sound);
        assert_eq!((next.view, next.promised, next.accepted), (Some(other), 0, None));
    }

    #[test]
    fn an_acceptance_before_its_view_is_written_again_does_not_count() {
        let first = founded_by(&[process(0, 1), process(1, 1)]);
        let mut disk = TestDisk::default();
        let mut put = |record: &[u8]| {
            let head = EntryHead { slot: disk.end(), ballot: base::Ballot::NONE, view: 0 };
            disk.append(Entry { head, payload: record });
            Accepted::on(&mut disk).map(|accepted| (accepted.view, accepted.standing))
        };
        assert_eq!(put(&view(&first, &[])), None);
        assert_eq!(put(&accept(2, &Change::default())), Some((first.id, 1)));
        assert_eq!(put(&promise(3)), Some((first.id, 1)));
        assert_eq!(put(&view(&first, &[])), None);
    }
}
