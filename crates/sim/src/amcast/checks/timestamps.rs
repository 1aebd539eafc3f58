//! The timestamped interface (4.4.2): one final timestamp for each message, above its sender's
//! bound, and rising in each process's order (equal ones by name). Where messages commute it rises
//! from each one to those after it that conflict with it.

use crate::amcast::history::History;
use proto::amcast::{MessageId, Timestamp};
use std::collections::BTreeMap;

pub(super) fn check(history: &History) -> Result<(), String> {
    let is_total = history.is_total();
    let mut agreed: BTreeMap<_, Timestamp> = BTreeMap::new();
    for (process, order) in history.deliveries() {
        for (id, ts) in &order {
            let first = *agreed.entry(*id).or_insert(*ts);
            if first != *ts {
                return Err(format!("{id:?} has {ts:?} at {process:?} and {first:?} elsewhere"));
            }
            let after = history.meant.get(id).map_or(Timestamp::ZERO, |meant| meant.after);
            if *ts <= after {
                return Err(format!("{id:?} has {ts:?}, not above {after:?}"));
            }
        }
        let rises =
            |a: &(MessageId, Timestamp), b: &(MessageId, Timestamp)| (a.1, a.0) < (b.1, b.0);
        for (at, one) in order.iter().enumerate() {
            let next = order[at + 1..].iter().take(if is_total { 1 } else { usize::MAX });
            let falls = |later: &&_| !rises(one, later) && history.conflict(one.0, later.0);
            if let Some(later) = next.clone().find(falls) {
                return Err(format!("{process:?} delivers {one:?} before {later:?}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::history::made_up::pid;

    #[test]
    fn one_timestamp_each_and_rising() {
        let mut history = History::default();
        history.multicast(1, &[0]).multicast(2, &[0]);
        history.delivered(pid(0, 0), 1, 3).delivered(pid(0, 0), 2, 3);
        assert_eq!(check(&history), Ok(()), "names break ties");
        assert!(check(history.clone().delivered(pid(0, 1), 1, 4)).is_err(), "two for one");
        let mut history = History::default();
        history.multicast(1, &[0]).multicast(2, &[0]);
        history.delivered(pid(0, 0), 2, 3).delivered(pid(0, 0), 1, 3);
        assert!(check(&history).is_err(), "against the names");
    }
}
