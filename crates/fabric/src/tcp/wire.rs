//! The frames of an established link: bytes to types and back, as pure functions.
//!
//! Everything is little endian. A frame is a header of 8 bytes and a body:
//!
//! ```text
//! byte  0        4        5        6        8
//!       | length | opcode | flags  | zero   | body ...
//!       | u32    | u8     | u8     | u16    | `length` bytes
//!
//! opcode              body
//!  1 WRITE            at u32 | request u32 | words
//!  2 READ             at u32 | request u32 | n_words u32 | zero u32
//!  3 CAS              at u32 | request u32 | expected u64 | desired u64
//!  4 FETCH-ADD        at u32 | request u32 | add u64
//!  5 WRITTEN          request u32 | zero u32
//!  6 WORDS            request u32 | zero u32 | words
//!  7 BEFORE           request u32 | zero u32 | word u64
//!  8 REFUSED          request u32 | zero u32
//!  9 MESSAGE          bytes
//! 10 WAKE             nothing
//! 11 PROCESS-FAILED   incarnation u64 | life u64        (from a sentinel only)
//! 12 PARCEL           at u32 | zero u32 | tag u64 | bytes
//! ```
//!
//! Flag bit 0 means "signalled": the poster waits for a completion that names `request`. Without it
//! `request` is zero. Every other flag bit and every field called zero must be zero, so that a
//! later version can give them a meaning that this one refuses instead of misreading.
//!
//! There is no checksum: TCP has one, and protection from more than noise needs TLS.
//!
//! Invariants
//! - W1 [`decode`] never panics and reads nothing but the bytes that it gets, whatever they are.
//!   Tested by `smoke_*` here and by the fuzz target `tcp_wire`.
//! - W2 The frames that [`decode`] returns are inside the limits: places inside the region, no more
//!   words or bytes than the constants allow, only known opcodes. This is the only gateway; later
//!   code does not check again.
//! - W3 Decoding returns what was encoded, and one frame has one encoding. Tested by
//!   `what_is_encoded_is_decoded` and `golden_bytes`.
//! - W4 A length is checked before its bytes are waited for, so no peer can make a link buffer more
//!   than [`FRAME_BYTES_MAX`].

use base::{At, Incarnation, PARCEL_BYTES_MAX};

/// The number of bytes of every frame's header.
pub const HEADER_BYTES: usize = 8;

/// The most words that one WRITE or READ can carry (1 MiB).
pub const WORDS_MAX: usize = 1 << 17;

/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = WORDS_MAX * 8;

/// The longest frame, its header included.
pub const FRAME_BYTES_MAX: usize = PARCEL_HEAD_BYTES + PARCEL_BYTES_MAX;

/// The bytes of a PARCEL before its value.
pub const PARCEL_HEAD_BYTES: usize = HEADER_BYTES + 16;

const _: () = assert!(HEADER_BYTES + MESSAGE_BYTES_MAX <= FRAME_BYTES_MAX);
const _: () = assert!(HEADER_BYTES + 8 + WORDS_MAX * 8 <= FRAME_BYTES_MAX);
const _: () = assert!(FRAME_BYTES_MAX <= u32::MAX as usize);

/// The number of a signalled verb: it counts the signalled verbs of its link from 0, and wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request(pub u32);

impl Request {
    /// The next number.
    #[must_use]
    pub const fn next(self) -> Request {
        Request(self.0.wrapping_add(1))
    }
}

/// The words as they came over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'a>(&'a [[u8; 8]]);

impl Words<'_> {
    /// The number of words.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no words.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Copies all of them to `words`.
    ///
    /// # Panics
    /// If `words` has another length.
    pub fn copy_to(&self, words: &mut [u64]) {
        assert_eq!(self.len(), words.len(), "the caller counted the words");
        for (to, from) in words.iter_mut().zip(self.0) {
            *to = u64::from_le_bytes(*from);
        }
    }
}

/// A frame, borrowed from the bytes in which it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Put `words` at `at`.
    Write {
        /// The first of the places.
        at: At,
        /// The words to put there.
        words: Words<'a>,
        /// The request to answer, if any.
        request: Option<Request>,
    },
    /// Send the words at `at`.
    Read {
        /// The first of the places.
        at: At,
        /// The number of words.
        n_words: u32,
        /// The request to answer.
        request: Request,
    },
    /// Put `desired` at `at` if `expected` is there.
    Cas {
        /// The place.
        at: At,
        /// The expected word.
        expected: u64,
        /// The new word.
        desired: u64,
        /// The request to answer, if any.
        request: Option<Request>,
    },
    /// Add to the word at `at`.
    FetchAdd {
        /// The place.
        at: At,
        /// The number to add (wrapping).
        add: u64,
        /// The request to answer, if any.
        request: Option<Request>,
    },
    /// A WRITE was performed.
    Written {
        /// The request that it answers.
        request: Request,
    },
    /// A READ was performed.
    Words {
        /// The request that it answers.
        request: Request,
        /// The words that were there.
        words: Words<'a>,
    },
    /// A CAS or FETCH-ADD was performed.
    Before {
        /// The request that it answers.
        request: Request,
        /// The word before.
        word: u64,
    },
    /// A WRITE, CAS or FETCH-ADD was not performed: the poster has no permission.
    Refused {
        /// The request that it answers.
        request: Request,
    },
    /// A message for the layer above.
    Message(&'a [u8]),
    /// Look at your region.
    Wake,
    /// The process that the sending sentinel watches has died.
    ProcessFailed {
        /// The incarnation of the node.
        incarnation: Incarnation,
        /// The life of its process.
        life: u64,
    },
    /// Put `bytes` beside the region, at `at`.
    Parcel {
        /// The place, the tag and the length.
        head: ParcelHead,
        /// The value.
        bytes: &'a [u8],
    },
}

/// What a PARCEL says of itself before its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParcelHead {
    /// The place.
    pub at: At,
    /// The tag.
    pub tag: u64,
    /// The length of the value.
    pub n_bytes: usize,
}

/// The reason why bytes are not a frame. The link is dropped, since the next frame cannot be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The frame is longer than any that this version sends.
    #[error("a frame of {0} bytes, more than the limit of {FRAME_BYTES_MAX}")]
    TooLong(u64),
    /// The operation is unknown to this version.
    #[error("an unknown opcode {0}")]
    Opcode(u8),
    /// A flag is unknown to this version, or set where it does not belong.
    #[error("opcode {opcode} with flags {flags:#04x}")]
    Flags {
        /// The opcode.
        opcode: u8,
        /// Its flags.
        flags: u8,
    },
    /// A field that must be zero is not.
    #[error("opcode {0} with a reserved field that is not zero")]
    Reserved(u8),
    /// The body's length does not fit its opcode.
    #[error("opcode {opcode} with a body of {length} bytes")]
    Length {
        /// The opcode.
        opcode: u8,
        /// The length of its body.
        length: u32,
    },
    /// A place is outside the region.
    #[error("{n_words} words at {at}, outside a region of {region_words} words")]
    OutOfRegion {
        /// The first place.
        at: u32,
        /// The number of words from there.
        n_words: u32,
        /// The number of words of the region.
        region_words: u32,
    },
}

mod opcode {
    pub(super) const WRITE: u8 = 1;
    pub(super) const READ: u8 = 2;
    pub(super) const CAS: u8 = 3;
    pub(super) const FETCH_ADD: u8 = 4;
    pub(super) const WRITTEN: u8 = 5;
    pub(super) const WORDS: u8 = 6;
    pub(super) const BEFORE: u8 = 7;
    pub(super) const REFUSED: u8 = 8;
    pub(super) const MESSAGE: u8 = 9;
    pub(super) const WAKE: u8 = 10;
    pub(super) const PROCESS_FAILED: u8 = 11;
    pub(super) const PARCEL: u8 = 12;
}

const SIGNALLED: u8 = 1;

/// The first frame of `bytes` and its length, or `None` if it is incomplete.
///
/// `region_words` is the size of this node's region, against which places are checked.
///
/// # Errors
/// [`WireError`]: these bytes are not a frame, however many more may follow.
pub fn decode(bytes: &[u8], region_words: u32) -> Result<Option<(Frame<'_>, usize)>, WireError> {
    let Some((Header { code, flags, length }, rest)) = header(bytes)? else {
        return Ok(None);
    };
    let Some(body) = rest.get(..length as usize) else {
        return Ok(None);
    };
    let body = Body { code, whole: length, rest: body };
    let frame = decode_body(body, flags & SIGNALLED != 0, region_words)?;
    Ok(Some((frame, HEADER_BYTES + length as usize)))
}

/// The head of the PARCEL with which `bytes` begin, if it is one and the head is there. Its value
/// follows behind [`PARCEL_HEAD_BYTES`], and need not be there.
///
/// # Errors
/// As of [`decode`].
pub fn parcel_head(bytes: &[u8], region_words: u32) -> Result<Option<ParcelHead>, WireError> {
    match header(bytes)? {
        Some((Header { code: opcode::PARCEL, length, .. }, rest)) if rest.len() >= 16 => {
            let mut body = Body { code: opcode::PARCEL, whole: length, rest };
            body.parcel_head(region_words).map(Some)
        }
        Some(_) | None => Ok(None),
    }
}

struct Header {
    code: u8,
    flags: u8,
    length: u32,
}

/// The header with which `bytes` begin, if all of it is there, and the bytes behind it.
fn header(bytes: &[u8]) -> Result<Option<(Header, &[u8])>, WireError> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let [l0, l1, l2, l3, code, flags, z0, z1] = *header;
    let length = u32::from_le_bytes([l0, l1, l2, l3]);
    let total = HEADER_BYTES as u64 + u64::from(length);
    if total > FRAME_BYTES_MAX as u64 {
        return Err(WireError::TooLong(total)); // W4
    }
    if [z0, z1] != [0, 0] {
        return Err(WireError::Reserved(code));
    }
    let flags_known = match code {
        opcode::WRITE | opcode::CAS | opcode::FETCH_ADD => SIGNALLED,
        opcode::READ..=opcode::PARCEL => 0,
        _ => return Err(WireError::Opcode(code)),
    };
    if flags & !flags_known != 0 {
        return Err(WireError::Flags { opcode: code, flags });
    }
    Ok(Some((Header { code, flags, length }, rest)))
}

/// That `n_words` at `at` are in a region of `region_words`.
fn inside(at: At, n_words: usize, region_words: u32) -> Result<(), WireError> {
    if at.0 as u64 + n_words as u64 <= u64::from(region_words) {
        return Ok(());
    }
    let n_words = u32::try_from(n_words).unwrap_or(u32::MAX);
    Err(WireError::OutOfRegion { at: at.0, n_words, region_words })
}

fn decode_body(
    mut body: Body<'_>,
    signalled: bool,
    region_words: u32,
) -> Result<Frame<'_>, WireError> {
    let inside = |at: At, n_words: usize| inside(at, n_words, region_words);
    let frame = match body.code {
        opcode::WRITE => {
            let (at, request) = (At(body.u32()?), body.request(signalled)?);
            let words = body.words()?;
            inside(at, words.len())?;
            Frame::Write { at, words, request }
        }
        opcode::READ => {
            let (at, request) = (At(body.u32()?), Request(body.u32()?));
            let n_words = body.u32()?;
            body.zero()?;
            inside(at, n_words as usize)?;
            if n_words as usize > WORDS_MAX {
                return Err(WireError::TooLong(u64::from(n_words) * 8));
            }
            Frame::Read { at, n_words, request }
        }
        opcode::CAS => {
            let (at, request) = (At(body.u32()?), body.request(signalled)?);
            inside(at, 1)?;
            Frame::Cas { at, expected: body.u64()?, desired: body.u64()?, request }
        }
        opcode::FETCH_ADD => {
            let (at, request) = (At(body.u32()?), body.request(signalled)?);
            inside(at, 1)?;
            Frame::FetchAdd { at, add: body.u64()?, request }
        }
        opcode::WRITTEN => Frame::Written { request: body.completed()? },
        opcode::WORDS => Frame::Words { request: body.completed()?, words: body.words()? },
        opcode::BEFORE => Frame::Before { request: body.completed()?, word: body.u64()? },
        opcode::REFUSED => Frame::Refused { request: body.completed()? },
        opcode::MESSAGE => {
            let message = core::mem::take(&mut body.rest);
            if message.len() > MESSAGE_BYTES_MAX {
                return Err(WireError::TooLong(message.len() as u64));
            }
            Frame::Message(message)
        }
        opcode::WAKE => Frame::Wake,
        opcode::PROCESS_FAILED => {
            Frame::ProcessFailed { incarnation: Incarnation(body.u64()?), life: body.u64()? }
        }
        opcode::PARCEL => {
            let head = body.parcel_head(region_words)?;
            Frame::Parcel { head, bytes: core::mem::take(&mut body.rest) }
        }
        unknown => return Err(WireError::Opcode(unknown)),
    };
    if body.rest.is_empty() { Ok(frame) } else { Err(body.wrong_length()) }
}

/// The rest of a body, and the error if it is too short or too long.
struct Body<'a> {
    code: u8,
    whole: u32,
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    fn wrong_length(&self) -> WireError {
        WireError::Length { opcode: self.code, length: self.whole }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(self.wrong_length())?;
        self.rest = rest;
        Ok(*array)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    fn zero(&mut self) -> Result<(), WireError> {
        if self.u32()? == 0 { Ok(()) } else { Err(WireError::Reserved(self.code)) }
    }

    fn request(&mut self, signalled: bool) -> Result<Option<Request>, WireError> {
        match (signalled, self.u32()?) {
            (true, number) => Ok(Some(Request(number))),
            (false, 0) => Ok(None),
            (false, _) => Err(WireError::Reserved(self.code)),
        }
    }

    fn completed(&mut self) -> Result<Request, WireError> {
        let request = Request(self.u32()?);
        self.zero()?;
        Ok(request)
    }

    fn words(&mut self) -> Result<Words<'a>, WireError> {
        let (words, odd) = self.rest.as_chunks();
        if !odd.is_empty() {
            return Err(self.wrong_length());
        }
        self.rest = odd;
        // W2: a frame of another kind may be longer.
        if words.len() > WORDS_MAX {
            return Err(WireError::TooLong(words.len() as u64 * 8));
        }
        Ok(Words(words))
    }

    fn parcel_head(&mut self, region_words: u32) -> Result<ParcelHead, WireError> {
        let n_bytes = (self.whole as usize).checked_sub(PARCEL_HEAD_BYTES - HEADER_BYTES);
        let (at, n_bytes) = (At(self.u32()?), n_bytes.ok_or(self.wrong_length())?);
        self.zero()?;
        inside(at, 1, region_words)?;
        Ok(ParcelHead { at, tag: self.u64()?, n_bytes })
    }
}

/// Appends a WRITE.
///
/// # Panics
/// With more than [`WORDS_MAX`] words.
pub fn put_write(out: &mut Vec<u8>, at: At, words: &[u64], request: Option<Request>) {
    assert!(words.len() <= WORDS_MAX, "a WRITE of {} words, the most is {WORDS_MAX}", words.len());
    put_header(out, opcode::WRITE, flags_of(request), 8 + words.len() * 8);
    put_u32s(out, at.0, number_of(request));
    put_words(out, words);
}

/// Appends a READ.
///
/// # Panics
/// With more than [`WORDS_MAX`] words.
pub fn put_read(out: &mut Vec<u8>, at: At, n_words: usize, request: Request) {
    assert!(n_words <= WORDS_MAX, "a READ of {n_words} words, the most is {WORDS_MAX}");
    put_header(out, opcode::READ, 0, 16);
    put_u32s(out, at.0, request.0);
    put_u32s(out, n_words as u32, 0);
}

/// Appends a CAS.
pub fn put_cas(out: &mut Vec<u8>, at: At, expected: u64, desired: u64, request: Option<Request>) {
    put_header(out, opcode::CAS, flags_of(request), 24);
    put_u32s(out, at.0, number_of(request));
    put_words(out, &[expected, desired]);
}

/// Appends a FETCH-ADD.
pub fn put_fetch_add(out: &mut Vec<u8>, at: At, add: u64, request: Option<Request>) {
    put_header(out, opcode::FETCH_ADD, flags_of(request), 16);
    put_u32s(out, at.0, number_of(request));
    put_words(out, &[add]);
}

/// Appends the completion of a WRITE.
pub fn put_written(out: &mut Vec<u8>, request: Request) {
    put_header(out, opcode::WRITTEN, 0, 8);
    put_u32s(out, request.0, 0);
}

/// Appends the completion of a READ.
///
/// # Panics
/// With more than [`WORDS_MAX`] words.
pub fn put_words_read(out: &mut Vec<u8>, request: Request, words: &[u64]) {
    assert!(words.len() <= WORDS_MAX, "no READ asks for {} words", words.len());
    put_header(out, opcode::WORDS, 0, 8 + words.len() * 8);
    put_u32s(out, request.0, 0);
    put_words(out, words);
}

/// Appends the completion of a CAS or FETCH-ADD.
pub fn put_before(out: &mut Vec<u8>, request: Request, word: u64) {
    put_header(out, opcode::BEFORE, 0, 16);
    put_u32s(out, request.0, 0);
    put_words(out, &[word]);
}

/// Appends the refusal of a WRITE, CAS or FETCH-ADD.
pub fn put_refused(out: &mut Vec<u8>, request: Request) {
    put_header(out, opcode::REFUSED, 0, 8);
    put_u32s(out, request.0, 0);
}

/// Appends a message.
///
/// # Panics
/// With more than [`MESSAGE_BYTES_MAX`] bytes.
pub fn put_message(out: &mut Vec<u8>, message: &[u8]) {
    let n_bytes = message.len();
    assert!(
        n_bytes <= MESSAGE_BYTES_MAX,
        "a message of {n_bytes} bytes, the most is {MESSAGE_BYTES_MAX}"
    );
    put_header(out, opcode::MESSAGE, 0, n_bytes);
    out.extend_from_slice(message);
}

/// Appends a WAKE.
pub fn put_wake(out: &mut Vec<u8>) {
    put_header(out, opcode::WAKE, 0, 0);
}

/// Appends the report of a death.
pub fn put_process_failed(out: &mut Vec<u8>, incarnation: Incarnation, life: u64) {
    put_header(out, opcode::PROCESS_FAILED, 0, 16);
    put_words(out, &[incarnation.0, life]);
}

/// Appends the head of a PARCEL, behind which its value follows.
///
/// # Panics
/// With more than [`PARCEL_BYTES_MAX`] bytes.
pub fn put_parcel_head(out: &mut Vec<u8>, head: &ParcelHead) {
    let ParcelHead { at, tag, n_bytes } = *head;
    assert!(
        n_bytes <= PARCEL_BYTES_MAX,
        "a parcel of {n_bytes} bytes, the most is {PARCEL_BYTES_MAX}"
    );
    put_header_alone(out, opcode::PARCEL, 0, 16 + n_bytes);
    put_u32s(out, at.0, 0);
    put_words(out, &[tag]);
}

fn flags_of(request: Option<Request>) -> u8 {
    if request.is_some() { SIGNALLED } else { 0 }
}

fn number_of(request: Option<Request>) -> u32 {
    request.map_or(0, |request| request.0)
}

fn put_header(out: &mut Vec<u8>, code: u8, flags: u8, body_bytes: usize) {
    debug_assert!(HEADER_BYTES + body_bytes <= FRAME_BYTES_MAX, "every caller bounds its body");
    out.reserve(HEADER_BYTES + body_bytes);
    put_header_alone(out, code, flags, body_bytes);
}

/// The header of a frame whose body is not all appended.
fn put_header_alone(out: &mut Vec<u8>, code: u8, flags: u8, body_bytes: usize) {
    out.extend_from_slice(&(body_bytes as u32).to_le_bytes());
    out.extend_from_slice(&[code, flags, 0, 0]);
}

fn put_u32s(out: &mut Vec<u8>, first: u32, second: u32) {
    out.extend_from_slice(&(u64::from(first) | u64::from(second) << 32).to_le_bytes());
}

fn put_words(out: &mut Vec<u8>, words: &[u64]) {
    let start = out.len();
    out.resize(start + words.len() * 8, 0);
    let (chunks, _) = out[start..].as_chunks_mut();
    for (to, from) in chunks.iter_mut().zip(words) {
        *to = from.to_le_bytes();
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
