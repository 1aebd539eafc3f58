//! The core alone, without the command line: for profilers.
use std::time::Duration;

fn main() {
    for batch in [1, 64, 512] {
        println!("{:?}", bench::core::measure(batch, Duration::from_secs(1)));
    }
}
