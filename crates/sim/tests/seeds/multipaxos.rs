//! Multi-Paxos in bad weather, and the bugs that the sweep must find in it.

use crate::logs::{catches, clean_and_covered};
use sim::subjects::subject;

#[test]
fn sound_multipaxos_survives_a_sweep_that_reaches_the_interesting_cases() {
    clean_and_covered(&subject("multipaxos"), 0..150, &[]);
}

/// The bugs that a short sweep finds; `gregale sim --protocol multipaxos --mutants` hunts all of
/// them for longer.
#[test]
fn a_short_sweep_finds_most_planted_bugs() {
    catches(
        &subject("multipaxos"),
        120,
        &["COMMIT_AT_ONE", "PROMISE_OF_ONE", "READ_WITHOUT_CHECK"],
    );
}
