//! Equal states: after one position, and in a state that covers everything before one, the
//! applications of all processes are equal.
//!
//! No false alarm: the digest follows from the messages that were executed and their order. A state
//! is compared with what was executed last before its position, by any process. Where there is no
//! state, newcomers are not asked.

use super::History;
use crate::group::history::Told;
use proto::vsync::Position;
use std::collections::BTreeMap;

pub(super) fn check(history: &History) -> Result<(), String> {
    // By position: the digest of everything up to and with it.
    let mut digests: BTreeMap<Position, u64> = BTreeMap::new();
    for (process, record) in history.records.iter().filter(|(_, record)| !record.is_late()) {
        for (at, id, digest) in record.deliveries() {
            let first = *digests.entry(at).or_insert(digest);
            if first != digest {
                return Err(format!(
                    "after {id:?} at {at:?} the state of {process:?} is {digest:#x}, not {first:#x}"
                ));
            }
        }
    }
    for (process, record) in &history.records {
        for told in &record.told {
            let Told::Take { at, digest, .. } = told else { continue };
            let before = digests.range(..*at).next_back().map_or(0, |(_, digest)| *digest);
            if *digest != before {
                return Err(format!(
                    "{process:?} took the state {digest:#x} at {at:?}, which is {before:#x}"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::history::made_up::{at, id, process};
    use proto::vsync::{ShardId, Time};

    #[test]
    fn different_states_at_one_position_are_a_violation() {
        let mut history = History::default();
        let told = |seat, position, digest| {
            let id = id(0, position + 1);
            let shard = ShardId::default();
            (process(seat), Told::Deliver { shard, at: at(1, position), time: Time(0), id, digest })
        };
        for (process, told) in [told(0, 0, 5), told(0, 1, 7), told(1, 0, 5)] {
            history.record(process).told.push(told);
        }
        history.record(process(2)).told.push(Told::Take {
            shard: ShardId::default(),
            at: at(1, 1),
            digest: 5,
        });
        assert_eq!(check(&history), Ok(()));
        let mut torn = history.clone();
        torn.record(process(1)).told.push(told(1, 1, 8).1);
        assert!(check(&torn).is_err());
        history.record(process(3)).told.push(Told::Take {
            shard: ShardId::default(),
            at: at(1, 2),
            digest: 5,
        });
        assert!(check(&history).is_err(), "a state of an earlier position");
    }
}
