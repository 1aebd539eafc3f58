//! Velos' planted bugs.
//!
//! A scenario (in the tests here or in `sim`) shows each bug that a sweep meets too rarely.
//!
//! Two planted bugs never showed, and were removed. *Check a leader's reads against the next free
//! slot*: its accepts and that READ share FIFO links, so the accepts' completions, which depose it,
//! come first. *Skip the checksum*: an area is whole while a word refers to it, and a slot's full
//! number catches the rest. The two rules stay as a second line of defence.

crate::planted_bugs! {
    /// Accept without having prepared (section 4.2: the promise of a majority is what makes a
    /// proposal safe).
    SkipPrepare = SKIP_PREPARE: sweep ["velos"],
    /// One acceptor is enough to decide.
    IgnoreMajority = IGNORE_MAJORITY: sweep ["velos"],
    /// One promise is enough to propose.
    PromiseOfOne = PROMISE_OF_ONE: sweep ["velos"],
    /// Look for accepted values in predicted words, not in those that the prepare returned.
    AdoptFromPredictions = ADOPT_FROM_PREDICTIONS: sweep ["velos"],
    /// Propose an own value although the prepare found an accepted one.
    IgnoreFoundValue = IGNORE_FOUND_VALUE: sweep ["velos"],
    /// Adopt the accepted value with the lowest ballot.
    AdoptLowest = ADOPT_LOWEST: sweep ["velos"],
    /// Count a failed accept as an accept.
    CountFailedAccepts = COUNT_FAILED_ACCEPTS: sweep ["velos"],
    /// Recycle a slot when it is decided, whether or not a majority has applied it.
    RecycleEarly = RECYCLE_EARLY: sweep ["velos"],
    /// Answer reads without looking at a majority.
    ReadWithoutCheck = READ_WITHOUT_CHECK: sweep ["velos"],
    /// Check reads at one member only.
    ReadChecksOne = READ_CHECKS_ONE: sweep ["velos"],
    /// Let the answer to any READ serve the check that has waited longest.
    AnyAnswerServes = ANY_ANSWER_SERVES: sweep ["velos"],
    /// A new leader answers reads before it has applied what it found.
    ReadBeforeRecovery = READ_BEFORE_RECOVERY: sweep ["velos"],
    /// Forget the highest proposal number when the process restarts.
    ForgetPromise = FORGET_PROMISE: sweep ["velos"],
    /// Apply the own acceptor's value below the decided prefix, whichever ballot proposed it.
    ApplyBareIndex = APPLY_BARE_INDEX: sweep ["velos"],
    /// Read the leader's two published words in the wrong order.
    TornFact = TORN_FACT: sweep ["velos"],
    /// Publish a prefix with its ballot to a memory that was not identified since its link was
    /// lost.
    PublishToUnmet = PUBLISH_TO_UNMET: sweep ["velos"],
    /// Post the CAS before the WRITE of the value that it refers to.
    ValueAfterCas = VALUE_AFTER_CAS: sweep ["velos"],
    /// Fetch a slot from any majority that answers, although one member has recycled it.
    FetchAcrossGenerations = FETCH_ACROSS_GENERATIONS: sweep ["velos"],
    /// Trust a word's generation without reading the horizons.
    SkipSurvey = SKIP_SURVEY: sweep ["velos"],
    /// The second answer of an acceptor whose promise was asked for twice leads to nothing.
    AskedTwiceWaits = ASKED_TWICE_WAITS: tests,
    /// Show a horizon after the CAS that uses a place again, instead of before it.
    HorizonAfterCas = HORIZON_AFTER_CAS: sweep ["velos-narrow"],
    /// Do not show a horizon again that a broken link may have lost.
    LostHorizonStays = LOST_HORIZON_STAYS: sweep ["velos"],
    /// Show the horizon of the present term although an earlier term has shown one further on.
    ForgetHorizon = FORGET_HORIZON: sweep ["velos"],
    /// Serve as a full member right after a restart, without the state.
    ServeAsLearner = SERVE_AS_LEARNER: sweep ["velos"],
    /// Count every answer, also from removed members and from learners.
    CountRemoved = COUNT_REMOVED: sweep ["velos-members"],
    /// Count any memory at a voter's seat.
    AnyIncarnation = ANY_INCARNATION: sweep ["velos-members"],
    /// A configuration governs from the slot after the one that decides it.
    GovernAtOnce = GOVERN_AT_ONCE: sweep ["velos-members"],
    /// Prepare slots before their configuration is known.
    PrepareAhead = PREPARE_AHEAD: sweep ["velos-members"],
    /// Count every entry that names members, whatever configuration it was made from.
    AnyBase = ANY_BASE: tests,
    /// Begin a change before the voters of the last one have applied everything before its start.
    ChangeUnsettled = CHANGE_UNSETTLED: sweep ["velos-members"],
    /// Propose no-ops up to the slot before the one with which the next era begins.
    HastensShort = HASTENS_SHORT: sweep ["velos-members"],
    /// Let a learner vote that does not have the state.
    PromoteBeforeCaughtUp = PROMOTE_BEFORE_CAUGHT_UP: sweep ["velos-members"],
    /// Credit a new incarnation with its predecessor's claims.
    AnyClaim = ANY_CLAIM: sweep ["velos-members"],
    /// Post again to an acceptor whose answer is still awaited.
    RepostUnanswered = REPOST_UNANSWERED: sweep ["velos"],
    /// After overflow, accept at the own memory before the value is there.
    OwnValueLater = OWN_VALUE_LATER: sweep ["velos-narrow"],
    /// Write into an area that the acceptor's word refers to.
    WriteLiveArea = WRITE_LIVE_AREA: sweep ["velos"],
    /// Give the members after a state of more slots than are applied.
    HeadAboveApplied = HEAD_ABOVE_APPLIED: sweep ["velos-members"],
    /// Do not note the ballot of a value that was read from others' memory.
    ForgetReadBallots = FORGET_READ_BALLOTS: tests,
    /// After overflow, answer a prepare by message without having sealed the word.
    RpcWithoutSeal = RPC_WITHOUT_SEAL: sweep ["velos-narrow"],
    /// A repeated prepare takes any value under the own ballot for this slot's accept, whether or
    /// not it is the one that was offered for it.
    AnyOwnAccept = ANY_OWN_ACCEPT: tests,
    /// A follower fetches the first accepted value among a majority's words, not the highest.
    FetchFirstAccepted = FETCH_FIRST_ACCEPTED: sweep ["velos"],
    /// A leader takes a peer for introduced although the link broke that the ballot was sent over.
    IntroducedOutlivesLink = INTRODUCED_OUTLIVES_LINK: sweep ["velos"],
    /// An acceptor whose value cannot be read counts as one that has promised and holds none.
    UnreadableIsEmpty = UNREADABLE_IS_EMPTY: tests,
    /// An acceptor whose place was used again since its promise counts as one that holds none.
    LaterIsEmpty = LATER_IS_EMPTY: tests,
    /// Take a process for alive as soon as its link is up: what its predecessor had applied counts
    /// until its own claim comes.
    AliveAtLinkUp = ALIVE_AT_LINK_UP: tests,
    /// Be able to lead although a majority has applied what this member lacks.
    StandsBehind = STANDS_BEHIND: tests,
}
