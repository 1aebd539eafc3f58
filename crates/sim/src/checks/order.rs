//! Order and integrity: in one life a node delivers each slot once, in order, without gaps,
//! starting from the prefix of the state that it has.
//!
//! Why no false alarm: the expected slot is moved by nothing but deliveries, installed states and
//! the start of a life.

use base::{Prefix, Slot};

/// The next slot that one node delivers in this life.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order(Prefix);

impl Order {
    pub(crate) fn delivered(&mut self, slot: Slot) -> Result<(), String> {
        let expected = self.0.next_slot();
        self.0 = slot.prefix_through();
        if slot == expected {
            Ok(())
        } else {
            Err(format!("slot {slot} was delivered where {expected} had to come"))
        }
    }

    /// Replaces the prefix by that of an installed state.
    pub(crate) fn installed(&mut self, prefix: Prefix) {
        self.0 = prefix;
    }

    pub(crate) fn applied(&self) -> Prefix {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_repetitions_are_violations() {
        let mut order = Order::default();
        assert!(order.delivered(Slot(0)).is_ok());
        assert!(order.delivered(Slot(2)).is_err());
        order.installed(Prefix(5));
        assert!(order.delivered(Slot(5)).is_ok());
        assert!(order.delivered(Slot(5)).is_err());
    }
}
