//! Planted mistakes of the engine. A simulation's plant has one of them; production has none
//! ([`crate::Plant::has_planted`] is false there, and the compiler removes what asks for it).

/// Every cluster can notice the mistake.
const ANYWHERE: [&str; 1] = ["cluster"];
/// It concerns a disk.
const ON_DISK: [&str; 1] = ["cluster-on-disk"];
/// A member that comes back with its disk is hardly ever without the state, nor so soon; and a sync
/// takes longer than what would be mistaken.
const IN_MEMORY: [&str; 1] = ["cluster-in-memory"];
/// A leader with a lease answers reads by itself.
const LEASED: [&str; 1] = ["multipaxos-cluster"];
/// Each key is kept by itself.
const KEYED: [&str; 1] = ["abd-cluster"];

proto::planted_bugs! {
    /// What answers an earlier process of this member is taken for an answer to this one.
    EarlierLifesAnswers = EARLIER_LIFES_ANSWERS: sweep IN_MEMORY,
    /// A check serves the reads that came after it had begun.
    CheckServesLater = CHECK_SERVES_LATER: sweep IN_MEMORY,
    /// A read is performed before the check that it waits for.
    ReadWithoutCheck = READ_WITHOUT_CHECK: sweep ANYWHERE,
    /// A read whose check was refused is performed nevertheless.
    RefusedReadsServed = REFUSED_READS_SERVED: sweep ANYWHERE,
    /// A check is made with the time that its turn was told at the beginning: a lease may be over.
    CheckedInOldTime = CHECKED_IN_OLD_TIME: sweep LEASED,
    /// Reads for which there is no room on the way to the leader are tried again in each turn.
    TriesEachTurn = TRIES_EACH_TURN: tests,
    /// A member without the present state performs reads of it.
    LearnersRead = LEARNERS_READ: sweep IN_MEMORY,
    /// A stream of frames continues over a new link although the broken one left a gap.
    StreamsOutliveLinks = STREAMS_OUTLIVE_LINKS: sweep ANYWHERE,
    /// A command whose leader is gone is not sent to the next one.
    NothingIsSentAgain = NOTHING_IS_SENT_AGAIN: sweep ANYWHERE,
    /// A command that is sent again has another number, so it is executed twice.
    SentAgainAsAnother = SENT_AGAIN_AS_ANOTHER: sweep ANYWHERE,
    /// An answer goes to the oldest open command, not to the one that it answers.
    AnswersTheOldest = ANSWERS_THE_OLDEST: sweep ANYWHERE,
    /// A state is installed without the place of its last value.
    StateWithoutPlace = STATE_WITHOUT_PLACE: sweep ANYWHERE,
    /// A machine is told the head of a state that another prefix leads to.
    HeadOfAnotherPrefix = HEAD_OF_ANOTHER_PREFIX: sweep ON_DISK,
    /// A leader whose link to an origin breaks at last forgets the way around it, by which requests
    /// had come whose answers are due.
    WayEndsWithItsLink = WAY_ENDS_WITH_ITS_LINK: tests,
    /// Values come with the head of the state that the last of them lead to, each time: a
    /// member that loses the giver in between does not know the members.
    HeadOfTheLastValues = HEAD_OF_THE_LAST_VALUES: tests,
    /// The machine hears of another member's state before that is durable.
    InstalledBeforeDurable = INSTALLED_BEFORE_DURABLE: sweep ON_DISK,
    /// The answer to a read goes to the oldest read that another member was asked.
    ReadAnswersTheOldest = READ_ANSWERS_THE_OLDEST: sweep ANYWHERE,
    /// What is sent again to a leader is not told apart from what it has refused.
    AttemptStays = ATTEMPT_STAYS: sweep ANYWHERE,
    /// That a leader has refused commands is not heard.
    RefusalsUnheard = REFUSALS_UNHEARD: sweep ANYWHERE,
    /// Of what a leader has refused a part of, it takes the rest.
    RefusedInPart = REFUSED_IN_PART: sweep ANYWHERE,
    /// A command at its deadline is called done.
    UnknownCalledDone = UNKNOWN_CALLED_DONE: sweep ANYWHERE,
    /// A command at its deadline is called failed.
    UnknownCalledFailed = UNKNOWN_CALLED_FAILED: sweep ANYWHERE,
    /// Something else may follow the first part of a command that fits into no batch.
    HalfIsForgotten = HALF_IS_FORGOTTEN: sweep ANYWHERE,
    /// A snapshot is written without the place of its last value.
    SnapshotWithoutPlace = SNAPSHOT_WITHOUT_PLACE: sweep ON_DISK,
    /// A snapshot says that it covers a value more than it does.
    SnapshotClaimsMore = SNAPSHOT_CLAIMS_MORE: sweep ON_DISK,
    /// The log is freed when a snapshot begins, and not when it is durable.
    SnapshotCountsEarly = SNAPSHOT_COUNTS_EARLY: sweep ON_DISK,
    /// A member that was removed or replaced does not hear of it, and serves.
    StaleSeatServes = STALE_SEAT_SERVES: sweep ANYWHERE,
    /// A change of the members is called done when it was begun.
    ChangeDoneEarly = CHANGE_DONE_EARLY: sweep ANYWHERE,
    /// A newcomer asks for its seat once, and not until it has it.
    SeatAskedOnce = SEAT_ASKED_ONCE: sweep ANYWHERE,
    /// A client that waits is told of the leader, too, as of a member that holds its writes.
    WaitCountsLeader = WAIT_COUNTS_LEADER: sweep IN_MEMORY,
    /// What a leader that is out of sight is to be told goes to it, and not around the cut.
    NothingGoesAround = NOTHING_GOES_AROUND: sweep ANYWHERE,
    /// A request about a key is begun before an earlier one of its client about that key has ended.
    RequestsOvertake = REQUESTS_OVERTAKE: sweep KEYED,
    /// A request of several keys ended as its last part did.
    LastPartDecides = LAST_PART_DECIDES: tests,
    /// An answer that waits until every disk has what it answers leaves when a majority has it.
    ToldBeforeHeld = TOLD_BEFORE_HELD: sweep ON_DISK,
    /// What a leader has stamped in an earlier reign counts as of this one.
    StampsOutliveReigns = STAMPS_OUTLIVE_REIGNS: sweep ANYWHERE,
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
