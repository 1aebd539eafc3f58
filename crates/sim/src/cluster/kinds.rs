//! What kinds of clusters there are.

use engine::Bug;

/// How members of a cluster replicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// In memory.
    Velos,
    /// Into logs on disk.
    Durable,
}

/// A kind of cluster: its protocol, and the mistake that is planted in its engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinship {
    pub(crate) protocol: Protocol,
    pub(crate) bug: Option<Bug>,
}
