//! The control port: a few HTTP/1.0 answers, by threads beside the loop.
//!
//! ```text
//! GET /status    the cluster, as JSON (see status.rs); asks the other members' /card
//! GET /card      this member alone, as JSON
//! GET /metrics   Prometheus text
//! POST /members  an operator's order (see orders.rs), proven by the secret
//! ```
//! The port is bound to loopback only and has no password: it shows no data, and what changes
//! something takes a proof.
//!
//! - I1 the loop never waits for a thread here: it leaves a copy of its figures on the [`Board`]
//!   regularly, and holds the lock only for the copy.
//! - I2 a few clients are answered at a time (`places`), each within [`PATIENCE`], or, after an
//!   order, what the engine takes for it.
//! - I3 a member that left no figures for [`STALE_AFTER`] is down, also if its threads still
//!   answer.

mod cards;
mod places;

use crate::config::{Config, Durability};
use crate::orders::Office;
use crate::serve::life::Lives;
use crate::status::{
    ClusterStatus, DiskStatus, MemberStatus, Membership, PartitionStatus, ProgramStatus,
    SeatStatus, SentinelStatus, Verdicts,
};
use console::{Failure, Outcome};
use kv::door::Figures;
use places::{Place, Places};
use proto::Role;
use proto::members::Configuration;
use runtime::{Stats, View};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest time that a client of this port may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest time that another member may take to show its card.
const CARD_WITHIN: Duration = Duration::from_millis(250);
/// The bound of I3.
const STALE_AFTER: Duration = Duration::from_secs(1);
/// The longest request, and the longest card.
const BYTES_MAX: u64 = 64 << 10;

/// A member's report about itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Card {
    pub(crate) id: u16,
    /// The cluster's name. Members of earlier versions omit it.
    #[serde(default)]
    pub(crate) cluster: String,
    pub(crate) pid: u32,
    pub(crate) role: String,
    pub(crate) ballot: u64,
    pub(crate) committed: u64,
    pub(crate) applied: u64,
    /// The member that it trusts to lead; 0 for none.
    pub(crate) leader: u16,
    /// Whether no live member holds the state.
    pub(crate) data_lost: bool,
    /// The incarnation on its seat. Members of earlier versions omit it; theirs was the first.
    #[serde(default = "first")]
    pub(crate) incarnation: u64,
    /// The median time, from proposing to executing, of the batches that it led to a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) decision_p50_us: Option<f64>,
    /// The time by which state time is ahead of its wall clock (negative: behind). It is being
    /// slewed away.
    #[serde(default)]
    pub(crate) state_time_ahead_ms: i64,
    /// Its data directory, in durable modes. Members of earlier versions omit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<DiskStatus>,
    /// The process that reports its death to the others, on tcp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sentinel: Option<SentinelStatus>,
    /// The partitions that it executes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) partitions: Vec<PartitionStatus>,
    /// Its copy of the replicated program, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<ProgramStatus>,
}

fn first() -> u64 {
    base::Incarnation::FIRST.0
}

/// The figures that the loop leaves for the threads.
#[derive(Clone, Debug)]
struct Latest {
    at: Instant,
    view: View,
    stats: Stats,
    service: Figures,
}

impl Latest {
    /// Whether the loop runs (I3).
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < STALE_AFTER
    }
}

/// The board of one member; see the module's text.
#[derive(Debug)]
pub(crate) struct Board {
    config: Config,
    /// The ordinal of this life of the member's process, from 1.
    life_count: u64,
    latest: Mutex<Option<Latest>>,
    /// Its partitions, with a keyspace in partitions.
    partitions: Mutex<Vec<PartitionStatus>>,
    /// The state of the watch over this process, if there is one.
    sentinel: Mutex<Option<SentinelStatus>>,
    /// The state of the copy, with a replicated program.
    program: Mutex<Option<ProgramStatus>>,
    places: Arc<Places>,
    /// The way of operators' orders to the loop.
    pub(crate) office: Office,
    /// The pids of the others when they were last heard, to name dead processes.
    pids: Mutex<[u32; base::MAX_MEMBERS]>,
}

impl Board {
    pub(crate) fn new(config: &Config, life_count: u64) -> Arc<Board> {
        Arc::new(Board {
            config: config.clone(),
            life_count,
            latest: Mutex::new(None),
            partitions: Mutex::new(Vec::new()),
            sentinel: Mutex::new(None),
            program: Mutex::new(None),
            places: Arc::default(),
            office: Office::default(),
            pids: Mutex::new([0; base::MAX_MEMBERS]),
        })
    }

    /// Stores the loop's figures (I1).
    pub(crate) fn leave(&self, view: &View, stats: &Stats, service: Figures) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *latest {
            // The existing buffers are reused: the histogram has some kilobytes.
            Some(latest) => {
                (latest.at, latest.view, latest.service) = (Instant::now(), *view, service);
                latest.stats.clone_from(stats);
            }
            None => {
                let (view, stats) = (*view, stats.clone());
                *latest = Some(Latest { at: Instant::now(), view, stats, service });
            }
        }
    }

    /// Stores the figures of its partitions.
    pub(crate) fn leave_partitions(&self, partitions: Vec<PartitionStatus>) {
        *self.partitions.lock().unwrap_or_else(PoisonError::into_inner) = partitions;
    }

    fn partitions(&self) -> Vec<PartitionStatus> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores the state of the watch over this process.
    pub(crate) fn leave_sentinel(&self, status: SentinelStatus) {
        *self.sentinel.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    fn sentinel(&self) -> Option<SentinelStatus> {
        *self.sentinel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the state of the copy.
    pub(crate) fn leave_program(&self, status: ProgramStatus) {
        *self.program.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    fn program(&self) -> Option<ProgramStatus> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This member's card; "down" if the loop stands still (I3).
    pub(crate) fn card(&self) -> Card {
        let (id, pid) = (self.config.member, std::process::id());
        let cluster = self.config.cluster.clone();
        let Some(latest) = self.latest() else {
            return Card {
                id,
                cluster,
                pid,
                role: "learner".into(),
                incarnation: first(),
                program: self.program(),
                ..Card::default()
            };
        };
        let view = &latest.view;
        let fresh = latest.is_fresh();
        Card {
            id,
            cluster,
            pid,
            role: if fresh { role_name(view.role).into() } else { "down".into() },
            ballot: view.ballot.0,
            committed: view.committed.0,
            applied: view.applied.0,
            leader: view.trusted.map_or(0, |rank| rank.member().0),
            data_lost: view.data_lost,
            incarnation: view.incarnation.0,
            decision_p50_us: half_decided_within_us(&latest.stats),
            state_time_ahead_ms: latest.service.state_time_ahead_ms,
            disk: latest.stats.disk.as_ref().map(DiskStatus::new),
            sentinel: self.sentinel(),
            partitions: self.partitions(),
            program: self.program(),
        }
    }

    /// The cluster: every other member is asked for its card.
    pub(crate) fn cluster(&self) -> ClusterStatus {
        let own = self.card();
        let latest = self.latest().filter(Latest::is_fresh);
        let view = latest.as_ref().map(|latest| &latest.view);
        let others = cards::of_others(&self.config, own.id, view);
        let configuration = self.configuration();
        let known = others.iter().flatten().map(|card| card.ballot);
        let ballot = known.max().unwrap_or(0).max(own.ballot);
        // A member that has lost its memory executes no partition; any other knows all of them.
        let knows = |card: &&Card| !card.partitions.is_empty();
        let informed = std::iter::once(&own).chain(others.iter().flatten()).find(knows);
        let partitions = informed.map_or_else(Vec::new, |card| card.partitions.clone());
        let mut pids = self.pids.lock().unwrap_or_else(PoisonError::into_inner);
        let members: Vec<MemberStatus> = self
            .config
            .members
            .iter()
            .zip(others)
            .map(|(member, card)| {
                let card = if member.id == own.id { Some(own.clone()) } else { card };
                let at = usize::from(member.id) - 1;
                if let Some(card) = &card {
                    pids[at] = card.pid;
                } else if let Some(pid) =
                    Lives::of_other(&self.config, member.id).and_then(|lives| lives.last_pid())
                {
                    pids[at] = pid;
                }
                let seat = SeatStatus::of(configuration.as_ref(), member.id);
                let incarnation = card.as_ref().map(|card| card.incarnation);
                // A learner applies and does not vote, whatever role its machine reports.
                let learns = seat.membership == Membership::Learner
                    || incarnation.is_some_and(|own| own > seat.incarnation);
                let role = card.as_ref().map_or("down", |card| &card.role);
                let role = if learns && role == "follower" { "learner" } else { role };
                MemberStatus {
                    id: member.id,
                    membership: seat.membership,
                    incarnation: seat.incarnation,
                    pid: pids[at],
                    client: member.client.to_string(),
                    control: member.control.to_string(),
                    role: role.into(),
                    committed: card.as_ref().map_or(0, |card| card.committed),
                    applied: card.as_ref().map_or(0, |card| card.applied),
                    decision_p50_us: card.as_ref().and_then(|card| card.decision_p50_us),
                    state_time_ahead_ms: card.as_ref().map_or(0, |card| card.state_time_ahead_ms),
                    data_lost: card.as_ref().is_some_and(|card| card.data_lost),
                    sentinel: card.as_ref().and_then(|card| card.sentinel),
                    program: card.as_ref().and_then(|card| card.program.clone()),
                    disk: card.and_then(|card| card.disk),
                }
            })
            .collect();
        let waits_for_all = self.config.durability == Durability::DiskAll;
        let stands_still = |member: &&MemberStatus| {
            let trouble = member.disk.as_ref().and_then(|disk| disk.trouble.as_ref());
            member.membership == Membership::Voter && (member.role == "down" || trouble.is_some())
        };
        let missing = members.iter().filter(stands_still).map(|member| member.id);
        let writes_wait_for = missing.filter(|_| waits_for_all).collect();
        ClusterStatus {
            writes_wait_for,
            cluster: self.config.cluster.clone(),
            engine: self.config.engine().into(),
            protocol: self.config.protocol.name().into(),
            durability: self.config.durability.name().into(),
            fabric: self.config.fabric.name().into(),
            view: view_number(configuration.as_ref()),
            view_is_decided: configuration.is_none_or(|of| of.is_decided),
            ballot,
            members,
            order: self.config.partitions.map(|of| of.order.name().into()),
            partitions,
        }
    }

    /// The membership, as far as this member knows it.
    fn configuration(&self) -> Option<Configuration> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.as_ref().and_then(|latest| latest.view.configuration)
    }

    /// I1
    fn latest(&self) -> Option<Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn metrics(&self) -> String {
        let Some(Latest { view, stats, service, .. }) = self.latest() else { return String::new() };
        let mut text = String::new();
        let mut put = |name: &str, kind: &str, help: &str, value: f64| {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "# HELP gregale_{name} {help}\n# TYPE gregale_{name} {kind}\ngregale_{name} {value}\n"
            );
        };
        let leads = f64::from(u8::from(view.role == Role::Leader));
        put("leads", "gauge", "Whether this member leads.", leads);
        let leader = view.trusted.map_or(0, |rank| rank.member().0);
        put("leader", "gauge", "The member that it trusts to lead; 0 for none.", leader.into());
        put("ballot", "gauge", "The ballot that it knows.", view.ballot.0 as f64);
        put("committed", "gauge", "Slots that it knows to be decided.", view.committed.0 as f64);
        put("applied", "gauge", "Slots that it has executed.", view.applied.0 as f64);
        if let Some(configuration) = &view.configuration {
            let votes = configuration.members.voters.contains(view.me);
            put(
                "view",
                "gauge",
                "The members' configuration.",
                view_number(Some(configuration)) as f64,
            );
            put("votes", "gauge", "Whether this member votes.", f64::from(u8::from(votes)));
            let incarnation = view.incarnation.0 as f64;
            put("incarnation", "gauge", "Which disk sits on this member's seat.", incarnation);
        }
        let lost = f64::from(u8::from(view.data_lost));
        put("data_lost", "gauge", "Whether no live member holds the state.", lost);
        let restarts = self.life_count.saturating_sub(1) as f64;
        put("restarts_total", "counter", "Restarts of this member's process.", restarts);
        put("clients", "gauge", "Connected clients.", service.clients as f64);
        let refused = service.clients_refused as f64;
        put("clients_refused_total", "counter", "Clients over the limit.", refused);
        let closed = service.clients_over_limit as f64;
        let help = "Clients closed for the replies that they did not read.";
        put("clients_over_output_limit_total", "counter", help, closed);
        let put_off = service.reads_put_off as f64;
        let help = "Times that a read waited until its client had read.";
        put("reads_put_off_total", "counter", help, put_off);
        put("commands_total", "counter", "Commands of clients.", service.commands as f64);
        put("keys", "gauge", "Keys.", service.keys as f64);
        put("memory_bytes", "gauge", "Memory of keys and values.", service.memory_bytes as f64);
        let ahead_s = service.state_time_ahead_ms as f64 / 1e3;
        let help = "How far state time is ahead of the wall clock; slewed away at one percent.";
        put("state_time_ahead_seconds", "gauge", help, ahead_s);
        if let Some(disk) = &stats.disk {
            let (start, end) = (disk.log_start as f64, disk.log_end as f64);
            put("log_start", "gauge", "The first slot that the log on disk still has.", start);
            put("log_end", "gauge", "One past the last slot in the log on disk.", end);
            let logged = disk.logged_bytes as f64;
            put("logged_bytes", "gauge", "Bytes logged since the last snapshot.", logged);
            let snapshots = disk.snapshots as f64;
            put("snapshots_total", "counter", "Snapshots written.", snapshots);
            let trouble = f64::from(u8::from(disk.trouble.is_some()));
            put("disk_trouble", "gauge", "Whether the disk is full or stands still.", trouble);
            let troubles = disk.troubles as f64;
            put("disk_troubles_total", "counter", "Times that it became so.", troubles);
        }
        if let Some(SentinelStatus { pid, replaced }) = self.sentinel() {
            let help = "Whether a process watches that tells the others of this one's death.";
            put("sentinel", "gauge", help, f64::from(u8::from(pid.is_some())));
            let help = "Sentinels that died and were replaced.";
            put("sentinels_replaced_total", "counter", help, replaced as f64);
        }
        if let Some(ProgramStatus {
            executed,
            reads,
            verdicts,
            transcript_bytes,
            checkpoints,
            held,
            ..
        }) = self.program()
        {
            let help = "Bytes of the transcript that are kept.";
            put("program_transcript_bytes", "gauge", help, transcript_bytes as f64);
            let help = "Requests that the copy was fed beside the log.";
            put("program_reads_total", "counter", help, reads as f64);
            let help = "Checkpoints that counted.";
            put("program_checkpoints_total", "counter", help, checkpoints as f64);
            put(
                "program_executed",
                "gauge",
                "Entries that the copy has executed.",
                executed as f64,
            );
            let Verdicts { matched, differed, split, late, agreed_at, split_at, .. } = verdicts;
            let help = "Comparisons in which all copies had answered alike.";
            put("program_matched_total", "counter", help, matched as f64);
            let help = "Comparisons in which a minority had answered otherwise.";
            put("program_differed_total", "counter", help, differed as f64);
            let help = "Comparisons in which no majority had answered alike.";
            put("program_split_total", "counter", help, split as f64);
            let help = "Comparisons that ended without the hash of every member.";
            put("program_late_total", "counter", help, late as f64);
            let help = "Whether the newest comparison found no majority.";
            put("program_split", "gauge", help, f64::from(u8::from(split_at > agreed_at)));
            let help = "Bytes of answers that wait until they are compared.";
            put("program_held_bytes", "gauge", help, held.bytes as f64);
            let help = "Comparisons behind which held answers have left.";
            put("program_held_left_total", "counter", help, held.left as f64);
            let help = "Comparisons behind which held answers never leave.";
            put("program_held_refused_total", "counter", help, held.refused as f64);
        }
        let partitions = self.partitions();
        if !partitions.is_empty() {
            put("partitions", "gauge", "Partitions of the keyspace.", partitions.len() as f64);
            let led = partitions.iter().filter(|of| of.leader == self.config.member).count();
            put("partitions_led", "gauge", "Of them, such that this member leads.", led as f64);
        }
        for (name, help, value) in stats.counters() {
            put(&format!("{name}_total"), "counter", help.trim(), value as f64);
        }
        let _ = write!(
            text,
            "# HELP gregale_decision_seconds From proposing to executing, at the leader.\n\
             # TYPE gregale_decision_seconds summary\n"
        );
        for quantile in [0.5, 0.9, 0.99, 0.999] {
            let seconds = stats.decision_ns.value_at_quantile(quantile) as f64 / 1e9;
            let _ = writeln!(text, "gregale_decision_seconds{{quantile=\"{quantile}\"}} {seconds}");
        }
        let n = stats.decision_ns.len();
        let sum = stats.decision_ns.mean() * n as f64 / 1e9;
        let _ = write!(
            text,
            "gregale_decision_seconds_sum {sum}\ngregale_decision_seconds_count {n}\n"
        );
        text
    }

    fn answer(&self, path: &str) -> Option<(&'static str, String)> {
        // Plain structures of strings and numbers always serialise.
        match path {
            "/card" => Some((JSON, serde_json::to_string(&self.card()).unwrap_or_default())),
            "/status" => Some((JSON, serde_json::to_string(&self.cluster()).unwrap_or_default())),
            "/metrics" => Some(("text/plain; version=0.0.4", self.metrics())),
            "/challenge" => Some((TEXT, self.office.challenge().ok()? + "\n")),
            _ => None,
        }
    }

    /// The answer to an order, if it is proven.
    fn order(&self, path: &str, request: &str) -> Option<String> {
        let is_proof = |line: &str| line.strip_prefix("Authorization: ").map(str::to_owned);
        let header = request.lines().find_map(is_proof)?;
        let secret = self.config.secret().ok()?;
        self.office.take(&secret, &header, path, self.config.members.len())
    }
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// The answer to an order without a proof.
pub(crate) const FORBIDDEN: &str = "403 Forbidden";

/// The form in which `status` prints it.
pub(crate) fn role_name(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::Candidate => "candidate",
        Role::Follower => "follower",
        Role::Learner => "learner",
    }
}

/// Answers on `listener` until the process ends.
pub(crate) fn serve(board: &Arc<Board>, listener: TcpListener) -> Outcome<()> {
    let board = Arc::clone(board);
    let accept = move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // No descriptors are left: other connections will be closed, and a loop that spins
                // would not help.
                std::thread::sleep(PATIENCE / 10);
                continue;
            };
            let Some(mut place) = board.places.take(stream) else { continue }; // I2: closed
            let board = Arc::clone(&board);
            // A client that hangs up early needs no answer; if no thread can be started, there is
            // none.
            let talk = move || drop(converse(&board, &mut place));
            drop(std::thread::Builder::new().name("control-client".into()).spawn(talk));
        }
    };
    std::thread::Builder::new()
        .name("control".into())
        .spawn(accept)
        .map_err(|error| Failure::os("start the control thread", error))?;
    Ok(())
}

fn converse(board: &Board, place: &mut Place) -> std::io::Result<()> {
    let request = request(place.stream())?;
    if !place.answer() {
        return Ok(()); // I2: another has its place
    }
    let mut stream = place.stream();
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    let not_found = ("404 Not Found", TEXT, "GET /status, /card or /metrics\n".to_owned());
    let (code, kind, body) = match (words.next(), words.next()) {
        (Some("GET"), Some(path)) => match board.answer(path) {
            Some((kind, body)) => ("200 OK", kind, body),
            None => not_found,
        },
        (Some("POST"), Some(path)) => match board.order(path, &request) {
            Some(said) => ("200 OK", TEXT, said),
            None => {
                (FORBIDDEN, TEXT, "an order takes a proof by the cluster's secret\n".to_owned())
            }
        },
        _ => not_found,
    };
    let head = format!(
        "HTTP/1.0 {code}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// The head of the request, or what came before the end.
fn request(stream: &TcpStream) -> std::io::Result<String> {
    stream.set_write_timeout(Some(PATIENCE))?;
    // I2: for all of the request, however slowly it comes.
    let mut asked = runtime::By { stream, until: Instant::now() + PATIENCE };
    let mut request = Vec::new();
    let mut byte = [0; 512];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < BYTES_MAX as usize {
        match asked.read(&mut byte)? {
            0 => break,
            n => request.extend_from_slice(&byte[..n]),
        }
    }
    Ok(String::from_utf8_lossy(&request).into_owned())
}

/// The median time of the decisions here, if any were made.
fn half_decided_within_us(stats: &Stats) -> Option<f64> {
    let taken_ns = &stats.decision_ns;
    (!taken_ns.is_empty()).then(|| taken_ns.value_at_quantile(0.5) as f64 / 1e3)
}

/// The number of a view, as people are told it: the founders' is 1.
pub(crate) fn view_number(configuration: Option<&Configuration>) -> u64 {
    configuration.map_or(1, |of| of.at.0 + 1)
}
