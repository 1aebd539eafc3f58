//! A member's log that is only read: what every opening repairs is left as it is.
//!
//! - F1 no byte of the directory changes, and no file is made or removed. By construction:
//!   [`Frozen`] performs no request that would, and opens files for reading. (The lock of a
//!   [`Directory`] is made where it is missing.)

use crate::disk::{Found, OpenError, head_of, newest};
use base::Slot;
use proto::disk::{Disk, Entry, EntryHead, Flush};
use std::fs::File;
use std::io;
use storage::log::Options;
use storage::media::{Media, Os};
use storage::{Directory, Log};

/// A directory whose files stay as they are. An opening only repairs what lies behind the end of
/// the log, which is never read, so it succeeds without.
#[derive(Clone, Debug)]
struct Frozen(Os);

impl Media for Frozen {
    type File = File;

    fn create(&self, _: &str, _: u64) -> io::Result<File> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, name: &str) -> io::Result<File> {
        self.0.open(name)
    }

    fn len(&self, file: &File) -> io::Result<u64> {
        self.0.len(file)
    }

    fn read_at(&self, file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_at(file, offset, into)
    }

    fn write_at(&self, _: &File, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn place(&self) -> String {
        self.0.place()
    }
}

/// The log of the module's text. Requests that would change it are kept in memory.
#[derive(Debug)]
pub(crate) struct FrozenDisk {
    log: Log<Frozen>,
    /// The directory, which holds the lock.
    _directory: Directory,
    failure: Option<String>,
}

impl FrozenDisk {
    /// Reads the log and the newest snapshot of a directory.
    pub(crate) fn open(directory: Directory) -> Result<(FrozenDisk, Option<Found>), OpenError> {
        let path = directory.media().place();
        let failed = |error| OpenError::Os { what: "open the directory", error };
        let media = Os::reading(path.as_ref()).map_err(failed)?;
        let log = storage::log::open(&Frozen(media.clone()), &Options::default(), directory.log())?;
        let (found, _) = newest(&media, directory.log())?;
        Ok((FrozenDisk { log: log.log, _directory: directory, failure: None }, found))
    }

    /// The directory's path, for messages.
    pub(crate) fn place(&self) -> String {
        self.log.media().place()
    }

    /// The reason why an entry could not be read.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

impl Disk for FrozenDisk {
    fn append(&mut self, _: Entry<'_>) {
        unreachable!("what is only read proposes nothing");
    }

    fn room(&self) -> usize {
        0
    }

    fn cut(&mut self, end: Slot) {
        self.log.cut(end);
    }

    fn begin_at(&mut self, slot: Slot) {
        self.log.begin_at(slot);
    }

    fn put_meta(&mut self, meta: &[u8]) {
        self.log.put_meta(meta);
    }

    fn meta(&self) -> &[u8] {
        self.log.meta()
    }

    fn sync(&mut self) -> Flush {
        Flush(self.log.sync().0)
    }

    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead> {
        match self.log.read(slot, into) {
            Ok(head) => head.map(head_of),
            Err(error) => {
                into.clear();
                self.failure.get_or_insert(error.to_string());
                None
            }
        }
    }

    fn head(&self, slot: Slot) -> Option<EntryHead> {
        self.log.head(slot).map(head_of)
    }

    fn start(&self) -> Slot {
        self.log.start()
    }

    fn end(&self) -> Slot {
        self.log.end()
    }

    fn free_below(&mut self, slot: Slot) {
        self.log.free_below(slot);
    }
}
