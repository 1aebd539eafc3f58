//! Nodes over wires that the tests carry by hand.

use super::*;
use crate::mock::Wire;
use crate::multicast::paper::Paper;
use crate::multicast::{Options, Outcome, Places, Sizes};
use base::verb::Relay;
use base::{Event, Incarnation};
use proto::amcast::linear::Rule;
use proto::amcast::{Config, FOUNDER, MessageId, Place, primcast};
use proto::planted::Planted;
use proto::registry::MulticastSpec;

mod cut;
mod disk;
mod joint;

type Machine = <primcast::Spec as MulticastSpec>::Machine<Sound>;

/// A port, what has come on it, and perhaps a disk, which syncs at once.
#[derive(Default)]
struct Lan {
    wire: Wire,
    links: Vec<(Rank, bool)>,
    messages: Vec<(Rank, Vec<u8>)>,
    disk: Option<Paper>,
    /// Whether the disk syncs nothing, and says so.
    is_stalled: bool,
    /// The disk's syncs, if they take time.
    slow: Option<disk::Slow>,
}

impl Relay for Lan {
    type Port = Wire;

    fn port(&self) -> &Wire {
        &self.wire
    }

    fn port_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

impl Ground for Lan {
    type Disk = Paper;

    fn poll(&mut self, inbox: &mut Inbox) {
        for (node, is_up) in self.links.drain(..) {
            inbox.push(if is_up { Event::LinkUp(node) } else { Event::LinkDown(node) });
        }
        for (from, bytes) in self.messages.drain(..) {
            inbox.push(Event::Message { from, bytes: &bytes });
        }
    }

    fn flush(&mut self) {}

    fn disk(&mut self) -> Option<&mut Paper> {
        self.disk.as_mut()
    }

    fn poll_disk(&mut self, now: Instant, events: &mut Vec<DiskEvent>) {
        let Some(disk) = &mut self.disk else { return };
        if let Some(slow) = &mut self.slow {
            return slow.poll(disk, now, events);
        }
        events.push(if self.is_stalled { DiskEvent::Stalled } else { disk.sync_now() });
    }
}

/// The bytes of a state besides what was delivered: it does not fit into one piece.
const BALLAST: usize = 600 << 10;

/// Its state is what was delivered: payloads of four bytes, if a node takes it.
#[derive(Default)]
struct App {
    delivered: Vec<Vec<u8>>,
    n_states: usize,
    outcomes: Vec<(MessageId, Outcome)>,
    /// The number of turns in which it minded its clients alone.
    n_held: usize,
}

impl Application for App {
    fn deliver(&mut self, delivery: Delivery, _: &mut Desk) {
        self.delivered.push(delivery.message.payload.to_vec());
    }

    fn outcome(&mut self, id: MessageId, outcome: Outcome, _: &mut Desk) {
        self.outcomes.push((id, outcome));
    }

    fn held(&mut self, _: &mut Desk) {
        self.n_held += 1;
    }

    fn keeps_states(&self) -> bool {
        true
    }

    fn states_are_joint(&self) -> bool {
        true
    }

    fn forget(&mut self, _: &mut Desk) {
        self.delivered.clear();
    }

    fn state(&mut self, _: GroupId) -> Vec<u8> {
        self.n_states += 1;
        let ballast = vec![0; BALLAST];
        [ballast, self.delivered.concat()].concat()
    }

    fn install(&mut self, _: GroupId, state: &[u8], _: &mut Desk) {
        self.delivered = state[BALLAST..].chunks(4).map(<[u8]>::to_vec).collect();
    }
}

/// Three nodes with a group on all of them.
struct Town<P> {
    nodes: Vec<Node<Machine, App, P>>,
    lans: Vec<Lan>,
    now: Instant,
    planted: P,
}

const N: usize = 3;

/// One group on all nodes.
fn everywhere() -> Places {
    Places::new(N, vec![Rank::all(N).collect()])
}

fn node<P: Planting<Bug>>(
    me: usize,
    life: u64,
    places: Places,
    planted: P,
) -> (Node<Machine, App, P>, Lan) {
    let mut lan = Lan::default();
    (node_on(&mut lan, me, life, places, planted), lan)
}

fn node_on<P: Planting<Bug>>(
    lan: &mut Lan,
    me: usize,
    life: u64,
    places: Places,
    planted: P,
) -> Node<Machine, App, P> {
    let setup = setup(me, places);
    node_with(lan, &setup, life, planted)
}

fn setup(me: usize, places: Places) -> Setup {
    let config = Config {
        layout: places.layout().clone(),
        rule: Rule::Plain,
        hybrid: false,
        commutes: false,
        patience: Duration::from_secs(1),
        part_bytes: 1 << 16,
        retain: 16,
        retain_bytes: 1 << 16,
    };
    Setup {
        me: Rank::at(me),
        places,
        config,
        window: 16,
        backlog_bytes: 1 << 20,
        kept_bytes: 1 << 22,
        held_bytes: 1 << 22,
        suspect_after: Duration::from_secs(3600),
        sizes: Sizes { piece_bytes: 64 << 10, behind_bytes: 128 << 10, whole_after_bytes: 1 << 30 },
    }
}

fn node_with<P: Planting<Bug>>(
    lan: &mut Lan,
    setup: &Setup,
    life: u64,
    planted: P,
) -> Node<Machine, App, P> {
    let origin = match (&lan.disk, life) {
        (Some(_), _) => Origin::Disk(9),
        (None, 1) => Origin::Founder,
        (None, _) => Origin::Newcomer,
    };
    let beginning = Beginning { origin, life, unix_us: life, now: Instant(1) };
    Node::new(setup, beginning, lan, App::default(), planted).expect("it begins")
}

impl<P: Planting<Bug>> Town<P> {
    fn new(planted: P) -> Town<P> {
        Town::of(&everywhere(), planted)
    }

    fn of(places: &Places, planted: P) -> Town<P> {
        Town::on(std::array::from_fn(|_| Lan::default()), places, planted)
    }

    /// A town without links, in which no node has taken a turn.
    fn apart(lans: [Lan; N], places: &Places, planted: P) -> Town<P> {
        let mut lans = Vec::from(lans);
        let begin = |(me, lan)| node_on(lan, me, 1, places.clone(), planted);
        let nodes = lans.iter_mut().enumerate().map(begin).collect();
        Town { nodes, lans, now: Instant(1), planted }
    }

    fn on(lans: [Lan; N], places: &Places, planted: P) -> Town<P> {
        let mut town = Town::apart(lans, places, planted);
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            town.link(a, b);
        }
        (0..10).for_each(|_| town.turn_all());
        town
    }

    fn link(&mut self, a: usize, b: usize) {
        self.lans[a].links.push((Rank::at(b), true));
        self.lans[b].links.push((Rank::at(a), true));
    }

    fn turn(&mut self, at: usize) {
        self.now = self.now.plus(Duration::from_millis(2));
        self.nodes[at].turn(self.now, &mut self.lans[at]).expect("it goes on");
    }

    /// Carries what `at` has sent.
    fn carry(&mut self, at: usize) {
        for to in 0..N {
            let sent = self.lans[at].wire.take(Rank::at(to));
            self.lans[to].messages.extend(sent.into_iter().map(|bytes| (Rank::at(at), bytes)));
        }
    }

    fn turn_all(&mut self) {
        for at in 0..N {
            self.turn(at);
            self.carry(at);
        }
    }

    fn multicast(&mut self, at: usize, payload: &[u8]) -> MessageId {
        self.multicast_to(at, GroupId::at(0), payload)
    }

    fn multicast_to(&mut self, at: usize, group: GroupId, payload: &[u8]) -> MessageId {
        let (_, desk) = self.nodes[at].at_desk();
        desk.multicast(group.alone(), payload, &Options::default()).expect("there is room")
    }
}

/// The outcomes of a message before another node has heard of it, and at the end.
fn outcomes<P: Planting<Bug>>(planted: P) -> (usize, usize) {
    let mut town = Town::new(planted);
    let id = town.multicast(0, b"x");
    town.turn(0);
    let early = town.nodes[0].app.outcomes.len();
    town.carry(0);
    (0..10).for_each(|_| town.turn_all());
    assert!(town.nodes.iter().all(|node| node.app.delivered.len() == 1));
    let ends = &town.nodes[0].app.outcomes;
    assert!(ends.iter().all(|(of, end)| *of == id && matches!(end, Outcome::Delivered(_))));
    (early, ends.len())
}

#[test]
fn d1_an_outcome_waits_for_the_delivery() {
    assert_eq!(outcomes(Sound), (0, 1));
    assert_eq!(outcomes(Planted(Bug::CompletedEarly)), (1, 1), "a planted bug reports it at once");
}

/// Else it would be refused one day: its messages would be too far ahead of the first.
#[test]
fn w2_a_node_asks_what_a_group_has_delivered_that_has_no_member_here() {
    let elsewhere = [1, 2].into_iter().map(Rank::at).collect();
    let mut town = Town::of(&Places::new(N, vec![Rank::all(N).collect(), elsewhere]), Sound);
    for n in 0..10_000_u32 {
        town.multicast_to(0, GroupId::at(1), &n.to_le_bytes());
        if n % 8 == 7 {
            (0..6).for_each(|_| town.turn_all());
        }
    }
    (0..100).for_each(|_| town.turn_all());
    assert_eq!(town.nodes[1].app.delivered.len(), 10_000);
    let later = town.now.plus(Duration::from_secs(60));
    let unknown = town.nodes[0].desk.own.next_to_ask(later);
    assert!(unknown.is_empty(), "most are known to be delivered");
}

#[test]
fn n8_other_nodes_hear_which_one_is_to_be_removed() {
    let mut town = Town::new(Sound);
    town.nodes.iter_mut().for_each(|node| node.desk.changes_members = true);
    town.nodes[0].world.ask_removal(Rank::at(2), Incarnation(1));
    (0..3).for_each(|_| town.turn_all());
    let wanted = |node: &Node<_, _, _>| node.removals[2];
    assert_eq!([wanted(&town.nodes[1]), wanted(&town.nodes[2])], [1, 1]);
}

/// Else no node would remove it where that node leads.
#[test]
fn n8_a_node_that_comes_back_hears_which_one_is_to_be_removed() {
    let mut town = Town::new(Sound);
    town.nodes.iter_mut().for_each(|node| node.desk.changes_members = true);
    town.nodes[0].desk.removals.insert(Rank::at(2));
    town.turn(0);
    // The request is on its way to node 1, which dies before it takes it.
    town.lans[0].wire.take(Rank::at(1));
    let (mut node, lan) = node(1, 7, everywhere(), Sound);
    node.desk.changes_members = true;
    (town.nodes[1], town.lans[1]) = (node, lan);
    for other in [0, 2] {
        town.lans[other].links.push((Rank::at(1), false));
        town.link(other, 1);
    }
    (0..5).for_each(|_| town.turn_all());
    assert_eq!(town.nodes[1].removals[2], FOUNDER.0);
}

/// Whether a node has its seat after its predecessor was removed, and the request came again.
fn keeps_its_seat<P: Planting<Bug>>(planted: P) -> bool {
    let mut town = Town::new(planted);
    town.nodes.iter_mut().for_each(|node| node.desk.changes_members = true);
    town.multicast(0, b"lead");
    (0..10).for_each(|_| town.turn_all());
    let voters = |town: &Town<P>| town.nodes[0].desk.members()[0].voters;
    town.nodes[0].desk.removals.insert(Rank::at(2));
    for _ in 0..100 {
        (0..2).for_each(|at| town.turn(at));
        (0..2).for_each(|at| town.carry(at));
        town.lans[2].messages.clear();
    }
    assert!(!voters(&town).contains(Rank::at(2)), "it is removed");
    (town.nodes[2], town.lans[2]) = node(2, 7, everywhere(), planted);
    for other in [0, 1] {
        town.lans[other].links.push((Rank::at(2), false));
        town.link(other, 2);
    }
    (0..2000).for_each(|_| town.turn_all());
    voters(&town).contains(Rank::at(2))
}

#[test]
fn n8_a_removal_takes_no_successors_seat() {
    assert!(keeps_its_seat(Sound));
    assert!(!keeps_its_seat(Planted(Bug::RemovesSuccessor)), "a planted bug compares nothing");
}

/// Whether a node that asks for states from `place` on is given any.
fn gives<P: Planting<Bug>>(planted: P, at: Timestamp) -> bool {
    let mut town = Town::new(planted);
    town.multicast(0, b"x");
    (0..10).for_each(|_| town.turn_all());
    let place: Place = (at, MessageId { sender: 0, sequence: 0 });
    let before = town.nodes[0].app.n_states;
    town.nodes[0].give_states(Rank::at(1), 1, &[(GroupId::at(0), place)]);
    town.nodes[0].app.n_states > before
}

#[test]
fn n9_states_come_from_a_node_that_is_as_far_in_every_group() {
    let (below, above) = (Timestamp::ZERO, Timestamp(1 << 40));
    assert!(gives(Sound, below) && !gives(Sound, above));
    assert!(gives(Planted(Bug::GivesFromBehind), above), "a planted bug does not compare");
}

/// Whether a message under way to a node is sent to the next process of that node.
fn is_started_again<P: Planting<Bug>>(planted: P) -> bool {
    let mut town = Town::new(planted);
    town.multicast(0, b"needle");
    // It is on its way when node 2 dies, and no other node hears of it.
    town.turn(0);
    let on_its_way = |town: &mut Town<P>| {
        let sent = town.lans[0].wire.take(Rank::at(2));
        sent.iter().any(|frame| frame.windows(6).any(|six| six == b"needle"))
    };
    assert!(on_its_way(&mut town));
    let (node, lan) = node(2, 7, everywhere(), town.planted);
    (town.nodes[2], town.lans[2]) = (node, lan);
    town.lans[0].links.push((Rank::at(2), false));
    town.link(0, 2);
    town.turn(2);
    town.carry(2);
    (0..3).any(|_| {
        town.turn(0);
        on_its_way(&mut town)
    })
}

#[test]
fn s6_messages_under_way_to_a_node_that_comes_back_are_sent_again() {
    assert!(is_started_again(Sound));
    assert!(!is_started_again(Planted(Bug::NothingIsStartedAgain)), "a planted bug forgets them");
}
