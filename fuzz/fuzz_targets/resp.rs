//! Any bytes, cut anywhere: the parser never panics, what it finds does not depend on the cuts, and
//! what the store answers to it is one complete reply a request, in either protocol.
//!
//! `cargo +nightly fuzz run resp`
#![no_main]

use kv::resp::{INPUT_BYTES_MAX, Parse, Parser};
use kv::{Protocol, Reply, Store, command, resolve};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, u16, &[u8])| {
    let (authenticated, seed, bytes) = input;
    let whole = run(bytes, usize::MAX, authenticated);
    let cut = run(bytes, usize::from(seed % 61) + 1, authenticated);
    assert_eq!(whole, cut, "cutting changes nothing");
});

/// What a connection answers to `bytes` that arrive `piece` at a time.
fn run(bytes: &[u8], piece: usize, authenticated: bool) -> Vec<u8> {
    let protocol = if bytes.len() % 2 == 0 { Protocol::Resp2 } else { Protocol::Resp3 };
    let (mut parser, mut store) = (Parser::new(authenticated), Store::new(1 << 20));
    let (mut reply, mut kept) = (Reply::new(protocol), Vec::new());
    for part in bytes.chunks(piece.min(bytes.len()).max(1)) {
        kept.extend_from_slice(part);
        loop {
            let consumed = match parser.parse(&kept) {
                Err(error) => {
                    reply.error(error.reply());
                    store.check();
                    return reply.take();
                }
                Ok(Parse::More { consumed }) => {
                    kept.drain(..consumed);
                    assert!(kept.len() <= INPUT_BYTES_MAX);
                    break;
                }
                Ok(Parse::TooLong { consumed }) => consumed,
                Ok(Parse::Request(request)) => {
                    let args = request.args();
                    let before = reply.len();
                    if let Some(spec) = resolve(&args, &mut reply) {
                        if spec.is_for_store() {
                            store.advance_time(store.now_ms() + 1);
                            store.execute(kv::store::Db::ZERO, spec, &args, 7, &mut reply);
                        } else if spec.name.starts_with("command") {
                            command::command(spec, &args, &mut reply);
                        } else {
                            reply.ok();
                        }
                    }
                    assert_eq!(replies(&reply.as_bytes()[before..]), 1, "one request, one reply");
                    request.consumed()
                }
            };
            kept.drain(..consumed);
        }
    }
    store.check();
    reply.take()
}

/// How many complete replies `bytes` are.
fn replies(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while !bytes.is_empty() {
        // Replies that are still to come, of this one and of those inside it.
        let mut left = 1;
        while left > 0 {
            left -= 1;
            let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a line ends");
            let (line, rest) = bytes.split_at(end);
            bytes = &rest[2..];
            let number = || std::str::from_utf8(&line[1..]).ok()?.parse::<i64>().ok();
            match line[0] {
                b'$' | b'=' => {
                    let len = number().expect("a length");
                    if len >= 0 {
                        assert_eq!(&bytes[len as usize..][..2], b"\r\n");
                        bytes = &bytes[len as usize + 2..];
                    }
                }
                b'*' | b'~' | b'>' => left += number().expect("a length").max(0),
                b'%' => left += 2 * number().expect("a length"),
                b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {}
                other => panic!("a reply of kind {other}"),
            }
        }
        count += 1;
    }
    count
}
