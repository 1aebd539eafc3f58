//! The peers of `gregale bench core`: other crates' replication cores under the same load.
//!
//! Three replicas in one thread, storage in memory, messages handed over in vectors, values of 32
//! bytes, batches of 1, 64 and 512; every replica hands every entry to a state machine that looks
//! at it. Each crate is used in the form that is cheapest for it. A run starts afresh and is warmed
//! up; the result is the median of five. Prints the JSON of every other benchmark (`--table` for
//! people).

mod omni;
mod tikv;

use report::{Machine, Progress, Report, Row, median};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const REPLICAS: usize = 3;
const VALUE_BYTES: usize = 32;
const BATCHES: [usize; 3] = [1, 64, 512];
const RUNS: u32 = 5;
/// Short: what grows with the log (both keep it) must not be what is measured.
const MEASURE: Duration = Duration::from_millis(300);
const ENTRIES_MAX: usize = 500_000;

type Value = [u8; VALUE_BYTES];

/// A cluster that decides values.
trait Core {
    /// Its name in the results.
    const PEER: &str;

    /// A fresh cluster with a leader.
    fn start() -> Self;

    /// Proposes `values` at the leader and works until no replica has anything to do.
    fn decide(&mut self, values: &[Value]);

    /// Entries that every replica has applied.
    fn applied(&self) -> usize;

    /// Of the first bytes of what was applied anywhere: so that nothing is optimised away.
    fn sum(&self) -> u64;
}

fn entries_per_s<C: Core>(batch: usize) -> f64 {
    let mut cluster = C::start();
    let values: Vec<Value> = (0..batch).map(|n| [n as u8 | 1; VALUE_BYTES]).collect();
    let warm_up = 20_000 / batch;
    (0..warm_up).for_each(|_| cluster.decide(&values));
    let before = cluster.applied();
    assert_eq!(before, warm_up * batch, "every entry is applied everywhere");
    let start = Instant::now();
    let mut proposed = 0;
    while start.elapsed() < MEASURE && proposed < ENTRIES_MAX {
        // The clock is read once for several batches, so that it does not count.
        for _ in 0..(256 / batch).max(1) {
            cluster.decide(&values);
            proposed += batch;
        }
    }
    let elapsed = start.elapsed();
    assert_eq!(cluster.applied() - before, proposed, "every entry is applied everywhere");
    assert!(cluster.sum() > 0, "the state machines saw the values");
    proposed as f64 / elapsed.as_secs_f64()
}

fn row<C: Core>(batch: usize, progress: &mut Progress, done: &mut u64) -> Row {
    let runs: Vec<f64> = (0..RUNS)
        .map(|_| {
            progress.set(*done, &format!("{} batch {batch}", C::PEER));
            *done += 1;
            entries_per_s::<C>(batch)
        })
        .collect();
    let per_s = median(&runs).unwrap_or(f64::NAN);
    Row::new(format!("core batch {batch}"))
        .with("peer", C::PEER)
        .with("batch", batch)
        .with("value_bytes", VALUE_BYTES)
        .with("members", REPLICAS)
        .with("per_s", per_s.round())
        .with("ns_per_entry", (1e10 / per_s).round() / 10.0)
}

fn main() {
    let total = u64::from(RUNS) * 2 * BATCHES.len() as u64;
    let mut progress = Progress::new("rivals", total);
    let mut done = 0;
    let mut rows = Vec::new();
    for batch in BATCHES {
        rows.push(row::<omni::Omni>(batch, &mut progress, &mut done));
        rows.push(row::<tikv::Tikv>(batch, &mut progress, &mut done));
    }
    drop(progress);
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let machine = Machine::describe(format!("{seconds} s after 1970"));
    let report = Report { bench: "rivals".to_owned(), machine, runs: RUNS, rows };
    if std::env::args().any(|arg| arg == "--table") {
        print!("{}", report.table());
    } else {
        println!("{}", report.to_json());
    }
}
