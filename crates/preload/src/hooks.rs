//! The hooks: the C library's waits by their names. Each says that the thread waits, calls what
//! stands behind it, and says that the thread runs.
//! Those for descriptors are in [`crate::descriptors`], those that end by a time in
//! [`crate::timed`].
#![allow(unsafe_code)]
#![allow(missing_docs)]
#![allow(non_snake_case)]
#![allow(clippy::missing_safety_doc)]

use crate::ffi::{self, TimeSpec};
use crate::next::{self, Address, Cond, Mutex, Sem, Sigset};
use crate::threads;
use std::ffi::{c_int, c_uint, c_ulong, c_void};
use waits::Wait;

/// Defines hooks that wait for `$wait` by the next function alone.
macro_rules! waits {
    ($($wait:ident: $name:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(
            /// # Safety
            /// As of the function of this name.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C-unwind" fn $name($($arg: $kind),*) -> $result {
                let slot = threads::enter(Wait::$wait);
                // SAFETY: by the caller.
                let result = unsafe { next::$name($($arg),*) };
                threads::leave(slot);
                result
            }
        )*
    };
}

waits! {
    Others: pthread_cond_wait(of: *mut Cond, mutex: *mut Mutex) -> c_int;
    Others: sem_wait(of: *mut Sem) -> c_int;
    Others: pause() -> c_int;
    Others: sigsuspend(mask: *const Sigset) -> c_int;
    Others: sigwait(set: *const Sigset, signal: *mut c_int) -> c_int;
    Others: sigwaitinfo(set: *const Sigset, info: *mut c_void) -> c_int;
    Others: sigtimedwait(
        set: *const Sigset, info: *mut c_void, span: *const TimeSpec) -> c_int;
    Others: pthread_join(thread: c_ulong, result: *mut *mut c_void) -> c_int;
    Others: cnd_wait(of: *mut Cond, mutex: *mut Mutex) -> c_int;
    Others: thrd_join(thread: c_ulong, result: *mut c_int) -> c_int;
}

/// Defines hooks that wait for `$wait`, and call `$then` if that `$has` brought what it was for.
macro_rules! waits_then {
    ($wait:ident, $has:expr, $then:expr; $($name:ident($($arg:ident: $kind:ty),*);)*) => {
        $(
            /// # Safety
            /// As of the function of this name.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C-unwind" fn $name($($arg: $kind),*) -> c_int {
                let slot = threads::enter(Wait::$wait);
                // SAFETY: by the caller.
                let result = unsafe { next::$name($($arg),*) };
                threads::leave(slot);
                if $has(result) {
                    $then();
                }
                result
            }
        )*
    };
}

waits_then! {
    Descriptors, |fd: c_int| fd >= 0, threads::accepted;
    accept(fd: c_int, address: *mut Address, n: *mut c_uint);
    accept4(fd: c_int, address: *mut Address, n: *mut c_uint, flags: c_int);
}

waits_then! {
    Others, |process: c_int| process > 0, threads::reaped;
    wait(status: *mut c_int);
    waitpid(process: c_int, status: *mut c_int, flags: c_int);
    wait3(status: *mut c_int, flags: c_int, usage: *mut c_void);
    wait4(process: c_int, status: *mut c_int, flags: c_int, usage: *mut c_void);
}

waits_then! {
    Others, |failed: c_int| failed == 0, threads::reaped;
    waitid(kind: c_int, id: c_uint, info: *mut c_void, flags: c_int);
}

/// # Safety
/// As of `pthread_create(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn pthread_create(
    thread: *mut c_ulong,
    attributes: *const c_void,
    start: ffi::Start,
    with: *mut c_void,
) -> c_int {
    threads::created(start, with, |start, with| {
        // SAFETY: by the caller; `created` hands on what the caller's thread runs.
        unsafe { next::pthread_create(thread, attributes, start, with) }
    })
}

/// C11's name for it: what the thread runs returns a number, and it is the C library's matter which
/// half of the register that is.
///
/// # Safety
/// As of `thrd_create(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn thrd_create(
    thread: *mut c_ulong,
    start: ffi::Start,
    with: *mut c_void,
) -> c_int {
    threads::created(start, with, |start, with| {
        // SAFETY: by the caller; `created` hands on what the caller's thread runs.
        unsafe { next::thrd_create(thread, start, with) }
    })
}

/// # Safety
/// As of `fork(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn fork() -> c_int {
    // SAFETY: by the caller.
    threads::fork(|| unsafe { next::fork() })
}

/// A child of `vfork` runs in its parent's memory, where it can have no slot of its own. So this is
/// `fork`, which POSIX allows: the parent does not wait until the child has begun another program,
/// and sees nothing that the child has stored before (as some do with the error of an `exec`).
///
/// # Safety
/// As of `vfork(2)`, which allows a child less than `fork` does.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn vfork() -> c_int {
    // SAFETY: by the caller.
    unsafe { fork() }
}
