//! The hooks: the C library's waits by their names. Each says that the thread waits, calls what
//! stands behind it, and says that the thread runs.
//!
//! Where the member holds the program ([`waits::Page::is_in_turns`]), descriptors are waited for
//! without taking events, and looked at when the program is released: what a turn of an event loop
//! finds then is what lay there at that moment, in the kernel's order, that in which it came.
#![allow(unsafe_code)]
#![allow(missing_docs)]
#![allow(non_snake_case)]
#![allow(clippy::missing_safety_doc)]
#![allow(clippy::too_many_arguments)]

use crate::ffi::{self, FdSet, PollFd, TimeSpec};
use crate::{page, threads};
use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use waits::Wait;

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

impl Failed for isize {
    const FAILED: isize = -1;
}

impl Failed for () {
    const FAILED: () = ();
}

impl Failed for *mut c_void {
    const FAILED: *mut c_void = std::ptr::null_mut();
}

/// Defines the module `next`: the functions that stand behind this library.
macro_rules! next {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*) => {
        pub(crate) mod next {
            use super::*;
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
        }
    };
}

type Sigset = c_void;
type Cond = c_void;
type Mutex = c_void;
type Sem = c_void;
type Address = c_void;
type Event = c_void;

/// A time of `select`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TimeVal {
    seconds: i64,
    microseconds: i64,
}

next! {
    pthread_cond_wait(of: *mut Cond, mutex: *mut Mutex) -> c_int;
    pthread_cond_timedwait(of: *mut Cond, mutex: *mut Mutex, until: *const TimeSpec) -> c_int;
    pthread_cond_clockwait(
        of: *mut Cond, mutex: *mut Mutex, clock: c_int, until: *const TimeSpec) -> c_int;
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
    Others: pthread_cond_timedwait(
        of: *mut Cond, mutex: *mut Mutex, until: *const TimeSpec) -> c_int;
    Others: pthread_cond_clockwait(
        of: *mut Cond, mutex: *mut Mutex, clock: c_int, until: *const TimeSpec) -> c_int;
    Others: sem_wait(of: *mut Sem) -> c_int;
    Others: sem_timedwait(of: *mut Sem, until: *const TimeSpec) -> c_int;
    Others: sem_clockwait(of: *mut Sem, clock: c_int, until: *const TimeSpec) -> c_int;
    Time: nanosleep(span: *const TimeSpec, left: *mut TimeSpec) -> c_int;
    Time: clock_nanosleep(
        clock: c_int, flags: c_int, span: *const TimeSpec, left: *mut TimeSpec) -> c_int;
    Time: usleep(microseconds: c_uint) -> c_int;
    Time: sleep(seconds: c_uint) -> c_uint;
    Others: pause() -> c_int;
    Others: sigsuspend(mask: *const Sigset) -> c_int;
    Others: sigwait(set: *const Sigset, signal: *mut c_int) -> c_int;
    Others: sigwaitinfo(set: *const Sigset, info: *mut c_void) -> c_int;
    Others: sigtimedwait(
        set: *const Sigset, info: *mut c_void, span: *const TimeSpec) -> c_int;
    Others: pthread_join(thread: c_ulong, result: *mut *mut c_void) -> c_int;
    Descriptors: accept(fd: c_int, address: *mut Address, n: *mut c_uint) -> c_int;
    Descriptors: accept4(
        fd: c_int, address: *mut Address, n: *mut c_uint, flags: c_int) -> c_int;
}

/// Defines hooks that wait for processes; `is_reaped` says of a result whether one has ended.
macro_rules! reaps {
    ($is_reaped:expr; $($name:ident($($arg:ident: $kind:ty),*);)*) => {
        $(
            /// # Safety
            /// As of the function of this name.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C-unwind" fn $name($($arg: $kind),*) -> c_int {
                let slot = threads::enter(Wait::Others);
                // SAFETY: by the caller.
                let result = unsafe { next::$name($($arg),*) };
                threads::leave(slot);
                if $is_reaped(result) {
                    threads::reaped();
                }
                result
            }
        )*
    };
}

reaps! {
    |process: c_int| process > 0;
    wait(status: *mut c_int);
    waitpid(process: c_int, status: *mut c_int, flags: c_int);
    wait3(status: *mut c_int, flags: c_int, usage: *mut c_void);
    wait4(process: c_int, status: *mut c_int, flags: c_int, usage: *mut c_void);
}

reaps! {
    |failed: c_int| failed == 0;
    waitid(kind: c_int, id: c_uint, info: *mut c_void, flags: c_int);
}

/// Sleeps without a word about it.
pub(crate) fn stay_for(span: &TimeSpec) {
    // SAFETY: `span` is there, and what is left is not asked for.
    unsafe { next::nanosleep(span, std::ptr::null_mut()) };
}

static NO_TIME: TimeSpec = TimeSpec { seconds: 0, nanoseconds: 0 };

/// A span in nanoseconds; `None` for ever.
fn of_ms(ms: c_int) -> Option<i64> {
    (ms >= 0).then(|| i64::from(ms) * 1_000_000)
}

/// # Safety
/// `span` is null or points to a span.
unsafe fn of_span(span: *const TimeSpec) -> Option<i64> {
    // SAFETY: by the caller.
    let span = unsafe { span.as_ref() }?;
    Some(span.seconds.saturating_mul(1_000_000_000).saturating_add(span.nanoseconds))
}

/// Waits for descriptors: `wait` sleeps for the span that it is handed, and takes nothing where the
/// program is held in turns; `probe` takes what is there.
fn descriptors(
    span_ns: Option<i64>,
    direct: impl Fn() -> c_int,
    probe: impl Fn() -> c_int,
    wait: impl Fn(*const TimeSpec) -> c_int,
) -> c_int {
    let Some(page) = page::page().filter(|_| span_ns != Some(0)) else { return direct() };
    if !page.is_in_turns() {
        let slot = threads::enter(Wait::Descriptors);
        let result = direct();
        threads::leave(slot);
        return result;
    }
    let until_ns = span_ns.map(|span| threads::now_ns().saturating_add(span));
    loop {
        let found = probe();
        let left_ns = until_ns.map(|until| until - threads::now_ns());
        if found != 0 || left_ns.is_some_and(|left| left <= 0) {
            return found;
        }
        let span = left_ns.map(|left| TimeSpec {
            seconds: left / 1_000_000_000,
            nanoseconds: left % 1_000_000_000,
        });
        let slot = threads::enter(Wait::Descriptors);
        let result = wait(span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref));
        threads::leave(slot);
        if result < 0 {
            return result; // a signal
        }
    }
}

/// A wait for no descriptor is a sleep.
fn timed(direct: impl Fn() -> c_int) -> c_int {
    let slot = threads::enter(Wait::Time);
    let result = direct();
    threads::leave(slot);
    result
}

/// # Safety
/// As of `epoll_pwait`.
unsafe fn epoll(
    fd: c_int,
    (events, n_max): (*mut Event, c_int),
    span_ns: Option<i64>,
    mask: *const Sigset,
    direct: impl Fn() -> c_int,
) -> c_int {
    // SAFETY: by the caller.
    let probe = || unsafe { next::epoll_wait(fd, events, n_max, 0) };
    let wait = |span| {
        // An epoll descriptor is readable when it has events; they stay where they are.
        let mut readable = PollFd { fd, events: ffi::POLLIN, revents: 0 };
        // SAFETY: one descriptor, a span that is there or null, and the caller's mask.
        unsafe { next::ppoll(&raw mut readable, 1, span, mask) }
    };
    descriptors(span_ns, direct, probe, wait)
}

/// # Safety
/// As of `epoll_wait(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn epoll_wait(
    fd: c_int,
    events: *mut Event,
    n_max: c_int,
    ms: c_int,
) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::epoll_wait(fd, events, n_max, ms) };
    // SAFETY: by the caller.
    unsafe { epoll(fd, (events, n_max), of_ms(ms), std::ptr::null(), direct) }
}

/// # Safety
/// As of `epoll_pwait(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn epoll_pwait(
    fd: c_int,
    events: *mut Event,
    n_max: c_int,
    ms: c_int,
    mask: *const Sigset,
) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::epoll_pwait(fd, events, n_max, ms, mask) };
    // SAFETY: by the caller.
    unsafe { epoll(fd, (events, n_max), of_ms(ms), mask, direct) }
}

/// # Safety
/// As of `epoll_pwait2(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    fd: c_int,
    events: *mut Event,
    n_max: c_int,
    span: *const TimeSpec,
    mask: *const Sigset,
) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::epoll_pwait2(fd, events, n_max, span, mask) };
    // SAFETY: by the caller.
    let span_ns = unsafe { of_span(span) };
    // SAFETY: by the caller.
    unsafe { epoll(fd, (events, n_max), span_ns, mask, direct) }
}

/// # Safety
/// As of `poll(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn poll(fds: *mut PollFd, n: c_ulong, ms: c_int) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::poll(fds, n, ms) };
    if n == 0 {
        return timed(direct);
    }
    // SAFETY: by the caller.
    let probe = || unsafe { next::poll(fds, n, 0) };
    // SAFETY: by the caller; the span is there or null.
    let wait = |span| unsafe { next::ppoll(fds, n, span, std::ptr::null()) };
    descriptors(of_ms(ms), direct, probe, wait)
}

/// # Safety
/// As of `ppoll(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut PollFd,
    n: c_ulong,
    span: *const TimeSpec,
    mask: *const Sigset,
) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::ppoll(fds, n, span, mask) };
    if n == 0 {
        return timed(direct);
    }
    // SAFETY: by the caller.
    let probe = || unsafe { next::poll(fds, n, 0) };
    // SAFETY: by the caller; the span is there or null.
    let wait = |span| unsafe { next::ppoll(fds, n, span, mask) };
    // SAFETY: by the caller.
    descriptors(unsafe { of_span(span) }, direct, probe, wait)
}

/// # Safety
/// As of `poll(2)`, compiled with a check of the array's size.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut PollFd,
    n: c_ulong,
    ms: c_int,
    bytes: usize,
) -> c_int {
    if bytes / size_of::<PollFd>() < n as usize {
        // SAFETY: by the caller; it ends the program.
        return unsafe { next::__poll_chk(fds, n, ms, bytes) };
    }
    // SAFETY: by the caller.
    unsafe { poll(fds, n, ms) }
}

/// # Safety
/// As of `ppoll(2)`, compiled with a check of the array's size.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut PollFd,
    n: c_ulong,
    span: *const TimeSpec,
    mask: *const Sigset,
    bytes: usize,
) -> c_int {
    if bytes / size_of::<PollFd>() < n as usize {
        // SAFETY: by the caller; it ends the program.
        return unsafe { next::__ppoll_chk(fds, n, span, mask, bytes) };
    }
    // SAFETY: by the caller.
    unsafe { ppoll(fds, n, span, mask) }
}

/// The sets of a `select`, and their copies: each call changes them.
struct Sets {
    sets: [*mut FdSet; 3],
    copies: [FdSet; 3],
    n_words: usize,
}

impl Sets {
    /// # Safety
    /// Each set is null, or has room for `n` descriptors, at most 1024.
    unsafe fn copied(n: c_int, sets: [*mut FdSet; 3]) -> Sets {
        let n_words = (n as usize).div_ceil(64);
        let mut copies = [[0; 16]; 3];
        for (set, copy) in sets.iter().zip(&mut copies) {
            if !set.is_null() {
                // SAFETY: by the caller there are so many words, and 16 in the copy.
                unsafe { set.cast::<c_ulong>().copy_to(copy.as_mut_ptr(), n_words) };
            }
        }
        Sets { sets, copies, n_words }
    }

    fn restore(&self) {
        for (set, copy) in self.sets.iter().zip(&self.copies) {
            if !set.is_null() {
                // SAFETY: as in `copied`.
                unsafe { set.cast::<c_ulong>().copy_from(copy.as_ptr(), self.n_words) };
            }
        }
    }
}

/// # Safety
/// As of `pselect(2)`.
unsafe fn selected(
    n: c_int,
    sets: [*mut FdSet; 3],
    span_ns: Option<i64>,
    mask: *const Sigset,
    direct: impl Fn() -> c_int,
) -> c_int {
    if n == 0 {
        return timed(direct);
    }
    if !(0..=1024).contains(&n) {
        let slot = threads::enter(Wait::Descriptors);
        let result = direct();
        threads::leave(slot);
        return result;
    }
    let [reads, writes, others] = sets;
    // SAFETY: by the caller, and just checked.
    let copied = unsafe { Sets::copied(n, sets) };
    let again = |span, mask| {
        copied.restore();
        // SAFETY: by the caller; the span is there or null.
        unsafe { next::pselect(n, reads, writes, others, span, mask) }
    };
    let probe = || again(&raw const NO_TIME, std::ptr::null());
    descriptors(span_ns, direct, probe, |span| again(span, mask))
}

/// # Safety
/// As of `select(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn select(
    n: c_int,
    reads: *mut FdSet,
    writes: *mut FdSet,
    others: *mut FdSet,
    span: *mut TimeVal,
) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::select(n, reads, writes, others, span) };
    // SAFETY: by the caller it is null or points to a span.
    let span_ns = unsafe { span.as_ref() }.map(|span| {
        span.seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(span.microseconds.saturating_mul(1000))
    });
    // SAFETY: by the caller.
    unsafe { selected(n, [reads, writes, others], span_ns, std::ptr::null(), direct) }
}

/// # Safety
/// As of `pselect(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn pselect(
    n: c_int,
    reads: *mut FdSet,
    writes: *mut FdSet,
    others: *mut FdSet,
    span: *const TimeSpec,
    mask: *const Sigset,
) -> c_int {
    // SAFETY: by the caller.
    let direct = || unsafe { next::pselect(n, reads, writes, others, span, mask) };
    // SAFETY: by the caller.
    let span_ns = unsafe { of_span(span) };
    // SAFETY: by the caller.
    unsafe { selected(n, [reads, writes, others], span_ns, mask, direct) }
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

/// # Safety
/// As of `fork(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn fork() -> c_int {
    // SAFETY: by the caller.
    threads::fork(|| unsafe { next::fork() })
}
