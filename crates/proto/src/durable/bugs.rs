//! Durable's planted bugs.
//!
//! Those that need a schedule which no seed finds soon are stepped through by `tests`.

crate::planted_bugs! {
    /// Acknowledge what was appended, not what was synced.
    AckBeforeSync = ACK_BEFORE_SYNC: sweep ["durable"],
    /// Let a vote leave before the promise is on disk.
    VoteBeforeSync = VOTE_BEFORE_SYNC: sweep ["durable"],
    /// A leader counts itself before its own sync.
    CountSelfEarly = COUNT_SELF_EARLY: sweep ["durable"],
    /// Go on accepting from a leader after a promise to a later ballot.
    AcceptOlderBallot = ACCEPT_OLDER_BALLOT: sweep ["durable"],
    /// Take it for granted that the own log continues the leader's.
    SkipLogMatch = SKIP_LOG_MATCH: sweep ["durable"],
    /// Acknowledge the own log's whole durable prefix, the part that was not compared too.
    AckUnverified = ACK_UNVERIFIED: tests,
    /// Apply up to the leader's commit point what was not compared with the leader's log.
    ApplyUnverified = APPLY_UNVERIFIED: sweep ["durable"],
    /// Commit an entry of an older ballot because a majority holds it.
    CommitOlderBallot = COMMIT_OLDER_BALLOT: tests,
    /// Vote for whoever asks first in a ballot, however old its log.
    ElectOlderLog = ELECT_OLDER_LOG: sweep ["durable"],
    /// One vote is enough.
    ElectByOne = ELECT_BY_ONE: sweep ["durable"],
    /// One durable copy is enough.
    CommitAtOne = COMMIT_AT_ONE: sweep ["durable"],
    /// Say that every disk holds what a majority's hold.
    HoldByMajority = HOLD_BY_MAJORITY: sweep ["durable", "durable-members"],
    /// Say that a disk holds what it acknowledges although the state before its log is damaged.
    HoldWithoutState = HOLD_WITHOUT_STATE: tests,
    /// Take a new disk's acknowledgements for those of the disk that it replaces, while that one
    /// may yet be a voter again.
    HoldBySuccessor = HOLD_BY_SUCCESSOR: sweep ["durable-members"],
    /// What a sync covers is not shortened by a cut that was asked for meanwhile.
    CutDuringSync = CUT_DURING_SYNC: tests,
    /// Answer what the members are after a state of more than is decided here.
    HeadAboveApplied = HEAD_ABOVE_APPLIED: tests,
    /// What an earlier life left is taken for durable without a sync.
    TrustRecovered = TRUST_RECOVERED: sweep ["durable"],
    /// Forget the promise when the process restarts.
    ForgetPromise = FORGET_PROMISE: sweep ["durable"],
    /// Believe an acknowledgement without its checksum.
    TornAck = TORN_ACK: tests,
    /// Believe a record as soon as its first word is there.
    TornRecord = TORN_RECORD: sweep ["durable"],
    /// Answer reads without looking at a majority's promises.
    ReadWithoutCheck = READ_WITHOUT_CHECK: sweep ["durable"],
    /// Let the answer to any READ serve every check that waits, also those that began after it.
    AnyAnswerServes = ANY_ANSWER_SERVES: sweep ["durable"],
    /// What a sync covers includes a promise that was made while it was under way.
    PromiseDuringSync = PROMISE_DURING_SYNC: tests,
    /// Count a vote whatever ballot it was given in.
    VoteOfAnyBallot = VOTE_OF_ANY_BALLOT: tests,
    /// Serve before an entry of the own ballot is committed.
    ServeEarly = SERVE_EARLY: sweep ["durable"],
    /// Count members that a configuration has removed.
    CountRemoved = COUNT_REMOVED: sweep ["durable-members"],
    /// Begin a change of members before the last one is committed.
    TwoChanges = TWO_CHANGES: sweep ["durable-members"],
    /// Show readers a promise before the own log says that this disk votes.
    PublishAsLearner = PUBLISH_AS_LEARNER: tests,
    /// Give the vote in one ballot to whoever asks from that seat, whichever disk it is.
    VoteTwice = VOTE_TWICE: sweep ["durable-members"],
    /// Begin a change of members before an entry of the own ballot is committed.
    ChangeBeforeOwnEntry = CHANGE_BEFORE_OWN_ENTRY: tests,
    /// Let a learner vote before it holds everything that is committed.
    PromoteBeforeCaughtUp = PROMOTE_BEFORE_CAUGHT_UP: sweep ["durable-members"],
    /// Take acknowledgements and votes of another incarnation for the member's.
    AnyIncarnation = ANY_INCARNATION: sweep ["durable-members"],
    /// The same, of votes only.
    OldIncarnationVotes = OLD_INCARNATION_VOTES: sweep ["durable-members"],
    /// Take only those for leaders that the own log names, also while another tells it more.
    IgnoreWinner = IGNORE_WINNER: sweep ["durable-members"],
    /// Ask for a majority of every configuration since the last that is known to be committed,
    /// although its disks may be gone.
    ElectByEveryConfiguration = ELECT_BY_EVERY_CONFIGURATION: sweep ["durable-members"],
    /// Open another stream to whoever stands still, asked or not.
    BeginWhateverStandsStill = BEGIN_WHATEVER_STANDS_STILL: tests,
    /// Append whatever comes, however much waits for the disk.
    IgnoreRoom = IGNORE_ROOM: sweep ["durable"],
    /// What is held back for those that are not needed stays so, however late something is.
    HoldBack = HOLD_BACK: sweep ["durable"],
}
