//! Parcels over tcp: whole, in order, around the buffers, and of one link.

mod tcp_support;

use base::{At, Bulk, Parcel, Port};
use fabric::tcp::{LinkError, LinkState, PARCELS_BYTES_MAX};
use tcp_support::{Happening, Member, Place, meet, rank, until};

fn pair(place: &Place) -> (Member, Member) {
    let (mut a, mut b) = (place.create(0), place.create(1));
    meet(&mut a, &mut b);
    (a, b)
}

fn parcel(tag: u64, n_bytes: usize) -> Parcel {
    let bytes: Vec<u8> = (0..n_bytes).map(|n| (n as u64 * 7 + tag) as u8).collect();
    Parcel { tag, bulk: Bulk::copied(&bytes) }
}

#[test]
fn parcels_of_every_length_arrive_whole_and_before_what_follows() {
    let place = Place::new(2);
    let (mut a, mut b) = pair(&place);
    let lengths = [0, 1, 4096, 65_535, 65_536, 262_144, 300_001, 1 << 20, 1 << 20, 100_000, 3];
    for (n, length) in (0..).zip(lengths) {
        a.fabric.put_parcel(rank(1), At(20), &parcel(99, 70_000));
        a.fabric.write(rank(1), At(n), &[length as u64 + 1], None);
        a.fabric.put_parcel(rank(1), At(20), &parcel(n.into(), length));
        a.fabric.write(rank(1), At(20), &[u64::from(n) + 1], None);
    }
    let mut last = 0;
    for n in 0..lengths.len() as u32 {
        until(&mut [&mut b, &mut a], "a parcel", |members| {
            members[0].fabric.load(At(20)) > u64::from(n)
        });
        // Others may have come since: the last one stays.
        let Some(taken) = b.fabric.take_parcel(rank(0), At(20)) else { continue };
        assert!(taken.tag >= n.into());
        if taken.tag < 99 {
            assert!(taken == parcel(taken.tag, lengths[taken.tag as usize]), "{}", taken.tag);
            last = taken.tag;
        }
        assert_eq!(b.fabric.take_parcel(rank(0), At(20)), None, "it is taken once");
    }
    assert_eq!(last, 10);
    assert!((0..).zip(lengths).all(|(n, length)| b.fabric.load(At(n)) == length as u64 + 1));
}

#[test]
fn a_long_parcel_is_not_copied_on_its_way() {
    let place = Place::new(2);
    let (mut a, mut b) = pair(&place);
    let (mut n_copied, mut n_bytes) = (0, 0);
    for n in 0..20 {
        a.fabric.put_parcel(rank(1), At(0), &parcel(n, 1 << 20));
        a.fabric.write(rank(1), At(1), &[n + 1], None);
        until(&mut [&mut b, &mut a], "the parcel", |members| members[0].fabric.load(At(1)) > n);
        let taken = b.fabric.take_parcel(rank(0), At(0)).expect("T11: it came before the word");
        assert!(taken == parcel(n, 1 << 20));
        if n > 0 {
            (n_copied, n_bytes) = (n_copied + taken.bulk.n_copied(), n_bytes + taken.bulk.len());
        }
    }
    // Behind the first one a little is received, not a buffer full.
    assert!(n_copied * 100 < n_bytes, "{n_copied} of {n_bytes}");
}

#[test]
fn a_parcel_of_a_broken_link_is_gone() {
    let place = Place::new(2);
    let (mut a, mut b) = pair(&place);
    a.fabric.put_parcel(rank(1), At(0), &parcel(1, 5000));
    a.fabric.write(rank(1), At(1), &[1], None);
    until(&mut [&mut b, &mut a], "the parcel", |members| members[0].fabric.load(At(1)) == 1);
    drop(a);
    until(&mut [&mut b], "the loss", |members| members[0].log.contains(&Happening::Down(rank(0))));
    assert_eq!(b.fabric.take_parcel(rank(0), At(0)), None);
}

#[test]
fn a_way_has_room_again_when_its_peer_receives() {
    let place = Place::new(2);
    let (mut a, mut b) = pair(&place);
    assert!(a.fabric.has_room(rank(1), 1 << 20), "nothing is under way");
    let mut n = 0;
    while a.fabric.has_room(rank(1), 64 << 10) {
        a.fabric.put_parcel(rank(1), At(n), &parcel(n.into(), 64 << 10));
        n += 1;
    }
    assert_eq!(n, 7, "512 KiB, the heads of parcels among them");
    until(&mut [&mut a, &mut b], "room", |members| members[0].fabric.has_room(rank(1), 1 << 20));
}

#[test]
fn parcels_that_are_not_taken_cost_their_sender_the_link() {
    let place = Place::new(2);
    let (mut a, mut b) = pair(&place);
    let (down, long) = (Happening::Down(rank(0)), parcel(1, 1 << 20));
    // Each counts with what it costs beside its bytes.
    let n_most = (PARCELS_BYTES_MAX >> 20) as u64 - 1;
    for n in 0..=n_most {
        // What replaces another parcel counts once.
        a.fabric.put_parcel(rank(1), At(10), &long);
        a.fabric.put_parcel(rank(1), At(10 + n as u32), &long);
        a.fabric.write(rank(1), At(0), &[n + 1], None);
        until(&mut [&mut b, &mut a], "the parcels", |members| {
            members[0].fabric.load(At(0)) == n + 1 || members[0].log.contains(&down)
        });
        assert_eq!(b.log.contains(&down), n == n_most, "{n} MiB");
    }
    assert_eq!(b.link(rank(0)).last_error, Some(LinkError::ParcelsFull));
    until(&mut [&mut b, &mut a], "the link again", |members| {
        members[0].link(rank(0)).state == LinkState::Up
    });
}

#[test]
fn parcels_obey_the_permission_of_the_place() {
    let place = Place::new(3);
    let (mut a, mut b) = pair(&place);
    b.fabric.permit_writer(At(10), Some(rank(2))).unwrap();
    for at in [9, 10] {
        a.fabric.put_parcel(rank(1), At(at), &parcel(1, 9));
    }
    a.fabric.write(rank(1), At(0), &[1], None);
    until(&mut [&mut b, &mut a], "the word", |members| members[0].fabric.load(At(0)) == 1);
    assert_eq!(b.fabric.take_parcel(rank(0), At(9)), Some(parcel(1, 9)));
    assert_eq!(b.fabric.take_parcel(rank(0), At(10)), None);
}
