//! The interface of an application, which takes the deliveries of a node.

use crate::multicast::desk::{Desk, Outcome, Snapshot};
use base::Instant;
use proto::amcast::{Cut, GroupId, Message, MessageId, Timestamp};
use std::sync::Arc;

/// One message at one hosted member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The group whose member delivers it. A node that hosts several destinations gets it once for
    /// each.
    pub group: GroupId,
    /// The message.
    pub message: Arc<Message>,
    /// The final timestamp: the order is that of (timestamp, name), in every group.
    pub at: Timestamp,
}

/// The application of one node. All calls are in the node's turns, and none may block.
pub trait Application {
    /// Delivers the next message of one hosted group.
    fn deliver(&mut self, delivery: Delivery, desk: &mut Desk);

    /// Reports a snapshot that [`Desk::snapshot`] promised, once for each of its groups. If the cut
    /// is exact, the group's deliveries so far are those with a final timestamp up to `at`, and no
    /// others: the state can be read now. A missed cut reports nothing about the state.
    fn snapshot(&mut self, _snapshot: Snapshot, _group: GroupId, _cut: Cut, _desk: &mut Desk) {}

    /// Reports the outcome of a message that this node multicast.
    fn outcome(&mut self, id: MessageId, outcome: Outcome, desk: &mut Desk);

    /// Performs waiting work, once a turn and before the node sleeps; it may multicast. Returns
    /// true if it did something, so that more may be possible.
    fn turn(&mut self, _desk: &mut Desk) -> bool {
        false
    }

    /// Minds clients in place of [`Application::turn`], every few milliseconds, while the node
    /// stands still until its disk has taken more. A full disk can hold it for hours. Nothing is
    /// delivered meanwhile, and what the application multicasts leaves when the disk has room.
    fn held(&mut self, _desk: &mut Desk) {}

    /// Whether the application wants no further deliveries: the node then takes nothing from its
    /// peers, and eventually their `multicast` to the groups here refuses. Messages that the node
    /// already holds are still delivered.
    fn is_full(&self) -> bool {
        false
    }

    /// Whether the application can serialise its state and install another one. A node with a data
    /// directory needs that; without it, the others wait for members that fall behind, however
    /// long.
    fn keeps_states(&self) -> bool {
        false
    }

    /// Whether another member's state of one group fits the other groups' own states here. If not,
    /// only its disk brings a node back, and the messages that it misses are kept for it, until
    /// they fill `limits.held_bytes` and messages are refused.
    fn takes_states_of_others(&self) -> bool {
        self.keeps_states()
    }

    /// Whether the states of all groups fit together only as they were in one node at one moment.
    /// They are then installed together, after [`Application::forget`].
    fn states_are_joint(&self) -> bool {
        false
    }

    /// Forgets everything that was delivered here: the states of all groups of another node are
    /// installed next. Own messages that are in those states get no further report.
    fn forget(&mut self, _desk: &mut Desk) {
        debug_assert!(!self.states_are_joint(), "an application with joint states forgets");
    }

    /// The state that the deliveries of one hosted group have made.
    fn state(&mut self, group: GroupId) -> Vec<u8> {
        let _ = group;
        Vec::new()
    }

    /// Replaces a group's state by another member's, or by the one that an earlier life of this
    /// node kept. Later deliveries that the state includes are not delivered here.
    fn install(&mut self, group: GroupId, state: &[u8], desk: &mut Desk) {
        let _ = (group, state, desk);
        debug_assert!(self.keeps_states(), "a state came to an application that keeps none");
    }

    /// The time at which [`Application::turn`] has something to do even without an event.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}
