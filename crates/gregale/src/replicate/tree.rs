//! Copies of directories.

use rustix::fs::{CWD, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::Path;

/// The bytes that are copied in one step.
pub(super) const STEP_BYTES: usize = 256 << 10;

/// A file of a directory, which is not followed if it is a link.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
}

/// The error with the path that it is about.
fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Gives a file or directory an owner and a mode. A process that may not give it away keeps it.
pub(super) fn put_owner(path: &Path, owner: (u32, u32), mode: Option<u32>) -> io::Result<()> {
    let of = fs::symlink_metadata(path)?;
    if (of.uid(), of.gid()) != owner {
        match lchown(path, Some(owner.0), Some(owner.1)) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            done => done?,
        }
    }
    // (A change of the owner takes bits from the mode.)
    mode.map_or(Ok(()), |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777)))
}

/// Copies a directory with its directories, files and links: their modes and owners, and files with
/// their holes, by the file system's own means (FICLONE) if it has them. Sockets, pipes and devices
/// are left out. `may_continue` is asked before each step.
///
/// # Errors
/// Something cannot be read or written, or `may_continue` says why it is over.
pub(super) fn copy(
    from: &Path,
    to: &Path,
    may_continue: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<()> {
    fs::create_dir_all(to).map_err(|error| about(to, &error))?;
    for entry in fs::read_dir(from).map_err(|error| about(from, &error))? {
        may_continue()?;
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        let copied = fs::symlink_metadata(&path).and_then(|of| {
            let (kind, owner) = (of.file_type(), (of.uid(), of.gid()));
            if kind.is_dir() {
                copy(&path, &target, may_continue)
            } else if kind.is_symlink() {
                symlink(fs::read_link(&path)?, &target)?;
                put_owner(&target, owner, None)
            } else if kind.is_file() {
                copy_file(&path, &target, may_continue)?;
                put_owner(&target, owner, Some(of.mode()))
            } else {
                Ok(())
            }
        });
        copied.map_err(|error| match error.raw_os_error() {
            Some(_) => about(&path, &error),
            None => error, // it has a path
        })?;
    }
    let of = fs::metadata(from)?;
    put_owner(to, (of.uid(), of.gid()), Some(of.mode()))
}

fn copy_file(
    from: &Path,
    to: &Path,
    may_continue: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let source = open(from)?;
    let target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    if rustix::fs::ioctl_ficlone(&target, &source).is_ok() {
        return Ok(());
    }
    target.set_len(source.metadata()?.len())?;
    each_extent(&source, &mut |at, bytes| {
        may_continue()?;
        target.write_all_at(bytes, at)
    })
}

/// Calls `take` with the bytes of a file that are no holes, in order, a step at a time.
pub(super) fn each_extent(
    file: &File,
    take: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let (mut at, mut buffer) = (0, vec![0; STEP_BYTES]);
    loop {
        at = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(at) => at,
            Err(Errno::NXIO) => return Ok(()), // a hole up to the end
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(at))?;
        while at < end {
            let n = buffer.len().min((end - at) as usize);
            let n = file.read_at(&mut buffer[..n], at)?;
            if n == 0 {
                return Err(io::Error::other("a file has become shorter while it was read"));
            }
            take(at, &buffer[..n])?;
            at += n as u64;
        }
    }
}

/// The bytes that the files of a directory take on disk.
pub(super) fn taken_bytes(directory: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory).map_err(|error| about(directory, &error))? {
        let path = entry?.path();
        let of = fs::symlink_metadata(&path)?;
        if of.is_dir() {
            sum += taken_bytes(&path)?;
        } else if of.is_file() {
            sum += of.blocks() * 512;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_copied_with_its_links_modes_and_holes_and_without_its_sockets() {
        let base = tempfile::tempdir().unwrap();
        let from = base.path().join("from");
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/file"), b"x").unwrap();
        fs::set_permissions(from.join("a/b/file"), fs::Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(from.join("a"), fs::Permissions::from_mode(0o700)).unwrap();
        symlink("b/file", from.join("a/link")).unwrap();
        let sparse = File::create(from.join("sparse")).unwrap();
        sparse.set_len(64 << 20).unwrap();
        sparse.write_all_at(b"in the middle", 32 << 20).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
        let fifo = from.join("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        let to = base.path().join("to");
        copy(&from, &to, &mut || Ok(())).unwrap();
        assert_eq!(fs::read(to.join("a/link")).unwrap(), b"x");
        assert!(fs::symlink_metadata(to.join("a/link")).unwrap().is_symlink());
        assert!(!to.join("socket").exists() && !to.join("fifo").exists());
        let mode = |path: &str| fs::metadata(to.join(path)).unwrap().mode() & 0o7777;
        assert_eq!((mode("a/b/file"), mode("a")), (0o640, 0o700));
        assert!(fs::read(to.join("sparse")).unwrap() == fs::read(from.join("sparse")).unwrap());
        assert!(taken_bytes(&to).unwrap() < 4 << 20, "the holes are kept");
    }

    #[test]
    fn a_copy_that_is_given_up_says_why() {
        let base = tempfile::tempdir().unwrap();
        let from = base.path().join("from");
        fs::create_dir_all(&from).unwrap();
        fs::write(from.join("file"), vec![1; 3 * STEP_BYTES]).unwrap();
        let mut n = 0;
        let copied = copy(&from, &base.path().join("to"), &mut || {
            n += 1;
            if n < 3 { Ok(()) } else { Err(io::Error::other("it takes too long")) }
        });
        assert_eq!(copied.unwrap_err().to_string(), "it takes too long");
        let missing = copy(&from.join("x"), &base.path().join("y"), &mut || Ok(()));
        assert!(missing.unwrap_err().to_string().contains("from/x: "));
    }
}
