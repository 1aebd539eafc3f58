//! Connections that are not admitted, and the reports about them: refusals, garbage, and slow
//! peers.

mod tcp_support;

use base::Incarnation;
use fabric::Setup;
use fabric::tcp::{DoorCounters, INCOMING_MAX, LinkError, LinkState, TcpFabric, hello};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tcp_support::{DEADLINE, Happening, Member, Place, meet, rank, until};

/// Connects member 2 with one thing changed to member 1 as configured; returns the reports of both
/// about their link.
fn refused(change: impl FnOnce(&mut Setup)) -> (LinkError, LinkError) {
    let place = Place::new(2);
    let mut setup = place.setup(1);
    change(&mut setup);
    let mut acceptor = place.create(0);
    let mut initiator = place.create_as(&setup);
    until(&mut [&mut acceptor, &mut initiator], "the refusal", |members| {
        members[0].fabric.door().refused > 0
            && matches!(members[1].link(rank(0)).last_error, Some(LinkError::RefusedByPeer { .. }))
    });
    assert_eq!((acceptor.take(), initiator.take()), (vec![], vec![]), "nobody was let in");
    assert_ne!(acceptor.link(rank(1)).state, LinkState::Up);
    let last = acceptor.fabric.door().last_refusal.expect("counted, so recorded");
    assert_eq!(acceptor.link(rank(1)).last_error, Some(LinkError::Unproven(last)));
    (LinkError::Refused(last), initiator.link(rank(0)).last_error.expect("just seen"))
}

#[test]
fn each_refusal_is_said_on_both_sides_with_its_mend() {
    type Change = fn(&mut Setup);
    let cases: [(Change, &[&str]); 4] = [
        (
            |setup| setup.cluster = "other".into(),
            &["the cluster names differ (fingerprints ", "check the peer addresses and the name"],
        ),
        (
            |setup| setup.secret = b"other".into(),
            &["the cluster secrets differ: give all members the same secret file"],
        ),
        (
            |setup| setup.layout += 1,
            &[
                "the memory layouts differ (",
                "give all members the same protocol, sizes and settings",
            ],
        ),
        (
            |setup| setup.n_words += 1,
            &["the memory layouts differ (", " words and ", " words): give all members"],
        ),
    ];
    for (change, parts) in cases {
        let (here, there) = refused(change);
        let LinkError::RefusedByPeer { text: told, .. } = &there else { unreachable!() };
        assert_eq!(here.to_string(), format!("refused: {told}"));
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        assert!(there.to_string().starts_with("the peer refuses (reason "), "{there}");
    }
}

#[test]
fn a_peer_at_a_wrong_address_is_refused_by_name() {
    let mut place = Place::new(3);
    let mut wrong = place.create(1);
    place.addresses.swap(0, 1);
    let mut lost = place.create(2);
    until(&mut [&mut lost, &mut wrong], "the refusal", |members| {
        members[0].link(rank(0)).last_error.is_some()
    });
    let error = lost.link(rank(0)).last_error.unwrap().to_string();
    let text = "node 2 answers where node 1 is expected: check the peer addresses";
    assert_eq!(error, format!("the peer refuses (reason 3): {text}"));
}

#[test]
fn another_number_of_members_is_refused() {
    let (two, three) = (Place::new(2), Place::new(3));
    let mut acceptor = two.create(0);
    let mut addresses = three.addresses.clone();
    addresses[0] = two.addresses[0];
    let setup = three.setup(1);
    let fabric = TcpFabric::create(&setup, three.listener(1), &addresses).unwrap();
    let mut initiator = Member::new(fabric);
    until(&mut [&mut acceptor, &mut initiator], "the refusal", |members| {
        members[1].link(rank(0)).last_error.is_some()
    });
    let error = initiator.link(rank(0)).last_error.unwrap().to_string();
    assert!(error.contains("one side counts 2 members, the other 3"), "{error}");
}

#[test]
fn a_replaced_incarnation_is_refused_and_a_newer_one_is_let_in() {
    let place = Place::new(2);
    let mut a = place.create(0);
    let newer = Setup { incarnation: Incarnation(2), ..place.setup(1) };
    let mut b = place.create_as(&newer);
    meet(&mut a, &mut b);
    b.fabric.remove().unwrap();
    let mut old = place.create(1);
    until(&mut [&mut a, &mut old], "the refusal", |members| {
        members[1].link(rank(0)).last_error.is_some()
    });
    let error = old.link(rank(0)).last_error.unwrap().to_string();
    assert!(error.contains("incarnation 1 of node 2 was replaced by 2"), "{error}");
    old.fabric.remove().unwrap();
    let newest = Setup { incarnation: Incarnation(3), ..place.setup(1) };
    let mut b = place.create_as(&newest);
    meet(&mut a, &mut b);
    assert_eq!(a.link(rank(1)).incarnation, Some(Incarnation(3)));
}

#[test]
fn a_setup_that_cannot_work_is_refused_before_anything_is_made() {
    let place = Place::new(2);
    let open = |setup: &Setup, n: usize| {
        TcpFabric::create(setup, place.listener(0), &place.addresses[..n]).unwrap_err().to_string()
    };
    let unproven = Setup { secret: Vec::new(), ..place.setup(0) };
    assert!(open(&unproven, 2).contains("an empty cluster secret proves nothing"));
    assert!(open(&place.setup(0), 1).contains("1 peer addresses for 2 members"));
    assert_eq!(std::fs::read_dir(place.directory.path()).unwrap().count(), 0);
}

/// Polls until the stranger's connection was closed; returns what it was told.
fn told(member: &mut Member, mut stranger: TcpStream) -> Vec<u8> {
    stranger.set_nonblocking(true).unwrap();
    let mut told = Vec::new();
    until(&mut [member], "the end of the stranger", |_| match stranger.read_to_end(&mut told) {
        Ok(_) => true,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    });
    told
}

#[test]
fn garbage_on_the_port_is_counted_and_gets_no_answer() {
    let place = Place::new(2);
    let mut a = place.create(0);
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64], &[0xff; 64], b"grgl\x09\0\0\0"] {
        let mut stranger = TcpStream::connect(place.addresses[0]).unwrap();
        stranger.write_all(garbage).unwrap();
        assert_eq!(told(&mut a, stranger), b"", "{garbage:?}");
    }
    let door = a.fabric.door().clone();
    assert_eq!(door, DoorCounters { accepted: 4, garbage: 4, ..DoorCounters::default() });
    meet(&mut a, &mut place.create(1));
}

/// The first four bytes of a HELLO are its versions, whatever else a later version puts there.
#[test]
fn a_version_that_is_not_spoken_here_is_told_which_ones_are() {
    let place = Place::new(2);
    let mut a = place.create(0);
    let mut stranger = TcpStream::connect(place.addresses[0]).unwrap();
    stranger.write_all(b"grgl\x01\0\x06\0\x08\0\x09\0\xff\xff").unwrap();
    let told = told(&mut a, stranger);
    let (header, body) = told.split_first_chunk().expect("a message");
    assert_eq!(hello::decode_header(header), Ok((hello::Kind::Refused, body.len())));
    let text = "one side speaks versions 1 to 1, the other 8 to 9: upgrade the older node first";
    assert_eq!(hello::decode_refused(body), Ok((1, text.to_owned())));
}

#[test]
fn a_stranger_who_goes_away_is_forgotten() {
    let place = Place::new(2);
    let mut a = place.create(0);
    for _ in 0..3 * INCOMING_MAX {
        let mut stranger = TcpStream::connect(place.addresses[0]).unwrap();
        stranger.write_all(b"grgl").unwrap();
        drop(stranger);
        a.poll();
    }
    meet(&mut a, &mut place.create(1));
    assert_eq!(a.fabric.door().refused, 0);
}

/// Many silent connections do not keep a member out, and are dropped.
#[test]
fn idle_strangers_crowd_each_other_out_and_nobody_else() {
    let place = Place::new(2);
    let mut a = place.create(0);
    let idle: Vec<_> =
        (0..3 * INCOMING_MAX).map(|_| TcpStream::connect(place.addresses[0]).unwrap()).collect();
    until(&mut [&mut a], "all of them", |members| {
        members[0].fabric.door().accepted == idle.len() as u64
    });
    assert_eq!(a.fabric.door().crowded_out, 2 * INCOMING_MAX as u64);
    meet(&mut a, &mut place.create(1));
}

/// A handshake that arrives a byte at a time, each just before a time-out, ends by its deadline;
/// the member sleeps meanwhile and its descriptor wakes it.
#[test]
fn a_dawdling_handshake_ends_by_its_deadline_and_wakes_a_sleeper_for_it() {
    use fabric::Fabric;
    let place = Place::new(2);
    let mut a = place.create(0);
    let mut stranger = TcpStream::connect(place.addresses[0]).unwrap();
    until(&mut [&mut a], "the stranger", |members| members[0].fabric.door().accepted == 1);
    for byte in b"grgl\x01\0" {
        stranger.write_all(&[*byte]).unwrap();
        a.poll();
    }
    let end = std::time::Instant::now() + DEADLINE;
    while a.fabric.door().timed_out == 0 {
        assert!(std::time::Instant::now() < end, "{:?}", a.fabric.door());
        a.fabric.prepare_sleep();
        a.poll();
        if a.fabric.door().timed_out == 0 {
            let woken = fabric::conformance::child::sleep_until_readable(&a.fabric, DEADLINE);
            assert!(woken, "nothing but the deadline can wake it, and it must");
        }
        a.fabric.awake();
        a.poll();
    }
    assert_eq!(told(&mut a, stranger), b"");
}

/// A peer whose host vanishes after the handshake's first half blocks no other member.
#[test]
fn a_half_open_acceptor_is_given_up_and_tried_again() {
    let mut place = Place::new(2);
    let deaf = std::net::TcpListener::bind((place.addresses[0].ip(), 0)).unwrap();
    let real = std::mem::replace(&mut place.addresses[0], deaf.local_addr().unwrap());
    let mut b = place.create(1);
    until(&mut [&mut b], "the end of the first try", |members| {
        members[0].link(rank(0)).last_error == Some(LinkError::HandshakeTimeout)
    });
    // The deaf address becomes a way to the real member.
    let mut a = place.create(0);
    deaf.set_nonblocking(true).unwrap();
    let mut pipes = Vec::new();
    until(&mut [&mut a, &mut b], "the link", |members| {
        while let Ok((client, _)) = deaf.accept() {
            let server = TcpStream::connect(real).unwrap();
            pipes.push((client, server));
        }
        for (client, server) in &mut pipes {
            pass(client, server);
            pass(server, client);
        }
        members[1].log.contains(&Happening::Up(rank(0)))
    });
}

/// Passes on the bytes that are there.
fn pass(from: &mut TcpStream, to: &mut TcpStream) {
    from.set_nonblocking(true).unwrap();
    let mut room = [0; 4096];
    if let Ok(n) = from.read(&mut room) {
        // The first attempts ended long ago on both sides.
        let _gone = to.write_all(&room[..n]);
    }
}

const _: () = assert!(fabric::tcp::HANDSHAKE_MAX.as_millis() < Duration::as_millis(&DEADLINE) / 2);
