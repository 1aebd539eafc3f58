//! The directory of a durable group's process: its log, which the next process on its seat begins
//! with.

use crate::error::Error;
use crate::options::{Data, Options};
use crate::seat::Founds;
use base::{Incarnation, NodeId};
use runtime::disk::LogDisk;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::Duration;
use storage::Directory;
use storage::directory::{DirectoryError, Identity};

/// The speed at which the slowest disk is read: twice, to look at the records and to use them.
const READ_BYTES_PER_SECOND: u64 = 4 << 20;

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

/// The longest time in which the log in the directory is read: a process begins to join behind
/// that, so it counts to no patience.
pub(crate) fn reading_max(options: &Options) -> Duration {
    let Some(Data { directory, .. }) = &options.data else { return Duration::ZERO };
    // (What cannot be looked at is refused by name when it is opened.)
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let lengths = files.filter_map(|file| file.metadata().ok()).map(|file| file.len());
    Duration::from_secs(lengths.sum::<u64>() / READ_BYTES_PER_SECOND)
}

/// The error of a log that cannot be used.
pub(crate) fn refused(path: &Path, why: String) -> Error {
    Error::Data { path: path.to_owned(), why }
}

/// The name of a group that is founded now.
pub(crate) fn new_name() -> u64 {
    RandomState::new().hash_one(std::process::id()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_long_log_has_the_time_that_a_slow_disk_takes_for_it() {
        let directory = tempfile::Builder::new().prefix("gregale-group").tempdir().expect("room");
        let options = Options::shm("test", "sesame", "app 1").durable(1, directory.path());
        assert_eq!(reading_max(&options), Duration::ZERO);
        for name in ["log-1", "log-2"] {
            let file = File::create(directory.path().join(name)).expect("a file");
            file.set_len(1 << 30).expect("it is empty, and takes no room");
        }
        assert_eq!(reading_max(&options), Duration::from_secs(512));
        let missing = Options { data: Some(Data::at(directory.path().join("none"))), ..options };
        assert_eq!(reading_max(&missing), Duration::ZERO);
    }
}
