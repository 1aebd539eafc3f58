//! The time of a decision at the leader of three processes.

use crate::disk::Place;
use crate::group::{Error, Group, Launcher, Plan, needs_disk, refuse};
use crate::member::Wait;
use crate::run::{Effort, repeat};
use crate::worker::order::{Answer, FabricKind, Order, Part};
use proto::registry::{LogProtocol, LogSpec, LogVisitor};
use report::{Report, Row, floor};
use std::path::PathBuf;

/// The number of processes.
const MEMBERS: usize = 3;
/// The sizes of the values.
const VALUES_BYTES: [usize; 3] = [1, 64, 1024];

/// The most repetitions of a run whose leader is deposed: another program has taken the machine.
const VOIDED_MAX: u32 = 5;

/// The settings of a comparison.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The provider.
    pub fabric: FabricKind,
    /// The protocols.
    pub protocols: Vec<LogProtocol>,
    /// The directory for the logs of protocols that need a disk; without it, beside the program.
    pub data: Option<PathBuf>,
}

/// One case.
#[derive(Clone, Copy, Debug)]
struct Case {
    protocol: LogProtocol,
    wait: Wait,
    value_bytes: usize,
}

/// The report: a row for each protocol, value size and way of waiting, beside this machine's
/// floors.
///
/// # Errors
/// [`Error`].
pub fn report(launcher: &Launcher, setting: &Setting, effort: &Effort) -> Result<Report, Error> {
    let mut cases = Vec::new();
    for protocol in &setting.protocols {
        refuse(*protocol, setting.fabric)?;
        // Where one-sided verbs over shm suffice, a completion is there as soon as a verb is
        // posted: the leader waits for no process.
        let waits: &[Wait] = match setting.fabric {
            FabricKind::Shm if is_done_by_verbs(*protocol) => &[Wait::Spin],
            FabricKind::Shm | FabricKind::Tcp => &[Wait::Sleep, Wait::Spin],
        };
        cases.extend(waits.iter().flat_map(|wait| {
            let case = |value_bytes| Case { protocol: *protocol, wait: *wait, value_bytes };
            VALUES_BYTES.map(case)
        }));
    }
    let on_disk = setting.protocols.iter().any(|protocol| needs_disk(*protocol));
    let place =
        on_disk.then(|| Place::new(setting.data.as_deref(), &launcher.program)).transpose()?;
    repeat("decide", effort, &cases, |case| {
        for _ in 0..VOIDED_MAX {
            if let Some(row) = measure(launcher, setting.fabric, case, place.as_ref(), effort)? {
                return floors(row, setting.fabric, case, place.as_ref(), effort);
            }
        }
        let why = "no leader kept the lead for a run: is the machine overloaded?";
        Err(Error::Peer(why.to_owned()))
    })
}

/// Whether memory alone decides, without the processes that have it.
fn is_done_by_verbs(protocol: LogProtocol) -> bool {
    struct Ask;
    impl LogVisitor for Ask {
        type Output = bool;

        fn visit<S: LogSpec>(self) -> bool {
            S::DEAD_MEMORY_COUNTS
        }
    }
    protocol.visit(Ask)
}

/// One run of one case, in a group of its own; `None` if its leader was deposed meanwhile.
fn measure(
    launcher: &Launcher,
    fabric: FabricKind,
    case: &Case,
    place: Option<&Place>,
    effort: &Effort,
) -> Result<Option<Row>, Error> {
    let Case { protocol, wait, value_bytes } = *case;
    let plan = Plan {
        protocol,
        data: place.map(Place::path),
        ..Plan::of(Part::Member, fabric, MEMBERS, Wait::Sleep)
    };
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
    .with("protocol", protocol.name())
    .with("members", MEMBERS);
    took.fields().filter(|(name, _)| *name != "case").for_each(|(name, value)| {
        row.set(name, value.clone());
    });
    Ok(Some(row))
}

fn floors(
    row: Row,
    fabric: FabricKind,
    case: &Case,
    place: Option<&Place>,
    effort: &Effort,
) -> Result<Row, Error> {
    let row = match place.filter(|_| needs_disk(case.protocol)) {
        Some(place) => row.with("floor_fdatasync_ns", place.floor_fdatasync_ns(effort)?),
        None => row,
    };
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
    Ok(match case.wait {
        Wait::Sleep => row,
        Wait::Spin => {
            let busy = round_trip(floor::Wait::BusyEpoll)?.p50_ns();
            row.with("floor_tcp_busy_epoll_ns", busy)
        }
    })
}
