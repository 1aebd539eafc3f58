//! Why a region cannot be had. Each text names the cause and the mend; none of them leaves anything
//! behind or changes an existing region.

use base::NodeId;
use std::io;
use std::path::{Path, PathBuf};

/// Why a region could not be created, attached or opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system has not as much memory left.
    #[error(
        "{path}: no room for a region of {bytes} bytes: free some space there, enlarge it \
         (mount -o remount,size=...), or choose another directory",
        path = path.display()
    )]
    Full {
        /// What was to be created.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// There is one already, of nobody who lives.
    #[error(
        "{path} already exists and nobody owns it: attach to it to go on where it stopped, or \
         remove it if that state is not wanted",
        path = path.display()
    )]
    Exists {
        /// What was to be created.
        path: PathBuf,
    },
    /// There is none.
    #[error(
        "{path} does not exist: this node's memory is gone or was never made; bootstrap the \
         cluster if it is new, otherwise replace this member",
        path = path.display()
    )]
    Missing {
        /// What was looked for.
        path: PathBuf,
    },
    /// Another process has this identity.
    #[error(
        "{path} is owned by process {pid}: stop that process, or give this one another node id",
        path = path.display()
    )]
    Locked {
        /// Whose lock is taken.
        path: PathBuf,
        /// The owner, as it says itself.
        pid: u64,
    },
    /// The file is something else.
    #[error(
        "{path} is not a region of gregale (or was cut short): remove it if nobody needs it, or \
         choose another directory",
        path = path.display()
    )]
    NotARegion {
        /// What was opened.
        path: PathBuf,
    },
    /// It was written by a program of another format.
    #[error(
        "{path} has format version {found}, this program has {expected}: run the program that made \
         it, or stop the cluster cleanly and start it anew",
        path = path.display()
    )]
    Version {
        /// What was opened.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// Ours.
        expected: u64,
    },
    /// It belongs to another cluster, or to the same name with another secret.
    #[error(
        "{path} belongs to another cluster (its fingerprint is {found:016x}, this one's is \
         {expected:016x}): use the same cluster name and secret for all members, or another \
         directory",
        path = path.display()
    )]
    Cluster {
        /// What was opened.
        path: PathBuf,
        /// Its fingerprint.
        found: u64,
        /// Ours.
        expected: u64,
    },
    /// It is another node's under this node's name.
    #[error(
        "{path} is the region of node {found}, not of node {expected}: it was renamed; give it its \
         own name back",
        path = path.display()
    )]
    Node {
        /// What was opened.
        path: PathBuf,
        /// Whose it is.
        found: NodeId,
        /// Whose it should be.
        expected: NodeId,
    },
    /// It is of another life of this node, whose memory was given up.
    #[error(
        "{path} is of incarnation {found}, this node is configured as incarnation {expected}: a \
         node that lost its memory comes back by being replaced",
        path = path.display()
    )]
    Incarnation {
        /// What was opened.
        path: PathBuf,
        /// What it holds.
        found: u64,
        /// What was asked for.
        expected: u64,
    },
    /// Protocol, its parameters or the size differ.
    #[error(
        "{path}: its {field} is {found:#x}, this node's is {expected:#x}: start all members with \
         the same protocol and the same limits",
        path = path.display()
    )]
    Layout {
        /// What was opened.
        path: PathBuf,
        /// Which field differs.
        field: &'static str,
        /// Its value.
        found: u64,
        /// Ours.
        expected: u64,
    },
    /// It is a leftover of before the machine's last boot.
    #[error(
        "{path} was made before this machine's last boot, so other members may remember what it \
         does not: remove it and replace this member",
        path = path.display()
    )]
    StaleBoot {
        /// What was opened.
        path: PathBuf,
    },
    /// The operating system refused something else.
    #[error("cannot {doing} {path}: {source}", path = path.display())]
    Os {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn os(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> Error {
        Error::Os { doing, path: path.to_owned(), source: source.into() }
    }
}
