//! The parent of the store's processes: it starts three, and another one when one ends.

use super::member::Role;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// The number of processes.
pub(crate) const MEMBERS: usize = 3;
/// The time between two looks at processes, while one begins.
const LOOK_EVERY: Duration = Duration::from_millis(20);

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
    /// Whether each process that was started serves, or has ended before.
    begun: (Sender<bool>, Receiver<bool>),
}

impl Keeper {
    /// Starts a store whose members listen at `ports`, with their logs in `data`. A store that was
    /// there before comes back.
    pub(crate) fn start(
        ports: Vec<u16>,
        data: Option<PathBuf>,
        arguments: fn(&Role) -> Vec<String>,
    ) -> io::Result<Keeper> {
        let directory = tempfile::Builder::new().prefix("edge-store").tempdir_in("/dev/shm")?;
        let (children, begun) = (Vec::new(), mpsc::channel());
        let mut keeper = Keeper { directory, arguments, ports, data, children, begun };
        let comes_back = keeper.log_of(1).is_some_and(|log| log.exists());
        for seat in 1..=keeper.ports.len() {
            let child = keeper.launch(seat, seat == 1 && !comes_back)?;
            keeper.children.push(child);
            if !comes_back {
                keeper.wait_for(1)?;
            }
        }
        if comes_back {
            keeper.wait_for(keeper.children.len())?;
        }
        Ok(keeper)
    }

    fn log_of(&self, seat: usize) -> Option<PathBuf> {
        self.data.as_ref().map(|data| data.join(seat.to_string()))
    }

    /// Starts the process on `seat`.
    fn launch(&self, seat: usize, founds: bool) -> io::Result<Child> {
        let (directory, port) = (self.directory.path().to_owned(), self.ports[seat - 1]);
        let role = Role { founds, directory, data: self.log_of(seat), seat, port };
        let mut child = Command::new(std::env::current_exe()?)
            .args((self.arguments)(&role))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("it is piped"))?;
        let begun = self.begun.0.clone();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(output).lines().map_while(Result::ok);
            // A test harness writes the name of its test before it.
            let _ = begun.send(lines.any(|line| line.ends_with("ready")));
            lines.for_each(drop);
        });
        Ok(child)
    }

    /// Starts another process in place of each that has ended, and waits until all serve. True if
    /// one had ended.
    pub(crate) fn look_after(&mut self) -> io::Result<bool> {
        let n = self.replace()?;
        if n > 0 {
            self.wait_for(n)?;
        }
        Ok(n > 0)
    }

    /// The number of processes that had ended.
    fn replace(&mut self) -> io::Result<usize> {
        let mut ended = Vec::new();
        for (child, seat) in self.children.iter_mut().zip(1..) {
            if child.try_wait()?.is_some() {
                ended.push(seat);
            }
        }
        if ended.len() == self.ports.len() && self.data.is_none() {
            return Err(io::Error::other("all members are gone, and with them the store"));
        }
        for seat in &ended {
            self.children[seat - 1] = self.launch(*seat, false)?;
        }
        Ok(ended.len())
    }

    /// Waits until the `n` processes that were started last serve. Others may end meanwhile, and
    /// be needed: a durable store comes back when a majority does.
    fn wait_for(&mut self, mut n: usize) -> io::Result<()> {
        while n > 0 {
            match self.begun.1.recv_timeout(LOOK_EVERY) {
                Ok(true) => n -= 1,
                Ok(false) => return Err(io::Error::other("a process of the store does not serve")),
                Err(RecvTimeoutError::Timeout) if self.children.len() == self.ports.len() => {
                    n += self.replace()?;
                }
                Err(_) => {}
            }
        }
        Ok(())
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
