//! Commands to the log if this member leads, to the leader if another does.
//!
//! - I1 a batch, once built, is proposed as it is or not at all: its place in the reign is in it.
//! - I2 commands of one origin are proposed in the order of their sequences within an attempt; of a
//!   refused attempt nothing further is taken ([`Foreign::take`]).
//! - I3 at most [`FOREIGN_BYTES_MAX`] of one member's commands wait here; more are refused, and
//!   that member tries again a little later.

use crate::bugs::Bug;
use crate::core::Core;
use crate::order::{HEADER_BYTES, Place};
use crate::outbox::Sequence;
use crate::plant::Plant;
use crate::service::{Appended, Application, Door, Origin};
use crate::wire::{Frame, ITEM_HEADER_BYTES, Items, push_item};
use base::{Ballot, Incarnation, MAX_MEMBERS, Rank};
use proto::{Refused, Replicator};

/// See I3.
pub(crate) const FOREIGN_BYTES_MAX: usize = 8 << 20;
/// The bytes of commands in one frame, about.
const FRAME_BYTES: usize = 128 << 10;

/// The batch that is being built, or waits for room in the window.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    pub(crate) is_built: bool,
    place: Place,
    /// The command of which the batches hold only a part so far. Its rest comes before anything
    /// else.
    half: Option<(Origin, Sequence)>,
}

impl Batch {
    pub(crate) fn begin_reign(&mut self, ballot: Ballot) {
        if self.place.reign != ballot {
            self.place = Place { reign: ballot, index: 0 };
        }
    }

    pub(crate) fn end_reign(&mut self) {
        self.is_built = false;
        self.half = None;
    }
}

#[derive(Debug, Default)]
struct Queue {
    life: u64,
    attempt: u64,
    refused: bool,
    /// Items; those before `head` are proposed.
    items: Vec<u8>,
    head: usize,
}

/// The commands of other members' clients that wait to be proposed.
#[derive(Debug)]
pub(crate) struct Foreign {
    queues: [Queue; MAX_MEMBERS],
    /// Whose turn it is to be first in a batch.
    turn: usize,
    /// See I3.
    bytes_max: usize,
}

impl Foreign {
    /// None yet, and at most so many bytes of each member's.
    pub(crate) fn new(bytes_max: usize) -> Foreign {
        Foreign { queues: Default::default(), turn: 0, bytes_max }
    }

    /// Takes commands of `from`, if `takes`. False if they are refused: say so to their origin.
    pub(crate) fn take(
        &mut self,
        from: Rank,
        life: u64,
        attempt: u64,
        items: Items<'_>,
        takes: bool,
    ) -> bool {
        let queue = &mut self.queues[from.index()];
        if (life, attempt) < (queue.life, queue.attempt) {
            return true; // of a past attempt: its origin has moved on and needs no answer
        }
        if life > queue.life {
            // Commands of an earlier process run would be taken for this run's. No client waits for
            // them.
            queue.items.clear();
            queue.head = 0;
        }
        if (life, attempt) > (queue.life, queue.attempt) {
            (queue.life, queue.attempt, queue.refused) = (life, attempt, false);
        }
        if queue.refused {
            return true; // it has been told
        }
        if !takes || queue.items.len() - queue.head > self.bytes_max {
            queue.refused = true;
            return false;
        }
        items.iter().for_each(|(sequence, command)| push_item(&mut queue.items, sequence, command));
        true
    }

    /// The rest of what was refused is taken (`Bug::RefusedInPart`).
    pub(crate) fn forget_refusal(&mut self, from: Rank) {
        self.queues[from.index()].refused = false;
    }

    /// Refuses whatever waits, and what comes in the present attempts.
    pub(crate) fn refuse_all(&mut self, mut tell: impl FnMut(Rank, u64, u64)) {
        for (at, queue) in self.queues.iter_mut().enumerate() {
            queue.items.clear();
            queue.head = 0;
            if queue.life != 0 && !queue.refused {
                queue.refused = true;
                tell(Rank::at(at), queue.life, queue.attempt);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.items.is_empty())
    }

    /// Hands the commands of `rank` to `append`, in order, until it does not take one whole.
    fn drain(
        &mut self,
        rank: Rank,
        mut append: impl FnMut(Origin, Sequence, &[u8]) -> Appended,
    ) -> (u64, Appended) {
        let queue = &mut self.queues[rank.index()];
        let origin = Origin { rank, life: Incarnation(queue.life) };
        let (mut n_whole, mut last) = (0, Appended::Whole);
        // What was checked when it arrived parses again.
        let items = Items::check(&queue.items[queue.head..]).unwrap_or(Items::NONE);
        for (sequence, command) in items.iter() {
            last = append(origin, Sequence(sequence), command);
            if last != Appended::Whole {
                break;
            }
            n_whole += 1;
            queue.head += ITEM_HEADER_BYTES + command.len();
        }
        if queue.head * 2 >= queue.items.len() {
            queue.items.drain(..queue.head);
            queue.head = 0;
        }
        (n_whole, last)
    }
}

impl<P: Plant, R: Replicator, A: Application, D: Door<A>> Core<P, R, A, D> {
    /// Sends the commands that wait on their way. True if any went.
    pub(crate) fn dispatch_commands(&mut self) -> bool {
        if self.host.leads {
            return self.propose();
        }
        match self.target {
            Some(leader) if leader != self.host.origin.rank => self.forward(leader),
            _ => false,
        }
    }

    /// Builds and proposes batches until nothing waits or the window is full.
    fn propose(&mut self) -> bool {
        let now = self.now();
        let mut worked = false;
        while self.batch.is_built || self.build() {
            match self.node.propose(&self.batch.bytes, now, &mut self.host) {
                Ok(slot) => {
                    worked = true;
                    if self.host.withheld.is_some() {
                        self.wake_laggards(slot.prefix_through()); // everyone's disk is needed
                    }
                    self.host.stats.batches_proposed += 1;
                    self.host.proposed_at.push_back((self.batch.place, now));
                    self.batch.is_built = false;
                    self.batch.place.index += 1;
                }
                Err(Refused::Full) => break,
                // Deposed; the note about it is on its way and undoes the rest.
                Err(Refused::NotLeader) => {
                    self.batch.is_built = false;
                    break;
                }
                Err(Refused::TooLong) => unreachable!("a batch is built to the machine's measure"),
            }
        }
        worked
    }

    /// Builds the next batch. False if there is nothing to put into it.
    fn build(&mut self) -> bool {
        let mut half = self.batch.half;
        let idle = !self.host.desk.writes.has_undispatched() && self.foreign.is_empty();
        // Time passes even while writes wait for a disk, because reads depend on it. A command that
        // was begun is completed.
        let blocked = self.host.withheld.as_ref().is_some_and(|withheld| !withheld.has_room());
        let blocked = blocked && half.is_none();
        if (idle || blocked) && !self.ticks.wanted {
            return false;
        }
        let stamp_ms = self.host.stamp_ms();
        self.ticks.stamped(self.now());
        let me = self.host.origin;
        let bytes_max = self.node.value_bytes_max();
        let Batch { bytes, place, .. } = &mut self.batch;
        bytes.clear();
        bytes.extend_from_slice(&place.to_bytes());
        debug_assert_eq!(bytes.len(), HEADER_BYTES);
        let app = &mut self.host.app;
        app.begin(stamp_ms, bytes);

        // A half command first, since its parts must follow each other; then own and others' in
        // turn, so that neither starves.
        let first = half.map_or(self.foreign.turn % MAX_MEMBERS, |(origin, _)| origin.rank.index());
        self.foreign.turn = self.foreign.turn.wrapping_add(1);
        let (mut n_whole, mut last) = (0, Appended::Whole);
        for at in (first..MAX_MEMBERS).chain(0..first).filter(|_| !blocked) {
            let rank = Rank::at(at);
            let mut append = |origin: Origin, sequence, command: &[u8]| {
                if half.take().is_some_and(|half| half != (origin, sequence)) {
                    // Its deadline passed, or its origin moved on: the rest will not come.
                    app.abandon();
                }
                let appended = app.append(origin, sequence, command, bytes_max, bytes);
                half = (appended == Appended::Part).then_some((origin, sequence));
                appended
            };
            if rank == me.rank {
                self.host.desk.writes.dispatch(|sequence, command| {
                    last = append(me, sequence, command);
                    n_whole += u64::from(last == Appended::Whole);
                    last == Appended::Whole
                });
            } else {
                let (n, end) = self.foreign.drain(rank, append);
                n_whole += n;
                last = end;
            }
            if last != Appended::Whole {
                break;
            }
        }
        let forgets = self.host.plant.has_planted(Bug::HalfIsForgotten);
        self.batch.half = half.filter(|_| !forgets);
        self.host.stats.commands_proposed += n_whole;
        self.batch.is_built = true;
        true
    }

    /// Sends own clients' commands to `leader`.
    fn forward(&mut self, leader: Rank) -> bool {
        if self.now() < self.pause_until {
            return false;
        }
        let mut worked = false;
        let (life, attempt) = (self.host.origin.life.0, self.attempt);
        let mut list = Vec::new();
        while self.host.desk.writes.has_undispatched() && self.host.flows.has_room(leader) {
            list.clear();
            let mut n = 0;
            self.host.desk.writes.dispatch(|sequence, command| {
                let fits = list.is_empty() || list.len() + command.len() <= FRAME_BYTES;
                if fits {
                    push_item(&mut list, sequence.0, command);
                    n += 1;
                }
                fits
            });
            let Ok(items) = Items::check(&list) else { break };
            if items.is_empty() {
                break;
            }
            self.host.flows.push(leader, &Frame::Commands { life, attempt, items });
            self.host.stats.commands_forwarded += n;
            worked = true;
        }
        worked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Rank = Rank::at(2);

    fn items(sequences: &[u64]) -> Vec<u8> {
        let mut list = Vec::new();
        sequences.iter().for_each(|sequence| push_item(&mut list, *sequence, b"set"));
        list
    }

    fn take(foreign: &mut Foreign, attempt: u64, sequences: &[u64], takes: bool) -> bool {
        let list = items(sequences);
        foreign.take(FROM, 5, attempt, Items::check(&list).unwrap(), takes)
    }

    fn drained(foreign: &mut Foreign, most: usize) -> Vec<u64> {
        let mut sequences = Vec::new();
        foreign.drain(FROM, |origin, sequence, command| {
            assert_eq!((origin.life, command), (Incarnation(5), &b"set"[..]));
            if sequences.len() == most {
                return Appended::Full;
            }
            sequences.push(sequence.0);
            Appended::Whole
        });
        sequences
    }

    #[test]
    fn i2_after_a_refusal_nothing_of_that_attempt_is_taken() {
        let mut foreign = Foreign::new(FOREIGN_BYTES_MAX);
        assert!(!take(&mut foreign, 1, &[1, 2], false), "refused, and told");
        assert!(take(&mut foreign, 1, &[3], true), "dropped in silence although it could be taken");
        assert!(foreign.is_empty());
        assert!(take(&mut foreign, 2, &[1, 2, 3], true));
        assert!(take(&mut foreign, 1, &[9], true), "late");
        assert_eq!(drained(&mut foreign, 9), [1, 2, 3]);
    }

    #[test]
    fn i2_commands_stay_in_order_across_batches() {
        let mut foreign = Foreign::new(FOREIGN_BYTES_MAX);
        take(&mut foreign, 1, &[1, 2], true);
        take(&mut foreign, 1, &[3, 4], true);
        assert_eq!(drained(&mut foreign, 3), [1, 2, 3]);
        take(&mut foreign, 1, &[5], true);
        assert_eq!(drained(&mut foreign, 9), [4, 5]);
        assert!(foreign.is_empty());
    }

    #[test]
    fn what_an_earlier_life_left_is_not_taken_for_the_next_ones() {
        let mut foreign = Foreign::new(FOREIGN_BYTES_MAX);
        take(&mut foreign, 7, &[1, 2, 3, 4], true);
        // Less than half of them: what is proposed is not yet moved out.
        assert_eq!(drained(&mut foreign, 1), [1]);
        let list = items(&[1]);
        assert!(foreign.take(FROM, 6, 1, Items::check(&list).unwrap(), true));
        let mut drained = Vec::new();
        foreign.drain(FROM, |origin, sequence, _| {
            drained.push((origin.life.0, sequence.0));
            Appended::Whole
        });
        assert_eq!(drained, [(6, 1)]);
    }

    #[test]
    fn a_deposed_leader_refuses_each_attempt_once() {
        let mut foreign = Foreign::new(FOREIGN_BYTES_MAX);
        take(&mut foreign, 3, &[1], true);
        let mut told = Vec::new();
        foreign.refuse_all(|rank, life, attempt| told.push((rank, life, attempt)));
        foreign.refuse_all(|rank, life, attempt| told.push((rank, life, attempt)));
        assert_eq!(told, [(FROM, 5, 3)]);
        assert!(foreign.is_empty());
    }

    #[test]
    fn i3_more_than_the_bound_is_refused() {
        let mut foreign = Foreign::new(FOREIGN_BYTES_MAX);
        let big = vec![0; FOREIGN_BYTES_MAX];
        let mut list = Vec::new();
        push_item(&mut list, 1, &big);
        let list = Items::check(&list).unwrap();
        assert!(foreign.take(FROM, 1, 1, list, true));
        assert!(!foreign.take(FROM, 1, 1, list, true));
    }
}
