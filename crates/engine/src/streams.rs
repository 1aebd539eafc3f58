//! The bytes of one set of connections: sockets in production, pipes in simulations and tests.
//!
//! The owner of the streams reports those that are ready to a door as long as they are ready
//! (level-triggered): a turn leaves input in a stream that it has no room for.

mod pipes;

pub use pipes::{PipeId, Pipes};

/// The number of bits of a stream's name that are its place; the rest is a count.
const PLACE_BITS: u32 = 20;

/// The most streams that are open at the same time.
pub const STREAMS_MAX: usize = (1 << PLACE_BITS) - 1;

/// The events for which a stream is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Input, or its end.
    Read,
    /// Room for output. Input waits, since no further commands are read from a client that does not
    /// take its replies.
    Write,
    /// Input and room for output.
    ReadWrite,
    /// Neither: only a broken connection.
    Nothing,
}

impl Interest {
    /// Whether input is watched.
    pub fn reads(self) -> bool {
        matches!(self, Interest::Read | Interest::ReadWrite)
    }

    /// Whether room for output is watched.
    pub fn writes(self) -> bool {
        matches!(self, Interest::Write | Interest::ReadWrite)
    }
}

/// A stream that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The stream's name.
    pub key: u64,
    /// The stream can be read, or a read will report its end or an error.
    pub readable: bool,
    /// The stream can be written.
    pub writable: bool,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The number of bytes read, at least one.
    Bytes(usize),
    /// No input yet.
    Nothing,
    /// The end: the client will send nothing more.
    End,
}

/// The error of a connection that is gone: close the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is broken")]
pub struct Broken;

/// The addresses of both ends of a connection, for CLIENT LIST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The client's address.
    pub client: String,
    /// The address to which the client connected.
    pub local: String,
}

/// The streams of one set of connections. No call blocks.
pub trait Streams {
    /// A connection that was accepted and has no name yet.
    type Incoming;

    /// The next connection, if one waits to be accepted.
    fn accept(&mut self) -> Option<Self::Incoming>;

    /// Sends `reply`, which is short, and closes the connection.
    fn refuse(&mut self, incoming: Self::Incoming, reply: &[u8]);

    /// Watches a connection for input and names it `key`: see [`place_of`].
    ///
    /// # Errors
    /// The connection is gone already, and the name is unused.
    fn admit(&mut self, incoming: Self::Incoming, key: u64) -> Result<Addresses, Broken>;

    /// Reads what has arrived, as much as fits.
    ///
    /// # Errors
    /// The stream is broken.
    fn read(&mut self, key: u64, into: &mut [u8]) -> Result<Received, Broken>;

    /// Writes as much as there is room for, and returns the number of bytes.
    ///
    /// # Errors
    /// The stream is broken.
    fn write(&mut self, key: u64, bytes: &[u8]) -> Result<usize, Broken>;

    /// Changes the events for which the stream is watched.
    ///
    /// # Errors
    /// The stream can no longer be watched.
    fn watch(&mut self, key: u64, interest: Interest) -> Result<(), Broken>;

    /// Closes a stream in both directions. Its place may be reused, its name is not.
    fn close(&mut self, key: u64);
}

/// The name of the stream at `place`, the `n`th of its door.
pub fn key_of(n: u64, place: usize) -> u64 {
    n << PLACE_BITS | place as u64
}

/// The ordinal of the stream that [`key_of`] has named so.
pub fn number_of(key: u64) -> u64 {
    key >> PLACE_BITS
}

/// The place of a stream: no other open stream of its door has it, and it is below the largest
/// number of streams that were ever open at the same time.
pub fn place_of(key: u64) -> usize {
    (key & ((1 << PLACE_BITS) - 1)) as usize
}
