//! The options of `gregale bench multicast`.

use bench::multicast::{Mode, Schedule, Setting};
use bench::worker::order::FabricKind;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// A schedule by which members relay large messages.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Relay {
    /// Each sender sends to all.
    Sequential,
    /// Each member sends each block on to the next.
    Chain,
    /// Each member that has all of it sends all of it to one that has nothing.
    Tree,
    /// Members exchange blocks along the edges of a hypercube.
    Pipeline,
}

impl From<Relay> for Schedule {
    fn from(relay: Relay) -> Schedule {
        match relay {
            Relay::Sequential => Schedule::Sequential,
            Relay::Chain => Schedule::Chain,
            Relay::Tree => Schedule::BinomialTree,
            Relay::Pipeline => Schedule::BinomialPipeline,
        }
    }
}

/// The group that is measured, and its load.
#[derive(Clone, Debug, Args)]
pub(crate) struct GroupArgs {
    /// The number of members.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=7))]
    members: u8,
    /// The numbers of members that send; one, and all of them, unless they are given.
    #[arg(long, value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=7))]
    senders: Vec<u8>,
    /// The bytes of a message.
    #[arg(long, value_delimiter = ',', default_values_t = [100])]
    #[arg(value_parser = clap::value_parser!(u32).range(8..=1 << 20))]
    message: Vec<u32>,
    /// Each sender's messages alone have an order, and are delivered when they are received.
    #[arg(long)]
    unordered: bool,
    /// Messages are delivered when every member has synced them to its log.
    #[arg(long, conflicts_with = "unordered")]
    durable: bool,
    /// With --durable: a directory on a disk for the logs; beside the program unless it is given.
    #[arg(long, requires = "durable")]
    data: Option<PathBuf>,
    /// The messages of a sender that are on their way at most; as many as fill 16 MiB unless it is
    /// given. With 1, a sender waits for each delivery, and latencies are those of one message.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    window: Option<u32>,
    /// The schedules by which members relay large messages over TCP, in groups of four or more.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Relay::Sequential])]
    relay: Vec<Relay>,
    /// Members compute a checksum of each message of another member.
    #[arg(long)]
    checksum: bool,
    /// The group's layout names the members that send: no turn waits for the others.
    #[arg(long, conflicts_with = "unordered")]
    chosen: bool,
    /// No group is measured: what schedules that relay messages in blocks would cost on links of
    /// 10 Gbit/s, by calculation.
    #[arg(long, conflicts_with_all = ["members", "senders", "relay", "unordered", "durable"])]
    #[arg(conflicts_with_all = ["window", "checksum", "chosen"])]
    pub(crate) schedules: bool,
}

impl GroupArgs {
    /// What is measured over `fabrics`.
    ///
    /// # Errors
    /// More members are to send than there are.
    pub(crate) fn setting(&self, fabrics: Vec<FabricKind>) -> Result<Setting, String> {
        if let Some(n) = self.senders.iter().find(|n| **n > self.members) {
            return Err(format!("--senders {n}: with --members {} no more send", self.members));
        }
        let mut senders: Vec<usize> = self.senders.iter().map(|n| usize::from(*n)).collect();
        if senders.is_empty() {
            senders = vec![1, usize::from(self.members)];
        }
        let mut seen = Vec::new();
        senders.retain(|n| {
            let is_new = !seen.contains(n);
            seen.push(*n);
            is_new
        });
        Ok(Setting {
            fabrics,
            members: usize::from(self.members),
            senders,
            message_bytes: self.message.iter().map(|bytes| *bytes as usize).collect(),
            mode: match (self.unordered, self.durable) {
                (true, _) => Mode::Unordered,
                (false, true) => Mode::Durable,
                (false, false) => Mode::Ordered,
            },
            is_checked: self.checksum,
            is_chosen: self.chosen,
            window: self.window,
            relays: self.relay.iter().copied().map(Schedule::from).collect(),
            data: self.data.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: GroupArgs,
    }

    fn senders(line: &str) -> Result<Vec<usize>, String> {
        let words = std::iter::once("multicast").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        line.args.setting(vec![FabricKind::Shm]).map(|setting| setting.senders)
    }

    #[test]
    fn no_more_members_send_than_there_are() {
        assert_eq!(senders(""), Ok(vec![1, 3]));
        assert_eq!(senders("--members 1"), Ok(vec![1]));
        assert_eq!(senders("--members 5 --senders 1,5"), Ok(vec![1, 5]));
        let refused = senders("--members 1 --senders 1,3");
        assert_eq!(refused, Err("--senders 3: with --members 1 no more send".to_owned()));
    }
}
