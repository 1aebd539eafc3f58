//! The core alone, without the command line: for profilers.
use bench::core::{Plan, measure};
use std::time::Duration;

fn main() {
    let plan = Plan { batches: vec![1, 64, 512], run: Duration::from_millis(500), runs: 5 };
    for batch in &plan.batches {
        println!("{:?}", measure(*batch, &plan));
    }
}
