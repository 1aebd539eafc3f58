//! Streams in memory, for simulations and tests.
//!
//! A client [`open`](Pipes::open)s a pipe, [`push`](Pipes::push)es requests and
//! [`take`](Pipes::take)s replies. The door sees a pipe as it sees a socket: input that has
//! arrived, a bounded buffer for output, half-closed and broken connections.
//!
//! - I1 of a client that does not take its replies at most the bound of [`Pipes::new`] stays unread
//!   here; the rest stays in the door. By [`Pipes::write`].

use super::{Addresses, Broken, Interest, Ready, Received, Streams};
use std::collections::{BTreeMap, VecDeque};

/// The name of a pipe at its client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipeId(u64);

/// The client's end and the door's end of a connection.
#[derive(Debug)]
struct Pipe {
    address: String,
    /// The requests that the door has not read.
    input: VecDeque<u8>,
    /// The replies that the client has not taken.
    output: VecDeque<u8>,
    interest: Interest,
    /// The client will send nothing more.
    has_ended: bool,
    /// The client is gone.
    is_broken: bool,
    /// The door has closed the pipe.
    is_closed: bool,
}

/// The pipes of a door; see the module's text.
#[derive(Debug)]
pub struct Pipes {
    local_address: String,
    unread_bytes_max: usize,
    pipes: BTreeMap<PipeId, Pipe>,
    /// The pipes by the door's names.
    named: BTreeMap<u64, PipeId>,
    incoming: VecDeque<PipeId>,
    n_opened: u64,
}

impl Pipes {
    /// Pipes to a door at `local_address`. At most `unread_bytes_max` of a client's replies stay
    /// unread here (I1).
    pub fn new(local_address: impl Into<String>, unread_bytes_max: usize) -> Pipes {
        Pipes {
            local_address: local_address.into(),
            unread_bytes_max,
            pipes: BTreeMap::new(),
            named: BTreeMap::new(),
            incoming: VecDeque::new(),
            n_opened: 0,
        }
    }

    /// Connects a client at `address`.
    pub fn open(&mut self, address: impl Into<String>) -> PipeId {
        self.n_opened += 1;
        let id = PipeId(self.n_opened);
        let pipe = Pipe {
            address: address.into(),
            input: VecDeque::new(),
            output: VecDeque::new(),
            interest: Interest::Read,
            has_ended: false,
            is_broken: false,
            is_closed: false,
        };
        self.pipes.insert(id, pipe);
        self.incoming.push_back(id);
        id
    }

    /// Sends bytes of the client. They are lost if the pipe is closed, or the client has ended it.
    pub fn push(&mut self, id: PipeId, bytes: &[u8]) {
        if let Some(pipe) = self.pipes.get_mut(&id).filter(|pipe| pipe.is_open()) {
            pipe.input.extend(bytes);
        }
    }

    /// The number of bytes that the client has sent and the door has not read.
    pub fn unsent(&self, id: PipeId) -> usize {
        self.pipes.get(&id).map_or(0, |pipe| pipe.input.len())
    }

    /// Reads what has arrived for the client, at most `bytes_max`.
    pub fn take(&mut self, id: PipeId, bytes_max: usize) -> Vec<u8> {
        let Some(pipe) = self.pipes.get_mut(&id) else { return Vec::new() };
        let n = pipe.output.len().min(bytes_max);
        pipe.output.drain(..n).collect()
    }

    /// The number of bytes of replies that the client has not taken.
    pub fn untaken(&self, id: PipeId) -> usize {
        self.pipes.get(&id).map_or(0, |pipe| pipe.output.len())
    }

    /// Ends the client's input; the client still reads.
    pub fn end(&mut self, id: PipeId) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.has_ended = true;
        }
    }

    /// Removes the client. The bytes in the pipe are lost, and its name becomes invalid.
    pub fn break_off(&mut self, id: PipeId) {
        let Some(pipe) = self.pipes.get_mut(&id) else { return };
        pipe.is_broken = true;
        if pipe.is_closed {
            self.pipes.remove(&id);
        }
    }

    /// Whether the door has closed the pipe. Earlier replies can still be taken.
    pub fn is_closed(&self, id: PipeId) -> bool {
        self.pipes.get(&id).is_none_or(|pipe| pipe.is_closed)
    }

    /// Whether a client waits to be accepted.
    pub fn has_incoming(&self) -> bool {
        !self.incoming.is_empty()
    }

    /// The events that are ready, in the order of the door's names.
    pub fn ready(&self) -> Vec<Ready> {
        let ready = self.named.iter().map(|(&key, id)| {
            let pipe = &self.pipes[id];
            let has_input = pipe.has_ended || !pipe.input.is_empty();
            let has_room = pipe.output.len() < self.unread_bytes_max;
            Ready {
                key,
                readable: pipe.is_broken || pipe.interest.reads() && has_input,
                writable: pipe.interest.writes() && has_room,
            }
        });
        ready.filter(|ready| ready.readable || ready.writable).collect()
    }

    fn named(&mut self, key: u64) -> Result<&mut Pipe, Broken> {
        let id = self.named.get(&key).ok_or(Broken)?;
        self.pipes.get_mut(id).filter(|pipe| !pipe.is_broken).ok_or(Broken)
    }

    /// Closes the door's end.
    fn close_door_side(&mut self, id: PipeId) {
        let Some(pipe) = self.pipes.get_mut(&id) else { return };
        pipe.is_closed = true;
        if pipe.is_broken {
            self.pipes.remove(&id);
        }
    }
}

impl Pipe {
    fn is_open(&self) -> bool {
        !self.has_ended && !self.is_broken && !self.is_closed
    }
}

impl Streams for Pipes {
    type Incoming = PipeId;

    fn accept(&mut self) -> Option<PipeId> {
        self.incoming.pop_front()
    }

    fn refuse(&mut self, incoming: PipeId, reply: &[u8]) {
        if let Some(pipe) = self.pipes.get_mut(&incoming) {
            pipe.output.extend(reply);
        }
        self.close_door_side(incoming);
    }

    fn admit(&mut self, incoming: PipeId, key: u64) -> Result<Addresses, Broken> {
        let pipe = self.pipes.get(&incoming).ok_or(Broken)?;
        if pipe.is_broken {
            self.close_door_side(incoming);
            return Err(Broken);
        }
        self.named.insert(key, incoming);
        Ok(Addresses { client: pipe.address.clone(), local: self.local_address.clone() })
    }

    fn read(&mut self, key: u64, into: &mut [u8]) -> Result<Received, Broken> {
        let pipe = self.named(key)?;
        let n = pipe.input.len().min(into.len());
        for (to, byte) in into.iter_mut().zip(pipe.input.drain(..n)) {
            *to = byte;
        }
        Ok(match (n, pipe.has_ended) {
            (0, true) => Received::End,
            (0, false) => Received::Nothing,
            (n, _) => Received::Bytes(n),
        })
    }

    fn write(&mut self, key: u64, bytes: &[u8]) -> Result<usize, Broken> {
        let bytes_max = self.unread_bytes_max;
        let pipe = self.named(key)?;
        let n = bytes.len().min(bytes_max.saturating_sub(pipe.output.len()));
        pipe.output.extend(&bytes[..n]);
        Ok(n)
    }

    fn watch(&mut self, key: u64, interest: Interest) -> Result<(), Broken> {
        self.named(key)?.interest = interest;
        Ok(())
    }

    fn close(&mut self, key: u64) {
        if let Some(id) = self.named.remove(&key) {
            self.close_door_side(id);
        }
    }
}
