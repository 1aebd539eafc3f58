//! The streams between two nodes: one numbered stream of bytes per direction, kept until the other
//! end has processed it, and sent again after a link broke.
//!
//! ```text
//! HELLO   incarnation (8) | life (8) | disk (8) | the other end's life, as far as known (8)
//!         | bytes received of it so far (8)             first on every link, both ways
//! DATA    life (8) | number of the first byte (8) | bytes processed (8) | bytes
//! LEFT    life (8); 0 if none was met                   this life was given up: stop
//! REFUSED why (1) | incarnation (8)                     you do not speak for your node: stop
//! record = length | record's bytes                      the elements of the stream
//! ```
//! - S1 A record is handed up once, whole, and in the order of sending, across broken links: the
//!   machines' T1 and T2. By the numbers of bytes; asserted when a frame is accepted.
//! - S2 Of one incarnation of a peer only one life is ever listened to, unless the next one has its
//!   disk: then both streams start again, and bytes under way are lost. Any other successor has
//!   forgotten the promises of the first life: it must come as another incarnation, or it is told
//!   to stop. By `Peer::life`, `Peer::disk`.
//! - S3 The bytes kept for a peer are bounded, by `kept_bytes` and the longest record: a peer with
//!   more when the next record comes is given up for good, and told so when it is heard again, so
//!   that it stops rather than wait for bytes that no node keeps. With a disk its next life is
//!   accepted, and so is its next incarnation. By `Streams::push`.
//! - S4 A byte is processed when its record was handed up: a node that stops handing up blocks its
//!   senders.
//! - S5 Where the output depends on a disk, nothing leaves before it was released: when the records
//!   on which it depends are synced. By `Streams::release`, and `send`, which goes no further.
//! - S6 Incarnations of a peer rise (the machines' T4). Once a higher one was met, both streams
//!   start again: bytes kept for the previous one, and its bytes that were not handed up, are
//!   dropped. From then on a lower one is refused whatever it sends, told so, and sent nothing
//!   else; an equal one under another life likewise. By `Streams::on_hello`.
//! - S7 Bytes count for the life that they name, on whatever link they come, and only after its
//!   HELLO: a late frame of another life is dropped. By `Streams::on_data`.
//! - S8 Questions, which are repeated as long as there is no answer, do not accumulate for a peer:
//!   what is kept for one that is not heard grows by what happens here, and not with time. By
//!   [`Streams::takes_questions`], which all that write questions ask first.
//! - S9 A peer that was given up is told so on each link, by its life: the next one of its node
//!   does not stop for it. If no life of it was met, the word names none, and concerns a process
//!   that has given the sender up as well; the HELLO of any other one names its life. Of two that
//!   have given each other up one stops: the one of the higher rank, if both are told. By
//!   `on_left`, which counts what was told on this link.
//!
//! Bytes that are written before any process was met under a name wait for the first one that
//! comes.

mod hello;
mod input;
mod left;

pub use hello::Refusal;
pub(crate) use hello::Who;
pub(crate) use input::Input;

use crate::multicast::bugs::Bug;
use base::{Incarnation, Instant, Port, Rank, SeatSet};
use proto::amcast::FOUNDER;
use proto::amcast::wire::{Malformed, number};
use proto::planted::{Planting, Sound};

/// The first byte of every message of this crate.
const CHANNEL: u8 = 0x4d;
const HELLO: u8 = 0;
const DATA: u8 = 1;
const LEFT: u8 = 2;
const REFUSED: u8 = 3;

/// A message's bytes at most; every provider carries four times as much.
const FRAME_BYTES_MAX: usize = 64 << 10;
const DATA_HEADER_BYTES: usize = 26;
/// The number of processed bytes that is reported at once; fewer are reported by the next frame or
/// tick.
const TELL_BYTES: u64 = 64 << 10;

/// The reason why a peer is no longer spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It died, and another process claims to be the same incarnation (S2).
    Replaced,
    /// It lagged too far behind (S3).
    LeftBehind,
    /// It sent bytes that no node sends.
    Garbled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is no link.
    Down,
    /// There is a link; the peer has not sent its HELLO yet.
    Greeting,
    /// Written bytes are sent.
    Open,
    /// The end, for good.
    Ended(End),
}

/// One peer.
#[derive(Debug)]
struct Peer {
    state: State,
    /// The highest incarnation that was met (S6); 0 before the first.
    incarnation: u64,
    /// The reason why the process on this link is refused, until it was told.
    refusal: Option<Refusal>,
    /// The only life that is listened to (S2).
    life: Option<u64>,
    /// The name of its disk; 0 if it has none, or it is not known yet.
    disk: u64,
    /// The number of times that its streams started again.
    n_renewed: u64,
    /// There is a link.
    is_linked: bool,
    /// The HELLO or LEFT of this link has not been sent.
    must_greet: bool,
    /// LEFT was sent on this link.
    was_told: bool,
    /// HELLO came on this link, though it was given up.
    greets: bool,
    /// The fabric reports that it died: it blocks no other.
    is_suspected: bool,
    /// The bytes from byte `acked` on, behind `start`.
    output: Vec<u8>,
    start: usize,
    acked: u64,
    sent: u64,
    /// The number of bytes that may leave (S5).
    released: u64,
    /// The end and the length of the longest of the records that it may not have taken whole.
    longest: (u64, usize),
    input: Input,
    /// The bytes received, in total.
    received: u64,
    /// The number of processed bytes that it was last told.
    told: u64,
}

impl Peer {
    fn new() -> Peer {
        Peer {
            state: State::Down,
            incarnation: 0,
            refusal: None,
            life: None,
            disk: 0,
            n_renewed: 0,
            is_linked: false,
            must_greet: false,
            was_told: false,
            greets: false,
            is_suspected: false,
            output: Vec::new(),
            start: 0,
            acked: 0,
            sent: 0,
            released: 0,
            longest: (0, 0),
            input: Input::default(),
            received: 0,
            told: 0,
        }
    }

    fn written(&self) -> u64 {
        self.acked + self.kept() as u64
    }

    fn kept(&self) -> usize {
        self.output.len() - self.start
    }

    /// The bytes of the longest record that is still kept.
    fn longest(&self) -> usize {
        let (end, bytes) = self.longest;
        if end > self.acked { bytes } else { 0 }
    }

    fn dealt_with(&self) -> u64 {
        self.received - self.input.len() as u64
    }

    fn end(&mut self, why: End) {
        self.state = State::Ended(why);
        self.output = Vec::new();
        self.input = Input::default();
        self.start = 0;
        self.must_greet = why == End::LeftBehind && self.is_linked;
    }

    fn acknowledge(&mut self, upto: u64) -> Result<(), Malformed> {
        // On this link it was sent no more.
        if upto > self.sent {
            return Err(Malformed);
        }
        if upto > self.acked {
            self.start += (upto - self.acked) as usize;
            self.acked = upto;
            if self.start == self.output.len() {
                self.output.clear();
                self.start = 0;
            } else if self.start * 2 > self.output.len() && self.start > FRAME_BYTES_MAX {
                self.output.drain(..self.start);
                self.start = 0;
            }
        }
        Ok(())
    }
}

/// The bound to which each stream may leave (S5): its number of starts, and its bytes.
pub(crate) type Marks = Vec<(u64, u64)>;

/// The streams to and from every node.
#[derive(Debug)]
pub(crate) struct Streams<P = Sound> {
    planted: P,
    me: Rank,
    who: Who,
    /// Whether groups here may seat another incarnation of a member.
    takes_newcomers: bool,
    /// The nodes whose next life has come.
    renewed: SeatSet,
    /// The nodes of which an incarnation was met that is not the founder's.
    met: SeatSet,
    /// The nodes that are not told to stop, though they were given up (N15 of `node::majority`).
    needed: SeatSet,
    /// The time since when this node waits for the word of one that it has given up (N14).
    cut_since: Option<Instant>,
    kept_bytes_max: usize,
    backlog_bytes_max: usize,
    /// By node, itself among them.
    peers: Vec<Peer>,
    frame: Vec<u8>,
    /// The peer that has given this node up (S3).
    left_by: Option<Rank>,
    /// The peer that refuses this process, and why (S2, S6).
    refused_by: Option<(Rank, Refusal)>,
    pub(crate) n_frames: u64,
    pub(crate) n_bytes: u64,
}

impl<P: Planting<Bug>> Streams<P> {
    /// The streams of a process with a life that no other process ever had, in a system of so many
    /// nodes.
    pub(crate) fn new(
        me: Rank,
        n_nodes: usize,
        who: Who,
        (kept_bytes, backlog_bytes): (usize, usize),
        planted: P,
    ) -> Streams<P> {
        Streams {
            planted,
            me,
            who,
            takes_newcomers: false,
            renewed: SeatSet::EMPTY,
            met: SeatSet::EMPTY,
            needed: SeatSet::EMPTY,
            cut_since: None,
            kept_bytes_max: kept_bytes,
            backlog_bytes_max: backlog_bytes,
            peers: (0..n_nodes).map(|_| Peer::new()).collect(),
            frame: Vec::with_capacity(FRAME_BYTES_MAX),
            left_by: None,
            refused_by: None,
            n_frames: 0,
            n_bytes: 0,
        }
    }

    /// Appends one record, given in two parts.
    pub(crate) fn push(&mut self, to: Rank, head: &[u8], body: &[u8]) {
        assert_ne!(to, self.me, "what a node tells itself does not travel");
        let peer = &mut self.peers[to.index()];
        if matches!(peer.state, State::Ended(_)) {
            return;
        }
        // One record, however long, does not mean that the peer lags (S3).
        let longest = if self.planted.has(Bug::GivenUpForOne) { 0 } else { peer.longest() };
        if peer.kept().saturating_sub(longest) > self.kept_bytes_max {
            return peer.end(End::LeftBehind);
        }
        let before = peer.kept();
        number((head.len() + body.len()) as u64, &mut peer.output);
        peer.output.extend_from_slice(head);
        peer.output.extend_from_slice(body);
        let bytes = peer.kept() - before;
        if bytes > peer.longest() {
            peer.longest = (peer.written(), bytes);
        }
    }

    /// Whether so much is kept for `node` that no long answer should be sent to it.
    pub(crate) fn has_backlog(&self, node: Rank) -> bool {
        self.peers[node.index()].kept() > self.backlog_bytes_max
    }

    /// Whether a question may be written for `node` (S8). While there is no link a few are, so that
    /// the first answers do not wait for the repetitions.
    pub(crate) fn takes_questions(&self, node: Rank) -> bool {
        let peer = &self.peers[node.index()];
        let is_heard = peer.state == State::Open;
        let most = if is_heard { self.backlog_bytes_max } else { self.kept_bytes_max / 64 };
        peer.kept() <= most || self.planted.has(Bug::QuestionsAccumulate)
    }

    /// Whether `node` lives and lags: then no more should be multicast to its groups.
    pub(crate) fn is_behind(&self, node: Rank) -> bool {
        let peer = &self.peers[node.index()];
        peer.state == State::Open && !peer.is_suspected && peer.kept() > self.backlog_bytes_max
    }

    /// The reason why `node` is not spoken to, if it is not.
    pub(crate) fn ended(&self, node: Rank) -> Option<End> {
        match self.peers[node.index()].state {
            State::Ended(why) => Some(why),
            State::Down | State::Greeting | State::Open => None,
        }
    }

    /// The nodes that can be spoken to, and are not suspected.
    pub(crate) fn linked(&self) -> SeatSet {
        let is_linked = |peer: &Peer| peer.state == State::Open && !peer.is_suspected;
        let peers = self.peers.iter().enumerate().filter(|(_, peer)| is_linked(peer));
        peers.map(|(at, _)| Rank::at(at)).collect()
    }

    /// The incarnation of `node`, as far as known: the founder, or one that was met.
    pub(crate) fn incarnation(&self, node: Rank) -> Incarnation {
        let known = if node == self.me {
            self.who.incarnation
        } else {
            Incarnation(self.peers[node.index()].incarnation)
        };
        known.max(FOUNDER)
    }

    /// The life of `node` that is listened to (S7); `None` before its first HELLO.
    pub(crate) fn life(&self, node: Rank) -> Option<u64> {
        self.peers[node.index()].life
    }

    /// The peer that refuses this process, and why (S2, S6).
    pub(crate) const fn refused_by(&self) -> Option<(Rank, Refusal)> {
        self.refused_by
    }

    /// The peer that has given this node up (S3).
    pub(crate) const fn left_by(&self) -> Option<Rank> {
        self.left_by
    }

    pub(crate) fn on_link_up(&mut self, node: Rank) {
        let peer = &mut self.peers[node.index()];
        peer.is_suspected = false;
        peer.refusal = None;
        (peer.is_linked, peer.was_told, peer.greets) = (true, false, false);
        match peer.state {
            // It may have given this one up as well, and send no HELLO (S9).
            State::Ended(End::LeftBehind) => peer.must_greet = true,
            // It may be its next life or incarnation: its HELLO tells.
            State::Ended(_) => {}
            State::Down | State::Greeting | State::Open => {
                peer.state = State::Greeting;
                peer.must_greet = true;
            }
        }
    }

    pub(crate) fn on_link_down(&mut self, node: Rank) {
        let peer = &mut self.peers[node.index()];
        if !matches!(peer.state, State::Ended(_)) {
            peer.state = State::Down;
        }
        (peer.is_linked, peer.must_greet) = (false, false);
        (peer.was_told, peer.greets) = (false, false);
        peer.refusal = None;
    }

    /// Notes that the fabric believes that the node's process has died: a hint (T8).
    pub(crate) fn on_failed(&mut self, node: Rank) {
        self.peers[node.index()].is_suspected = true;
    }

    /// Accepts a message of the fabric. True if it may have brought a record.
    pub(crate) fn receive(&mut self, from: Rank, message: &[u8]) -> bool {
        if from == self.me {
            return false;
        }
        self.peers[from.index()].is_suspected = false;
        let taken = match message {
            [CHANNEL, HELLO, fields @ ..] => self.on_hello(from, fields).map(|()| false),
            [CHANNEL, DATA, fields @ ..] => self.on_data(from, fields).map(|()| true),
            [CHANNEL, LEFT, fields @ ..] => self.on_left(from, fields).map(|()| false),
            [CHANNEL, REFUSED, why, fields @ ..] => {
                self.on_refused(from, *why, fields).map(|()| false)
            }
            _ => Err(Malformed),
        };
        taken.unwrap_or_else(|Malformed| {
            self.give_up(from);
            false
        })
    }

    /// Gives `from` up, which sent bytes that no node sends.
    pub(crate) fn give_up(&mut self, from: Rank) {
        self.peers[from.index()].end(End::Garbled);
    }

    fn on_data(&mut self, from: Rank, fields: &[u8]) -> Result<(), Malformed> {
        let (header, bytes) = fields.split_at_checked(DATA_HEADER_BYTES - 2).ok_or(Malformed)?;
        let [life, first, dealt_with] = words(header)?;
        let peer = &mut self.peers[from.index()];
        // A frame of another life is dropped (S7).
        if peer.state != State::Open || peer.life != Some(life) {
            return Ok(());
        }
        peer.acknowledge(dealt_with)?;
        // S1: a link loses nothing in its middle (T7), and HELLO named the first byte.
        if first != peer.received {
            return Err(Malformed);
        }
        peer.input.push(bytes);
        peer.received += bytes.len() as u64;
        Ok(())
    }

    /// The input from `node`, to be read and put back.
    pub(crate) fn take_input(&mut self, node: Rank) -> Input {
        std::mem::take(&mut self.peers[node.index()].input)
    }

    pub(crate) fn put_input(&mut self, node: Rank, input: Input) {
        let peer = &mut self.peers[node.index()];
        if !matches!(peer.state, State::Ended(_)) {
            peer.input = input;
        }
    }

    /// Whether a peer has not been told yet that its bytes were processed.
    pub(crate) fn has_untold(&self) -> bool {
        self.peers.iter().any(|peer| peer.state == State::Open && peer.told < peer.dealt_with())
    }

    /// Whether bytes wait for room in the fabric.
    pub(crate) fn is_pending(&self) -> bool {
        self.peers.iter().enumerate().any(|(at, peer)| {
            let has_more = peer.state == State::Open && peer.sent < self.end(peer);
            self.may_greet(Rank::at(at)) || peer.refusal.is_some() || has_more
        })
    }

    /// The number of bytes that the stream may send now.
    fn end(&self, peer: &Peer) -> u64 {
        let is_free = self.who.disk == 0 || self.planted.has(Bug::SentBeforeSync);
        if is_free { peer.written() } else { peer.released }
    }

    /// The ends of all streams.
    pub(crate) fn marks(&self) -> Marks {
        self.peers.iter().map(|peer| (peer.n_renewed, peer.written())).collect()
    }

    /// Lets bytes up to `marks` leave (S5).
    pub(crate) fn release(&mut self, marks: &[(u64, u64)]) {
        for (peer, (n_renewed, upto)) in self.peers.iter_mut().zip(marks) {
            if peer.n_renewed == *n_renewed {
                peer.released = peer.released.max(*upto);
            }
        }
    }

    /// Whether written bytes may not leave yet.
    pub(crate) fn holds(&self) -> bool {
        self.who.disk != 0 && self.peers.iter().any(|peer| peer.released < peer.written())
    }

    /// The names of the disks of all nodes, as far as known.
    pub(crate) fn disks(&self) -> impl ExactSizeIterator<Item = u64> {
        self.peers.iter().map(|peer| peer.disk)
    }

    /// Sets the names of disks that an earlier life of this node knew.
    pub(crate) fn know_disks(&mut self, disks: &[u64]) {
        self.peers.iter_mut().zip(disks).for_each(|(peer, disk)| peer.disk = *disk);
    }

    /// The nodes whose next life has come since the last call: bytes under way to them are lost.
    pub(crate) fn take_renewed(&mut self) -> SeatSet {
        std::mem::take(&mut self.renewed)
    }

    /// The nodes of which an incarnation was met since the last call that is not the founder's.
    pub(crate) fn take_met(&mut self) -> SeatSet {
        std::mem::take(&mut self.met)
    }

    /// Whether [`Streams::take_met`] would name `node`.
    pub(crate) fn is_to_be_met(&self, node: Rank) -> bool {
        self.met.contains(node)
    }

    /// Sends what the fabric accepts: all bytes written to a peer since the last time leave
    /// together. `tells` also reports processed bytes where nothing else is sent.
    pub(crate) fn send(&mut self, port: &mut impl Port, tells: bool) {
        for to in Rank::all(self.peers.len()) {
            let may_greet = self.may_greet(to);
            let peer = &mut self.peers[to.index()];
            if may_greet {
                self.frame.clear();
                let is_left = matches!(peer.state, State::Ended(_));
                if is_left {
                    self.frame.extend_from_slice(&[CHANNEL, LEFT]);
                    self.frame.extend_from_slice(&peer.life.unwrap_or(0).to_le_bytes());
                } else {
                    self.frame.extend_from_slice(&[CHANNEL, HELLO]);
                    let Who { incarnation, life, disk } = self.who;
                    let theirs = [peer.life.unwrap_or(0), peer.received];
                    for word in [incarnation.0, life, disk].into_iter().chain(theirs) {
                        self.frame.extend_from_slice(&word.to_le_bytes());
                    }
                }
                peer.must_greet = !port.send(to, &self.frame);
                peer.was_told = is_left && !peer.must_greet;
            }
            if let Some(refusal) = peer.refusal.filter(|_| !peer.must_greet) {
                self.frame.clear();
                self.frame.extend_from_slice(&[CHANNEL, REFUSED, refusal.code()]);
                self.frame.extend_from_slice(&peer.incarnation.to_le_bytes());
                peer.refusal = Some(refusal).filter(|_| !port.send(to, &self.frame));
            }
            if peer.state != State::Open || peer.must_greet {
                continue;
            }
            let untold = peer.dealt_with() - peer.told;
            let mut must_tell = untold >= TELL_BYTES || tells && untold > 0;
            // Only released bytes leave (S5).
            let is_free = self.who.disk == 0 || self.planted.has(Bug::SentBeforeSync);
            let end = if is_free { peer.written() } else { peer.released };
            assert!(peer.sent <= end, "S5: {} of {end} bytes have left for {to}", peer.sent);
            while peer.sent < end || must_tell {
                let from = peer.start + (peer.sent - peer.acked) as usize;
                let rest = &peer.output[from..][..(end - peer.sent) as usize];
                let piece = &rest[..rest.len().min(FRAME_BYTES_MAX - DATA_HEADER_BYTES)];
                let dealt_with = peer.received - peer.input.len() as u64;
                self.frame.clear();
                self.frame.extend_from_slice(&[CHANNEL, DATA]);
                self.frame.extend_from_slice(&self.who.life.to_le_bytes());
                self.frame.extend_from_slice(&peer.sent.to_le_bytes());
                self.frame.extend_from_slice(&dealt_with.to_le_bytes());
                self.frame.extend_from_slice(piece);
                if !port.send(to, &self.frame) {
                    break;
                }
                self.n_frames += 1;
                self.n_bytes += self.frame.len() as u64;
                peer.sent += piece.len() as u64;
                peer.told = dealt_with;
                must_tell = false;
            }
        }
    }
}

fn words<const N: usize>(bytes: &[u8]) -> Result<[u64; N], Malformed> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: [[u8; 8]; N] = words.try_into().map_err(|_| Malformed)?;
    if rest.is_empty() { Ok(words.map(u64::from_le_bytes)) } else { Err(Malformed) }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
