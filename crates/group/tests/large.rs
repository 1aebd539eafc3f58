//! Large messages: read where they are, kept, and outlived; over tcp without copies of receivers.

use group::{Delivered, Event, Group, Mode, Options, Payload, Schedule, Subgroup, Time, Transport};
use std::path::Path;
use std::time::{Duration, Instant};

#[path = "common/memory.rs"]
mod memory;
#[path = "../examples/members/ports.rs"]
mod ports;
use memory::directory;

const PATIENCE: Duration = Duration::from_secs(30);
const BYTES: usize = 40_003;
const WINDOW: u32 = 4;

fn options(directory: &Path) -> Options {
    Options {
        seats: 3,
        window: WINDOW,
        message_bytes: BYTES as u32,
        ..memory::options("large", directory, PATIENCE)
    }
}

/// The same over tcp, with messages of up to 1 MiB.
fn over_tcp(directory: &Path) -> Options {
    let addresses = ports::free(3).expect("ports are free");
    let transport = Transport::Tcp { addresses, listen: None };
    Options { transport, message_bytes: 1 << 20, ..options(directory) }
}

/// Message `n`, of any length.
fn message(n: usize) -> Vec<u8> {
    (0..BYTES - n % 7).map(|at| ((at * 13 + n * 31) >> 3) as u8).collect()
}

/// The next message that is delivered at `group`.
fn next(group: &Group) -> Delivered {
    let by = Instant::now() + PATIENCE;
    loop {
        let left = by.saturating_duration_since(Instant::now());
        match group.next(left).expect("a message comes") {
            Event::Delivered(one) => return one,
            Event::Ended(why) => panic!("{why}"),
            _ => {}
        }
    }
}

fn read(message: &Payload) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.read(|some| bytes.extend_from_slice(some));
    bytes
}

/// The groups of three members, which are in one view.
fn three(options: &Options) -> [Group; 3] {
    members(options)
}

/// The groups of so many members, which are in one view.
fn members<const N: usize>(options: &Options) -> [Group; N] {
    let open = |member| if member == 0 { Group::found(options) } else { Group::join(options) };
    let groups: [Group; N] = std::array::from_fn(|member| open(member).unwrap());
    for group in &groups {
        let by = Instant::now() + PATIENCE;
        loop {
            let left = by.saturating_duration_since(Instant::now());
            let event = group.next(left).expect("a view of all");
            if matches!(&event, Event::View(view) if view.members.len() == N) {
                break;
            }
        }
    }
    groups
}

/// Multicasts messages, large ones too, in a subgroup that has an order and in one that has none.
fn beside_an_order(options: &Options) {
    let layout = vec![Subgroup::new("ordered"), Subgroup::new("gossip").unordered()];
    let options = Options { layout, ..options.clone() };
    let groups = three(&options);
    let [ordered, gossip] = ["ordered", "gossip"].map(|name| options.shard(name, 0).unwrap());
    const N: usize = 24;
    std::thread::scope(|scope| {
        for (seat, group) in groups.iter().enumerate() {
            scope.spawn(move || {
                for n in 0..N {
                    let sent = if n % 3 == 0 { message(n) } else { vec![n as u8; 8] };
                    let sent = [&[seat as u8, n as u8], &sent[2..]].concat();
                    group.send_in(gossip, &sent, PATIENCE).unwrap();
                    group.send_in(ordered, &sent, PATIENCE).unwrap();
                }
            });
        }
        let told = groups.each_ref().map(|group| {
            scope.spawn(|| {
                let mut told = [Vec::new(), Vec::new()];
                while told.iter().any(|told| told.len() < 3 * N) {
                    let one = next(group);
                    let (bytes, is_gossip) = (read(&one.bytes), one.shard == gossip);
                    let (seat, n) = (bytes[0], usize::from(bytes[1]));
                    let is_long = n.is_multiple_of(3);
                    assert!(bytes[2..] == if is_long { message(n) } else { vec![n as u8; 8] }[2..]);
                    assert_eq!(one.time == Time::default(), is_gossip, "an order has times");
                    told[usize::from(is_gossip)].push((seat, n));
                }
                told
            })
        });
        let told = told.map(|one| one.join().unwrap());
        for [of_order, of_gossip] in &told {
            assert_eq!(*of_order, told[0][0], "one order");
            for seat in 0..3 {
                let own = of_gossip.iter().filter(|(from, _)| *from == seat).map(|(_, n)| *n);
                assert!(own.eq(0..N), "each once, in its sender's order");
            }
        }
    });
    groups.into_iter().for_each(|group| group.close(PATIENCE).unwrap());
}

#[test]
fn a_subgroup_without_an_order_delivers_large_messages_beside_one_that_has_one() {
    let directory = directory();
    beside_an_order(&options(directory.path()));
}

#[test]
fn a_subgroup_without_an_order_does_so_over_tcp() {
    let directory = directory();
    beside_an_order(&over_tcp(directory.path()));
}

#[test]
fn large_messages_are_the_same_however_they_are_read() {
    let directory = directory();
    for mode in [Mode::Ordered, Mode::Unordered] {
        let groups = three(&Options { mode, ..options(directory.path()) });
        // Several times as many as there are places.
        for n in 0..6 * WINDOW as usize {
            let sent = message(n);
            groups[n % 3].send_within(&sent, PATIENCE).unwrap();
            for group in &groups {
                let one = next(group);
                assert_eq!(one.bytes.is_shared(), mode == Mode::Ordered);
                let mut head = [0; 16];
                assert_eq!((one.bytes.len(), one.bytes.head(&mut head)), (sent.len(), 16));
                assert_eq!(head, sent[..16]);
                assert!(read(&one.bytes) == sent);
                assert!(n % 2 == 0 || one.bytes[..] == sent[..]);
            }
        }
        groups.into_iter().for_each(|group| group.close(PATIENCE).unwrap());
    }
}

#[test]
fn an_application_that_keeps_messages_holds_up_no_member() {
    let directory = directory();
    let groups = three(&options(directory.path()));
    let mut kept = Vec::new();
    // Many more than there are places: the rest comes through the rings.
    for n in 0..6 * WINDOW as usize {
        groups[0].send_within(&message(n), PATIENCE).unwrap();
        kept.extend(groups.iter().map(|group| (n, next(group).bytes)));
    }
    let n_shared = kept.iter().filter(|(_, bytes)| bytes.is_shared()).count();
    assert!((1..kept.len()).contains(&n_shared), "{n_shared} of {}", kept.len());
    assert!(kept.iter().all(|(n, bytes)| read(bytes) == message(*n)));
    // Given back, places are used again.
    kept.clear();
    let by = Instant::now() + PATIENCE;
    loop {
        groups[0].send_within(&message(0), PATIENCE).unwrap();
        let ones = groups.each_ref().map(next);
        if ones[0].bytes.is_shared() {
            break;
        }
        assert!(Instant::now() < by, "no place comes free");
    }
    groups.into_iter().for_each(|group| group.close(PATIENCE).unwrap());
}

/// V20, V22: the sender of what was delivered is gone, and then the reader's own membership; the
/// memory of the one, and the places of the other's peers, are used by others.
#[test]
fn v22_a_message_outlives_its_sender_and_its_receivers_membership() {
    let directory = directory();
    let options = options(directory.path());
    let [first, second, third] = three(&options);
    let mut kept = Vec::new();
    for n in 0..3 {
        let from = if n == 1 { &second } else { &first };
        from.send_within(&message(n), PATIENCE).unwrap();
        kept.push((n, next(&third).bytes));
        next(&first);
        next(&second);
    }
    assert!(kept.iter().all(|(_, bytes)| bytes.is_shared()));
    second.close(PATIENCE).unwrap();
    let successor = Group::join(&options).unwrap();
    third.close(PATIENCE).unwrap();
    for n in 3..6 * WINDOW as usize {
        for from in [&first, &successor] {
            from.send_within(&message(n), PATIENCE).unwrap();
            next(&first);
            next(&successor);
        }
    }
    assert!(kept.iter().all(|(n, bytes)| read(bytes) == message(*n)));
    assert!(kept.iter().all(|(n, bytes)| bytes[..] == message(*n)[..]));
    [first, successor].into_iter().for_each(|group| group.close(PATIENCE).unwrap());
}

#[test]
fn large_messages_over_tcp_are_the_same_and_receivers_do_not_copy_them() {
    let directory = directory();
    for mode in [Mode::Ordered, Mode::Unordered] {
        let groups = three(&Options { mode, ..over_tcp(directory.path()) });
        for n in 0..6 * WINDOW as usize {
            let long = || (0..1 << 20).map(|at: usize| ((at * 13 + n * 31) >> 3) as u8).collect();
            let sent = if n % 2 == 0 { long() } else { message(n) };
            groups[n % 3].send_within(&sent, PATIENCE).unwrap();
            for (member, group) in groups.iter().enumerate() {
                let one = next(group);
                assert!(read(&one.bytes) == sent && one.bytes[..] == sent[..]);
                // (Without an order it goes through the rings.)
                let Some(n_copied) = one.bytes.n_copied() else {
                    assert_eq!(mode, Mode::Unordered);
                    continue;
                };
                assert_eq!(mode, Mode::Ordered);
                let is_own = member == n % 3;
                assert!(n_copied <= sent.len(), "each byte once");
                assert!(is_own || sent.len() < 1 << 20 || n_copied <= sent.len() / 4, "{n_copied}");
            }
        }
        groups.into_iter().for_each(|group| group.close(PATIENCE).unwrap());
    }
}

#[test]
fn v24_what_was_delivered_over_tcp_outlives_its_sender() {
    let directory = directory();
    let options = over_tcp(directory.path());
    let [first, second, third] = three(&options);
    let mut kept = Vec::new();
    for n in 0..4 * WINDOW as usize {
        second.send_within(&message(n), PATIENCE).unwrap();
        kept.extend([&first, &third].map(|group| (n, next(group).bytes)));
        next(&second);
    }
    // In the middle of its messages it is gone, without a word.
    for n in 0..WINDOW as usize {
        second.send_within(&message(n), PATIENCE).unwrap();
    }
    drop(second);
    for n in 0..2 * WINDOW as usize {
        first.send_within(&message(100 + n), PATIENCE).unwrap();
    }
    // The survivors deliver the same of it: a part of its last messages, in order.
    let until_last = |group: &Group| {
        let mut all = Vec::new();
        while all.last() != Some(&message(100 + 2 * WINDOW as usize - 1)) {
            all.push(next(group).bytes[..].to_vec());
        }
        all
    };
    let (all, others) = (until_last(&first), until_last(&third));
    assert!(all == others, "{} and {}", all.len(), others.len());
    let is_second = |bytes: &&Vec<u8>| (0..WINDOW as usize).any(|n| **bytes == message(n));
    let of_second: Vec<_> = all.iter().filter(is_second).collect();
    assert!(of_second.iter().zip(0..).all(|(bytes, n)| **bytes == message(n)));
    assert_eq!(all.len() - of_second.len(), 2 * WINDOW as usize);
    assert!(kept.iter().all(|(n, bytes)| read(bytes) == message(*n)));
    [first, third].into_iter().for_each(|group| group.close(PATIENCE).unwrap());
}

#[test]
fn a_sender_of_large_messages_over_tcp_sends_each_byte_about_once() {
    const LENGTH: usize = (1 << 20) - 5;
    for (relay, n_copies) in [
        (Schedule::Sequential, 4.0..4.1),
        (Schedule::Chain, 1.0..1.1),
        (Schedule::BinomialTree, 3.0..3.1),
        (Schedule::BinomialPipeline, 1.0..1.3),
    ] {
        let directory = directory();
        let addresses = ports::free(5).expect("ports are free");
        let transport = Transport::Tcp { addresses, listen: None };
        let message_bytes = LENGTH as u32;
        let options =
            Options { transport, message_bytes, seats: 5, relay, ..options(directory.path()) };
        let groups = members::<5>(&options);
        let n_messages = 3 * WINDOW as usize;
        for n in 0..n_messages {
            let sent: Vec<u8> = (0..LENGTH).map(|at| ((at * 13 + n * 31) >> 3) as u8).collect();
            groups[2].send_within(&sent, PATIENCE).unwrap();
            for group in &groups {
                assert!(next(group).bytes[..] == sent, "{relay:?}");
            }
        }
        let relayed = groups.each_ref().map(Group::relayed);
        let share = relayed[2].own_bytes as f64 / (n_messages * LENGTH) as f64;
        assert!(n_copies.contains(&share), "{relay:?}: {share}");
        // Each other member receives each byte once.
        let all: u64 = relayed.iter().map(|one| one.own_bytes + one.relayed_bytes).sum();
        assert_eq!(all, (4 * n_messages * LENGTH) as u64, "{relay:?}");
        groups.into_iter().for_each(|group| group.close(PATIENCE).unwrap());
    }
}
