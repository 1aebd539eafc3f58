//! The planted mistakes of ABD. `tests` hunts all of them: in a little world, and by a schedule
//! each of those that its seeds meet too rarely or never.
//!
//! Of the simulated clusters 100 seeds met those that are marked so, and none of the others:
//! members die one after the other, which leaves little room for mistakes in crash vectors and in
//! merges.

crate::planted_bugs! {
    /// A read returns the newest version that it found, without a majority that holds it.
    NoWriteBack = NO_WRITE_BACK: sweep ["abd-cluster"],
    /// What a read writes back is enough at one replica.
    WriteBackToOne = WRITE_BACK_TO_ONE: sweep ["abd-cluster"],
    /// One reply to a query is enough.
    QueryOfOne = QUERY_OF_ONE: sweep ["abd-cluster"],
    /// One acknowledgement of a store is enough.
    StoreAtOne = STORE_AT_ONE: sweep ["abd-cluster"],
    /// Of the versions that were found, the oldest is taken.
    OldestWins = OLDEST_WINS: sweep ["abd-cluster"],
    /// Versions of one counter count as one version.
    TiesUnbroken = TIES_UNBROKEN: sweep ["abd-cluster"],
    /// Tags do not name the run of their writer, which forgets what it has used.
    TagWithoutRun = TAG_WITHOUT_RUN: tests,
    /// A write counts on from the own replica, and not from all that was heard.
    CounterFromOwn = COUNTER_FROM_OWN: sweep ["abd-cluster"],
    /// Replies of process runs count that are known to be over.
    OldRunsCount = OLD_RUNS_COUNT: sweep ["abd-cluster"],
    /// A replica answers queries and stores before it has merged a majority's state.
    MergingCounts = MERGING_COUNTS: sweep ["abd-cluster"],
    /// The state of one other member is enough for a newcomer.
    MergeOfOne = MERGE_OF_ONE: sweep ["abd-cluster"],
    /// A merge keeps what came first, be it older.
    MergeKeepsFirst = MERGE_KEEPS_FIRST: sweep ["abd-cluster"],
    /// A member gives its state to a newcomer without noting the newcomer's run.
    GivesUnnoted = GIVES_UNNOTED: tests,
    /// What two runs of one member give counts as one state.
    MixedStates = MIXED_STATES: tests,
    /// A giver continues behind the key that its earlier run had come to.
    FetchOutlivesGiver = FETCH_OUTLIVES_GIVER: tests,
    /// A replica acknowledges what it stores a while later.
    AckBeforeStore = ACK_BEFORE_STORE: sweep ["abd-cluster"],
    /// A replica stores what it is sent in place of something newer.
    OlderReplaces = OLDER_REPLACES: sweep ["abd-cluster"],
    /// A replica that answers twice counts twice.
    CountedTwice = COUNTED_TWICE: sweep ["abd-cluster"],
    /// A reply counts for the oldest operation, whichever it answers.
    AnyReplyCounts = ANY_REPLY_COUNTS: sweep ["abd-cluster"],
    /// Replies to an earlier run of this member count for the present one.
    RepliesOutliveRuns = REPLIES_OUTLIVE_RUNS: tests,
    /// A write that is sent again has another tag, so it may take effect twice.
    SentAgainAsNewer = SENT_AGAIN_AS_NEWER: sweep ["abd-cluster"],
    /// A write that other replicas may hold is called undone at its deadline.
    UnknownCalledUndone = UNKNOWN_CALLED_UNDONE: sweep ["abd-cluster"],
    /// A newcomer that is given no state begins with an empty one.
    BeginsEmpty = BEGINS_EMPTY: sweep ["abd-cluster"],
    /// A write counts on from what its query has heard, and not from what the own replica holds by
    /// then.
    CounterFromHeard = COUNTER_FROM_HEARD: tests,
}
