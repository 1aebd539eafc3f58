//! Durability (`vsync`, W1 and W2; `restart`): what any process of a durable group has delivered in
//! a shard, every later member of that shard has, though all processes that delivered it are dead:
//! delivered, or in the state that it was given.
//!
//! No false alarm: a process is asked only for what lies between the beginning of its record (its
//! state) and the last view that it has begun. A shard that has begun again is another one; that it
//! does so only if it has delivered nothing is asked of all shards together (`reborn`).

use super::History;
use crate::group::history::{MessageId, Record};
use proto::vsync::Position;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(history: &History) -> Result<(), String> {
    if !history.is_durable {
        return Ok(());
    }
    let all = history.records.values().flat_map(Record::deliveries);
    let all: BTreeMap<Position, MessageId> = all.map(|(at, id, _)| (at, id)).collect();
    for (process, record) in &history.records {
        let Some(begin) = record.begins_at() else { continue };
        let Some(last) = record.views().last() else { continue };
        let end = Position { view: last.id, at: 0 };
        let own: BTreeSet<Position> = record.deliveries().map(|(at, ..)| at).collect();
        let mut between = all.iter().filter(|(at, _)| begin <= **at && **at < end);
        if let Some((at, id)) = between.find(|(at, _)| !own.contains(at)) {
            return Err(format!(
                "{id:?} was delivered at {at:?}, and {process:?}, in view {}, has lost it",
                last.id
            ));
        }
    }
    Ok(())
}

/// Of all shards: one that has delivered something does not begin again.
pub(super) fn reborn(history: &History) -> Result<(), String> {
    if !history.is_durable {
        return Ok(());
    }
    let mut said = BTreeMap::new();
    let parts = history.shards().into_iter();
    for ((shard, since), part) in parts.filter(|((shard, _), _)| history.is_logged(*shard)) {
        if let Some((first, at)) = said.get(&shard) {
            return Err(format!(
                "shard {shard} delivered a message at {at:?} since view {first}, and begins again \
                 in view {since}"
            ));
        }
        let delivered = part.records.values().flat_map(Record::deliveries).map(|(at, ..)| at);
        if let Some(at) = delivered.max() {
            said.insert(shard, (since, at));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_delivered_and_is_not_there_after_a_restart_is_lost() {
        let mut history = History { is_durable: true, ..History::default() };
        history.installed(0, 1, &[0, 1]).delivered(0, (1, 0), (0, 1));
        history.installed(1, 1, &[0, 1]);
        assert_eq!(check(&history), Ok(()), "it may have died before");
        history.installed(2, 2, &[2]).took(2, (1, 0)).delivered(2, (1, 0), (0, 1));
        assert_eq!(check(&history), Ok(()), "its log had it");
        history.installed(3, 2, &[3]).took(3, (1, 0));
        assert!(check(&history).is_err());
        history.is_durable = false;
        assert_eq!(check(&history), Ok(()), "a group in memory promises less");
    }
}
