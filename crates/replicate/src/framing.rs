//! Framing: where a request and where a reply ends, for protocols that are known. A program that
//! has answered all requests is at rest.
//!
//! Counts alone are kept, no bytes: a framing sees a stream in pieces as it comes.
//!
//! - I1 bytes that are no request, or no reply, end the counting of that direction. What was not
//!   answered then, and what is not counted, is taken for answered when the program sleeps
//!   (`feeder`), which costs time and is never wrong.

mod memcached;
mod resp;

use memcached::Memcached;
pub(crate) use resp::{Begun, Resp, ends_transaction};

/// A protocol whose requests and replies are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Redis's, versions 2 and 3.
    Resp,
    /// Memcached's, of lines, meta commands included.
    Memcached,
}

/// The positions in the two streams of one leg.
#[derive(Clone, Debug)]
pub enum Framing {
    /// See [`Protocol::Resp`].
    Resp(Resp),
    /// See [`Protocol::Memcached`].
    Memcached(Memcached),
}

impl Framing {
    /// The framing of a connection that is opened.
    pub fn new(protocol: Protocol) -> Framing {
        match protocol {
            Protocol::Resp => Framing::Resp(Resp::default()),
            Protocol::Memcached => Framing::Memcached(Memcached::default()),
        }
    }

    /// Whether requests are no longer counted (I1).
    pub fn has_lost_requests(&self) -> bool {
        match self {
            Framing::Resp(of) => of.has_lost_requests(),
            Framing::Memcached(of) => of.has_lost_requests(),
        }
    }

    /// The requests that end in `bytes`, which the program reads next.
    pub fn requests(&mut self, bytes: &[u8]) -> u64 {
        match self {
            Framing::Resp(of) => of.requests(bytes),
            Framing::Memcached(of) => of.requests(bytes),
        }
    }

    /// The replies that end in `bytes`, which the program has sent.
    pub fn replies(&mut self, bytes: &[u8]) -> u64 {
        match self {
            Framing::Resp(of) => of.replies(bytes),
            Framing::Memcached(of) => of.replies(bytes),
        }
    }
}

/// The longest line of a header: a longer one is no header.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The position in a stream of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    line: Vec<u8>,
    /// The bytes of a payload that are still to come, its line end included.
    skip: u64,
    /// Whether a request, or a reply, ends with that payload.
    ends: bool,
    is_lost: bool,
}

impl Reader {
    /// Hands the lines in `bytes`, whose payloads `take` reports by their lengths, to `take`.
    /// Returns the number of requests, or replies, that have ended with their payload.
    pub(crate) fn read(&mut self, mut bytes: &[u8], mut take: impl FnMut(&[u8]) -> Line) -> u64 {
        let mut n_ended = 0;
        while !bytes.is_empty() && !self.is_lost {
            if self.skip > 0 {
                let n = self.skip.min(bytes.len() as u64);
                self.skip -= n;
                bytes = &bytes[n as usize..];
                if self.skip == 0 && std::mem::take(&mut self.ends) {
                    n_ended += 1;
                }
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |at| at + 1));
            bytes = rest;
            self.line.extend_from_slice(part);
            self.is_lost |= self.line.len() > LINE_BYTES_MAX;
            if end.is_some() {
                let line = self.line.trim_ascii_end();
                match take(line) {
                    Line::Alone => {}
                    Line::Payload(n) => self.skip = n + 2,
                    Line::LastPayload(n) => (self.skip, self.ends) = (n + 2, true),
                    Line::Unknown => self.is_lost = true,
                }
                self.line.clear();
            }
        }
        n_ended
    }

    /// Whether a line was unknown, or too long: no further line is handed on.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether the last byte was that of a request, or a reply, or nothing was read.
    pub(crate) fn is_between(&self) -> bool {
        self.line.is_empty() && self.skip == 0 && !self.is_lost
    }
}

/// What follows a line.
pub(crate) enum Line {
    Alone,
    /// So many bytes, and a line end.
    Payload(u64),
    /// The same, and the end of the request, or of the reply.
    LastPayload(u64),
    Unknown,
}

/// Whether a byte is a blank for programs in C, which know one more than Rust does.
pub(crate) fn is_blank(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || *byte == 0x0b
}

/// A line without the blanks around it.
pub(crate) fn trim(line: &[u8]) -> &[u8] {
    let begin = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(begin, |last| last + 1);
    &line[begin..end]
}

/// No length that a program takes is longer.
const NUMBER_MAX: i64 = 1 << 40;

fn number(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number <= NUMBER_MAX).then_some(number)
}
