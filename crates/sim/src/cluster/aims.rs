//! What storms aim at.

use crate::kinds::Kind;

/// What is aimed at next.
#[derive(Debug, Default)]
pub(super) struct Aims {
    /// So many of the next leaders are struck, too.
    pub(super) n_to_strike: u64,
    /// A member that dies as often again, soon after each start.
    pub(super) flickers: (usize, u64),
    /// The member whose process is the youngest: clients like to look at it.
    pub(super) newborn: Option<usize>,
    /// A leader is to die while all is well (I6).
    pub(super) deposes: bool,
    /// The one that did.
    pub(super) deposed: Option<usize>,
}

/// Whether such a fault can strike whole members.
pub(super) fn can_strike(kind: Kind) -> bool {
    !matches!(kind, Kind::Usurp | Kind::DiskFull | Kind::SyncFails | Kind::DiskRot)
}
