//! Clients by UDP: each address that datagrams come from is a connection, which ends when it has
//! been silent for long.
//!
//! - U1 a datagram is one input, and one output, whole or not at all: what is empty, too long or
//!   finds no room is dropped, as networks drop datagrams. In the bytes that a copy says, which
//!   have no bounds, each has its length before it ([`read`]).
//! - U2 a client that has said nothing and was told nothing for [`IDLE_AFTER`] is gone: its stream
//!   breaks. So does that of the client that has been silent for longest where there are
//!   [`PEERS_MAX`], and another one comes: each has a descriptor in every copy.
//! - U3 what is ready is reported by [`Datagrams::ready`] in each turn, as a poller reports
//!   sockets: one socket has the datagrams of all.

use crate::door::KEY_LISTENER;
use console::{Failure, Outcome};
use kv::door::{Addresses, Broken, Received, Streams, place_of};
use runtime::{Interest, Poller, Ready};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// See U2.
const IDLE_AFTER: Duration = Duration::from_secs(60);
/// See U2.
const PEERS_MAX: usize = 500;
/// The datagrams of one client that wait to be read, at most.
const WAITING_MAX: usize = 256;
/// The clients that wait to be admitted, at most.
const NEWCOMERS_MAX: usize = 1024;
/// The datagrams that are taken from a socket in one turn, at most.
const TURN_MAX: usize = 1024;

/// Reads the next datagram of a leg that fits, behind its length (U1). Those before it are dropped,
/// at all copies alike: they hide nothing from a point, where all that lies there is read.
pub(super) fn read(leg: &OwnedFd, into: &mut [u8]) -> Result<Received, Broken> {
    let (len, datagram) = into.split_first_chunk_mut::<2>().ok_or(Broken)?;
    let room = datagram.len();
    // (A buffer of the kernel's holds fewer that are too long.)
    for _ in 0..TURN_MAX {
        match rustix::net::recv(leg, &mut *datagram, RecvFlags::TRUNC) {
            Ok((_, n)) if n > room || n > usize::from(u16::MAX) => {}
            Ok((_, n)) => {
                *len = (n as u16).to_be_bytes();
                return Ok(Received::Bytes(2 + n));
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            Err(_) => return Err(Broken),
        }
    }
    Ok(Received::Nothing)
}

/// The first datagram of what a copy has said, if all of it is there.
fn first(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.get(..usize::from(u16::from_be_bytes(*len)))
}

/// Whether a process of this host hears datagrams at the port. (To try would be to take it.)
pub(super) fn is_taken(port: u16) -> bool {
    let place = format!(":{port:04X}");
    let has_place =
        |line: &str| line.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&place));
    ["/proc/net/udp", "/proc/net/udp6"]
        .iter()
        .any(|list| std::fs::read_to_string(list).is_ok_and(|list| list.lines().any(has_place)))
}

/// A client that was not admitted yet.
pub(crate) struct Newcomer {
    address: SocketAddr,
    waiting: VecDeque<Vec<u8>>,
}

struct Peer {
    key: u64,
    address: SocketAddr,
    waiting: VecDeque<Vec<u8>>,
    interest: Interest,
    moved_at: Instant,
    /// Another one needs its place.
    is_to_go: bool,
}

impl Peer {
    /// U2
    fn is_gone(&self, now: Instant) -> bool {
        let is_idle = self.waiting.is_empty() && now.duration_since(self.moved_at) >= IDLE_AFTER;
        is_idle || self.is_to_go
    }
}

/// The clients of the module's text.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    /// The longest datagram that is taken, and one byte more.
    buffer: Vec<u8>,
    newcomers: VecDeque<Newcomer>,
    /// By [`place_of`] their names.
    peers: Vec<Option<Peer>>,
    places: BTreeMap<SocketAddr, usize>,
}

impl Datagrams {
    /// Clients at `address`, whose datagrams have at most so many bytes.
    pub(crate) fn bind(address: SocketAddr, bytes_max: usize) -> Outcome<Datagrams> {
        let socket = UdpSocket::bind(address)
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .map_err(|error| Failure::os(format_args!("listen at UDP {address}"), error))?;
        Ok(Datagrams {
            socket,
            buffer: vec![0; bytes_max + 1],
            newcomers: VecDeque::new(),
            peers: Vec::new(),
            places: BTreeMap::new(),
        })
    }

    pub(crate) fn watch_by(&self, poller: &Poller) -> io::Result<()> {
        poller.add(&self.socket, KEY_LISTENER, Interest::Read)
    }

    /// The clients that can be read, or have gone (U3).
    pub(crate) fn ready(&self) -> Vec<Ready> {
        let now = Instant::now();
        let is_ready =
            |peer: &&Peer| peer.interest.reads() && (!peer.waiting.is_empty() || peer.is_gone(now));
        let peers = self.peers.iter().flatten().filter(is_ready);
        peers.map(|peer| Ready { key: peer.key, readable: true, writable: false }).collect()
    }

    /// Takes what has come.
    pub(crate) fn receive(&mut self) {
        for _ in 0..TURN_MAX {
            let (n, from) = match self.socket.recv_from(&mut self.buffer) {
                Ok(received) => received,
                // (An answer that reached no process is reported here, and concerns no other.)
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(_) => return,
            };
            if n == 0 || n == self.buffer.len() {
                continue; // U1
            }
            let known = self.places.get(&from).and_then(|place| self.peers[*place].as_mut());
            let waiting = match known {
                Some(peer) => {
                    peer.moved_at = Instant::now();
                    &mut peer.waiting
                }
                None => match self.newcomers.iter().position(|one| one.address == from) {
                    Some(at) => &mut self.newcomers[at].waiting,
                    None if self.newcomers.len() == NEWCOMERS_MAX => continue,
                    None => {
                        let waiting = VecDeque::new();
                        self.newcomers.push_back(Newcomer { address: from, waiting });
                        &mut self.newcomers.back_mut().expect("just pushed").waiting
                    }
                },
            };
            if waiting.len() < WAITING_MAX {
                waiting.push_back(self.buffer[..n].to_vec());
            }
        }
    }

    pub(crate) fn has_newcomers(&self) -> bool {
        !self.newcomers.is_empty()
    }

    /// Lets the client go that has been silent for longest.
    fn make_room(&mut self) {
        let peers = || self.peers.iter().flatten();
        if peers().any(|peer| peer.is_to_go) {
            return; // it has not been closed yet
        }
        if let Some(key) = peers().min_by_key(|peer| peer.moved_at).map(|peer| peer.key)
            && let Ok(peer) = self.peer(key)
        {
            peer.is_to_go = true;
            peer.interest = Interest::Read;
        }
    }

    fn peer(&mut self, key: u64) -> Result<&mut Peer, Broken> {
        let peer = self.peers.get_mut(place_of(key)).and_then(Option::as_mut);
        peer.filter(|peer| peer.key == key).ok_or(Broken)
    }
}

impl Streams for Datagrams {
    type Incoming = Newcomer;

    fn accept(&mut self) -> Option<Newcomer> {
        if self.newcomers.is_empty() {
            self.receive();
        }
        if self.places.len() >= PEERS_MAX && !self.newcomers.is_empty() {
            self.make_room();
            return None;
        }
        self.newcomers.pop_front()
    }

    /// It is not told: a client that hears nothing tries again.
    fn refuse(&mut self, _: Newcomer, _: &[u8]) {}

    fn admit(&mut self, newcomer: Newcomer, key: u64) -> Result<Addresses, Broken> {
        let Newcomer { address, waiting } = newcomer;
        let place = place_of(key);
        if place >= self.peers.len() {
            self.peers.resize_with(place + 1, || None);
        }
        let addresses = Addresses { client: address.to_string(), ..Addresses::default() };
        let (interest, moved_at) = (Interest::Read, Instant::now());
        let is_to_go = false;
        self.peers[place] = Some(Peer { key, address, waiting, interest, moved_at, is_to_go });
        self.places.insert(address, place);
        Ok(addresses)
    }

    fn read(&mut self, key: u64, into: &mut [u8]) -> Result<Received, Broken> {
        let peer = self.peer(key)?;
        if peer.is_gone(Instant::now()) {
            return Err(Broken);
        }
        let Some(datagram) = peer.waiting.pop_front() else { return Ok(Received::Nothing) };
        into[..datagram.len()].copy_from_slice(&datagram);
        Ok(Received::Bytes(datagram.len()))
    }

    fn write(&mut self, key: u64, bytes: &[u8]) -> Result<usize, Broken> {
        let peer = self.peer(key)?;
        peer.moved_at = Instant::now();
        let (address, mut n) = (peer.address, 0);
        while let Some(datagram) = first(&bytes[n..]) {
            // One that finds no room is dropped (U1).
            let _ = self.socket.send_to(datagram, address);
            n += 2 + datagram.len();
        }
        Ok(n)
    }

    fn watch(&mut self, key: u64, interest: Interest) -> Result<(), Broken> {
        // There is always room for output (U1).
        self.peer(key)?.interest = interest;
        Ok(())
    }

    fn close(&mut self, key: u64) {
        if let Some(peer) = self.peers.get_mut(place_of(key)).and_then(Option::take) {
            self.places.remove(&peer.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound() -> (Datagrams, SocketAddr) {
        let datagrams = Datagrams::bind("127.0.0.1:0".parse().unwrap(), 8).unwrap();
        let address = datagrams.socket.local_addr().unwrap();
        (datagrams, address)
    }

    /// The trap: nothing was read, so that the answers seemed to be complete.
    #[test]
    fn u1_an_answer_that_is_too_long_does_not_hide_the_next_one() {
        let program = UdpSocket::bind("127.0.0.1:0").unwrap();
        let leg = UdpSocket::bind("127.0.0.1:0").unwrap();
        leg.set_nonblocking(true).unwrap();
        let address = leg.local_addr().unwrap();
        for said in [&b"too long"[..], b"longer", b"fits"] {
            program.send_to(said, address).unwrap();
        }
        let (leg, mut bytes) = (OwnedFd::from(leg), [0; 2 + 4]);
        assert_eq!(read(&leg, &mut bytes), Ok(Received::Bytes(6)));
        assert_eq!(&bytes, b"\x00\x04fits");
        assert_eq!(read(&leg, &mut bytes), Ok(Received::Nothing));
    }

    #[test]
    fn u1_datagrams_keep_their_bounds_and_what_is_empty_or_too_long_is_dropped() {
        let (mut datagrams, address) = bound();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for said in [&b"one"[..], b"", b"two two two", b"12345678"] {
            client.send_to(said, address).unwrap();
        }
        assert!(is_taken(address.port()));
        let newcomer = datagrams.accept().expect("a client");
        assert!(datagrams.accept().is_none(), "it is one client");
        let key = 1 << 20; // its place is 0
        datagrams.admit(newcomer, key).unwrap();
        let mut bytes = [0; 8];
        for expected in [&b"one"[..], b"12345678"] {
            assert_eq!(datagrams.ready().len(), 1);
            let read = datagrams.read(key, &mut bytes);
            assert_eq!(
                (read, &bytes[..expected.len()]),
                (Ok(Received::Bytes(expected.len())), expected)
            );
        }
        assert!(datagrams.ready().is_empty());
        assert_eq!(datagrams.read(key, &mut bytes), Ok(Received::Nothing));
        let said = b"\x00\x01a\x00\x02bc";
        assert_eq!(datagrams.write(key, &said[..said.len() - 1]), Ok(3), "the second is not whole");
        assert_eq!(datagrams.write(key, &said[3..]), Ok(4));
        let mut heard = [0; 8];
        for expected in [&b"a"[..], b"bc"] {
            let n = client.recv(&mut heard).unwrap();
            assert_eq!(&heard[..n], expected);
        }
        // It is forgotten when it is closed, and new when it speaks again.
        datagrams.close(key);
        client.send_to(b"again", address).unwrap();
        assert!(datagrams.accept().is_some());
    }

    #[test]
    fn u2_where_there_are_many_the_one_that_was_silent_for_longest_goes() {
        let (mut datagrams, address) = bound();
        let mut clients = Vec::new();
        for at in 0..=PEERS_MAX as u64 {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.send_to(b"x", address).unwrap();
            clients.push(client);
            let Some(newcomer) = datagrams.accept() else { break };
            datagrams.admit(newcomer, (at + 1) << 20 | at).unwrap();
        }
        assert_eq!(datagrams.places.len(), PEERS_MAX);
        let first = 1 << 20;
        assert_eq!(datagrams.read(first, &mut [0; 8]), Err(Broken));
        assert_eq!(datagrams.read(2 << 20 | 1, &mut [0; 8]), Ok(Received::Bytes(1)));
        assert!(datagrams.accept().is_none(), "it is not closed");
        datagrams.close(first);
        assert!(datagrams.accept().is_some(), "the new one has its place");
    }
}
