//! Threads and processes by the ids that the member knows them by.
#![allow(unsafe_code)]

use crate::ffi;
use waits::Thread;

/// This thread, by its ids where `/proc` was mounted: there the member looks. A program may have a
/// space of ids of its own.
pub(crate) fn this() -> Thread {
    // SAFETY: it takes nothing.
    let process = unsafe { ffi::getpid() } as u32;
    // SAFETY: it takes nothing.
    let id = unsafe { ffi::gettid() } as u32;
    let mut text = [0; 64];
    // SAFETY: a text that ends with a zero, and so many bytes of our own.
    let n = unsafe {
        ffi::readlink(c"/proc/thread-self".as_ptr(), text.as_mut_ptr().cast(), text.len())
    };
    let text = text.get(..n.max(0) as usize).unwrap_or_default();
    named(text).unwrap_or(Thread { process, id })
}

/// The thread of a text like `12/task/34`.
fn named(text: &[u8]) -> Option<Thread> {
    let (process, id) = std::str::from_utf8(text).ok()?.split_once("/task/")?;
    Some(Thread { process: process.parse().ok()?, id: id.parse().ok()? })
}

/// Whether a process is there, if only to be waited for.
pub(crate) fn exists(process: u32) -> bool {
    let mut path = *b"/proc/4294967295\0";
    let (mut at, mut left) = (path.len() - 1, process);
    while left > 0 {
        at -= 1;
        path[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let begin = b"/proc/";
    path.copy_within(at.., begin.len());
    // SAFETY: a text that ends with a zero.
    unsafe { ffi::access(path.as_ptr().cast(), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_ids_of_its_link() {
        assert_eq!(named(b"12/task/34"), Some(Thread { process: 12, id: 34 }));
        assert_eq!(named(b"12/task/"), None);
        let Thread { process, id } = this();
        assert!(std::path::Path::new(&format!("/proc/{process}/task/{id}")).exists());
        assert_eq!(process, std::process::id());
        assert!(exists(process) && exists(1) && !exists(u32::MAX));
    }
}
