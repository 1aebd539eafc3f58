//! The desk.

use super::*;
use proto::members::Members;

#[test]
fn reads_in_words_keep_their_words_when_rounds_are_joined() {
    let round_of = |all: [&[u8]; 2]| {
        let mut round = Round::default();
        all.iter().for_each(|words| round.described(Rank::at(1), 1, 7, words, Instant(9)));
        round
    };
    let mut round = round_of([b"one", b"three"]);
    round.join(&mut round_of([b"four", b"fives"]));
    let words = |waiting: &Waiting| match waiting.reader {
        Reader::Described { start, len, .. } => round.bytes[start..start + len].to_vec(),
        Reader::Own(_) => panic!("it is in words"),
    };
    let all: Vec<Vec<u8>> = round.readers.iter().map(words).collect();
    assert_eq!(all, [&b"one"[..], b"three", b"four", b"fives"]);
}

#[test]
fn a_desk_with_as_many_reads_as_it_may_have_takes_no_more() {
    let mut desk = Desk::new(View::new(Rank::at(0), 3), PATIENCE);
    desk.bounds.reads = 3;
    for request in 0..3 {
        assert!(desk.has_room(), "with {request}");
        desk.read(Asker { connection: 1, request });
    }
    assert!(!desk.has_room());
    desk.begin_round().expect("they are asked about");
    assert!(!desk.has_room(), "they are under way");
}

#[test]
fn i3_what_a_turn_does_not_answer_of_a_round_is_first_in_the_next() {
    let mut desk = Desk::new(View::new(Rank::at(0), 3), PATIENCE);
    let asker = |request| Asker { connection: 1, request };
    let (mut done, mut n_turns) = (Vec::new(), 0);
    for n in 0..2 {
        (0..10).for_each(|request| desk.read(asker(10 * n + request)));
        let ticket = desk.begin_round().unwrap();
        let round = desk.end_round(ticket).unwrap();
        desk.ripen(round);
    }
    while desk.has_ripe() {
        n_turns += 1;
        desk.begin_slice();
        while desk.has_slice()
            && let Some(mut round) = desk.take_ripe()
        {
            desk.charge(SLICE_BYTES / 3);
            let Reader::Own(asker) = round.readers.remove(0).reader else { panic!() };
            done.push(asker.request);
            if !round.readers.is_empty() {
                desk.put_back(round);
            }
        }
    }
    assert_eq!(done, (0..20).collect::<Vec<u64>>());
    assert!(n_turns >= 5 && desk.is_idle() && desk.has_room());
    // Those whose turn has not come by their deadline end as all others do.
    desk.read(asker(99));
    let ticket = desk.begin_round().unwrap();
    let round = desk.end_round(ticket).unwrap();
    desk.ripen(round);
    let view = desk.view;
    desk.turn(desk.now().plus(PATIENCE), view);
    let mut expired = Vec::new();
    desk.expire_reads(|asker| expired.push(asker.request));
    assert!(expired == [99] && !desk.has_ripe() && desk.is_idle());
}

/// Two of three disks were put aside when the leader forgot the first at once.
#[test]
fn a_seat_that_is_begun_anew_is_remembered_until_it_votes_or_never_comes() {
    let rank = Rank::at(1);
    let all = MemberSet::all(3);
    let mut incarnations = [0; MAX_MEMBERS];
    incarnations[..3].fill(Incarnation::FIRST.0);
    let members = Members { voters: all, learners: MemberSet::EMPTY, incarnations };
    let leaving = MemberSet::EMPTY;
    let before = Configuration { at: Prefix(4), members, is_decided: true, leaving };
    let mut view = View::new(Rank::at(0), 3);
    view.configuration = Some(before);
    let mut desk = Desk::new(view, PATIENCE);
    assert_eq!(desk.renewing(), None);
    desk.renew(rank);
    assert_eq!(desk.renewing(), Some(rank), "the old one still stands in the log");
    let now = desk.now();
    let mut after = before;
    after.members.incarnations[1] = 7;
    view.configuration = Some(Configuration { is_decided: false, ..after });
    desk.turn(now, view);
    assert_eq!(desk.renewing(), Some(rank), "not decided yet");
    view.configuration = Some(after);
    desk.turn(now, view);
    assert_eq!(desk.renewing(), None, "it votes");
    desk.renew(rank);
    assert_eq!(desk.renewing(), Some(rank));
    desk.turn(now.plus(RENEWAL_WITHIN), view);
    assert_eq!(desk.renewing(), None, "it never came");
}

/// `add` was refused for a minute after `replace` and `remove`.
#[test]
fn a_seat_that_was_begun_anew_and_removed_may_be_begun_anew_again() {
    let (rank, all) = (Rank::at(1), MemberSet::all(3));
    let mut incarnations = [0; MAX_MEMBERS];
    incarnations[..3].fill(Incarnation::FIRST.0);
    let members = Members { voters: all, learners: MemberSet::EMPTY, incarnations };
    let leaving = MemberSet::EMPTY;
    let mut of = Configuration { at: Prefix(4), members, is_decided: true, leaving };
    let mut view = View::new(Rank::at(0), 3);
    let mut show = |desk: &mut Desk, of| {
        view.configuration = Some(of);
        desk.turn(desk.now(), view);
        desk.renewing()
    };
    let mut desk = Desk::new(View::new(Rank::at(0), 3), PATIENCE);
    show(&mut desk, of);
    desk.renew(rank);
    of.members.voters.remove(rank);
    of.members.learners.insert(rank);
    of.members.incarnations[1] = 7;
    assert_eq!(show(&mut desk, of), Some(rank), "the new one learns");
    of.members.learners.remove(rank);
    assert_eq!(show(&mut desk, of), None, "it was removed before it voted");
    desk.renew(rank);
    assert_eq!(show(&mut desk, of), Some(rank), "and the next one has not come");
    of.members.incarnations[1] = 9;
    of.members.voters.insert(rank);
    assert_eq!(show(&mut desk, of), None, "it votes");
    of.members.voters.remove(rank);
    assert_eq!(show(&mut desk, of), None, "it was removed when it had voted");
}

#[test]
fn what_is_not_taken_stays() {
    let mut desk = Desk::new(View::new(Rank::at(0), 3), PATIENCE);
    let asker = |request| Asker { connection: 1, request };
    desk.write(asker(1), b"x");
    desk.read(asker(2));
    desk.read(asker(3));
    assert!(desk.wait(asker(4), Prefix::ZERO, 1, None));
    let taken = |desk: &mut Desk, n: usize| {
        let mut taken = Vec::new();
        desk.take(|laid| {
            let (Laid::Write(asker, _) | Laid::Read(asker) | Laid::Wait(asker)) = laid;
            let takes = taken.len() < n;
            taken.extend(takes.then_some(asker.request));
            takes
        });
        taken
    };
    assert_eq!(taken(&mut desk, 2), [1, 2]);
    assert_eq!(taken(&mut desk, 9), [3, 4]);
    assert!(desk.is_idle());
}

#[test]
fn i2_a_read_that_comes_after_a_check_began_is_not_answered_with_it() {
    let mut desk = Desk::new(View::new(Rank::at(0), 3), PATIENCE);
    let asker = |request| Asker { connection: 1, request };
    let readers = |desk: &mut Desk, ticket| -> Vec<u64> {
        let round = desk.end_round(ticket).expect("it is under way");
        let request = |waiting: &Waiting| match waiting.reader {
            Reader::Own(asker) => asker.request,
            Reader::Described { .. } => unreachable!("all are own"),
        };
        round.readers.iter().map(request).collect()
    };
    desk.read(asker(1));
    let first = desk.begin_round().expect("one waits");
    desk.read(asker(2));
    let mut unripe = Round::default();
    unripe.own(asker(3), Instant(9));
    desk.waiting.join(&mut unripe);
    assert_eq!(readers(&mut desk, first), [1], "the others came later");
    let second = desk.begin_round().expect("two wait");
    assert_eq!(readers(&mut desk, second), [2, 3]);
}

#[test]
fn reads_that_are_checked_anew_take_one_place_each() {
    let mut desk = Desk::new(View::new(Rank::at(0), 3), PATIENCE);
    let asker = |request| Asker { connection: 1, request };
    (0..9).for_each(|request| desk.read(asker(request)));
    for _ in 0..READS_MAX {
        desk.begin_round().expect("they wait");
        desk.recall_rounds();
    }
    assert!(desk.has_room(), "they are the same nine");
    let ticket = desk.begin_round().expect("they wait");
    assert_eq!(desk.end_round(ticket).map(|round| round.readers.len()), Some(9));
    assert!(desk.is_idle() && desk.has_room());
}

#[test]
fn i1_reads_that_expire_in_a_check_make_room_for_others() {
    let mut desk = Desk::new(View::new(Rank::at(0), 3), PATIENCE);
    let mut n_expired = 0;
    for _ in 0..4 {
        (0..READS_MAX as u64 / 2).for_each(|request| desk.read(Asker { connection: 1, request }));
        assert!(desk.has_room(), "{n_expired} reads are over");
        desk.begin_round().unwrap();
        let view = desk.view;
        desk.turn(desk.now().plus(PATIENCE), view);
        desk.expire_reads(|_| n_expired += 1);
        assert!(desk.is_idle());
    }
    assert_eq!(n_expired, 2 * READS_MAX);
}
