//! The state is kept (`vsync`, V9): it is lost only with members that fail, never since the members
//! that have it leave.
//!
//! No false alarm: a group whose last member with the state has died, was excluded, or was not
//! trusted by the one that lost it, is not judged; nor is a durable one, which waits for the log
//! of such a member (`power`, P2).

use super::History;
use crate::group::history::{Record, Told};
use proto::vsync::{End, ViewId};

pub(super) fn check(history: &History) -> Result<(), String> {
    if history.is_durable {
        return Ok(());
    }
    for (process, record) in &history.records {
        let is_lost = record.told.contains(&Told::Ended(End::StateLost));
        let Some(view) = record.views().last().filter(|_| is_lost) else { continue };
        let had_it = |other: &&Record| {
            let near = |id: ViewId| id == view.id || id.next() == view.id;
            other.begins_at().is_some() && other.views().any(|view| near(view.id))
        };
        // (One that went into a later view is not gone: this process did not trust it.)
        let left = |other: &Record| {
            let last = other.views().last().is_some_and(|last| last.id <= view.id);
            last && other.told.contains(&Told::Ended(End::Left))
        };
        if history.records.values().filter(had_it).all(left) {
            return Err(format!("{process:?} lost the state in view {}: all others left", view.id));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::history::made_up::process;

    #[test]
    fn a_state_that_leaves_is_lost_by_a_mistake_and_one_that_dies_is_not() {
        let mut history = History::default();
        history.installed(0, 1, &[0]).installed(0, 2, &[0, 1]).installed(1, 2, &[0, 1]);
        history.record(process(1)).told.push(Told::Ended(End::StateLost));
        assert_eq!(check(&history), Ok(()));
        let mut later = history.clone();
        history.record(process(0)).told.push(Told::Ended(End::Left));
        assert!(check(&history).is_err());
        later.installed(0, 3, &[0]).record(process(0)).told.push(Told::Ended(End::Left));
        assert_eq!(check(&later), Ok(()), "it was not trusted, and went into a later view");
    }
}
