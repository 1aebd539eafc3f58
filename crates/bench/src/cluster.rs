//! A real `gregale up`, as a user starts it.

use crate::group::Error;
use crate::process::{Running, free_ports};
use proto::table::Row;
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub use crate::worker::order::FabricKind as Fabric;

/// The time for it to come up.
const PATIENCE: Duration = Duration::from_secs(30);
const MEMBERS: usize = 3;
/// The most failures of work at the leader of the moment; after more, the cause is another one.
const VOIDED_MAX: u32 = 3;

/// The settings with which a cluster is started.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub gregale: PathBuf,
    /// The provider.
    pub fabric: Fabric,
    /// The promises of its protocol; without one it is the durability's.
    pub protocol: Option<&'static Row>,
    /// The directory of its logs; without it the cluster is one of `memory-quorum`.
    pub data: Option<PathBuf>,
    /// The logged bytes after which a snapshot is made, instead of the usual rule.
    pub snapshot_log_bytes: Option<u64>,
    /// The program that is replicated in place of the key-value store.
    pub program: Option<Replicated>,
}

/// A replicated program.
#[derive(Clone, Copy, Debug)]
pub struct Replicated {
    /// Its command line.
    pub command: &'static str,
    /// `--program-order`.
    pub order: &'static str,
    /// `--program-rest`, if it is said.
    pub rest: Option<&'static str>,
    /// `--program-compare`.
    pub compare: u64,
    /// `--program-reads`.
    pub reads: &'static str,
}

impl Plan {
    /// The durability, as in reports.
    pub const fn durability(&self) -> &'static str {
        if self.data.is_some() { "disk-quorum" } else { "memory-quorum" }
    }

    /// The name of the protocol.
    pub const fn protocol(&self) -> &'static str {
        match self.protocol {
            Some(row) => row.name,
            None if self.data.is_some() => "durable",
            None => "velos",
        }
    }
}

/// Three replicas and their supervisor; stopped when dropped.
#[derive(Debug)]
pub struct Cluster {
    gregale: PathBuf,
    up: Running,
    port: u16,
    /// The address of the first member's control port.
    control: String,
}

/// The part of `gregale status --format json` that is used here.
#[derive(Debug, Deserialize)]
struct Status {
    members: Vec<MemberStatus>,
}

#[derive(Debug, Deserialize)]
struct MemberStatus {
    id: u16,
    pid: u32,
    role: String,
    decision_p50_us: Option<f64>,
    /// What is replicated, if it is a program.
    program: Option<Copied>,
}

/// A member's copy of a program.
#[derive(Debug, Deserialize)]
struct Copied {
    executed: u64,
}

impl Cluster {
    /// Starts a cluster and waits until every member serves.
    ///
    /// # Errors
    /// [`Error`]; nothing is left behind.
    pub fn start(gregale: &Path, fabric: Fabric) -> Result<Cluster, Error> {
        let gregale = gregale.to_owned();
        let (protocol, data) = (None, None);
        let (snapshot_log_bytes, program) = (None, None);
        Cluster::start_as(&Plan { gregale, fabric, protocol, data, snapshot_log_bytes, program })
    }

    /// Starts a cluster by a plan.
    ///
    /// # Errors
    /// [`Error`]; nothing is left behind but the plan's data.
    pub fn start_as(plan: &Plan) -> Result<Cluster, Error> {
        Cluster::start_at(plan, free_ports(MEMBERS)?)
    }

    /// Starts a cluster by a plan at its earlier ports, where it finds its files.
    ///
    /// # Errors
    /// [`Error`]; nothing is left behind but the plan's data.
    pub fn start_at(plan: &Plan, port: u16) -> Result<Cluster, Error> {
        let mut command = Command::new(&plan.gregale);
        command
            .args(["up", "--fabric", plan.fabric.name(), "--port", &port.to_string()])
            .args(["--cluster", &format!("bench-{}", std::process::id())])
            .args(["--nodes", &MEMBERS.to_string()])
            .args(["--protocol", plan.protocol(), "--durability", plan.durability()]);
        if let Some(data) = &plan.data {
            command.arg("--data").arg(data);
        }
        if let Some(bytes) = plan.snapshot_log_bytes {
            command.args(["--snapshot-log-bytes", &bytes.to_string()]);
        }
        if let Some(program) = &plan.program {
            command.args(["--replicate", program.command, "--program-order", program.order]);
            command.args(["--program-compare", &program.compare.to_string()]);
            command.args(["--program-reads", program.reads]);
            command.args(program.rest.iter().flat_map(|rest| ["--program-rest", rest]));
        }
        let mut up = Running::start(&mut command)?;
        up.wait_for("ready", PATIENCE)?;
        let control = up.heard().find_map(control_of).map(str::to_owned).ok_or_else(|| {
            Error::Peer("`gregale up` did not say where its first member is controlled".to_owned())
        })?;
        Ok(Cluster { gregale: plan.gregale.clone(), up, port, control })
    }

    /// Kills every process of it, as a power cut would; returns its first port once they are gone.
    ///
    /// # Errors
    /// A process does not end.
    pub fn kill(self) -> Result<u16, Error> {
        self.up.kill_family(PATIENCE)?;
        Ok(self.port)
    }

    /// Every member's client port.
    pub const fn all_ports(&self) -> Range<u16> {
        self.port..self.port + MEMBERS as u16
    }

    /// The number of replicas.
    pub const fn members(&self) -> usize {
        MEMBERS
    }

    /// The supervisor, the replicas, and all other processes that they have started.
    pub fn processes(&self) -> Vec<u32> {
        self.up.family()
    }

    /// Does `work` at the leader's port. A machine without time for all its programs sometimes
    /// makes members take a leader for dead. Requests under way then fail, or the member forwards
    /// them from then on: the work is repeated from its beginning, and the number of repetitions
    /// comes with the result.
    ///
    /// # Errors
    /// The last error of the work; no member leads; or none keeps the lead.
    pub fn at_leader<T>(
        &self,
        work: impl FnMut(u16) -> Result<T, Error>,
    ) -> Result<(T, u32), Error> {
        at(|| self.ports(), true, work)
    }

    /// As [`Cluster::at_leader`], at the port of a follower.
    ///
    /// # Errors
    /// As of [`Cluster::at_leader`].
    pub fn at_follower<T>(
        &self,
        work: impl FnMut(u16) -> Result<T, Error>,
    ) -> Result<(T, u32), Error> {
        at(|| self.ports(), false, work)
    }

    /// The client ports of the leader and of some follower, once there is a leader.
    ///
    /// # Errors
    /// Its status is not available, or no member leads.
    pub fn ports(&self) -> Result<(u16, u16), Error> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.ports_now() {
                Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
                ports => return ports,
            }
        }
    }

    /// The process of the member whose clients' port this is.
    ///
    /// # Errors
    /// Its status is not available, or there is no such member.
    pub fn pid_at(&self, port: u16) -> Result<u32, Error> {
        let (status, text) = self.status()?;
        let member = status.members.iter().find(|member| self.port + member.id - 1 == port);
        let none = || Error::Peer(format!("no member has port {port}: {text}"));
        member.map(|member| member.pid).ok_or_else(none)
    }

    /// The median time of batches at the leader, from proposing to executing, since it began.
    ///
    /// # Errors
    /// Its status is not available, or no leader has decided anything.
    pub fn batch_p50_ns(&self) -> Result<f64, Error> {
        let (status, text) = self.status()?;
        let mut leaders = status.members.iter().filter(|member| member.role == "leader");
        let taken_us = leaders.find_map(|member| member.decision_p50_us);
        let taken_us = taken_us.ok_or_else(|| Error::Peer(format!("nothing was decided: {text}")));
        Ok(taken_us? * 1e3)
    }

    /// Waits until another process than `pid` is the member whose clients' port this is, and its
    /// copy has executed all that the others' have.
    ///
    /// # Errors
    /// That does not happen.
    pub fn wait_until_level(&self, port: u16, pid: u32) -> Result<(), Error> {
        let until = Instant::now() + PATIENCE;
        let is_level = |status: &Status| {
            let executed = |member: &MemberStatus| member.program.as_ref().map(|of| of.executed);
            let first = status.members.first().and_then(executed);
            let is_back = |member: &MemberStatus| {
                member.pid != 0 && (self.port + member.id - 1 != port || member.pid != pid)
            };
            let is_same = |member: &MemberStatus| is_back(member) && executed(member) == first;
            first.is_some() && status.members.iter().all(is_same)
        };
        loop {
            match self.status() {
                Ok((status, _)) if is_level(&status) => return Ok(()),
                _ if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
                Ok((_, text)) => return Err(Error::Peer(format!("no copy is level: {text}"))),
                Err(error) => return Err(error),
            }
        }
    }

    fn status(&self) -> Result<(Status, String), Error> {
        let arguments = ["status", "--control", &self.control, "--format", "json"];
        let output = Command::new(&self.gregale).args(arguments).output().map_err(|source| {
            Error::os(format!("run {} status", self.gregale.display()), source)
        })?;
        let text = String::from_utf8_lossy(&output.stdout);
        let status: Status = serde_json::from_str(&text).map_err(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            Error::Peer(format!("`gregale status` printed no status ({error}): {text}{said}"))
        })?;
        Ok((status, text.into_owned()))
    }

    fn ports_now(&self) -> Result<(u16, u16), Error> {
        let (status, text) = self.status()?;
        let port_of = |leads: bool| {
            let member = status.members.iter().find(|member| (member.role == "leader") == leads);
            member.map(|member| self.port + member.id - 1)
        };
        match (port_of(true), port_of(false)) {
            (Some(leader), Some(follower)) => Ok((leader, follower)),
            _ => Err(Error::Peer(format!("the cluster has no leader: {text}"))),
        }
    }
}

/// Does `work` at the port of the member that `leads`, or of a follower, of those two `ports`;
/// again if it fails, or if the member has taken the lead or lost it meanwhile. Returns how often
/// it was begun in vain.
fn at<T>(
    ports: impl Fn() -> Result<(u16, u16), Error>,
    leads: bool,
    mut work: impl FnMut(u16) -> Result<T, Error>,
) -> Result<(T, u32), Error> {
    let mut voided = 0;
    loop {
        let (leader, follower) = ports()?;
        let port = if leads { leader } else { follower };
        let error = match work(port) {
            Ok(done) if (ports()?.0 == port) == leads => return Ok((done, voided)),
            Ok(_) => Error::Peer("the lead moved during each attempt to measure".to_owned()),
            Err(error) => error,
        };
        if voided == VOIDED_MAX {
            return Err(error);
        }
        voided += 1;
    }
}

/// The address in what `gregale up` says of a member.
fn control_of(line: &str) -> Option<&str> {
    let (_, address) = line.strip_prefix("member ")?.split_once("http://")?;
    address.strip_suffix("/metrics")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Work that succeeds, at a leader whose port is the next of these at each question.
    fn voided(leaders: [u16; 4], leads: bool) -> Result<(u16, u32), Error> {
        let leaders = RefCell::new(leaders.into_iter().cycle());
        let ports = || Ok((leaders.borrow_mut().next().expect("endless"), 9));
        at(ports, leads, Ok)
    }

    #[test]
    fn what_was_measured_while_the_lead_moved_is_void() {
        assert_eq!(voided([1, 1, 1, 1], true).expect("it leads"), (1, 0));
        assert_eq!(voided([1, 2, 2, 2], true).expect("the second leads"), (2, 1));
        assert_eq!(voided([1, 2, 1, 2], false).expect("it follows"), (9, 0));
        assert_eq!(voided([1, 9, 1, 1], false).expect("it follows again"), (9, 1));
        let error = voided([1, 2, 1, 2], true).expect_err("none keeps the lead");
        assert!(error.to_string().contains("the lead moved"), "{error}");
    }

    #[test]
    fn a_members_line_names_its_control_port() {
        let line = "member 1: process 7, 127.0.0.1:6400, http://127.0.0.1:6500/metrics";
        assert_eq!(control_of(line), Some("127.0.0.1:6500"));
        assert_eq!(control_of("ready after 31 ms"), None);
    }
}
