//! The state of another member at this node: its link, its sentinel, its lives, and its next retry.

use super::attempt::Attempt;
use super::hello::Hello;
use super::input::Input;
use super::link::Link;
use super::status::{LinkCounters, LinkError, LinkState, LinkStatus};
use super::wire::{self, Frame};
use super::{RETRY_MAX, RETRY_MIN, STEADY_AFTER, hello, socket};
use base::{Event, Inbox, Incarnation, Rank, Rng};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A member, as this node sees it.
pub(super) struct Peer {
    pub(super) rank: Rank,
    pub(super) address: SocketAddr,
    pub(super) state: State,
    pub(super) sentinel: Option<Vigil>,
    pub(super) counters: LinkCounters,
    pub(super) last_error: Option<LinkError>,
    /// The latest life that had a link here.
    pub(super) newest: Option<Life>,
    /// The latest life that had a link here before the last start of its host, if that was seen.
    before: Option<Life>,
    /// The latest life whose death was reported, since that start.
    mourned: Option<Life>,
    retry_after: Duration,
}

/// A life of a node's process. Later ones are greater, as long as its host is not started again:
/// then the clock by which lives are numbered begins again, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Life {
    incarnation: Incarnation,
    life: u64,
}

impl Life {
    pub(super) fn of(peer: &Hello) -> Life {
        Life { incarnation: peer.incarnation, life: peer.life }
    }
}

/// The state of the link to a peer.
pub(super) enum State {
    /// The peer is this node.
    Own,
    /// The peer is to connect.
    Awaited,
    /// This node connects again at this time.
    Retrying(Instant),
    /// This node is connecting.
    Opening(Attempt),
    /// The link is up.
    Up(Link),
}

impl Peer {
    pub(super) fn new(rank: Rank, address: SocketAddr, state: State) -> Peer {
        Peer {
            rank,
            address,
            state,
            sentinel: None,
            counters: LinkCounters::default(),
            last_error: None,
            newest: None,
            before: None,
            mourned: None,
            retry_after: RETRY_MIN,
        }
    }

    /// Whether `peer`, which has proved itself, may connect. All may except those that were
    /// replaced: a higher incarnation was here, or a later connection of the same node is up.
    pub(super) fn admit(&self, peer: &Hello) -> Result<(), hello::Refusal> {
        let node = self.rank.member();
        if let Some(newest) = self.newest
            && newest.incarnation > peer.incarnation
        {
            let (theirs, known) = (peer.incarnation.0, newest.incarnation.0);
            return Err(hello::Refusal::Replaced { node, theirs, known });
        }
        let overtaken = |up: &Hello| (up.incarnation, up.epoch) > (peer.incarnation, peer.epoch);
        match (&self.state, &self.sentinel) {
            (State::Up(link), _) if peer.role == hello::Role::Node && overtaken(&link.peer) => {
                Err(hello::Refusal::Overtaken(node))
            }
            (_, Some(vigil)) if peer.role == hello::Role::Sentinel && overtaken(&vigil.peer) => {
                Err(hello::Refusal::Overtaken(node))
            }
            _ => Ok(()),
        }
    }

    /// Sets the link. Its predecessor has been closed before (L1).
    pub(super) fn link_up(&mut self, link: Link, inbox: &mut Inbox) {
        assert!(!matches!(self.state, State::Own | State::Up(_)), "L1: one link to a peer");
        self.meet(Life::of(&link.peer));
        self.last_error = None;
        self.counters.ups += 1;
        self.state = State::Up(link);
        // L5: otherwise the next poll does it.
        if inbox.iter().all(|event| event != Event::LinkDown(self.rank)) {
            self.announce(inbox);
        }
    }

    /// Notes the life that has a link now. One with a lower number, of the same incarnation, comes
    /// after a start of its host.
    fn meet(&mut self, life: Life) {
        let is_behind = |newest: Life| newest.incarnation == life.incarnation && newest > life;
        if self.newest.is_some_and(is_behind) {
            self.before = self.before.max(self.newest);
            (self.newest, self.mourned) = (Some(life), None);
        } else {
            self.newest = self.newest.max(Some(life));
        }
    }

    /// Reports a link that is up and was not reported yet.
    pub(super) fn announce(&mut self, inbox: &mut Inbox) {
        if let State::Up(link) = &mut self.state
            && !link.announced
        {
            link.announced = true;
            let is_cut = inbox.iter().all(|event| event != Event::LinkDown(self.rank));
            assert!(is_cut, "T10: LinkDown and LinkUp of {} come with one poll", self.rank);
            inbox.push(Event::LinkUp(self.rank));
        }
    }

    /// Breaks the link, if there is one: all waiting verbs complete as unknown, then the link is
    /// reported down, and only the socket's close can still send anything to the peer.
    pub(super) fn break_link(
        &mut self,
        error: LinkError,
        next: State,
        epoll: &OwnedFd,
        inbox: &mut Inbox,
    ) {
        let State::Up(link) = &mut self.state else {
            return;
        };
        link.give_up(inbox);
        if link.announced {
            inbox.push(Event::LinkDown(self.rank));
        }
        socket::abandon(&link.socket);
        socket::forget(epoll, &link.socket);
        if link.since.elapsed() >= STEADY_AFTER {
            self.retry_after = RETRY_MIN;
        }
        self.counters.downs += 1;
        self.last_error = Some(error);
        self.state = next;
    }

    /// The time of the next attempt to connect: later each time, and not at the same moment as
    /// others.
    pub(super) fn next_retry(&mut self, rng: &mut Rng) -> State {
        let span = self.retry_after.as_micros() as u64;
        let jitter = Duration::from_micros(rng.below(span / 2 + 1));
        self.retry_after = (2 * self.retry_after).min(RETRY_MAX);
        State::Retrying(Instant::now() + Duration::from_micros(span) + jitter)
    }

    /// Delays the next attempt to connect as long as possible.
    pub(super) fn retry_slowly(&mut self) {
        self.retry_after = RETRY_MAX;
    }

    /// Handles its sentinel's report that this life is over. True if that was news.
    ///
    /// A sentinel that is late, or wrong about a life that was followed by another, does no harm: a
    /// death is reported once, and never after a later life was here. Among the numbers that lives
    /// had before a start of the host, only that of the life with the link is believed.
    pub(super) fn mourn(&mut self, life: Life, inbox: &mut Inbox) -> bool {
        let life = Some(life);
        let is_of_before = life <= self.before && life != self.newest;
        let news = life > self.mourned && life >= self.newest && !is_of_before;
        if news {
            self.mourned = life;
            inbox.push(Event::ProcessFailed(self.rank));
        }
        news
    }

    pub(super) fn status(&self) -> LinkStatus {
        let state = match &self.state {
            State::Own => LinkState::Own,
            State::Awaited => LinkState::Awaited,
            State::Retrying(_) => LinkState::Retrying,
            State::Opening(_) => LinkState::Opening,
            State::Up(_) => LinkState::Up,
        };
        LinkStatus {
            rank: self.rank,
            address: self.address,
            state,
            incarnation: self.newest.map(|life| life.incarnation),
            sentinel: self.sentinel.is_some(),
            last_error: self.last_error.clone(),
            counters: self.counters,
        }
    }
}

/// The connection of a peer's sentinel. It brings one frame in its life.
pub(super) struct Vigil {
    pub(super) socket: OwnedFd,
    pub(super) serial: u32,
    pub(super) peer: Hello,
    input: Input,
}

/// The bytes for the one frame that a sentinel sends.
const VIGIL_BYTES: usize = 64;

impl Vigil {
    pub(super) fn new(socket: OwnedFd, serial: u32, peer: Hello) -> Vigil {
        Vigil { socket, serial, peer, input: Input::new(VIGIL_BYTES) }
    }

    /// The latest death that it reports, if there is one.
    ///
    /// # Errors
    /// The connection is over, or its bytes are not a sentinel's.
    pub(super) fn receive(&mut self) -> Result<Option<Life>, LinkError> {
        let mut unused = LinkCounters::default();
        if !self.input.fill(&self.socket, &mut unused)? {
            return Ok(None);
        }
        let mut latest = None;
        loop {
            match wire::decode(self.input.arrived(), 0)? {
                None if self.input.arrived().len() < VIGIL_BYTES => return Ok(latest),
                Some((Frame::ProcessFailed { incarnation, life }, length)) => {
                    latest = latest.max(Some(Life { incarnation, life }));
                    self.input.consume(length);
                }
                None | Some(_) => return Err(LinkError::Unexpected("what no sentinel sends")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(incarnation: u64, life: u64) -> Life {
        Life { incarnation: Incarnation(incarnation), life }
    }

    #[test]
    fn a_death_is_news_once_and_only_until_a_later_life_is_here() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut peer = Peer::new(Rank::at(1), address, State::Awaited);
        let mut inbox = Inbox::new();
        assert!(peer.mourn(life(1, 3), &mut inbox), "never met, but told by who has proved itself");
        assert!(!peer.mourn(life(1, 3), &mut inbox), "told twice");
        assert!(!peer.mourn(life(1, 2), &mut inbox), "told late");
        peer.newest = Some(life(1, 4));
        assert!(peer.mourn(life(1, 4), &mut inbox));
        peer.newest = Some(life(1, 6));
        assert!(!peer.mourn(life(1, 5), &mut inbox), "its successor is here");
        peer.newest = Some(life(2, 1));
        assert!(!peer.mourn(life(1, 6), &mut inbox), "a later incarnation is here");
        assert!(peer.mourn(life(2, 1), &mut inbox));
        let failed = Event::ProcessFailed(Rank::at(1));
        assert!(inbox.iter().eq([failed; 3]));
    }

    #[test]
    fn a_life_after_a_start_of_its_host_is_mourned_and_one_before_it_no_longer() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut peer = Peer::new(Rank::at(1), address, State::Awaited);
        let mut inbox = Inbox::new();
        peer.meet(life(1, 90));
        assert!(peer.mourn(life(1, 90), &mut inbox));
        peer.meet(life(1, 100));
        // Its host is started again: the numbers begin again.
        peer.meet(life(1, 5));
        for late in [90, 95, 100] {
            assert!(!peer.mourn(life(1, late), &mut inbox), "{late} was before the start");
        }
        assert!(peer.mourn(life(1, 5), &mut inbox));
        assert!(!peer.mourn(life(1, 5), &mut inbox), "told twice");
        peer.meet(life(1, 95));
        assert!(!peer.mourn(life(1, 5), &mut inbox), "its successor is here");
        assert!(peer.mourn(life(1, 95), &mut inbox), "as high as one before the start");
        peer.meet(life(1, 120));
        assert!(peer.mourn(life(1, 120), &mut inbox));
        let failed = Event::ProcessFailed(Rank::at(1));
        assert!(inbox.iter().eq([failed; 4]));
    }

    #[test]
    fn retries_slow_down_and_are_bounded() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut peer = Peer::new(Rank::at(0), address, State::Awaited);
        let mut rng = Rng::new(1);
        let mut spans = Vec::new();
        for _ in 0..20 {
            spans.push(peer.retry_after);
            let State::Retrying(due) = peer.next_retry(&mut rng) else { unreachable!() };
            assert!(due <= Instant::now() + RETRY_MAX + RETRY_MAX / 2);
        }
        assert!(spans.is_sorted() && spans[0] == RETRY_MIN && spans[19] == RETRY_MAX);
    }
}
