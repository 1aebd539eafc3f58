//! A door over pipes, before a desk whose requests are ordered at once: no cluster, no sockets.

use super::*;
use crate::connection::{self, OUTPUT_BYTES_MAX};
use crate::resp::INPUT_BYTES_MAX;
use base::{Incarnation, Rank, Slot};
use core::time::Duration;
use engine::{
    Answer, Answers, Application, Asker, Desk, Door, Laid, Origin, PATIENCE, Performed, ReadAnswer,
    Sequence, Stats, View,
};
use proto::Role;
use std::collections::{BTreeMap, VecDeque};

/// The bytes that a pipe holds for a client that does not read.
const UNREAD_BYTES_MAX: usize = 64 << 10;

#[derive(Default)]
struct Around {
    asked: Vec<Asker>,
}

impl Outside for Around {
    fn info(&mut self, facts: &Facts<'_>, sections: &[&str]) -> String {
        format!("{sections:?}: {} keys", facts.figures.keys)
    }

    fn ask_status(&mut self, asker: Asker) {
        self.asked.push(asker);
    }

    fn renew(&mut self, _: Rank) -> bool {
        false
    }
}

struct Member {
    state: State,
    door: RespDoor<Around, Pipes>,
    desk: Desk,
    view: View,
    n_slots: u64,
}

impl Member {
    fn new(connections_max: usize) -> Member {
        let connections = connection::Config { connections_max, ..connection::Config::default() };
        let config = Config { connections, ..Config::default() };
        let view = View { role: Role::Leader, ..View::new(Rank::at(0), 1) };
        let pipes = Pipes::new("127.0.0.1:6379", UNREAD_BYTES_MAX);
        let (mut state, mut door) =
            (State::new(0, 7), RespDoor::new(config, Around::default(), pipes));
        door.publish(&view, &Stats::new(), &mut state);
        Member { state, door, desk: Desk::new(view, PATIENCE), view, n_slots: 0 }
    }

    fn pipes(&mut self) -> &mut Pipes {
        &mut self.door.streams
    }

    fn open(&mut self, address: &str) -> PipeId {
        self.door.streams.open(address)
    }

    fn clients(&mut self) -> &mut RespClients<Around> {
        &mut self.door.clients
    }

    /// Accepts clients and submits their requests.
    fn let_in(&mut self) {
        let now = self.desk.now().plus(Duration::from_millis(1));
        self.desk.turn(now, self.view);
        self.door.poll(&self.state, &mut self.desk);
    }

    /// Runs one turn of a loop; every submitted request is ordered and answered.
    fn turn(&mut self) {
        self.let_in();
        while self.door.resume(&mut self.state, &mut self.desk) | self.order() {}
        Door::<State>::flush(&mut self.door, &mut self.desk);
    }

    /// The requests that were submitted.
    fn laid(&mut self) -> (Vec<(Asker, Vec<u8>)>, Vec<Asker>) {
        let (mut writes, mut reads) = (Vec::new(), Vec::new());
        self.desk.take(|laid| {
            match laid {
                Laid::Write(asker, command) => writes.push((asker, command.to_vec())),
                Laid::Read(asker) => reads.push(asker),
                Laid::Wait(_) => {}
            }
            true
        });
        (writes, reads)
    }

    fn order(&mut self) -> bool {
        let (writes, reads) = self.laid();
        self.execute(&writes);
        reads.iter().for_each(|asker| self.perform(*asker));
        !writes.is_empty() || !reads.is_empty()
    }

    fn perform(&mut self, asker: Asker) {
        let performed = self.door.perform(asker, 1, &mut self.state, &mut self.desk);
        assert_eq!(performed, Performed::Done);
    }

    fn execute(&mut self, writes: &[(Asker, Vec<u8>)]) {
        if !writes.is_empty() {
            let origin = Origin { rank: Rank::at(0), life: Incarnation(1) };
            let slot = Slot(self.n_slots);
            let mut value = Vec::new();
            self.state.begin(1, &mut value);
            let mut askers = BTreeMap::new();
            for (at, (asker, command)) in writes.iter().enumerate() {
                let sequence = Sequence(self.n_slots * 1000 + at as u64 + 1);
                self.state.append(origin, sequence, command, usize::MAX, &mut value);
                askers.insert(sequence, *asker);
            }
            self.n_slots += 1;
            let mut answers = Answers::default();
            self.state.apply(slot, &value, &mut answers);
            assert_eq!(self.state.take_complaint(), None, "a batch that was just made");
            self.door.applied(&mut self.state);
            self.view.applied = slot.prefix_through();
            self.desk.turn(self.desk.now(), self.view);
            for (_, sequence, reply) in answers.iter() {
                self.door.clients.answer(askers[&sequence], Answer::Executed(slot, reply));
            }
        }
    }

    /// The bytes that the client receives after it sends `bytes`.
    fn ask(&mut self, pipe: PipeId, bytes: &[u8]) -> String {
        self.door.streams.push(pipe, bytes);
        self.turn();
        self.heard(pipe)
    }

    fn heard(&mut self, pipe: PipeId) -> String {
        String::from_utf8(self.door.streams.take(pipe, usize::MAX))
            .expect("RESP in this test is text")
    }
}

#[test]
fn a_client_sets_and_gets_through_a_pipe() {
    let mut member = Member::new(10);
    let pipe = member.open("client:1");
    let set = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";
    assert_eq!(member.ask(pipe, set), "+OK\r\n");
    assert_eq!(member.ask(pipe, b"GET key\r\nGET other\r\n"), "$5\r\nvalue\r\n$-1\r\n");
    let transaction = b"WATCH key\r\nMULTI\r\nINCR n\r\nGET key\r\nEXEC\r\n";
    let heard = member.ask(pipe, transaction);
    assert!(heard.ends_with("*2\r\n:1\r\n$5\r\nvalue\r\n"), "{heard}");
    let listed = member.ask(pipe, b"CLIENT LIST\r\n");
    assert!(listed.contains("addr=client:1 laddr=127.0.0.1:6379"), "{listed}");
}

#[test]
fn a_request_in_pieces_is_one_request() {
    let mut member = Member::new(10);
    let pipe = member.open("client:1");
    for byte in b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r" {
        assert_eq!(member.ask(pipe, &[*byte]), "");
    }
    assert_eq!(member.ask(pipe, b"\n"), "$2\r\nhi\r\n");
}

#[test]
fn i1_a_slow_reader_leaves_a_bounded_amount_unread_and_gets_everything_in_the_end() {
    const N: usize = 200;
    let mut member = Member::new(10);
    let slow = member.open("client:1");
    let value = "v".repeat(100_000);
    let set = format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${}\r\n{value}\r\n", value.len());
    assert_eq!(member.ask(slow, set.as_bytes()), "", "one turn reads a part");
    member.turn();
    assert_eq!(member.heard(slow), "+OK\r\n");
    member.pipes().push(slow, "GET big\r\n".repeat(N).as_bytes());
    for _ in 0..10 {
        member.turn();
    }
    let (_, client) = member.clients().clients.iter().next().expect("it is connected");
    let n_waiting = client.connection.output().len();
    assert!(n_waiting < OUTPUT_BYTES_MAX + value.len(), "{n_waiting} bytes wait for it");
    assert!(member.clients().figures().reads_put_off > 0);
    let quick = member.open("client:2");
    assert_eq!(member.ask(quick, b"PING\r\n"), "+PONG\r\n", "others are served");
    let expected = format!("${}\r\n{value}\r\n", value.len()).repeat(N);
    let mut heard = Vec::new();
    while heard.len() < expected.len() {
        let piece = member.pipes().take(slow, usize::MAX);
        assert!(piece.len() <= UNREAD_BYTES_MAX, "{} bytes lay in the pipe", piece.len());
        assert!(!piece.is_empty(), "nothing more comes after {} bytes", heard.len());
        heard.extend(piece);
        member.turn();
    }
    assert!(heard == expected.as_bytes(), "the replies, in the order of the requests");
}

/// Reads are asked for, and performed, one after another, while another client writes. Some of them
/// are put off: those behind them wait for them.
#[test]
fn c14_reads_of_a_client_that_does_not_read_do_not_go_back_in_time() {
    const N: usize = 100;
    let mut member = Member::new(10);
    let [slow, writer] = ["client:1", "client:2"].map(|address| member.open(address));
    member.ask(writer, format!("SET key {}\r\n", "0".repeat(50_000)).as_bytes());
    member.pipes().push(slow, "GET key\r\n".repeat(N).as_bytes());
    let expected = N * "$50000\r\n\r\n".len() + N * 50_000;
    let (mut reads, mut heard) = (VecDeque::new(), Vec::new());
    for n in 1.. {
        member.pipes().push(writer, format!("SETRANGE key 0 {n:08}\r\n").as_bytes());
        member.let_in();
        member.door.resume(&mut member.state, &mut member.desk);
        let (writes, asked) = member.laid();
        member.execute(&writes);
        reads.extend(asked);
        if let Some(asker) = reads.pop_front() {
            member.perform(asker);
        }
        Door::<State>::flush(&mut member.door, &mut member.desk);
        member.heard(writer);
        // At first the client only writes.
        if n > 40 {
            heard.extend(member.pipes().take(slow, usize::MAX));
        }
        if heard.len() >= expected {
            break;
        }
        assert!(n < 100 * N, "{} bytes of {expected} came", heard.len());
    }
    let figures = member.clients().figures();
    assert!(figures.reads_put_off > 20, "{}", figures.reads_put_off);
    let heard = String::from_utf8(heard).expect("text");
    let replies: Vec<&str> = heard.split("$50000\r\n").skip(1).map(|one| &one[..8]).collect();
    assert_eq!(replies.len(), N);
    assert!(replies.is_sorted(), "C14: {replies:?}");
}

/// A read is put off while its client does not take its replies; the refusal of a write is not.
#[test]
fn a_write_that_is_refused_is_answered_though_its_client_does_not_read() {
    let mut member = Member::new(10);
    let slow = member.open("client:1");
    let value = "v".repeat(60_000);
    member.ask(slow, format!("SET big {value}\r\n").as_bytes());
    let mget = format!("MGET{}\r\nINCR n\r\n", " big".repeat(20));
    member.pipes().push(slow, mget.as_bytes());
    member.let_in();
    let (writes, reads) = member.laid();
    assert_eq!((writes.len(), reads.len()), (0, 1));
    member.door.perform(reads[0], 1, &mut member.state, &mut member.desk);
    assert!(member.door.resume(&mut member.state, &mut member.desk));
    let (writes, _) = member.laid();
    assert_eq!(writes.len(), 1);
    member.clients().answer_read(writes[0].0, ReadAnswer::Forwarded(b"-ERR refused\r\n"));
    let mut heard = String::new();
    loop {
        member.turn();
        match member.heard(slow) {
            piece if piece.is_empty() => break,
            piece => heard += &piece,
        }
    }
    assert!(heard.len() > OUTPUT_BYTES_MAX && heard.ends_with("v\r\n-ERR refused\r\n"));
}

#[test]
fn what_was_sent_before_a_half_close_is_executed_and_answered() {
    let mut member = Member::new(10);
    let pipe = member.open("client:1");
    member.pipes().push(pipe, b"SET key 1\r\nINCR key\r\n");
    member.pipes().end(pipe);
    member.turn();
    assert_eq!(member.heard(pipe), "+OK\r\n:2\r\n");
    member.turn();
    assert!(member.pipes().is_closed(pipe), "nothing is left to say");
    assert_eq!(member.clients().figures().clients, 0);
}

#[test]
fn i3_a_late_answer_reaches_no_other_client() {
    let mut member = Member::new(10);
    let gone = member.open("client:1");
    member.pipes().push(gone, b"INCR n\r\n");
    member.let_in();
    let (laid, _) = member.laid();
    assert_eq!(laid.len(), 1);
    member.pipes().break_off(gone);
    member.let_in();
    // The new client gets the same place.
    let next = member.open("client:2");
    assert_eq!(member.ask(next, b"PING\r\n"), "+PONG\r\n");
    let (asker, _) = laid[0];
    member.clients().answer(asker, Answer::Unknown);
    member.turn();
    assert_eq!(member.heard(next), "");
    assert_eq!(member.clients().figures().clients, 1);
}

/// The trap: it is not read, so its end is not seen, and it is reported as ready in each turn.
#[test]
fn a_client_that_dies_while_it_is_not_read_is_closed() {
    let mut member = Member::new(10);
    let gone = member.open("client:1");
    member.pipes().push(gone, b"SET key 1\r\nWAIT 7 0\r\n");
    member.pipes().push(gone, &b"PING\r\n".repeat(INPUT_BYTES_MAX / 4));
    for _ in 0..INPUT_BYTES_MAX / 1024 {
        member.turn();
    }
    assert_eq!(member.heard(gone), "+OK\r\n", "the rest waits");
    assert!(member.pipes().ready().is_empty(), "and so is not read");
    member.pipes().break_off(gone);
    member.turn();
    assert!(member.pipes().ready().is_empty());
    assert_eq!(member.clients().figures().clients, 0);
}

#[test]
fn one_client_too_many_is_told_so() {
    let mut member = Member::new(1);
    let (first, second) = (member.open("client:1"), member.open("client:2"));
    assert_eq!(member.ask(first, b"PING\r\n"), "+PONG\r\n");
    assert_eq!(member.heard(second), format!("-{}\r\n", crate::text::TOO_MANY_CLIENTS));
    assert!(member.pipes().is_closed(second) && !member.pipes().is_closed(first));
    assert_eq!(member.clients().figures().clients_refused, 1);
}

#[test]
fn subscribers_hear_what_others_publish() {
    let mut member = Member::new(10);
    let (ear, mouth) = (member.open("client:1"), member.open("client:2"));
    assert!(member.ask(ear, b"SUBSCRIBE news\r\n").starts_with("*3\r\n$9\r\nsubscribe"));
    member.ask(mouth, b"PUBLISH news hello\r\n");
    assert!(member.heard(ear).ends_with("$4\r\nnews\r\n$5\r\nhello\r\n"));
    assert_eq!(member.ask(mouth, b"PUBSUB NUMSUB news\r\n"), "*2\r\n$4\r\nnews\r\n:1\r\n");
    member.ask(ear, b"SUBSCRIBE sports weather\r\n");
    let heard = member.ask(mouth, b"PUBSUB NUMSUB news none news sports\r\n");
    let counts: Vec<&str> = heard.split("\r\n").filter(|line| line.starts_with(':')).collect();
    assert_eq!(counts, [":1", ":0", ":1", ":1"], "more names than it has channels");
}

#[test]
fn subscribers_are_clients_of_a_type_of_their_own() {
    let mut member = Member::new(10);
    let [ear, mouth] = ["client:1", "client:2"].map(|address| member.open(address));
    member.ask(ear, b"SUBSCRIBE news\r\n");
    let mut listed = |kind: &str| {
        let list = member.ask(mouth, format!("CLIENT LIST TYPE {kind}\r\n").as_bytes());
        let lines = list.lines().filter(|line| line.starts_with("id="));
        let field = |line: &str, name: &str| {
            let mut fields = line.split(' ').filter_map(|field| field.strip_prefix(name));
            fields.next().unwrap_or_default().to_owned()
        };
        lines
            .map(|line| format!("{} {}", field(line, "addr="), field(line, "flags=")))
            .collect::<Vec<_>>()
    };
    assert_eq!(listed("pubsub"), ["client:1 P"]);
    assert_eq!(listed("normal"), ["client:2 N"]);
    assert_eq!(listed("replica"), [""; 0]);
    assert_eq!(member.ask(mouth, b"CLIENT KILL TYPE normal\r\n"), ":0\r\n");
    assert!(!member.pipes().is_closed(ear));
    assert_eq!(member.ask(mouth, b"CLIENT KILL TYPE pubsub\r\n"), ":1\r\n");
    member.turn();
    assert!(member.pipes().is_closed(ear) && !member.pipes().is_closed(mouth));
}

#[test]
fn info_tells_of_the_writes_before_it_and_the_status_comes_later() {
    let mut member = Member::new(10);
    let pipe = member.open("client:1");
    let heard = member.ask(pipe, b"SET a 1\r\nSET b 2\r\nINFO keyspace\r\n");
    assert!(heard.ends_with("[\"keyspace\"]: 2 keys\r\n"), "{heard}");
    assert_eq!(member.ask(pipe, format!("INFO {STATUS_SECTION}\r\n").as_bytes()), "");
    let asked = std::mem::take(&mut member.clients().outside.asked);
    assert_eq!(asked.len(), 1);
    member.clients().answer_text(asked[0], "well");
    member.turn();
    assert_eq!(member.heard(pipe), "$4\r\nwell\r\n");
}

#[test]
fn data_that_is_lost_is_neither_read_nor_written() {
    let mut member = Member::new(10);
    let pipe = member.open("client:1");
    member.view.data_lost = true;
    let heard = member.ask(pipe, b"GET a\r\nSET a 1\r\nPING\r\n");
    assert_eq!(heard.matches("-ERR data lost").count(), 2, "{heard}");
    assert!(heard.ends_with("+PONG\r\n"), "{heard}");
}

/// Each client that found no room is asked again when there is some: none of them sends anything
/// more that would remind the door of it.
#[test]
fn i2_every_client_that_waits_for_room_gets_it() {
    let mut member = Member::new(10);
    let pipes = ["client:1", "client:2", "client:3"].map(|address| member.open(address));
    member.let_in();
    while member.desk.has_room() {
        member.desk.write(Asker { connection: u64::MAX, request: 0 }, b"of another client");
    }
    for pipe in pipes {
        member.pipes().push(pipe, b"SET key value\r\n");
    }
    member.let_in();
    assert!(!member.desk.has_room(), "they stand outside");
    member.laid();
    member.turn();
    assert_eq!(pipes.map(|pipe| member.heard(pipe)), ["+OK\r\n"; 3]);
}

#[test]
fn replies_that_were_held_up_and_have_gone_out_take_no_room() {
    let mut member = Member::new(10);
    let pipe = member.open("client:1");
    let word = "v".repeat(10_000);
    // The reply to ECHO waits for that to GET.
    let asked = format!("GET key\r\n*2\r\n$4\r\nECHO\r\n$10000\r\n{word}\r\n");
    let expected = format!("$-1\r\n$10000\r\n{word}\r\n");
    for n in 0..2 * OUTPUT_BYTES_MAX / word.len() {
        assert!(member.ask(pipe, asked.as_bytes()) == expected, "the replies to request {n}");
    }
}

#[test]
fn a_save_ends_when_another_state_takes_the_place_of_its_own() {
    let mut giver = State::new(0, 7);
    let (saving, mut bytes) = (giver.begin_save(), Vec::new());
    while giver.save_piece(saving, 64 << 10, &mut bytes) == Some(true) {}
    let mut taker = State::new(0, 8);
    let saving = taker.begin_save();
    taker.begin_restore();
    let mut piece = &bytes[..];
    while taker.restore_piece(std::mem::take(&mut piece)) == Ok(true) {}
    assert_eq!(taker.end_restore(), Ok(()));
    assert_eq!(taker.save_piece(saving, 64 << 10, &mut bytes), None, "its giver refuses the rest");
}
