//! The replies in the order of their requests, although they are made in any order (C1).

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::pace::Pace;
use super::{BUFFER_BYTES_KEPT, OUTPUT_BYTES_MAX, PIPELINE_DEPTH_MAX, RequestId};
use crate::command::CommandSpec;
use crate::reply::{Protocol, clear_keeping};
use crate::store::Db;

/// The event for which a request without an answer waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The log's decision.
    Write,
    /// The log's decision, for an answer that may be long (C10).
    LongWrite,
    /// The log's decision about a read that follows the writes before it.
    LoggedRead,
    /// A state that is recent enough.
    Read {
        /// The command's bytes.
        command: SmallVec<[u8; 64]>,
        /// The generation of watched keys, if the command is a WATCH.
        watch: Option<u64>,
    },
    /// The log's decision to open a session: no request may overtake it.
    Open,
    /// The log's decision about a transaction that selects this database at its end: no request may
    /// overtake it.
    Exec(Db),
    /// An answer that the owner knows.
    Other,
}

#[derive(Debug)]
enum Content {
    Waiting(Waiting),
    /// A reply that waits for others before it.
    Reply(Vec<u8>),
}

#[derive(Debug)]
struct Place {
    content: Content,
    protocol: Protocol,
    /// Whether CLIENT REPLY has silenced it.
    is_silent: bool,
    /// The command that waits, if it is a command of the store.
    spec: Option<&'static CommandSpec>,
}

/// The properties of a new place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// The protocol of the answer.
    pub(super) protocol: Protocol,
    /// Whether the reply is not sent.
    pub(super) is_silent: bool,
}

/// The replies of one connection.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// The name of the first place.
    first: u64,
    /// The places from the first that waits. By construction an answer at the front goes out at
    /// once.
    places: VecDeque<Place>,
    output: Vec<u8>,
    sent: usize,
    /// The bytes of the replies that wait for others before them.
    held_bytes: usize,
    pub(super) pace: Pace,
    /// The number of requests that wait for the log, reads included.
    n_writes: usize,
    /// The number of reads among them.
    n_logged_reads: usize,
    n_reads: usize,
    /// The number of WATCHes among these reads.
    n_watches: usize,
    n_others: usize,
}

impl Replies {
    /// Whether another request may be taken (C3).
    pub(super) fn has_place(&self) -> bool {
        self.places.len() < PIPELINE_DEPTH_MAX
    }

    /// Takes the next place, for an answer that comes later.
    pub(super) fn reserve(
        &mut self,
        waiting: Waiting,
        spec: Option<&'static CommandSpec>,
        manner: Manner,
    ) -> RequestId {
        assert!(self.has_place(), "C3: a request was taken without a place for its reply");
        self.count(&waiting, |n| *n += 1);
        if waiting == Waiting::LongWrite {
            self.pace.began_long();
        }
        let id = RequestId(self.first + self.places.len() as u64);
        self.push(Content::Waiting(waiting), spec, manner);
        id
    }

    /// Takes the next place for a reply that exists already.
    pub(super) fn append(&mut self, reply: &[u8], manner: Manner) {
        if !self.places.is_empty() {
            let kept = if manner.is_silent { Vec::new() } else { reply.to_vec() };
            self.held_bytes += kept.len();
            self.push(Content::Reply(kept), None, manner);
            return;
        }
        self.first += 1;
        if !manner.is_silent {
            self.output.extend_from_slice(reply);
        }
    }

    /// Sends bytes that answer no request: whole messages. They follow the replies to all requests
    /// that were taken before, above all the reply to the SUBSCRIBE: a client that speaks RESP2
    /// would take them for one of those replies.
    pub(super) fn interject(&mut self, bytes: &[u8]) {
        let Some(last) = self.places.back_mut() else {
            self.output.extend_from_slice(bytes);
            return;
        };
        self.held_bytes += bytes.len();
        if let Content::Reply(held) = &mut last.content {
            held.extend_from_slice(bytes);
        } else {
            let manner = Manner { protocol: last.protocol, is_silent: false };
            self.push(Content::Reply(bytes.to_vec()), None, manner);
        }
    }

    /// The event for which `id` waits, and the protocol of its answer.
    pub(super) fn waiting(&self, id: RequestId) -> Option<(&Waiting, Protocol)> {
        let place = self.places.get(usize::try_from(id.0.checked_sub(self.first)?).ok()?)?;
        match &place.content {
            Content::Waiting(waiting) => Some((waiting, place.protocol)),
            Content::Reply(_) => None,
        }
    }

    /// The command that `id` waits for, if it is a command of the store.
    pub(super) fn spec(&self, id: RequestId) -> Option<&'static CommandSpec> {
        self.places.get(usize::try_from(id.0.checked_sub(self.first)?).ok()?)?.spec
    }

    /// The oldest request without an answer.
    pub(super) fn first_waiting(&self) -> Option<(RequestId, &Waiting)> {
        let front = RequestId(self.first);
        self.waiting(front).map(|(waiting, _)| (front, waiting))
    }

    pub(super) fn read_command(&self, id: RequestId) -> Option<&[u8]> {
        match self.waiting(id)?.0 {
            Waiting::Read { command, .. } => Some(command),
            Waiting::Write
            | Waiting::LongWrite
            | Waiting::LoggedRead
            | Waiting::Open
            | Waiting::Exec(_)
            | Waiting::Other => None,
        }
    }

    /// Puts the reply into its place, and returns what the place waited for. `None` if it did not
    /// wait (C4).
    pub(super) fn fill(&mut self, id: RequestId, reply: &[u8]) -> Option<Waiting> {
        let at = usize::try_from(id.0.checked_sub(self.first)?).ok()?;
        let place = self.places.get_mut(at)?;
        if let Content::Reply(_) = place.content {
            return None;
        }
        // In the common case the place is the front: the bytes are copied once, into the output.
        let kept = if at == 0 || place.is_silent { Vec::new() } else { reply.to_vec() };
        let is_silent = place.is_silent;
        self.held_bytes += kept.len();
        let content = std::mem::replace(&mut place.content, Content::Reply(kept));
        let Content::Waiting(waiting) = content else { return None };
        self.count(&waiting, |n| *n -= 1);
        match waiting {
            Waiting::LongWrite => self.pace.ended_long(reply.len()),
            Waiting::Read { .. } => self.pace.ended_read(id, reply.len()),
            Waiting::Write
            | Waiting::LoggedRead
            | Waiting::Open
            | Waiting::Exec(_)
            | Waiting::Other => {}
        }
        if at == 0 {
            if !is_silent {
                self.output.extend_from_slice(reply);
            }
            while let Some(Place { content: Content::Reply(reply), .. }) = self.places.front() {
                self.output.extend_from_slice(reply);
                self.held_bytes -= reply.len();
                self.places.pop_front();
                self.first += 1;
            }
        }
        Some(waiting)
    }

    pub(super) fn n_writes(&self) -> usize {
        self.n_writes
    }

    pub(super) fn n_logged_reads(&self) -> usize {
        self.n_logged_reads
    }

    pub(super) fn n_reads(&self) -> usize {
        self.n_reads
    }

    /// Whether a WATCH has no answer. The leader may answer it, while a read behind it may be
    /// answered here, where the state may be older: such a read waits (C5).
    pub(super) fn has_watch(&self) -> bool {
        self.n_watches > 0
    }

    pub(super) fn n_waiting(&self) -> usize {
        self.n_writes + self.n_reads + self.n_others
    }

    /// The number of bytes of replies that wait, for the client or for others before them.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.output().len() + self.held_bytes
    }

    /// Whether the answer to the read `id` is taken: there is room for it, and no earlier read is
    /// put off (C9, C14).
    pub(super) fn takes_answer(&self, id: RequestId) -> bool {
        self.has_room_for(id) && !self.pace.waits_for_earlier(id)
    }

    fn has_room_for(&self, id: RequestId) -> bool {
        let n_bytes = if id.0 == self.first { self.output().len() } else { self.waiting_bytes() };
        n_bytes < OUTPUT_BYTES_MAX
    }

    /// The next read that was put off and can be asked for again.
    pub(super) fn ask_again(&mut self) -> Option<RequestId> {
        let mut pace = std::mem::take(&mut self.pace);
        let id = pace.ask_again(self.waiting_bytes(), |id| self.has_room_for(id));
        self.pace = pace;
        id
    }

    /// The bytes of replies that wait for others before them.
    pub(super) fn n_held_up(&self) -> usize {
        self.places.len() - self.n_waiting()
    }

    /// The bytes of replies that wait for no other.
    pub(super) fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    pub(super) fn sent(&mut self, n: usize) {
        self.sent += n;
        assert!(self.sent <= self.output.len(), "no more was sent than there was");
        if self.sent == self.output.len() {
            clear_keeping(&mut self.output, BUFFER_BYTES_KEPT);
            self.sent = 0;
        } else if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    fn push(&mut self, content: Content, spec: Option<&'static CommandSpec>, manner: Manner) {
        let Manner { protocol, is_silent } = manner;
        self.places.push_back(Place { content, protocol, is_silent, spec });
    }

    fn count(&mut self, waiting: &Waiting, change: impl Fn(&mut usize)) {
        match waiting {
            Waiting::Write | Waiting::LongWrite => change(&mut self.n_writes),
            Waiting::LoggedRead => {
                change(&mut self.n_writes);
                change(&mut self.n_logged_reads);
            }
            Waiting::Read { watch, .. } => {
                change(&mut self.n_reads);
                if watch.is_some() {
                    change(&mut self.n_watches);
                }
            }
            Waiting::Open | Waiting::Exec(_) | Waiting::Other => change(&mut self.n_others),
        }
    }
}
