//! Nothing stable is lost: what a sender has delivered itself, and so takes for stable, every
//! process delivers that is in the next view with the state, or has it in the state that it is
//! given.
//!
//! No false alarm: a process is asked only for views that it survived, from its state on.

use super::History;
use crate::group::history::ProcessId;
use proto::vsync::Position;
use std::collections::BTreeSet;

pub(super) fn check(history: &History) -> Result<(), String> {
    for (sender, record) in &history.records {
        let own = record
            .deliveries()
            .filter(|(_, id, _)| ProcessId(id.sender, id.incarnation) == *sender);
        let own: Vec<_> = own.collect();
        for (process, other) in &history.records {
            let Some(begin) = other.begins_at() else { continue };
            let theirs: BTreeSet<Position> = other.deliveries().map(|(at, ..)| at).collect();
            let is_lost =
                |at: &Position| other.survived(at.view) && begin <= *at && !theirs.contains(at);
            if let Some((at, id, _)) = own.iter().find(|(at, ..)| is_lost(at)) {
                return Err(format!(
                    "{sender:?} saw {id:?} stable at {at:?}, and {process:?} has lost it"
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
    fn a_message_that_its_sender_delivered_is_kept_by_the_survivors() {
        let mut history = History::default();
        history.installed(0, 1, &[0, 1, 2]).delivered(0, (1, 0), (0, 1));
        history.installed(1, 1, &[0, 1, 2]);
        assert_eq!(check(&history), Ok(()));
        history.installed(1, 2, &[1, 2]);
        assert!(check(&history).is_err());
    }
}
