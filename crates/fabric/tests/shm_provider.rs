//! Properties of only the shm provider: files, lives, rings, and refusals with a remedy.

mod support;

use base::{At, Event, Inbox, Incarnation, Port, Rank, Token};
use fabric::conformance::{Group, Happening, Node, Party, Reply, child};
use fabric::shm::{LinkState, MESSAGE_BYTES_MAX, RETRY, RING_WORDS, ShmFabric};
use fabric::{Fabric, OpenError, Setup};
use region::layout::ring;
use region::{Region, Shape};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::path::Path;
use std::time::{Duration, Instant};
use support::{ShmGroup, setup};

const A: Rank = Rank::at(0);
const B: Rank = Rank::at(1);
const WITHIN: Duration = Duration::from_secs(20);

/// The entry of child processes; nothing to test otherwise.
#[test]
fn child_process() {
    if let Some(place) = child::place() {
        child::serve(ShmGroup::open_place(&place));
    }
}

fn names(directory: &Path) -> Vec<String> {
    let listing = std::fs::read_dir(directory).unwrap();
    listing.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn trouble(fabric: &ShmFabric, peer: Rank) -> String {
    let report = fabric.links().find(|report| report.peer == peer).unwrap();
    report.trouble.unwrap_or_default()
}

#[test]
fn a_cluster_that_stops_cleanly_leaves_nothing_behind() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let directory = place.path().join("cluster");
    let open = |me| ShmFabric::create(&setup(&directory, me, 2, 1)).unwrap();
    let (a, b) = (open(A), open(B));
    assert_eq!(names(&directory).len(), 4);
    a.remove().unwrap();
    assert_eq!(names(&directory).len(), 2);
    b.remove().unwrap();
    assert!(names(place.path()).is_empty());
}

#[test]
fn a_second_process_of_one_identity_is_refused() {
    let group = ShmGroup::new(2);
    let _a = group.open(A);
    let refused = ShmFabric::attach(&group.setup(A)).unwrap_err();
    assert!(matches!(refused, OpenError::Region(region::Error::Locked { .. })), "{refused}");
    let refused = ShmFabric::create(&group.setup(A)).unwrap_err();
    assert!(matches!(refused, OpenError::Region(region::Error::Locked { .. })), "{refused}");
}

#[test]
fn a_region_is_only_made_by_a_bootstrap() {
    let group = ShmGroup::new(2);
    let refused = ShmFabric::attach(&group.setup(A)).unwrap_err();
    assert!(refused.to_string().contains("bootstrap the cluster if it is new"), "{refused}");
    let other_life = Setup { incarnation: Incarnation(2), ..group.setup(A) };
    drop(group.open(A));
    let refused = ShmFabric::attach(&other_life).unwrap_err();
    assert!(refused.to_string().contains("of incarnation 1, this node"), "{refused}");
}

#[test]
fn a_failed_start_leaves_nothing_behind() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    // A file that is not a FIFO in the place of the doorbell.
    let directory = place.path().join("cluster");
    std::fs::create_dir(&directory).unwrap();
    std::fs::create_dir(directory.join("node-1.bell")).unwrap();
    let refused = ShmFabric::create(&setup(&directory, A, 2, 1)).unwrap_err();
    assert!(refused.to_string().contains("node-1.bell"), "{refused}");
    assert_eq!(names(&directory), ["node-1.bell"]);
}

#[test]
fn a_peer_of_another_cluster_or_layout_stays_down_and_the_link_says_why() {
    let group = ShmGroup::new(2);
    let mut a = Node::open(&group, A);
    let strangers = [
        (Setup { secret: b"another".to_vec(), ..group.setup(B) }, "another cluster"),
        (Setup { cluster: "another".into(), ..group.setup(B) }, "another cluster"),
        (Setup { layout: 2, ..group.setup(B) }, "layout fingerprint"),
        (Setup { n_words: 8, ..group.setup(B) }, "number of protocol words"),
    ];
    for (stranger, why) in strangers {
        let mut b = ShmFabric::create(&stranger).unwrap();
        b.poll(&mut Inbox::new());
        a.until("T8", why, |a| trouble(&a.fabric, B).contains(why).then_some(())).unwrap();
        assert!(trouble(&b, A).contains(why), "{}", trouble(&b, A));
        assert!(a.log.is_empty());
        b.remove().unwrap();
    }
    let _b = group.open(B);
    a.link_up(B).unwrap();
    let report = a.fabric.links().next().unwrap();
    assert_eq!((report.state, report.trouble), (LinkState::Up, None));
    assert_eq!(report.pid, Some(u64::from(std::process::id())));
}

#[test]
fn l5_an_area_stays_when_its_process_ends_and_another_one_has_its_seat() {
    let group = ShmGroup::new(2);
    let mut a = Node::open(&group, A);
    let first = group.setup(B);
    let b = ShmFabric::create(&first).unwrap();
    a.link_up(B).unwrap();
    b.area(B, first.incarnation).unwrap().write(At(3), &[7, 8]);
    let area = a.fabric.area(B, first.incarnation).unwrap();
    let load = || {
        let mut words = [0; 2];
        area.load_into(At(3), &mut words);
        words
    };
    assert_eq!(load(), [7, 8]);
    assert!(!a.fabric.has_ended(B, first.incarnation));
    drop(b);
    let has_ended = |a: &mut Node<ShmFabric>, of| a.fabric.has_ended(B, of).then_some(());
    a.until("T8", "its end is known", |a| has_ended(a, first.incarnation)).unwrap();

    let next = Setup { incarnation: Incarnation(first.incarnation.0 + 1), ..group.setup(B) };
    Region::discard(&next.directory, B.member()).unwrap();
    let b = ShmFabric::create(&next).unwrap();
    a.until("T8", "the next is met", |a| a.fabric.area(B, next.incarnation)).unwrap();
    assert!(a.fabric.area(B, first.incarnation).is_none());
    assert!(a.fabric.has_ended(B, first.incarnation));
    assert!(!a.fabric.has_ended(B, next.incarnation));
    assert_eq!(load(), [7, 8]);
    assert_eq!(b.area(B, next.incarnation).unwrap().load(At(3)), 0);
    b.remove().unwrap();
    a.until("T8", "it has gone in order", |a| has_ended(a, next.incarnation)).unwrap();
}

#[test]
fn l5_a_process_that_lives_has_not_ended_though_one_of_a_higher_incarnation_has_left() {
    let group = ShmGroup::new(2);
    let mut a = Node::open(&group, A);
    let [first, low] = [10, 5].map(Incarnation);
    let open = |incarnation| ShmFabric::create(&Setup { incarnation, ..group.setup(B) }).unwrap();
    let has_ended = |a: &mut Node<ShmFabric>, of| a.fabric.has_ended(B, of).then_some(());
    let b = open(first);
    a.link_up(B).unwrap();
    b.remove().unwrap();
    a.until("T8", "it has gone in order", |a| has_ended(a, first)).unwrap();
    // The clock of the host was set back meanwhile.
    let b = open(low);
    a.link_up(B).unwrap();
    assert!(!a.fabric.has_ended(B, low), "it lives");
    assert!(a.fabric.has_ended(B, first), "another one has its seat");
    b.remove().unwrap();
    a.until("T8", "this one has gone as well", |a| has_ended(a, low)).unwrap();
}

#[test]
fn verbs_to_a_peer_that_was_never_there_are_unknown() {
    let group = ShmGroup::new(2);
    let mut a = Node::open(&group, A);
    for (number, post) in [
        (1, (|a, t| a.write(B, At(0), &[1], Some(t))) as fn(&mut ShmFabric, Token)),
        (2, |a, t| a.read(B, At(0), 1, t)),
        (3, |a, t| a.cas(B, At(0), 0, 1, Some(t))),
        (4, |a, t| a.fetch_add(B, At(0), 1, Some(t))),
    ] {
        post(&mut a.fabric, Token(number));
        assert_eq!(a.reply(Token(number)), Ok(Reply::Unknown));
    }
    assert!(a.fabric.send(B, b"lost with the link"));
}

#[test]
fn a_dropped_end_is_a_dead_process_whose_memory_answers() {
    let group = ShmGroup::new(2);
    let mut party = Party::open(&group).unwrap();
    let b = party.nodes.pop().unwrap();
    let mut a = party.nodes.pop().unwrap();
    a.fabric.write(B, At(3), &[33], None);
    drop(b);
    a.until("T8", "the death", |a| a.take(|e| *e == Happening::ProcessFailed(B))).unwrap();
    assert_eq!(a.read(B, At(3), 1), Ok(vec![33]));
    assert_eq!(a.fabric.links().next().unwrap().state, LinkState::Failed);
    let b = Node::open(&group, B);
    a.link_up(B).unwrap();
    assert_eq!(b.fabric.load(At(3)), 33);
    assert!(!a.log.iter().any(Happening::is_failure));
}

#[test]
fn l2_what_a_life_sent_comes_before_its_end_and_nothing_crosses_a_restart() {
    let group = ShmGroup::new(2);
    let mut party = Party::open(&group).unwrap();
    let mut b = party.nodes.pop().unwrap();
    let mut a = party.nodes.pop().unwrap();
    assert!(b.fabric.send(A, b"from b's first life"));
    assert!(a.fabric.send(B, b"for b's first life"));
    drop(b);
    let mut b = Node::open(&group, B);
    b.link_up(A).unwrap();
    assert!(b.fabric.send(A, b"from b's second life"));
    a.until("T8", "all news", |a| (a.log.len() >= 4).then_some(())).unwrap();
    let expected = [
        Happening::Message(B, b"from b's first life".to_vec()),
        Happening::ProcessFailed(B),
        Happening::LinkUp(B),
        Happening::Message(B, b"from b's second life".to_vec()),
    ];
    assert_eq!(Vec::from(a.log.clone()), expected);
    assert!(a.fabric.send(B, b"for b's second life"));
    assert_eq!(b.message(), Ok((A, b"for b's second life".to_vec())));
    assert_eq!(b.fabric.links().next().unwrap().dropped, 1);
}

#[test]
fn a_region_that_was_swept_and_made_anew_is_another_link() {
    let group = ShmGroup::new(2);
    let mut party = Party::open(&group).unwrap();
    let b = party.nodes.pop().unwrap();
    let mut a = party.nodes.pop().unwrap();
    a.fabric.write(B, At(3), &[33], None);
    drop(b);
    let directory = group.setup(B).directory;
    assert_eq!(region::sweep(&directory).unwrap(), [directory.join("node-2.region")]);
    let second = Setup { incarnation: Incarnation(2), ..group.setup(B) };
    let mut b = ShmFabric::create(&second).unwrap();
    b.poll(&mut Inbox::new());
    a.link_up(B).unwrap();
    assert!(a.take(|event| *event == Happening::LinkDown(B)).is_some());
    assert_eq!(a.read(B, At(3), 1), Ok(vec![0]));
    assert_eq!(a.fabric.links().next().unwrap().incarnation, Some(Incarnation(2)));
    assert!(a.fabric.send(B, b"hello"));
    let mut inbox = Inbox::new();
    b.poll(&mut inbox);
    assert!(inbox.iter().any(|event| event == Event::Message { from: A, bytes: b"hello" }));
}

#[test]
fn q4_a_garbled_ring_breaks_the_link_and_heals() {
    let group = ShmGroup::new(2);
    let mut party = Party::open(&group).unwrap();
    let identity = group.setup(A).identity_of(A, RING_WORDS);
    let peer_view = Region::open_peer(&group.setup(A).directory, &identity).unwrap();
    peer_view.ring(B.index()).store(ring::FRAMES, u64::MAX);
    peer_view.ring(B.index()).store(ring::TAIL, 9);
    let a = &mut party.nodes[A.index()];
    a.link_up(B).unwrap();
    assert!(a.take(|event| *event == Happening::LinkDown(B)).is_some());
    assert!(a.log.is_empty());
}

#[test]
fn s2_a_sleep_costs_one_bell() {
    let group = ShmGroup::new(3);
    let mut party = Party::open(&group).unwrap();
    let bell = group.setup(A).directory.join("node-1.bell");
    let bell = rustix::fs::open(
        bell,
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NONBLOCK,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    party.nodes[A.index()].fabric.awake();
    for wakers in 1..3 {
        let mut rings = [0; 64];
        let _ = rustix::io::read(&bell, &mut rings);
        party.nodes[A.index()].fabric.prepare_sleep();
        for waker in 1..=wakers {
            (0..10).for_each(|_| party.nodes[waker].fabric.wake(A));
        }
        assert_eq!(rustix::io::read(&bell, &mut rings), Ok(1));
        party.nodes[A.index()].fabric.awake();
        party.nodes[B.index()].fabric.wake(A);
        assert!(rustix::io::read(&bell, &mut rings).is_err(), "nobody rings at the awake");
    }
}

/// While a member is away, each look for it takes the rings of before.
#[test]
fn t9_a_wake_behind_one_that_a_look_took_wakes() {
    let group = ShmGroup::new(3);
    let (mut a, mut b) = (group.open(A), group.open(B));
    let mut inbox = Inbox::new();
    let deadline = Instant::now() + WITHIN;
    let mut is_up = |fabric: &mut ShmFabric, peer| {
        fabric.poll(&mut inbox);
        let up = inbox.iter().any(|event| event == Event::LinkUp(peer));
        inbox.clear();
        assert!(Instant::now() < deadline, "it never meets {peer}");
        up
    };
    while !is_up(&mut a, B) {}
    while !is_up(&mut b, A) {}
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Long enough for a few looks.
    let until = Instant::now() + 5 * RETRY;
    while Instant::now() < until {
        a.prepare_sleep();
        b.wake(A);
        a.poll(&mut inbox);
        assert!(inbox.is_empty(), "it sleeps now");
        b.wake(A);
        let fd = a.wait_fd();
        let mut waits_for = [PollFd::new(&fd, PollFlags::IN)];
        assert_eq!(poll(&mut waits_for, Some(&at_once)), Ok(1), "T9");
        a.awake();
    }
}

#[test]
fn a_full_flow_takes_nothing_more_until_the_next_poll() {
    let group = ShmGroup::new(2);
    let mut party = Party::open(&group).unwrap();
    let message = vec![1; MESSAGE_BYTES_MAX / 2];
    let sent = (0..100).take_while(|_| party.nodes[0].fabric.send(B, &message)).count();
    assert!((2..100).contains(&sent), "{sent}");
    party.nodes[1].poll();
    assert_eq!(party.nodes[1].log.len(), sent);
    assert!(party.nodes[0].fabric.send(B, &message));
}

#[test]
fn writers_cannot_be_revoked_and_the_refusal_says_what_can() {
    let group = ShmGroup::new(1);
    let mut a = group.open(A);
    assert!(!a.capabilities().write_permission);
    let refused = a.permit_writer(At(0), Some(B)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "shared memory cannot revoke another process's mapping; use --fabric tcp"
    );
}

#[test]
fn a_process_that_dies_at_any_moment_breaks_no_message() {
    let group = ShmGroup::new(2);
    let mut a = Node::open(&group, A);
    for _ in 0..10 {
        let mut process = group.spawn(B);
        a.link_up(B).unwrap();
        // Killed while echoes are on their way: each that arrives is whole, and in order.
        let (mut sent, mut met) = (0_u64, 0);
        while met < 50 {
            if a.fabric.send(B, &sent.to_le_bytes().repeat(100)) {
                sent += 1;
            }
            a.poll();
            while let Some(Happening::Message(B, bytes)) =
                a.take(|event| matches!(event, Happening::Message(..)))
            {
                assert_eq!(bytes, u64::to_le_bytes(met).repeat(100));
                met += 1;
            }
        }
        process.kill();
        a.until("T8", "the death", |a| a.take(|e| *e == Happening::ProcessFailed(B))).unwrap();
        for event in a.log.drain(..) {
            assert_eq!(event, Happening::Message(B, u64::to_le_bytes(met).repeat(100)));
            met += 1;
        }
        drop(process);
    }
}

#[test]
fn a_region_has_a_ring_for_each_seat() {
    let n_words = fabric::conformance::N_WORDS;
    for n_seats in [1, 32] {
        let group = ShmGroup::new(n_seats);
        let a = group.open(A);
        let shape = Shape { n_seats, n_words, ring_words: RING_WORDS };
        assert_eq!(a.region().shape(), shape);
        assert_eq!(a.region().ring(n_seats - 1).n_words(), RING_WORDS + ring::FRAMES);
    }
}
