//! The servers that are measured in turn.

use crate::group::Error;
use crate::process::{Running, free_ports};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

use super::load::set_and_wait;
use crate::pipeline::Told;

const PATIENCE: Duration = Duration::from_secs(30);

/// A program for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// redis-server alone, nothing saved.
    Redis,
    /// redis-server with two replicas and WAIT 2 behind each batch of SETs.
    RedisWait2,
    /// redis-server alone, which syncs its log before each answer.
    RedisAof,
    /// etcd, three members, synced to disk.
    Etcd,
}

impl Peer {
    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Peer::Redis => "redis",
            Peer::RedisWait2 => "redis-wait2",
            Peer::RedisAof => "redis-aof",
            Peer::Etcd => "etcd",
        }
    }

    /// Whether an acknowledged write survives a power cut.
    pub const fn is_on_disk(self) -> bool {
        match self {
            Peer::Redis | Peer::RedisWait2 => false,
            Peer::RedisAof | Peer::Etcd => true,
        }
    }
}

pub(super) fn temporary() -> Result<TempDir, Error> {
    tempfile::Builder::new()
        .prefix("gregale-bench-")
        .tempdir()
        .map_err(|source| Error::os("make a directory for a peer's data", source))
}

/// A redis-server, with replicas if asked for.
#[derive(Debug)]
pub(super) struct Redis {
    pub(super) port: u16,
    _servers: Vec<Running>,
    directory: TempDir,
}

impl Redis {
    /// A server that answers a write when it is synced, with its log in `directory`.
    pub(super) fn start_synced(directory: TempDir) -> Result<Redis, Error> {
        let port = free_ports(1)?;
        let mut command = Command::new("redis-server");
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            // No log is rewritten during the measurement.
            .args(["--auto-aof-rewrite-percentage", "0", "--dir"])
            .arg(directory.path());
        let mut server = Running::start(&mut command)?;
        server.wait_for_port(port, PATIENCE)?;
        Ok(Redis { port, _servers: vec![server], directory })
    }

    /// Whether its log is in its directory.
    pub(super) fn has_log(&self) -> bool {
        self.directory.path().join("appendonlydir").exists()
    }

    pub(super) fn start(replicas: usize) -> Result<Redis, Error> {
        let port = free_ports(1 + replicas)?;
        let directory = temporary()?;
        let mut servers = Vec::new();
        for at in 0..=replicas as u16 {
            let data = directory.path().join(at.to_string());
            std::fs::create_dir(&data)
                .map_err(|source| Error::os("make a directory for redis-server", source))?;
            let mut command = Command::new("redis-server");
            command
                .args(["--port", &(port + at).to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--appendonly", "no", "--dir"])
                .arg(data);
            if at > 0 {
                // There is no delay, which would only let a first copy wait for others.
                command.args(["--replicaof", "127.0.0.1", &port.to_string()]);
                command.args(["--repl-diskless-sync-delay", "0"]);
            } else {
                command.args(["--repl-diskless-sync-delay", "0"]);
            }
            let mut server = Running::start(&mut command)?;
            server.wait_for_port(port + at, PATIENCE)?;
            servers.push(server);
        }
        let redis = Redis { port, _servers: servers, directory };
        if replicas > 0 {
            redis.wait_for_replicas(replicas)?;
        }
        Ok(redis)
    }

    /// WAIT with fewer replicas is an error at the client, so it is repeated until it succeeds.
    fn wait_for_replicas(&self, replicas: usize) -> Result<(), Error> {
        let until = Instant::now() + PATIENCE;
        loop {
            match set_and_wait(self.port, 1, replicas, Duration::from_millis(1)) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// Three members of etcd on this machine, their logs on disk.
#[derive(Debug)]
pub(super) struct Etcd {
    endpoints: String,
    _members: Vec<Running>,
    _directory: TempDir,
}

impl Etcd {
    /// Starts them with their data in `directory`.
    pub(super) fn start(directory: TempDir) -> Result<Etcd, Error> {
        const MEMBERS: u16 = 3;
        let port = free_ports(2 * usize::from(MEMBERS))?;
        let client = |at: u16| format!("http://127.0.0.1:{}", port + at);
        let peer = |at: u16| format!("http://127.0.0.1:{}", port + MEMBERS + at);
        let cluster: Vec<String> = (0..MEMBERS).map(|at| format!("m{at}={}", peer(at))).collect();
        let mut members = Vec::new();
        for at in 0..MEMBERS {
            let mut command = Command::new("etcd");
            command
                .args(["--name", &format!("m{at}"), "--log-level", "error"])
                .args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"])
                .args(["--listen-client-urls", &client(at)])
                .args(["--advertise-client-urls", &client(at)])
                .args(["--listen-peer-urls", &peer(at)])
                .args(["--initial-advertise-peer-urls", &peer(at), "--data-dir"])
                .arg(directory.path().join(at.to_string()));
            members.push(Running::start(&mut command)?);
        }
        for (at, member) in members.iter_mut().enumerate() {
            member.wait_for_port(port + at as u16, PATIENCE)?;
        }
        let endpoints = (0..MEMBERS).map(|at| format!("127.0.0.1:{}", port + at));
        let endpoints = endpoints.collect::<Vec<_>>().join(",");
        Ok(Etcd { endpoints, _members: members, _directory: directory })
    }

    /// Puts or gets with etcd's own client.
    pub(super) fn load(
        &self,
        tool: &Path,
        op: &str,
        clients: usize,
        value_bytes: usize,
        span: Duration,
    ) -> Result<Told, Error> {
        let output = Command::new(tool)
            .args(["-endpoints", &self.endpoints, "-op", op])
            .args(["-clients", &clients.to_string()])
            .args(["-value-bytes", &value_bytes.to_string()])
            .args(["-span", &format!("{}ms", span.as_millis())])
            .output()
            .map_err(|source| Error::os(format!("run {}", tool.display()), source))?;
        let number = |object: &serde_json::Value, name: &str| object[name].as_f64();
        let object = serde_json::from_slice::<serde_json::Value>(&output.stdout).ok();
        let told = object.and_then(|object| {
            Some(Told {
                per_s: number(&object, "per_s")?,
                p50_ns: number(&object, "p50_ns")?,
                p99_ns: number(&object, "p99_ns")?,
            })
        });
        told.ok_or_else(|| {
            Error::Peer(format!("etcdload: {}", String::from_utf8_lossy(&output.stderr)))
        })
    }
}

/// Builds the load generator with etcd's own client; needs Go, and its module proxy once.
pub(super) fn build_etcdload() -> Result<PathBuf, Error> {
    let source = crate::rivals::repository()?.join("tools/etcdload");
    let tool = source.join("etcdload");
    if !source.exists() {
        let text = format!("{} is not there: leave etcd out of --against", source.display());
        return Err(Error::Peer(text));
    }
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&tool)
        .arg(".")
        .current_dir(&source)
        .output()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::Peer(
                "go is not installed: install it, or leave etcd out of --against".to_owned(),
            ),
            _ => Error::os("run go", error),
        })?;
    if built.status.success() {
        Ok(tool)
    } else {
        let said = String::from_utf8_lossy(&built.stderr);
        Err(Error::Peer(format!("cannot build {}: {said}", source.display())))
    }
}
