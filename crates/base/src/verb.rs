//! The verbs of one-sided memory: what a machine may ask for, and what comes back.
//!
//! A protocol talks to a [`Port`] and is handed [`Event`]s; it never learns which provider (shm,
//! tcp, rdma, the simulator) stands behind. The provider's numbered promises (T1..) are in the
//! `fabric` crate; those that shape this interface:
//!
//! - T1 an aligned word is never torn;
//! - T2 what one node posts to one peer (verbs and messages) takes effect there in posting order;
//! - T3 nothing is promised *inside* one write or read of several words;
//! - T4 every verb with a token completes exactly once, with [`Outcome::Unknown`] if its link
//!   broke.

use crate::parcel::Parcel;
use crate::{Incarnation, Rank};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;

/// A place in a region, counted in 8-byte words from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At(pub u32);

impl At {
    /// The place `words` further on.
    #[must_use]
    pub const fn plus(self, words: u32) -> At {
        At(self.0 + words)
    }
}

/// The poster's name for a verb, handed back with its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// One node's way to its own region and to its peers'.
///
/// Every region of a group has the same layout, so an [`At`] means the same place in each. A verb
/// may be addressed to the poster itself (loop-back): that is how a protocol changes its own CAS
/// words, since a NIC's CAS and a CPU's need not be atomic together.
///
/// Posting never blocks and never fails: a verb to a peer that cannot be reached completes as
/// [`Outcome::Unknown`]. A verb without a token (not signalled) reports nothing.
pub trait Port {
    /// One word of the own region (acquire).
    fn load(&self, at: At) -> u64;

    /// A copy of words of the own region. Each word is whole, but they may be of different ages.
    fn load_into(&self, at: At, words: &mut [u64]);

    /// Sets a word of the own region that only this node writes (release).
    fn store(&mut self, at: At, word: u64);

    /// WRITE `words` to the region of `to`.
    fn write(&mut self, to: Rank, at: At, words: &[u64], token: Option<Token>);

    /// READ `n_words` of the region of `to`; they come with the completion.
    fn read(&mut self, to: Rank, at: At, n_words: usize, token: Token);

    /// CAS a word of the region of `to`; the completion carries the word that was there before.
    fn cas(&mut self, to: Rank, at: At, expected: u64, desired: u64, token: Option<Token>);

    /// FETCH-ADD to a word of the region of `to`; the completion carries the word before.
    fn fetch_add(&mut self, to: Rank, at: At, add: u64, token: Option<Token>);

    /// Sends a message to `to`. It may be lost, with the link only: what arrives is whole, in
    /// order, and behind every verb that was posted to `to` before it. False if the flow has no
    /// room now (nothing was sent; try again after the next poll).
    #[must_use]
    fn send(&mut self, to: Rank, message: &[u8]) -> bool;

    /// Asks that `to` looks at its region soon, if it sleeps. Costs nothing if it is awake.
    fn wake(&mut self, to: Rank);

    /// Permits only `writer` (and this node itself) to change this node's region from `from` on,
    /// from now on: WRITE, CAS and FETCH-ADD of others that touch a word there complete as
    /// [`Outcome::Refused`]. Words below `from` stay open to all. `None` permits all. Verbs that
    /// arrived before this call have taken effect; later ones obey it.
    ///
    /// # Errors
    /// [`Unsupported`] where the memory side cannot enforce it (shm: a mapping cannot be revoked).
    fn permit_writer(&mut self, from: At, writer: Option<Rank>) -> Result<(), Unsupported>;

    /// The memory of a process, where this one can look into it without a verb; `None` where the
    /// provider has no such memory, or has not met that process, or knows a later one on its seat.
    ///
    /// What was returned stays what it is, whatever becomes of that process: no later one on its
    /// seat writes there.
    fn area(&self, of: Rank, incarnation: Incarnation) -> Option<Arc<dyn Area>> {
        let _ = (of, incarnation);
        None
    }

    /// Whether a process has ended for certain, so that it looks at no memory any longer. False
    /// where that is not known.
    fn has_ended(&self, seat: Rank, incarnation: Incarnation) -> bool {
        let _ = (seat, incarnation);
        false
    }

    /// A number that has risen if any of these words of the own region has been written since it
    /// was asked for last; `None` where the provider does not count.
    fn n_writes(&self, at: At, n_words: u32) -> Option<u64> {
        let _ = (at, n_words);
        None
    }

    /// Whether the provider carries parcels.
    fn has_parcels(&self) -> bool {
        false
    }

    /// Puts `parcel` beside the region of `to`, at the word `at`, in place of the one that is
    /// there. It takes effect whole, in posting order with verbs (T2), and reports nothing. The
    /// provider sends the bytes from where they are.
    ///
    /// # Panics
    /// Where the provider carries none, and if it is longer than
    /// [`PARCEL_BYTES_MAX`](crate::PARCEL_BYTES_MAX).
    fn put_parcel(&mut self, to: Rank, at: At, parcel: &Parcel) {
        unreachable!("a parcel for {to} at {}, of {:?}, where none is carried", at.0, parcel.bulk);
    }

    /// Whether the way to `to` has room for a parcel of `n_bytes` that can wait: where it has not,
    /// much is on its way there, and the peer or the network is slow. A parcel that is put all the
    /// same costs the link if there is far more.
    fn has_room(&self, to: Rank, n_bytes: usize) -> bool {
        let _ = (to, n_bytes);
        true
    }

    /// Takes the parcel of `from` at `at` beside the own region. A parcel that is not taken is lost
    /// when the link to its sender breaks (T11).
    fn take_parcel(&mut self, from: Rank, at: At) -> Option<Parcel> {
        let _ = (from, at);
        None
    }
}

/// Memory that several processes of a host have mapped. Any thread may use it. Which words a
/// process may write, its protocol says: each word has one writer at a time.
pub trait Area: Debug + Send + Sync {
    /// One word (acquire).
    fn load(&self, at: At) -> u64;

    /// Sets a word (release).
    fn store(&self, at: At, word: u64);

    /// A copy of words, taken before anything that this thread does next. Each word is whole, but
    /// they may be of different ages.
    fn load_into(&self, at: At, words: &mut [u64]);

    /// Sets words, behind everything that this thread did before.
    fn write(&self, at: At, words: &[u64]);

    /// Sets words to these bytes, in the order of this host, behind everything that this thread did
    /// before. The rest of the last word is zero.
    fn write_bytes(&self, at: At, bytes: &[u8]) {
        for (bytes, n) in bytes.chunks(8).zip(0..) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.write(at.plus(n), &[u64::from_ne_bytes(word)]);
        }
    }
}

/// A port that passes each verb on to another: a part between a machine and its fabric.
pub trait Relay {
    /// The other port.
    type Port: Port;

    /// The other port.
    fn port(&self) -> &Self::Port;

    /// The same, for what changes something.
    fn port_mut(&mut self) -> &mut Self::Port;
}

impl<R: Relay> Port for R {
    fn load(&self, at: At) -> u64 {
        self.port().load(at)
    }

    fn load_into(&self, at: At, words: &mut [u64]) {
        self.port().load_into(at, words);
    }

    fn store(&mut self, at: At, word: u64) {
        self.port_mut().store(at, word);
    }

    fn write(&mut self, to: Rank, at: At, words: &[u64], token: Option<Token>) {
        self.port_mut().write(to, at, words, token);
    }

    fn read(&mut self, to: Rank, at: At, n_words: usize, token: Token) {
        self.port_mut().read(to, at, n_words, token);
    }

    fn cas(&mut self, to: Rank, at: At, expected: u64, desired: u64, token: Option<Token>) {
        self.port_mut().cas(to, at, expected, desired, token);
    }

    fn fetch_add(&mut self, to: Rank, at: At, add: u64, token: Option<Token>) {
        self.port_mut().fetch_add(to, at, add, token);
    }

    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        self.port_mut().send(to, message)
    }

    fn wake(&mut self, to: Rank) {
        self.port_mut().wake(to);
    }

    fn permit_writer(&mut self, from: At, writer: Option<Rank>) -> Result<(), Unsupported> {
        self.port_mut().permit_writer(from, writer)
    }

    fn area(&self, of: Rank, incarnation: Incarnation) -> Option<Arc<dyn Area>> {
        self.port().area(of, incarnation)
    }

    fn has_ended(&self, seat: Rank, incarnation: Incarnation) -> bool {
        self.port().has_ended(seat, incarnation)
    }

    fn has_parcels(&self) -> bool {
        self.port().has_parcels()
    }

    fn put_parcel(&mut self, to: Rank, at: At, parcel: &Parcel) {
        self.port_mut().put_parcel(to, at, parcel);
    }

    fn has_room(&self, to: Rank, n_bytes: usize) -> bool {
        self.port().has_room(to, n_bytes)
    }

    fn take_parcel(&mut self, from: Rank, at: At) -> Option<Parcel> {
        self.port_mut().take_parcel(from, at)
    }
}

/// The provider cannot do this; its text says why and what can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported(pub &'static str);

impl core::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for Unsupported {}

/// The outcome of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The peer's memory holds the words. (Whether its CPU saw them is not known.)
    Written,
    /// The words that were read. Each word is whole; they may be of different ages (T3).
    Read(&'a [u64]),
    /// The word before the CAS or FETCH-ADD. A CAS took effect if it equals what was expected.
    Before(u64),
    /// The peer's memory forbids this poster to write: nothing changed.
    Refused,
    /// The link broke: the verb may have taken effect, or not. It no longer does once `LinkUp` is
    /// reported for that peer.
    Unknown,
}

/// An event of a fabric's poll. The type is closed: its consumer handles all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A signalled verb has completed.
    Completed {
        /// The peer to whose region it was posted.
        from: Rank,
        /// The poster's name for it.
        token: Token,
        /// The outcome.
        outcome: Outcome<'a>,
    },
    /// A message arrived.
    Message {
        /// The sender.
        from: Rank,
        /// The whole message.
        bytes: &'a [u8],
    },
    /// The process of this member has died (learned from the kernel, or from its sentinel). Its
    /// memory may still answer: `MemoryOutlivesProcess`.
    ProcessFailed(Rank),
    /// The link to this member broke; all verbs posted on it have completed, the unknown ones too.
    LinkDown(Rank),
    /// The link to this member is there, for the first time or again.
    LinkUp(Rank),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Written(Token),
    Read(Token),
    Before(Token, u64),
    Refused(Token),
    Unknown(Token),
    Message,
    ProcessFailed,
    LinkDown,
    LinkUp,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    from: Rank,
    kind: Kind,
    start: u32,
    len: u32,
}

/// What one poll brought, in order, in buffers that are kept from poll to poll.
#[derive(Debug, Default)]
pub struct Inbox {
    entries: Vec<Entry>,
    words: Vec<u64>,
    bytes: Vec<u8>,
}

impl Inbox {
    /// An empty one.
    pub const fn new() -> Inbox {
        Inbox { entries: Vec::new(), words: Vec::new(), bytes: Vec::new() }
    }

    /// Forgets the events, keeps the buffers.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.words.clear();
        self.bytes.clear();
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a copy of `event`.
    pub fn push(&mut self, event: Event<'_>) {
        let (mut start, mut len) = (0, 0);
        let (from, kind) = match event {
            Event::Completed { from, token, outcome } => (
                from,
                match outcome {
                    Outcome::Written => Kind::Written(token),
                    Outcome::Read(words) => {
                        (start, len) = (self.words.len() as u32, words.len() as u32);
                        self.words.extend_from_slice(words);
                        Kind::Read(token)
                    }
                    Outcome::Before(word) => Kind::Before(token, word),
                    Outcome::Refused => Kind::Refused(token),
                    Outcome::Unknown => Kind::Unknown(token),
                },
            ),
            Event::Message { from, bytes } => {
                (start, len) = (self.bytes.len() as u32, bytes.len() as u32);
                self.bytes.extend_from_slice(bytes);
                (from, Kind::Message)
            }
            Event::ProcessFailed(from) => (from, Kind::ProcessFailed),
            Event::LinkDown(from) => (from, Kind::LinkDown),
            Event::LinkUp(from) => (from, Kind::LinkUp),
        };
        self.entries.push(Entry { from, kind, start, len });
    }

    /// Adds the completion of a READ of `n_words`, which `fill` copies into place.
    pub fn push_read(
        &mut self,
        from: Rank,
        token: Token,
        n_words: usize,
        fill: impl FnOnce(&mut [u64]),
    ) {
        let start = self.words.len();
        self.words.resize(start + n_words, 0);
        fill(&mut self.words[start..]);
        let (start, len) = (start as u32, n_words as u32);
        self.entries.push(Entry { from, kind: Kind::Read(token), start, len });
    }

    /// Adds a message of `n_bytes`, which `fill` copies into place.
    pub fn push_message(&mut self, from: Rank, n_bytes: usize, fill: impl FnOnce(&mut [u8])) {
        let start = self.bytes.len();
        self.bytes.resize(start + n_bytes, 0);
        fill(&mut self.bytes[start..]);
        let (start, len) = (start as u32, n_bytes as u32);
        self.entries.push(Entry { from, kind: Kind::Message, start, len });
    }

    /// The event at `index`, in order of arrival.
    ///
    /// # Panics
    /// From [`Inbox::len`] on.
    pub fn event(&self, index: usize) -> Event<'_> {
        let Entry { from, kind, start, len } = self.entries[index];
        let range = start as usize..start as usize + len as usize;
        let completed = |token, outcome| Event::Completed { from, token, outcome };
        match kind {
            Kind::Written(token) => completed(token, Outcome::Written),
            Kind::Read(token) => completed(token, Outcome::Read(&self.words[range])),
            Kind::Before(token, word) => completed(token, Outcome::Before(word)),
            Kind::Refused(token) => completed(token, Outcome::Refused),
            Kind::Unknown(token) => completed(token, Outcome::Unknown),
            Kind::Message => Event::Message { from, bytes: &self.bytes[range] },
            Kind::ProcessFailed => Event::ProcessFailed(from),
            Kind::LinkDown => Event::LinkDown(from),
            Kind::LinkUp => Event::LinkUp(from),
        }
    }

    /// All events, in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = Event<'_>> {
        (0..self.entries.len()).map(|index| self.event(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inbox_gives_back_what_was_put_in() {
        let from = Rank::at(1);
        let done = |n, outcome| Event::Completed { from, token: Token(n), outcome };
        let events = [
            done(1, Outcome::Read(&[1, 2, 3])),
            Event::Message { from, bytes: b"hello" },
            done(2, Outcome::Before(9)),
            done(3, Outcome::Unknown),
            done(4, Outcome::Refused),
            done(5, Outcome::Written),
            done(6, Outcome::Read(&[4])),
            Event::ProcessFailed(from),
            Event::LinkDown(from),
            Event::LinkUp(from),
        ];
        let mut inbox = Inbox::new();
        events.iter().for_each(|event| inbox.push(*event));
        assert!(inbox.iter().eq(events));
        inbox.clear();
        inbox.push_read(from, Token(7), 2, |words| words.copy_from_slice(&[8, 9]));
        inbox.push_message(from, 2, |bytes| bytes.copy_from_slice(b"ok"));
        assert_eq!(inbox.event(0), done(7, Outcome::Read(&[8, 9])));
        assert_eq!(inbox.event(1), Event::Message { from, bytes: b"ok" });
    }
}
