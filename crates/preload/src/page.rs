//! The page of this process: mapped once, at the first call that needs it, and shared by all
//! threads and forked children. (The program's libraries are begun before this one: they may draw,
//! and read clocks.) Notices about rest go from here to the member's socket.
#![allow(unsafe_code)]

use crate::ffi;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering::SeqCst};
use waits::{N_BYTES, N_WORDS, Page};

/// A descriptor of ours is at least so high: programs expect theirs from below.
const HIGH_FD: i32 = 700;

type Words = [AtomicU64; N_WORDS];

static WORDS: AtomicPtr<Words> = AtomicPtr::new(std::ptr::null_mut());
/// A thread maps the page: what it calls for that finds none.
static IS_MAPPING: AtomicBool = AtomicBool::new(false);
/// This library was begun: a page that was not there by then does not exist.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
static NOTICES: AtomicI32 = AtomicI32::new(-1);
/// The path of the socket for notices; it is written once, before [`WORDS`] is set.
static PATH: [AtomicU64; 14] = [const { AtomicU64::new(0) }; 14];

/// The pipes that end waits for descriptors: each with the name of its file.
static PIPES: [(AtomicI32, AtomicU64); 2] = [const { (AtomicI32::new(-1), AtomicU64::new(0)) }; 2];

/// The memory of a page, for as long as the process lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped(&'static Words);

impl waits::Memory for Mapped {
    fn load(&self, at: u32) -> u64 {
        self.0.load(at)
    }
    fn store(&self, at: u32, word: u64) {
        self.0.store(at, word);
    }
    fn swap(&self, at: u32, word: u64) -> u64 {
        self.0.swap(at, word)
    }
    fn cas(&self, at: u32, expected: u64, desired: u64) -> u64 {
        self.0.cas(at, expected, desired)
    }
    fn add(&self, at: u32, n: u64) -> u64 {
        self.0.add(at, n)
    }
}

/// The page, if there is one.
pub(crate) fn page() -> Option<Page<Mapped>> {
    let mut at = WORDS.load(SeqCst);
    if at.is_null() && !HAS_BEGUN.load(SeqCst) && !IS_MAPPING.swap(true, SeqCst) {
        let errno = ffi::errno();
        map();
        ffi::set_errno(errno);
        IS_MAPPING.store(false, SeqCst);
        at = WORDS.load(SeqCst);
    }
    // SAFETY: it is null, or was mapped by `map` with this size, and is never unmapped. All that
    // touch it do so by whole atomic words.
    let words = unsafe { at.as_ref() }?;
    Page::open(Mapped(words))
}

/// This library is begun.
pub(crate) fn begin() {
    page();
    HAS_BEGUN.store(true, SeqCst);
}

/// Maps the page that the environment names.
fn map() {
    // SAFETY: a text that ends with a zero.
    let path = unsafe { ffi::getenv(c"GREGALE_PAGE".as_ptr()) };
    if path.is_null() {
        return;
    }
    // SAFETY: the environment's text, which ends with a zero.
    let path = unsafe { CStr::from_ptr(path) };
    let bytes = path.to_bytes();
    if bytes.len() + waits::NOTICES.len() >= 108 {
        return;
    }
    // SAFETY: a text that ends with a zero.
    let fd = unsafe { ffi::open(path.as_ptr(), ffi::O_RDWR | ffi::O_CLOEXEC) };
    if fd < 0 {
        return;
    }
    // SAFETY: a null hint touches no memory of ours; the member makes the file of this size, and
    // only removes its name.
    let at = unsafe {
        let (protection, flags) = (ffi::PROT_READ_WRITE, ffi::MAP_SHARED);
        ffi::mmap(std::ptr::null_mut(), N_BYTES, protection, flags, fd, 0)
    };
    // SAFETY: opened above.
    unsafe { ffi::close(fd) };
    if at.addr() == usize::MAX {
        return;
    }
    let mut text = [0; 112];
    for (to, byte) in text.iter_mut().zip(bytes.iter().chain(waits::NOTICES.as_bytes())) {
        *to = *byte;
    }
    for (to, word) in PATH.iter().zip(text.as_chunks().0) {
        to.store(u64::from_ne_bytes(*word), SeqCst);
    }
    WORDS.store(at.cast(), SeqCst);
}

fn address() -> ffi::UnixAddress {
    let mut path = [0; 108];
    for (to, word) in path.chunks_mut(8).zip(&PATH) {
        let word = word.load(SeqCst).to_ne_bytes();
        to.copy_from_slice(&word[..to.len()]);
    }
    ffi::UnixAddress { family: ffi::AF_UNIX as u16, path }
}

/// The word at this place, for the kernel.
pub(crate) fn word(at: u32) -> Option<&'static AtomicU64> {
    let words = WORDS.load(SeqCst);
    // SAFETY: as in `page`.
    unsafe { words.as_ref() }?.get(at as usize)
}

/// A descriptor of the pipe that ends waits for descriptors now. A program may have closed it, and
/// have another file under its number.
pub(crate) fn pipe() -> Option<i32> {
    let which = page()?.pipe();
    let (fd, number) = (&PIPES[which].0, &PIPES[which].1);
    let mut stat = ffi::Stat { device: 0, number: 0, rest: [0; 30] };
    let found = fd.load(SeqCst);
    // SAFETY: `stat` is ours, and as large as the kernel's.
    if found >= 0 && unsafe { ffi::fstat(found, &raw mut stat) } == 0 {
        let file = stat.number ^ stat.device.rotate_left(32);
        if file == number.load(SeqCst) {
            return Some(found);
        }
    }
    let errno = ffi::errno();
    let opened = open_pipe(which, &mut stat);
    ffi::set_errno(errno);
    let opened = opened?;
    number.store(stat.number ^ stat.device.rotate_left(32), SeqCst);
    fd.store(opened, SeqCst);
    Some(opened)
}

fn open_pipe(which: usize, stat: &mut ffi::Stat) -> Option<i32> {
    let mut path = address().path;
    let end = path.iter().position(|byte| *byte == 0)?;
    path[end - 1] = waits::PIPES[which].as_bytes()[0];
    // SAFETY: a text that ends with a zero.
    let low = unsafe { ffi::open(path.as_ptr().cast(), ffi::O_NONBLOCK | ffi::O_CLOEXEC) };
    // SAFETY: numbers alone.
    let high = unsafe { ffi::fcntl(low, ffi::F_DUPFD_CLOEXEC, HIGH_FD) };
    if low >= 0 && high >= 0 {
        // SAFETY: opened above.
        unsafe { ffi::close(low) };
    }
    let fd = high.max(low);
    // SAFETY: `stat` is ours, and as large as the kernel's.
    (fd >= 0 && unsafe { ffi::fstat(fd, stat) } == 0).then_some(fd)
}

/// Tells the member to look. `errno` stays what it was.
///
/// The notice is empty and has an address. So if the program has closed the descriptor, and another
/// file has its number, nothing is written anywhere, and a new one is made.
pub(crate) fn tell() {
    let errno = ffi::errno();
    let address = address();
    for _ in 0..2 {
        let fd = NOTICES.load(SeqCst);
        // SAFETY: no bytes are read from, and the address is one of this size.
        let sent = unsafe {
            let n = size_of::<ffi::UnixAddress>() as u32;
            ffi::sendto(fd, std::ptr::null(), 0, ffi::MSG_DONTWAIT_NOSIGNAL, &raw const address, n)
        };
        const AGAIN: i32 = 11;
        if fd >= 0 && (sent == 0 || ffi::errno() == AGAIN) {
            break; // a full queue is a notice
        }
        NOTICES.store(socket(), SeqCst);
    }
    ffi::set_errno(errno);
}

fn socket() -> i32 {
    // SAFETY: numbers alone.
    let low = unsafe { ffi::socket(ffi::AF_UNIX, ffi::SOCK_DGRAM | ffi::SOCK_FLAGS, 0) };
    // SAFETY: numbers alone.
    let high = unsafe { ffi::fcntl(low, ffi::F_DUPFD_CLOEXEC, HIGH_FD) };
    if high < 0 {
        return low;
    }
    // SAFETY: opened above.
    unsafe { ffi::close(low) };
    high
}

/// The address of this page, for a key that only has to be other than null.
pub(crate) fn mark() -> *const c_void {
    WORDS.load(SeqCst).cast_const().cast()
}
