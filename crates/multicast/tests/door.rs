//! A whole system in one process: a thread per node, over both fabrics.

mod common;
#[path = "common/heard.rs"]
mod heard;

use common::{PATIENCE, Town};
use heard::Heard;
use multicast::open::Seat;
use multicast::{
    ClockBy, Data, Door, FabricKind, Failed, GroupId, GroupSet, Options, Order, Outcome, Pending,
    Protocol, Refused, Timestamp, WINDOW,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

fn groups(of: &[usize]) -> GroupSet {
    of.iter().map(|group| GroupId::at(*group)).collect()
}

fn open(town: &mut Town, node: usize) -> Door {
    let listener = town.listeners[node - 1].take();
    Door::open(&town.system, Seat { listener, ..Seat::new(node) }).expect("the node opens")
}

fn open_all(town: &mut Town) -> Vec<Door> {
    (1..=town.system.nodes).map(|node| open(town, node)).collect()
}

/// Takes from every door until each member has delivered as many messages as `expected` says for
/// its group.
fn wait(heard: &mut Heard, doors: &[(usize, &Door)], expected: &BTreeMap<usize, usize>) {
    let until = Instant::now() + PATIENCE;
    for (node, door) in doors {
        let groups: BTreeSet<usize> =
            door.members().iter().map(|view| view.group.index()).collect();
        let wants = |heard: &Heard| {
            groups.iter().any(|group| {
                let n = heard.by.get(&(*node, *group)).map_or(0, Vec::len);
                n < expected.get(group).copied().unwrap_or(0)
            })
        };
        while wants(heard) {
            assert!(Instant::now() < until, "node {node} heard only {:?}", heard.counts());
            if let Some(delivery) = door.next(Duration::from_millis(200)) {
                heard.note(*node, &delivery);
            }
        }
    }
}

fn three_by_three() -> Vec<Vec<usize>> {
    vec![vec![1, 2, 3], vec![2, 3, 1], vec![3, 1, 2]]
}

fn options() -> Options {
    Options { patience: PATIENCE, ..Options::default() }
}

/// Every node multicasts to every set of groups; all agree.
fn all_agree(mut town: Town, rounds: usize) {
    let doors = open_all(&mut town);
    let n_groups = town.system.groups.len();
    let mut expected = BTreeMap::new();
    let mut pending = Vec::new();
    for round in 0..rounds {
        for (at, door) in doors.iter().enumerate() {
            for dest in 1..1_u32 << n_groups {
                let dest = GroupSet::from_bits(dest);
                let payload = format!("{round} {at} {dest:?}").into_bytes();
                pending.push(door.multicast(dest, payload, &options()).expect("there is room"));
                for group in dest.iter() {
                    *expected.entry(group.index()).or_insert(0) += 1;
                }
            }
        }
    }
    let stamps: Vec<Timestamp> =
        pending.into_iter().map(|one| one.wait().expect("nothing fails here")).collect();
    assert!(stamps.iter().all(|at| *at > Timestamp::ZERO));
    let by_node: Vec<(usize, &Door)> = (1..).zip(&doors).collect();
    let mut heard = Heard::default();
    wait(&mut heard, &by_node, &expected);
    heard.judge();
    for door in doors {
        assert_eq!(door.next(Duration::ZERO), None, "nothing comes twice");
        door.close().unwrap();
    }
}

#[test]
fn three_groups_of_three_agree_over_shared_memory() {
    all_agree(Town::new(FabricKind::Shm, 3, three_by_three()), 20);
}

#[test]
fn three_groups_of_three_agree_over_tcp() {
    all_agree(Town::new(FabricKind::Tcp, 3, three_by_three()), 20);
}

#[test]
fn groups_need_not_share_their_nodes() {
    let apart = vec![vec![1, 2, 3], vec![4, 5, 6]];
    all_agree(Town::new(FabricKind::Shm, 6, apart), 10);
}

#[test]
fn four_groups_on_twelve_nodes_agree() {
    let groups: Vec<Vec<usize>> = (0..4).map(|of| (3 * of + 1..=3 * of + 3).collect()).collect();
    for fabric in [FabricKind::Shm, FabricKind::Tcp] {
        all_agree(Town::new(fabric, 12, groups.clone()), 2);
    }
}

#[test]
fn every_protocol_and_every_order_runs() {
    for protocol in [Protocol::Whitebox, Protocol::Fastcast] {
        let mut town = Town::new(FabricKind::Shm, 3, three_by_three());
        town.system.protocol = protocol;
        all_agree(town, 5);
    }
    let alone = || vec![vec![1], vec![2], vec![3]];
    let mut town = Town::new(FabricKind::Shm, 3, alone());
    town.system.protocol = Protocol::Skeen;
    all_agree(town, 5);
    for order in [Order::Hop, Order::AllGroups, Order::CommitWait] {
        let mut town = Town::new(FabricKind::Shm, 3, three_by_three());
        town.system.order = order;
        town.system.clock_error_us = Some(200);
        town.system.clock_by = ClockBy::Operator;
        all_agree(town, 5);
    }
}

#[test]
fn a_node_without_members_multicasts_and_hears_what_became_of_it() {
    let mut town = Town::new(FabricKind::Shm, 4, vec![vec![1, 2, 3]]);
    let doors = open_all(&mut town);
    let client = &doors[3];
    assert!(client.members().is_empty());
    let at = client.multicast(groups(&[0]), *b"from outside", &options()).unwrap().wait().unwrap();
    let delivery = doors[0].next(PATIENCE).expect("it was delivered");
    assert_eq!((delivery.at, &*delivery.message.payload), (at, &b"from outside"[..]));
    assert_eq!(client.next(Duration::ZERO), None);
}

/// More messages than names are remembered: the sender asks the groups that have no member at its
/// node which they have delivered, or it would stop for good.
#[test]
fn a_node_without_members_goes_on_beyond_the_window_of_names() {
    let mut town = Town::new(FabricKind::Shm, 2, vec![vec![1]]);
    let doors = open_all(&mut town);
    let (host, client) = (&doors[0], &doors[1]);
    let until = Instant::now() + PATIENCE;
    let (mut n_delivered, mut under_way) = (0, VecDeque::new());
    while n_delivered < WINDOW + WINDOW / 4 {
        assert!(Instant::now() < until, "{n_delivered} delivered");
        if under_way.len() < 1000 {
            under_way.extend(client.multicast(groups(&[0]), *b"x", &options()));
        } else if let Some(pending) = under_way.pop_front() {
            // The loop refuses while it asks: nothing was multicast then.
            n_delivered += u64::from(Pending::wait(pending).is_ok());
        }
        while host.next(Duration::ZERO).is_some() {}
    }
}

/// The first primary of every group leaves; the others continue in new epochs, and messages that
/// were multicast meanwhile are delivered.
fn survives_a_primary(fabric: FabricKind) {
    let mut town = Town::new(fabric, 3, vec![vec![1, 2, 3], vec![1, 3, 2], vec![2, 3, 1]]);
    let mut doors = open_all(&mut town);
    let all = groups(&[0, 1, 2]);
    let multicast = |door: &Door, n: usize| {
        (0..n)
            .map(|_| door.multicast(all, *b"x", &options()).expect("there is room"))
            .collect::<Vec<_>>()
    };
    let first: Vec<_> = doors.iter().flat_map(|door| multicast(door, 10)).collect();
    for one in first {
        one.wait().expect("nothing has failed yet");
    }
    let dead = doors.remove(0);
    let meanwhile: Vec<_> = doors.iter().flat_map(|door| multicast(door, 10)).collect();
    dead.close().unwrap();
    let after: Vec<_> = doors.iter().flat_map(|door| multicast(door, 10)).collect();
    for one in meanwhile.into_iter().chain(after) {
        one.wait().expect("a majority of each group is left");
    }
    let expected = (0..3).map(|group| (group, 30 + 20 + 20)).collect();
    let by_node: Vec<(usize, &Door)> = (2..).zip(&doors).collect();
    let mut heard = Heard::default();
    wait(&mut heard, &by_node, &expected);
    heard.judge();
    for group in (0..3).map(GroupId::at) {
        let is_led =
            |door: &Door| door.members().iter().any(|view| view.group == group && view.is_primary);
        assert!(doors.iter().any(is_led), "{group:?} has a primary again");
    }
}

#[test]
fn new_primaries_take_over_on_shared_memory() {
    survives_a_primary(FabricKind::Shm);
}

#[test]
fn new_primaries_take_over_on_tcp() {
    survives_a_primary(FabricKind::Tcp);
}

#[test]
fn without_a_majority_the_outcome_is_unknown_and_said_in_time() {
    let mut town = Town::new(FabricKind::Shm, 3, vec![vec![1, 2, 3]]);
    let door = open(&mut town, 1);
    let hasty = Options { patience: Duration::from_millis(50), ..Options::default() };
    let pending = door.multicast(groups(&[0]), *b"x", &hasty).unwrap();
    assert_eq!(pending.wait(), Err(Failed::Unknown));
    // No message is lost: the others start now.
    let others = [open(&mut town, 2), open(&mut town, 3)];
    for door in [&door, &others[0], &others[1]] {
        let delivery = door.next(PATIENCE).expect("unknown is not failed");
        assert_eq!(&*delivery.message.payload, b"x");
    }
}

#[test]
fn queues_are_bounded_and_say_so() {
    let mut town = Town::new(FabricKind::Shm, 3, vec![vec![1, 2, 3]]);
    town.system.limits.window = 8;
    let door = open(&mut town, 1);
    // No other node runs: nothing is ever delivered.
    let dest = groups(&[0]);
    let until = Instant::now() + PATIENCE;
    let mut pending = Vec::new();
    let refused = loop {
        assert!(Instant::now() < until, "the window never fills");
        match door.multicast(dest, *b"x", &options()) {
            Ok(one) => pending.push(one),
            Err(refused) => break refused,
        }
        if pending.len() > 64 {
            // The loop has taken more than its window: it must have refused some.
            let last = pending.pop().expect("there are many");
            match last.wait() {
                Err(Failed::Refused(refused)) => break refused,
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(refused, Refused::WindowFull { window: 8 });
    let none = door.multicast(groups(&[]), *b"x", &options()).unwrap_err();
    assert!(matches!(none, Refused::NoSuchGroup { .. }));
    let long = vec![0; multicast::PAYLOAD_BYTES_MAX + 1];
    assert!(matches!(door.multicast(dest, long, &options()), Err(Refused::TooLong { .. })));
}

#[test]
fn a_slow_application_holds_its_senders_up_and_nothing_is_lost() {
    let mut town = Town::new(FabricKind::Shm, 3, vec![vec![1, 2, 3], vec![1, 2, 3]]);
    town.system.limits.deliveries = 64;
    town.system.limits.backlog_bytes = 64 << 10;
    let doors = open_all(&mut town);
    let dest = groups(&[0]);
    let until = Instant::now() + PATIENCE;
    let mut taken = 0_u64;
    // Nodes 1 and 2 take their deliveries, node 3 does not.
    let refused = loop {
        assert!(Instant::now() < until, "nobody is ever held up");
        match doors[0].multicast(dest, vec![7; 1024], &options()).unwrap().wait() {
            Ok(_) => taken += 1,
            Err(Failed::Refused(refused)) => break refused,
            Err(unknown) => panic!("{unknown}"),
        }
        while doors[0].next(Duration::ZERO).is_some() {}
        while doors[1].next(Duration::ZERO).is_some() {}
    };
    assert!(matches!(refused, Refused::Lagging { .. }), "{refused}");
    for n in 0..taken {
        assert!(doors[2].next(PATIENCE).is_some(), "delivery {n} of {taken}");
    }
}

#[test]
fn safe_ts_is_a_snapshots_timestamp() {
    let mut town = Town::new(FabricKind::Shm, 3, three_by_three());
    let doors = open_all(&mut town);
    let door = &doors[0];
    let mut last = Timestamp::ZERO;
    for _ in 0..20 {
        let after = Options { after: last, ..options() };
        let at = door.multicast(groups(&[0, 1]), *b"x", &after).unwrap().wait().unwrap();
        assert!(at > last, "above what its sender has seen");
        last = at;
    }
    let until = Instant::now() + PATIENCE;
    let mut heard = Vec::new();
    loop {
        let safe = door.safe_ts(GroupId::at(0)).expect("a member lives here");
        while let Some(delivery) = door.next(Duration::ZERO) {
            if delivery.group == GroupId::at(0) {
                heard.push(delivery.at);
            }
        }
        let n_below = heard.iter().filter(|at| **at <= safe).count();
        if safe >= last {
            assert_eq!(n_below, 20, "all up to safe_ts were delivered");
            break;
        }
        assert!(Instant::now() < until, "safe_ts stays behind: {safe:?} of {last:?}");
        std::thread::yield_now();
    }
    // The names of the outcomes, for readers of both types.
    assert_ne!(Outcome::Delivered(last), Outcome::Unknown);
}

#[test]
fn a_data_directory_wants_an_application_that_keeps_states() {
    let mut town = Town::new(FabricKind::Tcp, 1, vec![vec![1]]);
    let place = tempfile::tempdir().unwrap();
    let mut seat = Seat::new(1);
    seat.listener = town.listeners[0].take();
    seat.data = Some(Data::Begin(place.path().join("node")));
    let refused = Door::open(&town.system, seat).expect_err("a door keeps no states");
    assert!(refused.to_string().contains("keeps no states"), "{refused}");
    assert!(!place.path().join("node").exists(), "nothing was made");
}

/// The others keep the messages that an absent member misses, up to a bound; then they refuse
/// further messages with the reason, until it is back.
#[test]
fn writes_are_refused_before_what_is_kept_for_who_is_away_fills_its_bound() {
    let mut town = Town::new(FabricKind::Shm, 3, vec![vec![1, 2, 3]]);
    town.system.limits.held_bytes = 1 << 20;
    let first = open(&mut town, 1);
    let second = open(&mut town, 2);
    let (dest, payload) = (groups(&[0]), vec![7; 64 << 10]);
    let mut n_taken = 0;
    let say = |payload: Vec<u8>| match first.multicast(dest, payload, &options())?.wait() {
        Err(Failed::Refused(refused)) => Err(refused),
        said => {
            assert!(said.is_ok(), "two of three live");
            Ok(())
        }
    };
    let refused = loop {
        if let Err(refused) = say(payload.clone()) {
            break refused;
        }
        n_taken += 1;
        assert!(n_taken < 64, "four times the bound is kept for a node that is not there");
    };
    assert_eq!(refused, Refused::Kept { groups: dest });
    assert!(refused.to_string().contains("start them again, or remove them"), "{refused}");
    let third = open(&mut town, 3);
    let until = Instant::now() + PATIENCE;
    while say(b"again".to_vec()).is_err() {
        assert!(Instant::now() < until, "nothing is forgotten though everybody is there");
        let _taken = third.next(Duration::from_millis(20));
    }
    for door in [first, second, third] {
        door.close().unwrap();
    }
}
