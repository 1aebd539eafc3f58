//! Sender order (`vsync`, V7): every process delivers the messages of each sender in the order in
//! which it multicast them, without a gap, through all views.
//!
//! No false alarm: a newcomer's first message of a sender may have any ordinal, since its state
//! covers those before, or there is no state. That the state fits is for `copies`. In a shard that
//! begins later, or again, a sender may have sent before.

use super::History;
use proto::vsync::ViewId;
use std::collections::BTreeMap;

pub(super) fn check(history: &History) -> Result<(), String> {
    for (process, record) in &history.records {
        let is_newcomer = record.taken().is_some() || record.is_late();
        let is_anew = record.born() > ViewId::FIRST;
        let mut last = BTreeMap::new();
        for (at, id, _) in record.deliveries() {
            let first = if is_newcomer || is_anew { None } else { Some(0) };
            let before = last.insert((id.sender, id.incarnation), id.ordinal).or(first);
            if before.is_some_and(|before| before + 1 != id.ordinal) {
                return Err(format!(
                    "{process:?} delivered {id:?} at {at:?} right after ordinal {before:?}"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_reversals_are_violations() {
        let mut sound = History::default();
        sound.delivered(0, (1, 0), (0, 1)).delivered(0, (2, 0), (0, 2)).took(1, (3, 0));
        sound.delivered(1, (3, 0), (0, 3));
        assert_eq!(check(&sound), Ok(()));
        assert!(check(sound.clone().delivered(0, (3, 0), (0, 4))).is_err());
        assert!(check(sound.clone().delivered(1, (3, 3), (0, 2))).is_err());
        assert!(check(sound.clone().delivered(0, (3, 0), (1, 2))).is_err(), "the first is missing");
    }
}
