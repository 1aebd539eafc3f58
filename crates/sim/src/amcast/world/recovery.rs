//! Processes that come back: their disks, and the messages that they hold back.
//!
//! - D1 No other process sees a result of a step, neither messages nor deliveries, before the
//!   step's changes are on disk, in one record. By `World::hold_back`; [`Recovery::new`]'s `hasty`
//!   breaks it.
//! - D2 A crash is a power cut: unsynced data is lost, and the record that was on its way may be
//!   there or not. Links to and from a process that came back are new; a living sender repeats to
//!   it the messages that it does not know to be delivered.
//! - D3 Some records are the whole state, as a snapshot would be; the others are changes. The
//!   application's state is written only with a whole record: later deliveries are delivered to it
//!   again.

use super::{MS, Parcel, What, World};
use crate::amcast::process::{Applied, Delivered, Outbox, Protocol, Restore};
use base::{Instant, Rng};
use proto::amcast::bugs::Bug;
use proto::amcast::wire::Wire;
use proto::amcast::{Config, Message, To};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

/// The longest that a sync takes.
const SYNC_NS: u64 = 2 * MS;

/// The way in which processes of a world come back.
pub(in crate::amcast) struct Recovery<W> {
    config: Config,
    restore: Restore<W>,
    bug: Option<Bug>,
    /// Whether they send messages before their disk has the record.
    hasty: bool,
    /// The messages of living senders that are not known to be delivered.
    said: Vec<(usize, Arc<Message>)>,
    /// The generator of ambushes, if there are any. It is separate: a seed's other draws stay.
    ambushes: Option<Rng>,
    /// The processes that lose power now.
    pub(in crate::amcast) ambushed: Vec<usize>,
}

impl<W> Recovery<W> {
    pub(in crate::amcast) fn new(
        protocol: &Protocol<W>,
        config: &Config,
        hasty: bool,
    ) -> Recovery<W> {
        assert!(protocol.recovers, "its processes stop for ever");
        Recovery {
            config: config.clone(),
            restore: protocol.restore,
            bug: protocol.bug,
            hasty,
            said: Vec::new(),
            ambushes: None,
            ambushed: Vec::new(),
        }
    }

    /// Adds power cuts between a message's leaving and the next sync.
    pub(in crate::amcast) fn with_ambushes(self, rng: Rng) -> Recovery<W> {
        Recovery { ambushes: Some(rng), ..self }
    }

    /// Plans a power cut, since a message has left a process, and a record of it is under way.
    fn lay_ambush(&mut self, process: usize) {
        if self.ambushes.as_mut().is_some_and(|rng| rng.chance(1, 48)) {
            self.ambushed.push(process);
        }
    }
}

/// The content of one write.
enum Record {
    Whole(Vec<u8>, Applied),
    Changes(Vec<u8>),
}

/// The content of one process's disk, and what waits for it.
pub(in crate::amcast) struct Disk<W> {
    whole: Vec<u8>,
    /// The application's state as of `whole`.
    applied: Applied,
    changes: Vec<Vec<u8>>,
    /// The messages of steps, with the number of deliveries after each.
    held: VecDeque<(Vec<(To, W)>, usize)>,
    /// The changes of those steps.
    changed: Vec<u8>,
    /// The record under way, and the number of steps that it covers.
    syncing: Option<(usize, Record)>,
    /// The life: a sync of an earlier one has no meaning.
    life: u64,
}

impl<W> Default for Disk<W> {
    fn default() -> Disk<W> {
        Disk {
            whole: Vec::new(),
            applied: Vec::new(),
            changes: Vec::new(),
            held: VecDeque::new(),
            changed: Vec::new(),
            syncing: None,
            life: 0,
        }
    }
}

impl<W> Disk<W> {
    fn write(&mut self, record: Record) {
        match record {
            Record::Whole(whole, applied) => {
                (self.whole, self.applied) = (whole, applied);
                self.changes.clear();
            }
            Record::Changes(changes) => self.changes.push(changes),
        }
    }
}

impl<W: Wire> World<W> {
    /// Makes processes come back from now on.
    pub(in crate::amcast) fn recover_by(&mut self, recovery: Recovery<W>) {
        for process in &mut self.processes {
            process.machine.stable(&mut process.disk.whole);
        }
        self.recovery = Some(recovery);
    }

    /// D1: holds the results of a step back until the disk has its record.
    pub(in crate::amcast) fn hold_back(&mut self, process: usize, sent: Vec<(To, W)>) {
        let n_applied = self.processes[process].applied.len();
        let Some(recovery) = &self.recovery else {
            return self.release(process, sent, n_applied);
        };
        let is_hasty = recovery.hasty;
        let of = &mut self.processes[process];
        of.machine.changes(&mut of.disk.changed);
        let is_clean = of.disk.changed.is_empty() && of.disk.held.is_empty();
        let sent = if is_clean || is_hasty {
            self.release(process, sent, n_applied);
            Vec::new()
        } else {
            sent
        };
        if !is_clean {
            self.processes[process].disk.held.push_back((sent, n_applied));
            self.sync(process);
        }
    }

    fn sync(&mut self, process: usize) {
        let of = &mut self.processes[process];
        if of.disk.syncing.is_some() || of.disk.held.is_empty() {
            return;
        }
        let changed = std::mem::take(&mut of.disk.changed);
        // D3.
        let record = if self.batches.chance(1, 16) {
            let mut whole = Vec::new();
            of.machine.stable(&mut whole);
            Record::Whole(whole, of.applied.clone())
        } else {
            Record::Changes(changed)
        };
        of.disk.syncing = Some((of.disk.held.len(), record));
        let life = of.disk.life;
        let at = self.now + self.batches.below(SYNC_NS);
        self.push(at, What::Synced(process, life));
    }

    /// Notes that a record is on disk: the results that it covers may be seen.
    pub(in crate::amcast) fn on_synced(&mut self, process: usize, life: u64) {
        let disk = &mut self.processes[process].disk;
        if disk.life != life {
            return;
        }
        let Some((n, record)) = disk.syncing.take() else { return };
        disk.write(record);
        let released: Vec<_> = disk.held.drain(..n).collect();
        let leaves = released.iter().any(|(sent, _)| !sent.is_empty());
        for (sent, n_applied) in released {
            self.release(process, sent, n_applied);
        }
        self.sync(process);
        let is_under_way = self.processes[process].disk.syncing.is_some();
        if let Some(recovery) = self.recovery.as_mut().filter(|_| leaves && is_under_way) {
            recovery.lay_ambush(process);
        }
    }

    /// D2: cuts the power of a process.
    pub(in crate::amcast) fn lose_power(&mut self, process: usize) {
        let has_synced = self.batches.chance(1, 2);
        let of = &mut self.processes[process];
        of.disk.life += 1;
        of.disk.held.clear();
        of.disk.changed.clear();
        if let Some((_, record)) = of.disk.syncing.take()
            && has_synced
        {
            of.disk.write(record);
        }
        of.inbox.clear();
        (of.paused, of.settles, of.tick_at) = (false, false, None);
    }

    /// Starts a process again, with the content of its disk.
    pub(in crate::amcast) fn restart(&mut self, process: usize) {
        let Some(recovery) = &self.recovery else { return };
        let of = &mut self.processes[process];
        if of.alive {
            return;
        }
        let changes: Vec<&[u8]> = of.disk.changes.iter().map(Vec::as_slice).collect();
        let applied = of.disk.applied.clone();
        let mut out = Outbox::new(Delivered { applied, ..Delivered::default() }, None);
        let (disk, now) = (&of.disk.whole, Instant(self.now));
        of.machine = (recovery.restore)(
            &recovery.config,
            of.pid,
            recovery.bug,
            disk,
            &changes,
            now,
            &mut out,
        );
        assert!(out.sent.is_empty(), "D1: nothing is said before it is written");
        of.applied = out.deliveries.applied;
        of.alive = true;
        // It repeats the deliveries that it had reported and no longer knows: the judges see that.
        of.n_told = of.n_told.min(of.applied.len());
        let (pid, n_applied) = (of.pid, of.applied.len());
        self.counts.restarts += 1;
        self.note(|text| write!(text, "{pid:?} comes back"));
        // Results on disk when the power went, which no other process had seen, are seen now.
        self.release(process, Vec::new(), n_applied);
        self.renew_links(process);
        self.push(self.now, What::Settle(process));
        self.say_again(process);
    }

    pub(in crate::amcast) fn keep_to_say_again(
        &mut self,
        sender: usize,
        message: &Arc<Message>,
        dies: bool,
    ) {
        if let Some(recovery) = self.recovery.as_mut().filter(|_| !dies) {
            recovery.said.push((sender, message.clone()));
        }
    }

    /// D2: lets senders repeat messages to a process that has come back.
    fn say_again(&mut self, to: usize) {
        let Some(recovery) = &mut self.recovery else { return };
        let deliveries = &self.history.happened;
        let delivered: std::collections::BTreeSet<_> = deliveries
            .iter()
            .filter_map(|(_, happened)| match happened {
                crate::amcast::history::Happened::Delivered { id, .. } => Some(*id),
                crate::amcast::history::Happened::Multicast(_)
                | crate::amcast::history::Happened::Cut { .. } => None,
            })
            .collect();
        recovery.said.retain(|(_, message)| !delivered.contains(&message.id));
        let said = recovery.said.clone();
        let group = self.processes[to].pid.group;
        for (sender, message) in said {
            if message.dest.contains(group) {
                let from = self.processes.len() + sender;
                self.post(from, to, Parcel::Start(message));
            }
        }
    }
}
