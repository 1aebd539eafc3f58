//! Bytes that are, or are not, requests: Redis's answers to them, and when it closes the
//! connection.

use kv::resp::{LINE_BYTES_MAX, Parse, Parser};
use kv::store::Db;
use kv::{Reply, Store, resolve};

use crate::redis::Server;

/// The answers of a connection made of the parser and a store, until it closes.
fn ours(mut input: &[u8]) -> Vec<u8> {
    let (mut parser, mut store, mut reply) = (Parser::default(), Store::new(0), Reply::default());
    loop {
        let consumed = match parser.parse(input) {
            Err(error) => {
                reply.error(error.reply());
                break;
            }
            Ok(Parse::More { .. }) => break,
            Ok(Parse::TooLong { .. }) => panic!("Redis has no such limit"),
            Ok(Parse::Request(request)) => {
                let args = request.args();
                match resolve(&args, &mut reply) {
                    Some(spec) if spec.name == "echo" => reply.bulk(args[1]),
                    Some(spec) => store.execute(Db::ZERO, spec, &args, 0, &mut reply),
                    None => {}
                }
                request.consumed()
            }
        };
        input = &input[consumed..];
    }
    reply.take()
}

#[test]
fn malformed_bytes_are_answered_as_redis_does() {
    let server = Server::start();
    let inputs: &[&[u8]] = &[
        b"ECHO hello\r\n",
        b"ECHO hello\nECHO there\r\n",
        b"\r\n\n\r\nECHO x\r\n",
        b"  ECHO   \"a b\"  \r\n",
        b"ECHO \"\\x41\\n\\r\\t\\b\\a\\q\\\"\"\r\n",
        b"ECHO \"\\xzz\\x4\"\r\n",
        b"ECHO 'it\\'s \\n'\r\n",
        b"ECHO ab\"cd\"\r\n",
        b"ECHO \"\"\r\nECHO ''\r\n",
        b"ECHO \"ab\"cd\r\nECHO x\r\n",
        b"ECHO 'ab'cd\r\nECHO x\r\n",
        b"ECHO \"open\r\nECHO x\r\n",
        b"ECHO 'open\r\nECHO x\r\n",
        b"ECHO \"open\\\r\n",
        b"ECHO a\x0bb\r\n",
        b"ECHO \x0b a\r\n",
        b"ECHO \"a\"\x0b\r\n",
        b"ECHO a\x00b\r\nECHO x\r\n",
        b"\"\"\r\nECHO x\r\n",
        b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n",
        b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
        b"*2\r\n$4\r\nECHOxx$5\r\nhelloyy*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n",
        b"*2\rx$4\rxECHO\r\n$1\r\nx\r\n",
        b"*0\r\n*-1\r\n*-5\r\nECHO x\r\n",
        b"*\r\nECHO x\r\n",
        b"*x\r\nECHO x\r\n",
        b"*+1\r\n",
        b"*01\r\n",
        b"* 1\r\n",
        b"*1 \r\n",
        b"*2147483647\r\n",
        b"*2147483648\r\n",
        b"*99999999999999999999\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$x\r\n",
        b"*1\r\n$\r\n",
        b"*1\r\n$536870913\r\n",
        b"*1\r\n$4294967296\r\n",
        b"*1\r\n:4\r\nECHO\r\n",
        b"*1\r\nECHO\r\n",
        b"*1\r\n\r\n",
        b"*1\r\n\xff\r\n",
        b"*2\r\n$4\r\nECHO\r\nx\r\n",
        b"*2\r\n$4\r\nECHO\r\n",
        b"*1\r\n$4\r\nECHO\r\n*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n",
        b"nosuch\r\nECHO x\r\n",
        b"NOSUCH a 'b\\'c' \"d\\r\\ne\" \"\\x00hidden\" \"a\\x00b\"\r\n",
        b"\"no\\x00such\" a\r\n",
        b"GET\r\nGET a b\r\nOBJECT\r\nOBJECT nosuch a\r\nobject encoding\r\nOBJECT ENCODING a b\r\n",
        b"\xff\xfe \x80\r\n",
    ];
    let long = |fill: u8, len: usize, tail: &[u8]| [&vec![fill; len][..], tail].concat();
    let mut inputs: Vec<Vec<u8>> = inputs.iter().map(|input| input.to_vec()).collect();
    for len in [200, LINE_BYTES_MAX / 2] {
        inputs.push(long(b'n', len, b" arg\r\n"));
        inputs.push([b"nosuch ", &long(b'a', len, b" b\r\n")[..]].concat());
        inputs.push(b"nosuch aaaaaaaaaaaaaaaa bbb".repeat(len / 100 + 1));
    }
    // Lines without an end.
    inputs.push(long(b'a', LINE_BYTES_MAX + 1, b""));
    inputs.push(long(b'a', LINE_BYTES_MAX, b""));
    inputs.push([b"*", &long(b'1', LINE_BYTES_MAX + 1, b"")[..]].concat());
    inputs.push([b"*1\r\n$", &long(b'1', LINE_BYTES_MAX + 1, b"")[..]].concat());
    for input in inputs {
        let theirs = server.connect().raw(&input);
        let ours = ours(&input);
        assert!(
            ours == theirs,
            "{}\n redis: {}\n  ours: {}",
            input[..input.len().min(300)].escape_ascii(),
            theirs.escape_ascii(),
            ours.escape_ascii(),
        );
    }
}
