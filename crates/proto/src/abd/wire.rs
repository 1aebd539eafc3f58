//! Messages between members, as bytes.
//!
//! ```text
//! message = channel (1) | kind (1) | counts (1) | members (1) | run of each member | body
//! beat    = nothing
//! query   = number | key                        value  = number | run | tag | value
//! store   = number | key | tag | value          stored = number | run
//! fetch   = piece | giver | 0, or 1 and a key   piece  = piece | run | is last (1) | entry*
//! entry   = key | tag | value
//! ```
//! Numbers have seven bits a byte; keys and values follow their lengths. Each message says which
//! run of each member its sender has heard of, its own included (A3), and whether the sender's
//! replica counts. A reply names the run that it answers, and a fetch that continues names the run
//! that gave the piece before (zero for the first piece: any run).

use crate::amcast::wire::{Malformed, Reader, number};
use crate::keyed::Tag;
use crate::{MESSAGE_CHANNEL, keyed::KeyedHost};
use alloc::vec::Vec;
use base::{Incarnation, MAX_MEMBERS};

/// The runs of all members, as far as one of them knows; zero for none.
pub(super) type Runs = [u64; MAX_MEMBERS];

/// A piece of a state is ended behind the entry that makes it longer than this.
const PIECE_BYTES: usize = 32 << 10;

/// What every message says of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) counts: bool,
    pub(super) runs: Runs,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body<'a> {
    Beat,
    Query { number: u64, key: &'a [u8] },
    Value { number: u64, run: u64, tag: Tag, value: &'a [u8] },
    Store { number: u64, key: &'a [u8], tag: Tag, value: &'a [u8] },
    Stored { number: u64, run: u64 },
    Fetch { piece: u64, giver: u64, after: Option<&'a [u8]> },
    Piece { piece: u64, run: u64, is_last: bool, entries: Entries<'a> },
}

/// The registers in a piece, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entries<'a>(&'a [u8]);

impl<'a> Entries<'a> {
    #[cfg(test)]
    pub(super) const NONE: Entries<'static> = Entries(&[]);

    /// Of bytes that [`put_entries`] has written.
    pub(super) fn of(bytes: &'a [u8]) -> Entries<'a> {
        Entries(bytes)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = (&'a [u8], Tag, &'a [u8])> {
        let mut rest = Reader::new(self.0);
        core::iter::from_fn(move || if rest.is_at_end() { None } else { entry(&mut rest).ok() })
    }
}

fn entry<'a>(from: &mut Reader<'a>) -> Result<(&'a [u8], Tag, &'a [u8]), Malformed> {
    Ok((from.bytes()?, tag(from)?, from.bytes()?))
}

fn tag(from: &mut Reader<'_>) -> Result<Tag, Malformed> {
    let counter = from.number()?;
    let rank = u16::try_from(from.number()?).map_err(|_| Malformed)?;
    Ok(Tag { counter, rank, run: Incarnation(from.number()?) })
}

fn put_tag(tag: Tag, out: &mut Vec<u8>) {
    number(tag.counter, out);
    number(u64::from(tag.rank), out);
    number(tag.run.0, out);
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes a message into `out`, which is emptied first.
pub(super) fn encode(header: &Header, members: usize, body: &Body<'_>, out: &mut Vec<u8>) {
    let kind = match body {
        Body::Beat => 0,
        Body::Query { .. } => 1,
        Body::Value { .. } => 2,
        Body::Store { .. } => 3,
        Body::Stored { .. } => 4,
        Body::Fetch { .. } => 5,
        Body::Piece { .. } => 6,
    };
    out.clear();
    out.extend_from_slice(&[MESSAGE_CHANNEL, kind, u8::from(header.counts), members as u8]);
    header.runs[..members].iter().for_each(|run| number(*run, out));
    match *body {
        Body::Beat => {}
        Body::Query { number: n, key } => {
            number(n, out);
            put_bytes(key, out);
        }
        Body::Value { number: n, run, tag, value } => {
            number(n, out);
            number(run, out);
            put_tag(tag, out);
            put_bytes(value, out);
        }
        Body::Store { number: n, key, tag, value } => {
            number(n, out);
            put_bytes(key, out);
            put_tag(tag, out);
            put_bytes(value, out);
        }
        Body::Stored { number: n, run } => {
            number(n, out);
            number(run, out);
        }
        Body::Fetch { piece, giver, after } => {
            number(piece, out);
            number(giver, out);
            out.push(u8::from(after.is_some()));
            after.into_iter().for_each(|key| put_bytes(key, out));
        }
        Body::Piece { piece, run, is_last, entries } => {
            number(piece, out);
            number(run, out);
            out.push(u8::from(is_last));
            out.extend_from_slice(entries.0);
        }
    }
}

/// Puts the registers of `host` behind `after` into `out`, one piece of them. True if they are the
/// last.
pub(super) fn put_entries(host: &impl KeyedHost, after: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    out.clear();
    let mut next = host.next_register(after);
    while let Some((key, tag, value)) = next {
        if out.len() > PIECE_BYTES {
            return false;
        }
        put_bytes(key, out);
        put_tag(tag, out);
        put_bytes(value, out);
        next = host.next_register(Some(key));
    }
    true
}

/// Reads a message of a group of `members`. All of it is checked here.
///
/// # Errors
/// [`Malformed`]: it was not written by [`encode`] for such a group.
pub(super) fn decode(bytes: &[u8], members: usize) -> Result<(Header, Body<'_>), Malformed> {
    let mut from = Reader::new(bytes);
    let (channel, kind) = (from.byte()?, from.byte()?);
    let counts = from.flag()?;
    if channel != MESSAGE_CHANNEL || usize::from(from.byte()?) != members {
        return Err(Malformed);
    }
    let mut runs = Runs::default();
    for run in &mut runs[..members] {
        *run = from.number()?;
    }
    let body = match kind {
        0 => Body::Beat,
        1 => Body::Query { number: from.number()?, key: from.bytes()? },
        2 => Body::Value {
            number: from.number()?,
            run: from.number()?,
            tag: tag(&mut from)?,
            value: from.bytes()?,
        },
        3 => Body::Store {
            number: from.number()?,
            key: from.bytes()?,
            tag: tag(&mut from)?,
            value: from.bytes()?,
        },
        4 => Body::Stored { number: from.number()?, run: from.number()? },
        5 => {
            let (piece, giver) = (from.number()?, from.number()?);
            let after = if from.flag()? { Some(from.bytes()?) } else { None };
            Body::Fetch { piece, giver, after }
        }
        6 => {
            let (piece, run, is_last) = (from.number()?, from.number()?, from.flag()?);
            let entries = Entries(from.rest());
            while !from.is_at_end() {
                entry(&mut from)?;
            }
            Body::Piece { piece, run, is_last, entries }
        }
        _ => return Err(Malformed),
    };
    if from.is_at_end() { Ok((Header { counts, runs }, body)) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::bytes::{self, Example};

    const HEADER: Header = Header { counts: true, runs: [7, 1 << 40, 0, 0, 0, 0, 0] };
    const TAG: Tag = Tag { counter: 300, rank: 2, run: Incarnation(1 << 41) };

    const TWO_ENTRIES: &[u8] = &[1, b'a', 3, 2, 9, 0, 2, b'b', b'c', 0, 0, 1, 1, b'v'];

    fn bodies() -> Vec<Body<'static>> {
        alloc::vec![
            Body::Beat,
            Body::Query { number: 5, key: b"k" },
            Body::Value { number: 5, run: 9, tag: TAG, value: b"" },
            Body::Store { number: 6, key: b"key", tag: TAG, value: b"value" },
            Body::Stored { number: 6, run: 9 },
            Body::Fetch { piece: 0, giver: 0, after: None },
            Body::Fetch { piece: 3, giver: 1 << 33, after: Some(b"") },
            Body::Piece { piece: 3, run: 9, is_last: true, entries: Entries::NONE },
            Body::Piece { piece: 4, run: 9, is_last: false, entries: Entries::of(TWO_ENTRIES) },
        ]
    }

    fn example(message: (Header, Body<'_>)) -> Example {
        let mut out = Vec::new();
        encode(&message.0, 3, &message.1, &mut out);
        Example::new((message.1, message.0), out)
    }

    #[test]
    fn golden_bytes_of_each_message() {
        let examples: Vec<_> = bodies().into_iter().map(|body| example((HEADER, body))).collect();
        bytes::check("abd/scripts/bytes.txt", 1, &examples, &|bytes| {
            decode(bytes, 3).ok().map(example)
        });
        let mut of_three = Vec::new();
        encode(&HEADER, 3, &Body::Beat, &mut of_three);
        assert_eq!(decode(&of_three, 5), Err(Malformed));
    }

    #[test]
    fn entries_are_read_in_their_order() {
        let mut bytes = Vec::new();
        for key in [&b"a"[..], b"b"] {
            put_bytes(key, &mut bytes);
            put_tag(TAG, &mut bytes);
            put_bytes(b"value", &mut bytes);
        }
        let mut out = Vec::new();
        let entries = Entries(&bytes);
        encode(&HEADER, 3, &Body::Piece { piece: 1, run: 9, is_last: false, entries }, &mut out);
        let Ok((_, Body::Piece { entries, .. })) = decode(&out, 3) else { panic!() };
        let read: Vec<_> = entries.iter().collect();
        assert_eq!(read, [(&b"a"[..], TAG, &b"value"[..]), (b"b", TAG, b"value")]);
    }
}
