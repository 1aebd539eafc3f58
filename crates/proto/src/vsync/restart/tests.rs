//! Tests of single rules of restarts.

use super::*;
use crate::disk::DiskEvent;
use crate::planted::{Planted, Sound};
use crate::stage::disk::TestDisk;
use crate::value::Region;
use crate::vsync::view::tests::{founded_by, process};

fn view(group: u64, n: usize) -> View {
    let founders: Vec<Knock> = (0..n).map(|seat| process(seat, 1)).collect();
    View { group, ..founded_by(&founders) }
}

/// The second life on `seat`, whose log has the first view of three.
fn returning<P: Plantings>(seat: usize, group: u64, planted: P) -> Returning<P> {
    let found = Found {
        lives: [1, 2].map(base::Incarnation).to_vec(),
        view: Some(view(group, 3)),
        pasts: [None].to_vec(),
        ..Found::default()
    };
    let timing = Timing::default();
    Returning::new(process(seat, 2), 3, timing, found, planted, Instant::ZERO)
}

fn call(group: u64) -> Call {
    Call { group, view: ViewId(1), ballot: 259 }
}

fn answers(group: u64, planted: impl Plantings) -> usize {
    let mut one = returning(1, 7, planted);
    let mut journal = Journal::on(&TestDisk::default());
    let from = Rank::at(2);
    one.on_call(from, call(group), &mut journal, Instant::ZERO, &mut Region::default());
    one.owed.len()
}

#[test]
fn r6_the_call_of_another_group_is_not_answered() {
    assert_eq!((answers(7, Sound), answers(8, Sound)), (1, 0));
    assert_eq!(answers(8, Planted(Bug::ForeignLog)), 1);
}

#[test]
fn r5_a_process_that_is_no_member_any_longer_votes_and_calls_for_nothing() {
    let mut one = returning(1, 7, Sound);
    let (mut journal, mut port) = (Journal::on(&TestDisk::default()), Region::default());
    one.pass(ViewId(9), Instant::ZERO);
    assert!(one.knows(ViewId(9)) && !one.knows(ViewId(10)), "an older view is no news");
    let late = one.deadline();
    one.turn(&[], &mut journal, late, &mut port);
    assert!(one.round.is_none());
    one.on_call(Rank::at(2), call(7), &mut journal, late, &mut port);
    assert!(matches!(&one.owed[..], [(_, _, Message::Report(report))] if report.call == call(7)));
}

#[test]
fn r1_a_promise_is_told_when_it_is_synced_and_not_given_to_an_earlier_ballot() {
    let mut one = returning(1, 7, Sound);
    let mut disk = TestDisk::default();
    let (mut journal, mut port) = (Journal::on(&disk), Region::default());
    let now = Instant::ZERO;
    one.on_call(Rank::at(2), call(7), &mut journal, now, &mut port);
    journal.write(&mut disk);
    assert!(one.pay(&[], &mut journal, now, &mut port).is_none());
    assert_eq!(one.owed.len(), 1, "it waits");
    let flush = disk.end_sync().expect("a sync was asked for");
    journal.on_event(DiskEvent::Synced(flush));
    one.pay(&[], &mut journal, now, &mut port);
    assert!(one.owed.is_empty() && one.found.promised == 259);
    let earlier = Call { ballot: 257, ..call(7) };
    one.on_propose(Rank::at(0), earlier, Change::default(), &mut journal);
    assert_eq!(one.found.accepted, None);
    assert!(matches!(&one.owed[0].2, Message::Report(report) if report.call.ballot == 259));
}

/// Whether a proposal is accepted whose ballot is below what was promised.
fn accepts_below(planted: impl Plantings) -> bool {
    let mut one = returning(1, 7, planted);
    let mut journal = Journal::on(&TestDisk::default());
    one.found.promised = 259;
    let earlier = Call { ballot: 257, ..call(7) };
    one.on_propose(Rank::at(0), earlier, Change::default(), &mut journal);
    one.found.accepted.is_some()
}

#[test]
fn r1_a_proposal_below_a_promise_is_not_accepted() {
    assert!(!accepts_below(Sound) && accepts_below(Planted(Bug::AcceptsBelow)));
}

fn report(seat: usize, accepted: Option<u64>, end: Option<u64>) -> (Rank, Report) {
    let change = |trim: u64| Change { trims: [trim].to_vec(), ..Change::default() };
    let accepted = accepted.map(|ballot| (ballot, change(ballot)));
    let (call, process) = (call(7), process(seat, 2));
    let clock = Time(end.unwrap_or(0));
    (Rank::at(seat), Report { call, process, accepted, ends: [end].to_vec(), clock })
}

#[test]
fn r3_what_was_accepted_last_is_proposed_again() {
    let reports = [report(0, Some(1), None), report(1, Some(3), None), report(2, None, None)];
    let reports = reports.into_iter().collect();
    assert_eq!(adopted(&reports, Sound).map(|change| change.trims), Some([3].to_vec()));
    assert_eq!(adopted(&reports, Planted(Bug::RestartForgets)), None);
}

#[test]
fn r4_the_shortest_log_with_the_state_is_the_trim_and_without_one_the_others_are_waited_for() {
    let fresh = |reports: &[(Rank, Report)], view: &View, planted| {
        fresh(view, &reports.iter().cloned().collect(), &[Subgroup::whole()], planted)
    };
    let none = Planted(Bug::RestartForgets); // not a mistake in this
    let view = view(7, 3);
    let two = [report(0, None, Some(9)), report(2, None, Some(6))];
    let change = fresh(&two, &view, none).expect("two have the state");
    assert_eq!(
        (change.trims, change.removed, change.renewed.len()),
        ([6].to_vec(), SeatSet::from_bits(2), 2)
    );
    let without = [report(0, None, None), report(2, None, None)];
    assert_eq!(fresh(&without, &view, none), None, "the third may have it");
    assert!(fresh(&without, &view, Planted(Bug::ShardFromNothing)).is_some());
    let all: Vec<_> = (0..3).map(|seat| report(seat, None, None)).collect();
    assert!(fresh(&all, &view, none).is_some(), "nothing was delivered in its first view");
}

#[test]
fn w7_no_log_is_waited_for_where_a_shard_is_in_memory_alone() {
    let reports = [report(0, None, None), report(2, None, None)].into_iter().collect();
    let in_memory = [Subgroup { mode: Some(Mode::Ordered), ..Subgroup::whole() }];
    let fresh = |bug| fresh(&view(7, 3), &reports, &in_memory, Planted(bug));
    let change =
        fresh(Bug::RestartForgets /* not a mistake in this */).expect("its shard begins again");
    assert_eq!((change.trims, change.bearers), ([0].to_vec(), [SeatSet::EMPTY].to_vec()));
    assert_eq!(fresh(Bug::MemoryIsWaitedFor), None);
}

/// Everything that `one` has put is synced; what it owes is told.
fn synced<P>(
    one: &mut Returning<P>,
    journal: &mut Journal,
    disk: &mut TestDisk,
) -> Vec<Message<'static>> {
    journal.write(disk);
    if let Some(flush) = disk.end_sync() {
        journal.on_event(DiskEvent::Synced(flush));
    }
    one.owed
        .drain(..)
        .inspect(|owed| assert!(journal.is_synced(owed.0)))
        .map(|owed| owed.2)
        .collect()
}

/// The process on seat 2 proposes before its own promise is synced, loses it, and uses the same
/// ballot again for another change, which is decided: the next restart finds two changes of one
/// ballot. Returns whether it proposes what was decided.
fn finds_what_was_decided(planted: impl Plantings) -> bool {
    let (mut disks, mut port) = ([0; 3].map(|_| TestDisk::default()), Region::default());
    let mut journals = [0, 1, 2].map(|at| Journal::on(&disks[at]));
    let (mut y, mut x) = (returning(0, 7, planted), returning(1, 7, planted));
    let held = |message: Message<'static>, end| match message {
        Message::Report(report) => Report { ends: [Some(end)].to_vec(), ..report },
        other => panic!("{other:?}"),
    };
    let late = |from: Instant| from.plus(Timing::default().suspect_after);
    let subgroups = [Subgroup::whole()];

    // The first life calls, and X and Y promise. Its own disk is slow.
    let mut first = returning(2, 7, planted);
    let at = first.next_call_at;
    first.turn(&subgroups, &mut journals[2], at, &mut port);
    let ballot = first.round.as_ref().unwrap().call;
    for (one, seat) in [(&mut y, 0), (&mut x, 1)] {
        one.on_call(Rank::at(2), ballot, &mut journals[seat], at, &mut port);
        let told = synced(one, &mut journals[seat], &mut disks[seat]).pop().unwrap();
        first.on_report(Rank::at(seat), held(told, 6), at, &mut port);
    }
    first.turn(&subgroups, &mut journals[2], late(at), &mut port);
    let Some(change) = first.round.as_ref().unwrap().change.clone() else {
        return true; // the proposal waits for the own promise
    };
    // The proposal reaches X alone, and the power of seat 2 is cut: nothing was synced there.
    x.on_propose(Rank::at(2), ballot, change, &mut journals[1]);
    synced(&mut x, &mut journals[1], &mut disks[1]);

    // The second life finds the view alone. X is cut off; Y promises again, and accepts.
    let mut second = returning(2, 7, planted);
    second.me = process(2, 3);
    (disks[2], journals[2]) = (TestDisk::default(), Journal::on(&TestDisk::default()));
    let at = second.next_call_at;
    second.turn(&subgroups, &mut journals[2], at, &mut port);
    let again = second.round.as_ref().unwrap().call;
    let own = synced(&mut second, &mut journals[2], &mut disks[2]).pop().unwrap();
    second.on_report(Rank::at(2), held(own, 6), at, &mut port);
    y.on_call(Rank::at(2), again, &mut journals[0], at, &mut port);
    let told = synced(&mut y, &mut journals[0], &mut disks[0]).pop().unwrap();
    second.on_report(Rank::at(0), held(told, 6), at, &mut port);
    second.turn(&subgroups, &mut journals[2], late(at), &mut port);
    let decided = second.round.as_ref().unwrap().change.clone().expect("a majority promised");
    synced(&mut second, &mut journals[2], &mut disks[2]);
    assert!(second.on_accepted(Rank::at(2), again, &subgroups).is_none());
    y.on_propose(Rank::at(2), again, decided.clone(), &mut journals[0]);
    synced(&mut y, &mut journals[0], &mut disks[0]);
    assert!(second.on_accepted(Rank::at(0), again, &subgroups).is_some(), "it is acted upon");

    // X calls, and Y, which was told nothing more, promises.
    let at = x.next_call_at;
    x.turn(&subgroups, &mut journals[1], at, &mut port);
    let last = x.round.as_ref().unwrap().call;
    let own = synced(&mut x, &mut journals[1], &mut disks[1]).pop().unwrap();
    x.on_report(Rank::at(1), held(own, 6), at, &mut port);
    y.on_call(Rank::at(1), last, &mut journals[0], at, &mut port);
    let told = synced(&mut y, &mut journals[0], &mut disks[0]).pop().unwrap();
    x.on_report(Rank::at(0), held(told, 6), at, &mut port);
    x.turn(&subgroups, &mut journals[1], late(at), &mut port);
    let found = x.round.as_ref().unwrap().change.clone();
    found == Some(decided)
}

#[test]
fn r2_r3_what_was_decided_is_found_though_its_caller_had_lost_an_earlier_promise() {
    assert!(finds_what_was_decided(Sound));
    assert!(!finds_what_was_decided(Planted(Bug::ProposesUnpromised)));
}
