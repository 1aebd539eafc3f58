//! What a copy says from inside: the page that the preloaded library writes, and its notices.
//!
//! - N1 a program is at rest if all its threads have said that they wait, the kernel says of each
//!   that it sleeps, and no wait has ended meanwhile. A thread that was woken is no sleeper for the
//!   kernel at once, long before it says that it runs. So a thread that takes up what was fed, or
//!   what another thread left for it, is always seen (`waits`, W1).
//!   (What is written to a Unix socket wakes its reader within that call. What is written to a port
//!   of this host does so where the kernel delivers it in the same call, as Linux does.)
//! - N3 a thread whose time has come is woken, again each millisecond until it has left its wait:
//!   the thread may look at another pipe than that which was made readable. A pipe is emptied
//!   before threads are sent to it (`waits`, W6).
//! - N4 a program that has loaded the library and has counted no connection has not accepted its
//!   first one (`waits`, W9), or does so in a way that is not seen.
//! - N2 a program that is held is at rest, and stays so (`waits`, W3).

use super::asleep::state_of;
use super::processes::family;
use console::{Failure, Outcome};
use region::{Words, sheet};
use replicate::program::Repose;
use runtime::{Interest, Poller};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering::SeqCst, fence};
use std::time::{Duration, Instant};
use waits::{Ended, Look, Memory, N_WORDS, Page, Slot, Thread};

/// The library, as `build.rs` has compiled it.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));

/// The bytes of a line of `stat` that hold the state: the name before it is short.
const STAT_BYTES: usize = 64;

/// See N3.
const WAKE_EVERY: Duration = Duration::from_millis(1);
/// Nanoseconds in a millisecond.
const NS_OF_MS: u64 = 1_000_000;

/// The words of a page, each sequentially consistent.
#[derive(Debug)]
struct Sheet(Words);

impl Memory for Sheet {
    fn load(&self, at: u32) -> u64 {
        fence(SeqCst);
        self.0.load(at)
    }

    fn store(&self, at: u32, word: u64) {
        self.0.store(at, word);
        fence(SeqCst);
    }

    fn swap(&self, at: u32, word: u64) -> u64 {
        fence(SeqCst);
        self.0.swap(at, word)
    }

    fn cas(&self, at: u32, expected: u64, desired: u64) -> u64 {
        fence(SeqCst);
        self.0.cas(at, expected, desired)
    }

    fn add(&self, at: u32, n: u64) -> u64 {
        fence(SeqCst);
        self.0.fetch_add(at, n)
    }
}

/// The kernel's word about each thread, by slot.
type Stats = BTreeMap<u32, (Thread, File)>;

/// The member's end of a page.
#[derive(Debug)]
pub(super) struct Inside {
    page: Page<Sheet>,
    path: PathBuf,
    notices: UnixDatagram,
    /// The kernel's word about each thread, by slot.
    stats: Stats,
    /// The slot of the thread that did not sleep last time: it is the likeliest not to.
    suspect: Option<u32>,
    /// Whether the program is held where it waits for descriptors.
    is_in_turns: bool,
    /// The pipes that end waits for descriptors, each open at both ends.
    pipes: [File; 2],
    /// When threads were woken last, if some may not have left their waits.
    woken_at: Option<Instant>,
}

/// The library's file.
const LIBRARY_NAME: &str = "preload.so";

/// Whether the program is known to be without the library: one that a shell has begun, which has
/// it, may be of another kind. The process that listens tells, or, where that is not known, each
/// that `launch` has become, or begun.
pub(super) fn is_without(listens: Option<u32>, launch: u32) -> bool {
    let maps = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/maps")).ok();
    let is_library = |line: &str| line.rsplit('/').next() == Some(LIBRARY_NAME);
    let has = |maps: String| maps.lines().any(is_library);
    // One that has ended maps nothing.
    match listens.and_then(maps).filter(|maps| !maps.is_empty()) {
        Some(maps) => !has(maps),
        None => !family(launch).into_iter().any(|pid| maps(pid).is_none_or(has)),
    }
}

/// The path of the library in the directory of a copy's process, which is written now.
pub(super) fn write_library(run: &Path) -> Outcome<PathBuf> {
    let path = run.join(LIBRARY_NAME);
    std::fs::write(&path, LIBRARY)
        .map_err(|error| Failure::os(format_args!("write {}", path.display()), error))?;
    Ok(path)
}

impl Inside {
    /// A page at `path` for a program that is started next.
    pub(super) fn make(path: PathBuf, is_in_turns: bool, seed: u64) -> Outcome<Inside> {
        let words = sheet::make(&path, N_WORDS as u32)
            .map_err(|error| Failure::new(format_args!("{error}")))?;
        let notices = UnixDatagram::bind(beside(&path, waits::NOTICES)).and_then(|socket| {
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        let notices =
            notices.map_err(|error| Failure::os("make the socket of the copy's notices", error))?;
        let page = Page::make(Sheet(words), is_in_turns, seed);
        let pipes = [
            make_pipe(&beside(&path, waits::PIPES[0]))?,
            make_pipe(&beside(&path, waits::PIPES[1]))?,
        ];
        Ok(Inside {
            page,
            path,
            notices,
            stats: BTreeMap::new(),
            suspect: None,
            is_in_turns,
            pipes,
            woken_at: None,
        })
    }

    /// Sets another seed, for a program that is started next.
    pub(super) fn reseed(&self, seed: u64) {
        self.page.reseed(seed);
    }

    /// The page's path, for the program's environment.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn register(&self, poller: &Poller, key: u64) -> std::io::Result<()> {
        poller.add(&self.notices, key, Interest::Read)
    }

    /// Takes the notices: each only says that a look is worth while.
    pub(super) fn take_notices(&self) {
        while self.notices.recv(&mut [0]).is_ok() {}
    }

    /// Whether a process of the program has loaded the library.
    pub(super) fn is_loaded(&self) -> bool {
        self.page.n_processes() > 0
    }

    /// N4
    pub(super) fn has_accepted(&self) -> bool {
        !self.is_loaded() || self.page.n_accepted() > 0
    }

    /// Tells the time; whether that ends waits.
    pub(super) fn tell_time(&mut self, time_ms: u64) -> bool {
        self.empty_pipe();
        let words = self.page.memory();
        let time_ns = time_ms.saturating_mul(NS_OF_MS);
        let ended = self.page.tell_time(time_ns, |slot| words.0.wake(slot.end_at()));
        self.wake_by_pipe(ended);
        ended.n > 0
    }

    /// N3
    fn wake_again(&mut self) {
        if self.woken_at.is_none_or(|at| at.elapsed() < WAKE_EVERY) {
            return;
        }
        self.empty_pipe();
        let words = self.page.memory();
        let ended = self.page.wake(|slot| words.0.wake(slot.end_at()));
        self.wake_by_pipe(ended);
    }

    /// Whether a thread has not left its wait though its time has come: it is no sleeper then,
    /// whatever the kernel says of it.
    pub(super) fn owes_an_end(&mut self) -> bool {
        self.wake_again();
        self.page.owes_an_end()
    }

    fn wake_by_pipe(&mut self, ended: Ended) {
        if let Some(pipe) = ended.pipe {
            // A pipe that is full is readable.
            let _ = (&self.pipes[pipe]).write(&[0]);
        }
        self.woken_at = (ended.n > 0).then(Instant::now);
    }

    /// Empties the pipe to which threads are sent next.
    fn empty_pipe(&self) {
        let next = 1 - self.page.pipe();
        while (&self.pipes[next]).read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
    }

    /// The earliest time that a thread waits for.
    pub(super) fn awaited_ms(&self) -> Option<u64> {
        Some(self.page.earliest()?.div_ceil(NS_OF_MS))
    }

    /// How often a thread has read the clock again and again, and did not wait.
    pub(super) fn n_spins(&self) -> u64 {
        self.page.n_spins()
    }

    /// N1.
    pub(super) fn repose(&mut self) -> Repose {
        self.wake_again();
        self.page.want();
        let before = self.page.look();
        if before == Look::Moves {
            return Repose::Moves;
        }
        let all_sleep = self.all_sleep();
        if self.page.look() != before {
            return Repose::Moves;
        }
        if all_sleep { Repose::AtRest } else { Repose::Soon }
    }

    /// N2.
    pub(super) fn hold(&mut self) -> bool {
        self.page.hold();
        let is_held = self.is_in_turns && self.repose() == Repose::AtRest;
        if !is_held {
            self.page.let_go();
        }
        is_held
    }

    pub(super) fn let_go(&mut self) {
        self.page.let_go();
    }

    /// The reason why the order of turns does not hold, if there is one.
    pub(super) fn failure(&self) -> Option<String> {
        if !self.is_in_turns {
            return None;
        }
        let n = self.page.threads().filter(|(_, _, serves)| *serves).count();
        if n > 1 {
            return Some(format!(
                "the program waits for descriptors in {n} threads or processes, so it has no \
                 turns that all copies share: say --program-order serial"
            ));
        }
        (self.page.n_escaped() > 0).then(|| {
            "the member was held up for a second while it fed a turn, so its copy may have seen \
             another one"
                .to_owned()
        })
    }

    /// Frees the slots of threads that have died without a word.
    pub(super) fn bury_the_dead(&mut self) {
        let Inside { page, stats, .. } = self;
        for (slot, thread, _) in page.threads() {
            sleeps(page, stats, slot, thread);
        }
    }

    fn all_sleep(&mut self) -> bool {
        let Inside { page, stats, suspect, .. } = self;
        let is_first = |slot: Slot| Some(slot.number()) == *suspect;
        let first = page.threads().filter(|(slot, ..)| is_first(*slot));
        let others = page.threads().filter(|(slot, ..)| !is_first(*slot));
        for (slot, thread, _) in first.chain(others) {
            if !sleeps(page, stats, slot, thread) {
                *suspect = Some(slot.number());
                return false;
            }
        }
        true
    }
}

/// Whether a thread sleeps. The slot of a dead one is freed.
fn sleeps(page: &Page<Sheet>, stats: &mut Stats, slot: Slot, thread: Thread) -> bool {
    match state(stats, slot, thread) {
        None | Some('Z' | 'X') => {
            stats.remove(&slot.number());
            page.bury(slot, thread);
            false
        }
        Some(state) => matches!(state, 'S' | 'I'),
    }
}

/// The kernel's word about a thread; `None` if no such thread exists.
fn state(stats: &mut Stats, slot: Slot, of: Thread) -> Option<char> {
    let is_known = stats.get(&slot.number()).is_some_and(|(thread, _)| *thread == of);
    if !is_known {
        let path = format!("/proc/{}/task/{}/stat", of.process, of.id);
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(_) => return Some('R'), // without a descriptor nothing is known of it
        };
        stats.insert(slot.number(), (of, file));
    }
    let (_, file) = stats.get(&slot.number())?;
    let mut line = [0; STAT_BYTES];
    let n = file.read_at(&mut line, 0).ok()?;
    state_of(&String::from_utf8_lossy(&line[..n]))
}

fn beside(page: &Path, end: &str) -> PathBuf {
    let mut path = page.as_os_str().to_owned();
    path.push(end);
    path.into()
}

fn make_pipe(path: &Path) -> Outcome<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    let made = rustix::fs::mknodat(CWD, path, FileType::Fifo, mode, 0).and_then(|()| {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())
    });
    made.map(File::from).map_err(|error| Failure::os("make a pipe for the copy's timers", error))
}

impl Drop for Inside {
    fn drop(&mut self) {
        // What is left is swept by the next process.
        let _ = std::fs::remove_file(&self.path);
        for end in [waits::NOTICES, waits::PIPES[0], waits::PIPES[1]] {
            let _ = std::fs::remove_file(beside(&self.path, end));
        }
    }
}

#[cfg(test)]
mod tests;
