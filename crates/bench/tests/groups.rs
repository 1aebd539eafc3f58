//! Groups of real processes: they come together, are measured, lose their leader, and leave no
//! files.
//!
//! A worker is this test's own binary, selected by its environment.

use bench::amcast::crew::{Shape, measure};
use bench::amcast::load::{self, Pace};
use bench::amcast::worker::Contender;
use bench::failover::{self, Setting};
use bench::group::{Group, Launcher, Plan};
use bench::member::Wait;
use bench::multicast::{self, Mode};
use bench::run::Effort;
use bench::versions;
use bench::worker::order::{FabricKind, Part};
use bench::{decide, verbs};
use proto::registry::LogProtocol;
use report::Report;
use std::time::Duration;

const WORKER: &str = "GREGALE_BENCH_TEST_WORKER";

/// The workers' entry, not a test; run as a test it does nothing.
#[test]
fn worker() {
    if std::env::var_os(WORKER).is_some() {
        bench::worker::run();
    }
}

fn launcher() -> Launcher {
    Launcher {
        program: std::env::current_exe().expect("this test has a file"),
        arguments: ["worker", "--exact", "--nocapture"].map(Into::into).to_vec(),
        environment: vec![(WORKER.into(), "1".into())],
    }
}

const BRIEF: Effort = Effort { runs: 1, span: Duration::from_millis(20) };

/// The most repetitions of a run in which some worker completed nothing: another program has taken
/// the machine.
const IDLE_MAX: u32 = 5;

fn every_row_has(report: &Report, names: &[&str]) {
    assert!(!report.rows.is_empty());
    for row in &report.rows {
        for name in names {
            assert!(row.number(name).is_some_and(|n| n > 0.0), "{name} of {row:?}");
        }
    }
}

fn decided(fabric: FabricKind, protocols: Vec<LogProtocol>) -> Report {
    let setting = decide::Setting { fabric, protocols, data: None };
    decide::report(&launcher(), &setting, &BRIEF).expect("measured")
}

#[test]
fn decisions_over_shared_memory_are_timed_beside_their_floors() {
    let report = decided(FabricKind::Shm, vec![LogProtocol::Velos]);
    every_row_has(&report, &["p50_ns", "p99_ns", "p999_ns", "per_s", "floor_cas_ns"]);
}

#[test]
fn decisions_over_tcp_are_timed_beside_their_floors() {
    let report = decided(FabricKind::Tcp, vec![LogProtocol::Velos]);
    every_row_has(&report, &["p50_ns", "p99_ns", "p50_over_floor"]);
}

#[test]
fn decisions_of_every_protocol_are_timed_on_every_fabric_that_it_runs_on() {
    for fabric in [FabricKind::Shm, FabricKind::Tcp] {
        let runs = |protocol: &&LogProtocol| protocol.row().fabrics.contains(&fabric.name());
        let (able, others): (Vec<&LogProtocol>, Vec<_>) = LogProtocol::ALL.iter().partition(runs);
        for protocol in others {
            let setting = decide::Setting { fabric, protocols: vec![*protocol], data: None };
            let refused = decide::report(&launcher(), &setting, &BRIEF).expect_err("it cannot run");
            assert!(refused.to_string().contains(protocol.row().needs), "{refused}");
        }
        let report = decided(fabric, able.into_iter().copied().collect());
        every_row_has(&report, &["p50_ns", "p99_ns", "per_s"]);
        for row in &report.rows {
            let on_disk = row.get("protocol") == Some(&"durable".into());
            assert_eq!(row.number("floor_fdatasync_ns").is_some(), on_disk, "{row:?}");
        }
    }
}

#[test]
fn every_verb_is_timed_over_both_fabrics() {
    for fabric in [FabricKind::Shm, FabricKind::Tcp] {
        let report = verbs::report(&launcher(), fabric, Wait::Sleep, &BRIEF).expect("measured");
        every_row_has(&report, &["p50_ns", "per_s", "bytes_per_s"]);
    }
}

#[test]
fn messages_of_a_group_are_timed_in_every_mode() {
    let names = ["per_s", "p50_ns", "floor_bytes_per_s"];
    for (mode, more) in [
        (Mode::Ordered, &[][..]),
        (Mode::Unordered, &[]),
        (Mode::Durable, &["p50_over_fdatasync", "p50_over_syncs_at_once"]),
    ] {
        let setting = multicast::Setting {
            fabrics: vec![FabricKind::Shm],
            members: 3,
            senders: vec![1],
            message_bytes: vec![100],
            mode,
            is_checked: true,
            is_chosen: mode == Mode::Durable,
            window: Some(1),
            relays: vec![multicast::Schedule::default()],
            data: None,
        };
        let effort = Effort { span: Duration::from_millis(400), ..BRIEF };
        let report = multicast::report(&launcher(), &setting, &effort).expect("measured");
        every_row_has(&report, &[&names, more].concat());
    }
}

#[test]
fn versions_of_an_object_are_timed_in_every_part() {
    for (part, n_rows, names) in [
        (versions::Part::Storage, 6, &["per_s", "p50_ns", "floor_bytes_per_s"][..]),
        (versions::Part::Stability, 18, &["p99_ns", "beat_ns", "floor_tcp_epoll_ns"]),
        (versions::Part::Shards, 4, &["per_s", "p50_ns", "shards"]),
        (versions::Part::Arguments, 4, &["per_s", "peer_per_s", "ratio", "marshal_ns"]),
    ] {
        let setting = versions::Setting {
            part,
            fabrics: vec![FabricKind::Shm],
            value_bytes: vec![1000],
            shards: vec![2],
            data: None,
        };
        let effort = Effort { span: Duration::from_millis(100), ..BRIEF };
        let mut report = versions::report(&launcher(), &setting, &effort).expect("measured");
        assert_eq!((report.bench.as_str(), report.rows.len()), (part.name(), n_rows));
        // A machine that is taken by others may have no time for a slow one.
        report.rows.retain(|row| row.number("samples") != Some(0.0));
        assert!(!report.rows.is_empty(), "nothing was measured in {}", part.name());
        every_row_has(&report, names);
    }
}

#[test]
fn a_killed_leaders_successor_reaches_the_other_survivor() {
    for fabric in [FabricKind::Shm, FabricKind::Tcp] {
        let plain = Setting {
            fabric,
            protocol: LogProtocol::Velos,
            resident_bytes: 0,
            asleep: false,
            followers: Wait::Sleep,
            kills: 2,
        };
        let settings = [plain, Setting { asleep: true, resident_bytes: 8 << 20, ..plain }];
        let outcome = failover::report(&launcher(), &settings, None).expect("measured");
        every_row_has(&outcome.report, &["p50_ns", "floor_known_p50_ns", "detection_p50_ns"]);
        assert!(outcome.figure().expect("drawn").contains("values per 100 us"));
    }
}

#[test]
fn a_group_leaves_nothing_behind() {
    for fabric in [FabricKind::Shm, FabricKind::Tcp] {
        let plan = Plan::of(Part::Member, fabric, 3, Wait::Sleep);
        let group = Group::start(&launcher(), &plan).expect("it comes together");
        let directory = group.directory().to_owned();
        let pids: Vec<_> = group.members.iter().map(|worker| worker.pid()).collect();
        assert!(directory.exists());
        drop(group);
        assert!(!directory.exists(), "{directory:?}");
        for pid in pids {
            assert!(rustix::process::test_kill_process(pid).is_err(), "{pid:?} still runs");
        }
    }
}

#[test]
fn every_protocol_of_atomic_multicast_delivers_under_load() {
    let shape = Shape { groups: 3, members: 3 };
    for fabric in [FabricKind::Shm, FabricKind::Tcp] {
        for contender in Contender::all() {
            for pace in [Pace::Closed { outstanding: 4 }, Pace::Open { per_s: 500.0 }] {
                let plan = load::Plan {
                    destinations: 2,
                    message_bytes: 64,
                    pace,
                    warm_up: Duration::from_millis(20),
                    span: Duration::from_millis(200),
                };
                let all_complete = (0..IDLE_MAX).any(|_| {
                    let tooks = measure(&launcher(), contender, fabric, shape, &plan).unwrap();
                    assert_eq!(tooks.len(), 3);
                    for took in &tooks {
                        let n_timed: u64 = took.latency.iter().map(|(_, n)| n).sum();
                        assert_eq!(n_timed, took.completed, "{contender:?}: each is timed");
                    }
                    tooks.iter().all(|took| took.completed > 0)
                });
                assert!(all_complete, "{contender:?} over {fabric:?}, {pace:?}");
            }
        }
    }
}
