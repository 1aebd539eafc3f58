//! Planted mistakes of a node. A simulation's node has one of them; the node that ships has
//! [`Sound`](proto::planted::Sound), and the compiler removes what asks for one.

/// Nodes of a keyspace in partitions, in memory or on disks.
const ANYWHERE: [&str; 2] = ["partitions-cluster", "partitions-durable-cluster"];
/// Nodes that lose their memory.
const IN_MEMORY: [&str; 1] = ["partitions-cluster"];
/// Nodes with disks.
const ON_DISK: [&str; 1] = ["partitions-durable-cluster"];

proto::planted_bugs! {
    /// A stream continues one frame late when its link is back.
    ResumedLate = RESUMED_LATE: sweep ANYWHERE,
    /// The last record before a link broke is handed up again when it is back.
    HandedTwice = HANDED_TWICE: tests,
    /// A peer is given up for one long record.
    GivenUpForOne = GIVEN_UP_FOR_ONE: tests,
    /// Questions are written for a peer that is not heard, again and again.
    QuestionsAccumulate = QUESTIONS_ACCUMULATE: tests,
    /// A node that has given a majority up has it stop.
    TellsTheMajority = TELLS_THE_MAJORITY: tests,
    /// Each of two that have given each other up stops.
    BothStop = BOTH_STOP: tests,
    /// A process is listened to though a later incarnation of its node was met.
    OutdatedHeard = OUTDATED_HEARD: tests,
    /// The bytes that a peer has of an earlier life of this node count for this one.
    EarlierLifeCounts = EARLIER_LIFE_COUNTS: sweep ANYWHERE,
    /// Messages under way to a node that comes back are not sent again.
    NothingIsStartedAgain = NOTHING_IS_STARTED_AGAIN: tests,
    /// Bytes leave before the disk has that on which they depend.
    SentBeforeSync = SENT_BEFORE_SYNC: sweep ON_DISK,
    /// Deliveries are handed over before the disk has them.
    HandedBeforeSync = HANDED_BEFORE_SYNC: sweep ON_DISK,
    /// The output of a turn waits for the sync before its own.
    EarlierSyncReleases = EARLIER_SYNC_RELEASES: sweep ON_DISK,
    /// A node whose disk takes nothing leads on.
    LeadsWhileStalled = LEADS_WHILE_STALLED: tests,
    /// The log is freed when a whole begins, and not when it is synced.
    FreedEarly = FREED_EARLY: sweep ON_DISK,
    /// A state lacks the deliveries that wait to be handed over.
    StateWithoutLater = STATE_WITHOUT_LATER: sweep ON_DISK,
    /// Of the states of all groups one is installed.
    OneStateInstalled = ONE_STATE_INSTALLED: sweep ANYWHERE,
    /// A node gives states although it is behind the node that asks.
    GivesFromBehind = GIVES_FROM_BEHIND: tests,
    /// A newcomer counts before it has its seat and its state.
    CountsEarly = COUNTS_EARLY: sweep IN_MEMORY,
    /// Members are not told of new incarnations.
    MeetsNobody = MEETS_NOBODY: sweep IN_MEMORY,
    /// A request to remove a node removes whichever incarnation has the seat.
    RemovesSuccessor = REMOVES_SUCCESSOR: tests,
    /// A life gives its messages the names of an earlier one's.
    NamesRepeat = NAMES_REPEAT: sweep ANYWHERE,
    /// A message counts as delivered when it is sent.
    CompletedEarly = COMPLETED_EARLY: sweep ANYWHERE,
    /// The delivery of an earlier life's message ends the message with that number of this one.
    EarlierLifeEnds = EARLIER_LIFE_ENDS: sweep ON_DISK,
    /// Deadlines of members pass unnoticed.
    NeverTicks = NEVER_TICKS: sweep ANYWHERE,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own_and_a_sentence() {
        assert_eq!(proto::planted::badly_listed::<Bug>(), None);
    }
}
