//! Clients' sockets: the streams of `kv`'s door.

use super::KEY_LISTENER;
use console::{Failure, Outcome};
use kv::door::{Addresses, Broken, Received, Streams, place_of};
use runtime::{Interest, Poller};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// How long new clients wait when the kernel has no descriptor or memory for them.
const STARVED_FOR: Duration = Duration::from_millis(100);

/// The clients' sockets; see the module's text.
pub(crate) struct Sockets {
    listener: TcpListener,
    /// The loop's set, once the sockets are in it.
    poller: Option<Poller>,
    listens: bool,
    /// The earliest time at which it listens again after a failure to accept.
    listen_at: Option<Instant>,
    /// Whether the present failures to accept were complained of: they end when no client is left
    /// to be accepted.
    complained: bool,
    /// The sockets by [`place_of`] their names.
    streams: Vec<Option<TcpStream>>,
}

impl Sockets {
    /// Sockets behind `listener`, which is bound.
    pub(crate) fn new(listener: TcpListener) -> Outcome<Sockets> {
        listener
            .set_nonblocking(true)
            .map_err(|error| Failure::os("set a listening socket non-blocking", error))?;
        Ok(Sockets {
            listener,
            poller: None,
            listens: false,
            listen_at: None,
            complained: false,
            streams: Vec::new(),
        })
    }

    /// Begins to listen.
    pub(super) fn register(&mut self, poller: &Poller) -> io::Result<()> {
        poller.add(&self.listener, KEY_LISTENER, Interest::Read)?;
        (self.poller, self.listens) = (Some(poller.clone()), true);
        Ok(())
    }

    /// Has streams watched by `poller`, and does not listen before [`Sockets::listen_again`].
    pub(crate) fn watch_by(&mut self, poller: &Poller) {
        self.poller = Some(poller.clone());
    }

    /// Listens, for the first time or a while after a failure to accept; called in every turn.
    pub(crate) fn listen_again(&mut self) {
        if self.listens || self.listen_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        if let Some(poller) = &self.poller {
            self.listens = poller.add(&self.listener, KEY_LISTENER, Interest::Read).is_ok();
        }
    }

    /// Stops listening for a while, since no client can be accepted. Returns whether this is the
    /// first failure of several.
    fn starve(&mut self) -> bool {
        let removed = self.poller().map(|poller| poller.remove(&self.listener));
        self.listens = !matches!(removed, Ok(Ok(())));
        self.listen_at = Some(Instant::now() + STARVED_FOR);
        !std::mem::replace(&mut self.complained, true)
    }

    fn poller(&self) -> Result<&Poller, Broken> {
        self.poller.as_ref().ok_or(Broken)
    }

    fn stream(&self, key: u64) -> Result<&TcpStream, Broken> {
        let stream = self.streams.get(place_of(key));
        stream.and_then(Option::as_ref).ok_or(Broken)
    }
}

impl Streams for Sockets {
    type Incoming = TcpStream;

    fn accept(&mut self) -> Option<TcpStream> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => return Some(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.complained = false;
                    return None;
                }
                // That client has gone already.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Most likely no descriptors are left. Clients wait in the backlog; trying
                    // again at once would only use up the processor.
                    if self.starve() {
                        let failure = Failure::os("accept a client", error);
                        runtime::complain(format_args!("{failure}; further ones wait"));
                    }
                    return None;
                }
            }
        }
    }

    fn refuse(&mut self, mut stream: TcpStream, reply: &[u8]) {
        // The reply fits into the buffer of a fresh socket, or the client has gone.
        let _ = stream.write_all(reply);
    }

    fn admit(&mut self, stream: TcpStream, key: u64) -> Result<Addresses, Broken> {
        // A socket that cannot be made non-blocking, or watched, is broken.
        let fitted = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        fitted.map_err(|_| Broken)?;
        runtime::probe_client(&stream);
        self.poller()?.add(&stream, key, Interest::Read).map_err(|_| Broken)?;
        let text = |address: io::Result<SocketAddr>| {
            address.map(|address| address.to_string()).unwrap_or_default()
        };
        let addresses =
            Addresses { client: text(stream.peer_addr()), local: text(stream.local_addr()) };
        let streams = &mut self.streams;
        let place = place_of(key);
        if place >= streams.len() {
            streams.resize_with(place + 1, || None);
        }
        streams[place] = Some(stream);
        Ok(addresses)
    }

    fn read(&mut self, key: u64, into: &mut [u8]) -> Result<Received, Broken> {
        match self.stream(key)?.read(into) {
            Ok(0) => Ok(Received::End),
            Ok(n) => Ok(Received::Bytes(n)),
            Err(error) if is_for_later(&error) => Ok(Received::Nothing),
            Err(_) => Err(Broken),
        }
    }

    fn write(&mut self, key: u64, bytes: &[u8]) -> Result<usize, Broken> {
        match self.stream(key)?.write(bytes) {
            Ok(n) => Ok(n),
            Err(error) if is_for_later(&error) => Ok(0),
            Err(_) => Err(Broken),
        }
    }

    fn watch(&mut self, key: u64, interest: Interest) -> Result<(), Broken> {
        self.poller()?.change(self.stream(key)?, key, interest).map_err(|_| Broken)
    }

    fn close(&mut self, key: u64) {
        if let Some(stream) = self.streams.get_mut(place_of(key)).and_then(Option::take) {
            // Closing has the same effect; an error means that the socket was not watched.
            let _ = self.poller().map(|poller| poller.remove(&stream));
        }
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_without_descriptors_pauses_and_complains_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut sockets = Sockets::new(listener).unwrap();
        let mut poller = Poller::new().unwrap();
        sockets.register(&poller).unwrap();
        let _client = TcpStream::connect(address).unwrap();
        assert!(sockets.starve(), "the first failure is complained of");
        sockets.listen_again();
        assert!(!sockets.listens, "not at once");
        let mut ready = Vec::new();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty(), "the waiting client keeps no loop awake");
        sockets.listen_at = Some(Instant::now()); // the pause is over
        sockets.listen_again();
        assert!(sockets.listens);
        assert!(!sockets.starve(), "the same failures");
        assert!(sockets.accept().is_some() && sockets.accept().is_none(), "all are accepted");
        assert!(sockets.starve(), "others");
    }
}
