//! Changes of members (I12), stepped by the test.

use super::*;
use crate::durable::log::IS_CONFIGURATION;

fn decided_with_a_removed_member<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    group.cut_writes(0, 1);
    // It is not decided yet: the two that are left must both hold it.
    group.change(0, Change::Remove(Rank::at(2))).expect("nothing else is under way");
    group.propose(0, b"x");
    group.run(20);
    !group.values(0).is_empty()
}

#[test]
fn a_removed_member_is_not_counted() {
    assert!(!decided_with_a_removed_member(Sound));
    assert!(decided_with_a_removed_member(Planted(Bug::CountRemoved)));
}

fn second_change<P: Planting<Bug>>(planted: P) -> Result<Slot, ChangeRefused> {
    let mut group = Group::led(planted, 5, 0);
    group.isolate(0);
    group.change(0, Change::Remove(Rank::at(4))).expect("nothing else is under way");
    group.change(0, Change::Remove(Rank::at(3)))
}

#[test]
fn one_change_at_a_time() {
    assert_eq!(second_change(Sound), Err(ChangeRefused::Pending));
    assert!(second_change(Planted(Bug::TwoChanges)).is_ok());
}

#[test]
fn a_replaced_member_learns_first_and_votes_when_it_has_caught_up() {
    let mut group = Group::led(Sound, 3, 0);
    group.propose(0, b"one");
    group.run(20);
    let seat = Rank::at(2);
    group.power_cut(2);
    let second = Incarnation(2);
    assert_eq!(group.change(0, Change::Replace(seat, second)).map(|_| ()), Ok(()));
    group.run(20);
    assert_eq!(group.change(0, Change::Promote(seat)), Err(ChangeRefused::LagsBehind));
    group.join(2, second);
    assert!(!group.member(2).can_lead(), "who is in no configuration does not lead");
    group.run(200);
    assert_eq!(group.values(2), [b"one"]);
    group.change(0, Change::Promote(seat)).expect("it has everything");
    group.run(20);
    let Configuration { members, is_decided, .. } = group.member(0).configuration().expect("known");
    assert!(is_decided && members.voters.len() == 3 && members.learners.is_empty());
    // It counts: with r1 gone it completes the majority.
    group.power_cut(1);
    group.propose(0, b"two");
    group.run(20);
    assert_eq!(group.values(2), [&b"one"[..], b"two"]);
}

fn predecessors_copies_count<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    group.isolate(0);
    // Seat 2 belongs to another disk from now on; the old one's acknowledgement is not the new
    // one's.
    group.change(0, Change::Replace(Rank::at(2), Incarnation(2))).expect("nothing under way");
    let (ballot, durable) = (group.status(0).ballot, group.member(0).log.end());
    group.forge_ack(0, 2, Ack { ballot, incarnation: 1, durable, ..Ack::default() });
    group.run(3);
    group.member(0).holders(durable).contains(Rank::at(2))
}

#[test]
fn a_wiped_disk_does_not_count_as_its_predecessor() {
    assert!(!predecessors_copies_count(Sound));
    assert!(predecessors_copies_count(Planted(Bug::AnyIncarnation)));
}

/// A seat is emptied and filled again under one leader, to which its first disk has acknowledged
/// everything.
fn fills_a_seat_again<P: Planting<Bug>>(planted: P) {
    let mut group = Group::led(planted, 3, 0);
    group.propose(0, b"one");
    group.run(20);
    let seat = Rank::at(2);
    group.change(0, Change::Remove(seat)).expect("nothing else is under way");
    group.run(20);
    group.power_cut(2);
    group.change(0, Change::Add(seat, Incarnation(2))).expect("the seat is empty");
    group.run(20);
    // The new disk has not come yet, and nothing was acknowledged by it.
    assert_eq!(group.change(0, Change::Promote(seat)), Err(ChangeRefused::LagsBehind));
}

#[test]
fn i17_a_seat_that_is_filled_again_begins_with_nothing_acknowledged() {
    fills_a_seat_again(Sound);
}

#[test]
#[should_panic(expected = "I17")]
fn i17_acknowledgements_of_the_disk_before_are_seen() {
    fills_a_seat_again(Planted(Bug::KeepOldAcks));
}

/// Replaces the disk on a seat, by the leader r0, until the new one votes.
fn replace<P: Planting<Bug>>(group: &mut Group<P>, seat: usize, incarnation: Incarnation) {
    group.power_cut(seat);
    let rank = Rank::at(seat);
    group.change(0, Change::Replace(rank, incarnation)).expect("nothing is under way");
    group.run(20);
    group.join(seat, incarnation);
    group.run(200);
    group.change(0, Change::Promote(rank)).expect("it has everything");
    group.run(20);
}

/// Has r1 elected by the vote of seat 2, while r0 does not learn of it.
fn elects_behind_the_leader<P: Planting<Bug>>(group: &mut Group<P>) {
    group.isolate(0);
    group.lead(1);
    group.run(60);
    assert_eq!(group.status(1).role, Role::Leader, "by the vote of seat 2");
    group.power_cut(2);
}

/// Whether r0, which was deposed and does not know, answers a read by what seat 2 shows.
fn answers_by_seat_2<P: Planting<Bug>>(group: &mut Group<P>) -> bool {
    group.restore_writes(0, 2);
    group.read(0, 9)
}

fn a_new_disk_vouches_for_its_predecessor<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    elects_behind_the_leader(&mut group);
    group.join(2, Incarnation(2));
    answers_by_seat_2(&mut group)
}

fn an_old_disk_vouches_for_its_successor<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    let old = group.stable_disk(2);
    replace(&mut group, 2, Incarnation(2));
    elects_behind_the_leader(&mut group);
    group.recover_from(2, old);
    answers_by_seat_2(&mut group)
}

// I11
#[test]
fn a_new_disk_is_no_witness_of_what_its_predecessor_promised() {
    assert!(!a_new_disk_vouches_for_its_predecessor(Sound));
    assert!(a_new_disk_vouches_for_its_predecessor(Planted(Bug::AnyDiskIsWitness)));
}

fn new_memory_vouches<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    elects_behind_the_leader(&mut group);
    answers_by_seat_2(&mut group)
}

// I11
#[test]
fn memory_that_no_process_has_written_is_no_witness() {
    assert!(!new_memory_vouches(Sound));
    assert!(new_memory_vouches(Planted(Bug::UnpublishedIsWitness)));
}

// I11
#[test]
fn an_old_disk_is_no_witness_of_what_its_successor_promised() {
    assert!(!an_old_disk_vouches_for_its_successor(Sound));
    assert!(an_old_disk_vouches_for_its_successor(Planted(Bug::AnyDiskIsWitness)));
}

#[test]
fn an_incarnation_that_is_not_new_gets_no_seat() {
    let mut group = Group::led(Sound, 3, 0);
    let seat = Rank::at(2);
    let again = group.change(0, Change::Replace(seat, Incarnation(1)));
    assert_eq!(again, Err(ChangeRefused::Outdated));
    group.change(0, Change::Remove(seat)).expect("nothing else is under way");
    group.run(20);
    let back = group.change(0, Change::Add(seat, Incarnation(1)));
    assert_eq!(back, Err(ChangeRefused::Outdated));
    assert!(group.change(0, Change::Add(seat, Incarnation(2))).is_ok());
}

#[test]
fn a_leader_that_removes_itself_hands_over() {
    let mut group = Group::led(Sound, 3, 0);
    group.change(0, Change::Remove(Rank::at(0))).expect("nothing else is under way");
    group.run(30);
    assert!(!group.holds_office(0) && !group.member(0).can_lead());
    group.lead(1);
    group.run(30);
    group.propose(1, b"x");
    group.run(10);
    assert_eq!(group.values(2), [b"x"]);
}

#[test]
fn a_change_that_would_leave_nobody_is_refused() {
    let mut group = Group::led(Sound, 1, 0);
    let change = Change::Remove(Rank::at(0));
    assert_eq!(group.change(0, change), Err(ChangeRefused::Needed));
    let stranger = Change::Promote(Rank::at(4));
    assert_eq!(group.change(0, stranger), Err(ChangeRefused::NoSuchMember));
}

// I8
#[test]
fn a_restart_needs_nobody_who_was_removed() {
    let mut group = Group::led(Sound, 3, 0);
    group.propose(0, b"x");
    group.run(20);
    for gone in [2, 1] {
        group.change(0, Change::Remove(Rank::at(gone))).expect("nothing else is under way");
        group.run(30);
        group.power_cut(gone);
    }
    // Its knowledge of what is committed is gone with the process.
    group.power_cut(0);
    group.recover(0);
    group.lead(0);
    group.run(30);
    assert_eq!(group.status(0).role, Role::Leader);
    assert_eq!(group.values(0), [b"x"]);
}

// R1
#[test]
fn a_log_that_goes_on_alone_has_its_content_and_no_old_member() {
    use offline::{begin_from, head_of_one, inspect};
    let mut old = TestDisk::default();
    let mut log = log_of(&mut old, 3);
    log.promise(Ballot(90), &mut old);
    let holding = inspect(&mut old, None).expect("there is a log");
    assert_eq!((holding.newness(), holding.promised), ((Ballot(1), Prefix(3)), Ballot(90)));
    let me = Rank::at(1);
    let head = head_of_one(&holding, me, Incarnation(7));
    let mut new = TestDisk::default();
    begin_from(&mut new, holding.end, &head, (Incarnation(7), Ballot(91))).expect("it is empty");
    let log = Log::recover(Sound, 16, &mut new).expect("there is one now");
    assert_eq!((log.start(), log.end(), log.incarnation()), (Prefix(3), Prefix(3), Incarnation(7)));
    assert_eq!((log.ballot_at(Slot(2)), log.promised()), (Some(Ballot(1)), Ballot(91)));
    let (at, members) = log.members().copied().expect("they are known");
    assert_eq!((at, members.voters), (Prefix(3), [me].into_iter().collect()));
    assert_eq!(
        members.incarnation(Rank::at(0)),
        Incarnation::FIRST,
        "whoever comes back there comes as a later"
    );
    let of = Configuration { at, members, is_decided: true, leaving: MemberSet::EMPTY };
    assert!(
        of.has_parted(me, Incarnation::FIRST) && of.has_parted(Rank::at(0), Incarnation::FIRST)
    );
    assert!(!of.has_parted(me, Incarnation(7)) && !of.has_parted(Rank::at(0), Incarnation(2)));
    let again = begin_from(&mut new, Prefix(3), &head, (Incarnation(8), Ballot(92)));
    assert_eq!(again.err(), Some(Unusable::NotEmpty));
}

// A change that was never decided does not govern: the members before it may have continued.
#[test]
fn a_log_alone_does_not_tell_whether_its_last_change_is_decided() {
    let mut disk = TestDisk::default();
    let mut log = log_of(&mut disk, 3);
    let (_, first) = log.members().copied().expect("it began so");
    let fewer = first.after(Change::Remove(Rank::at(1)), Rank::at(0)).expect("it is there");
    let head = Log::head(Slot(3), Ballot(1), IS_CONFIGURATION);
    log.append(head, &fewer.encode(), &mut disk);
    let open = offline::inspect(&mut disk, None).expect("there is a log");
    let newest = open.configuration.expect("it holds one");
    assert_eq!((newest.at, newest.members, newest.is_decided), (Prefix(4), fewer, false));
    assert_eq!(newest.leaving, [Rank::at(1)].into_iter().collect());
    assert_eq!(open.before, Some(first));
    // A log begins only where everything before is decided.
    log.free_below(Prefix(4), &mut disk);
    let closed = offline::inspect(&mut disk, None).expect("there is a log");
    assert_eq!(closed.configuration.map(|of| (of.members, of.is_decided)), Some((fewer, true)));
    assert_eq!(closed.before, None);
}

/// The process died between a state that it installed and the log's new beginning there.
#[test]
fn offline_r2_a_log_is_as_new_as_the_state_beside_it() {
    let members = Members::first(MemberSet::all(3));
    let head = StateHead { ballot: Ballot(18), members_at: Prefix(1), members, coming: None };
    let newness_with = |state| {
        let mut disk = TestDisk::default();
        log_of(&mut disk, 3);
        offline::inspect(&mut disk, state).expect("there is a log").newness()
    };
    assert_eq!(newness_with(None), (Ballot(1), Prefix(3)));
    let agrees = StateHead { ballot: Ballot(1), ..head };
    assert_eq!(newness_with(Some((Prefix(2), agrees))), (Ballot(1), Prefix(3)));
    assert_eq!(newness_with(Some((Prefix(2), head))), (Ballot(18), Prefix(2)), "slot 2 has lost");
    assert_eq!(newness_with(Some((Prefix(9), head))), (Ballot(18), Prefix(9)), "beyond its end");
}

fn votes_for_two_disks_of_one_seat<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 2);
    let ballot = group.status(2).ballot;
    group.isolate(2);
    let log = (group.member(0).log.last_ballot(), group.member(0).log.end());
    // The number is the same: the second disk does not know the first one's ballots.
    let candidate = (Rank::at(2), Incarnation(2));
    group.request_vote(0, candidate, ballot, log);
    group.n_votes_sent(2, Incarnation(2)) > 0
}

// I8
#[test]
fn a_ballot_gets_one_vote_although_two_disks_of_a_seat_use_it() {
    assert!(!votes_for_two_disks_of_one_seat(Sound));
    assert!(votes_for_two_disks_of_one_seat(Planted(Bug::VoteTwice)));
}

#[test]
fn a_vote_of_an_old_disk_is_not_taken_for_its_successors() {
    let mut group = Group::new(Sound, 3);
    group.isolate(2);
    group.cut_messages(1, 0);
    group.lead(0);
    group.run(5);
    let ballot = group.status(0).ballot;
    group.vote(0, (Rank::at(1), Incarnation(9)), ballot, Incarnation(1));
    group.run(5);
    assert!(!group.holds_office(0));
    // The disk that counts is asked too.
    group.heal();
    group.isolate(2);
    group.run(50);
    assert!(group.holds_office(0));
}

#[test]
fn who_alone_holds_its_own_removal_can_still_lead() {
    let mut group = Group::led(Sound, 2, 0);
    group.isolate(0);
    group.change(0, Change::Remove(Rank::at(0))).expect("nothing else is under way");
    group.run(5);
    group.follow(0);
    group.heal();
    group.lead(1);
    group.run(60);
    assert!(!group.holds_office(1), "its log is older");
    group.follow(1);
    assert!(group.member(0).can_lead(), "nobody else can");
    group.lead(0);
    group.run(30);
    assert!(!group.member(0).can_lead(), "the removal is decided");
    group.run(200);
    group.lead(1);
    group.run(30);
    assert!(group.holds_office(1));
}

/// Replaces seats 1 and 2, one after the other; then all members restart and do not know what is
/// committed. Returns whether a leader is elected.
fn elects_after_two_replacements<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    for seat in [1, 2] {
        replace(&mut group, seat, Incarnation(seat as u64 + 1));
    }
    (0..3).for_each(|member| group.power_cut(member));
    (0..3).for_each(|member| group.recover(member));
    // A new disk leads: its log begins at slot 0, and no entry there names the founders.
    assert!(group.member(2).can_lead());
    group.lead(2);
    group.run(60);
    group.holds_office(2)
}

#[test]
fn disks_that_are_gone_for_good_are_not_asked_for_votes() {
    assert!(elects_after_two_replacements(Sound));
    assert!(!elects_after_two_replacements(Planted(Bug::ElectByEveryConfiguration)));
}

fn promoted_with_nothing<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    group.propose(0, b"one");
    group.run(20);
    group.power_cut(2);
    group.change(0, Change::Replace(Rank::at(2), Incarnation(2))).expect("nothing under way");
    group.run(20);
    group.change(0, Change::Promote(Rank::at(2))).is_ok()
}

#[test]
fn who_lacks_what_is_committed_gets_no_vote() {
    assert!(!promoted_with_nothing(Sound));
    assert!(promoted_with_nothing(Planted(Bug::PromoteBeforeCaughtUp)));
}

/// The trap of single changes in Raft: the last leader's change may be elsewhere in the log.
fn changes_before_its_own_entry_is_decided<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    group.isolate(0);
    group.lead(1);
    group.cut_writes(1, 2);
    group.run(30);
    assert!(group.holds_office(1), "by a vote of seat 2");
    group.change(1, Change::Remove(Rank::at(0))).is_ok()
}

#[test]
fn a_change_waits_for_an_entry_of_its_leaders_ballot() {
    assert!(!changes_before_its_own_entry_is_decided(Sound));
    assert!(changes_before_its_own_entry_is_decided(Planted(Bug::ChangeBeforeOwnEntry)));
}

/// A voter that lacks decided entries, and also the configuration by which the leader was elected.
#[test]
fn who_knows_that_its_log_is_behind_does_not_try_to_lead() {
    let mut group = Group::led(Sound, 4, 0);
    group.isolate(3);
    group.change(0, Change::Remove(Rank::at(2))).expect("nothing else is under way");
    group.run(20);
    group.heal();
    group.cut_writes(0, 3);
    group.reconnect(0, 3);
    group.run(5);
    let late = group.member(3);
    assert!(late.log.end() < group.status(0).committed, "nothing has reached it but words");
    assert!(!late.can_lead());
    let voters = late.electors().expect("known");
    assert!(!voters.contains(Rank::at(2)), "it counts by what it was told");
}

/// A candidate that counts on a disk which is gone, while long removed members continue to ask the
/// new disk on that seat, each time with a higher ballot.
// L1
#[test]
fn a_candidate_that_is_outbid_again_and_again_stands_aside() {
    let mut group = Group::led(Sound, 3, 0);
    group.change(0, Change::Remove(Rank::at(2))).expect("nothing else is under way");
    group.run(30);
    group.follow(0);
    group.power_cut(1);
    group.join(1, Incarnation(2));
    group.power_cut(2);
    group.lead(0);
    let outsider = (Rank::at(2), Incarnation::FIRST);
    let stands_aside = (0..10).any(|_| {
        // This is shorter than a candidacy.
        group.run(100);
        assert!(!group.holds_office(0), "nobody's vote counts but its own");
        let ballot = Ballot::above(group.member(0).standing.highest, Rank::at(2));
        group.request_vote(1, outsider, ballot, (Ballot::NONE, Prefix::ZERO));
        !group.member(0).can_lead()
    });
    assert!(stands_aside, "everybody trusts it, and nobody else tries");
    // Ω reacts to that; and the pause ends.
    group.follow(0);
    group.run(200);
    assert!(group.member(0).can_lead());
}

/// I15. The head of a state of entries that a leader has proposed alone.
fn head_of_what_is_not_decided<P: Planting<Bug>>(planted: P) -> Option<StateHead> {
    let mut group = Group::led(planted, 3, 0);
    group.isolate(0);
    group.change(0, Change::Remove(Rank::at(2))).expect("nothing else is under way");
    group.run(5);
    let Status { applied, .. } = group.status(0);
    let proposed = Prefix(applied.0 + 1);
    let head = group.member(0).state_head(applied).expect("it has applied that");
    assert_eq!(head.members.voters.len(), 3);
    group.member(0).state_head(proposed)
}

#[test]
fn i15_a_configuration_that_is_not_decided_goes_with_no_state() {
    assert_eq!(head_of_what_is_not_decided(Sound), None);
    let head =
        head_of_what_is_not_decided(Planted(Bug::HeadAboveApplied)).expect("the bug tells it");
    assert_eq!(head.members.voters.len(), 2);
}
