//! Virtual synchrony (`vsync`, V6): what any process delivers in a view, every process that
//! delivers something later has delivered before it, unless its state covers it. So survivors
//! deliver the same messages between two views, and the dead a prefix of them.
//!
//! No false alarm: a process is asked only for what lies between the beginning of its record and
//! its last delivery, or the end of a view that it survived.

use super::History;
use crate::group::history::{MessageId, Record};
use proto::vsync::{Position, ViewId};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(history: &History) -> Result<(), String> {
    let all = history.records.values().flat_map(Record::deliveries);
    let all: BTreeMap<Position, MessageId> = all.map(|(at, id, _)| (at, id)).collect();
    for (process, record) in &history.records {
        let Some(begin) = record.begins_at() else { continue };
        let Some(end) = reach(record) else { continue };
        let own: BTreeSet<Position> = record.deliveries().map(|(at, ..)| at).collect();
        let mut between = all.iter().filter(|(at, _)| begin <= **at && **at < end);
        if let Some((at, id)) = between.find(|(at, _)| !own.contains(at)) {
            return Err(format!("{process:?} never delivered {id:?} at {at:?}, and was there"));
        }
    }
    Ok(())
}

/// The position before which `record` has been told everything.
fn reach(record: &Record) -> Option<Position> {
    let last = record.deliveries().last().map(|(at, ..)| Position { at: at.at + 1, ..at });
    let views: Vec<ViewId> = record.views().map(|view| view.id).collect();
    let survived = views.iter().rev().nth(1).map(|view| Position { view: view.next(), at: 0 });
    last.max(survived)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_a_violation_and_the_dead_deliver_a_prefix() {
        let mut history = History::default();
        history.installed(0, 1, &[0, 1, 2]).delivered(0, (1, 0), (0, 1)).delivered(
            0,
            (1, 1),
            (1, 1),
        );
        history.installed(1, 1, &[0, 1, 2]).delivered(1, (1, 0), (0, 1));
        assert_eq!(check(&history), Ok(()), "a prefix");
        assert!(check(history.clone().installed(1, 2, &[0, 1])).is_err(), "a survivor");
        assert!(check(history.clone().delivered(1, (1, 2), (2, 1))).is_err(), "a gap");
    }

    #[test]
    fn what_a_state_covers_is_not_asked_for() {
        let mut history = History::default();
        history.installed(0, 2, &[0, 1]).took(0, (2, 1)).delivered(0, (2, 2), (1, 2));
        history.installed(1, 1, &[1]).delivered(1, (1, 0), (1, 1)).installed(1, 2, &[0, 1]);
        history.delivered(1, (2, 0), (0, 1)).delivered(1, (2, 2), (1, 2));
        assert_eq!(check(&history), Ok(()));
        history.delivered(1, (2, 3), (1, 3)).delivered(0, (2, 4), (0, 2));
        assert!(check(&history).is_err());
    }
}
