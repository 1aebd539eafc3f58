//! The library that is loaded into a replicated program (`LD_PRELOAD`): it says in a page when each
//! thread waits, so that the member knows when the program is at rest (`waits`).
//!
//! `gregale` contains it, compiled for itself by `crates/gregale/build.rs`, and writes it into
//! the copy's place. A program finds the page by [`waits::PAGE`]. Without a page every call does
//! what the C library's does.
//!
//! - P1 no hook stands where data passes: reading and writing are the kernel's and the C library's.
//!   By construction: [`hooks`] has no function of theirs.
//! - P2 nothing here panics, allocates, or takes a lock. A call that has no slot, or no page, goes
//!   through. By construction: [`hooks`] are a few lines around the next library's function.
//! - P3 a thread's words are those of its own slot; a child of `fork` gets one of its own before it
//!   does anything.
//! - P4 `errno` is the called function's. By construction: a hook that calls others keeps it.
//! - P5 chance, if it is not the kernel's, is a stream that all copies share. By construction:
//!   [`drawing`] asks `chance` alone.
//! - P6 time, if it is not the kernel's, is the log's: each clock shows it, and each wait that ends
//!   by a time ends by that. By construction: [`clocks`], [`timed`] and [`descriptors`] ask the
//!   page.
//!
//! What is not seen: waits in system calls that a program makes past the C library, and in
//! functions that are not hooked (a blocking `read`). Such a thread is taken for one that runs.
#![deny(unsafe_code)]

mod chance;
pub mod clocks;
pub mod descriptors;
pub mod drawing;
pub mod ffi;
pub mod hooks;
mod names;
mod next;
mod page;
mod replaced;
mod threads;
pub mod timed;
