//! Durable's planted bugs.
//!
//! The module `tests` steps through those that need a schedule which no seed finds soon.

crate::planted_bugs! {
    /// Acknowledge the appended entries instead of the synced ones.
    AckBeforeSync = ACK_BEFORE_SYNC: sweep ["durable"],
    /// Let a vote leave before the promise is on disk.
    VoteBeforeSync = VOTE_BEFORE_SYNC: sweep ["durable"],
    /// A leader counts itself before its own sync.
    CountSelfEarly = COUNT_SELF_EARLY: sweep ["durable"],
    /// Continue to accept from a leader after a promise to a later ballot.
    AcceptOlderBallot = ACCEPT_OLDER_BALLOT: sweep ["durable"],
    /// Assume that the own log continues the leader's.
    SkipLogMatch = SKIP_LOG_MATCH: sweep ["durable"],
    /// Acknowledge the own log's whole durable prefix, the part that was not compared too.
    AckUnverified = ACK_UNVERIFIED: sweep ["durable"],
    /// Apply entries up to the leader's commit point that were not compared with the leader's log.
    ApplyUnverified = APPLY_UNVERIFIED: sweep ["durable"],
    /// Commit an entry of an older ballot because a majority holds it.
    CommitOlderBallot = COMMIT_OLDER_BALLOT: sweep ["durable"],
    /// Vote for the first candidate of a ballot, however old its log.
    ElectOlderLog = ELECT_OLDER_LOG: sweep ["durable"],
    /// One vote is enough.
    ElectByOne = ELECT_BY_ONE: sweep ["durable"],
    /// One durable copy is enough.
    CommitAtOne = COMMIT_AT_ONE: sweep ["durable"],
    /// Report that every disk holds what a majority's hold.
    HoldByMajority = HOLD_BY_MAJORITY: sweep ["durable", "durable-members"],
    /// Report that a disk holds what it acknowledges although the state before its log is damaged.
    HoldWithoutState = HOLD_WITHOUT_STATE: tests,
    /// Take a new disk's acknowledgements for those of the disk that it replaces, while the latter
    /// may yet be a voter again.
    HoldBySuccessor = HOLD_BY_SUCCESSOR: sweep ["durable-members"],
    /// Let a sync cover entries that were cut while it was under way.
    CutDuringSync = CUT_DURING_SYNC: sweep ["durable"],
    /// Forget the ballot of the last entry when the log begins again behind a state without a head.
    ForgetNewness = FORGET_NEWNESS: tests,
    /// Give the members after a state of more than is decided here.
    HeadAboveApplied = HEAD_ABOVE_APPLIED: tests,
    /// Take an earlier life's entries for durable without a sync.
    TrustRecovered = TRUST_RECOVERED: sweep ["durable"],
    /// Forget the promise when the process restarts.
    ForgetPromise = FORGET_PROMISE: sweep ["durable"],
    /// Accept an acknowledgement without its checksum.
    TornAck = TORN_ACK: tests,
    /// Accept a record as soon as its first word is there.
    TornRecord = TORN_RECORD: sweep ["durable"],
    /// Answer reads without looking at a majority's promises.
    ReadWithoutCheck = READ_WITHOUT_CHECK: sweep ["durable"],
    /// Let the answer to any READ serve every waiting check, also those that began after it.
    AnyAnswerServes = ANY_ANSWER_SERVES: sweep ["durable"],
    /// Let a sync cover a promise that was made while it was under way.
    PromiseDuringSync = PROMISE_DURING_SYNC: sweep ["durable"],
    /// Count a vote whatever ballot it was given in.
    VoteOfAnyBallot = VOTE_OF_ANY_BALLOT: sweep ["durable"],
    /// Serve before an entry of the own ballot is committed.
    ServeEarly = SERVE_EARLY: sweep ["durable"],
    /// Count members that a configuration has removed.
    CountRemoved = COUNT_REMOVED: sweep ["durable-members"],
    /// Begin a change of members before the last one is committed.
    TwoChanges = TWO_CHANGES: sweep ["durable-members"],
    /// Give the vote in one ballot to any disk on a seat that asks, also to a second one.
    VoteTwice = VOTE_TWICE: sweep ["durable-members"],
    /// Begin a change of members before an entry of the own ballot is committed.
    ChangeBeforeOwnEntry = CHANGE_BEFORE_OWN_ENTRY: sweep ["durable-members"],
    /// Let a learner vote before it holds everything that is committed.
    PromoteBeforeCaughtUp = PROMOTE_BEFORE_CAUGHT_UP: sweep ["durable-members"],
    /// Take acknowledgements and votes of another incarnation for the member's.
    AnyIncarnation = ANY_INCARNATION: sweep ["durable-members"],
    /// A seat that is filled again keeps what its earlier disk has acknowledged.
    KeepOldAcks = KEEP_OLD_ACKS: sweep ["durable-members"],
    /// Take votes of another incarnation for the member's.
    OldIncarnationVotes = OLD_INCARNATION_VOTES: sweep ["durable-members"],
    /// Accept only the leaders that the own log names, although another one has more of the log.
    IgnoreWinner = IGNORE_WINNER: sweep ["durable-members"],
    /// Require a majority of every configuration since the last that is known to be committed,
    /// although its disks may be gone.
    ElectByEveryConfiguration = ELECT_BY_EVERY_CONFIGURATION: sweep ["durable-members"],
    /// Open another stream to every follower that stands still, without a question.
    BeginWhateverStandsStill = BEGIN_WHATEVER_STANDS_STILL: tests,
    /// Append every value, however much waits for the disk.
    IgnoreRoom = IGNORE_ROOM: sweep ["durable"],
    /// Hold back what is for the spare followers, however late a decision is.
    HoldBack = HOLD_BACK: sweep ["durable"],
    /// Count acknowledgements of earlier ballots of the same leader.
    AckOfAnyBallot = ACK_OF_ANY_BALLOT: sweep ["durable"],
    /// Report what the newest configuration's disks hold, although a change may yet be undone.
    HoldByNewest = HOLD_BY_NEWEST: sweep ["durable-members"],
    /// A configuration stays when its entry is cut.
    ConfigurationOutlivesCut = CONFIGURATION_OUTLIVES_CUT: sweep ["durable-members"],
    /// Keep all of the log that a lagging member may ask for, however much that is.
    KeepForLaggards = KEEP_FOR_LAGGARDS: sweep ["durable"],
    /// A member that has published no promise passes a check of reads.
    UnpublishedIsWitness = UNPUBLISHED_IS_WITNESS: sweep ["durable-members"],
    /// The promise of any disk on a member's seat passes a check of reads.
    AnyDiskIsWitness = ANY_DISK_IS_WITNESS: sweep ["durable-members"],
    /// Keep the reads that wait when the leader falls.
    KeepReads = KEEP_READS: sweep ["durable"],
}
