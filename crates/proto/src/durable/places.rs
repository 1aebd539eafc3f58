//! The layout of a region, and the two things that peers write there: records into a ring, and
//! acknowledgements.
//!
//! ```text
//! promised    one line, which its owner writes: see [`Published`]
//! ack         one line a follower, which writes it: see [`Ack`]
//! rings       one a writer, `ring_words` each: see [`record`]
//! ```
//!
//! - I10 Only whole data is accepted: a published promise and an acknowledgement carry a sum of
//!   their words, a record's last word is a sum of its head, which holds a sum of its payload and
//!   names the stream and its place in it. By type: [`Published::decode`], [`Ack::decode`] and
//!   [`record::Head::decode`] are the only readers.

use crate::LogShape;
use base::{At, Ballot, Incarnation, MAX_MEMBERS, Prefix, Rank};
use xxhash_rust::xxh3::xxh3_64;
use zerocopy::IntoBytes;

const LINE: u32 = 8;

/// The map of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    base: At,
    members: u32,
    ring_words: u32,
}

impl Places {
    pub(crate) fn new(base: At, members: usize, shape: &LogShape) -> Places {
        assert!(shape.ring_slots >= 16, "a record must fit four times into a ring");
        let record_words = (record::HEAD_WORDS + 1) as u32 + shape.value_bytes.div_ceil(8);
        let ring_words = (shape.ring_slots * record_words).next_multiple_of(LINE);
        Places { base, members: members as u32, ring_words }
    }

    pub(crate) const fn end(&self) -> At {
        self.rings().plus(self.members * self.ring_words)
    }

    pub(super) const fn promised(&self) -> At {
        self.base
    }

    /// The place of the acknowledgement of `follower`.
    pub(super) const fn ack(&self, follower: Rank) -> At {
        self.base.plus(LINE + LINE * follower.index() as u32)
    }

    const fn rings(&self) -> At {
        self.base.plus(LINE + LINE * MAX_MEMBERS as u32)
    }

    /// A place in the ring that `writer` writes, `position` words after its stream's beginning, and
    /// the number of words from there to the ring's end.
    pub(super) const fn in_ring(&self, writer: Rank, position: u64) -> (At, usize) {
        let offset = (position % self.ring_words as u64) as u32;
        let at = self.rings().plus(writer.index() as u32 * self.ring_words + offset);
        (at, (self.ring_words - offset) as usize)
    }

    pub(super) const fn ring_words(&self) -> u64 {
        self.ring_words as u64
    }
}

/// A promise that its owner shows to readers, and the disk that keeps it.
///
/// A later process on the seat may have another disk, which knows nothing of this promise: without
/// the incarnation its words would vouch for what that disk never promised (I11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) promised: Ballot,
    /// The incarnation of the disk.
    pub(super) by: Incarnation,
}

pub(super) const PUBLISHED_WORDS: usize = 3;

impl Published {
    pub(super) fn encode(self) -> [u64; PUBLISHED_WORDS] {
        let Published { promised, by } = self;
        [promised.0, by.0, sum(&[promised.0, by.0])]
    }

    /// Reads the words of a published promise. `None` if they are of different ages, or of a region
    /// that was just made.
    pub(super) fn decode(words: &[u64]) -> Option<Published> {
        let [promised, by, guard] = *words else { return None };
        let is_whole = guard == sum(&[promised, by]);
        is_whole.then_some(Published { promised: Ballot(promised), by: Incarnation(by) })
    }
}

/// A follower's one cumulative acknowledgement, in the leader's region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ack {
    /// The ballot whose leader's log this follower's agrees with, up to `durable`.
    pub(super) ballot: Ballot,
    /// The incarnation of the disk.
    pub(super) incarnation: u64,
    /// The prefix that is on that disk.
    pub(super) durable: Prefix,
    /// The stream, and the number of its words that were taken out of the ring.
    pub(super) stream: u64,
    pub(super) consumed: u64,
    /// The prefix of the state that is missing on that disk, where its log begins; 0 if nothing is
    /// missing, which is what older versions write.
    pub(super) lacks: Prefix,
}

pub(super) const ACK_WORDS: usize = 8;

impl Ack {
    pub(super) fn encode(self) -> [u64; ACK_WORDS] {
        let Ack { ballot, incarnation, durable, stream, consumed, lacks } = self;
        let mut words = [ballot.0, incarnation, durable.0, stream, consumed, lacks.0, 0, 0];
        words[7] = sum(&words[..7]);
        words
    }

    /// Reads the words of an acknowledgement. `None` if they are of different ages, or were never
    /// written.
    pub(super) fn decode(words: &[u64; ACK_WORDS], trusting: bool) -> Option<Ack> {
        (trusting || words[7] == sum(&words[..7])).then_some(Ack {
            ballot: Ballot(words[0]),
            incarnation: words[1],
            durable: Prefix(words[2]),
            stream: words[3],
            consumed: words[4],
            lacks: Prefix(words[5]),
        })
    }

    pub(super) const fn by(&self) -> Incarnation {
        Incarnation(self.incarnation)
    }
}

/// A sum that is never 0, so that words that were never written have none.
fn sum(words: &[u64]) -> u64 {
    xxh3_64(words.as_bytes()) | 1
}

/// Records in a ring.
///
/// ```text
/// word 0  tag             ballot, stream and place, for which a reader waits
/// word 1  kind, length    of the payload, in bytes
/// word 2  ballot          of the leader that writes
/// word 3  slot
/// word 4  entry's ballot  of the leader that made the entry
/// word 5  previous        ballot of the entry before this one; 0 if that is not known
/// word 6  view            the entry's
/// word 7  committed       every slot below is decided
/// word 8  payload sum
/// word 9… payload, padded with zeros
/// last    guard           sum of words 0..9
/// ```
///
/// A record may cross the ring's end and continue at its beginning.
pub(super) mod record {
    use super::sum;
    use alloc::vec::Vec;
    use base::{Ballot, Prefix, Slot};
    use zerocopy::IntoBytes;

    pub(in super::super) const HEAD_WORDS: usize = 9;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in super::super) enum Kind {
        Entry,
        /// The commit point alone.
        Commit,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in super::super) struct Head {
        pub(in super::super) kind: Kind,
        pub(in super::super) payload_bytes: u32,
        pub(in super::super) ballot: Ballot,
        pub(in super::super) slot: Slot,
        pub(in super::super) entry_ballot: Ballot,
        pub(in super::super) previous: Ballot,
        pub(in super::super) view: u64,
        pub(in super::super) committed: Prefix,
    }

    /// The first word of the record at `position` of that stream of that ballot: odd, so never that
    /// of a new region. Streams are counted in a whole word, so they last for any ballot.
    ///
    /// If two tags were ever equal, nothing false would be accepted: the head names the ballot, and
    /// in one ballot all records of a slot are of one entry.
    pub(in super::super) fn tag(ballot: Ballot, stream: u64, position: u64) -> u64 {
        sum(&[ballot.0, stream, position])
    }

    /// The number of words of a record with this payload.
    pub(in super::super) const fn n_words(payload_bytes: usize) -> usize {
        HEAD_WORDS + payload_bytes.div_ceil(8) + 1
    }

    /// Encodes a record, except its tag and guard.
    pub(in super::super) fn encode(words: &mut Vec<u64>, head: Head, payload: &[u8]) {
        words.clear();
        words.resize(n_words(payload.len()), 0);
        let end = words.len() - 1;
        words[HEAD_WORDS..end].as_mut_bytes()[..payload.len()].copy_from_slice(payload);
        let kind = match head.kind {
            Kind::Entry => 1,
            Kind::Commit => 2,
        };
        words[1] = kind << 32 | payload.len() as u64;
        words[2] = head.ballot.0;
        words[3] = head.slot.0;
        words[4] = head.entry_ballot.0;
        words[5] = head.previous.0;
        words[6] = head.view;
        words[7] = head.committed.0;
        words[8] = sum(&words[HEAD_WORDS..end]);
    }

    /// Makes the record the one at `position` of `stream`, which is counted in the record's ballot.
    pub(in super::super) fn seal(words: &mut [u64], stream: u64, position: u64) {
        words[0] = tag(Ballot(words[2]), stream, position);
        if let [head @ .., guard] = words {
            *guard = sum(&head[..HEAD_WORDS]);
        }
    }

    impl Head {
        /// Reads a record's first words. They may be torn: see [`is_whole`].
        pub(in super::super) fn decode(words: &[u64; HEAD_WORDS]) -> Option<Head> {
            let kind = match words[1] >> 32 {
                1 => Kind::Entry,
                2 => Kind::Commit,
                _ => return None,
            };
            Some(Head {
                kind,
                payload_bytes: words[1] as u32,
                ballot: Ballot(words[2]),
                slot: Slot(words[3]),
                entry_ballot: Ballot(words[4]),
                previous: Ballot(words[5]),
                view: words[6],
                committed: Prefix(words[7]),
            })
        }
    }

    /// Whether all words of the record at `position` of that stream are there.
    pub(in super::super) fn is_whole(
        words: &[u64],
        ballot: Ballot,
        stream: u64,
        position: u64,
    ) -> bool {
        let Some((guard, words)) = words.split_last() else { return false };
        let Some((head, payload)) = words.split_at_checked(HEAD_WORDS) else { return false };
        head[0] == tag(ballot, stream, position) && *guard == sum(head) && head[8] == sum(payload)
    }

    /// The payload of a whole record.
    pub(in super::super) fn payload<'a>(words: &'a [u64], head: &Head) -> Option<&'a [u8]> {
        words.get(HEAD_WORDS..)?.as_bytes().get(..head.payload_bytes as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use base::Slot;

    const ACK: Ack = Ack {
        ballot: Ballot(9),
        incarnation: 1,
        durable: Prefix(44),
        stream: 3,
        consumed: 800,
        lacks: Prefix(0),
    };

    // I10
    #[test]
    fn torn_acknowledgement_is_never_believed() {
        let before = ACK.encode();
        let after = Ack {
            durable: Prefix(45),
            consumed: 900,
            ballot: Ballot(17),
            lacks: Prefix(40),
            ..ACK
        }
        .encode();
        for torn in 1..(1u32 << ACK_WORDS) - 1 {
            let mut mixed = before;
            for at in (0..ACK_WORDS).filter(|at| torn & (1 << at) != 0) {
                mixed[at] = after[at];
            }
            let whole = mixed == before || mixed == after;
            assert_eq!(Ack::decode(&mixed, false).is_some(), whole, "{torn:b}");
        }
        assert_eq!(Ack::decode(&[0; ACK_WORDS], false), None, "nobody has acknowledged anything");
    }

    // I10
    #[test]
    fn torn_promise_is_never_believed_nor_one_of_a_new_region() {
        let of = |ballot, incarnation| Published {
            promised: Ballot(ballot),
            by: Incarnation(incarnation),
        };
        // The same disk's next promise, and another disk's on its seat.
        for (before, after) in [(of(9, 1), of(17, 1)), (of(17, 2), of(9, 1)), (of(0, 1), of(0, 2))]
        {
            let (old, new) = (before.encode(), after.encode());
            for torn in 0..1u32 << PUBLISHED_WORDS {
                let mut mixed = old;
                for at in (0..PUBLISHED_WORDS).filter(|at| torn & (1 << at) != 0) {
                    mixed[at] = new[at];
                }
                let whole = [before, after].into_iter().find(|of| of.encode() == mixed);
                assert_eq!(Published::decode(&mixed), whole, "{torn:b}");
            }
        }
        assert_eq!(Published::decode(&[0; PUBLISHED_WORDS]), None);
    }

    // I10
    #[test]
    fn torn_record_is_never_believed_nor_one_of_another_stream_or_place() {
        let head = |n: u64| record::Head {
            kind: record::Kind::Entry,
            payload_bytes: 20,
            ballot: Ballot(9 + n),
            slot: Slot(5),
            entry_ballot: Ballot(9 + n),
            previous: Ballot(1),
            view: 0,
            committed: Prefix(4),
        };
        let (mut old, mut new) = (Vec::new(), Vec::new());
        record::encode(&mut old, head(0), b"twenty bytes of this");
        record::seal(&mut old, 1, 64);
        record::encode(&mut new, head(8), b"twenty bytes of that");
        record::seal(&mut new, 2, 64);
        for torn in 0..1u32 << new.len() {
            let mixed: Vec<u64> = (0..new.len())
                .map(|at| if torn & (1 << at) != 0 { new[at] } else { old[at] })
                .collect();
            let is_whole = record::is_whole(&mixed, Ballot(17), 2, 64);
            assert_eq!(is_whole, mixed == new, "{torn:b}");
        }
        for (ballot, stream, position) in [(17, 2, 65), (17, 3, 64), (9, 2, 64), (17, 2 << 16, 64)]
        {
            assert!(!record::is_whole(&new, Ballot(ballot), stream, position));
        }
        let first = new[..record::HEAD_WORDS].try_into().expect("long enough");
        let found = record::Head::decode(first).expect("it is one");
        assert_eq!(found, head(8));
        assert_eq!(record::payload(&new, &found), Some(&b"twenty bytes of that"[..]));
    }
}
