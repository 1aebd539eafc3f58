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
//!   is, in one view, with one state, and all that its members multicast is delivered. Calls of
//!   objects have their outcomes, but for letters that may be lost; a query as of a time has until
//!   the slowest clock shows that. Judged in `phases`.
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
mod hosts;
mod life;
mod objects;
mod operator;
mod owed;
mod phases;
mod power;
mod process;
pub mod rack;
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
    /// The same on disks.
    DurableObjects,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 4] = [Kind::Memory, Kind::Durable, Kind::Objects, Kind::DurableObjects];

    /// The name on the command line, and in the lists of planted bugs.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Memory => "vsync",
            Kind::Durable => "vsync-durable",
            Kind::Objects => "vsync-objects",
            Kind::DurableObjects => "vsync-objects-durable",
        }
    }

    /// Whether what its processes deliver is on disks.
    pub(crate) const fn is_durable(self) -> bool {
        matches!(self, Kind::Durable | Kind::DurableObjects)
    }

    /// Whether its processes have replicated objects.
    pub(crate) const fn has_objects(self) -> bool {
        matches!(self, Kind::Objects | Kind::DurableObjects)
    }

    /// Whether a sweep can reach a case.
    pub const fn can_reach(self, mark: Mark) -> bool {
        let is_of_kind = (self.is_durable() || !mark.is_of_durable_groups())
            && (self.has_objects() || !mark.is_of_objects());
        // A durable group has an order, and comes back. A shard that begins again has no member
        // that lives.
        let is_undone = self.is_durable()
            && matches!(mark, Mark::UnorderedSurvived | Mark::GroupEnded | Mark::ShardBegunAnew);
        // Messages of objects have an order, are short, and have no names that could be looked for.
        let is_unnamed = self.has_objects()
            && (mark.is_of_large_messages()
                || matches!(
                    mark,
                    Mark::UnorderedSurvived | Mark::MixedSurvived | Mark::LookedAhead
                ));
        is_of_kind && !is_undone && !is_unnamed
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
            Kind::DurableObjects => "Replicated objects on disks",
        }
    }
}
