//! A group in shared memory, in a directory that goes away with its test.

use group::Options;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) fn directory() -> TempDir {
    let directory = tempfile::Builder::new().prefix("gregale-group").tempdir_in("/dev/shm");
    directory.expect("tmpfs has room for a directory")
}

/// The options of a group of this name: patient, since other tests run beside it.
pub(crate) fn options(name: &str, directory: &Path, patience: Duration) -> Options {
    let mut options = Options::shm(name, "sesame", &format!("{name} 1"));
    options.directory = directory.join("memory");
    options.patience = patience;
    options.timing.suspect_after = Duration::from_secs(2);
    options
}
