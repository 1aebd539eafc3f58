//! Global total order (2.2.1): let m < m' if some process delivers m before m'; < is acyclic.
//!
//! Where messages commute (4.4.3) only conflicting ones count. Where none does, neighbours in each
//! process's order are enough: < is the closure of those edges.

use super::relation::Relation;
use crate::amcast::history::History;

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut relation = Relation::new();
    let is_total = history.is_total();
    for order in history.deliveries().values() {
        if is_total {
            order.windows(2).for_each(|pair| relation.relate(pair[0].0, pair[1].0));
            continue;
        }
        for (at, (before, _)) in order.iter().enumerate() {
            for (after, _) in
                order[at + 1..].iter().filter(|(id, _)| history.conflict(*before, *id))
            {
                relation.relate(*before, *after);
            }
        }
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
    use proto::amcast::Footprint;

    #[test]
    fn what_commutes_is_in_no_circle() {
        let circle = |third| {
            let mut history = History::default();
            history.touching(1, &[0, 2], Footprint::of_classes(0, 1));
            history.touching(2, &[0, 1], Footprint::of_classes(1, 2));
            history.touching(3, &[1, 2], third);
            history.delivered(pid(0, 0), 1, 1).delivered(pid(0, 0), 2, 2);
            history.delivered(pid(1, 0), 2, 2).delivered(pid(1, 0), 3, 3);
            history.delivered(pid(2, 0), 3, 3).delivered(pid(2, 0), 1, 1);
            check(&history)
        };
        assert!(circle(Footprint::of_classes(2, 1)).is_err(), "it reads 2's and writes 1's");
        assert_eq!(circle(Footprint::of_classes(2, 4)), Ok(()), "it does not touch 1's");
        let mut history = History::default();
        history.touching(1, &[0], Footprint::of_classes(0, 1));
        history.touching(2, &[0], Footprint::of_classes(0, 2));
        history.delivered(pid(0, 0), 1, 1).delivered(pid(0, 0), 2, 2);
        history.delivered(pid(0, 1), 2, 2).delivered(pid(0, 1), 1, 1);
        assert_eq!(check(&history), Ok(()));
    }

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
