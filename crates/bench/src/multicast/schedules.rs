//! What the schedules of `rdmc` would cost, by a calculation and not by a measurement.

use crate::run;
use proto::rdmc::{Cost, Schedule};
use report::{Report, Row};

/// The bytes of a block.
const BLOCK_BYTES: usize = 64 << 10;
/// A link of 10 Gbit/s, and what a block costs besides.
const COST: Cost = Cost { block_ns: 5_000.0, byte_ns: 0.8 };
/// The numbers of members.
const MEMBERS: [usize; 8] = [2, 3, 4, 5, 7, 8, 12, 16];

/// A row for each length of messages, number of members and schedule.
pub fn report(message_bytes: &[usize]) -> Report {
    let mut rows = Vec::new();
    for bytes in message_bytes.iter().copied() {
        for members in MEMBERS {
            rows.extend(Schedule::ALL.into_iter().map(|one| row(one, members, bytes)));
        }
    }
    run::report("multicast-schedules", 1, rows)
}

fn row(schedule: Schedule, members: usize, bytes: usize) -> Row {
    let blocks = bytes.div_ceil(BLOCK_BYTES).max(1);
    let block_bytes = bytes.min(BLOCK_BYTES);
    let transfers = schedule.transfers(members, blocks);
    let span_ns = COST.span_ns(&transfers, members, block_bytes);
    let each_ns = COST.block_ns + COST.byte_ns * block_bytes as f64;
    let by_first = transfers.iter().filter(|one| one.from == 0).count();
    Row::new(format!("{}, {bytes} B, {members} members", schedule.name()))
        .with("members", members)
        .with("message_bytes", bytes)
        .with("blocks", blocks)
        .with("steps", schedule.n_steps(members, blocks))
        .with("sent_by_first", by_first)
        .with("span_us", span_ns / 1e3)
        // The time of the message on one link.
        .with("of_floor", blocks as f64 * each_ns / span_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_costs_least_and_nearly_one_stream_for_a_long_message() {
        let share = |schedule, members| {
            row(schedule, members, 16 << 20).number("of_floor").expect("a number")
        };
        for members in MEMBERS {
            let pipeline = share(Schedule::BinomialPipeline, members);
            assert!(pipeline > 0.98, "{members} members: {pipeline}");
            let others = Schedule::ALL.into_iter().map(|one| share(one, members));
            assert!(others.fold(0.0, f64::max) <= pipeline + 1e-9, "{members} members");
        }
        assert!(share(Schedule::Sequential, 5) < 0.26);
    }
}
