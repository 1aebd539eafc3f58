//! Tests of a feeder whose program says itself when it is at rest.

use super::copies::hash_of;
use super::*;
use crate::feeder::ACCEPTS_WITHIN;

#[test]
fn i7_a_program_that_says_that_it_rests_is_fed_without_a_wait() {
    let mut rig = Rig::fed(Sound, Order::Serial, Rest::Waits, 0);
    rig.turn();
    rig.decide();
    rig.turn();
    two_clients(&mut rig);
    for _ in 0..4 {
        rig.turn();
    }
    assert_eq!(rig.door.program.n_unread(), 1, "the second one's input is not fed");
    rig.door.program.answer_all();
    rig.door.program.is_busy = true;
    rig.turn();
    rig.turn();
    assert_eq!(rig.door.program.n_unread(), 0, "it was answered, and does something else");
    rig.door.program.is_busy = false;
    rig.turn();
    rig.turn();
    assert_eq!(rig.door.program.n_unread(), 1);
}

/// The lines that lie before a program that has listened, and not yet accepted a connection.
fn lines_before_the_first_accept(planted: impl Planting<Bug>, passed: Duration) -> usize {
    let mut rig = Rig::fed(planted, Order::Serial, Rest::Waits, 0);
    rig.door.program.is_listening = true;
    rig.turn();
    rig.decide();
    rig.turn();
    two_clients(&mut rig);
    for _ in 0..4 {
        rig.turn_after(BLOCKED_AFTER);
    }
    for _ in 0..4 {
        rig.turn_after(passed);
    }
    rig.door.program.n_unread()
}

#[test]
fn i13_a_program_that_sleeps_before_its_first_connection_is_not_at_rest() {
    assert_eq!(lines_before_the_first_accept(Sound, BLOCKED_AFTER), 0);
    assert_eq!(lines_before_the_first_accept(Planted(Bug::FirstUnawaited), BLOCKED_AFTER), 2);
    assert_eq!(lines_before_the_first_accept(Sound, ACCEPTS_WITHIN), 2, "it accepts unseen");
}

#[test]
fn i13_a_program_is_fed_when_it_has_accepted_its_first_connection() {
    let mut rig = Rig::fed(Sound, Order::Serial, Rest::Waits, 0);
    rig.door.program.is_listening = true;
    rig.turn();
    rig.decide();
    rig.turn();
    two_clients(&mut rig);
    rig.turn_after(BLOCKED_AFTER);
    assert_eq!(rig.door.program.n_unread(), 0);
    rig.door.program.is_listening = false;
    for _ in 0..4 {
        rig.turn();
    }
    assert_eq!(rig.door.program.n_unread(), 1, "the first one's input");
}

/// Replies tell, and the program is not asked. From a request that has no known reply on, it is.
#[test]
fn i7_a_program_is_asked_for_what_has_no_known_reply() {
    let memcached = (Rest::Waits, Some(Protocol::Memcached));
    let mut rig = Rig::told(Sound, Order::Serial, memcached, 0).begin();
    let clients = [rig.client(), rig.client()];
    let say = |rig: &mut Rig<Sound>, words: [&[u8]; 2]| {
        for (client, words) in clients.iter().zip(words) {
            rig.door.streams.push(*client, words);
        }
        rig.turn();
        rig.decide();
        rig.turn();
    };
    rig.door.program.is_busy = true;
    say(&mut rig, [b"get a\r\n", b"get b\r\n"]);
    assert_eq!(rig.door.program.n_unread(), 1, "the second one's input is not fed");
    rig.answer_all();
    assert_eq!(rig.door.program.n_unread(), 1, "it is, though the program does something");
    rig.answer_all();
    say(&mut rig, [b"incr n 1 noreply\r\n", b"get b\r\n"]);
    rig.answer_all();
    rig.turn();
    assert_eq!(rig.door.program.n_unread(), 0, "no reply tells, and the program is not at rest");
    rig.door.program.is_busy = false;
    rig.turn();
    rig.turn();
    assert_eq!(rig.door.program.n_unread(), 1);
}

/// The hash of the sixth entry, where a copy that has answered a request without a reply says this
/// to one for `asked`.
fn hash_where_a_copy_says(asked: &[u8], says: &[u8]) -> u64 {
    let memcached = (Rest::Waits, Some(Protocol::Memcached));
    let mut rig = Rig::told(Sound, Order::Serial, memcached, 3).begin();
    let client = rig.client();
    let mut said = Vec::new();
    for request in [b"incr n 1 noreply\r\n", asked, b"get a\r\n", b"get b\r\n"] {
        rig.ask(client, request);
        said.extend(rig.decide());
        rig.turn();
        if request == asked {
            rig.door.program.say(says);
        }
        rig.answer_all();
        for _ in 0..4 {
            rig.turn_after(Duration::from_millis(1));
            said.extend(rig.decide());
        }
    }
    let hashes = said.iter().filter_map(|entry| hash_of(std::slice::from_ref(entry)));
    hashes.filter(|(at, _)| *at == 6).map(|(_, value)| value).next().expect("a hash")
}

#[test]
fn h3_statistics_of_a_copy_are_not_compared_behind_what_has_no_known_reply() {
    for asked in [&b"stats\r\n"[..], b"stats items\r\n"] {
        let [one, other] = [b"STAT a 1\r\n", b"STAT a 2\r\n"];
        assert_eq!(hash_where_a_copy_says(asked, one), hash_where_a_copy_says(asked, other));
    }
    let [one, other] = [b"7\r\n", b"8\r\n"].map(|says| hash_where_a_copy_says(b"get n\r\n", says));
    assert_ne!(one, other, "other answers are compared");
}

const THEIRS: Incarnation = Incarnation(3);

fn id(number: u64) -> ConnectionId {
    ConnectionId { owner: OTHER, run: THEIRS, number }
}

fn begin() -> Vec<u8> {
    entry(&Entry::Begin { owner: OTHER, run: THEIRS })
}

fn open(number: u64) -> Vec<u8> {
    entry(&Entry::Open { id: id(number) })
}

fn input(number: u64, index: u64, bytes: &[u8]) -> Vec<u8> {
    entry(&Entry::Input { id: id(number), index, bytes })
}

/// A rig that is fed by the turn, at rest, with the first `n` connections of another member.
fn by_the_turn<B: Planting<Bug>>(n: u64, compare: u64, planted: B) -> Rig<B> {
    let mut rig = Rig::fed(planted, Order::Loop, Rest::Waits, compare);
    let opened: Vec<_> = [begin()].into_iter().chain((1..=n).map(open)).collect();
    rig.apply(&opened);
    for _ in 0..6 {
        rig.turn();
    }
    rig
}

/// What lies before a program at its turn, by leg, when two values of the log are there.
fn first_turn<B: Planting<Bug>>(planted: B) -> Vec<Vec<u8>> {
    let mut rig = by_the_turn(2, 0, planted);
    assert_eq!(rig.door.program.legs.len(), 2);
    rig.door.program.is_busy = true;
    rig.apply(&[input(1, 1, b"a\r\n"), input(2, 1, b"b\r\n"), input(1, 2, b"c\r\n")]);
    rig.apply(&[input(2, 2, b"d\r\n")]);
    rig.turn();
    assert_eq!(rig.door.program.n_unread(), 0);
    rig.door.program.is_busy = false;
    rig.turn();
    let found = rig.door.program.legs.values().map(|(input, ..)| input.clone()).collect();
    rig.answer_all();
    rig.turn();
    rig.answer_all();
    assert_eq!(rig.door.program.seen.len(), 4);
    found
}

#[test]
fn i8_a_turn_finds_what_one_value_says() {
    assert_eq!(first_turn(Sound), [&b"a\r\nc\r\n"[..], b"b\r\n"]);
    let joined = first_turn(Planted(Bug::TurnsAreJoined));
    assert_eq!(joined, [&b"a\r\nc\r\n"[..], b"b\r\nd\r\n"], "the mistake shows");
}

#[test]
fn i8_what_begins_a_connection_waits_for_the_turn_before_it() {
    let n_open = |planted: Option<Bug>| {
        let mut rig = by_the_turn(1, 0, planted);
        rig.apply(&[input(1, 1, b"a\r\n")]);
        rig.apply(&[open(2)]);
        rig.turn();
        assert_eq!(rig.door.program.n_unread(), 1);
        rig.door.program.legs.len()
    };
    assert_eq!(n_open(None), 1, "the program has not read");
    assert_eq!(n_open(Some(Bug::TurnBeforeRest)), 2, "the mistake shows");
}

/// A turn that began while the program looked would be found in parts.
#[test]
fn i8_a_program_that_moves_is_given_no_turn() {
    let finds = |planted: Option<Bug>| {
        let mut rig = by_the_turn(1, 0, planted);
        rig.door.program.is_busy = true;
        rig.apply(&[input(1, 1, b"a\r\n")]);
        rig.turn();
        rig.door.program.n_unread() > 0
    };
    assert!(!finds(None), "it was woken, by a clock");
    assert!(finds(Some(Bug::TurnIsNotHeld)), "the mistake shows");
}

/// Where replies tell, one entry is found in one piece though the program moves. Several are not.
#[test]
fn i8_a_value_with_one_entry_needs_no_program_that_is_held() {
    let finds = |inputs: &[Vec<u8>], planted: Option<Bug>| {
        let by = (Rest::Waits, Some(Protocol::Resp));
        let mut rig = Rig::told(planted, Order::Loop, by, 0);
        rig.apply(&[begin(), open(1), open(2)]);
        (0..6).for_each(|_| rig.turn());
        rig.door.program.is_busy = true;
        rig.apply(inputs);
        rig.turn();
        rig.door.program.n_unread()
    };
    let [first, second] = [input(1, 1, b"a\r\n"), input(2, 1, b"b\r\n")];
    assert_eq!(finds(std::slice::from_ref(&first), None), 1);
    assert_eq!(finds(&[first.clone(), second.clone()], None), 0);
    let split = finds(&[first, second], Some(Bug::TurnIsNotHeld));
    assert_eq!(split, 2, "the mistake shows");
}

/// A leg that is blocked may be woken by an entry, and nothing tells when it has done what follows.
#[test]
fn i8_a_value_with_one_entry_waits_for_rest_while_a_leg_is_blocked() {
    let by = (Rest::Waits, Some(Protocol::Resp));
    let mut rig = Rig::told(Sound, Order::Loop, by, 0);
    rig.apply(&[begin(), open(1), open(2)]);
    (0..6).for_each(|_| rig.turn());
    rig.apply(&[input(1, 1, b"a\r\n")]);
    rig.door.program.legs.values_mut().for_each(|(input, ..)| input.clear()); // no answer
    rig.turn_after(BLOCKED_AFTER);
    rig.door.program.is_busy = true;
    rig.apply(&[input(2, 1, b"b\r\n")]);
    rig.turn();
    assert_eq!(rig.door.program.n_unread(), 0, "the first one waits for something");
    rig.door.program.is_busy = false;
    rig.turn();
    rig.turn_after(Duration::from_millis(1));
    assert_eq!(rig.door.program.n_unread(), 1);
}

/// What lies before a program of two values, the second of which begins with the hash of a copy.
fn turn_before_a_hash<B: Planting<Bug>>(planted: B) -> Vec<u8> {
    let mut rig = by_the_turn(1, 2, planted);
    rig.door.program.is_busy = true;
    rig.apply(&[input(1, 1, b"a\r\n")]);
    let hash = entry(&Entry::Hash { owner: OTHER, run: THEIRS, at: 2, value: 1 });
    rig.apply(&[hash, input(1, 2, b"b\r\n")]);
    rig.door.program.is_busy = false;
    rig.turn();
    let found = rig.door.program.legs[&0].0.clone();
    for _ in 0..6 {
        rig.answer_all();
        rig.turn();
    }
    assert_eq!(rig.door.program.seen, [b"a", b"b"]);
    found
}

#[test]
fn i8_a_value_that_begins_with_a_hash_ends_the_turn_before_it() {
    assert_eq!(turn_before_a_hash(Sound), b"a\r\n");
    assert_eq!(turn_before_a_hash(Planted(Bug::HashesJoinTurns)), b"a\r\nb\r\n");
}

/// What lies before a program of two requests of one connection.
fn first_of_two<B: Planting<Bug>>(planted: B) -> Vec<u8> {
    let mut rig = Rig::fed(planted, Order::Serial, Rest::Waits, 0);
    rig.apply(&[begin(), open(1), input(1, 1, b"a\r\n"), input(1, 2, b"b\r\n")]);
    for _ in 0..6 {
        rig.turn();
    }
    let found = rig.door.program.legs[&0].0.clone();
    for _ in 0..3 {
        rig.answer_all();
        rig.turn();
    }
    assert_eq!(rig.door.program.seen, [b"a", b"b"]);
    found
}

#[test]
fn i7_what_a_client_said_behind_an_answer_is_not_there_before_it() {
    assert_eq!(first_of_two(Sound), b"a\r\n");
    assert_eq!(first_of_two(Planted(Bug::NextOfOneBeforeRest)), b"a\r\nb\r\n");
}

/// A held program does not sleep, so an end that waited for that among the rest of a turn would
/// never be fed.
#[test]
fn i8_an_end_is_fed_alone_where_answers_are_compared() {
    let mut rig = by_the_turn(2, 100, Sound);
    let half_close = entry(&Entry::HalfClose { id: id(2), index: 1 });
    rig.apply(&[input(1, 1, b"a\r\n"), half_close, input(1, 2, b"b\r\n")]);
    rig.turn();
    assert_eq!(rig.door.program.legs[&0].0, b"a\r\n");
    assert!(!rig.door.program.legs[&1].2, "it is no part of that turn");
    for _ in 0..6 {
        rig.answer_all();
        rig.turn();
    }
    assert_eq!(rig.door.program.seen, [b"a", b"b"]);
    assert!(!rig.door.program.legs.contains_key(&1), "the program has closed it");
}

/// Where replies are not known, a request that has one says nothing about whether it was read.
#[test]
fn i6_an_end_waits_for_answers_that_no_protocol_counts() {
    let hash = |reads_first: bool| {
        let mut rig = Rig::fed(Sound, Order::Serial, Rest::Waits, 5);
        rig.turn();
        rig.decide();
        rig.apply(&[begin(), open(1), input(1, 1, b"SET a\r\n")]);
        for _ in 0..6 {
            rig.turn();
        }
        rig.door.program.answer_all();
        if reads_first {
            rig.turn();
        }
        rig.apply(&[entry(&Entry::Close { id: id(1), index: 2 })]);
        let mut said = Vec::new();
        for _ in 0..6 {
            rig.turn_after(Duration::from_millis(1));
            said.extend(rig.decide());
        }
        hash_of(&said)
    };
    assert!(hash(true).is_some());
    assert_eq!(hash(false), hash(true), "the copy that was slower to read has said the same");
}
