//! Prints the cost of a durable record on this machine, beside the disk's own cost.
//!
//! `cargo run --release -p gregale-storage --example record -- [DIR] [BYTES] [TIMES]`

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().map_or_else(|| PathBuf::from("."), PathBuf::from);
    let mut number = |default| arguments.next().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (payload, n) = (number(32), number(2000));
    let samples = storage::bench::measure(&dir, payload, n)?;
    println!("{n} entries of {payload} bytes in {}, microseconds", dir.display());
    println!("{:<50} {:>7} {:>7}", "", "p50", "p99");
    for (what, mut times) in [
        ("floor: write 4 KiB, fdatasync", samples.floor_4k_ns),
        ("floor: write 512 B, fdatasync", samples.floor_512_ns),
        ("floor: write 4 KiB past the page cache, fdatasync", samples.floor_direct_ns),
        ("log: append, write, fdatasync", samples.log_ns),
        ("log through the committer thread", samples.committer_ns),
    ] {
        if times.is_empty() {
            println!("{what}: refused by this file system");
            continue;
        }
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100] as f64 / 1000.0;
        println!("{what:<50} {:>7.1} {:>7.1}", at(50), at(99));
    }
    let restart = storage::bench::measure_restart(&dir, 512, 500_000)?;
    println!(
        "opening a log of {} entries, {} MB: {} ms",
        restart.n_entries,
        restart.n_bytes / 1_000_000,
        restart.open_ns / 1_000_000
    );
    Ok(())
}
