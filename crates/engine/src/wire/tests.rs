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
        let _ = Frame::of(kind, &body);
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

#[test]
fn the_bytes_of_a_frame_stay_what_they_are() {
    let mut wire = Vec::new();
    let items = list(&[(7, b"ab".to_vec())]);
    let items = Items::check(&items).unwrap();
    Frame::Commands { life: 1, attempt: 2, items }.encode(&mut wire);
    let golden = [
        &[31, 0, 0, 0, 1][..],
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[2, 0, 0, 0, 0, 0, 0, 0],
        &[7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'a', b'b'],
    ];
    assert_eq!(wire, golden.concat());
}
