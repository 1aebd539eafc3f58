//! The processes of one measurement, from the parent's side.

use super::load::Plan;
use super::worker::{Contender, Said, Spec, Took};
use crate::clock::shared_ns;
use crate::group::{Error, Launcher};
use crate::process::free_ports;
use crate::worker::order::FabricKind;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long anything but the load itself may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// All begin together, so long after they were told.
const LEAD: Duration = Duration::from_millis(20);

/// How a system under measurement is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many groups.
    pub groups: usize,
    /// How many members each; as many nodes, each with one member of every group.
    pub members: usize,
}

#[derive(Debug)]
struct Worker {
    node: usize,
    child: Child,
    input: ChildStdin,
    said: Receiver<Said>,
}

impl Worker {
    fn start(launcher: &Launcher, spec: &Spec) -> Result<Worker, Error> {
        let mut child = Command::new(&launcher.program)
            .args(&launcher.arguments)
            .envs(launcher.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| Error::os(format!("start {}", launcher.program.display()), source))?;
        let input = child.stdin.take().expect("it was piped");
        let output = BufReader::new(child.stdout.take().expect("it was piped"));
        let (to, said) = channel();
        std::thread::spawn(move || {
            // Lines that are none of ours are a test harness's own.
            let lines = output.lines().map_while(Result::ok);
            for what in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                if to.send(what).is_err() {
                    break;
                }
            }
        });
        let mut worker = Worker { node: spec.node, child, input, said };
        worker.write(&serde_json::to_string(spec).expect("it is plain data"))?;
        Ok(worker)
    }

    fn write(&mut self, line: &str) -> Result<(), Error> {
        let line = format!("{line}\n");
        let written = self.input.write_all(line.as_bytes()).and_then(|()| self.input.flush());
        written.map_err(|source| Error::os(format!("talk to node {}", self.node), source))
    }

    fn hear(&self, patience: Duration) -> Result<Said, Error> {
        let failed = |cause: String| Error::Worker { member: self.node, cause };
        match self.said.recv_timeout(patience) {
            Ok(Said::Failed(cause)) => Err(failed(cause)),
            Ok(said) => Ok(said),
            Err(RecvTimeoutError::Timeout) => {
                Err(Error::Late(format!("node {} said nothing", self.node)))
            }
            Err(RecvTimeoutError::Disconnected) => Err(failed("it has ended".into())),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be dead already, and that is what is wanted.
        let _dead = self.child.kill();
        let _reaped = self.child.wait();
    }
}

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        // Only what this process made is there; if it cannot be removed, the next sweep does.
        let _swept = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs one system under one load.
///
/// # Errors
/// [`Error`]; nothing is left behind.
pub fn measure(
    launcher: &Launcher,
    contender: Contender,
    fabric: FabricKind,
    shape: Shape,
    plan: &Plan,
) -> Result<Vec<Took>, Error> {
    static SYSTEMS: AtomicU32 = AtomicU32::new(0);
    let number = SYSTEMS.fetch_add(1, Ordering::Relaxed);
    let cluster = format!("amcast-{}-{number}", std::process::id());
    let path = Path::new("/dev/shm").join(format!("gregale-{cluster}"));
    std::fs::create_dir(&path)
        .map_err(|source| Error::os(format!("make the directory {}", path.display()), source))?;
    // Before the workers: it is dropped after them.
    let _directory = Directory(path.clone());
    let addresses: Vec<SocketAddr> = match fabric {
        FabricKind::Shm => Vec::new(),
        FabricKind::Tcp => {
            let first = free_ports(shape.members)?;
            let ports = first..first + shape.members as u16;
            ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect()
        }
    };
    let spec = |node: usize| Spec {
        contender,
        addresses: addresses.clone(),
        cluster: cluster.clone(),
        directory: path.clone(),
        groups: shape.groups,
        nodes: shape.members,
        node,
        plan: plan.clone(),
    };
    let workers = (1..=shape.members).map(|node| Worker::start(launcher, &spec(node)));
    let mut workers = workers.collect::<Result<Vec<Worker>, Error>>()?;
    let until = Instant::now() + PATIENCE;
    for worker in &workers {
        match worker.hear(until.saturating_duration_since(Instant::now()))? {
            Said::Ready => {}
            other => return Err(misspoke(worker, &other)),
        }
    }
    let at = shared_ns() + LEAD.as_nanos() as u64;
    for worker in &mut workers {
        worker.write(&at.to_string())?;
    }
    let takes = PATIENCE + plan.warm_up + plan.span;
    workers
        .iter()
        .map(|worker| match worker.hear(takes)? {
            Said::Took(took) => Ok(took),
            other => Err(misspoke(worker, &other)),
        })
        .collect()
}

fn misspoke(worker: &Worker, said: &Said) -> Error {
    Error::Worker { member: worker.node, cause: format!("it said {said:?}") }
}
