//! Frames between two runtimes, over the fabric's messages.
//!
//! The fabric's messages are bounded; frames need not be, since a value of half a megabyte is an
//! answer like any other. So each direction of a pair is a stream of bytes that is cut into
//! messages. A link that breaks, or a peer that is born again, ends the stream: both sides forget
//! what was under way, and a requester that needs an answer asks again.
//!
//! ```text
//! message = channel (1) | position (1: first or later of its stream) | stream (8) | bytes
//!           channel (1) | 2: the other direction's stream cannot be read | stream (8)
//! ```
//! - I1 a frame is handed up only if every byte of its stream before it was. The first message of a
//!   stream says so; a stream whose first message was not seen is ignored.
//! - I2 a stream's name is never used again: a life has one range of names, and lives rise.
//! - I3 a stream with bytes that do not parse is not read on, and its sender is told so: it begins
//!   another, as after a broken link. It is told once in `REFUSE_EVERY`, so two versions that
//!   will never understand each other cost next to nothing.

use crate::detour::{Detours, Direction};
use crate::wire::Frame;
use base::{Instant, MAX_MEMBERS, MemberSet, Port, Rank};
use core::time::Duration;
use proto::codec::Malformed;

/// The first byte of every message that is the runtime's.
pub const CHANNEL: u8 = 0x52;

/// A message's bytes at most, header included; every provider carries four times as much.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
const HEADER_BYTES: usize = 10;
const FIRST: u8 = 1;
const LATER: u8 = 0;
const REFUSED: u8 = 2;
/// See I3.
const REFUSE_EVERY: Duration = Duration::from_secs(1);
/// How many streams one life can name towards one peer.
const STREAMS_PER_LIFE: u64 = 1 << 20;

/// How much may wait to be sent to one peer before [`Outgoing::has_room`] says no.
pub const OUT_BYTES_SOFT_MAX: usize = 4 << 20;

#[derive(Debug, Default)]
struct Out {
    bytes: Vec<u8>,
    sent: usize,
    stream: u64,
    begun: bool,
}

/// The streams towards the peers.
#[derive(Debug)]
pub struct Outgoing {
    peers: [Out; MAX_MEMBERS],
    message: Vec<u8>,
    pub(crate) detours: Detours,
    /// Room for a frame that goes another way.
    frame: Vec<u8>,
    /// Frames of others that were passed on.
    pub(crate) n_passed_on: u64,
}

impl Outgoing {
    /// For the process's life `life`, which no earlier process of this member had.
    pub fn new(life: u64) -> Outgoing {
        let mut peers: [Out; MAX_MEMBERS] = Default::default();
        peers.iter_mut().for_each(|peer| peer.stream = life.wrapping_mul(STREAMS_PER_LIFE));
        Outgoing {
            peers,
            message: Vec::with_capacity(MESSAGE_BYTES_MAX),
            detours: Detours::default(),
            frame: Vec::new(),
            n_passed_on: 0,
        }
    }

    /// Whether the peer keeps up: if not, put off what can wait.
    pub fn has_room(&self, to: Rank) -> bool {
        let peer = &self.peers[self.detours.via(to).unwrap_or(to).index()];
        peer.bytes.len() - peer.sent < OUT_BYTES_SOFT_MAX
    }

    /// Appends `frame` to the stream towards `to`; requests and answers, where there is a way
    /// around a cut, to that towards the member in between.
    pub fn push(&mut self, to: Rank, frame: &Frame<'_>) {
        let (Some(via), Some(direction)) = (self.detours.via(to), Direction::of(frame)) else {
            return frame.encode(&mut self.peers[to.index()].bytes);
        };
        let attempt = match direction {
            Direction::ToLeader => self.detours.attempt,
            Direction::ToOrigin => 0,
        };
        self.frame.clear();
        frame.encode(&mut self.frame);
        let wrapped = Frame::Pass { to: to.index() as u64, attempt, frame: &self.frame };
        wrapped.encode(&mut self.peers[via.index()].bytes);
    }

    /// Passes a frame of `from` on to `to`. What is nothing to be passed on is not.
    pub fn pass(&mut self, from: Rank, to: Rank, attempt: u64, bytes: &[u8]) {
        let Ok(Some((frame, n_bytes))) = Frame::decode(bytes) else { return };
        let Some(direction) = Direction::of(&frame).filter(|_| n_bytes == bytes.len()) else {
            return;
        };
        let origin = match direction {
            Direction::ToLeader if self.detours.admit(from, to, attempt) => from,
            Direction::ToLeader => return,
            Direction::ToOrigin => to,
        };
        let peer = &mut self.peers[to.index()];
        if peer.bytes.len() - peer.sent < OUT_BYTES_SOFT_MAX {
            self.n_passed_on += 1;
            let passed = Frame::Passed { peer: from.index() as u64, frame: bytes };
            passed.encode(&mut peer.bytes);
        } else if let Some(attempt) = self.detours.break_off(origin) {
            // D3
            let broken = Frame::PassBroken { attempt };
            broken.encode(&mut self.peers[origin.index()].bytes);
        }
    }

    /// The link broke or came back, or the process at its other end is another: the stream ends,
    /// with what had not been sent of it (I2).
    pub fn reset(&mut self, to: Rank) {
        let peer = &mut self.peers[to.index()];
        peer.stream += 1;
        (peer.begun, peer.sent) = (false, 0);
        peer.bytes.clear();
        let peers = &mut self.peers;
        self.detours.reset(to, |origin, attempt| {
            Frame::PassBroken { attempt }.encode(&mut peers[origin.index()].bytes);
        });
    }

    /// Whether `stream` is the present one towards `to`.
    pub fn is_present(&self, to: Rank, stream: u64) -> bool {
        self.peers[to.index()].stream == stream
    }

    /// Whether something waits to be sent.
    pub fn is_pending(&self) -> bool {
        self.peers.iter().any(|peer| !peer.bytes.is_empty())
    }

    /// Sends what the fabric takes. What it does not take stays for the next time.
    pub fn send(&mut self, port: &mut impl Port) {
        for (at, peer) in self.peers.iter_mut().enumerate() {
            while peer.sent < peer.bytes.len() {
                let rest = &peer.bytes[peer.sent..];
                let piece = &rest[..rest.len().min(MESSAGE_BYTES_MAX - HEADER_BYTES)];
                self.message.clear();
                self.message.extend_from_slice(&[CHANNEL, if peer.begun { LATER } else { FIRST }]);
                self.message.extend_from_slice(&peer.stream.to_le_bytes());
                self.message.extend_from_slice(piece);
                if !port.send(Rank::at(at), &self.message) {
                    break;
                }
                peer.begun = true;
                peer.sent += piece.len();
            }
            if peer.sent == peer.bytes.len() {
                peer.bytes.clear();
                peer.sent = 0;
            } else if peer.sent * 2 > peer.bytes.len() {
                peer.bytes.drain(..peer.sent);
                peer.sent = 0;
            }
        }
    }
}

#[derive(Debug, Default)]
struct In {
    stream: Option<u64>,
    partial: Vec<u8>,
    /// A stream that cannot be read, whose sender has not been told (I3).
    unread: Option<u64>,
    /// When it was told that of one last.
    told_at: Option<Instant>,
}

impl In {
    /// Nothing is known of what comes next.
    fn renewed(&self) -> In {
        In { told_at: self.told_at, ..In::default() }
    }

    fn tell_at(&self) -> Instant {
        self.told_at.map_or(Instant::ZERO, |at| at.plus(REFUSE_EVERY))
    }
}

/// The streams from the peers.
#[derive(Debug, Default)]
pub struct Incoming {
    peers: [In; MAX_MEMBERS],
    /// Streams given up, and messages dropped, because of malformed bytes.
    pub n_malformed: u64,
}

impl Incoming {
    /// As [`Outgoing::reset`], for the other direction.
    pub fn reset(&mut self, from: Rank) {
        let peer = &mut self.peers[from.index()];
        *peer = peer.renewed();
    }

    /// The peers to tell now that their stream cannot be read (I3): say so with
    /// [`Incoming::refuse`].
    pub fn unread(&self, now: Instant) -> MemberSet {
        let is_due = |peer: &In| peer.unread.is_some() && peer.tell_at() <= now;
        Rank::all(MAX_MEMBERS).filter(|rank| is_due(&self.peers[rank.index()])).collect()
    }

    /// When to look there again.
    pub fn deadline(&self) -> Option<Instant> {
        self.peers.iter().filter(|peer| peer.unread.is_some()).map(In::tell_at).min()
    }

    /// Tells `from` that its stream cannot be read. False if the fabric does not take that now.
    pub fn refuse(&mut self, from: Rank, now: Instant, port: &mut impl Port) -> bool {
        let peer = &mut self.peers[from.index()];
        let Some(stream) = peer.unread else { return false };
        let mut message = [CHANNEL, REFUSED, 0, 0, 0, 0, 0, 0, 0, 0];
        message[2..].copy_from_slice(&stream.to_le_bytes());
        if !port.send(from, &message) {
            return false;
        }
        *peer = In { told_at: Some(now), ..In::default() };
        true
    }

    /// A message of this channel arrived: hands its complete frames to `take`. `Some` if the other
    /// side says instead that it cannot read this stream of ours.
    pub fn on_message(
        &mut self,
        from: Rank,
        message: &[u8],
        mut take: impl FnMut(Frame<'_>),
    ) -> Option<u64> {
        let peer = &mut self.peers[from.index()];
        let Some((&[_, position, ref stream @ ..], bytes)) =
            message.split_first_chunk::<HEADER_BYTES>()
        else {
            self.n_malformed += 1;
            return None;
        };
        let stream = u64::from_le_bytes(*stream);
        if position == REFUSED {
            return Some(stream);
        } else if position == FIRST {
            *peer = In { stream: Some(stream), ..peer.renewed() };
        } else if peer.stream != Some(stream) {
            return None; // I1: its beginning was not for us
        }
        // The usual case is whole frames, parsed where they lie.
        let taken = if peer.partial.is_empty() {
            take_all(bytes, &mut take).map(|n| peer.partial.extend_from_slice(&bytes[n..]))
        } else {
            peer.partial.extend_from_slice(bytes);
            take_all(&peer.partial, &mut take).map(|n| drop(peer.partial.drain(..n)))
        };
        if let Err(Malformed) = taken {
            self.n_malformed += 1;
            *peer = In { unread: Some(stream), ..peer.renewed() };
        }
        None
    }
}

fn take_all(bytes: &[u8], take: &mut impl FnMut(Frame<'_>)) -> Result<usize, Malformed> {
    let mut at = 0;
    while let Some((frame, n_bytes)) = Frame::decode(&bytes[at..])? {
        take(frame);
        at += n_bytes;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::Wire;
    use crate::wire::{Items, push_item};
    use base::Slot;

    const TO: Rank = Rank::at(1);
    const FROM: Rank = Rank::at(0);

    fn taken(incoming: &mut Incoming, messages: &[Vec<u8>]) -> Vec<u64> {
        let mut slots = Vec::new();
        for message in messages {
            incoming.on_message(FROM, message, |frame| match frame {
                Frame::ValuesTaken { next, .. } => slots.push(next.0),
                Frame::StateChunk { offset, bytes, .. } => {
                    assert!(bytes.iter().all(|byte| *byte == 7));
                    slots.push(offset);
                }
                other => panic!("{other:?}"),
            });
        }
        slots
    }

    fn number(n: u64) -> Frame<'static> {
        Frame::ValuesTaken { transfer: 0, next: Slot(n) }
    }

    #[test]
    fn frames_longer_than_a_message_arrive_whole_and_in_order() {
        let (mut outgoing, mut incoming) = (Outgoing::new(1), Incoming::default());
        let mut wire = Wire::default();
        let bytes = vec![7; 5 * MESSAGE_BYTES_MAX / 2];
        outgoing.push(TO, &number(1));
        outgoing.push(TO, &Frame::StateChunk { transfer: 0, offset: 2, check: 0, bytes: &bytes });
        outgoing.push(TO, &number(3));
        outgoing.send(&mut wire);
        assert_eq!(taken(&mut incoming, &wire.take(TO)), [1, 2, 3]);
        assert!(!outgoing.is_pending());
    }

    #[test]
    fn a_peer_that_takes_nothing_has_no_room_after_a_while() {
        let mut outgoing = Outgoing::new(1);
        let mut wire = Wire { room: 0, ..Wire::default() };
        let bytes = vec![7; MESSAGE_BYTES_MAX];
        let piece = Frame::StateChunk { transfer: 0, offset: 9, check: 0, bytes: &bytes };
        let most = OUT_BYTES_SOFT_MAX / MESSAGE_BYTES_MAX;
        let room_for = (0..2 * most).take_while(|_| {
            let has_room = outgoing.has_room(TO);
            outgoing.push(TO, &piece);
            outgoing.send(&mut wire);
            has_room
        });
        assert!((most - 1..=most).contains(&room_for.count()) && outgoing.has_room(FROM));
        wire.room = usize::MAX;
        outgoing.send(&mut wire);
        assert!(outgoing.has_room(TO), "it has taken everything");
    }

    #[test]
    fn what_the_fabric_does_not_take_is_sent_later() {
        let (mut outgoing, mut incoming) = (Outgoing::new(1), Incoming::default());
        let mut wire = Wire { room: 1, ..Wire::default() };
        let bytes = vec![7; 3 * MESSAGE_BYTES_MAX];
        outgoing.push(TO, &Frame::StateChunk { transfer: 0, offset: 9, check: 0, bytes: &bytes });
        let mut slots = Vec::new();
        for _ in 0..4 {
            assert!(outgoing.is_pending());
            outgoing.send(&mut wire);
            slots.extend(taken(&mut incoming, &wire.take(TO)));
        }
        assert_eq!((slots, outgoing.is_pending()), (vec![9], false));
    }

    #[test]
    fn i1_the_rest_of_a_stream_whose_beginning_was_lost_is_ignored() {
        let (mut outgoing, mut incoming) = (Outgoing::new(1), Incoming::default());
        let mut wire = Wire::default();
        outgoing.push(TO, &number(1));
        outgoing.send(&mut wire);
        wire.take(TO); // lost
        outgoing.push(TO, &number(2));
        outgoing.send(&mut wire);
        assert_eq!(taken(&mut incoming, &wire.take(TO)), []);
        outgoing.reset(TO);
        outgoing.push(TO, &number(3));
        outgoing.send(&mut wire);
        assert_eq!(taken(&mut incoming, &wire.take(TO)), [3]);
    }

    #[test]
    fn i2_no_two_streams_have_one_name() {
        let mut names = Vec::new();
        for life in 1..4 {
            let mut outgoing = Outgoing::new(life);
            let mut wire = Wire::default();
            for _ in 0..3 {
                outgoing.push(TO, &number(0));
                outgoing.send(&mut wire);
                names.extend(wire.take(TO).iter().map(|message| message[2..10].to_vec()));
                outgoing.reset(TO);
            }
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 9);
    }

    /// A relay between the origin and the leader, and what the leader gets of commands.
    #[test]
    fn d1_what_a_relay_passes_on_of_an_attempt_has_no_gap() {
        const LEADER: Rank = Rank::at(2);
        let mut relay = Outgoing::new(1);
        let mut wire = Wire::default();
        let send = |relay: &mut Outgoing, attempt, id| {
            let (mut list, mut bytes) = (Vec::new(), Vec::new());
            push_item(&mut list, id, b"set");
            let items = Items::check(&list).unwrap();
            Frame::Commands { life: 5, attempt, items }.encode(&mut bytes);
            relay.pass(FROM, LEADER, attempt, &bytes);
        };
        let mut ends = [Incoming::default(), Incoming::default(), Incoming::default()];
        let mut told = |relay: &mut Outgoing, to: Rank| {
            let (mut heard, incoming) = (Vec::new(), &mut ends[to.index()]);
            relay.send(&mut wire);
            for message in wire.take(to) {
                incoming.on_message(to, &message, |frame| match frame {
                    Frame::Passed { peer: 0, frame } => {
                        let Ok(Some((Frame::Commands { attempt, items, .. }, _))) =
                            Frame::decode(frame)
                        else {
                            panic!("{frame:?}")
                        };
                        heard.extend(items.iter().map(|(id, _)| (attempt, id)));
                    }
                    Frame::PassBroken { attempt } => heard.push((attempt, 0)),
                    other => panic!("{other:?}"),
                });
            }
            heard
        };
        send(&mut relay, 4, 1);
        send(&mut relay, 4, 2);
        assert_eq!(told(&mut relay, LEADER), [(4, 1), (4, 2)]);
        // The third is lost, and so is whatever follows it, until the origin knows.
        send(&mut relay, 4, 3);
        relay.reset(LEADER);
        send(&mut relay, 4, 4);
        assert_eq!(told(&mut relay, LEADER), []);
        assert_eq!(told(&mut relay, FROM), [(4, 0)]);
        send(&mut relay, 5, 3);
        send(&mut relay, 4, 5);
        send(&mut relay, 5, 4);
        assert_eq!(told(&mut relay, LEADER), [(5, 3), (5, 4)]);
        // The same where the leader takes too little.
        relay.peers[LEADER.index()].bytes.resize(OUT_BYTES_SOFT_MAX, 0);
        send(&mut relay, 5, 6);
        relay.peers[LEADER.index()].bytes.clear();
        send(&mut relay, 5, 7);
        assert_eq!(told(&mut relay, LEADER), []);
        assert_eq!(told(&mut relay, FROM), [(5, 0)]);
        // Another process run of the origin counts from the start.
        relay.reset(FROM);
        send(&mut relay, 1, 1);
        assert_eq!(told(&mut relay, LEADER), [(1, 1)]);
    }

    #[test]
    fn d2_what_was_passed_on_is_not_passed_on_again() {
        let mut relay = Outgoing::new(1);
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        Frame::CommandsRefused { life: 1, attempt: 1 }.encode(&mut inner);
        Frame::Passed { peer: 0, frame: &inner }.encode(&mut outer);
        relay.pass(FROM, TO, 1, &outer);
        relay.pass(FROM, TO, 1, &inner[..inner.len() - 1]);
        assert!(!relay.is_pending());
        relay.pass(FROM, TO, 1, &inner);
        assert!(relay.is_pending());
    }

    #[test]
    fn i3_a_stream_that_does_not_parse_is_begun_again_and_its_sender_told_now_and_then() {
        let (mut outgoing, mut incoming) = (Outgoing::new(1), Incoming::default());
        let mut sender = Incoming::default();
        let mut wire = Wire::default();
        let mut now = Instant(5);
        let mut n_told = 0;
        for n in 0..4 {
            outgoing.push(TO, &number(n));
            outgoing.send(&mut wire);
            let mut messages = wire.take(TO);
            assert_eq!(taken(&mut incoming, &messages), [n], "the stream is read again");
            outgoing.push(TO, &number(n));
            outgoing.send(&mut wire);
            messages = wire.take(TO);
            messages[0][HEADER_BYTES] ^= 0xff;
            messages[0][HEADER_BYTES + 3] ^= 0xff;
            assert_eq!(taken(&mut incoming, &messages), []);
            // Nothing further of the stream is accepted.
            outgoing.push(TO, &number(n));
            outgoing.send(&mut wire);
            assert_eq!(taken(&mut incoming, &wire.take(TO)), []);
            if n > 0 {
                assert!(incoming.unread(now).is_empty(), "not in a loop");
            }
            now = incoming.deadline().expect("somebody has to be told").max(now);
            assert!(incoming.unread(now).contains(FROM));
            wire.room = 0;
            assert!(!incoming.refuse(FROM, now, &mut wire), "no room: later");
            wire.room = usize::MAX;
            assert!(incoming.refuse(FROM, now, &mut wire));
            assert!(incoming.unread(now).is_empty() && incoming.deadline().is_none());
            for message in wire.take(FROM) {
                let refused = sender.on_message(TO, &message, |_| {}).expect("which stream");
                assert!(outgoing.is_present(TO, refused));
                outgoing.reset(TO);
                assert!(!outgoing.is_present(TO, refused), "said twice, it means nothing");
                n_told += 1;
            }
        }
        assert_eq!((n_told, incoming.n_malformed), (4, 4));
    }

    #[test]
    fn malformed_bytes_end_the_stream_and_nothing_else() {
        let mut incoming = Incoming::default();
        let mut message = vec![CHANNEL, FIRST];
        message.extend_from_slice(&5u64.to_le_bytes());
        message.extend_from_slice(&[0; 9]);
        assert_eq!(taken(&mut incoming, &[message, vec![CHANNEL]]), []);
        assert_eq!(incoming.n_malformed, 2);
        let mut outgoing = Outgoing::new(1);
        let mut wire = Wire::default();
        outgoing.push(TO, &number(4));
        outgoing.push(TO, &Frame::Reads { life: 0, items: Items::NONE });
        outgoing.send(&mut wire);
        let mut n = 0;
        for message in wire.take(TO) {
            incoming.on_message(FROM, &message, |_| n += 1);
        }
        assert_eq!(n, 2);
    }
}
