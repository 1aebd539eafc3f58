//! Planted bugs of the door. A simulation's [`Outside`](super::Outside) has one of them; production
//! has none (`has_planted` is false there, and the compiler removes the code that asks for it).

proto::planted_bugs! {
    /// While a new incarnation is begun on one seat, another seat may be renewed, too.
    RenewsTwo = RENEWS_TWO: sweep ["cluster"],
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
