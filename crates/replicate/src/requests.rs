//! Requests in Redis's protocol, as a connection says them in pieces.

use crate::framing::{is_blank, trim};

/// The longest word of a request that is looked at.
const WORD_BYTES_MAX: usize = 24;
/// The longest line of a header.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The most digits of the length of an argument, and of the number of arguments, that each program
/// takes as they are.
const LENGTH_DIGITS_MAX: usize = 8;
const COUNT_DIGITS_MAX: usize = 6;
/// The most bytes of one request that are handed over.
pub(crate) const RAW_BYTES_MAX: usize = 1 << 20;

/// Requests that may be kept, in the order of the alphabet.
const KEPT: [&str; 9] =
    ["ACL", "AUTH", "CLIENT", "CONFIG", "EVAL", "EVAL_RO", "HELLO", "SCRIPT", "SELECT"];

/// A whole request.
pub(crate) struct Request<'a> {
    /// The first two words, in capitals and cut to [`WORD_BYTES_MAX`].
    pub(crate) words: &'a [Vec<u8>; 2],
    /// Its bytes, if it is one to keep and not too long.
    pub(crate) raw: Option<&'a [u8]>,
    /// A program may have read more or fewer requests than this reader has, up to this one.
    pub(crate) is_uncounted: bool,
}

/// The requests of a connection, as they come in pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    line: Vec<u8>,
    /// The arguments of the present request, and how many have come.
    n_arguments: u64,
    n_come: u64,
    /// The bytes of an argument that are still to come, its line end included.
    n_left: u64,
    /// The first two words of the present request, in capitals, as far as they have come.
    words: [Vec<u8>; 2],
    /// The bytes of the present request, if it may be kept.
    raw: Vec<u8>,
    /// The request is not one to keep, or too long to be kept.
    is_raw_dropped: bool,
    /// The bytes are no request: nothing is known of the rest.
    is_lost: bool,
    /// A line was not written as clients write it: a program may read it otherwise.
    is_odd: bool,
    /// As many requests as were read here are not what each program has read.
    is_uncounted: bool,
}

impl Requests {
    /// Hands the first words of each request that ends in `bytes` to `take`.
    pub(crate) fn read(&mut self, mut bytes: &[u8], mut take: impl FnMut(&Request<'_>)) {
        while !bytes.is_empty() && !self.is_lost {
            let is_whole;
            if self.n_left > 0 {
                let n = self.n_left.min(bytes.len() as u64) as usize;
                self.keep(&bytes[..n]);
                self.payload(&bytes[..n]);
                bytes = &bytes[n..];
                is_whole = self.n_left == 0 && self.n_come == self.n_arguments;
            } else {
                let end = bytes.iter().position(|byte| *byte == b'\n');
                let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |at| at + 1));
                bytes = rest;
                self.keep(part);
                self.line.extend_from_slice(part);
                self.is_lost |= self.line.len() > LINE_BYTES_MAX;
                if end.is_none() {
                    continue;
                }
                let line = std::mem::take(&mut self.line);
                let text = trim(&line);
                let is_header = self.n_arguments > 0 || text.first() == Some(&b'*');
                let is_odd = !is_usual(&line, self.n_arguments > 0);
                self.is_odd |= is_odd;
                // Programs in C may take a zero for the line's end.
                self.is_uncounted |= is_odd && (is_header || line.contains(&0));
                is_whole = self.header(text, line.first() == Some(&b'*'));
                if !is_whole && self.n_arguments == 0 {
                    self.raw.clear(); // that was no request
                    self.is_raw_dropped = false;
                }
            }
            if is_whole {
                let raw = (!self.is_raw_dropped).then_some(&self.raw[..]);
                let Requests { words, is_uncounted, .. } = self;
                take(&Request { words, raw, is_uncounted: *is_uncounted });
                self.words.iter_mut().for_each(Vec::clear);
                self.raw.clear();
                (self.n_arguments, self.n_come, self.is_raw_dropped) = (0, 0, false);
            }
        }
    }

    /// A line, which may begin with the sign of an array. Returns whether it is a whole request.
    fn header(&mut self, line: &[u8], is_array: bool) -> bool {
        let number = |rest: &[u8]| std::str::from_utf8(rest).ok()?.parse::<i64>().ok();
        match (self.n_arguments, line.split_first()) {
            (0, Some((b'*', rest))) if is_array => match number(rest) {
                Some(n) => self.n_arguments = n.max(0) as u64,
                None => self.is_lost = true,
            },
            (0, Some(_)) => {
                let words = line.split(is_blank).filter(|word| !word.is_empty());
                for (word, to) in words.zip(&mut self.words) {
                    // A name in quotes is the same name. (What is no name is refused.)
                    let bytes = word.iter().filter(|byte| !b"\"'".contains(byte));
                    to.extend(bytes.take(WORD_BYTES_MAX).map(u8::to_ascii_uppercase));
                }
                return true;
            }
            (0, None) => {}
            (_, Some((b'$', rest))) => match number(rest).filter(|n| *n >= 0) {
                Some(n) => {
                    self.n_left = n as u64 + 2;
                    self.n_come += 1;
                }
                None => self.is_lost = true,
            },
            (_, _) => self.is_lost = true,
        }
        false
    }

    /// A part of a request.
    fn keep(&mut self, part: &[u8]) {
        let is_named = self.n_come > 1 || self.n_come == 1 && self.n_left == 0;
        if is_named && !self.is_raw_dropped {
            let name = std::str::from_utf8(&self.words[0]).unwrap_or_default();
            self.is_raw_dropped = KEPT.binary_search(&name).is_err();
        }
        self.is_raw_dropped |= self.raw.len() + part.len() > RAW_BYTES_MAX;
        if self.is_raw_dropped {
            self.raw.clear();
        } else {
            self.raw.extend_from_slice(part);
        }
    }

    /// Whether every program that knows the protocol has read all of it as this reader has.
    pub(crate) fn is_certain(&self) -> bool {
        !self.is_lost && !self.is_odd
    }

    /// Whether the last byte of a request was the last one that was read.
    pub(crate) fn is_between(&self) -> bool {
        self.line.is_empty() && self.n_arguments == 0 && !self.is_lost
    }

    /// A part of an argument.
    fn payload(&mut self, part: &[u8]) {
        // The line end is not the word's.
        let n_text = part.len().min(self.n_left.saturating_sub(2) as usize);
        self.n_left -= part.len() as u64;
        if let Some(word) = self.words.get_mut(self.n_come as usize - 1) {
            let room = WORD_BYTES_MAX.saturating_sub(word.len());
            word.extend(part[..n_text.min(room)].iter().map(u8::to_ascii_uppercase));
        }
    }
}

/// Whether a line is written in the one way in which it means the same to all: a header with a
/// number as clients write it, or words without a character that could be a sign.
fn is_usual(line: &[u8], is_argument: bool) -> bool {
    let Some(line) = line.strip_suffix(b"\r\n") else { return false };
    let is_number = |digits: &[u8], len_max: usize| {
        let is_canonical = digits == b"0" || digits.first().is_some_and(|first| *first != b'0');
        is_canonical && digits.len() <= len_max && digits.iter().all(u8::is_ascii_digit)
    };
    match line.split_first() {
        Some((b'$', digits)) if is_argument => is_number(digits, LENGTH_DIGITS_MAX),
        Some((b'*', digits)) if !is_argument => is_number(digits, COUNT_DIGITS_MAX),
        _ => {
            let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" :_-.".contains(byte);
            !is_argument && line.iter().all(is_plain)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_certain(bytes: &[u8]) -> bool {
        let mut requests = Requests::default();
        requests.read(bytes, |_| ());
        requests.is_certain()
    }

    #[test]
    fn what_a_program_may_read_otherwise_is_not_certain() {
        let usual: [&[u8]; 4] =
            [b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n", b"GET a:1\r\n", b"\r\n", b"*1\r\n$11\r\n0123456789"];
        usual.iter().for_each(|bytes| assert!(is_certain(bytes), "{}", bytes.escape_ascii()));
        let odd: [&[u8]; 12] = [
            b"*+1\r\n",
            b"*01\r\n",
            b" *1\r\n",
            b"*1 \r\n",
            b"*1\n",
            b"*1\rX\n",
            b"*-1\r\n",
            b"*1\r\n$03\r\n",
            b"*1\r\n$3\n",
            b"GET \"a\"\r\n",
            b"GET a\n",
            b"\"MULTI\"\r\n",
        ];
        odd.iter().for_each(|bytes| assert!(!is_certain(bytes), "{}", bytes.escape_ascii()));
    }

    #[test]
    fn names_are_in_the_order_of_the_alphabet() {
        assert!(KEPT.is_sorted());
    }
}
