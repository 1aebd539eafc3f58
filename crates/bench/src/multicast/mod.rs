//! Ordered multicast in a group with views: the messages that are delivered at each member.
//!
//! Each member is a process with two threads, that of the group (`crates/group`, as it ships) and
//! the application's; a member that sends has one more, which sends whenever there is room.
//! [`crew`] is the parent's side, [`worker`] a process.

pub mod crew;
pub mod worker;

use crate::group::{Error, Launcher};
use crate::run::{Effort, repeat};
use crate::worker::order::FabricKind;
use report::{Latency, Report, Row, floor};
use worker::Took;

/// The messages of a sender that are not delivered everywhere.
const WINDOW: u32 = 256;

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
    pub message_bytes: usize,
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
}

/// The report: a row for each provider and number of senders.
///
/// # Errors
/// [`Error`].
pub fn report(launcher: &Launcher, setting: &Setting, effort: &Effort) -> Result<Report, Error> {
    let Setting { members, message_bytes, .. } = *setting;
    let of_fabric = |fabric: &FabricKind| {
        let fabric = *fabric;
        let case =
            move |senders: &usize| Case { fabric, members, senders: *senders, message_bytes };
        setting.senders.iter().map(case)
    };
    let cases: Vec<Case> = setting.fabrics.iter().flat_map(of_fabric).collect();
    repeat("multicast", effort, &cases, |case| {
        let tooks = crew::measure(launcher, case, effort)?;
        Ok(row(case, &tooks))
    })
}

fn row(case: &Case, tooks: &[Took]) -> Row {
    let mut latency = Latency::new();
    for ns in tooks.iter().flat_map(|took| &took.latency_ns) {
        latency.record_many_ns(*ns, 1);
    }
    let per_s = |took: &Took| took.delivered as f64 * 1e9 / took.span_ns as f64;
    let least = tooks.iter().map(per_s).fold(f64::INFINITY, f64::min);
    let cores: f64 = tooks.iter().map(|took| took.cpu_ns as f64 / took.span_ns as f64).sum();
    let Case { fabric, members, senders, message_bytes } = *case;
    let row = Row::new(format!("{}, {senders} of {members} send", fabric.name()))
        .with("fabric", fabric.name())
        .with("members", members)
        .with("senders", senders)
        .with("message_bytes", message_bytes)
        .with("window", u64::from(WINDOW))
        // The slowest member's: all of them deliver the same messages.
        .with("per_s", least)
        .with("bytes_per_s", least * message_bytes as f64)
        .with("cpu_percent", cores * 100.0);
    floor::memory(latency.fields(row))
}
