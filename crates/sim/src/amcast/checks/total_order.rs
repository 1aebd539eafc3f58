//! Global total order (2.2.1): let m < m' if some process delivers m before m'; < is acyclic.
//!
//! Neighbours in each process's order are enough: < is the closure of those edges.

use super::relation::Relation;
use crate::amcast::history::History;

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut relation = Relation::new();
    for order in history.deliveries().values() {
        order.windows(2).for_each(|pair| relation.relate(pair[0].0, pair[1].0));
    }
    match relation.cycle() {
        None => Ok(()),
        Some(cycle) => Err(format!("delivered in a circle: {cycle:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::history::made_up::pid;

    #[test]
    fn three_processes_that_each_agree_with_the_next_can_be_wrong_together() {
        let mut history = History::default();
        history.multicast(1, &[0, 2]).multicast(2, &[0, 1]).multicast(3, &[1, 2]);
        history.delivered(pid(0, 0), 1, 1).delivered(pid(0, 0), 2, 2);
        history.delivered(pid(1, 0), 2, 2).delivered(pid(1, 0), 3, 3);
        assert_eq!(check(&history), Ok(()));
        history.delivered(pid(2, 0), 3, 3).delivered(pid(2, 0), 1, 1);
        assert!(check(&history).is_err());
    }
}
