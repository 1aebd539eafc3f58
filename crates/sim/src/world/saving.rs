//! The snapshots of the simulated runtime, and its installation of states from elsewhere.
//!
//! On the stream of records that stands for a log, both are atomic. On the released log, the
//! released code writes files, piece by piece while the node continues ([`crate::states`]).
//!
//! - I1 The machine hears of a snapshot when it is durable, and frees its log then, not before.
//!   Sweeps with [`Snapshots::CutTooSoon`] are caught.
//! - I2 A state from elsewhere is executed at once, and durable before the machine hears of it.
//! - I3 No own snapshot is made of entries that the machine has not applied. Sweeps with
//!   [`Snapshots::OfWhatIsNotApplied`] are caught.
//! - I4 A log is bounded: with a durable state, no more than [`KEPT_RINGS_MAX`] rings of slots
//!   below it are kept for members that lag. Sweeps with `KEEP_FOR_LAGGARDS` are caught.

use crate::Property;
use crate::coverage::Mark;
use crate::plan::MS;
use crate::queue::Happening;
use crate::states::{End, State};
use crate::subject::Life;
use crate::trace::Topic;
use crate::world::World;
use base::Prefix;
use proto::Role;

/// The way in which the runtime makes snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Snapshots {
    /// The correct way.
    #[default]
    Sound,
    /// A planted bug: they hold the registers, and not each client's last request.
    WithoutSessions,
    /// A planted bug: each piece is of the moment in which it is made.
    Mixed,
    /// A planted bug: the machine hears of one when it is begun.
    CutTooSoon,
    /// A planted bug: old ones are removed before the new one is written.
    RemovedTooSoon,
    /// A planted bug: they are made, and states are given, of entries that a transfer has brought
    /// and the machine has not applied.
    OfWhatIsNotApplied,
}

/// The most rings of slots that a log keeps below its state: four are the protocol's bound, and as
/// many again may be covered by later syncs, of which the machine has not heard.
const KEPT_RINGS_MAX: u64 = 8;

/// The time after which a failed snapshot is repeated.
const RETRY_NS: u64 = 10 * MS;

impl World {
    /// Writes the state at intervals, and uses what was written.
    pub(crate) fn attend_snapshots(&mut self, node: usize, machine: &mut dyn Life) {
        if self.disks[node].keeps_files() {
            self.hear_of_snapshot(node, machine);
        }
        let applied = self.shells[node].order.applied();
        let covered = self.disks[node].snapshot.as_ref().map_or(Prefix::ZERO, |state| state.prefix);
        let lacks = machine.status().role == Role::Learner;
        let is_due = applied.ahead_of(covered) >= self.plan.disks.snapshot_every
            && !lacks
            && !self.is_kept_from_giving(node); // I3
        if !self.disks[node].keeps_files() {
            if is_due {
                let head = machine.state_head(applied);
                self.keep_snapshot(node, head);
                if applied <= machine.status().applied {
                    self.tell_snapshotted(node, machine, applied);
                }
            }
            return;
        }
        if !self.disks[node].is_writing() && self.disks[node].snapshot_retry_at <= self.net.now() {
            let piece_bytes = self.plan.disks.piece_bytes;
            let foreign = self.shells[node].installing.clone();
            let is_own = foreign.is_none();
            let own = || {
                let kv = self.shells[node].kv.clone();
                State { kv, prefix: applied, head: machine.state_head(applied) }
            };
            if let Some(state) = foreign.or_else(|| is_due.then(own)) {
                let of = state.prefix.0;
                self.net.trace.record(self.net.now(), node, Topic::Snapshot, of, 0);
                self.disks[node].begin_snapshot(state, piece_bytes);
                if is_own && self.subject.snapshots == Snapshots::CutTooSoon {
                    self.tell_snapshotted(node, machine, applied);
                }
            }
        }
        self.disks[node].snapshot_piece(&self.shells[node].kv);
        self.plan_step(node);
    }

    /// Lets the machine hear that its state up to `prefix` is durable (I4).
    fn tell_snapshotted(&mut self, node: usize, machine: &mut dyn Life, prefix: Prefix) {
        self.shells[node].told = prefix;
        self.with_host(node, |host, _| machine.snapshotted(prefix, host));
    }

    /// Judges I4, when the machine has heard of a sync: it frees nothing that may not be durable,
    /// and a log that was just recovered is not known to be.
    pub(crate) fn judge_kept(&mut self, node: usize) {
        let prefix = self.shells[node].told;
        let (kept_from, durable) = self.disks[node].kept();
        let keep = u64::from(self.plan.shape.ring_slots) * KEPT_RINGS_MAX;
        let most = prefix.0.min(durable).saturating_sub(keep);
        if kept_from < most {
            let detail = format!(
                "n{node} has a state up to {prefix}, and its log begins at {kept_from}: more than \
                 {keep} slots are kept for others"
            );
            self.net.violate(Property::Bounded, detail);
        }
    }

    fn hear_of_snapshot(&mut self, node: usize, machine: &mut dyn Life) {
        let now = self.net.now();
        match self.disks[node].snapshot_end() {
            None => {}
            Some(End::Failed) => {
                self.net.trace.record(now, node, Topic::Snapshot, 0, 2);
                self.net.coverage.hit(Mark::SnapshotFailed);
                let at = now + RETRY_NS * self.plan.pace;
                self.disks[node].snapshot_retry_at = at;
                self.net.arm_run(node, at);
            }
            Some(End::Written(state)) => {
                // I1
                self.net.coverage.hit(Mark::SnapshotTaken);
                let prefix = state.prefix;
                self.net.trace.record(now, node, Topic::Snapshot, prefix.0, 1);
                let is_own = |own: &mut State| own.prefix == prefix;
                if let Some(state) = self.shells[node].installing.take_if(is_own) {
                    self.install(node, machine, state);
                }
                if prefix <= machine.status().applied {
                    self.tell_snapshotted(node, machine, prefix);
                }
            }
        }
    }

    /// Makes the present state durable: a snapshot is atomic here.
    fn keep_snapshot(&mut self, node: usize, head: Option<proto::members::StateHead>) {
        let prefix = self.shells[node].order.applied();
        let mut kv = self.shells[node].kv.clone();
        if self.subject.snapshots == Snapshots::WithoutSessions {
            kv.forget_sessions();
        }
        self.disks[node].snapshot = Some(State { kv, prefix, head });
        self.net.coverage.hit(Mark::SnapshotTaken);
    }

    /// Plans the next step of the thread that writes.
    pub(crate) fn plan_step(&mut self, node: usize) {
        // (The next life finds what a dead process was writing.)
        let is_alive = self.net.processes[node].alive;
        let disk = &mut self.disks[node];
        if is_alive && disk.can_step() && !disk.is_step_planned {
            disk.is_step_planned = true;
            let disks = &self.plan.disks;
            let delay = 1 + self.net.rng.below(disks.latency_ns + disks.jitter_ns);
            let life = self.net.processes[node].life;
            let what = Happening::Snapshot { node: node as u16, life };
            self.net.queue.push(self.net.now() + delay, what);
        }
    }

    pub(crate) fn on_snapshot(&mut self, node: usize, life: u32) {
        let process = &self.net.processes[node];
        if !process.alive || process.life != life {
            return;
        }
        self.disks[node].is_step_planned = false;
        // (A disk that is held continues when it is released.)
        if self.disks[node].can_step() {
            self.disks[node].step();
            self.net.arm_run(node, self.net.now());
            self.plan_step(node);
        }
    }

    // ---- states from elsewhere ----

    /// Tells the machine of a state from elsewhere that is executed here, and ends its transfer.
    pub(crate) fn take_over(&mut self, node: usize, machine: &mut dyn Life) {
        let shell = &self.shells[node];
        let prefix = shell.order.applied();
        let head = shell.transfer.givers_head.filter(|(of, _)| *of == prefix).map(|(_, head)| head);
        let state = State { kv: shell.kv.clone(), prefix, head };
        let is_atomic = !self.subject.is_durable || !self.disks[node].keeps_files();
        if is_atomic || self.subject.snapshots == Snapshots::CutTooSoon {
            self.install(node, machine, state);
        } else {
            // I2. A snapshot that is being written is older.
            self.disks[node].give_up_snapshot();
            self.shells[node].installing = Some(state);
        }
    }

    fn install(&mut self, node: usize, machine: &mut dyn Life, state: State) {
        let State { prefix, head, .. } = state;
        if prefix != self.shells[node].order.applied() || !self.is_news(node, machine.status()) {
            return;
        }
        self.net.coverage.hit(Mark::StateInstalled);
        self.net.trace.record(self.net.now(), node, Topic::Install, prefix.0, 0);
        self.shells[node].delivered.installed(prefix);
        if self.subject.is_durable && !self.disks[node].keeps_files() {
            // This comes before the log frees what the state replaces.
            self.keep_snapshot(node, head);
        }
        self.with_host(node, |host, clock| machine.install(prefix, head, clock, host));
        self.heed(node, machine);
    }
}
