//! The options of `gregale bench versions`.

use bench::versions::{Part, Setting};
use bench::worker::order::FabricKind;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What is measured of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnePart {
    /// Updates whose versions are kept nowhere, in memory, and on disk.
    Storage,
    /// When a version's time is final, and how long a query as of a time waits.
    Stability,
    /// Queries of one member of each of several shards.
    Shards,
    /// Typed arguments beside bytes.
    Arguments,
}

impl From<OnePart> for Part {
    fn from(part: OnePart) -> Part {
        match part {
            OnePart::Storage => Part::Storage,
            OnePart::Stability => Part::Stability,
            OnePart::Shards => Part::Shards,
            OnePart::Arguments => Part::Arguments,
        }
    }
}

/// The numbers of shards, unless others are given.
const SHARDS: [usize; 4] = [1, 2, 4, 6];

/// The groups that are measured, and their load.
#[derive(Clone, Debug, Args)]
pub(crate) struct VersionsArgs {
    /// What is measured.
    #[arg(long, value_enum, default_value_t = OnePart::Storage)]
    part: OnePart,
    /// The bytes of a value; 10000 and 1000000, as in Derecho's paper, unless they are given.
    #[arg(long, value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(24..=1_000_000))]
    value: Vec<u32>,
    /// With --part shards: the numbers of shards, of two members each; 1, 2, 4 and 6 unless they
    /// are given.
    #[arg(long, value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=12))]
    shards: Vec<u8>,
    /// With --part storage: a directory on a disk for the logs; beside the program unless it is
    /// given.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl VersionsArgs {
    /// What is measured over `fabrics`.
    pub(crate) fn setting(&self, fabrics: Vec<FabricKind>) -> Setting {
        Setting {
            part: self.part.into(),
            fabrics,
            value_bytes: self.value.iter().map(|bytes| *bytes as usize).collect(),
            shards: match self.shards.is_empty() {
                true => SHARDS.to_vec(),
                false => self.shards.iter().map(|n| usize::from(*n)).collect(),
            },
            data: self.data.clone(),
        }
    }

    /// Why an option that is given is not for the part that is measured.
    pub(crate) fn of_another_part(&self) -> Option<&'static str> {
        let shards = "--shards is for --part shards";
        let data = "--data is for --part storage: the other parts write nothing to a disk";
        let given = [
            (!self.shards.is_empty(), OnePart::Shards, shards),
            (self.data.is_some(), OnePart::Storage, data),
        ];
        let other = given.into_iter().find(|(is_given, part, _)| *is_given && *part != self.part);
        other.map(|(.., why)| why)
    }
}
