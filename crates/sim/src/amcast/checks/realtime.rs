//! Atomic global order (5.2.2): let m < m' if some process delivers m before m', or if m' is
//! multicast after m was delivered at some destination, in real time; < is acyclic.
//!
//! Real time is a chain of moments: m -> moment of its first delivery -> next moment -> ... -> m'
//! multicast at a later one. A moment is an index of the history, so that of two things at one
//! virtual time the one that was handled first counts as earlier: the world's senders do see a
//! delivery before they answer it.

use super::relation::Relation;
use crate::amcast::history::{Happened, History};
use proto::amcast::MessageId;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Message(MessageId),
    Moment(usize),
}

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut relation = Relation::new();
    let mut seen = BTreeSet::new();
    let mut last = None;
    for (moment, (_, happened)) in history.happened.iter().enumerate() {
        let now = Node::Moment(moment);
        match happened {
            Happened::Multicast(id) => relation.relate(now, Node::Message(*id)),
            Happened::Delivered { id, .. } if seen.insert(*id) => {
                relation.relate(Node::Message(*id), now);
            }
            Happened::Delivered { .. } | Happened::Cut { .. } => continue,
        }
        if let Some(last) = last.replace(now) {
            relation.relate(last, now);
        }
    }
    for order in history.deliveries().values() {
        for pair in order.windows(2) {
            relation.relate(Node::Message(pair[0].0), Node::Message(pair[1].0));
        }
    }
    let Some(cycle) = relation.cycle() else { return Ok(()) };
    let messages: Vec<String> = cycle
        .into_iter()
        .filter_map(|node| match node {
            Node::Message(id) => {
                let dest = history.dest(id).map(crate::amcast::history::groups);
                Some(format!("{id:?} to {:?}", dest.unwrap_or_default()))
            }
            Node::Moment(_) => None,
        })
        .collect();
    Err(format!("against real time: {}", messages.join(" < ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::history::made_up::pid;

    /// Figure 5.2, top: both writes are ordered against the range query, and against time.
    #[test]
    fn figure_5_2_is_a_cycle() {
        let mut history = History::default();
        history.multicast(1, &[0, 1]).delivered(pid(0, 0), 1, 5);
        history.multicast(2, &[0]).delivered(pid(0, 0), 2, 6);
        history.multicast(3, &[1]).delivered(pid(1, 0), 3, 1);
        assert_eq!(check(&history), Ok(()));
        history.delivered(pid(1, 0), 1, 5);
        assert!(check(&history).is_err());
        assert_eq!(super::super::total_order::check(&history), Ok(()), "no cycle without time");
    }

    #[test]
    fn what_overlaps_may_be_ordered_either_way() {
        let mut history = History::default();
        history.multicast(1, &[0]).multicast(2, &[0]);
        history.delivered(pid(0, 0), 2, 1).delivered(pid(0, 0), 1, 2);
        assert_eq!(check(&history), Ok(()));
    }
}
