//! What stands behind the loop: whoever takes deliveries.

use crate::desk::{Desk, Outcome, Snapshot};
use base::Instant;
use proto::amcast::{Cut, GroupId, Message, MessageId, Timestamp};
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

    /// What became of a snapshot that [`Desk::snapshot`] promised, once for each of its groups. If
    /// it is exact, the group's deliveries so far are those with a final timestamp up to `at`, and
    /// no others: now is the moment to look at the state. Of a missed one nothing can be said.
    fn snapshot(&mut self, _snapshot: Snapshot, _group: GroupId, _cut: Cut, _desk: &mut Desk) {}

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

    /// Whether it can say its state and take over another's. A node with a data directory wants
    /// that; without it, members that fall behind are waited for, however long.
    fn keeps_states(&self) -> bool {
        false
    }

    /// Whether another member's state of one group fits here beside the other groups' own; if not,
    /// its disk alone brings a node back, and what it lacks is kept for it, until
    /// `limits.held_bytes` are and messages are refused.
    fn takes_states_of_others(&self) -> bool {
        self.keeps_states()
    }

    /// Whether its states of all groups fit together only as they were in one node at one moment:
    /// then they are taken over together, after [`Application::forget`].
    fn states_are_joint(&self) -> bool {
        false
    }

    /// Everything that was delivered here is to be forgotten: the states of all groups of another
    /// node are installed next. Nothing more is heard of own messages that are in them.
    fn forget(&mut self, _desk: &mut Desk) {
        debug_assert!(!self.states_are_joint(), "an application with joint states forgets");
    }

    /// The state that the deliveries of one hosted group have made.
    fn state(&mut self, group: GroupId) -> Vec<u8> {
        let _ = group;
        Vec::new()
    }

    /// Replaces it by another member's, or by what an earlier life of this node kept. What was
    /// delivered meanwhile is in it, and is not delivered here.
    fn install(&mut self, group: GroupId, state: &[u8], desk: &mut Desk) {
        let _ = (group, state, desk);
        debug_assert!(self.keeps_states(), "a state came to an application that keeps none");
    }

    /// When [`Application::turn`] has something to do even if nothing happens.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}
