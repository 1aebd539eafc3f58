//! Whole clusters under seeds: a run replays, sound ones break nothing, and mistakes in the engine
//! are noticed.

use proto::registry::{KeyedProtocol, LogProtocol};
use sim::Config;
use sim::cluster::{Protocol, mutant_named, mutants, replay, sweep};

#[test]
fn a_seed_replays_byte_for_byte() {
    for protocol in Protocol::all() {
        let run = || replay(protocol, &Config::default(), 3);
        let (first, second) = (run(), run());
        assert_eq!(first.violation, None);
        assert!(first.n_answered > 500, "{protocol:?}: {} answers", first.n_answered);
        assert!(first.trace == second.trace, "{protocol:?} does not replay");
        assert_eq!(first.fingerprint, second.fingerprint);
    }
}

#[test]
fn sound_clusters_break_nothing_and_answer_nearly_everything() {
    for protocol in Protocol::all() {
        let report = sweep(protocol, &Config::default(), 0..15, |_| true);
        assert_eq!(report.findings, []);
        assert!(report.n_answered * 10 > report.n_asked * 9, "{protocol:?}");
    }
}

#[test]
fn mistakes_in_the_engine_are_noticed() {
    // `cargo xtask verify` hunts all of them; these show at once.
    let quick = [
        "READ_WITHOUT_CHECK",
        "STREAMS_OUTLIVE_LINKS",
        "NOTHING_IS_SENT_AGAIN",
        "SENT_AGAIN_AS_ANOTHER",
        "ANSWERS_THE_OLDEST",
        "UNKNOWN_CALLED_DONE",
        "HALF_IS_FORGOTTEN",
        "SNAPSHOT_WITHOUT_PLACE",
        "SNAPSHOT_COUNTS_EARLY",
    ];
    let mutants = mutants(Protocol::Log(LogProtocol::Durable));
    for name in quick {
        let mutant = mutants.iter().find(|mutant| mutant.name == name).expect("it is planted");
        assert!(mutant.hunt(&Config::default(), 0, 20).is_some(), "{name} survived");
    }
}

/// Virtual days: clients that are silent for hours, keys that expire after hours.
#[test]
fn sessions_that_outlive_their_hour_are_noticed_in_runs_of_a_day() {
    let config = Config { is_long: true, ..Config::default() };
    let protocol = Protocol::Log(LogProtocol::Durable);
    for name in ["SESSIONS_STAY", "RESTORED_SESSIONS_STAY"] {
        let mutant = mutant_named(protocol, name).expect("it is planted");
        assert!(mutant.hunt(&config, 0, 4).is_some(), "{name} survived");
    }
}

#[test]
fn mistakes_in_nodes_are_noticed() {
    // Each with the first seed.
    let in_memory = ["COUNTS_EARLY", "MEETS_NOBODY", "NAMES_REPEAT", "ONE_STATE_INSTALLED"];
    let in_memory = in_memory.map(|name| (name, 0));
    let on_disk = [("HANDED_BEFORE_SYNC", 0), ("FREED_EARLY", 90)];
    for (kind, quick) in
        [("partitions-cluster", &in_memory[..]), ("partitions-durable-cluster", &on_disk[..])]
    {
        let protocol = Protocol::all().find(|one| one.name() == kind).expect(kind);
        let mutants = mutants(protocol);
        for (name, first) in quick {
            let mutant = mutants.iter().find(|mutant| mutant.name == *name).expect(name);
            assert!(mutant.hunt(&Config::default(), *first, 40).is_some(), "{name} survived");
        }
    }
}

#[test]
fn mistakes_in_registers_are_noticed() {
    let quick = ["QUERY_OF_ONE", "OLDEST_WINS", "ACK_BEFORE_STORE", "UNKNOWN_CALLED_UNDONE"];
    let mutants = mutants(Protocol::Keyed(KeyedProtocol::Abd));
    for name in quick {
        let mutant = mutants.iter().find(|mutant| mutant.name == name).expect("it is planted");
        assert!(mutant.hunt(&Config::default(), 0, 40).is_some(), "{name} survived");
    }
}
