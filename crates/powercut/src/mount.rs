//! The image, mounted.
//!
//! - I1 the kernel keeps nothing between a process and the image: every read and write is direct,
//!   every name and attribute is asked for each time. So a cut needs to tell the kernel nothing.
//! - I2 the power is cut only when no file is open: every process that could still write must be
//!   dead first. [`PowerCut::cut`] waits for that, for a bounded time.
//! - I3 after [`PowerCut::fail`] no sync does anything, and none is answered until
//!   [`PowerCut::let_go`], then with an error: a process that is killed between the two gets
//!   neither a successful sync nor an error. (A process that waits for a file system does not die
//!   before it is answered.) By construction: syncs go through `Shared::powered`.

use crate::image::{Image, Lost, Manner, ROOT, Stat};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long the last process may take to close its files (I2).
const CLOSED_WITHIN: Duration = Duration::from_secs(20);
/// I1: nothing is remembered.
const TTL: Duration = Duration::ZERO;

/// Why nothing can be mounted here.
#[derive(Debug)]
pub struct Unavailable(String);

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

#[derive(Debug)]
struct Shared {
    image: Mutex<Image>,
    closed: Condvar,
    power: Mutex<Power>,
    power_changed: Condvar,
    /// How long a sync takes before anything is durable.
    sync_ns: AtomicU64,
}

/// I3
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    /// The power has failed: a process that asks for a sync waits, and nothing is done.
    Failed,
    /// A process that waits gets an error, and may die of the signal that it has got meanwhile.
    Off,
}

impl Shared {
    fn image(&self) -> MutexGuard<'_, Image> {
        // A panic between two changes of it has failed the test already.
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn power(&self) -> MutexGuard<'_, Power> {
        self.power.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_power(&self, power: Power) {
        *self.power() = power;
        self.power_changed.notify_all();
    }

    /// The image, for a sync, if there is power (I3).
    fn powered(&self) -> Result<MutexGuard<'_, Image>, i32> {
        let has_failed = |power: &mut Power| *power == Power::Failed;
        let waited = self.power_changed.wait_timeout_while(self.power(), CLOSED_WITHIN, has_failed);
        let (power, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *power == Power::On { Ok(self.image()) } else { Err(libc::EIO) }
    }

    /// A disk's own time, in which its users may die.
    fn work(&self) {
        std::thread::sleep(Duration::from_nanos(self.sync_ns.load(Ordering::Relaxed)));
    }
}

/// A mounted disk. See the crate's text.
pub struct PowerCut {
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    at: PathBuf,
}

impl std::fmt::Debug for PowerCut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PowerCut").field("at", &self.at).finish_non_exhaustive()
    }
}

impl PowerCut {
    /// Mounts an empty disk at `at`, which is a directory. It is unmounted when dropped.
    ///
    /// # Errors
    /// [`Unavailable`]: no /dev/fuse, or no right to mount.
    pub fn mount(at: &Path) -> Result<PowerCut, Unavailable> {
        let failed = |what: &str, error: io::Error| Unavailable(format!("{what}: {error}"));
        std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .map_err(|error| failed("cannot open /dev/fuse", error))?;
        let shared = Arc::new(Shared {
            image: Mutex::new(Image::new()),
            closed: Condvar::new(),
            power: Mutex::new(Power::On),
            power_changed: Condvar::new(),
            sync_ns: AtomicU64::new(0),
        });
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("powercut".to_owned())];
        let session = fuser::spawn_mount(Disk(Arc::clone(&shared)), at, &config)
            .map_err(|error| failed("cannot mount a FUSE file system", error))?;
        Ok(PowerCut { shared, session: Some(session), at: at.to_owned() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Fails the power: from now on nothing becomes durable, not even by a sync that is under way,
    /// and a process that asks for one waits.
    pub fn fail(&self) {
        self.shared.set_power(Power::Failed);
    }

    /// Ends the wait of its users, which have been killed.
    pub fn let_go(&self) {
        self.shared.set_power(Power::Off);
    }

    /// Restores the power: processes now see what was synced, and the part of the rest that
    /// survived. All processes that had files open must have been killed before.
    ///
    /// # Errors
    /// A process still has a file open after some seconds.
    pub fn cut(&self, manner: Manner) -> io::Result<Lost> {
        self.let_go();
        let end = Instant::now() + CLOSED_WITHIN;
        let mut image = self.shared.image();
        // I2
        while image.n_open() > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let n = image.n_open();
                return Err(io::Error::other(format!(
                    "{n} files are still open: kill their users"
                )));
            }
            let waited = self.shared.closed.wait_timeout(image, left);
            image = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let lost = image.cut(manner);
        drop(image);
        self.shared.set_power(Power::On);
        Ok(lost)
    }

    /// From now on a sync takes this long. One is performed at a time, as by one disk.
    pub fn slow_down(&self, sync: Duration) {
        self.shared.sync_ns.store(sync.as_nanos() as u64, Ordering::Relaxed);
    }

    /// From now on syncs are answered and do nothing: what a test of a test needs.
    pub fn lie(&self, lies: bool) {
        self.shared.image().lie(lies);
    }

    /// How many syncs of files and of directories were asked for.
    pub fn n_syncs(&self) -> [u64; 2] {
        self.shared.image().n_syncs
    }
}

impl Drop for PowerCut {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // A process that still uses it fails the test.
            let _ = session.umount_and_join();
        }
    }
}

struct Disk(Arc<Shared>);

impl Disk {
    fn image(&self) -> MutexGuard<'_, Image> {
        self.0.image()
    }
}

fn attributes(stat: Stat) -> FileAttr {
    let (kind, nlink) =
        if stat.is_dir { (FileType::Directory, 2) } else { (FileType::RegularFile, 1) };
    FileAttr {
        ino: INodeNo(stat.node),
        size: stat.len,
        blocks: stat.len.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: stat.mode as u16,
        nlink,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn ended(done: Result<(), i32>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(Errno::from_i32(errno)),
    }
}

fn entered(done: Result<Stat, i32>, reply: ReplyEntry) {
    match done {
        Ok(stat) => reply.entry(&TTL, &attributes(stat), Generation(0)),
        Err(errno) => reply.error(Errno::from_i32(errno)),
    }
}

impl Filesystem for Disk {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entered(self.image().lookup(parent.0, name), reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.image().stat(ino.0) {
            Ok(stat) => reply.attr(&TTL, &attributes(stat)),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let done = (|| {
            let mut image = self.image();
            if let Some(mode) = mode {
                image.set_mode(ino.0, mode)?;
            }
            if let Some(size) = size {
                image.set_len(ino.0, size)?;
            }
            image.stat(ino.0)
        })();
        match done {
            Ok(stat) => reply.attr(&TTL, &attributes(stat)),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        entered(self.image().make(parent.0, name, mode & !umask, true), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        ended(self.image().unlink(parent.0, name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        ended(self.image().rmdir(parent.0, name), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::from_i32(libc::EINVAL));
        }
        ended(self.image().rename((parent.0, name), (newparent.0, newname)), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.image().opened(ino.0) {
            // I1
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let mut image = self.image();
        let made = image.make(parent.0, name, mode & !umask, false);
        let made = made.and_then(|stat| image.opened(stat.node).map(|()| stat));
        match made {
            Ok(stat) => {
                let (handle, direct) = (FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
                reply.created(&TTL, &attributes(stat), Generation(0), handle, direct);
            }
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.image().read(ino.0, offset, size as usize) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.image().write(ino.0, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok(); // of closing, which makes nothing durable
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.image().closed(ino.0);
        self.0.closed.notify_all();
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.0.work();
        ended(self.0.powered().and_then(|mut image| image.sync(ino.0)), reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.0.work();
        ended(self.0.powered().and_then(|mut image| image.sync_dir(ino.0)), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let names = match self.image().list(ino.0) {
            Ok(names) => names,
            Err(errno) => return reply.error(Errno::from_i32(errno)),
        };
        // `..` is always shown as the root: no user here walks up by inode.
        let dots = [(".".into(), ino.0, true), ("..".into(), ROOT, true)];
        let names = names.into_iter().map(|(name, stat)| (name, stat.node, stat.is_dir));
        for (at, (name, node, is_dir)) in
            dots.into_iter().chain(names).enumerate().skip(offset as usize)
        {
            let kind = if is_dir { FileType::Directory } else { FileType::RegularFile };
            if reply.add(INodeNo(node), at as u64 + 1, kind, &name) {
                break;
            }
        }
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode != 0 {
            return reply.error(Errno::from_i32(libc::EOPNOTSUPP));
        }
        ended(self.image().allocate(ino.0, offset + length), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let n_blocks = 1 << 22; // 16 GiB, all free
        reply.statfs(n_blocks, n_blocks, n_blocks, 1 << 20, 1 << 20, 4096, 255, 4096);
    }
}
