//! The copy of the program: its process, and the local streams to it.

use super::asleep::is_asleep;
use super::place::{Address, Place};
use crate::config::Program as Settings;
use console::{Failure, Outcome};
use replicate::program::{Broken, Connected, Interest, Program, Received};
use runtime::Poller;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The bit that distinguishes the keys of legs from those of clients.
pub(super) const LEG: u64 = 1 << 62;

/// The time in which a program has to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// The end of what a program printed, for the error about its death.
const LAST_WORDS_BYTES: usize = 300;

/// The copy of the module's text.
#[derive(Debug)]
pub(crate) struct Copy {
    child: Child,
    /// The descriptor that is readable once the process has ended.
    pidfd: OwnedFd,
    name: String,
    place: Place,
    starts_by: Instant,
    has_listened: bool,
    poller: Option<Poller>,
    /// A connection to the program's port that the kernel has not made yet.
    connecting: Option<OwnedFd>,
    legs: Vec<Option<OwnedFd>>,
}

impl Copy {
    /// Starts the program in `place`.
    pub(crate) fn start(settings: &Settings, place: Place) -> Outcome<Copy> {
        let words = place.fill(&settings.words()?);
        let gregale =
            std::env::current_exe().map_err(|error| Failure::os("find this program", error))?;
        let output = File::create(place.output())
            .map_err(|error| Failure::os("make the file of the program's output", error))?;
        let errors = output.try_clone().map_err(|error| Failure::os("copy a descriptor", error))?;
        let child = Command::new(gregale)
            .args(["launch", "--parent", &std::process::id().to_string(), "--"])
            .args(&words)
            .current_dir(place.run().join("dir"))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|error| Failure::os(format_args!("start {}", words[0]), error))?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::NONBLOCK)
            .map_err(|error| Failure::os("watch the program", error))?;
        Ok(Copy {
            child,
            pidfd,
            name: words[0].clone(),
            place,
            starts_by: Instant::now() + STARTS_WITHIN,
            has_listened: false,
            poller: None,
            connecting: None,
            legs: Vec::new(),
        })
    }

    /// Watches the process under `key`, and from now on each leg.
    pub(super) fn register(&mut self, poller: &Poller, key: u64) -> io::Result<()> {
        poller.add(&self.pidfd, key, Interest::Read)?;
        self.poller = Some(poller.clone());
        Ok(())
    }

    /// What became of the program, if it has ended.
    pub(super) fn death(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        let said = std::fs::read(self.place.output()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said[said.len().saturating_sub(LAST_WORDS_BYTES)..])
            .trim()
            .replace('\n', " | ");
        let said = if said.is_empty() { "nothing".to_owned() } else { format!("{said:?}") };
        let (name, output) = (&self.name, self.place.output());
        let when = if self.has_listened { "" } else { " before it listened" };
        Some(format!(
            "{name} has ended{when} ({status}), and its member with it; it said {said}, in {}",
            output.display()
        ))
    }

    /// A stream that the program has, or accepts next. (A non-blocking connection to a port begins
    /// with `INPROGRESS` even if no process listens: a leg that failed later would be lost in this
    /// copy alone.)
    fn connected(&mut self) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match &self.place.address {
            Address::Socket(path) => {
                let fd =
                    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
                rustix::net::connect(&fd, &SocketAddrUnix::new(path)?)?;
                Ok(fd)
            }
            Address::Port(address) => {
                let fd = if let Some(fd) = self.connecting.take() {
                    fd
                } else {
                    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
                    let fd = rustix::net::socket_with(family, kind, flags, None)?;
                    sockopt::set_tcp_nodelay(&fd, true)?;
                    match rustix::net::connect(&fd, address) {
                        Ok(()) => return Ok(fd),
                        Err(Errno::INPROGRESS) => fd,
                        Err(error) => return Err(error),
                    }
                };
                sockopt::socket_error(&fd)??;
                match rustix::net::getpeername(&fd) {
                    Ok(_) => Ok(fd),
                    Err(Errno::NOTCONN) => {
                        self.connecting = Some(fd);
                        Err(Errno::AGAIN)
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    fn leg(&self, key: u64) -> Result<&OwnedFd, Broken> {
        self.legs.get(key as usize).and_then(Option::as_ref).ok_or(Broken)
    }
}

impl Program for Copy {
    fn connect(&mut self, key: u64) -> Connected {
        let fd = match self.connected() {
            Ok(fd) => fd,
            // The program starts, or has many to accept.
            Err(Errno::CONNREFUSED | Errno::NOENT | Errno::AGAIN)
                if self.has_listened || Instant::now() < self.starts_by =>
            {
                return Connected::Later;
            }
            Err(_) => return Connected::Refused,
        };
        self.has_listened = true;
        let watched = self
            .poller
            .as_ref()
            .is_some_and(|poller| poller.add(&fd, LEG | key, Interest::Read).is_ok());
        if !watched {
            return Connected::Refused;
        }
        let at = key as usize;
        if at >= self.legs.len() {
            self.legs.resize_with(at + 1, || None);
        }
        self.legs[at] = Some(fd);
        Connected::Done
    }

    fn read(&mut self, key: u64, into: &mut [u8]) -> Result<Received, Broken> {
        match rustix::io::read(self.leg(key)?, into) {
            Ok(0) => Ok(Received::End),
            Ok(n) => Ok(Received::Bytes(n)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Nothing),
            Err(_) => Err(Broken),
        }
    }

    fn write(&mut self, key: u64, bytes: &[u8]) -> Result<usize, Broken> {
        match rustix::io::write(self.leg(key)?, bytes) {
            Ok(n) => Ok(n),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(_) => Err(Broken),
        }
    }

    fn end(&mut self, key: u64) {
        if let Ok(leg) = self.leg(key) {
            // A program that has closed the leg reports that to the reader.
            let _ = rustix::net::shutdown(leg, Shutdown::Write);
        }
    }

    fn watch(&mut self, key: u64, interest: Interest) -> Result<(), Broken> {
        let leg = self.leg(key)?;
        let poller = self.poller.as_ref().ok_or(Broken)?;
        poller.change(leg, LEG | key, interest).map_err(|_| Broken)
    }

    fn close(&mut self, key: u64) {
        if let Some(leg) = self.legs.get_mut(key as usize) {
            *leg = None;
        }
    }

    fn is_asleep(&mut self) -> bool {
        is_asleep(self.child.id())
    }
}

impl Drop for Copy {
    /// The copy, and whatever it has forked, end with the member.
    fn drop(&mut self) {
        // It leads a group of its own (`launch`), unless it has ended already.
        let _ = rustix::process::kill_process_group(
            Pid::from_child(&self.child),
            rustix::process::Signal::KILL,
        );
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
