//! One file of each format version, as bytes: written and read today as when it was recorded.
//!
//! `UPDATE=1 cargo test -p gregale-storage golden` writes them again, which is right only together
//! with a new format version.

use crate::directory::{self, Identity};
use crate::log::{self, Options};
use crate::media::{Media as _, Simulated};
use crate::snapshot::{self, Snapshot, SnapshotWriter};
use base::{Ballot, Incarnation, NodeId, Slot};
use std::fmt::Write as _;
use std::path::PathBuf;

const LOG: u64 = 0x0123_4567_89ab_cdef;

/// Bytes as text: the length, then lines of 32 bytes; `*` for repeated lines.
fn dump(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes\n", bytes.len());
    let (mut last, mut is_repeated) = (&[][..], false);
    for (n, line) in bytes.chunks(32).enumerate() {
        if line == last {
            text.push_str(if is_repeated { "" } else { "*\n" });
            is_repeated = true;
            continue;
        }
        write!(text, "{:08x} ", n * 32).unwrap();
        line.iter().for_each(|byte| write!(text, " {byte:02x}").unwrap());
        text.push('\n');
        (last, is_repeated) = (line, false);
    }
    text
}

fn undump(text: &str) -> Vec<u8> {
    let (first, lines) = text.split_once('\n').unwrap();
    let len: usize = first.strip_suffix(" bytes").unwrap().parse().unwrap();
    let mut bytes: Vec<u8> = Vec::new();
    for line in lines.lines().filter(|line| *line != "*") {
        let (at, words) = line.split_once("  ").unwrap();
        repeat_to(&mut bytes, usize::from_str_radix(at, 16).unwrap());
        bytes.extend(words.split(' ').map(|word| u8::from_str_radix(word, 16).unwrap()));
    }
    repeat_to(&mut bytes, len);
    bytes
}

/// Repeats the last line up to `len` bytes.
fn repeat_to(bytes: &mut Vec<u8>, len: usize) {
    while bytes.len() < len {
        bytes.extend_from_within(bytes.len() - 32..);
    }
}

/// Compares with the recorded bytes, and returns those.
fn golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "golden", name].iter().collect();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, dump(bytes)).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    assert_eq!(dump(bytes), recorded, "{name}: the bytes of a published format have changed");
    undump(&recorded)
}

fn options() -> Options {
    Options {
        segment_bytes: Options::SEGMENT_MIN,
        unsynced_bytes: 1 << 20,
        cache_bytes: 0,
        ..Options::default()
    }
}

#[test]
fn golden_log_of_version_1() {
    let disk = Simulated::new();
    let mut opened = log::open(&disk, &options(), LOG).unwrap();
    let log = &mut opened.log;
    let mut commit = |log: &mut log::Log<Simulated>| {
        log.sync();
        while let Some(batch) = log.take() {
            opened.writer.write(&batch).unwrap();
            log.done(batch.end());
        }
    };
    log.put_meta(b"promised 17");
    log.append(Slot(0), Ballot(17), 1, b"zero").unwrap();
    log.append(Slot(1), Ballot(17), 1, b"one").unwrap();
    commit(log);
    log.cut(Slot(1));
    log.append(Slot(1), Ballot(26), 2, b"another one").unwrap();
    commit(log);
    log.free_below(Slot(1000));
    log.append(Slot(1000), Ballot(26), 2, &[7; 23_000]).unwrap();
    // The entry does not fit: it seals the segment and begins the next one.
    log.append(Slot(1001), Ballot(26), 2, &[8; 8000]).unwrap();
    commit(log);

    let disk = Simulated::new();
    for n in [0, 1] {
        let name = log::segment::name(n);
        let written = opened.log.media().contents(&name).unwrap();
        let bytes = golden(&format!("{name}.v1.txt"), &written);
        let file = disk.create(&name, bytes.len() as u64).unwrap();
        disk.write_at(&file, 0, &bytes).unwrap();
    }
    let mut read = log::open(&disk, &options(), LOG).unwrap();
    assert!(read.torn.is_none());
    let log = &mut read.log;
    assert_eq!((log.start(), log.end(), log.meta()), (Slot(1000), Slot(1002), &b"promised 17"[..]));
    let mut payload = Vec::new();
    let head = log.read(Slot(1001), &mut payload).unwrap().unwrap();
    assert_eq!((head.ballot, head.view, &payload[..]), (Ballot(26), 2, &[8; 8000][..]));
}

#[test]
fn golden_snapshot_of_version_1() {
    let disk = Simulated::new();
    let mut writer = SnapshotWriter::create(&disk, LOG, Slot(12), b"ballot 17").unwrap();
    let state: Vec<u8> =
        (0..snapshot::CHUNK + 100).map(|n| if n % 4096 < 9 { 5 } else { 0 }).collect();
    writer.write(&state).unwrap();
    writer.finish().unwrap();
    let name = snapshot::name(Slot(12));
    let bytes = golden(&format!("{name}.v1.txt"), &disk.contents(&name).unwrap());
    let disk = Simulated::new();
    let file = disk.create(&name, bytes.len() as u64).unwrap();
    disk.write_at(&file, 0, &bytes).unwrap();
    let read = Snapshot::open(&disk, Slot(12)).unwrap();
    read.verify().unwrap();
    let mut found = Vec::new();
    (0..read.n_chunks()).for_each(|n| read.read_chunk(n, &mut found).unwrap());
    assert!(found == state);
    assert_eq!((read.note(), read.log()), (&b"ballot 17"[..], LOG));
}

#[test]
fn golden_identity_of_version_1() {
    let identity = Identity { cluster: 0xfeed, node: NodeId(3), incarnation: Incarnation(2) };
    let bytes = golden("identity.v1.txt", &directory::encode(&identity, LOG));
    assert_eq!(directory::decode(&bytes).unwrap(), (identity, LOG));
}
