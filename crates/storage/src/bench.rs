//! The cost of a durable record, beside the disk's cost: `floor_*` and ours in one run.
//!
//! All are measured in turn, so that a noisy neighbour affects all of them alike.

use crate::committer::{Committer, Report};
use crate::log::{self, Options, Prepared};
use crate::media::{Media, Os};
use base::{Ballot, Instant};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Times in nanoseconds, unsorted.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// A 4 KiB write and fdatasync in a file that was preallocated and written before.
    pub floor_4k_ns: Vec<u64>,
    /// A 512-byte write and fdatasync in such a file.
    pub floor_512_ns: Vec<u64>,
    /// A 4 KiB write past the page cache (`O_DIRECT`) and fdatasync in such a file; empty where the
    /// file system refuses that.
    pub floor_direct_ns: Vec<u64>,
    /// An append, sync, take, write and done of one entry, in one thread.
    pub log_ns: Vec<u64>,
    /// The same steps through the committer thread, from the request to its report.
    pub committer_ns: Vec<u64>,
}

/// An aligned page, as writes past the page cache need.
#[repr(align(4096))]
struct Page([u8; 4096]);

/// Longest wait for one record.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures `n` entries of `payload` bytes in a fresh directory below `path`, which it removes.
pub fn measure(path: &Path, payload: usize, n: usize) -> io::Result<Samples> {
    let dir = path.join(format!("storage-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let measured = measure_in(&dir, payload, n);
    std::fs::remove_dir_all(&dir)?;
    measured
}

fn measure_in(dir: &Path, payload: usize, n: usize) -> io::Result<Samples> {
    for sub in ["floor", "log", "committer"] {
        std::fs::create_dir_all(dir.join(sub))?;
    }
    let floor = Os::new(&dir.join("floor"))?;
    let len = (n.max(1) * 4096) as u64;
    let floor_4k = written(&floor, "4k", len)?;
    let floor_512 = written(&floor, "512", len)?;
    drop(written(&floor, "direct", len)?);
    let direct_flag = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let floor_direct =
        OpenOptions::new().write(true).custom_flags(direct_flag).open(dir.join("floor/direct"));

    let options = Options::default();
    let open = |sub: &str| -> io::Result<_> {
        let media = Os::new(&dir.join(sub))?;
        let mut opened = log::open(&media, &options, 1).map_err(io::Error::other)?;
        while opened.writer.prepare().map_err(io::Error::other)? == Prepared::More {}
        Ok(opened)
    };
    let (mut direct, threaded) = (open("log")?, open("committer")?);
    let (wake, woken) = sync_channel(1);
    // A full channel already holds a wake-up.
    let mut committer = Committer::start(threaded.writer, move || {
        let _ = wake.try_send(());
    })?;
    let mut through = threaded.log;

    let (block, bytes) = (Box::new(Page([1; 4096])), vec![2; payload]);
    let mut samples = Samples::default();
    let start = std::time::Instant::now();
    let now = || start.elapsed().as_nanos() as u64;
    let mut reports = Vec::new();
    for i in 0..n as u64 {
        let at = now();
        floor.write_at(&floor_4k, i * 4096, &block.0)?;
        floor.sync(&floor_4k)?;
        samples.floor_4k_ns.push(now() - at);

        let at = now();
        floor.write_at(&floor_512, i * 512, &block.0[..512])?;
        floor.sync(&floor_512)?;
        samples.floor_512_ns.push(now() - at);

        if let Ok(file) = &floor_direct {
            let at = now();
            file.write_all_at(&block.0, i * 4096)?;
            file.sync_data()?;
            samples.floor_direct_ns.push(now() - at);
        }

        let at = now();
        let log = &mut direct.log;
        log.append(log.end(), Ballot(1), 1, &bytes).map_err(io::Error::other)?;
        log.sync();
        while let Some(batch) = log.take() {
            direct.writer.write(&batch).map_err(io::Error::other)?;
            log.done(batch.end());
        }
        samples.log_ns.push(now() - at);

        let at = now();
        through.append(through.end(), Ballot(1), 1, &bytes).map_err(io::Error::other)?;
        let wanted = through.sync();
        loop {
            reports.clear();
            let pumped = committer.pump(&mut through, Instant(now()), &mut reports);
            pumped.map_err(io::Error::other)?;
            if reports.contains(&Report::Synced(wanted)) {
                break;
            }
            match woken.recv_timeout(PATIENCE) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
        samples.committer_ns.push(now() - at);
    }
    Ok(samples)
}

/// The time and the size of an opening.
#[derive(Clone, Copy, Debug)]
pub struct Restart {
    /// The number of entries found.
    pub n_entries: u64,
    /// The bytes of their payloads.
    pub n_bytes: u64,
    /// The time to verify every record and have the log ready.
    pub open_ns: u64,
}

/// Measures the opening of a log with `n` entries of `payload` bytes in a fresh directory below
/// `path`, which it removes. The page cache is warm.
pub fn measure_restart(path: &Path, payload: usize, n: u64) -> io::Result<Restart> {
    let dir = path.join(format!("storage-restart-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let measured = restart_in(&dir, payload, n);
    std::fs::remove_dir_all(&dir)?;
    measured
}

fn restart_in(dir: &Path, payload: usize, n: u64) -> io::Result<Restart> {
    let (media, options) = (Os::new(dir)?, Options::default());
    {
        let mut opened = log::open(&media, &options, 1).map_err(io::Error::other)?;
        let (log, bytes) = (&mut opened.log, vec![3; payload]);
        for i in 0..n {
            log.append(log.end(), Ballot(1), 1, &bytes).map_err(io::Error::other)?;
            // The batches have the size that they have under load.
            if i + 1 == n || log.n_unsynced() >= 1 << 20 {
                log.sync();
                while let Some(batch) = log.take() {
                    opened.writer.write(&batch).map_err(io::Error::other)?;
                    log.done(batch.end());
                }
            }
        }
    }
    let start = std::time::Instant::now();
    let opened = log::open(&media, &options, 1).map_err(io::Error::other)?;
    let open_ns = start.elapsed().as_nanos() as u64;
    let (n_entries, n_bytes) = (opened.log.end().0, opened.log.n_payload_bytes());
    Ok(Restart { n_entries, n_bytes, open_ns })
}

/// A file whose blocks are allocated and written.
fn written(media: &Os, name: &str, len: u64) -> io::Result<File> {
    let file = media.create(name, len)?;
    media.write_at(&file, 0, &vec![0; len as usize])?;
    media.sync(&file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_measured_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let samples = measure(dir.path(), 32, 3).unwrap();
        for times in
            [samples.floor_4k_ns, samples.floor_512_ns, samples.log_ns, samples.committer_ns]
        {
            assert_eq!(times.len(), 3);
        }
        assert!([0, 3].contains(&samples.floor_direct_ns.len()), "all of them, or refused");
        let restart = measure_restart(dir.path(), 100, 5).unwrap();
        assert_eq!((restart.n_entries, restart.n_bytes), (5, 500));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
