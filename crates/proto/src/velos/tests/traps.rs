//! Traps from a review: wrapped generations, states that come at a bad time, slow links.

use super::super::ring::{Cell, Phase};
use super::*;
use crate::stage::Verb;

#[test]
fn i8_a_candidate_that_slept_through_a_wrapped_generation_recycles_nothing() {
    // The generation has two bits: four rings later a word looks as if nothing had happened.
    for rings in 1..=9u64 {
        let mut group = Group::<_, Narrow>::made(Sound);
        group.lead(0);
        group.settle(&EVERYBODY);
        group.hold(0, 2);
        for n in 0..rings * 16 + 3 {
            group.propose(0, &[n as u8]).expect("room");
            group.settle(&[0, 1]);
        }
        let before = group.world.memory[1].clone();
        let decided = group.values(1).len();
        // Member 2 saw none of it, and becomes the leader.
        group.lead(2);
        group.settle(&[2]);
        assert!(!group.leads(2), "{rings} rings behind");
        assert!(group.world.notes[2].iter().any(|note| matches!(note, Note::NeedState(_))));
        for slot in 0..16 {
            let at = group.machines[1].places.slot(Slot(slot)).0 as usize;
            let (was, is) = (before[at], group.world.memory[1][at]);
            let (was, is) = (Narrow::PACKING.unpack(was), Narrow::PACKING.unpack(is));
            assert_eq!((was.generation, was.tag), (is.generation, is.tag), "I8: slot {slot}");
        }
        assert_eq!(group.values(1).len(), decided);
    }
}

#[test]
fn i8_an_accept_of_an_earlier_use_with_the_same_generation_is_not_counted() {
    // The generation has two bits: what one ballot accepted four rings ago looks like an accept of
    // now.
    let mut group = Group::<_, Narrow>::made(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    for n in 0..20u8 {
        group.propose(0, &[n]).expect("room");
        group.settle(&EVERYBODY);
    }
    group.event(0, Event::LinkDown(Rank::at(1)));
    for n in 20..74u8 {
        group.propose(0, &[n]).expect("room");
        group.settle(&[0, 2]);
    }
    // Slot 74 uses the place of slot 10. Only the leader's own acceptor gets its value.
    let slot = group.machines[0].term.as_ref().expect("leads").next;
    let old = group.word(1, slot.0);
    let generation = Narrow::PACKING.generation_of(slot, SHAPE.ring_slots);
    assert!(old.has_value() && old.generation == generation, "the trap is set: {old:?}");
    group.hold_all(0);
    group.propose(0, b"lone").expect("room");
    // One acceptor, the leader's own, has it.
    group.release(0, 0);
    group.event(0, Event::LinkUp(Rank::at(1)));
    // Member 1 names its incarnation, then answers the prepares, and receives no accept.
    for _ in 0..2 {
        let posted = group.world.links[0][1].len();
        assert!(posted > 0, "the trap is set");
        group.world.let_through(0, 1, posted);
        group.step(0);
    }
    assert_eq!(group.word(1, slot.0), old, "it accepted nothing meanwhile");
    assert!(!group.values(0).contains(&&b"lone"[..]), "decided by one acceptor");
    group.release(0, 1);
    group.settle(&[0, 1]);
    assert!(group.values(0).contains(&&b"lone"[..]), "and decided once there are two");
}

/// Member 0 leads. Its next value is accepted by member 2 alone, and loses: member 1 decides
/// another one with the memory of member 0, which has not heard of that.
pub(super) fn let_one_lose(group: &mut Group<impl Planting<Bug>>) {
    group.hold(0, 0);
    group.hold(0, 1);
    group.propose(0, b"losing").expect("room");
    group.step(0);
    group.hold(1, 2);
    group.lead(1);
    group.settle(&[1]);
    assert!(group.leads(1) && group.leads(0));
    group.propose(1, b"winning").expect("leads");
    group.settle(&[1]);
}

#[test]
fn i4_a_state_that_arrives_in_the_middle_of_a_term_ends_the_term() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    let_one_lose(&mut group);
    assert_eq!(group.values(1), [b"winning"]);
    let fact = group.machines[1].places.fact(Rank::at(1)).0 as usize;
    group.world.memory[0][fact..fact + 2].fill(0);
    // A state that member 0 asked for before it led comes from member 1.
    let mut view = View { world: &mut group.world, me: 0 };
    group.machines[0].install(Prefix(1), Some(head()), group.now, &mut view);
    group.settle(&[0, 2]);
    assert!(!group.values(2).contains(&&b"losing"[..]), "vouched for by a ballot that lost");
}

#[test]
fn a_read_may_take_as_long_as_a_round_trip_and_ends_with_the_links() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    for me in [0, 2] {
        // Tens of milliseconds are usual between distant hosts.
        group.hold_all(me);
        group.read(me, 7);
        group.now = group.now.plus(Duration::from_millis(60));
        group.step(me);
        group.release_all(me);
        group.step(me);
        assert!(group.world.notes[me].contains(&Note::ReadReady(Ticket(7))), "at {me}");
    }
    group.hold_all(0);
    group.read(0, 8);
    for to in [1, 2] {
        for verb in core::mem::take(&mut group.world.links[0][to]) {
            if let Verb::Read { token, .. } = verb {
                let (from, outcome) = (Rank::at(to), Outcome::Unknown);
                group.event(0, Event::Completed { from, token, outcome });
            }
        }
    }
    assert!(group.world.notes[0].contains(&Note::ReadRefused(Ticket(8))));
}

#[test]
fn a_read_that_is_overtaken_by_decision_after_decision_waits_no_longer_each_time() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.propose(0, b"first").expect("room");
    group.read(2, 7);
    let overtaken = |group: &Group<Sound>| {
        let notes = &group.world.notes[2];
        !notes.iter().any(|note| matches!(note, Note::ReadReady(_) | Note::ReadRefused(_)))
    };
    // Whenever the follower looks, one slot more is decided and the next may be: it looks again,
    // a hundred times within the time that a check may take.
    for _ in 0..100 {
        group.step(0);
        group.propose(0, b"next").expect("room");
        group.now = group.now.plus(Duration::from_micros(10));
        group.step(2);
        assert!(overtaken(&group), "the case that is to be shown");
    }
    group.settle(&EVERYBODY);
    assert!(group.world.notes[2].contains(&Note::ReadReady(Ticket(7))));
}

#[test]
fn whoever_accepted_the_last_use_of_a_place_is_not_asked_to_promise_for_the_next() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    let cas_of_one_value = |group: &mut Group<Sound>| {
        group.hold_all(0);
        group.propose(0, b"value").expect("room");
        let is_cas = |verb: &&Verb| matches!(verb, Verb::Cas { .. });
        let n = (0..3).map(|to| group.world.links[0][to].iter().filter(is_cas).count());
        let n: Vec<usize> = n.collect();
        group.release_all(0);
        group.settle(&EVERYBODY);
        n
    };
    // A value's accept, and the first promise for a slot ahead.
    assert_eq!(cas_of_one_value(&mut group), [2, 2, 2]);
    for _ in 0..SHAPE.ring_slots {
        cas_of_one_value(&mut group);
    }
    assert_eq!(cas_of_one_value(&mut group), [1, 1, 1], "the accept alone");
    // A member that does not answer has accepted nothing: it has to promise again.
    group.hold(0, 2);
    for _ in 0..2 * SHAPE.ring_slots {
        group.propose(0, b"value").expect("room");
        group.settle(&[0, 1]);
    }
    let next = group.machines[0].applied.next_slot();
    let is_vouched = |group: &mut Group<Sound>, by: usize| {
        group.machines[0].cell(next).vouched.contains(Rank::at(by))
    };
    assert!(is_vouched(&mut group, 1) && !is_vouched(&mut group, 2));
    group.release(0, 2);
    group.settle(&EVERYBODY);
    assert!(is_vouched(&mut group, 2), "and it does");
    group.propose(0, b"for all").expect("room");
    group.settle(&EVERYBODY);
    assert_eq!(group.word(2, next.0), group.word(0, next.0));
}

#[test]
fn a_paused_member_that_holds_the_value_does_not_hold_up_the_others() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    // Members 0 and 1 have accepted it; 2 has neither the value nor the news, and becomes the
    // leader.
    group.hold(0, 2);
    group.propose(0, b"kept").expect("room");
    group.step(0);
    group.lead(2);
    // Its predictions are wrong; the second prepares succeed.
    group.step(2);
    // Member 0 has promised, and answers nothing from here on: its link stays up.
    group.hold(2, 0);
    group.step(2);
    let asked = |verb: &Verb| matches!(verb, Verb::Read { n_words, .. } if *n_words > MAX_MEMBERS);
    assert!(group.world.links[2][0].iter().any(asked), "the trap is set: 0 is asked for the value");
    for _ in 0..20 {
        group.now = group.now.plus(Duration::from_millis(50));
        group.step(2);
    }
    assert!(group.leads(2));
    assert_eq!(group.values(2), [b"kept"]);
    // Late answers change nothing.
    group.release(2, 0);
    group.settle(&[1, 2]);
    assert_eq!(group.values(1), [b"kept"]);
}

#[test]
fn a_late_acceptors_refusal_of_what_is_long_applied_deposes_nobody() {
    // After overflow, acceptors answer by message and compare the leader's horizon when they do.
    for n in 1..40u8 {
        let mut group = Group::<_, Narrow>::made(Sound);
        group.machines[0].candidacy.see(Narrow::PACKING.ballot_limit());
        group.lead(0);
        group.settle(&EVERYBODY);
        group.hold(0, 1);
        for value in 0..n {
            group.propose(0, &[value]).expect("room");
            group.settle(&[0, 2]);
        }
        group.release(0, 1);
        group.settle(&EVERYBODY);
        assert_eq!(group.machines[0].counters.deposed, 0, "member 1 was {n} values late");
        assert!(group.leads(0));
    }
}

/// Whether the own acceptor's word refers to a whole value when it has accepted by message.
fn own_value_is_there<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::overflow(planted);
    group.hold(2, 2);
    let slot = group.propose(2, b"x").expect("member 2 leads");
    let view = View { world: &mut group.world, me: 2 };
    let machine = &group.machines[2];
    let word = machine.own_word(slot, &view);
    let (proposer, area) = word.tag.place().expect("accepted");
    let mut words = [0; value::HEADER_WORDS + 1];
    view.load_into(machine.places.area(slot, proposer, area), &mut words);
    value::decode(&words).is_some_and(|(label, payload)| label.slot == slot && payload == b"x")
}

#[test]
fn what_the_own_acceptor_accepts_by_message_is_there_before_it_answers() {
    assert!(own_value_is_there(Sound));
    assert!(!own_value_is_there(Planted(Bug::OwnValueLater)));
}

/// Members 0, which leads, and 1 have decided a value, and nothing of that has reached member 2.
fn decided_by_two() -> Group<Sound> {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.hold(0, 2);
    group.propose(0, b"a").expect("room");
    group.settle(&[0, 1]);
    assert_eq!(group.values(1), [b"a"]);
    group
}

#[test]
fn a_follower_that_the_leader_does_not_reach_learns_from_the_others_word() {
    let mut group = decided_by_two();
    // Member 1 claims its applied prefix; member 2 reads the value.
    (0..30).for_each(|_| group.settle(&[1, 2]));
    assert_eq!(group.values(2), [b"a"]);
}

#[test]
fn who_can_read_no_majority_for_long_asks_for_a_state() {
    let mut group = decided_by_two();
    // The value is lost on its way, the news of it is not; and no member's words can be read.
    group.break_link(0, 2);
    group.break_link(2, 0);
    group.break_link(2, 1);
    group.release(0, 2);
    group.event(0, Event::LinkUp(Rank::at(2)));
    group.settle(&[0]);
    let needs = |group: &Group<Sound>| {
        group.world.notes[2].iter().any(|note| matches!(note, Note::NeedState(_)))
    };
    group.step(2);
    assert!(!needs(&group), "the links may come back in a moment");
    group.now = group.now.plus(Duration::from_millis(100));
    group.step(2);
    assert!(group.machines[2].decided_known() > group.machines[2].applied);
    assert!(needs(&group));
}

/// A member that recovers nearly a ring shows a horizon beyond the place of its first slots' next
/// use. An acceptor whose word was mispredicted is surveyed for them again, long after they are
/// applied.
#[test]
fn i8_a_candidate_does_not_lag_behind_its_own_horizon() {
    let mut group = Group::new(Sound);
    group.hold(1, 2);
    group.lead(1);
    // Member 2 answers the first CAS; what follows on its link waits.
    let is_cas = |verb: &Verb| matches!(verb, Verb::Cas { .. });
    let first = group.world.links[1][2].iter().position(is_cas).expect("prepares");
    group.world.let_through(1, 2, first + 1);
    group.settle(&[0, 1]);
    assert!(group.leads(1));
    let slot = Slot::ZERO;
    let number = group.machines[1].ring.terms.newest();
    for n in 0..14u8 {
        group.propose(1, &[n]).expect("room");
        group.settle(&[0, 1]);
    }
    let cell = &group.machines[1].ring.cells[0];
    assert!(
        cell.slot == slot && cell.prepared.contains(Rank::at(2)),
        "the place is not used again"
    );
    let shown = group.machines[1].places.horizons().plus(1).0 as usize;
    // The next step is the one that uses the place of slot 1 again.
    let horizon = group.world.memory[1][shown] + 2;
    assert!(slot::is_recycled(slot, 16, &[horizon]), "{horizon}");
    let token = tokens::make(tokens::SURVEY, number, slot.0);
    let outcome = Outcome::Read(&[0, horizon, 0, 0, 0, 0, 0]);
    group.event(1, Event::Completed { from: Rank::at(2), token, outcome });
    assert!(group.leads(1), "it lags behind itself");
    assert!(group.machines[1].applied.contains(slot));
}

/// Nothing else is under way, so nothing else makes the leader look again.
#[test]
fn a_lost_answer_to_a_message_is_asked_for_again() {
    let mut group = Group::<_, Narrow>::made(Sound);
    group.machines[0].candidacy.see(Narrow::PACKING.ballot_limit());
    group.machines[0].peer_works = true;
    group.lead(0);
    group.settle(&EVERYBODY);
    assert!(group.leads(0));
    group.hold(0, 1);
    group.hold(2, 0);
    group.propose(0, b"value").expect("leads");
    group.settle(&[0, 2]);
    group.world.lose(2, 0);
    group.release(2, 0);
    // The leader's later messages are answered and lost too.
    for _ in 0..400 {
        let Some(at) = group.machines[0].deadline().filter(|_| group.values(0).is_empty()) else {
            break;
        };
        group.now = group.now.max(at);
        group.step(0);
        group.step(2);
    }
    assert_eq!(group.values(0), [b"value"]);
}

/// Lets verbs through to member 1, one at a time, until the leader has noted what is asked for.
fn let_through_until<P: Planting<Bug>>(
    group: &mut Group<P>,
    is_noted: impl Fn(&Cell) -> bool,
    slot: Slot,
) {
    while !is_noted(group.machines[0].cell(slot)) {
        assert!(!group.world.links[0][1].is_empty(), "it is noted before all is through");
        group.world.let_through(0, 1, 1);
        group.step(0);
    }
}

/// Lets the leader look around, whatever has asked for that.
fn look_around<P: Planting<Bug>>(group: &mut Group<P>) {
    let now = group.now;
    group.machines[0].clock.nudge(now);
    group.step(0);
}

/// A look around asks member 1 again for a promise that it has given, since its horizons are still
/// on their way; the answer comes when the value is proposed. Nothing else makes the leader look.
#[test]
fn i17_an_acceptor_whose_promise_was_asked_for_twice_is_sent_the_value() {
    let group = asked_twice(Sound);
    assert!(group.leads(0));
    assert_eq!(group.values(1), [b"kept"]);
    assert!(!asked_twice(Planted(Bug::AskedTwiceWaits)).leads(0), "it waits for another look");
}

fn asked_twice<P: Planting<Bug>>(planted: P) -> Group<P> {
    let mut group = Group::new(planted);
    group.lead(0);
    group.settle(&EVERYBODY);
    // Member 0 alone accepts the value, and has to propose it again in its next term.
    (1..3).for_each(|to| group.hold(0, to));
    let slot = group.propose(0, b"kept").expect("room");
    group.settle(&[0]);
    group.follow(0);
    (1..3).for_each(|to| group.world.lose(0, to));
    group.step(0);
    group.lead(0);
    let peer = Rank::at(1);
    let_through_until(&mut group, |cell| cell.prepared.contains(peer), slot);
    assert!(!group.machines[0].cell(slot).vouched.contains(peer), "the trap is set");
    look_around(&mut group);
    assert!(group.machines[0].cell(slot).busy.contains(peer), "it is asked again");
    let_through_until(&mut group, |cell| cell.vouched.contains(peer), slot);
    group.step(0);
    assert_eq!(group.machines[0].cell(slot).phase, Phase::Accepting);
    look_around(&mut group);
    assert!(group.machines[0].cell(slot).busy.contains(peer), "the second answer is on its way");
    group.release(0, 1);
    // (No time passes.)
    while group.step(0) + group.step(1) > 0 {}
    group
}

/// A token has room for 16 bits of a term's number, and one link may stand still for more terms.
#[test]
fn i6_a_verb_that_stands_still_for_65536_terms_is_not_taken_for_one_of_the_present_term() {
    let mut group = Group::new(Sound);
    group.hold(0, 1);
    group.lead(0);
    for _ in 0..1 << 16 {
        group.step(0);
        group.follow(0);
        group.lead(0);
    }
    group.settle(&[0]);
    assert!(group.leads(0), "members 0 and 2 are a majority");
    let is_cas = |verb: &&Verb| matches!(verb, Verb::Cas { .. });
    let n_held = group.world.links[0][1].iter().filter(is_cas).count();
    assert!(n_held <= 16 * crate::terms::UNANSWERED_MAX, "{n_held} wait for one member");
    group.release(0, 1);
    group.propose(0, b"value").expect("leads");
    group.settle(&EVERYBODY);
    assert_eq!(group.values(1), [b"value"]);
    let ballot = group.machines[0].status().ballot;
    assert_eq!(group.word(1, 0).accepted_proposal, ballot, "what was kept back was posted");
}

/// I8. The CASes of this member's earlier term may have used what that term showed.
#[test]
fn i8_a_horizon_that_was_shown_does_not_fall_with_the_next_term() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    for n in 0..40u8 {
        group.propose(0, &[n]).expect("room");
        group.settle(&EVERYBODY);
    }
    // Many are under way when the term ends: places far ahead of the applied prefix were used.
    let n_under_way = (0..16).take_while(|_| group.propose(0, b"under way").is_ok()).count();
    assert!(n_under_way > 1);
    let at = group.machines[0].places.horizons().0 as usize;
    let shown = |group: &Group<Sound>| EVERYBODY.map(|of| group.world.memory[of][at]);
    let before = shown(&group);
    group.follow(0);
    group.lead(0);
    let after = shown(&group);
    assert!(before.iter().zip(&after).all(|(before, after)| before <= after), "{after:?}");
}

/// I8. A member that lacks the horizon takes a place that was used again for one that was not.
#[test]
fn i8_a_horizon_that_a_broken_link_lost_is_shown_when_the_link_is_back() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    let at = group.machines[0].places.horizons().0 as usize;
    let before = group.world.memory[2][at];
    group.hold(0, 2);
    for n in 0..40u8 {
        group.propose(0, &[n]).expect("room");
        group.settle(&[0, 1]);
    }
    let shown = group.world.memory[0][at];
    group.break_link(0, 2);
    group.release(0, 2);
    assert!(shown > before && group.world.memory[2][at] == before, "it is lost");
    group.event(0, Event::LinkUp(Rank::at(2)));
    group.settle(&EVERYBODY);
    assert!(group.world.memory[2][at] >= shown);
}

/// I4. A prefix beside an older ballot would vouch for what that ballot left behind.
#[test]
fn i4_a_link_that_was_down_brings_the_ballot_before_the_prefix() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.propose(0, b"one").expect("room");
    group.settle(&EVERYBODY);
    // The news of the next term is lost on its way to member 2.
    group.hold(0, 2);
    group.follow(0);
    group.lead(0);
    group.settle(&[0, 1]);
    group.propose(0, b"two").expect("room");
    group.settle(&[0, 1]);
    group.break_link(0, 2);
    group.release(0, 2);
    let fact = group.machines[0].places.fact(Rank::at(0)).0 as usize;
    let ballot = group.machines[0].status().ballot;
    assert!(group.world.memory[2][fact] < ballot.0, "it knows the first term only");
    group.event(0, Event::LinkUp(Rank::at(2)));
    group.settle(&EVERYBODY);
    assert_eq!(group.world.memory[2][fact..fact + 2], [ballot.0, group.machines[0].applied.0]);
    assert_eq!(group.values(2), [&b"one"[..], b"two"]);
}

/// Two leaders that do not hear each other lag in each other's eyes. If each woke the other
/// whenever it is woken, both would be busy for as long as that lasts.
#[test]
fn who_lags_is_woken_once_for_the_same_news() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&[0, 1]);
    for n in 0..8u8 {
        group.propose(0, &[n]).expect("room");
        group.settle(&[0, 1]);
    }
    let wakes_in = |n_polls: usize, group: &mut Group<Sound>| {
        let before = group.world.n_wakes;
        (0..n_polls).for_each(|_| _ = group.step(0));
        group.world.n_wakes - before
    };
    wakes_in(1, &mut group);
    assert_eq!(wakes_in(100, &mut group), 0, "nothing is new, and no time has passed");
    group.propose(0, b"news").expect("room");
    assert!((1..=2).contains(&wakes_in(100, &mut group)), "for the value, and for its decision");
    group.now = group.now.plus(WAKE_AFTER * 64);
    assert_eq!(wakes_in(100, &mut group), 2, "once again both, which may have overslept");
    // A member that was reported dead may live, and lead.
    group.event(0, Event::ProcessFailed(Rank::at(2)));
    group.propose(0, b"more").expect("room");
    group.settle(&[0, 1]);
    assert_eq!(wakes_in(100, &mut group), 0, "the same");
}
