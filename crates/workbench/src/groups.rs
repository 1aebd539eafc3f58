//! The options of `gregale bench multicast`.

use bench::multicast::{Mode, Setting};
use bench::worker::order::FabricKind;
use clap::Args;

/// The group that is measured, and its load.
#[derive(Clone, Debug, Args)]
pub(crate) struct GroupArgs {
    /// The number of members.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=7))]
    members: u8,
    /// The numbers of members that send.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 3])]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=7))]
    senders: Vec<u8>,
    /// The bytes of a message.
    #[arg(long, value_delimiter = ',', default_values_t = [100])]
    #[arg(value_parser = clap::value_parser!(u32).range(8..=1 << 20))]
    message: Vec<u32>,
    /// Each sender's messages alone have an order, and are delivered when they are received.
    #[arg(long)]
    unordered: bool,
    /// Members compute a checksum of each message that is delivered.
    #[arg(long)]
    checksum: bool,
}

impl GroupArgs {
    /// What is measured over `fabrics`. No more members send than there are.
    pub(crate) fn setting(&self, fabrics: Vec<FabricKind>) -> Setting {
        let senders = self.senders.iter().map(|n| usize::from(*n.min(&self.members))).collect();
        Setting {
            fabrics,
            members: usize::from(self.members),
            senders,
            message_bytes: self.message.iter().map(|bytes| *bytes as usize).collect(),
            mode: if self.unordered { Mode::Unordered } else { Mode::Ordered },
            is_checked: self.checksum,
        }
    }
}
