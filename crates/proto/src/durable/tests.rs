//! Traps, one by one, in a small world whose links and disks the test controls.

mod group;
mod members;

use super::log::Log;
use super::places::{ACK_WORDS, Ack};
use super::wire::Run;
use super::*;
use crate::disk::{Disk, EntryHead, Flush};
use crate::planted::Planted;
use crate::stage::disk::TestDisk;
use alloc::vec;
use group::Group;

mod begun;
mod held;
mod late;
mod slow;
mod spare;
mod stalled;

#[test]
fn a_value_is_delivered_everywhere() {
    let mut group = Group::led(Sound, 3, 0);
    group.propose(0, b"one");
    group.propose(0, b"two");
    group.run(20);
    for member in 0..3 {
        assert_eq!(group.values(member), [&b"one"[..], b"two"], "at r{member}");
    }
}

/// I4. The trap: a copy in memory is not a copy on disk.
fn decided_while_followers_disks_stand_still<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    group.hold_disk(1);
    group.hold_disk(2);
    group.propose(0, b"x");
    group.run(20);
    !group.values(0).is_empty()
}

#[test]
fn nothing_is_acknowledged_before_its_sync() {
    assert!(!decided_while_followers_disks_stand_still(Sound));
    assert!(decided_while_followers_disks_stand_still(Planted(Bug::AckBeforeSync)));
}

/// I7.
fn decided_while_leader_and_one_follower_stand_still<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    group.hold_disk(0);
    group.hold_disk(1);
    group.propose(0, b"x");
    group.run(20);
    !group.values(0).is_empty()
}

#[test]
fn a_leader_counts_itself_after_its_own_sync() {
    assert!(!decided_while_leader_and_one_follower_stand_still(Sound));
    assert!(decided_while_leader_and_one_follower_stand_still(Planted(Bug::CountSelfEarly)));
}

#[test]
fn a_leaders_slow_disk_does_not_stop_a_majority_of_others() {
    let mut group = Group::led(Sound, 3, 0);
    group.hold_disk(0);
    group.propose(0, b"x");
    group.run(20);
    assert_eq!(group.values(0), [b"x"]);
}

/// I4.
fn elected_while_promises_are_not_on_disk<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::new(planted, 3);
    (0..3).for_each(|member| group.hold_disk(member));
    group.lead(0);
    group.run(20);
    group.holds_office(0)
}

#[test]
fn a_vote_leaves_after_the_promise_is_on_disk() {
    assert!(!elected_while_promises_are_not_on_disk(Sound));
    assert!(elected_while_promises_are_not_on_disk(Planted(Bug::VoteBeforeSync)));
}

/// I7. The trap of Raft's figure 8: copies of an older leader's entry do not decide it.
fn decided_by_copies_of_an_older_ballot<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    group.propose(0, b"before");
    group.run(20);
    let decided = group.status(0).committed;
    // An entry that reaches no other member, then a new term of the same member.
    group.isolate(0);
    group.propose(0, b"older");
    group.run(5);
    group.follow(0);
    group.heal();
    group.cut_writes(0, 1);
    group.cut_writes(0, 2);
    group.lead(0);
    group.run(30);
    assert!(group.holds_office(0), "elected again: {:?}", group.status(0));
    // Another member holds the older entry, and not the no-op behind it.
    let ballot = group.status(0).ballot;
    let held = Prefix(decided.0 + 1);
    group.forge_ack(0, 1, Ack { ballot, incarnation: 1, durable: held, ..Ack::default() });
    group.run(3);
    group.status(0).committed > decided
}

#[test]
fn copies_of_an_older_leaders_entry_do_not_decide_it() {
    assert!(!decided_by_copies_of_an_older_ballot(Sound));
    assert!(decided_by_copies_of_an_older_ballot(Planted(Bug::CommitOlderBallot)));
}

/// I4, I6. The deposed leader's log is longer than its successor's: the entries beyond the
/// successor's end were never compared.
fn highest_ack_of_a_deposed_leader<P: Planting<Bug>>(planted: P) -> (Prefix, Prefix) {
    let mut group = Group::led(planted, 3, 0);
    group.isolate(0);
    for _ in 0..6 {
        group.propose(0, b"lost");
    }
    group.run(5);
    group.lead(1);
    group.run(30);
    assert!(group.holds_office(1));
    let end = group.member(1).log.end();
    group.follow(0);
    group.heal();
    group.reconnect(0, 1);
    group.cut_writes(1, 0);
    group.run(30);
    (group.ack(1, 0).map_or(Prefix::ZERO, |ack| ack.durable), end)
}

#[test]
fn an_old_suffix_is_not_acknowledged() {
    let (acked, end) = highest_ack_of_a_deposed_leader(Sound);
    assert!(acked <= end);
    let (acked, end) = highest_ack_of_a_deposed_leader(Planted(Bug::AckUnverified));
    assert!(acked > end, "the bug does not show: {acked:?} {end:?}");
}

#[test]
fn a_deposed_leaders_suffix_is_cut_and_replaced() {
    let mut group = Group::led(Sound, 3, 0);
    group.isolate(0);
    for _ in 0..6 {
        group.propose(0, b"lost");
    }
    group.run(5);
    group.lead(1);
    group.run(30);
    group.propose(1, b"kept");
    group.run(10);
    group.follow(0);
    group.heal();
    group.reconnect(0, 1);
    group.run(100);
    for member in 0..3 {
        assert_eq!(group.values(member), [b"kept"], "at r{member}");
    }
    assert_eq!(group.member(0).log.end(), group.member(1).log.end());
}

fn log_of(disk: &mut TestDisk, n: u64) -> Log {
    let mut log =
        Log::create(Incarnation::FIRST, Some(Members::first(MemberSet::all(3))), 16, disk)
            .expect("new");
    for slot in 0..n {
        log.append(EntryHead { slot: Slot(slot), ballot: Ballot(1), view: 0 }, b"e", disk);
    }
    log
}

/// I1.
fn durable_after_a_cut_during_a_sync<P: Planting<Bug>>(planted: P) -> Prefix {
    let mut disk = TestDisk::default();
    let mut log = log_of(&mut disk, 3);
    log.flush(&mut disk);
    log.cut(planted, Prefix(1), &mut disk);
    for slot in 1..3 {
        let head = EntryHead { slot: Slot(slot), ballot: Ballot(9), view: 0 };
        log.append(head, b"other", &mut disk);
    }
    log.synced(planted, Flush(1), &mut disk);
    log.durable()
}

#[test]
fn what_was_cut_during_a_sync_is_not_durable() {
    assert_eq!(durable_after_a_cut_during_a_sync(Sound), Prefix(1));
    assert_eq!(durable_after_a_cut_during_a_sync(Planted(Bug::CutDuringSync)), Prefix(3));
}

/// I1.
#[test]
fn a_state_that_takes_the_place_of_what_is_being_synced_shortens_that_sync() {
    let mut disk = TestDisk::default();
    let mut log = log_of(&mut disk, 3);
    log.flush(&mut disk);
    log.begin_at(Sound, Prefix(1), None, None, &mut disk);
    for slot in 1..3 {
        let head = EntryHead { slot: Slot(slot), ballot: Ballot(9), view: 0 };
        log.append(head, b"other", &mut disk);
    }
    log.synced(Sound, Flush(1), &mut disk);
    assert_eq!(log.durable(), Prefix(1), "no sync has seen what stands behind the state");
    log.synced(Sound, Flush(disk.n_flushes), &mut disk);
    assert_eq!(log.durable(), Prefix(3));
}

/// The ballot of a log of three entries that continues from a state of nine, whose giver did not
/// know the last entry's ballot.
fn ballot_behind_a_state_without_a_head<P: Planting<Bug>>(planted: P) -> Ballot {
    let mut disk = TestDisk::default();
    let mut log = log_of(&mut disk, 3);
    log.continue_from(planted, Prefix(9), None, &mut disk);
    assert_eq!((log.start(), log.end()), (Prefix(9), Prefix(9)));
    log.last_ballot()
}

#[test]
fn i16_a_log_behind_a_state_without_a_head_is_as_new_as_it_was() {
    assert_eq!(ballot_behind_a_state_without_a_head(Sound), Ballot(1));
}

#[test]
#[should_panic(expected = "I16")]
fn i16_a_log_that_forgets_how_new_it_was_is_seen() {
    ballot_behind_a_state_without_a_head(Planted(Bug::ForgetNewness));
}

/// I3.
#[test]
fn what_an_earlier_life_left_is_not_durable_before_this_one_has_synced_it() {
    let mut disk = TestDisk::default();
    log_of(&mut disk, 3);
    let trusting = Log::recover(Planted(Bug::TrustRecovered), 16, &mut disk).expect("there is one");
    assert_eq!(trusting.durable(), Prefix(3));
    let mut log = Log::recover(Sound, 16, &mut disk).expect("there is one");
    assert_eq!((log.end(), log.durable()), (Prefix(3), Prefix::ZERO));
    log.flush(&mut disk);
    log.synced(Sound, Flush(disk.n_flushes), &mut disk);
    assert_eq!(log.durable(), Prefix(3));
}

/// I2.
#[test]
fn a_promise_survives_a_restart() {
    let mut disk = TestDisk::default();
    let mut log = log_of(&mut disk, 1);
    log.promise(Ballot(77), &mut disk);
    let log = Log::recover(Sound, 16, &mut disk).expect("there is one");
    assert_eq!(log.promised(), Ballot(77));
    assert!(!log.promise_is_durable());
}

/// I6.
#[test]
fn logs_agree_up_to_the_last_entry_of_one_slot_and_ballot() {
    let mut disk = TestDisk::default();
    let mut log = log_of(&mut disk, 4);
    for slot in 4..6 {
        log.append(EntryHead { slot: Slot(slot), ballot: Ballot(10), view: 0 }, b"e", &mut disk);
    }
    let run = |first, ballot| Run { first: Slot(first), ballot: Ballot(ballot) };
    let agreed = |runs: &[Run], end| log.agreement(runs, Prefix(end));
    assert_eq!(agreed(&[run(0, 1), run(4, 10)], 9), Prefix(6), "theirs is longer");
    assert_eq!(agreed(&[run(0, 1), run(4, 10)], 5), Prefix(5), "ours is longer");
    assert_eq!(agreed(&[run(0, 1), run(3, 11)], 9), Prefix(3), "they part early");
    assert_eq!(agreed(&[run(0, 1), run(7, 11)], 9), Prefix(4), "ours parts early");
    assert_eq!(agreed(&[run(7, 11)], 9), Prefix::ZERO, "nothing in common is told");
}

#[test]
fn a_freed_log_keeps_its_runs_its_members_and_the_ballot_before_its_start() {
    let mut disk = TestDisk::default();
    let mut log = log_of(&mut disk, 4);
    for slot in 4..8 {
        log.append(EntryHead { slot: Slot(slot), ballot: Ballot(10), view: 0 }, b"e", &mut disk);
    }
    log.free_below(Prefix(6), &mut disk);
    let again = Log::recover(Sound, 16, &mut disk).expect("there is one");
    for log in [log, again] {
        assert_eq!((log.start(), log.end()), (Prefix(6), Prefix(8)));
        assert_eq!(log.ballot_at(Slot(5)), Some(Ballot(10)), "just before the start");
        assert_eq!(log.ballot_at(Slot(4)), None);
        assert_eq!(log.agreement(&[Run { first: Slot(4), ballot: Ballot(10) }], Prefix(7)).0, 7);
        assert_eq!(log.members().map(|(_, members)| members.voters.len()), Some(3));
    }
}

/// The trap: the ballots before two runs differ, and the entry just before a log's start is not the
/// one before the base that the log had until then.
#[test]
fn a_log_that_is_freed_twice_keeps_the_ballot_before_its_new_start() {
    let mut disk = TestDisk::default();
    let mut log = log_of(&mut disk, 4);
    for slot in 4..8 {
        log.append(EntryHead { slot: Slot(slot), ballot: Ballot(10), view: 0 }, b"e", &mut disk);
    }
    log.free_below(Prefix(2), &mut disk);
    assert_eq!(log.ballot_before(Slot(2)), Ballot(1));
    log.free_below(Prefix(8), &mut disk);
    let again = Log::recover(Sound, 16, &mut disk).expect("there is one");
    for log in [log, again] {
        assert_eq!((log.start(), log.end()), (Prefix(8), Prefix(8)));
        assert_eq!(log.ballot_before(Slot(8)), Ballot(10));
        assert_eq!(log.last_ballot(), Ballot(10), "how new the log is");
    }
}

/// I8. The trap: a log that is longer by entries of a deposed leader is not newer.
#[test]
fn a_newer_ballot_makes_a_log_newer_than_more_entries_do() {
    let mut group = Group::led(Sound, 3, 0);
    group.isolate(2);
    let ballot = Ballot::above(group.member(0).standing.highest, Rank::at(2));
    let (last, end) = (group.member(0).log.last_ballot(), group.member(0).log.end());
    let older = Ballot(last.0 - 1);
    let candidate = (Rank::at(2), Incarnation::FIRST);
    group.request_vote(0, candidate, ballot, (older, Prefix(end.0 + 5)));
    assert!(group.member(0).log.promised() < ballot, "longer, and older");
    group.request_vote(0, candidate, ballot, (Ballot(last.0 + 1), Prefix(1)));
    assert_eq!(group.member(0).log.promised(), ballot, "shorter, and newer");
}

/// I11.
fn stale_leader_answers<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    group.cut_writes(1, 0);
    group.cut_writes(2, 0);
    group.cut_messages(1, 0);
    group.cut_messages(2, 0);
    group.lead(1);
    group.run(30);
    assert!(group.holds_office(0) && group.holds_office(1));
    group.read(0, 7)
}

#[test]
fn a_leader_whose_successor_is_elected_answers_no_read() {
    assert!(!stale_leader_answers(Sound));
    assert!(stale_leader_answers(Planted(Bug::ReadWithoutCheck)));
}

/// The trap: a read that is dropped waits for its client's whole patience.
#[test]
fn a_leader_that_steps_down_refuses_the_reads_whose_check_is_under_way() {
    let mut group = Group::led(Sound, 3, 0);
    group.isolate(0);
    group.begin_read(0, 7);
    group.run(5);
    assert!(!group.is_answered(0, 7) && !group.is_refused(0, 7), "the test shows nothing");
    group.follow(0);
    assert!(group.is_refused(0, 7) && !group.is_answered(0, 7));
}

#[test]
fn a_leader_answers_and_a_follower_refuses() {
    let mut group = Group::led(Sound, 3, 0);
    assert!(group.read(0, 1));
    assert!(!group.read(1, 1));
}

/// After a power cut of all members the decided values are there, also under another leader.
#[test]
fn decided_values_survive_a_power_cut_of_all() {
    let mut group = Group::led(Sound, 3, 0);
    group.propose(0, b"kept");
    group.run(20);
    (0..3).for_each(|member| group.power_cut(member));
    (0..3).for_each(|member| group.recover(member));
    group.lead(2);
    group.run(60);
    for member in 0..3 {
        assert_eq!(group.values(member), [b"kept"], "at r{member}");
    }
}

/// L1.
#[test]
fn a_candidate_with_an_old_log_stands_aside() {
    let mut group = Group::led(Sound, 3, 0);
    group.isolate(2);
    group.propose(0, b"x");
    group.run(20);
    group.follow(0);
    group.heal();
    group.lead(2);
    group.run(10);
    assert!(!group.holds_office(2));
    assert!(!group.member(2).can_lead(), "somebody else has to");
    group.follow(2);
    group.lead(1);
    group.run(30);
    assert!(group.holds_office(1));
}

/// The trap: the memory of dead members answers on shared memory, and their disks do not. A member
/// that counts on them is trusted by all, and stops the one that could lead.
// L1
#[test]
fn the_dead_do_not_make_anybody_able_to_lead() {
    assert_eq!(group::trusted_by_the_last(3), None);
    assert_eq!(group::trusted_by_the_last(1), Some(Rank::at(0)), "the test shows nothing");
}

#[test]
fn a_leader_on_a_full_disk_steps_down_and_may_come_back() {
    let mut group = Group::led(Sound, 3, 0);
    group.disk_event(0, DiskEvent::Full);
    assert!(!group.holds_office(0) && !group.member(0).can_lead());
    group.disk_event(0, DiskEvent::Room);
    assert!(group.member(0).can_lead());
}

#[test]
fn a_follower_on_a_full_disk_leaves_the_quorum_and_returns() {
    let mut group = Group::led(Sound, 3, 0);
    group.disk_event(1, DiskEvent::Full);
    for _ in 0..50 {
        group.propose(0, b"x");
        group.run(3);
    }
    assert_eq!(group.values(0).len(), 50);
    assert!(group.values(1).len() < 50);
    group.disk_event(1, DiskEvent::Room);
    group.run(300);
    assert_eq!(group.values(1).len(), 50);
}

/// I10.
#[test]
fn a_torn_acknowledgement_counts_for_nothing() {
    fn decided<P: Planting<Bug>>(planted: P) -> bool {
        let mut group = Group::led(planted, 3, 0);
        group.isolate(0);
        group.propose(0, b"x");
        group.run(5);
        let ballot = group.status(0).ballot;
        let durable = group.member(0).log.end();
        let mut words = Ack { ballot, incarnation: 1, durable, ..Ack::default() }.encode();
        words[ACK_WORDS - 1] ^= 2;
        group.forge(0, 1, words);
        group.run(3);
        !group.values(0).is_empty()
    }
    assert!(!decided(Sound));
    assert!(decided(Planted(Bug::TornAck)));
}

/// I6. A deposed leader's log is wrong below an installed state, and as long.
#[test]
fn a_log_that_is_wrong_below_an_installed_state_is_replaced() {
    let mut group = Group::led(Sound, 3, 0);
    group.isolate(0);
    for _ in 0..8 {
        group.propose(0, b"lost");
    }
    group.run(5);
    group.lead(1);
    group.run(30);
    for _ in 0..4 {
        group.propose(1, b"kept");
    }
    group.run(10);
    let applied = group.status(1).applied;
    assert!(group.member(0).log.end() > applied, "as long as it has to be");
    group.snapshotted(1, applied);
    group.follow(0);
    group.install(0, applied);
    group.heal();
    group.reconnect(0, 1);
    group.run(200);
    group.propose(1, b"after");
    group.run(20);
    assert_eq!(group.values(0), [b"after"]);
    assert_eq!(group.member(0).log.end(), group.member(1).log.end());
    assert_eq!(group.member(0).log.last_ballot(), group.member(1).log.last_ballot());
}

/// Whether a member without links could lead after it was given a state; and then does.
fn leads_after_a_state(with_head: bool) -> bool {
    let mut group = Group::led(Sound, 3, 0);
    group.isolate(2);
    (0..8).for_each(|_| group.propose(0, b"kept"));
    group.run(20);
    let applied = group.status(0).applied;
    let head = group.member(0).state_head(applied).filter(|_| with_head);
    // In a new life, no leader has told it the members.
    group.power_cut(2);
    group.recover(2);
    group.install_with(2, applied, head);
    assert_eq!(group.member(2).can_lead(), with_head);
    // The donor is gone for good: this member is needed, and has the newest log but one.
    group.heal();
    group.isolate(0);
    group.follow(0);
    group.lead(2);
    group.run(60);
    group.holds_office(2)
}

#[test]
fn a_state_brings_what_its_member_needs_to_lead() {
    assert!(leads_after_a_state(true));
    assert!(!leads_after_a_state(false), "the test shows nothing");
}

/// I6. The ballot in a state's head shows at once that the log holds another entry there.
#[test]
fn a_log_that_differs_from_a_state_is_dropped_with_it() {
    let mut group = Group::led(Sound, 3, 0);
    group.isolate(0);
    (0..8).for_each(|_| group.propose(0, b"lost"));
    group.run(5);
    group.lead(1);
    group.run(30);
    (0..4).for_each(|_| group.propose(1, b"kept"));
    group.run(10);
    let applied = group.status(1).applied;
    assert!(group.member(0).log.end() > applied, "as long as it has to be");
    let head = group.member(1).state_head(applied);
    group.install_with(0, applied, head);
    let log = &group.member(0).log;
    assert_eq!((log.start(), log.end()), (applied, applied));
    assert_eq!(log.last_ballot(), group.member(1).log.last_ballot());
}

#[test]
fn a_disk_that_does_not_fit_the_start_is_refused() {
    let mut disk = TestDisk::default();
    assert_eq!(Log::recover(Sound, 16, &mut disk).err(), Some(Unusable::Empty));
    log_of(&mut disk, 1);
    let again = Log::create(Incarnation::FIRST, None, 16, &mut disk).err();
    assert_eq!(again, Some(Unusable::NotEmpty));
    disk.put_meta(&[9; 120]);
    assert_eq!(Log::recover(Sound, 16, &mut disk).err(), Some(Unusable::UnknownMeta));
}

/// A power cut keeps the meta that announces where the log begins, and not the request to free what
/// is below.
#[test]
fn a_log_is_freed_below_its_beginning_when_it_is_recovered() {
    let mut disk = TestDisk::default();
    let mut log = log_of(&mut disk, 3);
    let mut cut = disk.clone();
    log.free_below(Prefix(2), &mut disk);
    cut.put_meta(disk.meta());
    assert_eq!(cut.start(), Slot(0));
    let log = Log::recover(Sound, 16, &mut cut).expect("there is one");
    assert_eq!((log.start(), log.end(), cut.start()), (Prefix(2), Prefix(3), Slot(2)));
}

#[test]
fn a_log_is_freed_as_soon_as_what_its_snapshot_covers_is_durable() {
    let mut group = Group::led(Sound, 3, 0);
    for _ in 0..4 {
        group.propose(0, b"kept");
    }
    group.run(20);
    group.power_cut(1);
    group.hold_disk(1);
    group.recover(1);
    group.reconnect(0, 1);
    group.run(20);
    let applied = group.status(1).applied;
    assert_eq!(applied, group.status(0).applied);
    group.snapshotted(1, applied);
    assert_eq!(group.member(1).log.start(), Prefix::ZERO, "no sync of this life has ended");
    group.release_disk(1);
    group.run(5);
    assert_eq!(group.member(1).log.start(), applied);
}
