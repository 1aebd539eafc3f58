//! The state of a shard on its way to a newcomer: the second of two steps. The first is the
//! view, in which the newcomer counts from then on.
//!
//! - V9 *State, then what follows it.* A newcomer delivers nothing before it has the state, and
//!   then exactly what the state does not cover. A state names the position that it covers
//!   everything before; the newcomer has received everything from its first view on, so any such
//!   position will do, and any member that has the state can give it. One that was made in a view
//!   before is of a time at which the newcomer was not in the shard. Mutants `NO_STATE`,
//!   `STATE_REPEATED`, `HELD_OFF_BY_ONE`, `MOVED_IS_READY`, `TAKES_THE_OLD`.
//!
//! In a group without states a newcomer is ready at once, and delivers its first view from the
//! beginning: there is nothing that those messages would be applied to too early.
//!
//! Meanwhile the newcomer leaves what is stable in the rings, which holds the senders up when their
//! window is full. Only what the end of a view delivers is held in memory, up to a bound.

use super::bugs::Bug;
use super::shard::{ShardId, ViewId};
use super::wire::{Message, PIECE_BYTES, Piece};
use super::{Delivery, Position};
use crate::planted::Planting;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use base::{Instant, Port, Rank};
use core::time::Duration;

/// The most messages that are held for a state that has not come.
pub(super) const HELD_MAX: usize = 4096;

/// Whether a message at `position` follows a state that covers everything before `at` (V9).
pub(super) fn follows(position: Position, at: Position, planted: impl Planting<Bug>) -> bool {
    let is_next = position == at && !planted.has(Bug::HeldOffByOne);
    position > at || is_next || planted.has(Bug::StateRepeated)
}

/// The states that this member gives.
#[derive(Debug, Default)]
pub(super) struct Gifts(BTreeMap<(Rank, ShardId), Gift>);

#[derive(Debug)]
struct Gift {
    at: Position,
    bytes: Vec<u8>,
    /// The number of bytes that were sent; `None` before the first piece, which may be empty.
    n_sent: Option<usize>,
}

impl Gifts {
    /// Gives `bytes`, which cover everything before `at`, in place of what was given before.
    pub(super) fn give(&mut self, to: Rank, shard: ShardId, at: Position, bytes: Vec<u8>) {
        self.0.insert((to, shard), Gift { at, bytes, n_sent: None });
    }

    /// Stops giving to `to`: its link broke, so that pieces are lost.
    pub(super) fn stop(&mut self, to: Rank) {
        self.0.retain(|(other, _), _| *other != to);
    }

    /// Gives to those alone that `holds` of.
    pub(super) fn keep(&mut self, holds: impl Fn(Rank, ShardId) -> bool) {
        self.0.retain(|(to, shard), _| holds(*to, *shard));
    }

    /// Sends as many pieces as there is room for.
    pub(super) fn send(&mut self, port: &mut impl Port) {
        self.0.retain(|(to, shard), gift| !gift.send(*to, *shard, port));
    }
}

impl Gift {
    /// True once everything is sent.
    fn send(&mut self, to: Rank, shard: ShardId, port: &mut impl Port) -> bool {
        while self.n_sent.is_none_or(|n| n < self.bytes.len()) {
            let offset = self.n_sent.unwrap_or(0);
            let end = self.bytes.len().min(offset + PIECE_BYTES);
            let piece = Piece {
                shard,
                at: self.at,
                n_bytes: self.bytes.len() as u64,
                offset: offset as u64,
                bytes: &self.bytes[offset..end],
            };
            if !port.send(to, &Message::Piece(piece).encoded()) {
                return false;
            }
            self.n_sent = Some(end);
        }
        true
    }
}

/// A newcomer's wait for the state of its shard.
#[derive(Debug)]
pub(super) struct Want {
    /// The first view in which it is in the shard.
    since: ViewId,
    /// The member that was asked last, and when it was asked or last sent a piece.
    asked: Option<(Rank, Instant)>,
    /// What has come of a state, and its length.
    parts: Option<(Position, u64)>,
    bytes: Vec<u8>,
    /// Messages that views ended with meanwhile, in order.
    pub(super) held: Vec<Delivery>,
}

impl Want {
    pub(super) const fn new(since: ViewId) -> Want {
        Want { since, asked: None, parts: None, bytes: Vec::new(), held: Vec::new() }
    }

    /// The member to ask now, if one is to be asked: the next of `givers` in turn.
    pub(super) fn ask(
        &mut self,
        mut givers: impl Iterator<Item = Rank> + Clone,
        patience: Duration,
        now: Instant,
    ) -> Option<Rank> {
        let (last, at) = self.asked.map_or((None, now), |(last, at)| (Some(last), at));
        if self.complete().is_some() || last.is_some() && now.since(at) < patience {
            return None;
        }
        let mut behind = givers.clone().skip_while(|giver| last.is_some_and(|last| last != *giver));
        let next = if last.is_some() { behind.nth(1) } else { behind.next() };
        let giver = next.or_else(|| givers.next())?;
        (self.asked, self.parts) = (Some((giver, now)), None);
        self.bytes.clear();
        Some(giver)
    }

    /// Takes a piece of the member that was asked.
    pub(super) fn take(
        &mut self,
        from: Rank,
        piece: &Piece<'_>,
        now: Instant,
        planted: impl Planting<Bug>,
    ) {
        if self.asked.is_none_or(|(asked, _)| asked != from) || self.complete().is_some() {
            return;
        }
        // V9: of what came before, nothing was received here.
        if piece.at.view < self.since && !planted.has(Bug::TakesTheOld) {
            return;
        }
        if piece.offset == 0 {
            self.parts = Some((piece.at, piece.n_bytes));
            self.bytes.clear();
        }
        let is_next = self.parts == Some((piece.at, piece.n_bytes))
            && piece.offset == self.bytes.len() as u64
            && piece.offset + piece.bytes.len() as u64 <= piece.n_bytes;
        if is_next {
            self.asked = Some((from, now));
            self.bytes.extend(piece.bytes);
        }
    }

    /// The position of the state, once all of it is here.
    pub(super) fn complete(&self) -> Option<Position> {
        let (at, n_bytes) = self.parts?;
        (self.bytes.len() as u64 == n_bytes).then_some(at)
    }

    /// What has come of the state.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The state's bytes, and what was held.
    pub(super) fn finish(self) -> (Vec<u8>, Vec<Delivery>) {
        (self.bytes, self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::Sound;

    const MS: u64 = 1_000_000;

    fn piece(offset: u64, bytes: &[u8]) -> Piece<'_> {
        Piece {
            shard: ShardId::default(),
            at: Position { view: ViewId(2), at: 5 },
            n_bytes: 6,
            offset,
            bytes,
        }
    }

    #[test]
    fn v9_a_state_is_whole_or_asked_for_again_elsewhere() {
        let givers = || [4, 1, 3].map(Rank::at).into_iter();
        let patience = Duration::from_millis(10);
        let mut want = Want::new(ViewId(2));
        let at = |ms| Instant(ms * MS);
        assert_eq!(want.ask(givers(), patience, at(0)), Some(Rank::at(4)));
        want.take(Rank::at(4), &piece(0, b"sta"), at(5), Sound);
        want.take(Rank::at(1), &piece(3, b"te!"), at(6), Sound);
        assert_eq!(want.ask(givers(), patience, at(12)), None, "a piece has come");
        assert_eq!(want.ask(givers(), patience, at(16)), Some(Rank::at(1)));
        want.take(Rank::at(1), &piece(3, b"te!"), at(17), Sound);
        assert_eq!(want.complete(), None, "pieces of two givers are not one state");
        assert_eq!(want.ask(givers(), patience, at(40)), Some(Rank::at(3)));
        assert_eq!(want.ask(givers(), patience, at(60)), Some(Rank::at(4)), "and in turn");
        want.take(Rank::at(4), &piece(0, b"sta"), at(61), Sound);
        want.take(Rank::at(4), &piece(3, b"te!"), at(62), Sound);
        assert_eq!(want.complete(), Some(piece(0, b"").at));
        assert_eq!(want.ask(givers(), patience, at(90)), None);
        assert_eq!(want.finish().0, b"state!"[..6]);
    }

    #[test]
    fn v9_the_first_message_that_a_state_does_not_cover_is_the_one_at_its_position() {
        let at = |at| Position { view: ViewId(2), at };
        let told = |planted: Option<Bug>| [4, 5, 6].map(|one| follows(at(one), at(5), planted));
        assert_eq!(told(None), [false, true, true]);
        assert_eq!(told(Some(Bug::HeldOffByOne)), [false, false, true]);
        assert_eq!(told(Some(Bug::StateRepeated)), [true; 3]);
    }

    #[test]
    fn v9_a_state_of_a_time_before_the_newcomer_is_none() {
        let taken = |since, planted: Option<Bug>| {
            let mut want = Want::new(ViewId(since));
            let now = Instant(0);
            want.ask([Rank::at(4)].into_iter(), Duration::from_millis(10), now);
            want.take(Rank::at(4), &piece(0, b"state!"), now, planted);
            want.complete().is_some()
        };
        assert!(taken(2, None) && !taken(3, None) && taken(3, Some(Bug::TakesTheOld)));
    }
}
