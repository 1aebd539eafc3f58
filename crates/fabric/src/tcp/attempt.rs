//! A handshake on a socket: it never blocks, and it ends by its deadline.

use super::handshake::{Failure, Handshake, Local, Step};
use super::hello::{BODY_BYTES_MAX, HEADER_BYTES, Hello, Refusal, Role};
use super::status::LinkError;
use super::{HANDSHAKE_MAX, socket};
use base::Rank;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// A connection that is not a link yet.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) socket: OwnedFd,
    pub(super) serial: u32,
    /// The host that it comes from, as far as the kernel says it.
    pub(super) from: Option<IpAddr>,
    pub(super) deadline: Instant,
    handshake: Handshake,
    /// Whether the kernel has finished connecting.
    connected: bool,
}

/// The result of a look at the socket.
#[derive(Debug)]
pub(super) enum Look {
    /// Nothing to decide yet.
    Continue,
    /// The connection was made just now: from here on, wait for input.
    Connected,
    /// The peer has proved itself.
    Proven(Hello),
    /// The peer has admitted this node.
    Welcomed(Hello),
}

impl Attempt {
    /// An attempt on a connection that was just accepted.
    pub(super) fn accepted(
        socket: OwnedFd,
        serial: u32,
        from: Option<IpAddr>,
        handshake: Handshake,
    ) -> Attempt {
        Attempt { from, ..Attempt::new(socket, serial, handshake, true) }
    }

    /// An attempt on a socket that is connecting.
    pub(super) fn connecting(socket: OwnedFd, serial: u32, handshake: Handshake) -> Attempt {
        Attempt::new(socket, serial, handshake, false)
    }

    fn new(socket: OwnedFd, serial: u32, handshake: Handshake, connected: bool) -> Attempt {
        let deadline = Instant::now() + HANDSHAKE_MAX;
        Attempt { socket, serial, from: None, deadline, handshake, connected }
    }

    /// The peer and its role, as far as they are known or claimed.
    pub(super) fn claims(&self) -> Option<(Rank, Role)> {
        self.handshake.claims()
    }

    /// Whether the kernel has finished connecting: from then on the attempt waits for input.
    pub(super) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Performs what the socket allows now.
    pub(super) fn look(&mut self, local: &Local) -> Result<Look, LinkError> {
        if !self.connected {
            let failed = |errno| LinkError::Os { doing: "connect", errno };
            self.connected = socket::connected(&self.socket).map_err(failed)?;
            if !self.connected {
                return Ok(Look::Continue);
            }
            self.send()?;
            return Ok(Look::Connected);
        }
        let mut room = [0; HEADER_BYTES + BODY_BYTES_MAX];
        loop {
            let wanted = self.handshake.wanted();
            if wanted == 0 {
                return Ok(Look::Continue);
            }
            let n = match socket::receive(&self.socket, &mut room[..wanted]) {
                Ok(None) => return Ok(Look::Continue),
                Ok(Some(0)) => return Err(LinkError::Closed),
                Ok(Some(n)) => n,
                Err(errno) => return Err(LinkError::Os { doing: "shake hands", errno }),
            };
            match self.handshake.received(&room[..n], local) {
                Ok(Step::Continue) => self.send()?,
                Ok(Step::Proven(peer)) => return Ok(Look::Proven(peer)),
                Ok(Step::Welcomed(peer)) => return Ok(Look::Welcomed(peer)),
                Err(Failure::Ours(refusal)) => {
                    self.part();
                    return Err(LinkError::Refused(refusal));
                }
                Err(Failure::Theirs { code, text }) => {
                    return Err(LinkError::RefusedByPeer { code, text });
                }
            }
        }
    }

    /// Admits the proven peer. Returns the bytes that the peer must see first: they go before
    /// anything else on this connection.
    pub(super) fn welcome(mut self, local: &Local) -> (OwnedFd, Vec<u8>) {
        self.handshake.welcome(local);
        let unsent = std::mem::take(self.handshake.output());
        (self.socket, unsent)
    }

    /// Refuses the proven peer.
    pub(super) fn refuse(mut self, refusal: Refusal) {
        self.handshake.refuse(refusal);
        self.part();
    }

    /// Tells the peer the reason, if its kernel takes it at once, which it does, since nothing was
    /// sent before.
    fn part(&mut self) {
        let _unsaid = socket::send(&self.socket, self.handshake.output());
    }

    fn send(&mut self) -> Result<(), LinkError> {
        let output = self.handshake.output();
        let n = socket::send(&self.socket, output)
            .map_err(|errno| LinkError::Os { doing: "shake hands", errno })?;
        // A handshake has a few hundred bytes on a connection that has sent nothing else.
        if n < output.len() {
            let errno = rustix::io::Errno::WOULDBLOCK;
            return Err(LinkError::Os { doing: "shake hands", errno });
        }
        output.clear();
        Ok(())
    }
}
