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

use crate::MESSAGE_CHANNEL;
use crate::codec::{self, Coded, Malformed, Out, Reader, Tagged, Varints, number};
use crate::keyed::{KeyedHost, Tag};
use alloc::vec::Vec;
use base::MAX_MEMBERS;

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

codec::coded! {
    /// What a message says.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Body<'a> in Varints {
        Beat = 0,
        Query { number: u64, key: &'a [u8] } = 1,
        Value { number: u64, run: u64, tag: Tag, value: &'a [u8] } = 2,
        Store { number: u64, key: &'a [u8], tag: Tag, value: &'a [u8] } = 3,
        Stored { number: u64, run: u64 } = 4,
        Fetch { piece: u64, giver: u64, after: Option<&'a [u8]> } = 5,
        Piece { piece: u64, run: u64, is_last: bool, entries: Entries<'a> } = 6,
    }
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
        core::iter::from_fn(move || Entry::take(&mut rest).ok())
    }
}

/// A key, and its version and value.
type Entry<'a> = (&'a [u8], Tag, &'a [u8]);

impl<'a: 'b, 'b> Coded<'a, Varints> for Entries<'b> {
    fn put(&self, out: &mut impl Out) {
        out.extend_from_slice(self.0);
    }

    fn take(from: &mut Reader<'a>) -> Result<Entries<'b>, Malformed> {
        let entries = Entries(from.rest());
        while !from.is_at_end() {
            Entry::take(from)?;
        }
        Ok(entries)
    }
}

/// Writes a message into `out`, which is emptied first.
pub(super) fn encode(header: &Header, members: usize, body: &Body<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[MESSAGE_CHANNEL, body.tag(), header.counts.into(), members as u8]);
    header.runs[..members].iter().for_each(|run| number(*run, out));
    body.put_fields(out);
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
        (key, tag, value).put(out);
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
    let body = Body::take_fields(kind, &mut from)?;
    if from.is_at_end() { Ok((Header { counts, runs }, body)) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::bytes::{self, Example};
    use base::Incarnation;

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
            (key, TAG, &b"value"[..]).put(&mut bytes);
        }
        let mut out = Vec::new();
        let entries = Entries(&bytes);
        encode(&HEADER, 3, &Body::Piece { piece: 1, run: 9, is_last: false, entries }, &mut out);
        let Ok((_, Body::Piece { entries, .. })) = decode(&out, 3) else { panic!() };
        let read: Vec<_> = entries.iter().collect();
        assert_eq!(read, [(&b"a"[..], TAG, &b"value"[..]), (b"b", TAG, b"value")]);
    }
}
