//! A benchmark of whole servers starts `gregale`, not this program.

use std::process::Command;

#[test]
fn a_benchmark_of_servers_starts_gregale() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_gregale-workbench"));
    let output = bench.args(["bench", "idle", "--quick", "--fabric", "shm"]).output().unwrap();
    // (Whether `gregale` lies beside it or not.)
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("unrecognized subcommand"), "{said}");
}
