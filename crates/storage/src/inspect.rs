//! A data directory as text, offline: what is there, what is intact, where it ends.
//!
//! Reads only, and takes no lock: looking at a directory in use shows a moment of it.

use crate::directory::{self, DirectoryError};
use crate::log::record::Kind;
use crate::log::{OpenError, survey};
use crate::media::Media as _;
use crate::snapshot::{self, Snapshot};
use base::Slot;
use std::fmt::{self, Write as _};
use std::path::Path;

/// Why a directory cannot be described.
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

/// How much to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Totals for each segment.
    Segments,
    /// Each record as well.
    Records,
}

#[derive(Default)]
struct Segment {
    n_records: u64,
    n_entries: u64,
    first: Option<Slot>,
    last: Option<Slot>,
    ballot_max: u64,
    view_max: u64,
}

/// Describes the directory at `path`. Damage is part of the description, not an error.
pub fn inspect(path: &Path, detail: Detail) -> Result<String, InspectError> {
    let (media, identity, log) = directory::peek(path)?;
    let mut text = String::new();
    // Writing to a string does not fail.
    describe(&mut text, &media, path, identity, log, detail)
}

fn describe(
    text: &mut String,
    media: &crate::media::Os,
    path: &Path,
    identity: crate::Identity,
    log: u64,
    detail: Detail,
) -> Result<String, InspectError> {
    let mut line = |arguments: fmt::Arguments<'_>| {
        text.write_fmt(arguments).expect("a string takes everything");
        text.push('\n');
    };
    line(format_args!(
        "{}: node {} incarnation {} of cluster {:016x}, log {log:016x}",
        path.display(),
        identity.node.0,
        identity.incarnation.0,
        identity.cluster
    ));
    let list = |e| InspectError::List(media.place(), e);
    for slot in snapshot::list(media).map_err(list)? {
        let name = snapshot::name(slot);
        match Snapshot::open(media, slot).and_then(|it| it.verify().map(|()| it)) {
            Ok(it) => line(format_args!(
                "{name}: everything below slot {}, {} bytes in {} chunks, note {} bytes: intact",
                slot.0,
                it.n_bytes(),
                it.n_chunks(),
                it.note().len()
            )),
            Err(e) => line(format_args!("{name}: {e}")),
        }
    }
    let mut segments: std::collections::BTreeMap<u32, Segment> = std::collections::BTreeMap::new();
    let mut records = Vec::new();
    let found = survey(media, log, |head, _| {
        let segment = segments.entry(head.position.segment()).or_default();
        segment.n_records += 1;
        if head.kind == Kind::Entry {
            segment.n_entries += 1;
            segment.first = Some(segment.first.map_or(head.slot, |first| first.min(head.slot)));
            segment.last = segment.last.max(Some(head.slot));
            segment.ballot_max = segment.ballot_max.max(head.ballot.0);
            segment.view_max = segment.view_max.max(head.view);
        }
        if detail == Detail::Records {
            records.push(format!(
                "  {:>10} {:<6} slot {:>10} ballot {:>6} view {:>4} payload {:>8} synced_upto {}",
                head.position.to_string(),
                format!("{:?}", head.kind),
                head.slot.0,
                head.ballot.0,
                head.view,
                head.payload,
                head.synced_upto
            ));
        }
    })?;
    for &number in &found.segments {
        let name = crate::log::segment::name(number);
        match segments.get(&number) {
            Some(Segment {
                first: Some(first),
                last: Some(last),
                n_records,
                n_entries,
                ballot_max,
                view_max,
            }) => {
                line(format_args!(
                    "{name}: {n_records} records, {n_entries} entries of slots {} to {}, ballots up \
                     to {ballot_max}, views up to {view_max}",
                    first.0, last.0
                ));
            }
            Some(segment) => {
                line(format_args!("{name}: {} records, no entries", segment.n_records))
            }
            None => line(format_args!("{name}: empty")),
        }
    }
    records.iter().for_each(|record| line(format_args!("{record}")));
    line(format_args!(
        "log: slots {} to {} (exclusive), {} records, metadata {} bytes",
        found.start.0,
        found.end_slot().0,
        found.n_records,
        found.meta().len()
    ));
    match (&found.damage, found.is_torn) {
        (Some(damage), _) => line(format_args!("DAMAGED: {damage}")),
        (None, true) => line(format_args!(
            "torn end at {}: {}; opening the log cuts it there (it was never synced)",
            found.end, found.why
        )),
        (None, false) => line(format_args!("intact, ends at {}", found.end)),
    }
    Ok(std::mem::take(text))
}
