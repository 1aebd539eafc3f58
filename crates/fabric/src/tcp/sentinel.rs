//! The sentinel: a small process beside a node that tells the peers when the node's process dies.
//!
//! The kernel closes a dead process's connections only after it has freed its memory: 80 ms for a
//! gigabyte. The robust lock in the region is handed on before that, so a sentinel that waits for
//! it tells the peers tens of microseconds after the death, whatever the size. It is a process of
//! its own since a thread would die with the node, and it is on the same host since the lock is.
//!
//! One sentinel serves one life of the node: the process that starts the node starts its sentinel,
//! in a way that lets it outlive the node. The sentinel ends by itself, when the node has stopped,
//! died, or been succeeded. Its report is only a hint (T8): a false alarm makes peers suspect a
//! live node, and the number of the life distinguishes a late report from news.
//!
//! Invariants
//! - S1 A clean stop is not reported: the region is marked as removed before its lock is released.
//!   Tested by `a_clean_stop_is_not_reported`.
//! - S2 The thread that sees the death tells it to every connected peer directly: no other thread
//!   has to run first.
//! - S3 Every wait here is bounded: each connection has a deadline and a bounded retry, and after a
//!   death the peers that cannot be reached are given up after [`TELL_MAX`].

use super::attempt::{Attempt, Look};
use super::handshake::{Fresh, Handshake, Local};
use super::hello::Role;
use super::open::check;
use super::{RETRY_MAX, RETRY_MIN, socket, wire};
use crate::{OpenError, Setup};
use base::{Rank, SeatSet};
use region::Region;
use region::layout::SENTINEL;
use region::robust::Seen;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, test_kill_process};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time for which a sentinel whose node has died tries to reach peers without a connection.
pub const TELL_MAX: Duration = Duration::from_secs(2);

/// The interval at which the watch looks around while nothing happens.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The interval at which the watch looks for a node that is just starting.
const START_LOOK_EVERY: Duration = Duration::from_millis(2);

/// The end of a sentinel's watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The node stopped cleanly and its region is gone: no peer was told anything.
    Stopped,
    /// A later life of the node exists, with a sentinel of its own.
    Succeeded,
    /// The node's process died; these peers were told.
    Died {
        /// The peers that were told.
        told: SeatSet,
    },
}

/// The state that both threads share.
struct Board {
    state: Mutex<State>,
    /// A descriptor that is readable once there is a verdict.
    bell: OwnedFd,
}

struct State {
    /// The connections by which a death can be told, by rank.
    posts: Vec<Option<Arc<OwnedFd>>>,
    verdict: Option<Verdict>,
    /// The frame that tells it.
    news: Vec<u8>,
}

impl State {
    /// Tells one peer; the peer is removed from the list.
    fn tell(&mut self, rank: Rank) -> bool {
        let Some(post) = self.posts[rank.index()].take() else { return false };
        socket::send(&post, &self.news) == Ok(self.news.len())
    }
}

impl Board {
    /// No code here panics with the lock held, so a poisoned lock is valid.
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn conclude(&self, mut verdict: Verdict) {
        let mut state = self.lock();
        if let Verdict::Died { told } = &mut verdict {
            let ranks = Rank::all(state.posts.len());
            *told = ranks.filter(|rank| state.tell(*rank)).collect(); // S2
        }
        state.verdict = Some(verdict);
        drop(state);
        // A full counter is readable too.
        let _full = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// Watches the node of `setup`, whose region must exist already, until it ends. Blocks.
///
/// `addresses` are those of all members by rank.
///
/// # Errors
/// [`OpenError`] if there is no such region, or the watch cannot be kept.
pub fn run(setup: &Setup, addresses: &[SocketAddr]) -> Result<Verdict, OpenError> {
    check(setup, addresses)?;
    let region = Region::open_peer(&setup.directory, &setup.identity_of(setup.me, 0))?;
    let local = Local::of(setup, region.life());
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|errno| OpenError::os("make an event descriptor", errno))?;
    let mut news = Vec::new();
    wire::put_process_failed(&mut news, region.incarnation(), local.life);
    let posts = vec![None; setup.members];
    let board = Board { state: Mutex::new(State { posts, verdict: None, news }), bell };
    std::thread::scope(|scope| {
        let watch = std::thread::Builder::new()
            .name("sentinel-watch".into())
            .spawn_scoped(scope, || board.conclude(watch(&region, local.life)));
        watch.map_err(|error| OpenError::os("start the watching thread", error))?;
        Ok(Keeper::new(&local, addresses, &board).keep())
    })
}

/// Waits for the end of this life of the region's owner.
fn watch(region: &Region, life: u64) -> Verdict {
    // The thread sleeps all its life and must run at once when it is woken, on a host where, with a
    // node down, all other processes are busy.
    let _not_allowed = region::schedule::Pace::of_this_thread().hurry();
    let mut watch = region.watch(SENTINEL);
    let died = Verdict::Died { told: SeatSet::EMPTY };
    loop {
        let seen = watch.wait(LOOK_EVERY);
        if region.is_retired() {
            return Verdict::Stopped; // S1
        }
        match seen {
            // The ended life is a later one than this if its successor was faster than this thread,
            // and is over too: peers distinguish late reports from news.
            Seen::Ended(ended) if ended >= life => return died,
            Seen::Ended(_) if region.life() == life => {}
            // The node is alive by the lock, which another process may have overwritten.
            Seen::Alive if region.life() == life => {
                if !is_there(region.owner_pid()) {
                    return died;
                }
            }
            Seen::NobodyThere if region.life() == life => {
                // The owner has not taken its lock yet, or will never take it.
                if !is_there(region.owner_pid()) {
                    return died;
                }
                std::thread::sleep(START_LOOK_EVERY);
            }
            Seen::Ended(_) | Seen::Alive | Seen::NobodyThere => {
                return Verdict::Succeeded;
            }
        }
    }
}

fn is_there(pid: u64) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// The connection to a peer, as the keeper sees it.
enum Post {
    /// The keeper connects at this time.
    Retrying(Instant),
    Opening(Box<Attempt>),
    /// The connection is in the board's list.
    Standing(Arc<OwnedFd>),
    /// The peer was told, or is this node itself.
    Done,
}

/// The keeper of one connection to each peer, by which a death can be told.
struct Keeper<'a> {
    local: &'a Local,
    addresses: &'a [SocketAddr],
    board: &'a Board,
    posts: Vec<Post>,
    retry_after: Vec<Duration>,
    last_epoch: u64,
}

impl<'a> Keeper<'a> {
    fn new(local: &'a Local, addresses: &'a [SocketAddr], board: &'a Board) -> Keeper<'a> {
        let now = Instant::now();
        let posts = Rank::all(local.members)
            .map(|rank| if rank == local.me { Post::Done } else { Post::Retrying(now) })
            .collect();
        let retry_after = vec![RETRY_MIN; local.members];
        Keeper { local, addresses, board, posts, retry_after, last_epoch: 0 }
    }

    fn keep(mut self) -> Verdict {
        let mut give_up: Option<Instant> = None;
        loop {
            let verdict = self.board.lock().verdict;
            match verdict {
                None => {}
                Some(done @ (Verdict::Stopped | Verdict::Succeeded)) => return done,
                Some(done @ Verdict::Died { told }) => {
                    let now = Instant::now();
                    let end = *give_up.get_or_insert(now + TELL_MAX); // S3
                    for rank in told.iter() {
                        self.posts[rank.index()] = Post::Done;
                    }
                    if now >= end || self.posts.iter().all(|post| matches!(post, Post::Done)) {
                        return done;
                    }
                }
            }
            self.sleep(give_up);
            (0..self.posts.len()).for_each(|at| self.look(Rank::at(at)));
        }
    }

    /// Sleeps until an event or a deadline.
    fn sleep(&self, give_up: Option<Instant>) {
        let now = Instant::now();
        let due = self.posts.iter().filter_map(|post| match post {
            Post::Retrying(due) => Some(*due),
            Post::Opening(attempt) => Some(attempt.deadline),
            Post::Standing(_) | Post::Done => None,
        });
        let span = due.chain(give_up).min().map(|due| due.saturating_duration_since(now));
        let timeout = span.map(|span| Timespec {
            tv_sec: span.as_secs() as i64,
            tv_nsec: span.subsec_nanos().into(),
        });
        let sockets = self.posts.iter().filter_map(|post| match post {
            Post::Opening(attempt) => {
                let flags = if attempt.is_connected() { PollFlags::IN } else { PollFlags::OUT };
                Some(PollFd::from_borrowed_fd(attempt.socket.as_fd(), flags))
            }
            Post::Standing(socket) => Some(PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)),
            Post::Retrying(_) | Post::Done => None,
        });
        // Once it has rung it would only keep this thread from sleeping.
        let bell = give_up.is_none().then(|| PollFd::new(&self.board.bell, PollFlags::IN));
        let mut fds: Vec<_> = sockets.chain(bell).collect();
        // An interruption counts as a wake-up: the caller looks at everything anyway.
        let _interrupted = poll(&mut fds, timeout.as_ref());
    }

    fn look(&mut self, rank: Rank) {
        let at = rank.index();
        let now = Instant::now();
        let next = match &mut self.posts[at] {
            Post::Done => return,
            Post::Retrying(due) if *due > now => return,
            Post::Retrying(_) => self.open(rank),
            Post::Opening(attempt) => match attempt.look(self.local) {
                Ok(Look::Continue | Look::Connected) if attempt.deadline > now => return,
                Ok(Look::Welcomed(_)) => self.stand(rank),
                Ok(Look::Proven(_)) => unreachable!("a sentinel only connects"),
                // The attempt is too slow, refused or broken: the node's own link reports why.
                Ok(Look::Continue | Look::Connected) | Err(_) => self.retry(rank),
            },
            // Peers send nothing to sentinels: anything readable is the end.
            Post::Standing(socket) => match socket::receive(socket, &mut [0; 16]) {
                Ok(None) => return,
                Ok(Some(_)) | Err(_) => {
                    self.board.lock().posts[at] = None;
                    self.retry(rank)
                }
            },
        };
        self.posts[at] = next;
    }

    fn open(&mut self, rank: Rank) -> Post {
        self.last_epoch = socket::boottime_ns().max(self.last_epoch + 1);
        let fresh = Fresh { epoch: self.last_epoch, nonce: socket::nonce() };
        let handshake = Handshake::initiate(self.local, Role::Sentinel, rank, fresh);
        match socket::connect(self.addresses[rank.index()]) {
            Ok(socket) => Post::Opening(Box::new(Attempt::connecting(socket, 0, handshake))),
            Err(_) => self.retry(rank),
        }
    }

    /// Keeps the connection: the watch may tell a death by it, or must do so at once.
    fn stand(&mut self, rank: Rank) -> Post {
        let at = rank.index();
        let Post::Opening(attempt) = std::mem::replace(&mut self.posts[at], Post::Done) else {
            unreachable!("only a handshake ends in a standing connection")
        };
        self.retry_after[at] = RETRY_MIN;
        let socket = Arc::new(attempt.socket);
        let mut state = self.board.lock();
        state.posts[at] = Some(Arc::clone(&socket));
        if !matches!(state.verdict, Some(Verdict::Died { .. })) {
            return Post::Standing(socket);
        }
        if state.tell(rank) {
            if let Some(Verdict::Died { told }) = &mut state.verdict {
                told.insert(rank);
            }
            return Post::Done;
        }
        drop(state);
        self.retry(rank)
    }

    fn retry(&mut self, rank: Rank) -> Post {
        let after = &mut self.retry_after[rank.index()];
        let due = Instant::now() + *after;
        *after = (2 * *after).min(RETRY_MAX);
        Post::Retrying(due)
    }
}
