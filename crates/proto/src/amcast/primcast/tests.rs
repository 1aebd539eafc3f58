//! What travels, and rules that need no world.

use super::*;
use crate::amcast::linear::Level;
use crate::amcast::wire::round_trip;
use crate::amcast::{GroupId, Layout, To};

#[test]
fn what_travels_comes_back() {
    let id = MessageId { sender: 3, sequence: 900 };
    let dest = GroupSet::all(3).without(GroupId::at(1));
    let listed = Listed { bound: Timestamp(7), id, dest, level: Level(1) };
    let report = Report {
        epoch: Ballot(9),
        clock: Timestamp(77),
        as_primary: true,
        delivered: (Timestamp(70), id),
        listed: alloc::vec![listed],
    };
    let message = Arc::new(Message { id, dest, after: Timestamp(2), payload: (*b"x").into() });
    let log = alloc::vec![Logged { epoch: Ballot(1), ts: Timestamp(4), message: message.clone() }];
    for wire in [
        PrimcastWire::Ack { id, dest, epoch: Ballot(1), ts: Timestamp(4), report: report.clone() },
        PrimcastWire::Clock(report.clone()),
        PrimcastWire::Proposals {
            dest,
            epoch: Ballot(1),
            batch: alloc::vec![(id, Timestamp(4)), (id, Timestamp(9)), (id, Timestamp(2))],
            report: Some(report.clone()),
        },
        PrimcastWire::Acked { epoch: Ballot(1), upto: Timestamp(4), report: report.clone() },
        PrimcastWire::Raise { ts: Timestamp(4), to: dest },
        PrimcastWire::Pull { id, dest, body: true },
        PrimcastWire::Body(message),
        PrimcastWire::NewEpoch(Ballot(10)),
        PrimcastWire::Promise {
            epoch: Ballot(10),
            clock: Timestamp(5),
            current: Ballot(1),
            length: 8,
            floor: (Timestamp(3), id),
            log: log.clone(),
        },
        PrimcastWire::NewState {
            epoch: Ballot(10),
            length: 8,
            floor: (Timestamp(3), id),
            log: log.clone(),
            clock: Timestamp(5),
        },
        PrimcastWire::Delivered((Timestamp(9), id)),
        PrimcastWire::Fetch((Timestamp(9), id)),
        PrimcastWire::State(Handover {
            through: (Timestamp(9), id),
            floor: (Timestamp(3), id),
            seen: Seen::default(),
            kept: log.iter().map(|one| (Timestamp(8), one.message.clone())).collect(),
            app: alloc::vec![3],
        }),
    ] {
        assert_eq!(round_trip(&wire), wire);
    }
}

/// Keeps what is sent.
#[derive(Default)]
struct Sent(Vec<(To, PrimcastWire)>);

impl Host<PrimcastWire> for Sent {
    fn send(&mut self, to: To, wire: &PrimcastWire) {
        self.0.push((to, wire.clone()));
    }

    fn deliver(&mut self, _: &Arc<Message>, _: Timestamp) {}
}

impl Sent {
    /// The clock reports among what was sent.
    fn reports(&self) -> impl Iterator<Item = (To, &Report)> {
        self.0.iter().filter_map(|(to, wire)| match wire {
            PrimcastWire::Clock(report) => Some((*to, report)),
            _ => None,
        })
    }
}

fn pid(group: usize, rank: usize) -> Pid {
    Pid { group: GroupId::at(group), rank: Rank::at(rank) }
}

fn machine(me: Pid) -> Machine {
    let config = Config {
        layout: Layout::new(&[3, 3]),
        rule: Rule::Hop,
        hybrid: false,
        patience: core::time::Duration::from_millis(40),
        retain: 100,
    };
    Machine::new(&config, me)
}

/// The other group's primary gives a message 9.
fn remote_proposal() -> PrimcastWire {
    let epoch = Ballot::above(Ballot::NONE, Rank::at(0));
    PrimcastWire::Ack {
        id: MessageId { sender: 1, sequence: 1 },
        dest: GroupSet::all(2),
        epoch,
        ts: Timestamp(9),
        report: Report {
            epoch,
            clock: Timestamp(9),
            as_primary: true,
            delivered: Default::default(),
            listed: Vec::new(),
        },
    }
}

/// Line 50: a process that has promised must not lend its clock to the epoch before.
#[test]
fn a_clock_is_reported_under_the_promised_epoch() {
    let (mut machine, mut sent) = (machine(pid(0, 1)), Sent::default());
    let epoch = Ballot::above(machine.promised, Rank::at(2));
    machine.on_wire(pid(0, 2), &PrimcastWire::NewEpoch(epoch), Instant(1), &mut sent);
    machine.settle(Instant(1), &mut sent);
    machine.on_wire(pid(1, 0), &remote_proposal(), Instant(2), &mut sent);
    machine.settle(Instant(2), &mut sent);
    let (_, report) = sent.reports().next().expect("its clock was raised");
    assert_eq!((report.epoch, report.clock), (epoch, Timestamp(9)));
}

/// What a candidate reported proves nothing, so it says it again once it leads.
#[test]
fn a_new_primary_reports_again() {
    let (mut machine, mut sent) = (machine(pid(0, 1)), Sent::default());
    machine.trust(Rank::at(1), Instant(1), &mut sent);
    machine.settle(Instant(1), &mut sent);
    let epoch = machine.promised;
    machine.on_wire(pid(1, 0), &remote_proposal(), Instant(2), &mut sent);
    machine.settle(Instant(2), &mut sent);
    assert!(sent.reports().all(|(_, report)| !report.as_primary), "it is a candidate");
    let promise = PrimcastWire::Promise {
        epoch,
        clock: Timestamp(3),
        current: Ballot::above(Ballot::NONE, Rank::at(0)),
        length: 0,
        floor: Default::default(),
        log: Vec::new(),
    };
    machine.on_wire(pid(0, 2), &promise, Instant(3), &mut sent);
    machine.settle(Instant(3), &mut sent);
    assert!(!machine.is_primary(), "a quorum has to accept first");
    let report = Report {
        epoch,
        clock: Timestamp(9),
        as_primary: false,
        delivered: Default::default(),
        listed: Vec::new(),
    };
    let accept = PrimcastWire::Accept { epoch, report };
    machine.on_wire(pid(0, 2), &accept, Instant(4), &mut sent);
    machine.settle(Instant(4), &mut sent);
    assert!(machine.is_primary());
    let (to, report) = sent.reports().last().expect("it reports again");
    assert!(report.as_primary && report.clock == Timestamp(9));
    assert_eq!(to, To::Groups(GroupId::at(1).alone()));
}
