//! View agreement (`vsync`, V1): processes that install a view with one number install the same
//! one; each is a member of it; and each installs consecutive views.
//!
//! No false alarm: a view is a value, compared as a whole, and a process that misses a view stops.

use super::History;
use crate::group::history::ProcessId;

pub(super) fn check(history: &History) -> Result<(), String> {
    let views = history.views();
    for (process, record) in &history.records {
        let mut before = None;
        for view in record.views() {
            if views[&view.id] != view {
                return Err(format!(
                    "{process:?} installed {view:?}, another process {:?}",
                    views[&view.id]
                ));
            }
            if !view.members.iter().any(|one| ProcessId::of(&one.process) == *process) {
                return Err(format!("{process:?} installed {view:?}, and is no member of it"));
            }
            if before.is_some_and(|before: proto::vsync::ViewId| before.next() != view.id) {
                return Err(format!("{process:?} installed {before:?} and then {}", view.id));
            }
            before = Some(view.id);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_views_of_one_number_strangers_and_gaps_are_violations() {
        let mut sound = History::default();
        sound.installed(0, 1, &[0, 1]).installed(1, 1, &[0, 1]).installed(0, 2, &[0]);
        assert_eq!(check(&sound), Ok(()));
        assert!(check(sound.clone().installed(1, 2, &[1])).is_err(), "two views 2");
        assert!(check(sound.clone().installed(1, 2, &[0])).is_err(), "of which it is no member");
        assert!(check(sound.clone().installed(0, 4, &[0])).is_err(), "view 3 is missing");
    }
}
