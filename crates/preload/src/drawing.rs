//! The hooks of what programs draw by (`chance`). Without a seed each is the C library's.
//!
//! The devices are files of a memory, each with the next bytes of the stream.
#![allow(unsafe_code)]
#![allow(missing_docs)]
#![allow(non_snake_case)]
#![allow(clippy::missing_safety_doc)]

use crate::chance;
use crate::ffi;
use crate::next;
use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};

/// The bytes of a device that is opened: a program that reads more finds its end.
const DEVICE_BYTES: usize = 64 << 10;
const EIO: c_int = 5;
/// The most bytes of one `getentropy`.
const ENTROPY_BYTES_MAX: usize = 256;

/// # Safety
/// `n` bytes from `into` on may be written.
unsafe fn fill(into: *mut c_void, n: usize) -> bool {
    if n == 0 {
        return chance::with(|_| ()).is_some();
    }
    if into.is_null() {
        return false;
    }
    chance::with(|stream| {
        // SAFETY: by the caller.
        let bytes = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), n) };
        stream.fill(bytes);
    })
    .is_some()
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn getrandom(into: *mut c_void, n: usize, flags: c_uint) -> isize {
    // SAFETY: by the caller.
    if unsafe { fill(into, n) } {
        return n as isize;
    }
    // SAFETY: by the caller.
    unsafe { next::getrandom(into, n, flags) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn getentropy(into: *mut c_void, n: usize) -> c_int {
    if n > ENTROPY_BYTES_MAX {
        ffi::set_errno(EIO);
        return -1;
    }
    // SAFETY: by the caller.
    if unsafe { fill(into, n) } {
        return 0;
    }
    // SAFETY: by the caller.
    unsafe { next::getentropy(into, n) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn arc4random() -> c_uint {
    let mut word = [0; 4];
    match chance::with(|stream| stream.fill(&mut word)) {
        Some(()) => c_uint::from_le_bytes(word),
        // SAFETY: it takes nothing.
        None => unsafe { next::arc4random() },
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn arc4random_uniform(bound: c_uint) -> c_uint {
    match chance::with(|stream| stream.below(bound)) {
        Some(number) => number,
        // SAFETY: a number alone.
        None => unsafe { next::arc4random_uniform(bound) },
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn arc4random_buf(into: *mut c_void, n: usize) {
    // SAFETY: by the caller.
    if !unsafe { fill(into, n) } {
        // SAFETY: by the caller.
        unsafe { next::arc4random_buf(into, n) };
    }
}

/// OpenSSL mixes the processor's clock into what it draws: its own calls are answered here.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn RAND_bytes(into: *mut u8, n: c_int) -> c_int {
    // SAFETY: by the caller.
    if n >= 0 && unsafe { fill(into.cast(), n as usize) } {
        return 1;
    }
    // SAFETY: by the caller.
    unsafe { next::RAND_bytes(into, n) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn RAND_priv_bytes(into: *mut u8, n: c_int) -> c_int {
    // SAFETY: by the caller.
    if n >= 0 && unsafe { fill(into.cast(), n as usize) } {
        return 1;
    }
    // SAFETY: by the caller.
    unsafe { next::RAND_priv_bytes(into, n) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn gnutls_rnd(level: c_int, into: *mut c_void, n: usize) -> c_int {
    // SAFETY: by the caller.
    if unsafe { fill(into, n) } {
        return 0;
    }
    // SAFETY: by the caller.
    unsafe { next::gnutls_rnd(level, into, n) }
}

/// A program seeds these by the time and its id.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn srand(seed: c_uint) {
    // SAFETY: a number alone.
    unsafe { next::srand(drawn_seed().unwrap_or(seed.into()) as c_uint) };
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn srandom(seed: c_uint) {
    // SAFETY: a number alone.
    unsafe { next::srandom(drawn_seed().unwrap_or(seed.into()) as c_uint) };
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn srand48(seed: c_long) {
    // SAFETY: a number alone.
    unsafe { next::srand48(drawn_seed().unwrap_or(seed as u64) as c_long) };
}

fn drawn_seed() -> Option<u64> {
    let mut word = [0; 8];
    chance::with(|stream| stream.fill(&mut word))?;
    Some(u64::from_le_bytes(word))
}

/// A descriptor of the stream, if `path` is a device of chance and chance is ours.
///
/// # Safety
/// `path` is null or a text that ends with a zero.
unsafe fn device(path: *const c_char) -> Option<c_int> {
    if path.is_null() {
        return None;
    }
    // SAFETY: by the caller.
    let path = unsafe { CStr::from_ptr(path) };
    if path != c"/dev/urandom" && path != c"/dev/random" {
        return None;
    }
    let mut stream = chance::with(|stream| stream.start())?;
    const CLOEXEC: c_uint = 1;
    // SAFETY: a text that ends with a zero.
    let fd = unsafe { ffi::memfd_create(c"chance".as_ptr(), CLOEXEC) };
    let mut bytes = [0; 4096];
    for at in (0..DEVICE_BYTES).step_by(bytes.len()) {
        stream.fill(&mut bytes);
        // SAFETY: so many bytes are there.
        unsafe { ffi::pwrite(fd, bytes.as_ptr().cast(), bytes.len(), at as i64) };
    }
    (fd >= 0).then_some(fd)
}

/// Defines hooks of functions that open a file and return a descriptor. (`mode` stands where the
/// variable arguments of a call are, on the processors that we know.)
macro_rules! opens {
    ($($name:ident($path:ident; $($arg:ident: $kind:ty),*);)*) => {
        $(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C-unwind" fn $name($($arg: $kind),*) -> c_int {
                // SAFETY: by the caller.
                if let Some(fd) = unsafe { device($path) } {
                    return fd;
                }
                // SAFETY: by the caller.
                unsafe { next::$name($($arg),*) }
            }
        )*
    };
}

opens! {
    open(path; path: *const c_char, flags: c_int, mode: c_uint);
    open64(path; path: *const c_char, flags: c_int, mode: c_uint);
    __open_2(path; path: *const c_char, flags: c_int);
    __open64_2(path; path: *const c_char, flags: c_int);
    openat(path; at: c_int, path: *const c_char, flags: c_int, mode: c_uint);
    openat64(path; at: c_int, path: *const c_char, flags: c_int, mode: c_uint);
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn fopen(path: *const c_char, mode: *const c_char) -> *mut c_void {
    // SAFETY: by the caller.
    match unsafe { device(path) } {
        // SAFETY: a descriptor that was just opened.
        Some(fd) => unsafe { ffi::fdopen(fd, mode) },
        // SAFETY: by the caller.
        None => unsafe { next::fopen(path, mode) },
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut c_void {
    // SAFETY: by the caller.
    match unsafe { device(path) } {
        // SAFETY: a descriptor that was just opened.
        Some(fd) => unsafe { ffi::fdopen(fd, mode) },
        // SAFETY: by the caller.
        None => unsafe { next::fopen64(path, mode) },
    }
}
