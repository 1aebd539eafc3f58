//! `gregale backup` and `gregale restore`: the keys and values of a running cluster in a file.
//!
//! - I1 a file with the final name is whole: it is written under another name, checked as it
//!   arrives, synced, and renamed.
//! - I2 a backup shows one point of the order: the member freezes a copy when its read check
//!   succeeds, and every piece comes from that copy.
//! - I3 a file is verified to its end before the first of its keys is written to a cluster.

mod args;
mod restore;
mod take;

pub(crate) use args::{BackupArgs, RestoreArgs};
pub(crate) use restore::restore;

use args::{BackupCommand, VerifyArgs};
use console::{Failure, Format, Outcome};
use kv::backup::{Entry, Reader, Summary};
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The longest time to a member's answer: it may have to copy its whole state first.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The number of bytes that are read from a file at a time.
const READ_BYTES: usize = 256 << 10;

/// The printed summary of a backup. The names are an interface: additions only.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    version: u32,
    keys: u64,
    key_and_value_bytes: u64,
    file_bytes: u64,
    /// The prefix of the log that it covers.
    prefix: u64,
    /// The time of the state, in milliseconds since 1970; 0 if nothing was ever written.
    state_ms: u64,
    /// The check of the whole file, in hexadecimal digits.
    check: String,
}

/// Takes a backup, or verifies one.
pub(crate) fn run(args: &BackupArgs) -> Outcome {
    match (&args.verify, &args.file) {
        (Some(BackupCommand::Verify(args)), _) => verify(args),
        (None, Some(file)) => take::take(file, &args.connect, args.format),
        (None, None) => unreachable!("a file is required unless one is to be verified"),
    }
}

/// Reads a whole file.
fn verify(args: &VerifyArgs) -> Outcome {
    let summary = read(&args.file, |_| Ok(()))?;
    show(&args.file, &summary, args.format)
}

fn show(file: &Path, summary: &Summary, format: Format) -> Outcome {
    let report = Report {
        file: file.display().to_string(),
        version: summary.version,
        keys: summary.n_entries,
        key_and_value_bytes: summary.n_bytes,
        file_bytes: summary.n_file_bytes,
        prefix: summary.prefix.0,
        state_ms: summary.state_ms,
        check: format!("{:016x}", summary.check),
    };
    match format {
        Format::Json => outln!("{}", serde_json::to_string(&report).map_err(Failure::new)?),
        Format::Table => outln!(
            "{}: whole; {} keys, {} bytes of keys and values in {} bytes, everything below slot \
             {}, check {}",
            report.file,
            report.keys,
            report.key_and_value_bytes,
            report.file_bytes,
            report.prefix,
            report.check
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Calls `visit` with every entry of `path`, which is read to its end.
fn read(path: &Path, mut visit: impl FnMut(Entry<'_>) -> Outcome<()>) -> Outcome<Summary> {
    let failed = |error| Failure::os(format_args!("read {}", path.display()), error);
    let wrong = |error| Failure::new(format_args!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(failed)?;
    let mut reader = Reader::new();
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let n = match file.read(&mut bytes) {
            Ok(0) => return reader.finish().map_err(wrong),
            Ok(n) => n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        let mut outcome = Ok(());
        let mut each = |entry: Entry<'_>| {
            if outcome.is_ok() {
                outcome = visit(entry);
            }
        };
        reader.feed(&bytes[..n], &mut each).map_err(wrong)?;
        outcome?;
    }
}
