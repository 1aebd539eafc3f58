//! One number: nanoseconds a decision, three machines in one thread.
use std::time::Instant;
fn main() {
    for (batch, n) in [(1usize, 1_000_000u64), (64, 100_000), (240, 50_000)] {
        let mut core = bench::core::Core::new(&Default::default());
        let value = vec![7u8; 32 * batch];
        for _ in 0..n / 10 {
            core.decide(&value);
        }
        let t = Instant::now();
        for _ in 0..n {
            core.decide(&value);
        }
        let ns = t.elapsed().as_nanos() as f64 / n as f64;
        println!(
            "batch {batch}: {ns:.0} ns a decision, {:.2} M entries/s",
            batch as f64 * 1e3 / ns
        );
    }
}
