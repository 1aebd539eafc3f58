//! The transcript in a file, with its newest bytes in memory too.
//!
//! The file is no log: the cluster's log and its snapshots are. A process begins an empty one and
//! fills it again. So nothing here is synced, and a file that cannot be written or read ends the
//! process. What is forgotten is a hole at the beginning of the file; a file system that makes none
//! keeps it.

use replicate::transcript::Transcript;
use rustix::fs::FallocateFlags;
use std::cell::OnceCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The newest bytes, which are in memory alone, are written when there are so many.
const TAIL_BYTES: usize = 64 << 10;

/// The transcript of the module's text.
#[derive(Debug)]
pub(crate) struct FileTranscript {
    directory: PathBuf,
    /// The number of the file among those of this process.
    number: u64,
    file: Option<File>,
    /// The number of bytes of all that are not in the file because it begins behind them.
    origin: u64,
    /// The number of bytes that were forgotten.
    start: u64,
    /// The number of bytes before the tail.
    n_in_file: u64,
    /// The bytes behind those.
    tail: Vec<u8>,
    failure: OnceCell<String>,
}

impl FileTranscript {
    /// An empty transcript in a new file of `directory`.
    pub(crate) fn create(directory: &Path) -> FileTranscript {
        FileTranscript::numbered(directory, 1, 0)
    }

    fn numbered(directory: &Path, number: u64, start: u64) -> FileTranscript {
        let mut transcript = FileTranscript {
            directory: directory.to_path_buf(),
            number,
            file: None,
            origin: start,
            start,
            n_in_file: start,
            tail: Vec::new(),
            failure: OnceCell::new(),
        };
        let mut options = OpenOptions::new();
        // It holds what clients wrote, which is for the member alone.
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        match options.open(transcript.path()) {
            Ok(file) => transcript.file = Some(file),
            Err(error) => transcript.fail(&error),
        }
        transcript
    }

    fn path(&self) -> PathBuf {
        self.directory.join(format!("transcript-{}", self.number))
    }

    fn fail(&self, error: &io::Error) {
        self.failure.get_or_init(|| {
            format!(
                "cannot keep the transcript in {}: {error}; make room there",
                self.path().display()
            )
        });
    }

    /// Moves the tail into the file; if that fails, it stays.
    fn spill(&mut self) {
        let Some(file) = &self.file else { return };
        match file.write_all_at(&self.tail, self.n_in_file - self.origin) {
            Ok(()) => {
                self.n_in_file += self.tail.len() as u64;
                self.tail.clear();
            }
            Err(error) => self.fail(&error),
        }
    }
}

impl Transcript for FileTranscript {
    fn beside(&mut self, start: u64) -> FileTranscript {
        FileTranscript::numbered(&self.directory, self.number + 1, start)
    }

    fn start(&self) -> u64 {
        self.start
    }

    fn forget(&mut self, at: u64) {
        let Some(file) = self.file.as_ref().filter(|_| at > self.start) else { return };
        self.start = at;
        let len = at.min(self.n_in_file) - self.origin;
        if len > 0 {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = rustix::fs::fallocate(file, flags, 0, len);
        }
    }

    fn len(&self) -> u64 {
        self.n_in_file + self.tail.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        if self.tail.len() >= TAIL_BYTES && self.failure.get().is_none() {
            self.spill();
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> usize {
        if let Some(from) = at.checked_sub(self.n_in_file) {
            let there = &self.tail[from as usize..];
            let n = there.len().min(into.len());
            into[..n].copy_from_slice(&there[..n]);
            return n;
        }
        let n = into.len().min((self.n_in_file - at) as usize);
        let at = at - self.origin;
        let read = self.file.as_ref().map(|file| file.read_exact_at(&mut into[..n], at));
        match read {
            Some(Ok(())) => n,
            Some(Err(error)) => {
                self.fail(&error);
                0
            }
            None => 0,
        }
    }

    fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }
}

impl Drop for FileTranscript {
    fn drop(&mut self) {
        // What is left is swept with the directory.
        let _ = std::fs::remove_file(self.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_from_the_file_and_from_its_tail() {
        let directory = tempfile::tempdir().unwrap();
        let mut transcript = FileTranscript::create(directory.path());
        let piece: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
        let mut all = Vec::new();
        for _ in 0..30 {
            transcript.append(&piece);
            all.extend_from_slice(&piece);
        }
        assert!(transcript.n_in_file > 0 && !transcript.tail.is_empty());
        let metadata = transcript.file.as_ref().unwrap().metadata().unwrap();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777, 0o600);
        let (mut read, mut buffer) = (Vec::new(), [0; 7001]);
        loop {
            let n = transcript.read(read.len() as u64, &mut buffer);
            if n == 0 {
                break;
            }
            read.extend_from_slice(&buffer[..n]);
        }
        assert!(read == all && transcript.failure().is_none());
        let mut beside = transcript.beside(1000);
        assert!(beside.len() == 1000 && transcript.len() == all.len() as u64);
        beside.append(b"abc");
        let mut three = [0; 3];
        assert_eq!((beside.read(1000, &mut three), &three), (3, b"abc"));
        drop((transcript, beside));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_forgotten_takes_no_room_and_the_rest_is_there() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let mut transcript = FileTranscript::create(directory.path()).beside(5000);
        let piece: Vec<u8> = (0..1 << 20).map(|n: u32| (n % 251) as u8).collect();
        transcript.append(&piece);
        transcript.append(b"tail");
        let before = std::fs::metadata(transcript.path()).unwrap().blocks();
        transcript.forget(5000 + (1 << 19));
        assert_eq!((transcript.start(), transcript.len()), (5000 + (1 << 19), 5004 + (1 << 20)));
        let after = std::fs::metadata(transcript.path()).unwrap().blocks();
        assert!(after < before * 2 / 3, "{after} of {before} blocks are left");
        let mut read = vec![0; 1 << 19];
        assert_eq!(transcript.read(5000 + (1 << 19), &mut read), 1 << 19);
        assert!(read == piece[1 << 19..]);
        transcript.forget(transcript.len());
        let mut none = [0];
        assert_eq!(transcript.read(transcript.len(), &mut none), 0);
        transcript.append(b"x");
        assert_eq!((transcript.read(transcript.len() - 1, &mut none), none), (1, *b"x"));
        assert!(transcript.failure().is_none());
    }

    #[test]
    fn a_failure_is_named_and_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut transcript = FileTranscript::create(&directory.path().join("missing"));
        assert!(transcript.failure().unwrap().contains("missing/transcript-1"));
        transcript.append(&vec![7; 3 * TAIL_BYTES]);
        let mut byte = [0];
        assert_eq!((transcript.read(2 * TAIL_BYTES as u64, &mut byte), byte), (1, [7]));
    }
}
