//! Litmus tests of failure: T8 events, and T4 for verbs whose link broke.

use super::child::sleep_until_readable;
use super::verbs::{OTHER, OWNER};
use super::{Group, Happening, Node, Party, Reply, Verdict, broken_promise};
use crate::{At, Fabric, Port};
use base::Rank;
use std::time::Instant;

const AT: At = At(3);

/// The report of a process's death: a provider whose memory outlives the process has to distinguish
/// the two kinds of failure.
fn tells_of_death<F: Fabric>(node: &mut Node<F>, peer: Rank) -> Option<()> {
    let link = node.fabric.capabilities().memory_outlives_process;
    node.take(|event| match event {
        Happening::ProcessFailed(rank) => *rank == peer,
        Happening::LinkDown(rank) => *rank == peer && !link,
        _ => false,
    })
    .map(|_| ())
}

/// T8, T4: SIGKILL of a peer's process is reported, and verbs posted to it complete: with their
/// results where the memory outlives the process.
///
/// # Errors
/// The missing report or completion.
pub fn the_death_of_a_process_is_an_event<G: Group>(group: &G) -> Verdict {
    let mut child = group.spawn(OTHER);
    let mut node = Node::join(group, OWNER)?;
    let sum = node.fetch_add(OTHER, AT, 5)? + 5;
    node.saw_no_failure()?;
    child.kill();
    node.until("T8", "waiting to hear of a death", |node| tells_of_death(node, OTHER))?;
    for _ in 0..100 {
        let token = node.token();
        node.fabric.fetch_add(OTHER, AT, 0, Some(token));
        let reply = node.reply(token)?;
        let allowed = match node.fabric.capabilities().memory_outlives_process {
            true => reply == Reply::Before(sum),
            false => matches!(reply, Reply::Unknown | Reply::Before(_)),
        };
        if !allowed {
            return broken_promise("T4", format!("a verb to a dead process gave {reply:?}"));
        }
    }
    Ok(())
}

/// T8, T9: the report of a death wakes a sleeper.
///
/// # Errors
/// The sleeper does not wake.
pub fn the_death_of_a_process_wakes_a_sleeper<G: Group>(group: &G) -> Verdict {
    let mut child = group.spawn(OTHER);
    let mut node = Node::join(group, OWNER)?;
    let until = Instant::now() + node.deadline;
    let mut told = None;
    while told.is_none() {
        node.fabric.prepare_sleep();
        if node.poll() == 0 {
            child.kill();
            if !sleep_until_readable(&node.fabric, node.deadline) || Instant::now() > until {
                return broken_promise("T9", "a sleeper was not woken by a death");
            }
        }
        node.fabric.awake();
        node.poll();
        told = tells_of_death(&mut node, OTHER);
    }
    Ok(())
}

/// T8: a process that comes back on the memory that it left is reported, repeatedly; nothing is
/// forgotten, and messages flow again.
///
/// # Errors
/// The missing report.
pub fn a_process_that_restarts_is_back<G: Group>(group: &G) -> Verdict {
    const LIVES: u64 = 5;
    let mut child = group.spawn(OTHER);
    let mut node = Node::join(group, OWNER)?;
    for life in 0..LIVES {
        let before = node.fetch_add(OTHER, AT, 1)?;
        if before != life {
            return broken_promise("T8", format!("life {life} remembers {before}"));
        }
        node.send(OTHER, &life.to_le_bytes())?;
        let got = node.message()?;
        if got != (OTHER, life.to_le_bytes().to_vec()) {
            return broken_promise("T7", format!("life {life} sent {got:?}"));
        }
        child.kill();
        drop(child);
        child = group.spawn(OTHER);
        node.until("T8", "waiting to hear of a death", |node| tells_of_death(node, OTHER))?;
        node.link_up(OTHER)?;
    }
    Ok(())
}

/// T8, T4: a member that ends together with its memory takes the link down, and verbs posted to it
/// are unknown; links to others are not affected, and it may come back.
///
/// # Errors
/// The missing report.
pub fn the_loss_of_a_member_is_an_event<G: Group>(group: &G) -> Verdict {
    let third = Rank::at(2);
    let mut party = Party::open(group)?;
    let token = party.nodes[OWNER.index()].token();
    party.nodes[OWNER.index()].fabric.fetch_add(third, AT, 9, Some(token));
    party.reply(OWNER, token)?;
    party.saw_no_failure()?;
    let lost = party.nodes.remove(third.index());
    group.withdraw(third, lost.fabric);
    party.until("T8", "waiting for the link to go down", |party| {
        let told = |node: &Node<_>| node.log.contains(&Happening::LinkDown(third));
        party.nodes.iter().all(told).then_some(())
    })?;
    for node in &mut party.nodes {
        node.log.retain(|event| *event != Happening::LinkDown(third));
    }
    for (to, known) in [(third, false), (OTHER, true), (OWNER, true)] {
        let token = party.nodes[OWNER.index()].token();
        party.nodes[OWNER.index()].fabric.fetch_add(to, AT, 1, Some(token));
        let reply = party.reply(OWNER, token)?;
        if (reply == Reply::Unknown) == known {
            return broken_promise("T4", format!("a verb to {to} gave {reply:?}"));
        }
    }
    party.nodes.push(Node::open(group, third));
    party.until("T8", "waiting for the link to come up", |party| {
        let told = |node: &Node<_>| node.log.contains(&Happening::LinkUp(third));
        party.nodes[..2].iter().all(told).then_some(())
    })
}

/// T4: a verb that completed as unknown takes no effect after the link is up again.
///
/// # Errors
/// The verb that did.
pub fn what_is_unknown_takes_no_effect_later<G: Group>(group: &G) -> Verdict {
    const POSTED: u64 = 200;
    let mut party = Party::open(group)?;
    // An earlier effect is lost with the memory, so any effect that is found afterwards came later.
    let lost = party.nodes.remove(OTHER.index());
    group.withdraw(OTHER, lost.fabric);
    party.until("T8", "waiting for the link to go down", |party| {
        party.nodes[0].take(|event| *event == Happening::LinkDown(OTHER)).map(|_| ())
    })?;
    for _ in 0..POSTED {
        let token = party.nodes[0].token();
        party.nodes[0].fabric.fetch_add(OTHER, AT, 1, Some(token));
        let token = party.nodes[0].token();
        party.nodes[0].fabric.cas(OTHER, AT, 0, 99, Some(token));
    }
    let mut unknown = 0;
    party.until("T4", "waiting for the verbs to be unknown", |party| {
        while let Some(Happening::Completed(_, _, reply)) =
            party.nodes[0].take(|event| matches!(event, Happening::Completed(..)))
        {
            if reply != Reply::Unknown {
                return Some(broken_promise("T4", format!("without a link it gave {reply:?}")));
            }
            unknown += 1;
        }
        (unknown == 2 * POSTED).then_some(Ok(()))
    })??;
    party.nodes.push(Node::open(group, OTHER));
    party.until("T8", "waiting for the link to come up", |party| {
        party.nodes[0].take(|event| *event == Happening::LinkUp(OTHER)).map(|_| ())
    })?;
    for round in 0..50 {
        let token = party.nodes[0].token();
        party.nodes[0].fabric.fetch_add(OTHER, AT, 1 << 32, Some(token));
        let reply = party.reply(OWNER, token)?;
        if reply != Reply::Before(round << 32) {
            return broken_promise("T4", format!("after LinkUp the word gave {reply:?}"));
        }
    }
    Ok(())
}

/// T10: of the verbs posted to a peer before their poster can know of a break, none takes effect
/// once the link is up again, however fast that was. It runs twice, so that each side is the poster
/// once.
///
/// # Errors
/// The verb that did, or the missing report.
pub fn a_break_is_a_cut<G: Group>(group: &G) -> Verdict {
    for (poster, lost) in [(OWNER, OTHER), (OTHER, OWNER)] {
        cut_between(group, poster, lost)?;
    }
    Ok(())
}

fn cut_between<G: Group>(group: &G, poster: Rank, lost: Rank) -> Verdict {
    let mut party = Party::open(group)?;
    let gone = party.nodes.remove(lost.index());
    group.withdraw(lost, gone.fabric);
    // The member is back before the poster has looked. Effects in the new, zeroed memory came
    // later.
    party.nodes.insert(lost.index(), Node::open(group, lost));
    let mut posted = 0;
    party.until("T8", "waiting to hear of a break and of its end", |party| {
        let node = &mut party.nodes[poster.index()];
        // The last verb is posted when the poll that reports the break is over, as by a poster that
        // handles an event from before the report.
        let token = node.token();
        node.fabric.fetch_add(lost, AT, 1, Some(token));
        posted += 1;
        node.log.contains(&Happening::LinkDown(lost)).then_some(())
    })?;
    party.until("T8", "waiting for the link to come up", |party| {
        let node = &mut party.nodes[poster.index()];
        node.take(|event| *event == Happening::LinkUp(lost)).map(|_| ())
    })?;
    let token = party.nodes[poster.index()].token();
    party.nodes[poster.index()].fabric.fetch_add(lost, AT, 0, Some(token));
    let reply = party.reply(poster, token)?;
    if reply != Reply::Before(0) {
        let what = format!("posted before a break was told, but there after it: {reply:?}");
        return broken_promise("T10", what);
    }
    let of_verb = |event: &Happening| matches!(event, Happening::Completed(..));
    let completed = party.nodes[poster.index()].log.iter().filter(|event| of_verb(event)).count();
    if completed != posted {
        return broken_promise("T4", format!("{completed} of {posted} verbs completed"));
    }
    for (at, node) in party.nodes.into_iter().enumerate() {
        group.withdraw(Rank::at(at), node.fabric);
    }
    Ok(())
}
