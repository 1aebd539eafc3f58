//! Printing for readers that may hang up, as `| head` does.
//!
//! A reader that closes the pipe has read enough: the command continues to its end, says nothing
//! more and keeps its exit code. Output that is lost for another reason (a full disk) ends the
//! command.

use clap::ValueEnum;
use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// [`print!`] for readers that may hang up.
#[macro_export]
macro_rules! out {
    ($($text:tt)*) => { $crate::put(format_args!($($text)*)) };
}

/// [`println!`] for readers that may hang up.
#[macro_export]
macro_rules! outln {
    ($($text:tt)*) => { $crate::put(format_args!("{}\n", format_args!($($text)*))) };
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs; its names are an interface.
    Json,
}

/// Prints; see [`out!`](crate::out).
pub fn put(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) else { return };
    if error.kind() != ErrorKind::BrokenPipe {
        let _ = writeln!(std::io::stderr(), "gregale: cannot write the output: {error}");
        std::process::exit(2);
    }
}
