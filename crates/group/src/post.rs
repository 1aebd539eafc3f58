//! The way of letters between two processes of a group.

use base::Rank;
use engine::group::WallClock;

/// The ground of a process, with a way for letters.
pub(crate) trait Post: WallClock {
    /// Sends a letter to the process on `seat`; false if there is no room now. It is lost if the
    /// link breaks.
    fn send_letter(&mut self, seat: Rank, letter: &[u8]) -> bool;

    /// Takes the letters that have come.
    fn take_letters(&mut self) -> Vec<(Rank, Vec<u8>)>;

    /// The trouble of the disk, while it has one.
    fn trouble(&self) -> Option<&str>;
}
