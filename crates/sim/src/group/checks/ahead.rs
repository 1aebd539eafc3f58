//! Ahead (`vsync`, V32): what a member shows ahead of its deliveries is behind what it has
//! delivered, and all of it is what is delivered at these positions, with the same times, wherever
//! anything is; and what it delivers itself of the positions that it held then, it had shown.
//!
//! No false alarm: a position names one message, and one that the end of a view cuts off is
//! delivered by no member at that position (`same_trim`). What a member holds of a position it
//! shows, be it the first one behind its deliveries or a later one.

use super::History;
use crate::group::history::{MessageId, ProcessId, Record, Told};
use proto::vsync::{Position, Time, ViewId};
use std::collections::BTreeMap;

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut delivered: BTreeMap<Position, (Time, MessageId)> = BTreeMap::new();
    for (at, time, id) in history.records.values().flat_map(Record::times) {
        delivered.entry(at).or_insert((time, id));
    }
    history.records.iter().try_for_each(|(process, record)| judge(*process, record, &delivered))
}

fn judge(
    process: ProcessId,
    record: &Record,
    delivered: &BTreeMap<Position, (Time, MessageId)>,
) -> Result<(), String> {
    let mut next = Position { view: ViewId(0), at: 0 };
    // What was shown last: the positions before `to`.
    let (mut shown, mut to) = (BTreeMap::new(), next);
    for told in &record.told {
        match told {
            Told::View(view) => next = next.max(Position { view: view.id, at: 0 }),
            Told::Take { at, .. } => next = next.max(*at),
            Told::Deliver { at, id, .. } => {
                if at.view == to.view && *at < to && !shown.contains_key(at) {
                    return Err(format!("{process:?} held {id:?} at {at:?}, and did not show it"));
                }
                next = next.max(Position { at: at.at + 1, ..*at });
            }
            Told::Ahead { to: end, messages, .. } => {
                shown.clear();
                to = *end;
                for (at, time, id) in messages {
                    if *at < next || *at >= to {
                        return Err(format!(
                            "{process:?} shows {id:?} ahead at {at:?}: it is at {next:?}, and \
                             holds what is before {to:?}"
                        ));
                    }
                    if let Some(other) = delivered.get(at).filter(|one| **one != (*time, *id)) {
                        return Err(format!(
                            "{process:?} shows {id:?} of {time:?} ahead at {at:?}, where {other:?} \
                             is delivered"
                        ));
                    }
                    shown.insert(*at, *id);
                }
            }
            Told::Answered { .. } | Told::Read { .. } | Told::Frontier { .. } | Told::Ended(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::history::made_up::{at, id, process};
    use proto::vsync::ShardId;

    fn ahead(history: &mut History, to: u64, messages: &[(u64, u64, u64)]) {
        let named = |(place, time, ordinal): &(u64, u64, u64)| {
            (at(1, *place), Time(*time), id(0, *ordinal))
        };
        let messages = messages.iter().map(named).collect();
        let told = Told::Ahead { shard: ShardId::default(), to: at(1, to), messages };
        history.record(process(1)).told.push(told);
    }

    #[test]
    fn what_is_shown_ahead_is_delivered_next() {
        let mut sound = History::default();
        sound.installed(0, 1, &[0, 1]).installed(1, 1, &[0, 1]);
        sound.delivered(0, (1, 0), (0, 1)).delivered(0, (1, 2), (0, 2));
        sound.delivered(1, (1, 0), (0, 1));
        let next = (2, 12, 2);
        let mut shown = sound.clone();
        // One at position 4 is cut off by the end of the view.
        ahead(&mut shown, 5, &[next, (4, 14, 3)]);
        shown.delivered(1, (1, 2), (0, 2));
        assert_eq!(check(&shown), Ok(()));
        for (why, wrong) in [
            ("another time", (2, 13, 2)),
            ("another message", (2, 12, 3)),
            ("delivered before", (0, 10, 1)),
            ("behind what it holds", (6, 16, 3)),
        ] {
            let mut other = sound.clone();
            ahead(&mut other, 5, &[wrong]);
            assert!(check(&other).is_err(), "{why}");
        }
        ahead(&mut sound, 5, &[(4, 14, 3)]);
        sound.delivered(1, (1, 2), (0, 2));
        assert!(check(&sound).is_err(), "it has not shown what it held");
    }
}
