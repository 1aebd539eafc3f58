//! Bounded exhaustive exploration of protocols in small worlds.
#![forbid(unsafe_code)]
