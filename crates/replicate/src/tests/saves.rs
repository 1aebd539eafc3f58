//! Tests of a whole door: programs that move while they save.

use super::*;

const OTHERS: [(Rank, Incarnation); 2] = [(OTHER, Incarnation(3)), (Rank::at(2), Incarnation(3))];

/// A copy that has begun to save at a point, which takes long. Returns the rig and its client.
fn at_its_save<B: Planting<Bug>>(planted: B) -> (Rig<B>, PipeId) {
    let mut rig = Rig::comparing(5, planted).begin();
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
    (rig, client)
}

/// A copy that saves at a point, whose program does nothing else; the others have passed that, and
/// more is to be fed. Returns the point.
fn saving() -> (Rig<Sound>, u64) {
    let (mut rig, _) = at_its_save(Sound);
    rig.door = rig.door.stalled_after(Duration::from_secs(8));
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

/// The trap: a member that stood still while its program saved found that the others had given that
/// up. When it was its turn again, it took what the program had saved for the newer state: a copy
/// that began with it lacked entries, and with a second one they were outvoted that had them.
#[test]
fn i6_what_was_saved_for_a_checkpoint_that_was_given_up_is_not_that_of_a_later_one() {
    let held_in_second = |planted: Option<Bug>| {
        let (mut rig, client) = at_its_save(planted);
        let gives_up = |rig: &mut Rig<Option<Bug>>| {
            let making = rig.state.checkpoints().making().expect("one is made");
            let (at, (owner, run)) = (making.at, making.maker);
            rig.apply(&[entry(&Entry::Piece { owner, run, at, offset: 0, len: 0, bytes: b"" })]);
            (at, owner)
        };
        let (first, maker) = gives_up(&mut rig);
        rig.settle();
        let five: [&[u8]; 5] =
            [b"SET m\r\n", b"SET n\r\n", b"SET o\r\n", b"SET p\r\n", b"SET g\r\n"];
        rig.pass_point(client, &five);
        assert_ne!(gives_up(&mut rig).1, maker, "it is another member's turn");
        rig.door.program.saves_slowly = false;
        rig.pass_point(
            client,
            &[b"SET h\r\n", b"SET i\r\n", b"SET j\r\n", b"SET k\r\n", b"SET l\r\n"],
        );
        let making = rig.state.checkpoints().making().map(|making| (making.at, making.maker.0));
        assert_eq!(making, Some((first + 10, maker)));
        rig.door.program.saved.windows(5).any(|line| line == b"SET g")
    };
    assert!(held_in_second(None), "it is the state there");
    assert!(!held_in_second(Some(Bug::SavedElsewhere)), "the mistake shows");
}
