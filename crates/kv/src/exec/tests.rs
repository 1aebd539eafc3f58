//! Tests of the commands.
