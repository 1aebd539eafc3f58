//! Versions of replicated objects, in groups of real processes (paper 000, figures 16 to 18 and
//! section 4.8): what their storage costs, when their times are final, what queries of several
//! shards take, and what typed arguments cost beside bytes.
//!
//! Each member is a process as it ships: the group's thread, the one that executes, and the
//! application's. [`crew`] is the parent's side, [`worker`] a process, [`spec`] what they say to
//! each other; [`object`] is what they replicate. Where the paper's text has a number it stands
//! beside the row: our copy has no figures.

mod cases;
pub mod crew;
mod member;
pub mod object;
mod raw;
mod setting;
pub mod spec;
pub mod worker;

use crate::disk::Place;
use crate::group::{Error, Launcher};
use crate::run::{Effort, repeat};
use cases::Case;
use crew::Crew;
use report::{Latency, Report, Row, floor};
pub use setting::{ASKED_BYTES_MAX, Part, Setting};
use spec::Took;

/// The report: a row for each case of the part.
///
/// # Errors
/// [`Error`].
pub fn report(launcher: &Launcher, setting: &Setting, effort: &Effort) -> Result<Report, Error> {
    let cases = cases::of(setting);
    let place = place(launcher, setting, &cases)?;
    let place = place.as_ref();
    repeat(setting.part.name(), effort, &cases, |case| {
        // Before the group: the disk is busy when a group's logs are removed.
        let floors = floors(case, place)?;
        let run = |crew: &Crew| crew::measure(launcher, crew, place, effort);
        let row = with_times(case, &run(&case.crew)?);
        let row = match peer(case) {
            Some(peer) => beside(row, &run(&peer)?),
            None => row,
        };
        Ok(with_floors(case, row, &floors))
    })
}

/// The disk, if any case writes to one.
fn place(launcher: &Launcher, setting: &Setting, cases: &[Case]) -> Result<Option<Place>, Error> {
    let on_disk = cases.iter().any(|case| case.crew.is_durable);
    on_disk.then(|| Place::new(setting.data.as_deref(), &launcher.program)).transpose()
}

/// The latencies of some processes as one.
fn merged<'a>(times: impl Iterator<Item = &'a Vec<(u64, u64)>>) -> Latency {
    let mut latency = Latency::new();
    times.flatten().for_each(|(ns, n)| latency.record_many_ns(*ns, *n));
    latency
}

fn per_s(latency: &Latency, tooks: &[Took]) -> f64 {
    let span_ns = tooks.iter().map(|took| took.span_ns).max().unwrap_or(0);
    latency.count() as f64 * 1e9 / span_ns as f64
}

/// The row of a case with what its members measured.
fn with_times(case: &Case, tooks: &[Took]) -> Row {
    let done = merged(tooks.iter().map(|took| &took.done_ns));
    let stable = merged(tooks.iter().map(|took| &took.stable_ns));
    let asked = merged(tooks.iter().map(|took| &took.asked_ns));
    let cpu: f64 = tooks.iter().map(|took| took.cpu_ns as f64 / took.span_ns as f64).sum();
    let is_asked = case.crew.asks.is_some();
    let shown = if is_asked { &asked } else { &done };
    let mut row = case.row.clone().with("per_s", per_s(shown, tooks));
    if !is_asked {
        row.set("bytes_per_s", per_s(shown, tooks) * case.crew.value_bytes as f64);
    }
    row = shown.fields(row);
    if stable.count() > 0 {
        row = row.with("stable_p50_ns", stable.p50_ns()).with("stable_p99_ns", stable.p99_ns());
    }
    if is_asked && done.count() > 0 {
        row.set("updates_per_s", per_s(&done, tooks));
    }
    row.with("cpu_percent", cpu * 100.0)
}

/// The same group with bytes in place of typed arguments.
fn peer(case: &Case) -> Option<Crew> {
    let is_it = case.part == Part::Arguments;
    is_it.then_some(Crew { is_raw: true, ..case.crew })
}

/// A row beside the bytes alone.
fn beside(row: Row, tooks: &[Took]) -> Row {
    let done = merged(tooks.iter().map(|took| &took.done_ns));
    let ours = row.number("per_s").unwrap_or(f64::NAN);
    let theirs = per_s(&done, tooks);
    let p50 = row.number("p50_ns").unwrap_or(f64::NAN);
    let row = row.with("peer", "bytes").with("peer_per_s", theirs);
    let row = done.field(done.field(row, "peer_p50_ns", 50.0), "peer_p99_ns", 99.0);
    let p50_ratio = p50 / done.p50_ns() as f64;
    let row = if p50_ratio.is_finite() { row.with("p50_ratio", p50_ratio) } else { row };
    row.with("ratio", ours / theirs)
}

/// What this machine can do: fields of a row.
fn floors(case: &Case, place: Option<&Place>) -> Result<Vec<(&'static str, f64)>, Error> {
    let Crew { value_bytes, window, is_durable, .. } = case.crew;
    let os = |source| Error::Os { doing: "measure a round trip".into(), source };
    Ok(match (case.part, place.filter(|_| is_durable)) {
        (Part::Storage, Some(place)) => {
            let (piece_ns, appended_per_s) = place.floor_pieces(value_bytes)?;
            vec![("floor_write_and_sync_ns", piece_ns), (FLOOR_BYTES_PER_S, appended_per_s)]
        }
        (Part::Storage, None) => {
            vec![(FLOOR_BYTES_PER_S, floor::copied_bytes_per_s(window * value_bytes))]
        }
        (Part::Stability | Part::Shards, _) => {
            let rounds = (FLOOR_BYTES / value_bytes).clamp(50, 2000) as u32;
            let trip = floor::tcp_round_trip(floor::Wait::Epoll, value_bytes, rounds);
            let beat = group::Timing::default().beat_every;
            let trip_ns = trip.map_err(os)?.p50_ns() as f64;
            vec![("beat_ns", beat.as_nanos() as f64), ("floor_tcp_epoll_ns", trip_ns)]
        }
        (Part::Arguments, _) => vec![("marshal_ns", cases::marshal_ns(&case.crew))],
    })
}

/// A row beside what this machine can do.
fn with_floors(case: &Case, mut row: Row, floors: &[(&'static str, f64)]) -> Row {
    for (name, floor) in floors {
        row.set(name, *floor);
    }
    if let Some(floor) = row.number(FLOOR_BYTES_PER_S) {
        // All logs are on one disk.
        let n_copies = if case.crew.is_durable { case.crew.members } else { 1 };
        let ours = row.number("bytes_per_s").unwrap_or(f64::NAN) * n_copies as f64;
        row.set("of_floor", ours / floor);
    }
    row
}

const FLOOR_BYTES_PER_S: &str = "floor_bytes_per_s";
/// The bytes of a floor's round trips.
const FLOOR_BYTES: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::order::FabricKind;

    /// A program on a tmpfs, where no log may be.
    #[test]
    fn only_a_part_that_writes_to_a_disk_asks_for_one() {
        let program = "/dev/shm/x".into();
        let launcher = Launcher { program, arguments: Vec::new(), environment: Vec::new() };
        let asked = |part| {
            let (fabrics, value_bytes) = (vec![FabricKind::Shm], vec![100]);
            let setting = Setting { part, fabrics, value_bytes, shards: vec![1], data: None };
            place(&launcher, &setting, &cases::of(&setting))
        };
        for part in [Part::Stability, Part::Shards, Part::Arguments] {
            assert!(asked(part).is_ok_and(|place| place.is_none()), "{}", part.name());
        }
        assert!(!asked(Part::Storage).is_ok_and(|place| place.is_none()));
    }
}
