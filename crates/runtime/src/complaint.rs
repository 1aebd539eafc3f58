//! Complaints: what a process says that continues.

use std::fmt::Arguments;
use std::io::Write;

/// Says a line on standard error, which may be closed (`2>&1 | head`, a log's reader that died):
/// the process continues. (`eprintln!` would end it.)
pub fn complain(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "gregale: {line}");
}
