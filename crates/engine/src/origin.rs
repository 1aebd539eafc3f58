//! The name of a process whose clients command and read.

use base::{Incarnation, Rank};

/// A member, in one life of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The member.
    pub rank: Rank,
    /// The life of its process; lives rise.
    pub life: Incarnation,
}
