//! A sheet: words in a file that another program maps too, without a header, an owner or a place in
//! a cluster. Its maker and that program agree on what they mean.

use crate::memory::Memory;
use crate::{Error, Words};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Makes the file `path` with `n_words` words of zero, and maps them. It stays until its maker
/// removes it.
///
/// # Errors
/// [`Error`]; among others if the file exists already.
pub fn make(path: &Path, n_words: u32) -> Result<Words, Error> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|source| Error::os("make", path, source))?;
    let file = File::from(file);
    let bytes = u64::from(n_words) * 8;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => {}
        Err(Errno::NOSPC | Errno::DQUOT) => {
            return Err(Error::Full { path: path.to_owned(), bytes });
        }
        Err(source) => return Err(Error::os("allocate", path, source)),
    }
    let memory = Arc::new(Memory::map(&file, bytes as usize, path)?);
    Ok(Words::new(&memory, 0, n_words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_sheet_is_the_words_of_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sheet");
        let words = make(&path, 4).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.write_all_at(&7u64.to_ne_bytes(), 16).unwrap();
        assert_eq!(words.load(2), 7);
        words.store(3, 9);
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 24).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), 9);
        assert!(make(&path, 4).is_err(), "it is there");
    }
}
