//! The same seed gives the same run, byte for byte.

use sim::subjects::subject;
use sim::{Config, replay};

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [0, 1, 2, 5, 8, 13, 21] {
        let (one, two) = (
            replay(&subject("velos"), &Config::default(), seed),
            replay(&subject("velos"), &Config::default(), seed),
        );
        assert!(one.trace.lines().count() > 1000, "seed {seed}: a run has events");
        assert_eq!(one.fingerprint, two.fingerprint);
        assert!(one.trace == two.trace, "seed {seed}: traces differ");
    }
    let narrow = || replay(&subject("velos-narrow"), &Config::default(), 3);
    assert!(narrow().trace == narrow().trace);
}

#[test]
fn other_seeds_give_other_traces() {
    let fingerprint = |seed| replay(&subject("velos"), &Config::default(), seed).fingerprint;
    let mut all: Vec<u64> = (0..10).map(fingerprint).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 10);
}
