//! Agreement: no two nodes, in any of their lives, deliver different values for one slot.
//!
//! Why no false alarm: the first delivery fixes the value, and a decided value never changes.
//! Values are compared by a hash of 64 bits: a collision would hide a violation, never invent one.

use base::Slot;

/// The first value delivered at each slot.
#[derive(Default)]
pub(crate) struct Agreement {
    slots: Vec<Option<u64>>,
    n_decided: u64,
}

/// Whether a delivery was the slot's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    First,
    Repeated,
}

impl Agreement {
    /// The number of decided slots.
    pub(crate) fn n_decided(&self) -> u64 {
        self.n_decided
    }

    pub(crate) fn delivered(&mut self, slot: Slot, hash: u64) -> Result<Delivery, String> {
        let index = slot.0 as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, None);
        }
        match self.slots[index] {
            None => {
                self.slots[index] = Some(hash);
                self.n_decided += 1;
                Ok(Delivery::First)
            }
            Some(first) if first == hash => Ok(Delivery::Repeated),
            Some(first) => Err(format!("slot {slot} was delivered as {first:#x} and as {hash:#x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_values_for_one_slot_are_a_violation() {
        let mut agreement = Agreement::default();
        assert_eq!(agreement.delivered(Slot(3), 1), Ok(Delivery::First));
        assert_eq!(agreement.delivered(Slot(3), 1), Ok(Delivery::Repeated));
        assert!(agreement.delivered(Slot(3), 2).is_err());
        assert_eq!(agreement.delivered(Slot(2), 2), Ok(Delivery::First));
    }
}
