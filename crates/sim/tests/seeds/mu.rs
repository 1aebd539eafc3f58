//! Mu in bad weather, and the bugs that the sweep must find in it.

use crate::logs::{catches, clean_and_covered};
use sim::Mark;
use sim::subjects::subject;

/// Followers forward reads.
#[test]
fn sound_mu_survives_a_sweep_that_reaches_the_interesting_cases() {
    clean_and_covered(&subject("mu"), 0..100, &[Mark::FollowerRead]);
}

/// The bugs that a short sweep finds; `gregale sim --protocol mu --mutants` hunts all of them for
/// longer.
#[test]
fn a_short_sweep_finds_most_planted_bugs() {
    catches(&subject("mu"), 120, &["IGNORE_MAJORITY", "IGNORE_FOUND_VALUE", "READ_WITHOUT_CHECK"]);
}
