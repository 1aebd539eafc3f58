//! Mu's planted bugs.
//!
//! One planted bug never showed in 3000 seeds, and was removed: *recycle a slot when it is decided,
//! whether or not a majority has applied it*. A member that is behind then asks for a state, and
//! there is one as long as a majority lives, which the simulated faults guarantee.

crate::planted_bugs! {
    /// Grant the log without denying access to the other writers.
    AdmitAnybody = ADMIT_ANYBODY: sweep ["mu"],
    /// Grant the log to a ballot below an earlier grant.
    GrantLower = GRANT_LOWER: sweep ["mu"],
    /// Forget the highest ballot granted when the process restarts.
    ForgetPromise = FORGET_PROMISE: sweep ["mu"],
    /// One grant is enough to propose.
    GrantOfOne = GRANT_OF_ONE: sweep ["mu"],
    /// One log is enough to decide.
    IgnoreMajority = IGNORE_MAJORITY: sweep ["mu"],
    /// Propose an own value although a granted log holds an entry.
    IgnoreFoundValue = IGNORE_FOUND_VALUE: sweep ["mu"],
    /// Adopt the entry with the lowest ballot.
    AdoptLowest = ADOPT_LOWEST: sweep ["mu"],
    /// Take the slots that a predecessor left for free before its entries are copied.
    ProposeBeforeCopy = PROPOSE_BEFORE_COPY: sweep ["mu"],
    /// Write a place's entries over one another, whatever an interrupted WRITE leaves.
    OneHalf = ONE_HALF: sweep ["mu"],
    /// Grant the log while its owner's own WRITEs into it are under way.
    GrantWhileWriting = GRANT_WHILE_WRITING: sweep ["mu"],
    /// Answer reads without a check of a majority of the logs.
    ReadWithoutCheck = READ_WITHOUT_CHECK: sweep ["mu"],
    /// Check one log only.
    ReadChecksOne = READ_CHECKS_ONE: sweep ["mu"],
    /// A new leader answers reads before it has applied what it found.
    ReadBeforeRecovery = READ_BEFORE_RECOVERY: sweep ["mu"],
    /// Apply the own log's entry below the decided prefix, whichever ballot proposed it.
    ApplyBareIndex = APPLY_BARE_INDEX: sweep ["mu"],
    /// Serve as a full member right after a restart, without the state.
    ServeAsLearner = SERVE_AS_LEARNER: sweep ["mu"],
    /// A follower fetches an entry from any majority that answers, although a log has recycled it.
    FetchFromRecycled = FETCH_FROM_RECYCLED: sweep ["mu"],
    /// A new leader recovers each slot that the logs may still hold, though an interrupted WRITE
    /// may have taken its entry.
    RecoverReused = RECOVER_REUSED: tests,
    /// What was decided last is told once, though the link breaks on which it was.
    PublishedOutlivesLink = PUBLISHED_OUTLIVES_LINK: sweep ["mu"],
    /// A fetch forgets at its next round what it has found torn, and reads the same entry for ever.
    ForgetTorn = FORGET_TORN: tests,
    /// Let what becomes of an earlier term's probe end the present term.
    AnyProbeEndsTheTerm = ANY_PROBE_ENDS_THE_TERM: tests,
}
