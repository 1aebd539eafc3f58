//! The speed of a run's disks, and their faults; and the end of what they were asked for.

use crate::Provider;
use crate::coverage::Mark;
use crate::disk::Disk;
use crate::kinds::Kind as FaultKind;
use crate::kv::PIECE_BYTES_MIN;
use crate::plan::MS;
use crate::queue::Happening;
use crate::stored::SyncFailed;
use crate::world::net::Net;
use base::Rng;

/// The time after which a full disk is tried again.
const RETRY_NS: u64 = 10 * MS;

/// The properties of a run's disks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disks {
    /// The shortest time of a sync...
    pub(crate) latency_ns: u64,
    /// ... and the most that is added to it.
    pub(crate) jitter_ns: u64,
    /// The number of slots from one snapshot to the next.
    pub(crate) snapshot_every: u64,
    /// The size of a piece, where a snapshot is written in pieces.
    pub(crate) piece_bytes: usize,
}

impl Disks {
    pub(crate) const CALM: Disks =
        Disks { latency_ns: 20_000, jitter_ns: 5_000, snapshot_every: 100, piece_bytes: 256 };

    /// Draws from a separate generator, so that the other protocols' seeds stay unchanged.
    pub(crate) fn draw(seed: u64, kinds: &mut Vec<FaultKind>, provider: Provider) -> Disks {
        let mut rng = Rng::new(seed ^ 0x6469_736b);
        let all = [
            FaultKind::PowerCut,
            FaultKind::PowerCutAll,
            FaultKind::DiskStall,
            FaultKind::DiskFull,
            FaultKind::Relapse,
        ];
        kinds.extend(all.into_iter().filter(|_| rng.chance(1, 2)));
        if provider == Provider::Shm {
            // All members are on one host: the power fails for all of it.
            kinds.retain(|kind| *kind != FaultKind::PowerCut);
        }
        let latency_ns = 1000 << rng.below(12);
        let mut disks = Disks {
            latency_ns,
            jitter_ns: latency_ns << rng.below(4),
            snapshot_every: 8 << rng.below(6),
            piece_bytes: 0,
        };
        let fatal = [FaultKind::SyncFails, FaultKind::DiskRot];
        kinds.extend(fatal.into_iter().filter(|_| rng.chance(1, 2)));
        // A few have more than one chunk.
        disks.piece_bytes =
            PIECE_BYTES_MIN << rng.below(4) << if rng.chance(1, 16) { 4 } else { 0 };
        disks
    }
}

/// What came of a look at a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed {
    /// Whether a flush is complete.
    pub(crate) is_done: bool,
    /// Whether the disk is full since this look.
    pub(crate) fills: bool,
}

impl Net {
    /// Plans the end of the flushes that `node` has just requested of its disk.
    pub(crate) fn plan_flushes(&mut self, node: usize, disk: &mut Disk, of: &Disks) {
        for _ in 0..disk.take_unplanned() {
            let delay = of.latency_ns + self.rng.below(of.jitter_ns + 1);
            self.look_at_disk_in(node, delay);
        }
    }

    fn look_at_disk_in(&mut self, node: usize, delay: u64) {
        let life = self.processes[node].life;
        let at = self.now() + delay;
        self.queue.push(at, Happening::Disk { node: node as u8, life });
    }

    /// Completes another flush of `node`, unless its disk is held. A full disk is looked at again,
    /// `pace` times later than usual.
    ///
    /// # Errors
    /// Its sync has failed: the process has to end.
    pub(crate) fn complete_flush(
        &mut self,
        node: usize,
        disk: &mut Disk,
        pace: u64,
    ) -> Result<Completed, SyncFailed> {
        let was_full = disk.is_full;
        let completed = disk.complete().inspect_err(|_| self.coverage.hit(Mark::SyncFailed));
        let is_done = completed?;
        let now = self.now();
        if disk.is_full != was_full {
            self.coverage.hit(if was_full { Mark::RoomAgain } else { Mark::DiskFull });
            self.arm_run(node, now);
        }
        if disk.is_full && disk.watched_until <= now {
            let after = RETRY_NS * pace;
            disk.watched_until = now + after;
            // A snapshot of its own may have freed space meanwhile.
            self.look_at_disk_in(node, after);
        }
        Ok(Completed { is_done, fills: disk.is_full && !was_full })
    }
}
