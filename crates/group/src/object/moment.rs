//! The place and the time of a call.

use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The place of a call in the order of its shard, through all views.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Version {
    /// The number of the view.
    pub view: u64,
    /// The place in the order of the view.
    pub sequence: u64,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.view, self.sequence)
    }
}

/// The place and the time of a call.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Moment {
    /// The place.
    pub version: Version,
    /// The time.
    pub time: Time,
}
