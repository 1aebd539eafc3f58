//! Whatever arrives on a TCP link, the decoders answer: they never panic, never read beyond the
//! bytes, and accept nothing that would not be sent (W1 to W4 of `fabric::tcp::wire`, H1 of
//! `fabric::tcp::hello`).
#![no_main]

use fabric::tcp::hello::{self, Hello, Versions};
use fabric::tcp::wire::{self, FRAME_BYTES_MAX, Frame, HEADER_BYTES};
use libfuzzer_sys::fuzz_target;

// The first four bytes say how large the region is by which places are judged.
fuzz_target!(|input: &[u8]| {
    if let Some((region_words, bytes)) = input.split_first_chunk() {
        frames(bytes, u32::from_le_bytes(*region_words));
        messages(bytes);
    }
});

fn frames(mut bytes: &[u8], region_words: u32) {
    while let Ok(Some((frame, length))) = wire::decode(bytes, region_words) {
        assert!((HEADER_BYTES..=FRAME_BYTES_MAX).contains(&length) && length <= bytes.len());
        let mut again = Vec::new();
        encode(frame, &mut again, region_words);
        assert_eq!(again, &bytes[..length], "one frame has one encoding");
        bytes = &bytes[length..];
    }
}

fn encode(frame: Frame<'_>, out: &mut Vec<u8>, region_words: u32) {
    let inside = |at: u32, n: usize| assert!(u64::from(at) + n as u64 <= u64::from(region_words));
    let all = |words: wire::Words<'_>| {
        let mut owned = vec![0; words.len()];
        words.copy_to(&mut owned);
        owned
    };
    match frame {
        Frame::Write { at, words, request } => {
            inside(at.0, words.len());
            wire::put_write(out, at, &all(words), request);
        }
        Frame::Read { at, n_words, request } => {
            inside(at.0, n_words as usize);
            wire::put_read(out, at, n_words as usize, request);
        }
        Frame::Cas { at, expected, desired, request } => {
            inside(at.0, 1);
            wire::put_cas(out, at, expected, desired, request);
        }
        Frame::FetchAdd { at, add, request } => {
            inside(at.0, 1);
            wire::put_fetch_add(out, at, add, request);
        }
        Frame::Written { request } => wire::put_written(out, request),
        Frame::Words { request, words } => wire::put_words_read(out, request, &all(words)),
        Frame::Before { request, word } => wire::put_before(out, request, word),
        Frame::Refused { request } => wire::put_refused(out, request),
        Frame::Message(message) => wire::put_message(out, message),
        Frame::Wake => wire::put_wake(out),
        Frame::ProcessFailed { incarnation, life } => {
            wire::put_process_failed(out, incarnation, life);
        }
        Frame::Parcel { head, bytes } => {
            inside(head.at.0, 1);
            assert_eq!(head.n_bytes, bytes.len());
            wire::put_parcel_head(out, &head);
            out.extend_from_slice(bytes);
        }
    }
}

fn messages(bytes: &[u8]) {
    if let Some((header, body)) = bytes.split_first_chunk()
        && let Ok((kind, length)) = hello::decode_header(header)
        && let Some(body) = body.get(..length)
    {
        match kind {
            hello::Kind::Hello | hello::Kind::Challenge => {
                if let Ok(hello) = Hello::decode(body, Versions::OURS) {
                    let mut again = Vec::new();
                    hello.put(&mut again, kind);
                    let known = again.len() - hello::HEADER_BYTES;
                    // All but the word that is ignored today.
                    assert_eq!(again[hello::HEADER_BYTES..][..44], body[..44]);
                    assert_eq!(again[hello::HEADER_BYTES..][48..], body[48..known]);
                }
            }
            hello::Kind::Refused => {
                if let Ok((_, text)) = hello::decode_refused(body) {
                    assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
                }
            }
            hello::Kind::Proof | hello::Kind::Welcome => {}
        }
    }
}
