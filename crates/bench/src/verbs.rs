//! The time of each verb over a fabric, from one process to the memory of another.

use crate::group::{Error, Group, Launcher, Plan};
use crate::member::Wait;
use crate::run::{Effort, repeat};
use crate::worker::order::{Answer, FabricKind, Order, Part, Verb};
use report::{Report, Row, floor};

/// The cases (verb, words, how many at once): latency one by one, and throughput in batches as a
/// machine posts them.
const CASES: [(Verb, usize, usize); 11] = [
    (Verb::Cas, 1, 1),
    (Verb::FetchAdd, 1, 1),
    (Verb::Write, 1, 1),
    (Verb::Write, 128, 1),
    (Verb::Read, 1, 1),
    (Verb::Read, 128, 1),
    (Verb::Message, 8, 1),
    (Verb::Cas, 1, 64),
    (Verb::Write, 8, 64),
    (Verb::Read, 8, 64),
    (Verb::Message, 8, 64),
];

/// The report: a row per verb, size and depth.
///
/// # Errors
/// [`Error`].
pub fn report(
    launcher: &Launcher,
    fabric: FabricKind,
    wait: Wait,
    effort: &Effort,
) -> Result<Report, Error> {
    let mut group = Group::start(launcher, &Plan::of(Part::Memory, fabric, 2, wait))?;
    repeat("fabric", effort, &CASES, |(verb, n_words, depth)| {
        let poster = &mut group.members[0];
        let span = effort.span / 2;
        let order = Order::Verbs { verb: *verb, n_words: *n_words, depth: *depth, span };
        let took = match poster.ask(&order, span * 2)? {
            Answer::Took(took) => took,
            other => return Err(poster.misspoke(&other)),
        };
        let mut row = Row::new(verb.name())
            .with("fabric", fabric.name())
            .with("wait", wait.name())
            .with("message_bytes", n_words * 8)
            .with("pipeline", *depth);
        took.fields().filter(|(name, _)| *name != "case").for_each(|(name, value)| {
            row.set(name, value.clone());
        });
        if let Some(per_s) = row.number("per_s") {
            row.set("bytes_per_s", per_s * (n_words * 8) as f64);
        }
        floors(row, fabric, wait, *verb)
    })
}

fn floors(mut row: Row, fabric: FabricKind, wait: Wait, verb: Verb) -> Result<Row, Error> {
    match (fabric, verb) {
        (FabricKind::Shm, Verb::Cas) => row.set("floor_cas_ns", floor::cas_ns()),
        (FabricKind::Shm, Verb::FetchAdd) => row.set("floor_fetch_add_ns", floor::fetch_add_ns()),
        (FabricKind::Shm, Verb::Message) => {
            let line = floor::line_round_trip_ns().unwrap_or(f64::NAN);
            row.set("floor_line_round_trip_ns", line);
        }
        (FabricKind::Shm, Verb::Write | Verb::Read) => {}
        (FabricKind::Tcp, _) => {
            let (name, how) = match wait {
                Wait::Sleep => ("floor_tcp_epoll_ns", floor::Wait::Epoll),
                Wait::Spin => ("floor_tcp_busy_epoll_ns", floor::Wait::BusyEpoll),
            };
            let trip = floor::tcp_round_trip(how, 64, 2000);
            let trip =
                trip.map_err(|source| Error::os("measure a round trip over loopback", source))?;
            row.set(name, trip.p50_ns());
        }
    }
    Ok(row)
}
