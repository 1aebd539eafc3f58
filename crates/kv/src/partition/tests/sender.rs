//! Commands on their way to the multicast.

use super::*;

#[test]
fn k2_a_client_keeps_its_order() {
    let map = Map { n: 2, is_limited: false };
    let me = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };
    let mut sender: Sender<u64> = Sender::new(me, map);
    let [a, b] = two_keys(2);
    let end = Instant::ZERO.plus(Duration::from_secs(5));
    let sent = |sender: &mut Sender<u64>| {
        let mut lanes = Vec::new();
        sender.send(NOW, |to, batch| {
            let n = crate::entry::Batch::check(batch).unwrap().frames().count();
            lanes.push((to, n));
            true
        });
        lanes
    };
    let lane = |key: &str| Partitions::one(map.partition_of(key.as_bytes()));
    let both = lane(&a).and(lane(&b));
    sender.submit(1, 1, &plain(&format!("SET {a} 1")), end);
    sender.submit(1, 2, &plain(&format!("SET {a} 2")), end);
    sender.submit(1, 3, &plain(&format!("SET {b} 1")), end);
    sender.submit(1, 4, &plain(&format!("MSET {a} 3 {b} 3")), end);
    sender.submit(1, 5, &plain(&format!("SET {a} 4")), end);
    sender.submit(2, 6, &plain(&format!("MGET {a} {b}")), end);
    let mut first = sent(&mut sender);
    first.sort();
    let mut expected = [(lane(&a), 2), (lane(&b), 1), (both, 1)];
    expected.sort();
    assert_eq!(first, expected, "K2: client 1's MSET waits, client 2's MGET does not");
    assert_eq!(sender.answered(Sequence(1)), Some(1));
    assert_eq!(sender.answered(Sequence(2)), Some(2));
    assert_eq!(sender.answered(Sequence(6)), Some(6));
    assert_eq!(sent(&mut sender), [], "K2: the SET in the other partition is not executed");
    assert_eq!(sender.answered(Sequence(3)), Some(3));
    assert_eq!(sent(&mut sender), [(both, 1)]);
    assert_eq!(sender.answered(Sequence(4)), Some(4));
    assert_eq!(sent(&mut sender), [(lane(&a), 1)]);
    assert_eq!(sender.answered(Sequence(5)), Some(5));
    assert!(sender.is_empty() && sender.deadline().is_none());
}

#[test]
fn k3_what_was_not_sent_is_not_executed_and_what_was_is_unknown() {
    let map = Map { n: 2, is_limited: false };
    let me = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };
    let mut sender: Sender<u64> = Sender::new(me, map);
    let at = |ms| Instant::ZERO.plus(Duration::from_millis(ms));
    let set = plain("SET a 1");
    sender.submit(1, 1, &set, at(5));
    sender.send(NOW, |_, _| true);
    sender.submit(1, 2, &set, at(6));
    sender.submit(2, 3, &set, at(7));
    let mut ended = Vec::new();
    sender.expire(at(6), |asker, fate| ended.push((asker, fate)));
    assert_eq!(ended, [(1, Fate::Unknown), (2, Fate::NotSent)]);
    assert_eq!(sender.deadline(), Some(at(7)));
    sender.send(NOW, |_, _| panic!("the lane's message is still under way"));
    assert_eq!(sender.answered(Sequence(1)), None, "K3: nobody waits any more");
    let mut n = 0;
    sender.send(NOW, |_, batch| {
        n = crate::entry::Batch::check(batch).unwrap().frames().count();
        true
    });
    assert_eq!(n, 1, "the command that expired is not in it");
    assert_eq!(sender.answered(Sequence(3)), Some(3));
    assert!(sender.is_empty());
}

/// The multicast refuses the batch for longer than a command waits.
#[test]
fn k5_what_the_multicast_did_not_take_is_not_sent_and_leaves_its_batch() {
    let map = Map { n: 2, is_limited: false };
    let me = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };
    let mut sender: Sender<u64> = Sender::new(me, map);
    let at = |ms| Instant::ZERO.plus(Duration::from_millis(ms));
    for (asker, value) in [(1, "one"), (2, "two"), (3, "three")] {
        sender.submit(asker, asker, &plain(&format!("SET a {value}")), at(asker));
    }
    sender.send(NOW, |_, batch| {
        assert_eq!(crate::entry::Batch::check(batch).unwrap().frames().count(), 3);
        false
    });
    let mut ended = Vec::new();
    sender.expire(at(2), |asker, fate| ended.push((asker, fate)));
    assert_eq!(ended, [(1, Fate::NotSent), (2, Fate::NotSent)]);
    let mut taken = Vec::new();
    sender.send(NOW + 9, |_, batch| {
        let batch = crate::entry::Batch::check(batch).unwrap();
        let values = batch.frames().map(|frame| frame.bytes.ends_with(b"three"));
        taken.push((batch.stamp_ms, values.collect::<Vec<_>>()));
        true
    });
    assert_eq!(taken, [(NOW + 9, vec![true])], "only the third, stamped when it goes out");
    sender.expire(at(3), |asker, fate| ended.push((asker, fate)));
    assert_eq!(ended[2..], [(3, Fate::Unknown)]);
    assert!(!sender.wants_to_send());
    assert_eq!(sender.answered(Sequence(3)), None);
    assert!(sender.is_empty());
}

/// A state replaces this process's replicas: what was never sent is not concerned.
#[test]
fn k5_what_was_not_taken_goes_out_after_the_replicas_were_replaced() {
    let map = Map { n: 2, is_limited: false };
    let me = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };
    let mut sender: Sender<u64> = Sender::new(me, map);
    sender.submit(1, 1, &plain("SET a 1"), Instant::ZERO);
    sender.send(NOW, |_, _| false);
    sender.abandon(|asker| panic!("{asker} was not sent"));
    let mut n = 0;
    sender.send(NOW, |_, batch| {
        n += crate::entry::Batch::check(batch).unwrap().frames().count();
        true
    });
    assert_eq!(n, 1);
    assert_eq!(sender.answered(Sequence(1)), Some(1));
    assert!(sender.is_empty());
}

#[test]
fn k4_what_waits_is_bounded() {
    let map = Map { n: 2, is_limited: false };
    let me = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };
    let mut sender: Sender<usize> = Sender::new(me, map);
    let get = plain("GET a");
    for at in 0..COMMANDS_MAX {
        assert!(sender.has_room());
        sender.submit(at as u64, at, &get, Instant::ZERO);
    }
    assert!(!sender.has_room());
    let (mut n, mut longest) = (0, 0);
    while !sender.is_empty() {
        let mut sent = 0;
        sender.send(NOW, |_, batch| {
            sent = crate::entry::Batch::check(batch).unwrap().frames().count();
            longest = longest.max(batch.len());
            true
        });
        for _ in 0..sent {
            n += 1;
            sender.answered(Sequence(n));
        }
    }
    assert_eq!(n, COMMANDS_MAX as u64);
    assert!(longest <= PAYLOAD_BYTES_MAX && sender.has_room());
}

#[test]
fn k3_commands_of_several_clients_and_lanes_that_end_together_leave_the_others() {
    let map = Map { n: 2, is_limited: false };
    let me = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };
    let mut sender: Sender<u64> = Sender::new(me, map);
    let [a, b] = two_keys(2);
    let commands = [format!("SET {a} 1"), format!("MGET {a} {b}"), format!("SET {b} 1")];
    for n in 0..100 {
        let (client, command) = (n % 4, plain(&commands[n as usize % 3]));
        sender.submit(client, n, &command, Instant(if n < 60 { 5 } else { 9 }));
    }
    let mut ended = Vec::new();
    sender.expire(Instant(7), |asker, fate| ended.push((asker, fate)));
    assert!(ended.iter().copied().eq((0..60).map(|n| (n, Fate::NotSent))));
    assert_eq!((sender.len(), sender.deadline()), (40, Some(Instant(9))));
    let mut answered = Vec::new();
    while !sender.is_empty() {
        let mut sent = Vec::new();
        sender.send(NOW, |_, batch| {
            let batch = crate::entry::Batch::check(batch).unwrap();
            sent.extend(batch.frames().map(|frame| frame.sequence));
            true
        });
        assert!(!sent.is_empty(), "none waits for one that has ended");
        answered.extend(sent.into_iter().filter_map(|sequence| sender.answered(sequence)));
    }
    answered.sort_unstable();
    assert!(answered.into_iter().eq(60..100) && sender.has_room());
}

/// Commands keep coming for all lanes, and each is answered before the next turn.
#[test]
fn k6_each_lane_has_its_turn_where_the_multicast_takes_some() {
    let map = Map { n: 4, is_limited: false };
    let me = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };
    let mut sender: Sender<u64> = Sender::new(me, map);
    let of = |at: usize| {
        let mut keys = (0..).map(|n| format!("k{n}"));
        keys.find(|key| map.partition_of(key.as_bytes()) == at).expect("each has keys")
    };
    let keys: Vec<String> = (0..4).map(of).collect();
    let mut n_sent = [0; 4];
    for turn in 0..20 {
        for (at, key) in keys.iter().enumerate() {
            let n = turn * 4 + at as u64;
            sender.submit(n, n, &plain(&format!("SET {key} 1")), Instant(9));
        }
        let (mut room, mut sent) = (2, Vec::new());
        sender.send(NOW, |to, batch| {
            let lane = (0..4).find(|at| Partitions::one(*at) == to).expect("it is of one");
            if room == 0 {
                return false;
            }
            (room, n_sent[lane]) = (room - 1, n_sent[lane] + 1);
            let batch = crate::entry::Batch::check(batch).unwrap();
            sent.extend(batch.frames().map(|frame| frame.sequence));
            true
        });
        for sequence in sent {
            sender.answered(sequence);
        }
    }
    assert_eq!(n_sent, [10; 4]);
}
