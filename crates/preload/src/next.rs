//! The functions that stand behind this library: the C library's, as a rule. Each is found at its
//! first call.
#![allow(unsafe_code)]
#![allow(missing_docs)]
#![allow(non_snake_case)]
#![allow(clippy::too_many_arguments)]

use crate::ffi::{self, FdSet, PollFd, TimeSpec, TimeVal};
use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A function that stands behind this library: found at its first call.
struct Next {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl Next {
    const fn named(name: &'static CStr) -> Next {
        Next { name, at: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn find(&self) -> *mut c_void {
        let mut at = self.at.load(Relaxed);
        if at.is_null() {
            // Two threads find the same.
            at = ffi::next(self.name);
            self.at.store(at, Relaxed);
        }
        at
    }
}

const ENOSYS: c_int = 38;

/// What a call returns that cannot be made.
trait Failed {
    const FAILED: Self;
}

impl Failed for c_int {
    const FAILED: c_int = -1;
}

impl Failed for c_uint {
    const FAILED: c_uint = 0;
}

impl Failed for i64 {
    const FAILED: i64 = -1;
}

impl Failed for isize {
    const FAILED: isize = -1;
}

impl Failed for () {
    const FAILED: () = ();
}

impl Failed for *mut c_void {
    const FAILED: *mut c_void = std::ptr::null_mut();
}

/// Defines the functions that stand behind this library.
macro_rules! next {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(
            /// # Safety
            /// As of the function of this name.
            pub(crate) unsafe fn $name($($arg: $kind),*) -> $result {
                type Function = unsafe extern "C-unwind" fn($($kind),*) -> $result;
                const NAME: &CStr = match CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!(),
                };
                static NEXT: Next = Next::named(NAME);
                let at = NEXT.find();
                if at.is_null() {
                    ffi::set_errno(ENOSYS);
                    return Failed::FAILED;
                }
                // SAFETY: the function of this name has this type.
                let function = unsafe { std::mem::transmute::<*mut c_void, Function>(at) };
                // SAFETY: by the caller.
                unsafe { function($($arg),*) }
            }
        )*
    };
}

pub(crate) type Sigset = c_void;
pub(crate) type Cond = c_void;
pub(crate) type Mutex = c_void;
pub(crate) type Sem = c_void;
pub(crate) type Address = c_void;
pub(crate) type Event = c_void;

next! {
    pthread_cond_wait(of: *mut Cond, mutex: *mut Mutex) -> c_int;
    pthread_cond_timedwait(of: *mut Cond, mutex: *mut Mutex, until: *const TimeSpec) -> c_int;
    pthread_cond_clockwait(
        of: *mut Cond, mutex: *mut Mutex, clock: c_int, until: *const TimeSpec) -> c_int;
    pthread_cond_signal(of: *mut Cond) -> c_int;
    pthread_cond_broadcast(of: *mut Cond) -> c_int;
    clock_gettime(clock: c_int, into: *mut TimeSpec) -> c_int;
    gettimeofday(into: *mut TimeVal, zone: *mut c_void) -> c_int;
    time(into: *mut i64) -> i64;
    timespec_get(into: *mut TimeSpec, base: c_int) -> c_int;
    sem_trywait(of: *mut Sem) -> c_int;
    sem_wait(of: *mut Sem) -> c_int;
    sem_timedwait(of: *mut Sem, until: *const TimeSpec) -> c_int;
    sem_clockwait(of: *mut Sem, clock: c_int, until: *const TimeSpec) -> c_int;
    nanosleep(span: *const TimeSpec, left: *mut TimeSpec) -> c_int;
    clock_nanosleep(
        clock: c_int, flags: c_int, span: *const TimeSpec, left: *mut TimeSpec) -> c_int;
    usleep(microseconds: c_uint) -> c_int;
    sleep(seconds: c_uint) -> c_uint;
    pause() -> c_int;
    sigsuspend(mask: *const Sigset) -> c_int;
    sigwait(set: *const Sigset, signal: *mut c_int) -> c_int;
    sigwaitinfo(set: *const Sigset, info: *mut c_void) -> c_int;
    sigtimedwait(set: *const Sigset, info: *mut c_void, span: *const TimeSpec) -> c_int;
    pthread_join(thread: c_ulong, result: *mut *mut c_void) -> c_int;
    wait(status: *mut c_int) -> c_int;
    waitpid(process: c_int, status: *mut c_int, flags: c_int) -> c_int;
    wait3(status: *mut c_int, flags: c_int, usage: *mut c_void) -> c_int;
    wait4(process: c_int, status: *mut c_int, flags: c_int, usage: *mut c_void) -> c_int;
    waitid(kind: c_int, id: c_uint, info: *mut c_void, flags: c_int) -> c_int;
    accept(fd: c_int, address: *mut Address, n: *mut c_uint) -> c_int;
    accept4(fd: c_int, address: *mut Address, n: *mut c_uint, flags: c_int) -> c_int;
    epoll_wait(fd: c_int, events: *mut Event, n_max: c_int, ms: c_int) -> c_int;
    epoll_pwait(
        fd: c_int, events: *mut Event, n_max: c_int, ms: c_int, mask: *const Sigset) -> c_int;
    epoll_pwait2(
        fd: c_int, events: *mut Event, n_max: c_int, span: *const TimeSpec, mask: *const Sigset
    ) -> c_int;
    poll(fds: *mut PollFd, n: c_ulong, ms: c_int) -> c_int;
    ppoll(fds: *mut PollFd, n: c_ulong, span: *const TimeSpec, mask: *const Sigset) -> c_int;
    __poll_chk(fds: *mut PollFd, n: c_ulong, ms: c_int, bytes: usize) -> c_int;
    __ppoll_chk(
        fds: *mut PollFd, n: c_ulong, span: *const TimeSpec, mask: *const Sigset, bytes: usize
    ) -> c_int;
    select(
        n: c_int, reads: *mut FdSet, writes: *mut FdSet, others: *mut FdSet, span: *mut TimeVal
    ) -> c_int;
    pselect(
        n: c_int, reads: *mut FdSet, writes: *mut FdSet, others: *mut FdSet,
        span: *const TimeSpec, mask: *const Sigset) -> c_int;
    pthread_create(
        thread: *mut c_ulong, attributes: *const c_void, start: ffi::Start, with: *mut c_void
    ) -> c_int;
    pthread_cancel(thread: c_ulong) -> c_int;
    thrd_create(thread: *mut c_ulong, start: ffi::Start, with: *mut c_void) -> c_int;
    thrd_join(thread: c_ulong, result: *mut c_int) -> c_int;
    thrd_sleep(span: *const TimeSpec, left: *mut TimeSpec) -> c_int;
    cnd_wait(of: *mut Cond, mutex: *mut Mutex) -> c_int;
    cnd_timedwait(of: *mut Cond, mutex: *mut Mutex, until: *const TimeSpec) -> c_int;
    cnd_signal(of: *mut Cond) -> c_int;
    cnd_broadcast(of: *mut Cond) -> c_int;
    fork() -> c_int;
    getrandom(into: *mut c_void, n: usize, flags: c_uint) -> isize;
    getentropy(into: *mut c_void, n: usize) -> c_int;
    arc4random() -> c_uint;
    arc4random_uniform(bound: c_uint) -> c_uint;
    arc4random_buf(into: *mut c_void, n: usize) -> ();
    RAND_bytes(into: *mut u8, n: c_int) -> c_int;
    RAND_priv_bytes(into: *mut u8, n: c_int) -> c_int;
    gnutls_rnd(level: c_int, into: *mut c_void, n: usize) -> c_int;
    srand(seed: c_uint) -> ();
    srandom(seed: c_uint) -> ();
    srand48(seed: c_long) -> ();
    open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    __open_2(path: *const c_char, flags: c_int) -> c_int;
    __open64_2(path: *const c_char, flags: c_int) -> c_int;
    openat(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    openat64(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    fopen(path: *const c_char, mode: *const c_char) -> *mut c_void;
    fopen64(path: *const c_char, mode: *const c_char) -> *mut c_void;
}
