//! The provider: one poll loop over the listening socket, the links and the handshakes.

use super::attempt::{Attempt, Look};
use super::handshake::{Fresh, Handshake, Local};
use super::hello::{Hello, Refusal, Role};
use super::link::{Link, Memory};
use super::peer::{Peer, State, Vigil};
use super::status::{DoorCounters, LinkError, LinkStatus};
use super::{INCOMING_MAX, RETRY_MAX, socket};
use crate::{Atomicity, Capabilities, Fabric, OpenError, Setup};
use base::{Inbox, Rank, Rng};
use region::robust::Held;
use region::{Owner, Region, Words};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Events that one poll takes from the kernel. What is left over is there at the next one.
const EVENTS_MAX: usize = 32;

/// How long new connections wait when the kernel has no descriptor or memory for them.
const STARVED_FOR: Duration = Duration::from_millis(100);

/// How long to wait for a watcher that holds a lock for a moment: see [`Held::hold`].
const HOLD_FOR: Duration = Duration::from_millis(10);

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// One-sided memory over TCP: the owner of the memory performs the verbs when they arrive.
pub struct TcpFabric {
    pub(super) local: Local,
    pub(super) memory: Memory,
    /// By rank; the own one is a place that stays empty.
    pub(super) peers: Vec<Peer>,
    /// What happened outside of a poll, for the next one.
    pub(super) ready: Inbox,
    listener: TcpListener,
    /// While the kernel is starved: when to look at the listener again.
    listen_again: Option<Instant>,
    /// Handshakes of others with us, oldest first.
    incoming: Vec<Attempt>,
    door: DoorCounters,
    epoll: OwnedFd,
    timer: OwnedFd,
    /// When the next retry or the end of a handshake is due; exact unless `unsettled`.
    deadline: Option<Instant>,
    unsettled: bool,
    serials: u32,
    last_epoch: u64,
    rng: Rng,
    events: Vec<epoll::Event>,
    /// The right to this memory, and the locks by which watchers learn of this thread's end.
    owned: Option<(Owner, Held)>,
}

/// What made the poller's descriptor readable. The serial tells a closed connection's last events
/// from its successor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Listener,
    Timer,
    Peer(Rank, u32),
    Sentinel(Rank, u32),
    Incoming(u32),
}

impl Source {
    fn encode(self) -> epoll::EventData {
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
    /// Makes this member's region, which must not exist yet, and opens its end of the group.
    ///
    /// Only for an explicit bootstrap or replacement: see [`region::Region::create`]. `listener`
    /// is bound to the address that the peers know; `addresses` are those of all members by rank
    /// (the own one is not used). The calling thread must be the one that polls: it is the end of
    /// this thread that sentinels report.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is left behind.
    pub fn create(
        setup: &Setup,
        listener: TcpListener,
        addresses: &[SocketAddr],
    ) -> Result<TcpFabric, OpenError> {
        check(setup, addresses)?;
        let owner =
            Region::create(&setup.directory, &setup.identity_of(setup.me, 0), setup.incarnation)?;
        let words = owner.words();
        match TcpFabric::start(Local::of(setup, owner.life()), words, listener, addresses) {
            Ok(fabric) => Ok(fabric.owning(owner)),
            Err(errno) => {
                // The first error is the one to report; a file that stays is named by the next try.
                let _stays = owner.remove();
                Err(OpenError::os("prepare to poll the network", errno))
            }
        }
    }

    /// Like [`TcpFabric::create`] with the region that an earlier process of this member left.
    ///
    /// # Errors
    /// [`OpenError`]; the region is unchanged.
    pub fn attach(
        setup: &Setup,
        listener: TcpListener,
        addresses: &[SocketAddr],
    ) -> Result<TcpFabric, OpenError> {
        check(setup, addresses)?;
        let owner = Region::attach(&setup.directory, &setup.identity_of(setup.me, 0))?;
        let words = owner.words();
        TcpFabric::start(Local::of(setup, owner.life()), words, listener, addresses)
            .map(|fabric| fabric.owning(owner))
            .map_err(|errno| OpenError::os("prepare to poll the network", errno))
    }

    /// Stops this member for good: its region is removed, and its sentinel stays silent.
    ///
    /// # Errors
    /// [`OpenError`] if the region's file could not be removed.
    pub fn remove(self) -> Result<(), OpenError> {
        let Some((owner, held)) = self.owned else { return Ok(()) };
        // The sentinel looks for the mark of a removed region when the locks are let go.
        owner.remove()?;
        drop(held);
        Ok(())
    }

    fn owning(mut self, owner: Owner) -> TcpFabric {
        let held = Held::hold(&owner, HOLD_FOR);
        self.owned = Some((owner, held));
        self
    }

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
            serials: 0,
            last_epoch: 0,
            rng: Rng::new(socket::boottime_ns() ^ local.me.index() as u64),
            events: vec![no_event; EVENTS_MAX],
            owned: None,
            local,
        })
    }

    /// What each link is doing, by rank.
    pub fn links(&self) -> impl Iterator<Item = LinkStatus> {
        self.peers.iter().map(Peer::status)
    }

    /// What happened at the listening socket.
    pub fn door(&self) -> &DoorCounters {
        &self.door
    }

    /// Gives the link to `rank` up; what that brings is in `inbox`.
    pub(super) fn lose(&mut self, rank: Rank, error: LinkError, inbox: &mut Inbox) {
        let peer = &mut self.peers[rank.index()];
        let next =
            if rank > self.local.me { State::Awaited } else { peer.next_retry(&mut self.rng) };
        peer.break_link(error, next, &self.epoll, inbox);
        self.unsettled = true;
    }

    fn on_ready(&mut self, source: Source, flags: epoll::EventFlags, inbox: &mut Inbox) {
        match source {
            Source::Listener => self.on_listener(),
            Source::Timer => {
                // The deadline is looked at in every poll; here it only has to be quiet again.
                let _ticks = rustix::io::read(&self.timer, &mut [0; 8]);
            }
            Source::Peer(rank, serial) => match &self.peers[rank.index()].state {
                State::Up(link) if link.serial == serial => self.on_link(rank, flags, inbox),
                State::Opening(attempt) if attempt.serial == serial => {
                    self.on_opening(rank, inbox);
                }
                // An event of a connection that was closed earlier in this poll.
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

    /// Changes what the poller tells about the link to `rank`.
    fn watch(&mut self, rank: Rank, source: Source, flags: epoll::EventFlags, inbox: &mut Inbox) {
        let State::Up(link) = &self.peers[rank.index()].state else { return };
        if let Err(errno) = epoll::modify(&self.epoll, &link.socket, source.encode(), flags) {
            self.lose(rank, LinkError::Os { doing: "watch", errno }, inbox);
        }
    }

    /// Sends what waits for each peer: one system call a link, none where nothing waits.
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

    fn on_listener(&mut self) {
        self.unsettled = true;
        for _ in 0..INCOMING_MAX {
            match socket::accept(&self.listener) {
                Ok(Some(socket)) => self.let_knock(socket),
                Ok(None) => return,
                Err(_starved) => {
                    // Left alone, a listener that nobody can accept from would keep us awake.
                    self.door.starved += 1;
                    self.listen(epoll::EventFlags::empty());
                    self.listen_again = Some(Instant::now() + STARVED_FOR);
                    return;
                }
            }
        }
    }

    fn listen(&mut self, flags: epoll::EventFlags) {
        epoll::modify(&self.epoll, &self.listener, Source::Listener.encode(), flags)
            .expect("the listener was added at the start and is never taken out");
    }

    fn let_knock(&mut self, socket: OwnedFd) {
        self.door.accepted += 1;
        if self.incoming.len() == INCOMING_MAX {
            // Who is slow makes room for who may be fast: an honest handshake takes two round
            // trips, so a crowd of idle connections cannot keep members out.
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

    fn on_incoming(&mut self, serial: u32, inbox: &mut Inbox) {
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

    /// A member, or its sentinel, has proved itself: it takes the place of its predecessor.
    fn on_proven(&mut self, attempt: Attempt, peer: Hello, inbox: &mut Inbox) {
        let rank = peer.from;
        if let Err(refusal) = self.peers[rank.index()].admit(&peer) {
            socket::forget(&self.epoll, &attempt.socket);
            attempt.refuse(refusal);
            self.record_refusal(Some((rank, peer.role)), LinkError::Refused(refusal));
            return;
        }
        let serial = attempt.serial;
        // L1: the old connection is closed, with what is left in it, before the new one is
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
            Role::Node => entry.link_up(Link::new(socket, serial, peer, unsent), inbox),
            Role::Sentinel => {
                // It fits: nothing but CHALLENGE was sent here before. If it does not arrive, the
                // sentinel's deadline passes and it tries again.
                let _unsent = socket::send(&socket, &unsent);
                entry.sentinel = Some(Vigil::new(socket, serial, peer));
            }
        }
    }

    fn on_sentinel(&mut self, rank: Rank, serial: u32, inbox: &mut Inbox) {
        let peer = &mut self.peers[rank.index()];
        let Some(vigil) = peer.sentinel.as_mut().filter(|vigil| vigil.serial == serial) else {
            return;
        };
        match vigil.receive() {
            Ok(None) => {}
            Ok(Some(life)) => {
                peer.mourn(life, inbox);
            }
            Err(_over) => self.dismiss(rank),
        }
    }

    fn dismiss(&mut self, rank: Rank) {
        if let Some(vigil) = self.peers[rank.index()].sentinel.take() {
            socket::forget(&self.epoll, &vigil.socket);
        }
    }

    fn record_refusal(&mut self, claims: Option<(Rank, Role)>, error: LinkError) {
        match &error {
            LinkError::Refused(Refusal::Malformed) => self.door.garbage += 1,
            LinkError::Refused(refusal) => {
                self.door.refused += 1;
                self.door.last_refusal = Some(*refusal);
            }
            LinkError::HandshakeTimeout => self.door.timed_out += 1,
            // It went away, or was told to by its own checks.
            _ => {}
        }
        // Nothing was proved, so it may not touch what a living link reports.
        if let Some((rank, Role::Node)) = claims
            && let Some(peer) = self.peers.get_mut(rank.index())
            && matches!(peer.state, State::Awaited)
        {
            peer.last_error = Some(error);
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
                }
                Err(refusal) => self.fail(rank, LinkError::Refused(refusal)),
            },
            Ok(Look::Proven(_)) => unreachable!("we are the initiator"),
            Err(error) => self.fail(rank, error),
        }
    }

    /// A connection of ours did not become a link.
    fn fail(&mut self, rank: Rank, error: LinkError) {
        let peer = &mut self.peers[rank.index()];
        if let State::Opening(attempt) = &peer.state {
            socket::forget(&self.epoll, &attempt.socket);
        }
        if matches!(error, LinkError::Refused(_) | LinkError::RefusedByPeer { .. }) {
            // Somebody has to change a configuration first: no hurry.
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

    /// The earliest instant at which something is to be done though nothing arrives.
    fn next_deadline(&self) -> Option<Instant> {
        let peers = self.peers.iter().filter_map(|peer| match &peer.state {
            State::Retrying(due) => Some(*due),
            State::Opening(attempt) => Some(attempt.deadline),
            State::Own | State::Awaited | State::Up(_) => None,
        });
        let incoming = self.incoming.iter().map(|attempt| attempt.deadline);
        peers.chain(incoming).chain(self.listen_again).min()
    }

    fn next_serial(&mut self) -> u32 {
        self.serials = self.serials.wrapping_add(1);
        self.serials
    }

    /// Later connections have higher epochs, also those of later lives: the clock is the host's.
    fn fresh(&mut self) -> Fresh {
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

/// What no connection could work with.
pub(super) fn check(setup: &Setup, addresses: &[SocketAddr]) -> Result<(), OpenError> {
    setup.validate()?;
    let (members, given) = (setup.members, addresses.len());
    if given != members {
        let text = format!("{given} peer addresses for {members} members: give one for each");
        return Err(OpenError::Setup(text));
    }
    if setup.secret.is_empty() {
        let text = "an empty cluster secret proves nothing: give every member the same secret";
        return Err(OpenError::Setup(text.to_owned()));
    }
    Ok(())
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
        self.flush_links(inbox);
    }

    fn wait_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Posting wakes a peer, so nobody has to be told. Only retries and deadlines need a clock
    /// while nobody polls.
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
}

const _: () = assert!(RETRY_MAX.as_millis() < 10_000, "a peer that is back is met within seconds");
const _: () = assert!(EVENTS_MAX >= 2 * base::MAX_MEMBERS + 2, "no link waits for two polls");
