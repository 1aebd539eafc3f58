//! A value in its area: a label, then the bytes (Velos, section 5.2: values by indirection).
//!
//! ```text
//! word 0  slot            which slot this is for, in full: no generation wraps here
//! word 1  ballot          under which ballot it is proposed
//! word 2  length          of the payload, in bytes
//! word 3  decided         every slot below was decided when this was written, under at most
//!                         `ballot`: section 5.4's piggybacked decision
//! word 4  payload sum     over words 0..4 and the payload
//! word 5  label sum       over words 0..5
//! word 6… payload, padded with zeros
//! ```
//!
//! - I1 Bytes come out of an area only if slot, ballot, length and both sums agree: a torn, older
//!   or foreign value is recognised, never delivered. By type: [`decode`] is the one way out.
//! - I2 One (slot, ballot) never labels two different values. By construction: a proposer encodes
//!   once when it begins to propose, and sends that buffer ever after.

use alloc::vec::Vec;
use base::{Ballot, Prefix, Slot};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
use zerocopy::IntoBytes;

#[cfg(target_endian = "big")]
compile_error!("regions hold little-endian words");

/// How many words the label takes.
pub(crate) const HEADER_WORDS: usize = 6;

/// What stands before the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) slot: Slot,
    pub(crate) ballot: Ballot,
    pub(crate) decided: Prefix,
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
    words[2] = len as u64;
    words[3] = label.decided.0;
    words[4] = payload_sum(words);
    words[5] = xxh3_64(words[..5].as_bytes());
}

fn payload_sum(words: &[u64]) -> u64 {
    xxh3_64_with_seed(words[HEADER_WORDS..].as_bytes(), xxh3_64(words[..4].as_bytes()))
}

/// The label, if these words are one: they may be torn, old, or never written.
pub(crate) fn label(words: &[u64]) -> Option<Label> {
    let header = words.get(..HEADER_WORDS)?;
    (header[5] == xxh3_64(header[..5].as_bytes())).then_some(Label {
        slot: Slot(header[0]),
        ballot: Ballot(header[1]),
        decided: Prefix(header[3]),
    })
}

/// How many words of an area the labelled value takes, if the label is whole and fits.
pub(crate) fn labelled_words(words: &[u64], area_words: usize) -> Option<usize> {
    label(words)?;
    let n_words = HEADER_WORDS.checked_add(usize::try_from(words[2]).ok()?.div_ceil(8))?;
    (n_words <= area_words).then_some(n_words)
}

/// The label and payload of an area's words (which may be longer than the value), if whole.
pub(crate) fn decode(words: &[u64]) -> Option<(Label, &[u8])> {
    let n_words = labelled_words(words, words.len())?;
    let words = &words[..n_words];
    (words[4] == payload_sum(words)).then(|| {
        let label =
            Label { slot: Slot(words[0]), ballot: Ballot(words[1]), decided: Prefix(words[3]) };
        (label, payload(words))
    })
}

/// The payload of words that this node encoded or has decoded before.
pub(crate) fn payload(words: &[u64]) -> &[u8] {
    &words[HEADER_WORDS..].as_bytes()[..words[2] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: Label = Label { slot: Slot(70_000), ballot: Ballot(17), decided: Prefix(69_990) };

    #[test]
    fn a_value_comes_back_from_a_longer_area() {
        for len in [0usize, 1, 7, 8, 9, 100] {
            let payload: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let mut area = Vec::new();
            encode(&mut area, LABEL, &payload);
            assert_eq!(labelled_words(&area, 20), Some(area.len()));
            area.extend([9, 9, 9]);
            assert_eq!(decode(&area), Some((LABEL, &payload[..])));
            assert_eq!(label(&area), Some(LABEL));
        }
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
        }
    }

    #[test]
    fn an_unwritten_area_holds_nothing() {
        assert_eq!(decode(&[0; 20]), None);
        assert_eq!(decode(&[]), None);
        let mut lying = Vec::new();
        encode(&mut lying, LABEL, b"");
        lying[2] = u64::MAX;
        lying[5] = xxh3_64(lying[..5].as_bytes());
        assert_eq!(decode(&lying), None, "a length that does not fit");
    }
}
