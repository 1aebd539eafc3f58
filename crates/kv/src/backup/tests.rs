//! Tests of backups.

use super::*;
use crate::entry::command::put_plain;
use crate::entry::{BatchWriter, Origin, Sequence};
use crate::reply::Protocol;
use base::{Incarnation, Rank, Slot};
use proptest::prelude::*;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/backup/golden-v1.bin");

type Content = Vec<(Vec<u8>, Vec<u8>, Option<u64>)>;

fn machine(lines: &[String]) -> Machine {
    let mut machine = Machine::new(0);
    let mut writer = BatchWriter::new();
    for (at, line) in (0u64..).zip(lines) {
        let origin = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };
        let (mut command, mut value) = (Vec::new(), Vec::new());
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        put_plain(&args, Protocol::Resp2, &mut command);
        writer.begin(1_700_000_000_000, &mut value);
        writer.append(origin, Sequence(at + 1), &command, 1 << 20, &mut value);
        machine.apply(Slot(at), &value, &mut |_, _, _| {}).unwrap();
    }
    machine
}

fn bytes_of(machine: &Machine) -> Vec<u8> {
    let frozen = Frozen::of(machine);
    (0..frozen.n_pieces()).flat_map(|n| frozen.piece(n).unwrap().to_vec()).collect()
}

fn read(bytes: &[u8], step: usize) -> Result<(Content, Summary), BackupError> {
    let (mut reader, mut content) = (Reader::new(), Vec::new());
    for piece in bytes.chunks(step) {
        reader.feed(piece, &mut |entry: Entry<'_>| {
            content.push((entry.key.to_vec(), entry.value.to_vec(), entry.expire_at_ms));
        })?;
    }
    reader.finish().map(|summary| (content, summary))
}

fn small() -> Machine {
    machine(&[
        "SET a 1".into(),
        "SET empty x".into(),
        "SETRANGE long 200 y".into(),
        "SET due soon PXAT 1700000100000".into(),
        "DEL a".into(),
    ])
}

#[test]
fn what_is_read_is_what_was_there() {
    let lines: Vec<String> = (0..3000)
        .map(|n| format!("SET key:{n} {}", "v".repeat(n % 300)))
        .chain(
            (0..3000).step_by(7).map(|n| format!("PEXPIREAT key:{n} {}", 1_700_000_500_000u64 + n)),
        )
        .collect();
    let machine = machine(&lines);
    let bytes = bytes_of(&machine);
    let frozen = Frozen::of(&machine);
    assert!(frozen.n_pieces() > 4, "several frames of entries");
    for step in [1, 1000, bytes.len()] {
        let (mut content, summary) = read(&bytes, step).unwrap();
        assert_eq!((summary.n_entries, summary.prefix.0), (3000, lines.len() as u64));
        assert_eq!(summary.n_file_bytes, bytes.len() as u64);
        let entries = machine.store().entries();
        let mut expected: Content =
            entries.map(|e| (e.key.to_vec(), e.value.to_vec(), e.expire_at_ms)).collect();
        content.sort();
        expected.sort();
        assert_eq!(content, expected);
    }
    assert_eq!(read(&bytes_of(&Machine::new(0)), 9).unwrap().1.n_entries, 0);
}

#[test]
fn the_format_is_the_one_that_was_published() {
    let bytes = bytes_of(&small());
    if std::env::var_os("GREGALE_BLESS").is_some() {
        std::fs::write(GOLDEN, &bytes).unwrap();
    }
    let golden = std::fs::read(GOLDEN).unwrap();
    assert_eq!(bytes, golden, "another format needs another version");
    let (content, _) = read(&golden, 7).unwrap();
    assert!(content.contains(&(b"due".to_vec(), b"soon".to_vec(), Some(1_700_000_100_000))));
    assert_eq!(content.len(), 3);
}

#[test]
fn b4_another_version_is_named() {
    let mut bytes = bytes_of(&small());
    bytes[8] = 3;
    assert_eq!(read(&bytes, 5), Err(BackupError::Version { found: 3 }));
}

#[test]
fn b4_any_end_is_too_early_and_nothing_may_follow() {
    let bytes = bytes_of(&small());
    for end in 0..bytes.len() {
        assert_eq!(read(&bytes[..end], 64), Err(BackupError::CutOff { offset: end as u64 }));
    }
    let longer = [&bytes[..], b"x"].concat();
    assert_eq!(read(&longer, 64), Err(BackupError::Trailing { offset: bytes.len() as u64 }));
}

proptest! {
    #[test]
    fn b4_a_flipped_bit_is_noticed(at in 0usize..1 << 16, bit in 0u32..8) {
        let mut bytes = bytes_of(&small());
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        prop_assert!(read(&bytes, 64).is_err());
    }

    #[test]
    fn b4_any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let forged = [&MAGIC[..], &VERSION.to_le_bytes(), &bytes].concat();
        prop_assert!(read(&bytes, 7).is_err() && read(&forged, 7).is_err());
        let _ = Request::decode(&[&[REQUEST][..], &bytes].concat());
    }
}

#[test]
fn pieces_are_given_back_in_order() {
    let mut frozen = Frozen::of(&small());
    frozen.release_below(1);
    assert!(frozen.piece(0).is_none() && frozen.piece(1).is_some());
    frozen.release_below(99);
    assert!((0..99).all(|n| frozen.piece(n).is_none()));
}

#[test]
fn requests_arrive_as_they_were_made() {
    let words: [&[&[u8]]; 3] = [
        &[b"gregale.backup", b"BEGIN", b"t"],
        &[b"gregale.backup", b"piece", b"t", b"300"],
        &[b"gregale.backup", b"End", b"t"],
    ];
    let expected = [Request::Begin(b"t"), Request::Piece(b"t", 300), Request::End(b"t")];
    for (words, expected) in words.into_iter().zip(expected) {
        let request = Request::parse(words).unwrap();
        assert_eq!(request, expected);
        let mut bytes = Vec::new();
        request.put(&mut bytes);
        assert_eq!(Request::decode(&bytes), Some(expected));
        assert!(crate::entry::Command::decode(&bytes).is_err(), "no command looks like it");
    }
    for wrong in [&[&b"gregale.backup"[..]][..], &[b"gregale.backup", b"begin"]] {
        assert_eq!(Request::parse(wrong), None);
    }
    assert_eq!(Request::parse(&[b"gregale.backup", b"begin", &[b'x'; 65]]), None);
}

#[test]
fn databases_are_told_apart_and_one_alone_has_the_old_bytes() {
    let lines = ["SET k zero", "COPY k k DB 9", "SET k one", "COPY k k DB 3", "SET k other"];
    let machine = machine(&lines.map(String::from));
    let bytes = bytes_of(&machine);
    assert_eq!(bytes[8], 2, "databases came with version 2");
    for step in [1, 7, 1 << 20] {
        let (mut reader, mut content) = (Reader::new(), Vec::new());
        for piece in bytes.chunks(step) {
            let mut show = |entry: Entry<'_>| {
                content
                    .push((entry.db.number(), String::from_utf8_lossy(entry.value).into_owned()));
            };
            reader.feed(piece, &mut show).unwrap();
        }
        assert_eq!(reader.finish().unwrap().n_entries, 3);
        let expected = [(0, "other"), (3, "one"), (9, "zero")];
        assert_eq!(content, expected.map(|(db, value)| (db, value.to_owned())));
    }
    // A frame of a database that does not exist, or of database 0, which has another kind.
    let frame = bytes.windows(6).position(|six| six[4] == DATABASE && six[5] == 3).unwrap();
    for number in [0, 16] {
        let mut bad = bytes.clone();
        bad[frame + 5] = number;
        let mut check = 0;
        let mut at = START_BYTES;
        while at < bad.len() {
            let len = u32::from_le_bytes(bad[at..at + 4].try_into().unwrap()) as usize;
            let end = at + HEAD_BYTES + len;
            check = xxh3_64_with_seed(&bad[at..end], check);
            bad[end..end + CHECK_BYTES].copy_from_slice(&check.to_le_bytes());
            at = end + CHECK_BYTES;
        }
        assert_eq!(read(&bad, 9), Err(BackupError::Damaged { offset: frame as u64 }));
    }
}
