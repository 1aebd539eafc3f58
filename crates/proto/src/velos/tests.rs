//! Named traps.
