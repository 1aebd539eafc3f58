//! The sound protocols, and the same with one bug planted.
//!
//! A [`Variant`] is a zero-sized type whose constants the compiler folds: the shipped machine pays
//! nothing for them. The simulator's sweep must catch each one.
//!
//! Harmless, and therefore not here: dropping the own group's clause of a real-time rule (plain
//! delivery implies it), counting or not counting the timestamp of a proposal that is acknowledged
//! again in a later epoch, an ACCEPT that says nothing about the clock (line 73: as long as a
//! process tracks what it *reported*, the next message that needs the clock makes it report).

/// One way to build a machine.
pub trait Variant: Clone + core::fmt::Debug + 'static {
    /// How it is called in reports.
    const NAME: &'static str;

    // --- PrimCast, algorithms 1 to 3
    /// Line 42 as printed: a proposal that arrives between NEW-STATE and the quorum of ACCEPTs is
    /// dropped.
    const DROP_WHILE_PROMISED: bool = false;
    /// Line 81 misread: an old proposal is acknowledged in the new epoch.
    const REACK_IN_NEW_EPOCH: bool = false;
    /// Line 15 misread: clocks reported under a later promise count.
    const CLOCKS_OF_LATER_EPOCHS: bool = false;
    /// Line 50 misread: reports name the current epoch instead of the promised one.
    const REPORT_CURRENT_EPOCH: bool = false;
    /// Line 47 without its addition: nobody asks for a message that only others have.
    const NEVER_PULL: bool = false;
    /// Line 48 as printed: no BUMP if another message had raised the clock already.
    const BUMP_ONLY_WHEN_RAISED: bool = false;
    /// A new primary does not say again what its clock is.
    const NO_REPORT_OF_NEW_PRIMARY: bool = false;
    /// A follower acknowledges what it does not have.
    const ACK_WITHOUT_BODY: bool = false;
    /// Line 28 dropped: deliver without the primary's clock.
    const NO_PRIMARY_CLOCK: bool = false;
    /// Line 29 dropped: deliver without the quorum's clock.
    const NO_QUORUM_CLOCK: bool = false;
    /// Line 30 dropped: deliver although an earlier message is pending.
    const IGNORE_PENDING: bool = false;
    /// Line 10 with one process fewer.
    const LOCAL_QUORUM_MINUS_ONE: bool = false;
    /// Line 10 without its epoch: acknowledgements of different epochs add up.
    const MIX_EPOCHS: bool = false;
    /// Line 67 reversed: the shortest state.
    const SHORTEST_STATE: bool = false;
    /// Line 66 dropped: any promise's state.
    const ANY_EPOCH_STATE: bool = false;
    /// Line 68 dropped: the new epoch begins at the candidate's own clock.
    const OWN_CLOCK_ONLY: bool = false;
    /// Line 76 dropped: lead before a quorum has accepted.
    const LEAD_WITHOUT_ACCEPTS: bool = false;

    // --- PrimCast's collection of garbage
    /// P6 broken: one member that has delivered is enough for all to forget.
    const FORGET_EARLY: bool = false;
    /// P7 broken: whoever is given a log that begins later goes on as if it had delivered the rest.
    const IGNORE_FLOOR: bool = false;
    /// P8 broken: the name is forgotten with the record.
    const FORGET_NAMES: bool = false;

    // --- Real-time order (linear)
    /// One destination group is not waited for.
    const SKIP_ONE_DESTINATION: bool = false;
    /// `Past` without the primary's clause.
    const PAST_WITHOUT_PRIMARY: bool = false;
    /// `Past` without the quorum's clause.
    const PAST_WITHOUT_QUORUM: bool = false;
    /// `Past` with one process fewer.
    const PAST_QUORUM_MINUS_ONE: bool = false;
    /// `Past` with a quorum in any epoch.
    const PAST_IN_ANY_EPOCH: bool = false;
    /// A candidate's clock counts as a primary's.
    const CANDIDATE_COUNTS: bool = false;
    /// `hop` with so many levels too few.
    const HOP_LEVELS_MISSING: u8 = 0;
    /// `commit-wait` without the error of the clocks.
    const WAIT_WITHOUT_ERROR: bool = false;

    // --- Skeen
    /// Algorithm 4 as printed: acknowledgements from the destinations, and nothing else.
    const ALGORITHM_4: bool = false;

    // --- White-Box and FastCast
    /// Deliver before a quorum of each group has acknowledged.
    const COMMIT_WITHOUT_QUORUM: bool = false;
    /// The final timestamp is taken before the group's clock has passed it.
    const NO_CLOCK_UPDATE: bool = false;
}

/// The protocols as they should be.
#[derive(Clone, Copy, Debug)]
pub enum Sound {}

impl Variant for Sound {
    const NAME: &'static str = "sound";
}

/// Algorithm 4 of the thesis as printed, which does not keep its promise among three partitions.
#[derive(Clone, Copy, Debug)]
pub enum Printed {}

impl Variant for Printed {
    const NAME: &'static str = "algorithm-4";
    const ALGORITHM_4: bool = true;
}
