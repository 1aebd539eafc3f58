//! Planted mistakes of a process with objects. Outside of simulations none is planted.

/// Every simulated group with objects can notice the mistake.
const ANYWHERE: [&str; 1] = ["vsync-objects"];

proto::planted_bugs! {
    /// A p2p call is executed each time that it is asked for.
    P2pAgain = P2P_AGAIN: sweep ANYWHERE,
    /// A p2p call that is asked for again is declined.
    ToldIsDeclined = TOLD_IS_DECLINED: sweep ANYWHERE,
    /// A call that another member asks for is multicast twice.
    OrderedTwice = ORDERED_TWICE: sweep ANYWHERE,
    /// A state is given before the calls are executed that come before it.
    StateTooEarly = STATE_TOO_EARLY: sweep ANYWHERE,
    /// A query as of a time is answered before the copy is final up to there.
    AnsweredUnfinal = ANSWERED_UNFINAL: sweep ANYWHERE,
    /// Messages that are not sent do not end their calls.
    UnsentForgotten = UNSENT_FORGOTTEN: sweep ANYWHERE,
    /// Calls that members were asked for stay open when these are gone.
    GoneAreAwaited = GONE_ARE_AWAITED: sweep ANYWHERE,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::planted::badly_listed;

    #[test]
    fn every_mistake_has_a_sentence_and_a_name_of_its_own() {
        assert_eq!(badly_listed::<Bug>(), None);
    }
}
