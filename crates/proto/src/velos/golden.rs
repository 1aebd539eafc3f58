//! Velos' golden scripts.

use super::word::Area;
use super::*;
use crate::omega;
use crate::stage::golden::{N_MEMBERS, Readable, SHAPE, check_log};
use crate::stage::shown;
use crate::value::Label;
use alloc::format;
use alloc::string::{String, ToString};

impl Readable for Spec {
    fn place(at: At, words: &[u64]) -> String {
        let places = Places::new(At(omega::N_WORDS), N_MEMBERS, &SHAPE);
        let numbers = || words.first().map_or_else(String::new, |word| format!(": {word}"));
        if at == places.incarnation() {
            return "incarnation".into();
        }
        if at.0 >= places.horizons().0 && at.0 < places.horizons().0 + MAX_MEMBERS as u32 {
            let whose = at.0 - places.horizons().0;
            return if words.is_empty() {
                "horizons".into()
            } else {
                format!("horizon of {whose}{}", numbers())
            };
        }
        for (me, rank) in Rank::all(N_MEMBERS).enumerate() {
            if at == places.applied(rank) {
                return format!("applied by {me}{}", numbers());
            }
            if at == places.fact(rank) {
                let ballot =
                    words.first().map_or_else(String::new, |word| Ballot(*word).to_string());
                return format!("ballot of leader {me}: {ballot}");
            }
            if at == places.fact(rank).plus(1) {
                return format!("decided by leader {me}{}", numbers());
            }
        }
        let word = |raw: &u64| {
            let word = Wide::PACKING.unpack(*raw);
            let value = match word.tag.place() {
                Some((rank, area)) => format!("{} by {rank} {area:?}", word.accepted_proposal),
                None => "nothing".into(),
            };
            format!(": [promised {}, accepted {value}]", word.min_proposal)
        };
        for slot in (0..u64::from(SHAPE.ring_slots)).map(Slot) {
            if at == places.slot(slot) {
                return format!("word of {slot}{}", words.first().map_or_else(String::new, word));
            }
            for rank in Rank::all(N_MEMBERS) {
                for area in [Area::Even, Area::Odd] {
                    if at == places.area(slot, rank, area) {
                        return format!("value of {slot} by {rank} {area:?}{}", value_of(words));
                    }
                }
            }
        }
        unreachable!("{at:?} is no place of a region")
    }

    fn message(_: &[u8]) -> String {
        unreachable!("wide words need no messages")
    }
}

/// A labelled value.
fn value_of(words: &[u64]) -> String {
    value::decode(words).map_or_else(String::new, |(label, payload)| {
        let Label { ballot, decided, .. } = label;
        format!(": {} in {ballot}, decided below {decided}", shown(payload))
    })
}

#[test]
fn an_election_and_a_decision() {
    check_log::<Spec>("velos/scripts/decision.txt");
}

#[test]
fn a_takeover_adopts_what_was_accepted() {
    check_log::<Spec>("velos/scripts/takeover.txt");
}
