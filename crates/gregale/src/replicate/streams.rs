//! The clients of a program: by TCP, or by UDP.

use super::datagrams::{Datagrams, Newcomer};
use crate::door::ClientSockets;
use console::{Failure, Outcome};
use kv::door::{Addresses, Broken, Received, Streams};
use runtime::{Interest, Poller, Ready};
use std::net::TcpStream;

/// The clients of the module's text.
pub(crate) enum ProgramStreams {
    Tcp(ClientSockets),
    Udp(Datagrams),
}

/// A client that was not admitted yet.
pub(crate) enum Incoming {
    Tcp(TcpStream),
    Udp(Newcomer),
}

impl ProgramStreams {
    /// Has streams watched by `poller`, but for those of newcomers by TCP.
    pub(crate) fn watch_by(&mut self, poller: &Poller) -> Outcome<()> {
        match self {
            ProgramStreams::Tcp(sockets) => sockets.watch_by(poller),
            ProgramStreams::Udp(datagrams) => datagrams
                .watch_by(poller)
                .map_err(|error| Failure::os("watch the clients' socket", error))?,
        }
        Ok(())
    }

    /// Listens, if it does not.
    pub(crate) fn listen_again(&mut self) {
        if let ProgramStreams::Tcp(sockets) = self {
            sockets.listen_again();
        }
    }

    /// Takes what has come, whether or not clients are let in.
    pub(crate) fn receive(&mut self) {
        if let ProgramStreams::Udp(datagrams) = self {
            datagrams.receive();
        }
    }

    /// Whether clients wait to be admitted of which no poller tells.
    pub(crate) fn has_newcomers(&self) -> bool {
        matches!(self, ProgramStreams::Udp(datagrams) if datagrams.has_newcomers())
    }

    /// The streams that are ready, of those that no poller watches.
    pub(crate) fn ready(&self) -> Vec<Ready> {
        match self {
            ProgramStreams::Tcp(_) => Vec::new(),
            ProgramStreams::Udp(datagrams) => datagrams.ready(),
        }
    }
}

impl Streams for ProgramStreams {
    type Incoming = Incoming;

    fn accept(&mut self) -> Option<Incoming> {
        match self {
            ProgramStreams::Tcp(of) => of.accept().map(Incoming::Tcp),
            ProgramStreams::Udp(of) => of.accept().map(Incoming::Udp),
        }
    }

    fn refuse(&mut self, incoming: Incoming, reply: &[u8]) {
        match (self, incoming) {
            (ProgramStreams::Tcp(of), Incoming::Tcp(one)) => of.refuse(one, reply),
            (ProgramStreams::Udp(of), Incoming::Udp(one)) => of.refuse(one, reply),
            (ProgramStreams::Tcp(_) | ProgramStreams::Udp(_), _) => {}
        }
    }

    fn admit(&mut self, incoming: Incoming, key: u64) -> Result<Addresses, Broken> {
        match (self, incoming) {
            (ProgramStreams::Tcp(of), Incoming::Tcp(one)) => of.admit(one, key),
            (ProgramStreams::Udp(of), Incoming::Udp(one)) => of.admit(one, key),
            (ProgramStreams::Tcp(_) | ProgramStreams::Udp(_), _) => Err(Broken),
        }
    }

    fn read(&mut self, key: u64, into: &mut [u8]) -> Result<Received, Broken> {
        match self {
            ProgramStreams::Tcp(of) => of.read(key, into),
            ProgramStreams::Udp(of) => of.read(key, into),
        }
    }

    fn write(&mut self, key: u64, bytes: &[u8]) -> Result<usize, Broken> {
        match self {
            ProgramStreams::Tcp(of) => of.write(key, bytes),
            ProgramStreams::Udp(of) => of.write(key, bytes),
        }
    }

    fn watch(&mut self, key: u64, interest: Interest) -> Result<(), Broken> {
        match self {
            ProgramStreams::Tcp(of) => of.watch(key, interest),
            ProgramStreams::Udp(of) => of.watch(key, interest),
        }
    }

    fn close(&mut self, key: u64) {
        match self {
            ProgramStreams::Tcp(of) => of.close(key),
            ProgramStreams::Udp(of) => of.close(key),
        }
    }
}
