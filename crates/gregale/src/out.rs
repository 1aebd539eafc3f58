//! Printing for readers that may hang up, as `| head` does.
//!
//! Whoever closes the pipe has read enough: the command goes on to its end, says nothing more and
//! keeps its exit code. Output that is lost for another reason (a full disk) ends the command.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// [`print!`] for [`self`].
macro_rules! out {
    ($($text:tt)*) => { $crate::out::put(format_args!($($text)*)) };
}

/// [`println!`] for [`self`].
macro_rules! outln {
    ($($text:tt)*) => { $crate::out::put(format_args!("{}\n", format_args!($($text)*))) };
}

pub(crate) fn put(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) else { return };
    if error.kind() != ErrorKind::BrokenPipe {
        eprintln!("gregale: cannot write the output: {error}");
        std::process::exit(2);
    }
}
