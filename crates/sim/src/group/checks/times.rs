//! Times (`vsync`, K1 to K6): a position of a shard's order has one time, at every process; times
//! do not fall along the order; what is final stays so; and a message is later than everything that
//! its sender had delivered when it multicast it, in any shard.
//!
//! No false alarm: a position's message and time are told to a process with the delivery, and a
//! frontier when everything up to it is delivered. What is delivered behind it is behind the last
//! delivery that the process was told, and behind the beginning of its view.

use super::History;
use crate::group::history::{ProcessId, Record, Told};
use proto::vsync::{Position, Time, ViewId};
use std::collections::BTreeMap;

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut times: BTreeMap<Position, (Time, ProcessId)> = BTreeMap::new();
    for (process, record) in &history.records {
        for (at, time, _) in record.times() {
            let (first, other) = *times.entry(at).or_insert((time, *process));
            if first != time {
                return Err(format!(
                    "{at:?} has {time:?} at {process:?} and {first:?} at {other:?}"
                ));
            }
        }
    }
    let mut last = Time::default();
    for (at, (time, _)) in &times {
        if *time < last {
            return Err(format!("{at:?} has {time:?}, and one before it {last:?}"));
        }
        last = *time;
    }
    history.records.iter().try_for_each(|(process, record)| stays(*process, record, &times))
}

/// Whether what `record` was told to be final is.
fn stays(
    process: ProcessId,
    record: &Record,
    times: &BTreeMap<Position, (Time, ProcessId)>,
) -> Result<(), String> {
    let mut next = Position { view: ViewId(0), at: 0 };
    for told in &record.told {
        match told {
            Told::View(view) => next = Position { view: view.id, at: 0 },
            Told::Deliver { at, .. } => next = next.max(Position { at: at.at + 1, ..*at }),
            Told::Take { at, .. } => next = next.max(*at),
            Told::Frontier { time, .. } => {
                // Times do not fall, so the first one tells.
                if let Some((at, (later, _))) = times.range(next..).next()
                    && later <= time
                {
                    return Err(format!(
                        "{process:?} was told that {time:?} is final before {next:?}, and {at:?} \
                         has {later:?}"
                    ));
                }
            }
            Told::Answered { .. } | Told::Read { .. } | Told::Ahead { .. } | Told::Ended(_) => {}
        }
    }
    Ok(())
}

/// Of all shards: a message is later than what led to it.
pub(super) fn causes(history: &History) -> Result<(), String> {
    let all = history.records.values().flat_map(Record::times);
    for (at, time, id) in all.filter(|(_, _, id)| !history.lacks_order(id.shard)) {
        let sender = history.records.get(&ProcessId(id.sender, id.incarnation));
        let cause = sender.and_then(|sender| sender.causes.get(&(id.shard, id.ordinal)));
        if let Some(cause) = cause.filter(|cause| **cause >= time) {
            return Err(format!(
                "{id:?} has {time:?} at {at:?}, and its sender had delivered one of {cause:?}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::history::made_up::{at, id, process};
    use proto::vsync::ShardId;

    fn delivered(history: &mut History, seat: usize, position: (u64, u64), time: u64) {
        history.record(process(seat)).told.push(Told::Deliver {
            shard: ShardId::default(),
            at: at(position.0, position.1),
            time: Time(time),
            id: id(0, position.1 + 1),
            digest: 0,
        });
    }

    fn frontier(history: &mut History, seat: usize, time: u64) {
        let told = Told::Frontier { shard: ShardId::default(), time: Time(time) };
        history.record(process(seat)).told.push(told);
    }

    #[test]
    fn two_times_of_a_position_falling_ones_and_early_frontiers_are_violations() {
        let mut sound = History::default();
        sound.installed(0, 1, &[0, 1]).installed(1, 1, &[0, 1]);
        delivered(&mut sound, 0, (1, 0), 5);
        delivered(&mut sound, 1, (1, 0), 5);
        frontier(&mut sound, 1, 6);
        delivered(&mut sound, 0, (1, 3), 7);
        assert_eq!(check(&sound), Ok(()));
        for (seat, position, time) in [(1, (1, 3), 8), (0, (2, 0), 6), (0, (1, 1), 6)] {
            let mut other = sound.clone();
            delivered(&mut other, seat, position, time);
            assert!(check(&other).is_err(), "{position:?} of {time}");
        }
        frontier(&mut sound, 1, 7);
        assert!(check(&sound).is_err(), "the other one has delivered what is of this time");
    }

    #[test]
    fn a_message_that_is_not_later_than_its_cause_is_a_violation() {
        let mut history = History::default();
        delivered(&mut history, 1, (1, 0), 5);
        history.record(process(0)).causes.insert((ShardId::default(), 1), Time(4));
        assert_eq!(causes(&history), Ok(()));
        history.record(process(0)).causes.insert((ShardId::default(), 1), Time(5));
        assert!(causes(&history).is_err());
        history.is_unordered = true;
        assert_eq!(causes(&history), Ok(()));
    }
}
