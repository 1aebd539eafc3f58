//! What two nodes say to each other: one numbered stream of bytes a direction, kept until the other
//! end has dealt with it, and said again after a link broke.
//!
//! ```text
//! HELLO  life (8) | bytes received so far (8)          first on every link, both ways
//! DATA   number of the first byte (8) | bytes dealt with (8) | bytes
//! LEFT                                                 you were given up: stop
//! record = length | record's bytes                     what the stream is made of
//! ```
//! - S1 A record is handed up once, whole, and in the order of sending, across broken links: the
//!   machines' T1 and T2. By the numbers of bytes; asserted when a frame is taken in.
//! - S2 Only one life of a peer is ever listened to. A successor has forgotten what the first life
//!   promised: it must come in under another name. By `Peer::life`.
//! - S3 What is kept for a peer is bounded: whoever lags further is given up for good, and told so
//!   when it is heard again, so that it stops rather than wait for what nobody has any more.
//! - S4 A byte is dealt with when its record was handed up: a node that stops handing up holds up
//!   its senders.

use base::{MAX_MEMBERS, MemberSet, Port, Rank};
use proto::amcast::wire::{Malformed, Reader, number};
use std::ops::Range;

/// The first byte of every message of this crate.
const CHANNEL: u8 = 0x4d;
const HELLO: u8 = 0;
const DATA: u8 = 1;
const LEFT: u8 = 2;

/// A message's bytes at most; every provider carries four times as much.
const FRAME_BYTES_MAX: usize = 64 << 10;
const DATA_HEADER_BYTES: usize = 18;
/// Dealing with so many bytes is worth a word at once; with less, the next frame or tick says it.
const TELL_BYTES: u64 = 64 << 10;
/// The longest record: an epoch's whole log may be one.
const RECORD_BYTES_MAX: u64 = 256 << 20;

/// Why a peer is not spoken to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It died, and another process sits in its place (S2).
    Replaced,
    /// It lagged too far behind (S3).
    LeftBehind,
    /// It said what no node says.
    Garbled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No link.
    Down,
    /// A link; the peer has not said yet who it is.
    Greeting,
    /// What is written is sent.
    Open,
    /// For good.
    Ended(End),
}

/// One peer.
#[derive(Debug)]
struct Peer {
    state: State,
    /// S2.
    life: Option<u64>,
    /// The HELLO or LEFT of this link has not been sent.
    must_greet: bool,
    /// The fabric says that it died: it holds nobody up.
    is_suspected: bool,
    /// From byte `acked` on, behind `start`.
    output: Vec<u8>,
    start: usize,
    acked: u64,
    sent: u64,
    input: Input,
    /// Bytes received, ever.
    received: u64,
    /// What it was last told about bytes dealt with.
    told: u64,
}

/// Bytes received and not dealt with.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
}

impl Input {
    fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// The next whole record: from now on it counts as dealt with (S4).
    pub(crate) fn next(&mut self) -> Result<Option<Range<usize>>, Malformed> {
        let rest = &self.bytes[self.start..];
        let mut reader = Reader::new(rest);
        let Ok(n) = reader.number() else {
            // Ten bytes hold any number: with fewer, the rest of it is on its way.
            return if rest.len() < 10 { Ok(None) } else { Err(Malformed) };
        };
        if n > RECORD_BYTES_MAX {
            return Err(Malformed);
        }
        let header = varint_bytes(n);
        let end = header + n as usize;
        if rest.len() < end {
            return Ok(None);
        }
        let record = self.start + header..self.start + end;
        self.start += end;
        Ok(Some(record))
    }

    pub(crate) fn bytes(&self, record: Range<usize>) -> &[u8] {
        &self.bytes[record]
    }

    fn tidy(&mut self) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start * 2 > self.bytes.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

const fn varint_bytes(value: u64) -> usize {
    let bits = (u64::BITS - value.leading_zeros()) as usize;
    if bits == 0 { 1 } else { bits.div_ceil(7) }
}

impl Peer {
    fn new() -> Peer {
        Peer {
            state: State::Down,
            life: None,
            must_greet: false,
            is_suspected: false,
            output: Vec::new(),
            start: 0,
            acked: 0,
            sent: 0,
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

    fn dealt_with(&self) -> u64 {
        self.received - self.input.len() as u64
    }

    fn end(&mut self, why: End) {
        self.state = State::Ended(why);
        self.output = Vec::new();
        self.input = Input::default();
        self.start = 0;
        self.must_greet = why == End::LeftBehind;
    }

    fn acknowledge(&mut self, upto: u64) -> Result<(), Malformed> {
        if upto > self.written() {
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

/// The streams to and from every node.
#[derive(Debug)]
pub(crate) struct Streams {
    me: Rank,
    life: u64,
    kept_bytes_max: usize,
    backlog_bytes_max: usize,
    peers: [Peer; MAX_MEMBERS],
    frame: Vec<u8>,
    /// Somebody has given this node up (S3).
    left_by: Option<Rank>,
    pub(crate) n_frames: u64,
    pub(crate) n_bytes: u64,
}

impl Streams {
    /// For a process whose life is named `life`, which no other ever had.
    pub(crate) fn new(me: Rank, life: u64, kept_bytes: usize, backlog_bytes: usize) -> Streams {
        Streams {
            me,
            life,
            kept_bytes_max: kept_bytes,
            backlog_bytes_max: backlog_bytes,
            peers: std::array::from_fn(|_| Peer::new()),
            frame: Vec::with_capacity(FRAME_BYTES_MAX),
            left_by: None,
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
        number((head.len() + body.len()) as u64, &mut peer.output);
        peer.output.extend_from_slice(head);
        peer.output.extend_from_slice(body);
        if peer.kept() > self.kept_bytes_max {
            peer.end(End::LeftBehind); // S3
        }
    }

    /// Whether `node` lives and lags: then no more should be multicast to its groups.
    pub(crate) fn is_behind(&self, node: Rank) -> bool {
        let peer = &self.peers[node.index()];
        peer.state == State::Open && !peer.is_suspected && peer.kept() > self.backlog_bytes_max
    }

    /// Why `node` is not spoken to, if it is not.
    pub(crate) fn ended(&self, node: Rank) -> Option<End> {
        match self.peers[node.index()].state {
            State::Ended(why) => Some(why),
            State::Down | State::Greeting | State::Open => None,
        }
    }

    /// Who can be spoken to, and is not believed dead.
    pub(crate) fn linked(&self) -> MemberSet {
        let is_linked = |peer: &Peer| peer.state == State::Open && !peer.is_suspected;
        let peers = self.peers.iter().enumerate().filter(|(_, peer)| is_linked(peer));
        peers.map(|(at, _)| Rank::at(at)).collect()
    }

    /// Who has given this node up (S3).
    pub(crate) const fn left_by(&self) -> Option<Rank> {
        self.left_by
    }

    pub(crate) fn on_link_up(&mut self, node: Rank) {
        let peer = &mut self.peers[node.index()];
        peer.is_suspected = false;
        match peer.state {
            State::Ended(End::LeftBehind) => peer.must_greet = true,
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
        peer.must_greet = false;
    }

    /// The fabric believes that its process has died: a hint (T8).
    pub(crate) fn on_failed(&mut self, node: Rank) {
        self.peers[node.index()].is_suspected = true;
    }

    /// Takes in a message of the fabric. True if it may have brought a record.
    pub(crate) fn receive(&mut self, from: Rank, message: &[u8]) -> bool {
        if from == self.me {
            return false;
        }
        self.peers[from.index()].is_suspected = false;
        let taken = match message {
            [CHANNEL, HELLO, fields @ ..] => self.on_hello(from, fields).map(|()| false),
            [CHANNEL, DATA, fields @ ..] => self.on_data(from, fields).map(|()| true),
            [CHANNEL, LEFT] => {
                self.left_by = Some(from);
                Ok(false)
            }
            _ => Err(Malformed),
        };
        taken.unwrap_or_else(|Malformed| {
            self.give_up(from);
            false
        })
    }

    /// `from` says what no node says.
    pub(crate) fn give_up(&mut self, from: Rank) {
        self.peers[from.index()].end(End::Garbled);
    }

    fn on_hello(&mut self, from: Rank, fields: &[u8]) -> Result<(), Malformed> {
        let [life, received] = words(fields)?;
        let peer = &mut self.peers[from.index()];
        if matches!(peer.state, State::Ended(_)) {
            return Ok(());
        }
        if *peer.life.get_or_insert(life) != life {
            peer.end(End::Replaced); // S2
            return Ok(());
        }
        if received < peer.acked || received > peer.written() {
            return Err(Malformed);
        }
        peer.sent = received;
        // What was told may have been lost with the old link.
        peer.told = 0;
        peer.state = State::Open;
        Ok(())
    }

    fn on_data(&mut self, from: Rank, fields: &[u8]) -> Result<(), Malformed> {
        let (header, bytes) = fields.split_at_checked(16).ok_or(Malformed)?;
        let [first, dealt_with] = words(header)?;
        let peer = &mut self.peers[from.index()];
        if peer.state != State::Open {
            return Ok(());
        }
        peer.acknowledge(dealt_with)?;
        // S1: a link loses nothing in its middle (T7), and HELLO said where to begin.
        if first != peer.received {
            return Err(Malformed);
        }
        peer.input.tidy();
        peer.input.bytes.extend_from_slice(bytes);
        peer.received += bytes.len() as u64;
        Ok(())
    }

    /// What came from `node`, to be looked through and put back.
    pub(crate) fn take_input(&mut self, node: Rank) -> Input {
        std::mem::take(&mut self.peers[node.index()].input)
    }

    pub(crate) fn put_input(&mut self, node: Rank, input: Input) {
        let peer = &mut self.peers[node.index()];
        if !matches!(peer.state, State::Ended(_)) {
            peer.input = input;
        }
    }

    /// Whether somebody does not know yet that what it said was dealt with.
    pub(crate) fn has_untold(&self) -> bool {
        self.peers.iter().any(|peer| peer.state == State::Open && peer.told < peer.dealt_with())
    }

    /// Whether something waits for room in the fabric.
    pub(crate) fn is_pending(&self) -> bool {
        self.peers
            .iter()
            .any(|peer| peer.must_greet || peer.state == State::Open && peer.sent < peer.written())
    }

    /// Sends what the fabric takes: all that was written to a peer since the last time goes out
    /// together. `tells` also says what was dealt with where nothing else is to be said.
    pub(crate) fn send(&mut self, port: &mut impl Port, tells: bool) {
        for (at, peer) in self.peers.iter_mut().enumerate() {
            let to = Rank::at(at);
            if peer.must_greet {
                self.frame.clear();
                if matches!(peer.state, State::Ended(_)) {
                    self.frame.extend_from_slice(&[CHANNEL, LEFT]);
                } else {
                    self.frame.extend_from_slice(&[CHANNEL, HELLO]);
                    self.frame.extend_from_slice(&self.life.to_le_bytes());
                    self.frame.extend_from_slice(&peer.received.to_le_bytes());
                }
                peer.must_greet = !port.send(to, &self.frame);
            }
            if peer.state != State::Open || peer.must_greet {
                continue;
            }
            let untold = peer.dealt_with() - peer.told;
            let mut must_tell = untold >= TELL_BYTES || tells && untold > 0;
            while peer.sent < peer.written() || must_tell {
                let from = peer.start + (peer.sent - peer.acked) as usize;
                let rest = &peer.output[from..];
                let piece = &rest[..rest.len().min(FRAME_BYTES_MAX - DATA_HEADER_BYTES)];
                let dealt_with = peer.received - peer.input.len() as u64;
                self.frame.clear();
                self.frame.extend_from_slice(&[CHANNEL, DATA]);
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

fn words(bytes: &[u8]) -> Result<[u64; 2], Malformed> {
    let (words, rest) = bytes.as_chunks::<8>();
    match (words, rest) {
        ([a, b], []) => Ok([u64::from_le_bytes(*a), u64::from_le_bytes(*b)]),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
