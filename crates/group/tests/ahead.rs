//! Queries ahead: pending versions of an object, while a member of the group stands still
//! (SIGSTOP), so that what the others hold is not delivered.
//!
//! The test binary starts itself again as the process that is stopped ([`child`]).

use group::{CallError, Options, Persistent, Refused, Replica, Time, Version, replicated};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

#[path = "common/memory.rs"]
mod memory;
use memory::directory;

const PATIENCE: Duration = Duration::from_secs(60);
/// The variable with the directory of the process that is started.
const ROLE: &str = "GREGALE_AHEAD_DIRECTORY";

/// The handle with which a method calls.
static CALLER: OnceLock<SumHandle> = OnceLock::new();
/// The outcomes of the questions that it asked a member.
static ASKED: Mutex<Vec<Result<u64, CallError>>> = Mutex::new(Vec::new());

/// A sum with its versions.
#[derive(Default, Serialize, Deserialize)]
struct Sum {
    sum: Persistent<u64>,
    n_calls: u64,
}

#[replicated]
impl Sum {
    #[ordered]
    fn add(&mut self, n: u64) -> u64 {
        *self.sum.change() += n;
        *self.sum
    }

    /// Calls, and counts itself.
    #[ordered]
    fn call(&mut self) -> u64 {
        self.n_calls += 1;
        if let Some(caller) = CALLER.get() {
            match caller.add(100).wait() {
                // At its turn: the call is made, and not waited for.
                Ok(_) | Err(CallError::InHandler) => {}
                Err(CallError::NotExecuted(Refused::Ahead)) => {}
                other => panic!("a call of a handler: {other:?}"),
            }
            let question = caller.at_most_at(caller.me().seat, 1000);
            ASKED.lock().expect("no panic").push(question.wait_for(Duration::ZERO));
        }
        self.n_calls
    }

    #[ordered]
    fn fail(&mut self) {
        panic!("it was asked to");
    }

    #[query]
    fn told(&self) -> (u64, u64, Version) {
        (*self.sum, self.n_calls, self.sum.latest().version)
    }

    #[query]
    fn at_most(&self, most: u64) -> u64 {
        assert!(*self.sum <= most, "it is more");
        *self.sum
    }

    #[query]
    fn times(&self) -> Vec<Time> {
        self.sum.moments().iter().map(|moment| moment.time).collect()
    }
}

fn options(directory: &Path) -> Options {
    let mut options = memory::options("sums", directory, PATIENCE);
    // No member takes the one that stands still for failed.
    options.timing.suspect_after = Duration::from_secs(600);
    options
}

/// The entry of the process that the other tests start; not a test of its own.
#[test]
fn child() {
    let Ok(directory) = std::env::var(ROLE) else { return };
    let options = options(&PathBuf::from(directory));
    let _member = Replica::<Sum>::join(&options).expect("it is let in");
    // Its parent ends it, or ends.
    let _over = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A process, which is killed at the end of a test that fails, too.
struct Started(Child);

impl Started {
    fn new(directory: &Path) -> Started {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, directory).stdin(Stdio::piped());
        Started(command.spawn().expect("it starts"))
    }

    /// Stops it. Returns when all its threads stand still.
    fn stop(&self) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::STOP).expect("it lives");
        let stopped = waitpid(Some(pid), WaitOptions::UNTRACED).expect("it is a child");
        assert!(stopped.is_some_and(|(_, status)| status.stopped()), "it stands still");
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _dead = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Two members here, and one in a process of its own, all with their copies.
fn three(directory: &Path) -> (SumHandle, SumHandle, Started) {
    let options = options(directory);
    let first = SumHandle::from(Replica::found(&options, Sum::default()).unwrap());
    let second = SumHandle::from(Replica::join(&options).unwrap());
    let third = Started::new(directory);
    let view = first.wait_view(|view| view.members.len() == 3, PATIENCE).expect("it is let in");
    let other = |one: &&group::Member| **one != first.me() && **one != second.me();
    let seat = view.members.iter().find(other).expect("it is there").seat;
    assert_eq!(first.told_at(seat).wait().map(|(sum, ..)| sum), Ok(0));
    (first, second, third)
}

/// Asks until the answer is the one that is waited for.
fn wait_for<T>(ask: impl Fn() -> T, is_meant: impl Fn(&T) -> bool) -> T {
    let by = Instant::now() + PATIENCE;
    loop {
        let answer = ask();
        if is_meant(&answer) {
            return answer;
        }
        assert!(Instant::now() < by, "it does not come");
    }
}

#[test]
fn a_query_ahead_sees_what_is_held_and_not_delivered() {
    let directory = directory();
    let (first, second, third) = three(directory.path());
    assert_eq!(first.add(1).wait(), Ok(1));
    let before = first.told().unwrap();
    third.stop();
    let late = Duration::from_millis(1);
    // (The turn of the third one, which says nothing, is behind them.)
    let call = second.add(7);
    let ahead = wait_for(|| first.told_ahead().unwrap(), |(sum, ..)| *sum == 8);
    assert!(ahead.2 > before.2, "it is a version of its own");
    let times = first.times_ahead().unwrap();
    assert_eq!(times.len(), 3, "that of the beginning, and one for each call");
    assert_eq!(first.told(), Ok(before), "nothing is executed");
    assert_eq!(call.wait_for(late), Err(CallError::Late(late)));
    kill_process(Pid::from_child(&third.0), Signal::CONT).expect("it lives");
    assert_eq!(call.wait(), Ok(8));
    assert_eq!(first.told_ordered().wait(), Ok(ahead), "what was pending has come");
    assert_eq!(first.times_ordered().wait(), Ok(times));
    assert_eq!(first.told_ahead(), Ok(ahead), "nothing is held, and the answer is that of now");
    assert_eq!(first.in_shard(1).told_ahead(), Err(CallError::NoCopy));
    let panicked = catch_unwind(AssertUnwindSafe(|| first.at_most_ahead(7)));
    assert!(panicked.is_err(), "it is the caller's");
    assert_eq!(first.at_most_ahead(8), Ok(8), "and harms no later one");
}

#[test]
fn what_is_executed_ahead_calls_nothing_and_is_executed_once() {
    let directory = directory();
    let (first, second, mut third) = three(directory.path());
    CALLER.set(first.clone()).unwrap_or_else(|_| panic!("another test has set it"));
    third.stop();
    let call = second.call();
    let ahead = |n: u64| wait_for(|| first.told_ahead().unwrap(), |(_, calls, _)| *calls == n);
    assert_eq!(ahead(1).0, 0);
    assert_eq!(ahead(1).0, 0, "the one before has called nothing");
    let asked = std::mem::take(&mut *ASKED.lock().expect("no panic"));
    assert!(!asked.is_empty());
    assert!(
        asked.iter().all(|one| *one == Err(CallError::NotExecuted(Refused::Ahead))),
        "{asked:?}"
    );
    // The next view has what was held, without the dead one.
    third.0.kill().expect("it lives");
    first.wait_view(|view| view.members.len() == 2, PATIENCE).expect("the kernel tells the death");
    assert_eq!(call.wait(), Ok(1));
    // Each of both members here has called, at its turn.
    let told = wait_for(|| first.told_ordered().wait().unwrap(), |(sum, ..)| *sum == 200);
    assert_eq!(told.1, 1);
}

#[test]
fn a_query_ahead_names_a_call_that_will_panic() {
    let directory = directory();
    let (first, second, third) = three(directory.path());
    third.stop();
    second.fail().forget();
    let answer = wait_for(|| first.told_ahead(), Result::is_err);
    assert_eq!(answer, Err(CallError::PanicsAhead { method: "fail" }));
    assert_eq!(first.told().map(|(sum, ..)| sum), Ok(0), "nothing has ended here");
}
