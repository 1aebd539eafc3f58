//! The targets of storms.

use super::kinds::Protocol;
use crate::Provider;
use crate::kinds::{KINDS, Kind};
use crate::plan::{MS, Plan};
use crate::world::rest::Rest;
use crate::world::silence::Silence;
use base::Rng;

/// The next targets.
#[derive(Debug, Default)]
pub(super) struct Aims {
    /// The number of the next leaders that are struck too.
    pub(super) n_to_strike: u64,
    /// A member that dies repeatedly soon after its start, and the number of times.
    pub(super) flickers: (usize, u64),
    /// The member with the youngest process, which clients prefer.
    pub(super) newborn: Option<usize>,
    /// Whether a link that comes back is struck at once, or one of its ends.
    pub(super) is_fickle: bool,
    /// Whether the power fails before what a member has said is on its disk (`ambush`, A3)...
    pub(super) cuts_power: bool,
    /// ... and the member whose power is about to fail.
    pub(super) powerless: Option<usize>,
    /// The number of times that a client still leaves in the middle.
    pub(super) n_to_leave: u64,
    /// The number of clients that still end their input.
    pub(super) n_to_end: u64,
    /// Whether a leader is to die once more while all is well (I6).
    pub(super) is_to_depose: bool,
    /// Whether one is about to.
    pub(super) deposes: bool,
    /// Whether a follower and its leader are to be cut off from each other while all is well (I20).
    pub(super) is_to_hide: bool,
    /// The two that are.
    pub(super) hidden: Option<(usize, usize)>,
    /// Whether the run ends in silence (`silence`).
    pub(super) silence: Silence,
    /// The turns of members that have nothing to do then.
    pub(super) rest: Rest,
    /// The node that has stopped by itself last, and is started again.
    pub(super) stopped: Option<usize>,
    /// The member that has died last while all was well, and is started again.
    pub(super) deposed: Option<usize>,
    /// The member that is about to die in the silence.
    pub(super) doomed: Option<usize>,
}

/// The faults that clusters meet beside the common ones.
const OF_CLUSTERS: [Kind; 10] = [
    Kind::Deaf,
    Kind::Succession,
    Kind::Relapse,
    Kind::Wall,
    Kind::Echo,
    Kind::Halfway,
    Kind::Belated,
    Kind::Fickle,
    Kind::LastWords,
    Kind::Unsynced,
];
const OF_DISKS: [Kind; 6] = [
    Kind::PowerCut,
    Kind::PowerCutAll,
    Kind::DiskStall,
    Kind::DiskFull,
    Kind::SyncFails,
    Kind::DiskRot,
];

/// Whether a fault of this kind can strike the members of such a cluster.
fn can_strike(kind: Kind, of: Protocol, provider: Provider) -> bool {
    match kind {
        Kind::Usurp => false,
        Kind::Jump => of.has_jumps(),
        Kind::Reset | Kind::Fickle => provider == Provider::Tcp,
        Kind::PowerCutAll | Kind::DiskStall | Kind::DiskFull | Kind::SyncFails => of.has_disks(),
        // Where no operator replaces members, snapshots alone are damaged.
        Kind::DiskRot => of.has_disks() && of.replicas().is_none(),
        // On one host the power fails for all of it.
        Kind::PowerCut | Kind::Unsynced => of.has_disks() && provider == Provider::Tcp,
        _ => true,
    }
}

/// The number of clients that end their input: a few, in a quarter of the runs.
pub(super) fn draw_ends(seed: u64, of: Protocol) -> u64 {
    let mut rng = Rng::new(seed ^ 0x656e_6473);
    if of.has_leases() && rng.chance(1, 4) { rng.range(1, 8) } else { 0 }
}

/// Whether a leader is hidden from a follower when all is well, in a quarter of the runs.
pub(super) fn hides(seed: u64, of: Protocol) -> bool {
    of.has_leases() && Rng::new(seed ^ 0x6869_6465_7321).chance(1, 4)
}

/// Completes the faults of `plan` by those of clusters.
///
/// Half of the runs are short: one or two kinds of faults strike often and end soon. So many more
/// of them fit into a sweep than of long runs, and a bug that takes one kind, undisturbed by
/// others and at the right moment, is met. The other half shows what takes time, and many kinds.
pub(super) fn draw(seed: u64, of: Protocol, plan: &mut Plan) {
    let mut rng = Rng::new(seed ^ 0x6169_6d73);
    let provider = plan.weather.provider;
    plan.kinds.extend(OF_CLUSTERS.into_iter().filter(|_| rng.chance(1, 3)));
    if rng.chance(1, 2) {
        let all = KINDS.into_iter().chain(OF_CLUSTERS).chain(OF_DISKS);
        plan.kinds = all.filter(|kind| can_strike(*kind, of, provider)).collect();
        let n_kinds = rng.range(1, 2) as usize;
        while plan.kinds.len() > n_kinds {
            let gone = rng.below(plan.kinds.len() as u64) as usize;
            plan.kinds.swap_remove(gone);
        }
        if rng.chance(1, 4) {
            // What an earlier process was to be told is mistaken in a few moments alone.
            plan.kinds = vec![Kind::Echo];
        }
        plan.strike_every_ns = MS * (4 << rng.below(4));
        plan.fault_ns_max = MS * (4 << rng.below(6));
        plan.safety_ns = MS * rng.range(200, 800);
    }
    plan.kinds.retain(|kind| can_strike(*kind, of, provider));
}
