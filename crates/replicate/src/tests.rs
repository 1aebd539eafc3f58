//! Tests of a whole door: clients in pipes, a desk that decides what it is told, a program that
//! answers each line with its length.

mod beside;
mod copies;
mod halts;
pub(crate) mod lines;
mod rest;
mod saves;
mod seats;
mod strict;
mod times;
mod turns;

use crate::bugs::Bug;
use crate::clients;
use crate::door::{GONE_AFTER, ReplicateDoor};
use crate::entry::{ConnectionId, Entry};
use crate::feeder::{self, BLOCKED_AFTER, Order, Rest};
use crate::framing::Protocol;
use crate::state::{Settings, State};
use crate::transcript::InMemory;
use crate::verdict::Output;
use base::{Incarnation, Instant, MemberSet, Rank, Slot};
use core::time::Duration;
use engine::streams::{PipeId, Pipes};
use engine::{
    Answer, Answers, Application, Asker, Desk, Door, Laid, Origin, Overdue, Sequence, View,
};
use lines::Lines;
use proto::Role;
use proto::planted::{Planted, Planting, Sound};

const ME: Rank = Rank::at(0);
const OTHER: Rank = Rank::at(1);
const RUN: Incarnation = Incarnation(7);
const PATIENCE: Duration = Duration::from_secs(5);

struct Rig<B: Planting<Bug>> {
    state: State<InMemory, B>,
    door: ReplicateDoor<Pipes, Lines, B>,
    desk: Desk,
    view: View,
    now: Instant,
    n_slots: u64,
    /// The member is slow: it is not told that legs are ready.
    is_late: bool,
}

impl<B: Planting<Bug>> Rig<B> {
    fn new(planted: B) -> Rig<B> {
        Rig::comparing(0, planted)
    }

    /// A rig whose copy is compared after so many entries.
    fn comparing(compare: u64, planted: B) -> Rig<B> {
        Rig::fed(planted, Order::Serial, Rest::Quiet, compare)
    }

    fn fed(planted: B, order: Order, rest: Rest, compare: u64) -> Rig<B> {
        let replies = (rest == Rest::Quiet).then_some(Protocol::Resp);
        Rig::told(planted, order, (rest, replies), compare)
    }

    /// A rig whose copy's rest is known by these two.
    fn told(planted: B, order: Order, by: (Rest, Option<Protocol>), compare: u64) -> Rig<B> {
        Rig::made(planted, order, by, (compare, Output::AtOnce))
    }

    fn made(
        planted: B,
        order: Order,
        by: (Rest, Option<Protocol>),
        (compare, output): (u64, Output),
    ) -> Rig<B> {
        Rig::saved_by(false, planted, order, by, (compare, output))
    }

    /// A rig whose copy is saved by its files if it `renews`.
    fn saved_by(
        renews: bool,
        planted: B,
        order: Order,
        (rest, replies): (Rest, Option<Protocol>),
        (compare, output): (u64, Output),
    ) -> Rig<B> {
        let of_clients = clients::Config {
            me: ME,
            run: RUN,
            clients_max: 3,
            input_bytes_max: 100,
            reads: replies.filter(|_| rest == Rest::Quiet && output == Output::AtOnce),
            output,
        };
        let (me, run, speaks) = (ME, RUN, replies.or(Some(Protocol::Resp)));
        let of_feeder =
            feeder::Config { me, run, order, rest, replies, speaks, compare, output, renews };
        let mut view = View::new(ME, 3);
        (view.role, view.heard) = (Role::Leader, MemberSet::all(3));
        let pipes = Pipes::new("here", 1 << 20);
        let (members, time_step_ms, checkpoint) = (3, 0, compare);
        let settings = Settings { members, compare, checkpoint, renews, time_step_ms, output };
        Rig {
            state: State::new(settings, InMemory::default(), planted),
            door: ReplicateDoor::new(of_clients, of_feeder, 3, pipes, Lines::default(), planted),
            desk: Desk::new(view, PATIENCE),
            view,
            now: Instant::ZERO,
            n_slots: 0,
            is_late: false,
        }
    }

    /// A rig whose own beginning is decided.
    fn begun(planted: B) -> Rig<B> {
        Rig::new(planted).begin()
    }

    fn begin(self) -> Rig<B> {
        let mut rig = self;
        rig.turn();
        rig.decide();
        rig.turn();
        assert!(rig.door.serves());
        rig
    }

    /// Clients and the copy move, after `passed`.
    fn turn_after(&mut self, passed: Duration) {
        self.now = self.now.plus(passed);
        self.desk.turn(self.now, self.view);
        self.door.poll(&self.state, &mut self.desk);
        self.door.resume(&mut self.state, &mut self.desk);
        let ready = self.door.program.legs.keys().filter(|_| !self.is_late);
        for key in ready.copied().collect::<Vec<_>>() {
            self.door.on_leg(key, &self.desk);
        }
        self.door.resume(&mut self.state, &mut self.desk);
        Door::<State<InMemory, B>>::flush(&mut self.door, &mut self.desk);
    }

    fn turn(&mut self) {
        self.turn_after(Duration::ZERO);
    }

    /// Applies entries of `origin`, in one value.
    fn apply(&mut self, entries: &[Vec<u8>]) {
        self.apply_at(0, entries);
    }

    /// The same, with the leader's stamp.
    fn apply_at(&mut self, stamp_ms: u64, entries: &[Vec<u8>]) {
        let mut value = Vec::new();
        self.state.begin(stamp_ms, &mut value);
        let origin = Origin { rank: OTHER, life: Incarnation(1) };
        for bytes in entries {
            self.state.append(origin, Sequence(1), bytes, 1 << 20, &mut value);
        }
        self.n_slots += 1;
        self.state.apply(Slot(self.n_slots), &value, &mut Answers::default());
        self.door.applied(&mut self.state);
    }

    /// Everything that was said is decided and answered. Returns it.
    fn decide(&mut self) -> Vec<Vec<u8>> {
        let mut said = Vec::new();
        self.desk.take(|laid| {
            let Laid::Write(asker, bytes) = laid else { panic!("{laid:?}") };
            said.push((asker, bytes.to_vec()));
            true
        });
        let entries: Vec<Vec<u8>> = said.iter().map(|(_, bytes)| bytes.clone()).collect();
        self.apply(&entries);
        said.iter().for_each(|(asker, _)| self.answer(*asker, Answer::Executed(Slot(1), &[])));
        entries
    }

    /// Nothing is decided until the deadline of all that was said.
    fn expire(&mut self) {
        self.now = self.now.plus(PATIENCE);
        self.desk.turn(self.now, self.view);
        let mut overdue = Vec::new();
        self.desk.expire(|of| overdue.push(of));
        for of in overdue {
            let Overdue::Write(asker) = of else { panic!("{of:?}") };
            self.answer(asker, Answer::Unknown);
        }
    }

    fn answer(&mut self, asker: Asker, answer: Answer<'_>) {
        Door::<State<InMemory, B>>::answer(&mut self.door, asker, answer, &mut self.desk);
    }

    /// A client that is let in.
    fn client(&mut self) -> PipeId {
        let pipe = self.door.streams.open("client");
        self.turn();
        pipe
    }

    /// A client sends bytes.
    fn ask(&mut self, client: PipeId, bytes: &[u8]) {
        self.door.streams.push(client, bytes);
        self.turn();
    }

    /// The program answers everything.
    fn answer_all(&mut self) {
        self.door.program.answer_all();
        self.turn();
    }

    fn heard(&mut self, pipe: PipeId) -> Vec<u8> {
        self.door.streams.take(pipe, usize::MAX)
    }
}

fn entry(entry: &Entry<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    entry.write(&mut bytes);
    bytes
}

/// Two clients, each with a request; the program has the first one's.
fn two_clients<B: Planting<Bug>>(rig: &mut Rig<B>) -> [PipeId; 2] {
    let pipes = [rig.client(), rig.client()];
    pipes.iter().for_each(|pipe| rig.door.streams.push(*pipe, b"SET a\r\n"));
    rig.turn();
    rig.decide();
    rig.turn();
    pipes
}

#[test]
fn c2_what_clients_say_gathers_while_their_copy_works() {
    let mut rig = Rig::begun(Sound);
    let [first, second] = two_clients(&mut rig);
    rig.answer_all();
    assert_eq!(rig.heard(first), b":5\r\n");
    rig.ask(first, b"SET c\r\n");
    assert_eq!(rig.decide().len(), 1, "the copy was given what was said before");
    rig.ask(first, b"SET d\r\n");
    assert!(rig.decide().is_empty(), "it was not given c");
    rig.answer_all();
    rig.ask(second, b"SET e\r\n");
    assert_eq!(rig.decide().len(), 2, "one value");
}

#[test]
fn a_request_is_answered_by_the_own_copy_after_it_was_decided() {
    let mut rig = Rig::begun(Sound);
    let client = rig.client();
    rig.ask(client, b"SET a\r\n");
    rig.answer_all();
    assert!(rig.door.program.seen.is_empty(), "nothing is decided");
    rig.decide();
    rig.answer_all();
    assert_eq!(rig.heard(client), b":5\r\n");
}

#[test]
fn i2_the_next_connection_waits_for_the_answer_and_the_same_one_does_not() {
    let mut rig = Rig::begun(Sound);
    let [first, second] = two_clients(&mut rig);
    assert_eq!(rig.door.program.n_unread(), 1, "the second one's input is not fed");
    rig.answer_all();
    assert_eq!(rig.door.program.n_unread(), 1, "now it is");
    rig.answer_all();
    assert_eq!([first, second].map(|pipe| rig.heard(pipe)), [b":5\r\n", b":5\r\n"]);
}

/// A program that waits for what another connection says later.
#[test]
fn i3_a_program_that_sleeps_without_an_answer_is_fed_on() {
    let mut rig = Rig::begun(Sound);
    two_clients(&mut rig);
    rig.door.program.is_busy = true;
    rig.turn_after(BLOCKED_AFTER);
    assert_eq!(rig.door.program.n_unread(), 1, "it computes");
    rig.door.program.is_busy = false;
    rig.turn_after(Duration::from_millis(1));
    assert_eq!(rig.door.program.n_unread(), 2, "it waits");
}

#[test]
fn a_client_that_leaves_ends_its_leg_at_its_place_in_the_order() {
    let mut rig = Rig::begun(Sound);
    let [first, _] = two_clients(&mut rig);
    rig.door.streams.break_off(first);
    rig.turn();
    let said = rig.decide();
    assert!(matches!(Entry::parse(&said[0]), Ok(Entry::Close { index: 2, .. })), "{said:?}");
    rig.answer_all();
    rig.answer_all();
    rig.turn();
    assert_eq!((rig.door.program.seen.len(), rig.door.program.legs.len()), (2, 1));
    assert_eq!(rig.state.table().n_open(), 1);
}

#[test]
fn a_client_that_ends_its_input_still_gets_its_answers() {
    let mut rig = Rig::begun(Sound);
    let client = rig.client();
    rig.ask(client, b"SET a\r\n");
    rig.door.streams.end(client);
    rig.turn();
    rig.decide();
    rig.answer_all();
    rig.turn();
    assert_eq!(rig.heard(client), b":5\r\n");
    assert!(rig.door.streams.is_closed(client), "the program has closed its leg");
    rig.decide();
    assert_eq!(rig.state.table().n_open(), 0);
}

#[test]
fn one_client_too_many_is_closed() {
    let mut rig = Rig::begun(Sound);
    let pipes = [0, 1, 2, 3].map(|n| rig.door.streams.open(format!("client {n}")));
    rig.turn();
    assert_eq!(pipes.map(|pipe| rig.door.streams.is_closed(pipe)), [false, false, false, true]);
}

fn after_an_unknown_outcome<B: Planting<Bug>>(planted: B) -> (bool, Vec<Vec<u8>>) {
    let mut rig = Rig::begun(planted);
    let client = rig.client();
    rig.decide();
    rig.ask(client, b"SET a\r\n");
    rig.expire();
    rig.turn();
    (rig.door.streams.is_closed(client), rig.decide())
}

#[test]
fn c3_a_connection_with_an_unknown_outcome_is_closed_and_aborted() {
    let (is_closed, said) = after_an_unknown_outcome(Sound);
    assert!(is_closed && matches!(Entry::parse(&said[0]), Ok(Entry::Abort { .. })), "{said:?}");
    let (is_closed, said) = after_an_unknown_outcome(Planted(Bug::UnknownStaysOpen));
    assert!(!is_closed && said.is_empty(), "the mistake shows");
}

#[test]
fn c4_an_abort_is_said_until_it_is_decided() {
    let says_again = |rig: &mut Rig<Planted<Bug>>| {
        let client = rig.client();
        rig.decide();
        rig.door.streams.break_off(client);
        rig.turn();
        rig.expire();
        rig.turn();
        rig.expire();
        rig.turn();
        !rig.decide().is_empty()
    };
    // A mistake elsewhere stands for none here.
    assert!(says_again(&mut Rig::begun(Planted(Bug::DeadStayOpen))));
    assert!(!says_again(&mut Rig::begun(Planted(Bug::AbortSaidOnce))), "the mistake shows");
}

fn said_about_the_dead<B: Planting<Bug>>(planted: B) -> Vec<Vec<u8>> {
    let mut rig = Rig::begun(planted);
    let run = Incarnation(3);
    let open = |number| Entry::Open { id: ConnectionId { owner: OTHER, run, number } };
    rig.apply(&[entry(&Entry::Begin { owner: OTHER, run }), entry(&open(1)), entry(&open(2))]);
    rig.view.heard.remove(OTHER);
    rig.turn();
    rig.turn_after(GONE_AFTER - Duration::from_millis(1));
    assert!(rig.decide().is_empty(), "it may only be slow");
    assert_eq!(rig.door_deadline(), Some(Instant::ZERO.plus(GONE_AFTER)));
    rig.turn_after(Duration::from_millis(1));
    let said = rig.decide();
    rig.turn();
    assert!(rig.decide().is_empty(), "once");
    said
}

/// The leader answers when it has executed; this member may be behind, and its table that of the
/// process before.
#[test]
fn c5_no_client_is_let_in_before_the_own_table_knows_the_process() {
    let mut rig = Rig::new(Sound);
    let run = Incarnation(RUN.0 - 1);
    let opened = |number| Entry::Open { id: ConnectionId { owner: ME, run, number } };
    rig.apply(&[entry(&Entry::Begin { owner: ME, run }), entry(&opened(1)), entry(&opened(2))]);
    let client = rig.client();
    let begin = Asker { connection: 0, request: 0 };
    rig.answer(begin, Answer::Executed(Slot(9), &[]));
    rig.turn();
    assert!(!rig.door.serves() && rig.door.streams.has_incoming());
    rig.decide();
    rig.turn();
    assert!(rig.door.serves());
    rig.turn();
    assert!(!rig.door.streams.has_incoming() && !rig.door.streams.is_closed(client));
}

/// The others may take a process for dead that is only cut off. Its clients were never answered
/// again.
#[test]
fn d2_clients_of_a_process_that_was_taken_for_dead_are_closed() {
    let mut rig = Rig::begun(Sound);
    let client = rig.client();
    rig.decide();
    rig.apply(&[entry(&Entry::Gone { owner: ME, run: RUN, below: 2 })]);
    rig.turn();
    assert!(rig.door.streams.is_closed(client));
    assert_eq!(rig.state.table().n_open(), 0);
    let again = rig.client();
    rig.ask(again, b"SET a\r\n");
    rig.decide();
    rig.answer_all();
    assert_eq!(rig.heard(again), b":5\r\n", "the next one is served");
}

/// What has come behind the last one that the leader knew is as open in the copy as in the table.
#[test]
fn d2_a_connection_that_was_opened_behind_the_word_about_the_dead_stays_in_the_copy() {
    let mut rig = Rig::begun(Sound);
    let clients = [rig.client(), rig.client()];
    rig.decide();
    rig.apply(&[entry(&Entry::Gone { owner: ME, run: RUN, below: 2 })]);
    rig.turn();
    let closed = clients.map(|client| rig.door.streams.is_closed(client));
    assert_eq!((closed, rig.state.table().n_open()), ([true, false], 1));
    assert_eq!(rig.door.feeder().legs().count(), 1);
    rig.ask(clients[1], b"SET a\r\n");
    rig.decide();
    rig.answer_all();
    assert_eq!(rig.heard(clients[1]), b":5\r\n");
}

impl<B: Planting<Bug>> Rig<B> {
    fn door_deadline(&self) -> Option<Instant> {
        Door::<State<InMemory, B>>::deadline(&self.door)
    }
}

#[test]
fn d2_the_connections_of_a_dead_member_are_ended_by_the_leader() {
    let said = said_about_the_dead(Sound);
    let gone = Entry::Gone { owner: OTHER, run: Incarnation(3), below: 3 };
    assert_eq!(said, [entry(&gone)]);
    assert!(said_about_the_dead(Planted(Bug::DeadStayOpen)).is_empty(), "the mistake shows");
}

#[test]
fn d2_a_leader_that_is_cut_off_itself_ends_no_connection() {
    let mut rig = Rig::begun(Sound);
    let run = Incarnation(3);
    let id = ConnectionId { owner: OTHER, run, number: 1 };
    rig.apply(&[entry(&Entry::Begin { owner: OTHER, run }), entry(&Entry::Open { id })]);
    rig.view.heard = MemberSet::EMPTY;
    rig.view.heard.insert(ME);
    rig.turn();
    rig.turn_after(GONE_AFTER);
    assert!(rig.decide().is_empty(), "it would be decided when the link is back");
    rig.view.heard.insert(Rank::at(2));
    rig.turn();
    assert_eq!(rig.decide().len(), 1, "a majority does not hear it");
}

/// A socket whose two directions have ended is reported whatever it is watched for.
#[test]
fn a_client_that_is_not_read_and_breaks_off_is_closed() {
    let mut rig = Rig::begun(Sound);
    let client = rig.client();
    rig.ask(client, b"SET a\r\n");
    rig.door.streams.end(client);
    rig.turn();
    rig.door.streams.break_off(client);
    rig.turn();
    assert!(rig.door.streams.ready().is_empty(), "the loop would not sleep");
    rig.decide();
    assert_eq!(rig.state.table().n_open(), 0);
}

#[test]
fn a_process_that_a_later_one_of_its_member_has_followed_stops() {
    let mut rig = Rig::begun(Sound);
    assert_eq!(rig.door.failure(&rig.state), None);
    rig.apply(&[entry(&Entry::Begin { owner: ME, run: Incarnation(RUN.0 + 1) })]);
    assert!(rig.door.failure(&rig.state).is_some(), "what its clients say is not executed");
}

#[test]
fn i2_a_request_that_cannot_be_counted_is_waited_for() {
    let mut rig = Rig::begun(Sound);
    let pipes = [rig.client(), rig.client()];
    rig.ask(pipes[0], b"*1\r\nno request\r\n");
    rig.ask(pipes[1], b"SET a\r\n");
    rig.decide();
    rig.door.program.is_busy = true;
    rig.turn_after(BLOCKED_AFTER);
    assert_eq!(rig.door.program.n_unread(), 1, "the program has not answered, and does not sleep");
    rig.door.program.is_busy = false;
    rig.turn_after(Duration::from_millis(1));
    assert_eq!(rig.door.program.n_unread(), 2);
}

/// A program with a thread for each connection: the second one's request wakes the first one's
/// thread, which then computes, and changes what a third one sees.
#[test]
fn i3_what_a_blocked_connection_does_when_it_wakes_is_waited_for() {
    let mut rig = Rig::begun(Sound);
    two_clients(&mut rig);
    let run = Incarnation(3);
    let id = ConnectionId { owner: OTHER, run, number: 1 };
    let input = Entry::Input { id, index: 1, bytes: b"GET a\r\n" };
    let third = [Entry::Begin { owner: OTHER, run }, Entry::Open { id }, input];
    rig.apply(&third.map(|of| entry(&of)));
    rig.turn_after(BLOCKED_AFTER);
    assert_eq!(
        (rig.door.program.legs.len(), rig.door.program.n_unread()),
        (2, 2),
        "the first one is blocked"
    );
    // The second one is answered, and has unblocked the first one.
    rig.door.program.is_busy = true;
    let (input, output, _) = rig.door.program.legs.get_mut(&1).unwrap();
    input.clear();
    output.extend(b"+OK\r\n");
    rig.turn();
    rig.turn();
    assert_eq!(rig.door.program.n_unread(), 1, "the first one's thread runs");
    rig.door.program.is_busy = false;
    rig.turn_after(Duration::from_millis(1));
    assert_eq!(rig.door.program.n_unread(), 2);
}

/// A listening socket is reported as long as a client waits.
#[test]
fn clients_are_accepted_without_room_and_opened_later() {
    let mut rig = Rig::begun(Sound);
    let void = entry(&Entry::Begin { owner: ME, run: RUN });
    while rig.desk.has_room() {
        rig.desk.write(Asker { connection: 99, request: 0 }, &void);
    }
    let pipes = [0, 1].map(|n| rig.door.streams.open(format!("client {n}")));
    rig.ask(pipes[1], b"SET a\r\n");
    assert!(!rig.door.streams.has_incoming(), "the loop would not sleep");
    assert!(rig.door.streams.ready().is_empty(), "nor now");
    rig.door.streams.break_off(pipes[0]);
    rig.turn();
    rig.decide();
    rig.turn();
    rig.turn();
    let said: Vec<Vec<u8>> = rig.decide();
    let said: Vec<Entry<'_>> = said.iter().map(|bytes| Entry::parse(bytes).unwrap()).collect();
    let id = |number| ConnectionId { owner: ME, run: RUN, number };
    let (abort, open) = (Entry::Abort { id: id(1) }, Entry::Open { id: id(2) });
    assert_eq!(said, [abort, open, Entry::Input { id: id(2), index: 1, bytes: b"SET a\r\n" }]);
    assert_eq!(rig.state.table().n_open(), 1);
}
