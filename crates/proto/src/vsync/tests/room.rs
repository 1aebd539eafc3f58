//! The room that the logs of durable members take, and what is always in them.

use super::super::bugs::{Bug, Plantings};
use super::super::records::{Found, Past};
use super::super::view::tests::process;
use super::super::{Config, Output, ShardId, Start, Subgroup, ViewId};
use super::net::{self, Net};
use super::{ON_DISKS, Shape};
use crate::disk::Disk;
use crate::planted::{Planted, Sound};
use crate::stage::disk::TestDisk;
use alloc::vec::Vec;
use base::Rank;

const SHAPE: Shape = Shape { n_subgroups: 2, n_shards: 2, ..ON_DISKS };
const KEEP_BYTES: u64 = 2000;
/// Records of two states, and of some times `KEEP_BYTES`: each has eighty bytes or more.
const RECORDS_MAX: u64 = 100;

/// The parameters of a process of a group with two durable subgroups.
fn config(me: usize, start: Start) -> Config {
    let layout = [Subgroup::whole(), Subgroup::whole()].to_vec();
    Config { shape: SHAPE, keep_bytes: KEEP_BYTES, layout, ..net::config(me, start) }
}

/// The number of records in the first member's log, after a look at what a power cut leaves of it:
/// its view, and the state of each shard.
fn n_records<P: Plantings>(net: &Net<P>) -> u64 {
    let disk = &net.disks[0];
    let mut left = disk.clone();
    left.lose_unsynced();
    let found = Found::on(&mut left, Rank::at(0), 2, Sound).expect("a log of this group");
    assert!(found.view.is_some(), "P2: its view");
    let is_whole = |past: &Option<Past>| past.as_ref().is_some_and(|past| past.base.is_some());
    assert!(found.pasts.iter().all(is_whole), "P1: the states of both shards: {found:?}");
    disk.end().0 - disk.start().0
}

/// The most records that are in the log, while one shard of two is called.
fn of_one_that_is_called(planted: impl Plantings) -> u64 {
    let mut net = Net::founded_as(2, planted, config);
    let called = |message: u64| {
        net.multicast_in(ShardId::default(), 0, message as u8);
        net.run(4);
        n_records(&net)
    };
    (0..1000).map(called).max().expect("some messages")
}

/// The same, while processes join and leave, and nothing is called.
fn of_views(planted: impl Plantings) -> u64 {
    let (mut net, mut most) = (Net::founded_as(3, planted, config), 0);
    for incarnation in 1..60 {
        net.disks[3] = TestDisk::default();
        net.begin(3, Config { me: process(3, incarnation), ..config(3, Start::Join) });
        net.run_until(|net| net.n_members(0) == 4 && net.machine(3).is_ready());
        net.machine(3).leave();
        net.run_until(|net| net.n_members(0) == 3);
        net.run(50);
        net.machines[3] = None;
        most = most.max(n_records(&net));
    }
    most
}

#[test]
fn w8_a_shard_that_is_not_called_keeps_nothing_from_being_freed() {
    let n_records = of_one_that_is_called(Sound);
    assert!(n_records < RECORDS_MAX, "{n_records}");
    assert!(of_one_that_is_called(Planted(Bug::KeptByTheIdle)) > 5 * RECORDS_MAX);
}

/// The end of what the first member was told of the first view in this shard.
fn end_of(told: &[Output], subgroup: u16) -> u64 {
    let end = |one: &Output| match one {
        Output::Deliver(one) if one.shard.subgroup == subgroup && one.at.view == ViewId::FIRST => {
            Some(one.at.at + 1)
        }
        Output::TakeState { shard, at, .. } if shard.subgroup == subgroup => Some(at.at),
        _ => None,
    };
    told.iter().filter_map(end).max().unwrap_or(0)
}

#[test]
fn w8_what_was_delivered_is_found_behind_what_was_freed_when_the_power_fails() {
    for n_messages in 1..40 {
        let mut net = Net::founded_as(2, Sound, config);
        for message in 0..n_messages {
            net.multicast_in(ShardId { subgroup: 1, shard: 0 }, 1, 7);
            for _ in 0..3 {
                net.multicast_in(ShardId::default(), 0, message);
                net.run(3);
            }
        }
        let before = [0, 1].map(|subgroup| end_of(&net.told[0], subgroup));
        assert!(before.iter().all(|end| *end > 0), "{before:?}");
        for seat in 0..2 {
            net.disks[seat].lose_unsynced();
            net.told[seat].clear();
            net.machines[seat] = None;
        }
        for seat in 0..2 {
            net.begin(seat, Config { me: process(seat, 2), ..config(seat, Start::Join) });
        }
        net.run_until(|net| net.n_members(0) == 2);
        net.run(50);
        let behind = [0, 1].map(|subgroup| end_of(&net.told[0], subgroup));
        assert!(
            before.iter().zip(behind).all(|(end, found)| found >= *end),
            "{before:?} {behind:?}"
        );
    }
}

#[test]
fn w8_views_without_messages_do_not_fill_the_log() {
    let n_records = of_views(Sound);
    assert!(n_records < RECORDS_MAX, "{n_records}");
    assert!(of_views(Planted(Bug::KeptByTheIdle)) > RECORDS_MAX);
}

#[test]
fn w8_one_state_is_written_again_at_a_time() {
    let mut net = Net::founded_as(2, Sound, config);
    net.run(50);
    net.is_stingy = true;
    net.told[0].clear();
    for message in 0..100 {
        net.multicast_in(ShardId::default(), 0, message);
        net.run(4);
    }
    let asked = |one: &Output| match one {
        Output::GiveState { shard, at, .. } => Some((*shard, *at)),
        _ => None,
    };
    let asked: Vec<_> = net.told[0].iter().filter_map(asked).collect();
    let [(first, at)] = asked[..] else { panic!("{asked:?}") };
    // The application has copied it.
    net.told[0].clear();
    net.is_stingy = false;
    net.machine(0).give(Rank::at(0), first, at, b"state".to_vec());
    net.run(50);
    let next = net.told[0].iter().find_map(|one| match one {
        Output::GiveState { shard, .. } => Some(*shard),
        _ => None,
    });
    assert!(next.is_some_and(|next| next != first), "the other one follows: {next:?}");
}
