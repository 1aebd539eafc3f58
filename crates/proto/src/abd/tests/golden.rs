//! ABD's golden scripts. Commands: `write M KEY`, `read M KEY`, `pass M M ...` (what is on its way
//! among these arrives, in order), `next N M M ...` (the first N of that), `lose M` (what M has
//! sent), `begin-again M` (without memory).

use super::super::wire::{self, Body};
use super::stage::{Letter, Stage};
use super::*;
use crate::stage::golden::{Words, check, number};
use alloc::format;

/// A stage, and the operations that have not ended.
struct Script {
    stage: Stage<Sound>,
    open: Vec<u64>,
}

impl Script {
    fn run(&mut self, words: &Words<'_>) -> Vec<String> {
        let key = || words.get(2).expect("write M KEY").as_bytes();
        let mut told = Vec::new();
        match words[0] {
            "write" => self.open.push(self.stage.write(number(words, 1), key())),
            "read" => {
                let op = Op::Read { key: key() };
                let ticket = self.stage.submit(number(words, 1), op, 60_000);
                self.open.push(ticket.expect("the member serves"));
            }
            "pass" => self.pass(usize::MAX, &numbers(words, 1), &mut told),
            "next" => self.pass(number(words, 1), &numbers(words, 2), &mut told),
            "lose" => self.stage.lose_from(number(words, 1)),
            "begin-again" => self.stage.begin_again(number(words, 1)),
            _ => panic!("{words:?}: no such command"),
        }
        self.tell_ended(&mut told);
        told
    }

    fn pass(&mut self, n: usize, set: &[usize], told: &mut Vec<String>) {
        for _ in 0..n {
            let Some(letter) = self.stage.take_among(set) else { return };
            told.push(shown(&letter, self.stage.members.len()));
            self.stage.deliver(letter);
            self.tell_ended(told);
        }
    }

    fn tell_ended(&mut self, told: &mut Vec<String>) {
        let stage = &self.stage;
        self.open.retain(|ticket| {
            let ended = stage.ended(*ticket);
            told.extend(ended.map(|ended| format!("operation {ticket} ends: {}", end_of(ended))));
            ended.is_none()
        });
    }
}

fn numbers(words: &Words<'_>, from: usize) -> Vec<usize> {
    (from..words.len()).map(|at| number(words, at)).collect()
}

fn end_of(ended: &Ended) -> String {
    match ended {
        Ended::Value(value) => value_shown(value),
        Ended::Written => "written".into(),
        Ended::NotDone => "not done".into(),
        Ended::Unknown => "unknown".into(),
    }
}

/// A write's value names the write.
fn value_shown(value: &[u8]) -> String {
    match value.first() {
        Some(ticket) => format!("the value of write {ticket}"),
        None => "no value".into(),
    }
}

fn shown((from, to, bytes): &Letter, n_members: usize) -> String {
    let (_, body) = wire::decode(bytes, n_members).expect("it was encoded");
    let tag = |tag: Tag| format!("{}.{}", tag.counter, tag.rank);
    let what = match body {
        Body::Beat => "a beat".into(),
        Body::Query { key, .. } => format!("queries {:?}", String::from_utf8_lossy(key)),
        Body::Value { tag: of, value, .. } => format!("has {} of {}", value_shown(value), tag(of)),
        Body::Store { tag: of, value, .. } => {
            format!("stores {} of {}", value_shown(value), tag(of))
        }
        Body::Stored { .. } => "has stored it".into(),
        Body::Fetch { .. } => "fetches the state".into(),
        Body::Piece { is_last, .. } => format!("gives a piece, the last one: {is_last}"),
    };
    format!("{from} to {to}  {what}")
}

fn check_abd(n_members: usize, path: &str) {
    let mut script = Script { stage: Stage::new(n_members, Sound), open: Vec::new() };
    check(path, |words| script.run(words));
}

#[test]
fn a_write_and_a_read() {
    check_abd(3, "abd/scripts/write_and_read.txt");
}

#[test]
fn a_read_writes_back_what_a_minority_had() {
    check_abd(5, "abd/scripts/write_back.txt");
}

#[test]
fn a_member_without_memory_merges_a_majority() {
    check_abd(3, "abd/scripts/merge.txt");
}
