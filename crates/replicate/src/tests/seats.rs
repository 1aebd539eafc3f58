//! Tests of a whole door: members that are removed, and added again.

use super::copies::differing;
use super::*;
use base::Prefix;
use proto::members::{Configuration, Members};

const THEIRS: Incarnation = Incarnation(3);

/// The decided members, or those that are not decided yet, are these.
fn seat<B: Planting<Bug>>(rig: &mut Rig<B>, seated: &[Rank], is_decided: bool) {
    let voters: MemberSet = seated.iter().copied().collect();
    let incarnations = [Incarnation::FIRST.0; base::MAX_MEMBERS];
    let members = Members { voters, learners: MemberSet::EMPTY, incarnations };
    let (at, leaving) = (Prefix(9), MemberSet::EMPTY);
    rig.view.configuration = Some(Configuration { at, members, is_decided, leaving });
    rig.turn_after(Duration::from_millis(1));
}

/// A leader beside a member with a client.
fn beside_one<B: Planting<Bug>>(planted: B) -> Rig<B> {
    let mut rig = Rig::begun(planted);
    let id = ConnectionId { owner: OTHER, run: THEIRS, number: 1 };
    let begin = Entry::Begin { owner: OTHER, run: THEIRS };
    rig.apply(&[entry(&begin), entry(&Entry::Open { id })]);
    seat(&mut rig, &[ME, OTHER, Rank::at(2)], true);
    assert!(rig.decide().is_empty(), "all are members");
    rig
}

#[test]
fn d8_a_leader_says_once_that_a_member_was_removed() {
    let mut rig = beside_one(Sound);
    seat(&mut rig, &[ME, Rank::at(2)], false);
    assert!(rig.decide().is_empty(), "it may not be decided");
    assert_eq!(rig.door.program.legs.len(), 1);
    rig.view.role = Role::Follower;
    seat(&mut rig, &[ME, Rank::at(2)], true);
    assert!(rig.decide().is_empty(), "it does not lead");
    rig.view.role = Role::Leader;
    rig.turn();
    assert_eq!(rig.decide(), [entry(&Entry::Left { owner: OTHER, run: THEIRS })]);
    rig.turn();
    assert!(rig.decide().is_empty());
    assert_eq!(rig.state.table().n_open(), 0);
    assert!(rig.door.program.legs.is_empty(), "the copy was told the end");
    assert_eq!(rig.state.judge().members().len(), 2);
    rig.apply(&[entry(&Entry::Begin { owner: OTHER, run: Incarnation(THEIRS.0 + 1) })]);
    assert_eq!(rig.state.judge().members(), MemberSet::all(3), "it was added again");
}

#[test]
fn d8_mistakes_about_members_that_were_removed_show() {
    let mut rig = beside_one(Planted(Bug::LeftUnsaid));
    seat(&mut rig, &[ME, Rank::at(2)], true);
    assert!(rig.decide().is_empty());
    assert_eq!(rig.state.table().n_open(), 1);
    let mut rig = beside_one(Planted(Bug::LeftStaysOpen));
    seat(&mut rig, &[ME, Rank::at(2)], true);
    assert_eq!(rig.decide().len(), 1);
    assert_eq!(rig.state.table().n_open(), 1);
}

#[test]
fn d8_a_process_that_was_removed_serves_no_client() {
    let mut rig = Rig::begun(Sound);
    let client = rig.client();
    rig.decide();
    rig.apply(&[entry(&Entry::Left { owner: ME, run: RUN })]);
    rig.turn();
    assert!(!rig.door.serves() && rig.door.streams.is_closed(client));
}

/// One of three was removed: of the two that are left none can be missed.
#[test]
fn d3_a_copy_that_differs_does_not_end_where_its_vote_is_needed() {
    let (mut rig, _) = differing(Sound);
    rig.turn();
    assert!(rig.door.rolls_back(&rig.state).is_some(), "two of three are a majority");
    seat(&mut rig, &[ME, OTHER], true);
    assert_eq!(rig.door.rolls_back(&rig.state), None);
    assert!(!rig.door.serves(), "it differs all the same");
}

/// A newcomer that knows no members, or others than its own incarnation, says nothing.
#[test]
fn d9_a_newcomer_begins_when_its_seat_is_decided() {
    let says = |rig: &mut Rig<Option<Bug>>| rig.decide().len();
    let newcomer = |planted| {
        let mut rig = Rig::new(planted);
        (rig.view.incarnation, rig.view.role) = (Incarnation(9), Role::Learner);
        rig.turn();
        rig
    };
    let mut rig = newcomer(None);
    assert_eq!(says(&mut rig), 0, "it knows no members");
    seat(&mut rig, &[ME, OTHER], true);
    assert_eq!(says(&mut rig), 0, "an earlier incarnation has the seat");
    let give = |rig: &mut Rig<Option<Bug>>, is_decided| {
        let of = rig.view.configuration.as_mut().unwrap();
        of.members.incarnations[ME.index()] = 9;
        of.is_decided = is_decided;
        rig.turn_after(Duration::from_millis(1));
    };
    give(&mut rig, false);
    assert_eq!(says(&mut rig), 0, "it may be undone");
    give(&mut rig, true);
    assert_eq!(says(&mut rig), 1);
    let mut rig = newcomer(Some(Bug::BeginsUnseated));
    assert_eq!(says(&mut rig), 1, "the mistake shows");
}

/// A newcomer's copy executes the transcript before it has its seat.
#[test]
fn d11_a_newcomer_reports_nothing_before_it_begins() {
    let says = |planted: Option<Bug>| {
        let mut rig = Rig::comparing(2, planted);
        (rig.view.incarnation, rig.view.role) = (Incarnation(9), Role::Follower);
        seat(&mut rig, &[ME, OTHER], true);
        for run in 3..9 {
            rig.apply(&[entry(&Entry::Begin { owner: OTHER, run: Incarnation(run) })]);
        }
        (0..9).for_each(|_| rig.turn_after(Duration::from_millis(1)));
        rig.decide().len()
    };
    assert_eq!(says(None), 0);
    assert_eq!(says(Some(Bug::ReportsUnbegun)), 3, "the mistake shows");
}
