//! Litmus tests of order: T2 FIFO per link, T3 nothing inside a verb, T5 publication.

use super::verbs::{OTHER, OWNER, everybody};
use super::{Group, Happening, Party, Reply, Verdict, broken_promise};
use crate::{At, Fabric, Port};
use base::Rng;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const ROUNDS: u64 = 10_000;
const GUARD: At = At(1000);
const PAYLOAD: At = At(2000);
const PAYLOAD_WORDS: usize = 8;

/// T2, T5: neither the memory's owner nor a third member that READs ever sees a guard word before
/// the payload that was written ahead of it.
///
/// # Errors
/// The payload that was older than its guard.
pub fn a_guard_publishes_its_payload<G: Group>(group: &G) -> Verdict {
    let judge = |guard: u64, payload: &[u64]| match payload.iter().find(|word| **word < guard) {
        Some(old) => broken_promise("T2", format!("guard {guard} over a payload of {old}")),
        None => Ok(()),
    };
    everybody(group, |node| {
        if node.me == OTHER {
            for round in 1..=ROUNDS {
                node.fabric.write(OWNER, PAYLOAD, &[round; PAYLOAD_WORDS], None);
                node.fabric.write(OWNER, GUARD, &[round], None);
                if round % 16 == 0 {
                    node.poll();
                }
            }
            node.fabric.flush();
            return node.read(OWNER, GUARD, 1).map(|_| ()); // all has left
        }
        let mut seen = 0;
        while seen < ROUNDS {
            let (guard, payload) = if node.me == OWNER {
                node.until("T2", "the owner waits for a guard", |node| {
                    let guard = node.fabric.load(GUARD);
                    (guard > seen).then(|| {
                        let mut payload = vec![0; PAYLOAD_WORDS];
                        node.fabric.load_into(PAYLOAD, &mut payload);
                        (guard, payload)
                    })
                })?
            } else {
                // Two READs of one link: the second is not older than the first.
                let token = node.token();
                node.fabric.read(OWNER, GUARD, 1, token);
                let payload = node.read(OWNER, PAYLOAD, PAYLOAD_WORDS)?;
                let Reply::Read(guard) = node.reply(token)? else {
                    return broken_promise("T4", "a READ of a live peer gave no words");
                };
                (guard[0], payload)
            };
            if guard < seen {
                return broken_promise("T2", format!("a guard went from {seen} to {guard}"));
            }
            judge(guard, &payload)?;
            seen = guard;
        }
        node.saw_no_failure()
    })
}

/// T3: nothing is promised inside a WRITE, so some records are torn; a reader that checks a guard
/// on both sides (odd: being written) accepts none of those.
///
/// # Errors
/// The torn record that was accepted.
pub fn a_torn_record_is_never_accepted<G: Group>(group: &G) -> Verdict {
    const BODY_WORDS: usize = 64;
    everybody(group, |node| {
        if node.me == OTHER {
            for round in 1..=ROUNDS {
                node.fabric.write(OWNER, GUARD, &[2 * round - 1], None);
                node.fabric.write(OWNER, PAYLOAD, &[round; BODY_WORDS], None);
                node.fabric.write(OWNER, GUARD, &[2 * round], None);
                if round % 16 == 0 {
                    node.poll();
                }
            }
            node.fabric.flush();
            return node.read(OWNER, GUARD, 1).map(|_| ());
        }
        let (mut accepted, mut body) = (0, [0; BODY_WORDS]);
        while accepted < ROUNDS {
            let guard = node.until("T2", "the owner waits for a record", |node| {
                let guard = node.fabric.load(GUARD);
                (guard % 2 == 0 && guard / 2 > accepted).then_some(guard)
            })?;
            node.fabric.load_into(PAYLOAD, &mut body);
            if node.fabric.load(GUARD) == guard {
                accepted = guard / 2;
                if body.iter().any(|word| *word != accepted) {
                    let what = format!("record {accepted} was accepted as {body:?}");
                    return broken_promise("T2", what);
                }
            }
        }
        node.saw_no_failure()
    })
}

/// T2: two members each WRITE a word of one memory and then READ the other's: at least one must see
/// what the other wrote (the store-buffer litmus).
///
/// # Errors
/// Both missed it.
pub fn a_read_never_overtakes_a_write<G: Group>(group: &G) -> Verdict {
    const EACH: u64 = 3000;
    let arrived = AtomicU64::new(0);
    everybody(group, |node| {
        let mine = 8 * node.me.index() as u32; // a cache line each
        let mut rng = Rng::new(20 + u64::from(mine));
        for round in 0..EACH {
            // Both start a round together, as closely as possible: the window is that of a store
            // buffer.
            arrived.fetch_add(1, SeqCst);
            let here = || (arrived.load(SeqCst) >= 2 * (round + 1)).then_some(());
            if (0..2000).find_map(|_| here()).is_none() {
                node.until("T4", "waiting for the other's round", |_| here())?;
            }
            (0..rng.below(16)).for_each(|_| std::hint::spin_loop());
            let words = At(16 * round as u32);
            node.fabric.write(OWNER, words.plus(mine), &[1], None);
            let saw = node.read(OWNER, words.plus(8 - mine), 1)?[0];
            // Low half: how many saw the other's word; high half: how many have reported.
            let report = At(50_000 + round as u32);
            let before = node.fetch_add(OWNER, report, 1 << 32 | saw)?;
            if before == 1 << 32 && saw == 0 {
                let what = format!("round {round}: both READs overtook the WRITEs before them");
                return broken_promise("T2", what);
            }
        }
        node.saw_no_failure()
    })
}

/// T2, T7: the receiver of a message finds everything that its sender wrote before it.
///
/// # Errors
/// The missing word.
pub fn a_message_arrives_behind_the_writes_before_it<G: Group>(group: &G) -> Verdict {
    const MESSAGES: u64 = 3000;
    let mut party = Party::open(group)?;
    let mut met = 0;
    for round in 1..=MESSAGES {
        party.nodes[OTHER.index()].fabric.write(OWNER, PAYLOAD, &[round; PAYLOAD_WORDS], None);
        party.until("T7", "room for a message", |party| {
            party.nodes[OTHER.index()].fabric.send(OWNER, &round.to_le_bytes()).then_some(())
        })?;
        if round % 8 != 0 && round != MESSAGES {
            continue;
        }
        party.until("T7", "all messages", |party| {
            let node = &mut party.nodes[OWNER.index()];
            while let Some(Happening::Message(from, bytes)) =
                node.take(|event| matches!(event, Happening::Message(..)))
            {
                let number = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                let mut payload = [0; PAYLOAD_WORDS];
                node.fabric.load_into(PAYLOAD, &mut payload);
                if from != OTHER || payload.iter().any(|word| *word < number) {
                    let what = format!("message {number} of {from} over a payload {payload:?}");
                    return Some(broken_promise("T2", what));
                }
                met = number;
            }
            (met == round).then_some(Ok(()))
        })??;
    }
    party.saw_no_failure()
}
