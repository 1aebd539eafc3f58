//! Planted mistakes of the replicate door. The released door has none ([`proto::planted::Sound`]).

/// Every simulated cluster that replicates a program can notice the mistake.
const ANYWHERE: [&str; 1] = ["replicate"];

proto::planted_bugs! {
    /// A copy is fed the next connection's input before it is at rest.
    NextBeforeRest = NEXT_BEFORE_REST: sweep ANYWHERE,
    /// A copy is taken to be at rest when it has answered one of several requests.
    RestAfterOneReply = REST_AFTER_ONE_REPLY: sweep ANYWHERE,
    /// A copy that moves is taken to be blocked.
    BusyIsBlocked = BUSY_IS_BLOCKED: sweep ANYWHERE,
    /// Output of the connections of an earlier process reaches the clients of this one.
    OutputOfEarlierRuns = OUTPUT_OF_EARLIER_RUNS: sweep ANYWHERE,
    /// An entry that was executed is executed again when it is decided again.
    RepeatsExecute = REPEATS_EXECUTE: sweep ANYWHERE,
    /// An entry is executed though an earlier one of its connection is missing.
    GapsExecute = GAPS_EXECUTE: sweep ANYWHERE,
    /// An entry that came too early is answered, so its owner does not send it again.
    TooEarlyAnswered = TOO_EARLY_ANSWERED: sweep ANYWHERE,
    /// An abort does not use up the number of a connection that was not opened.
    AbortLeavesNumber = ABORT_LEAVES_NUMBER: tests,
    /// The connections of a member's earlier process stay open when a later one begins.
    EarlierRunsStayOpen = EARLIER_RUNS_STAY_OPEN: sweep ANYWHERE,
    /// A connection of which the fate of one entry is unknown stays open.
    UnknownStaysOpen = UNKNOWN_STAYS_OPEN: sweep ANYWHERE,
    /// An abort whose fate is unknown is not said again.
    AbortSaidOnce = ABORT_SAID_ONCE: sweep ANYWHERE,
    /// A state is installed without the table of its connections.
    StateWithoutTable = STATE_WITHOUT_TABLE: sweep ANYWHERE,
    /// A state that is saved ends where the history ends when its last piece is read, though its
    /// header says where it ended at the beginning.
    SaveFollowsHistory = SAVE_FOLLOWS_HISTORY: tests,
    /// The connections of a member that is dead stay open.
    DeadStayOpen = DEAD_STAY_OPEN: tests,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::planted::Bugs;

    #[test]
    fn each_has_a_name_of_its_own_and_a_sentence() {
        let mut names: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        assert!(Bug::ALL.iter().all(|bug| bug.text().trim().ends_with('.')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Bug::ALL.len());
    }
}
