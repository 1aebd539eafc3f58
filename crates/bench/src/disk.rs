//! The disk under measurement: the place of the data, and the cost of a sync there.
//!
//! - I1 nothing is measured on a file system in memory: on tmpfs a sync costs nothing, and a
//!   comparison with a disk would be wrong. Test `i1_*`.
//! - I2 all servers of one run keep their data below one [`Place`], hence on one disk. By
//!   construction.

use crate::group::Error;
use crate::run::Effort;
use rustix::fs::{Advice, CWD, Mode, OFlags};
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The bytes of a plain append, and the most pieces that are synced one by one.
const APPENDED_BYTES: usize = 64 << 20;
const SYNCED_MAX: usize = 200;
const PAGE_BYTES: usize = 4096;

/// The file systems that keep everything in memory, by their statfs numbers (linux/magic.h): tmpfs
/// and ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// A directory on a disk, for one benchmark; removed when dropped.
#[derive(Debug)]
pub struct Place {
    directory: TempDir,
}

impl Place {
    /// A new directory below `data`; without it, beside this program, which was built there and
    /// hence on a disk that may be written to.
    ///
    /// # Errors
    /// The directory cannot be made, or is not on a disk (I1).
    pub fn new(data: Option<&Path>, program: &Path) -> Result<Place, Error> {
        let base = match data {
            Some(data) => {
                std::fs::create_dir_all(data)
                    .map_err(|source| Error::os(format!("make {}", data.display()), source))?;
                data
            }
            None => program.parent().unwrap_or(Path::new(".")),
        };
        // The programs that the benchmark starts may have another current directory.
        let base = &base
            .canonicalize()
            .map_err(|source| Error::os(format!("find {}", base.display()), source))?;
        let stat = rustix::fs::statfs(base)
            .map_err(|errno| Error::os(format!("look at {}", base.display()), errno))?;
        // The field's type differs between machines; the number has 32 bits.
        if IN_MEMORY.contains(&(stat.f_type as u64 & 0xffff_ffff)) {
            return Err(Error::Peer(format!(
                "{} is in memory, where a sync costs nothing: name a directory on a disk with \
                 --data",
                base.display()
            )));
        }
        let directory = tempfile::Builder::new()
            .prefix("gregale-bench-")
            .tempdir_in(base)
            .map_err(|source| {
                let doing =
                    format!("make a directory in {} (--data names another)", base.display());
                Error::os(doing, source)
            })?;
        Ok(Place { directory })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A new directory in it.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn fresh(&self) -> Result<TempDir, Error> {
        tempfile::tempdir_in(self.path())
            .map_err(|source| Error::os("make a directory for data", source))
    }

    /// Refuses a benchmark that would fill the disk.
    ///
    /// # Errors
    /// There is less room than `bytes`.
    pub fn require(&self, bytes: u64) -> Result<(), Error> {
        let here = self.path().display();
        let stat = rustix::fs::statvfs(self.path())
            .map_err(|errno| Error::os(format!("look at {here}"), errno))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free < bytes {
            let (free, bytes) = (free >> 20, bytes >> 20);
            return Err(Error::Peer(format!(
                "{here} has {free} MiB left and this takes up to {bytes} MiB: name another disk \
                 with --data, or a smaller --state"
            )));
        }
        Ok(())
    }

    /// The floor: the time to write 4 KiB into a preallocated file and sync it, in a series of
    /// many.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn floor_fdatasync_ns(&self, effort: &Effort) -> Result<f64, Error> {
        // Each round has four syncs, of which one is the floor.
        let rounds = (effort.span.as_micros() / 1000).clamp(10, 500) as usize;
        let failed = |source| Error::os(format!("sync in {}", self.path().display()), source);
        let samples = storage::bench::measure(self.path(), 32, rounds).map_err(failed)?;
        let times: Vec<f64> = samples.floor_4k_ns.iter().map(|ns| *ns as f64).collect();
        Ok(report::median(&times).unwrap_or(f64::NAN))
    }

    /// The floor of `n` logs on one disk: the time until the last one of `n` threads has written
    /// 4 KiB into a file of its own and synced it, where all begin at once.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn floor_syncs_at_once_ns(&self, n: usize, effort: &Effort) -> Result<f64, Error> {
        let failed = |source| Error::os(format!("sync in {}", self.path().display()), source);
        let rounds = (effort.span.as_micros() / 1000).clamp(10, 500) as usize;
        let make = |_| {
            let file = tempfile::tempfile_in(self.path())?;
            file.write_all_at(&[0; PAGE_BYTES * SYNCED_MAX], 0)?;
            file.sync_all().map(|()| file)
        };
        let files: Vec<File> = (0..n).map(make).collect::<Result<_, _>>().map_err(failed)?;
        let begin = Barrier::new(n);
        // (One that fails takes part in all rounds: the others wait for it.)
        let sync = |file: &File, round: usize| {
            let at = round % SYNCED_MAX * PAGE_BYTES;
            begin.wait();
            let start = Instant::now();
            file.write_all_at(&[0x5a; PAGE_BYTES], at as u64)?;
            file.sync_data().map(|()| start.elapsed())
        };
        let syncs = |file| (0..rounds).map(|round| sync(file, round)).collect::<Vec<_>>();
        let times: Vec<Vec<Result<Duration, _>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = files.iter().map(|file| scope.spawn(|| syncs(file))).collect();
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        });
        let times: Result<Vec<Vec<Duration>>, _> =
            times.into_iter().map(|of| of.into_iter().collect()).collect();
        let (times, mut slowest) = (times.map_err(failed)?, report::Latency::new());
        for round in 0..rounds {
            let last = times.iter().map(|of| of[round]).max();
            last.into_iter().for_each(|time| slowest.record(time));
        }
        Ok(slowest.percentile_ns(50.0) as f64)
    }

    /// The floors of what is written in pieces of `n_bytes`: the time to write one into a file
    /// that has room for it and to sync it, which one in ten takes at most; and the bytes a second
    /// of a file that is appended to and synced once, at its end.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn floor_pieces(&self, n_bytes: usize) -> Result<(f64, f64), Error> {
        let failed = |source| Error::os(format!("write in {}", self.path().display()), source);
        let piece = vec![0x5a; n_bytes];
        let mut file = tempfile::tempfile_in(self.path()).map_err(failed)?;
        let pieces = (APPENDED_BYTES / n_bytes).max(1);
        let start = Instant::now();
        let written = (0..pieces).try_for_each(|_| file.write_all(&piece));
        written.and_then(|()| file.sync_data()).map_err(failed)?;
        let per_s = (pieces * n_bytes) as f64 / start.elapsed().as_secs_f64();
        file.rewind().map_err(failed)?;
        let mut times = report::Latency::new();
        for _ in 0..pieces.min(SYNCED_MAX) {
            let start = Instant::now();
            file.write_all(&piece).and_then(|()| file.sync_data()).map_err(failed)?;
            times.record(start.elapsed());
        }
        // A sync waits for the disk, and then for a processor that others may have taken for a
        // time slice: the median would be a figure of the other programs.
        Ok((times.percentile_ns(10.0) as f64, per_s))
    }
}

/// Leaves all files below `path` as after a power cut: the kernel's cached pages are written and
/// dropped, so that the next reader reads the disk.
///
/// # Errors
/// A file cannot be read or synced.
pub fn forget_cached(path: &Path) -> Result<(), Error> {
    for file in files(path)? {
        let failed = |errno| Error::os(format!("drop {} from memory", file.display()), errno);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let open = rustix::fs::openat(CWD, &file, flags, Mode::empty()).map_err(failed)?;
        // Only written pages can be dropped.
        rustix::fs::fsync(&open).map_err(failed)?;
        rustix::fs::fadvise(&open, 0, None, Advice::DontNeed).map_err(failed)?;
    }
    Ok(())
}

/// Reads all files below `path`, one after the other: the floor of any program that has to read
/// them.
///
/// # Errors
/// A file cannot be read.
pub fn read_all(path: &Path) -> Result<(), Error> {
    for file in files(path)? {
        let failed = |source| Error::os(format!("read {}", file.display()), source);
        let mut open = File::open(&file).map_err(failed)?;
        std::io::copy(&mut open, &mut std::io::sink()).map_err(failed)?;
    }
    Ok(())
}

/// The bytes of all files below `path`, by their lengths.
///
/// # Errors
/// A directory cannot be read.
pub fn size_of(path: &Path) -> Result<u64, Error> {
    Ok(files(path)?.iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum())
}

fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::os(format!("read {}", path.display()), source);
    let (mut found, mut todo) = (Vec::new(), vec![path.to_owned()]);
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // A file that was removed meanwhile counts as neither.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> PathBuf {
        std::env::current_exe().expect("this test has a file")
    }

    #[test]
    fn i1_memory_is_refused_with_the_mend() {
        let memory = tempfile::tempdir_in("/dev/shm").expect("every Linux has it");
        let refused = Place::new(Some(memory.path()), &here()).expect_err("no disk");
        assert!(refused.to_string().contains("--data"), "{refused}");
    }

    #[test]
    fn data_goes_beside_the_program_and_leaves_with_the_place() {
        let place = Place::new(None, &here()).expect("the target directory is on a disk");
        assert_eq!(place.path().parent(), here().parent());
        let fresh = place.fresh().expect("made").keep();
        std::fs::write(fresh.join("a"), [1; 5000]).expect("written");
        assert_eq!(size_of(place.path()).expect("there"), 5000);
        forget_cached(place.path()).expect("only a hint");
        read_all(place.path()).expect("readable");
        place.require(1).expect("a byte is left");
        let refused = place.require(u64::MAX).expect_err("no disk is as large");
        assert!(refused.to_string().contains("--state"), "{refused}");
        assert_eq!(std::fs::read(fresh.join("a")).expect("still there"), [1; 5000]);
        let (piece_ns, per_s) = place.floor_pieces(1 << 20).expect("there is room");
        assert!(piece_ns > 0.0 && per_s > 0.0);
        let quick = Effort { span: Duration::from_millis(1), ..Effort::QUICK };
        assert!(place.floor_syncs_at_once_ns(2, &quick).expect("there is room") > 0.0);
        drop(place);
        assert!(!fresh.exists());
    }
}
