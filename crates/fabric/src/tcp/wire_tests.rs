//! Tests of the frames' invariants: golden bytes, round trips, and a decoder that survives any
//! input.

use super::*;
use proptest::prelude::*;

const REGION_WORDS: u32 = 1 << 16;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encoded(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out);
    out
}

/// A released version reads these bytes: they change only together with the version number.
#[test]
fn golden_bytes() {
    let (at, request) = (At(0x0102_0304), Request(0x0a0b_0c0d));
    let golden: [(&str, Vec<u8>); 14] = [
        (
            "1800000001010000040302010d0c0b0a08070605040302010100000000000000",
            encoded(|out| put_write(out, at, &[0x0102_0304_0506_0708, 1], Some(request))),
        ),
        ("08000000010000000403020100000000", encoded(|out| put_write(out, at, &[], None))),
        (
            "1000000002000000040302010d0c0b0a0700000000000000",
            encoded(|out| put_read(out, at, 7, request)),
        ),
        (
            "1800000003010000040302010d0c0b0a05000000000000000600000000000000",
            encoded(|out| put_cas(out, at, 5, 6, Some(request))),
        ),
        (
            "1800000003000000040302010000000005000000000000000600000000000000",
            encoded(|out| put_cas(out, at, 5, 6, None)),
        ),
        (
            "1000000004010000040302010d0c0b0affffffffffffffff",
            encoded(|out| put_fetch_add(out, at, u64::MAX, Some(request))),
        ),
        ("08000000050000000d0c0b0a00000000", encoded(|out| put_written(out, request))),
        (
            "10000000060000000d0c0b0a000000000900000000000000",
            encoded(|out| put_words_read(out, request, &[9])),
        ),
        (
            "10000000070000000d0c0b0a000000000800000000000000",
            encoded(|out| put_before(out, request, 8)),
        ),
        ("08000000080000000d0c0b0a00000000", encoded(|out| put_refused(out, request))),
        ("0300000009000000616263", encoded(|out| put_message(out, b"abc"))),
        ("000000000a000000", encoded(put_wake)),
        (
            "100000000b00000002000000000000000300000000000000",
            encoded(|out| put_process_failed(out, Incarnation(2), 3)),
        ),
        (
            "130000000c00000004030201000000000800000000000000616263",
            encoded(|out| Owned::Parcel(at.0, 8, b"abc".to_vec()).encode(out)),
        ),
    ];
    for (expected, bytes) in golden {
        assert_eq!(hex(&bytes), expected);
        let (_, length) = decode(&bytes, u32::MAX).unwrap().expect("a whole frame");
        assert_eq!(length, bytes.len());
    }
}

/// A frame that owns its content, to be generated.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Write(u32, Vec<u64>, Option<u32>),
    Read(u32, u32, u32),
    Cas(u32, u64, u64, Option<u32>),
    FetchAdd(u32, u64, Option<u32>),
    Written(u32),
    Words(u32, Vec<u64>),
    Before(u32, u64),
    Refused(u32),
    Message(Vec<u8>),
    Wake,
    ProcessFailed(u64, u64),
    Parcel(u32, u64, Vec<u8>),
}

impl Owned {
    fn encode(&self, out: &mut Vec<u8>) {
        let some = |request: &Option<u32>| request.map(Request);
        match self {
            Owned::Write(at, words, request) => put_write(out, At(*at), words, some(request)),
            Owned::Read(at, n, request) => put_read(out, At(*at), *n as usize, Request(*request)),
            Owned::Cas(at, old, new, request) => put_cas(out, At(*at), *old, *new, some(request)),
            Owned::FetchAdd(at, add, request) => put_fetch_add(out, At(*at), *add, some(request)),
            Owned::Written(request) => put_written(out, Request(*request)),
            Owned::Words(request, words) => put_words_read(out, Request(*request), words),
            Owned::Before(request, word) => put_before(out, Request(*request), *word),
            Owned::Refused(request) => put_refused(out, Request(*request)),
            Owned::Message(bytes) => put_message(out, bytes),
            Owned::Wake => put_wake(out),
            Owned::ProcessFailed(incarnation, life) => {
                put_process_failed(out, Incarnation(*incarnation), *life);
            }
            Owned::Parcel(at, tag, bytes) => {
                let (at, tag, n_bytes) = (At(*at), *tag, bytes.len());
                put_parcel_head(out, &ParcelHead { at, tag, n_bytes });
                out.extend_from_slice(bytes);
            }
        }
    }

    fn of(frame: Frame<'_>) -> Owned {
        let some = |request: Option<Request>| request.map(|request| request.0);
        let all = |words: Words<'_>| {
            let mut owned = vec![0; words.len()];
            words.copy_to(&mut owned);
            owned
        };
        match frame {
            Frame::Write { at, words, request } => Owned::Write(at.0, all(words), some(request)),
            Frame::Read { at, n_words, request } => Owned::Read(at.0, n_words, request.0),
            Frame::Cas { at, expected, desired, request } => {
                Owned::Cas(at.0, expected, desired, some(request))
            }
            Frame::FetchAdd { at, add, request } => Owned::FetchAdd(at.0, add, some(request)),
            Frame::Written { request } => Owned::Written(request.0),
            Frame::Words { request, words } => Owned::Words(request.0, all(words)),
            Frame::Before { request, word } => Owned::Before(request.0, word),
            Frame::Refused { request } => Owned::Refused(request.0),
            Frame::Message(bytes) => Owned::Message(bytes.to_vec()),
            Frame::Wake => Owned::Wake,
            Frame::ProcessFailed { incarnation, life } => Owned::ProcessFailed(incarnation.0, life),
            Frame::Parcel { head, bytes } => Owned::Parcel(head.at.0, head.tag, bytes.to_vec()),
        }
    }
}

fn any_frame() -> impl Strategy<Value = Owned> {
    let at = 0..REGION_WORDS - 64;
    let words = || proptest::collection::vec(any::<u64>(), 0..64);
    let request = || any::<Option<u32>>();
    prop_oneof![
        (at.clone(), words(), request()).prop_map(|(at, w, r)| Owned::Write(at, w, r)),
        (at.clone(), 0..64u32, any::<u32>()).prop_map(|(at, n, r)| Owned::Read(at, n, r)),
        (at.clone(), any::<u64>(), any::<u64>(), request())
            .prop_map(|(at, old, new, r)| Owned::Cas(at, old, new, r)),
        (at.clone(), any::<u64>(), request()).prop_map(|(at, add, r)| Owned::FetchAdd(at, add, r)),
        (at, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..99))
            .prop_map(|(at, tag, bytes)| Owned::Parcel(at, tag, bytes)),
        any::<u32>().prop_map(Owned::Written),
        (any::<u32>(), words()).prop_map(|(r, w)| Owned::Words(r, w)),
        (any::<u32>(), any::<u64>()).prop_map(|(r, w)| Owned::Before(r, w)),
        any::<u32>().prop_map(Owned::Refused),
        proptest::collection::vec(any::<u8>(), 0..200).prop_map(Owned::Message),
        Just(Owned::Wake),
        (any::<u64>(), any::<u64>()).prop_map(|(i, l)| Owned::ProcessFailed(i, l)),
    ]
}

fn decode_all(mut bytes: &[u8]) -> Result<Vec<Owned>, WireError> {
    let mut frames = Vec::new();
    while let Some((frame, length)) = decode(bytes, REGION_WORDS)? {
        assert!(length >= HEADER_BYTES && length <= bytes.len(), "W1");
        frames.push(Owned::of(frame));
        bytes = &bytes[length..];
    }
    Ok(frames)
}

proptest! {
    /// W3, with several frames in one buffer.
    #[test]
    fn what_is_encoded_is_decoded(frames in proptest::collection::vec(any_frame(), 1..8)) {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        prop_assert_eq!(decode_all(&bytes).unwrap(), frames.clone());
        // The decoded frames encode to the same bytes: one frame, one encoding.
        let mut again = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut again));
        prop_assert_eq!(again, bytes);
    }

    /// A frame that is cut anywhere is incomplete; it is never an error and never another frame.
    #[test]
    fn a_cut_frame_is_waited_for(frame in any_frame(), cut in any::<proptest::sample::Index>()) {
        let bytes = encoded(|out| frame.encode(out));
        let cut = cut.index(bytes.len());
        prop_assert_eq!(decode(&bytes[..cut], REGION_WORDS), Ok(None));
    }

    /// W1 and W2 on noise.
    #[test]
    fn smoke_noise(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = decode_all(&bytes);
    }

    /// W1 and W2 on frames with one byte changed, which get past the header more often than noise.
    #[test]
    fn smoke_flipped(
        frame in any_frame(),
        at in any::<proptest::sample::Index>(),
        flip in 1..=255u8,
    ) {
        let mut bytes = encoded(|out| frame.encode(out));
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(frames) = decode_all(&bytes) {
            // W3 from the other side: accepted bytes are the ones that would have been sent.
            let mut again = Vec::new();
            frames.iter().for_each(|frame| frame.encode(&mut again));
            prop_assert!(bytes.starts_with(&again));
        }
    }
}

fn refused(bytes: &[u8]) -> WireError {
    decode(bytes, 100).expect_err("not a frame")
}

#[test]
fn each_malformed_frame_is_named() {
    let long = (FRAME_BYTES_MAX as u32).to_le_bytes();
    let header = |length: u8, code: u8, flags: u8| [length, 0, 0, 0, code, flags, 0, 0];
    assert_eq!(
        refused(&[&long[..], &[9, 0, 0, 0]].concat()),
        WireError::TooLong(FRAME_BYTES_MAX as u64 + 8)
    );
    assert_eq!(refused(&header(0, 0, 0)), WireError::Opcode(0));
    assert_eq!(refused(&header(0, 13, 0)), WireError::Opcode(13));
    assert_eq!(refused(&header(0, 12, 1)), WireError::Flags { opcode: 12, flags: 1 });
    let cut = [&header(15, 12, 0)[..], &[0; 15]].concat();
    assert_eq!(refused(&cut), WireError::Length { opcode: 12, length: 15 });
    assert_eq!(refused(&header(16, 2, 1)), WireError::Flags { opcode: 2, flags: 1 });
    assert_eq!(refused(&header(8, 1, 2)), WireError::Flags { opcode: 1, flags: 2 });
    assert_eq!(refused(&[0, 0, 0, 0, 10, 0, 1, 0]), WireError::Reserved(10));
    let odd = [&header(9, 1, 0)[..], &[0; 9]].concat();
    assert_eq!(refused(&odd), WireError::Length { opcode: 1, length: 9 });
    let short = [&header(8, 3, 0)[..], &[0; 8]].concat();
    assert_eq!(refused(&short), WireError::Length { opcode: 3, length: 8 });
    let fat = [&header(1, 10, 0)[..], &[0]].concat();
    assert_eq!(refused(&fat), WireError::Length { opcode: 10, length: 1 });
    let unsignalled = [&header(8, 1, 0)[..], &[0, 0, 0, 0, 7, 0, 0, 0]].concat();
    assert_eq!(refused(&unsignalled), WireError::Reserved(1));
}

#[test]
fn places_outside_the_region_are_refused() {
    let outside = |at, n_words| WireError::OutOfRegion { at, n_words, region_words: 100 };
    let cas = |at| encoded(|out| put_cas(out, At(at), 0, 0, None));
    assert!(decode(&cas(99), 100).is_ok());
    assert_eq!(refused(&cas(100)), outside(100, 1));
    assert_eq!(refused(&cas(u32::MAX)), outside(u32::MAX, 1));
    let write = encoded(|out| put_write(out, At(99), &[1, 2], None));
    assert_eq!(refused(&write), outside(99, 2));
    let read = encoded(|out| put_read(out, At(1), 100, Request(0)));
    assert_eq!(refused(&read), outside(1, 100));
    let add = encoded(|out| put_fetch_add(out, At(100), 1, None));
    assert_eq!(refused(&add), outside(100, 1));
}

#[test]
fn a_read_longer_than_a_frame_is_refused() {
    let mut read = encoded(|out| put_read(out, At(0), WORDS_MAX, Request(0)));
    assert!(decode(&read, u32::MAX).is_ok());
    read[16..20].copy_from_slice(&(WORDS_MAX as u32 + 1).to_le_bytes());
    assert!(matches!(decode(&read, u32::MAX), Err(WireError::TooLong(_))));
}

#[test]
fn a_frame_of_parcel_length_carries_no_more_words_than_others() {
    let mut write = vec![0; HEADER_BYTES + 8 + 8 * (WORDS_MAX + 1)];
    let length = (write.len() - HEADER_BYTES) as u32;
    write[..4].copy_from_slice(&length.to_le_bytes());
    write[4] = opcode::WRITE;
    assert!(write.len() <= FRAME_BYTES_MAX);
    assert!(matches!(decode(&write, u32::MAX), Err(WireError::TooLong(_))));
}

#[test]
fn the_head_of_a_parcel_is_known_before_its_value_is_there() {
    let head = ParcelHead { at: At(99), tag: 7, n_bytes: PARCEL_BYTES_MAX };
    let bytes = encoded(|out| put_parcel_head(out, &head));
    assert_eq!(bytes.len(), PARCEL_HEAD_BYTES);
    assert_eq!(decode(&bytes, 100), Ok(None));
    assert_eq!(parcel_head(&bytes, 100), Ok(Some(head)));
    assert_eq!(parcel_head(&bytes[..PARCEL_HEAD_BYTES - 1], 100), Ok(None));
    assert_eq!(parcel_head(&encoded(|out| put_message(out, &[0; 99])), 100), Ok(None));
    let outside = WireError::OutOfRegion { at: 99, n_words: 1, region_words: 99 };
    assert_eq!(parcel_head(&bytes, 99), Err(outside));
}
