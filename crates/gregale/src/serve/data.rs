//! A durable member's directory, and what its next life begins with.
//!
//! - I1 a directory is begun by an explicit bootstrap only. One that lost its identity, or
//!   another's, is refused: its member would have forgotten what it promised.
//! - I2 a directory in which nothing ever became durable belongs to a member that never promised
//!   anything: it is founded (again).

use crate::config::{Config, Start};
use crate::failure::{Failure, Outcome};
use base::{Incarnation, NodeId};
use proto::node;
use runtime::disk::{Found, LogDisk};
use storage::directory::DirectoryError;
use storage::{Directory, Identity};

/// What a durable member has.
pub(super) struct Data {
    pub(super) disk: LogDisk,
    pub(super) found: Option<Found>,
    pub(super) start: node::Start,
}

/// Opens the directory that `config` names, if it names one.
pub(super) fn open(config: &Config) -> Outcome<Option<Data>> {
    let Some(path) = &config.data else { return Ok(None) };
    let identity = Identity {
        cluster: fingerprint(config)?,
        node: NodeId(config.member),
        incarnation: Incarnation(1),
    };
    let directory = match Directory::open(path, &identity) {
        // I1
        Err(DirectoryError::NoIdentity(_)) if config.start == Start::Bootstrap => {
            Directory::create(path, &identity)
        }
        opened => opened,
    };
    let directory = directory.map_err(Failure::new)?;
    let (mut disk, found) = LogDisk::open(directory).map_err(Failure::new)?;
    if let Some(bytes) = config.snapshot_log_bytes {
        disk.snapshot_every(bytes);
    }
    let start = if disk.is_empty() {
        node::Start::Bootstrap // I2
    } else {
        let applied = found.as_ref().map_or(base::Prefix::ZERO, |found| found.prefix);
        node::Start::Recovered { applied, head: None }
    };
    Ok(Some(Data { disk, found, start }))
}

/// Tells clusters of one name apart: by the secret that each has of its own.
fn fingerprint(config: &Config) -> Outcome<u64> {
    let mut bytes = config.secret()?;
    bytes.push(0);
    bytes.extend_from_slice(config.cluster.as_bytes());
    Ok(xxhash_rust::xxh3::xxh3_64(&bytes))
}
