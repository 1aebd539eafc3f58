//! The door's decisions: what the replicated state makes of the log, and what clients are told.
//!
//! Nothing here has a socket, a clock, a thread or a source of randomness. Time and seeds are
//! arguments, so a simulator runs the code that ships.
//!
//! - [`State`]: the replicated application, with snapshots and backups.

mod backups;
mod state;

pub use backups::NO_SUCH_BACKUP;
pub use state::{Discarded, Holding, Holds, Performed, Saving, State, of_each};
