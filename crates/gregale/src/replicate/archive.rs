//! The files of a directory as bytes: what a checkpoint of a copy's files holds.
//!
//! ```text
//! archive:    magic, records, 0 u8, XXH3 of all before it u64
//! record:     kind u8, its name (length u16, bytes), then by kind
//!   1 directory   owner u32, group u32, mode u32
//!   2 file        the same, length u64, extents, an extent of no bytes
//!   3 link        owner u32, group u32, target (length u16, bytes)
//! extent:     at u64, length u64, the bytes there; what no extent has is zero
//! ```
//! Integers are little-endian. The first record is the directory itself, with no name; a
//! directory stands before what is in it.
//!
//! - A1 the files are read where they lie: an archive takes no room beside them.
//! - A2 nothing is written outside of the directory: each name is made of plain parts, lies in a
//!   directory that an earlier record has made, and is there once. So no link is ever followed.
//! - A3 what was unpacked counts when its end was read, and the checksum is right.

use super::tree;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

const MAGIC: [u8; 8] = *b"grgleDI1";
const END: u8 = 0;
const DIRECTORY: u8 = 1;
const FILE: u8 = 2;
const LINK: u8 = 3;

/// The parts of a file that are left out if they are zero.
const BLOCK_BYTES: usize = 4096;

/// A part of an archive.
#[derive(Debug)]
enum Part {
    Bytes(Vec<u8>),
    /// So many bytes of a file, by its number.
    Extent {
        file: usize,
        at: u64,
        len: u64,
    },
}

/// An archive of a directory whose files do not change.
#[derive(Debug)]
pub(super) struct Packed {
    files: Vec<PathBuf>,
    /// The parts, each with the bytes before it.
    parts: Vec<(u64, Part)>,
    len: u64,
    open: Option<(usize, File)>,
}

/// An archive that is made.
struct Packer<'a> {
    packed: Packed,
    hash: Xxh3,
    may_continue: &'a mut dyn FnMut() -> io::Result<()>,
}

impl Packed {
    /// The archive of a directory. Each file is read once. `may_continue` is asked before each
    /// step.
    ///
    /// # Errors
    /// A file cannot be read, or `may_continue` says why it is over.
    pub(super) fn of(
        directory: &Path,
        may_continue: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<Packed> {
        let packed = Packed { files: Vec::new(), parts: Vec::new(), len: 0, open: None };
        let mut packer = Packer { packed, hash: Xxh3::new(), may_continue };
        packer.put(MAGIC.to_vec());
        packer.put_directory(directory, Path::new(""))?;
        packer.put(vec![END]);
        let hash = packer.hash.digest();
        packer.put(hash.to_le_bytes().to_vec());
        Ok(packer.packed)
    }

    /// The bytes of all of it.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Reads from `at` on, as much as is there in one part, and returns the number of bytes.
    pub(super) fn read(&mut self, at: u64, into: &mut [u8]) -> Result<usize, String> {
        let part = self.parts.partition_point(|(start, _)| *start <= at).saturating_sub(1);
        let Some((start, part)) = self.parts.get(part) else { return Ok(0) };
        let skipped = at - start;
        match part {
            Part::Bytes(bytes) => {
                let there = bytes.get(skipped as usize..).unwrap_or_default();
                let n = there.len().min(into.len());
                into[..n].copy_from_slice(&there[..n]);
                Ok(n)
            }
            Part::Extent { file, at, len } => {
                // A1: no byte of it was copied.
                let path = &self.files[*file];
                let cause = |error| format!("cannot read {}: {error}", path.display());
                if self.open.as_ref().is_none_or(|(opened, _)| opened != file) {
                    self.open = Some((*file, tree::open(path).map_err(cause)?));
                }
                let (_, opened) = self.open.as_ref().expect("it was just opened");
                let n = into.len().min((len - skipped) as usize);
                opened.read_at(&mut into[..n], at + skipped).map_err(cause)
            }
        }
    }
}

impl Packer<'_> {
    fn put(&mut self, bytes: Vec<u8>) {
        self.hash.update(&bytes);
        let Packed { parts, len, .. } = &mut self.packed;
        let start = *len;
        *len += bytes.len() as u64;
        match parts.last_mut() {
            Some((_, Part::Bytes(last))) => last.extend_from_slice(&bytes),
            _ => parts.push((start, Part::Bytes(bytes))),
        }
    }

    fn put_extent(&mut self, file: usize, at: u64, bytes: &[u8]) {
        let len = bytes.len() as u64;
        self.put([at.to_le_bytes(), len.to_le_bytes()].concat());
        self.hash.update(bytes);
        self.packed.parts.push((self.packed.len, Part::Extent { file, at, len }));
        self.packed.len += len;
    }

    /// The beginning of a record.
    fn head(kind: u8, name: &Path, of: &fs::Metadata) -> io::Result<Vec<u8>> {
        let mut out = vec![kind];
        put_text(&mut out, name.as_os_str())?;
        out.extend_from_slice(&of.uid().to_le_bytes());
        out.extend_from_slice(&of.gid().to_le_bytes());
        Ok(out)
    }

    fn put_directory(&mut self, path: &Path, name: &Path) -> io::Result<()> {
        let of = fs::symlink_metadata(path)?;
        let mut head = Packer::head(DIRECTORY, name, &of)?;
        head.extend_from_slice(&of.mode().to_le_bytes());
        self.put(head);
        for entry in fs::read_dir(path)? {
            (self.may_continue)()?;
            let entry = entry?;
            let (path, name) = (entry.path(), name.join(entry.file_name()));
            let of = fs::symlink_metadata(&path)?;
            if of.is_dir() {
                self.put_directory(&path, &name)?;
            } else if of.is_symlink() {
                let mut record = Packer::head(LINK, &name, &of)?;
                put_text(&mut record, fs::read_link(&path)?.as_os_str())?;
                self.put(record);
            } else if of.is_file() {
                self.put_file(path, &name, &of)?;
            }
        }
        Ok(())
    }

    fn put_file(&mut self, path: PathBuf, name: &Path, of: &fs::Metadata) -> io::Result<()> {
        let mut head = Packer::head(FILE, name, of)?;
        head.extend_from_slice(&of.mode().to_le_bytes());
        head.extend_from_slice(&of.len().to_le_bytes());
        self.put(head);
        let (source, number) = (tree::open(&path)?, self.packed.files.len());
        self.packed.files.push(path);
        tree::each_extent(&source, &mut |at, bytes| {
            (self.may_continue)()?;
            each_filled(bytes, |from, filled| self.put_extent(number, at + from as u64, filled));
            Ok(())
        })?;
        self.put(vec![0; 16]); // an extent of no bytes
        Ok(())
    }
}

/// Calls `take` with the runs of blocks that are not all zero, and where they begin.
fn each_filled(bytes: &[u8], mut take: impl FnMut(usize, &[u8])) {
    let is_filled = |block: &[u8]| block.iter().any(|byte| *byte != 0);
    let mut begin = None;
    for (block, at) in bytes.chunks(BLOCK_BYTES).zip((0..).step_by(BLOCK_BYTES)) {
        if is_filled(block) {
            begin.get_or_insert(at);
        } else if let Some(from) = begin.take() {
            take(from, &bytes[from..at]);
        }
    }
    if let Some(from) = begin {
        take(from, &bytes[from..]);
    }
}

fn put_text(out: &mut Vec<u8>, text: &OsStr) -> io::Result<()> {
    let n = u16::try_from(text.len()).map_err(|_| io::Error::other("a name is too long"))?;
    out.extend_from_slice(&n.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// How far an archive was read.
#[derive(Debug)]
enum Reading {
    Magic,
    Record,
    /// The next extent of this file, of so many bytes.
    Extent(File, u64),
    /// The bytes of an extent: where they belong, and how many are missing.
    Bytes {
        file: File,
        len: u64,
        at: u64,
        n_left: u64,
    },
    Checksum,
    Over,
}

/// A checksum of what was read so far.
struct Running(Xxh3);

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Running").field(&self.0.digest()).finish()
    }
}

/// An archive that is unpacked into a new directory.
#[derive(Debug)]
pub(super) struct Unpacker {
    root: PathBuf,
    reading: Reading,
    /// What was given and not taken: less than one record.
    rest: Vec<u8>,
    hash: Box<Running>,
    /// The directories that were made, in order, each with its owner and mode: those are set when
    /// nothing is written there any longer.
    directories: Vec<(PathBuf, (u32, u32), u32)>,
    names: BTreeSet<PathBuf>,
}

impl Unpacker {
    /// One that makes the directory `root`, which is not there.
    pub(super) fn new(root: PathBuf) -> Unpacker {
        Unpacker {
            root,
            reading: Reading::Magic,
            rest: Vec::new(),
            hash: Box::new(Running(Xxh3::new())),
            directories: Vec::new(),
            names: BTreeSet::new(),
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// They are damaged, or cannot be written.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut given = std::mem::take(&mut self.rest);
        given.extend_from_slice(bytes);
        let mut rest = &given[..];
        loop {
            let before = rest;
            let moves = self.step(&mut rest)?;
            let n = before.len() - rest.len();
            if !matches!(self.reading, Reading::Over) {
                self.hash.0.update(&before[..n]);
            }
            if !moves {
                break;
            }
        }
        self.rest = rest.to_vec();
        Ok(())
    }

    /// Takes one thing off `rest`, if all of it is there. Returns whether it was.
    fn step(&mut self, rest: &mut &[u8]) -> Result<bool, String> {
        let mut left = *rest;
        let taken = match std::mem::replace(&mut self.reading, Reading::Over) {
            Reading::Magic => match take(&mut left) {
                Some(magic) if magic == MAGIC => Some(Reading::Record),
                Some(_) => return Err("these bytes are no archive of a directory".to_owned()),
                None => {
                    self.reading = Reading::Magic;
                    None
                }
            },
            Reading::Record => {
                let made = self.record(&mut left)?;
                if made.is_none() {
                    self.reading = Reading::Record;
                }
                made
            }
            Reading::Extent(file, len) => match (word(&mut left), word(&mut left)) {
                (Some(_), Some(0)) => Some(Reading::Record),
                (Some(at), Some(n_left)) => {
                    if at.checked_add(n_left).is_none_or(|end| end > len) {
                        return Err("an extent of the archive lies behind its file".to_owned());
                    }
                    Some(Reading::Bytes { file, len, at, n_left })
                }
                _ => {
                    self.reading = Reading::Extent(file, len);
                    None
                }
            },
            Reading::Bytes { file, len, at, n_left } => {
                let n = left.len().min(usize::try_from(n_left).unwrap_or(usize::MAX));
                let (part, behind) = left.split_at(n);
                file.write_all_at(part, at).map_err(|error| self.cause(&error))?;
                left = behind;
                let (at, n_left) = (at + n as u64, n_left - n as u64);
                if n == 0 && n_left > 0 {
                    self.reading = Reading::Bytes { file, len, at, n_left };
                    None
                } else if n_left > 0 {
                    Some(Reading::Bytes { file, len, at, n_left })
                } else {
                    Some(Reading::Extent(file, len))
                }
            }
            Reading::Checksum => match word(&mut left) {
                Some(hash) if hash == self.hash.0.digest() => Some(Reading::Over),
                Some(_) => return Err("the archive of a directory is damaged".to_owned()),
                None => {
                    self.reading = Reading::Checksum;
                    None
                }
            },
            Reading::Over if left.is_empty() => None,
            Reading::Over => return Err("bytes follow the end of the archive".to_owned()),
        };
        let Some(reading) = taken else { return Ok(false) };
        (self.reading, *rest) = (reading, left);
        Ok(true)
    }

    /// Reads a record, if all of it is there but a file's extents, and makes what it says (A2).
    fn record(&mut self, rest: &mut &[u8]) -> Result<Option<Reading>, String> {
        let Some((&kind, left)) = rest.split_first() else { return Ok(None) };
        *rest = left;
        if kind == END {
            return Ok(Some(Reading::Checksum));
        }
        let (Some(name), Some(owner), Some(group)) = (text(rest), half(rest), half(rest)) else {
            return Ok(None);
        };
        let (name, owner) = (Path::new(OsStr::from_bytes(name)), (owner, group));
        let made = match kind {
            DIRECTORY => {
                let Some(mode) = half(rest) else { return Ok(None) };
                let path = self.place(name, self.directories.is_empty())?;
                self.directories.push((path.clone(), owner, mode));
                fs::create_dir(path).map(|()| Reading::Record)
            }
            FILE => {
                let (Some(mode), Some(len)) = (half(rest), word(rest)) else { return Ok(None) };
                let path = self.place(name, false)?;
                let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
                file.and_then(|file| {
                    file.set_len(len)?;
                    tree::put_owner(&path, owner, Some(mode))?;
                    Ok(Reading::Extent(file, len))
                })
            }
            LINK => {
                let Some(target) = text(rest) else { return Ok(None) };
                let path = self.place(name, false)?;
                symlink(OsStr::from_bytes(target), &path)
                    .and_then(|()| tree::put_owner(&path, owner, None))
                    .map(|()| Reading::Record)
            }
            _ => return Err(format!("the archive has a record of kind {kind}")),
        };
        made.map(Some).map_err(|error| self.cause(&error))
    }

    fn cause(&self, error: &io::Error) -> String {
        format!("cannot write a checkpoint to {}: {error}; make room", self.root.display())
    }

    /// The path of a name that no record had before, in a directory that one has made (A2).
    fn place(&mut self, name: &Path, is_root: bool) -> Result<PathBuf, String> {
        if is_root && name.as_os_str().is_empty() {
            return Ok(self.root.clone());
        }
        let path = self.root.join(name);
        let is_plain = name.components().all(|part| matches!(part, Component::Normal(_)));
        let parent = path.parent();
        let is_inside = self.directories.iter().any(|(made, ..)| Some(&**made) == parent);
        let is_there = name.components().next().is_some();
        if !is_plain || !is_inside || !is_there || !self.names.insert(name.to_owned()) {
            return Err(format!("the archive names a file outside of its directory: {name:?}"));
        }
        Ok(path)
    }

    /// Ends the unpacking (A3), and returns the directory.
    ///
    /// # Errors
    /// Something is missing.
    pub(super) fn finish(self) -> Result<PathBuf, String> {
        if !matches!(self.reading, Reading::Over) || !self.rest.is_empty() {
            return Err("the archive of a directory is not whole".to_owned());
        }
        for (path, owner, mode) in self.directories.iter().rev() {
            tree::put_owner(path, *owner, Some(*mode)).map_err(|error| self.cause(&error))?;
        }
        Ok(self.root)
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

fn word(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

fn half(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_le_bytes)
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let n = u16::from_le_bytes(take(rest)?);
    let (text, left) = rest.split_at_checked(n.into())?;
    *rest = left;
    Some(text)
}

#[cfg(test)]
mod tests;
