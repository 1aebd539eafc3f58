//! Requests in memcached's protocols whose answers are the copy's own: statistics, what reads have
//! done, and what is left of a value's time.
//!
//! The requests of a connection are read as they are fed, so all copies come to the same. Nothing
//! is counted, and nothing depends on how the program's rest is known.
//!
//! - N1 a connection that has asked for such an answer is left out until the next point.
//! - N2 where a request ends in a way that is not known for certain, what follows may ask for
//!   anything: the connection is left out for good. `noreply` and quiet requests end as others do.

use crate::framing::{Line, Reader};

/// The first byte of a request of the binary protocol, and of a connection that speaks it.
const BINARY: u8 = 0x80;
const HEADER_BYTES: usize = 24;
/// The place of a request's code, and the code of statistics.
const CODE_AT: usize = 1;
const STATISTICS: u8 = 0x10;
/// The place of the length of what follows a header.
const BODY_AT: usize = 8;

/// The longest name of a value.
const KEY_BYTES_MAX: usize = 250;
/// The most words of a request with data that the program takes.
const WORDS_MAX: usize = 20;

/// What the requests of one connection show of the copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    requests: Requests,
    /// Whether such an answer was asked for since the last point (N1).
    is_shown: bool,
}

#[derive(Clone, Debug, Default)]
enum Requests {
    /// The first byte decides.
    #[default]
    New,
    Lines(Reader),
    Binary(Packets),
    /// N2
    Lost,
}

/// The position in requests of the binary protocol.
#[derive(Clone, Debug, Default)]
struct Packets {
    header: Vec<u8>,
    /// The bytes of a body that are still to come.
    skip: u64,
}

impl Packets {
    /// Hands the code of each request that begins in `bytes` to `take`. False if what comes is no
    /// request.
    fn read(&mut self, mut bytes: &[u8], mut take: impl FnMut(u8)) -> bool {
        while !bytes.is_empty() {
            let wanted = match self.skip {
                0 => HEADER_BYTES - self.header.len(),
                skip => usize::try_from(skip).unwrap_or(usize::MAX),
            };
            let (part, rest) = bytes.split_at(wanted.min(bytes.len()));
            bytes = rest;
            if self.skip > 0 {
                self.skip -= part.len() as u64;
                continue;
            }
            self.header.extend_from_slice(part);
            if self.header.first() != Some(&BINARY) {
                return false;
            }
            if self.header.len() == HEADER_BYTES {
                take(self.header[CODE_AT]);
                let body = self.header[BODY_AT..BODY_AT + 4].iter();
                self.skip = body.fold(0, |len, byte| len << 8 | u64::from(*byte));
                self.header.clear();
            }
        }
        true
    }
}

impl Shown {
    /// The connection's next bytes are fed.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let Shown { requests, is_shown } = self;
        if let (Requests::New, Some(first)) = (&requests, bytes.first()) {
            *requests = match *first {
                BINARY => Requests::Binary(Packets::default()),
                _ => Requests::Lines(Reader::default()),
            };
        }
        let is_known = match requests {
            Requests::New | Requests::Lost => return,
            Requests::Lines(reader) => {
                reader.read(bytes, |line| {
                    *is_shown |= shows(line);
                    follows(line)
                });
                !reader.is_lost()
            }
            Requests::Binary(packets) => {
                packets.read(bytes, |code| *is_shown |= code == STATISTICS)
            }
        };
        if !is_known {
            *requests = Requests::Lost;
        }
    }

    /// Whether the answers are left out (N1, N2).
    pub(crate) fn is_masked(&self) -> bool {
        self.is_shown || matches!(self.requests, Requests::Lost)
    }

    /// The copy is at a point.
    pub(crate) fn pass_point(&mut self) {
        self.is_shown = false;
    }
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

/// Whether the answer to this line is the copy's own.
fn shows(line: &[u8]) -> bool {
    let mut rest = words(line);
    match rest.next() {
        Some(b"me" | b"stats") => true,
        // When it was read last, whether it was, and what is left of its time (`R`: whether that is
        // little). The program looks at a flag's first sign.
        Some(b"mg") => rest.skip(1).any(|flag| matches!(flag, [b'h' | b'l' | b't' | b'R', ..])),
        Some(b"ma") => rest.skip(1).any(|flag| flag.starts_with(b"t")),
        _ => false,
    }
}

/// What follows the line of a request, as far as it is certain.
fn follows(line: &[u8]) -> Line {
    if line.iter().any(u8::is_ascii_control) {
        return Line::Unknown;
    }
    let words = words(line).collect::<Vec<_>>();
    let words = match &words[..] {
        [words @ .., b"noreply"] => words,
        words => words,
    };
    let data = match *words {
        // (The program closes the connection at `quit`.)
        []
        | [
            b"get" | b"gets" | b"gat" | b"gats" | b"delete" | b"incr" | b"decr" | b"touch"
            | b"flush_all" | b"verbosity" | b"version" | b"stats" | b"mn" | b"mg" | b"md" | b"ma"
            | b"me" | b"quit",
            ..,
        ] => return Line::Alone,
        [b"set" | b"add" | b"replace" | b"append" | b"prepend", key, flags, expires, len] => {
            data_of(key, [flags, expires, ZERO], len)
        }
        [b"cas", key, flags, expires, len, unique] => data_of(key, [flags, expires, unique], len),
        [b"ms", key, len, ..] if words.len() <= WORDS_MAX => data_of(key, [ZERO; 3], len),
        _ => None,
    };
    data.map_or(Line::Unknown, Line::LastPayload)
}

const ZERO: &[u8] = b"0";

/// The length of the data that follow such words, if the program takes that many.
fn data_of(key: &[u8], [flags, expires, unique]: [&[u8]; 3], len: &[u8]) -> Option<u64> {
    let expires = expires.strip_prefix(b"-").unwrap_or(expires);
    let numbers = [(flags, u64::from(u32::MAX)), (expires, i32::MAX as u64), (unique, u64::MAX)];
    let is_taken = numbers.iter().all(|(word, max)| number(word).is_some_and(|it| it <= *max));
    let len = number(len).filter(|len| *len <= i32::MAX as u64 - 2);
    len.filter(|_| is_taken && key.len() <= KEY_BYTES_MAX)
}

fn number(word: &[u8]) -> Option<u64> {
    let is_plain = word.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word).ok()?.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether a connection that has said this is left out, and whether it is behind a point.
    fn told(said: &[&[u8]]) -> (bool, bool) {
        let mut shown = Shown::default();
        said.iter().for_each(|bytes| shown.take(bytes));
        let until_a_point = shown.is_masked();
        shown.pass_point();
        (until_a_point, shown.is_masked())
    }

    const NOT: (bool, bool) = (false, false);
    const UNTIL_A_POINT: (bool, bool) = (true, false);
    const FOR_GOOD: (bool, bool) = (true, true);

    #[test]
    fn n1_what_is_the_copy_s_own_is_left_out_until_a_point() {
        let own = [
            "stats",
            "stats items",
            "stats reset",
            "me k",
            "mg k v h",
            "mg k R30",
            "mg k t0",
            "mg k lx",
            "ma n t",
            "ma n tX",
        ];
        for line in own {
            assert_eq!(told(&[line.as_bytes(), b"\r\n"]), UNTIL_A_POINT, "{line}");
        }
        let long = format!("get{}", " stats".repeat(500));
        for line in ["mg h v", "get me", "ma t v", "gat 0 stats", "", "quit", &long] {
            assert_eq!(told(&[line.as_bytes(), b"\r\n"]), NOT, "{line}");
        }
    }

    /// A client that wants no replies is compared, and its statistics are not.
    #[test]
    fn n1_requests_without_a_reply_are_read_to_their_end() {
        let each: [&[u8]; 8] = [
            b"set a 0 0 5 noreply\r\nstats\r\n",
            b"cas a 4294967295 -1 7 1 noreply\r\nstats\r\n\r\n",
            b"set a 0 1893456000 9 noreply\r\nstats\r\nab\r\n",
            b"incr n 1 noreply\r\n",
            b"flush_all noreply\r\n",
            b"mg k v q\r\n",
            b"ms k 7 q k\r\nstats\r\n\r\n",
            b"append a 0 0 0\r\n\r\n",
        ];
        for request in each {
            assert_eq!(told(&[request]), NOT, "{request:?}");
            assert_eq!(told(&[request, b"stats\r\n"]), UNTIL_A_POINT, "{request:?}");
        }
    }

    /// The program takes the data of a line that it refuses for requests.
    #[test]
    fn n2_what_may_be_read_otherwise_is_left_out_for_good() {
        let long = format!("set {} 0 0 5\r\n", "k".repeat(251));
        let odd = [
            "set a 0 0 -1\r\n",
            "set a x 0 5\r\n",
            "set a 4294967296 0 5\r\n",
            "set a 0 0 5 6\r\n",
            "ms k S5\r\n",
            "watch\r\n",
            "lru_crawler metadump all\r\n",
            "get\ta\r\n",
            "ERROR\r\n",
            &long,
        ];
        for line in odd {
            assert_eq!(told(&[line.as_bytes(), b"get a\r\n"]), FOR_GOOD, "{line}");
        }
    }

    fn packet(code: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        (bytes[0], bytes[1], bytes[11]) = (0x80, code, body.len() as u8);
        [&bytes, body].concat()
    }

    #[test]
    fn n1_requests_of_the_binary_protocol_are_read() {
        let (get, stat) = (packet(0, b"a"), packet(0x10, b""));
        let set = packet(1, &[0x10; 200]);
        assert_eq!(told(&[&get, &set, &get]), NOT);
        assert_eq!(told(&[&get, &set, &stat, &set]), UNTIL_A_POINT);
        assert_eq!(told(&[&get, b"get a\r\n"]), FOR_GOOD);
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_are_read_alike(cuts in prop::collection::vec(1usize..9, 0..60)) {
            let lines = b"set a 0 0 7 noreply\r\nstats\r\n\r\nget a\r\nstats\r\n".to_vec();
            let packets = [packet(0, b"a"), packet(1, &[0x10; 90]), packet(0x10, b"x")].concat();
            for bytes in [lines, packets] {
                let (mut pieces, mut rest) = (Vec::new(), &bytes[..]);
                for cut in cuts.iter().copied().chain([usize::MAX]) {
                    let (piece, behind) = rest.split_at(cut.min(rest.len()));
                    pieces.push(piece);
                    rest = behind;
                }
                prop_assert_eq!(told(&pieces), UNTIL_A_POINT);
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut shown = Shown::default();
            shown.take(&bytes);
            shown.take(&[&[BINARY], &bytes[..]].concat());
        }
    }
}
