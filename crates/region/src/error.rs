//! The reasons why a region is not available. Each text names the cause and the remedy; none of
//! them leaves anything behind or changes an existing region.

use base::NodeId;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a region could not be created, attached or opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system does not have enough memory left.
    #[error(
        "{path}: no room for a region of {bytes} bytes: free some space there, enlarge it \
         (mount -o remount,size=...), or choose another directory",
        path = path.display()
    )]
    Full {
        /// The path to be created.
        path: PathBuf,
        /// The region's size.
        bytes: u64,
    },
    /// The region exists already, and its owner is dead.
    #[error(
        "{path} already exists and has no live owner: continue with it (start = \"reattach\"); without \
         it, this member takes part as a new incarnation only (start = \"join\")",
        path = path.display()
    )]
    Exists {
        /// The path to be created.
        path: PathBuf,
    },
    /// The region does not exist.
    #[error(
        "{path} does not exist: this node's memory is gone or was never made; bootstrap the \
         cluster if it is new, otherwise replace this member",
        path = path.display()
    )]
    Missing {
        /// The path that was looked for.
        path: PathBuf,
    },
    /// Another process has this identity.
    #[error(
        "{path} is owned by process {pid}: stop that process, or give this one another node id",
        path = path.display()
    )]
    Locked {
        /// The path of the locked file.
        path: PathBuf,
        /// The owner's process id, by its own record.
        pid: u64,
    },
    /// The file is not a region.
    #[error(
        "{path} is not a region of gregale (or was cut short): remove it if it is not needed, or \
         choose another directory",
        path = path.display()
    )]
    NotARegion {
        /// The path that was opened.
        path: PathBuf,
    },
    /// The region was made by another version of the program.
    #[error(
        "{path} was made by another version of gregale ({of} version {found}, this program has \
         {expected}): run that version again; what is in memory alone passes to this one by \
         `gregale backup` with that version, and `gregale restore` into a new cluster",
        path = path.display()
    )]
    Version {
        /// The path that was opened.
        path: PathBuf,
        /// What has that version: the region's `format`, or the `rules` of its nodes.
        of: &'static str,
        /// The region's version.
        found: u64,
        /// This program's version.
        expected: u64,
    },
    /// The region belongs to another cluster, or to one of the same name with another secret.
    #[error(
        "{path} belongs to another cluster (its fingerprint is {found:016x}, this one's is \
         {expected:016x}): use the same cluster name and secret for all members, or another \
         directory",
        path = path.display()
    )]
    Cluster {
        /// The path that was opened.
        path: PathBuf,
        /// The region's fingerprint.
        found: u64,
        /// This node's fingerprint.
        expected: u64,
    },
    /// The region is another node's under this node's name.
    #[error(
        "{path} is the region of node {found}, not of node {expected}: it was renamed; give it its \
         own name back",
        path = path.display()
    )]
    Node {
        /// The path that was opened.
        path: PathBuf,
        /// The region's node.
        found: NodeId,
        /// The node that it should belong to.
        expected: NodeId,
    },
    /// The region is of another incarnation of this node, whose memory was given up.
    #[error(
        "{path} is of incarnation {found}, this node is configured as incarnation {expected}: a \
         node that lost its memory comes back by being replaced",
        path = path.display()
    )]
    Incarnation {
        /// The path that was opened.
        path: PathBuf,
        /// The region's incarnation.
        found: u64,
        /// The expected incarnation.
        expected: u64,
    },
    /// The protocol, its parameters or the size differ.
    #[error(
        "{path}: its {field} is {found:#x}, this node's is {expected:#x}: start all members with \
         the same protocol, limits and settings",
        path = path.display()
    )]
    Layout {
        /// The path that was opened.
        path: PathBuf,
        /// The field that differs.
        field: &'static str,
        /// The region's value.
        found: u64,
        /// This node's value.
        expected: u64,
    },
    /// The region was made before the machine's last boot.
    #[error(
        "{path} was made before this machine's last boot, so other members may remember what it \
         does not: remove it and replace this member",
        path = path.display()
    )]
    StaleBoot {
        /// The path that was opened.
        path: PathBuf,
    },
    /// The operating system refused another operation.
    #[error("cannot {doing} {path}: {source}", path = path.display())]
    Os {
        /// The operation.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn os(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> Error {
        Error::Os { doing, path: path.to_owned(), source: source.into() }
    }
}
