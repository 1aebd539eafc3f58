//! Planted bugs that seeds meet rarely: a schedule shows each, and a sound machine passes it.

use super::traps::let_one_lose;
use super::*;

const LAST: Rank = Rank::at(2);

fn deliver_to(group: &mut Group<impl Planting<Bug>>, me: usize) {
    group.now = group.now.plus(Duration::from_millis(1));
    group.step(me);
    group.settle(&[me]);
}

/// Member 2 holds a value that member 0 proposed for slot 1 and that lost; then member 0 leads
/// again, and the link to member 2 breaks while the new ballot is on it. What member 2 delivers.
fn values_behind_a_break<P: Planting<Bug>>(planted: P) -> Vec<Vec<u8>> {
    let mut group = Group::new(planted);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.propose(0, b"first").expect("room");
    group.settle(&EVERYBODY);
    let_one_lose(&mut group);
    group.follow(0);
    group.release(0, 0);
    group.release(0, 1);
    group.settle(&[0, 1]);
    assert_eq!(group.values(0), [&b"first"[..], b"winning"]);
    group.follow(1);
    group.world.lose(1, 2);
    group.hold(0, 2);
    group.lead(0);
    group.settle(&[0, 1]);
    group.propose(0, b"third").expect("leads again");
    group.settle(&[0, 1]);
    // The ballot and the prefix that were posted are lost.
    group.break_link(0, 2);
    group.event(0, Event::LinkUp(LAST));
    group.release(0, 2);
    group.settle(&[0, 1]);
    group.propose(0, b"fourth").expect("leads");
    group.settle(&[0, 1]);
    deliver_to(&mut group, 2);
    group.values(2).into_iter().map(<[u8]>::to_vec).collect()
}

#[test]
fn introduced_outlives_link_is_harmful() {
    assert_eq!(values_behind_a_break(Sound)[1], b"winning");
    assert_eq!(values_behind_a_break(Planted(Bug::IntroducedOutlivesLink))[1], b"losing");
}

/// Slot 0 is decided by members 1 and 2. Member 0, which follows, holds its own losing value for
/// it, and what it has posted to the others is held back, as is what member 1 posts to it.
fn group_that_decided_without_0<P: Planting<Bug>>(planted: P) -> Group<P> {
    let mut group = Group::new(planted);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.hold(0, 1);
    group.hold(0, 2);
    group.propose(0, b"losing").expect("room");
    group.step(0);
    group.hold(1, 0);
    group.lead(1);
    group.settle(&[1, 2]);
    group.propose(1, b"winning").expect("leads");
    group.settle(&[1, 2]);
    group.follow(0);
    group
}

/// Member 0's own word holds its losing value when it fetches what was decided without it.
fn values_of_a_fetch<P: Planting<Bug>>(planted: P) -> Vec<Vec<u8>> {
    let mut group = group_that_decided_without_0(planted);
    group.world.lose(0, 1);
    group.world.lose(0, 2);
    group.world.held.retain(|link| link.0 != 0);
    let fact = group.machines[1].places.fact(Rank::at(1)).0 as usize;
    group.world.memory[0][fact] = group.machines[1].news.of(1).ballot.0;
    group.world.memory[0][fact + 1] = group.machines[1].news.of(1).decided.0;
    deliver_to(&mut group, 0);
    group.values(0).into_iter().map(<[u8]>::to_vec).collect()
}

#[test]
fn fetch_first_accepted_is_harmful() {
    assert_eq!(values_of_a_fetch(Sound), [b"winning"]);
    assert_eq!(values_of_a_fetch(Planted(Bug::FetchFirstAccepted)), [b"losing"]);
}

/// Member 0 decided a value with member 1 and died; the link by which member 2 reads it breaks.
fn values_of_a_successor<P: Planting<Bug>>(planted: P) -> Vec<Vec<u8>> {
    let mut group = Group::new(planted);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.hold(0, 2);
    group.propose(0, b"decided").expect("room");
    group.settle(&[0, 1]);
    assert_eq!(group.values(0), [b"decided"]);
    group.hold(2, 0);
    group.lead(2);
    // The promise of member 1 comes, and the READ of its value is lost.
    for _ in 0..8 {
        group.hold(2, 1);
        let is_whole = |verb: &Verb| matches!(verb, Verb::Read { n_words, .. } if *n_words > 10);
        if group.world.links[2][1].iter().any(is_whole) {
            group.break_link(2, 1);
            group.event(2, Event::LinkUp(Rank::at(1)));
        }
        group.release(2, 1);
        group.hold(2, 1);
        group.now = group.now.plus(Duration::from_millis(2));
        group.step(2);
    }
    group.release(2, 1);
    group.settle(&[1, 2]);
    let _ = group.propose(2, b"fresh");
    group.settle(&[1, 2]);
    group.values(2).into_iter().map(<[u8]>::to_vec).collect()
}

#[test]
fn unreadable_is_empty_is_harmful() {
    assert_eq!(values_of_a_successor(Sound).first().map(Vec::as_slice), Some(&b"decided"[..]));
    let values = values_of_a_successor(Planted(Bug::UnreadableIsEmpty));
    assert_eq!(values.first().map(Vec::as_slice), Some(&b"fresh"[..]));
}

/// Member 0 holds its losing value for slot 0. It leads again and has the promise of member 2, and
/// the READ of the value there is long on its way: meanwhile member 1 uses the place twice more.
/// Whether member 0 then accepts the losing value under its new ballot.
fn accepts_what_had_lost<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = group_that_decided_without_0(planted);
    let first = group.word(0, 0).accepted_proposal;
    for peer in [1, 2] {
        group.break_link(0, peer);
        group.event(0, Event::LinkUp(Rank::at(peer)));
    }
    group.lead(0);
    let is_whole = |verb: &Verb| matches!(verb, Verb::Read { n_words, .. } if *n_words > 10);
    for _ in 0..20 {
        if group.world.links[0][2].iter().any(is_whole) {
            break;
        }
        group.release(0, 2);
        group.hold(0, 2);
        group.now = group.now.plus(Duration::from_millis(2));
        group.step(0);
    }
    assert!(group.world.links[0][2].iter().any(is_whole), "the READ is on its way");
    group.lead(1);
    group.settle(&[1, 2]);
    for n in 0..2 * SHAPE.ring_slots as u8 + 1 {
        group.propose(1, &[n]).expect("leads");
        group.settle(&[1, 2]);
    }
    group.release(0, 2);
    group.settle(&[0]);
    group.word(0, 0).accepted_proposal > first
}

#[test]
fn later_is_empty_is_harmful() {
    assert!(!accepts_what_had_lost(Sound));
    assert!(accepts_what_had_lost(Planted(Bug::LaterIsEmpty)));
}

/// Member 2 is out of reach while the generation wraps once under one ballot. Then member 1 is, and
/// the next value is decided with member 2. Whether a successor finds it.
fn is_kept_over_a_wrap<P: Planting<Bug>>(planted: P, n_slots: u64) -> Option<bool> {
    let mut group = Group::<_, Narrow>::made(planted);
    group.lead(0);
    group.settle(&EVERYBODY);
    for n in 0..8u8 {
        group.propose(0, &[n]).expect("room");
        group.settle(&EVERYBODY);
    }
    group.break_link(0, 2);
    group.world.down.push((0, 2));
    for n in 8..n_slots {
        group.propose(0, &[n as u8]).ok()?;
        group.settle(&[0, 1]);
    }
    group.hold(0, 1);
    let slot = group.propose(0, b"lonely").ok()?;
    group.settle(&[0]);
    group.world.down.clear();
    group.event(0, Event::LinkUp(LAST));
    group.settle(&[0]);
    let was = group.world.delivered[0].get(slot.0 as usize).cloned()?;
    // Member 0 dies, and what is on its way to member 1 never comes.
    group.world.lose(0, 1);
    let prefix = slot.prefix_before();
    let n_before = group.world.delivered[2].len();
    let mut view = View { world: &mut group.world, me: 2 };
    group.machines[2].install(prefix, Some(head()), group.now, &mut view);
    group.hold(2, 0);
    group.lead(2);
    group.settle(&[1, 2]);
    let _ = group.propose(2, b"another");
    group.settle(&[1, 2]);
    let is = group.world.delivered[2].get(n_before).cloned()?;
    Some(is == was)
}

#[test]
fn any_own_accept_is_harmful() {
    let kept = |planted: Option<Bug>, n| match planted {
        None => is_kept_over_a_wrap(Sound, n),
        Some(bug) => is_kept_over_a_wrap(Planted(bug), n),
    };
    let outcomes: Vec<_> = (60..150).filter_map(|n| kept(None, n)).collect();
    assert!(!outcomes.is_empty() && outcomes.iter().all(|kept| *kept), "{outcomes:?}");
    let outcomes: Vec<_> = (60..150).map(|n| (n, kept(Some(Bug::AnyOwnAccept), n))).collect();
    assert!(outcomes.iter().any(|(_, kept)| *kept == Some(false)), "{outcomes:?}");
}

#[test]
fn i3_no_prefix_is_told_before_it_is_stored() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.propose(0, b"decided").expect("room");
    let accepted = core::mem::take(&mut group.world.inboxes[0]);
    (0..accepted.len()).for_each(|at| group.event(0, accepted.event(at)));
    assert_eq!(group.values(0), [b"decided"]);
    group.event(0, Event::LinkUp(Rank::at(1)));
    let at = group.machines[0].places.applied(Rank::at(0)).0 as usize;
    assert_eq!(group.world.memory[1][at], 1);
    assert_eq!(group.world.memory[0][at], 1, "the next life knows what this one has told");
}

/// A follower that its leader alone does not reach hears from the other one that two values are
/// applied, one soon after the other. Then no more is said.
#[test]
fn f2_a_follower_behind_a_cut_learns_the_last_value_too() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.hold(0, 2);
    for value in [&b"first"[..], b"last"] {
        group.propose(0, value).expect("room");
        for _ in 0..3 {
            group.now = group.now.plus(Duration::from_micros(300));
            EVERYBODY.iter().for_each(|me| {
                group.step(*me);
            });
        }
    }
    for _ in 0..100 {
        group.now = group.now.plus(Duration::from_micros(500));
        EVERYBODY.iter().for_each(|me| {
            group.step(*me);
        });
    }
    assert_eq!(group.values(1), [&b"first"[..], b"last"]);
    assert_eq!(group.values(2), [&b"first"[..], b"last"]);
}
