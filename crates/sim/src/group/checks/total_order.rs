//! Total order (`vsync`, V2): a position has one message, at every process; and each process is
//! told messages in the order of their positions.
//!
//! No false alarm: a position is delivered once in a view, and views are agreed on.

use super::History;
use std::collections::BTreeMap;

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut order = BTreeMap::new();
    for (process, record) in &history.records {
        let mut last = None;
        for (at, id, _) in record.deliveries() {
            if last.is_some_and(|last| last >= at) {
                return Err(format!("{process:?} delivered {at:?} after {last:?}"));
            }
            last = Some(at);
            let first = *order.entry(at).or_insert((id, *process));
            if first.0 != id {
                return Err(format!(
                    "at {at:?}, {process:?} delivered {id:?} and {:?} {:?}",
                    first.1, first.0
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
    fn two_messages_at_one_position_and_falling_positions_are_violations() {
        let mut sound = History::default();
        sound.delivered(0, (1, 1), (1, 1)).delivered(1, (1, 1), (1, 1)).delivered(
            1,
            (2, 0),
            (0, 1),
        );
        assert_eq!(check(&sound), Ok(()));
        assert!(check(sound.clone().delivered(0, (2, 0), (1, 2))).is_err());
        assert!(check(sound.clone().delivered(1, (1, 5), (0, 2))).is_err());
    }
}
