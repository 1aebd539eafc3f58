//! One process of a system under measurement: it hosts a member of every group, and one client
//! beside each member.
//!
//! It sends [`Said::Ready`] when its members deliver, loads the system when it is told to, reports
//! its measurements, and serves the others until its input ends.

use super::load::{Load, Plan, Seen};
use crate::child::say;
use crate::clock::shared_ns;
use base::Instant;
use multicast::{
    Application, Delivery, Descriptors, Desk, FabricKind, Figures, Limits, MessageId, Options,
    Order, Outcome, Protocol, Seat, System,
};
use proto::registry::Variant;
use proto::table::Row;
use serde::{Deserialize, Serialize};
use std::io::BufRead;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The interval at which a process that waits for its start looks around.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A protocol and its order: a row of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Contender {
    row: &'static Row,
    protocol: Protocol,
    order: Order,
}

impl Contender {
    /// Every one that survives crashes and keeps one order of all messages; those for use first.
    pub fn all() -> Vec<Contender> {
        let all = super::protocols().into_iter().flat_map(|protocol| {
            let rows = Protocol::variants().filter(move |(of, _)| *of == protocol);
            rows.filter(|(_, variant)| !variant.commutes)
        });
        let contender = |(protocol, variant): (Protocol, Variant)| Contender {
            row: variant.row,
            protocol,
            order: variant.rule.into(),
        };
        all.map(contender).collect()
    }

    /// The name in reports and on the command line.
    pub const fn name(self) -> &'static str {
        self.row.name
    }

    /// Whether real time has no part in its order.
    pub fn is_plain(self) -> bool {
        self.order == Order::Plain
    }
}

impl From<Contender> for String {
    fn from(contender: Contender) -> String {
        contender.name().to_owned()
    }
}

impl TryFrom<String> for Contender {
    type Error = String;

    fn try_from(name: String) -> Result<Contender, String> {
        let named = Contender::all().into_iter().find(|one| one.name() == name);
        named.ok_or_else(|| format!("no contender is called {name:?}"))
    }
}

/// The first line of a process's input: its identity and its work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The protocol.
    pub contender: Contender,
    /// The addresses at which the nodes listen, on TCP.
    pub addresses: Vec<SocketAddr>,
    /// The system's name.
    pub cluster: String,
    /// The directory of its regions.
    pub directory: PathBuf,
    /// The number of groups; each has a member on every node.
    pub groups: usize,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of this node, from 1.
    pub node: usize,
    /// The work of its clients.
    pub plan: Plan,
}

/// A message of a process, one JSON line each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Said {
    /// Its members deliver.
    Ready,
    /// Its measurements.
    Took(Took),
    /// It cannot continue, for this reason.
    Failed(String),
}

/// The measurements of a process under load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Took {
    /// The messages of its clients that were delivered within the span.
    pub completed: u64,
    /// The number of these that were refused at first and multicast later.
    pub refused: u64,
    /// The latency from multicast to delivery at the client's own member: (nanoseconds, how often).
    pub latency: Vec<(u64, u64)>,
    /// The processor time that it used, in nanoseconds.
    pub cpu_ns: u64,
    /// The duration of the measurement.
    pub span_ns: u64,
    /// The messages of the fabric that it posted.
    pub frames: u64,
    /// The bytes in them.
    pub frame_bytes: u64,
    /// The parcels that its members were handed.
    pub parcels: u64,
    /// The deliveries of its members.
    pub delivered: u64,
}

/// The parent's order: 0 before any, then the shared time at which the load begins; `u64::MAX` for
/// the end.
type Start = Arc<AtomicU64>;

/// Runs the process that `spec` describes, until its input ends.
///
/// # Errors
/// The node's.
pub fn run(spec: &Spec) -> Result<(), Box<dyn std::error::Error>> {
    let start = Start::default();
    let hears = start.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.trim().parse() {
                Ok(at) => hears.store(at, Ordering::SeqCst),
                Err(_) => break,
            }
        }
        hears.store(u64::MAX, Ordering::SeqCst);
    });
    let groups = (0..spec.groups)
        // The first primaries are on different nodes.
        .map(|group| (0..spec.nodes).map(|rank| (group + rank) % spec.nodes + 1).collect())
        .collect();
    let Contender { protocol, order, .. } = spec.contender;
    let on_tcp = !spec.addresses.is_empty();
    let directory = match on_tcp {
        false => spec.directory.clone(),
        // As on separate hosts, no node sees another's file.
        true => spec.directory.join(format!("host-{}", spec.node)),
    };
    let system = System {
        cluster: spec.cluster.clone(),
        // The files are private, and loopback is used for seconds: the secret excludes leftovers of
        // an earlier run.
        secret: spec.cluster.clone(),
        protocol,
        order,
        fabric: if on_tcp { FabricKind::Tcp } else { FabricKind::Shm },
        directory,
        nodes: spec.nodes,
        addresses: spec.addresses.clone(),
        groups,
        commutes: false,
        clock_error_us: None,
        clock_by: Default::default(),
        // A machine without time for all its processes must not cause changes of primaries.
        limits: Limits {
            window: 1 << 20,
            suspect_ms: 3000,
            patience_ms: 2000,
            ..Limits::default()
        },
        settings: String::new(),
        rules: 0,
    };
    let app = Client {
        start: start.clone(),
        phase: Phase::Probing { sent: false },
        load: Load::new(&spec.plan, spec.node, spec.groups),
        plan: spec.plan.clone(),
        now: Instant::ZERO,
        before: (Figures::default(), 0),
    };
    let stop = |_: &mut Client| start.load(Ordering::Relaxed) == u64::MAX;
    multicast::run(&system, Seat::new(spec.node), app, stop)?;
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// One message to all members is under way: when it is back, the system works.
    Probing {
        sent: bool,
    },
    Waiting,
    Warming {
        until_ns: u64,
    },
    Measuring {
        until_ns: u64,
    },
    Serving,
}

struct Client {
    start: Start,
    phase: Phase,
    plan: Plan,
    load: Load,
    now: Instant,
    /// The figures and the processor time when measuring began.
    before: (Figures, u64),
}

impl Descriptors for Client {}

impl Application for Client {
    fn deliver(&mut self, delivery: Delivery, desk: &mut Desk) {
        self.now = desk.now();
        self.load.delivered(&delivery);
    }

    fn outcome(&mut self, _: MessageId, outcome: Outcome, _: &mut Desk) {
        if let (Phase::Probing { .. }, Outcome::Delivered(_)) = (self.phase, outcome) {
            self.phase = Phase::Waiting;
            say(&Said::Ready);
        }
    }

    fn turn(&mut self, desk: &mut Desk) -> bool {
        self.now = desk.now();
        match self.phase {
            Phase::Probing { sent: false } => {
                let patience = Duration::from_secs(3600);
                let options = Options { patience, ..Options::default() };
                let everybody = desk.layout().groups();
                let sent = desk.multicast(everybody, *b"", &options).is_ok();
                self.phase = Phase::Probing { sent };
                sent
            }
            Phase::Waiting => {
                let at = self.start.load(Ordering::Relaxed);
                if at == 0 || shared_ns() < at {
                    return false;
                }
                let until_ns = at + self.plan.warm_up.as_nanos() as u64;
                self.phase = Phase::Warming { until_ns };
                self.load.begin(shared_ns());
                self.load.go_on(shared_ns(), desk)
            }
            Phase::Warming { until_ns } => {
                let now = shared_ns();
                if now >= until_ns {
                    let until_ns = now + self.plan.span.as_nanos() as u64;
                    self.phase = Phase::Measuring { until_ns };
                    self.before = (desk.figures(), cpu_ns());
                    self.load.measure(now);
                }
                self.load.go_on(now, desk)
            }
            Phase::Measuring { until_ns } => {
                let now = shared_ns();
                if now >= until_ns {
                    self.phase = Phase::Serving;
                    self.tell(now, &desk.figures());
                    self.load.end();
                    return false;
                }
                self.load.go_on(now, desk)
            }
            Phase::Probing { sent: true } | Phase::Serving => false,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Waiting => Some(self.now.plus(LOOK_EVERY)),
            Phase::Warming { .. } | Phase::Measuring { .. } => self.load.deadline(),
            Phase::Probing { .. } | Phase::Serving => None,
        }
    }
}

impl Client {
    fn tell(&self, now: u64, after: &Figures) {
        let Seen { completed, refused, latency, since_ns } = self.load.seen();
        let (before, cpu_before) = self.before;
        say(&Said::Took(Took {
            completed,
            refused,
            latency,
            cpu_ns: cpu_ns() - cpu_before,
            span_ns: now - since_ns,
            frames: after.frames - before.frames,
            frame_bytes: after.frame_bytes - before.frame_bytes,
            parcels: after.parcels - before.parcels,
            delivered: after.delivered - before.delivered,
        }));
    }
}

/// The processor time of this process.
fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
