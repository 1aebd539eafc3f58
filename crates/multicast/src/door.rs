//! The door itself: a node on a thread of its own, and calls into it from any other thread.
//!
//! - O1 Every queue between the threads is bounded: requests by `Limits::window`, deliveries by
//!   `Limits::deliveries` (softly: one turn's deliveries may come on top), outcomes by the
//!   requests.
//! - O2 Every wait has a deadline; a loop that ends wakes all waiting threads.

use crate::driver::Descriptors;
use crate::open::{Error, Seat, run};
use crate::system::System;
use engine::multicast::{
    Application, Delivery, Desk, MemberView, Options, Outcome, PAYLOAD_BYTES_MAX, Refused,
};
use proto::amcast::wire::is_addressable;
use proto::amcast::{AFTER_MAX, GroupId, GroupSet, Layout, MessageId, Timestamp};
use runtime::{Interest, Poller, Ready};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const KEY_BELL: u64 = 0;
/// The time beyond its patience after which a request is reported as unknown: the loop's own
/// deadlines come first, unless the loop does not run at all.
const GRACE: Duration = Duration::from_secs(1);

/// A time longer than any wait, and short enough to be added to any instant.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The reason why a message has no timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// It was surely not multicast.
    #[error("not multicast: {0}")]
    Refused(#[from] Refused),
    /// The outcome is unknown: it may have been delivered, or may still be, everywhere or nowhere.
    #[error("unknown: the message may have been delivered, may still be, or never")]
    Unknown,
}

/// A message that is under way.
#[derive(Debug)]
pub struct Pending {
    answer: Receiver<Result<Timestamp, Failed>>,
    give_up_at: Instant,
}

impl Pending {
    /// Waits until the message was delivered somewhere, or its patience is over.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn wait(self) -> Result<Timestamp, Failed> {
        let left = self.give_up_at.saturating_duration_since(Instant::now());
        self.answer.recv_timeout(left).unwrap_or(Err(Failed::Unknown))
    }
}

struct Request {
    dest: GroupSet,
    payload: Arc<[u8]>,
    options: Options,
    deadline: Instant,
    answer: SyncSender<Result<Timestamp, Failed>>,
}

#[derive(Default)]
struct Board {
    requests: VecDeque<Request>,
    deliveries: VecDeque<Delivery>,
    views: Vec<MemberView>,
    has_ended: bool,
}

/// The end of the loop: whatever ends it, a panic as well, no thread waits for it (O2).
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        let mut board = self.0.board();
        board.has_ended = true;
        let requests = std::mem::take(&mut board.requests);
        drop(board);
        self.0.news.notify_all();
        for request in requests {
            // The node has not seen it.
            tell(&request.answer, Err(Refused::Stopped.into()));
        }
    }
}

struct Shared {
    board: Mutex<Board>,
    /// Signals that something was delivered, or that the loop has ended.
    news: Condvar,
    bell: OwnedFd,
    /// Whether the bell was rung and not heard: a burst of requests costs one system call.
    has_rung: AtomicBool,
    stops: AtomicBool,
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        // No holder leaves the board half changed when it panics.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        if !self.has_rung.swap(true, Ordering::SeqCst) {
            // A full counter is a bell that rings already.
            let _rings = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }
}

/// One node of a system of atomic multicast, on a thread of its own. Dropping it stops the node.
#[derive(Debug)]
pub struct Door {
    shared: Arc<Shared>,
    layout: Layout,
    window: usize,
    deliveries_max: usize,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("stops", &self.stops).finish_non_exhaustive()
    }
}

impl Door {
    /// Opens the node and starts its thread.
    ///
    /// # Errors
    /// [`Error`]; nothing is left behind.
    pub fn open(system: &System, seat: Seat) -> Result<Door, Error> {
        let places = system.check()?;
        let node = seat.node;
        let stopped = |source: io::Error| Error::Stopped { node, source };
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|errno| stopped(errno.into()))?;
        let shared = Arc::new(Shared {
            board: Mutex::new(Board::default()),
            news: Condvar::new(),
            bell,
            has_rung: AtomicBool::new(false),
            stops: AtomicBool::new(false),
        });
        let (opened, is_open) = sync_channel(1);
        let counter = Counter {
            shared: shared.clone(),
            opened: Some(opened),
            waiting: HashMap::new(),
            deliveries: Vec::new(),
            deliveries_max: system.limits.deliveries,
            is_full: false,
        };
        let (system, ends) = (system.clone(), shared.clone());
        let (window, deliveries_max) = (system.limits.window, system.limits.deliveries);
        let body = move || {
            let stop = |app: &mut Counter| app.shared.stops.load(Ordering::SeqCst);
            let _last = Last(ends);
            run(&system, seat, counter, stop).map(drop)
        };
        let name = format!("multicast-{node}");
        let thread = std::thread::Builder::new().name(name).spawn(body).map_err(stopped)?;
        let layout = places.layout().clone();
        let mut door = Door { shared, layout, window, deliveries_max, thread: Some(thread) };
        match is_open.recv() {
            Ok(()) => Ok(door),
            // The loop ended before the node was open: its error says why.
            Err(_) => match door.join() {
                Err(error) => Err(error),
                Ok(()) => Err(stopped(io::Error::other("it ended before it began"))),
            },
        }
    }

    /// Multicasts `payload` to `dest`.
    ///
    /// # Errors
    /// [`Refused`]: nothing happened. ([`Pending::wait`] can still report it, too.)
    pub fn multicast(
        &self,
        dest: GroupSet,
        payload: impl Into<Arc<[u8]>>,
        options: &Options,
    ) -> Result<Pending, Refused> {
        let payload: Arc<[u8]> = payload.into();
        if !is_addressable(dest, &self.layout) {
            return Err(Refused::NoSuchGroup { dest, n_groups: self.layout.n_groups() });
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Refused::TooLong { n_bytes: payload.len() });
        }
        if options.after > AFTER_MAX {
            return Err(Refused::AfterTooHigh { after: options.after });
        }
        let deadline = Instant::now() + options.patience.min(FOREVER);
        let (sender, answer) = sync_channel(1);
        let mut board = self.shared.board();
        if board.has_ended {
            return Err(Refused::Stopped);
        }
        // The requests that wait here are bounded, and so are those that the desk takes (O1).
        if board.requests.len() >= self.window {
            return Err(Refused::WindowFull { window: self.window });
        }
        let options = *options;
        board.requests.push_back(Request { dest, payload, options, deadline, answer: sender });
        drop(board);
        self.shared.ring();
        Ok(Pending { answer, give_up_at: deadline + GRACE })
    }

    /// The next delivery of any group that has a member here, each group's in its order; `None`
    /// after the timeout, or if the node has ended.
    pub fn next(&self, timeout: Duration) -> Option<Delivery> {
        let until = Instant::now() + timeout.min(FOREVER);
        let mut board = self.shared.board();
        loop {
            let was_full = board.deliveries.len() >= self.deliveries_max;
            if let Some(delivery) = board.deliveries.pop_front() {
                drop(board);
                if was_full {
                    self.shared.ring();
                }
                return Some(delivery);
            }
            let left = until.saturating_duration_since(Instant::now());
            // Neither an ended loop nor a silent one blocks a thread (O2).
            if board.has_ended || left.is_zero() {
                return None;
            }
            let (again, _) =
                self.shared.news.wait_timeout(board, left).unwrap_or_else(PoisonError::into_inner);
            board = again;
        }
    }

    /// The states of the members that live here.
    pub fn members(&self) -> Vec<MemberView> {
        self.shared.board().views.clone()
    }

    /// The timestamp up to which the member here has delivered every message to `group`. Ask first,
    /// then take the deliveries that [`Door::next`] has: after that the state is a snapshot at this
    /// timestamp. `None` without a member here, or where the protocol does not provide it.
    pub fn safe_ts(&self, group: GroupId) -> Option<Timestamp> {
        self.shared.board().views.iter().find(|view| view.group == group)?.safe_ts
    }

    /// The groups and their sizes.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Stops the node and waits until it has left.
    ///
    /// # Errors
    /// [`Error`], if it had stopped by itself.
    pub fn close(mut self) -> Result<(), Error> {
        self.join()
    }

    fn join(&mut self) -> Result<(), Error> {
        self.shared.stops.store(true, Ordering::SeqCst);
        self.shared.ring();
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if self.thread.is_some() && !std::thread::panicking() {
            // To learn why it ended, a caller uses `close`.
            let _ended = self.join();
        }
    }
}

/// The loop's side.
struct Counter {
    shared: Arc<Shared>,
    opened: Option<SyncSender<()>>,
    waiting: HashMap<MessageId, SyncSender<Result<Timestamp, Failed>>>,
    /// The deliveries that are not on the board yet.
    deliveries: Vec<Delivery>,
    deliveries_max: usize,
    is_full: bool,
}

impl Counter {
    fn take_requests(&mut self, desk: &mut Desk) -> bool {
        let requests = std::mem::take(&mut self.shared.board().requests);
        let worked = !requests.is_empty();
        for Request { dest, payload, options, deadline, answer } in requests {
            let patience = deadline.saturating_duration_since(Instant::now());
            let options = Options { patience, ..options };
            match desk.multicast(dest, payload, &options) {
                Ok(id) => {
                    self.waiting.insert(id, answer);
                }
                Err(refused) => tell(&answer, Err(refused.into())),
            }
        }
        worked
    }
}

fn tell(answer: &SyncSender<Result<Timestamp, Failed>>, outcome: Result<Timestamp, Failed>) {
    // The asker may have gone, and then needs no answer.
    let _gone = answer.try_send(outcome);
}

impl Descriptors for Counter {
    fn begin(&mut self, poller: &Poller) -> io::Result<()> {
        poller.add(&self.shared.bell, KEY_BELL, Interest::Read)?;
        if let Some(opened) = self.opened.take() {
            // Only a thread that died meanwhile does not listen.
            let _heard = opened.send(());
        }
        Ok(())
    }

    fn on_ready(&mut self, _: Ready, _: &mut Desk) {
        let mut count = [0; 8];
        // The counter is level-triggered and only a bell: the requests are on the board.
        let _count = rustix::io::read(&self.shared.bell, &mut count);
        self.shared.has_rung.store(false, Ordering::SeqCst);
    }
}

impl Application for Counter {
    fn deliver(&mut self, delivery: Delivery, _: &mut Desk) {
        self.deliveries.push(delivery);
    }

    fn outcome(&mut self, id: MessageId, outcome: Outcome, _: &mut Desk) {
        if let Some(answer) = self.waiting.remove(&id) {
            let outcome = match outcome {
                Outcome::Delivered(at) => Ok(at),
                Outcome::Unknown => Err(Failed::Unknown),
            };
            tell(&answer, outcome);
        }
    }

    fn turn(&mut self, desk: &mut Desk) -> bool {
        let has_news = !self.deliveries.is_empty();
        let mut board = self.shared.board();
        board.deliveries.extend(self.deliveries.drain(..));
        board.views.clear();
        board.views.extend_from_slice(desk.members());
        self.is_full = board.deliveries.len() >= self.deliveries_max;
        drop(board);
        if has_news {
            self.shared.news.notify_all();
        }
        self.take_requests(desk)
    }

    fn is_full(&self) -> bool {
        self.is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o2_a_loop_that_ends_refuses_the_requests_that_it_has_not_taken() {
        let shared = Arc::new(Shared {
            board: Mutex::default(),
            news: Condvar::new(),
            bell: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap(),
            has_rung: AtomicBool::new(false),
            stops: AtomicBool::new(false),
        });
        let (sender, answer) = sync_channel(1);
        shared.board().requests.push_back(Request {
            dest: GroupSet::default(),
            payload: Arc::from(&b"x"[..]),
            options: Options::default(),
            deadline: Instant::now() + FOREVER,
            answer: sender,
        });
        drop(Last(Arc::clone(&shared)));
        assert_eq!(answer.try_recv(), Ok(Err(Failed::Refused(Refused::Stopped))));
        assert!(shared.board().has_ended && shared.board().requests.is_empty());
    }
}
