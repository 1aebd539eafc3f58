//! `gregale bench`: measures, prints a table or JSON, and writes both with a figure if asked to.

mod options;

use crate::choices::{Durability, Multicast, OneFabric, Rival, Server, Waiting, Wan};
use crate::groups::GroupArgs;
use crate::programs::ProgramArgs;
use crate::versions::VersionsArgs;
use bench::failover::Setting;
use bench::group::Launcher;
use bench::member::Wait;
use bench::run::Effort;
use bench::shapes::Parts;
use bench::worker::order::FabricKind;
use clap::{Args, Subcommand};
use console::{Failure, Format, Outcome};
use proto::registry::{self, LogProtocol};
use proto::table::Row;
use report::Report;
use report::figure::FigureError;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The hidden subcommand that a benchmark starts this program with.
pub(crate) const WORKER: &str = "bench-worker";

/// `gregale bench`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    gregale bench decide --fabric shm                       what a decision takes\n  \
    gregale bench failover --kills 200 --out results   kill -9 of 200 leaders, with a figure\n  \
    gregale bench kv --against redis,redis-wait2,etcd       beside what people use today\n  \
    gregale bench kv --durability disk-quorum --against etcd,redis-aof   synced to disk\n\n\
    Measure on a quiet machine: a figure of a busy one is a figure of the other programs.")]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    how: How,
}

/// The options of all benchmarks.
#[derive(Debug, Args)]
struct How {
    /// The number of measurements of everything; medians are reported. (What counts kills, and what
    /// is calculated, is measured once.)
    #[arg(long, global = true, value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// One short run: to see that it works.
    #[arg(long, global = true)]
    quick: bool,
    /// The format of the printed result.
    #[arg(long, global = true, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Also write the result as JSON and as a figure (SVG) into this directory.
    #[arg(long, global = true, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Each verb's time over a fabric, beside the machine's floors.
    #[command(after_help = "Example:\n  gregale bench fabric --fabric tcp --wait spin")]
    Fabric {
        /// Which provider.
        #[arg(long, value_enum, default_value_t = OneFabric::Shm)]
        fabric: OneFabric,
        /// The way in which both sides wait: shm completes at once and needs it for messages only.
        #[arg(long, value_enum, default_value_t = Waiting::Spin)]
        wait: Waiting,
    },
    /// The protocol alone: three replicas in one thread, beside other crates.
    #[command(after_help = "Example:\n  gregale bench core --against omnipaxos,raft\n\n\
        The rivals are built from bench/rivals: run it in the repository.")]
    Core {
        /// Crates to run beside it.
        #[arg(long, value_enum, value_delimiter = ',')]
        against: Vec<Rival>,
    },
    /// The time of a decision at the leader of three processes.
    #[command(after_help = "Examples:\n  gregale bench decide --fabric shm --format json\n  \
        gregale bench decide --fabric tcp --protocol velos,durable,mu,multipaxos")]
    Decide {
        /// Which provider.
        #[arg(long, value_enum, default_value_t = OneFabric::Shm)]
        fabric: OneFabric,
        /// The protocols: those that replicate a log.
        #[arg(long, value_delimiter = ',', default_value = "velos", value_parser = log_named)]
        protocol: Vec<LogProtocol>,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// From kill -9 of the leader to the next value at a surviving follower.
    #[command(
        after_help = "Example:\n  gregale bench failover --fabric shm --kills 200 --out results\n  \
        gregale bench failover --fabric tcp --resident 1GiB --asleep"
    )]
    Failover {
        /// Which provider.
        #[arg(long, value_enum, default_value_t = OneFabric::Shm)]
        fabric: OneFabric,
        /// The protocol: one that replicates a log.
        #[arg(long, default_value = "velos", value_parser = log_named)]
        protocol: LogProtocol,
        /// The number of leaders that are killed for each row.
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
        kills: u32,
        /// Also with a leader that holds this much memory, as 512MiB or 1GiB.
        #[arg(long, value_parser = parse_bytes)]
        resident: Option<u64>,
        /// Also with an idle leader, which sleeps.
        #[arg(long)]
        asleep: bool,
        /// Also with followers that spin: for machines with a core for each.
        #[arg(long)]
        spin: bool,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// SET and GET by redis-benchmark on a cluster of three, beside other servers.
    #[command(after_help = "Examples:\n  gregale bench kv --against redis,redis-wait2,etcd\n  \
        gregale bench kv --protocol velos,multipaxos,abd --fabric shm\n  \
        gregale bench kv --durability disk-quorum --against etcd,redis-aof --data /var/tmp\n\n\
        Needs redis-benchmark (Debian: redis-tools), and the servers that it is run against.")]
    Kv {
        /// Which providers.
        #[arg(long, value_enum, value_delimiter = ',')]
        #[arg(default_values_t = [OneFabric::Shm, OneFabric::Tcp])]
        fabric: Vec<OneFabric>,
        /// The protocols; without any, the durability's. Each is measured on those of the fabrics
        /// that it runs on.
        #[arg(long, value_delimiter = ',', value_parser = named)]
        protocol: Vec<&'static Row>,
        /// Servers to run in turn with it.
        #[arg(long, value_enum, value_delimiter = ',')]
        against: Vec<Server>,
        /// The failures that an acknowledged write survives; see `gregale up --help`. On disk it is
        /// SET alone, with 1, 64 and 256 clients, beside the disk's own time to sync a record.
        #[arg(long, value_enum, default_value_t = Durability::MemoryQuorum)]
        durability: Durability,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// A durable cluster of three is killed whole: how long until every member serves again.
    #[command(after_help = "Example:\n  gregale bench restart --state 1GiB --fabric shm\n\n\
        Twice in each run: with files that the kernel still holds in memory (warm), and without\n\
        them, as after a power cut (cold). Takes up to fifteen times the state on disk.")]
    Restart {
        /// Which providers.
        #[arg(long, value_enum, value_delimiter = ',', default_values_t = [OneFabric::Shm])]
        fabric: Vec<OneFabric>,
        /// Keys and values, 1 KiB each.
        #[arg(long, default_value = "1GiB", value_parser = parse_bytes)]
        state: u64,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// A member is killed: how long a client that knows its address alone waits for an answer.
    #[command(after_help = "Example:\n  gregale bench comeback --kills 20 --fabric shm,tcp\n\n\
        In memory and on disk; a follower and the leader of each cluster of three.")]
    Comeback {
        /// Which providers.
        #[arg(long, value_enum, value_delimiter = ',')]
        #[arg(default_values_t = [OneFabric::Shm, OneFabric::Tcp])]
        fabric: Vec<OneFabric>,
        /// The number of kills of each kind.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        kills: u32,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// SETs on a durable cluster of three while it takes snapshots, and while it does not.
    #[command(after_help = "Example:\n  gregale bench snapshot --state 64MiB\n\n\
        Needs redis-benchmark (Debian: redis-tools).")]
    Snapshot {
        /// Which providers.
        #[arg(long, value_enum, value_delimiter = ',', default_values_t = [OneFabric::Shm])]
        fabric: Vec<OneFabric>,
        /// Keys and values, 1 KiB each; a snapshot is taken whenever as much was logged.
        #[arg(long, default_value = "64MiB", value_parser = parse_bytes)]
        state: u64,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Atomic multicast: throughput against latency, eight groups of three, in three processes.
    #[command(after_help = "Examples:\n  \
        gregale bench amcast --fabric shm --destinations 2 --open\n  \
        gregale bench amcast --protocol primcast,primcast-linearizable\n  \
        gregale bench amcast --wan distributed --destinations 2,4   the convoy effect\n\n\
        Each process hosts one member of every group on one poll loop, and a client beside each.\n\
        With --wan nothing is run but the simulator, and times are virtual.")]
    Amcast {
        /// Which providers.
        #[arg(long, value_enum, value_delimiter = ',')]
        #[arg(default_values_t = [OneFabric::Shm, OneFabric::Tcp])]
        fabric: Vec<OneFabric>,
        /// The number of the eight groups that each message goes to.
        #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
        #[arg(value_parser = clap::value_parser!(u8).range(1..=8))]
        destinations: Vec<u8>,
        /// The protocols; the first is compared with the others.
        #[arg(long, value_enum, value_delimiter = ',')]
        #[arg(default_values_t = Multicast::usual())]
        protocol: Vec<Multicast>,
        /// Also an open loop: messages at fixed rates, whether or not earlier ones were delivered.
        #[arg(long)]
        open: bool,
        /// A wide area instead, in virtual time, with every protocol and every order.
        #[arg(long, value_enum, conflicts_with_all = ["fabric", "protocol"])]
        wan: Option<Wan>,
    },
    /// Ordered multicast in a group with views: messages delivered at each member a second.
    #[command(
        after_help = "Examples:\n  gregale bench multicast --senders 1,3 --message 100,1048576\n  \
        gregale bench multicast --durable --senders 1 --window 1\n  \
        gregale bench multicast --schedules --message 1048576\n\n\
        Each member is a process; one that sends does so whenever it has room. The floors are\n\
        what one thread copies within as much memory as a window, and one plain stream; with\n\
        --durable, what a sync of a file of this disk takes."
    )]
    Multicast {
        /// Which providers.
        #[arg(long, value_enum, value_delimiter = ',', default_values_t = [OneFabric::Shm])]
        #[arg(conflicts_with = "schedules")]
        fabric: Vec<OneFabric>,
        #[command(flatten)]
        group: GroupArgs,
    },
    /// Writes to a replicated program, beside the program alone and three copies without an order.
    #[command(after_help = "Examples:\n  \
        gregale bench replicate --program redis --order serial,loop --fabric shm\n  \
        gregale bench replicate --clients 1,4,16 --data /var/tmp\n  \
        gregale bench replicate --program redis --gets      reads through the log and beside it\n  \
        gregale bench replicate --kills 50                  kill -9 of 50 leaders\n\n\
        Needs the programs (Debian: redis-server, memcached). The floor is a process that hands\n\
        what clients say to three copies, and the first one's answers back.")]
    Replicate {
        /// Which providers.
        #[arg(long, value_enum, value_delimiter = ',')]
        #[arg(default_values_t = [OneFabric::Shm, OneFabric::Tcp])]
        fabric: Vec<OneFabric>,
        #[command(flatten)]
        programs: ProgramArgs,
    },
    /// The shapes of Derecho's measurements on clusters, in the simulator: throughput by members,
    /// senders, shards and slow members, and what a change of members costs.
    #[command(after_help = "Examples:\n  gregale bench shapes --out results\n  \
        gregale bench shapes --views        only changes of views, with up to 64 members\n  \
        gregale bench shapes --views --of 128,500\n\n\
        Nothing is measured on this machine: hosts and their network have costs (docs/benchmarks.md).")]
    Shapes {
        /// Only what a change of views costs, with up to 64 members.
        #[arg(long)]
        views: bool,
        /// With --views: the numbers of members, up to 511. (500 take some gigabytes, and minutes.)
        #[arg(long, requires = "views", value_delimiter = ',')]
        #[arg(value_parser = clap::value_parser!(u64).range(2..base::SEATS_MAX as u64))]
        of: Vec<u64>,
    },
    /// Versions of a replicated object: storage, final times, queries over shards, arguments.
    #[command(
        after_help = "Examples:\n  gregale bench versions --part storage --data /var/tmp\n  \
        gregale bench versions --part stability --fabric tcp\n  \
        gregale bench versions --part shards --shards 1,6\n  \
        gregale bench versions --part arguments --value 100,100000\n\n\
        Each member is a process. The floors are a copy, an append to a file of this disk that is\n\
        synced, and a round trip of as many bytes between two threads that sleep."
    )]
    Versions {
        /// Which providers.
        #[arg(long, value_enum, value_delimiter = ',')]
        #[arg(default_values_t = [OneFabric::Shm, OneFabric::Tcp])]
        fabric: Vec<OneFabric>,
        #[command(flatten)]
        versions: VersionsArgs,
    },
    /// Processor time of an idle cluster of three.
    #[command(after_help = "Example:\n  gregale bench idle --seconds 10")]
    Idle {
        /// Which providers.
        #[arg(long, value_enum, value_delimiter = ',')]
        #[arg(default_values_t = [OneFabric::Shm, OneFabric::Tcp])]
        fabric: Vec<OneFabric>,
        /// The duration of one run.
        #[arg(long, default_value_t = 10)]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
        seconds: u64,
    },
}

/// The place of a disk benchmark's data.
#[derive(Clone, Debug, Args)]
struct PlaceArgs {
    /// A directory on the disk to measure, not on a tmpfs; its files are removed afterwards.
    /// Without it, beside this program.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// The state of a `--quick` benchmark of large ones.
const QUICK_STATE_BYTES: u64 = 16 << 20;
/// The number of runs of a benchmark with a large state.
const LARGE_RUNS: u32 = 3;

impl How {
    fn effort(&self) -> Effort {
        let effort = if self.quick { Effort::QUICK } else { Effort::FULL };
        Effort { runs: self.runs.unwrap_or(effort.runs), ..effort }
    }

    /// The number of runs, and the size of the state, if it is large.
    fn large(&self, state_bytes: u64) -> (u32, u64) {
        let runs = self.runs.unwrap_or(if self.quick { 1 } else { LARGE_RUNS });
        (runs, if self.quick { state_bytes.min(QUICK_STATE_BYTES) } else { state_bytes })
    }

    /// Prints and writes. What was measured is told even if it cannot be drawn.
    fn tell(&self, report: &Report, name: &str, figure: Result<String, FigureError>) -> Outcome {
        match self.format {
            Format::Table => out!("{}", report.table()),
            Format::Json => outln!("{}", report.to_json()),
        }
        self.put(&format!("{name}.json"), &report.to_json())?;
        self.draw(name, figure)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Writes a figure, if files are requested.
    fn draw(&self, name: &str, figure: Result<String, FigureError>) -> Outcome<()> {
        match &self.out {
            Some(_) => self.put(&format!("{name}.svg"), &figure.map_err(Failure::new)?),
            None => Ok(()),
        }
    }

    /// Writes a file, if files are requested.
    fn put(&self, name: &str, text: &str) -> Outcome<()> {
        let Some(directory) = &self.out else { return Ok(()) };
        std::fs::create_dir_all(directory)
            .map_err(|error| Failure::os(format_args!("make {}", directory.display()), error))?;
        let path = directory.join(name);
        std::fs::write(&path, text)
            .map_err(|error| Failure::os(format_args!("write {}", path.display()), error))
    }
}

/// Parses a size as everywhere, and also with the unit's full name: 1GiB.
fn parse_bytes(text: &str) -> Result<u64, String> {
    kv::connection::bytes_of(&text.to_ascii_lowercase().replace("ib", "b"))
        .ok_or_else(|| format!("{text:?} is no amount of bytes: write 100mb or 2GiB"))
}

/// The protocol of that name that replicates a log.
fn log_named(name: &str) -> Result<LogProtocol, String> {
    let all = LogProtocol::ALL;
    all.iter().copied().find(|one| one.name() == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| one.name()).collect();
        format!("no log is replicated by {name:?}: say one of {}", names.join(", "))
    })
}

/// The promises of the protocol of that name, of either family.
fn named(name: &str) -> Result<&'static Row, String> {
    registry::rows().find(|row| row.name == name).ok_or_else(|| {
        let names: Vec<&str> = registry::rows().map(|row| row.name).collect();
        format!("there is no protocol {name:?}: say one of {}", names.join(", "))
    })
}

/// Runs the benchmark.
pub(crate) fn run(args: &BenchArgs) -> Outcome {
    options::check(args)?;
    let how = &args.how;
    let effort = how.effort();
    let launcher = Launcher::this_program(WORKER).map_err(Failure::new)?;
    let (name, report) = match &args.what {
        What::Fabric { fabric, wait } => {
            let wait = match wait {
                Waiting::Spin => Wait::Spin,
                Waiting::Sleep => Wait::Sleep,
            };
            let fabric = (*fabric).into();
            (
                with(&["fabric", name_of(fabric)]),
                done(bench::verbs::report(&launcher, fabric, wait, &effort))?,
            )
        }
        What::Core { against } => ("core".to_owned(), core(against, &effort)?),
        What::Decide { fabric, protocol, place } => {
            let (fabric, protocols) = ((*fabric).into(), protocol.clone());
            let setting = bench::decide::Setting { fabric, protocols, data: place.data.clone() };
            (
                with(&["decide", name_of(fabric)]),
                done(bench::decide::report(&launcher, &setting, &effort))?,
            )
        }
        What::Failover { fabric, protocol, kills, resident, asleep, spin, place } => {
            let fabric = (*fabric).into();
            let kills = if how.quick { (*kills).min(5) } else { *kills };
            let (protocol, resident_bytes, followers) = (*protocol, 0, Wait::Sleep);
            let plain =
                Setting { fabric, protocol, resident_bytes, asleep: false, followers, kills };
            let settings = settings(plain, *resident, *asleep, *spin);
            let data = place.data.as_deref();
            let outcome = done(bench::failover::report(&launcher, &settings, data))?;
            let name = with(&["failover", name_of(fabric)]);
            return how.tell(&outcome.report, &name, outcome.figure());
        }
        What::Kv { fabric, protocol, against, durability, place } => {
            let setting = bench::kv::Setting {
                gregale: server()?,
                fabrics: kinds(fabric),
                protocols: match protocol.is_empty() {
                    true => vec![durability.protocol()],
                    false => protocol.clone(),
                },
                against: against.iter().map(|server| (*server).into()).collect(),
                data: place.data.clone(),
            };
            kv(&setting, *durability, &effort)?
        }
        What::Restart { fabric, state, place } => {
            let (runs, state_bytes) = how.large(*state);
            let (gregale, fabrics) = (server()?, kinds(fabric));
            let data = place.data.clone();
            let setting = bench::restart::Setting { gregale, fabrics, state_bytes, data };
            ("restart".to_owned(), done(bench::restart::report(&setting, runs))?)
        }
        What::Comeback { fabric, kills, place } => {
            let clusters = if how.quick { (*kills).min(3) } else { *kills };
            let (gregale, fabrics) = (server()?, kinds(fabric));
            let data = place.data.clone();
            let setting = bench::comeback::Setting { gregale, fabrics, clusters, data };
            ("comeback".to_owned(), done(bench::comeback::report(&setting))?)
        }
        What::Snapshot { fabric, state, place } => {
            let (runs, state_bytes) = how.large(*state);
            let (gregale, fabrics) = (server()?, kinds(fabric));
            let data = place.data.clone();
            let setting = bench::snapshot::Setting { gregale, fabrics, state_bytes, data };
            ("snapshot".to_owned(), done(bench::snapshot::report(&setting, runs))?)
        }
        What::Amcast { destinations, open, wan: Some(wan), .. } => {
            let setting = bench::amcast::wan::Setting {
                scenario: (*wan).into(),
                destinations: destinations.iter().map(|n| usize::from(*n)).collect(),
                open: *open,
            };
            let report = bench::amcast::wan::report(&setting, &effort, how.quick);
            let figure = bench::amcast::wan::distribution(&report);
            how.draw(&format!("{}-distribution", report.bench), figure)?;
            (report.bench.clone(), report)
        }
        What::Amcast { fabric, destinations, protocol, open, wan: None } => {
            let setting = bench::amcast::Setting {
                fabrics: kinds(fabric),
                contenders: protocol.iter().map(|one| one.0).collect(),
                destinations: destinations.iter().map(|n| usize::from(*n)).collect(),
                open: *open,
            };
            ("amcast".to_owned(), done(bench::amcast::report(&launcher, &setting, &effort))?)
        }
        What::Multicast { fabric, group } => {
            let setting = group.setting(kinds(fabric)).map_err(Failure::new)?;
            match group.schedules {
                true => {
                    let report = bench::multicast::schedules::report(&setting.message_bytes);
                    ("multicast-schedules".to_owned(), report)
                }
                false => {
                    let report = done(bench::multicast::report(&launcher, &setting, &effort))?;
                    ("multicast".to_owned(), report)
                }
            }
        }
        What::Replicate { fabric, programs } => {
            let setting = programs.setting(server()?, kinds(fabric));
            match programs.kills() {
                Some(n) => {
                    let n = if how.quick { n.min(5) } else { n };
                    ("replicate-kills".to_owned(), done(bench::replicate::kills(&setting, n))?)
                }
                None => {
                    ("replicate".to_owned(), done(bench::replicate::report(&setting, &effort))?)
                }
            }
        }
        What::Shapes { views, of } => {
            let sizes = || of.iter().map(|n| *n as usize).collect();
            let parts = if *views { Parts::Views(sizes()) } else { Parts::All };
            let report = bench::shapes::report(&parts, how.quick).map_err(Failure::new)?;
            ("shapes".to_owned(), report)
        }
        What::Versions { fabric, versions } => {
            let setting = versions.setting(kinds(fabric));
            let report = done(bench::versions::report(&launcher, &setting, &effort))?;
            (setting.part.name().to_owned(), report)
        }
        What::Idle { fabric, seconds } => {
            let fabrics = kinds(fabric);
            let span = Duration::from_secs(if how.quick { 2 } else { *seconds });
            // Ten seconds are long enough to be their own average.
            let runs = how.runs.unwrap_or(1);
            ("idle".to_owned(), done(bench::idle::report(&server()?, &fabrics, span, runs))?)
        }
    };
    how.tell(&report, &name, bench::pictures::of(&report))
}

/// The server that is measured: `gregale`, beside this program.
fn server() -> Outcome<PathBuf> {
    console::beside("gregale", "this benchmark")
}

/// Runs a worker of a benchmark, until its parent is done with it.
pub(crate) fn worker() -> Outcome {
    bench::worker::run();
    Ok(ExitCode::SUCCESS)
}

fn done<T, E: Display>(result: Result<T, E>) -> Outcome<T> {
    result.map_err(Failure::new)
}

fn with(parts: &[&str]) -> String {
    parts.join("-")
}

fn name_of(fabric: FabricKind) -> &'static str {
    fabric.name()
}

fn kinds(fabrics: &[OneFabric]) -> Vec<FabricKind> {
    fabrics.iter().map(|fabric| (*fabric).into()).collect()
}

/// Measures what is useful for the durability.
fn kv(
    setting: &bench::kv::Setting,
    durability: Durability,
    effort: &Effort,
) -> Outcome<(String, Report)> {
    match durability {
        Durability::MemoryQuorum if setting.data.is_some() => Err(Failure::new(
            "--data: memory-quorum keeps nothing on disk; say --durability disk-quorum",
        )),
        Durability::MemoryQuorum => {
            Ok(("kv".to_owned(), done(bench::kv::report(setting, effort))?))
        }
        Durability::DiskQuorum => {
            Ok(("kv-disk-quorum".to_owned(), done(bench::kv::durable_report(setting, effort))?))
        }
    }
}

fn core(against: &[Rival], effort: &Effort) -> Outcome<Report> {
    let rivals = if against.is_empty() {
        None
    } else {
        let mut rivals = done(bench::rivals::measure())?;
        let wanted = |name: &str| {
            against.iter().any(|rival| match rival {
                Rival::Omnipaxos => name.contains("omnipaxos"),
                Rival::Raft => name.contains("raft"),
            })
        };
        rivals.rows.retain(
            |row| matches!(row.get("peer"), Some(report::Value::Text(name)) if wanted(name)),
        );
        Some(rivals)
    };
    Ok(bench::core::report(effort, rivals.as_ref()))
}

/// The settings: under load first, then the others that were requested.
fn settings(plain: Setting, resident: Option<u64>, asleep: bool, spin: bool) -> Vec<Setting> {
    let mut settings = vec![plain];
    if let Some(resident_bytes) = resident {
        settings.push(Setting { resident_bytes, ..plain });
    }
    if asleep {
        settings.push(Setting { asleep, ..plain });
    }
    if spin {
        settings.push(Setting { followers: Wait::Spin, ..plain });
    }
    settings
}
