//! The planted mistakes of a group's process: in views, in the table below,
//! or in the objects above.

use group::simulated;
use proto::planted::{Bugs, Caught};
use proto::{sst, vsync};

/// A planted mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    View(vsync::bugs::Bug),
    Table(sst::bugs::Bug),
    Object(simulated::bugs::Bug),
}

impl Bug {
    /// Every mistake.
    pub(super) fn all() -> impl Iterator<Item = Bug> {
        let views = vsync::bugs::Bug::ALL.iter().copied().map(Bug::View);
        let tables = sst::bugs::Bug::ALL.iter().copied().map(Bug::Table);
        views.chain(tables).chain(simulated::bugs::Bug::ALL.iter().copied().map(Bug::Object))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Bug::View(bug) => bug.name(),
            Bug::Table(bug) => bug.name(),
            Bug::Object(bug) => bug.name(),
        }
    }

    pub(super) fn caught(self) -> Caught {
        match self {
            Bug::View(bug) => bug.caught(),
            Bug::Table(bug) => bug.caught(),
            Bug::Object(bug) => bug.caught(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::planted::badly_listed;

    #[test]
    fn every_mistake_has_a_sentence_and_a_name_of_its_own() {
        assert_eq!(badly_listed::<vsync::bugs::Bug>(), None);
        assert_eq!(badly_listed::<sst::bugs::Bug>(), None);
        assert_eq!(badly_listed::<simulated::bugs::Bug>(), None);
        for bug in Bug::all() {
            assert_eq!(Bug::all().filter(|other| other.name() == bug.name()).count(), 1);
        }
    }
}
