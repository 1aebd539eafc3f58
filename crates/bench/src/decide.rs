//! The time of a decision at the leader of three processes.

use crate::group::{Error, Group, Launcher, Plan};
use crate::member::Wait;
use crate::run::{Effort, repeat};
use crate::worker::order::{Answer, FabricKind, Order, Part};
use report::{Report, Row, floor};

/// The number of processes.
const MEMBERS: usize = 3;
/// The sizes of the values.
const VALUES_BYTES: [usize; 3] = [1, 64, 1024];

/// The most repetitions of a run whose leader is deposed: another program has taken the machine.
const VOIDED_MAX: u32 = 5;

/// The report: a row for each value size and way of waiting, beside this machine's floors.
///
/// # Errors
/// [`Error`].
pub fn report(launcher: &Launcher, fabric: FabricKind, effort: &Effort) -> Result<Report, Error> {
    // On shm a completion is there as soon as a verb is posted: no process waits.
    let waits: &[Wait] = match fabric {
        FabricKind::Shm => &[Wait::Spin],
        FabricKind::Tcp => &[Wait::Sleep, Wait::Spin],
    };
    let cases: Vec<(Wait, usize)> = waits
        .iter()
        .flat_map(|wait| VALUES_BYTES.map(|value_bytes| (*wait, value_bytes)))
        .collect();
    repeat("decide", effort, &cases, |(wait, value_bytes)| {
        for _ in 0..VOIDED_MAX {
            if let Some(row) = measure(launcher, fabric, *wait, *value_bytes, effort)? {
                return floors(row, fabric, *wait);
            }
        }
        Err(Error::Late("no leader kept the lead for a run".into()))
    })
}

/// One run of one case, in a group of its own; `None` if its leader was deposed meanwhile.
fn measure(
    launcher: &Launcher,
    fabric: FabricKind,
    wait: Wait,
    value_bytes: usize,
    effort: &Effort,
) -> Result<Option<Row>, Error> {
    let plan = Plan { fabric, part: Part::Member, members: MEMBERS, wait: Wait::Sleep };
    let mut group = Group::start(launcher, &plan)?;
    let leader = group.leader().expect("a group starts with a leader");
    let span = effort.span;
    let order = Order::Decide { value_bytes, wait, warm_up: span / 4, span };
    let took = match group.members[leader].ask(&order, span * 2)? {
        Answer::Took(took) => took,
        Answer::Deposed => return Ok(None),
        other => return Err(group.members[leader].misspoke(&other)),
    };
    let mut row = Row::new(match wait {
        Wait::Spin => "decide",
        Wait::Sleep => "decide, asleep between",
    })
    .with("fabric", fabric.name())
    .with("protocol", "velos")
    .with("members", MEMBERS);
    took.fields().filter(|(name, _)| *name != "case").for_each(|(name, value)| {
        row.set(name, value.clone());
    });
    Ok(Some(row))
}

fn floors(row: Row, fabric: FabricKind, wait: Wait) -> Result<Row, Error> {
    let round_trip = |wait| {
        let rounds = floor::tcp_round_trip(wait, 64, 5000);
        rounds.map_err(|source| Error::os("measure a round trip over loopback", source))
    };
    if fabric == FabricKind::Shm {
        let line = floor::line_round_trip_ns().unwrap_or(f64::NAN);
        let row = row.with("floor_cas_ns", floor::cas_ns());
        return Ok(row.with("floor_line_round_trip_ns", line));
    }
    // Whether the leader spins or not, its followers sleep: the bar is a round trip between
    // sleepers.
    let floor = round_trip(floor::Wait::Epoll)?.p50_ns();
    let p50 = row.number("p50_ns").unwrap_or(f64::NAN);
    let row = row.with("floor_tcp_epoll_ns", floor).with("p50_over_floor", p50 / floor as f64);
    Ok(match wait {
        Wait::Sleep => row,
        Wait::Spin => {
            let busy = round_trip(floor::Wait::BusyEpoll)?.p50_ns();
            row.with("floor_tcp_busy_epoll_ns", busy)
        }
    })
}
