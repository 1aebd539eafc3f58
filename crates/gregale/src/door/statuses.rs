//! The cluster's status for a client: the answer needs the other members, so a thread asks them
//! while the loop continues.
//!
//! - I1 at most one thread runs at a time; clients that ask meanwhile share the next answer.
//! - I2 a thread that was never started, or ended without an answer, is heard as one with an
//!   answer: its askers are told, and the next thread begins. By [`Bell`].

use crate::control::Board;
use console::{Failure, Outcome};
use runtime::Asker;
use runtime::{Interest, Poller};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// What a thread finds out.
type Question = Arc<dyn Fn() -> String + Send + Sync>;

/// The requests for statuses; see the module's text.
pub(super) struct Statuses {
    question: Question,
    waiting: Vec<Asker>,
    /// The askers that wait for the running thread.
    asked: Vec<Asker>,
    /// The answer of the running thread.
    answer: Option<Receiver<String>>,
    bell: UnixStream,
    ringer: Arc<UnixStream>,
}

/// The thread's end of its answer. The bell rings when it is dropped, however that comes: without
/// an answer the loop then finds that none will come (I2).
struct Bell {
    answer: Option<Sender<String>>,
    ringer: Arc<UnixStream>,
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.answer = None;
        // A full pipe rings already; the loop may have ended.
        let _ = (&*self.ringer).write(&[0]);
    }
}

impl Statuses {
    pub(super) fn new(board: &Arc<Board>) -> Outcome<Statuses> {
        let board = Arc::clone(board);
        Statuses::with(Arc::new(move || {
            serde_json::to_string(&board.cluster()).unwrap_or_default()
        }))
    }

    fn with(question: Question) -> Outcome<Statuses> {
        let failed = |error| Failure::os("make a socket pair", error);
        let (bell, ringer) = UnixStream::pair().map_err(failed)?;
        bell.set_nonblocking(true).map_err(failed)?;
        ringer.set_nonblocking(true).map_err(failed)?;
        Ok(Statuses {
            question,
            waiting: Vec::new(),
            asked: Vec::new(),
            answer: None,
            bell,
            ringer: Arc::new(ringer),
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
        if self.answer.is_some() || self.waiting.is_empty() {
            return;
        }
        let (sender, answer) = channel();
        let mut bell = Bell { answer: Some(sender), ringer: Arc::clone(&self.ringer) };
        let question = Arc::clone(&self.question);
        let ask = move || {
            let json = question();
            if let Some(answer) = bell.answer.take() {
                // The loop may have ended meanwhile.
                let _ = answer.send(json);
            }
        };
        std::mem::swap(&mut self.asked, &mut self.waiting);
        self.answer = Some(answer);
        // Where no thread can be started, the bell has rung (I2).
        drop(std::thread::Builder::new().name("status".into()).spawn(ask));
    }

    /// The running thread's answer, once it is there, and its askers. No answer: the thread ended
    /// without, or there was none.
    pub(super) fn take(&mut self) -> Option<(Option<String>, Vec<Asker>)> {
        while matches!((&self.bell).read(&mut [0; 64]), Ok(n) if n > 0) {}
        let json = match self.answer.as_ref()?.try_recv() {
            Ok(json) => Some(json),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => return None,
        };
        self.answer = None;
        let askers = std::mem::take(&mut self.asked);
        self.send_out();
        Some((json, askers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    /// The next answer, when the bell has rung.
    fn next(statuses: &mut Statuses, poller: &mut Poller) -> (Option<String>, Vec<u64>) {
        let mut ready = Vec::new();
        loop {
            if let Some((json, askers)) = statuses.take() {
                return (json, askers.iter().map(|asker| asker.request).collect());
            }
            poller.wait(Some(Duration::from_secs(60)), &mut ready).unwrap();
            assert!(!ready.is_empty(), "an answer in a minute");
        }
    }

    /// No later client of this member got a status.
    #[test]
    fn i2_a_thread_without_an_answer_costs_its_own_askers_theirs() {
        let is_first = AtomicBool::new(true);
        let question = move || {
            assert!(!is_first.swap(false, Ordering::Relaxed), "no thread for the others");
            "all is well".to_owned()
        };
        let mut statuses = Statuses::with(Arc::new(question)).unwrap();
        let mut poller = Poller::new().unwrap();
        statuses.register(&poller, 0).unwrap();
        for request in 1..=2 {
            statuses.ask(Asker { connection: 1, request });
        }
        assert_eq!(next(&mut statuses, &mut poller), (None, vec![1]));
        let well = Some("all is well".to_owned());
        assert_eq!(next(&mut statuses, &mut poller), (well.clone(), vec![2]), "it asked meanwhile");
        statuses.ask(Asker { connection: 1, request: 3 });
        assert_eq!(next(&mut statuses, &mut poller), (well, vec![3]));
    }
}
