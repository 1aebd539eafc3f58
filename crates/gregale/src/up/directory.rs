//! The cluster's directory on tmpfs: regions, configurations, the secret.
//!
//! - I1 the directory is removed when this value is dropped. The directory of a killed supervisor
//!   is recognised by its lock, which no process holds, and is swept. The lock has its name only
//!   once it is held, so that no directory is swept that was just made; and what another user has
//!   put there is left alone. Without a lock's name, what is there belongs to no supervisor.
//! - I2 the memory of a member whose process has ended is removed, although a child that the
//!   process was starting may still hold it for a moment ([`Directory::discard`]).
//! - I3 a directory that was removed under its supervisor is made again for members with disks,
//!   which need nothing that was in it ([`Directory::restore`]). What was made in part is completed
//!   by the next attempt.
//! - I4 supervisors that start together do not refuse each other: one waits while another sweeps
//!   its directory, and a directory that is removed keeps its lock's name until it is empty.

use crate::config::Config;
use crate::random::random_hex;
use base::NodeId;
use console::{Failure, Outcome};
use region::Region;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const LOCK: &str = "supervisor.lock";
/// The name of the lock until it is held.
const UNLOCKED: &str = "supervisor.new";
const PREFIX: &str = "gregale-";
/// The longest time for which a dead process's memory (I2), or directory (I4), is waited for.
const OWNED_WITHIN: Duration = Duration::from_secs(2);
/// The pause between two attempts.
const OWNED_EVERY: Duration = Duration::from_millis(1);

/// The cluster's directory; see the module's text.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    lock: Mutex<File>,
    /// Whether a supervisor of the same name and port was killed, and had left its directory.
    was_left: bool,
}

impl Directory {
    /// Makes the directory below `base`, which is a tmpfs, after sweeping abandoned ones.
    pub(super) fn create(base: &Path, cluster: &str, port: u16) -> Outcome<Directory> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if cluster.is_empty() || cluster.len() > 64 || !cluster.chars().all(plain) {
            return Err(Failure::new(format_args!(
                "--cluster {cluster:?} is no plain word: use up to 64 letters, digits, - _ ."
            )));
        }
        let path = base.join(format!("{PREFIX}{cluster}-{port}"));
        let mut was_left = false;
        let end = Instant::now() + OWNED_WITHIN;
        let mut found = loop {
            let was_there = path.exists();
            sweep(base);
            was_left |= was_there && !path.exists();
            if path.exists() && !path.join(LOCK).exists() {
                clear(&path)?;
            }
            // Most likely another supervisor is removing an abandoned one of this name (I4).
            let may_wait = Instant::now() < end;
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => match Directory::found(path.clone()) {
                    Err(_) if may_wait && !path.exists() => {}
                    found => {
                        break found.inspect_err(|_| {
                            let _ = remove(&path);
                        })?;
                    }
                },
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(Failure::os(format_args!("make {}", path.display()), error));
                }
                Err(_) if may_wait => std::thread::sleep(OWNED_EVERY),
                Err(_) => {
                    return Err(Failure::new(format_args!(
                        "{} is there and in use: another cluster of this name and port runs; \
                         stop it or choose another --cluster",
                        path.display()
                    )));
                }
            }
        };
        found.was_left = was_left;
        Ok(found)
    }

    /// Removes the memory of member `id`, whose process has ended. A child that it was starting
    /// when it was killed has copies of its descriptors until it runs another program, and with
    /// them the lock of its memory.
    pub(super) fn discard(&self, id: u16) -> Outcome<()> {
        let end = Instant::now() + OWNED_WITHIN;
        loop {
            match Region::discard(&self.path, NodeId(id)) {
                Err(region::Error::Locked { .. }) if Instant::now() < end => {
                    std::thread::sleep(OWNED_EVERY);
                }
                discarded => return discarded.map_err(Failure::new),
            }
        }
    }

    fn found(path: PathBuf) -> Outcome<Directory> {
        let lock = Mutex::new(take_lock(&path)?);
        let directory = Directory { path, lock, was_left: false };
        write_private(&directory.secret_file(), random_secret()?.as_bytes())?;
        Ok(directory)
    }

    /// Makes the directory again if it was removed (I3). Returns whether it was.
    pub(super) fn restore(&self) -> Outcome<bool> {
        if self.path.join(LOCK).exists() {
            return Ok(false);
        }
        let user = rustix::process::geteuid().as_raw();
        let is_own = || {
            let found = std::fs::symlink_metadata(&self.path);
            found.is_ok_and(|found| found.is_dir() && found.uid() == user)
        };
        match DirBuilder::new().mode(0o700).create(&self.path) {
            // Another user may read what is written into theirs.
            Err(error) if !is_own() => {
                return Err(Failure::os(format_args!("make {}", self.path.display()), error));
            }
            _ => {}
        }
        // The secret of members with disks is beside these. The name of the lock comes last: after
        // a failure before it, the next attempt begins again.
        let lock = take_lock(&self.path)?;
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = lock;
        Ok(true)
    }

    /// The path where another supervisor of this cluster was killed and left a directory that is
    /// now swept.
    pub(super) fn swept(&self) -> Option<&Path> {
        self.was_left.then_some(&self.path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn secret_file(&self) -> PathBuf {
        self.path.join("secret")
    }

    /// Writes a member's configuration, and returns its path.
    pub(super) fn write_config(&self, config: &Config) -> Outcome<PathBuf> {
        let path = self.path.join(format!("member-{}.toml", config.member));
        let text = toml::to_string(config)
            .map_err(|error| Failure::new(format_args!("cannot write a configuration: {error}")))?;
        write_private(&path, text.as_bytes())?;
        Ok(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let removed = remove(&self.path);
        if let Err(error) = removed
            && error.kind() != ErrorKind::NotFound
        {
            runtime::complain(format_args!(
                "cannot remove {}: {error}; remove it by hand",
                self.path.display()
            ));
        }
    }
}

/// A new secret.
pub(crate) fn random_secret() -> Outcome<String> {
    random_hex::<32>()
}

pub(super) fn write_private(path: &Path, bytes: &[u8]) -> Outcome<File> {
    write(OpenOptions::new().create(true).truncate(true), path, bytes)
}

/// Writes a file that only its owner may read, where no file of that name exists yet.
pub(super) fn create_private(path: &Path, bytes: &[u8]) -> Outcome<File> {
    write(OpenOptions::new().create_new(true), path, bytes)
}

fn write(options: &mut OpenOptions, path: &Path, bytes: &[u8]) -> Outcome<File> {
    let mut write = || {
        let mut file = options.write(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        Ok(file)
    };
    write().map_err(|error: std::io::Error| {
        Failure::os(format_args!("write {}", path.display()), error)
    })
}

fn take_lock(path: &Path) -> Outcome<File> {
    let failed = |error| Failure::os(format_args!("lock {}", path.display()), error);
    let fresh = path.join(UNLOCKED);
    let lock = write_private(&fresh, b"")?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|errno| failed(errno.into()))?;
    std::fs::rename(fresh, path.join(LOCK)).map_err(failed)?;
    Ok(lock)
}

/// Removes the directory of a supervisor that was killed before it had its lock: no other one of
/// this port runs, since the port is ours. Anything else in it is another program's.
fn clear(path: &Path) -> Outcome<()> {
    let _ = std::fs::remove_file(path.join(UNLOCKED));
    match std::fs::remove_dir(path) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
            Err(Failure::new(format_args!(
                "{} is there, and no `gregale up` has made it (it holds no {LOCK}): another program \
                 may use it; choose another --cluster, or remove it",
                path.display()
            )))
        }
        // It is gone, or making it again tells why not.
        _ => Ok(()),
    }
}

/// Removes a supervisor's directory, and its lock last: until then it is known as such (I4).
fn remove(path: &Path) -> std::io::Result<()> {
    let is_gone = |error: &std::io::Error| error.kind() == ErrorKind::NotFound;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        let removed = if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())
        } else {
            std::fs::remove_file(entry.path())
        };
        removed.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })?;
    }
    let removed = std::fs::remove_file(path.join(LOCK));
    removed.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })?;
    std::fs::remove_dir(path)
}

/// Removes the directories of killed supervisors. Directories that cannot be removed, or belong to
/// another user, are left alone.
fn sweep(base: &Path) {
    let Ok(entries) = std::fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Held until it is removed: another sweeper finds no lock there then.
        if let Some(_lock) = abandoned(&path) {
            let _ = remove(&path);
        }
    }
}

/// The lock of a directory that a supervisor of this user has left, if `path` is one: only a
/// directory of `up` has this file, and only a live supervisor holds its lock.
fn abandoned(path: &Path) -> Option<File> {
    let place = path.join(LOCK);
    // A pipe without a writer would be waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = File::from(rustix::fs::open(&place, flags, Mode::empty()).ok()?);
    let found = lock.metadata().ok()?;
    let owner = std::fs::symlink_metadata(path).ok()?;
    let user = rustix::process::geteuid().as_raw();
    if !found.is_file() || !owner.is_dir() || [found.uid(), owner.uid()] != [user; 2] {
        return None;
    }
    flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    // The directory may have been swept, and made again, between the two.
    let named = std::fs::symlink_metadata(&place).ok()?;
    ((named.dev(), named.ino()) == (found.dev(), found.ino())).then_some(lock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Incarnation;
    use region::{Identity, Shape};
    use rustix::fs::FileType;

    #[test]
    fn i1_nothing_is_left_when_it_goes() {
        let base = tempfile::tempdir().unwrap();
        let directory = Directory::create(base.path(), "x", 7000).unwrap();
        assert!(directory.secret_file().exists());
        drop(directory);
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn i1_orphans_are_swept_and_the_living_are_not() {
        let base = tempfile::tempdir().unwrap();
        let living = Directory::create(base.path(), "living", 1).unwrap();
        let orphan = base.path().join("gregale-orphan-2");
        std::fs::create_dir(&orphan).unwrap();
        std::fs::write(orphan.join(LOCK), b"").unwrap();
        let foreign = base.path().join("gregale-foreign");
        std::fs::create_dir(&foreign).unwrap();
        let _new = Directory::create(base.path(), "new", 3).unwrap();
        assert!(living.path().exists() && foreign.exists() && !orphan.exists());
    }

    #[test]
    fn i1_a_directory_whose_supervisor_was_killed_before_it_had_a_lock_is_begun_again() {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("gregale-x-7000")).unwrap();
        let directory = Directory::create(base.path(), "x", 7000).unwrap();
        assert!(directory.secret_file().exists());
    }

    /// It was waited for without a word, and for ever: any user could make it.
    #[test]
    fn i1_a_pipe_in_the_place_of_a_lock_is_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let foreign = base.path().join("gregale-evil-1");
        std::fs::create_dir(&foreign).unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, foreign.join(LOCK), FileType::Fifo, mode, 0).unwrap();
        let path = base.path().to_owned();
        let (done, made) = std::sync::mpsc::channel();
        // It ends with the test's process where it waits.
        std::thread::spawn(move || done.send(Directory::create(&path, "x", 7000)));
        let made = made.recv_timeout(Duration::from_secs(30)).expect("it waits").unwrap();
        assert!(made.secret_file().exists() && foreign.exists());
    }

    /// The lock was made and taken in two steps, and another `up` swept the directory between them.
    #[test]
    fn i1_a_directory_that_was_just_made_is_not_swept() {
        let base = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for port in 1..=4 {
                let base = base.path();
                scope.spawn(move || {
                    for _ in 0..200 {
                        let directory = Directory::create(base, "x", port).unwrap();
                        assert!(directory.path().join(LOCK).exists(), "{port}");
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }

    /// The memory of members that `serve` ran there was removed under them.
    #[test]
    fn i1_a_directory_that_no_supervisor_has_made_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let region = base.path().join("gregale-x-7000/node-1.region");
        std::fs::create_dir(region.parent().unwrap()).unwrap();
        std::fs::write(&region, b"").unwrap();
        let refused = Directory::create(base.path(), "x", 7000).unwrap_err().to_string();
        assert!(refused.contains("gregale-x-7000 is there, and no `gregale up`"), "{refused}");
        assert!(region.exists());
        drop(Directory::create(base.path(), "other", 7000).unwrap());
        assert!(region.exists());
    }

    #[test]
    fn a_running_cluster_of_the_same_name_is_not_disturbed() {
        let base = tempfile::tempdir().unwrap();
        let first = Directory::create(base.path(), "x", 7000).unwrap();
        let second = Directory::create(base.path(), "x", 7000).unwrap_err().to_string();
        assert!(second.contains("another cluster"), "{second}");
        assert!(first.secret_file().exists());
    }

    #[test]
    fn i3_a_directory_that_was_removed_is_made_again() {
        let base = tempfile::tempdir().unwrap();
        let directory = Directory::create(base.path(), "x", 7000).unwrap();
        assert!(!directory.restore().unwrap());
        std::fs::remove_dir_all(directory.path()).unwrap();
        assert!(directory.restore().unwrap() && directory.path().join(LOCK).exists());
        drop(Directory::create(base.path(), "other", 7001).unwrap());
        assert!(directory.path().exists(), "it is not swept");
        std::fs::remove_dir_all(directory.path()).unwrap();
        std::fs::write(directory.path(), b"").unwrap();
        assert!(directory.restore().is_err());
        std::fs::remove_file(directory.path()).unwrap();
    }

    /// The members whose memory had lost its name were not restarted: the next attempt took the
    /// directory for whole.
    #[test]
    fn i3_a_directory_that_was_made_in_part_is_completed() {
        let base = tempfile::tempdir().unwrap();
        let directory = Directory::create(base.path(), "x", 7000).unwrap();
        std::fs::remove_dir_all(directory.path()).unwrap();
        // In the way of a secret and of a lock that has no name yet.
        for name in ["secret", UNLOCKED] {
            let obstacle = directory.path().join(name);
            std::fs::create_dir_all(&obstacle).unwrap();
            let attempt = directory.restore();
            std::fs::remove_dir(&obstacle).unwrap();
            match attempt {
                Ok(is_made) => assert!(is_made, "{name}"),
                Err(_) => assert!(directory.restore().unwrap(), "{name}"),
            }
            std::fs::remove_dir_all(directory.path()).unwrap();
        }
    }

    /// One of two that started together after a crash was refused, while the other one swept.
    #[test]
    fn i4_a_directory_that_another_supervisor_sweeps_is_waited_for() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("gregale-x-7000");
        std::fs::create_dir(&path).unwrap();
        let held = take_lock(&path).unwrap();
        std::thread::scope(|scope| {
            let creating = scope.spawn(|| Directory::create(base.path(), "x", 7000));
            // It would have failed by then.
            let until = Instant::now() + Duration::from_millis(50);
            while Instant::now() < until && !creating.is_finished() {
                std::thread::yield_now();
            }
            std::fs::remove_dir_all(&path).unwrap();
            drop(held);
            assert!(creating.join().unwrap().unwrap().secret_file().exists());
        });
    }

    /// It was taken for another program's while its lock was gone and its files were not.
    #[test]
    fn i4_those_that_start_together_after_a_crash_all_start() {
        let base = tempfile::tempdir().unwrap();
        for _ in 0..50 {
            for port in 1..=3 {
                let orphan = base.path().join(format!("gregale-x-{port}"));
                std::fs::create_dir(&orphan).unwrap();
                std::fs::write(orphan.join(LOCK), b"").unwrap();
                for member in 1..=50 {
                    std::fs::write(orphan.join(format!("node-{member}.region")), b"").unwrap();
                }
            }
            let begin = std::sync::Barrier::new(3);
            std::thread::scope(|scope| {
                for port in 1..=3 {
                    let (base, begin) = (base.path(), &begin);
                    scope.spawn(move || {
                        begin.wait();
                        drop(Directory::create(base, "x", port).unwrap());
                    });
                }
            });
            assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
        }
    }

    /// An operator's replacement kept the old memory, and its member did not come for a minute.
    #[test]
    fn i2_the_memory_of_a_dead_process_is_waited_for() {
        let base = tempfile::tempdir_in("/dev/shm").unwrap();
        let directory = Directory::create(base.path(), "x", 7000).unwrap();
        let shape = Shape { n_seats: 3, n_words: 64, ring_words: 16 };
        let identity =
            Identity { cluster: 1, node: NodeId(2), incarnation: None, layout: 1, rules: 0, shape };
        let held = Region::create(directory.path(), &identity, Incarnation::FIRST).unwrap();
        std::thread::scope(|scope| {
            let discarding = scope.spawn(|| directory.discard(2));
            // It would have failed by then.
            let until = Instant::now() + Duration::from_millis(50);
            while Instant::now() < until && !discarding.is_finished() {
                std::thread::yield_now();
            }
            drop(held);
            discarding.join().unwrap().unwrap();
        });
        assert!(!Region::is_there(directory.path(), NodeId(2)));
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        let base = tempfile::tempdir().unwrap();
        assert!(Directory::create(base.path(), "../x", 1).is_err());
    }
}
