//! The rules of counting: answers of a memory that is gone, answers of another ballot, and claims.

use super::*;

const LAST: Rank = Rank::at(2);

fn n_reads(group: &Group<Sound>, from: usize, to: usize) -> usize {
    let is_read = |verb: &&Verb| matches!(verb, Verb::Read { .. });
    group.world.links[from][to].iter().filter(is_read).count()
}

#[test]
fn i10_a_read_that_has_asked_a_memory_that_is_gone_asks_again() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.hold(0, 0);
    group.hold(0, 1);
    group.read(0, 7);
    group.step(0);
    let n_asked = n_reads(&group, 0, 1);
    assert!(n_asked > 0, "member 2 alone has answered");
    // Another memory is identified at the seat of member 2.
    let at = group.machines[2].places.incarnation().0 as usize;
    group.break_link(0, 2);
    group.world.memory[2].fill(0);
    group.world.memory[2][at] = Incarnation::FIRST.0 + 1;
    group.event(0, Event::LinkUp(LAST));
    group.step(0);
    group.step(0);
    assert!(n_reads(&group, 0, 1) > n_asked, "what the old memory said is worth nothing");
    let is_ready = |note: &Note| matches!(note, Note::ReadReady(_));
    assert!(!group.world.notes[0].iter().any(is_ready));
    group.release(0, 0);
    group.release(0, 1);
    group.settle(&[0, 1]);
    assert!(group.world.notes[0].iter().any(is_ready));
}

/// Takes a link down while a term's ballot is published, and up before its prefix is. Returns that
/// leader's ballot, and its fact words at member 2 after each verb that arrives there.
fn facts_after_a_break<P: Planting<Bug>>(planted: P) -> (Ballot, Vec<(u64, u64)>) {
    let mut group = Group::new(planted);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.hold(0, 2);
    group.break_link(0, 2);
    group.follow(0);
    group.lead(0);
    group.settle(&[0, 1]);
    group.propose(0, b"unheard").expect("leads");
    group.settle(&[0, 1]);
    group.world.lose(0, 2);
    group.event(0, Event::LinkUp(LAST));
    group.propose(0, b"heard").expect("leads");
    group.settle(&[0, 1]);
    let fact = group.machines[0].places.fact(Rank::at(0)).0 as usize;
    let mut facts = Vec::new();
    let mut look = |group: &Group<P>| {
        facts.push((group.world.memory[2][fact], group.world.memory[2][fact + 1]));
    };
    while !group.world.links[0][2].is_empty() {
        group.world.let_through(0, 2, 1);
        look(&group);
    }
    group.release(0, 2);
    group.settle(&EVERYBODY);
    look(&group);
    assert_eq!(group.values(2), [&b"unheard"[..], b"heard"]);
    (group.machines[0].candidacy.highest(), facts)
}

#[test]
fn i4_a_prefix_never_stands_beside_the_ballot_of_an_earlier_term() {
    let is_torn = |(ballot, facts): (Ballot, Vec<(u64, u64)>)| {
        facts.into_iter().any(|(of, prefix)| prefix > 0 && of != ballot.0)
    };
    let (ballot, facts) = facts_after_a_break(Sound);
    assert_eq!(facts.last(), Some(&(ballot.0, 2)));
    assert!(!is_torn((ballot, facts)));
    assert!(is_torn(facts_after_a_break(Planted(Bug::PublishToUnmet))));
}

/// A group with ballots beyond the word, so that acceptors are contacted by message.
fn led_by_message() -> Group<Sound, Narrow> {
    let mut group = Group::<_, Narrow>::made(Sound);
    group.machines[0].candidacy.see(Narrow::PACKING.ballot_limit());
    group.lead(0);
    group
}

/// Takes the held messages from `from` to member 0, which are then no longer under way.
fn caught(group: &mut Group<Sound, Narrow>, from: usize) -> Vec<Vec<u8>> {
    let verbs = group.world.links[from][0].drain(..);
    let messages = verbs.filter_map(|verb| match verb {
        Verb::Message(bytes) => Some(bytes),
        _ => None,
    });
    messages.collect()
}

#[test]
fn i1_a_promise_to_an_earlier_life_of_the_proposer_is_none_to_this_one() {
    let mut group = Group::<_, Narrow>::made(Sound);
    group.hold(1, 0);
    group.hold(2, 0);
    group.machines[0].candidacy.see(Narrow::PACKING.ballot_limit());
    group.lead(0);
    for _ in 0..4 {
        for me in EVERYBODY {
            group.step(me);
        }
    }
    let old: Vec<_> = [1, 2].map(|from| (from, caught(&mut group, from))).into();
    assert!(old.iter().all(|(_, messages)| !messages.is_empty()), "both have promised");
    let mut view = View { world: &mut group.world, me: 0 };
    group.machines[0] = Machine::new(&config(0, Start::Reattach), At(0), &SHAPE, Sound, &mut view);
    group.machines[0].install(Prefix(0), Some(head()), group.now, &mut view);
    for peer in Rank::all(3) {
        group.event(0, Event::LinkUp(peer));
    }
    group.step(0);
    // The new machine's first term has the old one's number; its messages do not arrive.
    group.hold(0, 1);
    group.hold(0, 2);
    group.lead(0);
    for (from, messages) in &old {
        for bytes in messages {
            group.event(0, Event::Message { from: Rank::at(*from), bytes });
        }
    }
    group.settle(&[0]);
    assert!(!group.leads(0), "nobody has promised this ballot but itself");
}

#[test]
fn i10_an_answer_of_a_memory_that_is_gone_is_not_its_successors() {
    let mut group = led_by_message();
    group.hold(2, 0);
    for _ in 0..4 {
        for me in EVERYBODY {
            group.step(me);
        }
    }
    let old = caught(&mut group, 2);
    assert!(!old.is_empty(), "it has answered");
    let at = group.machines[2].places.incarnation().0 as usize;
    group.break_link(0, 2);
    group.world.memory[2][at] = Incarnation::FIRST.0 + 1;
    group.event(0, Event::LinkUp(LAST));
    group.step(0);
    for bytes in &old {
        group.event(0, Event::Message { from: LAST, bytes });
    }
    let counts = |cell: &Cell| cell.prepared.contains(LAST) || cell.accepted.contains(LAST);
    assert!(!group.machines[0].ring.cells.iter().any(counts));
}

#[test]
fn i3_a_majority_has_applied_what_all_but_a_minority_have() {
    for members in 1..=MAX_MEMBERS {
        let n_words = Spec::layout(members, &SHAPE).n_words as usize;
        let mut world = World::new(members, n_words);
        let mut view = View { world: &mut world, me: 0 };
        let config = NodeConfig { members, ..config(0, Start::Bootstrap) };
        let mut machine = Machine::<Sound>::new(&config, At(0), &SHAPE, Sound, &mut view);
        // The claims come in each order in which one is ahead of the next.
        for turn in 0..members {
            let prefix = |rank: usize| Prefix(10 * (1 + ((rank + turn) % members) as u64));
            machine.applied = prefix(0);
            for rank in 1..members {
                machine.claims.set(Rank::at(rank), prefix(rank), Incarnation::FIRST);
            }
            let applied = machine.applied_by_majority();
            let n_there = (0..members).filter(|rank| prefix(*rank) >= applied).count();
            assert_eq!(n_there, majority(members), "{applied} of {members}, turn {turn}");
        }
    }
}

/// What counts for member 1 when its process is dead, when the link to its successor is up, and
/// when that is heard.
fn credited<P: Planting<Bug>>(planted: P) -> [Prefix; 3] {
    let mut group = Group::new(planted);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.propose(0, b"one").expect("leads");
    group.settle(&EVERYBODY);
    let other = Rank::at(1);
    assert!(group.machines[0].applied_by(other) > Prefix::ZERO);
    group.break_link(0, 1);
    group.event(0, Event::ProcessFailed(other));
    let dead = group.machines[0].applied_by(other);
    group.event(0, Event::LinkUp(other));
    group.settle(&[0]);
    let up = group.machines[0].applied_by(other);
    group.machines[0].heard([other].into_iter().collect());
    [dead, up, group.machines[0].applied_by(other)]
}

/// The trap: the link is up as soon as a successor has the memory of the dead process, with the
/// claim in it; its own claim comes when its loop begins.
#[test]
fn i13_a_successor_is_not_credited_with_what_its_predecessor_had_applied() {
    let [dead, up, heard] = credited(Sound);
    assert_eq!((dead, up), (Prefix::ZERO, Prefix::ZERO));
    assert!(heard > Prefix::ZERO, "a process that lives after all has it");
    assert!(credited(Planted(Bug::AliveAtLinkUp))[1] > Prefix::ZERO);
}
