//! The end of what disks were asked for, in worlds of machines and of whole members.

use crate::coverage::Mark;
use crate::disk::Disk;
use crate::disks::Disks;
use crate::plan::MS;
use crate::queue::Happening;
use crate::stored::SyncFailed;
use crate::world::net::Net;

/// The time after which a full disk is tried again.
const RETRY_NS: u64 = 10 * MS;

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
        self.queue.push(at, Happening::Disk { node: node as u16, life });
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
