//! Uniform prefix order (2.2.1): if p delivers m and q delivers m', both addressed to both, then p
//! delivers m' before m or q delivers m before m'.
//!
//! Equivalent, given integrity: of the two orders of common messages one begins with the other. At
//! the first difference p has some m and q some m', and neither has the other's before it.
//!
//! Where messages commute, the same for each pair that conflicts (4.4.3, generalized prefix order).

use crate::amcast::history::History;
use proto::amcast::{MessageId, Pid, Timestamp};
use std::collections::BTreeMap;

pub(super) fn check(history: &History) -> Result<(), String> {
    let deliveries = history.deliveries();
    let is_total = history.is_total();
    let processes: Vec<(&Pid, &Vec<_>)> = deliveries.iter().collect();
    for (at, (p, of_p)) in processes.iter().enumerate() {
        for (q, of_q) in &processes[at + 1..] {
            let common = |(id, _): &&(MessageId, Timestamp)| {
                history
                    .dest(*id)
                    .is_some_and(|dest| dest.contains(p.group) && dest.contains(q.group))
            };
            if !is_total {
                generalized(history, (p, &common_of(of_p, common)), (q, &common_of(of_q, common)))?;
                continue;
            }
            let pairs = of_p.iter().filter(common).zip(of_q.iter().filter(common));
            for ((m, _), (other, _)) in pairs {
                if m != other {
                    return Err(format!("{p:?} delivers {m:?} where {q:?} delivers {other:?}"));
                }
            }
        }
    }
    Ok(())
}

fn common_of(
    order: &[(MessageId, Timestamp)],
    common: impl Fn(&&(MessageId, Timestamp)) -> bool,
) -> Vec<MessageId> {
    order.iter().filter(common).map(|(id, _)| *id).collect()
}

/// Checks each conflicting pair of which p has one and q the other: one of the two has both, in
/// order.
fn generalized(
    history: &History,
    (p, of_p): (&Pid, &[MessageId]),
    (q, of_q): (&Pid, &[MessageId]),
) -> Result<(), String> {
    let place = |order: &[MessageId]| -> BTreeMap<MessageId, usize> {
        order.iter().enumerate().map(|(at, id)| (*id, at)).collect()
    };
    let (at_p, at_q) = (place(of_p), place(of_q));
    let is_before = |places: &BTreeMap<MessageId, usize>, a, b| match (places.get(a), places.get(b))
    {
        (Some(a), Some(b)) => a < b,
        _ => false,
    };
    for m in of_p {
        for other in of_q.iter().filter(|other| *other != m && history.conflict(*m, **other)) {
            if !is_before(&at_p, other, m) && !is_before(&at_q, m, other) {
                return Err(format!(
                    "{p:?} delivers {m:?} and {q:?} delivers {other:?}, which conflict, and neither \
                     delivers the other's before"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::history::made_up::pid;
    use proto::amcast::Footprint;

    #[test]
    fn what_conflicts_keeps_its_order_and_what_commutes_need_not() {
        let of = |b_writes: u64| {
            let mut history = History::default();
            history.touching(1, &[0], Footprint::of_classes(0, 1));
            history.touching(2, &[0], Footprint::of_classes(0, b_writes));
            history.delivered(pid(0, 0), 1, 1).delivered(pid(0, 0), 2, 2);
            history.delivered(pid(0, 1), 2, 2).delivered(pid(0, 1), 1, 1);
            check(&history)
        };
        assert_eq!(of(2), Ok(()));
        assert!(of(3).is_err());
        let mut history = History::default();
        history.touching(1, &[0], Footprint::of_classes(0, 1));
        history.touching(2, &[0], Footprint::of_classes(1, 0));
        history.delivered(pid(0, 0), 1, 1).delivered(pid(0, 1), 2, 2);
        assert!(check(&history).is_err(), "a hole in the order of what conflicts");
    }

    #[test]
    fn a_hole_in_a_dead_processs_order_is_a_violation() {
        let mut history = History::default();
        history.multicast(1, &[0]).multicast(2, &[0]);
        history.delivered(pid(0, 0), 1, 1).delivered(pid(0, 0), 2, 2);
        history.delivered(pid(0, 1), 1, 1);
        assert_eq!(check(&history), Ok(()), "a shorter order is a prefix");
        history.delivered(pid(0, 2), 2, 2);
        assert!(check(&history).is_err(), "a later one without the earlier is none");
    }

    #[test]
    fn only_common_messages_count() {
        let mut history = History::default();
        history.multicast(1, &[0]).multicast(2, &[0, 1]).multicast(3, &[1]);
        history.delivered(pid(0, 0), 1, 1).delivered(pid(0, 0), 2, 2);
        history.delivered(pid(1, 0), 3, 1).delivered(pid(1, 0), 2, 2);
        assert_eq!(check(&history), Ok(()));
    }
}
