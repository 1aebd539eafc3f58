//! The door: incoming connections, their admission, and the record of refusals.

use super::attempt::{Attempt, Look};
use super::handshake::Handshake;
use super::hello::{Hello, Refusal, Role};
use super::link::Link;
use super::peer::{State, Vigil};
use super::provider::{Source, TcpFabric};
use super::status::LinkError;
use super::{INCOMING_MAX, socket};
use base::{Inbox, Rank};
use rustix::event::epoll;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long new connections wait when the kernel has no descriptor or memory for them.
const STARVED_FOR: Duration = Duration::from_millis(100);

impl TcpFabric {
    pub(super) fn on_listener(&mut self) {
        self.unsettled = true;
        for _ in 0..INCOMING_MAX {
            match socket::accept(&self.listener) {
                Ok(Some(socket)) => self.let_knock(socket),
                Ok(None) => return,
                Err(_starved) => {
                    // A listener from which no connection can be accepted would keep the loop
                    // awake.
                    self.door.starved += 1;
                    self.listen(epoll::EventFlags::empty());
                    self.listen_again = Some(Instant::now() + STARVED_FOR);
                    return;
                }
            }
        }
    }

    pub(super) fn listen(&mut self, flags: epoll::EventFlags) {
        epoll::modify(&self.epoll, &self.listener, Source::Listener.encode(), flags)
            .expect("the listener was added at the start and is never taken out");
    }

    fn let_knock(&mut self, socket: OwnedFd) {
        self.door.accepted += 1;
        if self.incoming.len() == INCOMING_MAX {
            // A slow peer makes room for others that may be fast: an honest handshake takes two
            // round trips, so a crowd of idle connections cannot keep members out.
            self.door.crowded_out += 1;
            let oldest = self.incoming.remove(0);
            socket::forget(&self.epoll, &oldest.socket);
        }
        let (serial, fresh) = (self.next_serial(), self.fresh());
        let source = Source::Incoming(serial);
        if epoll::add(&self.epoll, &socket, source.encode(), epoll::EventFlags::IN).is_err() {
            self.door.starved += 1;
            return;
        }
        self.incoming.push(Attempt::accepted(socket, serial, Handshake::accept(fresh)));
    }

    pub(super) fn on_incoming(&mut self, serial: u32, inbox: &mut Inbox) {
        let Some(at) = self.incoming.iter().position(|attempt| attempt.serial == serial) else {
            return; // crowded out earlier in this poll
        };
        match self.incoming[at].look(&self.local) {
            Ok(Look::Continue) => {}
            Ok(Look::Proven(peer)) => {
                let attempt = self.incoming.remove(at);
                self.on_proven(attempt, peer, inbox);
                self.unsettled = true;
            }
            Ok(Look::Connected | Look::Welcomed(_)) => unreachable!("we are the acceptor"),
            Err(error) => {
                let attempt = self.incoming.remove(at);
                socket::forget(&self.epoll, &attempt.socket);
                self.record_refusal(attempt.claims(), error);
                self.unsettled = true;
            }
        }
    }

    /// Handles a member, or its sentinel, that has proved itself: it takes the place of its
    /// predecessor.
    fn on_proven(&mut self, attempt: Attempt, peer: Hello, inbox: &mut Inbox) {
        let rank = peer.from;
        if let Err(refusal) = self.peers[rank.index()].admit(&peer) {
            socket::forget(&self.epoll, &attempt.socket);
            attempt.refuse(refusal);
            self.record_refusal(Some((rank, peer.role)), LinkError::Refused(refusal));
            return;
        }
        let serial = attempt.serial;
        // L1: the old connection is closed, with the bytes left in it, before the new one is
        // answered.
        let source = match peer.role {
            Role::Node => {
                self.lose(rank, LinkError::Reconnected, inbox);
                Source::Peer(rank, serial)
            }
            Role::Sentinel => {
                self.dismiss(rank);
                Source::Sentinel(rank, serial)
            }
        };
        let (socket, unsent) = attempt.welcome(&self.local);
        let flags = epoll::EventFlags::IN;
        if epoll::modify(&self.epoll, &socket, source.encode(), flags).is_err() {
            return; // closed unanswered: the peer tries again
        }
        let entry = &mut self.peers[rank.index()];
        match peer.role {
            Role::Node => {
                entry.link_up(Link::new(socket, serial, peer, unsent), inbox);
                self.has_unannounced = true;
            }
            Role::Sentinel => {
                // The bytes fit: only CHALLENGE was sent here before. If they do not arrive, the
                // sentinel's deadline passes and it tries again.
                let _unsent = socket::send(&socket, &unsent);
                entry.sentinel = Some(Vigil::new(socket, serial, peer));
            }
        }
    }

    pub(super) fn on_sentinel(&mut self, rank: Rank, serial: u32, inbox: &mut Inbox) {
        let peer = &mut self.peers[rank.index()];
        let Some(vigil) = peer.sentinel.as_mut().filter(|vigil| vigil.serial == serial) else {
            return;
        };
        match vigil.receive() {
            Ok(None) => {}
            Ok(Some(life)) => {
                if peer.mourn(life, inbox) {
                    self.pace.pace().hurry();
                    self.pace.hurried();
                }
            }
            Err(_over) => self.dismiss(rank),
        }
    }

    fn dismiss(&mut self, rank: Rank) {
        if let Some(vigil) = self.peers[rank.index()].sentinel.take() {
            socket::forget(&self.epoll, &vigil.socket);
        }
    }

    pub(super) fn record_refusal(&mut self, claims: Option<(Rank, Role)>, error: LinkError) {
        match &error {
            LinkError::Refused(Refusal::Malformed) => self.door.garbage += 1,
            LinkError::Refused(refusal) => {
                self.door.refused += 1;
                self.door.last_refusal = Some(*refusal);
            }
            LinkError::HandshakeTimeout => self.door.timed_out += 1,
            // The peer went away, or its own checks failed.
            _ => {}
        }
        // Nothing was proved, so this may not change the report about a live link.
        if let Some((rank, Role::Node)) = claims
            && let Some(peer) = self.peers.get_mut(rank.index())
            && matches!(peer.state, State::Awaited)
        {
            peer.last_error = Some(error);
        }
    }
}
