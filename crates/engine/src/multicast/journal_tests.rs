//! Journals on a disk in memory, which syncs when a test says so.

use super::*;
use crate::multicast::paper::Paper;

const DISKS: [u64; base::FABRIC_SEATS_MAX] = [7; base::FABRIC_SEATS_MAX];
const PIECE_BYTES: usize = 1 << 10;
const SIZES: Sizes =
    Sizes { piece_bytes: PIECE_BYTES, behind_bytes: 1 << 14, whole_after_bytes: 1 << 20 };

impl Paper {
    /// Syncs everything that was asked for.
    fn sync_all(&mut self, journal: &mut Journal) -> Option<Held> {
        let synced = self.sync_now();
        journal.hear(self, &[synced], Instant(1))
    }

    /// Works until the journal waits for nothing.
    fn finish(&mut self, journal: &mut Journal) {
        journal.finish();
        while journal.holds() {
            journal.write(self);
            self.sync_all(journal);
        }
    }
}

fn open(disk: &mut Paper) -> (Journal, Option<Found>) {
    Journal::open(disk, 3, SIZES).unwrap()
}

/// A disk, and a journal whose first whole is synced there.
fn begun() -> (Paper, Journal) {
    let mut disk = Paper::default();
    let (mut journal, _) = open(&mut disk);
    journal.begin_whole(&mut disk, &whole(1, 10));
    disk.finish(&mut journal);
    (disk, journal)
}

fn whole(lives: u64, n_bytes: usize) -> Found {
    let (stable, app) = (vec![1; n_bytes], vec![2; 3]);
    let members = vec![Kept { group: 4, stable, app, changes: Vec::new() }];
    Found { lives, disks: DISKS.to_vec(), members }
}

fn change(journal: &mut Journal, disk: &mut Paper, bytes: &[u8]) {
    let changes = [(GroupId::at(4), bytes.to_vec())];
    assert!(journal.keep(disk, DISKS.into_iter(), &changes, || None), "it waits for its sync");
}

fn held(n_delivered: u64) -> Held {
    Held { marks: Default::default(), n_delivered, views: Vec::new() }
}

#[test]
fn k3_a_whole_and_what_changed_since_come_back() {
    let mut disk = Paper::default();
    let (mut journal, found) = open(&mut disk);
    assert!(found.is_none());
    journal.begin_whole(&mut disk, &whole(1, 10));
    change(&mut journal, &mut disk, b"before");
    // Longer than one entry.
    change(&mut journal, &mut disk, &vec![9; PIECE_BYTES + 7]);
    disk.finish(&mut journal);
    let (mut journal, found) = open(&mut disk);
    let found = found.unwrap();
    assert_eq!((journal.name(), found.lives, &found.disks[..]), (3, 1, &DISKS[..]));
    let kept = &found.members[0];
    assert_eq!((kept.group, kept.stable.len(), &kept.app[..]), (4, 10, &[2, 2, 2][..]));
    assert_eq!(kept.changes, [b"before".to_vec(), vec![9; PIECE_BYTES + 7]]);
    // A second whole of several pieces, with changes between them.
    journal.begin_whole(&mut disk, &whole(2, 3 * PIECE_BYTES));
    change(&mut journal, &mut disk, b"after");
    let start = disk.start;
    disk.finish(&mut journal);
    assert!(disk.start > start, "freed below it");
    let (_, found) = open(&mut disk);
    let found = found.unwrap();
    let kept = &found.members[0];
    assert_eq!((found.lives, kept.stable.len()), (2, 3 * PIECE_BYTES));
    assert_eq!(kept.changes, [b"after"]);
}

#[test]
fn k3_a_whole_that_was_not_written_to_its_end_does_not_count() {
    let (mut disk, mut journal) = begun();
    journal.begin_whole(&mut disk, &whole(2, 3 * PIECE_BYTES));
    change(&mut journal, &mut disk, b"after");
    disk.sync_all(&mut journal);
    assert_eq!(disk.start, 0, "nothing is freed before its last piece is synced");
    let (_, found) = open(&mut disk);
    let found = found.unwrap();
    assert_eq!((found.lives, &found.members[0].changes[..]), (1, &[b"after".to_vec()][..]));
}

#[test]
fn k2_what_a_turn_said_waits_for_its_sync_and_for_all_before() {
    let (mut disk, mut journal) = begun();
    assert!(
        !journal.keep(&mut disk, DISKS.into_iter(), &[], || Some(held(1))),
        "nothing to wait for"
    );
    let changes = [(GroupId::at(4), b"x".to_vec())];
    assert!(journal.keep(&mut disk, DISKS.into_iter(), &changes, || Some(held(2))));
    // Nothing new changed: the output waits with what is before it.
    assert!(journal.keep(&mut disk, DISKS.into_iter(), &[], || Some(held(3))));
    assert_eq!(disk.sync_all(&mut journal).unwrap().n_delivered, 3);
    assert!(!journal.keep(&mut disk, DISKS.into_iter(), &[], || Some(held(4))));
}

#[test]
fn k2_a_sync_under_way_covers_nothing_that_is_kept_meanwhile() {
    let (mut disk, mut journal) = begun();
    let keep = |journal: &mut Journal, disk: &mut Paper, n_delivered: u64| {
        let changes = [(GroupId::at(4), vec![1; 100])];
        assert!(journal.keep(disk, DISKS.into_iter(), &changes, || Some(held(n_delivered))));
    };
    for round in (0..200).step_by(2) {
        keep(&mut journal, &mut disk, round);
        let under_way = DiskEvent::Synced(Flush(disk.n_flushes));
        keep(&mut journal, &mut disk, round + 1);
        let first = journal.hear(&mut disk, &[under_way], Instant(1)).unwrap();
        assert_eq!(first.n_delivered, round, "K2: the other has its own");
        assert_eq!(disk.sync_all(&mut journal).unwrap().n_delivered, round + 1);
    }
}

#[test]
fn k2_what_is_synced_or_has_nothing_to_wait_for_is_handed_over() {
    let (mut disk, mut journal) = begun();
    journal.hand(1);
    let changes = [(GroupId::at(4), b"x".to_vec())];
    assert!(journal.keep(&mut disk, DISKS.into_iter(), &changes, || Some(held(2))));
    journal.hand(1);
    assert_eq!(disk.sync_all(&mut journal).unwrap().n_delivered, 2);
    journal.hand(2);
}

#[test]
#[should_panic(expected = "K2: delivery 2 is handed over before its sync")]
fn k2_what_waits_for_its_sync_is_not_handed_over() {
    let (mut disk, mut journal) = begun();
    let changes = [(GroupId::at(4), b"x".to_vec())];
    assert!(journal.keep(&mut disk, DISKS.into_iter(), &changes, || Some(held(2))));
    journal.hand(2);
}

#[test]
fn k4_a_turn_for_which_there_is_no_room_holds_the_node_and_is_released_whole() {
    let (mut disk, mut journal) = begun();
    disk.room = 3 * PIECE_BYTES;
    let changes = [(GroupId::at(4), vec![5; 10 * PIECE_BYTES])];
    assert!(journal.keep(&mut disk, DISKS.into_iter(), &changes, || Some(held(9))));
    assert!(journal.holds());
    let mut released = None;
    while journal.holds() {
        assert!(released.is_none(), "K2: its end is not written");
        disk.room = 3 * PIECE_BYTES;
        let flush = Flush(disk.n_flushes);
        released = journal.hear(&mut disk, &[DiskEvent::Synced(flush)], Instant(1));
        journal.write(&mut disk);
    }
    assert!(released.is_none());
    assert_eq!(disk.sync_all(&mut journal).unwrap().n_delivered, 9);
    let (_, found) = open(&mut disk);
    assert_eq!(found.unwrap().members[0].changes, [vec![5; 10 * PIECE_BYTES]]);
}

/// What a node's start or an install of states writes may be of any length.
#[test]
fn k4_a_disk_that_syncs_is_not_late_though_a_whole_takes_it_long() {
    let mut disk = Paper::default();
    let (mut journal, _) = open(&mut disk);
    journal.begin_whole(&mut disk, &whole(1, 20 * SIZES.behind_bytes));
    journal.finish();
    let (mut now, mut n_syncs) = (Instant(5), 0);
    while journal.holds() {
        assert!(!journal.is_late(now), "after {n_syncs} syncs");
        journal.write(&mut disk);
        disk.sync_all(&mut journal);
        n_syncs += 1;
        now = now.plus(PATIENCE / 2);
    }
    assert!(n_syncs > 10, "{n_syncs}");
    journal.begin_whole(&mut disk, &whole(1, 10));
    journal.finish();
    assert!(!journal.is_late(now));
    disk.n_flushes -= 1;
    disk.sync_all(&mut journal);
    assert!(journal.is_late(now.plus(2 * PATIENCE)), "nothing was synced since");
}

#[test]
#[should_panic(expected = "K5: changes do not continue what is before an unfinished whole")]
fn k5_nothing_is_noted_while_the_node_waits_for_everything() {
    let (mut disk, mut journal) = begun();
    journal.begin_whole(&mut disk, &whole(2, 3 * PIECE_BYTES));
    journal.finish();
    change(&mut journal, &mut disk, b"of the new whole");
}

#[test]
fn k4_a_disk_that_never_answers_is_noticed() {
    let mut disk = Paper::default();
    let (mut journal, _) = open(&mut disk);
    journal.begin_whole(&mut disk, &whole(1, 10));
    journal.finish();
    assert!(!journal.is_late(Instant(5)));
    assert!(!journal.is_late(Instant(5).plus(PATIENCE)));
    assert!(journal.is_late(Instant(6).plus(PATIENCE)));
    disk.finish(&mut journal);
    assert!(!journal.is_late(Instant(7).plus(2 * PATIENCE)));
}

#[test]
fn a_full_disk_is_waited_for_and_a_silent_one_is_not() {
    let (mut disk, mut journal) = begun();
    change(&mut journal, &mut disk, b"more");
    journal.finish();
    let long = |n: u32| Instant(1).plus(2 * n * PATIENCE);
    assert!(!journal.is_late(long(0)));
    journal.hear(&mut disk, &[DiskEvent::Full], Instant(1));
    assert!(!journal.is_late(long(1)) && !journal.is_late(long(2)) && journal.holds());
    journal.hear(&mut disk, &[DiskEvent::Room], Instant(1));
    assert!(!journal.is_late(long(2)) && journal.is_late(long(3)));
    disk.sync_all(&mut journal);
    assert!(!journal.is_late(long(4)) && !journal.holds());
}

/// Views and marks of a turn are longer than its changes.
#[test]
fn k4_the_output_that_waits_for_a_silent_disk_is_bounded_too() {
    let (mut disk, mut journal) = begun();
    disk.room = usize::MAX;
    journal.sizes.behind_bytes = 1 << 30;
    let keep = |journal: &mut Journal, disk: &mut Paper, n: u64| {
        let changes = [(GroupId::at(4), vec![7])];
        assert!(journal.keep(disk, DISKS.into_iter(), &changes, || Some(held(n))));
    };
    (1..=10_000).for_each(|n| keep(&mut journal, &mut disk, n));
    assert!(journal.turns.len() <= TURNS_MAX, "{} turns wait", journal.turns.len());
    let synced = DiskEvent::Synced(Flush(disk.n_flushes - 1));
    let before = journal.hear(&mut disk, &[synced], Instant(1)).map_or(0, |held| held.n_delivered);
    assert!((1..10_000).contains(&before), "the last one is not synced: {before}");
    assert_eq!(disk.sync_all(&mut journal).map(|held| held.n_delivered), Some(10_000));
    assert!(journal.turns.is_empty());
}
