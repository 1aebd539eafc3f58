//! What kinds of clusters there are.

use kv::door;

/// How members of a cluster replicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// In memory.
    Velos,
    /// Into logs on disk.
    Durable,
}

/// A mistake that is planted in what ships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    Engine(engine::Bug),
    Door(door::Bug),
}

impl Bug {
    /// Every one.
    pub(super) fn all() -> impl Iterator<Item = Bug> {
        let engine = engine::Bug::ALL.iter().copied().map(Bug::Engine);
        engine.chain(door::Bug::ALL.iter().copied().map(Bug::Door))
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Bug::Engine(bug) => bug.name(),
            Bug::Door(bug) => bug.name(),
        }
    }

    pub(super) const fn engine(self) -> Option<engine::Bug> {
        if let Bug::Engine(bug) = self { Some(bug) } else { None }
    }

    pub(super) const fn door(self) -> Option<door::Bug> {
        if let Bug::Door(bug) = self { Some(bug) } else { None }
    }
}

/// A kind of cluster: its protocol, and the mistake that is planted in its members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinship {
    pub(crate) protocol: Protocol,
    pub(crate) bug: Option<Bug>,
}
