//! A checkpoint of a copy that speaks Redis's protocol: what SAVE writes, and that as bytes.
//!
//! ```text
//! path length u16, the path of the file in the copy's directory, the file
//! ```
//! The request goes over a connection of its own, which no other copy knows of: it changes nothing
//! that a client can ask for, apart from what is left out of comparisons (`replicate::session`).

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

/// The time in which a program has to have saved.
const SAVES_WITHIN: Duration = Duration::from_secs(120);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 16 << 10;

const REQUESTS: &[u8] = b"*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$3\r\ndir\r\n\
    *3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$10\r\ndbfilename\r\n*1\r\n$4\r\nSAVE\r\n";

/// A save under way.
#[derive(Debug)]
pub(super) struct Saver {
    connection: OwnedFd,
    answer: Vec<u8>,
    ends_by: Instant,
}

impl Saver {
    /// Asks the program to save.
    pub(super) fn begin(connection: OwnedFd) -> Result<Saver, String> {
        match rustix::io::write(&connection, REQUESTS) {
            Ok(n) if n == REQUESTS.len() => {}
            other => return Err(format!("the program does not take a request to save: {other:?}")),
        }
        Ok(Saver { connection, answer: Vec::new(), ends_by: Instant::now() + SAVES_WITHIN })
    }

    /// The file that was written, once it was.
    pub(super) fn poll(&mut self) -> Result<Option<PathBuf>, String> {
        let mut piece = [0; 4096];
        loop {
            match rustix::io::read(&self.connection, &mut piece) {
                Ok(0) => return Err("the program has closed the connection of SAVE".to_owned()),
                Ok(n) => self.answer.extend_from_slice(&piece[..n]),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(format!("SAVE: {error}")),
            }
            if self.answer.len() > ANSWER_BYTES_MAX {
                return Err("the program answers SAVE with something else".to_owned());
            }
        }
        let is_late = Instant::now() > self.ends_by;
        match file_of(&self.answer)? {
            None if is_late => Err(format!("SAVE takes more than {SAVES_WITHIN:?}")),
            file => Ok(file),
        }
    }
}

/// The file that the answers name, once all three are there.
fn file_of(answer: &[u8]) -> Result<Option<PathBuf>, String> {
    let text = String::from_utf8_lossy(answer);
    let mut lines = text.split_inclusive("\r\n").filter_map(|line| line.strip_suffix("\r\n"));
    let mut values = Vec::new();
    for _ in 0..2 {
        let Some(head) = lines.next() else { return Ok(None) };
        if head != "*2" {
            return Err(format!("CONFIG GET is answered with {head:?}"));
        }
        // Two words, each behind its length.
        match lines.nth(3) {
            Some(value) => values.push(value),
            None => return Ok(None),
        }
    }
    match lines.next() {
        None => Ok(None),
        Some("+OK") => Ok(Some(Path::new(values[0]).join(values[1]))),
        Some(other) => Err(format!("SAVE is answered with {other:?}")),
    }
}

/// A checkpoint that was made.
#[derive(Debug)]
pub(super) struct Saved {
    head: Vec<u8>,
    file: File,
    len: u64,
}

impl Saved {
    /// The one of a file that the program has written into `directory`.
    pub(super) fn open(path: &Path, directory: &Path) -> Result<Saved, String> {
        let cause = |error| format!("cannot read {}: {error}", path.display());
        let (whole, directory) = (fs::canonicalize(path), fs::canonicalize(directory));
        let (whole, directory) = (whole.map_err(cause)?, directory.map_err(cause)?);
        let inside = whole.strip_prefix(&directory).map_err(|_| {
            format!("{} is not in the copy's directory: say --dir {{dir}}", path.display())
        })?;
        let inside = inside.to_str().ok_or("the file's name is no text")?.as_bytes();
        let file = File::open(&whole).map_err(cause)?;
        let n = u16::try_from(inside.len()).map_err(|_| "the file's name is too long")?;
        let mut head = n.to_le_bytes().to_vec();
        head.extend_from_slice(inside);
        let len = head.len() as u64 + file.metadata().map_err(cause)?.len();
        Ok(Saved { head, file, len })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> Result<usize, String> {
        if let Some(head) = self.head.get(at as usize..).filter(|head| !head.is_empty()) {
            let n = head.len().min(into.len());
            into[..n].copy_from_slice(&head[..n]);
            return Ok(n);
        }
        let at = at - self.head.len() as u64;
        self.file.read_at(into, at).map_err(|error| format!("cannot read a checkpoint: {error}"))
    }
}

/// A checkpoint that a copy begins with.
#[derive(Debug, Default)]
pub(super) struct Restored {
    head: Vec<u8>,
    file: Option<File>,
}

impl Restored {
    /// Whether anything was written.
    pub(super) fn is_there(&self) -> bool {
        self.file.is_some()
    }

    /// Writes the next bytes into `directory`.
    pub(super) fn take(&mut self, mut bytes: &[u8], directory: &Path) -> Result<(), String> {
        if self.file.is_none() {
            self.head.extend_from_slice(bytes);
            let Some((n, rest)) = self.head.split_first_chunk() else { return Ok(()) };
            let n = usize::from(u16::from_le_bytes(*n));
            if rest.len() < n {
                return Ok(());
            }
            let name = std::str::from_utf8(&rest[..n]).map_err(|error| error.to_string())?;
            let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_));
            if !Path::new(name).components().all(is_inside) {
                return Err(format!(
                    "the checkpoint names a file outside of its directory: {name}"
                ));
            }
            let path = directory.join(name);
            let file = path.parent().map_or(Ok(()), fs::create_dir_all);
            let file = file.and_then(|()| File::create(&path));
            let file = file.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            self.file = Some(file);
            let n_before = self.head.len() - bytes.len();
            bytes = &bytes[2 + n - n_before..];
        }
        let file = self.file.as_mut().expect("it was created");
        file.write_all(bytes).map_err(|error| {
            format!("cannot write a checkpoint to {}: {error}; make room", directory.display())
        })
    }
}

/// A program that reads its checkpoint: it listens already, and refuses what it is asked.
#[derive(Debug, Default)]
pub(super) struct Loading {
    /// A connection on which it is asked whether it still does.
    pub(super) connection: Option<OwnedFd>,
    is_asked: bool,
    answer: Vec<u8>,
}

impl Loading {
    /// Whether the program has said something else than that it loads.
    pub(super) fn is_over(&mut self) -> bool {
        let Some(connection) = &self.connection else { return false };
        if !self.is_asked {
            self.is_asked = rustix::io::write(connection, b"PING\r\n") == Ok(6);
        }
        let mut piece = [0; 256];
        match rustix::io::read(connection, &mut piece) {
            Ok(0) => *self = Loading::default(),
            Ok(n) => self.answer.extend_from_slice(&piece[..n]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => *self = Loading::default(),
        }
        if self.answer.ends_with(b"\r\n") && self.answer.starts_with(b"-LOADING") {
            self.answer.clear();
            self.is_asked = false;
        }
        self.answer.ends_with(b"\r\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_name_the_file_once_they_are_whole() {
        let answer = "*2\r\n$3\r\ndir\r\n$4\r\n/a/b\r\n*2\r\n$10\r\ndbfilename\r\n$1\r\nc\r\n";
        let whole = format!("{answer}+OK\r\n");
        for n in 0..whole.len() {
            assert_eq!(file_of(&whole.as_bytes()[..n]), Ok(None));
        }
        assert_eq!(file_of(whole.as_bytes()), Ok(Some(PathBuf::from("/a/b/c"))));
        let refused = file_of(format!("{answer}-ERR no\r\n").as_bytes()).unwrap_err();
        assert!(refused.contains("-ERR no"), "{refused}");
        assert!(file_of(b"-NOAUTH\r\n").unwrap_err().contains("NOAUTH"));
    }

    #[test]
    fn a_file_is_put_back_where_it_was_in_pieces_of_any_size() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(from.path().join("a")).unwrap();
        let path = from.path().join("a/dump.rdb");
        let bytes: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
        fs::write(&path, &bytes).unwrap();
        assert!(Saved::open(&path, to.path()).unwrap_err().contains("--dir {dir}"));
        let saved = Saved::open(&path, from.path()).unwrap();
        let (mut restored, mut at, mut size) = (Restored::default(), 0, 1);
        while at < saved.len() {
            let mut piece = vec![0; size];
            let n = saved.read(at, &mut piece).unwrap();
            restored.take(&piece[..n], to.path()).unwrap();
            (at, size) = (at + n as u64, size * 2);
        }
        assert_eq!(fs::read(to.path().join("a/dump.rdb")).unwrap(), bytes);
        let outside = Restored::default().take(b"\x04\0../xy", to.path()).unwrap_err();
        assert!(outside.contains("outside"), "{outside}");
    }
}
