//! Snapshots at a timestamp (4.4.2): a replica that serves one at t has delivered every message to
//! its group with a final timestamp up to t, and nothing else; and a replica that was asked in time
//! serves it.

use crate::amcast::history::{Happened, History};
use proto::amcast::{MessageId, Pid, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut delivered: BTreeMap<Pid, BTreeSet<MessageId>> = BTreeMap::new();
    // Final timestamps are agreed on, which another checker judges.
    let finals: BTreeMap<MessageId, Timestamp> =
        history.deliveries().values().flatten().copied().collect();
    let mut due = history.cuts_due.clone();
    for (_, happened) in &history.happened {
        match happened {
            Happened::Multicast(_) => {}
            Happened::Delivered { by, id, .. } => {
                delivered.entry(*by).or_default().insert(*id);
            }
            Happened::Cut { by, at, is_exact } => {
                due.remove(&(*by, *at));
                let has = delivered.entry(*by).or_default();
                if let Some(difference) = finals.iter().find(|(id, ts)| {
                    let is_ours = history.dest(**id).is_some_and(|to| to.contains(by.group));
                    is_ours && (*ts <= at) != has.contains(id)
                }) && *is_exact
                {
                    let (id, ts) = difference;
                    let how = if ts <= at { "lacks" } else { "contains" };
                    return Err(format!("{by:?}'s snapshot at {at:?} {how} {id:?}, at {ts:?}"));
                }
            }
        }
    }
    match due.iter().find(|(by, _)| history.correct.contains(by)) {
        None => Ok(()),
        Some((by, at)) => Err(format!("{by:?} never serves the snapshot at {at:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::history::made_up::pid;

    fn history() -> History {
        let mut history = History { correct: vec![pid(0, 0)], ..History::default() };
        history.multicast(1, &[0]).multicast(2, &[0]).multicast(3, &[1]);
        history.delivered(pid(0, 0), 1, 3).delivered(pid(1, 0), 3, 1);
        history
    }

    fn cut(history: &mut History, at: u64, is_exact: bool) {
        let (by, at) = (pid(0, 0), Timestamp(at));
        history.happened.push((0, Happened::Cut { by, at, is_exact }));
    }

    #[test]
    fn a_snapshot_is_what_is_up_to_it_and_nothing_else() {
        for (second, is_right) in [(4, true), (5, false)] {
            let mut history = history();
            cut(&mut history, 4, true);
            history.delivered(pid(0, 1), 2, if second == 4 { 5 } else { 4 });
            assert_eq!(check(&history).is_ok(), is_right, "another member delivers one up to it");
        }
        let mut history = history();
        history.delivered(pid(0, 0), 2, 7);
        cut(&mut history, 5, false);
        assert_eq!(check(&history), Ok(()), "it is said that there is none");
        cut(&mut history, 5, true);
        assert!(check(&history).is_err(), "too much");
    }

    #[test]
    fn who_was_asked_in_time_serves() {
        let mut history = history();
        history.cuts_due.insert((pid(0, 0), Timestamp(4)));
        assert!(check(&history).is_err());
        cut(&mut history, 4, true);
        assert_eq!(check(&history), Ok(()));
    }
}
