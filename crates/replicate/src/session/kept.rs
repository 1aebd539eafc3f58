//! Requests that are kept, to be repeated where a copy begins with a checkpoint.

use super::{COMMON_BYTES_MAX, KEPT_BYTES_MAX};
use std::collections::VecDeque;

/// Requests, each at its last place (R3), in the order in which they were executed (R5).
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// Each with its number.
    requests: VecDeque<(u64, Vec<u8>)>,
    n_bytes: usize,
    /// Something did not fit, or it is not known whether it was executed.
    is_over: bool,
}

impl Kept {
    fn push(&mut self, mut number: u64, raw: Option<&[u8]>, bytes_max: usize) {
        let Some(raw) = raw else {
            self.is_over = true;
            return;
        };
        if let Some(at) = self.requests.iter().position(|(_, one)| one == raw) {
            number = number.max(self.requests.remove(at).map_or(0, |(before, _)| before));
            self.n_bytes -= raw.len();
        }
        if self.n_bytes + raw.len() > bytes_max {
            self.is_over = true;
            return;
        }
        self.n_bytes += raw.len();
        let at = self.requests.partition_point(|(other, _)| *other <= number);
        self.requests.insert(at, (number, raw.to_vec()));
    }

    /// The requests, if they are all there.
    pub(super) fn requests(&self) -> Option<impl Iterator<Item = &Vec<u8>>> {
        (!self.is_over).then(|| self.requests.iter().map(|(_, raw)| raw))
    }
}

/// What a program was told on all connections, beside what its checkpoint holds (R2).
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    kept: Kept,
    /// The numbers that were given, of all connections (R5).
    n_numbers: u64,
    /// The last number that was given before the last point.
    at_point: u64,
}

impl Common {
    /// What a checkpoint repeats.
    pub(crate) fn of(requests: &[Vec<u8>]) -> Common {
        let mut common = Common::default();
        for raw in requests {
            let number = common.number();
            common.push(number, Some(raw));
        }
        common
    }

    /// The requests, if they are all there.
    pub(crate) fn requests(&self) -> Option<Vec<Vec<u8>>> {
        Some(self.kept.requests()?.cloned().collect())
    }

    /// The copy is at a point: all that the program has said was heard.
    pub(crate) fn pass_point(&mut self) {
        self.at_point = self.n_numbers;
    }

    fn push(&mut self, number: u64, raw: Option<&[u8]>) {
        self.kept.push(number.max(self.at_point), raw, COMMON_BYTES_MAX);
    }

    /// The number of a request that is fed next.
    pub(super) fn number(&mut self) -> u64 {
        self.n_numbers += 1;
        self.n_numbers
    }
}

/// What a request makes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Connection,
    Program,
    /// The program's scripts. A script that fails is there all the same. One that is repeated in
    /// vain gives no rights, and changes no value.
    Scripts,
}

/// A request that is kept when it was executed (R4).
#[derive(Clone, Debug)]
pub(super) struct Keep {
    of: Of,
    /// When it is executed, among those of all connections (R5).
    number: u64,
    /// Its bytes, if it can be repeated.
    raw: Option<Vec<u8>>,
}

impl Keep {
    pub(super) fn new(of: Of, number: u64, raw: Option<&[u8]>) -> Keep {
        Keep { of, number, raw: raw.map(<[u8]>::to_vec) }
    }

    /// A request that leaves its script with the program, which is repeated as one that only loads
    /// it.
    pub(super) fn script(number: u64, raw: Option<&[u8]>) -> Keep {
        Keep { of: Of::Scripts, number, raw: loading(raw) }
    }

    /// It was queued, and is executed with the request of this number.
    pub(super) fn executed_at(self, number: u64) -> Keep {
        Keep { number, ..self }
    }

    pub(super) fn n_bytes(&self) -> usize {
        self.raw.as_ref().map_or(0, Vec::len)
    }

    /// Whether the answer that begins so says that it was executed.
    pub(super) fn was_executed(&self, line: &[u8]) -> bool {
        match self.of {
            Of::Connection | Of::Program => !is_error(line),
            Of::Scripts => !is_before_script(line),
        }
    }

    /// It was executed.
    pub(super) fn keep(&self, kept: &mut Kept, common: &mut Common) {
        let raw = self.raw.as_deref();
        match self.of {
            Of::Connection => kept.push(self.number, raw, KEPT_BYTES_MAX),
            Of::Program | Of::Scripts => common.push(self.number, raw),
        }
    }

    /// It is not known whether it was executed.
    pub(super) fn doubt(&self, kept: &mut Kept, common: &mut Common) {
        match self.of {
            Of::Connection => kept.is_over = true,
            Of::Program => common.kept.is_over = true,
            Of::Scripts => self.keep(kept, common),
        }
    }
}

/// Whether an answer that begins so is an error.
pub(super) fn is_error(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'-' | b'!'))
}

/// Whether an answer is an error of a request whose script was not even looked at.
fn is_before_script(line: &[u8]) -> bool {
    let refused: [&[u8]; 5] = [
        b"-NOAUTH",
        b"-NOPERM",
        b"-ERR wrong number of arguments",
        b"-ERR unknown command",
        b"-ERR Number of keys",
    ];
    // An error of a command within the script names that.
    let is_of_script = line.windows(8).any(|part| part == b"script: ");
    let is_refused = refused.iter().any(|with| line.starts_with(with));
    is_refused && !is_of_script || line == b"-ERR value is not an integer or out of range"
}

/// A script as a request that only loads it. It needs the bytes, in parts.
fn loading(raw: Option<&[u8]>) -> Option<Vec<u8>> {
    let mut rest = raw?;
    let mut body = None;
    for at in 0..3 {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let (line, left) = rest.split_at(end + 1);
        if at == 0 {
            rest = left; // the number of arguments
            continue;
        }
        let len = std::str::from_utf8(line.strip_prefix(b"$")?.trim_ascii_end()).ok()?;
        let (argument, left) = left.split_at_checked(len.parse::<usize>().ok()?)?;
        (body, rest) = (Some(argument), left.get(2..)?);
    }
    let body = body?;
    let mut out = format!("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${}\r\n", body.len()).into_bytes();
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
    Some(out)
}
