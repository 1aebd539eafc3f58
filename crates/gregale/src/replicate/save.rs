//! A checkpoint of a copy that speaks Redis's protocol: what SAVE writes, and that as bytes.
//!
//! ```text
//! head length u16, head: the path of the file in the copy's directory, and, where the program
//! tells, 0 and the number of keys that do not expire, in decimal; the file
//! ```
//! The request goes over a connection of its own, which no other copy knows of: it changes nothing
//! that a client can ask for, apart from what is left out of comparisons (`replicate::session`).
//!
//! A program that begins with the file may read another one, and say nothing: its log of writes, or
//! a dump of another name. Such a copy would be empty. So it is asked what it has read (`Loading`).

mod found;

use found::{Found, QUESTIONS, found};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

/// The time in which a program has to have saved.
pub(super) const SAVES_WITHIN: Duration = Duration::from_secs(120);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 1 << 20;

const SAVE: &[u8] = b"*1\r\n$4\r\nSAVE\r\n";

/// A save under way.
#[derive(Debug)]
pub(super) struct Saver {
    connection: OwnedFd,
    answer: Vec<u8>,
    /// What the program has told of itself, before it was asked to save.
    found: Option<Found>,
}

impl Saver {
    /// Asks the program what it would begin with, and to save if that is what it saves.
    pub(super) fn begin(connection: OwnedFd) -> Result<Saver, String> {
        ask(&connection, QUESTIONS)?;
        Ok(Saver { connection, answer: Vec::new(), found: None })
    }

    /// What the program told of the file that was written, once it was. It has to be by then.
    pub(super) fn poll(&mut self, ends_by: Instant) -> Result<Option<Found>, String> {
        if !read(&self.connection, &mut self.answer)? {
            return Err("the program has closed the connection of SAVE".to_owned());
        }
        if self.found.is_none()
            && let Some(found) = found(&self.answer)?
        {
            if found.has_log {
                return Err(
                    "the program would begin with its log of writes (appendonly), and not \
                            with what SAVE writes: say --appendonly no, or --program-save files"
                        .to_owned(),
                );
            }
            ask(&self.connection, SAVE)?;
            self.answer.clear();
            self.found = Some(found);
        }
        let is_late = Instant::now() > ends_by;
        match &self.answer[..] {
            b"+OK\r\n" if self.found.is_some() => Ok(self.found.take()),
            other if self.found.is_some() && other.ends_with(b"\r\n") => {
                let other = String::from_utf8_lossy(other);
                Err(format!("SAVE is answered with {:?}", other.trim_end()))
            }
            _ if is_late => Err(format!("SAVE takes more than {SAVES_WITHIN:?}")),
            _ => Ok(None),
        }
    }
}

/// Writes requests to the program.
fn ask(connection: &OwnedFd, requests: &[u8]) -> Result<(), String> {
    match rustix::io::write(connection, requests) {
        Ok(n) if n == requests.len() => Ok(()),
        other => Err(format!("the program does not take a request of its member's: {other:?}")),
    }
}

/// Reads what the program answers. Returns whether the connection is open.
fn read(connection: &OwnedFd, answer: &mut Vec<u8>) -> Result<bool, String> {
    let mut piece = [0; 4096];
    loop {
        match rustix::io::read(connection, &mut piece) {
            Ok(0) => return Ok(false),
            Ok(n) => answer.extend_from_slice(&piece[..n]),
            Err(Errno::AGAIN) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(error) => return Err(format!("the program's answers: {error}")),
        }
        if answer.len() > ANSWER_BYTES_MAX {
            return Err("the program answers its member with something else".to_owned());
        }
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
    pub(super) fn open(of: &Found, directory: &Path) -> Result<Saved, String> {
        let path = &of.path;
        let cause = |error| format!("cannot read {}: {error}", path.display());
        let (whole, directory) = (fs::canonicalize(path), fs::canonicalize(directory));
        let (whole, directory) = (whole.map_err(cause)?, directory.map_err(cause)?);
        let inside = whole.strip_prefix(&directory).map_err(|_| {
            format!("{} is not in the copy's directory: say --dir {{dir}}", path.display())
        })?;
        let inside = inside.to_str().ok_or("the file's name is no text")?.as_bytes();
        let file = File::open(&whole).map_err(cause)?;
        let mut words = inside.to_vec();
        if let Some(n_lasting) = of.n_lasting {
            words.extend_from_slice(format!("\0{n_lasting}").as_bytes());
        }
        let n = u16::try_from(words.len()).map_err(|_| "the file's name is too long")?;
        let mut head = n.to_le_bytes().to_vec();
        head.extend_from_slice(&words);
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
    /// What the program has to read.
    due: Option<Due>,
}

/// What a program that begins with a checkpoint has to read.
#[derive(Debug)]
pub(super) struct Due {
    /// The checkpoint's file.
    path: PathBuf,
    /// The keys that do not expire, if the program told their number when it saved.
    n_lasting: Option<u64>,
}

impl Restored {
    /// What the program has to read, if anything was written.
    pub(super) fn due(self) -> Option<Due> {
        self.due
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
            let words = std::str::from_utf8(&rest[..n]).map_err(|error| error.to_string())?;
            let (name, n_lasting) = match words.split_once('\0') {
                Some((name, n)) => (name, Some(n.parse().map_err(|_| "the checkpoint is torn")?)),
                None => (words, None),
            };
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
            (self.file, self.due) = (Some(file), Some(Due { path, n_lasting }));
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
    /// What it has to read, if a checkpoint by SAVE was put in place.
    due: Option<Due>,
    is_asked: bool,
    /// It reads no longer, and is asked what it has read.
    has_read: bool,
    answer: Vec<u8>,
}

impl Loading {
    /// A program that has to read this.
    pub(super) fn of(due: Due) -> Loading {
        Loading { due: Some(due), ..Loading::default() }
    }

    /// Whether the program has said something else than that it loads, and has read what is due.
    ///
    /// # Errors
    /// What it has read instead, and the mend.
    pub(super) fn is_over(&mut self) -> Result<bool, String> {
        let Some(connection) = &self.connection else { return Ok(false) };
        if !self.is_asked {
            self.is_asked = rustix::io::write(connection, b"PING\r\n") == Ok(6);
        }
        if !matches!(read(connection, &mut self.answer), Ok(true)) {
            *self = Loading { due: self.due.take(), ..Loading::default() };
            return Ok(false);
        }
        if self.has_read {
            let (Some(due), Some(found)) = (&self.due, found(&self.answer)?) else {
                return Ok(false);
            };
            return due.check(&found).map(|()| true);
        }
        if !self.answer.ends_with(b"\r\n") {
            return Ok(false);
        }
        let loads = self.answer.starts_with(b"-LOADING");
        self.answer.clear();
        if loads {
            self.is_asked = false;
            return Ok(false);
        }
        if self.due.is_none() {
            return Ok(true);
        }
        self.has_read = ask(connection, QUESTIONS).is_ok();
        if !self.has_read {
            *self = Loading { due: self.due.take(), ..Loading::default() };
        }
        Ok(false)
    }
}

impl Due {
    /// Whether a program that tells this of itself has read what is due.
    fn check(&self, found: &Found) -> Result<(), String> {
        let Due { path, n_lasting } = self;
        let path = path.display();
        if found.has_log {
            return Err(format!(
                "the program has begun with its log of writes (appendonly), and not with its \
                 checkpoint ({path}): say --appendonly no, or --program-save files"
            ));
        }
        let is_same = fs::canonicalize(&found.path).ok() == fs::canonicalize(&self.path).ok();
        if !is_same {
            return Err(format!(
                "the program has begun with {}, and not with its checkpoint ({path}), whose name a \
                 client has set: say --dbfilename {} in its command, and --dir {{dir}}",
                found.path.display(),
                self.path.file_name().unwrap_or_default().display(),
            ));
        }
        match (*n_lasting, found.n_lasting) {
            (Some(saved), Some(read)) if read.saturating_add(found.n_evicted) < saved => {
                Err(format!(
                    "the program has {read} keys that do not expire, and its checkpoint ({path}) \
                     has {saved}: look at what it says when it begins, or say --program-save files"
                ))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_put_back_where_it_was_in_pieces_of_any_size() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(from.path().join("a")).unwrap();
        let path = from.path().join("a/dump.rdb");
        let bytes: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let of = told(&path, Some(7));
        assert!(Saved::open(&of, to.path()).unwrap_err().contains("--dir {dir}"));
        let saved = Saved::open(&of, from.path()).unwrap();
        let (mut restored, mut at, mut size) = (Restored::default(), 0, 1);
        while at < saved.len() {
            let mut piece = vec![0; size];
            let n = saved.read(at, &mut piece).unwrap();
            restored.take(&piece[..n], to.path()).unwrap();
            (at, size) = (at + n as u64, size * 2);
        }
        assert_eq!(fs::read(to.path().join("a/dump.rdb")).unwrap(), bytes);
        let due = restored.due().unwrap();
        assert_eq!((due.path, due.n_lasting), (to.path().join("a/dump.rdb"), Some(7)));
        let outside = Restored::default().take(b"\x04\0../xy", to.path()).unwrap_err();
        assert!(outside.contains("outside"), "{outside}");
    }

    #[test]
    fn a_program_that_has_read_something_else_is_refused_with_the_mend() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("other.rdb");
        fs::write(&path, "").unwrap();
        let due = Due { path: path.clone(), n_lasting: Some(7) };
        assert_eq!(due.check(&told(&path, Some(7))), Ok(()));
        assert_eq!(due.check(&told(&path, Some(9))), Ok(()), "fields of one may have expired");
        assert_eq!(due.check(&told(&path, None)), Ok(()), "it does not tell");
        assert_eq!(due.check(&Found { n_evicted: 6, ..told(&path, Some(1)) }), Ok(()));
        let fewer = due.check(&told(&path, Some(6))).unwrap_err();
        assert!(fewer.contains("has 6 keys") && fewer.contains("has 7"), "{fewer}");
        let logs = due.check(&Found { has_log: true, ..told(&path, Some(7)) }).unwrap_err();
        assert!(logs.contains("--appendonly no"), "{logs}");
        let default = dir.path().join("dump.rdb");
        let renamed = due.check(&told(&default, Some(7))).unwrap_err();
        assert!(renamed.contains("--dbfilename other.rdb"), "{renamed}");
    }

    /// The questions are answered piece by piece, by a program that first says that it loads.
    #[test]
    fn a_program_is_asked_what_it_has_read_once_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dump.rdb");
        fs::write(&path, "").unwrap();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let due = Some(Due { path, n_lasting: Some(2) });
        let connection = Some(OwnedFd::from(ours));
        let mut loading = Loading { connection, due, ..Loading::default() };
        assert_eq!(loading.is_over(), Ok(false));
        for answer in ["-LOADING it\r\n", "+PONG\r\n"] {
            (&theirs).write_all(answer.as_bytes()).unwrap();
            assert_eq!(loading.is_over(), Ok(false));
            assert_eq!(loading.is_over(), Ok(false));
        }
        let info = "# Keyspace\r\ndb0:keys=3,expires=2,avg_ttl=0\r\n";
        let dir = dir.path().display().to_string();
        let answers = format!(
            "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n*2\r\n$3\r\ndir\r\n${}\r\n{dir}\r\n\
             *2\r\n$10\r\ndbfilename\r\n$8\r\ndump.rdb\r\n${}\r\n{info}\r\n",
            dir.len(),
            info.len()
        );
        let (first, rest) = answers.as_bytes().split_at(answers.len() - 1);
        (&theirs).write_all(first).unwrap();
        assert_eq!(loading.is_over(), Ok(false));
        (&theirs).write_all(rest).unwrap();
        let empty = loading.is_over().unwrap_err();
        assert!(empty.contains("has 1 keys") && empty.contains("has 2"), "{empty}");
    }

    fn told(path: &Path, n_lasting: Option<u64>) -> Found {
        Found { has_log: false, path: path.to_owned(), n_lasting, n_evicted: 0 }
    }
}
