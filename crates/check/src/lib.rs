//! Recorded histories of client operations, and the judge of their linearizability.
//!
//! Promises: a [`History`] is what clients saw of a key-value service, and nothing else; [`judge`]
//! says whether some order of its operations, one after another, explains every answer and respects
//! real time. The simulator calls it in memory, `gregale check FILE` on a recorded file
//! ([`mod@file`] documents the format). `tools/porcupine` is a second, independent judge of the
//! same files.
//!
//! - [`history`]: what a client asked, when, and what it learnt; [`Recorder`] takes it down.
//! - [`model`]: what one command does to one key, in the plainest words that we could find.
//! - [`mod@file`]: a history as lines of JSON.
//! - [`verdict`]: the verdict, its budget, and the explanation of a violation.
//!
//! Never here: a clock, a socket, a thread, randomness. The budget of a judgement is counted in
//! steps and bytes, so a verdict replays.
#![forbid(unsafe_code)]

mod compile;
mod explain;
pub mod file;
pub mod history;
pub mod model;
mod partition;
mod search;
pub mod verdict;

pub use history::{Action, CallId, Command, End, Flaw, History, Op, Recorder, Reply};
pub use verdict::{Evidence, GaveUp, Limits, Verdict, Violation, judge};
