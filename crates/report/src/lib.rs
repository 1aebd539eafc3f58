//! Results of benchmarks and sweeps: one value, printed as a table, as JSON and as a figure.
//!
//! Promises: the JSON's shape and the names of its fields are an interface to which things are only
//! added; the table and the figure show nothing that the JSON does not hold. Figures are drawn
//! without a window system, a font file or a network.
//!
//! - [`Report`], [`Row`], [`Machine`]: what was measured, where.
//! - [`Latency`], [`median`], [`median_rows`]: many samples and many runs into few numbers.
//! - [`table`](Report::table): columns with units that people read.
//! - [`figure`]: lines, bars, percentiles and timelines as SVG.
//! - [`floor`]: what this machine can do at best, measured beside every result.
//! - [`Progress`]: a progress line on a terminal.
//!
//! Never here: what is measured, and judgements about it.
#![forbid(unsafe_code)]

pub mod figure;
pub mod floor;
mod machine;
mod progress;
mod rows;
mod samples;
mod table;

pub use machine::Machine;
pub use progress::Progress;
pub use rows::{Report, ReportError, Row, Value};
pub use samples::{Latency, median, median_rows};
pub use table::DISTRIBUTION;
