//! Multicast in a group with views: the messages that are delivered at each member.
//!
//! Each member is a process with two threads, that of the group (`crates/group`, as it ships) and
//! the application's; a member that sends has one more, which sends whenever there is room.
//! [`crew`] is the parent's side, [`worker`] a process.

pub mod crew;
pub mod schedules;
pub mod worker;

use crate::disk::Place;
use crate::group::{Error, Launcher};
use crate::run::{Effort, repeat};
use crate::worker::order::FabricKind;
pub use group::{Mode, Schedule};
use report::{Latency, Report, Row, floor};
use std::path::PathBuf;
use worker::Took;

/// The most bytes of a window, and the most messages and the fewest.
const WINDOW_BYTES: usize = 16 << 20;
const WINDOW_MAX: usize = 4096;
const WINDOW_MIN: usize = 16;

/// The messages of a sender that are not delivered everywhere, unless they are given.
fn window(message_bytes: usize) -> u32 {
    (WINDOW_BYTES / message_bytes).clamp(WINDOW_MIN, WINDOW_MAX) as u32
}

/// The settings of a measurement.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The providers.
    pub fabrics: Vec<FabricKind>,
    /// The number of members.
    pub members: usize,
    /// The numbers of members that send.
    pub senders: Vec<usize>,
    /// The bytes of a message.
    pub message_bytes: Vec<usize>,
    /// The order of deliveries.
    pub mode: Mode,
    /// Whether members compute a checksum of each message of another member.
    pub is_checked: bool,
    /// The messages of a sender on their way, if they are given.
    pub window: Option<u32>,
    /// Whether the layout names those that send, so that no turn waits for the others.
    pub is_chosen: bool,
    /// The schedules by which members relay large messages over TCP.
    pub relays: Vec<Schedule>,
    /// The directory of the logs of durable groups, if it is given.
    pub data: Option<PathBuf>,
}

/// A measured case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The provider.
    pub fabric: FabricKind,
    /// The number of members.
    pub members: usize,
    /// The number of members that send.
    pub senders: usize,
    /// The bytes of a message.
    pub message_bytes: usize,
    /// The order of deliveries.
    pub mode: Mode,
    /// Whether members compute a checksum of each message of another member.
    pub is_checked: bool,
    /// The messages of a sender on their way.
    pub window: u32,
    /// Whether the layout names those that send.
    pub is_chosen: bool,
    /// The schedule by which members relay large messages over TCP.
    pub relay: Schedule,
}

/// The report: a row for each provider, length of messages and number of senders.
///
/// # Errors
/// [`Error`].
pub fn report(launcher: &Launcher, setting: &Setting, effort: &Effort) -> Result<Report, Error> {
    let Setting { members, mode, is_checked, is_chosen, .. } = *setting;
    let data = setting.data.as_deref();
    let is_durable = mode == Mode::Durable;
    let place = is_durable.then(|| Place::new(data, &launcher.program)).transpose()?;
    let mut cases = Vec::new();
    for fabric in setting.fabrics.iter().copied() {
        for message_bytes in setting.message_bytes.iter().copied() {
            let window = setting.window.unwrap_or_else(|| window(message_bytes));
            for relay in setting.relays.iter().copied() {
                let case = |senders| Case {
                    fabric,
                    members,
                    senders,
                    message_bytes,
                    mode,
                    is_checked,
                    window,
                    is_chosen,
                    relay,
                };
                cases.extend(setting.senders.iter().copied().map(case));
            }
        }
    }
    repeat("multicast", effort, &cases, |case| {
        let tooks = crew::measure(launcher, case, place.as_ref(), effort)?;
        let row = row(case, &tooks)?;
        let Some(place) = &place else { return Ok(row) };
        let (floor_ns, p50_ns) = (place.floor_fdatasync_ns(effort)?, row.number("p50_ns"));
        let at_once_ns = place.floor_syncs_at_once_ns(members, effort)?;
        let over = |floor_ns| p50_ns.unwrap_or(f64::NAN) / floor_ns;
        Ok(row
            .with("floor_fdatasync_ns", floor_ns)
            .with("p50_over_fdatasync", over(floor_ns))
            .with("floor_syncs_at_once_ns", at_once_ns)
            .with("p50_over_syncs_at_once", over(at_once_ns)))
    })
}

fn os(source: std::io::Error) -> Error {
    Error::Os { doing: "measure a plain stream".into(), source }
}

/// How often processes copy each byte of a message on its way to all members, the kernel's copies
/// left out. (What an application does with it comes on top.)
fn copies(case: &Case, tooks: &[Took]) -> f64 {
    let n_others = (case.members - 1) as f64;
    let delivered: u64 = tooks.iter().map(|took| took.delivered).sum();
    let shared: u64 = tooks.iter().map(|took| took.shared).sum();
    let n_carried: u64 = tooks.iter().map(|took| took.carried.1).sum();
    let n_copied: u64 = tooks.iter().map(|took| took.carried.0).sum();
    let part = |n: u64| n as f64 / delivered.max(1) as f64;
    // By `send`; and for each other member into its ring, and out of that. On TCP also into the
    // link's output, and out of its input by way of words.
    let each = match case.fabric {
        FabricKind::Shm => 2.0,
        FabricKind::Tcp => 4.0,
    };
    // Members count their own copies of what is carried as it is. (Each message is delivered at
    // all of them.)
    let by_members = n_copied as f64 / case.message_bytes.max(8) as f64;
    let carried = by_members * case.members as f64 / delivered.max(1) as f64;
    let in_rings = 1.0 - part(shared) - part(n_carried);
    part(shared) + carried + in_rings * (1.0 + each * n_others)
}

/// How often a member sends each byte of a large message over TCP, be it its own or another one's:
/// on the average of all members, and the one that sends most.
fn sent(case: &Case, tooks: &[Took]) -> (f64, f64) {
    let share = |took: &Took| {
        let n_bytes = took.delivered.max(1) as f64 * case.message_bytes as f64;
        (took.sent.0 + took.sent.1) as f64 / n_bytes
    };
    let all: f64 = tooks.iter().map(share).sum();
    (all / tooks.len() as f64, tooks.iter().map(share).fold(0.0, f64::max))
}

fn row(case: &Case, tooks: &[Took]) -> Result<Row, Error> {
    let mut latency = Latency::new();
    for ns in tooks.iter().flat_map(|took| &took.latency_ns) {
        latency.record_many_ns(*ns, 1);
    }
    let per_s = |took: &Took| took.delivered as f64 * 1e9 / took.span_ns as f64;
    let least = tooks.iter().map(per_s).fold(f64::INFINITY, f64::min);
    let cores: f64 = tooks.iter().map(|took| took.cpu_ns as f64 / took.span_ns as f64).sum();
    let Case { fabric, members, senders, message_bytes, mode, is_checked, .. } = *case;
    let Case { window, is_chosen, relay, .. } = *case;
    let floor = match fabric {
        FabricKind::Shm => floor::copied_bytes_per_s(window as usize * message_bytes),
        FabricKind::Tcp => floor::streamed_bytes_per_s().map_err(os)?,
    };
    let is_relayed = tooks.iter().any(|took| took.sent.1 > 0);
    let by = if is_relayed { format!(", {}", relay.name()) } else { String::new() };
    let name = format!("{}, {message_bytes} B, {senders} of {members} send{by}", fabric.name());
    if tooks.iter().any(|took| took.delivered == 0) {
        let ms = tooks.iter().map(|took| took.span_ns).max().unwrap_or_default() / 1_000_000;
        let why = format!("{name}: a member delivered nothing in {ms} ms; say no --quick");
        return Err(Error::Peer(why));
    }
    let row = Row::new(name)
        .with("fabric", fabric.name())
        .with("members", members)
        .with("senders", senders)
        .with("chosen", is_chosen)
        .with("message_bytes", message_bytes)
        .with("window", window)
        .with("schedule", relay.name())
        .with("mode", format!("{mode:?}").to_lowercase())
        .with("checksum", is_checked)
        // The slowest member's: all of them deliver the same messages.
        .with("per_s", least)
        .with("bytes_per_s", least * message_bytes as f64)
        .with("floor_bytes_per_s", floor)
        .with("of_floor", least * message_bytes as f64 / floor)
        .with("relay", if is_relayed { relay.name() } else { Schedule::Sequential.name() })
        .with("copies_per_byte", copies(case, tooks))
        .with("sent_per_byte", sent(case, tooks).0)
        .with("sent_per_byte_most", sent(case, tooks).1)
        .with("cpu_percent", cores * 100.0);
    Ok(latency.fields(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_without_a_delivery_is_refused() {
        let case = Case {
            fabric: FabricKind::Shm,
            members: 3,
            senders: 1,
            message_bytes: 100,
            mode: Mode::Ordered,
            is_checked: false,
            window: 64,
            is_chosen: false,
            relay: Schedule::Sequential,
        };
        let took = |delivered| Took { delivered, span_ns: 200_000_000, ..Took::default() };
        let row = row(&case, &[took(9), took(9)]).expect("delivered");
        assert_eq!((row.number("samples"), row.number("p50_ns")), (Some(0.0), None));
        let error = super::row(&case, &[took(9), took(0)]).expect_err("nothing was delivered");
        let expected =
            "shm, 100 B, 1 of 3 send: a member delivered nothing in 200 ms; say no --quick";
        assert_eq!(error.to_string(), expected);
    }
}
