//! The poll loop: feeds events to a protocol, performs its effects, waits.
#![forbid(unsafe_code)]
