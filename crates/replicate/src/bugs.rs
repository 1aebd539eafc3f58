//! Planted mistakes of the replicate door. The released door has none ([`proto::planted::Sound`]).
//!
//! An engine executes what a leader proposed in the leader's order, or not at all, so no seed meets
//! an entry that comes too early: tests show those mistakes.

/// Every simulated cluster that replicates a program can notice the mistake.
const ANYWHERE: [&str; 1] = ["replicate"];

/// Those of them whose reads run beside the log.
const READING: [&str; 2] = ["replicate", "replicate-durable"];
/// Such clusters, from logs on disk.
const ON_DISK: [&str; 1] = ["replicate-durable"];
/// Clusters whose programs say themselves when they are at rest, one connection after the other.
const SAYING: [&str; 1] = ["replicate-waits"];
/// Clusters whose programs are fed by the turn.
const IN_TURNS: [&str; 1] = ["replicate-loop"];
/// Clusters whose answers are held until they are compared.
const STRICT: [&str; 1] = ["replicate-strict"];

proto::planted_bugs! {
    /// A copy is fed the next connection's input before it is at rest.
    NextBeforeRest = NEXT_BEFORE_REST: sweep ANYWHERE,
    /// A copy is fed what a connection says next before it is at rest.
    NextOfOneBeforeRest = NEXT_OF_ONE_BEFORE_REST: tests,
    /// A copy that sleeps before it has accepted its first connection is taken to be at rest.
    FirstUnawaited = FIRST_UNAWAITED: sweep SAYING,
    /// A copy is taken to be at rest when it has answered one of several requests.
    RestAfterOneReply = REST_AFTER_ONE_REPLY: sweep ANYWHERE,
    /// A copy that moves is taken to be blocked.
    BusyIsBlocked = BUSY_IS_BLOCKED: sweep ANYWHERE,
    /// A copy is fed on before it has noticed that a connection was taken from it.
    LossUnawaited = LOSS_UNAWAITED: sweep ANYWHERE,
    /// An entry that was executed is executed again when it is decided again.
    RepeatsExecute = REPEATS_EXECUTE: sweep ANYWHERE,
    /// An entry is executed though an earlier one of its connection is missing.
    GapsExecute = GAPS_EXECUTE: tests,
    /// An entry that came too early is answered, so its owner does not send it again.
    TooEarlyAnswered = TOO_EARLY_ANSWERED: tests,
    /// An abort does not use up the number of a connection that was not opened.
    AbortLeavesNumber = ABORT_LEAVES_NUMBER: tests,
    /// The connections of a member's earlier process stay open when a later one begins.
    EarlierRunsStayOpen = EARLIER_RUNS_STAY_OPEN: sweep ANYWHERE,
    /// A connection of which the fate of one entry is unknown stays open.
    UnknownStaysOpen = UNKNOWN_STAYS_OPEN: tests,
    /// An abort whose fate is unknown is not said again.
    AbortSaidOnce = ABORT_SAID_ONCE: sweep ANYWHERE,
    /// A state is installed without the table of its connections.
    StateWithoutTable = STATE_WITHOUT_TABLE: sweep ANYWHERE,
    /// The connections of a member that is dead stay open.
    DeadStayOpen = DEAD_STAY_OPEN: tests,
    /// A leader says nothing of a member that was removed.
    LeftUnsaid = LEFT_UNSAID: sweep ANYWHERE,
    /// A process says that it begins before its member has its seat.
    BeginsUnseated = BEGINS_UNSEATED: sweep ANYWHERE,
    /// A process reports the hashes of its copy before its own beginning was executed.
    ReportsUnbegun = REPORTS_UNBEGUN: sweep ANYWHERE,
    /// The connections of a member that was removed stay open.
    LeftStaysOpen = LEFT_STAYS_OPEN: sweep ANYWHERE,
    /// A table that comes with a checkpoint does not tell that a member was removed.
    LeftNotRestored = LEFT_NOT_RESTORED: sweep ANYWHERE,
    /// A member that was removed counts among those whose copies are compared.
    LeftCounts = LEFT_COUNTS: sweep ANYWHERE,
    /// Two members with the same hash are taken for a majority of any number.
    TwoAreEnough = TWO_ARE_ENOUGH: sweep STRICT,
    /// An answer that is held leaves before its hash was agreed on.
    AnswerBeforeVerdict = ANSWER_BEFORE_VERDICT: sweep STRICT,
    /// An answer leaves when a hash was agreed on at its point, whichever the own copy has taken.
    AnyHashReleases = ANY_HASH_RELEASES: tests,
    /// What a copy has sent behind a point leaves with what it has sent before.
    LaterBytesLeave = LATER_BYTES_LEAVE: sweep STRICT,
    /// What was refused stays in the outbox, and leaves with what is agreed on later.
    RefusedStays = REFUSED_STAYS: tests,
    /// The end of a connection by the program does not wait for what is held from its client.
    EndOvertakes = END_OVERTAKES: tests,
    /// Answers leave where no hash could be agreed on.
    SplitReleases = SPLIT_RELEASES: tests,
    /// Answers that no majority agrees on are held without a bound of time.
    HeldForEver = HELD_FOR_EVER: tests,
    /// What a copy sends without an entry waits for one, however long none comes.
    LateUncompared = LATE_UNCOMPARED: tests,
    /// Clients are read however much is held from them.
    HeldUnbounded = HELD_UNBOUNDED: tests,
    /// A hash is taken before the copy has answered everything.
    HashBeforeRest = HASH_BEFORE_REST: sweep ANYWHERE,
    /// What was answered on a connection that has ended is not hashed.
    EndedNotHashed = ENDED_NOT_HASHED: tests,
    /// A transaction that holds what is the copy's own is hashed, if a point lies before EXEC.
    MaskEndsBeforeExec = MASK_ENDS_BEFORE_EXEC: sweep ANYWHERE,
    /// A connection is ended before the copy has answered what its client asked.
    EndedBeforeRest = ENDED_BEFORE_REST: sweep ANYWHERE,
    /// A connection is ended though its end by the program may be there, and was not read.
    OwnEndUnread = OWN_END_UNREAD: tests,
    /// A checkpoint counts although its maker's copy was not compared behind it.
    CheckpointUnmatched = CHECKPOINT_UNMATCHED: tests,
    /// A checkpoint counts although its maker's copy may have differed at its own point.
    MatchedBehindAlone = MATCHED_BEHIND_ALONE: tests,
    /// A checkpoint counts when its maker's copy agrees at the checkpoint's own point.
    CheckpointByOwnPoint = CHECKPOINT_BY_OWN_POINT: tests,
    /// A copy that may have answered wrongly makes a checkpoint.
    DoubtfulMakes = DOUBTFUL_MAKES: tests,
    /// A copy is saved before it has answered everything.
    SavedBeforeRest = SAVED_BEFORE_REST: sweep ANYWHERE,
    /// A program that sleeps is taken to be at rest though there is room for what it was not given.
    RoomUnasked = ROOM_UNASKED: tests,
    /// What a copy has saved at a point that was given up is taken for its state at a later one.
    SavedElsewhere = SAVED_ELSEWHERE: sweep ANYWHERE,
    /// The transcript is forgotten up to its end, not up to the checkpoint.
    FreedTooFar = FREED_TOO_FAR: sweep ANYWHERE,
    /// A copy does not begin again at a halt, though what is saved there begins so.
    NotRenewed = NOT_RENEWED: sweep ANYWHERE,
    /// A copy that begins again at a halt is not told the log's time.
    RenewedWithoutTime = RENEWED_WITHOUT_TIME: sweep ANYWHERE,
    /// A halt counts again at once, though the one before was in vain.
    HaltedAgain = HALTED_AGAIN: tests,
    /// The requests that made connections what they are are not repeated behind a checkpoint.
    PrologueForgotten = PROLOGUE_FORGOTTEN: tests,
    /// A member whose copy differs from a majority continues to serve.
    DifferingServes = DIFFERING_SERVES: sweep ANYWHERE,
    /// A member whose copy takes up nothing serves on, though the others have passed it.
    StalledServes = STALLED_SERVES: sweep ANYWHERE,
    /// Clients are read however far the copies of a majority are behind.
    MajorityOutrun = MAJORITY_OUTRUN: tests,
    /// A member whose copy lacks what is forgotten ends before its disk has the state given to it.
    EndsBeforeKept = ENDS_BEFORE_KEPT: sweep ON_DISK,
    /// A copy begins while its member is a learner, with a state that another one follows.
    LearnersCopyBegins = LEARNERS_COPY_BEGINS: tests,
    /// A copy is told a time of its member's own clock.
    TimeOfOwnClock = TIME_OF_OWN_CLOCK: sweep ANYWHERE,
    /// A copy is told the time before it is at rest.
    TimeBeforeRest = TIME_BEFORE_REST: sweep ANYWHERE,
    /// A copy is fed on before the waits that a time has ended have done what they do.
    TimersNotAwaited = TIMERS_NOT_AWAITED: sweep ANYWHERE,
    /// A copy that begins with a checkpoint is not told the time of that.
    TimeNotRestored = TIME_NOT_RESTORED: sweep ANYWHERE,
    /// A leader makes no tick for what its copy waits for.
    TicksForgotten = TICKS_FORGOTTEN: tests,
    /// Reads beside the log are fed without a check.
    ReadUnchecked = READ_UNCHECKED: sweep READING,
    /// Reads overtake what their own connection has said before.
    ReadOvertakes = READ_OVERTAKES: sweep READING,
    /// Reads are fed before the copy has executed what their check covers.
    ReadBeforeExecuted = READ_BEFORE_EXECUTED: sweep READING,
    /// Reads that the leader has checked are fed where this member is, not where the leader was.
    ReadAtOwnPlace = READ_AT_OWN_PLACE: sweep ON_DISK,
    /// The answer to a read is hashed, which no other copy has given.
    ReadHashed = READ_HASHED: sweep READING,
    /// A piece that ends in the middle of a request, or begins there, is taken for reads.
    PartsAreReads = PARTS_ARE_READS: tests,
    /// A request that is queued in a transaction is taken for a read.
    ReadsInTransactions = READS_IN_TRANSACTIONS: tests,
    /// A program that says that it moves is taken to be at rest.
    MovesIsRest = MOVES_IS_REST: sweep SAYING,
    /// A program may look while it is fed with what one turn finds.
    TurnIsNotHeld = TURN_IS_NOT_HELD: tests,
    /// A turn finds the entries of several values of the log, as many as there are.
    TurnsAreJoined = TURNS_ARE_JOINED: sweep IN_TURNS,
    /// A value that begins with a hash does not end the turn before it.
    HashesJoinTurns = HASHES_JOIN_TURNS: sweep IN_TURNS,
    /// The next turn begins before the program is at rest.
    TurnBeforeRest = TURN_BEFORE_REST: sweep IN_TURNS,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::planted::badly_listed;

    #[test]
    fn each_has_a_name_of_its_own_and_a_sentence() {
        assert_eq!(badly_listed::<Bug>(), None);
    }
}
