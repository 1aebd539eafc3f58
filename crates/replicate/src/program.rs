//! A copy of the program, as the feeder sees it: local streams, and whether the program waits.

pub use engine::streams::{Broken, Interest, Received};

/// What became of a connection to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connected {
    /// The program has it, or will accept it next.
    Done,
    /// The program has to accept others first: try again a moment later.
    Later,
    /// The program does not listen.
    Refused,
}

/// A copy of the program. No call blocks.
///
/// A leg's key is the feeder's name for it: the lowest number that no open leg has, so that a
/// program can keep legs in an array.
pub trait Program {
    /// Connects a leg, and watches it for output of the program.
    fn connect(&mut self, key: u64) -> Connected;

    /// Reads what the program has sent, as much as fits.
    ///
    /// # Errors
    /// The program has broken the leg.
    fn read(&mut self, key: u64, into: &mut [u8]) -> Result<Received, Broken>;

    /// Writes as much as there is room for, and returns the number of bytes.
    ///
    /// # Errors
    /// The program has broken the leg.
    fn write(&mut self, key: u64, bytes: &[u8]) -> Result<usize, Broken>;

    /// Ends the input of the program on this leg.
    fn end(&mut self, key: u64);

    /// Changes the events for which a leg is watched.
    ///
    /// # Errors
    /// The leg can no longer be watched.
    fn watch(&mut self, key: u64, interest: Interest) -> Result<(), Broken>;

    /// Closes a leg in both directions.
    fn close(&mut self, key: u64);

    /// Whether each thread of the program waits for something: then what it has not answered, it
    /// will not answer before something else happens.
    fn is_asleep(&mut self) -> bool;
}
