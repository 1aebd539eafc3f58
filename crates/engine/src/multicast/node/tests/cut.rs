//! Nodes that are cut off from each other: which one gives which up, and which one stops.

use super::*;
use crate::mock::Memory;

/// A town whose nodes have memory, in which Ω beats, and perhaps disks.
pub(super) fn town<P: Planting<Bug>>(disk: Option<&Paper>, planted: P) -> Town<P> {
    Town::on(lans(disk), &everywhere(), planted)
}

pub(super) fn lans(disk: Option<&Paper>) -> [Lan; N] {
    let mut memory = Memory::of_all();
    let mut wire = || Wire { memory: memory.next(), ..Wire::default() };
    std::array::from_fn(|_| Lan { wire: wire(), disk: disk.cloned(), ..Lan::default() })
}

/// A group of three nodes, and one of the first two.
fn and_a_pair() -> Places {
    Places::new(N, vec![Rank::all(N).collect(), Rank::all(2).collect()])
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
    pub(super) fn run(&mut self, nodes: &[usize], n_turns: usize, pause: Duration) {
        for _ in 0..n_turns {
            for at in nodes {
                self.now = self.now.plus(pause);
                self.turn(*at);
                self.carry(*at);
            }
        }
    }

    /// The same, of all nodes. Returns those that stop, and why.
    fn stops(&mut self, n_turns: usize) -> Vec<(usize, StopError)> {
        let mut stopped: Vec<(usize, StopError)> = Vec::new();
        for _ in 0..n_turns {
            for at in 0..N {
                if stopped.iter().any(|(of, _)| *of == at) {
                    continue;
                }
                self.now = self.now.plus(Duration::from_millis(100));
                let turn = self.nodes[at].turn(self.now, &mut self.lans[at]);
                stopped.extend(turn.err().map(|why| (at, why)));
            }
            // What they say crosses.
            (0..N).for_each(|at| self.carry(at));
        }
        stopped
    }

    /// Has `at` keep more for a node than it may.
    fn overflow(&mut self, at: usize, to: usize) {
        let long = vec![0; 1 << 20];
        (0..6).for_each(|_| self.nodes[at].world.streams.push(Rank::at(to), &[], &long));
        assert!(self.left(at).contains(&to));
    }

    fn left(&self, at: usize) -> Vec<usize> {
        let left = self.nodes[at].ended().filter(|(_, why)| *why == End::LeftBehind);
        left.map(|(node, _)| node.index()).collect()
    }
}

/// Fills the window of node 0 while it is cut off, lets it ask in vain for long, and mends the cut.
/// Returns the reason for which it stops.
fn asks_in_vain<P: Planting<Bug>>(planted: P) -> Option<StopError> {
    let mut town = town(None, planted);
    (1..N).for_each(|to| town.cut(0, to));
    for _ in 0..16 {
        town.multicast(0, b"four");
    }
    town.run(&[0], 40_000, Duration::from_secs(1));
    (1..N).for_each(|to| town.link(0, to));
    let stops = town.stops(200);
    let has_all = |node: &Node<_, App, _>| node.app.delivered.len() == 16;
    assert!(!stops.is_empty() || town.nodes.iter().all(has_all));
    stops.first().map(|(node, why)| {
        assert_eq!((*node, stops.len()), (0, 1));
        *why
    })
}

#[test]
fn s8_a_node_that_asks_in_vain_gives_no_peer_up() {
    assert_eq!(asks_in_vain(Sound), None);
    let stops = asks_in_vain(Planted(Bug::QuestionsAccumulate));
    assert_eq!(stops, Some(StopError::CutOff(GroupId::at(0))), "a planted bug");
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

/// The nodes that stop when one has given both others up, and they have not.
fn stop_for_one<P: Planting<Bug>>(planted: P) -> Vec<(usize, StopError)> {
    let mut town = town(None, planted);
    for to in 1..N {
        town.cut(0, to);
        town.overflow(0, to);
    }
    town.run(&[1, 2], 3, Duration::from_millis(1));
    (1..N).for_each(|to| town.link(0, to));
    town.stops(20)
}

#[test]
fn n14_a_node_that_has_given_a_majority_up_stops_instead() {
    assert_eq!(stop_for_one(Sound), [(0, StopError::CutOff(GroupId::at(0)))]);
    let told = [1, 2].map(|at| (at, StopError::LeftBehind(Rank::at(0))));
    assert_eq!(stop_for_one(Planted(Bug::TellsTheMajority)), told, "a planted bug");
}

/// The nodes that stop when the link between two is cut until both have given each other up.
fn stop_for_a_link<P: Planting<Bug>>(planted: P) -> Vec<(usize, StopError)> {
    let mut town = town(None, planted);
    town.cut(0, 1);
    town.run(&[0, 1, 2], 3, Duration::from_millis(1));
    town.overflow(0, 1);
    town.overflow(1, 0);
    assert_eq!(town.stops(5), [], "without a link none is told");
    town.link(0, 1);
    town.stops(20)
}

#[test]
fn s9_of_two_that_have_given_each_other_up_one_stops() {
    let second = (1, StopError::LeftBehind(Rank::at(0)));
    assert_eq!(stop_for_a_link(Sound), [second]);
    let both = stop_for_a_link(Planted(Bug::BothStop));
    assert_eq!(both, [(0, StopError::LeftBehind(Rank::at(1))), second], "a planted bug");
}

#[test]
fn n15_a_node_that_hears_no_majority_tells_no_peer_to_stop() {
    let mut town = town(None, Sound);
    town.cut(0, 1);
    town.overflow(0, 1);
    assert_eq!(town.stops(3), []);
    // It is cut off from the third as well, and the others continue.
    town.cut(0, 2);
    assert_eq!(town.stops(3), []);
    town.link(0, 1);
    assert_eq!(town.stops(20), [], "it hears itself alone");
    town.cut(0, 1);
    (1..N).for_each(|at| town.overflow(at, 0));
    (1..N).for_each(|to| town.link(0, to));
    let stops = town.stops(20);
    assert!(matches!(stops[..], [(0, StopError::LeftBehind(_))]), "{stops:?}");
}

/// It loses nothing, and may be needed.
#[test]
fn n15_a_node_with_a_disk_is_told_at_once() {
    let mut town = town(Some(&Paper::default()), Sound);
    town.cut(0, 1);
    town.cut(0, 2);
    town.overflow(0, 1);
    assert_eq!(town.stops(3), []);
    town.link(0, 1);
    assert_eq!(town.stops(20), [(1, StopError::LeftBehind(Rank::at(0)))]);
}

/// The nodes that stop when the first link between two comes, which have given each other up.
#[test]
fn s9_of_two_that_never_met_and_have_given_each_other_up_one_stops() {
    for disk in [None, Some(&Paper::default())] {
        let mut town = Town::apart(lans(disk), &everywhere(), Sound);
        [(0, 2), (1, 2)].into_iter().for_each(|(a, b)| town.link(a, b));
        assert_eq!(town.stops(20), []);
        town.overflow(0, 1);
        town.overflow(1, 0);
        town.link(0, 1);
        assert_eq!(town.stops(20), [(1, StopError::LeftBehind(Rank::at(0)))]);
    }
}

/// A town on disks with two groups, in which node 0 has given node 1 up, which it does not hear.
fn gave_one_of_a_pair_up() -> Town<Sound> {
    let mut town = Town::on(lans(Some(&Paper::default())), &and_a_pair(), Sound);
    town.run(&[0, 1, 2], 3, Duration::from_millis(1));
    town.cut(0, 1);
    town.cut(2, 1);
    town.overflow(0, 1);
    town
}

#[test]
fn n14_a_node_does_not_stop_for_a_dead_one_without_which_one_of_its_groups_has_no_majority() {
    let mut town = gave_one_of_a_pair_up();
    town.multicast(0, b"more");
    town.run(&[0, 2], 100, Duration::from_millis(10));
    assert_eq!([0, 2].map(|at| town.nodes[at].app.delivered.len()), [1, 1]);
    assert_eq!(town.nodes[0].world.streams.left().iter().collect::<Vec<_>>(), [Rank::at(1)]);
    // Its next life takes part in both groups.
    let disk = town.lans[1].disk.clone();
    town.lans[1] = Lan { wire: std::mem::take(&mut town.lans[1].wire), disk, ..Lan::default() };
    town.nodes[1] = node_on(&mut town.lans[1], 1, 7, and_a_pair(), Sound);
    [0, 2].into_iter().for_each(|other| town.link(other, 1));
    let id = town.multicast_to(0, GroupId::at(1), b"both");
    town.run(&[0, 1, 2], 200, Duration::from_millis(20));
    assert_eq!(town.left(0), []);
    assert!(town.nodes[0].app.outcomes.iter().any(|(of, _)| *of == id));
    assert!(town.nodes[1].app.delivered.contains(&b"both".to_vec()));
}

#[test]
fn n14_of_a_pair_with_disks_one_stops_once_both_are_there() {
    let mut town = gave_one_of_a_pair_up();
    assert_eq!(town.stops(50), []);
    [0, 2].into_iter().for_each(|other| town.link(other, 1));
    assert_eq!(town.stops(20), [(1, StopError::LeftBehind(Rank::at(0)))]);
}

/// A town on disks in which node 0 has given both others up, which it does not hear.
fn gave_a_majority_up() -> Town<Sound> {
    let mut town = town(Some(&Paper::default()), Sound);
    for to in 1..N {
        town.cut(0, to);
        town.overflow(0, to);
    }
    assert_eq!(town.stops(50), [], "the others may be dead");
    town
}

#[test]
fn n14_a_node_with_a_disk_that_has_given_a_majority_up_stops_when_one_of_it_greets() {
    let cut_off = (0, StopError::CutOff(GroupId::at(0)));
    let mut town = gave_a_majority_up();
    (1..N).for_each(|to| town.link(0, to));
    assert_eq!(town.stops(20), [cut_off]);
    // They have given it up as well.
    let mut town = gave_a_majority_up();
    (1..N).for_each(|at| town.overflow(at, 0));
    (1..N).for_each(|to| town.link(0, to));
    let stops = town.stops(20);
    assert!(matches!(stops[..], [(0, StopError::LeftBehind(_))]), "{stops:?}");
}

#[test]
fn n14_two_with_disks_that_have_both_given_a_majority_up_stop_in_the_end() {
    let mut town = gave_a_majority_up();
    town.cut(1, 2);
    [0, 2].into_iter().for_each(|to| town.overflow(1, to));
    town.link(0, 1);
    let mut stops = town.stops(300);
    stops.sort_by_key(|(at, _)| *at);
    assert_eq!(stops, [0, 1].map(|at| (at, StopError::CutOff(GroupId::at(0)))));
}

/// No majority of a group of two ever lives without one of them: to wait for that helps neither.
#[test]
fn n15_in_groups_of_two_in_memory_a_node_that_was_given_up_is_told() {
    let mut town = Town::on(lans(None), &and_a_pair(), Sound);
    town.run(&[0, 1, 2], 3, Duration::from_millis(1));
    town.cut(0, 1);
    town.overflow(0, 1);
    assert_eq!(town.stops(5), []);
    town.link(0, 1);
    assert_eq!(town.stops(20), [(1, StopError::LeftBehind(Rank::at(0)))]);
}
