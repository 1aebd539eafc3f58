//! Leases (`vsync`, E1 to E4): a read by a lease sees every update that was answered anywhere
//! before the read came, and whatever an earlier read has seen.
//!
//! No false alarm: an update is answered by its sender when that has delivered it, and a read ends
//! before its answer is told; times are the world's.

use super::History;
use crate::group::history::Told;
use proto::vsync::Position;

pub(super) fn check(history: &History) -> Result<(), String> {
    // What is known, and since when.
    let mut known: Vec<(u64, Position)> = Vec::new();
    for told in history.records.values().flat_map(|record| &record.told) {
        if let Told::Answered { to, at_ns, .. } | Told::Read { to, at_ns, .. } = told {
            known.push((*at_ns, *to));
        }
    }
    known.sort_unstable();
    let mut latest = Position { view: proto::vsync::ViewId(0), at: 0 };
    for (_, to) in &mut known {
        latest = latest.max(*to);
        *to = latest;
    }
    for (process, record) in &history.records {
        for told in &record.told {
            let Told::Read { from_ns, to, .. } = told else { continue };
            let n = known.partition_point(|(at_ns, _)| at_ns < from_ns);
            if let Some((_, before)) = n.checked_sub(1).map(|last| known[last])
                && before > *to
            {
                return Err(format!(
                    "a read of {from_ns} ns at {process:?} saw what is before {to:?}, and what is \
                     before {before:?} had been told"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::history::made_up::{at, process};
    use proto::vsync::ShardId;

    #[test]
    fn a_read_that_misses_what_was_answered_or_read_before_is_a_violation() {
        let shard = ShardId::default();
        let mut history = History::default();
        let answered = Told::Answered { shard, to: at(1, 3), at_ns: 10 };
        history.record(process(0)).told.push(answered);
        let read = |from_ns, to| Told::Read { shard, from_ns, to, at_ns: from_ns + 1 };
        history.record(process(1)).told.push(read(10, at(1, 2)));
        assert_eq!(check(&history), Ok(()), "they are at one time");
        history.record(process(1)).told.push(read(11, at(2, 0)));
        assert_eq!(check(&history), Ok(()));
        let mut other = history.clone();
        other.record(process(2)).told.push(read(20, at(1, 3)));
        assert!(check(&other).is_err(), "one had read more");
        history.record(process(2)).told.push(read(11, at(1, 2)));
        assert!(check(&history).is_err());
    }
}
