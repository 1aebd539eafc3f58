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

mod accord;
mod aims;
mod app;
mod bugs;
mod checks;
mod date;
mod ground;
mod history;
mod life;
mod objects;
mod operator;
mod owed;
mod phases;
mod power;
mod process;
mod reader;
mod reads;
mod scenario;
pub mod shapes;
mod storms;
mod sweeps;
mod world;

use crate::coverage::Mark;
pub(crate) use bugs::Bug;
pub use sweeps::{mutant_named, mutants, replay, sweep};
pub(crate) use world::run;

/// The kind of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In memory.
    Memory,
    /// On disks: all its processes may die at once, by a loss of power too.
    Durable,
    /// In memory, with replicated objects that are called in every way.
    Objects,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 3] = [Kind::Memory, Kind::Durable, Kind::Objects];

    /// The name on the command line, and in the lists of planted bugs.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Memory => "vsync",
            Kind::Durable => "vsync-durable",
            Kind::Objects => "vsync-objects",
        }
    }

    /// Whether a sweep can reach a case.
    pub const fn can_reach(self, mark: Mark) -> bool {
        match self {
            Kind::Memory => !mark.is_of_durable_groups() && !mark.is_of_objects(),
            // Its messages have an order, are short, and have no names that could be looked for.
            Kind::Objects => {
                !mark.is_of_durable_groups()
                    && !matches!(
                        mark,
                        Mark::UnorderedSurvived
                            | Mark::MixedSurvived
                            | Mark::LookedAhead
                            | Mark::MessageLanded
                            | Mark::MessagePacked
                            | Mark::ParcelLost
                            | Mark::BlockRelayed
                            | Mark::BlockSentAgain
                            | Mark::RelayDied
                    )
            }
            // It has an order, and comes back. A shard that begins again has no member that lives.
            Kind::Durable => {
                !mark.is_of_objects()
                    && !matches!(
                        mark,
                        Mark::UnorderedSurvived | Mark::GroupEnded | Mark::ShardBegunAnew
                    )
            }
        }
    }

    /// The description, in a sentence.
    pub const fn text(self) -> &'static str {
        match self {
            Kind::Memory => {
                "Views and ordered multicast, while processes join, leave, die, stop and are \
                 excluded"
            }
            Kind::Durable => {
                "The same on disks, while power fails and whole groups die and come back"
            }
            Kind::Objects => {
                "The same in memory, with replicated objects that are called in every way"
            }
        }
    }
}
