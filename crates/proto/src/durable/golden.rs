//! Durable's golden scripts.

use super::places::{ACK_WORDS, Ack, record};
use super::wire::Message;
use super::*;
use crate::omega;
use crate::stage::golden::{N_MEMBERS, Readable, SHAPE, check_log};
use crate::stage::shown;
use alloc::format;
use alloc::string::String;

impl Readable for Spec {
    const HAS_DISKS: bool = true;

    fn place(at: At, words: &[u64]) -> String {
        let places = Places::new(At(omega::N_WORDS), N_MEMBERS, &SHAPE);
        if at == places.promised() {
            return "promise".into();
        }
        for rank in Rank::all(N_MEMBERS) {
            if at == places.ack(rank) {
                let ack = <&[u64; ACK_WORDS]>::try_from(words).ok();
                let ack = ack.and_then(|words| Ack::decode(words, false));
                return ack.map_or_else(
                    || format!("acknowledgement of {rank}"),
                    |ack| {
                        format!(
                            "acknowledgement of {rank}: durable {} in {}",
                            ack.durable, ack.ballot
                        )
                    },
                );
            }
            let (ring, n_words) = places.in_ring(rank, 0);
            if at.0 >= ring.0 && at.0 < ring.0 + n_words as u32 {
                return format!("ring of {rank} at {}: {}", at.0 - ring.0, record_of(words));
            }
        }
        unreachable!("{at:?} is no place of a region")
    }

    fn message(bytes: &[u8]) -> String {
        Message::decode(bytes).map_or_else(|| "what is no message".into(), |of| format!("{of:?}"))
    }
}

#[test]
fn an_election_and_a_decision() {
    check_log::<Spec>("durable/scripts/decision.txt");
}

#[test]
fn a_takeover_sends_what_was_on_disk() {
    check_log::<Spec>("durable/scripts/takeover.txt");
}

/// The record that begins with `words`.
fn record_of(words: &[u64]) -> String {
    let head = words.get(..record::HEAD_WORDS).and_then(|head| head.try_into().ok());
    let Some(head) = head.and_then(record::Head::decode) else { return "words".into() };
    match head.kind {
        record::Kind::Commit => format!("decided below {}", head.committed),
        record::Kind::Entry => {
            let value = record::payload(words, &head).map_or_else(String::new, shown);
            let record::Head { slot, entry_ballot, ballot, committed, .. } = head;
            format!("{slot} = {value} of {entry_ballot} in {ballot}, decided below {committed}")
        }
    }
}
