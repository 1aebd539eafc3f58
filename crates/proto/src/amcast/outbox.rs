//! A host that keeps what a step of a machine sends until the step is over, for worlds that look at
//! it then: the simulator's, the explorer's, and those of tests.

use super::{Cut, Deliveries, Host, Message, MessageId, Place, RealClock, Timestamp, To};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The host of the module's text, over what the deliveries go to.
#[derive(Debug)]
pub struct Outbox<W, D> {
    /// The messages that were sent, in order.
    pub sent: Vec<(To, W)>,
    /// What the deliveries went to.
    pub deliveries: D,
    /// The reading of the synchronized clock.
    pub clock: Option<RealClock>,
}

/// The names of the messages, in the order of their delivery.
impl Deliveries for Vec<(MessageId, Timestamp)> {
    fn deliver(&mut self, message: &Arc<Message>, at: Timestamp) {
        self.push((message.id, at));
    }
}

impl<W, D> Outbox<W, D> {
    /// A host before a step, with these deliveries.
    pub const fn new(deliveries: D, clock: Option<RealClock>) -> Outbox<W, D> {
        Outbox { sent: Vec::new(), deliveries, clock }
    }
}

impl<W, D: Default> Default for Outbox<W, D> {
    fn default() -> Outbox<W, D> {
        Outbox::new(D::default(), None)
    }
}

impl<W, D: Deliveries> Deliveries for Outbox<W, D> {
    fn deliver(&mut self, message: &Arc<Message>, at: Timestamp) {
        self.deliveries.deliver(message, at);
    }

    fn cut(&mut self, at: Timestamp, cut: Cut) {
        self.deliveries.cut(at, cut);
    }

    fn keeps_states(&self) -> bool {
        self.deliveries.keeps_states()
    }

    fn state(&mut self) -> Option<Vec<u8>> {
        self.deliveries.state()
    }

    fn install(&mut self, state: &[u8], through: Place) {
        self.deliveries.install(state, through);
    }
}

impl<W: Clone, D: Deliveries> Host<W> for Outbox<W, D> {
    fn send(&mut self, to: To, wire: &W) {
        self.sent.push((to, wire.clone()));
    }

    fn real_clock(&mut self) -> Option<RealClock> {
        self.clock
    }
}
