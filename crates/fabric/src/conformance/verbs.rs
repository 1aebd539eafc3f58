//! Litmus tests of the verbs: T1 whole words, T4 completions, T6 atomicity.

use super::{Group, Happening, Node, Party, Reply, Verdict, Violation, broken_promise};
use crate::{At, Fabric, Port};
use base::{Rank, Rng};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::scope;
use std::time::Instant;

/// The first member, whose memory the verbs use.
pub(super) const OWNER: Rank = Rank::at(0);
/// The second member.
pub(super) const OTHER: Rank = Rank::at(1);

/// Runs `work` on a thread for each member, and serves every member until all are done: a provider
/// may need the owner's help. The first violation is the verdict.
pub(super) fn everybody<G: Group>(
    group: &G,
    work: impl Fn(&mut Node<G::Fabric>) -> Verdict + Sync,
) -> Verdict {
    let working = AtomicU64::new(group.members() as u64);
    let (working, work) = (&working, &work);
    let member = move |me: Rank| -> Verdict {
        // Counts down even if the work fails, so that no member waits for it.
        struct Leaving<'a>(&'a AtomicU64);
        impl Drop for Leaving<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, SeqCst);
            }
        }
        let leaving = Leaving(working);
        let mut node = Node::join(group, me)?;
        let verdict = work(&mut node);
        drop(leaving);
        // This is done also after a violation: to leave now would look like a failure to the
        // others.
        let until = Instant::now() + node.deadline;
        while working.load(SeqCst) > 0 && Instant::now() < until {
            node.poll();
            std::thread::yield_now();
        }
        verdict
    };
    let verdicts: Vec<Verdict> = scope(|scope| {
        let threads = Rank::all(group.members()).map(|me| scope.spawn(move || member(me)));
        let threads: Vec<_> = threads.collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|verdict| verdict.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    // A violation at one member makes the others reach their deadlines: those come last.
    let mut violations: Vec<Violation> = verdicts.into_iter().filter_map(Result::err).collect();
    violations.sort_by_key(|violation| violation.what.contains("nothing in"));
    violations.into_iter().next().map_or(Ok(()), Err)
}

/// T1: a word that flips all its bits is only ever seen in one of its two states.
///
/// # Errors
/// The value that was seen instead.
pub fn words_are_whole<G: Group>(group: &G) -> Verdict {
    const STATES: [u64; 2] = [0x0f0f_0f0f_0f0f_0f0f, 0xf0f0_f0f0_f0f0_f0f0];
    const AT: At = At(5);
    const DONE: At = At(16);
    everybody(group, |node| {
        if node.me == OTHER {
            for round in 0..20_000 {
                node.fabric.write(OWNER, AT, &[STATES[round % 2]], None);
                if round % 64 == 0 {
                    node.poll();
                }
            }
            return node.fetch_add(OWNER, DONE, 1).map(|_| ());
        }
        node.until("T2", "the owner waits for the writer", |node| {
            for _ in 0..64 {
                let word = node.fabric.load(AT);
                if word != 0 && !STATES.contains(&word) {
                    return Some(broken_promise("T1", format!("a torn word: {word:016x}")));
                }
            }
            (node.fabric.load(DONE) > 0).then_some(Ok(()))
        })?
    })
}

/// T4: every signalled verb completes once, on one link in posting order; an unsignalled one never.
///
/// # Errors
/// The verb that did not.
pub fn every_verb_completes_once_and_in_order<G: Group>(group: &G) -> Verdict {
    const ROUNDS: u64 = 2000;
    let mut party = Party::open(group)?;
    let ranks: Vec<Rank> = Rank::all(group.members()).collect();
    let mut rng = Rng::new(4);
    let mut expected: Vec<Vec<(u64, Reply)>> = vec![Vec::new(); ranks.len()];
    let mut sums = vec![0; ranks.len()];
    let mut completed: Vec<Happening> = Vec::new();
    for number in 1..=ROUNDS {
        let to = ranks[rng.below(ranks.len() as u64) as usize];
        let token = crate::Token(number);
        let node = &mut party.nodes[OWNER.index()];
        let (signalled, sum) = (rng.chance(3, 4).then_some(token), &mut sums[to.index()]);
        let reply = match rng.below(4) {
            0 => {
                node.fabric.write(to, At(100), &[number; 3], signalled);
                Reply::Written
            }
            1 => {
                let expected = if rng.chance(1, 2) { *sum } else { u64::MAX };
                node.fabric.cas(to, At(200), expected, number, signalled);
                let before = Reply::Before(*sum);
                *sum = if expected == *sum { number } else { *sum };
                before
            }
            2 => {
                node.fabric.fetch_add(to, At(200), 7, signalled);
                *sum += 7;
                Reply::Before(*sum - 7)
            }
            _ => {
                node.fabric.read(to, At(200), 1, token);
                expected[to.index()].push((number, Reply::Read(vec![*sum])));
                continue;
            }
        };
        if signalled.is_some() {
            expected[to.index()].push((number, reply));
        }
        if rng.chance(1, 20) {
            party.nodes.iter_mut().for_each(|node| {
                node.poll();
            });
        }
    }
    let all: usize = expected.iter().map(Vec::len).sum();
    party.until("T4", "waiting for all completions", |party| {
        completed.extend(party.nodes[OWNER.index()].log.drain(..));
        (completed.len() >= all).then_some(())
    })?;
    // No further completion follows: a round trip to each member would bring it along.
    for to in &ranks {
        let token = party.nodes[OWNER.index()].token();
        party.nodes[OWNER.index()].fabric.read(*to, At(200), 1, token);
        party.reply(OWNER, token)?;
    }
    completed.extend(party.nodes[OWNER.index()].log.drain(..));
    for to in ranks {
        let on_link = completed.iter().filter_map(|happening| match happening {
            Happening::Completed(from, token, reply) if *from == to => {
                Some((token.0, reply.clone()))
            }
            _ => None,
        });
        let on_link: Vec<_> = on_link.collect();
        if on_link != expected[to.index()] {
            let pairs = on_link.iter().zip(&expected[to.index()]);
            let first = pairs.clone().find(|(got, wanted)| got != wanted);
            return broken_promise(
                "T4",
                format!(
                    "{} completions from {to} for {} verbs; first difference: {first:?}",
                    on_link.len(),
                    expected[to.index()].len()
                ),
            );
        }
    }
    party.saw_no_failure()
}

/// T6: a CAS with a wrong expected value changes nothing and returns the present one.
///
/// # Errors
/// The effect that it had.
pub fn a_stale_cas_changes_nothing<G: Group>(group: &G) -> Verdict {
    const AT: At = At(9);
    let mut party = Party::open(group)?;
    let mut cas = |expected, desired| {
        let token = party.nodes[OTHER.index()].token();
        party.nodes[OTHER.index()].fabric.cas(OWNER, AT, expected, desired, Some(token));
        let reply = party.reply(OTHER, token)?;
        Ok((reply, party.nodes[OWNER.index()].fabric.load(AT)))
    };
    for (expected, desired, before, after) in
        [(0, 5, 0, 5), (0, 6, 5, 5), (6, 7, 5, 5), (5, 8, 5, 8), (5, 9, 8, 8)]
    {
        let got = cas(expected, desired)?;
        if got != (Reply::Before(before), after) {
            let what = format!("CAS {expected} -> {desired} on {before} gave {got:?}");
            return broken_promise("T6", what);
        }
    }
    party.saw_no_failure()
}

/// T6: the owner's CAS (by loop-back) and a peer's are atomic together.
///
/// # Errors
/// The sum that came out.
pub fn cas_is_atomic_with_the_owner<G: Group>(group: &G) -> Verdict {
    const AT: At = At(33);
    const ROUNDS: u64 = 500;
    let total = group.members() as u64 * ROUNDS;
    everybody(group, |node| {
        for _ in 0..ROUNDS {
            let mut expected = 0;
            loop {
                let before = node.cas(OWNER, AT, expected, expected + 1)?;
                if before == expected {
                    break;
                }
                expected = before;
            }
        }
        at_the_end(node, AT, total)
    })
}

/// T6: FETCH-ADDs of all members lose nothing, and no two see the same word before.
///
/// # Errors
/// The lost increment.
pub fn concurrent_fetch_adds_sum_up<G: Group>(group: &G) -> Verdict {
    const AT: At = At(34);
    const ROUNDS: u64 = 500;
    let total = group.members() as u64 * ROUNDS;
    let seen = std::sync::Mutex::new(HashSet::new());
    everybody(group, |node| {
        let mut mine = Vec::new();
        for _ in 0..ROUNDS {
            mine.push(node.fetch_add(OWNER, AT, 1)?);
        }
        let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(twice) = mine.into_iter().find(|before| !seen.insert(*before)) {
            return broken_promise("T6", format!("two FETCH-ADDs met {twice}"));
        }
        drop(seen);
        at_the_end(node, AT, total)
    })
}

/// Checks at the owner that all increments arrive, and no more than those.
fn at_the_end<F: Fabric>(node: &mut Node<F>, at: At, total: u64) -> Verdict {
    if node.me == OWNER {
        let what = format!("the word adds up to {total}");
        node.until("T6", &what, |node| (node.fabric.load(at) >= total).then_some(()))?;
        let sum = node.fabric.load(at);
        if sum != total {
            return broken_promise("T6", format!("{total} increments made {sum}"));
        }
    }
    node.saw_no_failure()
}
