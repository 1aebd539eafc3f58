//! What copies of a program have sent, and what has left to clients, where answers are held until
//! they are compared.
//!
//! - S1 when a byte leaves to a client, a majority's copies have sent it, and all before it, on
//!   that client's connection. Bytes that a copy has drawn (`hash`, H3) may be any, and no others:
//!   those around them count, and so does their number. Judged by [`Sent::leave`], of what members
//!   write to their clients' pipes. (A copy that began with a checkpoint has not sent what was sent
//!   before: it is not asked about the connections that were open there.)

use base::{Incarnation, Rank};
use engine::streams::{Addresses, Broken, Interest, Pipes, Received, Streams, number_of};
use replicate::entry::ConnectionId;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

/// One copy: its member, and the ordinal of its process.
pub(super) type CopyId = (Rank, Incarnation);

/// A journal that all copies of a run share.
pub(super) type SharedSent = Rc<RefCell<Sent>>;

/// The journal of the module's text.
#[derive(Debug, Default)]
pub(super) struct Sent {
    by_copies: BTreeMap<ConnectionId, BTreeMap<CopyId, Vec<u8>>>,
    /// The places in that of what a copy has drawn.
    drawn: BTreeSet<(ConnectionId, CopyId, usize)>,
    /// The connections of which a member's copy has not sent all itself.
    unknown: BTreeSet<(ConnectionId, Rank)>,
    left: BTreeMap<ConnectionId, Vec<u8>>,
    finding: Option<String>,
}

impl Sent {
    /// A copy sends bytes on a connection.
    pub(super) fn send(&mut self, copy: CopyId, id: ConnectionId, bytes: &[u8]) {
        let sent = self.by_copies.entry(id).or_default().entry(copy).or_default();
        sent.extend_from_slice(bytes);
    }

    /// A copy will send bytes there that it has drawn.
    pub(super) fn draw(&mut self, copy: CopyId, id: ConnectionId, at: Range<usize>) {
        self.drawn.extend(at.map(|at| (id, copy, at)));
    }

    /// A copy has begun with a checkpoint, and with these connections.
    pub(super) fn begin_with(&mut self, owner: Rank, open: impl Iterator<Item = ConnectionId>) {
        self.unknown.extend(open.map(|id| (id, owner)));
    }

    /// Bytes leave to the client of a connection, where so many copies are a majority (S1).
    pub(super) fn leave(&mut self, id: ConnectionId, bytes: &[u8], majority: usize) {
        let left = self.left.entry(id).or_default();
        left.extend_from_slice(bytes);
        let of_copies = self.by_copies.get(&id).into_iter().flatten();
        let drawn = &self.drawn;
        let agrees = of_copies.filter(|(copy, sent)| {
            let is_like = |(at, (one, other)): (usize, (&u8, &u8))| {
                one == other || drawn.contains(&(id, **copy, at))
            };
            sent.len() >= left.len() && left.iter().zip(sent.iter()).enumerate().all(is_like)
        });
        let mut members: BTreeSet<Rank> = agrees.map(|((owner, _), _)| *owner).collect();
        members.extend(self.unknown.iter().filter(|(of, _)| *of == id).map(|(_, owner)| *owner));
        if members.len() < majority && self.finding.is_none() {
            self.finding = Some(format!(
                "S1: byte {} of {id:?} has left, and {} copies have sent it, of {majority}",
                left.len(),
                members.len()
            ));
        }
    }

    /// What S1 does not hold for, in words.
    pub(super) fn finding(&self) -> Option<String> {
        self.finding.clone()
    }
}

/// The pipes of a member, which keep what was written to its clients.
#[derive(Debug)]
pub(super) struct Tapped {
    pub(super) pipes: Pipes,
    /// By the numbers of the connections.
    written: Vec<(u64, Vec<u8>)>,
}

impl Tapped {
    pub(super) fn new(pipes: Pipes) -> Tapped {
        Tapped { pipes, written: Vec::new() }
    }

    /// What was written since the last call.
    pub(super) fn take_written(&mut self) -> Vec<(u64, Vec<u8>)> {
        std::mem::take(&mut self.written)
    }
}

impl Streams for Tapped {
    type Incoming = <Pipes as Streams>::Incoming;

    fn accept(&mut self) -> Option<Self::Incoming> {
        self.pipes.accept()
    }

    fn refuse(&mut self, incoming: Self::Incoming, reply: &[u8]) {
        self.pipes.refuse(incoming, reply);
    }

    fn admit(&mut self, incoming: Self::Incoming, key: u64) -> Result<Addresses, Broken> {
        self.pipes.admit(incoming, key)
    }

    fn read(&mut self, key: u64, into: &mut [u8]) -> Result<Received, Broken> {
        self.pipes.read(key, into)
    }

    fn write(&mut self, key: u64, bytes: &[u8]) -> Result<usize, Broken> {
        let n = self.pipes.write(key, bytes)?;
        if n > 0 {
            self.written.push((number_of(key), bytes[..n].to_vec()));
        }
        Ok(n)
    }

    fn watch(&mut self, key: u64, interest: Interest) -> Result<(), Broken> {
        self.pipes.watch(key, interest)
    }

    fn close(&mut self, key: u64) {
        self.pipes.close(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_what_two_of_three_have_not_sent_may_not_leave() {
        let id = ConnectionId { owner: Rank::at(0), run: Incarnation(1), number: 1 };
        let finding = |sent: &[(usize, u64, &[u8])], left: &[&[u8]]| {
            let mut journal = Sent::default();
            for (owner, life, bytes) in sent {
                journal.send((Rank::at(*owner), Incarnation(*life)), id, bytes);
            }
            left.iter().for_each(|bytes| journal.leave(id, bytes, 2));
            journal.finding().is_some()
        };
        assert!(!finding(&[(0, 1, b"abc"), (2, 1, b"ab")], &[b"a", b"b"]));
        assert!(finding(&[(0, 1, b"abc"), (2, 1, b"ab")], &[b"ab", b"c"]));
        assert!(finding(&[(0, 1, b"ab"), (1, 1, b"xb"), (2, 1, b"ax")], &[b"ab"]));
        assert!(finding(&[(0, 1, b"ab"), (0, 2, b"ab")], &[b"ab"]), "one member's copies");
        assert!(!finding(&[(0, 1, b"ab"), (1, 1, b"x"), (1, 2, b"ab")], &[b"ab"]));
        // What one has drawn is left out, and nothing else.
        let finding = |own: Range<usize>, other: &[u8]| {
            let mut journal = Sent::default();
            journal.send((Rank::at(0), Incarnation(1)), id, b"a12b");
            journal.send((Rank::at(1), Incarnation(1)), id, other);
            journal.draw((Rank::at(1), Incarnation(1)), id, own);
            journal.leave(id, b"a12b", 2);
            journal.finding().is_some()
        };
        assert!(!finding(1..3, b"a34b"));
        assert!(finding(0..0, b"a34b"));
        assert!(finding(1..2, b"a34b"));
        assert!(finding(1..3, b"a34c"));
        assert!(finding(1..3, b"a34"), "it has not sent the last");
        let mut journal = Sent::default();
        journal.send((Rank::at(0), Incarnation(1)), id, b"a");
        journal.begin_with(Rank::at(1), [id].into_iter());
        journal.leave(id, b"a", 2);
        assert_eq!(journal.finding(), None);
    }
}
