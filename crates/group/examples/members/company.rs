//! Processes of a group on this machine, as their parent has them: started, told, stopped, killed,
//! cut off; and the lines that they print.

use super::ports;
use super::relay::Wires;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The variable that tells a process its role.
pub(crate) const ROLE: &str = "GREGALE_MEMBER";
/// The longest wait for a line.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The most lines that are shown of a process that did not print the one that was waited for.
const LINES_SHOWN: usize = 8;
/// The number of seats.
pub(crate) const SEATS: usize = 12;

/// The processes of a group.
pub(crate) struct Company {
    pub(crate) directory: tempfile::TempDir,
    addresses: Vec<SocketAddr>,
    wires: Option<Wires>,
    suspect_ms: u64,
    /// Whether its messages are large.
    is_large: bool,
    /// The arguments with which this program runs one process.
    arguments: &'static [&'static str],
    /// By seat; one that has ended stays until the next one begins.
    pub(crate) processes: BTreeMap<usize, Process>,
    /// Whether the lines of all processes are printed.
    pub(crate) prints: bool,
}

/// One process.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Company {
    /// A company without processes; `transport` is `shm`, `tcp`, `plain-tcp`, whose wires cannot be
    /// cut, or `large-tcp`, whose messages are large.
    pub(crate) fn new(
        transport: &str,
        suspect_ms: u64,
        arguments: &'static [&'static str],
    ) -> Company {
        let directory = tempfile::Builder::new().prefix("gregale-members").tempdir_in("/dev/shm");
        let directory = directory.expect("tmpfs has room for a directory");
        let (mut addresses, mut wires) = (Vec::new(), None);
        if transport != "shm" {
            addresses = ports::free(SEATS).expect("ports are free");
            if transport != "plain-tcp" {
                wires = Some(Wires::new(&addresses).expect("ports are free"));
            }
        }
        let (processes, prints, is_large) = (BTreeMap::new(), false, transport == "large-tcp");
        Company { directory, addresses, wires, suspect_ms, is_large, arguments, processes, prints }
    }

    /// Starts a process on `seat`.
    pub(crate) fn start(&mut self, seat: usize, founds: bool) {
        let way = if founds { "found" } else { "join" };
        let directory: PathBuf = self.directory.path().to_owned();
        let transport = match self.addresses.is_empty() {
            true => "shm",
            false if self.is_large => "large-tcp",
            false => "tcp",
        };
        let (directory, suspect_ms) = (directory.display(), self.suspect_ms);
        let mut role = format!("{way} {transport} {directory} {seat} {suspect_ms}");
        let addresses = match &self.wires {
            Some(wires) => wires.addresses_for(seat, &self.addresses),
            None => self.addresses.clone(),
        };
        for address in addresses.iter().chain(self.addresses.get(seat - 1)) {
            role = format!("{role} {address}");
        }
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args(self.arguments)
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process can be started");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (to, lines) = channel();
        let prints = self.prints;
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok).filter(|line| !line.is_empty()) {
                if prints {
                    println!("  seat {seat} | {line}");
                }
                if to.send(line).is_err() {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        self.processes.insert(seat, Process { child, input, lines });
    }

    /// Tells the process on `seat` a line.
    pub(crate) fn tell(&mut self, seat: usize, line: &str) {
        let input = self.processes.get_mut(&seat).and_then(|one| one.input.as_mut());
        let told = input.map(|input| writeln!(input, "{line}"));
        assert!(matches!(told, Some(Ok(()))), "seat {seat} takes no lines: {told:?}");
    }

    /// Whether the process on `seat` runs.
    pub(crate) fn is_running(&mut self, seat: usize) -> bool {
        let process = self.processes.get_mut(&seat);
        process.is_some_and(|one| matches!(one.child.try_wait(), Ok(None)))
    }

    /// Sends a signal (`KILL`, `STOP`, `CONT`) to the process on `seat`.
    pub(crate) fn signal(&mut self, seat: usize, signal: &str) {
        let process = self.processes.get_mut(&seat).expect("a process is on that seat");
        let pid = process.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -{signal} {pid}");
        if signal == "KILL" {
            process.child.wait().expect("it was killed");
        }
    }

    /// Cuts the network between `seats` and the others, or mends it. False without a network.
    pub(crate) fn cut(&self, seats: &[usize], is_cut: bool) -> bool {
        self.wires.as_ref().map(|wires| wires.cut(seats, is_cut)).is_some()
    }

    /// Waits until the process on `seat` prints a line that `is` accepts, and returns it.
    pub(crate) fn await_line(&self, seat: usize, what: &str, is: impl Fn(&str) -> bool) -> String {
        let by = Instant::now() + PATIENCE;
        let mut passed = Vec::new();
        loop {
            let left = by.saturating_duration_since(Instant::now());
            match self.processes[&seat].lines.recv_timeout(left) {
                Ok(line) if is(&line) => return line,
                Ok(line) => passed.push(line),
                Err(error) => {
                    let ended = error == RecvTimeoutError::Disconnected;
                    let last = &passed[passed.len().saturating_sub(LINES_SHOWN)..];
                    panic!("seat {seat}: no {what}; its last lines: {last:?}; it ended: {ended}");
                }
            }
        }
    }

    /// Waits until the process on `seat`, which has ended or is about to, is gone.
    pub(crate) fn await_exit(&mut self, seat: usize) {
        let by = Instant::now() + PATIENCE;
        let process = self.processes.get_mut(&seat).expect("a process is on that seat");
        loop {
            // Its output closes with it.
            match process.lines.recv_timeout(by.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("seat {seat} does not end"),
            }
        }
        process.child.wait().expect("it can be waited for");
    }

    /// Waits until all of `seats` are in a view of just these.
    pub(crate) fn await_view(&self, seats: &[usize]) {
        for seat in seats {
            let what = format!("view of {seats:?}");
            self.await_line(*seat, &what, |line| members_of(line).as_deref() == Some(seats));
        }
    }
}

impl Drop for Company {
    /// No process outlives its parent's interest.
    fn drop(&mut self) {
        let seats: Vec<usize> = self.processes.keys().copied().collect();
        for seat in seats {
            if self.is_running(seat) {
                self.signal(seat, "KILL");
            }
        }
    }
}

/// The seats of the view that a line tells, in order.
pub(crate) fn members_of(line: &str) -> Option<Vec<usize>> {
    let (_, rest) = line.strip_prefix("view ")?.split_once(": seats ")?;
    let seats = rest.split(';').next()?;
    let mut seats: Vec<usize> = seats.split(' ').filter_map(|seat| seat.parse().ok()).collect();
    seats.sort_unstable();
    Some(seats)
}
