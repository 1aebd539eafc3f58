//! Tests of a door whose copy is told the log's time.

use super::*;

const FIRST: Incarnation = Incarnation(3);

fn id(number: u64) -> ConnectionId {
    ConnectionId { owner: OTHER, run: FIRST, number }
}

fn input(index: u64) -> Vec<u8> {
    entry(&Entry::Input { id: id(1), index, bytes: b"SET a\r\n" })
}

/// A rig that keeps times, with an open connection, at 1000 ms.
fn timed<B: Planting<Bug>>(rest: Rest, planted: B) -> Rig<B> {
    let mut rig = Rig::fed(planted, Order::Serial, rest, 0);
    let settings = Settings {
        members: 3,
        compare: 0,
        checkpoint: 0,
        renews: false,
        time_step_ms: 10,
        output: Output::AtOnce,
    };
    rig.state = State::new(settings, InMemory::default(), planted);
    let begin = entry(&Entry::Begin { owner: OTHER, run: FIRST });
    rig.apply_at(1000, &[begin, entry(&Entry::Open { id: id(1) })]);
    for _ in 0..6 {
        rig.turn();
    }
    assert_eq!(rig.door.program.legs.len(), 1);
    assert_eq!(rig.door.program.told, [(1000, 0)], "before it is started");
    rig
}

/// When a copy is told 1020 ms that has not answered what came before, and then computes.
fn told_at<B: Planting<Bug>>(rest: Rest, planted: B) -> (usize, usize) {
    let mut rig = timed(rest, planted);
    rig.apply_at(1001, &[input(1)]);
    rig.apply_at(1020, &[input(2)]);
    rig.turn();
    let before_answer = rig.door.program.told.len();
    rig.door.program.is_busy = true;
    rig.answer_all();
    rig.turn();
    let before_rest = rig.door.program.told.len();
    rig.door.program.is_busy = false;
    for _ in 0..4 {
        rig.turn_after(Duration::from_millis(2));
        rig.answer_all();
    }
    assert_eq!(rig.door.program.seen.len(), 2);
    (before_answer, before_rest)
}

#[test]
fn i9_the_time_is_told_when_all_before_it_is_done() {
    for rest in [Rest::Quiet, Rest::Waits] {
        assert_eq!(told_at(rest, Sound), (1, 1), "{rest:?}");
        assert_eq!(told_at(rest, Planted(Bug::TimeBeforeRest)).0, 2, "the mistake shows");
    }
}

/// Whether an entry is fed while the timer does its work that the time before it has ended.
fn is_fed_early<B: Planting<Bug>>(rest: Rest, planted: B) -> bool {
    let mut rig = timed(rest, planted);
    rig.door.program.ends_at = Some(1015);
    rig.apply_at(1020, &[input(1)]);
    for _ in 0..4 {
        rig.turn();
    }
    assert_eq!(rig.door.program.told, [(1000, 0), (1020, 0)]);
    let is_fed = rig.door.program.n_unread() > 0;
    rig.door.program.is_busy = false;
    for _ in 0..4 {
        rig.turn_after(Duration::from_millis(2));
    }
    assert_eq!(rig.door.program.n_unread(), 1);
    is_fed
}

#[test]
fn i9_what_a_time_has_ended_is_done_before_the_next_entry() {
    for rest in [Rest::Quiet, Rest::Waits] {
        assert!(!is_fed_early(rest, Sound), "{rest:?}");
        assert!(is_fed_early(rest, Planted(Bug::TimersNotAwaited)), "the mistake shows");
    }
}

#[test]
fn i9_a_time_is_that_of_the_log() {
    let told = |planted: Option<Bug>| {
        let mut rig = timed(Rest::Waits, planted);
        rig.turn_after(Duration::from_secs(5));
        rig.apply_at(1100, &[]);
        rig.turn();
        rig.turn();
        rig.door.program.told[1]
    };
    assert_eq!(told(None), (1100, 0));
    assert_ne!(told(Some(Bug::TimeOfOwnClock)), (1100, 0), "the mistake shows");
}

#[test]
fn d5_a_leader_knows_what_its_copy_waits_for() {
    let awaited = |planted: Option<Bug>| {
        let mut rig = timed(Rest::Waits, planted);
        rig.turn();
        let without = rig.state.awaited_ms();
        rig.door.program.ends_at = Some(1500);
        rig.turn();
        let asleep = rig.state.awaited_ms();
        rig.door.program.is_busy = true;
        rig.apply_at(1001, &[input(1), input(2)]);
        rig.turn();
        (without, asleep, rig.state.awaited_ms())
    };
    assert_eq!(awaited(None), (None, Some(1500), Some(1100)), "a copy that is behind is blind");
    assert_eq!(awaited(Some(Bug::TicksForgotten)), (None, None, None), "the mistake shows");
}

/// A program reads its clock for each request, and is shown another time in the end.
#[test]
fn i10_what_would_be_too_many_reads_at_one_time_is_said_in_the_log() {
    let mut rig = timed(Rest::Quiet, Sound).begin();
    let client = rig.client();
    rig.decide();
    rig.turn();
    let many = b"GET a\r\n".repeat(14);
    let mut n_beside = 0;
    while rig.door.figures(&rig.state).reads == n_beside {
        n_beside += 14;
        rig.ask(client, &many);
        rig.check();
        rig.answer_all();
        rig.answer_all();
    }
    assert_eq!(n_beside, 4116, "the first above 4096 that fill a piece");
    rig.decide();
    rig.apply_at(1020, &[]);
    for _ in 0..3 {
        rig.answer_all();
    }
    rig.ask(client, &many);
    assert_eq!(rig.check(), 1, "it is another time");
}
