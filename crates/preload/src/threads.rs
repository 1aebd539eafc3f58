//! Threads and their slots: of the first thread, of those that it starts, of forked children.
#![allow(unsafe_code)]

use crate::chance::{self, Stream};
use crate::{clocks, ffi, names, next, page, replaced};
use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use waits::{Slot, Wait};

/// No slot yet.
const NEW: u32 = u32::MAX;
/// The thread ends, or nothing is known of it.
const NONE: u32 = u32::MAX - 1;
/// There was none, which is counted (`waits`, W4).
const WITHOUT: u32 = u32::MAX - 2;

thread_local! {
    static SLOT: Cell<u32> = const { Cell::new(NEW) };
}

/// The key whose value makes the C library tell us about a thread's end.
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);
const NO_KEY: c_uint = c_uint::MAX;

/// How long a thread stays where it is held: a member that holds it for longer is stuck, or ends.
const HELD_NS_MAX: i64 = 1_000_000_000;
const YIELDS: u32 = 50;
const HELD_SLEEP: ffi::TimeSpec = ffi::TimeSpec { seconds: 0, nanoseconds: 20_000 };

/// The id of this process, once it is known.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Runs before the program does, and behind what its libraries do at their beginning.
extern "C" fn load() {
    page::begin();
    let Some(page) = page::page() else { return };
    let this = names::this();
    PROCESS.store(this.process, SeqCst);
    // Without `/proc` nothing is known of a thread: the member frees the slots of dead ones then.
    let is_known = names::is_alive(this);
    let own = page.loaded(this, |thread| is_known && !names::is_alive(thread));
    SLOT.set(own.map_or(WITHOUT, Slot::number));
    replaced::replace();
    // SAFETY: a function of that type. The library stays loaded.
    unsafe { ffi::__register_atfork(None, Some(has_forked), Some(forked), std::ptr::null_mut()) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

/// The slot of this thread; it gets one if it has none yet.
pub(crate) fn slot() -> Option<Slot> {
    let number = SLOT.try_with(Cell::get).unwrap_or(NONE);
    if number != NEW {
        return Slot::numbered(number);
    }
    let page = page::page()?;
    let errno = ffi::errno();
    let slot = page.claim(names::this());
    let _ = SLOT.try_with(|of| of.set(slot.map_or(WITHOUT, Slot::number)));
    if slot.is_none() {
        mark(); // the member knows nothing of this thread, and cannot see its end
    }
    ffi::set_errno(errno);
    slot
}

/// The id of this process. (A thread without a slot has one, too.)
pub(crate) fn process() -> u32 {
    match PROCESS.load(SeqCst) {
        0 => names::this().process,
        process => process,
    }
}

/// This process has waited for another one: what is left of that no longer runs (`waits`, W1).
pub(crate) fn reaped() {
    let Some(page) = page::page() else { return };
    let (errno, this) = (ffi::errno(), names::this());
    for (slot, thread, _) in page.threads() {
        if thread.process != this.process && page.is_running(slot) && !names::exists(thread.process)
        {
            page.bury(slot, thread);
        }
    }
    ffi::set_errno(errno);
}

/// A thread ends.
extern "C" fn ended(_: *mut c_void) {
    let number = SLOT.try_with(|slot| slot.replace(NONE)).unwrap_or(NONE);
    let Some(page) = page::page() else { return };
    match Slot::numbered(number) {
        Some(slot) => page.release(slot),
        None if number == WITHOUT => page.ended_without_slot(),
        None => {}
    }
}

/// This is the parent of a child: its next one draws something else.
extern "C" fn has_forked() {
    chance::with(Stream::start);
}

/// This is the child of a `fork`, in its only thread (P3).
extern "C" fn forked() {
    let _ = SLOT.try_with(|slot| slot.set(NEW));
    if let Some(stream) = chance::with(Stream::start) {
        chance::adopt(stream);
    }
    let errno = ffi::errno();
    PROCESS.store(names::this().process, SeqCst);
    if slot().is_some() {
        mark();
    }
    ffi::set_errno(errno);
}

/// The key; it is made at its first use, which a library may come to before [`load`].
fn key() -> c_uint {
    let known = KEY.load(SeqCst);
    if known != NO_KEY {
        return known;
    }
    let mut key = NO_KEY;
    // SAFETY: `key` is ours, and `ended` is a function of that type.
    if unsafe { ffi::pthread_key_create(&raw mut key, ended) } != 0 {
        return NO_KEY;
    }
    // Of two threads that make one at once, the key of the second is left unused.
    KEY.compare_exchange(NO_KEY, key, SeqCst, SeqCst).err().unwrap_or(key)
}

/// Asks for a call at this thread's end.
fn mark() {
    let key = key();
    if key != NO_KEY {
        // SAFETY: a key that was made.
        unsafe { ffi::pthread_setspecific(key, page::mark()) };
    }
}

/// This thread is about to wait. Returns what [`leave`] takes.
pub(crate) fn enter(wait: Wait) -> Option<Slot> {
    let slot = slot()?;
    clocks::rest();
    if page::page()?.enter(slot, wait) {
        page::tell();
    }
    Some(slot)
}

/// This thread is about to wait, until the log's time is `until` at the latest (`waits`, W6).
pub(crate) fn enter_until(wait: Wait, until: u64, word: u64) -> Option<Slot> {
    let (slot, page) = (slot()?, page::page()?);
    clocks::rest();
    let is_earliest = page.await_time(slot, until, word);
    if page.enter(slot, wait) || is_earliest {
        page::tell();
    }
    Some(slot)
}

/// Ends what [`enter_until`] began.
pub(crate) fn leave_until(slot: Option<Slot>) {
    leave(slot);
    if let (Some(page), Some(slot)) = (page::page(), slot) {
        page.await_no_time(slot);
    }
}

/// This thread waits no more. Where the program is held, it stays here until it is released.
pub(crate) fn leave(slot: Option<Slot>) {
    let (Some(page), Some(slot)) = (page::page(), slot) else { return };
    page.leave(slot);
    if page.is_held() {
        let errno = ffi::errno();
        stay(|| page.is_held(), || page.escaped());
        ffi::set_errno(errno);
    }
}

/// This thread has accepted a connection (`waits`, W9).
pub(crate) fn accepted() {
    if let Some(page) = page::page() {
        page.accepts();
    }
}

fn stay(is_held: impl Fn() -> bool, escape: impl Fn()) {
    let began = now_ns();
    let mut n = 0;
    while is_held() {
        if n < YIELDS {
            n += 1;
            // SAFETY: it takes nothing.
            unsafe { ffi::sched_yield() };
        } else {
            stay_for(&HELD_SLEEP);
        }
        if now_ns() - began > HELD_NS_MAX {
            return escape();
        }
    }
}

/// Sleeps without a word about it.
pub(crate) fn stay_for(span: &ffi::TimeSpec) {
    // SAFETY: `span` is there, and what is left is not asked for.
    unsafe { next::nanosleep(span, std::ptr::null_mut()) };
}

/// The kernel's monotonic clock.
pub(crate) fn now_ns() -> i64 {
    let mut now = ffi::TimeSpec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `now` is ours.
    unsafe { next::clock_gettime(ffi::CLOCK_MONOTONIC, &raw mut now) };
    now.seconds * 1_000_000_000 + now.nanoseconds
}

/// What a new thread runs.
struct Begun {
    start: ffi::Start,
    with: *mut c_void,
    /// What it draws.
    stream: Option<Stream>,
}

extern "C-unwind" fn begin(begun: *mut c_void) -> *mut c_void {
    let at: *mut Begun = begun.cast();
    // SAFETY: `created` has put it there, for this thread alone.
    let Begun { start, with, stream } = unsafe { at.read() };
    // SAFETY: from `malloc`, and not used again.
    unsafe { ffi::free(begun) };
    if let Some(stream) = stream {
        chance::adopt(stream);
    }
    if slot().is_some() {
        mark();
    }
    if let Some(page) = page::page() {
        page.has_begun();
    }
    start(with)
}

/// Starts a thread by `create`, which is handed what the thread runs.
pub(crate) fn created(
    start: ffi::Start,
    with: *mut c_void,
    create: impl Fn(ffi::Start, *mut c_void) -> c_int,
) -> c_int {
    let Some(page) = page::page() else { return create(start, with) };
    // SAFETY: a size alone.
    let begun: *mut Begun = unsafe { ffi::malloc(size_of::<Begun>()) }.cast();
    if begun.is_null() {
        return create(start, with); // W4: it gets a slot at its first wait
    }
    let stream = chance::with(Stream::start);
    // SAFETY: fresh memory of that size, and aligned for everything.
    unsafe { begun.write(Begun { start, with, stream }) };
    page.begins();
    let failed = create(begin, begun.cast());
    if failed != 0 {
        page.has_begun();
        // SAFETY: from `malloc`, and no thread has it.
        unsafe { ffi::free(begun.cast()) };
    }
    failed
}

/// Forks by `fork`: the child counts as one that begins until it has its slot.
pub(crate) fn fork(fork: impl Fn() -> c_int) -> c_int {
    let page = page::page();
    if let Some(page) = &page {
        page.begins();
    }
    let child = fork();
    if let (Some(page), true) = (&page, child <= 0) {
        page.has_begun(); // there is no child, or this is it, and has a slot
    }
    child
}
