//! Uniform prefix order (2.2.1): if p delivers m and q delivers m', both addressed to both, then p
//! delivers m' before m or q delivers m before m'.
//!
//! Equivalent, given integrity: of the two orders of common messages one begins with the other. At
//! the first difference p has some m and q some m', and neither has the other's before it.

use crate::amcast::history::History;
use proto::amcast::{MessageId, Pid};

pub(super) fn check(history: &History) -> Result<(), String> {
    let deliveries = history.deliveries();
    let processes: Vec<(&Pid, &Vec<_>)> = deliveries.iter().collect();
    for (at, (p, of_p)) in processes.iter().enumerate() {
        for (q, of_q) in &processes[at + 1..] {
            let common = |(id, _): &&(MessageId, _)| {
                history
                    .dest(*id)
                    .is_some_and(|dest| dest.contains(p.group) && dest.contains(q.group))
            };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::history::made_up::pid;

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
