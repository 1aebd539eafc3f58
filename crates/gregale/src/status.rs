//! `gregale status`, and a cluster's report about itself.
//!
//! The names in [`ClusterStatus`] are an interface: additions only.

use crate::connect::{self, ConnectArgs};
use crate::resp::{Connection, OF_A_PROGRAM, Value, refused};
use base::{Incarnation, NodeId, Rank};
use clap::Args;
use console::{Failure, Format, Outcome};
use proto::members::Configuration;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// `gregale status`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gregale status --connect 127.0.0.1:7000 --format json\n  \
    gregale status --control 127.0.0.1:41229  of a replicated program; `up` shows these ports\n\n\
    Exit code 1: a member says that the data is lost.")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// Any live member's control address, instead of a client address: the client ports of a
    /// replicated program are the program's.
    #[arg(long)]
    pub(crate) control: Option<SocketAddr>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// The section of INFO that answers with the whole cluster's status as JSON.
pub(crate) const SECTION: &str = kv::door::STATUS_SECTION;

/// The longest time that a member may take to answer for all.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// A cluster, as one of its members sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClusterStatus {
    pub(crate) cluster: String,
    /// The protocol's family.
    pub(crate) engine: String,
    pub(crate) protocol: String,
    pub(crate) durability: String,
    pub(crate) fabric: String,
    /// The agreed membership's number.
    pub(crate) view: u64,
    /// Whether a majority has agreed to it: if not, a change is under way.
    #[serde(default = "yes")]
    pub(crate) view_is_decided: bool,
    /// The leader's ballot, or the highest known one.
    pub(crate) ballot: u64,
    /// Where a write waits for every disk: the members without which no write is acknowledged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) writes_wait_for: Vec<u16>,
    pub(crate) members: Vec<MemberStatus>,
    /// With partitions: the order of commands of several partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<String>,
    /// With partitions: each, as the answering member sees it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) partitions: Vec<PartitionStatus>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartitionStatus {
    /// The number, from 0.
    pub(crate) id: usize,
    /// The member that leads it; 0 for none.
    pub(crate) leader: u16,
    /// The messages that the answering member's replica has executed.
    pub(crate) executed: u64,
    /// The number of its keys.
    pub(crate) keys: u64,
}

/// A member of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MemberStatus {
    pub(crate) id: u16,
    /// The process id; 0 if the member was never heard.
    pub(crate) pid: u32,
    pub(crate) client: String,
    /// The control address. Members of earlier versions omit it.
    #[serde(default)]
    pub(crate) control: String,
    /// Whether it is a voter or learner, by the agreed membership.
    #[serde(default)]
    pub(crate) membership: Membership,
    /// The incarnation on the seat, or the last one; 0 if the seat was never taken.
    #[serde(default)]
    pub(crate) incarnation: u64,
    /// The role: leader, candidate, follower, learner or down.
    pub(crate) role: String,
    pub(crate) committed: u64,
    pub(crate) applied: u64,
    /// The median time of the batches that it led to a decision; absent where it led none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) decision_p50_us: Option<f64>,
    /// The time in milliseconds by which state time, by which keys expire, is ahead of its wall
    /// clock (negative: behind). The difference is slewed away at one percent of the time that
    /// passes.
    #[serde(default)]
    pub(crate) state_time_ahead_ms: i64,
    /// Whether, as far as it sees, no live member holds the state.
    #[serde(default)]
    pub(crate) data_lost: bool,
    /// Its disk, in durable modes, unless it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<DiskStatus>,
    /// Its sentinel, on tcp, unless it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sentinel: Option<SentinelStatus>,
    /// Its copy of the replicated program, unless it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<ProgramStatus>,
}

/// A copy of a replicated program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProgramStatus {
    /// The entries of connections that the copy has executed, those before its beginning included.
    pub(crate) executed: u64,
    /// The requests that it was fed beside the log, in this life of the member.
    #[serde(default)]
    pub(crate) reads: u64,
    /// The bytes that were decided, and not fed yet.
    pub(crate) waiting_bytes: u64,
    /// The time for which the copy has taken up nothing and said nothing, though something of it is
    /// waited for.
    #[serde(default)]
    pub(crate) stalled_ms: u64,
    /// The bytes of what is kept of everything that was decided: a copy that begins again is fed
    /// with it.
    pub(crate) transcript_bytes: u64,
    /// The clients of the member, and the connections of all members.
    pub(crate) clients: u64,
    pub(crate) connections: u64,
    /// The entries before the copy's beginning: those before the checkpoint that it began with.
    #[serde(default)]
    pub(crate) began_at: u64,
    /// The entries before the newest checkpoint that counts; 0 for none.
    #[serde(default)]
    pub(crate) checkpoint_at: u64,
    /// The checkpoints that counted, and those that were begun in vain.
    #[serde(default)]
    pub(crate) checkpoints: u64,
    #[serde(default)]
    pub(crate) checkpoints_in_vain: u64,
    /// The reason why this copy was not saved when it was its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<String>,
    /// How often a thread of the program has read the clock again and again, and did not wait: by
    /// the log's time, it is then shown a time of its own.
    #[serde(default)]
    pub(crate) clock_spins: u64,
    /// The answers that wait for a verdict, where they do.
    #[serde(default)]
    pub(crate) held: HeldAnswers,
    /// The comparisons of the copies' answers, as this member knows them.
    #[serde(default)]
    pub(crate) verdicts: Verdicts,
}

/// Answers to own clients that are held until they were compared, in this life of the member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldAnswers {
    /// The bytes that wait now.
    pub(crate) bytes: u64,
    /// The comparisons behind which answers have left.
    pub(crate) left: u64,
    /// Those behind which they never will: no majority has given the same.
    pub(crate) refused: u64,
}

/// The comparisons of the copies' answers. A point lies after every so many entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verdicts {
    /// The points at which all copies had answered alike.
    pub(crate) matched: u64,
    /// The points at which a minority had answered otherwise, and was dropped.
    pub(crate) differed: u64,
    /// The points at which no majority had answered alike.
    pub(crate) split: u64,
    /// The points at which not all members had told their hash in time.
    pub(crate) late: u64,
    /// The newest point at which a majority had answered alike; 0 before the first.
    pub(crate) agreed_at: u64,
    /// The number of copies in that majority.
    pub(crate) agreed_by: u64,
    /// The newest point at which there was no majority; 0 if there was none.
    pub(crate) split_at: u64,
}

impl ProgramStatus {
    /// The table for people.
    fn line(&self) -> String {
        let ProgramStatus {
            executed, waiting_bytes, transcript_bytes, clients, connections, ..
        } = self;
        let stalled = match self.stalled_ms / 1000 {
            0 => String::new(),
            seconds => format!("; NOTHING TAKEN UP for {seconds} s"),
        };
        let reads = match self.reads {
            0 => String::new(),
            n => format!(", {n} reads beside the log"),
        };
        let held = match self.held {
            HeldAnswers { bytes: 0, left: 0, refused: 0 } => String::new(),
            HeldAnswers { bytes, refused, .. } => {
                format!("; {bytes} bytes of answers are held, {refused} comparisons refused some")
            }
        };
        format!(
            "{executed} entries executed{reads}, {waiting_bytes} of {transcript_bytes} bytes wait, {clients} of \
             {connections} connections here{held}{stalled}"
        )
    }

    /// The checkpoints, for people, if there is something to say.
    fn checkpoints(&self) -> Option<String> {
        let ProgramStatus { began_at, checkpoint_at, checkpoints, checkpoints_in_vain, .. } = self;
        if checkpoints + checkpoints_in_vain == 0 && self.trouble.is_none() {
            return None;
        }
        let mut text = format!(
            "{checkpoints} checkpoints, {checkpoints_in_vain} in vain; the newest at entry \
             {checkpoint_at}, the copy began at {began_at}"
        );
        if let Some(trouble) = &self.trouble {
            text += &format!("; not saved here: {trouble}");
        }
        Some(text)
    }

    /// The verdicts, for people, if there was any.
    fn verdicts(&self) -> Option<String> {
        let Verdicts { matched, differed, split, late, agreed_at, agreed_by, split_at } =
            self.verdicts;
        if matched + differed + split + late + agreed_at == 0 {
            return None;
        }
        let mut text = format!(
            "compared: {matched} alike, {differed} with a minority that differed, {split} without a \
             majority, {late} late; {agreed_by} copies agree up to entry {agreed_at}"
        );
        if split_at > agreed_at {
            text += &format!("; NO MAJORITY at entry {split_at}");
        }
        if self.clock_spins > 0 {
            text += &format!("; threads that wait by reading the clock: {}", self.clock_spins);
        }
        Some(text)
    }
}

fn yes() -> bool {
    true
}

/// The process beside a member that reports its death to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SentinelStatus {
    /// The process id; `None` while there is no sentinel. A death then shows only by silence, and a
    /// leader's costs more.
    pub(crate) pid: Option<u32>,
    /// The number of sentinels that died in this life of the member, and were replaced.
    pub(crate) replaced: u64,
}

/// The part of a member in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Membership {
    /// Its vote, and its disk, count.
    #[default]
    Voter,
    /// A learner: it receives everything and does not count yet.
    Learner,
    /// The seat is empty: its member was removed, or never added.
    None,
}

impl Membership {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Membership::Voter => "voter",
            Membership::Learner => "learner",
            Membership::None => "none",
        }
    }
}

/// The agreed membership's entry for one seat.
pub(crate) struct SeatStatus {
    pub(crate) membership: Membership,
    pub(crate) incarnation: u64,
}

impl SeatStatus {
    /// Where the members never change, all are voters from the beginning.
    pub(crate) fn of(configuration: Option<&Configuration>, id: u16) -> SeatStatus {
        let fixed = SeatStatus { membership: Membership::Voter, incarnation: Incarnation::FIRST.0 };
        let Some(rank) = Rank::of_member(NodeId(id)) else { return fixed };
        let Some(Configuration { members, .. }) = configuration else { return fixed };
        let membership = if members.voters.contains(rank) {
            Membership::Voter
        } else if members.learners.contains(rank) {
            Membership::Learner
        } else {
            Membership::None
        };
        SeatStatus { membership, incarnation: members.incarnation(rank).0 }
    }
}

/// A member's stable storage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DiskStatus {
    pub(crate) directory: String,
    /// The first slot that its log still has.
    pub(crate) log_start: u64,
    /// One past its last entry.
    pub(crate) log_end: u64,
    /// Bytes of the log on its volume since the last snapshot began.
    pub(crate) logged_bytes: u64,
    /// Snapshots written in this life of the process.
    pub(crate) snapshots: u64,
    /// The reason why it takes no writes now: full, or a sync that does not end.
    pub(crate) trouble: Option<String>,
    /// The last such reason in this life, also if it is over.
    pub(crate) last_trouble: Option<String>,
}

impl DiskStatus {
    pub(crate) fn new(figures: &runtime::DiskFigures) -> DiskStatus {
        DiskStatus {
            directory: figures.place.clone(),
            log_start: figures.log_start,
            log_end: figures.log_end,
            logged_bytes: figures.logged_bytes,
            snapshots: figures.snapshots,
            trouble: figures.trouble.clone(),
            last_trouble: figures.last_trouble.clone(),
        }
    }

    /// The table for people.
    fn line(&self) -> String {
        let DiskStatus { directory, log_start, log_end, logged_bytes, snapshots, .. } = self;
        let mut line = format!(
            "{directory}: slots {log_start} to {log_end} (exclusive), {logged_bytes} bytes since \
             the last snapshot, {snapshots} snapshots written"
        );
        match (&self.trouble, &self.last_trouble) {
            (Some(trouble), _) => line += &format!("; TROUBLE: {trouble}"),
            (None, Some(trouble)) => line += &format!("; it is over: {trouble}"),
            (None, None) => {}
        }
        line
    }
}

/// Asks a member, and prints its answer. Data that is lost is a negative answer.
pub(crate) fn run(args: &StatusArgs) -> Outcome {
    let (status, json) = match args.control {
        Some(address) => fetch_control(address)?,
        None => fetch(args.connect.address, args.connect.password())?,
    };
    match args.format {
        Format::Json => outln!("{json}"),
        Format::Table => out!("{}", table(&status)),
    }
    let has_lost = status.members.iter().any(|member| member.data_lost);
    Ok(if has_lost { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The cluster's status as the member at `address` sees it, and its JSON text.
pub(crate) fn fetch(
    address: SocketAddr,
    password: Option<&str>,
) -> Outcome<(ClusterStatus, String)> {
    parse(address, ask(address, password)?)
}

/// The same over the control port at `address`.
pub(crate) fn fetch_control(address: SocketAddr) -> Outcome<(ClusterStatus, String)> {
    parse(address, control(address)?)
}

/// The status over the control port.
fn control(address: SocketAddr) -> Outcome<String> {
    match connect::fetch(address, "/status", ANSWER_WITHIN) {
        Ok(body) => Ok(String::from_utf8_lossy(&body).into_owned()),
        Err(error) => Err(connect::unanswered(address, &error, ANSWER_WITHIN)),
    }
}

fn parse(address: SocketAddr, json: String) -> Outcome<(ClusterStatus, String)> {
    let status = serde_json::from_str(&json).map_err(|error| {
        Failure::new(format_args!(
            "{address} answers, but not as gregale does ({error}): is it another server's port? \
             {OF_A_PROGRAM}"
        ))
    })?;
    Ok((status, json))
}

/// A section of INFO that only Gregale has, over a client connection.
fn ask(address: SocketAddr, password: Option<&str>) -> Outcome<String> {
    let mut connection = Connection::open(address, password, ANSWER_WITHIN)?;
    match connection.ask(&[b"INFO", SECTION.as_bytes()])? {
        Value::Bulk(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        _ => Err(refused(address, "no text")),
    }
}

/// The table for people. A member's lag is the number of slots that the most advanced member has
/// committed and it has not applied.
fn table(status: &ClusterStatus) -> String {
    let newest = status.members.iter().map(|member| member.committed).max().unwrap_or(0);
    let state = if status.view_is_decided { "" } else { " (not decided yet)" };
    let mut text = format!(
        "cluster {}: {} ({}) over {}, {}; view {}{state}, ballot {}\n",
        status.cluster,
        status.protocol,
        status.engine,
        status.fabric,
        status.durability,
        status.view,
        status.ballot
    );
    let header =
        ["id", "pid", "client", "role", "committed", "applied", "lag", "member", "incarnation"]
            .map(str::to_owned);
    let rows: Vec<[String; 9]> = std::iter::once(header)
        .chain(status.members.iter().map(|member| {
            let down = member.role == "down";
            let number = |n: u64| if down { "-".to_owned() } else { n.to_string() };
            [
                member.id.to_string(),
                if member.pid == 0 { "-".to_owned() } else { member.pid.to_string() },
                member.client.clone(),
                member.role.clone(),
                number(member.committed),
                number(member.applied),
                number(newest.saturating_sub(member.applied)),
                member.membership.name().to_owned(),
                member.incarnation.to_string(),
            ]
        }))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..9).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}  "));
        text += cells.collect::<String>().trim_end();
        text.push('\n');
    }
    let lost = status.members.iter().filter(|member| member.data_lost);
    let lost: Vec<String> = lost.map(|member| member.id.to_string()).collect();
    if !lost.is_empty() {
        text += &format!(
            "DATA LOST  seen by member {}: no live member holds the state; unless a member is only \
             paused, start the cluster again\n",
            lost.join(", ")
        );
    }
    if !status.writes_wait_for.is_empty() {
        let ids: Vec<String> = status.writes_wait_for.iter().map(u16::to_string).collect();
        text += &format!(
            "writes wait for the disk of member {}: bring it back or remove it ({})\n",
            ids.join(", "),
            status.durability
        );
    }
    for of in &status.partitions {
        let leader = if of.leader == 0 { "-".to_owned() } else { of.leader.to_string() };
        let PartitionStatus { id, executed, keys, .. } = of;
        text += &format!("partition {id}  leader {leader}, {keys} keys, {executed} executed\n");
    }
    for member in status.members.iter().filter(|it| it.state_time_ahead_ms.abs() >= 1_000) {
        let seconds = member.state_time_ahead_ms as f64 / 1e3;
        let (side, seconds) =
            if seconds < 0.0 { ("behind", -seconds) } else { ("ahead of", seconds) };
        text += &format!(
            "clock {}  the time by which keys expire is {seconds:.1} s {side} the wall clock of this \
             member, and approaches it by one percent; check that clock\n",
            member.id
        );
    }
    let watched = status.members.iter().filter_map(|it| Some((it.id, it.sentinel?)));
    for (id, SentinelStatus { pid, replaced }) in watched {
        match pid {
            None => text += &format!("sentinel {id}  NONE: its death would be noticed late\n"),
            Some(pid) if replaced > 0 => {
                text += &format!("sentinel {id}  pid {pid}, {replaced} died and were replaced\n");
            }
            Some(_) => {}
        }
    }
    for (id, program) in status.members.iter().filter_map(|it| Some((it.id, it.program.as_ref()?)))
    {
        text += &format!("copy {id}  {}\n", program.line());
        for line in program.verdicts().into_iter().chain(program.checkpoints()) {
            text += &format!("copy {id}  {line}\n");
        }
    }
    for (id, disk) in status.members.iter().filter_map(|it| Some((it.id, it.disk.as_ref()?))) {
        text += &format!("disk {id}  {}\n", disk.line());
    }
    text
}

#[cfg(test)]
mod tests;
