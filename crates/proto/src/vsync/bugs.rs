//! The planted mistakes of views. `gregale sim --protocol vsync --mutants` hunts them, and those of
//! the table below (`sst::bugs`); `tests` shows those of the end of a view one by one.

use crate::planted::{Planted, Planting};
use crate::sst::bugs::Bug as TableBug;

crate::planted_bugs! {
    /// The trim is taken over the rows of suspected members too, which are frozen and stale.
    TrimOfSuspected = TRIM_OF_SUSPECTED: sweep ["vsync"],
    /// The trim is taken before every member that is not suspected has wedged.
    TrimUnwedged = TRIM_UNWEDGED: sweep ["vsync"],
    /// A leader proposes its own change, whatever an earlier leader has proposed.
    NoAdoption = NO_ADOPTION: sweep ["vsync"],
    /// Of the changes that earlier leaders proposed, the first one's is adopted.
    AdoptFirst = ADOPT_FIRST: tests,
    /// A change is acted upon as soon as it is proposed.
    UnechoedChange = UNECHOED_CHANGE: sweep ["vsync", "vsync-durable"],
    /// The echoes of half of the view are enough.
    EchoOfHalf = ECHO_OF_HALF: sweep ["vsync", "vsync-durable"],
    /// A member leads as soon as it suspects all members before it, be it alone with that.
    LeadAlone = LEAD_ALONE: sweep ["vsync", "vsync-durable"],
    /// A member still takes changes from a leader that it suspects.
    EchoSuspected = ECHO_SUSPECTED: sweep ["vsync-durable"],
    /// The members that are left need not be a majority of the view.
    MinorityContinues = MINORITY_CONTINUES: sweep ["vsync"],
    /// What other members suspect is not suspected here.
    SuspicionKept = SUSPICION_KEPT: sweep ["vsync"],
    /// What is read from a ring counts, whichever view is written there meanwhile.
    SlotOfAnyView = SLOT_OF_ANY_VIEW: tests,
    /// Places are claimed once in a view, and not again where a link was down meanwhile.
    ClaimedOnce = CLAIMED_ONCE: tests,
    /// Messages are delivered when they have been received here.
    DeliverUnstable = DELIVER_UNSTABLE: sweep ["vsync"],
    /// Of the senders with the fewest messages the last one decides how far the order goes (A.3.1).
    LastLagging = LAST_LAGGING: sweep ["vsync"],
    /// A sender waits for room while there is some, and takes it when it has gone (A.2.3).
    WindowInverted = WINDOW_INVERTED: sweep ["vsync"],
    /// A sender fills its ring, whatever of it the others have received.
    FlightUnbounded = FLIGHT_UNBOUNDED: tests,
    /// A sender that is silent blocks the order.
    NoNulls = NO_NULLS: sweep ["vsync"],
    /// A receiver takes the turn of a silent sender for a null.
    NullsInvented = NULLS_INVENTED: sweep ["vsync"],
    /// Without an order, what is sent again is delivered again.
    RepeatedIsNew = REPEATED_IS_NEW: sweep ["vsync"],
    /// Without an order, a sender takes its message for received when it has sent it.
    OwnAtOnce = OWN_AT_ONCE: sweep ["vsync"],
    /// Messages behind the trim are not sent again.
    NotSentAgain = NOT_SENT_AGAIN: sweep ["vsync"],
    /// Messages behind the trim are sent again after those that wait.
    SentAgainLast = SENT_AGAIN_LAST: sweep ["vsync"],
    /// The echo of a member that leaves does not count.
    LeaverUncounted = LEAVER_UNCOUNTED: sweep ["vsync", "vsync-durable"],
    /// A member that leaves is gone as soon as it knows that it may.
    LeaveAtOnce = LEAVE_AT_ONCE: sweep ["vsync"],
    /// A wish to leave ends with the view that it was told in.
    LeaveForgotten = LEAVE_FORGOTTEN: sweep ["vsync"],
    /// The last member that has the state leaves while newcomers wait for it.
    LastLeaves = LAST_LEAVES: sweep ["vsync-durable"],
    /// A newcomer delivers from its first view on, without the state.
    NoState = NO_STATE: sweep ["vsync"],
    /// A newcomer delivers what the state that it was given covers.
    StateRepeated = STATE_REPEATED: sweep ["vsync"],
    /// Newcomers are let in although they could outnumber the members that have the state.
    CrowdOfNewcomers = CROWD_OF_NEWCOMERS: sweep ["vsync", "vsync-durable"],
    /// A member that has installed a view leaves those behind alone that have not.
    NoCommit = NO_COMMIT: tests,
    /// A member whose application takes nothing begins the next view without the end of this one.
    HoldsTheEnd = HOLDS_THE_END: sweep ["vsync"],
    /// A newcomer lays out its first view as if it were the group's first.
    RosterGuessed = ROSTER_GUESSED: sweep ["vsync"],
    /// A member that is no sender of a subgroup multicasts there.
    SilentSends = SILENT_SENDS: sweep ["vsync"],
    /// The last member with a shard's state is moved to another shard.
    LastBearerMoved = LAST_BEARER_MOVED: sweep ["vsync"],
    /// A shard whose members with the state are gone waits for it.
    KeepsTheDead = KEEPS_THE_DEAD: sweep ["vsync"],
    /// The trim of the first shard ends all of them.
    OneTrim = ONE_TRIM: sweep ["vsync"],
    /// A member that is moved to another shard has no need of that one's state.
    MovedIsReady = MOVED_IS_READY: sweep ["vsync"],
    /// What was cut off in one shard is sent again in the next one of its sender.
    SentElsewhere = SENT_ELSEWHERE: sweep ["vsync"],
    /// A state is taken that was made before its taker came to the shard.
    TakesTheOld = TAKES_THE_OLD: sweep ["vsync"],
    /// What waits is sent though the view or the subgroup lacks members.
    SendsInadequate = SENDS_INADEQUATE: sweep ["vsync"],
    /// What was cut off is sent again with a stamp from before.
    StampKept = STAMP_KEPT: sweep ["vsync"],
    /// A receiver's clock does not see the stamps of what it receives.
    StampUnseen = STAMP_UNSEEN: sweep ["vsync"],
    /// A message is delivered with its stamp for a time.
    TimeIsStamp = TIME_IS_STAMP: sweep ["vsync"],
    /// What is shown ahead has its stamp for a time.
    AheadIsStamped = AHEAD_IS_STAMPED: sweep ["vsync"],
    /// A newcomer does not look at the stamps of what its state covers.
    SkippedUnread = SKIPPED_UNREAD: tests,
    /// A view has no time that its messages are later than.
    ViewWithoutTime = VIEW_WITHOUT_TIME: sweep ["vsync"],
    /// A row shows clocks that are later than what its owner had seen when it wedged.
    ClockOfWedged = CLOCK_OF_WEDGED: tests,
    /// A time is final as soon as all members have shown it, whatever of what they sent is open.
    FrontierAtOnce = FRONTIER_AT_ONCE: sweep ["vsync"],
    /// In a durable group a member shows a clock that its next process does not find again.
    ShowsTheSeen = SHOWS_THE_SEEN: tests,
    /// A member that has shown no clock yet is not waited for.
    FrontierOfSome = FRONTIER_OF_SOME: sweep ["vsync"],
    /// Reads are answered without a lease.
    LeaseUnchecked = LEASE_UNCHECKED: sweep ["vsync"],
    /// The echo of one other member is a lease.
    LeaseOfOne = LEASE_OF_ONE_ECHO: sweep ["vsync"],
    /// A lease counts from when an echo is seen.
    LeaseFromEcho = LEASE_FROM_ECHO: sweep ["vsync"],
    /// A member that has wedged tells which beats it sees.
    HearsWedged = HEARS_WEDGED: tests,
    /// A lease is counted as long as others wait, whatever the clocks' rates.
    LeaseRateIgnored = LEASE_RATE_IGNORED: tests,
    /// A view answers at once, whatever leases those have that it has lost.
    AnswersAtOnce = ANSWERS_AT_ONCE: sweep ["vsync"],
    /// A view waits for leases from the time that its turn was told at the beginning.
    HoldFromOldTime = HOLD_FROM_OLD_TIME: tests,
    /// A read sees what is delivered, and not all that its member holds.
    ReadsWhatIsThere = READS_WHAT_IS_THERE: sweep ["vsync"],
    /// A member says that a message is persisted before the disk has synced it.
    PersistedBeforeSync = PERSISTED_BEFORE_SYNC: sweep ["vsync-durable"],
    /// A newcomer's disk counts before it has the state that its messages follow.
    PersistedWithoutState = PERSISTED_WITHOUT_STATE: tests,
    /// What all members have received is delivered, on disks or not.
    StableWhenReceived = STABLE_WHEN_RECEIVED: sweep ["vsync-durable"],
    /// A change is echoed before it is synced.
    EchoBeforeSync = ECHO_BEFORE_SYNC: sweep ["vsync-durable"],
    /// A state is kept while the view ends: what was accepted before is freed.
    KeptWhileWedged = KEPT_WHILE_WEDGED: sweep ["vsync-durable"],
    /// The state of a shard without messages is not written again, whatever the log has behind it.
    KeptByTheIdle = KEPT_BY_THE_IDLE: tests,
    /// A member acts in a view that is not on its disk.
    RowBeforeView = ROW_BEFORE_VIEW: tests,
    /// A shard whose members have failed begins again, while their disks have its state.
    ShardGivenUp = SHARD_GIVEN_UP: sweep ["vsync-durable"],
    /// A member has the state of its shard before that is synced.
    ReadyBeforeSync = READY_BEFORE_SYNC: tests,
    /// What a trim cut off is found in the log again.
    UntrimmedLog = UNTRIMMED_LOG: sweep ["vsync-durable"],
    /// A newcomer forgets what it promised and accepted before it is in its next view.
    VoteForgotten = VOTE_FORGOTTEN: tests,
    /// A promise in a restart, or an acceptance, is told before it is synced.
    AnswerBeforeSync = ANSWER_BEFORE_SYNC: sweep ["vsync-durable"],
    /// A promise in a restart is told, and never written.
    PromiseUnlogged = PROMISE_UNLOGGED: sweep ["vsync-durable"],
    /// A process proposes the end of a view before its own promise is synced.
    ProposesUnpromised = PROPOSES_UNPROMISED: tests,
    /// A group is restarted by a minority of its last view.
    RestartByFew = RESTART_BY_FEW: sweep ["vsync-durable"],
    /// A restart makes a change of its own, whatever the logs have accepted.
    RestartForgets = RESTART_FORGETS: sweep ["vsync-durable"],
    /// A restart lets a shard begin again whose logs are missing.
    ShardFromNothing = SHARD_FROM_NOTHING: sweep ["vsync-durable"],
    /// A restart waits for the logs of a shard that is in memory alone.
    MemoryIsWaitedFor = MEMORY_IS_WAITED_FOR: sweep ["vsync-durable"],
    /// A shard that is in memory alone delivers what a log has of it.
    MemoryIsLogged = MEMORY_IS_LOGGED: sweep ["vsync-durable"],
    /// A process that knows a later view promises in an older one.
    RestartOfTheOld = RESTART_OF_THE_OLD: sweep ["vsync-durable"],
    /// The log of another group counts.
    ForeignLog = FOREIGN_LOG: tests,
    /// After a link was down, a member tells what changes from then on, and not its whole row.
    NoRenewal = NO_RENEWAL: sweep ["vsync"],
    /// A member's clock begins with the view's time, whatever it has seen since it wedged.
    ClockNotCarried = CLOCK_NOT_CARRIED: sweep ["vsync"],
    /// Nulls count as messages that were not sent.
    UnsentCountsNulls = UNSENT_COUNTS_NULLS: sweep ["vsync"],
    /// The view behind one that has lost a member forgets how long answers wait.
    HoldForgotten = HOLD_FORGOTTEN: sweep ["vsync"],
    /// A newcomer to a shard answers at once.
    NewcomerAnswers = NEWCOMER_ANSWERS: sweep ["vsync"],
    /// A newcomer skips the first message that it held behind its state.
    HeldOffByOne = HELD_OFF_BY_ONE: tests,
    /// A process takes the welcome of the one before it on its seat.
    WelcomeBySeat = WELCOME_BY_SEAT: sweep ["vsync"],
    /// A place is used again as soon as its own process has released it.
    PlaceAtOnce = PLACE_AT_ONCE: sweep ["vsync"],
    /// A place is used again though a process that has left the view may read there.
    PlaceOfTheRemoved = PLACE_OF_THE_REMOVED: sweep ["vsync"],
    /// A member tells that it has received a message whose place it does not hold.
    ReceivedUnheld = RECEIVED_UNHELD: sweep ["vsync"],
    /// What was cut off is sent again as the same use of its place.
    UseKept = USE_KEPT: sweep ["vsync"],
    /// A process ends whose application reads in places yet.
    EndsUncopied = ENDS_UNCOPIED: sweep ["vsync"],
    /// When a link is there again, slots are written again, and their parcels are not.
    SlotAlone = SLOT_ALONE: sweep ["vsync"],
    /// A member tells that it has received a message whose parcel it has not taken.
    ReceivedUntaken = RECEIVED_UNTAKEN: sweep ["vsync"],
    /// Parcels that were not taken stay when their view ends.
    ParcelsKept = PARCELS_KEPT: tests,
    /// A relayed message counts as received though a block of it is missing.
    CountedIncomplete = COUNTED_INCOMPLETE: sweep ["vsync"],
    /// A relay forgets a message when it has all of it, and has sent what it was to send.
    BlocksFreed = BLOCKS_FREED: sweep ["vsync"],
    /// When a link is there again, blocks that it had lost are not sent again.
    BlocksLost = BLOCKS_LOST: sweep ["vsync"],
    /// A block is taken for one of whatever message is in its slot, of an earlier view too.
    BlockOfAnyMessage = BLOCK_OF_ANY_MESSAGE: sweep ["vsync"],
    /// A relay posts what it has, whether the link has room or not.
    RelaysUnbounded = RELAYS_UNBOUNDED: tests,
    /// In a restart a proposal is accepted below a promise.
    AcceptsBelow = ACCEPTS_BELOW: tests,
}

/// A table has no mistake if the view has one.
impl Planting<TableBug> for Planted<Bug> {
    fn has(self, _: TableBug) -> bool {
        false
    }
}

/// A view has no mistake if the table has one.
impl Planting<Bug> for Planted<TableBug> {
    fn has(self, _: Bug) -> bool {
        false
    }
}

/// At most one mistake, in a view or in the table below.
pub trait Plantings: Planting<Bug> + Planting<TableBug> {}

impl<P: Planting<Bug> + Planting<TableBug>> Plantings for P {}
