//! A member's front door: clients outside of the group call its object.
//!
//! - Q1 *Proof first.* Nothing is executed for a connection whose client has not proved the group's
//!   secret over this connection's nonces; and the member proves it in turn. By construction: the
//!   loop of requests is behind `greet`. Tested by `strangers_are_refused_by_name`.
//! - Q2 *Bounds.* At most [`CLIENTS_MAX`] connections, one request of each at a time; a client that
//!   does not read for [`WRITE_PATIENCE`] loses its connection.
//! - Q3 *One outcome.* A request is executed at most once: a client whose connection breaks is told
//!   that the outcome of an ordered call is unknown, and asks nothing again but queries.

use super::frames::{self, Answer, Hello, Request, Welcome};
use crate::error::Error;
use fabric::tcp::hello::{Secret, Side};
use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The most clients of one member.
const CLIENTS_MAX: usize = 256;
/// The longest time for a client's hello.
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
    n_clients: AtomicUsize,
    of: Served,
    serve: Box<dyn Fn(Request) -> Answer + Send + Sync>,
    streams: Mutex<Vec<TcpStream>>,
}

impl Clients {
    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the clients of `listener`, which are what `of` says, with what `serve` answers.
    pub(super) fn serve(
        listener: TcpListener,
        of: Served,
        serve: impl Fn(Request) -> Answer + Send + Sync + 'static,
    ) -> Result<Clients, Error> {
        let address = listener.local_addr().map_err(Error::os("look at a listener"))?;
        let shared = Arc::new(Shared {
            is_over: AtomicBool::new(false),
            n_clients: AtomicUsize::new(0),
            of,
            serve: Box::new(serve),
            streams: Mutex::default(),
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
        for stream in self.shared.streams().drain(..) {
            let _closed = stream.shutdown(Shutdown::Both);
        }
        // The listener wakes for a connection.
        let _wakes = TcpStream::connect_timeout(&self.address, HELLO_PATIENCE);
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
    fn streams(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one client until it is gone.
    fn talk(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_PATIENCE))?;
        stream.set_read_timeout(Some(HELLO_PATIENCE))?;
        self.greet(stream)?;
        stream.set_read_timeout(None)?;
        while !self.is_over.load(Ordering::SeqCst) {
            let request = frames::read(stream)?;
            frames::write(stream, &(self.serve)(request))?;
        }
        Ok(())
    }

    /// Q1
    fn greet(&self, mut stream: &TcpStream) -> io::Result<()> {
        let nonce = frames::nonce()?;
        io::Write::write_all(&mut stream, &nonce)?;
        let (proof, hello): ([u8; 32], Hello) = frames::read(stream)?;
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
        if self.n_clients.load(Ordering::SeqCst) > CLIENTS_MAX {
            return refuse(format!("this member serves {CLIENTS_MAX} clients already"));
        }
        let proof = self.of.secret.prove(Side::Acceptor, &text, &nonce);
        frames::write(stream, &Welcome::Welcome { proof, n_shards: self.of.n_shards })
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        // Q2 (Two more than are served wait for a refusal by name.)
        let Ok(stream) = stream else {
            // No descriptors are left, most likely: a loop that spins would not help.
            std::thread::sleep(NO_SOCKET_PAUSE);
            continue;
        };
        if shared.n_clients.load(Ordering::SeqCst) > CLIENTS_MAX + 2 {
            continue;
        }
        runtime::probe_client(&stream);
        let Ok(own) = stream.try_clone() else { continue };
        let theirs = Arc::clone(shared);
        theirs.n_clients.fetch_add(1, Ordering::SeqCst);
        shared.streams().push(own);
        let run = move || {
            let _gone = theirs.talk(&stream);
            let peer = stream.peer_addr().ok();
            theirs.streams().retain(|one| one.peer_addr().ok() != peer);
            let _closed = stream.shutdown(Shutdown::Both);
            theirs.n_clients.fetch_sub(1, Ordering::SeqCst);
        };
        let thread = std::thread::Builder::new().name("object-client".into());
        if thread.spawn(run).is_err() {
            // It is the last one: this thread alone adds some.
            if let Some(unserved) = shared.streams().pop() {
                let _closed = unserved.shutdown(Shutdown::Both);
            }
            shared.n_clients.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
