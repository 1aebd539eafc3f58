//! One slot: streamlined one-sided abortable consensus (Algorithm 5 of paper 001), as printed but
//! for the errata.
//!
//! **Purpose.** The smallest machine that shows why Velos is safe, small enough to be explored
//! whole (crate `model`). The log in this folder is the same algorithm with many slots under way.
//!
//! **Assumes** FIFO links (T2, T4: completions in posting order) and atomic CAS (T6). Links do not
//! break here: a broken link's predictions die with it, which the log handles.
//!
//! **Invariants**
//! - I1 A value is accepted under a ballot only after a majority's prepares *completed* and none of
//!   those failed; and it is the accepted value with the highest ballot among what they returned,
//!   or the own value if they returned none. By construction: `on_majority` is the only place.
//! - I2 A ballot is used for one prepare only, so one (slot, ballot) never has two values. Asserted
//!   in `propose`.
//! - I3 The prediction for an acceptor is its word after every CAS posted to it, if those under way
//!   succeed. By construction: posting and the newest completion are its only writers.
//!
//! ```text
//! Idle -propose-> Preparing -majority, none failed-> Accepting -majority, none failed-> Decided
//!   ^                 | one failed                       | one failed
//!   +-----------------+----------------------------------+        (abort; propose again)
//! ```
//!
//! **Cost**: two CASes to each acceptor if the predictions are right.
//!
//! **Differs from the paper.** Lines 27-34: a CAS has failed if the word read differs from what was
//! predicted *before* lines 29 and 31 overwrite the prediction ([`Variant::PRINTED_TEST`] does as
//! the listing does). Line 37: values are taken from the words that this prepare's completed CASes
//! returned. Taking them from the predictions as well, *after* a majority has confirmed its own, is
//! harmless (`model` explores it whole: a prediction is either a word that was read or a proposal
//! that was made by right); taking them without waiting is not ([`Variant::ADOPT_EARLY`]). Line 17:
//! each prepare takes a ballot above the last one (I2), whatever was predicted.

use super::word::{Generation, Packing, SlotWord, Tag};
use base::{Ballot, MAX_MEMBERS, Rank, majority};
use core::fmt::Debug;
use core::hash::Hash;
use core::marker::PhantomData;

/// One way to build the machine: sound, or with a bug that the model must find.
pub trait Variant: Copy + Debug + Eq + Hash + 'static {
    /// The name in reports.
    const NAME: &'static str;
    /// The widths of the word.
    const PACKING: Packing = Packing::new(2, 8);

    /// Whether lines 27-34 are as printed: the word read is compared with the overwritten
    /// prediction.
    const PRINTED_TEST: bool = false;
    /// Whether the value is taken from the predictions, without waiting for the prepares' words.
    const ADOPT_EARLY: bool = false;
    /// Whether predictions count too, after a majority has confirmed its own. This is harmless.
    const ADOPT_FROM_PREDICTIONS: bool = false;
    /// Whether the own value is proposed although the prepares found one.
    const IGNORE_FOUND_VALUE: bool = false;
    /// Whether the found value with the lowest ballot is adopted.
    const ADOPT_LOWEST: bool = false;
    /// Whether one acceptor is enough.
    const IGNORE_MAJORITY: bool = false;
    /// Whether a failed CAS counts as one that succeeded.
    const COUNT_FAILED: bool = false;
}

/// Algorithm 5 without a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sound {}

impl Variant for Sound {
    const NAME: &'static str = "sound";
}

/// A CAS to post to one acceptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cas {
    /// The predicted word.
    pub expected: u64,
    /// The word that replaces it.
    pub desired: u64,
}

/// The result of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No result yet.
    Waiting,
    /// The attempt was obstructed: propose again.
    Aborted,
    /// This value is decided.
    Decided(Tag),
}

/// The error of ballots that no longer fit the word: this slot must use messages (section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    Idle,
    Preparing,
    Accepting { tag: u8 },
    Decided { tag: u8 },
}

/// The knowledge of a proposer about one acceptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// The acceptor's word, if everything under way succeeds (I3).
    predicted: u64,
    /// The word that the newest CAS expects.
    expected: u64,
    /// The word that the newest CAS found; `None` while it is under way.
    returned: Option<u64>,
    /// The number of CASes under way that were posted before the newest.
    n_older: u8,
    /// Whether the newest was posted in the present attempt's phase.
    counts: bool,
}

/// One proposer of one slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Single<V> {
    me: Rank,
    members: u8,
    own: u8,
    ballot: Ballot,
    phase: Phase,
    seats: [Seat; MAX_MEMBERS],
    variant: PhantomData<V>,
}

impl<V: Variant> Single<V> {
    /// The proposer `me` of `members`, with the value that `own` names.
    pub fn new(me: Rank, members: usize, own: Tag) -> Single<V> {
        assert!((1..=MAX_MEMBERS).contains(&members));
        let fresh = Seat { returned: Some(0), ..Seat::default() };
        Single {
            me,
            members: members as u8,
            own: own.bits(),
            ballot: Ballot::NONE,
            phase: Phase::Idle,
            seats: [fresh; MAX_MEMBERS],
            variant: PhantomData,
        }
    }

    /// The state of each acceptor as known here, for a caller that compares states. (It is opaque.)
    pub fn seats_mut(&mut self) -> &mut [Seat] {
        &mut self.seats[..self.members as usize]
    }

    /// The decided value.
    pub const fn decided(&self) -> Option<Tag> {
        match self.phase {
            Phase::Decided { tag } => Some(Tag::from_bits(tag)),
            Phase::Idle | Phase::Preparing | Phase::Accepting { .. } => None,
        }
    }

    /// Whether it can propose (again).
    pub const fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Lines 9-24: prepares with one CAS to each acceptor.
    ///
    /// # Errors
    /// [`Exhausted`]: nothing was posted.
    ///
    /// # Panics
    /// If a proposal is under way already.
    pub fn propose(&mut self, mut post: impl FnMut(Rank, Cas)) -> Result<(), Exhausted> {
        assert_eq!(self.phase, Phase::Idle, "one proposal at a time");
        let seats = self.seats[..self.members as usize].iter();
        let predicted = seats.map(|seat| V::PACKING.unpack(seat.predicted).min_proposal).max();
        let floor = self.ballot.max(predicted.unwrap_or_default());
        let ballot = Ballot::above(floor, self.me);
        assert!(ballot > self.ballot, "I2: a ballot is used once");
        if ballot >= V::PACKING.ballot_limit() {
            return Err(Exhausted);
        }
        self.ballot = ballot;
        self.phase = Phase::Preparing;
        self.post_all(|word| word.prepared(Generation(0), ballot), &mut post);
        if V::ADOPT_EARLY {
            let tag = self.found(|seat| Some(seat.predicted)).unwrap_or(self.own);
            self.accept(tag, &mut post);
        }
        Ok(())
    }

    /// Lines 40-43.
    fn accept(&mut self, tag: u8, post: &mut impl FnMut(Rank, Cas)) {
        let ballot = self.ballot;
        self.phase = Phase::Accepting { tag };
        self.post_all(|word| word.accepting(Generation(0), ballot, Tag::from_bits(tag)), post);
    }

    fn post_all(&mut self, next: impl Fn(SlotWord) -> SlotWord, post: &mut impl FnMut(Rank, Cas)) {
        for rank in Rank::all(self.members as usize) {
            let seat = &mut self.seats[rank.index()];
            let expected = seat.predicted;
            let desired = V::PACKING.pack(next(V::PACKING.unpack(expected)));
            seat.n_older += u8::from(seat.returned.is_none());
            // The CAS is under way, and so predicted to succeed: sound, since the link is FIFO
            // (I3).
            *seat = Seat { predicted: desired, expected, returned: None, counts: true, ..*seat };
            post(rank, Cas { expected, desired });
        }
    }

    /// Takes the word `before` that the oldest CAS under way to `from` found.
    ///
    /// # Panics
    /// If none is under way.
    pub fn on_completed(
        &mut self,
        from: Rank,
        before: u64,
        mut post: impl FnMut(Rank, Cas),
    ) -> Verdict {
        let seat = &mut self.seats[from.index()];
        if seat.n_older > 0 {
            // A later CAS is under way, and will tell what this one tells, and more.
            seat.n_older -= 1;
            return Verdict::Waiting;
        }
        assert_eq!(seat.returned, None, "a completion for no CAS");
        seat.returned = Some(before);
        if before != seat.expected {
            seat.predicted = before;
        }
        let counts = seat.counts;
        let quorum = if V::IGNORE_MAJORITY { 1 } else { majority(self.members as usize) };
        let n_returned = self.counting().filter(|seat| seat.returned.is_some()).count();
        match self.phase {
            Phase::Preparing | Phase::Accepting { .. } if counts && n_returned == quorum => {
                self.on_majority(&mut post)
            }
            Phase::Preparing | Phase::Accepting { .. } => Verdict::Waiting,
            // The completion is late: it has only corrected the prediction.
            Phase::Idle | Phase::Decided { .. } => Verdict::Waiting,
        }
    }

    fn counting(&self) -> impl Iterator<Item = &Seat> {
        self.seats[..self.members as usize].iter().filter(|seat| seat.counts)
    }

    /// Lines 27-38 and 46-56.
    fn on_majority(&mut self, post: &mut impl FnMut(Rank, Cas)) -> Verdict {
        let has_failed = |seat: &Seat| {
            seat.returned.is_some_and(|returned| {
                let compared = if V::PRINTED_TEST { seat.predicted } else { seat.expected };
                returned != compared
            })
        };
        let failed = !V::COUNT_FAILED && self.counting().any(has_failed);
        let phase = self.phase;
        self.seats.iter_mut().for_each(|seat| seat.counts = false);
        match phase {
            _ if failed => {
                self.phase = Phase::Idle;
                Verdict::Aborted
            }
            Phase::Preparing => {
                let found = if V::ADOPT_FROM_PREDICTIONS {
                    self.found(|seat| Some(seat.predicted))
                } else {
                    self.found(|seat| seat.returned)
                };
                let tag = found.filter(|_| !V::IGNORE_FOUND_VALUE).unwrap_or(self.own);
                self.accept(tag, post);
                Verdict::Waiting
            }
            Phase::Accepting { tag } => {
                self.phase = Phase::Decided { tag };
                Verdict::Decided(Tag::from_bits(tag))
            }
            Phase::Idle | Phase::Decided { .. } => unreachable!("on_completed asks in two phases"),
        }
    }

    /// The accepted value with the highest ballot among what `look` shows of each acceptor.
    fn found(&self, look: impl Fn(&Seat) -> Option<u64>) -> Option<u8> {
        let words = self.seats[..self.members as usize].iter().filter_map(look);
        let accepted = words.map(|raw| V::PACKING.unpack(raw)).filter(|word| word.has_value());
        let best = if V::ADOPT_LOWEST {
            accepted.min_by_key(|word| word.accepted_proposal)
        } else {
            accepted.max_by_key(|word| word.accepted_proposal)
        };
        best.map(|word| word.tag.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::super::word::Area;
    use super::*;
    use alloc::vec::Vec;

    const fn tag(rank: usize) -> Tag {
        Tag::of(Rank::at(rank), Area::Even)
    }

    /// Performs posted CASes at once, at `acceptors`; returns the verdict that ends the attempt.
    fn attempt(proposer: &mut Single<Sound>, acceptors: &mut [u64]) -> Verdict {
        let mut posted = Vec::new();
        proposer.propose(|rank, cas| posted.push((rank, cas))).expect("ballots are left");
        let mut verdict = Verdict::Waiting;
        while !posted.is_empty() {
            let (rank, cas) = posted.remove(0);
            let before = acceptors[rank.index()];
            if before == cas.expected {
                acceptors[rank.index()] = cas.desired;
            }
            let news = proposer.on_completed(rank, before, |rank, cas| posted.push((rank, cas)));
            if news != Verdict::Waiting {
                verdict = news;
            }
        }
        verdict
    }

    #[test]
    fn a_lone_proposer_decides_in_two_cas_an_acceptor() {
        let mut acceptors = [0; 3];
        let mut proposer = Single::<Sound>::new(Rank::at(1), 3, tag(1));
        assert_eq!(attempt(&mut proposer, &mut acceptors), Verdict::Decided(tag(1)));
        assert_eq!(proposer.decided(), Some(tag(1)));
    }

    #[test]
    fn i1_a_later_proposer_adopts_what_was_decided() {
        let mut acceptors = [0; 3];
        let mut first = Single::<Sound>::new(Rank::at(2), 3, tag(2));
        assert_eq!(attempt(&mut first, &mut acceptors), Verdict::Decided(tag(2)));
        let mut second = Single::<Sound>::new(Rank::at(0), 3, tag(0));
        // Wrong predictions abort, and are corrected: at most one abort an acceptor.
        let verdicts: Vec<Verdict> = (0..4)
            .map_while(|_| second.is_idle().then(|| attempt(&mut second, &mut acceptors)))
            .collect();
        assert_eq!(verdicts.last(), Some(&Verdict::Decided(tag(2))));
        assert!(verdicts.len() > 1 && verdicts[0] == Verdict::Aborted);
    }

    #[test]
    fn i2_ballots_run_out_before_they_look_sealed() {
        let mut proposer = Single::<Sound>::new(Rank::at(0), 3, tag(0));
        let mut refused = false;
        for _ in 0..64 {
            // No acceptor answers as predicted: each attempt aborts.
            let mut posted = 0;
            match proposer.propose(|_, _| posted += 1) {
                Err(Exhausted) => {
                    assert_eq!(posted, 0);
                    refused = true;
                    break;
                }
                Ok(()) => {
                    for rank in Rank::all(3) {
                        let lie = Sound::PACKING.pack(SlotWord {
                            min_proposal: proposer.ballot,
                            ..SlotWord::default()
                        });
                        proposer.on_completed(rank, lie, |_, _| {});
                    }
                }
            }
        }
        assert!(refused, "8 bits hold less than 64 rounds");
    }
}
