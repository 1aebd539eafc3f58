//! Opening a log: reads every record, distinguishes a torn tail from damage, and leaves one durable
//! log.
//!
//! [`survey`] only reads; `inspect` shows its result. [`open`] then performs I4 to I6 of the module
//! above.

use super::front::End;
use super::index::Index;
use super::record::{self, Flaw, HEADER, Head, Kind, Position};
use super::segment::{self, SPARES, UNBORN};
use super::writer::Files;
use super::{Damage, Log, OpenError, Options, Prepared, SEGMENT_MAX, WriteError, Writer};
use crate::media::{Media, SECTOR};
use base::Slot;
use std::io;

/// A log ready for use.
#[derive(Debug)]
pub struct Opened<M: Media> {
    /// The poll loop's part.
    pub log: Log<M>,
    /// The disk's part.
    pub writer: Writer<M>,
    /// The torn tail that was cut off, if there was one.
    pub torn: Option<Torn>,
}

/// A torn tail that was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file.
    pub file: String,
    /// The offset at which the log ends now.
    pub offset: u64,
    /// The slot of the next entry.
    pub slot: Slot,
    /// The flaw of the bytes in the place of a record.
    pub why: Flaw,
}

/// The result of reading a log.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The numbers of the segments, without a gap.
    pub(crate) segments: Vec<u32>,
    /// The position of the first record that is not intact, and its flaw.
    pub(crate) end: Position,
    pub(crate) why: Flaw,
    /// Whether bytes other than zeros follow there: a write was torn, or the file was reused.
    pub(crate) has_rest: bool,
    /// Whether bytes of *this* log follow: an intact record in its place, or a broken one.
    pub(crate) is_torn: bool,
    pub(crate) start: Slot,
    pub(crate) n_records: u64,
    pub(crate) damage: Option<Damage>,
    index: Index,
    meta: Vec<u8>,
    link: u64,
    /// The position at which the last batch began.
    last_batch: Position,
    /// The last position at or below `end` at which a batch could begin.
    last_whole: Position,
}

impl Survey {
    /// One past the last entry.
    pub(crate) fn end_slot(&self) -> Slot {
        self.index.end()
    }

    pub(crate) fn meta(&self) -> &[u8] {
        &self.meta
    }
}

fn io_error<M: Media>(media: &M, what: &str) -> impl FnOnce(io::Error) -> OpenError {
    let (what, place) = (what.to_owned(), media.place());
    move |error| OpenError::Io { what, place, error }
}

fn read<M: Media>(media: &M, number: u32) -> Result<Vec<u8>, OpenError> {
    let name = segment::name(number);
    let file = media.open(&name).map_err(io_error(media, &format!("opening {name}")))?;
    let len = media.len(&file).map_err(io_error(media, &format!("measuring {name}")))?;
    if len > u64::from(SEGMENT_MAX) {
        let why = format!("it has {len} bytes, more than any segment");
        return Err(
            Damage { place: media.place(), file: name, offset: 0, slot: Slot::ZERO, why }.into()
        );
    }
    let mut bytes = vec![0; len as usize];
    media.read_at(&file, 0, &mut bytes).map_err(io_error(media, &format!("reading {name}")))?;
    Ok(bytes)
}

/// Reads the whole log and changes nothing. `visit` gets every intact record in order.
pub(crate) fn survey<M: Media>(
    media: &M,
    log: u64,
    visit: impl FnMut(&Head, &[u8]),
) -> Result<Survey, OpenError> {
    let found = survey_below(media, log, None, visit)?;
    let is_whole = found.end.offset().is_multiple_of(SECTOR as u32);
    if is_whole || found.damage.is_some() {
        return Ok(found);
    }
    // The end is inside a batch whose end is torn, so that batch was never synced. By I2 the next
    // batch cannot begin in the middle of a sector: the records that share this one are given up.
    let why = found.why;
    let limit = Some(found.last_whole);
    let found = survey_below(media, log, limit, |_, _| ())?;
    Ok(Survey { why, is_torn: true, ..found })
}

/// Reads the log as if there were no record at `limit`.
fn survey_below<M: Media>(
    media: &M,
    log: u64,
    limit: Option<Position>,
    mut visit: impl FnMut(&Head, &[u8]),
) -> Result<Survey, OpenError> {
    let names = media.list().map_err(io_error(media, "listing the directory"))?;
    let mut segments: Vec<u32> = names.iter().filter_map(|name| segment::number(name)).collect();
    segments.sort_unstable();
    let place = media.place();
    let damage = |number: u32, offset: u32, slot: Slot, why: String| Damage {
        place: place.clone(),
        file: segment::name(number),
        offset: u64::from(offset),
        slot,
        why,
    };
    let salt = segment::salt(log);
    let first = segments.first().copied().unwrap_or(0);
    let mut found = Survey {
        segments: segments.clone(),
        end: segment::first(first),
        why: Flaw::NoRecord,
        has_rest: false,
        is_torn: false,
        start: Slot::ZERO,
        n_records: 0,
        damage: None,
        index: Index::default(),
        meta: Vec::new(),
        link: 0,
        last_batch: segment::first(first),
        last_whole: segment::first(first),
    };
    let mut is_at_end = false;
    for (n, &number) in segments.iter().enumerate() {
        // I7: a power cut cannot leave a gap.
        if n > 0 && segments[n - 1] + 1 != number {
            let why = "the file is missing".to_owned();
            found.damage = Some(damage(segments[n - 1] + 1, 0, found.index.end(), why));
            break;
        }
        let file = read(media, number)?;
        if let Err(why) = segment::check(&file, log, number) {
            found.damage = Some(damage(number, 0, found.index.end(), why));
            break;
        }
        let mut from = segment::first(number);
        if !is_at_end {
            is_at_end = walk(&file, number, salt, limit, &mut found, &mut visit);
            from = found.end;
        }
        if is_at_end {
            let rest = rest(&file, from, salt);
            found.has_rest |= rest.has_bytes;
            found.is_torn |= rest.is_ours;
            // I4: an intact record shows that the broken one was durable.
            if rest.synced_upto.is_some_and(|synced| synced > found.end) {
                let why = found.why.to_string();
                let (at, slot) = (found.end, found.index.end());
                found.damage = Some(damage(at.segment(), at.offset(), slot, why));
                break;
            }
        }
    }
    found.start = found.index.first();
    Ok(found)
}

/// Reads the records of one segment; true if the log ends in it, false if it is sealed.
fn walk(
    file: &[u8],
    number: u32,
    salt: u32,
    limit: Option<Position>,
    found: &mut Survey,
    visit: &mut impl FnMut(&Head, &[u8]),
) -> bool {
    found.end = segment::first(number);
    loop {
        if found.end.offset().is_multiple_of(SECTOR as u32) {
            found.last_whole = found.end;
        }
        if limit == Some(found.end) {
            return true;
        }
        let record = record::verify(file, found.end, salt).and_then(|(head, bytes)| {
            let is_oldest = found.n_records == 0;
            // The oldest segment's predecessor was given back, so its link cannot be checked.
            if !is_oldest && head.link != found.link {
                return Err(Flaw::Link);
            }
            found.index.apply(&head, is_oldest).map(|()| (head, bytes))
        });
        let (head, bytes) = match record {
            Ok(record) => record,
            Err(flaw) => {
                found.why = flaw;
                return true;
            }
        };
        let payload = &bytes[HEADER..HEADER + head.payload as usize];
        visit(&head, payload);
        found.n_records += 1;
        found.link = record::link(bytes);
        found.last_batch = head.synced_upto;
        match head.kind {
            Kind::Begin | Kind::Meta => payload.clone_into(&mut found.meta),
            Kind::Entry | Kind::Cut | Kind::Skip => {}
            Kind::Seal => {
                found.end = segment::first(number + 1);
                return false;
            }
        }
        found.end = found.end.plus(head.total);
    }
}

struct Rest {
    has_bytes: bool,
    is_ours: bool,
    synced_upto: Option<Position>,
}

/// The bytes at and after `from`: the greatest `synced_upto` of all intact records there.
fn rest(file: &[u8], from: Position, salt: u32) -> Rest {
    let mut rest = Rest { has_bytes: false, is_ours: false, synced_upto: None };
    let mut at = from.offset() as usize;
    while at < file.len() {
        // Most of the bytes read here are zeros, which are skipped fast.
        let Some(n) = file[at..].iter().position(|&byte| byte != 0) else { break };
        rest.has_bytes = true;
        at += n & !7;
        let position = Position::new(from.segment(), at as u32);
        match record::verify(file, position, salt) {
            Ok((head, _)) => {
                rest.is_ours = true;
                rest.synced_upto = rest.synced_upto.max(Some(head.synced_upto));
            }
            Err(Flaw::Checksum | Flaw::TooLong) => rest.is_ours = true,
            Err(Flaw::NoRecord | Flaw::Elsewhere | Flaw::Link | Flaw::Order) => {}
        }
        // The step is not the record's length: whole older records may be inside of a torn one. But
        // every record of this log begins at a multiple of eight.
        at += 8;
    }
    rest
}

/// Opens the log `log` in `media`; an empty directory is an empty log.
pub fn open<M: Media>(media: &M, options: &Options, log: u64) -> Result<Opened<M>, OpenError> {
    options.check().map_err(OpenError::Options)?;
    let found = survey(media, log, |_, _| ())?;
    if let Some(damage) = found.damage {
        return Err(damage.into());
    }
    let torn = found.is_torn.then(|| Torn {
        file: segment::name(found.end.segment()),
        offset: u64::from(found.end.offset()),
        slot: found.index.end(),
        why: found.why,
    });
    let spares = clear(media, options, &found).map_err(io_error(media, "clearing the log"))?;
    settle(media, &found).map_err(io_error(media, "repairing the log"))?;
    let tail = found.end;
    let current = current(media, &found);
    let current = current.map_err(io_error(media, "opening the last segment"))?;
    let oldest = found.segments.first().copied().unwrap_or(0);
    let segment_bytes = current.as_ref().map_or(options.segment_bytes, |(_, len)| *len);
    let (index, meta, link) = (found.index, found.meta, found.link);
    let end = End { index, meta, tail, link, oldest, segment_bytes };
    let current = current.map(|(file, _)| file);
    let files = Files { current, synced: tail, oldest, spares };
    Ok(Opened {
        log: Log::new(media.clone(), options.clone(), log, end),
        writer: Writer::new(media.clone(), options.clone(), log, files),
        torn,
    })
}

/// The segment of the next batch, if it exists, and its length.
fn current<M: Media>(media: &M, found: &Survey) -> io::Result<Option<(M::File, u32)>> {
    let number = found.end.segment();
    if !found.segments.contains(&number) {
        return Ok(None);
    }
    let file = media.open(&segment::name(number))?;
    let len = u32::try_from(media.len(&file)?).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Some((file, len)))
}

/// Whether there is a segment of a log.
pub(crate) fn exists<M: Media>(media: &M) -> io::Result<bool> {
    Ok(media.list()?.iter().any(|name| segment::number(name).is_some()))
}

/// Makes the first segment of the log `log`, and nothing else, durably. The remains of an attempt
/// that was cut off, and only those, are removed; true if there is more than that.
pub(crate) fn begin<M: Media>(media: &M, options: &Options, log: u64) -> Result<bool, OpenError> {
    let names = media.list().map_err(io_error(media, "listing the directory"))?;
    for number in names.iter().filter_map(|name| segment::number(name)) {
        let file = read(media, number)?;
        let records = file.get(segment::FIRST_BLOCK as usize..).unwrap_or_default();
        if number != 0 || records.iter().any(|&byte| byte != 0) {
            return Ok(true);
        }
        let gone = media.remove(&segment::name(number)).and_then(|()| media.sync_dir());
        gone.map_err(io_error(media, "removing an empty segment"))?;
    }
    let mut opened = open(media, options, log)?;
    loop {
        match opened.writer.prepare() {
            Ok(Prepared::More) => {}
            Ok(Prepared::Ready) => return Ok(false),
            Err(
                WriteError::Full { error, .. }
                | WriteError::NoDescriptor { error, .. }
                | WriteError::Fatal { error, .. },
            ) => return Err(io_error(media, "making the first segment")(error)),
        }
    }
}

/// Removes the files behind the end, last first (I5). Returns the spare segments that can be used.
fn clear<M: Media>(media: &M, options: &Options, found: &Survey) -> io::Result<Vec<&'static str>> {
    let names = media.list()?;
    if names.iter().any(|name| name == UNBORN) {
        media.remove(UNBORN)?;
    }
    let mut spares = Vec::new();
    for spare in SPARES.into_iter().filter(|spare| names.iter().any(|name| name == spare)) {
        if media.len(&media.open(spare)?)? == u64::from(options.segment_bytes) {
            spares.push(spare);
        } else {
            media.remove(spare)?;
        }
    }
    media.sync_dir()?;
    let is_behind = |number: &&u32| **number > found.end.segment();
    for &number in found.segments.iter().rev().take_while(is_behind) {
        media.remove(&segment::name(number))?;
        media.sync_dir()?;
    }
    Ok(spares)
}

/// Erases the bytes behind the end, and makes those before it durable.
fn settle<M: Media>(media: &M, found: &Survey) -> io::Result<()> {
    let (number, offset) = (found.end.segment(), u64::from(found.end.offset()));
    if found.segments.contains(&number) {
        let file = media.open(&segment::name(number))?;
        let len = media.len(&file)?;
        if found.has_rest {
            // The zeros are written in place: a hole would have to be allocated and journaled
            // again.
            let zeros = vec![0; (len - offset) as usize];
            media.write_at(&file, offset, &zeros)?;
        }
        // I6. The first batch of a segment reaches back into its first block at most.
        let from = found.last_batch.max(segment::first(number));
        if from < found.end {
            rewrite(media, &file, from, found.end)?;
        }
        media.sync(&file)?;
    }
    if let Some(sealed) = number.checked_sub(1).filter(|n| found.segments.contains(n))
        && found.last_batch.segment() == sealed
    {
        // The last batch is the one that sealed the previous segment.
        let file = media.open(&segment::name(sealed))?;
        let end = u32::try_from(media.len(&file)?).map_err(|_| io::ErrorKind::InvalidData)?;
        rewrite(media, &file, found.last_batch, Position::new(sealed, end))?;
        media.sync(&file)?;
    }
    Ok(())
}

/// Writes the same bytes once more, so that the next sync covers them.
fn rewrite<M: Media>(media: &M, file: &M::File, from: Position, to: Position) -> io::Result<()> {
    let mut bytes = vec![0; (to.offset() - from.offset()) as usize];
    media.read_at(file, u64::from(from.offset()), &mut bytes)?;
    media.write_at(file, u64::from(from.offset()), &bytes)
}
