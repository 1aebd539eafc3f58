//! The giving side.

use super::{KEPT_FOR, check_of};
use crate::backlog::Backlog;
use crate::config::Bounds;
use crate::flow::Outgoing;
use crate::pace::Pace;
use crate::service::Saving;
use crate::wire::{Frame, ITEM_HEADER_BYTES, Items, push_item};
use base::{Instant, MAX_MEMBERS, Prefix, Rank, Slot};
use core::time::Duration;
use std::collections::VecDeque;

/// Bytes of a state that were made and not acknowledged (I3, I6).
#[derive(Debug)]
struct Chunk {
    offset: u64,
    /// See I1.
    check: u64,
    bytes: Vec<u8>,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

#[derive(Debug)]
struct Giving {
    transfer: u64,
    /// Where the state's next piece comes from; `None` when all were made.
    source: Option<Saving>,
    pace: Pace,
    chunks: VecDeque<Chunk>,
    /// How many of them are on their way.
    n_sent: usize,
    made: u64,
    /// Of all that was made.
    check: u64,
    taken: u64,
    /// The end of the state was said, and nothing is to be said again.
    has_ended: bool,
    link_is_up: bool,
    heard_at: Instant,
    /// The first value that follows.
    next: Slot,
    /// The last value was sent. Kept for a while nevertheless: it may have been lost.
    is_over: bool,
}

impl Giving {
    fn is_all_taken(&self) -> bool {
        self.source.is_none() && self.taken == self.made
    }
}

/// The giving side: one transfer to each member at most, a newer one replaces it.
#[derive(Debug, Default)]
pub struct Give {
    to: [Option<Giving>; MAX_MEMBERS],
    /// Saves that are no longer of use: see [`Give::ended`].
    ended: Vec<Saving>,
    values: Vec<u8>,
    bounds: Bounds,
    /// Bytes of states that were sent, for metrics.
    pub n_bytes: u64,
}

impl Give {
    /// Gives nothing yet.
    pub fn new(bounds: Bounds) -> Give {
        Give { bounds, ..Give::default() }
    }

    /// `to` wants what comes after `have`. `save` begins to save the state of `backlog.end()`, and
    /// gives its first bytes; it is asked only if the values are not all kept.
    pub fn begin(
        &mut self,
        (to, transfer): (Rank, u64),
        have: Prefix,
        backlog: &Backlog,
        now: Instant,
        flows: &mut Outgoing,
        save: impl FnOnce() -> (Saving, Vec<u8>),
    ) {
        self.end(to);
        let kept = is_kept(have, backlog);
        let (source, head) = (!kept).then(save).unzip();
        self.to[to.index()] = Some(Giving {
            transfer,
            source,
            pace: Pace::new(now),
            chunks: VecDeque::new(),
            n_sent: 0,
            made: 0,
            check: 0,
            taken: 0,
            has_ended: kept,
            link_is_up: true,
            heard_at: now,
            next: if kept { have.next_slot() } else { backlog.end().next_slot() },
            is_over: false,
        });
        if let Some(head) = head {
            flows.push(to, &Frame::StateBegins { transfer, prefix: backlog.end() });
            self.piece(to, head, true, (now, now), flows);
        } else {
            self.send_values(to, (backlog, false), flows);
        }
    }

    /// The transfer to `to`, if there is one, is over.
    pub fn end(&mut self, to: Rank) {
        let giving = self.to[to.index()].take();
        self.ended.extend(giving.and_then(|giving| giving.source));
    }

    /// A save of which no more pieces are wanted.
    pub fn ended(&mut self) -> Option<Saving> {
        self.ended.pop()
    }

    /// The member that is to be sent a piece now, and the save that the piece is of.
    pub fn wants_piece(&self, now: Instant) -> Option<(Rank, Saving)> {
        let mut wanted = self.to.iter().enumerate().filter_map(|(at, giving)| {
            let giving = giving.as_ref()?;
            let due = giving.has_room(self.bounds.window_bytes) && giving.pace.pause(now).is_zero();
            Some((Rank::at(at), giving.source.filter(|_| due)?))
        });
        wanted.next()
    }

    /// Time until a piece is wanted, if no acknowledgement arrives.
    pub fn pause(&self, now: Instant) -> Option<Duration> {
        let open = self.to.iter().flatten().filter(|giving| giving.source.is_some());
        open.filter(|giving| giving.has_room(self.bounds.window_bytes))
            .map(|giving| giving.pace.pause(now))
            .min()
    }

    /// The next piece for `to`, made between two moments. `more`, if another follows.
    pub fn piece(
        &mut self,
        to: Rank,
        bytes: Vec<u8>,
        more: bool,
        (began, made): (Instant, Instant),
        flows: &mut Outgoing,
    ) {
        let Some(giving) = &mut self.to[to.index()] else { return };
        assert!(giving.made < giving.taken + self.bounds.window_bytes, "I3");
        giving.pace.made(began, made);
        if !bytes.is_empty() {
            let offset = giving.made;
            giving.made += bytes.len() as u64;
            giving.check = check_of(&bytes, giving.check);
            giving.chunks.push_back(Chunk { offset, check: giving.check, bytes });
        }
        if !more {
            self.ended.extend(giving.source.take());
        }
        self.send(to, flows);
    }

    /// The save of the state for `to` was ended by another state that came here.
    pub fn refuse(&mut self, to: Rank, flows: &mut Outgoing) {
        if let Some(giving) = &self.to[to.index()] {
            let transfer = giving.transfer;
            flows.push(to, &Frame::StateRefused { transfer, learner: false });
            self.end(to);
        }
    }

    /// The other side acknowledges something of a transfer, or wants it again. `log_goes_on`:
    /// where values are no longer kept the other side's machine continues from the state.
    pub fn on_frame(
        &mut self,
        from: Rank,
        frame: &Frame<'_>,
        now: Instant,
        (backlog, log_goes_on): (&Backlog, bool),
        flows: &mut Outgoing,
    ) {
        let Some(giving) = &mut self.to[from.index()] else {
            if let Frame::StateAgain { transfer, .. } = *frame {
                flows.push(from, &Frame::StateRefused { transfer, learner: false });
            }
            return;
        };
        match *frame {
            Frame::StateTaken { transfer, offset } if transfer == giving.transfer => {
                giving.heard_at = now;
                giving.take_until(offset);
                if giving.is_all_taken() {
                    self.send_values(from, (backlog, log_goes_on), flows);
                }
            }
            Frame::StateAgain { transfer, offset } => {
                giving.heard_at = now;
                if transfer != giving.transfer || !giving.rewind(offset) {
                    flows.push(from, &Frame::StateRefused { transfer, learner: false });
                    return;
                }
                self.send(from, flows);
                if self.to[from.index()].as_ref().is_some_and(Giving::is_all_taken) {
                    self.send_values(from, (backlog, log_goes_on), flows);
                }
            }
            Frame::ValuesTaken { transfer, next } if transfer == giving.transfer => {
                giving.heard_at = now;
                giving.next = next;
                self.send_values(from, (backlog, log_goes_on), flows);
            }
            _ => {}
        }
    }

    /// The value from which a transfer continues after `frame`, if values are its turn.
    pub fn values_from(&self, to: Rank, frame: &Frame<'_>) -> Option<Slot> {
        let giving = self.to[to.index()].as_ref()?;
        match *frame {
            Frame::StateTaken { transfer, offset } | Frame::StateAgain { transfer, offset } => {
                let is_all = giving.source.is_none() && offset == giving.made;
                (transfer == giving.transfer && is_all).then_some(giving.next)
            }
            Frame::ValuesTaken { transfer, next } if transfer == giving.transfer => Some(next),
            _ => None,
        }
    }

    /// The prefix to which the frame of values from `next` on leads.
    pub fn end_of_values(&self, next: Slot, backlog: &Backlog) -> Prefix {
        self.bounds.end_of_values(next, backlog)
    }

    /// The link to `peer` broke. What it has not acknowledged of a state is kept (I6), until it
    /// asks for that again, or for something else.
    pub fn on_link_down(&mut self, peer: Rank) {
        if let Some(giving) = &mut self.to[peer.index()] {
            giving.link_is_up = false;
        }
    }

    /// I4: gives up what no member asks for.
    pub fn sweep(&mut self, now: Instant) {
        for at in 0..MAX_MEMBERS {
            let until = self.to[at].as_ref().and_then(Giving::kept_until);
            if until.is_some_and(|until| until <= now) {
                self.end(Rank::at(at));
            }
        }
    }

    /// When to sweep.
    pub fn deadline(&self) -> Option<Instant> {
        self.to.iter().flatten().filter_map(Giving::kept_until).min()
    }

    /// What was made and is not on its way.
    fn send(&mut self, to: Rank, flows: &mut Outgoing) {
        let Some(giving) = self.to[to.index()].as_mut().filter(|of| of.link_is_up) else { return };
        let transfer = giving.transfer;
        for chunk in giving.chunks.range(giving.n_sent..) {
            let Chunk { offset, check, ref bytes } = *chunk;
            flows.push(to, &Frame::StateChunk { transfer, offset, check, bytes });
            self.n_bytes += bytes.len() as u64;
        }
        giving.n_sent = giving.chunks.len();
        if giving.source.is_none() && !giving.has_ended {
            giving.has_ended = true;
            let Giving { made: n_bytes, check, .. } = *giving;
            flows.push(to, &Frame::StateEnds { transfer, n_bytes, check });
        }
    }

    fn send_values(
        &mut self,
        to: Rank,
        (backlog, log_goes_on): (&Backlog, bool),
        flows: &mut Outgoing,
    ) {
        let Some(giving) = &mut self.to[to.index()] else { return };
        let end = self.bounds.end_of_values(giving.next, backlog);
        let mut slot = giving.next;
        self.values.clear();
        while end.contains(slot)
            && let Some(value) = backlog.value(slot)
        {
            push_item(&mut self.values, slot.0, value);
            slot = slot.next();
        }
        let is_overwritten = backlog.end().contains(slot) && backlog.value(slot).is_none();
        if is_overwritten && !log_goes_on {
            // The other side hears of it, and asks for a new state.
            return self.refuse(to, flows);
        }
        let last = is_overwritten || !backlog.end().contains(slot);
        let transfer = giving.transfer;
        let items = Items::check(&self.values).unwrap_or(Items::NONE); // our own: it parses
        flows.push(to, &Frame::Values { transfer, last, items });
        giving.is_over |= last;
    }
}

/// Whether all values after `have` are kept.
pub fn is_kept(have: Prefix, backlog: &Backlog) -> bool {
    have.next_slot() >= backlog.oldest() && have <= backlog.end()
}

impl Bounds {
    /// The end of the next frame's values. A member that has executed more than is here meanwhile
    /// gets an empty frame, which ends here.
    fn end_of_values(&self, next: Slot, backlog: &Backlog) -> Prefix {
        let (mut slot, mut n_bytes) = (next, 0);
        while n_bytes < self.values_bytes
            && backlog.end().contains(slot)
            && let Some(value) = backlog.value(slot)
        {
            n_bytes += ITEM_HEADER_BYTES + value.len();
            slot = slot.next();
        }
        slot.prefix_before().min(backlog.end())
    }
}

impl Giving {
    /// I3.
    fn has_room(&self, window_bytes: u64) -> bool {
        self.link_is_up && self.made < self.taken + window_bytes
    }

    /// I4: except for a member that has all of a state and may take long to install it; there is
    /// nothing to be kept for it.
    fn kept_until(&self) -> Option<Instant> {
        let keeps = !self.is_all_taken() || self.is_over || !self.link_is_up;
        keeps.then(|| self.heard_at.plus(KEPT_FOR))
    }

    fn take_until(&mut self, offset: u64) {
        while self.n_sent > 0 && self.chunks.front().is_some_and(|chunk| chunk.end() <= offset) {
            if let Some(chunk) = self.chunks.pop_front() {
                self.n_sent -= 1;
                self.taken = chunk.end();
            }
        }
    }

    /// The state continues at `offset`. False if that offset is no longer known here, or never was.
    fn rewind(&mut self, offset: u64) -> bool {
        self.take_until(offset);
        if offset != self.taken {
            return false;
        }
        (self.n_sent, self.has_ended, self.link_is_up) = (0, false, true);
        true
    }
}
