//! Deaths of real processes, reported by their sentinels.

mod tcp_support;

use base::{At, Incarnation, Port, SeatSet};
use fabric::tcp::hello::{self, Hello, Kind, Role, Secret, Side, Versions};
use fabric::tcp::sentinel::{self, Verdict};
use fabric::tcp::wire;
use region::Region;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use tcp_support::{
    Happening, Member, N_WORDS, Place, me, meet, post_some, rank, serve_if_child, until,
};

fn start_sentinel(place: &Place, me: usize) -> JoinHandle<Verdict> {
    let (setup, addresses) = (place.setup(me), place.addresses.clone());
    thread::spawn(move || sentinel::run(&setup, &addresses).unwrap())
}

/// Waits until all other members have the connection of this one's sentinel.
fn sentinel_stands(members: &mut [&mut Member], watched: usize) {
    until(members, "the sentinel's connections", |members| {
        let mut others = members.iter().filter(|member| me(member) != rank(watched));
        others.all(|member| member.link(rank(watched)).sentinel)
    });
}

#[test]
fn a_killed_process_is_reported_to_all_peers_by_its_sentinel() {
    serve_if_child();
    let place = Place::new(3);
    let (mut a, mut c) = (place.create(0), place.create(2));
    let mut told = SeatSet::EMPTY;
    told.insert(rank(0));
    told.insert(rank(2));
    let test = "a_killed_process_is_reported_to_all_peers_by_its_sentinel";
    // Twice: the second life attaches the region of the first and has a sentinel of its own.
    for _ in 0..2 {
        let mut child = place.spawn(1, test);
        until(&mut [&mut a, &mut c], "the child's links", |members| {
            members.iter().all(|member| member.log.contains(&Happening::Up(rank(1))))
        });
        let sentinel = start_sentinel(&place, 1);
        sentinel_stands(&mut [&mut a, &mut c], 1);
        a.take();
        c.take();
        child.kill();
        until(&mut [&mut a, &mut c], "the death and the loss", |members| {
            members.iter().all(|member| member.log.len() == 2)
        });
        for member in [&mut a, &mut c] {
            let mut happened = member.take();
            happened.sort_by_key(|happening| *happening != Happening::Failed(rank(1)));
            assert_eq!(happened, [Happening::Failed(rank(1)), Happening::Down(rank(1))]);
        }
        assert_eq!(sentinel.join().unwrap(), Verdict::Died { told });
    }
}

#[test]
fn a_clean_stop_is_not_reported() {
    let place = Place::new(2);
    let (mut a, mut b) = (place.create(0), place.create(1));
    let watch = start_sentinel(&place, 0);
    meet(&mut a, &mut b);
    sentinel_stands(&mut [&mut b], 0);
    a.fabric.remove().unwrap();
    assert_eq!(watch.join().unwrap(), Verdict::Stopped);
    until(&mut [&mut b], "the end of the sentinel", |members| !members[0].link(rank(0)).sentinel);
    until(&mut [&mut b], "the loss", |members| !members[0].log.is_empty());
    assert_eq!(b.take(), [Happening::Down(rank(0))]);
}

#[test]
fn a_sentinel_comes_back_to_a_peer_that_restarts() {
    let place = Place::new(2);
    let (mut a, mut b) = (place.create(0), place.create(1));
    let watch = start_sentinel(&place, 0);
    sentinel_stands(&mut [&mut b, &mut a], 0);
    drop(b);
    let mut b = place.attach(1);
    sentinel_stands(&mut [&mut b, &mut a], 0);
    a.fabric.remove().unwrap();
    assert_eq!(watch.join().unwrap(), Verdict::Stopped);
}

/// A sentinel that comes too late, or for no node, does no harm.
#[test]
fn a_sentinel_of_nobody_ends_by_itself() {
    let place = Place::new(2);
    let setup = place.setup(0);
    assert!(sentinel::run(&setup, &place.addresses).is_err(), "there is no region");
    let first = place.create(0);
    let watch = start_sentinel(&place, 0);
    let mut b = place.create(1);
    sentinel_stands(&mut [&mut b], 0);
    drop(first); // without removing: the process is over, its memory stays
    let mut told = SeatSet::EMPTY;
    told.insert(rank(1));
    assert_eq!(watch.join().unwrap(), Verdict::Died { told });
    until(&mut [&mut b], "the news", |members| {
        members[0].log.contains(&Happening::Failed(rank(0)))
    });
}

/// A process that knows the secret and claims to be the sentinel of member 1.
fn impostor(member: &mut Member, place: &Place, life: u64) -> TcpStream {
    let mut stream = TcpStream::connect(place.addresses[0]).unwrap();
    let hello = Hello {
        versions: Versions::OURS,
        role: Role::Sentinel,
        from: rank(1),
        to: rank(0),
        members: 2,
        cluster: hello::cluster_fingerprint("tcp-test"),
        incarnation: Incarnation(1),
        life,
        layout: 7,
        n_words: N_WORDS,
        epoch: life,
        nonce: [9; 32],
    };
    let (mut ours, mut theirs) = (Vec::new(), vec![0; 96]);
    hello.put(&mut ours, Kind::Hello);
    stream.write_all(&ours).unwrap();
    exchange(member, &mut stream, &mut theirs);
    let secret = Secret::new(&place.setup(1).secret);
    let mut proof = Vec::new();
    let mac = secret.prove(Side::Initiator, &ours, &theirs);
    hello::put_proof(&mut proof, Kind::Proof, mac);
    stream.write_all(&proof).unwrap();
    let mut welcome = vec![0; 40];
    exchange(member, &mut stream, &mut welcome);
    assert!(secret.verify(Side::Acceptor, &ours, &theirs, &welcome[8..]));
    stream
}

fn exchange(member: &mut Member, stream: &mut TcpStream, into: &mut [u8]) {
    stream.set_nonblocking(true).unwrap();
    let mut got = 0;
    until(&mut [member], "an answer", |_| {
        got += stream.read(&mut into[got..]).unwrap_or(0);
        got == into.len()
    });
}

/// A false alarm costs a suspicion, and nothing else: the link and its verbs are not affected.
#[test]
fn a_false_alarm_is_reported_once_and_harms_nothing() {
    let place = Place::new(2);
    let (mut a, mut b) = (place.create(0), place.create(1));
    meet(&mut a, &mut b);
    let setup = place.setup(0); // seen from here, the other region is a peer's
    let region = Region::open_peer(&setup.directory, &setup.identity_of(rank(1), 0)).unwrap();
    let life = region.life();
    let mut liar = impostor(&mut a, &place, life);
    let mut lie = Vec::new();
    wire::put_process_failed(&mut lie, Incarnation(1), life);
    wire::put_process_failed(&mut lie, Incarnation(1), life);
    liar.write_all(&lie).unwrap();
    until(&mut [&mut a, &mut b], "the alarm", |members| !members[0].log.is_empty());
    let mut expected = vec![Happening::Failed(rank(1))];
    expected.extend(post_some(&mut a, rank(1), 0, 7));
    until(&mut [&mut a, &mut b], "the completions", |members| members[0].log.len() == 6);
    assert_eq!(a.take(), expected);
    assert!(a.link(rank(1)).sentinel, "it stays connected");
}

/// A sentinel's connection carries one kind of frame: it gives no access to the memory.
#[test]
fn a_sentinel_that_posts_verbs_is_dismissed() {
    let place = Place::new(2);
    let mut a = place.create(0);
    for verb in 0..2 {
        let mut liar = impostor(&mut a, &place, 1 + verb);
        let mut frame = Vec::new();
        match verb {
            0 => wire::put_write(&mut frame, At(0), &[1], None),
            // The start of a long frame.
            _ => wire::put_message(&mut frame, &[1; 200]),
        }
        liar.write_all(&frame[..frame.len().min(100)]).unwrap();
        until(&mut [&mut a], "its dismissal", |members| !members[0].link(rank(1)).sentinel);
    }
    assert_eq!((a.fabric.load(At(0)), a.take()), (0, vec![]));
}
