//! Golden bytes: each message of a protocol as it is encoded, and what else its decoder takes.
//!
//! A file names the messages in order. Below each name are its bytes, eight to a group; the lengths
//! to which it can be cut and is still a message (all others are refused); and whether more bytes
//! may follow. `damage N` damages N of them, with a fixed seed, and tells how many were read, and
//! the hash of what was read: a decoder that takes more or less than before has another one.

use super::golden;
use crate::amcast::wire::Wire;
use crate::codec::Reader;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use base::Rng;
use core::fmt::Debug;
use xxhash_rust::xxh3::xxh3_64;

/// A message: what it says, and its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Example {
    says: String,
    bytes: Vec<u8>,
}

impl Example {
    pub(crate) fn new(message: impl Debug, bytes: Vec<u8>) -> Example {
        Example { says: format!("{message:?}"), bytes }
    }

    /// The name of the kind of message.
    fn name(&self) -> &str {
        let says = self.says.trim_start_matches('(');
        says.split(|it: char| !it.is_alphanumeric()).next().unwrap_or_default()
    }

    fn told(&self, tag_at: usize, read: &dyn Fn(&[u8]) -> Option<Example>) -> Vec<String> {
        let bytes = &self.bytes;
        assert_eq!(read(bytes).as_ref(), Some(self), "a message is read as it was written");
        let mut unknown = bytes.clone();
        unknown[tag_at] = 99;
        assert_eq!(read(&unknown), None, "a tag that no message has");
        let mut told: Vec<String> = bytes.chunks(32).map(hex).collect();
        let cuts: Vec<String> = (0..bytes.len())
            .filter(|n| read(&bytes[..*n]).inspect(|cut| assert_ne!(cut.says, self.says)).is_some())
            .map(|n| format!("{n}"))
            .collect();
        if !cuts.is_empty() {
            told.push(format!("cut to {}: a message", cuts.join(", ")));
        }
        if read(&[bytes, &[0][..]].concat()).is_some() {
            told.push("with a zero behind it: a message".into());
        }
        told
    }
}

fn hex(bytes: &[u8]) -> String {
    let group = |group: &[u8]| group.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(8).map(group).collect::<Vec<_>>().join(" ")
}

/// Compares `examples`, whose tag is the byte at `tag_at`, with the file at `path`. `read` decodes
/// a message and encodes it again.
///
/// # Panics
/// If they differ, or a message is not read as it was written.
pub(crate) fn check(
    path: &str,
    tag_at: usize,
    examples: &[Example],
    read: &dyn Fn(&[u8]) -> Option<Example>,
) {
    let mut next = examples.iter();
    golden::check(path, |words| match words {
        ["damage", n] => damaged(n.parse().expect("a number"), examples, read),
        [name] => {
            let example = next.next().unwrap_or_else(|| panic!("{path}: no example is left"));
            assert_eq!(*name, example.name(), "{path}: the order of the examples");
            example.told(tag_at, read)
        }
        _ => panic!("{path}: {words:?}"),
    });
    assert_eq!(next.next(), None, "{path} does not name all examples");
}

/// Compares the bytes of each of `messages` with those in the file at `path`.
///
/// # Panics
/// If they differ.
pub(crate) fn golden_bytes<W: Wire>(path: &str, messages: &[W]) {
    let example = |message: &W| {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        Example::new(message, bytes)
    };
    let examples: Vec<_> = messages.iter().map(example).collect();
    check(path, 0, &examples, &|bytes| {
        let mut from = Reader::new(bytes);
        let message = W::decode(&mut from).ok()?;
        from.is_at_end().then(|| example(&message))
    });
}

fn damaged(n: usize, examples: &[Example], read: &dyn Fn(&[u8]) -> Option<Example>) -> Vec<String> {
    let (mut rng, mut n_read, mut all) = (Rng::new(1), 0, Vec::new());
    for round in 0..n {
        let mut bytes = examples[round % examples.len()].bytes.clone();
        for _ in 0..rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            // Small numbers are tags, counts and flags more often.
            bytes[at] = (rng.next_u64() >> rng.range(56, 63)) as u8;
        }
        if rng.chance(1, 4) {
            bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
        }
        let n_more = if rng.chance(1, 4) { rng.below(40) } else { 0 };
        bytes.extend((0..n_more).map(|_| (rng.next_u64() >> rng.range(56, 63)) as u8));
        match read(&bytes) {
            None => all.push(0xff),
            Some(other) => {
                assert_eq!(read(&other.bytes).as_ref(), Some(&other), "what is read is a message");
                n_read += 1;
                all.extend(&other.bytes);
            }
        }
    }
    alloc::vec![format!("{n_read} are messages: {:016x}", xxh3_64(&all))]
}
