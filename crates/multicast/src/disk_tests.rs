//! Directories that are opened again.

use super::*;
use base::{Incarnation, NodeId};

const DISKS: [u64; MAX_MEMBERS] = [7; MAX_MEMBERS];

fn identity() -> Identity {
    Identity { cluster: 5, node: NodeId(1), incarnation: Incarnation(1) }
}

fn open(path: &Path, begins: bool) -> io::Result<(Journal, Option<Found>)> {
    Journal::open(path, &identity(), begins, 1 << 20)
}

fn whole(lives: u64, n_bytes: usize) -> Found {
    let (stable, app) = (vec![1; n_bytes], vec![2; 3]);
    let members = vec![Kept { group: 4, stable, app, changes: Vec::new() }];
    Found { lives, disks: DISKS, members }
}

fn change(journal: &mut Journal, bytes: &[u8]) {
    let changes = [(GroupId::at(4), bytes.to_vec())];
    assert!(journal.keep(&DISKS, &changes, || None).unwrap(), "it waits for its sync");
}

fn held(n_delivered: u64) -> Held {
    Held { marks: Default::default(), n_delivered, views: Vec::new() }
}

/// Pumps until the whole output of a turn may leave.
fn released(journal: &mut Journal) -> Held {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        assert!(std::time::Instant::now() < until, "the disk never answers");
        if let Some(held) = journal.pump(Instant::ZERO).unwrap() {
            return held;
        }
        std::thread::yield_now();
    }
}

#[test]
fn k3_a_whole_and_what_changed_since_come_back() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("node");
    let (mut journal, found) = open(&path, true).unwrap();
    let disk = journal.disk();
    assert!(found.is_none());
    journal.begin_whole(&whole(1, 10));
    change(&mut journal, b"before");
    // Longer than one entry.
    change(&mut journal, &vec![9; PIECE_BYTES + 7]);
    journal.finish().unwrap();
    drop(journal);
    let (mut journal, found) = open(&path, false).unwrap();
    let found = found.unwrap();
    assert_eq!((journal.disk(), found.lives, found.disks), (disk, 1, DISKS));
    let kept = &found.members[0];
    assert_eq!((kept.group, kept.stable.len(), &kept.app[..]), (4, 10, &[2, 2, 2][..]));
    assert_eq!(kept.changes, [b"before".to_vec(), vec![9; PIECE_BYTES + 7]]);
    // A second whole of several pieces, with changes between them.
    journal.begin_whole(&whole(2, 3 * PIECE_BYTES));
    change(&mut journal, b"after");
    journal.finish().unwrap();
    drop(journal);
    let (_, found) = open(&path, false).unwrap();
    let found = found.unwrap();
    let kept = &found.members[0];
    assert_eq!((found.lives, kept.stable.len()), (2, 3 * PIECE_BYTES));
    assert_eq!(kept.changes, [b"after"]);
}

#[test]
fn k2_what_a_turn_said_waits_for_its_sync_and_for_all_before() {
    let place = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(&place.path().join("node"), true).unwrap();
    journal.begin_whole(&whole(1, 10));
    journal.finish().unwrap();
    assert!(!journal.keep(&DISKS, &[], || Some(held(1))).unwrap(), "nothing to wait for");
    let changes = [(GroupId::at(4), b"x".to_vec())];
    assert!(journal.keep(&DISKS, &changes, || Some(held(2))).unwrap());
    // Nothing new changed: the output waits with what is before it.
    assert!(journal.keep(&DISKS, &[], || Some(held(3))).unwrap());
    assert_eq!(released(&mut journal).n_delivered, 3);
    assert!(!journal.keep(&DISKS, &[], || Some(held(4))).unwrap());
}

#[test]
fn k2_a_sync_under_way_covers_nothing_that_is_kept_meanwhile() {
    let place = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(&place.path().join("node"), true).unwrap();
    journal.begin_whole(&whole(1, 10));
    journal.finish().unwrap();
    let keep = |journal: &mut Journal, n_delivered: u64| {
        let changes = [(GroupId::at(4), vec![1; 4096])];
        assert!(journal.keep(&DISKS, &changes, || Some(held(n_delivered))).unwrap());
    };
    for round in (0..200).step_by(2) {
        keep(&mut journal, round);
        let first = journal.pump(Instant::ZERO).unwrap();
        assert!(first.is_none_or(|held| held.n_delivered == round), "its sync is under way");
        keep(&mut journal, round + 1);
        let last_flush = journal.last_flush.unwrap();
        while journal.turns.iter().any(|turn| turn.held.n_delivered == round + 1) {
            assert_eq!(journal.turns.back().unwrap().flush, last_flush, "K2: it has its own");
            let held = released(&mut journal);
            let is_synced = journal.log.n_unsynced() == 0;
            assert!(held.n_delivered == round || is_synced, "K2: {} is not synced", round + 1);
        }
    }
}

#[test]
fn k2_what_is_synced_or_has_nothing_to_wait_for_is_handed_over() {
    let place = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(&place.path().join("node"), true).unwrap();
    journal.begin_whole(&whole(1, 10));
    journal.finish().unwrap();
    journal.hand(1);
    let changes = [(GroupId::at(4), b"x".to_vec())];
    assert!(journal.keep(&DISKS, &changes, || Some(held(2))).unwrap());
    journal.hand(1);
    assert_eq!(released(&mut journal).n_delivered, 2);
    journal.hand(2);
}

#[test]
#[should_panic(expected = "K2: delivery 2 is handed over before its sync")]
fn k2_what_waits_for_its_sync_is_not_handed_over() {
    let place = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(&place.path().join("node"), true).unwrap();
    journal.begin_whole(&whole(1, 10));
    journal.finish().unwrap();
    let changes = [(GroupId::at(4), b"x".to_vec())];
    assert!(journal.keep(&DISKS, &changes, || Some(held(2))).unwrap());
    journal.hand(2);
}

#[test]
fn a_directory_is_begun_once_and_reopened_by_its_node_only() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("node");
    assert!(open(&path, false).is_err(), "nobody began it");
    drop(open(&path, true).unwrap());
    let (_, found) = open(&path, false).unwrap();
    assert!(found.is_none(), "it died before anybody had heard of it");
    assert!(open(&path, true).is_err(), "who begins again has forgotten what it promised");
    let other = Identity { node: NodeId(2), ..identity() };
    assert!(Journal::open(&path, &other, false, 1).is_err());
}
