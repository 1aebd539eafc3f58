//! A real cluster, real clients, real signals: the observations of its clients while members are
//! killed and paused must be explained by one order that respects real time.
//!
//! One run is a [`scenario`]: a cluster of its own under `gregale up`; [`client`]s that talk to
//! every member over [`wire`]s and record each call with its instants and its outcome; a
//! [`nemesis`] that kills the leader and followers with SIGKILL and pauses them with SIGSTOP. Then
//! two [`judges`] that share no code judge the record.
//!
//! A run proves something only if faults happened in it, so it also fails if too few writes were
//! acknowledged, leadership changed too seldom, a member answered too little, or a replica died
//! that the nemesis did not kill. And a judge proves something only if it can reject, so each run
//! ends with a forged record that both must reject.
//!
//! `GREGALE_LINEARIZABILITY_SEED=N` chooses other faults and operations than the usual ones. A seed
//! fixes what is attempted, not how the machine schedules it.

mod cache;
mod client;
mod clocks;
#[allow(dead_code, reason = "what the other tests of replicated programs see, too")]
#[path = "../real/copies.rs"]
mod copies;
mod judges;
mod nemesis;
mod programs;
mod registers;
mod scenario;
#[allow(
    dead_code,
    reason = "the harness of the other tests of real clusters, which use more of it"
)]
#[path = "../real/support.rs"]
mod support;
mod wire;

use powercut::PowerCut;
use programs::Subject;
use scenario::{Place, Record, Scenario, run};
use std::path::Path;
use std::time::Duration;

#[test]
fn over_shm_clients_see_one_order_while_members_die_and_hang() {
    judge_a_run("shm", Place::Memory);
}

#[test]
fn over_tcp_clients_see_one_order_while_members_die_and_hang() {
    judge_a_run("tcp", Place::Memory);
}

#[test]
fn on_disk_over_shm_clients_see_one_order_while_all_members_die_at_once() {
    judge_a_run("shm", Place::Disk);
}

#[test]
fn on_disk_over_tcp_clients_see_one_order_while_all_members_die_at_once() {
    judge_a_run("tcp", Place::Disk);
}

#[test]
fn after_power_cuts_everything_acknowledged_is_there_in_one_order() {
    let at = tempfile::tempdir().unwrap();
    let Some(disk) = disk(at.path()) else { return };
    judge_a_run("shm", Place::Power(&disk));
    let [files, directories] = disk.n_syncs();
    assert!(files > 500 && directories > 10, "{files} and {directories} syncs passed through it");
}

#[test]
fn after_power_cuts_of_one_disk_everything_acknowledged_is_there_in_one_order() {
    let base = tempfile::tempdir().unwrap();
    let at = base.path().join("member-3");
    std::fs::create_dir(&at).unwrap();
    let Some(disk) = disk(&at) else { return };
    judge_a_run("tcp", Place::OnePower(&disk));
}

/// Nine runs of the same kind: a rare moment is met rarely. They are not one run, since no judge
/// could handle so many writes of unknown outcome.
#[test]
#[ignore = "minutes: cargo test -p gregale --test linearizability -- --ignored --nocapture fifty"]
fn after_more_than_fifty_power_cuts_everything_acknowledged_is_there() {
    for run in 0..9 {
        let at = tempfile::tempdir().unwrap();
        let Some(disk) = disk(at.path()) else { return };
        judge_a_run_of(seed() + run, "shm", Place::Power(&disk));
    }
}

/// The test of the tests above: with syncs that do nothing, a run is no longer explained.
#[test]
fn a_disk_that_lies_about_its_syncs_is_found_out() {
    let at = tempfile::tempdir().unwrap();
    let Some(disk) = disk(at.path()) else { return };
    let (seed, place) = (seed(), Place::LyingPower(&disk));
    let record =
        run(&Scenario { fabric: "shm", place, seed, n_clients: 6, n_cuts: 1, sets_clocks: false });
    println!("a disk that lies, seed {seed}: {record}");
    judges::both_reject(&record.history, &format!("lie-{seed}"));
}

#[test]
fn registers_over_shm_are_linearizable_while_members_die_and_hang() {
    judge_registers("shm");
}

#[test]
fn registers_over_tcp_are_linearizable_while_members_die_and_hang() {
    judge_registers("tcp");
}

fn judge_registers(fabric: &str) {
    judge(&format!("{fabric}-registers"), |seed| registers::run(fabric, seed));
}

#[test]
fn replicated_redis_over_shm_is_linearizable_while_members_and_copies_die_and_hang() {
    judge_a_program("shm-redis", Subject::Redis, &["--fabric", "shm"]);
}

#[test]
fn redis_whose_reads_run_beside_the_log_is_linearizable_over_shm() {
    let flags = ["--fabric", "shm", "--program-reads", "resp"];
    judge_a_program("shm-redis-reads", Subject::Redis, &flags);
}

#[test]
fn redis_whose_reads_run_beside_the_log_is_linearizable_over_tcp_on_disk() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    let flags = ["--fabric", "tcp", "--durability", "disk-quorum", "--data", path];
    let flags = [&flags[..], &["--program-reads", "resp"]].concat();
    judge_a_program("tcp-disk-redis-reads", Subject::Redis, &flags);
}

#[test]
fn memcached_whose_reads_run_beside_the_log_is_linearizable_over_shm() {
    let flags = ["--fabric", "shm", "--program-reads", "memcached"];
    judge_a_program("shm-memcached-reads", Subject::Memcached, &flags);
}

#[test]
fn replicated_redis_over_tcp_on_disk_is_linearizable_while_members_and_copies_die_and_hang() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    let flags = ["--fabric", "tcp", "--durability", "disk-quorum", "--data", path];
    judge_a_program("tcp-disk-redis", Subject::Redis, &flags);
}

fn judge_a_program(name: &str, subject: Subject, flags: &[&str]) {
    judge(name, |seed| programs::run(subject, flags, seed));
}

fn judge(name: &str, run: impl FnOnce(u64) -> Record) {
    let (seed, name) = (seed(), format!("{name}-{}", seed()));
    let record = run(seed);
    println!("{name}: {record}");
    assert!(record.n_acknowledged_writes >= 500, "too little happened to be judged: {record}");
    let per_member = record.n_answered_by;
    assert!(per_member.iter().all(|n| *n >= 100), "some member answered hardly anyone: {record}");
    both_judge(&record, &name);
}

/// Both judges explain the record, and reject a forgery of it.
fn both_judge(record: &Record, name: &str) {
    judges::both_accept(&record.history, name);
    let forged =
        judges::forge(&record.history).expect("some key was read before and after a write");
    judges::both_reject(&forged, name);
}

/// How often the power is cut in a run.
const N_CUTS: usize = 6;

/// A disk whose power can be cut, where such a file system can be mounted.
fn disk(at: &Path) -> Option<PowerCut> {
    let disk = PowerCut::mount(at).inspect_err(|why| println!("skipped: {why}")).ok()?;
    // The run is long enough for requests to be under way whenever the power fails.
    disk.slow_down(Duration::from_micros(300));
    Some(disk)
}

fn seed() -> u64 {
    std::env::var("GREGALE_LINEARIZABILITY_SEED")
        .map_or(1, |text| text.parse().expect("GREGALE_LINEARIZABILITY_SEED is a number"))
}

fn judge_a_run(fabric: &str, place: Place<'_>) {
    let record = judge_a_run_of(seed(), fabric, place);
    assert!(record.n_acknowledged_writes >= 200, "too little happened to be judged: {record}");
    // Where the power of all is cut, one leader is killed; the same member may lead again after a
    // cut.
    let n_changes = if matches!(place, Place::Power(_)) { 1 } else { 2 };
    assert!(record.n_leader_changes >= n_changes, "the leaders were left in peace: {record}");
    let per_member = record.n_answered_by;
    assert!(per_member.iter().all(|n| *n >= 50), "some member answered hardly anyone: {record}");
}

fn judge_a_run_of(seed: u64, fabric: &str, place: Place<'_>) -> Record {
    // Once is enough: a silence takes a minute.
    let sets_clocks = fabric == "shm" && matches!(place, Place::Disk);
    let scenario = Scenario { fabric, place, seed, n_clients: 9, n_cuts: N_CUTS, sets_clocks };
    let record = run(&scenario);
    println!("{fabric}, seed {seed}: {record}");

    let place = match place {
        Place::Memory => "memory",
        Place::Disk => "disk",
        Place::Power(_) | Place::LyingPower(_) => "power",
        Place::OnePower(_) => "one-power",
    };
    let name = format!("{fabric}-{place}-{seed}");
    both_judge(&record, &name);
    record
}
