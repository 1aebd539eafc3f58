//! Memory that another party writes, as atomic words; the only unsafe memory.
#![forbid(unsafe_code)]
