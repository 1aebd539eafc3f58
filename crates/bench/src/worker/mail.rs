//! The parent's orders to a worker, and its answers: lines on the standard input and output.

use super::order::{Answer, Order};
use crate::child::say;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::OFlags;
use std::cell::{Cell, RefCell};
use std::io::{BufRead, ErrorKind, Stdin};
use std::time::Duration;

/// The parent's orders, read by the loop that carries them out: a thread for them would be one more
/// to end, on the survivors' processors, when a member is killed.
#[derive(Debug)]
pub(super) struct Mail {
    input: Stdin,
    /// The beginning of a line whose end has not arrived yet.
    line: RefCell<Vec<u8>>,
    look_at: Cell<base::Instant>,
}

/// The interval at which a loop looks for an order.
const LOOK_EVERY: Duration = Duration::from_millis(2);

impl Mail {
    /// The orders on the standard input from now on.
    pub(super) fn open() -> std::io::Result<Mail> {
        let input = std::io::stdin();
        let flags = rustix::fs::fcntl_getfl(&input)?;
        rustix::fs::fcntl_setfl(&input, flags | OFlags::NONBLOCK)?;
        Ok(Mail { input, line: RefCell::default(), look_at: Cell::new(base::Instant::ZERO) })
    }

    /// Readable when [`Mail::read`] may have an order.
    pub(super) fn wait_fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// The next order if there is one; only a comparison if it was looked for a moment ago.
    pub(super) fn next(&self, now: base::Instant) -> Option<Order> {
        if now < self.look_at.get() {
            return None;
        }
        self.look_at.set(now.plus(LOOK_EVERY));
        self.read()
    }

    /// The next order. Ends the process when the parent has ended or closed the input.
    pub(super) fn read(&self) -> Option<Order> {
        let mut line = self.line.borrow_mut();
        match self.input.lock().read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\n") => {
                let order = serde_json::from_slice(&line);
                line.clear();
                // More orders may have come with it.
                self.look_at.set(base::Instant::ZERO);
                Some(order.unwrap_or_else(|error| {
                    say(&Answer::Failed(format!("an order is not understood: {error}")));
                    std::process::exit(0)
                }))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Ok(_) | Err(_) => std::process::exit(0),
        }
    }

    /// Waits for the next order, however long it takes.
    pub(super) fn wait(&self) -> Order {
        loop {
            if let Some(order) = self.read() {
                return order;
            }
            // The input is looked at, whatever ended the wait.
            let _ready = poll(&mut [PollFd::new(&self.input, PollFlags::IN)], None);
        }
    }

    /// Starts a thread that ends this process when the parent has ended, for a worker that takes no
    /// more orders.
    pub(super) fn outlive_nobody(self) {
        std::thread::spawn(move || {
            loop {
                self.wait();
            }
        });
    }
}
