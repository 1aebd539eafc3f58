//! Frames: what is read is what was written, and what is not a frame is told apart.

use super::*;
use proptest::prelude::*;

fn list(items: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut list = Vec::new();
    items.iter().for_each(|(id, bytes)| push_item(&mut list, *id, bytes));
    list
}

fn every_kind<'a>(n: [u64; 4], flag: bool, bytes: &'a [u8], list: &'a [u8]) -> Vec<Frame<'a>> {
    let items = Items::check(list).unwrap();
    let (life, attempt, transfer) = (n[0], n[1], n[0]);
    vec![
        Frame::Commands { life, attempt, items },
        Frame::CommandsRefused { life, attempt },
        Frame::Answers { life, slot: Slot(n[1]), items },
        Frame::Reads { life, items },
        Frame::ReadAnswers { life, items },
        Frame::ReadsRefused { life, items },
        Frame::StateWanted { transfer, have: Prefix(n[1]) },
        Frame::StateRefused { transfer, learner: flag },
        Frame::StateBegins { transfer, prefix: Prefix(n[1]) },
        Frame::StateChunk { transfer, offset: n[1], check: n[2], bytes },
        Frame::StateEnds { transfer, n_bytes: n[1], check: n[3] },
        Frame::StateAgain { transfer, offset: n[1] },
        Frame::StateTaken { transfer, offset: n[1] },
        Frame::Values { transfer, last: flag, items },
        Frame::ValuesTaken { transfer, next: Slot(n[1]) },
        Frame::StateHead { transfer, prefix: Prefix(n[1]), head: bytes },
        Frame::Seat { incarnation: n[0], wants: flag },
        Frame::Pass { to: n[0], attempt, frame: bytes },
        Frame::Passed { peer: n[0], frame: bytes },
        Frame::PassBroken { attempt },
        Frame::Parted { incarnation: n[0], last: n[1], is_replaced: flag },
    ]
}

proptest! {
    #[test]
    fn i1_what_is_encoded_is_decoded(
        n: [u64; 4],
        flag: bool,
        bytes: Vec<u8>,
        items: Vec<(u64, Vec<u8>)>,
    ) {
        let list = list(&items);
        for frame in every_kind(n, flag, &bytes, &list) {
            let mut wire = Vec::new();
            frame.encode(&mut wire);
            for cut in [0, 3, 4, wire.len() - 1] {
                prop_assert_eq!(Frame::decode(&wire[..cut]), Ok(None));
            }
            let len = wire.len();
            wire.push(9);
            prop_assert_eq!(Frame::decode(&wire), Ok(Some((frame, len))));
        }
        let back = Items::check(&list).unwrap().iter().map(|(id, b)| (id, b.to_vec()));
        prop_assert!(back.eq(items));
    }

    #[test]
    fn i2_no_bytes_hurt_the_decoder(kind in 0u8..25, body: Vec<u8>, raw: Vec<u8>) {
        if let Ok(Some((frame, _))) = Frame::decode(&raw) {
            let mut again = Vec::new();
            frame.encode(&mut again);
            prop_assert_eq!(&raw[..again.len()], &again[..]);
        }
        let _ = codec::decode::<Words, Frame<'_>>(&[&[kind][..], &body].concat());
    }
}

#[test]
fn i3_answers_of_an_earlier_process_run_are_nobodys() {
    let is_answer = |frame: &Frame<'_>| {
        matches!(
            frame,
            Frame::CommandsRefused { .. }
                | Frame::Answers { .. }
                | Frame::ReadAnswers { .. }
                | Frame::ReadsRefused { .. }
        )
    };
    for frame in every_kind([7; 4], true, b"", &[]) {
        assert_eq!(frame.meant_for(7), Some(frame));
        assert_eq!(frame.meant_for(8).is_none(), is_answer(&frame), "{frame:?}");
    }
}

/// `bytes` as a frame: a length, and what it is of.
fn framed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

/// The frame that `bytes` are, encoded again.
fn read(bytes: &[u8]) -> Option<Vec<u8>> {
    let (frame, _) = Frame::decode(bytes).ok()??;
    let mut again = Vec::new();
    frame.encode(&mut again);
    Some(again)
}

/// Compares each kind's bytes with `bytes.txt`: behind the name stand the frame without its length,
/// and the lengths to which it can be cut and is still a frame. All others are refused. At the end
/// stands what 20,000 damaged frames are read as. `UPDATE_GOLDEN=1` writes the file.
#[test]
fn golden_bytes_of_each_frame() {
    let list = list(&[(7, b"ab".to_vec()), (1 << 40, Vec::new())]);
    let frames = every_kind([1, 2 << 32, 3, u64::MAX], true, b"bytes", &list);
    let mut told = String::new();
    let mut all = Vec::new();
    for frame in &frames {
        let mut wire = Vec::new();
        frame.encode(&mut wire);
        assert_eq!(Frame::decode(&wire), Ok(Some((*frame, wire.len()))));
        let body = &wire[4..];
        assert_eq!(wire, framed(body));
        let hex: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{frame:?}");
        told += &format!("{} {hex}", name.split(' ').next().unwrap());
        let is_frame = |n: &usize| read(&framed(&body[..*n])).is_some();
        (0..body.len()).filter(is_frame).for_each(|n| told += &format!(" {n}"));
        told += "\n";
        let longer = [body, &[0]].concat();
        let is_open = read(&framed(&longer)).is_some();
        told += if is_open { "  and with more behind it\n" } else { "" };
        all.push(body.to_vec());
    }
    let (mut rng, mut hash, mut n_read) = (base::Rng::new(1), 0, 0);
    for round in 0..20_000 {
        let mut body = all[round % all.len()].clone();
        for _ in 0..rng.below(4) {
            let at = rng.below(body.len() as u64) as usize;
            body[at] = (rng.next_u64() >> rng.range(56, 63)) as u8;
        }
        body.truncate(body.len() - rng.below(4) as usize % body.len());
        body.extend((0..rng.below(3)).map(|_| rng.next_u64() as u8));
        let again = read(&framed(&body)).unwrap_or_default();
        n_read += usize::from(!again.is_empty());
        hash = xxhash_rust::xxh3::xxh3_64_with_seed(&again, hash);
    }
    told += &format!("{n_read} are frames: {hash:016x}\n");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/wire/bytes.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &told).unwrap();
    }
    assert_eq!(told, std::fs::read_to_string(path).unwrap());
}
