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
    is_path(&[b"/proc/", &digits(process)])
}

/// Whether a thread is there.
pub(crate) fn is_alive(thread: Thread) -> bool {
    is_path(&[b"/proc/", &digits(thread.process), b"/task/", &digits(thread.id)])
}

/// A number in decimal digits, behind zeros that are no digits.
fn digits(number: u32) -> [u8; 10] {
    let mut digits = [0; 10];
    let mut left = number;
    for digit in digits.iter_mut().rev() {
        if left > 0 {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
    }
    digits
}

/// Whether the path of these parts is there. Zeros in it are left out.
fn is_path(parts: &[&[u8]]) -> bool {
    let mut path = [0; 40];
    let text = parts.iter().flat_map(|part| part.iter()).filter(|byte| **byte != 0);
    let (_, to) = path.split_last_mut().unwrap_or((&mut 0, &mut []));
    to.iter_mut().zip(text).for_each(|(to, byte)| *to = *byte);
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
        assert!(is_alive(Thread { process, id }) && !is_alive(Thread { process, id: u32::MAX }));
        assert!(!is_alive(Thread { process: u32::MAX, id }));
    }
}
