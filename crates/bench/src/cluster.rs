//! A real `gregale up`, as a user starts it.

use crate::group::Error;
use crate::process::{Running, free_ports};
use serde::Deserialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub use crate::worker::order::FabricKind as Fabric;

/// How long it may take to come up.
const PATIENCE: Duration = Duration::from_secs(30);
const MEMBERS: usize = 3;

/// Three replicas and their supervisor; stopped when dropped.
#[derive(Debug)]
pub struct Cluster {
    gregale: PathBuf,
    up: Running,
    port: u16,
}

/// The part of `gregale status --format json` that is used here.
#[derive(Debug, Deserialize)]
struct Status {
    members: Vec<MemberStatus>,
}

#[derive(Debug, Deserialize)]
struct MemberStatus {
    id: u16,
    role: String,
}

impl Cluster {
    /// Starts one and waits until every member serves.
    ///
    /// # Errors
    /// [`Error`]; nothing is left behind.
    pub fn start(gregale: &Path, fabric: Fabric) -> Result<Cluster, Error> {
        let port = free_ports(MEMBERS)?;
        let mut command = Command::new(gregale);
        command
            .args(["up", "--fabric", fabric.name(), "--port", &port.to_string()])
            .args(["--cluster", &format!("bench-{}", std::process::id())])
            .args(["--nodes", &MEMBERS.to_string()]);
        let mut up = Running::start(&mut command)?;
        up.wait_for("ready", PATIENCE)?;
        Ok(Cluster { gregale: gregale.to_owned(), up, port })
    }

    /// How many replicas it has.
    pub const fn members(&self) -> usize {
        MEMBERS
    }

    /// The supervisor, the replicas, and whatever else they have started.
    pub fn processes(&self) -> Vec<u32> {
        self.up.family()
    }

    /// The client ports of the leader and of some follower.
    ///
    /// # Errors
    /// Its status cannot be had, or nobody leads.
    pub fn ports(&self) -> Result<(u16, u16), Error> {
        let connect = format!("127.0.0.1:{}", self.port);
        let arguments = ["status", "--connect", &connect, "--format", "json"].map(OsStr::new);
        let output = Command::new(&self.gregale).args(arguments).output().map_err(|source| {
            Error::os(format!("run {} status", self.gregale.display()), source)
        })?;
        let text = String::from_utf8_lossy(&output.stdout);
        let status: Status = serde_json::from_str(&text).map_err(|error| {
            Error::Peer(format!("`gregale status` printed no status ({error}): {text}"))
        })?;
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
