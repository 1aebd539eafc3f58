//! A checkpoint of a copy's files: its directory as a crash has left it, and that as bytes.
//!
//! The program has been killed, or its processes were dumped (`criu`) and are stopped. Its
//! directory is copied beside it (`tree`), the program begins again, or continues, and the copy is
//! read once to make an archive of it (`archive`), whose bytes are read from there when they are
//! said. Both are done by a thread, and last no longer than the limit.
//!
//! - G1 a checkpoint that is not whole never counts: what a process leaves that dies meanwhile lies
//!   in its own directory, which its successor removes; and no member counts a part of what is said
//!   (`replicate::checkpoint`, K2 and K3). So nothing has to be synced or renamed for that.
//! - G2 a copy is unpacked beside the directory, and takes its place when it is whole.

use super::archive::{Packed, Unpacker};
use super::tree;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// The time in which a directory has to be copied: the program stands still.
pub(super) const COPIED_WITHIN: Duration = Duration::from_secs(60);
/// The time in which its archive has to be made.
const PACKED_WITHIN: Duration = Duration::from_secs(600);
/// The bytes that have to be free on the disk beside those that a copy takes.
const SPARE_BYTES: u64 = 64 << 20;

/// A directory that is copied, and packed then.
#[derive(Debug)]
struct Work {
    is_given_up: Arc<AtomicBool>,
    copied: Receiver<Result<(), String>>,
    packed: Receiver<Result<Packed, String>>,
    /// The program waits no longer than that for the copy.
    ends_by: Instant,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }
}

/// What has become of a saved directory.
#[derive(Debug, Default)]
enum Saved {
    #[default]
    None,
    Work(Work),
    InVain(String),
    Packed(Packed),
}

/// The checkpoints of a copy's files, in the directory of its process.
#[derive(Debug)]
pub(super) struct Files {
    run: PathBuf,
    limit: Duration,
    n_saved: u64,
    saved: Saved,
    unpacker: Option<Unpacker>,
}

impl Files {
    /// Those of a process whose directory is `run`. A directory has to be copied within the limit.
    pub(super) fn new(run: &Path, limit: Duration) -> Files {
        Files { run: run.to_owned(), limit, n_saved: 0, saved: Saved::None, unpacker: None }
    }

    /// G1: below the directory of the process.
    fn place(&self) -> PathBuf {
        self.run.join(format!("saved-{}", self.n_saved))
    }

    /// Saves `directory`, in which nothing is written before [`Files::is_copied`].
    pub(super) fn save(&mut self, directory: PathBuf) {
        self.begin();
        self.add(&[(directory, "")]);
    }

    /// Forgets what was saved before, and returns the directory of what is saved next.
    pub(super) fn begin(&mut self) -> PathBuf {
        self.forget();
        self.n_saved += 1;
        self.place()
    }

    /// Adds copies of directories to what was begun, each by its name there, and packs all of it.
    /// Nothing is written in them before [`Files::is_copied`].
    pub(super) fn add(&mut self, parts: &[(PathBuf, &'static str)]) {
        let parts = parts.to_vec();
        let (to_copied, copied) = channel();
        let (to_packed, packed) = channel();
        let is_given_up = Arc::new(AtomicBool::new(false));
        let (place, is_over) = (self.place(), is_given_up.clone());
        let ends_by = Instant::now() + self.limit;
        let (limit, run) = (self.limit, self.run.clone());
        // (It ends by itself, soon after it was given up.)
        std::thread::spawn(move || {
            let what = format!("copying the directory took more than {limit:?}");
            let made = has_room(&parts, &run).and_then(|()| {
                let mut may_continue = until(&is_over, ends_by, what);
                parts
                    .iter()
                    .try_for_each(|(from, to)| tree::copy(from, &place.join(to), &mut may_continue))
                    .map_err(|error| format!("cannot copy the directory: {error}"))
            });
            let is_made = made.is_ok();
            if to_copied.send(made).is_err() || !is_made {
                let _ = fs::remove_dir_all(&place);
                return;
            }
            let what = format!("packing the directory took more than {PACKED_WITHIN:?}");
            let mut may_continue = until(&is_over, Instant::now() + PACKED_WITHIN, what);
            let packed = Packed::of(&place, &mut may_continue)
                .map_err(|error| format!("cannot pack the directory: {error}"));
            if to_packed.send(packed).is_err() {
                let _ = fs::remove_dir_all(&place);
            }
        });
        self.saved = Saved::Work(Work { is_given_up, copied, packed, ends_by });
    }

    /// Whether the directory that is saved may be written again: it was copied, or that was given
    /// up.
    pub(super) fn is_copied(&mut self) -> bool {
        let Saved::Work(work) = &self.saved else { return true };
        let is_late = Instant::now() >= work.ends_by;
        match work.copied.try_recv() {
            Ok(Ok(())) => true,
            Ok(Err(why)) => {
                self.saved = Saved::InVain(why);
                true
            }
            Err(TryRecvError::Empty) if is_late => {
                let why = format!("copying the directory took more than {:?}", self.limit);
                self.saved = Saved::InVain(why);
                true
            }
            Err(TryRecvError::Empty) => false,
            Err(TryRecvError::Disconnected) => {
                self.saved = Saved::InVain("the copy of the directory was given up".to_owned());
                true
            }
        }
    }

    /// The bytes of the archive, once it is made.
    pub(super) fn poll(&mut self) -> Result<Option<u64>, String> {
        if let Saved::Work(work) = &self.saved {
            self.saved = match work.packed.try_recv() {
                Ok(Ok(packed)) => Saved::Packed(packed),
                Ok(Err(why)) => Saved::InVain(why),
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => Saved::InVain("it was given up".to_owned()),
            };
        }
        match &self.saved {
            Saved::Packed(packed) => Ok(Some(packed.len())),
            Saved::InVain(why) => Err(why.clone()),
            Saved::None | Saved::Work(_) => Err("no directory was saved".to_owned()),
        }
    }

    /// Reads the archive.
    pub(super) fn read(&mut self, at: u64, into: &mut [u8]) -> Result<usize, String> {
        match &mut self.saved {
            Saved::Packed(packed) => packed.read(at, into),
            _ => Err("no directory was saved".to_owned()),
        }
    }

    /// Gives up what was begun.
    pub(super) fn give_up(&mut self, why: String) {
        self.saved = Saved::InVain(why);
        self.remove();
    }

    /// Removes what was saved.
    pub(super) fn forget(&mut self) {
        let was_there = !matches!(std::mem::take(&mut self.saved), Saved::None);
        if was_there {
            self.remove();
        }
    }

    fn remove(&self) {
        let place = self.place();
        // A large directory takes a while. What is left is swept by the next process.
        std::thread::spawn(move || fs::remove_dir_all(place));
    }

    /// Takes the next bytes of an archive that the copy begins with (G2).
    pub(super) fn restore(&mut self, bytes: &[u8]) -> Result<(), String> {
        let root = self.run.join("restored");
        self.unpacker.get_or_insert_with(|| Unpacker::new(root)).take(bytes)
    }

    /// Puts what was unpacked, if anything was, in the place of `directory`. Returns whether it
    /// was.
    pub(super) fn put_in_place(&mut self, directory: &Path) -> Result<bool, String> {
        let Some(root) = self.unpacked()? else { return Ok(false) };
        replace(&root, directory)?;
        Ok(true)
    }

    /// The directory that was unpacked, if one was, and all of it.
    pub(super) fn unpacked(&mut self) -> Result<Option<PathBuf>, String> {
        self.unpacker.take().map(Unpacker::finish).transpose()
    }
}

/// Puts `root` in the place of `directory`.
pub(super) fn replace(root: &Path, directory: &Path) -> Result<(), String> {
    let put = fs::remove_dir_all(directory).and_then(|()| fs::rename(root, directory));
    put.map_err(|error| format!("cannot replace {}: {error}", directory.display()))
}

/// What is asked before each step of a long work.
fn until(
    is_over: &AtomicBool,
    ends_by: Instant,
    late: String,
) -> impl FnMut() -> io::Result<()> + '_ {
    move || {
        let is_late = Instant::now() >= ends_by;
        if is_late || is_over.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, late.clone()));
        }
        Ok(())
    }
}

/// Refuses a copy for which there is no room. (A file system that shares what is the same would
/// need less.)
fn has_room(parts: &[(PathBuf, &str)], run: &Path) -> Result<(), String> {
    let cause = |error: io::Error| format!("cannot look at the directory: {error}");
    let taken = parts.iter().map(|(from, _)| tree::taken_bytes(from)).sum::<io::Result<u64>>();
    let taken = taken.map_err(cause)?;
    let of = rustix::fs::statvfs(run).map_err(|error| cause(error.into()))?;
    let free = of.f_bavail.saturating_mul(of.f_frsize);
    if free < taken.saturating_add(SPARE_BYTES) {
        return Err(format!(
            "the directory takes {taken} bytes, and {free} are free in {}: make room for a copy, \
             and {SPARE_BYTES} bytes more",
            run.display()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_for<T>(mut poll: impl FnMut() -> Option<T>) -> T {
        let ends_by = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(found) = poll() {
                return found;
            }
            assert!(Instant::now() < ends_by, "waited in vain");
            std::thread::yield_now();
        }
    }

    fn is_empty_but_for(run: &Path, names: &[&str]) -> bool {
        let entries = fs::read_dir(run).unwrap().flatten();
        entries.count() == names.iter().filter(|name| run.join(name).exists()).count()
    }

    #[test]
    fn a_directory_is_saved_said_and_put_in_place() {
        let run = tempfile::tempdir().unwrap();
        let directory = run.path().join("dir");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("file"), b"saved").unwrap();
        let mut files = Files::new(run.path(), COPIED_WITHIN);
        assert!(files.poll().is_err());
        files.save(directory.clone());
        wait_for(|| files.is_copied().then_some(()));
        fs::write(directory.join("file"), b"later").unwrap();
        fs::write(directory.join("other"), b"later").unwrap();
        let len = wait_for(|| files.poll().unwrap());
        let (mut at, mut piece) = (0, [0; 7]);
        while at < len {
            let n = files.read(at, &mut piece).unwrap();
            files.restore(&piece[..n]).unwrap();
            at += n as u64;
        }
        files.forget();
        assert_eq!(files.put_in_place(&directory), Ok(true));
        assert_eq!(fs::read(directory.join("file")).unwrap(), b"saved");
        assert!(!directory.join("other").exists());
        wait_for(|| is_empty_but_for(run.path(), &["dir"]).then_some(()));
        assert_eq!(files.put_in_place(&directory), Ok(false));
    }

    #[test]
    fn directories_are_added_to_what_was_begun_by_their_names() {
        let run = tempfile::tempdir().unwrap();
        let directory = run.path().join("dir");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("file"), b"of the program").unwrap();
        let mut files = Files::new(run.path(), COPIED_WITHIN);
        let place = files.begin();
        fs::create_dir_all(place.join("image")).unwrap();
        fs::write(place.join("image/pages"), b"of the dump").unwrap();
        files.add(&[(directory.clone(), "dir")]);
        wait_for(|| files.is_copied().then_some(()));
        let len = wait_for(|| files.poll().unwrap());
        let mut all = vec![0; len as usize];
        let mut n = 0;
        while n < all.len() {
            n += files.read(n as u64, &mut all[n..]).unwrap();
        }
        files.restore(&all).unwrap();
        let root = files.unpacked().unwrap().unwrap();
        assert_eq!(fs::read(root.join("image/pages")).unwrap(), b"of the dump");
        assert_eq!(fs::read(root.join("dir/file")).unwrap(), b"of the program");
        assert_eq!(files.unpacked(), Ok(None));
        let _ = files.begin();
        files.give_up("CRIU says no".to_owned());
        assert_eq!(files.poll(), Err("CRIU says no".to_owned()));
    }

    #[test]
    fn a_copy_that_takes_too_long_is_given_up_and_leaves_nothing() {
        let run = tempfile::tempdir().unwrap();
        let directory = run.path().join("dir");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("file"), vec![1; 3 << 20]).unwrap();
        let mut files = Files::new(run.path(), Duration::ZERO);
        files.save(directory);
        wait_for(|| files.is_copied().then_some(()));
        assert!(files.poll().unwrap_err().contains("took more than 0ns"), "{:?}", files.saved);
        wait_for(|| is_empty_but_for(run.path(), &["dir"]).then_some(()));
    }

    #[test]
    fn a_part_of_an_archive_takes_no_directorys_place() {
        let run = tempfile::tempdir().unwrap();
        let directory = run.path().join("dir");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("file"), b"there").unwrap();
        let mut files = Files::new(run.path(), COPIED_WITHIN);
        files.restore(b"grgleDI1").unwrap();
        assert!(files.put_in_place(&directory).unwrap_err().contains("not whole"));
        assert_eq!(fs::read(directory.join("file")).unwrap(), b"there");
    }
}
