//! What is measured of versions, and of which groups.

use crate::worker::order::FabricKind;
use std::path::PathBuf;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Figure 16: updates whose versions are kept nowhere, in memory, and on disk.
    Storage,
    /// Figure 17 and the left of 18: when a new version's time is final, and how long a query as
    /// of a time waits.
    Stability,
    /// The right of figure 18: queries of one member each of several shards.
    Shards,
    /// Section 4.8: typed arguments beside bytes.
    Arguments,
}

impl Part {
    /// The name of its report.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Storage => "versions-storage",
            Part::Stability => "versions-stability",
            Part::Shards => "versions-shards",
            Part::Arguments => "versions-arguments",
        }
    }
}

/// The settings of a measurement.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What is measured.
    pub part: Part,
    /// The providers.
    pub fabrics: Vec<FabricKind>,
    /// The bytes of a value, 24 or more; without any, those of the part.
    pub value_bytes: Vec<usize>,
    /// The numbers of shards that are asked.
    pub shards: Vec<usize>,
    /// The directory of the logs of durable groups, if it is given.
    pub data: Option<PathBuf>,
}

/// The longest answer of another member ([`group::LETTER_BYTES_MAX`]), with room for its head.
pub const ASKED_BYTES_MAX: usize = group::LETTER_BYTES_MAX - 128;
