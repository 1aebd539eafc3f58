//! The bytes of one set of connections: sockets in production, pipes in simulations and tests.
//!
//! An owner reports what is ready to [`RespDoor::on_ready`](super::RespDoor::on_ready), again and
//! again while it is (level-triggered): a turn leaves in a stream what it has no room for.

/// The bits of a stream's name that are its place; the rest is a count.
const PLACE_BITS: u32 = 20;

/// The most streams that are open at a time.
pub const STREAMS_MAX: usize = (1 << PLACE_BITS) - 1;

/// What a stream is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Input, or its end.
    Read,
    /// Room for output. Its input waits, since a client that does not take its replies is not asked
    /// for more commands.
    Write,
    /// Both.
    ReadWrite,
    /// Neither: only that it is broken.
    Nothing,
}

impl Interest {
    /// Whether input counts.
    pub fn reads(self) -> bool {
        matches!(self, Interest::Read | Interest::ReadWrite)
    }

    /// Whether room for output counts.
    pub fn writes(self) -> bool {
        matches!(self, Interest::Write | Interest::ReadWrite)
    }
}

/// One stream that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its name.
    pub key: u64,
    /// It can be read, or reading will tell that it has ended or is broken.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
}

/// What reading gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes, at least one.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The client will send nothing more.
    End,
}

/// The connection is gone: close the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is broken")]
pub struct Broken;

/// Both ends of a connection, for CLIENT LIST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The client's.
    pub client: String,
    /// The one that it connected to.
    pub local: String,
}

/// One set of connections. No call waits.
pub trait Streams {
    /// A connection that was accepted and has no name yet.
    type Incoming;

    /// The next connection, if one waits to be accepted.
    fn accept(&mut self) -> Option<Self::Incoming>;

    /// Sends `reply`, which is short, and closes the connection.
    fn refuse(&mut self, incoming: Self::Incoming, reply: &[u8]);

    /// Watches a connection for input. From now on it is called `key`: see [`place_of`].
    ///
    /// # Errors
    /// It is gone already, and the name unused.
    fn admit(&mut self, incoming: Self::Incoming, key: u64) -> Result<Addresses, Broken>;

    /// Reads what has arrived, as much as fits.
    ///
    /// # Errors
    /// The stream is broken.
    fn read(&mut self, key: u64, into: &mut [u8]) -> Result<Received, Broken>;

    /// Writes as much as there is room for; how much that is.
    ///
    /// # Errors
    /// The stream is broken.
    fn write(&mut self, key: u64, bytes: &[u8]) -> Result<usize, Broken>;

    /// Changes what the stream is watched for.
    ///
    /// # Errors
    /// It cannot be watched any more.
    fn watch(&mut self, key: u64, interest: Interest) -> Result<(), Broken>;

    /// Closes a stream, in both directions. Its place may be used again, its name is not.
    fn close(&mut self, key: u64);
}

/// The name of the stream at `place`, the `n`th of its door.
pub(super) fn key_of(n: u64, place: usize) -> u64 {
    n << PLACE_BITS | place as u64
}

/// The place of a stream: no other open stream of its door has it, and it is below the most streams
/// that were ever open at a time.
pub fn place_of(key: u64) -> usize {
    (key & ((1 << PLACE_BITS) - 1)) as usize
}
