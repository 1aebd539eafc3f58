//! What each process of this host says that it agrees to, in words, beside its memory: so that a
//! process that is refused can be told both sides' values, and not fingerprints alone.
//!
//! ```text
//! fingerprint, in hexadecimal digits
//! the configuration, in words
//! ```

use crate::options::Options;
use base::{Incarnation, Rank};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// The most that is read of another process's words.
const BYTES_MAX: u64 = 64 << 10;

fn path(options: &Options, seat: Rank) -> PathBuf {
    options.directory.join(format!("{}.agreed", seat.member()))
}

/// Writes what this process agrees to. (Without it a refusal has the fingerprints.)
pub(crate) fn write(options: &Options, seat: Rank) {
    let fingerprint = options.setup(seat, Incarnation(1)).layout;
    let text = format!("{fingerprint:x}\n{}", options.described());
    let mut open = OpenOptions::new();
    let file = open.write(true).create(true).truncate(true).mode(0o600).open(path(options, seat));
    let _written = file.and_then(|mut file| file.write_all(text.as_bytes()));
}

/// What the process on `seat` agrees to, whose fingerprint `refusal` names: if it is on this host.
/// (The words may be of an earlier process on the seat.)
pub(crate) fn read(options: &Options, seat: Rank, refusal: &str) -> Option<String> {
    let (mut text, file) = (String::new(), File::open(path(options, seat)).ok()?);
    file.take(BYTES_MAX).read_to_string(&mut text).ok()?;
    let (fingerprint, words) = text.split_once('\n')?;
    let is_meant = !fingerprint.is_empty() && refusal.contains(fingerprint);
    is_meant.then(|| words.to_owned())
}

/// Removes the words of a process that is gone.
pub(crate) fn remove(options: &Options, seat: Rank) {
    let _gone = std::fs::remove_file(path(options, seat));
}
