//! Links of the TCP provider: verbs, loss, restart, and the remaining effects of an old connection.

mod tcp_support;

use base::{At, Port, Rank, Token};
use fabric::Fabric;
use fabric::tcp::{LinkError, LinkState};
use tcp_support::{Happening, Member, Place, meet, post_some, rank, until};

fn pair(place: &Place) -> (Member, Member) {
    let (mut a, mut b) = (place.create(0), place.create(1));
    meet(&mut a, &mut b);
    (a, b)
}

#[track_caller]
fn expect(a: &mut Member, b: &mut Member, expected: &[Happening]) {
    until(&mut [&mut *a, b], "the completions", |members| members[0].log.len() >= expected.len());
    assert_eq!(a.take(), expected);
}

#[test]
fn verbs_of_both_directions_complete_in_order() {
    let place = Place::new(2);
    let (mut a, mut b) = pair(&place);
    for round in 0..50 {
        let from_a = post_some(&mut a, rank(1), 10 * round, round);
        let from_b = post_some(&mut b, rank(0), 10 * round, 1000 + round);
        a.fabric.flush();
        b.fabric.flush();
        until(&mut [&mut a, &mut b], "the completions", |members| {
            members.iter().all(|member| member.log.len() == 5)
        });
        assert_eq!((a.take(), b.take()), (from_a, from_b));
        assert_eq!((a.fabric.load(At(0)), b.fabric.load(At(0))), (1000 + round, round));
    }
}

#[test]
fn verbs_to_the_own_region_are_performed_at_once() {
    let place = Place::new(3);
    let mut a = place.create(1);
    let expected = post_some(&mut a, rank(1), 0, 7);
    assert_eq!(a.fabric.load(At(3)), 18);
    assert!(a.fabric.send(rank(1), b"to myself"));
    a.poll();
    assert_eq!(a.log.pop_back(), Some(Happening::Message(rank(1), b"to myself".to_vec())));
    assert_eq!(a.take(), expected);
}

#[test]
fn verbs_without_a_link_complete_as_unknown() {
    let place = Place::new(2);
    let mut a = place.create(0);
    post_some(&mut a, rank(1), 0, 7);
    assert!(a.fabric.send(rank(1), b"lost"));
    a.poll();
    let unknown: Vec<_> = (0..5).map(|n| Happening::Unknown(Token(n))).collect();
    assert_eq!(a.take(), unknown);
}

#[test]
fn messages_of_every_length_arrive_whole_and_behind_writes() {
    let place = Place::new(2);
    let (mut a, mut b) = pair(&place);
    for length in [0, 1, 100, 64 << 10, 256 << 10, (256 << 10) + 1, 1 << 20] {
        let message: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
        a.fabric.write(rank(1), At(9), &[length as u64], None);
        assert!(a.fabric.send(rank(1), &message));
        a.fabric.flush();
        until(&mut [&mut b, &mut a], "the message", |members| !members[0].log.is_empty());
        assert_eq!(b.fabric.load(At(9)), length as u64);
        assert_eq!(b.take(), [Happening::Message(rank(0), message)]);
    }
}

#[test]
fn a_flow_without_room_says_so_and_loses_nothing() {
    let place = Place::new(2);
    let (mut a, mut b) = pair(&place);
    let mut sent = 0u64;
    let mut message = vec![0; 256 << 10];
    loop {
        message[..8].copy_from_slice(&sent.to_le_bytes());
        if !a.fabric.send(rank(1), &message) {
            break;
        }
        a.fabric.flush();
        sent += 1;
        assert!(sent < 1000, "a peer that does not poll must be felt");
    }
    let mut received = 0;
    until(&mut [&mut b, &mut a], "all messages", |members| {
        received = members[0].log.len() as u64;
        received == sent
    });
    for (at, happening) in b.take().into_iter().enumerate() {
        let Happening::Message(_, bytes) = happening else { panic!("{happening:?}") };
        assert_eq!(bytes[..8], (at as u64).to_le_bytes());
    }
    assert!(a.fabric.send(rank(1), &message), "there is room again");
}

#[test]
fn a_peer_that_does_not_read_costs_a_bounded_buffer_and_then_its_link() {
    let place = Place::new(2);
    let (mut a, mut b) = pair(&place);
    let words = vec![1; 1 << 12];
    let mut token = 0;
    while a.link(rank(1)).state == LinkState::Up {
        a.fabric.write(rank(1), At(0), &words, Some(Token(token)));
        a.fabric.flush();
        token += 1;
        assert!(token < 10_000, "a peer that does not poll must be felt");
    }
    assert_eq!(a.link(rank(1)).last_error, Some(LinkError::OutputFull));
    a.poll();
    let down = a.log.iter().position(|happening| *happening == Happening::Down(rank(1)));
    assert_eq!(down, Some(token as usize), "every verb has completed before");
    until(&mut [&mut a, &mut b], "the link again", |members| {
        members[0].log.contains(&Happening::Up(rank(1)))
    });
}

#[test]
fn a_peer_that_does_not_answer_costs_a_bounded_ledger_and_then_its_link() {
    let place = Place::new(2);
    let (mut a, _b) = pair(&place);
    let mut posted = 0;
    while a.link(rank(1)).state == LinkState::Up {
        a.fabric.fetch_add(rank(1), At(0), 1, Some(Token(posted)));
        posted += 1;
        assert!(posted < 1 << 20, "verbs that wait are bounded");
    }
    assert_eq!(a.link(rank(1)).last_error, Some(LinkError::OutstandingFull));
    assert_eq!(posted as usize, fabric::tcp::OUTSTANDING_MAX + 1);
}

#[test]
fn a_peer_that_ends_is_link_down_and_its_successor_link_up() {
    let place = Place::new(2);
    for survivor in [0, 1] {
        let place = if survivor == 0 { &place } else { &Place::new(2) };
        let (a, b) = pair(place);
        let (mut stays, mut goes) = if survivor == 0 { (a, b) } else { (b, a) };
        let peer = rank(1 - survivor);
        goes.fabric.store(At(5), 55);
        stays.fabric.cas(peer, At(0), 0, 1, Some(Token(1)));
        stays.fabric.cas(peer, At(0), 0, 2, Some(Token(2)));
        drop(goes);
        until(&mut [&mut stays], "the loss", |members| {
            members[0].log.contains(&Happening::Down(peer))
        });
        let unknown = |n| Happening::Unknown(Token(n));
        assert_eq!(stays.take(), [unknown(1), unknown(2), Happening::Down(peer)]);
        let mut back = place.attach(1 - survivor);
        meet(&mut stays, &mut back);
        stays.fabric.read(peer, At(5), 1, Token(3));
        expect(&mut stays, &mut back, &[Happening::Read(Token(3), vec![55])]);
    }
}

#[test]
fn only_the_permitted_writer_changes_the_guarded_part() {
    let place = Place::new(3);
    let (mut a, mut b) = (place.create(0), place.create(1));
    meet(&mut a, &mut b);
    a.fabric.permit_writer(At(10), Some(rank(2))).unwrap();
    b.fabric.write(rank(0), At(9), &[1], Some(Token(0)));
    b.fabric.write(rank(0), At(9), &[2, 2], Some(Token(1)));
    b.fabric.write(rank(0), At(10), &[3], None);
    b.fabric.cas(rank(0), At(10), 0, 4, Some(Token(2)));
    b.fabric.fetch_add(rank(0), At(11), 5, Some(Token(3)));
    b.fabric.fetch_add(rank(0), At(8), 6, Some(Token(4)));
    b.fabric.read(rank(0), At(8), 4, Token(5));
    b.fabric.flush();
    expect(
        &mut b,
        &mut a,
        &[
            Happening::Written(Token(0)),
            Happening::Refused(Token(1)),
            Happening::Refused(Token(2)),
            Happening::Refused(Token(3)),
            Happening::Before(Token(4), 0),
            Happening::Read(Token(5), vec![6, 1, 0, 0]),
        ],
    );
    assert_eq!(a.link(rank(1)).counters.refused_verbs, 4, "the unsignalled one too");
    a.fabric.cas(rank(0), At(10), 0, 7, None);
    assert_eq!(a.fabric.load(At(10)), 7, "the owner itself may always");
    a.fabric.permit_writer(At(10), None).unwrap();
    b.fabric.cas(rank(0), At(10), 7, 8, Some(Token(6)));
    expect(&mut b, &mut a, &[Happening::Before(Token(6), 7)]);
}

#[test]
fn one_flush_sends_everything_with_one_system_call() {
    let place = Place::new(2);
    let (mut a, mut b) = pair(&place);
    let before = a.link(rank(1)).counters.sends;
    for n in 0..100 {
        a.fabric.cas(rank(1), At(0), n, n + 1, Some(Token(n)));
    }
    a.fabric.flush();
    a.fabric.flush();
    assert_eq!(a.link(rank(1)).counters.sends, before + 1);
    let before = b.link(rank(0)).counters.sends;
    until(&mut [&mut a, &mut b], "the completions", |members| members[0].log.len() == 100);
    assert_eq!(b.link(rank(0)).counters.sends, before + 1, "the answers are batched too");
}

#[test]
fn a_wake_makes_the_descriptor_readable_and_costs_nothing_behind_a_verb() {
    let place = Place::new(2);
    let (mut a, mut b) = pair(&place);
    until(&mut [&mut a, &mut b], "quiet", |members| !readable(&members[1].fabric));
    b.fabric.prepare_sleep();
    let before = a.link(rank(1)).counters.sent_bytes;
    a.fabric.wake(rank(1));
    a.fabric.wake(rank(1));
    a.fabric.flush();
    assert_eq!(a.link(rank(1)).counters.sent_bytes, before + 8, "one frame for both");
    until(&mut [&mut a], "the wake-up", |_| readable(&b.fabric));
    b.fabric.awake();
}

fn readable(fabric: &impl Fabric) -> bool {
    fabric::conformance::child::sleep_until_readable(fabric, std::time::Duration::ZERO)
}

#[test]
fn seven_members_meet() {
    let place = Place::new(7);
    let mut members: Vec<_> = (0..7).map(|me| place.create(me)).collect();
    let mut all: Vec<_> = members.iter_mut().collect();
    until(&mut all, "all links", |members| {
        members.iter().all(|member| {
            member.fabric.links().filter(|link| link.state == LinkState::Up).count() == 6
        })
    });
    for (me, member) in members.iter_mut().enumerate() {
        for to in Rank::all(7) {
            member.fabric.fetch_add(to, At(0), 1 << (8 * me), Some(Token(0)));
        }
        member.log.clear();
    }
    let mut all: Vec<_> = members.iter_mut().collect();
    until(&mut all, "all completions", |members| {
        members.iter().all(|member| member.log.len() == 7)
    });
    let sum = (0..7).map(|me| 1 << (8 * me)).sum::<u64>();
    assert!(members.iter().all(|member| member.fabric.load(At(0)) == sum));
}
