//! The promises of a machine's disk, kept by the log that ships in a real directory.

use base::{Ballot, Incarnation, NodeId, Slot};
use proto::disk::{Disk, DiskEvent, Entry, EntryHead};
use runtime::StableStorage;
use runtime::disk::LogDisk;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use storage::{Directory, Identity};

const MIB: usize = 1 << 20;

fn open(path: &Path) -> LogDisk {
    let identity = Identity { cluster: 5, node: NodeId(1), incarnation: Incarnation::FIRST };
    LogDisk::open(Directory::create(path, &identity).unwrap()).unwrap().0
}

fn append(disk: &mut LogDisk, payload: &[u8]) {
    let head = EntryHead { slot: disk.end(), ballot: Ballot(3), view: 0 };
    disk.append(Entry { head, payload });
}

fn wait_until_synced(disk: &mut LogDisk) {
    let flush = disk.sync();
    let (mut synced, end) = (None, Instant::now() + Duration::from_secs(60));
    while synced < Some(flush) {
        assert!(Instant::now() < end, "it is never synced");
        assert_eq!(disk.failure(), None);
        disk.pump(base::Instant::ZERO, |event| {
            if let DiskEvent::Synced(done) = event {
                synced = Some(done);
            }
        });
        std::thread::yield_now();
    }
}

/// A disk that is not pumped gets nothing, as a disk that stands still returns nothing.
#[test]
fn d4_a_disk_that_stands_still_takes_as_much_as_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = open(directory.path());
    let payload = vec![7; MIB];
    let mut n = 0;
    while disk.room() >= payload.len() {
        append(&mut disk, &payload);
        n += 1;
        assert!(n < 64, "it says that it has room for ever");
    }
    assert!(n > 48, "{n} MiB are less than is meant");
    append(&mut disk, &[]);
    wait_until_synced(&mut disk);
    assert!(disk.room() > 48 * MIB, "what was synced makes room");
}

#[test]
#[should_panic(expected = "I4, D4: no more is appended than may wait for the disk")]
fn d4_what_does_not_fit_is_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = open(directory.path());
    let payload = vec![7; MIB];
    (0..65).for_each(|_| append(&mut disk, &payload));
}

#[test]
fn d5_damage_that_is_met_while_reading_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = open(directory.path());
    // More than the memory cache keeps.
    let payload = vec![7; MIB];
    (0..14).for_each(|_| append(&mut disk, &payload));
    wait_until_synced(&mut disk);
    let mut into = Vec::new();
    assert!(disk.read(Slot(0), &mut into).is_some());
    let mut files: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("log-"));
    let file = std::fs::OpenOptions::new().write(true).open(files.iter().min().unwrap()).unwrap();
    file.write_all_at(b"a bit, or more", 100_000).unwrap();
    assert_eq!(disk.read(Slot(0), &mut into), None);
    let why = disk.failure().expect("it has failed").to_owned();
    assert!(why.contains("Replace this member"), "{why}");
    assert_eq!(disk.look_within(), Some(Duration::ZERO), "its process does not sleep on that");
}
