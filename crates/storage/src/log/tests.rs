//! Damage, torn ends, full disks and reuse, on small logs made by hand. Random crashes are in
//! tests/crash.rs.

use super::record::{self, Head, Kind, Position};
use super::segment::SPARES;
use super::*;
use crate::media::{Media as _, SECTOR, Simulated};
use base::{Ballot, Rng};
use std::sync::Arc;

const LOG: u64 = 77;

fn small() -> Options {
    Options {
        segment_bytes: Options::SEGMENT_MIN,
        cache_bytes: 0,
        unsynced_bytes: 1 << 20,
        ..Options::default()
    }
}

fn open_it(disk: &Simulated) -> Opened<Simulated> {
    open(disk, &small(), LOG).expect("sound")
}

fn append(opened: &mut Opened<Simulated>, payload: &[u8]) {
    let slot = opened.log.end();
    opened.log.append(slot, Ballot(3), 1, payload).unwrap();
}

fn take_all(log: &mut Log<Simulated>) -> Vec<Arc<Batch>> {
    log.sync();
    std::iter::from_fn(|| log.take()).collect()
}

fn commit(opened: &mut Opened<Simulated>) -> Result<(), WriteError> {
    for batch in take_all(&mut opened.log) {
        opened.writer.write(&batch)?;
        opened.log.done(batch.end());
    }
    Ok(())
}

fn release(opened: &mut Opened<Simulated>, oldest: u32) {
    while opened.writer.release(oldest).unwrap() {}
}

/// A log of several segments, each batch with one or two entries; returns the heads of its records.
fn sample() -> (Simulated, Vec<Head>) {
    let disk = Simulated::new();
    let mut opened = open_it(&disk);
    opened.log.put_meta(b"promised 3");
    for n in 0..60_u8 {
        append(&mut opened, &vec![n; 40 * usize::from(n)]);
        if n % 3 != 0 {
            commit(&mut opened).unwrap();
        }
    }
    commit(&mut opened).unwrap();
    let mut heads = Vec::new();
    let found = survey(&disk, LOG, |head, _| heads.push(*head)).unwrap();
    assert!(found.segments.len() >= 3 && found.damage.is_none() && !found.is_torn);
    (disk, heads)
}

fn contents(disk: &Simulated) -> Vec<(String, Option<Vec<u8>>)> {
    let names = disk.list().unwrap().into_iter();
    names.map(|name| (name.clone(), disk.contents(&name))).collect()
}

#[test]
fn i4_a_flipped_bit_in_any_synced_record_is_named_and_nothing_is_changed() {
    let (disk, heads) = sample();
    let last_batch = heads.last().unwrap().synced_upto;
    let before = contents(&disk);
    let mut rng = Rng::new(4);
    let mut slot = 0;
    for head in heads.iter().filter(|head| head.position < last_batch) {
        let name = segment::name(head.position.segment());
        for _ in 0..4 {
            let byte = u64::from(head.position.offset()) + rng.below(u64::from(head.total));
            let bit = byte * 8 + rng.below(8);
            assert!(disk.flip(&name, bit));
            let Err(OpenError::Damaged(damage)) = open(&disk, &small(), LOG) else {
                panic!("I4: bit {bit} of {name}");
            };
            assert_eq!(
                (&damage.file, damage.offset, damage.slot.0),
                (&name, u64::from(head.position.offset()), slot),
                "{damage}"
            );
            assert!(disk.flip(&name, bit));
            assert!(contents(&disk) == before, "a damaged log is left as it is");
        }
        slot += u64::from(head.kind == Kind::Entry);
    }
    open_it(&disk);
}

#[test]
fn a_damaged_first_block_and_a_missing_segment_are_named() {
    let (disk, heads) = sample();
    let mut rng = Rng::new(5);
    for _ in 0..50 {
        let bit = rng.below(u64::from(segment::FIRST_BLOCK) * 8);
        disk.flip(&segment::name(1), bit);
        let Err(OpenError::Damaged(damage)) = open(&disk, &small(), LOG) else {
            panic!("bit {bit} of the first block");
        };
        assert_eq!((damage.file.as_str(), damage.offset), ("log-00000001", 0));
        disk.flip(&segment::name(1), bit);
    }
    let held = |head: &&Head| head.position.segment() == 0 && head.kind == Kind::Entry;
    let n_held = heads.iter().filter(held).count() as u64;
    disk.remove(&segment::name(1)).unwrap();
    let Err(OpenError::Damaged(damage)) = open(&disk, &small(), LOG) else {
        panic!("I7: a segment is missing");
    };
    assert_eq!((damage.file.as_str(), damage.slot.0), ("log-00000001", n_held));
}

#[test]
fn i4_a_flip_in_the_last_batch_looks_like_a_torn_end() {
    let (disk, heads) = sample();
    let last = heads.last().unwrap();
    let bit = u64::from(last.position.offset()) * 8 + 777;
    disk.flip(&segment::name(last.position.segment()), bit);
    let opened = open_it(&disk);
    assert_eq!(opened.log.end(), last.slot, "the documented limit of what can be told apart");
    let torn = opened.torn.unwrap();
    assert_eq!(
        (torn.offset, torn.why),
        (u64::from(last.synced_upto.offset()), record::Flaw::Checksum)
    );
}

#[test]
fn i4_every_way_of_tearing_the_last_batch_is_cut_and_erased() {
    let (base_disk, _) = sample();
    let before = contents(&base_disk);
    let name = &before.iter().rfind(|(name, _)| name.starts_with("log-")).unwrap().0;
    for torn_sectors in 0..64_u32 {
        let disk = Simulated::new();
        for (name, bytes) in &before {
            let bytes = bytes.as_ref().unwrap();
            let file = disk.create(name, bytes.len() as u64).unwrap();
            disk.write_at(&file, 0, bytes).unwrap();
        }
        let mut opened = open_it(&disk);
        let end = opened.log.end();
        for n in 0..6 {
            append(&mut opened, &[n; 400]);
        }
        let batch = &take_all(&mut opened.log)[0];
        // The batch has six sectors: each of them arrives, or does not.
        let file = disk.open(name).unwrap();
        for (n, sector) in batch.bytes.chunks(SECTOR).enumerate() {
            if torn_sectors & 1 << n != 0 {
                let at = batch.start.offset() as usize + n * SECTOR;
                disk.write_at(&file, at as u64, sector).unwrap();
            }
        }
        let opened = open_it(&disk);
        let n_whole = opened.log.end().0 - end.0;
        assert_eq!(n_whole == 6, torn_sectors == 63, "{torn_sectors:b}");
        let is_partial = !matches!(torn_sectors, 0 | 63);
        assert!(is_partial || opened.torn.is_none(), "{torn_sectors:b}");
        // Later sectors may hold no header; the first one does.
        let has_first = torn_sectors & 1 != 0;
        assert!(!(is_partial && has_first) || opened.torn.is_some(), "{torn_sectors:b}");
        let file = disk.contents(name).unwrap();
        let rest = &file[opened.writer.synced().offset() as usize..];
        assert!(rest.iter().all(|&byte| byte == 0), "{torn_sectors:b}: erased");
        // I5: erased, so a second opening has nothing to cut.
        let again = open_it(&disk);
        assert!(again.torn.is_none() && again.log.end() == opened.log.end());
    }
}

#[test]
fn an_intact_record_that_does_not_follow_the_one_before_it_is_no_record() {
    let disk = Simulated::new();
    let mut opened = open_it(&disk);
    append(&mut opened, b"first");
    commit(&mut opened).unwrap();
    append(&mut opened, b"second");
    let batch = &take_all(&mut opened.log)[0];
    // The batch looks as if it had been written behind another first entry, and not been erased
    // since.
    let mut stale = batch.bytes.clone();
    stale[32] ^= 1;
    record::seal(&mut stale, segment::salt(LOG));
    let file = disk.open(&segment::name(0)).unwrap();
    disk.write_at(&file, u64::from(batch.start.offset()), &stale).unwrap();
    let opened = open_it(&disk);
    assert_eq!(opened.log.end(), Slot(1));
    assert_eq!(opened.torn.unwrap().why, record::Flaw::Link);
}

#[test]
fn bytes_that_a_client_chose_are_no_records() {
    let disk = Simulated::new();
    let mut opened = open_it(&disk);
    append(&mut opened, b"first");
    commit(&mut opened).unwrap();
    // A record made by an attacker that knows everything except the salt, at just the right place:
    // it claims that everything before it was synced.
    let tail = opened.writer.synced();
    let inside = tail.plus(2 * record::HEADER as u32);
    let forged = Head {
        kind: Kind::Entry,
        total: record::HEADER as u32,
        payload: 0,
        position: inside,
        synced_upto: inside,
        link: 0,
        slot: Slot(2),
        ballot: Ballot(3),
        view: 1,
    };
    let mut payload = vec![0; record::HEADER];
    forged.put(&[], &mut payload);
    record::seal(&mut payload[record::HEADER..], segment::salt(LOG ^ 1));
    append(&mut opened, &payload);
    let batch = &take_all(&mut opened.log)[0];
    let mut torn = batch.bytes.clone();
    torn[0] ^= 1;
    let file = disk.open(&segment::name(0)).unwrap();
    disk.write_at(&file, u64::from(tail.offset()), &torn).unwrap();
    let opened = open_it(&disk);
    assert_eq!(opened.log.end(), Slot(1), "cut as torn, not taken for damage");
    // With the salt it would have been accepted: the checksum protects.
    let at = record::HEADER + record::HEADER;
    record::seal(&mut torn[at..at + record::HEADER], segment::salt(LOG));
    disk.write_at(&file, u64::from(tail.offset()), &torn).unwrap();
    assert!(matches!(open(&disk, &small(), LOG), Err(OpenError::Damaged(_))));
}

#[test]
fn i9_a_full_disk_shows_early_changes_nothing_and_goes_on_with_room() {
    let disk = Simulated::new();
    let mut opened = open_it(&disk);
    append(&mut opened, b"first");
    commit(&mut opened).unwrap();
    disk.set_faults(|faults| faults.capacity = Some(u64::from(Options::SEGMENT_MIN) + 100));
    let early = opened.writer.prepare();
    assert!(matches!(early, Err(WriteError::Full { .. })), "{early:?}");
    // The current segment still takes as much as fits.
    append(&mut opened, b"second");
    commit(&mut opened).unwrap();
    for n in 0..4 {
        append(&mut opened, &[n; 9000]);
    }
    let batches = take_all(&mut opened.log);
    assert!(batches.len() >= 2);
    opened.writer.write(&batches[0]).unwrap();
    opened.log.done(batches[0].end());
    for _ in 0..2 {
        let before = contents(&disk);
        let full = opened.writer.write(&batches[1]).unwrap_err();
        assert!(full.to_string().contains("a simulated disk is full"), "{full}");
        assert!(contents(&disk) == before, "I9: nothing is half done");
    }
    disk.set_faults(|faults| faults.capacity = None);
    for batch in &batches[1..] {
        opened.writer.write(batch).unwrap();
        opened.log.done(batch.end());
    }
    disk.power_cut(&mut Rng::new(1));
    assert_eq!(open_it(&disk).log.end(), Slot(6));
}

#[test]
fn i6_a_failed_sync_is_fatal_and_what_recovery_then_accepts_is_durable() {
    let disk = Simulated::new();
    let mut opened = open_it(&disk);
    append(&mut opened, b"first");
    commit(&mut opened).unwrap();
    append(&mut opened, b"second");
    disk.set_faults(|faults| faults.fail_sync_after = Some(0));
    let failed = commit(&mut opened).unwrap_err();
    assert!(matches!(failed, WriteError::Fatal { .. }), "{failed}");
    // The page cache shows the second entry, as if it were on disk.
    disk.process_crash();
    assert_eq!(open_it(&disk).log.end(), Slot(2));
    disk.power_cut(&mut Rng::new(1));
    assert_eq!(open_it(&disk).log.end(), Slot(2), "I6: what was accepted once stays");
}

#[test]
fn segments_are_given_back_and_reused_so_that_space_is_bounded() {
    let disk = Simulated::new();
    let mut opened = open_it(&disk);
    let mut n_files_max = 0;
    for n in 0..2000_u64 {
        append(&mut opened, &[n as u8; 500]);
        commit(&mut opened).unwrap();
        if n % 16 == 0 {
            opened.log.free_below(Slot(n.saturating_sub(20)));
            if let Some(oldest) = opened.log.take_release() {
                release(&mut opened, oldest);
            }
        }
        while opened.writer.prepare().unwrap() == Prepared::More {}
        n_files_max = n_files_max.max(disk.list().unwrap().len());
    }
    assert!(opened.writer.synced().segment() > 30);
    let n_most = 3 + SPARES.len();
    assert!(n_files_max <= n_most, "the old, the current, the next, and spares: {n_files_max}");
    disk.power_cut(&mut Rng::new(2));
    let mut opened = open_it(&disk);
    assert_eq!(opened.log.end(), Slot(2000));
    let mut payload = Vec::new();
    assert!(opened.log.read(Slot(1999), &mut payload).unwrap().is_some());
    assert_eq!(payload, [1999_u64 as u8; 500]);
}

#[test]
fn segments_that_are_freed_together_are_used_again_without_zeros() {
    let disk = Simulated::new();
    let mut opened = open_it(&disk);
    let spares = || disk.list().unwrap().into_iter().filter(|n| n.contains("spare")).count();
    let fill = |opened: &mut Opened<Simulated>, n_segments: u32| {
        let end = opened.writer.synced().segment() + n_segments;
        while opened.writer.synced().segment() < end {
            append(opened, &[7; 5000]);
            commit(opened).unwrap();
        }
    };
    fill(&mut opened, SPARES.len() as u32 + 2);
    opened.log.free_below(opened.log.end());
    let oldest = opened.log.take_release().expect("several segments");
    release(&mut opened, oldest);
    assert_eq!(spares(), SPARES.len(), "as many as there are names, and no more");
    let mut opened = open_it(&disk);
    for left in (0..SPARES.len()).rev() {
        assert_eq!(opened.writer.prepare().unwrap(), Prepared::Ready, "in one step");
        fill(&mut opened, 1);
        assert_eq!(spares(), left);
    }
    assert_eq!(opened.writer.prepare().unwrap(), Prepared::More, "a new one is made");
}

#[test]
fn a_batch_that_waits_for_a_segment_does_not_wait_for_zeros() {
    let disk = Simulated::new();
    let sizes = Options { segment_bytes: 8 << 20, unsynced_bytes: 8 << 20, ..small() };
    let mut opened = open(&disk, &sizes, LOG).expect("sound");
    // Of the first segment a step is made before, which does not count.
    assert_eq!(opened.writer.prepare().unwrap(), Prepared::More);
    assert_eq!(opened.writer.prepare().unwrap(), Prepared::More);
    append(&mut opened, b"waits");
    let before = disk.counts().1;
    commit(&mut opened).unwrap();
    assert_eq!(disk.counts().1 - before, 2, "its first block, and the batch");
    disk.power_cut(&mut Rng::new(3));
    let opened = open(&disk, &sizes, LOG).expect("sound");
    assert_eq!(opened.log.end(), Slot(1), "the rest of the segment reads as zeros");
}

#[test]
fn i8_metadata_outlives_the_segment_that_it_was_put_in() {
    let disk = Simulated::new();
    let mut opened = open_it(&disk);
    opened.log.put_meta(b"promised 9");
    for n in 0..200_u64 {
        append(&mut opened, &[n as u8; 500]);
    }
    commit(&mut opened).unwrap();
    opened.log.free_below(Slot(200));
    let oldest = opened.log.take_release().expect("several segments");
    release(&mut opened, oldest);
    disk.power_cut(&mut Rng::new(2));
    let opened = open_it(&disk);
    assert_eq!((opened.log.meta(), opened.log.end()), (&b"promised 9"[..], Slot(200)));
}

/// The metadata names 200 as the first slot that is needed; until it is durable the earlier slot
/// counts.
#[test]
fn i10_nothing_is_given_back_before_what_was_asked_earlier_is_durable() {
    let disk = Simulated::new();
    let mut opened = open_it(&disk);
    opened.log.put_meta(b"from 0");
    for n in 0..200_u64 {
        append(&mut opened, &[n as u8; 500]);
    }
    commit(&mut opened).unwrap();
    opened.log.put_meta(b"from 200");
    opened.log.free_below(Slot(200));
    assert_eq!(opened.log.take_release(), None, "a power cut now would take the metadata");
    commit(&mut opened).unwrap();
    assert!(opened.log.take_release().is_some());
}

#[test]
fn an_entry_that_is_too_long_and_a_backlog_are_refused() {
    let disk = Simulated::new();
    let mut opened = open_it(&disk);
    let max = small().payload_max();
    let long = opened.log.append(Slot(0), Ballot(1), 1, &vec![0; max + 1]);
    assert_eq!(long, Err(AppendError::TooLong { bytes: max + 1, max }));
    opened.log.put_meta(&[1; META_MAX]);
    let mut n = 0;
    while opened.log.append(Slot(n), Ballot(1), 1, &vec![0; max]).is_ok() {
        n += 1;
    }
    assert!(n as usize * max <= small().unsynced_bytes && n > 10);
    commit(&mut opened).unwrap();
    assert_eq!(opened.log.n_unsynced(), 0);
    append(&mut opened, b"again");
    disk.power_cut(&mut Rng::new(1));
    assert_eq!(open_it(&disk).log.end(), Slot(n), "the longest entries are there");
}

#[test]
fn damage_of_an_entry_is_found_when_it_is_read_too() {
    let (disk, heads) = sample();
    let mut opened = open_it(&disk);
    let entry = heads.iter().find(|head| head.kind == Kind::Entry && head.payload > 8).unwrap();
    let byte = u64::from(entry.position.offset()) + record::HEADER as u64;
    disk.flip(&segment::name(entry.position.segment()), byte * 8);
    let Err(ReadError::Damaged(damage)) = opened.log.read(entry.slot, &mut Vec::new()) else {
        panic!("the entry is damaged");
    };
    assert_eq!((damage.slot, damage.offset), (entry.slot, u64::from(entry.position.offset())));
    assert!(damage.to_string().contains("checksum"), "{damage}");
}

#[test]
fn what_is_not_read_for_want_of_a_descriptor_is_not_called_damaged() {
    let (disk, heads) = sample();
    let mut opened = open_it(&disk);
    let entries: Vec<&Head> = heads.iter().filter(|head| head.kind == Kind::Entry).collect();
    let (first, last) = (entries[0], entries[entries.len() - 1]);
    assert_ne!(first.position.segment(), last.position.segment());
    let one_too_few = || disk.set_faults(|faults| faults.n_not_opened = 1);
    let mut payload = Vec::new();
    one_too_few();
    let error = opened.log.read(first.slot, &mut payload).unwrap_err();
    assert!(matches!(error, ReadError::Io { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("Too many open files") && !said.contains("Replace"), "{said}");
    assert!(opened.log.read(first.slot, &mut payload).unwrap().is_some(), "nothing was changed");
    // A descriptor that another segment had is given back for it.
    one_too_few();
    assert!(opened.log.read(last.slot, &mut payload).unwrap().is_some());
    assert_eq!(payload.len(), last.payload as usize);
    disk.remove(&segment::name(first.position.segment())).unwrap();
    let gone = opened.log.read(first.slot, &mut payload);
    assert!(matches!(gone, Err(ReadError::Damaged(_))), "a segment that is gone is: {gone:?}");
}

#[test]
fn i9_a_segment_for_which_no_descriptor_is_left_is_made_later() {
    let disk = Simulated::new();
    let mut opened = open_it(&disk);
    // The first segments are new ones, the last ones spares.
    for n in 0..200_u64 {
        append(&mut opened, &[n as u8; 5000]);
        if opened.writer.wants_preparation() {
            disk.set_faults(|faults| faults.n_not_opened = 1);
            let refused = opened.writer.prepare().unwrap_err();
            assert!(refused.passes(), "{refused}");
            assert!(refused.to_string().contains("raise the limit of open files"), "{refused}");
        }
        commit(&mut opened).unwrap();
        opened.log.free_below(Slot(n.saturating_sub(20)));
        if let Some(oldest) = opened.log.take_release() {
            disk.set_faults(|faults| faults.n_not_opened = n % 2);
            release(&mut opened, oldest);
            disk.set_faults(|faults| faults.n_not_opened = 0);
        }
    }
    let names = disk.list().unwrap();
    assert!(!names.contains(&segment::name(0)) && names.len() <= 6 + SPARES.len(), "{names:?}");
    disk.power_cut(&mut Rng::new(3));
    assert_eq!(open_it(&disk).log.end(), Slot(200));
}

/// A file system that copies on write needs room for the first block of a file that it allocated.
#[test]
fn i9_a_segment_whose_bytes_find_no_room_is_made_later() {
    let disk = Simulated::new();
    let mut opened = open_it(&disk);
    let (mut n_steps, mut n_refused) = (0, 0);
    // The first segments are new ones, the last ones spares.
    for n in 0..200_u64 {
        append(&mut opened, &[n as u8; 5000]);
        while opened.writer.wants_preparation() {
            n_steps += 1;
            disk.set_faults(|faults| faults.n_not_written = 1);
            if let Err(refused) = opened.writer.prepare() {
                assert!(matches!(refused, WriteError::Full { .. }), "{refused}");
                n_refused += 1;
            }
            disk.set_faults(|faults| faults.n_not_written = 0);
            opened.writer.prepare().unwrap();
        }
        commit(&mut opened).unwrap();
        opened.log.free_below(Slot(n.saturating_sub(20)));
        if let Some(oldest) = opened.log.take_release() {
            release(&mut opened, oldest);
        }
    }
    assert!(n_refused > 20 && n_refused <= n_steps, "{n_refused} of {n_steps}");
    let names = disk.list().unwrap();
    assert!(!names.contains(&segment::name(0)) && names.len() <= 6 + SPARES.len(), "{names:?}");
    disk.power_cut(&mut Rng::new(3));
    assert_eq!(open_it(&disk).log.end(), Slot(200));
}

#[test]
fn files_of_any_bytes_and_lengths_are_opened_or_refused_without_a_panic() {
    let (sample, _) = sample();
    let (mut n_opened, mut n_refused) = (0, 0);
    for seed in 0..400 {
        let (disk, mut rng) = (Simulated::new(), Rng::new(seed));
        for (name, bytes) in contents(&sample) {
            let mut bytes = bytes.unwrap();
            for _ in 0..rng.below(3) {
                let at = rng.below(bytes.len() as u64) as usize;
                let len = rng.range(1, 64).min((bytes.len() - at) as u64) as usize;
                match rng.below(4) {
                    0 => bytes[at..at + len].fill(0),
                    1 => bytes.truncate(at),
                    2 => bytes.copy_within(..len, at),
                    _ => bytes[at] = rng.next_u64() as u8,
                }
            }
            if rng.chance(9, 10) {
                let file = disk.create(&name, bytes.len() as u64).unwrap();
                disk.write_at(&file, 0, &bytes).unwrap();
            }
        }
        match open(&disk, &small(), LOG) {
            Ok(mut opened) => {
                n_opened += 1;
                append(&mut opened, b"it goes on");
                commit(&mut opened).unwrap();
                let end = opened.log.end();
                assert_eq!(open_it(&disk).log.end(), end);
            }
            Err(OpenError::Damaged(_)) => n_refused += 1,
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
    assert!(n_opened > 0 && n_refused > 0);
}

#[test]
fn sizes_that_do_not_fit_together_are_refused() {
    for options in [
        Options { align: 100, ..small() },
        Options { align: 8192, ..small() },
        Options { segment_bytes: 1000, ..small() },
        Options { segment_bytes: Options::SEGMENT_MIN + 1, ..small() },
        Options { unsynced_bytes: 10, ..small() },
    ] {
        let refused = open(&Simulated::new(), &options, LOG).unwrap_err();
        assert!(matches!(refused, OpenError::Options(_)), "{refused}");
    }
    assert!(Position::new(1, 0) > Position::new(0, u32::MAX));
}
