//! What this process has done for others, so that it is done once however often it is asked for.
//!
//! ```text
//! caller   number 7, open from 5 on  ->  unknown: do it, keep what is told; known: tell it again
//! ```
//! - D1 *Once.* A letter can be lost, and is asked for again. The call of a number has one outcome
//!   here, also one that is declined: what was told of it first is told again. Tested by
//!   `d1_what_was_told_first_is_told_again`.
//! - D2 *Until it is known.* A caller says from which number on it waits for outcomes; what is
//!   before that is forgotten, and not done any longer. Tested by the same.
//! - D3 *Bounds.* A caller's open calls are at most [`OPEN_MAX`] numbers apart, so that as many
//!   outcomes are kept for it. Tested by `d3_no_more_is_open_than_there_is_room_for`.
//! - D4 *This process.* A call names the process that is to execute it: a later one on its seat
//!   does not. By construction of `Host::take_letter`.

use crate::event::{Member, View};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most numbers between a caller's first open call and its last.
pub(super) const OPEN_MAX: u64 = 32;

/// The number of a call, among those of one caller that have outcomes of their own at one member
/// (or, if all are asked for their replies, at each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Once {
    pub(super) number: u64,
    /// The number of earlier ones from the first on that is open.
    pub(super) n_open: u8,
}

impl Once {
    pub(super) const BYTES: usize = 9;

    pub(super) fn encode(self) -> [u8; Once::BYTES] {
        let mut bytes = [self.n_open; Once::BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<(Once, &[u8])> {
        let (number, rest) = bytes.split_first_chunk()?;
        let ([n_open], rest) = rest.split_first_chunk()?;
        Some((Once { number: u64::from_le_bytes(*number), n_open: *n_open }, rest))
    }
}

// ---- the caller ----

/// The calls of this process in one row of numbers.
#[derive(Debug, Default)]
pub(super) struct Open {
    last: u64,
    /// Tickets by numbers.
    tickets: BTreeMap<u64, u64>,
}

impl Open {
    /// Whether there is room for one more call (D3).
    pub(super) fn has_room(&self) -> bool {
        self.tickets.first_key_value().is_none_or(|(first, _)| self.last + 1 - first < OPEN_MAX)
    }

    /// The number of a call with this ticket, if there is room.
    pub(super) fn enter(&mut self, ticket: u64) -> Option<Once> {
        if !self.has_room() {
            return None;
        }
        self.last += 1;
        self.tickets.insert(self.last, ticket);
        let first = self.tickets.first_key_value().map_or(self.last, |(first, _)| *first);
        Some(Once { number: self.last, n_open: (self.last - first) as u8 })
    }

    /// Takes it that nothing is waited for of this number.
    pub(super) fn close(&mut self, number: u64) {
        self.tickets.remove(&number);
    }

    /// Numbers and tickets.
    pub(super) fn tickets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.tickets.iter().map(|(number, ticket)| (*number, *ticket))
    }
}

// ---- the member that is asked ----

/// What is asked for: each has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// To execute a p2p method.
    P2p,
    /// To reply to a call that each member executes.
    Each,
}

/// What is known of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing: it was not asked for before.
    New,
    /// The letter that told of it.
    Told(Vec<u8>),
    /// Its caller waits for nothing of it.
    Past,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Done(Mutex<BTreeMap<(Member, Kind), Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// The first number that may be open.
    first: u64,
    letters: BTreeMap<u64, Vec<u8>>,
}

impl Done {
    fn inner(&self) -> MutexGuard<'_, BTreeMap<(Member, Kind), Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for the call of `caller` with this number, and forgets what is past (D2).
    pub(super) fn look(&self, caller: Member, kind: Kind, once: Once) -> Known {
        let mut inner = self.inner();
        let kept = inner.entry((caller, kind)).or_default();
        kept.first = kept.first.max(once.number.saturating_sub(once.n_open.into()));
        kept.letters = kept.letters.split_off(&kept.first);
        match kept.letters.get(&once.number) {
            _ if once.number < kept.first => Known::Past,
            Some(letter) => Known::Told(letter.clone()),
            None => Known::New,
        }
    }

    /// Keeps what its caller is told of a call that was looked for.
    pub(super) fn keep(&self, caller: Member, kind: Kind, number: u64, letter: Vec<u8>) {
        let mut inner = self.inner();
        let kept = inner.entry((caller, kind)).or_default();
        let told = kept.letters.insert(number, letter);
        assert!(told.is_none(), "D1: a call has one outcome");
    }

    /// Forgets callers that are not in `view`.
    pub(super) fn keep_members(&self, view: &View) {
        self.inner().retain(|(caller, _), _| view.members.contains(caller));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: Member = Member { seat: 2, incarnation: 7, metadata: [0; 2] };

    #[test]
    fn d1_what_was_told_first_is_told_again() {
        let done = Done::default();
        let look = |number, n_open| done.look(CALLER, Kind::P2p, Once { number, n_open });
        assert_eq!(look(1, 0), Known::New);
        done.keep(CALLER, Kind::P2p, 1, b"declined".to_vec());
        assert_eq!(look(2, 1), Known::New);
        done.keep(CALLER, Kind::P2p, 2, b"two".to_vec());
        assert_eq!(look(1, 0), Known::Told(b"declined".to_vec()));
        // D2: the first one is known to its caller, and the second one is open.
        assert_eq!(look(3, 1), Known::New);
        assert_eq!(look(1, 0), Known::Past, "a letter that was on its way is not done again");
        assert_eq!(look(2, 1), Known::Told(b"two".to_vec()));
        let later = Member { incarnation: 8, ..CALLER };
        assert_eq!(done.look(later, Kind::P2p, Once { number: 2, n_open: 1 }), Known::New);
    }

    #[test]
    fn d3_no_more_is_open_than_there_is_room_for() {
        let (mut open, done) = (Open::default(), Done::default());
        let call = |open: &mut Open, ticket| {
            let once = open.enter(ticket)?;
            assert_eq!(Once::decode(&once.encode()), Some((once, &[][..])));
            assert_eq!(done.look(CALLER, Kind::P2p, once), Known::New);
            done.keep(CALLER, Kind::P2p, once.number, Vec::new());
            Some(once.number)
        };
        let first = call(&mut open, 1).expect("there is room");
        // The others end at once; that the first one does not keeps what is behind it.
        for ticket in 2..=OPEN_MAX {
            let number = call(&mut open, ticket).expect("there is room");
            open.close(number);
        }
        assert_eq!(call(&mut open, 99), None);
        let n_kept = |done: &Done| done.inner()[&(CALLER, Kind::P2p)].letters.len() as u64;
        assert_eq!(open.tickets().collect::<Vec<_>>(), [(first, 1)]);
        open.close(first);
        assert_eq!(call(&mut open, 100), Some(OPEN_MAX + 1));
        assert_eq!(n_kept(&done), 1, "the others are forgotten");
    }
}
