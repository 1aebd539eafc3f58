//! Uniform agreement (2.2.1): if any process delivers m, every correct destination delivers m.
//! Judged at the end, after faults have stopped.

use crate::amcast::history::History;
use std::collections::BTreeSet;

pub(super) fn check(history: &History) -> Result<(), String> {
    let deliveries = history.deliveries();
    let by_anybody: BTreeSet<_> = deliveries.values().flatten().map(|(id, _)| *id).collect();
    for process in &history.correct {
        let own = deliveries.get(process).into_iter().flatten();
        let own: BTreeSet<_> = own.map(|(id, _)| *id).collect();
        for id in &by_anybody {
            let is_addressed = history.dest(*id).is_some_and(|dest| dest.contains(process.group));
            if is_addressed && !own.contains(id) {
                return Err(format!("{process:?} never delivers {id:?}, which others delivered"));
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
    fn what_the_dead_delivered_the_living_deliver() {
        let mut history = History::default();
        history.multicast(1, &[0]).multicast(2, &[0]).delivered(pid(0, 0), 1, 1);
        history.correct = vec![pid(0, 1), pid(1, 0)];
        assert!(check(&history).is_err());
        assert_eq!(check(history.delivered(pid(0, 1), 1, 1)), Ok(()));
    }
}
