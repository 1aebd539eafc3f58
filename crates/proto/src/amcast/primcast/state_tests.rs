//! States of other members, and repeated requests for clocks: rule by rule.

use super::tests::Stateful;
use super::*;
use crate::amcast::outbox::Outbox;
use crate::amcast::{GroupId, Layout, Seen, To};
use crate::planted::Planted;

/// A host that keeps the messages sent, and takes states.
type Sent = Outbox<PrimcastWire, Stateful>;

impl Sent {
    /// The number of proposals that the last promise covers, and those that it has.
    fn promised(&self) -> (u64, Vec<MessageId>) {
        let promise = self.sent.iter().rev().find_map(|(_, wire)| match wire {
            PrimcastWire::Promise { length, part, .. } => {
                Some((*length, part.log.iter().map(|told| told.logged.message.id).collect()))
            }
            _ => None,
        });
        promise.expect("it has promised")
    }
}

fn pid(group: usize, rank: usize) -> Pid {
    Pid { group: GroupId::at(group), rank: Rank::at(rank) }
}

fn config(groups: &[usize], rule: Rule) -> Config {
    Config {
        layout: Layout::new(groups),
        rule,
        hybrid: false,
        patience: core::time::Duration::from_millis(40),
        commutes: false,
        part_bytes: 64 << 10,
        retain: 100,
        retain_bytes: usize::MAX,
    }
}

fn message(sequence: u64) -> Arc<Message> {
    let id = MessageId { sender: 1, sequence };
    Arc::new(Message::new(id, GroupSet::all(1), *b"x"))
}

fn epoch(of: usize, above: Ballot) -> Ballot {
    Ballot::above(above, Rank::at(of))
}

fn asks(epoch: Ballot) -> PrimcastWire {
    PrimcastWire::NewEpoch { epoch, held: Held::default() }
}

/// The state of a member that has delivered messages 1 to `n`, at their numbers, and remembers
/// those above `floor`.
fn state(n: u64, floor: u64) -> PrimcastWire {
    let place = |at: u64| (Timestamp(at), message(at).id);
    let mut seen = Seen::default();
    (1..=n).for_each(|at| seen.insert(message(at).id));
    PrimcastWire::State(Handover {
        through: place(n),
        floor: if floor > 0 { place(floor) } else { Place::default() },
        audience: GroupSet::EMPTY,
        seen,
        kept: (floor + 1..=n).map(|at| (Timestamp(at), message(at))).collect(),
        app: Vec::new(),
    })
}

/// A follower without any message takes a state of messages 1 to 3 out of which 2 and 3 are
/// remembered; the next epoch begins with a log of 2, 3 and 4, and the one after asks for a
/// promise.
fn promise_after_a_state<P: Planting<Bug>>(planted: P, giver: usize) -> (u64, Vec<MessageId>) {
    let mut machine = Machine::new(&config(&[3], Rule::Plain), pid(0, 2), planted);
    let (mut out, now) = (Sent::default(), Instant(1));
    let first = machine.office.current;
    machine.on_wire(pid(0, giver), &state(3, 1), now, &mut out);
    let second = epoch(1, first);
    machine.on_wire(pid(0, 1), &asks(second), now, &mut out);
    let logged = |at: u64| Logged { epoch: first, ts: Timestamp(at), message: message(at) };
    let told = |at: u64| Told { logged: logged(at), at: None };
    let log = (2..=4).map(told).collect();
    let beginning = Beginning {
        epoch: second,
        length: 4,
        floor: (Timestamp(1), message(1).id),
        source: Held { epoch: first, upto: Timestamp(4) },
        part: Part { after: Timestamp::ZERO, log, is_last: true },
        clock: Timestamp(4),
        members: Members::founders(3, first),
        has_begun: true,
    };
    machine.on_wire(pid(0, 1), &PrimcastWire::NewState(beginning), now, &mut out);
    machine.settle(now, &mut out);
    let third = asks(epoch(0, second));
    machine.on_wire(pid(0, 0), &third, now, &mut out);
    out.promised()
}

#[test]
fn p7_a_state_that_covers_what_never_came_leaves_no_hole_in_the_log() {
    let names: Vec<MessageId> = (2..=4).map(|at| message(at).id).collect();
    for giver in [0, 1] {
        assert_eq!(promise_after_a_state(Sound, giver), (4, names.clone()));
    }
    assert_ne!(promise_after_a_state(Planted(Bug::KeepKnownOnly), 0).1, names, "a log with holes");
}

#[test]
fn p4_a_proposal_that_a_state_overtook_has_its_turn() {
    let mut machine = Machine::new(&config(&[3], Rule::Plain), pid(0, 2), Sound);
    let (mut out, now) = (Sent::default(), Instant(1));
    let epoch = machine.office.current;
    machine.on_wire(pid(0, 1), &state(2, 1), now, &mut out);
    (1..=3).for_each(|at| machine.on_start(&message(at), now, &mut out));
    let batch = (1..=3).map(|at| (message(at).id, Timestamp(at))).collect();
    let proposals = PrimcastWire::Proposals { dest: GroupSet::all(1), epoch, batch, report: None };
    machine.on_wire(pid(0, 0), &proposals, now, &mut out);
    machine.settle(now, &mut out);
    let next = asks(Ballot::above(epoch, Rank::at(1)));
    machine.on_wire(pid(0, 1), &next, now, &mut out);
    let names = (2..=3).map(|at| message(at).id).collect();
    assert_eq!(out.promised(), (3, names), "the first is at the floor, and was proposed");
}

#[test]
fn p12_a_clock_that_was_said_is_said_again_to_the_process_that_asks() {
    let (config, now) = (config(&[3, 3, 3], Rule::AllGroups), Instant(1));
    let mut machine = Machine::new(&config, pid(2, 0), Sound);
    let mut out = Sent::default();
    let (ts, both) = (Timestamp(9), GroupSet::all(2));
    machine.on_wire(pid(0, 0), &PrimcastWire::Raise { ts, to: both }, now, &mut out);
    machine.settle(now, &mut out);
    let says = |out: &Sent, whom: To| {
        let is_it = |(to, wire): &&(To, PrimcastWire)| {
            *to == whom && matches!(wire, PrimcastWire::Clock(report) if report.clock >= ts)
        };
        out.sent.iter().filter(is_it).count()
    };
    assert_eq!(says(&out, To::Groups(both)), 1);
    machine.on_wire(pid(0, 0), &PrimcastWire::Raise { ts, to: both }, now, &mut out);
    machine.settle(now, &mut out);
    assert_eq!(says(&out, To::Groups(both)), 1, "nobody lacks it");
    let again = PrimcastWire::Raise { ts, to: GroupId::at(0).alone() };
    machine.on_wire(pid(0, 1), &again, now, &mut out);
    assert_eq!(says(&out, To::One(pid(0, 1))), 1);
}

/// A member that has delivered message 1, and 3 ahead of 2, gives its state to one that does not
/// know 2: the primary's messages are slow on that link.
#[test]
fn p15_what_a_state_brought_ahead_does_not_carry_the_mark_over_what_is_on_its_way() {
    let config = Config { commutes: true, ..config(&[3], Rule::Plain) };
    let mut machine = Machine::new(&config, pid(0, 2), Sound);
    let (mut out, now) = (Sent::default(), Instant(1));
    let epoch = machine.office.current;
    let PrimcastWire::State(mut given) = state(1, 0) else { unreachable!("it is one") };
    given.seen.insert(message(3).id);
    given.kept.push((Timestamp(3), message(3)));
    machine.on_wire(pid(0, 1), &PrimcastWire::State(given), now, &mut out);
    machine.settle(now, &mut out);
    let place = |at| (Timestamp(at), message(at).id);
    assert_eq!(machine.delivered_upto(), place(1), "nobody has said that nothing is below 3");
    machine.on_start(&message(2), now, &mut out);
    let batch = (1..=3).map(|at| (message(at).id, Timestamp(at))).collect();
    let report = Report {
        epoch,
        clock: Timestamp(3),
        as_primary: true,
        delivered: Place::default(),
        listed: Vec::new(),
        members: None,
    };
    let (dest, report) = (GroupSet::all(1), Some(report));
    let proposals = PrimcastWire::Proposals { dest, epoch, batch, report };
    machine.on_wire(pid(0, 0), &proposals, now, &mut out);
    machine.settle(now, &mut out);
    assert!(machine.has_delivered(message(2).id), "a quorum has it: the primary and this one");
    assert_eq!(machine.delivered_upto(), place(3));
}

/// P1. An epoch begins above the clocks that were promised, and so above every delivery.
#[test]
fn p1_who_has_taken_a_state_promises_a_clock_that_covers_it() {
    let mut machine = Machine::new(&config(&[3], Rule::Plain), pid(0, 2), Sound);
    let (mut out, now) = (Sent::default(), Instant(1));
    let next = epoch(1, machine.office.current);
    machine.on_wire(pid(0, 0), &state(3, 1), now, &mut out);
    machine.on_wire(pid(0, 1), &asks(next), now, &mut out);
    let clock = out.sent.iter().find_map(|(_, wire)| match wire {
        PrimcastWire::Promise { clock, .. } => Some(*clock),
        _ => None,
    });
    assert_eq!(clock, Some(Timestamp(3)));
}
