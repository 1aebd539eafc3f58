//! The protocol core alone: three machines in one thread over plain memory, no fabric.
//!
//! The measurement includes framing a batch of entries, proposing it, the WRITEs and CASes at three
//! acceptors and their completions, the delivery at the leader, the learning and delivery at both
//! followers, and walking over the delivered entries at all three. A library such as `omnipaxos`
//! does the same when its three replicas live in one thread.

mod entry;
mod memory;

use crate::run::{Effort, repeat};
use base::{Event, Inbox, Instant, Rank};
use memory::{MEMBERS, Memory, View};
use proto::node::{Node, NodeConfig, Start, Timing};
use proto::planted::Sound;
use proto::registry::{self, LogSpec};
use proto::velos::{self, Shape, Velos};
use proto::{Refused, Role};
use report::{Report, Row};
use std::convert::Infallible;
use std::time::Duration;

/// The size of one entry's value, in bytes: the same at every rival.
pub const VALUE_BYTES: usize = 32;
/// The entries per batch: the same as for the rivals.
const BATCHES: [usize; 3] = [1, 64, 512];

/// Three machines, and the memory that they share.
pub struct Core {
    memory: Memory,
    nodes: Vec<Node<Velos>>,
    spare: Inbox,
    batch: entry::Batch,
    now: Instant,
    leader: usize,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}

impl Core {
    /// A group with a leader.
    ///
    /// # Panics
    /// If no member becomes leader: the protocol is broken.
    pub fn new(shape: &Shape) -> Core {
        let mut memory = Memory::new(velos::Spec::layout(MEMBERS, shape).n_words as usize);
        let nodes: Vec<Node<Velos>> = (0..MEMBERS)
            .map(|me| {
                let config = NodeConfig {
                    me: Rank::at(me),
                    members: MEMBERS,
                    start: Start::Bootstrap,
                    timing: Timing::default(),
                    memory_outlives_process: true,
                    peer_works: false,
                };
                let mut view = View { memory: &mut memory, me };
                registry::member::<velos::Spec, _, _>(config, shape, Sound, &mut view)
                    .expect("velos runs on any memory")
            })
            .collect();
        let batch = entry::Batch::new(nodes[0].value_bytes_max());
        let now = Instant(1);
        let mut core = Core { memory, nodes, spare: Inbox::new(), batch, now, leader: 0 };
        for me in 0..MEMBERS {
            for peer in Rank::all(MEMBERS) {
                let view = &mut View { memory: &mut core.memory, me };
                core.nodes[me].on_event(Event::LinkUp(peer), core.now, view);
            }
        }
        for _ in 0..1000 {
            core.now = core.now.plus(Duration::from_millis(1));
            (0..MEMBERS).for_each(|me| core.step(me));
        }
        let leads = |node: &Node<Velos>| node.status().role == Role::Leader;
        core.leader = core.nodes.iter().position(leads).expect("somebody leads");
        core
    }

    fn step(&mut self, me: usize) {
        std::mem::swap(&mut self.spare, &mut self.memory.inboxes[me]);
        for at in 0..self.spare.len() {
            let view = &mut View { memory: &mut self.memory, me };
            self.nodes[me].on_event(self.spare.event(at), self.now, view);
        }
        self.spare.clear();
        self.nodes[me].poll(self.now, &mut View { memory: &mut self.memory, me });
    }

    /// Has `entries` copies of `value` decided and delivered at all three, in as few slots as they
    /// fit into.
    ///
    /// # Panics
    /// If they are not: the protocol is broken.
    pub fn decide(&mut self, value: &[u8], entries: usize) {
        // Virtual time: the machines use the time only to wait, and no machine waits here.
        self.now = Instant(self.now.0 + 1000);
        let before = self.memory.delivered;
        self.batch.begin();
        for _ in 0..entries {
            if !self.batch.push(value) {
                self.propose();
                assert!(self.batch.push(value), "an empty batch takes one entry");
            }
        }
        self.propose();
        let leader = self.leader;
        self.step(leader);
        (0..MEMBERS).filter(|at| *at != leader).for_each(|at| self.step(at));
        let after = self.memory.delivered;
        let all = (0..MEMBERS).all(|me| after[me] == before[me] + entries as u64);
        assert!(all, "{entries} entries: {before:?} became {after:?}");
    }

    fn propose(&mut self) {
        let me = self.leader;
        let view = &mut View { memory: &mut self.memory, me };
        match self.nodes[me].propose(self.batch.bytes(), self.now, view) {
            Ok(_) => self.batch.begin(),
            Err(Refused::Full | Refused::NotLeader | Refused::TooLong) => {
                panic!("a batch is far smaller than the window")
            }
        }
    }
}

/// One run of one batch size.
pub fn measure(batch: usize, span: Duration) -> Row {
    let batch_ns = run(batch, &[7; VALUE_BYTES], span);
    Row::new(format!("batch of {batch}"))
        .with("members", MEMBERS)
        .with("value_bytes", VALUE_BYTES)
        .with("batch", batch)
        .with("per_s", batch as f64 * 1e9 / batch_ns)
        .with("ns_per_entry", batch_ns / batch as f64)
        .with("ns_per_batch", batch_ns)
}

/// The report: a row per batch size, or one per batch size and rival if there are rivals' rows.
pub fn report(effort: &Effort, rivals: Option<&Report>) -> Report {
    let span = effort.span / 2;
    let own =
        repeat("core", effort, &BATCHES, |batch| Ok::<Row, Infallible>(measure(*batch, span)));
    let Ok(mut report) = own;
    let Some(rivals) = rivals else { return report };
    report.rows = report.rows.iter().flat_map(|row| beside(row, &rivals.rows)).collect();
    report
}

fn beside(ours: &Row, rivals: &[Row]) -> Vec<Row> {
    let number = |row: &Row, name: &str| row.number(name).unwrap_or(f64::NAN);
    let same = |row: &&Row| row.number("batch") == ours.number("batch");
    let compared = rivals.iter().filter(same).filter_map(|theirs| {
        let per_s = number(theirs, "per_s");
        Some(
            ours.clone()
                .with("peer", theirs.get("peer")?.clone())
                .with("peer_per_s", per_s)
                .with("ratio", number(ours, "per_s") / per_s),
        )
    });
    compared.collect()
}

/// Each run has a fresh group, so that none inherits the memory layout of another.
fn run(batch: usize, value: &[u8], span: Duration) -> f64 {
    let mut core = Core::new(&Shape::default());
    // The warm-up goes twice around the ring: every slot has been recycled, every page is present.
    let warm_up = 2 * Shape::default().ring_slots;
    (0..warm_up).for_each(|_| core.decide(value, batch));
    let began = std::time::Instant::now();
    let mut batches = 0;
    // The clock is read only at intervals: a reading costs a considerable part of a decision.
    while began.elapsed() < span {
        (0..64).for_each(|_| core.decide(value, batch));
        batches += 64;
    }
    let ns = began.elapsed().as_nanos() as f64 / f64::from(batches);
    assert!(core.memory.sum > 0, "the state machines saw the values");
    ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_stands_beside_the_batch_of_its_size() {
        let ours = Row::new("batch of 64").with("batch", 64u64).with("per_s", 30.0);
        let theirs = |batch: u64, per_s: f64| {
            Row::new("x").with("peer", "omnipaxos").with("batch", batch).with("per_s", per_s)
        };
        let rows = beside(&ours, &[theirs(1, 5.0), theirs(64, 10.0)]);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].number("ratio"), Some(3.0));
    }

    #[test]
    fn a_batch_larger_than_a_slot_is_delivered_whole() {
        let mut core = Core::new(&Shape::default());
        for entries in [1, 64, 512, 1] {
            core.decide(&[7; VALUE_BYTES], entries);
        }
    }
}
