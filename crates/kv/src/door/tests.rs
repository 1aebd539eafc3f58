//! A door over pipes, with an intake that orders at once: no cluster, no sockets.

use super::*;
use crate::connection::{self, OUTPUT_BYTES_MAX};
use crate::entry::{Origin, Sequence};
use base::{Incarnation, Instant, Prefix, Rank, Slot};
use core::time::Duration;
use proto::Role;
use proto::members::Change;
use std::collections::BTreeMap;

/// What a pipe holds for a client that does not read.
const UNREAD_BYTES_MAX: usize = 64 << 10;

/// Keeps what is laid down until it is ordered.
struct Line {
    now: Instant,
    view: View,
    writes: Vec<(Asker, Vec<u8>)>,
    reads: Vec<Asker>,
}

impl Intake for Line {
    fn now(&self) -> Instant {
        self.now
    }

    fn view(&self) -> View {
        self.view
    }

    fn has_room(&self) -> bool {
        self.writes.len() + self.reads.len() < 1000
    }

    fn write(&mut self, asker: Asker, command: &[u8]) {
        self.writes.push((asker, command.to_vec()));
    }

    fn read(&mut self, asker: Asker) {
        self.reads.push(asker);
    }

    fn wait(&mut self, _: Asker, _: Prefix, _: usize, _: Option<Duration>) -> bool {
        false
    }

    fn forget_waits(&mut self, _: u64) {}

    fn change(&mut self, _: Asker, _: Change) -> bool {
        false
    }

    fn renew(&mut self, _: Rank) {}

    fn renewing(&self) -> Option<Rank> {
        None
    }

    fn charge(&mut self, _: usize) {}
}

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
    door: RespDoor<Around>,
    pipes: Pipes,
    line: Line,
    n_slots: u64,
}

impl Member {
    fn new(connections_max: usize) -> Member {
        let connections = connection::Config { connections_max, ..connection::Config::default() };
        let config = Config { connections, ..Config::default() };
        let view = View { role: Role::Leader, ..View::new(Rank::at(0)) };
        let mut door = RespDoor::new(config, Around::default(), 7);
        door.publish(&view, 0);
        Member {
            door,
            pipes: Pipes::new("127.0.0.1:6379", UNREAD_BYTES_MAX),
            line: Line { now: Instant::ZERO, view, writes: Vec::new(), reads: Vec::new() },
            n_slots: 0,
        }
    }

    /// One turn of a loop, and everything that was laid down is ordered and answered.
    fn turn(&mut self) {
        self.line.now = self.line.now.plus(Duration::from_millis(1));
        self.door.poll_pipes(&mut self.pipes, &mut self.line);
        while self.door.resume(&mut self.line) | self.order() {}
        self.door.clients.flush(&mut self.pipes, &mut self.line);
    }

    fn order(&mut self) -> bool {
        let (writes, reads) =
            (std::mem::take(&mut self.line.writes), std::mem::take(&mut self.line.reads));
        if !writes.is_empty() {
            let origin = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };
            let slot = Slot(self.n_slots);
            let mut value = Vec::new();
            self.door.state.begin(1, &mut value);
            let mut askers = BTreeMap::new();
            for (at, (asker, command)) in writes.iter().enumerate() {
                let sequence = Sequence(self.n_slots * 1000 + at as u64 + 1);
                self.door.state.append(origin, sequence, command, usize::MAX, &mut value);
                askers.insert(sequence, *asker);
            }
            self.n_slots += 1;
            let mut answers = Vec::new();
            let mut sink =
                |_, sequence: Sequence, reply: &[u8]| answers.push((sequence, reply.to_vec()));
            self.door.apply(slot, &value, &mut sink).expect("a batch that was just made");
            self.line.view.applied = slot.prefix_through();
            for (sequence, reply) in answers {
                self.door.clients.answer(askers[&sequence], Answer::Executed(slot, &reply));
            }
        }
        for &asker in &reads {
            assert_eq!(self.door.perform(asker, 1, &mut self.line), Performed::Done);
        }
        !writes.is_empty() || !reads.is_empty()
    }

    /// Everything that the client is sent for `bytes`.
    fn ask(&mut self, pipe: PipeId, bytes: &[u8]) -> String {
        self.pipes.push(pipe, bytes);
        self.turn();
        self.heard(pipe)
    }

    fn heard(&mut self, pipe: PipeId) -> String {
        String::from_utf8(self.pipes.take(pipe, usize::MAX)).expect("RESP in this test is text")
    }
}

#[test]
fn a_client_sets_and_gets_through_a_pipe() {
    let mut member = Member::new(10);
    let pipe = member.pipes.open("client:1");
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
    let pipe = member.pipes.open("client:1");
    for byte in b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r" {
        assert_eq!(member.ask(pipe, &[*byte]), "");
    }
    assert_eq!(member.ask(pipe, b"\n"), "$2\r\nhi\r\n");
}

#[test]
fn i1_a_slow_reader_leaves_a_bounded_amount_unread_and_gets_everything_in_the_end() {
    const N: usize = 200;
    let mut member = Member::new(10);
    let slow = member.pipes.open("client:1");
    let value = "v".repeat(100_000);
    let set = format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${}\r\n{value}\r\n", value.len());
    assert_eq!(member.ask(slow, set.as_bytes()), "", "one turn reads a part");
    member.turn();
    assert_eq!(member.heard(slow), "+OK\r\n");
    member.pipes.push(slow, "GET big\r\n".repeat(N).as_bytes());
    for _ in 0..10 {
        member.turn();
    }
    let (_, client) = member.door.clients.clients.iter().next().expect("it is connected");
    let n_waiting = client.connection.output().len();
    assert!(n_waiting < OUTPUT_BYTES_MAX + value.len(), "{n_waiting} bytes wait for it");
    assert!(member.door.clients.figures().reads_put_off > 0);
    let quick = member.pipes.open("client:2");
    assert_eq!(member.ask(quick, b"PING\r\n"), "+PONG\r\n", "others are served");
    let expected = format!("${}\r\n{value}\r\n", value.len()).repeat(N);
    let mut heard = Vec::new();
    while heard.len() < expected.len() {
        let piece = member.pipes.take(slow, usize::MAX);
        assert!(piece.len() <= UNREAD_BYTES_MAX, "{} bytes lay in the pipe", piece.len());
        assert!(!piece.is_empty(), "nothing more comes after {} bytes", heard.len());
        heard.extend(piece);
        member.turn();
    }
    assert!(heard == expected.as_bytes(), "the replies, in the order of the requests");
}

#[test]
fn what_was_sent_before_a_half_close_is_executed_and_answered() {
    let mut member = Member::new(10);
    let pipe = member.pipes.open("client:1");
    member.pipes.push(pipe, b"SET key 1\r\nINCR key\r\n");
    member.pipes.end(pipe);
    member.turn();
    assert_eq!(member.heard(pipe), "+OK\r\n:2\r\n");
    member.turn();
    assert!(member.pipes.is_closed(pipe), "nothing is left to say");
    assert_eq!(member.door.clients.figures().clients, 0);
}

#[test]
fn i3_a_late_answer_reaches_no_other_client() {
    let mut member = Member::new(10);
    let gone = member.pipes.open("client:1");
    member.pipes.push(gone, b"INCR n\r\n");
    member.door.poll_pipes(&mut member.pipes, &mut member.line);
    let laid = member.line.writes.clone();
    assert_eq!(laid.len(), 1);
    member.pipes.break_off(gone);
    member.door.poll_pipes(&mut member.pipes, &mut member.line);
    // It gets the same place.
    let next = member.pipes.open("client:2");
    assert_eq!(member.ask(next, b"PING\r\n"), "+PONG\r\n");
    assert_eq!(member.ask(next, b"GET n\r\n"), "$1\r\n1\r\n", "the command took its course");
    let (asker, _) = laid[0];
    member.door.clients.answer(asker, Answer::Unknown);
    member.turn();
    assert_eq!(member.heard(next), "");
    assert_eq!(member.door.clients.figures().clients, 1);
}

#[test]
fn one_client_too_many_is_told_so() {
    let mut member = Member::new(1);
    let (first, second) = (member.pipes.open("client:1"), member.pipes.open("client:2"));
    assert_eq!(member.ask(first, b"PING\r\n"), "+PONG\r\n");
    assert_eq!(member.heard(second), format!("-{}\r\n", crate::text::TOO_MANY_CLIENTS));
    assert!(member.pipes.is_closed(second) && !member.pipes.is_closed(first));
    assert_eq!(member.door.clients.figures().clients_refused, 1);
}

#[test]
fn subscribers_hear_what_others_publish() {
    let mut member = Member::new(10);
    let (ear, mouth) = (member.pipes.open("client:1"), member.pipes.open("client:2"));
    assert!(member.ask(ear, b"SUBSCRIBE news\r\n").starts_with("*3\r\n$9\r\nsubscribe"));
    member.ask(mouth, b"PUBLISH news hello\r\n");
    assert!(member.heard(ear).ends_with("$4\r\nnews\r\n$5\r\nhello\r\n"));
    assert_eq!(member.ask(mouth, b"PUBSUB NUMSUB news\r\n"), "*2\r\n$4\r\nnews\r\n:1\r\n");
}

#[test]
fn info_tells_of_the_writes_before_it_and_the_status_comes_later() {
    let mut member = Member::new(10);
    let pipe = member.pipes.open("client:1");
    let heard = member.ask(pipe, b"SET a 1\r\nSET b 2\r\nINFO keyspace\r\n");
    assert!(heard.ends_with("[\"keyspace\"]: 2 keys\r\n"), "{heard}");
    assert_eq!(member.ask(pipe, format!("INFO {STATUS_SECTION}\r\n").as_bytes()), "");
    let asked = std::mem::take(&mut member.door.clients.outside.asked);
    assert_eq!(asked.len(), 1);
    member.door.clients.answer_text(asked[0], "well");
    member.turn();
    assert_eq!(member.heard(pipe), "$4\r\nwell\r\n");
}

#[test]
fn data_that_is_lost_is_neither_read_nor_written() {
    let mut member = Member::new(10);
    let pipe = member.pipes.open("client:1");
    member.line.view.data_lost = true;
    let heard = member.ask(pipe, b"GET a\r\nSET a 1\r\nPING\r\n");
    assert_eq!(heard.matches("-ERR data lost").count(), 2, "{heard}");
    assert!(heard.ends_with("+PONG\r\n"), "{heard}");
}
