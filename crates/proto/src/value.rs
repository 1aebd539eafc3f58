//! A value in its area: a label, then the bytes (Velos, section 5.2: values by indirection).
//!
//! ```text
//! word 0  slot            the slot of the value, in full: no generation wraps here
//! word 1  ballot          the ballot under which it is proposed
//! word 2  length          of the payload, in bytes; the top bit says that it names members
//! word 3  decided         every slot below was decided when this was written, under at most
//!                         `ballot`: section 5.4's piggybacked decision
//! word 4  payload sum     over the payload
//! word 5  label sum       over words 0..5, the payload's sum among them
//! word 6… payload, padded with zeros
//! ```
//!
//! - I1 Bytes are read from an area only if slot, ballot, length and both sums agree: a torn, older
//!   or foreign value is recognised, never delivered. By type: [`decode`] and [`load`] are the only
//!   readers.
//! - I2 One (slot, ballot) never labels two different values. By construction: a proposer encodes
//!   once when it begins to propose, and always sends that buffer.

use alloc::vec::Vec;
use base::{At, Ballot, Port, Prefix, Slot};
use xxhash_rust::xxh3::xxh3_64;
use zerocopy::IntoBytes;

#[cfg(target_endian = "big")]
compile_error!("regions hold little-endian words");

/// The number of words of the label.
pub(crate) const HEADER_WORDS: usize = 6;

/// The bit of word 2 that distinguishes a protocol's own payload from an application's.
const MEMBERS: u64 = 1 << 63;

/// The kind of a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Content {
    /// An application's payload, or a no-op.
    #[default]
    Value,
    /// The members from some slot on.
    Members,
}

/// The head of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) slot: Slot,
    pub(crate) ballot: Ballot,
    pub(crate) decided: Prefix,
    pub(crate) content: Content,
}

/// Writes label and payload into `words`, which keeps its capacity.
pub(crate) fn encode(words: &mut Vec<u64>, label: Label, payload: &[u8]) {
    words.clear();
    words.resize(HEADER_WORDS + payload.len().div_ceil(8), 0);
    words[HEADER_WORDS..].as_mut_bytes()[..payload.len()].copy_from_slice(payload);
    seal(words, label, payload.len());
}

fn seal(words: &mut [u64], label: Label, len: usize) {
    words[0] = label.slot.0;
    words[1] = label.ballot.0;
    words[2] = len as u64
        | match label.content {
            Content::Value => 0,
            Content::Members => MEMBERS,
        };
    words[3] = label.decided.0;
    words[4] = payload_sum(words);
    words[5] = xxh3_64(words[..5].as_bytes());
}

fn payload_sum(words: &[u64]) -> u64 {
    xxh3_64(words[HEADER_WORDS..].as_bytes())
}

/// The label, if these words are a valid one: they may be torn, old, or never written.
pub(crate) fn label(words: &[u64]) -> Option<Label> {
    let header = words.get(..HEADER_WORDS)?;
    (header[5] == xxh3_64(header[..5].as_bytes())).then_some(Label {
        slot: Slot(header[0]),
        ballot: Ballot(header[1]),
        decided: Prefix(header[3]),
        content: content(header),
    })
}

/// The kind of the payload of such words.
pub(crate) const fn content(words: &[u64]) -> Content {
    if words[2] & MEMBERS == 0 { Content::Value } else { Content::Members }
}

/// The number of words of the labelled value, if it fits into an area of `area_words`.
fn labelled_words(words: &[u64], area_words: usize) -> Option<usize> {
    let n_words =
        HEADER_WORDS.checked_add(usize::try_from(words[2] & !MEMBERS).ok()?.div_ceil(8))?;
    (n_words <= area_words).then_some(n_words)
}

/// The label and payload of an area's words (which may be longer than the value), if whole.
pub(crate) fn decode(words: &[u64]) -> Option<(Label, &[u8])> {
    let label = label(words)?;
    let words = &words[..labelled_words(words, words.len())?];
    (words[4] == payload_sum(words)).then(|| (label, payload(words)))
}

/// Copies the value out of the own region's area at `at` into `words`, and only as much of the area
/// as it takes. Returns its label, if the value is whole.
pub(crate) fn load<P: Port>(
    port: &P,
    at: At,
    area_words: u32,
    words: &mut Vec<u64>,
) -> Option<Label> {
    words.clear();
    words.resize(HEADER_WORDS, 0);
    port.load_into(at, words);
    let label = label(words)?;
    words.resize(labelled_words(words, area_words as usize)?, 0);
    // The area may have changed meanwhile: the label, which is whole, verifies this payload.
    port.load_into(at.plus(HEADER_WORDS as u32), &mut words[HEADER_WORDS..]);
    (words[4] == payload_sum(words)).then_some(label)
}

/// The payload of words that this node encoded or has decoded before.
pub(crate) fn payload(words: &[u64]) -> &[u8] {
    &words[HEADER_WORDS..].as_bytes()[..(words[2] & !MEMBERS) as usize]
}

#[cfg(test)]
pub(crate) use tests::Region;

#[cfg(test)]
mod tests {
    use super::*;
    use base::verb::Unsupported;
    use base::{Parcel, Rank, Token};

    /// A region whose owner dies after so many stores, and the lengths of what it writes to peers,
    /// which take nothing.
    #[derive(Default)]
    pub(crate) struct Region {
        pub(crate) words: Vec<u64>,
        pub(crate) stores_left: usize,
        pub(crate) written: Vec<(Rank, usize)>,
        /// Where parcels are carried, those that were posted, and those that have come.
        pub(crate) parcels: Option<[Vec<(Rank, At, Parcel)>; 2]>,
        /// Whether no way has room for a parcel.
        pub(crate) is_full: bool,
    }

    impl Port for Region {
        fn load(&self, at: At) -> u64 {
            self.words[at.0 as usize]
        }
        fn load_into(&self, at: At, words: &mut [u64]) {
            let at = at.0 as usize;
            words.copy_from_slice(&self.words[at..at + words.len()]);
        }
        fn store(&mut self, at: At, word: u64) {
            if self.stores_left > 0 {
                self.stores_left -= 1;
                self.words[at.0 as usize] = word;
            }
        }
        fn write(&mut self, to: Rank, _: At, words: &[u64], _: Option<Token>) {
            self.written.push((to, words.len()));
        }
        fn read(&mut self, _: Rank, _: At, _: usize, _: Token) {}
        fn cas(&mut self, _: Rank, _: At, _: u64, _: u64, _: Option<Token>) {}
        fn fetch_add(&mut self, _: Rank, _: At, _: u64, _: Option<Token>) {}
        fn send(&mut self, _: Rank, _: &[u8]) -> bool {
            false
        }
        fn wake(&mut self, _: Rank) {}
        fn permit_writer(&mut self, _: At, _: Option<Rank>) -> Result<(), Unsupported> {
            Ok(())
        }
        fn has_parcels(&self) -> bool {
            self.parcels.is_some()
        }
        fn put_parcel(&mut self, to: Rank, at: At, parcel: &Parcel) {
            let [posted, _] = self.parcels.as_mut().expect("parcels are carried");
            posted.push((to, at, parcel.clone()));
        }
        fn has_room(&self, _: Rank, _: usize) -> bool {
            !self.is_full
        }
        fn take_parcel(&mut self, from: Rank, at: At) -> Option<Parcel> {
            let [_, come] = self.parcels.as_mut()?;
            let place = come.iter().position(|(of, there, _)| (*of, *there) == (from, at))?;
            Some(come.remove(place).2)
        }
    }

    const LABEL: Label = Label {
        slot: Slot(70_000),
        ballot: Ballot(17),
        decided: Prefix(69_990),
        content: Content::Value,
    };

    #[test]
    fn a_value_comes_back_from_a_longer_area() {
        for len in [0usize, 1, 7, 8, 9, 100] {
            let payload: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let mut area = Vec::new();
            encode(&mut area, LABEL, &payload);
            assert_eq!(labelled_words(&area, 20), Some(area.len()));
            assert_eq!(labelled_words(&area, area.len() - 1), None);
            area.extend([9, 9, 9]);
            assert_eq!(decode(&area), Some((LABEL, &payload[..])));
            assert_eq!(label(&area), Some(LABEL));
        }
    }

    #[test]
    fn who_takes_part_is_told_from_a_value() {
        let members = Label { content: Content::Members, ..LABEL };
        let mut area = Vec::new();
        encode(&mut area, members, b"who");
        assert_eq!(decode(&area), Some((members, &b"who"[..])));
        assert_eq!((content(&area), payload(&area)), (Content::Members, &b"who"[..]));
    }

    #[test]
    fn torn_value_is_recognised_at_every_word() {
        let other = Label { ballot: Ballot(25), decided: Prefix(70_000), ..LABEL };
        let (mut old, mut new) = (Vec::new(), Vec::new());
        encode(&mut old, LABEL, b"the value before, of some length");
        encode(&mut new, other, b"the value after it, as long as it");
        for torn in 1..(1u32 << new.len()) - 1 {
            let mixed: Vec<u64> = (0..new.len())
                .map(|at| if torn & (1 << at) != 0 { new[at] } else { *old.get(at).unwrap_or(&0) })
                .collect();
            if let Some((label, bytes)) = decode(&mixed) {
                let whole = if label == other { decode(&new) } else { decode(&old) };
                assert_eq!(Some((label, bytes)), whole, "I1: a mixture was taken for a value");
            }
            let region = Region { words: mixed, ..Region::default() };
            let mut words = Vec::new();
            let label = load(&region, At(0), region.words.len() as u32, &mut words);
            let loaded = label.map(|label| (label, payload(&words)));
            assert_eq!(loaded, decode(&region.words), "I1: both ways out judge alike");
        }
    }

    #[test]
    fn an_unwritten_area_holds_nothing() {
        assert_eq!(decode(&[0; 20]), None);
        assert_eq!(decode(&[]), None);
        let mut lying = Vec::new();
        encode(&mut lying, LABEL, b"");
        lying[2] = u64::MAX >> 1;
        lying[5] = xxh3_64(lying[..5].as_bytes());
        assert_eq!(decode(&lying), None, "a length that does not fit");
    }
}
