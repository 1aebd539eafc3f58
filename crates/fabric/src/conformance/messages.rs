//! Litmus tests of messages: T7.

use super::verbs::{OTHER, OWNER};
use super::{Group, Happening, Node, Party, Verdict, broken_promise};
use crate::{Fabric, Port};
use base::{Rank, Rng};

/// The length of messages that every provider carries.
pub const MESSAGE_BYTES: usize = 256 << 10;

/// The contents of a message, which identify its place in the flow.
fn contents(from: Rank, number: u64, n_bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(number << 8 | from.index() as u64);
    let mut bytes: Vec<u8> = Vec::with_capacity(n_bytes + 8);
    while bytes.len() < n_bytes {
        bytes.extend(rng.next_u64().to_le_bytes());
    }
    bytes.truncate(n_bytes);
    bytes
}

/// Lengths of all kinds: zero, odd ones, whole words, and the longest.
fn length(rng: &mut Rng) -> usize {
    match rng.below(100) {
        0..50 => rng.below(40) as usize,
        50..90 => rng.below(5000) as usize,
        90..97 => rng.below(100_000) as usize,
        _ => MESSAGE_BYTES - rng.below(2) as usize,
    }
}

/// T7: flows of both directions, of much more than any buffer holds, arrive whole, once, in order.
///
/// # Errors
/// The message that did not.
pub fn messages_arrive_whole_once_and_in_order<G: Group>(group: &G) -> Verdict {
    const MESSAGES: u64 = 600;
    let mut party = Party::open(group)?;
    // One generator per direction for the sender, and its twin for the receiver.
    let mut sending = [Rng::new(71), Rng::new(72)];
    let mut receiving = sending.clone();
    let (mut next, mut sent, mut met) = ([None, None], [0; 2], [0; 2]);
    party.until("T7", "all messages of both directions", |party| {
        for (me, to) in [(OWNER, OTHER), (OTHER, OWNER)] {
            let (i, node) = (me.index(), &mut party.nodes[me.index()]);
            // A few at a time, so that the buffers are sometimes full and sometimes empty.
            for _ in 0..8 {
                if sent[i] == MESSAGES {
                    break;
                }
                let message: &Vec<u8> =
                    next[i].get_or_insert_with(|| contents(me, sent[i], length(&mut sending[i])));
                if !node.fabric.send(to, message) {
                    break;
                }
                next[i] = None;
                sent[i] += 1;
            }
            if let Err(violation) = meet(node, to, &mut met[i], &mut receiving[to.index()]) {
                return Some(Err(violation));
            }
        }
        (met == [MESSAGES; 2]).then_some(Ok(()))
    })??;
    party.saw_no_failure()
}

/// Takes the messages that arrived and compares each with the expected one.
fn meet<F: Fabric>(node: &mut Node<F>, from: Rank, met: &mut u64, rng: &mut Rng) -> Verdict {
    while let Some(Happening::Message(sender, bytes)) =
        node.take(|event| matches!(event, Happening::Message(..)))
    {
        let expected = contents(from, *met, length(rng));
        if sender != from || bytes != expected {
            let what = format!(
                "message {met} of {from} came from {sender} with {} bytes, it had {}",
                bytes.len(),
                expected.len()
            );
            return broken_promise("T7", what);
        }
        *met += 1;
    }
    Ok(())
}

/// T7: a member may send to itself.
///
/// # Errors
/// The event that came instead.
pub fn a_message_to_oneself_arrives<G: Group>(group: &G) -> Verdict {
    let mut party = Party::open(group)?;
    let node = &mut party.nodes[OTHER.index()];
    for number in 0..100 {
        let message = contents(OTHER, number, number as usize);
        node.send(OTHER, &message)?;
        let got = node.message()?;
        if got != (OTHER, message) {
            return broken_promise("T7", format!("message {number} to oneself came as {got:?}"));
        }
    }
    party.saw_no_failure()
}
