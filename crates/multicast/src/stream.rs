//! What two nodes say to each other: one numbered stream of bytes a direction, kept until the other
//! end has dealt with it, and said again after a link broke.
//!
//! ```text
//! HELLO   incarnation (8) | life (8) | disk (8) | the other end's life, as far as known (8)
//!         | bytes received of it so far (8)             first on every link, both ways
//! DATA    life (8) | number of the first byte (8) | bytes dealt with (8) | bytes
//! LEFT                                                  you were given up: stop
//! REFUSED why (1) | incarnation (8)                     you are not who speaks for your node: stop
//! record = length | record's bytes                      what the stream is made of
//! ```
//! - S1 A record is handed up once, whole, and in the order of sending, across broken links: the
//!   machines' T1 and T2. By the numbers of bytes; asserted when a frame is taken in.
//! - S2 Of one incarnation of a peer only one life is ever listened to, unless the next one has its
//!   disk: then both streams begin anew, and what was under way is lost. Any other successor has
//!   forgotten what the first life promised: it must come in as another incarnation, or it is told
//!   to stop. By `Peer::life`, `Peer::disk`.
//! - S3 What is kept for a peer is bounded, by `kept_bytes` and the longest record: a peer with
//!   more when the next record comes is given up for good, and told so when it is heard again, so
//!   that it stops rather than wait for what nobody has any more. With a disk its next life is
//!   spoken to, and so is its next incarnation. By `Streams::push`.
//! - S4 A byte is dealt with when its record was handed up: a node that stops handing up holds up
//!   its senders.
//! - S5 Where what is said rests on a disk, nothing leaves before it was released: when what it
//!   rests on is synced. By `Streams::release`, and `send`, which goes no further.
//! - S6 Incarnations of a peer rise (the machines' T4). Once a higher one was met, both streams
//!   begin anew: what was kept for the one before, and what came from it and was not handed up, is
//!   dropped. From then on a lower one is refused whatever it says, told so, and not spoken to;
//!   an equal one under another life likewise. By `Streams::on_hello`.
//! - S7 Bytes count for the life that they name, whatever link they come on, and only after its
//!   HELLO: a late frame of another life is dropped. By `Streams::on_data`.
//!
//! What is written before anybody was met under a name waits for whoever comes first.

mod hello;
mod input;

pub(crate) use hello::{Refusal, Who};
pub(crate) use input::Input;

use base::{Incarnation, MAX_MEMBERS, MemberSet, Port, Rank};
use proto::amcast::FOUNDER;
use proto::amcast::wire::{Malformed, number};

/// The first byte of every message of this crate.
const CHANNEL: u8 = 0x4d;
const HELLO: u8 = 0;
const DATA: u8 = 1;
const LEFT: u8 = 2;
const REFUSED: u8 = 3;

/// A message's bytes at most; every provider carries four times as much.
const FRAME_BYTES_MAX: usize = 64 << 10;
const DATA_HEADER_BYTES: usize = 26;
/// Dealing with so many bytes is worth a word at once; with less, the next frame or tick says it.
const TELL_BYTES: u64 = 64 << 10;

/// Why a peer is not spoken to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It died, and another process claims to be the same incarnation (S2).
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
    /// The highest incarnation that was met (S6); 0 before anybody was.
    incarnation: u64,
    /// Why whoever is on this link is not listened to, until it was told.
    refusal: Option<Refusal>,
    /// S2.
    life: Option<u64>,
    /// The name of its disk; 0 if it has none, or nobody knows yet.
    disk: u64,
    /// How often its streams began anew.
    n_renewed: u64,
    /// The HELLO or LEFT of this link has not been sent.
    must_greet: bool,
    /// The fabric says that it died: it holds nobody up.
    is_suspected: bool,
    /// From byte `acked` on, behind `start`.
    output: Vec<u8>,
    start: usize,
    acked: u64,
    sent: u64,
    /// S5.
    released: u64,
    /// Of the records that it may not have taken whole: the end and the bytes of the longest.
    longest: (u64, usize),
    input: Input,
    /// Bytes received, ever.
    received: u64,
    /// What it was last told about bytes dealt with.
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
            must_greet: false,
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

/// How far the stream to each node may go (S5): its count of beginnings, and bytes.
pub(crate) type Marks = [(u64, u64); MAX_MEMBERS];

/// The streams to and from every node.
#[derive(Debug)]
pub(crate) struct Streams {
    me: Rank,
    who: Who,
    /// Whether groups here may seat another incarnation of a member.
    takes_newcomers: bool,
    /// Nodes whose next life has come.
    renewed: MemberSet,
    /// Nodes of which an incarnation was met that is no founder.
    met: MemberSet,
    kept_bytes_max: usize,
    backlog_bytes_max: usize,
    peers: [Peer; MAX_MEMBERS],
    frame: Vec<u8>,
    /// Somebody has given this node up (S3).
    left_by: Option<Rank>,
    /// Somebody does not take this process for its node (S2, S6).
    refused_by: Option<(Rank, Refusal)>,
    pub(crate) n_frames: u64,
    pub(crate) n_bytes: u64,
}

impl Streams {
    /// For the process that `who` names: no other ever had that life.
    pub(crate) fn new(me: Rank, who: Who, kept_bytes: usize, backlog_bytes: usize) -> Streams {
        Streams {
            me,
            who,
            takes_newcomers: false,
            renewed: MemberSet::EMPTY,
            met: MemberSet::EMPTY,
            kept_bytes_max: kept_bytes,
            backlog_bytes_max: backlog_bytes,
            peers: std::array::from_fn(|_| Peer::new()),
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
        // S3: one record, however long, is no sign that it lags.
        if peer.kept().saturating_sub(peer.longest()) > self.kept_bytes_max {
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

    /// Whether so much is kept for `node` that nothing long should be said to it.
    pub(crate) fn has_backlog(&self, node: Rank) -> bool {
        self.peers[node.index()].kept() > self.backlog_bytes_max
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

    /// Which incarnation speaks for `node`, as far as known: a founder, or one that was met.
    pub(crate) fn incarnation(&self, node: Rank) -> Incarnation {
        let known = if node == self.me {
            self.who.incarnation
        } else {
            Incarnation(self.peers[node.index()].incarnation)
        };
        known.max(FOUNDER)
    }

    /// Which life of `node` is listened to (S7); `None` before its first HELLO.
    pub(crate) fn life(&self, node: Rank) -> Option<u64> {
        self.peers[node.index()].life
    }

    /// Who does not take this process for its node, and why (S2, S6).
    pub(crate) const fn refused_by(&self) -> Option<(Rank, Refusal)> {
        self.refused_by
    }

    /// Who has given this node up (S3).
    pub(crate) const fn left_by(&self) -> Option<Rank> {
        self.left_by
    }

    pub(crate) fn on_link_up(&mut self, node: Rank) {
        let peer = &mut self.peers[node.index()];
        peer.is_suspected = false;
        peer.refusal = None;
        match peer.state {
            // It may be its next life or incarnation: its HELLO says.
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
        peer.refusal = None;
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

    /// `from` says what no node says.
    pub(crate) fn give_up(&mut self, from: Rank) {
        self.peers[from.index()].end(End::Garbled);
    }

    fn on_data(&mut self, from: Rank, fields: &[u8]) -> Result<(), Malformed> {
        let (header, bytes) = fields.split_at_checked(DATA_HEADER_BYTES - 2).ok_or(Malformed)?;
        let [life, first, dealt_with] = words(header)?;
        let peer = &mut self.peers[from.index()];
        // S7.
        if peer.state != State::Open || peer.life != Some(life) {
            return Ok(());
        }
        peer.acknowledge(dealt_with)?;
        // S1: a link loses nothing in its middle (T7), and HELLO said where to begin.
        if first != peer.received {
            return Err(Malformed);
        }
        peer.input.push(bytes);
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
        self.peers.iter().any(|peer| {
            let has_more = peer.state == State::Open && peer.sent < self.end(peer);
            peer.must_greet || peer.refusal.is_some() || has_more
        })
    }

    /// How far the stream may go now.
    fn end(&self, peer: &Peer) -> u64 {
        if self.who.disk == 0 { peer.written() } else { peer.released }
    }

    /// How far each stream goes.
    pub(crate) fn marks(&self) -> Marks {
        std::array::from_fn(|at| (self.peers[at].n_renewed, self.peers[at].written()))
    }

    /// What was written up to `marks` may leave (S5).
    pub(crate) fn release(&mut self, marks: &Marks) {
        for (peer, (n_renewed, upto)) in self.peers.iter_mut().zip(marks) {
            if peer.n_renewed == *n_renewed {
                peer.released = peer.released.max(*upto);
            }
        }
    }

    /// Whether something that was written may not leave yet.
    pub(crate) fn holds(&self) -> bool {
        self.who.disk != 0 && self.peers.iter().any(|peer| peer.released < peer.written())
    }

    /// The names of the disks of all nodes, as far as known.
    pub(crate) fn disks(&self) -> [u64; MAX_MEMBERS] {
        std::array::from_fn(|at| self.peers[at].disk)
    }

    /// What an earlier life of this node knew of them.
    pub(crate) fn know_disks(&mut self, disks: &[u64; MAX_MEMBERS]) {
        self.peers.iter_mut().zip(disks).for_each(|(peer, disk)| peer.disk = *disk);
    }

    /// Nodes whose next life has come since the last call: what was under way to them is lost.
    pub(crate) fn take_renewed(&mut self) -> MemberSet {
        std::mem::take(&mut self.renewed)
    }

    /// Nodes that were met since the last call as an incarnation that is no founder.
    pub(crate) fn take_met(&mut self) -> MemberSet {
        std::mem::take(&mut self.met)
    }

    /// Whether [`Streams::take_met`] would name `node`.
    pub(crate) fn is_to_be_met(&self, node: Rank) -> bool {
        self.met.contains(node)
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
                    let Who { incarnation, life, disk } = self.who;
                    let theirs = [peer.life.unwrap_or(0), peer.received];
                    for word in [incarnation.0, life, disk].into_iter().chain(theirs) {
                        self.frame.extend_from_slice(&word.to_le_bytes());
                    }
                }
                peer.must_greet = !port.send(to, &self.frame);
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
            // S5.
            let end = if self.who.disk == 0 { peer.written() } else { peer.released };
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
