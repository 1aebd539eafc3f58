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
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;
use base::{Instant, Port, Rank};
use core::time::Duration;

/// The most messages that are held for a state that has not come.
pub(super) const HELD_MAX: usize = 4096;

/// The number of times that the wait for a first piece is doubled.
const N_DOUBLED_MAX: u32 = 5;

/// Whether a message at `position` follows a state that covers everything before `at` (V9).
pub(super) fn follows(position: Position, at: Position, planted: impl Planting<Bug>) -> bool {
    let is_next = position == at && !planted.has(Bug::HeldOffByOne);
    position > at || is_next || planted.has(Bug::StateRepeated)
}

/// The states that this member gives; `None` while its application makes one. A newcomer that asks
/// again is given the same one.
#[derive(Debug, Default)]
pub(super) struct Gifts(BTreeMap<(Rank, ShardId), Option<Gift>>);

#[derive(Debug)]
struct Gift {
    at: Position,
    bytes: Vec<u8>,
    /// The number of bytes that were sent; `None` before the first piece, which may be empty.
    n_sent: Option<usize>,
}

impl Gifts {
    /// Takes it that `to` wants a state. Whether the application has to make one.
    pub(super) fn want(&mut self, to: Rank, shard: ShardId) -> bool {
        let place = self.0.entry((to, shard));
        let is_new = matches!(place, Entry::Vacant(_));
        place.or_insert(None);
        is_new
    }

    /// Gives `bytes`, which cover everything before `at`, in place of what was given before.
    pub(super) fn give(&mut self, to: Rank, shard: ShardId, at: Position, bytes: Vec<u8>) {
        self.0.insert((to, shard), Some(Gift { at, bytes, n_sent: None }));
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
        self.0.retain(|(to, shard), gift| {
            gift.as_mut().is_none_or(|gift| !gift.send(*to, *shard, port))
        });
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
    /// The member that was asked last, or whose pieces come, and when it was asked or sent one.
    asked: Option<(Rank, Instant)>,
    /// The number of questions since a piece came: a state may take long to make.
    n_silent: u32,
    /// The member whose state comes, its position, and its length.
    parts: Option<(Rank, Position, u64)>,
    bytes: Vec<u8>,
    /// Messages that views ended with meanwhile, in order.
    pub(super) held: Vec<Delivery>,
}

impl Want {
    pub(super) const fn new(since: ViewId) -> Want {
        Want { since, asked: None, n_silent: 0, parts: None, bytes: Vec::new(), held: Vec::new() }
    }

    /// The member to ask now, if one is to be asked: the next of `givers` in turn. The wait for a
    /// first piece begins with `patience`, and doubles with each question. One that has begun may
    /// continue, also when another one is asked.
    pub(super) fn ask(
        &mut self,
        mut givers: impl Iterator<Item = Rank> + Clone,
        patience: Duration,
        now: Instant,
    ) -> Option<Rank> {
        let (last, at) = self.asked.map_or((None, now), |(last, at)| (Some(last), at));
        let is_there = last.is_some_and(|last| givers.clone().any(|giver| giver == last));
        let n_times = 1 << self.n_silent.saturating_sub(1).min(N_DOUBLED_MAX);
        let span = patience.saturating_mul(n_times);
        if self.complete().is_some() || is_there && now.since(at) < span {
            return None;
        }
        let mut behind = givers.clone().skip_while(|giver| last.is_some_and(|last| last != *giver));
        let next = if last.is_some() { behind.nth(1) } else { behind.next() };
        let giver = next.or_else(|| givers.next())?;
        self.asked = Some((giver, now));
        self.n_silent = self.n_silent.saturating_add(1);
        Some(giver)
    }

    /// Takes a piece of the member whose state comes; the first one of that which was asked last,
    /// and if no state comes, of any that was asked.
    pub(super) fn take(
        &mut self,
        from: Rank,
        piece: &Piece<'_>,
        now: Instant,
        planted: impl Planting<Bug>,
    ) {
        let Some((asked, _)) = self.asked else { return };
        if self.complete().is_some() {
            return;
        }
        // V9: of what came before, nothing was received here.
        if piece.at.view < self.since && !planted.has(Bug::TakesTheOld) {
            return;
        }
        let may_begin = from == asked || self.parts.is_none_or(|(giver, ..)| giver == from);
        if piece.offset == 0 && may_begin {
            self.parts = Some((from, piece.at, piece.n_bytes));
            self.bytes.clear();
        }
        let is_next = self.parts == Some((from, piece.at, piece.n_bytes))
            && piece.offset == self.bytes.len() as u64
            && piece.offset + piece.bytes.len() as u64 <= piece.n_bytes;
        if is_next {
            (self.asked, self.n_silent) = (Some((from, now)), 0);
            self.bytes.extend(piece.bytes);
        }
    }

    /// The position of the state, once all of it is here.
    pub(super) fn complete(&self) -> Option<Position> {
        let (_, at, n_bytes) = self.parts?;
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
    use crate::value::Region;

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
        want.take(Rank::at(4), &piece(3, b"t"), at(18), Sound);
        assert_eq!(
            want.bytes(),
            b"stat",
            "one that stood still continues, though another was asked"
        );
        assert_eq!(want.ask(givers(), patience, at(40)), Some(Rank::at(1)));
        assert_eq!(want.ask(givers(), patience, at(60)), Some(Rank::at(3)), "and in turn");
        want.take(Rank::at(4), &piece(0, b"sta"), at(61), Sound);
        want.take(Rank::at(4), &piece(3, b"te!"), at(62), Sound);
        assert_eq!(want.complete(), Some(piece(0, b"").at));
        assert_eq!(want.ask(givers(), patience, at(90)), None);
        assert_eq!(want.finish().0, b"state!"[..6]);
    }

    #[test]
    fn v9_a_state_that_takes_long_is_asked_for_less_and_less_and_comes_once() {
        let patience = Duration::from_millis(10);
        let (at, giver) = (|ms| Instant(ms * MS), Rank::at(4));
        let (mut want, mut asked) = (Want::new(ViewId(2)), Vec::new());
        for ms in 0..=1000 {
            if want.ask([giver].into_iter(), patience, at(ms)).is_some() {
                asked.push(ms);
            }
        }
        assert_eq!(asked, [0, 10, 30, 70, 150, 310, 630, 950]);
        want.take(giver, &piece(0, b"sta"), at(1000), Sound);
        assert_eq!(want.ask([giver].into_iter(), patience, at(1010)), Some(giver));
        want.take(giver, &piece(3, b"te!"), at(1011), Sound);
        assert_eq!(want.complete(), Some(piece(0, b"").at), "it continued");
    }

    #[test]
    fn v9_of_two_slow_givers_the_first_whose_state_begins_gives_it() {
        let givers = || [4, 1].map(Rank::at).into_iter();
        let (patience, at) = (Duration::from_millis(10), |ms| Instant(ms * MS));
        let mut want = Want::new(ViewId(2));
        let asked = [0, 10].map(|ms| want.ask(givers(), patience, at(ms)));
        assert_eq!(asked, [4, 1].map(|seat| Some(Rank::at(seat))));
        want.take(Rank::at(4), &piece(0, b"sta"), at(11), Sound);
        want.take(Rank::at(1), &piece(0, b"sta"), at(12), Sound);
        assert_eq!(want.ask(givers(), patience, at(20)), None, "its pieces come");
        want.take(Rank::at(4), &piece(3, b"te!"), at(21), Sound);
        assert_eq!(want.complete(), Some(piece(0, b"").at));
        let mut want = Want::new(ViewId(2));
        want.ask(givers(), patience, at(0));
        let others = || [1].map(Rank::at).into_iter();
        assert_eq!(want.ask(others(), patience, at(1)), Some(Rank::at(1)), "4 is gone");
    }

    #[test]
    fn a_giver_that_is_asked_again_makes_no_other_state() {
        let (mut gifts, to, shard) = (Gifts::default(), Rank::at(2), ShardId::default());
        assert!(gifts.want(to, shard));
        assert!(!gifts.want(to, shard), "its application makes it");
        gifts.give(to, shard, piece(0, b"").at, b"state!".to_vec());
        assert!(!gifts.want(to, shard), "it is on its way");
        // (A link without room sends nothing.)
        gifts.send(&mut Region::default());
        assert!(!gifts.want(to, shard), "it is not all sent");
        gifts.stop(to);
        assert!(gifts.want(to, shard), "what was sent is lost");
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
