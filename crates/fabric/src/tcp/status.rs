//! The state of a link and the reason why it last broke, for `status` and metrics.

use super::hello::Refusal;
use super::wire::WireError;
use super::{HANDSHAKE_MAX, OUTPUT_BYTES_MAX, OUTSTANDING_MAX, PARCELS_BYTES_MAX};
use base::{Incarnation, Rank};
use rustix::io::Errno;
use std::net::SocketAddr;

/// The reason why a link broke, or does not come up. Each text is one line that names the cause
/// and, if there is one, the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The peer's kernel reports that the connection is over.
    #[error("the peer closed the connection: its process has ended or dropped the link")]
    Closed,
    /// The network, or the local kernel, reports an error.
    #[error("{doing}: {errno}")]
    Os {
        /// The operation.
        doing: &'static str,
        /// The error.
        errno: Errno,
    },
    /// The peer sent bytes that are not a frame.
    #[error("the peer sent {0}: it is broken, or of another version")]
    Wire(#[from] WireError),
    /// The peer sent an answer that was not due, or a frame that its role does not send.
    #[error("the peer sent {0}: it is broken, or of another version")]
    Unexpected(&'static str),
    /// The peer reads too slowly, or not at all.
    #[error("{OUTPUT_BYTES_MAX} bytes wait for a peer that does not read: it hangs or is overrun")]
    OutputFull,
    /// The peer does not answer.
    #[error("{OUTSTANDING_MAX} verbs wait for a peer that does not answer: it hangs")]
    OutstandingFull,
    /// This node does not take the peer's parcels.
    #[error("{PARCELS_BYTES_MAX} bytes of parcels of the peer were not taken: this node is behind")]
    ParcelsFull,
    /// This node refused the peer.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// This node refused a connection before it had proved that it is the peer's: any program that
    /// reaches the port can make such a connection.
    #[error("refused a connection that claims to be the peer's: {0}")]
    Unproven(Refusal),
    /// The peer refused this node.
    #[error("the peer refuses (reason {code}): {text}")]
    RefusedByPeer {
        /// The number of its reason.
        code: u8,
        /// Its text.
        text: String,
    },
    /// The handshake was not complete in time.
    #[error(
        "no handshake within {HANDSHAKE_MAX:?}: the peer hangs, or something between drops packets"
    )]
    HandshakeTimeout,
    /// The peer connected again; the link is only as old as that connection.
    #[error("the peer opened a new connection: its process, or the network between, restarted")]
    Reconnected,
}

impl LinkError {
    /// Whether one of the two refuses the other for what a configuration has to mend. (A refusal
    /// of a connection that another one has overtaken passes by itself: the peer still holds the
    /// connection of a process, or a host, that has ended without a word.)
    pub fn is_lasting_refusal(&self) -> bool {
        match self {
            LinkError::Refused(refusal) => !matches!(refusal, Refusal::Overtaken(_)),
            LinkError::RefusedByPeer { code, .. } => *code != Refusal::OVERTAKEN,
            _ => false,
        }
    }

    /// Whether the layouts of the two differ.
    pub fn is_of_layout(&self) -> bool {
        match self {
            LinkError::Refused(refusal) | LinkError::Unproven(refusal) => {
                matches!(refusal, Refusal::Layout { .. })
            }
            LinkError::RefusedByPeer { code, .. } => *code == Refusal::LAYOUT,
            _ => false,
        }
    }
}

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// This node itself: always there.
    Own,
    /// Connected and proven.
    Up,
    /// This node is connecting, or shaking hands.
    Opening,
    /// This node will connect again soon.
    Retrying,
    /// The peer has the higher rank, and will connect.
    Awaited,
}

/// Totals of one link since this process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// The number of times that it came up.
    pub ups: u64,
    /// The number of times that it broke.
    pub downs: u64,
    /// System calls that sent.
    pub sends: u64,
    /// System calls that received something.
    pub receives: u64,
    /// Bytes handed to the kernel.
    pub sent_bytes: u64,
    /// Bytes taken from the kernel.
    pub received_bytes: u64,
    /// Writing verbs of the peer that were not performed, for want of permission.
    pub refused_verbs: u64,
}

/// One row of [`super::TcpFabric::links`].
#[derive(Clone, Debug)]
pub struct LinkStatus {
    /// The peer.
    pub rank: Rank,
    /// The peer's address.
    pub address: SocketAddr,
    /// The link's state.
    pub state: LinkState,
    /// The peer's incarnation, if it ever had a link here.
    pub incarnation: Option<Incarnation>,
    /// Whether the peer's sentinel is connected: without it a death is visible only when the kernel
    /// has freed the dead process's memory.
    pub sentinel: bool,
    /// The reason why it last broke or did not come up.
    pub last_error: Option<LinkError>,
    /// Its totals.
    pub counters: LinkCounters,
}

/// The counters of the listening socket, for connections that belong to no link (yet).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoorCounters {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused, for whatever reason.
    pub refused: u64,
    /// Connections that were not a gregale node's.
    pub garbage: u64,
    /// Connections dropped because they did not finish the handshake in time.
    pub timed_out: u64,
    /// Connections dropped because too many had a handshake under way.
    pub crowded_out: u64,
    /// Times that the kernel had no descriptor or memory for a connection.
    pub starved: u64,
    /// The reason of the last refusal.
    pub last_refusal: Option<Refusal>,
}
