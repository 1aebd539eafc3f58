//! States of all groups, on a disk.

use super::super::joint::PATIENCE;
use super::*;
use crate::mock::Memory;
use proto::disk::Disk as _;

/// A town whose nodes have memory, and the third one a disk.
fn town() -> Town<Sound> {
    let mut memory = Memory::of_all();
    let lans = [None, None, Some(Paper::default())].map(|disk| lan(memory.next(), disk));
    Town::on(lans, &everywhere(), Sound)
}

fn lan(memory: Option<Memory>, disk: Option<Paper>) -> Lan {
    Lan { wire: Wire { memory, ..Wire::default() }, disk, ..Lan::default() }
}

impl Town<Sound> {
    /// A turn of these nodes, with a message of the first one.
    fn round(&mut self, nodes: &[usize], n: u32) {
        self.multicast(0, &n.to_le_bytes());
        for at in nodes {
            self.turn(*at);
            self.carry(*at);
        }
    }
}

/// The disks that a crash may leave between these two.
fn crashes(before: &Paper, after: &Paper) -> Vec<Paper> {
    let mut disks = vec![before.clone()];
    for slot in before.end().0..after.end().0 {
        let mut next = disks[disks.len() - 1].clone();
        next.entries.push_back(after.entries[(slot - after.start) as usize].clone());
        disks.push(next);
    }
    disks.push(after.clone());
    disks
}

/// What a node's next life on this disk has delivered.
fn found(disk: Paper, mut now: Instant) -> Vec<Vec<u8>> {
    let mut lan = lan(None, Some(disk));
    let mut node = node_on(&mut lan, 2, 3, everywhere(), Sound);
    for _ in 0..50 {
        now = now.plus(Duration::from_millis(2));
        node.turn(now, &mut lan).expect("it continues");
    }
    assert!(!node.journal.is_some_and(|journal| journal.holds()), "its first whole is synced");
    node.app.delivered
}

/// Whether these are the first messages of all.
fn is_in_order(delivered: &[Vec<u8>]) -> bool {
    (0u32..).zip(delivered).all(|(n, payload)| payload[..] == n.to_le_bytes())
}

#[test]
fn n12_a_crash_while_joint_states_are_written_leaves_all_of_them_or_none() {
    let mut town = town();
    (0..50).for_each(|n| town.round(&[0, 1, 2], n));
    // The others continue without it, and forget what it misses.
    for other in [0, 1] {
        town.lans[other].links.push((Rank::at(2), false));
    }
    (50..200).for_each(|n| town.round(&[0, 1], n));
    let died = std::mem::take(&mut town.lans[2]);
    let mut lan = lan(died.wire.memory, died.disk);
    town.nodes[2] = node_on(&mut lan, 2, 2, everywhere(), Sound);
    town.lans[2] = lan;
    [0, 1].into_iter().for_each(|other| town.link(other, 2));
    let disk = |town: &Town<Sound>| town.lans[2].disk.clone().expect("it has one");
    let n_old = found(disk(&town), town.now).len();
    assert!((40..60).contains(&n_old), "{n_old}");
    let (mut n_none, mut n_all) = (0, 0);
    for n in 200.. {
        assert!(n < 5_000, "it takes no states");
        let before = disk(&town);
        town.round(&[0, 1, 2], n);
        if town.nodes[2].desk.figures.states == 0 {
            continue;
        }
        for disk in crashes(&before, &disk(&town)) {
            let n_entries = disk.entries.len();
            let has = found(disk, town.now);
            assert!(is_in_order(&has), "N12: {n_entries} entries are of two moments");
            *if has.len() == n_old { &mut n_none } else { &mut n_all } += 1;
        }
        if !town.nodes[2].journal.as_ref().is_some_and(Journal::holds) {
            break;
        }
    }
    assert!(n_none > 5 && n_all > 0, "{n_none}, {n_all}");
    (0..5).for_each(|_| town.turn_all());
    assert_eq!(town.nodes[2].app.delivered, town.nodes[0].app.delivered);
}

/// A town in memory whose third node has come back, with a new memory, behind what is retained.
fn town_with_a_newcomer() -> Town<Sound> {
    let mut memory = Memory::of_all();
    let mut lans: [Lan; N] = std::array::from_fn(|_| lan(memory.next(), None));
    let suspect_after = Duration::from_secs(1);
    let of = |me| Setup { suspect_after, ..setup(me, everywhere()) };
    let begin = |(me, lan)| node_with(lan, &of(me), 1, Sound);
    let nodes = lans.iter_mut().enumerate().map(begin).collect();
    let mut town = Town { nodes, lans: lans.into(), now: Instant(1), planted: Sound };
    [(0, 1), (0, 2), (1, 2)].into_iter().for_each(|(a, b)| town.link(a, b));
    (0..50).for_each(|n| town.round(&[0, 1, 2], n));
    town.lans[2].links.push((Rank::at(0), false));
    town.lans[2].links.push((Rank::at(1), false));
    for other in [0, 1] {
        town.lans[other].links.push((Rank::at(2), false));
    }
    (50..200).for_each(|n| town.round(&[0, 1], n));
    let died = std::mem::take(&mut town.lans[2]);
    town.lans[2] = lan(died.wire.memory, None);
    town.nodes[2] = node_with(&mut town.lans[2], &of(2), 2, Sound);
    [0, 1].into_iter().for_each(|other| town.link(other, 2));
    town
}

impl Town<Sound> {
    /// Has these nodes take turns for so long.
    fn pass(&mut self, nodes: &[usize], seconds: u64) {
        for _ in 0..100 * seconds {
            self.now = self.now.plus(Duration::from_millis(10));
            for at in nodes {
                self.turn(*at);
                self.carry(*at);
            }
        }
    }
}

/// Else a state that takes longer to encode than a piece may take is never taken: each giver is
/// asked in vain, and stands still for that.
#[test]
fn a_giver_that_stands_still_is_waited_for_and_one_that_is_silent_is_let_off() {
    let mut town = town_with_a_newcomer();
    // It asks one of them, which encodes for long; the other continues.
    let mut n = 200;
    let giver = loop {
        assert!(n < 5_000, "it asks for no states");
        town.round(&[0, 1, 2], n);
        n += 1;
        if let Some((giver, _)) = town.nodes[2].joint.asked {
            break giver.index();
        }
    };
    let number = town.nodes[2].joint.number;
    town.pass(&[1 - giver, 2], 3 * PATIENCE.as_secs());
    assert_eq!(town.nodes[2].joint.number, number, "it waits for that one");
    // It is there again, and its answer was lost.
    town.lans[giver].messages.clear();
    let states = |town: &Town<Sound>| town.nodes[2].desk.figures.states;
    town.pass(&[0, 1, 2], 2 * PATIENCE.as_secs());
    assert!(town.nodes[2].joint.number > number && states(&town) > 0, "another one is asked");
    assert!(town.nodes.iter().all(|node| node.joint.giving.is_empty()), "N11");
}

/// One that its disk holds, or that is stopped, has a link and is silent for any other reason.
#[test]
fn n11_a_giver_that_is_silent_already_is_not_waited_for() {
    for silent in 0..2 {
        let mut town = town_with_a_newcomer();
        // The newcomer takes its seat; then one of the others hangs, the one that would be asked.
        town.nodes[2].joint.ask_at = town.now.plus(Duration::from_secs(3600));
        town.pass(&[0, 1, 2], 3);
        let speaks = 1 - silent;
        town.pass(&[speaks, 2], 3);
        assert!(town.nodes[2].rests() && town.nodes[2].is_silent(Rank::at(silent)));
        town.nodes[2].joint.last_asked = (silent == 1).then_some(Rank::at(0));
        town.nodes[2].joint.ask_at = town.now;
        town.pass(&[speaks, 2], PATIENCE.as_secs() / 2);
        assert!(town.nodes[2].desk.figures.states > 0, "node {speaks} gives them, at once");
    }
}

/// Else it waits for a piece that no node has, for ten seconds.
#[test]
fn n11_a_giver_that_has_dropped_the_states_says_so() {
    let mut town = town_with_a_newcomer();
    let mut n = 200;
    while town.nodes[2].joint.gathered.is_empty() {
        assert!(n < 5_000, "no piece comes");
        town.round(&[0, 1, 2], n);
        n += 1;
    }
    let (giver, _) = town.nodes[2].joint.asked.expect("it has asked for them");
    let at = giver.index();
    assert!(
        !town.nodes[2].joint.is_whole && town.nodes[at].joint.giving.contains_key(&Rank::at(2))
    );
    // The link breaks. The giver takes notice before there is another one, and the asker does not.
    town.lans[at].messages.clear();
    town.lans[2].messages.retain(|(from, _)| *from != giver);
    town.lans[at].links.push((Rank::at(2), false));
    town.pass(&[at], 1);
    assert!(town.nodes[at].joint.giving.is_empty());
    town.lans[2].links.push((giver, false));
    town.link(at, 2);
    town.pass(&[0, 1, 2], PATIENCE.as_secs() / 2);
    assert!(town.nodes[2].desk.figures.states > 0, "it asks again");
}
