//! Tests of a whole door: programs that move while they save.

use super::*;

const OTHERS: [(Rank, Incarnation); 2] = [(OTHER, Incarnation(3)), (Rank::at(2), Incarnation(3))];

/// A copy that saves at a point, whose program does nothing else; the others have passed that, and
/// more is to be fed. Returns the point.
fn saving() -> (Rig<Sound>, u64) {
    let mut rig = Rig::comparing(5, Sound).begin();
    rig.door = rig.door.stalled_after(Duration::from_secs(8));
    rig.apply(&OTHERS.map(|(owner, run)| entry(&Entry::Begin { owner, run })));
    let client = rig.client();
    rig.pass_point(client, &[b"SET a\r\n"]);
    rig.door.program.saves_slowly = true;
    for request in [&b"SET b\r\n"[..], b"SET c\r\n", b"SET d\r\n", b"SET e\r\n", b"SET f\r\n"] {
        rig.ask(client, request);
        rig.decide();
        rig.answer_all();
    }
    rig.settle();
    rig.door.program.is_busy = true;
    let making = rig.state.checkpoints().making().expect("one is made");
    assert_eq!(making.maker, (ME, RUN));
    let id = ConnectionId { owner: OTHER, run: Incarnation(3), number: 1 };
    rig.apply(&[entry(&Entry::Open { id })]);
    let at = making.at;
    rig.apply(&OTHERS.map(|(owner, run)| entry(&Entry::Hash { owner, run, at, value: 1 })));
    assert!(rig.state.judge().agreed().at == at && rig.door.feeder().is_before(at));
    (rig, at)
}

/// It moves for longer than a copy may stall. Returns whether the copy is kept.
fn is_kept(rig: &mut Rig<Sound>) -> bool {
    for _ in 0..20 {
        rig.turn_after(Duration::from_secs(1));
    }
    rig.door.serves() && rig.door.rolls_back(&rig.state).is_none()
}

/// The trap: Redis does not sleep while it executes SAVE. Its copy was taken to stall, at each
/// checkpoint that took longer than a stall may.
#[test]
fn i14_a_copy_whose_program_moves_while_it_saves_does_not_stall() {
    let (mut rig, at) = saving();
    assert!(is_kept(&mut rig));
    assert!(rig.door.feeder().is_before(at) && rig.door.program.saved.is_empty());
    rig.door.program.saves_slowly = false;
    rig.turn_after(Duration::from_millis(1));
    assert!(!rig.door.program.saved.is_empty());
    assert!(rig.door.feeder().is_before(at), "it moves, or has ended: it has no hash yet");
    rig.door.program.is_busy = false;
    rig.turn_after(Duration::from_millis(1));
    assert!(!rig.door.feeder().is_before(at));
}

#[test]
fn i14_a_copy_whose_save_was_given_up_stalls_when_that_is_over() {
    let (mut rig, at) = saving();
    let (owner, run) = (ME, RUN);
    rig.apply(&[entry(&Entry::Piece { owner, run, at, offset: 0, len: 0, bytes: b"" })]);
    assert!(rig.state.checkpoints().making().is_none_or(|making| making.at != at));
    assert!(is_kept(&mut rig), "it saves");
    assert!(rig.door.feeder().is_before(at), "it is not at rest");
    rig.door.program.saves_slowly = false;
    assert!(!is_kept(&mut rig), "it hangs");
}
