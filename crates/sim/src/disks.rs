//! The speed of a run's disks, and their faults.

use crate::Provider;
use crate::kinds::Kind as FaultKind;
use crate::kv::PIECE_BYTES_MIN;
use base::Rng;

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
