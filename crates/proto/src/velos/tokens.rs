//! The token of a verb: kind, a number that distinguishes attempts, and a slot or a ticket.
//!
//! A term's verbs complete for that term, however many have begun since (`terms`). A fetch's number
//! is kept modulo 2^16, which suffices: it is for a slot that is decided, as was every earlier READ
//! for the same slot, whose answer is equally good.

use super::*;
use crate::terms::NUMBER_BITS;

pub(super) const PREPARE: u8 = 1;
pub(super) const ACCEPT: u8 = 2;
pub(super) const ADOPT: u8 = 3;
pub(super) const FETCH_WORDS: u8 = 4;
pub(super) const FETCH_VALUE: u8 = 5;
pub(super) const READ: u8 = 6;
pub(super) const SEAL: u8 = 7;
pub(super) const SURVEY: u8 = 8;
pub(super) const FETCH_HORIZONS: u8 = 9;
pub(super) const READ_HORIZONS: u8 = 10;
pub(super) const MEET: u8 = 11;

const LOW_BITS: u32 = 44;

pub(super) const fn make(kind: u8, number: u32, low: u64) -> Token {
    assert!(low < 1 << LOW_BITS);
    let number = number as u64 & ((1 << NUMBER_BITS) - 1);
    Token((kind as u64) << (LOW_BITS + NUMBER_BITS) | number << LOW_BITS | low)
}

pub(super) const fn split(token: Token) -> (u8, u32, u64) {
    (
        (token.0 >> (LOW_BITS + NUMBER_BITS)) as u8,
        (token.0 >> LOW_BITS) as u32 & ((1 << NUMBER_BITS) - 1),
        token.0 & ((1 << LOW_BITS) - 1),
    )
}

impl<P: Planting<Bug>, W: Widths> Machine<P, W> {
    pub(super) fn on_completed<H: Host>(
        &mut self,
        from: Rank,
        token: Token,
        outcome: Outcome<'_>,
        host: &mut H,
    ) {
        let (kind, number, low) = split(token);
        match kind {
            PREPARE | ACCEPT | SURVEY | ADOPT => {
                let is_full = !self.ring.terms.may_post(from);
                let term = self.ring.terms.settle(from, number);
                self.on_completed_in(term, from, kind, Slot(low), outcome, host);
                if is_full && self.ring.terms.may_post(from) {
                    // The verbs that this term had to hold back (I6) are posted.
                    self.repost(from, host);
                }
            }
            FETCH_WORDS => self.on_fetched_words(from, Slot(low), number, outcome),
            FETCH_VALUE => self.on_fetched_value(from, Slot(low), number, outcome),
            FETCH_HORIZONS => self.on_fetched_horizons(from, Slot(low), number, outcome, host),
            READ => self.on_read_words(from, low, outcome),
            READ_HORIZONS => self.on_read_horizons(from, low, outcome, host),
            MEET => self.on_met(from, outcome, host),
            SEAL => self.on_sealed(Slot(low), outcome, host),
            _ => unreachable!("a token that this machine never made"),
        }
    }

    /// Handles the completion of a verb that `term` has posted about `slot`.
    fn on_completed_in<H: Host>(
        &mut self,
        term: u32,
        from: Rank,
        kind: u8,
        slot: Slot,
        outcome: Outcome<'_>,
        host: &mut H,
    ) {
        match kind {
            SURVEY => self.on_surveyed(from, term, slot, outcome, host),
            ADOPT => self.on_adopted_value(from, term, slot, outcome, host),
            _ => {
                let Outcome::Before(before) = outcome else {
                    return self.on_cas_lost(from, term, slot, host);
                };
                if kind == PREPARE {
                    self.on_prepare_completed(from, term, slot, before, host);
                } else {
                    self.on_accept_completed(from, term, slot, before, host);
                }
            }
        }
    }

    /// The token for a verb of this term to `to`.
    pub(super) fn token_of_term(&mut self, kind: u8, to: Rank, slot: Slot) -> Token {
        make(kind, self.ring.terms.post(to), slot.0)
    }
}
