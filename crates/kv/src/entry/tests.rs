//! Tests of batches and commands.

use proptest::prelude::*;

use super::command::{Item, Queued, put_plain, put_transaction, put_versions};
use super::*;
use crate::client_sessions::{CallNumber, SessionId};
use crate::reply::Protocol;
use crate::store::{Db, DbKey};

fn origin(rank: usize, incarnation: u64) -> Origin {
    Origin { rank: Rank::at(rank), incarnation: Incarnation(incarnation) }
}

type Written = (Origin, Sequence, Vec<u8>);

/// Writes all commands, over as many batches as needed.
fn write(commands: &[Written], bytes_max: usize, in_front: &[u8]) -> Vec<Vec<u8>> {
    let mut writer = BatchWriter::new();
    let mut batches = Vec::new();
    let mut at = 0;
    while at < commands.len() {
        let mut out = in_front.to_vec();
        writer.begin(7, &mut out);
        while let Some((origin, sequence, command)) = commands.get(at) {
            match writer.append(*origin, *sequence, command, bytes_max, &mut out) {
                Appended::Whole => at += 1,
                Appended::Part | Appended::Full => break,
            }
        }
        assert!(out.len() <= bytes_max, "I3");
        batches.push(out.split_off(in_front.len()));
    }
    batches
}

/// Reads the commands back, fragments joined.
fn read(batches: &[Vec<u8>]) -> Vec<Written> {
    let mut commands: Vec<Written> = Vec::new();
    let mut half: Vec<u8> = Vec::new();
    for bytes in batches {
        let batch = Batch::check(bytes).unwrap();
        assert_eq!(batch.stamp_ms, 7);
        for frame in batch.frames() {
            let place = frame.place.unwrap_or(Place { offset: 0, total: frame.bytes.len() });
            assert_eq!(place.offset, half.len(), "I4: nothing stands between two fragments");
            half.extend_from_slice(frame.bytes);
            if half.len() == place.total {
                commands.push((frame.origin, frame.sequence, std::mem::take(&mut half)));
            }
        }
    }
    assert!(half.is_empty());
    commands
}

#[test]
fn golden_bytes_of_a_batch() {
    let mut command = Vec::new();
    put_plain(&[b"SET", b"k", b"v"], Protocol::Resp3, &mut command);
    let (mut writer, mut out) = (BatchWriter::new(), Vec::new());
    writer.begin(0x0102, &mut out);
    for sequence in [5, 6] {
        let appended = writer.append(origin(2, 9), Sequence(sequence), &command, 4096, &mut out);
        assert_eq!(appended, Appended::Whole);
    }
    let body = b"\x80\x03\x03SET\x01k\x01v";
    let expected = [
        &b"\x04\x02\x01\0\0\0\0\0\0"[..],
        b"\0\x02\x09\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x0a",
        body,
        b"\x01\x0a",
        body,
    ]
    .concat();
    assert_eq!(out, expected);
    // Version 1 has no content that differs.
    let old = [&b"\x01"[..], &expected[1..]].concat();
    let of =
        |bytes: &[u8]| Batch::check(bytes).unwrap().frames().map(|f| f.bytes.to_vec()).collect();
    let (now, before): (Vec<_>, Vec<_>) = (of(&out), of(&old));
    assert_eq!(now, before);
}

#[test]
fn golden_bytes_of_a_session() {
    let (id, number) = (SessionId(0x0102), CallNumber(300));
    let mut plain = Vec::new();
    put_plain(&[b"INCR", b"k"], Protocol::Resp2, &mut plain);
    let call = SessionCommand::Call { id, number, acknowledged: CallNumber(299), command: &plain };
    let read = SessionCommand::Read { id, number, command: &plain };
    for (command, expected) in [
        (SessionCommand::Open, &b"\x03"[..]),
        (SessionCommand::Resume(id), b"\x04\x02\x01\0\0\0\0\0\0"),
        (SessionCommand::End(id), b"\x05\x02\x01\0\0\0\0\0\0"),
        (call, b"\x06\x02\x01\0\0\0\0\0\0\xac\x02\xab\x02\0\x02\x04INCR\x01k"),
        (read, b"\x07\x02\x01\0\0\0\0\0\0\xac\x02\0\x02\x04INCR\x01k"),
    ] {
        let mut out = Vec::new();
        command.put(&mut out);
        assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string());
        let Ok(Command::Session(decoded)) = Command::decode(&out) else { panic!("{command:?}") };
        assert_eq!(decoded, command);
        let head = CALL_HEAD_BYTES_MAX + plain.len();
        assert!(out.len() <= head);
        // Cut short, it is not a command, unless the cut is in the called command.
        let cut = Command::decode(&out[..out.len().min(9) - 1]);
        assert!(cut.is_err(), "{cut:?}");
    }
}

#[test]
fn golden_bytes_of_a_transaction() {
    let mut queued = Queued::default();
    queued.push(&[b"GET", b"k"]);
    queued.push_answered(b"+PONG\r\n");
    let mut out = Vec::new();
    let guards: [(&[u8], u64); 1] = [(b"k", 3)];
    let guards = guards.map(|(key, version): (&[u8], u64)| (DbKey::from(key), version));
    put_transaction(guards.into_iter(), &queued, Protocol::Resp2, &mut out);
    assert_eq!(out, b"\x01\x01\x01k\x03\0\0\0\0\0\0\0\x02\x02\x03GET\x01k\0\x07+PONG\r\n");
    let Ok(Command::Transaction { db: Db::ZERO, protocol, guards, items }) = Command::decode(&out)
    else {
        panic!("a transaction");
    };
    assert_eq!(protocol, Protocol::Resp2);
    assert_eq!(guards.collect::<Vec<_>>(), [(DbKey::from(b"k"), 3)]);
    let items: Vec<_> = items.collect();
    let [Item::Execute(args), Item::Answered(reply)] = &items[..] else { panic!("{items:?}") };
    assert_eq!((&args[..], *reply), (&[&b"GET"[..], b"k"][..], &b"+PONG\r\n"[..]));
}

#[test]
fn an_empty_batch_is_a_tick() {
    let (mut writer, mut out) = (BatchWriter::new(), Vec::new());
    writer.begin(7, &mut out);
    let batch = Batch::check(&out).unwrap();
    assert_eq!((batch.stamp_ms, batch.frames().count()), (7, 0));
}

#[test]
fn i4_a_pending_part_lets_nothing_pass() {
    let (mut writer, mut out) = (BatchWriter::new(), Vec::new());
    let long = vec![b'x'; 1000];
    writer.begin(0, &mut out);
    assert_eq!(writer.append(origin(0, 1), Sequence(1), &long, 500, &mut out), Appended::Part);
    assert_eq!(writer.append(origin(0, 1), Sequence(1), &long, 500, &mut out), Appended::Full);
    let other = std::panic::catch_unwind({
        let (mut writer, mut out) = (writer.clone(), out.clone());
        move || writer.append(origin(0, 1), Sequence(2), b"short", 5000, &mut out)
    });
    assert!(other.is_err(), "I4");
    // After the leader was deposed, the next command may be any.
    writer.abandon();
    out.clear();
    writer.begin(0, &mut out);
    assert_eq!(writer.append(origin(0, 1), Sequence(2), b"short", 500, &mut out), Appended::Whole);
}

#[test]
fn a_command_that_fits_alone_is_not_cut() {
    let (mut writer, mut out) = (BatchWriter::new(), Vec::new());
    let (some, more) = (vec![b'a'; 300], vec![b'b'; 800]);
    writer.begin(0, &mut out);
    assert_eq!(writer.append(origin(0, 1), Sequence(1), &some, 1000, &mut out), Appended::Whole);
    assert!(1000 - out.len() > 2 * FRAGMENT_BYTES_MIN, "there is room for a part");
    assert_eq!(writer.append(origin(0, 1), Sequence(2), &more, 1000, &mut out), Appended::Full);
}

#[test]
fn a_command_over_the_limit_is_malformed_but_answered() {
    let long = vec![0; COMMAND_BYTES_MAX + 1];
    let commands = [(origin(1, 1), Sequence(1), long)];
    let read = read(&write(&commands, 8192, b""));
    assert_eq!(read, [(origin(1, 1), Sequence(1), Vec::new())]);
    assert!(Command::decode(&read[0].2).is_err());
}

#[test]
fn each_malformation_has_its_name() {
    let check = |bytes: &[u8]| Batch::check(bytes).map(|_| ()).unwrap_err();
    let header = [FORMAT, 0, 0, 0, 0, 0, 0, 0, 0];
    let with = |tail: &[u8]| [&header, tail].concat();
    let identity = |rank: u8, sequence: u8| {
        [&[0, rank, 1, 0, 0, 0, 0, 0, 0, 0, sequence][..], &[0; 7]].concat()
    };
    let fragment = |place: &[u8]| with(&[&[2][..], &identity(0, 1)[1..], place].concat());
    assert_eq!(check(b""), EntryError::Truncated { at: 0 });
    assert_eq!(check(&header[..8]), EntryError::Truncated { at: 1 });
    assert_eq!(check(&[FORMAT + 1; 9]), EntryError::Format { found: FORMAT + 1 });
    assert_eq!(check(&[0; 9]), EntryError::Format { found: 0 });
    assert_eq!(check(&with(&[4])), EntryError::Tag { found: 4 });
    assert_eq!(check(&with(&[1])), EntryError::NothingBefore);
    assert_eq!(check(&with(&identity(7, 1))), EntryError::Rank { found: 7 });
    assert_eq!(check(&with(&identity(0, 0))), EntryError::SequenceZero);
    assert_eq!(check(&with(&identity(0, 1))), EntryError::Truncated { at: 9 });
    assert_eq!(check(&fragment(&[0, 1, 2])), EntryError::Length { offset: 0, end: 2, total: 1 });
    assert_eq!(check(&fragment(&[0, 1, 0])), EntryError::Length { offset: 0, end: 0, total: 1 });
    assert_eq!(check(&fragment(&[0, 9, 1])), EntryError::Truncated { at: 9 });
    assert_eq!(Command::decode(b"").unwrap_err(), CommandError::Malformed);
    assert_eq!(Command::decode(b"\x08").unwrap_err(), CommandError::Kind(8));
    assert_eq!(Command::decode(b"\x83").unwrap_err(), CommandError::Kind(0x83));
    assert_eq!(Command::decode(b"\x03x").unwrap_err(), CommandError::Malformed, "more");
    assert_eq!(Command::decode(b"\0\0").unwrap_err(), CommandError::Malformed, "no name");
    assert_eq!(Command::decode(b"\0\x01\x01a!").unwrap_err(), CommandError::Malformed, "more");
}

fn commands() -> impl Strategy<Value = Vec<Written>> {
    let command = (0..3usize, 1..3u64, 1..6u64, 0..2000usize, any::<u8>()).prop_map(
        |(rank, incarnation, sequence, len, fill)| {
            (origin(rank, incarnation), Sequence(sequence), vec![fill; len])
        },
    );
    prop::collection::vec(command, 0..20)
}

proptest! {
    #[test]
    fn i2_what_was_written_is_read(
        commands in commands(),
        bytes_max in BATCH_BYTES_MIN + 16..3000,
        in_front in 0..17usize,
    ) {
        let batches = write(&commands, bytes_max, &vec![0xee; in_front]);
        prop_assert_eq!(read(&batches), commands);
    }

    #[test]
    fn i2_commands_are_decoded_as_they_were(
        args in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..12),
        resp3: bool,
    ) {
        let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
        let expected = if resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let mut out = Vec::new();
        put_plain(&args, expected, &mut out);
        let decoded = Command::decode(&out);
        let Ok(Command::Plain { db: Db::ZERO, protocol, args: decoded }) = decoded else {
            panic!("plain");
        };
        prop_assert_eq!((protocol, &decoded[..]), (expected, &args[..]));
        let mut out = Vec::new();
        put_versions(&args, &mut out);
        let Ok(Command::Versions { db: Db::ZERO, keys }) = Command::decode(&out) else { panic!("versions") };
        prop_assert_eq!(&keys[..], &args[..]);
    }

    #[test]
    fn i1_any_bytes_are_read_or_refused(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        plausible: bool,
    ) {
        if plausible && !bytes.is_empty() {
            bytes[0] = FORMAT;
        }
        if let Ok(batch) = Batch::check(&bytes) {
            let framed: usize = batch.frames().map(|frame| frame.bytes.len()).sum();
            prop_assert!(framed <= bytes.len());
        }
        // A change of one byte of a good batch, too, is read or refused.
        let good = write(&[(origin(1, 1), Sequence(1), bytes.clone())], 4096, b"");
        for at in 0..good[0].len() {
            let mut bad = good[0].clone();
            bad[at] ^= 1 << (at % 8);
            if let Ok(batch) = Batch::check(&bad) {
                batch.frames().for_each(|frame| drop(Command::decode(frame.bytes)));
            }
        }
    }

    #[test]
    fn i1_any_command_is_read_or_refused(
        kind in 0..3u8,
        tail in prop::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..60),
    ) {
        let bytes = [&[kind][..], &tail].concat();
        if let Ok(Command::Transaction { guards, items, .. }) = Command::decode(&bytes) {
            // The content that was checked can be iterated.
            prop_assert_eq!(items.len(), items.count());
            guards.for_each(|(key, _)| assert!(key.key.len() <= bytes.len()));
        }
    }
}
