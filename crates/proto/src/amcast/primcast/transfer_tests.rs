//! Logs that are longer than a part, between machines of one group.

use super::*;
use crate::amcast::outbox::Outbox;
use crate::amcast::wire::Wire;
use crate::amcast::{GroupId, Layout, To};
use alloc::collections::VecDeque;

const PAYLOAD_BYTES: usize = 30 << 10;
const PART_BYTES: usize = 256 << 10;
const N_MESSAGES: u64 = 40;
/// The most bytes of a part and the rest of its message.
const WIRE_BYTES_MAX: usize = PART_BYTES + 1024;

/// A host that keeps the messages sent, and counts the deliveries.
type Sent = Outbox<PrimcastWire, Vec<(MessageId, Timestamp)>>;

fn pid(rank: usize) -> Pid {
    Pid { group: GroupId::at(0), rank: Rank::at(rank) }
}

/// Three members of one group, and links that lose only the messages to or from a member that is
/// away.
struct Group {
    machines: Vec<Machine>,
    hosts: Vec<Sent>,
    links: VecDeque<(usize, usize, PrimcastWire)>,
    away: Option<usize>,
    now: Instant,
    longest: usize,
    n_wires: usize,
}

fn config() -> Config {
    Config {
        layout: Layout::new(&[3]),
        rule: Rule::Plain,
        hybrid: false,
        patience: core::time::Duration::from_millis(40),
        commutes: false,
        part_bytes: PART_BYTES,
        retain: 100,
        retain_bytes: usize::MAX,
    }
}

impl Group {
    fn new() -> Group {
        let config = config();
        Group {
            machines: (0..3).map(|rank| Machine::new(&config, pid(rank), Sound)).collect(),
            hosts: (0..3).map(|_| Sent::default()).collect(),
            links: VecDeque::new(),
            away: None,
            now: Instant(1),
            longest: 0,
            n_wires: 0,
        }
    }

    fn is_away(&self, rank: usize) -> bool {
        self.away == Some(rank)
    }

    fn present(&self) -> Vec<usize> {
        (0..3).filter(|rank| !self.is_away(*rank)).collect()
    }

    fn act(&mut self, rank: usize, act: impl FnOnce(&mut Machine, Instant, &mut Sent)) {
        act(&mut self.machines[rank], self.now, &mut self.hosts[rank]);
        self.machines[rank].settle(self.now, &mut self.hosts[rank]);
        for (to, wire) in core::mem::take(&mut self.hosts[rank].sent) {
            for other in (0..3).filter(|other| *other != rank) {
                if to == To::One(pid(other)) || matches!(to, To::Groups(_)) {
                    self.links.push_back((rank, other, wire.clone()));
                }
            }
        }
    }

    fn start(&mut self, sequence: u64) {
        let id = MessageId { sender: 1, sequence };
        let payload = alloc::vec![sequence as u8; PAYLOAD_BYTES];
        let message = Arc::new(Message::new(id, GroupId::at(0).alone(), payload));
        for rank in self.present() {
            self.act(rank, |machine, now, host| machine.on_start(&message, now, host));
        }
        self.run();
    }

    fn run(&mut self) {
        while let Some((from, to, wire)) = self.links.pop_front() {
            if self.is_away(from) || self.is_away(to) {
                continue;
            }
            let mut bytes = Vec::new();
            wire.encode(&mut bytes);
            self.longest = self.longest.max(bytes.len());
            self.n_wires += 1;
            assert!(self.n_wires < 20_000, "they ask each other for ever");
            self.act(to, |machine, now, host| machine.on_wire(pid(from), &wire, now, host));
        }
    }

    fn pass(&mut self, n_times: usize) {
        for _ in 0..n_times {
            self.now = self.now.plus(core::time::Duration::from_millis(50));
            for rank in self.present() {
                self.act(rank, |machine, now, host| machine.tick(now, host));
            }
            self.run();
        }
    }

    fn trust(&mut self, leader: usize) {
        for rank in self.present() {
            self.act(rank, |machine, now, host| machine.trust(Rank::at(leader), now, host));
        }
        self.run();
    }
}

/// A group whose third member is away during many messages, all of which are kept for it.
fn with_one_away() -> Group {
    let mut group = Group::new();
    group.start(1);
    group.away = Some(2);
    (2..=N_MESSAGES).for_each(|sequence| group.start(sequence));
    assert_eq!(group.machines[0].log.names.len() as u64, N_MESSAGES, "nothing is forgotten");
    group
}

#[test]
fn p23_members_with_the_same_log_change_their_primary_without_sending_it() {
    let mut group = with_one_away();
    group.longest = 0;
    group.trust(1);
    assert!(group.machines[1].is_primary());
    assert!(group.longest < 1024, "{} bytes in one wire", group.longest);
    group.start(N_MESSAGES + 1);
    assert_eq!(group.hosts[0].deliveries.len() as u64, N_MESSAGES + 1);
}

#[test]
fn p23_who_was_away_leads_when_it_has_what_it_lacked_in_parts() {
    let mut group = with_one_away();
    (group.longest, group.away) = (0, None);
    group.trust(2);
    assert!(group.machines[2].is_primary(), "{:?}", group.machines[2].office.phase);
    assert!(group.longest > PAYLOAD_BYTES && group.longest <= WIRE_BYTES_MAX, "{}", group.longest);
    group.pass(20);
    for rank in 0..3 {
        assert_eq!(group.hosts[rank].deliveries.len() as u64, N_MESSAGES, "{rank}");
        assert_eq!(group.machines[rank].log.length, N_MESSAGES, "{rank}");
    }
}

#[test]
fn p23_who_was_away_follows_when_it_has_what_it_lacked_in_parts() {
    let mut group = with_one_away();
    (group.longest, group.away) = (0, None);
    group.trust(1);
    // It lacks a log, while the others continue.
    group.start(N_MESSAGES + 1);
    group.pass(20);
    assert!(group.longest > PAYLOAD_BYTES && group.longest <= WIRE_BYTES_MAX, "{}", group.longest);
    for rank in 0..3 {
        assert_eq!(group.hosts[rank].deliveries.len() as u64, N_MESSAGES + 1, "{rank}");
        assert_eq!(group.machines[rank].log.length, N_MESSAGES + 1, "{rank}");
    }
}

/// A member that falls silent in the middle of its log is not waited for, and does not start the
/// log again when it resumes.
#[test]
fn p23_who_falls_silent_in_the_middle_of_its_log_is_asked_again() {
    let mut group = with_one_away();
    group.away = None;
    group.act(2, |machine, now, host| machine.trust(Rank::at(2), now, host));
    // The first parts come, and the next are lost on both links.
    for _ in 0..6 {
        let (from, to, wire) = group.links.pop_front().expect("more is on its way");
        group.act(to, |machine, now, host| machine.on_wire(pid(from), &wire, now, host));
    }
    group.links.clear();
    assert!(!group.machines[2].is_primary());
    group.trust(2);
    group.pass(20);
    assert!(group.machines[2].is_primary(), "{:?}", group.machines[2].office.phase);
    for rank in 0..3 {
        assert_eq!(group.hosts[rank].deliveries.len() as u64, N_MESSAGES, "{rank}");
    }
}

fn told(epoch: Ballot, ts: u64) -> Told {
    let id = MessageId { sender: 1, sequence: ts };
    let message = Arc::new(Message::new(id, GroupId::at(0).alone(), *b"x"));
    Told { logged: Logged { epoch, ts: Timestamp(ts), message }, at: None }
}

/// The first part of a log, or all of it.
fn part(epoch: Ballot, log: &[u64], is_last: bool) -> Part {
    let log = log.iter().map(|ts| told(epoch, *ts)).collect();
    Part { after: Timestamp::ZERO, log, is_last }
}

fn timestamps(machine: &Machine) -> Vec<u64> {
    machine.logged().map(|logged| logged.ts.0).collect()
}

/// A member repeats a promise with another log: no part of the one before is in it.
#[test]
fn p23_a_candidate_joins_no_parts_of_two_logs_of_one_member() {
    let mut group = Group::new();
    group.act(1, |machine, now, host| machine.trust(Rank::at(1), now, host));
    group.links.clear();
    let (first, epoch) = (group.machines[0].office.current, group.machines[1].office.promised);
    let members = group.machines[0].seat.members;
    let newer = Ballot::above(first, Rank::at(2));
    let (clock, floor) = (Timestamp(9), Place::default());
    let promise = |current, upto, length, part| {
        let upto = Timestamp(upto);
        PrimcastWire::Promise { epoch, clock, current, members, length, floor, upto, part }
    };
    let one = promise(newer, 5, 2, part(newer, &[1], false));
    let newest = Ballot::above(newer, Rank::at(2));
    let other = promise(newest, 7, 2, part(newest, &[2, 7], true));
    for wire in [one, other] {
        group.act(1, |machine, now, host| machine.on_wire(pid(2), &wire, now, host));
    }
    assert_eq!(timestamps(&group.machines[1]), [2, 7]);
}

/// A part of one epoch's state has come when another epoch begins, out of a log of neither that
/// epoch nor the own one.
#[test]
fn p23_a_follower_joins_no_parts_of_two_states() {
    let mut group = Group::new();
    let (first, members) = (group.machines[0].office.current, group.machines[0].seat.members);
    let one = Ballot::above(first, Rank::at(0));
    let between = Ballot::above(one, Rank::at(2));
    let other = Ballot::above(between, Rank::at(1));
    let begins = |epoch, source, part| {
        let (floor, clock, has_begun, length) = (Place::default(), Timestamp(9), false, 2);
        let source = Held { epoch: source, upto: Timestamp(7) };
        let of = Beginning { epoch, length, floor, source, part, clock, members, has_begun };
        [PrimcastWire::NewEpoch { epoch, held: Held::default() }, PrimcastWire::NewState(of)]
    };
    let wires = [
        (0, begins(one, first, part(first, &[1], false))),
        (1, begins(other, between, part(between, &[2, 7], true))),
    ];
    for (from, wires) in wires {
        for wire in wires {
            group.act(2, |machine, now, host| machine.on_wire(pid(from), &wire, now, host));
        }
    }
    assert_eq!(timestamps(&group.machines[2]), [2, 7]);
}

/// A part of one epoch's state has come, on top of the own log, when this process establishes an
/// epoch with a shorter log. The next state begins with the first: it has to come whole.
#[test]
fn p23_a_part_on_top_of_a_log_that_was_replaced_joins_no_state() {
    let config = Config { layout: Layout::new(&[5]), ..config() };
    let (mut machine, mut out) = (Machine::new(&config, pid(1), Sound), Sent::default());
    let (first, members) = (machine.office.current, machine.seat.members);
    let begins = |epoch, source, part| {
        let (floor, clock, has_begun, length) = (Place::default(), Timestamp(10), false, 10);
        let of = Beginning { epoch, length, floor, source, part, clock, members, has_begun };
        [PrimcastWire::NewEpoch { epoch, held: Held::default() }, PrimcastWire::NewState(of)]
    };
    let take = |machine: &mut Machine, out: &mut Sent, from, wires: [PrimcastWire; 2]| {
        for wire in wires {
            machine.on_wire(pid(from), &wire, Instant(1), out);
        }
    };
    let founding = Held { epoch: first, upto: Timestamp(10) };
    let own = Ballot::above(first, Rank::at(0));
    let state = begins(own, founding, part(first, &[1, 2, 3, 4, 5], true));
    take(&mut machine, &mut out, 0, state);
    assert_eq!(timestamps(&machine), [1, 2, 3, 4, 5]);

    let long = Ballot::above(own, Rank::at(2));
    let on_top = Part { after: Timestamp(5), ..part(first, &[6], false) };
    take(&mut machine, &mut out, 2, begins(long, Held { epoch: own, ..founding }, on_top));
    assert_eq!(timestamps(&machine), [1, 2, 3, 4, 5], "the rest is on its way");

    machine.trust(Rank::at(1), Instant(1), &mut out);
    let (epoch, current) = (machine.office.promised, Ballot::above(own, Rank::at(3)));
    for from in [3, 4] {
        let (clock, floor, upto, length) = (Timestamp(9), Place::default(), Timestamp(3), 3);
        let part = part(first, &[1, 2, 3], true);
        let promise =
            PrimcastWire::Promise { epoch, clock, current, members, length, floor, upto, part };
        machine.on_wire(pid(from), &promise, Instant(1), &mut out);
    }
    assert_eq!((machine.office.current, timestamps(&machine)), (epoch, alloc::vec![1, 2, 3]));

    let next = Ballot::above(epoch, Rank::at(2));
    let whole: Vec<u64> = (1..=10).collect();
    let source = Held { epoch: long, ..founding };
    take(&mut machine, &mut out, 2, begins(next, source, part(first, &whole, true)));
    assert_eq!(timestamps(&machine), whole);
}

/// The logs that came with them may be as long as what a member lacks.
#[test]
fn a_candidate_that_promises_another_epoch_forgets_the_promises_of_its_own() {
    let mut group = Group::new();
    group.act(1, |machine, now, host| machine.trust(Rank::at(1), now, host));
    assert_eq!(group.machines[1].transfer.promises.len(), 1, "the own one");
    let epoch = Ballot::above(group.machines[1].office.promised, Rank::at(2));
    let asks = PrimcastWire::NewEpoch { epoch, held: Held::default() };
    group.act(1, |machine, now, host| machine.on_wire(pid(2), &asks, now, host));
    assert_eq!(group.machines[1].office.phase, Phase::Promised);
    assert!(group.machines[1].transfer.promises.is_empty());
}
