//! Sound Velos, and Velos with one bug planted.
//!
//! A [`Variant`] is a zero-sized type whose constants the compiler folds: the shipped protocol pays
//! nothing for them, and nobody can switch a bug on at run time. The simulator's sweep must catch
//! each one; one that survives shows a check that does not check.
//!
//! Ten more are shown by a scenario each instead (tests here and in `sim`), since a sweep meets
//! them too rarely: `SKIP_SURVEY`, `FORGET_PROMISE`, `RECYCLE_EARLY`, `ANY_BASE`,
//! `REPOST_UNANSWERED`, `OWN_VALUE_LATER`, `WRITE_LIVE_AREA`, `FORGET_READ_BALLOTS`,
//! `HORIZON_AFTER_CAS`, `PUBLISH_TO_UNMET`.
//!
//! Two that were planted once never showed, and were taken out again. *Check a leader's reads
//! against the next free slot*: its accepts and that READ share FIFO links, so the accepts'
//! completions, which depose it, come first. *Skip the checksum*: an area is whole while a word
//! refers to it, and a slot's full number catches the rest. The two rules stay as a second line of
//! defence.

use super::word::Packing;

/// One way to build the machine.
pub trait Variant: 'static {
    /// How it is called in reports.
    const NAME: &'static str;
    /// The widths of the slot word.
    const PACKING: Packing = Packing::WIDE;

    /// Accept without having prepared (section 4.2: the promise of a majority is what makes a
    /// proposal safe).
    const SKIP_PREPARE: bool = false;
    /// One acceptor is enough to decide.
    const IGNORE_MAJORITY: bool = false;
    /// One promise is enough to propose.
    const PROMISE_OF_ONE: bool = false;
    /// Look for accepted values in predicted words, not in those that the prepare returned.
    const ADOPT_FROM_PREDICTIONS: bool = false;
    /// Propose an own value although the prepare found an accepted one.
    const IGNORE_FOUND_VALUE: bool = false;
    /// Adopt the accepted value with the lowest ballot.
    const ADOPT_LOWEST: bool = false;
    /// Count a failed accept as an accept.
    const COUNT_FAILED_ACCEPTS: bool = false;
    /// Recycle a slot when it is decided, whoever has applied it.
    const RECYCLE_EARLY: bool = false;
    /// Answer reads without looking at a majority.
    const READ_WITHOUT_CHECK: bool = false;
    /// Check reads at one member only.
    const READ_CHECKS_ONE: bool = false;
    /// Let the answer to any READ serve the check that waits longest.
    const ANY_ANSWER_SERVES: bool = false;
    /// A new leader answers reads before it has applied what it found.
    const READ_BEFORE_RECOVERY: bool = false;
    /// Forget the highest proposal number when the process restarts.
    const FORGET_PROMISE: bool = false;
    /// Apply the own acceptor's value below the decided prefix whoever proposed it.
    const APPLY_BARE_INDEX: bool = false;
    /// Read the leader's two published words in the wrong order.
    const TORN_FACT: bool = false;
    /// Publish a prefix to a memory that is not met since its link was lost, ballot and all.
    const PUBLISH_TO_UNMET: bool = false;
    /// Post the CAS before the WRITE of the value that it refers to.
    const VALUE_AFTER_CAS: bool = false;
    /// Fetch a slot from whatever majority answers, although one member has recycled it.
    const FETCH_ACROSS_GENERATIONS: bool = false;
    /// Believe a word's generation without looking at the horizons.
    const SKIP_SURVEY: bool = false;
    /// Show a horizon after the CAS that uses a place again, not before it.
    const HORIZON_AFTER_CAS: bool = false;
    /// Serve as a full member right after a restart, without the state.
    const SERVE_AS_LEARNER: bool = false;
    /// Count whoever answers, also those that were removed, or learn.
    const COUNT_REMOVED: bool = false;
    /// Count whatever memory is at a voter's seat.
    const ANY_INCARNATION: bool = false;
    /// A configuration governs from the slot after the one that decides it.
    const GOVERN_AT_ONCE: bool = false;
    /// Prepare slots before it is known who governs them.
    const PREPARE_AHEAD: bool = false;
    /// An entry that names members counts, whatever it was made from.
    const ANY_BASE: bool = false;
    /// Begin a change before the last one's voters have applied where it begins.
    const CHANGE_UNSETTLED: bool = false;
    /// Let a learner vote that has not the state.
    const PROMOTE_BEFORE_CAUGHT_UP: bool = false;
    /// Credit a new incarnation with what its predecessor claims.
    const ANY_CLAIM: bool = false;
    /// Whoever is posted to again is posted to although an answer is awaited.
    const REPOST_UNANSWERED: bool = false;
    /// After overflow, accept at the own memory before the value is there.
    const OWN_VALUE_LATER: bool = false;
    /// Write into an area that the acceptor's word refers to.
    const WRITE_LIVE_AREA: bool = false;
    /// Answer what the members are after a state of more than is applied.
    const HEAD_ABOVE_APPLIED: bool = false;
    /// Do not note the ballot of a value that was read from others' memory.
    const FORGET_READ_BALLOTS: bool = false;
    /// After overflow, answer a prepare by message without having sealed the word.
    const RPC_WITHOUT_SEAL: bool = false;
}

/// The protocol as it should be.
#[derive(Clone, Copy, Debug)]
pub enum Sound {}

impl Variant for Sound {
    const NAME: &'static str = "sound";
}

/// The protocol as it should be, with slot words so narrow that a few leader changes overflow them.
#[derive(Clone, Copy, Debug)]
pub enum Narrow {}

impl Variant for Narrow {
    const NAME: &'static str = "narrow";
    const PACKING: Packing = Packing::new(2, 6);
}
