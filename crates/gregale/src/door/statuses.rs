//! The cluster's status for a client: the answer needs the other members, so a thread asks them
//! while the loop continues.
//!
//! - I1 at most one thread runs at a time; clients that ask meanwhile share the next answer.

use crate::control::Board;
use console::{Failure, Outcome};
use runtime::Asker;
use runtime::{Interest, Poller};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The requests for statuses; see the module's text.
pub(super) struct Statuses {
    board: Arc<Board>,
    waiting: Vec<Asker>,
    /// The askers that wait for the running thread.
    asked: Vec<Asker>,
    answers: Receiver<String>,
    sender: Sender<String>,
    bell: UnixStream,
    ringer: UnixStream,
}

impl Statuses {
    pub(super) fn new(board: &Arc<Board>) -> Outcome<Statuses> {
        let (bell, ringer) =
            UnixStream::pair().map_err(|error| Failure::os("make a socket pair", error))?;
        bell.set_nonblocking(true).map_err(|error| Failure::os("make a socket pair", error))?;
        let (sender, answers) = channel();
        Ok(Statuses {
            board: Arc::clone(board),
            waiting: Vec::new(),
            asked: Vec::new(),
            answers,
            sender,
            bell,
            ringer,
        })
    }

    pub(super) fn register(&self, poller: &Poller, key: u64) -> std::io::Result<()> {
        poller.add(&self.bell, key, Interest::Read)
    }

    /// Requests the cluster's status for `asker`.
    pub(super) fn ask(&mut self, asker: Asker) {
        self.waiting.push(asker);
        self.send_out();
    }

    fn send_out(&mut self) {
        // One thread at a time (I1).
        if !self.asked.is_empty() || self.waiting.is_empty() {
            return;
        }
        let Ok(ringer) = self.ringer.try_clone() else { return };
        let (board, sender) = (Arc::clone(&self.board), self.sender.clone());
        let ask = move || {
            let json = serde_json::to_string(&board.cluster()).unwrap_or_default();
            // The loop may have ended meanwhile.
            let _ = sender.send(json);
            let _ = (&ringer).write(&[0]);
        };
        if std::thread::Builder::new().name("status".into()).spawn(ask).is_ok() {
            std::mem::swap(&mut self.asked, &mut self.waiting);
        }
    }

    /// The running thread's answer, once it is there, and its askers.
    pub(super) fn take(&mut self) -> Option<(String, Vec<Asker>)> {
        while matches!((&self.bell).read(&mut [0; 64]), Ok(n) if n > 0) {}
        let json = self.answers.try_recv().ok()?;
        let askers = std::mem::take(&mut self.asked);
        self.send_out();
        Some((json, askers))
    }
}
