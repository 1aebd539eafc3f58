//! The functions of the C library that are called here, and their types. (No crate: the library is
//! compiled by one call of the compiler, from this folder and `waits`.)
#![allow(unsafe_code)]
#![allow(missing_docs)]

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::sync::atomic::AtomicU64;

pub type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PollFd {
    pub fd: c_int,
    pub events: i16,
    pub revents: i16,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TimeSpec {
    pub seconds: i64,
    pub nanoseconds: c_long,
}

/// A time of `select` and `gettimeofday`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TimeVal {
    pub seconds: i64,
    pub microseconds: c_long,
}

/// What `fstat` says: the device and the number of a file, and more.
#[derive(Debug)]
#[repr(C, align(8))]
pub struct Stat {
    pub device: u64,
    pub number: u64,
    pub rest: [u64; 30],
}

/// The address of a Unix socket.
#[derive(Debug)]
#[repr(C)]
pub struct UnixAddress {
    pub family: u16,
    pub path: [u8; 108],
}

pub const EINTR: c_int = 4;
pub const ETIMEDOUT: c_int = 110;
pub const POLLIN: i16 = 1;
pub const AF_UNIX: c_int = 1;
pub const SOCK_DGRAM: c_int = 2;
pub const SOCK_FLAGS: c_int = 0o2_004_000; // CLOEXEC, NONBLOCK
pub const O_RDWR: c_int = 2;
pub const O_NONBLOCK: c_int = 0o4000;
pub const O_CLOEXEC: c_int = 0o2_000_000;
pub const PROT_READ: c_int = 1;
pub const PROT_READ_WRITE: c_int = 3;
pub const PROT_EXEC: c_int = 4;
pub const MAP_SHARED: c_int = 1;
pub const F_DUPFD_CLOEXEC: c_int = 1030;
pub const MSG_DONTWAIT_NOSIGNAL: c_int = 0x4040;
pub const CLOCK_MONOTONIC: c_int = 1;
/// The handle for what the program finds.
pub const RTLD_DEFAULT: *mut c_void = std::ptr::null_mut();
/// The handle for what stands behind this library.
pub const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;

const RTLD_LAZY: c_int = 1;
const RTLD_NOLOAD: c_int = 4;

unsafe extern "C" {
    pub fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    pub fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    pub fn dlvsym(handle: *mut c_void, name: *const c_char, v: *const c_char) -> *mut c_void;
    pub fn getenv(name: *const c_char) -> *const c_char;
    pub fn strnlen(text: *const c_char, max: usize) -> usize;
    pub fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    pub fn close(fd: c_int) -> c_int;
    pub fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    pub fn mmap(
        at: *mut c_void,
        len: usize,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        from: i64,
    ) -> *mut c_void;
    pub fn mprotect(at: *mut c_void, len: usize, protection: c_int) -> c_int;
    pub fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
    pub fn sendto(
        fd: c_int,
        bytes: *const c_void,
        n: usize,
        flags: c_int,
        address: *const UnixAddress,
        n_address: c_uint,
    ) -> isize;
    pub fn access(path: *const c_char, how: c_int) -> c_int;
    pub fn readlink(path: *const c_char, into: *mut c_char, n: usize) -> isize;
    pub fn getpid() -> c_int;
    pub fn gettid() -> c_int;
    pub fn sched_yield() -> c_int;
    pub fn fstat(fd: c_int, into: *mut Stat) -> c_int;
    pub fn stat(path: *const c_char, into: *mut Stat) -> c_int;
    pub fn pthread_mutex_lock(mutex: *mut c_void) -> c_int;
    pub fn pthread_mutex_unlock(mutex: *mut c_void) -> c_int;
    pub fn syscall(number: c_long, ...) -> c_long;
    pub fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    pub fn pwrite(fd: c_int, bytes: *const c_void, n: usize, at: i64) -> isize;
    pub fn fdopen(fd: c_int, mode: *const c_char) -> *mut c_void;
    pub fn malloc(n: usize) -> *mut c_void;
    pub fn free(at: *mut c_void);
    pub fn pthread_key_create(key: *mut c_uint, end: extern "C" fn(*mut c_void)) -> c_int;
    pub fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
    pub fn __errno_location() -> *mut c_int;
    pub fn __register_atfork(
        before: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
        of: *mut c_void,
    ) -> c_int;
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// Ends this thread if it was cancelled: then nothing returns from here.
pub fn test_cancel() {
    // SAFETY: it takes nothing, and no caller here holds anything that has to be dropped.
    unsafe { pthread_testcancel() };
}

/// `errno`.
pub fn errno() -> c_int {
    // SAFETY: it takes nothing.
    let at = unsafe { __errno_location() };
    // SAFETY: the C library's own word of this thread.
    unsafe { *at }
}

/// Sets `errno`.
pub fn set_errno(to: c_int) {
    // SAFETY: it takes nothing.
    let at = unsafe { __errno_location() };
    // SAFETY: the C library's own word of this thread.
    unsafe { *at = to };
}

#[cfg(target_arch = "x86_64")]
const SYS_FUTEX: c_long = 202;
#[cfg(not(target_arch = "x86_64"))]
const SYS_FUTEX: c_long = 98;
const FUTEX_WAIT: c_int = 0;
const FUTEX_WAKE: c_int = 1;

/// Sleeps while the lower half of a word in shared memory is `while_is`, for so long at most. False
/// after a signal.
pub fn futex_wait(word: &AtomicU64, while_is: u32, span: &TimeSpec) -> bool {
    let span: *const TimeSpec = span;
    // SAFETY: a word that lives, which the kernel only compares, and a span.
    let n = unsafe { syscall(SYS_FUTEX, word.as_ptr(), FUTEX_WAIT, while_is, span) };
    n == 0 || errno() != EINTR
}

/// Wakes the thread that sleeps on a word.
pub fn futex_wake(word: &AtomicU64) {
    // SAFETY: an address alone.
    unsafe { syscall(SYS_FUTEX, word.as_ptr(), FUTEX_WAKE, 1) };
}

/// The function of this name behind this library. `pthread_cond_wait` and its like have two
/// versions on x86-64, and without one the older is found.
pub fn next(name: &'static std::ffi::CStr) -> *mut c_void {
    if name.to_bytes().starts_with(b"pthread_cond_") {
        // SAFETY: both are texts that end with a zero.
        let newer = unsafe { dlvsym(RTLD_NEXT, name.as_ptr(), c"GLIBC_2.3.2".as_ptr()) };
        if !newer.is_null() {
            return newer;
        }
    }
    // SAFETY: a text that ends with a zero.
    let next = unsafe { dlsym(RTLD_NEXT, name.as_ptr()) };
    if next.is_null() { in_library(name) } else { next }
}

/// The function of this name in a library that the program has loaded for a part of itself alone,
/// as Python does: such a library calls the hook, and does not stand behind it. It stays loaded.
fn in_library(name: &'static std::ffi::CStr) -> *mut c_void {
    let libraries = match name.to_bytes() {
        b"RAND_bytes" | b"RAND_priv_bytes" => [c"libcrypto.so.3", c"libcrypto.so.1.1"].as_slice(),
        b"gnutls_rnd" => [c"libgnutls.so.30"].as_slice(),
        _ => [].as_slice(),
    };
    let of = |library: &&std::ffi::CStr| {
        // SAFETY: a text that ends with a zero; nothing is loaded.
        let library = unsafe { dlopen(library.as_ptr(), RTLD_LAZY | RTLD_NOLOAD) };
        // SAFETY: as above, and the library is there.
        let at = (!library.is_null()).then(|| unsafe { dlsym(library, name.as_ptr()) });
        at.filter(|at| !at.is_null())
    };
    libraries.iter().find_map(of).unwrap_or(std::ptr::null_mut())
}

/// The words of a descriptor set.
pub type FdSet = [c_ulong; 16];
