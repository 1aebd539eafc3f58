//! Validity: what is delivered was multicast, once at each process, in a view of which its sender
//! is a member.
//!
//! No false alarm: messages are counted when the machine takes them, before it can send them.

use super::History;
use crate::group::history::ProcessId;
use std::collections::BTreeSet;

pub(super) fn check(history: &History) -> Result<(), String> {
    let views = history.views();
    for (process, record) in &history.records {
        let mut seen = BTreeSet::new();
        for (at, id, _) in record.deliveries() {
            let sender = ProcessId(id.sender, id.incarnation);
            let n_multicast = history.records.get(&sender).map_or(0, |record| record.n_multicast);
            if id.ordinal == 0 || id.ordinal > n_multicast {
                return Err(format!("{process:?} delivered {id:?} at {at:?}: never multicast"));
            }
            if !seen.insert(id) {
                return Err(format!("{process:?} delivered {id:?} twice, the last at {at:?}"));
            }
            let view = views.get(&at.view);
            let mut members = view.iter().flat_map(|view| &view.members);
            if !members.any(|one| ProcessId::of(&one.process) == sender) {
                return Err(format!("{process:?} delivered {id:?} at {at:?}, of no member"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inventions_repetitions_and_strangers_are_violations() {
        let mut sound = History::default();
        sound.installed(0, 1, &[0, 1]).multicast(1, 2).multicast(2, 1).delivered(0, (1, 1), (1, 1));
        assert_eq!(check(&sound), Ok(()));
        assert!(check(sound.clone().delivered(0, (1, 3), (1, 3))).is_err(), "never multicast");
        assert!(check(sound.clone().delivered(0, (1, 3), (1, 1))).is_err(), "twice");
        assert!(check(sound.clone().delivered(0, (1, 3), (2, 1))).is_err(), "of no member");
    }
}
