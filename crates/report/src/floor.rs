//! What this machine can do at best: the floors beside which a result is read.
//!
//! Each is measured where it is used, in the same run, because floors of two moments differ as
//! much as those of two machines. Every function takes a fraction of a second and returns the
//! median of many short batches: a batch is far shorter than a time slice, so most of them see
//! nothing of other programs that share the processor.

use crate::{Latency, Row, median};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::hint::black_box;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const BATCHES: usize = 301;

/// Nanoseconds for one compare-and-swap of a word that no other thread touches.
pub fn cas_ns() -> f64 {
    let (word, mut expected) = (AtomicU64::new(0), 0);
    per_call(1000, || {
        let swap =
            word.compare_exchange(expected, expected + 1, Ordering::SeqCst, Ordering::SeqCst);
        expected += 1;
        assert!(swap.is_ok(), "nobody else touches it");
    })
}

/// Nanoseconds for one fetch-and-add to a word that no other thread touches.
pub fn fetch_add_ns() -> f64 {
    let word = AtomicU64::new(0);
    per_call(1000, || {
        black_box(word.fetch_add(1, Ordering::SeqCst));
    })
}

/// Nanoseconds to read the monotonic clock.
pub fn clock_ns() -> f64 {
    per_call(1000, || {
        black_box(Instant::now());
    })
}

fn per_call(calls: u32, mut call: impl FnMut()) -> f64 {
    let batches: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..calls).for_each(|_| call());
            start.elapsed().as_nanos() as f64 / f64::from(calls)
        })
        .collect();
    median(&batches).unwrap_or(0.0)
}

/// A word alone on its cache line, and on its neighbour's, which some processors fetch along.
#[repr(align(128))]
struct Line(AtomicU64);

/// Nanoseconds until an answer to a word written by one core is there, written by another core that
/// spins: one cache line each way. Two threads; the hardware does the same between two processes
/// that map the same memory. `None` if this process may use one core only.
pub fn line_round_trip_ns() -> Option<f64> {
    const ROUNDS: u64 = 500;
    let [here, there] = two_cores()?;
    let (ping, pong) = (Line(AtomicU64::new(0)), Line(AtomicU64::new(0)));
    let before = sched_getaffinity(None).ok()?;
    let total = ROUNDS * BATCHES as u64;
    let batches = thread::scope(|scope| {
        scope.spawn(|| {
            pin(there);
            for n in 1..=total {
                while ping.0.load(Ordering::Acquire) < n {
                    std::hint::spin_loop();
                }
                pong.0.store(n, Ordering::Release);
            }
        });
        pin(here);
        let mut batches = Vec::with_capacity(BATCHES);
        let mut start = Instant::now();
        for n in 1..=total {
            ping.0.store(n, Ordering::Release);
            while pong.0.load(Ordering::Acquire) < n {
                std::hint::spin_loop();
            }
            if n % ROUNDS == 0 {
                batches.push(start.elapsed().as_nanos() as f64 / ROUNDS as f64);
                start = Instant::now();
            }
        }
        batches
    });
    // Only this thread was pinned, and it was so before.
    let _ = sched_setaffinity(None, &before);
    median(&batches)
}

/// The first two cores that this process may use.
fn two_cores() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    Some([cores.next()?, cores.next()?])
}

/// Keeps the calling thread on `core`; without the right to do so it stays where it is, which makes
/// the floor worse but not wrong.
fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    let _ = sched_setaffinity(None, &set);
}

/// How both ends of a connection wait for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A blocking read.
    Blocking,
    /// `epoll_wait`, then a read.
    Epoll,
    /// `epoll_wait` that returns at once, again and again.
    BusyEpoll,
    /// A non-blocking read, again and again.
    Spin,
}

/// Round trips of `message_bytes` each way over TCP on the loopback device, between two threads
/// that do nothing else, on a core each if there are two: left alone, two threads that sleep in
/// turn end up on one core, where the way is shorter than any between two hosts that both have
/// work.
///
/// # Errors
/// Those of the sockets. A peer that does not answer within ten seconds is one.
pub fn tcp_round_trip(wait: Wait, message_bytes: usize, rounds: u32) -> io::Result<Latency> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    let (cores, before) = (two_cores(), sched_getaffinity(None).ok());
    let measured = thread::scope(|scope| {
        let echo = scope.spawn(move || {
            if let Some([_, there]) = cores {
                pin(there);
            }
            let mut end = End::new(server, wait)?;
            let mut message = vec![0; message_bytes];
            for _ in 0..rounds {
                end.receive(&mut message)?;
                end.stream.write_all(&message)?;
            }
            io::Result::Ok(())
        });
        if let Some([here, _]) = cores {
            pin(here);
        }
        let measured = measure(client, wait, message_bytes, rounds);
        echo.join().unwrap_or_else(|_| Err(io::Error::other("the echoing thread panicked")))?;
        measured
    });
    if let Some(before) = before {
        // Only this thread was pinned, and it was so before.
        let _ = sched_setaffinity(None, &before);
    }
    measured
}

fn measure(stream: TcpStream, wait: Wait, bytes: usize, rounds: u32) -> io::Result<Latency> {
    let mut end = End::new(stream, wait)?;
    let mut message = vec![1; bytes];
    let mut latency = Latency::new();
    for _ in 0..rounds {
        let start = Instant::now();
        end.stream.write_all(&message)?;
        end.receive(&mut message)?;
        latency.record(start.elapsed());
    }
    Ok(latency)
}

const PATIENCE: Duration = Duration::from_secs(10);

/// One end of a connection and its way of waiting.
struct End {
    stream: TcpStream,
    wait: Wait,
    epoll: rustix::fd::OwnedFd,
}

impl End {
    fn new(stream: TcpStream, wait: Wait) -> io::Result<End> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nonblocking(wait != Wait::Blocking)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &stream, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(End { stream, wait, epoll })
    }

    fn receive(&mut self, mut message: &mut [u8]) -> io::Result<()> {
        while !message.is_empty() {
            self.ready()?;
            match self.stream.read(message) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => message = &mut message[n..],
                Err(e) if e.kind() == ErrorKind::WouldBlock && self.wait != Wait::Blocking => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Returns when a read may bring something; for [`Wait::Spin`] that is always.
    fn ready(&self) -> io::Result<()> {
        let (flags, data) = (epoll::EventFlags::empty(), epoll::EventData::new_u64(0));
        let mut events = [epoll::Event { flags, data }];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        match self.wait {
            Wait::Blocking | Wait::Spin => Ok(()),
            Wait::Epoll => match epoll::wait(&self.epoll, &mut events, Some(&patience)) {
                Ok(0) => Err(ErrorKind::TimedOut.into()),
                Ok(_) | Err(Errno::INTR) => Ok(()),
                Err(e) => Err(e.into()),
            },
            Wait::BusyEpoll => loop {
                match epoll::wait(&self.epoll, &mut events, Some(&at_once)) {
                    Ok(0) | Err(Errno::INTR) => {}
                    Ok(_) => return Ok(()),
                    Err(e) => return Err(e.into()),
                }
            },
        }
    }
}

/// Adds the floors of memory to a row: `floor_cas_ns`, `floor_clock_ns`, and
/// `floor_line_round_trip_ns` if there are two cores.
#[must_use]
pub fn memory(row: Row) -> Row {
    row.with("floor_cas_ns", cas_ns())
        .with("floor_clock_ns", clock_ns())
        .with("floor_line_round_trip_ns", line_round_trip_ns().unwrap_or(f64::NAN))
}

/// The bytes that one thread copies a second from one half of `n_bytes` to the other, in pieces of
/// at most 1 MiB.
pub fn copied_bytes_per_s(n_bytes: usize) -> f64 {
    let half = (n_bytes / 2).max(64);
    let piece = half.min(1 << 20);
    let (from, mut to) = (vec![1u8; half], vec![0u8; half]);
    let mut copy = || {
        for (to, from) in to.chunks_exact_mut(piece).zip(from.chunks_exact(piece)) {
            to.copy_from_slice(black_box(from));
            black_box(to);
        }
    };
    let rounds = ((8 << 20) / half).max(1) as u32;
    let ns = (0..31).map(|_| {
        let start = Instant::now();
        (0..rounds).for_each(|_| copy());
        start.elapsed().as_nanos() as f64 / f64::from(rounds)
    });
    let copied = half / piece * piece;
    copied as f64 * 1e9 / median(&ns.collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// The bytes that one thread writes a second to another one that reads them, over TCP on the
/// loopback device, in pieces of 64 KiB.
///
/// # Errors
/// Those of the sockets. A peer that takes nothing for ten seconds is one.
pub fn streamed_bytes_per_s() -> io::Result<f64> {
    const PIECE: usize = 64 << 10;
    const PIECES: usize = 8 << 10;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut from = TcpStream::connect(listener.local_addr()?)?;
    let (mut to, _) = listener.accept()?;
    from.set_write_timeout(Some(PATIENCE))?;
    to.set_read_timeout(Some(PATIENCE))?;
    thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let piece = vec![1; PIECE];
            (0..PIECES).try_for_each(|_| from.write_all(&piece))
        });
        let (mut buffer, start) = (vec![0; PIECE], Instant::now());
        let read = (0..PIECES).try_for_each(|_| to.read_exact(&mut buffer));
        let span = start.elapsed();
        writer.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread panicked")))?;
        read?;
        Ok((PIECE * PIECES) as f64 / span.as_secs_f64())
    })
}

/// Adds the floors of TCP on the loopback device to a row: the medians `floor_tcp_blocking_ns`,
/// `floor_tcp_epoll_ns` and `floor_tcp_busy_epoll_ns` for messages of 64 bytes.
///
/// # Errors
/// As [`tcp_round_trip`].
pub fn tcp(mut row: Row) -> io::Result<Row> {
    for (name, wait) in [
        ("floor_tcp_blocking_ns", Wait::Blocking),
        ("floor_tcp_epoll_ns", Wait::Epoll),
        ("floor_tcp_busy_epoll_ns", Wait::BusyEpoll),
    ] {
        row.set(name, tcp_round_trip(wait, 64, 5000)?.p50_ns());
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_waiting_counts_every_round() {
        for wait in [Wait::Blocking, Wait::Epoll, Wait::BusyEpoll, Wait::Spin] {
            let latency = tcp_round_trip(wait, 100, 50).expect("loopback");
            assert_eq!(latency.count(), 50, "{wait:?}");
            assert!(latency.p50_ns() > 0, "{wait:?}");
        }
    }

    #[test]
    fn floors_of_bytes_are_positive() {
        assert!(copied_bytes_per_s(1 << 20) > 0.0 && copied_bytes_per_s(1) > 0.0);
        assert!(streamed_bytes_per_s().is_ok_and(|bytes| bytes > 0.0));
    }

    #[test]
    fn floors_of_memory_are_positive_and_leave_the_thread_where_it_may_run() {
        let before = sched_getaffinity(None).expect("own thread");
        let row = memory(Row::new("floors"));
        assert!(row.number("floor_cas_ns").is_some_and(|ns| ns > 0.0), "{row:?}");
        assert!(row.number("floor_clock_ns").is_some_and(|ns| ns > 0.0), "{row:?}");
        assert!(sched_getaffinity(None).expect("own thread") == before);
    }
}
