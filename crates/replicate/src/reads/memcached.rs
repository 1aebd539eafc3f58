//! What only reads, in memcached's protocol of lines.

use super::Plugin;
use crate::framing::{Line, Reader};

/// The longest line that each program takes as it is.
const LINE_BYTES_MAX: usize = 1000;
/// The longest name of a value.
const KEY_BYTES_MAX: usize = 250;
/// The most digits of a number that each program takes as it is.
const DIGITS_MAX: usize = 6;

/// The requests of one connection.
///
/// Nothing is known for certain behind a line that may have no reply, or that the program may
/// refuse without its data: it would take the data for requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Memcached {
    reader: Reader,
}

/// What is known of a line.
enum Kind {
    Reads,
    /// Something else, which ends with its line.
    Other,
    /// The same, with so many bytes behind it.
    Stores(u64),
    Unknown,
}

fn is_number(word: &[u8]) -> bool {
    (1..=DIGITS_MAX).contains(&word.len()) && word.iter().all(u8::is_ascii_digit)
}

fn kind(line: &[u8]) -> Kind {
    let is_control = |byte: &u8| byte.is_ascii_control();
    if line.len() > LINE_BYTES_MAX || line.iter().any(is_control) || line.starts_with(b" ") {
        return Kind::Unknown;
    }
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let Some(command) = words.next() else { return Kind::Unknown };
    let rest = words.collect::<Vec<_>>();
    match (command, &rest[..]) {
        (b"get" | b"gets", [_, ..]) => Kind::Reads,
        (b"gat" | b"gats", [_, _, ..])
        | (b"delete", [_])
        | (b"incr" | b"decr" | b"touch", [_, _]) => Kind::Other,
        (b"flush_all" | b"version" | b"stats" | b"mn", []) => Kind::Other,
        (b"set" | b"add" | b"replace" | b"append" | b"prepend", [key, numbers @ .., len])
            if numbers.len() == 2 =>
        {
            stores(key, numbers, len)
        }
        (b"cas", [key, flags, expires, len, unique])
            if unique.len() <= 18 && unique.iter().all(u8::is_ascii_digit) =>
        {
            stores(key, &[flags, expires], len)
        }
        _ => Kind::Unknown,
    }
}

/// Data of which the program takes as many bytes as their line says, whatever becomes of them.
fn stores(key: &[u8], numbers: &[&[u8]], len: &[u8]) -> Kind {
    let is_well = key.len() <= KEY_BYTES_MAX && numbers.iter().all(|word| is_number(word));
    let len = std::str::from_utf8(len).ok().filter(|len| is_number(len.as_bytes()));
    len.filter(|_| is_well).and_then(|len| len.parse().ok()).map_or(Kind::Unknown, Kind::Stores)
}

impl Plugin for Memcached {
    fn take(&mut self, bytes: &[u8], each: &mut dyn FnMut(bool)) {
        let n_ended = self.reader.read(bytes, |line| match kind(line) {
            Kind::Reads => {
                each(true);
                Line::Alone
            }
            Kind::Other => {
                each(false);
                Line::Alone
            }
            Kind::Stores(len) => Line::LastPayload(len),
            Kind::Unknown => Line::Unknown,
        });
        (0..n_ended).for_each(|_| each(false));
    }

    fn is_between(&self) -> bool {
        self.reader.is_between()
    }

    fn is_apart(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::reads;
    use crate::framing::Protocol;
    use proto::planted::Sound;

    fn is_read(asked: &str) -> bool {
        reads(Protocol::Memcached, &[asked.as_bytes()], Sound)[0]
    }

    #[test]
    fn s3_what_may_change_something_is_no_read() {
        assert!(is_read("get a\r\n") && is_read("gets a b\r\nget c\r\n"));
        let others = ["gat 0 a", "touch a 0", "delete a", "incr a 1", "mg a v", "stats", "get"];
        for asked in others {
            assert!(!is_read(&format!("{asked}\r\n")), "{asked}");
        }
    }

    #[test]
    fn s2_behind_what_may_be_refused_or_not_be_answered_nothing_is_a_read() {
        let long = format!("set {} 0 0 5\r\n", "k".repeat(251));
        let odd =
            ["set a 0 0 -1\r\n", "set a 0 x 1\r\n", "set a 0 0 1 noreply\r\n", "ms a 1\r\n", &long];
        let also = ["delete a noreply\r\n", "quit\r\n", "\u{80}\r\n", "\r\n", "mg a v q\r\n"];
        for asked in odd.iter().chain(&also) {
            let pieces = [asked.as_bytes(), b"get a\r\n", b"get a\r\n"];
            let each = reads(Protocol::Memcached, &pieces, Sound);
            assert_eq!(each[1..], [false, false], "{asked:?}");
        }
        let pieces: [&[u8]; 3] = [b"set a 0 0 5\r\nab", b"cde\r\n", b"get a\r\n"];
        assert_eq!(reads(Protocol::Memcached, &pieces, Sound), [false, false, true]);
    }
}
