//! How slow a run's disks are, and what goes wrong with them.

use crate::Provider;
use crate::kinds::Kind as FaultKind;
use crate::kv::PIECE_BYTES_MIN;
use base::Rng;

/// How the disks of a run behave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disks {
    /// A sync takes at least so long...
    pub(crate) latency_ns: u64,
    /// ... and up to so much longer.
    pub(crate) jitter_ns: u64,
    /// A snapshot is taken every so many slots.
    pub(crate) snapshot_every: u64,
    /// Where a snapshot is written in pieces: their size.
    pub(crate) piece_bytes: usize,
}

impl Disks {
    pub(crate) const CALM: Disks =
        Disks { latency_ns: 20_000, jitter_ns: 5_000, snapshot_every: 100, piece_bytes: 256 };

    /// Draws from a generator of its own, so that the other protocols' seeds stay what they are.
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
            // One host: the power fails for all of it.
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
