//! The options of `gregale bench replicate`.

use bench::replicate::{Order, Program, Setting};
use bench::worker::order::FabricKind;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// The programs that are replicated, and their load.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProgramArgs {
    /// The programs.
    #[arg(long, value_enum, value_delimiter = ',')]
    #[arg(default_values_t = [OneProgram::Redis, OneProgram::Memcached])]
    program: Vec<OneProgram>,
    /// The orders; each program is run in those that it takes.
    #[arg(long, value_enum, value_delimiter = ',')]
    #[arg(default_values_t = [OneOrder::Serial, OneOrder::Loop, OneOrder::LoopByReplies])]
    order: Vec<OneOrder>,
    /// The numbers of connections, each with one request under way.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16])]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000), conflicts_with = "kills")]
    clients: Vec<u16>,
    /// The entries from one comparison of the copies' answers to the next; 0 for none.
    #[arg(long, default_value_t = 1000)]
    compare: u64,
    /// Clients read, in place of writing: through the log, and beside it (--program-reads).
    #[arg(long, conflicts_with = "kills")]
    gets: bool,
    /// A directory on the disk to measure, not on a tmpfs: members keep their logs there. Without
    /// it they are in memory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Kill so many leaders, and tell how long a client of a survivor is not answered, in place of
    /// a load.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    kills: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OneProgram {
    Redis,
    Memcached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OneOrder {
    Serial,
    Loop,
    LoopByReplies,
}

impl ProgramArgs {
    /// The number of leaders that are killed, if any are.
    pub(crate) fn kills(&self) -> Option<u32> {
        self.kills
    }

    /// What is measured over `fabrics`.
    pub(crate) fn setting(&self, gregale: PathBuf, fabrics: Vec<FabricKind>) -> Setting {
        let program = |of: &OneProgram| match of {
            OneProgram::Redis => Program::Redis,
            OneProgram::Memcached => Program::Memcached,
        };
        let order = |of: &OneOrder| match of {
            OneOrder::Serial => Order::Serial,
            OneOrder::Loop => Order::Loop,
            OneOrder::LoopByReplies => Order::LoopByReplies,
        };
        Setting {
            gregale,
            fabrics,
            programs: self.program.iter().map(program).collect(),
            orders: self.order.iter().map(order).collect(),
            clients: self.clients.iter().map(|n| usize::from(*n)).collect(),
            compare: self.compare,
            gets: self.gets,
            data: self.data.clone(),
        }
    }
}
