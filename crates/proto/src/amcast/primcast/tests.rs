//! What travels, and rules that need no world.

use super::*;
use crate::amcast::GroupId;
use crate::amcast::linear::Level;
use crate::amcast::wire::round_trip;

#[test]
fn what_travels_comes_back() {
    let id = MessageId { sender: 3, sequence: 900 };
    let dest = GroupSet::all(3).without(GroupId::at(1));
    let listed = Listed { bound: Timestamp(7), id, dest, level: Level(1) };
    let report = Report {
        epoch: Ballot(9),
        clock: Timestamp(77),
        as_primary: true,
        listed: alloc::vec![listed],
    };
    let message = Arc::new(Message { id, dest, after: Timestamp(2), payload: (*b"x").into() });
    let log = alloc::vec![Logged { epoch: Ballot(1), ts: Timestamp(4), message: message.clone() }];
    for wire in [
        PrimcastWire::Ack { id, dest, epoch: Ballot(1), ts: Timestamp(4), report: report.clone() },
        PrimcastWire::Clock(report.clone()),
        PrimcastWire::Raise { ts: Timestamp(4), to: dest },
        PrimcastWire::Pull { id, dest, body: true },
        PrimcastWire::Body(message),
        PrimcastWire::NewEpoch(Ballot(10)),
        PrimcastWire::Promise {
            epoch: Ballot(10),
            clock: Timestamp(5),
            current: Ballot(1),
            length: 8,
            log: log.clone(),
        },
        PrimcastWire::NewState { epoch: Ballot(10), length: 8, log, clock: Timestamp(5) },
        PrimcastWire::Accept { epoch: Ballot(10), report },
    ] {
        assert_eq!(round_trip(&wire), wire);
    }
}
