//! The thread that writes and syncs the poll loop's batches.
//!
//! The poll loop fills one batch while the disk works on another; it never waits.
//! [`Committer::pump`] hands batches over and learns which are done; the thread calls `wake` when
//! there is news.
//!
//! - I1 **Bounded.** At most [`IN_FLIGHT_MAX`] batches are handed over; the log's own bound
//!   ([`Options::unsynced_bytes`](crate::Options)) applies to the rest.
//! - I2 **A full disk delays batches**, and so does the want of a descriptor. The batch stays with
//!   the thread, which tries again when segments are freed and every [`RETRY`]; nothing is lost or
//!   reordered.
//! - I3 **A failed disk ends the thread.** After a fatal error nothing more is written, and every
//!   later [`Committer::pump`] returns the error. The same holds for a thread that panics.
//! - I4 **A batch waits for at most two old segments.** They are given back one at a time, when no
//!   job waits or the disk is full; and behind each segment that batches fill, at most
//!   `RELEASED_PER_FILLED`: more than one, so that old ones do not pile up if batches never
//!   pause.

use crate::log::{Batch, Flush, Log, Position, Prepared, WriteError, Writer};
use crate::media::Media;
use base::Instant;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The most batches that the thread may have.
pub const IN_FLIGHT_MAX: usize = 2;
/// The size from which a second batch is handed over: a small one gains more by waiting for other
/// records than the disk loses by idling for the time of one hand-over.
const SECOND_BYTES: usize = 64 * 1024;
/// The number of old segments that are given back for each one that is filled, even if jobs wait.
const RELEASED_PER_FILLED: usize = 2;
/// The interval at which a full disk is tried again.
pub const RETRY: Duration = Duration::from_millis(100);
/// The time after which a batch is reported as [`Report::Stalled`].
pub const STALLED_AFTER: Duration = Duration::from_millis(500);

/// The news from [`Committer::pump`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Everything that this request and earlier ones cover is durable.
    Synced(Flush),
    /// The disk is full, or no file can be opened: at most the current segment has room. The text
    /// names the directory.
    Full(String),
    /// The disk has room again.
    Room,
    /// A batch has been with the disk for longer than [`STALLED_AFTER`].
    Stalled,
    /// That batch is done.
    Flowing,
}

enum Job {
    Write(Arc<Batch>),
    Release(u32),
}

/// The thread's news, which is cumulative and therefore needs no queue.
#[derive(Default)]
struct News {
    done: Option<Position>,
    n_done: usize,
    full: Option<String>,
    fatal: Option<String>,
}

/// The poll loop's end of the thread.
#[derive(Debug)]
pub struct Committer {
    /// `None` only while it is dropped.
    jobs: Option<Sender<Job>>,
    news: Arc<Mutex<News>>,
    thread: Option<JoinHandle<()>>,
    n_in_flight: usize,
    /// The time at which the oldest batch of the thread was last known to make progress.
    since: Instant,
    is_full: bool,
    is_stalled: bool,
    /// Whether its user was told that the thread has ended.
    has_failed: bool,
}

impl std::fmt::Debug for News {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("News").field("done", &self.done).finish_non_exhaustive()
    }
}

/// The error of a disk that failed for good: the process must stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fatal(pub String);

impl Committer {
    /// Starts the thread. `wake` is called from it, and must not block.
    pub fn start<M>(
        writer: Writer<M>,
        wake: impl Fn() + Send + 'static,
    ) -> std::io::Result<Committer>
    where
        M: Media + Send + 'static,
        M::File: Send,
    {
        let (jobs, inbox) = channel();
        let news = Arc::new(Mutex::new(News::default()));
        let mut worker = Worker::new(writer, inbox, Arc::clone(&news), Box::new(wake));
        let builder = std::thread::Builder::new().name("committer".to_owned());
        let thread = builder.spawn(move || worker.run())?;
        Ok(Committer {
            jobs: Some(jobs),
            news,
            thread: Some(thread),
            n_in_flight: 0,
            since: Instant::ZERO,
            is_full: false,
            is_stalled: false,
            has_failed: false,
        })
    }

    /// Hands over the log's batches, and appends the news. Call it after each turn that used the
    /// log, and when woken.
    pub fn pump<M: Media>(
        &mut self,
        log: &mut Log<M>,
        now: Instant,
        out: &mut Vec<Report>,
    ) -> Result<(), Fatal> {
        let (done, n_done, full, fatal) = {
            let mut news = locked(&self.news);
            let n_done = std::mem::take(&mut news.n_done);
            (news.done.take(), n_done, news.full.clone(), news.fatal.clone())
        };
        if let Some(fatal) = fatal {
            self.has_failed = true;
            return Err(Fatal(fatal));
        }
        if let Some(end) = done {
            log.done(end);
            self.n_in_flight -= n_done;
            self.since = now;
            if std::mem::take(&mut self.is_stalled) {
                out.push(Report::Flowing);
            }
        }
        out.extend(log.flushed().map(Report::Synced));
        if full.is_some() != self.is_full {
            self.is_full = full.is_some();
            // The batch that waited for space makes progress only from now on.
            self.since = now;
            out.push(full.map_or(Report::Room, Report::Full));
        }
        if let Some(oldest) = log.take_release() {
            self.send(Job::Release(oldest))?;
        }
        // I1.
        while self.n_in_flight < IN_FLIGHT_MAX
            && (self.n_in_flight == 0 || log.n_wanted() >= SECOND_BYTES)
            && let Some(batch) = log.take()
        {
            if self.n_in_flight == 0 {
                self.since = now;
            }
            self.n_in_flight += 1;
            self.send(Job::Write(batch))?;
        }
        let waits = self.n_in_flight > 0 && now.since(self.since) > STALLED_AFTER;
        // A batch that waits for space tells nothing about the disk's speed.
        if waits && !self.is_stalled && !self.is_full {
            self.is_stalled = true;
            out.push(Report::Stalled);
        }
        Ok(())
    }

    /// The number of batches that the thread has.
    pub fn n_in_flight(&self) -> usize {
        self.n_in_flight
    }

    fn send(&self, job: Job) -> Result<(), Fatal> {
        let jobs = self.jobs.as_ref().expect("it is not being dropped");
        jobs.send(job).map_err(|_| Fatal("the committer thread has ended".to_owned()))
    }
}

impl Drop for Committer {
    /// Waits for the batch that the disk is writing; the rest was not promised to any caller.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !self.has_failed
            && !std::thread::panicking()
        {
            panic!("the committer thread panicked");
        }
    }
}

fn locked(news: &Mutex<News>) -> MutexGuard<'_, News> {
    // Each field is valid by itself whatever happens on the other side.
    news.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Worker<M: Media> {
    writer: Writer<M>,
    inbox: Receiver<Job>,
    pending: VecDeque<Arc<Batch>>,
    news: Arc<Mutex<News>>,
    wake: Box<dyn Fn() + Send>,
    is_full: bool,
    /// The bound below which old segments are to be given back, if any are left.
    to_release: Option<u32>,
}

/// The end of the thread by a panic, after which the poll loop must not wait for it (I3).
impl<M: Media> Drop for Worker<M> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            locked(&self.news).fatal = Some("the thread that writes the log has panicked".into());
            (self.wake)();
        }
    }
}

impl<M: Media> Worker<M> {
    fn new(
        writer: Writer<M>,
        inbox: Receiver<Job>,
        news: Arc<Mutex<News>>,
        wake: Box<dyn Fn() + Send>,
    ) -> Worker<M> {
        let pending = VecDeque::new();
        Worker { writer, inbox, pending, news, wake, is_full: false, to_release: None }
    }

    fn run(&mut self) {
        loop {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    // I3: the thread ends here.
                    locked(&self.news).fatal = Some(error.to_string());
                    (self.wake)();
                    return;
                }
            }
        }
    }

    /// Does one job, or a step of other work. False if no job will come.
    fn turn(&mut self) -> Result<bool, WriteError> {
        let Some(job) = self.next() else { return Ok(false) };
        match job {
            Some(Job::Write(batch)) => {
                self.pending.push_back(batch);
                self.work()?;
            }
            Some(Job::Release(oldest)) => self.to_release = Some(oldest),
            // This runs only when no job waits: a step would delay it. The segment that is given
            // back may be the next one, without zeros.
            None => self.release().and_then(|()| self.work()).and_then(|()| self.prepare())?,
        }
        Ok(true)
    }

    /// The next job; `Some(None)` if there is other work; `None` if no job will come.
    fn next(&self) -> Option<Option<Job>> {
        let waits_for_room = self.is_full && self.to_release.is_none();
        if waits_for_room {
            // I2: try again from time to time.
            return match self.inbox.recv_timeout(RETRY) {
                Ok(job) => Some(Some(job)),
                Err(RecvTimeoutError::Timeout) => Some(None),
                Err(RecvTimeoutError::Disconnected) => None,
            };
        }
        if self.to_release.is_some() || self.writer.wants_preparation() {
            return match self.inbox.try_recv() {
                Ok(job) => Some(Some(job)),
                Err(TryRecvError::Empty) => Some(None),
                Err(TryRecvError::Disconnected) => None,
            };
        }
        self.inbox.recv().ok().map(Some)
    }

    /// Writes the pending batches, as far as there is space.
    fn work(&mut self) -> Result<(), WriteError> {
        while let Some(batch) = self.pending.front() {
            let segment = self.writer.synced().segment();
            match self.writer.write(batch) {
                Ok(()) => {}
                Err(error) if error.passes() => {
                    self.wait_for_room(&error);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            {
                let mut news = locked(&self.news);
                news.done = Some(batch.end());
                news.n_done += 1;
            }
            (self.wake)();
            self.pending.pop_front();
            if self.writer.synced().segment() > segment {
                // I4
                (0..RELEASED_PER_FILLED).try_for_each(|_| self.release())?;
            }
        }
        Ok(())
    }

    /// Gives back an old segment, if there is one to be given back.
    fn release(&mut self) -> Result<(), WriteError> {
        if let Some(oldest) = self.to_release
            && !self.writer.release(oldest)?
        {
            self.to_release = None;
        }
        Ok(())
    }

    /// Performs a step towards the next segment; its success distinguishes a full disk from one
    /// with room.
    fn prepare(&mut self) -> Result<(), WriteError> {
        match self.writer.prepare() {
            Ok(Prepared::More | Prepared::Ready) if self.is_full => self.full(None),
            Ok(Prepared::More | Prepared::Ready) => {}
            Err(error) if error.passes() => self.wait_for_room(&error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// I2
    fn wait_for_room(&mut self, error: &WriteError) {
        if !self.is_full {
            self.full(Some(error.to_string()));
        }
    }

    fn full(&mut self, full: Option<String>) {
        self.is_full = full.is_some();
        locked(&self.news).full = full;
        (self.wake)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{self, Opened, Options};
    use crate::media::Simulated;
    use base::Ballot;

    const LOG: u64 = 3;
    const N_OLD: u32 = 100;

    fn options() -> Options {
        Options {
            segment_bytes: Options::SEGMENT_MIN,
            unsynced_bytes: 8 << 20,
            ..Options::default()
        }
    }

    /// The batches of `n_segments` segments more.
    fn fill(log: &mut Log<Simulated>, n_segments: u32) -> Vec<Arc<Batch>> {
        (0..n_segments).for_each(|_| append(log, options().payload_max()));
        taken(log)
    }

    fn append(log: &mut Log<Simulated>, n_bytes: usize) {
        log.append(log.end(), Ballot(1), 1, &vec![9; n_bytes]).unwrap();
    }

    fn taken(log: &mut Log<Simulated>) -> Vec<Arc<Batch>> {
        log.sync();
        std::iter::from_fn(|| log.take()).collect()
    }

    /// A log that needs none of its [`N_OLD`] oldest segments, and the request to give them back.
    fn freed() -> (Simulated, Opened<Simulated>, Job) {
        let disk = Simulated::new();
        let mut opened = log::open(&disk, &options(), LOG).unwrap();
        let end = loop {
            if opened.writer.synced().segment() >= N_OLD {
                break opened.log.end();
            }
            for batch in fill(&mut opened.log, 1) {
                opened.writer.write(&batch).unwrap();
                opened.log.done(batch.end());
            }
        };
        opened.log.free_below(end);
        append(&mut opened.log, 1);
        for batch in taken(&mut opened.log) {
            opened.writer.write(&batch).unwrap();
            opened.log.done(batch.end());
        }
        let oldest = opened.log.take_release().expect("they are not needed");
        assert!(oldest >= N_OLD, "{oldest}");
        (disk, opened, Job::Release(oldest))
    }

    fn n_segments(disk: &Simulated) -> usize {
        let names = disk.list().unwrap();
        names.iter().filter(|name| name.starts_with("log-")).count()
    }

    /// Has the thread's work done for jobs that have all come before it begins. Returns how many
    /// operations the disk had performed at the end of each batch.
    fn work(disk: &Simulated, writer: Writer<Simulated>, jobs: Vec<Job>) -> Vec<u64> {
        let (sender, inbox) = channel();
        jobs.into_iter().for_each(|job| sender.send(job).unwrap());
        drop(sender);
        let ended = Arc::new(Mutex::new(Vec::new()));
        let (at, watched) = (Arc::clone(&ended), disk.clone());
        let wake = move || at.lock().unwrap().push(watched.counts().0);
        let news = Arc::new(Mutex::new(News::default()));
        Worker::new(writer, inbox, Arc::clone(&news), Box::new(wake)).run();
        assert_eq!(locked(&news).fatal, None);
        let ended = ended.lock().unwrap();
        ended.clone()
    }

    /// The trap: a snapshot of a large state frees hundreds of segments at once, each with a sync
    /// of the directory, and the leader was deposed for a batch that waited for all of them.
    #[test]
    fn i4_a_batch_does_not_wait_until_all_old_segments_are_given_back() {
        let (disk, mut opened, release) = freed();
        append(&mut opened.log, 10);
        let batches = taken(&mut opened.log);
        let jobs = [release].into_iter().chain(batches.into_iter().map(Job::Write));
        let before = disk.counts().0;
        let ended = work(&disk, opened.writer, jobs.collect());
        assert_eq!(ended.len(), 1);
        assert!(ended[0] - before <= 10, "{} operations", ended[0] - before);
    }

    /// The trap of that: batches that never pause would fill the disk with what is not needed.
    #[test]
    fn i4_old_segments_are_given_back_though_batches_never_pause() {
        let (disk, mut opened, release) = freed();
        let before = n_segments(&disk);
        let batches = fill(&mut opened.log, N_OLD);
        let n_batches = batches.len();
        let jobs = [release].into_iter().chain(batches.into_iter().map(Job::Write));
        assert_eq!(work(&disk, opened.writer, jobs.collect()).len(), n_batches);
        let now = n_segments(&disk);
        assert!(now.abs_diff(before) <= 2, "{N_OLD} came and as many went: {before} became {now}");
    }

    /// A segment that is given back is the room for the next one.
    #[test]
    fn i2_a_full_disk_gets_its_room_from_old_segments() {
        let (disk, mut opened, release) = freed();
        let used = disk.used();
        disk.set_faults(|faults| faults.capacity = Some(used));
        let batches = fill(&mut opened.log, 8);
        let (sender, inbox) = channel();
        sender.send(release).unwrap();
        batches.iter().for_each(|batch| sender.send(Job::Write(Arc::clone(batch))).unwrap());
        let news = Arc::new(Mutex::new(News::default()));
        let mut worker = Worker::new(opened.writer, inbox, Arc::clone(&news), Box::new(|| ()));
        for _ in 0..100 {
            assert!(worker.turn().unwrap());
            if locked(&news).n_done == batches.len() {
                return;
            }
        }
        panic!("{} of {} batches are written", locked(&news).n_done, batches.len());
    }
}
