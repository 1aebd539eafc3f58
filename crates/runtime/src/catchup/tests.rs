//! States between the loops of three members, without their threads.

use super::*;
use crate::disk::LogDisk;
use crate::flow::Incoming;
use crate::mock::{Obedient, Passive, Wire, core};
use base::{Incarnation, Instant};
use std::cell::Cell;
use std::rc::Rc;

const LACKS: usize = 0;
const HAS: usize = 1;
const THIRD: usize = 2;
const N: usize = 3;

/// A frame, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Wanted,
    Refused,
    Head(Prefix),
    Begins(Prefix),
    Chunk,
    Ends,
    Taken,
    Values { is_last: bool },
}

fn told(frame: &Frame<'_>) -> Told {
    match *frame {
        Frame::StateWanted { .. } => Told::Wanted,
        Frame::StateRefused { learner: false, .. } => Told::Refused,
        Frame::StateHead { prefix, .. } => Told::Head(prefix),
        Frame::StateBegins { prefix, .. } => Told::Begins(prefix),
        Frame::StateChunk { .. } => Told::Chunk,
        Frame::StateEnds { .. } => Told::Ends,
        Frame::StateTaken { .. } | Frame::ValuesTaken { .. } => Told::Taken,
        Frame::Values { last, .. } => Told::Values { is_last: last },
        ref other => panic!("{other:?}"),
    }
}

struct Group {
    cores: Vec<Core<Wire, Obedient, Passive>>,
    decided: Vec<Rc<Cell<Prefix>>>,
    /// By who receives, then by who sends.
    incoming: Vec<Vec<Incoming>>,
}

impl Group {
    /// Of these, `HAS` and `THIRD` have applied seven values, and keep none of them.
    fn new() -> Group {
        let decided: Vec<Rc<Cell<Prefix>>> = (0..N).map(|_| Rc::default()).collect();
        let cores = (0..N).map(|me| core(me, Rc::clone(&decided[me]))).collect();
        let incoming = (0..N).map(|_| (0..N).map(|_| Incoming::default()).collect()).collect();
        let mut group = Group { cores, decided, incoming };
        group.decide(HAS, Prefix(7));
        group.decide(THIRD, Prefix(7));
        group
    }

    /// The machine at `me` learns by itself what is decided.
    fn decide(&mut self, me: usize, prefix: Prefix) {
        self.decided[me].set(prefix);
        let Core { node, world, .. } = &mut self.cores[me];
        node.poll(Instant(1), world);
        assert_eq!(node.status().applied, prefix);
    }

    /// The machine at `me` asks for a state of at least `prefix`, and gets it from `from`.
    fn need(&mut self, me: usize, prefix: Prefix, from: usize) {
        self.cores[me].taking.wanted = prefix;
        let sources = [Rank::at(from)].into_iter().collect();
        let Core { fetch, world, .. } = &mut self.cores[me];
        fetch.start(world.executed(), sources, Instant(1), &mut world.flows);
    }

    /// What `from` has sent arrives at `to`, which does what it can about it.
    fn carry(&mut self, from: usize, to: usize) -> Vec<Told> {
        let World { flows, fabric, .. } = &mut self.cores[from].world;
        flows.send(fabric);
        let mut seen = Vec::new();
        for message in fabric.take(Rank::at(to)) {
            let core = &mut self.cores[to];
            self.incoming[to][from].on_message(Rank::at(from), &message, |frame| {
                seen.push(told(&frame));
                core.on_frame(Rank::at(from), frame);
            });
        }
        let core = &mut self.cores[to];
        while core.give.pause().is_some() {
            core.mind_giving(); // a piece takes no time to speak of, nor does the pause behind it
        }
        while core.mind_restoring() {}
        seen
    }

    /// The state of `HAS` is in place at `LACKS`, and the values behind it are not there.
    fn half_way(&mut self) {
        self.need(LACKS, Prefix(7), HAS);
        assert_eq!(self.carry(LACKS, HAS), [Told::Wanted]);
        let seen = self.carry(HAS, LACKS);
        let whole =
            [Told::Head(Prefix(7)), Told::Begins(Prefix(7)), Told::Chunk, Told::Chunk, Told::Ends];
        assert_eq!(seen, whole);
        assert_eq!(self.cores[LACKS].world.service.n_restored, 1);
        assert_eq!(self.cores[LACKS].world.executed(), Prefix(7));
        assert!(self.installed(LACKS).is_empty());
    }

    fn installed(&self, me: usize) -> &[(Prefix, Option<StateHead>)] {
        &self.cores[me].node.machine().installed
    }
}

#[test]
fn i4_a_member_in_the_middle_of_a_transfer_gives_no_state() {
    let mut group = Group::new();
    group.half_way();
    // The third has lost its state, and asks the one whose machine has applied nothing of it.
    let decided = Rc::default();
    (group.cores[THIRD], group.decided[THIRD]) = (core(THIRD, Rc::clone(&decided)), decided);
    group.need(THIRD, Prefix(7), LACKS);
    group.carry(THIRD, LACKS);
    assert_eq!(group.carry(LACKS, THIRD), [Told::Refused]);
    // When the machine has heard of it, it has applied it.
    group.carry(LACKS, HAS);
    let last = Told::Values { is_last: true };
    assert_eq!(group.carry(HAS, LACKS), [Told::Head(Prefix(7)), last]);
    assert_eq!(group.installed(LACKS), [(Prefix(7), Some(Obedient::head(Prefix(7))))]);
    group.need(THIRD, Prefix(7), LACKS);
    group.carry(THIRD, LACKS);
    assert_eq!(group.carry(LACKS, THIRD)[..2], [Told::Head(Prefix(7)), Told::Begins(Prefix(7))]);
}

#[test]
fn i4_a_giver_that_lags_itself_before_the_values_says_nothing_of_them() {
    let mut group = Group::new();
    group.half_way();
    // A transfer of its own has brought more than its machine has applied.
    group.cores[HAS].world.execute(Slot(7), b"value");
    assert_eq!(group.carry(LACKS, HAS), [Told::Taken, Told::Taken]);
    assert_eq!(group.carry(HAS, LACKS), [Told::Refused]);
    assert!(group.cores[LACKS].fetch.is_active(), "another is asked");
    // What is there already stays: the next one has nothing more to give than its head.
    group.need(LACKS, Prefix(7), THIRD);
    group.carry(LACKS, THIRD);
    assert_eq!(group.carry(THIRD, LACKS)[0], Told::Head(Prefix(7)));
    while !group.carry(LACKS, THIRD).is_empty() {
        group.carry(THIRD, LACKS);
    }
    assert_eq!(group.installed(LACKS), [(Prefix(7), Some(Obedient::head(Prefix(7))))]);
}

#[test]
fn i4_a_snapshot_of_its_own_waits_for_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    let (node, incarnation) = (base::NodeId(1), Incarnation(1));
    let identity = storage::Identity { cluster: 1, node, incarnation };
    let opened = storage::Directory::create(&directory.path().join("data"), &identity).unwrap();
    let (mut disk, _) = LogDisk::open(opened).unwrap();
    disk.snapshot_every(0);
    let mut group = Group::new();
    group.cores[LACKS].world.disk = Some(disk);
    group.half_way();
    let is_writing = |group: &mut Group| {
        group.cores[LACKS].mind_disk();
        group.cores[LACKS].world.disk.as_ref().unwrap().is_writing()
    };
    assert!(!is_writing(&mut group));
    group.decide(LACKS, Prefix(7));
    assert!(is_writing(&mut group), "it has applied all that is executed");
}

#[test]
fn i5_a_transfer_ends_when_the_machine_has_gone_on_by_itself() {
    let mut group = Group::new();
    group.half_way();
    group.decide(LACKS, Prefix(9));
    group.cores[LACKS].mind_fetch();
    assert!(!group.cores[LACKS].fetch.is_active());
    group.carry(LACKS, HAS);
    group.carry(HAS, LACKS);
    assert!(group.installed(LACKS).is_empty(), "nothing of it is news");
}

#[test]
fn i5_a_transfer_that_ends_late_is_none_of_the_machines_business() {
    let mut group = Group::new();
    group.half_way();
    group.carry(LACKS, HAS);
    group.decide(LACKS, Prefix(9));
    assert_eq!(group.carry(HAS, LACKS).last(), Some(&Told::Values { is_last: true }));
    assert!(group.installed(LACKS).is_empty(), "nothing of it is news");
    assert!(!group.cores[LACKS].fetch.is_active());
}

#[test]
fn i5_a_state_that_arrives_late_takes_the_place_of_nothing() {
    let mut group = Group::new();
    group.need(LACKS, Prefix(7), HAS);
    group.carry(LACKS, HAS);
    group.decide(LACKS, Prefix(9));
    group.carry(HAS, LACKS);
    assert_eq!(group.cores[LACKS].world.service.n_restored, 0);
    assert_eq!(group.cores[LACKS].world.executed(), Prefix(9));
}
