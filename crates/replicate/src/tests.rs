//! Tests of a whole door: clients in pipes, a desk that decides what it is told, a program that
//! answers each line with its length.

mod turns;

use crate::bugs::Bug;
use crate::clients;
use crate::door::{GONE_AFTER, ReplicateDoor, WhenSplit};
use crate::entry::{ConnectionId, Entry};
use crate::feeder::{self, BLOCKED_AFTER, Order, Rest};
use crate::program::{Connected, Program, Repose};
use crate::state::{Settings, State};
use crate::transcript::InMemory;
use base::{Incarnation, Instant, MemberSet, Rank, Slot};
use core::time::Duration;
use engine::streams::{Broken, Interest, PipeId, Pipes, Received};
use engine::{
    Answer, Answers, Application, Asker, Desk, Door, Laid, Origin, Overdue, Sequence, View,
};
use proto::Role;
use proto::planted::{Planted, Planting, Sound};
use std::collections::BTreeMap;

const ME: Rank = Rank::at(0);
const OTHER: Rank = Rank::at(1);
const RUN: Incarnation = Incarnation(7);
const PATIENCE: Duration = Duration::from_secs(5);

/// A program that answers "$N" with the length of each line in Redis's framing, when it is told to.
#[derive(Debug, Default)]
struct Lines {
    legs: BTreeMap<u64, (Vec<u8>, Vec<u8>, bool)>,
    /// Every line that was read, in order.
    seen: Vec<Vec<u8>>,
    is_started: bool,
    restored: Vec<u8>,
    saved: Vec<u8>,
    is_busy: bool,
    /// The bytes of one leg that it leaves unread, at most; 0 for any number.
    room_bytes: usize,
    /// It looks at nothing.
    is_held: bool,
    /// It does not close a leg whose input has ended, and computes when the leg is closed.
    keeps_legs: bool,
}

impl Lines {
    /// The legs with input that was not read.
    fn n_unread(&self) -> usize {
        self.legs.values().filter(|(input, ..)| !input.is_empty()).count()
    }

    fn answer_all(&mut self) {
        assert!(!self.is_held, "it was released");
        for (input, output, _) in self.legs.values_mut() {
            for line in std::mem::take(input).split_inclusive(|byte| *byte == b'\n') {
                self.seen.push(line.trim_ascii_end().to_vec());
                output.extend(format!(":{}\r\n", line.trim_ascii_end().len()).bytes());
            }
        }
    }
}

impl Program for Lines {
    fn restore(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.restored.extend_from_slice(bytes);
        Ok(())
    }

    fn start(&mut self) -> Result<(), String> {
        assert!(!std::mem::replace(&mut self.is_started, true), "it was started");
        let lines = self.restored.split(|byte| *byte == b'\n');
        self.seen = lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
        Ok(())
    }

    /// The lines that it has seen.
    fn save(&mut self) -> Result<Option<u64>, String> {
        self.saved = self.seen.join(&b'\n');
        Ok(Some(self.saved.len() as u64))
    }

    fn read_saved(&mut self, at: u64, into: &mut [u8]) -> Result<usize, String> {
        let there = &self.saved[at as usize..];
        let n = there.len().min(into.len());
        into[..n].copy_from_slice(&there[..n]);
        Ok(n)
    }

    fn connect(&mut self, key: u64) -> Connected {
        self.legs.insert(key, Default::default());
        Connected::Done
    }

    fn read(&mut self, key: u64, into: &mut [u8]) -> Result<Received, Broken> {
        let (input, output, has_ended) = self.legs.get_mut(&key).ok_or(Broken)?;
        let n = output.len().min(into.len());
        into[..n].copy_from_slice(&output[..n]);
        output.drain(..n);
        Ok(match n {
            0 if *has_ended && input.is_empty() && !self.keeps_legs => Received::End,
            0 => Received::Nothing,
            n => Received::Bytes(n),
        })
    }

    fn write(&mut self, key: u64, bytes: &[u8]) -> Result<usize, Broken> {
        let (input, _, _) = self.legs.get_mut(&key).ok_or(Broken)?;
        let n = match self.room_bytes {
            0 => bytes.len(),
            room => bytes.len().min(room.saturating_sub(input.len())),
        };
        input.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn end(&mut self, key: u64) {
        self.legs.get_mut(&key).expect("an open leg").2 = true;
    }

    fn watch(&mut self, _: u64, _: Interest) -> Result<(), Broken> {
        Ok(())
    }

    fn close(&mut self, key: u64) {
        self.legs.remove(&key);
        self.is_busy |= self.keeps_legs;
    }

    fn is_asleep(&mut self) -> bool {
        !self.is_busy
    }

    fn repose(&mut self) -> Repose {
        let rests = !self.is_busy && self.n_unread() == 0;
        if rests { Repose::AtRest } else { Repose::Moves }
    }

    fn hold(&mut self) -> bool {
        self.is_held = self.repose() == Repose::AtRest;
        self.is_held
    }

    fn let_go(&mut self) {
        self.is_held = false;
    }
}

struct Rig<B: Planting<Bug>> {
    state: State<InMemory, B>,
    door: ReplicateDoor<Pipes, Lines, B>,
    desk: Desk,
    view: View,
    now: Instant,
    n_slots: u64,
}

impl<B: Planting<Bug>> Rig<B> {
    fn new(planted: B) -> Rig<B> {
        Rig::comparing(0, planted)
    }

    /// A rig whose copy is compared after so many entries.
    fn comparing(compare: u64, planted: B) -> Rig<B> {
        Rig::fed(planted, Order::Serial, Rest::Resp, compare)
    }

    fn fed(planted: B, order: Order, rest: Rest, compare: u64) -> Rig<B> {
        let of_clients = clients::Config { me: ME, run: RUN, clients_max: 2, input_bytes_max: 100 };
        let of_feeder = feeder::Config { me: ME, run: RUN, order, rest, compare };
        let mut view = View::new(ME, 3);
        (view.role, view.heard) = (Role::Leader, MemberSet::all(3));
        let pipes = Pipes::new("here", 1 << 20);
        let settings = Settings { members: 3, compare, checkpoint: compare };
        Rig {
            state: State::new(settings, InMemory::default(), planted),
            door: ReplicateDoor::new(of_clients, of_feeder, 3, pipes, Lines::default(), planted),
            desk: Desk::new(view, PATIENCE),
            view,
            now: Instant::ZERO,
            n_slots: 0,
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
        for key in self.door.program.legs.keys().copied().collect::<Vec<_>>() {
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
        let mut value = Vec::new();
        self.state.begin(0, &mut value);
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
    let pipes = [0, 1, 2].map(|n| rig.door.streams.open(format!("client {n}")));
    rig.turn();
    assert_eq!(pipes.map(|pipe| rig.door.streams.is_closed(pipe)), [false, false, true]);
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

/// A connection's thread waits for a lock, and its client continues to send.
#[test]
fn i3_a_blocked_connection_that_is_not_read_does_not_stop_the_others() {
    let mut rig = Rig::begun(Sound);
    rig.door.program.room_bytes = 10;
    let pipes = [rig.client(), rig.client()];
    let inputs: [(usize, &[u8]); 3] = [(0, b"LOCK a\r\nSET b"), (0, b"\r\n"), (1, b"UNLOCK\r\n")];
    for (n, input) in inputs {
        rig.ask(pipes[n], input);
    }
    rig.door.streams.end(pipes[0]);
    rig.turn();
    rig.decide();
    for _ in 0..4 {
        rig.turn_after(BLOCKED_AFTER);
    }
    assert!(rig.door.program.legs[&1].0 == b"UNLOCK\r\n", "it would end the wait");
    assert!(!rig.door.program.legs[&0].2, "the input has not ended");
    for _ in 0..4 {
        rig.door.program.answer_all();
        rig.turn_after(BLOCKED_AFTER);
    }
    assert_eq!(rig.door.program.seen.len(), 4, "pieces of lines among them");
    assert_eq!(rig.door.program.legs.len(), 1, "the first one has ended");
}

#[test]
fn i2_what_a_program_does_about_a_leg_that_it_loses_is_waited_for() {
    let mut rig = Rig::begun(Sound);
    rig.door.program.keeps_legs = true;
    let pipes = [rig.client(), rig.client()];
    rig.decide();
    rig.door.streams.break_off(pipes[0]);
    rig.turn();
    rig.ask(pipes[1], b"SET a\r\n");
    rig.decide();
    rig.turn_after(BLOCKED_AFTER);
    rig.turn();
    assert!(rig.door.program.is_busy && rig.door.program.legs.len() == 1);
    assert_eq!(rig.door.program.n_unread(), 0, "it has not done with the first one");
    rig.door.program.is_busy = false;
    rig.turn_after(Duration::from_millis(1));
    assert_eq!(rig.door.program.n_unread(), 1);
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

/// The hash that the rig says after its own beginning, an opening and a request.
fn said_at_point<B: Planting<Bug>>(rig: &mut Rig<B>) -> (PipeId, Vec<Vec<u8>>) {
    let client = rig.client();
    rig.ask(client, b"SET a\r\n");
    rig.decide();
    rig.turn();
    (client, rig.decide())
}

fn hash_of(said: &[Vec<u8>]) -> Option<(u64, u64)> {
    let entries = said.iter().map(|bytes| Entry::parse(bytes).unwrap());
    entries.into_iter().find_map(|entry| match entry {
        Entry::Hash { at, value, .. } => Some((at, value)),
        _ => None,
    })
}

#[test]
fn i6_a_hash_is_said_when_the_program_has_answered_and_sleeps() {
    let mut rig = Rig::comparing(3, Sound).begin();
    let (_, said) = said_at_point(&mut rig);
    assert_eq!(hash_of(&said), None, "it has not answered");
    rig.door.program.is_busy = true;
    rig.answer_all();
    rig.turn();
    assert_eq!(hash_of(&rig.decide()), None, "it may say more");
    rig.door.program.is_busy = false;
    rig.turn_after(Duration::from_millis(1));
    rig.turn();
    assert_eq!(hash_of(&rig.decide()).map(|(at, _)| at), Some(3));
    let mut rig = Rig::comparing(3, Planted(Bug::HashBeforeRest)).begin();
    assert!(hash_of(&said_at_point(&mut rig).1).is_some(), "the mistake shows");
}

#[test]
fn i6_a_connection_ends_after_its_answers() {
    let ends_early = |planted: Option<Bug>| {
        let mut rig = Rig::comparing(100, planted).begin();
        let (client, _) = said_at_point(&mut rig);
        rig.door.streams.break_off(client);
        rig.turn();
        rig.decide();
        rig.turn();
        rig.door.program.legs[&0].2
    };
    assert!(!ends_early(None), "the program has not answered");
    assert!(ends_early(Some(Bug::EndedBeforeRest)), "the mistake shows");
}

/// A hash whose fate is unknown is said again, until it is executed.
#[test]
fn a_hash_is_said_until_it_is_decided() {
    let mut rig = Rig::comparing(3, Sound).begin();
    said_at_point(&mut rig);
    rig.answer_all();
    rig.turn();
    rig.expire();
    rig.turn();
    assert!(hash_of(&rig.decide()).is_some(), "again");
    rig.turn();
    assert_eq!(hash_of(&rig.decide()), None, "and no more");
}

/// The others agree on another hash. Returns the rig and its client.
fn differing<B: Planting<Bug>>(planted: B) -> (Rig<B>, PipeId) {
    let mut rig = Rig::comparing(5, planted).begin();
    let others = [OTHER, Rank::at(2)].map(|owner| (owner, Incarnation(3)));
    rig.apply(&others.map(|(owner, run)| entry(&Entry::Begin { owner, run })));
    let (client, _) = said_at_point(&mut rig);
    rig.answer_all();
    rig.turn();
    let (at, value) = hash_of(&rig.decide()).expect("a hash");
    let value = value.wrapping_add(1);
    let hashes = others.map(|(owner, run)| entry(&Entry::Hash { owner, run, at, value }));
    rig.apply(&hashes[..1]);
    rig.turn();
    assert!(rig.door.serves(), "one other is no majority");
    rig.apply(&hashes[1..]);
    (rig, client)
}

#[test]
fn d3_a_copy_that_differs_serves_no_more_and_ends_when_the_others_can_go_on() {
    let (mut rig, client) = differing(Sound);
    rig.view.heard.remove(OTHER);
    rig.turn();
    assert!(!rig.door.serves() && rig.door.streams.is_closed(client));
    assert_eq!(rig.door.rolls_back(&rig.state), None, "its death would cost the majority");
    rig.view.heard.insert(OTHER);
    rig.turn();
    assert!(rig.door.rolls_back(&rig.state).unwrap().contains("up to entry 5"));
    let (mut rig, client) = differing(Planted(Bug::DifferingServes));
    rig.turn();
    assert!(rig.door.serves() && !rig.door.streams.is_closed(client), "the mistake shows");
    assert_eq!(rig.door.rolls_back(&rig.state), None);
}

fn split(when_split: WhenSplit) -> (bool, bool) {
    let mut rig = Rig::comparing(5, Sound);
    rig.door = rig.door.when_split(when_split);
    let mut rig = rig.begin();
    let others = [OTHER, Rank::at(2)].map(|owner| (owner, Incarnation(3)));
    rig.apply(&others.map(|(owner, run)| entry(&Entry::Begin { owner, run })));
    let (client, _) = said_at_point(&mut rig);
    rig.answer_all();
    rig.turn();
    let (at, value) = hash_of(&rig.decide()).expect("a hash");
    for ((owner, run), more) in others.into_iter().zip(1..) {
        rig.apply(&[entry(&Entry::Hash { owner, run, at, value: value.wrapping_add(more) })]);
    }
    rig.turn();
    assert_eq!(rig.door.figures(&rig.state).split_at, 5);
    assert_eq!(rig.door.rolls_back(&rig.state), None);
    (rig.door.serves(), rig.door.streams.is_closed(client))
}

#[test]
fn d3_copies_without_a_majority_serve_on_or_stop_as_the_settings_say() {
    assert_eq!(split(WhenSplit::Serve), (true, false));
    assert_eq!(split(WhenSplit::Stop), (false, true));
}

impl<B: Planting<Bug>> Rig<B> {
    /// Everything is decided and answered, until nothing happens any more.
    fn settle(&mut self) {
        for _ in 0..20 {
            self.turn_after(Duration::from_millis(1));
            self.decide();
            self.answer_all();
        }
    }

    /// The client asks so much that the copies pass the next point, and the other member's copy has
    /// answered alike.
    fn pass_point(&mut self, client: PipeId, requests: &[&[u8]]) {
        for request in requests {
            self.ask(client, request);
            self.decide();
            self.answer_all();
        }
        let mut hash = None;
        for _ in 0..20 {
            self.turn_after(Duration::from_millis(1));
            let said = self.decide();
            hash = hash.or(hash_of(&said));
            self.answer_all();
        }
        let (at, value) = hash.expect("a point was passed");
        let (owner, run) = (OTHER, Incarnation(3));
        self.apply(&[entry(&Entry::Hash { owner, run, at, value })]);
    }

    fn saved(&mut self) -> Vec<u8> {
        let (saving, mut out) = (self.state.begin_save(), Vec::new());
        while self.state.save_piece(saving, &mut out) == Some(true) {}
        self.state.end_save(saving);
        out
    }

    fn lines(&self) -> Vec<&str> {
        self.door.program.seen.iter().map(|line| std::str::from_utf8(line).unwrap()).collect()
    }
}

/// A rig that has been saved at its tenth entry, which counts, and has gone on.
fn with_checkpoint<B: Planting<Bug>>(planted: B) -> (Rig<B>, PipeId) {
    let mut rig = Rig::comparing(5, planted).begin();
    let others = [OTHER, Rank::at(2)].map(|owner| (owner, Incarnation(3)));
    rig.apply(&others.map(|(owner, run)| entry(&Entry::Begin { owner, run })));
    let client = rig.client();
    rig.pass_point(client, &[b"SET a\r\n"]);
    rig.pass_point(
        client,
        &[b"SELECT 3\r\n", b"SET b\r\n", b"SET c\r\n", b"SET d\r\n", b"SET e\r\n"],
    );
    assert_eq!(rig.state.base().position, 0, "nothing was compared behind it");
    let five: [&[u8]; 5] = [b"SET f\r\n", b"SET g\r\n", b"SET h\r\n", b"SET i\r\n", b"SET j\r\n"];
    rig.pass_point(client, &five);
    rig.settle();
    (rig, client)
}

const LINES: [&str; 11] = [
    "SET a", "SELECT 3", "SET b", "SET c", "SET d", "SET e", "SET f", "SET g", "SET h", "SET i",
    "SET j",
];

#[test]
fn i5_the_transcript_ends_at_a_checkpoint_and_another_copy_begins_there() {
    let (mut rig, _) = with_checkpoint(Sound);
    assert_eq!(rig.lines(), LINES);
    let figures = rig.door.figures(&rig.state);
    assert_eq!((figures.base, figures.checkpoints, figures.began_at), (10, (1, 0), 0));
    assert_eq!(rig.state.transcript().start(), rig.state.base().offset);
    assert!(rig.state.base().offset > 0);

    let bytes = rig.saved();
    let mut other = Rig::comparing(5, Sound);
    other.state.restore(&bytes).unwrap();
    assert_eq!(other.saved(), bytes);
    other.settle();
    let (before, after) = LINES.split_at(6);
    assert_eq!(other.lines(), [before, &["SELECT 3"], after].concat(), "K5");
    let figures = other.door.figures(&other.state);
    assert_eq!((figures.began_at, figures.base), (10, 10));
    assert!(figures.position >= 15, "and then the rest");
}

#[test]
fn mistakes_behind_a_checkpoint_show() {
    let (mut rig, _) = with_checkpoint(Planted(Bug::PrologueForgotten));
    let bytes = rig.saved();
    let mut other = Rig::comparing(5, Planted(Bug::PrologueForgotten));
    other.state.restore(&bytes).unwrap();
    other.settle();
    assert_eq!(other.lines(), LINES, "the new leg is not told what the old one was");
    let (mut rig, _) = with_checkpoint(Planted(Bug::FreedTooFar));
    let bytes = rig.saved();
    let mut other = Rig::comparing(5, Planted(Bug::FreedTooFar));
    let is_whole = other.state.restore(&bytes).is_ok();
    other.settle();
    assert!(!is_whole || other.lines() != LINES);
}

#[test]
fn a_copy_whose_next_entries_are_forgotten_begins_again() {
    let (mut rig, _) = with_checkpoint(Sound);
    let bytes = rig.saved();
    let mut late = Rig::comparing(5, Sound).begin();
    assert!(!late.door.falls_behind(&late.state));
    late.state.restore(&bytes).unwrap();
    late.turn();
    assert!(late.door.falls_behind(&late.state) && !late.door.serves());
}

#[test]
fn k5_a_connection_in_a_transaction_puts_the_checkpoint_off() {
    let mut rig = Rig::comparing(5, Sound).begin();
    let others = [OTHER, Rank::at(2)].map(|owner| (owner, Incarnation(3)));
    rig.apply(&others.map(|(owner, run)| entry(&Entry::Begin { owner, run })));
    let client = rig.client();
    rig.pass_point(client, &[b"MULTI\r\n"]);
    let five: [&[u8]; 5] = [b"SET f\r\n", b"SET g\r\n", b"SET h\r\n", b"SET i\r\n", b"SET j\r\n"];
    rig.pass_point(client, &five);
    assert_eq!(rig.state.checkpoints().counts(), (0, 1));
    assert!(rig.door.checkpoint_trouble().unwrap().contains("in the middle"));
}
