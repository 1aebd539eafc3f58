//! Same trim (`vsync`, C6): all processes that come from one view into the next have delivered the
//! first up to the same position.
//!
//! No false alarm: only processes with the state are looked at, from the position on that their
//! state covers; what a view delivers stands in its own positions, also where it is told late.

use super::History;
use crate::group::history::{ProcessId, Record};
use proto::vsync::{Position, ViewId};

pub(super) fn check(history: &History) -> Result<(), String> {
    for id in history.views().keys().copied() {
        let mut first: Option<(ProcessId, Option<Position>)> = None;
        for (process, record) in &history.records {
            if !record.survived(id) || !is_told(record, id) {
                continue;
            }
            let last = record.deliveries().map(|(at, ..)| at).filter(|at| at.view == id).last();
            let (other, others) = *first.get_or_insert((*process, last));
            if others != last {
                return Err(format!(
                    "view {id} ended with {others:?} at {other:?} and with {last:?} at {process:?}"
                ));
            }
        }
    }
    Ok(())
}

/// Whether `record` was told all that `view` delivers, or nothing of it precedes its state.
fn is_told(record: &Record, view: ViewId) -> bool {
    record.begins_at().is_some_and(|at| at <= Position { view, at: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survivors_with_different_ends_are_a_violation() {
        let mut history = History::default();
        for seat in [0, 1] {
            history.installed(seat, 1, &[0, 1]).delivered(seat, (1, 0), (0, 1));
        }
        history.delivered(0, (1, 1), (1, 1)).installed(0, 2, &[0, 1]);
        assert_eq!(check(&history), Ok(()), "the other one may have died");
        assert!(check(history.clone().installed(1, 2, &[0, 1])).is_err());
        history.delivered(1, (1, 1), (1, 1)).installed(1, 2, &[0, 1]);
        assert_eq!(check(&history), Ok(()));
    }
}
