//! The door: incoming connections, their admission, and the record of refusals.
//!
//! - D1 connections without a proof keep no member out: hosts that have no member's address, and
//!   connections that have not introduced themselves, make room first.
//! - D2 what a connection without a proof says changes no link, and is recorded as unproven.

use super::attempt::{Attempt, Look};
use super::handshake::Handshake;
use super::hello::{Hello, Refusal, Role};
use super::link::Link;
use super::peer::{Peer, State, Vigil};
use super::provider::{Source, TcpFabric};
use super::status::LinkError;
use super::{INCOMING_MAX, INCOMING_PER_STRANGER_MAX, socket};
use base::{Inbox, Rank};
use rustix::event::epoll;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long new connections wait when the kernel has no descriptor or memory for them.
const STARVED_FOR: Duration = Duration::from_millis(100);

/// A connection with a handshake under way, as far as it matters for a place among the others.
#[derive(Clone, Copy, Debug)]
struct Knock {
    from: Option<IpAddr>,
    /// Whether a member has its host's address.
    is_near: bool,
    is_introduced: bool,
}

/// The place of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Free,
    /// That of the connection at this index.
    InPlaceOf(usize),
    None,
}

impl Room {
    /// The place of `new` among `others`, the oldest first (D1).
    fn of(new: Knock, others: &[Knock]) -> Room {
        let is_akin = |other: &Knock| other.from == new.from;
        let n_akin = others.iter().filter(|other| is_akin(other)).count();
        let is_crowd = !new.is_near && n_akin >= INCOMING_PER_STRANGER_MAX;
        if others.len() < INCOMING_MAX && !is_crowd {
            return Room::Free;
        }
        let candidates = others.iter().enumerate().filter(|(_, other)| !is_crowd || is_akin(other));
        // The oldest of the least likely ones.
        let least = candidates.min_by_key(|(_, other)| (other.is_near, other.is_introduced));
        match least {
            Some((_, other)) if other.is_near && !new.is_near => Room::None,
            Some((at, _)) => Room::InPlaceOf(at),
            None => Room::Free,
        }
    }
}

impl TcpFabric {
    pub(super) fn on_listener(&mut self) {
        self.unsettled = true;
        for _ in 0..INCOMING_MAX {
            match socket::accept(&self.listener) {
                Ok(Some((socket, from))) => self.let_knock(socket, from),
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

    fn let_knock(&mut self, socket: OwnedFd, from: Option<IpAddr>) {
        self.door.accepted += 1;
        let is_near = |from: Option<IpAddr>| {
            let of = |peer: &Peer| Some(peer.address.ip()) == from;
            // All addresses of loopback are this host's, from whichever a member connects.
            from.is_some_and(|from| from.is_loopback()) || self.peers.iter().any(of)
        };
        let new = Knock { from, is_near: is_near(from), is_introduced: false };
        let knock = |other: &Attempt| Knock {
            from: other.from,
            is_near: is_near(other.from),
            is_introduced: other.claims().is_some(),
        };
        let others: Vec<Knock> = self.incoming.iter().map(knock).collect();
        match Room::of(new, &others) {
            Room::Free => {}
            // A slow peer makes room for others that may be fast: an honest handshake takes two
            // round trips, so a crowd of idle connections cannot keep members out.
            Room::InPlaceOf(at) => {
                self.door.crowded_out += 1;
                let other = self.incoming.remove(at);
                socket::forget(&self.epoll, &other.socket);
            }
            Room::None => {
                self.door.crowded_out += 1;
                return;
            }
        }
        let (serial, fresh) = (self.next_serial(), self.fresh());
        let source = Source::Incoming(serial);
        if epoll::add(&self.epoll, &socket, source.encode(), epoll::EventFlags::IN).is_err() {
            self.door.starved += 1;
            return;
        }
        self.incoming.push(Attempt::accepted(socket, serial, from, Handshake::accept(fresh)));
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
                let error = match error {
                    LinkError::Refused(refusal) => LinkError::Unproven(refusal), // D2
                    error => error,
                };
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
            LinkError::Refused(Refusal::Malformed) | LinkError::Unproven(Refusal::Malformed) => {
                self.door.garbage += 1;
            }
            LinkError::Refused(refusal) | LinkError::Unproven(refusal) => {
                self.door.refused += 1;
                self.door.last_refusal = Some(*refusal);
            }
            LinkError::HandshakeTimeout => self.door.timed_out += 1,
            // The peer went away, or its own checks failed.
            _ => {}
        }
        // D2: this may not change the report about a live link.
        if let Some((rank, Role::Node)) = claims
            && let Some(peer) = self.peers.get_mut(rank.index())
            && matches!(peer.state, State::Awaited)
        {
            peer.last_error = Some(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(host: u8) -> Knock {
        let from = Some(IpAddr::from([192, 0, 2, host]));
        Knock { from, is_near: false, is_introduced: false }
    }

    fn member(is_introduced: bool) -> Knock {
        Knock { from: Some(IpAddr::from([10, 0, 0, 1])), is_near: true, is_introduced }
    }

    #[test]
    fn d1_strangers_make_room_for_members_and_for_each_other() {
        let mut others = vec![member(false)];
        others.extend((0..15).map(stranger));
        assert_eq!(Room::of(member(false), &others[..15]), Room::Free);
        assert_eq!(Room::of(member(false), &others), Room::InPlaceOf(1));
        assert_eq!(Room::of(stranger(99), &others), Room::InPlaceOf(1));
        others[1].is_introduced = true;
        assert_eq!(Room::of(stranger(99), &others), Room::InPlaceOf(2), "that has said nothing");
    }

    #[test]
    fn d1_a_crowd_of_strangers_has_a_few_places_a_host() {
        let others = [member(false), stranger(1), stranger(7), stranger(7), stranger(7)];
        assert_eq!(Room::of(stranger(7), &others), Room::Free);
        let others = [&others[..], &[stranger(7)]].concat();
        assert_eq!(Room::of(stranger(7), &others), Room::InPlaceOf(2), "the oldest of its host");
        assert_eq!(Room::of(stranger(8), &others), Room::Free);
    }

    #[test]
    fn d1_connections_from_members_hosts_are_kept_if_they_introduced_themselves() {
        let mut others = [member(true); INCOMING_MAX];
        others[5].is_introduced = false;
        assert_eq!(Room::of(member(false), &others), Room::InPlaceOf(5));
        assert_eq!(Room::of(stranger(1), &others), Room::None, "it came too late");
        assert_eq!(Room::of(member(false), &[member(true); INCOMING_MAX]), Room::InPlaceOf(0));
    }
}
