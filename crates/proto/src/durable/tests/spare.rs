//! Spare followers sleep, or are sent things late (I14).

use super::*;

const STEP: Duration = Duration::from_micros(100);
/// The number of steps that is longer than anything is held back.
const STEPS_HELD: u64 = 60;

#[test]
fn who_is_not_needed_is_woken_only_when_something_is_late() {
    const STEP: Duration = Duration::from_micros(100);
    let mut group = Group::led(Sound, 3, 0);
    let others = |ranks: &[usize]| ranks.iter().map(|at| Rank::at(*at)).collect::<MemberSet>();
    group.wakes(0);
    group.propose(0, b"one");
    group.run_in_steps(5, STEP);
    assert_eq!(group.values(0), [b"one"]);
    assert_eq!(group.wakes(0), others(&[1]), "one of two is enough, the commit point can wait");

    group.hold_disk(1);
    group.propose(0, b"two");
    assert_eq!(group.wakes(0), others(&[1]));
    group.hold_disk(2);
    group.run_in_steps(12, STEP);
    assert_eq!(group.wakes(0), others(&[1, 2]), "it is late: everybody is asked to help");
    group.release_disk(2);
    group.run_in_steps(5, STEP);
    assert_eq!(group.values(0), [b"one", b"two"]);
    group.wakes(0);
    group.propose(0, b"three");
    assert_eq!(group.wakes(0), others(&[2]), "whoever acknowledged most is relied on");
}

/// The trap: with both followers' disks full the leader woke all a thousand times a second, for
/// hours.
#[test]
fn who_cannot_help_is_asked_less_and_less() {
    let mut group = Group::led(Sound, 3, 0);
    group.hold_disk(1);
    group.hold_disk(2);
    group.wakes(0);
    group.propose(0, b"one");
    let mut n_wakes = 0;
    for _ in 0..10_000 {
        group.run_in_steps(1, STEP);
        n_wakes += usize::from(!group.wakes(0).is_empty());
    }
    assert!((2..40).contains(&n_wakes), "{n_wakes} times in a second");
    group.release_disk(2);
    group.run_in_steps(5, STEP);
    assert_eq!(group.values(0), [b"one"]);
    // And what is late now is so as soon as ever.
    group.hold_disk(2);
    group.wakes(0);
    group.propose(0, b"two");
    group.run_in_steps(12, STEP);
    let others = [1, 2].into_iter().map(Rank::at).collect::<MemberSet>();
    assert_eq!(group.wakes(0), others);
}

/// Three members, the first of which leads and has every acknowledgement of the others.
fn led_over_links_that_wake<P: Planting<Bug>>(planted: P) -> Group<P> {
    let mut group = Group::new_over_links_that_wake(planted, 3);
    group.lead(0);
    group.run(30);
    assert_eq!(group.status(0).role, Role::Leader);
    group
}

/// The number of entries on each disk.
fn ends<P: Planting<Bug>>(group: &Group<P>) -> [u64; 3] {
    [0, 1, 2].map(|at| group.member(at).log.end().0)
}

/// The number of entries on each disk beyond `before`.
fn since(group: &Group<Sound>, before: [u64; 3]) -> [u64; 3] {
    let now = ends(group);
    [0, 1, 2].map(|at| now[at] - before[at])
}

#[test]
fn i14_what_is_held_back_is_sent_when_its_time_has_passed() {
    let mut group = led_over_links_that_wake(Sound);
    let before = ends(&group);
    group.propose(0, b"one");
    group.run_in_steps(8, STEP);
    assert_eq!(group.values(0), [b"one"], "one of two is enough");
    assert_eq!(since(&group, before), [1, 1, 0]);
    assert!(group.values(1).is_empty(), "the commit point can wait, too");
    let at = group.member(0).deadline().expect("it is not forgotten");
    assert!(at <= group.now().plus(STEP * STEPS_HELD as u32));
    group.run_in_steps(STEPS_HELD, STEP);
    assert_eq!(since(&group, before), [1, 1, 1]);
    assert_eq!(
        (group.values(1), group.values(2)),
        (&[b"one".to_vec()][..], &[b"one".to_vec()][..])
    );
    assert!(group.is_settled(0), "nothing is left to hold back, so nobody looks for it");
}

/// Returns the values that the others deliver when the follower that was relied on is gone.
fn delivered_without_the_one_relied_on<P: Planting<Bug>>(planted: P) -> usize {
    let mut group = led_over_links_that_wake(planted);
    group.hold_disk(1);
    group.propose(0, b"x");
    group.run_in_steps(STEPS_HELD, STEP);
    group.values(0).len()
}

#[test]
fn i14_what_is_held_back_is_sent_when_something_is_late() {
    assert_eq!(delivered_without_the_one_relied_on(Sound), 1);
    assert_eq!(delivered_without_the_one_relied_on(Planted(Bug::HoldBack)), 0);

    let mut group = led_over_links_that_wake(Sound);
    let before = ends(&group);
    group.hold_disk(1);
    group.propose(0, b"x");
    group.run_in_steps(8, STEP);
    assert_eq!(since(&group, before), [1, 1, 0]);
    group.run_in_steps(15, STEP);
    assert_eq!(group.values(0), [b"x"], "sooner than its time");
    let before = ends(&group);
    group.propose(0, b"y");
    group.run_in_steps(8, STEP);
    assert_eq!(since(&group, before), [1, 0, 1], "whoever acknowledged most is relied on");
}

#[test]
fn i14_what_is_held_back_is_sent_when_it_is_much() {
    let mut group = led_over_links_that_wake(Sound);
    let before = ends(&group);
    // An eighth of a ring of sixteen.
    for _ in 0..3 {
        group.propose(0, &[7; 64]);
        group.run_in_steps(1, STEP);
    }
    group.run_in_steps(4, STEP);
    let [first, second, third] = since(&group, before);
    assert_eq!((first, second), (3, 3));
    assert!(third >= 2, "r2 has {third} of them");
}

#[test]
fn i14_what_is_held_back_is_sent_when_somebody_waits_for_it() {
    let mut group = led_over_links_that_wake(Sound);
    let before = ends(&group);
    group.propose(0, b"x");
    group.hasten(0, Prefix(u64::MAX));
    group.run_in_steps(4, STEP);
    assert_eq!(since(&group, before), [1, 1, 1]);
}

#[test]
fn a_stream_that_is_held_back_is_not_begun_anew() {
    let mut group = led_over_links_that_wake(Sound);
    group.propose(0, b"one");
    // This is longer than the patience with a stream that owes something.
    group.run(100);
    // A check makes the leader look at its streams 10 ms later, while something is held back.
    assert!(group.read(0, 1));
    group.run(4);
    group.propose(0, b"two");
    group.run_in_steps(20, STEP);
    assert_eq!(group.values(2), [b"one"], "it is held back still");
    let Office::Leader(term) = &group.member(0).office else { panic!("it leads") };
    assert_eq!(term.n_streams, 2);
}
