//! Reads at a timestamp.

use super::*;
use crate::store::EXPIRY_BATCH_MAX;

/// R1: whatever the pace of its partitions, and whichever messages wait for several of them, a
/// replica answers a read at t as if it had executed everything up to t and nothing else.
#[test]
fn r1_a_read_at_a_timestamp_sees_what_is_up_to_it() {
    const READ: &str = "MGET k0 k1 k2 k3 k4 k5 k6 k7 k8 k9 k10 k11";
    for seed in 0..60 {
        let (mut rng, order) = (Rng::new(seed), ORDERS[seed as usize % 3]);
        let n = rng.range(2, 5) as usize;
        let mut alone = Alone::new(n, order, 0);
        // The expected answers after each message; the reads themselves change nothing.
        let mut expected = BTreeMap::new();
        for _ in 0..60 {
            // Time stands still, since expiry depends on each partition's time.
            alone.say(&random_command(&mut rng));
            let last = alone.log.last().map(|(place, ..)| place.at);
            let seen = alone.say(READ);
            expected.insert(last, seen);
        }
        let mut other = Process::new(1, n, order, 0);
        for (place, to, batch) in &alone.log {
            to.iter().for_each(|at| other.inbox[at].push_back((*place, *to, Arc::clone(batch))));
        }
        let reads: Vec<u64> = expected.keys().flatten().copied().collect();
        let mut wanted: Vec<(u64, u64)> =
            (0..6).map(|n| (n, reads[rng.below(60) as usize])).collect();
        wanted.sort_by_key(|(_, at)| *at);
        let all = other.executor.snapshot_of(&plain(READ)).expect("it is read by pieces");
        let mut begun = vec![0; n];
        while begun
            .iter()
            .zip(&other.inbox)
            .any(|(n, inbox)| *n < wanted.len() || !inbox.is_empty())
        {
            let partition = rng.below(n as u64) as usize;
            let next = other.inbox[partition].front().map(|(place, ..)| place.at);
            match wanted.get(begun[partition]).filter(|(_, at)| next.is_none_or(|next| next > *at))
            {
                Some(&(number, _)) => {
                    begun[partition] += 1;
                    if all.contains(partition) {
                        other.look(partition, number, all, &plain(READ));
                    }
                }
                None => {
                    other.deliver(partition);
                }
            }
        }
        for (number, at) in wanted {
            let seen = other.seen.remove(&number).expect("every read is answered");
            assert_eq!(seen, expected[&Some(at)], "R1: seed {seed}, {order:?}, at {at}");
        }
        assert_eq!(other.executor.waiting(), 0);
        for at in 0..n {
            assert_eq!(other.executor.digest(at), alone.process.executor.digest(at), "R2");
        }
    }
}

/// R2: also where more keys have expired than a message removes.
#[test]
fn r2_a_read_at_a_timestamp_removes_no_expired_key() {
    for order in ORDERS {
        let mut alone = Alone::new(2, order, 0);
        let is_first = |key: &String| partition_of(key.as_bytes(), 2) == 0;
        let keys = (0..).map(|at| format!("e{at}")).filter(is_first);
        for key in keys.take(3 * EXPIRY_BATCH_MAX) {
            assert_eq!(alone.say(&format!("SET {key} x PX 100")), "+OK");
        }
        alone.now_ms += 1000;
        let [a, b] = two_keys(2);
        assert_eq!(alone.say(&format!("MSET {a} 1 {b} 2")), "+OK");
        let process = &mut alone.process;
        let state =
            |of: &Process| [0, 1].map(|at| (of.executor.figures(at).keys, of.executor.digest(at)));
        let before = state(process);
        // A batch, and two for the change; two new keys came.
        assert_eq!(before.map(|(keys, _)| keys).iter().sum::<u64>(), 2 * 64);
        for (number, text) in [(1, format!("MGET {a} {b}")), (2, "KEYS *".to_owned())] {
            let all = process.executor.snapshot_of(&plain(&text)).unwrap();
            all.iter().for_each(|at| process.look(at, number, all, &plain(&text)));
            assert!(process.seen.remove(&number).is_some_and(|seen| seen.starts_with("*2 $")));
        }
        for key in [&a, &b] {
            let read = plain(&format!("GET {key}"));
            let all = process.executor.snapshot_of(&read).unwrap();
            all.iter().for_each(|at| process.look(at, 3, all, &read));
        }
        assert_eq!(state(process), before, "R2: {order:?}");
    }
}

#[test]
fn r3_no_key_is_seen_behind_its_time() {
    let mut alone = Alone::new(2, Order::Linearizable, 0);
    let [a, b] = two_keys(2);
    assert_eq!(alone.say(&format!("MSET {a} 1 {b} 2")), "+OK");
    assert_eq!(alone.say(&format!("PEXPIRE {b} 2000")), ":1");
    // An expiry is seen before it is asked for at a timestamp, and at the timestamp, too.
    let seen = |process: &mut Process, after_ms: u64, text: &str| {
        let read = plain(text);
        let all = process.executor.snapshot_of(&read).unwrap();
        all.iter().for_each(|at| process.look_at(NOW + after_ms, at, 1, all, &read));
        assert_eq!(process.executor.waiting(), 0, "{text}");
        let seen = process.seen.remove(&1).expect("an answer");
        let is_put_off = process.executor.sees_an_expiry(&read, NOW + after_ms);
        assert_eq!(is_put_off, seen.as_bytes() == PUT_OFF, "{text}");
        seen
    };
    let both = format!("MGET {a} {b}");
    let process = &mut alone.process;
    assert_eq!(seen(process, 1999, &both), "*2 $1 1 $1 2");
    assert_eq!(seen(process, 400, &format!("PTTL {b}")), ":1600");
    assert_eq!(seen(process, 400, &format!("TTL {b}")), ":2");
    assert_eq!(seen(process, 500, &format!("TTL {a}")), ":-1");
    assert_eq!(seen(process, 1007, "TIME"), "*2 $10 1700000001 $4 7000");
    for text in [&both, &format!("GET {b}"), &format!("PTTL {b}"), "KEYS *"] {
        assert_eq!(seen(process, 2000, text), "", "R3: {text}");
    }
    assert_eq!(seen(process, 2000, &format!("GET {a}")), "$1 1", "it does not expire");
    // The read itself is multicast, and decides the time.
    alone.now_ms += 2000;
    assert_eq!(alone.say(&both), "*2 $1 1 $-1");
    let process = &mut alone.process;
    assert_eq!(seen(process, 2000, &both), "*2 $1 1 $-1");
    assert_eq!(seen(process, 0, &format!("TTL {b}")), ":-2", "time does not run backwards");
    assert_eq!(seen(process, 0, "TIME"), "*2 $10 1700000002 $1 0");
}

#[test]
fn r2_only_reads_by_pieces_are_taken() {
    let process = Process::new(0, 4, Order::Linearizable, 0);
    let [a, b] = two_keys(4);
    for (text, partitions) in [
        (format!("MGET {a} {b}"), Some(2)),
        (format!("GET {a}"), Some(1)),
        ("DBSIZE".to_owned(), Some(4)),
        (format!("SET {a} 1"), None),
        (format!("LCS {a} {b}"), None),
        ("RANDOMKEY".to_owned(), None),
    ] {
        let all = process.executor.snapshot_of(&plain(&text));
        assert_eq!(all.map(Partitions::len), partitions, "{text}");
    }
    assert_eq!(process.executor.snapshot_of(&transaction(&[], &["GET a"])), None);
}

/// No message waits behind a withdrawn read.
#[test]
fn a_forgotten_snapshot_holds_nobody_up() {
    for order in ORDERS {
        let mut alone = Alone::new(2, order, 0);
        let [a, b] = two_keys(2);
        let read = plain(&format!("MGET {a} {b}"));
        let process = &mut alone.process;
        let all = process.executor.snapshot_of(&read).unwrap();
        process.look(0, 1, all, &read);
        assert_eq!((process.executor.waiting(), process.seen.len()), (1, 0));
        process.executor.forget_snapshot(1, &mut |_, _| {});
        assert_eq!(process.executor.waiting(), 0);
        assert_eq!(alone.say(&format!("MSET {a} 1 {b} 2")), "+OK");
        assert_eq!(alone.say(&format!("RENAME {a} {b}")), "+OK", "{order:?}");
    }
}
