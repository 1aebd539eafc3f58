//! The cases of each part, and what the paper's text says of them.

use super::crew::Crew;
use super::object::{Blob, NAME, values};
use super::setting::{ASKED_BYTES_MAX, Part, Setting};
use super::spec::{Asks, Load, Update, When};
use crate::worker::order::FabricKind;
use report::{Row, median};
use std::hint::black_box;
use std::time::Instant;

/// The paper's objects, in bytes ("10KB", "1MB").
const SMALL: usize = 10_000;
const LARGE: usize = 1_000_000;
/// An object of which the bytes cost nothing.
const TINY: usize = 100;
/// The bytes of a member's updates under way, and the most of them and the fewest.
const WINDOW_BYTES: usize = 16 << 20;
const WINDOW_MAX: usize = 256;
const WINDOW_MIN: usize = 16;

/// A row before it is measured.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) part: Part,
    pub(super) row: Row,
    pub(super) crew: Crew,
}

fn window(value_bytes: usize) -> usize {
    (WINDOW_BYTES / value_bytes).clamp(WINDOW_MIN, WINDOW_MAX)
}

/// An update of a value that is waited for alone, or by many.
const fn load(update: Update, value_bytes: usize, depth: usize) -> Load {
    Load { update, value_bytes, depth, until_stable: false }
}

/// A group of three whose members do nothing yet.
fn plain(fabric: FabricKind, value_bytes: usize) -> Crew {
    Crew {
        fabric,
        members: 3,
        n_shards: 0,
        is_durable: false,
        is_raw: false,
        value_bytes,
        window: window(value_bytes),
        load: None,
        asks: None,
    }
}

fn case(part: Part, name: String, crew: Crew) -> Case {
    let depth = crew.load.map_or(1, |(_, load)| load.depth);
    let row = Row::new(name)
        .with("fabric", crew.fabric.name())
        .with("value_bytes", crew.value_bytes)
        .with("members", crew.members)
        .with("senders", crew.load.map_or(0, |(n, _)| n))
        .with("under_way", depth);
    Case { part, row, crew }
}

impl Case {
    /// The same beside what the paper's text says, if it says something.
    fn beside(mut self, name: &str, paper: Option<f64>) -> Case {
        if let Some(paper) = paper {
            self.row.set(name, paper);
        }
        self
    }
}

/// The cases of a setting.
pub(super) fn of(setting: &Setting) -> Vec<Case> {
    let mut cases = Vec::new();
    for fabric in setting.fabrics.iter().copied() {
        match setting.part {
            Part::Storage => storage(&mut cases, setting, fabric),
            Part::Stability => stability(&mut cases, setting, fabric),
            Part::Shards => shards(&mut cases, setting, fabric),
            Part::Arguments => arguments(&mut cases, setting, fabric),
        }
    }
    cases
}

/// The lengths of values that are given, or the usual ones.
fn lengths(setting: &Setting, usual: &[usize]) -> Vec<usize> {
    if setting.value_bytes.is_empty() { usual.to_vec() } else { setting.value_bytes.clone() }
}

/// Figure 16: all members update, with many updates under way and with one.
fn storage(cases: &mut Vec<Case>, setting: &Setting, fabric: FabricKind) {
    for value_bytes in lengths(setting, &[SMALL, LARGE]) {
        for (name, update, is_durable) in [
            ("nowhere", Update::Ignore, false),
            ("in memory", Update::Volatile, false),
            ("on disk", Update::Persistent, true),
        ] {
            for (n_senders, depth) in [(1, 1), (3, window(value_bytes))] {
                let load = Some((n_senders, load(update, value_bytes, depth)));
                let crew = Crew { is_durable, load, ..plain(fabric, value_bytes) };
                let fabric = fabric.name();
                let title = format!("{fabric}, {value_bytes} B {name}, {n_senders} x {depth}");
                // "our experiment pegs our SSD storage devices at 100% of their rated performance"
                let paper = (is_durable && depth > 1).then_some(1.0);
                let case = case(Part::Storage, title, crew);
                cases.push(case.beside("paper_of_floor", paper));
            }
        }
    }
}

/// Figure 17, and the left of figure 18.
fn stability(cases: &mut Vec<Case>, setting: &Setting, fabric: FabricKind) {
    for value_bytes in lengths(setting, &[SMALL, LARGE]) {
        for (members, n_senders) in [(2, 2), (3, 1), (3, 3), (6, 1), (6, 3), (6, 6)] {
            let load = Load { until_stable: true, ..load(Update::Volatile, value_bytes, 1) };
            let load = Some((n_senders, load));
            let crew = Crew { members, load, ..plain(fabric, value_bytes) };
            let fabric = fabric.name();
            let name = format!("{fabric}, {value_bytes} B, {n_senders} of {members} update");
            cases.push(case(Part::Stability, name, crew));
        }
    }
    let value_bytes = setting.value_bytes.first().copied().unwrap_or(SMALL);
    for is_loaded in [false, true] {
        for offset_ms in [-100, -10, -1, 0, 1, 10] {
            let load = is_loaded.then_some((3, load(Update::Volatile, value_bytes, 1)));
            let asks = Some(Asks::Own { offset_ns: offset_ms * 1_000_000 });
            let crew = Crew { load, asks, ..plain(fabric, value_bytes) };
            let state = if is_loaded { "under load" } else { "idle" };
            let fabric = fabric.name();
            let name = format!("{fabric}, query as of now {offset_ms:+} ms, {state}");
            cases.push(case(Part::Stability, name, crew));
        }
    }
}

/// The right of figure 18.
fn shards(cases: &mut Vec<Case>, setting: &Setting, fabric: FabricKind) {
    for value_bytes in lengths(setting, &[SMALL]) {
        let value_bytes = value_bytes.min(ASKED_BYTES_MAX);
        for n_shards in setting.shards.iter().copied() {
            for (name, when, depth) in [
                ("as it is", When::AsItIs, 1),
                ("of the past", When::Past, 1),
                ("of the past, 16 at once", When::Past, 16),
                ("as of now", When::Now, 1),
            ] {
                let asks = Some(Asks::Shards { when, value_bytes, depth });
                let members = 2 * n_shards + 1;
                let crew = Crew { members, n_shards, asks, ..plain(fabric, value_bytes) };
                let title = format!("{}, {n_shards} shards, {name}", fabric.name());
                let mut case = case(Part::Shards, title, crew);
                case.row.set("shards", n_shards);
                case.row.set("under_way", depth);
                cases.push(case);
            }
        }
    }
}

/// Section 4.8.
fn arguments(cases: &mut Vec<Case>, setting: &Setting, fabric: FabricKind) {
    for value_bytes in lengths(setting, &[TINY, SMALL, LARGE]) {
        for (name, update) in [("bytes", Update::Ignore), ("a list", Update::IgnoreList)] {
            for depth in [1, window(value_bytes)] {
                let load = Some((1, load(update, value_bytes, depth)));
                let crew = Crew { load, ..plain(fabric, value_bytes) };
                let title = format!("{}, {value_bytes} B as {name}, x {depth}", fabric.name());
                // "no statistically significant difference in round-trip time"
                let paper = (depth == 1).then_some(1.0);
                cases.push(case(Part::Arguments, title, crew).beside("paper_p50_ratio", paper));
            }
        }
    }
}

/// The time to encode and to decode the arguments of a crew's calls, once each.
pub(super) fn marshal_ns(crew: &Crew) -> f64 {
    let rounds = (WINDOW_BYTES / crew.value_bytes).clamp(8, 1000);
    let is_list = crew.load.is_some_and(|(_, load)| load.update == Update::IgnoreList);
    let values = values(crew.value_bytes);
    let list = (NAME.to_owned(), 7u64, values);
    let blob = (Blob(vec![0x5a; crew.value_bytes]),);
    let times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            if is_list {
                let bytes = group::encode(black_box(&list));
                black_box(group::decode::<(String, u64, Vec<u32>)>(&bytes).is_ok());
            } else {
                let bytes = group::encode(black_box(&blob));
                black_box(group::decode::<(Blob,)>(&bytes).is_ok());
            }
            start.elapsed().as_nanos() as f64
        })
        .collect();
    median(&times).unwrap_or(f64::NAN)
}
