//! A file system for tests: what was not synced is lost when the power fails.
//!
//! `kill -9` shows nothing about a disk: what a dead process wrote stands in the kernel's page
//! cache and is there when its successor looks. Here the kernel caches nothing; every file is held
//! twice, as processes see it and as it was last synced, and [`PowerCut::cut`] throws the first
//! away, or keeps an arbitrary part of it.
//!
//! It honours fsync, fdatasync and fsync of directories exactly, which is less than real file
//! systems give: none of them implies another (`image`, I1). It is not for production: everything
//! is in the memory of the process that mounted it.
#![forbid(unsafe_code)]

mod content;
mod image;
mod mount;

pub use image::{Lost, Manner};
pub use mount::{PowerCut, Unavailable};
