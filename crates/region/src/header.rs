//! The header page: the owner of a region and its layout.
//!
//! ```text
//! word  what                                    word  what
//! 0     magic "gregale\0"                       7     layout fingerprint of the protocol
//! 1     format version                          8     words of the protocol
//! 2     bytes of the file                       9     words of a ring
//! 3     fingerprint of cluster and secret       10    process id of the owner   (for error texts)
//! 4     node id                                 11    life of the last owner
//! 5     incarnation                             12    retired: 1 once the owner removed the file
//! 6     fingerprint of the boot                 13    seats
//!                                               14    version of the rules of its users
//! ```
//! Words 0 to 9, 13 and 14, never change after creation; 10 to 12 belong to the owner.

use crate::layout::{HEADER_BYTES, Shape};
use crate::memory::Memory;
use crate::{Error, Words};
use base::{Incarnation, NodeId};
use std::path::Path;
use std::sync::Arc;

const MAGIC: u64 = u64::from_le_bytes(*b"gregale\0");
const VERSION: u64 = 3;

mod word {
    pub(super) const MAGIC: u32 = 0;
    pub(super) const VERSION: u32 = 1;
    pub(super) const BYTES: u32 = 2;
    pub(super) const CLUSTER: u32 = 3;
    pub(super) const NODE: u32 = 4;
    pub(super) const INCARNATION: u32 = 5;
    pub(super) const BOOT: u32 = 6;
    pub(super) const LAYOUT: u32 = 7;
    pub(super) const N_WORDS: u32 = 8;
    pub(super) const RING_WORDS: u32 = 9;
    pub(super) const PID: u32 = 10;
    pub(super) const LIFE: u32 = 11;
    pub(super) const RETIRED: u32 = 12;
    pub(super) const N_SEATS: u32 = 13;
    pub(super) const RULES: u32 = 14;
}

/// The offset of the owner's process id in the file: an error text reads it without a mapping.
pub(crate) const PID_BYTE: u64 = word::PID as u64 * 8;

/// The properties by which a region is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The fingerprint of the cluster's name and secret.
    pub cluster: u64,
    /// The node whose memory it is.
    pub node: NodeId,
    /// The incarnation of that memory; `None` accepts any (a peer's is learned from its region).
    pub incarnation: Option<Incarnation>,
    /// The fingerprint of the protocol and its parameters.
    pub layout: u64,
    /// The version of the rules by which nodes act on what is there: another version's nodes would
    /// act differently. It says nothing about settings.
    pub rules: u64,
    /// The sizes.
    pub shape: Shape,
}

/// The header words of a mapped region.
#[derive(Clone, Debug)]
pub(crate) struct Header(Words);

impl Header {
    pub(crate) fn of(memory: &Arc<Memory>) -> Header {
        Header(Words::new(memory, 0, (HEADER_BYTES / 8) as u32))
    }

    /// Fills an empty header. Incarnation 0 would belong to no node.
    pub(crate) fn init(&self, identity: &Identity, incarnation: Incarnation, boot: u64) {
        assert_ne!(incarnation.0, 0, "zero never names an incarnation");
        let Identity { cluster, node, incarnation: _, layout, rules, shape } = identity;
        self.0.write_words(
            0,
            &[
                MAGIC,
                VERSION,
                shape.total_bytes() as u64,
                *cluster,
                u64::from(node.0),
                incarnation.0,
                boot,
                *layout,
                u64::from(shape.n_words),
                u64::from(shape.ring_words),
            ],
        );
        self.0.store(word::N_SEATS, shape.n_seats as u64);
        self.0.store(word::RULES, *rules);
    }

    /// Compares all fields, and names the first one that differs (I6).
    pub(crate) fn validate(
        &self,
        path: &Path,
        file_bytes: u64,
        expected: &Identity,
        boot: u64,
    ) -> Result<(), Error> {
        let path = || path.to_owned();
        let differs = |at, expected: u64| Some(self.0.load(at)).filter(|found| *found != expected);
        if differs(word::MAGIC, MAGIC).is_some() {
            return Err(Error::NotARegion { path: path() });
        }
        if let Some(found) = differs(word::VERSION, VERSION) {
            let of = "format";
            return Err(Error::Version { path: path(), of, found, expected: VERSION });
        }
        if differs(word::BYTES, file_bytes).is_some() {
            return Err(Error::NotARegion { path: path() });
        }
        if let Some(found) = differs(word::CLUSTER, expected.cluster) {
            return Err(Error::Cluster { path: path(), found, expected: expected.cluster });
        }
        if let Some(found) = differs(word::NODE, u64::from(expected.node.0)) {
            let found = NodeId(found as u16);
            return Err(Error::Node { path: path(), found, expected: expected.node });
        }
        if differs(word::BOOT, boot).is_some() {
            return Err(Error::StaleBoot { path: path() });
        }
        let layout_differs = |at, field, expected| match differs(at, expected) {
            Some(found) => Err(Error::Layout { path: path(), field, found, expected }),
            None => Ok(()),
        };
        // Another setting is named first, of another version too; a version may have other sizes.
        layout_differs(word::LAYOUT, "layout fingerprint", expected.layout)?;
        if let Some(found) = differs(word::RULES, expected.rules) {
            let (of, expected) = ("rules", expected.rules);
            return Err(Error::Version { path: path(), of, found, expected });
        }
        for (at, field, expected) in [
            (word::N_WORDS, "number of protocol words", u64::from(expected.shape.n_words)),
            (word::RING_WORDS, "ring size in words", u64::from(expected.shape.ring_words)),
            (word::N_SEATS, "number of seats", expected.shape.n_seats as u64),
            (word::BYTES, "size in bytes", expected.shape.total_bytes() as u64),
        ] {
            layout_differs(at, field, expected)?;
        }
        if let Some(expected) = expected.incarnation
            && let Some(found) = differs(word::INCARNATION, expected.0)
        {
            return Err(Error::Incarnation { path: path(), found, expected: expected.0 });
        }
        Ok(())
    }

    pub(crate) fn incarnation(&self) -> Incarnation {
        Incarnation(self.0.load(word::INCARNATION))
    }

    pub(crate) fn pid(&self) -> u64 {
        self.0.load(word::PID)
    }

    pub(crate) fn life(&self) -> u64 {
        self.0.load(word::LIFE)
    }

    /// Begins the life of a new owner, which holds the file's lock (I5).
    pub(crate) fn begin_life(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let life = now.max(self.life() + 1);
        self.0.store(word::PID, u64::from(std::process::id()));
        self.0.store(word::LIFE, life);
        life
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.0.load(word::RETIRED) != 0
    }

    pub(crate) fn retire(&self) {
        self.0.store(word::RETIRED, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity {
        cluster: 0xc1,
        node: NodeId(3),
        incarnation: Some(Incarnation(7)),
        layout: 0x1a,
        rules: 0x4e,
        shape: Shape { n_seats: 3, n_words: 16, ring_words: 0 },
    };

    #[test]
    fn the_header_is_as_it_was_published() {
        let memory = Arc::new(Memory::heap(IDENTITY.shape.total_bytes()));
        let header = Header::of(&memory);
        header.init(&IDENTITY, Incarnation(7), 0xb0);
        let life = header.begin_life();
        assert!(header.begin_life() > life, "I5");
        let life = header.life();
        header.retire();
        let mut words = [0; 16];
        header.0.load_into(0, &mut words);
        let pid = u64::from(std::process::id());
        let magic = 0x0065_6c61_6765_7267;
        assert_eq!(
            words,
            [magic, 3, 8320, 0xc1, 3, 7, 0xb0, 0x1a, 16, 0, pid, life, 1, 3, 0x4e, 0]
        );
    }

    #[test]
    fn i6_each_field_that_differs_is_named() {
        let memory = Arc::new(Memory::heap(IDENTITY.shape.total_bytes()));
        let header = Header::of(&memory);
        header.init(&IDENTITY, Incarnation(7), 0xb0);
        let judge = |expected: &Identity, boot| {
            let verdict = header.validate(Path::new("r"), 8320, expected, boot);
            verdict.map_err(|error| error.to_string()).err().unwrap_or_default()
        };
        assert_eq!(judge(&IDENTITY, 0xb0), "");
        assert_eq!(judge(&Identity { incarnation: None, ..IDENTITY }, 0xb0), "");
        assert!(judge(&Identity { cluster: 1, ..IDENTITY }, 0xb0).contains("another cluster"));
        assert!(judge(&Identity { node: NodeId(1), ..IDENTITY }, 0xb0).contains("of node 3, not"));
        assert!(judge(&IDENTITY, 0xb1).contains("last boot"));
        assert!(judge(&Identity { layout: 1, ..IDENTITY }, 0xb0).contains("layout fingerprint"));
        assert!(judge(&Identity { rules: 1, ..IDENTITY }, 0xb0).contains("rules version 78"));
        // An upgrade hides no other setting, and is told before the sizes that follow from it.
        let both = Identity { layout: 1, rules: 1, ..IDENTITY };
        assert!(judge(&both, 0xb0).contains("layout fingerprint"));
        let resized = Shape { n_words: 8, ..IDENTITY.shape };
        let resized = Identity { rules: 1, shape: resized, ..IDENTITY };
        assert!(judge(&resized, 0xb0).contains("rules version 78"));
        let shape = |n_words, ring_words| Shape { n_words, ring_words, ..IDENTITY.shape };
        let wide = Shape { n_seats: 4, ..IDENTITY.shape };
        assert!(judge(&Identity { shape: wide, ..IDENTITY }, 0xb0).contains("number of seats"));
        assert!(
            judge(&Identity { shape: shape(8, 0), ..IDENTITY }, 0xb0).contains("protocol words")
        );
        assert!(judge(&Identity { shape: shape(16, 8), ..IDENTITY }, 0xb0).contains("ring size"));
        let other = Identity { incarnation: Some(Incarnation(8)), ..IDENTITY };
        assert!(judge(&other, 0xb0).contains("incarnation 7"));
        header.0.store(word::VERSION, 2);
        assert!(judge(&IDENTITY, 0xb0).contains("format version 2, this program has 3"));
        header.0.store(word::MAGIC, 2);
        assert!(judge(&IDENTITY, 0xb0).contains("not a region"));
    }
}
