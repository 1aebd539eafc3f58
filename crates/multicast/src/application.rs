//! What stands behind the loop: whoever takes deliveries.

use crate::desk::{Desk, Outcome};
use base::Instant;
use proto::amcast::{GroupId, Message, MessageId, Timestamp};
use runtime::{Poller, Ready};
use std::io;
use std::sync::Arc;

/// One message at one hosted member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Whose member delivers it. A node that hosts several destinations gets it once for each.
    pub group: GroupId,
    /// The message.
    pub message: Arc<Message>,
    /// Its final timestamp: the order is that of (timestamp, name), in every group.
    pub at: Timestamp,
}

/// An application of one node. Everything is called on the loop's thread; nothing may block.
pub trait Application {
    /// The node is open. Descriptors of the application's own go into `poller`, with keys below
    /// [`crate::node::APPLICATION_KEYS`].
    ///
    /// # Errors
    /// Those end the node.
    fn begin(&mut self, _poller: &Poller) -> io::Result<()> {
        Ok(())
    }

    /// The next message of one hosted group.
    fn deliver(&mut self, delivery: Delivery, desk: &mut Desk);

    /// What became of a message that this node multicast.
    fn outcome(&mut self, id: MessageId, outcome: Outcome, desk: &mut Desk);

    /// A descriptor of the application's own is ready.
    fn on_ready(&mut self, _ready: Ready, _poller: &Poller, _desk: &mut Desk) {}

    /// Once a turn, and before the node sleeps: whatever waits, multicasts of its own among it.
    /// True if something was done, so that more may be possible.
    fn turn(&mut self, _poller: &Poller, _desk: &mut Desk) -> bool {
        false
    }

    /// No more deliveries, please: the node then takes nothing from its peers, and in the end
    /// their `multicast` to the groups here refuses. What is in hand is still delivered.
    fn is_full(&self) -> bool {
        false
    }

    /// When [`Application::turn`] has something to do even if nothing happens.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}
