//! Memory that another party writes, as atomic words; the only unsafe memory.
//!
//! A [`Region`] is a named file on tmpfs that its owner creates once and that outlives the owner's
//! process: a process that attaches the same region again in the same boot has lost nothing that it
//! contains. Peers map it and act on its words without the owner's help. `region` promises the
//! content of a word and the ownership of a file; it contains no parsing of payloads, no protocol
//! and no policy (the `fabric` crate has those).
//!
//! # Invariants
//! - I1 **Words only.** Apart from the pthread mutexes of [`robust`], a region is only ever touched
//!   through [`Words`]: aligned, 8 bytes wide, atomic. No `&[u8]`, `&mut` or plain `&u64` ever
//!   points into it. By construction: the pointer is private to [`Words`]. Long runs are copied 16
//!   bytes at a time (`bulk`), which tears no word.
//! - I2 **In bounds.** Every access is checked against the words that the view has; being outside
//!   is our own bug and panics. Asserted.
//! - I3 **Whole or absent.** A file gets its name only when memory, header and mutexes are
//!   complete, and a creation that fails (a full tmpfs, too) leaves nothing behind. By
//!   construction: it is unnamed (`O_TMPFILE`) and allocated before that.
//! - I4 **One owner.** At most one process owns a region at a time: an [`Owner`] holds a lock of
//!   the open file description, which the kernel drops with the process.
//! - I5 **Lives are ordered.** Each owner's [`Owner::life`] is above those of all earlier owners of
//!   this node's memory in this boot, also across a replacement of the file: it is the monotonic
//!   clock's reading when it began, and above the last one that stands in the region.
//! - I6 **No process attaches to another's region.** Magic, versions, cluster, node, layout and
//!   boot are compared before the first word is touched, and an error names the field that differs.
//! - I7 **A life is announced under its lock** (see [`robust`]).
//!
//! # Orderings (the basis of `fabric`'s promises T1..T6)
//!
//! | operation | ordering | what follows |
//! | --- | --- | --- |
//! | [`Words::load`] | Acquire | sees all that its writer did before the word's store |
//! | [`Words::store`] | Release | publishes everything before it |
//! | [`Words::write_words`] | Release fence, Relaxed stores | each publishes what was before (T3) |
//! | [`Words::write_bytes`] | the same | the same |
//! | [`Words::load_into`] | Relaxed loads, Acquire fence | what comes after is not older (T3) |
//! | [`Words::cas`], [`Words::fetch_add`], [`Words::swap`] | AcqRel | both of the above |
//!
//! The words of one `write_words` or `load_into` have no order among themselves (T3).
//! A store followed by a load of another word is *not* ordered by any of these; code that needs
//! that order puts a SeqCst fence between them (fabric: a READ behind a WRITE; the sleep flag).
#![deny(unsafe_code)]

mod boot;
mod bulk;
pub mod clock;
mod error;
mod file;
mod header;
pub mod layout;
mod memory;
pub mod robust;
pub mod schedule;
pub mod sheet;
mod words;

pub use error::Error;
pub use file::{Owner, Region, sweep};
pub use header::Identity;
pub use layout::Shape;
pub use words::Words;
