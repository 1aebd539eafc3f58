//! The parent of the store's processes: it starts three, and another one when one ends.

use super::member::Role;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The number of processes.
pub(crate) const MEMBERS: usize = 3;
/// The processes of a store.
#[derive(Debug)]
pub(crate) struct Keeper {
    directory: tempfile::TempDir,
    /// The arguments with which this program runs one process.
    arguments: fn(&Role) -> Vec<String>,
    pub(crate) ports: Vec<u16>,
    /// The directory of the members' logs, if the store is durable.
    data: Option<PathBuf>,
    /// By seat, from 1.
    children: Vec<Child>,
}

/// A process that has been started, and what it says.
type Started = (Child, BufReader<ChildStdout>);

impl Keeper {
    /// Starts a store whose members listen at `ports`, with their logs in `data`. A store that was
    /// there before comes back.
    pub(crate) fn start(
        ports: Vec<u16>,
        data: Option<PathBuf>,
        arguments: fn(&Role) -> Vec<String>,
    ) -> io::Result<Keeper> {
        let directory = tempfile::Builder::new().prefix("edge-store").tempdir_in("/dev/shm")?;
        let mut keeper = Keeper { directory, arguments, ports, data, children: Vec::new() };
        let seats = 1..=keeper.ports.len();
        if keeper.log_of(1).is_some_and(|log| log.exists()) {
            keeper.children = keeper.begin_together(seats)?;
            return Ok(keeper);
        }
        for seat in seats {
            let started = keeper.launch(seat, seat == 1)?;
            keeper.children.push(serving(started)?);
        }
        Ok(keeper)
    }

    fn log_of(&self, seat: usize) -> Option<PathBuf> {
        self.data.as_ref().map(|data| data.join(seat.to_string()))
    }

    /// Starts the processes on these seats, and waits until they serve: one alone may not be able
    /// to.
    fn begin_together(&self, seats: impl Iterator<Item = usize>) -> io::Result<Vec<Child>> {
        let started = seats.map(|seat| self.launch(seat, false)).collect::<io::Result<Vec<_>>>()?;
        started.into_iter().map(serving).collect()
    }

    /// Starts the process on `seat`.
    fn launch(&self, seat: usize, founds: bool) -> io::Result<Started> {
        let (directory, port) = (self.directory.path().to_owned(), self.ports[seat - 1]);
        let role = Role { founds, directory, data: self.log_of(seat), seat, port };
        let mut child = Command::new(std::env::current_exe()?)
            .args((self.arguments)(&role))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("it is piped"))?;
        Ok((child, BufReader::new(output)))
    }

    /// Starts another process in place of each that has ended. True if there was one.
    pub(crate) fn look_after(&mut self) -> io::Result<bool> {
        let mut ended = Vec::new();
        for (at, child) in self.children.iter_mut().enumerate() {
            if child.try_wait()?.is_some() {
                ended.push(at);
            }
        }
        if ended.len() == self.children.len() && self.data.is_none() {
            return Err(io::Error::other("all members are gone, and with them the store"));
        }
        let begun = self.begin_together(ended.iter().map(|at| at + 1))?;
        for (at, child) in ended.iter().zip(begun) {
            self.children[*at] = child;
        }
        Ok(!ended.is_empty())
    }

    /// The process on `seat`.
    pub(crate) fn pid(&self, seat: usize) -> u32 {
        self.children[seat - 1].id()
    }
}

/// Waits until a process serves.
fn serving((mut child, output): Started) -> io::Result<Child> {
    let mut lines = output.lines().map_while(Result::ok);
    // A test harness writes the name of its test before it.
    if lines.any(|line| line.ends_with("ready")) {
        return Ok(child);
    }
    child.wait()?;
    Err(io::Error::other("a process of the store does not serve"))
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The end of its input lets a process leave in order.
        for child in &mut self.children {
            drop(child.stdin.take());
            let _ended = child.wait();
        }
    }
}

/// Ports of this machine that are free now.
pub(crate) fn free_ports() -> io::Result<Vec<u16>> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners: Vec<TcpListener> = (0..MEMBERS).map(bind).collect::<io::Result<_>>()?;
    listeners.iter().map(|one| Ok(one.local_addr()?.port())).collect()
}
