//! The operations of this provider on TCP sockets, and on the kernel's clocks and randomness.

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType,
    sockopt,
};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The time without any sign of life after which the kernel gives a connection up. Heartbeats above
/// suspect a peer much earlier; this only removes connections that they have given up.
const USER_TIMEOUT: Duration = Duration::from_secs(6);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(1);
const KEEPALIVE_PROBES: u32 = 5;

/// Starts to connect. The socket becomes writable when that has succeeded or failed.
pub(super) fn connect(to: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    prepare(&socket)?;
    match net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// Takes the next connection, with the host that it comes from, if there is one.
pub(super) fn accept(listener: impl AsFd) -> Result<Option<(OwnedFd, Option<IpAddr>)>, Errno> {
    match net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((socket, from)) => {
            // A connection that is already gone refuses its options: its first read will report it.
            let _gone = prepare(&socket);
            let from = from.and_then(|from| SocketAddr::try_from(from).ok());
            Ok(Some((socket, from.map(|from| from.ip().to_canonical()))))
        }
        // Linux reports errors of connections in the queue; the others are still there.
        Err(Errno::WOULDBLOCK | Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn prepare(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(socket, USER_TIMEOUT.as_millis() as u32)
}

/// Makes the coming close drop unsent bytes, and tell the peer at once, instead of letting the
/// kernel deliver verbs that were already reported as unknown.
pub(super) fn abandon(socket: &OwnedFd) {
    // If this fails the kernel delivers the bytes: allowed until the next LinkUp (T4).
    let _kept = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// Sends as much as the kernel takes now: `Ok(0)` if it takes nothing.
pub(super) fn send(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    send_pieces(socket, &[IoSlice::new(bytes)])
}

/// The same of several pieces of memory, one behind the other.
pub(super) fn send_pieces(socket: &OwnedFd, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = match pieces {
        [bytes] => net::send(socket, bytes, flags),
        pieces => net::sendmsg(socket, pieces, &mut SendAncillaryBuffer::default(), flags),
    };
    match sent {
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(0),
        sent => sent,
    }
}

/// Receives what is there now: `None` if nothing is, `Some(0)` at the end of the stream.
pub(super) fn receive(socket: &OwnedFd, room: &mut [u8]) -> Result<Option<usize>, Errno> {
    assert!(!room.is_empty(), "an empty room would look like the end of the connection");
    match net::recv(socket, room, RecvFlags::DONTWAIT) {
        Ok((n, _)) => Ok(Some(n)),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The same, behind what `bytes` holds, as far as that has room.
pub(super) fn receive_behind(
    socket: &OwnedFd,
    bytes: &mut Vec<u8>,
) -> Result<Option<usize>, Errno> {
    assert!(bytes.len() < bytes.capacity(), "an empty room would look like the end");
    match net::recv(socket, rustix::buffer::spare_capacity(bytes), RecvFlags::DONTWAIT) {
        Ok((_, n)) => Ok(Some(n)),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether the connection is made; false while the kernel is still trying.
pub(super) fn connected(socket: &OwnedFd) -> Result<bool, Errno> {
    sockopt::socket_error(socket)??;
    match net::getpeername(socket) {
        Ok(_) => Ok(true),
        Err(Errno::NOTCONN) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Stops watching `socket`, which is about to be closed: otherwise a copy of it in a child that was
/// just forked would keep it in the set.
pub(super) fn forget(epoll: &OwnedFd, socket: &OwnedFd) {
    // This only fails if the socket is not in the set, which is the desired state.
    let _absent = epoll::delete(epoll, socket);
}

/// Nanoseconds since this host booted, asleep or not: later processes see higher numbers.
pub(super) fn boottime_ns() -> u64 {
    let Timespec { tv_sec, tv_nsec } = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    tv_sec as u64 * 1_000_000_000 + tv_nsec as u64
}

/// Bytes that no attacker can guess.
pub(super) fn nonce() -> [u8; 32] {
    let mut nonce = [0; 32];
    let n = rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty());
    // Up to 256 bytes come whole and uninterrupted, once the kernel has booted; every kernel that
    // has epoll_pwait2 has the call. Without randomness no proof would be worth anything.
    assert_eq!(n, Ok(nonce.len()), "the kernel has no randomness to give");
    nonce
}
