//! Tests of snapshots.

use base::{Incarnation, Rank, Rng, Slot};
use proptest::prelude::*;

use super::*;
use crate::client_sessions::{CallNumber, REPLY_BYTES_MAX};
use crate::entry::command::put_plain;
use crate::entry::{BatchWriter, Origin, Sequence, SessionCommand};
use crate::reply::Protocol;

const GOLDEN_1: &[u8] = include_bytes!("golden-v1.bin");
const GOLDEN_4: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/snapshot/golden-v4.bin");
const GOLDEN_3: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/snapshot/golden-v3.bin");
const GOLDEN_2: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/snapshot/golden-v2.bin");

/// A machine with every kind of content: keys, expiries, deletions, two lives, short, long and
/// forgotten replies, and the beginning of a command in fragments.
fn machine(seed: u64, n_keys: u64, value_bytes: u64) -> Machine {
    machine_with(seed, n_keys, value_bytes, 100_000)
}

fn machine_with(seed: u64, n_keys: u64, value_bytes: u64, long_bytes: usize) -> Machine {
    let mut rng = Rng::new(seed);
    let mut machine = Machine::new(0);
    let (mut slot, mut value) = (Slot::ZERO, Vec::new());
    let mut writer = BatchWriter::new();
    let mut call = |rank: usize, life: u64, sequence: u64, line: &str, bytes_max: usize| {
        let origin = Origin { rank: Rank::at(rank), incarnation: Incarnation(life) };
        let (mut command, args) = (Vec::new(), line.split(' ').map(str::as_bytes));
        put_plain(&args.collect::<Vec<_>>(), Protocol::Resp2, &mut command);
        value.clear();
        writer.begin(1_700_000_000_000, &mut value);
        writer.append(origin, Sequence(sequence), &command, bytes_max, &mut value);
        writer.abandon();
        machine.apply(slot, &value, &mut |_, _, _| {}).unwrap();
        slot = slot.next();
    };
    for number in 0..n_keys {
        let bytes = "x".repeat(rng.below(value_bytes) as usize);
        call(0, 7, number + 1, &format!("SET key:{number} {bytes}"), 1 << 20);
        if rng.chance(1, 3) {
            let at = 1_700_000_000_000 + rng.below(1 << 40) + 1;
            call(1, 2, number + 1, &format!("PEXPIREAT key:{number} {at}"), 1 << 20);
        }
    }
    call(2, 1, 5, "SET gone x", 4096);
    call(2, 1, 6, "GETDEL gone", 4096);
    call(2, 1, 9, &format!("SETRANGE long 0 {}", "y".repeat(long_bytes)), 1 << 20);
    call(2, 1, 10, "GETRANGE long 0 40000", 4096);
    call(2, 1, 11, "GETRANGE long 0 -1", 4096);
    call(4, 1, 1, &format!("SET pieces {}", "z".repeat(5000)), 4096);
    machine
}

fn bytes_of(machine: &Machine) -> Vec<u8> {
    let mut bytes = Vec::new();
    save(machine, &mut bytes);
    bytes
}

#[test]
fn p6_written_beside_is_written_at_once() {
    for seed in 0..12 {
        let mut machine = machine(seed, 900, 1200);
        open_sessions(&mut machine);
        let expected = bytes_of(&machine);
        let mut rng = Rng::new(seed);
        let mut beside = Beside::begin(&mut machine);
        let (mut bytes, mut n_chunks) = (Vec::new(), 1);
        while beside.chunk(&mut machine, 64 << 10, &mut bytes).expect("nobody began another") {
            n_chunks += 1;
            for _ in 0..rng.below(60) {
                let number = rng.below(1200);
                let line = match rng.below(4) {
                    0 => format!("DEL key:{number}"),
                    1 => format!("APPEND key:{number} and-more"),
                    2 => format!("PERSIST key:{number}"),
                    _ => format!("SET key:{number} other"),
                };
                apply_plain(&mut machine, &line);
            }
        }
        assert!(n_chunks > 6, "{n_chunks} chunks");
        assert!(bytes == expected, "P6: seed {seed}");
        assert_ne!(bytes_of(&machine), expected, "it has gone on");
        assert_eq!(beside.chunk(&mut machine, 64 << 10, &mut bytes), Ok(false));
    }
}

#[test]
fn p6_a_snapshot_of_another_machine_is_not_completed() {
    let mut one = machine(1, 300, 2000);
    let mut beside = Beside::begin(&mut one);
    let mut bytes = Vec::new();
    beside.chunk(&mut one, 64 << 10, &mut bytes).unwrap();
    let mut installed = restore(&bytes_of(&one), 0).unwrap();
    let end = loop {
        match beside.chunk(&mut installed, 64 << 10, &mut bytes) {
            Ok(more) => assert!(more, "it must not come to its end"),
            Err(changed) => break changed,
        }
    };
    assert_eq!(end, Changed);
}

/// Applies one more command, in the next slot.
fn apply_plain(machine: &mut Machine, line: &str) {
    let args: Vec<_> = line.split(' ').map(str::as_bytes).collect();
    apply_args(machine, &args);
}

fn apply_args(machine: &mut Machine, args: &[&[u8]]) {
    let prefix = machine.prefix();
    let origin = Origin { rank: Rank::at(5), incarnation: Incarnation(1) };
    let (mut command, mut value, mut writer) = (Vec::new(), Vec::new(), BatchWriter::new());
    put_plain(args, Protocol::Resp2, &mut command);
    writer.begin(1_700_000_000_000, &mut value);
    writer.append(origin, Sequence(prefix.0), &command, 1 << 20, &mut value);
    machine.apply(prefix.next_slot(), &value, &mut |_, _, _| {}).unwrap();
}

/// Recomputes the checks after the chunks' bytes have been tampered with.
fn reseal(bytes: &mut [u8]) {
    let (mut at, mut check) = (12, 0);
    while at < bytes.len() {
        let len = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let end = at + CHUNK_HEAD_BYTES + len;
        check = check_of(&bytes[at..end], check);
        bytes[end..end + 8].copy_from_slice(&check.to_le_bytes());
        at = end + 8;
    }
}

/// Two sessions of clients, with short, long and forgotten replies; one has acknowledged some.
fn open_sessions(machine: &mut Machine) {
    let mut value = Vec::new();
    let mut sequence = 0;
    let mut apply = |machine: &mut Machine, command: SessionCommand<'_>| {
        let (mut bytes, mut writer) = (Vec::new(), BatchWriter::new());
        command.put(&mut bytes);
        sequence += 1;
        value.clear();
        writer.begin(1_700_000_000_000 + sequence, &mut value);
        let origin = Origin { rank: Rank::at(5), incarnation: Incarnation(1) };
        writer.append(origin, Sequence(sequence), &bytes, 1 << 20, &mut value);
        machine.apply(machine.prefix().next_slot(), &value, &mut |_, _, _| {}).unwrap();
        machine.client_sessions().issued()
    };
    let id = apply(machine, SessionCommand::Open);
    apply(machine, SessionCommand::Open);
    let long = "z".repeat(REPLY_BYTES_MAX);
    for (number, acknowledged, line) in [
        (1, 0, "INCR calls".to_owned()),
        (2, 0, "INCR calls".to_owned()),
        (3, 1, format!("SET calls {long}")),
        (4, 0, "GETDEL calls".to_owned()),
        (5, 0, "SET calls text GET".to_owned()),
        (6, 0, "APPEND calls x".to_owned()),
    ] {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut command = Vec::new();
        put_plain(&args, Protocol::Resp2, &mut command);
        let (number, acknowledged) = (CallNumber(number), CallNumber(acknowledged));
        apply(machine, SessionCommand::Call { id, number, acknowledged, command: &command });
    }
}

#[test]
fn golden_bytes_of_version_1_are_read() {
    // A state without client sessions differs only in the version.
    let machine = machine_with(1, 20, 60, 50);
    let bytes = bytes_of(&machine);
    assert!(bytes[12..] == GOLDEN_1[12..]);
    assert_eq!(restore(GOLDEN_1, 0).unwrap().digest(), machine.digest());
}

#[test]
fn golden_bytes_of_version_2_are_written_and_read() {
    let mut machine = machine_with(1, 5, 60, 50);
    open_sessions(&mut machine);
    let bytes = bytes_of(&machine);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(GOLDEN_2, &bytes).unwrap();
    }
    let golden = std::fs::read(GOLDEN_2).unwrap();
    assert!(bytes == golden, "the format has changed: raise VERSION and keep reading the old one");
    assert_eq!(restore(&golden, 0).unwrap().digest(), machine.digest());
}

#[test]
fn p2_no_chunk_is_longer_than_the_bound() {
    let machine = machine(3, 40, 500_000);
    let mut saver = Saver::new(&machine);
    let mut installer = Installer::new(0);
    let (mut chunk, mut n_chunks) = (Vec::new(), 0);
    loop {
        let more = saver.chunk(&machine, &mut chunk).unwrap();
        assert!(chunk.len() <= CHUNK_BYTES_MAX + 25);
        installer.feed(&chunk).unwrap();
        assert!(installer.buffer.is_empty(), "a chunk is used up when it is there");
        chunk.clear();
        n_chunks += 1;
        if !more {
            break;
        }
    }
    assert!(n_chunks > 20, "{n_chunks}");
    assert_eq!(saver.chunk(&machine, &mut chunk), Ok(false), "and nothing follows");
    assert!(chunk.is_empty());
    assert_eq!(installer.finish().unwrap().digest(), machine.digest());
}

#[test]
fn p7_reading_in_small_steps_gives_the_same_and_no_step_reads_more() {
    let machine = machine(5, 300, 700);
    let bytes = bytes_of(&machine);
    for (n_max, piece_bytes) in [(1, 50_000), (7, 1 << 20), (64, 999)] {
        let mut installer = Installer::new(0);
        let mut n_steps = 0;
        for mut piece in bytes.chunks(piece_bytes) {
            loop {
                let before = installer.n_entries();
                let more = installer.feed_some(piece, n_max).unwrap();
                assert!(installer.n_entries() - before <= n_max, "P7");
                n_steps += 1;
                piece = &[];
                if !more {
                    break;
                }
            }
        }
        assert!(n_steps > machine.store().len() / n_max, "{n_steps} steps of {n_max}");
        assert_eq!(installer.finish().unwrap().digest(), machine.digest());
    }
}

#[test]
fn p7_damage_is_noticed_before_the_chunk_is_read() {
    let bytes = bytes_of(&machine(6, 200, 700));
    let mut damaged = bytes.clone();
    let at = bytes.len() / 2;
    damaged[at] ^= 4;
    let mut installer = Installer::new(0);
    let mut piece = &damaged[..];
    let error = loop {
        match installer.feed_some(piece, 10) {
            Ok(more) => assert!(more, "it ends although it is damaged"),
            Err(error) => break error,
        }
        piece = &[];
    };
    assert!(matches!(error, SnapshotError::Check { .. }), "{error}");
    assert_eq!(installer.feed_some(&[], 10), Err(error), "and that is final");
    assert!(installer.finish().is_err(), "P4");
}

#[test]
fn a_machine_that_moves_on_is_noticed() {
    let mut machine = machine(4, 20, 10);
    let mut saver = Saver::new(&machine);
    let mut out = Vec::new();
    assert_eq!(saver.chunk(&machine, &mut out), Ok(true));
    machine.apply(machine.prefix().next_slot(), b"", &mut |_, _, _| {}).unwrap();
    let len = out.len();
    assert_eq!(saver.chunk(&machine, &mut out), Err(Changed));
    assert_eq!(out.len(), len);
}

#[test]
fn p4_p5_each_malformation_has_its_name() {
    let bytes = bytes_of(&machine(5, 3, 10));
    let error = |bytes: &[u8]| restore(bytes, 0).map(|_| ()).unwrap_err();
    assert_eq!(error(b""), SnapshotError::Truncated);
    assert_eq!(error(b"grega"), SnapshotError::Truncated);
    assert_eq!(error(b"REDIS0011 and so on"), SnapshotError::NotASnapshot);
    assert_eq!(error(b"RE"), SnapshotError::NotASnapshot);
    let mut newer = bytes.clone();
    newer[8] = VERSION as u8 + 1;
    assert_eq!(error(&newer), SnapshotError::Version { found: VERSION + 1 });
    assert_eq!(error(&[&bytes[..], b"x"].concat()), SnapshotError::Trailing);
    let mut long = bytes.clone();
    long[15] = 0xff;
    assert_eq!(error(&long), SnapshotError::Check { chunk: 0 });
    assert_eq!(
        restore(&bytes, 9).map(|_| ()).unwrap_err(),
        SnapshotError::MemoryLimit { theirs: 0, ours: 9 }
    );
    // Chunks out of place, and wrong bytes with recomputed checks.
    let head_end = 12 + CHUNK_HEAD_BYTES + 32 + CHECK_BYTES;
    let (head, tail) = bytes.split_at(head_end);
    assert_eq!(error(&[head, &head[12..]].concat()), SnapshotError::Check { chunk: 1 });
    let mut twice = [head, &head[12..]].concat();
    reseal(&mut twice);
    assert_eq!(error(&twice), SnapshotError::Malformed { chunk: 1 });
    let mut headless = [&head[..12], tail].concat();
    reseal(&mut headless);
    assert_eq!(error(&headless), SnapshotError::Malformed { chunk: 0 });
    let mut kind = bytes.clone();
    kind[16] = 99;
    reseal(&mut kind);
    assert_eq!(error(&kind), SnapshotError::Malformed { chunk: 0 });
    let mut count = bytes.clone();
    let at = count.len() - CHECK_BYTES - 8;
    count[at] += 1;
    reseal(&mut count);
    assert!(matches!(error(&count), SnapshotError::Malformed { .. }));
    // An error is final.
    let mut installer = Installer::new(0);
    assert!(installer.feed(b"nonsense").is_err());
    assert_eq!(installer.feed(&bytes), Err(SnapshotError::NotASnapshot));
    assert_eq!(installer.finish().map(|_| ()).unwrap_err(), SnapshotError::NotASnapshot);
}

#[test]
fn an_empty_machine_has_a_snapshot() {
    let machine = Machine::new(77);
    let restored = restore(&bytes_of(&machine), 77).unwrap();
    assert_eq!(restored.digest(), machine.digest());
    assert_eq!(restored.store().memory_bytes_max(), 77);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn p1_p3_a_restored_machine_is_the_same(
        seed: u64,
        n_keys in 0..300u64,
        pieces in prop::collection::vec(1..5000usize, 1..20),
    ) {
        let mut machine = machine(seed, n_keys, 2000);
        if seed & 1 == 1 {
            open_sessions(&mut machine);
        }
        let bytes = bytes_of(&machine);
        let mut installer = Installer::new(0);
        let (mut rest, mut pieces) = (&bytes[..], pieces.iter().cycle());
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at((*pieces.next().unwrap()).min(rest.len()));
            installer.feed(piece).unwrap();
            rest = tail;
        }
        let restored = installer.finish().unwrap();
        restored.store().check();
        prop_assert_eq!(restored.digest(), machine.digest());
        prop_assert_eq!(bytes_of(&restored), bytes, "P1");
        prop_assert_eq!(restored.prefix(), machine.prefix());
    }

    #[test]
    fn p5_a_flipped_bit_is_noticed(at in 0.0..1.0f64, bit in 0..8u32) {
        let mut machine = machine(6, 50, 100);
        open_sessions(&mut machine);
        let intact = bytes_of(&machine);
        let mut bytes = intact.clone();
        let at = (at * bytes.len() as f64) as usize;
        bytes[at] ^= 1 << bit;
        prop_assert!(restore(&bytes, 0).is_err());
        // Nothing panics even if the checks are made to fit the flipped bit.
        let is_payload = at >= 17 && at < bytes.len() - CHECK_BYTES;
        if is_payload && lengths(&intact) == lengths(&bytes) {
            reseal(&mut bytes);
            drop(restore(&bytes, 0));
        }
    }

    #[test]
    fn p5_any_end_is_too_early(end in 0.0..1.0f64) {
        let bytes = bytes_of(&machine(7, 50, 100));
        let end = (end * bytes.len() as f64) as usize;
        let error = restore(&bytes[..end], 0).map(|_| ()).unwrap_err();
        prop_assert_eq!(error, SnapshotError::Truncated);
    }
}

/// The lengths of the chunks, as far as they are valid.
fn lengths(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut lengths) = (12, Vec::new());
    while let Some(len) = bytes.get(at..at + 4) {
        let len = u32::from_le_bytes(len.try_into().unwrap()) as usize;
        lengths.push(len);
        at += CHUNK_HEAD_BYTES + len + CHECK_BYTES;
    }
    lengths
}

/// Keys in three databases.
fn machine_of_databases() -> Machine {
    let mut machine = machine_with(1, 5, 60, 50);
    for line in ["COPY key:0 key:0 DB 9", "MOVE key:1 3", "COPY key:2 key:2 DB 3", "SWAPDB 9 15"] {
        apply_plain(&mut machine, line);
    }
    machine
}

#[test]
fn golden_bytes_of_version_3_are_written_and_read() {
    let machine = machine_of_databases();
    let bytes = bytes_of(&machine);
    assert_eq!(bytes[8], 3, "databases came with version 3");
    let golden = std::fs::read(GOLDEN_3).unwrap();
    assert!(bytes == golden, "the format has changed: raise VERSION and keep reading the old one");
    assert_eq!(restore(&golden, 0).unwrap().digest(), machine.digest());
}

/// Scripts beside keys in three databases.
fn machine_of_scripts() -> Machine {
    let mut machine = machine_of_databases();
    for args in [[&b"SCRIPT"[..], b"LOAD", b"return 1"], [b"EVAL", b"return 2", b"0"]] {
        apply_args(&mut machine, &args);
    }
    machine
}

#[test]
fn golden_bytes_of_version_4_are_written_and_read() {
    let machine = machine_of_scripts();
    let bytes = bytes_of(&machine);
    assert_eq!(bytes[8], 4, "scripts came with version 4");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(GOLDEN_4, &bytes).unwrap();
    }
    let golden = std::fs::read(GOLDEN_4).unwrap();
    assert!(bytes == golden, "the format has changed: raise VERSION and keep reading the old one");
    assert_eq!(restore(&golden, 0).unwrap().digest(), machine.digest());
}

#[test]
fn p6_databases_that_change_places_are_written_as_they_were() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut machine = machine(seed, 300, 900);
        for number in 0..300 {
            if rng.chance(2, 3) {
                apply_plain(&mut machine, &format!("MOVE key:{number} {}", rng.below(16)));
            }
        }
        let expected = bytes_of(&machine);
        let mut beside = Beside::begin(&mut machine);
        let mut bytes = Vec::new();
        while beside.chunk(&mut machine, 64 << 10, &mut bytes).unwrap() {
            for _ in 0..rng.below(20) {
                let line = match rng.below(3) {
                    0 => format!("SWAPDB {} {}", rng.below(16), rng.below(16)),
                    1 => format!("SET key:{} new", rng.below(300)),
                    _ => format!("MOVE key:{} {}", rng.below(300), rng.below(16)),
                };
                apply_plain(&mut machine, &line);
            }
        }
        assert!(bytes == expected, "P6: seed {seed}");
        beside.end(&mut machine);
        let (digest, copy) = (machine.digest(), restore(&bytes_of(&machine), 0).unwrap());
        assert_eq!(copy.digest(), digest, "P3");
    }
}

#[test]
fn a_chunk_of_a_database_that_is_none_is_malformed() {
    let bytes = bytes_of(&machine_of_databases());
    let at = bytes.windows(2).position(|two| two == [Kind::Database as u8, 3]).unwrap();
    for number in [0, 16] {
        let mut bad = bytes.clone();
        bad[at + 1] = number;
        reseal(&mut bad);
        let found = restore(&bad, 0).map(|_| ()).unwrap_err();
        assert!(matches!(found, SnapshotError::Malformed { .. }), "{found}");
    }
}

#[test]
fn p6_what_is_flushed_meanwhile_is_in_the_snapshot() {
    for line in ["FLUSHDB", "FLUSHALL"] {
        let mut machine = machine(1, 900, 1200);
        let expected = bytes_of(&machine);
        let mut beside = Beside::begin(&mut machine);
        let mut bytes = Vec::new();
        assert_eq!(beside.chunk(&mut machine, 64 << 10, &mut bytes), Ok(true));
        apply_plain(&mut machine, line);
        // What is written meanwhile is not, and a second snapshot is of what is there then.
        apply_plain(&mut machine, "SET later 1");
        let later = bytes_of(&machine);
        let mut second = Beside::begin(&mut machine);
        while beside.chunk(&mut machine, 64 << 10, &mut bytes) == Ok(true) {}
        assert!(bytes == expected, "P6: {line}");
        bytes.clear();
        while second.chunk(&mut machine, 64 << 10, &mut bytes) == Ok(true) {}
        assert!(bytes == later, "P6: {line}");
    }
}
