//! Multi-Paxos's planted bugs.

crate::planted_bugs! {
    /// Forget the promise when the process restarts.
    ForgetPromise = FORGET_PROMISE: sweep ["multipaxos"],
    /// Forget what was accepted when the process restarts.
    ForgetAccepted = FORGET_ACCEPTED: sweep ["multipaxos"],
    /// Write what is accepted again over what was accepted before.
    AcceptInPlace = ACCEPT_IN_PLACE: sweep ["multipaxos"],
    /// Take a place of the ring before what it holds is decided.
    OverrunRing = OVERRUN_RING: sweep ["multipaxos"],
    /// Promise a ballot below one that was promised before.
    PromiseLower = PROMISE_LOWER: sweep ["multipaxos"],
    /// Accept in a ballot below the one that was promised.
    AcceptOlderBallot = ACCEPT_OLDER_BALLOT: sweep ["multipaxos"],
    /// One promise is enough to propose.
    PromiseOfOne = PROMISE_OF_ONE: sweep ["multipaxos"],
    /// One acceptor is enough to decide.
    CommitAtOne = COMMIT_AT_ONE: sweep ["multipaxos"],
    /// Propose an own value although a promise came with one.
    IgnoreFoundValue = IGNORE_FOUND_VALUE: sweep ["multipaxos"],
    /// Propose the value of the lowest ballot that promises came with.
    AdoptLowest = ADOPT_LOWEST: sweep ["multipaxos"],
    /// Count a promise although a broken link has taken a part of what it came with.
    CountPartialPromise = COUNT_PARTIAL_PROMISE: tests,
    /// Count promises of acceptors that hold no more what they had accepted.
    IgnoreFloor = IGNORE_FLOOR: sweep ["multipaxos"],
    /// Send followers what the own ring holds below a state that was installed.
    FeedBelowState = FEED_BELOW_STATE: sweep ["multipaxos"],
    /// Apply what is accepted below the decided prefix, in whichever ballot.
    ApplyBareIndex = APPLY_BARE_INDEX: sweep ["multipaxos"],
    /// Serve before what the predecessor left is decided.
    ServeEarly = SERVE_EARLY: sweep ["multipaxos"],
    /// Serve as a full member right after a restart, without the state.
    ServeAsLearner = SERVE_AS_LEARNER: sweep ["multipaxos"],
    /// Answer reads without a lease and without a check.
    ReadWithoutCheck = READ_WITHOUT_CHECK: sweep ["multipaxos"],
    /// Let the answer to an earlier question serve a later check.
    AnyAnswerServes = ANY_ANSWER_SERVES: sweep ["multipaxos"],
    /// Promise another leader a ballot while a grant runs.
    IgnoreGrant = IGNORE_GRANT: sweep ["multipaxos"],
    /// Forget what was granted when the process restarts.
    ForgetGrant = FORGET_GRANT: sweep ["multipaxos"],
    /// Count a lease from the answer's arrival, not from the question's leaving.
    LeaseFromAnswer = LEASE_FROM_ANSWER: sweep ["multipaxos"],
    /// Count a lease as long as it was granted, whatever the clocks' rates.
    IgnoreRate = IGNORE_RATE: sweep ["multipaxos"],
    /// Let a grant run from a time that was told before the question came.
    GrantFromOldTime = GRANT_FROM_OLD_TIME: sweep ["multipaxos"],
    /// The grant of one peer is a lease, also where a majority takes more of them.
    LeaseOfOne = LEASE_OF_ONE: sweep ["multipaxos"],
}
