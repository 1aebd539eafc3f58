//! Single-slot Velos, whole: every interleaving of a few proposals at a few acceptors.
//!
//! The world runs the code of `proto::velos::single`. Each CAS takes effect at one instant, at any
//! time after its posting and in posting order on its link; its completion arrives at any later
//! time, in order too.
//!
//! - G1 *Agreement*: all decisions are of one value.
//! - G2 *Validity*: that value is some proposer's own.
//! - G3 *Integrity*: a proposer decides once at most.
//! - G4 *A lone proposer decides*: from every reachable state, if the others stop for ever, with
//!   their posts never taking effect, a proposer that continues to propose with any majority of the
//!   acceptors decides, within [`N_LONE_ATTEMPTS`] further proposals.
//!
//! A proposer's crash needs no step of its own: to crash is never to act again, every prefix of a
//! run is walked, and G4 lets each survivor continue from every state. CASes that a dead proposer
//! had posted still take effect in the runs in which they do.
//!
//! **Bounds**: members, and proposals a proposer ([`Bounds`]). States that differ by the names of
//! the acceptors only are one state: the machine treats them alike.

use crate::World;
use base::{Rank, majority};
use proto::velos::single::{Cas, Seat, Single, Variant, Verdict};
use proto::velos::word::{Area, Tag};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// The number of proposals that a lone proposer may need: one that corrects each acceptor's
/// prediction, and one that succeeds; and the CASes under way when the others stopped may abort one
/// more.
pub const N_LONE_ATTEMPTS: usize = 5;

/// The bounds of a world.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The number of acceptors.
    pub acceptors: usize,
    /// The number of proposals that each proposer may begin; one entry a proposer.
    pub proposals: &'static [u8],
    /// Whether G4 is checked, in every state: by far the most expensive part.
    pub liveness: bool,
}

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A proposer begins.
    Propose(usize),
    /// The oldest CAS from a proposer to an acceptor takes effect.
    Perform(usize, usize),
    /// The oldest completion from an acceptor reaches a proposer.
    Complete(usize, usize),
}

/// The way from one proposer to one acceptor and back.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Link {
    posted: VecDeque<Cas>,
    done: VecDeque<u64>,
}

#[derive(Clone, Debug)]
struct Proposer<V> {
    machine: Single<V>,
    links: Vec<Link>,
    n_left: u8,
}

/// The whole state.
#[derive(Clone, Debug)]
pub struct Slot<V> {
    acceptors: Vec<u64>,
    proposers: Vec<Proposer<V>>,
    decided: Option<Tag>,
    liveness: bool,
}

fn own(proposer: usize) -> Tag {
    Tag::of(Rank::at(proposer), Area::Even)
}

impl<V: Variant> Slot<V> {
    /// The world before any event.
    pub fn new(bounds: &Bounds) -> Slot<V> {
        let proposer = |(at, n_left): (usize, &u8)| Proposer {
            machine: Single::new(Rank::at(at), bounds.acceptors, own(at)),
            links: vec![Link::default(); bounds.acceptors],
            n_left: *n_left,
        };
        Slot {
            acceptors: vec![0; bounds.acceptors],
            proposers: bounds.proposals.iter().enumerate().map(proposer).collect(),
            decided: None,
            liveness: bounds.liveness,
        }
    }

    fn propose(&mut self, at: usize) {
        let Proposer { machine, links, .. } = &mut self.proposers[at];
        // A proposer without ballots has no proposals left; the bounds end before.
        let proposed = machine.propose(|to, cas| links[to.index()].posted.push_back(cas));
        assert!(proposed.is_ok(), "the bounds allow more proposals than the word has ballots");
    }

    fn perform(&mut self, at: usize, acceptor: usize) {
        let link = &mut self.proposers[at].links[acceptor];
        let Some(cas) = link.posted.pop_front() else { return };
        let word = &mut self.acceptors[acceptor];
        link.done.push_back(*word);
        if *word == cas.expected {
            *word = cas.desired;
        }
    }

    fn complete(&mut self, at: usize, acceptor: usize) -> Result<(), String> {
        let Proposer { machine, links, .. } = &mut self.proposers[at];
        let Some(before) = links[acceptor].done.pop_front() else { return Ok(()) };
        let had_decided = machine.decided().is_some();
        let post = |to: Rank, cas| links[to.index()].posted.push_back(cas);
        let verdict = machine.on_completed(Rank::at(acceptor), before, post);
        let Verdict::Decided(tag) = verdict else { return Ok(()) };
        if had_decided {
            return Err(format!("G3: proposer {at} decided again"));
        }
        if (0..self.proposers.len()).all(|proposer| own(proposer) != tag) {
            return Err(format!("G2: {tag:?} was decided, and is nobody's"));
        }
        match *self.decided.get_or_insert(tag) {
            first if first == tag => Ok(()),
            first => Err(format!("G1: {first:?} and {tag:?} were both decided")),
        }
    }

    /// G4, for one proposer and the acceptors that answer.
    fn lone(&self, at: usize, answers: impl Fn(usize) -> bool) -> Result<(), String> {
        let mut alone = self.clone();
        for _ in 0..=N_LONE_ATTEMPTS {
            // Everything under way to an answering acceptor takes effect and completes, link by
            // link.
            loop {
                let mut moved = false;
                for acceptor in (0..alone.acceptors.len()).filter(|acceptor| answers(*acceptor)) {
                    while !alone.proposers[at].links[acceptor].posted.is_empty() {
                        alone.perform(at, acceptor);
                    }
                    while !alone.proposers[at].links[acceptor].done.is_empty() {
                        alone.complete(at, acceptor)?;
                        moved = true;
                    }
                }
                if !moved {
                    break;
                }
            }
            let machine = &alone.proposers[at].machine;
            if machine.decided().is_some() {
                return Ok(());
            }
            if machine.is_idle() {
                alone.propose(at);
            }
        }
        Err(format!("G4: proposer {at}, alone, does not decide"))
    }
}

impl<V: Variant> World for Slot<V> {
    type Step = Step;

    fn steps(&self, out: &mut Vec<Step>) {
        for (at, proposer) in self.proposers.iter().enumerate() {
            if proposer.n_left > 0 && proposer.machine.is_idle() {
                out.push(Step::Propose(at));
            }
            for (acceptor, link) in proposer.links.iter().enumerate() {
                if !link.posted.is_empty() {
                    out.push(Step::Perform(at, acceptor));
                }
                if !link.done.is_empty() {
                    out.push(Step::Complete(at, acceptor));
                }
            }
        }
    }

    fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Propose(at) => {
                self.proposers[at].n_left -= 1;
                self.propose(at);
                Ok(())
            }
            Step::Perform(at, acceptor) => {
                self.perform(at, acceptor);
                Ok(())
            }
            Step::Complete(at, acceptor) => self.complete(at, acceptor),
        }
    }

    /// Sorts the acceptors first, so that states that differ by their names only are equal.
    fn fingerprint(&mut self) -> u64 {
        let n = self.acceptors.len();
        let column = |slot: &mut Slot<V>, acceptor: usize| -> Column {
            let word = slot.acceptors[acceptor];
            let ends = slot.proposers.iter_mut();
            let ends =
                ends.map(|one| (one.machine.seats_mut()[acceptor], one.links[acceptor].clone()));
            (word, ends.collect())
        };
        let mut columns: Vec<Column> = (0..n).map(|acceptor| column(self, acceptor)).collect();
        if !columns.is_sorted() {
            columns.sort();
            for (acceptor, (word, ends)) in columns.into_iter().enumerate() {
                self.acceptors[acceptor] = word;
                for (proposer, (seat, link)) in self.proposers.iter_mut().zip(ends) {
                    proposer.machine.seats_mut()[acceptor] = seat;
                    proposer.links[acceptor] = link;
                }
            }
        }
        let mut hasher = Mix(0x243f_6a88_85a3_08d3);
        self.acceptors.hash(&mut hasher);
        for proposer in &self.proposers {
            proposer.machine.hash(&mut hasher);
            proposer.links.hash(&mut hasher);
            proposer.n_left.hash(&mut hasher);
        }
        self.decided.map(Tag::bits).hash(&mut hasher);
        hasher.finish()
    }

    fn check(&self) -> Result<(), String> {
        if !self.liveness {
            return Ok(());
        }
        let n = self.acceptors.len();
        for at in 0..self.proposers.len() {
            if self.proposers[at].machine.decided().is_some() {
                continue;
            }
            // Every majority: all acceptors, or all but one (the sets in between follow).
            self.lone(at, |_| true)?;
            if majority(n) < n {
                for silent in 0..n {
                    self.lone(at, |acceptor| acceptor != silent)?;
                }
            }
        }
        Ok(())
    }
}

/// The part of one acceptor: its word, and each proposer's knowledge of it with the CASes under
/// way.
type Column = (u64, Vec<(Seat, Link)>);

/// A hash that is the same on every run and machine.
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31);
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(u64::from(byte));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
