//! The sound protocols, and the same with one bug planted.
//!
//! A [`Variant`] is a zero-sized type whose constants the compiler folds: the shipped machine pays
//! nothing for them. The simulator's sweep must catch each one.
//!
//! Some mistakes are harmless, and therefore not here: dropping the own group's clause of a
//! real-time rule (plain delivery implies it), counting or not counting the timestamp of a proposal
//! that is acknowledged again in a later epoch, an ACCEPT without the clock (line 73: as long as a
//! process tracks what it *reported*, the next message that needs the clock makes it report), a
//! candidate that speaks as a primary (no process knows its epoch's members before it has begun:
//! P17).

/// One way to build a machine.
pub trait Variant: Clone + core::fmt::Debug + 'static {
    /// The name in reports.
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
    /// Line 47 without its addition: no process asks for a message that only others have.
    const NEVER_PULL: bool = false;
    /// Line 48 as printed: no BUMP if another message had raised the clock already.
    const BUMP_ONLY_WHEN_RAISED: bool = false;
    /// A new primary does not report its clock again.
    const NO_REPORT_OF_NEW_PRIMARY: bool = false;
    /// A follower acknowledges a proposal whose message it does not have.
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
    /// P7 broken: a process with a log that begins later continues as if it had delivered the rest.
    const IGNORE_FLOOR: bool = false;
    /// P8 broken: the name is forgotten with the record.
    const FORGET_NAMES: bool = false;

    // --- PrimCast with messages that commute
    /// P14 broken: a message is not compared with the pending ones below it.
    const IGNORE_CONFLICTS: bool = false;
    /// P14 broken: the wrong pair, a message is compared only with the nearest pending one below.
    const CONFLICTS_WITH_NEAREST: bool = false;
    /// F3 broken: only two writes conflict.
    const READS_NEVER_WAIT: bool = false;
    /// A pending message that is not here counts as touching nothing.
    const UNKNOWN_COMMUTES: bool = false;
    /// P15 broken: the mark is the highest place delivered.
    const MARK_OF_LAST: bool = false;
    /// P8 broken: a process takes a state that lacks messages which it delivered ahead.
    const STATE_UNDOES: bool = false;

    // --- PrimCast's timestamped interface (4.4.2)
    /// As printed: `safe_ts` can equal a pending timestamp.
    const SAFE_TS_PENDING: bool = false;
    /// `safe_ts` without the quorum's clock.
    const SAFE_TS_WITHOUT_QUORUM: bool = false;
    /// P16 broken: a message that commutes overtakes a cut.
    const CUT_OVERTAKEN: bool = false;
    /// P16 broken: a state that goes beyond a cut counts as one.
    const CUT_OF_STATE: bool = false;
    // --- PrimCast's crash recovery
    /// P10 broken: the promise is not written down.
    const FORGET_PROMISE: bool = false;
    /// P10 broken: deliveries are not written down.
    const FORGET_DELIVERED: bool = false;
    /// P7 broken: of a state's messages only those are remembered that were known before.
    const KEEP_KNOWN_ONLY: bool = false;
    /// P12 broken: a reported clock is neither requested nor reported again.
    const ASK_ONCE: bool = false;
    /// P11 broken: a former primary's repetitions from its log count as new proposals.
    const REPEAT_PROPOSALS: bool = false;
    /// P13 broken: after a crash the tuples of NEW-STATE are acknowledged in every case.
    const ACK_UNBEGUN: bool = false;
    /// P11 broken: a process that comes back continues to follow its old epoch.
    const FOLLOW_AFTER_CRASH: bool = false;
    /// P11 broken: a former primary that comes back reports its clock under its old epoch.
    const SPEAK_AS_BEFORE: bool = false;
    /// P10 broken: the clock is not written down.
    const FORGET_CLOCK: bool = false;

    /// P24 broken: a process that has promised an epoch to its primary waits for a single message.
    const PROMISE_ONCE: bool = false;
    /// P24 broken: a process that learns of a higher promise waits for a request.
    const WAIT_TO_BE_ASKED: bool = false;

    // --- PrimCast's changes of members
    /// P17 broken: unknown members are taken for the founders.
    const ASSUME_MEMBERS: bool = false;
    /// P18 broken: the words of a seat's predecessor count for its new incarnation.
    const KEEP_OLD_WORDS: bool = false;
    /// P19 broken: the tuples with which a later epoch began are counted by the old members.
    const NEVER_CHOSEN: bool = false;
    /// P20 broken: a candidate uses its own members, though others know newer ones.
    const OLDER_MEMBERS: bool = false;
    /// P20 broken: promises of a quorum of the new members are enough.
    const NEW_QUORUM_ONLY: bool = false;
    /// P20 broken: one incarnation takes another's place in one change.
    const REPLACE_AT_ONCE: bool = false;
    /// P21 broken: a change does not wait for the messages that were delivered before the last one.
    const CHANGE_UNHELD: bool = false;

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
    /// `hop` with this number of levels too few.
    const HOP_LEVELS_MISSING: u8 = 0;
    /// `commit-wait` without the error of the clocks.
    const WAIT_WITHOUT_ERROR: bool = false;
    /// LR3 broken: a process waits for its own clock's error, and not for the other's.
    const WAIT_FOR_ONE_ERROR: bool = false;

    // --- Skeen
    /// Algorithm 4 as printed: acknowledgements come from the destinations alone.
    const ALGORITHM_4: bool = false;

    // --- White-Box and FastCast
    /// Deliver before a quorum of each group has acknowledged.
    const COMMIT_WITHOUT_QUORUM: bool = false;
    /// The final timestamp is taken before the group's clock has passed it.
    const NO_CLOCK_UPDATE: bool = false;
}

/// The protocols without bugs.
#[derive(Clone, Copy, Debug)]
pub enum Sound {}

impl Variant for Sound {
    const NAME: &'static str = "sound";
}

/// Algorithm 4 of the thesis as printed, which breaks its promise among three partitions.
#[derive(Clone, Copy, Debug)]
pub enum Printed {}

impl Variant for Printed {
    const NAME: &'static str = "algorithm-4";
    const ALGORITHM_4: bool = true;
}
