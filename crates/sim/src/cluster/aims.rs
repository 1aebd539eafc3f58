//! The targets of storms.

use crate::kinds::Kind;

/// The next targets.
#[derive(Debug, Default)]
pub(super) struct Aims {
    /// The number of the next leaders that are struck too.
    pub(super) n_to_strike: u64,
    /// A member that dies repeatedly soon after its start, and the number of times.
    pub(super) flickers: (usize, u64),
    /// The member with the youngest process, which clients prefer.
    pub(super) newborn: Option<usize>,
    /// The number of times that a client still leaves in the middle.
    pub(super) n_to_leave: u64,
    /// Whether a leader is to die while all is well (I6).
    pub(super) deposes: bool,
    /// The leader that did.
    pub(super) deposed: Option<usize>,
}

/// Whether a fault of this kind can strike whole members.
pub(super) fn can_strike(kind: Kind) -> bool {
    !matches!(kind, Kind::Usurp | Kind::DiskFull | Kind::SyncFails | Kind::DiskRot)
}
