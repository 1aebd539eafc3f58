//! Calls of one member, and calls to which each replies, where a real process dies by `kill -9`
//! while it executes: each call has an outcome.
//!
//! The test binary starts itself again as the process that is killed ([`child`]).

use group::{CallError, Here, Local, NoReply, Options, Replica, Transport, replicated};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

#[path = "common/memory.rs"]
mod memory;
#[path = "../examples/members/ports.rs"]
mod ports;
use memory::directory;

const PATIENCE: Duration = Duration::from_secs(60);
/// The variable with the directory, and on tcp the addresses, of the process that is started.
const ROLE: &str = "GREGALE_CALLS_OF_PROCESSES";

/// A sum, and the calls of one member.
#[derive(Default, Serialize, Deserialize)]
struct Sums {
    sum: u64,
    calls: Local<u64>,
}

#[replicated]
impl Sums {
    #[ordered]
    fn add(&mut self, n: u64) -> u64 {
        self.sum += n;
        self.sum
    }

    /// The number of calls before this one.
    #[p2p]
    fn count(&self, here: &Here) -> u64 {
        let mut calls = self.calls.lock(here);
        *calls += 1;
        *calls - 1
    }

    /// Says in a file that it runs, and does not end.
    #[p2p]
    fn hang(&self, _: &Here, file: PathBuf) {
        std::fs::write(file, "it runs").expect("the directory is there");
        loop {
            thread::park();
        }
    }
}

fn options(directory: &Path, addresses: &[SocketAddr]) -> Options {
    let options = memory::options("sums", directory, PATIENCE);
    match addresses {
        [] => options,
        _ => {
            let (addresses, seats) = (addresses.to_vec(), addresses.len());
            Options { seats, transport: Transport::Tcp { addresses, listen: None }, ..options }
        }
    }
}

/// The entry of the process that the other tests start; not a test of its own.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut words = role.split(' ');
    let directory = PathBuf::from(words.next().expect("a directory"));
    let addresses: Vec<SocketAddr> = words.map(|word| word.parse().expect("an address")).collect();
    let _member = Replica::<Sums>::join(&options(&directory, &addresses)).expect("it is let in");
    // Its parent ends it, or ends.
    let _over = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A process, which is killed at the end of a test that fails, too.
struct Started(Child);

impl Started {
    fn new(directory: &Path, addresses: &[SocketAddr]) -> Started {
        let words = addresses.iter().map(|address| format!(" {address}")).collect::<String>();
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, format!("{}{words}", directory.display())).stdin(Stdio::piped());
        Started(command.spawn().expect("it starts"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("it lives");
        self.0.wait().expect("it is dead");
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _dead = self.0.kill();
        let _gone = self.0.wait();
    }
}

fn a_process_is_killed_while_it_executes(addresses: &[SocketAddr]) {
    let directory = directory();
    let options = options(directory.path(), addresses);
    let first = SumsHandle::from(Replica::found(&options, Sums::default()).unwrap());
    let second = SumsHandle::from(Replica::join(&options).unwrap());
    let mut third = Started::new(directory.path(), addresses);
    let view = first.wait_view(|view| view.members.len() == 3, PATIENCE).expect("it is let in");
    let other = |one: &&group::Member| **one != first.me() && **one != second.me();
    let killed = *view.members.iter().find(other).expect("it is there");
    // A newcomer may not have its copy yet: it declines, and executes nothing.
    let by = Instant::now() + PATIENCE;
    let counted = loop {
        let counted = first.count_at(killed.seat).wait();
        if counted != Err(CallError::Declined(killed.seat)) || Instant::now() > by {
            break counted;
        }
    };
    assert_eq!((counted, first.count_at(killed.seat).wait()), (Ok(0), Ok(1)));
    let file = directory.path().join("hangs");
    let hangs = first.hang_at(killed.seat, file.clone());
    while !file.exists() {
        assert!(Instant::now() < by, "the call is not executed");
        let late = Duration::from_millis(10);
        assert_eq!(hangs.wait_for(late), Err(CallError::Late(late)));
    }
    let mut replies = second.add_each(7);
    assert_eq!(replies.wait(), Ok(Some((second.me(), Ok(7)))));
    assert_eq!(replies.wait(), Ok(Some((first.me(), Ok(7)))));
    third.kill();
    assert_eq!(hangs.wait(), Err(CallError::Lost(killed.seat)), "it had begun");
    assert_eq!(replies.wait(), Ok(Some((killed, Err(NoReply::Gone)))));
    assert_eq!(replies.wait(), Ok(None));
    assert_eq!(first.count_at(killed.seat).wait(), Err(CallError::Gone(killed.seat)));
    assert_eq!(second.add_each(1).all().unwrap().len(), 2);
}

#[test]
fn a_process_is_killed_while_it_executes_on_shm() {
    a_process_is_killed_while_it_executes(&[]);
}

#[test]
fn a_process_is_killed_while_it_executes_on_tcp() {
    a_process_is_killed_while_it_executes(&ports::free(4).expect("ports are free"));
}
