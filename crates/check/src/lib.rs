//! Recorded histories of client operations, and the judge of their linearizability.
#![forbid(unsafe_code)]
