//! The directory of a durable group's process: its log, which the next process on its seat begins
//! with.

use crate::error::Error;
use crate::options::{Data, Options};
use crate::seat::Founds;
use base::{Incarnation, NodeId};
use runtime::disk::LogDisk;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use storage::Directory;
use storage::directory::{DirectoryError, Identity};

/// Opens the directory that `options` name, if they name one: a new one for a founder, and for a
/// process whose directory is empty.
pub(crate) fn open(options: &Options, founds: Founds) -> Result<Option<LogDisk>, Error> {
    let (Some(Data { directory: path, .. }), Some(seat)) = (&options.data, options.seat) else {
        return Ok(None);
    };
    let node = NodeId(seat as u16);
    let cluster = options.identity();
    let identity = Identity { cluster, node, incarnation: Incarnation::FIRST };
    let directory = match Directory::open(path, &identity) {
        Ok(directory) if founds == Founds::No => Ok(directory),
        Ok(_) => Err(DirectoryError::Taken(path.clone())),
        Err(DirectoryError::NoIdentity(_)) => Directory::create(path, &identity),
        Err(why) => Err(why),
    };
    let directory = directory.map_err(|why| refused(path, why.to_string()))?;
    match LogDisk::open(directory) {
        Ok((disk, _)) => Ok(Some(disk)),
        Err(why) => Err(refused(path, why.to_string())),
    }
}

/// The error of a log that cannot be used.
pub(crate) fn refused(path: &Path, why: String) -> Error {
    Error::Data { path: path.to_owned(), why }
}

/// The name of a group that is founded now.
pub(crate) fn new_name() -> u64 {
    RandomState::new().hash_one(std::process::id()).max(1)
}
