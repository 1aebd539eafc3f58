//! One replica of each partition, under atomic multicast.
//!
//! - I1 a process that ran before and has no disk has forgotten its replicas' promises: it asks for
//!   their seats as a new incarnation, and takes the states of all partitions from a live process
//!   (docs/partitions.md). Where it cannot (fewer than three processes, or `order = "reply"`) it
//!   takes part no longer. With a disk it resumes from there.
//! - I2 a node's disk is begun once: one that is lost is not begun again by a file that still says
//!   `bootstrap`.

use super::life::{Life, Lives, has_identity};
use super::{data, learner};
use crate::channel::{ReplicaEnd, Sockets};
use crate::config::{Config, FabricKind, Order, Partitioning, Start};
use crate::control::{self, Board};
use crate::door::{PartitionedDoor, partition_seats};
use crate::signals::Signals;
use console::{Failure, Outcome};
use multicast::{Data, Limits, Seat, System};
use std::process::ExitCode;
use std::sync::Arc;

/// Runs until it is told to stop.
pub(super) fn run(
    config: &Config,
    partitions: Partitioning,
    sockets: Sockets,
    channel: Option<Arc<ReplicaEnd>>,
) -> Outcome {
    let lives = Lives::of(config)?;
    let life = lives.begin()?;
    let signals = Signals::new()?;
    let Sockets { client, control, fabric: listener } = sockets;
    let board = Board::new(config, life.count);
    control::serve(&board, control)?;
    let data = disk(config, (&lives, life), channel.is_none())?;
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
    let begins = matches!(seat.data, Some(Data::Begin(_)));
    if begins {
        lives.note_disk(life)?; // before it holds a promise
    }
    let ended = multicast::run(&system, seat, door, stop).map_err(Failure::new);
    if begins && ended.is_err() && matches!(has_identity(config), Ok(false)) {
        lives.forget_disk(life)?;
    }
    ended.map(|_| ExitCode::SUCCESS)
}

/// I2: a file that says `bootstrap` may stay as it is. A supervisor's word is followed.
fn disk(config: &Config, (lives, life): (&Lives, Life), by_file: bool) -> Outcome<Option<Data>> {
    let Some(path) = &config.data else { return Ok(None) };
    let begins = match config.start {
        Start::Bootstrap if by_file && life.had_disk && !has_identity(config)? => {
            let mend = "and start the system with a majority of its disks";
            return Err(data::lost(config.member, path, lives, mend));
        }
        Start::Bootstrap => !by_file || !has_identity(config)?,
        Start::Reattach | Start::Join => false,
    };
    Ok(Some(if begins { Data::Begin(path.clone()) } else { Data::Reopen(path.clone()) }))
}

/// A group for each partition, with a member at every process.
fn system(config: &Config, partitions: Partitioning) -> Outcome<System> {
    let secret = String::from_utf8(config.secret()?).map_err(|_| {
        Failure::new(format_args!(
            "the secret in {} is no text: `(umask 077; head -c 32 /dev/urandom | base64 > FILE)` makes one",
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
        rules: config.rules(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Incarnation;

    #[test]
    fn i2_a_lost_disk_is_not_begun_again_by_the_file_that_begun_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("disk");
        let text = format!(
            "cluster = \"x\"\nmember = 1\nstart = \"bootstrap\"\ndirectory = \"/x\"\ndata = {path:?}\n\
             durability = \"disk-quorum\"\nprotocol = \"primcast\"\nsecret_file = \"/x/secret\"\n\
             [[members]]\nid = 1\nclient = \"127.0.0.1:7000\"\ncontrol = \"127.0.0.1:7200\"\n"
        );
        let config: Config = toml::from_str(&text).unwrap();
        let life = |had_disk| Life { number: Incarnation(5), count: 1, had_disk };
        let lives = Lives::of(&config).unwrap();
        let begins = |had_disk, by_file| disk(&config, (&lives, life(had_disk)), by_file);
        assert!(matches!(begins(false, true), Ok(Some(Data::Begin(_)))));
        let refused = begins(true, true).unwrap_err().to_string();
        assert!(refused.contains("is lost"), "{refused}");
        assert!(matches!(begins(true, false), Ok(Some(Data::Begin(_)))), "a supervisor knows");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("identity"), "it is there").unwrap();
        for had_disk in [false, true] {
            let found = begins(had_disk, true);
            assert!(matches!(found, Ok(Some(Data::Reopen(_)))), "the line may stay");
        }
    }
}
