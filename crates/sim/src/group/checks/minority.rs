//! A minority stops (`vsync`, C7): of each view, a strict majority is in the next one, or has asked
//! to leave. So no two groups descend from one.
//!
//! No false alarm: members are compared as processes, and a leaver asks before it is left out. In a
//! durable group a member is its log: a process that returns has the seat of the one before, and is
//! a member since the same view, as no newcomer is.

use super::History;
use crate::group::history::ProcessId;
use base::majority;
use proto::vsync::Member;

pub(super) fn check(history: &History) -> Result<(), String> {
    let views = history.views();
    for (id, view) in &views {
        let Some(next) = views.get(&id.next()) else { continue };
        let is_counted = |member: &&Member| {
            let process = ProcessId::of(&member.process);
            let has_log = |one: &Member| (one.seat(), one.since) == (member.seat(), member.since);
            let is_same = |one: &Member| {
                ProcessId::of(&one.process) == process || history.is_durable && has_log(one)
            };
            let stays = next.members.iter().any(is_same);
            stays || history.records.get(&process).is_some_and(|record| record.asked_to_leave)
        };
        let n_counted = view.members.iter().filter(is_counted).count();
        if n_counted < majority(view.members.len()) {
            return Err(format!(
                "{n_counted} of the {} members of view {id} are in the next one",
                view.members.len()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::history::made_up::process;

    #[test]
    fn half_of_a_view_does_not_make_the_next_one_unless_others_left() {
        let mut history = History::default();
        history.installed(0, 1, &[0, 1, 2, 3]).installed(0, 2, &[0, 1, 2]);
        assert_eq!(check(&history), Ok(()));
        let mut half = History::default();
        half.installed(0, 1, &[0, 1, 2, 3]).installed(0, 2, &[0, 1]);
        assert!(check(&half).is_err());
        half.record(process(3)).asked_to_leave = true;
        assert_eq!(check(&half), Ok(()));
    }
}
