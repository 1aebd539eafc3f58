//! The log of one member on a real disk.

use super::*;
use base::{Ballot, Incarnation, NodeId};
use std::path::Path;
use storage::media::{SECTOR, Simulated};
use storage::snapshot::SnapshotWriter;

const WITHIN: Duration = Duration::from_secs(20);

/// Waits for the end of the snapshot under way.
fn ended(disk: &mut LogDisk, now: Instant) -> Option<Prefix> {
    let deadline = std::time::Instant::now() + WITHIN;
    loop {
        let snapshotted = disk.snapshotted(now);
        if !disk.is_writing() {
            return snapshotted;
        }
        assert!(std::time::Instant::now() < deadline, "no end of the snapshot");
        std::thread::yield_now();
    }
}

#[test]
fn i4_a_snapshot_that_fails_is_begun_again_after_a_pause_that_grows_and_said_once() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("data");
    let identity = storage::Identity { cluster: 1, node: NodeId(1), incarnation: Incarnation(1) };
    let (mut disk, _) = LogDisk::open(Directory::create(&path, &identity).unwrap()).unwrap();
    // A directory has the name of the unfinished snapshot.
    let obstacle = path.join(format!("{}.part", snapshot::name(Slot(9))));
    std::fs::create_dir(&obstacle).unwrap();
    let mut now = Instant(1);
    let mut pauses = Vec::new();
    for _ in 0..10 {
        assert!(disk.begin_snapshot(Prefix(9), None, now), "the pause is over");
        assert_eq!(ended(&mut disk, now), None);
        assert!(!disk.begin_snapshot(Prefix(9), None, now), "it is not begun again at once");
        let pause = disk.snapshot_pause(now).expect("one has failed");
        now = now.plus(pause);
        pauses.push(pause);
        let why = disk.figures().no_snapshot.expect("the figures say so");
        assert!(why.starts_with("no snapshot: "), "{why}");
        assert_eq!(disk.trouble(), None, "the log goes on");
    }
    assert!(pauses.is_sorted(), "{pauses:?}");
    assert_eq!((pauses[0], pauses[9]), (SNAPSHOT_PAUSE, SNAPSHOT_PAUSE_MAX));
    assert_eq!(disk.n_said, 1);
    std::fs::remove_dir(&obstacle).unwrap();
    assert!(disk.begin_snapshot(Prefix(9), None, now));
    disk.snapshot_piece(b"state".to_vec(), true);
    assert_eq!(ended(&mut disk, now), Some(Prefix(9)));
    assert_eq!((disk.no_snapshot(), disk.snapshot_pause(now)), (None, None));
}

#[test]
fn i5_what_was_logged_before_a_snapshot_that_fails_counts_again() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("data");
    let (mut disk, _) = reopened(&path, 1);
    disk.snapshot_every(1000);
    let append = |disk: &mut LogDisk, slot| append(disk, slot, &[7; 600]);
    append(&mut disk, 0);
    append(&mut disk, 1);
    assert!(disk.wants_snapshot());
    let obstacle = path.join(format!("{}.part", snapshot::name(Slot(2))));
    std::fs::create_dir(&obstacle).unwrap();
    assert!(disk.begin_snapshot(Prefix(2), None, Instant(1)));
    append(&mut disk, 2);
    let since = disk.figures().logged_bytes;
    assert_eq!(ended(&mut disk, Instant(1)), None);
    let logged = disk.figures().logged_bytes;
    assert!(logged > 1800 && logged > since, "{logged} bytes in all, {since} since");
    assert!(disk.wants_snapshot(), "it is wanted when its pause is over");
    std::fs::remove_dir(&obstacle).unwrap();
    let later = Instant(1).plus(SNAPSHOT_PAUSE);
    assert!(disk.begin_snapshot(Prefix(2), None, later));
    disk.give_up_snapshot();
    assert_eq!((ended(&mut disk, later), disk.figures().logged_bytes), (None, logged));
    assert!(disk.begin_snapshot(Prefix(3), None, later));
    append(&mut disk, 3);
    disk.snapshot_piece(b"state".to_vec(), true);
    assert_eq!(ended(&mut disk, later), Some(Prefix(3)));
    assert!((600..1000).contains(&disk.figures().logged_bytes));
    assert!(!disk.wants_snapshot());
}

fn append(disk: &mut LogDisk, slot: u64, payload: &[u8]) {
    disk.append(Entry {
        head: EntryHead { slot: Slot(slot), ballot: Ballot(3), view: 0 },
        payload,
    });
}

/// The trap: entries were counted without their heads and their padding, so the volume of small
/// ones was full before a snapshot was wanted.
#[test]
fn small_entries_count_with_all_that_they_take_on_the_volume() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("data");
    let most = 40_000;
    let mut n = 0;
    let (mut disk, _) = reopened(&path, 1);
    disk.snapshot_every(most);
    while !disk.wants_snapshot() {
        append(&mut disk, n, &[7; 40]);
        n += 1;
        synced(&mut disk);
    }
    assert!(n * 512 < most + 1024, "{n} entries, each of which takes a block of 512 bytes");
    drop(disk);
    let (mut disk, _) = reopened(&path, 1);
    disk.snapshot_every(most);
    assert!(disk.wants_snapshot(), "a later life counts the same");
    take_snapshot(&mut disk, Prefix(n), b"state");
    assert!(!disk.wants_snapshot());
    drop(disk);
    let (mut disk, _) = reopened(&path, 1);
    disk.snapshot_every(most);
    assert!(!disk.wants_snapshot(), "what the snapshot covers does not count");
}

/// Waits until all that was asked of the disk is durable.
fn synced(disk: &mut LogDisk) {
    let flush = disk.sync();
    let deadline = std::time::Instant::now() + WITHIN;
    let mut is_synced = false;
    while !is_synced {
        disk.pump(Instant(1), |event| is_synced |= event == DiskEvent::Synced(flush));
        assert!(std::time::Instant::now() < deadline, "no end of the sync");
        std::thread::yield_now();
    }
}

/// The trap: nothing more is logged, so what was logged never becomes much.
#[test]
fn a_volume_without_room_wants_a_snapshot_that_may_give_some_back() {
    let base = tempfile::tempdir().unwrap();
    let (mut disk, _) = reopened(&base.path().join("data"), 1);
    let media = disk.directory.media().clone();
    disk.troubles.note(Report::Full("no room".to_owned()), &media);
    append(&mut disk, 0, &[7; 40]);
    assert!(!disk.wants_snapshot(), "no segment would be given back");
    disk.troubles.note(Report::Room, &media);
    let segment_bytes = u64::from(Options::default().segment_bytes);
    let n = segment_bytes >> 20;
    (1..=n).for_each(|slot| append(&mut disk, slot, &[7; 1 << 20]));
    assert!(!disk.wants_snapshot(), "it is not much yet");
    disk.troubles.note(Report::Full("no room".to_owned()), &media);
    assert!(disk.wants_snapshot());
    take_snapshot(&mut disk, Prefix(n), b"state");
    assert!(!disk.wants_snapshot(), "once");
}

#[test]
fn i5_a_snapshot_that_fails_after_a_long_time_is_put_off_for_longer() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("data");
    let (mut disk, _) = reopened(&path, 1);
    let obstacle = path.join(format!("{}.part", snapshot::name(Slot(2))));
    std::fs::create_dir(&obstacle).unwrap();
    let (begun, took) = (Instant(1), Duration::from_secs(3));
    assert!(disk.begin_snapshot(Prefix(2), None, begun));
    let failed = begun.plus(took);
    assert_eq!(ended(&mut disk, failed), None);
    assert_eq!(disk.snapshot_pause(failed), Some(Duration::from_secs(48)));
    // But the machine is not kept waiting: I5.
    disk.hurry_snapshot();
    assert_eq!(disk.snapshot_pause(failed), Some(SNAPSHOT_PAUSE_MAX));
    std::fs::remove_dir(&obstacle).unwrap();
    let later = failed.plus(SNAPSHOT_PAUSE_MAX);
    assert!(disk.begin_snapshot(Prefix(2), None, later));
    disk.snapshot_piece(b"state".to_vec(), true);
    assert_eq!(ended(&mut disk, later), Some(Prefix(2)));
}

/// The machine keeps both: a member took nothing, and its status said that all was well.
#[test]
fn a_trouble_that_ends_leaves_the_other() {
    let base = tempfile::tempdir().unwrap();
    let media = Os::new(base.path()).unwrap();
    let full = || Report::Full("no room".to_owned());
    let orders = [
        [full(), Report::Stalled, Report::Flowing, Report::Room],
        [full(), Report::Stalled, Report::Room, Report::Flowing],
        [Report::Stalled, full(), Report::Flowing, Report::Room],
        [Report::Stalled, full(), Report::Room, Report::Flowing],
    ];
    for reports in orders {
        let mut troubles = Troubles::default();
        let shown = reports.clone().map(|report| {
            troubles.note(report, &media);
            troubles.present().map(str::to_owned)
        });
        let left = if reports[2] == Report::Flowing { "no room" } else { "takes long to sync" };
        assert!(shown[2].as_ref().is_some_and(|why| why.contains(left)), "{reports:?}: {shown:?}");
        assert_eq!((&shown[3], troubles.n), (&None, 2), "{reports:?}: {shown:?}");
    }
}

/// The log in the directory `path` of a member of `cluster`, with what its newest snapshot holds.
fn reopened(path: &Path, cluster: u64) -> (LogDisk, Option<(Prefix, Vec<u8>)>) {
    let identity = storage::Identity { cluster, node: NodeId(1), incarnation: Incarnation(1) };
    let directory = match Directory::open(path, &identity) {
        Ok(directory) => directory,
        Err(_) => Directory::create(path, &identity).unwrap(),
    };
    let (disk, found) = LogDisk::open(directory).unwrap();
    (disk, found.map(|found| (found.prefix, found.state)))
}

fn take_snapshot(disk: &mut LogDisk, prefix: Prefix, state: &[u8]) {
    assert!(disk.begin_snapshot(prefix, None, Instant(1)));
    disk.snapshot_piece(state.to_vec(), true);
    assert_eq!(ended(disk, Instant(1)), Some(prefix));
}

#[test]
fn a_snapshot_of_another_log_is_neither_believed_nor_kept_in_place_of_an_own_one() {
    let base = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| base.path().join(name));
    let (mut disk, _) = reopened(&own, 1);
    take_snapshot(&mut disk, Prefix(5), b"own");
    drop(disk);
    let (mut disk, _) = reopened(&other, 2);
    for prefix in [8, 9] {
        take_snapshot(&mut disk, Prefix(prefix), b"other");
        let name = snapshot::name(Slot(prefix));
        std::fs::copy(other.join(&name), own.join(&name)).unwrap();
    }
    let (mut disk, found) = reopened(&own, 1);
    assert_eq!(found, Some((Prefix(5), b"own".to_vec())));
    let described = storage::inspect::inspect(&own, storage::inspect::Detail::Segments).unwrap();
    let damages: Vec<&str> = described.damages().collect();
    let is_named = |why: &&str| why.contains("the file belongs into another directory");
    assert!(damages.len() == 2 && damages.iter().all(is_named), "{damages:?}");
    take_snapshot(&mut disk, Prefix(6), b"later");
    drop(disk);
    assert_eq!(reopened(&own, 1).1, Some((Prefix(6), b"later".to_vec())));
}

#[test]
fn a_damaged_snapshot_does_not_cost_the_last_whole_one_its_place() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("data");
    let damage = |prefix| {
        let file = path.join(snapshot::name(Slot(prefix)));
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[0] ^= 1;
        std::fs::write(&file, bytes).unwrap();
    };
    let (mut disk, _) = reopened(&path, 1);
    take_snapshot(&mut disk, Prefix(5), b"five");
    take_snapshot(&mut disk, Prefix(6), b"six");
    drop(disk);
    damage(6);
    let (mut disk, found) = reopened(&path, 1);
    assert_eq!(found, Some((Prefix(5), b"five".to_vec())));
    take_snapshot(&mut disk, Prefix(7), b"seven");
    drop(disk);
    damage(7);
    let found = reopened(&path, 1).1;
    assert_eq!(found, Some((Prefix(5), b"five".to_vec())), "two whole ones were kept");
}

#[test]
fn a_snapshot_that_cannot_be_read_is_passed_over_as_a_damaged_one_is() {
    let disk = Simulated::new();
    for (slot, state) in [(5, b"five!"), (6, b"six!!")] {
        let mut writer = SnapshotWriter::create(&disk, 1, Slot(slot), b"").unwrap();
        writer.write(state).unwrap();
        writer.finish().unwrap();
    }
    let name = snapshot::name(Slot(6));
    let n_sectors = disk.contents(&name).unwrap().len().div_ceil(SECTOR) as u64;
    for sector in 0..n_sectors {
        disk.set_faults(|faults| faults.unreadable = Some((name.clone(), sector)));
        let (found, passed_over) = newest(&disk, 1).unwrap();
        let found = found.expect("the older one is whole");
        assert_eq!((found.prefix, &found.state[..]), (Prefix(5), &b"five!"[..]));
        assert_eq!(passed_over, PassedOver { damaged: Vec::new(), unread: vec![Slot(6)] });
    }
    disk.set_faults(|faults| (faults.unreadable, faults.n_not_opened) = (None, 1));
    newest(&disk, 1).expect_err("a want of descriptors passes: nothing older is taken for it");
    let (found, passed_over) = newest(&disk, 1).unwrap();
    assert_eq!(found.map(|found| found.prefix), Some(Prefix(6)), "it is still there");
    assert_eq!(passed_over, PassedOver::default());
}
