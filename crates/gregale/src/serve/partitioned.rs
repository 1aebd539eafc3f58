//! One replica of each partition, under atomic multicast.
//!
//! - I1 a process that ran before and has no disk has forgotten its replicas' promises: it asks for
//!   their seats as a new incarnation, and takes the states of all partitions from a live process
//!   (docs/partitions.md). Where it cannot (fewer than three processes, or `order = "reply"`) it
//!   takes part no longer. With a disk it resumes from there.

use super::{learner, life};
use crate::channel::{ReplicaEnd, Sockets};
use crate::config::{Config, FabricKind, Order, Partitioning, Start};
use crate::control::{self, Board};
use crate::door::{PartitionedDoor, partition_seats};
use crate::signals::Signals;
use console::{Failure, Outcome};
use multicast::{Data, Limits, Seat, System};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs until it is told to stop.
pub(super) fn run(
    config: &Config,
    partitions: Partitioning,
    sockets: Sockets,
    channel: Option<Arc<ReplicaEnd>>,
) -> Outcome {
    let beside = config.data.as_deref().and_then(Path::parent).unwrap_or(&config.directory);
    let life = life::begin(beside, config.member)?;
    let signals = Signals::new()?;
    let Sockets { client, control, fabric: listener } = sockets;
    let board = Board::new(config, life.count);
    control::serve(&board, control)?;
    let data = config.data.clone().map(|path| match config.start {
        Start::Bootstrap => Data::Begin(path),
        Start::Reattach | Start::Join => Data::Reopen(path),
    });
    // The process ran before (I1).
    let was_there = config.start != Start::Bootstrap && data.is_none();
    if was_there && (config.members.len() < 3 || partitions.order == Order::Reply) {
        let why = "the replicas of its partitions were in the memory of a process that ended";
        return learner::run(why, config, client, &board, signals, channel);
    }
    let start = if was_there { multicast::Start::Anew } else { multicast::Start::First };
    let door =
        PartitionedDoor::new(config, partitions, life.number, client, &board, signals, channel)?;
    let system = system(config, partitions)?;
    let seat = Seat { listener, data, start, ..Seat::new(usize::from(config.member)) };
    let stop = |door: &mut PartitionedDoor| door.stop().is_some();
    multicast::run(&system, seat, door, stop).map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}

/// A group for each partition, with a member at every process.
fn system(config: &Config, partitions: Partitioning) -> Outcome<System> {
    let secret = String::from_utf8(config.secret()?).map_err(|_| {
        Failure::new(format_args!(
            "the secret in {} is no text: `head -c 32 /dev/urandom | base64` makes one",
            config.secret_file.display()
        ))
    })?;
    Ok(System {
        cluster: config.cluster.clone(),
        secret,
        protocol: multicast::Protocol::Primcast,
        order: match partitions.order {
            Order::Linearizable => multicast::Order::Hop,
            Order::Signals | Order::Reply => multicast::Order::Plain,
        },
        fabric: match config.fabric {
            FabricKind::Shm => multicast::FabricKind::Shm,
            FabricKind::Tcp => multicast::FabricKind::Tcp,
        },
        directory: config.directory.clone(),
        nodes: config.members.len(),
        addresses: config.members.iter().filter_map(|member| member.fabric).collect(),
        groups: partition_seats(usize::from(partitions.n), config.members.len()),
        commutes: false,
        clock_error_us: None,
        clock_by: Default::default(),
        limits: Limits::default(),
        settings: config.shared(),
    })
}
