//! The planted mistakes of atomic multicast: of PrimCast, of the rules for real time, and of the
//! protocols that PrimCast is compared with.
//!
//! `gregale sim --protocol primcast --mutants` hunts those that name a kind of seeds, and shows
//! some of the others by schedules set by hand.
//!
//! Some mistakes are harmless, and therefore not here: dropping the own group's clause of a
//! real-time rule (plain delivery implies it), counting or not counting the timestamp of a proposal
//! that is acknowledged again in a later epoch, an ACCEPT without the clock (line 73: as long as a
//! process tracks what it *reported*, the next message that needs the clock makes it report), a
//! candidate that speaks as a primary (no process knows its epoch's members before it has begun:
//! P17), a level that is told although a list does not reach that far (LR4: a past that is known
//! has a list).

crate::planted_bugs! {
    // --- PrimCast, algorithms 1 to 3
    /// Line 42 as printed: a proposal that arrives between NEW-STATE and the quorum of ACCEPTs is
    /// dropped.
    DropWhilePromised = DROP_WHILE_PROMISED: sweep ["primcast"],
    /// Line 81 misread: an old proposal is acknowledged in the new epoch.
    ReackInNewEpoch = REACK_IN_NEW_EPOCH: sweep ["primcast"],
    /// Line 15 misread: clocks reported under a later promise count.
    ClocksOfLaterEpochs = CLOCKS_OF_LATER_EPOCHS: tests,
    /// Line 50 misread: reports name the current epoch instead of the promised one.
    ReportCurrentEpoch = REPORT_CURRENT_EPOCH: tests,
    /// Line 47 without its addition: no process asks for a message that only others have.
    NeverPull = NEVER_PULL: sweep ["primcast"],
    /// Line 48 as printed: no BUMP if another message had raised the clock already; and no process
    /// asks for a message.
    BumpOnlyWhenRaised = BUMP_ONLY_WHEN_RAISED: tests,
    /// A new primary does not report its clock again, and no process asks for a message.
    NoReportOfNewPrimary = NO_REPORT_OF_NEW_PRIMARY: sweep ["primcast-linearizable"],
    /// A follower acknowledges a proposal whose message it does not have.
    AckWithoutBody = ACK_WITHOUT_BODY: sweep ["primcast"],
    /// Line 28 dropped: deliver without the primary's clock.
    NoPrimaryClock = NO_PRIMARY_CLOCK: sweep ["primcast"],
    /// Line 29 dropped: deliver without the quorum's clock.
    NoQuorumClock = NO_QUORUM_CLOCK: tests,
    /// Line 30 dropped: deliver although an earlier message is pending.
    IgnorePending = IGNORE_PENDING: sweep ["primcast"],
    /// Line 10 with one process fewer.
    LocalQuorumMinusOne = LOCAL_QUORUM_MINUS_ONE: sweep ["primcast"],
    /// Line 10 without its epoch: acknowledgements of different epochs add up.
    MixEpochs = MIX_EPOCHS: sweep ["primcast"],
    /// Line 67 reversed: the shortest state.
    ShortestState = SHORTEST_STATE: sweep ["primcast"],
    /// Line 66 dropped: any promise's state.
    AnyEpochState = ANY_EPOCH_STATE: sweep ["primcast"],
    /// Line 68 dropped: the new epoch begins at the candidate's own clock.
    OwnClockOnly = OWN_CLOCK_ONLY: sweep ["primcast"],
    /// Line 76 dropped: lead before a quorum has accepted.
    LeadWithoutAccepts = LEAD_WITHOUT_ACCEPTS: sweep ["primcast"],
    // --- PrimCast's collection of garbage
    /// P6 broken: one member that has delivered is enough for all to forget.
    ForgetEarly = FORGET_EARLY: sweep ["primcast"],
    /// P7 broken: a process with a log that begins later continues as if it had delivered the rest.
    IgnoreFloor = IGNORE_FLOOR: sweep ["primcast"],
    /// P8 broken: the name is forgotten with the record.
    ForgetNames = FORGET_NAMES: sweep ["primcast"],
    // --- PrimCast with messages that commute
    /// P14 broken: a message is not compared with the pending ones below it.
    IgnoreConflicts = IGNORE_CONFLICTS: sweep ["primcast-commuting"],
    /// P14 broken: the wrong pair, a message is compared only with the nearest pending one below.
    ConflictsWithNearest = CONFLICTS_WITH_NEAREST: sweep ["primcast-commuting"],
    /// F3 broken: only two writes conflict.
    ReadsNeverWait = READS_NEVER_WAIT: sweep ["primcast-commuting"],
    /// A pending message that is not here counts as touching nothing.
    UnknownCommutes = UNKNOWN_COMMUTES: sweep ["primcast-commuting"],
    /// P15 broken: the mark is the highest place delivered.
    MarkOfLast = MARK_OF_LAST: sweep ["primcast-commuting"],
    /// P8 broken: a process takes a state that lacks messages which it delivered ahead.
    StateUndoes = STATE_UNDOES: sweep ["primcast-commuting"],
    // --- PrimCast's timestamped interface (4.4.2)
    /// As printed: `safe_ts` can equal a pending timestamp.
    SafeTsPending = SAFE_TS_PENDING: sweep ["primcast"],
    /// `safe_ts` without the quorum's clock.
    SafeTsWithoutQuorum = SAFE_TS_WITHOUT_QUORUM: sweep ["primcast"],
    /// P16 broken: a message that commutes overtakes a cut.
    CutOvertaken = CUT_OVERTAKEN: sweep ["primcast-commuting"],
    /// P16 broken: a state that goes beyond a cut counts as one.
    CutOfState = CUT_OF_STATE: sweep ["primcast"],
    // --- PrimCast's crash recovery
    /// P10 broken: the promise is not written down.
    ForgetPromise = FORGET_PROMISE: sweep ["primcast-stable"],
    /// P10 broken: deliveries are not written down.
    ForgetDelivered = FORGET_DELIVERED: sweep ["primcast-stable"],
    /// P7 broken: of a state's messages only those are remembered that were known before.
    KeepKnownOnly = KEEP_KNOWN_ONLY: sweep ["primcast-stable"],
    /// P12 broken: a reported clock is neither requested nor reported again.
    AskOnce = ASK_ONCE: sweep ["primcast-stable"],
    /// P11 broken: a former primary's repetitions from its log count as new proposals.
    RepeatProposals = REPEAT_PROPOSALS: sweep ["primcast-stable"],
    /// P13 broken: after a crash the tuples of NEW-STATE are acknowledged in every case.
    AckUnbegun = ACK_UNBEGUN: tests,
    /// P11 broken: a process that comes back continues to follow its old epoch.
    FollowAfterCrash = FOLLOW_AFTER_CRASH: sweep ["primcast-stable"],
    /// P11 broken: a former primary that comes back reports its clock under its old epoch.
    SpeakAsBefore = SPEAK_AS_BEFORE: sweep ["primcast-stable"],
    /// P10 broken: the clock is not written down.
    ForgetClock = FORGET_CLOCK: sweep ["primcast-stable"],
    /// P24 broken: a process that has promised an epoch to its primary waits for a single message.
    PromiseOnce = PROMISE_ONCE: sweep ["primcast"],
    /// P24 broken: a process that learns of a higher promise waits for a request.
    WaitToBeAsked = WAIT_TO_BE_ASKED: sweep ["primcast"],
    // --- PrimCast's changes of members
    /// P17 broken: unknown members are taken for the founders.
    AssumeMembers = ASSUME_MEMBERS: tests,
    /// P18 broken: the words of a seat's predecessor count for its new incarnation.
    KeepOldWords = KEEP_OLD_WORDS: sweep ["primcast-members"],
    /// P6 broken: what a seat's predecessor had delivered, its new incarnation has delivered.
    KeepMarks = KEEP_MARKS: sweep ["primcast-members"],
    /// P19 broken: the tuples with which a later epoch began are counted by the old members.
    NeverChosen = NEVER_CHOSEN: tests,
    /// P20 broken: a candidate uses its own members, though others know newer ones.
    OlderMembers = OLDER_MEMBERS: tests,
    /// P20 broken: promises of a quorum of the new members are enough.
    NewQuorumOnly = NEW_QUORUM_ONLY: tests,
    /// P20 broken: one incarnation takes another's place in one change.
    ReplaceAtOnce = REPLACE_AT_ONCE: tests,
    /// P21 broken: a change does not wait for the messages that were delivered before the last one.
    ChangeUnheld = CHANGE_UNHELD: tests,
    // --- Real-time order (linear)
    /// One destination group is not waited for.
    SkipOneDestination = SKIP_ONE_DESTINATION: sweep ["primcast-linearizable"],
    /// `Past` without the primary's clause.
    PastWithoutPrimary = PAST_WITHOUT_PRIMARY: tests,
    /// `Past` without the quorum's clause.
    PastWithoutQuorum = PAST_WITHOUT_QUORUM: tests,
    /// `Past` with one process fewer.
    PastQuorumMinusOne = PAST_QUORUM_MINUS_ONE: tests,
    /// `Past` with a quorum in any epoch.
    PastInAnyEpoch = PAST_IN_ANY_EPOCH: tests,
    /// `hop` with one level too few.
    HopLevelsMissing = HOP_LEVELS_MISSING: sweep ["primcast-linearizable"],
    /// LR4 broken: an older primary's list takes the place of the newest one's.
    OlderList = OLDER_LIST: tests,
    /// `commit-wait` without the error of the clocks.
    WaitWithoutError = WAIT_WITHOUT_ERROR: sweep ["primcast-linearizable"],
    /// LR3 broken: a process waits for its own clock's error, and not for the other's.
    WaitForOneError = WAIT_FOR_ONE_ERROR: sweep ["primcast-linearizable"],
    // --- Skeen
    /// Algorithm 4 as printed: acknowledgements come from the destinations alone.
    Algorithm4 = ALGORITHM_4: sweep ["skeen"],
    // --- White-Box and FastCast
    /// Deliver before a quorum of each group has acknowledged.
    CommitWithoutQuorum = COMMIT_WITHOUT_QUORUM: sweep ["whitebox", "fastcast"],
    /// The final timestamp is taken before the group's clock has passed it.
    NoClockUpdate = NO_CLOCK_UPDATE: sweep ["whitebox", "fastcast"],
}
