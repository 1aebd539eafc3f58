//! One-sided memory over TCP, for several hosts, or for one host whose members share no memory.
//!
//! **Purpose.** The verbs of [`crate::Fabric`] on members that are reached by a socket address. The
//! owner of the memory performs them when they arrive, so a peer's progress costs the owner's CPU
//! ([`crate::Capabilities::peer_works`]), and its memory dies with its process.
//!
//! **Assumptions.** TCP delivers bytes in order and unchanged or breaks; a peer that knows the
//! cluster secret is honest (frames carry no proof of their own, and nothing is encrypted: a
//! hostile network needs TLS around it); all members have the same layout, which the handshake
//! checks.
//!
//! # How the promises are kept
//! - T1, T3, T5, T6: the owner's thread performs each verb with the atomic operations of
//!   [`region::Words`], so verbs are also atomic with any other process that maps the region.
//! - T2, T7: one connection per pair, one stream of frames, performed in the order of arrival.
//! - T4: answers go back in the order of the verbs. When a link breaks, all waiting verbs complete
//!   as `Unknown`, then `LinkDown` is reported. Verbs that were sent before may be in the network
//!   or in the peer's socket and still take effect: **until the next `LinkUp` of that peer, and not
//!   after**, since the peer closes the old connection, with the bytes left in it, before it
//!   answers the new one (L1). A poster that must know sooner has to ask a majority.
//! - T8: a broken connection is `LinkDown`; the death of a process is `ProcessFailed` as soon as
//!   its [`sentinel`] reports it, which is before the kernel closes the dead process's connections.
//! - T9: any arrival makes the descriptor readable, whether the peer was told to wake or not.
//! - T10: a new link that replaces another is announced one poll after the end of that one, and
//!   accepts nothing before (L5).
//!
//! # Invariants
//! Of frames W1..W4 ([`wire`]), of the handshake H1..H3 ([`hello`]) and H4..H6 (`handshake`), of
//! links L1..L5 (`link`), of the sentinel S1..S3 ([`sentinel`]).
//!
//! # Which member connects
//! ```text
//!  higher rank                                 lower rank
//!  Retrying --connect--> Opening               Awaited ---------.
//!     ^                   |  handshake            ^   proven    |
//!     |  refused, broken, |                       |   (replaces |
//!     '-- or too late ----+                     broken  what is |
//!     |                   v                       |     up)     v
//!     '------ broken ---- Up <=== frames ===> Up -'<------------'
//! ```
//! The higher rank connects, so there is never a second connection to choose between; the lower
//! rank takes a new connection as proof that the old one is over. Sentinels connect to all others.
//!
//! # Cost
//! A verb is bytes in a buffer; [`crate::Fabric::flush`] sends each link's buffer with one system
//! call. A poll asks the kernel once, receives once from each readable link, performs the received
//! verbs, and sends all answers to a peer with one system call. The steady state allocates nothing.
//!
//! # Absent on purpose
//! Threads, blocking calls, per-frame checksums (TCP has one), heartbeats (the layer above has
//! them, and they also detect a hung peer), encryption (a tunnel or TLS, later).

mod attempt;
mod door;
mod handshake;
pub mod hello;
mod input;
mod link;
mod open;
mod output;
mod parcels;
mod peer;
mod port;
mod provider;
pub mod sentinel;
mod socket;
mod status;
pub mod wire;

pub use provider::TcpFabric;
pub use status::{DoorCounters, LinkCounters, LinkError, LinkState, LinkStatus};
use std::time::Duration;

/// The most bytes that may wait for one peer; above it, its link is given up (L3).
///
/// The bound includes answers: a peer that READs more than this before it receives any of it loses
/// the link.
pub const OUTPUT_BYTES_MAX: usize = 16 << 20;

/// The most bytes that may wait for a peer while messages are accepted: the rest is for verbs,
/// which cannot be refused.
pub const MESSAGES_BYTES_MAX: usize = OUTPUT_BYTES_MAX / 2;

/// The most bytes that may wait for one peer while there is room for parcels that can wait
/// ([`base::Port::has_room`]).
pub const RELAYED_BYTES_MAX: usize = 512 << 10;

/// The most signalled verbs that may wait for one peer; above it, its link is given up (L3).
pub const OUTSTANDING_MAX: usize = 1 << 16;

/// The most bytes of a peer's parcels that were not taken; above it, its link is given up (L3).
pub const PARCELS_BYTES_MAX: usize = 128 << 20;

/// The longest handshake.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(2);

/// The most incoming connections with a handshake under way. Further ones take the places of those
/// that are the least likely to be members'.
pub const INCOMING_MAX: usize = 16;

/// The most of them from one host that has no member's address.
pub const INCOMING_PER_STRANGER_MAX: usize = 4;

const RETRY_MIN: Duration = Duration::from_millis(2);
const RETRY_MAX: Duration = Duration::from_millis(500);

/// The least life of a good link: after a link that broke sooner, the next attempt waits longer.
const STEADY_AFTER: Duration = Duration::from_secs(1);

const _: () = assert!(OUTPUT_BYTES_MAX >= 4 * wire::FRAME_BYTES_MAX, "several frames fit");
const _: () = assert!(MESSAGES_BYTES_MAX >= wire::FRAME_BYTES_MAX, "every message finds room");
