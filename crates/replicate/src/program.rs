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

/// What is known of a program from inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repose {
    /// Every thread has looked at everything that was fed, has done what it could, and waits.
    AtRest,
    /// Perhaps: a look a moment later tells.
    Soon,
    /// A thread runs, or what its threads do is not known. The member is woken when all wait.
    Moves,
}

/// A copy of the program. No call blocks.
///
/// A leg's key is the feeder's name for it: the lowest number that no open leg has, so that a
/// program can keep legs in an array.
pub trait Program {
    /// Takes the next bytes of a checkpoint, before the program is started.
    ///
    /// # Errors
    /// The cause, and the remedy: the copy cannot begin.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), String>;

    /// Starts the program, in its first state, in that of the checkpoint, or with its files
    /// ([`Program::end_for_renewal`]). So many entries of connections are before it.
    ///
    /// # Errors
    /// The cause, and the remedy.
    fn start(&mut self, at: u64) -> Result<(), String>;

    /// Ends the program, which is at rest and has no leg, so that it can be started again with its
    /// files; those are saved if it `saves`, and [`Program::save`] tells what became of that.
    /// Returns whether that is done; called again a moment later until then. (One that is saved
    /// with its memory continues, and [`Program::start`] finds it so.)
    ///
    /// # Errors
    /// It cannot be started again.
    fn end_for_renewal(&mut self, saves: bool) -> Result<bool, String>;

    /// What was saved is not read again.
    fn forget_saved(&mut self) {}

    /// Saves what the program holds, beside its legs, behind so many entries of connections: it is
    /// at rest, and is fed nothing until that is done, but for files that were saved when it was
    /// ended for its renewal. Returns the number of bytes of the checkpoint, once there is one;
    /// called again a moment later until then, but not without end: a save has a deadline. A save
    /// that was begun at another place was given up, and what became of it does not count.
    ///
    /// # Errors
    /// The program cannot be saved now.
    fn save(&mut self, at: u64) -> Result<Option<u64>, String>;

    /// Reads the newest checkpoint from `at` on, as much as fits, and returns the number of bytes.
    ///
    /// # Errors
    /// It cannot be read.
    fn read_saved(&mut self, at: u64, into: &mut [u8]) -> Result<usize, String>;

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
    /// will not answer before something else happens. Not of a program that has ended: that its
    /// connections are over is no answer, and its member ends too.
    fn is_asleep(&mut self) -> bool;

    /// Whether the program has accepted a connection since it was started, if that is seen. (Until
    /// then it may sleep, and see nothing.)
    fn has_accepted(&mut self) -> bool {
        true
    }

    /// Tells the program the log's time, in milliseconds since 1970: before it is started, and from
    /// then on whenever that is another one. Returns whether that ends a wait of the program's.
    fn tell_time(&mut self, _time_ms: u64) -> bool {
        false
    }

    /// The earliest time that the program waits for, as far as it has said so. The member is woken
    /// when it says an earlier one.
    fn awaited_ms(&mut self) -> Option<u64> {
        None
    }

    /// Whether the program is at rest, by what it says itself.
    fn repose(&mut self) -> Repose {
        Repose::Moves
    }

    /// Makes a program that is at rest look at nothing before [`Program::let_go`]. Returns whether
    /// it does: not if it moves.
    fn hold(&mut self) -> bool {
        false
    }

    /// Ends what [`Program::hold`] began.
    fn let_go(&mut self) {}
}
