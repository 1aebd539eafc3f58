//! Deaths of real processes, told by their sentinels.

mod tcp_support;

use base::MemberSet;
use fabric::tcp::sentinel::{self, Verdict};
use std::thread::{self, JoinHandle};
use tcp_support::{Happening, Member, Place, me, meet, rank, serve_if_child, until};

fn start_sentinel(place: &Place, me: usize) -> JoinHandle<Verdict> {
    let (setup, addresses) = (place.setup(me), place.addresses.clone());
    thread::spawn(move || sentinel::run(&setup, &addresses).unwrap())
}

/// Waits until everybody else has the connection of this one's sentinel.
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
    let mut told = MemberSet::EMPTY;
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
        (a.take(), c.take());
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

/// Whoever comes too late, or for nothing, harms nobody.
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
    let mut told = MemberSet::EMPTY;
    told.insert(rank(1));
    assert_eq!(watch.join().unwrap(), Verdict::Died { told });
    until(&mut [&mut b], "the news", |members| {
        members[0].log.contains(&Happening::Failed(rank(0)))
    });
}
