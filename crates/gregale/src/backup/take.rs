//! Fetching a backup into a file.

use super::ANSWER_WITHIN;
use crate::connect::ConnectArgs;
use crate::door::NO_SUCH_BACKUP;
use crate::random::random_hex;
use crate::resp::{Connection, Value, refused, unanswered};
use console::{Failure, Format, Outcome};
use kv::backup::{Reader, Summary};
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The most times that a backup begins again after the member that froze the state was deposed, or
/// died.
const BEGINNINGS_MAX: usize = 5;
/// The time during which a member may be unable to answer.
const TRY_FOR: Duration = Duration::from_secs(30);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// The most attempts for a piece at one address: a read is passed to the leader for a moment where
/// the member's own check fails, and is answered by the member itself again later.
const ASKED_MAX: usize = 20;

/// The number of bytes at the start of a file that identify a backup.
const START_BYTES: u64 = 8;

const COMMAND: &[u8] = b"GREGALE.BACKUP";

/// `gregale backup FILE`
pub(super) fn take(path: &Path, connect: &ConnectArgs, format: Format) -> Outcome {
    if path.exists() {
        return Err(Failure::new(format_args!(
            "{} is there already: name another file, or move that one away",
            path.display()
        )));
    }
    // The connection comes first: without a member nothing is changed.
    let address = connect.address;
    let mut connection = Connection::open(address, connect.password(), ANSWER_WITHIN)?;
    let mut part = Part::create(path)?;
    let summary = fetch(&mut connection, address, &mut part)?;
    part.finish(path)?;
    super::show(path, &summary, format)
}

/// The file before it is whole (I1 of the module above); removed if it does not become whole.
struct Part {
    file: File,
    path: PathBuf,
    is_whole: bool,
}

impl Part {
    fn create(path: &Path) -> Outcome<Part> {
        let mut name: OsString = path.into();
        name.push(".part");
        let part = PathBuf::from(name);
        let failed = |error| Failure::os(format_args!("write {}", part.display()), error);
        let mut options = OpenOptions::new();
        // Only the owner may read the content.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&part).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::new(format_args!(
                    "{} is being written by another process: wait for it, or name another file",
                    part.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Another process may have finished between the opening and the lock: then this file is its
        // backup.
        let named = std::fs::metadata(&part).map_err(failed)?;
        if named.ino() != file.metadata().map_err(failed)?.ino() {
            return Err(Failure::new(format_args!(
                "{} was just finished by another process: name another file",
                path.display()
            )));
        }
        // A killed attempt leaves the beginning of a backup, or nothing.
        let mut start = Vec::new();
        (&mut file).take(START_BYTES).read_to_end(&mut start).map_err(failed)?;
        if Reader::new().feed(&start, &mut |_| ()).is_err() {
            return Err(Failure::new(format_args!(
                "{} is there and is no part of a backup: move it away, or name another file",
                part.display()
            )));
        }
        Ok(Part { file, path: part, is_whole: false })
    }

    fn begin(&mut self) -> Outcome<()> {
        use std::io::Seek as _;
        let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
        emptied.map_err(|error| self.failed(error))
    }

    fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.file.write_all(bytes).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: std::io::Error) -> Failure {
        Failure::os(format_args!("write {}", self.path.display()), error)
    }

    fn finish(mut self, path: &Path) -> Outcome<()> {
        self.file.sync_all().map_err(|error| self.failed(error))?;
        std::fs::rename(&self.path, path)
            .map_err(|error| Failure::os(format_args!("name {}", path.display()), error))?;
        self.is_whole = true;
        let directory = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| Failure::os(format_args!("sync {}", directory.display()), error))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_whole {
            // The remaining file is overwritten by the next attempt.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn fetch(connection: &mut Connection, address: SocketAddr, part: &mut Part) -> Outcome<Summary> {
    for _ in 0..BEGINNINGS_MAX {
        part.begin()?;
        if let Some(summary) = fetch_once(connection, address, part)? {
            return Ok(summary);
        }
    }
    Err(Failure::new(format_args!(
        "the leader changed {BEGINNINGS_MAX} times while the backup was fetched from {address}: \
         see `gregale status`, and try again"
    )))
}

/// `None` if the frozen state was lost on the way.
fn fetch_once(
    connection: &mut Connection,
    address: SocketAddr,
    part: &mut Part,
) -> Outcome<Option<Summary>> {
    let strange = || Failure::new(format_args!("{address} answers as no gregale does"));
    let token = token()?;
    let token = token.as_bytes();
    let Value::Array(counts) = ask(connection, address, &[COMMAND, b"BEGIN", token])? else {
        return Err(strange());
    };
    let [Value::Integer(n_pieces), Value::Integer(_)] = counts[..] else { return Err(strange()) };
    let mut reader = Reader::new();
    for n in 0..n_pieces {
        let number = n.to_string();
        let words = [COMMAND, b"PIECE", token, number.as_bytes()];
        let mut n_asked = 0;
        let piece = loop {
            match ask(connection, address, &words)? {
                Value::Bulk(piece) => break piece,
                Value::Error(_) if n_asked < ASKED_MAX => {
                    n_asked += 1;
                    std::thread::sleep(PAUSE);
                }
                Value::Error(_) => return Ok(None),
                _ => return Err(strange()),
            }
        };
        reader
            .feed(&piece, &mut |_| ())
            .map_err(|error| Failure::new(format_args!("what {address} sends is {error}")))?;
        part.write(&piece)?;
    }
    // If this message is lost, the member drops the state by itself.
    let _ = connection.call(&[COMMAND, b"END", token]);
    reader
        .finish()
        .map(Some)
        .map_err(|error| Failure::new(format_args!("what {address} sends is {error}")))
}

/// Asks until the member can answer; the only error returned is that it has no such backup.
fn ask(connection: &mut Connection, address: SocketAddr, words: &[&[u8]]) -> Outcome<Value> {
    let end = Instant::now() + TRY_FOR;
    loop {
        match connection.call(words).map_err(|error| unanswered(address, &error))? {
            Value::Error(line) if line == NO_SUCH_BACKUP => return Ok(Value::Error(line)),
            Value::Error(line) => {
                let may_pass = line.starts_with("TRYAGAIN") || line.starts_with("LOADING");
                if !may_pass || Instant::now() > end {
                    return Err(refused(address, &line));
                }
                std::thread::sleep(PAUSE);
            }
            value => return Ok(value),
        }
    }
}

/// A token that no other process uses.
fn token() -> Outcome<String> {
    random_hex::<16>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_a_part_that_is_not_finished_is_removed_and_one_that_is_has_its_name() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("b");
        let names = || {
            let entries = std::fs::read_dir(base.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
        };
        let mut part = Part::create(&path).unwrap();
        part.write(b"half").unwrap();
        assert_eq!(names(), ["b.part"]);
        drop(part);
        assert!(names().is_empty());
        let mut part = Part::create(&path).unwrap();
        part.write(b"anew").unwrap();
        part.begin().unwrap();
        part.write(b"all").unwrap();
        part.finish(&path).unwrap();
        assert_eq!(names(), ["b"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"all");
    }

    #[test]
    fn a_file_of_somebody_else_is_not_taken_for_a_part_of_a_backup() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("b");
        for foreign in ["thesis", "gregarious"] {
            std::fs::write(base.path().join("b.part"), foreign).unwrap();
            let refused = Part::create(&path).map(drop).unwrap_err().to_string();
            assert!(refused.contains("b.part") && refused.contains("move"), "{refused}");
            assert_eq!(std::fs::read_to_string(base.path().join("b.part")).unwrap(), foreign);
        }
        for own in ["", "greg", "gregback\x01\0\0\0and more"] {
            std::fs::write(base.path().join("b.part"), own).unwrap();
            drop(Part::create(&path).unwrap());
        }
    }

    #[test]
    fn nothing_is_touched_before_somebody_answers() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("b");
        let part = base.path().join("b.part");
        std::fs::write(&part, "gregback").unwrap();
        // The port was bound and closed again: no process listens there.
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let connect = ConnectArgs { address: nobody, password: None };
        assert!(take(&path, &connect, Format::Table).is_err());
        assert!(part.exists());
    }

    #[test]
    fn two_do_not_write_one_file() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("b");
        let _first = Part::create(&path).unwrap();
        let refused = Part::create(&path).err().unwrap().to_string();
        assert!(refused.contains("another process"), "{refused}");
    }
}
