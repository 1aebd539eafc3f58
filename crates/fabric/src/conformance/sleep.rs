//! Litmus tests of sleeping: T9.

use super::child::sleep_until_readable;
use super::verbs::{OTHER, OWNER, everybody};
use super::{Group, Happening, Node, Verdict, Violation, broken_promise};
use crate::{At, Fabric, Port};
use base::Rng;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Waits for `done` as a poll loop does: looks a few times, then announces its sleep, looks once
/// more, and blocks. Blocking for a large part of the deadline, far longer than any wake-up takes,
/// counts as a lost wake-up: in these litmus tests an event always comes.
fn sleepily<F: Fabric, T>(
    node: &mut Node<F>,
    looks: u64,
    what: &str,
    mut done: impl FnMut(&mut Node<F>) -> Option<T>,
) -> Result<T, Violation> {
    for _ in 0..looks {
        node.poll();
        if let Some(found) = done(node) {
            return Ok(found);
        }
    }
    let sleep_max = node.deadline / 3;
    // Rings for events that were seen already may end a sleep early, once each.
    for _ in 0..10_000 {
        node.fabric.prepare_sleep();
        let looked = node.poll();
        if let Some(found) = done(node) {
            node.fabric.awake();
            return Ok(found);
        }
        let woken = looked > 0 || sleep_until_readable(&node.fabric, sleep_max);
        node.fabric.awake();
        node.poll();
        let found = done(node);
        if !woken {
            return broken_promise("T9", format!("{} slept {sleep_max:?} over {what}", node.me));
        }
        if let Some(found) = found {
            return Ok(found);
        }
    }
    broken_promise("T9", format!("{} is woken all the time, not for {what}", node.me))
}

/// The number of looks before the sleep: usually about as long as an awake peer takes to answer, so
/// that the last look and the ball cross; sometimes much longer, so that the peer is awake.
fn looks(rng: &mut Rng) -> u64 {
    if rng.chance(1, 2) { rng.below(40) } else { rng.below(2000) }
}

fn next_message<F: Fabric>(node: &mut Node<F>) -> Option<Vec<u8>> {
    match node.take(|event| matches!(event, Happening::Message(..))) {
        Some(Happening::Message(_, bytes)) => Some(bytes),
        _ => None,
    }
}

/// T9: two members play ball with a message; each sleeps when it does not have the ball.
///
/// # Errors
/// A member sleeps although it has the ball.
pub fn no_wake_up_by_message_is_lost<G: Group>(group: &G) -> Verdict {
    const ROUNDS: u64 = 5000;
    everybody(group, |node| {
        let other = if node.me == OWNER { OTHER } else { OWNER };
        let mut rng = Rng::new(90 + node.me.index() as u64);
        for round in 0..ROUNDS {
            if node.me == OWNER {
                node.send(other, &round.to_le_bytes())?;
                node.fabric.flush();
            }
            let ball = sleepily(node, looks(&mut rng), "a message", next_message)?;
            if ball != round.to_le_bytes() {
                return broken_promise("T7", format!("ball {round} came as {ball:?}"));
            }
            if node.me == OTHER {
                node.send(other, &ball)?;
                node.fabric.flush();
            }
        }
        node.saw_no_failure()
    })
}

/// T9: two members play ball with a word: WRITE, then `wake`.
///
/// # Errors
/// A member sleeps although the word is there.
pub fn no_wake_up_after_a_write_is_lost<G: Group>(group: &G) -> Verdict {
    const ROUNDS: u64 = 5000;
    const BALL: At = At(77);
    everybody(group, |node| {
        let other = if node.me == OWNER { OTHER } else { OWNER };
        let mut rng = Rng::new(95 + node.me.index() as u64);
        for round in 1..=ROUNDS {
            let throw = |node: &mut Node<G::Fabric>| {
                node.fabric.write(other, BALL, &[round], None);
                node.fabric.wake(other);
                node.fabric.flush();
            };
            if node.me == OWNER {
                throw(node);
            }
            sleepily(node, looks(&mut rng), "a written word", |node| {
                (node.fabric.load(BALL) >= round).then_some(())
            })?;
            if node.me == OTHER {
                throw(node);
            }
        }
        node.saw_no_failure()
    })
}

/// T9: one member goes to sleep at the moment at which the other sends.
///
/// # Errors
/// The member neither sees the message in its last look nor is woken.
pub fn a_message_that_crosses_a_falling_asleep_wakes<G: Group>(group: &G) -> Verdict {
    const ROUNDS: u64 = 5000;
    let arrived = AtomicU64::new(0);
    everybody(group, |node| {
        let mut rng = Rng::new(80 + node.me.index() as u64);
        for round in 0..ROUNDS {
            arrived.fetch_add(1, SeqCst);
            let here = || (arrived.load(SeqCst) >= 2 * (round + 1)).then_some(());
            if (0..2000).find_map(|_| here()).is_none() {
                node.until("T4", "waiting for the other's round", |_| here())?;
            }
            (0..rng.below(64)).for_each(|_| std::hint::spin_loop());
            if node.me == OTHER {
                node.send_now(OWNER, &round.to_le_bytes())?;
                continue;
            }
            let ball = sleepily(node, 0, "a message", next_message)?;
            if ball != round.to_le_bytes() {
                return broken_promise("T7", format!("ball {round} came as {ball:?}"));
            }
        }
        node.saw_no_failure()
    })
}

/// T9: between processes that share nothing but the fabric.
///
/// # Errors
/// A side sleeps through a message.
pub fn a_sleeper_in_another_process_is_woken<G: Group>(group: &G) -> Verdict {
    const ROUNDS: u64 = 1000;
    let _child = group.spawn(OTHER);
    let mut node = Node::join(group, OWNER)?;
    let mut rng = Rng::new(99);
    for round in 0..ROUNDS {
        node.send(OTHER, &round.to_le_bytes())?;
        node.fabric.flush();
        let ball = sleepily(&mut node, looks(&mut rng), "an answer", next_message)?;
        if ball != round.to_le_bytes() {
            return broken_promise("T7", format!("ball {round} came as {ball:?}"));
        }
    }
    node.saw_no_failure()
}
