//! Durable in bad weather and on bad disks. The protocol's own tests step its traps by hand.

use crate::logs::{catches, clean, clean_and_covered};
use sim::script::{Operation, PATIENCE, Script};
use sim::subjects::subject;
use sim::{Config, Mark, Provider, Shape, sweep};
use std::time::Duration;

#[test]
fn sound_durable_survives_a_sweep_that_reaches_the_interesting_cases() {
    // Clients with one operation each seldom fill a window.
    clean_and_covered(&subject("durable"), 0..100, &[Mark::WindowFull]);
}

#[test]
#[ignore = "minutes; `gregale sim --protocol durable --seeds 2000` is the same"]
fn sound_durable_survives_a_long_sweep() {
    clean(&subject("durable"), 0..3000);
}

#[test]
#[ignore = "minutes; `gregale sim --protocol durable --mutants` is the same"]
fn every_planted_bug_is_caught() {
    let survivors: Vec<&str> = subject("durable")
        .mutants()
        .iter()
        .filter(|mutant| mutant.hunt(&Config::default(), 0, 3000).is_none())
        .map(|mutant| mutant.name)
        .collect();
    assert!(survivors.is_empty(), "survived: {survivors:?}");
}

#[test]
fn a_short_sweep_finds_most_planted_bugs() {
    let names = [
        "ACK_BEFORE_SYNC",
        "COUNT_SELF_EARLY",
        "SKIP_LOG_MATCH",
        "FORGET_PROMISE",
        "HOLD_BY_MAJORITY",
    ];
    catches(&subject("durable"), 40, &names);
}

/// Snapshots in files, by the released code, over disks that fail in the middle of one.
#[test]
fn snapshots_in_files_survive_a_sweep_and_most_planted_bugs_do_not() {
    let report = sweep(&subject("durable-log"), &Config::default(), 0..60, |_| true);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    for mark in [Mark::SnapshotTaken, Mark::SnapshotFailed, Mark::StateInstalled] {
        assert!(report.coverage.count(mark) > 0, "{mark:?} was never reached");
    }
    let caught: Vec<&str> = subject("durable-log")
        .mutants()
        .iter()
        .filter(|mutant| mutant.hunt(&Config::default(), 0, 60).is_some())
        .map(|mutant| mutant.name)
        .collect();
    for name in [
        "SNAPSHOT_MIXES_PREFIXES",
        "CUT_BEFORE_SNAPSHOT",
        "REMOVE_OLD_SNAPSHOT_FIRST",
        "SNAPSHOT_WITHOUT_DIRECTORY_SYNC",
    ] {
        assert!(caught.contains(&name), "{name} survived; caught: {caught:?}");
    }
}

#[test]
#[ignore = "minutes; `gregale sim --protocol durable-log --mutants` is the same"]
fn every_planted_bug_of_log_and_snapshots_is_caught() {
    let survivors: Vec<&str> = subject("durable-log")
        .mutants()
        .iter()
        .filter(|mutant| mutant.hunt(&Config::default(), 0, 3000).is_none())
        .map(|mutant| mutant.name)
        .collect();
    assert!(survivors.is_empty(), "survived: {survivors:?}");
}

#[test]
fn members_change_under_faults_and_every_change_and_fault_is_reached() {
    let report = sweep(&subject("durable-members"), &Config::default(), 0..60, |_| true);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let is_due = |mark: &Mark| mark.needs_operator() || mark.needs_disk();
    let missing: Vec<Mark> = report.coverage.missing().filter(is_due).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

#[test]
#[ignore = "minutes; `gregale sim --protocol durable-members --mutants` is the same"]
fn every_planted_bug_of_a_change_of_members_is_caught() {
    let survivors: Vec<&str> = subject("durable-members")
        .mutants()
        .iter()
        .filter(|mutant| mutant.hunt(&Config::default(), 0, 3000).is_none())
        .map(|mutant| mutant.name)
        .collect();
    assert!(survivors.is_empty(), "survived: {survivors:?}");
}

/// The case that memory-quorum does not survive: every process dies, with its unsynced data.
#[test]
fn when_every_process_dies_what_was_acknowledged_is_there() {
    for provider in [Provider::Shm, Provider::Tcp] {
        let shape = Shape { ring_slots: 16, value_bytes: 128 };
        let mut script = Script::new(subject("durable"), 3, provider, shape, 2);
        assert!(script.run_until(PATIENCE, |script| script.leaders().len() == 1), "nobody leads");
        let leader = script.leaders()[0];
        for value in 1..60 {
            script.ask(0, leader, 0, Operation::Write(value));
            let answered = script.run_until(PATIENCE, |script| script.answer(0) == Some(value));
            assert!(answered, "no answer to the write of {value}");
        }
        (0..3).for_each(|node| script.crash(node));
        script.run_for(Duration::from_millis(50));
        (0..3).for_each(|node| script.restart(node));
        assert!(script.run_until(PATIENCE, |script| script.leaders().len() == 1), "nobody leads");
        let leader = script.leaders()[0];
        script.ask(1, leader, 0, Operation::Read);
        assert!(script.run_until(PATIENCE, |script| script.answer(1).is_some()));
        assert_eq!(script.answer(1), Some(59));
        script.check().expect("nothing is wrong");
    }
}

/// D4. The trap: a follower whose disk stands still continues to read its ring, until the amount
/// that waits for the disk ends its process.
#[test]
fn a_disk_that_stands_still_for_minutes_costs_its_member_nothing_but_time() {
    for provider in [Provider::Shm, Provider::Tcp] {
        let shape = Shape { ring_slots: 16, value_bytes: 128 };
        let mut script = Script::new(subject("durable"), 3, provider, shape, 2);
        assert!(script.run_until(PATIENCE, |script| script.leaders().len() == 1), "nobody leads");
        let leader = script.leaders()[0];
        let slow = (leader + 1) % 3;
        script.stall_disk(slow);
        for value in 1..200 {
            script.ask(0, leader, 0, Operation::Write(value));
            let answered = script.run_until(PATIENCE, |script| script.answer(0) == Some(value));
            assert!(answered, "no answer to the write of {value}");
            script.run_for(Duration::from_millis(500));
        }
        assert!(script.applied(slow) < script.applied(leader), "it was not held up");
        script.release_disk(slow);
        let caught_up = |script: &Script| script.applied(slow) == script.applied(leader);
        assert!(script.run_until(PATIENCE, caught_up), "it does not go on");
        script.check().expect("nothing is wrong");
    }
}
