//! `kill -9` of leaders under a replicated program: a client of a survivor counts on one
//! connection, and each answer must be the last one plus one.

use super::program::Program;
use crate::cluster::Cluster;
use crate::group::Error;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The answers before a kill, and after it.
const ANSWERS: u64 = 500;

/// What a client that counts tells, and is told.
#[derive(Debug, Default)]
struct Counting {
    n_heard: AtomicU64,
    /// The longest wait for an answer that ended since it was set to zero.
    longest_ns: AtomicU64,
    is_over: AtomicBool,
}

/// Kills the leader; nanoseconds of the longest silence of a client of a survivor.
///
/// # Errors
/// The client loses its connection, or hears another number than the next; or the killed member
/// does not come back.
pub(super) fn silence(cluster: &Cluster, program: Program) -> Result<f64, Error> {
    let (leader, follower) = cluster.ports()?;
    let pid = cluster.pid_at(leader)?;
    let counting = Counting::default();
    std::thread::scope(|scope| {
        let counts = scope.spawn(|| count(follower, program, &counting));
        let wait_for = |n: u64| {
            while counting.n_heard.load(Ordering::Relaxed) < n && !counts.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        wait_for(ANSWERS);
        counting.longest_ns.store(0, Ordering::Relaxed);
        let killed = kill(pid);
        wait_for(counting.n_heard.load(Ordering::Relaxed) + ANSWERS);
        counting.is_over.store(true, Ordering::Relaxed);
        let counted = counts.join().expect("its errors are returned");
        let doing = format!("count at port {follower} while the leader dies");
        killed.and(counted.map_err(|error| Error::os(doing, error)))
    })?;
    cluster.wait_until_level(leader, pid)?;
    Ok(counting.longest_ns.into_inner() as f64)
}

fn kill(pid: u32) -> Result<(), Error> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Error::Peer("the leader has no pid".to_owned()))?;
    kill_process(pid, Signal::KILL).map_err(|errno| Error::os("kill a leader", errno))
}

/// Counts until it is told to end. Each wait has a deadline.
fn count(port: u16, program: Program, counting: &Counting) -> std::io::Result<()> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    let mut ask = |words: &str| {
        stream.get_mut().write_all(words.as_bytes())?;
        line.clear();
        match stream.read_line(&mut line)? {
            0 => Err(std::io::Error::other("the connection was closed")),
            _ => Ok(line.trim_matches(|c: char| c == ':' || c.is_whitespace()).to_owned()),
        }
    };
    ask(program.zero())?;
    let mut last = 0;
    while !counting.is_over.load(Ordering::Relaxed) {
        let asked_at = Instant::now();
        let heard = ask(program.increment())?;
        if heard != (last + 1).to_string() {
            return Err(std::io::Error::other(format!("{heard:?} follows {last}")));
        }
        last += 1;
        let waited_ns = asked_at.elapsed().as_nanos() as u64;
        counting.longest_ns.fetch_max(waited_ns, Ordering::Relaxed);
        counting.n_heard.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
