//! Tests of a door whose answers are held until they are compared.

use super::copies::hash_of;
use super::*;
use crate::held::{COMPARED_AFTER, HELD_BYTES_MAX, HELD_WITHIN};
use crate::verdict::Outcome;

const THEIR_RUN: Incarnation = Incarnation(3);
const THIRD: Rank = Rank::at(2);

/// A rig with the processes of all three members, and with an own client.
struct Strict<B: Planting<Bug>> {
    rig: Rig<B>,
    client: PipeId,
}

impl<B: Planting<Bug>> Strict<B> {
    fn new(planted: B) -> Strict<B> {
        let by = (Rest::Quiet, Some(Protocol::Resp));
        let mut rig = Rig::made(planted, Order::Serial, by, (100, Output::Strict)).begin();
        for owner in [OTHER, THIRD] {
            rig.apply(&[entry(&Entry::Begin { owner, run: THEIR_RUN })]);
        }
        let client = rig.client();
        Strict { rig, client }
    }

    /// The client asks, and the own copy answers. Returns the point behind that, and its hash.
    fn ask(&mut self, bytes: &[u8]) -> (u64, u64) {
        self.ask_only(bytes);
        self.come_to_point()
    }

    fn ask_only(&mut self, bytes: &[u8]) {
        self.rig.ask(self.client, bytes);
        self.rig.decide();
        self.rig.turn();
        self.rig.answer_all();
    }

    /// The newest hash that is said, and decided.
    fn come_to_point(&mut self) -> (u64, u64) {
        let point = self.come_near_point();
        self.other_run(ME, RUN, point);
        point
    }

    /// The newest hash that is said. It is not decided.
    fn come_near_point(&mut self) -> (u64, u64) {
        let mut newest = None;
        for _ in 0..8 {
            self.rig.turn_after(Duration::from_millis(1));
            self.rig.desk.take(|laid| {
                let Laid::Write(_, bytes) = laid else { panic!("{laid:?}") };
                newest = newest.max(hash_of(&[bytes.to_vec()]));
                true
            });
        }
        newest.expect("a hash was said")
    }

    /// Another member says the hash of its copy.
    fn other(&mut self, owner: Rank, point: (u64, u64)) {
        self.other_run(owner, THEIR_RUN, point);
    }

    fn other_run(&mut self, owner: Rank, run: Incarnation, (at, value): (u64, u64)) {
        self.rig.apply(&[entry(&Entry::Hash { owner, run, at, value })]);
        self.rig.turn();
        self.rig.turn();
    }

    fn heard(&mut self) -> Vec<u8> {
        self.rig.heard(self.client)
    }

    fn is_closed(&self) -> bool {
        self.rig.door.streams.is_closed(self.client)
    }
}

/// The points before this one are agreed on: nothing was sent there.
fn agree_before<B: Planting<Bug>>(strict: &mut Strict<B>, at: u64) {
    for before in 1..at {
        if strict.rig.state.judge().outcome(before) == Outcome::Open {
            strict.other_run(ME, RUN, (before, 0));
            strict.other(OTHER, (before, 0));
        }
    }
}

#[test]
fn o1_an_answer_leaves_when_a_majority_has_given_it() {
    let mut strict = Strict::new(Sound);
    let point = strict.ask(b"SET a\r\n");
    agree_before(&mut strict, point.0);
    assert_eq!(strict.heard(), b"", "one copy has given it");
    assert_eq!(strict.rig.door.figures(&strict.rig.state).held.bytes, 4);
    strict.other(OTHER, point);
    assert_eq!(strict.heard(), b":5\r\n");
    assert_eq!(strict.rig.door.figures(&strict.rig.state).held.bytes, 0);
    let mut strict = Strict::new(Planted(Bug::AnswerBeforeVerdict));
    strict.ask(b"SET a\r\n");
    assert_eq!(strict.heard(), b":5\r\n", "the mistake shows");
}

#[test]
fn o1_an_answer_that_is_not_the_majoritys_never_leaves() {
    /// The own copy's hash may be decided, or still on its way.
    fn heard<B: Planting<Bug>>(is_decided: bool, planted: B) -> (Vec<u8>, bool) {
        let mut strict = Strict::new(planted);
        strict.ask_only(b"SET a\r\n");
        let (at, value) = strict.come_near_point();
        agree_before(&mut strict, at);
        if is_decided {
            strict.other_run(ME, RUN, (at, value));
        }
        strict.other(OTHER, (at, value.wrapping_add(1)));
        assert_eq!(strict.heard(), b"", "two hashes, and no majority");
        strict.other(THIRD, (at, value.wrapping_add(1)));
        (strict.heard(), strict.is_closed())
    }
    for is_decided in [true, false] {
        assert_eq!(heard(is_decided, Sound), (Vec::new(), true));
    }
    assert_eq!(heard(false, Planted(Bug::AnyHashReleases)).0, b":5\r\n", "the mistake shows");
}

#[test]
fn o2_what_was_sent_behind_a_point_waits_for_the_next() {
    fn heard<B: Planting<Bug>>(planted: B) -> Vec<u8> {
        let mut strict = Strict::new(planted);
        let first = strict.ask(b"SET a\r\n");
        agree_before(&mut strict, first.0);
        let second = strict.ask(b"SET abc\r\n");
        assert!(first.0 < second.0);
        strict.other(OTHER, first);
        let heard = strict.heard();
        strict.other(OTHER, second);
        assert_eq!([&heard[..], &strict.heard()].concat(), b":5\r\n:7\r\n");
        heard
    }
    assert_eq!(heard(Sound), b":5\r\n");
    assert_eq!(heard(Planted(Bug::LaterBytesLeave)), b":5\r\n:7\r\n", "the mistake shows");
}

#[test]
fn o2_a_connection_ends_behind_what_is_held() {
    fn heard<B: Planting<Bug>>(planted: B) -> Vec<u8> {
        let mut strict = Strict::new(planted);
        strict.rig.ask(strict.client, b"SET a\r\n");
        strict.rig.door.streams.end(strict.client);
        strict.rig.turn();
        strict.rig.decide();
        strict.rig.turn();
        strict.rig.answer_all();
        strict.rig.turn_after(BLOCKED_AFTER);
        let point = strict.come_to_point();
        agree_before(&mut strict, point.0);
        strict.other(OTHER, point);
        assert!(strict.is_closed());
        strict.heard()
    }
    assert_eq!(heard(Sound), b":5\r\n");
    assert_eq!(heard(Planted(Bug::EndOvertakes)), b"", "the mistake shows");
}

#[test]
fn o3_where_no_hash_can_be_agreed_on_the_client_is_closed_and_the_member_serves_on() {
    fn heard<B: Planting<Bug>>(planted: B) -> (Vec<u8>, bool) {
        let mut strict = Strict::new(planted);
        let (at, value) = strict.ask(b"SET a\r\n");
        agree_before(&mut strict, at);
        strict.other(OTHER, (at, value.wrapping_add(1)));
        strict.other(THIRD, (at, value.wrapping_add(2)));
        assert!(strict.rig.door.serves());
        (strict.heard(), strict.is_closed())
    }
    assert_eq!(heard(Sound), (Vec::new(), true));
    assert_eq!(heard(Planted(Bug::SplitReleases)), (b":5\r\n".to_vec(), false), "the mistake");
}

#[test]
fn o3_an_answer_that_no_other_confirms_is_given_up() {
    fn is_closed<B: Planting<Bug>>(passed: Duration, planted: B) -> bool {
        let mut strict = Strict::new(planted);
        let point = strict.ask(b"SET a\r\n");
        agree_before(&mut strict, point.0);
        strict.rig.turn_after(passed);
        strict.rig.turn();
        strict.is_closed()
    }
    assert!(!is_closed(HELD_WITHIN / 2, Sound));
    assert!(is_closed(HELD_WITHIN, Sound));
    assert!(!is_closed(2 * HELD_WITHIN, Planted(Bug::HeldForEver)), "the mistake shows");
}

/// The connection of a client whose answer was refused ends when the desk has room for that.
#[test]
fn o3_what_was_refused_leaves_with_no_later_answer() {
    fn heard<B: Planting<Bug>>(planted: B) -> (Vec<u8>, bool) {
        let mut strict = Strict::new(planted);
        strict.ask_only(b"SET a\r\n");
        let (first, value) = strict.come_near_point();
        strict.ask_only(b"SET b\r\n");
        let second = strict.come_near_point();
        assert!(first < second.0);
        agree_before(&mut strict, first);
        let void = entry(&Entry::Begin { owner: ME, run: RUN });
        while strict.rig.desk.has_room() {
            strict.rig.desk.write(Asker { connection: 99, request: 0 }, &void);
        }
        for owner in [OTHER, THIRD] {
            strict.other(owner, (first, value.wrapping_add(1)));
        }
        for owner in [OTHER, THIRD] {
            strict.other(owner, second);
        }
        let heard = strict.heard();
        strict.rig.decide();
        strict.rig.turn();
        (heard, strict.is_closed())
    }
    assert_eq!(heard(Sound), (Vec::new(), true));
    assert_eq!(heard(Planted(Bug::RefusedStays)).0, b":5\r\n:5\r\n", "the mistake shows");
}

#[test]
fn o3_each_answer_has_its_own_time() {
    let mut strict = Strict::new(Sound);
    let point = strict.ask(b"SET a\r\n");
    agree_before(&mut strict, point.0);
    let other = strict.rig.client();
    strict.rig.ask(other, b"SET b\r\n");
    strict.rig.decide();
    strict.rig.turn();
    strict.rig.answer_all();
    strict.come_to_point();
    strict.rig.turn_after(HELD_WITHIN);
    strict.rig.turn();
    assert!(
        strict.is_closed() && strict.rig.door.streams.is_closed(other),
        "not one after another"
    );
}

/// Whether the client is read on while so much is held from it.
fn is_read<B: Planting<Bug>>(n_bytes: usize, planted: B) -> bool {
    let mut strict = Strict::new(planted);
    strict.ask(b"SET a\r\n");
    let legs = &mut strict.rig.door.program.legs;
    legs.values_mut().for_each(|(_, output, _)| output.extend(std::iter::repeat_n(b'x', n_bytes)));
    for _ in 0..20 {
        strict.rig.turn();
    }
    strict.rig.ask(strict.client, b"SET b\r\n");
    let said = strict.rig.decide();
    said.iter().any(|bytes| matches!(Entry::parse(bytes), Ok(Entry::Input { .. })))
}

#[test]
fn o4_a_client_is_not_read_while_much_is_held_from_it() {
    assert!(is_read(HELD_BYTES_MAX / 2, Sound));
    assert!(!is_read(HELD_BYTES_MAX, Sound));
    assert!(is_read(HELD_BYTES_MAX, Planted(Bug::HeldUnbounded)), "the mistake shows");
}

/// A process that is given a state finds the points where the others have them.
#[test]
fn v8_points_lie_behind_values_also_in_a_state_that_is_moved() {
    let mut strict = Strict::new(Sound);
    let (at, _) = strict.ask(b"SET a\r\n");
    let saving = strict.rig.state.begin_save();
    let mut bytes = Vec::new();
    while strict.rig.state.save_piece(saving, 64 << 10, &mut bytes) == Some(true) {}
    let by = (Rest::Quiet, Some(Protocol::Resp));
    let mut late = Rig::made(Sound, Order::Serial, by, (100, Output::Strict));
    late.state.begin_restore();
    late.state.restore_piece(&bytes).unwrap();
    late.state.end_restore().unwrap();
    assert_eq!(late.state.judge(), strict.rig.state.judge());
    assert_eq!(late.state.judge().outcome(at), Outcome::Open);
}

/// What a timer says is compared at the point behind the entry that has ended it.
#[test]
fn v8_a_hash_moves_no_time() {
    let by = (Rest::Quiet, Some(Protocol::Resp));
    let mut rig = Rig::made(Sound, Order::Serial, by, (100, Output::Strict));
    let (time_step_ms, output) = (10, Output::Strict);
    let (members, compare, checkpoint, renews) = (3, 100, 0, false);
    let settings = Settings { members, compare, checkpoint, renews, time_step_ms, output };
    rig.state = State::new(settings, InMemory::default(), Sound);
    let begin = entry(&Entry::Begin { owner: OTHER, run: THEIR_RUN });
    rig.apply_at(1000, &[begin]);
    let hash = entry(&Entry::Hash { owner: OTHER, run: THEIR_RUN, at: 1, value: 0 });
    rig.apply_at(1500, &[hash]);
    assert_eq!(rig.state.time_ms(), Some(1000));
    rig.apply_at(1600, &[]);
    assert_eq!((rig.state.time_ms(), rig.state.judge().position()), (Some(1600), 2));
}

#[test]
fn o6_what_is_sent_without_an_entry_is_compared_when_none_comes() {
    fn heard<B: Planting<Bug>>(planted: B) -> Vec<u8> {
        let mut strict = Strict::new(planted);
        let point = strict.ask(b"SET a\r\n");
        agree_before(&mut strict, point.0);
        strict.other(OTHER, point);
        assert_eq!(strict.heard(), b":5\r\n");
        // A time has come that the program waited for.
        strict.rig.door.program.say(b"*-1\r\n");
        strict.rig.turn();
        strict.rig.turn_after(COMPARED_AFTER / 2);
        assert!(strict.rig.decide().is_empty(), "the others may be about to send the same");
        strict.rig.turn_after(COMPARED_AFTER);
        if strict.rig.decide().is_empty() {
            return strict.heard();
        }
        let point = strict.come_to_point();
        assert_eq!(strict.heard(), b"", "one copy has sent it");
        strict.other(OTHER, point);
        strict.rig.turn_after(2 * COMPARED_AFTER);
        assert!(strict.rig.decide().is_empty(), "nothing more is held");
        strict.heard()
    }
    assert_eq!(heard(Sound), b"*-1\r\n");
    assert_eq!(heard(Planted(Bug::LateUncompared)), b"", "the mistake shows");
}
