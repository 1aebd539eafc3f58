//! Commuting messages of one sender, ahead of an old one by a window of names.

use super::*;
use crate::amcast::outbox::Outbox;
use crate::amcast::{Footprint, GroupId, Layout, WINDOW};

/// A host that keeps the messages sent.
type Sent = Outbox<PrimcastWire, Vec<(MessageId, Timestamp)>>;

const OLD: Footprint = Footprint::of_classes(0, 1);
const NEW: Footprint = Footprint::of_classes(0, 2);

fn pid(group: usize, rank: usize) -> Pid {
    Pid { group: GroupId::at(group), rank: Rank::at(rank) }
}

fn report(epoch: Ballot, clock: u64) -> Report {
    let (clock, delivered) = (Timestamp(clock), Place::default());
    Report { epoch, clock, as_primary: true, delivered, listed: Vec::new(), members: None }
}

/// A follower of a group of three, beside a group of one.
struct Follower {
    machine: Machine,
    out: Sent,
    epoch: Ballot,
    n_proposed: u64,
}

impl Follower {
    fn new() -> Follower {
        let config = Config {
            layout: Layout::new(&[3, 1]),
            rule: Rule::Plain,
            hybrid: false,
            patience: core::time::Duration::from_millis(40),
            commutes: true,
            part_bytes: 64 << 10,
            retain: 100,
            retain_bytes: usize::MAX,
        };
        let machine = Machine::new(&config, pid(0, 2), Sound);
        let epoch = machine.office.current;
        Follower { machine, out: Sent::default(), epoch, n_proposed: 0 }
    }

    /// The messages come, and the primary's proposals, one timestamp after another.
    fn take(&mut self, messages: impl Iterator<Item = Message>) {
        let mut batch = Vec::new();
        let mut dest = GroupSet::EMPTY;
        for message in messages {
            self.n_proposed += 1;
            batch.push((message.id, Timestamp(self.n_proposed)));
            dest = message.dest;
            self.machine.on_start(&Arc::new(message), Instant(1), &mut self.out);
        }
        let (epoch, report) = (self.epoch, Some(report(self.epoch, self.n_proposed)));
        let proposals = PrimcastWire::Proposals { dest, epoch, batch, report };
        self.machine.on_wire(pid(0, 0), &proposals, Instant(1), &mut self.out);
        self.machine.settle(Instant(1), &mut self.out);
    }

    /// The other group gives its timestamp to a message to both.
    fn take_remote(&mut self, id: MessageId) {
        let (epoch, dest, ts) = (self.epoch, GroupSet::all(2), Timestamp(1));
        let report = report(epoch, 1);
        let ack = PrimcastWire::Ack { id, dest, epoch, ts, chosen: false, report };
        self.machine.on_wire(pid(1, 0), &ack, Instant(1), &mut self.out);
        self.machine.settle(Instant(1), &mut self.out);
    }

    fn delivered(&self) -> Vec<u64> {
        self.out.deliveries.iter().map(|(id, _)| id.sequence).collect()
    }
}

fn message(sequence: u64, dest: GroupSet, footprint: Footprint) -> Message {
    let id = MessageId { sender: 1, sequence };
    Message { footprint, ..Message::new(id, dest, *b"x") }
}

fn new_messages(sequences: core::ops::Range<u64>) -> impl Iterator<Item = Message> {
    sequences.map(|sequence| message(sequence, GroupSet::all(1), NEW))
}

/// The names moved out of the window by whole words: at the last messages that T3 admits, the old
/// one counted as delivered, and its delivery failed (P8).
#[test]
fn p8_the_oldest_message_that_t3_admits_is_delivered() {
    let mut follower = Follower::new();
    let old = 63;
    follower.take(core::iter::once(message(old, GroupSet::all(2), OLD)));
    follower.take(new_messages(old + 1..old + WINDOW));
    assert_eq!(follower.delivered().len() as u64, WINDOW - 1, "they commute with the old one");
    let id = MessageId { sender: 1, sequence: old };
    assert!(!follower.machine.has_delivered(id));
    follower.take_remote(id);
    assert_eq!(follower.delivered().last(), Some(&old));
}

/// Another member has delivered the old message, so its sender is free to send on (W2 of the door's
/// span): here it waits for one that it conflicts with, whose other timestamp has not come.
#[test]
fn p25_no_message_overtakes_one_of_its_sender_by_a_window() {
    let mut follower = Follower::new();
    let other =
        Message { id: MessageId { sender: 2, sequence: 1 }, ..message(1, GroupSet::all(2), OLD) };
    let (waits_for, old) = (other.id, 63);
    follower.take(core::iter::once(other));
    follower.take(core::iter::once(message(old, GroupSet::all(1), OLD)));
    follower.take(new_messages(old + 1..old + WINDOW + 200));
    assert_eq!(follower.delivered().len() as u64, WINDOW - 1);
    assert_eq!(follower.delivered().last(), Some(&(old + WINDOW - 1)));
    follower.take_remote(waits_for);
    let (delivered, n_new) = (follower.delivered(), WINDOW as usize - 1);
    assert_eq!(delivered[n_new..n_new + 3], [1, old, old + WINDOW]);
    assert_eq!(delivered.last(), Some(&(old + WINDOW + 199)));
}
