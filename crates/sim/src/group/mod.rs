//! Groups with views under seeds: the machine of `proto::vsync` over the simulated memory and
//! network, an application that executes what it delivers, and an operator that starts processes,
//! lets members leave, and suspects some wrongly.
//!
//! The network, its faults and its clocks are those of the other worlds. A process that is no
//! longer in the group ends, and another one begins on its seat later; one that is stopped while
//! it is excluded still writes when it wakes.
//!
//! - I1 *Mild runs survive.* A run in which only minorities of fully installed views die keeps its
//!   group: judged in `phases`. In others a group may end, and says so at every process.
//! - I2 *Liveness.* When all is well again, either no process is in the group, or every running one
//!   is, in one view, with one state, and all that its members multicast is delivered. Judged in
//!   `phases`.
//!
//! What is promised at every moment has a file each in `checks`.

mod aims;
mod app;
mod bugs;
mod checks;
mod history;
mod operator;
mod phases;
mod process;
mod scenario;
mod storms;
mod sweeps;
mod world;

pub(crate) use bugs::Bug;
pub use sweeps::{mutants, replay, sweep};
pub(crate) use world::run;

/// The name on the command line, and in the lists of planted bugs.
pub const NAME: &str = "vsync";
/// The description, in a sentence.
pub const TEXT: &str =
    "Views and ordered multicast, while processes join, leave, die, stop and are excluded";
