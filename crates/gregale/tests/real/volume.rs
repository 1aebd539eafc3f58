//! The volume of a day, on a disk whose use must stay bounded.

use crate::support::start_on_disk;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A hundred writes a second of 128 bytes each, for a day.
const DAY_BYTES: u64 = 86_400 * 100 * 128;
/// The state at any time: a hundred keys of 8 KiB.
const N_KEYS: u64 = 100;
const VALUE_BYTES: usize = 8 << 10;
/// The logged bytes after which a snapshot is made.
const SNAPSHOT_LOG_BYTES: u64 = 8 << 20;
/// Two snapshots of this state and one that is being written, 3 MiB; the log since the last one and
/// the entries that are logged while a snapshot is written; the preallocated segment of 16 MiB
/// behind it, and the segment in which its beginning lies. Measured: 50 MiB.
const BOUND_BYTES: u64 = 96 << 20;

/// The disk space of a directory, preallocated bytes included. Files come and go meanwhile.
fn allocated(at: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(at) else { return 0 };
    let sizes = entries.filter_map(Result::ok).map(|entry| match entry.metadata() {
        Ok(of) if of.is_dir() => allocated(&entry.path()),
        Ok(of) => of.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}

#[test]
#[ignore = "writes 3.3 GB: cargo test --release -p gregale --test real -- --ignored a_day"]
fn a_day_of_overwrites_takes_no_more_space_than_an_hour() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster =
        start_on_disk(data.path(), &["--snapshot-log-bytes", &SNAPSHOT_LOG_BYTES.to_string()]);
    let members = [1, 2, 3].map(|id| data.path().join(format!("member-{id}")));
    let mut connection = cluster.connect(cluster.leader());
    let (mut n_written, mut n_bytes, mut peak, mut shown) = (0u64, 0, [0; 3], 0);
    while n_bytes < DAY_BYTES {
        let mut batch = redis::pipe();
        for _ in 0..32 {
            let value = vec![b'a' + (n_written % 26) as u8; VALUE_BYTES];
            batch.set(format!("k{}", n_written % N_KEYS), value).ignore();
            n_written += 1;
        }
        batch.query::<()>(&mut connection).unwrap();
        n_bytes += 32 * VALUE_BYTES as u64;
        for (peak, member) in peak.iter_mut().zip(&members) {
            *peak = allocated(member).max(*peak);
        }
        if n_bytes * 10 / DAY_BYTES > shown {
            shown = n_bytes * 10 / DAY_BYTES;
            let now = [0, 1, 2].map(|at| allocated(&members[at]) >> 20);
            println!("{} MiB written; MiB on the disks {now:?}", n_bytes >> 20);
        }
        assert!(peak.iter().all(|bytes| *bytes < BOUND_BYTES), "{peak:?} after {n_bytes} bytes");
    }
    println!("peaks in MiB: {:?}", peak.map(|bytes| bytes >> 20));
    assert_eq!(cluster.cli(1, &["DBSIZE"]), N_KEYS.to_string());
    assert_eq!(cluster.stop(), Some(0));
}
