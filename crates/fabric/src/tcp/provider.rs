//! The provider: one poll loop over the listening socket, the links and the handshakes.

use super::attempt::{Attempt, Look};
use super::handshake::{Fresh, Handshake, Local};
use super::hello::Role;
use super::link::{Link, Memory};
use super::peer::{Peer, State};
use super::status::{DoorCounters, LinkError, LinkStatus};
use super::{RETRY_MAX, socket};
use crate::{Atomicity, Capabilities, Fabric};
use base::{Inbox, Rank, Rng};
use region::robust::Held;
use region::schedule::Loop;
use region::{Owner, Words};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The most events that one poll takes from the kernel. The others are still there at the next
/// poll.
const EVENTS_MAX: usize = 96;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// One-sided memory over TCP: the owner of the memory performs the verbs when they arrive.
pub struct TcpFabric {
    pub(super) local: Local,
    pub(super) memory: Memory,
    /// The peers by rank; the own place stays empty.
    pub(super) peers: Vec<Peer>,
    /// The events that happened outside of a poll, for the next one.
    pub(super) ready: Inbox,
    pub(super) listener: TcpListener,
    /// The time to look at the listener again, while the kernel lacks resources.
    pub(super) listen_again: Option<Instant>,
    /// The handshakes of others with this node, oldest first.
    pub(super) incoming: Vec<Attempt>,
    pub(super) door: DoorCounters,
    pub(super) epoll: OwnedFd,
    timer: OwnedFd,
    /// The time of the next retry or end of a handshake; exact unless `unsettled`.
    deadline: Option<Instant>,
    pub(super) unsettled: bool,
    /// Whether a link was made that the next poll announces (L5).
    pub(super) has_unannounced: bool,
    serials: u32,
    last_epoch: u64,
    rng: Rng,
    events: Vec<epoll::Event>,
    /// The right to this memory, and the locks by which watchers learn of this thread's end.
    pub(super) owned: Option<(Owner, Held)>,
    pub(super) pace: Loop,
}

/// The cause for which the poller's descriptor is readable. The serial distinguishes a closed
/// connection's last events from its successor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Listener,
    Timer,
    Peer(Rank, u32),
    Sentinel(Rank, u32),
    Incoming(u32),
}

impl Source {
    pub(super) fn encode(self) -> epoll::EventData {
        let (kind, rank, serial) = match self {
            Source::Listener => (0, 0, 0),
            Source::Timer => (1, 0, 0),
            Source::Peer(rank, serial) => (2, rank.index() as u64, serial),
            Source::Sentinel(rank, serial) => (3, rank.index() as u64, serial),
            Source::Incoming(serial) => (4, 0, serial),
        };
        epoll::EventData::new_u64(kind << 40 | rank << 32 | u64::from(serial))
    }

    fn decode(data: epoll::EventData) -> Source {
        let data = data.u64();
        let (rank, serial) = ((data >> 32) as usize & 0xff, data as u32);
        match data >> 40 {
            0 => Source::Listener,
            1 => Source::Timer,
            2 => Source::Peer(Rank::at(rank), serial),
            3 => Source::Sentinel(Rank::at(rank), serial),
            4 => Source::Incoming(serial),
            _ => unreachable!("the kernel hands back what `encode` made"),
        }
    }
}

impl TcpFabric {
    /// A provider over `words`, listening on `listener`, with the members at `addresses` (by rank).
    pub(super) fn start(
        local: Local,
        words: Words,
        listener: TcpListener,
        addresses: &[SocketAddr],
    ) -> Result<TcpFabric, Errno> {
        assert_eq!(addresses.len(), local.members, "one address a member");
        assert_eq!(words.n_words(), local.n_words, "the region is the one that was described");
        rustix::io::ioctl_fionbio(&listener, true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        epoll::add(&epoll, &listener, Source::Listener.encode(), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &timer, Source::Timer.encode(), epoll::EventFlags::IN)?;
        let now = Instant::now();
        let peers = Rank::all(local.members)
            .map(|rank| {
                let state = match rank.cmp(&local.me) {
                    std::cmp::Ordering::Less => State::Retrying(now),
                    std::cmp::Ordering::Equal => State::Own,
                    std::cmp::Ordering::Greater => State::Awaited,
                };
                Peer::new(rank, addresses[rank.index()], state)
            })
            .collect();
        let no_event =
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        Ok(TcpFabric {
            memory: Memory::new(words),
            peers,
            ready: Inbox::new(),
            listener,
            listen_again: None,
            incoming: Vec::new(),
            door: DoorCounters::default(),
            epoll,
            timer,
            deadline: None,
            unsettled: true,
            has_unannounced: false,
            serials: 0,
            last_epoch: 0,
            rng: Rng::new(socket::boottime_ns() ^ local.me.index() as u64),
            events: vec![no_event; EVENTS_MAX],
            owned: None,
            pace: Loop::of_this_thread(),
            local,
        })
    }

    /// The state of each link, by rank.
    pub fn links(&self) -> impl Iterator<Item = LinkStatus> {
        self.peers.iter().map(Peer::status)
    }

    /// The counters of the listening socket.
    pub fn door(&self) -> &DoorCounters {
        &self.door
    }

    /// Gives up the link to `rank`; the resulting events are in `inbox`.
    pub(super) fn lose(&mut self, rank: Rank, error: LinkError, inbox: &mut Inbox) {
        let peer = &mut self.peers[rank.index()];
        let next =
            if rank > self.local.me { State::Awaited } else { peer.next_retry(&mut self.rng) };
        peer.break_link(error, next, &self.epoll, inbox);
        self.memory.parcels.forget(rank);
        self.unsettled = true;
    }

    fn on_ready(&mut self, source: Source, flags: epoll::EventFlags, inbox: &mut Inbox) {
        match source {
            Source::Listener => self.on_listener(),
            Source::Timer => {
                // Every poll looks at the deadline; here the timer is only silenced.
                let _ticks = rustix::io::read(&self.timer, &mut [0; 8]);
            }
            Source::Peer(rank, serial) => match &self.peers[rank.index()].state {
                State::Up(link) if link.serial == serial => self.on_link(rank, flags, inbox),
                State::Opening(attempt) if attempt.serial == serial => {
                    self.on_opening(rank, inbox);
                }
                // The event is of a connection that was closed earlier in this poll.
                State::Up(_) | State::Opening(_) => {}
                State::Own | State::Awaited | State::Retrying(_) => {}
            },
            Source::Sentinel(rank, serial) => self.on_sentinel(rank, serial, inbox),
            Source::Incoming(serial) => self.on_incoming(serial, inbox),
        }
    }

    fn on_link(&mut self, rank: Rank, flags: epoll::EventFlags, inbox: &mut Inbox) {
        let peer = &mut self.peers[rank.index()];
        let State::Up(link) = &mut peer.state else { unreachable!("the caller looked") };
        if flags.contains(epoll::EventFlags::OUT) {
            link.waits_for_room = false; // the flush at the end of this poll tries again
            let source = Source::Peer(rank, link.serial);
            self.watch(rank, source, epoll::EventFlags::IN, inbox);
        }
        if flags.intersects(!epoll::EventFlags::OUT) {
            let peer = &mut self.peers[rank.index()];
            if let State::Up(link) = &mut peer.state
                && let Err(error) = link.receive(&mut self.memory, &mut peer.counters, inbox)
            {
                self.lose(rank, error, inbox);
            }
        }
    }

    /// Changes the poller's events for the link to `rank`.
    fn watch(&mut self, rank: Rank, source: Source, flags: epoll::EventFlags, inbox: &mut Inbox) {
        let State::Up(link) = &self.peers[rank.index()].state else { return };
        if let Err(errno) = epoll::modify(&self.epoll, &link.socket, source.encode(), flags) {
            self.lose(rank, LinkError::Os { doing: "watch", errno }, inbox);
        }
    }

    /// Sends the bytes that wait for each peer: one system call per link, none where nothing waits.
    fn flush_links(&mut self, inbox: &mut Inbox) {
        for at in 0..self.peers.len() {
            let peer = &mut self.peers[at];
            let State::Up(link) = &mut peer.state else { continue };
            if link.waits_for_room || link.output.pending() == 0 {
                continue;
            }
            let rank = peer.rank;
            match link.flush(&mut peer.counters) {
                Ok(true) => {}
                Ok(false) => {
                    link.waits_for_room = true;
                    let source = Source::Peer(rank, link.serial);
                    let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT;
                    self.watch(rank, source, flags, inbox);
                }
                Err(error) => self.lose(rank, error, inbox),
            }
        }
    }

    fn open(&mut self, rank: Rank) {
        let (serial, fresh) = (self.next_serial(), self.fresh());
        let peer = &mut self.peers[rank.index()];
        let opened = socket::connect(peer.address).and_then(|socket| {
            let source = Source::Peer(rank, serial).encode();
            epoll::add(&self.epoll, &socket, source, epoll::EventFlags::OUT)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => {
                let handshake = Handshake::initiate(&self.local, Role::Node, rank, fresh);
                peer.state = State::Opening(Attempt::connecting(socket, serial, handshake));
            }
            Err(errno) => {
                peer.last_error = Some(LinkError::Os { doing: "connect", errno });
                peer.state = peer.next_retry(&mut self.rng);
            }
        }
    }

    fn on_opening(&mut self, rank: Rank, inbox: &mut Inbox) {
        let peer = &mut self.peers[rank.index()];
        let State::Opening(attempt) = &mut peer.state else { unreachable!("the caller looked") };
        self.unsettled = true;
        match attempt.look(&self.local) {
            Ok(Look::Continue) => {}
            Ok(Look::Connected) => {
                let source = Source::Peer(rank, attempt.serial).encode();
                let flags = epoll::EventFlags::IN;
                if let Err(errno) = epoll::modify(&self.epoll, &attempt.socket, source, flags) {
                    self.fail(rank, LinkError::Os { doing: "watch", errno });
                }
            }
            Ok(Look::Welcomed(hello)) => match peer.admit(&hello) {
                Ok(()) => {
                    let opening = std::mem::replace(&mut peer.state, State::Awaited);
                    let State::Opening(attempt) = opening else { unreachable!("as above") };
                    let Attempt { socket, serial, .. } = attempt;
                    peer.link_up(Link::new(socket, serial, hello, Vec::new()), inbox);
                    self.has_unannounced = true;
                }
                Err(refusal) => self.fail(rank, LinkError::Refused(refusal)),
            },
            Ok(Look::Proven(_)) => unreachable!("we are the initiator"),
            Err(error) => self.fail(rank, error),
        }
    }

    /// Handles a connection of this node that did not become a link.
    fn fail(&mut self, rank: Rank, error: LinkError) {
        let peer = &mut self.peers[rank.index()];
        if let State::Opening(attempt) = &peer.state {
            socket::forget(&self.epoll, &attempt.socket);
        }
        if matches!(error, LinkError::Refused(_) | LinkError::RefusedByPeer { .. }) {
            // A configuration has to be changed first, so there is no hurry.
            peer.retry_slowly();
        }
        peer.last_error = Some(error);
        peer.state = peer.next_retry(&mut self.rng);
        self.unsettled = true;
    }

    fn on_deadline(&mut self, now: Instant) {
        while let Some(at) = self.incoming.iter().position(|attempt| attempt.deadline <= now) {
            let attempt = self.incoming.remove(at);
            socket::forget(&self.epoll, &attempt.socket);
            self.record_refusal(attempt.claims(), LinkError::HandshakeTimeout);
        }
        for at in 0..self.peers.len() {
            let peer = &self.peers[at];
            match &peer.state {
                State::Retrying(due) if *due <= now => self.open(peer.rank),
                State::Opening(attempt) if attempt.deadline <= now => {
                    self.fail(peer.rank, LinkError::HandshakeTimeout);
                }
                State::Retrying(_) | State::Opening(_) => {}
                State::Own | State::Awaited | State::Up(_) => {}
            }
        }
        if self.listen_again.is_some_and(|due| due <= now) {
            self.listen_again = None;
            self.listen(epoll::EventFlags::IN);
        }
        self.unsettled = true;
    }

    /// The earliest instant at which there is work without an arrival.
    fn next_deadline(&self) -> Option<Instant> {
        let peers = self.peers.iter().filter_map(|peer| match &peer.state {
            State::Retrying(due) => Some(*due),
            State::Opening(attempt) => Some(attempt.deadline),
            State::Own | State::Awaited | State::Up(_) => None,
        });
        let incoming = self.incoming.iter().map(|attempt| attempt.deadline);
        peers.chain(incoming).chain(self.listen_again).min()
    }

    pub(super) fn next_serial(&mut self) -> u32 {
        self.serials = self.serials.wrapping_add(1);
        self.serials
    }

    /// The values for a new connection. Later connections have higher epochs, also those of later
    /// lives: the clock is the host's.
    pub(super) fn fresh(&mut self) -> Fresh {
        self.last_epoch = socket::boottime_ns().max(self.last_epoch + 1);
        Fresh { epoch: self.last_epoch, nonce: socket::nonce() }
    }
}

impl std::fmt::Debug for TcpFabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpFabric")
            .field("me", &self.local.me)
            .field("links", &self.links().collect::<Vec<_>>())
            .field("incoming", &self.incoming.len())
            .field("door", &self.door)
            .finish_non_exhaustive()
    }
}

impl Fabric for TcpFabric {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "tcp",
            memory_outlives_process: false,
            atomicity: Atomicity::WithCpu,
            write_permission: true,
            peer_works: true,
        }
    }

    fn flush(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        self.flush_links(&mut ready);
        self.ready = ready;
    }

    fn poll(&mut self, inbox: &mut Inbox) {
        if !self.ready.is_empty() {
            self.ready.iter().for_each(|event| inbox.push(event));
            self.ready.clear();
        }
        if std::mem::take(&mut self.has_unannounced) {
            self.peers.iter_mut().for_each(|peer| peer.announce(inbox));
        }
        let n_events = match epoll::wait(&self.epoll, &mut self.events[..], Some(&NOW)) {
            Ok(n_events) => n_events,
            Err(Errno::INTR) => 0,
            Err(errno) => panic!("the poller's own descriptor: {errno}"),
        };
        for at in 0..n_events {
            let epoll::Event { flags, data } = self.events[at];
            self.on_ready(Source::decode(data), flags, inbox);
        }
        if self.unsettled {
            self.unsettled = false;
            self.deadline = self.next_deadline();
        }
        if let Some(deadline) = self.deadline {
            let now = Instant::now();
            if deadline <= now {
                self.on_deadline(now);
            }
        }
        if self.pace.is_unsettled() {
            self.pace.settle();
        }
        self.flush_links(inbox);
    }

    fn wait_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Posting wakes a peer, so no peer has to be told. Only retries and deadlines need a clock
    /// while no poll runs.
    fn prepare_sleep(&mut self) {
        if let Some((_, held)) = &mut self.owned
            && !held.is_complete()
        {
            held.retry();
        }
        let Some(deadline) = self.next_deadline() else { return };
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let it_value =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let spec = Itimerspec { it_interval: NOW, it_value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec)
            .expect("a timer takes every span that is not negative");
    }

    fn awake(&mut self) {}

    fn lead(&mut self, leads: bool) {
        self.pace.lead(leads);
    }
}

const _: () = assert!(RETRY_MAX.as_millis() < 10_000, "a peer that is back is met within seconds");
const _: () = assert!(EVENTS_MAX >= 2 * base::FABRIC_SEATS_MAX + 2, "no link waits for two polls");
