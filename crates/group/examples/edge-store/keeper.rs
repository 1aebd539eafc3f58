//! The parent of the store's processes: it starts three, and another one when one ends.

use super::member::Role;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};

/// The number of processes.
pub(crate) const MEMBERS: usize = 3;
/// The processes of a store.
#[derive(Debug)]
pub(crate) struct Keeper {
    directory: tempfile::TempDir,
    /// The arguments with which this program runs one process.
    arguments: fn(&Role) -> Vec<String>,
    pub(crate) ports: Vec<u16>,
    /// By seat, from 1.
    children: Vec<Child>,
}

impl Keeper {
    /// Starts a store whose members listen at `ports`.
    pub(crate) fn start(
        ports: Vec<u16>,
        arguments: fn(&Role) -> Vec<String>,
    ) -> io::Result<Keeper> {
        let directory = tempfile::Builder::new().prefix("edge-store").tempdir_in("/dev/shm")?;
        let mut keeper = Keeper { directory, arguments, ports, children: Vec::new() };
        for seat in 1..=keeper.ports.len() {
            let child = keeper.begin(seat, seat == 1)?;
            keeper.children.push(child);
        }
        Ok(keeper)
    }

    /// Starts the process on `seat`, and waits until it serves.
    fn begin(&self, seat: usize, founds: bool) -> io::Result<Child> {
        let (directory, port) = (self.directory.path().to_owned(), self.ports[seat - 1]);
        let role = Role { founds, directory, seat, port };
        let mut child = Command::new(std::env::current_exe()?)
            .args((self.arguments)(&role))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("it is piped"))?;
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        // A test harness writes the name of its test before it.
        if lines.any(|line| line.ends_with("ready")) {
            return Ok(child);
        }
        child.wait()?;
        Err(io::Error::other(format!("the process on seat {seat} does not serve")))
    }

    /// Starts another process in place of each that has ended. True if there was one.
    pub(crate) fn look_after(&mut self) -> io::Result<bool> {
        let mut ended = Vec::new();
        for (at, child) in self.children.iter_mut().enumerate() {
            if child.try_wait()?.is_some() {
                ended.push(at);
            }
        }
        if ended.len() == self.children.len() {
            return Err(io::Error::other("all members are gone, and with them the store"));
        }
        for at in &ended {
            self.children[*at] = self.begin(at + 1, false)?;
        }
        Ok(!ended.is_empty())
    }

    /// The process on `seat`.
    pub(crate) fn pid(&self, seat: usize) -> u32 {
        self.children[seat - 1].id()
    }
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
