//! A deterministic world that breaks everything that is not promised.
#![forbid(unsafe_code)]
