//! The log: its part on disk, the ballots of its entries, and its configurations.
//!
//! - I1 `durable` covers only what a reported flush covers and no later cut has removed. By
//!   construction: [`Log::synced`] is the one place that raises it, [`Log::cut`] lowers it and
//!   shortens the flush that is under way.
//! - I2 A promise never falls, in this life or over lives; it counts (`promise_is_durable`) when a
//!   flush that was asked for after it is reported. Asserted in [`Log::promise`].
//! - I3 An earlier life's entries are not durable until this life has synced them: they may have
//!   been read from a cache that a power cut erases. By construction: [`Log::recover`].
//! - I16 A log that begins again behind a state whose last entry is not known is of no older ballot
//!   than it was. Asserted in [`Log::begin_at`]. Tested (`FORGET_NEWNESS`).

use super::bugs::Bug;
use super::wire::{RUNS_MAX, Run};
use crate::disk::{Disk, Entry, EntryHead, Flush};
use crate::le_word;
use crate::members::{MEMBERS_BYTES, Members, StateHead};
use crate::planted::Planting;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use base::{Ballot, Incarnation, Prefix, Slot};

/// The flag in an entry's view that its payload is a configuration.
pub(super) const IS_CONFIGURATION: u64 = 1 << 63;

/// A configuration, and one past its slot: it governs from there on, decided or not.
pub(super) type Placed = (Prefix, Members);

/// The knowledge about what precedes the log.
#[derive(Clone, Copy, Debug)]
struct Base {
    /// The first slot that the log may hold.
    prefix: Prefix,
    /// The ballot of the entry before, or, if that is not known, the newest that this log had.
    ballot: Ballot,
    is_exact: bool,
    /// The last configuration before. `None` after a state was installed, until a leader sends it.
    members: Option<Placed>,
}

/// A sync under way, and what it will make durable.
#[derive(Clone, Copy, Debug)]
struct Flight {
    flush: Flush,
    end: Prefix,
    promised: Ballot,
}

#[derive(Debug)]
pub(super) struct Log {
    incarnation: Incarnation,
    base: Base,
    runs: Vec<Run>,
    configurations: Vec<Placed>,
    end: Prefix,
    durable: Prefix,
    promised: Ballot,
    promised_durable: Ballot,
    flight: Option<Flight>,
    is_dirty: bool,
    /// The payloads of the last entries.
    tail: VecDeque<Vec<u8>>,
    tail_max: usize,
    spare: Vec<Vec<u8>>,
}

/// The version of the meta's layout.
const META_VERSION: u64 = 1;
const META_BYTES: usize = 7 * 8 + MEMBERS_BYTES;
const _: () = assert!(META_BYTES <= crate::disk::META_BYTES_MAX);

/// The reason why a machine cannot run on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The host has no disk.
    NoDisk,
    /// A new log was requested, and the disk has one already.
    NotEmpty,
    /// A recovery was requested, and the disk is empty.
    Empty,
    /// The machine's last meta does not have this version's layout.
    UnknownMeta,
}

impl core::fmt::Display for Unusable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Unusable::NoDisk => "a durable protocol needs stable storage: give it a data directory",
            Unusable::NotEmpty => "the data directory holds a log already: recover from it instead",
            Unusable::Empty => "the data directory holds no log: join as a new incarnation instead",
            Unusable::UnknownMeta => "another version wrote the data directory: run that version",
        })
    }
}

impl core::error::Error for Unusable {}

impl Log {
    /// A new log on an empty disk. `members` are those of a new cluster; `None` for a node that
    /// joins one.
    pub(super) fn create<D: Disk>(
        incarnation: Incarnation,
        members: Option<Members>,
        tail_max: usize,
        disk: &mut D,
    ) -> Result<Log, Unusable> {
        if disk.end() != Slot::ZERO || !disk.meta().is_empty() {
            return Err(Unusable::NotEmpty);
        }
        let mut log = Log {
            incarnation,
            base: Base {
                prefix: Prefix::ZERO,
                ballot: Ballot::NONE,
                is_exact: true,
                members: members.map(|members| (Prefix::ZERO, members)),
            },
            runs: Vec::new(),
            configurations: Vec::new(),
            end: Prefix::ZERO,
            durable: Prefix::ZERO,
            promised: Ballot::NONE,
            promised_durable: Ballot::NONE,
            flight: None,
            is_dirty: false,
            tail: VecDeque::new(),
            tail_max,
            spare: Vec::new(),
        };
        log.put_meta(disk);
        Ok(log)
    }

    /// The log of an earlier life.
    pub(super) fn recover<D: Disk>(
        planted: impl Planting<Bug>,
        tail_max: usize,
        disk: &mut D,
    ) -> Result<Log, Unusable> {
        // D1: everything that was reported durable is here, so every promise that was sent is.
        let (incarnation, mut promised, base) = match disk.meta() {
            [] => return Err(Unusable::Empty),
            meta => decode_meta(meta).ok_or(Unusable::UnknownMeta)?,
        };
        if planted.has(Bug::ForgetPromise) {
            promised = Ballot::NONE;
        }
        let mut log = Log {
            incarnation,
            base,
            runs: Vec::new(),
            configurations: Vec::new(),
            end: base.prefix,
            durable: Prefix::ZERO,
            promised,
            promised_durable: Ballot::NONE,
            flight: None,
            is_dirty: false,
            tail: VecDeque::new(),
            tail_max,
            spare: Vec::new(),
        };
        if disk.end().prefix_before() < base.prefix {
            // The meta that announced it was the last record on the disk.
            disk.begin_at(base.prefix.next_slot());
        } else if disk.start() < base.prefix.next_slot() {
            // The meta that announced it outlived the request to free the slots below.
            disk.free_below(base.prefix.next_slot());
        }
        let mut payload = Vec::new();
        while log.end.next_slot() < disk.end() {
            let slot = log.end.next_slot();
            let head = disk.head(slot).expect("between its start and its end a disk has no gaps");
            log.note(head, || {
                disk.read(slot, &mut payload);
                &payload
            });
        }
        // I3, I2: from now on the promise is this life's own.
        log.put_meta(disk);
        if planted.has(Bug::TrustRecovered) {
            (log.durable, log.promised_durable) = (log.end, log.promised);
        }
        Ok(log)
    }

    fn note<'p>(&mut self, head: EntryHead, payload: impl FnOnce() -> &'p Vec<u8>) {
        if self.last_ballot() != head.ballot || self.runs.is_empty() {
            self.runs.push(Run { first: head.slot, ballot: head.ballot });
        }
        self.end = head.slot.prefix_through();
        if head.view & IS_CONFIGURATION != 0
            && let Some(members) = Members::decode(payload())
        {
            self.configurations.push((self.end, members));
        }
    }

    // ---- content ----

    pub(super) const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    pub(super) const fn start(&self) -> Prefix {
        self.base.prefix
    }

    pub(super) const fn end(&self) -> Prefix {
        self.end
    }

    pub(super) const fn durable(&self) -> Prefix {
        self.durable
    }

    pub(super) const fn promised(&self) -> Ballot {
        self.promised
    }

    pub(super) fn promise_is_durable(&self) -> bool {
        self.promised_durable == self.promised
    }

    /// The ballot of the last entry, which with [`Log::end`] is this log's newness.
    pub(super) fn last_ballot(&self) -> Ballot {
        self.runs.last().map_or(self.base.ballot, |run| run.ballot)
    }

    /// The ballot of an entry, or of the one just before the log, if it is known.
    pub(super) fn ballot_at(&self, slot: Slot) -> Option<Ballot> {
        if slot.prefix_through() == self.base.prefix {
            return self.base.is_exact.then_some(self.base.ballot);
        }
        if slot < self.base.prefix.next_slot() || !self.end.contains(slot) {
            return None;
        }
        let after = self.runs.partition_point(|run| run.first <= slot);
        self.runs[..after].last().map(|run| run.ballot)
    }

    /// The ballot before the entry at `slot`; `NONE` if it is not known, or there is no such entry.
    pub(super) fn ballot_before(&self, slot: Slot) -> Ballot {
        slot.0.checked_sub(1).and_then(|before| self.ballot_at(Slot(before))).unwrap_or_default()
    }

    /// The last runs, for a follower to compare with.
    pub(super) fn last_runs(&self) -> Vec<Run> {
        let n = self.runs.len();
        self.runs[n.saturating_sub(RUNS_MAX)..].to_vec()
    }

    /// The prefix up to which this log surely agrees with one that ends with `runs` and has `end`:
    /// entries of one slot and one ballot are one entry, and so are all before them.
    pub(super) fn agreement(&self, runs: &[Run], end: Prefix) -> Prefix {
        let of = |runs: &[Run], at: usize, end: Prefix| {
            (runs[at].first, runs.get(at + 1).map_or(end, |next| next.first.prefix_before()))
        };
        let mut agreed = Prefix::ZERO;
        for (theirs, run) in runs.iter().enumerate() {
            let Some(ours) = self.runs.iter().rposition(|own| own.ballot == run.ballot) else {
                continue;
            };
            let (first, end) = of(runs, theirs, end);
            let (own_first, own_end) = of(&self.runs, ours, self.end);
            let through = end.min(own_end);
            if through.contains(first.max(own_first)) {
                agreed = agreed.max(through);
            }
        }
        agreed
    }

    /// Whether the log holds the entry of `slot`.
    pub(super) fn has(&self, slot: Slot) -> bool {
        !self.base.prefix.contains(slot) && self.end.contains(slot)
    }

    /// The payload at `slot`; `None` if it is not in the log, or the disk has failed (D5). Copies
    /// nothing if the entry is among the last; otherwise reads it into `scratch`.
    pub(super) fn payload<'a, D: Disk>(
        &'a self,
        slot: Slot,
        disk: &mut D,
        scratch: &'a mut Vec<u8>,
    ) -> Option<(EntryHead, &'a [u8])> {
        let from_end = self.end.0.checked_sub(slot.0)? as usize;
        let head = disk.head(slot)?;
        match self.tail.len().checked_sub(from_end) {
            Some(at) => Some((head, self.tail.get(at)?)),
            None => disk.read(slot, scratch).map(|head| (head, &scratch[..])),
        }
    }

    // ---- configurations ----

    /// The configuration that governs what is appended now.
    pub(super) fn members(&self) -> Option<&Placed> {
        self.configurations.last().or(self.base.members.as_ref())
    }

    /// The configuration before that.
    pub(super) fn members_before(&self) -> Option<&Placed> {
        match self.configurations.as_slice() {
            [.., before, _] => Some(before),
            [_] => self.base.members.as_ref(),
            [] => None,
        }
    }

    /// The configuration that governs `prefix`, and all later ones.
    pub(super) fn governing(&self, prefix: Prefix) -> impl Iterator<Item = &Placed> {
        let first = self.configurations.partition_point(|(at, _)| *at <= prefix);
        let (before, after) = self.configurations.split_at(first);
        before.last().or(self.base.members.as_ref()).into_iter().chain(after)
    }

    /// The newest configuration, and the one before while the newest may yet be undone. (All before
    /// these two are decided: a change begins when the last one is.)
    pub(super) fn last_members(&self, committed: Prefix) -> impl Iterator<Item = &Placed> {
        let newest = self.members();
        let is_open = newest.is_some_and(|(at, _)| *at > committed);
        let second = self.configurations.len().checked_sub(2);
        let before = second.map_or(self.base.members.as_ref(), |at| self.configurations.get(at));
        newest.into_iter().chain(before.filter(|_| is_open))
    }

    /// The head of a state of `prefix`, if it is known here.
    pub(super) fn state_head(&self, prefix: Prefix) -> Option<StateHead> {
        let ballot = self.ballot_before(prefix.next_slot());
        let (members_at, members) = *self.members_at(prefix)?;
        let is_known = ballot != Ballot::NONE || prefix == Prefix::ZERO;
        is_known.then_some(StateHead { ballot, members_at, members, coming: None })
    }

    /// The configuration that governs `prefix`, if it is known here.
    pub(super) fn members_at(&self, prefix: Prefix) -> Option<&Placed> {
        self.governing(prefix).next().filter(|(at, _)| *at <= prefix)
    }

    /// Takes a leader's configuration before this log's start.
    pub(super) fn learn_members<D: Disk>(&mut self, placed: Placed, disk: &mut D) {
        if self.base.members.is_none() && placed.0 <= self.base.prefix {
            self.base.members = Some(placed);
            self.put_meta(disk);
        }
    }

    // ---- changes ----

    pub(super) const fn head(slot: Slot, ballot: Ballot, view: u64) -> EntryHead {
        EntryHead { slot, ballot, view }
    }

    pub(super) fn append<D: Disk>(&mut self, head: EntryHead, payload: &[u8], disk: &mut D) {
        assert_eq!(head.slot, self.end.next_slot(), "entries are appended without gaps");
        debug_assert_eq!(disk.end(), head.slot, "D3: what was asked shows at once");
        let last = self.runs.last().map_or(Ballot::NONE, |run| run.ballot);
        assert!(head.ballot >= last, "ballots in a log never fall");
        disk.append(Entry { head, payload });
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(payload);
        self.note(head, || &kept);
        self.tail.push_back(kept);
        if self.tail.len() > self.tail_max {
            self.spare.extend(self.tail.pop_front());
        }
        self.is_dirty = true;
    }

    /// Cuts the entries from `end` on.
    pub(super) fn cut<D: Disk>(&mut self, planted: impl Planting<Bug>, end: Prefix, disk: &mut D) {
        assert!(end >= self.base.prefix && end <= self.end, "a cut is within the log");
        disk.cut(end.next_slot());
        let n_cut = ((self.end.0 - end.0) as usize).min(self.tail.len());
        self.spare.extend(self.tail.drain(self.tail.len() - n_cut..));
        self.runs.truncate(self.runs.partition_point(|run| end.contains(run.first)));
        if !planted.has(Bug::ConfigurationOutlivesCut) {
            self.configurations.retain(|(at, _)| *at <= end);
        }
        self.end = end;
        // I1: later entries there are not those that were, or are being, synced.
        self.durable = self.durable.min(end);
        if let Some(flight) = self.flight.as_mut().filter(|_| !planted.has(Bug::CutDuringSync)) {
            flight.end = flight.end.min(end);
        }
        self.is_dirty = true;
    }

    /// A durable state covers everything below `prefix`: the log begins there, empty. `before` and
    /// `members`, if they are known, are the ballot of the entry before and the last configuration.
    ///
    /// Where `before` is not known, this log keeps the newness that it had: if it was newer than
    /// the log that the state came from, the reason was entries that can no longer be decided, and
    /// any log that can be elected is newer still.
    pub(super) fn begin_at<D: Disk>(
        &mut self,
        planted: impl Planting<Bug>,
        prefix: Prefix,
        before: Option<Ballot>,
        members: Option<Placed>,
        disk: &mut D,
    ) {
        if self.has(prefix.next_slot()) {
            // D1: a disk whose process dies before it has the last of these requests keeps no entry
            // from there on behind the new beginning. (None of them can be decided.)
            disk.cut(prefix.next_slot());
        }
        let had = self.last_ballot();
        let kept = if planted.has(Bug::ForgetNewness) { Ballot::NONE } else { had };
        let ballot = before.unwrap_or(kept);
        assert!(
            before.is_some() || ballot >= had,
            "I16: of {ballot} behind {prefix}, was of {had}"
        );
        self.base = Base { prefix, ballot, is_exact: before.is_some(), members };
        self.runs.clear();
        self.configurations.clear();
        self.tail.clear();
        (self.end, self.durable) = (prefix, prefix);
        if let Some(flight) = &mut self.flight {
            flight.end = prefix;
        }
        self.put_meta(disk);
        disk.begin_at(prefix.next_slot());
    }

    /// Continues from a durable state of `prefix`. Where the log does not reach it, or has another
    /// entry at its end, the log begins there.
    pub(super) fn continue_from<D: Disk>(
        &mut self,
        planted: impl Planting<Bug>,
        prefix: Prefix,
        head: Option<StateHead>,
        disk: &mut D,
    ) {
        let head = head.filter(|head| head.members_at <= prefix);
        let own = prefix.0.checked_sub(1).and_then(|before| self.ballot_at(Slot(before)));
        let differs = head.is_some_and(|head| own.is_some_and(|own| own != head.ballot));
        if prefix > self.end || differs {
            // If they differ, all that this log holds from there on is off the decided path and can
            // never be decided.
            let members = head.map(|head| (head.members_at, head.members));
            self.begin_at(planted, prefix, head.map(|head| head.ballot), members, disk);
        } else if let Some(head) = head.filter(|head| own == Some(head.ballot)) {
            self.learn_members((head.members_at, head.members), disk);
        }
    }

    /// Frees the space below `prefix`, which a durable state covers.
    pub(super) fn free_below<D: Disk>(&mut self, prefix: Prefix, disk: &mut D) {
        if prefix <= self.base.prefix || prefix > self.end {
            return;
        }
        let ballot = self.ballot_before(prefix.next_slot());
        let members = self.members_at(prefix).copied();
        self.base = Base { prefix, ballot, is_exact: ballot != Ballot::NONE, members };
        let gone = self.runs.partition_point(|run| run.first <= prefix.next_slot());
        if prefix == self.end {
            self.runs.clear();
        } else if let Some(kept) = gone.checked_sub(1) {
            self.runs[kept].first = prefix.next_slot();
            self.runs.drain(..kept);
        }
        self.configurations.retain(|(at, _)| *at > prefix);
        self.put_meta(disk);
        disk.free_below(prefix.next_slot());
    }

    /// Promises `ballot`: from now on nothing below it is voted for or accepted.
    pub(super) fn promise<D: Disk>(&mut self, ballot: Ballot, disk: &mut D) {
        assert!(ballot > self.promised, "I2: a promise never falls");
        self.promised = ballot;
        self.put_meta(disk);
    }

    // ---- syncing ----

    /// Starts a sync. Group commit: one is under way at a time, and the next covers all that came
    /// meanwhile.
    pub(super) fn flush<D: Disk>(&mut self, disk: &mut D) {
        if self.is_dirty && self.flight.is_none() {
            self.is_dirty = false;
            // D2: the answer comes later, and covers what is requested by now.
            let flush = disk.sync();
            self.flight = Some(Flight { flush, end: self.end, promised: self.promised });
        }
    }

    /// Takes the report of `flush`: what it covers is durable.
    pub(super) fn synced<D: Disk>(
        &mut self,
        planted: impl Planting<Bug>,
        flush: Flush,
        disk: &mut D,
    ) {
        if let Some(flight) = self.flight.take_if(|flight| flight.flush <= flush) {
            let end =
                if planted.has(Bug::CutDuringSync) { flight.end.min(self.end) } else { flight.end };
            self.durable = self.durable.max(end);
            let promised =
                if planted.has(Bug::PromiseDuringSync) { self.promised } else { flight.promised };
            self.promised_durable = self.promised_durable.max(promised);
        }
        assert!(self.durable <= self.end, "I1: {:?} is not there", self.durable);
        self.flush(disk);
    }

    fn put_meta<D: Disk>(&mut self, disk: &mut D) {
        let Base { prefix, ballot, is_exact, members } = self.base;
        let mut meta = [0; META_BYTES];
        let flags = u64::from(is_exact) | u64::from(members.is_some()) << 1;
        let (at, members) = members.unwrap_or_default();
        let words =
            [META_VERSION, self.promised.0, self.incarnation.0, prefix.0, ballot.0, flags, at.0];
        for (to, word) in meta.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        meta[7 * 8..].copy_from_slice(&members.encode());
        disk.put_meta(&meta);
        self.is_dirty = true;
    }
}

/// The promise in such a meta.
pub(super) fn promise_in(meta: &[u8]) -> Option<Ballot> {
    decode_meta(meta).map(|(_, promised, _)| promised)
}

fn decode_meta(meta: &[u8]) -> Option<(Incarnation, Ballot, Base)> {
    let meta: &[u8; META_BYTES] = meta.try_into().ok()?;
    let at = |index: usize| le_word(&meta[8 * index..]);
    if at(0) != META_VERSION || at(2) < Incarnation::FIRST.0 {
        return None;
    }
    let members = Members::decode(&meta[7 * 8..])?;
    let base = Base {
        prefix: Prefix(at(3)),
        ballot: Ballot(at(4)),
        is_exact: at(5) & 1 != 0,
        members: (at(5) & 2 != 0).then_some((Prefix(at(6)), members)),
    };
    Some((Incarnation(at(2)), Ballot(at(1)), base))
}
