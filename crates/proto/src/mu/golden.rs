//! Mu's golden scripts.

use super::wire::Message;
use super::*;
use crate::omega;
use crate::stage::golden::{N_MEMBERS, Readable, SHAPE, check_log};
use crate::stage::shown;
use alloc::format;
use alloc::string::{String, ToString};

impl Readable for Spec {
    fn place(at: At, words: &[u64]) -> String {
        let places = Places::new(At(omega::N_WORDS), &SHAPE);
        let number = || words.first().map_or_else(String::new, |word| format!(": {word}"));
        if at == places.promised() {
            return "promise".into();
        }
        if at == places.probe() {
            return "probe".into();
        }
        for (me, rank) in Rank::all(N_MEMBERS).enumerate() {
            if at == places.applied(rank) {
                return format!("applied by {me}{}", number());
            }
            if at == places.fact(rank) {
                let ballot =
                    words.first().map_or_else(String::new, |word| Ballot(*word).to_string());
                return format!("ballot of leader {me}: {ballot}");
            }
            if at == places.fact(rank).plus(1) {
                return format!("decided by leader {me}{}", number());
            }
        }
        for slot in (0..places.ring_slots()).map(Slot) {
            for half in Half::BOTH {
                if at == places.entry(slot, half) {
                    let entry =
                        value::decode(words).map_or_else(String::new, |(label, payload)| {
                            format!(
                                ": {} in {}, decided below {}",
                                shown(payload),
                                label.ballot,
                                label.decided
                            )
                        });
                    return format!("entry {slot}, half {}{entry}", half.0);
                }
            }
        }
        format!("the log from word {}", at.0 - places.log.0)
    }

    fn message(bytes: &[u8]) -> String {
        Message::decode(bytes).map_or_else(|| "what is no message".into(), |of| format!("{of:?}"))
    }
}

#[test]
fn an_election_and_a_decision() {
    check_log::<Spec>("mu/scripts/decision.txt");
}

#[test]
fn a_takeover_takes_the_permission() {
    check_log::<Spec>("mu/scripts/takeover.txt");
}
