//! Nodes that are cut off from each other: which one gives which up, and which one stops.

use super::*;
use crate::mock::Memory;

/// A town whose nodes have memory, in which Ω beats, and perhaps disks.
fn town<P: Planting<Bug>>(disk: Option<&Paper>, planted: P) -> Town<P> {
    let mut memory = Memory::of_all();
    let wire = || Wire { memory: memory.next(), ..Wire::default() };
    let mut lans = std::iter::repeat_with(wire).map(|wire| {
        let disk = disk.cloned();
        Lan { wire, disk, ..Lan::default() }
    });
    Town::on(std::array::from_fn(|_| lans.next().expect("there are more")), &everywhere(), planted)
}

impl<P: Planting<Bug>> Town<P> {
    /// Breaks the link between two nodes, with everything on it.
    fn cut(&mut self, a: usize, b: usize) {
        for (from, to) in [(a, b), (b, a)] {
            self.lans[from].links.push((Rank::at(to), false));
            self.lans[from].wire.take(Rank::at(to));
            self.lans[to].messages.retain(|(of, _)| *of != Rank::at(from));
        }
    }

    /// Has these nodes take turns, `pause` apart; the others stand still.
    fn run(&mut self, nodes: &[usize], n_turns: usize, pause: Duration) {
        for _ in 0..n_turns {
            for at in nodes {
                self.now = self.now.plus(pause);
                self.turn(*at);
                self.carry(*at);
            }
        }
    }

    fn left(&self, at: usize) -> Vec<usize> {
        let left = self.nodes[at].ended().filter(|(_, why)| *why == End::LeftBehind);
        left.map(|(node, _)| node.index()).collect()
    }
}

/// Fills the window of node 0 while it is cut off, lets it ask in vain for long, and mends the cut.
/// Returns those that it has given up.
fn asks_in_vain<P: Planting<Bug>>(planted: P) -> Vec<usize> {
    let mut town = town(None, planted);
    (1..N).for_each(|to| town.cut(0, to));
    for _ in 0..16 {
        town.multicast(0, b"four");
    }
    town.run(&[0], 40_000, Duration::from_secs(1));
    let left = town.left(0);
    if !left.is_empty() {
        return left;
    }
    (1..N).for_each(|to| town.link(0, to));
    town.run(&[0, 1, 2], 200, Duration::from_millis(100));
    assert!(town.nodes.iter().all(|node| node.app.delivered.len() == 16));
    left
}

#[test]
fn s8_a_node_that_asks_in_vain_gives_no_peer_up() {
    assert!(asks_in_vain(Sound).is_empty());
    assert!(!asks_in_vain(Planted(Bug::QuestionsAccumulate)).is_empty(), "a planted bug");
}

#[test]
fn d3_a_burst_of_long_messages_gives_no_live_peer_up() {
    let mut town = town(None, Sound);
    let long: std::sync::Arc<[u8]> = vec![7; 1 << 20].into();
    let options = Options::default();
    let (_, desk) = town.nodes[0].at_desk();
    let mut send =
        |_: &usize| desk.multicast(GroupId::at(0).alone(), long.clone(), &options).is_ok();
    let n_accepted = (0..8).filter(|n| send(n)).count();
    town.run(&[0, 1, 2], 100, Duration::ZERO);
    assert!((0..N).all(|at| town.left(at).is_empty()));
    assert!(n_accepted > 0 && town.nodes.iter().all(|of| of.app.delivered.len() == n_accepted));
}

#[test]
fn d3_a_node_that_comes_back_is_not_given_up_for_what_waited_for_it() {
    let mut town = town(Some(&Paper::default()), Sound);
    (1..N).for_each(|to| town.cut(0, to));
    let long = vec![7; 1 << 20];
    for _ in 0..8 {
        let (_, desk) = town.nodes[0].at_desk();
        let _refused = desk.multicast(GroupId::at(0).alone(), long.clone(), &Options::default());
        town.run(&[0], 20, Duration::from_secs(1));
    }
    town.nodes[1] = node_on(&mut town.lans[1], 1, 7, everywhere(), Sound);
    town.lans[1].links.clear();
    town.link(0, 1);
    town.run(&[0, 1], 100, Duration::from_millis(100));
    assert_eq!(town.left(0), []);
    let n = town.nodes[0].app.delivered.len();
    assert!(n > 0 && town.nodes[1].app.delivered.len() == n);
}
