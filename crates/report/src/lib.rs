//! Results as a table, JSON and a figure.
#![forbid(unsafe_code)]
