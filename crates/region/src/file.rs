//! A region as a named file: made once, attached again, opened by peers, removed.

use crate::header::{Header, PID_BYTE};
use crate::layout::{BEACON_BYTE, HEADER_BYTES, LINE_WORDS, Shape};
use crate::memory::Memory;
use crate::{Error, Identity, Words, boot, robust};
use base::{Incarnation, NodeId};
use rustix::fs::{AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A mapped region, the node's own or a peer's. It is cheap to clone and keeps the mapping alive,
/// even when the file's name is gone.
#[derive(Clone, Debug)]
pub struct Region {
    header: Header,
    shape: Shape,
    /// Device and inode; `None` on the heap.
    file: Option<(u64, u64)>,
    memory: Arc<Memory>,
}

/// The ownership of a region, which at most one process has (I4). Dropping it gives up the
/// ownership and leaves the region in place, for the next life.
#[derive(Debug)]
pub struct Owner {
    region: Region,
    life: u64,
    /// The file that holds the lock; `None` for a region on the heap.
    file: Option<(File, PathBuf)>,
}

/// The name of a node's region in its cluster's directory.
fn path_of(directory: &Path, node: NodeId) -> PathBuf {
    directory.join(format!("node-{node}.region"))
}

impl Region {
    /// Makes the region of a node that never had one: only for an explicit bootstrap or
    /// replacement, since a node without its region cannot distinguish a first start from amnesia.
    ///
    /// Makes the directory too if it does not exist. A failure leaves nothing behind (I3).
    ///
    /// # Errors
    /// [`Error`]; among others if the region exists already.
    pub fn create(
        directory: &Path,
        identity: &Identity,
        incarnation: Incarnation,
    ) -> Result<Owner, Error> {
        let path = path_of(directory, identity.node);
        assert!(identity.shape.is_valid(), "{:?}", identity.shape);
        let directory_is_new = make_directory(directory)?;
        create_file(directory, &path, identity, incarnation).inspect_err(|_| {
            if directory_is_new {
                // This removes the directory only if it is still empty: another node may use it
                // meanwhile.
                let _ = std::fs::remove_dir(directory);
            }
        })
    }

    /// Becomes the owner of the region that an earlier process of this node left.
    ///
    /// # Errors
    /// [`Error`]; the region is unchanged.
    pub fn attach(directory: &Path, identity: &Identity) -> Result<Owner, Error> {
        let path = path_of(directory, identity.node);
        let file = open(&path)?;
        lock(&file, &path)?;
        // The name may have passed to another file between the open and the lock.
        if !is_file_at(&file, &path)? {
            return Err(Error::Missing { path });
        }
        let region = Region::map(&file, &path, identity)?;
        if region.is_retired() {
            return Err(Error::Missing { path });
        }
        let life = region.header.begin_life();
        Ok(Owner { region, life, file: Some((file, path)) })
    }

    /// Maps another node's region.
    ///
    /// # Errors
    /// [`Error`]; among others if it does not exist (yet).
    pub fn open_peer(directory: &Path, identity: &Identity) -> Result<Region, Error> {
        let path = path_of(directory, identity.node);
        let region = Region::map(&open(&path)?, &path, identity)?;
        if region.is_retired() { Err(Error::Missing { path }) } else { Ok(region) }
    }

    /// Whether `node` has a region in `directory`.
    pub fn is_there(directory: &Path, node: NodeId) -> bool {
        path_of(directory, node).exists()
    }

    /// Removes the name of `node`'s region, if it has one: its successor makes another region. A
    /// peer that maps the old one keeps it until it looks.
    ///
    /// # Errors
    /// [`Error`]; among others while a process owns it.
    pub fn discard(directory: &Path, node: NodeId) -> Result<(), Error> {
        let path = path_of(directory, node);
        let file = match open(&path) {
            Err(Error::Missing { .. }) => return Ok(()),
            opened => opened?,
        };
        lock(&file, &path)?;
        // The name may have passed to another file between the open and the lock.
        if !is_file_at(&file, &path)? {
            return Ok(());
        }
        std::fs::remove_file(&path).map_err(|source| Error::os("remove", &path, source))
    }

    /// Whether a node whose promises are elsewhere (on a disk) makes new memory, since that of the
    /// life before is gone, or of an earlier boot, or of another version. What is left of it is
    /// removed.
    ///
    /// # Errors
    /// [`Error`]: it cannot be removed; among others, a process still owns it.
    pub fn begins_anew(directory: &Path, identity: &Identity) -> Result<bool, Error> {
        match Region::open_peer(directory, identity) {
            Err(Error::Missing { .. } | Error::StaleBoot { .. } | Error::Version { .. }) => {
                Region::discard(directory, identity.node)?;
                Ok(true)
            }
            // What else is wrong with it, `attach` says.
            Ok(_) | Err(_) => Ok(false),
        }
    }

    /// The incarnation that made the region of `identity`'s node, if there is a region.
    pub fn incarnation_in(directory: &Path, identity: &Identity) -> Option<Incarnation> {
        let identity = Identity { incarnation: None, ..*identity };
        Region::open_peer(directory, &identity).ok().map(|region| region.incarnation())
    }

    /// A region of this process only, for tests and for code that needs no peers.
    pub fn heap(identity: &Identity, incarnation: Incarnation) -> Owner {
        let region = Region::of(Memory::heap(identity.shape.total_bytes()), identity.shape, None);
        region.header.init(identity, incarnation, 0);
        robust::init(&region);
        let life = region.header.begin_life();
        Owner { region, life, file: None }
    }

    fn of(memory: Memory, shape: Shape, file: Option<(u64, u64)>) -> Region {
        let memory = Arc::new(memory);
        Region { header: Header::of(&memory), shape, file, memory }
    }

    fn map(file: &File, path: &Path, identity: &Identity) -> Result<Region, Error> {
        let metadata = metadata(file, path)?;
        let bytes = metadata.len();
        if bytes < HEADER_BYTES as u64 {
            return Err(Error::NotARegion { path: path.to_owned() });
        }
        let memory = Memory::map(file, bytes as usize, path)?;
        // The views below have `identity.shape`, and `validate` compares the file with it (I6).
        let region = Region::of(memory, identity.shape, Some((metadata.dev(), metadata.ino())));
        region.header.validate(path, bytes, identity, boot::fingerprint()?)?;
        Ok(region)
    }

    /// The protocol's words: `At(0)` is the first.
    pub fn words(&self) -> Words {
        Words::new(&self.memory, self.shape.protocol_byte(), self.shape.n_words)
    }

    /// The beacon line ([`crate::layout::beacon`]).
    pub fn beacon(&self) -> Words {
        Words::new(&self.memory, BEACON_BYTE, LINE_WORDS)
    }

    /// The message ring of `sender` ([`crate::layout::ring`]).
    ///
    /// # Panics
    /// If there is no such member, or the region has no rings.
    pub fn ring(&self, sender: usize) -> Words {
        assert!(sender < self.shape.n_seats && self.shape.ring_words > 0, "no ring of {sender}");
        let n_words = crate::layout::ring::FRAMES + self.shape.ring_words;
        Words::new(&self.memory, self.shape.ring_byte(sender), n_words)
    }

    /// The region's sizes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The incarnation of the node's memory.
    pub fn incarnation(&self) -> Incarnation {
        self.header.incarnation()
    }

    /// The process that owned it last.
    pub fn owner_pid(&self) -> u64 {
        self.header.pid()
    }

    /// The life of its last owner (I5).
    pub fn life(&self) -> u64 {
        self.header.life()
    }

    /// Whether its owner has removed it: words written here now are lost.
    pub fn is_retired(&self) -> bool {
        self.header.is_retired()
    }

    /// Whether the mapped file still has this name, rather than another file.
    pub fn is_named(&self, directory: &Path, identity: &Identity) -> bool {
        std::fs::symlink_metadata(path_of(directory, identity.node))
            .is_ok_and(|there| self.file == Some((there.dev(), there.ino())))
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

impl Owner {
    /// The region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The number of this life of the node (I5); never 0.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Removes the region for good: the clean stop of a node whose memory is no longer needed.
    /// Peers that still map it can detect this ([`Region::is_retired`]). An empty directory is
    /// removed too.
    ///
    /// # Errors
    /// [`Error::Os`] if the name could not be removed.
    pub fn remove(self) -> Result<(), Error> {
        // The mark comes first, then the name: a peer that finds the name gone finds the mark too.
        self.region.header.retire();
        let Some((_file, path)) = &self.file else { return Ok(()) };
        std::fs::remove_file(path).map_err(|source| Error::os("remove", path, source))?;
        if let Some(directory) = path.parent() {
            // This fails as long as the directory contains anything else, as it should.
            let _ = std::fs::remove_dir(directory);
        }
        Ok(())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some((file, _)) = &self.file {
            // The unlock is explicit, since a view that still maps the file would keep the lock
            // alive with it.
            let _ = rustix::fs::flock(file, FlockOperation::Unlock);
        }
    }
}

impl Deref for Owner {
    type Target = Region;

    fn deref(&self) -> &Region {
        &self.region
    }
}

fn make_directory(directory: &Path) -> Result<bool, Error> {
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(Error::os("make the directory", directory, source)),
    }
}

fn create_file(
    directory: &Path,
    path: &Path,
    identity: &Identity,
    incarnation: Incarnation,
) -> Result<Owner, Error> {
    refuse_existing(path)?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|source| Error::os("make an unnamed file in", directory, source))?;
    let file = File::from(file);
    let bytes = identity.shape.total_bytes() as u64;
    // ftruncate alone succeeds on a full tmpfs, and the first touch is then a SIGBUS.
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => {}
        Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::NOMEM) => {
            return Err(Error::Full { path: path.to_owned(), bytes });
        }
        Err(source) => return Err(Error::os("allocate", path, source)),
    }
    lock(&file, path)?;
    let memory = Memory::map(&file, bytes as usize, path)?;
    let metadata = metadata(&file, path)?;
    let region = Region::of(memory, identity.shape, Some((metadata.dev(), metadata.ino())));
    region.header.init(identity, incarnation, boot::fingerprint()?);
    robust::init(&region);
    let life = region.header.begin_life();
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    match rustix::fs::linkat(CWD, unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW) {
        Ok(()) => Ok(Owner { region, life, file: Some((file, path.to_owned())) }),
        Err(Errno::EXIST) => {
            refuse_existing(path)?;
            Err(Error::Exists { path: path.to_owned() })
        }
        Err(source) => Err(Error::os("name the region", path, source)),
    }
}

/// Refuses an existing region with the error that names its owner, so that the remedy fits.
fn refuse_existing(path: &Path) -> Result<(), Error> {
    match open(path) {
        Err(Error::Missing { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(file) => {
            lock(&file, path)?;
            Err(Error::Exists { path: path.to_owned() })
        }
    }
}

fn open(path: &Path) -> Result<File, Error> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => Ok(File::from(file)),
        Err(Errno::NOENT) => Err(Error::Missing { path: path.to_owned() }),
        Err(source) => Err(Error::os("open", path, source)),
    }
}

/// Takes the lock of I4. `flock` locks the open file description: it excludes every other process
/// and every other open of this one, and ends with the process at the latest.
fn lock(file: &File, path: &Path) -> Result<(), Error> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => {
            let mut pid = [0; 8];
            // The id is only for the text: a file too short to have a process id shows 0.
            let _ = file.read_exact_at(&mut pid, PID_BYTE);
            Err(Error::Locked { path: path.to_owned(), pid: u64::from_ne_bytes(pid) })
        }
        Err(source) => Err(Error::os("lock", path, source)),
    }
}

fn metadata(file: &File, path: &Path) -> Result<std::fs::Metadata, Error> {
    file.metadata().map_err(|source| Error::os("look at", path, source))
}

fn is_file_at(file: &File, path: &Path) -> Result<bool, Error> {
    let here = metadata(file, path)?;
    match std::fs::symlink_metadata(path) {
        Ok(there) => Ok((here.dev(), here.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::os("look at", path, source)),
    }
}

/// Removes every region in `directory` without a live owner, with the doorbell (`node-<id>.bell`)
/// beside it, and returns their paths: the remains of a cluster that was killed as a whole and that
/// its operator does not want back.
///
/// # Errors
/// [`Error::Os`]; regions removed before the error stay removed.
pub fn sweep(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let listing = match std::fs::read_dir(directory) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::os("list", directory, source)),
    };
    let mut swept = Vec::new();
    for entry in listing {
        let path = entry.map_err(|source| Error::os("list", directory, source))?.path();
        if path.extension().is_none_or(|extension| extension != "region") {
            continue;
        }
        let file = match open(&path) {
            Err(Error::Missing { .. }) => continue,
            opened => opened?,
        };
        match lock(&file, &path) {
            Err(Error::Locked { .. }) => continue,
            locked => locked?,
        }
        if is_file_at(&file, &path)? {
            std::fs::remove_file(&path).map_err(|source| Error::os("remove", &path, source))?;
            // Some providers have no doorbell.
            let _ = std::fs::remove_file(path.with_extension("bell"));
            swept.push(path);
        }
    }
    Ok(swept)
}
