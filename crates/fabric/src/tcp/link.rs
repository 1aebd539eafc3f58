//! One established connection: bytes out, bytes in, and the verbs that wait for their completion.
//!
//! Both sides are posters and owners at once. The owner's poll performs verbs on arrival, in order
//! (T2, T6), and each answer goes behind earlier answers (T4).
//!
//! Invariants
//! - L1 A new connection of a peer is answered only after the previous one is closed and the bytes
//!   left in it are dropped. So no verb that was posted on an old connection takes effect once
//!   either side has seen `LinkUp` for the new one (T4). By construction: `TcpFabric` has one place
//!   for one link to a peer, and `welcome` is called with that place empty. Tested by
//!   `nothing_of_an_old_link_takes_effect_after_link_up`.
//! - L2 Signalled verbs are numbered without gaps and answered in order; an answer with another
//!   number, or of another kind than the verb, breaks the link. Checked at each answer.
//! - L3 Queues are bounded: at most [`OUTPUT_BYTES_MAX`] bytes wait to be sent (and one frame
//!   more), at most [`OUTSTANDING_MAX`] verbs wait to be answered, at most one frame waits to be
//!   complete; parcels that wait to be taken have a bound of their own (`parcels`, Q2). A peer that
//!   exceeds a bound loses the link, with the reason.
//! - L4 The steady state allocates nothing but the values of parcels, which their holders keep. By
//!   construction: all buffers keep their capacity.
//! - L5 A link that is made in the poll that reports the end of its predecessor is announced, and
//!   accepts verbs, from the next poll on (T10): until then `post` completes as unknown. By
//!   construction of `Peer::announce`; tested by `a_break_is_a_cut` over a silent network.

use super::hello::Hello;
use super::input::Input;
use super::output::Output;
use super::parcels::Parcels;
use super::status::{LinkCounters, LinkError};
use super::wire::{self, Frame, Request};
use super::{OUTPUT_BYTES_MAX, OUTSTANDING_MAX};
use base::{At, Bulk, Event, Inbox, Outcome, Parcel, Rank, Token};
use region::Words;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// The most bytes that a read of the socket brings; a longer frame makes the buffer grow for good.
const INPUT_BYTES: usize = 256 << 10;

/// The most receptions in one turn of a link that brings long parcels.
const FILLS_MAX: usize = 8;

/// This node's own memory, as peers may use it.
pub(super) struct Memory {
    pub(super) words: Words,
    /// The place from which on only one peer may write, and that peer; `None` if all may.
    pub(super) permitted: Option<(At, Rank)>,
    /// A buffer for words between the wire and the region.
    scratch: Vec<u64>,
    pub(super) parcels: Parcels,
}

impl Memory {
    pub(super) fn new(words: Words) -> Memory {
        Memory { words, permitted: None, scratch: Vec::new(), parcels: Parcels::new() }
    }

    /// Keeps a parcel of `from`, if it may change the word at `at`.
    fn put_parcel(
        &mut self,
        from: Rank,
        at: At,
        parcel: Parcel,
        counters: &mut LinkCounters,
    ) -> Result<(), LinkError> {
        if self.permits(from, at, 1) {
            return self.parcels.put(from, at, parcel);
        }
        counters.refused_verbs += 1;
        Ok(())
    }

    /// Whether `writer` may change the `n_words` at `at`.
    fn permits(&self, writer: Rank, at: At, n_words: usize) -> bool {
        self.permitted.is_none_or(|(from, permitted)| {
            writer == permitted || at.0 as u64 + n_words as u64 <= u64::from(from.0)
        })
    }
}

/// The expected form of a verb's completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The completion of a WRITE.
    Written,
    /// The completion of a READ of this many words.
    Words(usize),
    /// The completion of a CAS or FETCH-ADD.
    Before,
}

#[derive(Clone, Copy)]
struct Outstanding {
    token: Token,
    expected: Expected,
}

/// The signalled verbs that wait for their completion, oldest first (L2).
#[derive(Default)]
struct Ledger {
    waiting: VecDeque<Outstanding>,
    oldest: u32,
}

impl Ledger {
    fn enter(&mut self, token: Token, expected: Expected) -> Request {
        let request = Request(self.oldest.wrapping_add(self.waiting.len() as u32));
        self.waiting.push_back(Outstanding { token, expected });
        request
    }

    fn settle(
        &mut self,
        request: Request,
        fits: impl FnOnce(Expected) -> bool,
    ) -> Result<Token, LinkError> {
        match self.waiting.front() {
            Some(first) if request == Request(self.oldest) && fits(first.expected) => {
                let token = first.token;
                self.waiting.pop_front();
                self.oldest = Request(self.oldest).next().0;
                Ok(token)
            }
            Some(_) | None => Err(LinkError::Unexpected("a completion that is not due")),
        }
    }
}

/// An established connection.
pub(super) struct Link {
    pub(super) socket: OwnedFd,
    /// The number that distinguishes this connection from others of the same peer in the poller's
    /// events.
    pub(super) serial: u32,
    /// The HELLO of the peer.
    pub(super) peer: Hello,
    pub(super) since: Instant,
    pub(super) output: Output,
    /// Whether the poller is asked to report when more can be sent.
    pub(super) waits_for_room: bool,
    /// Whether `LinkUp` was reported: no verb is posted before (L5).
    pub(super) announced: bool,
    input: Input,
    ledger: Ledger,
}

impl Link {
    /// A connection whose handshake is complete except for `unsent` bytes of it.
    pub(super) fn new(socket: OwnedFd, serial: u32, peer: Hello, unsent: Vec<u8>) -> Link {
        Link {
            socket,
            serial,
            peer,
            since: Instant::now(),
            output: Output::new(unsent),
            waits_for_room: false,
            announced: false,
            input: Input::new(INPUT_BYTES),
            ledger: Ledger::default(),
        }
    }

    /// Appends one verb: `put` gets its number if it is signalled.
    pub(super) fn post(
        &mut self,
        signalled: Option<(Token, Expected)>,
        put: impl FnOnce(&mut Vec<u8>, Option<Request>),
    ) -> Result<(), LinkError> {
        let request = signalled.map(|(token, expected)| self.ledger.enter(token, expected));
        put(self.output.buffer(), request);
        self.check_queues()
    }

    /// Appends a parcel.
    pub(super) fn put_parcel(&mut self, at: At, parcel: &Parcel) -> Result<(), LinkError> {
        self.output.put_parcel(at, parcel);
        self.check_queues()
    }

    /// L3
    fn check_queues(&self) -> Result<(), LinkError> {
        if self.output.pending() > OUTPUT_BYTES_MAX {
            return Err(LinkError::OutputFull);
        }
        if self.ledger.waiting.len() > OUTSTANDING_MAX {
            return Err(LinkError::OutstandingFull);
        }
        Ok(())
    }

    /// Sends the waiting bytes; true if none are left.
    pub(super) fn flush(&mut self, counters: &mut LinkCounters) -> Result<bool, LinkError> {
        self.output.flush(&self.socket, counters)
    }

    /// Receives once, or more often while a long parcel arrives, and performs every whole frame.
    pub(super) fn receive(
        &mut self,
        memory: &mut Memory,
        counters: &mut LinkCounters,
        inbox: &mut Inbox,
    ) -> Result<(), LinkError> {
        assert!(self.announced, "T7: a message of a link before its LinkUp");
        for _ in 0..FILLS_MAX {
            if !self.input.fill(&self.socket, counters)? {
                return Ok(());
            }
            let from = self.peer.from;
            if let Some((head, parcel)) = self.input.take_parcel() {
                memory.put_parcel(from, head.at, parcel, counters)?;
            }
            self.perform_arrived(memory, counters, inbox)?;
            if !self.input.is_arriving() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Performs every whole frame that has arrived.
    fn perform_arrived(
        &mut self,
        memory: &mut Memory,
        counters: &mut LinkCounters,
        inbox: &mut Inbox,
    ) -> Result<(), LinkError> {
        if self.input.is_arriving() {
            return Ok(());
        }
        let from = self.peer.from;
        let region_words = memory.words.n_words();
        let Link { input, output, ledger, .. } = self;
        let mut consumed = 0;
        while let Some((frame, length)) = wire::decode(&input.arrived()[consumed..], region_words)?
        {
            consumed += length;
            perform(frame, from, memory, output.buffer(), ledger, counters, inbox)?;
            if output.pending() > OUTPUT_BYTES_MAX {
                return Err(LinkError::OutputFull);
            }
        }
        input.consume(consumed);
        if let Some(head) = wire::parcel_head(input.arrived(), region_words)? {
            input.begin_parcel(head);
        }
        Ok(())
    }

    /// Completes all waiting verbs as unknown, in order (T4).
    pub(super) fn give_up(&mut self, inbox: &mut Inbox) {
        let from = self.peer.from;
        for Outstanding { token, .. } in self.ledger.waiting.drain(..) {
            inbox.push(Event::Completed { from, token, outcome: Outcome::Unknown });
        }
    }
}

/// Performs one frame of `from`: a verb on this node's memory, or the completion of an own verb.
fn perform(
    frame: Frame<'_>,
    from: Rank,
    memory: &mut Memory,
    out: &mut Vec<u8>,
    ledger: &mut Ledger,
    counters: &mut LinkCounters,
    inbox: &mut Inbox,
) -> Result<(), LinkError> {
    let mut completed =
        |token, outcome: Outcome<'_>| inbox.push(Event::Completed { from, token, outcome });
    let changes = match frame {
        Frame::Write { at, words, request } => Some((at, words.len(), request)),
        Frame::Cas { at, request, .. } | Frame::FetchAdd { at, request, .. } => {
            Some((at, 1, request))
        }
        _ => None,
    };
    if let Some((at, n_words, request)) = changes
        && !memory.permits(from, at, n_words)
    {
        counters.refused_verbs += 1;
        if let Some(request) = request {
            wire::put_refused(out, request);
        }
        return Ok(());
    }
    match frame {
        Frame::Write { at, words, request } => {
            memory.scratch.resize(words.len(), 0);
            words.copy_to(&mut memory.scratch);
            memory.words.write_words(at.0, &memory.scratch);
            if let Some(request) = request {
                wire::put_written(out, request);
            }
        }
        Frame::Read { at, n_words, request } => {
            memory.scratch.resize(n_words as usize, 0);
            memory.words.load_into(at.0, &mut memory.scratch);
            wire::put_words_read(out, request, &memory.scratch);
        }
        Frame::Cas { at, expected, desired, request } => {
            let before = memory.words.cas(at.0, expected, desired);
            if let Some(request) = request {
                wire::put_before(out, request, before);
            }
        }
        Frame::FetchAdd { at, add, request } => {
            let before = memory.words.fetch_add(at.0, add);
            if let Some(request) = request {
                wire::put_before(out, request, before);
            }
        }
        Frame::Written { request } => {
            let token = ledger.settle(request, |expected| expected == Expected::Written)?;
            completed(token, Outcome::Written);
        }
        Frame::Words { request, words } => {
            let n_words = words.len();
            let token = ledger.settle(request, |expected| expected == Expected::Words(n_words))?;
            inbox.push_read(from, token, n_words, |to| words.copy_to(to));
        }
        Frame::Before { request, word } => {
            let token = ledger.settle(request, |expected| expected == Expected::Before)?;
            completed(token, Outcome::Before(word));
        }
        Frame::Refused { request } => {
            let may_be_refused =
                |expected| matches!(expected, Expected::Written | Expected::Before);
            let token = ledger.settle(request, may_be_refused)?;
            completed(token, Outcome::Refused);
        }
        Frame::Message(bytes) => inbox.push(Event::Message { from, bytes }),
        // Its arrival has made the descriptor readable, which was its purpose.
        Frame::Wake => {}
        Frame::Parcel { head, bytes } => {
            let parcel = Parcel { tag: head.tag, bulk: Bulk::copied(bytes) };
            memory.put_parcel(from, head.at, parcel, counters)?;
        }
        Frame::ProcessFailed { .. } => {
            return Err(LinkError::Unexpected("the news of a death, on a node's own link"));
        }
    }
    Ok(())
}
