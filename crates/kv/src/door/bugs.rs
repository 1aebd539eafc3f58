//! Planted bugs of the door and the state behind it. A simulation's [`Outside`](super::Outside) or
//! [`State`](super::State) has one of them; production has none (the answer is a constant there,
//! and the compiler removes the code that asks for it).

proto::planted_bugs! {
    /// While a new incarnation is begun on one seat, another seat may be renewed, too.
    RenewsTwo = RENEWS_TWO: sweep ["cluster"],
    /// Keys that come with a state live for ever.
    RestoredKeysStay = RESTORED_KEYS_STAY: sweep ["cluster"],
    /// Sessions of clients that come with a state count as idle since the beginning of time.
    RestoredSessionsIdle = RESTORED_SESSIONS_IDLE: sweep ["cluster"],
    /// Keys of all databases that come with a state are put into the first.
    RestoredIntoFirst = RESTORED_INTO_FIRST: sweep ["cluster"],
    /// Scripts that come with a state are forgotten.
    RestoredScriptsLost = RESTORED_SCRIPTS_LOST: sweep ["cluster"],
    /// A key that came and went after a client had watched its absence looks unchanged.
    DeletionsUnseen = DELETIONS_UNSEEN: sweep ["cluster"],
    /// Sessions of clients that come with a state stay, however long they are idle.
    RestoredSessionsStay = RESTORED_SESSIONS_STAY: tests,
    /// A client's session stays, however long it is idle.
    SessionsStay = SESSIONS_STAY: tests,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::planted::Bugs;

    #[test]
    fn each_has_a_name_that_the_engine_has_not_and_a_sentence() {
        let engine: Vec<&str> = engine::Bug::ALL.iter().map(|bug| bug.name()).collect();
        assert_eq!(proto::planted::badly_listed::<Bug>(), None);
        for bug in Bug::ALL {
            assert!(!engine.contains(&bug.name()), "{bug:?}");
        }
    }
}
