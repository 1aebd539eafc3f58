//! Durable groups: messages, views and trims are on disks before anything follows from them (paper
//! 000, B.2 to B.4).
//!
//! A member writes the messages of its shards into a log of its own, in the order of positions, as
//! soon as it holds them without a gap, and tells in its row (`persisted`) how much of the order
//! the log has *synced*. What all members of the shard have persisted is stable, and is delivered:
//! *persist before stable*. So a delivery is the promise that the message survives.
//!
//! - W1 *Persisted is synced.* A member says that a position is persisted when its disk has
//!   reported a sync that covers every message before it, and the state that they follow. So the
//!   log of each member of a shard can bring back alone whatever was delivered in it (B.6).
//!   Asserted in `tell_persisted`. Mutants `PERSISTED_BEFORE_SYNC`, `PERSISTED_WITHOUT_STATE`.
//! - W2 *Stable is persisted by all.* Before the end of a view a member delivers what every member
//!   of the shard has persisted; trims are the shortest persisted orders. (In place of what they
//!   have received, V3 and C6.) Mutant `STABLE_WHEN_RECEIVED`.
//! - W3 *An echo is synced.* A change is in a row, the leader's too, when it is synced there. What
//!   is synced when its leader is suspected is not told: the row has promised that (C3). It stays
//!   in the log: while a view ends, no state is kept, since that frees what lies before. Mutants
//!   `ECHO_BEFORE_SYNC`, `KEPT_WHILE_WEDGED`.
//! - W4 *A view is synced.* Nothing is told in a view before the view, and the trims of the one
//!   before, are synced. So a member of two views has the first one on its disk (V8). Mutant
//!   `ROW_BEFORE_VIEW`.
//! - W5 *No shard begins again.* A member ends that trusts no member of a shard, or none that has
//!   its state, where the shard may have delivered something: the group waits for their logs, to be
//!   restarted (B.6). The last member with a shard's state does not leave it, and the last member
//!   of a group, all of whose shards may be in memory alone, does not leave that: an empty view
//!   would be the newest one, which no restart could end. Mutant `SHARD_GIVEN_UP`.
//! - W6 *Ready is synced.* A member has the state of its shard when that is synced: a newcomer the
//!   one that it was given, others the application's own. While one has none, its shard delivers
//!   nothing (W1). Mutant `READY_BEFORE_SYNC`.
//! - W7 *In memory alone.* Of a subgroup that is declared so nothing is in a log: it delivers what
//!   is stable in memory (V3), its trims are of what was received, and its shards begin again when
//!   all members with the state are gone (`roster`, L5), at a restart always. A newcomer is ready
//!   with the state that it was given. Mutants `MEMORY_IS_LOGGED`, `MEMORY_IS_WAITED_FOR`.
//! - W8 *No shard fills the log.* The log is one, and is freed up to the first record that any of
//!   its shards needs. So the state of each is written again behind so many bytes of it, whatever
//!   they are: messages of another shard, or views without messages. That is `keep_bytes`, or the
//!   length of all states if they are longer, so that together they cost no more than what they
//!   free. One is copied and written at a time, the one that is the longest time there first: all
//!   of them together would be more than an application copies before it counts as sluggish. The
//!   log has about as many bytes, and two states of each shard. Tested by `tests::room`. Mutant
//!   `KEPT_BY_THE_IDLE`.

use super::bugs::{Bug, Plantings};
use super::clock::Time;
use super::current::{Current, Pending};
use super::journal::{Journal, Record};
use super::order::Standing;
use super::outbox::Outbox;
use super::records;
use super::shard::{Mode, Ordered, Shard, ShardId, ViewId};
use super::view::Change;
use super::{End, Output, Position};
use alloc::vec::Vec;
use base::{Port, Rank, SeatSet};

/// What a member keeps on its disk of its shard of a subgroup, through all views that it is in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    /// The state that the application was asked for, to be kept.
    pub(super) asked: Option<Position>,
    /// The first record that is needed behind that state.
    floor: Record,
    /// The state that is kept: its first and its last record.
    base: Option<(Record, Record)>,
    /// The first record that the log needs for this shard.
    needed: Record,
    /// The bytes that the journal had ([`Journal::n_bytes`]) when that state was asked for.
    n_before: u64,
    /// The bytes of that state.
    n_state_bytes: u64,
}

impl Kept {
    /// What was found on the disk: a state, and messages behind it.
    pub(super) fn found(past: &records::Past) -> Kept {
        let n_state_bytes = past.base.as_ref().map_or(0, |(_, state)| state.len() as u64);
        let base = Some((Record(0), Record(0)));
        Kept { base, n_state_bytes, ..Kept::default() }
    }

    /// Whether the state is on the disk (W6).
    pub(super) fn is_synced(&self, journal: &Journal, planted: impl Plantings) -> bool {
        let is_there = self.base.is_some_and(|(_, last)| journal.is_synced(last));
        is_there || self.base.is_some() && planted.has(Bug::ReadyBeforeSync)
    }

    /// Whether the state is to be written again: `n_bytes` of other records are in the log behind
    /// it, of whatever shard, or of none. It keeps all of them from being freed (W8).
    pub(super) const fn is_due(&self, n_bytes: u64, journal: &Journal) -> bool {
        journal.n_bytes() - self.n_before >= n_bytes
    }

    /// Whether the state is copied or written again, and not synced.
    pub(super) fn is_under_way(&self, journal: &Journal) -> bool {
        self.asked.is_some() || self.base.is_some_and(|(_, last)| !journal.is_synced(last))
    }

    /// The bytes that the journal had when the state was asked for.
    pub(super) const fn n_before(&self) -> u64 {
        self.n_before
    }

    /// The bytes of the state that is kept.
    pub(super) const fn n_state_bytes(&self) -> u64 {
        self.n_state_bytes
    }

    /// Whether it was asked for or put.
    pub(super) const fn is_begun(&self) -> bool {
        self.asked.is_some() || self.base.is_some()
    }

    /// Notes that the application is asked for the state at a position, behind which messages are
    /// in the log from `floor` on.
    pub(super) const fn ask(&mut self, at: Position, floor: Record, journal: &Journal) {
        (self.asked, self.floor, self.n_before) = (Some(at), floor, journal.n_bytes());
    }

    /// Puts the state of `shard` at a position, which was asked for.
    pub(super) fn put(
        &mut self,
        (shard, since): (ShardId, ViewId),
        at: Position,
        clock: Time,
        state: &[u8],
        journal: &mut Journal,
    ) {
        self.n_state_bytes = state.len() as u64;
        let first = journal.next();
        let mut last = first;
        for piece in records::states((shard, since), at, clock, state) {
            last = journal.put_covering(|| piece);
        }
        self.asked = None;
        self.needed = self.floor.min(first);
        self.base = Some((first, last));
    }

    /// The first record that is needed, once the state is synced.
    pub(super) fn needed(&self, journal: &Journal) -> Option<Record> {
        self.base.filter(|(_, last)| journal.is_synced(*last)).map(|_| self.needed)
    }
}

impl<P: Plantings> Current<P> {
    /// Whether the group is durable: what it agrees on is on disks.
    pub(super) fn has_disks(&self) -> bool {
        self.layout.shape.mode == Mode::Durable
    }

    /// Whether the messages of a subgroup are.
    pub(super) fn is_durable(&self, subgroup: usize) -> bool {
        self.modes[subgroup] == Mode::Durable
    }

    /// The shards whose messages are.
    fn durable_shards(&self) -> impl Iterator<Item = (ShardId, &Shard)> {
        self.view.shards().filter(|(id, _)| self.is_durable(id.subgroup.into()))
    }

    // ---- messages ----

    /// Puts what this member holds without a gap into its log, and tells what is synced of it.
    pub(super) fn persist(
        &mut self,
        subgroup: usize,
        kept: &Kept,
        outbox: &Outbox,
        journal: &mut Journal,
        port: &impl Port,
    ) -> Result<(), End> {
        let held = self.held_by(subgroup, self.me);
        let since = self.shard_since(subgroup);
        while self.lane(subgroup).logged < held && journal.has_room() {
            let lane = self.lane(subgroup);
            let (position, shard) = (lane.logged, lane.id);
            let message = self.message_at(subgroup, position, outbox, port)?;
            let lane = self.lanes[subgroup].as_mut().expect("a member of one of its shards");
            lane.logged += 1;
            let Some((sender, stamp, message)) = message else {
                lane.note_logged(None);
                continue;
            };
            // `landing`, V18: the log looks at messages before they are stable.
            let Some(bytes) = message.bytes() else { return Err(End::Excluded) };
            let at = Position { view: self.view.id, at: position };
            lane.logged_time = lane.logged_time.max(stamp);
            let time = lane.logged_time;
            let record = journal.put(|| {
                let head = records::message((shard, since), at, time, &sender);
                [&head, bytes].concat()
            });
            lane.note_logged(Some(record));
        }
        self.tell_persisted(subgroup, kept, journal);
        Ok(())
    }

    fn shard_since(&self, subgroup: usize) -> ViewId {
        let id = self.lane(subgroup).id;
        self.view.shard(id).expect("a shard of the view").since
    }

    /// W1
    fn tell_persisted(&mut self, subgroup: usize, kept: &Kept, journal: &Journal) {
        if !kept.is_synced(journal, self.planted) && !self.planted.has(Bug::PersistedWithoutState) {
            return;
        }
        let hastens = self.planted.has(Bug::PersistedBeforeSync);
        let lane = self.lanes[subgroup].as_mut().expect("a member of one of its shards");
        let is_synced = |(_, record): &mut (u64, Record)| hastens || journal.is_synced(*record);
        let mut end = None;
        while let Some((position, record)) = lane.marks.pop_front_if(is_synced) {
            assert!(hastens || journal.is_synced(record), "W1: what is persisted is synced");
            end = Some(position);
        }
        if let Some(end) = end {
            self.table.set(self.row.persisted, subgroup, end);
        }
    }

    /// W2: the length of the order of `shard` that is safe at the member on `seat`.
    pub(super) fn safe_at(&self, subgroup: usize, shard: Ordered<'_>, seat: Rank) -> u64 {
        let is_logged =
            self.is_durable(subgroup) || self.has_disks() && self.planted.has(Bug::MemoryIsLogged);
        if is_logged && !self.planted.has(Bug::StableWhenReceived) {
            self.table.get(seat, self.row.persisted, subgroup)
        } else {
            self.held_of(subgroup, shard, seat)
        }
    }

    // ---- the end of a view ----

    /// Whether this member has accepted, or is about to accept, a change of this ballot or a later.
    pub(super) fn has_accepted(&self, standing: Standing) -> bool {
        let is_pending = self.pending.as_ref().is_some_and(|of| of.standing >= standing);
        is_pending || self.own(self.row.proposer) >= super::columns::ballot(standing)
    }

    /// Accepts the `change` of the leader of `standing`: tells it as soon as it is synced (W3).
    pub(super) fn accept(&mut self, standing: Standing, change: Change, journal: &mut Journal) {
        let ballot = super::columns::ballot(standing);
        let record = journal.put(|| records::accept(ballot, &change));
        self.pending = Some(Pending { standing, change, record });
        self.tell_accepted(journal);
    }

    /// W3, C3
    pub(super) fn tell_accepted(&mut self, journal: &Journal) {
        let is_synced = |record| journal.is_synced(record) || self.planted.has(Bug::EchoBeforeSync);
        if !self.pending.as_ref().is_some_and(|of| is_synced(of.record)) {
            return;
        }
        let Some(Pending { standing, change, .. }) = self.pending.take() else { return };
        let is_bound = self.view.standing(self.leader()) == Some(standing);
        let is_new = self.own(self.row.proposer) < super::columns::ballot(standing);
        if is_new && (is_bound || self.planted.has(Bug::EchoSuspected)) {
            self.row.publish(&mut self.table, &change, standing);
        }
    }

    /// W5: whether a shard that may have delivered something has lost its state, of what is left.
    pub(super) fn is_shard_lost(&self) -> bool {
        if self.planted.has(Bug::ShardGivenUp) {
            return false;
        }
        let trusted = self.trusted();
        self.durable_shards().any(|(id, shard)| {
            let left = trusted.intersection(shard.members());
            let is_unready = |seat| !self.has_state(seat, id.subgroup.into());
            let is_old = shard.since < self.view.id;
            // (Bearers are ready from the beginning, before their rows say so.)
            let has_none =
                left.intersection(shard.bearers).is_empty() && self.table.all(left, is_unready);
            !shard.seats.is_empty() && (left.is_empty() || is_old && has_none)
        })
    }

    /// W5: of the members that want to leave, those without which a shard would have no log, or the
    /// group no member.
    pub(super) fn last_of_shards(&self, leavers: SeatSet) -> SeatSet {
        let trusted = self.trusted();
        let last = self.durable_shards().filter_map(|(id, shard)| {
            let left = trusted.intersection(shard.members());
            let bears = |seat: &Rank| self.has_state(*seat, id.subgroup.into());
            let stays = left.difference(leavers).iter().any(|seat| bears(&seat));
            let mut own = shard.seats.iter().copied().filter(|seat| left.contains(*seat));
            let eldest = own.clone().find(bears).or_else(|| own.next());
            eldest.filter(|_| !stays)
        });
        let last: SeatSet = last.collect();
        if last.is_empty() && leavers.covers(trusted) {
            return trusted.iter().take(1).collect();
        }
        last
    }
}

/// Appends to `out` what an application needs to stand where its log ends: the state of a shard,
/// and the messages behind it.
pub(super) fn replay(past: records::Past, out: &mut Vec<Output>) {
    let Some((at, bytes)) = past.base else { return };
    out.push(Output::TakeState { shard: past.shard, at, bytes });
    out.extend(past.messages.into_iter().map(Output::Deliver));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::DiskEvent;
    use crate::planted::{Planted, Sound};
    use crate::stage::disk::TestDisk;

    #[test]
    fn w6_a_state_is_there_when_all_of_it_is_synced() {
        let mut disk = TestDisk::default();
        let mut journal = Journal::on(&disk);
        let mut kept = Kept::default();
        let at = Position { view: ViewId(2), at: 7 };
        kept.ask(at, journal.next(), &journal);
        assert!(kept.is_begun() && !kept.is_synced(&journal, Sound));
        kept.put((ShardId::default(), ViewId(1)), at, Time(3), &[5; 100], &mut journal);
        journal.write(&mut disk);
        assert!(!kept.is_synced(&journal, Sound) && kept.needed(&journal).is_none());
        assert!(kept.is_synced(&journal, Planted(Bug::ReadyBeforeSync)));
        let flush = disk.end_sync().expect("a sync was asked for");
        journal.on_event(DiskEvent::Synced(flush));
        assert!(kept.is_synced(&journal, Sound));
        assert_eq!(kept.needed(&journal), Some(Record(1)));
    }
}
