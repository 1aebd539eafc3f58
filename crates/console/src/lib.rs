//! What every command shares: how it prints, and how it ends.
//!
//! Exit codes: 0 done, 1 a negative answer (a check that failed), 2 refused: the input or the
//! machine does not allow it, and one line on standard error names the cause and the mend.
#![forbid(unsafe_code)]
#![warn(clippy::print_stderr)]

mod beside;
mod failure;
mod out;

pub use beside::beside;
pub use failure::{Failure, Outcome, ended};
pub use out::{Format, put};
