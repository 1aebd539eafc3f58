//! A member's front door: clients outside of the group call its object.
//!
//! - Q1 *Proof first.* Nothing is executed for a connection whose client has not proved the group's
//!   secret over this connection's nonces; and the member proves it in turn. By construction: the
//!   loop of requests is behind `greet`. Tested by `strangers_are_refused_by_name`.
//! - Q2 *Bounds.* At most [`CLIENTS_MAX`] clients, one request of each at a time; a client that
//!   does not read for [`WRITE_PATIENCE`] loses its connection. One more is sent elsewhere.
//!   Connections without a proof are no clients: at most [`STRANGERS_MAX`], each for
//!   [`HELLO_PATIENCE`] in all; one more takes the place of the eldest, so strangers keep no client
//!   out that proves itself at once. Tested by `q2_a_full_member_sends_clients_elsewhere`,
//!   `q2_strangers_keep_no_client_out`.
//! - Q3 *One outcome.* A request is executed at most once: a client whose connection breaks is told
//!   that the outcome of an ordered call is unknown, and asks nothing again but queries.
//! - Q4 *A member that is no longer in its group serves no client*: it executes nothing for one,
//!   says so, and closes the connection. The client asks another member. Tested by
//!   `q4_the_clients_of_a_member_that_was_excluded_ask_another_one`.

use super::frames::{self, Answer, Hello, Request, Welcome};
use crate::deadline::deadline;
use crate::error::Error;
use crate::event::Ended;
use fabric::tcp::hello::{Secret, Side};
use runtime::By;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The most clients of one member.
const CLIENTS_MAX: usize = 256;
/// The most connections of one member that have proved nothing yet.
const STRANGERS_MAX: usize = 64;
/// The longest time for all of a client's hello.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait for a client to take its answer.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// The pause of a door that has no descriptors left.
const NO_SOCKET_PAUSE: Duration = Duration::from_millis(100);

/// The clients of a member, which are served until this is dropped. It keeps the member in its
/// group.
pub struct Clients {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// What clients have to know, and what they are told.
pub(super) struct Served {
    pub(super) group: String,
    pub(super) subgroup: String,
    pub(super) secret: Secret,
    pub(super) methods: String,
    pub(super) n_shards: u64,
}

struct Shared {
    is_over: AtomicBool,
    /// Wakes the thread that waits for connections. One to the listener's own address would not, if
    /// that is another host's by now, or no descriptor is left.
    bell: OwnedFd,
    of: Served,
    /// Says whether the member is in its group.
    check: Box<dyn Fn() -> Result<(), Ended> + Send + Sync>,
    serve: Box<dyn Fn(Request) -> Answer + Send + Sync>,
    lines: Mutex<Lines>,
}

/// The connections, by numbers of their own.
#[derive(Debug, Default)]
struct Lines {
    n_lines: u64,
    /// Those that have proved nothing yet, the eldest first.
    strangers: VecDeque<(u64, TcpStream)>,
    clients: BTreeMap<u64, TcpStream>,
}

impl Lines {
    /// Adds a connection that has proved nothing, in place of the eldest such if there is no room
    /// (Q2). Returns its number.
    fn enter(&mut self, stream: TcpStream) -> u64 {
        if self.strangers.len() >= STRANGERS_MAX
            && let Some((_, eldest)) = self.strangers.pop_front()
        {
            let _closed = eldest.shutdown(Shutdown::Both);
        }
        self.n_lines += 1;
        self.strangers.push_back((self.n_lines, stream));
        self.n_lines
    }

    /// Takes it that a connection has proved itself. False if there is no room for its client.
    fn admit(&mut self, line: u64) -> bool {
        let at = self.strangers.iter().position(|(number, _)| *number == line);
        let Some(at) = at.filter(|_| self.clients.len() < CLIENTS_MAX) else { return false };
        self.clients.extend(self.strangers.remove(at));
        true
    }

    fn leave(&mut self, line: u64) {
        self.clients.remove(&line);
        self.strangers.retain(|(number, _)| *number != line);
    }

    /// Closes all of them.
    fn close(&mut self) {
        let strangers = self.strangers.drain(..).map(|(_, stream)| stream);
        for stream in strangers.chain(std::mem::take(&mut self.clients).into_values()) {
            let _closed = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Clients {
    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the clients of `listener`, which are what `of` says, with what `serve` answers, as
    /// long as `check` says that the member is in its group.
    pub(super) fn serve(
        listener: TcpListener,
        of: Served,
        check: impl Fn() -> Result<(), Ended> + Send + Sync + 'static,
        serve: impl Fn(Request) -> Answer + Send + Sync + 'static,
    ) -> Result<Clients, Error> {
        let address = listener.local_addr().map_err(Error::os("look at a listener"))?;
        // A connection that woke the thread can be gone before it is accepted.
        listener.set_nonblocking(true).map_err(Error::os("prepare a listener"))?;
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|error| Error::os("make an event descriptor")(error.into()))?;
        let shared = Arc::new(Shared {
            is_over: AtomicBool::new(false),
            bell,
            of,
            check: Box::new(check),
            serve: Box::new(serve),
            lines: Mutex::default(),
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("object-clients".into());
        let thread = thread
            .spawn(move || accept(&listener, &theirs))
            .map_err(Error::os("start a thread"))?;
        Ok(Clients { shared, address, thread: Some(thread) })
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.shared.lines().close();
        // (A full counter is a bell that rings already.)
        let _rings = rustix::io::write(&self.shared.bell, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Shared {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one client until it is gone, or this member is not in its group (Q4).
    fn talk(&self, stream: &TcpStream, line: u64) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_PATIENCE))?;
        self.greet(stream, line)?;
        stream.set_read_timeout(None)?;
        let mut is_served = true;
        while is_served && !self.is_over.load(Ordering::SeqCst) {
            let request = frames::read(stream)?;
            let answer = (self.serve)(request);
            is_served = !matches!(answer, Answer::Elsewhere(_));
            frames::write(stream, &answer)?;
        }
        Ok(())
    }

    /// Q1
    fn greet(&self, mut stream: &TcpStream, line: u64) -> io::Result<()> {
        let until = deadline(HELLO_PATIENCE);
        let nonce = frames::nonce()?;
        io::Write::write_all(&mut stream, &nonce)?;
        let (proof, hello): ([u8; 32], Hello) = frames::read(By { stream, until })?;
        let text = postcard::to_allocvec(&hello).map_err(io::Error::other)?;
        let refuse = |why: String| {
            frames::write(stream, &Welcome::Refused(why.clone()))?;
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        };
        if !self.of.secret.verify(Side::Initiator, &text, &nonce, &proof) {
            return refuse("another secret".into());
        }
        let pairs = [
            ("group", &hello.group, &self.of.group),
            ("subgroup", &hello.subgroup, &self.of.subgroup),
            ("methods", &hello.methods, &self.of.methods),
        ];
        if let Some((what, theirs, own)) = pairs.into_iter().find(|(_, a, b)| a != b) {
            return refuse(format!("another {what}: {theirs:?}, and this member's {own:?}"));
        }
        let elsewhere = |why: String| {
            frames::write(stream, &Welcome::Elsewhere(why.clone()))?;
            Err(io::Error::new(io::ErrorKind::ConnectionRefused, why))
        };
        if let Err(ended) = (self.check)() {
            return elsewhere(format!("this member is not in its group: {ended}"));
        }
        if !self.lines().admit(line) {
            return elsewhere(format!("this member serves {CLIENTS_MAX} clients already"));
        }
        let proof = self.of.secret.prove(Side::Acceptor, &text, &nonce);
        frames::write(stream, &Welcome::Served { proof, n_shards: self.of.n_shards })
    }
}

/// The connection of a client that is served: whatever ends that, its place is free again (Q2).
struct Seated<'a> {
    shared: &'a Shared,
    line: u64,
    stream: &'a TcpStream,
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        self.shared.lines().leave(self.line);
        let _closed = self.stream.shutdown(Shutdown::Both);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let fds = [listener.as_fd(), shared.bell.as_fd()];
        let mut fds = fds.each_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
        // (A signal ends it early, and then there may be no connection.)
        let _awake = poll(&mut fds, None);
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => {
                // No descriptors are left, most likely: a loop that spins would not help.
                std::thread::sleep(NO_SOCKET_PAUSE);
                continue;
            }
        };
        runtime::probe_client(&stream);
        let Ok(own) = stream.try_clone() else { continue };
        let theirs = Arc::clone(shared);
        let line = shared.lines().enter(own);
        let run = move || {
            let _seated = Seated { shared: &theirs, line, stream: &stream };
            let _gone = theirs.talk(&stream, line);
        };
        let thread = std::thread::Builder::new().name("object-client".into());
        if thread.spawn(run).is_err() {
            // Without its thread the stream is closed when this one is.
            shared.lines().leave(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_door_whose_address_is_no_longer_this_host_s_is_closed() {
        let of = Served {
            group: "test".into(),
            subgroup: "all".into(),
            secret: Secret::new(b"sesame"),
            methods: String::new(),
            n_shards: 1,
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let mut clients =
            Clients::serve(listener, of, || Ok(()), |_| unreachable!("no client is there"))
                .expect("it serves");
        // An address for examples (RFC 5737), which no host has.
        clients.address = "192.0.2.1:7001".parse().expect("an address");
        let (closed, is_closed) = mpsc::channel();
        std::thread::spawn(move || {
            drop(clients);
            let _heard = closed.send(());
        });
        assert_eq!(is_closed.recv_timeout(Duration::from_secs(30)), Ok(()));
    }
}
