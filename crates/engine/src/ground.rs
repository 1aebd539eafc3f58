//! What a process without its I/O stands on, where it has no [`Plant`](crate::Plant): a process of
//! a group with views, and a node of atomic multicast. Production has one for each, the simulator
//! another, and nothing else differs between the two.

use base::{Inbox, Instant, Port};
use proto::amcast::RealClock;
use proto::disk::{Disk, DiskEvent};

/// The fabric, the clocks and the disk of one process.
pub trait Ground: Port {
    /// Adds completions, messages and failures to `inbox`. Never blocks.
    fn poll(&mut self, inbox: &mut Inbox);

    /// Sends on its way whatever was posted. The last call of a turn.
    fn flush(&mut self);

    /// The stable storage; [`proto::disk::NoDisk`] for a ground without any.
    type Disk: Disk;

    /// The stable storage, if there is any.
    fn disk(&mut self) -> Option<&mut Self::Disk> {
        None
    }

    /// Hands over to the disk what was asked for, and adds what it has to tell to `events`. Never
    /// blocks.
    fn poll_disk(&mut self, now: Instant, events: &mut Vec<DiskEvent>) {
        let _ = (now, events);
    }

    /// The host's clock, if its error is attested now.
    fn real_clock(&mut self) -> Option<RealClock> {
        None
    }
}
