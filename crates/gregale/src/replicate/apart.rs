//! Paths that are the same at all members: where a copy finds what is its own, if its processes are
//! dumped (`criu`).
//!
//! A dump names each open file, mapped file and socket by its path, and members have directories
//! of their own. So the copy has a space of mounts of its own, in which the directory of its
//! process and that of its socket lie at two places that all members share. CRIU is run inside of
//! that space, and of the copy's network: then it takes both for its own, and dumps neither.
//!
//! CRIU knows nothing of Landlock: a process that it has to restore would not be held by it, and
//! one that is held cannot be dumped. So here the mounts keep a copy from writing elsewhere.

use super::confine::SHARED;
use console::{Failure, Outcome};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount_bind, mount_bind_recursive, mount_change,
    mount_remount,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Where the directory of a copy's process lies.
pub(super) const COPY: &str = "/run/gregale/copy";
/// Where the directory of its socket lies.
pub(super) const SOCKETS: &str = "/run/gregale/sockets";
/// The name of its socket there.
pub(super) const SOCKET: &str = "socket";

/// Mounts `run` and `sockets` at those places, for this process and what it becomes, and goes to
/// the copy's own directory.
pub(super) fn enter(run: &Path, sockets: &Path) -> Outcome<()> {
    let failed = |error: Errno| {
        Failure::new(format_args!(
            "this host gives the program no mounts of its own ({error}), which --program-save criu \
             takes: allow it, or say --program-save files"
        ))
    };
    for place in [COPY, SOCKETS] {
        std::fs::create_dir_all(place)
            .map_err(|error| Failure::os(format_args!("make {place}"), error))?;
    }
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)
        .map_err(|error| failed(Errno::from_raw_os_error(error as i32)))?;
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", flags)
        .and_then(|()| mount_bind(run, COPY))
        .and_then(|()| mount_bind(sockets, SOCKETS))
        .map_err(failed)?;
    let dir = Path::new(COPY).join("dir");
    std::env::set_current_dir(&dir)
        .map_err(|error| Failure::os(format_args!("go to {}", dir.display()), error))
}

/// The file of the copy's output, by the path that all copies share: what the member has opened is
/// another path for a dump.
pub(super) fn output() -> Outcome<File> {
    let path = Path::new(COPY).join("output");
    File::options()
        .append(true)
        .open(&path)
        .map_err(|error| Failure::os(format_args!("open {}", path.display()), error))
}

/// Moves this process into the mounts and the network of process `pid`.
pub(super) fn join(pid: u32) -> Outcome<()> {
    let join = |name: &str, kind| {
        let path = format!("/proc/{pid}/ns/{name}");
        let space = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        move_into_link_name_space(space.as_fd(), Some(kind))
    };
    // (Behind the mounts, `/proc` may be another one.)
    join("net", LinkNameSpaceType::Network)
        .and_then(|()| join("mnt", LinkNameSpaceType::Mount))
        .map_err(|error| Failure::os("join the program's mounts and network", error))
}

/// Makes everything read-only that is mounted, but for the copy's own directories and those in
/// which any program may write. (Devices are written all the same, and a process writes about
/// itself in `/proc`.)
pub(super) fn seal() -> Result<(), String> {
    let failed = |what: &Path, error: Errno| format!("{}: {error}", what.display());
    let shared = SHARED.map(Path::new);
    for place in shared.into_iter().filter(|place| place.is_dir()) {
        mount_bind_recursive(place, place).map_err(|error| failed(place, error))?;
    }
    let text = std::fs::read("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    for (place, flags) in mounts(&text) {
        if is_open(&place) {
            continue;
        }
        match mount_remount(&place, MountFlags::BIND | MountFlags::RDONLY | flags, "") {
            // What another mount hides is not written either.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::INVAL) => {}
            Err(error) => return Err(failed(&place, error)),
        }
    }
    Ok(())
}

/// Whether what is mounted there may be written.
fn is_open(place: &Path) -> bool {
    let mut shared = SHARED.iter().chain(&["/proc"]);
    [COPY, SOCKETS].map(Path::new).contains(&place) || shared.any(|open| place.starts_with(open))
}

/// The places in a text like `/proc/self/mountinfo`, and the flags that they have and keep.
fn mounts(text: &[u8]) -> Vec<(PathBuf, MountFlags)> {
    let lines = text.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| {
            let mut words = line.split(|byte| *byte == b' ').skip(4);
            let (place, options) = (words.next()?, words.next()?);
            let flags = options.split(|byte| *byte == b',').filter_map(|option| match option {
                b"nosuid" => Some(MountFlags::NOSUID),
                b"nodev" => Some(MountFlags::NODEV),
                b"noexec" => Some(MountFlags::NOEXEC),
                b"noatime" => Some(MountFlags::NOATIME),
                b"nodiratime" => Some(MountFlags::NODIRATIME),
                b"relatime" => Some(MountFlags::RELATIME),
                _ => None,
            });
            Some((OsString::from_vec(plain(place)).into(), flags.collect()))
        })
        .collect()
}

/// A path without the kernel's `\ooo` for spaces and their kin.
fn plain(path: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), path);
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|_| first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &behind[3..] } else { behind };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_the_flags_that_they_keep() {
        let text = b"21 1 0:19 / / rw,relatime - overlay overlay rw\n\
            22 21 0:20 / /a\\040b\\134 ro,nosuid,nodev,noexec shared:3 - tmpfs t rw\nodd\n";
        let found = mounts(text);
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], (PathBuf::from("/"), MountFlags::RELATIME));
        assert_eq!(found[1], (PathBuf::from("/a b\\"), flags));
    }

    #[test]
    fn a_copys_own_places_and_those_of_all_programs_are_open() {
        for place in [COPY, SOCKETS, "/tmp", "/tmp/mounted", "/proc", "/proc/sys/fs/binfmt_misc"] {
            assert!(is_open(Path::new(place)), "{place}");
        }
        for place in ["/", "/tmpx", "/run", "/run/gregale/copy/dir", "/dev/shm", "/var"] {
            assert!(!is_open(Path::new(place)), "{place}");
        }
    }
}
