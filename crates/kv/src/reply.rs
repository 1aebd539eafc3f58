//! Replies: the bytes that go back to a client, in RESP2 or RESP3.
//!
//! A [`Reply`] is a buffer that is reused: commands append to it and never look back, so that a
//! pipeline of replies is one write. A command states *what* it answers (a map, a null, a double);
//! the protocol that the connection asked for decides the bytes, so no command knows RESP.
//!
//! - I1 one command appends exactly one complete reply, or leaves the buffer to its caller
//!   untouched. Checked by the tests: the oracle parses every reply to its last byte.
//! - I2 an error line never contains a line break, whatever a client sent: a client could
//!   otherwise forge the reply of its neighbour in a pipeline. By construction: [`Reply::error`]
//!   and [`Reply::simple`] are the only writers of lines of text and both replace line breaks.
//! - I3 the length of one command's answer is bounded: [`Reply::bounded`] keeps no more bytes than
//!   it allows, however many the command appends, and then answers an error instead.

use crate::text;
use std::fmt;

/// The version of the protocol that a connection speaks; HELLO changes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// RESP2, with which a connection starts.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

/// The longest reply to one command or transaction: every member keeps the replies to recent
/// commands of the log, and any member may have to pass a reply on to another.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The most steps of a command whose time is not bounded by its input and its answer, and the most
/// of all such commands of one transaction: some 20 ms, or some 0.5 s for those whose price is low
/// so that ordinary transactions are not refused. With more, a replica would be silent for too
/// long.
pub const STEPS_MAX: usize = 16 << 20;

/// A reusable buffer of encoded replies.
#[derive(Clone, Debug)]
pub struct Reply {
    buffer: Vec<u8>,
    protocol: Protocol,
    /// I3: the buffer grows no further than this.
    len_max: usize,
    /// Whether bytes were left out.
    is_cut: bool,
    steps_left: usize,
}

impl Default for Reply {
    fn default() -> Reply {
        Reply::new(Protocol::default())
    }
}

/// Clears a buffer, and keeps its memory if it is no more than `kept_bytes`.
pub(crate) fn clear_keeping(buffer: &mut Vec<u8>, kept_bytes: usize) {
    buffer.clear();
    if buffer.capacity() > kept_bytes {
        buffer.shrink_to(0);
    }
}

impl Reply {
    /// An empty buffer for a connection that speaks `protocol`.
    pub fn new(protocol: Protocol) -> Reply {
        let (len_max, steps_left) = (usize::MAX, STEPS_MAX);
        Reply { buffer: Vec::new(), protocol, len_max, is_cut: false, steps_left }
    }

    /// Has `answer` append the reply to one command. If that is longer than [`ANSWER_BYTES_MAX`],
    /// `too_long` is the reply (I3); the command's changes remain.
    pub fn bounded(&mut self, too_long: &'static str, answer: impl FnOnce(&mut Reply)) {
        self.bounded_or(|| too_long, answer);
    }

    /// The same, with a text that is looked up only if it is needed.
    pub fn bounded_or(
        &mut self,
        too_long: impl FnOnce() -> &'static str,
        answer: impl FnOnce(&mut Reply),
    ) {
        let (start, len_max) = (self.buffer.len(), self.len_max);
        self.len_max = len_max.min(start.saturating_add(ANSWER_BYTES_MAX));
        self.steps_left = STEPS_MAX;
        answer(self);
        self.len_max = len_max;
        if std::mem::take(&mut self.is_cut) {
            self.buffer.truncate(start);
            self.error(too_long());
        }
    }

    /// Takes this many of the steps that this reply may cost; false if fewer are left.
    pub(crate) fn take_steps(&mut self, n: usize) -> bool {
        let left = self.steps_left.checked_sub(n);
        self.steps_left = left.unwrap_or(self.steps_left);
        left.is_some()
    }

    /// Takes the steps of work that is done, or what is left if that is less.
    pub(crate) fn pay_steps(&mut self, n: usize) {
        self.steps_left = self.steps_left.saturating_sub(n);
    }

    /// The steps that this reply may still cost.
    pub(crate) fn steps_left(&self) -> usize {
        self.steps_left
    }

    /// The reply of one of several stores that answer one command, and the steps that it took. Each
    /// store has the steps that are left here: a command is not refused for the length of its own
    /// piece.
    pub(crate) fn of_part(&self, run: impl FnOnce(&mut Reply)) -> (Vec<u8>, usize) {
        let mut part = Reply {
            len_max: ANSWER_BYTES_MAX,
            steps_left: self.steps_left,
            ..Reply::new(self.protocol)
        };
        run(&mut part);
        if std::mem::take(&mut part.is_cut) {
            part.clear();
            part.error(text::ANSWER_TOO_LONG);
        }
        (part.take(), self.steps_left - part.steps_left)
    }

    /// Clears the replies, and keeps the memory if it is no more than `kept_bytes`.
    pub(crate) fn clear_keeping(&mut self, kept_bytes: usize) {
        clear_keeping(&mut self.buffer, kept_bytes);
    }

    /// The bytes that the buffer takes.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// The protocol that replies are encoded in.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Encodes the following replies in `protocol`.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// The encoded replies so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The number of bytes encoded so far.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether bytes were left out, so that [`Reply::bounded`] will answer an error instead (I3).
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether nothing has been encoded.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Clears the replies and keeps the memory.
    pub fn clear(&mut self) {
        self.buffer.clear();
    }

    /// Cuts the buffer back to `len` bytes, a value that [`Reply::len`] once returned.
    pub fn truncate(&mut self, len: usize) {
        self.buffer.truncate(len);
    }

    /// Takes the bytes out and leaves an empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Appends bytes that are encoded already, for instance a recorded reply.
    pub fn raw(&mut self, encoded: &[u8]) {
        if self.buffer.len().saturating_add(encoded.len()) > self.len_max {
            self.is_cut = true;
        } else {
            self.buffer.extend_from_slice(encoded);
        }
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A simple string.
    pub fn simple(&mut self, text: &str) {
        self.raw(b"+");
        self.line(text.as_bytes());
    }

    /// An error. `text` begins with its code: `ERR syntax error`.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.raw(b"-");
        self.line(text.as_ref());
    }

    /// An error that is formatted in place: `reply.error_fmt(format_args!("ERR ..."))`.
    pub fn error_fmt(&mut self, text: fmt::Arguments<'_>) {
        self.error(text.to_string());
    }

    /// An integer.
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// A binary-safe string.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len() as i64);
        self.raw(bytes);
        self.raw(b"\r\n");
    }

    /// An integer as a binary-safe string, the form in which GET answers a counter.
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// The absent string: `$-1`, or RESP3's null.
    pub fn null(&mut self) {
        self.either(b"$-1\r\n", b"_\r\n");
    }

    /// The absent array, as EXEC answers after a conflict: `*-1`, or RESP3's null.
    pub fn null_array(&mut self) {
        self.either(b"*-1\r\n", b"_\r\n");
    }

    /// Opens an array of `len` replies, which must follow.
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    /// The answer to HELP: `lines`, and those about HELP itself.
    pub fn help(&mut self, lines: &[&str]) {
        const ITSELF: [&str; 2] = ["HELP", "    Prints this help."];
        self.array(lines.len() + ITSELF.len());
        lines.iter().chain(&ITSELF).for_each(|line| self.simple(line));
    }

    /// Opens a map of `pairs` keys and values, which must follow; a flat array in RESP2.
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(pairs * 2),
            Protocol::Resp3 => self.header(b'%', pairs as i64),
        }
    }

    /// Opens a set of `len` replies, which must follow; an array in RESP2.
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(len),
            Protocol::Resp3 => self.header(b'~', len as i64),
        }
    }

    /// Opens an out-of-band message of `len` replies; an array in RESP2.
    pub fn push(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(len),
            Protocol::Resp3 => self.header(b'>', len as i64),
        }
    }

    /// A truth value; 1 or 0 in RESP2.
    pub fn boolean(&mut self, value: bool) {
        match (self.protocol, value) {
            (Protocol::Resp2, true) => self.raw(b":1\r\n"),
            (Protocol::Resp2, false) => self.raw(b":0\r\n"),
            (Protocol::Resp3, true) => self.raw(b"#t\r\n"),
            (Protocol::Resp3, false) => self.raw(b"#f\r\n"),
        }
    }

    /// A double, given by its text; a string in RESP2.
    pub fn double(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.raw(b",");
                self.line(text.as_bytes());
            }
        }
    }

    /// An integer of any size, given by its digits; a string in RESP2.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => {
                self.raw(b"(");
                self.line(digits.as_bytes());
            }
        }
    }

    /// A text to be shown as it is, as INFO and CLIENT LIST answer; a string in RESP2.
    pub fn verbatim(&mut self, text: &str) {
        self.verbatim_of(*b"txt", text.as_bytes());
    }

    /// The same, in the format that three letters name.
    pub fn verbatim_of(&mut self, format: [u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.header(b'=', text.len() as i64 + 4);
                self.raw(&format);
                self.raw(b":");
                self.raw(text);
                self.raw(b"\r\n");
            }
        }
    }

    fn either(&mut self, resp2: &[u8], resp3: &[u8]) {
        self.raw(match self.protocol {
            Protocol::Resp2 => resp2,
            Protocol::Resp3 => resp3,
        });
    }

    fn header(&mut self, kind: u8, value: i64) {
        self.raw(&[kind]);
        self.raw(itoa::Buffer::new().format(value).as_bytes());
        self.raw(b"\r\n");
    }

    /// I2: the only place that ends a line of text, and the text has no line break of its own.
    fn line(&mut self, text: &[u8]) {
        let start = self.buffer.len();
        self.raw(text);
        for byte in &mut self.buffer[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.raw(b"\r\n");
    }
}

impl fmt::Write for Reply {
    /// Appends text as it is, for the few replies that are composed in pieces.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.raw(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(encode: impl Fn(&mut Reply)) -> (String, String) {
        let text = |protocol| {
            let mut reply = Reply::new(protocol);
            encode(&mut reply);
            String::from_utf8(reply.take()).unwrap()
        };
        (text(Protocol::Resp2), text(Protocol::Resp3))
    }

    #[test]
    fn every_type_in_both_protocols() {
        let same = |encode: fn(&mut Reply), bytes: &str| {
            assert_eq!(both(encode), (bytes.to_owned(), bytes.to_owned()));
        };
        same(|r| r.ok(), "+OK\r\n");
        same(|r| r.integer(-7), ":-7\r\n");
        same(|r| r.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n");
        same(|r| r.bulk_integer(i64::MIN), "$20\r\n-9223372036854775808\r\n");
        same(|r| r.array(0), "*0\r\n");
        let differ = |encode: fn(&mut Reply), resp2: &str, resp3: &str| {
            assert_eq!(both(encode), (resp2.to_owned(), resp3.to_owned()));
        };
        differ(|r| r.null(), "$-1\r\n", "_\r\n");
        differ(|r| r.null_array(), "*-1\r\n", "_\r\n");
        differ(|r| r.map(2), "*4\r\n", "%2\r\n");
        differ(|r| r.set(2), "*2\r\n", "~2\r\n");
        differ(|r| r.push(2), "*2\r\n", ">2\r\n");
        differ(|r| r.boolean(true), ":1\r\n", "#t\r\n");
        differ(|r| r.boolean(false), ":0\r\n", "#f\r\n");
        differ(|r| r.double("1.5"), "$3\r\n1.5\r\n", ",1.5\r\n");
        differ(|r| r.big_number("12"), "$2\r\n12\r\n", "(12\r\n");
        differ(|r| r.verbatim("hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n");
        differ(|r| r.verbatim_of(*b"mkd", b"hi"), "$2\r\nhi\r\n", "=6\r\nmkd:hi\r\n");
    }

    #[test]
    fn i2_no_client_can_break_a_line() {
        let mut reply = Reply::default();
        reply.error("ERR unknown 'a\r\n+OK\n'");
        reply.simple("a\nb");
        assert_eq!(reply.as_bytes(), b"-ERR unknown 'a  +OK '\r\n+a b\r\n");
    }
}
