//! The owner of a data directory, and the lock of the process that uses it.
//!
//! ```text
//! identity (48 bytes)
//!  0  [8]  "GREGDIR" 0      8  u32  format version (1)     12  u32  node
//! 16  u64  cluster         24  u64  incarnation            32  u64  log
//! 40  u32  0               44  u32  CRC32C of bytes 0..44
//!
//! lock  (empty; the lock is on the open file, not in it)
//! ```
//!
//! - I1 **One user.** A [`Directory`] holds an exclusive lock of the open file description, which
//!   the kernel drops with the process.
//! - I2 **One identity for life.** A directory belongs to one incarnation of one node of one
//!   cluster and refuses any other. Only [`Directory::create`] makes one: a directory that lost its
//!   identity or its log is not taken for a new one, since its member would have forgotten its
//!   promises.
//! - I3 **Ours or empty.** A directory that holds files of other programs is refused.

use crate::log::{self, OpenError, Options};
use crate::media::{Media, Os};
use base::{Incarnation, NodeId};
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The version of the identity file.
pub const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"GREGDIR\0";
const NAME: &str = "identity";
const UNFINISHED: &str = "identity.part";
const LOCK: &str = "lock";
const LEN: usize = 48;

/// The owner of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The fingerprint of the cluster.
    pub cluster: u64,
    /// The node.
    pub node: NodeId,
    /// The incarnation of that node.
    pub incarnation: Incarnation,
}

/// The reason why a directory cannot be opened; nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Another process uses it.
    #[error("{0} is in use by another process: stop that one first, or name another directory")]
    InUse(PathBuf),
    /// It belongs to another owner.
    #[error(
        "{path} belongs to node {} incarnation {} of cluster {:016x}, not to node {} incarnation \
         {} of cluster {:016x}: name that one's own directory",
        found.node.0, found.incarnation.0, found.cluster,
        wanted.node.0, wanted.incarnation.0, wanted.cluster
    )]
    Another {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        found: Box<Identity>,
        /// The owner that the caller expected.
        wanted: Box<Identity>,
    },
    /// It has no identity.
    #[error(
        "{0} holds no member of a cluster: begin one there, or, if one was lost, replace the member"
    )]
    NoIdentity(PathBuf),
    /// It was begun already.
    #[error("{0} holds a member already: open it, or name an empty directory")]
    Taken(PathBuf),
    /// It has an identity and no log.
    #[error(
        "{0} has lost its log (no file log-*), and with it what this member promised: replace the \
         member (an older copy of its directory knows less of that than it must)"
    )]
    NoLog(PathBuf),
    /// It has a log and no identity.
    #[error(
        "{0} holds a log and no file `identity`, so that its owner is unknown: replace the \
         member, or name an empty directory"
    )]
    NoOwner(PathBuf),
    /// The first segment of its log cannot be made.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// It contains other files.
    #[error("{path} is not empty (it holds {name:?}): name an empty directory")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// One of the files.
        name: String,
    },
    /// The identity is damaged.
    #[error("{path}/identity is damaged: {why}. Replace this member")]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// The damage.
        why: String,
    },
    /// The disk failed.
    #[error("{path}: {error}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// The disk's error.
        error: io::Error,
    },
}

/// A data directory that this process uses.
#[derive(Debug)]
pub struct Directory {
    media: Os,
    identity: Identity,
    log: u64,
    /// The lock, held as long as this file is open (I1).
    _lock: File,
}

impl Directory {
    /// Begins a directory: makes it if necessary, and writes the identity durably. A disk that is
    /// too full for the first segment of the log is detected here.
    pub fn create(path: &Path, identity: &Identity) -> Result<Directory, DirectoryError> {
        let failed = |error| DirectoryError::Io { path: path.to_owned(), error };
        let parents = parents_of_missing(path).map_err(failed)?;
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(path).map_err(failed)?;
        // A directory's own name is durable only through its parent. (A link names another one.)
        let own = path.canonicalize().map_err(failed)?;
        for parent in parents.iter().map(PathBuf::as_path).chain(own.parent()) {
            File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)?;
        }
        let media = Os::new(path).map_err(failed)?;
        for name in media.list().map_err(failed)? {
            match name.as_str() {
                NAME => return Err(DirectoryError::Taken(path.to_owned())),
                // An earlier attempt may have ended before the identity had its name.
                UNFINISHED | LOCK | "lost+found" => {}
                // `log::begin` checks it: it may hold records.
                segment if segment.starts_with("log-") || segment == "log.next" => {}
                snapshot if snapshot.starts_with("snapshot-") => {
                    return Err(DirectoryError::NoOwner(path.to_owned()));
                }
                // I3.
                _ => return Err(DirectoryError::NotEmpty { path: path.to_owned(), name }),
            }
        }
        let lock = lock(path)?;
        // The log has a name of its own, so that a file of another life is never taken for one of
        // this log.
        let log = std::hash::RandomState::new().build_hasher().finish();
        // I2: the log comes before the identity, so that an identity without a log means a lost
        // log.
        if log::begin(&media, &Options::default(), log)? {
            return Err(DirectoryError::NoOwner(path.to_owned()));
        }
        begin(&media, identity, log).map_err(failed)?;
        Ok(Directory { media, identity: *identity, log, _lock: lock })
    }

    /// Opens the directory of `wanted`, and of no other owner.
    pub fn open(path: &Path, wanted: &Identity) -> Result<Directory, DirectoryError> {
        let directory = Directory::open_any(path)?;
        if directory.identity != *wanted {
            // I2.
            let (found, wanted) = (Box::new(directory.identity), Box::new(*wanted));
            return Err(DirectoryError::Another { path: path.to_owned(), found, wanted });
        }
        Ok(directory)
    }

    /// Opens a directory, whatever its owner, which [`Directory::identity`] returns.
    pub fn open_any(path: &Path) -> Result<Directory, DirectoryError> {
        let (media, identity, log) = peek(path, Os::new)?;
        let has_log = log::exists(&media);
        if !has_log.map_err(|error| DirectoryError::Io { path: path.to_owned(), error })? {
            return Err(DirectoryError::NoLog(path.to_owned()));
        }
        Ok(Directory { media, identity, log, _lock: lock(path)? })
    }

    /// The owner.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The name of its log.
    pub fn log(&self) -> u64 {
        self.log
    }

    /// Its files.
    pub fn media(&self) -> &Os {
        &self.media
    }
}

/// The parents of the directories on the way to `path` that are not there, the innermost first.
fn parents_of_missing(path: &Path) -> io::Result<Vec<PathBuf>> {
    let path = std::path::absolute(path)?;
    let mut parents = Vec::new();
    for directory in path.ancestors() {
        if directory.try_exists()? {
            break;
        }
        parents.extend(directory.parent().map(Path::to_owned));
    }
    Ok(parents)
}

/// Writes the identity, atomically.
fn begin<M: Media>(media: &M, identity: &Identity, log: u64) -> io::Result<()> {
    // An attempt that was cut off may have left the file; otherwise it is absent.
    let _ = media.remove(UNFINISHED);
    let bytes = encode(identity, log);
    let file = media.create(UNFINISHED, LEN as u64)?;
    media.write_at(&file, 0, &bytes)?;
    media.sync(&file)?;
    media.rename(UNFINISHED, NAME)?;
    media.sync_dir()
}

/// Whether a member has begun the directory. An error means that this is not known.
pub fn is_begun(path: &Path) -> io::Result<bool> {
    match path.join(NAME).try_exists() {
        // It is a file, or below one.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        found => found,
    }
}

/// Whether a member's files are there, whatever the member: then a directory without an identity
/// has lost it.
pub fn holds_member_files(path: &Path) -> io::Result<bool> {
    let is_ours = |name: &String| name.starts_with("log-") || name.starts_with("snapshot-");
    match Os::reading(path).and_then(|media| media.list()) {
        Ok(names) => Ok(names.iter().any(is_ours)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads the identity of a directory without opening it.
pub(crate) fn peek(
    path: &Path,
    media: impl FnOnce(&Path) -> io::Result<Os>,
) -> Result<(Os, Identity, u64), DirectoryError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => DirectoryError::NoIdentity(path.to_owned()),
        _ => DirectoryError::Io { path: path.to_owned(), error },
    };
    let media = media(path).map_err(failed)?;
    let bytes = std::fs::read(path.join(NAME)).map_err(failed)?;
    let (identity, log) =
        decode(&bytes).map_err(|why| DirectoryError::Damaged { path: path.to_owned(), why })?;
    Ok((media, identity, log))
}

fn lock(path: &Path) -> Result<File, DirectoryError> {
    let failed = |error| DirectoryError::Io { path: path.to_owned(), error };
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false).open(path.join(LOCK));
    let file = file.or_else(|error| match error.kind() {
        // A process elsewhere may use what cannot be written here; its lock is seen.
        io::ErrorKind::ReadOnlyFilesystem => File::open(path.join(LOCK)),
        _ => Err(error),
    });
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        // I1.
        Err(std::fs::TryLockError::WouldBlock) => Err(DirectoryError::InUse(path.to_owned())),
        Err(std::fs::TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// The identity file.
pub(crate) fn encode(identity: &Identity, log: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LEN);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&u32::from(identity.node.0).to_le_bytes());
    bytes.extend_from_slice(&identity.cluster.to_le_bytes());
    bytes.extend_from_slice(&identity.incarnation.0.to_le_bytes());
    bytes.extend_from_slice(&log.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Result<(Identity, u64), String> {
    let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    if bytes.len() != LEN {
        return Err(format!("it has {} bytes instead of {LEN}", bytes.len()));
    }
    if !bytes.starts_with(MAGIC) || crc32c::crc32c(&bytes[..LEN - 4]) != u32_at(LEN - 4) {
        return Err("its checksum does not match".to_owned());
    }
    if u32_at(8) != VERSION {
        return Err(format!("its format version is {}, this program knows {VERSION}", u32_at(8)));
    }
    let node = u16::try_from(u32_at(12)).map_err(|_| format!("there is no node {}", u32_at(12)))?;
    let incarnation = Incarnation(u64_at(24));
    Ok((Identity { cluster: u64_at(16), node: NodeId(node), incarnation }, u64_at(32)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::Simulated;
    use base::Rng;

    const ME: Identity = Identity { cluster: 7, node: NodeId(2), incarnation: Incarnation(3) };

    /// A disk that cannot be looked into was taken for none.
    #[test]
    fn a_directory_that_cannot_be_looked_into_is_not_called_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("member-1");
        assert!(!is_begun(&path).unwrap());
        drop(Directory::create(&path, &ME).unwrap());
        assert!(is_begun(&path).unwrap());
        std::fs::write(dir.path().join("file"), b"").unwrap();
        assert!(!is_begun(&dir.path().join("file")).unwrap());
        let ring = dir.path().join("ring");
        std::os::unix::fs::symlink("ring", &ring).unwrap();
        assert!(is_begun(&ring).is_err());
    }

    #[test]
    fn i1_a_second_owner_is_refused_until_the_first_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let first = Directory::create(dir.path(), &ME).unwrap();
        let second = Directory::open(dir.path(), &ME);
        assert!(matches!(second, Err(DirectoryError::InUse(_))), "{second:?}");
        let log = first.log();
        drop(first);
        assert_eq!(Directory::open(dir.path(), &ME).unwrap().log(), log);
    }

    #[test]
    fn every_directory_that_is_made_on_the_way_is_synced_through_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("srv/gregale/member-1");
        let expected = ["srv/gregale", "srv", ""].map(|parent| dir.path().join(parent));
        assert_eq!(parents_of_missing(&path).unwrap(), expected);
        drop(Directory::create(&path, &ME).unwrap());
        assert!(parents_of_missing(&path).unwrap().is_empty(), "all are there");
        drop(Directory::open(&path, &ME).unwrap());
    }

    #[test]
    fn i2_another_node_incarnation_or_cluster_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(Directory::create(dir.path(), &ME).unwrap());
        for other in [
            Identity { cluster: 8, ..ME },
            Identity { node: NodeId(1), ..ME },
            Identity { incarnation: Incarnation(4), ..ME },
        ] {
            let refused = Directory::open(dir.path(), &other).unwrap_err().to_string();
            assert!(refused.contains("belongs to node 2 incarnation 3"), "{refused}");
        }
        let again = Directory::create(dir.path(), &ME);
        assert!(matches!(again, Err(DirectoryError::Taken(_))), "{again:?}");
    }

    #[test]
    fn i2_no_identity_and_a_damaged_one_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let none = Directory::open(dir.path(), &ME);
        assert!(matches!(none, Err(DirectoryError::NoIdentity(_))), "{none:?}");
        drop(Directory::create(dir.path(), &ME).unwrap());
        let mut bytes = std::fs::read(dir.path().join(NAME)).unwrap();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        bytes.pop();
        std::fs::write(dir.path().join(NAME), &bytes).unwrap();
        let damaged = Directory::open(dir.path(), &ME);
        assert!(matches!(damaged, Err(DirectoryError::Damaged { .. })), "{damaged:?}");
    }

    #[test]
    fn nobody_is_told_to_put_a_copy_back() {
        let path = PathBuf::from("/d");
        let why = "x".to_owned();
        let errors = [DirectoryError::NoLog(path.clone()), DirectoryError::Damaged { path, why }];
        for text in errors.map(|error| error.to_string()) {
            assert!(text.contains("eplace") && !text.contains("restore"), "{text}");
        }
    }

    #[test]
    fn i2_a_directory_that_lost_its_log_is_not_taken_for_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        drop(Directory::create(dir.path(), &ME).unwrap());
        std::fs::remove_file(dir.path().join("log-00000000")).unwrap();
        let lost = Directory::open(dir.path(), &ME);
        assert!(matches!(lost, Err(DirectoryError::NoLog(_))), "{lost:?}");
    }

    #[test]
    fn i3_an_attempt_that_was_cut_off_is_repeated_and_a_log_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        drop(Directory::create(dir.path(), &ME).unwrap());
        std::fs::remove_file(dir.path().join(NAME)).unwrap();
        drop(Directory::create(dir.path(), &ME).unwrap());
        let segment = dir.path().join("log-00000000");
        let mut bytes = std::fs::read(&segment).unwrap();
        bytes[5000] = 1;
        std::fs::write(&segment, &bytes).unwrap();
        std::fs::remove_file(dir.path().join(NAME)).unwrap();
        let refused = Directory::create(dir.path(), &ME);
        assert!(matches!(refused, Err(DirectoryError::NoOwner(_))), "{refused:?}");
        assert!(std::fs::read(&segment).unwrap() == bytes);
    }

    #[test]
    fn i3_a_directory_with_other_files_is_not_begun() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis.tex"), "").unwrap();
        let refused = Directory::create(dir.path(), &ME).unwrap_err();
        assert!(matches!(refused, DirectoryError::NotEmpty { .. }), "{refused}");
    }

    #[test]
    fn after_a_power_cut_an_identity_is_whole_or_absent() {
        for seed in 0..200 {
            let (disk, mut rng) = (Simulated::new(), Rng::new(seed));
            disk.set_faults(|faults| faults.cut_after = Some(rng.below(6)));
            let begun = begin(&disk, &ME, 5);
            disk.power_cut(&mut rng);
            match disk.contents(NAME) {
                Some(bytes) => assert_eq!(decode(&bytes).unwrap(), (ME, 5)),
                None => assert!(begun.is_err(), "seed {seed}"),
            }
        }
    }
}
