//! The simulated disk keeps to its own rules.

use super::*;
use base::Ballot;
use proto::disk::Disk as _;

fn append(disk: &mut Disk, n: u64) {
    for _ in 0..n {
        let head = EntryHead { slot: disk.end(), ballot: Ballot(1), view: 0 };
        disk.append(Entry { head, payload: &[head.slot.0 as u8] });
    }
}

#[test]
fn i1_what_was_reported_survives_and_the_rest_survives_in_order() {
    let mut ends = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut disk = Disk::default();
        append(&mut disk, 4);
        disk.put_meta(b"old");
        let flush = disk.sync();
        append(&mut disk, 3);
        disk.put_meta(b"new");
        assert_eq!(disk.complete(), Ok(true));
        assert_eq!(disk.events, [DiskEvent::Synced(flush)]);
        if seed % 2 == 0 {
            disk.lose_power(&mut rng)
        } else {
            disk.lose_process(&mut rng)
        }
        assert!((4..=7).contains(&disk.end().0));
        assert!(disk.meta() == b"old" || disk.end() == Slot(7));
        let mut payload = Vec::new();
        disk.read(Slot(3), &mut payload).expect("it was reported");
        assert_eq!(payload, [3]);
        ends.insert(disk.end().0);
    }
    assert_eq!(ends.len(), 4, "every prefix may be what is left");
}

#[test]
fn i2_what_a_dead_process_left_is_not_durable_yet() {
    let mut rng = Rng::new(3);
    let mut disk = Disk::default();
    let mut lost = false;
    append(&mut disk, 1);
    for _ in 0..20 {
        append(&mut disk, 3);
        disk.lose_process(&mut rng);
        let left = disk.end();
        disk.lose_power(&mut rng);
        lost |= disk.end() < left;
    }
    assert!(lost);
}

#[test]
fn a_held_disk_completes_nothing() {
    let mut disk = Disk::default();
    append(&mut disk, 1);
    disk.sync();
    disk.ails.n_holds = 1;
    assert_eq!(disk.complete(), Ok(false));
    disk.mend();
    assert_eq!((disk.complete(), disk.complete()), (Ok(true), Ok(false)));
}

#[test]
fn i4_a_full_disk_keeps_its_order_and_goes_on_when_there_is_room() {
    for store in [Store::Model, Store::Log] {
        let mut disk = Disk::new(store, Snapshots::Sound);
        disk.confine(1);
        let mut asked = Vec::new();
        while !disk.is_full {
            append(&mut disk, 4);
            asked.push(disk.sync());
            disk.complete().expect("no sync fails");
            assert!(asked.len() < 1000, "{store:?} never becomes full");
        }
        let held = disk.durable();
        assert_eq!(disk.complete(), Ok(false), "{store:?} is full");
        append(&mut disk, 1);
        asked.push(disk.sync());
        disk.mend();
        while disk.complete() == Ok(true) {}
        assert!(!disk.is_full && disk.durable() > held);
        let synced = disk.events.iter().filter_map(|event| match event {
            DiskEvent::Synced(flush) => Some(*flush),
            _ => None,
        });
        assert_eq!(synced.collect::<Vec<_>>(), asked, "each once, and in order");
        assert_eq!(disk.durable(), Prefix(disk.end().0));
    }
}

#[test]
fn i5_what_a_failed_sync_covered_is_never_reported() {
    for store in [Store::Model, Store::Log] {
        let mut disk = Disk::new(store, Snapshots::Sound);
        append(&mut disk, 2);
        disk.sync();
        assert_eq!(disk.complete(), Ok(true));
        // (The released log syncs once more, for the segment that comes next.)
        append(&mut disk, 2);
        disk.sync();
        disk.fail_sync(0);
        assert_eq!(disk.complete(), Err(SyncFailed));
        disk.lose_power(&mut Rng::new(1));
        disk.revive(&mut Rng::new(1)).expect("it is sound");
        assert!(disk.durable() >= Prefix(2));
        assert!(disk.events.is_empty(), "{store:?} reports nothing of an earlier life");
    }
}

#[test]
fn a_flipped_bit_is_found_and_never_guessed_away() {
    for (seed, store) in (0..20).flat_map(|seed| [(seed, Store::Model), (seed, Store::Log)]) {
        let mut rng = Rng::new(seed);
        let mut disk = Disk::new(store, Snapshots::Sound);
        for _ in 0..6 {
            append(&mut disk, 2);
            disk.sync();
            disk.complete().expect("no sync fails");
        }
        assert!(disk.rot(&mut rng, Ballot::NONE), "{store:?} holds enough");
        disk.lose_process(&mut rng);
        let revived = disk.revive(&mut rng);
        assert!(matches!(revived, Err(Unusable::Damaged(_))), "{store:?}: {revived:?}");
    }
}

#[test]
fn a_log_that_begins_later_has_nothing_before() {
    let mut disk = Disk::default();
    append(&mut disk, 20);
    disk.cut(Slot(18));
    disk.free_below(Slot(13));
    assert_eq!((disk.start(), disk.end()), (Slot(8), Slot(18)));
    assert_eq!(disk.head(Slot(7)), None);
    disk.begin_at(Slot(50));
    assert_eq!((disk.start(), disk.end()), (Slot(50), Slot(50)));
}
