//! The parser: one call performs one step.

use std::ops::Range;

use super::{
    ARGS_MAX, ARGS_MAX_UNAUTHENTICATED, BULK_BYTES_MAX, BULK_BYTES_MAX_UNAUTHENTICATED,
    INPUT_BYTES_MAX, LINE_BYTES_MAX, ProtocolError, REQUEST_BYTES_MAX, inline,
};
use crate::command::Args;
use crate::exec::parse_integer;

/// Finds the requests in the bytes of one connection.
#[derive(Clone, Debug)]
pub struct Parser {
    /// The offset in the input at which the current request begins.
    start: usize,
    /// The offset at which parsing resumes.
    at: usize,
    state: State,
    /// The ranges of the arguments, in the input or in `words`.
    ranges: Vec<Range<u32>>,
    /// The unescaped words of an inline command.
    words: Vec<u8>,
    /// Whether the current request is over a limit and its bytes are dropped as they arrive (I3).
    skipping: bool,
    authenticated: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Between requests.
    Idle,
    /// In an array, before the head of an argument; this many are still to come.
    Head { left: usize },
    /// In an argument; this many of its bytes, including the line end, are still to come.
    Bulk { left: usize, bytes: usize },
}

/// The outcome of one step. The caller removes `consumed` bytes at the front of the input before
/// the next step.
#[derive(Debug)]
pub enum Parse<'a> {
    /// No complete request yet.
    More {
        /// The number of bytes to remove now.
        consumed: usize,
    },
    /// A request of at least one argument.
    Request(Request<'a>),
    /// The end of a request that was skipped because of its length: answer
    /// [`too_long`](super::too_long).
    TooLong {
        /// The number of bytes to remove now.
        consumed: usize,
    },
}

/// A complete request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    bytes: &'a [u8],
    ranges: &'a [Range<u32>],
    consumed: usize,
}

impl<'a> Request<'a> {
    /// The number of bytes to remove from the input once the arguments have been used.
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// The number of arguments, the name included; not zero.
    #[expect(clippy::len_without_is_empty, reason = "a request is never empty")]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// One argument.
    pub fn arg(&self, at: usize) -> &'a [u8] {
        let Range { start, end } = self.ranges[at];
        &self.bytes[start as usize..end as usize]
    }

    /// All arguments.
    pub fn args(&self) -> Args<'a> {
        (0..self.len()).map(|at| self.arg(at)).collect()
    }
}

/// The result of parsing a part of the input.
enum Progress {
    /// The part was complete.
    Done,
    /// The end of the part has not arrived.
    Wait,
}

impl Default for Parser {
    fn default() -> Parser {
        Parser::new(true)
    }
}

impl Parser {
    /// A parser at the beginning of a connection. One that is not `authenticated` may send small
    /// requests only.
    pub fn new(authenticated: bool) -> Parser {
        Parser {
            start: 0,
            at: 0,
            state: State::Idle,
            ranges: Vec::new(),
            words: Vec::new(),
            skipping: false,
            authenticated,
        }
    }

    /// Lifts or restores the narrow limits of a client that has not authenticated yet.
    pub fn set_authenticated(&mut self, authenticated: bool) {
        self.authenticated = authenticated;
    }

    /// One step. `input` begins with the first byte that has not been consumed, and contains at
    /// least what it contained after the last step.
    ///
    /// # Errors
    /// The bytes are not a request; the connection cannot continue.
    pub fn parse<'a>(&'a mut self, input: &'a [u8]) -> Result<Parse<'a>, ProtocolError> {
        loop {
            let mut is_inline = false;
            let progress = match self.state {
                State::Idle => {
                    self.start = self.at;
                    self.ranges.clear();
                    match input.get(self.at) {
                        None => Progress::Wait,
                        Some(b'*') => self.array(input)?,
                        Some(_) => {
                            is_inline = true;
                            self.inline(input)?
                        }
                    }
                }
                State::Head { left } => self.head(input, left)?,
                State::Bulk { left, bytes } => self.bulk(input, left, bytes),
            };
            if let Progress::Wait = progress {
                let consumed = self.wait();
                assert!(input.len() - consumed <= INPUT_BYTES_MAX, "I3");
                return Ok(Parse::More { consumed });
            }
            if self.state != State::Idle {
                continue;
            }
            if std::mem::take(&mut self.skipping) {
                return Ok(Parse::TooLong { consumed: std::mem::take(&mut self.at) });
            }
            // Empty lines and arrays are no requests and get no reply.
            if !self.ranges.is_empty() {
                let consumed = std::mem::take(&mut self.at);
                let bytes = if is_inline { &self.words[..] } else { &input[..consumed] };
                return Ok(Parse::Request(Request { bytes, ranges: &self.ranges, consumed }));
            }
        }
    }

    /// The number of bytes that can be removed while the current request is incomplete.
    fn wait(&mut self) -> usize {
        if self.skipping {
            self.start = self.at;
        }
        let consumed = std::mem::take(&mut self.start);
        self.at -= consumed;
        for range in &mut self.ranges {
            *range = range.start - consumed as u32..range.end - consumed as u32;
        }
        consumed
    }

    fn inline(&mut self, input: &[u8]) -> Result<Progress, ProtocolError> {
        // As in C, a NUL hides the end of the line.
        let Some(mut line) = line(input, self.at, b'\n', ProtocolError::InlineTooLong)? else {
            return Ok(Progress::Wait);
        };
        self.at = line.end + 1;
        if input[line.clone()].ends_with(b"\r") {
            line.end -= 1;
        }
        self.words.clear();
        match inline::split(&input[line], &mut self.words, &mut self.ranges) {
            Some(()) => Ok(Progress::Done),
            None => Err(ProtocolError::UnbalancedQuotes),
        }
    }

    fn array(&mut self, input: &[u8]) -> Result<Progress, ProtocolError> {
        let Some(count) = self.number(input, ProtocolError::ArrayHeadTooLong)? else {
            return Ok(Progress::Wait);
        };
        let count = count.filter(|&count| count <= i64::from(i32::MAX));
        let count = count.ok_or(ProtocolError::ArrayLength)?;
        if !self.authenticated && count > ARGS_MAX_UNAUTHENTICATED {
            return Err(ProtocolError::UnauthenticatedArrayLength);
        }
        if let Ok(left @ 1..) = usize::try_from(count) {
            self.skipping = left > ARGS_MAX;
            self.state = State::Head { left };
        }
        Ok(Progress::Done)
    }

    fn head(&mut self, input: &[u8], left: usize) -> Result<Progress, ProtocolError> {
        // Redis looks for the end of the line before it looks at its first byte.
        let first = input.get(self.at).copied();
        let Some(bytes) = self.number(input, ProtocolError::BulkHeadTooLong)? else {
            return Ok(Progress::Wait);
        };
        if let Some(other) = first.filter(|&byte| byte != b'$') {
            return Err(ProtocolError::NotABulk(other));
        }
        let bytes = bytes.filter(|bytes| (0..=BULK_BYTES_MAX).contains(bytes));
        let bytes = bytes.ok_or(ProtocolError::BulkLength)?;
        if !self.authenticated && bytes > BULK_BYTES_MAX_UNAUTHENTICATED {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        // The two bytes after an argument are skipped unseen, as Redis does.
        let bytes = bytes as usize + 2;
        if self.at - self.start + bytes > REQUEST_BYTES_MAX {
            self.skipping = true;
            self.ranges.clear();
        }
        self.state = State::Bulk { left, bytes };
        Ok(Progress::Done)
    }

    fn bulk(&mut self, input: &[u8], left: usize, bytes: usize) -> Progress {
        let there = input.len() - self.at;
        if there < bytes {
            if self.skipping {
                self.at = input.len();
                self.state = State::Bulk { left, bytes: bytes - there };
            }
            return Progress::Wait;
        }
        if !self.skipping {
            self.ranges.push(self.at as u32..(self.at + bytes - 2) as u32);
        }
        self.at += bytes;
        self.state = if left == 1 { State::Idle } else { State::Head { left: left - 1 } };
        Progress::Done
    }

    /// The number after the first byte of the line at `at`, which is then consumed; `None` inside
    /// if it is not a number, outside if the line is incomplete.
    fn number(
        &mut self,
        input: &[u8],
        too_long: ProtocolError,
    ) -> Result<Option<Option<i64>>, ProtocolError> {
        if let Some((number, end)) = short_number(&input[self.at..]) {
            self.at += end;
            return Ok(Some(Some(number)));
        }
        let Some(line) = line(input, self.at, b'\r', too_long)? else { return Ok(None) };
        // The line feed must have arrived, but its value is not checked.
        if line.end + 1 >= input.len() {
            return Ok(None);
        }
        self.at = line.end + 2;
        Ok(Some(parse_integer(input[line].get(1..).unwrap_or_default())))
    }
}

/// The fast path for the form of almost every head: a byte, a few digits, the line end. Returns the
/// number and where the line ends; `None` leaves the decision to the general path.
fn short_number(head: &[u8]) -> Option<(i64, usize)> {
    const DIGITS_MAX: usize = 6;
    let mut number = 0;
    for (at, &byte) in head.iter().enumerate().take(DIGITS_MAX + 2).skip(1) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let one_spelling = at == 2 || (at > 2 && head[1] != b'0');
            let ends = byte == b'\r' && at + 1 < head.len();
            return (one_spelling && ends).then_some((number, at + 2));
        }
        number = number * 10 + i64::from(digit);
    }
    None
}

/// The line at `at` up to its end mark, when that has arrived.
fn line(
    input: &[u8],
    at: usize,
    end_mark: u8,
    too_long: ProtocolError,
) -> Result<Option<Range<usize>>, ProtocolError> {
    // Redis's C looks for the end with `strchr`, which finds nothing behind a NUL.
    let rest = &input[at..];
    let window = &rest[..rest.len().min(LINE_BYTES_MAX + 1)];
    let end = window.iter().position(|&byte| byte == end_mark || byte == 0);
    match end {
        Some(end) if window[end] == end_mark => Ok(Some(at..at + end)),
        _ if rest.len() > LINE_BYTES_MAX => Err(too_long),
        _ => Ok(None),
    }
}
