//! `gregale log inspect`: what a durable member's directory holds, offline.
//!
//! - I1 it only reads. A directory in use shows a moment of it.
//! - I2 exit code 1 if and only if something that was durable is not intact; a torn end is not.

use crate::cli::{Format, LogInspectArgs};
use crate::failure::{Failure, Outcome};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use storage::inspect::{self, Description, Detail, Ending};

/// All that was named. The names are an interface: additions only.
#[derive(Debug, Serialize)]
struct Report {
    members: Vec<Member>,
    /// All damage, a line each.
    damaged: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Member {
    directory: String,
    node: u16,
    incarnation: u64,
    /// In hexadecimal digits, as [`Member::log`]: JSON's numbers end at 2^53.
    cluster: String,
    log: String,
    snapshots: Vec<Snapshot>,
    segments: Vec<Segment>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    records: Vec<Record>,
    start: u64,
    /// One past the last entry.
    end: u64,
    n_records: u64,
    meta_bytes: usize,
    ends_at: String,
    /// whole, torn or damaged.
    ending: &'static str,
    /// Why it is torn or damaged.
    why: Option<String>,
}

#[derive(Debug, Serialize)]
struct Snapshot {
    file: String,
    /// It covers every slot below.
    slot: u64,
    bytes: Option<u64>,
    intact: bool,
    why: Option<String>,
}

#[derive(Debug, Serialize)]
struct Segment {
    file: String,
    n_records: u64,
    n_entries: u64,
    first_slot: Option<u64>,
    last_slot: Option<u64>,
    ballot_max: u64,
    view_max: u64,
}

#[derive(Debug, Serialize)]
struct Record {
    at: String,
    kind: String,
    slot: u64,
    ballot: u64,
    view: u64,
    payload_bytes: u32,
    synced_upto: String,
}

/// Describes a member's directory, or all of a cluster's.
pub(crate) fn inspect(args: &LogInspectArgs) -> Outcome {
    let detail = if args.records { Detail::Records } else { Detail::Segments };
    let mut found = Vec::new();
    for path in members_of(&args.directory)? {
        found.push(inspect::inspect(&path, detail).map_err(Failure::new)?);
    }
    let damaged: Vec<String> =
        found.iter().flat_map(Description::damages).map(str::to_owned).collect();
    let is_damaged = !damaged.is_empty();
    match args.format {
        Format::Table => {
            let texts: Vec<String> = found.iter().map(Description::to_string).collect();
            out!("{}", texts.join("\n"));
        }
        Format::Json => {
            let report = Report { members: found.iter().map(member).collect(), damaged };
            let text = serde_json::to_string(&report).map_err(Failure::new)?;
            outln!("{text}");
        }
    }
    Ok(ExitCode::from(u8::from(is_damaged))) // I2
}

/// A member's own directory, or those of a cluster's members in order.
fn members_of(path: &Path) -> Outcome<Vec<PathBuf>> {
    if path.join("identity").exists() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path)
        .map_err(|error| Failure::os(format_args!("read {}", path.display()), error))?;
    let mut members: Vec<(u16, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let number = name.strip_prefix("member-")?.parse().ok()?;
            entry.path().is_dir().then(|| (number, entry.path()))
        })
        .collect();
    members.sort();
    if members.is_empty() {
        return Err(Failure::new(format_args!(
            "{} is no data directory: it holds neither a member (a file `identity`) nor a cluster \
             (directories `member-1` ...); name the DIR of `gregale up --data DIR`",
            path.display()
        )));
    }
    Ok(members.into_iter().map(|(_, path)| path).collect())
}

fn member(it: &Description) -> Member {
    let (ending, why) = match &it.ending {
        Ending::Whole => ("whole", None),
        Ending::Torn(why) => ("torn", Some(why.clone())),
        Ending::Damaged(why) => ("damaged", Some(why.clone())),
    };
    let snapshots = it.snapshots.iter().map(|file| Snapshot {
        file: file.name.clone(),
        slot: file.slot.0,
        bytes: file.content.as_ref().ok().map(|(bytes, ..)| *bytes),
        intact: file.content.is_ok(),
        why: file.content.as_ref().err().cloned(),
    });
    let segments = it.segments.iter().map(|segment| Segment {
        file: segment.name.clone(),
        n_records: segment.n_records,
        n_entries: segment.n_entries,
        first_slot: segment.slots.map(|(first, _)| first.0),
        last_slot: segment.slots.map(|(_, last)| last.0),
        ballot_max: segment.ballot_max,
        view_max: segment.view_max,
    });
    let records = it.records.iter().map(|record| Record {
        at: record.at.clone(),
        kind: record.kind.clone(),
        slot: record.slot.0,
        ballot: record.ballot,
        view: record.view,
        payload_bytes: record.payload,
        synced_upto: record.synced_upto.clone(),
    });
    Member {
        directory: it.path.display().to_string(),
        node: it.identity.node.0,
        incarnation: it.identity.incarnation.0,
        cluster: format!("{:016x}", it.identity.cluster),
        log: format!("{:016x}", it.log),
        snapshots: snapshots.collect(),
        segments: segments.collect(),
        records: records.collect(),
        start: it.start.0,
        end: it.end.0,
        n_records: it.n_records,
        meta_bytes: it.meta_bytes,
        ends_at: it.ends_at.clone(),
        ending,
        why,
    }
}
