//! Programs under measurement: started, waited for, and reliably stopped.

use crate::group::Error;
use crate::worker::order::FabricKind;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The time for a program to stop before it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// A running program; stopped when dropped.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    lines: Receiver<String>,
    /// Its output so far, for error messages.
    heard: Vec<String>,
}

impl Running {
    /// Starts the program, and reads its two outputs.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Result<Running, Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let spawned =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => Error::Peer(format!(
                "{name} is not installed: install it (Debian: redis-server, redis-tools, \
                 etcd-server), or leave it out of --against"
            )),
            _ => Error::os(format!("start {name}"), source),
        })?;
        let (to, lines) = channel();
        let output = child.stdout.take().map(|out| Box::new(out) as Box<dyn std::io::Read + Send>);
        let errors = child.stderr.take().map(|err| Box::new(err) as Box<dyn std::io::Read + Send>);
        for stream in [output, errors].into_iter().flatten() {
            let to = to.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    // Reading continues although no thread listens, or the program would block.
                    let _unheard = to.send(line);
                }
            });
        }
        Ok(Running { name, child, lines, heard: Vec::new() })
    }

    /// Waits until it prints a line that contains `text`.
    ///
    /// # Errors
    /// It does not.
    pub fn wait_for(&mut self, text: &str, patience: Duration) -> Result<(), Error> {
        let until = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let found = line.contains(text);
                    self.heard.push(line);
                    if found {
                        return Ok(());
                    }
                }
                Err(error) => {
                    let what = match error {
                        RecvTimeoutError::Timeout => format!("is not {text} in {patience:?}"),
                        RecvTimeoutError::Disconnected => "has ended".to_owned(),
                    };
                    let said = self.heard.join(" | ");
                    return Err(Error::Peer(format!("{} {what}; it said: {said}", self.name)));
                }
            }
        }
    }

    /// The lines that it printed up to the one that was waited for.
    pub fn heard(&self) -> impl Iterator<Item = &str> {
        self.heard.iter().map(String::as_str)
    }

    /// Waits until a process listens on `port`.
    ///
    /// # Errors
    /// No process does.
    pub fn wait_for_port(&mut self, port: u16, patience: Duration) -> Result<(), Error> {
        let listens = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        self.wait_to_listen(&format!("port {port}"), listens, patience)
    }

    /// Waits until a process listens at `socket`.
    ///
    /// # Errors
    /// No process does.
    pub fn wait_for_socket(&mut self, socket: &Path, patience: Duration) -> Result<(), Error> {
        let listens = || UnixStream::connect(socket).is_ok();
        self.wait_to_listen(&socket.display().to_string(), listens, patience)
    }

    fn wait_to_listen(
        &mut self,
        place: &str,
        listens: impl Fn() -> bool,
        patience: Duration,
    ) -> Result<(), Error> {
        let until = Instant::now() + patience;
        while !listens() {
            if Instant::now() >= until {
                self.heard.extend(self.lines.try_iter());
                let (name, said) = (&self.name, self.heard.join(" | "));
                let text = format!("{name} does not listen at {place}; it said: {said}");
                return Err(Error::Peer(text));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Kills the program and all its descendants, itself first, so that it restarts none; returns
    /// when they are gone.
    ///
    /// # Errors
    /// One of them still exists.
    pub fn kill_family(self, patience: Duration) -> Result<(), Error> {
        let family = self.family();
        for pid in &family {
            // A process that has ended by itself needs no signal.
            if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
                let _ended = kill_process(pid, Signal::KILL);
            }
        }
        let until = Instant::now() + patience;
        while let Some(pid) = family.iter().find(|pid| is_alive(**pid)) {
            if Instant::now() >= until {
                let name = &self.name;
                return Err(Error::Peer(format!("{name}: process {pid} survived a kill")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The program's process and all its descendants.
    pub fn family(&self) -> Vec<u32> {
        let mut pids = vec![self.child.id()];
        let mut at = 0;
        while at < pids.len() {
            pids.extend(children(pids[at]));
            at += 1;
        }
        pids
    }
}

/// Whether `pid` still holds memory and descriptors: a process that only waits to be reaped does
/// not.
fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the name, which may contain any character.
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    // The first thread may have ended before the others, which still hold memory and descriptors.
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    threads > 1 || !matches!(state, Some('Z' | 'X'))
}

/// The live processes that `pid` started.
fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| numbers(&list)).collect()
}

fn numbers(list: &str) -> Vec<u32> {
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already, and needs no stop.
        let _ended = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let until = Instant::now() + STOP_PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                let _ended = self.child.kill();
                let _reaped = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The first of `n` consecutive ports on which no process listens now.
///
/// # Errors
/// There are no such ports.
pub fn free_ports(n: usize) -> Result<u16, Error> {
    const FIRST: u16 = 17_000;
    const LAST: u16 = 27_000;
    // The ports are below those that the kernel gives to outgoing connections, and differ between
    // two benchmarks at the same time.
    let start = FIRST + (std::process::id() % 400) as u16 * 20;
    let mut candidates = (start..LAST).chain(FIRST..start).step_by(20);
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    candidates
        .find(|first| (0..n as u16).all(|at| free(first + at)))
        .ok_or_else(|| Error::Peer(format!("no {n} free ports between {FIRST} and {LAST}")))
}

/// Free addresses of `n` processes of one system on this host, if they need some.
///
/// # Errors
/// There are no such ports.
pub fn loopback(fabric: FabricKind, n: usize) -> Result<Vec<SocketAddr>, Error> {
    if fabric == FabricKind::Shm {
        return Ok(Vec::new());
    }
    let first = free_ports(n)?;
    let ports = first..first + n as u16;
    Ok(ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ends_early_is_told_with_its_words() {
        let mut command = Command::new("sh");
        let mut shell = Running::start(command.args(["-c", "echo no luck"])).expect("sh is there");
        let error = shell.wait_for("ready", Duration::from_secs(10)).expect_err("it ends");
        assert!(error.to_string().contains("no luck"), "{error}");
    }

    #[test]
    fn a_program_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        let mut shell = Running::start(command.args(["-c", "sleep 1000 & echo ready; wait"]))
            .expect("sh is there");
        shell.wait_for("ready", Duration::from_secs(10)).expect("it echoes");
        let family = shell.family();
        assert_eq!(family.len(), 2);
        shell.kill_family(Duration::from_secs(10)).expect("they go");
        assert!(!family.into_iter().any(is_alive));
    }

    #[test]
    fn a_program_is_stopped_with_its_children() {
        let mut command = Command::new("sh");
        let script = "trap 'kill $!; exit' TERM; sleep 1000 & echo ready; wait";
        let mut shell = Running::start(command.args(["-c", script])).expect("sh is there");
        shell.wait_for("ready", Duration::from_secs(10)).expect("it says so");
        let family = shell.family();
        assert_eq!(family.len(), 2, "{family:?}");
        drop(shell);
        assert!(!Path::new(&format!("/proc/{}/task", family[0])).exists());
    }

    #[test]
    fn a_missing_program_is_named_with_the_mend() {
        let error = Running::start(&mut Command::new("no-such-server")).expect_err("missing");
        assert!(error.to_string().contains("--against"), "{error}");
    }
}
