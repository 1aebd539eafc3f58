//! The term of a completion, however long its verb was under way.
//!
//! A token has room for the lower 16 bits of a term's number, and a verb may be under way for more
//! than 2^16 terms: one link stands still while two candidates depose each other for an hour. The
//! completions of one link come in posting order (T4), so a queue for each link, of the terms that
//! have posted the verbs under way, identifies the term exactly.
//!
//! - I1 A completion counts for the term that has posted its verb, and for no other. By
//!   construction; [`Terms::settle`] asserts that the bits in the token agree (T4).
//! - I2 Verbs of at most [`UNANSWERED_MAX`] terms are under way to one member: when that many terms
//!   are unanswered, no verb that counts for a term is posted to the member until it answers.
//!   (Verbs that count for no term still are: horizons, facts, READs.) Asserted in [`Terms::post`].

use alloc::collections::VecDeque;
use base::{MAX_MEMBERS, Rank};

/// The number of terms that may wait for the same member's answers. More would not tell it anything
/// new: the last post takes effect last (T2).
pub(crate) const UNANSWERED_MAX: usize = 64;
/// The number of bits of a term's number in a token.
pub(crate) const NUMBER_BITS: u32 = 16;

/// Consecutive verbs of one term to one member.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Posted {
    term: u32,
    n_verbs: u32,
}

/// The verbs under way to one member, by the terms that have posted them.
#[derive(Clone, Debug, Default, Hash)]
struct Link {
    /// The terms before the last; each has verbs under way. It is empty except for links that stand
    /// still.
    earlier: VecDeque<Posted>,
    /// The last term that has posted; its verbs may be completed.
    last: Posted,
}

impl Link {
    const fn is_idle(&self) -> bool {
        // (Verbs that were posted before the last term's complete before them.)
        self.last.n_verbs == 0
    }
}

/// The terms of one member so far, and those that have verbs under way.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Terms {
    newest: u32,
    links: [Link; MAX_MEMBERS],
}

impl Terms {
    /// Begins a term.
    pub(crate) const fn begin(&mut self) {
        self.newest += 1;
    }

    /// The number of the present term, or of the last one; zero before the first.
    pub(crate) const fn newest(&self) -> u32 {
        self.newest
    }

    /// I2: whether this term may post to `to`.
    pub(crate) fn may_post(&self, to: Rank) -> bool {
        let Link { earlier, last } = &self.links[to.index()];
        earlier.len() < UNANSWERED_MAX - 1 || last.term == self.newest
    }

    /// Whether no verb of any term is under way to `to`.
    pub(crate) const fn is_idle(&self, to: Rank) -> bool {
        self.links[to.index()].is_idle()
    }

    /// Counts a verb of this term that is posted to `to`. Returns the term's bits for its token.
    pub(crate) fn post(&mut self, to: Rank) -> u32 {
        let term = self.newest;
        let link = &mut self.links[to.index()];
        if link.last.term != term {
            let n_under_way = link.earlier.len() + usize::from(!link.is_idle());
            let is_bounded = n_under_way < UNANSWERED_MAX;
            assert!(is_bounded, "I2: {to} has answered nothing of {UNANSWERED_MAX} terms");
            if !link.is_idle() {
                link.earlier.push_back(link.last);
            }
            link.last = Posted { term, n_verbs: 0 };
        }
        link.last.n_verbs += 1;
        term & ((1 << NUMBER_BITS) - 1)
    }

    /// Notes the completion of the verb that was posted first to `from`, of those under way; `bits`
    /// are its token's. Returns its term.
    pub(crate) fn settle(&mut self, from: Rank, bits: u32) -> u32 {
        let Link { earlier, last } = &mut self.links[from.index()];
        let first = earlier.front_mut().unwrap_or(last);
        assert!(first.n_verbs > 0, "I1: {from} completes a verb that is not under way");
        let term = first.term;
        let agrees = term & ((1 << NUMBER_BITS) - 1) == bits;
        assert!(agrees, "I1: {from} completes a verb of {bits:#x} before one of term {term}");
        first.n_verbs -= 1;
        if first.n_verbs == 0 {
            // (This removes nothing if the verb was of the last term.)
            earlier.pop_front();
        }
        term
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Rank = Rank::at(1);

    #[test]
    fn i1_a_verb_that_stands_still_for_65536_terms_is_of_the_term_that_posted_it() {
        let mut terms = Terms::default();
        terms.begin();
        let bits = terms.post(PEER);
        (0..1 << NUMBER_BITS).for_each(|_| terms.begin());
        assert_eq!(terms.post(PEER), bits, "the token does not tell them apart");
        assert_eq!(terms.settle(PEER, bits), 1);
        assert_eq!(terms.settle(PEER, bits), 1 + (1 << NUMBER_BITS));
    }

    #[test]
    #[should_panic(expected = "I1")]
    fn i1_a_completion_out_of_order_is_noticed() {
        let mut terms = Terms::default();
        terms.begin();
        terms.post(PEER);
        terms.begin();
        let second = terms.post(PEER);
        terms.settle(PEER, second);
    }

    #[test]
    fn i2_a_member_that_answers_nothing_is_posted_nothing_more_until_it_answers() {
        let mut terms = Terms::default();
        for _ in 0..UNANSWERED_MAX {
            terms.begin();
            terms.post(PEER);
        }
        assert!(terms.may_post(PEER), "the term that has begun goes on");
        terms.begin();
        assert!(!terms.may_post(PEER));
        assert!(terms.may_post(Rank::at(2)));
        terms.settle(PEER, 1);
        assert!(terms.may_post(PEER));
    }
}
