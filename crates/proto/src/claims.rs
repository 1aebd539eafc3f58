//! What the memory of members says, for judges that see all of it.
//!
//! No machine reads this. A simulator compares a member's claim (a decision, an answered read) with
//! all memories at the moment of the claim, so that a mistake shows before its consequence.

use base::{Ballot, Incarnation, Slot};
use core::ops::Range;

/// The state of one member's acceptor for one slot, as its region shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acceptor<'a> {
    /// The highest ballot that it has promised, for this slot or for all.
    pub promised: Ballot,
    /// The ballot under which it has accepted last, and the accepted bytes: none for what is the
    /// protocol's own.
    pub accepted: Option<(Ballot, &'a [u8])>,
    /// Whether the memory shows that its place may be used for this slot, if a protocol has a word
    /// for that (velos, I8). It did when the value was accepted; later it may not.
    pub is_covered: bool,
}

/// The part of a value that a member delivers: nothing of what is the protocol's own.
pub(crate) fn delivered(words: &[u64]) -> &[u8] {
    match crate::value::content(words) {
        crate::value::Content::Value => crate::value::payload(words),
        crate::value::Content::Members => &[],
    }
}

/// The words that show that a value was accepted.
#[derive(Clone, Debug, Default)]
pub struct Accepting {
    /// The words of all entries.
    pub places: Range<u32>,
    /// The words of one entry.
    pub stride: u32,
    /// The bits that a CAS changes where it accepts something.
    pub mask: u64,
}

impl Accepting {
    /// The index of the entry that has the word at `at`.
    #[inline]
    pub fn index(&self, at: u32) -> Option<u32> {
        self.places.contains(&at).then(|| (at - self.places.start) / self.stride)
    }
}

/// The words of a region that its owner only raises, for as long as the region lives.
pub type Rising = Range<u32>;

/// What one entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// No value, or one that is being written.
    Empty,
    /// A value is accepted that is not there.
    Torn,
    /// The value that is accepted for this slot.
    Holds(Slot),
}

/// The reason why a read may be answered, as far as memory shows it.
#[derive(Clone, Debug)]
pub enum Reads {
    /// It does not show.
    Unseen,
    /// A majority's memory answered verbs that were posted after the read was taken.
    Witnessed(Witness),
    /// No majority had promised a later ballot when the read was taken.
    Unopposed,
}

/// The verbs that make a peer's memory a witness.
#[derive(Clone, Debug)]
pub struct Witness {
    /// The words at one of which each begins. Of a disk's promise: all of its words.
    pub places: Range<u32>,
    /// Whether they READ; otherwise they WRITE.
    pub by: By,
    /// What vouches for a leader of this ballot, by the words that were READ.
    pub vouches: fn(&[u64], Ballot) -> Option<Vouched>,
}

/// What a witness vouches with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vouched {
    /// The memory that answered.
    Memory,
    /// The promise of a disk. Another disk on its seat is another witness.
    Disk(Incarnation),
}

/// The kind of verb that finds a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A READ. The own memory is read through the fabric too.
    Read,
    /// A READ from peers. The own memory needs none.
    ReadOfPeers,
    /// A WRITE that is not refused.
    Write,
}
