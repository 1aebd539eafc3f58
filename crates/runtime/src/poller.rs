//! Waiting for descriptors: a thin, level-triggered epoll set.
//!
//! The set is level-triggered, because the loop does bounded work per turn: input that it leaves in
//! a socket is reported again, and no list of leftovers is kept.

use engine::streams::{Interest, Ready};
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The most ready descriptors that one wait reports; the others are reported by the next wait.
const READY_MAX: usize = 256;

fn flags(interest: Interest) -> epoll::EventFlags {
    match interest {
        Interest::Read => epoll::EventFlags::IN | epoll::EventFlags::RDHUP,
        Interest::Write => epoll::EventFlags::OUT,
        Interest::ReadWrite => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        Interest::Nothing => epoll::EventFlags::empty(),
    }
}

/// An epoll set. A clone is another handle of the same set.
pub struct Poller {
    epoll: Arc<OwnedFd>,
    events: Vec<epoll::Event>,
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}

impl Clone for Poller {
    fn clone(&self) -> Poller {
        Poller { epoll: Arc::clone(&self.epoll), events: Vec::with_capacity(READY_MAX) }
    }
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// No descriptors left, or no memory in the kernel.
    pub fn new() -> io::Result<Poller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll: Arc::new(epoll), events: Vec::with_capacity(READY_MAX) })
    }

    /// Watches `fd` under the name `key`.
    ///
    /// # Errors
    /// The kernel's; a descriptor that is watched already among them.
    pub fn add(&self, fd: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(key), flags(interest))?)
    }

    /// Changes the events that are wanted of `fd`.
    ///
    /// # Errors
    /// The kernel's; a descriptor that is not watched among them.
    pub fn change(&self, fd: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(key), flags(interest))?)
    }

    /// Stops watching `fd`. (Closing the last copy of it has the same effect.)
    ///
    /// # Errors
    /// The kernel's; a descriptor that is not watched among them.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until a descriptor is ready, at most for `timeout` (`None`: without a limit), and puts
    /// the ready descriptors into `ready`. An interrupted wait reports nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        self.events.clear();
        let timeout = timeout.map(|span| Timespec {
            tv_sec: span.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, buffer, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let broken = epoll::EventFlags::ERR | epoll::EventFlags::HUP | epoll::EventFlags::RDHUP;
        ready.extend(self.events.iter().map(|event| {
            let flags = event.flags;
            Ready {
                key: event.data.u64(),
                readable: flags.intersects(epoll::EventFlags::IN | broken),
                writable: flags.intersects(epoll::EventFlags::OUT),
            }
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_left_unread_is_reported_again() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&near, 7, Interest::Read).unwrap();
        let mut ready = Vec::new();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
        far.write_all(b"ab").unwrap();
        for _ in 0..2 {
            poller.wait(None, &mut ready).unwrap();
            assert_eq!((ready.len(), ready[0].key, ready[0].readable), (1, 7, true));
            near.read_exact(&mut [0]).unwrap();
        }
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
        drop(far);
        poller.wait(None, &mut ready).unwrap();
        assert!(ready[0].readable, "the end of a stream is something to read");
    }

    #[test]
    fn interest_can_change() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        poller.add(&near, 1, Interest::Nothing).unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
        poller.change(&near, 2, Interest::Write).unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert_eq!((ready[0].key, ready[0].writable, ready[0].readable), (2, true, false));
        poller.remove(&near).unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
    }
}
