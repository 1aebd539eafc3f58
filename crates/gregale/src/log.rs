//! `gregale log inspect`: the content of a durable member's directory, offline.
//!
//! - I1 the command only reads. Of a directory in use it shows a momentary state.
//! - I2 the exit code is 1 if and only if durable bytes are not intact; a torn end was never
//!   durable.
//! - I3 a member that cannot be described hides no other.

use clap::{Args, Subcommand};
use console::{Failure, Format, Outcome};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use storage::directory::{DirectoryError, holds_member_files, is_begun};
use storage::inspect::{self, Description, Detail, Ending, InspectError};

/// `gregale log`
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  gregale log inspect /var/lib/gregale")]
pub(crate) enum LogCommand {
    /// Show what a directory holds, which parts are intact, and where the log ends.
    Inspect(LogInspectArgs),
}

/// `gregale log inspect`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    gregale log inspect /var/lib/gregale                      all members of `up --data`\n  \
    gregale log inspect /var/lib/gregale/member-2 --records   one member, record by record\n\n\
    It only reads; a directory in use shows a moment of it.\n\
    Exit code 0: intact, or with a torn end, which is cut when the member starts; 1: something is\n\
    damaged, and named; 2: a directory is no member's, or cannot be read (the others are shown).")]
pub(crate) struct LogInspectArgs {
    /// A member's directory, or that of a cluster.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Show each record as well.
    #[arg(long)]
    pub(crate) records: bool,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// The whole output. The names are an interface: additions only.
#[derive(Debug, Serialize)]
struct Report {
    members: Vec<Member>,
    /// All damage, one line each.
    damaged: Vec<String>,
    /// Everything that cannot be read, one line each.
    unread: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Member {
    directory: String,
    node: u16,
    incarnation: u64,
    /// The number in hexadecimal digits, as [`Member::log`]: JSON's numbers end at 2^53.
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
    /// The state: whole, torn or damaged.
    ending: &'static str,
    /// The reason why it is torn or damaged.
    why: Option<String>,
}

#[derive(Debug, Serialize)]
struct Snapshot {
    file: String,
    /// The prefix that it covers.
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
    configuration: bool,
    payload_bytes: u32,
    synced_upto: String,
}

/// Describes a member's directory, or all directories of a cluster.
pub(crate) fn inspect(args: &LogInspectArgs) -> Outcome {
    let detail = if args.records { Detail::Records } else { Detail::Segments };
    let Look { found, damaged, nameless, unread } = look(&args.directory, detail)?;
    let is_damaged = !damaged.is_empty();
    let silent = Failure::new(format_args!("not everything was read: {}", unread.join("; ")));
    let is_read = unread.is_empty();
    match args.format {
        Format::Table => {
            let damaged = nameless.iter().map(|line| format!("DAMAGED: {line}\n"));
            let unread = unread.iter().map(|line| format!("NOT READ: {line}\n"));
            let texts = found.iter().map(Description::to_string).chain(damaged).chain(unread);
            out!("{}", texts.collect::<Vec<_>>().join("\n"));
        }
        Format::Json => {
            let members = found.iter().map(member).collect();
            let report = Report { members, damaged, unread };
            let text = serde_json::to_string(&report).map_err(Failure::new)?;
            outln!("{text}");
        }
    }
    // I2
    if is_damaged || is_read { Ok(ExitCode::from(u8::from(is_damaged))) } else { Err(silent) }
}

/// The findings about each member.
#[derive(Debug, Default)]
struct Look {
    found: Vec<Description>,
    /// All damage, one line each.
    damaged: Vec<String>,
    /// The part of the damage that concerns members which cannot be described.
    nameless: Vec<String>,
    /// Everything that cannot be read, and is therefore not judged.
    unread: Vec<String>,
}

fn look(directory: &Path, detail: Detail) -> Outcome<Look> {
    let mut look = Look::default();
    for path in members_of(directory)? {
        match inspect::inspect(&path, detail) {
            Ok(description) => {
                look.damaged.extend(description.damages().map(str::to_owned));
                look.found.push(description);
            }
            // I3
            Err(InspectError::Directory(error)) if is_damage(&error) => {
                let line = match error {
                    DirectoryError::NoIdentity(path) => DirectoryError::NoOwner(path),
                    error => error,
                };
                look.damaged.push(line.to_string());
                look.nameless.push(line.to_string());
            }
            Err(error) => look.unread.push(error.to_string()),
        }
    }
    Ok(look)
}

/// Whether the error is damage: the directory is a member's that has lost its identity.
fn is_damage(error: &DirectoryError) -> bool {
    match error {
        DirectoryError::NoIdentity(path) => holds_member_files(path).unwrap_or(false),
        error => matches!(error, DirectoryError::Damaged { .. }),
    }
}

/// A member's own directory, or those of a cluster's members in order.
fn members_of(path: &Path) -> Outcome<Vec<PathBuf>> {
    if is_begun(path).unwrap_or(false) || holds_member_files(path).unwrap_or(false) {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path)
        .map_err(|error| Failure::os(format_args!("read {}", path.display()), error))?;
    let mut members: Vec<(u16, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let number = name.strip_prefix("member-")?.parse().ok()?;
            Some((number, entry.path()))
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
        configuration: record.is_configuration,
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

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Incarnation, NodeId};
    use storage::{Directory, Identity};

    fn begin(path: &Path, node: u16) {
        let identity = Identity { cluster: 7, node: NodeId(node), incarnation: Incarnation(1) };
        drop(Directory::create(path, &identity).unwrap());
    }

    #[test]
    fn one_member_that_cannot_be_described_hides_no_other() {
        let base = tempfile::tempdir().unwrap();
        let of = |n: u16| base.path().join(format!("member-{n}"));
        for n in [1, 2, 4] {
            begin(&of(n), n);
        }
        std::fs::write(of(1).join("identity"), "garbage").unwrap();
        std::fs::remove_file(of(2).join("identity")).unwrap();
        std::fs::write(of(3), "a file").unwrap();
        let look = look(base.path(), Detail::Segments).unwrap();
        let nodes: Vec<u16> = look.found.iter().map(|it| it.identity.node.0).collect();
        assert_eq!(nodes, [4]);
        let [one, two] = &look.damaged[..] else { panic!("{look:?}") };
        assert!(one.contains("member-1/identity is damaged"), "{one}");
        assert!(two.contains("member-2") && two.contains("identity"), "{two}");
        let [three] = &look.unread[..] else { panic!("{look:?}") };
        assert!(three.contains("member-3"), "{three}");
    }

    #[test]
    fn a_member_that_lost_its_identity_is_a_member() {
        let base = tempfile::tempdir().unwrap();
        begin(base.path(), 1);
        std::fs::remove_file(base.path().join("identity")).unwrap();
        assert_eq!(look(base.path(), Detail::Segments).unwrap().damaged.len(), 1);
    }
}
