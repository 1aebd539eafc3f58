//! Tests of a whole door: copies that are compared, saved, and begin with a checkpoint.

use super::*;
use crate::door::WhenSplit;
use crate::pace::HELD_WITHIN;
use crate::transcript::Transcript;
use crate::verdict::POINTS_MAX;

/// The hash that the rig says after its own beginning, an opening and a request.
fn said_at_point<B: Planting<Bug>>(rig: &mut Rig<B>) -> (PipeId, Vec<Vec<u8>>) {
    let client = rig.client();
    rig.ask(client, b"SET a\r\n");
    rig.decide();
    rig.turn();
    (client, rig.decide())
}

/// The hash that was said, and its point.
pub(super) fn hash_of(said: &[Vec<u8>]) -> Option<(u64, u64)> {
    let entries = said.iter().map(|bytes| Entry::parse(bytes).unwrap());
    entries.into_iter().find_map(|entry| match entry {
        Entry::Hash { at, value, .. } => Some((at, value)),
        _ => None,
    })
}

#[test]
fn i6_a_hash_is_said_when_the_program_has_answered_and_sleeps() {
    let mut rig = Rig::comparing(3, Sound).begin();
    let (_, said) = said_at_point(&mut rig);
    assert_eq!(hash_of(&said), None, "it has not answered");
    rig.door.program.is_busy = true;
    rig.answer_all();
    rig.turn();
    assert_eq!(hash_of(&rig.decide()), None, "it may say more");
    rig.door.program.is_busy = false;
    rig.turn_after(Duration::from_millis(1));
    rig.turn();
    assert_eq!(hash_of(&rig.decide()).map(|(at, _)| at), Some(3));
    let mut rig = Rig::comparing(3, Planted(Bug::HashBeforeRest)).begin();
    assert!(hash_of(&said_at_point(&mut rig).1).is_some(), "the mistake shows");
}

#[test]
fn i6_a_connection_ends_after_its_answers() {
    let ends_early = |planted: Option<Bug>| {
        let mut rig = Rig::comparing(100, planted).begin();
        let (client, _) = said_at_point(&mut rig);
        rig.door.streams.break_off(client);
        rig.turn();
        rig.decide();
        rig.turn();
        rig.door.program.legs[&0].2
    };
    assert!(!ends_early(None), "the program has not answered");
    assert!(ends_early(Some(Bug::EndedBeforeRest)), "the mistake shows");
}

#[test]
fn i6_a_connection_ends_after_the_answer_to_a_part_of_a_request() {
    for part in [&b"*1\r\n$999999999\r\n"[..], b"*3\n$3\r\n"] {
        let mut rig = Rig::comparing(100, Sound).begin();
        let client = rig.client();
        rig.ask(client, part);
        rig.decide();
        rig.turn();
        rig.door.program.is_busy = true;
        rig.door.streams.break_off(client);
        rig.turn();
        rig.decide();
        rig.turn();
        assert!(!rig.door.program.legs[&0].2, "the program may refuse it, and close");
        rig.door.program.is_busy = false;
        rig.turn_after(Duration::from_millis(1));
        assert!(rig.door.program.legs[&0].2);
    }
}

/// The hash of a point behind a connection that the program has closed before its end is fed: as
/// its input ended, or by itself. A late member is not told so before.
fn hash_behind_an_end<B: Planting<Bug>>(ends_input: bool, is_late: bool, planted: B) -> u64 {
    let run = Incarnation(3);
    let id = ConnectionId { owner: OTHER, run, number: 1 };
    let mut rig = Rig::comparing(6, planted).begin();
    let begin = entry(&Entry::Begin { owner: OTHER, run });
    rig.apply(&[begin, entry(&Entry::Open { id })]);
    let bytes = b"SET a\r\n";
    rig.apply(&[entry(&Entry::Input { id, index: 1, bytes })]);
    rig.turn();
    rig.answer_all();
    rig.is_late = is_late;
    match ends_input {
        true => rig.apply(&[entry(&Entry::HalfClose { id, index: 2 })]),
        false => rig.door.program.legs.values_mut().for_each(|(.., has_ended)| *has_ended = true),
    }
    rig.turn_after(BLOCKED_AFTER);
    rig.turn_after(Duration::from_millis(1));
    rig.apply(&[entry(&Entry::Close { id, index: 2 + u64::from(ends_input) })]);
    rig.turn();
    rig.is_late = false;
    if !ends_input {
        rig.apply(&[entry(&Entry::Begin { owner: Rank::at(2), run })]);
    }
    let mut said = Vec::new();
    for _ in 0..9 {
        rig.turn_after(Duration::from_millis(1));
        said.extend(rig.decide());
    }
    hash_of(&said).expect("six entries were fed").1
}

#[test]
fn i6_an_end_by_the_program_is_read_before_the_connection_is_ended() {
    for ends_input in [true, false] {
        let hash = |is_late| hash_behind_an_end(ends_input, is_late, Sound);
        assert_eq!(hash(true), hash(false), "by its input's end: {ends_input}");
        let hash = |is_late| hash_behind_an_end(ends_input, is_late, Planted(Bug::OwnEndUnread));
        assert_ne!(hash(true), hash(false), "the mistake shows");
    }
}

/// A hash whose fate is unknown is said again, until it is executed.
#[test]
fn a_hash_is_said_until_it_is_decided() {
    let mut rig = Rig::comparing(3, Sound).begin();
    said_at_point(&mut rig);
    rig.answer_all();
    rig.turn();
    rig.expire();
    rig.turn();
    assert!(hash_of(&rig.decide()).is_some(), "again");
    rig.turn();
    assert_eq!(hash_of(&rig.decide()), None, "and no more");
}

/// The others agree on another hash. Returns the rig and its client.
pub(super) fn differing<B: Planting<Bug>>(planted: B) -> (Rig<B>, PipeId) {
    let mut rig = Rig::comparing(5, planted).begin();
    let others = [OTHER, Rank::at(2)].map(|owner| (owner, Incarnation(3)));
    rig.apply(&others.map(|(owner, run)| entry(&Entry::Begin { owner, run })));
    let (client, _) = said_at_point(&mut rig);
    rig.answer_all();
    rig.turn();
    let (at, value) = hash_of(&rig.decide()).expect("a hash");
    let value = value.wrapping_add(1);
    let hashes = others.map(|(owner, run)| entry(&Entry::Hash { owner, run, at, value }));
    rig.apply(&hashes[..1]);
    rig.turn();
    assert!(rig.door.serves(), "one other is no majority");
    rig.apply(&hashes[1..]);
    (rig, client)
}

#[test]
fn d3_a_copy_that_differs_serves_no_more_and_ends_when_the_others_can_go_on() {
    let (mut rig, client) = differing(Sound);
    rig.view.heard.remove(OTHER);
    rig.turn();
    assert!(!rig.door.serves() && rig.door.streams.is_closed(client));
    assert_eq!(rig.door.rolls_back(&rig.state), None, "its death would cost the majority");
    rig.view.heard.insert(OTHER);
    rig.turn();
    assert!(rig.door.rolls_back(&rig.state).unwrap().contains("up to entry 5"));
    let (mut rig, client) = differing(Planted(Bug::DifferingServes));
    rig.turn();
    assert!(rig.door.serves() && !rig.door.streams.is_closed(client), "the mistake shows");
    assert_eq!(rig.door.rolls_back(&rig.state), None);
}

fn split(when_split: WhenSplit) -> (bool, bool) {
    let mut rig = Rig::comparing(5, Sound);
    rig.door = rig.door.when_split(when_split);
    let mut rig = rig.begin();
    let others = [OTHER, Rank::at(2)].map(|owner| (owner, Incarnation(3)));
    rig.apply(&others.map(|(owner, run)| entry(&Entry::Begin { owner, run })));
    let (client, _) = said_at_point(&mut rig);
    rig.answer_all();
    rig.turn();
    let (at, value) = hash_of(&rig.decide()).expect("a hash");
    for ((owner, run), more) in others.into_iter().zip(1..) {
        rig.apply(&[entry(&Entry::Hash { owner, run, at, value: value.wrapping_add(more) })]);
    }
    rig.turn();
    assert_eq!(rig.door.figures(&rig.state).split_at, 5);
    assert_eq!(rig.door.rolls_back(&rig.state), None);
    (rig.door.serves(), rig.door.streams.is_closed(client))
}

#[test]
fn d3_copies_without_a_majority_serve_on_or_stop_as_the_settings_say() {
    assert_eq!(split(WhenSplit::Serve), (true, false));
    assert_eq!(split(WhenSplit::Stop), (false, true));
}

impl<B: Planting<Bug>> Rig<B> {
    /// Everything is decided and answered, until nothing happens.
    pub(super) fn settle(&mut self) {
        for _ in 0..20 {
            self.turn_after(Duration::from_millis(1));
            self.decide();
            self.answer_all();
        }
    }

    /// The client asks so much that the copies pass the next point, and the other member's copy has
    /// answered alike.
    pub(super) fn pass_point(&mut self, client: PipeId, requests: &[&[u8]]) {
        for request in requests {
            self.ask(client, request);
            self.decide();
            self.answer_all();
        }
        let mut hash = None;
        for _ in 0..20 {
            self.turn_after(Duration::from_millis(1));
            let said = self.decide();
            hash = hash.or(hash_of(&said));
            self.answer_all();
        }
        let (at, value) = hash.expect("a point was passed");
        let (owner, run) = (OTHER, Incarnation(3));
        self.apply(&[entry(&Entry::Hash { owner, run, at, value })]);
    }

    fn saved(&mut self) -> Vec<u8> {
        let (saving, mut out) = (self.state.begin_save(), Vec::new());
        while self.state.save_piece(saving, 64 << 10, &mut out) == Some(true) {}
        self.state.end_save(saving);
        out
    }

    fn lines(&self) -> Vec<&str> {
        self.door.program.seen.iter().map(|line| std::str::from_utf8(line).unwrap()).collect()
    }
}

/// A rig that has been saved at its tenth entry, which counts, and has gone on.
fn with_checkpoint<B: Planting<Bug>>(planted: B) -> (Rig<B>, PipeId) {
    let mut rig = Rig::comparing(5, planted).begin();
    let others = [OTHER, Rank::at(2)].map(|owner| (owner, Incarnation(3)));
    rig.apply(&others.map(|(owner, run)| entry(&Entry::Begin { owner, run })));
    let client = rig.client();
    rig.pass_point(client, &[b"SET a\r\n"]);
    rig.pass_point(
        client,
        &[b"SELECT 3\r\n", b"SET b\r\n", b"CONFIG SET c\r\n", b"SET d\r\n", b"SET e\r\n"],
    );
    assert_eq!(rig.state.base().position, 0, "nothing was compared behind it");
    let five: [&[u8]; 5] = [b"SET f\r\n", b"SET g\r\n", b"SET h\r\n", b"SET i\r\n", b"SET j\r\n"];
    rig.pass_point(client, &five);
    rig.settle();
    (rig, client)
}

const LINES: [&str; 11] = [
    "SET a",
    "SELECT 3",
    "SET b",
    "CONFIG SET c",
    "SET d",
    "SET e",
    "SET f",
    "SET g",
    "SET h",
    "SET i",
    "SET j",
];

#[test]
fn i5_the_transcript_ends_at_a_checkpoint_and_another_copy_begins_there() {
    let (mut rig, _) = with_checkpoint(Sound);
    assert_eq!(rig.lines(), LINES);
    let figures = rig.door.figures(&rig.state);
    assert_eq!((figures.base, figures.checkpoints, figures.began_at), (10, (1, 0), 0));
    assert_eq!(rig.state.transcript().start(), rig.state.base().offset);
    assert!(rig.state.base().offset > 0);

    let bytes = rig.saved();
    let mut other = Rig::comparing(5, Sound);
    other.state.restore(&bytes).unwrap();
    assert_eq!(other.saved(), bytes);
    other.settle();
    let (before, after) = LINES.split_at(6);
    let told = ["CONFIG SET c", "SELECT 3"];
    assert_eq!(other.lines(), [before, &told, after].concat(), "K5");
    let figures = other.door.figures(&other.state);
    assert_eq!((figures.began_at, figures.base), (10, 10));
    assert!(figures.position >= 15, "and then the rest");
}

#[test]
fn mistakes_behind_a_checkpoint_show() {
    let (mut rig, _) = with_checkpoint(Planted(Bug::PrologueForgotten));
    let bytes = rig.saved();
    let mut other = Rig::comparing(5, Planted(Bug::PrologueForgotten));
    other.state.restore(&bytes).unwrap();
    other.settle();
    assert_eq!(other.lines(), LINES, "the new leg is not told what the old one was");
    let (mut rig, _) = with_checkpoint(Planted(Bug::FreedTooFar));
    let bytes = rig.saved();
    let mut other = Rig::comparing(5, Planted(Bug::FreedTooFar));
    let is_whole = other.state.restore(&bytes).is_ok();
    other.settle();
    assert!(!is_whole || other.lines() != LINES);
}

#[test]
fn a_copy_whose_next_entries_are_forgotten_begins_again() {
    let (mut rig, _) = with_checkpoint(Sound);
    let bytes = rig.saved();
    let mut late = Rig::comparing(5, Sound).begin();
    assert!(!late.door.falls_behind(&late.state));
    late.state.restore(&bytes).unwrap();
    late.turn();
    assert!(late.door.falls_behind(&late.state) && !late.door.serves());
}

#[test]
fn d4_the_state_is_on_the_disk_before_the_process_ends() {
    let (mut rig, _) = with_checkpoint(Sound);
    let bytes = rig.saved();
    let ends_early = |planted: Option<Bug>| {
        let mut late = Rig::comparing(5, planted).begin();
        late.view.is_kept = false;
        late.state.restore(&bytes).unwrap();
        late.turn();
        assert!(!late.door.serves());
        let ends_early = late.door.falls_behind(&late.state);
        late.view.is_kept = true;
        late.turn();
        assert!(late.door.falls_behind(&late.state), "its next process finds the state");
        ends_early
    };
    assert!(!ends_early(None));
    assert!(ends_early(Some(Bug::EndsBeforeKept)), "the mistake shows");
}

/// A learner is given a state that is far behind, and then another one, which its machine continues
/// from. (Seed 5002 of `replicate` did so for ever.)
#[test]
fn d10_a_copy_does_not_begin_with_a_state_that_another_one_follows() {
    let (mut rig, _) = with_checkpoint(Sound);
    let newer = rig.saved();
    let older = Rig::comparing(5, Sound).begin().saved();
    let lacks_entries = |planted: Option<Bug>| {
        let mut late = Rig::comparing(5, planted);
        late.view.role = Role::Learner;
        late.state.restore(&older).unwrap();
        late.settle();
        late.state.restore(&newer).unwrap();
        late.view.role = Role::Follower;
        late.settle();
        late.door.falls_behind(&late.state)
    };
    assert!(!lacks_entries(None));
    assert!(lacks_entries(Some(Bug::LearnersCopyBegins)), "the mistake shows");
}

#[test]
fn k5_a_connection_in_a_transaction_puts_the_checkpoint_off() {
    let mut rig = Rig::comparing(5, Sound).begin();
    let others = [OTHER, Rank::at(2)].map(|owner| (owner, Incarnation(3)));
    rig.apply(&others.map(|(owner, run)| entry(&Entry::Begin { owner, run })));
    let client = rig.client();
    rig.pass_point(client, &[b"MULTI\r\n"]);
    let five: [&[u8]; 5] = [b"SET f\r\n", b"SET g\r\n", b"SET h\r\n", b"SET i\r\n", b"SET j\r\n"];
    rig.pass_point(client, &five);
    assert_eq!(rig.state.checkpoints().counts(), (0, 1));
    assert!(rig.door.checkpoint_trouble().unwrap().contains("in the middle"));
}

#[test]
fn k5_a_setting_that_cannot_be_repeated_makes_checkpoints_impossible() {
    let mut rig = Rig::comparing(5, Sound).begin();
    let others = [OTHER, Rank::at(2)].map(|owner| (owner, Incarnation(3)));
    rig.apply(&others.map(|(owner, run)| entry(&Entry::Begin { owner, run })));
    let client = rig.client();
    rig.pass_point(client, &[b"EVAL x 0\r\n"]); // a script in a line is not taken apart
    let five: [&[u8]; 5] = [b"SET f\r\n", b"SET g\r\n", b"SET h\r\n", b"SET i\r\n", b"SET j\r\n"];
    rig.pass_point(client, &five);
    assert_eq!(rig.state.checkpoints().counts(), (0, 1));
    assert!(rig.door.checkpoint_trouble().unwrap().contains("setting or script"));
}

#[test]
fn i6_a_copy_is_saved_when_it_has_answered() {
    let saves_early = |planted: Option<Bug>| {
        let mut rig = Rig::comparing(5, planted).begin();
        let others = [OTHER, Rank::at(2)].map(|owner| (owner, Incarnation(3)));
        rig.apply(&others.map(|(owner, run)| entry(&Entry::Begin { owner, run })));
        let client = rig.client();
        rig.pass_point(client, &[b"SET a\r\n"]);
        for request in [&b"SET b\r\n"[..], b"SET c\r\n", b"SET d\r\n", b"SET e\r\n"] {
            rig.ask(client, request);
            rig.decide();
            rig.answer_all();
        }
        rig.ask(client, b"SET f\r\n");
        rig.decide();
        rig.turn();
        !rig.door.program.saved.is_empty()
    };
    assert!(!saves_early(None), "the program has not answered");
    assert!(saves_early(Some(Bug::SavedBeforeRest)), "the mistake shows");
}

/// A copy has not answered its client for long. Returns the rig and its client.
fn stalling<B: Planting<Bug>>(planted: B) -> (Rig<B>, PipeId) {
    let mut rig = Rig::comparing(5, planted).begin();
    rig.door = rig.door.stalled_after(Duration::from_secs(8));
    let others = [OTHER, Rank::at(2)].map(|owner| (owner, Incarnation(3)));
    rig.apply(&others.map(|(owner, run)| entry(&Entry::Begin { owner, run })));
    let (client, _) = said_at_point(&mut rig);
    rig.door.program.is_busy = true;
    for _ in 0..20 {
        rig.turn_after(Duration::from_secs(1));
    }
    assert!(rig.door.serves(), "no copy has passed it");
    assert_eq!(rig.door.rolls_back(&rig.state), None);
    (rig, client)
}

/// The others agree on a point.
fn pass<B: Planting<Bug>>(rig: &mut Rig<B>) {
    let others = [OTHER, Rank::at(2)].map(|owner| (owner, Incarnation(3)));
    rig.apply(&others.map(|(owner, run)| entry(&Entry::Hash { owner, run, at: 5, value: 1 })));
    rig.turn();
}

#[test]
fn d6_a_copy_that_takes_up_nothing_is_dropped_when_the_others_have_passed_it() {
    let (mut rig, client) = stalling(Sound);
    rig.view.heard.remove(OTHER);
    pass(&mut rig);
    assert!(!rig.door.serves() && rig.door.streams.is_closed(client));
    assert_eq!(rig.door.rolls_back(&rig.state), None, "its death would cost the majority");
    rig.view.heard.insert(OTHER);
    rig.turn();
    let why = rig.door.rolls_back(&rig.state).unwrap();
    assert!(why.contains("nothing for 20 s, at entry 5"), "{why}");
    let (mut rig, client) = stalling(Planted(Bug::StalledServes));
    pass(&mut rig);
    assert!(rig.door.serves() && !rig.door.streams.is_closed(client), "the mistake shows");
}

#[test]
fn d6_a_copy_that_goes_on_is_kept() {
    let (mut rig, client) = stalling(Sound);
    rig.door.program.is_busy = false;
    rig.answer_all();
    rig.turn_after(Duration::from_millis(1));
    rig.turn();
    assert_eq!(rig.door.figures(&rig.state).stalled, Duration::ZERO);
    pass(&mut rig);
    assert!(rig.door.serves() && !rig.door.streams.is_closed(client));
    assert_eq!(rig.door.rolls_back(&rig.state), None);
}

/// A process that has begun again, and has served no client: its copy executes the transcript, of
/// which the first request takes long. The processes `last` of the others are the present ones.
fn repeating(last: Incarnation) -> Rig<Sound> {
    let mut rig = Rig::comparing(5, Sound);
    rig.door = rig.door.stalled_after(Duration::from_secs(8));
    rig.door.program.is_busy = true;
    let others = [OTHER, Rank::at(2)].map(|owner| (owner, Incarnation(3)));
    let id = ConnectionId { owner: OTHER, run: Incarnation(3), number: 1 };
    let says = |index| entry(&Entry::Input { id, index, bytes: b"SET a\r\n" });
    rig.apply(&others.map(|(owner, run)| entry(&Entry::Begin { owner, run })));
    rig.apply(&[entry(&Entry::Open { id }), says(1), says(2)]);
    rig.apply(&others.map(|(owner, run)| entry(&Entry::Hash { owner, run, at: 5, value: 1 })));
    assert_eq!(rig.state.judge().agreed().at, 5);
    if last > Incarnation(3) {
        rig.apply(&others.map(|(owner, _)| entry(&Entry::Begin { owner, run: last })));
    }
    for _ in 0..20 {
        rig.turn_after(Duration::from_secs(1));
        rig.decide();
    }
    assert!(!rig.door.serves() && rig.door.feeder().is_feeding(), "it has served nobody");
    rig
}

/// All copies have worked on that request for as long the first time: none was passed then. Each
/// process that begins again is passed from its beginning on, and would end so without end.
#[test]
fn d6_a_copy_that_executes_a_long_request_again_is_kept() {
    let rig = repeating(Incarnation(3));
    assert_eq!(rig.door.rolls_back(&rig.state), None);
}

/// The agreed hash is that of processes that were there before. Both others have begun again since,
/// and execute the same request as this one: each finds the others there, and all end.
#[test]
fn d6_copies_do_not_drop_each_other_by_what_processes_before_them_have_said() {
    let rig = repeating(Incarnation(4));
    assert_eq!(rig.door.rolls_back(&rig.state), None, "no copy that runs is beyond entry 5");
}

/// D4 says that such a process does not end before: the next one would begin where this one began.
#[test]
fn d6_does_not_end_a_process_whose_state_is_not_kept_yet() {
    let (mut rig, _) = with_checkpoint(Sound);
    let bytes = rig.saved();
    let mut late = Rig::comparing(5, Sound).begin();
    late.door = late.door.stalled_after(Duration::from_secs(8));
    late.view.is_kept = false;
    late.state.restore(&bytes).unwrap();
    for _ in 0..20 {
        late.turn_after(Duration::from_secs(1));
    }
    assert!(!late.door.falls_behind(&late.state), "D4");
    assert_eq!(late.door.rolls_back(&late.state), None, "D6");
}

/// Whether a client's request is said when so many entries were executed, and the copies of the
/// others have told nothing for as long as `passed`.
fn is_read_ahead_of_others<B: Planting<Bug>>(n: u64, passed: Duration, planted: B) -> bool {
    let mut rig = Rig::comparing(2, planted).begin();
    let client = rig.client();
    rig.decide();
    for run in 3..=n {
        rig.apply(&[entry(&Entry::Begin { owner: OTHER, run: Incarnation(run) })]);
    }
    rig.settle();
    rig.turn_after(passed);
    rig.ask(client, b"SET a\r\n");
    let said = rig.decide();
    said.iter().any(|bytes| matches!(Entry::parse(bytes), Ok(Entry::Input { .. })))
}

#[test]
fn c2_clients_wait_for_a_majoritys_copies_that_are_far_behind_and_not_for_ever() {
    let (far, soon) = (POINTS_MAX as u64 + 1, Duration::ZERO);
    assert!(is_read_ahead_of_others(far - 1, soon, Sound));
    assert!(!is_read_ahead_of_others(far, soon, Sound));
    assert!(is_read_ahead_of_others(far, HELD_WITHIN, Sound));
    let planted = Planted(Bug::MajorityOutrun);
    assert!(is_read_ahead_of_others(far, soon, planted), "the mistake shows");
}
