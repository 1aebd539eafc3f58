//! A data directory described offline: its files, which are intact, and where the log ends.
//!
//! The module only reads, and takes no lock: of a directory in use it shows a momentary state.

use crate::directory::{self, DirectoryError, Identity};
use crate::log::record::Kind;
use crate::log::{OpenError, Survey, survey};
use crate::media::{Media as _, Os};
use crate::snapshot::{self, Snapshot, SnapshotError};
use base::Slot;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The reason why a directory cannot be described.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// It has no readable identity.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Its log cannot be read at all.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// Its files cannot be listed.
    #[error("{0}: {1}")]
    List(String, std::io::Error),
}

/// The level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Totals for each segment.
    Segments,
    /// Each record as well.
    Records,
}

/// The flag in an entry's view that its payload is a configuration of the members, as the durable
/// protocol sets it (docs/formats.md).
const IS_CONFIGURATION: u64 = 1 << 63;

/// The most readings of a log that seems damaged: a process that writes meanwhile makes segments
/// that were read early look short beside those that were read late.
const READINGS_MAX: usize = 3;

/// The content of a directory. `Display` shows it as text.
#[derive(Clone, Debug)]
pub struct Description {
    /// The directory.
    pub path: PathBuf,
    /// The owner.
    pub identity: Identity,
    /// The number that all files of its log carry.
    pub log: u64,
    /// The snapshots, from the oldest to the newest.
    pub snapshots: Vec<SnapshotFile>,
    /// The segments, in order.
    pub segments: Vec<Segment>,
    /// The records, with [`Detail::Records`].
    pub records: Vec<Record>,
    /// The first slot of the log.
    pub start: Slot,
    /// One past its last entry.
    pub end: Slot,
    /// The number of records of all kinds.
    pub n_records: u64,
    /// The bytes of the metadata in force.
    pub meta_bytes: usize,
    /// The segment and byte at which the intact records end.
    pub ends_at: String,
    /// The way in which they end.
    pub ending: Ending,
}

/// The file of a snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotFile {
    /// The file's name.
    pub name: String,
    /// The prefix that it covers.
    pub slot: Slot,
    /// The numbers of bytes, chunks, and bytes of the note; or the damage.
    pub content: Result<(u64, u64, usize), String>,
}

/// The file of a segment.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// The file's name.
    pub name: String,
    /// The number of records of all kinds.
    pub n_records: u64,
    /// The number of entries.
    pub n_entries: u64,
    /// The lowest and the highest slot of an entry.
    pub slots: Option<(Slot, Slot)>,
    /// The highest ballot of an entry.
    pub ballot_max: u64,
    /// The highest view of an entry.
    pub view_max: u64,
}

/// A record.
#[derive(Clone, Debug)]
pub struct Record {
    /// The segment and byte.
    pub at: String,
    /// The kind: Begin, Entry, Cut, Meta, Skip or Seal.
    pub kind: String,
    /// The slot of its entry, or the log's end there.
    pub slot: Slot,
    /// The ballot of its entry.
    pub ballot: u64,
    /// The view of its entry.
    pub view: u64,
    /// Whether its entry is a configuration of the members, and no value.
    pub is_configuration: bool,
    /// The bytes of its payload.
    pub payload: u32,
    /// The place below which everything was durable when it was written.
    pub synced_upto: String,
}

/// The way in which the intact records of a log end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// No other bytes follow.
    Whole,
    /// The remains of a write follow that was under way when the process died. Opening the log cuts
    /// it.
    Torn(String),
    /// Durable bytes are not intact.
    Damaged(String),
}

impl Description {
    /// The damage, one line each; empty if there is no damage. A torn end is not damage.
    pub fn damages(&self) -> impl Iterator<Item = &str> {
        let log = match &self.ending {
            Ending::Damaged(why) => Some(why.as_str()),
            Ending::Whole | Ending::Torn(_) => None,
        };
        let snapshots = self.snapshots.iter().filter_map(|it| it.content.as_ref().err());
        snapshots.map(String::as_str).chain(log)
    }
}

/// Describes the directory at `path`. Damage is part of the description, not an error.
///
/// # Errors
/// The directory is not a member's, or cannot be read.
pub fn inspect(path: &Path, detail: Detail) -> Result<Description, InspectError> {
    let (media, identity, log) = directory::peek(path, Os::reading)?;
    let list = |e| InspectError::List(media.place(), e);
    let slots = snapshot::list(&media).map_err(list)?;
    let snapshots = slots.into_iter().filter_map(|slot| snapshot_file(&media, log, slot)).collect();
    let (mut found, mut segments, mut records) = read(&media, log, detail)?;
    for _ in 1..READINGS_MAX {
        let Some(seen) = found.damage.take() else { break };
        let again = read(&media, log, detail)?;
        let is_same = again.0.damage.as_ref() == Some(&seen);
        (found, segments, records) = again;
        if is_same {
            break;
        }
    }
    let ending = match (&found.damage, found.is_torn) {
        _ if segments.is_empty() => Ending::Damaged(DirectoryError::NoLog(path.into()).to_string()),
        (Some(damage), _) => Ending::Damaged(damage.to_string()),
        (None, true) => Ending::Torn(found.why.to_string()),
        (None, false) => Ending::Whole,
    };
    Ok(Description {
        path: path.to_owned(),
        identity,
        log,
        snapshots,
        segments,
        records,
        start: found.start,
        end: found.end_slot(),
        n_records: found.n_records,
        meta_bytes: found.meta().len(),
        ends_at: found.end.to_string(),
        ending,
    })
}

/// `None` if the snapshot was removed meanwhile.
fn snapshot_file(media: &Os, log: u64, slot: Slot) -> Option<SnapshotFile> {
    let opened = Snapshot::open(media, slot)
        .and_then(|it| it.check_log(log).map(|()| it))
        .and_then(|it| it.verify().map(|()| it));
    let content = match opened {
        Ok(it) => Ok((it.n_bytes(), it.n_chunks(), it.note().len())),
        Err(SnapshotError::Io { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {
            return None;
        }
        Err(error) => Err(error.to_string()),
    };
    Some(SnapshotFile { name: snapshot::name(slot), slot, content })
}

fn read(
    media: &Os,
    log: u64,
    detail: Detail,
) -> Result<(Survey, Vec<Segment>, Vec<Record>), OpenError> {
    let mut segments: BTreeMap<u32, Segment> = BTreeMap::new();
    let mut records = Vec::new();
    let found = survey(media, log, |head, _| {
        let segment = segments.entry(head.position.segment()).or_default();
        segment.n_records += 1;
        let view = head.view & !IS_CONFIGURATION;
        if head.kind == Kind::Entry {
            segment.n_entries += 1;
            let (first, last) = segment.slots.unwrap_or((head.slot, head.slot));
            segment.slots = Some((first.min(head.slot), last.max(head.slot)));
            segment.ballot_max = segment.ballot_max.max(head.ballot.0);
            segment.view_max = segment.view_max.max(view);
        }
        if detail == Detail::Records {
            records.push(Record {
                at: head.position.to_string(),
                kind: format!("{:?}", head.kind),
                slot: head.slot,
                ballot: head.ballot.0,
                view,
                is_configuration: head.kind == Kind::Entry && view != head.view,
                payload: head.payload,
                synced_upto: head.synced_upto.to_string(),
            });
        }
    })?;
    let named = found.segments.iter().map(|number| {
        let segment = segments.remove(number).unwrap_or_default();
        Segment { name: crate::log::segment::name(*number), ..segment }
    });
    let segments = named.collect();
    Ok((found, segments, records))
}

impl fmt::Display for Description {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { cluster, node, incarnation } = self.identity;
        writeln!(
            out,
            "{}: node {} incarnation {} of cluster {cluster:016x}, log {:016x}",
            self.path.display(),
            node.0,
            incarnation.0,
            self.log
        )?;
        for SnapshotFile { name, slot, content } in &self.snapshots {
            match content {
                Ok((bytes, chunks, note)) => writeln!(
                    out,
                    "{name}: everything below slot {}, {bytes} bytes in {chunks} chunks, note \
                     {note} bytes: intact",
                    slot.0
                )?,
                Err(why) => writeln!(out, "{name}: {why}")?,
            }
        }
        for Segment { name, n_records, n_entries, slots, ballot_max, view_max } in &self.segments {
            match slots {
                Some((first, last)) => writeln!(
                    out,
                    "{name}: {n_records} records, {n_entries} entries of slots {} to {}, ballots \
                     up to {ballot_max}, views up to {view_max}",
                    first.0, last.0
                )?,
                None if *n_records == 0 => writeln!(out, "{name}: empty")?,
                None => writeln!(out, "{name}: {n_records} records, no entries")?,
            }
        }
        for it in &self.records {
            let what = if it.is_configuration { " configuration" } else { "" };
            writeln!(
                out,
                "  {:>10} {:<6} slot {:>10} ballot {:>6} view {:>4} payload {:>8} synced_upto {}{what}",
                it.at, it.kind, it.slot.0, it.ballot, it.view, it.payload, it.synced_upto
            )?;
        }
        writeln!(
            out,
            "log: slots {} to {} (exclusive), {} records, metadata {} bytes",
            self.start.0, self.end.0, self.n_records, self.meta_bytes
        )?;
        match &self.ending {
            Ending::Damaged(why) => writeln!(out, "DAMAGED: {why}"),
            Ending::Torn(why) => writeln!(
                out,
                "torn end at {}: {why}; opening the log cuts it there (it was never synced)",
                self.ends_at
            ),
            Ending::Whole => writeln!(out, "intact, ends at {}", self.ends_at),
        }
    }
}
