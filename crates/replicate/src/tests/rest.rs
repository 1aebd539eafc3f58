//! Legs that are not read, and a program that loses one.

use super::*;
use crate::feeder::BLOCKED_AFTER;

/// A connection's thread waits for a lock, and its client continues to send.
#[test]
fn i3_a_blocked_connection_that_is_not_read_does_not_stop_the_others() {
    let mut rig = Rig::begun(Sound);
    rig.door.program.room_bytes = 10;
    let pipes = [rig.client(), rig.client()];
    let inputs: [(usize, &[u8]); 3] = [(0, b"LOCK a\r\nSET b"), (0, b"\r\n"), (1, b"UNLOCK\r\n")];
    for (n, input) in inputs {
        rig.ask(pipes[n], input);
    }
    rig.door.streams.end(pipes[0]);
    rig.turn();
    rig.decide();
    for _ in 0..4 {
        rig.turn_after(BLOCKED_AFTER);
    }
    assert!(rig.door.program.legs[&1].0 == b"UNLOCK\r\n", "it would end the wait");
    assert!(!rig.door.program.legs[&0].2, "the input has not ended");
    for _ in 0..4 {
        rig.door.program.answer_all();
        rig.turn_after(BLOCKED_AFTER);
    }
    assert_eq!(rig.door.program.seen.len(), 4, "pieces of lines among them");
    assert_eq!(rig.door.program.legs.len(), 1, "the first one has ended");
}

/// Three connections, of which the first one waits for a lock, is not read, and has more to say
/// than there is room for; the second one ends its wait, and the third one's is next. Returns the
/// first one's input, and whether the third one's was fed, when the program has read all that it
/// was fed, sleeps, and no room was reported.
fn fed_behind_room(planted: Option<Bug>) -> (Vec<u8>, bool) {
    let mut rig = Rig::told(planted, Order::Serial, (Rest::Waits, None), 0).begin();
    rig.door.program.room_bytes = 10;
    let pipes = [rig.client(), rig.client(), rig.client()];
    rig.ask(pipes[0], b"LOCK a\r\nSET b\r\n");
    rig.ask(pipes[1], b"UNLOCK\r\n");
    rig.ask(pipes[2], b"GET c\r\n");
    rig.decide();
    rig.is_late = true;
    rig.door.program.reposes_unread = true;
    while rig.door.program.legs.get(&1).is_none_or(|(input, ..)| input.is_empty()) {
        rig.turn_after(BLOCKED_AFTER);
    }
    rig.door.program.reposes_unread = false;
    rig.door.program.answer_all();
    rig.turn();
    let legs = &rig.door.program.legs;
    (legs[&0].0.clone(), !legs[&2].0.is_empty())
}

/// The trap: only the poller told of the room, and it had been asked before there was any.
#[test]
fn i3_room_that_was_not_reported_is_found_before_another_connections_entry_is_fed() {
    assert_eq!(fed_behind_room(None), (b"T b\r\n".to_vec(), false));
    let (rest, is_fed) = fed_behind_room(Some(Bug::RoomUnasked));
    assert!(rest.is_empty() && is_fed, "the mistake shows");
}

#[test]
fn i2_what_a_program_does_about_a_leg_that_it_loses_is_waited_for() {
    let mut rig = Rig::begun(Sound);
    rig.door.program.keeps_legs = true;
    let pipes = [rig.client(), rig.client()];
    rig.decide();
    rig.door.streams.break_off(pipes[0]);
    rig.turn();
    rig.ask(pipes[1], b"SET a\r\n");
    rig.decide();
    rig.turn_after(BLOCKED_AFTER);
    rig.turn();
    assert!(rig.door.program.is_busy && rig.door.program.legs.len() == 1);
    assert_eq!(rig.door.program.n_unread(), 0, "it has not done with the first one");
    rig.door.program.is_busy = false;
    rig.turn_after(Duration::from_millis(1));
    assert_eq!(rig.door.program.n_unread(), 1);
}
