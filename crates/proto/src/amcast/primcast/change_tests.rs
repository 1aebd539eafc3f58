//! Changes of members, rule by rule: each holds, and the machine without it does what the rule
//! forbids.

use super::clocks::Clocks;
use super::tests::Stateful;
use super::*;
use crate::amcast::FOUNDER;
use crate::amcast::outbox::Outbox;
use crate::amcast::{GroupId, Layout, Seen, To};
use crate::planted::Planted;
use base::MemberSet;

/// A host that keeps the messages sent, and could hand over states.
type Sent = Outbox<PrimcastWire, Stateful>;

impl Sent {
    /// The members of the last epoch that was established.
    fn established(&self) -> Option<Members> {
        self.sent.iter().rev().find_map(|(_, wire)| match wire {
            PrimcastWire::NewState(beginning) => Some(beginning.members),
            _ => None,
        })
    }
}

const NEWCOMER: Incarnation = Incarnation(2);

fn pid(rank: usize) -> Pid {
    Pid { group: GroupId::at(0), rank: Rank::at(rank) }
}

fn seats(ranks: &[usize]) -> MemberSet {
    ranks.iter().map(|rank| Rank::at(*rank)).collect()
}

fn config() -> Config {
    config_of(&[3])
}

fn config_of(groups: &[usize]) -> Config {
    Config {
        layout: Layout::new(groups),
        rule: Rule::Plain,
        hybrid: false,
        patience: core::time::Duration::from_millis(40),
        commutes: false,
        part_bytes: 64 << 10,
        retain: 100,
        retain_bytes: usize::MAX,
    }
}

/// A log in one part.
fn whole(log: Vec<Logged>) -> Part {
    let log = log.into_iter().map(|logged| Told { logged, at: None }).collect();
    Part { after: Timestamp::ZERO, log, is_last: true }
}

fn asks(epoch: Ballot) -> PrimcastWire {
    PrimcastWire::NewEpoch { epoch, held: Held::default() }
}

/// A member of three, and the time.
struct Group<P: Planting<Bug>> {
    machine: Machine<P>,
    now: u64,
    out: Sent,
}

impl<P: Planting<Bug>> Group<P> {
    fn new(planted: P, rank: usize) -> Group<P> {
        Group::of(planted, &config(), rank)
    }

    fn of(planted: P, config: &Config, rank: usize) -> Group<P> {
        let machine = Machine::new(config, pid(rank), planted);
        Group { machine, now: 0, out: Sent::default() }
    }

    fn hears(&mut self, from: usize, wire: &PrimcastWire) {
        self.now += 1;
        self.machine.on_wire(pid(from), wire, Instant(self.now), &mut self.out);
        self.machine.settle(Instant(self.now), &mut self.out);
    }

    /// Makes a newcomer ask for the third seat.
    fn is_joined(&mut self) {
        self.machine.meet(pid(2), NEWCOMER);
        self.hears(2, &PrimcastWire::Join { incarnation: NEWCOMER, promised: Ballot::NONE });
    }

    /// Makes a member promise what this candidate requests, out of an epoch with these members.
    fn is_promised(&mut self, from: usize, current: Ballot, members: Members) {
        self.is_promised_with(from, current, members, Vec::new());
    }

    /// The same, with this log.
    fn is_promised_with(
        &mut self,
        from: usize,
        current: Ballot,
        members: Members,
        log: Vec<Logged>,
    ) {
        let epoch = self.machine.office.promised;
        let upto = log.last().map_or(Timestamp::ZERO, |logged| logged.ts);
        let (clock, floor, length) = (Timestamp(4), Place::default(), log.len() as u64);
        let part = whole(log);
        let promise =
            PrimcastWire::Promise { epoch, clock, current, members, length, floor, upto, part };
        self.hears(from, &promise);
    }

    fn is_accepted(&mut self, from: usize, delivered: Place) {
        let (epoch, clock) = (self.machine.office.promised, Timestamp(9));
        let members = Some(Arc::new((epoch, self.machine.seat.members)));
        let (as_primary, listed) = (false, Vec::new());
        let report = Report { epoch, clock, as_primary, delivered, listed, members };
        self.hears(from, &PrimcastWire::Accept { epoch, report });
    }
}

/// A group whose third member died; the primary has removed it, for the newcomer on its seat.
fn removed<P: Planting<Bug>>(planted: P) -> Group<P> {
    let mut group = Group::new(planted, 0);
    let first = group.machine.office.current;
    let founders = group.machine.seat.members;
    group.is_joined();
    assert_eq!(
        group.machine.office.phase,
        Phase::Candidate,
        "it asks for an epoch with other members"
    );
    group.is_promised(1, first, founders);
    group
}

#[test]
fn p20_a_seat_changes_hands_by_two_changes() {
    let mut group = removed(Sound);
    assert_eq!(group.out.established().map(|members| members.voters), Some(seats(&[0, 1])));
    assert!(!group.machine.is_primary(), "P20: nothing else before it has begun");
    group.is_accepted(1, Place::default());
    assert_eq!(group.machine.office.phase, Phase::Candidate, "the addition follows at once");
    let (current, members) = (group.machine.office.current, group.machine.seat.members);
    group.is_promised(1, current, members);
    let members = group.out.established().expect("a quorum promised");
    assert!(members.has(Rank::at(2), NEWCOMER) && members.voters.len() == 3);
    // {0, 2} of the founders and {1, 2} of the new ones have no common member.
    let broken = removed(Planted(Bug::ReplaceAtOnce)).out.established();
    assert!(broken.is_some_and(|members| members.has(Rank::at(2), NEWCOMER)), "the bug");
}

#[test]
fn p20_the_present_members_quorum_has_to_promise() {
    fn added<P: Planting<Bug>>(planted: P) -> Option<Members> {
        let mut group = removed(planted);
        group.is_accepted(1, Place::default());
        assert_eq!(group.machine.office.phase, Phase::Candidate);
        // The newcomer and the primary: a quorum of the new ones, and one of two of the present.
        group.is_promised(2, Ballot::NONE, Members::default());
        group.out.established().filter(|members| members.voters.len() == 3)
    }
    assert_eq!(added(Sound), None);
    assert!(added(Planted(Bug::NewQuorumOnly)).is_some(), "the bug asks too few");
}

/// A member that has promised an epoch may since have acknowledged in another: it has to promise
/// again.
#[test]
fn p20_a_promise_of_an_earlier_candidacy_counts_for_no_later_one() {
    let mut group = Group::new(Sound, 1);
    let (current, founders) = (group.machine.office.current, group.machine.seat.members);
    group.machine.trust(Rank::at(1), Instant(1), &mut group.out);
    let earlier = group.machine.office.promised;
    let outbid = Ballot::above(earlier, Rank::at(0));
    group.hears(0, &asks(outbid));
    group.machine.stand(Instant(9), &mut group.out);
    assert_eq!(group.machine.office.phase, Phase::Candidate);
    assert!(group.machine.office.promised > outbid, "it stands again");
    let late = PrimcastWire::Promise {
        epoch: earlier,
        clock: Timestamp(4),
        current,
        members: founders,
        length: 0,
        floor: Place::default(),
        upto: Timestamp::ZERO,
        part: whole(Vec::new()),
    };
    group.hears(2, &late);
    assert_eq!(group.out.established(), None, "that was for {earlier:?}");
    group.is_promised(2, current, founders);
    assert!(group.out.established().is_some());
}

#[test]
fn p20_a_candidate_goes_by_the_newest_members_that_it_is_told() {
    fn established<P: Planting<Bug>>(planted: P) -> Option<Members> {
        let mut group = Group::new(planted, 1);
        let newer = Ballot::above(group.machine.office.promised, Rank::at(0));
        group.machine.trust(Rank::at(1), Instant(1), &mut group.out);
        // 0 and 2 continue without 1's vote; 2 tells of it, and is one of two.
        let three = Members::founders(3, group.machine.office.current);
        let members = Members { since: newer, ..three.without(Rank::at(1)) };
        group.is_promised(2, newer, members);
        group.out.established()
    }
    assert_eq!(established(Sound), None);
    assert!(established(Planted(Bug::OlderMembers)).is_some(), "the bug goes by its own");
}

#[test]
fn p21_the_next_change_waits_for_what_was_delivered_before_the_last() {
    fn asks_again<P: Planting<Bug>>(planted: P, delivered: Place) -> bool {
        let mut group = Group::new(planted, 0);
        let first = group.machine.office.current;
        group.machine.delivered =
            Delivered::restored((Timestamp(3), MessageId::default()), Seen::default());
        group.is_joined();
        let founders = group.machine.seat.members;
        group.is_promised(1, first, founders);
        group.is_accepted(1, delivered);
        group.machine.office.phase == Phase::Candidate
    }
    let all = (Timestamp(3), MessageId::default());
    assert!(asks_again(Sound, all));
    assert!(!asks_again(Sound, Place::default()), "of two, both have to have it");
    assert!(asks_again(Planted(Bug::ChangeUnheld), Place::default()), "the bug does not look");
}

/// A message to two groups waits for the other one, below the clock with which the change began:
/// the mark does not tell yet which messages have to be held.
#[test]
fn p21_the_next_change_waits_for_what_is_still_to_be_delivered_below_the_last() {
    let mut group = Group::of(Sound, &config_of(&[3, 1]), 0);
    let (first, founders) = (group.machine.office.current, group.machine.seat.members);
    group.is_joined();
    let message = Message::new(MessageId { sender: 1, sequence: 1 }, GroupSet::all(2), *b"x");
    let log = Logged { epoch: first, ts: Timestamp(4), message: Arc::new(message) };
    group.is_promised_with(1, first, founders, alloc::vec![log]);
    assert_eq!(group.machine.seat.members.from, Timestamp(4));
    group.is_accepted(1, Place::default());
    assert!(group.machine.is_primary(), "the addition waits, though all marks are equal");
}

/// P18: a predecessor's promise on a seat does not count for its successor.
#[test]
fn p20_a_predecessors_promise_counts_for_nobody_who_comes_after_it() {
    let config = config_of(&[5]);
    let mut group = Group::of(Sound, &config, 1);
    let (first, founders) = (group.machine.office.current, group.machine.seat.members);
    group.machine.trust(Rank::at(1), Instant(1), &mut group.out);
    group.is_promised(2, first, founders);
    group.machine.meet(pid(2), NEWCOMER);
    // 0 has seen 2 seated again.
    let since = Ballot::above(first, Rank::at(0));
    let seated = founders.without(Rank::at(2)).with(Rank::at(2), NEWCOMER);
    group.is_promised(0, since, Members { since, ..seated });
    assert_eq!(group.out.established(), None, "0 and 1 are two of five");
    group.is_promised(2, since, Members { since, ..seated });
    assert!(group.out.established().is_some());
}

#[test]
fn p19_what_a_changed_epoch_began_with_is_decided() {
    fn decided<P: Planting<Bug>>(planted: P) -> bool {
        let mut group = Group::new(planted, 1);
        let first = group.machine.office.current;
        let epoch = Ballot::above(group.machine.office.promised, Rank::at(0));
        group.hears(0, &asks(epoch));
        let (id, dest) = (MessageId { sender: 1, sequence: 1 }, GroupId::at(0).alone());
        let message = Arc::new(Message::new(id, dest, *b"x"));
        let log = alloc::vec![Logged { epoch: first, ts: Timestamp(4), message }];
        let two = Members::founders(3, first).without(Rank::at(2));
        let beginning = Beginning {
            epoch,
            length: 1,
            floor: Place::default(),
            source: Held { epoch: first, upto: Timestamp(4) },
            part: whole(log),
            clock: Timestamp(4),
            members: Members { since: epoch, ..two },
            has_begun: false,
        };
        group.hears(0, &PrimcastWire::NewState(beginning));
        group.is_accepted(0, Place::default());
        assert_eq!(group.machine.office.phase, Phase::Follower);
        let said = group.out.sent.iter().any(
            |(_, wire)| matches!(wire, PrimcastWire::Ack { id: of, chosen: true, .. } if *of == id),
        );
        let record = group.machine.records.get(id).expect("it stands in the log");
        said && record.final_ts() == Some(Timestamp(4))
    }
    assert!(decided(Sound));
    assert!(
        !decided(Planted(Bug::NeverChosen)),
        "the bug counts acknowledgements of who may be gone"
    );
}

#[test]
fn p17_p18_quorums_are_counted_by_the_epochs_members_and_their_present_lives() {
    fn past<P: Planting<Bug>>(planted: P, told: bool, met: bool) -> Timestamp {
        let (first, later) = (Ballot(1), Ballot(9));
        let mut clocks = Clocks::new(3, first);
        if told {
            let founders = *clocks.seats.newest();
            clocks.seats.learn(later, &founders);
        }
        for (rank, clock) in [(0, 7), (1, 7), (2, 2)] {
            clocks.hear(Rank::at(rank), later, Timestamp(clock), rank == 0);
        }
        if met {
            clocks.meet(Rank::at(1), NEWCOMER, planted);
        }
        clocks.past(planted)
    }
    assert_eq!(past(Sound, true, false), Timestamp(7));
    assert_eq!(past(Sound, false, false), Timestamp::ZERO, "P17");
    assert_eq!(past(Planted(Bug::AssumeMembers), false, false), Timestamp(7), "the bug");
    assert_eq!(past(Sound, true, true), Timestamp(2), "P18");
    assert_eq!(past(Planted(Bug::KeepOldWords), true, true), Timestamp(7), "the bug");
}

/// P22: a removed process is told so when it speaks, and sends nothing from then on.
#[test]
fn p22_who_was_removed_is_told_and_stops() {
    let mut group = removed(Sound);
    let mut removed = Group::new(Sound, 2);
    group.is_accepted(1, Place::default());
    // This concerned the newcomer's predecessor: the newcomer itself may still get the seat.
    let epoch = Ballot::above(group.machine.office.promised, Rank::at(2));
    let asked = asks(epoch);
    let mut founder = Group::new(Sound, 0);
    founder.machine.seat.members = founder.machine.seat.members.without(Rank::at(2));
    founder.hears(2, &asked);
    let parted = PrimcastWire::Parted(FOUNDER);
    assert_eq!(founder.out.sent.last(), Some(&(To::One(pid(2)), parted.clone())));
    removed.hears(0, &PrimcastWire::Parted(NEWCOMER));
    assert!(!removed.machine.has_parted(), "that was another life");
    removed.hears(0, &parted);
    assert!(removed.machine.has_parted());
    let n_said = removed.out.sent.len();
    removed.machine.trust(Rank::at(2), Instant(9), &mut removed.out);
    removed.hears(0, &asks(Ballot(70)));
    removed.machine.tick(Instant(u64::MAX / 2), &mut removed.out);
    assert_eq!((removed.out.sent.len(), removed.machine.deadline()), (n_said, None));
}

#[test]
fn a_newcomer_whose_beginning_was_lost_asks_for_it_and_gets_it() {
    // One primary seated it, and another, which has not identified it yet, asks for its promise:
    // that one's next message is for its predecessor, and lost (T4).
    let first = Ballot::above(Ballot::NONE, Rank::at(0));
    let founders = Members::founders(3, first);
    let seated = founders.without(Rank::at(2)).with(Rank::at(2), NEWCOMER);
    let now = Instant::ZERO;
    let machine = Machine::join(&config(), pid(2), Sound, NEWCOMER, now).expect("it may");
    let mut newcomer = Group { machine, now: 0, out: Sent::default() };
    let epoch = Ballot::above(first, Rank::at(0));
    let members = Members { since: epoch, ..seated };
    let (length, floor, clock) = (0, Place::default(), Timestamp(4));
    let (source, part, has_begun) = (Held::default(), whole(Vec::new()), true);
    let beginning = Beginning { epoch, length, floor, source, part, clock, members, has_begun };
    newcomer.hears(0, &PrimcastWire::NewState(beginning));
    assert_eq!(newcomer.machine.office.phase, Phase::Follower);
    let promised = Ballot::above(epoch, Rank::at(1));
    newcomer.machine.trust(Rank::at(1), Instant(newcomer.now), &mut newcomer.out);
    newcomer.hears(1, &asks(promised));
    assert_eq!(newcomer.machine.office.phase, Phase::Promised);
    newcomer.out.sent.clear();
    let later = Instant(newcomer.now).plus(config().patience);
    newcomer.machine.tick(later, &mut newcomer.out);
    let asks = PrimcastWire::Join { incarnation: NEWCOMER, promised };
    assert!(newcomer.out.sent.contains(&(To::One(pid(1)), asks)), "{:?}", newcomer.out.sent);

    // The leader of that time sends it again.
    let mut primary = removed(Sound);
    primary.is_accepted(1, Place::default());
    let (current, members) = (primary.machine.office.current, primary.machine.seat.members);
    primary.is_promised(1, current, members);
    primary.is_accepted(1, Place::default());
    assert!(primary.machine.is_primary());
    primary.out.sent.clear();
    let promised = primary.machine.office.promised;
    primary.hears(2, &PrimcastWire::Join { incarnation: NEWCOMER, promised });
    let again = |(to, wire): &(To, PrimcastWire)| {
        let is_it = |it: &Beginning| it.has_begun && it.epoch == promised;
        *to == To::One(pid(2)) && matches!(wire, PrimcastWire::NewState(it) if is_it(it))
    };
    assert!(primary.out.sent.iter().any(again), "{:?}", primary.out.sent);
}

/// P21: each change has its own mark, which is taken when the change begins to wait.
#[test]
fn p21_what_one_change_waited_for_is_not_enough_for_the_next() {
    let mut group = Group::new(Sound, 0);
    let (first, founders) = (group.machine.office.current, group.machine.seat.members);
    group.machine.delivered =
        Delivered::restored((Timestamp(3), MessageId::default()), Seen::default());
    group.machine.seat.change.be_held_from(founders.since, Place::default());
    group.is_joined();
    group.is_promised(1, first, founders);
    group.is_accepted(1, Place::default());
    assert!(group.machine.is_primary(), "of two, both have to have what this one delivered since");
}

/// A member whose words take longer than a patience is no reason to give up a change for ever.
#[test]
fn a_change_that_was_given_up_is_given_more_time() {
    let mut group = Group::new(Sound, 0);
    let (founders, patience) = (group.machine.seat.members, config().patience);
    let passes = |group: &mut Group<Sound>, patiences: u32| {
        group.now = Instant(group.now).plus(patiences * patience).0;
        group.machine.tick(Instant(group.now), &mut group.out);
        group.machine.settle(Instant(group.now), &mut group.out);
    };
    group.machine.ask_for_removal(Rank::at(2)).expect("it is the primary");
    for n_allowed in [1, 2, 4] {
        // What is left needs the second member, which is far away.
        passes(&mut group, 4);
        let current = group.machine.office.current;
        group.is_promised(2, current, group.machine.seat.members);
        for waited in 1..=n_allowed {
            assert_eq!(group.machine.office.phase, Phase::Candidate, "{waited} of {n_allowed}");
            passes(&mut group, 1);
        }
        assert_eq!(group.machine.office.current, group.machine.office.promised);
        assert_eq!(group.machine.seat.members.voters, founders.voters, "it is given up");
        group.is_accepted(2, Place::default());
        assert!(group.machine.is_primary());
    }
    passes(&mut group, 4);
    let current = group.machine.office.current;
    group.is_promised(2, current, group.machine.seat.members);
    passes(&mut group, 7);
    group.is_promised(1, current, group.machine.seat.members);
    assert_eq!(group.machine.seat.members.voters, seats(&[0, 1]));
}
