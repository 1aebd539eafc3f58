//! States between the loops of three members, without their threads.

use super::*;
use crate::backlog::Backlog;
use crate::config::Bounds;
use crate::flow::Incoming;
use crate::mock::{Member, Obedient, Shelf, core};
use crate::service::Asker;
use crate::transfer::Give;
use base::Instant;
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
    cores: Vec<Member>,
    decided: Vec<Rc<Cell<Prefix>>>,
    /// By receiver, then by sender.
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
        let Core { node, host, .. } = &mut self.cores[me];
        node.poll(Instant(1), host);
        assert_eq!(node.status().applied, prefix);
    }

    /// The machine at `me` asks for a state of at least `prefix`, and gets it from `from`.
    fn need(&mut self, me: usize, prefix: Prefix, from: usize) {
        self.cores[me].taking.wanted = prefix;
        let sources = [Rank::at(from)].into_iter().collect();
        let Core { fetch, host, .. } = &mut self.cores[me];
        fetch.start(host.executed(), sources, Instant(1), &mut host.flows);
    }

    /// What `from` has sent arrives at `to`, which does what it can about it.
    fn carry(&mut self, from: usize, to: usize) -> Vec<Told> {
        let HostState { flows, plant, .. } = &mut self.cores[from].host;
        flows.send(plant);
        let mut seen = Vec::new();
        for message in plant.take(Rank::at(to)) {
            let core = &mut self.cores[to];
            self.incoming[to][from].on_message(Rank::at(from), &message, |frame| {
                seen.push(told(&frame));
                core.on_frame(Rank::at(from), frame);
            });
        }
        let core = &mut self.cores[to];
        while core.give.pause(Instant(1)).is_some() {
            core.mind_giving(); // a piece takes no time here, so no pause follows it
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
        assert_eq!(self.cores[LACKS].host.app.n_restored, 1);
        assert_eq!(self.cores[LACKS].host.executed(), Prefix(7));
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
    group.cores[HAS].host.execute(Slot(7), b"value");
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

/// A disk that wants a snapshot.
fn disk() -> Shelf {
    Shelf { is_due: true, ..Shelf::default() }
}

#[test]
fn i4_a_snapshot_of_its_own_waits_for_the_machine() {
    let mut group = Group::new();
    group.cores[LACKS].host.disk = Some(disk());
    group.half_way();
    let is_writing = |group: &mut Group| {
        group.cores[LACKS].mind_disk();
        group.cores[LACKS].host.disk.as_ref().unwrap().is_writing()
    };
    assert!(!is_writing(&mut group));
    group.decide(LACKS, Prefix(7));
    assert!(is_writing(&mut group), "it has applied all that is executed");
}

/// A save keeps apart what it has not read. One that is never ended costs memory until the process
/// ends.
#[test]
fn a_save_ends_with_its_snapshot_whole_failed_or_of_a_state_that_was_replaced() {
    let mut group = Group::new();
    group.cores[LACKS].host.disk = Some(disk());
    let step = |group: &mut Group| {
        let core = &mut group.cores[LACKS];
        core.mind_disk();
        assert_eq!(core.host.app.open.len(), usize::from(core.saving.is_some()));
        core.host.disk.as_ref().unwrap().is_writing()
    };
    let begin = |group: &mut Group| {
        group.cores[LACKS].host.disk.as_mut().unwrap().is_due = true;
        assert!(step(group), "it is due");
        group.cores[LACKS].host.disk.as_mut().unwrap().is_due = false;
    };
    let settle = |group: &mut Group, why: &str| {
        group.cores[LACKS].host.disk.as_mut().unwrap().is_slow = false;
        let ends = (0..10).any(|_| !step(group));
        assert!(ends, "the snapshot does not end: {why}");
    };
    // Whole.
    group.decide(LACKS, Prefix(3));
    begin(&mut group);
    settle(&mut group, "whole");
    assert!(group.cores[LACKS].saving.is_none());
    // Of a state that another takes the place of.
    group.cores[LACKS].host.app.has_more = true;
    group.decide(LACKS, Prefix(4));
    begin(&mut group);
    assert!(group.cores[LACKS].saving.is_some(), "it is under way");
    group.half_way();
    assert!(group.cores[LACKS].saving.is_none(), "its state is no more");
    group.decide(LACKS, Prefix(8));
    settle(&mut group, "replaced");
    // Failed.
    begin(&mut group);
    group.cores[LACKS].host.disk.as_mut().unwrap().fails = true;
    settle(&mut group, "failed");
    assert!(group.cores[LACKS].saving.is_none());
}

/// The trap: the giving member is gone for good, and the others wait for this disk to get ahead of
/// it.
#[test]
fn i6_a_member_that_is_ahead_of_everybody_left_goes_on_from_what_it_has() {
    let mut group = Group::new();
    group.cores[LACKS].host.disk = Some(disk());
    group.half_way();
    let decided = Rc::default();
    (group.cores[THIRD], group.decided[THIRD]) = (core(THIRD, Rc::clone(&decided)), decided);
    group.decide(THIRD, Prefix(5));
    let left = || [Rank::at(THIRD)].into_iter().collect();
    group.cores[LACKS].fetch_from(left());
    assert_eq!(group.carry(LACKS, THIRD), [Told::Wanted]);
    assert_eq!(group.carry(THIRD, LACKS), [Told::Refused]);
    let core = &mut group.cores[LACKS];
    core.fetch_from(left());
    assert!(!core.fetch.is_active(), "it asks in vain for ever");
    // The state is made durable, and the machine hears of it.
    core.host.disk.as_mut().unwrap().is_slow = false;
    for _ in 0..10 {
        if core.node.machine().installed.is_empty() {
            core.mind_disk();
        }
    }
    let known = Some(Obedient::head(Prefix(7)));
    assert_eq!(group.installed(LACKS), [(Prefix(7), known)]);
}

#[test]
fn i6_in_memory_a_member_that_is_ahead_goes_on_if_it_knows_who_takes_part() {
    for is_known in [true, false] {
        let mut group = Group::new();
        group.half_way();
        let decided = Rc::default();
        (group.cores[THIRD], group.decided[THIRD]) = (core(THIRD, Rc::clone(&decided)), decided);
        group.decide(THIRD, Prefix(5));
        let left = || [Rank::at(THIRD)].into_iter().collect();
        if !is_known {
            group.cores[LACKS].taking.donors_head = None;
        }
        group.cores[LACKS].fetch_from(left());
        group.carry(LACKS, THIRD);
        assert_eq!(group.carry(THIRD, LACKS), [Told::Refused]);
        group.cores[LACKS].fetch_from(left());
        assert_eq!(group.cores[LACKS].fetch.is_active(), !is_known);
        let expected = is_known.then(|| (Prefix(7), Some(Obedient::head(Prefix(7)))));
        assert_eq!(group.installed(LACKS), expected.as_slice());
    }
}

/// The trap: the giver dies for good between two frames of values. No member left has as much, and
/// all may trust this member.
#[test]
fn i6_in_memory_values_come_with_who_takes_part_after_each_frame() {
    for bug in [None, Some(Bug::HeadOfTheLastValues)] {
        let mut group = Group::new();
        let gives = &mut group.cores[HAS];
        gives.host.plant.bug = bug;
        gives.host.backlog = Backlog::new(1 << 10, Prefix(7));
        gives.give = Give::new(Bounds { values_bytes: 1, ..Bounds::default() });
        group.decide(HAS, Prefix(12));
        group.decide(LACKS, Prefix(7));
        group.need(LACKS, Prefix(8), HAS);
        group.carry(LACKS, HAS);
        let first = Told::Head(Prefix(if bug.is_none() { 8 } else { 12 }));
        assert_eq!(group.carry(HAS, LACKS), [first, Told::Values { is_last: false }]);
        group.carry(LACKS, HAS);
        let second = Told::Head(Prefix(if bug.is_none() { 9 } else { 12 }));
        assert_eq!(group.carry(HAS, LACKS), [second, Told::Values { is_last: false }]);
        // The giver dies, and the third has less.
        let left = || [Rank::at(THIRD)].into_iter().collect();
        group.cores[LACKS].fetch_from(left());
        group.carry(LACKS, THIRD);
        assert_eq!(group.carry(THIRD, LACKS), [Told::Refused]);
        group.cores[LACKS].fetch_from(left());
        let known = bug.is_none().then(|| (Prefix(9), Some(Obedient::head(Prefix(9)))));
        assert_eq!(group.installed(LACKS), known.as_slice(), "{bug:?}");
    }
}

#[test]
fn i4_a_member_that_has_executed_more_than_its_giver_gets_an_empty_end() {
    let mut group = Group::new();
    let gives = &mut group.cores[HAS];
    gives.host.backlog = Backlog::new(1 << 10, Prefix(7));
    gives.give = Give::new(Bounds { values_bytes: 1, ..Bounds::default() });
    group.decide(HAS, Prefix(12));
    group.decide(LACKS, Prefix(7));
    group.need(LACKS, Prefix(30), HAS);
    group.carry(LACKS, HAS);
    // Its protocol brings it more than the giver has, before the first values come.
    group.decide(LACKS, Prefix(20));
    let first = [Told::Head(Prefix(8)), Told::Values { is_last: false }];
    assert_eq!(group.carry(HAS, LACKS), first);
    group.carry(LACKS, HAS);
    let end = [Told::Head(Prefix(12)), Told::Values { is_last: true }];
    assert_eq!(group.carry(HAS, LACKS), end);
}

#[test]
fn i6_who_lacks_what_its_machine_has_asked_for_goes_on_asking() {
    let mut group = Group::new();
    group.cores[LACKS].host.disk = Some(disk());
    group.half_way();
    group.cores[LACKS].taking.wanted = Prefix(8);
    let decided = Rc::default();
    (group.cores[THIRD], group.decided[THIRD]) = (core(THIRD, Rc::clone(&decided)), decided);
    let left = || [Rank::at(THIRD)].into_iter().collect();
    group.cores[LACKS].fetch_from(left());
    group.carry(LACKS, THIRD);
    assert_eq!(group.carry(THIRD, LACKS), [Told::Refused]);
    group.cores[LACKS].fetch_from(left());
    assert!(group.cores[LACKS].fetch.is_active());
}

/// The answers to them may lie in values that this member never executes itself.
#[test]
fn i1_own_commands_go_out_again_when_a_state_was_installed() {
    let mut group = Group::new();
    group.half_way();
    let desk = &mut group.cores[LACKS].host.desk;
    desk.write(Asker { connection: 1, request: 1 }, b"set");
    desk.writes.dispatch(|_, _| true);
    assert!(!desk.writes.has_undispatched());
    group.carry(LACKS, HAS);
    group.carry(HAS, LACKS);
    assert_eq!(group.installed(LACKS).len(), 1);
    assert!(group.cores[LACKS].host.desk.writes.has_undispatched());
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
    assert_eq!(group.cores[LACKS].host.app.n_restored, 0);
    assert_eq!(group.cores[LACKS].host.executed(), Prefix(9));
}

#[test]
fn i2_what_was_said_of_another_prefix_goes_with_no_state() {
    let mut group = Group::new();
    group.half_way();
    group.cores[LACKS].host.execute(Slot(7), b"value");
    group.cores[LACKS].take_over();
    assert_eq!(group.installed(LACKS), [(Prefix(8), None)], "the head was that of seven values");
}

#[test]
#[should_panic(expected = "I2: the head of")]
fn i2_a_head_of_another_prefix_is_not_handed_to_the_machine() {
    let mut group = Group::new();
    group.half_way();
    let host = &mut group.cores[LACKS].host;
    host.plant.bug = Some(Bug::HeadOfAnotherPrefix);
    host.execute(Slot(7), b"value");
    group.cores[LACKS].take_over();
}

#[test]
fn i3_an_older_snapshot_that_ends_meanwhile_makes_no_state_durable() {
    let mut group = Group::new();
    group.cores[LACKS].host.disk = Some(disk());
    group.decide(LACKS, Prefix(3));
    group.cores[LACKS].mind_disk();
    assert!(group.cores[LACKS].host.disk.as_ref().unwrap().is_writing(), "one of its own");
    group.half_way();
    group.carry(LACKS, HAS);
    group.carry(HAS, LACKS);
    let core = &mut group.cores[LACKS];
    assert!(core.taking.installs, "the machine hears of the state when that is durable");
    core.host.disk.as_mut().unwrap().is_slow = false;
    for _ in 0..10 {
        if core.node.machine().installed.is_empty() {
            core.mind_disk();
        }
    }
    let n_snapshots = core.host.disk.as_ref().unwrap().n_snapshots;
    let prefixes: Vec<Prefix> = group.installed(LACKS).iter().map(|(at, _)| *at).collect();
    assert_eq!((prefixes, n_snapshots), (vec![Prefix(7)], 2), "its own, and then the state's");
}

/// The trap: it waited for minutes, as one of the member's own does.
#[test]
fn a_state_that_the_machine_waits_for_does_not_wait_for_the_long_pause() {
    let mut group = Group::new();
    group.cores[LACKS].host.disk = Some(Shelf { is_put_off: true, ..disk() });
    let is_writing = |group: &mut Group| {
        group.cores[LACKS].mind_disk();
        group.cores[LACKS].host.disk.as_ref().unwrap().is_writing()
    };
    group.decide(LACKS, Prefix(3));
    assert!(!is_writing(&mut group), "one of its own is put off");
    group.half_way();
    group.carry(LACKS, HAS);
    group.carry(HAS, LACKS);
    assert!(group.cores[LACKS].taking.installs);
    assert!(is_writing(&mut group));
}

#[test]
fn nothing_of_a_state_is_made_for_a_link_that_is_down() {
    let mut group = Group::new();
    let core = &mut group.cores[HAS];
    core.host.app.has_more = true;
    core.on_frame(Rank::at(LACKS), Frame::StateWanted { transfer: 1, have: Prefix::ZERO });
    core.host.desk.now = Instant(1_000_000);
    assert!(core.mind_giving() && core.mind_giving(), "its pieces go out");
    core.end_streams(Rank::at(LACKS), false);
    assert!(!core.mind_giving());
}
