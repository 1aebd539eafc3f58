//! Wire messages, and rules that need no world.

use super::*;
use crate::amcast::linear::Level;
use crate::amcast::outbox::Outbox;
use crate::amcast::{Deliveries, GroupId, Layout, Seen, To};
use crate::planted::Planted;
use crate::stage::bytes::golden_bytes;
use alloc::collections::BTreeSet;

#[test]
fn golden_bytes_of_each_message() {
    let id = MessageId { sender: 3, sequence: 900 };
    let dest = GroupSet::all(3).without(GroupId::at(1));
    let listed = Listed { bound: Timestamp(7), id, dest, level: Level(1) };
    let report = Report {
        epoch: Ballot(9),
        clock: Timestamp(77),
        as_primary: true,
        delivered: (Timestamp(70), id),
        listed: alloc::vec![listed],
        members: Some(Arc::new((Ballot(9), Members::founders(3, Ballot(1))))),
    };
    let message = Arc::new(Message { after: Timestamp(2), ..Message::new(id, dest, *b"x") });
    let log = alloc::vec![Logged { epoch: Ballot(1), ts: Timestamp(4), message: message.clone() }];
    let held = Held { epoch: Ballot(1), upto: Timestamp(4) };
    let told = [None, Some(Timestamp(6))];
    let told = told.map(|at| Told { logged: log[0].clone(), at });
    let part = Part { after: Timestamp(3), log: told.to_vec(), is_last: true };
    let examples = [
        PrimcastWire::Ack {
            id,
            dest,
            epoch: Ballot(1),
            ts: Timestamp(4),
            chosen: true,
            report: report.clone(),
        },
        PrimcastWire::Clock(report.clone()),
        PrimcastWire::Proposals {
            dest,
            epoch: Ballot(1),
            batch: alloc::vec![(id, Timestamp(4)), (id, Timestamp(9)), (id, Timestamp(2))],
            report: Some(report.clone()),
        },
        PrimcastWire::Acked { epoch: Ballot(1), upto: Timestamp(4), report: report.clone() },
        PrimcastWire::Raise { ts: Timestamp(4), to: dest },
        PrimcastWire::Pull { id, dest, body: true },
        PrimcastWire::Body(message),
        PrimcastWire::NewEpoch { epoch: Ballot(10), held },
        PrimcastWire::More { epoch: Ballot(10), after: Timestamp(4) },
        PrimcastWire::Promise {
            epoch: Ballot(10),
            clock: Timestamp(5),
            current: Ballot(1),
            members: Members::founders(3, Ballot(1)),
            length: 8,
            floor: (Timestamp(3), id),
            upto: Timestamp(4),
            part: part.clone(),
        },
        PrimcastWire::NewState(Beginning {
            epoch: Ballot(10),
            length: 8,
            floor: (Timestamp(3), id),
            source: held,
            part,
            clock: Timestamp(5),
            members: Members::founders(3, Ballot(1)),
            has_begun: true,
        }),
        PrimcastWire::Join { incarnation: Incarnation(3), promised: Ballot(12) },
        PrimcastWire::Parted(Incarnation(2)),
        PrimcastWire::Delivered((Timestamp(9), id)),
        PrimcastWire::Returned,
        PrimcastWire::Final { id, at: Timestamp(9) },
        PrimcastWire::Stand(Ballot(9)),
        PrimcastWire::Fetch((Timestamp(9), id)),
        PrimcastWire::Forgotten((Timestamp(9), id)),
        PrimcastWire::State(Handover {
            through: (Timestamp(9), id),
            floor: (Timestamp(3), id),
            audience: dest,
            seen: Seen::default(),
            kept: log.iter().map(|one| (Timestamp(8), one.message.clone())).collect(),
            app: alloc::vec![3],
        }),
    ];
    golden_bytes("amcast/primcast/scripts/bytes.txt", &examples);
}

/// A host that keeps the messages sent.
type Sent = Outbox<PrimcastWire, Vec<(MessageId, Timestamp)>>;

/// Deliveries to an application with states that no test asks for.
#[derive(Debug, Default)]
pub(super) struct Stateful;

impl Deliveries for Stateful {
    fn deliver(&mut self, _: &Arc<Message>, _: Timestamp) {}

    fn keeps_states(&self) -> bool {
        true
    }
}

impl Sent {
    /// The clock reports among the messages sent.
    fn reports(&self) -> impl Iterator<Item = (To, &Report)> {
        self.sent.iter().filter_map(|(to, wire)| match wire {
            PrimcastWire::Clock(report) => Some((*to, report)),
            _ => None,
        })
    }
}

fn pid(group: usize, rank: usize) -> Pid {
    Pid { group: GroupId::at(group), rank: Rank::at(rank) }
}

fn config() -> Config {
    Config {
        layout: Layout::new(&[3, 3]),
        rule: Rule::Hop,
        hybrid: false,
        patience: core::time::Duration::from_millis(40),
        commutes: false,
        part_bytes: 64 << 10,
        retain: 100,
        retain_bytes: usize::MAX,
    }
}

fn machine(me: Pid) -> Machine {
    Machine::new(&config(), me, Sound)
}

/// A message by which the other group's primary gives the timestamp 9.
fn remote_proposal() -> PrimcastWire {
    let epoch = Ballot::above(Ballot::NONE, Rank::at(0));
    PrimcastWire::Ack {
        id: MessageId { sender: 1, sequence: 1 },
        dest: GroupSet::all(2),
        epoch,
        ts: Timestamp(9),
        chosen: false,
        report: Report {
            epoch,
            clock: Timestamp(9),
            as_primary: true,
            delivered: Default::default(),
            listed: Vec::new(),
            members: None,
        },
    }
}

/// With more messages undelivered than one tick asks about, the first of them were asked about
/// again and again. The others' bodies never came, and the group stood still for ever.
#[test]
fn each_undelivered_message_is_asked_about_in_turn() {
    let (mut machine, mut out) = (machine(pid(0, 1)), Sent::default());
    let n_messages = 2 * PULLS_MAX as u64 + 1;
    for sequence in 1..=n_messages {
        let PrimcastWire::Ack { dest, epoch, chosen, report, .. } = remote_proposal() else {
            unreachable!("it is one");
        };
        let (id, ts) = (MessageId { sender: 1, sequence }, Timestamp(9 + sequence));
        let ack = PrimcastWire::Ack { id, dest, epoch, ts, chosen, report };
        machine.on_wire(pid(1, 0), &ack, Instant(1), &mut out);
    }
    machine.settle(Instant(1), &mut out);
    let mut asked = BTreeSet::new();
    for n_ticks in 1..=3 {
        let mut out = Sent::default();
        machine.tick(Instant::ZERO.plus(core::time::Duration::from_millis(50) * n_ticks), &mut out);
        asked.extend(out.sent.iter().filter_map(|(_, wire)| match wire {
            PrimcastWire::Pull { id, .. } => Some(id.sequence),
            _ => None,
        }));
    }
    assert!(asked.into_iter().eq(1..=n_messages));
}

/// Only processes that died had it, say: then no answer comes.
#[test]
fn a_message_that_nothing_here_waits_for_is_asked_about_ever_more_seldom() {
    let (mut machine, patience) = (machine(pid(0, 1)), config().patience);
    let at = |n_patiences| Instant(1).plus(patience * n_patiences);
    let mut out = Sent::default();
    machine.on_wire(pid(1, 0), &remote_proposal(), at(0), &mut out);
    machine.settle(at(0), &mut out);
    let PrimcastWire::Ack { id, dest, .. } = remote_proposal() else { unreachable!("it is one") };
    let asks = |machine: &mut Machine, n_patiences| {
        let mut out = Sent::default();
        machine.tick(at(n_patiences), &mut out);
        out.sent.contains(&(To::Groups(dest), PrimcastWire::Pull { id, dest, body: true }))
    };
    let asked: Vec<u32> = (1..=80).filter(|n| asks(&mut machine, *n)).collect();
    assert_eq!(asked, [1, 3, 7, 15, 31, 47, 63, 79]);
    // Another process has it.
    let pull = PrimcastWire::Pull { id, dest, body: false };
    machine.on_wire(pid(1, 1), &pull, at(80), &mut out);
    let asked: Vec<u32> = (81..=90).filter(|n| asks(&mut machine, *n)).collect();
    assert_eq!(asked, [81, 83, 87]);
    // The own primary's log waits for it.
    let (epoch, ts) = (machine.office.current, Timestamp(3));
    let proposals =
        PrimcastWire::Proposals { dest, epoch, batch: alloc::vec![(id, ts)], report: None };
    machine.on_wire(pid(0, 0), &proposals, at(90), &mut out);
    machine.settle(at(90), &mut out);
    assert!((91..=100).all(|n| asks(&mut machine, n)));
}

/// The members when the system begins.
fn founders() -> Members {
    Members::founders(3, Ballot::above(Ballot::NONE, Rank::at(0)))
}

/// Line 50: a process that has promised must not lend its clock to the epoch before.
#[test]
fn a_clock_is_reported_under_the_promised_epoch() {
    let (mut machine, mut out) = (machine(pid(0, 1)), Sent::default());
    let epoch = Ballot::above(machine.office.promised, Rank::at(2));
    machine.on_wire(
        pid(0, 2),
        &PrimcastWire::NewEpoch { epoch, held: Held::default() },
        Instant(1),
        &mut out,
    );
    machine.settle(Instant(1), &mut out);
    machine.on_wire(pid(1, 0), &remote_proposal(), Instant(2), &mut out);
    machine.settle(Instant(2), &mut out);
    let (_, report) = out.reports().next().expect("its clock was raised");
    assert_eq!((report.epoch, report.clock), (epoch, Timestamp(9)));
}

/// A candidate's reports prove nothing, so it repeats them once it leads.
#[test]
fn a_new_primary_reports_again() {
    let (mut machine, mut out) = (machine(pid(0, 1)), Sent::default());
    machine.trust(Rank::at(1), Instant(1), &mut out);
    machine.settle(Instant(1), &mut out);
    let epoch = machine.office.promised;
    machine.on_wire(pid(1, 0), &remote_proposal(), Instant(2), &mut out);
    machine.settle(Instant(2), &mut out);
    assert!(out.reports().all(|(_, report)| !report.as_primary), "it is a candidate");
    let promise = PrimcastWire::Promise {
        epoch,
        clock: Timestamp(3),
        current: Ballot::above(Ballot::NONE, Rank::at(0)),
        members: founders(),
        length: 0,
        floor: Default::default(),
        upto: Timestamp::ZERO,
        part: Part { is_last: true, ..Part::default() },
    };
    machine.on_wire(pid(0, 2), &promise, Instant(3), &mut out);
    machine.settle(Instant(3), &mut out);
    assert!(!machine.is_primary(), "a quorum has to accept first");
    let report = Report {
        epoch,
        clock: Timestamp(9),
        as_primary: false,
        delivered: Default::default(),
        listed: Vec::new(),
        members: None,
    };
    let accept = PrimcastWire::Accept { epoch, report };
    machine.on_wire(pid(0, 2), &accept, Instant(4), &mut out);
    machine.settle(Instant(4), &mut out);
    assert!(machine.is_primary());
    let (to, report) = out.reports().last().expect("it reports again");
    assert!(report.as_primary && report.clock == Timestamp(9));
    assert_eq!(to, To::Groups(GroupId::at(1).alone()));
}

fn acks(out: &Sent) -> usize {
    out.sent.iter().filter(|(_, wire)| matches!(wire, PrimcastWire::Ack { .. })).count()
}

/// Reads back a machine's stable storage, and asks about a message that NEW-STATE had brought.
fn acknowledges_after_a_crash<P: Planting<Bug>>(planted: P, has_begun: bool) -> bool {
    let mut out = Sent::default();
    let mut machine = Machine::new(&config(), pid(0, 1), planted);
    let (mut whole, mut changes) = (Vec::new(), Vec::new());
    machine.stable(&mut whole);
    let first = machine.office.current;
    let epoch = Ballot::above(machine.office.promised, Rank::at(2));
    machine.on_wire(
        pid(0, 2),
        &PrimcastWire::NewEpoch { epoch, held: Held::default() },
        Instant(1),
        &mut out,
    );
    let id = MessageId { sender: 1, sequence: 1 };
    let dest = GroupId::at(0).alone();
    let message = Arc::new(Message::new(id, dest, *b"x"));
    let told = Told { logged: Logged { epoch: first, ts: Timestamp(4), message }, at: None };
    let part = Part { after: Timestamp::ZERO, log: alloc::vec![told], is_last: true };
    let (floor, clock) = (Place::default(), Timestamp(4));
    let (members, has_begun_before) = (founders(), false);
    let state = PrimcastWire::NewState(Beginning {
        epoch,
        length: 1,
        floor,
        source: Held { epoch: first, upto: Timestamp(4) },
        part,
        clock,
        members,
        has_begun: has_begun_before,
    });
    machine.on_wire(pid(0, 2), &state, Instant(2), &mut out);
    if has_begun {
        let (clock, delivered) = (Timestamp(4), Place::default());
        let (as_primary, listed, members) = (false, Vec::new(), None);
        let report = Report { epoch, clock, as_primary, delivered, listed, members };
        let accept = PrimcastWire::Accept { epoch, report };
        machine.on_wire(pid(0, 2), &accept, Instant(3), &mut out);
    }
    machine.settle(Instant(4), &mut out);
    machine.changes(&mut changes);
    let mut out = Sent::default();
    let all: [&[u8]; 1] = [&changes];
    let (config, now) = (config(), Instant(5));
    let restored = Machine::restore(&config, pid(0, 1), planted, &whole, &all, now, &mut out);
    let mut machine = restored.expect("it wrote that");
    assert_eq!((machine.office.promised, machine.office.current), (epoch, epoch), "P10");
    machine.settle(Instant(5), &mut out);
    let returned = out.sent.iter().filter(|(_, wire)| *wire == PrimcastWire::Returned);
    assert_eq!(returned.count(), 1, "P12");
    let pull = PrimcastWire::Pull { id, dest, body: false };
    machine.on_wire(pid(0, 2), &pull, Instant(6), &mut out);
    acks(&out) > 0
}

#[test]
fn p13_what_an_epoch_that_has_not_begun_brought_is_not_acknowledged() {
    assert!(acknowledges_after_a_crash(Sound, true));
    assert!(!acknowledges_after_a_crash(Sound, false), "P13");
    assert!(acknowledges_after_a_crash(Planted(Bug::AckUnbegun), false), "the bug says too much");
}

/// Whether a member asks for another epoch, two patiences after it came back with nothing, or after
/// the NEW-EPOCH that it heard then.
fn asks_for_another_epoch(is_asked: bool) -> bool {
    let (mut whole, mut out) = (Vec::new(), Sent::default());
    let mut before = machine(pid(0, 1));
    before.stable(&mut whole);
    let epoch = Ballot::above(before.office.promised, Rank::at(2));
    let (config, now) = (config(), Instant(1));
    let restored = Machine::restore(&config, pid(0, 1), Sound, &whole, &[], now, &mut out);
    let mut machine = restored.expect("it wrote that");
    machine.trust(Rank::at(2), Instant(2), &mut out);
    if is_asked {
        let asks = PrimcastWire::NewEpoch { epoch, held: Held::default() };
        machine.on_wire(pid(0, 2), &asks, Instant(3), &mut out);
    }
    let later = Instant(4).plus(2 * config.patience);
    machine.tick(later, &mut out);
    out.sent.iter().any(|(_, wire)| matches!(wire, PrimcastWire::Stand(_)))
}

/// Else an epoch that takes longer to begin than a patience never begins.
#[test]
fn one_that_came_back_waits_for_an_epoch_that_it_promised_since() {
    assert!(asks_for_another_epoch(false), "P11: it cannot follow in the old one");
    assert!(!asks_for_another_epoch(true), "the new one has not begun yet");
}

/// P24: the ACCEPTs of processes that died were lost with them. A member that lacked these waited
/// for ever, although the epoch had begun.
#[test]
fn p24_a_member_that_lacks_accepts_learns_that_its_epoch_has_begun() {
    let (mut primary, mut out) = (machine(pid(0, 0)), Sent::default());
    let epoch = primary.office.current;
    let held = Held { epoch, upto: Timestamp(3) };
    let waits = PrimcastWire::NewEpoch { epoch, held };
    primary.on_wire(pid(0, 1), &waits, Instant(1), &mut out);
    let [(To::One(to), PrimcastWire::NewState(beginning))] = &out.sent[..] else {
        panic!("{:?}", out.sent);
    };
    assert!(*to == pid(0, 1) && beginning.epoch == epoch && beginning.has_begun);
}

/// Cut bytes, or another process's, are no state.
#[test]
fn what_nobody_wrote_is_refused() {
    let mut whole = Vec::new();
    machine(pid(0, 1)).stable(&mut whole);
    let mut host = Sent::default();
    let mut read = |whole: &[u8], changes: &[&[u8]]| {
        Machine::restore(&config(), pid(0, 1), Sound, whole, changes, Instant(1), &mut host).is_ok()
    };
    assert!(read(&whole, &[]));
    assert!(!read(&whole[1..], &[]) && !read(&whole[..whole.len() - 1], &[]));
    assert!(!read(&whole, &[&[9]]));
}

/// The destination that is told at the same time has the proposal in its own log; the other group
/// knows of it from the list alone.
#[test]
fn a_proposal_is_listed_for_a_group_that_is_told_together_with_a_destination() {
    let config = Config { layout: Layout::new(&[1, 1, 1]), ..config() };
    let mut machine = Machine::new(&config, pid(0, 0), Sound);
    let mut out = Sent::default();
    let [own, destination, other] = [0, 1, 2].map(|group| GroupId::at(group).alone());
    let id = MessageId { sender: 1, sequence: 1 };
    let message = Arc::new(Message::new(id, own.union(destination), *b"x"));
    machine.on_start(&message, Instant(1), &mut out);
    machine.settle(Instant(1), &mut out);
    let mut list = |to| machine.list(to).iter().map(|one| one.id).collect::<Vec<_>>();
    assert_eq!(list(destination), [], "it stands in the log there");
    assert_eq!(list(other), [id]);
    assert_eq!(list(destination.union(other)), [id]);
}

/// The primary of another group's second epoch has reported; then a report comes that the first
/// epoch's primary has sent before.
fn hears_an_older_primary<P: Planting<Bug>>(planted: P) {
    let mut machine = Machine::new(&config(), pid(0, 0), planted);
    let seats = &mut machine.clocks[1].seats;
    let founders = *seats.newest();
    let (first, second) = (founders.since, Ballot::above(founders.since, Rank::at(1)));
    seats.learn(second, &founders);
    machine.hear(pid(1, 0), first, Timestamp(5), true, &[]);
    machine.hear(pid(1, 2), second, Timestamp(9), false, &[]);
    machine.hear(pid(1, 1), second, Timestamp(9), true, &[]);
    assert_eq!(machine.horizon.past(GroupId::at(1)), Timestamp(9));
    machine.hear(pid(1, 0), first, Timestamp(7), true, &[]);
}

/// No rule asks for them: they stayed for ever, one of each member and epoch.
#[test]
fn clocks_of_another_groups_earlier_epochs_are_forgotten() {
    for rule in [Rule::Plain, Rule::AllGroups] {
        let mut machine = Machine::new(&Config { rule, ..config() }, pid(0, 0), Sound);
        let mut epoch = machine.clocks[1].seats.newest().since;
        for n in 1..=20 {
            epoch = Ballot::above(epoch, Rank::at(n % 3));
            for rank in 0..3 {
                let clock = Timestamp(n as u64);
                machine.hear(pid(1, rank), epoch, clock, rank == n % 3, &[]);
            }
        }
        assert!(machine.clocks[1].n_reports() <= 2 * 4, "{rule:?}");
    }
}

#[test]
fn lr4_an_older_primarys_list_does_not_replace_the_newest_ones() {
    hears_an_older_primary(Sound);
}

#[test]
#[should_panic(expected = "LR4")]
fn lr4_a_list_of_an_older_primary_is_seen() {
    hears_an_older_primary(Planted(Bug::OlderList));
}
