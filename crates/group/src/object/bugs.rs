//! Planted mistakes of a process with objects. Outside of simulations none is planted.

/// Every simulated group with objects can notice the mistake.
const ANYWHERE: [&str; 1] = ["vsync-objects"];

proto::planted_bugs! {
    /// A p2p call is executed each time that it is asked for.
    P2pAgain = P2P_AGAIN: sweep ANYWHERE,
    /// A process executes a p2p call that names the process before it on its seat.
    P2pOfTheLast = P2P_OF_THE_LAST: sweep ANYWHERE,
    /// Messages that are not sent do not end their calls.
    UnsentForgotten = UNSENT_FORGOTTEN: sweep ANYWHERE,
    /// Calls that members were asked for stay open when these are gone.
    GoneAreAwaited = GONE_ARE_AWAITED: sweep ANYWHERE,
    /// A process begins its tickets like the one before it on its seat.
    TicketsOfTheLast = TICKETS_OF_THE_LAST: tests,
    /// A time that a letter brings is not learned.
    LetterTimeUnlearned = LETTER_TIME_UNLEARNED: sweep ANYWHERE,
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
